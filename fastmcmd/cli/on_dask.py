"""``fastmcmd evaluate 'folder/*.parquet' --dask``: files in blocks, on the workers of a cluster."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.tables import printable
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    computation,
    ignore_index_of,
    inputs_named,
    shows_progress,
    specs_of,
)
from fastmcmd.cli.columns import Columns
from fastmcmd.cli.output import check_target
from fastmcmd.cli.prediction import columns_in, prediction
from fastmcmd.errors import require

__all__ = ["LOCAL", "run_on_dask"]

LOCAL = "here"  # value of --dask without an address: processes on this machine


class FrameColumns(Columns):
    """The columns of a pandas frame: of a block, or of no rows, for their names.

    Parameters
    ----------
    frame : pandas.DataFrame
        The frame.
    path : Path
        Where it comes from, for messages.
    """

    def __init__(self, frame: Any, path: Path) -> None:
        self.frame, self.path = frame, path
        self.names = [str(name) for name in frame.columns]
        self.check_names()

    def read(self, names: Sequence[str]) -> list[HostArray]:
        """Return the arrays of some names."""
        return [np.asarray(self.frame[name]) for name in names]


def run_on_dask(arguments: argparse.Namespace) -> None:
    """Evaluate the files of a pattern in blocks, write values by row, and print."""
    import fastmcmd as fm

    frames = require(
        "dask.dataframe",
        "--dask needs Dask; install with: pip install 'fastmcmd[distributed,disk]'",
    )
    if arguments.draws:
        raise UsageError("--draws is not available with --dask")
    output = arguments.output
    if output is not None and Path(output).suffix:
        raise UsageError(
            f"--output {output}: with --dask a folder is needed, for one file per block"
        )
    report = None if arguments.report is None else Path(arguments.report)
    if report is not None:
        check_target(report, (".html",), "--report")
    try:
        table = frames.read_parquet(arguments.file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{arguments.file} cannot be read: {error}") from None
    if not len(table.columns):
        raise UsageError(f"{arguments.file} has no columns; a pattern of Parquet files is needed")
    columns = FrameColumns(table._meta, Path(arguments.file))
    columns_of_rows: dict[str, Any] = {}
    for name, option in (("y", "y"), ("sample_weight", "weights"), ("by", "by")):
        pattern = getattr(arguments, option)
        if pattern is not None:
            (column,) = columns.find(pattern, f"--{option}")
            columns_of_rows[name] = table[column]
    inputs = inputs_named(arguments, columns)
    if inputs is not None:
        columns_of_rows["x"] = table[columns.find(inputs, "--x")]
    (spec,) = specs_of(arguments, columns)
    column_names = list(dict.fromkeys(columns_in(spec, columns)))
    if not column_names:
        prediction(spec, columns)  # raises the error that says what is missing
    columns_of_rows["prediction"] = fm.distributed.predicted(
        partial(_predicted, spec=spec, path=str(arguments.file)), table[column_names]
    )
    with _client(arguments.dask) as client:
        evaluation = fm.evaluate(
            **columns_of_rows, **computation(arguments), level=arguments.level, bins=arguments.bins,
            n_boot=arguments.n_boot,
            nan_policy=arguments.nan_policy, ignore_index=ignore_index_of(arguments),
            random_state=arguments.seed, progress=shows_progress(arguments), client=client,
        )  # fmt: skip
        problem = None
        if output is not None:
            try:
                evaluation.to_parquet(output)  # type: ignore[attr-defined]
            except ValueError as error:  # of the folder: the numbers are printed first
                problem = UsageError(f"--output {output}: {error}")
    if report is not None:
        evaluation.report(
            report, f"Evaluation of {arguments.file}", projection=arguments.projection
        )
    if arguments.format == "json":
        print(json.dumps(evaluation.to_dict(), indent=2))
    else:
        print(evaluation)
        for target in (None if problem else output, report):
            if target is not None:
                print(f"written: {printable(str(target))}")
    if problem is not None:
        raise problem


def _predicted(frame: object, spec: str, path: str) -> Any:
    """Return the predictions of a block."""
    return prediction(spec, FrameColumns(frame, Path(path)))


@contextlib.contextmanager
def _client(where: str) -> Iterator[Any]:
    """Yield the client of a scheduler's address or file, or of processes on this machine."""
    module = require(
        "distributed", "--dask needs distributed; install with: pip install 'fastmcmd[distributed]'"
    )
    if where != LOCAL:
        options = {"scheduler_file": where} if Path(where).exists() else {"address": where}
        with module.Client(**options, timeout=30, set_as_default=False) as client:
            yield client
        return
    from fastmcmd._base.threads import get_num_threads

    with (
        module.LocalCluster(
            n_workers=get_num_threads(), threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        module.Client(cluster, set_as_default=False) as client,
    ):
        yield client
