"""Sums over long arrays without BLAS.

BLAS takes several threads for a product of 10,000 numbers. They go on spinning for a tenth of a second, and
take the processors from whatever comes next.
"""

from __future__ import annotations

import math

import numpy as np

from fastmcmd._base.annotations import Array

__all__ = ["dot", "size_of"]


def dot(a: Array, b: Array) -> float:
    """Return ``sum a b`` of two arrays (n,)."""
    return float(np.einsum("i,i->", a, b))


def size_of(a: Array) -> float:
    """Return the root of the sum of squares of an array of any shape: its Frobenius norm."""
    flat = a.ravel()
    return math.sqrt(dot(flat, flat))
