"""Quantized tiles: the error that 16 bits leave in the entries of a kernel matrix.

A tile stores the least value and the step of each of its rows, and for each entry the number of steps, in
16 bits: half the memory of float32, and half the time to write and to read it. The error of an entry is
uniform within half a step. That is some ten times the rounding of float32 where a product sums over ten
thousand rows, and none of it is in the first product of a run, which uses the values before.
"""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array

__all__ = ["LEAST_QUANTIZED", "QUANTIZED_COLUMNS", "QUANTIZED_STEPS", "quantization_error"]

QUANTIZED_STEPS = 65535
QUANTIZED_COLUMNS = 256  # columns of a tile
LEAST_QUANTIZED = (
    8192  # rows: with fewer the tiles take little memory, and certificates compute them again
)


def quantization_error(values: Array) -> float:
    """Return the root of the mean square error of entries of tiles, from ``values`` (m, m): K of some rows.

    Their diagonal does not count: few tiles contain that of K. It is overwritten.
    """
    np.fill_diagonal(values, np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        width = np.nanmax(values, axis=1) - np.nanmin(values, axis=1)
        mean = float(np.mean((width / QUANTIZED_STEPS) ** 2, dtype=np.float64))
    return float(np.sqrt(mean / 12))
