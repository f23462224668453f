"""Arrays of a file that nobody vouches for: each is checked for shape, type and range as it is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stored"]


class Stored:
    """Named arrays of a saved object.

    Examples
    --------
    >>> Stored({"factor": np.eye(2)}).numbers("factor", 2, 3)
    Traceback (most recent call last):
        ...
    ValueError: factor has shape (2, 2); (2, 3) is needed
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def numbers(self, name: str, *shape: int | None, finite: bool = True) -> NDArray[Any]:
        """Return an array of float32 or float64 of a shape, in which None is any length."""
        found = self._of_shape(name, shape)
        if found.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} has dtype {found.dtype}; float32 or float64 is needed")
        if finite and not np.isfinite(found).all():
            raise ValueError(f"{name} holds NaN or infinity")
        return found.astype(found.dtype.newbyteorder("="), copy=False)

    def sparse(self, name: str, rows: int, columns: int) -> Any:
        """Return a sparse matrix by rows; SciPy's own products look at no index."""
        from scipy import sparse

        data = self.numbers(f"{name}_data", None)
        indices = self._places(f"{name}_indices", len(data), columns - 1)
        starts = self._places(f"{name}_indptr", rows + 1, len(data))
        if starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
            raise ValueError(f"{name}_indptr does not divide {len(data)} entries among {rows} rows")
        return sparse.csr_array((data, indices, starts), shape=(rows, columns))

    def _places(self, name: str, length: int, most: int) -> NDArray[Any]:
        found = self._of_shape(name, (length,))
        if found.dtype.kind != "i":
            raise ValueError(f"{name} has dtype {found.dtype}; integers are needed")
        if length and not (found.min() >= 0 and found.max() <= most):
            raise ValueError(f"{name} has entries outside 0 to {most}")
        return found.astype(found.dtype.newbyteorder("="), copy=False)

    def _of_shape(self, name: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        if name not in self._arrays:
            raise ValueError(f"{name} is missing")
        found = self._arrays[name]
        fits = found.ndim == len(shape) and all(
            asked in (None, there) for asked, there in zip(shape, found.shape, strict=True)
        )
        if not fits:
            needed = ", ".join("any" if asked is None else str(asked) for asked in shape)
            raise ValueError(f"{name} has shape {found.shape}; ({needed}) is needed")
        return found
