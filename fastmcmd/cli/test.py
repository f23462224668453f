"""Test exactly whether the outcomes of a file could come from the predicted distributions."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, cast

import numpy as np

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    add_columns,
    add_format,
    add_nan_policy,
    add_prediction,
    add_progress,
    add_seed,
    progress_of,
)
from fastmcmd.cli.output import of_congruence_test, show
from fastmcmd.cli.prediction import describe
from fastmcmd.cli.rows import read_rows

if TYPE_CHECKING:
    from fastmcmd.predictive import Predictive

HELP = "test whether predictions are wrong beyond chance"
EPILOG = f"""predictions (a parameter is a column, or a number for all rows):
  {describe()}

examples:
  fastmcmd test predictions.npz
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --simulations 999
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --condition-on forecast
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --delta 0.05
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_columns(parser)
    add_prediction(parser)
    parser.add_argument(
        "--simulations", type=int, default=199, help="simulated data sets (default: 199)"
    )
    parser.add_argument(
        "--condition-on",
        choices=("x", "forecast"),
        default="x",
        help="test at each input, or only given the forecast, which is calibration (default: x)",
    )
    parser.add_argument(
        "--delta",
        type=float,
        metavar="CCE",
        help="test whether the CCE is at most this; large samples reject every model otherwise",
    )
    parser.add_argument(
        "--groups", metavar="COLUMN", help="clusters of dependent rows (an approximate test)"
    )
    parser.add_argument("--lam", type=float, help="regulariser (default: 0.1, 0.01 and 0.001)")
    add_nan_policy(parser)
    add_seed(parser)
    add_format(parser)
    add_progress(parser)
    parser.set_defaults(tol=0.0)


def run(arguments: argparse.Namespace) -> None:
    """Read, test, print."""
    import fastmcmd as fm

    with progress_of(arguments) as progress:
        rows = read_rows(arguments, progress)
        if rows.x is None and arguments.condition_on == "x":
            raise UsageError("the test needs inputs: --x COLUMNS, or --condition-on forecast")
        result = fm.congruence_test(
            np.zeros(len(rows.y)) if rows.x is None else rows.x,
            rows.y,
            cast("Predictive", rows.prediction),
            lam=arguments.lam,
            simulations=arguments.simulations,
            condition_on=arguments.condition_on,
            null="right" if arguments.delta is None else "relevant",
            delta=arguments.delta,
            groups=rows.groups,
            weights=rows.weights,
            random_state=arguments.seed,
            progress=progress.enabled,
        )
    if arguments.format == "json":
        print(json.dumps(result.to_dict(), indent=2))
        return
    show(of_congruence_test(result), f"{result!r}\n\n{result.table()}")
