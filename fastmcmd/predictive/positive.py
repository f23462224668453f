"""Predictions of positive numbers by log-normal and gamma distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.errors import RowError
from fastmcmd.predictive.family import Family, parameters
from fastmcmd.predictive.numerics import gamma_functions
from fastmcmd.predictive.numerics.closed_scores import CDFPiece
from fastmcmd.predictive.numerics.density_terms import DensityFamily, DensityTerm, density_term
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.gamma_functions import (
    half_excess,
    half_ratio,
    log_x_density,
    stirling_error,
)
from fastmcmd.predictive.numerics.gamma_pieces import gamma_clipped_scores, gamma_piece_scores
from fastmcmd.predictive.numerics.log_densities import LogDensity, log_densities
from fastmcmd.predictive.numerics.marching import Tail, linear_slope
from fastmcmd.predictive.pearson import PearsonFamily

__all__ = ["Gamma", "LogNormal"]

_MARCHED = 0.3  # shape from which a march between quantiles takes few steps
_USUAL = 5.0  # sigma up to which the tail of a log-normal distribution keeps its digits
_NARROW = 0.1  # sigma below which the CRPS of a log-normal distribution is summed from differences
_FEW_UNITS = 8.0  # |mu| up to which the rounding of log y is that of two units of y
_TINY_SQUARE = 1e-18  # sigma^2 up to which ``exp(sigma^2) - 1`` equals sigma^2
_WIDE_SQUARE = (
    1.0  # sigma^2 beyond which ``exp(sigma^2)`` may overflow although the product does not
)
_LEAST_SCALE = 1e-300
_SMALL = 0.05  # shape below which terms of the CRPS cancel and their differences are used
# Shapes, and the largest outcome, for which terms of a log density are small: their sum loses no digits.
_LEAST_USUAL, _FEW_DIGITS, _MOST_USUAL = 1e-3, 6.0, 1e6
_CENTRED = 64.0  # shape below which ``(a - 1) log(x / a)`` rounds to a few digits of the density
_UNDERFLOWS = 1e-290  # product with a rate below which its digits may be lost
_LEGENDRE = 6  # nodes for a difference of normal cdfs over less than _NARROW: exact to rounding


def _log_normal_std(mu: Array, sigma: Array) -> Array:
    """Return standard deviations, infinite where they overflow."""
    square = sigma**2
    wide = square > _WIDE_SQUARE  # there, exp(2 mu + square) (1 - exp(-square)) under the root
    ratio = np.sqrt(np.abs(np.expm1(np.where(wide, -square, square))))
    ratio = np.where(square > _TINY_SQUARE, ratio, sigma)
    exponent = mu + np.where(wide, square, square / 2)
    factor = np.exp(exponent)
    std = ratio * factor
    if (infinite := np.isinf(factor) & ~wide).any():
        half = np.exp(exponent / 2)
        std = np.where(infinite, half * ratio * half, std)
    return np.asarray(std)


class LogNormal(Family):
    """Log-normal distributions: ``log Y`` is normal with mean mu and standard deviation sigma.

    Parameters
    ----------
    mu, sigma : array_like, scalar or (n,)
        Mean and (positive) standard deviation of ``log Y``, not of Y. The same distribution in
        scipy.stats is ``lognorm(s=sigma, scale=exp(mu))``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The CRPS is that of Jordan, Krueger & Lerch, *Evaluating Probabilistic Forecasts with scoringRules* (JSS
    2019), appendix A, with ``w = (log y - mu) / sigma``. For small sigma its terms are reordered to avoid
    cancellation:

        y (2 Phi(w) - 1) + 2 exp(mu + sigma^2 / 2) (Phi(-sigma / sqrt 2) - Phi(w - sigma))

    Examples
    --------
    >>> from fastmcmd.predictive import LogNormal
    >>> LogNormal([0.0, 1.0], 0.5).quantile(0.5).round(6).tolist()
    [1.0, 2.718282]
    """

    mu: Array
    sigma: Array
    _names = ("mu", "sigma")
    _ends = (0.0, np.inf)
    _scales = ("sigma",)

    def __init__(self, mu: ArrayLike, sigma: ArrayLike) -> None:
        super().__init__(parameters(("sigma",), mu=mu, sigma=sigma))

    @property
    def mean(self) -> Array:
        """Means (n,) of Y; infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.mu + self.sigma**2 / 2))

    @property
    def variance(self) -> Array:
        """Variances (n,) of Y; infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,) of Y; infinite where they overflow."""
        return by_rows(_log_normal_std, self.mu, self.sigma)

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.lognorm(self.sigma, scale=np.exp(self.mu))

    def _cdf(self, y: Array, mu: Array, sigma: Array) -> Array:
        return scipy.special.ndtr(_standard(y, mu, sigma))

    def _sf(self, y: Array, mu: Array, sigma: Array) -> Array:
        return scipy.special.ndtr(-_standard(y, mu, sigma))

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density (n,): -inf outside the support."""
        if max(self.mu.max(initial=0.0), -self.mu.min(initial=0.0)) > _FEW_UNITS:
            return super().log_prob(y)
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return log_densities(LogDensity.LOG_NORMAL, y, self.mu, self.sigma)

    def _log_prob(self, y: Array, mu: Array, sigma: Array) -> Array:
        w = _standard(y, mu, sigma)
        density = -w * w / 2 - np.log(y) - np.log(sigma) - np.log(2 * np.pi) / 2
        return np.where((y <= 0) | np.isinf(y), -np.inf, density)

    def _density_formula(self) -> tuple[Any, tuple[Array, ...]]:
        if np.abs(self.mu).max(initial=0.0) > _FEW_UNITS:
            return super()._density_formula()
        return _log_normal_density, (
            self.mu,
            self.sigma,
            -np.log(self.sigma) - np.log(2 * np.pi) / 2,
        )

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density, for the core; None if the logarithm loses digits."""
        if np.abs(self.mu).max(initial=0.0) > _FEW_UNITS:
            return None
        height = -np.log(self.sigma) - np.log(2 * np.pi) / 2
        return density_term(DensityFamily.LOG_NORMAL, height, self.mu, self.sigma)

    def _crps(self, y: Array, mu: Array, sigma: Array) -> Array:
        w = _standard(y, mu, sigma)
        if sigma.min() >= _NARROW and y.min() > 0 and y.max() < np.inf and sigma.max() < _USUAL:
            mean = np.exp(mu + sigma * sigma / 2)
            if mean.max() < np.inf:  # then one function serves both sides of the median
                part = scipy.special.erfc(sigma / 2) - 2 * scipy.special.ndtr(w - sigma)
                return y * scipy.special.erf(w / np.sqrt(2)) + mean * part
        # 2 exp(mu + sigma^2 / 2) Phi(-x) = exp(mu + sigma^2 / 2 - x^2 / 2) erfcx(x / sqrt 2) for x > 0.
        x = sigma - w
        upper = y * np.exp(-w * w / 2) * scipy.special.erfcx(np.maximum(x, 0.0) / np.sqrt(2))
        lower = 2 * np.exp(mu + sigma * sigma / 2) * scipy.special.ndtr(-x)
        wide = y * scipy.special.erf(w / np.sqrt(2))
        # A single exponential, because the first factor alone may overflow.
        wide += np.exp(mu + sigma * sigma / 4 + np.log(scipy.special.erfcx(sigma / 2)))
        wide -= np.where(y > 0, np.where(x > 0, upper, lower), 0.0)
        out = np.where(np.isposinf(y), np.inf, wide)
        # The terms above cancel near exp(mu).
        narrow = (sigma < _NARROW) & (y > 0) & (sigma * np.abs(w) < 1)
        if narrow.any():
            w, mu, sigma, y = w[narrow], mu[narrow], sigma[narrow], y[narrow]
            out[narrow] = np.exp(mu) * _narrow_crps(w, sigma)
        return out

    def _quantile(self, level: Array, mu: Array, sigma: Array) -> Array:
        return np.exp(mu + sigma * scipy.special.ndtri(level))

    def _upper_quantile(self, level: Array, mu: Array, sigma: Array) -> Array:
        return self._quantile(level, mu, -sigma)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], mu: Array, sigma: Array
    ) -> Array:
        return rng.lognormal(mu, sigma, shape)


