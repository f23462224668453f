"""Encoded inputs on disk, named by a digest of the inputs."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import is_tensor, tensor_on_host
from fastmcmd.encoders.items import Item, Items, is_image
from fastmcmd.io import read_npy, source, write_atomically, write_npy

__all__ = ["check_folder", "digest_of", "file_digest", "read", "write"]

_BLOCK = 1 << 24  # bytes read of a file, or of an array, at once
_END, _DIGEST = b"fastmcmd checksum", 16  # behind the array of a cached file
_FORMAT = b"fastmcmd encoders 1"  # changes whenever the hashed bytes change


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Return ``cache_dir`` as a path; it must be an existing folder."""
    if isinstance(folder, bytes) or not isinstance(folder, str | os.PathLike):
        raise TypeError(f"cache_dir is {folder!r}; None or the path of a folder is needed")
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        raise FileNotFoundError(f"cache_dir is {str(path)!r}; an existing folder is needed")
    return path


def digest_of(name: str, items: Items) -> str:
    """Return the SHA-256 of a name and of the contents of inputs, in hexadecimal."""
    hasher = hashlib.sha256(_FORMAT)
    _add(hasher, "name", name.encode())
    if isinstance(items, np.ndarray) or is_tensor(items):
        _add_array(hasher, items)
    else:
        _add(hasher, "list", str(len(items)).encode())
        for index, item in enumerate(items):
            _add_item(hasher, item, index)
    return hasher.hexdigest()


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    hasher = hashlib.sha256()
    try:
        with open(source(path, "an input"), "rb") as file:  # reading a FIFO might never end
            while block := file.read(_BLOCK):
                hasher.update(block)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"an input is {str(path)!r}; the path of a file is needed"
        ) from None
    return hasher.hexdigest()


def _add(hasher: hashlib._Hash, kind: str, content: bytes) -> None:
    """Add a part with its kind and its length, so that parts cannot run into each other."""
    hasher.update(f"{kind}:{len(content)}:".encode())
    hasher.update(content)


def _add_array(hasher: hashlib._Hash, array: AnyArray) -> None:
    kind = "array"
    if is_tensor(array):  # a function may treat it differently from an array
        kind = str(array.dtype)
        array = tensor_on_host(array, "inputs").numpy()
    if array.dtype.hasobject:
        raise TypeError("an input is an array of Python objects, which have no digest")
    _add(hasher, kind, f"{array.dtype.str}{array.shape}".encode())
    if not array.ndim:
        hasher.update(array.tobytes())
        return
    step = max(1, _BLOCK // max(1, array[:1].nbytes))
    for start in range(0, len(array), step):
        hasher.update(np.ascontiguousarray(array[start : start + step]).data.cast("B"))


def _add_item(hasher: hashlib._Hash, item: Item, index: int) -> None:
    match item:
        case str():
            _add(hasher, "text", item.encode("utf-8", "surrogatepass"))
        case bytes():
            _add(hasher, "bytes", item)
        case os.PathLike():
            _add(hasher, "file", file_digest(item).encode())
        case bool() | int() | float() | None:
            _add(hasher, type(item).__name__, repr(item).encode())
        case np.ndarray() | np.generic():
            _add_array(hasher, np.asarray(item))
        case list() | tuple():
            _add(hasher, "list", str(len(item)).encode())
            for part in item:
                _add_item(hasher, part, index)
        case _ if is_tensor(item):
            _add_array(hasher, item)
        case _ if is_image(item):
            palette = item.palette.tobytes() if item.mode == "P" and item.palette else b""
            _add(hasher, "image", f"{item.mode}{item.size}".encode() + palette)
            _add(hasher, "pixels", item.tobytes())
        case _:
            raise TypeError(
                f"input {index} is a {type(item).__name__}, whose content has no digest; with cache_dir, "
                "strings, paths, numbers, arrays, tensors, PIL images and lists of them are needed"
            )


def _path(folder: Path, name: str, digest: str) -> Path:
    """Return the file of a result: a readable name and a digest."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:60]
    return folder / f"{plain or 'encoder'}-{digest}.npy"


def read(folder: Path, name: str, digest: str, count: int) -> NDArray[np.float32] | None:
    """Return cached rows, or None; warns about a file that cannot be used, which is then replaced.

    The checksum behind the array is compared: damaged rows are never returned.
    """
    path = _path(folder, name, digest)
    try:
        rows = read_npy(path, "cache_dir")
        with open(path, "rb") as file:
            file.seek(-len(_END) - _DIGEST, os.SEEK_END)
            end = file.read()
        reason = "it has no checksum, or does not match it"
        right = end == _END + _checksum(rows)
        if rows.dtype != np.float32 or rows.ndim != 2 or len(rows) != count:
            right, reason = False, "another content"
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        right, reason = False, str(error)
    if right:
        return rows
    warnings.warn(
        f"{path} in cache_dir cannot be used ({reason}); the inputs are encoded again",
        UserWarning,
        stacklevel=3,
    )
    return None


def write(folder: Path, name: str, digest: str, rows: NDArray[np.float32]) -> None:
    """Cache rows under a name that appears when the file is complete, however the process ends."""

    def write_rows(stream: BinaryIO) -> None:
        write_npy(stream, rows)
        stream.write(_END + _checksum(rows))  # readers of .npy files stop before it

    write_atomically(_path(folder, name, digest), write_rows, "cache_dir")


def _checksum(rows: NDArray[np.float32]) -> bytes:
    hasher = hashlib.blake2b(f"{rows.shape}".encode(), digest_size=_DIGEST)
    hasher.update(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)
    return hasher.digest()
