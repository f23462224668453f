"""Fitting: from samples to fitted differences of their conditional embeddings.

The low-rank form comes first, if it is suitable; else output features of each model, with one solve for as
many models as fit in memory; else the dense form, if outputs have no features of low rank.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.cached import cached_property
from fastmcmd._base.progress import Progress
from fastmcmd.backends.base import Backend
from fastmcmd.backends.tile_memory import TILE_MEMORY
from fastmcmd.checkpoint import Checkpoint
from fastmcmd.embedding.sample import Sample
from fastmcmd.errors import NumericalError
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.dense import DenseFit
from fastmcmd.estimate.dense_form import fit_dense
from fastmcmd.estimate.feature_form import (
    budget_of,
    feature_fits,
    feature_problems,
    least_for,
)
from fastmcmd.estimate.lowrank import LowRankFit
from fastmcmd.estimate.lowrank_choice import low_rank_groups
from fastmcmd.estimate.lowrank_form import LowRankForms
from fastmcmd.estimate.memory_check import exceeding_budget
from fastmcmd.estimate.memory_stream import fits_in_memory
from fastmcmd.estimate.outputs import (
    MeanFeatures,
    expected_outputs,
    in_few_columns,
    mean_features,
)
from fastmcmd.estimate.part_problem import LowRankSetting
from fastmcmd.estimate.primal import PrimalFit
from fastmcmd.estimate.task import Task
from fastmcmd.gram import largest_diagonal
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.result import Cause, Info
from fastmcmd.rows import Rows
from fastmcmd.solvers import LinearProblem, Solved, solver_of
from fastmcmd.solvers.cholesky import LARGE_VALUES
from fastmcmd.solvers.protocol import AnySolver, Solver

__all__ = ["Fit", "fit"]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted difference of conditional embeddings, in feature or dense form.

    ``norms`` holds `inference.row_norms` of the rows, if the fit has computed them.
    """

    form: PrimalFit | DenseFit | LowRankFit
    backend: Backend
    x_kernel: Kernel
    y_kernel: Kernel
    options: Options
    sizes: tuple[int, int]
    working: int
    start_time: float
    norms: dict[str, NDArray[np.float64]] | None = None

    def evaluate(
        self, grid: HostArray | Rows, progress: Progress, checkpoint: Checkpoint | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Info]:
        """Return values and error bounds (q,) at ``grid``, and information on the computation.

        ``checkpoint`` saves finished blocks in dense form, where evaluation is the main work.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if isinstance(self.form, DenseFit):
                keep = None if checkpoint is None else checkpoint.stage("dense")
                values, errors, kind = self.form.evaluate(grid, progress, keep)
            else:
                values, errors, kind = self.form.evaluate(grid, progress)
        info = self._info(kind, int(grid.shape[1]))
        if not errors.max() <= self.options.tol:
            largest = largest_diagonal(self.x_kernel, grid)
            with np.errstate(over="ignore", invalid="ignore"):
                causes = self._outputs_as_cause(
                    values, float(errors.max()), float(np.sqrt(largest))
                )
            if largest > LARGE_VALUES:
                causes.append(Cause("kernel values", largest))
            notes = (*info.notes, *(cause.note for cause in causes))
            if not causes and self.form.rounding_alone:
                causes.append(Cause("rounding", float(errors.max())))
            cause = causes[0] if causes else None
            info = replace(info, notes=notes, cause=cause, advice=self._advice(info))
        return values, errors, info

    def _advice(self, info: Info) -> str:
        """Return what the caller can change, which is none of what the fit has used."""
        options, form = self.options, self.form
        if options.dtype == FLOAT32 and info.dtype == "float32":
            return "leave dtype=None, or use dtype='float64'"
        if isinstance(form, LowRankFit):
            if options.solver != "auto":
                return "use a larger rank, solver='auto' or 'cg', or a larger tol"
            if not form.has_rows:
                return (
                    "the file holds landmarks only; evaluate these points before saving, or fit with "
                    "solver='cg'"
                )
            return "use a larger memory_limit, solver='cg', a larger lam or a larger tol"
        if "cg" not in info.solver:
            return Cause("rounding", 0.0).advice
        if options.solver == "cg":
            return "use solver='cholesky', a larger lam or a larger tol"
        folder = "" if options.cache_dir else " or a cache_dir for a factor"
        return f"use a larger memory_limit{folder}, a larger lam or a larger tol"

    def _outputs_as_cause(
        self, values: NDArray[np.float64], worst: float, scale: float
    ) -> list[Cause]:
        """Return a list with the part of the outputs if it is most of the error; else an empty list."""
        if isinstance(self.form, DenseFit):
            quadrature, truncated = scale / 2 * (self.form.node_error or 0.0), 0.0
        else:
            scales, none = np.full(len(values), scale), np.zeros(len(values))
            rank = self.form.features.rank
            quadrature = float(self.form.truncation.linear(scales).max())
            truncated = float(self.form.truncation.bounds(values, none, scales, rank).max())
        if quadrature >= worst / 2:
            return [Cause("quadrature", quadrature)]
        return [Cause("output features", truncated)] if truncated >= worst / 2 else []

    def witness(self, grid: HostArray | Rows, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the witness function (q, len(y))."""
        if isinstance(self.form, DenseFit):
            return self.form.witness(grid, y, Progress(False, self.options.tol))
        return self.form.witness(grid, y)

    def _info(self, kind: str, dim: int) -> Info:
        details = self.form.details()
        form_bytes = details.pop("held")
        if self.options.backend_reason:
            details["notes"] = (self.options.backend_reason, *details["notes"])
        return Info(
            backend=self.backend.name,
            device=self.backend.label(np.dtype(details["dtype"]), dim),
            certificate=kind,
            n=self.sizes[0],
            n_prime=self.sizes[1],
            seconds=time.perf_counter() - self.start_time,
            peak_bytes=self.working + form_bytes,
            **details,
        )


