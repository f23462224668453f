"""Fitting the low-rank form of nature and models: output features from some rows, then each input set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.checkpoint import Checkpoint, stages_of
from fastmcmd.embedding.candidates import IN_SQUARE, candidates
from fastmcmd.embedding.features import output_features, pooled_with_importance
from fastmcmd.embedding.pivots import Predicted, rows_to_add
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.budget import low_rank_peak
from fastmcmd.estimate.lowrank import LowRankFit, LowRankPart, Term
from fastmcmd.estimate.lowrank_fit import LowRank
from fastmcmd.estimate.outputs import MOST_RANK
from fastmcmd.estimate.part_problem import LowRankSetting, PartProblem
from fastmcmd.estimate.primal import Truncation
from fastmcmd.estimate.row_stream import RowStream, StackedRowStream
from fastmcmd.estimate.task import Task, some_rows
from fastmcmd.gram import KernelFeatures

__all__ = ["POOL", "fit_low_rank"]


POOL = 40000  # outputs of a sample from which pivots are chosen
_LEAST_POOL = 2000
_OUTPUT_BYTES = (
    8 * 3 * 30
)  # of an output during the choice of features: about 30 for a scalar output
_ROUNDS = 3  # rounds of choosing features; each adds outputs that the previous features miss
_SHARE = 0.3  # share of the tolerance that truncation may use
_ROUNDING = 1.5  # ratio to the residual of rounding alone below which more pivots barely help


@dataclass(eq=False)
class _Pending:
    """A model without a final fit: its index, its samples, and outputs that its features missed so far."""

    number: int
    samples: tuple[Sample, Sample]
    eps: float
    extra: list[Array] = field(default_factory=list)


def fit_low_rank(
    nature: Sample,
    models: list[Sample],
    task: Task,
    setting: LowRankSetting,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> list[LowRankFit | None]:
    """Return the fitted low-rank form of each model, or None if it cannot reach its goal.

    Parameters
    ----------
    nature : Sample
        Observed outputs.
    models : list of Sample
        Models that share landmarks and passes; several must have the inputs and the regulariser of nature.
    task : Task
        Kernels, options and evaluation points.
    setting : LowRankSetting
        Goal for all parts of a model together, landmarks, memory.
    progress : Progress
        Receives a report of each pass.
    checkpoint : Checkpoint, optional
        Where the sums of the passes are saved.
    """
    fits: list[LowRankFit | None] = [None] * len(models)
    pending = [
        _Pending(number, (nature, model), task.feature_residual(nature.lam, model.lam))
        for number, model in enumerate(models)
    ]
    for attempt in range(_ROUNDS):
        if not pending:
            break
        fitted = _fitted(pending, task, setting, progress, checkpoint, attempt)
        again = []
        for one in pending:
            fits[one.number] = None
        for one, fit, streams in fitted:
            fits[one.number] = fit
            if attempt + 1 < _ROUNDS and _lacking(one, fit, streams, task):
                again.append(one)
        pending = again
    return fits


def _fitted(
    pending: list[_Pending],
    task: Task,
    setting: LowRankSetting,
    progress: Progress,
    checkpoint: Checkpoint | None,
    attempt: int,
) -> list[tuple[_Pending, LowRankFit, list[RowStream]]]:
    """Return the models that can reach their goal, with their fits and row streams."""
    models_to_fit: list[tuple[_Pending, KernelFeatures, list[_Group]]] = []
    outputs = 0
    for one in pending:
        values, importance = _outputs(one.samples, one.extra, _pool(setting.budget))
        outputs = max(outputs, len(values))
        factored = output_features(
            task.y_kernel, task.y_backend, values, one.eps, MOST_RANK, importance
        )
        if factored is not None:
            models_to_fit.append((one, factored[0], _groups(one.samples, factored[0].rank)))
    if not models_to_fit:
        return []
    parts: list[list[LowRankPart | None]] = []
    streams: list[list[RowStream]] = []
    groups = [
        groups for *_, groups in models_to_fit
    ]  # two of a single model, or one for each of several
    for number, side_by_side in enumerate(zip(*groups, strict=True)):
        rows = [
            RowStream(group.samples, features, group.difference)
            for group, (_, features, _) in zip(side_by_side, models_to_fit, strict=True)
        ]
        share = replace(setting, goal=setting.goal / len(groups[0]))
        if number and share.grid is None:  # the grid is the rows of the first group
            share = replace(share, grid=some_rows(task.grid))
        stages = stages_of(checkpoint, f"low rank {attempt} {number}")
        problem = PartProblem(
            StackedRowStream(rows), _terms(side_by_side, rows), task.backend, task.x_kernel, share
        )
        known_parts = LowRank(share.most).solve(problem, progress, stages)
        if not any(known_parts):
            return []
        parts.append(known_parts)
        streams.append(rows)
    fits = []
    for model, (one, features, _) in enumerate(models_to_fit):
        of = [rows[model] for rows in streams]
        fitted = [
            part for part in (model_parts[model] for model_parts in parts) if part is not None
        ]
        if len(fitted) == len(parts):
            columns = sum(model_parts.columns for model_parts in streams[0])
            peak = _peak(fitted, len(task.grid), len(pending), columns, outputs, setting)
            fits.append((one, _fit(features, fitted, of, setting, peak), of))
    return fits


def _peak(
    parts: list[LowRankPart],
    points: int,
    models: int,
    columns: int,
    outputs: int,
    setting: LowRankSetting,
) -> int:
    """Return the peak memory of the fit in bytes."""
    largest = 0
    for part in parts:
        rank, dim = part.features.rank, int(part.features.pivots.shape[1])
        on_device = part.features.backend.on_device
        peak = low_rank_peak(
            rows=part.rows, points=points, dim=dim, models=models, columns=columns, rank=rank,
            outputs=outputs, searched=part.searched, residual_bytes=part.residual_bytes,
            block=setting.block_rows(rank, columns, dim, on_device),
        )  # fmt: skip
        largest = max(largest, peak)
    return largest


def _fit(
    features: KernelFeatures,
    parts: list[LowRankPart],
    streams: list[RowStream],
    setting: LowRankSetting,
    peak: int,
) -> LowRankFit:
    errors = [stream.expectation_error() for stream in streams]
    truncation = Truncation(
        sum(stream.truncated() for stream in streams),
        sum(error for error, _ in errors),
        all(certain for _, certain in errors),
    )
    rank = max(part.features.rank for part in parts)
    landmarks = parts[0].features
    dim = landmarks.pivots.shape[1]
    rows = setting.block_rows(rank, features.rank, dim, landmarks.backend.on_device)
    return LowRankFit(features, parts, truncation, rows, peak)


def _lacking(one: _Pending, fit: LowRankFit, streams: list[RowStream], task: Task) -> bool:
    """Tell whether to try again, with the outputs that the features missed among the candidates."""
    residual = fit.truncation.residual
    if task.scale / 2 * residual <= _SHARE * task.options.tol:
        return False
    if residual <= _ROUNDING * sum(_rounding(fit.features, sample) for sample in one.samples):
        return False
    more = [
        _uncovered(
            sample.all_outputs.take(np.unique(stream.worst_rows)).flat, fit.features, one.eps
        )
        for stream in streams
        for sample in stream.samples
        if isinstance(sample.all_outputs, DrawnOutputs)
    ]
    more = [outputs for outputs in more if len(outputs)]
    for stream in streams:
        for sample, prediction, row_residual, floor in stream.coverage():
            side = Predicted(prediction, _weights(sample))
            allowed = IN_SQUARE * _SHARE * task.options.tol / max(task.scale, 1e-300)
            seed = len(one.extra)
            rows = rows_to_add(side, row_residual, floor, allowed, task.y_kernel, seed)
            if rows is not None:
                more.append(rows[0])
    one.extra.extend(more)
    return bool(more)  # if none, the rest is rounding or quadrature, which no other pivots reduce


@dataclass(frozen=True, eq=False)
class _Group:
    """Samples with the same inputs, their systems, and whether one solve takes their difference."""

    samples: list[Sample]
    terms: list[Term]
    difference: bool


def _groups(samples: tuple[Sample, Sample], rank: int) -> list[_Group]:
    """Return the samples grouped by equal inputs, with their systems."""
    nature, model = samples
    all_columns = slice(0, rank)
    if not nature.same_rows(model):
        return [
            _Group([nature], [Term(all_columns, nature.lam, 1.0)], False),
            _Group([model], [Term(all_columns, model.lam, -1.0)], False),
        ]
    if nature.lam == model.lam:
        return [_Group([nature, model], [Term(all_columns, nature.lam, 1.0)], True)]
    terms = [Term(all_columns, nature.lam, 1.0), Term(slice(rank, 2 * rank), model.lam, -1.0)]
    return [_Group([nature, model], terms, False)]


def _terms(groups: Sequence[_Group], streams: list[RowStream]) -> list[Term]:
    """Return the systems of all models, with their right-hand sides in adjacent columns."""
    terms, begin = [], 0
    for model, (group, stream) in enumerate(zip(groups, streams, strict=True)):
        for term in group.terms:
            columns = slice(begin + term.columns.start, begin + term.columns.stop)
            terms.append(Term(columns, term.lam, term.sign, model))
        begin += stream.columns
    return terms


def _weights(sample: Sample) -> Array:
    """Return ``1 / D_ii`` of each row."""
    weight = np.ones(len(sample)) if sample.weights is None else sample.weights
    return np.asarray(weight / (float(weight.sum()) * sample.lam))


def _rounding(features: KernelFeatures, sample: Sample) -> float:
    """Return the residual of a sample's features if it were rounding alone."""
    largest = float(np.max(features.kernel.diagonal(features.pivots)))
    return float(np.sqrt(features.noise * largest / sample.lam))


