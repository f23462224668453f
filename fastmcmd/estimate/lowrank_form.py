"""Fitting the low-rank form of nature and models: output features from some rows, then each input set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.checkpoint import Checkpoint, Stages, stages_of
from fastmcmd.embedding.candidates import IN_SQUARE, candidates
from fastmcmd.embedding.features import output_features, pooled_with_importance
from fastmcmd.embedding.line import LineFeatures
from fastmcmd.embedding.pivots import Predicted, rows_to_add
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.budget import low_rank_peak
from fastmcmd.estimate.lowrank import LowRankFit, LowRankPart, Term
from fastmcmd.estimate.lowrank_fit import LowRank
from fastmcmd.estimate.memory_stream import MemoryStream
from fastmcmd.estimate.outputs import MOST_RANK, MeanFeatures
from fastmcmd.estimate.part_problem import LowRankSetting, PartProblem
from fastmcmd.estimate.primal import Truncation
from fastmcmd.estimate.row_stream import AnyRowStream, RowStream, StackedRowStream, goal_of_rows
from fastmcmd.estimate.task import Task, some_rows
from fastmcmd.gram import KernelFeatures

__all__ = ["COVERED_SHARE", "POOL", "LowRankForms"]


POOL = 40000  # outputs of a sample from which pivots are chosen
_LEAST_POOL = 2000
_TAIL = 30  # of these: all outputs beyond so many of them at each end are candidates, too
_OUTPUT_BYTES = (
    8 * 3 * 30
)  # of an output during the choice of features: about 30 for a scalar output
_ROUNDS = 3  # rounds of choosing features; each adds outputs that the previous features miss
COVERED_SHARE = 0.3  # share of the tolerance that truncation may use
_ROUNDING = 1.5  # ratio to the residual of rounding alone below which more pivots barely help


@dataclass(eq=False)
class _Pending:
    """A model without a final fit: its index, its samples, and outputs not yet in its features' span."""

    number: int
    samples: tuple[Sample, Sample]
    eps: float
    extra: list[Array] = field(default_factory=list)


class LowRankForms:
    """The low-rank form of models: problems, and the forms that follow from their solutions.

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
    checkpoint : Checkpoint, optional
        Where the sums of the passes are saved.
    mean_features : dict of int to MeanFeatures, optional
        Mean features of models whose passes take them from memory, by the indices of the models.

    Attributes
    ----------
    fits : list of LowRankFit or None
        The form of each model, or None if it cannot reach its goal.
    """

    def __init__(
        self,
        nature: Sample,
        models: list[Sample],
        task: Task,
        setting: LowRankSetting,
        checkpoint: Checkpoint | None = None,
        mean_features: dict[int, MeanFeatures] | None = None,
    ) -> None:
        self._task, self._setting, self._checkpoint = task, setting, checkpoint
        self._mean_features = mean_features or {}
        self._pending = [
            _Pending(number, (nature, model), task.feature_residual(nature.lam, model.lam))
            for number, model in enumerate(models)
        ]
        self._parts: list[list[LowRankPart | None]] = []  # of the round: for each problem and model
        self.fits: list[LowRankFit | None] = [None] * len(models)

    def problems(self) -> Iterator[tuple[LowRank, PartProblem, Stages | None]]:
        """Yield each problem with its solver and its place in the checkpoint.

        Models that miss outputs go another round, whose features have these outputs.
        """
        for attempt in range(_ROUNDS):
            if not self._pending:
                break
            work = _Round(self._pending, self._task, self._setting, self._mean_features)
            self._parts = []
            for number, problem in enumerate(work.problems()):
                stages = stages_of(self._checkpoint, f"low rank {attempt} {number}")
                yield LowRank(problem.setting.most), problem, stages
                if not any(self._parts[-1]):
                    fits_of_round = []
                    break
            else:
                fits_of_round = list(work.fits(self._parts))
            again = []
            for one in self._pending:
                self.fits[one.number] = None
            for one, fit, streams in fits_of_round:
                self.fits[one.number] = fit
                if attempt + 1 < _ROUNDS and _lacking(one, fit, streams, self._task):
                    again.append(one)
            self._pending = again

    def add(self, parts: list[LowRankPart | None]) -> None:
        """Take the solutions of the last problem, one for each model."""
        self._parts.append(parts)


