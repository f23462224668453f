"""Predictions by Student's t, Laplace and uniform distributions."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import distinct_digits
from fastmcmd.errors import RowError
from fastmcmd.kernels import Kernel, Laplacian
from fastmcmd.kernels.base import UNIT
from fastmcmd.predictive.base import EDGE_LEVELS
from fastmcmd.predictive.family import Family, parameters
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    SymmetricFamily,
    cdf_piece,
    linear_scores,
    piece_sums,
    supported_scores,
    uniform_scores,
)
from fastmcmd.predictive.numerics.crps import crps
from fastmcmd.predictive.numerics.density_terms import DensityFamily, DensityTerm, density_term
from fastmcmd.predictive.numerics.elementwise import SLOW_STEP, by_rows
from fastmcmd.predictive.numerics.gamma_functions import half_ratio
from fastmcmd.predictive.numerics.log_densities import LogDensity
from fastmcmd.predictive.numerics.marching import Tail, linear_slope
from fastmcmd.predictive.pearson import PearsonFamily
from fastmcmd.predictive.symmetric import Symmetric

__all__ = ["Laplace", "StudentT", "Uniform"]

_NEAR_CENTRE = 2.0  # |z| with a share of 0.005 or more of the squared density beyond it
_FAR = 1e8  # multiple of sqrt(df) beyond which the tail equals its leading term
_TINY = 1e-7  # level below which quantiles may lie that far out
_NEAR = (
    0.05  # |z| below which SciPy's cdf, as a difference from 1/2, has lost up to half of its digits
)
_HEAVY, _MOST_LOG = (
    1.5,
    300.0,
)  # df below which quantiles are near those of df = 1; largest exponent
_FEW_DF = 20.0  # df below which a rounding of ``log(1 + z^2 / df)`` to 1e-16 is one of the density
_HEAVY_DF = (
    8.0  # df below which panels end at `_HEAVY_LEVELS`, as long as their distance from a pole
)
_HEAVY_LEVELS = np.array([1e-16, 1e-13, 1e-10, 1e-7, 3e-6, 8e-5, 1.2e-3, 0.01, 0.055, 0.22])
_FAR_OUT = 0.01  # x below which 8 terms of the series of a tail are exact to rounding
_HALF_POCHHAMMER = [1, 1 / 2, 3 / 8, 5 / 16, 35 / 128, 63 / 256, 231 / 1024, 429 / 2048]  # over k!
_CANCELS = 1e-3  # distance of df from 1 within which the closed form loses more than three digits


class StudentT(PearsonFamily):
    """Student's t distributions, shifted and scaled.

    Parameters
    ----------
    df : array_like, scalar or (n,)
        Degrees of freedom, positive.
    loc, scale : array_like, scalar or (n,)
        Medians, and scales, positive: the standard deviation is ``scale sqrt(df / (df - 2))``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The CRPS is that of Jordan, Krueger & Lerch, *Evaluating Probabilistic Forecasts with scoringRules* (JSS
    2019), appendix A, who state it for df > 1. Both sides are analytic in df, so it holds for all df > 1/2,
    with the limit ``(2 z atan z - log(1 + z^2) + 2 log 2) / pi`` at df = 1 (Cauchy). Within 0.001 of df = 1
    the score is integrated numerically. For df <= 1/2 it is infinite.

    Examples
    --------
    >>> from fastmcmd.predictive import StudentT
    >>> StudentT(4.0, [0.0, 1.0], 3.0).variance.tolist()
    [18.0, 18.0]
    """

    df: Array
    loc: Array
    scale: Array
    _names = ("df", "loc", "scale")
    _scales = "df", "scale"
    _positive = False

    def __init__(self, df: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> None:
        super().__init__(parameters(("df", "scale"), shapes=("df",), df=df, loc=loc, scale=scale))

    @property
    def mean(self) -> Array:
        """Means (n,); NaN for df <= 1."""
        return np.where(self.df > 1, self.loc, np.nan)

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite for df <= 2, NaN for df <= 1."""
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = self.scale**2 * (self.df / (self.df - 2))
        return np.where(self.df > 2, variance, np.where(self.df > 1, np.inf, np.nan))

    @property
    def std(self) -> Array:
        """Standard deviations (n,); infinite for df <= 2, NaN for df <= 1."""
        with np.errstate(divide="ignore", invalid="ignore"):
            std = self.scale * np.sqrt(self.df / (self.df - 2))
        return np.where(self.df > 2, std, np.where(self.df > 1, np.inf, np.nan))

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), in closed form."""
        out = super().crps(y)
        rows = np.flatnonzero((np.abs(self.df - 1) < _CANCELS) & (self.df != 1))
        if rows.size:
            out[rows] = crps(self.take(rows), np.broadcast_to(self.outcomes(y), self.shape)[rows])
        return out

    def cdf_and_sf(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return P(Y <= y) and P(Y > y) (n,)."""
        gap = self.outcomes(y) - self.loc
        tail = by_rows(_cdf, -np.abs(gap), self.scale, self.df, step=SLOW_STEP)
        above = gap > 0
        return np.where(above, 1 - tail, tail), np.where(above, tail, 1 - tail)

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; NaN for df near and below 1."""
        return self._interval_scores(y, piece.low, piece.high, piece)

    def clipped_scores(self, y: Array, low: Array, high: Array) -> Array | None:
        """Return `piece_scores` (n,) of the cdf itself from low to high."""
        return self._interval_scores(y, low, high, None)

    def _interval_scores(self, y: Array, low: Array, high: Array, piece: CDFPiece | None) -> Array:
        """Return the scores (n,) of a piece, or of the cdf itself."""
        places = np.stack([low, np.clip(y, low, high), high], axis=1)
        with np.errstate(over="ignore"):
            z = (places - self.loc[:, None]) / self.scale[:, None]
        df, size = np.where(self.df > 1 + _CANCELS, self.df, np.nan)[:, None], np.abs(z)
        gini = _gini(df) / (df - 1)
        height = np.exp(self._log_ratio)[:, None] * np.sqrt(df / np.pi) / (df - 1)
        tails = by_rows(_mass_beyond, size, df, step=SLOW_STEP)
        piece = cdf_piece(low, high, z, tails) if piece is None else piece
        sums = piece_sums(
            z,
            np.diff(places, axis=1) / self.scale[:, None],
            tails,
            by_rows(_mean_beyond, size, df, height),
            gini * by_rows(_square_beyond, size[:, ::2], df, step=SLOW_STEP),
            2 * gini[:, 0],
            piece,
        )
        return self.scale * sums

    def _shapes(self) -> tuple[Array, ...]:
        return (self.df,)

    def _lower(self, levels: Array, *shapes: Array) -> Array:
        tail = Tail(
            _lower_quantile,
            _standard_cdf,
            lambda z, df: np.exp(_log_density(_log_growth(z, 1.0, df), df)),
            lambda df: linear_slope(0.0, -df - 1, (df, 0.0, 1.0), (0.0, 0.0, np.sqrt(df))),
            1.0,
        )
        return tail.inwards(levels, *shapes)

    def _upper(self, levels: Array, *shapes: Array) -> Array:
        return -self._lower(levels, *shapes)

    def _rising(self, levels: Array, upper: bool) -> Array:
        """Return quantiles; of two levels that mirror each other, such as 0.01 and 0.99, computes one."""
        if len(levels) == 1:
            mirrored = 1 - levels[:, ::-1]
            # Levels above 0.5 that differ by half a unit of rounding near 1 count as equal.
            if np.abs(mirrored - levels).max() <= UNIT:
                half = super()._rising(levels[:, : (levels.shape[1] + 1) // 2], upper)
                out = np.empty((len(self), levels.shape[1]))
                out[:, : half.shape[1]] = half
                count = levels.shape[1] - half.shape[1]
                loc = self.loc[:, None]
                out[:, -count:] = loc - (half[:, :count] - loc)[:, ::-1]
                return out
        return super()._rising(levels, upper)

    def _from_standard(self, x: Array) -> Array:
        return np.asarray(self.loc[:, None] + self.scale[:, None] * x)

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.t(self.df, self.loc, self.scale)

    def _cdf(self, y: Array, df: Array, loc: Array, scale: Array) -> Array:
        return _cdf(y - loc, scale, df)

    def _sf(self, y: Array, df: Array, loc: Array, scale: Array) -> Array:
        return _cdf(loc - y, scale, df)

    def _log_prob(self, y: Array, df: Array, loc: Array, scale: Array) -> Array:
        return _log_density(_log_growth(y - loc, scale, df), df) - np.log(scale)

    @cached_property
    def _log_ratio(self) -> Array:
        """Logarithms (n,) of ratios of gamma functions, for the heights of density and tails."""
        return np.asarray(np.log(half_ratio(self.df / 2)))

    def panel_edges(self, least: float | None = None) -> tuple[Array, Array, Array]:
        """Return ends (n, E) of panels on which the density is smooth, in ascending order.

        Also returned are numbers (n,) below and above all quantiles at levels from ``least`` to
        ``1 - least``. They come in pairs around the median. With few degrees of freedom they are closer.
        """
        table, places = _levels_of_edges(least)
        kind = (self.df < _HEAVY_DF).astype(np.intp)
        steps = np.maximum.accumulate(self._steps_out(table, kind)[:, ::-1], axis=1)
        loc = self.loc[:, None]
        edges = np.concatenate([loc - steps[:, ::-1], loc, loc + steps], axis=1)
        every, place = np.arange(len(edges)), places[kind]
        return edges, edges[every, place], edges[every, -1 - place]

    def masses_outside(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return P(Y_i <= low_i) and P(Y_i > high_i)."""
        return self._mass_beyond(self.loc - low), self._mass_beyond(high - self.loc)

    def _mass_beyond(self, gap: Array) -> Array:
        """Return P(scale Z > gap) (n,), far out by a series in ``x = df / (df + z^2)``.

        The mass is half the incomplete beta function at x with the parameters ``a = df / 2`` and 1/2: ``x^a
        / (2 a B(a, 1/2)) sum_k (1/2)_k / k! a / (a + k) x^k`` (Abramowitz & Stegun, 26.5.4 and 15.1.1).
        """
        with np.errstate(all="ignore"):
            a, x = self.df / 2, 1 / (1 + (gap / self.scale) ** 2 / self.df)
            series = np.zeros(len(x))
            for k in range(len(_HALF_POCHHAMMER) - 1, -1, -1):
                series = series * x + _HALF_POCHHAMMER[k] / (a + k)
            mass = np.exp(a * np.log(x) + self._log_ratio) * series / (2 * np.sqrt(np.pi))
        rows = np.flatnonzero(~((x < _FAR_OUT) & (gap > 0)))
        if len(rows):
            mass[rows] = _cdf(-gap[rows], self.scale[rows], self.df[rows])
        return np.asarray(mass)

    def _near_quantiles(self, levels: Array, upper: bool) -> Array:
        """Return numbers near the quantiles at levels (j,) up to 0.5, or at their complements."""
        steps = self._steps_out(levels[None, :], np.zeros(len(self), dtype=np.intp))
        return self.loc[:, None] + (steps if upper else -steps)

    def _steps_out(self, table: Array, kind: NDArray[np.intp]) -> Array:
        """Return about the distances (n, j) of quantiles from the median, at levels ``table[kind]``.

        These are the leading term far out, and transformed normal quantiles elsewhere. The transformation
        is that of Wallace, *Bounds on normal approximations to Student's and the chi-square distributions*
        (1959).
        """
        df = self.df[:, None]
        with np.errstate(all="ignore"):
            far = (self._log_ratio + _tail_terms(self.df))[:, None] - np.log(table)[kind]
            far = np.exp(np.minimum(far / df, _MOST_LOG))
            factor = (df - 5 / 6) / (df - 2 / 3 + 0.1 / df) ** 2
            square = (scipy.special.ndtri(table) ** 2)[kind]
            near = np.sqrt(df * np.expm1(np.minimum(square * factor, _MOST_LOG)))
            if not self.df.min(initial=_HEAVY) >= _HEAVY:
                near = np.where(df < _HEAVY, np.abs(1 / np.tan(np.pi * table))[kind], near)
        return np.asarray(self.scale[:, None] * np.where(far > 5 * np.sqrt(df), far, near))

    def _density_formula(self) -> tuple[Any, tuple[Array, ...]]:
        return _log_density_at, (*self._values, (self.df + 1) / 2, self._log_height)

    @property
    def _log_height(self) -> Array:
        """Log densities (n,) at the median."""
        return np.asarray(self._log_ratio - np.log(np.pi * self.df) / 2 - np.log(self.scale))

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density, for the core; None for tails that leave the doubles."""
        if not self.df.min(initial=1.0) >= 1:
            return None
        with np.errstate(over="ignore", under="ignore"):
            unit = 1 / (self.scale * np.sqrt(self.df))
        power, height = (self.df + 1) / 2, np.exp(self._log_height)
        return density_term(DensityFamily.STUDENT, self._log_height, self.loc, unit, power, height)

    def _crps(self, y: Array, df: Array, loc: Array, scale: Array) -> Array:
        gap = np.abs(y - loc)
        growth = _log_growth(gap, scale, df)
        weighted = df * np.exp(_log_density(growth, df) + growth)  # density times df + z^2
        standard_part = 2 * (weighted - _gini(df)) / (df - 1)
        cauchy = (2 * np.log(2) - _log_growth(gap, scale, 1.0)) / np.pi
        out = gap * (1 - 2 * _cdf(-gap, scale, df)) + scale * np.where(
            df == 1, cauchy, standard_part
        )
        return np.where(np.isinf(gap) | (df <= 0.5), np.where(np.isnan(gap), gap, np.inf), out)

    def _quantile(self, level: Array, df: Array, loc: Array, scale: Array) -> Array:
        tail = np.minimum(level, 1 - level)
        inner = np.where(tail == 0, 0.5, tail)  # SciPy is slow at 0
        step = scale * np.where(tail == 0, -np.inf, _lower_quantile(inner, df))
        far = np.isinf(step) & (tail > 0)
        if far.any():  # z overflows, but with a small scale the quantile may not
            step = np.where(
                far, -np.sign(scale) * np.exp(_log_far(tail, df) + np.log(np.abs(scale))), step
            )
        return loc + np.where(level > 0.5, -step, step)

    def _upper_quantile(self, level: Array, df: Array, loc: Array, scale: Array) -> Array:
        return self._quantile(level, df, loc, -scale)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], df: Array, loc: Array, scale: Array
    ) -> Array:
        return loc + scale * rng.standard_t(df, shape)


@lru_cache(maxsize=16)
def _levels_of_edges(least: float | None) -> tuple[Array, NDArray[np.intp]]:
    """Return levels (2, j) of ends of panels, for light and heavy tails, and the places of ``least``."""
    tables = [
        levels if least is None else np.union1d(levels, least)
        for levels in (EDGE_LEVELS, _HEAVY_LEVELS)
    ]
    count = max(map(len, tables))
    table = np.stack([np.pad(levels, (0, count - len(levels)), "edge") for levels in tables])
    places = [0 if least is None else np.searchsorted(levels, least) for levels in tables]
    return table, np.array(places, dtype=np.intp)


def _cdf(gap: Array, scale: Array, df: Array) -> Array:
    """Return P(scale Z <= gap). Uses `_log_tail` where ``gap / scale`` overflows and the tail is heavy."""
    z = gap / scale
    value = _standard_cdf(z, df)
    if np.isfinite(z).all():
        return value
    overflows = np.isinf(z) & np.isfinite(gap)
    if overflows.any():
        log_z = np.log(np.where(overflows, np.abs(gap), 1.0)) - np.log(scale)
        tail = np.exp(_log_tail(df) - df * log_z)
        value = np.where(overflows, np.where(gap > 0, 1 - tail, tail), value)
    return value


def _mass_beyond(size: Array, df: Array) -> Array:
    """Return P(Z > size)."""
    return _cdf(-size, np.ones(1), df)


def _mean_beyond(size: Array, df: Array, height: Array) -> Array:
    """Return the integral of ``t f(t)`` from ``size`` on; ``height`` is that from 0 on."""
    return np.asarray(height * np.exp((1 - df) / 2 * np.log1p(size * size / df)))


def _square_beyond(size: Array, df: Array) -> Array:
    """Return the share of the integral of ``f(t) _mean_beyond(t)`` over t > 0 that lies beyond ``size``.

    Next to 0 its complement is computed, since ``1 / (1 + size^2 / df)`` loses the digits of ``size``.
    """
    growth = size * size / df
    df, is_near = np.broadcast_to(df, size.shape), size < _NEAR_CENTRE
    share = np.empty(size.shape)
    share[~is_near] = scipy.special.betainc(df[~is_near] - 0.5, 0.5, 1 / (1 + growth[~is_near]))
    near, power = growth[is_near], df[is_near] - 0.5
    share[is_near] = 1 - scipy.special.betainc(0.5, power, near / (1 + near))
    return share


def _gini(df: Array) -> Array:
    """Return ``(df - 1) / 4`` times the mean distance of two standard variables."""
    # With B(1/2, x) = sqrt(pi) / half_ratio(x).
    return np.asarray(
        np.sqrt(df / np.pi) * half_ratio(df / 2) ** 2 / half_ratio(np.maximum(df - 0.5, 0))
    )


def _standard_cdf(z: Array, df: Array) -> Array:
    """Return P(Z <= z), even where SciPy's cdf is inaccurate: near 0, and far out, where it is 0 or 1."""
    value = np.asarray(scipy.special.stdtr(df, z))
    size = np.abs(z)
    if not size.min(initial=np.inf) >= _NEAR:
        near = size < _NEAR
        few = np.broadcast_to(df, size.shape)[near]
        square = np.square(size[near])
        inner = np.sign(z[near]) * scipy.special.betainc(0.5, few / 2, square / (few + square)) / 2
        value[near] = 0.5 + inner
    if not size.max(initial=0.0) <= _FAR * np.sqrt(np.min(df, initial=np.inf)):
        far = (size > _FAR * np.sqrt(df)) & np.isfinite(z)
        few = np.broadcast_to(df, size.shape)[far]
        tail = np.exp(_log_tail(few) - few * np.log(size[far]))
        value[far] = np.where(z[far] > 0, 1 - tail, tail)
    return value


