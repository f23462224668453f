"""Block conjugate gradients for several systems that share one operator.

All columns of a system search in one common Krylov space, so a block of r columns needs far fewer products
than r separate runs (4 instead of 7 at the paper's settings). The iteration follows Ji and Li,
*A breakdown-free block conjugate gradient method* (BIT, 2017): it makes the directions orthonormal and
drops those that can no longer matter for the certificate, so the block gets narrower as columns converge.
It works in variables scaled by ``D^(-1/2)``. In these the system is ``(K~ + I) x = D^(-1/2) P``, and the
norm of the residual is the norm that the certificate needs.

A preconditioner approximates ``(K~ + I)^-1`` in these variables. The residual still decides which
directions matter; the preconditioner only transforms them.

Systems that share the operator (two regularisers, bootstrap replicates) run in step and share every pass
over K. After each product, `BlockCGRun.products` yields with the complete state at hand; its caller decides
whether to save the state, to continue, or to switch to another method.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from fastmcmd._base.annotations import AnyArray, Array
from fastmcmd._base.sums import size_of
from fastmcmd.backends.column_blocks import ColumnBlocks
from fastmcmd.backends.tall_skinny import HostBlocks, eigh, product
from fastmcmd.errors import NumericalError
from fastmcmd.gram import GramOperator
from fastmcmd.solvers.base import System
from fastmcmd.solvers.block_state import BlockState, CGResult, ColumnState
from fastmcmd.solvers.off_diagonal import SIGNED_COLUMNS, signed_columns, squares_of_terms

__all__ = ["BlockCGRun", "Preconditioner", "restarted"]

Preconditioner = Callable[[Array], Array]
_DROP = 0.1  # share of the target: directions with a smaller residual are dropped
# Rounding of the products leaves a true residual of about 0.3 times the unit roundoff, the largest
# eigenvalue and the size of the solution (0.2 to 0.33 in float32, lam = 1e-3 to 0.1, RBF and polynomial
# kernels). Below half of that the recurrence's residual carries no information.
_ATTAINED = 0.15
# Within so many times the attainable residual, few iterations without halving it end the run.
_NEAR = 16
_PATIENT = 4
_FLAT = 25  # iterations without halving the residual after which more do not help
# Within so many times the target, what later products add to a solution hardly adds to its rounding.
_NEAR_END = 1000.0
_NOISE = 1e-14  # share of a Gram matrix's largest eigenvalue: smaller ones are rounding noise


def _directions(blocks: ColumnBlocks, block: AnyArray, least: float) -> AnyArray:
    """Return orthonormal columns for the singular directions of ``block`` above ``least``."""
    values, vectors = eigh(blocks.inner(block, block))
    keep = values > max(least * least, _NOISE * values[-1], 1e-300)
    return blocks.times(block, vectors[:, keep] / np.sqrt(values[keep]))


def _orthonormal(blocks: ColumnBlocks, directions: AnyArray, applied: AnyArray) -> AnyArray | None:
    """Return columns of ``applied``, M^-1 times the directions, that are orthonormal in the norm of M.

    That norm is close to the energy norm; in the plain norm rounding would destroy the directions along the
    leading eigenvectors. Returns None if the preconditioner is not positive definite.
    """
    square = blocks.inner(directions, applied)
    values, vectors = eigh((square + square.T) / 2)
    if not values[-1] > 0:
        return None
    keep = values > _NOISE * values[-1]
    return blocks.times(applied, vectors[:, keep] / np.sqrt(values[keep]))


def restarted(
    state: BlockState, preconditioners: Sequence[Preconditioner], target: float
) -> BlockState | None:
    """Return the state from which preconditioned CG continues with the residuals of another run.

    Returns None if a preconditioner is not positive definite.
    """
    systems: list[ColumnState | CGResult] = []
    blocks = HostBlocks()
    for old, precondition in zip(state.systems, preconditioners, strict=True):
        if isinstance(old, CGResult):
            systems.append(old)
            continue
        directions: Array | None = _directions(blocks, old.residual, _DROP * target)
        assert directions is not None
        if directions.shape[1]:
            directions = _orthonormal(blocks, directions, precondition(directions))
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


def _projected(half: Array, coefficients: Array) -> Array:
    """Return ``half half' coefficients`` (k, r): ``half half'`` is the inverse of a Gram matrix."""
    return product(half, product(half, coefficients, transposed=True))


def _spectral(blocks: ColumnBlocks, block: AnyArray) -> float:
    products = blocks.inner(block, block)
    if not np.isfinite(products).all():
        raise NumericalError(
            "squares of residuals leave the range of float64: values of x_kernel or y_kernel are too large "
            "for solver='cg'; scale the columns of x, and y with the prediction, to unit variance"
        )
    return float(np.sqrt(max(0.0, eigh(products, vectors=False)[0][-1])))


class _SystemRun:
    """One system: its search directions, and its solution, updated with their products.

    ``directions`` is None once the system has ended.
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
        blocks: ColumnBlocks,
        diagonal: Array | None,
    ) -> None:
        self._blocks = blocks
        # Of K, if a product near the end is to measure the terms of K B, which a certificate needs.
        self._diagonal = diagonal
        self._signed: Array | None = None
        self.term_squares: Array | None = None
        self.target, self.unit = target, unit
        self.max_iterations = max_iterations
        self.precondition = precondition
        self._shift = system.shift
        self._scale = blocks.take(1.0 / np.sqrt(system.shift))
        self.residual: AnyArray = blocks.scaled(self._scale, blocks.take(system.rhs))
        self.solution: AnyArray = blocks.zeros(*self.residual.shape)
        self.iterations, self.best, self.since_best = 0, np.inf, 0
        self.largest = largest  # largest eigenvalue that the directions have shown
        self.attainable = 0.0  # residual that rounding leaves
        # The constant function is near the leading eigenvector of most kernels: its column saves a product.
        # No residual contains its image, so the recurrence alone would not keep later directions conjugate
        # to it. `take` therefore makes them conjugate to the whole first block explicitly.
        self.first: tuple[AnyArray, AnyArray] | None = None
        self.directions: AnyArray | None = None
        self.indefinite = False
        self.norm = np.inf
        if state is not None:
            self._restore(state)

    def begin(self) -> None:
        """Set the directions of the first product."""
        self.norm = _spectral(self._blocks, self.residual)
        scale = 1.0 / np.sqrt(self._shift)
        constant = scale[:, None] * (self.norm / size_of(scale))
        start = self._blocks.beside([self.residual, self._blocks.take(constant)])
        directions = self._preconditioned_directions(start, _DROP * self.target)
        if directions is None or self._is_done():
            return
        if not directions.shape[1]:
            directions = self._preconditioned_directions(self.residual, 0.0)
        self.directions = directions

    def _preconditioned_directions(self, block: AnyArray, least: float) -> AnyArray | None:
        """Return the directions of ``block`` above ``least``, preconditioned if the run is.

        Returns None if the preconditioner is not positive definite.
        """
        directions: AnyArray | None = _directions(self._blocks, block, least)
        assert directions is not None
        if self.precondition is not None and directions.shape[1]:
            directions = _orthonormal(self._blocks, directions, self.precondition(directions))
        self.indefinite = directions is None
        return directions

    def next_directions(self) -> AnyArray:
        """Return the block (n, k) that the caller multiplies by K."""
        assert self.directions is not None
        block = self._blocks.scaled(self._scale, self.directions)
        # Before the first product the solution is zero, and shows no terms.
        near = self.iterations > 0 and self.norm <= _NEAR_END * self.target
        if self._diagonal is None or self.term_squares is not None or not near:
            return block
        value = self._blocks.host(self._blocks.scaled(self._scale, self.solution))
        self._signed = signed_columns(value)
        return self._blocks.beside([block, self._blocks.take(self._signed)])

    def take(self, applied: AnyArray) -> None:
        """Update solution and residual with ``applied``, K times `next_directions`."""
        assert self.directions is not None
        if self._signed is not None:
            assert self._diagonal is not None
            part = self._blocks.host(applied[:, -SIGNED_COLUMNS:])
            self.term_squares = squares_of_terms(self._diagonal, self._signed, part)
            self._signed, applied = None, applied[:, :-SIGNED_COLUMNS]
        blocks = self._blocks
        directions, self.directions = self.directions, None  # freed as soon as possible
        image = blocks.scaled(self._scale, applied, base=directions)
        self.iterations += 1
        energy = blocks.inner(directions, image)
        values, vectors = eigh((energy + energy.T) / 2)
        if self.precondition is None:  # otherwise directions are not orthonormal
            self.largest = max(self.largest, float(values[-1]))
        good = values > 1e-13 * values[-1]
        # (directions half)' A (directions half) = I. Only small matrices are multiplied by it.
        half = vectors[:, good] / np.sqrt(values[good])
        step = _projected(half, blocks.inner(directions, self.residual))
        blocks.times(directions, step, base=self.solution, out=self.solution)
        blocks.times(image, step, base=self.residual, sign=-1.0, out=self.residual)
        self.norm = _spectral(blocks, self.residual)
        self.attainable = _ATTAINED * self.unit * self.largest * _spectral(blocks, self.solution)
        if self.norm < self.best / 2:
            self.best, self.since_best = self.norm, 0
        else:
            self.since_best += 1
        if self._is_done():
            return
        # Without a preconditioner directions are dropped later: only from the part of the residual that is
        # conjugate to the directions searched so far.
        plain = self.precondition is None
        least = _DROP * self.target
        block = self.residual
        if not plain:
            changed = self._preconditioned_directions(self.residual, least)
            if changed is None:
                return
            block = changed
        share = _projected(half, blocks.inner(image, block))
        conjugate = blocks.times(directions, share, base=block, sign=-1.0)
        if self.first is None:
            self.first = blocks.times(directions, product(half, half.T)), image
        else:
            before, its_image = self.first
            share = blocks.inner(its_image, block)
            blocks.times(before, share, base=conjugate, sign=-1.0, out=conjugate)
        self.directions = _directions(blocks, conjugate, least if plain else 0.0)
        if not self.directions.shape[1]:
            # Each direction is below the threshold, their sum is not: restart with all of them.
            self.directions = self._preconditioned_directions(self.residual, 0.0)

    def _is_done(self) -> bool:
        return (
            not self.norm > self.target  # also true of a NaN
            or self._is_exhausted()
            or self.iterations >= self.max_iterations
            or self.since_best > _FLAT
        )

    def _is_exhausted(self) -> bool:
        """Tell whether the products are too inexact to reduce the residual further."""
        near = self.norm <= _NEAR * self.attainable and self.since_best > _PATIENT
        return near or self.norm <= self.attainable

    def state(self) -> ColumnState:
        """Return the state; blocks in host memory are shared with this object."""
        assert self.directions is not None
        host = self._blocks.host
        first, image = (None, None) if self.first is None else map(host, self.first)
        return ColumnState(
            host(self.solution), host(self.residual), host(self.directions), self.iterations,
            self.since_best, self.best, self.norm, self.largest, first, image, self.term_squares,
        )  # fmt: skip

    def _restore(self, state: ColumnState) -> None:
        # Copies, whose rows are contiguous, so that sums over them are taken in the same order.
        take = self._blocks.take
        self.solution, self.residual = (
            take(np.array(block, order="C")) for block in (state.solution, state.residual)
        )
        self.directions = take(state.directions)
        self.iterations, self.since_best = state.iterations, state.since_best
        self.best, self.norm, self.largest = state.best, state.norm, state.largest
        self.term_squares = state.term_squares
        if state.first is not None and state.first_image is not None:
            self.first = take(state.first), take(state.first_image)

    def result(self) -> CGResult:
        """Return the solution in the unscaled variables of the system."""
        short = self.norm > self.target and self._is_exhausted()
        blocks, unscale = self._blocks, self._blocks.take(np.sqrt(self._shift))
        return CGResult(
            value=blocks.host(blocks.scaled(self._scale, self.solution)),
            residual=blocks.host(blocks.scaled(unscale, self.residual)),
            iterations=self.iterations,
            converged=self.norm <= self.target or short,
            short=short,
            largest=self.largest,
            indefinite=self.indefinite,
            term_squares=self.term_squares,
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
        Norm of the scaled residual at which the iteration of a system ends.
    max_iterations : int
        Largest number of products.
    precondition : list of callable, optional
        For each system a function that multiplies a block (n, k) by ``M^-1``, a symmetric positive definite
        approximation of ``(K~ + I)^-1``.
    unit : float
        Unit roundoff of the products. If positive, a run ends at the residual that rounding attains.
    largest : float
        Largest known eigenvalue of ``K~ + I``: directions of a preconditioned run do not show it.
    state : BlockState, optional
        State to resume from: the run then returns the same bits as an uninterrupted run.
    measures_terms : bool
        Whether a product near the end also measures the terms of ``K B`` (`off_diagonal`).

    Attributes
    ----------
    has_begun : bool
        Whether there is a state to save: the directions of the first product are set.
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
        *,
        measures_terms: bool = False,
    ) -> None:
        self._operator = operator
        self._running: dict[int, _SystemRun] = {}
        self._results: dict[int, CGResult] = {}
        # Beside the right-hand sides: the constant function, and random signs.
        further = 1 + (SIGNED_COLUMNS if measures_terms else 0)
        columns = sum(system.rhs.shape[1] + further for system in systems)
        # Preconditioners work on the host.
        self._blocks = operator.blocks(columns) if precondition is None else HostBlocks()
        diagonal = np.maximum(operator.diagonal, 0.0) if measures_terms else None
        for index, system in enumerate(systems):
            saved_state = None if state is None else state.systems[index]
            if isinstance(saved_state, CGResult):
                self._results[index] = _row_major(saved_state)
                continue
            apply = None if precondition is None else precondition[index]
            self._running[index] = _SystemRun(
                system, target, max_iterations, apply, saved_state, unit, largest, self._blocks,
                diagonal,
            )  # fmt: skip
        if state is not None:
            operator.passes = state.passes
        self._passes = operator.passes
        self._count = len(systems)
        self.has_begun = state is not None

    def products(self) -> Iterator[float | None]:
        """Make the products one by one; after each, yield the largest residual norm of the running systems.

        Yield None once all systems have ended. The state is complete at each yield: interrupts of the main
        thread wait until the update is finished.
        """
        running = self._running
        if not self.has_begun:
            with self._blocks.active():
                for system in running.values():
                    system.begin()
        self._settle()
        self.has_begun = True
        while running:
            directions = [system.next_directions() for system in running.values()]
            widths = [block.shape[1] for block in directions]
            applied = self._operator.matmul(self._blocks.beside(directions))
            del directions
            with _uninterrupted(), self._blocks.active():
                self._passes = self._operator.passes
                start = 0
                for system, width in zip(running.values(), widths, strict=True):
                    stop = start + width
                    system.take(applied[:, start:stop])
                    start = stop
                del applied, system
                self._settle()
            yield max((system.norm for system in running.values()), default=None)

    def _settle(self) -> None:
        running = self._running
        for index in [index for index, system in running.items() if system.directions is None]:
            self._results[index] = running.pop(index).result()

    def state(self) -> BlockState:
        """Return the state after the latest product."""
        systems: list[ColumnState | CGResult] = [
            self._results[index] if index in self._results else self._running[index].state()
            for index in range(self._count)
        ]
        return BlockState(self._passes, systems)

    def results(self) -> list[CGResult]:
        """Return the results of the systems after all have ended."""
        return [self._results[index] for index in range(self._count)]


def _row_major(result: CGResult) -> CGResult:
    """Return a result with arrays in the layout of a fresh run, so that sums keep their order."""
    value, residual = np.ascontiguousarray(result.value), np.ascontiguousarray(result.residual)
    return replace(result, value=value, residual=residual)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back Ctrl-C until the block ends, so that no state is half updated."""
    usual = signal.getsignal(signal.SIGINT)
    # Python raises KeyboardInterrupt only in the main thread, and only if it handles the signal.
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
