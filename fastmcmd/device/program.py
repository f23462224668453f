"""Tiles of one kernel on any device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, DType
from fastmcmd.device.base import Device, leading
from fastmcmd.device.rows import Block
from fastmcmd.device.source import Source, structure_of, tile_source
from fastmcmd.kernels import Kernel

__all__ = ["SIDE", "TileProgram"]

SIDE = 4  # rows and columns of a thread of "pairs"
_APART = 1 << 62  # a shift that no row and column have: two different samples


@dataclass(eq=False)
class TileProgram:
    """What fills tiles with the values of a kernel.

    Attributes
    ----------
    source : Source
    parameters : ndarray (p,)
    """

    source: Source
    parameters: NDArray[np.float64]
    _uploaded: dict[int, Any] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel, dim: int, dtype: DType) -> TileProgram:
        """Return the program of a resolved kernel for rows of ``dim`` columns."""
        structure, parameters = structure_of(kernel)
        return TileProgram(tile_source(structure, dim, dtype), parameters)

    def fill(
        self, device: Device, tile: AnyArray, left: Block, right: Block, shift: int | None = None
    ) -> None:
        """Set ``tile[i, j] = k(left_i, right_j)``.

        ``shift`` is how many rows the first of ``left`` comes after the first of ``right`` where both are
        of one sample, so that the distance of a row to itself is 0.
        """
        if id(device) not in self._uploaded:
            self._uploaded[id(device)] = device.upload(self.parameters)
        in_parts = left.parts is not None and right.parts is not None
        if self.source.needs_dot:
            _inner(device, tile, left, right, in_parts)
        exponents = (left.exponents, right.exponents) if in_parts else (None, None)
        rows, cols = len(left), len(right)
        device.launch(
            self.source, "pairs", (-(-cols // SIDE), -(-rows // SIDE)), tile, leading(tile), rows,
            cols, left.x, leading(left.x), right.x, leading(right.x), int(left.x.shape[0]),
            left.squared, right.squared, left.inverse, right.inverse, *exponents,
            _APART if shift is None else shift, self._uploaded[id(device)],
        )  # fmt: skip


def _inner(device: Device, tile: AnyArray, left: Block, right: Block, in_parts: bool) -> None:
    """Set the tile to the inner products of rows; of their parts, which "pairs" scales back."""
    if not in_parts:
        device.multiply(tile, left.x, right.x, transposed=(True, False))
        return
    # One product of three times the coordinates, not three: the tile is written once. The smallest terms
    # come first.
    dim = int(left.x.shape[0])
    low_first, high_first = left.parts[dim:], right.parts[: 3 * dim]
    device.multiply(tile, low_first, high_first, transposed=(True, False))
