"""Test exactly whether the outcomes of a file could come from the predicted distributions."""

from __future__ import annotations

import argparse
import json
from functools import partial

import numpy as np

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    add_columns,
    add_nan_policy,
    add_prediction,
    add_progress,
    columns_of,
    progress_of,
    specs_of,
)
from fastmcmd.cli.output import of_congruence_test, show
from fastmcmd.cli.prediction import describe, prediction

HELP = "whether predictions are wrong beyond chance"
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
        help="right at each input, or only given the forecast: calibration (default: x)",
    )
    parser.add_argument(
        "--delta",
        type=float,
        metavar="CCE",
        help="test whether CCE is at most this, because large samples reject every model",
    )
    parser.add_argument(
        "--groups", metavar="COLUMN", help="clusters of rows that depend on each other: approximate"
    )
    parser.add_argument("--lam", type=float, help="regulariser (default: 0.1, 0.01 and 0.001)")
    add_nan_policy(parser)
    parser.add_argument("--seed", type=int, default=0, help="of all that is random")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    add_progress(parser)
    parser.set_defaults(tol=0.0)


def run(arguments: argparse.Namespace) -> None:
    """Read, test, print."""
    import fastmcmd as fm
    from fastmcmd.predictive import as_predictive

    with progress_of(arguments) as progress:
        columns, inputs = columns_of(arguments, partial(specs_of, arguments), progress)
        y, x = inputs["y"], inputs["x"]
        if x is None and arguments.condition_on == "x":
            raise UsageError("the test needs inputs: --x COLUMNS, or --condition-on forecast")
        if inputs["sample_weight"] is not None:
            raise UsageError("the test takes no --weights: each row counts alike")
        y = np.asarray(y, dtype=np.float64)
        predictive = as_predictive(
            prediction(specs_of(arguments, columns)[0], columns), len(y), y[0].size
        )
        groups = inputs.get("by")
        complete = np.flatnonzero(~np.isnan(y).reshape(len(y), -1).any(axis=1))
        if len(complete) < len(y):
            if arguments.nan_policy != "omit":
                raise UsageError("rows have missing numbers; take --nan-policy omit")
            y, predictive = y[complete], predictive.take(complete)
            x = None if x is None else np.asarray(x)[complete]
            groups = None if groups is None else np.asarray(groups)[complete]
        result = fm.congruence_test(
            np.zeros(len(y)) if x is None else x,
            y,
            predictive,
            lam=arguments.lam,
            simulations=arguments.simulations,
            condition_on=arguments.condition_on,
            null="right" if arguments.delta is None else "relevant",
            delta=arguments.delta,
            groups=groups,
            random_state=arguments.seed,
            progress=progress.shown,
        )
    if arguments.format == "json":
        print(json.dumps(result.to_dict(), indent=2))
        return
    show(of_congruence_test(result), f"{result!r}\n\n{result.table()}")
