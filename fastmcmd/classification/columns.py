"""Iteration over the scores of one class at a time, for metrics that sort them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd.classification.inputs import LabelledRows
from fastmcmd.predictive.base import Array

__all__ = ["over_columns"]

T = TypeVar("T")

# Columns are copied in groups, because reading one value loads its whole cache line: 16 columns of float32.
# For a million rows these take 64 MB.
_GROUP_BYTES = 1 << 26


def over_columns(
    rows: LabelledRows,
    work: Callable[[int, Array], T],
    classes: Sequence[int],
    check: bool = True,
) -> list[T]:
    """Return ``work(class, scores)`` for each of the classes, in order.

    Parameters
    ----------
    rows : LabelledRows
        Probabilities.
    work : callable
        Receives a class and a copy of its probabilities (m,), which it may sort.
    classes : sequence of int
        Columns of p.
    check : bool
        Whether the probabilities still need to be checked.
    """
    kind = np.dtype(np.float64) if rows.binary else rows.p.dtype
    width = max(1, min(len(classes), _GROUP_BYTES // (len(rows) * kind.itemsize)))
    scratch = np.empty((width, len(rows)), dtype=kind)
    results: list[T] = []
    for part in row_blocks(len(classes), width):
        group = list(classes[part])
        checks_rows = check and part.start == 0

        def fill(
            piece: slice,
            block: Array,
            group: list[int] = group,
            look: bool = checks_rows,
        ) -> None:
            if look:
                rows.check_block(piece, block)
            for place, label in enumerate(group):
                scratch[place, piece] = block[:, label]

        rows.over_blocks(fill)

        def run(piece: slice, group: list[int] = group) -> T:
            return work(group[piece.start], scratch[piece.start])

        results += over_rows(run, len(group), 1)
    return results
