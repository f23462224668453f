"""Predictions of waiting times, lifetimes and excesses: exponential, Weibull, generalised Pareto."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.family import Family, parameters
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    SymmetricFamily,
    exponential_scores,
    inflated_scores,
    pareto_scores,
    piece_scores,
    supported_scores,
)
from fastmcmd.predictive.numerics.crps import crps
from fastmcmd.predictive.numerics.density_terms import DensityFamily, DensityTerm, density_term
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.log_densities import LogDensity
from fastmcmd.predictive.numerics.log_ratios import from_log, log_ratio

__all__ = ["Exponential", "GeneralizedPareto", "Weibull"]

_NARROW = 300.0  # Weibull shape above which terms of the CRPS cancel
_CENTRED = 16.0  # shape below which a power of a ratio rounds to a few digits of the density
_HEAVY = 0.02  # Weibull shape below which gamma functions of the closed form leave the doubles
_UNDERFLOWS = 1e-280  # share of a gamma function below which its series is summed
_BOUNDED = -30.0  # generalised Pareto shape below which terms of the CRPS cancel
_MODERATE = (
    100.0  # Weibull 1 / shape up to which mean / scale (1e158) and std / mean do not overflow
)
_FLAT = 1e-9  # Weibull 1 / shape below which the standard deviation is its leading term
_ROUNDED = 1e-16  # product below which ``log(1 + x)`` is x to rounding


class _Lifetime(Family):
    """A family whose CRPS in closed form loses digits at extreme shapes, where it is integrated."""

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,): in closed form but at extreme shapes."""
        out = super().crps(y)
        rows = np.flatnonzero(self._integrated())
        if rows.size:
            out[rows] = crps(self.take(rows), np.broadcast_to(self.outcomes(y), self.shape)[rows])
        return out

    def _integrated(self) -> NDArray[np.bool_]:
        """Return the rows whose score is integrated."""
        raise NotImplementedError


class Exponential(Family):
    """Exponential distributions.

    Parameters
    ----------
    rate : array_like (n,)
        Rates, positive: the mean is ``1 / rate``, as in PyTorch; SciPy and NumPy use the scale.
    scale : array_like (n,), keyword only
        Scales, positive: ``1 / rate``. Pass it instead of ``rate``.

    Raises
    ------
    TypeError
        Neither or both of ``rate`` and ``scale``.
    ValueError
        Parameters that are not finite or not positive, or a scalar.

    Notes
    -----
    The CRPS is ``|y| - 2 F(y) / rate + 1 / (2 rate)`` (Jordan, Krueger & Lerch, *Evaluating Probabilistic
    Forecasts with scoringRules*, JSS 2019, appendix A).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Exponential([0.5, 2.0]).mean.tolist()
    [2.0, 0.5]
    """

    rate: Array
    _names = ("rate",)
    _ends = (0.0, np.inf)
    _scales = ("rate",)
    _core_density = LogDensity.EXPONENTIAL
    _has_core_scores = True

    def __init__(self, rate: ArrayLike | None = None, *, scale: ArrayLike | None = None) -> None:
        if (rate is None) == (scale is None):
            raise TypeError(
                f"{'neither' if rate is None else 'both'} of rate and scale are given; one is needed: "
                "Exponential(rate) or Exponential(scale=scale)"
            )
        if rate is None:
            with np.errstate(over="ignore"):
                rate = 1 / parameters(("scale",), scale=scale)["scale"]
            if rate.max(initial=0.0) < np.inf:
                super().__init__({"rate": rate})
                return
        super().__init__(parameters(("rate",), rate=rate))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return np.asarray(1 / self.rate)

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return self.mean

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece: half a Laplace one's."""
        zero = np.zeros(len(self))
        scores = partial(piece_scores, SymmetricFamily.LAPLACE, y, zero, 1 / self.rate)
        return supported_scores(y, piece, zero, np.full(len(self), np.inf), scores)

    def inflated_scores(self, y: Array, mass: Array) -> Array:
        """Return continuous ranked probability scores (n,) of mixtures with masses (n,) at 0."""
        return exponential_scores(y, self.rate, mass)

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.expon(scale=1 / self.rate)

    def _cdf(self, y: Array, rate: Array) -> Array:
        return -np.expm1(-np.maximum(y, 0.0) * rate)

    def _sf(self, y: Array, rate: Array) -> Array:
        return np.exp(-np.maximum(y, 0.0) * rate)

    def _log_prob(self, y: Array, rate: Array) -> Array:
        logs = np.asarray(np.log(rate) - y * rate)
        logs[y < 0] = -np.inf
        return logs

    def _crps(self, y: Array, rate: Array) -> Array:
        return exponential_scores(y, rate)

    def _quantile(self, level: Array, rate: Array) -> Array:
        return -np.log1p(-level) / rate

    def _upper_quantile(self, level: Array, rate: Array) -> Array:
        return -np.log(level) / rate

    def _sample(self, rng: np.random.Generator, shape: tuple[int, ...], rate: Array) -> Array:
        return rng.standard_exponential(shape) / rate


