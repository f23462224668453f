"""Backends: who computes tiles. A new one is a file with a `Backend` and a line in `_BACKENDS`."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import lru_cache

from fastmcmd.backends.base import Backend
from fastmcmd.backends.cpu import CpuBackend, core
from fastmcmd.backends.numba import NumbaBackend
from fastmcmd.backends.numpy import NumpyBackend
from fastmcmd.kernels import Kernel

__all__ = ["Backend", "available_backends", "get_backend"]

_BACKENDS: dict[str, Callable[[], Backend]] = {
    "cpu": CpuBackend,
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
    return status


def get_backend(name: str, kernel: Kernel) -> Backend:
    """Return the backend for a kernel.

    Parameters
    ----------
    name : str
        A name, or "auto": "cpu" for kernels that the core knows, "numba" for a person's own.
    kernel : Kernel
        What it must evaluate.

    Raises
    ------
    ValueError
        For an unknown name, or a kernel that the backend does not know.
    ImportError
        For "cpu" without the compiled extension.
    """
    if name == "auto":
        if not kernel.compiled:
            return NumbaBackend()
        return CpuBackend() if _core_is_there() else NumbaBackend()
    if name == "cupy":
        raise ValueError(
            "backend='cupy' is not part of this version; use 'auto', "
            + ", ".join(map(repr, _BACKENDS))
        )
    if name not in _BACKENDS:
        names = ", ".join(map(repr, ("auto", *_BACKENDS)))
        raise ValueError(f"backend is {name!r}; one of {names} is needed")
    backend = _BACKENDS[name]()
    if not backend.supports(kernel):
        raise ValueError(
            f"backend={name!r} cannot evaluate {kernel!r}; use backend='numba' or 'auto'"
        )
    if name == "cpu":
        try:
            core()
        except ImportError as error:
            raise ImportError(
                f"backend='cpu' needs the compiled extension fastmcmd._core, which cannot be imported "
                f"({error}); reinstall fastmcmd with a C++ compiler at hand, or use backend='numba'"
            ) from error
    return backend


@lru_cache(maxsize=1)
def _core_is_there() -> bool:
    """Tell whether the extension can be imported; says so once where it cannot."""
    try:
        core()
    except ImportError as error:
        warnings.warn(
            f"the compiled extension fastmcmd._core cannot be imported ({error}); the slower 'numba' "
            "backend stands in. Reinstall fastmcmd with a C++ compiler at hand",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True
