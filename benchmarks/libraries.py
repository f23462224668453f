"""Our own code against the library that could replace it: the numbers of docs/decisions/libraries.md.

``python benchmarks/libraries.py``
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression

from fastmcmd import _core
from fastmcmd.cli.app import make_parser
from fastmcmd.cli.completion import answer

PARSER = "from fastmcmd.cli.app import make_parser; make_parser()"


def best(function: Callable[[], object], repeats: int = 5) -> float:
    """Return the least seconds of a few calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def completion() -> tuple[float, float]:
    """Return the seconds of a completed column name, and of the parser in a new Python process."""
    program = answer(make_parser())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "data.csv").write_text("age,visits,mu,sigma\n1,2,3,4\n", encoding="utf-8")
        command = ["sh", "-c", program, "sh", "vi", "evaluate", "data.csv", "--y"]
        names = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        assert names.split() == ["visits"]
        ours = best(lambda: subprocess.run(command, cwd=folder, capture_output=True, check=True))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    python = [sys.executable, "-c", PARSER]
    return ours, best(lambda: subprocess.run(python, env=environment, check=True))


def curves(count: int, resamples: int = 1000) -> tuple[float, float]:
    """Return the seconds of ours and SciPy's isotonic regressions of simulated events."""
    rng = np.random.default_rng(0)
    weights = np.ones(count)
    events = (rng.random((resamples, count)) < np.sort(rng.random(count))).astype(np.float64)

    def ours() -> np.ndarray:
        values = events.copy()
        _core.isotonic_rows(values, weights, np.empty(count, np.int64), np.empty(count))
        return values

    def scipys() -> np.ndarray:
        return np.array([isotonic_regression(row, weights=weights).x for row in events])

    np.testing.assert_allclose(ours(), scipys(), atol=1e-12)
    return best(ours), best(scipys, 2)


def main() -> None:
    """Print the numbers."""
    ours, python = completion()
    print(f"completion: {1000 * ours:.0f} ms; a parser in Python: {1000 * python:.0f} ms")
    for count in (100, 2000):
        ours, scipys = curves(count)
        print(
            f"1,000 isotonic fits of {count} values: {1000 * ours:.1f} ms; SciPy: {1000 * scipys:.0f} ms"
        )


if __name__ == "__main__":
    main()
