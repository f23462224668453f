"""The CCE against exact and approximate solvers: ``python -m benchmarks.peers.cce [n ...]``.

d = 8, one draw, RBF kernels, ``lam = 0.1``, values at all inputs. Peers receive the features of the output
kernel and compute the coefficients of the kernel matrix and the norms of its products. They are charged
neither for the features nor for a certificate; ours includes both. Errors are the largest at all inputs,
against our result in float64 with a far smaller tolerance. Ours is measured in turns with each peer: with
defaults, with the peer's own error as its tolerance, and for Nystroem with as many landmarks.
``CCE_PEERS=torch,KeOps`` selects peers.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings

import numpy as np

import fastmcmd as fm
from benchmarks.benchmarks.kernel_solvers import (
    GAMMA,
    LAM,
    SOLVERS,
    D,
    feature_differences,
    nystroem,
)
from benchmarks.benchmarks.problems import smooth

PAUSE = 0.05  # seconds in which BLAS threads stop to spin
DIRECT, KEOPS = 20_000, 100_000  # rows up to which a peer is measured
LONG = 5.0  # seconds from which a peer is called only once
LANDMARKS = (100, 200, 400, 800, 1600)


def peers(n):
    """Return functions, and whether they take float64, by name."""
    functions = {
        name: one
        for name, one in SOLVERS.items()
        if n <= (KEOPS if name.startswith("KeOps") else DIRECT)
    }
    for count in LANDMARKS:
        functions[f"Nystroem {count}"] = nystroem(count), np.float32
        if count >= 400:
            functions[f"Nystroem {count}, float64"] = nystroem(count), np.float64
    selection = os.environ.get("CCE_PEERS", "").split(",")
    return {name: one for name, one in functions.items() if any(part in name for part in selection)}


def table(n):
    """Print the rows of one size."""
    x, y, draws = smooth(n, D)
    kernel, gamma = fm.RBF(GAMMA), 1 / (2 * np.var(y, ddof=1))
    y_kernel = fm.RBF(gamma)
    p = feature_differences(y_kernel, y, draws)

    def ours(**options):
        return fm.cce(x, y, draws, x_kernel=kernel, y_kernel=y_kernel, lam=LAM, **options)

    exact = {"tol": 1e-8, "dtype": np.float64} if n <= DIRECT else {"tol": 2e-8}
    true = ours(solver="cg", **exact).values

    def measure(name, function, precision, count):
        inputs = np.asarray(x, dtype=precision), np.asarray(p, dtype=precision)
        start = time.perf_counter()
        first = function(*inputs)  # also compiles
        patience = time.perf_counter() - start
        error = float(np.abs(first - true).max())
        calls = {
            "peer": lambda: function(*inputs),
            "ours": ours,
            "ours at its error": lambda: ours(tol=max(error, 1e-8)),
        }
        if count:
            same = {"solver": "lowrank", "rank": count, "certificate": "sampled"}
            calls["ours with its landmarks"] = lambda: ours(**same)
        seconds = {name: [] for name in calls}
        bounds = {}
        if patience > LONG:  # the first call counts
            seconds["peer"].append(patience)
            del calls["peer"]
        for _ in range(5 if patience < 2 else 3 if patience < 5 else 1):
            for kind, call in calls.items():
                time.sleep(PAUSE)
                start = time.perf_counter()
                result = call()
                seconds[kind].append(time.perf_counter() - start)
                if kind != "peer":
                    bounds[kind] = result
        text = "  ".join(
            f"{kind} {min(values):.3f} {statistics.median(values):.3f}"
            for kind, values in seconds.items()
        )
        theirs = min(seconds["peer"])
        least = {kind: min(values) for kind, values in seconds.items()}
        errors = [float(np.abs(result.values - true).max()) for result in bounds.values()]
        print(
            f"n={n} {name:26s} error {error:.1e}, ours {', '.join(f'{one:.1e}' for one in errors)}; "
            f"s (least, median): {text}; ratios "
            f"{', '.join(f'{least[kind] / theirs:.2f}' for kind in bounds)}; "
            f"{', '.join(result.info.solver for result in bounds.values())}",
            flush=True,
        )

    for name, (function, precision) in peers(n).items():
        try:
            count = int(name.split(",")[0].split()[1]) if name.startswith("Nystroem") else 0
            measure(name, function, precision, count)
        except (ImportError, MemoryError, RuntimeError) as failed:
            print(f"n={n} {name:26s} {type(failed).__name__}: {str(failed)[:200]}", flush=True)


def main():
    """Print all rows."""
    warnings.simplefilter("ignore")
    for n in [int(word) for word in sys.argv[1:]] or [5_000, 20_000, 100_000]:
        table(n)


if __name__ == "__main__":
    main()
