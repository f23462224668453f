"""Regression trees: rows are split where the means of targets differ most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Branch", "leaves"]

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_EQUAL = 2e-16  # mean variance of targets up to which they count as equal


@dataclass(frozen=True)
class Branch:
    """One side of a split: rows with values of a column up to ``low``, or from ``high`` on if ``above``.

    No value lies between.
    """

    column: int
    above: bool
    low: float
    high: float


def leaves(columns: Array, targets: Array, max_depth: int, least: int) -> list[tuple[Branch, ...]]:
    """Return the branches that lead to each leaf of a tree, from the root on.

    Parameters
    ----------
    columns : ndarray (n, c)
        What the rows are split by.
    targets : ndarray (n, k)
        Each split makes the sum of their squared distances to the means of both parts least. Of equal
        splits, the first column and the lowest values win.
    max_depth : int
        Number of splits that lead to a leaf, at most.
    least : int
        Number of rows of a leaf, at least.

    Notes
    -----
    The splits are those of Breiman, Friedman, Olshen & Stone, *Classification and Regression Trees* (1984),
    as in scikit-learn's ``DecisionTreeRegressor(max_depth=max_depth, min_samples_leaf=least)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.inference.regression_tree import leaves
    >>> low, high = leaves(np.array([[1.0], [2.0], [9.0]]), np.array([[0.0], [0.0], [1.0]]), 1, 1)
    >>> high
    (Branch(column=0, above=True, low=2.0, high=9.0),)
    """
    paths: list[tuple[Branch, ...]] = []
    waiting: list[tuple[Rows, tuple[Branch, ...]]] = [(np.arange(len(columns)), ())]
    while waiting:
        rows, path = waiting.pop()
        split = _best(columns, targets, rows, least) if len(path) < max_depth else None
        if split is None:
            paths.append(path)
            continue
        column, low, high = split
        below = columns[rows, column] <= low
        waiting.append((rows[~below], (*path, Branch(column, True, low, high))))
        waiting.append((rows[below], (*path, Branch(column, False, low, high))))
    return paths


def _best(
    columns: Array, targets: Array, rows: Rows, least: int
) -> tuple[int, float, float] | None:
    """Return the column of the best split of some rows and the values beside it; None without one."""
    n = len(rows)
    centred = targets[rows] - targets[rows].mean(axis=0)
    if n < 2 * least or (centred**2).mean() <= _EQUAL:
        return None
    count = np.arange(
        1, n
    )  # of the lower part; the sum of the higher one is minus that of the lower
    share = 1 / count + 1 / (n - count)
    enough = (count >= least) & (n - count >= least)
    most, best = -np.inf, None
    for column in range(columns.shape[1]):
        values = columns[rows, column]
        order = np.argsort(values, kind="stable")
        gain = (np.cumsum(centred[order], axis=0)[:-1] ** 2).sum(axis=1) * share
        values = values[order]
        gain[~(enough & (values[1:] > values[:-1]))] = -np.inf
        place = int(gain.argmax())
        if gain[place] > most:
            most = gain[place]
            best = column, float(values[place]), float(values[place + 1])
    return best
