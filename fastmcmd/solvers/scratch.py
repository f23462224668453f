"""A file of numbers for what does not fit in memory: here the Cholesky factor.

Without a name nothing is left behind, whatever ends the process. With one, a run that resumes from a
checkpoint finds what was written; the name is random, and the file is created exclusively and read by its
owner only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmcmd._base.annotations import DType
from fastmcmd._base.memory import format_bytes
from fastmcmd.backends.base import Array
from fastmcmd.io.temporary import create_file, open_ours

__all__ = ["Named", "ScratchFile"]

_RESERVED_AT_ONCE = 1 << 30


@dataclass(frozen=True)
class Named:
    """A file that a later run can find.

    Attributes
    ----------
    tag, suffix : str
        Parts of the name of a new file; see `fastmcmd.io.temporary`.
    known : str or None
        Name of the file to resume. Where it is gone, has another size, or another run has it, a new one
        is made.
    """

    tag: str
    suffix: str
    known: str | None = None


class ScratchFile:
    """Numbers at given places of a file; plain reads and writes, which hold no memory.

    Parameters
    ----------
    directory : str or os.PathLike
        Existing folder.
    count : int
        Numbers that it will hold; their space is taken at once where the file system can.
    dtype : numpy.dtype
        Their type.
    named : Named, optional
        Gives the file a name in the folder. Default: a file without a name.
    argument : str, optional
        Which argument asked for the file and what it is, for messages; default ``cache_dir``.

    Attributes
    ----------
    reopened : bool
        Whether it was there.
    name : str or None
        Its name in the folder.

    Raises
    ------
    OSError
        The folder is missing or cannot be written, or has too little space; the message names the
        argument.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        count: int,
        dtype: DType,
        named: Named | None = None,
        argument: str | None = None,
    ) -> None:
        self.nbytes = count * dtype.itemsize
        self._itemsize = dtype.itemsize
        self._directory = os.fspath(directory)
        self._argument = argument or f"cache_dir is {self._directory!r}"
        self._raw: Any = None
        self._path: str | None = None
        self.name: str | None = None
        handle = None if named is None else self._known(named)
        self.reopened = handle is not None
        if handle is not None:
            self._raw = os.fdopen(handle, "r+b", 0)
        if not os.path.isdir(self._directory):
            raise FileNotFoundError(errno.ENOENT, f"{self._argument}; an existing folder is needed")
        free = shutil.disk_usage(self._directory).free
        if free < self.nbytes and not self.reopened:
            raise OSError(
                errno.ENOSPC,
                f"{self._argument}; the Cholesky factor needs {format_bytes(self.nbytes)} there, and "
                f"{format_bytes(free)} are free; name a folder on a larger disk",
            )
        try:
            if named is None:
                self._raw = tempfile.TemporaryFile(  # noqa: SIM115 (open until `close`)
                    prefix="fastmcmd-", dir=directory, buffering=0
                )
            elif not self.reopened:
                handle, path = create_file(Path(self._directory), named.tag, named.suffix)
                self._raw, self._path = os.fdopen(handle, "r+b", 0), str(path)
                self.name = path.name
            if not self.reopened:
                self._reserve()
                self._raw.truncate(self.nbytes)
        except OSError as error:
            raise self._explained("creating", error) from error
        except BaseException:
            self.close()
            raise

    def _known(self, named: Named) -> int | None:
        """Open the file to resume; None where there is none of this size that is free to use."""
        if named.known is None:
            return None
        path = Path(self._directory) / named.known
        handle = open_ours(path, os.O_RDWR)
        if handle is not None and os.fstat(handle).st_size != self.nbytes:
            os.close(handle)
            handle = None
        if handle is not None:
            self._path, self.name = str(path), named.known
        return handle

    def _reserve(self) -> None:
        """Take the space now: a full disk or a quota is then met before hours of work."""
        if not hasattr(os, "posix_fallocate"):
            return
        unknown = (errno.EINVAL, errno.ENOSYS, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOTSUP)
        for start in range(0, self.nbytes, _RESERVED_AT_ONCE):
            try:
                size = min(_RESERVED_AT_ONCE, self.nbytes - start)
                os.posix_fallocate(self._raw.fileno(), start, size)
            except OSError as error:
                if error.errno in unknown:  # not on this file system; writing will tell
                    return
                raise

    def _explained(self, what: str, error: OSError) -> OSError:
        self.close()
        reason = error.strerror or str(error)
        return OSError(
            error.errno or errno.EIO,
            f"{self._argument}; {what} the file of the Cholesky factor "
            f"({format_bytes(self.nbytes)}) failed: {reason}",
        )

    def write(self, offset: int, numbers: Array) -> None:
        """Write contiguous ``numbers`` at ``offset`` numbers from the start."""
        view = numbers.data.cast("B")
        try:
            self._raw.seek(offset * self._itemsize)
            while view.nbytes:
                view = view[self._raw.write(view) :]
        except OSError as error:
            raise self._explained("writing", error) from error

    def read(self, offset: int, out: Array) -> None:
        """Fill contiguous ``out`` from ``offset`` numbers from the start."""
        view = out.data.cast("B")
        try:
            self._raw.seek(offset * self._itemsize)
            while view.nbytes:
                got = self._raw.readinto(view)
                if not got:
                    raise OSError(errno.EIO, "the file is shorter than what was written")
                view = view[got:]
        except OSError as error:
            raise self._explained("reading", error) from error

    def expect(self, offset: int, count: int) -> None:
        """Let the system read ahead while BLAS works."""
        if count and hasattr(os, "posix_fadvise"):
            start, size = offset * self._itemsize, count * self._itemsize
            os.posix_fadvise(self._raw.fileno(), start, size, os.POSIX_FADV_WILLNEED)

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        try:
            os.fsync(self._raw.fileno())
        except OSError as error:
            raise self._explained("writing", error) from error

    def close(self, *, leave: bool = False) -> None:
        """Close the file, and with that remove it; ``leave`` one that has a name."""
        if self._raw is not None:
            path = None if leave else self._path
            if path is not None and os.name != "nt":
                _remove(path)  # before the lock on it goes with the file
            self._raw.close()
            if path is not None and os.name == "nt":  # where an open file cannot be removed
                _remove(path)
            self._path = None


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
