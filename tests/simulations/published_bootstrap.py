"""Around a right model, how much larger is the mean of the published bootstrap than the CCE of the sample?

Run: python tests/simulations/published_bootstrap.py [--runs 100]
"""

from __future__ import annotations

import argparse

import numpy as np

import fastmcmd as fm
from fastmcmd.compat import probcal


def ratios(n: int, runs: int, seed: int) -> dict[str, float]:
    """Return mean CCE by the bootstrap, relative to one draw a row and to integrated predictions."""
    rng = np.random.default_rng(seed)
    means = np.empty((runs, 3))
    for run in range(runs):
        x = rng.uniform(-2, 2, n)
        y, resampled = np.sin(x) + 0.5 * rng.normal(size=(2, n))
        model = fm.Gaussian(np.sin(x), 0.5)
        kernels = {"x_kernel": fm.Polynomial(3, 1.0, 1.0), "y_kernel": fm.RBF(0.5 / y.var(ddof=1))}
        result = probcal.bootstrap_cce(x, y, model, random_state=rng)
        means[run] = (
            result.mean_cce_bar,
            fm.cce(x, y, resampled, lam=0.1, **kernels).mean,
            fm.cce(x, y, model, lam=0.1, **kernels).mean,
        )
    mean = means.mean(axis=0)
    return {"one draw": mean[0] / mean[1], "integrated": mean[0] / mean[2]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for n in (200, 500, 1000):
        ratio_values = ratios(n, arguments.runs, arguments.seed + n)
        print(
            f"n = {n}: "
            + ", ".join(f"{value:.2f} ({name})" for name, value in ratio_values.items())
        )


if __name__ == "__main__":
    main()
