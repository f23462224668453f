"""Predictions of numbers in [0, 1] by beta distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.predictive.family import parameters
from fastmcmd.predictive.numerics.density_terms import DensityFamily, DensityTerm, density_term
from fastmcmd.predictive.numerics.gamma_functions import (
    half_excess,
    half_ratio,
    scaled_deviance,
    stirling_error,
)
from fastmcmd.predictive.numerics.inverse import least
from fastmcmd.predictive.numerics.marching import Tail, linear_slope
from fastmcmd.predictive.pearson import PearsonFamily

__all__ = ["Beta"]

_SAFE = 1e-3  # level p from which 1 - p is accurate
_CANCELS = 0.01  # y below which 1 - y has lost two of its digits
_CENTRED = (
    64.0  # shapes below which powers of ratios to the mean round to a few digits of the density
)
_FEW_DIGITS = (
    6.0  # of shapes: terms of a log density below it are so small that their sum loses no digits
)
_SMALL = 0.05  # shape below which terms of the CRPS cancel and their differences are used
_LEGENDRE = 5  # nodes over a tenth of an argument of digamma functions: error 1e-14
_UNDERFLOWS = 1e-307  # quantile below which SciPy returns the smallest normal number
_FAR_TAIL = 1e-250  # probability below which SciPy may return 0
_MOST_TERMS = 1000  # of the continued fraction; shapes up to 1e12 need at most 300
_CONVERGED = 1e-16  # relative change of the fraction by one term
_FAR = 1e-20  # level below which SciPy's quantiles are checked
_POLISHED, _SMALL_STEP = 1e6, 1e-6  # shape from which quantiles are polished; largest relative step
_MARCHED = 0.3  # shape from which a march between quantiles takes few steps


class Beta(PearsonFamily):
    """Beta distributions on [0, 1].

    Parameters
    ----------
    a, b : array_like, scalar or (n,)
        Shape parameters, positive: the mean is ``a / (a + b)``.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The CRPS is that of Jordan, Krueger & Lerch, *Evaluating Probabilistic Forecasts with scoringRules* (JSS
    2019), appendix A. For accuracy at large shapes, the recurrence of the cdf reduces its two cdfs to one,
    and the duplication formula eliminates ``B(2a, 2b)``. With mean m and cdf F,

        (y - m) (2 F(y) - 1) + 2 / (a + b) (y^a (1 - y)^b / B(a, b) - h(a) h(b) / (2 sqrt(pi) h(a + b)))

    where ``h(x) = Gamma(x + 1/2) / Gamma(x)``.

    Examples
    --------
    >>> from fastmcmd.predictive import Beta
    >>> Beta([1.0, 2.0], [1.0, 6.0]).mean.tolist()
    [0.5, 0.25]
    """

    a: Array
    b: Array
    _names = ("a", "b")
    _ends = (0.0, 1.0)
    _scales = "a", "b"

    def __init__(self, a: ArrayLike, b: ArrayLike) -> None:
        super().__init__(parameters(("a", "b"), shapes=("a", "b"), a=a, b=b))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return np.asarray(self.a / (self.a + self.b))

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        total = self.a + self.b
        return np.asarray(self.a / total * (self.b / total) / (total + 1))

    def mirrored(self) -> Beta:
        """Return the distributions of 1 - Y."""
        return Beta(self.b, self.a)

    def _shapes(self) -> tuple[Array, ...]:
        return self.a, self.b

    def _lower(self, levels: Array, *shapes: Array) -> Array:
        return _LOWER.inwards(levels, *shapes)

    def _upper(self, levels: Array, *shapes: Array) -> Array:
        a, b = shapes
        # Solve for 1 - y if it is the smaller of the two, so that both keep their digits.
        mean = a / (a + b)
        flip = mean + 3 * np.sqrt(mean * (1 - mean) / (a + b + 1)) > 0.5
        out = np.empty((len(a), levels.shape[1]))
        straight, flipped = np.flatnonzero(~flip), np.flatnonzero(flip)
        if len(straight):
            row_levels = levels[straight] if len(levels) > 1 else levels
            out[straight] = _UPPER.inwards(row_levels, a[straight], b[straight])
        if len(flipped):
            row_levels = levels[flipped] if len(levels) > 1 else levels
            out[flipped] = 1 - _LOWER.inwards(row_levels, b[flipped], a[flipped])
        # Shapes near 0 have quantiles near both ends.
        row, column = np.nonzero(flip[:, None] & (out < _CANCELS))
        if len(row):
            level = levels[row if len(levels) > 1 else 0, column]
            out[row, column] = _inverse(1 - level, a[row], b[row])
        return out

    def _from_standard(self, x: Array) -> Array:
        return np.array(x)

    def _freeze(self) -> Any:
        from scipy import stats

        return stats.beta(self.a, self.b)

    def _cdf(self, y: Array, a: Array, b: Array) -> Array:
        return _incomplete(a, b, np.clip(y, 0.0, 1.0))

    def _sf(self, y: Array, a: Array, b: Array) -> Array:
        return _upper(a, b, np.clip(y, 0.0, 1.0))

    def _log_prob(self, y: Array, a: Array, b: Array) -> Array:
        if y.min() > 0 and y.max() < 1 and np.maximum(a, b).max() < _FEW_DIGITS:
            usual: Array = np.log(y)
            usual *= a - 1
            other = np.log1p(-y)
            other *= b - 1
            usual += other
            usual -= scipy.special.betaln(a, b)
            return usual
        inside = (y > 0) & (y < 1)
        x = np.where(inside, y, 0.5)
        density = _log_power(x, a, b) - np.log(x) - np.log1p(-x)
        edge = np.clip(y, 0.0, 1.0)
        at_edge = (
            scipy.special.xlogy(a - 1, edge)
            + scipy.special.xlog1py(b - 1, -edge)
            - scipy.special.betaln(a, b)
        )
        density = np.where(inside, density, at_edge)
        return np.where((y < 0) | (y > 1), -np.inf, np.where(np.isnan(y), np.nan, density))

    def _density_formula(self) -> tuple[Any, tuple[Array, ...]]:
        a, b = self.a, self.b
        if not np.maximum(a, b).max(initial=0.0) < _CENTRED:
            return super()._density_formula()
        return _log_density_at, (a, b, self.mean, self._height())

    def _near_quantiles(self, levels: Array, upper: bool) -> Array:
        """Return about the quantiles: by cube roots of ratios, or a power of the level near 0.

        The ratio is ``a (1 - y) / (b y)``, that of two gamma variables, whose cube roots are nearly normal
        (Paulson, *An approximate normalization of the analysis of variance distribution*, 1942). The power
        is the first term of the cdf and bounds quantiles from below. Shapes below 1 take the exact ones.
        """
        a, b = np.maximum(self.a, 1.0)[:, None], np.maximum(self.b, 1.0)[:, None]
        near = 1 - _near_lower(levels, b, a) if upper else _near_lower(levels, a, b)
        rows = np.flatnonzero(np.minimum(self.a, self.b) < 1)
        if len(rows):
            part = self.take(rows)
            row_levels = np.broadcast_to(levels, (len(rows), len(levels)))
            exact = part.upper_quantiles_at if upper else part.quantiles_at
            near[rows] = exact(row_levels)
        return near

    def _height(self) -> Array:
        """Return the log density at the mean."""
        mean = self.mean
        return np.asarray(_log_power(mean, self.a, self.b) - np.log(mean) - np.log(1 - mean))

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density, for the core; None if large shapes lose digits."""
        if not np.maximum(self.a, self.b).max(initial=0.0) < _CENTRED:
            return None
        return density_term(DensityFamily.BETA, self._height(), self.a, self.b, self.mean)

    def _crps(self, y: Array, a: Array, b: Array) -> Array:
        total = a + b
        clipped = np.clip(y, 0.0, 1.0)
        inside = (clipped > 0) & (clipped < 1)
        power = np.where(inside, np.exp(_log_power(np.where(inside, clipped, 0.5), a, b)), 0.0)
        gini = half_ratio(a) * (half_ratio(b) / half_ratio(total)) / (2 * np.sqrt(np.pi))
        centred = (y - a / total) * (2 * _incomplete(a, b, clipped) - 1)
        out = centred + 2 / total * (power - gini)
        small = (np.minimum(a, b) < _SMALL) & np.isfinite(y)
        if small.any():
            flip = (b < a)[small]
            shapes = a[small], b[small]
            first, second = np.where(flip, shapes[::-1], shapes)
            out[small] = _small_crps(np.where(flip, 1 - y[small], y[small]), first, second)
        return out

    def _quantile(self, level: Array, a: Array, b: Array) -> Array:
        return _inverse(level, a, b)

    def _upper_quantile(self, level: Array, a: Array, b: Array) -> Array:
        return _beyond(level, a, b)

    def _sample(
        self, rng: np.random.Generator, shape: tuple[int, ...], a: Array, b: Array
    ) -> Array:
        return rng.beta(a, b, shape)


