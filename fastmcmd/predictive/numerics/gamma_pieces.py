"""Scores of parts of gamma distributions on intervals, in closed form."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    cdf_piece,
    piece_sums,
    supported_scores,
)
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.gamma_functions import (
    half_ratio,
    log_height,
    scaled_deviance,
    smaller_tails,
)

__all__ = ["gamma_clipped_scores", "gamma_piece_scores"]

_STEP = 1 << 13  # rows per block: with all temporaries of the formula in the cache
_UNDERFLOWS = 1e-290  # number below which the digits of a product with a rate may be lost


def gamma_piece_scores(y: Array, shape: Array, piece: CDFPiece) -> Array:
    """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over pieces of gamma distributions of rate 1.

    Parameters
    ----------
    y, shape : ndarray (n,)
        Outcomes, and shapes of the distributions.
    piece : CDFPiece
        Intervals, and the masses below, in and above them.

    Returns
    -------
    ndarray (n,)
        NaN where digits are lost.

    Notes
    -----
    Centred at its mean a, the gamma distribution with density f has ``int_x^inf (t - a) f(t) dt = x f(x)``
    and ``int_0^x 2 t f(t)^2 dt = Gamma(a + 1/2) / (sqrt(pi) Gamma(a)) P(2 a, 2 x)``, with the regularised
    incomplete gamma function P. The other terms are those of symmetric distributions. Censored at a number
    below its mean, this is the score of Scheuerer & Hamill, *Statistical Postprocessing of Ensemble
    Precipitation Forecasts by Fitting Censored, Shifted Gamma Distributions* (Monthly Weather Review 2015).
    """
    return _on_support(y, shape, piece, False)


def gamma_clipped_scores(y: Array, shape: Array, low: Array, high: Array) -> Array:
    """Return `gamma_piece_scores` (n,) of the cdf itself from ``low`` to ``high``."""
    none = np.zeros(len(y))
    return _on_support(y, shape, CDFPiece(low, high, none, none + 1, none), True)


def _on_support(y: Array, shape: Array, piece: CDFPiece, is_cdf: bool) -> Array:
    """Return the scores (n,) of pieces, or of the cdf itself on their intervals."""

    def of_rows(y: Array, shape: Array, *inside: Array) -> Array:
        return _inside(y, shape, CDFPiece(*inside), is_cdf)

    def inner(inside: CDFPiece) -> Array:
        return by_rows(of_rows, y, shape, *inside, step=_STEP)

    scores = supported_scores(y, piece, np.zeros(len(y)), np.full(len(y), np.inf), inner)
    return np.full(len(y), np.nan) if scores is None else scores


def _inside(y: Array, shape: Array, piece: CDFPiece, is_cdf: bool) -> Array:
    """Return the scores (n,) of pieces inside the support, or of the cdf itself."""
    places = np.stack([piece.low, np.clip(y, piece.low, piece.high), piece.high], axis=1)
    a = shape[:, None]
    # At infinity all integrals are 0, as for distributions that are censored on one side.
    count = 3 if (piece.high < np.inf).any() else 2
    ends = slice(0, count, 2)
    tails = _with_zeros(smaller_tails(a, places[:, :count], a), 3)
    if is_cdf:
        piece = cdf_piece(piece.low, piece.high, places - a, tails)
    height = log_height(shape)[:, None]
    means = _with_zeros(_mean_above(places[:, :count], a, height), 3)
    unit = _unit(places - a, shape, tails, means)
    total = half_ratio(shape) / np.sqrt(np.pi) / unit
    with np.errstate(invalid="ignore", over="ignore"):
        z = (places - a) / unit[:, None]
        gaps = np.diff(places, axis=1) / unit[:, None]
    shares = smaller_tails(2 * a, 2 * places[:, ends], 2 * a)
    squares = total[:, None] * _with_zeros(shares, 2)
    sums = piece_sums(z, gaps, tails, means / unit[:, None], squares, total, piece)
    is_lost = ((places > 0) & (places < _UNDERFLOWS)).any(axis=1)
    return np.where(is_lost, np.nan, unit * sums)


def _with_zeros(values: Array, columns: int) -> Array:
    """Return values (n, k) with columns of zeros after them."""
    if values.shape[1] == columns:
        return values
    out = np.zeros((len(values), columns))
    out[:, : values.shape[1]] = values
    return out


def _unit(centred: Array, shape: Array, tails: Array, means: Array) -> Array:
    """Return units (n,): standard deviations, or larger ones for intervals in a tail.

    A rounding of an end x changes the mass of its tail by a factor of ``x f(x) / mass``, which `piece_sums`
    takes for ``1 + z^2``, as in normal tails. With the larger unit, it does not overrate that factor.
    """
    end = np.where(centred[:, 2] < 0, 2, 0)
    rows = np.arange(len(end))
    gap, tail, mean = (one[rows, end] for one in (centred, tails, means))
    is_tail = (gap > 0) | (end == 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.sqrt(np.where(is_tail, mean / tail, 1.0))
        return np.maximum(np.sqrt(shape), np.where(is_tail, np.abs(gap) / growth, 0.0))


def _mean_above(x: Array, shape: Array, height: Array) -> Array:
    """Return the integral of ``(t - shape) f(t)`` beyond x, from the logarithm of ``shape f(shape)``."""
    return np.where((x > 0) & (x < np.inf), np.exp(height - scaled_deviance(x, shape)), 0.0)
