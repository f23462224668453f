"""The lower tiles of a symmetric matrix on devices, and its Cholesky factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, DType
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

    def __init__(self, n: int, tile: int, dtype: DType) -> None:
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

    def put(self, device: Device, i: int, j: int, shape: tuple[int, int]) -> AnyArray:
        """Return room for a tile on a device."""
        tile = device.empty(shape, self.dtype)
        self._tiles[i, j] = device, tile
        return tile

    def bring(self, device: Device, i: int, j: int, host: Array) -> None:
        """Set a tile from an array of the host."""
        self._tiles[i, j] = device, device.upload_as(host, self.dtype)

    def to_host(self) -> Array:
        """Return the lower tiles in a matrix (n, n), zeros above them."""
        out = np.zeros((self.n, self.n), dtype=self.dtype)
        for (i, j), (device, tile) in self._tiles.items():
            out[self.rows(i), self.rows(j)] = device.download(tile)
        return out

    def on(self, device: Device) -> Iterator[tuple[tuple[int, int], Any]]:
        """Yield the tiles of a device, in a fixed order."""
        return (
            (place, tile)
            for place, (where, tile) in sorted(self._tiles.items(), key=lambda item: item[0])
            if where is device
        )

    @staticmethod
    def joined(parts: Sequence[DeviceTiles]) -> DeviceTiles:
        """Return the tiles of several devices together."""
        out = DeviceTiles(parts[0].n, parts[0].tile, parts[0].dtype)
        for part in parts:
            out._tiles |= part._tiles
        return out

    def at(self, i: int, j: int) -> AnyArray:
        """Return a tile."""
        return self._tiles[i, j][1]

    def add_diagonal(self, diagonal: NDArray[np.float64]) -> None:
        """Add to the diagonal, in place."""
        source = row_source(self.dtype)
        for block in range(self.blocks):
            device, tile = self._tiles[block, block]
            some = device.upload_as(diagonal[self.rows(block)], np.float64)
            device.launch(
                source, "add_diagonal", (len(tile), 1), tile, leading(tile), some, len(tile)
            )

    def cholesky(self) -> int:
        """Factor in place, each tile on its device; returns the first pivot that is not positive, or -1.

        Panels go from device to device a tile at a time, so that each device has room for one tile more.
        """
        source = row_source(self.dtype)
        for k in range(self.blocks):
            home, diagonal_tile = self._tiles[k, k]
            order = len(diagonal_tile)
            bad = home.factor(diagonal_tile)
            if bad >= 0:
                return self.rows(k).start + bad
            home.launch(
                source, "clear_above", (order, order), diagonal_tile, leading(diagonal_tile), order
            )
            for device, below in self._blocks_by_device(k + 1):
                factor = diagonal_tile if device is home else device.take_from(home, diagonal_tile)
                for i in below:
                    device.solve(factor, self.at(i, k), right=True, transposed=True)
            for j in range(k + 1, self.blocks):
                owner, panel = self._tiles[j, k]
                for device, below in self._blocks_by_device(j):
                    right = panel if device is owner else device.take_from(owner, panel)
                    for i in below:
                        device.multiply(
                            self.at(i, j), self.at(i, k), right, transposed=(False, True),
                            scale=-1.0, keep=1.0,
                        )  # fmt: skip
        return -1

    def solve(self, b: Array) -> Array:
        """Return ``L^-T L^-1 b`` (n, k) for a factor L."""
        if not b.size:
            return np.array(b, dtype=self.dtype)
        source, blocks = row_source(self.dtype), range(self.blocks)
        devices = [device for device, _ in self._blocks_by_device(0)]
        homes = [self._tiles[i, i][0] for i in blocks]
        x: list[dict[Device, Any]] = []
        for i, home in enumerate(homes):
            mine = home.upload_as(b[self.rows(i)], self.dtype)
            for j in range(i):
                home.multiply(mine, self.at(i, j), x[j][home], scale=-1.0, keep=1.0)
            home.solve(self.at(i, i), mine)
            x.append({c: mine if c is home else c.take_from(home, mine) for c in devices})
        # What lies below a block is on several devices: each sums its part, and the block's own takes them.
        for home, parts in zip(homes, x, strict=True):
            for device, part in parts.items():
                if device is not home:
                    device.clear(part)
        for i in reversed(blocks):
            home, mine = homes[i], x[i][homes[i]]
            for device, part in x[i].items():
                if device is not home:
                    some, count = home.take_from(device, part), int(np.prod(part.shape))
                    home.launch(source, "add", (count, 1), some, mine, count)
            home.solve(self.at(i, i), mine, transposed=True)
            for j in range(i):
                home.multiply(
                    x[j][home], self.at(i, j), mine, transposed=(True, False), scale=-1.0, keep=1.0
                )
        return np.concatenate([home.download(x[i][home]) for i, home in enumerate(homes)])

    def _blocks_by_device(self, first: int) -> list[tuple[Device, list[int]]]:
        """Return each device with its blocks of rows from ``first``; a block is on one device."""
        numbers: dict[Device, list[int]] = {}
        for i in range(first, self.blocks):
            numbers.setdefault(self._tiles[i, i][0], []).append(i)
        return list(numbers.items())
