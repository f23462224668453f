"""Predictions given as draws, such as ensembles and posterior samples."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, HostArray, Nodes, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import as_array, check_choice, check_count
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.errors import RowError
from fastmcmd.predictive.base import Predictive, check_levels
from fastmcmd.predictive.numerics.spread import root, root_of_squares

__all__ = ["ESTIMATORS", "UNBIASED", "Draws", "crps_factors", "places_of", "refuse_density"]

ESTIMATORS = ("qd", "nrg", "pwm", "fair")
UNBIASED = ("pwm", "fair")
_SEARCH_FROM = 256  # draws per row from which binary search reads less memory than a full pass
_COARSE = 2.0**64  # scale by which draws are divided if their sums overflow
_BLOCK = 1 << 19  # bytes of draws per block: its sorted copy stays in a core's cache


class Draws(Predictive):
    """Empirical distributions of equally weighted draws.

    Parameters
    ----------
    array : array_like (n,), (n, m) or (n, m, k)
        One draw per input, m draws, or m draws of vectors with k components. (n, m, 1) is read as (n, m).
        Arrays of float32 and float64 are not copied: do not change them while the predictions are in use.

    Attributes
    ----------
    array : ndarray (n, m) or (n, m, k)
        The draws in float64.

    Raises
    ------
    ValueError
        Draws that are not finite, or an array of another shape.

    Notes
    -----
    The first call of `quantile` sorts the rows; later calls of any method use the sorted copy. Draws that
    are already sorted are not copied. `cdf` and `crps` by themselves store nothing.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Draws([[0.0, 1.0], [2.0, 4.0]]).cdf([0.5, 5.0]).tolist()
    [0.5, 1.0]
    """

    has_density = False

    def __init__(self, array: ArrayLike) -> None:
        draws = as_array(array, "array")
        if draws.ndim not in (1, 2, 3) or draws.size == 0:
            raise ValueError(
                f"array of draws has shape {draws.shape}; (n,), (n, m) or (n, m, k) is needed, none of "
                "them 0"
            )
        if draws.ndim == 1:
            draws = draws[:, None]
        elif draws.ndim == 3 and draws.shape[2] == 1:
            draws = draws[:, :, 0]
        over_rows(lambda rows: _check_finite(draws[rows], rows.start), len(draws), _step(draws))
        self._set(draws)

    @classmethod
    def of_finite(cls, array: HostArray) -> Draws:
        """Return the draws of an array (n,), (n, m) or (n, m, k) that is known to be finite."""
        draws = cls.__new__(cls)
        array = array[:, None] if array.ndim == 1 else array
        draws._set(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array)
        return draws

    def _set(self, draws: HostArray, sorted_draws: HostArray | None = None) -> None:
        self._array = draws  # float32 or float64
        self._float64: Array | None = draws if draws.dtype == np.float64 else None
        self._sorted_draws = (
            sorted_draws  # (n, m), or (n k, m): the components of a row are adjacent
        )

    def __repr__(self) -> str:
        return f"Draws{self._array.shape}"

    @property
    def array(self) -> Array:
        """Draws (n, m) or (n, m, k) in float64."""
        if self._float64 is None:
            self._float64 = self._array.astype(np.float64)
        return self._float64

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)`` or ``(n, k)``."""
        return (self._array.shape[0], *self._array.shape[2:])

    @property
    def mean(self) -> Array:
        """Means over draws."""
        return np.asarray(self._array.mean(axis=1, dtype=np.float64))

    @property
    def variance(self) -> Array:
        """Variances over draws: those of the empirical distribution (ddof=0)."""
        out = np.empty(self.shape)

        def work(rows: slice) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                # Subtract the first draw: equal draws then have variance 0, whatever their mean rounds to.
                draws = self._array[rows]
                gaps = np.subtract(draws, draws[:, :1], dtype=np.float64)
                gaps -= gaps.mean(axis=1, keepdims=True)
                out[rows] = np.einsum("nm...,nm...->n...", gaps, gaps) / gaps.shape[1]

        over_rows(work, len(self), _step(self._array))
        return out

    @property
    def std(self) -> Array:
        """Standard deviations over draws."""

        def exact(rows: NDArray[np.intp]) -> Array:
            draws = self._array[rows].astype(np.float64)
            draws -= draws[:, :1]
            gaps = draws - draws.mean(axis=1, keepdims=True)
            return root_of_squares(np.asarray(1 / draws.shape[1]), gaps, 1)

        return root(self.variance, exact)

    def cdf(self, y: ArrayLike) -> Array:
        """Return the share of draws <= y: (n,), or (n, k) per component."""
        return self._share(y, below=False)

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return the share of draws < y."""
        return self._share(y, below=True)

    def cdf_bounds(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return the shares of draws < y and <= y, in one pass over the draws."""
        if self._array.shape[1] >= _SEARCH_FROM or self.columns > 1:
            return self.cdf_below(y), self.cdf(y)
        y = np.ascontiguousarray(np.broadcast_to(self.outcomes(y), self.shape))
        below, up_to = (np.empty(self.shape, dtype=np.int64) for _ in range(2))

        def work(rows: slice) -> None:
            _core.count_draws_both(self._array[rows], y[rows], below[rows], up_to[rows])

        over_rows(work, len(self), 8 * _step(self._array))
        return self._as_share(below, y), self._as_share(up_to, y)

    def sf(self, y: ArrayLike) -> Array:
        """Return the share of draws > y."""
        return self._share(y, below=False, above=True)

    def _share(self, y: ArrayLike, below: bool, above: bool = False) -> Array:
        y = np.ascontiguousarray(np.broadcast_to(self.outcomes(y), self.shape))
        sorted_draws = self._sorted_draws if self._array.shape[1] >= _SEARCH_FROM else None
        counts = np.empty(self.shape, dtype=np.int64)

        def work(rows: slice) -> None:
            if sorted_draws is not None:
                lines = _lines(rows, self.columns)
                _core.count_sorted_draws(
                    sorted_draws[lines], y[rows].reshape(-1), below, counts[rows].reshape(-1)
                )
            elif y.ndim == 1:
                _core.count_draws(self._array[rows], y[rows], below, counts[rows])
            else:
                for k in range(self.columns):
                    row_counts = np.empty(rows.stop - rows.start, dtype=np.int64)
                    _core.count_draws(self._array[rows, :, k], y[rows, k], below, row_counts)
                    counts[rows, k] = row_counts

        over_rows(work, len(self), 8 * _step(self._array))
        return self._as_share(self._array.shape[1] - counts if above else counts, y)

    def _as_share(self, counts: NDArray[np.int64], y: Array) -> Array:
        """Return counts of draws as shares; NaN where y is."""
        share = np.asarray(counts / self._array.shape[1])
        share[np.isnan(y)] = np.nan
        return share

    def log_prob(self, y: ArrayLike) -> Array:
        """Raise ValueError: draws have no density."""
        del y
        refuse_density()

    def quantile(self, level: ArrayLike) -> Array:
        """Return empirical quantiles, interpolated between draws; levels (j,) add a last axis.

        The convention is that of `numpy.quantile` with ``method="linear"``: the sorted draws are the
        quantiles at levels ``0, 1/(m - 1), ..., 1``.
        """
        levels = check_levels(level)
        sorted_draws = self._sort()
        low, high, share = places_of(levels, sorted_draws.shape[1])
        first = sorted_draws[:, low].astype(np.float64)
        # Interpolate from the nearer draw, as NumPy does: the result is then exact at both draws.
        gap = sorted_draws[:, high] - first
        out = np.where(share < 0.5, first + share * gap, sorted_draws[:, high] - (1 - share) * gap)
        return out.reshape(*self.shape, *levels.shape)

    def _sort(self) -> HostArray:
        """Return the sorted draws, (n, m) or (n k, m); the first call sorts them."""
        if self._sorted_draws is None:
            n, columns, count = len(self), self.columns, self._array.shape[1]
            step = _step(self._array)
            if columns == 1 and all(over_rows(lambda r: _is_sorted(self._array[r]), n, step)):
                self._sorted_draws = self._array
            else:
                out = np.empty((n * columns, count), dtype=self._array.dtype)

                def work(rows: slice) -> None:
                    part = out[_lines(rows, columns)]
                    part[...] = _as_lines(self._array[rows])
                    part.sort(axis=1)

                over_rows(work, n, step)
                self._sorted_draws = out
        return self._sorted_draws

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return ``size`` draws with replacement."""
        rng = generator(random_state, Purpose.SAMPLE)
        columns = rng.integers(0, self._array.shape[1], (len(self), check_count(size, "size")))
        return self._array[np.arange(len(columns))[:, None], columns].astype(np.float64)

    def take(self, rows: NDArray[np.intp]) -> Draws:
        """Return the draws of some rows."""
        part = Draws.__new__(Draws)
        sorted_draws = self._sorted_draws
        if sorted_draws is not None:
            shape = (len(self), self.columns, sorted_draws.shape[1])
            sorted_draws = sorted_draws.reshape(shape)[rows].reshape(-1, sorted_draws.shape[1])
        part._set(self._array[rows], sorted_draws)
        return part

    def ends(self) -> tuple[Array, Array] | None:
        """Return the smallest and the largest draw of each row; None for vectors."""
        if self.columns > 1:
            return None
        least, most = self._array.min(axis=1), self._array.max(axis=1)
        return least.astype(np.float64), most.astype(np.float64)

    @property
    def exact_nodes(self) -> bool:
        """True."""
        return True

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the draws, with equal weights."""
        del splits
        n, count = self._array.shape[:2]
        return self.array, np.full((n, count), 1.0 / count)

    @property
    def node_count(self) -> int:
        """Number of draws per row."""
        return int(self._array.shape[1])

    def crps(self, y: ArrayLike, estimator: str = "qd") -> Array:
        """Return the continuous ranked probability score (n,), or (n, k) per component.

        Parameters
        ----------
        y : array_like, of the shape of the distribution
            Observed outputs. NaN gives NaN; infinity gives an infinite score.
        estimator : {"qd", "nrg", "pwm", "fair"}, default "qd"
            "qd" (quantile decomposition) and "nrg" (energy form) are equal: both are the score of the
            empirical distribution. "pwm" (probability weighted moments) and "fair" are equal, too: both
            are the unbiased estimate of the score of the distribution that the draws come from.

        Raises
        ------
        ValueError
            Outputs of another shape, an unknown estimator, or "pwm" or "fair" with a single draw.

        Notes
        -----
        The score is ``mean_i |x_i - y| - sum_ij |x_i - x_j| / (2 m^2)``; "fair" divides by ``2 m (m - 1)``
        instead (Gneiting & Raftery 2007, equation 21; Zamo & Naveau, *Estimation of the Continuous Ranked
        Probability Score with Limited Information*, 2018; Ferro, *Fair scores for
        ensemble forecasts*, 2014). The names are those of scoringrules, whose "int" is a third form of
        "qd"; properscoring computes only "qd".

        The cost is O(m log m) per row: for sorted draws the double sum is ``2 sum_i (2 i - m + 1) x_i``.

        Examples
        --------
        >>> import fastmcmd as fm
        >>> draws = fm.Draws([[0.0, 1.0, 2.0]])
        >>> [round(float(draws.crps([0.5], e)[0]), 4) for e in ("qd", "nrg", "pwm", "fair")]
        [0.3889, 0.3889, 0.1667, 0.1667]
        """
        factor = crps_factors(estimator, self._array.shape[1])
        y = np.ascontiguousarray(np.broadcast_to(self.outcomes(y), self.shape))
        out = np.empty(self.shape)

        def work(rows: slice) -> None:
            if self._sorted_draws is not None:
                sorted_draws = self._sorted_draws[_lines(rows, self.columns)]
            else:
                sorted_draws = np.array(_as_lines(self._array[rows]), order="C")
                sorted_draws.sort(axis=1)
            outcomes, score = y[rows].reshape(-1), out[rows].reshape(-1)
            _core.crps_of_sorted(sorted_draws, outcomes, factor, score)
            overflowed = np.flatnonzero(~np.isfinite(score) & np.isfinite(outcomes))
            if len(overflowed):  # the sum overflows although the mean may not
                part = np.empty(len(overflowed))
                _core.crps_of_sorted(
                    sorted_draws[overflowed] / _COARSE, outcomes[overflowed] / _COARSE, factor, part
                )
                with np.errstate(over="ignore"):
                    score[overflowed] = part * _COARSE

        over_rows(work, len(self), _step(self._array))
        return out


