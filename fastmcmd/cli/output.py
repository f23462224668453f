"""How commands print, and where they may write."""

from __future__ import annotations

import os
from pathlib import Path

from fastmcmd.cli.app import UsageError

__all__ = ["aligned", "check_target"]


def check_target(path: Path, endings: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    told = f"--output is {str(path)!r}"
    if path.suffix not in endings:
        raise UsageError(f"{told}; a name that ends in {' or '.join(endings)} is needed")
    if path.is_dir():
        raise UsageError(f"{told}, which is a folder; the name of a file is needed")
    if not path.parent.is_dir():
        raise UsageError(f"{told}, but there is no folder {str(path.parent)!r}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{told}, but the folder {str(path.parent)!r} cannot be written to")


def aligned(rows: list[list[str]]) -> str:
    """Return rows of text as columns: the first to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for index, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
        if index == 0:
            lines.append("-" * len(lines[0]))
    return "\n".join(lines)
