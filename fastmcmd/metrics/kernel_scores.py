"""Gaussian kernel scores: plain, and with emphasis on outcomes of interest."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import check_choice, check_count, check_positive
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.member_weights import (
    PAIR_ESTIMATORS,
    check_two_members,
    distance_of_pairs,
    equal_shares,
    member_shares,
)
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.metrics.weighted_scores import (
    Function,
    given_weight,
    members,
    rescaled,
    values_of,
)
from fastmcmd.predictive.base import Array, PredictionLike, Predictive
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.weighted_draws import WeightedDraws, pair_share

__all__ = [
    "gaussian_kernel_score",
    "mean_gaussian_kernel_score",
    "mean_weighted_gaussian_kernel_score",
    "weighted_gaussian_kernel_score",
]

_BLOCK = 1 << 20  # pairs of members per block


@metric
def gaussian_kernel_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    bandwidth: float = 1.0,
    estimator: str = "nrg",
    ens_weight: ArrayLike | None = None,
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
    estimator : {"nrg", "fair", "akr", "akr_circperm"}, default "nrg"
        For draws: the score of their empirical distribution; the unbiased estimate of that of the
        distribution they come from; or an estimate of the latter from m pairs of draws, as in
        `energy_score`.
    ens_weight : array_like (m,) or (n, m), optional
        Nonnegative weights of the draws. Default: equal.

    Returns
    -------
    ndarray (n,)
        ``E k(Y, Y') / 2 - E k(Y, y) + 1/2``, in [0, 1] with "nrg".

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    It is the kernel score of Gneiting & Raftery 2007, section 5.1, for this kernel; the score is bounded,
    so outliers count little. It equals scoringrules' ``gksuv_ensemble`` and ``gksmv_ensemble``, but for
    "fair" with weights: scoringrules 0.10 then counts pairs of a draw with itself. The cost is O(m^2 k) per
    row, and O(m k) from pairs.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.metrics.gaussian_kernel_score([0.0], [[0.0, 1.0]]).round(6).tolist()
    [0.098367]
    >>> fm.metrics.gaussian_kernel_score([0.0], [[0.0, 1.0]], ens_weight=[3.0, 1.0]).round(6).tolist()
    [0.024592]
    """
    check_choice(estimator, "estimator", ("nrg", "fair", *PAIR_ESTIMATORS))
    bandwidth = check_positive(bandwidth, "bandwidth")
    rows = read(y, prediction, None, nan_policy, columns=None, on_device=True).on_host()
    return rows.scatter(_score(rows, bandwidth, estimator, ens_weight))


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


