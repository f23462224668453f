"""Size and power of the exact test of `fastmcmd.streaming.CCE`, in one pass and merged from parts.

Run: python tests/simulations/streaming_congruence.py [--runs 400] [--simulations 39] [--only NAME]

A line gives, for a scenario, the share of runs with a p-value of at most 0.05, with its standard error. For
right models it must not exceed 0.05 by more than chance.
"""

from __future__ import annotations

import argparse

import numpy as np

import fastmcmd as fm

N, PARTS = 90, 3
X_KERNEL, Y_KERNEL = fm.RBF(0.5), fm.RBF(0.5)


def gaussian(rng, x, shift=0.0, scale=1.0):
    """y = sin 2 x + noise."""
    mean = np.sin(2 * x)
    return mean + rng.normal(size=len(x)), fm.Gaussian(mean + shift, scale)


def heavy(rng, x):
    """Noise of a Student distribution with 4 degrees of freedom."""
    return x + rng.standard_t(4.0, len(x)), fm.StudentT(4.0, x, 1.0)


def counts(rng, x):
    """Poisson counts."""
    mean = np.exp(0.5 * x)
    return rng.poisson(mean).astype(float), fm.Poisson(mean)


def draws(rng, x):
    """Five draws of the truth for each row."""
    return x + rng.normal(size=len(x)), fm.Draws(x[:, None] + rng.normal(size=(len(x), 5)))


SCENARIOS = {
    "right: Gaussian": gaussian,
    "right: Student t, 4 degrees": heavy,
    "right: counts": counts,
    "right: five draws": draws,
    "wrong: mean + 0.4": lambda rng, x: gaussian(rng, x, 0.4),
    "wrong: spread x 1.4": lambda rng, x: gaussian(rng, x, 0.0, 1.4),
}


def p_value(seed, scenario, simulations, parts):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=N)
    y, prediction = scenario(rng, x)
    total = fm.streaming.CCE(
        X_KERNEL, Y_KERNEL, np.linspace(-2, 2, 9), 0.01, simulations=simulations, random_state=seed,
        most_landmarks=12,
    )  # fmt: skip
    for rows in np.array_split(np.arange(N), parts):
        part = total.fresh().update(x[rows], y[rows], prediction.take(rows))
        total.merge(part)
    return total.compute().p_value


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--simulations", type=int, default=39)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, scenario in SCENARIOS.items():
        if options.only not in name:
            continue
        for parts in (1, PARTS):
            seeds = range(options.seed, options.seed + options.runs)
            values = [p_value(k, scenario, options.simulations, parts) for k in seeds]
            share = float(np.mean(np.array(values) <= 0.05))
            error = np.sqrt(share * (1 - share) / options.runs)
            print(f"{name}, {parts} part(s): {share:.3f} +- {error:.3f}", flush=True)


if __name__ == "__main__":
    main()
