"""Does the band of `missing_mass`, the picture of mass beside a witness, hold the gap of right predictions?

    python tests/simulations/missing_mass.py --runs 400

The band is pointwise and by a normal distribution, so coverage is taken over outcomes whose expected
number near the input, ``sum_i a_i P(Y_i = v)`` times the effective rows, is at least 5, and over all
others. Continuous outcomes: over the range that holds 98 % of them, and outside.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import fastmcmd as fm
from fastmcmd.inference.missing_mass import missing_mass

KINDS = ("Poisson", "negative binomial", "three classes", "Gaussian", "gamma")
AT = 0.5


def problem(kind: str, n: int, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Return x, y, the right prediction, and the outcomes of the picture."""
    x = rng.uniform(-2, 2, n)
    if kind == "three classes":
        logits = np.stack([x, 0 * x, -x], axis=1)
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).astype(float)
        return x, y, fm.Categorical(p), np.arange(3.0)
    prediction: Any = {
        "Poisson": lambda: fm.Poisson(np.exp(1 + 0.5 * x)),
        "negative binomial": lambda: fm.NegativeBinomial(np.exp(1 + 0.5 * x), 0.5),
        "Gaussian": lambda: fm.Gaussian(np.sin(x), 0.4),
        "gamma": lambda: fm.Gamma.from_mean(np.exp(0.5 * x), dispersion=0.5),
    }[kind]()
    at = prediction.take(np.array([np.argmin(np.abs(x - AT))]))
    if prediction.discrete:
        values = np.arange(0.0, 15.0)
    else:
        values = at.quantile(np.array([0.002, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.998]))[0]
    return x, prediction.sample(1, rng)[:, 0], prediction, values


def coverage(kind: str, n: int, runs: int, seed: int = 0) -> tuple[float, float]:
    """Return the shares of gaps in the 95 % band: of outcomes with enough mass, and of rare ones."""
    inside: dict[bool, list[bool]] = {True: [], False: []}
    for run in range(runs):
        rng = np.random.default_rng([seed, run, n])
        x, y, prediction, values = problem(kind, n, rng)
        curve = missing_mass(x, y, prediction, AT, values=values)
        if prediction.discrete:
            variance = np.maximum(curve.predicted * (1 - curve.predicted), 1e-12)
            effective = variance / np.maximum(curve.band / 1.96, 1e-12) ** 2
            common = effective * curve.predicted >= 5
        else:
            common = (values >= values[1]) & (values <= values[-2])
        for is_common, is_inside in zip(common, np.abs(curve.gap) <= curve.band, strict=True):
            inside[bool(is_common)].append(bool(is_inside))
    common_share, rare_share = (
        float(np.mean(inside[key])) if inside[key] else np.nan for key in (True, False)
    )
    return common_share, rare_share


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--n", type=int, nargs="+", default=[300, 2000])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind in KINDS:
        for n in options.n:
            common, rare = coverage(kind, n, options.runs, options.seed)
            print(f"{kind}, n = {n}: enough mass {common:.3f}, rare {rare:.3f}", flush=True)


if __name__ == "__main__":
    main()
