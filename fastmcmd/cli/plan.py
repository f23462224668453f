"""Show the cost of computing the CCE without computing it: solver, memory, passes, seconds."""

from __future__ import annotations

import argparse
import contextlib
import json
from typing import Any

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    FILES,
    add_computation,
    add_format,
    add_kernels,
    add_prediction,
    inputs_named,
    kernels_of,
    options_of,
)
from fastmcmd.cli.columns import Columns
from fastmcmd.cli.formats import open_columns
from fastmcmd.cli.output import of_plan, show
from fastmcmd.cli.prediction import (
    class_names,
    columns_in,
    describe,
    guess,
    numbers_of_classes,
    prediction,
)
from fastmcmd.options import USUAL_TOL

HELP = "show what a computation would cost"
EPILOG = f"""predictions (a parameter is a column, or a number for all rows):
  {describe()}

examples:
  fastmcmd plan predictions.npz
  fastmcmd plan visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu
  fastmcmd plan --shape 1000000,512 --memory-limit 8GB
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help=f"inputs: {FILES}",
    )
    parser.add_argument("--shape", metavar="N,D", help="rows and columns instead of a file")
    parser.add_argument("--x", metavar="COLUMNS", help="inputs, as in 'fastmcmd evaluate'")
    parser.add_argument(
        "--y", metavar="COLUMN", help="outcomes (default: y, if the file has predictions of it)"
    )
    add_prediction(parser)
    add_kernels(parser)
    add_computation(parser, USUAL_TOL, f"{USUAL_TOL:g}")
    add_format(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the plan."""
    import fastmcmd as fm

    if (arguments.file is None) == (arguments.shape is None):
        raise UsageError("either FILE or --shape N,D is needed")
    inputs = {"x": _shape(arguments.shape)} if arguments.shape else _columns(arguments)
    plan = fm.plan(**inputs, **kernels_of(arguments), **options_of(arguments))
    if arguments.format == "json":
        print(json.dumps(plan.to_dict(), indent=2))
    else:
        show(of_plan(plan), str(plan))


def _shape(text: str) -> tuple[int, int]:
    try:
        n, d = map(int, text.split(","))
    except ValueError:
        raise UsageError(f"--shape is {text!r}; two integers such as 100000,8 are needed") from None
    return n, d


def _columns(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the inputs of the file, and its outcomes and predictions if there are any."""
    columns = open_columns(arguments.file)
    names = inputs_named(arguments, columns)
    if names is None:
        raise UsageError(
            f"--x is needed: {arguments.file} has no column x; it has {columns.listing()}"
        )
    outcome, spec = _outcome_and_spec(arguments, columns)
    classes = None if spec is None else class_names(spec)
    numbers, words = columns.find(names, "--x"), list[str]()
    if outcome is not None:
        (words if classes else numbers).extend(columns.find(outcome, "--y"))
    if spec is not None:
        numbers += columns_in(spec, columns)
    columns.prepare(numbers, words)
    inputs: dict[str, Any] = {"x": columns.select(names, "--x")}
    if outcome is not None and classes:
        inputs["y"] = numbers_of_classes(columns.labels(outcome), classes, columns)
    elif outcome is not None:
        inputs["y"] = columns.select(outcome, "--y")
    if spec is not None:
        inputs["prediction"] = prediction(spec, columns)
    return inputs


def _outcome_and_spec(
    arguments: argparse.Namespace, columns: Columns
) -> tuple[str | None, str | None]:
    """Return the name of the outcome and the description of its prediction: given, or of usual names."""
    outcome, spec = arguments.y, arguments.prediction
    if outcome is None and "y" in columns.names:
        outcome = "y"
    if spec is not None and outcome is None:
        raise UsageError(f"--y is needed: {arguments.file} has no column y")
    if spec is None and outcome is not None:
        with contextlib.suppress(UsageError):
            spec = guess(columns)
    if spec is None and arguments.y is None:
        return None, None
    return outcome, spec
