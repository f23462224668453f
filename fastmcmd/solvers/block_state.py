"""The state of block CG between two products: frozen dataclasses, as a checkpoint saves them."""

from __future__ import annotations

from dataclasses import dataclass

from fastmcmd._base.annotations import Array

__all__ = ["BlockState", "CGResult", "ColumnState"]


@dataclass(frozen=True, eq=False)
class CGResult:
    """Solution (n, r), its recurred residual (n, r) and what it took.

    Attributes
    ----------
    value, residual : ndarray (n, r)
        Solution, and the residual that the recurrence left.
    iterations : int
        Products.
    converged : bool
        Whether the target was reached, or the products are not exact enough for more (``short``).
    short : bool
        Whether it ended above the target because of the rounding of the products; a run on a residual of
        exact ones may go on.
    largest : float
        Largest eigenvalue that was seen.
    indefinite : bool
        Whether it ended because the preconditioner is not positive definite.
    """

    value: Array
    residual: Array
    iterations: int
    converged: bool
    short: bool = False
    largest: float = 0.0
    indefinite: bool = False


@dataclass(frozen=True, eq=False)
class ColumnState:
    """The state of one system between two products, in the scaled variables.

    Attributes
    ----------
    solution, residual : ndarray (n, r)
        Iterate and recurred residual.
    directions : ndarray (n, k)
        What K is to be multiplied with next.
    iterations, since_best : int
        Products so far, and since the residual was halved.
    best, norm, largest : float
        Residual norm when it was halved, the present one, and the largest eigenvalue seen.
    first, first_image : ndarray or None
        First block of directions and its image; None before the first product.
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


@dataclass(frozen=True, eq=False)
class BlockState:
    """The state of all systems between two products.

    Attributes
    ----------
    passes : int
        Products with K so far.
    systems : list of ColumnState or CGResult
        Each system: its state where it iterates, its result where it has ended.
    """

    passes: int
    systems: list[ColumnState | CGResult]

    @property
    def results(self) -> list[CGResult]:
        """Results of the systems that have ended."""
        return [system for system in self.systems if isinstance(system, CGResult)]
