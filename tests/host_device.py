"""A stand-in for a device: its memory is a pool that refuses to exceed a budget, its kernels are the CUDA
sources, compiled for the CPU and run thread after thread."""

import atexit
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import weakref
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy

from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.device.base import Device, DeviceMemoryError

_SHIM = """
#include <cmath>
#include <cstring>
using std::sqrt; using std::exp; using std::pow;
#define __global__
#define __device__
#define __forceinline__ inline
static inline unsigned __float_as_uint(float v) { unsigned u; std::memcpy(&u, &v, 4); return u; }
static inline float __uint_as_float(unsigned u) { float v; std::memcpy(&v, &u, 4); return v; }
struct place { unsigned x, y, z; };
static thread_local place blockIdx, threadIdx, blockDim;
typedef long long word;
typedef void (*kernel)(word, word, word, word, word, word, word, word, word, word, word, word, word,
                       word, word, word, word, word, word, word);
extern "C" void run(void* f, word gx, word gy, word bx, word by, const word* a) {
  blockDim = {unsigned(bx), unsigned(by), 1};
  for (word y = 0; y < gy; ++y) for (word x = 0; x < gx; ++x)
    for (word v = 0; v < by; ++v) for (word u = 0; u < bx; ++u) {
      blockIdx = {unsigned(x), unsigned(y), 0};
      threadIdx = {unsigned(u), unsigned(v), 0};
      reinterpret_cast<kernel>(f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],
                                  a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19]);
    }
}
"""
ARGUMENTS = 20  # of `run`: those of a kernel, and zeros
_COMPILING = threading.Lock()
FOLDER_VARIABLE = "FASTMCMD_TEST_KERNELS"  # set by conftest.py: one folder for all workers of a run


