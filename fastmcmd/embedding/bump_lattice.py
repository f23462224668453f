"""Differences of embeddings as sums of Gaussian bumps on a lattice, for outcomes in one or two columns.

With the step ``h = 1 / (4 sqrt(g))`` and ``p_j(y) = (4 h^2 g / pi)^(1/4) exp(-2 g (y - j h)^2)``, the
sum ``sum_j p_j(y) p_j(z)`` over all integers j is ``exp(-g (y - z)^2)`` up to ``2 exp(-4 pi^2)`` of the
kernel's size (Poisson's summation formula). In two columns the features are the products of those of each
column. Only the nodes within 14 of the nearest one count.

So ``M = S' K_Y S`` is ``H H'``, where H (n, nodes) holds what the outcomes of each input add up to. That
takes time linear in the number of outcomes, and no kernel value of a pair. The lattice is divided into
tiles, and H is computed for one tile and some rows at a time. No number cancels: the error of ``||H' a||``
is relative to ``sum_i s_i |a_i|``, even where that norm is zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as combinations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd.backends.cpu import core
from fastmcmd.backends.tall_skinny import product, roots_of_forms
from fastmcmd.embedding.difference_gram import DifferenceGram
from fastmcmd.embedding.line import bumps_of
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT

__all__ = ["BumpLattice", "expected_cost", "serves_on_lattice"]

_STEP = 0.25  # h in units of 1 / sqrt(g); the compiled loop has exp(-2 g h^2 j^2) = exp(-j^2 / 8)
_REACH = 14  # nodes of a bump on either side of the nearest, as in the compiled loop
_DECAY = np.exp(-(np.arange(-_REACH, _REACH + 1.0) ** 2) / 8)
# The norm of a bump beyond its reach, in one column, is at most sqrt(erfc((_REACH + 1/2) / 2)) = 1.2e-12.
_BEYOND = 1.3e-12
_HEIGHT = math.sqrt(2 * _STEP / math.sqrt(math.pi))  # p_j(j h), in one column
_TILE = 32  # nodes of a tile along a column: a bump reaches at most two tiles
_MOST_COLUMNS = 2
_DENSE = 0.9  # share of a tile's nodes in use from which the others are not left out
_ROWS = 1024  # rows of H in memory at once
_ROWS_OF_THREAD = 64
_FARTHEST = 2.0**40  # nodes from the centre up to which places are exact enough
_BUMP = (2 * _REACH + 1) * 2.0  # operations of a bump in one column
_CALL = 1e7  # operations that take as long as the calls for a tile
# Roundings of a product of two features in each column: the two exponentials of a bump, with the power of a
# ratio at either side.
_ROUNDINGS = 110


def serves_on_lattice(kernel: Kernel, columns: int) -> bool:
    """Tell whether the kernel is a sum of RBF kernels and constants, on one or two columns."""
    return columns <= _MOST_COLUMNS and bumps_of(kernel) is not None


def expected_cost(kernel: Kernel, outcomes: Array, rows: int, columns: int) -> float:
    """Return the cost of `BumpLattice.inner_products` with vectors of ``columns``, in float64 operations.

    ``outcomes`` (s, m, k) are those of some of the ``rows`` inputs, nature's and the model's.
    """
    some, count, width = outcomes.shape
    centre, total = np.median(outcomes.reshape(-1, width), axis=0), 0.0
    for _, gamma in _parts_of(kernel)[1]:
        places = (outcomes.reshape(-1, width) - centre) * (math.sqrt(gamma) / _STEP)
        if not np.abs(places).max(initial=0.0) <= _FARTHEST:
            return math.inf
        keys = _tile_keys(places, np.repeat(np.arange(some), count))
        tiles = len(np.unique(keys[:, 1:], axis=0))
        total += rows / some * (count * _BUMP**width + len(keys) * _TILE**width * columns)
        total += tiles * (_CALL + _TILE**width * columns**2)
    return total


def _parts_of(kernel: Kernel) -> tuple[float, list[tuple[float, float]]]:
    """Return a constant, and weight and gamma of each RBF kernel, whose sum the kernel is."""
    parts = bumps_of(kernel)
    assert parts is not None
    return parts


@dataclass(frozen=True, eq=False)
class BumpLattice:
    """The matrix M of a `DifferenceGram` as ``H H'``, with features on a lattice.

    Attributes
    ----------
    gram : DifferenceGram
        The matrix by kernel values. Its outputs are points.
    """

    gram: DifferenceGram

    @staticmethod
    def of(gram: DifferenceGram) -> BumpLattice | None:
        """Return the matrix on a lattice, or None if that does not apply."""
        if gram.deviations is not None or not serves_on_lattice(gram.kernel, gram.outputs.shape[1]):
            return None
        lattice = BumpLattice(gram)
        return lattice if lattice._farthest <= _FARTHEST else None

    def __len__(self) -> int:
        return len(self.gram)

    @property
    def sizes(self) -> Array:
        """Sum of the absolute shares (n,) of each input."""
        return self.gram.sizes

    @property
    def most_outputs(self) -> int:
        """The largest number of outputs of an input."""
        return self.gram.most_outputs

    @property
    def _parts(self) -> list[tuple[float, float]]:
        """Weight and gamma of each RBF kernel."""
        return _parts_of(self.gram.kernel)[1]

    @property
    def _constant(self) -> float:
        return _parts_of(self.gram.kernel)[0]

    @cached_property
    def _centred(self) -> Array:
        """The outputs of all entries (m, k), less their median."""
        outputs = self.gram.outputs - np.median(self.gram.outputs, axis=0)
        return np.ascontiguousarray(outputs[self.gram.entries[1]])

    @cached_property
    def _farthest(self) -> float:
        """The largest distance of an output from the centre along a column, in steps."""
        largest = float(np.abs(self._centred).max(initial=0.0))
        return largest / _STEP * math.sqrt(max((gamma for _, gamma in self._parts), default=0.0))

    @cached_property
    def _tiles(self) -> list[list[tuple[Array, NDArray[np.int64]]]]:
        """For each part, its tiles: the first node (k,), and the inputs (b,) that reach the tile."""
        source, parts = self.gram.entries[0], []
        for _, gamma in self._parts:
            tiles: list[tuple[Array, NDArray[np.int64]]] = []
            keys = _tile_keys(self._places(gamma), source)
            starts = np.flatnonzero(np.append(True, (keys[1:, 1:] != keys[:-1, 1:]).any(axis=1)))
            for start, stop in zip(starts, np.append(starts[1:], len(keys)), strict=True):
                rows = np.ascontiguousarray(keys[start:stop, 0])
                tiles.append((_TILE * keys[start, 1:].astype(np.float64), rows))
            parts.append(tiles)
        return parts

    @property
    def _tile_count(self) -> int:
        """Number of tiles of all parts."""
        return sum(map(len, self._tiles))

    def _places(self, gamma: float) -> Array:
        """Return the outputs of all entries (m, k) in steps of the lattice."""
        return np.asarray(self._centred * (math.sqrt(gamma) / _STEP))

    def _blocks(self) -> Iterator[tuple[bool, NDArray[np.int64], Array]]:
        """Yield whether a tile begins, some inputs (b,), and H (b, nodes) of these at its nodes."""
        columns = self.gram.outputs.shape[1]
        for (weight, gamma), tiles in zip(self._parts, self._tiles, strict=True):
            places = self._places(gamma)
            share = self.gram.entries[2] * (math.sqrt(weight) * _HEIGHT**columns)
            for origin, rows in tiles:
                for block in row_blocks(len(rows), _ROWS):
                    some = rows[block]
                    yield block.start == 0, some, self._sums(some, places, share, origin)
        if self._constant:
            source, _, share, _ = self.gram.entries
            totals = np.bincount(source, weights=share, minlength=len(self))
            constant = np.asarray(math.sqrt(self._constant) * totals[:, None], dtype=np.float64)
            yield True, np.arange(len(self), dtype=np.int64), constant

    def _sums(self, inputs: NDArray[np.int64], places: Array, share: Array, origin: Array) -> Array:
        """Return H (b, nodes) of some inputs on a tile, from all places (m, k) and their shares (m,)."""
        starts = self.gram.entries[3].astype(np.int64, copy=False)
        sums = np.zeros((len(inputs), _TILE if places.shape[1] == 2 else 1, _TILE))

        def fill(rows: slice) -> None:
            core().lattice_sums(places, share, starts, inputs[rows], origin, _DECAY, sums[rows])

        over_rows(fill, len(inputs), _ROWS_OF_THREAD)
        return sums.reshape(len(inputs), -1)

    def _images(self, right: Array, diagonal: Array | None = None) -> Iterator[Array]:
        """Yield ``H' right`` (nodes, c) tile by tile; the squares of H's rows add to ``diagonal`` (n,)."""
        image = np.zeros((0, right.shape[1]))
        for begins, rows, sums in self._blocks():
            if begins:
                if len(image):
                    yield image
                image = np.zeros((sums.shape[1], right.shape[1]))
            if diagonal is not None:
                diagonal[rows] += np.einsum("ij,ij->i", sums, sums)
            nodes = np.flatnonzero(sums.any(axis=0))  # those that an output reaches
            if len(nodes) < _DENSE * sums.shape[1]:
                image[nodes] += product(sums[:, nodes], right[rows], transposed=True)
            else:
                image += product(sums, right[rows], transposed=True)
        yield image

    def cost(self, columns: int) -> float:
        """Return the cost of `_images` for vectors of ``columns``, in float64 operations."""
        width, entries = self.gram.outputs.shape[1], self.gram.entry_count
        row_tiles = sum(len(rows) for tiles in self._tiles for _, rows in tiles)
        nodes = float(_TILE) ** width
        return (
            len(self._parts) * entries * _BUMP**width
            + row_tiles * nodes * columns
            + self._tile_count * _CALL
        )

    @property
    def entry_error(self) -> float:
        """Bound on the error of a product of features, as a kernel value, relative to the largest."""
        columns = self.gram.outputs.shape[1]
        # Poisson's formula: two units. Places are wrong by a rounding for each step from the
        # centre, and the kernel changes by at most sqrt(2 / e) sqrt(g) times that on either side.
        return UNIT * (columns * (_ROUNDINGS + 2 * self._farthest) + 4)

    @property
    def feature_error(self) -> float:
        """Bound on the norm of what features leave out, relative to the root of the largest kernel value.

        `entry_error` does not include it.
        """
        return _BEYOND * self.gram.outputs.shape[1]

    @property
    def roundings(self) -> float:
        """Roundings of the sums over the nodes of all tiles, and over the outputs of an input."""
        return float(_TILE ** self.gram.outputs.shape[1] + self._tile_count + 2 * self.most_outputs)

    def inner_products(self, z: Array) -> tuple[Array, Array]:
        """Return ``Z' M Z`` (r, r) for z (n, r), and the diagonal (n,) of M."""
        total, diagonal = np.zeros((z.shape[1], z.shape[1])), np.zeros(len(self.gram))
        for image in self._images(z, diagonal):
            total += product(image, image, transposed=True)
        return (total + total.T) / 2, diagonal

    def norms(self, coefficients: Array, unit: float, underflow: float) -> tuple[Array, Array]:
        """Return ``sqrt(a' M a)`` (q,) for columns a of coefficients (n, q), and bounds on their errors.

        They are norms of ``H' a``, so their rounding is relative to the 1-norm of what the coefficients
        spread over outputs, and not to its square as ``unit`` is.
        """
        del unit
        forms = np.zeros(coefficients.shape[1])
        for image in self._images(coefficients):
            forms += np.einsum("ij,ij->j", image, image)
        sizes = self.sizes @ np.abs(coefficients)
        largest = self.largest
        values, left_out = roots_of_forms(
            sizes[None, :], forms, largest * self._left_out, underflow
        )
        inner = self.entry_error + UNIT * (2 * self.most_outputs + 528 + len(self) / 128)
        inner += self.feature_error
        outer = UNIT * (_TILE ** self.gram.outputs.shape[1] + self._tile_count)
        return values, left_out + inner * math.sqrt(largest) * sizes + outer * values

    @property
    def _left_out(self) -> float:
        """Error of a kernel value from Poisson's formula, relative to the largest."""
        return 4 * self.gram.outputs.shape[1] * math.exp(-4 * math.pi**2)

    @cached_property
    def largest(self) -> float:
        """The largest value of the kernel."""
        return self._constant + sum(weight for weight, _ in self._parts)


