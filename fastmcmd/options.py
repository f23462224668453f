"""The numerical options of a computation, as one frozen object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, get_args

import numpy as np
from numpy.typing import DTypeLike

from fastmcmd._base.annotations import (
    CertificateName,
    DType,
    Encoder,
    FilePath,
    Landmarks,
    MemoryLimit,
    RandomState,
    SolverName,
)
from fastmcmd._base.checks import as_rows, check_choice, check_count, check_positive, on_device
from fastmcmd._base.memory import parse_memory
from fastmcmd.io import destination
from fastmcmd.kernels.base import KernelLike

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["DEFAULTS", "USUAL_TOL", "Computation", "Estimation", "Options", "where_data_are"]

LANDMARKS = ("rpcholesky", "uniform")
_SOLVERS, _CERTIFICATES = get_args(SolverName), get_args(CertificateName)


class Computation(TypedDict, total=False):
    """The computational arguments that public functions share; `fastmcmd.mcmd` describes them.

    Public signatures list them explicitly. A test compares the signatures, the command line and the saved
    form of estimators with this list.
    """

    tol: float | None
    solver: SolverName
    backend: str
    dtype: DTypeLike | None
    memory_limit: MemoryLimit
    progress: bool
    certificate: CertificateName
    rank: int | None
    landmarks: Landmarks
    cache_dir: FilePath | None
    checkpoint: FilePath | None
    devices: Sequence[int] | None
    device_memory_limit: int | str | None


class Estimation(Computation, total=False):
    """The arguments of `fastmcmd.ConditionalCongruence`: what to estimate, and how to compute it."""

    x_kernel: KernelLike
    y_kernel: KernelLike
    lam: float | str | None
    draws: int | None
    encoder: Encoder | None
    random_state: RandomState


USUAL_TOL = 1e-6  # of a value of the CCE or the MCMD

DEFAULTS: Computation = {
    "tol": USUAL_TOL, "solver": "auto", "backend": "auto", "dtype": None, "memory_limit": None,
    "progress": False, "certificate": "auto", "rank": None, "landmarks": None, "cache_dir": None,
    "checkpoint": None, "devices": None, "device_memory_limit": None,
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Checked numerical options.

    Attributes
    ----------
    tol : float
        Largest allowed error of a returned value.
    solver : str
        "auto", "cholesky", "cg", "lowrank" or "nystrom".
    backend : str
        "auto", "cpu", "cupy", "numba" or "numpy".
    dtype : numpy.dtype or None
        Precision of the tiles; None starts in float32 if that can be certified.
    memory_limit : int
        Bytes that may be allocated beyond the inputs.
    progress : bool
        Whether to show the completed products, the certificate and the remaining time.
    certificate : str
        "rigorous", "sampled", or "auto": rigorous unless the float64 pass for it would cost more than 0.45
        of the work before it.
    rank : int or None
        Number of landmarks of the low-rank solver; None uses as many as the tolerance needs.
    landmarks : str or ndarray (p, d)
        How the low-rank solver chooses landmarks, "rpcholesky" or "uniform", or the landmarks themselves.
    cache_dir : Path or None
        Folder for a Cholesky factor that does not fit in memory.
    checkpoint : Path or None
        File for the state of a long computation.
    limit_given : bool
        Whether the caller passed ``memory_limit``; otherwise it was derived from the free memory.
    devices : tuple of int or None
        Devices of backend "cupy".
    device_memory_limit : int or None
        Bytes that may be used on each device.
    backend_reason : str
        Why "auto" chose this backend, if devices were considered (`fastmcmd.planning.choice`).
    """

    tol: float
    solver: str
    backend: str
    dtype: DType | None
    memory_limit: int
    progress: bool
    certificate: str
    rank: int | None
    landmarks: Any
    cache_dir: Path | None = None
    checkpoint: Path | None = None
    limit_given: bool = True
    devices: tuple[int, ...] | None = None
    device_memory_limit: int | None = None
    backend_reason: str = ""

    @staticmethod
    def of(**arguments: Unpack[Computation]) -> Options:
        """Return checked options, with `DEFAULTS` for missing arguments."""
        values: dict[str, Any] = {**DEFAULTS, **arguments}
        dtype, backend, solver = values["dtype"], values["backend"], values["solver"]
        if dtype is not None:
            try:
                if not isinstance(dtype, (str, type, np.dtype)):
                    raise TypeError  # NumPy would take the dtype of a number
                dtype = np.dtype(dtype)
            except TypeError:
                raise TypeError(f"dtype is {dtype!r}; float32, float64 or None is needed") from None
            if dtype not in (np.float32, np.float64):
                raise ValueError(f"dtype is {dtype}; float32, float64 or None is needed")
        if not isinstance(backend, str):
            raise TypeError(f"backend is {backend!r}; the name of a backend is needed")
        return Options(
            tol=check_positive(values["tol"], "tol"),
            solver=check_choice(solver, "solver", _SOLVERS),
            backend=backend,
            dtype=dtype,
            memory_limit=parse_memory(values["memory_limit"]),
            progress=bool(values["progress"]),
            certificate=check_choice(values["certificate"], "certificate", _CERTIFICATES),
            rank=_rank(values["rank"], solver),
            landmarks=_landmarks(values["landmarks"], solver),
            cache_dir=_cache_dir(values["cache_dir"]),
            checkpoint=_checkpoint(values["checkpoint"]),
            limit_given=values["memory_limit"] is not None,
            devices=_devices(values["devices"], backend),
            device_memory_limit=_device_limit(values["device_memory_limit"], backend),
        )


