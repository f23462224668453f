"""The state of block CG between two products: frozen dataclasses in the form that a checkpoint stores."""

from __future__ import annotations

from dataclasses import dataclass

from fastmcmd._base.annotations import Array

__all__ = ["BlockState", "CGResult", "ColumnState"]


@dataclass(frozen=True, eq=False)
class CGResult:
    """Solution (n, r) of a system, its residual by recurrence (n, r), and how the iteration ended.

    Attributes
    ----------
    value, residual : ndarray (n, r)
        Solution, and its residual as the recurrence computes it.
    iterations : int
        Number of products.
    converged : bool
        Whether the residual reached the target, or the products are too inexact for more (``short``).
    short : bool
        Whether the rounding of the products ended the iteration above the target. Another run on an
        exactly computed residual can continue.
    largest : float
        Largest eigenvalue that the directions showed.
    indefinite : bool
        Whether the iteration ended because the preconditioner is not positive definite.
    term_squares : ndarray (n,) or None
        Squares of the terms of ``K B`` from other rows, if a product measured them (`off_diagonal`).
    """

    value: Array
    residual: Array
    iterations: int
    converged: bool
    short: bool = False
    largest: float = 0.0
    indefinite: bool = False
    term_squares: Array | None = None


@dataclass(frozen=True, eq=False)
class ColumnState:
    """The state of one system between two products, in the scaled variables.

    Attributes
    ----------
    solution, residual : ndarray (n, r)
        Iterate and recurred residual.
    directions : ndarray (n, k)
        The next block that K multiplies.
    iterations, since_best : int
        Products so far, and products since the residual norm last halved.
    best, norm, largest : float
        Residual norm when it last halved, present residual norm, and largest eigenvalue so far.
    first, first_image : ndarray or None
        First block of directions and its image; None before the first product.
    term_squares : ndarray (n,) or None
        As in `CGResult`.
    """

    solution: Array
    residual: Array
    directions: Array
    iterations: int
    since_best: int
    best: float
    norm: float
    largest: float
    first: Array | None = None
    first_image: Array | None = None
    term_squares: Array | None = None


@dataclass(frozen=True, eq=False)
class BlockState:
    """The state of all systems between two products.

    Attributes
    ----------
    passes : int
        Products with K so far.
    systems : list of ColumnState or CGResult
        The state of each running system, and the result of each one that has ended.
    """

    passes: int
    systems: list[ColumnState | CGResult]

    @property
    def results(self) -> list[CGResult]:
        """Results of the systems that have ended."""
        return [system for system in self.systems if isinstance(system, CGResult)]
