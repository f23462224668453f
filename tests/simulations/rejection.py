"""Size of the p-values of `fastmcmd.rejection_curve`, and coverage of its band of random rejection.

    python tests/simulations/rejection.py --runs 400

Scores that do not depend on the losses: p is at most 0.05 in at most 5 % of the runs, and at each share of
rejected rows the curve lies in the 95 % band in about 95 % of them. Losses are heavy-tailed, rows have
weights, and scores have ties.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import fastmcmd as fm

CASES = ("exponential losses", "heavy tails", "weights", "ties")


def problem(case: str, n: int, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Return score, loss, predicted std and weights (or None), all independent of each other."""
    loss = rng.exponential(size=n) if case == "exponential losses" else rng.pareto(2.5, n)
    score = rng.integers(0, 5, n) / 4 if case == "ties" else rng.normal(size=n)
    weights = rng.uniform(0.1, 2.0, n) if case == "weights" else None
    return score, loss, rng.gamma(2.0, size=n), weights


def rates(case: str, n: int, runs: int, seed: int = 0, simulations: int = 199) -> dict[str, float]:
    """Return the shares of runs with p <= 0.05 and p <= 0.1, and the mean and least coverage of the band.

    With ties the curve is an expectation over random orders and lies in the band more often.
    """
    p_values, inside = [], []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, n])
        score, loss, std, weights = problem(case, n, rng)
        curve = fm.rejection_curve(
            score, loss, std, weights=weights, simulations=simulations, random_state=[seed, run]
        )
        p_values += [curve.p_value, curve.std_p_value]
        low, high = curve.random_band.T
        within = (low <= curve.loss) & (curve.loss <= high)
        inside.append(within[1:])  # without rejection all curves agree
    p, covered = np.array(p_values), np.mean(inside, axis=0)
    return {
        "p <= .05": float((p <= 0.05).mean()),
        "p <= .10": float((p <= 0.1).mean()),
        "mean coverage": float(covered.mean()),
        "least coverage": float(covered.min()),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--n", type=int, nargs="+", default=[50, 300])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for case in CASES:
        for n in options.n:
            shares = rates(case, n, options.runs, options.seed)
            text = ", ".join(f"{name} {value:.3f}" for name, value in shares.items())
            print(f"{case}, n = {n}: {text}", flush=True)


if __name__ == "__main__":
    main()