class _Round:
    """One choice of output features for some models, with the problems that follow from it.

    Models whose outputs have no low rank take no part.
    """

    def __init__(
        self,
        pending: list[_Pending],
        task: Task,
        setting: LowRankSetting,
        mean_features: dict[int, MeanFeatures],
    ) -> None:
        self._task, self._setting, self._count = task, setting, len(pending)
        self._models: list[_Featured] = []
        self._streams: list[list[RowStream | MemoryStream]] = []
        self._outputs = 0
        nature, models = pending[0].samples[0], [one.samples[1] for one in pending]
        parts = [
            _spread(sample.all_outputs, _LEAST_POOL)
            for sample in (nature, *models)
            if isinstance(sample.all_outputs, DrawnOutputs)
        ]
        self._drawn_outputs = np.concatenate(parts) if parts else None
        # Of few rows, more features take longer than the dense form, which follows.
        hasty = setting.give_up and not setting.patient
        most = min(MOST_RANK, len(nature.design) // 4) if hasty else MOST_RANK
        for one in pending:
            means = mean_features.get(one.number)
            if means is not None:
                self._outputs = max(self._outputs, means.outputs)
                self._models.append(_Featured(one, means.features, means))
                continue
            values, importance = _outputs(one.samples, one.extra, _pool(setting.budget))
            self._outputs = max(self._outputs, len(values))
            factored = output_features(
                task.y_kernel, task.y_backend, values, one.eps, most, importance
            )
            if factored is not None:
                self._models.append(_Featured(one, factored[0]))

    def problems(self) -> Iterator[PartProblem]:
        """Yield the problems: two of a single model, or one for all of several."""
        task = self._task
        groups = [model.groups for model in self._models]
        for number, side_by_side in enumerate(zip(*groups, strict=True)):
            rows = [
                model.stream(group, self._drawn_outputs, task)
                for group, model in zip(side_by_side, self._models, strict=True)
            ]
            share = self._setting
            if len(groups[0]) > 1:
                share = replace(share, goal=share.goal / len(groups[0]), tolerance=None)
            if number and share.grid is None:  # the grid is the rows of the first group
                share = replace(share, grid=some_rows(task.grid))
            self._streams.append(rows)
            yield PartProblem.of(
                StackedRowStream(rows),
                _terms(side_by_side, rows),
                task.backend,
                task.x_kernel,
                share,
            )

    def fits(
        self, parts: list[list[LowRankPart | None]]
    ) -> Iterator[tuple[_Pending, LowRankFit, list[RowStream | MemoryStream]]]:
        """Yield the models that reach their goal, with their fits and row streams.

        ``parts`` holds the solutions of all problems, for each model.
        """
        setting, points = self._setting, len(self._task.grid)
        for model, featured in enumerate(self._models):
            streams = [rows[model] for rows in self._streams]
            of_model = [part for part in (solved[model] for solved in parts) if part is not None]
            if len(of_model) == len(parts):
                columns = sum(stream.columns for stream in self._streams[0])
                peak = _peak(of_model, points, self._count, columns, self._outputs, setting)
                peak += sum(stream.held_bytes for stream in self._streams[0])
                of_model = [
                    replace(part, stream=stream)
                    for part, stream in zip(of_model, streams, strict=True)
                ]
                fit = _fit(featured, of_model, streams, setting, peak)
                options = self._task.options
                work = np.inf if options.solver == "auto" else setting.most_work
                fit = replace(fit, tol=options.tol, most_work=work)
                yield featured.one, fit, streams


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
    featured: _Featured,
    parts: list[LowRankPart],
    streams: Sequence[AnyRowStream],
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
    rows = setting.block_rows(rank, featured.columns, dim, landmarks.backend.on_device)
    basis = None if featured.means is None else featured.means.basis
    return LowRankFit(featured.features, parts, truncation, rows, peak, basis)


def _lacking(
    one: _Pending, fit: LowRankFit, streams: Sequence[RowStream | MemoryStream], task: Task
) -> bool:
    """Tell whether to try again, with the outputs of large residual among the candidates.

    That costs as much as the first try. A few outputs that are missed a little more than the others do not
    justify it: what the features miss counts in the square of the MCMD.
    """
    residual = fit.truncation.residual
    if task.scale / 2 * residual <= COVERED_SHARE * task.options.tol:
        return False
    computed = [stream for stream in streams if isinstance(stream, RowStream)]
    if not computed:  # rows in memory are covered before a pass
        return False
    features = computed[0].features
    if residual <= _ROUNDING * sum(_rounding(features, sample) for sample in one.samples):
        return False
    limit = IN_SQUARE * COVERED_SHARE * task.options.tol / max(task.scale, 1e-300)
    more = []
    largest = float(features.kernel.diagonal(features.pivots).max())
    for stream in computed:
        if stream.largest_excess((one.eps + features.noise) * largest) <= limit:
            continue
        worst = np.unique(stream.worst_rows)
        more += [
            _uncovered(sample.all_outputs.take(worst).flat, features, one.eps)
            for sample in stream.samples
            if isinstance(sample.all_outputs, DrawnOutputs)
        ]
    more = [outputs for outputs in more if len(outputs)]
    for stream in computed:
        for sample, prediction, row_residual, floor in stream.coverage(limit):
            side = Predicted(prediction, _weights(sample))
            seed = len(one.extra)
            rows = rows_to_add(side, row_residual, floor, limit, task.y_kernel, seed)
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


@dataclass(frozen=True, eq=False)
class _Featured:
    """A model with its output features, and the means of all rows if these are in memory."""

    one: _Pending
    features: KernelFeatures | LineFeatures
    means: MeanFeatures | None = None

    @property
    def columns(self) -> int:
        """Number of columns of a system."""
        return self.features.rank if self.means is None else self.means.columns

    @cached_property
    def groups(self) -> list[_Group]:
        """The systems."""
        return _groups(self.one.samples, self.columns)

    def stream(self, group: _Group, points: Array | None, task: Task) -> RowStream | MemoryStream:
        """Return the rows of a group; ``points`` are outputs at which errors of features are measured."""
        if self.means is not None:
            return MemoryStream(group.samples, self.means)
        features = self.features
        assert isinstance(features, KernelFeatures)
        goals = [goal_of_rows(features, task, sample.lam) for sample in group.samples]
        return RowStream(group.samples, features, group.difference, points, goals)


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


def _terms(groups: Sequence[_Group], streams: Sequence[AnyRowStream]) -> list[Term]:
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
    residual = features.with_residuals(outputs)[1]
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
    """Return some outputs: a uniform draw, and the smallest and largest of each component.

    Of numbers these are some hundreds, because a uniform draw leaves gaps in the tails.
    """
    flat = outputs.flat
    if len(flat) <= pool:
        return np.asarray(flat, dtype=np.float64)
    rng = generator(len(flat), Purpose.PROBE)
    indices = [rng.choice(len(flat), pool, replace=False)]
    if flat.shape[1] == 1:
        numbers, at = flat[:, 0], min(_TAIL, pool // 4)
        low, high = np.partition(numbers[indices[0]], (at, pool - 1 - at))[[at, pool - 1 - at]]
        indices.append(np.flatnonzero((numbers < low) | (numbers > high)))
    for column in range(flat.shape[1]):
        indices.append(np.array([np.argmin(flat[:, column]), np.argmax(flat[:, column])]))
    return np.asarray(flat[np.unique(np.concatenate(indices))], dtype=np.float64)