def _uncovered(
    outputs: NDArray[np.float64], features: KernelFeatures, eps: float
) -> NDArray[np.float64]:
    """Return the outputs whose residual exceeds rounding, so that more pivots would help."""
    diagonal = np.asarray(features.kernel.diagonal(outputs), dtype=np.float64)
    residual = features.residuals(outputs, features.transform(outputs))
    return outputs[residual > (eps + features.noise) * diagonal.max()]


def _outputs(
    samples: tuple[Sample, Sample], extra: list[NDArray[np.float64]], pool: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distinct outputs as candidates for pivots, and their importance."""
    parts = []
    for sample in samples:
        outputs = sample.all_outputs
        if isinstance(outputs, DrawnOutputs):
            values = _spread(outputs, pool)
            parts.append((values, np.ones(len(values))))
        else:
            parts.append(candidates(outputs.prediction))
    parts.extend((values, np.ones(len(values))) for values in extra)
    distinct, _, importance = pooled_with_importance(*parts)
    return distinct, importance


def _pool(budget: int) -> int:
    """Return how many outputs of a side are candidates for pivots: fewer if memory is short."""
    return int(np.clip(budget // 4 // _OUTPUT_BYTES, _LEAST_POOL, POOL))


def _spread(outputs: DrawnOutputs, pool: int) -> NDArray[np.float64]:
    """Return some outputs: a uniform draw, and the smallest and largest of each component."""
    flat = outputs.flat
    if len(flat) <= pool:
        return np.asarray(flat, dtype=np.float64)
    rng = generator(len(flat), Purpose.PROBE)
    indices = [rng.choice(len(flat), pool, replace=False)]
    for column in range(flat.shape[1]):
        indices.append(np.array([np.argmin(flat[:, column]), np.argmax(flat[:, column])]))
    return np.asarray(flat[np.unique(np.concatenate(indices))], dtype=np.float64)
