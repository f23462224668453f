"""A kernel that the user wrote as a function of two blocks of rows."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fastmcmd._base.annotations import AnyArray
from fastmcmd.kernels.base import Array, Instruction, Kernel, as_rows

__all__ = ["CallableKernel", "Converter", "Converters", "KernelFunction"]

KernelFunction: TypeAlias = Callable[[AnyArray, AnyArray], AnyArray]
# Turns float64 arrays into what a function takes, with the unit roundoff of that.
Converter: TypeAlias = tuple[Callable[[Array], AnyArray], float]
Converters: TypeAlias = list[Converter]

_DIAGONAL = 32  # rows whose block is computed for its diagonal: few, as most of it is thrown away
_PROBED = (7, 5)  # rows with which a function is tried; unequal, so that a transpose shows
_ASYMMETRY = 1e-3  # relative to the largest entry: beyond rounding in any precision


@dataclass(frozen=True, eq=False)
class CallableKernel(Kernel):
    """``function(x, z) -> (n, m)`` of blocks of rows, as published; called tile by tile.

    Parameters
    ----------
    function : callable
        Takes rows (n, d) and (m, d), arrays or tensors, and returns their matrix. Symmetric and
        positive semi-definite; a few rows are tried for symmetry, the rest is not checked.
    label : str
        Name of the argument, for messages.
    convert : callable
        Turns an array into what the function takes.
    unit : float
        Unit roundoff of the precision in which the function is called.

    Notes
    -----
    `fastmcmd.CustomKernel` is a function of two single rows, compiled by Numba; this one is any Python
    code, called by one thread at a time.
    """

    function: KernelFunction
    label: str
    convert: Callable[[Array], AnyArray]
    unit: float
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    @property
    def compiled(self) -> bool:
        """Return False: the compiled core does not know the function."""
        return False

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix."""
        with self._lock:  # tiles are computed on several threads; the user's code expects one
            values = self.function(self.convert(x), self.convert(z))
        if hasattr(values, "detach"):
            values = values.detach().cpu()
            if str(values.dtype) == "torch.bfloat16":  # unknown to NumPy
                values = values.float()
        matrix = np.asarray(values)
        if matrix.shape != (len(x), len(z)):
            raise ValueError(
                f"{self.label} returned shape {matrix.shape} for {len(x)} and {len(z)} rows; a matrix of "
                f"shape {(len(x), len(z))} is needed"
            )
        if matrix.dtype.kind not in "fiub":
            raise TypeError(f"{self.label} returned dtype {matrix.dtype}; real numbers are needed")
        if not np.isfinite(matrix).all():
            what = "NaN" if np.isnan(matrix).any() else "infinity"
            raise ValueError(f"{self.label} returned {what}; finite numbers are needed")
        return matrix.astype(np.result_type(x, z), copy=False)

    def diagonal(self, x: AnyArray) -> Array:
        """Return k(x_i, x_i) (n,)."""
        rows = as_rows(x)
        out = np.empty(len(rows))
        for start in range(0, len(rows), _DIAGONAL):
            block = rows[start : start + _DIAGONAL].astype(np.float64)
            out[start : start + len(block)] = self.evaluate(block, block).diagonal()
        return out

    def check(self, x: Array) -> None:
        """Call the function on a few rows, and raise where its matrix is not symmetric."""
        first, last = x[: _PROBED[0]], x[-_PROBED[1] :]
        there, back = self.evaluate(first, last), self.evaluate(last, first)
        if np.abs(there - back.T).max() > _ASYMMETRY * np.abs(there).max():
            raise ValueError(
                f"{self.label} is not symmetric: k(x, z) and k(z, x) differ by "
                f"{np.abs(there - back.T).max():.2g}; a kernel is needed"
            )

    def instructions(self) -> Iterator[Instruction]:
        """Refuse: there is no program."""
        raise TypeError(
            f"{self.label} is a Python function without a program for the compiled core"
        )

    def max_value(self, max_norm2: float) -> float:
        """Return infinity: the function may have any bound."""
        del max_norm2
        return math.inf

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return infinity: see `rounding` for what is assumed instead."""
        del unit, dim, max_norm2, direct
        return math.inf

    def rounding(
        self, unit: float, dim: int, max_norm2: float, direct: bool, largest: float
    ) -> float:
        """Return what `Kernel.rounding` assumes, at the precision in which the function is called."""
        return super().rounding(max(unit, self.unit), dim, max_norm2, direct, largest)

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a function cannot be saved without pickle."""
        raise TypeError(f"{self!r} holds a Python function, which cannot be saved without pickle")

    def __repr__(self) -> str:
        return f"CallableKernel({getattr(self.function, '__name__', self.function)})"
