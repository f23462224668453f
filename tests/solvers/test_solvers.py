"""One protocol for all solvers: estimates decide, and solutions agree."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.backends import get_backend
from fastmcmd.checkpoint import Checkpoint
from fastmcmd.estimate.lowrank_fit import LowRank
from fastmcmd.gram import EXACT
from fastmcmd.gram.cost import MatrixSize
from fastmcmd.solvers import (
    Auto,
    BlockCG,
    Cholesky,
    Goal,
    LinearProblem,
    PreconditionedCG,
    ProblemSize,
    System,
)

KERNEL = fm.RBF(0.5)
SOLVERS = [Auto(), BlockCG(), Cholesky(), PreconditionedCG()]


def problem(n=400, lam=1e-2, budget=10**9, **options):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 2))
    rhs = np.cos(np.outer(x[:, 0], np.arange(1, 8))) + 0.1 * rng.normal(size=(n, 7))
    systems = [System(rhs, np.full(n, n * lam)), System(rhs[:, :2], np.full(n, 3 * n * lam))]
    backend = get_backend("cpu", KERNEL)
    return LinearProblem(backend, KERNEL, x, systems, lam, Goal(1e-7, 1.0), budget, **options)


def size_of(n, columns=(30,), condition=10.0, dim=2, error=1e-6):
    return ProblemSize(MatrixSize(KERNEL, n, dim, "cpu"), columns, 1, condition, error)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_each_solver_is_certified_against_a_dense_solve(solver):
    task = problem()
    solved = solver.solve(task, Progress(False, 1e-7))
    assert solved.worst(task.goal) <= task.goal.error
    assert not solved.stopped
    gram = KERNEL(task.x)
    for system, solution in zip(task.systems, solved.solutions, strict=True):
        exact = np.linalg.solve(gram + np.diag(system.shift), system.rhs)
        error = np.linalg.norm(gram @ (solution.value - exact), axis=1).max()
        assert error <= solution.certificate.error(1.0) + 1e-12


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_each_solver_resumes_what_it_solved(solver, tmp_path):
    expected = solver.solve(problem(), Progress(False, 1e-7))
    for _ in range(2):
        state = Checkpoint(tmp_path / "run.ckpt", "problem", every=0.0)
        solved = solver.solve(problem(), Progress(False, 1e-7), state)
        for one, other in zip(solved.solutions, expected.solutions, strict=True):
            np.testing.assert_array_equal(one.value, other.value)


@pytest.mark.parametrize("solver", [Auto(), BlockCG(), PreconditionedCG()])
def test_a_run_is_stopped_after_a_product(solver):
    count = []
    task = problem(3000, stop=lambda: count.append(1) or len(count) == 3)
    solved = solver.solve(task, Progress(False, 1e-7))
    assert solved.stopped
    assert solved.solutions == []
    assert solved.passes == len(count) == 3


def test_auto_takes_the_solver_with_the_lower_estimate():
    for n, condition in ((100, 10.0), (100, 1e6), (30_000, 10.0)):
        size = size_of(n, condition=condition)
        members = [PreconditionedCG().estimate(size).total, Cholesky().estimate(size).total]
        assert Auto().estimate(size).total == min(members)
    for lam, solver in ((10.0, "cg"), (1e-6, "cholesky")):
        task = problem(1500, lam)
        size = task.size(task.operator(np.dtype(np.float32)))
        cheaper = Cholesky().estimate(size).total <= PreconditionedCG().estimate(size).total
        assert cheaper == (solver == "cholesky")
        assert Auto().solve(task, Progress(False, 1e-7)).solver == solver


def test_auto_asks_whether_the_factor_itself_fits():
    """The factor is in float64: tiles in float32 take half as much, and do not count."""
    task = problem(1500, 1e-3, budget=8_000_000)
    operator = task.operator(np.dtype(np.float32))
    assert operator.packed_bytes < task.budget < task.operator(EXACT).packed_bytes
    solved = Auto().solve(task, Progress(False, 1e-7))  # raised a MemoryLimitError
    assert solved.solver == "cg"
    assert solved.worst(task.goal) <= task.goal.error


def test_memory_between_a_factor_in_float32_and_in_float64():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 2))
    y = x[:, 0] + rng.normal(size=1500)
    limit = 10_000_000 + 4_000_000 * fm.get_num_threads()
    options = {"x_kernel": KERNEL, "y_kernel": "paper", "lam": 1e-4}
    result = fm.cce(x, y, y + 0.1 * rng.normal(size=1500), memory_limit=limit, **options)
    assert result.error_bound <= 1e-6


def test_a_few_points_in_dense_form_are_solved_for_by_cg():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3))
    y = x[:, 0] + rng.normal(size=2000)
    options = {"y_kernel": fm.Laplacian(1.0), "x_kernel": fm.RBF(0.5), "tol": 1e-5}
    few = fm.cce(x, y, y + 0.1, at=x[:5], **options)
    many = fm.cce(x, y, y + 0.1, at=x[:600], **options)
    assert (few.info.solver, many.info.solver) == ("cg", "cholesky")
    assert (abs(few.values - many.values[:5]) <= few.error_bounds + many.error_bounds[:5]).all()


def test_landmarks_that_cost_as_much_as_allowed():
    size = size_of(20_000)
    for work in (1e9, 1e10, 1e12):
        solver = LowRank.affordable(size, work)
        assert solver.estimate(size).total <= work
        assert LowRank(solver.landmarks + 1).estimate(size).total > work


def test_estimates_grow_with_the_problem():
    small, large = size_of(1000), size_of(4000)
    for solver in SOLVERS:
        assert 10 < solver.estimate(large).total / solver.estimate(small).total < 70
    hard = size_of(1000, condition=1e6)
    assert BlockCG().estimate(hard).total > 5 * BlockCG().estimate(small).total
    assert Cholesky().estimate(hard) == Cholesky().estimate(small)
    two = size_of(4000, columns=(15, 15))  # two systems: small dense steps of their own
    assert BlockCG().estimate(two).per_product < BlockCG().estimate(large).per_product
    preconditioned = PreconditionedCG().estimate(hard, landmarks=128, products=5)
    assert preconditioned.per_product > BlockCG().estimate(hard).per_product
