"""A CUDA device, through CuPy."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.cached import cached_property
from fastmcmd.device.base import Device, leading
from fastmcmd.device.memory import DeviceMemory, free_pieces
from fastmcmd.device.slots import Slot, Slots, copy_rows
from fastmcmd.device.source import Source
from fastmcmd.errors import MissingDependencyError

__all__ = ["CudaDevice", "cuda_device", "cuda_device_count", "cupy"]

Array = NDArray[Any]
_INSTALL = "pip install 'fastmcmd[gpu]' (CuPy for CUDA 12; for CUDA 13: pip install cupy-cuda13x)"
_BLOCK = (32, 8)  # threads: a warp along x, whose threads read neighbouring numbers
_LINE = (256, 1)
_MEASURED = 4096  # rows of the matrices by which rates are measured: some milliseconds
_LEAST_MEASURED = 512  # on a device that is nearly full
_PAYS = 3.3  # three times the operations, and rows that take three times the memory
_COPIERS = 8  # threads that copy rows into pinned memory
# Of library_types.h and cublas_api.h: CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT.
_FLOAT16, _FLOAT32, _IN_FLOAT32, _ANY_ALGORITHM = 2, 0, 68, -1
_AT_WORK = nullcontext()
_SHARE = 0.8  # of the free memory that is taken by default: cuBLAS and others need some


def cupy() -> Any:
    """Return the module; MissingDependencyError with the command that installs it."""
    try:
        import cupy
    except ImportError as error:
        raise MissingDependencyError(
            f"backend='cupy' needs CuPy, which cannot be imported ({error}); {_INSTALL}"
        ) from error
    return cupy


@lru_cache(maxsize=1)
def cuda_device_count() -> tuple[int, str]:
    """Return how many devices there are, and, if none, why."""
    try:
        count = int(cupy().cuda.runtime.getDeviceCount())
    except MissingDependencyError:
        return 0, f"not installed: {_INSTALL}"
    except Exception as error:  # the driver's own errors, of several kinds
        return 0, f"no CUDA device can be used: {error}"
    return count, "" if count else "no CUDA device was found"


@lru_cache(maxsize=16)
def cuda_device(index: int, budget: int | None) -> CudaDevice:
    """Return a device, the same object for the same budget: its streams and programs are kept."""
    return CudaDevice(index, budget)


@lru_cache(maxsize=64)
def _factors(scale: float, keep: float, itemsize: int) -> tuple[Array, int, int]:
    """Return two numbers as cuBLAS reads them, and their addresses."""
    factors = np.array([scale, keep], dtype=np.float32 if itemsize == 4 else np.float64)
    return factors, factors[:1].ctypes.data, factors[1:].ctypes.data


def on_device(method: Any) -> Any:
    """Make a method run with this device and its stream as the current ones."""

    @functools.wraps(method)
    def run(self: CudaDevice, *arguments: Any, **options: Any) -> Any:
        with self.active():
            return method(self, *arguments, **options)

    return run


class _CurrentDevice:
    """The context in which a device and its stream are the current ones of a thread."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device

    def __enter__(self) -> None:
        device = self._device
        device.gpu.__enter__()
        device.stream.__enter__()
        device.thread.is_active = True

    def __exit__(self, *details: object) -> None:
        device = self._device
        device.thread.is_active = False
        device.stream.__exit__(*details)
        device.gpu.__exit__(*details)