def _near_lower(level: Array, a: Array, b: Array) -> Array:
    """Return about the points with cdf ``level`` up to 0.5, for shapes from 1 on."""
    z = scipy.special.ndtri(level)
    own_part, other_part = 1 / (9 * a), 1 / (9 * b)
    middle, numerator = (1 - own_part) * (1 - other_part), (1 - own_part) ** 2 - z * z * own_part
    root = np.sqrt(
        np.maximum(middle**2 - ((1 - other_part) ** 2 - z * z * other_part) * numerator, 0.0)
    )
    ratio = a * np.maximum(numerator / (middle + root), 0.0) ** 3
    power = np.exp((np.log(level) + np.log(a) + scipy.special.betaln(a, b)) / a)
    return np.asarray(np.maximum(ratio / (ratio + b), np.minimum(power, 1.0)))


def _beyond(level: Array, a: Array, b: Array) -> Array:
    """Return the points with a mass ``level`` above them, computed from the nearer end."""
    if np.min(level) >= _SAFE:
        return _inverse(1 - level, a, b)
    complement = np.asarray(_inverse(level, b, a))
    out = 1 - complement
    far = complement >= 0.5
    if (
        far.any()
    ):  # elsewhere the points round to 1, or near it, and a search from 0 would take long
        level, a, b = (np.broadcast_to(value, out.shape)[far] for value in (level, a, b))
        other = scipy.special.betainccinv(a, b, level)
        tiny = ~(other > _UNDERFLOWS)
        if tiny.any():
            other[tiny] = _inverse(1 - level[tiny], a[tiny], b[tiny])
        out[far] = other
    return out


