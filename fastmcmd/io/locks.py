"""Locks that keep two runs from working on one file at the same time."""

from __future__ import annotations

import errno
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastmcmd.io.temporary import fcntl, lock_held, tag_of

__all__ = ["alone_with", "lock_path"]

_MAGIC = b"fastmcmd lock\n"
_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


@contextmanager
def alone_with(path: Path, name: str) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` while the block runs, against this and other processes.

    It is a lock of the system on a hidden file beside ``path``, which names the holder. The lock ends with
    the process, however that ends; a lock file left behind blocks nobody. If the system (Windows) or the
    file system has no such locks, nobody is blocked. A file of that name that the package did not write is
    neither used nor changed.

    Parameters
    ----------
    path : Path
        The file to protect; it need not exist, and may be replaced.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    BlockingIOError
        Another run has the lock.
    OSError
        The lock file cannot be created, or is not a lock of this package.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.ckpt"
    >>> with alone_with(path, "checkpoint"):
    ...     os.listdir(path.parent) == [lock_path(path).name]
    True
    >>> os.listdir(path.parent)
    []
    """
    lock = lock_path(path)
    handle = None if fcntl is None else _lock_handle(lock, f"{name} {path}")
    try:
        yield
    finally:
        if handle is not None:
            lock.unlink(missing_ok=True)  # before it is released: see `_lock_handle`
            fcntl.flock(handle, fcntl.LOCK_UN)  # for copies of the file in forked processes, too
            os.close(handle)


def lock_path(path: Path) -> Path:
    """Return the path of the lock of a file, which is the same for all links to the file."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".fastmcmd-{tag_of(target.name)}.lock")


def _lock_handle(lock: Path, label: str) -> int | None:
    """Return the handle of the locked file, or None if there are no locks."""
    while True:
        try:
            handle = os.open(lock, _FLAGS, 0o600)
        except OSError as error:
            raise OSError(error.errno, f"{label} cannot be locked: {error.strerror}") from error
        try:
            holder = _holder(handle)
            if holder is None:
                raise OSError(
                    errno.EEXIST,
                    f"{label} cannot be locked: {lock} is not a lock of fastmcmd; move it elsewhere",
                )
            is_held = lock_held(handle)
            if is_held is False:
                raise BlockingIOError(
                    errno.EWOULDBLOCK,
                    f"{label} is in use by another run ({holder}); wait for its end, or name another file",
                )
            # A lock file that its owner has removed meanwhile excludes nobody: open it again.
            if _is(handle, lock):
                if is_held is None:
                    lock.unlink(missing_ok=True)
                    os.close(handle)
                    return None
                text = _MAGIC + f"process {os.getpid()} on {platform.node()}".encode()
                os.pwrite(handle, text, 0)
                os.ftruncate(handle, len(text))
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _holder(handle: int) -> str | None:
    """Return the description of the holder in a lock file, or None if it is not a lock file."""
    status = os.fstat(handle)
    content = os.pread(handle, 400, 0) if stat.S_ISREG(status.st_mode) else b"?"
    if _MAGIC.startswith(content):
        return "it has just begun"
    if not content.startswith(_MAGIC):
        return None
    text = content[len(_MAGIC) :].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text) or "it has just begun"


def _is(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
