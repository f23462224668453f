"""Test exactly whether the outcomes of a file could come from the predicted distributions."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    CONDITIONS,
    add_columns,
    add_kernels,
    add_memory_limit,
    add_nan_policy,
    add_prediction,
    add_progress,
    add_results,
    add_seed,
    kernels_of,
    progress_of,
)
from fastmcmd.cli.output import of_congruence_test, print_targets, show, targets_of
from fastmcmd.cli.prediction import describe
from fastmcmd.cli.rows import CompleteRows, read_rows, write_columns

if TYPE_CHECKING:
    from fastmcmd.predictive import Predictive

HELP = "test whether predictions are wrong beyond chance"
EPILOG = f"""predictions (a parameter is a column, or a number for all rows):
  {describe()}

examples:
  fastmcmd test predictions.npz
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --simulations 999
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --condition-on forecast
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --condition-on sex
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --delta 0.05
  fastmcmd test visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --output rows.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_columns(parser)
    add_prediction(parser)
    parser.add_argument(
        "--simulations", type=int, default=199, help="simulated data sets (default: 199)"
    )
    parser.add_argument(
        "--statistic",
        choices=("mean", "max"),
        default="mean",
        help="mean over the rows, or the row that is most wrong, for misfit in few places",
    )
    parser.add_argument(
        "--condition-on",
        metavar="COLUMNS",
        default="x",
        help="x: test at each input; forecast: calibration given the forecast; names of columns: "
        "calibration by group (default: x)",
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
    parser.add_argument(
        "--alpha",
        type=float,
        help="level of many tests: one that clearly does not reject at it ends early",
    )
    add_kernels(parser, "several, as wide as x and y", "0.1, 0.01 and 0.001")
    add_memory_limit(parser)
    add_nan_policy(parser)
    add_seed(parser)
    add_results(parser, "the test of each row alone, with p-values adjusted for all rows")
    add_progress(parser)
    parser.set_defaults(tol=0.0)


def run(arguments: argparse.Namespace) -> None:
    """Read, test, print."""
    import fastmcmd as fm

    output, _ = targets_of(arguments)
    if output is not None and arguments.condition_on == "forecast":
        raise UsageError("--output needs a test by row: --condition-on x, or columns")
    with progress_of(arguments) as progress:
        rows = read_rows(arguments, progress)
        if rows.x is None and arguments.condition_on == "x":
            raise UsageError("the test needs inputs: --x COLUMNS, or --condition-on forecast")
        x = np.zeros(len(rows.y)) if rows.x is None else rows.x
        condition = _condition(arguments, rows)
        result = fm.congruence_test(
            x,
            rows.y,
            cast("Predictive", rows.prediction),
            **kernels_of(arguments),
            simulations=arguments.simulations,
            statistic=arguments.statistic,
            condition_on=condition,
            at=None if output is None else x if isinstance(condition, str) else condition,
            null="right" if arguments.delta is None else "relevant",
            delta=arguments.delta,
            groups=rows.groups,
            alpha=arguments.alpha,
            weights=rows.weights,
            memory_limit=arguments.memory_limit,
            random_state=arguments.seed,
            progress=progress.enabled,
        )
    if output is not None and result.rows is not None:
        by_row = result.rows.columns()
        by_row = {"row": np.asarray(rows.rows), "cce": by_row.pop("values"), **by_row}
        write_columns(output, by_row)
    if arguments.format == "json":
        print(json.dumps(result.to_dict(), indent=2))
        return
    show(of_congruence_test(result), f"{result!r}\n\n{result.table()}")
    if result.rows is not None:
        print(f"\n{result.rows!r}")
    print_targets(output)


def _condition(arguments: argparse.Namespace, rows: CompleteRows) -> str | NDArray[np.float64]:
    """Return "x", "forecast", or the columns (n, c) that the test conditions on; words as 0 and 1."""
    from fastmcmd.inference.columns import numbers_of_columns

    if arguments.condition_on in CONDITIONS:
        return arguments.condition_on
    return numbers_of_columns(rows.condition_on)[0]
