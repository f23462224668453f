"""Chebyshev points of an interval, and the series through values at these points."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array

__all__ = ["chebyshev_points", "to_series"]


def _angles(count: int) -> Array:
    return (np.arange(count) + 0.5) * np.pi / count


def chebyshev_points(count: int) -> Array:
    """Return the Chebyshev points of [-1, 1], descending."""
    return np.asarray(np.cos(_angles(count)))


def to_series(count: int) -> Array:
    """Return the matrix from values at Chebyshev points to coefficients of Chebyshev polynomials."""
    matrix = np.cos(np.outer(np.arange(count), _angles(count))) * 2 / count
    matrix[0] /= 2
    return np.asarray(matrix)
