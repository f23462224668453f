"""Predictions given as quantiles, such as those of a quantile regression."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import (
    as_array,
    as_rows,
    check_choice,
    check_count,
    check_flag,
    check_same_length,
)
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.errors import RowError
from fastmcmd.predictive.base import Predictive, check_levels
from fastmcmd.predictive.numerics.quadrature import COARSE, FINE
from fastmcmd.predictive.numerics.spread import root

__all__ = ["TAILS", "Quantiles"]

TAILS = ("exponential", "flat")
_BLOCK = 1 << 18  # numbers per block of rows

# Ends of panels in an exponential tail, in units of its scale: 1e-16 of its mass lies beyond the last.
_PANELS = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 37.0])


class Quantiles(Predictive):
    """Distributions given by some of their quantiles, with linear interpolation between them.

    Parameters
    ----------
    levels : array_like (j,)
        Levels, strictly increasing in (0, 1).
    values : array_like (n, j)
        Quantiles at these levels, nondecreasing along each row.
    tails : {"exponential", "flat"}, default "exponential"
        Where the mass beyond the outer quantiles lies (``levels[0]`` below, ``1 - levels[-1]`` above).
        "exponential": in tails whose density continues that of the adjacent piece. "flat": in an atom at
        each outer quantile.
    sort : bool, default False
        Whether to sort crossing quantiles. By default they are an error.

    Attributes
    ----------
    levels, values, tails
        The parameters; with ``sort``, the values are sorted.

    Raises
    ------
    ValueError
        Levels that do not increase or lie outside (0, 1), values of another shape or not finite,
        crossing quantiles without ``sort``, or exponential tails with a single level.

    Notes
    -----
    The quantile function is linear between the given levels, so the density is piecewise constant. With
    exponential tails all moments are finite: below the first quantile ``q_1`` the distribution function
    is ``p_1 exp((y - q_1) / s)``, ``s = p_1 (q_2 - q_1) / (p_2 - p_1)``, and likewise at the upper end.
    Equal quantiles form an atom. If the two outermost quantiles are equal, the tail has scale 0: its mass
    joins the atom. Moments and the CRPS of this interpolated distribution are exact. `log_prob` raises an
    error, because a log density would reflect the interpolation more than the prediction.

    Sorting never makes the estimate worse: it is the rearrangement of Chernozhukov, Fernández-Val &
    Galichon, *Quantile and Probability Curves Without Crossing* (Econometrica 2010), at the given levels.

    Examples
    --------
    Quartiles of two rows. Between given levels, the distribution is interpolated:

    >>> import fastmcmd as fm
    >>> q = fm.Quantiles([0.25, 0.5, 0.75], [[-1.0, 0.0, 1.0], [0.0, 1.0, 4.0]])
    >>> q.quantile([0.5, 0.625]).tolist()
    [[0.0, 0.5], [1.0, 2.5]]
    >>> q.cdf([0.5, 4.0]).tolist()
    [0.625, 0.75]
    """

    has_density = False

    def __init__(
        self, levels: object, values: object, *, tails: str = "exponential", sort: bool = False
    ) -> None:
        self.tails = check_choice(tails, "tails", TAILS)
        self.levels = _levels(levels)
        count = len(self.levels)
        array = as_array(values, "values")
        if array.ndim != 2 or array.shape[1] != count:
            raise ValueError(
                f"values have shape {array.shape}; (n, {count}) is needed: a column for each of levels"
            )
        array = as_rows(array, "values").astype(np.float64)
        if check_flag(sort, "sort"):
            array.sort(axis=1)
        else:
            crossing = (array[:, 1:] < array[:, :-1]).any(axis=1)
            if crossing.any():
                total = f", and in {crossing.sum():,} rows in all" if crossing.sum() > 1 else ""
                raise RowError(
                    f"values of row {int(crossing.argmax())} decrease: quantiles cross there{total}; "
                    "sort=True sorts them",
                    int(crossing.argmax()),
                )
        if tails == "exponential" and count < 2:
            raise ValueError(
                "levels hold one level, which exponential tails cannot continue; use tails='flat'"
            )
        self._set(array)

    @classmethod
    def from_intervals(
        cls,
        coverages: ArrayLike,
        intervals: ArrayLike,
        median: ArrayLike | None = None,
        *,
        tails: str = "exponential",
        sort: bool = False,
    ) -> Quantiles:
        """Return distributions with the given central intervals, as those of conformal prediction.

        Parameters
        ----------
        coverages : float or array_like (m,)
            Nominal coverages, such as 0.9.
        intervals : array_like (n, 2) or (n, 2, m)
            Lower and upper ends, as MAPIE's ``predict_interval`` returns.
        median : array_like (n,), optional
            Medians, if they are known.
        tails : {"exponential", "flat"}, default "exponential"
            Where the mass outside the widest interval lies, see `Quantiles`.
        sort : bool, default False
            Whether to sort ends of narrower intervals that lie outside wider ones.

        Examples
        --------
        >>> import fastmcmd as fm
        >>> fm.Quantiles.from_intervals(0.8, [[-1.0, 1.0]], median=[0.25]).values.tolist()
        [[-1.0, 0.25, 1.0]]
        """
        share = np.atleast_1d(as_array(coverages, "coverages")).astype(np.float64)
        if share.ndim != 1 or not share.size or not ((share > 0) & (share < 1)).all():
            raise ValueError(f"coverages are {coverages!r}; numbers between 0 and 1 are needed")
        if len(np.unique(share)) < len(share):
            raise ValueError(f"coverages are {coverages!r}; distinct ones are needed")
        ends = as_array(intervals, "intervals")
        if ends.ndim == 2:
            ends = ends[:, :, None]
        if ends.ndim != 3 or ends.shape[1:] != (2, len(share)):
            raise ValueError(
                f"intervals have shape {np.shape(intervals)}; (n, 2, {len(share)}) is needed: lower and "
                "upper end of each of coverages"
            )
        order = np.argsort(share)
        middle = np.empty((len(ends), 0))
        if median is not None:
            middle = as_rows(median, "median", columns=1)
            check_same_length(intervals=ends, median=middle)
        levels = [
            (1 - share[order[::-1]]) / 2,
            np.full(middle.shape[1], 0.5),
            (1 + share[order]) / 2,
        ]
        values = [ends[:, 0, order[::-1]], middle, ends[:, 1, order]]
        return cls(np.concatenate(levels), np.concatenate(values, axis=1), tails=tails, sort=sort)

    def _set(self, values: Array) -> None:
        self.values = values
        self._left = self._right = np.zeros(len(values))
        if self.tails == "exponential":
            p = self.levels
            self._left = p[0] / (p[1] - p[0]) * (values[:, 1] - values[:, 0])
            self._right = (1 - p[-1]) / (p[-1] - p[-2]) * (values[:, -1] - values[:, -2])

    def __repr__(self) -> str:
        return f"Quantiles({len(self.levels)} levels, {self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (len(self.values),)

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        first = self.values[:, 0]
        return first + self._mean_of(self.values - first[:, None], slice(None))

    def _mean_of(self, v: Array, rows: slice) -> Array:
        """Return the means of rows with values v."""
        p = self.levels
        inner = (v[:, 1:] + v[:, :-1]) @ (np.diff(p) / 2)
        outer = p[0] * (v[:, 0] - self._left[rows]) + (1 - p[-1]) * (v[:, -1] + self._right[rows])
        return np.asarray(inner + outer)

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        p = self.levels
        out = np.empty(len(self))

        def work(rows: slice) -> None:
            # Subtract the first quantile: an atom then has variance 0, whatever its mean rounds to.
            v = self.values[rows] - self.values[rows, :1]
            v -= self._mean_of(v, rows)[:, None]
            left, right = self._left[rows], self._right[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                inner = (v[:, 1:] ** 2 + v[:, 1:] * v[:, :-1] + v[:, :-1] ** 2) @ (np.diff(p) / 3)
                lower = (v[:, 0] - left) ** 2 + left**2
                upper = (v[:, -1] + right) ** 2 + right**2
                out[rows] = inner + p[0] * lower + (1 - p[-1]) * upper

        over_rows(work, len(self), _BLOCK // len(p))
        return np.where(np.isnan(out), np.inf, out)  # NaN: overflowing terms of opposite signs

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""

        def exact(rows: NDArray[np.intp]) -> Array:
            v = self.values[rows]
            unit = np.abs(v - v[:, :1]).max(axis=1)
            unit = np.where(unit > 0, unit, 1.0)
            part = self.take(rows)
            part._set((v - v[:, :1]) / unit[:, None])
            return unit * np.sqrt(part.variance)

        return root(self.variance, exact)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        return self._share(y, below=False)

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,), which differs from `cdf` at atoms."""
        return self._share(y, below=True)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,); small probabilities keep all their digits."""
        return self._share(y, below=False, above=True)

    def _share(self, y: ArrayLike, below: bool, above: bool = False) -> Array:
        y = np.ascontiguousarray(np.broadcast_to(self.outcomes(y), self.shape))
        out = np.empty(len(self))

        def work(rows: slice) -> None:
            part = self.values[rows], self._left[rows], self._right[rows], y[rows]
            _core.cdf_of_quantiles(self.levels, *part, below, above, out[rows])

        over_rows(work, len(self), _BLOCK // len(self.levels))
        return out

    def log_prob(self, y: ArrayLike) -> Array:
        """Raise ValueError: quantiles have no density."""
        del y
        raise ValueError(
            "quantiles have no density; fit a distribution to them, or use a score of quantiles: crps, "
            "check_score, weighted_interval_score"
        )

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,), or (n, j) for levels (j,); at the given levels, the given values."""
        levels = check_levels(level)
        return self._at(levels, None)

    def _at(self, u: Array, rows: NDArray[np.intp] | None) -> Array:
        """Return quantiles at levels () or (j,), which all rows share, or (b, j), one set per row."""
        p, v = self.levels, self.values
        k = np.clip(np.searchsorted(p, u, side="right") - 1, 0, max(0, len(p) - 2))
        high = np.minimum(k + 1, len(p) - 1)
        share = np.clip((u - p[k]) / np.where(high > k, p[high] - p[k], 1.0), 0.0, 1.0)
        if rows is None:
            low, end, left, right = v[:, k], v[:, high], self._left, self._right
            if u.ndim:
                left, right = left[:, None], right[:, None]
        else:
            row = rows[:, None]
            low, end = v[row, k], v[row, high]
            left, right = self._left[row], self._right[row]
        out = np.where(share < 0.5, low + share * (end - low), end - (1 - share) * (end - low))
        if self.tails == "flat":
            return out
        with np.errstate(divide="ignore"):  # infinite at level 0 and 1
            lower = np.log(np.minimum(u / p[0], 1.0))
            upper = -np.log(np.minimum((1 - u) / (1 - p[-1]), 1.0))
        with np.errstate(invalid="ignore"):  # 0 times infinity, in a tail of scale 0
            out += np.where(left > 0, left * lower, 0.0)
            out += np.where(right > 0, right * upper, 0.0)
        return np.asarray(out)

    @property
    def has_quick_quantiles(self) -> bool:
        """True: the quantiles are given."""
        return True

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        return self._at(levels, np.arange(len(self)))

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the numbers (n, j) at which `sf` equals levels (n, j)."""
        inside = self.quantiles_at(1 - levels)
        outside = 1 - self.levels[-1]
        if self.tails == "flat":
            return inside
        far = self.values[:, -1:] + self._right[:, None] * np.log(
            outside / np.minimum(levels, outside)
        )
        return np.where(levels < outside, far, inside)

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size), by inversion."""
        rng = generator(random_state, Purpose.SAMPLE)
        u = rng.random((len(self), check_count(size, "size")))
        # Uniform draws lie in [0, 1), and 0 would give an infinite draw.
        np.maximum(u, np.finfo(np.float64).tiny, out=u)
        return self._at(u, np.arange(len(self)))

    def take(self, rows: NDArray[np.intp]) -> Quantiles:
        """Return the distributions of some rows."""
        part = Quantiles.__new__(Quantiles)
        part.tails, part.levels = self.tails, self.levels
        part._set(self.values[rows])
        return part

    @property
    def rough_levels(self) -> Array:
        """The given levels."""
        return self.levels

    def nodes(self, splits: int = 1) -> Nodes:
        """Return Gauss-Legendre nodes between quantiles and in the tails; an atom is one node."""
        return self._quadrature(FINE, splits)

    def coarse_nodes(self) -> Nodes:
        """Return nodes of a lower order, whose difference estimates the error of `nodes`."""
        return self._quadrature(COARSE, 1)

    def _quadrature(self, order: int, splits: int) -> Nodes:
        p, v = self.levels, self.values
        z, w = gauss_legendre(order)
        z, w = (z + 1) / 2, w / 2
        part = np.arange(splits)[:, None]
        z, w = ((part + z) / splits).ravel(), np.tile(w, splits) / splits
        inner = v[:, :-1, None] + np.diff(v, axis=1)[:, :, None] * z
        mass = np.diff(p)[:, None] * w
        if self.tails == "flat":
            below, above, tail = v[:, :1], v[:, -1:], np.ones(1)
        else:
            width = np.diff(_PANELS)[:, None]
            t = (_PANELS[:-1, None] + width * z).ravel()
            tail = (width * w).ravel() * np.exp(-t)
            tail /= tail.sum()
            below = v[:, :1] - self._left[:, None] * t
            above = v[:, -1:] + self._right[:, None] * t
        nodes = np.concatenate([below, inner.reshape(len(v), -1), above], axis=1)
        weights = np.concatenate([p[0] * tail, mass.ravel(), (1 - p[-1]) * tail])
        return nodes, np.broadcast_to(weights / weights.sum(), nodes.shape)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,) of the interpolated distribution.

        Parameters
        ----------
        y : array_like (n,)
            Observed outputs. NaN gives NaN; infinity gives an infinite score.

        Notes
        -----
        The score is the integral of ``(F(t) - 1{y <= t})^2`` dt (Gneiting & Raftery 2007, equation 20),
        computed exactly on each piece. Twice the mean check loss at the levels approximates it and leaves
        out the tails: ``fastmcmd.metrics.crps(..., estimator="pinball")``.

        Examples
        --------
        >>> from fastmcmd.predictive.quantiles import Quantiles
        >>> q = Quantiles([0.25, 0.75], [[0.0, 1.0]], tails="flat")
        >>> round(float(q.crps([2.0])[0]), 6)  # 13/48 inside, 1 beyond
        1.270833
        """
        y = np.ascontiguousarray(np.broadcast_to(self.outcomes(y), self.shape))
        out = np.empty(len(self))

        def work(rows: slice) -> None:
            part = self.values[rows], self._left[rows], self._right[rows], y[rows]
            scratch = np.empty((66, len(self.levels)))
            _core.crps_of_quantiles(self.levels, *part, scratch, out[rows])

        over_rows(work, len(self), _BLOCK // len(self.levels))
        return out


def _levels(value: object) -> Array:
    levels = as_array(value, "levels").astype(np.float64)
    if levels.ndim != 1 or not len(levels):
        swapped = "; the order is (levels, values)" if levels.ndim == 2 else ""
        raise ValueError(f"levels have shape {levels.shape}; (j,) is needed{swapped}")
    if not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"levels are {value!r}; numbers between 0 and 1 are needed")
    if not (np.diff(levels) > 0).all():
        raise ValueError(f"levels are {value!r}; they must increase strictly")
    return levels
