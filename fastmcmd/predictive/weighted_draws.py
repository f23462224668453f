"""Predictions given as draws with weights of members, or with members missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import all_finite, as_array, check_choice, check_count
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.errors import RowError
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.draws import ESTIMATORS, UNBIASED, refuse_density
from fastmcmd.predictive.numerics.spread import root_of_squares

__all__ = ["WeightedDraws", "pair_share"]

_BLOCK = 1 << 14  # draws per block, whose temporaries stay in the cache


def pair_share(shares: Array) -> Array:
    """Return ``sum_{i != j} w_i w_j`` (n,) of shares (n, m) that sum to 1.

    It is ``1 - sum_i w_i^2``, which rounding makes 0 if one member has nearly all of the weight.
    """
    ascending = np.sort(shares, axis=1)
    below = np.cumsum(ascending, axis=1)[:, :-1]
    return np.asarray(2 * np.einsum("nm,nm->n", below, ascending[:, 1:]))


class WeightedDraws(Predictive):
    """Empirical distributions of draws with weights; draws that are NaN are missing members.

    Parameters
    ----------
    array : array_like (n, m)
        Draws of numbers, m per input. NaN is a missing member: it has weight 0.
    weights : array_like (n, m) or (m,), optional
        Nonnegative weights of the members, normalised in each row. Default: equal.

    Attributes
    ----------
    values, weights : ndarray (n, m)
        The draws, in ascending order along each row, and their weights, which sum to 1. Missing members
        are at the end of the row, at its largest value, with weight 0.

    Raises
    ------
    ValueError
        Infinite draws, weights that are negative, not finite or of another shape, or a row without a
        member of positive weight.

    Notes
    -----
    Scores, PIT values and expectations of kernels are those of the weighted empirical distribution, as in
    properscoring's ``crps_ensemble(observations, forecasts, weights)``, which ignores missing members, too.
    `quantile` returns the smallest draw with ``cdf >= level``.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> some = fm.WeightedDraws([[0.0, 1.0, np.nan], [0.0, 1.0, 5.0]], [1.0, 3.0, 4.0])
    >>> some.mean.tolist()
    [0.75, 2.875]
    """

    discrete = True
    has_density = False

    def __init__(self, array: ArrayLike, weights: ArrayLike | None = None) -> None:
        values = as_array(array, "array").astype(np.float64, copy=False)
        if values.ndim != 2 or values.size == 0:
            raise ValueError(f"array of draws has shape {values.shape}; (n, m) is needed")
        missing = None if all_finite(values) else np.isnan(values)
        if missing is not None and np.isinf(values).any():
            row = int(np.isinf(values).any(axis=1).argmax())
            raise RowError(f"array of draws holds infinity (first in row {row})", row)
        masses = np.ones(values.shape[1]) if weights is None else as_array(weights, "weights")
        if masses.shape not in (values.shape, values.shape[1:]):
            raise ValueError(
                f"weights have shape {masses.shape} and array has {values.shape}; weights of shape "
                f"{values.shape} or {values.shape[1:]} are needed: one per member"
            )
        masses = np.broadcast_to(masses.astype(np.float64, copy=False), values.shape)
        if missing is not None:
            masses = np.where(missing, 0.0, masses)
        if not (masses.min() >= 0 and masses.max() < np.inf):  # false if any is NaN
            raise ValueError("weights hold negative, infinite or missing values; all must be >= 0")
        largest = masses.max(axis=1)
        if (largest == 0).any():
            row = int((largest == 0).argmax())
            raise RowError(
                f"row {row} of array has no member with positive weights; leave such rows out", row
            )
        ascending, shares = np.empty(values.shape), np.empty(values.shape)
        order = np.empty(values.shape, dtype=np.intp)

        def sort(rows: slice) -> None:
            share = masses[rows] / largest[rows, None]  # sums cannot overflow
            share /= share.sum(axis=1, keepdims=True)
            np.copyto(order[rows], np.argsort(values[rows], axis=1))  # NaN last
            places = order[rows] + np.arange(share.size, step=share.shape[1])[:, None]
            ascending[rows] = values[rows].ravel().take(places)
            shares[rows] = share.ravel().take(places)

        over_rows(sort, len(values), max(1, _BLOCK // values.shape[1]))
        if missing is not None:
            last = np.nanmax(ascending, axis=1, keepdims=True)
            ascending = np.where(np.isnan(ascending), last, ascending)
        self._set(ascending, shares, order if missing is None else None)

    def _set(self, values: Array, weights: Array, order: NDArray[np.intp] | None) -> None:
        self.values, self.weights = values, weights
        # The original position of each value in its row; None if members are missing.
        self._order = order

    def members(self, purpose: str) -> tuple[Array, Array]:
        """Return draws and weights (n, m) in the order in which they came."""
        if self._order is None:
            raise ValueError(
                f"prediction has missing members; {purpose} needs all of them, in order"
            )
        back = np.argsort(self._order, axis=1)
        values, weights = (
            np.take_along_axis(one, back, axis=1) for one in (self.values, self.weights)
        )
        return values, weights

    def __repr__(self) -> str:
        return f"WeightedDraws{self.values.shape}"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (len(self.values),)

    def _centred(self) -> tuple[Array, Array, Array]:
        """Return first values (n, 1), gaps from them (n, m), and mean gaps (n, 1)."""
        first = self.values[:, :1]
        gaps = self.values - first
        return first, gaps, np.einsum("nm,nm->n", self.weights, gaps)[:, None]

    @property
    def mean(self) -> Array:
        """Weighted means (n,)."""
        return np.asarray(np.einsum("nm,nm->n", self.weights, self.values))

    @property
    def variance(self) -> Array:
        """Weighted variances (n,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Weighted standard deviations (n,)."""
        _, gaps, middle = self._centred()
        return root_of_squares(self.weights, gaps - middle, 1)

    def cdf(self, y: ArrayLike) -> Array:
        """Return the weight of draws <= y (n,)."""
        return self._weight(y, np.less_equal)

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return the weight of draws < y (n,)."""
        return self._weight(y, np.less)

    def sf(self, y: ArrayLike) -> Array:
        """Return the weight of draws > y (n,)."""
        return self._weight(y, np.greater)

    def _weight(self, y: ArrayLike, compare: np.ufunc) -> Array:
        y = np.broadcast_to(self.outcomes(y), self.shape)
        inside = compare(self.values, y[:, None])
        share = np.einsum("nm,nm->n", self.weights, inside)
        return np.where(np.isnan(y), np.nan, np.minimum(share, 1.0))

    def log_prob(self, y: ArrayLike) -> Array:
        """Raise ValueError: draws have no density."""
        del y
        refuse_density()

    @property
    def has_quick_quantiles(self) -> bool:
        """True: quantiles are draws."""
        return True

    def quantiles_at(self, levels: Array) -> Array:
        """Return the smallest draws (n, j) of positive weight with ``cdf >= level``."""
        levels = np.maximum(levels, np.finfo(np.float64).tiny)
        cumulative = np.cumsum(self.weights, axis=1)
        cumulative /= cumulative[:, -1:]
        place = np.empty((len(self), levels.shape[1]), dtype=np.intp)
        for column in range(levels.shape[1]):
            place[:, column] = (cumulative < levels[:, column, None]).sum(axis=1)
        return np.take_along_axis(self.values, place, axis=1)

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return ``size`` draws with replacement (n, size)."""
        rng = generator(random_state, Purpose.SAMPLE)
        return self.quantiles_at(1 - rng.random((len(self), check_count(size, "size"))))

    def take(self, rows: NDArray[np.intp]) -> WeightedDraws:
        """Return the draws of some rows."""
        part = WeightedDraws.__new__(WeightedDraws)
        order = None if self._order is None else self._order[rows]
        part._set(self.values[rows], self.weights[rows], order)
        return part

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the draws and their weights."""
        del splits
        return self.values, self.weights

    @property
    def node_count(self) -> int:
        """Number of draws per row."""
        return int(self.values.shape[1])

    def _scores(self, y: ArrayLike) -> Array:
        outcomes = np.array(np.broadcast_to(self.outcomes(y), self.shape))
        if not all_finite(outcomes):
            return super().crps(y)
        scores = np.empty(len(outcomes))

        def score(rows: slice) -> None:  # rows are ascending, so their parts need no copies
            _core.step_scores(self.values[rows], self.weights[rows], outcomes[rows], scores[rows])

        over_rows(score, len(scores), max(1, _BLOCK // self.node_count))
        return scores

    def crps(self, y: ArrayLike, estimator: str = "qd") -> Array:
        """Return the continuous ranked probability score (n,).

        Parameters
        ----------
        y : array_like (n,)
            Observed outputs. NaN gives NaN; infinity gives an infinite score.
        estimator : {"qd", "nrg", "pwm", "fair"}, default "qd"
            As in `Draws.crps`: the score of the weighted empirical distribution, or ("pwm", "fair") the
            unbiased estimate of that of the distribution that the draws come from, for weights that do not
            depend on the draws.

        Notes
        -----
        ``sum_i w_i |x_i - y| - sum_ij w_i w_j |x_i - x_j| / (2 c)`` with c = 1, or ``1 - sum_i w_i^2``
        without bias (of equal weights, this is the "fair" score of Ferro 2014).
        """
        check_choice(estimator, "estimator", ESTIMATORS)
        score = self._scores(y)
        if estimator not in UNBIASED:
            return score
        if (single := (self.weights > 0).sum(axis=1) < 2).any():
            raise RowError(
                f"estimator is {estimator!r}, which needs at least two members of positive weight, and "
                f"row {int(single.argmax())} has one; use 'qd'",
                int(single.argmax()),
            )
        spread = self.half_gini()
        return np.asarray(score + spread - spread / pair_share(self.weights))

    def half_gini(self) -> Array:
        """Return ``sum_ij w_i w_j |x_i - x_j| / 2``: the integral of F (1 - F)."""
        below = np.cumsum(self.weights, axis=1)[:, :-1]
        above = np.cumsum(self.weights[:, ::-1], axis=1)[:, -2::-1]
        return np.asarray(np.einsum("nm,nm,nm->n", below, above, np.diff(self.values, axis=1)))
