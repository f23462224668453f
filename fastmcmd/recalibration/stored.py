"""Storage of fitted recalibrators: their settings and fitted attributes, by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmcmd import storage
from fastmcmd._base.annotations import FilePath, Json
from fastmcmd.io.state import decode
from fastmcmd.kernels import Kernel, kernel_from_dict

if TYPE_CHECKING:
    from fastmcmd.recalibration.base import Fitted

__all__ = ["load", "register", "save"]

_KINDS: list[str] = []


@dataclass(frozen=True)
class RecalibratorState:
    """Constructor arguments and fitted attributes, both by name."""

    settings: Json
    fitted: dict[str, Any]


def register(kind: type[Fitted]) -> None:
    """Let `load` and `fastmcmd.load` restore recalibrators of a class."""
    _KINDS.append(kind.__name__)
    storage.register(kind.__name__, partial(_restored, kind))


def save(recalibrator: Fitted, path: FilePath) -> None:
    """Write a fitted recalibrator to ``path``."""
    recalibrator.check_fitted()
    settings = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in recalibrator.settings.items()
    }
    for name, value in settings.items():
        if isinstance(value, Kernel):
            settings[name] = value.to_dict()
    try:
        state = RecalibratorState(settings, recalibrator.fitted)
        storage.save(path, type(recalibrator).__name__, state)
    except TypeError as error:
        raise TypeError(
            f"{recalibrator!r} cannot be saved: {error}; give numbers, strings or arrays as settings"
        ) from None


def load(path: FilePath) -> Any:
    """Return the fitted recalibrator that its ``save`` wrote.

    Parameters
    ----------
    path : str or Path
        The ``.npz`` file.

    Returns
    -------
    Recalibrator, ConformalIntervals or TemperatureScaling
        The object, with the class, settings and fitted attributes that were saved.

    Raises
    ------
    ValueError
        If the file holds no recalibrator, is damaged, or has a later format.
    """
    return storage.load_kind(path, _KINDS, "recalibrator")


def _restored(kind: type[Fitted], arrays: dict[str, Any], document: Json, version: int) -> Fitted:
    if version < 3:
        state = RecalibratorState(document["settings"], {**document["numbers"], **arrays})
    else:
        state = decode(RecalibratorState, arrays, document)
    settings = {
        name: kernel_from_dict(value) if isinstance(value, dict) else value
        for name, value in state.settings.items()
    }
    recalibrator = kind(**settings)
    for name, value in state.fitted.items():
        if not name.endswith("_") or name.startswith("_"):
            raise ValueError(f"{name} is no fitted attribute")
        if isinstance(value, dict):
            raise TypeError(f"{name} is {value!r}")
        setattr(recalibrator, name, value)
    recalibrator.check_state()
    return recalibrator
