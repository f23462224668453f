"""Custom kernels, written by users as plain functions of two rows."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Json
from fastmcmd._base.checks import check_callable
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.kernels.base import UNIT, Array, Instruction, Kernel, as_rows

__all__ = ["CustomKernel", "examine_kernel"]

_EXAMINED = 40  # rows of a sample on whose pairs a function is checked to be a kernel


@dataclass(frozen=True)
class CustomKernel(Kernel):
    """A function of two rows, compiled by Numba for the ``numba`` backend.

    Parameters
    ----------
    function : callable
        ``f(x_row, z_row) -> float`` of two one-dimensional arrays. It must be symmetric and positive
        semi-definite; both are checked on some rows of the data, which does not prove them.
    name : str, optional
        Display name. Default: the name of the function.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> def overlap(a, b):
    ...     return np.minimum(a, b).sum()
    >>> float(fm.CustomKernel(overlap)([[1.0, 2.0]], [[2.0, 1.0]])[0, 0])
    2.0
    """

    compares_rows: ClassVar[bool] = True  # for all that the code can know
    function: Callable[[Any, Any], float]
    name: str | None = None

    def __post_init__(self) -> None:
        check_callable(self.function, "function", 2, "a function of two rows")
        if not isinstance(self.function, Hashable):
            raise TypeError(
                f"function is {self.function!r}, which is not hashable; a plain function is needed"
            )
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name is {self.name!r}; a string or None is needed")

    @property
    def label(self) -> str:
        """Name of the function in messages."""
        return self.name or str(getattr(self.function, "__name__", self.function))

    @property
    def compiled(self) -> bool:
        """Return False: the compiled core cannot evaluate the function."""
        return False

    def evaluate(self, x: Array, z: Array) -> Array:
        """Return a block of the matrix, computed pair by pair in Python."""
        out = np.empty((len(x), len(z)), dtype=np.result_type(x, z))
        for i, row in enumerate(x):
            for j, other in enumerate(z):
                out[i, j] = self._value(row, other)
        return out

    def diagonal(self, x: ArrayLike) -> Array:
        """Return f(x_i, x_i) (n,)."""
        return np.array([self._value(row, row) for row in as_rows(x)], dtype=np.float64)

    def _value(self, row: Array, other: Array) -> float:
        """Return f of two rows, checked to be a finite number."""
        returned: object = self.function(row, other)
        if isinstance(returned, np.ndarray) and returned.ndim == 0:
            returned = returned[()]
        if not isinstance(returned, (numbers.Real, np.bool_)):
            note = (
                repr(returned)
                if not isinstance(returned, np.ndarray)
                else f"shape {returned.shape}"
            )
            raise TypeError(
                f"the function of {self!r} returned {type(returned).__name__} ({note[:60]}); a real number "
                "is needed"
            )
        value = float(returned)
        if not math.isfinite(value):
            raise ValueError(
                f"the function of {self!r} returned {value} for the rows {row[:4]} and {other[:4]}; a "
                "finite number is needed"
            )
        return value

    def examine(self, rows: Array, name: str) -> None:
        """Raise an error if f is not symmetric on some rows, or their matrix has a negative eigenvalue.

        Deviations within the rounding that `Kernel.rounding` assumes for f are allowed.
        """
        rows = np.asarray(rows, dtype=np.float64)
        matrix = self.evaluate(rows, rows)
        rounding = self.rounding(UNIT, rows.shape[1], 0.0, True, float(np.abs(matrix).max()))
        off = np.abs(matrix - matrix.T)
        if off.max() > 2 * rounding:
            i, j = np.unravel_index(int(off.argmax()), off.shape)
            raise ValueError(
                f"{name}: the function of {self!r} is not symmetric: f(a, b) = {matrix[i, j]:.6g} and "
                f"f(b, a) = {matrix[j, i]:.6g} for two rows of the data; a kernel is needed"
            )
        least = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])
        if least < -4 * len(rows) * rounding:
            raise ValueError(
                f"{name}: the function of {self!r} is not positive semi-definite: its matrix of "
                f"{len(rows)} rows of the data has the eigenvalue {least:.3g}; a kernel is needed"
            )

    def instructions(self) -> Iterator[Instruction]:
        """Raise TypeError: a custom kernel has no program."""
        raise TypeError("a CustomKernel has no program for the compiled core; use backend='numba'")

    def max_value(self, max_norm2: float) -> float:
        """Return infinity, because nothing is known about the function."""
        del max_norm2
        return math.inf

    def entry_error(self, unit: float, dim: int, max_norm2: float, direct: bool) -> float:
        """Return infinity; `Kernel.rounding` assumes an error instead."""
        del unit, dim, max_norm2, direct
        return math.inf

    def to_dict(self) -> Json:
        """Raise TypeError: a function cannot be saved without pickle."""
        raise TypeError(
            f"{self!r} holds a Python function, which cannot be saved without pickle; use built-in kernels"
        )

    def __repr__(self) -> str:
        return f"CustomKernel({self.label})"


def examine_kernel(kernel: Kernel, name: str, *samples: Any) -> None:
    """Raise an error if a custom function is not a kernel on some rows of each sample (n, d).

    ``name`` is the name of the kernel argument. Equal calls examine equal rows.
    """
    if kernel.compiled:
        return
    some = []
    for rows in samples:
        rng = generator(len(rows), Purpose.PROBE)
        some.append(rows[np.sort(rng.choice(len(rows), min(len(rows), _EXAMINED), replace=False))])
    kernel.examine(np.concatenate(some), name)