def _score(rows: Outcomes, bandwidth: float, estimator: str, ens_weight: ArrayLike | None) -> Array:
    """Return Gaussian kernel scores of the valid rows."""
    has_draws = isinstance(rows.prediction, Draws)
    if rows.prediction.columns > 1 and not has_draws:
        raise ValueError(f"prediction is a {rows.prediction!r}; of vectors, draws are needed")
    if ens_weight is not None or estimator in PAIR_ESTIMATORS:
        values, shares = _members_in_order(rows, estimator, ens_weight)
        return _of_members(rows.y, values, shares, bandwidth, estimator)
    if estimator == "fair":
        _check_fair(rows.prediction)
        if isinstance(rows.prediction, WeightedDraws):
            values, shares = rows.prediction.nodes()
            check_two_members(rows, shares, estimator)
            return _of_members(rows.y, _vectors(values), shares, bandwidth, estimator)
    parts = rows.prediction.gaussian_parts() if rows.prediction.columns == 1 else None
    if parts is not None:
        return _of_gaussians(rows.y, parts, bandwidth)
    out = np.empty(len(rows.y))
    count = rows.prediction.node_count

    def work(block: slice) -> None:
        part = rows.prediction.take(np.arange(block.start, block.stop))
        exact = part.exact_nodes or has_draws
        values, masses = part.nodes() if exact else part.nodes_within(bandwidth)
        values = values.reshape(*masses.shape, -1)
        apart, near = _mean_distances(values, masses, rows.y[block], bandwidth)
        if estimator == "fair":  # equal masses, and no pairs of a draw with itself
            size = masses.shape[1]
            apart = apart * (size / (size - 1))
        out[block] = near - apart / 2

    over_rows(work, len(out), max(1, _BLOCK // (count * count)))
    return out


def _check_fair(prediction: Predictive) -> None:
    """Raise an error unless a prediction is draws, two at least."""
    if not isinstance(prediction, (Draws, WeightedDraws)):
        raise ValueError(
            f"prediction is a {prediction!r}; estimator='fair' needs draws (n, m) or (n, m, k)"
        )
    if prediction.node_count < 2:
        raise ValueError("prediction has 1 draw per input; estimator='fair' needs 2")


def _members_in_order(
    rows: Outcomes, estimator: str, ens_weight: ArrayLike | None
) -> tuple[Array, Array]:
    """Return draws (n, m, k) in the order in which they came, and their shares (n, m)."""
    prediction = rows.prediction
    if isinstance(prediction, WeightedDraws) and ens_weight is None:
        draws, weights = prediction.members(f"estimator={estimator!r}")
        return _vectors(draws), weights
    shares = None if ens_weight is None else member_shares(rows, ens_weight, estimator)
    if not isinstance(prediction, Draws):
        raise ValueError(f"prediction is a {prediction!r}; estimator={estimator!r} needs draws")
    values = _vectors(prediction.array)
    return values, equal_shares(*values.shape[:2]) if shares is None else shares


def _of_members(y: Array, values: Array, shares: Array, bandwidth: float, estimator: str) -> Array:
    """Return Gaussian kernel scores of members (n, m, k) with shares (n, m): ``1 - k`` is the distance."""

    def paired(one: Array, other: Array) -> Array:
        return 1 - _gaussian_kernel(one - other, bandwidth)

    if estimator in PAIR_ESTIMATORS:
        apart = distance_of_pairs(values, shares, estimator, paired)
        near = paired(values, y.reshape(len(values), 1, -1))
        return np.asarray(np.einsum("nm,nm->n", shares, near) - apart / 2)
    apart, near = _mean_distances(values, shares, y, bandwidth)
    if estimator == "fair":
        apart = apart / pair_share(shares)
    return np.asarray(near - apart / 2)


def _mean_distances(
    values: Array, shares: Array, y: Array, bandwidth: float
) -> tuple[Array, Array]:
    """Return mean distances ``1 - k`` (n,) of members (n, m, k) of shares (n, m): of pairs, and from y."""
    n, count, columns = values.shape
    outcomes, sums = y.reshape(n, columns), np.empty((n, 2))

    def work(rows: slice) -> None:
        by_component = np.ascontiguousarray(values[rows].swapaxes(1, 2), dtype=np.float64)
        _core.gaussian_rows(by_component, shares[rows], outcomes[rows], bandwidth, sums[rows])

    over_rows(work, n, max(1, _BLOCK // (count * count * columns)))
    return sums[:, 0], sums[:, 1]


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


@metric
def weighted_gaussian_kernel_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    weighting: str = "threshold",
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
    weight: Function | None = None,
    chaining: Function | None = None,
    bandwidth: float = 1.0,
    ens_weight: ArrayLike | None = None,
    draws: int | None = None,
    random_state: RandomState = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return threshold-weighted, outcome-weighted or vertically re-scaled Gaussian kernel scores (n,).

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs.
    prediction : Predictive, or draws (n, m) or (n, m, k)
        Predicted distributions.
    weighting : {"threshold", "outcome", "vertical"}, default "threshold"
        See `weighted_crps`.
    lower, upper : float or array_like (n,)
        Interval of interest, for numbers. Default: no end.
    weight, chaining : callable, optional
        Functions of outcomes, as in `weighted_crps` and `weighted_energy_score`.
    bandwidth : float, default 1.0
        Distance h over which the kernel ``k(x, z) = exp(-|x - z|^2 / (2 h^2))`` falls.
    ens_weight : array_like (m,) or (n, m), optional
        Nonnegative weights of the draws. Default: equal.
    draws : int, optional
        Number of draws per input, for continuous predictions.
    random_state : None, int or numpy Generator, optional
        Source of these draws.

    Returns
    -------
    ndarray (n,)
        Scores. With "outcome", NaN where w(y) > 0 and no draw has a positive weight.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    "threshold" is the score of v(Y) at v(y), with v the chaining function. "outcome" is ``w(y)`` times the
    score of ``F_w`` at y. "vertical" multiplies the kernel by the weights of both arguments::

        E k(Y, Y') w(Y) w(Y') / 2 - E k(Y, y) w(Y) w(y) + w(y)^2 / 2

    All are proper (Allen, Ginsbourger & Ziegel, *Evaluating Forecasts for High-Impact Events Using
    Transformed Kernel Scores*, 2023) and equal scoringrules' ``twgksuv_ensemble``, ``owgksuv_ensemble``,
    ``vrgksuv_ensemble`` and those of vectors. Without an interval or a function, they are the Gaussian
    kernel score.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> draws = [[0.0, 2.0, 4.0]]
    >>> fm.metrics.weighted_gaussian_kernel_score([3.0], draws, lower=1.0).round(4).tolist()
    [0.3009]
    """
    bandwidth = check_positive(bandwidth, "bandwidth")
    draws = check_count(draws, "draws", optional=True)
    rows = read(y, prediction, None, nan_policy, columns=None, on_device=True).on_host()
    interest = given_weight(rows, weighting, lower, upper, weight, chaining)
    outcomes = rows.y
    has_interval = bool((np.isfinite(interest.low) | np.isfinite(interest.high)).any())
    if has_interval and outcomes.ndim > 1:
        raise ValueError(
            f"lower or upper is given, which is for numbers; vectors need {interest.name}"
        )
    if interest.function is None and not has_interval and draws is None:
        return rows.scatter(_score(rows, bandwidth, "nrg", ens_weight))
    emphasis = "lower or upper" if has_interval else interest.name
    values, masses = members(rows, draws, random_state, emphasis)
    if ens_weight is not None:
        masses = member_shares(rows, ens_weight)
    if weighting == "threshold":
        if interest.function is not None:
            values, outcomes = (
                values_of(interest.function, v, "chaining", v.shape, False)
                for v in (values, outcomes)
            )
        else:
            values, outcomes = (
                np.clip(v, _ends(interest.low, v), _ends(interest.high, v))
                for v in (values, outcomes)
            )
        return rows.scatter(_of_members(outcomes, _vectors(values), masses, bandwidth, "nrg"))
    weights, of_own = np.ones(masses.shape), np.ones(len(outcomes))
    if interest.function is not None:
        weights = values_of(interest.function, values, "weight", masses.shape, True)
        of_own = values_of(interest.function, outcomes, "weight", of_own.shape, True)
    elif has_interval:
        weights, of_own = interest.of(values), interest.of(outcomes)
    score = _reweighted(outcomes, _vectors(values), masses * weights, of_own, bandwidth, weighting)
    return rows.scatter(score)


mean_weighted_gaussian_kernel_score = mean_of(
    weighted_gaussian_kernel_score,
    "Return the mean weighted Gaussian kernel score.",
    """
    >>> import fastmcmd as fm
    >>> round(fm.metrics.mean_weighted_gaussian_kernel_score([3.0], [[0.0, 2.0, 4.0]], lower=1.0), 4)
    0.3009
    """,
    columns=None,
)


def _vectors(values: Array) -> Array:
    """Return members (n, m) or (n, m, k) as (n, m, k)."""
    return values.reshape(*values.shape[:2], -1)


def _ends(end: Array, values: Array) -> Array:
    """Return ends (n,) that fit the shape of values."""
    return end.reshape(-1, *[1] * (values.ndim - 1))


def _reweighted(
    y: Array, values: Array, weights: Array, of_own: Array, bandwidth: float, weighting: str
) -> Array:
    """Return outcome-weighted or vertically re-scaled scores (n,) of members with weights (n, m)."""
    mass = weights.sum(axis=1)
    shares = weights / np.where(mass > 0, mass, 1.0)[:, None]
    apart, away = _mean_distances(values, shares, y, bandwidth)
    if weighting == "vertical":
        size = np.maximum(mass, of_own)  # so that products of weights do not overflow
        share, outcome_weight = (one / np.where(size > 0, size, 1.0) for one in (mass, of_own))
        gap = share - outcome_weight
        score = gap**2 / 2 + share * (outcome_weight * away - share * apart / 2)
        return rescaled(score, size)
    score = np.where(mass > 0, of_own * (away - apart / 2), np.nan)
    return np.where(of_own == 0, 0.0, score)