class Weibull(_Lifetime):
    """Weibull distributions: ``P(Y > y) = exp(-(y / scale)^shape)``.

    Parameters
    ----------
    shape, scale : array_like, scalar or (n,)
        Shapes and scales, positive. The same distribution in scipy.stats is ``weibull_min(shape,
        scale=scale)``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    With ``x = (y / scale)^shape``, the regularised lower incomplete gamma function P and the mean
    ``m = scale Gamma(1 + 1 / shape)``, the CRPS ``E|Y - y| - E|Y - Y'| / 2`` (Gneiting & Raftery 2007,
    equation 21) is

        y (2 F(y) - 1) + m (2^(-1 / shape) - 2 P(1 + 1 / shape, x))

    because the smaller of two independent Y is Weibull with mean ``2^(-1 / shape) m``. For shapes above
    300, where this loses digits, the score is integrated numerically.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.Weibull([1.0, 2.0], 3.0).sf(3.0).round(6).tolist()
    [0.367879, 0.367879]
    """

    concentration: Array
    scale: Array
    _names = ("concentration", "scale")
    _ends = (0.0, np.inf)
    _scales = "concentration", "scale"

    def __init__(self, shape: ArrayLike, scale: ArrayLike) -> None:
        values = parameters(("shape", "scale"), shape=shape, scale=scale)
        super().__init__({"concentration": values["shape"], "scale": values["scale"]})

    @property
    def mean(self) -> Array:
        """Means (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(
                np.exp(scipy.special.gammaln(1 + 1 / self.concentration) + np.log(self.scale))
                if (self.concentration < _HEAVY).any()
                else self.scale * scipy.special.gamma(1 + 1 / self.concentration)
            )

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,); infinite where they overflow."""
        return by_rows(_weibull_std, self.concentration, self.scale)

    def _integrated(self) -> NDArray[np.bool_]:
        return self.concentration > _NARROW

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.weibull_min(self.concentration, scale=self.scale)

    def _cdf(self, y: Array, shape: Array, scale: Array) -> Array:
        return -np.expm1(-_power(y, shape, scale))

    def _sf(self, y: Array, shape: Array, scale: Array) -> Array:
        return np.exp(-_power(y, shape, scale))

    def _log_prob(self, y: Array, shape: Array, scale: Array) -> Array:
        log_z = log_ratio(y, scale)
        density = np.log(shape) - np.log(scale) + (shape - 1) * log_z - np.exp(shape * log_z)
        if (outside := (y <= 0) | (y == np.inf)).any():
            at_zero = np.where(shape == 1, -np.log(scale), np.where(shape < 1, np.inf, -np.inf))
            density = np.where(outside, np.where(y == 0, at_zero, -np.inf), density)
        return np.asarray(density)

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density, for the core; None if large shapes lose digits."""
        shape, scale = self.concentration, self.scale
        if not shape.max(initial=0.0) < _CENTRED:
            return None
        height = np.log(shape) - np.log(scale)
        return density_term(DensityFamily.WEIBULL, height, shape, scale)

    def _crps(self, y: Array, shape: Array, scale: Array) -> Array:
        x = _power(y, shape, scale)
        a = 1 + 1 / shape
        centred = y * (1 - 2 * np.exp(-x))
        share = scipy.special.gammainc(a, x)
        difference = scale * scipy.special.gamma(a) * (np.exp(-np.log(2) / shape) - 2 * share)
        heavy = shape < _HEAVY
        if heavy.any():
            log_mean = scipy.special.gammaln(a) + np.log(scale)
            series = y * x * np.exp(-x) / a * scipy.special.hyp1f1(1.0, a + 1, np.minimum(x, a))
            below = np.where(share > _UNDERFLOWS, np.exp(log_mean + np.log(share)), series)
            apart = np.exp(log_mean - np.log(2) / shape) - 2 * np.where(x > 0, below, 0.0)
            difference = np.where(heavy, apart, difference)
        return np.where(np.isposinf(y), np.inf, centred + difference)

    def _quantile(self, level: Array, shape: Array, scale: Array) -> Array:
        return from_log(np.log(-np.log1p(-level)) / shape, scale)

    def _upper_quantile(self, level: Array, shape: Array, scale: Array) -> Array:
        return from_log(np.log(-np.log(level)) / shape, scale)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], concentration: Array, scale: Array
    ) -> Array:
        return from_log(np.log(rng.standard_exponential(shape)) / concentration, scale)


def _power(y: Array, shape: Array, scale: Array) -> Array:
    """Return ``(y / scale)^shape``; 0 for y <= 0."""
    return np.asarray(np.exp(shape * log_ratio(y, scale)))


def _weibull_std(concentration: Array, scale: Array) -> Array:
    """Return standard deviations of Weibull distributions, infinite where they overflow."""
    inverse = 1 / concentration
    log_mean = scipy.special.gammaln(1 + inverse)
    # Var / mean^2 = Gamma(1 + 2u) / Gamma(1 + u)^2 - 1
    excess = _gamma_excess(inverse, log_mean)
    ratio = np.sqrt(np.expm1(np.minimum(excess, 700)))
    std = ratio * np.exp(log_mean) * scale
    if (large := inverse > _MODERATE).any():  # factors may overflow although the product does not
        relative = np.where(excess > 700, excess / 2, np.log(ratio))
        std = np.where(large, np.exp(relative + log_mean + np.log(scale)), std)
    if (flat := inverse < _FLAT).any():
        std = np.where(flat, np.pi / np.sqrt(6) * inverse * scale, std)
    return np.asarray(std)


def _gamma_excess(u: Array, log_gamma: Array) -> Array:
    """Return ``log Gamma(1 + 2 u) - 2 log Gamma(1 + u)``, by its series for small u.

    ``log_gamma`` is ``log Gamma(1 + u)``.
    """
    excess = scipy.special.gammaln(1 + 2 * u) - 2 * log_gamma
    small = np.flatnonzero(u < 0.05)
    if len(small):  # sum over k >= 2 of zeta(k) (-u)^k (2^k - 2) / k
        k = np.arange(2.0, 20.0)
        terms = np.concatenate([np.zeros(2), scipy.special.zeta(k) * (2.0**k - 2) / k])
        excess[small] = np.polynomial.polynomial.polyval(-u[small], terms)
    return np.asarray(excess)


class GeneralizedPareto(_Lifetime):
    """Generalised Pareto distributions: excesses over thresholds.

    Parameters
    ----------
    shape, scale : array_like, scalar or (n,)
        Shapes xi (tails ``y^(-1 / xi)`` for xi > 0, exponential for 0, an upper end ``loc - scale / xi``
        for xi < 0), and scales, positive.
    loc : array_like, scalar or (n,)
        Thresholds. Default: 0. In scipy.stats: ``genpareto(shape, loc, scale)``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    With ``z = (y - loc) / scale``, survival function S and shape xi < 2, the CRPS is ::

        scale (|z| - 2 (1 - S(y)^(1 - xi)) / (1 - xi) + 1 / (2 - xi))

    (Friederichs & Thorarinsdottir, *Forecast verification for extreme value distributions*, Environmetrics
    2012, section 3.2, who state it for xi < 1; both sides are analytic up to 2, with ``-log S(y)`` for the
    fraction at xi = 1). For xi >= 2 the score is infinite; for xi < -30 it is integrated numerically.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.GeneralizedPareto([0.5, -0.5], 1.0).mean.round(6).tolist()
    [2.0, 0.666667]
    """

    concentration: Array
    scale: Array
    loc: Array
    _names = ("concentration", "scale", "loc")
    _scales = ("scale",)
    _core_density = LogDensity.PARETO
    _has_core_scores = True

    def __init__(self, shape: ArrayLike, scale: ArrayLike, loc: ArrayLike = 0.0) -> None:
        values = parameters(("scale",), shape=shape, scale=scale, loc=loc)
        super().__init__(
            {"concentration": values["shape"], "scale": values["scale"], "loc": values["loc"]}
        )

    def ends(self) -> tuple[Array, Array] | None:
        """Return the ends (n,) of the support."""
        return self.loc, self.quantile(1.0)

    @property
    def mean(self) -> Array:
        """Means (n,); infinite for shapes of 1 or more."""
        with np.errstate(divide="ignore", over="ignore"):
            mean = self.loc + self.scale / (1 - self.concentration)
        return np.where(self.concentration < 1, mean, np.inf)

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite for shapes of 1/2 or more."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,); infinite for shapes of 1/2 or more."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            std = self.scale / (1 - self.concentration) / np.sqrt(1 - 2 * self.concentration)
        return np.where(self.concentration < 0.5, std, np.inf)

    def inflated_scores(self, y: Array, mass: Array) -> Array:
        """Return scores (n,) of mixtures with masses (n,) at 0; the score at a threshold of 0 is known."""
        if self.loc.any():
            return super().inflated_scores(y, mass)
        with np.errstate(divide="ignore", over="ignore"):
            at_zero = self.scale / np.maximum(2 - self.concentration, 0.0)
        return inflated_scores(y, self.crps(y), at_zero, mass)

    def _integrated(self) -> NDArray[np.bool_]:
        return self.concentration < _BOUNDED

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.genpareto(self.concentration, self.loc, self.scale)

    def _cdf(self, y: Array, xi: Array, scale: Array, loc: Array) -> Array:
        return -np.expm1(-_hazard(np.maximum(y - loc, 0.0), xi, scale))

    def _sf(self, y: Array, xi: Array, scale: Array, loc: Array) -> Array:
        return np.exp(-_hazard(np.maximum(y - loc, 0.0), xi, scale))

    def _log_prob(self, y: Array, xi: Array, scale: Array, loc: Array) -> Array:
        gap = y - loc
        hazard = _hazard(np.maximum(gap, 0.0), xi, scale)
        # At the upper end the density is 0 for xi > -1, 1 / scale at -1, infinite below.
        density = np.where(xi == -1, 0.0, -(1 + xi) * hazard) - np.log(scale)
        outside = (gap < 0) | np.isposinf(gap) | ((xi < 0) & (gap / scale > -1 / xi))
        return np.where(outside, -np.inf, density)

    def _crps(self, y: Array, xi: Array, scale: Array, loc: Array) -> Array:
        return pareto_scores(y, xi, scale, loc)

    def _quantile(self, level: Array, xi: Array, scale: Array, loc: Array) -> Array:
        return loc + _excess(-np.log1p(-level), xi, scale)

    def _upper_quantile(self, level: Array, xi: Array, scale: Array, loc: Array) -> Array:
        return loc + _excess(-np.log(level), xi, scale)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], xi: Array, scale: Array, loc: Array
    ) -> Array:
        return loc + _excess(rng.standard_exponential(shape), xi, scale)


def _hazard(gap: Array, xi: Array, scale: Array) -> Array:
    """Return ``-log S = log(1 + xi z) / xi`` of ``z = gap / scale >= 0``; z at xi = 0."""
    z = gap / scale
    product = xi * z
    slight = (np.abs(product) < _ROUNDED) | (xi == 0)  # also where the product underflows
    growth = np.log1p(np.maximum(product, -1.0))
    overflowed = ~np.isfinite(product) & np.isfinite(gap) & (xi > 0)
    if overflowed.any():
        with np.errstate(divide="ignore"):
            far = np.log(np.abs(xi)) + np.log(gap) - np.log(scale)
        growth = np.where(overflowed, far, growth)
    return np.where(slight, z, growth / np.where(slight, 1.0, xi))


def _excess(hazard: Array, xi: Array, scale: Array) -> Array:
    """Return the excess ``scale (exp(xi h) - 1) / xi`` at which ``-log S`` is h."""
    power = xi * hazard
    slight = (np.abs(power) < _ROUNDED) | (xi == 0)
    divisor = np.where(slight, 1.0, xi)
    out = scale * np.where(slight, hazard, np.expm1(power) / divisor)
    overflowed = np.isinf(out) & (power > 0) & np.isfinite(power)
    if overflowed.any():
        out = np.where(overflowed, np.exp(power - np.log(np.abs(divisor)) + np.log(scale)), out)
    return np.asarray(out)
