"""Rows of a file for commands that test or diagnose: outcomes, inputs, predictions, weights."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.checks import as_rows, as_weights
from fastmcmd._base.progress import Progress
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import columns_of, specs_of
from fastmcmd.cli.columns import Columns, located
from fastmcmd.cli.prediction import prediction
from fastmcmd.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastmcmd.predictive import Predictive

__all__ = ["CompleteRows", "read_rows", "write_columns", "write_values"]

_REPORT_ROWS = 8192  # rows between two updates of the progress line


@dataclass(frozen=True, eq=False)
class CompleteRows:
    """The rows of a file in which no number is missing.

    Attributes
    ----------
    y : ndarray (n,) or (n, k)
    x : ndarray (n, d) or None
    prediction : Predictive or None
    weights : ndarray (n,) or None
    rows : ndarray (n,)
        Row numbers in the file.
    groups : ndarray (n,) or None
        Labels of clusters of rows.
    condition_on, regions : dict of ndarray (n,), or None
        The columns that these options name.
    """

    y: NDArray[np.float64]
    x: Any
    prediction: Predictive | None
    weights: Any
    rows: NDArray[np.intp]
    groups: Any = None
    condition_on: dict[str, HostArray] | None = None
    regions: dict[str, HostArray] | None = None


def read_rows(
    arguments: argparse.Namespace, progress: Progress, predicted: bool = True
) -> CompleteRows:
    """Return the complete rows of the file; ``predicted`` says whether the command takes a prediction."""
    from fastmcmd.predictive import as_predictive

    specs: Callable[[Columns], list[str]] = partial(specs_of, arguments)
    columns, inputs = columns_of(arguments, specs if predicted else lambda _: [], progress)
    y, x, weights = np.asarray(inputs["y"], dtype=np.float64), inputs["x"], inputs["sample_weight"]
    predictive = None
    with located(columns):  # before rows are left out
        if (infinite := np.isinf(y).reshape(len(y), -1).any(axis=1)).any():
            raise RowError(
                f"y holds infinity (first in row {int(infinite.argmax())}); finite numbers are needed",
                int(infinite.argmax()),
            )
        as_weights(weights, "--weights", len(y))
        if x is not None:
            as_rows(x, "x")
        if predicted:
            spec = specs_of(arguments, columns)[0]
            predictive = as_predictive(prediction(spec, columns), len(y), y[0].size)
    rows = np.flatnonzero(~np.isnan(y).reshape(len(y), -1).any(axis=1))
    if len(rows) < len(y):
        if arguments.nan_policy != "omit":
            raise UsageError("rows have missing numbers; pass --nan-policy omit")
        y = y[rows]
        predictive = None if predictive is None else predictive.take(rows)
        x = None if x is None else np.asarray(x)[rows]
        weights = None if weights is None else np.asarray(weights)[rows]
    groups = inputs.get("groups")
    groups = None if groups is None else np.asarray(groups)[rows]
    tables = {
        option: {name: values[rows] for name, values in inputs[option].items()}
        for option in ("condition_on", "regions")
        if option in inputs
    }
    return CompleteRows(y, x, predictive, weights, rows, groups, **tables)


def write_values(
    path: Path, values: dict[str, HostArray], summary: object, progress: Progress
) -> None:
    """Write values (n,) by row to a ``.csv`` file, or with a summary to an ``.npz`` file, atomically."""
    import csv
    import io
    import json

    from fastmcmd.io import write_atomically, write_npz

    def write(stream: BinaryIO) -> None:
        if path.suffix == ".npz":
            text = np.frombuffer(json.dumps(summary).encode(), dtype=np.uint8)
            write_npz(stream, {**values, "summary": text})
            return
        lines = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        csv.writer(lines, lineterminator="\n").writerow(["row", *values])
        columns = [column.tolist() for column in values.values()]
        n = len(columns[0]) if columns else 0
        sweep = progress.sweep(f"writing {path.name}", n)
        for row, line in enumerate(zip(*columns, strict=True)):
            lines.write(f"{row},{','.join(map(repr, line))}\n")
            if row % _REPORT_ROWS == 0 or row == n - 1:
                sweep.advance(row + 1)
        lines.flush()
        lines.detach()

    write_atomically(path, write, "--output")


def write_columns(path: Path, columns: dict[str, HostArray]) -> None:
    """Write columns of equal length to a ``.csv`` or ``.npz`` file, atomically."""
    import io

    from fastmcmd.io import write_atomically, write_npz

    def write(stream: BinaryIO) -> None:
        if path.suffix == ".npz":
            write_npz(stream, columns)
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        text.write(",".join(columns) + "\n")
        for line in zip(*(column.tolist() for column in columns.values()), strict=True):
            text.write(",".join(map(repr, line)) + "\n")
        text.flush()
        text.detach()

    write_atomically(path, write, "--output")
