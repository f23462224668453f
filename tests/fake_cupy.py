"""CuPy on NumPy, for the calls of `fastmcmd.device.cuda`.

`fake_streams` decides when issued work runs. cuBLAS is implemented from its documentation: pointers,
matrices by columns, sides and triangles. So the tests check the meaning of the calls; only a run on a
device shows whether the device agrees.
"""

import ctypes
import threading
import types
from contextlib import contextmanager

import numpy as np
import scipy
from fake_streams import (
    Device,
    Event,
    Machine,
    MemoryPool,
    OutOfMemoryError,
    Stream,
    current_device,
    current_queue,
    get_current_stream,
    get_elapsed_time,
    queue_of,
)
from host_device import ARGUMENTS, compiled

_N, _T = 0, 1
_SIDE_LEFT, _RIGHT = 0, 1
_UPPER = 1
_FLOAT16, _FLOAT32 = 2, 0  # cudaDataType
_IN_FLOAT32 = 68  # cublasComputeType_t


class Pointer:
    def __init__(self, inner):
        self._inner = inner
        self.ptr = inner.ctypes.data

    def memset_async(self, value, size, stream=None):
        assert size == self._inner.nbytes
        _queue(stream).issue(lambda inner=self._inner: inner.view(np.uint8).fill(value))


def _queue(stream):
    return current_queue() if stream is None else stream._queue()


class ndarray:
    """An array on the device: NumPy cannot read it."""

    __module__ = "cupy._core.core"
    __array__ = None

    def __init__(self, inner, memory, device=None):
        self._inner, self._memory = inner, memory
        self.device = Device(current_device()) if device is None else device

    size = property(lambda self: self._inner.size)
    ndim = property(lambda self: self._inner.ndim)
    shape = property(lambda self: self._inner.shape)
    strides = property(lambda self: self._inner.strides)
    dtype = property(lambda self: self._inner.dtype)
    itemsize = property(lambda self: self._inner.itemsize)
    nbytes = property(lambda self: self._inner.nbytes)
    data = property(lambda self: Pointer(self._inner))
    flags = property(
        lambda self: types.SimpleNamespace(c_contiguous=self._inner.flags.c_contiguous)
    )

    def __len__(self):
        return len(self._inner)

    def __getitem__(self, place):
        return ndarray(self._inner[place], self._memory, self.device)

    def __setitem__(self, place, value):
        assert isinstance(value, ndarray)
        assert value.device.id == self.device.id == current_device(), "not of the current device"
        out, source = self._inner[place], value._inner
        current_queue().issue(lambda: np.copyto(out, source))

    def view(self, dtype):
        return ndarray(self._inner.view(dtype), self._memory, self.device)

    def reshape(self, *shape):
        return ndarray(self._inner.reshape(*shape), self._memory, self.device)

    def mean(self):
        return self.get().mean()

    def max(self):
        return self.get().max()

    def min(self):
        return self.get().min()

    def _queue(self, stream):
        stream = get_current_stream() if stream is None else stream
        with self.device:  # whose null stream is meant
            return stream._queue()

    def set(self, host, stream=None):
        assert host.flags.c_contiguous
        assert (host.shape, host.dtype) == (self.shape, self.dtype)
        queue, out = self._queue(stream), self._inner
        source = queue.machine.read_later(host)
        queue.issue(lambda: np.copyto(out, source))

    def get(self, stream=None):
        """Wait for the stream, and for nothing else."""
        copy = np.empty(self.shape, self.dtype)
        if copy.size:
            queue, source = self._queue(stream), self._inner
            queue.issue(lambda: np.copyto(copy, source))
            queue.reach(queue.count)
        return copy


def _matrix(pointer, rows, columns, ld, dtype):
    """A matrix stored by columns, as cuBLAS sees it."""
    assert ld >= max(1, rows), "the leading dimension is too small"
    count = (columns - 1) * ld + rows if rows and columns else 0
    size = count * np.dtype(dtype).itemsize
    flat = np.ctypeslib.as_array((ctypes.c_byte * size).from_address(pointer)).view(dtype)
    return np.lib.stride_tricks.as_strided(
        flat, (rows, columns), (flat.itemsize, ld * flat.itemsize)
    )