def _tile_keys(places: Array, source: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the distinct pairs (t, 1 + k) of an input and a tile that its bumps reach."""
    nearest = np.floor(places + 0.5)
    first = np.floor((nearest - _REACH) / _TILE).astype(np.int64)
    crosses = np.floor((nearest + _REACH) / _TILE).astype(np.int64) > first
    spans = _distinct(np.column_stack([source, first, crosses]))
    columns = places.shape[1]
    corners = []
    for corner in combinations((0, 1), repeat=columns):
        further = np.array(corner)
        some = spans[(spans[:, 1 + columns :] >= further).all(axis=1)]
        corners.append(some[:, : 1 + columns] + np.append(0, further))
    return _distinct(np.concatenate(corners))


def _distinct(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct rows (u, k), in the order of their columns from the last to the first."""
    low, width = rows.min(axis=0), np.ptp(rows, axis=0) + 1
    if math.prod(map(int, width)) >= 1 << 62:
        some = np.unique(rows[:, ::-1], axis=0)
        return np.ascontiguousarray(some[:, ::-1])
    scale = np.concatenate([[1], np.cumprod(width)[:-1]])
    codes = np.unique((rows - low) @ scale)
    return np.column_stack(
        [codes // one % of + start for one, of, start in zip(scale, width, low, strict=True)]
    )
