"""Quantized tiles: the error that 16 bits leave in the entries of a kernel matrix.

A tile stores the least value and the step of each of its rows, and for each entry the number of steps, in
16 bits: half the memory of float32, and half the time to write and to read it. The error of an entry is
uniform within half a step. That is some ten times the rounding of float32 where a product sums over ten
thousand rows, and none of it is in the first product of a run, which uses the values before.
"""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array, HostArray

__all__ = [
    "LEAST_QUANTIZED", "LEAST_QUANTIZED_VALUE", "QUANTIZED_COLUMNS", "QUANTIZED_STEPS",
    "quantization_error", "row_errors",
]  # fmt: skip

QUANTIZED_STEPS = 65535
QUANTIZED_COLUMNS = 256  # columns of a tile
LEAST_QUANTIZED_VALUE = 1e-30  # of the largest entry: float32 has no steps for ranges below 3e-34
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


def row_errors(codes: HostArray, scales: HostArray, squares: Array) -> Array:
    """Return the expected squares (n,) of what quantized tiles add to the rows of K B.

    An entry errs by the step of its row in its tile, and so does the entry at its mirror place. In diagonal
    tiles the range of a row contains its diagonal; there, entries at an end of the range are exact. So rows
    far from all others hardly err, and rows of a cluster among them do. The tiles may be those of the first
    row blocks.

    Parameters
    ----------
    codes : ndarray (p, t, t) of uint16
        Packed tiles.
    scales : ndarray (p, t, 2)
        Least value and step of each of their rows.
    squares : ndarray (n,)
        ``|B_i|^2``.
    """
    n, tile = len(squares), scales.shape[1]
    blocks = -(-n // tile)
    padded = np.zeros((blocks, tile))
    padded.reshape(-1)[:n] = squares
    sums = padded.sum(axis=1)
    errors = np.zeros((blocks, tile))
    for i in range(blocks):
        first = i * (i + 1) // 2
        if first == len(codes):
            break
        steps = scales[first : first + i + 1, :, 1].astype(np.float64) ** 2 / 12
        diagonal = codes[first + i]
        between = (diagonal > 0) & (diagonal < QUANTIZED_STEPS)
        # Without BLAS, whose sums depend on its threads.
        errors[i] += np.einsum("j,jk->k", sums[:i], steps[:i])
        errors[i] += steps[i] * np.einsum("jk,k->j", between, padded[i])
        errors[:i] += np.einsum("jk,k->j", steps[:i], padded[i])[:, None]
    return errors.reshape(-1)[:n]
