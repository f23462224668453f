"""Compare the predictions of several models in one file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from fastmcmd._base.tables import aligned
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import (
    add_columns,
    add_computation,
    add_ignore_index,
    add_kernels,
    add_nan_policy,
    add_progress,
    add_report,
    add_results,
    add_seed,
    all_rows,
    columns_of,
    computation,
    ignore_index_of,
    progress_of,
)
from fastmcmd.cli.columns import located
from fastmcmd.cli.output import of_comparison, print_targets, show, targets_of
from fastmcmd.cli.prediction import describe, prediction
from fastmcmd.cli.rows import write_values

if TYPE_CHECKING:
    from fastmcmd.evaluation.comparison import Comparison

HELP = "compare several models side by side"
EPILOG = f"""predictions (a parameter is a column, or a number for all rows):
  {describe()}

examples:
  fastmcmd compare visits.csv --y visits --x 'age,income' --model poisson=poisson:mean=mu \\
      --model nb=negative-binomial:mean=mu,dispersion=0.8 --report comparison.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_columns(parser)
    parser.add_argument(
        "--model",
        metavar="NAME=SPEC",
        action="append",
        required=True,
        help="a model's name and its prediction; once for each model",
    )
    parser.add_argument("--by", metavar="COLUMN", help="groups that are also compared separately")
    parser.add_argument("--n-boot", type=int, default=0, help="bootstrap samples for intervals")
    parser.add_argument(
        "--groups",
        metavar="COLUMN",
        help="groups of rows whose outcomes depend on each other, such as patients",
    )
    parser.add_argument(
        "--block-length",
        type=int,
        metavar="ROWS",
        help="for rows in order of time: how many consecutive rows depend on each other",
    )
    add_nan_policy(parser)
    add_ignore_index(parser)
    add_seed(parser)
    add_kernels(parser)
    add_computation(parser)
    add_report(parser)
    add_results(parser, "values by row, as MODEL.crps")
    add_progress(parser)


def run(arguments: argparse.Namespace) -> None:
    """Read, compute, write, print."""
    import fastmcmd as fm

    output, report = targets_of(arguments)
    specs = {}
    for pair in arguments.model:
        name, equals, spec = pair.partition("=")
        if name in ("pairs", "sentence") and arguments.format == "json":
            raise UsageError(
                f"--model {name}=...: the JSON output has an entry of that name; choose another"
            )
        if not equals or not name or name in specs:
            raise UsageError(f"--model {pair!r}; NAME=SPEC with a unique name is needed")
        specs[name] = spec
    with progress_of(arguments) as progress:
        columns, inputs = columns_of(arguments, lambda _: list(specs.values()), progress)
        y = inputs.pop("y")
        with located(columns):
            models = {name: prediction(spec, columns) for name, spec in specs.items()}
        with located(columns, all_rows(arguments)):
            comparison = fm.compare(
                models, y, **inputs, **computation(arguments), n_boot=arguments.n_boot,
                block_length=arguments.block_length, nan_policy=arguments.nan_policy,
                ignore_index=ignore_index_of(arguments), random_state=arguments.seed,
                progress=progress.enabled,
            )  # fmt: skip
        if output is not None:
            values = {
                f"{name}.{column}": column_values
                for name, one in comparison.evaluations.items()
                for column, column_values in one.values_by_row().items()
            }
            write_values(output, values, comparison.to_dict(), progress)
        if report is not None:
            progress.stage(f"writing {report.name}")
            title = f"Models of {Path(arguments.file).name}"
            comparison.report(report, title, projection=arguments.projection)
    if arguments.format == "json":
        several = {}
        if len(models) > 1:
            several = {"sentence": comparison.sentence, "pairs": comparison.pairs.to_dict()}
        print(json.dumps({**several, **comparison.to_dict()}, indent=2))
        return
    show(of_comparison(comparison), str(comparison))
    if arguments.by is not None:
        print(f"\n{_by_group(comparison)}")
    print_targets(output, report)


def _by_group(comparison: Comparison) -> str:
    """Return the numbers of each group as text, one column per model."""
    from fastmcmd.evaluation.result import BEST, text

    rows = [["", *comparison.evaluations, ""]]
    groups = [one.by or {} for one in comparison.evaluations.values()]
    for label in groups[0]:
        count = groups[0][label][0]
        rows.append([f"{label} ({count:,} row{'s'[: count != 1]})", *[""] * len(groups), ""])
        of_models = [{one.name: one.value for one in group[label][1]} for group in groups]
        for one, _ in comparison.lines():
            values = [numbers.get(one.name) for numbers in of_models]
            if any(value is not None for value in values):
                cells = ["" if value is None else text(value) for value in values]
                rows.append([f"  {one.label}", *cells, BEST[one.best]])
    return aligned(rows)
