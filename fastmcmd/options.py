"""How a result is to be computed: one frozen object, passed down whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmcmd.checks import as_rows, check_choice, check_positive
from fastmcmd.memory import parse_memory

__all__ = ["Options"]

SOLVERS = ("auto", "cholesky", "cg", "lowrank", "nystrom")
CERTIFICATES = ("auto", "rigorous", "sampled")
LANDMARKS = ("rpcholesky", "uniform")


@dataclass(frozen=True)
class Options:
    """Numerical options, checked.

    Attributes
    ----------
    tol : float
        Largest error of a returned value.
    solver : str
        "auto", "cholesky", "cg", "lowrank" or "nystrom".
    backend : str
        "auto", "cpu", "numba" or "numpy".
    dtype : numpy.dtype or None
        Precision of the tiles; None starts in float32 where that can be certified.
    memory_limit : int
        Bytes that may be allocated beyond the inputs.
    progress : bool
        Whether to show the products done, the certificate and the time left.
    certificate : str
        "rigorous", "sampled", or "auto": rigorous unless the float64 pass that proves it would
        cost more than 0.6 of the work done so far.
    rank : int or None
        Landmarks of the low-rank solver; None takes as many as the tolerance needs.
    landmarks : str or ndarray (p, d)
        How the low-rank solver chooses them: "rpcholesky", "uniform", or the landmarks themselves.
    """

    tol: float
    solver: str
    backend: str
    dtype: np.dtype[Any] | None
    memory_limit: int
    progress: bool
    certificate: str
    rank: int | None
    landmarks: Any

    @staticmethod
    def of(
        *,
        tol: Any,
        solver: Any,
        backend: Any,
        dtype: Any,
        memory_limit: Any,
        progress: Any,
        certificate: Any,
        rank: Any = None,
        landmarks: Any = None,
    ) -> Options:
        """Return checked options."""
        if dtype is not None:
            try:
                dtype = np.dtype(dtype)
            except TypeError:
                raise TypeError(f"dtype is {dtype!r}; float32, float64 or None is needed") from None
            if dtype not in (np.float32, np.float64):
                raise ValueError(f"dtype is {dtype}; float32, float64 or None is needed")
        if not isinstance(backend, str):
            raise TypeError(f"backend is {backend!r}; the name of a backend is needed")
        return Options(
            tol=check_positive(tol, "tol"),
            solver=check_choice(solver, "solver", SOLVERS),
            backend=backend,
            dtype=dtype,
            memory_limit=parse_memory(memory_limit),
            progress=bool(progress),
            certificate=check_choice(certificate, "certificate", CERTIFICATES),
            rank=_rank(rank, solver),
            landmarks=_landmarks(landmarks, solver),
        )


def _rank(rank: Any, solver: str) -> int | None:
    if rank is None:
        return None
    if isinstance(rank, bool) or not hasattr(rank, "__index__"):
        raise TypeError(f"rank is {rank!r}; None or a positive integer is needed")
    if int(rank) < 1:
        raise ValueError(f"rank is {rank}; None or a positive integer is needed")
    _only_low_rank("rank", solver)
    return int(rank)


def _landmarks(landmarks: Any, solver: str) -> Any:
    if landmarks is None:
        return "uniform" if solver == "nystrom" else "rpcholesky"
    _only_low_rank("landmarks", solver)
    if isinstance(landmarks, str):
        return check_choice(landmarks, "landmarks", LANDMARKS)
    return as_rows(landmarks, "landmarks")


def _only_low_rank(name: str, solver: str) -> None:
    if solver not in ("lowrank", "nystrom"):
        raise ValueError(
            f"{name} is an option of solver='lowrank' and solver='nystrom', and solver is {solver!r}"
        )
