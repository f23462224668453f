"""The scale parameter gamma of a kernel: a number, or a rule that computes it from the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd.kernels.base import Array, as_rows, check_number, power_of_two

__all__ = ["Gamma", "check_gamma", "resolve_gamma"]

Gamma = float | str | None

_RULES = ("variance", "median")
_MEDIAN_ROWS = 1000  # rows whose distances give the median
_BLOCK = 1 << 20  # elements of a temporary array


def check_gamma(gamma: object) -> Gamma:
    """Return the checked ``gamma``: a positive number, "variance", "median" or None."""
    if gamma is None or (isinstance(gamma, str) and gamma in _RULES):
        return gamma
    if isinstance(gamma, str):
        raise ValueError(
            f"gamma is {gamma!r}; a positive number, 'variance', 'median' or None is needed"
        )
    return check_number(gamma, "gamma")


def resolve_gamma(gamma: Gamma, data: ArrayLike, metric: str) -> float:
    """Return the value of ``gamma`` for rows ``data`` (n, d).

    None is 1/d. "variance" is ``1 / (2 v)`` with v the sum over columns of the variances (ddof=1);
    for one column the rule of Young et al. "median" is ``1 / (2 m^2)`` with m the median Euclidean
    distance of (at most 1,000 evenly spaced) rows, or ``1 / m`` for the L1 distance.
    """
    if isinstance(gamma, float):
        return gamma
    rows: Any = data if hasattr(data, "blocks") else as_rows(data)  # on disk: read in blocks
    if gamma is None:
        return 1.0 / rows.shape[1]
    if len(rows) < 2:
        raise ValueError(f"gamma={gamma!r} needs at least two rows, got {len(rows)}; give a number")
    if gamma == "variance":
        with np.errstate(over="ignore"):  # then it is infinite, and `_finite` says so
            total = _total_variance(rows)
        if not total > 0:
            equal = all((block == rows[:1][0]).all() for block in _parts(rows))
            why = "all rows are equal" if equal else "their squares underflow"
            raise ValueError(
                f"gamma='variance' needs data that vary, {why}; give a number or scale them"
            )
        return _finite(1.0 / (2.0 * total), gamma)
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MEDIAN_ROWS)).astype(int))]
    from scipy.spatial.distance import pdist  # slow to load: only when used

    some = some.astype(np.float64)
    largest = np.abs(some).max()
    scale = power_of_two(float(largest))  # so that no square under- or overflows
    median = float(np.median(pdist(some * scale, metric))) / scale
    if not median > 0:
        raise ValueError(
            "gamma='median' needs data that vary, more than half of the distances are 0; give a number"
        )
    return _finite(0.5 / median / median if metric == "euclidean" else 1.0 / median, gamma)


def _total_variance(rows: Array) -> float:
    """Return the sum over columns of the variances (ddof=1).

    Works in blocks of rows, whereas NumPy would copy all rows. The first row is subtracted, so that equal
    rows give exactly 0 even if their mean rounds.
    """
    first = rows[:1][0].astype(np.float64)
    mean = sum((block - first).sum(axis=0) for block in _parts(rows)) / len(rows)
    total = sum(float(np.square(block - first - mean).sum()) for block in _parts(rows))
    return total / (len(rows) - 1)


def _parts(rows: Array) -> Iterator[Array]:
    """Yield the rows in blocks."""
    step = max(1, _BLOCK // rows.shape[1])
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _finite(value: float, rule: object) -> float:
    if not np.isfinite(value) or value <= 0:
        raise ValueError(
            f"gamma={rule!r} gives {value:g} for these data; give a number or scale them"
        )
    return value
