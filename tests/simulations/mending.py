"""Share of the gap to the truth's log score that recalibrators by input close, on fresh seeds.

    python tests/simulations/mending.py --runs 20

Each run fits on n rows and scores n others. The share is ``(before - after) / (before - truth)`` of mean
negative log scores of the new rows, so 1 is the truth itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import fastmcmd as fm
from fastmcmd.recalibration import ConditionalRescaling, WitnessTilting

Problem = tuple[Any, Any, Any, Any]


def biased(n: int, rng: np.random.Generator) -> Problem:
    """Too high on one side, half as wide as it should be on the other."""
    x = rng.uniform(-2, 2, n)
    y = np.sin(2 * x) + 0.2 * rng.normal(size=n)
    model = fm.Gaussian(np.sin(2 * x) + 0.4 * (x > 1), np.where(x < -1, 0.1, 0.2))
    return x, y, model, fm.Gaussian(np.sin(2 * x), 0.2)


def wiggle(n: int, rng: np.random.Generator) -> Problem:
    """One std for all inputs, right on average, and no wiggle of the mean."""
    x = rng.uniform(-2, 2, n)
    mean, std = x + 0.4 * np.sin(4 * x), 0.25 + 0.12 * np.abs(x)
    return x, mean + std * rng.normal(size=n), fm.Gaussian(x, 0.45), fm.Gaussian(mean, std)


def two_modes(n: int, rng: np.random.Generator) -> Problem:
    """One mode where there are two; mean and variance are right."""
    x = rng.uniform(-2, 2, n)
    y = x + 0.8 * rng.choice([-1.0, 1.0], n) + 0.35 * rng.normal(size=n)
    truth = fm.Mixture([fm.Gaussian(x - 0.8, 0.35), fm.Gaussian(x + 0.8, 0.35)], [0.5, 0.5])
    return x, y, fm.Gaussian(x, np.hypot(0.8, 0.35)), truth


CASES: dict[str, tuple[Callable[[], Any], Callable[..., Problem]]] = {
    "bias and spread by x, ConditionalRescaling": (ConditionalRescaling, biased),
    "spread and wiggle, WitnessTilting": (WitnessTilting, wiggle),
    "two modes, WitnessTilting": (WitnessTilting, two_modes),
}


def scores(name: str, n: int, seed: int) -> Any:
    """Return the mean negative log scores (3,) of the model, mended, and of the truth."""
    recalibrator, problem = CASES[name]
    x, y, model, _ = problem(n, np.random.default_rng([seed, 0]))
    new, outcome, wrong, truth = problem(n, np.random.default_rng([seed, 1]))
    mended = recalibrator().fit(model, y, x).transform(wrong, new)
    return np.array([fm.nll(outcome, one) for one in (wrong, mended, truth)])


def main(runs: int, sizes: list[int], seed: int) -> None:
    """Print the table."""
    print(
        f"{'problem':46}{'n':>6}{'before':>8}{'mended':>8}{'truth':>8}{'share':>8}{'lowest':>8}"
        f"   ({runs} runs)"
    )
    for name in CASES:
        for n in sizes:
            values = np.array([scores(name, n, seed + run) for run in range(runs)])
            before, after, best = values.T
            share = (before - after) / (before - best)
            columns = (*values.mean(axis=0), share.mean(), share.min())
            print(f"{name:46}{n:6d}" + "".join(f"{one:8.3f}" for one in columns), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--n", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--seed", type=int, default=1000)
    arguments = parser.parse_args()
    main(arguments.runs, arguments.n, arguments.seed)