def _log_normal_density(y: Array, mu: Array, sigma: Array, height: Array) -> Array:
    """Return the log density, for medians near enough to 1 that ``log y`` keeps its digits."""
    log_y = np.log(y)
    density = (log_y - mu) / sigma
    density *= density
    density *= -0.5
    density -= log_y
    density += height
    return density if y.min() > 0 else np.where(y > 0, density, -np.inf)


def _standard(y: Array, mu: Array, sigma: Array) -> Array:
    """Return ``(log y - mu) / sigma``; minus infinity for y <= 0."""
    log_ratio = np.log(np.maximum(y, 0.0)) - mu
    if max(mu.max(initial=0.0), -mu.min(initial=0.0)) > _FEW_UNITS:
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            median = np.exp(mu)
            ratio = np.maximum(y, 0.0) / median
            usual = (np.minimum(median, ratio) > _LEAST_SCALE) & (
                np.maximum(median, ratio) < np.inf
            )
            log_ratio = np.where(usual, np.log(ratio), log_ratio)
    return np.asarray(log_ratio / sigma)


def _narrow_crps(w: Array, sigma: Array) -> Array:
    """Return the CRPS divided by ``exp(mu)``, from terms of the order of sigma."""
    z, weights = gauss_legendre(_LEGENDRE)
    step = sum(
        weight * np.exp(-((w - sigma * (1 + node) / 2) ** 2) / 2)
        for node, weight in zip(z, weights, strict=True)
    )
    step = step * sigma / np.sqrt(2 * np.pi)  # 2 (Phi(w) - Phi(w - sigma))
    half = sigma * sigma / 2
    out = np.expm1(sigma * w) * scipy.special.erf(w / np.sqrt(2)) + step
    out -= np.expm1(half) * scipy.special.erf((w - sigma) / np.sqrt(2))
    return out - np.exp(half) * scipy.special.erf(sigma / 2)


