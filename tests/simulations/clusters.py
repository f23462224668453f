"""Size and power of ``congruence_test(groups=...)``, by simulation: dependent rows in clusters.

    python tests/simulations/clusters.py --runs 1000
    python tests/simulations/clusters.py power --runs 200

Rows of a cluster share a random effect (a Gaussian copula), so that each row's prediction is right and rows
are not independent. The runs of a cell divide among four kinds of rows. Clusters have ten rows each, or ten
on average with a log-normal distribution: at 25 clusters, the largest then has about a sixth of all rows.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import scipy.special
import scipy.stats

import fastmcmd as fm

ROWS = 10  # of a cluster, on average
SIMULATIONS = 99
CORRELATIONS = (0.0, 0.3, 0.8)
KINDS = ("Gaussian, x by row", "Gaussian, x by cluster", "counts, x by row", "skewed, x by cluster")


def labels(count: int, unequal: bool, rng: np.random.Generator) -> Any:
    """Return the cluster of each row."""
    sizes = np.full(count, ROWS)
    if unequal:
        sizes = np.round(ROWS * np.exp(rng.standard_normal(count) - 0.5)).astype(int)
    return np.repeat(np.arange(count), np.maximum(sizes, 1))


def problem(kind: str, groups: Any, correlation: float, rng: np.random.Generator) -> Any:
    """Return (x, y, prediction) of rows in these clusters."""
    n, count = len(groups), int(groups.max()) + 1
    x = rng.uniform(-2, 2, count)[groups] if "by cluster" in kind else rng.uniform(-2, 2, n)
    by_cluster, by_row = rng.standard_normal(count)[groups], rng.standard_normal(n)
    z = np.sqrt(correlation) * by_cluster + np.sqrt(1 - correlation) * by_row
    mean = np.sin(1.5 * x)
    if kind.startswith("Gaussian"):
        return x, mean + 0.5 * z, fm.Gaussian(mean, 0.5)
    u = np.clip(scipy.special.ndtr(z), 1e-9, 1 - 1e-9)
    if kind.startswith("counts"):
        rate = 2 * np.exp(mean)  # variance rate + rate^2 / 2
        y = scipy.stats.nbinom(2, 2 / (2 + rate)).ppf(u)
        return x, y, fm.NegativeBinomial(rate, 0.5)
    y = scipy.stats.gamma(1.5, scale=np.exp(mean)).ppf(u)
    return x, y, fm.Gamma(np.full(n, 1.5), np.exp(-mean))


def p_values(
    count: int,
    correlation: float,
    runs: int,
    *,
    unequal: bool = False,
    seed: int = 0,
    kinds: tuple[str, ...] = KINDS,
    clustered: bool = True,
    points: int = 0,
) -> Any:
    """Return p-values (runs, 1 + 2 points): of the test, at each point, and adjusted for all points."""
    out = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, count])
        groups = labels(count, unequal, rng)
        x, y, prediction = problem(kinds[run % len(kinds)], groups, correlation, rng)
        test = fm.congruence_test(
            x, y, prediction, simulations=SIMULATIONS, random_state=[seed, run],
            groups=groups if clustered else None, at=np.linspace(-2, 2, points) if points else None,
        )  # fmt: skip
        rows = [] if test.rows is None else [*test.rows.p_values, *test.rows.adjusted]
        out.append([test.p_value, *rows])
    return np.array(out)


def size(runs: int, counts: list[int], seed: int) -> None:
    """Print the share of right models that are rejected at 5 %."""
    print(
        f"{'clusters':>8}{'sizes':>10}{'correlation':>13}{'p <= .05':>10}{'p <= .10':>10}"
        f"{'at a point':>12}{'adjusted at 9 points':>22}{'as independent':>16}   ({runs} runs)"
    )
    by_kind: dict[str, list[Any]] = {}
    for count in counts:
        for unequal in (False, True):
            for correlation in CORRELATIONS:
                p = p_values(count, correlation, runs, unequal=unequal, seed=seed, points=9)
                plain = p_values(
                    count, correlation, -(-runs // 10), unequal=unequal, seed=seed, clustered=False
                )
                family = (p[:, 10:].min(axis=1) <= 0.05).mean()
                print(
                    f"{count:8d}{'unequal' if unequal else 'equal':>10}{correlation:13.1f}"
                    f"{(p[:, 0] <= 0.05).mean():10.3f}{(p[:, 0] <= 0.1).mean():10.3f}"
                    f"{(p[:, 1:10] <= 0.05).mean():12.3f}{family:22.3f}"
                    f"{(plain[:, 0] <= 0.05).mean():16.3f}",
                    flush=True,
                )
                for place, kind in enumerate(KINDS):
                    by_kind.setdefault(f"{count} clusters, {kind}", []).append(
                        p[place :: len(KINDS), 0]
                    )
    for name, values in by_kind.items():
        print(f"{name:40}{np.mean(np.concatenate(values) <= 0.05):10.3f}")


WRONG = {
    "std x 1.3": (0.0, 1.3),
    "std / 1.3": (0.0, 1 / 1.3),
    "mean + .2": (0.2, 1.0),
}


def power(runs: int, counts: list[int], seed: int) -> None:
    """Print the share of wrong Gaussian models that are rejected at 5 %."""
    print(f"{'clusters':>8}{'correlation':>13}" + "".join(f"{name:>12}" for name in WRONG))
    for count in counts:
        for correlation in CORRELATIONS:
            shares = []
            for shift, factor in WRONG.values():
                rejected = []
                for run in range(runs):
                    rng = np.random.default_rng([seed, run, count, 1])
                    groups = labels(count, False, rng)
                    x, y, right = problem(KINDS[0], groups, correlation, rng)
                    wrong = fm.Gaussian(right.mean + shift, factor * right.std)
                    test = fm.congruence_test(
                        x, y, wrong, simulations=SIMULATIONS, random_state=[seed, run], groups=groups
                    )  # fmt: skip
                    rejected.append(test.p_value <= 0.05)
                shares.append(np.mean(rejected))
            print(f"{count:8d}{correlation:13.1f}" + "".join(f"{one:12.2f}" for one in shares),
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["size", "power"], nargs="?", default="size")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--clusters", type=int, nargs="+", default=[10, 25, 50])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    {"size": size, "power": power}[arguments.what](
        arguments.runs, arguments.clusters, arguments.seed
    )
