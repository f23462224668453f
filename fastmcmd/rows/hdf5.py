"""Datasets of HDF5 files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd.rows.source import Array, RowSource, package


class Hdf5(RowSource):
    """A dataset of h5py."""

    def __init__(self, dataset: Any, where: str) -> None:
        path = Path(dataset.file.filename).absolute()
        self.path = path if path.exists() else None  # a file of the memory driver has none
        self.where, self.dtype = where, dataset.dtype
        self.shape = () if dataset.shape is None else dataset.shape
        self._dataset = dataset
        if dataset.chunks is None:
            self._plain()
        else:
            self._chunked(dataset.chunks, 1)

    @classmethod
    def from_path(cls, path: Path, inside: str, where: str) -> Hdf5:
        """Open dataset ``inside`` of the file at ``path``."""
        h5py = package("h5py", where)
        file = h5py.File(path, "r")
        dataset = file.get(inside) if inside else None
        if not isinstance(dataset, h5py.Dataset):
            names: list[str] = []
            file.visititems(lambda n, item: names.append(n) if hasattr(item, "chunks") else None)
            file.close()
            problem = f"there is no dataset {inside!r}" if inside else "no dataset is named"
            raise ValueError(f"{problem}; write {path}::name, with one of: {', '.join(names)}")
        source = cls(dataset, where)
        source.path = path  # an external link may lead to another file
        return source

    @classmethod
    def from_object(cls, value: Any) -> Hdf5:
        """Return the source of a dataset that the caller has opened."""
        if not value:  # check this first: any other access to a closed dataset fails
            raise ValueError("its HDF5 file is closed")
        if not hasattr(value, "chunks"):
            raise TypeError(f"a dataset of h5py is needed, not a {type(value).__name__}")
        return cls(value, f"{value.file.filename}::{value.name}")

    def read(self, start: int, stop: int) -> Array:
        """Return the rows of the dataset."""
        return np.asarray(self._dataset[start:stop])
