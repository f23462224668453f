"""Checks of paths passed by users, before any work is done, with messages that name the argument."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from fastmcmd._base.annotations import FilePath

__all__ = ["as_path", "destination", "same_file", "source"]


def as_path(value: object, name: str) -> Path:
    """Return an argument as an absolute path, without accessing the disk.

    Raises
    ------
    TypeError, ValueError
        The argument is not a path, is empty, or holds a null character.
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is {value!r}; the path of a file is needed")
    text = os.fsdecode(value)
    if not text or "\0" in text:
        raise ValueError(f"{name} is {text!r}; the path of a file is needed")
    return Path(text).absolute()


def source(value: object, name: str, *, folders: bool = False) -> Path:
    """Return the path of an existing file to read.

    A FIFO, a socket or a device raises an error, because reading it could wait forever.

    Parameters
    ----------
    value : str or os.PathLike
    name : str
        Name of the argument, for messages.
    folders : bool
        Whether the path may be a folder.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, OSError
        The path does not exist, is a folder, or cannot be accessed.
    ValueError, TypeError
        The argument is not a path, or not that of a regular file.
    """
    path = as_path(value, name)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT, f"{name} is {str(value)!r}; there is no such file"
        ) from None
    except OSError as error:
        raise OSError(error.errno, f"{name} ({value}) cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        if folders:
            return path
        raise IsADirectoryError(errno.EISDIR, f"{name} is {str(value)!r}, a folder, not a file")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{name} is {str(value)!r}, {_kind(mode)}; a regular file is needed")
    return path


def destination(value: FilePath, name: str) -> Path:
    """Return the path of a file to write; raise an error if it cannot be written. Changes nothing on disk.

    Symbolic links are resolved: as in any other write, the target of the link is replaced, and the link
    stays.

    Parameters
    ----------
    value : str or os.PathLike
    name : str
        Name of the argument, for messages.

    Raises
    ------
    FileNotFoundError
        The folder does not exist.
    IsADirectoryError, PermissionError, OSError
        The path is that of a folder; the file or its folder cannot be written to.
    ValueError, TypeError
        The path is a device, a FIFO or a socket; or the argument is not a path.
    """
    path, text = as_path(value, name), os.fsdecode(value)
    names_folder = text.endswith(tuple(filter(None, (os.sep, os.altsep))))
    try:
        path = Path(os.path.realpath(path))
        mode = os.stat(path).st_mode if os.path.lexists(path) else None
    except OSError as error:
        raise OSError(error.errno, f"{name} ({text}) cannot be written: {error.strerror}") from None
    if names_folder or (mode is not None and stat.S_ISDIR(mode)):
        raise IsADirectoryError(
            errno.EISDIR, f"{name} is {text!r}, which is a folder; the path of a file is needed"
        )
    if mode is not None and not stat.S_ISREG(mode):
        raise ValueError(f"{name} is {text!r}, {_kind(mode)}; the path of a regular file is needed")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"{name}: there is no folder {str(path.parent)!r}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(
            errno.EACCES, f"{name} is {text!r}; the folder {str(path.parent)!r} is not writable"
        )
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, f"{name} is {text!r}, a read-only file")
    return path


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths lead to the same file, also through links; they need not exist."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a FIFO (named pipe)"
    if stat.S_ISSOCK(mode):
        return "a socket"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return "no regular file"
