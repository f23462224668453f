"""What all functions of the drop-in read: vectors of numbers, by their names there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.checks import as_array, as_rows, check_same_length
from fastmcmd.predictive import Gaussian

__all__ = ["Vector", "gaussian", "number", "vector", "vectors"]

Vector = NDArray[np.float64]


def vector(value: Any, name: str) -> Vector:
    """Return a finite vector (n,) of float64, n at least 1."""
    array = as_array(value, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; a vector (n,) is needed")
    return as_rows(array, name)[:, 0].astype(np.float64)


def vectors(**values: Any) -> tuple[Vector, ...]:
    """Return named vectors of equal length."""
    found = {name: vector(value, name) for name, value in values.items()}
    check_same_length(**found)
    if "y_std" in found and not (found["y_std"] > 0).all():
        bad = int((found["y_std"] <= 0).argmax())
        raise ValueError(
            f"y_std holds values that are not positive (first in row {bad}: {found['y_std'][bad]:g})"
        )
    return tuple(found.values())


def gaussian(y_pred: Any, y_std: Any, y_true: Any) -> tuple[Vector, Gaussian]:
    """Return outcomes (n,) and their predicted distributions."""
    mean, std, outcomes = vectors(y_pred=y_pred, y_std=y_std, y_true=y_true)
    return outcomes, Gaussian(mean, std)


def number(value: Any, name: str) -> float:
    """Return a number, or the only element of an array, as a float."""
    array = as_array(value, name)
    if array.size != 1 or array.ndim > 1:
        raise ValueError(f"{name} has shape {array.shape}; a number is needed")
    return float(array.reshape(()))
