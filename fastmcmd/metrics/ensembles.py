"""Scores of ensembles: the CRPS from pairs, kernel densities, the error-spread score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_array
from fastmcmd.errors import RowError
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.member_weights import PAIR_ESTIMATORS, equal_shares, pair_shift
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics.spread import central_sums, row_scale
from fastmcmd.predictive.weighted_draws import WeightedDraws

__all__ = [
    "PAIRED",
    "crps_from_pairs",
    "ensemble_log_score",
    "error_spread_score",
    "kernel_density",
    "mean_ensemble_log_score",
    "mean_error_spread_score",
]

PAIRED = ("int", *PAIR_ESTIMATORS)
_SILVERMAN, _IQR_OF_NORMAL = 1.06, 1.34


def crps_from_pairs(y: Array, prediction: Draws | WeightedDraws, estimator: str) -> Array:
    """Return the CRPS (n,) of draws by an estimator of `PAIRED`; see `fastmcmd.metrics.crps`."""
    if estimator == "int":
        return prediction.crps(y, "qd")
    if isinstance(prediction, WeightedDraws):
        draws, shares = prediction.members(f"estimator={estimator!r}")
    else:
        draws = prediction.array
        shares = equal_shares(*draws.shape)
    apart = np.abs(draws - np.roll(draws, pair_shift(estimator, draws.shape[1]), axis=1))
    near = np.abs(draws - y[:, None])
    return np.asarray(np.einsum("nm,nm->n", shares, near - apart / 2))


def _draws_of(rows: Outcomes, least: int, purpose: str) -> Array:
    """Return the draws (n, m) of a prediction with at least this many; raise an error for others."""
    if not isinstance(rows.prediction, Draws):
        raise ValueError(f"prediction is a {rows.prediction!r}; {purpose} needs draws (n, m)")
    if rows.prediction.node_count < least:
        raise ValueError(
            f"prediction has {rows.prediction.node_count} draws per input; {purpose} needs {least}"
        )
    return rows.prediction.array


def kernel_density(draws: ArrayLike, bandwidth: ArrayLike | None = None) -> Mixture:
    """Return Gaussian kernel densities of draws: a prediction with a density.

    Parameters
    ----------
    draws : array_like (n, m)
        Draws of numbers, m per input.
    bandwidth : float or array_like (n,), optional
        Standard deviations of the kernels, positive. Default: Silverman's rule of thumb, ``1.06 min(s, q /
        1.34) m^(-1/5)`` with the standard deviation s and the interquartile range q of a row.

    Returns
    -------
    Mixture
        Of m Gaussians for each input.

    Raises
    ------
    ValueError
        Arguments that do not fit, or rows whose bandwidth would be 0 because half of the draws agree.

    Notes
    -----
    Silverman, *Density Estimation for Statistics and Data Analysis* (1986), section 3.4.2; the bandwidth is
    that of scoringrules' ``logs_ensemble``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> smooth = fm.metrics.kernel_density([[0.0, 2.0]], bandwidth=1.0)
    >>> smooth.variance.tolist()
    [2.0]
    """
    array = Draws(as_array(draws, "draws")).array
    if array.ndim != 2:
        raise ValueError(f"draws have shape {array.shape}; (n, m) is needed: draws of numbers")
    count = array.shape[1]
    if bandwidth is None:
        scale = row_scale(array)
        scaled = array / scale[:, None]
        low, high = Draws(scaled).quantile([0.25, 0.75]).T
        unit, _, square, _ = central_sums(scaled)
        deviation = unit * np.sqrt(square / max(1, count - 1))
        spread = np.minimum(deviation, (high - low) / _IQR_OF_NORMAL)
        width = _SILVERMAN * spread * count ** (-1 / 5) * scale
        if not (width > 0).all():
            raise RowError(
                f"draws of row {int((width <= 0).argmax())} agree, so Silverman's bandwidth is 0; give "
                "bandwidth",
                int((width <= 0).argmax()),
            )
    else:
        width = as_array(bandwidth, "bandwidth").astype(np.float64)
        if width.ndim > 1 or width.size not in (1, len(array)):
            raise ValueError(
                f"bandwidth has shape {width.shape}; a number or ({len(array)},) is needed"
            )
        if not (np.isfinite(width) & (width > 0)).all():
            raise ValueError("bandwidth holds values that are not positive and finite")
        width = np.broadcast_to(width.ravel() if width.ndim else width, (len(array),))
    return Mixture([Gaussian(array[:, j], width) for j in range(count)])


@metric
def ensemble_log_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    bandwidth: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return log scores (n,) of draws, smoothed by Gaussian kernels.

    Parameters
    ----------
    prediction : draws (n, m)
        Draws of numbers.
    bandwidth : float or array_like (m,), optional
        Standard deviations of the kernels; see `kernel_density`.

    Returns
    -------
    ndarray (n,)
        ``-log f(y)`` with f the kernel density of the draws.

    Raises
    ------
    ValueError
        Arguments that do not fit, or draws without a bandwidth.

    Notes
    -----
    The score equals scoringrules' ``logs_ensemble``. It judges the smoothing with the draws; the CRPS needs
    none.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.ensemble_log_score([1.0], [[0.0, 2.0]], bandwidth=1.0).round(4).tolist()
    [1.4189]
    """
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    draws = _draws_of(rows, 1 if bandwidth is not None else 2, "the log score of an ensemble")
    return rows.scatter(-kernel_density(draws, bandwidth).log_prob(rows.y))


