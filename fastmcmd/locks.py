"""Keeps two runs from working on one file at the same time."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["alone_with"]

_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # what file systems without them answer


@contextmanager
def alone_with(path: Path, name: str) -> Iterator[None]:
    """Refuse others that ask for ``path`` while the block runs, in this process or another.

    The lock is the system's, on a file ``path.lock`` that tells who has it. It ends with the process,
    however that ends; a file that was left behind refuses nobody. Where the system (Windows) or the
    file system has no such locks, nobody is refused.

    Parameters
    ----------
    path : Path
        The file that is worked on; it need not exist, and may be replaced.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    BlockingIOError
        Another has the lock.
    OSError
        The file beside cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.ckpt"
    >>> with alone_with(path, "checkpoint"):
    ...     os.listdir(path.parent)
    ['run.ckpt.lock']
    >>> os.listdir(path.parent)
    []
    """
    lock = path.with_name(path.name + ".lock")
    file = None if fcntl is None else _taken(lock, f"{name} {path}")
    try:
        yield
    finally:
        if file is not None:
            lock.unlink(missing_ok=True)  # before it is given back: see `_taken`
            fcntl.flock(file, fcntl.LOCK_UN)  # for copies of the file in forked processes, too
            file.close()


def _taken(lock: Path, what: str) -> IO[str] | None:
    """Return the locked file, None where there are no locks."""
    while True:
        try:
            file = open(lock, "a+")  # noqa: SIM115 (closed by the caller)
        except OSError as error:
            raise OSError(error.errno, f"{what} cannot be locked: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that was removed meanwhile, by the run that had it, refuses nobody else.
            if _is(file, lock):
                file.truncate(0)
                file.write(f"process {os.getpid()} on {platform.node()}")
                file.flush()
                return file
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "it has just begun"
            file.close()
            raise BlockingIOError(
                errno.EWOULDBLOCK,
                f"{what} is in use by another run ({holder}); wait for its end, or name another file",
            ) from None
        except OSError as error:
            file.close()
            if error.errno not in _NO_LOCKS:
                raise
            lock.unlink(missing_ok=True)
            return None
        file.close()


def _is(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
