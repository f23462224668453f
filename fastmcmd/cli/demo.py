"""Evaluate two models of doctor visits (RAND Health Insurance Experiment, 6,190 held-out people)."""

from __future__ import annotations

import argparse
from pathlib import Path

from fastmcmd.cli.arguments import add_progress, shows_progress

HELP = "evaluate two models of real data and draw a picture"
EPILOG = """examples:
  fastmcmd demo
  fastmcmd demo --output visits.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--output",
        default="fastmcmd_demo.png",
        metavar="PNG",
        help="picture (default: %(default)s)",
    )
    add_progress(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the table and draw the picture."""
    from fastmcmd import demo
    from fastmcmd._base.progress import Progress
    from fastmcmd._base.tables import aligned
    from fastmcmd.cli.output import check_target
    from fastmcmd.errors import MissingDependencyError

    check_target(Path(arguments.output), (".png",))
    data = demo.load()
    with Progress(shows_progress(arguments), 0.0, leave=False) as progress:
        progress.stage("reading the data")
        models = demo.run(data, progress.enabled)
    print("Doctor visits of 6,190 people held out: conditional congruence error (0 is perfect)\n")
    print(aligned(demo.table(models)))
    print(
        "\nCCE with exact expectations under each model; '1 draw': as published, one draw per input. "
        "\nseconds: the estimate with exact expectations. error <=: certified for every value."
    )
    try:
        demo.draw(data, models, Path(arguments.output))
    except MissingDependencyError as error:
        print(f"\nno picture: {error}")
    else:
        print(f"\npicture: {arguments.output}")
