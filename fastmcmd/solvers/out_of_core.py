"""Out-of-core Cholesky: the factor of K + D in block columns, in memory or in a file.

The algorithm works on groups of block columns, as many as memory holds (see `block_layout`). For each
group, it computes the group's part of K, reads every earlier block column from the file block by block
and subtracts its contribution (left-looking, so that the file is written once), and factors the group in
memory, column by column. It writes each block column when that is finished. The file is read about
``n / (3 w)`` times for groups of w columns. If one group holds the whole factor, the factor can stay in
memory: the file is then a copy for a later run.

All blocks are contiguous and row-major, which is the Fortran order of their transposes: BLAS then works
in place, without copies or temporaries. No single call takes more than a fraction of a second, so that
Ctrl-C acts promptly.
"""

from __future__ import annotations

import os
import time

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd._base.progress import Progress
from fastmcmd.backends.base import Array, NotPositiveDefiniteError
from fastmcmd.checkpoint import fingerprint_of
from fastmcmd.gram import GramOperator
from fastmcmd.solvers.block_layout import BlockColumn, choose_layout
from fastmcmd.solvers.factor_file import FactorFile, FactorStage, LeavingAtInterrupt

__all__ = ["OutOfCoreCholesky"]

_NAME = "Cholesky factorisation"