@cache
def _folder():
    if FOLDER_VARIABLE in os.environ:
        return Path(os.environ[FOLDER_VARIABLE])
    folder = tempfile.TemporaryDirectory(prefix="fastmcmd-kernels-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def compiled(text):
    """Compile the kernels of a source into a library for this processor."""
    with _COMPILING:  # devices work on threads of their own
        return _compiled(text)


@cache
def _compiled(text):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler to run CUDA sources on the CPU")
    library = _folder() / f"{hashlib.sha256((_SHIM + text).encode()).hexdigest()[:16]}.so"
    if not library.exists():
        flags = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
        # Some kernels use only part of the inline device functions.
        flags += ["-Wno-unused-function", "-Wno-unused-parameter", "-Wno-cast-function-type"]
        temporary_path = library.with_suffix(f".{os.getpid()}")
        process = subprocess.run(
            [compiler, *flags, "-o", str(temporary_path), "-x", "c++", "-"],
            input=_SHIM + text, capture_output=True, text=True,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        temporary_path.replace(library)  # another worker finds either everything or nothing
    return ctypes.CDLL(str(library))


class Memory:
    """Bytes taken from a pool until nothing refers to them."""

    def __init__(self, device, size):
        if device.held + size > device.budget:
            device.refused += 1
            raise DeviceMemoryError(size)
        device._held_bytes += size
        device._peak = max(device._peak, device._held_bytes)
        weakref.finalize(self, device._give_back, size)


class FakeDevice:
    """An array on a device: it has a shape and slices, but NumPy cannot compute with it."""

    __array__ = None

    def __init__(self, inner, memory, device):
        self._inner, self._memory, self._device = inner, memory, device

    def __getitem__(self, place):
        return FakeDevice(self._inner[place], self._memory, self._device)

    def __len__(self):
        return len(self._inner)

    shape = property(lambda self: self._inner.shape)
    strides = property(lambda self: self._inner.strides)
    itemsize = property(lambda self: self._inner.itemsize)
    size = property(lambda self: self._inner.size)
    dtype = property(lambda self: self._inner.dtype)
    device = property(lambda self: types.SimpleNamespace(id=self._device.index))  # CuPy's wording


class HostDevice(Device):
    """NumPy in place of a device."""

    def __init__(self, budget=10**9, label="stand-in", tensor_cores_pay=False, index=0):
        self.budget = budget
        self.index = index
        self._pays = tensor_cores_pay
        self._label = label
        self._held_bytes = self._peak = self.refused = 0
        self._slots = {}
        self.busy = {}
        self.copied_bytes = self.peer_bytes = self.uploaded = 0
        self.launched = []

    @property
    def label(self):
        return self._label

    @property
    def tensor_cores_pay(self):
        return self._pays

    @property
    def float64_is_fast(self):
        return False

    @property
    def held(self):
        return self._held_bytes

    @property
    def peak(self):
        return self._peak

    def _give_back(self, size):
        self._held_bytes -= size

    def _inner(self, array):
        assert isinstance(array, FakeDevice), f"{type(array)} is not on a device"
        assert array._device is self, "an array of another device"
        return array._inner

    def empty(self, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = Memory(self, size)
        inner = np.empty(shape, dtype)
        if inner.dtype.kind == "f":
            inner.fill(np.nan)  # a read before the first write becomes visible
        return FakeDevice(inner, memory, self)

    def clear(self, array):
        self._inner(array)[...] = 0

    def upload(self, host):
        assert isinstance(host, np.ndarray)
        self.uploaded += host.nbytes
        array = self.empty(host.shape, host.dtype)
        array._inner[...] = host
        return array

    def download(self, array):
        return np.array(self._inner(array))

    def copy(self, array):
        copy = self.empty(array.shape, self._inner(array).dtype)
        copy._inner[...] = array._inner
        return copy

    def take_from(self, other, array):
        assert other is not self
        copy = self.empty(array.shape, other._inner(array).dtype)
        copy._inner[...] = array._inner
        self.peer_bytes += copy._inner.nbytes
        return copy

    def adopt_host(self, host):
        """A caller's array on this device, outside its budget."""
        return FakeDevice(np.array(host), None, self)

    def adopted(self, array):
        if isinstance(array, np.ndarray) or array.device.id != self.index:
            return None
        return FakeDevice(array._inner, None, self)

    def copy_in(self, slot, host):
        assert not self.busy.get(slot), f"slot {slot} is still used"
        if not isinstance(host, np.ndarray):
            assert host.device.id != self.index, "rows of this device need no copy"
            host = host._inner
            assert host.flags.c_contiguous
            self.peer_bytes += host.nbytes
            self.copied_bytes -= host.nbytes
        buffer = self._slots.get(slot)
        size = host.size * host.itemsize
        if buffer is None or buffer._inner.nbytes < size:
            self._slots.pop(slot, None)
            del buffer
            self._slots[slot] = self.empty((size,), np.uint8)
        inner = self._slots[slot]._inner[:size].view(host.dtype).reshape(host.shape)
        inner[...] = host
        self.copied_bytes += size
        self.busy[slot] = FakeDevice(inner, self._slots[slot]._memory, self)

    def arrived(self, slot):
        return self.busy[slot]

    def done_with(self, slot):
        self.busy[slot]._inner[...] = np.nan  # a later reader sees NaN
        self.busy[slot] = None

    def drop_slots(self):
        assert sys.exc_info()[0] is not None or not any(self.busy.values())
        self._slots.clear()
        self.busy.clear()

    def multiply(self, out, a, b, *, transposed=(False, False), scale=1.0, keep=0.0):
        left, right, into = self._inner(a), self._inner(b), self._inner(out)
        assert left.dtype == right.dtype == (np.float16 if left.itemsize == 2 else into.dtype)
        for matrix in (left, right, into):
            assert matrix.shape[1] < 2 or matrix.strides[1] == matrix.itemsize, "rows have gaps"
        if left.dtype == np.float16:
            assert into.dtype == np.float32
            left, right = left.astype(np.float32), right.astype(np.float32)
        left = left.T if transposed[0] else left
        right = right.T if transposed[1] else right
        product = scale * (left @ right)
        into[...] = product if keep == 0 else product + keep * into

    def solve(self, factor, b, *, right=False, transposed=False):
        lower, into = self._inner(factor), self._inner(b)
        if right:
            into[...] = scipy.linalg.solve_triangular(
                lower, into.T, lower=True, trans=0 if transposed else 1
            ).T
        else:
            into[...] = scipy.linalg.solve_triangular(
                lower, into, lower=True, trans=1 if transposed else 0
            )

    def factor(self, matrix):
        inner = self._inner(matrix)
        lower, info = scipy.linalg.get_lapack_funcs("potrf", (inner,))(np.tril(inner), lower=True)
        assert info >= 0
        inner[...] = np.where(np.tri(len(inner), dtype=bool), lower, np.nan)
        return int(info) - 1

    def launch(self, source, name, size, *arguments):
        self.launched.append(name)
        words = []
        for value in arguments:
            if value is None:
                words.append(0)
            elif isinstance(value, FakeDevice):
                words.append(self._inner(value).ctypes.data)
            else:
                assert isinstance(value, int), f"{name}: {value!r}"
                words.append(value)
        words += [0] * (ARGUMENTS - len(words))
        library = compiled(source.text)
        block = (256, 1) if size[1] == 1 else (32, 8)
        grid = [-(-count // threads) for count, threads in zip(size, block, strict=True)]
        place = ctypes.cast(getattr(library, name), ctypes.c_void_p)
        word = ctypes.c_longlong
        library.run(
            place, word(grid[0]), word(grid[1]), word(block[0]), word(block[1]),
            (word * ARGUMENTS)(*words),
        )  # fmt: skip


def backend_of(budget, gpus=1, tile=64, **options):
    """``backend="cupy"`` on stand-ins with equal budgets."""
    devices = tuple(HostDevice(budget, f"stand-in {i}", index=i) for i in range(gpus))
    return CupyBackend(tile=tile, devices=devices, **options)


def rows_of(n, d, dtype=np.float32, seed=0):
    """Return rows of about unit length."""
    return (np.random.default_rng(seed).normal(size=(n, d)) / np.sqrt(d)).astype(dtype)
