"""Twelve hours of a stream in miniature: rows in windows, in constant memory, with the right numbers.

    python tests/simulations/long_stream.py             # 10,000,000 rows
    python tests/simulations/long_stream.py 400000      # as the tests do

A batch stands for 43 seconds and the window for 43 minutes. The model goes wrong slowly, the inputs drift
by 3 standard deviations over the whole stream, and landmarks grow where they come. At five times the window
is compared with an accumulator that saw nothing but its rows. Both have the same sums, unless landmarks
grew while the window held older rows, which are zero in newer features: then both bounds cover the gap.
"""

from __future__ import annotations

import argparse
import time
from collections import deque

import numpy as np
import psutil

import fastmcmd as fm

BATCHES, WINDOW = 1_000, 60


def batch(rng: np.random.Generator, rows: int, progress: float):
    """Return inputs, outcomes and predictions at a time between 0 and 1."""
    x = rng.normal(3 * progress, 1, rows)
    y = np.sin(x) + progress * 0.3 * x + 0.5 * rng.normal(size=rows)
    return x, np.clip(y, -3, 5), fm.Gaussian(np.sin(x), 0.5)


def run(rows: int) -> dict[str, float]:
    """Return the largest memory of the first tenth and of the rest in bytes, and the largest deviation."""
    rng, me = np.random.default_rng(0), psutil.Process()
    blank = fm.streaming.CCE(
        fm.RBF(0.5), fm.RBF(0.5), np.linspace(-4, 4, 17), 0.01, most_landmarks=40
    )
    window, recent = fm.streaming.SlidingWindow(blank, WINDOW), deque(maxlen=WINDOW)
    memory, numbers, deviations = {True: 0, False: 0}, set(), []
    size, begin = rows // BATCHES, time.process_time()
    for step in range(BATCHES):
        one = batch(rng, size, step / BATCHES)
        window.update(*one)
        recent.append(one)
        if step >= 2 * WINDOW:
            numbers.add(window.total._state.numbers)
            early = step < BATCHES // 5
            memory[early] = max(memory[early], me.memory_info().rss)
        if step % (BATCHES // 5) == BATCHES // 5 - 1:
            alone = window.total.fresh()
            for rows_of_batch in recent:
                alone.update(*rows_of_batch)
            ours, theirs = window.compute(), alone.compute()
            assert ours.rows == theirs.rows == WINDOW * size
            deviations.append(abs(ours.value / theirs.value - 1))
            same_landmarks = len(window.total._state.ranks) == 1
            assert same_landmarks <= (deviations[-1] < 1e-9), (step, deviations)
            assert abs(ours.value - theirs.value) <= ours.error_bound + theirs.error_bound
    return {
        "rows": BATCHES * size,
        "early": memory[True],
        "late": memory[False],
        "numbers": max(numbers),
        "landmarks": window.compute().landmarks,
        "deviation": max(deviations),
        "renewals": window.renewals,
        "value": window.compute().value,
        "seconds": time.process_time() - begin,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=10_000_000)
    result = run(parser.parse_args().rows)
    print(
        f"{result['rows']:,} rows in {result['seconds']:.0f} CPU s, window of {WINDOW} of {BATCHES} "
        f"batches: memory {result['early'] / 1e6:.0f} MB in the first fifth, {result['late'] / 1e6:.0f} MB "
        f"after it; "
        f"{result['numbers']:,} numbers, {result['landmarks']} landmarks, {result['renewals']} renewals; "
        f"largest deviation from an accumulator of the window's rows {result['deviation']:.1e}; last CCE "
        f"{result['value']:.4f}"
    )
    assert result["late"] < result["early"] + 30e6
    assert result["deviation"] < 1e-3
