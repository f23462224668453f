"""The Numba backend: compiles a person's own kernel, and stands in where the extension is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fastmcmd.backends.base import Array
from fastmcmd.backends.tiled import TiledBackend
from fastmcmd.kernels import CustomKernel, Kernel, Laplacian, Product, Sum
from fastmcmd.kernels.distance import number

__all__ = ["NumbaBackend"]


@dataclass(frozen=True)
class NumbaBackend(TiledBackend):
    """Tiles by compiled loops that release the interpreter lock."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        return "numba"

    @property
    def parallel(self) -> bool:
        """Return True: compiled loops run beside each other."""
        return True

    def tile_of(self, kernel: Kernel) -> Callable[[Array, Array], Array]:
        """Return a compiled tile function; kernels without loops of their own stay NumPy's."""
        match kernel:
            case CustomKernel(function=function):
                return _custom(function)
            case Sum(left=left, right=right):
                one, other = self.tile_of(left), self.tile_of(right)
                return lambda x, z: np.asarray(one(x, z) + other(x, z))
            case Product(left=left, right=right):
                one, other = self.tile_of(left), self.tile_of(right)
                return lambda x, z: np.asarray(one(x, z) * other(x, z))
            case Laplacian(gamma=gamma):
                return lambda x, z: np.asarray(np.exp(x.dtype.type(-number(gamma)) * _l1()(x, z)))
        return kernel


@lru_cache(maxsize=1)
def _l1() -> Any:
    import numba

    @numba.njit(nogil=True)
    def distances(x: Array, z: Array) -> Array:
        out = np.empty((len(x), len(z)), dtype=x.dtype)
        for i in range(len(x)):
            for j in range(len(z)):
                total = x[i, 0] - x[i, 0]
                for k in range(x.shape[1]):
                    total += abs(x[i, k] - z[j, k])
                out[i, j] = total
        return out

    return distances


@lru_cache(maxsize=32)
def _custom(function: Callable[[Any, Any], float]) -> Callable[[Array, Array], Array]:
    """Return the compiled loop over all pairs of a person's function."""
    import numba

    compiled: Any = function
    if not hasattr(function, "py_func"):  # not compiled by the person
        compiled = numba.njit(nogil=True)(function)

    @numba.njit(nogil=True)
    def tile(x: Array, z: Array) -> Array:
        out = np.empty((len(x), len(z)), dtype=x.dtype)
        for i in range(len(x)):
            for j in range(len(z)):
                out[i, j] = compiled(x[i], z[j])
        return out

    def checked(x: Array, z: Array) -> Array:
        try:
            return np.asarray(tile(x, z))
        except numba.core.errors.NumbaError as error:
            reason = str(error).strip().splitlines()
            told = next((line for line in reason if line.strip()), "unknown")
            raise TypeError(
                f"function {getattr(function, '__name__', function)!r} of the CustomKernel cannot be "
                f"compiled by Numba ({told}); write it with NumPy and plain loops, or use "
                "backend='numpy'"
            ) from None

    return checked