def _lower_quantile(p: Array, df: Array) -> Array:
    """Return quantiles at levels up to 0.5. Uses `_log_tail` far out, where SciPy overflows.

    SciPy's roots for df = 4 and 6 lose half of the digits near the median; there a series has them all.
    """
    quantile = scipy.special.stdtrit(df, p)
    middle = ((df == 4) | (df == 6)) & (p > 0.4999)
    if middle.any():
        z = (p - 0.5) / np.where(df == 4, 3 / 8, 15 / (16 * np.sqrt(6)))  # by the density at 0
        quantile = np.where(middle, z + (df + 1) / (6 * df) * z**3, quantile)
    tiny = (p < _TINY) | (df < 1)
    if tiny.any():
        log_z = _log_far(p, df)
        far = tiny & (log_z > np.log(_FAR * np.sqrt(df)))
        quantile = np.where(far, -np.exp(log_z), quantile)
    return quantile


def _log_far(p: Array, df: Array) -> Array:
    """Return the logarithm of -z for quantiles z at small levels, far out."""
    return (_log_tail(df) - np.log(p)) / df


def _log_tail(df: Array) -> Array:
    """Return the limit of ``log(P(Z > z) z^df)``, reached to rounding where ``z^2 > 1e16 df``."""
    return np.log(half_ratio(df / 2)) + _tail_terms(df)


