"""The precision of tiles: the requested one, unless rounding the rows could make different rows equal."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from fastmcmd._base.annotations import DType, HostArray
from fastmcmd.kernels import Kernel
from fastmcmd.rows import Rows

__all__ = ["EXACT", "FLOAT32", "dtype_name", "tile_dtype"]

EXACT = np.dtype(np.float64)
FLOAT32 = np.dtype(np.float32)


def tile_dtype(kernel: Kernel, preferred: DTypeLike, *rows: HostArray | Rows) -> DType:
    """Return the precision of tiles of ``kernel`` over ``rows``: ``preferred``, or float64.

    A kernel that compares rows for equality (`Kernel.compares_rows`) needs unrounded rows: different
    float64 rows may be equal in float32.
    """
    kind = np.dtype(preferred)
    if kind == EXACT or not kernel.compares_rows:
        return kind
    return kind if all(x.dtype == FLOAT32 for x in rows) else EXACT


def dtype_name(dtype: DType) -> str:
    """Return "float32" or "float64"; ``str(dtype)`` takes twenty times as long."""
    return "float64" if dtype == EXACT else "float32"
