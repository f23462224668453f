"""The interface of a backend: the few operations on a kernel matrix from which everything is computed.

Arrays are NumPy arrays, except those that stay inside a backend: prepared rows, packed tiles, features.
Products take and return float64, also blocks of `Backend.blocks`. Inside, tiles have the precision of the
prepared rows, and sums over tiles are in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, DType, HostArray
from fastmcmd.backends.column_blocks import ColumnBlocks
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.base import UNIT, UNIT32

__all__ = [
    "Array",
    "Backend",
    "NotPositiveDefiniteError",
    "PackedGram",
    "Points",
    "Products",
    "RowFeatures",
    "packed_shape",
]

Array = HostArray

TILE = 256


class NotPositiveDefiniteError(ValueError):
    """A Cholesky factorisation met a pivot that is not positive."""

    def __init__(self, index: int) -> None:
        self.index = index
        super().__init__(f"pivot {index} is not positive")


@dataclass(frozen=True, eq=False)
class Points:
    """Rows prepared for a backend.

    Attributes
    ----------
    rows : object
        The backend's own representation of the rows.
    n, d : int
        Shape of the rows.
    dtype : numpy.dtype
        Precision of the tiles computed from them.
    """

    rows: Any
    n: int
    d: int
    dtype: DType

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared rows."""
        return int(self.rows.nbytes)


@dataclass(frozen=True, eq=False)
class PackedGram:
    """The lower tiles of a symmetric matrix (nb (nb + 1) / 2, tile, tile), row block by row block.

    Tile (I, J), I >= J, is at I (I + 1) / 2 + J; diagonal tiles are full, padding is zero. It may hold the
    tiles of the first row blocks only.

    Attributes
    ----------
    tiles : array
        The tiles.
    n : int
        Rows of the whole matrix.
    source : tuple of Kernel and Points, or None
        What products compute the other tiles from.
    """

    tiles: Any
    n: int
    source: tuple[Kernel, Points] | None = field(default=None, kw_only=True)

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles."""
        return int(self.tiles.nbytes)


@dataclass(frozen=True, eq=False)
class QuantizedGram(PackedGram):
    """Packed tiles of uint16: a value is the least of its row of the tile, plus so many steps.

    Attributes
    ----------
    scales : array (nb (nb + 1) / 2, tile, 2)
        The least value and the step of each row.
    """

    scales: Any

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles and their scales."""
        return super().nbytes + int(self.scales.nbytes)


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """Features of b rows at p landmarks.

    Attributes
    ----------
    values : array (p, b) or None
        Column j holds the features of row j; a NumPy array after `Backend.to_host`.
    squares : ndarray (b,)
        ``|f|^2``.
    sizes : ndarray (b,) or None
        ``|L^-T f|``: the norm of the interpolation coefficients at the landmarks.
    """

    values: Any
    squares: NDArray[np.float64]
    sizes: NDArray[np.float64] | None


class Products(Protocol):
    """Sums of products of features over blocks of rows, in the memory where the backend works."""

    def add(self, f: Any, rhs: Array, weight: Array | None) -> None:
        """Add the products of a block; see `Backend.add_products`."""

    def sums(self) -> tuple[Array, Array]:
        """Return ``f diag(w) f'`` (p, p) and ``f diag(w) rhs`` (p, c)."""

    def start(self, gram: Array, cross: Array) -> None:
        """Resume from saved sums."""


class HostProducts:
    """`Products` in host memory."""

    def __init__(self, backend: Backend, rank: int, columns: int) -> None:
        self._backend = backend
        self._gram, self._cross = np.zeros((rank, rank)), np.zeros((rank, columns))

    def add(self, f: Any, rhs: Array, weight: Array | None) -> None:
        """Add the products of a block."""
        self._backend.add_products(f, rhs, weight, self._gram, self._cross)

    def sums(self) -> tuple[Array, Array]:
        """Return both sums."""
        return self._gram, self._cross

    def start(self, gram: Array, cross: Array) -> None:
        """Resume from saved sums."""
        self._gram, self._cross = gram, cross