class Gamma(PearsonFamily):
    """Gamma distributions.

    Parameters
    ----------
    shape, rate : array_like, scalar or (n,)
        Shape and rate, positive: the mean is ``shape / rate``. PyTorch, TensorFlow and NumPyro use the
        rate, too; SciPy and NumPy use the scale.
    scale : array_like, scalar or (n,), keyword only
        Scale, positive: ``1 / rate``. Pass it instead of ``rate``.

    Raises
    ------
    TypeError
        Neither or both of ``rate`` and ``scale``.
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The CRPS is that of Jordan, Krueger & Lerch (JSS 2019), appendix A. The recurrence of the cdf reduces
    its two cdfs to one, which is more accurate for large shapes. With ``x = rate y``, shape a, and the cdf
    F and density g at rate 1,

        rate CRPS = (x - a) (2 F(x) - 1) + 2 x g(x) - Gamma(a + 1/2) / (sqrt(pi) Gamma(a))

    Examples
    --------
    >>> from fastmcmd.predictive import Gamma
    >>> Gamma([2.0, 8.0], 2.0).mean.tolist()
    [1.0, 4.0]
    >>> Gamma.from_mean([1.0, 4.0], dispersion=0.5).variance.tolist()
    [0.5, 8.0]
    """

    concentration: Array
    rate: Array
    _names = ("concentration", "rate")
    _ends = (0.0, np.inf)
    _scales = "concentration", "rate"

    def __init__(
        self, shape: ArrayLike, rate: ArrayLike | None = None, *, scale: ArrayLike | None = None
    ) -> None:
        if (rate is None) == (scale is None):
            raise TypeError(
                f"{'neither' if rate is None else 'both'} of rate and scale are given; one is needed: "
                "Gamma(shape, rate) or Gamma(shape, scale=scale)"
            )
        if rate is None:
            values = parameters(("shape", "scale"), shapes=("shape",), shape=shape, scale=scale)
            rate, least = (
                1 / np.maximum(values["scale"], _LEAST_SCALE),
                values["scale"].min(initial=1),
            )
            if least < _LEAST_SCALE:
                raise ValueError(f"scale holds {least:g}; at least {_LEAST_SCALE:g} is needed")
        else:
            values = parameters(("shape", "rate"), shapes=("shape",), shape=shape, rate=rate)
            rate = values["rate"]
        with np.errstate(over="ignore"):
            overflowed = np.isinf(values["shape"] / rate)
        if overflowed.any():
            row = int(overflowed.argmax())
            raise RowError(
                f"shape {values['shape'][row]:g} over rate {rate[row]:g} (row {row}), the mean, leaves the "
                "range of float64; a smaller scale or a larger rate is needed",
                row,
            )
        super().__init__({"concentration": values["shape"], "rate": rate})

    @classmethod
    def from_mean(cls, mean: ArrayLike, dispersion: ArrayLike) -> Gamma:
        """Return the distributions with variance ``dispersion mean^2``, as in a gamma GLM.

        Parameters
        ----------
        mean, dispersion : array_like, scalar or (n,)
            Means and dispersions, positive.
        """
        values = parameters(
            ("mean", "dispersion"), shapes=("dispersion",), mean=mean, dispersion=dispersion
        )
        with np.errstate(over="ignore"):
            shape = 1 / values["dispersion"]
            rate = shape / values["mean"]
        if not (np.isfinite(rate) & (rate > 0)).all():
            raise ValueError(
                "mean times dispersion is out of range: the rates, 1 over it, are no doubles"
            )
        return cls(shape, rate)

    @property
    def mean(self) -> Array:
        """Means (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self.concentration / self.rate)

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self.concentration / self.rate / self.rate)

    @property
    def std(self) -> Array:
        """Standard deviations (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(np.sqrt(self.concentration) / self.rate)

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; NaN where digits are lost."""
        with np.errstate(over="ignore"):
            low, high = piece.low * self.rate, piece.high * self.rate
            standard = piece._replace(low=low, high=high)
            return gamma_piece_scores(y * self.rate, self.concentration, standard) / self.rate

    def clipped_scores(self, y: Array, low: Array, high: Array) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` from low to high, where F is the cdf."""
        with np.errstate(over="ignore"):
            ends = low * self.rate, high * self.rate
            return gamma_clipped_scores(y * self.rate, self.concentration, *ends) / self.rate

    def _shapes(self) -> tuple[Array, ...]:
        return (self.concentration,)

    def _lower(self, levels: Array, *shapes: Array) -> Array:
        return _LOWER.inwards(levels, *shapes)

    def _upper(self, levels: Array, *shapes: Array) -> Array:
        return _UPPER.inwards(levels, *shapes)

    def _from_standard(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(x / self.rate[:, None])

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.gamma(self.concentration, scale=1 / self.rate)

    def _cdf(self, y: Array, a: Array, rate: Array) -> Array:
        return _at(gamma_functions.lower(a, np.maximum(y * rate, 0.0)), y, a, rate, False)

    def _sf(self, y: Array, a: Array, rate: Array) -> Array:
        return _at(gamma_functions.upper(a, np.maximum(y * rate, 0.0)), y, a, rate, True)

    def _log_prob(self, y: Array, a: Array, rate: Array) -> Array:
        x = y * rate
        if (
            x.min() > _UNDERFLOWS
            and x.max() < _MOST_USUAL
            and _LEAST_USUAL < a.min() <= a.max() < _FEW_DIGITS
            and _UNDERFLOWS < rate.min() <= rate.max() < 1 / _UNDERFLOWS
        ):
            out = np.empty(x.size)
            at, shapes, rates = (np.broadcast_to(one, x.shape).ravel() for one in (y, a, rate))
            _core.gamma_log_densities(at, shapes, rates, out)
            return out.reshape(x.shape)
        at_zero = scipy.special.xlogy(a - 1, 0.0) - scipy.special.gammaln(a)
        density = np.where(x > 0, log_x_density(x, a) - np.log(x), at_zero) + np.log(rate)
        tiny = (y > 0) & (x < _UNDERFLOWS)
        if tiny.any():  # ``exp(-x) = 1``
            log_x = np.log(np.where(tiny, y, 1.0)) + np.log(rate)
            near = (a - 1) * log_x - scipy.special.gammaln(a) + np.log(rate)
            density = np.where(tiny, near, density)
        return np.where((y < 0) | np.isposinf(x), -np.inf, np.where(np.isnan(x), np.nan, density))

    def _near_quantiles(self, levels: Array, upper: bool) -> Array:
        """Return about the quantiles: the cube of normal ones, or a power of the level near 0.

        The cube is that of Wilson & Hilferty, *The Distribution of Chi-Square* (1931).
        """
        a = self.concentration[:, None]
        z = scipy.special.ndtri(levels)
        root = np.maximum(1 - 1 / (9 * a) + (-z if upper else z) / (3 * np.sqrt(a)), 0.0)
        below = np.log1p(-levels) if upper else np.log(levels)
        least = np.exp((below + scipy.special.gammaln(a + 1)) / a)
        with np.errstate(over="ignore"):
            return np.asarray(np.maximum(a * root**3, least) / self.rate[:, None])

    def _density_formula(self) -> tuple[Any, tuple[Array, ...]]:
        a = self.concentration
        if not a.max(initial=0.0) < _CENTRED:
            return super()._density_formula()
        return _log_density_at, (a, self.rate / a, self._height())

    def _height(self) -> Array:
        """Return the log density at the mean."""
        a = self.concentration
        return np.asarray(np.log(self.rate) - np.log(2 * np.pi * a) / 2 - stirling_error(a))

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density, for the core; None if large shapes lose digits."""
        a = self.concentration
        if not a.max(initial=0.0) < _CENTRED:
            return None
        return density_term(DensityFamily.GAMMA, self._height(), a, self.rate / a)

    def _crps(self, y: Array, a: Array, rate: Array) -> Array:
        x = np.maximum(y * rate, 0.0)
        cdf = self._cdf(y, a, rate)
        density = np.where((x > 0) & (x < np.inf), np.exp(log_x_density(x, a)), 0.0)
        density = np.where((y > 0) & (x < _UNDERFLOWS), a * cdf, density)
        centred = (y - a / rate) * (2 * cdf - 1)
        out = centred + (2 * density - half_ratio(a) / np.sqrt(np.pi)) / rate
        small = (a < _SMALL) & np.isfinite(y)
        if small.any():  # the terms above cancel; use x (2 F(x) - 1) and terms of the order of a^2
            bracket = 2 * gamma_functions.lower(a + 1, x) + np.expm1(
                half_excess(np.minimum(a, _SMALL))
            )
            out = np.where(small, y * (2 * cdf - 1) - a * bracket / rate, out)
        return np.where(np.isposinf(y), np.inf, out)

    def _quantile(self, level: Array, a: Array, rate: Array) -> Array:
        quantile = gamma_functions.lower_inverse(a, level)
        return _scaled(quantile, np.log(level), a, rate)

    def _upper_quantile(self, level: Array, a: Array, rate: Array) -> Array:
        quantile = gamma_functions.upper_inverse(a, level)
        return _scaled(quantile, np.log1p(-level), a, rate)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], a: Array, rate: Array
    ) -> Array:
        x = rng.standard_gamma(a, shape)
        tiny = x < _UNDERFLOWS
        with np.errstate(over="ignore"):
            out = x / rate
        if not tiny.any():
            return np.asarray(out)
        # For smaller x, the cdf is a power of x.
        log_x = np.log(_UNDERFLOWS) + np.log(1 - rng.random(int(tiny.sum()))) / (a + 0 * x)[tiny]
        with np.errstate(over="ignore"):
            out[tiny] = np.exp(log_x - np.log(rate + 0 * x)[tiny])
        return np.asarray(out)


def _at(value: Any, y: Array, a: Array, rate: Array, upper: bool) -> Array:
    """Return a tail at y. Uses its first term where ``rate y`` underflows: small shapes have mass there."""
    tiny = (y > 0) & (y * rate < _UNDERFLOWS)
    if not tiny.any():
        return value
    power = a * (np.log(np.where(tiny, y, 1.0)) + np.log(rate)) - scipy.special.gammaln(a + 1)
    return np.where(tiny, -np.expm1(power) if upper else np.exp(power), value)


def _scaled(x: Array, log_level: Array, a: Array, rate: Array) -> Array:
    """Return ``x / rate`` of a quantile x; uses the first term of the cdf where x underflows."""
    tiny = (x < _UNDERFLOWS) & (log_level > -np.inf)
    if not np.any(tiny):
        return x / rate
    log_x = (log_level + scipy.special.gammaln(a + 1)) / a
    return np.where(tiny, np.exp(log_x - np.log(rate)), x / rate)


def _log_density_at(y: Array, a: Array, part: Array, height: Array) -> Array:
    """Return the log density from the ratio of y to the mean, ``part y``: terms are small where mass is."""
    ratio = y * part
    density = (a - 1) * np.log(ratio)
    ratio -= 1
    ratio *= a
    density -= ratio
    density += height
    return density if y.min() > 0 else np.where(y > 0, density, -np.inf)


def _density(x: Array, a: Array) -> Array:
    """Return the density at rate 1; NaN for shapes whose quantiles are many orders of magnitude apart."""
    return np.where(a >= _MARCHED, np.exp(log_x_density(x, a)) / x, np.nan)


def _slope(a: Array) -> Array:
    """Return ``f' / f = (a - 1 - x) / x``."""
    return linear_slope(a - 1, -1.0, (0.0, 1.0, 0.0), (0.0, 0.0, 0.0))


_LOWER = Tail(
    lambda p, a: gamma_functions.lower_inverse(a, p),
    lambda x, a: gamma_functions.lower(a, x),
    _density,
    _slope,
    1.0,
)
_UPPER = Tail(
    lambda p, a: gamma_functions.upper_inverse(a, p),
    lambda x, a: gamma_functions.upper(a, x),
    _density,
    _slope,
    -1.0,
)
