"""The lower tiles of a symmetric matrix on cards, and its Cholesky factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd.device.base import Device, leading
from fastmcmd.device.source import row_source

__all__ = ["DeviceTiles"]

Array = NDArray[Any]


class DeviceTiles:
    """Tiles (i, j), i >= j, of an n x n matrix; those of the last block are smaller, not padded.

    Parameters
    ----------
    n : int
    tile : int
        Rows of a tile.
    dtype : numpy.dtype
    """

    def __init__(self, n: int, tile: int, dtype: np.dtype[Any]) -> None:
        self.n, self.tile, self.dtype = n, tile, np.dtype(dtype)
        self._tiles: dict[tuple[int, int], tuple[Device, Any]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the host's memory: none."""
        return 0

    @property
    def blocks(self) -> int:
        """Number of blocks of rows."""
        return -(-self.n // self.tile)

    def rows(self, block: int) -> slice:
        """Return the rows of a block."""
        return slice(block * self.tile, min(self.n, (block + 1) * self.tile))

    def put(self, device: Device, i: int, j: int, shape: tuple[int, int]) -> Any:
        """Return room for a tile on a card."""
        made = device.empty(shape, self.dtype)
        self._tiles[i, j] = device, made
        return made

    def bring(self, device: Device, i: int, j: int, host: Array) -> None:
        """Set a tile from an array of the host."""
        self._tiles[i, j] = device, device.upload_as(host, self.dtype)

    def to_host(self) -> Array:
        """Return the lower tiles in a matrix (n, n), zeros above them."""
        out = np.zeros((self.n, self.n), dtype=self.dtype)
        for (i, j), (device, made) in self._tiles.items():
            out[self.rows(i), self.rows(j)] = device.download(made)
        return out

    def on(self, device: Device) -> Iterator[tuple[tuple[int, int], Any]]:
        """Yield the tiles of a card, in a fixed order."""
        return (
            (place, made)
            for place, (where, made) in sorted(self._tiles.items(), key=lambda item: item[0])
            if where is device
        )

    @staticmethod
    def joined(parts: Sequence[DeviceTiles]) -> DeviceTiles:
        """Return the tiles of several cards together."""
        out = DeviceTiles(parts[0].n, parts[0].tile, parts[0].dtype)
        for part in parts:
            out._tiles |= part._tiles
        return out

    def gather(self, device: Device) -> None:
        """Bring all tiles to one card."""
        for place, (where, made) in self._tiles.items():
            if where is not device:
                self._tiles[place] = device, device.upload(where.download(made))

    def at(self, i: int, j: int) -> Any:
        """Return a tile."""
        return self._tiles[i, j][1]

    def add_diagonal(self, diagonal: NDArray[np.float64]) -> None:
        """Add to the diagonal, in place."""
        source = row_source(self.dtype)
        for block in range(self.blocks):
            device, made = self._tiles[block, block]
            some = device.upload_as(diagonal[self.rows(block)], np.float64)
            device.launch(
                source, "add_diagonal", (len(made), 1), made, leading(made), some, len(made)
            )

    def cholesky(self, device: Device) -> int:
        """Factor in place; returns the first pivot that is not positive, or -1."""
        for k in range(self.blocks):
            own = device.download(self.at(k, k))
            factor, info = scipy.linalg.get_lapack_funcs("potrf", (own,))(own, lower=True)
            if info > 0:
                return self.rows(k).start + int(info) - 1
            self._tiles[k, k] = device, device.upload(np.ascontiguousarray(np.tril(factor)))
            for i in range(k + 1, self.blocks):
                device.solve(self.at(k, k), self.at(i, k), right=True, transposed=True)
            for i in range(k + 1, self.blocks):
                for j in range(k + 1, i + 1):
                    device.multiply(
                        self.at(i, j), self.at(i, k), self.at(j, k), transposed=(False, True),
                        scale=-1.0, keep=1.0,
                    )  # fmt: skip
        return -1

    def solve(self, device: Device, b: Array) -> Array:
        """Return ``L^-T L^-1 b`` (n, k) for a factor L."""
        if not b.size:
            return np.array(b, dtype=self.dtype)
        x = device.upload_as(b, self.dtype)
        for i in range(self.blocks):
            mine = x[self.rows(i)]
            for j in range(i):
                device.multiply(mine, self.at(i, j), x[self.rows(j)], scale=-1.0, keep=1.0)
            device.solve(self.at(i, i), mine)
        for i in reversed(range(self.blocks)):
            mine = x[self.rows(i)]
            for j in range(i + 1, self.blocks):
                device.multiply(
                    mine, self.at(j, i), x[self.rows(j)], transposed=(True, False), scale=-1.0,
                    keep=1.0,
                )  # fmt: skip
            device.solve(self.at(i, i), mine, transposed=True)
        return device.download(x)