def fit(
    nature: Sample,
    models: list[Sample],
    x_kernel: Kernel,
    y_kernel: Kernel,
    options: Options,
    grid: HostArray | Rows,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
    *,
    stays: bool = False,
) -> list[Fit]:
    """Return the fitted differences of the conditional embeddings of nature and of each model.

    Each model has its own output features and certificate; models at nature's inputs share solves. If not
    all models fit in ``memory_limit``, they are solved in groups, down to one at a time.

    Parameters
    ----------
    nature : Sample
        Observed outputs.
    models : list of Sample
        One model; or several, each with nature as its twin and with nature's regulariser.
    x_kernel, y_kernel : Kernel
        Resolved kernels.
    options : Options
        Options of the computation.
    grid : ndarray (q, d)
        Points where the tolerance must hold.
    progress : Progress
        Receives a report of each product.
    checkpoint : Checkpoint, optional
        Where the state of CG and of the passes over rows is saved.
    stays : bool
        Whether the fits stay for evaluation at other points, too.

    Raises
    ------
    NumericalError
        Intermediate numbers are not finite, or a factorisation failed.
    """
    task = Task(x_kernel, y_kernel, options, grid, stays)
    TILE_MEMORY.trim(options.memory_limit)
    work, problem = _Work(nature, task, progress, checkpoint), None
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # `Result.of` raises for final values that are not finite.
            for step in chain(work.low_rank(models), work.groups(models)):
                for solver, problem, state in step.problems():
                    step.add(solver.solve(problem, progress, state))
                problem = None  # frees their arrays before the next step begins
                del step
    except np.linalg.LinAlgError as error:
        raise NumericalError(
            f"a factorisation failed ({error}): values of x_kernel {x_kernel!r} (up to "
            f"{task.scale**2:.1e}) are too large for their precision; scale the columns of x to "
            "unit variance, or use a larger lam"
        ) from error
    return [work.fits[number] for number in range(len(models))]


_Group = dict[int, tuple[Sample, MeanFeatures]]


class _Step(Protocol):
    """Some models with the same form: `fit` solves their problems, one after the other."""

    def problems(self) -> Iterator[tuple[AnySolver[Any, Any, Any], object, object]]:
        """Yield each problem with its solver and the place where that saves its state."""

    def add(self, result: Any) -> None:
        """Take the result of the last problem."""


class _FeatureStep:
    """The problems of models in feature form that share a solve.

    Attributes
    ----------
    results : list of Solved
        The solutions so far.
    """

    def __init__(
        self,
        nature: Sample,
        pairs: list[tuple[Sample, MeanFeatures]],
        task: Task,
        budget: Budget,
        checkpoint: Checkpoint | None,
    ) -> None:
        self._problems = feature_problems(nature, pairs, task, budget)
        self._solver, self._checkpoint = solver_of(task.options), checkpoint
        self.results: list[Solved] = []

    def problems(self) -> Iterator[tuple[Solver, LinearProblem, Checkpoint | None]]:
        """Yield the linear problems."""
        for problem in self._problems:
            yield self._solver, problem, self._checkpoint

    def add(self, result: Solved) -> None:
        """Take the solutions of the last problem."""
        result.operator.release()
        self.results.append(result)


