"""Trees split as those of scikit-learn, which shares no code with them."""

from __future__ import annotations

import numpy as np
import pytest

from fastmcmd.inference.regression_tree import leaves


def _rows(columns, path):
    inside = np.ones(len(columns), dtype=bool)
    for one in path:
        values = columns[:, one.column]
        inside &= values >= one.high if one.above else values <= one.low
    return inside


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("digits", [0, 1, 12])
def test_leaves_are_those_of_scikit_learn(rng, depth, digits):
    tree = pytest.importorskip("sklearn.tree")
    columns = rng.normal(size=(300, 4)).round(digits)
    targets = np.stack([np.sin(2 * columns[:, 1]), (columns[:, 2] > 0.3) + 0.0], axis=1)
    targets += 0.3 * rng.normal(size=targets.shape)
    fitted = tree.DecisionTreeRegressor(max_depth=depth, min_samples_leaf=10, random_state=0)
    places = fitted.fit(columns, targets).apply(columns)
    expected = {tuple(np.flatnonzero(places == one)) for one in np.unique(places)}
    groups = {
        tuple(np.flatnonzero(_rows(columns, path))) for path in leaves(columns, targets, depth, 10)
    }
    assert groups == expected


def test_every_row_is_in_one_leaf(rng):
    columns, targets = rng.integers(0, 4, (90, 3)).astype(float), rng.normal(size=(90, 2))
    paths = leaves(columns, targets, 3, 7)
    inside = np.array([_rows(columns, path) for path in paths])
    assert (inside.sum(axis=0) == 1).all()
    assert inside.sum(axis=1).min() >= 7


@pytest.mark.parametrize(
    ("columns", "targets"),
    [
        (np.ones((50, 2)), np.arange(50.0)[:, None]),  # no column separates rows
        (np.arange(50.0)[:, None], np.ones((50, 2))),  # no targets differ
        (np.arange(19.0)[:, None], np.arange(19.0)[:, None]),  # too few rows for two leaves
    ],
)
def test_no_split(columns, targets):
    assert leaves(columns, targets, 3, 10) == [()]


def test_values_far_apart_and_close_together_are_separated():
    columns = np.array([1.0, np.nextafter(1.0, 2.0), 1e300, np.nextafter(1e300, np.inf)])[:, None]
    paths = leaves(columns, np.array([[0.0], [1.0], [5.0], [7.0]]), 2, 1)
    assert [np.flatnonzero(_rows(columns, path)).tolist() for path in paths] == [[0], [1], [2], [3]]
