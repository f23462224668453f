"""The precision of tiles: the requested one, unless rounding the rows could make different rows equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd._base.annotations import DType
from fastmcmd.kernels import Kernel

__all__ = ["EXACT", "FLOAT32", "tile_dtype"]

EXACT = np.dtype(np.float64)
FLOAT32 = np.dtype(np.float32)


def tile_dtype(kernel: Kernel, preferred: Any, *rows: Any) -> DType:
    """Return the precision of tiles of ``kernel`` over ``rows``: ``preferred``, or float64.

    A kernel that compares rows for equality (`Kernel.compares_rows`) needs unrounded rows: different
    float64 rows may be equal in float32.
    """
    kind = np.dtype(preferred)
    if kind == EXACT or not kernel.compares_rows:
        return kind
    return kind if all(x.dtype == FLOAT32 for x in rows) else EXACT
