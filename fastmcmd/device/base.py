"""What a device must do: hold arrays within a budget, multiply, run kernels, copy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.memory import format_bytes
from fastmcmd.device.source import Source
from fastmcmd.errors import MemoryLimitError

__all__ = ["ROUNDED", "Device", "DeviceMemoryError", "leading", "limits_explained"]

ROUNDED = 512  # bytes to whose multiples the memory of an array is rounded up

Array = NDArray[Any]


class DeviceMemoryError(MemoryError):
    """A device has no room for an array.

    Parameters
    ----------
    wanted : int
        Its bytes.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        super().__init__(f"{wanted} bytes do not fit on the device")


def leading(array: AnyArray) -> int:
    """Return how far apart the rows of a device's matrix lie, in elements."""
    return int(array.strides[0]) // int(array.itemsize)


class Device(ABC):
    """One device.

    Its arrays have ``shape``, ``strides``, ``itemsize`` and slices, as NumPy's do; what they hold is moved
    by the methods here alone. Work is queued in order; `download` waits for it.

    Attributes
    ----------
    budget : int
        Bytes that arrays may take together.
    lock : context manager
        Held by work that fills the device.
    """

    budget: int
    lock: AbstractContextManager[Any] = nullcontext()

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is, for people."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> AnyArray:
        """Return a new C-contiguous array; raises `DeviceMemoryError` where the budget ends."""

    @abstractmethod
    def clear(self, array: AnyArray) -> None:
        """Set all elements of a contiguous array to zero."""

    @abstractmethod
    def upload(self, host: Array) -> AnyArray:
        """Return a new array with the contents of a host's."""

    @abstractmethod
    def download(self, array: AnyArray) -> Array:
        """Return a host array with the contents of a device's, which may be a slice."""

    @abstractmethod
    def copy(self, array: AnyArray) -> AnyArray:
        """Return a new contiguous array with the contents of another, which may be a slice."""

    @abstractmethod
    def take_from(self, other: Device, array: AnyArray) -> AnyArray:
        """Return a new array with the contents of another device's, copied from device to device."""

    @abstractmethod
    def adopted(self, array: AnyArray) -> AnyArray:
        """Return the caller's array as one of this device, without a copy; None if it lies elsewhere."""

    @abstractmethod
    def copy_in(self, slot: int, rows: AnyArray) -> None:
        """Begin to copy rows (b, d) into slot 0 or 1, beside the work that is queued.

        They are the host's, or C-contiguous ones of the caller's on another device.
        """

    @abstractmethod
    def arrived(self, slot: int) -> AnyArray:
        """Return the rows (b, d) copied last into a slot; work queued from here on waits for them."""

    @abstractmethod
    def done_with(self, slot: int) -> None:
        """Say that all work on a slot is queued, so that it may be filled again after that."""

    @abstractmethod
    def drop_slots(self) -> None:
        """Free the slots."""

    @abstractmethod
    def multiply(
        self, out: AnyArray, a: AnyArray, b: AnyArray, *, transposed: tuple[bool, bool] = (False, False),
        scale: float = 1.0, keep: float = 0.0,
    ) -> None:  # fmt: skip
        """Set ``out = scale op(a) op(b) + keep out`` for matrices of one precision with contiguous rows.

        ``transposed`` says which of the two is taken as its transpose. Factors in float16 have products in
        float32, by tensor cores.
        """

    @abstractmethod
    def solve(
        self, factor: AnyArray, b: AnyArray, *, right: bool = False, transposed: bool = False
    ) -> None:
        """Set ``b = op(L)^-1 b``, or ``b = b op(L)^-1`` with ``right``, for a lower triangular L."""

    @abstractmethod
    def factor(self, matrix: Any) -> int:
        """Set a symmetric matrix with contiguous rows to its lower Cholesky factor.

        Returns the first pivot that is not positive, or -1. What lies above the diagonal is not read, and
        may hold anything afterwards.
        """

    @abstractmethod
    def launch(self, source: Source, name: str, size: tuple[int, int], *arguments: Any) -> None:
        """Run a kernel of a source.

        Parameters
        ----------
        source : Source
        name : str
        size : (int, int)
            Threads along x and y at least; kernels look where they end. ``pairs`` is told columns and rows.
        *arguments
            Arrays, numbers and None.
        """

    @property
    @abstractmethod
    def tensor_cores_pay(self) -> bool:
        """Whether three products of float16 factors take less time than one in float32."""

    @property
    @abstractmethod
    def float64_is_fast(self) -> bool:
        """Whether a product in float64 takes at most four times as long as one in float32."""

    def active(self) -> AbstractContextManager[object]:
        """Return a context within which the calls of a thread start sooner."""
        return nullcontext()

    @property
    @abstractmethod
    def held(self) -> int:
        """Bytes of all arrays now."""

    @property
    @abstractmethod
    def peak(self) -> int:
        """Most bytes held at once."""

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> AnyArray:
        """Return a new array of zeros."""
        out = self.empty(shape, dtype)
        self.clear(out)
        return out

    def has_memory(self, size: int) -> bool:
        """Tell whether so many bytes more are within the budget."""
        return self.held + size <= self.budget

    def upload_as(self, host: Array, dtype: DTypeLike) -> AnyArray:
        """Return a new array of another precision."""
        return self.upload(np.ascontiguousarray(host, dtype=dtype))


@contextmanager
def limits_explained(devices: tuple[Device, ...], how: str = "") -> Iterator[None]:
    """Raise MemoryLimitError if one of the devices runs out of memory.

    Of several devices the message names the one with least memory left: they are filled alike.
    """
    try:
        yield
    except DeviceMemoryError as error:
        full = min(devices, key=lambda device: device.budget - device.held)
        raise MemoryLimitError(
            f"{full.label} has no room for {format_bytes(error.wanted)} more{how}; "
            f"{format_bytes(full.held)} are taken of device_memory_limit = "
            f"{format_bytes(full.budget)}: others may use the device"
        ) from error
