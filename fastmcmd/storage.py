"""Fitted objects on disk: one ``.npz`` of arrays and JSON text, written atomically, never pickle."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fastmcmd._version import __version__

if TYPE_CHECKING:
    from fastmcmd.estimator import ConditionalCongruence

__all__ = ["load", "save", "write_atomically"]

_FORMAT = 1


def write_atomically(path: Any, write: Callable[[BinaryIO], None]) -> None:
    """Call ``write`` on a temporary file beside ``path``, then move it there in one step.

    Whatever happens before the end leaves no half file: an earlier file at ``path`` stays as it was.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=path.name + ".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save(estimator: ConditionalCongruence, path: Any) -> None:
    """Write a fitted `ConditionalCongruence` to ``path``."""
    from fastmcmd.estimate.saved import to_arrays

    arrays, settings = to_arrays(estimator)
    settings = {
        "format": _FORMAT,
        "fastmcmd": __version__,
        **settings,
        "result_info": asdict(estimator.result_.info),
        "result_tol": estimator.result_.tol,
    }
    arrays["result_values"] = estimator.result_.values
    arrays["result_error_bounds"] = estimator.result_.error_bounds
    arrays["settings"] = np.frombuffer(json.dumps(settings).encode(), dtype=np.uint8)

    def write(stream: BinaryIO) -> None:
        np.savez(stream, **arrays)  # type: ignore[arg-type]

    write_atomically(path, write)


def load(path: Any) -> ConditionalCongruence:
    """Read a fitted `ConditionalCongruence` written by its ``save``.

    Parameters
    ----------
    path : str or Path
        The ``.npz`` file.

    Raises
    ------
    ValueError
        The file is no fitted object of fastmcmd, or is damaged, or of a later format.
    """
    from fastmcmd.estimate.saved import from_arrays

    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        settings = json.loads(arrays.pop("settings").tobytes().decode())
    except (KeyError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a saved ConditionalCongruence: {error}") from None
    if settings.get("format") != _FORMAT:
        raise ValueError(
            f"{path} has format {settings.get('format')} (fastmcmd {settings.get('fastmcmd')}); "
            f"this is fastmcmd {__version__}, which reads format {_FORMAT}"
        )
    return from_arrays(arrays, settings)
