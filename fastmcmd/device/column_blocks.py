"""Blocks of columns on a device: the work of CG between two products with K, without copies to the host."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from fastmcmd._base.annotations import AnyArray, Array
from fastmcmd.device.base import Device, leading, limits_explained
from fastmcmd.device.source import row_source

__all__ = ["DeviceBlocks"]

_FLOAT64 = np.dtype(np.float64)
_AT_ONCE = 10  # blocks that a run of CG holds at once
_OF_BUDGET = 6  # they use at most 1 / 6 of a device's memory


class DeviceBlocks:
    """Blocks (n, k) in float64 on one device, as `ColumnBlocks` of the backends describes them.

    Parameters
    ----------
    device : Device
        The device, on which every block must be.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._source = row_source(_FLOAT64)

    @staticmethod
    def fit(device: Device, n: int, columns: int) -> bool:
        """Tell whether the blocks of a run of CG fit beside the tiles."""
        return _AT_ONCE * _FLOAT64.itemsize * n * columns <= device.budget // _OF_BUDGET

    def active(self) -> AbstractContextManager[object]:
        """Return the context of the device."""
        return self._device.active()

    def _empty(self, rows: int, columns: int) -> AnyArray:
        with limits_explained((self._device,)):
            return self._device.empty((rows, columns), _FLOAT64)

    def take(self, host: Array) -> AnyArray:
        """Return a copy on the device."""
        with limits_explained((self._device,)):
            return self._device.upload_as(host, _FLOAT64)

    def host(self, block: AnyArray) -> Array:
        """Return a copy in host memory."""
        return self._device.download(block)

    def zeros(self, rows: int, columns: int) -> AnyArray:
        """Return a block of zeros."""
        with limits_explained((self._device,)):
            return self._device.zeros((rows, columns), _FLOAT64)

    def inner(self, a: AnyArray, b: AnyArray) -> Array:
        """Return ``a' b``."""
        out = self._empty(a.shape[1], b.shape[1])
        if not (out.size and a.shape[0]):
            return np.zeros(out.shape)
        self._device.multiply(out, a, b, transposed=(True, False))
        return self._device.download(out)

    def times(
        self,
        a: AnyArray,
        small: Array,
        *,
        base: AnyArray | None = None,
        sign: float = 1.0,
        out: AnyArray | None = None,
    ) -> AnyArray:
        """Return ``base + sign a small``: in place of the base if that is ``out``, else in a new block."""
        if not a.shape[1]:
            return self._copy_or_zeros(a.shape[0], small.shape[1], base)
        if base is None:
            result = self._empty(a.shape[0], small.shape[1])
        else:
            result = base if out is base else self._copied(base)
        keep = 0.0 if base is None else 1.0
        self._device.multiply(result, a, self.take(small), scale=sign, keep=keep)
        return result

    def _copied(self, block: AnyArray) -> AnyArray:
        with limits_explained((self._device,)):
            return self._device.copy(block)

    def _copy_or_zeros(self, rows: int, columns: int, base: AnyArray | None) -> AnyArray:
        return self.zeros(rows, columns) if base is None else self._copied(base)

    def scaled(self, scale: AnyArray, a: AnyArray, *, base: AnyArray | None = None) -> AnyArray:
        """Return ``base + scale[:, None] * a``."""
        rows, columns = a.shape
        out = self._empty(rows, columns)
        self._add_scaled(out, scale, a, base)
        return out

    def _add_scaled(
        self, out: AnyArray, scale: AnyArray | None, a: AnyArray, base: AnyArray | None
    ) -> None:
        rows, columns = (int(size) for size in a.shape)
        if rows and columns:
            self._device.launch(
                self._source, "scale_rows", (rows * columns, 1), scale, a, leading(a), base,
                0 if base is None else leading(base), out, leading(out), rows, columns,
            )  # fmt: skip

    def beside(self, blocks: list[AnyArray]) -> AnyArray:
        """Return blocks side by side."""
        if len(blocks) == 1:
            return blocks[0]
        ends = np.cumsum([block.shape[1] for block in blocks]).tolist()
        out = self._empty(blocks[0].shape[0], ends[-1])
        for end, block in zip(ends, blocks, strict=True):
            self._add_scaled(out[:, end - block.shape[1] : end], None, block, None)
        return out
