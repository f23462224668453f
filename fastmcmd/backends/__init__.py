"""Backends: who computes tiles. A new one is a file with a `Backend` and a line in `_BACKENDS`."""

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


def available_backends() -> dict[str, str]:
    """Return for each backend "available", or why it is not."""
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
        A name, or "auto": "cpu" for kernels that the core knows, "numba" for a person's own. Where a
        device is the better choice, `Options.settled` has named it before.
    kernel : Kernel
        What it must evaluate.
    devices : sequence of int, optional
        Devices of "cupy"; default the first.
    device_memory_limit : int, optional
        Bytes that "cupy" may take on each device; default 0.8 of what is free there.

    Raises
    ------
    ValueError
        For an unknown name, or a kernel that the backend does not know.
    ImportError
        For "cpu" without the compiled extension, "cupy" without CuPy.
    RuntimeError
        For "cupy" without a device.
    """
    if name == "auto":
        if not kernel.compiled:
            return NumbaBackend()
        return CpuBackend() if _core_is_there() else NumbaBackend()
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
            if "FASTMCMD_ISA" in str(error):
                raise
            raise ImportError(
                f"backend='cpu' needs the compiled extension fastmcmd._core, which cannot be imported "
                f"({error}); reinstall fastmcmd with a C++ compiler at hand, or use backend='numba'"
            ) from error
    return backend


def _cuda_devices(devices: Sequence[int], limit: int | None) -> tuple[cuda.CudaDevice, ...]:
    cuda.cupy()  # says how to install it
    count, why = cuda.cuda_device_count()
    if not count:
        raise RuntimeError(f"backend='cupy': {why}; use backend='auto'")
    return tuple(cuda.cuda_device(index, limit) for index in devices)


@lru_cache(maxsize=1)
def _core_is_there() -> bool:
    """Tell whether the extension can be imported; says so once where it cannot."""
    try:
        core()
    except ImportError as error:
        if "FASTMCMD_ISA" in str(
            error
        ):  # a setting that is wrong, not an extension that is missing
            raise
        warnings.warn(
            f"the compiled extension fastmcmd._core cannot be imported ({error}); the slower 'numba' "
            "backend stands in. Reinstall fastmcmd with a C++ compiler at hand",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True
