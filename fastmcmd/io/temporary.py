"""Temporary files beside a user's file: exclusive, locked while in use, removed after their owner died.

A name is ``.fastmcmd-TAG-TOKEN-SEAL.SUFFIX``. The tag says what the file belongs to, the token is random,
and the seal is a hash of both: no user's file has such a name by accident. The process that made a file
holds the system's lock on it (`flock`), which ends with the process, however that ends. So a later run
tells the file of a live run from one that a killed run left behind, across containers and hosts that share
a disk, and without process numbers, which are used again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

fcntl: Any  # None on Windows
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:
    fcntl = None

__all__ = [
    "create_file",
    "create_folder",
    "fcntl",
    "is_ours",
    "lock_held",
    "open_ours",
    "remove_stale",
    "tag_of",
]

_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.EINVAL)
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_NAME = re.compile(r"\.fastmcmd-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{8})\.([a-z]+)")


def tag_of(*parts: str) -> str:
    """Return the tag that identifies the owner of a file, such as the name of its target."""
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _seal(tag: str, token: str, suffix: str) -> str:
    return hashlib.blake2b(f"fastmcmd {tag} {token} {suffix}".encode(), digest_size=4).hexdigest()


def _new_name(tag: str, suffix: str) -> str:
    token = secrets.token_hex(8)
    return f".fastmcmd-{tag}-{token}-{_seal(tag, token, suffix)}.{suffix}"


def is_ours(name: str, suffix: str, tag: str | None = None) -> bool:
    """Return whether this module created a file name, for ``tag`` if it is passed."""
    match = _NAME.fullmatch(name)
    if match is None or match[4] != suffix or (tag is not None and match[1] != tag):
        return False
    return match[3] == _seal(match[1], match[2], suffix)


def lock_held(handle: int) -> bool | None:
    """Lock an open file without waiting; return False if another has the lock, None without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _at(handle: int, path: str | Path) -> bool:
    """Return whether an open file is still the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def create_file(folder: Path, tag: str, suffix: str) -> tuple[int, Path]:
    """Create a new file that only this user can read, locked; return its descriptor and path."""
    while True:
        path = folder / _new_name(tag, suffix)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY, 0o600)
        try:
            # Before the lock, another run may have removed the file as an orphan.
            if lock_held(handle) is not False and _at(handle, path):
                return handle, path
        except BaseException:
            os.close(handle)
            path.unlink(missing_ok=True)
            raise
        os.close(handle)


def create_folder(folder: Path, tag: str, suffix: str) -> tuple[int | None, Path]:
    """Create a new folder that only this user can enter, locked where folders can be."""
    while True:
        path = folder / _new_name(tag, suffix)
        os.mkdir(path, 0o700)
        if fcntl is None:
            return None, path
        try:
            handle = os.open(path, os.O_RDONLY | _NO_FOLLOW | _BINARY)
        except FileNotFoundError:
            continue
        if lock_held(handle) is not False and _at(handle, path):
            return handle, path
        os.close(handle)


def open_ours(path: Path, flags: int) -> int | None:
    """Open a file that this module created, without following a link, and lock it.

    Returns None if the file does not exist, is not a regular file of this user, or another run has it.
    """
    try:
        handle = os.open(path, flags | _NO_FOLLOW | _NO_WAIT | _BINARY)
    except OSError:
        return None
    try:
        if _is_own_file(os.fstat(handle)) and lock_held(handle) is not False and _at(handle, path):
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def _is_own_file(status: os.stat_result, is_kind: object = stat.S_ISREG) -> bool:
    is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return is_ours and is_kind(status.st_mode)  # type: ignore[operator]


def remove_stale(folder: Path, tag: str, suffix: str, keep: Collection[str] = ()) -> None:
    """Remove files and folders of ``tag`` that a killed process left behind.

    What a live process holds stays; so does everything where the file system has no locks, since nobody
    can tell there. Errors are passed over: tidying must not stop a run.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = [e.name for e in entries if e.name.startswith(f".fastmcmd-{tag}-")]
        for name in names:
            if is_ours(name, suffix, tag) and name not in keep:
                with contextlib.suppress(OSError):
                    _remove_if_dead(folder / name)


def _remove_if_dead(path: Path) -> None:
    if fcntl is None:  # Windows: an open file cannot be removed
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        return
    is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    flags = (
        os.O_RDONLY if is_folder else os.O_RDWR
    )  # on NFS an exclusive lock needs the right to write
    handle = os.open(path, flags | _NO_FOLLOW | _NO_WAIT | _BINARY)
    try:
        kind = stat.S_ISDIR if is_folder else stat.S_ISREG
        if _is_own_file(os.fstat(handle), kind) and lock_held(handle) and _at(handle, path):
            if is_folder:
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    finally:
        os.close(handle)
