"""Whether one model is better than another on the same rows, by more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy import special

from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.result import Evaluation
from fastmcmd.evaluation.rowwise import losses
from fastmcmd.predictive.base import Array

__all__ = ["significantly_best"]

_LEAST_ROWS = 6  # of fewer, no signs of differences are significant: 2 / 2^5 > 0.05
_ROUNDING = 1e-12  # of the losses: differences below it are those of rounding


def significantly_best(
    name: str, direction: str, evaluations: Sequence[Evaluation], level: float
) -> int | None:
    """Return which model is better than each other one, significantly; None where none is.

    Parameters
    ----------
    name, direction : str
        The measure, and which values are best: "low", "high" or "zero".
    evaluations : sequence of Evaluation
        Of the same rows.
    level : float
        Probability of a star where all models are equally good: p-values of all pairs are adjusted as in
        Holm (Scandinavian Journal of Statistics, 1979).

    Notes
    -----
    Means of scores by row: t test of the differences by row, which knows that both models were surprised by
    the same outcomes. Others, where both were resampled with the same rows (``n_boot``): the bootstrap
    distribution of the difference about the difference. Of measures that are norms, and of the bias, the
    difference is held against the sum of both errors that the triangle inequality allows, which is
    cautious. The conditional congruence error has no test: its values at different rows depend on each
    other.
    """
    key = {"low": lambda v: v, "high": lambda v: -v, "zero": abs}.get(direction)
    if key is None or len(evaluations) < 2:
        return None
    values = [key(one[name]) for one in evaluations]
    if np.isnan(values).any():
        return None
    best = int(np.argmin(values))
    pairs = list(combinations(range(len(values)), 2))
    p_values = [_p_value(name, direction, evaluations[a], evaluations[b]) for a, b in pairs]
    adjusted = _holm(np.array([1.0 if p is None else p for p in p_values]))
    against = [p for p, pair in zip(adjusted, pairs, strict=True) if best in pair]
    return best if max(against) <= level else None


def _holm(p: Array) -> Array:
    """Return adjusted p-values, which are compared with the level of the family."""
    order = np.argsort(p)
    scaled = p[order] * np.arange(len(p), 0, -1)
    out = np.empty_like(p)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out


def _p_value(name: str, direction: str, one: Evaluation, other: Evaluation) -> float | None:
    """Return the p-value of a difference between two models, or None where there is no test."""
    first, second = one.context, other.context
    if first is None or second is None or not _same_weights(first, second):
        return None
    if len(first.y) < _LEAST_ROWS:
        return None
    rows, others = losses(name, first), losses(name, second)
    if rows is not None and others is not None:
        return _t_test(rows, others, first.weights)
    return _bootstrap_test(name, direction, one, other)


def _same_weights(first: Context, second: Context) -> bool:
    if first.weights is None or second.weights is None:
        return first.weights is second.weights
    return np.array_equal(first.weights, second.weights)


def _t_test(first: Array, second: Array, weights: Array | None) -> float:
    """Return the two-sided p-value of the weighted mean difference of losses by row."""
    if weights is not None:
        some = weights > 0
        first, second, weights = first[some], second[some], weights[some]
    infinite = np.isinf(first).any(), np.isinf(second).any()
    if any(infinite):  # what was held impossible happened: the expected score is infinite, too
        return 0.0 if infinite[0] != infinite[1] else 1.0
    share = np.full(len(first), 1 / len(first)) if weights is None else weights / weights.sum()
    differences = first - second
    mean = share @ differences
    if abs(mean) <= _ROUNDING * (share @ (np.abs(first) + np.abs(second))):
        return 1.0
    n = len(differences)
    freedom = 1 / (share @ share) - 1  # n - 1 for equal weights
    if n < _LEAST_ROWS or freedom < 1:
        return 1.0
    error = np.sqrt((share**2) @ (differences - mean) ** 2 * (freedom + 1) / freedom)
    if error == 0:
        return 0.0
    return float(2 * special.stdtr(freedom, -abs(mean) / error))


def _bootstrap_test(name: str, direction: str, one: Evaluation, other: Evaluation) -> float | None:
    """Return the p-value of a difference from samples of the same rows."""
    first, second = one.replicates, other.replicates
    if first is None or second is None or first.rows != second.rows:
        return None
    if name not in first.values or name not in second.values:
        return None
    values, others = first.values[name], second.values[name]
    if direction == "zero":
        gap = abs(one[name]) - abs(other[name])
        if name in first.distances:
            moved = first.distances[name] + second.distances[name]
        else:
            moved = np.abs(values - one[name]) + np.abs(others - other[name])
    else:
        gap = one[name] - other[name]
        moved = np.abs(values - others - gap)
    if not np.isfinite(moved).all() or abs(gap) <= _ROUNDING * (abs(one[name]) + abs(other[name])):
        return 1.0
    return float((1 + np.count_nonzero(moved >= abs(gap))) / (1 + len(moved)))
