"""Storage of fitted objects: one ``.npz`` file of arrays and JSON text, written atomically without pickle.

A saved object is a state (`fastmcmd.io.state`) with the name of its class. A module that can restore a
class registers a reader for its name with `register`, so this module imports no such class.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any, BinaryIO

import numpy as np

from fastmcmd._base.annotations import FilePath, HostArray, Json
from fastmcmd._version import __version__
from fastmcmd.errors import MissingDependencyError
from fastmcmd.io import Archive, write_atomically, write_npz
from fastmcmd.io.state import encode

__all__ = ["load", "load_kind", "read_file", "register", "save", "write_file"]

Arrays = dict[str, HostArray]
Reader = Callable[[Arrays, Json, int], Any]

# 1: no checksum, resolved kernels only. 2: array names separate from fields. 3: states by field name.
_FORMAT = 3
_READABLE_FORMATS = (1, 2, 3)
_SETTINGS, _CHECKSUM = "settings", "checksum"
_ESTIMATOR = "ConditionalCongruence"  # formats 1 and 2 name only recalibrators

_READERS: dict[str, Reader] = {}


def register(kind: str, reader: Reader) -> None:
    """Let `load` restore objects of the class named ``kind``.

    Parameters
    ----------
    kind : str
        Name of the class.
    reader : callable
        Receives the arrays and the document of a state, and the format of the file; returns the object. Any
        exception it raises means that the file is damaged, except `MissingDependencyError` and
        `MemoryError`.
    """
    _READERS[kind] = reader


def save(path: FilePath, kind: str, state: object) -> None:
    """Write the state of an object of the class named ``kind``."""
    arrays, document = encode(state)
    write_file(path, arrays, {"kind": kind, "state": document})


def load(path: FilePath) -> Any:
    """Return an object that its ``save`` wrote: an estimator, a recalibrator, a monitor or an accumulator.

    Parameters
    ----------
    path : str or Path
        The ``.npz`` file.

    Raises
    ------
    ValueError
        The file is not a fitted object of fastmcmd, is damaged, or has a later format.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=50)
    >>> fitted = fm.recalibration.StdScaling().fit((np.zeros(50), 0.5), y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "scaling.npz")
    ...     fitted.save(path)
    ...     fm.load(path).scale_ == fitted.scale_
    True
    """
    return load_kind(path)


def load_kind(path: FilePath, kinds: Collection[str] | None = None, kind_name: str = "") -> Any:
    """Return a fitted object of one of several classes.

    Parameters
    ----------
    path : str or Path
        The ``.npz`` file.
    kinds : collection of str, optional
        Names of the accepted classes. Default: all.
    kind_name : str
        Description of these classes for messages.

    Raises
    ------
    ValueError, OSError
        As `load`.
    """
    arrays, settings, version = read_file(path, kind_name or f"{_ESTIMATOR} or recalibrator")
    kind = settings.get("kind") if version >= 3 else settings.get("recalibrator", _ESTIMATOR)
    if kinds is not None and kind == _ESTIMATOR and kind not in kinds:
        raise ValueError(
            f"path {path} is not a saved {kind_name}; fastmcmd.load reads other objects"
        )
    reader = _READERS.get(kind) if isinstance(kind, str) and kind in (kinds or _READERS) else None
    if reader is None:
        raise ValueError(f"{path} holds a {kind}, which this fastmcmd does not know")
    try:
        return reader(arrays, settings["state"] if version >= 3 else settings, version)
    except (MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # a damaged file may hold any JSON
        text = repr(error) if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged, or not a saved {kind}: {text}") from error


def read_file(path: FilePath, kind_name: str) -> tuple[Arrays, Json, int]:
    """Return the arrays, settings and format of a file; messages call it a ``kind_name``."""
    try:
        with Archive(path, "path") as archive:
            if _SETTINGS not in archive.names:
                raise ValueError("it has no settings")
            arrays = archive.arrays()
        text = arrays.pop(_SETTINGS).tobytes()
        settings = json.loads(text.decode())
        version, writer = settings.get("format"), settings.get("fastmcmd")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"path {path} is not a saved {kind_name}: {error}") from None
    if version not in _READABLE_FORMATS:
        raise ValueError(
            f"{path} has format {version} (fastmcmd {writer}); "
            f"this is fastmcmd {__version__}, which reads format {_FORMAT}"
        )
    if version >= 2:
        checksum = arrays.pop(_CHECKSUM, None)
        if checksum is None or checksum.tobytes() != _checksum(arrays, text):
            raise ValueError(f"{path} is damaged: its contents do not match their checksum")
    return arrays, settings, version


def write_file(path: FilePath, arrays: Arrays, settings: Json) -> None:
    """Write arrays and settings atomically, for `read_file`."""
    text = json.dumps({"format": _FORMAT, "fastmcmd": __version__, **settings}).encode()
    contents = {
        **arrays,
        _SETTINGS: np.frombuffer(text, dtype=np.uint8),
        _CHECKSUM: np.frombuffer(_checksum(arrays, text), dtype=np.uint8),
    }

    def write(stream: BinaryIO) -> None:
        write_npz(stream, contents)

    write_atomically(path, write)


def _checksum(arrays: Arrays, settings: bytes) -> bytes:
    """Return a hash of all contents; checksums of single zip members do not detect exchanged members."""
    hasher = hashlib.blake2b(settings, digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        hasher.update(f"{name} {array.dtype.str} {array.shape}".encode())
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.digest()
