"""Size and power of `fastmcmd.congruence_test`, by simulation.

    python tests/simulations/congruence_test.py size --runs 1000
    python tests/simulations/congruence_test.py size --runs 1000 --weighted
    python tests/simulations/congruence_test.py points --runs 400
    python tests/simulations/congruence_test.py power --runs 200

Size: right models of six kinds at n = 100 and 500; the share of p-values at most 0.05 is to be within
[.03, .07], and they are to be uniform (Kolmogorov-Smirnov) up to their discreteness. Points: p-values at
21 inputs, `at=`; their mean share is to be within [.03, .07], and at most 5 % of the samples, up to two
standard errors, may have an adjusted p-value of at most 0.05 anywhere. Power: wrong models
at n = 500, beside the calibration test SKCE, a Kolmogorov-Smirnov test of the PIT and the
conditional-moment test, all by simulation from the model under the same B.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats

import fastmcmd as fm

Array = Any
SIMULATIONS = 99
N_POWER = 500
POINTS = np.linspace(-2, 2, 21)  # of `at`


def right_models(n: int, rng: np.random.Generator) -> dict[str, Callable[[], tuple[Any, Any, Any]]]:
    """Return functions that draw (x, y, prediction) where the prediction is the truth."""
    x = rng.uniform(-2, 2, n)
    mean = np.sin(2 * x)

    def gaussian() -> tuple[Any, Any, Any]:
        std = 0.3 + 0.2 * np.abs(x)
        return x, mean + std * rng.standard_normal(n), fm.Gaussian(mean, std)

    def poisson() -> tuple[Any, Any, Any]:
        rate = np.exp(mean)
        return x, rng.poisson(rate), fm.Poisson(rate)

    def negative_binomial() -> tuple[Any, Any, Any]:
        model = fm.NegativeBinomial(np.exp(mean), 0.7)
        return x, model.sample(1, rng)[:, 0], model

    def mixture() -> tuple[Any, Any, Any]:
        parts = [fm.Gaussian(mean - 1, 0.2), fm.Gaussian(mean + 1, 0.4)]
        model = fm.Mixture(parts, [0.6, 0.4])
        return x, model.sample(1, rng)[:, 0], model

    def draws() -> tuple[Any, Any, Any]:
        members = mean[:, None] + 0.4 * rng.standard_normal((n, 6))
        return x, members[:, 0], members[:, 1:]

    def classes() -> tuple[Any, Any, Any]:
        scores = np.exp(np.stack([x, -x, np.zeros(n)], axis=1))
        model = fm.Categorical(scores / scores.sum(axis=1, keepdims=True))
        return x, model.sample(1, rng)[:, 0], model

    def heavy() -> tuple[Any, Any, Any]:
        model = fm.StudentT(np.full(n, 1.5), mean, 0.3)
        return x, model.sample(1, rng)[:, 0], model

    def vectors() -> tuple[Any, Any, Any]:
        both = np.stack([mean, -mean], axis=1)
        return x, both + 0.3 * rng.standard_normal((n, 2)), fm.Gaussian(both, np.full((n, 2), 0.3))

    return {
        "Gaussian": gaussian, "Poisson": poisson, "negative binomial": negative_binomial,
        "mixture": mixture, "draws": draws, "classes": classes, "Student t": heavy,
        "vectors": vectors,
    }  # fmt: skip


def p_values(
    kind: str, n: int, runs: int, seed: int = 0, *, weighted: bool = False, **options: Any
) -> Array:
    """Return p-values of tests of a right model, with weights exp(x) on the rows if ``weighted``."""
    out = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, n])
        x, y, prediction = right_models(n, rng)[kind]()
        settings = {"simulations": SIMULATIONS, "random_state": [seed, run], **options}
        if weighted:
            settings["weights"] = np.exp(x) * (np.arange(n) % 10 > 0)
        test = fm.congruence_test(x, y, prediction, **settings)
        out.append(test.p_value)
    return np.array(out)


def size(runs: int, weighted: bool = False) -> None:
    """Print the share of rejections of right models, with or without weights."""
    kinds = right_models(10, np.random.default_rng(0))
    print(
        f"{'kind':20} {'n':>5} {'p<=.05':>8} {'p<=.10':>8} {'KS p':>8}   ({runs} runs, B = {SIMULATIONS})"
    )
    for kind in kinds:
        for n in (100, 500):
            values = p_values(kind, n, runs, weighted=weighted)
            # Discrete p-values made continuous: those of a valid test are uniform.
            jitter = np.random.default_rng(1).random(runs) / (SIMULATIONS + 1)
            ks = scipy.stats.kstest(values - jitter, "uniform").pvalue
            share = [(values <= level).mean() for level in (0.05, 0.1)]
            print(f"{kind:20} {n:5d} {share[0]:8.3f} {share[1]:8.3f} {ks:8.3f}", flush=True)


def point_p_values(
    kind: str, n: int, runs: int, seed: int = 0, **options: Any
) -> tuple[Array, Array]:
    """Return p-values (runs, 21) of right models at points, alone and adjusted for all points."""
    alone, adjusted = [], []
    settings = {"simulations": SIMULATIONS, "at": POINTS, **options}
    for run in range(runs):
        rng = np.random.default_rng([seed, run, n])
        x, y, prediction = right_models(n, rng)[kind]()
        rows = fm.congruence_test(x, y, prediction, random_state=[seed, run], **settings).rows
        assert rows is not None
        alone.append(rows.p_values)
        adjusted.append(rows.adjusted)
    return np.array(alone), np.array(adjusted)


def points(runs: int, kinds: list[str], seed: int = 21) -> None:
    """Print the shares of rejections of right models at points."""
    print(
        f"{'kind':20} {'n':>5} {'mean':>8} {'least':>8} {'largest':>8} {'family':>8}"
        f" {'family .10':>11}   ({runs} runs, B = {SIMULATIONS}, {len(POINTS)} points)"
    )
    for kind in kinds:
        for n in (100, 500):
            alone, adjusted = point_p_values(kind, n, runs, seed)
            share = (alone <= 0.05).mean(axis=0)
            family = [(adjusted.min(axis=1) <= level).mean() for level in (0.05, 0.1)]
            print(
                f"{kind:20} {n:5d} {share.mean():8.3f} {share.min():8.3f} {share.max():8.3f}"
                f" {family[0]:8.3f} {family[1]:11.3f}",
                flush=True,
            )


def wrong_models(rng: np.random.Generator) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Return (x, y, mean, std) of Gaussian predictions that are wrong, by name."""
    n = N_POWER
    x = rng.uniform(-2, 2, n)
    mean, noise = np.sin(1.5 * x), rng.standard_normal(n)
    y = mean + 0.5 * noise
    wide = rng.standard_normal((n, 8))
    signs = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    outliers = y.copy()
    outliers[rng.choice(n, 3, replace=False)] += 4
    return {
        "std x 1.2": (x, y, mean, np.full(n, 0.6)),
        "std x 1.2, d = 8": (wide, wide[:, 0] + 0.5 * noise, wide[:, 0], np.full(n, 0.6)),
        "mean + .15 sin 6x": (x, y, mean + 0.15 * np.sin(6 * x), np.full(n, 0.5)),
        "mean + .1": (x, y, mean + 0.1, np.full(n, 0.5)),
        "y = 100 x + e, std x .4": (x, 100 * x + noise, 100 * x, np.full(n, 0.4)),
        "y = 100 x + e, std x 2.5": (x, 100 * x + noise, 100 * x, np.full(n, 2.5)),
        "spread varies": (x, mean + 0.5 * np.exp(0.25 * x) * noise, mean, np.full(n, 0.53)),
        "two modes": (x, mean + 0.5 * (0.8 * signs + 0.6 * noise), mean, np.full(n, 0.5)),
        "3 outliers": (x, outliers, mean, np.full(n, 0.5)),
    }


