"""A module that answers as CuPy does where `fastmcmd.device.cuda` asks, with NumPy behind it.

cuBLAS is taken at its documented word: pointers, matrices by columns, sides and triangles. So the tests see
whether the calls mean what they should; whether a card agrees only a card can tell.
"""

import ctypes
import threading
import types
import weakref
from contextlib import contextmanager

import numpy as np
import scipy
from host_device import compiled, ten_bits

_N, _T = 0, 1
_LEFT, _RIGHT = 0, 1
_UPPER = 1
_DEFAULT, _TF32 = 0, 3
_CURRENT = threading.local()  # each thread has a current card


def current_card():
    return getattr(_CURRENT, "cards", [0])[-1]


class OutOfMemoryError(MemoryError):
    pass


class Memory:
    """Bytes of a pool, given back when nothing refers to them."""

    def __init__(self, size, pool=None):
        self.inner = np.full(max(size, 1), 0xFF, np.uint8)  # NaN, read as floats
        if pool is not None:
            pool.used += size
            weakref.finalize(self, pool._give_back, size)


class MemoryPool:
    def __init__(self):
        self.used, self.limit = 0, None

    def set_limit(self, size):
        self.limit = size

    def _give_back(self, size):
        self.used -= size

    def malloc(self, size):
        if self.limit is not None and self.used + size > self.limit:
            raise OutOfMemoryError(size)
        return Memory(size, self)

    def used_bytes(self):
        return self.used

    def free_all_blocks(self):
        return None


class Pointer:
    def __init__(self, inner):
        self._inner = inner
        self.ptr = inner.ctypes.data

    def memset_async(self, value, size, stream=None):
        assert size == self._inner.nbytes
        self._inner.view(np.uint8)[...] = value


class ndarray:
    """An array on the card: NumPy does not take it by itself."""

    __module__ = "cupy._core.core"
    __array__ = None

    def __init__(self, inner, memory, device=None):
        self._inner, self._memory = inner, memory
        self.device = Device(current_card()) if device is None else device

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
        assert value.device.id == self.device.id == current_card(), "not of the current card"
        self._inner[place] = value._inner

    def view(self, dtype):
        return ndarray(self._inner.view(dtype), self._memory, self.device)

    def reshape(self, *shape):
        return ndarray(self._inner.reshape(*shape), self._memory, self.device)

    def mean(self):
        return self._inner.mean()

    def max(self):
        return self._inner.max()

    def min(self):
        return self._inner.min()

    def set(self, host, stream=None):
        assert host.flags.c_contiguous
        assert (host.shape, host.dtype) == (self.shape, self.dtype)
        self._inner[...] = host

    def get(self, stream=None):
        return self._inner.copy()


class Stream:
    ptr = 7

    def __init__(self, non_blocking=False):
        assert non_blocking

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def synchronize(self):
        return None

    def wait_event(self, event):
        assert isinstance(event, Event)


class Event:
    def __init__(self, disable_timing=False):
        self.disabled = disable_timing

    def record(self, stream=None):
        return None

    def synchronize(self):
        return None


class Device:
    def __init__(self, index):
        self.id = index

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __enter__(self):
        _CURRENT.cards = [*getattr(_CURRENT, "cards", [0]), self.id]
        return self

    def __exit__(self, *_):
        _CURRENT.cards = _CURRENT.cards[:-1]


def _matrix(pointer, rows, columns, ld, dtype):
    """A matrix by columns, as cuBLAS sees it."""
    assert ld >= max(1, rows), "the leading dimension is too small"
    count = (columns - 1) * ld + rows if rows and columns else 0
    kind = ctypes.c_float if dtype == np.float32 else ctypes.c_double
    flat = np.ctypeslib.as_array((kind * count).from_address(pointer))
    return np.lib.stride_tricks.as_strided(
        flat, (rows, columns), (flat.itemsize, ld * flat.itemsize)
    )


def _number(pointer, dtype):
    kind = ctypes.c_float if dtype == np.float32 else ctypes.c_double
    return kind.from_address(pointer).value