def _number(pointer, dtype):
    kind = ctypes.c_float if dtype == np.float32 else ctypes.c_double
    return kind.from_address(pointer).value


class Cublas:
    CUBLAS_OP_N, CUBLAS_OP_T = _N, _T
    CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT = _SIDE_LEFT, _RIGHT
    CUBLAS_FILL_MODE_UPPER = _UPPER
    CUBLAS_DIAG_NON_UNIT = 0

    def _gemm(
        self, dtype, handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, factors=None
    ):  # fmt: skip
        _check_handle(handle)
        left = _matrix(a, *((m, k) if transa == _N else (k, m)), lda, factors or dtype)
        right = _matrix(b, *((k, n) if transb == _N else (n, k)), ldb, factors or dtype)
        left = left if transa == _N else left.T
        right = right if transb == _N else right.T
        out = _matrix(c, m, n, ldc, dtype)
        alpha, beta = _number(alpha, dtype), _number(beta, dtype)  # of the host: read at the call

        def work():
            product = alpha * (left.astype(dtype) @ right.astype(dtype))
            out[...] = product if beta == 0 else product + beta * out

        current_queue().issue(work)

    def sgemm(self, *arguments):
        self._gemm(np.float32, *arguments)

    def dgemm(self, *arguments):
        self._gemm(np.float64, *arguments)

    def gemmEx(
        self, handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type,
        ldc, compute_type, algorithm,
    ):  # fmt: skip
        """One of the products that cuBLAS has: float16 factors, in float32."""
        types = a_type, b_type, c_type, compute_type
        assert types == (_FLOAT16, _FLOAT16, _FLOAT32, _IN_FLOAT32), "CUBLAS_STATUS_NOT_SUPPORTED"
        assert algorithm == -1  # CUBLAS_GEMM_DEFAULT
        shape = transa, transb, m, n, k
        numbers = alpha, a, lda, b, ldb, beta, c, ldc
        self._gemm(np.float32, handle, *shape, *numbers, factors=np.float16)

    def _trsm(self, dtype, handle, side, fill, trans, diag, m, n, alpha, a, lda, b, ldb):
        _check_handle(handle)
        order = m if side == _SIDE_LEFT else n
        factor, out = _matrix(a, order, order, lda, dtype), _matrix(b, m, n, ldb, dtype)
        assert _number(alpha, dtype) == 1
        options = dict(lower=fill != _UPPER, check_finite=False)

        def work():
            if side == _SIDE_LEFT:
                out[...] = scipy.linalg.solve_triangular(factor, out, trans=trans, **options)
            else:  # X op(A) = B is op(A)' X' = B'
                out[...] = scipy.linalg.solve_triangular(
                    factor, out.T, trans=1 - trans, **options
                ).T

        current_queue().issue(work)

    def strsm(self, *arguments):
        self._trsm(np.float32, *arguments)

    def dtrsm(self, *arguments):
        self._trsm(np.float64, *arguments)


class Cusolver:
    """Lower and upper are those of a matrix by columns; what lies in the other half is lost."""

    def _size(self, dtype, handle, fill, order, pointer, ld):
        _check_handle(handle)
        assert fill == _UPPER
        _matrix(pointer, order, order, ld, dtype)
        return order

    def _potrf(self, dtype, handle, fill, order, pointer, ld, work, size, info):
        _check_handle(handle)
        assert fill == _UPPER
        assert size == order
        buffer = _matrix(work, size, 1, size, dtype)
        inner = _matrix(pointer, order, order, ld, dtype)
        status = ctypes.c_int32.from_address(info)

        def run():
            buffer[...] = np.nan
            factor, code = scipy.linalg.get_lapack_funcs("potrf", (inner,))(
                np.triu(inner), lower=False
            )
            inner[...] = np.where(np.tri(order, k=-1, dtype=bool), np.nan, factor)
            status.value = int(code)

        current_queue().issue(run)

    def spotrf_bufferSize(self, *arguments):
        return self._size(np.float32, *arguments)

    def dpotrf_bufferSize(self, *arguments):
        return self._size(np.float64, *arguments)

    def spotrf(self, *arguments):
        self._potrf(np.float32, *arguments)

    def dpotrf(self, *arguments):
        self._potrf(np.float64, *arguments)