def _upper(a: Array, b: Array, y: Array) -> Array:
    """Return P(Y > y) for y in [0, 1], from 1 - y in the upper half and from the cdf in the lower half."""
    a, b, y = np.broadcast_arrays(a, b, y)
    out = np.empty(y.shape)
    upper = y >= 0.5
    out[upper] = _incomplete(b[upper], a[upper], 1 - y[upper])
    low = ~upper
    value = 1 - _incomplete(a[low], b[low], y[low])
    is_inaccurate = value < _CANCELS  # as a difference from 1, and 1 - y has lost digits of y
    if is_inaccurate.any():
        arguments = a[low][is_inaccurate], b[low][is_inaccurate], y[low][is_inaccurate]
        value[is_inaccurate] = scipy.special.betaincc(*arguments)  # slow
    out[low] = value
    return out


def _incomplete(a: Array, b: Array, y: Array) -> Array:
    """Return I_y(a, b). Far out, where SciPy underflows from 1e-270 on, uses a continued fraction."""
    result = np.asarray(scipy.special.betainc(a, b, y))
    is_far = (result < _FAR_TAIL) & (np.asarray(y) > 0)
    if not is_far.any():
        return result
    result = np.array(result)
    a, b, y = (np.broadcast_to(value, result.shape)[is_far] for value in (a, b, y))
    with np.errstate(under="ignore"):
        result[is_far] = np.exp(_log_power(y, a, b) - np.log(_fraction(y, a, b)))
    return result


def _fraction(y: Array, a: Array, b: Array) -> Array:
    """Return ``y^a (1 - y)^b / (B(a, b) I_y(a, b))`` for y below the mean, by Lentz's method.

    This is the continued fraction of Didonato & Morris, *Algorithm 708* (1992), equation 9. In the far tail
    a few terms suffice for any shapes; the power series would need as many as the larger shape.
    """
    gap = a * (1 - y) - b * y + 1
    total = a * gap / (a + 1)
    numerator, reciprocal = total, np.zeros_like(total)
    for n in range(1, _MOST_TERMS):
        scaled = y / (a + 2 * n - 1)
        partial = (a + n - 1) * ((a + b + n - 1) * scaled) * (n * (b - n) * scaled)
        term = n + n * (b - n) * scaled + (a + n) * ((gap + n * (2 - y)) / (a + 2 * n + 1))
        reciprocal = 1 / (term + partial * reciprocal)
        numerator = term + partial / numerator
        total = total * (numerator * reciprocal)
        if not (np.abs(numerator * reciprocal - 1) > _CONVERGED).any():
            break
    return total


