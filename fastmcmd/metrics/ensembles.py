"""Scores of ensembles: the CRPS from pairs, kernel densities, kernel and error-spread scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.checks import as_array, check_choice, check_positive
from fastmcmd.errors import RowError
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.predictive.base import Array, PredictionLike, Predictive
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics.spread import row_scale

__all__ = [
    "PAIRED",
    "crps_from_pairs",
    "ensemble_log_score",
    "error_spread_score",
    "gaussian_kernel_score",
    "kernel_density",
    "mean_ensemble_log_score",
    "mean_error_spread_score",
    "mean_gaussian_kernel_score",
]

PAIRED = ("int", "akr", "akr_circperm")
_BLOCK = 1 << 20  # pairs of members per block
_SILVERMAN, _IQR_OF_NORMAL = 1.06, 1.34


def crps_from_pairs(y: Array, prediction: Draws, estimator: str) -> Array:
    """Return the CRPS (n,) of draws by an estimator of `PAIRED`; see `fastmcmd.metrics.crps`."""
    if estimator == "int":
        return prediction.crps(y, "qd")
    draws = prediction.array
    shift = 1 if estimator == "akr" else draws.shape[1] // 2
    apart = np.abs(draws - np.roll(draws, shift, axis=1)).mean(axis=1)
    return np.asarray(np.abs(draws - y[:, None]).mean(axis=1) - apart / 2)


def _draws_of(rows: Outcomes, least: int, purpose: str) -> Array:
    """Return the draws (n, m) of a prediction of at least so many; raise an error for others."""
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
        low, high = np.quantile(scaled, [0.25, 0.75], axis=1)
        deviation = scaled.std(axis=1, ddof=1) if count > 1 else np.zeros(len(array))
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
def gaussian_kernel_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    bandwidth: float = 1.0,
    estimator: str = "nrg",
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return Gaussian kernel scores (n,): half the squared MMD of the prediction and the outcome.

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs.
    prediction : Predictive of numbers, or draws (n, m) or (n, m, k)
        Predicted distributions.
    bandwidth : float, default 1.0
        Distance h over which the kernel ``k(x, z) = exp(-|x - z|^2 / (2 h^2))`` falls.
    estimator : {"nrg", "fair"}, default "nrg"
        For draws: the score of their empirical distribution, or the unbiased estimate of that of the
        distribution they come from.

    Returns
    -------
    ndarray (n,)
        ``E k(Y, Y') / 2 - E k(Y, y) + 1/2``, in [0, 1] unless "fair".

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    It is the kernel score of Gneiting & Raftery 2007, section 5.1, for this kernel; the score is bounded,
    so outliers count little. It equals scoringrules' ``gksuv_ensemble`` and ``gksmv_ensemble``. The cost is
    O(m^2 k) per row.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.gaussian_kernel_score([0.0], [[0.0, 1.0]]).round(6).tolist()
    [0.098367]
    """
    check_choice(estimator, "estimator", ("nrg", "fair"))
    bandwidth = check_positive(bandwidth, "bandwidth")
    rows = read(y, prediction, None, nan_policy, columns=None, on_device=True).on_host()
    has_draws = isinstance(rows.prediction, Draws)
    if rows.prediction.columns > 1 and not has_draws:
        raise ValueError(f"prediction is a {rows.prediction!r}; of vectors, draws are needed")
    if estimator == "fair":
        _draws_of(rows, 2, "estimator='fair'")
    parts = rows.prediction.gaussian_parts() if rows.prediction.columns == 1 else None
    if parts is not None:
        return rows.scatter(_of_gaussians(rows.y, parts, bandwidth))
    outcomes, out = rows.y.reshape(len(rows.y), 1, -1), np.empty(len(rows.y))
    count = rows.prediction.node_count

    def work(block: slice) -> None:
        part = rows.prediction.take(np.arange(block.start, block.stop))
        exact = part.exact_nodes or has_draws
        values, masses = part.nodes() if exact else part.nodes_within(bandwidth)
        values = values.reshape(*masses.shape, -1)
        pairs = np.zeros(len(masses))
        size = masses.shape[1]
        for some in row_blocks(size, max(1, _BLOCK // (len(masses) * size * values.shape[2]))):
            kernel = _gaussian_kernel(values[:, some, None] - values[:, None], bandwidth)
            pairs += np.einsum("nl,nlm,nm->n", masses[:, some], kernel, masses)
        if estimator == "fair":
            pairs = (pairs * count - 1) / (count - 1)
        near = _gaussian_kernel(values - outcomes[block], bandwidth)
        out[block] = pairs / 2 - np.einsum("nl,nl->n", masses, near) + 0.5

    over_rows(work, len(outcomes), max(1, _BLOCK // (count * count)))
    return rows.scatter(out)


def _gaussian_kernel(gaps: Array, bandwidth: float) -> Array:
    """Return the kernel of differences (..., k)."""
    with np.errstate(over="ignore"):  # the kernel of infinite distances is 0
        return np.asarray(np.exp(-((gaps / bandwidth) ** 2).sum(axis=-1) / 2))


def _of_gaussians(y: Array, parts: list[tuple[Array, Predictive]], bandwidth: float) -> Array:
    """Return Gaussian kernel scores of mixtures: ``E k`` is a Gaussian whose variances add up."""

    def expected(gap: Array, *stds: Array) -> Array:
        width = np.hypot(bandwidth, stds[0])
        for std in stds[1:]:
            width = np.hypot(width, std)
        return np.asarray(_gaussian_kernel((gap / width)[..., None], 1.0) * (bandwidth / width))

    out = np.full(len(y), 0.5)
    for weight, one in parts:
        out -= weight * expected(y - one.mean, one.std)
        for other_weight, other in parts:
            both = expected(one.mean - other.mean, one.std, other.std)
            out += weight * other_weight * both / 2
    return out


mean_gaussian_kernel_score = mean_of(
    gaussian_kernel_score,
    "Return the mean Gaussian kernel score.",
    """
    >>> import fastmcmd as fm
    >>> round(fm.metrics.mean_gaussian_kernel_score([0.0], [[0.0, 1.0]]), 6)
    0.098367
    """,
    columns=None,
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
    if (equal := draws.min(axis=1) == draws.max(axis=1)).any():
        raise RowError(
            f"prediction has equal draws in row {int(equal.argmax())}, which have no skewness",
            int(equal.argmax()),
        )
    count, scale, unit = draws.shape[1], row_scale(draws), row_scale(draws, rows.y)
    draws = draws / scale[:, None]
    mean, std = draws.mean(axis=1), draws.std(axis=1, ddof=1)
    z = (draws - mean[:, None]) / std[:, None]
    skewness = (z**3).sum(axis=1) * count / ((count - 1) * (count - 2))
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
