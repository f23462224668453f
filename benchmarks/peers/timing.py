"""Measurement and printing for the scripts of this folder."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import threading
import time
from pathlib import Path

import numpy as np


def best(function, repeats=5, warm=1):
    """Return the shortest of several runs in seconds, and the last result; first runs compile."""
    for _ in range(warm):
        result = function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def alternate(functions, most=15, patience=0.4, least=1, longest=np.inf):
    """Return the seconds (rounds, functions) of runs of each function, one after the other in each round.

    They end after ``most`` rounds, or when ``least`` have taken ``patience`` seconds, or any ``longest``.
    """
    rounds, elapsed = [], 0.0
    while len(rounds) < most and elapsed <= longest:
        if len(rounds) >= least and elapsed > patience:
            break
        rounds.append([])
        for function in functions:
            start = time.perf_counter()
            function()
            rounds[-1].append(time.perf_counter() - start)
        elapsed += sum(rounds[-1])
    return np.array(rounds)


def peak_bytes(function):
    """Return how much resident memory rises while ``function`` runs, sampled every millisecond."""
    page = os.sysconf("SC_PAGE_SIZE")

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    start = highest = resident()
    finished_event = threading.Event()

    def watch():
        nonlocal highest
        while not finished_event.wait(0.001):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    function()
    finished_event.set()
    watcher.join()
    return highest - start


def report(rows, packages=()):
    """Print rows (dicts) as a table, and write them as JSON if an argument names a file."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names] + [[_text(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", *packages)}
    print(platform.processor() or platform.machine(), os.cpu_count(), "cores", versions)
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({"versions": versions, "rows": rows}, indent=2))


def _text(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)
