"""Checked arguments of the drop-in functions: vectors of numbers, with the names of the original."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import as_array, as_rows, check_same_length
from fastmcmd._base.docstrings import entries, with_shared_parameters
from fastmcmd.predictive import Gaussian

__all__ = ["Vector", "documented", "gaussian", "number", "vector", "vectors"]

Vector = NDArray[np.float64]

documented = with_shared_parameters(
    entries("""
y_pred : array_like (n,)
    Predicted means.
y_std : array_like (n,)
    Predicted standard deviations.
y_true : array_like (n,)
    Observed outputs.
num_bins : int, default 100
    Number of evenly spaced levels, 0 and 1 included.
vectorized : bool, default False
    Has no effect.
recal_model : object with ``predict``, optional
    Maps levels to those at which proportions are observed, such as the result of `iso_recal`.
prop_type : {"interval", "quantile"}, default "interval"
    Proportions in central intervals, or below quantiles.
scaled : bool, default True
    Whether to return the mean over rows rather than the sum.
resolution : int, default 99
    Number of levels of the check score and the interval score.
verbose : bool
    Whether to print what is computed.
""")
)


def vector(value: ArrayLike, name: str) -> Vector:
    """Return a finite vector (n,) of float64, n at least 1."""
    array = as_array(value, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; a vector (n,) is needed")
    return as_rows(array, name)[:, 0].astype(np.float64)


def vectors(**values: ArrayLike) -> tuple[Vector, ...]:
    """Return named vectors of equal length."""
    arrays = {name: vector(value, name) for name, value in values.items()}
    check_same_length(**arrays)
    if "y_std" in arrays and not (arrays["y_std"] > 0).all():
        bad = int((arrays["y_std"] <= 0).argmax())
        raise ValueError(
            f"y_std holds values that are not positive (first in row {bad}: {arrays['y_std'][bad]:g})"
        )
    return tuple(arrays.values())


def gaussian(y_pred: ArrayLike, y_std: ArrayLike, y_true: ArrayLike) -> tuple[Vector, Gaussian]:
    """Return outcomes (n,) and their predicted distributions."""
    mean, std, outcomes = vectors(y_pred=y_pred, y_std=y_std, y_true=y_true)
    return outcomes, Gaussian(mean, std)


def number(value: float, name: str) -> float:
    """Return a number, or the only element of an array, as a float."""
    array = as_array(value, name)
    if array.size != 1 or array.ndim > 1:
        raise ValueError(f"{name} has shape {array.shape}; a number is needed")
    return float(array.reshape(()))
