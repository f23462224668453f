"""The choice of ``backend="auto"``: a CUDA device if there is one and its plan is clearly faster.

Small work never gets here: below the startup time of a device, nothing about devices is looked up.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.memory import format_bytes
from fastmcmd._base.threads import get_num_threads
from fastmcmd.device import cuda
from fastmcmd.estimate.task import backend_of
from fastmcmd.gram.cost import USUAL_ERROR, MatrixSize
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.planning.answer import FEATURES, possible_plan, subsample_of
from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.subsample import Subsample
from fastmcmd.rows import Rows
from fastmcmd.solvers import BlockCG, ProblemSize

__all__ = ["CLEARLY", "STARTUP", "choose", "nominal_seconds", "settled"]

# Upper bound on the seconds until a device does its first work: Python imports CuPy, the driver creates a
# context and cuBLAS handles, and NVRTC compiles the kernels that CuPy has not cached: together 1.7 s on a
# machine with an H200. The value is high because choosing the CPU wrongly costs less than choosing the
# device wrongly.
STARTUP = 3.0
CLEARLY = 0.7  # share of the seconds on the CPU that a device may take: estimates are not exact
# Operations per second of a thread: one multiply-add of 8 numbers per cycle, at 2.5 GHz.
_NOMINAL = 2e10

_LEAST_FREE = 1 << 29  # bytes: other processes use most of a device that has less
_FIRST = (0,)

_DECIDED: dict[tuple[Any, ...], tuple[bool, str]] = {}  # rates are measured once in a process


def nominal_seconds(size: ProblemSize, threads: int) -> float:
    """Return the seconds of CG on processors of nominal speed, from sizes alone; nothing is measured."""
    return BlockCG().estimate(size).total / (_NOMINAL * threads)


def _has_cupy() -> bool:
    return "cupy" in sys.modules or _is_installed("cupy")


@lru_cache(maxsize=1)
def _is_installed(package: str) -> bool:
    """Tell whether a package can be imported; looked up once, because that reads folders."""
    return importlib.util.find_spec(package) is not None


def settled(
    options: Options,
    kernels: tuple[Kernel, Kernel],
    x: Any,
    lam: float,
    columns: int = FEATURES,
) -> Options:
    """Return the options with the backend that "auto" selects for these inputs.

    That is a GPU if one is available and its plan is clearly faster. A backend other than "auto" stays, and
    so does "auto" with a checkpoint: a resumed run must take the same steps.

    Parameters
    ----------
    options : Options
        Options of the call.
    kernels : tuple of Kernel
        Resolved kernels of inputs and outputs.
    x : ndarray (n, d), Rows, or a Subsample of them
        Inputs.
    lam : float
        Smallest regulariser.
    columns : int
        Features of the output kernel.
    """
    if options.backend != "auto" or options.checkpoint is not None or not _has_cupy():
        return options
    if not all(kernel.compiled for kernel in kernels):
        return options
    kernel, (n, dim) = kernels[0], x.shape
    condition = float(np.max(kernel.diagonal(x[:1]))) / lam
    matrix = MatrixSize(kernel, n, dim, "cpu")
    size = ProblemSize(matrix, (columns,), 1, condition, USUAL_ERROR)
    if CLEARLY * nominal_seconds(size, get_num_threads()) <= STARTUP:
        return options  # without looking for a device
    return choose(options, kernel, x, lam, columns)


def choose(
    options: Options,
    kernel: Kernel,
    x: HostArray | Rows | Subsample,
    lam: float,
    columns: int = FEATURES,
) -> Options:
    """Return the options with the first device as backend, or on the CPU; ``chosen`` states the reason.

    Parameters
    ----------
    options : Options
        Options of the call, with backend "auto".
    kernel : Kernel
        Resolved input kernel.
    x : ndarray (n, d), Rows or Subsample
        Inputs.
    lam : float
        Smallest regulariser.
    columns : int
        Features of the output kernel.
    """
    if not cuda.cuda_device_count()[0]:
        return options
    settings = options.tol, options.solver, options.certificate, options.dtype, options.rank
    place = (kernel, *x.shape, lam, columns, get_num_threads(), *settings)
    if place not in _DECIDED:
        decision = _decided(options, kernel, x, lam, columns)
        if decision is None:
            return options
        _DECIDED[place] = decision
    on_device, why = _DECIDED[place]
    if on_device:
        return replace(options, backend="cupy", devices=_FIRST, backend_reason=why)
    return replace(options, backend_reason=why)


def _decided(
    options: Options,
    kernel: Kernel,
    x: HostArray | Rows | Subsample,
    lam: float,
    columns: int,
) -> tuple[bool, str] | None:
    """Return whether to use the first device, and the reason; None if ``memory_limit`` is too small."""
    gpu_options = replace(options, backend="cupy", devices=_FIRST)
    try:
        device = cuda.cuda_device(_FIRST[0], None)
        if device.budget < _LEAST_FREE:
            return False, (
                f"backend='auto' stays on the CPU: {device.label} has {format_bytes(device.budget)} "
                "to spare"
            )
        backend = backend_of(gpu_options, kernel)
    except Exception as error:  # the driver's own errors, of several kinds
        return False, f"backend='auto' stays on the CPU: the device cannot be used ({error})"
    cpu = _plan(options, backend_of(options, kernel).name, kernel, x, lam, columns)
    if cpu is None:
        return None
    if CLEARLY * cpu.seconds <= STARTUP:
        return (
            False,
            f"backend='auto' stays on the CPU: it is expected to take {cpu.seconds:.2g} s",
        )
    gpu = _plan(gpu_options, backend.name, kernel, x, lam, columns)
    if gpu is None:
        return None
    comparison = (
        f"expected seconds: {cpu.seconds:.2g} on the CPU, {gpu.seconds:.2g} on {device.label} and "
        f"at most {STARTUP:.0f} to start it"
    )
    if gpu.seconds + STARTUP <= CLEARLY * cpu.seconds:
        return True, f"backend='auto' took the device; {comparison}"
    return False, f"backend='auto' stays on the CPU; {comparison}"


def _plan(
    options: Options,
    name: str,
    kernel: Kernel,
    x: HostArray | Rows | Subsample,
    lam: float,
    columns: int,
) -> Plan | None:
    rows = x if isinstance(x, Subsample) else subsample_of(x, name)
    return possible_plan(
        rows, backend_of(options, kernel), kernel, options, lam, columns, low_rank=not rows.made_up
    )
