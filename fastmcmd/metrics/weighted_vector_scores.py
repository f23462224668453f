"""Energy and variogram scores with emphasis on outcomes of interest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_count, check_positive
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.member_weights import mean_over_pairs, member_shares
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.metrics.vector_scores import pair_weights
from fastmcmd.metrics.weighted_scores import Function, ScoreParts, given_weight, members, values_of
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.numerics.spread import row_scale

__all__ = [
    "mean_weighted_energy_score",
    "mean_weighted_variogram_score",
    "weighted_energy_score",
    "weighted_variogram_score",
]

_MOST_POWER = 64  # of differences


@metric
def weighted_energy_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    weighting: str = "threshold",
    weight: Function | None = None,
    chaining: Function | None = None,
    beta: float = 1.0,
    ens_weight: ArrayLike | None = None,
    draws: int | None = None,
    random_state: RandomState = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return threshold-weighted, outcome-weighted or vertically re-scaled energy scores (n,).

    Parameters
    ----------
    y : array_like (n, k)
        Observed outputs.
    prediction : Predictive, or draws (n, m, k)
        Predicted distributions.
    weighting : {"threshold", "outcome", "vertical"}, default "threshold"
        See `weighted_crps`.
    weight : callable, optional
        Weight function for "outcome" and "vertical": takes outcomes (..., k), returns weights (...) >= 0.
    chaining : callable, optional
        Chaining function for "threshold": takes outcomes (..., k), returns an array of that shape.
    beta : float, default 1.0
        Exponent of distances, in (0, 2).
    ens_weight : array_like (m,) or (n, m), optional
        Nonnegative weights of the draws. Default: equal.
    draws : int, optional
        Number of draws per input. Required if the prediction is not itself draws.
    random_state : None, int or numpy Generator, optional
        Source of these draws.

    Returns
    -------
    ndarray (n,)
        Scores, as in `weighted_crps` with ``rho(x, z) = |x - z|^beta``.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    Without a function, all three are the energy score. The
    results equal scoringrules' ``twes_ensemble``, ``owes_ensemble`` and ``vres_ensemble``. The cost is
    O(m^2 k) per row.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> draws = [[[3.0, 4.0], [-3.0, -4.0]]]
    >>> far = lambda v: np.maximum(v, 0.0)
    >>> fm.metrics.weighted_energy_score([[0.0, 0.0]], draws, chaining=far).tolist()
    [1.25]
    """
    from scipy.spatial.distance import cdist  # slow to load: only when used

    beta = check_positive(beta, "beta")
    if beta >= 2:
        raise ValueError(f"beta is {beta:g}; a number in (0, 2) is needed: at 2 only means count")

    def parts(y: Array, values: Array, shares: Array) -> tuple[Array, ...]:
        far = np.linalg.norm(values - y[:, None], axis=2) ** beta
        zero, of_outcome = (np.linalg.norm(v, axis=-1) ** beta for v in (values, y))
        spread = mean_over_pairs(values, shares, lambda v: cdist(v, v) ** beta) / 2
        score = np.einsum("nm,nm->n", shares, far) - spread
        return score, spread, np.einsum("nm,nm->n", shares, zero), of_outcome

    return _weighted_vectors(
        y,
        prediction,
        weighting,
        weight,
        chaining,
        ens_weight,
        draws,
        random_state,
        nan_policy,
        parts,
        beta,
    )


mean_weighted_energy_score = mean_of(
    weighted_energy_score,
    "Return the mean weighted energy score.",
    """
    >>> import fastmcmd as fm
    >>> fm.metrics.mean_weighted_energy_score([[0.0, 0.0]], [[[3.0, 4.0], [-3.0, -4.0]]])
    2.5
    """,
    columns=None,
)


