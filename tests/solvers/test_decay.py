"""The number of products that CG still needs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fastmcmd.solvers.decay import products_left


@pytest.mark.parametrize("count", [2, 5, 12, 31])
def test_a_geometric_decay_is_continued(count):
    norms = 3.0 * 0.7 ** np.arange(count)
    expected = math.log(norms[-1] / 1e-9) / math.log(1 / 0.7)
    assert products_left(norms.tolist(), 1e-9, 1e4) == pytest.approx(expected)


def test_the_last_half_counts():
    slow_then_fast = [0.9**k for k in range(10)] + [0.9**9 * 0.1**k for k in range(1, 11)]
    count = products_left(slow_then_fast, slow_then_fast[-1] * 1e-5, 1e4)
    assert count == pytest.approx(5, rel=0.2)


@pytest.mark.parametrize("norms", [[], [1.0], [1.0, 1.0], [1.0, 2.0], [1.0, math.inf], [1.0, 0.0]])
def test_without_a_decay_the_limit_is_expected(norms):
    assert products_left(norms, 1e-6, 77.0) == 77.0


def test_none_are_left_at_the_target_and_never_more_than_the_limit():
    assert products_left([1.0, 1e-7], 1e-6, 77.0) == 0.0
    assert products_left([1.0, 0.999], 1e-6, 77.0) == 77.0
