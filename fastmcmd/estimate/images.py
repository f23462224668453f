"""Images ``B' k_X(x)`` of coefficients at evaluation points, in blocks of points that fit a cache.

A million images of 30 columns are 240 MB, which take as long to allocate as a tenth of their product. Only
their norms are needed, so that each block is reduced before the next one is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import DType, HostArray
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.memory import power_of_two_within
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import row_squares
from fastmcmd.embedding.design import Design, match_rows
from fastmcmd.estimate.budget import points_at_once
from fastmcmd.gram import EXACT, GramOperator, squared_norms
from fastmcmd.rows import Rows, as_blocks
from fastmcmd.solvers import Solution, Solved
from fastmcmd.solvers.certify import SAMPLE, rounding

__all__ = ["Images", "Part"]

# A float64 evaluation that costs at most this share of the solve, or so many operations, is always made.
_AFFORDABLE, _CHEAP = 0.5, 1e11
_MARGIN = (
    1.5  # largest error of all points, relative to that of a sample, for which float32 is tried
)
_CERTAIN = 32  # points, by each guess of the largest rounding, that are always checked


@dataclass(frozen=True, eq=False)
class Part:
    """Coefficients over one set of distinct inputs; the images of all parts are added.

    Attributes
    ----------
    design : Design
        The inputs.
    value, image : ndarray (n, r)
        Coefficients B, and K B at the inputs themselves.
    solved : Solved
        Solutions, and the operator from which they were computed.
    """

    design: Design
    value: NDArray[np.float64]
    image: NDArray[np.float64]
    solved: Solved

    def solver_error(self, scale: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bound the error of the image due to the solves."""
        solutions: list[Solution] = self.solved.solutions
        return scale / 2 * sum(s.certificate.residual for s in solutions)

    def row_error(self) -> float:
        """Bound the rounding of a row of ``image``."""
        return float(sum(s.certificate.value for s in self.solved.solutions))

    @property
    def sampled(self) -> bool:
        """Whether a certificate of the solves is estimated from some rows."""
        return any(s.certificate.kind == "sampled" for s in self.solved.solutions)


