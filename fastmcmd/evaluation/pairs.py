"""Paired tests: is one model better than another on the same rows, beyond chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.arrays import HOST
from fastmcmd._base.checks import as_rows
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.default_kernels import chosen_lam
from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.differences import MEAN_CCE, PairOfModels, Pairs, check_interval
from fastmcmd.evaluation.measures import ALL_MEASURES
from fastmcmd.evaluation.result import Evaluation
from fastmcmd.evaluation.row_means import losses
from fastmcmd.frames import row_labels
from fastmcmd.inference.chance import Chance
from fastmcmd.inference.comparison import (
    LEAST_CLUSTERS,
    Paired,
    congruence_bytes,
    congruence_losses,
    holm,
    model_confidence_set,
    paired,
)
from fastmcmd.inference.difference_map import DifferenceMap, difference_map
from fastmcmd.inference.inputs import input_map
from fastmcmd.predictive.base import Array
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = ["UNBOUNDED", "PairedTests", "bootstrap_test", "has_measure"]

_ROUNDING = 1e-12  # relative to the losses: smaller differences are rounding
_SCORES_OF_MAPS = ("mean_crps", "mean_energy_score", "nll", "mean_brier_score")
# Scores whose differences two predictions do not bound. Those of the other scores are bounded, or grow no
# faster than the outcome.
UNBOUNDED = ("nll", "mean_dawid_sebastiani", "mean_ensemble_log_score", "mean_error_spread_score")
_MOST_BYTES = 4e9  # bytes of features of outcomes and predictions above which the CCE is not tested


class PairedTests:
    """Paired tests of evaluations of the same rows.

    Parameters
    ----------
    evaluations : dict of Evaluation
        Evaluations by the names of their models.
    clusters : ndarray (n,) of int or None
        Clusters of rows such that outcomes of different clusters are independent. None: all rows are
        independent.
    level : float
        Level of the tests; intervals have the level 1 - level.

    Notes
    -----
    Means of per-row scores use a t test of the per-row differences (or of their sums over clusters), which
    accounts for outcomes that surprise both models. Differences of the log score have no bounds: they are
    tested if there are 200 and their tails are light (`fastmcmd.inference.tails`). The root mean squared
    error uses the delta method. For the mean squared CCE, the difference is linear in the outcomes; see
    `fastmcmd.inference.comparison`. Other measures are tested if both models were resampled with the same
    rows (``n_boot``) and rows are independent: by the bootstrap distribution of the difference about its
    value. For norms and the bias, the difference is compared with the sum of both errors that the triangle
    inequality allows, which is conservative.
    """

    def __init__(
        self, evaluations: Mapping[str, Evaluation], clusters: NDArray[np.intp] | None, level: float
    ) -> None:
        self._evaluations, self._clusters, self._level = dict(evaluations), clusters, level
        self._losses: Array | None = None  # of the mean squared CCE, one column per model
        self._by_congruence: dict[tuple[str, str], Paired | None] = {}
        self.reason = self._no_congruence()

    def pairs(self) -> Pairs:
        """Return all pairs, for all measures that at least two models have and that define "better"."""
        records: list[PairOfModels] = []
        for one in ALL_MEASURES:
            names = [
                name
                for name, evaluation in self._evaluations.items()
                if has_measure(evaluation, one.name)
            ]
            if one.best and len(names) > 1:
                records += self._of_measure(one.name, one.best, names)
        return Pairs(records, self._level)

    def units(self) -> float:
        """Return the effective number of independent rows or clusters, ``1 / sum(share^2)``."""
        share = _shares(self._first_context())
        if self._clusters is not None:
            share = np.bincount(self._clusters, weights=share).astype(np.float64)
        return 1 / float(share @ share)

    def confidence_set(self, name: str, samples: int, random_state: object) -> dict[str, float]:
        """Return the p-value of each model for being among the best, by a measure."""
        models = list(self._evaluations)
        if name == MEAN_CCE:
            if self.reason:
                raise ValueError(f"mean_cce has no model confidence set: {self.reason}")
            self._compare_congruence()
            assert self._losses is not None
            clusters = self._clusters_of_used()
            p = model_confidence_set(self._losses, clusters, samples, random_state)
            return dict(zip(models, p.tolist(), strict=True))
        rows = [
            None
            if evaluation.context is None or not has_measure(evaluation, name)
            else losses(name, evaluation.context)
            for evaluation in self._evaluations.values()
        ]
        loss_rows = [one for one in rows if one is not None]
        if len(loss_rows) < len(rows):
            raise ValueError(
                f"{name} has no model confidence set: not every model has it as a mean over rows"
            )
        if not all(np.isfinite(one).all() for one in loss_rows):
            raise ValueError(f"{name} has no model confidence set: some losses are infinite")
        pairs = combinations(models, 2)
        check_interval((self._pair(name, "low", *one) for one in pairs), "model confidence set")
        first = self._first_context()
        share = _shares(first)
        columns = np.stack([share * one for one in loss_rows], axis=1)
        p = model_confidence_set(columns, self._clusters, samples, random_state)
        return dict(zip(models, p.tolist(), strict=True))

    def map(
        self,
        first: str,
        second: str,
        measure: str | None,
        at: Any,
        x_kernel: Any,
        lam: Any,
        simulations: int,
        random_state: Any,
    ) -> DifferenceMap:
        """Return the difference of two models' losses as a function of inputs; see `Comparison.map`."""
        one, other = self._evaluations[first], self._evaluations[second]
        scores = [
            name
            for name in _SCORES_OF_MAPS
            if all(_finite(evaluation, name) is not None for evaluation in (one, other))
        ]
        if measure is None:
            measure = scores[0] if scores else "mae"
        columns = []
        for name, evaluation in ((first, one), (second, other)):
            rows = _finite(evaluation, measure)
            if rows is None:
                example = scores[0] if scores else "mean_crps"
                raise ValueError(
                    f"measure is {measure!r}, of which {name!r} has no finite losses by row; a proper "
                    f"score such as {example!r} is needed"
                )
            columns.append(rows)
        if one.x is None:
            raise ValueError("the evaluations have no inputs; give x to evaluate or compare")
        check_interval([self._pair(measure, "low", first, second)], "map of differences")
        context = self._first_context()
        x = as_rows(one.x, "x").astype(np.float64)
        grid = x if at is None else as_rows(at, "at", columns=x.shape[1]).astype(np.float64)
        weights = np.ones(len(x)) if context.weights is None else np.asarray(context.weights)
        unit = unit_of(HOST, columns[0] - columns[1])
        estimates = difference_map(
            x, (columns[0] - columns[1]) / unit, grid, input_map(x, x_kernel), chosen_lam(lam, x_kernel),
            weights=weights, clusters=self._clusters, level=1 - self._level, simulations=simulations,
            rng=generator(random_state, Purpose.COMPARISON),
        )  # fmt: skip
        difference, band, supported, p, p_mean = estimates
        labels = one.labels if at is None else row_labels(at)
        return DifferenceMap(
            first, second, Pairs.label(measure), unit * difference, unit * band, supported, p, p_mean,
            1 - self._level, grid, labels, one.column_names,
        )  # fmt: skip

    def _first_context(self) -> Context:
        context = next(iter(self._evaluations.values())).context
        assert context is not None
        return context

    def _of_measure(self, name: str, best: str, names: list[str]) -> list[PairOfModels]:
        records = [self._pair(name, best, *pair) for pair in combinations(names, 2)]
        p = np.array([record.p_value for record in records])
        adjusted = holm(np.where(np.isnan(p), 1.0, p))
        return [
            replace(record, p_adjusted=math.nan if np.isnan(alone) else float(q))
            for record, alone, q in zip(records, p, adjusted, strict=True)
        ]

    def _pair(self, name: str, best: str, first: str, second: str) -> PairOfModels:
        """Return a difference with its test, whose p-value is not adjusted yet."""
        pair, nan = self._test(name, best, first, second), math.nan
        if pair is None:
            difference = self._evaluations[first][name] - self._evaluations[second][name]
            pair = Paired(difference, nan, nan, nan, nan)
        return PairOfModels(
            name, first, second, pair.difference, pair.low, pair.high, pair.p_value, nan,
            pair.error, pair.reason,
        )  # fmt: skip

    def _test(self, name: str, best: str, first: str, second: str) -> Paired | None:
        one, other = self._evaluations[first], self._evaluations[second]
        contexts = one.context, other.context
        if contexts[0] is None or contexts[1] is None or not _same_weights(*contexts):  # type: ignore[arg-type]
            return None
        if len(contexts[0].y) < LEAST_CLUSTERS or np.isnan([one[name], other[name]]).any():
            return None
        if name == MEAN_CCE:
            return self._test_congruence(first, second)
        rows, other_rows = losses(name, contexts[0]), losses(name, contexts[1])
        if rows is None or other_rows is None:
            p = None if self._clusters is not None else bootstrap_test(name, best, one, other)
            difference = one[name] - other[name]
            return None if p is None else Paired(difference, math.nan, math.nan, p, math.nan)
        confidence = 1 - self._level
        paired = losses_test(
            rows, other_rows, contexts[0].weights, self._clusters, confidence,
            unbounded=name in UNBOUNDED,
        )  # fmt: skip
        if paired is not None and name == "accuracy":  # whose loss is the share of errors
            return replace(
                paired, difference=-paired.difference, low=-paired.high, high=-paired.low
            )
        if paired is None or name not in ("rmse", "r2"):
            return paired
        difference = one[name] - other[name]
        if name == "r2" or not min(one[name], other[name]) > 0:
            return Paired(difference, math.nan, math.nan, paired.p_value, math.nan)
        unit = unit_of(HOST, contexts[0].y)
        slopes, other_slopes = rows / (2 * one[name] / unit), other_rows / (2 * other[name] / unit)
        scaled = losses_test(
            slopes * unit,
            other_slopes * unit,
            contexts[0].weights,
            self._clusters,
            confidence,
            difference,
        )
        return None if scaled is None else replace(scaled, p_value=paired.p_value)

    # ---- the mean squared CCE ----

    def _chances(self) -> list[Chance | None]:
        return [
            None if evaluation.congruence is None else evaluation.congruence.chance
            for evaluation in self._evaluations.values()
        ]

    def _no_congruence(self) -> str:
        """Return why the mean squared CCE has no test, or "" if it has one."""
        chances = self._chances()
        first = chances[0]
        if first is None or any(one is None for one in chances):
            return "not every model has a CCE with its data"
        if first.reason:
            return first.reason
        for one in chances[1:]:
            assert one is not None
            if (first.x_kernel, first.y_kernel) != (one.x_kernel, one.y_kernel):
                return "the models were evaluated with different kernels"
            if first.nature.lam != one.nature.lam:
                return "the models were evaluated with different lam"
            if not first.nature.same_rows(one.nature):
                return "the models were evaluated with different inputs or weights"
        if congruence_bytes(chances) > _MOST_BYTES:  # type: ignore[arg-type]
            return f"{len(first.nature):,} rows of {len(chances)} models are too many for it"
        return ""

    def _compare_congruence(self) -> None:
        """Test all pairs and store the losses; the features of all outcomes are needed only here."""
        if self._losses is not None:
            return
        parts = congruence_losses([one for one in self._chances() if one is not None])
        self._losses = parts.losses()
        clusters, size = self._clusters_of_used(), float(np.abs(self._losses).sum())
        for (one, first), (other, second) in combinations(enumerate(self._evaluations), 2):
            more = float(parts.variances[one] + parts.variances[other])
            self._by_congruence[first, second] = paired(
                parts.pair(one, other), clusters, 1 - self._level, size, more_variance=more
            )

    def _test_congruence(self, first: str, second: str) -> Paired | None:
        if self.reason:
            return None
        self._compare_congruence()
        return self._by_congruence[first, second]

    def _clusters_of_used(self) -> NDArray[np.intp] | None:
        """Return the clusters of the rows with positive weight, renumbered."""
        weights = self._first_context().weights
        if self._clusters is None or weights is None:
            return self._clusters
        return np.unique(self._clusters[weights > 0], return_inverse=True)[1].reshape(-1)


