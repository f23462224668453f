"""The file of a Cholesky factor that is made piece by piece, and how many pieces are done.

With a checkpoint the file has a random name that no user's file has (`fastmcmd.io.temporary`); the
checkpoint lists it, with the number of pieces that are done. Both hold the same mark, drawn anew for each
factorisation, so that a file of another one is never taken for its own. Only files that the checkpoint
lists, and those of its name whose run was killed before they were listed, are ever removed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fastmcmd._base.annotations import DType, HostArray
from fastmcmd.backends.base import Array
from fastmcmd.checkpoint import Stage
from fastmcmd.io.temporary import is_ours, open_ours, remove_stale, tag_of
from fastmcmd.solvers.scratch import Named, ScratchFile

__all__ = ["FactorFile", "FactorStage", "leaving_at_interrupt"]

_SUFFIX = "factor"
_MARK = 16  # numbers below 256: no two files of the same name have the same by chance


@dataclass(frozen=True, eq=False)
class FactorState:
    """What a checkpoint says about the file of a factor.

    Attributes
    ----------
    file, of : str
        Name of the file, and which factor it holds.
    mark : ndarray (16,)
        Random numbers that the file holds as well.
    pieces : int
        Pieces that are done.
    """

    file: str
    of: str
    mark: HostArray
    pieces: int


@dataclass(frozen=True)
class FactorStage:
    """Where a later run finds a factor that was begun.

    Attributes
    ----------
    folder : Path
        Of the file.
    stage : Stage
        Part of the checkpoint that knows how many pieces are done.
    argument : str, optional
        Which argument named the folder and what it is, for messages; default ``cache_dir``.
    """

    folder: Path
    stage: Stage
    argument: str | None = None

    @property
    def tag(self) -> str:
        """What all files of this factor have in their names.

        The whole path counts, since checkpoints in several folders may share a folder for factors. One run
        at a time uses a checkpoint, and so its files.
        """
        path = self.stage.checkpoint.path
        return tag_of(str(path), self.stage.name)

    def listed(self) -> FactorState | None:
        """Return what the checkpoint says about the file; None if it lists none."""
        saved = self.stage.load(FactorState)
        return saved if saved is not None and is_ours(saved.file, _SUFFIX) else None

    def remove(self) -> None:
        """Remove the file of this factor that the checkpoint lists, unless another run has it."""
        saved = self.listed()
        if saved is not None:
            handle = open_ours(self.folder / saved.file, os.O_RDWR)
            if handle is not None:
                with contextlib.suppress(OSError):
                    (self.folder / saved.file).unlink(missing_ok=True)
                os.close(handle)
        remove_stale(self.folder, self.tag, _SUFFIX)


class FactorFile:
    """Numbers of a factor on disk.

    Parameters
    ----------
    directory : str or os.PathLike
        Existing folder; that of ``stage`` where it is given.
    size : int
        Numbers of the factor.
    dtype : numpy.dtype
        Type of the numbers.
    of : str
        What tells the factor from others; one with another is made anew.
    stage : FactorStage, optional
        Gives the file a name, and remembers how many pieces are done. Default: a file without a name.

    Attributes
    ----------
    done : int
        Pieces that are there already.

    Raises
    ------
    OSError
        The folder is missing or cannot be written, or has too little space.
    """

    def __init__(
        self, directory: Any, size: int, dtype: DType, of: str, stage: FactorStage | None
    ) -> None:
        self._stage, self._of, self._saved = stage, of, 0
        if stage is None:
            self._file = ScratchFile(directory, size, dtype)
            self.done = 0
            return
        saved = stage.listed()
        if saved is not None and saved.of != of:
            saved = None
        name = None if saved is None else saved.file
        remove_stale(stage.folder, stage.tag, _SUFFIX, keep=() if name is None else (name,))
        named = Named(stage.tag, _SUFFIX, name)
        self._file = ScratchFile(stage.folder, size + _MARK, dtype, named, stage.argument)
        try:
            self.done, self._mark = self._progress_of(size, dtype, saved)
            self._saved = self.done
            if not self._file.reopened and name is not None:  # damaged, or another's
                stage.remove()
        except BaseException:
            self._file.close(leave=self._file.reopened)
            raise

    def _progress_of(self, size: int, dtype: DType, saved: FactorState | None) -> tuple[int, Array]:
        """Return how many pieces are there, and the mark; a new one if there are none."""
        mark = np.empty(_MARK, dtype)
        if saved is not None and self._file.reopened:
            self._file.read(size, mark)
            if np.array_equal(mark, saved.mark):
                return saved.pieces, mark
        mark[:] = list(secrets.token_bytes(_MARK))
        self._file.write(size, mark)
        return 0, mark

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._file.nbytes

    def finished(self, pieces: int, *, force: bool = False) -> None:
        """Remember that so many pieces are done: in the checkpoint if it is time to, or ``force``."""
        self.done = pieces
        if self._stage is None:
            return

        def state() -> FactorState:
            self._file.sync()  # before the checkpoint says that it is there
            self._saved = pieces
            return FactorState(str(self._file.name), self._of, self._mark, pieces)

        self._stage.stage.save(state, force=force)

    def write(self, offset: int, numbers: Array) -> None:
        """Write contiguous ``numbers`` at ``offset`` numbers from the start."""
        self._file.write(offset, numbers)

    def read(self, offset: int, out: Array) -> None:
        """Fill contiguous ``out`` from ``offset`` numbers from the start."""
        self._file.read(offset, out)

    def expect(self, offset: int, count: int) -> None:
        """Let the system read ahead."""
        self._file.expect(offset, count)

    def leave(self) -> None:
        """Remember what is done, and close the file; one that a later run can go on with stays."""
        try:
            if self.done > self._saved:
                self.finished(self.done, force=True)
        finally:
            self._file.close(leave=True)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class _Owner(Protocol):
    """What has files of factors."""

    def leave(self) -> None: ...
    def close(self) -> None: ...


@contextmanager
def leaving_at_interrupt(owner: _Owner) -> Iterator[None]:
    """Leave the files of an owner at Ctrl-C, and remove them after any other error."""
    try:
        yield
    except KeyboardInterrupt:
        owner.leave()
        raise
    except BaseException:
        owner.close()
        raise
