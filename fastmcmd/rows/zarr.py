"""Zarr arrays, in a folder or in any other store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd.rows.source import Array, RowSource, files, package, package_of

_CHUNKS = 20  # in memory while Zarr reads: ten at a time by default, each stored and decoded


class Zarr(RowSource):
    """A Zarr array of version 2 or 3, read in slices of rows."""

    def __init__(self, array: Any, path: Path | None, where: str) -> None:
        self.where, self.path = where, path
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)
        self._array = array
        self._chunked(array.chunks, _CHUNKS)

    @classmethod
    def from_path(cls, path: Path, inside: str, where: str) -> Zarr:
        """Open the array at ``path``, or array ``inside`` of the group there."""
        array = package("zarr", where).open(str(path), mode="r")
        if inside:
            array = array[inside.strip("/")]
        if not hasattr(array, "chunks"):
            names = ", ".join(sorted(array.array_keys())) or "none"
            raise ValueError(f"it is a group; write {path}::name, of its arrays: {names}")
        _check_blosc(array, path / inside.strip("/"))
        return cls(array, path, where)

    @classmethod
    def from_object(cls, value: object) -> Zarr:
        """Return the source of an array that the caller has opened."""
        if not hasattr(value, "chunks"):
            raise TypeError(f"an array of Zarr is needed, not a {type(value).__name__}")
        store = getattr(value, "store", None)
        root = getattr(store, "root", getattr(store, "path", None))  # LocalStore; version 2
        path = None if root is None else Path(root).absolute()
        if path is None or not path.exists():
            return cls(value, None, "Zarr array")
        if path.is_dir():
            path = path / getattr(value, "path", "")
            _check_blosc(value, path)
        return cls(value, path, str(path))

    def read(self, start: int, stop: int) -> Array:
        """Return the rows of the array."""
        return np.asarray(self._array[start:stop])


def is_zarr(value: object) -> bool:
    """Return whether ``value`` is a Zarr array of any version, or indexes like one."""
    selects = hasattr(value, "oindex") or hasattr(value, "get_orthogonal_selection")
    return package_of(value) == "zarr" or (selects and hasattr(value, "chunks"))


def _check_blosc(array: Any, folder: Path) -> None:
    """Raise an error if a chunk is shorter than its Blosc header says: the decoder would return noise."""
    newer = hasattr(array, "compressors")
    codecs = array.compressors if newer else (getattr(array, "compressor", None),)
    in_shards = getattr(array, "shards", None) is not None  # their index has a checksum
    if in_shards or not codecs or not type(codecs[-1]).__name__.startswith("Blosc"):
        return
    for file in files(folder):
        if file.name != "zarr.json" and not file.name.startswith(".z"):
            with open(file, "rb") as stream:
                header = stream.read(16)
            if len(header) < 16 or file.stat().st_size < int.from_bytes(header[12:], "little"):
                raise ValueError(f"chunk {file} is cut short")