class Images:
    """The sum of the images of parts at the points of a grid, and a bound on its error.

    Parameters
    ----------
    parts : list of Part
        Coefficients.
    grid : ndarray (q, d) or Rows
        Points.
    scale : ndarray (q,)
        ``sqrt(k(x, x))`` there.
    tol : float
        Largest error that the images should have.
    certificate : str
        The option: "rigorous" computes every product in float64.
    """

    def __init__(
        self,
        parts: list[Part],
        grid: HostArray | Rows,
        scale: NDArray[np.float64],
        tol: float,
        certificate: str,
    ) -> None:
        self._parts, self._grid = parts, grid
        self._sources: list[_AtRows | _AtPoints] = []
        self._solver_error = np.zeros(len(grid))
        known_error = 0.0
        for part in parts:
            self._solver_error += part.solver_error(scale)
            rows = None if part.design.x is grid else match_rows(part.design.x, grid)
            if part.design.x is grid or rows is not None:
                self._sources.append(_AtRows(part, rows))
            else:
                available = (tol - float(self._solver_error.max()) - known_error) / len(parts)
                self._sources.append(_AtPoints(part, grid, available, certificate))
            known_error += self._sources[-1].error

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the images of consecutive points, with their slices."""
        operators = [part.solved.operator for part in self._parts]
        is_known = not any(isinstance(source, _AtPoints) for source in self._sources)
        if is_known or operators[0].backend.on_device:  # which divides its work itself
            every = slice(0, len(self._grid))
            yield every, self._block(every, self._grid)
            return
        columns = self._parts[0].value.shape[1]
        read_rows = min(operator.block_rows(self._grid) for operator in operators)
        step = min(_block_points(operator, columns, self._grid) for operator in operators)
        for place, points in as_blocks(self._grid, read_rows):
            for rows in row_blocks(len(points), step):
                at = slice(place.start + rows.start, place.start + rows.stop)
                yield at, self._block(at, points[rows])

    def _block(self, rows: slice, x: HostArray | Rows) -> NDArray[np.float64]:
        first, *further = [source.block(rows, x) for source in self._sources]
        for image in further:
            first = first + image
        return first

    def all(self) -> NDArray[np.float64]:
        """Return the images (q, r) of all points, which may be an array of a part."""
        blocks = self.blocks()
        rows, first = next(blocks)
        if rows.stop == len(self._grid):
            return first
        out = np.empty((len(self._grid), first.shape[1]))
        out[rows] = first
        for rows, image in blocks:
            out[rows] = image
        return out

    def errors(self) -> tuple[NDArray[np.float64], str]:
        """Return bounds (q,) on the errors, and their kind, after the last of the `blocks`."""
        for source in self._sources:
            source.finish()
        kinds = {source.kind for source in self._sources}
        sampled = "sampled" in kinds or any(part.sampled for part in self._parts)
        error = self._solver_error + sum(source.error for source in self._sources)
        return error, "sampled" if sampled else "rigorous"


def _block_points(operator: GramOperator, columns: int, grid: HostArray | Rows) -> int:
    """Return the number of points whose images a processor computes together.

    Inputs that do not fit in memory are read again for every block, which may then use a quarter of what
    is left of the budget.
    """
    spare = 0 if operator.holds_rows else power_of_two_within(operator.budget // 4)
    return min(points_at_once(columns, spare), operator.block_rows(grid))


class _AtRows:
    """The image of a part at its own inputs, or at some of them, by their indices."""

    kind = "rigorous"

    def __init__(self, part: Part, index: NDArray[np.intp] | None) -> None:
        self._image, self._index, self.error = part.image, index, part.row_error()

    def block(self, rows: slice, x: HostArray | Rows) -> NDArray[np.float64]:
        """Return the image of the points ``rows``."""
        del x
        return self._image[rows] if self._index is None else self._image[self._index[rows]]

    def finish(self) -> None:
        """Do nothing."""


class _AtPoints:
    """``K(grid, x) B`` of a part, and a bound on the error of its rows.

    Products in float32 are compared with float64 at points drawn at random, and at those where rounding
    may be largest.

    Attributes
    ----------
    error : float
        The bound; before `finish` an estimate from the points drawn at random.
    kind : str
        Its kind.
    """

    def __init__(
        self, part: Part, grid: HostArray | Rows, available: float, certificate: str
    ) -> None:
        self._operator, self._value, self._grid = part.solved.operator, part.value, grid
        self.error = self._fine = rounding(self._operator, self._value, grid)
        self.kind, self._dtype = "rigorous", EXACT
        if self._exactly(part, certificate):
            return
        rows = np.sort(generator(len(grid), Purpose.PROBE).choice(len(grid), SAMPLE, replace=False))
        off = self._off(rows, self._product(grid[rows], self._operator.dtype))
        if not part.sampled and 2 * _MARGIN * off > available:  # float32 might miss the tolerance
            return
        self.error += 2 * off
        self.kind, self._dtype = "sampled", self._operator.dtype
        # Two more columns: what every point sums up, and what it gets from the rows with the largest
        # coefficients. Float32 rounding is largest where these are, or far out.
        norms = np.sqrt(row_squares(self._value))
        heavy = np.where(norms >= np.sort(norms)[-_CERTAIN:][0], norms, 0.0)
        self._wide = np.column_stack([self._value, norms, heavy])
        self._drawn_rows = rows
        self._largest_points = [_LargestPoints() for _ in range(3)]
        self._images: list[NDArray[np.float64]] = []

    def _exactly(self, part: Part, certificate: str) -> bool:
        """Tell whether products are made in float64 whatever float32 would give."""
        operator, points, columns = self._operator, len(self._grid), self._value.shape[1]
        cost = operator.streamed_cost(columns, exact=True) * 2 * points / len(operator)
        solve_cost = operator.product_cost(columns) * max(1, operator.passes)
        return (
            operator.dtype == EXACT
            or certificate == "rigorous"
            or points <= 2 * SAMPLE
            or (certificate == "auto" and not part.sampled and cost <= _CHEAP)
            or cost <= _AFFORDABLE * solve_cost
        )

    def _product(self, x: HostArray | Rows, dtype: DType) -> NDArray[np.float64]:
        return self._operator.cross_matmul(x, self._value, dtype)

    def _off(self, rows: NDArray[np.intp], images: NDArray[np.float64]) -> float:
        """Return the largest distance of images of some points from those in float64."""
        check = self._product(self._grid[rows], EXACT)
        return float(np.linalg.norm(images - check, axis=1).max())

    def block(self, rows: slice, x: HostArray | Rows) -> NDArray[np.float64]:
        """Return the image of the points ``rows``, which are ``x``."""
        if self._dtype == EXACT:
            return self._product(x, EXACT)
        image = self._operator.cross_matmul(x, self._wide, self._dtype)
        sizes, image = np.abs(image[:, -2:]), image[:, :-2]
        squares = squared_norms(x, self._operator.offset)
        for points, guess in zip(self._largest_points, (*sizes.T, squares), strict=True):
            points.add(rows.start, guess, image)
        low, high = np.searchsorted(self._drawn_rows, (rows.start, rows.stop))
        self._images.append(image[self._drawn_rows[low:high] - rows.start])
        return image

    def finish(self) -> None:
        """Compute the bound, after the last block."""
        if self._dtype == EXACT:
            return
        rows = np.concatenate([self._drawn_rows, *(points.rows for points in self._largest_points)])
        images = np.concatenate(
            [*self._images, *(points.images for points in self._largest_points)]
        )
        rows, first = np.unique(rows, return_index=True)
        self.error = self._fine + 2 * self._off(rows, images[first])


class _LargestPoints:
    """The points with the largest values of a guess so far, and their images; of equals the first."""

    def __init__(self) -> None:
        self.rows, self._guess = np.empty(0, dtype=np.intp), np.empty(0)
        self.images = np.empty((0, 0))

    def add(self, start: int, guess: NDArray[np.float64], images: NDArray[np.float64]) -> None:
        """Take a block of points that begins at ``start``."""
        some = _largest(guess)
        rows, images, guess = start + some, images[some], guess[some]
        if len(self.rows):
            rows, guess = np.append(self.rows, rows), np.append(self._guess, guess)
            images = np.concatenate([self.images, images])
            some = _largest(guess)
            rows, images, guess = rows[some], images[some], guess[some]
        self.rows, self.images, self._guess = rows, images, guess


def _largest(guess: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the indices of the largest entries, ascending; of equal ones the first."""
    count = len(guess)
    if count <= _CERTAIN:
        return np.arange(count)
    least = np.partition(guess, count - _CERTAIN)[count - _CERTAIN]
    above = np.flatnonzero(guess > least)
    equal = np.flatnonzero(guess == least)[: _CERTAIN - len(above)]
    return np.sort(np.concatenate([above, equal]))
