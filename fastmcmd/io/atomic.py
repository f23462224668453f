"""Atomic writing: a file appears at its path complete, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from fastmcmd._base.annotations import FilePath
from fastmcmd.io.paths import destination
from fastmcmd.io.temporary import create_file, create_folder, remove_stale, tag_of

__all__ = ["AtomicFile", "AtomicFolder", "sync_folder", "write_atomically"]

_SUFFIX = "part"


class AtomicFile:
    """A file that appears at its path when it is committed, with all contents on disk.

    Until then it is a temporary file in the same folder, readable only by this user. Use it as a context
    manager: the end of the block commits the file, an error discards it. Temporary files that killed runs
    left for the same path are removed first.

    Parameters
    ----------
    path : str or os.PathLike
        Path of the file; see `fastmcmd.io.destination` for the restrictions.
    name : str
        Name of the argument, for messages.

    Attributes
    ----------
    path : Path
        Path of the file, with links resolved.
    stream : BinaryIO
        The stream to write to.

    Raises
    ------
    OSError, ValueError, TypeError
        The path cannot be written to; the message names the argument and the path, never the
        temporary file.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with AtomicFile(folder / "x.txt", "path") as file:
    ...     _ = file.stream.write(b"1")
    ...     (folder / "x.txt").exists()
    False
    >>> (folder / "x.txt").read_bytes()
    b'1'
    """

    stream: BinaryIO

    def __init__(self, path: FilePath, name: str, *, buffering: int = -1) -> None:
        self._open = False
        self.path = destination(path, name)
        self._failed = f"{name} ({os.fsdecode(path)}) cannot be written"
        tag = tag_of(self.path.name)
        remove_stale(self.path.parent, tag, _SUFFIX)
        with self.naming_errors():
            handle, self.part = create_file(self.path.parent, tag, _SUFFIX)
        self._open = True
        self.stream = os.fdopen(handle, "r+b", buffering)

    @contextlib.contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Add the argument and the path to the messages of system errors."""
        with _naming_errors(self._failed):
            yield

    def commit(self) -> None:
        """Wait until all contents are on disk, and move the file to its path."""
        if not self._open:
            return
        try:
            with self.naming_errors():
                self.stream.flush()
                os.fsync(self.stream.fileno())
                os.chmod(self.part, _mode_at(self.path))
                if os.name == "nt":  # an open file cannot be moved there
                    self.stream.close()
                os.replace(self.part, self.path)
        except BaseException:
            self.discard()
            raise
        self._open = False
        self.stream.close()
        sync_folder(self.path.parent)

    def discard(self) -> None:
        """Remove the unfinished file; an existing file at the path is unchanged."""
        if self._open:
            self._open = False
            with contextlib.suppress(OSError):
                self.part.unlink(missing_ok=True)
            with contextlib.suppress(OSError, ValueError):
                self.stream.close()  # may fail: it flushes to a full disk

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.discard()


class AtomicFolder:
    """A folder that appears at its path when it is committed; the path must not exist before.

    Attributes
    ----------
    path : Path
        Path of the folder.
    inside : Path
        The temporary folder to fill.
    """

    def __init__(self, path: FilePath, name: str) -> None:
        self._failed = f"{name} ({path}) cannot be written"
        absolute_path = Path(os.path.abspath(path))
        if os.path.lexists(absolute_path):
            raise FileExistsError(
                errno.EEXIST, f"{name} is {str(path)!r}, which exists; remove it first"
            )
        self.path = destination(absolute_path, name)
        tag = tag_of(self.path.name)
        remove_stale(self.path.parent, tag, _SUFFIX)
        with _naming_errors(self._failed):
            self._handle, self._part = create_folder(self.path.parent, tag, _SUFFIX)
        self.inside = self._part / "content"

    def __enter__(self) -> AtomicFolder:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                with _naming_errors(self._failed):
                    # A folder can replace nothing but an empty folder.
                    self.inside.rename(self.path)
                sync_folder(self.path.parent)
        finally:
            shutil.rmtree(self._part, ignore_errors=True)
            if self._handle is not None:
                os.close(self._handle)


def write_atomically(path: FilePath, write: Callable[[BinaryIO], None], name: str = "path") -> None:
    """Call ``write`` on a temporary file beside ``path``, then move it there in one step.

    An interruption leaves no partial file: an existing file at ``path`` is unchanged.
    """
    with AtomicFile(path, name) as file, file.naming_errors():
        write(file.stream)


@contextlib.contextmanager
def _naming_errors(failed: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        # The number gives the new error the class of the original.
        raise OSError(error.errno, f"{failed}: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, if the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode_at(path: Path) -> int:
    """Return the mode of the file to be replaced, or of a new file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode) & 0o777
    except OSError:
        return 0o666 & ~_umask()


def _umask() -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except (OSError, ValueError, IndexError):
        pass
    # No other way to ask. Until it is reset, other threads make private files.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
