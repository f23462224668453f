"""Every solver stays within ``memory_limit``, from the least that an error states to a generous one.

A process measures its peak anonymous resident memory (inputs on disk would not count), beyond what it
held after the inputs were made and a small call had loaded the libraries.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import pytest
from builders import FORKED, STATUS_FIELD

from fastmcmd._base.memory import format_bytes

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads RssAnon of /proc/self/status")

# A limit may be passed by what no plan can know: heap fragmentation, BLAS buffers and stacks of threads,
# code compiled or paged in.
CONSTANT = 12_000_000

# Name: rows, columns, kernels, options, solver that must have run, and the limits: a middle and a generous
# one (the tight one is what the error of a limit of 1 MB asks for).
CASES = {
    "cholesky": (2000, 4, "fm.RBF(0.1)", "fm.RBF(0.5)", {"solver": "cholesky"}, "cholesky", (90, 270)),
    "cg cached": (3500, 64, "fm.Polynomial(3)", "fm.RBF(0.5)", {"solver": "cg"}, "cg", (85, 350)),
    "cg streamed": (6000, 4, "fm.RBF(0.1)", "fm.RBF(0.5)", {"solver": "cg"}, "cg", (65, 80)),
    "lowrank": (15000, 2, "fm.RBF(0.5)", "fm.RBF(0.5)", {"solver": "lowrank"}, "lowrank", (45, 200)),
    # Takes 4,096 landmarks, 1.3 GB and minutes where the limit lets it: the limits are small here.
    "lowrank wide": (8000, 8, "fm.RBF(0.1)", "fm.RBF(0.5)", {"solver": "lowrank"}, "lowrank", (40, 80)),
    "dense": (1200, 2, "fm.RBF(0.5)", "fm.Laplacian(50.0)", {}, None, (40, 150)),
}  # fmt: skip
LIMITS = ("tight", "middle", "generous")

CODE = (
    STATUS_FIELD
    + FORKED
    + """
import ctypes, json, re, threading
import numpy as np
import fastmcmd as fm
from fastmcmd._base.memory import parse_memory

trim = ctypes.CDLL(None).malloc_trim

fm.set_num_threads(2)

def anonymous():
    return field("RssAnon:")

def peak_of(x, y, p, limit, before, **options):
    trim(0)
    peak, ended = [anonymous()], threading.Event()
    def look():
        while not ended.wait(0.002):
            peak[0] = max(peak[0], anonymous())
    thread = threading.Thread(target=look)
    thread.start()
    try:
        info = fm.cce(x, y, p, memory_limit=int(limit), **options).info
        outcome = [info.solver, info.form, info.cache, info.landmarks]
    except fm.MemoryLimitError as error:
        outcome = str(error)
    ended.set()
    thread.join()
    # Beyond what was there before the first call: what a call keeps counts against the next.
    return [int(limit), max(peak[0], anonymous()) - before, outcome]

def measure(name, n, d, x_kernel, y_kernel, options, limits):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (n, d))
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=n)
    p = np.sin(x[:, 0]) + 0.4 * rng.normal(size=n)
    options |= {"x_kernel": eval(x_kernel), "y_kernel": eval(y_kernel)}
    fm.cce(x[:500], y[:500], p[:500], **options)
    try:  # what the error of this limit asks for, and the error
        fm.cce(x, y, p, memory_limit=10**6, **options)
        tight, message = None, "no MemoryLimitError at 1 MB"
    except fm.MemoryLimitError as error:
        message = str(error)
        sizes = [parse_memory(text) for text in re.findall(r"([0-9.]+ [kMG]?B)", message)]
        # Two numbers: the limit (or what it leaves), and what is needed instead; rounded to megabytes.
        tight = 1e6 + abs(sizes[1] - sizes[0]) + 2e6
    trim(0)
    before = anonymous()
    rows = [
        None if limit is None else peak_of(x, y, p, limit, before, **options)
        for limit in [tight, *limits]
    ]
    print(json.dumps([name, message, rows]), flush=True)

for name, case in json.loads(sys.argv[1]).items():
    forked(measure, name, *case)
"""
)


@functools.cache
def measurements():
    """Return the message of a too small limit, and limit, peak and info of each call, by case."""
    job = {name: [*case[:5], [limit * 10**6 for limit in case[6]]] for name, case in CASES.items()}
    process = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(job)], capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 0, process.stderr
    lines = map(json.loads, process.stdout.splitlines())
    return {name: (message, rows) for name, message, rows in lines}


@pytest.mark.slow
@linux
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("case", CASES)
def test_memory_stays_within_the_limit(case, limit):
    message, rows = measurements()[case]
    row = rows[LIMITS.index(limit)]
    assert row is not None, message
    size, peak, stated_peak = row
    assert not isinstance(stated_peak, str), f"{format_bytes(size)} was too small: {stated_peak}"
    solver = CASES[case][5]
    assert solver is None or stated_peak[0] == solver
    assert (stated_peak[1] == "dense") == (case == "dense")
    assert peak <= size + CONSTANT, (format_bytes(peak), format_bytes(size), stated_peak)


@pytest.mark.slow
@linux
@pytest.mark.parametrize("case", CASES)
def test_limit_too_small_says_what_is_needed(case):
    message, _ = measurements()[case]
    assert "memory_limit is 1 MB" in message
    assert "need" in message


@pytest.mark.slow
@linux
def test_cached_and_streamed_are_measured():
    assert [row[2][2] for row in measurements()["cg cached"][1]][1:] == ["packed", "packed"]
    assert {row[2][2] for row in measurements()["cg streamed"][1]} == {"streamed"}
