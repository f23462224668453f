"""Rows in memory and the same rows in Dask blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import pytest


@dataclass
class Data:
    """Rows in memory, and the same rows in blocks of unequal sizes."""

    x: Any
    y: Any
    mean: Any
    weights: Any
    groups: Any
    sizes: tuple[int, ...]

    def blocks(self, name: str) -> Any:
        import dask.array as da

        values = getattr(self, name)
        chunks = (self.sizes, *((size,) for size in values.shape[1:]))
        return da.from_array(values, chunks=chunks)


def make_data(sizes: tuple[int, ...] = (200, 1, 0, 333, 66), seed: int = 0) -> Data:
    """Return data; the last blocks hold a group that no other has."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    x = rng.normal(size=(n, 2))
    y = np.sin(x[:, 0]) + 0.5 * rng.normal(size=n)
    groups = np.where(np.arange(n) < n - 50, "early", "late")
    return Data(x, y, np.sin(x[:, 0]) + 0.2, rng.uniform(0.1, 2, n), groups, sizes)


def token_of(folder, column="m"):
    """Return the identity of outcomes and predictions in a folder of Parquet files."""
    import dask.dataframe as dd

    import fastmcmd as fm
    from fastmcmd.distributed.blocks import Blocks

    table = dd.read_parquet(f"{folder}/*.parquet")
    return Blocks.of(y=table["y"], prediction=fm.Gaussian(table[column], 1.0)).token


def interrupt_after(groups: int, call: Callable[[], object]) -> None:
    """Run a call, which Ctrl-C ends when so many groups of blocks are summed."""
    from fastmcmd.distributed import running

    original, summed = running.block_sums, []

    def ends(*arguments):
        if len(summed) == groups:
            raise KeyboardInterrupt
        summed.append(arguments[2])
        return original(*arguments)

    with mock.patch.object(running, "block_sums", ends), pytest.raises(KeyboardInterrupt):
        call()