def _handle():
    """Handle of cuBLAS: one per thread and device, whose stream follows the current one."""
    return threading.get_ident(), current_device()


def _check_handle(handle):
    assert handle == _handle(), "a handle of another thread or device"


def memcpy_peer(out, out_device, source, source_device, size, stream):
    assert out_device != source_device
    queue_of(stream).issue(lambda: ctypes.memmove(out, source, size))


class RawModule:
    def __init__(self, code, options):
        assert options == ("-std=c++17",)
        self._library = compiled(code)

    def get_function(self, name):
        place = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
        word = ctypes.c_longlong

        def launch(grid, block, arguments):
            words, owners = [], []
            for value in arguments:
                if isinstance(value, ndarray):
                    assert value.device.id == current_device(), "not of the current device"
                    words.append(value.data.ptr)
                    owners.append(value._inner)  # not the object that frees the memory
                else:
                    assert value.dtype.itemsize == 8  # as wide as the kernel's argument
                    words.append(int(value))
            parameters = (word * ARGUMENTS)(*words, *[0] * (ARGUMENTS - len(words)))

            def work(owners=owners):
                self._library.run(
                    place, word(grid[0]), word(grid[1]), word(block[0]), word(block[1]), parameters
                )

            current_queue().issue(work)

        return launch


def module(devices=2, memory=10**10, mode="eager", seed=0):
    """Return a new module ``cupy`` whose work runs when ``mode`` of `fake_streams` says."""
    machine = Machine(devices, mode, seed, memory)
    allocators, default = threading.local(), MemoryPool()

    def empty(shape, dtype):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = (getattr(allocators, "stack", None) or [default.malloc])[-1](size)
        return ndarray(memory.inner[:size].view(dtype).reshape(shape), memory)

    def zeros(shape, dtype):
        array = empty(shape, dtype)
        array.data.memset_async(0, array.nbytes)
        return array

    def asarray(host):
        host = np.ascontiguousarray(host).reshape(np.shape(host))
        array = empty(host.shape, host.dtype)
        array.set(host.copy())  # CuPy copies to pinned memory of its own, and keeps it
        return array

    def ascontiguousarray(array, dtype=None):
        kind = array.dtype if dtype is None else np.dtype(dtype)
        if array.flags.c_contiguous and array.dtype == kind:
            return array
        contiguous = empty(array.shape, kind)
        out, source = contiguous._inner, array._inner
        current_queue().issue(lambda: np.copyto(out, source, casting="unsafe"))
        return contiguous

    def from_dlpack(tensor):
        """Let the current stream wait for the producer's, as the producer does."""
        assert tensor.device.index == current_device()
        event = getattr(tensor, "event", None)
        if event is not None:
            get_current_stream().wait_event(event)
        inner = (
            tensor.numpy()
        )  # shares memory, and raises an error for tensors that need a gradient
        return ndarray(inner, tensor)

    @contextmanager
    def using_allocator(allocator):
        before = getattr(allocators, "stack", [])
        allocators.stack = [*before, allocator or default.malloc]
        try:
            yield
        finally:
            allocators.stack = before

    cupy = types.ModuleType("cupy")
    cupy.__version__ = "0"
    cupy.ndarray, cupy.empty, cupy.zeros, cupy.RawModule = ndarray, empty, zeros, RawModule
    cupy.asarray, cupy.ascontiguousarray = asarray, ascontiguousarray
    cupy.from_dlpack = from_dlpack
    cupy.cuda = types.SimpleNamespace(
        Device=Device,
        Event=Event,
        MemoryPool=MemoryPool,
        Stream=Stream,
        alloc_pinned_memory=machine.alloc_pinned_memory,
        cublas=Cublas(),
        cusolver=Cusolver(),
        device=types.SimpleNamespace(get_cublas_handle=_handle, get_cusolver_handle=_handle),
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=types.SimpleNamespace(
            getDeviceCount=lambda: devices,
            getDeviceProperties=lambda index: {"name": b"NumPy"},
            memGetInfo=lambda: (memory - machine.allocated[current_device()], memory),
            memcpyPeerAsync=memcpy_peer,
        ),
        using_allocator=using_allocator,
    )
    return cupy
