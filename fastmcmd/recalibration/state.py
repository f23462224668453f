"""Checks of the fitted attributes of recalibrators that are read from files."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array

__all__ = ["check_map", "check_number", "check_real", "check_vector"]


def check_number(value: object, name: str) -> None:
    """Raise an error unless ``value`` is a positive finite float."""
    if type(value) is not float or not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value!r:.60}; a positive finite number is needed")


def check_real(value: object, name: str) -> None:
    """Raise an error unless ``value`` is a finite float."""
    if type(value) is not float or not np.isfinite(value):
        raise ValueError(f"{name} is {value!r:.60}; a finite number is needed")


def check_vector(
    value: object,
    name: str,
    length: int | None = None,
    *,
    positive: bool = False,
    ascending: bool = True,
) -> None:
    """Raise an error unless ``value`` is a float64 vector of finite numbers.

    Parameters
    ----------
    value : Any
        The value read from a file.
    name : str
        Name of the attribute, for messages.
    length : int, optional
        Required number of entries.
    positive : bool
        Whether all entries must be positive.
    ascending : bool
        Whether entries must not decrease.
    """
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != 1:
        raise ValueError(f"{name} is no vector of float64")
    if length is not None and len(value) != length:
        raise ValueError(f"{name} has {len(value)} entries; {length} are needed")
    if not np.isfinite(value).all():
        raise ValueError(f"{name} holds NaN or infinity")
    if positive and not (value > 0).all():
        raise ValueError(f"{name} holds numbers that are not positive")
    if ascending and not (np.diff(value) >= 0).all():
        raise ValueError(f"{name} does not ascend")


def check_map(levels: Array, observed: Array) -> None:
    """Raise an error unless two vectors are knots of a strictly increasing map of [0, 1] onto itself."""
    for value, name in ((levels, "levels_"), (observed, "observed_")):
        check_vector(value, name)
        if len(value) < 2 or value[0] != 0 or value[-1] != 1 or not (np.diff(value) > 0).all():
            raise ValueError(f"{name} does not increase strictly from 0 to 1")
    if len(levels) != len(observed):
        raise ValueError(f"levels_ has {len(levels)} entries and observed_ has {len(observed)}")
