"""The scale of a kernel: a number, or a rule that takes it from the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.kernels.base import Array, as_rows, check_number

__all__ = ["Gamma", "check_gamma", "resolve_gamma"]

Gamma = float | str | None

_RULES = ("variance", "median")
_MEDIAN_ROWS = 1000  # rows whose distances give the median
_BLOCK = 1 << 20  # elements of a temporary array


def check_gamma(gamma: Any) -> Gamma:
    """Return a valid ``gamma``: a positive number, "variance", "median" or None."""
    if gamma is None or (isinstance(gamma, str) and gamma in _RULES):
        return gamma
    if isinstance(gamma, str):
        raise ValueError(
            f"gamma is {gamma!r}; a positive number, 'variance', 'median' or None is needed"
        )
    return check_number(gamma, "gamma")


def resolve_gamma(gamma: Gamma, data: Any, metric: str) -> float:
    """Return the number that ``gamma`` means for rows ``data`` (n, d).

    None is 1/d. "variance" is ``1 / (2 v)`` with v the sum over columns of the variances (ddof=1);
    for one column the rule of Young et al. "median" is ``1 / (2 m^2)`` with m the median Euclidean
    distance of (at most 1,000 evenly spaced) rows, or ``1 / m`` for the L1 distance.
    """
    if isinstance(gamma, float):
        return gamma
    rows = data if hasattr(data, "blocks") else as_rows(data)  # on disk: read as it is needed
    if gamma is None:
        return 1.0 / rows.shape[1]
    if len(rows) < 2:
        raise ValueError(f"gamma={gamma!r} needs at least two rows, got {len(rows)}; give a number")
    if gamma == "variance":
        total = _total_variance(rows)
        if not total > 0:
            raise ValueError(
                "gamma='variance' needs data that vary, all rows are equal; give a number"
            )
        return _finite(1.0 / (2.0 * total), gamma)
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MEDIAN_ROWS)).astype(int))]
    from scipy.spatial.distance import pdist  # slow to load: only when used

    median = float(np.median(pdist(some.astype(np.float64), metric)))
    if not median > 0:
        raise ValueError(
            "gamma='median' needs data that vary, more than half of the distances are 0; give a number"
        )
    return _finite(1.0 / (2.0 * median**2) if metric == "euclidean" else 1.0 / median, gamma)


def _total_variance(rows: Array) -> float:
    """Return the sum over columns of the variances (ddof=1).

    In blocks of rows, where NumPy would copy all of them; from the first row, so that equal rows give
    exactly 0, where their mean may round.
    """
    step = max(1, _BLOCK // rows.shape[1])
    first = rows[:1][0].astype(np.float64)
    blocks = [slice(start, start + step) for start in range(0, len(rows), step)]
    mean = sum((rows[block] - first).sum(axis=0) for block in blocks) / len(rows)
    total = sum(float(np.square(rows[block] - first - mean).sum()) for block in blocks)
    return total / (len(rows) - 1)


def _finite(value: float, rule: Any) -> float:
    if not np.isfinite(value) or value <= 0:
        raise ValueError(
            f"gamma={rule!r} gives {value:g} for these data; give a number or scale them"
        )
    return value