mean_ensemble_log_score = mean_of(
    ensemble_log_score,
    "Return the mean log score of draws, smoothed by Gaussian kernels.",
    """
    >>> import fastmcmd as fm
    >>> round(fm.metrics.mean_ensemble_log_score([1.0], [[0.0, 2.0]], bandwidth=1.0), 4)
    1.4189
    """,
)


@metric
def error_spread_score(
    y: ArrayLike, prediction: PredictionLike, *, nan_policy: NanPolicy = "raise"
) -> Array:
    """Return error-spread scores (n,), which depend on the first three moments of draws.

    Parameters
    ----------
    prediction : draws (n, m)
        At least three draws per input, not all equal.

    Returns
    -------
    ndarray (n,)
        ``(s^2 - e^2 - e s g)^2`` with the error ``e = mean - y``, the standard deviation s (m - 1) and the
        skewness ``g = m / ((m - 1) (m - 2)) sum ((x - mean) / s)^3``.

    Raises
    ------
    ValueError
        Arguments that do not fit, or rows whose draws are all equal.

    Notes
    -----
    Christensen, Moroz & Palmer, *Evaluation of ensemble forecast uncertainty using a new proper score*
    (QJRMS 2015). It is proper, not strictly: predictions of equal mean, variance and skewness score alike.
    scoringrules 0.10 leaves the factor m out of g, so that its g vanishes in large ensembles.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.error_spread_score([1.0], [[0.0, 1.0, 2.0]]).tolist()
    [1.0]
    """
    rows = read(y, prediction, None, nan_policy, on_device=True).on_host()
    draws = _draws_of(rows, 3, "the error-spread score")
    count = draws.shape[1]
    scale, mean, square, cube = central_sums(draws)
    if (equal := square == 0).any():
        raise RowError(
            f"prediction has equal draws in row {int(equal.argmax())}, which have no skewness",
            int(equal.argmax()),
        )
    std, unit = np.sqrt(square / (count - 1)), np.maximum(scale, row_scale(rows.y))
    skewness = cube / std / std / std * count / ((count - 1) * (count - 2))
    error, std = mean * (scale / unit) - rows.y / unit, std * (scale / unit)
    root = std**2 - error**2 - error * std * skewness
    with np.errstate(over="ignore"):  # a score beyond float64 is infinite
        return rows.scatter((root * unit * unit) ** 2)


mean_error_spread_score = mean_of(
    error_spread_score,
    "Return the mean error-spread score.",
    """
    >>> import fastmcmd as fm
    >>> fm.metrics.mean_error_spread_score([1.0], [[0.0, 1.0, 2.0]])
    1.0
    """,
)
