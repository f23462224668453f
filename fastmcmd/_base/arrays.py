"""Arrays of CuPy and CUDA tensors of torch: found, and given one set of functions to compute with."""

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
    ``sum``, ``take`` of 1-D arrays and ``where`` mean in all libraries what the array API standard
    (2024.12) says, with an axis named ``axis``. What a library lacks, or has in another way, is a method
    here. CuPy's arrays have no ``__array_namespace__``, and its module not all names of the standard,
    so the library is told by the type of the array.

    Parameters
    ----------
    xp : module
        The library.
    device : object
        What its arrays have as ``device``.

    Attributes
    ----------
    xp, device
        As given.
    on_host : bool
        Whether these are NumPy's arrays.
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
        """What has ``erf`` and ``ndtr``, the standard normal cdf: the standard has neither."""

    @abstractmethod
    def to_host(self, values: AnyArray) -> HostArray:
        """Return a copy of an array for NumPy: waits for the device."""

    def current(self) -> AbstractContextManager[Any]:
        """Return a context in which new arrays are made on the device."""
        return nullcontext()

    def from_host(self, values: HostArray) -> AnyArray:
        """Return an array of NumPy on the device."""
        return self.xp.asarray(values, device=self.device)

    def cast(self, values: AnyArray, kind: str) -> AnyArray:
        """Return an array as of type ``kind``, such as "float64"; the same array if it is."""
        return self.xp.astype(values, getattr(self.xp, kind), copy=False)

    def full(self, shape: int | tuple[int, ...], value: float) -> AnyArray:
        """Return an array of float64, each element ``value``."""
        return self.xp.full(shape, value, dtype=self.xp.float64, device=self.device)

    def clip(self, values: AnyArray, low: float, high: float) -> AnyArray:
        """Return values moved into [low, high]; their own memory may be used for it."""
        return self.xp.clip(values, low, high)

    def absolute(self, values: AnyArray) -> AnyArray:
        """Return absolute values; their own memory may be used for it."""
        return self.xp.abs(values)

    def sort(self, values: AnyArray) -> AnyArray:
        """Return values in ascending order along the last axis."""
        return self.xp.sort(values, axis=-1)

    def argsort(self, values: AnyArray) -> AnyArray:
        """Return the places of values (n,) in ascending order."""
        return self.xp.argsort(values)

    def greatest(self, values: AnyArray) -> AnyArray:
        """Return the largest values along the last axis."""
        return self.xp.max(values, axis=-1)

    def rows(self, values: AnyArray, places: NDArray[np.intp]) -> AnyArray:
        """Return the rows of an array at ``places`` of the host."""
        return self.xp.take(values, self.from_host(places), axis=0)

    def least(self, values: AnyArray) -> AnyArray:
        """Return the smallest values along the last axis."""
        return self.xp.min(values, axis=-1)

    def argmax(self, values: AnyArray) -> AnyArray:
        """Return the place of the largest value along the last axis, the first of equal ones."""
        return self.xp.argmax(values, axis=-1)

    def count(self, mask: AnyArray) -> Any:
        """Return how many are true along the last axis."""
        return self.xp.count_nonzero(mask, axis=-1)

    def running(self, values: AnyArray) -> AnyArray:
        """Return the sums (n + 1,) of the first values (n,), of none to of all."""
        return self.xp.cumulative_sum(values, include_initial=True)

    def scatter(self, values: AnyArray, valid: AnyArray, n: int) -> AnyArray:
        """Return values (m,) of the rows that a mask (n,) keeps as (n,), NaN elsewhere."""
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
        """Return an array of this device, or of the host, or numbers, as real ones of this device.

        Raises
        ------
        ValueError
            An array of another device.
        """
        if device_namespace(value) is None:
            return self.from_host(as_array(value, name))
        self.check_same(value, name)
        return self.as_real(value, name)

    def check_same(self, value: AnyArray, name: str) -> None:
        """Raise unless an array on a device is of this library and lies on this device."""
        there = device_namespace(value)
        if there != self:
            raise ValueError(
                f"{name} is of {there}, and the prediction of {self}; both must lie on one device"
            )

    def numbers(self, values: Sequence[AnyArray]) -> HostArray:
        """Return arrays of one shape as one of the host, stacked: waits for the device once."""
        if not values:
            return np.empty(0)
        return self.to_host(self.xp.stack(list(values)))

    def positions(self, ordered: AnyArray, levels: AnyArray, side: str) -> NDArray[np.int64]:
        """Return where ``levels`` (j,) of the host belong in ascending values: `numpy.searchsorted`."""
        there = self.cast(self.from_host(np.asarray(levels)), kind_of(ordered))
        positions = self.to_host(self.xp.searchsorted(ordered, there, side=side))
        return positions.astype(np.int64, copy=False)

    def at(self, values: AnyArray, places: HostArray) -> HostArray:
        """Return the values (j,) at ``places`` of the host, for NumPy."""
        return self.to_host(self.xp.take(values, self.from_host(places)))


class _LikeNumPy(Namespace):
    """What NumPy before 2.1 and CuPy before 14 lack of the standard."""

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
    """NumPy itself: formulas that are written once run on it, too."""

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
    """CuPy, 13 or later, whose arrays name no namespace by themselves."""

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
    """Torch, whose names are those of the standard with other arguments."""

    @property
    def special(self) -> Any:
        return self.xp.special

    def to_host(self, values: AnyArray) -> HostArray:
        return np.asarray(values.cpu().numpy())

    def from_host(self, values: HostArray) -> AnyArray:
        # In C order, because torch takes no negative strides.
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


# By the package of an array's type: what gives its namespace, None for arrays of the host.
FINDERS: dict[str, Callable[[Any], Namespace | None]] = {"cupy": _of_cupy, "torch": _of_torch}


def device_namespace(value: AnyArray) -> Namespace | None:
    """Return the namespace of an array on a device; None for whatever else.

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
    """Return the namespace of the first array on a device, in tuples such as (mean, std) too; else None."""
    for value in values:
        device = (
            device_namespace_among(*value) if isinstance(value, tuple) else device_namespace(value)
        )
        if device is not None:
            return device
    return None


def namespace_of(value: AnyArray) -> Namespace:
    """Return the namespace of an array; that of NumPy for arrays of the host."""
    return device_namespace(value) or HOST


def on_array_device(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function of arrays run with their device as the current one.

    CuPy makes new arrays on the current device, and refuses or copies those of another.
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
    """Return an array of the host of the same shape, in no memory: for checks of shapes."""
    return np.broadcast_to(0.0, tuple(value.shape))


def kind_of(values: AnyArray) -> str:
    """Return the name of a type, as "float64": of torch and the standard it comes with a module."""
    return str(values.dtype).rpartition(".")[2]
