"""Write the columns of a file in another format: .npz, .csv, .parquet or .zarr."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.progress import Progress
from fastmcmd._base.tables import printable
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import FILES, add_progress, shows_progress
from fastmcmd.cli.formats import open_columns
from fastmcmd.cli.output import check_target
from fastmcmd.io import AtomicFolder, write_atomically, write_npz

HELP = "write the columns of a file in another format"
EPILOG = """examples:
  fastmcmd convert visits.csv visits.npz
  fastmcmd convert visits.csv visits.parquet --columns 'visits,age,mu'
"""

Arrays = dict[str, HostArray]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("file", metavar="FILE", help=FILES)
    parser.add_argument("target", metavar="TARGET", help=".npz, .csv, .parquet or .zarr")
    parser.add_argument(
        "--columns", metavar="COLUMNS", default="*", help="columns to write (default: all)"
    )
    add_progress(parser)


def run(arguments: argparse.Namespace) -> None:
    """Read and write."""
    target = Path(arguments.target)
    check_target(target, tuple(_WRITERS), "TARGET", [arguments.file])
    with Progress(shows_progress(arguments), 0.0, leave=False) as progress:
        progress.stage(f"reading {Path(arguments.file).name}")
        columns = open_columns(arguments.file)
        names = columns.find(arguments.columns, "--columns")
        columns.prepare((), names, progress)
        arrays = {name: _plain(columns.labels(name), name) for name in names}
        progress.stage(f"writing {target.name}")
        make = _WRITERS[target.suffix]
        write = make(_narrow(arrays) if target.suffix in _TABLES else arrays, target)
        if write is not None:
            write_atomically(target, write, "TARGET")
    rows = len(next(iter(arrays.values())))
    print(f"written: {printable(str(target))} ({len(arrays)} columns, {rows:,} rows)")


def _plain(array: HostArray, name: str) -> HostArray:
    """Return an array without Python objects, which files would store as pickles."""
    if array.dtype != object:
        return array
    strange = [(i, one) for i, one in enumerate(array) if not isinstance(one, str)]
    if strange:
        row, value = strange[0]
        raise UsageError(
            f"column {name!r} holds {value!r} in row {row}, neither a number nor text; leave it out with "
            "--columns"
        )
    return array.astype(str)


def _narrow(arrays: Arrays) -> Arrays:
    """Return one array (n,) per column: (n, k) becomes name_0, name_1, ..."""
    narrowed: Arrays = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            narrowed[name] = array
        else:
            wide = array.reshape(len(array), -1)
            parts = {f"{name}_{j}": wide[:, j] for j in range(wide.shape[1])}
            both = sorted(parts.keys() & (arrays.keys() | narrowed.keys()))
            if both:
                raise UsageError(
                    f"column {name!r} would be written as {both[0]!r}, which exists already"
                )
            narrowed |= parts
    rows = {name: len(array) for name, array in narrowed.items()}
    if len(set(rows.values())) > 1:
        raise UsageError(f"columns have different numbers of rows: {rows}")
    return narrowed


def _npz(arrays: Arrays, _: Path) -> Callable[[BinaryIO], None]:
    return lambda stream: write_npz(stream, arrays)


def _csv(arrays: Arrays, _: Path) -> Callable[[BinaryIO], None]:
    import csv
    import io

    def write(stream: BinaryIO) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow(arrays)
        writer.writerows(zip(*(array.tolist() for array in arrays.values()), strict=True))
        text.flush()
        text.detach()

    return write


def _parquet(arrays: Arrays, target: Path) -> Callable[[BinaryIO], None]:
    from fastmcmd.rows.source import package

    pyarrow, parquet = package("pyarrow", str(target)), package("pyarrow.parquet", str(target))
    table = pyarrow.table({name: np.ascontiguousarray(a) for name, a in arrays.items()})
    return lambda stream: parquet.write_table(table, stream)


def _zarr(arrays: Arrays, target: Path) -> None:
    """Write a folder beside the target and move it to the target when complete."""
    from fastmcmd.rows.source import package

    zarr = package("zarr", str(target))
    for name in arrays:
        if not name or "/" in name or name.startswith((".", "__")) or not name.isprintable():
            raise UsageError(
                f"column {name!r} cannot be the name of an array of Zarr; leave it out with --columns"
            )
    with AtomicFolder(target, "TARGET") as folder:
        group = zarr.open_group(str(folder.inside), mode="w")
        for name, array in arrays.items():
            group[name] = array


_TABLES = (".csv", ".parquet")
_WRITERS: dict[str, Callable[[Arrays, Path], Callable[[BinaryIO], None] | None]] = {
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
    ".zarr": _zarr,
}
