"""All numbers, curves and per-row values of one prediction, after the fit of its CCE."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import HostArray, InputsLike
from fastmcmd._base.names import name_list
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.classification import reliability_curve
from fastmcmd.errors import NumericalError
from fastmcmd.estimate.samples import encoded_inputs
from fastmcmd.estimator import ConditionalCongruence
from fastmcmd.evaluation.bootstrap import intervals, resampled
from fastmcmd.evaluation.config import EvaluationConfig
from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.group_values import RowGroups
from fastmcmd.evaluation.measures import ALL_MEASURES, CONGRUENCE, ON_REQUEST, SCORES
from fastmcmd.evaluation.nulls import null_expectations
from fastmcmd.evaluation.result import NO_CLASSES, Evaluation, Measured
from fastmcmd.frames import row_labels
from fastmcmd.inference.congruence_result import ONE_DRAW
from fastmcmd.inference.congruence_test import CongruenceTest, congruence_test
from fastmcmd.metrics import adversarial_group_calibration
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Categorical, Draws, Gaussian
from fastmcmd.predictive.adapters.outcome_checks import far_outcomes
from fastmcmd.predictive.base import Array
from fastmcmd.predictive.categorical import classes_of
from fastmcmd.rows import Rows

__all__ = ["check_some_row", "evaluation_of", "no_weight_in", "suspicions"]

_ON_REQUEST = frozenset(one.name for one in ON_REQUEST)
_TESTED_ROWS = 10_000  # most rows that are tested by default, in about a second
_POINTS = 500  # points at which the CCE of a right model is averaged
_LEAST_ROWS = 20  # with fewer rows, any assignment may look plausible
_FEWEST_SORTED = 3  # draws per row needed: two draws ascend in half of all rows by chance
_ASCENDING = (
    0.8  # share of rows: predicted quantiles cross in some, three random draws ascend in a sixth
)
_ORDERED_SHARE = 0.95  # share of rows, see `_differ_by_order`
_NEARER = 3.0  # factor by which outcomes must be nearer to the swapped argument
_SCATTER = 0.8  # least variance of outcomes, except by chance, relative to that of their means
_LEAST_Z, _MOST_Z = (
    0.3,
    3.0,
)  # plausible root mean squares of errors in standard deviations


def suspicions(context: Context, x: InputsLike | None) -> list[str]:
    """Return notes on arguments that look swapped.

    Each check requires that the numbers fit the swapped roles far better than their own. A wrong model
    alone does not cause a note.
    """
    base = context.base
    if not context.numbers:
        return []
    y, notes = context.y, []
    if isinstance(base, Categorical) and len(base.values) > 2 and _are_positions(base.values):
        return [
            f"classes are read as the numbers 0 to {len(base.values) - 1}: errors, CRPS and intervals are "
            "differences of these. Classes without an order: fastmcmd.Categorical(p, classes=names)"
        ]
    if isinstance(base, Draws):
        draws = base.array
        if draws.shape[1] == 1:
            notes.append(f"one draw per row: {ONE_DRAW}")
            notes += _of_points(y, draws[:, 0], x)
        elif draws.shape[1] >= _FEWEST_SORTED and _sorted(draws):
            notes.append(
                f"all {draws.shape[1]} draws of nearly every row ascend: pass predicted quantiles as "
                "fastmcmd.Quantiles(levels, values); an array is read as draws of equal weight"
            )
        elif draws.shape[1] == 2 and (
            _as_spread(y, draws[:, 0], draws[:, 1], draws[:, 1]) or _is_one_number(draws[:, 1])
        ):
            notes.append(
                "two draws per row, of which the second looks like a standard deviation: pass the pair "
                "(mean, std), a tuple, if that is what they are"
            )
        elif draws.shape[1] == 2 and _differ_by_order(draws):
            notes.append(
                "two draws per row, of which one is nearly always the larger: pass the pair (mean, std), a "
                "tuple, or the ends of intervals as fastmcmd.Quantiles(levels, values), if that is what "
                "they are"
            )
    elif isinstance(base, Gaussian) and _as_spread(y, base.std, base.mean, base.mean):
        notes.append(
            "outcomes lie near the standard deviations and far from the means: the order is (mean, std)"
        )
    return notes or far_outcomes(y, base)


def _is_one_number(values: Array) -> bool:
    """Return whether values agree and are positive, as a common standard deviation."""
    return len(values) >= _LEAST_ROWS and values[0] > 0 and bool((values == values[0]).all())


def _differ_by_order(draws: Array) -> bool:
    """Return whether one of two draws is the larger in nearly all rows, as chance never has it.

    Of two independent draws each is as often the larger: 20 rows or more agree so with probability 4e-5.
    """
    first = np.mean(draws[:, 0] > draws[:, 1])
    last = np.mean(draws[:, 0] < draws[:, 1])
    return len(draws) >= _LEAST_ROWS and bool(max(first, last) >= _ORDERED_SHARE)


def _are_positions(values: Array) -> bool:
    return bool(np.array_equal(values, np.arange(len(values))))


def _sorted(draws: Array) -> bool:
    """Return whether draws ascend, as quantiles do, in far more rows than independent draws would."""
    if len(draws) < _LEAST_ROWS:
        return False
    ascending = (np.diff(draws, axis=1) >= 0).all(axis=1) & (draws[:, 0] < draws[:, -1])
    return bool(ascending.mean() >= _ASCENDING)


def _of_points(y: Array, points: Array, x: InputsLike | None) -> list[str]:
    inputs = np.asarray(x) if isinstance(x, (np.ndarray, list)) or hasattr(x, "to_numpy") else None
    one_column = inputs is not None and inputs.shape in ((len(y),), (len(y), 1))
    # Detects evaluate(mean, std, y): "inputs" scatter about "outcomes" by about the "predictions".
    if (
        inputs is not None
        and one_column
        and inputs.dtype.kind in "iuf"
        and _as_spread(inputs.reshape(-1), y, points, points)
    ):
        return [
            "y, prediction and x look like means, standard deviations and outcomes: the order of "
            "arguments is (y, prediction, x), with prediction=(mean, std)"
        ]
    labels = np.isin(y, (0.0, 1.0)).all()
    inside = ((points >= 0) & (points <= 1)).all() and not np.isin(points, (0.0, 1.0)).all()
    if labels and inside and len(y) >= _LEAST_ROWS:
        return [
            "y holds only 0 and 1, and predictions lie between them: probabilities of a class belong in "
            "fastmcmd.classification.evaluate(y, p), or here as fastmcmd.Categorical(p, classes=[0, 1])"
        ]
    return []


def _as_spread(y: Array, mean: Array, std: Array, other: Array) -> bool:
    """Return whether y lies around ``mean`` by about ``std``, and far from ``other``."""
    if len(y) < _LEAST_ROWS or not (std > 0).all():
        return False
    errors = y - mean
    z = np.sqrt(np.mean((errors / std) ** 2))
    near, far = np.median(np.abs(errors)), np.median(np.abs(y - other))
    scatters = np.var(y) > _SCATTER * np.var(mean)  # as outcomes do about their means
    return bool(_LEAST_Z <= z <= _MOST_Z and far > _NEARER * near and scatters)


def check_some_row(outcomes: Outcomes) -> None:
    """Raise NumericalError if all rows hold NaN, because there is no data for the CCE."""
    if outcomes.blank:
        raise NumericalError(f"all {outcomes.n:,} rows hold NaN")


def evaluation_of(
    y: ArrayLike,
    outcomes: Outcomes,
    config: EvaluationConfig,
    labels: HostArray | None,
    x: InputsLike | None,
    congruence: ConditionalCongruence | None,
    progress: Progress,
    start: float,
    failure: str = "",
) -> Evaluation:
    """Return the evaluation of a prediction.

    Parameters
    ----------
    y : array_like
        Outcomes as the caller passed them, for their index.
    outcomes : Outcomes
        Checked rows.
    config : EvaluationConfig
        What to compute, and the conventions to use.
    labels : ndarray (n,) or None
        Group labels of all rows.
    x, congruence
        Inputs of the valid rows, and the estimator fitted on them; None without inputs.
    progress : Progress
        Shows which number is being computed.
    start : float
        Time at which the work began.
    failure : str
        Reason why there is no CCE although there are inputs; "" otherwise.
    """
    settings = config.settings
    if congruence is not None and congruence.result_.vague:
        failure, congruence = congruence.result_.vague, None
    values = None if congruence is None else congruence.result_.values
    context = Context(outcomes, settings, values)
    measures, reasons = _measure(context, progress, config.measures)
    if failure:
        reasons |= dict.fromkeys(CONGRUENCE, failure)
    nulls = null_expectations(context, [one.name for one in measures])
    nulls |= _right_cce(context, config, congruence, progress)
    measures = tuple(replace(one, null=nulls.get(one.name)) for one in measures)
    replicates = None
    if config.n_boot:
        replicates = resampled(context, measures, config.n_boot, progress)
        measures = intervals(measures, replicates, config.confidence)
    curves = {} if outcomes.blank else _curves(context)
    if config.adversarial and context.numbers and not outcomes.blank:
        progress.stage("random groups")
        curves["groups"] = adversarial_group_calibration(
            cast(Any, replace(context.rows, weights=None)),  # already checked
            context.prediction,
            random_state=settings.random_state,
        )
    test = _test(outcomes, config, x, congruence, progress)
    parts = None if labels is None else _by_label(context, labels, progress, config.measures)
    if outcomes.nan_result:
        measures = tuple(one.without_value() for one in measures)
    return Evaluation(
        measured=measures,
        curves=curves,
        rows=_rows(context),
        congruence=congruence,
        skipped=reasons,
        notes=_notes(context, x),
        n=outcomes.n,
        y=np.full_like(outcomes.y, np.nan) if outcomes.blank else outcomes.y,
        x=x,
        prediction=outcomes.prediction,
        by=parts,
        settings=config.summary(),
        seconds=time.perf_counter() - start,
        labels=row_labels(y),
        context=context,
        replicates=replicates,
        test=test,
        group_labels=labels if labels is None or outcomes.valid is None else labels[outcomes.valid],
    )


def _right_cce(
    context: Context,
    config: EvaluationConfig,
    congruence: ConditionalCongruence | None,
    progress: Progress,
) -> dict[str, float]:
    """Return the expected mean CCE of a right model, if it is known and cheap to compute."""
    chance = None if congruence is None else congruence.chance
    n = len(context.y)
    if chance is None or chance.reason or n > _TESTED_ROWS or config.test is False:
        return {}
    progress.stage("CCE of a right model")
    rng = generator(config.settings.random_state, Purpose.CHANCE)
    some = np.arange(n) if n <= _POINTS else np.sort(rng.choice(n, _POINTS, replace=False))
    if "variances" not in chance.norms:  # single draws have no known spread
        return {}
    values = chance.right_values(some)
    weights = None if context.weights is None else context.weights[some]
    if weights is not None and not weights.sum() > 0:
        return {}
    return {"mean_cce": float(np.average(values, weights=weights))}


def _test(
    outcomes: Outcomes,
    config: EvaluationConfig,
    x: InputsLike | None,
    fitted: ConditionalCongruence | None,
    progress: Progress,
) -> CongruenceTest | None:
    """Return the exact test if it was requested or is cheap, with the figures of the CCE; else None."""
    if config.test is False or outcomes.blank or outcomes.propagate:
        return None
    reason = ""
    if x is None:
        reason = "there are no inputs x"
    elif isinstance(x, (str, os.PathLike, Rows)):
        reason = "x is not in memory"
    if reason:
        if config.test:
            raise ValueError(f"test is True, but {reason}; leave test=None")
        return None
    congruence = config.congruence
    if config.test is None and (len(outcomes.y) > _TESTED_ROWS or congruence.encoder is not None):
        return None
    progress.stage("exact test")
    inputs = encoded_inputs(cast(Any, x), congruence.encoder, "x", congruence.options())
    data = (inputs, outcomes.y, outcomes.prediction)
    random_state = config.settings.random_state
    weights = outcomes.weights
    test = congruence_test(*data, weights=weights, random_state=random_state)
    if fitted is None:
        return test
    # The kernels of the CCE were chosen with y in sight: they give figures, and no p-value.
    kernels = (fitted.x_kernel_, fitted.y_kernel_, fitted.lam_)
    figures = congruence_test(*data, *kernels, weights=weights, random_state=random_state)
    return test.with_figures_of(figures)


def _measure(
    context: Context,
    progress: Progress,
    requested: tuple[str, ...],
    of: str = "",
    computed: Mapping[str, float] | None = None,
) -> tuple[tuple[Measured, ...], dict[str, str]]:
    """Return the measures that apply, and why others do not; ``computed`` values are taken."""
    numbers, reasons, computed = [], {}, computed or {}
    for one in ALL_MEASURES:
        if one.name in _ON_REQUEST and one.name not in requested:
            continue
        reason = one.missing(context)
        if reason is not None:
            if reason != NO_CLASSES:  # irrelevant to a regression
                reasons[one.name] = reason
            continue
        progress.stage(one.label + of)
        label = one.titled(context.settings.level)
        value = computed[one.name] if one.name in computed else one.compute(context)
        numbers.append(Measured(one.name, value, one.section, label, one.best))
    return tuple(numbers), reasons


def _curves(context: Context) -> dict[str, Any]:
    if context.nominal:
        labelled = context.labelled
        return {"reliability_of_classes": reliability_curve(cast(Any, labelled), labelled.p)}
    if not context.numbers:
        return {}
    curves: dict[str, object] = {
        "reliability": context.reliability("quantile"),
        "reliability_interval": context.reliability("interval"),
        "pit": context.histogram,
    }
    if context.spread is None and np.isfinite(context.prediction.mean).all():
        curves["variance"] = context.variance_curve
    return curves


def _rows(context: Context) -> dict[str, Array]:
    """Return per-row values, with NaN in rows left out."""
    by_row: dict[str, Array] = {}
    if context.numbers:
        by_row["pit"] = context.pit
        by_row["crps"] = SCORES["crps"](context)
    if context.nominal:
        by_row["brier_score"] = SCORES["brier_score"](context)
    if context.base.has_density:
        by_row["log_score"] = SCORES["log_score"](context)
    if context.cce is not None:
        by_row["cce"] = context.cce
    return {name: context.outcomes.scatter(values) for name, values in by_row.items()}


def _notes(context: Context, x: InputsLike | None) -> tuple[str, ...]:
    notes = []
    outcomes = context.outcomes
    if outcomes.blank:
        return (f"all {outcomes.n:,} rows hold NaN: every number is NaN",)
    if outcomes.valid is not None:
        ignored = 0 if outcomes.ignored is None else int(outcomes.ignored.sum())
        missing = outcomes.n - len(outcomes.valid) - ignored
        if missing:
            verb, subject = ("holds", "it is") if missing == 1 else ("hold", "they are")
            consequence = "every number is NaN" if outcomes.propagate else f"{subject} left out"
            notes.append(f"{missing:,} of {outcomes.n:,} rows {verb} NaN: {consequence}")
        if ignored:
            notes.append(
                f"{ignored:,} of {outcomes.n:,} rows have the ignored label: they are left out"
            )
    if context.base.has_density:
        infinite = int(np.isinf(SCORES["log_score"](context)).sum())
        if infinite:
            consequence = "outcome has" if infinite == 1 else "outcomes have"
            notes.append(f"{infinite:,} {consequence} no probability under the prediction")
    absent = _absent_classes(context)
    if absent:
        notes.append(
            f"no outcome is {name_list(absent)}: the area under the ROC curve is of the others"
        )
    return (*notes, *suspicions(context, x))


def _absent_classes(context: Context) -> list[str]:
    """Return the names of classes that no row has, if at least two others occur."""
    classes = classes_of(context.base)
    if classes is None:
        return []
    present = set(np.unique(context.y).tolist())
    absent = [name for place, name in enumerate(classes) if place not in present]
    return absent if len(present) > 1 else []


def no_weight_in(label: object) -> ValueError:
    """Return the error of a group in which no row has a weight."""
    return ValueError(
        f"by: no row of group {label!r} has a positive sample_weight; at least one is needed, or leave the "
        "group out"
    )


def _by_label(
    all_rows: Context, labels: HostArray, progress: Progress, requested: tuple[str, ...]
) -> dict[Any, tuple[int, tuple[Measured, ...]]]:
    """Return rows and numbers of each group; if NaN propagates, NaN for groups that hold NaN."""
    outcomes = all_rows.outcomes
    valid_labels = labels if outcomes.valid is None else labels[outcomes.valid]
    complete = np.zeros(outcomes.n, dtype=bool)
    complete[() if outcomes.valid is None else outcomes.valid] = not outcomes.blank
    if outcomes.ignored is not None:
        complete |= outcomes.ignored
    names, group = np.unique(valid_labels, return_inverse=True)
    parts = RowGroups.of(all_rows, group)
    of_groups = _values_of_groups(parts, requested)
    propagating = set(np.unique(labels[~complete]).tolist()) if outcomes.propagate else set()
    groups = {}
    rows_of = np.split(parts.order, parts.starts[1:])
    for place, (label, rows) in enumerate(zip(names, rows_of, strict=True)):
        key = label.item() if isinstance(label, np.generic) else label
        if all_rows.weights is not None and not all_rows.weights[rows].any():
            raise no_weight_in(key)
        computed = {name: values[place] for name, values in of_groups.items()}
        computed = {name: value for name, value in computed.items() if not math.isnan(value)}
        numbers = _measure(all_rows.subset(rows), progress, requested, f", group {key}", computed)[
            0
        ]
        if key in propagating:
            numbers = tuple(one.without_value() for one in numbers)
        groups[key] = (len(rows), numbers)
    return groups


def _values_of_groups(groups: RowGroups, requested: tuple[str, ...]) -> dict[str, list[float]]:
    """Return the values of all groups for measures that one pass over the rows computes."""
    values = {}
    for one in ALL_MEASURES:
        if one.name in _ON_REQUEST and one.name not in requested:
            continue
        if one.missing(groups.context) is None:
            of_groups = groups.values(one.name)
            if of_groups is not None:
                values[one.name] = of_groups.tolist()
    return values
