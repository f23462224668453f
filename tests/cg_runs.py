"""Runs of block CG to their end, as the tests use them."""

from __future__ import annotations

from fastmcmd._base.progress import Progress
from fastmcmd.checkpoint import Stage
from fastmcmd.gram import GramOperator
from fastmcmd.solvers.base import Goal, System
from fastmcmd.solvers.block_cg import BlockCGRun, CGResult, Preconditioner
from fastmcmd.solvers.cg import CertifiedCG, Iterated, load_cg
from fastmcmd.solvers.preconditioned_cg import Attempt


def block_cg(
    operator: GramOperator,
    systems: list[System],
    target: float,
    max_iterations: int,
    precondition: list[Preconditioner] | None = None,
    unit: float = 0.0,
    largest: float = 0.0,
) -> list[CGResult]:
    """Solve all systems until ``||D^(-1/2) R||_2 <= target``, sharing the products with K.

    Parameters are those of `BlockCGRun`.

    Raises
    ------
    ValueError
        A preconditioner is not positive definite.
    """
    run = BlockCGRun(operator, systems, target, max_iterations, precondition, unit, largest)
    for _ in run.products():
        pass
    results = run.results()
    if any(result.indefinite for result in results):
        raise ValueError("precondition is not positive definite; it must be for CG to converge")
    return results


def solve_cg(
    operator: GramOperator,
    systems: list[System],
    goal: Goal,
    certificate: str,
    max_iterations: int,
    progress: Progress,
    precondition: list[Preconditioner] | None = None,
    store: Stage | None = None,
) -> Iterated:
    """Solve all systems until the error that their certificates leave is within ``goal``.

    Parameters are those of `CertifiedCG`; the state is saved in ``store``, and resumed from it.
    """
    run = CertifiedCG(
        operator, systems, goal, certificate, max_iterations, progress, precondition,
        load_cg(store, progress), store,
    )  # fmt: skip
    with run.saved_at_interrupt():
        for norm in run.products():
            run.after_product(norm)
    assert run.outcome is not None
    return run.outcome


def follow(attempt: Attempt) -> None:
    """Make the products of all runs of an attempt."""
    for run in attempt.runs():
        for norm in run.products():
            run.after_product(norm)
            if attempt.switches(run):
                break
