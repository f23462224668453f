"""Show the cost of computing the CCE without computing it: solver, memory, passes, seconds."""

from __future__ import annotations

import argparse
import json

from fastmcmd._base.annotations import InputsLike
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    FILES,
    add_computation,
    add_format,
    add_kernels,
    inputs_named,
    kernel,
    options_of,
)
from fastmcmd.cli.formats import open_columns
from fastmcmd.cli.output import of_plan, show
from fastmcmd.options import USUAL_TOL

HELP = "show what a computation would cost"
EPILOG = """examples:
  fastmcmd plan predictions.npz
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
    add_kernels(parser)
    add_computation(parser, USUAL_TOL, f"{USUAL_TOL:g}")
    add_format(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the plan."""
    import fastmcmd as fm

    if (arguments.file is None) == (arguments.shape is None):
        raise UsageError("either FILE or --shape N,D is needed")
    plan = fm.plan(
        _inputs(arguments), kernel(arguments, "x"), arguments.lam, **options_of(arguments),
    )  # fmt: skip
    if arguments.format == "json":
        print(json.dumps(plan.to_dict(), indent=2))
    else:
        show(of_plan(plan), str(plan))


def _inputs(arguments: argparse.Namespace) -> InputsLike | tuple[int, int]:
    if arguments.shape is not None:
        try:
            n, d = map(int, arguments.shape.split(","))
        except ValueError:
            raise UsageError(
                f"--shape is {arguments.shape!r}; two integers such as 100000,8 are needed"
            ) from None
        return n, d
    columns = open_columns(arguments.file)
    names = inputs_named(arguments, columns)
    if names is None:
        raise UsageError(
            f"--x is needed: {arguments.file} has no column x; it has {columns.listing()}"
        )
    columns.prepare(columns.find(names, "--x"), ())
    return columns.select(names, "--x")
