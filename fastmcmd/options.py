"""How a result is to be computed: one frozen object, passed down whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmcmd.checks import check_choice, check_positive
from fastmcmd.memory import parse_memory

__all__ = ["Options"]

SOLVERS = ("auto", "cholesky", "cg")
CERTIFICATES = ("auto", "rigorous", "sampled")


@dataclass(frozen=True)
class Options:
    """Numerical options, checked.

    Attributes
    ----------
    tol : float
        Largest error of a returned value.
    solver : str
        "auto", "cholesky" or "cg".
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
    """

    tol: float
    solver: str
    backend: str
    dtype: np.dtype[Any] | None
    memory_limit: int
    progress: bool
    certificate: str

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
        )
