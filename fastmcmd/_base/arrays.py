"""Recognition of CuPy arrays and CUDA tensors of torch, and one set of functions for all libraries."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, HostArray
from fastmcmd._base.checks import as_array

__all__ = [
    "FINDERS",
    "HOST",
    "Namespace",
    "device_namespace",
    "device_namespace_among",
    "kind_of",
    "namespace_of",
    "on_array_device",
    "shape_only",
]

P = ParamSpec("P")
R = TypeVar("R")

_ROUNDED = ("float16", "bfloat16")  # exact in float32


class Namespace(ABC):
    """Functions of one library for arrays on one device.

    ``xp`` is the library's module: ``abs``, ``all``, ``any``, ``broadcast_to``, ``exp``, ``isfinite``,
    ``isnan``, ``log``, ``minimum``, ``nextafter``, ``reshape``, ``searchsorted``, ``sqrt``, ``stack``,
    ``sum``, ``take`` of 1-D arrays and ``where`` have the meaning of the array API standard (2024.12) in
    all libraries, with an axis named ``axis``. Functions that a library lacks, or defines differently, are
    methods here. CuPy arrays have no ``__array_namespace__``, and CuPy lacks some names of the standard, so
    the type of an array identifies its library.

    Parameters
    ----------
    xp : module
        The library.
    device : object
        The attribute ``device`` of its arrays.

    Attributes
    ----------
    xp, device
        The parameters.
    on_host : bool
        Whether arrays are NumPy arrays.
    """

    on_host = False

    def __init__(self, xp: Any, device: Any) -> None:
        self.xp, self.device = xp, device

    def __repr__(self) -> str:
        return f"{self.xp.__name__} on {self.device}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and (self.xp, self.device) == (other.xp, other.device)

    def __hash__(self) -> int:
        return hash((self.xp, str(self.device)))

    @property
    @abstractmethod
    def special(self) -> Any:
        """Module with ``erf`` and ``ndtr`` (the standard normal cdf), which the standard lacks."""

    @abstractmethod
    def to_host(self, values: AnyArray) -> HostArray:
        """Return a NumPy copy of an array; waits for the device."""

    def current(self) -> AbstractContextManager[Any]:
        """Return a context in which new arrays are created on the device."""
        return nullcontext()

    def from_host(self, values: HostArray) -> AnyArray:
        """Return a copy of a NumPy array on the device."""
        return self.xp.asarray(values, device=self.device)

    def cast(self, values: AnyArray, kind: str) -> AnyArray:
        """Return an array converted to type ``kind``, such as "float64"; the same array if possible."""
        return self.xp.astype(values, getattr(self.xp, kind), copy=False)

    def full(self, shape: int | tuple[int, ...], value: float) -> AnyArray:
        """Return a float64 array with all elements ``value``."""
        return self.xp.full(shape, value, dtype=self.xp.float64, device=self.device)

    def clip(self, values: AnyArray, low: float, high: float) -> AnyArray:
        """Return values clipped to [low, high], possibly in place."""
        return self.xp.clip(values, low, high)

    def absolute(self, values: AnyArray) -> AnyArray:
        """Return absolute values, possibly in place."""
        return self.xp.abs(values)

    def sort(self, values: AnyArray) -> AnyArray:
        """Return values in ascending order along the last axis."""
        return self.xp.sort(values, axis=-1)

    def argsort(self, values: AnyArray) -> AnyArray:
        """Return the indices that sort values (n,) in ascending order."""
        return self.xp.argsort(values)

    def greatest(self, values: AnyArray) -> AnyArray:
        """Return the largest values along the last axis."""
        return self.xp.max(values, axis=-1)

    def rows(self, values: AnyArray, places: NDArray[np.intp]) -> AnyArray:
        """Return the rows of an array at host indices ``places``."""
        return self.xp.take(values, self.from_host(places), axis=0)

    def least(self, values: AnyArray) -> AnyArray:
        """Return the smallest values along the last axis."""
        return self.xp.min(values, axis=-1)

    def argmax(self, values: AnyArray) -> AnyArray:
        """Return the index of the largest value along the last axis, the first if several are equal."""
        return self.xp.argmax(values, axis=-1)

    def count(self, mask: AnyArray) -> Any:
        """Return the number of true elements along the last axis."""
        return self.xp.count_nonzero(mask, axis=-1)

    def running(self, values: AnyArray) -> AnyArray:
        """Return the cumulative sums (n + 1,) of values (n,), beginning with 0."""
        return self.xp.cumulative_sum(values, include_initial=True)

    def scatter(self, values: AnyArray, valid: AnyArray, n: int) -> AnyArray:
        """Return values (m,) of the rows in a mask (n,) as (n,), with NaN elsewhere."""
        place = self.running(self.cast(valid, "float64"))[1:] - 1.0
        place = self.cast(self.clip(place, 0.0, math.inf), "int64")
        return self.xp.where(valid, self.xp.take(values, place), math.nan)

    def concat(self, parts: Sequence[AnyArray]) -> AnyArray:
        """Return arrays joined along their first axis."""
        return self.xp.concat(list(parts))

    def as_real(self, value: AnyArray, name: str) -> AnyArray:
        """Return an array of this library in float32 or float64, as `fastmcmd._base.checks.as_array`."""
        kind = kind_of(value)
        if kind in ("float32", "float64"):
            return value
        if kind in _ROUNDED:
            return self.cast(value, "float32")
        if kind.startswith("complex"):
            raise TypeError(f"{name} has dtype {kind}; real numbers are needed")
        return self.cast(value, "float64")

    def bring(self, value: AnyArray, name: str) -> AnyArray:
        """Return numbers, a host array or an array of this device as a real array on this device.

        Raises
        ------
        ValueError
            If the array lies on another device.
        """
        if device_namespace(value) is None:
            return self.from_host(as_array(value, name))
        self.check_same(value, name)
        return self.as_real(value, name)

    def check_same(self, value: AnyArray, name: str) -> None:
        """Raise an error if a device array belongs to another library or lies on another device."""
        owner = device_namespace(value)
        if owner != self:
            raise ValueError(
                f"{name} is of {owner}, and the prediction of {self}; both must lie on one device"
            )

    def numbers(self, values: Sequence[AnyArray]) -> HostArray:
        """Return arrays of equal shape stacked in one host array; waits for the device once."""
        if not values:
            return np.empty(0)
        return self.to_host(self.xp.stack(list(values)))

    def positions(self, ascending: AnyArray, levels: AnyArray, side: str) -> NDArray[np.int64]:
        """Return where host ``levels`` (j,) belong in ascending values, as `numpy.searchsorted`."""
        level_array = self.cast(self.from_host(np.asarray(levels)), kind_of(ascending))
        positions = self.to_host(self.xp.searchsorted(ascending, level_array, side=side))
        return positions.astype(np.int64, copy=False)

    def at(self, values: AnyArray, places: HostArray) -> HostArray:
        """Return the values (j,) at host indices ``places`` as a NumPy array."""
        return self.to_host(self.xp.take(values, self.from_host(places)))


class _LikeNumPy(Namespace):
    """Functions of the standard that NumPy before 2.1 and CuPy before 14 lack."""

    def cast(self, values: AnyArray, kind: str) -> AnyArray:
        return values.astype(kind, copy=False)

    def full(self, shape: int | tuple[int, ...], value: float) -> AnyArray:
        return self.xp.full(shape, value, dtype="float64")

    def from_host(self, values: HostArray) -> AnyArray:
        return self.xp.asarray(values)

    def clip(self, values: AnyArray, low: float, high: float) -> AnyArray:
        return self.xp.clip(values, low, high, out=values)

    def absolute(self, values: AnyArray) -> AnyArray:
        return self.xp.abs(values, out=values)

    def count(self, mask: AnyArray) -> Any:
        return mask.sum(axis=-1)

    def running(self, values: AnyArray) -> AnyArray:
        out = self.xp.zeros(len(values) + 1)
        self.xp.cumsum(values, out=out[1:])
        return out

    def concat(self, parts: Sequence[AnyArray]) -> AnyArray:
        return self.xp.concatenate(list(parts))


class _NumPy(_LikeNumPy):
    """NumPy, so that shared formulas also run on the host."""

    on_host = True

    def bring(self, value: AnyArray, name: str) -> AnyArray:
        return as_array(value, name)

    def scatter(self, values: AnyArray, valid: AnyArray, n: int) -> AnyArray:
        out = np.full((n, *values.shape[1:]), np.nan)
        out[valid] = values
        return out

    @property
    def special(self) -> Any:
        import scipy.special

        return scipy.special

    def to_host(self, values: AnyArray) -> HostArray:
        return np.asarray(values)


class _CuPy(_LikeNumPy):
    """CuPy 13 or later, whose arrays have no ``__array_namespace__``."""

    @property
    def special(self) -> Any:
        return import_module("cupyx.scipy.special")

    def current(self) -> AbstractContextManager[Any]:
        return self.device

    def to_host(self, values: AnyArray) -> HostArray:
        return np.asarray(values.get())

    def running(self, values: AnyArray) -> AnyArray:
        return self.concat([self.full(1, 0.0), self.xp.cumsum(values)])


class _Torch(Namespace):
    """Torch, which has the names of the standard with different arguments."""

    @property
    def special(self) -> Any:
        return self.xp.special

    def to_host(self, values: AnyArray) -> HostArray:
        return np.asarray(values.cpu().numpy())

    def from_host(self, values: HostArray) -> AnyArray:
        # In C order, because torch does not accept negative strides.
        return self.xp.tensor(np.asarray(values, order="C"), device=self.device)

    def cast(self, values: AnyArray, kind: str) -> AnyArray:
        return values.to(getattr(self.xp, kind))

    def full(self, shape: int | tuple[int, ...], value: float) -> AnyArray:
        shape = (shape,) if isinstance(shape, int) else shape
        return self.xp.full(shape, value, dtype=self.xp.float64, device=self.device)

    def sort(self, values: AnyArray) -> AnyArray:
        return self.xp.sort(values, dim=-1).values

    def greatest(self, values: AnyArray) -> AnyArray:
        return self.xp.amax(values, dim=-1)

    def least(self, values: AnyArray) -> AnyArray:
        return self.xp.amin(values, dim=-1)

    def count(self, mask: AnyArray) -> Any:
        return mask.sum(dim=-1)

    def rows(self, values: AnyArray, places: NDArray[np.intp]) -> AnyArray:
        return values[self.from_host(places)]

    def running(self, values: AnyArray) -> AnyArray:
        return self.concat([self.full(1, 0.0), self.xp.cumsum(values, dim=0)])

    def as_real(self, value: AnyArray, name: str) -> AnyArray:
        return super().as_real(value.detach(), name)


HOST: Namespace = _NumPy(np, "host")


def _of_cupy(value: AnyArray) -> Namespace:
    import cupy

    return _CuPy(cupy, value.device)


def _of_torch(value: AnyArray) -> Namespace | None:
    import torch

    return _Torch(torch, value.device) if value.is_cuda else None


# Functions that return the namespace of an array (None for host arrays), by the package of its type.
FINDERS: dict[str, Callable[[Any], Namespace | None]] = {"cupy": _of_cupy, "torch": _of_torch}


def device_namespace(value: AnyArray) -> Namespace | None:
    """Return the namespace of an array on a device, or None for any other object.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd._base.arrays import device_namespace
    >>> device_namespace(np.zeros(3)) is None
    True
    """
    if isinstance(value, np.ndarray):
        return None
    finder = FINDERS.get(type(value).__module__.partition(".")[0])
    if finder is None or not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return None
    return finder(value)


def device_namespace_among(*values: AnyArray) -> Namespace | None:
    """Return the namespace of the first device array, also in tuples such as (mean, std); else None."""
    for value in values:
        device = (
            device_namespace_among(*value) if isinstance(value, tuple) else device_namespace(value)
        )
        if device is not None:
            return device
    return None


def namespace_of(value: AnyArray) -> Namespace:
    """Return the namespace of an array; NumPy for host arrays."""
    return device_namespace(value) or HOST


def on_array_device(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs with the device of its arrays as the current device.

    CuPy creates new arrays on the current device, and refuses or copies arrays of other devices.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        device = device_namespace_among(*args, *kwargs.values())
        if device is None:
            return function(*args, **kwargs)
        with device.current():
            return function(*args, **kwargs)

    return run


def shape_only(value: AnyArray) -> HostArray:
    """Return a host array of the same shape that uses no memory, for checks of shapes."""
    return np.broadcast_to(0.0, tuple(value.shape))


def kind_of(values: AnyArray) -> str:
    """Return the name of an array's type, such as "float64", without a module name."""
    return str(values.dtype).rpartition(".")[2]
