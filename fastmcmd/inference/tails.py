"""Whether a mean of unbounded losses settles: the shape of the tails of their differences.

No confidence interval for a mean holds for every distribution without bounds (Bahadur & Savage, *The
nonexistence of certain statistical procedures in nonparametric problems*, Annals of Mathematical
Statistics, 1956). A t interval holds if no few rows decide the mean, which the largest values show.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.arrays import HOST
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = ["LARGEST_SHAPE", "LEAST_VALUES", "tail_shape", "why_no_interval"]

LEAST_VALUES = 200  # with fewer, the largest values say too little about what the next ones may be
LARGEST_SHAPE = 0.2  # by simulation: docs/comparing.md, `tests/simulations/comparison.py --scores`
_LEAST_IN_TAIL = 30
_ROUNDING = 1e-11  # relative to the largest value: values that differ less are ties

Array = NDArray[np.float64]


def tail_shape(values: Array) -> float:
    """Return the shape of the upper tail: -1 if it is uniform, 0 if exponential, 1 / a for a Pareto law.

    Parameters
    ----------
    values : ndarray (n,)
        Finite values.

    Returns
    -------
    float
        Shape of the generalised Pareto distribution. Minus infinity: the largest values are equal.
        Infinity: most values are equal, and fewer than 30 are larger.

    Notes
    -----
    The tail is the ``max(30, min(n / 5, 3 sqrt(n)))`` largest values and their ties, measured from the
    next smaller value. If more than half of all values would be in it, it starts above the ties. The first
    two L-moments of the generalised Pareto distribution are ``l1 = s / (1 - k)`` and
    ``l2 = s / ((1 - k) (2 - k))``, so its shape is ``k = 2 - l1 / l2``: Hosking, Wallis, *Parameter and
    quantile estimation for the generalized Pareto distribution* (Technometrics, 1987). Vehtari, Simpson,
    Gelman, Yao, Gabry, *Pareto smoothed importance sampling* (Journal of Machine Learning Research, 2024),
    judge the mean of importance weights by the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> levels = (np.arange(2_000) + 0.5) / 2_000
    >>> [round(tail_shape(one), 1) + 0.0 for one in (levels, -np.log1p(-levels), (1 - levels) ** -0.5)]
    [-1.0, 0.0, 0.5]
    """
    n = len(values)
    count = max(_LEAST_IN_TAIL, int(min(n / 5, 3 * math.sqrt(n))))
    if n <= count:
        raise ValueError(f"{n} values have no tail; more than {_LEAST_IN_TAIL} are needed")
    ascending = np.sort(np.asarray(values, dtype=np.float64) / unit_of(HOST, values))
    first = int(np.searchsorted(ascending, ascending[-count] - _ROUNDING))
    if first < n / 2:  # many ties: the tail starts above them
        first = int(np.searchsorted(ascending, ascending[-count] + _ROUNDING))
        if first == n:
            return -math.inf
        if n - first < _LEAST_IN_TAIL:
            return math.inf
    excess = ascending[first:] - ascending[first - 1]
    m = len(excess)
    ranks = 2.0 * np.arange(1, m + 1) - m - 1
    second = float(ranks @ excess) / (m * (m - 1))
    return 2 - float(excess.mean()) / second if second > _ROUNDING else -math.inf


def why_no_interval(terms: Array, unit: str = "rows") -> str:
    """Return why a sum of independent terms without bounds has no t interval; "" if it has one.

    Parameters
    ----------
    terms : ndarray (n,)
        The terms, about their mean.
    unit : str
        What a term stands for.
    """
    if len(terms) < LEAST_VALUES:
        return f"fewer than {LEAST_VALUES} {unit}"
    if max(tail_shape(terms), tail_shape(-terms)) >= LARGEST_SHAPE:
        return f"a few {unit} decide its mean"
    return ""
