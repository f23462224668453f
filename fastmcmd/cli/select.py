"""Choose the input kernel and the regulariser by how well they predict rows left out; needs no model."""

from __future__ import annotations

import argparse
import json

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    add_columns,
    add_format,
    add_nan_policy,
    add_progress,
    add_seed,
    progress_of,
)
from fastmcmd.cli.rows import read_rows

HELP = "choose an input kernel and a regulariser for the data"
EPILOG = """examples:
  fastmcmd select visits.csv --y visits --x 'age,income'
  fastmcmd select visits.csv --y visits --x 'age,income' --scales select

Choose on rows that no exact test uses afterwards.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_columns(parser)
    parser.add_argument(
        "--scales",
        choices=("standard", "select"),
        default="standard",
        help="divide columns by their standard deviations, or search for factors (default: standard)",
    )
    parser.add_argument(
        "--lams",
        metavar="NUMBERS",
        help="regularisers to compare, with commas between (default: seven from 0.1 to 0.0001)",
    )
    add_nan_policy(parser)
    add_seed(parser)
    add_format(parser)
    add_progress(parser)
    parser.set_defaults(tol=0.0)


def run(arguments: argparse.Namespace) -> None:
    """Read, choose, print."""
    import fastmcmd as fm

    with progress_of(arguments) as progress:
        rows = read_rows(arguments, progress, predicted=False)
        if rows.x is None:
            raise UsageError("the choice needs inputs: --x COLUMNS")
        progress.stage("comparing kernels")
        choice = fm.select_kernel(
            rows.x,
            rows.y,
            lams=_numbers(arguments.lams),
            scales=arguments.scales,
            weights=rows.weights,
            random_state=arguments.seed,
        )
    if arguments.format == "json":
        print(json.dumps(choice.to_dict(), indent=2))
        return
    print(f"{choice.sentence}\n\n{choice.table()}")


def _numbers(text: str | None) -> list[float] | None:
    """Return the numbers of an option; `select_kernel` checks their size."""
    if text is None:
        return None
    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--lams is {text!r}; numbers with commas between, such as 0.1,0.01, are needed"
        ) from None
