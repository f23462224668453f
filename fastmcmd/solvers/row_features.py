"""Features F (n, p) of all rows at the landmarks of a preconditioner, as a matrix for products.

`StoredFeatures` holds them in float32: a preconditioner need not be exact, and the products cost a small
part of a product with K. Where they do not fit, `StreamedFeatures` computes kernel values anew for each
product, ``F'v = L^-1 K(Z, X) v`` and ``F s = K(X, Z) L'^-1 s``, in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.memory import power_of_two_within
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.cpu import core
from fastmcmd.backends.tall_skinny import substituted
from fastmcmd.gram import EXACT, GramOperator, KernelFeatures
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.rows import as_blocks

__all__ = ["FeatureMatrix", "StoredFeatures", "StreamedFeatures"]

# Bytes of a block of rows; on a device, starting the work on few rows would take longer than the work.
_BLOCK_BYTES, _DEVICE_BLOCK_BYTES = 16_000_000, 1_000_000_000


class FeatureMatrix(Protocol):
    """The matrix F (n, p).

    Attributes
    ----------
    rank : int
        Number of landmarks p.
    """

    rank: int

    def gram(self, weight: Array) -> Array:
        """Return ``F' diag(weight) F`` (p, p)."""

    def adjoint(self, v: Array) -> Array:
        """Return ``F' v`` (p, k)."""

    def images(self, s: Array) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of ``F s`` (n, k) with their rows."""


class StoredFeatures:
    """Features in float32, by blocks of rows.

    Parameters
    ----------
    operator : GramOperator
        K; only its rows and its kernel are used. It counts the memory.
    features : KernelFeatures
        Features of the kernel at the landmarks.
    """

    def __init__(self, operator: GramOperator, features: KernelFeatures) -> None:
        self.rank = features.rank
        operator.reserve(FLOAT32.itemsize * features.rank * operator.size)
        self._blocks: list[tuple[slice, Array]] = []
        step = max(256, _BLOCK_BYTES // (4 * (features.rank + 2 * operator.dim)))
        for rows, x in as_blocks(operator.x, step):
            values = features.of_rows(x, FLOAT32, keep=True, sizes=False)[0].values
            assert values is not None
            self._blocks.append((rows, values))

    def gram(self, weight: Array) -> Array:
        """Return ``F' diag(weight) F`` (p, p)."""
        total = np.zeros((self.rank, self.rank))
        for rows, values in self._blocks:
            core().self_product(
                values, np.ascontiguousarray(weight[rows]), total, get_num_threads()
            )
        return total

    def adjoint(self, v: Array) -> Array:
        """Return ``F' v`` (p, k)."""
        total = np.zeros((self.rank, v.shape[1]))
        part = np.empty_like(total)
        for rows, values in self._blocks:
            right = np.ascontiguousarray(v[rows], dtype=values.dtype)
            core().dense_matmul(values, right, part, get_num_threads())
            total += part
        return total

    def images(self, s: Array) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of ``F s`` (n, k) with their rows."""
        right = np.ascontiguousarray(s, dtype=self._blocks[0][1].dtype)
        for rows, values in self._blocks:
            out = np.empty((values.shape[1], s.shape[1]))
            core().dense_matmul(values, right, out, get_num_threads(), transposed=True)
            yield rows, out


class StreamedFeatures:
    """Features whose kernel values are computed for each product.

    Parameters
    ----------
    operator, features
        As for `StoredFeatures`.
    """

    def __init__(self, operator: GramOperator, features: KernelFeatures) -> None:
        self.rank, self._features, self._x = features.rank, features, operator.x
        self._landmarks = features.backend.points(features.pivots, EXACT, features.offset)
        most = _DEVICE_BLOCK_BYTES if operator.backend.on_device else _BLOCK_BYTES
        row = 8 * (features.rank + 2 * operator.dim)
        self._step = max(256, min(most, power_of_two_within(operator.budget // 8)) // row)

    def gram(self, weight: Array) -> Array:
        """Return ``F' diag(weight) F`` (p, p)."""
        features = self._features
        total, cross = np.zeros((self.rank, self.rank)), np.zeros((self.rank, 1))
        for rows, x in as_blocks(self._x, self._step):
            row_features, _, _ = features.of_rows(x, EXACT, keep=True, sizes=False)
            assert row_features.values is not None
            none = np.zeros((len(x), 1))
            features.backend.add_products(row_features.values, none, weight[rows], total, cross)
        return total

    def adjoint(self, v: Array) -> Array:
        """Return ``F' v`` (p, k)."""
        features = self._features
        backend, kernel = features.backend, features.kernel
        total = np.zeros((self.rank, v.shape[1]))
        for rows, x in as_blocks(self._x, self._step):
            points = backend.points(x, EXACT, features.offset)
            total += backend.matmul(kernel, self._landmarks, points, np.ascontiguousarray(v[rows]))
        return substituted(features.factor, total)

    def images(self, s: Array) -> Iterator[tuple[slice, Array]]:
        """Yield blocks of ``F s`` (n, k) with their rows."""
        features = self._features
        backend, kernel = features.backend, features.kernel
        at = substituted(features.factor, s, transposed=True)
        for rows, x in as_blocks(self._x, self._step):
            points = backend.points(x, EXACT, features.offset)
            yield rows, backend.matmul(kernel, points, self._landmarks, at)
