"""Measure this machine: the CCE and the other measures at a few sizes, in seconds."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fastmcmd._base.annotations import Json
from fastmcmd._base.progress import Progress
from fastmcmd.cli.output import of_records, show

HELP = "time this machine at a few sizes"
EPILOG = """examples:
  fastmcmd bench
  fastmcmd bench --json > machine.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    import fastmcmd as fm
    from fastmcmd._base.tables import aligned

    with Progress(sys.stderr.isatty(), 0.0, leave=False) as progress:
        rows = _measurements(progress)
    if arguments.json:
        print(json.dumps({"threads": fm.get_num_threads(), "rows": rows}, indent=2))
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [
        {name: value if name == "what" else f"{value:.3g}" for name, value in row.items()}
        for row in rows
    ]
    threads = f"{fm.get_num_threads()} threads"
    table = aligned([names, *([row.get(name, "") for name in names] for row in cells)])
    show(of_records(threads, names, cells), f"{threads}\n{table}")


def _measurements(progress: Progress) -> list[Json]:
    """Return a record of each measurement."""
    import fastmcmd as fm

    rng = np.random.default_rng(0)
    rows: list[Json] = []

    def measure(name: str, call: Callable[[], object]) -> Any:
        progress.stage(name)
        call()  # loads libraries and touches memory
        start = time.perf_counter()
        outcome = call()
        rows.append({"what": name, "seconds": time.perf_counter() - start})
        return outcome

    size = 2048
    square = rng.normal(size=(size, size)).astype(np.float32)
    measure("one float32 matrix product, 2,048 x 2,048", lambda: square @ square)
    rows[-1]["GFLOP/s"] = 2 * size**3 / rows[-1]["seconds"] / 1e9
    for n, d in ((3_000, 512), (12_000, 8), (200_000, 2)):
        x = rng.normal(size=(n, d)).astype(np.float32)
        y = x[:, 0] + rng.normal(size=n)
        kernel = fm.RBF(0.5) if d < 10 else "paper"
        call = partial(
            fm.cce,
            x,
            y,
            (x[:, 0], 1.0),
            x_kernel=kernel,
            y_kernel="paper",
            lam=0.1,
            progress=progress.enabled,
        )
        result = measure(f"CCE, n = {n:,}, d = {d}", call)
        rows[-1]["error <="] = result.error_bound
    y = rng.normal(size=1_000_000)
    measure("all other measures, n = 1,000,000", lambda: fm.evaluate(y, (np.zeros(len(y)), 1.0)))
    return rows
