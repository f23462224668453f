"""What a call would do, without doing it: solver, cache, memory, passes, seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import Backend
from fastmcmd.backends.threads import get_num_threads
from fastmcmd.checks import check_positive
from fastmcmd.errors import MemoryLimitError
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.fit import low_rank_limit
from fastmcmd.estimate.outlook import landmarks_needed
from fastmcmd.gram import EXACT, GramOperator, diagonal_of
from fastmcmd.kernels import Kernel
from fastmcmd.mcmd import default_kernels, inputs
from fastmcmd.memory import format_bytes
from fastmcmd.options import Options
from fastmcmd.rows import Rows
from fastmcmd.solvers import Goal, LinearProblem, System
from fastmcmd.solvers.auto import direct_is_cheaper, expected_products
from fastmcmd.solvers.direct import cholesky_bytes, least_bytes

__all__ = ["Plan", "plan"]

_ROWS = 2000  # on which rates are measured
_CARD_ROWS = 16_384  # the same on a card, where smaller tiles tell how long it takes to start them
_FEATURES = 30  # of a scalar output under an RBF kernel, about


@dataclass(frozen=True, repr=False)
class Plan:
    """What a call would do.

    Attributes
    ----------
    n, d : int
        Rows and columns of the inputs.
    solver : str
        "lowrank", "cg" or "cholesky".
    landmarks : int
        Landmarks of the low-rank solver, from the fall of the trace on some rows (0 with others).
    cache : str
        "packed" (tiles of K kept), "streamed" (made anew in every pass) or "rows on disk".
    memory_bytes : int
        Memory beyond the inputs, about.
    passes : int
        Passes over the rows, or products with K.
    seconds : float
        Estimated wall time on this machine, from rates measured on some rows now.
    reasons : tuple of str
        Why.
    """

    n: int
    d: int
    solver: str
    landmarks: int
    cache: str
    memory_bytes: int
    passes: int
    seconds: float
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a JSON-safe dictionary."""
        return {**asdict(self), "reasons": list(self.reasons)}

    def __repr__(self) -> str:
        with_landmarks = f" with {self.landmarks} landmarks" if self.landmarks else ""
        lines = [
            f"{self.n:,} rows, {self.d} columns: {self.solver}{with_landmarks}, {self.cache}",
            f"  about {self.seconds:.2g} s in {self.passes} passes, {format_bytes(self.memory_bytes)}",
            *(f"  {reason}" for reason in self.reasons),
        ]
        return "\n".join(lines)


class _Larger(GramOperator):
    """The operator of n rows like some: it knows its sizes and costs."""

    def __init__(
        self, backend: Backend, kernel: Kernel, x: NDArray[Any], dtype: Any, room: int, n: int
    ) -> None:
        self._n = n
        super().__init__(backend, kernel, x, dtype, room)

    def __len__(self) -> int:
        return self._n

    def row_bytes(self, dtype: np.dtype[Any]) -> int:
        """Bytes of all rows prepared in ``dtype``."""
        return super().row_bytes(dtype) * self._n // len(self.x)


def plan(
    x: Any,
    x_kernel: Kernel | None = None,
    lam: float = 0.1,
    features: int = _FEATURES,
    tol: float = 1e-6,
    solver: str = "auto",
    backend: str = "auto",
    dtype: Any = None,
    memory_limit: Any = None,
    certificate: str = "auto",
    rank: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
) -> Plan:
    """Say what `cce` would do at these inputs, without computing it.

    Parameters
    ----------
    x : array_like (n, d), rows on disk, or tuple (n, d)
        Inputs, or only their shape; then kernel matrices are taken to have no low rank.
    x_kernel : Kernel, optional
        Kernel on inputs; default as in `cce`.
    lam : float
        Regulariser.
    features : int
        Features that the output kernel needs: 20 to 35 for an RBF kernel on scalar outputs.
    tol, solver, backend, dtype, memory_limit, certificate, rank, cache_dir, devices
    device_memory_limit
        As in `mcmd`.

    Returns
    -------
    Plan
        Solver, landmarks, cache, memory, passes, seconds and reasons. Rates are measured on at most
        2,000 rows, in well under a second for most kernels.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.
    MemoryLimitError
        ``memory_limit`` is too small for any way of computing.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> x = np.random.default_rng(0).uniform(-2, 2, (100_000, 2))
    >>> plan = fm.plan(x, fm.RBF(0.5))
    >>> plan.solver
    'lowrank'
    """
    options = Options.of(
        tol=tol, solver=solver, backend=backend, dtype=dtype, memory_limit=memory_limit,
        progress=False, certificate=certificate, rank=rank, cache_dir=cache_dir,
        devices=devices, device_memory_limit=device_memory_limit,
    )  # fmt: skip
    lam = check_positive(lam, "lam")
    rows, sample = _inputs(x, options)
    kernel, _ = default_kernels(x_kernel, None, sample, np.array([[0.0], [1.0]]))
    maker = options.backend_for(kernel)
    n, d = rows
    scale = float(np.sqrt(max(float(diagonal_of(kernel, sample).max()), 0.0)))
    given = not isinstance(x, tuple)
    limit = low_rank_limit(n, d, kernel, maker, options)
    reasons: list[str] = []
    if limit:
        needed = rank
        if needed is None and given:
            needed = landmarks_needed(sample, maker, kernel, lam, 0.74 * tol, scale, limit)
        if needed is not None or options.solver != "auto":
            needed = min(limit, n) if needed is None else needed
            return _low_rank(rows, sample, maker, kernel, options, features, needed)
        reasons.append(
            f"no rigorous certificate within {limit:,} landmarks"
            if given
            else "from the shape alone: no low rank is assumed"
        )
    return _exact(rows, sample, maker, kernel, options, features, lam, reasons)