def _inverse(level: Array, a: Array, b: Array) -> Array:
    """Return the points with cdf ``level``; bisects where SciPy returns NaN, an end or a wrong point."""
    quantile = scipy.special.betaincinv(a, b, level)
    is_wrong = ~((quantile > _UNDERFLOWS) & (quantile < 1)) & (level > 0) & (level < 1)
    if np.min(level) < _FAR:  # SciPy stops there before its search has converged
        reached_level = _incomplete(a, b, quantile)
        is_wrong |= (level > 0) & (level < _FAR) & ~(np.abs(reached_level - level) <= 1e-9 * level)
    large = np.maximum(a, b) > _POLISHED
    if np.any(large):  # SciPy's error of 1e-12 is large relative to the width of the distribution
        quantile = np.where(large & ~is_wrong, _polished(quantile, level, a, b), quantile)
    if not np.any(is_wrong):
        return quantile
    quantile = np.array(quantile)
    level, a, b = (np.broadcast_to(value, quantile.shape)[is_wrong] for value in (level, a, b))
    far = level < _FAR

    def is_reached(y: Array) -> NDArray[np.bool_]:
        clipped = np.clip(y, 0.0, 1.0)
        above = _upper(a, b, clipped) <= 1 - level
        below = np.array(scipy.special.betainc(a, b, clipped))
        if far.any():  # SciPy underflows; at other levels so small a cdf is below the level anyway
            below[far] = _incomplete(a[far], b[far], clipped[far])
        return np.where(level > 0.5, above, below >= level) & (y > 0)

    quantile[is_wrong] = np.minimum(least(is_reached, len(level)), 1.0)
    return quantile


def _polished(y: Array, level: Array, a: Array, b: Array) -> Array:
    """Return quantiles after one Newton step, unchanged if that step is not small."""
    with np.errstate(all="ignore"):
        gap = np.where(level > 0.5, 1 - level - _upper(a, b, y), _incomplete(a, b, y) - level)
        step = gap * y * (1 - y) / np.exp(_log_power(y, a, b))
        return np.where(np.abs(step) < _SMALL_STEP * np.minimum(y, 1 - y), y - step, y)


def _small_crps(y: Array, a: Array, b: Array) -> Array:
    """Return the score for ``a < _SMALL`` and ``a <= b``, without cancelling terms of the size of the mean.

    ``y (2 F(y) - 1) - m (2 F_(a+1)(y) + h(a) h(b) / (sqrt(pi) a h(a + b)) - 1)``.
    """
    clipped = np.clip(y, 0.0, 1.0)
    # log(h(b) / h(a + b)), an integral of digamma functions if the ratio is near 1.
    z, weights = gauss_legendre(_LEGENDRE)
    at = b[:, None] + a[:, None] * (1 + z) / 2
    gap = a / 2 * ((scipy.special.psi(at + 0.5) - scipy.special.psi(at)) @ weights)
    direct = np.log(half_ratio(a + b) / half_ratio(b))
    excess = half_excess(a) - np.where(a < 0.1 * b, gap, direct)
    bracket = 2 * _incomplete(a + 1, b, clipped) + np.expm1(excess)
    return y * (2 * _incomplete(a, b, clipped) - 1) - a / (a + b) * bracket


def _log_density_at(y: Array, a: Array, b: Array, mean: Array, height: Array) -> Array:
    """Return the log density from the ratios to the mean and its complement: terms are small near it."""
    density = (a - 1) * np.log(y / mean)
    density += (b - 1) * np.log((1 - y) / (1 - mean))
    density += height
    if y.min() > 0 and y.max() < 1:
        return density
    return np.where((y > 0) & (y < 1), density, -np.inf)


def _density(y: Array, a: Array, b: Array) -> Array:
    """Return the density; NaN for shapes whose quantiles are many orders of magnitude apart."""
    density = np.exp(_log_power(y, a, b)) / (y * (1 - y))
    return np.where(np.minimum(a, b) >= _MARCHED, density, np.nan)


def _slope(a: Array, b: Array) -> Array:
    """Return ``f' / f = (a - 1 - (a + b - 2) y) / (y - y^2)``."""
    return linear_slope(a - 1, 2 - a - b, (0.0, 1.0, -1.0), (0.0, 1.0, 0.0))


_LOWER = Tail(
    _inverse,
    lambda y, a, b: _incomplete(a, b, y),
    _density,
    _slope,
    1.0,
)
_UPPER = Tail(_beyond, lambda y, a, b: _upper(a, b, y), _density, _slope, -1.0)


def _log_power(y: Array, a: Array, b: Array) -> Array:
    """Return ``log(y^a (1 - y)^b / B(a, b))`` for y in (0, 1), from terms that do not cancel."""
    total = a + b
    mean, complement = a / total, b / total
    deviance = a * (scaled_deviance(y, mean) / mean) + b * (
        scaled_deviance(1 - y, complement) / complement
    )
    scale = (np.log(a) + np.log(b) - np.log(total) - np.log(2 * np.pi)) / 2
    error = stirling_error(total) - stirling_error(a) - stirling_error(b)
    return scale + error - deviance
