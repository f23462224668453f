"""Proper scores of predicted distributions: log score, CRPS, Dawid-Sebastiani score.

Scores are negatively oriented: smaller is better, and in expectation the true distribution is best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import HostArray, NanPolicy
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.checks import check_choice, quote
from fastmcmd.errors import RowError
from fastmcmd.metrics.ensembles import PAIRED, crps_from_pairs
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.member_weights import check_two_members
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.predictive.adapters.convert import check_probabilities
from fastmcmd.predictive.base import Array, PredictionLike, Predictive
from fastmcmd.predictive.draws import ESTIMATORS, UNBIASED, Draws
from fastmcmd.predictive.numerics.spread import central_sums, row_scale
from fastmcmd.predictive.on_device import DeviceDraws, family
from fastmcmd.predictive.quantiles import Quantiles
from fastmcmd.predictive.weighted_draws import WeightedDraws

__all__ = [
    "crps",
    "dawid_sebastiani",
    "log_score",
    "mean_crps",
    "mean_dawid_sebastiani",
    "nll",
]

_FLOATS = (np.float32, np.float64)
_BLOCK = 1 << 18  # components of draws per block


@metric
def log_score(
    y: ArrayLike, prediction: PredictionLike, *, nan_policy: NanPolicy = "raise"
) -> Array:
    """Return negative log-likelihoods (n,), infinite if an outcome has probability 0.

    Parameters
    ----------
    prediction : Predictive, (mean, std), scipy.stats or torch.distributions object
        Predicted distributions; draws and quantiles have no density.

    Returns
    -------
    ndarray (n,)
        ``-log f_i(y_i)``.

    Raises
    ------
    ValueError
        Arguments that do not fit, or a prediction without a density.

    Notes
    -----
    This is the logarithmic score (Good 1952; Gneiting & Raftery, *Strictly Proper Scoring Rules,
    Prediction, and Estimation*, JASA 2007, section 4.1), in nats.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.metrics.scores import log_score
    >>> scores = log_score([1.0, 0.5], fm.Poisson([1.0, 1.0]))  # no count is 0.5
    >>> scores.tolist(), int(np.isinf(scores).sum())
    ([1.0, inf], 1)
    """
    outcomes = read(y, prediction, None, nan_policy, columns=None, on_device=True)
    return outcomes.scatter(-outcomes.prediction.log_prob(outcomes.y))


nll = mean_of(
    log_score,
    """Return the mean negative log-likelihood.

    It is infinite if some outcome has probability 0; ``numpy.isinf(log_score(y, prediction)).sum()`` counts
    such rows. For Gaussians it equals Uncertainty Toolbox's ``nll_gaussian``.
    """,
    """
    The best standard deviation for errors of size 1 is 1. Smaller and larger ones cost:

    >>> import fastmcmd as fm
    >>> [round(fm.nll([-1.0, 1.0], ([0.0, 0.0], std)), 2) for std in (0.5, 1.0, 2.0)]
    [2.23, 1.42, 1.74]
    """,
    name="nll",
    columns=None,
)


@metric
def crps(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    estimator: str | None = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return continuous ranked probability scores (n,), in the unit of y.

    Parameters
    ----------
    estimator : {"qd", "nrg", "int", "pwm", "fair", "akr", "akr_circperm", "pinball"}, optional
        For draws: "qd", "nrg" (the default) and "int" give the score of the empirical distribution; "pwm"
        and "fair" give the unbiased estimate of the score of the distribution that the draws come from. See
        `Draws.crps`. "akr" and "akr_circperm" estimate it from m pairs of draws only, each with the one
        before it, or the one half of the draws before it: cheap and noisy, for draws in random order. For
        `Quantiles`: "pinball" gives twice the mean check loss at their levels, instead of the exact score
        of the interpolated distribution. Other predictions accept no estimator.

    Returns
    -------
    ndarray (n,)
        Scores. For point predictions these are absolute errors.

    Raises
    ------
    ValueError
        Arguments that do not fit, or an estimator that the prediction does not have.

    Notes
    -----
    ``integral of (F(t) - 1{y <= t})^2 dt = E|Y - y| - E|Y - Y'| / 2`` (Matheson & Winkler 1976; Gneiting &
    Raftery 2007, equations 20 and 21). The Gaussian closed form is ``s (z (2 Phi(z) - 1) + 2 phi(z) -
    1/sqrt(pi))``, which is never negative; some sources print it with the opposite sign. Uncertainty
    Toolbox's ``crps_gaussian``, properscoring and scoringrules agree with this form.

    At levels ``(i - 1/2)/j``, "pinball" equals the score of j draws at the quantiles (scoringrules'
    ``crps_quantile``). With other levels the score depends on the levels.

    Examples
    --------
    Both predictions are standard normal. The second outcome is one standard deviation away, so its
    score is larger.

    >>> import fastmcmd as fm
    >>> fm.crps([0.0, 1.0], ([0.0, 0.0], 1.0)).round(3).tolist()
    [0.234, 0.602]

    A point prediction, given as a single draw, has its absolute error as score:

    >>> fm.crps([3.0], [[1.0]]).tolist()
    [2.0]

    Two draws, 0 and 2, with the outcome between them. "fair" removes the bias of so few draws:

    >>> fm.crps([1.0], [[0.0, 2.0]]).tolist(), fm.crps([1.0], [[0.0, 2.0]], estimator="fair").tolist()
    ([0.5], [0.0])
    """
    if (
        isinstance(nan_policy, str)
        and nan_policy == "raise"
        and type(y) is type(prediction) is np.ndarray
    ):
        scores = _of_plain_draws(y, prediction, estimator)
        if scores is not None:
            return scores
    outcomes = read(y, prediction, None, nan_policy, on_device=True)
    if isinstance(estimator, str) and estimator in PAIRED:  # computed on the host
        outcomes = outcomes.on_host()
    unbiased = isinstance(estimator, str) and estimator in UNBIASED
    if unbiased and isinstance(outcomes.prediction, WeightedDraws):
        check_two_members(outcomes, outcomes.prediction.weights, str(estimator), "qd")
    return outcomes.scatter(_crps(outcomes.y, outcomes.prediction, estimator))


