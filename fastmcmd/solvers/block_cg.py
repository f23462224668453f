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
pass over K. `BlockCGRun.products` yields the complete state after each product; its caller decides
whether to save it, to go on, or to take another way.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.backends.tall_skinny import beside, inner, scaled, times
from fastmcmd.errors import NumericalError
from fastmcmd.gram import GramOperator
from fastmcmd.solvers.base import System
from fastmcmd.solvers.block_state import BlockState, CGResult, ColumnState

__all__ = ["BlockCGRun", "Preconditioner", "restarted"]

Preconditioner = Callable[[Array], Array]
_DROP = 0.1  # of the target: a direction with less residual than that is dropped
# What rounding of the products leaves in the true residual is about 0.3 of unit, largest eigenvalue and
# size of the solution (0.2 to 0.33 in float32, lam = 1e-3 to 0.1, RBF and polynomial); at half of that the
# residual of the recurrence says no more.
_ATTAINED = 0.15
_NEAR = 16  # times that: near enough for fewer iterations without halving the residual
_PATIENT = 4
_FLAT = 25  # iterations without halving the residual after which more will not help
_NOISE = 1e-14  # of the largest: below it squares are rounding noise


def _directions(block: Array, least: float) -> Array:
    """Return orthonormal columns for the singular directions of ``block`` above ``least``."""
    values, vectors = np.linalg.eigh(inner(block, block))
    keep = values > max(least * least, _NOISE * values[-1], 1e-300)
    return times(block, vectors[:, keep] / np.sqrt(values[keep]))


def preconditioned_directions(
    block: Array, precondition: Preconditioner | None, least: float
) -> Array | None:
    """Return the singular directions of ``block`` above ``least``, preconditioned.

    They are orthonormal in the norm of the preconditioner, which is nearly the energy; in the plain norm
    those along the leading eigenvectors would be lost to rounding. None where the preconditioner is not
    positive definite.
    """
    wanted = _directions(block, least)
    if precondition is None or wanted.shape[1] == 0:
        return wanted
    applied = precondition(wanted)
    square = inner(wanted, applied)
    values, vectors = np.linalg.eigh((square + square.T) / 2)
    if not values[-1] > 0:
        return None
    keep = values > _NOISE * values[-1]
    return times(applied, vectors[:, keep] / np.sqrt(values[keep]))


def restarted(
    state: BlockState, preconditioners: list[Preconditioner], target: float
) -> BlockState | None:
    """Return the state in which preconditioned CG goes on from the residuals of another run.

    None where a preconditioner is not positive definite.
    """
    systems: list[ColumnState | CGResult] = []
    for old, precondition in zip(state.systems, preconditioners, strict=True):
        if isinstance(old, CGResult):
            systems.append(old)
            continue
        directions = preconditioned_directions(old.residual, precondition, _DROP * target)
        if directions is None:
            return None
        systems.append(
            replace(
                old,
                directions=directions,
                since_best=0,
                best=old.norm,
                first=None,
                first_image=None,
            )
        )
    return replace(state, systems=systems)


def _spectral(block: Array) -> float:
    products = inner(block, block)
    if not np.isfinite(products).all():
        raise NumericalError(
            "squares of residuals leave the range of float64: values of x_kernel or y_kernel are too large "
            "for solver='cg'; scale the columns of x, and y with the prediction, to unit variance"
        )
    return float(np.sqrt(max(0.0, np.linalg.eigvalsh(products)[-1])))


