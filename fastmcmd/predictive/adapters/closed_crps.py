"""Closed forms of the CRPS of families of scipy.stats that have no class of their own.

Each function takes standardised outcomes and the shape parameters of SciPy. It returns scores of the
standardised distribution, NaN where the formula loses digits. Unless another source is named, formulas are
those of Jordan, Krueger & Lerch, *Evaluating Probabilistic Forecasts with scoringRules* (JSS 2019),
appendix A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    exponential_scores,
    log_laplace_scores,
    scores_with_distance,
)
from fastmcmd.predictive.numerics.elementwise import SLOW_STEP, by_rows
from fastmcmd.predictive.numerics.gamma_pieces import gamma_clipped_scores, gamma_piece_scores

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

__all__ = ["closed_clipped_scores", "closed_crps", "closed_piece_scores"]

_NEAR_ZERO = 1e-4  # sizes of shapes below which differences lose more than four digits
_FAR = 1e300  # standardised outcome beyond which only the distance matters
_UPPER = 40.0  # standardised outcome beyond which the square of exp(-z) is rounding


def closed_crps(frozen: rv_frozen, y: Array) -> Array | None:
    """Return scores (n,) of a frozen distribution, NaN where they are unsafe; None without a formula."""
    formula = _FORMULAS.get(frozen.dist.name)
    if formula is None:
        return None
    shapes, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    arrays = np.broadcast_arrays(y, loc, scale, *shapes)
    y, loc, scale, *shapes = (np.asarray(one, dtype=np.float64) for one in arrays)

    def scores(y: Array, loc: Array, scale: Array, *shapes: Array) -> Array:
        gap = y - loc
        z = gap / scale
        is_far = (np.abs(z) > _FAR) & np.isfinite(gap)
        standard = formula(np.clip(z, -_FAR, _FAR), *shapes)
        return np.where(is_far & np.isfinite(standard), np.abs(gap), scale * standard)

    return by_rows(scores, y, loc, scale, *shapes, step=SLOW_STEP)


def closed_piece_scores(frozen: rv_frozen, y: Array, piece: CDFPiece) -> Array | None:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; None without a formula."""
    if frozen.dist.name != "gamma":
        return None
    shape, loc, scale = _gamma_parameters(frozen, y)
    with np.errstate(over="ignore"):
        standard = piece._replace(low=(piece.low - loc) / scale, high=(piece.high - loc) / scale)
        return scale * gamma_piece_scores((y - loc) / scale, shape, standard)


def closed_clipped_scores(frozen: rv_frozen, y: Array, low: Array, high: Array) -> Array | None:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` from low to high; None without a formula."""
    if frozen.dist.name != "gamma":
        return None
    shape, loc, scale = _gamma_parameters(frozen, y)
    with np.errstate(over="ignore"):
        z, ends = (y - loc) / scale, ((low - loc) / scale, (high - loc) / scale)
        return scale * gamma_clipped_scores(z, shape, *ends)


def _gamma_parameters(frozen: rv_frozen, y: Array) -> tuple[Array, Array, Array]:
    """Return the shapes, locations and scales (n,) of frozen gamma distributions."""
    (shape,), loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    shape, loc, scale = (
        np.broadcast_to(np.asarray(one, dtype=np.float64), y.shape) for one in (shape, loc, scale)
    )
    return shape, loc, scale


def _gamma(z: Array, a: Array) -> Array:
    low, high = np.zeros(len(z)), np.full(len(z), np.inf)
    scores = scores_with_distance(z, low, high, lambda y: gamma_clipped_scores(y, a, low, high))
    return np.full(len(z), np.nan) if scores is None else scores


def _exponential(z: Array) -> Array:
    return exponential_scores(z, np.ones(1))


def _gumbel(z: Array) -> Array:
    # With F = exp(-t), Ei(log F) is -E_1(t), and -E_1(t) is log(t) + gamma - t + O(t^2).
    t = np.exp(-z)
    integral = np.where(z > _UPPER, z - np.euler_gamma + t, scipy.special.exp1(t))
    return np.asarray(2 * integral - z + np.euler_gamma - np.log(2))


def _extreme(z: Array, c: Array) -> Array:
    """Return scores of generalised extreme value distributions, infinite for shapes ``-c`` of 1 and more.

    The formula is that of Friederichs & Thorarinsdottir, *Forecast verification for extreme value
    distributions with an application to probabilistic peak wind prediction* (Environmetrics 2012). The
    incomplete gamma function is the lower or the upper one, so that no digits cancel.
    """
    shape = np.where((np.abs(c) < _NEAR_ZERO) | (c <= -1), np.nan, -c)
    t = np.exp(-np.log1p(np.maximum(shape * z, -1.0)) / shape)
    is_upper = shape > 0
    part, order = np.empty(len(z)), 1 - shape
    part[is_upper] = -scipy.special.gammaincc(order[is_upper], t[is_upper])
    part[~is_upper] = scipy.special.gammainc(order[~is_upper], t[~is_upper])
    part -= np.where(is_upper, np.expm1(-np.log(2) * order), 2 ** (shape - 1))
    total = 2 * scipy.special.gamma(order) * part
    scores = (2 * np.exp(-t) - 1) * (z + 1 / shape) + total / shape
    scores[c <= -1] = np.inf
    is_gumbel = c == 0
    scores[is_gumbel] = _gumbel(z[is_gumbel])
    return np.asarray(scores)


def _log_logistic(z: Array, c: Array) -> Array:
    scale = np.where(c > 1, 1 / c, np.nan)
    cdf = np.where(z > 0, scipy.special.expit(c * np.log(np.maximum(z, 0.0))), 0.0)
    below = scipy.special.betainc(1 + scale, 1 - scale, cdf)
    mean = scipy.special.beta(1 + scale, 1 - scale)
    return np.where(c > 1, z * (2 * cdf - 1) - mean * (2 * below + scale - 1), np.inf)


def _log_laplace(z: Array, c: Array) -> Array:
    return log_laplace_scores(z, np.ones(1), c)


def _skew_normal(z: Array, a: Array) -> Array:
    """Return scores of skew normal distributions.

    With ``delta = a / sqrt(1 + a^2)``, the integral of ``t f(t)`` beyond z is
    ``f(z) + sqrt(2 / pi) delta Phi(-z sqrt(1 + a^2))``, by parts. Half the mean distance of two outcomes is
    1 / sqrt(pi) at a = 0, and its derivative is ``-(2 / pi)^(3/2) atan(a / sqrt(2)) (1 + a^2)^(-3/2)``,
    whose integral has a closed form.
    """
    root = np.hypot(1.0, a)
    delta, mean = a / root, np.sqrt(2 / np.pi) * a / root
    ndtr = scipy.special.ndtr
    cdf = ndtr(z) - 2 * scipy.special.owens_t(z, a)
    density = np.sqrt(2 / np.pi) * np.exp(-z * z / 2) * ndtr(a * z)
    turn = delta * np.arctan(a / np.sqrt(2)) - np.sqrt(2) * (np.arctan(root) - np.pi / 4)
    half_distance = 1 / np.sqrt(np.pi) - (2 / np.pi) ** 1.5 * turn
    return np.asarray(
        z * (2 * cdf - 1) + 2 * (density + mean * ndtr(-z * root)) - mean - half_distance
    )


_FORMULAS: dict[str, Callable[..., Array]] = {
    "expon": _exponential,
    "gamma": _gamma,
    "gumbel_r": _gumbel,
    "genextreme": _extreme,
    "fisk": _log_logistic,
    "loglaplace": _log_laplace,
    "skewnorm": _skew_normal,
}
