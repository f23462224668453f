"""Backends, which compute tiles. A new one is a file with a `Backend` and a line in `_BACKENDS`."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache

from fastmcmd.backends.base import Backend
from fastmcmd.backends.cpu import CpuBackend, core
from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.backends.numba import NumbaBackend
from fastmcmd.backends.numpy import NumpyBackend
from fastmcmd.device import cuda
from fastmcmd.kernels import Kernel

__all__ = ["Backend", "available_backends", "get_backend"]

_BACKENDS: dict[str, Callable[[], Backend]] = {
    "cpu": CpuBackend,
    "cupy": CupyBackend,
    "numba": NumbaBackend,
    "numpy": NumpyBackend,
}
_CPU = CpuBackend()  # for all calls: a frozen object


def available_backends() -> dict[str, str]:
    """Return, for each backend, "available" or the reason why it is not."""
    status = dict.fromkeys(_BACKENDS, "available")
    try:
        core()
    except ImportError as error:
        status["cpu"] = f"the compiled extension cannot be imported: {error}"
    if importlib.util.find_spec("numba") is None:
        status["numba"] = "not installed: pip install numba"
    count, why = cuda.cuda_device_count()
    if not count:
        status["cupy"] = why
    return status


def get_backend(
    name: str,
    kernel: Kernel,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | None = None,
) -> Backend:
    """Return the backend for a kernel.

    Parameters
    ----------
    name : str
        Name of a backend, or "auto": "cpu" for kernels that the core supports, "numba" for a user's own. If
        a device is the better choice, `planning.choice.settled` has already replaced "auto" by its name.
    kernel : Kernel
        Kernel that the backend must evaluate.
    devices : sequence of int, optional
        Devices of "cupy"; default: the first.
    device_memory_limit : int, optional
        Bytes that "cupy" may use on each device; default: 0.8 of the free memory there.

    Raises
    ------
    ValueError
        The name is unknown, or the backend does not support the kernel.
    ImportError
        "cpu" without the compiled extension, or "cupy" without CuPy.
    RuntimeError
        "cupy" without a device.
    """
    if name == "auto":
        if not kernel.compiled:
            return NumbaBackend()
        return _CPU if _core_is_there() else NumbaBackend()
    if name not in _BACKENDS:
        names = ", ".join(map(repr, ("auto", *_BACKENDS)))
        raise ValueError(f"backend is {name!r}; one of {names} is needed")
    backend = _BACKENDS[name]()
    if not backend.supports(kernel):
        raise ValueError(
            f"backend={name!r} cannot evaluate {kernel!r}; use backend='numba' or 'auto'"
        )
    if name == "cupy":
        return CupyBackend(devices=_cuda_devices(devices or (0,), device_memory_limit))
    if name == "cpu":
        try:
            core()
        except ImportError as error:
            if _raised_inside(error):
                raise
            raise ImportError(
                f"backend='cpu' needs the compiled extension fastmcmd._core, which cannot be imported "
                f"({error}); reinstall fastmcmd with a C++ compiler at hand, or use backend='numba'"
            ) from error
    return backend


def _cuda_devices(devices: Sequence[int], limit: int | None) -> tuple[cuda.CudaDevice, ...]:
    cuda.cupy()  # its error says how to install CuPy
    count, why = cuda.cuda_device_count()
    if not count:
        raise RuntimeError(f"backend='cupy': {why}; use backend='auto'")
    return tuple(cuda.cuda_device(index, limit) for index in devices)


def _raised_inside(error: ImportError) -> bool:
    """Tell whether the extension itself refuses to start, due to a wrong FASTMCMD_ISA.

    Python names the module in the error if it cannot find or load one.
    """
    return error.name is None


@lru_cache(maxsize=1)
def _core_is_there() -> bool:
    """Tell whether the extension can be imported; if not, warn once."""
    try:
        core()
    except ImportError as error:
        if _raised_inside(error):
            raise
        warnings.warn(
            f"the compiled extension fastmcmd._core cannot be imported ({error}); the slower 'numba' "
            "backend stands in. Reinstall fastmcmd with a C++ compiler at hand",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True
