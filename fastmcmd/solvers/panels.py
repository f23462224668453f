"""Cholesky beyond memory: the factor of K + D in a file, made and read in panels.

The factor is stored as strips: strip s holds the columns ``[s0, s1)`` of its rows ``s0..n``, row by row,
one strip after the other, n^2 / 2 numbers in all. A panel is as many neighbouring strips as memory
holds. Each panel is filled with its part of K, has every earlier strip applied to it, read block by
block from the file (left-looking, so that the file is written once), is factored in memory and
written. The file is read about ``n / (3 w)`` times for panels of w columns.

All blocks are contiguous and row-major, which is Fortran's order of their transposes: BLAS then works
in place, without copies or temporaries. No single call takes more than a fraction of a second, so that
Ctrl-C is answered.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd.backends.base import Array, NotPositiveDefiniteError
from fastmcmd.checkpoint import Keep, State, fingerprint_of
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import GramOperator
from fastmcmd.memory import format_bytes
from fastmcmd.progress import Progress
from fastmcmd.solvers.scratch import ScratchFile

__all__ = ["PanelCholesky", "file_bytes", "least_room"]

_WIDTHS = (512, 256, 128, 64)  # of strips; BLAS is at its rate from 256, less only for lack of room
_ROWS = 4096  # of a block: with 512 columns 2 GFLOP, some ten milliseconds
_GRAM_WORK = 4e9  # operations of one call for a block of K


@dataclass(frozen=True)
class _Strip:
    """Columns ``[start, stop)`` of rows ``start..n`` of the factor; ``offset`` counts numbers."""

    start: int
    stop: int
    rows: int
    offset: int

    @property
    def width(self) -> int:
        return self.stop - self.start

    @property
    def size(self) -> int:
        return self.rows * self.width


def _strips(n: int, width: int) -> list[_Strip]:
    strips, offset = [], 0
    for start in range(0, n, width):
        strips.append(_Strip(start, min(n, start + width), n - start, offset))
        offset += strips[-1].size
    return strips


@dataclass(frozen=True)
class _Plan:
    """How the factor is cut; sizes in numbers of ``itemsize`` bytes."""

    n: int
    dim: int
    itemsize: int
    width: int
    rows: int

    @property
    def gram_rows(self) -> int:
        """Rows of a block of K: no more bytes than a block of the factor, and soon done."""
        fits = self.rows * self.width * self.itemsize // (16 * self.dim)
        return max(1, min(self.rows, fits, int(_GRAM_WORK / (2 * self.width * self.dim))))

    def bytes_of(self, panel: list[_Strip]) -> int:
        """Return the bytes held while a panel is made."""
        columns = panel[-1].stop - panel[0].start
        numbers = sum(strip.size for strip in panel)
        numbers += (columns + self.rows + self.gram_rows) * self.width
        # Rows prepared for the backend, and once more in float64 while they are moved.
        prepared = (self.gram_rows + self.width) * self.dim * (self.itemsize + 8)
        return numbers * self.itemsize + prepared

    def panels(self, room: int) -> list[list[_Strip]]:
        """Return the strips in panels that fit; later ones hold more columns, their rows are fewer."""
        panels: list[list[_Strip]] = []
        for strip in _strips(self.n, self.width):
            if panels and self.bytes_of([*panels[-1], strip]) <= room:
                panels[-1].append(strip)
            else:
                panels.append([strip])
        return panels


def _least(operator: GramOperator) -> _Plan:
    width = min(_WIDTHS[-1], len(operator))
    return _Plan(len(operator), operator.dim, operator.dtype.itemsize, width, width)


def least_room(operator: GramOperator) -> int:
    """Return the bytes of the narrowest panels with which K + D can be factored."""
    plan = _least(operator)
    return plan.bytes_of(_strips(plan.n, plan.width)[:1])


def _block_rows(width: int) -> Iterator[int]:
    rows = _ROWS
    while rows > width:
        yield rows
        rows //= 2
    yield width  # the least: the square on the diagonal is read as one block


def _choose(operator: GramOperator, room: int) -> _Plan:
    """Return the plan of widest strips, then of longest blocks, that fits."""
    least = _least(operator)
    for width in (min(width, least.n) for width in _WIDTHS):
        for rows in _block_rows(width):
            plan = _Plan(least.n, least.dim, least.itemsize, width, rows)
            # Blocks only stage: seven eighths are for the panel, or as much as can be had.
            small = rows == width or 8 * rows * width * plan.itemsize <= room
            if small and plan.bytes_of(_strips(plan.n, width)[:1]) <= room:
                return plan
    raise MemoryLimitError(
        f"solver='cholesky' with cache_dir needs {format_bytes(least_room(operator))} for panels of "
        f"the factor of {least.n:,} distinct inputs, and memory_limit leaves {format_bytes(room)}; "
        "raise memory_limit or use solver='cg'"
    )


def file_bytes(operator: GramOperator) -> int:
    """Return the most bytes that the file of the factor can take."""
    width = min(_WIDTHS[0], len(operator))
    return sum(strip.size for strip in _strips(len(operator), width)) * operator.dtype.itemsize


class PanelCholesky:
    """Factor ``K + diag(shift)`` into a file, and solve with it.

    Parameters
    ----------
    operator : GramOperator
        K; its blocks are computed when their panel's turn comes, in the operator's precision, which
        is also the factor's.
    shift : ndarray (n,), float64
        Diagonal that is added.
    directory : str or os.PathLike
        Existing folder for the file, about ``n^2 / 2`` numbers. A folder in memory (some systems'
        /tmp) defeats the purpose.
    room : int
        Bytes for the current panel, the blocks being applied to it and prepared rows.
    progress : Progress, optional
        Told of each panel and the rate so far.
    keep : Keep, optional
        Where it is kept how many panels are done. The file then has a name, and stays when the process is
        killed or interrupted: the same factorisation goes on with the next panel.

    Raises
    ------
    MemoryLimitError
        ``room`` is less than `least_room`.
    NotPositiveDefiniteError
        A pivot is not positive in the operator's precision; its ``index`` is that of the row.
    OSError
        The folder is missing or cannot be written, or the disk is full.

    Notes
    -----
    Without ``keep`` the file has no name: it is removed from the folder when it is opened (on Windows the
    system removes it when it is closed), so nothing is left behind by an error, an interrupt or even a
    killed process, and runs in the same folder do not meet. Its space is taken at the start where the file
    system can. `close`, or leaving the ``with`` block, gives it back.

    BLAS is SciPy's and uses its own number of threads.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from fastmcmd import RBF
    >>> from fastmcmd.backends import get_backend
    >>> from fastmcmd.gram import GramOperator
    >>> from fastmcmd.solvers.panels import PanelCholesky
    >>> x = np.linspace(0.0, 1.0, 50)[:, None]
    >>> kernel, shift, rhs = RBF(1.0), np.full(50, 5.0), np.ones((50, 1))
    >>> operator = GramOperator(get_backend("numpy", kernel), kernel, x, np.dtype("f8"), 10**8)
    >>> with PanelCholesky(operator, shift, tempfile.gettempdir(), 10**6) as factor:
    ...     b = factor.solve(rhs)
    >>> np.allclose(kernel(x) @ b + shift[:, None] * b, rhs)
    True
    """

    _file: ScratchFile | None = None

    def __init__(
        self,
        operator: GramOperator,
        shift: NDArray[np.float64],
        directory: str | os.PathLike[str],
        room: int,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> None:
        self._operator = operator
        self._dtype = operator.dtype
        self._plan = _choose(operator, room)
        self._strips = _strips(self._plan.n, self._plan.width)
        self._gemm, self._trsm = scipy.linalg.get_blas_funcs(("gemm", "trsm"), dtype=self._dtype)
        (self._potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), dtype=self._dtype)
        panels, size = self._plan.panels(room), sum(strip.size for strip in self._strips)
        told = name = None
        if keep is not None:
            cut = [panel[0].start for panel in panels]
            told = fingerprint_of(shift, str(self._dtype), self._plan.width, str(cut))
            name = f"fastmcmd-{told[:16]}.factor"
        self._file = ScratchFile(directory, size, self._dtype, name)
        saved = None if keep is None else keep.load()
        done = 0
        if saved is not None and self._file.found and str(saved["of"]) == told:
            done = int(saved["panels"])

        def finished(count: int) -> None:
            def state() -> State:
                self._held().sync()  # before the checkpoint says that it is there
                return {"of": np.array(told), "panels": np.array(count)}

            if keep is not None:
                keep.save(state)

        try:
            self._factor(shift, panels, progress, done, finished)
        except KeyboardInterrupt:
            self.leave()
            raise
        except BaseException:
            self.close()
            raise

    def _factor(
        self, shift: NDArray[np.float64], panels: list[list[_Strip]], progress: Progress | None,
        done: int, finished: Callable[[int], None],
    ) -> None:  # fmt: skip
        n, begun = self._plan.n, time.perf_counter()

        def told(text: str, columns: int) -> None:
            if progress is not None:
                work = columns**2 * (n - 2 / 3 * columns)  # left-looking: 2 c (n - c) for column c
                rate = work / max(time.perf_counter() - begun, 1e-9) / 1e9
                progress.stage(text + (f", {rate:.1f} GFLOP/s" if columns else ""))

        buffer = np.empty(max(sum(s.size for s in panel) for panel in panels), self._dtype)
        for index, panel in enumerate(panels):
            if index < done:
                continue
            told(f"Cholesky factorisation, panel {index + 1} of {len(panels)}", panel[0].start)
            held, at = [], 0
            for strip in panel:
                held.append(buffer[at : at + strip.size].reshape(strip.rows, strip.width))
                at += strip.size
            for strip, block in zip(panel, held, strict=True):
                self._fill(strip, block, shift)
            self._apply_file(panel, held)
            self._factor_panel(panel, held)
            for strip, block in zip(panel, held, strict=True):
                for rows in self._blocks(0, strip.rows):
                    self._held().write(strip.offset + rows.start * strip.width, block[rows])
            finished(index + 1)
        told(f"Cholesky factorisation, {len(panels)} panels", n)

    def _blocks(self, start: int, stop: int, step: int | None = None) -> Iterator[slice]:
        step = step or self._plan.rows
        for first in range(start, stop, step):
            yield slice(first, min(stop, first + step))

    def _fill(self, strip: _Strip, block: Array, shift: NDArray[np.float64]) -> None:
        """Compute the strip's part of K + diag(shift)."""
        operator = self._operator
        columns = operator.prepare(operator.x[strip.start : strip.stop], self._dtype)
        for rows in self._blocks(0, strip.rows, self._plan.gram_rows):
            x = operator.x[strip.start + rows.start : strip.start + rows.stop]
            targets = operator.prepare(x, self._dtype)
            block[rows] = operator.backend.gram(operator.kernel, targets, columns)
        own = np.arange(strip.width)
        block[own, own] += shift[strip.start : strip.stop]

    def _subtract(self, target: Array, left: Array, right: Array) -> None:
        """Subtract ``left right'`` from ``target``, all row-major, in place."""
        self._gemm(-1.0, right.T, left.T, 1.0, target.T, trans_a=1, overwrite_c=1)

    def _apply_file(self, panel: list[_Strip], held: list[Array]) -> None:
        """Subtract from the panel what earlier strips, in the file, contribute to it."""
        start, stop = panel[0].start, panel[-1].stop
        width, n = self._plan.width, self._plan.n
        square = np.empty((stop - start) * width, self._dtype)
        staged = np.empty(self._plan.rows * width, self._dtype)
        for strip in self._strips[: start // width]:
            head = square.reshape(-1, strip.width)  # its rows that are the panel's columns
            self._read(strip, slice(start, stop), head)
            for rows in self._blocks(start, n):
                if rows.stop <= stop:
                    block = head[rows.start - start : rows.stop - start]
                else:
                    block = staged[: (rows.stop - rows.start) * strip.width]
                    block = block.reshape(-1, strip.width)
                    self._read(strip, rows, block)
                for own, target in zip(panel, held, strict=True):
                    first = max(rows.start, own.start)
                    if first < rows.stop:
                        self._subtract(
                            target[first - own.start : rows.stop - own.start],
                            block[first - rows.start :],
                            head[own.start - start : own.stop - start],
                        )

    def _read(self, strip: _Strip, rows: slice, out: Array) -> None:
        """Read rows (counted in the matrix) of a strip; the next of them are soon wanted."""
        start = strip.offset + (rows.start - strip.start) * strip.width
        self._held().read(start, out)
        rest = strip.offset + strip.size - start - out.size
        self._held().expect(start + out.size, min(rest, out.size))

    def _factor_panel(self, panel: list[_Strip], held: list[Array]) -> None:
        """Factor the panel's strips in memory, each after those to its left were applied."""
        for index, (strip, block) in enumerate(zip(panel, held, strict=True)):
            for rows in self._blocks(0, strip.rows):
                for left, done in zip(panel[:index], held[:index], strict=True):
                    skip = strip.start - left.start
                    self._subtract(
                        block[rows],
                        done[skip + rows.start : skip + rows.stop],
                        done[skip : skip + strip.width],
                    )
            square = block[: strip.width]
            _, bad = self._potrf(square.T, lower=0, clean=0, overwrite_a=1)
            pivots = np.diagonal(square)
            if not bad and not np.isfinite(pivots).all():
                bad = int(np.argmin(np.isfinite(pivots))) + 1
            if bad:
                raise NotPositiveDefiniteError(strip.start + int(bad) - 1)
            for rows in self._blocks(strip.width, strip.rows):
                self._trsm(1.0, square.T, block[rows].T, side=0, lower=0, trans_a=1, overwrite_b=1)

    def solve(self, rhs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(K + diag(shift))^-1 rhs``, computed in the factor's precision.

        Parameters
        ----------
        rhs : ndarray (n, k), float64
            Right-hand sides; not changed. The file is read twice, whatever k.

        Returns
        -------
        ndarray (n, k), float64
            Solutions.

        Raises
        ------
        ValueError
            The factor was closed.
        OSError
            The file cannot be read.
        """
        self._held()
        work = np.array(rhs, dtype=self._dtype, order="C")
        if not work.size:
            return work.astype(np.float64, copy=False)
        width = self._plan.width
        square = np.empty(width * width, self._dtype)
        staged = np.empty(self._plan.rows * width, self._dtype)
        for strip in self._strips:
            triangle, own = self._triangle(strip, square), work[strip.start : strip.stop]
            self._trsm(1.0, triangle.T, own.T, side=1, lower=0, trans_a=0, overwrite_b=1)
            for rows, block in self._below(strip, staged):
                self._gemm(-1.0, own.T, block.T, 1.0, work[rows].T, overwrite_c=1)
        for strip in reversed(self._strips):
            own = work[strip.start : strip.stop]
            for rows, block in self._below(strip, staged):
                self._gemm(-1.0, work[rows].T, block.T, 1.0, own.T, trans_b=1, overwrite_c=1)
            triangle = self._triangle(strip, square)
            self._trsm(1.0, triangle.T, own.T, side=1, lower=0, trans_a=1, overwrite_b=1)
        return work.astype(np.float64, copy=False)

    def _triangle(self, strip: _Strip, square: Array) -> Array:
        """Read the strip's square on the diagonal; what is above the diagonal has no meaning."""
        out = square[: strip.width**2].reshape(strip.width, strip.width)
        self._read(strip, slice(strip.start, strip.stop), out)
        return out

    def _below(self, strip: _Strip, staged: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the rows below that square in blocks, all in the same buffer."""
        for rows in self._blocks(strip.stop, self._plan.n):
            block = staged[: (rows.stop - rows.start) * strip.width].reshape(-1, strip.width)
            self._read(strip, rows, block)
            yield rows, block

    @property
    def nbytes_on_disk(self) -> int:
        """Bytes of the file; 0 once it is closed."""
        return self._file.nbytes if self._file is not None else 0

    def _held(self) -> ScratchFile:
        if self._file is None:
            raise ValueError("the factor was closed; make a new PanelCholesky to solve again")
        return self._file

    def leave(self) -> None:
        """Close the file; one that a later run can go on with stays."""
        file, self._file = self._file, None
        if file is not None:
            file.close(leave=True)

    def close(self) -> None:
        """Remove the file; may be called again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> PanelCholesky:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
