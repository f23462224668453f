"""The plan of CG or Cholesky: the solver itself runs on some rows, with the costs of all rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fastmcmd._base.memory import format_bytes
from fastmcmd._base.progress import Progress
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends import get_backend
from fastmcmd.backends.base import Backend
from fastmcmd.embedding.design import Design
from fastmcmd.errors import NumericalError
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.task import Task
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.gram.cost import FRESH_SECONDS
from fastmcmd.kernels import RBF, Kernel
from fastmcmd.options import Options
from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.rates import rate
from fastmcmd.planning.subsample import (
    Subsample,
    SubsampleOperator,
    SubsampleProblem,
    WholeOperator,
)
from fastmcmd.planning.timing import seconds_of
from fastmcmd.solvers import BlockCG, Cholesky, Goal, PreconditionedCG, Solved, System, solver_of
from fastmcmd.solvers.cg import MOST_PRODUCTS
from fastmcmd.solvers.cholesky import cholesky_bytes, factor_fits, least_bytes
from fastmcmd.solvers.decay import products_left

__all__ = ["exact_budget", "exact_plan"]

# An easy problem shows on few rows within the first number of products. A hard one gets a second run with
# more rows, because only more rows show its small eigenvalues.
_FEW, _MORE = 1000, 2500
_SHARE, _LESS = 30, 9  # with a thirtieth of the rows, a product costs 1 / 900; with a ninth, 1 / 81
_EASY, _HARD = 20, 60
_FEWER = 1.5  # ratio of both numbers of rows from which the smaller one is tried first
_MOST_COLUMNS = 32  # right-hand sides of the small problem
_UNLIMITED = 1 << 62


class _ProductCounter(Progress):
    """Counts products up to a limit, and extrapolates the total."""

    def __init__(self, target: float, most: int) -> None:
        super().__init__(False, target)
        self._most, self._errors = most, list[float]()

    def product(self, certificate: float, work: float = 0.0) -> None:
        """Count one more product."""
        super().product(certificate, work)
        self._errors.append(certificate)

    def exhausted(self) -> bool:
        """Tell whether the limit of products is reached."""
        return len(self._errors) >= self._most

    @property
    def beyond(self) -> float:
        """Products to the target relative to those made, if errors keep falling at their rate."""
        count = max(1, len(self._errors))
        return 1.0 + products_left(self._errors, self.target, MOST_PRODUCTS - count) / count


def exact_budget(
    rows: Subsample, backend: Backend, kernel: Kernel, options: Options, columns: int
) -> tuple[Budget, tuple[()] | tuple[int, str]]:
    """Return the budget of CG or Cholesky, and the arguments of its `Budget.available`."""
    n = rows.n
    budget = Budget.of(
        options.memory_limit, n=n, columns=columns, outputs=2 * n, rank=columns, points=n,
        threads=get_num_threads(), estimated=True, on_device=backend.on_device,
    )  # fmt: skip
    if options.solver != "cholesky":
        return budget, ()
    operator = _whole_operator(rows, backend, kernel, options)
    return budget, least_bytes(operator, options.cache_dir)


def _whole_operator(
    rows: Subsample, backend: Backend, kernel: Kernel, options: Options
) -> WholeOperator:
    dtype = options.dtype or EXACT
    return WholeOperator(rows, rows, backend, kernel, dtype, options.memory_limit)


def exact_plan(
    rows: Subsample,
    backend: Backend,
    kernel: Kernel,
    options: Options,
    lam: float,
    goal: float,
    columns: int,
    searched: int = 0,
) -> Plan:
    """Return the plan of CG or Cholesky.

    Parameters
    ----------
    rows : Subsample
        Rows to run the solver on.
    backend, kernel, options, lam
        Parts of the computation to plan.
    goal : float
        Error that the certificate may leave.
    columns : int
        Number of right-hand sides.
    searched : int
        Number of rows that a fit has searched for landmarks before.

    Raises
    ------
    MemoryLimitError
        ``memory_limit`` is too small.
    """
    n, direct, outcomes, predicting = rows.n, options.solver == "cholesky", rows.outcomes, 0.0
    if outcomes is not None and outcomes.features is not None:
        task = Task(kernel, outcomes.kernel, options, rows.x)
        fitted, predicting = outcomes.seconds_at_once(n, task, lam, searched)
        columns = fitted if columns == outcomes.features.rank else columns
    budget, least = exact_budget(rows, backend, kernel, options, columns)
    available, full_operator = (
        budget.available(*least),
        _whole_operator(rows, backend, kernel, options),
    )
    reasons: list[str] = []
    # If the factor does not fit, `least_bytes` has checked that there is a folder.
    filed = direct and not factor_fits(full_operator, available)
    ask = replace(options, cache_dir=None, checkpoint=None, progress=False)
    run = _Run(rows, backend, kernel, lam, goal, _UNLIMITED if filed else available, columns)
    run.make(ask)
    solver, cache, passes = run.solver, run.operator.cache, run.passes
    memory = budget.working + run.operator.peak_bytes
    on = options.solver == "auto" and solver == "cg" and options.cache_dir is not None
    if run.failed and on:
        reasons.append("cg would not reach tol")
        solver, filed, passes = "cholesky", True, passes + 1
    if filed:
        factor_bytes = format_bytes(cholesky_bytes(full_operator))
        reasons.append(f"the factor needs {factor_bytes}: cache_dir stores it in block columns")
        cache, memory = "disk", budget.working + available
    reasons += run.findings()
    if cache == "streamed" and not run.operator.holds_rows:
        reasons.append("the rows do not fit in memory_limit: each pass prepares them anew")
    seconds = predicting + run.seconds(direct=solver == "cholesky")
    return Plan(
        n, rows.dim, backend.name, solver, 0, cache, memory, passes, seconds, tuple(reasons)
    )  # fmt: skip


class _Run:
    """A run of the solver on some rows, for a plan of all rows."""

    def __init__(
        self, rows: Subsample, backend: Backend, kernel: Kernel, lam: float, goal: float, available: int,
        columns: int,
    ) -> None:  # fmt: skip
        self._rows, self._backend, self._kernel = rows, backend, kernel
        self._lam, self._goal, self._budget = lam, goal, available
        self._columns, self._some_columns = columns, min(columns, _MOST_COLUMNS)
        self.solved: Solved | None = None
        self.trouble = ""

    def make(self, options: Options) -> None:
        """Run on few rows, and on more if the problem is hard."""
        few, more = (min(max(_FEW, self._rows.n // part), _MORE) for part in (_SHARE, _LESS))
        for count, most in (
            ((few, _EASY), (more, _HARD)) if _FEWER * few < more else ((more, _HARD),)
        ):
            some = self._rows.some(count)
            self._progress = _ProductCounter(options.tol, most)
            self._problem = self._problem_of(some, self._progress.exhausted)
            try:
                solved = solver_of(options).solve(self._problem, self._progress)
            except NumericalError as error:  # the call itself would also fail with it
                self.trouble = str(error)
                break
            if not solved.stopped:
                self.solved = solved
                break

    def _problem_of(self, some: Subsample, stop: Callable[[], bool]) -> SubsampleProblem:
        start = time.perf_counter()
        self._features, values = some.features()
        self._feature_seconds = time.perf_counter() - start
        rhs = np.zeros((len(some), self._some_columns))
        rhs[:, : values.shape[1]] = values[:, : self._some_columns]
        scale = float(np.sqrt(max(float(np.max(self._kernel.diagonal(self._rows.x))), 0.0)))
        shift = np.full(len(some), len(some) * self._lam)
        return SubsampleProblem(
            self._backend, self._kernel, some.x, [System(rhs, shift)], self._lam,
            Goal(self._goal, scale), self._budget, stop=stop, rows=some, reserve=self._rows,
            columns=self._columns,
        )  # fmt: skip

    @property
    def operator(self) -> SubsampleOperator:
        """The last operator."""
        return self._problem.operators[-1]

    @property
    def failed(self) -> bool:
        """Whether the goal was not reached."""
        return self.solved is None or self.solved.worst(self._problem.goal) > self._goal

    @property
    def solver(self) -> str:
        """Name of the solver that solved the problem, or that tried last."""
        if self.solved is None:
            return "cholesky" if self.trouble else "cg"
        return self.solved.solver

    @property
    def _beyond(self) -> float:
        """Total number of products, relative to the number that was made."""
        return 1.0 if self.solved is not None or self.trouble else self._progress.beyond

    @property
    def passes(self) -> int:
        """Products with K."""
        return max(1, math.ceil(self.operator.passes * self._beyond))

    def findings(self) -> list[str]:
        """Return the remarks on the run for the plan's reasons."""
        if self.trouble:
            return [f"on some rows: {self.trouble}"]
        if self.solved is None:
            return [f"more than {_HARD} products"]
        notes = list(self.solved.notes)
        count = self.solved.iterations
        if count:
            more = self.operator.passes - count
            certified = f"{more} more for the certificate" if more else "certified on some rows"
            notes.append(f"{count} products of CG, {certified}")
        if self.failed:
            worst = self.solved.worst(self._problem.goal)
            notes.append(f"tol is out of reach: the certificate would be about {worst:.0e}")
        return notes

    def seconds(self, *, direct: bool) -> float:
        """Return the wall time in seconds of a run for all rows."""
        problem, operators = self._problem, self._problem.operators
        operator = operators[-1]
        size, columns = problem.size(operator), self._columns
        work = sum(operator.work for operator in operators)
        work *= _columns_ratio(operator, columns, self._some_columns)
        # Not the time of these few products, some of them the first to use their memory.
        per_second = rate(
            self._backend, self._kernel, self._rows, columns, operators[0].dtype, work
        )
        seconds, host = work / per_second * self._beyond, per_second
        if self._backend.on_device:
            # Between two products the host works on blocks of columns, which depends on no kernel.
            host_kernel, line = RBF(1.0), Subsample(self._rows.n, self._rows.x[:, :1])
            host = rate(get_backend("auto", host_kernel), host_kernel, line, columns, EXACT)
        seconds += sum(operator.fresh_bytes for operator in operators) * FRESH_SECONDS
        plain = BlockCG().estimate(size, operator.passes * self._beyond)
        seconds += plain.products * (plain.per_product - operator.product_cost(columns)) / host
        if self.solved is not None and self.solved.preconditioned:
            count = self.solved.iterations
            with_landmarks = PreconditionedCG().estimate(size, self.solved.preconditioned, count)
            seconds += (with_landmarks.total - count * plain.per_product) / per_second
        if direct:  # the product for the residual is counted already
            residual = operator.streamed_cost(0, exact=True)
            seconds += (Cholesky().estimate(size).total - residual) / per_second
        return seconds + self._setup()

    def _setup(self) -> float:
        """Return the seconds of the setup: distinct inputs, features of outputs, norms of rows."""
        rows, features = self._problem.rows, self._features
        y, outcomes = rows.outputs()[0][:, 0], rows.outcomes

        def work() -> None:
            Design.of(rows.x, None)
            features.transform(y)
            GramOperator(self._backend, self._kernel, rows.x, np.dtype(np.float32), self._budget)

        seconds = self._feature_seconds + seconds_of(work, runs=1) * rows.n / len(rows)
        if outcomes is None or outcomes.features is None:
            of_draws = seconds_of(lambda: features.transform(y), runs=1)
            seconds += of_draws * rows.n / len(rows)
        return seconds


def _columns_ratio(operator: GramOperator, columns: int, fewer: int) -> float:
    """Return the cost of products with all columns, relative to that with some."""
    return operator.streamed_cost(columns) / operator.streamed_cost(fewer)
