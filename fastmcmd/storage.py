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

__all__ = ["load", "read_arrays", "save", "write_arrays", "write_atomically"]

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
    """
    from fastmcmd.estimate.saved import from_arrays
    from fastmcmd.recalibration.stored import restored

    arrays, settings = read_arrays(path, "ConditionalCongruence or recalibrator")
    if "recalibrator" in settings:
        return restored(path, arrays, settings)
    return from_arrays(arrays, settings)


def read_arrays(path: Any, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays and the settings of a saved object; ``what`` is it, for messages."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        settings = json.loads(arrays.pop("settings").tobytes().decode())
        told = {name: settings.get(name) for name in ("format", "fastmcmd")}
    except (KeyError, ValueError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a saved {what}: {error!r}") from None
    if told["format"] != _FORMAT:
        raise ValueError(
            f"{path} has format {told['format']} (fastmcmd {told['fastmcmd']}); "
            f"this is fastmcmd {__version__}, which reads format {_FORMAT}"
        )
    return arrays, settings


def write_arrays(path: Any, arrays: dict[str, Any], settings: dict[str, Any]) -> None:
    """Write what `read_arrays` reads, atomically."""
    text = json.dumps({"format": _FORMAT, "fastmcmd": __version__, **settings})

    def write(stream: BinaryIO) -> None:
        np.savez(stream, **arrays, settings=np.frombuffer(text.encode(), dtype=np.uint8))

    write_atomically(path, write)