class CudaDevice(Device):
    """A device with memory of its own, a stream for work and one for copies.

    Threads may use it at once: their work is queued in one stream, and they share the budget.

    Parameters
    ----------
    index : int
        Number of the device.
    budget : int, optional
        Bytes that arrays may take; default 0.8 of what is free now.
    """

    def __init__(self, index: int, budget: int | None = None) -> None:
        cp = cupy()
        count, why = cuda_device_count()
        if index >= count:
            raise ValueError(
                f"devices holds {index}; {why or f'there are {count} devices, from 0'}"
            )
        self._cp = cp
        self.index = index
        self.gpu = cp.cuda.Device(index)
        with self.gpu:
            free_pieces(index)
            free, _ = cp.cuda.runtime.memGetInfo()
            self.budget = int(_SHARE * free) if budget is None else int(budget)
            self._memory = DeviceMemory(cp, index, self.budget)
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.copies = cp.cuda.Stream(non_blocking=True)
        self._modules: dict[str, Any] = {}
        self._kernels: dict[tuple[str, str], Any] = {}
        self._slots = Slots()
        self.lock = threading.RLock()
        self.thread = threading.local()
        self._copiers = ThreadPoolExecutor(_COPIERS, thread_name_prefix="fastmcmd-copy")

    def active(self) -> AbstractContextManager[object]:
        """Return a context in which this device and its stream are the current ones of the thread."""
        return _AT_WORK if getattr(self.thread, "is_active", False) else _CurrentDevice(self)

    @property
    def label(self) -> str:
        """Name and number of the device."""
        name = self._cp.cuda.runtime.getDeviceProperties(self.index)["name"].decode()
        return f"{name} (cuda:{self.index})"

    @on_device
    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> AnyArray:
        """Return a new array in memory of this device."""
        return self._memory.empty(shape, dtype)

    @on_device
    def clear(self, array: AnyArray) -> None:
        """Set all elements to zero."""
        array.data.memset_async(0, array.nbytes, self.stream)

    @on_device
    def upload(self, host: Array) -> AnyArray:
        """Return a new array with the contents of a host's."""
        host = np.ascontiguousarray(host)
        array = self.empty(host.shape, host.dtype)
        if host.size:
            array.set(host, stream=self.stream)
            self.stream.synchronize()  # the host's memory may be used again at once
        return array

    @on_device
    def download(self, array: AnyArray) -> Array:
        """Return a host array with the contents of a device's."""
        if array.flags.c_contiguous:
            return np.asarray(array.get(stream=self.stream))
        packed = self.empty(array.shape, array.dtype)
        packed[...] = array
        return np.asarray(packed.get(stream=self.stream))

    @on_device
    def copy(self, array: AnyArray) -> AnyArray:
        """Return a contiguous copy."""
        duplicate = self.empty(array.shape, array.dtype)
        duplicate[...] = array
        return duplicate

    @on_device
    def take_from(self, other: Device, array: AnyArray) -> AnyArray:
        """Return a copy of another device's array; each device waits for the other by events."""
        assert isinstance(other, CudaDevice)
        if not array.flags.c_contiguous:
            array = other.copy(array)
        duplicate = self.empty(array.shape, array.dtype)
        self.stream.wait_event(other.reached())
        self._copy_peer(duplicate, array, self.stream)
        other.wait_for(self.reached())  # before the memory is written to, or given away
        return duplicate

    @on_device
    def reached(self) -> Any:
        """Return an event after all work that is queued."""
        event = self._cp.cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    @on_device
    def wait_for(self, event: Any) -> None:
        """Let work queued from here on wait for an event."""
        self.stream.wait_event(event)

    def _copy_peer(self, out: AnyArray, array: AnyArray, stream: Any) -> None:
        """Copy a contiguous array of another device; CUDA goes through the host where it has to."""
        if array.nbytes:
            peer, copy = int(array.device.id), self._cp.cuda.runtime.memcpyPeerAsync
            copy(out.data.ptr, self.index, array.data.ptr, peer, array.nbytes, stream.ptr)

    def adopted(self, array: AnyArray) -> AnyArray:
        """Return a CuPy array of this device, else None."""
        is_local = isinstance(array, self._cp.ndarray) and int(array.device.id) == self.index
        return array if is_local else None

    @on_device
    def copy_in(self, slot: int, rows: AnyArray) -> None:
        """Begin to copy rows of the host, or of another device, into a slot."""
        size = rows.size * rows.itemsize
        place = self._slot(slot, size)
        place.view = place.rows[:size].view(rows.dtype).reshape(rows.shape)
        if isinstance(rows, np.ndarray):
            if place.pinned is None:
                place.pinned = self._cp.cuda.alloc_pinned_memory(place.rows.nbytes)
            place.copied.synchronize()  # the pinned memory is still being read
            pinned = np.frombuffer(place.pinned, rows.dtype, rows.size).reshape(rows.shape)
            copy_rows(self._copiers, pinned, rows)
            self.copies.wait_event(place.released)
            place.view.set(pinned, stream=self.copies)
        else:
            self.copies.wait_event(place.released)
            self._copy_peer(place.view, rows, self.copies)
        place.copied.record(self.copies)

    def _slot(self, slot: int, size: int) -> Slot:
        """Return a slot of at least so many bytes."""
        cp, slots = self._cp, self._slots.by_number
        current = slots.get(slot)
        if current is None or current.rows.nbytes < size:
            slots.pop(slot, None)
            del current
            copied, released = (cp.cuda.Event(disable_timing=True) for _ in range(2))
            current = Slot(self.empty((size,), np.uint8), copied, released, self.copies)
            current.released.record(self.stream)
            slots[slot] = current
        return current

    @on_device
    def arrived(self, slot: int) -> AnyArray:
        """Return the rows copied last into a slot; queued work waits for them."""
        place = self._slots.by_number[slot]
        self.stream.wait_event(place.copied)
        return place.view

    @on_device
    def done_with(self, slot: int) -> None:
        """Let a slot be filled again after the work that is queued."""
        self._slots.by_number[slot].released.record(self.stream)

    @on_device
    def drop_slots(self) -> None:
        """Free the slots of this thread, once nothing is copied there any more."""
        self._slots.by_number.clear()

    @on_device
    def multiply(
        self, out: AnyArray, a: AnyArray, b: AnyArray, *, transposed: tuple[bool, bool] = (False, False),
        scale: float = 1.0, keep: float = 0.0,
    ) -> None:  # fmt: skip
        """Set ``out = scale op(a) op(b) + keep out`` by cuBLAS.

        cuBLAS sees matrices by columns, that is the transposes of ours: ``out' = op(b)' op(a)'``.
        """
        cublas = self._cp.cuda.cublas
        rows, columns = out.shape
        inner = a.shape[0] if transposed[0] else a.shape[1]
        if not (rows and columns):
            return
        handle = self._cp.cuda.device.get_cublas_handle()
        operation = (cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_T)
        _, scale_at, keep_at = _factors(scale, keep, out.itemsize)
        shape = operation[transposed[1]], operation[transposed[0]], columns, rows, inner
        if a.itemsize == 2:
            cublas.gemmEx(
                handle, *shape, scale_at, b.data.ptr, _FLOAT16, leading(b), a.data.ptr,
                _FLOAT16, leading(a), keep_at, out.data.ptr, _FLOAT32, leading(out),
                _IN_FLOAT32, _ANY_ALGORITHM,
            )  # fmt: skip
            return
        gemm = cublas.sgemm if out.itemsize == 4 else cublas.dgemm
        gemm(
            handle, *shape, scale_at, b.data.ptr, leading(b), a.data.ptr, leading(a), keep_at,
            out.data.ptr, leading(out),
        )  # fmt: skip

    @on_device
    def solve(
        self, factor: AnyArray, b: AnyArray, *, right: bool = False, transposed: bool = False
    ) -> None:
        """Set ``b = op(L)^-1 b`` or ``b op(L)^-1`` by cuBLAS, which sees the transposes of both."""
        cublas = self._cp.cuda.cublas
        rows, columns = b.shape
        if not (rows and columns):
            return
        handle = self._cp.cuda.device.get_cublas_handle()
        trsm = cublas.strsm if b.itemsize == 4 else cublas.dtrsm
        one = np.ones(1, dtype=b.dtype)
        # L y = b is y' L' = b', with L' upper triangular: from the right, as it stands.
        side = cublas.CUBLAS_SIDE_LEFT if right else cublas.CUBLAS_SIDE_RIGHT
        trsm(
            handle, side, cublas.CUBLAS_FILL_MODE_UPPER,
            cublas.CUBLAS_OP_T if transposed else cublas.CUBLAS_OP_N, cublas.CUBLAS_DIAG_NON_UNIT,
            columns, rows, one.ctypes.data, factor.data.ptr, leading(factor), b.data.ptr, leading(b),
        )  # fmt: skip

    @on_device
    def factor(self, matrix: Any) -> int:
        """Factor by cuSOLVER, which sees our lower triangle as an upper one: ``U' U`` with ``U = L'``."""
        cusolver, cublas = self._cp.cuda.cusolver, self._cp.cuda.cublas
        order = int(matrix.shape[0])
        if not order:
            return -1
        handle = self._cp.cuda.device.get_cusolver_handle()
        single = matrix.itemsize == 4
        size_of = cusolver.spotrf_bufferSize if single else cusolver.dpotrf_bufferSize
        potrf = cusolver.spotrf if single else cusolver.dpotrf
        call = handle, cublas.CUBLAS_FILL_MODE_UPPER, order, matrix.data.ptr, leading(matrix)
        size = int(size_of(*call))
        work, info = self.empty((max(1, size),), matrix.dtype), self.empty((1,), np.int32)
        potrf(*call, work.data.ptr, size, info.data.ptr)
        (status,) = self.download(info)
        if status < 0:
            raise RuntimeError(f"cuSOLVER refused argument {-status} of potrf, of order {order}")
        return int(status) - 1

    @on_device
    def launch(self, source: Source, name: str, size: tuple[int, int], *arguments: Any) -> None:
        """Run a kernel; compiled for this device at first use, and cached on disk by CuPy."""
        if not (size[0] and size[1]):
            return
        block = _LINE if size[1] == 1 else _BLOCK
        grid = tuple(-(-count // threads) for count, threads in zip(size, block, strict=True))
        values = [np.int64(value) if isinstance(value, int) else value for value in arguments]
        # A missing array is a null pointer.
        values = [np.uintp(0) if value is None else value for value in values]
        self._kernel(source, name)(grid, block, tuple(values))

    def _kernel(self, source: Source, name: str) -> Any:
        """Return a compiled kernel."""
        place = source.text, name
        if place not in self._kernels:
            if source.text not in self._modules:
                # No approximate arithmetic: the certificate's constants do not allow for it.
                self._modules[source.text] = self._cp.RawModule(
                    code=source.text, options=("-std=c++17",)
                )
            self._kernels[place] = self._modules[source.text].get_function(name)
        return self._kernels[place]

    @cached_property
    def rates(self) -> dict[str, float]:
        """Operations a second of products of square matrices, measured, by the precision of the factors."""
        return self._measured_rates()

    @on_device
    def _measured_rates(self) -> dict[str, float]:
        order = _MEASURED
        free, _ = self._cp.cuda.runtime.memGetInfo()
        while order > _LEAST_MEASURED and 3 * 8 * order**2 > free // 4:
            order //= 2
        # Random, because products of zeros take less power, and so less time, than those of data.
        factor = np.random.default_rng(0).random((order, order), dtype=np.float32)
        return {kind: self._rate(factor.astype(kind)) for kind in ("float64", "float32", "float16")}

    def _rate(self, factor: Array) -> float:
        cp, order = self._cp, len(factor)
        kind = factor.dtype
        with cp.cuda.using_allocator(None):  # beside the budget: these are given back at once
            a, b = (cp.empty((order, order), kind) for _ in range(2))
            out = cp.empty((order, order), np.promote_types(kind, np.float32))
        for array in (a, b):
            array.set(factor, stream=self.stream)
        best = 0.0
        for _ in range(3):
            start, stop = cp.cuda.Event(), cp.cuda.Event()
            start.record(self.stream)
            self.multiply(out, a, b, transposed=(True, False))
            stop.record(self.stream)
            stop.synchronize()
            best = max(best, 2e3 * order**3 / cp.cuda.get_elapsed_time(start, stop))
        return best

    @property
    def tensor_cores_pay(self) -> bool:
        """Whether float16 is clearly more than three times as fast as float32."""
        return self.rates["float16"] > _PAYS * self.rates["float32"]

    @property
    def float64_is_fast(self) -> bool:
        """Whether float64 takes at most four times as long as float32: on devices of data centres."""
        return self.rates["float64"] > self.rates["float32"] / 4

    @property
    @on_device  # CuPy's pools tell what the current device holds
    def held(self) -> int:
        """Bytes of all arrays now."""
        return self._memory.held

    @property
    def peak(self) -> int:
        """Most bytes taken from the device at once."""
        return self._memory.peak
