"""Results whose values at points are Dask arrays, computed block by block when they are needed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import FilePath, Json
from fastmcmd._base.checks import as_rows, check_path
from fastmcmd.distributed.blocks import (
    Arguments,
    Blocks,
    arguments_of,
    common_rows,
    received,
    shipped,
)
from fastmcmd.distributed.sums import BlockPointValues, Summary
from fastmcmd.errors import require
from fastmcmd.result import Result

if TYPE_CHECKING:
    from fastmcmd.streaming import CCE, CongruenceEstimate

__all__ = ["BlockResult", "in_blocks", "write_blocks"]

_NEEDS_ARROW = "Parquet needs pyarrow; install with: pip install 'fastmcmd[disk]'"


@dataclass(frozen=True, eq=False, repr=False)
class BlockResult(Result):
    """Values of the CCE or MCMD at points in blocks; ``values`` and ``error_bounds`` are Dask arrays.

    Attributes
    ----------
    estimate : CongruenceEstimate or None
        Root mean square over the rows, with its bound, null mean and excess; None for the MCMD.
    accumulator : CCE or None
        The sums of all rows: scores and witnesses at other inputs, `save`, further batches.
    summary : Summary
        Sums of the values.
    point_values : BlockPointValues
        What computes values.
    points : Blocks or None
        The points; None if they are in memory.
    at_rows : bool
        Whether the points are the rows.
    """

    estimate: CongruenceEstimate | None = None
    accumulator: CCE | None = None
    summary: Summary | None = None
    point_values: BlockPointValues | None = None
    points: Blocks | None = None
    at_rows: bool = False

    @property
    def mean(self) -> float:
        """Mean of the values."""
        assert self.summary is not None
        return self.summary.total / self.summary.points

    @property
    def error_bound(self) -> float:
        """Largest of the error bounds."""
        assert self.summary is not None
        return self.summary.bound

    @property
    def vague(self) -> str:
        """Why the mean is meaningless, if its error bound exceeds both ``tol`` and the mean; else ""."""
        assert self.summary is not None
        bound = self.mean_error_bound
        if self.error_bound <= self.tol or bound < self.mean:
            return ""
        return f"its error bound, {bound:.1e}, exceeds it (use more landmarks, or solver='cg')"

    @property
    def mean_error_bound(self) -> float:
        """Bound on the error of ``mean``."""
        assert self.summary is not None
        bound = self.summary.bounds / self.summary.points
        if (
            self.at_rows and self.estimate is not None
        ):  # the mean error is at most the root mean square
            bound = min(bound, self.estimate.error_bound)
        return bound

    def _noise(self, name: str) -> Any:
        if len(getattr(self.point_values, "ridges", ())) != 1 or self.points is None:
            raise ValueError(f"{name} is that of a CCE by landmarks; this is {self.info.solver}")
        return in_blocks(self.points, _NoiseOf(self.point_values, name))

    @property
    def null_mean(self) -> Any:
        """Expectation of CCE^2 at each point for a right model, as a Dask array."""
        return self._noise("null_mean")

    @property
    def excess(self) -> Any:
        """CCE^2 minus its noise at each point, as a Dask array."""
        return self._noise("excess")

    @property
    def effective_rows(self) -> Any:
        """Raise an error: it needs rows in memory."""
        raise ValueError(
            "effective_rows needs rows in memory: compute the CCE of a sample of the rows"
        )

    def quantile(self, level: ArrayLike) -> Any:
        """Return quantiles of the values, all of which come to this process."""
        return np.quantile(np.asarray(self.values), np.asarray(level))

    def __len__(self) -> int:
        assert self.summary is not None
        return self.summary.points

    def to_dict(self) -> Json:
        """Return a JSON-safe summary: mean, extremes, error bound and settings."""
        assert self.summary is not None
        return {
            "name": self.name, "n": len(self), "mean": self.mean, "min": self.summary.least,
            "max": self.summary.largest, "error_bound": self.error_bound, "tol": self.tol,
            "info": self.info.to_dict(),
        }  # fmt: skip

    def to_parquet(self, path: FilePath) -> list[str]:
        """Write values and error bounds, one file for each block, and return the names of the files.

        A file appears only when it is complete. Files of the same call are not written again; files of
        another call are an error.
        """
        if self.points is None:
            raise ValueError("the points are in memory: use to_frame().to_parquet(path)")
        name, some = self.name.lower(), self.summary
        assert some is not None
        # Digits that rounding leaves alone.
        numbers = (f"{one:.6e}" for one in (some.total, some.bounds, some.largest))
        identity = self.info.solver, name, *numbers
        return write_blocks(path, self.points, _Values(self.point_values, name), identity)

    def __repr__(self) -> str:
        assert self.summary is not None
        info, some = self.info, self.summary
        lines = [
            f"{self.name} at {len(self):,} points: mean {self.mean:.6g} +- {self.mean_error_bound:.2g}"
        ]
        if self.vague:
            lines = [f"{self.name} at {len(self):,} points: mean not known, {self.vague}"]
        if self.estimate is not None:
            lines.append(f"  {self.estimate!r}")
        lines += [
            f"  from {some.least:.4g} to {some.largest:.4g}",
            f"  error <= {self.error_bound:.1e} ({info.certificate}), tol {self.tol:.0e}",
            f"  solver {info.solver}, {info.n:,} rows, {info.passes} passes",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class _Values:
    """Values and error bounds at points."""

    values: Any
    name: str

    def __call__(self, arguments: Arguments, number: int) -> Arguments:
        """Return both columns of a block."""
        results = self.values.at(as_rows(arguments["x"], "x").astype(np.float64))
        return {self.name: results["value"], "error_bound": results["error_bound"]}


@dataclass(frozen=True, eq=False)
class _NoiseOf:
    """One column of the noise at points."""

    values: Any
    name: str

    def __call__(self, arguments: Arguments, number: int) -> NDArray[np.float64]:
        """Return the column of a block."""
        x = as_rows(arguments["x"], "x").astype(np.float64)
        return np.asarray(self.values.at(x, noise=True)[self.name])


def in_blocks(blocks: Blocks, function: object) -> Any:
    """Return the Dask array of ``function(arguments, number)`` of each block, one number per row."""
    import dask.array as da
    from dask import delayed

    shipment = shipped(function, blocks.template)
    computed = delayed(_rows_of, pure=False)
    sizes = blocks.rows or (float("nan"),) * len(blocks)
    parts = [
        da.from_delayed(
            computed(shipment, number, *blocks.block(number)), shape=(size,), dtype=np.float64
        )
        for number, size in enumerate(sizes)
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _rows_of(shipment: bytes, number: int, *values: object) -> NDArray[np.float64]:
    function, template = received(shipment)
    if not common_rows(values):
        return np.empty(0)
    return np.asarray(function(arguments_of(template, values), number))


def write_blocks(
    path: FilePath, blocks: Blocks, function: object, identity: Sequence[str]
) -> list[str]:
    """Write columns of blocks as a folder of Parquet files, one for each block, by the workers.

    ``function(arguments, number)`` returns the columns of a block by name. Files that are there stay if
    they hold those of the same blocks and ``identity``.

    Raises
    ------
    ValueError
        A Parquet file of the folder was not written by this call.
    """
    import dask

    check_path(path, "path")
    folder = os.path.abspath(os.fspath(path))
    os.makedirs(folder, exist_ok=True)
    text = repr((blocks.token, len(blocks), *identity))
    mark = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".parquet") and _mark_of(os.path.join(folder, name)) != mark:
            raise ValueError(
                f"path is {folder!r}, where {name} holds rows of other predictions, data or settings; an "
                "empty folder is needed, or that of the same call"
            )
    shipment = shipped(function, blocks.template)
    write = dask.delayed(_write_block, pure=False)
    files = [f"{folder}/part-{number:06d}.parquet" for number in range(len(blocks))]
    missing = [number for number, file in enumerate(files) if not os.path.exists(file)]
    return list(
        dask.compute(
            *(write(files[one], mark, shipment, one, *blocks.block(one)) for one in missing)
        )
    )


_MARK = b"fastmcmd call"  # name of the metadata that say which call wrote a file


def _mark_of(file: str) -> str | None:
    """Return which call wrote a Parquet file; None if it was not `write_blocks`."""
    parquet = require("pyarrow.parquet", _NEEDS_ARROW)
    metadata = parquet.read_schema(file).metadata or {}
    return metadata[_MARK].decode() if _MARK in metadata else None


def _write_block(file: str, mark: str, shipment: bytes, number: int, *values: object) -> str:
    from fastmcmd.io import write_atomically

    arrow = require("pyarrow", _NEEDS_ARROW)
    parquet = require("pyarrow.parquet", _NEEDS_ARROW)
    function, template = received(shipment)
    if not common_rows(values):
        return ""
    table = arrow.table(function(arguments_of(template, values), number))
    table = table.replace_schema_metadata({_MARK: mark})
    write_atomically(file, lambda stream: parquet.write_table(table, stream), "path")
    return os.path.basename(file)
