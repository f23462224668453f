"""Arrays on a device, for tests without one.

``strict``: array-api-strict on a device that NumPy cannot read; only what the standard has. ``cupy``:
CuPy's documented functions with NumPy behind them: NumPy arrays are refused, and the device must be the
current one. ``torch``: its own functions, tensors of the CPU taken for such of a device. ``cuda``:
CuPy itself.
"""

import sys
import types
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.special

from fastmcmd._base import arrays

LIBRARIES = ["strict", "cupy", "torch", pytest.param("cuda", marks=pytest.mark.gpu)]


class FakeDevice:
    """A library and one of its devices; ``moved`` holds the sizes of copies to the host."""

    def __init__(self, kind, put, context=nullcontext):
        self.kind, self._put, self.context, self.host_copies = kind, put, context, []

    def watch(self, monkeypatch, owner, name):
        """Record the size of the last argument of each call of a method that copies to the host."""
        plain = getattr(owner, name)

        def recording(*args):
            self.host_copies.append(int(np.prod(args[-1].shape)))
            return plain(*args)

        monkeypatch.setattr(owner, name, recording)
        return self

    def put(self, values):
        with self.context():
            return self._put(np.asarray(values))

    def get(self, values):
        """Return an array for NumPy, after checking that it is on the device."""
        namespace = arrays.device_namespace(values)
        assert namespace is not None, f"{type(values)} is not on the device"
        assert namespace == arrays.device_namespace(self.put(0.0))
        return namespace.to_host(values)


def gpu(name, monkeypatch):
    return {"strict": _strict, "cupy": _cupy, "torch": _torch, "cuda": _cuda}[name](monkeypatch)


def _cuda(monkeypatch):
    import cupy

    return FakeDevice(arrays._CuPy, cupy.asarray).watch(monkeypatch, arrays._CuPy, "to_host")


def _torch(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(arrays.FINDERS, "torch", lambda value: arrays._Torch(torch, value.device))
    return FakeDevice(arrays._Torch, torch.tensor).watch(monkeypatch, arrays._Torch, "to_host")


def _strict(monkeypatch):
    xp = pytest.importorskip("array_api_strict", minversion="2.6")
    host, device = xp.Device("CPU_DEVICE"), xp.Device("device1")

    class Strict(arrays.Namespace):
        @property
        def special(self):
            def function(name):
                return lambda x: self.from_host(getattr(scipy.special, name)(read(x)))

            return types.SimpleNamespace(erf=function("erf"), ndtr=function("ndtr"))

        def to_host(self, values):
            return read(values)

    def read(values):
        return np.array(values.to_device(host))

    def find(value):
        return None if value.device == host else Strict(xp, value.device)

    monkeypatch.setitem(arrays.FINDERS, "array_api_strict", find)
    fake_device = FakeDevice(Strict, lambda values: xp.asarray(values, device=device))
    return fake_device.watch(monkeypatch, Strict, "to_host")


def _cupy(monkeypatch):
    module = fake_cupy()
    special = types.ModuleType("cupyx.scipy.special")
    special.erf, special.ndtr = (
        module.function(getattr(scipy.special, f)) for f in ("erf", "ndtr")
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", special)
    fake_device = FakeDevice(arrays._CuPy, module.asarray, lambda: module.Device(1))
    return fake_device.watch(monkeypatch, module.ndarray, "get")


def fake_cupy():
    """Return a module with the CuPy 13 functions of metrics; arrays are on device 1, 0 is current."""
    module = types.ModuleType("cupy")
    current = [0]

    class Device:
        def __init__(self, index):
            self.id = index

        def __eq__(self, other):
            return self.id == other.id

        def __repr__(self):
            return f"<CUDA Device {self.id}>"

        def __enter__(self):
            current.append(self.id)

        def __exit__(self, *_):
            current.pop()

    def unwrap(value):
        if isinstance(value, ndarray):
            assert current[-1] == 1, "the device of this array is not the current one"
            return value._host
        if isinstance(value, np.ndarray):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        if isinstance(value, (list, tuple)):
            return type(value)(map(unwrap, value))
        return value

    def wrap(value):
        return ndarray(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value

    def function(plain):
        def call(*args, **kwargs):
            assert current[-1] == 1, "new arrays would lie on the wrong device"
            return wrap(plain(*map(unwrap, args), **{k: unwrap(v) for k, v in kwargs.items()}))

        return call

    class ndarray:
        __module__ = "cupy._core.core"
        __array_ufunc__ = None
        device = Device(1)

        def __init__(self, host):
            self._host = host

        def __array__(self, *_, **__):
            raise TypeError("Implicit conversion to a NumPy array is not allowed")

        shape = property(lambda self: self._host.shape)
        ndim = property(lambda self: self._host.ndim)
        dtype = property(lambda self: self._host.dtype)
        T = property(lambda self: ndarray(self._host.T))

        def __len__(self):
            return len(self._host)

        def __getitem__(self, key):
            return ndarray(np.asarray(self._host[unwrap(key)]))

        def get(self):
            return self._host.copy()

        def astype(self, kind, copy=True):
            return ndarray(self._host.astype(kind, copy=copy))

        def sum(self, axis=None):
            return wrap(unwrap(self).sum(axis=axis))

        def __bool__(self):
            return bool(self._host)

        def __float__(self):
            return float(self._host)

        def __int__(self):
            return int(self._host)

    names = (
        "add sub mul truediv pow matmul and or lt le gt ge eq ne radd rsub rmul rtruediv itruediv"
    )
    for name in names.split():
        dunder = f"__{name}__"
        setattr(ndarray, dunder, function(lambda one, other, d=dunder: getattr(one, d)(other)))
    for name in ("neg", "invert", "abs"):
        dunder = f"__{name}__"
        setattr(ndarray, dunder, function(lambda one, d=dunder: getattr(one, d)()))
    functions = (
        "abs all any argmax argsort broadcast_to clip concatenate cumsum exp full isfinite isnan log max "
        "min minimum nextafter reshape searchsorted sort sqrt stack sum take where"
    )
    for name in functions.split():
        setattr(module, name, function(getattr(np, name)))
    module.float64 = np.float64
    module.Device, module.ndarray, module.function = Device, ndarray, function

    def asarray(values):
        assert current[-1] == 1, "new arrays would lie on the wrong device"
        return values if isinstance(values, ndarray) else ndarray(np.array(values))

    module.asarray = asarray
    return module
