"""Size of the test of equal conditional predictive ability, and family-wise error of its band.

    python tests/simulations/difference_map.py --repeats 300 --seed 0

Differences of losses have the conditional mean ``curve sin(2 x)``. The band must hold it at all supported
inputs together in 95 % of the runs.
"""

from __future__ import annotations

import argparse

import numpy as np

from fastmcmd.inference.difference_map import difference_map
from fastmcmd.inference.inputs import input_map

NOISES = {
    "normal": lambda rng, x: rng.normal(size=len(x)),
    "Student t(3)": lambda rng, x: rng.standard_t(3, len(x)),
    "exponential": lambda rng, x: rng.exponential(size=len(x)) - 1,
    "spread varies": lambda rng, x: (0.3 + np.abs(x[:, 0])) * rng.normal(size=len(x)),
}


def rates(noise="normal", n=300, columns=1, curve=0.0, clusters=None, repeats=300, seed=0):
    """Return the shares of runs with p <= 0.05, and with a truth outside the band."""
    rejected = misses = 0
    for run in range(repeats):
        rng = np.random.default_rng([seed, run])
        x = rng.uniform(-2, 2, (n, columns))
        truth = curve * np.sin(2 * x[:, 0])
        d = truth + NOISES[noise](rng, x)
        groups = None
        if clusters is not None:
            groups = np.arange(n) // clusters
            d = d + rng.normal(size=groups.max() + 1)[groups]
        _, band, supported, p, _ = difference_map(
            x, d, x, input_map(x, None), 0.01, weights=np.ones(n), clusters=groups, level=0.95,
            simulations=199, rng=rng,
        )  # fmt: skip
        rejected += p <= 0.05
        misses += (
            (band[supported, 0] > truth[supported]) | (band[supported, 1] < truth[supported])
        ).any()
    return rejected / repeats, misses / repeats


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cases = [{"noise": noise} for noise in NOISES]
    cases += [{"columns": 5}, {"clusters": 5}, {"n": 1000}, {"n": 1000, "noise": "exponential"}]
    cases += [{"curve": 0.5}, {"curve": 0.5, "n": 1000}]
    for case in cases:
        rejected, misses = rates(**case, repeats=options.repeats, seed=options.seed)
        print(f"{case}: rejected {rejected:.3f}, outside the band {misses:.3f}", flush=True)


if __name__ == "__main__":
    main()
