"""Fitted objects on disk: one ``.npz`` of arrays and JSON text, written atomically, never pickle."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fastmcmd._version import __version__
from fastmcmd.io import Archive, write_atomically, write_npz

if TYPE_CHECKING:
    from fastmcmd.estimator import ConditionalCongruence

__all__ = ["load", "read_arrays", "save", "write_arrays"]

_FORMAT = 2  # 2 has a checksum over all contents, and the parameters as they were given
_READ = (1, 2)
_SETTINGS, _CHECKSUM = "settings", "checksum"


def save(estimator: ConditionalCongruence, path: Any) -> None:
    """Write a fitted `ConditionalCongruence` to ``path``."""
    from fastmcmd.estimate.saved import to_arrays

    arrays, settings = to_arrays(estimator)
    settings = {
        **settings,
        "result_info": asdict(estimator.result_.info),
        "result_tol": estimator.result_.tol,
    }
    arrays["result_values"] = estimator.result_.values
    arrays["result_error_bounds"] = estimator.result_.error_bounds
    write_arrays(path, arrays, settings)


def load(path: Any) -> Any:
    """Read a fitted object written by its ``save``: `ConditionalCongruence` or a recalibrator.

    Parameters
    ----------
    path : str or Path
        The ``.npz`` file.

    Raises
    ------
    ValueError
        The file is no fitted object of fastmcmd, or is damaged, or of a later format.
    OSError
        It cannot be opened.
    """
    from fastmcmd.estimate.saved import from_arrays
    from fastmcmd.recalibration.stored import restored

    arrays, settings = read_arrays(path, "ConditionalCongruence or recalibrator")
    if "recalibrator" in settings:
        return restored(path, arrays, settings)
    return from_arrays(path, arrays, settings)


def read_arrays(path: Any, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the settings of a saved object; ``what`` it is, for messages."""
    try:
        with Archive(path, "path") as archive:
            if _SETTINGS not in archive.names:
                raise ValueError("it has no settings")
            arrays = archive.arrays()
        text = arrays.pop(_SETTINGS).tobytes()
        settings = json.loads(text.decode())
        version, writer = settings.get("format"), settings.get("fastmcmd")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a saved {what}: {error}") from None
    if version not in _READ:
        raise ValueError(
            f"{path} has format {version} (fastmcmd {writer}); "
            f"this is fastmcmd {__version__}, which reads format {_FORMAT}"
        )
    if version >= 2:
        told = arrays.pop(_CHECKSUM, None)
        if told is None or told.tobytes() != _checksum(arrays, text):
            raise ValueError(f"{path} is damaged: its contents do not match their checksum")
    return arrays, settings


def write_arrays(path: Any, arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    """Write what `read_arrays` reads, atomically."""
    text = json.dumps({"format": _FORMAT, "fastmcmd": __version__, **settings}).encode()
    contents = {
        **arrays,
        _SETTINGS: np.frombuffer(text, dtype=np.uint8),
        _CHECKSUM: np.frombuffer(_checksum(arrays, text), dtype=np.uint8),
    }

    def write(stream: BinaryIO) -> None:
        write_npz(stream, contents)

    write_atomically(path, write)


def _checksum(arrays: dict[str, Any], settings: bytes) -> bytes:
    """Return a hash of all contents: a member that was exchanged has a right checksum of its own."""
    hasher = hashlib.blake2b(settings, digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        hasher.update(f"{name} {array.dtype.str} {array.shape}".encode())
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.digest()
