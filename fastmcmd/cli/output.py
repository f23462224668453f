"""How commands print, and where they may write."""

from __future__ import annotations

import os
from pathlib import Path

from fastmcmd.cli.app import UsageError

__all__ = ["check_target"]


def check_target(path: Path, endings: tuple[str, ...], option: str = "--output") -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    told = f"{option} is {str(path)!r}"
    if path.suffix not in endings:
        raise UsageError(f"{told}; a name that ends in {' or '.join(endings)} is needed")
    if path.is_dir():
        raise UsageError(f"{told}, which is a folder; the name of a file is needed")
    if not path.parent.is_dir():
        raise UsageError(f"{told}, but there is no folder {str(path.parent)!r}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{told}, but the folder {str(path.parent)!r} cannot be written to")
