"""Show the shift and the factor of spread that predictions need near each input, with confidence bands."""

from __future__ import annotations

import argparse
import json

import numpy as np

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    add_columns,
    add_kernels,
    add_nan_policy,
    add_prediction,
    add_progress,
    add_results,
    add_seed,
    kernels_of,
    progress_of,
)
from fastmcmd.cli.output import print_targets, targets_of
from fastmcmd.cli.prediction import describe
from fastmcmd.cli.rows import read_rows, write_columns

HELP = "show how predictions are wrong, in units of y"
EPILOG = f"""predictions (a parameter is a column, or a number for all rows):
  {describe()}

examples:
  fastmcmd diagnose predictions.npz
  fastmcmd diagnose visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --output needs.csv
  fastmcmd diagnose visits.csv --y visits --x 'age,income' --prediction poisson:mean=mu --regions 'age,sex'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_columns(parser)
    add_prediction(parser)
    parser.add_argument(
        "--regions",
        metavar="COLUMNS",
        help="columns, of numbers or words, in whose terms to say where predictions are wrong",
    )
    add_kernels(parser, "auto, from the scales of x, on standardised outcomes", "0.01")
    parser.add_argument(
        "--level", type=float, default=0.9, help="level of the bands (default: 0.9)"
    )
    add_nan_policy(parser)
    add_seed(parser)
    add_results(parser)
    add_progress(parser)
    parser.set_defaults(tol=0.0)


def run(arguments: argparse.Namespace) -> None:
    """Read, diagnose, print."""
    import fastmcmd as fm

    output, _ = targets_of(arguments)
    if arguments.regions is not None and arguments.weights is not None:
        raise UsageError("--regions takes no weights: leave out --weights, or --regions")
    with progress_of(arguments) as progress:
        rows = read_rows(arguments, progress)
        assert rows.prediction is not None
        if rows.x is None:
            raise UsageError("a diagnosis needs inputs: --x COLUMNS")
        progress.stage("diagnosing")
        diagnosis = fm.diagnose(
            rows.x, rows.y, rows.prediction, **kernels_of(arguments), level=arguments.level,
            weights=rows.weights, random_state=arguments.seed,
        )  # fmt: skip
        regions = None
        if rows.regions is not None:
            progress.stage("testing regions")
            regions = fm.weak_regions(
                rows.regions, rows.x, rows.y, rows.prediction, **kernels_of(arguments),
                random_state=arguments.seed,
            )  # fmt: skip
    if output is not None:
        write_columns(output, {"row": np.asarray(rows.rows), **diagnosis.columns()})
    if arguments.format == "json":
        numbers = {"sentences": diagnosis.sentences(), **_json(diagnosis.to_dict())}
        if regions is not None:
            numbers["regions"] = regions.to_dict()
        print(json.dumps(numbers, indent=2))
        return
    has_numbers = not diagnosis.reason and bool(diagnosis.supported.any())
    print(f"{diagnosis!r}\n\n{diagnosis.table()}" if has_numbers else repr(diagnosis))
    if regions is not None:
        print(f"\n{repr(regions).splitlines()[0]}\n\n{regions.table()}")
    print_targets(output)


def _json(values: dict[str, object]) -> dict[str, object]:
    """Return values with None for NaN, which JSON does not have."""
    return {
        name: [None if isinstance(one, float) and np.isnan(one) else one for one in value]
        if isinstance(value, list)
        else value
        for name, value in values.items()
    }
