"""Accumulators merge if their settings agree in content, however they print."""

from __future__ import annotations

import numpy as np
import pytest

from fastmcmd import streaming
from fastmcmd.kernels import RBF


class Total(streaming.Accumulator):
    """Accumulator of a sum; takes any setting."""

    def gather(self, batch):
        return sum(batch)

    def conclude(self, state):
        return state


def merged(one, other):
    return Total(points=one).update([1.0]).merge(Total(points=other).update([2.0])).compute()


def test_settings_that_differ_in_the_middle_of_a_long_array_are_refused():
    points = np.linspace(0, 1, 5_000)
    changed_points = points.copy()
    changed_points[2_500] += 0.5
    assert repr(points) == repr(changed_points)
    with pytest.raises(ValueError, match="other has settings") as error:
        merged(points, changed_points)
    assert "points=array of shape (5000,), this one" in str(error.value)
    assert len(str(error.value)) < 200
    assert merged(points, points.copy()) == 3.0


def test_settings_that_differ_beyond_the_printed_digits_are_refused():
    with pytest.raises(ValueError, match="settings"):
        merged(np.array([1.0]), np.array([1.0 + 1e-15]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([0.1, 0.5], np.array([0.1, 0.5])),
        ({"a": np.ones(3)}, {"a": np.ones(3)}),
        (RBF(0.5), RBF(0.5)),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0])),
        (float("nan"), float("nan")),
        (("x", None), ["x", None]),
        (np.array(["a", "b"]), np.array(["a", "b"])),
    ],
)
def test_equal_settings_merge(one, other):
    assert merged(one, other) == 3.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.ones(3), np.ones((3, 1))),
        ({"a": 1}, {"b": 1}),
        (RBF(0.5), RBF(0.6)),
        ((1, 2), (1, 2, 3)),
        (np.ones(2), "text"),
        (None, np.ones(2)),
    ],
)
def test_unequal_settings_do_not_merge(one, other):
    with pytest.raises(ValueError, match="settings"):
        merged(one, other)
