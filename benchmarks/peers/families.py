"""Seconds that `fastmcmd.evaluate` takes, by family of predicted distributions.

Run as ``python -m benchmarks.peers.families [table.json]``. 100,000 rows, and a million where that is
expected to take less than half a minute. Shapes differ from row to row, as models predict them; rows of
one shape, in a line of their own, share their quantiles.
"""

from __future__ import annotations

import numpy as np

import fastmcmd as fm
from benchmarks.peers.timing import best, report
from fastmcmd.predictive import (
    Beta,
    Categorical,
    DoublePoisson,
    Gamma,
    LogNormal,
    Mixture,
    NegativeBinomial,
    Poisson,
    StudentT,
    Truncated,
    ZeroInflated,
)

N, MANY = 100_000, 1_000_000
PATIENCE = 30.0  # seconds


def families(rng, n):
    """Return functions to outcomes and predictions by name: counts of mean 12, outputs of scale 1."""
    mean, zero = rng.gamma(4, 3, n), np.zeros(n)
    shape, other = rng.uniform(1, 5, n), rng.uniform(1, 5, n)
    event = rng.random(n) > 0.2
    normal, counts = rng.normal(size=n), rng.poisson(mean)
    pair = [fm.Gaussian(zero, 1.0), fm.Gaussian(zero + 3, 0.5)]

    def five():
        return [fm.Gaussian(rng.normal(0, 0.3, n), 1.0) for _ in range(5)]

    return {
        "Gaussian": lambda: (normal, fm.Gaussian(zero, 1.0)),
        "StudentT": lambda: (rng.standard_t(shape + 2), StudentT(shape + 2, 0.0, 1.0)),
        "LogNormal": lambda: (np.exp(normal / 2), LogNormal(zero, 0.5)),
        "Gamma": lambda: (rng.gamma(shape), Gamma(shape, 1.0)),
        "Gamma of one shape": lambda: (rng.gamma(2, 1, n), Gamma(2.0, 1 + zero)),
        "Beta": lambda: (rng.beta(shape, other), Beta(shape, other)),
        "Truncated(Gaussian)": lambda: (
            np.abs(normal),
            Truncated(fm.Gaussian(zero, 1.0), 0.0, np.inf),
        ),
        "Mixture of 2 Gammas": lambda: (
            rng.gamma(shape),
            Mixture([Gamma(shape, 1.0), Gamma(shape + 1, 2.0)]),
        ),
        "Mixture of 2 Gaussians": lambda: (
            np.where(event, normal, 3 + normal / 2),
            Mixture(pair, [0.8, 0.2]),
        ),
        "Mixture of 5 Gaussians": lambda: (normal, Mixture(five())),
        "Poisson": lambda: (counts, Poisson(mean)),
        "NegativeBinomial": lambda: (
            rng.negative_binomial(1 / 0.3, 1 / (1 + 0.3 * mean)),
            NegativeBinomial(mean, 0.3),
        ),
        "DoublePoisson": lambda: (counts, DoublePoisson(mean, 1.0)),
        "ZeroInflated(Poisson)": lambda: (
            counts * event,
            ZeroInflated(Poisson(mean), np.full(n, 0.2)),
        ),
        "Categorical": lambda: (rng.integers(0, 5, n), Categorical(np.full((n, 5), 0.2))),
        "Draws (100)": lambda: (normal, fm.Draws(rng.normal(size=(n, 100)))),
    }


def main():
    """Print seconds of the best of two runs."""
    rows = []
    for name in families(np.random.default_rng(0), 1):
        row = {"family": name}
        for n in (N, MANY):
            if n == MANY and (row[f"n = {N:,}"] * MANY / N > PATIENCE or name.startswith("Draws")):
                continue
            y, prediction = families(np.random.default_rng(0), n)[name]()
            row[f"n = {n:,}"], _ = best(lambda y=y, p=prediction: fm.evaluate(y, p), 2, n == N)
        rows.append(row)
    report(rows)


if __name__ == "__main__":
    main()
