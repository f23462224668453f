"""The Numba backend: it compiles a user's own kernel, and replaces a missing compiled extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import Array, Points
from fastmcmd.backends.tiled import TiledBackend
from fastmcmd.kernels import CustomKernel, Kernel, Product, Sum
from fastmcmd.kernels.distance import Stationary

__all__ = ["NumbaBackend"]

TileFunction = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class NumbaBackend(TiledBackend):
    """Tiles by compiled loops that release the interpreter lock."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        return "numba"

    @property
    def parallel(self) -> bool:
        """Return True: compiled loops run in parallel."""
        return True

    def tile_of(self, kernel: Kernel) -> TileFunction:
        """Return a compiled tile function; kernels of an inner product use NumPy."""
        match kernel:
            case CustomKernel():
                return _custom(kernel.function)
            case Sum(left=left, right=right):
                one, other = self.tile_of(left), self.tile_of(right)
                return lambda x, z: np.asarray(one(x, z) + other(x, z))
            case Product(left=left, right=right):
                one, other = self.tile_of(left), self.tile_of(right)
                return lambda x, z: np.asarray(one(x, z) * other(x, z))
            case Stationary():
                statistic = _statistics()[kernel.statistic]
                return lambda x, z: kernel.value(statistic(x, z))
        return kernel

    def symmetric_matmul(self, kernel: Kernel, x: Points, v: Array) -> NDArray[np.float64]:
        """Return K(x, x) v, streamed, each pair of tiles computed once."""
        return self.packed_sum(self._streamed(kernel, x), x.n, np.asarray(v, dtype=x.dtype))

    def packed_sum(
        self, tile: Callable[[int, int], Array], n: int, v: Array
    ) -> NDArray[np.float64]:
        """Return the product of a symmetric matrix, given by its lower tiles, with v.

        The tiles of a round share no block of rows. So threads never add to the same rows, and the order in
        which each row is summed does not depend on the number of threads.
        """
        out = np.zeros((n, v.shape[1]))
        blocks = self._blocks(n)
        for pairs in _rounds(len(blocks)):

            def work(index: int, pairs: list[tuple[int, int]] = pairs) -> None:
                i, j = pairs[index]
                part = tile(i, j)
                out[blocks[i]] += part @ v[blocks[j]]
                if i != j:
                    out[blocks[j]] += part.T @ v[blocks[i]]

            self._run_parallel(work, len(pairs))
        return out

    def quadratic_forms(self, kernel: Kernel, x: Points, c: Array) -> NDArray[np.float64]:
        """Return the diagonal of c' K c, from one product with K."""
        c = np.asarray(c, dtype=x.dtype)
        image = self.symmetric_matmul(kernel, x, c)
        sums = [np.einsum("ik,ik->k", c[rows], image[rows]) for rows in self._blocks(x.n)]
        return np.asarray(np.sum(sums, axis=0))


def _rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield all pairs i >= j below ``count``, in rounds in which no index occurs twice.

    The pairs i = j come first. The others follow the circle method of round-robin tournaments, in which one
    player stays and the others rotate.
    """
    yield [(i, i) for i in range(count)]
    players = list(range(count + count % 2))  # for an odd count, the last one is a bye
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = zip(players[:half], reversed(players[half:]), strict=True)
        yield [(max(pair), min(pair)) for pair in pairs if max(pair) < count]
        players.insert(1, players.pop())


@lru_cache(maxsize=1)
def _statistics() -> dict[str, TileFunction]:
    """Return the compiled distances between all pairs of two blocks of rows.

    The innermost loop runs over pairs, so that it is vectorised without reordering any sum.
    """
    import numba

    def over_pairs(term: Callable[[Any, Any], Any]) -> Any:
        term = numba.njit(inline="always")(term)

        @numba.njit(nogil=True)
        def statistic(x: Array, z: Array) -> Array:
            columns = np.ascontiguousarray(z.T)
            out = np.zeros((len(x), len(z)), dtype=x.dtype)
            for i in range(len(x)):
                row = out[i]
                for k in range(x.shape[1]):
                    value, column = x[i, k], columns[k]
                    for j in range(len(column)):
                        row[j] += term(value, column[j])
            return out

        return statistic

    return {
        "squared": over_pairs(lambda a, b: (a - b) * (a - b)),
        "l1": over_pairs(lambda a, b: abs(a - b)),
        "unequal": over_pairs(lambda a, b: 1 if a != b else 0),
    }


@lru_cache(maxsize=32)
def _custom(function: Callable[[Any, Any], float]) -> TileFunction:
    """Return the compiled loop over all pairs for a user's function."""
    import numba

    try:
        compiled = _compiled(function)
    except Exception as error:  # Numba also raises TypeError, NotImplementedError and its own
        raise _not_compiled(function, error) from error

    @numba.njit(nogil=True)
    def tile(x: Array, z: Array) -> Array:
        out = np.empty((len(x), len(z)), dtype=x.dtype)
        for i in range(len(x)):
            for j in range(len(z)):
                out[i, j] = compiled(x[i], z[j])
        return out

    def checked_tile(x: Array, z: Array) -> Array:
        try:
            values = np.asarray(tile(x, z))
        except numba.core.errors.NumbaError as error:
            raise _not_compiled(function, error) from error
        if not np.isfinite(values).all():
            raise ValueError(
                f"function {getattr(function, '__name__', function)!r} of the CustomKernel returned "
                f"{values[~np.isfinite(values)][0]} for a pair of rows; a finite number is needed"
            )
        return values

    return checked_tile


def _compiled(function: Any) -> Any:
    """Return the function compiled for float64 rows, or the function itself if it is compiled already."""
    import numba

    if hasattr(function, "py_func"):
        return function
    compiled: Any = numba.njit(nogil=True)(function)
    row = numba.types.Array(numba.float64, 1, "C")
    compiled.compile((row, row))
    kind = compiled.overloads[row, row].signature.return_type
    if not isinstance(kind, (numba.types.Float, numba.types.Integer, numba.types.Boolean)):
        raise TypeError(f"it returns {kind}, a number is needed")
    return compiled


def _not_compiled(function: Any, error: Exception) -> TypeError:
    """Return the error with the reason: the first line of Numba's message that is about the function."""
    frame = ("Failed in", "During:", "File ", "- Resolution", "- During")
    lines = (line.strip() for line in str(error).splitlines())
    reason = next((line for line in lines if line and not line.startswith(frame)), repr(error))
    return TypeError(
        f"function {getattr(function, '__name__', function)!r} of the CustomKernel cannot be compiled "
        f"by Numba ({reason}); write it with NumPy and plain loops, or use backend='numpy'"
    )
