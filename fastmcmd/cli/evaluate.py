"""Evaluate predictions of a file: accuracy, scores, calibration, sharpness, and CCE given inputs."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

from fastmcmd.cli.arguments import (
    add_columns,
    add_computation,
    add_ignore_index,
    add_kernels,
    add_nan_policy,
    add_prediction,
    add_progress,
    add_report,
    add_results,
    add_seed,
    all_rows,
    columns_of,
    computation,
    ignore_index_of,
    inputs_named,
    progress_of,
    specs_of,
)
from fastmcmd.cli.columns import located
from fastmcmd.cli.output import of_evaluation, print_targets, show, targets_of
from fastmcmd.cli.prediction import describe, prediction
from fastmcmd.cli.rows import write_values

HELP = "compute all measures of the predictions in a file"
EPILOG = f"""predictions (a parameter is a column, or a number for all rows):
  {describe()}

examples:
  fastmcmd evaluate predictions.npz
  fastmcmd evaluate visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu
  fastmcmd evaluate house.parquet --y price --prediction gaussian:mean=m,std=s --by region --n-boot 200
  fastmcmd evaluate 'predictions/*.parquet' --dask --output rows
  fastmcmd evaluate predictions.npz --report report.html --output rows.csv --format json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_columns(parser)
    add_prediction(parser)
    parser.add_argument("--by", metavar="COLUMN", help="groups that are also evaluated separately")
    parser.add_argument("--level", type=float, default=0.9, help="level of the central interval")
    parser.add_argument("--bins", type=int, default=10, help="number of bins of ENCE and PIT")
    parser.add_argument("--n-boot", type=int, default=0, help="bootstrap samples for intervals")
    add_nan_policy(parser)
    add_ignore_index(parser)
    add_seed(parser)
    add_kernels(parser)
    parser.add_argument("--draws", type=int, help="draws per input (default: exact expectations)")
    add_computation(parser)
    add_report(parser)
    add_results(parser)
    parser.add_argument(
        "--dask",
        metavar="SCHEDULER",
        nargs="?",
        const="here",
        help="FILE is a pattern of Parquet files, evaluated in blocks: by processes of this machine, or by "
        "the workers of a scheduler (its address, or its file); --output is then a folder",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="with --dask: an interrupted run resumes from this file",
    )
    add_progress(parser)


def run(arguments: argparse.Namespace) -> None:
    """Read, compute, write, print."""
    import fastmcmd as fm

    if arguments.dask is not None:
        from fastmcmd.cli.on_dask import run_on_dask

        run_on_dask(arguments)
        return
    output, report = targets_of(arguments)
    with progress_of(arguments) as progress:
        columns, inputs = columns_of(arguments, partial(specs_of, arguments), progress)
        with located(columns):
            predictive = prediction(specs_of(arguments, columns)[0], columns)
        with located(columns, all_rows(arguments)):
            evaluation = fm.evaluate(
                inputs.pop("y"),
                predictive,
                **inputs,
                **computation(arguments),
                draws=arguments.draws,
                level=arguments.level,
                bins=arguments.bins,
                n_boot=arguments.n_boot,
                nan_policy=arguments.nan_policy,
                ignore_index=ignore_index_of(arguments),
                random_state=arguments.seed,
                progress=progress.enabled,
            )
        x_columns = inputs_named(arguments, columns)
        if x_columns is not None:
            names = tuple(columns.find(x_columns, "--x"))
            evaluation = replace(evaluation, column_names=names)
        if output is not None:
            write_values(output, evaluation.values_by_row(), evaluation.to_dict(), progress)
        if report is not None:
            progress.stage(f"writing {report.name}")
            file = Path(arguments.file)
            evaluation.report(
                report, f"Evaluation of {file.name}", file.stem, projection=arguments.projection
            )
    if arguments.format == "json":
        print(json.dumps(evaluation.to_dict(), indent=2))
        return
    show(of_evaluation(evaluation), str(evaluation))
    print_targets(output, report)