def _rank(values: Array) -> float:
    return float(np.mean(values >= values[0]))


def peers(
    x: Array, y: Array, mean: Array, std: Array, rng: np.random.Generator
) -> dict[str, float]:
    """Return p-values of other tests, by simulation from the model."""
    n = len(y)
    pool = np.concatenate(
        [y[:, None], mean[:, None] + std[:, None] * rng.standard_normal((n, SIMULATIONS))], 1
    )
    z = (pool - mean[:, None]) / std[:, None]
    u = np.sort(scipy.stats.norm.cdf(z), axis=0)
    grid = np.arange(n + 1)[:, None] / n
    ks = np.maximum(np.abs(u - grid[1:]).max(axis=0), np.abs(u - grid[:-1]).max(axis=0))
    x = x[:, None] if x.ndim == 1 else x
    x = (x - x.mean(axis=0)) / x.std(axis=0)

    def gram(points: Array) -> Array:
        squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
        return np.exp(-squares / np.median(squares[squares > 0]))

    # Muandet et al. (2020): mean of h_i k(x_i, x_j) h_j over pairs, residuals of the two first moments.
    K = gram(x)
    np.fill_diagonal(K, 0)
    moment = sum(np.einsum("ib,ij,jb->b", h, K, h) for h in (z, (z * z - 1) / np.sqrt(2)))
    # Widmann et al. (2021): kernel on forecasts times kernel on outcomes less its expectations.
    P = gram(np.stack([mean / mean.std(), std / max(std.std(), 1e-9)], axis=1))
    np.fill_diagonal(P, 0)
    g = 1 / (2 * np.median(np.abs(y - np.median(y))) ** 2 * 2)
    total = np.zeros(SIMULATIONS + 1)
    v = std**2

    def smooth(a: Array, extra: Array) -> Array:
        s = 1 + 2 * g * extra
        return np.exp(-g * a * a / s) / np.sqrt(s)

    both = smooth(mean[:, None] - mean[None], v[:, None] + v[None])
    for b in range(SIMULATIONS + 1):
        gap = pool[:, b][:, None] - pool[:, b][None]
        one = smooth(pool[:, b][:, None] - mean[None], np.broadcast_to(v[None], (n, n)))
        total[b] = (P * (np.exp(-g * gap * gap) - one - one.T + both)).sum()
    return {"PIT (KS)": _rank(ks), "moments": _rank(moment), "SKCE": _rank(total)}


