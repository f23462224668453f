"""The formats: a new one is a `Source` in a file of its own and one entry in ``FORMATS``.

Nothing else knows where rows come from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmcmd.rows.arrow import ArrowTable, Parquet
from fastmcmd.rows.hdf5 import Hdf5
from fastmcmd.rows.npy import Mapped, Npy, is_mapped
from fastmcmd.rows.packages import package_of
from fastmcmd.rows.source import Source
from fastmcmd.rows.zarr import Zarr, is_zarr


@dataclass(frozen=True)
class Format:
    """How a format is recognised and opened: by the ends of paths, and by the objects of its package."""

    suffixes: tuple[str, ...]
    from_path: Callable[[Path, str, str], Source]  # path, what follows "::", how messages name it
    owns: Callable[[Any], bool]
    from_object: Callable[[Any], Source]


FORMATS = (
    Format((".npy",), Npy, is_mapped, Mapped),
    Format((".h5", ".hdf5"), Hdf5.from_path, lambda v: package_of(v) == "h5py", Hdf5.from_object),
    Format((".zarr",), Zarr.from_path, is_zarr, Zarr.from_object),
    Format(
        (".parquet", ".pq"),
        Parquet,
        lambda v: package_of(v) == "pyarrow" and type(v).__name__ == "Table",
        ArrowTable,
    ),
)