def packed_shape(n: int, tile: int) -> tuple[int, int, int]:
    """Return the shape of the packed tiles of an n x n matrix."""
    blocks = -(-n // tile)
    return blocks * (blocks + 1) // 2, tile, tile


@dataclass(frozen=True)
class Backend(ABC):
    """Operations on kernel matrices.

    Attributes
    ----------
    tile : int
        Rows of a square tile.
    """

    tile: int = TILE

    def __post_init__(self) -> None:
        if isinstance(self.tile, bool) or not isinstance(self.tile, int) or self.tile < 1:
            raise ValueError(f"tile is {self.tile!r}; a positive whole number is needed")

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in the registry."""

    def supports(self, kernel: Kernel) -> bool:
        """Tell whether the backend can evaluate the kernel."""
        del kernel
        return True

    @property
    def on_device(self) -> bool:
        """Whether tiles are in a device's memory instead of host memory."""
        return False

    def directly(self) -> Backend:
        """Return a backend that computes squared distances from differences, in any dimension.

        That takes longer with many columns, but loses no digits however far rows are from the origin, or
        some rows from the others. A device backend returns itself.
        """
        return self

    @abstractmethod
    def direct_distances(self, dim: int, kernel: Kernel | None = None) -> bool:
        """Tell whether squared distances in ``dim`` columns are computed from differences.

        The answer is for tiles of ``kernel``; None stands for a kernel that does not compare rows.
        """

    def label(self, dtype: DType, dim: int) -> str:
        """Return a description of the hardware for users; empty if the backend's name is enough."""
        del dtype, dim
        return ""

    def unit(self, dtype: DType, dim: int) -> float:
        """Return the unit roundoff of the arithmetic behind tiles of ``dtype`` over ``dim`` columns."""
        del dim
        return UNIT if dtype == np.float64 else UNIT32

    def keeps(self, packed: int, rows: int, budget: int) -> bool:
        """Tell whether packed tiles and prepared rows, in bytes, fit in the memory that holds them.

        ``budget`` is the host memory available for them.
        """
        return packed + rows <= budget

    def blocks(self, n: int, columns: int) -> ColumnBlocks | None:
        """Return where CG keeps its blocks (n, k) between products, which then take and return such blocks.

        None means host memory. ``columns`` is the largest number of columns of a product.
        """
        del n, columns
        return None

    def starts_in_float64(self, n: int) -> bool:
        """Tell whether CG of n rows takes less time in float64 than in float32, with its certificate.

        A certificate needs every entry, or many of them, in float64 in either case.
        """
        del n
        return False

    def takes(self, rows: object) -> bool:
        """Tell whether `points` accepts the caller's rows on a device without a copy to the host."""
        del rows
        return False

    def to_host(self, values: AnyArray) -> Array:
        """Return features (p, b) from `features` as a NumPy array."""
        return np.asarray(values)

    @abstractmethod
    def points(
        self, x: Array, dtype: DType | type, offset: NDArray[np.float64] | None = None
    ) -> Points:
        """Return rows (n, d) prepared for the backend; ``offset`` (d,) is subtracted before rounding.

        The rows are in host memory, or on a device if the backend `takes` them.
        """

    @abstractmethod
    def gram(self, kernel: Kernel, x: Points, z: Points | None = None) -> Array:
        """Return K(x, z) (n, m) in full; ``z=None`` is K(x, x)."""

    def write_gram(self, kernel: Kernel, x: Points, z: Points, out: Array) -> None:
        """Write K(x, z) into ``out`` (n, m), a contiguous array in the precision of the points."""
        out[...] = self.gram(kernel, x, z)

    @abstractmethod
    def matmul(self, kernel: Kernel, x: Points, z: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, z) v (n, k), streamed."""

    @abstractmethod
    def symmetric_matmul(self, kernel: Kernel, x: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, x) v (n, k), streamed, each pair of tiles computed once."""

    @abstractmethod
    def quadratic_forms(self, kernel: Kernel, x: Points, c: Array) -> NDArray[np.float64]:
        """Return the diagonal (k,) of c' K(x, x) c, streamed."""

    @abstractmethod
    def features(
        self,
        kernel: Kernel,
        landmarks: Points,
        x: Points,
        factor: Array,
        *,
        keep: bool,
        sizes: bool,
    ) -> RowFeatures:
        """Return features ``L^-1 K(landmarks, x)`` of rows, or only their norms.

        ``factor`` is L (p, p) in the precision of the points. ``keep`` asks for the features themselves,
        ``sizes`` for the norms of interpolation coefficients.
        """

    def write_feature_sums(
        self,
        kernel: Kernel,
        landmarks: Points,
        x: Points,
        factor: Array,
        group: int,
        sums: Array,
        squares: Array,
        *,
        differences: bool = False,
    ) -> None:
        """Write sums (n / group, p) of the features of ``group`` rows in turn, and squares (n,) of all.

        With ``differences``, and groups of two rows, the second is subtracted from the first.
        """
        row_features = self.features(kernel, landmarks, x, factor, keep=True, sizes=False)
        values = self.to_host(row_features.values)
        if differences:
            values = values[:, ::2] - values[:, 1::2]
        elif group > 1:
            values = values.reshape(landmarks.n, -1, group).sum(axis=2, dtype=np.float64)
        sums[...] = values.T
        squares[...] = row_features.squares

    @abstractmethod
    def add_products(
        self, f: Array, rhs: Array, weight: Array | None, gram: Array, cross: Array
    ) -> None:
        """Add ``f diag(w) f'`` to gram (p, p) and ``f diag(w) rhs`` to cross (p, c), in float64.

        ``f`` (p, b) holds features; ``rhs`` has shape (b, c), ``weight`` (b,) or None.
        """

    def products(self, rank: int, columns: int) -> Products:
        """Return empty sums for `add_products`."""
        return HostProducts(self, rank, columns)

    @abstractmethod
    def pack(self, kernel: Kernel, x: Points) -> PackedGram:
        """Return the packed tiles of K(x, x)."""

    @abstractmethod
    def pack_matmul(
        self, kernel: Kernel, x: Points, v: Array
    ) -> tuple[PackedGram, NDArray[np.float64]]:
        """Return the packed tiles of K(x, x) and K(x, x) v, in one pass."""

    def free(self, packed: PackedGram, memory_limit: int) -> None:
        """Free packed tiles; their memory may wait for the next ones, as a small part of a limit."""
        del packed, memory_limit  # arrays go with their last reference

    @property
    def packs_parts(self) -> bool:
        """Whether the backend can store the tiles of the first row blocks only."""
        return False

    def pack_part_matmul(
        self, kernel: Kernel, x: Points, v: Array, row_blocks: int
    ) -> tuple[PackedGram, NDArray[np.float64]]:
        """Return what `pack_matmul` does, with the tiles of the first ``row_blocks`` only."""
        raise NotImplementedError(f"backend {self.name!r} stores all tiles or none")

    @property
    def sums_groups(self) -> bool:
        """Whether the backend sums kernel values over groups of points (`group_sums`)."""
        return False

    def group_sums(
        self, kernel: Kernel, x: Points, starts: NDArray[np.int64], share: Array, groups: slice
    ) -> Array:
        """Return ``S' K(x, x) S`` for some groups of successive points, and all from the first of them on.

        Group g holds the points ``starts[g]`` to ``starts[g + 1]``. S has a column for each group, with
        the entries ``share`` (n,) of its points.
        """
        raise NotImplementedError(self.name)

    @property
    def quantizes(self) -> bool:
        """Whether the backend has quantized tiles."""
        return False

    def quantize_matmul(
        self, kernel: Kernel, x: Points, v: Array, row_blocks: int | None = None
    ) -> tuple[QuantizedGram, NDArray[np.float64]]:
        """Return quantized tiles in float32, and K(x, x) v from the values before.

        With ``row_blocks`` the tiles are those of the first row blocks.
        """
        raise NotImplementedError(f"backend {self.name!r} has no quantized tiles")

    @abstractmethod
    def packed_matmul(self, packed: PackedGram, v: Array) -> NDArray[np.float64]:
        """Return the product (n, k) of packed tiles with v."""

    @abstractmethod
    def packed_add_diagonal(self, packed: PackedGram, diagonal: NDArray[np.float64]) -> None:
        """Add ``diagonal`` to the diagonal, in place."""

    @abstractmethod
    def packed_cholesky(self, packed: PackedGram) -> None:
        """Replace the matrix by its Cholesky factor, in place; raises `NotPositiveDefiniteError`."""

    @abstractmethod
    def packed_solve(self, packed: PackedGram, b: Array) -> NDArray[np.float64]:
        """Return ``L'^-1 L^-1 b`` (n, k) for a factor L."""

    def packed_shape(self, n: int) -> tuple[int, int, int]:
        """Return the shape of the packed tiles of an n x n matrix."""
        return packed_shape(n, self.tile)
