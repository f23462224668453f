"""Proper scores of predicted vectors: energy score and variogram score."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.checks import as_rows, check_choice, check_count, check_positive
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.member_weights import (
    PAIR_ESTIMATORS,
    energy_of_members,
    equal_shares,
    member_shares,
    variogram_of_members,
)
from fastmcmd.metrics.metric import mean_of, metric
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.on_device import DeviceDraws, family

__all__ = [
    "VECTOR_ESTIMATORS",
    "energy_score",
    "mean_energy_score",
    "mean_variogram_score",
    "pair_weights",
    "variogram_score",
]

VECTOR_ESTIMATORS = ("nrg", "fair")
_BLOCK = 1 << 17  # components of draws per block, 1 MB
_SAMPLED = 1 << 21  # components per block of sampling, 16 MB

Loop = Callable[[Array, Array, Array], None]  # draws (b, k, m), y (b, k), scores (b,) written


@metric
def energy_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    beta: float = 1.0,
    estimator: str = "nrg",
    ens_weight: ArrayLike | None = None,
    draws: int | None = None,
    random_state: RandomState = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return energy scores (n,), the extension of the CRPS to vectors.

    Parameters
    ----------
    y : array_like (n, k) or (n,)
        Observed outputs.
    prediction : Predictive, or draws (n, m, k)
        Predicted distributions.
    beta : float, default 1.0
        Exponent of distances, in (0, 2).
    estimator : {"nrg", "fair", "akr", "akr_circperm"}, default "nrg"
        "nrg" is the score of the empirical distribution of the draws. "fair" is the unbiased estimate of
        the score of the distribution they come from. "akr" and "akr_circperm" estimate the latter from m
        pairs of draws: each with the one before it, or with the one half of the draws before it. They are
        cheap, O(m k) per row, and noisy; the draws must be in random order.
    ens_weight : array_like (m,) or (n, m), optional
        Nonnegative weights of the draws. Default: equal.
    draws : int, optional
        Number of draws per input. Required if the prediction is not itself draws, except for numbers with
        beta 1, where the score is the CRPS.
    random_state : None, int or numpy Generator, optional
        Source of these draws.

    Returns
    -------
    ndarray (n,)
        ``E|Y - y|^beta - E|Y - Y'|^beta / 2`` in the Euclidean norm.

    Raises
    ------
    ValueError
        Arguments that do not fit.

    Notes
    -----
    The score is equation 22 of Gneiting & Raftery 2007. It is strictly proper for beta in (0, 2) among
    distributions with finite ``E|Y|^beta``. "fair" divides the double sum by ``m (m - 1)`` instead of
    ``m^2``, or ``sum_ij w_i w_j |x_i - x_j|^beta`` by ``1 - sum_i w_i^2``. The result equals
    scoringrules' ``es_ensemble``. Components are not scaled: scale them yourself if their units differ.
    The cost is O(m^2 k) per row; for numbers with beta 1, O(m log m).

    Examples
    --------
    Two draws at a distance of 5 from the outcome and of 10 from each other: 5 - (10 + 10) / 4 / 2 =
    2.5.

    >>> import fastmcmd as fm
    >>> draws = [[[3.0, 4.0], [-3.0, -4.0]]]
    >>> fm.metrics.energy_score([[0.0, 0.0]], draws).tolist()
    [2.5]

    With weights, the outcome may lie on a draw that has nearly all of the weight:

    >>> fm.metrics.energy_score([[3.0, 4.0]], draws, ens_weight=[9.0, 1.0]).round(2).tolist()
    [0.1]
    """
    check_choice(estimator, "estimator", (*VECTOR_ESTIMATORS, *PAIR_ESTIMATORS))
    outcomes = read(y, prediction, None, nan_policy, columns=None, on_device=True)
    if draws is not None or ens_weight is not None or estimator in PAIR_ESTIMATORS:
        outcomes = outcomes.on_host()
    return outcomes.scatter(_energy(outcomes, beta, estimator, ens_weight, draws, random_state))


mean_energy_score = mean_of(
    energy_score,
    "Return the mean energy score.",
    """
    >>> from fastmcmd.metrics.vector_scores import mean_energy_score
    >>> mean_energy_score([[0.0, 0.0]], [[[3.0, 4.0], [-3.0, -4.0]]], estimator="fair")
    0.0
    """,
    columns=None,
)