def crps_factors(estimator: str, count: int) -> Array:
    """Return the factors (m,) of ``x_i - y``, for sorted draws x, in the double sum of `Draws.crps`."""
    check_choice(estimator, "estimator", ESTIMATORS)
    unbiased = estimator in UNBIASED
    if unbiased and count < 2:
        raise ValueError(
            f"estimator is {estimator!r}, which needs at least two draws per input, and there is one; "
            "use 'qd'"
        )
    return (2 * np.arange(count) - count + 1.0) / (count - 1 if unbiased else count)


def places_of(levels: Array, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return the indices of the two sorted draws around each quantile, and its share of the way between."""
    place = levels * (count - 1)
    low = np.floor(place).astype(np.intp)
    return low, np.minimum(low + 1, count - 1), place - low


def refuse_density() -> NoReturn:
    """Raise ValueError: draws have no density."""
    raise ValueError(
        "draws have no density; fit a distribution to them, such as Gaussian(mean, std)"
    )


def _step(draws: HostArray) -> int:
    """Return the number of rows per block."""
    return max(1, _BLOCK // draws[0].nbytes)


def _lines(rows: slice, columns: int) -> slice:
    """Return the lines of an array (n k, m) that hold the components of some rows."""
    return slice(rows.start * columns, rows.stop * columns)


def _as_lines(draws: HostArray) -> HostArray:
    """Return draws (n, m) or (n, m, k) as (n, m) or (n k, m)."""
    if draws.ndim == 2:
        return draws
    return draws.swapaxes(1, 2).reshape(-1, draws.shape[1])


def _check_finite(draws: HostArray, first: int) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(draws.sum()):  # faster; finite draws may overflow, too
            return
    finite = np.isfinite(draws)
    if not finite.all():
        problem = "NaN" if np.isnan(draws).any() else "infinity"
        row = first + int(np.argwhere(~finite)[0][0])
        raise RowError(
            f"array of draws holds {problem} (first in row {row}); finite numbers are needed", row
        )


def _is_sorted(draws: HostArray) -> bool:
    return bool((draws[:, 1:] >= draws[:, :-1]).all())
