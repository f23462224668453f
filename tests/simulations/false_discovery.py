"""Share of false discoveries among points that ``congruence_test(at=...)`` flags, by simulation.

    python tests/simulations/false_discovery.py --runs 500

The model is wrong for x > 1 only, or nowhere. Points whose misfit, smoothed without noise, is below a
hundredth of the largest are the true nulls. Flagged are points with ``false_discovery`` at most 0.1, by
Benjamini-Hochberg and Benjamini-Yekutieli on the p-values, and those with ``adjusted`` at most 0.1.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import fastmcmd as fm

LEVEL = 0.1
N = 500
POINTS = 100


def step_up(p: Any, level: float, factor: float = 1.0) -> Any:
    """Return which points are flagged by the step-up procedure at ``level / factor``."""
    order = np.sort(p)
    below_line = np.flatnonzero(order <= level / factor * np.arange(1, len(p) + 1) / len(p))
    return p <= (order[below_line[-1]] if len(below_line) else -1.0)


def nulls(x: Any, shift: Any, at: Any, lam: float = 0.01) -> Any:
    """Return the points at which the smoothed shift vanishes, but for a hundredth of the largest."""
    from fastmcmd.default_kernels import default_input_kernel

    kernel = default_input_kernel(x[:, None])
    a = np.linalg.solve(
        kernel(x[:, None]) + len(x) * lam * np.eye(len(x)), kernel(x[:, None], at[:, None])
    )
    smooth = np.abs(a.T @ shift)
    return smooth <= 0.01 * max(np.abs(shift).max(), 1e-300)


def main(runs: int, seed: int) -> None:
    """Print the table."""
    at = np.linspace(-2, 2, POINTS)
    total = float(np.sum(1 / np.arange(1, POINTS + 1)))
    print(f"{'model':30}{'rule':26}{'false share':>12}{'power':>8}   ({runs} runs, level {LEVEL})")
    for kind, size, simulations in (
        ("right", 0.0, 199), ("mean + .3 for x > 1", 0.3, 199), ("mean + .6 for x > 1", 0.6, 199),
        ("mean + .3 for x > 1, B = 999", 0.3, 999),
    ):  # fmt: skip
        shares: dict[str, list[float]] = {}
        powers: dict[str, list[float]] = {}
        for run in range(runs):
            rng = np.random.default_rng([seed, run])
            x = rng.uniform(-2, 2, N)
            mean, shift = np.sin(1.5 * x), size * (x > 1)
            y = mean + shift + 0.4 * rng.standard_normal(N)
            rows = fm.congruence_test(
                x, y, fm.Gaussian(mean, 0.4), simulations=simulations, random_state=run, at=at
            ).rows
            assert rows is not None
            null = nulls(x, shift, at) if size else np.ones(POINTS, dtype=bool)
            rules = {
                "false_discovery": rows.false_discovery <= LEVEL,
                "Benjamini-Hochberg": step_up(rows.p_values, LEVEL),
                "Benjamini-Yekutieli": step_up(rows.p_values, LEVEL, total),
                "adjusted (family-wise)": rows.adjusted <= LEVEL,
            }
            for name, flagged in rules.items():
                count = int(flagged.sum())
                shares.setdefault(name, []).append(float((flagged & null).sum()) / max(count, 1))
                wrong = at > 1.1
                powers.setdefault(name, []).append(float(flagged[wrong].mean()))
        for name in shares:
            power = f"{np.mean(powers[name]):8.2f}" if size else ""
            print(f"{kind:30}{name:26}{np.mean(shares[name]):12.3f}{power}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    main(arguments.runs, arguments.seed)
