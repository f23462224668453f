"""Cholesky beyond memory: the factor of K + D in a file, made and read in panels.

A panel is a number of strips of columns, as many as memory holds (see `strips`). Each panel is filled with
its part of K, has every earlier strip applied to it, read block by block from the file (left-looking, so
that the file is written once), and is factored in memory, strip by strip; a strip is written when it is
finished. The file is read about ``n / (3 w)`` times for panels of w columns.

All blocks are contiguous and row-major, which is Fortran's order of their transposes: BLAS then works
in place, without copies or temporaries. No single call takes more than a fraction of a second, so that
Ctrl-C is answered.
"""

from __future__ import annotations

import os
import time

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd.backends.base import Array, NotPositiveDefiniteError
from fastmcmd.checkpoint import fingerprint_of
from fastmcmd.gram import GramOperator
from fastmcmd.progress import Progress
from fastmcmd.solvers.factor_file import FactorFile, Kept, OnFile, making
from fastmcmd.solvers.strips import Strip, choose, strips_of

__all__ = ["PanelCholesky"]

_NAME = "Cholesky factorisation"


class PanelCholesky(OnFile):
    """Factor ``K + diag(shift)`` into a file, and solve with it.

    Parameters
    ----------
    operator : GramOperator
        K; its blocks are computed when their panel's turn comes, in the operator's precision, which
        is also the factor's.
    shift : ndarray (n,), float64
        Diagonal that is added.
    directory : str or os.PathLike
        Existing folder for the file, about ``n^2 / 2`` numbers; not used with ``kept``, which names one. A
        folder in memory (some systems' /tmp) defeats the purpose.
    room : int
        Bytes for the current panel, the blocks being applied to it and prepared rows.
    progress : Progress, optional
        Told of each panel and the rate so far.
    kept : Kept, optional
        Where it is kept how many strips are done. The file then has a name, and stays when the process is
        killed or interrupted: the same factorisation goes on with the next strip.

    Raises
    ------
    MemoryLimitError
        ``room`` is less than `fastmcmd.solvers.strips.least_room`.
    NotPositiveDefiniteError
        A pivot is not positive in the operator's precision; its ``index`` is that of the row.
    OSError
        The folder is missing or cannot be written, or the disk is full.

    Notes
    -----
    Without ``kept`` the file has no name: it is removed from the folder when it is opened (on Windows the
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

    def __init__(
        self,
        operator: GramOperator,
        shift: NDArray[np.float64],
        directory: str | os.PathLike[str] | None,
        room: int,
        progress: Progress | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._operator = operator
        self._dtype = operator.dtype
        self._cut = choose(operator, room)
        self._strips = strips_of(self._cut.n, self._cut.width)
        self._gemm, self._trsm = scipy.linalg.get_blas_funcs(("gemm", "trsm"), dtype=self._dtype)
        (self._potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), dtype=self._dtype)
        panels = self._cut.panels(room)
        size = sum(strip.size for strip in self._strips)
        starts = [panel[0].start for panel in panels]
        of = fingerprint_of(shift, str(self._dtype), self._cut.width, "strips", str(starts))
        self._file = FactorFile(directory, size, self._dtype, of, kept)
        with making(self):
            self._factor(shift, panels, _Told(progress or Progress(False, 1.0), self._cut.n))

    def _factor(self, shift: NDArray[np.float64], panels: list[list[Strip]], told: _Told) -> None:
        file = self._held()
        if file.done:
            told.went_on(self._strips[file.done - 1].stop)
        buffer = np.empty(max(sum(s.size for s in panel) for panel in panels), self._dtype)
        for index, panel in enumerate(panels):
            first = panel[0].start // self._cut.width
            ready = min(max(file.done - first, 0), len(panel))  # a run before this one did these
            if ready == len(panel):
                continue
            told.panel(index + 1, len(panels), panel[0].start)
            held, at = [], 0
            for strip in panel:
                held.append(buffer[at : at + strip.size].reshape(strip.rows, strip.width))
                at += strip.size
            for strip, block in zip(panel[:ready], held, strict=False):
                for rows in self._cut.blocks(0, strip.rows):
                    self._read(strip, rows, block[rows])
            if first:
                for strip, block in zip(panel[ready:], held[ready:], strict=True):
                    self._fill(strip, block, shift)
                self._apply_file(panel, held, ready)
            for place in range(ready, len(panel)):
                strip, block = panel[place], held[place]
                if not first:  # not before its turn: a slow kernel's values are kept with it
                    self._fill(strip, block, shift)
                self._factor_strip(panel[: place + 1], held[: place + 1])
                for rows in self._cut.blocks(0, strip.rows):
                    file.write(strip.offset + rows.start * strip.width, block[rows])
                file.finished(first + place + 1)
                told.strip(strip.stop)
        told.end(len(panels))

    def _fill(self, strip: Strip, block: Array, shift: NDArray[np.float64]) -> None:
        """Compute the strip's part of K + diag(shift)."""
        operator = self._operator
        columns = operator.prepare(operator.x[strip.start : strip.stop], self._dtype)
        for rows in self._cut.blocks(0, strip.rows, self._cut.gram_rows):
            x = operator.x[strip.start + rows.start : strip.start + rows.stop]
            targets = operator.prepare(x, self._dtype)
            block[rows] = operator.backend.gram(operator.kernel, targets, columns)
        own = np.arange(strip.width)
        block[own, own] += shift[strip.start : strip.stop]

    def _subtract(self, target: Array, left: Array, right: Array) -> None:
        """Subtract ``left right'`` from ``target``, all row-major, in place."""
        self._gemm(-1.0, right.T, left.T, 1.0, target.T, trans_a=1, overwrite_c=1)

    def _apply_file(self, panel: list[Strip], held: list[Array], ready: int) -> None:
        """Subtract what earlier panels, in the file, contribute to the strips from ``ready`` on."""
        start, stop = panel[0].start, panel[-1].stop
        width, n = self._cut.width, self._cut.n
        square = np.empty((stop - start) * width, self._dtype)
        staged = np.empty(self._cut.rows * width, self._dtype)
        for strip in self._strips[: start // width]:
            head = square.reshape(-1, strip.width)  # its rows that are the panel's columns
            skip = strip.start
            self._read(strip, slice(start - skip, stop - skip), head)
            for rows in self._cut.blocks(start, n):
                if rows.stop <= stop:
                    block = head[rows.start - start : rows.stop - start]
                else:
                    block = staged[: (rows.stop - rows.start) * strip.width]
                    block = block.reshape(-1, strip.width)
                    self._read(strip, slice(rows.start - skip, rows.stop - skip), block)
                for own, target in zip(panel[ready:], held[ready:], strict=True):
                    first = max(rows.start, own.start)
                    if first < rows.stop:
                        self._subtract(
                            target[first - own.start : rows.stop - own.start],
                            block[first - rows.start :],
                            head[own.start - start : own.stop - start],
                        )

    def _read(self, strip: Strip, rows: slice, out: Array) -> None:
        """Read rows of a strip, counted in the strip; the next of them are soon wanted."""
        start = strip.offset + rows.start * strip.width
        self._held().read(start, out)
        rest = strip.offset + strip.size - start - out.size
        self._held().expect(start + out.size, min(rest, out.size))

    def _factor_strip(self, panel: list[Strip], held: list[Array]) -> None:
        """Factor the last of some neighbouring strips in memory; the others are finished."""
        strip, block = panel[-1], held[-1]
        for rows in self._cut.blocks(0, strip.rows):
            for left, done in zip(panel[:-1], held[:-1], strict=True):
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
        for rows in self._cut.blocks(strip.width, strip.rows):
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
        cut = self._cut
        square = np.empty(cut.width**2, self._dtype)
        staged = np.empty(cut.rows * cut.width, self._dtype)
        for strip in self._strips:
            triangle = self._rows(strip, slice(strip.start, strip.stop), square)
            own = work[strip.start : strip.stop]
            self._trsm(1.0, triangle.T, own.T, side=1, lower=0, trans_a=0, overwrite_b=1)
            for rows in cut.blocks(strip.stop, cut.n):
                block = self._rows(strip, rows, staged)
                self._gemm(-1.0, own.T, block.T, 1.0, work[rows].T, overwrite_c=1)
        for strip in reversed(self._strips):
            own = work[strip.start : strip.stop]
            for rows in cut.blocks(strip.stop, cut.n):
                block = self._rows(strip, rows, staged)
                self._gemm(-1.0, work[rows].T, block.T, 1.0, own.T, trans_b=1, overwrite_c=1)
            triangle = self._rows(strip, slice(strip.start, strip.stop), square)
            self._trsm(1.0, triangle.T, own.T, side=1, lower=0, trans_a=1, overwrite_b=1)
        return work.astype(np.float64, copy=False)

    def _rows(self, strip: Strip, rows: slice, staged: Array) -> Array:
        """Read rows of a strip, counted in the matrix.

        Of its square on the diagonal what is above the diagonal has no meaning.
        """
        out = staged[: (rows.stop - rows.start) * strip.width].reshape(-1, strip.width)
        self._read(strip, slice(rows.start - strip.start, rows.stop - strip.start), out)
        return out

    @property
    def nbytes_on_disk(self) -> int:
        """Bytes of the file; 0 once it is closed."""
        return self._file.nbytes if self._file is not None else 0

    def _held(self) -> FactorFile:
        if self._file is None:
            raise ValueError("the factor was closed; make a new PanelCholesky to solve again")
        return self._file

    def __enter__(self) -> PanelCholesky:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class _Told:
    """What is told of a factorisation of n columns, and the rate so far."""

    def __init__(self, progress: Progress, n: int) -> None:
        self._progress, self._n = progress, n
        self._begun, self._before = time.perf_counter(), 0.0
        self._name = _NAME

    def _work(self, columns: int) -> float:
        return columns**2 * (self._n - 2 / 3 * columns)  # left-looking: 2 c (n - c) for column c

    def _rate(self, columns: int) -> str:
        done = self._work(columns) - self._before
        return f"{done / max(time.perf_counter() - self._begun, 1e-9) / 1e9:.1f} GFLOP/s"

    def went_on(self, columns: int) -> None:
        """Tell that a run before this one had so many columns."""
        self._before = self._work(columns)
        self._progress.stage(f"went on from a checkpoint after {columns:,} columns of the factor")

    def panel(self, number: int, count: int, columns: int) -> None:
        """Tell that a panel begins, after so many columns."""
        self._name = _NAME + (f", panel {number} of {count}" if count > 1 else "")
        known = self._work(columns) > self._before
        self._progress.stage(self._name + (f", {self._rate(columns)}" if known else ""))

    def strip(self, columns: int) -> None:
        """Tell that so many columns are done."""
        if self._progress.due:
            share = self._work(columns) / self._work(self._n)
            self._progress.tell(self._name, share, self._rate(columns))

    def end(self, count: int) -> None:
        """Tell that all are done."""
        panels = f", {count} panels" if count > 1 else ""
        self._progress.stage(f"{_NAME}{panels}, {self._rate(self._n)}")
