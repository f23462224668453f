"""What tells that a file was changed: its size, time and inode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

Stamp = dict[str, tuple[int, int, int]]


def stamp_of(path: Path) -> Stamp:
    """Return size, time of modification and inode of a file, or of all files of a folder."""
    stats = {str(file): file.stat() for file in ([path] if not path.is_dir() else files(path))}
    return {name: (s.st_size, s.st_mtime_ns, s.st_ino) for name, s in stats.items()}


def files(folder: Path) -> Iterator[Path]:
    """Return all files of a folder and of its folders."""
    return (Path(at, name) for at, _, names in os.walk(folder) for name in names)