def has_measure(evaluation: Evaluation, name: str) -> bool:
    """Tell whether a measure of this name was computed."""
    return any(one.name == name for one in evaluation.measured)


def _finite(evaluation: Evaluation, name: str) -> Array | None:
    """Return the losses (n,) of a measure; None if it is no mean over rows, or some are infinite."""
    if evaluation.context is None or not has_measure(evaluation, name):
        return None
    rows = losses(name, evaluation.context)
    return rows if rows is not None and np.isfinite(rows).all() else None


def _same_weights(first: Context, second: Context) -> bool:
    if first.weights is None or second.weights is None:
        return first.weights is second.weights
    return np.array_equal(first.weights, second.weights)


def _shares(context: Context) -> Array:
    if context.weights is None:
        return np.full(len(context.y), 1 / len(context.y))
    return np.asarray(context.weights / context.weights.sum())


def losses_test(
    first: Array,
    second: Array,
    weights: Array | None = None,
    clusters: NDArray[np.intp] | None = None,
    confidence: float = 0.95,
    difference: float | None = None,
    unbounded: bool = False,
) -> Paired | None:
    """Return the weighted mean difference of per-row losses with its t interval; None for too few rows."""
    if weights is not None:
        some = weights > 0
        first, second, weights = first[some], second[some], weights[some]
        clusters = None if clusters is None else clusters[some]
    if clusters is not None:
        clusters = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    infinite = np.isinf(first).any(), np.isinf(second).any()
    if any(infinite):  # an outcome had probability 0, so the expected score is infinite, too
        if infinite[0] and infinite[1]:
            return Paired(math.nan, math.nan, math.nan, 1.0, math.nan)
        return Paired(math.inf if infinite[0] else -math.inf, math.nan, math.nan, 0.0, math.nan)
    share = np.full(len(first), 1 / len(first)) if weights is None else weights / weights.sum()
    size = float(share @ (np.abs(first) + np.abs(second)))
    return paired(
        share * (first - second), clusters, confidence, size, difference, shares=share,
        unbounded=unbounded,
    )  # fmt: skip


def bootstrap_test(name: str, direction: str, one: Evaluation, other: Evaluation) -> float | None:
    """Return the p-value of a difference from bootstrap samples of the same rows."""
    first, second = one.replicates, other.replicates
    if first is None or second is None or first.rows != second.rows:
        return None
    if name not in first.values or name not in second.values:
        return None
    values, other_values = first.values[name], second.values[name]
    if direction == "zero":
        gap = abs(one[name]) - abs(other[name])
        if name in first.distances:
            null_gaps = first.distances[name] + second.distances[name]
        else:
            null_gaps = np.abs(values - one[name]) + np.abs(other_values - other[name])
    else:
        gap = one[name] - other[name]
        null_gaps = np.abs(values - other_values - gap)
    if not np.isfinite(null_gaps).all() or abs(gap) <= _ROUNDING * (
        abs(one[name]) + abs(other[name])
    ):
        return 1.0
    return float((1 + np.count_nonzero(null_gaps >= abs(gap))) / (1 + len(null_gaps)))