def power(runs: int) -> None:
    """Print the share of rejections at 5 % of wrong models."""
    names = ["congruence test", "PIT (KS)", "moments", "SKCE"]
    print(f"{'wrong model':26}" + "".join(f"{name:>17}" for name in names) + f"   ({runs} runs)")
    for kind in wrong_models(np.random.default_rng(0)):
        powers = {name: 0.0 for name in names}
        for run in range(runs):
            rng = np.random.default_rng([7, run])
            x, y, mean, std = wrong_models(rng)[kind]
            test = fm.congruence_test(
                x, y, fm.Gaussian(mean, std), simulations=SIMULATIONS, random_state=[7, run]
            )
            values = {"congruence test": test.p_value, **peers(x, y, mean, std, rng)}
            for name in names:
                powers[name] += (values[name] <= 0.05) / runs
        print(f"{kind:26}" + "".join(f"{powers[name]:17.2f}" for name in names), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["size", "points", "power"])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--weighted", action="store_true", help="with size: rows have weights")
    parser.add_argument(
        "--kinds", nargs="+", default=["Gaussian", "Poisson", "draws"], help="with points"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "size":
        size(arguments.runs, arguments.weighted)
    elif arguments.what == "points":
        points(arguments.runs, arguments.kinds)
    else:
        power(arguments.runs)
