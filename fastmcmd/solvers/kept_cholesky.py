"""Cholesky in memory that can be gone on with: tile row by tile row, each written when it is finished.

Packed tiles lie row after row, so that the first rows are the factor of the leading block, ready for use.
With them the next row of blocks is bordered::

    L_21' = L_11^-1 A_21',    L_22 L_22' = A_22 - L_21 L_21'

as many operations as the factorisation of the whole, nearly all of them in one substitution with many
right-hand sides. The file is written only, and read by a run that goes on.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd.backends.base import Array, Backend, NotPositiveDefiniteError, PackedGram, Points
from fastmcmd.backends.cpu import CpuBackend, core
from fastmcmd.checkpoint import fingerprint_of
from fastmcmd.gram import GramOperator
from fastmcmd.progress import Progress
from fastmcmd.solvers.factor_file import FactorFile, Kept, OnFile, making
from fastmcmd.threads import get_num_threads

__all__ = ["KeptCholesky", "work_bytes"]

_COLUMNS = 4096  # prepared together: enough for all threads, little is computed beyond the diagonal


def work_bytes(operator: GramOperator) -> int:
    """Return the bytes that are needed besides the factor and the prepared rows while it is made."""
    tile = operator.backend.tile
    # A row of blocks, its transpose and the copy that the core makes of it; blocks of K.
    return tile * (3 * len(operator) + _COLUMNS + 4 * tile) * operator.dtype.itemsize


class KeptCholesky(OnFile):
    """The factor of ``K + diag(shift)`` in memory, and in a file for a later run.

    Parameters
    ----------
    operator : GramOperator
        K; its rows of blocks are computed when their turn comes, in the operator's precision.
    shift : ndarray (n,), float64
        Diagonal that is added.
    kept : Kept
        Where the file is, and how many rows of blocks are done; the factorisation goes on with the next.
    progress : Progress, optional
        Told of each row of blocks.

    Attributes
    ----------
    packed : PackedGram
        The factor, for `Backend.packed_solve`.

    Raises
    ------
    NotPositiveDefiniteError
        A pivot is not positive in the operator's precision; its ``index`` is that of the row.
    OSError
        The folder is missing or cannot be written, or the disk is full.

    Notes
    -----
    Sums run in another order than in `Backend.packed_cholesky`: both factors differ by rounding.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from fastmcmd import RBF
    >>> from fastmcmd.backends import get_backend
    >>> from fastmcmd.checkpoint import Checkpoint
    >>> from fastmcmd.gram import GramOperator
    >>> x = np.linspace(0.0, 1.0, 50)[:, None]
    >>> kernel, shift, rhs = RBF(1.0), np.full(50, 5.0), np.ones((50, 1))
    >>> operator = GramOperator(get_backend("numpy", kernel), kernel, x, np.dtype("f8"), 10**8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stage = Checkpoint(Path(folder, "run.ckpt"), "an example").stage("factor")
    ...     factor = KeptCholesky(operator, shift, Kept(Path(folder), stage))
    ...     b = operator.backend.packed_solve(factor.packed, rhs)
    ...     factor.close()
    >>> np.allclose(kernel(x) @ b + shift[:, None] * b, rhs)
    True
    """

    def __init__(
        self,
        operator: GramOperator,
        shift: NDArray[np.float64],
        kept: Kept,
        progress: Progress | None = None,
    ) -> None:
        self._operator, self._shift = operator, shift
        shape, dtype = operator.backend.packed_shape(len(operator)), operator.dtype
        of = fingerprint_of(shift, str(dtype), operator.backend.name, shape[-1])
        self._file = file = FactorFile(kept.folder, int(np.prod(shape)), dtype, of, kept)
        with making(self):
            self.packed = PackedGram(np.zeros(shape, dtype), len(operator))
            self._factor(file, progress or Progress(False, 1.0))

    @property
    def nbytes(self) -> int:
        """Bytes of the factor in memory."""
        return self.packed.nbytes

    def _factor(self, file: FactorFile, progress: Progress) -> None:
        n, tiles = self.packed.n, self.packed.tiles
        tile = tiles.shape[-1]
        count = -(-n // tile)
        for row in range(file.done):
            some = self._row(row)
            file.read(some.start * tile**2, tiles[some])
        name = "Cholesky factorisation"
        if file.done:
            columns = min(n, file.done * tile)
            progress.stage(f"went on from a checkpoint after {columns:,} columns of the factor")
        progress.stage(name)
        columns_of = _Columns(self._operator)
        for row in range(file.done, count):
            self._border(row, columns_of)
            some = self._row(row)
            file.write(some.start * tile**2, tiles[some])
            file.finished(row + 1)
            if progress.due:
                progress.tell(name, (min(n, (row + 1) * tile) / n) ** 3)  # of n^3 / 3 operations

    @staticmethod
    def _row(row: int) -> slice:
        """Return where the tiles of a row of blocks are."""
        return slice(row * (row + 1) // 2, (row + 1) * (row + 2) // 2)

    def _border(self, row: int, columns: _Columns) -> None:
        """Make a row of blocks from those before it."""
        operator, tiles = self._operator, self.packed.tiles
        backend, tile = operator.backend, tiles.shape[-1]
        start, stop = row * tile, min(self.packed.n, (row + 1) * tile)
        size, places = stop - start, self._row(row)
        own = operator.prepare(operator.x[start:stop], operator.dtype)
        square = np.array(backend.gram(operator.kernel, own), dtype=operator.dtype)
        if row:
            transposed = columns.beside(own, start)
            before = PackedGram(tiles[: places.start], start)
            _solve_lower(backend, before, transposed)
            left = columns.left[: size * start].reshape(size, start)
            for j in range(row):  # transposed tile by tile, in the cache
                some = slice(j * tile, (j + 1) * tile)
                tiles[places.start + j, :size] = transposed[some].T
                left[:, some] = tiles[places.start + j, :size]
            products = np.zeros((size, size))
            backend.add_products(left, np.zeros((start, 1)), None, products, np.zeros((size, 1)))
            square -= products
        last = tiles[places.stop - 1 : places.stop]
        last[0, :size, :size] = square
        corner = PackedGram(last, size)
        backend.packed_add_diagonal(corner, self._shift[start:stop])
        try:
            backend.packed_cholesky(corner)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(start + error.index) from None


class _Columns:
    """K of the first rows of an operator with some after them, from rows prepared in blocks."""

    def __init__(self, operator: GramOperator) -> None:
        self._operator = operator
        self._blocks: list[Points] = []
        # One place for all rows of blocks: new pages each time would cost as much as what is written there.
        size = operator.backend.tile * len(operator)
        self._out, self.left = np.empty((2, size), operator.dtype)

    def beside(self, own: Points, before: int) -> Array:
        """Return K (before, m) of the first ``before`` rows with ``own``; valid until the next call."""
        operator = self._operator
        out = self._out[: before * own.n].reshape(before, own.n)
        for index, start in enumerate(range(0, before, _COLUMNS)):
            if index == len(self._blocks):
                x = operator.x[start : start + _COLUMNS]
                self._blocks.append(operator.prepare(x, operator.dtype))
            stop = min(before, start + _COLUMNS)
            block = operator.backend.gram(operator.kernel, self._blocks[index], own)
            out[start:stop] = block[: stop - start]
        return out


def _solve_lower(backend: Backend, packed: PackedGram, b: Array) -> None:
    """Overwrite b (n, k) with L^-1 b; all tiles of L are full."""
    if isinstance(backend, CpuBackend):
        core().packed_solve_lower(packed.tiles, packed.n, b, threads=get_num_threads())
        return
    tiles, tile = packed.tiles, packed.tiles.shape[-1]
    blocks = b.reshape(-1, tile, b.shape[1])
    for j, own in enumerate(blocks):
        own[...] = scipy.linalg.solve_triangular(
            tiles[j * (j + 3) // 2], own, lower=True, check_finite=False
        )
        for i in range(j + 1, len(blocks)):
            blocks[i] -= tiles[i * (i + 1) // 2 + j] @ own
