"""Block conjugate gradients for several systems that share one operator.

All columns of a system search in one common Krylov space, so that a block of r columns needs far
fewer products than r separate runs (4 instead of 7 at the paper's settings). The iteration follows
Ji and Li, *A breakdown-free block conjugate gradient method* (BIT, 2017): directions are made
orthonormal, and those that can no longer matter for the certificate are dropped, so that the block
gets narrower as columns converge. It works in the variables scaled by ``D^(-1/2)``, in which the
system is ``(K~ + I) x = D^(-1/2) P`` and the norm of the residual is the one that the certificate
needs.

A system is a generator that yields directions and is sent their products. Systems that share the
operator (two regularisers, bootstrap replicates) run in step, and share every pass over K.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.gram import GramOperator
from fastmcmd.solvers.base import System
from fastmcmd.solvers.tall import inner, times

__all__ = ["CGResult", "block_cg"]

Array = NDArray[np.float64]
_DROP = 0.1  # of the target: a direction with less residual than that is dropped
_FLAT = 25  # iterations without halving the residual after which more will not help


@dataclass(frozen=True, eq=False)
class CGResult:
    """Solution (n, r), its recurred residual (n, r) and what it took."""

    value: Array
    residual: Array
    iterations: int
    converged: bool


def _directions(block: Array, least: float) -> Array:
    """Return orthonormal columns for the singular directions of ``block`` above ``least``."""
    values, vectors = np.linalg.eigh(inner(block, block))
    # Below 1e-7 of the largest the squares are rounding noise.
    keep = values > max(least * least, 1e-14 * values[-1], 1e-300)
    return times(block, vectors[:, keep] / np.sqrt(values[keep]))


def _spectral(block: Array) -> float:
    return float(np.sqrt(max(0.0, np.linalg.eigvalsh(inner(block, block))[-1])))


def _block_cg(
    system: System, target: float, max_iterations: int, norms: list[float], index: int
) -> Generator[Array, Array, CGResult]:
    scale = 1.0 / np.sqrt(system.shift)[:, None]
    residual = scale * system.rhs
    solution = np.zeros_like(residual)
    iterations = 0
    best, since_best = np.inf, 0
    norm = _spectral(residual)
    # The constant function is near the leading eigenvector of most kernels: it costs a column and
    # saves a product. No residual has its image, so the recurrence alone would not keep later
    # directions conjugate to it: they are made so against the whole first block, explicitly.
    first: tuple[Array, Array] | None = None
    start = np.hstack([residual, scale * (norm / np.linalg.norm(scale))])
    directions = _directions(start, _DROP * target)
    while norm > target and iterations < max_iterations:
        if directions.shape[1] == 0:  # all dropped, together still above the target: start again
            directions = _directions(residual, 0.0)
        image = scale * (yield scale * directions) + directions
        iterations += 1
        energy = inner(directions, image)
        values, vectors = np.linalg.eigh((energy + energy.T) / 2)
        good = values > 1e-13 * values[-1]
        half = vectors[:, good] / np.sqrt(values[good])
        directions, image = (
            times(directions, half),
            times(image, half),
        )  # now directions' A directions = I
        step = inner(directions, residual)
        solution += times(directions, step)
        residual -= times(image, step)
        norm = norms[index] = _spectral(residual)
        if norm < best / 2:
            best, since_best = norm, 0
        else:
            since_best += 1
        if since_best > _FLAT:
            break
        conjugate = residual - times(directions, inner(image, residual))
        if first is None:
            first = directions, image
        else:
            conjugate -= times(first[0], inner(first[1], residual))
        directions = _directions(conjugate, _DROP * target)
    return CGResult(
        value=scale * solution,
        residual=residual / scale,
        iterations=iterations,
        converged=norm <= target,
    )


def block_cg(
    operator: GramOperator,
    systems: list[System],
    target: float,
    max_iterations: int,
    tell: Callable[[float], None] | None = None,
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
    """
    norms = [np.inf] * len(systems)
    runs = [
        _block_cg(system, target, max_iterations, norms, index)
        for index, system in enumerate(systems)
    ]
    results: dict[int, CGResult] = {}
    wanted: dict[int, Array] = {}

    def advance(index: int, answer: Array | None) -> None:
        try:
            wanted[index] = next(runs[index]) if answer is None else runs[index].send(answer)
        except StopIteration as stop:
            wanted.pop(index, None)
            results[index] = stop.value

    for index in range(len(runs)):
        advance(index, None)
    while wanted:
        active = sorted(wanted)
        product = operator.matmul(np.hstack([wanted[index] for index in active]))
        ends = np.cumsum([wanted[index].shape[1] for index in active])[:-1]
        for index, part in zip(active, np.split(product, ends, axis=1), strict=True):
            advance(index, part)
        if tell is not None:
            tell(max((norms[index] for index in wanted), default=target) / target)
    return [results[index] for index in range(len(runs))]