def _inputs(x: Any, options: Options) -> tuple[tuple[int, int], NDArray[Any]]:
    """Return the shape, and some rows to measure on."""
    if isinstance(x, tuple) and len(x) == 2 and all(isinstance(size, int) for size in x):
        n, d = x
        if n < 1 or d < 1:
            raise ValueError(f"x is {x}; a shape (n, d) of positive numbers is needed")
        rng = np.random.default_rng(0)
        return (n, d), rng.standard_normal((min(n, _rows(options)), d)).astype(np.float32)
    rows = inputs(x, "x", options)
    shape = (len(rows), int(rows.shape[1]))
    if len(rows) <= _rows(options):
        return shape, rows[:] if isinstance(rows, Rows) else rows
    index = np.sort(
        np.random.default_rng(len(rows)).choice(len(rows), _rows(options), replace=False)
    )
    return shape, rows[index]


def _rows(options: Options) -> int:
    return _CARD_ROWS if options.backend == "cupy" else _ROWS


def _seconds(work: Any) -> float:
    """Return the shorter of two runs' wall times."""
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _low_rank(
    shape: tuple[int, int], sample: NDArray[Any], backend: Backend, kernel: Kernel,
    options: Options, features: int, landmarks: int,
) -> Plan:  # fmt: skip
    n, d = shape
    rng = np.random.default_rng(0)
    points = backend.points(sample, EXACT)
    some = sample[rng.integers(0, len(sample), landmarks)]
    pivots, factor = backend.points(some, EXACT), np.eye(landmarks)
    rhs, at = (
        rng.standard_normal((len(sample), features)),
        rng.standard_normal((landmarks, features)),
    )

    def block() -> None:
        f = backend.features(kernel, pivots, points, factor, keep=True, sizes=True)
        gram, cross = np.zeros((landmarks, landmarks)), np.zeros((landmarks, features))
        assert f.values is not None
        backend.add_products(f.values, rhs, None, gram, cross)
        backend.matmul(kernel, points, pivots, at)

    seconds = _seconds(block) * n / len(sample)
    held = 8 * landmarks * (8 * landmarks + 20000) + 4 * 8 * n
    if held > options.memory_limit:
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(options.memory_limit)}; {landmarks:,} landmarks need "
            f"{format_bytes(held)}"
        )
    return Plan(
        n, d, "lowrank", landmarks, "streamed", held, 2, seconds,
        ("one pass for the normal equations, one for the values",),
    )  # fmt: skip


def _exact(
    shape: tuple[int, int], sample: NDArray[Any], backend: Backend, kernel: Kernel,
    options: Options, features: int, lam: float, reasons: list[str],
) -> Plan:  # fmt: skip
    n, d = shape
    budget = Budget.of(
        options.memory_limit, n=n, columns=features, outputs=2 * n, rank=features, points=n,
        threads=get_num_threads(),
    )  # fmt: skip
    factored = _Larger(backend, kernel, sample, options.dtype or EXACT, options.memory_limit, n)
    asked: tuple[()] | tuple[int, str] = ()
    if options.solver == "cholesky":
        asked = least_bytes(factored, options.cache_dir)
    room = budget.room(*asked)
    dtype = options.dtype or (np.dtype(np.float32) if kernel.compiled else EXACT)
    operator = _Larger(backend, kernel, sample, dtype, room, n)
    problem = LinearProblem(
        backend, kernel, sample, [System(np.empty((1, features)), np.ones(1))], lam,
        Goal(options.tol, 1.0), room,
    )  # fmt: skip
    v = np.random.default_rng(0).standard_normal((len(sample), features))
    pairs = (n / len(sample)) ** 2
    product = _seconds(lambda: backend.symmetric_matmul(kernel, operator.points(), v)) * pairs
    rate = operator.streamed_cost(features) / product
    direct = options.solver == "cholesky" or (
        options.solver == "auto" and direct_is_cheaper(problem, operator)
    )
    rows = operator.row_bytes(dtype)
    if direct:
        seconds = (2.0 * n**3 / 3 + 4.0 * n * n * features) / rate + 2 * product
        held, cache = cholesky_bytes(factored), "packed"
        if held > room:  # `least_bytes` has seen to it that there is a folder
            reasons.append(
                f"the factor needs {format_bytes(held)}: it goes to cache_dir, in panels"
            )
            held, cache = room, "disk"
        return Plan(n, d, "cholesky", 0, cache, budget.working + held, 2, seconds, tuple(reasons))
    count = int(np.ceil(expected_products(problem, operator)))
    if operator.caches:
        later = operator.cached_cost(features) / rate
        cache, held = "packed", rows + operator.packed_bytes
    else:
        later = product
        cache, held = ("streamed", rows) if operator.holds_rows else ("rows on disk", room)
    seconds = product + (count - 1) * later + product
    reasons.append(f"about {count} products, one more for the certificate")
    return Plan(n, d, "cg", 0, cache, budget.working + held, count + 1, seconds, tuple(reasons))