class _SystemRun:
    """One system: the directions that it wants multiplied, and what it makes of their product.

    ``directions`` is None once the system is done.
    """

    def __init__(
        self,
        system: System,
        target: float,
        max_iterations: int,
        precondition: Preconditioner | None,
        state: ColumnState | None,
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
        self.indefinite = False
        if state is not None:
            self._restore(state)
            return
        self.norm = _spectral(self.residual)
        constant = self.scale[:, None] * (self.norm / np.linalg.norm(self.scale))
        start = beside([self.residual, constant])
        self._search(preconditioned_directions(start, precondition, _DROP * target))

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
        """Update solution and residual with ``product``, K times what was wanted."""
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
        # Without a preconditioner dropping can wait for the part of the residual that is conjugate to what
        # was searched.
        plain = self.precondition is None
        least = _DROP * self.target
        block = self.residual
        if not plain:
            changed = preconditioned_directions(self.residual, self.precondition, least)
            if changed is None:
                self.indefinite = True
                return
            block = changed
        conjugate = times(directions, inner(image, block), base=block, sign=-1.0)
        if self.first is None:
            self.first = directions, image
        else:
            before, its_image = self.first
            times(before, inner(its_image, block), base=conjugate, sign=-1.0, out=conjugate)
        self._search(_directions(conjugate, least if plain else 0.0))

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

    def _search(self, directions: Array | None) -> None:
        """Take ``directions`` for the next product, unless the system is done."""
        if directions is not None and self._is_done():
            return
        if directions is not None and not directions.shape[1]:
            # All were dropped, and together they are still above the target: start again.
            directions = preconditioned_directions(self.residual, self.precondition, 0.0)
        self.directions, self.indefinite = directions, directions is None

    def state(self) -> ColumnState:
        """Return the state; it shares its arrays with this system."""
        assert self.directions is not None
        first, image = (None, None) if self.first is None else self.first
        return ColumnState(
            self.solution, self.residual, self.directions, self.iterations, self.since_best,
            self.best, self.norm, self.largest, first, image,
        )  # fmt: skip

    def _restore(self, state: ColumnState) -> None:
        # Copied into arrays of the usual layout, so that sums over them run in the same order.
        self.solution[...] = state.solution
        self.residual[...] = state.residual
        self.directions = state.directions
        self.iterations, self.since_best = state.iterations, state.since_best
        self.best, self.norm, self.largest = state.best, state.norm, state.largest
        if state.first is not None and state.first_image is not None:
            self.first = state.first, state.first_image

    def result(self) -> CGResult:
        """Return the solution in the variables of the system."""
        short = self.norm > self.target and self._is_exhausted()
        return CGResult(
            value=scaled(self.scale, self.solution),
            residual=scaled(1.0 / self.scale, self.residual),
            iterations=self.iterations,
            converged=self.norm <= self.target or short,
            short=short,
            largest=self.largest,
            indefinite=self.indefinite,
        )


class BlockCGRun:
    """Block CG over several systems, product by product.

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
    precondition : list of callable, optional
        For each system a function of a block (n, k) that returns ``M^-1`` times it (n, k), a symmetric
        positive definite approximation of ``(K~ + I)^-1``.
    unit : float
        Unit roundoff of the products, where a run is to end at what they allow.
    largest : float
        Largest eigenvalue of ``K~ + I`` as far as it is known: with a preconditioner none is seen.
    state : BlockState, optional
        State to continue from: the run then returns the same bits as one that was not interrupted.
    """

    def __init__(
        self,
        operator: GramOperator,
        systems: list[System],
        target: float,
        max_iterations: int,
        precondition: list[Preconditioner] | None = None,
        unit: float = 0.0,
        largest: float = 0.0,
        state: BlockState | None = None,
    ) -> None:
        self._operator = operator
        self._running: dict[int, _SystemRun] = {}
        self._results: dict[int, CGResult] = {}
        for index, system in enumerate(systems):
            begun = None if state is None else state.systems[index]
            if isinstance(begun, CGResult):
                self._results[index] = _row_major(begun)
                continue
            apply = None if precondition is None else precondition[index]
            self._running[index] = _SystemRun(
                system, target, max_iterations, apply, begun, unit, largest
            )
        if state is not None:
            operator.passes = state.passes
        self._passes = operator.passes
        self._count = len(systems)
        self._settle()

    def products(self) -> Iterator[float | None]:
        """Make one product after the other; after each, yield the largest residual norm.

        Systems that have ended do not count; None where all have. The state is complete then: an interrupt
        of the main thread is held back until it is.
        """
        running = self._running
        while running:
            product = self._operator.matmul(
                beside([system.wanted for system in running.values()])
            )  # fmt: skip
            with _uninterrupted():
                self._passes = self._operator.passes
                ends = np.cumsum([system.width for system in running.values()])[:-1]
                for system, part in zip(
                    running.values(), np.split(product, ends, axis=1), strict=True
                ):
                    system.take(part)
                del product, part, system
                self._settle()
            yield max((system.norm for system in running.values()), default=None)

    def _settle(self) -> None:
        running = self._running
        for index in [index for index, system in running.items() if system.directions is None]:
            self._results[index] = running.pop(index).result()

    def state(self) -> BlockState:
        """Return the state after the last product."""
        systems: list[ColumnState | CGResult] = [
            self._results[index] if index in self._results else self._running[index].state()
            for index in range(self._count)
        ]
        return BlockState(self._passes, systems)

    def results(self) -> list[CGResult]:
        """Return the result of each system, once all have ended."""
        return [self._results[index] for index in range(self._count)]


def _row_major(result: CGResult) -> CGResult:
    """Return a result with arrays laid out as a run makes them: sums over them run in the same order."""
    value, residual = np.ascontiguousarray(result.value), np.ascontiguousarray(result.residual)
    return replace(result, value=value, residual=residual)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back an interrupt until the block is done, so that no state is half updated."""
    usual = signal.getsignal(signal.SIGINT)
    # Python interrupts the main thread only, and only where it handles the signal.
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    received: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *details: received.append(details))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if received:
            usual(*received[0])