def _energy(
    outcomes: Outcomes,
    beta: float,
    estimator: str,
    ens_weight: ArrayLike | None,
    draws: int | None,
    random_state: RandomState,
) -> Array:
    beta = check_positive(beta, "beta")
    if beta >= 2:
        raise ValueError(f"beta is {beta:g}; a number in (0, 2) is needed: at 2 only means count")
    prediction = outcomes.prediction
    if ens_weight is not None:
        shares = member_shares(outcomes, ens_weight, estimator)
        _draw_count(outcomes, draws, "nrg")
        return energy_of_members(*_vectors(outcomes), shares, beta, estimator)
    if estimator in PAIR_ESTIMATORS:
        _draw_count(outcomes, draws, estimator)

        def from_pairs(draws_of_rows: Array, y: Array, out: Array) -> None:
            values = draws_of_rows.swapaxes(1, 2)
            out[...] = energy_of_members(
                y, values, equal_shares(*values.shape[:2]), beta, estimator
            )

        return _over_draws(outcomes, draws, random_state, from_pairs)
    if prediction.columns == 1 and beta == 1:
        if isinstance(prediction, (Draws, DeviceDraws)) and draws is None:
            return prediction.crps(outcomes.y, estimator)
        if draws is None:
            return prediction.crps(outcomes.y)
    count = _draw_count(outcomes, draws, estimator)
    pairs = float(count * (count - 1 if estimator == "fair" else count))
    if isinstance(prediction, DeviceDraws):
        return prediction.energy_score(outcomes.y, beta, pairs)
    return _over_draws(
        outcomes,
        draws,
        random_state,
        lambda draws_of_rows, y, out: _core.energy_rows(
            draws_of_rows, y, beta, pairs, np.empty(count), out
        ),
    )


@metric
def variogram_score(
    y: ArrayLike,
    prediction: PredictionLike,
    *,
    p: float = 0.5,
    weights: ArrayLike | None = None,
    estimator: str = "nrg",
    ens_weight: ArrayLike | None = None,
    draws: int | None = None,
    random_state: RandomState = None,
    nan_policy: NanPolicy = "raise",
) -> Array:
    """Return variogram scores (n,), which detect wrong dependence between components.

    Parameters
    ----------
    y : array_like (n, k)
        Observed outputs with at least two components.
    prediction : Predictive, or draws (n, m, k)
        Predicted distributions.
    p : float, default 0.5
        Order of the variogram, positive.
    weights : array_like (k, k), optional
        Nonnegative weights of pairs of components. Default: 1 each.
    estimator : {"nrg", "fair"}, default "nrg"
        The score of the empirical distribution of the draws, or the unbiased estimate of that of the
        distribution they come from.
    ens_weight : array_like (m,) or (n, m), optional
        Nonnegative weights of the draws. Default: equal.
    draws : int, optional
        Number of draws per input. Required if the prediction is not itself draws.
    random_state : None, int or numpy Generator, optional
        Source of these draws.
    nan_policy : {"raise", "omit", "propagate"}, default "raise"
        Whether NaN in y or draws is an error, or makes the score of its row NaN.

    Returns
    -------
    ndarray (n,)
        ``sum_ij w_ij (|y_i - y_j|^p - E|Y_i - Y_j|^p)^2`` over all ordered pairs of components.

    Raises
    ------
    ValueError
        Arguments that do not fit, or outputs of one component.

    Notes
    -----
    The score is that of Scheuerer & Hamill, *Variogram-Based Proper Scoring Rules for Probabilistic
    Forecasts of Multivariate Quantities* (2015). It is proper but not strictly proper: a shift that all
    components share does not change it. The result equals scoringrules' ``vs_ensemble``, which also counts
    each pair twice.

    Examples
    --------
    >>> from fastmcmd.metrics.vector_scores import variogram_score
    >>> variogram_score([[0.0, 4.0]], [[[0.0, 1.0], [1.0, 0.0]]]).tolist()
    [2.0]
    """
    outcomes = read(y, prediction, None, nan_policy, columns=None, on_device=True).on_host()
    return outcomes.scatter(
        _variogram(outcomes, p, weights, estimator, ens_weight, draws, random_state)
    )


