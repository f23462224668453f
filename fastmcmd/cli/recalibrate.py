"""Recalibrate predictions: learn on the rows of one file, correct those of another.

Without --apply, only the recalibrator is saved. With it, the corrected predictions of the other file are
written: mean, standard deviation and quantiles of each row.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    add_columns,
    add_nan_policy,
    add_prediction,
    add_progress,
    progress_of,
)
from fastmcmd.cli.output import check_target, print_targets
from fastmcmd.cli.prediction import describe
from fastmcmd.cli.rows import read_rows, write_columns

HELP = "recalibrate predictions on a calibration sample"
_METHODS = {
    "conditional-rescaling": "ConditionalRescaling",
    "witness-tilting": "WitnessTilting",
    "std-scaling": "StdScaling",
    "isotonic-cdf": "IsotonicCDF",
}
_WITH_INPUTS = ("conditional-rescaling", "witness-tilting")
_LEVELS = "0.05,0.25,0.5,0.75,0.95"
EPILOG = f"""predictions (a parameter is a column, or a number for all rows):
  {describe()}

examples:
  fastmcmd recalibrate calibration.csv --y visits --x 'age,income' --prediction poisson:mean=mu \\
      --save mend.npz
  fastmcmd recalibrate calibration.csv --y visits --x 'age,income' --prediction poisson:mean=mu \\
      --method witness-tilting --apply new.csv --output mended.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_columns(parser)
    add_prediction(parser)
    parser.add_argument(
        "--method",
        choices=tuple(_METHODS),
        default="conditional-rescaling",
        help="conditional-rescaling and witness-tilting use --x (default: conditional-rescaling)",
    )
    parser.add_argument(
        "--save", metavar="FILE", help="write the recalibrator: .npz, for fastmcmd.load"
    )
    parser.add_argument(
        "--apply",
        metavar="FILE",
        help="file with the same columns, whose predictions are corrected",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write the corrected predictions: .csv or .npz"
    )
    parser.add_argument(
        "--levels", default=_LEVELS, help=f"levels of the quantiles to write (default: {_LEVELS})"
    )
    add_nan_policy(parser)
    add_progress(parser)
    parser.set_defaults(tol=0.0)


def run(arguments: argparse.Namespace) -> None:
    """Read, learn, save, apply, write."""
    from fastmcmd import recalibration

    save, output = (
        None if one is None else Path(one) for one in (arguments.save, arguments.output)
    )
    if save is None and output is None:
        raise UsageError("nothing to do: --save FILE, or --apply FILE with --output FILE")
    if (arguments.apply is None) != (output is None):
        raise UsageError("--apply and --output belong together")
    files = [arguments.file, *([] if arguments.apply is None else [arguments.apply])]
    if save is not None:
        check_target(save, (".npz",), "--save", files)
    if output is not None:
        check_target(output, (".csv", ".npz"), inputs=files)
    levels = _levels(arguments.levels)
    with progress_of(arguments) as progress:
        rows = read_rows(arguments, progress)
        if rows.weights is not None:
            raise UsageError("recalibration takes no --weights")
        progress.stage("learning")
        x = _inputs(arguments, rows.x)
        mend = getattr(recalibration, _METHODS[arguments.method])().fit(rows.prediction, rows.y, *x)
        if save is not None:
            mend.save(save)
        if output is not None:
            arguments.file = arguments.apply
            new = read_rows(arguments, progress)
            mended = mend.transform(new.prediction, *_inputs(arguments, new.x))
            quantiles = np.asarray(mended.quantile(levels)).reshape(len(new.rows), -1)
            columns = {"row": np.asarray(new.rows), "mean": mended.mean, "std": mended.std}
            columns |= {f"q{level:g}": q for level, q in zip(levels, quantiles.T, strict=True)}
            write_columns(output, columns)
    print(f"learned from {len(rows.rows):,} rows: {mend!r}")
    print_targets(save, output)


def _inputs(arguments: argparse.Namespace, x: object) -> tuple[Any, ...]:
    """Return the inputs as arguments of a recalibrator; an empty tuple if it takes none."""
    if arguments.method not in _WITH_INPUTS:
        return ()
    if x is None:
        raise UsageError(f"--method {arguments.method} needs inputs: --x COLUMNS")
    return (x,)


def _levels(text: str) -> list[float]:
    try:
        levels = [float(one) for one in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0 < one < 1 for one in levels):
        raise UsageError(f"--levels {text!r}; comma-separated numbers between 0 and 1 are needed")
    return levels
