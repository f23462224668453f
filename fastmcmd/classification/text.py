"""Results as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["as_text"]


def as_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """Return named columns as lines of text, numbers in four digits."""
    cells = [list(columns)]
    for row in zip(*columns.values(), strict=True):
        cells.append([f"{value:.4g}" if isinstance(value, float) else str(value) for value in row])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(
            # names to the left, numbers to the right
            cell.ljust(width) if isinstance(values[0], str) else cell.rjust(width)
            for cell, width, values in zip(line, widths, columns.values(), strict=True)
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)