class Cublas:
    CUBLAS_OP_N, CUBLAS_OP_T = _N, _T
    CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT = _LEFT, _RIGHT
    CUBLAS_FILL_MODE_UPPER = _UPPER
    CUBLAS_DIAG_NON_UNIT = 0
    CUBLAS_DEFAULT_MATH = _DEFAULT

    def __init__(self):
        self._mode = _DEFAULT

    def getMathMode(self, handle):
        return self._mode

    def setMathMode(self, handle, mode):
        self._mode = mode

    def _gemm(self, dtype, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        left = _matrix(a, *((m, k) if transa == _N else (k, m)), lda, dtype)
        right = _matrix(b, *((k, n) if transb == _N else (n, k)), ldb, dtype)
        left = left if transa == _N else left.T
        right = right if transb == _N else right.T
        if self._mode == _TF32:
            left, right = ten_bits(left), ten_bits(right)
        out = _matrix(c, m, n, ldc, dtype)
        alpha, beta = _number(alpha, dtype), _number(beta, dtype)
        found = alpha * (left @ right)
        out[...] = found if beta == 0 else found + beta * out

    def sgemm(self, handle, *arguments):
        self._gemm(np.float32, *arguments)

    def dgemm(self, handle, *arguments):
        self._gemm(np.float64, *arguments)

    def _trsm(self, dtype, side, fill, trans, diag, m, n, alpha, a, lda, b, ldb):
        order = m if side == _LEFT else n
        factor, out = _matrix(a, order, order, lda, dtype), _matrix(b, m, n, ldb, dtype)
        assert _number(alpha, dtype) == 1
        lower = fill != _UPPER
        if side == _LEFT:
            out[...] = scipy.linalg.solve_triangular(factor, out, trans=trans, lower=lower)
        else:  # X op(A) = B is op(A)' X' = B'
            out[...] = scipy.linalg.solve_triangular(factor, out.T, trans=1 - trans, lower=lower).T

    def strsm(self, handle, *arguments):
        self._trsm(np.float32, *arguments)

    def dtrsm(self, handle, *arguments):
        self._trsm(np.float64, *arguments)


class Cusolver:
    """Lower and upper are those of a matrix by columns; what lies in the other half is lost."""

    def _size(self, fill, order, pointer, ld, dtype):
        assert fill == _UPPER
        _matrix(pointer, order, order, ld, dtype)
        return order

    def _potrf(self, dtype, fill, order, pointer, ld, work, size, info):
        assert fill == _UPPER
        assert size == order
        _matrix(work, size, 1, size, dtype)[...] = np.nan
        inner = _matrix(pointer, order, order, ld, dtype)
        factor, found = scipy.linalg.get_lapack_funcs("potrf", (inner,))(
            np.triu(inner), lower=False
        )
        inner[...] = np.where(np.tri(order, k=-1, dtype=bool), np.nan, factor)
        ctypes.c_int32.from_address(info).value = int(found)

    def spotrf_bufferSize(self, handle, *arguments):
        return self._size(*arguments, np.float32)

    def dpotrf_bufferSize(self, handle, *arguments):
        return self._size(*arguments, np.float64)

    def spotrf(self, handle, *arguments):
        self._potrf(np.float32, *arguments)

    def dpotrf(self, handle, *arguments):
        self._potrf(np.float64, *arguments)


def memcpy_peer(out, out_card, source, source_card, size, stream):
    assert stream == Stream.ptr
    assert out_card != source_card
    ctypes.memmove(out, source, size)


class RawModule:
    def __init__(self, code, options):
        assert options == ("-std=c++17",)
        self._library = compiled(code)

    def get_function(self, name):
        place = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
        word = ctypes.c_longlong

        def launch(grid, block, arguments):
            words = []
            for value in arguments:
                if isinstance(value, ndarray):
                    words.append(value.data.ptr)
                else:
                    assert value.dtype.itemsize == 8  # as wide as the kernel's argument
                    words.append(int(value))
            words += [0] * (16 - len(words))
            self._library.run(
                place, word(grid[0]), word(grid[1]), word(block[0]), word(block[1]),
                (word * 16)(*words),
            )  # fmt: skip

        return launch


def module(cards=2, memory=10**10):
    """Return a new module ``cupy``."""
    current = []

    def empty(shape, dtype):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        held = current[-1](size) if current and current[-1] else Memory(size)
        return ndarray(held.inner[:size].view(dtype).reshape(shape), held)

    def zeros(shape, dtype):
        made = empty(shape, dtype)
        made._inner[...] = 0
        return made

    def asarray(host):
        host = np.asarray(host)
        made = empty(host.shape, host.dtype)
        made._inner[...] = host
        return made

    def ascontiguousarray(array, dtype=None):
        kind = array.dtype if dtype is None else np.dtype(dtype)
        if array.flags.c_contiguous and array.dtype == kind:
            return array
        return asarray(array._inner.astype(kind))

    def from_dlpack(tensor):
        assert tensor.device.index == current_card()
        inner = tensor.numpy()  # shares memory, and refuses where a gradient is needed
        return ndarray(inner, tensor)

    @contextmanager
    def using_allocator(allocator):
        current.append(allocator)
        try:
            yield
        finally:
            current.pop()

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
        alloc_pinned_memory=lambda size: bytearray(size),
        cublas=Cublas(),
        cusolver=Cusolver(),
        device=types.SimpleNamespace(get_cublas_handle=lambda: 1, get_cusolver_handle=lambda: 2),
        get_current_stream=lambda: Stream(non_blocking=True),
        get_elapsed_time=lambda start, stop: 1.0,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=types.SimpleNamespace(
            getDeviceCount=lambda: cards,
            getDeviceProperties=lambda index: {"name": b"NumPy"},
            memGetInfo=lambda: (memory, memory),
            memcpyPeerAsync=memcpy_peer,
        ),
        using_allocator=using_allocator,
    )
    return cupy