mean_variogram_score = mean_of(
    variogram_score,
    "Return the mean variogram score.",
    """
    >>> from fastmcmd.metrics.vector_scores import mean_variogram_score
    >>> mean_variogram_score([[0.0, 4.0]], [[[0.0, 1.0], [1.0, 0.0]]])
    2.0
    """,
    columns=None,
)


def _variogram(
    outcomes: Outcomes,
    p: float,
    weights: ArrayLike | None,
    estimator: str,
    ens_weight: ArrayLike | None,
    draws: int | None,
    random_state: RandomState,
) -> Array:
    p = check_positive(p, "p")
    check_choice(estimator, "estimator", VECTOR_ESTIMATORS)
    columns = outcomes.prediction.columns
    if columns < 2:
        raise ValueError("y has one component; the variogram score compares two or more")
    pairs = pair_weights(weights, columns)
    if ens_weight is not None:
        shares = member_shares(outcomes, ens_weight, estimator)
        _draw_count(outcomes, draws, "nrg")
        return variogram_of_members(*_vectors(outcomes), shares, p, pairs, estimator)
    scratch = _draw_count(outcomes, draws, estimator)
    unbiased = estimator == "fair"
    return _over_draws(
        outcomes,
        draws,
        random_state,
        lambda draws_of_rows, y, out: _core.variogram_rows(
            draws_of_rows, y, p, pairs, unbiased, np.empty(scratch), out
        ),
    )


def _vectors(outcomes: Outcomes) -> tuple[Array, Array]:
    """Return outcomes (n, k) and draws (n, m, k); numbers are vectors of one component."""
    draws = cast(Draws, outcomes.prediction).array
    return outcomes.y.reshape(len(draws), -1), draws.reshape(*draws.shape[:2], -1)


def pair_weights(value: ArrayLike | None, columns: int) -> Array:
    """Return checked weights (k, k) of pairs of components; 1 by default."""
    if value is None:
        return np.ones((columns, columns))
    weights = as_rows(value, "weights").astype(np.float64)
    if weights.shape != (columns, columns):
        raise ValueError(
            f"weights have shape {weights.shape}; ({columns}, {columns}) is needed: one weight per pair of "
            "components"
        )
    if (weights < 0).any():
        raise ValueError(f"weights have values down to {weights.min():g}; all must be >= 0")
    return weights


def _draw_count(outcomes: Outcomes, draws: int | None, estimator: str) -> int:
    """Return the number of draws per row after checking that it suits the estimator."""
    draws = check_count(draws, "draws", optional=True)
    if isinstance(outcomes.prediction, (Draws, DeviceDraws)):
        if draws is not None:
            raise ValueError(f"draws is {draws}, but prediction is draws already; leave it out")
        count = outcomes.prediction.node_count
    elif draws is None:
        raise ValueError(
            f"prediction is a {family(outcomes.prediction)}, whose score has no closed form here; "
            "give draws=m, the number of draws per input to estimate it from"
        )
    else:
        count = draws
    if estimator == "fair" and count < 2:
        raise ValueError("estimator is 'fair', which needs at least two draws per input; use 'nrg'")
    return count


def _over_draws(
    outcomes: Outcomes, draws: int | None, random_state: RandomState, loop: Loop
) -> Array:
    """Return the scores (m,) that a loop writes, over the prediction's draws or new draws, in blocks."""
    prediction = outcomes.prediction
    n, k = len(prediction), prediction.columns
    y = outcomes.y.reshape(n, k)
    out = np.empty(n)
    if isinstance(prediction, Draws):
        _scores(prediction.array, y, loop, out)
        return out
    rng = generator(random_state, Purpose.SCORE)
    size = check_count(draws, "draws")
    for rows in row_blocks(n, _SAMPLED // (size * k)):
        part = prediction.take(np.arange(rows.start, rows.stop))
        _scores(part.sample(size, rng), y[rows], loop, out[rows])
    return out


def _scores(draws: Array, y: Array, loop: Loop, out: Array) -> None:
    draws = draws if draws.ndim == 3 else draws[:, :, None]

    def work(rows: slice) -> None:
        loop(np.ascontiguousarray(draws[rows].swapaxes(1, 2)), y[rows], out[rows])

    over_rows(work, len(draws), max(1, _BLOCK // draws[0].size))
