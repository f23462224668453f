"""The feature form of nature and one or several models: its linear problems, and the fits that follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fastmcmd._base.threads import get_num_threads
from fastmcmd.embedding.sample import Sample
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.images import Part
from fastmcmd.estimate.outputs import MeanFeatures
from fastmcmd.estimate.primal import PrimalFit
from fastmcmd.estimate.task import SOLVER_SHARE, Task
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.solvers import Goal, LinearProblem, Solution, Solved, System
from fastmcmd.solvers.cholesky import least_bytes

__all__ = ["budget_of", "feature_fits", "feature_problems", "least_for"]


def budget_of(nature: Sample, pairs: list[tuple[Sample, MeanFeatures]], task: Task) -> Budget:
    """Return the budget of a solve for all models at once."""
    columns = sum(
        mean_features.columns * (1 if nature.same_system(model) else 2)
        for model, mean_features in pairs
    )
    return Budget.of(
        task.options.memory_limit,
        n=max(len(nature.design), *(len(model.design) for model, _ in pairs)),
        columns=columns,
        outputs=max(mean_features.outputs for _, mean_features in pairs),
        rank=max(mean_features.rank_in_memory for _, mean_features in pairs),
        points=len(task.grid),
        threads=get_num_threads(),
        on_device=task.backend.on_device,
    )


def least_for(sides: list[Sample], task: Task) -> tuple[()] | tuple[int, str]:
    """Return the least bytes that the chosen solver needs, and a phrase for the message; empty if none."""
    if task.options.solver != "cholesky":
        return ()
    x = max((side.design.x for side in sides), key=len)
    limit, dtype = task.options.memory_limit, task.options.dtype or EXACT
    operator = GramOperator(task.backend, task.x_kernel, x, dtype, limit)
    return least_bytes(operator, task.options.cache_dir)


def feature_problems(
    nature: Sample, pairs: list[tuple[Sample, MeanFeatures]], task: Task, budget: Budget
) -> Iterator[LinearProblem]:
    """Yield the linear problems of the models: one for each set of inputs.

    Parameters
    ----------
    nature : Sample
        Observed outputs.
    pairs : list of (Sample, MeanFeatures)
        The models. With several, one solve with the difference serves each of them.
    task : Task
        Kernels, options and evaluation points.
    budget : Budget
        Memory of all systems together.
    """
    sides = [nature, *(model for model, _ in pairs)]
    lam, available = min(side.lam for side in sides), budget.available(*least_for(sides, task))
    for side, systems, share, name in _solves(nature, pairs):
        goal = Goal(SOLVER_SHARE * share * task.options.tol, task.scale)
        yield LinearProblem(
            task.backend, task.x_kernel, side.design.x, systems, lam, goal, available, name
        )


def feature_fits(
    nature: Sample, pairs: list[tuple[Sample, MeanFeatures]], task: Task, results: list[Solved]
) -> list[PrimalFit]:
    """Return the feature form of each model, from the solutions of all `feature_problems`."""
    certificate = task.options.certificate
    lam = min(side.lam for side in (nature, *(model for model, _ in pairs)))
    return [
        PrimalFit(
            mean_features.features,
            part,
            mean_features.truncation,
            certificate,
            task.options.tol,
            mean_features.basis,
            lam,
        )
        for (_, mean_features), part in zip(pairs, _parts(nature, pairs, results), strict=True)
    ]


def _solves(
    nature: Sample, pairs: list[tuple[Sample, MeanFeatures]]
) -> Iterator[tuple[Sample, list[System], float, str]]:
    """Yield the solves: the sample whose inputs they use, systems, share of the error budget, and name."""
    if all(nature.same_system(model) for model, _ in pairs):
        # One solve with the difference of both sides, for all models.
        systems = [
            System(difference, nature.shift)
            for _, mean_features in pairs
            for difference in mean_features.means
        ]
        yield nature, systems, 1.0, "both"
        return
    ((model, mean_features),) = pairs
    ours, theirs = (
        System(mean, side.shift)
        for mean, side in zip(mean_features.means, (nature, model), strict=True)
    )
    if nature.design.same_as(model.design):  # two regularisers, in step
        yield nature, [ours, theirs], 0.5, "both"
        return
    yield nature, [ours], 0.5, "nature"
    yield model, [theirs], 0.5, "model"


def _parts(
    nature: Sample, pairs: list[tuple[Sample, MeanFeatures]], results: list[Solved]
) -> list[list[Part]]:
    """Return the parts of each model's form."""
    design, result = nature.design, results[0]
    if all(nature.same_system(model) for model, _ in pairs):
        if len(pairs) == 1:
            (only,) = result.solutions
            return [[Part(design, only.value, only.image, result)]]
        # Contiguous copies, so that one model's arrays do not keep those of the others alive.
        alone = [replace(s, image=np.ascontiguousarray(s.image)) for s in result.solutions]
        return [[Part(design, s.value, s.image, _of_one(result, s))] for s in alone]
    if len(results) == 1:
        ours, theirs = result.solutions
        return [[Part(design, ours.value - theirs.value, ours.image - theirs.image, result)]]
    (ours,), (theirs,) = (solved.solutions for solved in results)
    ((model, _),) = pairs
    return [
        [
            Part(design, ours.value, ours.image, result),
            Part(model.design, -theirs.value, -theirs.image, results[1]),
        ]
    ]


def _of_one(result: Solved, solution: Solution) -> Solved:
    """Return ``result`` reduced to one of its systems, with the certificate of that system alone."""
    return replace(result, solutions=[solution], notes=list(result.notes))
