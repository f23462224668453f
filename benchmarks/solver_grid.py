"""Time of ``solver="auto"`` relative to the fastest explicit solver, over a grid of problems.

Each call runs in a process of its own. An explicit solver is stopped once it has taken longer than auto.
``python benchmarks/solver_grid.py results.jsonl [seconds] [largest n]`` appends a line for each problem
that the file does not hold yet, for at most so many seconds, and lists the problems that auto loses.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks.problems import clip_like, smooth

import fastmcmd as fm

_ROWS = (500, 2000, 6000, 12_000, 16_000, 30_000, 60_000)
_COLUMNS = (1, 2, 4, 8, 32, 512)
_LAMS = (1e-1, 1e-2, 1e-4)
_KERNELS = ("rbf", "default")
_MOST_WIDE = 12_000  # rows with 512 columns
_SOLVERS = ("cg", "lowrank", "cholesky")
_LOSES = 1.2
_TOL = 1e-6  # the default
_LEAST_SECONDS = 0.02  # of auto, for a ratio that says something
_FIRST_CALL = 0.3  # seconds that a first call may take on top


def _child(pipe, cell, solver, calls):
    """Send the wall seconds and the CPU seconds of each call, and the solver that served."""
    n, d, lam, kernel = cell
    warnings.simplefilter("ignore")
    x, y, p = clip_like(n) if d == 512 else smooth(n, d)
    options = {"solver": solver, "lam": lam}
    if kernel == "rbf":
        options["x_kernel"] = fm.RBF(1 / (2 * d))
    fm.cce(x[:60], y[:60], p[:60], **options)  # loads what is loaded at first use
    pipe.send("ready")
    for _ in range(calls):
        time.sleep(0.05)
        wall, cpu = time.perf_counter(), time.process_time()
        result = fm.cce(x, y, p, **options)
        timings = time.perf_counter() - wall, time.process_time() - cpu
        if (
            result.error_bound > _TOL and solver != "auto"
        ):  # a solver that misses the tolerance is no choice
            break
        pipe.send((*timings, result.info.solver))


def seconds(cell, solver, limit, calls):
    """Return least wall and CPU seconds, and the solver that served; None after ``limit`` seconds."""
    receiver, sender = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_child, args=(sender, cell, solver, calls))
    process.start()
    sender.close()
    timings = []
    try:
        receiver.recv()  # "ready"
        for _ in range(calls):
            if not receiver.poll(limit + 0.05):
                break
            timings.append(receiver.recv())
    except EOFError:
        pass
    process.terminate()
    process.join()
    return min(timings) if timings else None


def measure(cell):
    """Return the seconds of each solver for a problem, as a dictionary."""
    auto = seconds(cell, "auto", 600, 1)
    calls = 1 if auto[0] > 3 else 3
    if calls > 1:
        auto = min(auto, seconds(cell, "auto", 600, calls))
    out = {"cell": cell, "auto": auto}
    for solver in _SOLVERS:
        out[solver] = seconds(cell, solver, 1.1 * auto[0] + _FIRST_CALL, calls)
    best = min(one[0] for one in out.values() if one is not None and isinstance(one[0], float))
    out["ratio"] = auto[0] / best
    return out


def main():
    """Measure the problems that are missing, then list those that auto loses."""
    path = Path(sys.argv[1])
    budget = float(sys.argv[2]) if len(sys.argv) > 2 else 1e9
    most = int(sys.argv[3]) if len(sys.argv) > 3 else _ROWS[-1]
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    present = {tuple(one["cell"]) for one in results}
    start = time.monotonic()
    for n, lam, kernel, d in itertools.product(_ROWS, _LAMS, _KERNELS, _COLUMNS):
        cell = n, d, lam, kernel
        if cell in present or n > most or (d == 512 and n > _MOST_WIDE):
            continue
        if time.monotonic() - start > budget:
            print("more problems are left")
            break
        results.append(measure(cell))
        with path.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
    for one in results:
        if one["auto"][0] > _LEAST_SECONDS and one["ratio"] > _LOSES:
            times = {name: one[name] and round(one[name][0], 3) for name in ("auto", *_SOLVERS)}
            print(one["cell"], f"{one['ratio']:.2f}", one["auto"][2], times)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
