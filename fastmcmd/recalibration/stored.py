"""Fitted recalibrators on disk: one ``.npz`` of arrays and JSON text, never pickle."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.recalibration.base import Fitted
from fastmcmd.storage import read_arrays, write_arrays

__all__ = ["load", "save"]


def save(recalibrator: Fitted, path: Any) -> None:
    """Write a fitted recalibrator to ``path``."""
    recalibrator.check_fitted()
    numbers = {k: v for k, v in recalibrator.fitted.items() if not isinstance(v, np.ndarray)}
    settings = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in recalibrator.settings.items()
    }
    arrays = {k: v for k, v in recalibrator.fitted.items() if isinstance(v, np.ndarray)}
    told = {
        "recalibrator": type(recalibrator).__name__,
        "settings": settings,
        "numbers": numbers,
    }
    try:
        write_arrays(path, arrays, told)
    except TypeError as error:
        raise TypeError(
            f"{recalibrator!r} cannot be saved: {error}; give numbers, strings or arrays as settings"
        ) from None


def load(path: Any) -> Any:
    """Return the fitted recalibrator that its ``save`` wrote.

    Parameters
    ----------
    path : str or Path
        The ``.npz`` file.

    Returns
    -------
    Recalibrator, ConformalIntervals or TemperatureScaling
        Of the class, settings and fitted attributes that were saved.

    Raises
    ------
    ValueError
        The file holds no recalibrator, or is damaged, or of a later format.
    """
    arrays, told = read_arrays(path, "recalibrator")
    if "recalibrator" not in told:
        raise ValueError(f"{path} is not a saved recalibrator; fastmcmd.load reads other objects")
    return restored(path, arrays, told)


def restored(path: Any, arrays: dict[str, Any], told: dict[str, Any]) -> Any:
    """Return the recalibrator of what was read from a file."""
    from fastmcmd import recalibration

    name = told["recalibrator"]
    kind = getattr(recalibration, str(name), None) if name in recalibration.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, Fitted)):
        raise ValueError(f"{path} holds a {name}, which this fastmcmd does not know")
    try:
        found = kind(**told["settings"])
        for attribute, value in {**told["numbers"], **arrays}.items():
            if not attribute.endswith("_") or attribute.startswith("_"):
                raise KeyError(attribute)
            setattr(found, attribute, value)
        found.check_state()
    except Exception as error:  # settings are any JSON
        raise ValueError(f"{path} is not a saved {name}: {error}") from None
    return found
