"""Checks and areas, as in ``uncertainty_toolbox.utils``."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "assert_is_flat_same_shape",
    "assert_is_positive",
    "intersection",
    "trapezoid_area",
]

Point: TypeAlias = tuple[ArrayLike, ArrayLike]


def assert_is_flat_same_shape(*args: Any) -> bool:
    """Return True if all arguments are NumPy vectors of one length, else raise an AssertionError.

    Examples
    --------
    >>> assert_is_flat_same_shape(np.zeros(2), np.ones(2))
    True
    """
    if not args:
        raise AssertionError("no arguments; at least one array is needed")
    for place, array in enumerate(args):
        if not isinstance(array, np.ndarray) or array.ndim != 1:
            got_text = (
                f"shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            )
            raise AssertionError(
                f"argument {place} is of {got_text}; a NumPy vector (n,) is needed"
            )
        if array.shape != args[0].shape:
            raise AssertionError(
                f"argument {place} has {len(array)} values and argument 0 {len(args[0])}; they must match"
            )
    return True


def assert_is_positive(*args: object) -> bool:
    """Return True if all NumPy arrays hold only positive values, else raise an AssertionError.

    Examples
    --------
    >>> assert_is_positive(np.ones(2))
    True
    """
    if not args:
        raise AssertionError("no arguments; at least one array is needed")
    for place, array in enumerate(args):
        if not isinstance(array, np.ndarray):
            raise AssertionError(f"argument {place} is {type(array).__name__}; an array is needed")
        if not (array > 0).all():
            raise AssertionError(f"argument {place} holds values that are not positive")
    return True


def trapezoid_area(
    xl: ArrayLike,
    al: ArrayLike,
    bl: ArrayLike,
    xr: ArrayLike,
    ar: ArrayLike,
    br: ArrayLike,
    absolute: bool = True,
) -> Any:
    """Return the areas between two lines over the intervals from xl to xr.

    Parameters
    ----------
    xl, xr : array_like
        Ends of the intervals.
    al, ar : array_like
        The first line at both ends.
    bl, br : array_like
        The second line at both ends. If the lines cross, the area is that of two triangles.
    absolute : bool
        Whether areas count where the second line is below the first; else they are subtracted.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> float(trapezoid_area(0.0, 0.0, 1.0, 1.0, 0.0, -1.0))
    0.5
    """
    left, right, width = np.subtract(bl, al), np.subtract(br, ar), np.subtract(xr, xl)
    if not absolute:
        return width * (left + right) / 2
    total = np.abs(left) + np.abs(right)
    crosses = left * right < 0
    squares = (left**2 + right**2) / np.where(crosses, total, 1.0)
    return np.abs(width) / 2 * np.where(crosses, squares, total)


def intersection(p1: Point, p2: Point, p3: Point, p4: Point) -> tuple[Any, Any]:
    """Return the intersection of the line through p1 and p2 with that through p3 and p4; NaN if parallel.

    Parameters
    ----------
    p1, p2, p3, p4 : (float, float), or pairs of arrays
        Points.

    Examples
    --------
    >>> [float(value) for value in intersection((0, 0), (1, 1), (0, 1), (1, 0))]
    [0.5, 0.5]
    """
    (x1, y1), (x2, y2), (x3, y3), (x4, y4) = p1, p2, p3, p4
    first, second = np.subtract(x1, x2), np.subtract(x3, x4)
    rise, other = np.subtract(y1, y2), np.subtract(y3, y4)
    cross, across = (
        np.multiply(x1, y2) - np.multiply(y1, x2),
        np.multiply(x3, y4) - np.multiply(y3, x4),
    )
    determinant = first * other - rise * second
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(determinant == 0, np.nan, 1.0 / np.asarray(determinant, dtype=np.float64))
    return (cross * second - first * across) * scale, (cross * other - rise * across) * scale