def _tail_terms(df: Array) -> Array:
    """Return the terms of `_log_tail` beside the ratio of gamma functions."""
    return -np.log(np.pi) / 2 + (df / 2 - 1) * np.log(df)


def _log_growth(gap: Array, scale: Array | float, df: Array | float) -> Array:
    """Return ``log(1 + z^2 / df)`` of ``z = gap / scale``, even where z or its square overflows."""
    z = gap / scale
    square = z * z / df
    if np.isfinite(square).all():
        return np.asarray(np.log1p(square))
    far = 2 * (np.log(np.abs(gap)) - np.log(scale)) - np.log(df)
    return np.where(np.isfinite(square), np.log1p(square), far)


def _log_density_at(
    y: Array, df: Array, loc: Array, scale: Array, power: Array, height: Array
) -> Array:
    """Return the log density; for small df without `log1p`, whose digits near 0 do not matter then."""
    if df.max() < _FEW_DF:
        z = (y - loc) / scale
        square = z * z / df
        square += 1
        if np.isfinite(square).all():
            return np.asarray(height - power * np.log(square, out=square))
    return np.asarray(height - power * _log_growth(y - loc, scale, df))


def _log_density(growth: Array, df: Array) -> Array:
    """Return the log density of Student's t from `_log_growth`."""
    return np.log(half_ratio(df / 2)) - np.log(np.pi * df) / 2 - (df + 1) / 2 * growth