mean_crps = mean_of(
    crps,
    "Return the mean continuous ranked probability score.",
    """
    >>> from fastmcmd.metrics.scores import mean_crps
    >>> round(mean_crps([0.0, 1.0], ([0.0, 0.0], 1.0)), 6)
    0.418068
    """,
)


def _of_plain_draws(y: HostArray, draws: HostArray, estimator: str | None) -> Array | None:
    """Return scores of arrays (n,) and (n, m), whose values are finite if the scores are.

    None if something is unusual. Rows must then be read, and checked, by `read`.
    """
    estimator = "qd" if estimator is None else estimator
    floats = y.dtype in _FLOATS and draws.dtype in _FLOATS
    if not floats or y.ndim != 1 or draws.ndim != 2 or len(y) != len(draws) or not len(y):
        return None
    if draws.shape[1] < 2 or not isinstance(estimator, str) or estimator not in ESTIMATORS:
        return None
    check_probabilities(draws, y, "prediction")
    scores = Draws.of_finite(draws).crps(y, estimator)
    return scores if np.isfinite(scores).all() else None


def _crps(y: Array, prediction: Predictive, estimator: str | None) -> Array:
    if estimator is None:
        return prediction.crps(y)
    check_choice(estimator, "estimator", (*ESTIMATORS, *PAIRED, "pinball"))
    if isinstance(prediction, (Draws, DeviceDraws, WeightedDraws)) and estimator in ESTIMATORS:
        return prediction.crps(y, estimator)
    if isinstance(prediction, (Draws, WeightedDraws)) and estimator in PAIRED:
        return crps_from_pairs(y, prediction, estimator)
    if isinstance(prediction, Quantiles) and estimator == "pinball":
        from fastmcmd.metrics.quantile_scores import check_losses

        levels = prediction.levels
        return check_losses(y, prediction, levels, np.full(len(levels), 2.0 / len(levels)))
    needed_kind = "Quantiles" if estimator == "pinball" else "draws"
    raise ValueError(
        f"estimator is {estimator!r}, which is for {needed_kind}, and prediction is a "
        f"{family(prediction)}; leave it out"
    )