def where_data_are(backend: object, devices: object, x: object) -> tuple[Any, Any]:
    """Return backend and devices; with "auto", those of the device that holds the inputs."""
    device = on_device(x) if isinstance(backend, str) and backend == "auto" else None
    return (
        (backend, devices) if device is None else ("cupy", [device] if devices is None else devices)
    )


def _devices(devices: object, backend: str) -> tuple[int, ...] | None:
    if devices is None:
        return None
    _needs_cuda("devices", backend)
    if isinstance(devices, str) or not isinstance(devices, Iterable):
        raise TypeError(f"devices is {devices!r}; a list of devices such as [0, 1] is needed")
    indices = tuple(check_count(index, "devices", 0) for index in devices)
    if not indices or len(set(indices)) < len(indices):
        raise ValueError(f"devices is {list(indices)}; different devices, at least one, are needed")
    return indices


def _device_limit(limit: object, backend: str) -> int | None:
    if limit is None:
        return None
    _needs_cuda("device_memory_limit", backend)
    return parse_memory(limit, "device_memory_limit")


def _needs_cuda(name: str, backend: str) -> None:
    if backend != "cupy":
        raise ValueError(f"{name} is an option of backend='cupy', and backend is {backend!r}")


def _rank(rank: object, solver: str) -> int | None:
    if rank is None:
        return None
    rank = check_count(rank, "rank", optional=True)
    _only_low_rank("rank", solver)
    return rank


def _landmarks(landmarks: object, solver: str) -> Any:
    if landmarks is None:
        return "uniform" if solver == "nystrom" else "rpcholesky"
    _only_low_rank("landmarks", solver)
    if isinstance(landmarks, str):
        return check_choice(landmarks, "landmarks", LANDMARKS)
    return as_rows(landmarks, "landmarks")


def _cache_dir(cache_dir: object) -> Path | None:
    if cache_dir is None:
        return None
    path = _path(cache_dir, "cache_dir", "None or the path of a folder")
    if not path.is_dir():
        raise FileNotFoundError(f"cache_dir is {str(path)!r}; an existing folder is needed")
    _check_writable(path, f"cache_dir is {str(path)!r}; a folder that can be written to is needed")
    return path


def _checkpoint(checkpoint: object) -> Path | None:
    if checkpoint is None:
        return None
    path = _path(checkpoint, "checkpoint", "None or the path of a file")
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint is {str(path)!r}, a folder; a file name is needed")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"checkpoint is {str(path)!r}; a file name in an existing folder is needed"
        )
    _check_writable(
        path.parent,
        f"checkpoint is {str(path)!r}; a file in a folder that can be written to is needed",
    )
    destination(path, "checkpoint")  # a device, a FIFO, a read-only file
    return path


def _path(value: object, name: str, requirement: str) -> Path:
    if isinstance(value, bytes) or not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} is {value!r}; {requirement} is needed")
    # An absolute path stays the same file if the working folder changes meanwhile.
    return Path(value).expanduser().absolute()


def _check_writable(folder: Path, message: str) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno or 0, f"{message} ({reason})") from None


def _only_low_rank(name: str, solver: str) -> None:
    if solver not in ("lowrank", "nystrom"):
        raise ValueError(
            f"{name} is an option of solver='lowrank' and solver='nystrom', and solver is {solver!r}"
        )
