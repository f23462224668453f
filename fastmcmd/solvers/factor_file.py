"""The file of a Cholesky factor that is computed piece by piece, with the number of finished pieces.

With a checkpoint the file has a random name that no user's file has (`fastmcmd.io.temporary`). The
checkpoint lists the file and its number of finished pieces. Both hold the same mark, which each
factorisation draws anew, so that a run never takes the file of another factorisation for its own. Only two
kinds of files are ever removed: those that the checkpoint lists, and those that have the factor's tag in
their names and whose run was killed before the checkpoint listed them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fastmcmd._base.annotations import DType, HostArray
from fastmcmd.backends.base import Array
from fastmcmd.checkpoint import Stage
from fastmcmd.io.temporary import is_ours, open_ours, remove_stale, tag_of
from fastmcmd.solvers.scratch import FileName, ScratchFile

__all__ = ["FactorFile", "FactorStage", "LeavingAtInterrupt"]

_SUFFIX = "factor"
_MARK = 16  # random numbers below 256: two files of the same name do not share them by chance


@dataclass(frozen=True, eq=False)
class FactorState:
    """The state of a factor's file in a checkpoint.

    Attributes
    ----------
    file, of : str
        Name of the file, and the fingerprint of its factor.
    mark : ndarray (16,)
        Random numbers that the file holds as well.
    pieces : int
        Number of finished pieces.
    """

    file: str
    of: str
    mark: HostArray
    pieces: int


@dataclass(frozen=True)
class FactorStage:
    """The place where a later run finds an unfinished factor.

    Attributes
    ----------
    folder : Path
        Folder of the file.
    stage : Stage
        Part of the checkpoint that stores the number of finished pieces.
    argument : str, optional
        The argument that named the folder, with its value, for messages; default ``cache_dir``.
    """

    folder: Path
    stage: Stage
    argument: str | None = None

    @property
    def tag(self) -> str:
        """The part that all files of this factor share in their names.

        It depends on the whole path of the checkpoint, since checkpoints in several folders may use one
        folder for factors. Only one run at a time uses a checkpoint, and so its files.
        """
        path = self.stage.checkpoint.path
        return tag_of(str(path), self.stage.name)

    def saved_state(self) -> FactorState | None:
        """Return the state of the file from the checkpoint, or None if it lists none."""
        file_state = self.stage.load(FactorState)
        return file_state if file_state is not None and is_ours(file_state.file, _SUFFIX) else None

    def remove(self) -> None:
        """Remove the file that the checkpoint lists for this factor, unless another run uses it."""
        file_state = self.saved_state()
        if file_state is not None:
            handle = open_ours(self.folder / file_state.file, os.O_RDWR)
            if handle is not None:
                with contextlib.suppress(OSError):
                    (self.folder / file_state.file).unlink(missing_ok=True)
                os.close(handle)
        remove_stale(self.folder, self.tag, _SUFFIX)


class FactorFile:
    """A file with the numbers of a factor.

    Parameters
    ----------
    directory : str or os.PathLike
        Existing folder. If ``stage`` is given, its folder is used instead.
    size : int
        Count of numbers in the factor.
    dtype : numpy.dtype
        Type of the numbers.
    of : str
        Fingerprint of the factor. A file with another fingerprint is replaced.
    stage : FactorStage, optional
        Gives the file a name, and stores the number of finished pieces. Default: a file without a name.

    Attributes
    ----------
    finished_pieces : int
        Number of finished pieces.

    Raises
    ------
    OSError
        The folder is missing or cannot be written, or has too little space.
    """

    def __init__(
        self,
        directory: Any,
        size: int,
        dtype: DType,
        of: str,
        stage: FactorStage | None,
    ) -> None:
        self._stage, self._of, self._saved_pieces = stage, of, 0
        if stage is None:
            self._file = ScratchFile(directory, size, dtype)
            self.finished_pieces = 0
            return
        file_state = stage.saved_state()
        if file_state is not None and file_state.of != of:
            file_state = None
        name = None if file_state is None else file_state.file
        remove_stale(stage.folder, stage.tag, _SUFFIX, keep=() if name is None else (name,))
        file_name = FileName(stage.tag, _SUFFIX, name)
        self._file = ScratchFile(stage.folder, size + _MARK, dtype, file_name, stage.argument)
        try:
            self.finished_pieces, self._mark = self._progress_of(size, dtype, file_state)
            self._saved_pieces = self.finished_pieces
            if not self._file.reopened and name is not None:  # damaged, or in use by another run
                stage.remove()
        except BaseException:
            self._file.close(leave=self._file.reopened)
            raise

    def _progress_of(
        self, size: int, dtype: DType, file_state: FactorState | None
    ) -> tuple[int, Array]:
        """Return the number of finished pieces and the mark; 0 and a new mark if the file is new."""
        mark = np.empty(_MARK, dtype)
        if file_state is not None and self._file.reopened:
            self._file.read(size, mark)
            if np.array_equal(mark, file_state.mark):
                return file_state.pieces, mark
        mark[:] = list(secrets.token_bytes(_MARK))
        self._file.write(size, mark)
        return 0, mark

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._file.nbytes

    def finished(self, pieces: int, *, force: bool = False) -> None:
        """Record the number of finished pieces; save it in the checkpoint when due, or with ``force``."""
        self.finished_pieces = pieces
        if self._stage is None:
            return

        def state() -> FactorState:
            self._file.sync()  # before the checkpoint counts the pieces
            self._saved_pieces = pieces
            return FactorState(str(self._file.name), self._of, self._mark, pieces)

        self._stage.stage.save(state, force=force)

    def write(self, offset: int, numbers: Array) -> None:
        """Write contiguous ``numbers`` at ``offset`` numbers from the start."""
        self._file.write(offset, numbers)

    def read(self, offset: int, out: Array) -> None:
        """Fill contiguous ``out`` from ``offset`` numbers from the start."""
        self._file.read(offset, out)

    def expect(self, offset: int, count: int) -> None:
        """Ask the system to read ahead."""
        self._file.expect(offset, count)

    def leave(self) -> None:
        """Save the progress and close the file; a file that a later run can resume stays."""
        try:
            if self.finished_pieces > self._saved_pieces:
                self.finished(self.finished_pieces, force=True)
        finally:
            self._file.close(leave=True)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()


class _Owner(Protocol):
    """An object that owns files of factors."""

    def leave(self) -> None: ...
    def close(self) -> None: ...


class LeavingAtInterrupt:
    """A context that leaves the files of ``owner`` in place at Ctrl-C; other errors remove them."""

    def __init__(self, owner: _Owner) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        """Do nothing: files appear later."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            (self._owner.leave if issubclass(kind, KeyboardInterrupt) else self._owner.close)()
