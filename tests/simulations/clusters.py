"""Size of ``congruence_test(groups=...)``, by simulation: right marginals, dependent rows.

    python tests/simulations/clusters.py --runs 1000

Rows of a cluster share a random effect (a Gaussian copula of correlation one half), so that each row's
prediction is right and rows are not independent. Beside it the exact test, which takes rows to be
independent.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import scipy.special

import fastmcmd as fm

ROWS = 10  # of a cluster
CORRELATION = 0.5
SIMULATIONS = 99
KINDS = ("Gaussian, x by row", "Gaussian, x by cluster", "counts, x by row", "skewed, x by cluster")


def problem(kind: str, count: int, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Return (x, y, prediction, groups) with this number of clusters, of uneven size."""
    sizes = 1 + rng.poisson(ROWS - 1, count)
    groups = np.repeat(np.arange(count), sizes)
    n = len(groups)
    x = rng.uniform(-2, 2, count)[groups] if "by cluster" in kind else rng.uniform(-2, 2, n)
    by_cluster, by_row = rng.standard_normal(count)[groups], rng.standard_normal(n)
    z = np.sqrt(CORRELATION) * by_cluster + np.sqrt(1 - CORRELATION) * by_row
    mean = np.sin(1.5 * x)
    model: Any
    if kind.startswith("Gaussian"):
        model = fm.Gaussian(mean, 0.5)
        return x, mean + 0.5 * z, model, groups
    if kind.startswith("counts"):
        model = fm.NegativeBinomial(2 * np.exp(mean), 0.5)
    else:
        model = fm.Gamma(np.full(n, 1.5), np.exp(-mean))
    u = np.clip(scipy.special.ndtr(z), 1e-9, 1 - 1e-9)
    y = np.array([model.take(np.array([i])).quantile([u[i]])[0, 0] for i in range(n)])
    return x, y, model, groups


def p_values(kind: str, count: int, runs: int, seed: int = 0) -> Any:
    """Return p-values (runs, 2) with and without the clusters."""
    out = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, count])
        x, y, prediction, groups = problem(kind, count, rng)
        out.append([
            fm.congruence_test(x, y, prediction, simulations=SIMULATIONS, random_state=[seed, run],
                               groups=one).p_value
            for one in (groups, None)
        ])  # fmt: skip
    return np.array(out)


def main(runs: int, counts: list[int], seed: int) -> None:
    """Print the table."""
    print(
        f"{'rows':26}{'clusters':>10}{'p <= .05':>10}{'p <= .10':>10}{'as independent':>16}   ({runs} runs)"
    )
    for kind in KINDS:
        for count in counts:
            p = p_values(kind, count, runs, seed)
            print(f"{kind:26}{count:10d}{(p[:, 0] <= 0.05).mean():10.3f}{(p[:, 0] <= 0.1).mean():10.3f}"
                  f"{(p[:, 1] <= 0.05).mean():16.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--clusters", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    main(arguments.runs, arguments.clusters, arguments.seed)
