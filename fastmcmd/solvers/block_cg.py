"""Block conjugate gradients for several systems that share one operator.

All columns of a system search in one common Krylov space, so that a block of r columns needs far
fewer products than r separate runs (4 instead of 7 at the paper's settings). The iteration follows
Ji and Li, *A breakdown-free block conjugate gradient method* (BIT, 2017): directions are made
orthonormal, and those that can no longer matter for the certificate are dropped, so that the block
gets narrower as columns converge. It works in the variables scaled by ``D^(-1/2)``, in which the
system is ``(K~ + I) x = D^(-1/2) P`` and the norm of the residual is the one that the certificate
needs.

A preconditioner approximates ``(K~ + I)^-1`` in these variables. Which directions matter is still
read from the residual; only where they lead is the preconditioner's.

Systems that share the operator (two regularisers, bootstrap replicates) run in step, and share every
pass over K. Between two passes the state of all is complete, and can be kept on disk.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.tall import beside, inner, scaled, times
from fastmcmd.checkpoint import Keep, State
from fastmcmd.gram import GramOperator
from fastmcmd.solvers.base import System

__all__ = ["DROP", "CGResult", "Preconditioner", "block_cg", "led", "state_of"]

Array = NDArray[np.float64]
Preconditioner = Callable[[Array], Array]
DROP = 0.1  # of the target: a direction with less residual than that is dropped
# What rounding of the products leaves in the true residual is about 0.3 of unit, largest eigenvalue and
# size of the solution (0.2 to 0.33 in float32, lam = 1e-3 to 0.1, RBF and polynomial); at half of that the
# residual of the recurrence says no more.
_ATTAINED = 0.15
_NEAR = 16  # times that: near enough for fewer iterations without halving the residual
_PATIENT = 4
_FLAT = 25  # iterations without halving the residual after which more will not help
_NOISE = 1e-14  # of the largest: below it squares are rounding noise


@dataclass(frozen=True, eq=False)
class CGResult:
    """Solution (n, r), its recurred residual (n, r) and what it took.

    It is ``converged`` also where it is ``short`` of the target because the products are not exact enough
    for more; then it may go on from a residual of better ones.
    ``largest`` is the largest eigenvalue that was seen.
    """

    value: Array
    residual: Array
    iterations: int
    converged: bool
    short: bool = False
    largest: float = 0.0


def _directions(block: Array, least: float) -> Array:
    """Return orthonormal columns for the singular directions of ``block`` above ``least``."""
    values, vectors = np.linalg.eigh(inner(block, block))
    keep = values > max(least * least, _NOISE * values[-1], 1e-300)
    return times(block, vectors[:, keep] / np.sqrt(values[keep]))


def led(block: Array, precondition: Preconditioner | None, least: float) -> Array:
    """Return where the singular directions of ``block`` above ``least`` lead.

    Directions of a preconditioner are made orthonormal in its norm, which is nearly the energy; in
    the plain norm those along the leading eigenvectors would be lost to rounding.

    Raises
    ------
    ValueError
        The preconditioner is not positive definite.
    """
    wanted = _directions(block, least)
    if precondition is None or wanted.shape[1] == 0:
        return wanted
    found = precondition(wanted)
    square = inner(wanted, found)
    values, vectors = np.linalg.eigh((square + square.T) / 2)
    if not values[-1] > 0:
        raise ValueError("precondition is not positive definite; it must be for CG to converge")
    keep = values > _NOISE * values[-1]
    return times(found, vectors[:, keep] / np.sqrt(values[keep]))


def _spectral(block: Array) -> float:
    return float(np.sqrt(max(0.0, np.linalg.eigvalsh(inner(block, block))[-1])))


class _Run:
    """One system: the directions that it wants multiplied, and what it makes of their product.

    ``directions`` is None once the system is done.
    """

    def __init__(
        self,
        system: System,
        target: float,
        max_iterations: int,
        precondition: Preconditioner | None,
        state: State | None,
        unit: float,
        largest: float,
    ) -> None:
        self.target, self.unit = target, unit
        self.max_iterations = max_iterations
        self.precondition = precondition
        self.scale = 1.0 / np.sqrt(system.shift)
        self.residual = scaled(self.scale, system.rhs)
        self.solution = np.zeros_like(self.residual)
        self.iterations, self.best, self.since_best = 0, np.inf, 0
        self.largest = largest  # eigenvalue that directions have shown
        self.attainable = 0.0  # residual that rounding leaves
        # The constant function is near the leading eigenvector of most kernels: it costs a column and
        # saves a product. No residual has its image, so the recurrence alone would not keep later
        # directions conjugate to it: they are made so against the whole first block, explicitly.
        self.first: tuple[Array, Array] | None = None
        self.directions: Array | None = None
        if state is not None:
            self._restore(state)
            return
        self.norm = _spectral(self.residual)
        constant = self.scale[:, None] * (self.norm / np.linalg.norm(self.scale))
        start = beside([self.residual, constant])
        self._go_on(led(start, precondition, DROP * target))

    @property
    def width(self) -> int:
        """Number of columns k that are wanted."""
        assert self.directions is not None
        return self.directions.shape[1]

    @property
    def wanted(self) -> Array:
        """Block (n, k) that K is to be multiplied with."""
        assert self.directions is not None
        return scaled(self.scale, self.directions)

    def take(self, product: Array) -> None:
        """Go on with ``product``, K times what was wanted."""
        assert self.directions is not None
        directions, self.directions = self.directions, None  # freed as soon as they are not needed
        image = scaled(self.scale, product, base=directions)
        self.iterations += 1
        energy = inner(directions, image)
        values, vectors = np.linalg.eigh((energy + energy.T) / 2)
        if self.precondition is None:  # else directions are not orthonormal
            self.largest = max(self.largest, float(values[-1]))
        good = values > 1e-13 * values[-1]
        half = vectors[:, good] / np.sqrt(values[good])
        # Now directions' A directions = I. In place where none is left out: new memory costs as much.
        directions, image = (
            times(block, half, out=block if good.all() else None) for block in (directions, image)
        )
        step = inner(directions, self.residual)
        times(directions, step, base=self.solution, out=self.solution)
        times(image, step, base=self.residual, sign=-1.0, out=self.residual)
        self.norm = _spectral(self.residual)
        self.attainable = _ATTAINED * self.unit * self.largest * _spectral(self.solution)
        if self.norm < self.best / 2:
            self.best, self.since_best = self.norm, 0
        else:
            self.since_best += 1
        if self._is_done():
            return
        # Without a preconditioner the residual is led nowhere, and dropping can wait for its part that
        # is conjugate to what was searched.
        plain = self.precondition is None
        least = DROP * self.target
        block = self.residual if plain else led(self.residual, self.precondition, least)
        conjugate = times(directions, inner(image, block), base=block, sign=-1.0)
        if self.first is None:
            self.first = directions, image
        else:
            before, its_image = self.first
            times(before, inner(its_image, block), base=conjugate, sign=-1.0, out=conjugate)
        self._go_on(_directions(conjugate, least if plain else 0.0))

    def _is_done(self) -> bool:
        return (
            not self.norm > self.target  # a NaN ends it as well
            or self._is_exhausted()
            or self.iterations >= self.max_iterations
            or self.since_best > _FLAT
        )

    def _is_exhausted(self) -> bool:
        """Tell whether the products are not exact enough for more."""
        near = self.norm <= _NEAR * self.attainable and self.since_best > _PATIENT
        return near or self.norm <= self.attainable

    def _go_on(self, directions: Array) -> None:
        if self._is_done():
            return
        if directions.shape[1]:
            self.directions = directions
        else:  # all dropped, together still above the target: start again
            self.directions = led(self.residual, self.precondition, 0.0)

    def state(self) -> State:
        """Return what `_restore` needs; the arrays themselves, not copies."""
        assert self.directions is not None
        state = {
            "solution": self.solution,
            "residual": self.residual,
            "directions": self.directions,
            "numbers": np.array(
                [self.iterations, self.since_best, self.best, self.norm, self.largest]
            ),
        }
        if self.first is not None:
            state["first"], state["first_image"] = self.first
        return state

    def _restore(self, state: State) -> None:
        # Copied into arrays made as ever, so that sums over them run in the same order.
        self.solution[...] = state["solution"]
        self.residual[...] = state["residual"]
        self.directions = state["directions"]
        iterations, since_best, *norms = map(float, state["numbers"])
        self.iterations, self.since_best = int(iterations), int(since_best)
        self.best, self.norm, self.largest = norms
        if "first" in state:
            self.first = state["first"], state["first_image"]

    def result(self) -> CGResult:
        """Return what was found, in the variables of the system."""
        short = self.norm > self.target and self._is_exhausted()
        return CGResult(
            value=scaled(self.scale, self.solution),
            residual=scaled(1.0 / self.scale, self.residual),
            iterations=self.iterations,
            converged=self.norm <= self.target or short,
            short=short,
            largest=self.largest,
        )


def block_cg(
    operator: GramOperator,
    systems: list[System],
    target: float,
    max_iterations: int,
    tell: Callable[[float], None] | None = None,
    precondition: list[Preconditioner] | None = None,
    keep: Keep | None = None,
    unit: float = 0.0,
    largest: float = 0.0,
) -> list[CGResult]:
    """Solve all systems until ``||D^(-1/2) R||_2 <= target``, sharing the products with K.

    Parameters
    ----------
    operator : GramOperator
        K (n, n).
    systems : list of System
        Right-hand sides and shifts.
    target : float
        Norm of the scaled residual at which a system is done.
    max_iterations : int
        Products at most.
    tell : callable, optional
        Called after each product with the largest residual so far, relative to the target.
    precondition : list of callable, optional
        For each system a function of a block (n, k) that returns ``M^-1`` times it (n, k), a symmetric
        positive definite approximation of ``(K~ + I)^-1``.
    keep : Keep, optional
        Where the state of the iteration is saved after a product and where it starts from. A run that
        was interrupted and goes on from there returns the same bits as one that was not.
    unit : float
        Unit roundoff of the products, where a run is to end at what they allow.
    largest : float
        Largest eigenvalue of ``K~ + I`` as far as it is known: with a preconditioner none is seen.

    Raises
    ------
    ValueError
        A preconditioner is not positive definite.
    """
    # The loaded state is no local here: its arrays must not be held longer than needed.
    runs, results = _begin(
        operator, systems, target, max_iterations, precondition, keep, unit, largest
    )
    passes = operator.passes

    def settle() -> None:
        for index in [index for index, run in runs.items() if run.directions is None]:
            results[index] = runs.pop(index).result()

    def current() -> State:
        states = {"passes": np.array(passes)}
        for index, run in runs.items():
            states |= _named(index, run.state())
        return states | state_of(results, passes)

    settle()
    try:
        while runs:
            product = operator.matmul(beside([run.wanted for run in runs.values()]))
            with _undivided(keep is not None):
                passes = operator.passes
                ends = np.cumsum([run.width for run in runs.values()])[:-1]
                for run, part in zip(runs.values(), np.split(product, ends, axis=1), strict=True):
                    run.take(part)
                settle()
            if tell is not None:
                tell(max((run.norm for run in runs.values()), default=target) / target)
            if keep is not None:
                keep.save(current)
    except KeyboardInterrupt:
        if keep is not None:
            keep.save(current, force=True)
        raise
    return [results[index] for index in range(len(systems))]


def _begin(
    operator: GramOperator,
    systems: list[System],
    target: float,
    max_iterations: int,
    precondition: list[Preconditioner] | None,
    keep: Keep | None,
    unit: float,
    largest: float,
) -> tuple[dict[int, _Run], dict[int, CGResult]]:
    """Return the runs to go on with and the results that are there, both by index."""
    state = keep.load() if keep is not None else None
    runs: dict[int, _Run] = {}
    results: dict[int, CGResult] = {}
    for index, system in enumerate(systems):
        own = _within(state or {}, index)
        if "value" in own:
            results[index] = _finished(own)
        else:
            leads = None if precondition is None else precondition[index]
            runs[index] = _Run(
                system, target, max_iterations, leads, own or None, unit, largest
            )  # fmt: skip
    if state is not None:
        operator.passes = int(state["passes"])
    return runs, results


def state_of(results: Mapping[int, CGResult], passes: int) -> State:
    """Return the state of systems that are solved, from which `block_cg` returns them at once."""
    states: State = {"passes": np.array(passes)}
    for index, result in results.items():
        numbers = np.array([result.iterations, result.converged, result.short, result.largest])
        states |= _named(
            index, {"value": result.value, "residual": result.residual, "numbers": numbers}
        )
    return states


def _finished(state: State) -> CGResult:
    iterations, converged, short, largest = map(float, state["numbers"])
    # By rows as ever, so that sums over them run in the same order.
    value, residual = (np.ascontiguousarray(state[name]) for name in ("value", "residual"))
    return CGResult(value, residual, int(iterations), bool(converged), bool(short), largest)


def _named(index: int, state: State) -> State:
    return {f"{index}.{name}": array for name, array in state.items()}


def _within(state: State, index: int) -> State:
    start = f"{index}."
    return {name[len(start) :]: array for name, array in state.items() if name.startswith(start)}


@contextmanager
def _undivided(wanted: bool) -> Iterator[None]:
    """Hold back an interrupt until the block is done, so that no state is half updated."""
    ordinary = signal.getsignal(signal.SIGINT)
    # Python interrupts the main thread only, and only where it handles the signal.
    here = threading.current_thread() is threading.main_thread() and callable(ordinary)
    if not (wanted and here):
        yield
        return
    held: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *about: held.append(about))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ordinary)
        if held and callable(ordinary):
            ordinary(*held[0])