@metric
def weighted_variogram_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    weighting: str = "threshold",
    weight: Function | None = None,
    chaining: Function | None = None,
    p: float = 0.5,
    weights: ArrayLike | None = None,
    ens_weight: ArrayLike | None = None,
    draws: int | None = None,
    random_state: RandomState = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return threshold-weighted, outcome-weighted or vertically re-scaled variogram scores (n,).

    Parameters
    ----------
    y : array_like (n, k)
        Observed outputs with at least two components.
    prediction : Predictive, or draws (n, m, k)
        Predicted distributions.
    weighting : {"threshold", "outcome", "vertical"}, default "threshold"
        See `weighted_crps`.
    weight, chaining : callable, optional
        Functions of outcomes, as in `weighted_energy_score`.
    p : float, default 0.5
        Order of the variogram, positive.
    weights : array_like (k, k), optional
        Nonnegative weights of pairs of components. Default: 1 each.
    ens_weight : array_like (m,) or (n, m), optional
        Nonnegative weights of the draws. Default: equal.
    draws : int, optional
        Number of draws per input. Required if the prediction is not itself draws.
    random_state : None, int or numpy Generator, optional
        Source of these draws.

    Returns
    -------
    ndarray (n,)
        Scores, as in `weighted_crps` with
        ``rho(x, z) = sum_ij w_ij (|x_i - x_j|^p - |z_i - z_j|^p)^2``.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    Without a function, all three are the variogram score. The
    results equal scoringrules' ``twvs_ensemble``, ``owvs_ensemble`` and ``vrvs_ensemble``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> draws = [[[0.0, 1.0], [1.0, 0.0]]]
    >>> fm.metrics.weighted_variogram_score([[0.0, 4.0]], draws, weighting="outcome").tolist()
    [2.0]
    """
    p = check_positive(p, "p")
    if p > _MOST_POWER:
        raise ValueError(f"p is {p:g}; at most {_MOST_POWER} is needed: powers would leave float64")

    def parts(y: Array, values: Array, shares: Array) -> tuple[Array, ...]:
        if y.shape[1] < 2:
            raise ValueError("y has one component; the variogram score compares two or more")
        pairs = pair_weights(weights, y.shape[1])

        def variogram(v: Array) -> Array:
            return np.asarray(np.abs(v[..., :, None] - v[..., None, :]) ** p)

        def norms(v: Array) -> Array:
            return np.einsum("...ij,ij->...", v * v, pairs)

        of_members, of_outcome = variogram(values), variogram(y)
        middle = np.einsum("nm,nmij->nij", shares, of_members)
        spread = np.einsum("nm,nm->n", shares, norms(of_members - middle[:, None]))
        zero = np.einsum("nm,nm->n", shares, norms(of_members))
        return norms(middle - of_outcome), spread, zero, norms(of_outcome)

    return _weighted_vectors(
        y,
        prediction,
        weighting,
        weight,
        chaining,
        ens_weight,
        draws,
        random_state,
        nan_policy,
        parts,
        2 * p,
    )


mean_weighted_variogram_score = mean_of(
    weighted_variogram_score,
    "Return the mean weighted variogram score.",
    """
    >>> import fastmcmd as fm
    >>> fm.metrics.mean_weighted_variogram_score([[0.0, 4.0]], [[[0.0, 1.0], [1.0, 0.0]]])
    2.0
    """,
    columns=None,
)


def _weighted_vectors(
    y: ArrayLike,
    prediction: PredictionLike,
    weighting: str,
    weight: Function | None,
    chaining: Function | None,
    ens_weight: ArrayLike | None,
    draws: int | None,
    random_state: RandomState,
    nan_policy: NanPolicy,
    parts: Callable[[Array, Array, Array], tuple[Array, ...]],
    degree: float,
) -> Array:
    """Return weighted kernel scores of vectors.

    ``parts`` returns the score, half the mean distance of two members, and the distances from 0 of members
    and outcomes, for outcomes (n, k), members (n, m, k) and their shares (n, m). They are homogeneous of
    ``degree`` in outcomes and members, so that values are scaled before and scores after.
    """
    rows = read(y, prediction, None, nan_policy, columns=None, on_device=True).on_host()
    draws = check_count(draws, "draws", optional=True)
    interest = given_weight(rows, weighting, -np.inf, np.inf, weight, chaining)
    function = interest.function
    values, masses = members(rows, draws, random_state, interest.name)
    if ens_weight is not None:
        masses = member_shares(rows, ens_weight)
    values = values.reshape(*masses.shape, -1)
    of_outcome = rows.y.reshape(len(values), -1)
    if weighting == "threshold" and function is not None:
        values, of_outcome = (
            values_of(function, v, "chaining", v.shape, False) for v in (values, of_outcome)
        )
    scale = row_scale(of_outcome, values)
    scaled = of_outcome / scale[:, None], values / scale[:, None, None]
    if weighting == "threshold":
        score = parts(*scaled, masses)[0]
    else:
        weights, of_own = np.ones(masses.shape), np.ones(len(of_outcome))
        if function is not None:
            weights, of_own = (
                values_of(function, v, "weight", v.shape[:-1], True) for v in (values, of_outcome)
            )
        weights = weights * masses
        mass = weights.sum(axis=1)
        shares = np.where(mass[:, None] > 0, weights, masses)
        own_parts = parts(*scaled, shares / shares.sum(axis=1, keepdims=True))
        score = ScoreParts(mass, of_own, *own_parts).combined(weighting)
    with np.errstate(over="ignore", invalid="ignore"):  # a score beyond float64 is infinite
        return rows.scatter(np.where(score == 0, 0.0, score * scale**degree))
