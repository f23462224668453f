"""Are the verdict's sentences true? python tests/simulations/verdict_sentences.py [RUNS] [--seed FIRST]

Twenty problems with planted faults, n = 1,500, three inputs: how often a sentence says something false
("too high", "wrong shape", ...), and how often it says all that is true. "Too high" is about means, "too
wide" about standard deviations: a wrong shape with the right moments makes both false.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import fastmcmd as fm

N = 1500
CLAIMS = ("too high", "too low", "too wide", "too narrow", "wrong shape")
Problem = tuple[str, Any, Any, Any, set[str]]


def problems(seed: int) -> Iterator[Problem]:
    """Yield name, x, y, prediction and the claims that are true."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (N, 3))
    mean, noise, in_region = 1 + x[:, 0], rng.normal(size=N), x[:, 1] > 0.5
    members = rng.normal(size=(N, 50))
    centred = mean[:, None]
    yield "right", x, mean + noise, fm.Gaussian(mean, 1.0), set()
    yield "right, draws", x, mean + noise, fm.Draws(centred + members), set()
    yield "mean + 0.4", x, mean + noise, fm.Gaussian(mean + 0.4, 1.0), {"too high"}
    yield "mean + 0.4, draws", x, mean + noise, fm.Draws(centred + 0.4 + members), {"too high"}
    yield "std * 1.5", x, mean + noise, fm.Gaussian(mean, 1.5), {"too wide"}
    yield "std / 1.5, draws", x, mean + noise, fm.Draws(centred + members / 1.5), {"too narrow"}
    yield (
        "mean + 1 where x1 > .5",
        x,
        mean + noise - in_region,
        fm.Gaussian(mean, 1.0),
        {"too high"},
    )
    halved = fm.Gaussian(mean, np.where(in_region, 0.5, 1.0))
    yield "std / 2 where x1 > .5", x, mean + noise, halved, {"too narrow"}

    skewed = mean + (rng.gamma(1.5, size=N) - 1.5) / np.sqrt(1.5)
    yield "skewed, moments right", x, skewed, fm.Gaussian(mean, 1.0), {"wrong shape"}
    t4 = mean + rng.standard_t(4, N) / np.sqrt(2)
    yield "t4, moments right", x, t4, fm.Gaussian(mean, 1.0), {"wrong shape"}
    yield "skewed, mean + 0.5", x, skewed, fm.Gaussian(mean + 0.5, 1.0), {"too high", "wrong shape"}
    peaked = mean + rng.laplace(size=N) / np.sqrt(2)
    yield "Laplace, std * 1.5", x, peaked, fm.Gaussian(mean, 1.5), {"too wide"}

    tails = mean + rng.standard_t(2.5, N)
    yield "t2.5 right", x, tails, fm.StudentT(2.5, mean, 1.0), set()
    yield "t2.5, scale * 1.6", x, tails, fm.StudentT(2.5, mean, 1.6), {"too wide"}
    no_variance = mean + rng.standard_t(1.5, N)
    yield "t1.5, mean + 0.6", x, no_variance, fm.StudentT(1.5, mean + 0.6, 1.0), {"too high"}

    rate = np.exp(1 + 0.6 * x[:, 0])
    counts, spread = rng.poisson(rate), rng.negative_binomial(2, 2 / (2 + rate))
    yield "Poisson right", x, counts, fm.Poisson(rate), set()
    yield "Poisson, mean * 1.4", x, counts, fm.Poisson(1.4 * rate), {"too high"}
    yield "negative binomial right", x, spread, fm.NegativeBinomial(rate, 0.5), set()
    yield "Poisson for negative binomial", x, spread, fm.Poisson(rate), {"too narrow"}
    moments = fm.Gaussian(rate, np.sqrt(rate + rate**2 / 2))
    yield "Gaussian for it, moments right", x, spread, moments, {"wrong shape"}


def main() -> None:
    """Print a line a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: dict[str, list[int]] = {}
    for seed in range(options.seed, options.seed + options.runs):
        for name, x, y, prediction, true in problems(seed):
            sentence = fm.verdict(x, y, prediction).sentence
            claims = {claim for claim in CLAIMS if claim in sentence}
            count = counts.setdefault(name, [0, 0])
            count[0] += bool(claims - true)
            count[1] += true <= claims
            if claims - true:
                print(f"  {name}, seed {seed}: {sentence}", flush=True)
    print(f"{'':32}  a false claim  all true ones, of {options.runs}")
    for name, (false, complete) in counts.items():
        print(f"{name:32}  {false:13}  {complete:13}")


if __name__ == "__main__":
    main()
