"""The feature form: one solve with r right-hand sides, then norms of r-vectors.

With output features p and ``B = (K_X + D)^-1 P``, ``MCMD(x) = ||B' k_X(x) - B'' k_X'(x)||``. If both
samples have the same inputs, the two terms share every product with K_X. If they also have the same
regulariser, one solve with the difference of the features serves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray, Json
from fastmcmd._base.progress import Progress
from fastmcmd.backends.tall_skinny import eigh, inner, row_squares, times
from fastmcmd.embedding.design import match_rows
from fastmcmd.embedding.line import LineFeatures
from fastmcmd.estimate.images import Images, Part
from fastmcmd.estimate.leading_columns import in_basis
from fastmcmd.estimate.row_images import coefficient_norms, worthwhile
from fastmcmd.gram import KernelFeatures, diagonal_of, largest_diagonal
from fastmcmd.kernels.base import UNIT
from fastmcmd.rows import Rows

__all__ = ["PrimalFit", "Truncation"]

# Points for each row from which columns that hardly matter are omitted; the quantile of values to which
# they must hardly matter, and their share of the tolerance. Products compute 16 columns together.
_MANY_POINTS, _SMALL_VALUES, _NARROWING, _VECTOR = 4, 0.01, 0.05, 16


@dataclass(frozen=True)
class Truncation:
    """Bounds on the error of the low-rank output features.

    Let ``s_i`` be the norm of the part of row i that the features do not represent. The coefficients a(x)
    then cause an error of at most
    ``sum |a_i| s_i <= ||D^(1/2) a|| ||D^(-1/2) s|| <= sqrt(k(x, x)) / 2 ||D^(-1/2) s||``.

    Attributes
    ----------
    residual : float
        Sum over both sides of ``||D^(-1/2) s||``; it adds to the square of the MCMD.
    expectation : float
        Bound of the same kind on the errors of expected features, which add to the MCMD itself.
    rigorous : bool
        False if one of the bounds is an estimate (densities integrated numerically).
    """

    residual: float = field(metadata={"stored": "missed"})
    expectation: float
    rigorous: bool

    def square(self, scale: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound the error of MCMD^2 at points with ``sqrt(k(x, x)) = scale``."""
        return np.asarray((scale / 2 * self.residual) ** 2)

    def linear(self, scale: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound the error of the feature difference due to expectations."""
        return np.asarray(scale / 2 * self.expectation)

    def linear_at(self, scale: float) -> float:
        """Bound the error of the feature difference at points with ``sqrt(k(x, x)) <= scale``."""
        return scale / 2 * self.expectation

    def bounds(
        self,
        values: NDArray[np.float64],
        error: NDArray[np.float64],
        scale: NDArray[np.float64],
        rank: int,
    ) -> NDArray[np.float64]:
        """Return the error bounds of values (q,), the norms of r-vectors with errors up to ``error``."""
        error = error + self.linear(scale) + 4 * UNIT * rank * values
        # Truncation only lowers the square: the true value lies between the square roots.
        square = self.square(scale)
        low = np.maximum(values - error, 0.0)
        below = values - low
        above = error + square / np.maximum(np.sqrt(low**2 + square) + low, 1e-300)
        return np.maximum(below, above)


@dataclass(frozen=True, eq=False)
class PrimalFit:
    """A fitted difference of conditional embeddings in feature form.

    Attributes
    ----------
    features : KernelFeatures or LineFeatures
        Features of the output kernel.
    parts : list of Part
        Solved systems.
    truncation : Truncation
        Bounds on the error of the features.
    certificate : str
        The option.
    tol : float
        Largest error that values should have.
    basis : ndarray (r, c), optional
        Directions of the features in which the parts have their columns; by default all of them.
    lam : float
        Smallest regulariser; 0 if the bounds must not use it.
    """

    features: KernelFeatures | LineFeatures
    parts: list[Part]
    truncation: Truncation
    certificate: str
    tol: float = np.inf
    basis: NDArray[np.float64] | None = None
    lam: float = 0.0

    @property
    def columns(self) -> int:
        """Number of columns of a system."""
        return int(self.parts[0].value.shape[1])

    def details(self) -> Json:
        """Return the fields of `Info` that this form determines, and the bytes it holds."""
        solved = [part.solved for part in self.parts]
        operators = [one.operator for one in solved]
        return {
            "solver": "+".join(sorted({one.solver for one in solved})),
            "form": "feature",
            "dtype": str(max((one.dtype for one in operators), key=lambda kind: kind.itemsize)),
            "cache": min(
                one.cache for one in operators
            ),  # "disk" before "packed" before "streamed"
            "rank": self.features.rank,
            "iterations": sum(one.iterations for one in solved),
            "passes": sum(one.passes for one in operators),
            "notes": tuple(note for one in solved for note in one.notes),
            "held": max(one.peak_bytes for one in operators),
        }

    @property
    def rounding_alone(self) -> bool:
        """Whether rounding in float64 alone kept a solver from its goal."""
        return any(part.solved.rounding_alone for part in self.parts)

    def evaluate(
        self, grid: HostArray | Rows, progress: Progress
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        """Return values (q,), their error bounds (q,) and the kind of the bounds."""
        del progress  # a few products
        narrow = self._narrowed(grid)
        values, errors, kind = (narrow or self)._values(grid)
        if narrow is None:
            return values, errors, kind
        above = np.flatnonzero(~(errors <= self.tol))  # values near 0, where omitted columns count
        if len(above):
            values[above], errors[above], other = self._values(grid[above])
            kind = max(kind, other)  # "sampled" if one of them is
        return values, errors, kind

    def _values(
        self, grid: HostArray | Rows
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        scale = self._scale(grid)
        images, values = self._images(grid, scale), np.empty(len(grid))
        for rows, image in images.blocks():
            np.sqrt(row_squares(image), out=values[rows])
        error, kind = images.errors()
        if not self.truncation.rigorous:
            kind = "sampled"
        errors = self.truncation.bounds(values, error, scale, self.columns)
        self._reach(grid, values, error, errors)
        return values, errors, kind

    def _reach(
        self,
        grid: HostArray | Rows,
        values: NDArray[np.float64],
        error: NDArray[np.float64],
        errors: NDArray[np.float64],
    ) -> None:
        """Replace bounds above the tolerance by those that hold far from all inputs, if these are smaller.

        ``error`` (q,) are bounds on the error of the images, ``errors`` (q,) those of the values.
        """
        above = np.flatnonzero(~(errors <= self.tol))
        if not (len(above) and self.lam > 0.0):
            return

        def reaches(some: NDArray[np.intp]) -> NDArray[np.bool_]:
            x = grid[some]
            scale, largest = self._scale(x), np.zeros(len(some))
            of_images = error[some]
            for part in self.parts:
                inverse = part.design.weight / (part.design.weight.sum() * self.lam)
                squares, rounding = coefficient_norms(part.solved.operator, inverse, x)
                smaller = np.minimum(scale, 2 * np.sqrt(squares * (1 + 1e-9) + rounding))
                of_images += part.solver_error(smaller) - part.solver_error(scale)
                np.maximum(largest, smaller, out=largest)
            bounds = self.truncation.bounds(values[some], of_images, largest, self.columns)
            errors[some] = np.fmin(errors[some], bounds)
            return np.asarray(errors[some] <= self.tol)

        if worthwhile(above, reaches):
            reaches(above)

    def _scale(self, grid: HostArray | Rows) -> NDArray[np.float64]:
        """Return ``sqrt(k(x, x))`` (q,), increased by the rounding of a float32 diagonal."""
        diagonal = diagonal_of(self.parts[0].solved.operator.kernel, grid)
        return np.asarray(np.sqrt(np.maximum(diagonal, 0.0)) * (1 + 1e-5))

    def _images(self, grid: HostArray | Rows, scale: NDArray[np.float64]) -> Images:
        return Images(self.parts, grid, scale, self.tol, self.certificate)

    def _narrowed(self, grid: HostArray | Rows) -> PrimalFit | None:
        """Return the form without columns that hardly matter at ``grid``, or None if that saves little.

        In the eigenvectors of B'KB as a basis, the last columns b of B add at most ``k(x, x) b'Kb`` to the
        square of a value, and count like the part of the outputs that features do not represent.
        """
        part = self.parts[0]
        if len(self.parts) > 1 or len(grid) < _MANY_POINTS * len(part.value):
            return None
        if match_rows(part.design.x, grid) is not None:
            return None
        energies = inner(part.value, part.image)
        energies, basis = eigh((energies + energies.T) / 2)
        order = np.argsort(-energies)
        basis = np.ascontiguousarray(basis[:, order])
        value, image = times(part.value, basis), times(part.image, basis)
        off = float(np.max(part.row_error()))
        # Of each column: its energy, with the errors of the image.
        omitted = np.maximum(np.einsum("ij,ij->j", value, image), 0.0)
        omitted += off * np.abs(value).sum(axis=0)
        omitted = np.cumsum(omitted[::-1])[::-1]
        norms = np.sqrt(row_squares(part.image))
        typical = float(np.quantile(norms, _SMALL_VALUES))
        largest = largest_diagonal(part.solved.operator.kernel, grid)
        few = np.flatnonzero(largest * omitted <= _NARROWING * self.tol * typical)
        columns = value.shape[1]
        if not len(few) or few[0] < 1 or _padded(int(few[0])) >= _padded(columns):
            return None
        count = int(few[0])
        return replace(
            self,
            lam=0.0,
            parts=[
                replace(
                    part,
                    value=np.ascontiguousarray(value[:, :count]),
                    image=np.ascontiguousarray(image[:, :count]),
                )
            ],
            truncation=replace(
                self.truncation,
                residual=math.hypot(self.truncation.residual, 2 * math.sqrt(float(omitted[count]))),
            ),
        )

    def difference(self, grid: HostArray | Rows) -> NDArray[np.float64]:
        """Return ``B' k_X(x) - B'' k_X'(x)`` (q, c): the difference of the embeddings at x."""
        return self._images(grid, self._scale(grid)).all()

    def witness(self, grid: HostArray | Rows, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``h(x, y) = p(y).(B' k_X(x) - B'' k_X'(x))`` (q, len(y))."""
        p = in_basis(self.features.transform(y), self.basis)
        return times(self.difference(grid), p.T)


def _padded(columns: int) -> int:
    """Return how many vectors of columns a product computes for ``columns`` and two that guide checks."""
    return -(-(columns + 2) // _VECTOR)