class Laplace(Symmetric):
    """Laplace (double exponential) distributions.

    Parameters
    ----------
    loc, scale : array_like, scalar or (n,)
        Medians, and scales, positive: the standard deviation is ``sqrt(2) scale``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The CRPS is ``scale (|z| + exp(-|z|) - 3/4)`` (Jordan, Krueger & Lerch, JSS 2019, appendix A).

    Examples
    --------
    >>> from fastmcmd.predictive import Laplace
    >>> Laplace([0.0, 1.0], 2.0).crps([0.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    _symmetric = SymmetricFamily.LAPLACE
    _core_density = LogDensity.LAPLACE

    def __init__(self, loc: ArrayLike, scale: ArrayLike) -> None:
        super().__init__(parameters(("scale",), loc=loc, scale=scale))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self.loc

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return np.asarray(2 * self.scale**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return np.asarray(np.sqrt(2) * self.scale)

    def kinks(self) -> Array:
        """Return the medians (n, 1)."""
        return self.loc[:, None]

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z), including Laplacian kernels."""
        if not (isinstance(kernel, Laplacian) and isinstance(kernel.gamma, float)):
            return super().closed_form(kernel, points)
        # (b / (b^2 - g^2)) (b exp(-g d) - g exp(-b d)), b = 1 / scale, rearranged against cancellation.
        rate = 1 / self.scale[:, None]
        distance = np.abs(self.loc[:, None] - points[:, 0])
        slow = np.minimum(rate, kernel.gamma)
        gap = np.abs(rate - kernel.gamma) * distance
        mean_decay = np.where(gap > 0, -np.expm1(-gap) / np.where(gap > 0, gap, 1.0), 1.0)
        decay = np.exp(-slow * distance) * (1 + slow * distance * mean_decay)
        return np.asarray(decay * (rate / (rate + kernel.gamma)))

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.laplace(self.loc, self.scale)

    def _log_prob(self, y: Array, loc: Array, scale: Array) -> Array:
        return -np.abs((y - loc) / scale) - np.log(2 * scale)

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density, for the core."""
        return density_term(DensityFamily.LAPLACE, -np.log(2 * self.scale), self.loc, self.scale)

    def _quantile(self, level: Array, loc: Array, scale: Array) -> Array:
        z = np.log(2 * np.minimum(level, 1 - level))
        return loc + scale * np.where(level > 0.5, -z, z)

    def _upper_quantile(self, level: Array, loc: Array, scale: Array) -> Array:
        return self._quantile(level, loc, -scale)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], loc: Array, scale: Array
    ) -> Array:
        return rng.laplace(loc, scale, shape)


def _check_ends(low: Array, high: Array) -> None:
    """Raise an error if ends (n,) are not in order, or their differences no doubles."""
    bad = low >= high
    if bad.any():
        row = int(bad.argmax())
        low_text, high_text = distinct_digits(low[row], high[row])
        raise RowError(
            f"low is {low_text} and high {high_text} in row {row} "
            f"({int(bad.sum())} such rows); low < high is needed",
            row,
        )
    with np.errstate(over="ignore"):
        too_large = np.isinf(high - low)
    if too_large.any():
        row = int(too_large.argmax())
        raise RowError(
            f"low is {low[row]:g} and high {high[row]:g} in row {row}; their "
            "difference is larger than the largest double",
            row,
        )


class Uniform(Family):
    """Uniform distributions on intervals.

    Parameters
    ----------
    low, high : array_like, scalar or (n,)
        Ends of the intervals, ``low < high``.

    Raises
    ------
    ValueError
        Ends that are not finite or not in order, whose lengths differ, or all scalar.

    Notes
    -----
    With ``z = (y - low) / (high - low)`` and c equal to z clipped to [0, 1], the CRPS is
    ``(high - low) (|z - c| + c^2 - c + 1/3)`` (Jordan, Krueger & Lerch, JSS 2019, appendix A).

    Examples
    --------
    >>> from fastmcmd.predictive import Uniform
    >>> Uniform(0.0, [2.0, 4.0]).cdf([1.0, 1.0]).tolist()
    [0.5, 0.25]
    """

    low: Array
    high: Array
    _names = ("low", "high")
    _core_density = LogDensity.UNIFORM
    _has_core_scores = True

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        values = parameters((), low=low, high=high)
        gaps = np.empty(2)
        _core.gap_bounds(values["low"], values["high"], gaps)
        if not (gaps[0] > 0 and gaps[1] < np.inf):
            _check_ends(**values)
        super().__init__(values)

    def ends(self) -> tuple[Array, Array] | None:
        """Return the ends (n,)."""
        return self.low, self.high

    @property
    def coordinates(self) -> Array:
        """Coordinates (n, 2): the lower ends, and the logarithms of the lengths."""
        return np.stack([self.low, np.log(self.high - self.low)], axis=1)

    @property
    def logarithmic(self) -> tuple[bool, ...]:
        """Which coordinates are logarithms: those of the lengths."""
        return False, True

    def at(self, coordinates: Array) -> Family:
        """Return the distributions at coordinates (m, 2)."""
        low, length = coordinates.T
        return self._with({"low": low, "high": low + np.exp(length)})

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return np.asarray(self.low + (self.high - self.low) / 2)

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return np.asarray((self.high - self.low) / np.sqrt(12))

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece."""
        return supported_scores(y, piece, self.low, self.high, partial(linear_scores, y))

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z), including Laplacian kernels."""
        if not (isinstance(kernel, Laplacian) and isinstance(kernel.gamma, float)):
            return super().closed_form(kernel, points)
        low, high = self.low[:, None] - points[:, 0], self.high[:, None] - points[:, 0]
        outside = np.maximum(np.maximum(low, -high), 0.0)
        inside = np.where(outside > 0, 0.0, np.minimum(-low, high))  # distance to the nearer end
        span = (self.high - self.low)[:, None]
        width = np.where(outside > 0, span, np.maximum(-low, high))
        mass = -np.expm1(-kernel.gamma * inside) - np.expm1(-kernel.gamma * width)
        return np.asarray(np.exp(-kernel.gamma * outside) * mass / (kernel.gamma * span))

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.uniform(self.low, self.high - self.low)

    def _cdf(self, y: Array, low: Array, high: Array) -> Array:
        return np.clip((y - low) / (high - low), 0.0, 1.0)

    def _sf(self, y: Array, low: Array, high: Array) -> Array:
        return np.clip((high - y) / (high - low), 0.0, 1.0)

    def _log_prob(self, y: Array, low: Array, high: Array) -> Array:
        inside = (y >= low) & (y <= high)
        logs = np.log(high - low)
        np.negative(logs, out=logs)
        if not inside.all():
            logs = np.where(inside, logs, np.where(np.isnan(y), np.nan, -np.inf))
        return np.broadcast_to(logs, inside.shape)

    def _crps(self, y: Array, low: Array, high: Array) -> Array:
        return uniform_scores(y, low, high)

    def _quantile(self, level: Array, low: Array, high: Array) -> Array:
        return low + level * (high - low)

    def _upper_quantile(self, level: Array, low: Array, high: Array) -> Array:
        return high - level * (high - low)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], low: Array, high: Array
    ) -> Array:
        return rng.uniform(low, high, shape)
