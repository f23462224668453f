"""Proper scores of quantiles: the check (pinball) loss."""

from __future__ import annotations

from typing import cast

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import AnyArray, NanPolicy
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import as_array
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.predictive.base import Array, PredictionLike, Predictive
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.on_device import DeviceGaussian, DevicePrediction
from fastmcmd.predictive.quantiles import Quantiles

__all__ = [
    "PERCENTS",
    "check_losses",
    "check_score",
    "check_terms",
    "losses_together",
    "mean_check_score",
    "open_levels",
    "scored",
]

_BLOCK = 1 << 18  # quantiles per block
_ROWS = 1 << 14  # Gaussian rows per block: temporaries of 128 kB
_FEW_KNOTS = 4
PERCENTS = np.linspace(0.01, 0.99, 99)  # default levels of the check score
_DIGITS = 14  # digits of a level that are compared: 0.95 and 0.5 + 0.9 / 2 are equal


def check_losses(y: Array, prediction: Predictive, levels: Array, factors: Array) -> Array:
    """Return ``sum_j factor_j rho_j(y_i - q_ij)`` (n,), where q_ij is the quantile at level p_j.

    ``rho_j(u) = max(p_j u, (p_j - 1) u)`` is the check (pinball) loss. Levels (j,) in (0, 1) may come in
    any order.
    """
    if isinstance(prediction, Gaussian):
        out = np.empty(len(y))
        mean, std = prediction.mean, prediction.std
        knots, slopes, heights = _piecewise(levels, factors)

        def gaussian(rows: slice) -> None:
            gap = y[rows] - mean[rows]
            with np.errstate(over="ignore"):  # an infinite deviation lies beyond all knots
                piece = _pieces(knots, gap / std[rows])
            gap *= slopes[piece]
            np.multiply(heights[piece], std[rows], out=out[rows])
            out[rows] += gap

        over_rows(gaussian, len(y), _ROWS)
        return out

    if isinstance(prediction, Quantiles) and np.array_equal(levels, prediction.levels):
        out, values = np.empty(len(y)), prediction.values

        def compiled(rows: slice) -> None:
            _core.check_losses(levels, factors, values[rows], y[rows], out[rows])

        over_rows(compiled, len(y), _BLOCK // len(levels))
        return out
    if isinstance(prediction, DevicePrediction):
        return _on_device(y, prediction, levels, factors)
    return losses_together(y, prediction, [(levels, factors)], np.empty(0))[0][0]


def _pieces(knots: Array, values: Array) -> NDArray[np.intp]:
    """Return the numbers of ascending knots below values; comparisons with few are faster than a search."""
    if len(knots) > _FEW_KNOTS:
        return np.searchsorted(knots, values)
    below = (values > knots[0]).astype(np.intp)
    for knot in knots[1:]:
        below += values > knot
    return below


def _on_device(
    y: AnyArray, prediction: DevicePrediction, levels: Array, factors: Array
) -> AnyArray:
    """Return `check_losses` of a prediction on a device."""
    arrays = prediction.namespace
    xp = arrays.xp
    if isinstance(prediction, DeviceGaussian):
        knots, slopes, heights = map(arrays.from_host, _piecewise(levels, factors))
        gap = y - prediction.mean
        piece = xp.searchsorted(knots, gap / prediction.std)
        return gap * xp.take(slopes, piece) + xp.take(heights, piece) * prediction.std
    total: AnyArray = 0.0
    for level, factor in zip(levels.tolist(), factors.tolist(), strict=True):
        gap = y - prediction.quantile(level)
        total = total + factor * xp.where(gap > 0, level * gap, (level - 1) * gap)
    return total


def losses_together(
    y: Array,
    prediction: Predictive,
    terms: list[tuple[Array, Array]],
    extra_levels: Array,
    scores: Array | None = None,
) -> tuple[list[Array], list[Array]]:
    """Return several `check_losses` (n,), and the quantiles (n,) at the levels ``extra_levels``.

    Each quantile is computed once, even if several losses need it. If ``scores`` (n,) is an array, CRPS are
    written to it, which may share work with the quantiles.
    """
    if isinstance(prediction, Gaussian):
        each_loss = [check_losses(y, prediction, *term) for term in terms]
        return each_loss, [prediction.quantile(level) for level in extra_levels]
    level_arrays = [*(levels for levels, _ in terms), extra_levels]
    levels, place = np.unique(np.round(np.concatenate(level_arrays), _DIGITS), return_inverse=True)
    *places, ends = np.split(
        place, np.cumsum([len(term_levels) for term_levels in level_arrays])[:-1]
    )
    factors = np.zeros((len(terms), len(levels)))
    for row, term_levels, (_, factor) in zip(factors, places, terms, strict=True):
        np.add.at(row, term_levels, factor)
    losses: Array = np.empty((len(terms), len(y)))
    quantiles: Array = np.empty((len(extra_levels), len(y)))

    def work(rows: slice) -> None:
        part = prediction.take(np.arange(rows.start, rows.stop))
        if scores is None:
            predicted = part.quantile(levels)
        else:
            scores[rows], predicted = part.scored_quantiles(y[rows], cast(Array, levels))
        quantiles[:, rows] = predicted[:, ends].T
        for loss, factor in zip(losses, factors, strict=True):
            weighted_levels = np.flatnonzero(factor)
            term_quantiles = (
                predicted if len(weighted_levels) == len(levels) else predicted[:, weighted_levels]
            )
            _core.check_losses(
                cast(Array, levels[weighted_levels]),
                factor[weighted_levels],
                term_quantiles,
                y[rows],
                loss[rows],
            )

    over_rows(work, len(y), _BLOCK // max(len(levels), _width(prediction)))
    return list(losses), list(quantiles)


def _width(prediction: Predictive) -> int:
    """Return how many numbers a row holds: the draws that must be sorted for quantiles."""
    return 1 if prediction.has_density else prediction.node_count


def _piecewise(levels: Array, factors: Array) -> tuple[Array, Array, Array]:
    """Return knots (j,), and slopes and heights (j + 1,) of the losses of a standard Gaussian.

    As a function of the outcome, the sum of the losses is linear between quantiles. Each row therefore
    needs one search and one linear function, whatever the number of levels.
    """
    order = np.argsort(levels)
    p, f = levels[order], factors[order]
    q = scipy.special.ndtri(p)
    above, below = f * p, f * (1 - p)  # slopes for outcomes above and below a quantile
    zero = np.zeros(1)
    left = np.concatenate([zero, np.cumsum(above)])
    right = np.concatenate([np.cumsum(below[::-1])[::-1], zero])
    left_q = np.concatenate([zero, np.cumsum(above * q)])
    right_q = np.concatenate([np.cumsum((below * q)[::-1])[::-1], zero])
    return q, left - right, right_q - left_q


@metric
def check_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    levels: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return check (pinball) losses of predicted quantiles, averaged over levels (n,).

    Parameters
    ----------
    levels : float or array_like (j,), default 0.01, 0.02, ..., 0.99
        Levels of the quantiles, in (0, 1).

    Returns
    -------
    ndarray (n,)
        ``mean_j max(p_j (y - q_j), (p_j - 1) (y - q_j))``.

    Raises
    ------
    ValueError
        Arguments that do not fit, or levels outside (0, 1).

    Notes
    -----
    The loss is that of Koenker & Bassett, *Regression Quantiles* (1978); see Gneiting & Raftery 2007,
    section 6.1. In the limit of many evenly spaced levels, the score is half the CRPS. The default is
    Uncertainty Toolbox's ``check_score``. scikit-learn's ``mean_pinball_loss`` and scoringrules'
    ``quantile_score`` take a single level.

    Examples
    --------
    >>> from fastmcmd.metrics.quantile_scores import check_score
    >>> check_score([0.0, 3.0], ([0.0, 0.0], 1.0), levels=0.5).tolist()
    [0.0, 1.5]
    >>> check_score([0.0], ([0.0], 1.0)).round(6).tolist()
    [0.117956]
    """
    checked_levels = open_levels(PERCENTS if levels is None else levels, "levels")
    return scored(y, prediction, *check_terms(checked_levels), nan_policy)


mean_check_score = mean_of(
    check_score,
    "Return the mean check (pinball) loss over rows and levels.",
    """
    >>> from fastmcmd.metrics.quantile_scores import mean_check_score
    >>> mean_check_score([0.0, 3.0], ([0.0, 0.0], 1.0), levels=0.5)
    0.75
    """,
)


def check_terms(levels: Array) -> tuple[Array, Array]:
    """Return the levels, and the factors 1/j of their mean."""
    return levels, np.full(len(levels), 1.0 / len(levels))


def open_levels(value: ArrayLike, name: str) -> Array:
    """Return checked levels (j,) in (0, 1)."""
    levels = np.atleast_1d(as_array(value, name).astype(np.float64))
    if levels.ndim != 1 or not len(levels) or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"{name} is {value!r}; a number or numbers (j,) in (0, 1) are needed")
    return levels


def scored(
    y: ArrayLike, prediction: PredictionLike, levels: Array, factors: Array, nan_policy: NanPolicy
) -> Array:
    """Return weighted sums of check losses per row (n,), with NaN in rows left out."""
    outcomes = read(y, prediction, None, nan_policy, on_device=True)
    return outcomes.scatter(check_losses(outcomes.y, outcomes.prediction, levels, factors))
