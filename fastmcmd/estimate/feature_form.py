"""The feature form of nature and one or several models: one solve for all that share their inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fastmcmd.checkpoint import Checkpoint
from fastmcmd.embedding.sample import Sample
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.outputs import MeanFeatures
from fastmcmd.estimate.primal import Part, PrimalFit
from fastmcmd.estimate.task import SOLVER_SHARE, Task
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.progress import Progress
from fastmcmd.solvers import Goal, LinearProblem, Solution, Solved, System, solve
from fastmcmd.solvers.cholesky import least_bytes
from fastmcmd.threads import get_num_threads

__all__ = ["budget_of", "fit_features", "least_for"]


def budget_of(nature: Sample, pairs: list[tuple[Sample, MeanFeatures]], task: Task) -> Budget:
    """Return the budget of a solve for all models at once."""
    columns = sum(
        found.features.rank * (1 if nature.same_system(model) else 2) for model, found in pairs
    )
    return Budget.of(
        task.options.memory_limit,
        n=max(len(nature.design), *(len(model.design) for model, _ in pairs)),
        columns=columns,
        outputs=max(found.outputs for _, found in pairs),
        rank=max(found.features.rank for _, found in pairs),
        points=len(task.grid),
        threads=get_num_threads(),
    )


def least_for(sides: list[Sample], task: Task) -> tuple[()] | tuple[int, str]:
    """Return the least room that the solver asked for needs, and for what."""
    if task.options.solver != "cholesky":
        return ()
    x = max((side.design.x for side in sides), key=len)
    limit, dtype = task.options.memory_limit, task.options.dtype or EXACT
    operator = GramOperator(task.backend, task.x_kernel, x, dtype, limit)
    return least_bytes(operator, task.options.cache_dir)


def fit_features(
    nature: Sample,
    pairs: list[tuple[Sample, MeanFeatures]],
    task: Task,
    budget: Budget,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> list[PrimalFit]:
    """Return the fitted feature form of each model.

    Parameters
    ----------
    nature : Sample
        Observed outputs.
    pairs : list of (Sample, MeanFeatures)
        The models; several where one solve with the difference serves each of them.
    task : Task
        What is asked for.
    budget : Budget
        Of all systems together.
    progress : Progress
        Told of each product.
    checkpoint : Checkpoint, optional
        Where the solver keeps its state.
    """
    solver = _Solver(nature, pairs, task, budget, progress, checkpoint)
    parts: list[list[Part]]
    if all(nature.same_system(model) for model, _ in pairs):
        systems = [System(found.nature - found.model, nature.shift) for _, found in pairs]
        parts = [[part] for part in solver.differences(systems)]
    else:
        ((model, found),) = pairs
        same = nature.design.same_as(model.design)
        parts = [(solver.in_step if same else solver.apart)(model, found)]
    certificate = task.options.certificate
    return [
        PrimalFit(found.features, part, found.truncation, certificate)
        for (_, found), part in zip(pairs, parts, strict=True)
    ]


class _Solver:
    """Solves systems over the inputs of one side or the other, within one budget."""

    def __init__(
        self, nature: Sample, pairs: list[tuple[Sample, MeanFeatures]], task: Task, budget: Budget,
        progress: Progress, checkpoint: Checkpoint | None,
    ) -> None:  # fmt: skip
        self._nature, self._task = nature, task
        self._progress, self._checkpoint = progress, checkpoint
        sides = [nature, *(model for model, _ in pairs)]
        self._lam = min(side.lam for side in sides)
        self._room = budget.room(*least_for(sides, task))

    def differences(self, systems: list[System]) -> list[Part]:
        """Solve for the difference of both sides, for each model."""
        result = self._solved(self._nature, systems, 1.0)
        design = self._nature.design
        if len(systems) == 1:
            (only,) = result.solutions
            return [Part(design, only.value, only.image, result)]
        # Arrays of its own: a model that is kept does not keep those of the others.
        alone = [replace(s, image=np.ascontiguousarray(s.image)) for s in result.solutions]
        return [Part(design, s.value, s.image, _of_one(result, s)) for s in alone]

    def in_step(self, model: Sample, found: MeanFeatures) -> list[Part]:
        """Solve for both sides at the same inputs with two regularisers."""
        nature = self._nature
        systems = [System(found.nature, nature.shift), System(found.model, model.shift)]
        result = self._solved(nature, systems, 0.5)
        ours, theirs = result.solutions
        value, image = ours.value - theirs.value, ours.image - theirs.image
        return [Part(nature.design, value, image, result)]

    def apart(self, model: Sample, found: MeanFeatures) -> list[Part]:
        """Solve for each side at its own inputs."""
        parts = []
        for side, mean, sign, name in (
            (self._nature, found.nature, 1.0, "nature"),
            (model, found.model, -1.0, "model"),
        ):
            result = self._solved(side, [System(mean, side.shift)], 0.5, name)
            (one,) = result.solutions
            parts.append(Part(side.design, sign * one.value, sign * one.image, result))
        return parts

    def _solved(
        self, side: Sample, systems: list[System], share: float, name: str = "both"
    ) -> Solved:
        task = self._task
        goal = Goal(SOLVER_SHARE * share * task.options.tol, task.scale)
        problem = LinearProblem(
            task.backend, task.x_kernel, side.design.x, systems, self._lam, goal, self._room, name
        )
        result = solve(problem, task.options, self._progress, self._checkpoint)
        result.operator.release()
        return result


def _of_one(result: Solved, solution: Solution) -> Solved:
    """Return what was done, as it concerns one of the systems: its certificate alone."""
    return replace(result, solutions=[solution], notes=list(result.notes))