class OutOfCoreCholesky:
    """Factor ``K + diag(shift)`` in block columns, and solve with the factor.

    Parameters
    ----------
    operator : GramOperator
        K. The factorisation computes its blocks group by group, in the operator's precision, which is also
        the factor's.
    shift : ndarray (n,), float64
        Diagonal that is added to K.
    directory : str or os.PathLike or None
        Existing folder for the file of about ``n^2 / 2`` numbers; unused with ``stage``, which names a
        folder. A folder in memory (some systems' /tmp) defeats the purpose.
    budget : int
        Bytes for the current group, the blocks being applied to it and prepared rows.
    progress : Progress, optional
        Receives a report of each group and of the rate so far.
    stage : FactorStage, optional
        Where the number of finished block columns is saved. The file then has a name, and stays if the
        process is killed or interrupted: the same factorisation resumes with the next block column.
    in_memory : bool, default False
        Whether the factor stays in memory for solves, provided that one group within ``budget`` holds it.

    Attributes
    ----------
    in_memory : bool
        Whether the factor stays in memory.

    Raises
    ------
    MemoryLimitError
        ``budget`` is less than `fastmcmd.solvers.block_layout.least_memory`.
    NotPositiveDefiniteError
        A pivot is not positive in the operator's precision; ``index`` is its row.
    OSError
        The folder is missing or cannot be written, or the disk is full.

    Notes
    -----
    Without ``stage`` the file has no name: it is removed from the folder as soon as it is open (on Windows
    the system removes it when it is closed). So an error, an interrupt or a killed process leaves nothing
    behind, and runs in the same folder do not collide. Its space is reserved at the start if the file
    system supports that. `close`, or leaving the ``with`` block, frees it.

    BLAS is SciPy's and uses its own number of threads.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from fastmcmd import RBF
    >>> from fastmcmd.backends import get_backend
    >>> from fastmcmd.gram import GramOperator
    >>> from fastmcmd.solvers.out_of_core import OutOfCoreCholesky
    >>> x = np.linspace(0.0, 1.0, 50)[:, None]
    >>> kernel, shift, rhs = RBF(1.0), np.full(50, 5.0), np.ones((50, 1))
    >>> operator = GramOperator(get_backend("numpy", kernel), kernel, x, np.dtype("f8"), 10**8)
    >>> with OutOfCoreCholesky(operator, shift, tempfile.gettempdir(), 10**6) as factor:
    ...     b = factor.solve(rhs)
    >>> np.allclose(kernel(x) @ b + shift[:, None] * b, rhs)
    True
    """

    _file: FactorFile | None = None

    def __init__(
        self,
        operator: GramOperator,
        shift: NDArray[np.float64],
        directory: str | os.PathLike[str] | None,
        budget: int,
        progress: Progress | None = None,
        stage: FactorStage | None = None,
        *,
        in_memory: bool = False,
    ) -> None:
        self._operator = operator
        self._dtype = operator.dtype
        self._layout = choose_layout(operator, budget)
        self._columns = self._layout.columns()
        self._gemm, self._trsm = scipy.linalg.get_blas_funcs(("gemm", "trsm"), dtype=self._dtype)
        (self._potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), dtype=self._dtype)
        groups = self._layout.groups(budget)
        self.in_memory = in_memory and len(groups) == 1
        self._finished_blocks: list[Array] = []  # the finished block columns if they stay in memory
        size = sum(column.size for column in self._columns)
        starts = [group[0].start for group in groups]
        of = fingerprint_of(shift, str(self._dtype), self._layout.width, "strips", str(starts))
        self._file = FactorFile(directory, size, self._dtype, of, stage)
        with LeavingAtInterrupt(self):
            self._factor(shift, groups, _Report(progress or Progress(False, 1.0), self._layout.n))

    def _factor(
        self, shift: NDArray[np.float64], groups: list[list[BlockColumn]], report: _Report
    ) -> None:
        file = self._open_file()
        if file.finished_pieces:
            report.resumed(self._columns[file.finished_pieces - 1].stop)
        buffer = np.empty(max(sum(c.size for c in group) for group in groups), self._dtype)
        for index, group in enumerate(groups):
            first = group[0].start // self._layout.width
            # Columns that an earlier run has finished.
            finished_count = min(max(file.finished_pieces - first, 0), len(group))
            if finished_count == len(group) and not self.in_memory:
                continue
            report.group(index + 1, len(groups), group[0].start)
            blocks, at = [], 0
            for column in group:
                blocks.append(buffer[at : at + column.size].reshape(column.rows, column.width))
                at += column.size
            for column, block in zip(group[:finished_count], blocks, strict=False):
                for rows in self._layout.blocks(0, column.rows):
                    self._read_block(column, rows, block[rows])
            if first:
                for column, block in zip(
                    group[finished_count:], blocks[finished_count:], strict=True
                ):
                    self._fill(column, block, shift)
                self._apply_file(group, blocks, finished_count)
            for place in range(finished_count, len(group)):
                column, block = group[place], blocks[place]
                if not first:  # only now: slow kernel values are then saved with the factor
                    self._fill(column, block, shift)
                self._factor_column(group[: place + 1], blocks[: place + 1])
                for rows in self._layout.blocks(0, column.rows):
                    file.write(column.offset + rows.start * column.width, block[rows])
                file.finished(first + place + 1)
                report.column(column.stop)
            if self.in_memory:
                self._finished_blocks = blocks
        report.end(len(groups))

    def _fill(self, column: BlockColumn, block: Array, shift: NDArray[np.float64]) -> None:
        """Fill ``block`` with the block column's part of K + diag(shift)."""
        operator = self._operator
        inputs = operator.prepare(operator.x[column.start : column.stop], self._dtype)
        for rows in self._layout.blocks(0, column.rows, self._layout.gram_rows):
            x = operator.x[column.start + rows.start : column.start + rows.stop]
            targets = operator.prepare(x, self._dtype)
            block[rows] = operator.backend.gram(operator.kernel, targets, inputs)
        diagonal = np.arange(column.width)
        block[diagonal, diagonal] += shift[column.start : column.stop]

    def _subtract(self, target: Array, left: Array, right: Array) -> None:
        """Subtract ``left right'`` from ``target``, all row-major, in place."""
        self._gemm(-1.0, right.T, left.T, 1.0, target.T, trans_a=1, overwrite_c=1)

    def _apply_file(self, group: list[BlockColumn], blocks: list[Array], begin: int) -> None:
        """Subtract the contribution of earlier groups, from the file, to the columns from ``begin`` on."""
        start, stop = group[0].start, group[-1].stop
        width, n = self._layout.width, self._layout.n
        square = np.empty((stop - start) * width, self._dtype)
        staged = np.empty(self._layout.rows * width, self._dtype)
        for column in self._columns[: start // width]:
            head = square.reshape(-1, column.width)  # the rows that match the group's columns
            skip = column.start
            self._read_block(column, slice(start - skip, stop - skip), head)
            for rows in self._layout.blocks(start, n):
                if rows.stop <= stop:
                    block = head[rows.start - start : rows.stop - start]
                else:
                    block = staged[: (rows.stop - rows.start) * column.width]
                    block = block.reshape(-1, column.width)
                    self._read_block(column, slice(rows.start - skip, rows.stop - skip), block)
                for group_column, target in zip(group[begin:], blocks[begin:], strict=True):
                    first = max(rows.start, group_column.start)
                    if first < rows.stop:
                        self._subtract(
                            target[first - group_column.start : rows.stop - group_column.start],
                            block[first - rows.start :],
                            head[group_column.start - start : group_column.stop - start],
                        )

    def _read_block(self, column: BlockColumn, rows: slice, out: Array) -> None:
        """Read rows of a block column, indexed from its own start; ask the system to read ahead."""
        start = column.offset + rows.start * column.width
        self._open_file().read(start, out)
        remaining = column.offset + column.size - start - out.size
        self._open_file().expect(start + out.size, min(remaining, out.size))

    def _factor_column(self, group: list[BlockColumn], blocks: list[Array]) -> None:
        """Factor the last of neighbouring block columns in memory; the others are already finished."""
        column, block = group[-1], blocks[-1]
        for rows in self._layout.blocks(0, column.rows):
            for left_column, finished in zip(group[:-1], blocks[:-1], strict=True):
                skip = column.start - left_column.start
                self._subtract(
                    block[rows],
                    finished[skip + rows.start : skip + rows.stop],
                    finished[skip : skip + column.width],
                )
        square = block[: column.width]
        _, bad = self._potrf(square.T, lower=0, clean=0, overwrite_a=1)
        pivots = np.diagonal(square)
        if not bad and not np.isfinite(pivots).all():
            bad = int(np.argmin(np.isfinite(pivots))) + 1
        if bad:
            raise NotPositiveDefiniteError(column.start + int(bad) - 1)
        for rows in self._layout.blocks(column.width, column.rows):
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
            The factor is closed.
        OSError
            The file cannot be read.
        """
        self._open_file()
        work = np.array(rhs, dtype=self._dtype, order="C")
        if not work.size:
            return work.astype(np.float64, copy=False)
        layout = self._layout
        square: Array = np.empty(0, self._dtype)
        staged: Array = np.empty(0, self._dtype)
        if not self.in_memory:
            square = np.empty(layout.width**2, self._dtype)
            staged = np.empty(layout.rows * layout.width, self._dtype)
        for number, column in enumerate(self._columns):
            triangle = self._rows(number, slice(column.start, column.stop), square)
            segment = work[column.start : column.stop]
            self._trsm(1.0, triangle.T, segment.T, side=1, lower=0, trans_a=0, overwrite_b=1)
            for rows in layout.blocks(column.stop, layout.n):
                block = self._rows(number, rows, staged)
                self._gemm(-1.0, segment.T, block.T, 1.0, work[rows].T, overwrite_c=1)
        for number, column in reversed(list(enumerate(self._columns))):
            segment = work[column.start : column.stop]
            for rows in layout.blocks(column.stop, layout.n):
                block = self._rows(number, rows, staged)
                self._gemm(-1.0, work[rows].T, block.T, 1.0, segment.T, trans_b=1, overwrite_c=1)
            triangle = self._rows(number, slice(column.start, column.stop), square)
            self._trsm(1.0, triangle.T, segment.T, side=1, lower=0, trans_a=1, overwrite_b=1)
        return work.astype(np.float64, copy=False)

    def _rows(self, number: int, rows: slice, staged: Array) -> Array:
        """Return rows of a block column, indexed in the matrix: from memory, or read into ``staged``.

        The entries above the diagonal in its square block have no meaning.
        """
        column = self._columns[number]
        local = slice(rows.start - column.start, rows.stop - column.start)
        if self.in_memory:
            return self._finished_blocks[number][local]
        out = staged[: (rows.stop - rows.start) * column.width].reshape(-1, column.width)
        self._read_block(column, local, out)
        return out

    @property
    def nbytes(self) -> int:
        """Bytes that the factor takes in memory."""
        return sum(block.nbytes for block in self._finished_blocks)

    def _open_file(self) -> FactorFile:
        if self._file is None:
            raise ValueError("the factor was closed; make a new OutOfCoreCholesky to solve again")
        return self._file

    def leave(self) -> None:
        """Close the file; a file that a later run can resume stays."""
        file, self._file = self._file, None
        self._finished_blocks = []
        if file is not None:
            file.leave()

    def close(self) -> None:
        """Remove the file; repeated calls do nothing."""
        file, self._file = self._file, None
        self._finished_blocks = []
        if file is not None:
            file.close()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> OutOfCoreCholesky:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class _Report:
    """Reports the progress of a factorisation of n columns, and the rate so far."""

    def __init__(self, progress: Progress, n: int) -> None:
        self._progress, self._n = progress, n
        self._start_time, self._before = time.perf_counter(), 0.0
        self._name = _NAME

    def _work(self, columns: int) -> float:
        return columns**2 * (self._n - 2 / 3 * columns)  # left-looking: 2 c (n - c) for column c

    def _rate(self, columns: int) -> str:
        operations = self._work(columns) - self._before
        return f"{operations / max(time.perf_counter() - self._start_time, 1e-9) / 1e9:.1f} GFLOP/s"

    def resumed(self, columns: int) -> None:
        """Report that an earlier run finished this many columns."""
        self._before = self._work(columns)
        self._progress.stage(f"resumed from a checkpoint after {columns:,} columns of the factor")

    def group(self, number: int, count: int, columns: int) -> None:
        """Report that a group begins after this many finished columns."""
        self._name = _NAME + (f", group {number} of {count}" if count > 1 else "")
        rate_known = self._work(columns) > self._before
        self._progress.stage(self._name + (f", {self._rate(columns)}" if rate_known else ""))

    def column(self, columns: int) -> None:
        """Report the number of finished columns."""
        if self._progress.due:
            share = self._work(columns) / self._work(self._n)
            self._progress.report(self._name, share, self._rate(columns))

    def end(self, count: int) -> None:
        """Report that all columns are done."""
        groups = f", {count} groups" if count > 1 else ""
        self._progress.stage(f"{_NAME}{groups}, {self._rate(self._n)}")
