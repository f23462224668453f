"""Run every experiment, and write ``docs/papers.md`` with its pictures: ``python -m examples.papers``."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from examples.papers.claims import Experiment, table
from examples.papers.page import page
from fastmcmd.io import write_atomically

NAMES = (
    "marginal",
    "conflation",
    "settings",
    "perturbed_digits",
    "rejection",
    "score_map",
    "tables",
    "equal_moments",
    "mcmd_of_samples",
    "mcmd_shapes",
    "random_uncertainty",
    "boxes",
    "shifted_digits",
    "shifted_tokens",
    "rotated_classes",
    "uncertainty_metrics",
)
DOCUMENTS = Path(__file__).parents[2] / "docs"


def load(name: str) -> Experiment:
    """Return the experiment of a file."""
    return importlib.import_module(f"examples.papers.{name}").EXPERIMENT


def main(arguments: list[str] | None = None) -> None:
    """Run the experiments that are named, or all of them and write the page."""
    parser = argparse.ArgumentParser(prog="python -m examples.papers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "--seeds", type=int, help="fewer repetitions than each experiment's own number"
    )
    parser.add_argument("--output", type=Path, default=DOCUMENTS, help="folder of papers.md")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no experiment {name!r}; there are {', '.join(NAMES)}")
    if options.seeds is not None and options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}; at least 1 is needed")
    pictures = options.output / "papers"
    pictures.mkdir(parents=True, exist_ok=True)
    results = []
    for name in options.names or NAMES:
        experiment = load(name)
        start = time.perf_counter()
        seeds = min(options.seeds or experiment.seeds, experiment.seeds)
        claims = experiment.run(seeds, pictures / f"{name}.png")
        results.append((experiment, claims, seeds))
        print(
            f"{experiment.title} ({time.perf_counter() - start:.0f} s)\n{table(claims)}\n",
            flush=True,
        )
    if not options.names:
        text = page(results)
        write_atomically(options.output / "papers.md", lambda stream: stream.write(text.encode()))


if __name__ == "__main__":
    sys.exit(main())