class _Work:
    """Fits of models against one sample of nature, with the models grouped by shared solves.

    Its methods yield the steps whose problems are to be solved before the next step.

    Attributes
    ----------
    fits : dict of int to Fit
        The finished fits by the indices of their models.
    """

    def __init__(
        self, nature: Sample, task: Task, progress: Progress, checkpoint: Checkpoint | None = None
    ) -> None:
        self._nature, self._task, self._progress = nature, task, progress
        self._checkpoint = checkpoint
        self._start_time = time.perf_counter()
        self.fits: dict[int, Fit] = {}
        # Those of models for which low rank did not serve.
        self._mean_features: dict[int, MeanFeatures] = {}

    def low_rank(self, models: list[Sample]) -> Iterator[_Step]:
        """Yield the models for which the low-rank form is an option, and add those that it suits."""
        start = 0
        for some, setting in low_rank_groups(self._nature, models, self._task):
            numbers, start = range(start, start + len(some)), start + len(some)
            if setting is None:
                continue
            means = self._in_memory(some, setting)
            forms = LowRankForms(self._nature, some, self._task, setting, self._checkpoint, means)
            yield forms
            for number, model, low in zip(numbers, some, forms.fits, strict=True):
                features = means.get(number - numbers.start)
                if low is not None:
                    norms = None if features is None else features.norms
                    self._add(number, low, (len(self._nature), len(model)), 0, norms)
                elif features is not None:
                    self._mean_features[number] = features

    def _in_memory(self, models: list[Sample], setting: LowRankSetting) -> dict[int, MeanFeatures]:
        """Return the mean features of the models whose low-rank passes take them from memory."""
        means = dict[int, MeanFeatures]()
        for number, model in enumerate(models):
            sides = self._nature, model
            if fits_in_memory(sides, self._task, setting.budget // len(models)):
                features = in_few_columns(mean_features(*sides, self._task), sides, self._task)
                if features is not None:
                    means[number] = features
        return means

    def groups(self, models: list[Sample]) -> Iterator[_Step]:
        """Yield the other models in groups that share a solve, and add them with their forms."""
        nature, task = self._nature, self._task
        group: _Group = {}
        for number, model in enumerate(models):
            if number in self.fits:
                continue
            if group and not self._fits(group, model):
                yield from self._ready(group)
            budget = exceeding_budget(nature, model, task)
            if budget is not None:
                yield from self._last_resort(number, model, budget)
                continue
            sides, features = (nature, model), self._mean_features.pop(number, None)
            if features is None:
                features = in_few_columns(mean_features(*sides, task), sides, task)
            if features is None:
                dense, working = fit_dense(nature, model, task)
                self._add(number, dense, (len(nature.design), len(model.design)), working)
                continue
            if group and not self._fits(group, model, features):
                del features  # larger than expected: solve the group first, without them in memory
                yield from self._ready(group)
                features = in_few_columns(mean_features(*sides, task), sides, task)
                assert features is not None
            group[number] = model, features
        if group:
            yield from self._ready(group)

    @cached_property
    def _least(self) -> int:
        """Bytes that the chosen solver needs over the inputs that nature shares with models."""
        least = least_for([self._nature], self._task)
        return least[0] if least else 0

    def _fits(
        self,
        group: _Group,
        model: Sample,
        features: MeanFeatures | None = None,
    ) -> bool:
        """Tell whether a model can join a group without a slower method for any of its models.

        Without ``features``, the model is assumed to have as many as the largest in the group.
        """
        if not self._nature.same_system(model):
            return False
        pairs = list(group.values())
        if features is None:
            features = max(
                (pair[1] for pair in pairs), key=lambda pair_features: pair_features.columns
            )
            features = replace(
                features, outputs=expected_outputs(self._nature) + expected_outputs(model)
            )
        more = [*pairs, (model, features)]
        nature, task = self._nature, self._task
        joint_budget = budget_of(nature, more, task)
        return all(
            joint_budget.serves_as(
                budget_of(nature, [alone], task),
                len(nature.design),
                task.grid.shape[1],
                self._least,
            )
            for alone in more
        )

    def _ready(self, group: _Group) -> Iterator[_Step]:
        """Yield a group, add its fits, and empty it; a model too large alone takes another form."""
        nature, task, pairs = self._nature, self._task, list(group.values())
        budget = budget_of(nature, pairs, task)
        if task.options.solver != "auto" or len(group) > 1 or budget.holds():
            step = _FeatureStep(nature, pairs, task, budget, self._checkpoint)
            yield step
            forms = feature_fits(nature, pairs, task, step.results)
            for (number, (model, features)), form in zip(group.items(), forms, strict=True):
                sizes = len(nature.design), len(model.design)
                self._add(number, form, sizes, budget.working, features.norms)
            group.clear()
            return
        ((number, (model, _)),) = group.items()
        group.clear()
        del pairs
        yield from self._last_resort(number, model, budget)

    def _last_resort(self, number: int, model: Sample, budget: Budget) -> Iterator[_Step]:
        """Yield a model for the low-rank form, which needs the least memory, and add its fit.

        Raises
        ------
        MemoryLimitError
            ``budget`` exceeds the limit, and the caller chose a solver, or landmarks would not reach
            ``tol``.
        """
        nature, task, low = self._nature, self._task, None
        if task.options.solver == "auto":
            ((some, setting),) = low_rank_groups(nature, [model], task, last_resort=True)
            if setting is not None:
                means = self._in_memory(some, setting)
                forms = LowRankForms(nature, some, task, setting, self._checkpoint, means)
                yield forms
                (low,) = forms.fits
        if low is None:
            raise budget.shortage(*least_for([nature, model], task))
        for part in low.parts:
            part.notes.append("memory_limit is too small for cg: solved with landmarks")
        self._add(number, low, (len(nature), len(model)), 0)

    def _add(
        self,
        number: int,
        form: PrimalFit | DenseFit | LowRankFit,
        sizes: tuple[int, int],
        working: int,
        norms: dict[str, NDArray[np.float64]] | None = None,
    ) -> None:
        task = self._task
        self.fits[number] = Fit(
            form, task.backend, task.x_kernel, task.y_kernel, task.options, sizes, working,
            self._start_time, norms,
        )  # fmt: skip