@metric
def dawid_sebastiani(
    y: ArrayLike, prediction: PredictionLike, *, ddof: int = 0, nan_policy: NanPolicy = "raise"
) -> Array:
    """Return Dawid-Sebastiani scores (n,), which depend only on predicted means and variances.

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs.
    prediction : Predictive, draws, (mean, std), scipy.stats or torch.distributions object
        Predicted distributions with finite positive variances. For vectors: draws (n, m, k) with a
        covariance matrix of full rank.
    ddof : {0, 1}, default 0
        For draws: their variance divides by ``m - ddof``.

    Returns
    -------
    ndarray (n,)
        ``log v + (y - m)^2 / v``; of vectors ``log det C + (y - m)' C^-1 (y - m)`` with the covariance C.

    Raises
    ------
    ValueError
        Arguments that do not fit, or variances that are zero or not finite.

    Notes
    -----
    See Dawid & Sebastiani, *Coherent dispersion criteria for optimal experimental design* (1999) and
    Gneiting & Raftery 2007. As in that paper and in scoringrules, the log determinant has no factor 1/2:
    for a Gaussian the score is ``2 log_score - k log(2 pi)``. The score is proper, and strictly proper
    among distributions that differ in mean or variance. scoringrules' ``dssuv_ensemble`` and
    ``dssmv_ensemble`` divide by m - 1 unless ``bias=True``: use ``ddof=1`` for their default.

    Examples
    --------
    >>> from fastmcmd.metrics.scores import dawid_sebastiani
    >>> dawid_sebastiani([0.0, 2.0], ([0.0, 0.0], 1.0)).tolist()
    [0.0, 4.0]
    >>> vectors = [[[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]]  # uncorrelated, of variance 1
    >>> dawid_sebastiani([[3.0, 4.0]], vectors).tolist()
    [25.0]
    """
    if not np.isscalar(ddof) or ddof not in (0, 1):
        raise ValueError(f"ddof is {quote(ddof)}; 0 or 1 is needed")
    outcomes = read(y, prediction, None, nan_policy, columns=None, on_device=True)
    has_draws = isinstance(outcomes.prediction, (Draws, DeviceDraws))
    if ddof and not has_draws:
        raise ValueError(
            f"ddof is 1, which is for draws, and prediction is a {family(outcomes.prediction)}"
        )
    if ddof and outcomes.prediction.node_count < 2:
        raise ValueError("ddof is 1, which needs at least two draws per input, and there is one")
    if outcomes.prediction.columns > 1:
        outcomes = outcomes.on_host()
        if not isinstance(outcomes.prediction, Draws):
            raise ValueError(
                f"prediction is a {family(outcomes.prediction)}; the Dawid-Sebastiani score of vectors "
                "needs draws (n, m, k)"
            )
        return outcomes.scatter(_of_vectors(outcomes.y, outcomes.prediction.array, ddof))
    if isinstance(outcomes.prediction, Draws):
        unit, mean, square, _ = central_sums(outcomes.prediction.array)
        mean, std = unit * mean, unit * np.sqrt(square / (outcomes.prediction.node_count - ddof))
    else:
        mean, std = outcomes.prediction.mean, outcomes.prediction.std  # its square may overflow
        if ddof:
            count = outcomes.prediction.node_count
            std = std * (count / (count - 1)) ** 0.5
    xp = outcomes.namespace.xp
    bad = ~((std > 0) & xp.isfinite(std))
    if bool(xp.any(bad)):
        count = int(outcomes.namespace.count(bad))
        raise ValueError(
            f"prediction has variances that are not positive and finite ({count}, the first "
            f"{float(std[bad][0] ** 2):g}); the Dawid-Sebastiani score needs them"
        )
    with np.errstate(over="ignore"):  # a score beyond the range of float64 is infinite
        z = (outcomes.y - mean) / std
        return outcomes.scatter(2 * xp.log(std) + z * z)


def _of_vectors(y: Array, draws: Array, ddof: int) -> Array:
    """Return Dawid-Sebastiani scores (n,) of draws (n, m, k)."""
    n, count, columns = draws.shape
    values = np.full((n, 2), np.nan)

    def work(rows: slice) -> None:
        by_component = np.ascontiguousarray(draws[rows].swapaxes(1, 2), dtype=np.float64)
        scratch = np.empty(columns * (count + 2))
        _core.dispersion_rows(by_component, y[rows], scratch, values[rows])

    if count > columns:
        over_rows(work, n, max(1, _BLOCK // (count * columns)))
    degrees = count - ddof
    log_det, square = values.T
    out = log_det - columns * np.log(degrees) + degrees * square
    hard = np.flatnonzero(~np.isfinite(out))
    if len(hard):
        out[hard] = _by_singular_values(y, draws, ddof, hard)
    return out


def _by_singular_values(y: Array, draws: Array, ddof: int, rows: NDArray[np.intp]) -> Array:
    """Return Dawid-Sebastiani scores of some rows, whose covariance matrix is nearly singular."""
    count, columns = draws.shape[1:]
    out = np.empty(len(rows))
    for block in row_blocks(len(rows), max(1, _BLOCK // (count * columns))):
        part, outcomes = draws[rows[block]].astype(np.float64), y[rows[block]]
        unit = row_scale(part, outcomes)[:, None]
        part, outcomes = part / unit[:, None], outcomes / unit
        mean = part.mean(axis=1)
        gaps = part - mean[:, None]
        # Components in units of their own, which may differ by orders of magnitude.
        largest = np.abs(gaps).max(axis=1)
        scale = np.where(largest > 0, largest, 1.0)
        _, roots, axes = np.linalg.svd(gaps / scale[:, None], full_matrices=False)
        singular = roots[:, -1] <= roots[:, 0] * max(count, columns) * np.finfo(float).eps
        if roots.shape[1] < columns or singular.any():
            row = int(rows[block.start + (int(singular.argmax()) if singular.any() else 0)])
            raise RowError(
                f"prediction has {count} draws in row {row} that do not span its {columns} components, so "
                "their covariance matrix has no inverse; the Dawid-Sebastiani score needs one",
                row,
            )
        std = roots / (count - ddof) ** 0.5
        z = np.einsum("njk,nk->nj", axes, (outcomes - mean) / scale) / std
        log_units = np.log(scale) + np.log(unit)
        out[block] = 2 * (np.log(std) + log_units).sum(axis=1) + (z * z).sum(axis=1)
    return out


mean_dawid_sebastiani = mean_of(
    dawid_sebastiani,
    "Return the mean Dawid-Sebastiani score.",
    """
    >>> from fastmcmd.metrics.scores import mean_dawid_sebastiani
    >>> mean_dawid_sebastiani([0.0, 2.0], ([0.0, 0.0], 1.0))
    2.0
    """,
    columns=None,
)
