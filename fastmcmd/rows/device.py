"""Arrays of CuPy, and CUDA tensors of torch, which stay on their device."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd._base.checks import is_tensor, on_device
from fastmcmd.device import cuda
from fastmcmd.rows.source import Array, Source


class DeviceArray(Source):
    """An array on a device: blocks of it are downloaded when the host asks for them.

    C-contiguous arrays of float32 or float64 are used as they are; others (float16, integers, columns
    first) are copied once, on their device.
    """

    def __init__(self, value: Any) -> None:
        cp, gpu = cuda.cupy(), on_device(value)
        self.path, self._device = None, cp.cuda.Device(gpu)
        self.where = f"{'a torch tensor' if is_tensor(value) else 'a CuPy array'} on cuda:{gpu}"
        with self._device:
            if is_tensor(value):
                value = cp.from_dlpack(_readable(value))
            self.shape, self.dtype = tuple(value.shape), np.dtype(value.dtype)
            if len(self.shape) in (1, 2) and self.dtype.kind in "fiub":
                small = self.dtype.kind == "f" and self.dtype.itemsize <= 4
                self.dtype = np.dtype(np.float32 if small else np.float64)
                rows = cp.ascontiguousarray(value, dtype=self.dtype)
                self.array = rows.reshape(len(rows), -1) if len(rows) else rows
            # Work on it goes on in streams of our own.
            cp.cuda.get_current_stream().synchronize()
        self._plain()

    def read(self, start: int, stop: int) -> Array:
        """Return the rows, downloaded."""
        with self._device:
            return np.asarray(self.array[start:stop].get())


def _readable(tensor: Any) -> Any:
    """Return a tensor that needs no gradient, of a type that every CuPy knows."""
    tensor = tensor.detach()
    if tensor.dtype.is_complex:
        return tensor
    if not tensor.dtype.is_floating_point:
        return tensor.double()
    return tensor.float() if tensor.element_size() == 2 else tensor
