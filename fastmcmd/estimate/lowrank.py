"""The low-rank form: the difference of two conditional embeddings at x is ``W' f(x)``.

f are features at p landmarks and W is p x r: no array is as large as the sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, DType, HostArray, Json
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd._base.progress import Progress
from fastmcmd.embedding.line import LineFeatures
from fastmcmd.estimate.leading_columns import in_basis
from fastmcmd.estimate.primal import Truncation
from fastmcmd.estimate.row_images import points_at_once, row_images_cost, row_images_of, worthwhile
from fastmcmd.estimate.row_stream import AnyRowStream, StackedRowStream
from fastmcmd.gram import EXACT, KernelFeatures
from fastmcmd.gram.cost import MatrixSize
from fastmcmd.rows import Rows, as_blocks
from fastmcmd.solvers.lowrank import LowRankSolution

__all__ = ["MOST_WORK", "LowRankFit", "LowRankPart", "RowCoefficients", "Term", "row_coefficients"]

# Cost of values from all rows beside landmarks that the caller chose: a quarter of a second on two cores.
MOST_WORK = 5e10


@dataclass(frozen=True)
class Term:
    """One system of a part: the columns of its right-hand sides, regulariser, sign, and model index."""

    columns: slice
    lam: float
    sign: float
    model: int = 0


def row_coefficients(
    terms: Sequence[Term], image: Array, rhs: Array, weight: Array | None, total: float
) -> Array:
    """Return ``B = D^-1 (P - F W)`` of a block of rows, with the columns of all terms.

    ``total`` is the sum of the weights of all rows.
    """
    coefficients = rhs - image
    for term in terms:
        coefficients[:, term.columns] /= total * term.lam
    if weight is not None:
        coefficients *= weight[:, None]
    return coefficients


@dataclass(frozen=True, eq=False)
class RowCoefficients:
    """The coefficients of all rows.

    Attributes
    ----------
    x : ndarray (n, d)
        Inputs.
    values : ndarray (n, r)
        Coefficients B.
    weight : ndarray (n,)
        Shares of all weight.
    rounding : float
        `LowRankPart.image_rounding`.
    """

    x: HostArray
    values: Array
    weight: Array
    rounding: float


@dataclass(frozen=True, eq=False)
class LowRankPart:
    """Landmarks and weights over one set of inputs.

    Attributes
    ----------
    features : KernelFeatures
        Features at the landmarks.
    solutions : list of LowRankSolution
        One for each term.
    terms : list of Term
        The systems that they solve.
    dtype : numpy.dtype
        Precision of the features.
    rows, passes : int
        Rows of the sample, and number of passes over them.
    mean_residual_diagonal : float
        ``sum w e(x, x) / N``: the weighted mean of the residual diagonal.
    notes : list of str
        Departures from the first choice of method.
    x : ndarray or Rows or None
        Inputs of the sample, if still in memory.
    row_terms : tuple of ndarray (n,) or None
        Residual diagonal of the rows of ``x``, and norms of their interpolation coefficients.
    searched : int
        Number of candidates from which landmarks were chosen.
    residual_bytes : int
        Bytes of the residuals of all rows; 0 if they were not computed.
    values : ndarray (models, n) or None
        Norm of the image at the rows of ``x`` for each model, if a pass over the rows computed it.
    stream : AnyRowStream or None
        The rows with their right-hand sides, of one model; None if the part is from a file.
    rows_of_file : RowCoefficients or None
        The rows with their coefficients, if a file holds them.
    """

    features: KernelFeatures
    solutions: list[LowRankSolution]
    terms: list[Term]
    dtype: DType
    rows: int
    passes: int
    mean_residual_diagonal: float
    notes: list[str] = field(default_factory=list)
    x: Any = None
    row_terms: tuple[Array, Array | None] | None = None
    searched: int = 0
    residual_bytes: int = 0
    values: Array | None = None
    stream: AnyRowStream | None = None
    rows_of_file: RowCoefficients | None = None

    @property
    def weights(self) -> Array:
        """Weights (p, r) of all terms together."""
        return np.asarray(
            sum(t.sign * s.weights for t, s in zip(self.terms, self.solutions, strict=True))
        )

    def of_model(self, model: int) -> LowRankPart:
        """Return the part of one of several models."""
        indices = [index for index, term in enumerate(self.terms) if term.model == model]
        begin = self.terms[indices[0]].columns.start
        terms = [
            Term(slice(t.columns.start - begin, t.columns.stop - begin), t.lam, t.sign)
            for t in (self.terms[index] for index in indices)
        ]
        solutions = [self.solutions[index] for index in indices]
        values = None if self.values is None else self.values[model : model + 1]
        return replace(self, solutions=solutions, terms=terms, values=values)

    @cached_property
    def coefficients(self) -> Array:
        """Coefficients (p, r) of ``k(x, landmarks)`` that give the image."""
        return self.features.coefficients(self.weights)

    def errors_from_rows(self, scale: Array, smaller: Array) -> Array:
        """Bound the error (b,) of images from all rows; ``smaller`` is the scale of `RowImages`, if less.

        A sample may miss rows whose residuals are large. With sampled residuals the error is not taken to
        be smaller than that of any point which the landmarks represent.
        """
        error = np.zeros(len(scale))
        for solution in self.solutions:
            if solution.kind == "rigorous":
                error += smaller * solution.slope
            else:
                error += scale * solution.slope + solution.miss * np.sqrt(solution.floor)
        return error

    @property
    def image_rounding(self) -> float:
        """Bound on the rounding of the image at any row of the sample."""
        if self.rows_of_file is not None:
            return self.rows_of_file.rounding
        sizes = None if self.row_terms is None else self.row_terms[1]
        size = 0.0 if sizes is None else float(sizes.max(initial=0.0))
        return sum(solution.constant + solution.through * size for solution in self.solutions)

    @property
    def has_rows(self) -> bool:
        """Whether the rows are at hand."""
        return self.stream is not None or self.rows_of_file is not None

    def coefficient_blocks(self, step: int) -> Iterator[tuple[HostArray, Array, Array]]:
        """Yield rows in blocks of ``step``: inputs, coefficients (b, r), and shares of all weight (b,)."""
        stream, file_rows = self.stream, self.rows_of_file
        if file_rows is not None:
            for rows, x in as_blocks(file_rows.x, step):
                yield x, file_rows.values[rows], file_rows.weight[rows]
            return
        assert stream is not None
        total = float(len(stream)) if stream.weights is None else float(stream.weights.sum())
        at = self.features.coefficients(
            np.hstack([solution.weights for solution in self.solutions])
        )
        for block in StackedRowStream([stream]).blocks(step):
            fitted = self.features.combine(block.x, at, self.dtype)
            values = row_coefficients(self.terms, fitted, block.rhs, block.weight, total)
            first, *further = [t.sign * values[:, t.columns] for t in self.terms]
            for one in further:
                first = first + one
            weight = np.ones(len(block.x)) if block.weight is None else block.weight
            yield block.x, np.ascontiguousarray(first), weight / total

    def to_store(self, step: int, most: int) -> RowCoefficients | None:
        """Return the rows with their coefficients, or None if they need more than ``most`` bytes."""
        if self.rows_of_file is not None or self.stream is None:
            return self.rows_of_file
        columns = self.solutions[0].weights.shape[1] + int(self.stream.x.shape[1]) + 1
        if 8 * columns * len(self.stream) > most:
            return None
        blocks = zip(*self.coefficient_blocks(step), strict=True)
        x, values, weight = (np.concatenate(arrays) for arrays in blocks)
        return RowCoefficients(x, values, weight, self.image_rounding)

    def image(self, x: HostArray, rows: slice | None = None) -> Array:
        """Return the image (b, r) at points ``x``, which may be the rows ``rows`` of the sample."""
        # Points outside the sample are not rounded to float32: near an isolated row far from the origin,
        # that changes the kernel by more than the residuals of the sample's rows show.
        dtype = self.dtype if rows is not None else EXACT
        return self.features.combine(x, self.coefficients, dtype)

    def errors(
        self,
        x: HostArray,
        scale: Array,
        row_terms: tuple[Array, Array | None] | None = None,
        rows: slice | None = None,
    ) -> Array:
        """Return bounds (b,) on the error of the `image` at points ``x``.

        ``row_terms`` holds the residual diagonal there and the norms of the interpolation coefficients.
        ``rows`` says which rows of the sample the points are.
        """
        if rows is not None:
            sampled_rows = [s.rows for s in self.solutions if s.rows is not None]
            if len(sampled_rows) == len(self.solutions):
                at_rows = sum(
                    scale * row_errors.slope + row_errors.residuals[rows] + row_errors.constant
                    for row_errors in sampled_rows
                )
                return np.asarray(at_rows)
        if row_terms is None:
            sizes_matter = any(solution.needs_sizes for solution in self.solutions)
            row_features, _, off = self.features.of_rows(
                x, self.dtype, keep=False, sizes=sizes_matter
            )
            row_terms = off, row_features.sizes
        off, sizes = row_terms
        size = np.zeros(len(x)) if sizes is None else sizes
        error = sum(solution.error(scale, off, size) for solution in self.solutions)
        return np.asarray(error)


@dataclass(frozen=True, eq=False)
class LowRankFit:
    """A fitted difference of conditional embeddings in low-rank form.

    Attributes
    ----------
    features : KernelFeatures
        Features of the output kernel.
    parts : list of LowRankPart
        One for each set of inputs.
    truncation : Truncation
        Bounds on the error of the output features.
    block_rows : int
        Number of points evaluated together.
    peak_bytes : int
        Peak memory of the fit, see `low_rank_peak`.
    basis : ndarray (r, c), optional
        Directions of the features in which the parts have their columns; by default all of them.
    tol : float
        Largest error that values should have.
    most_work : float
        Largest cost of images from all rows in a call; infinite if another solver would follow.
    remarks : list of str
        Notes on the latest evaluation.
    """

    features: KernelFeatures | LineFeatures
    parts: list[LowRankPart]
    truncation: Truncation
    block_rows: int
    peak_bytes: int = 0
    basis: Array | None = None
    tol: float = np.inf
    most_work: float = np.inf
    remarks: list[str] = field(default_factory=list)
    rounding_alone: ClassVar[bool] = False  # more landmarks help

    @property
    def kind(self) -> str:
        """Kind of the error bounds."""
        kinds = {s.kind for part in self.parts for s in part.solutions}
        return "sampled" if "sampled" in kinds or not self.truncation.rigorous else "rigorous"

    @property
    def columns(self) -> int:
        """Number of columns of a system."""
        return self.features.rank if self.basis is None else int(self.basis.shape[1])

    def details(self) -> Json:
        """Return the fields of `Info` that this form determines, and the bytes it holds."""
        ranks = [part.features.rank for part in self.parts]
        return {
            "solver": "lowrank",
            "form": "feature",
            "dtype": str(max((part.dtype for part in self.parts), key=lambda kind: kind.itemsize)),
            "cache": "streamed",
            "rank": self.features.rank,
            "landmarks": max(ranks),
            "iterations": 0,
            "passes": sum(part.passes for part in self.parts),
            "notes": (*(note for part in self.parts for note in part.notes), *self.remarks),
            "held": self.peak_bytes,
        }

    def evaluate(self, grid: HostArray | Rows, progress: Progress) -> tuple[Array, Array, str]:
        """Return values (q,), their error bounds (q,) and the kind of the bounds."""
        values, errors = np.empty(len(grid)), np.empty(len(grid))
        sweep = progress.sweep("evaluation", len(grid))
        for rows, x in as_blocks(grid, self.block_rows):
            sample_rows = rows if grid is self.parts[0].x else None
            if sample_rows is not None and self._norms is not None:
                norm, scale = self._norms[rows], self._scale(x)
                error = self.parts[0].errors(x, scale, self._row_terms(rows), rows)
            else:
                image, error, scale = self._at(x, sample_rows)
                norm = np.sqrt(np.einsum("ij,ij->i", image, image))
            values[rows] = norm
            errors[rows] = self.truncation.bounds(norm, error, scale, self.columns)
            sweep.advance(rows.stop)
        self._reach(grid, values, errors, progress)
        return values, errors, self.kind

    @property
    def has_rows(self) -> bool:
        """Whether the rows are at hand, for points that the landmarks miss."""
        return all(part.has_rows for part in self.parts)

    def _reach(
        self, grid: HostArray | Rows, values: Array, errors: Array, progress: Progress
    ) -> None:
        """Replace values and bounds above the tolerance by those of images from all rows."""
        self.remarks.clear()
        above = np.flatnonzero(~(errors <= self.tol))
        if grid is self.parts[0].x and self.kind == "sampled":
            return  # each row has the bound of its own residual
        if not (len(above) and self.has_rows and self._cost_at_rows(len(above)) <= self.most_work):
            return

        def reaches(some: NDArray[np.intp]) -> NDArray[np.bool_]:
            value, error = self._from_rows(grid[some])
            better = ~(error >= errors[some])
            values[some[better]], errors[some[better]] = value[better], error[better]
            return np.asarray(errors[some] <= self.tol)

        if not worthwhile(above, reaches):
            return
        part, dim = self.parts[0], int(grid.shape[1])
        rank, rows = part.features.rank, min(self.block_rows, part.rows)
        sweep = progress.sweep("points unlike the inputs", len(above))
        for some in row_blocks(len(above), points_at_once(rank, rows, self.columns, dim)):
            reaches(above[some])
            sweep.advance(some.stop)
        self.remarks.append(f"{len(above):,} points unlike the inputs: values from all rows")

    def _cost_at_rows(self, points: int) -> float:
        """Return the cost of images from all rows at so many points."""
        total = 0.0
        for part in self.parts:
            dim, backend = part.features.pivots.shape[1], part.features.backend.name
            matrix = MatrixSize(part.features.kernel, part.rows, dim, backend)
            total += row_images_cost(matrix, self.columns, points)
        return total

    def _from_rows(self, x: HostArray) -> tuple[Array, Array]:
        """Return values and error bounds (b,) at points ``x`` from all rows."""
        total, error, largest = np.zeros((len(x), self.columns)), np.zeros(len(x)), np.zeros(len(x))
        scale = self._scale(x)
        for part in self.parts:
            images = row_images_of(part, x, self.block_rows)
            total += images.image
            smaller = np.minimum(scale, images.scale)
            error += part.errors_from_rows(scale, smaller) + images.rounding
            np.maximum(largest, smaller, out=largest)
        value = np.sqrt(np.einsum("ij,ij->i", total, total))
        return value, self.truncation.bounds(value, error, largest, self.columns)

    def _at(self, x: HostArray, rows: slice | None = None) -> tuple[Array, Array, Array]:
        """Return image, error and scale at points ``x``, which may be the rows ``rows`` of the sample."""
        scale = self._scale(x)
        total, error = np.zeros((len(x), self.columns)), np.zeros(len(x))
        for part in self.parts:
            sample_rows = rows if part is self.parts[0] else None
            row_terms = None if sample_rows is None else self._row_terms(sample_rows)
            total += part.image(x, sample_rows)
            error += part.errors(x, scale, row_terms, sample_rows)
        return total, error, scale

    @property
    def _norms(self) -> Array | None:
        """Norms (n,) of the image at the rows of the sample, if they are known."""
        part = self.parts[0]
        if len(self.parts) > 1 or len(part.terms) > 1 or part.values is None:
            return None
        return np.asarray(part.values[0])

    def _scale(self, x: HostArray) -> Array:
        return np.sqrt(np.maximum(self.parts[0].features.diagonal(x), 0.0))

    def _row_terms(self, rows: slice) -> tuple[Array, Array | None] | None:
        """Return the residual diagonal, and norms of coefficients, of rows of the first part's sample."""
        row_terms = self.parts[0].row_terms
        if row_terms is None:
            return None
        residual_diagonal, sizes = row_terms
        return residual_diagonal[rows], None if sizes is None else sizes[rows]

    def difference(self, grid: HostArray | Rows) -> Array:
        """Return the difference of the embeddings (q, r) at some points."""
        return self._at(grid[:])[0]

    def witness(self, grid: HostArray | Rows, y: Array) -> Array:
        """Return ``h(x, y)`` (q, len(y))."""
        return self.difference(grid) @ in_basis(self.features.transform(y), self.basis).T
