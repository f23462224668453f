"""Proper scores of densities besides the log score: quadratic, and log score with a linear end."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import check_positive
from fastmcmd.errors import RowError
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.predictive.base import Array, PredictionLike, Predictive
from fastmcmd.predictive.gaussian import Gaussian

__all__ = [
    "linearized_log_score",
    "mean_linearized_log_score",
    "mean_quadratic_score",
    "quadratic_score",
]

_BLOCK = 1 << 18  # nodes per block


@metric
def quadratic_score(
    y: ArrayLike, prediction: PredictionLike, *, nan_policy: NanPolicy = "raise"
) -> Array:
    """Return quadratic scores (n,): the squared distance of the density from the outcome.

    Parameters
    ----------
    prediction : Predictive of numbers, (mean, std), scipy.stats or torch.distributions object
        Predicted distributions with a density or probabilities.

    Returns
    -------
    ndarray (n,)
        ``integral of f^2 - 2 f(y)``; for discrete predictions a sum of squared probabilities.

    Raises
    ------
    ValueError
        Arguments that do not fit, or a prediction without a density.

    Notes
    -----
    Gneiting & Raftery 2007, section 4.1, with the opposite sign; skpro's ``SquaredDistrLoss``. The unit is
    one over that of y. The integral is infinite where the density has a pole too steep.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.quadratic_score([0.0], ([0.0], 1.0)).round(6).tolist()
    [-0.51579]
    """
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    with np.errstate(over="ignore", invalid="ignore"):
        density = np.exp(rows.prediction.log_prob(rows.y))
        score = _square_norm(rows.prediction) - 2 * density
    if np.isnan(score).any():
        raise RowError(
            f"prediction has a density beyond float64 in row {int(np.isnan(score).argmax())}; scale y and "
            "prediction",
            int(np.isnan(score).argmax()),
        )
    return rows.scatter(score)


mean_quadratic_score = mean_of(
    quadratic_score,
    "Return the mean quadratic score.",
    """
    >>> import fastmcmd as fm
    >>> round(fm.metrics.mean_quadratic_score([0.0], ([0.0], 1.0)), 6)
    -0.51579
    """,
)


def _square_norm(prediction: Predictive) -> Array:
    """Return ``integral of f^2 = E f(Y)`` (n,)."""
    if isinstance(prediction, Gaussian):
        return np.asarray(1 / (2 * np.sqrt(np.pi) * prediction.std))
    out, count = np.empty(len(prediction)), prediction.node_count

    def work(block: slice) -> None:
        part = prediction.take(np.arange(block.start, block.stop))
        values, masses = part.nodes()
        for_each = part.take(np.repeat(np.arange(len(part)), masses.shape[1]))
        density = np.exp(for_each.log_prob(values.ravel())).reshape(masses.shape)
        out[block] = np.einsum("nl,nl->n", masses, np.where(masses > 0, density, 0.0))

    over_rows(work, len(out), max(1, _BLOCK // count))
    return out


@metric
def linearized_log_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    threshold: float = 1.0,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return log scores (n,) that continue linearly where the density is small, so that none is infinite.

    Parameters
    ----------
    prediction : Predictive, (mean, std), scipy.stats or torch.distributions object
        Predicted distributions with a density.
    threshold : float, default 1.0
        Density r below which the score is linear; positive, in the unit of the density.

    Returns
    -------
    ndarray (n,)
        ``-log f(y)`` where ``f(y) >= r``, else ``-log r + 1 - f(y) / r``.

    Raises
    ------
    ValueError
        Arguments that do not fit, or a prediction without a density.

    Notes
    -----
    skpro's ``LinearizedLogLoss(range=r)``. The score is not proper: it depends on the density at y
    alone, and of such scores only the log score is. Use it to see how far a few outcomes of tiny density
    decide a log score.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.linearized_log_score([0.0, 99.0], ([0.0, 0.0], 1.0), threshold=0.1).round(4).tolist()
    [0.9189, 3.3026]
    """
    least = check_positive(threshold, "threshold")
    rows = read(y, prediction, None, nan_policy, columns=None, on_device=True).on_host()
    log = rows.prediction.log_prob(rows.y)
    linear = 1 - np.log(least) - np.exp(np.minimum(log, np.log(least))) / least
    return rows.scatter(np.where(log >= np.log(least), -log, linear))


mean_linearized_log_score = mean_of(
    linearized_log_score,
    "Return the mean log score that continues linearly where the density is small.",
    """
    >>> import fastmcmd as fm
    >>> round(fm.metrics.mean_linearized_log_score([0.0], ([0.0], 1.0), threshold=0.1), 4)
    0.9189
    """,
    columns=None,
)
