"""Do the bands of pictures hold? python tests/simulations/picture_bands.py [RUNS]

The share of samples of a calibrated model whose whole curve or histogram lies in its band: ranks, PIT
values, and isotonic regressions of events; and the share of pairs of models whose expected difference of
elementary scores lies in its band at all thresholds with support.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import fastmcmd as fm
from fastmcmd.metrics.isotonic import isotonic
from fastmcmd.metrics.murphy import difference_of, elementary_scores

EVENTS: dict[str, Callable[[Any, int], Any]] = {
    "even": lambda rng, n: rng.uniform(size=n),
    "rare": lambda rng, n: rng.beta(0.3, 6.0, n),
    "levels": lambda rng, n: rng.integers(0, 11, n) / 10,
    "weights": lambda rng, n: rng.beta(2.0, 1.0, n),
}
MODELS = ("mean", "same", "quantile", "probability", "heavy tails")
THETAS = {"probability": np.linspace(0, 1, 81)}
MORE_THETAS = np.linspace(-4, 4, 81)


def histogram_coverage(n: int, runs: int, members: int = 19) -> float:
    """Return the share of rank histograms of right ensembles that lie in their band."""
    covered = []
    for seed in range(runs):
        draws = np.random.default_rng(seed).normal(size=(n, members + 1))
        histogram = fm.metrics.rank_histogram(draws[:, 0], draws[:, 1:])
        covered.append(
            ((histogram.low <= histogram.count) & (histogram.count <= histogram.high)).all()
        )
    return float(np.mean(covered))


def ecdf_coverage(n: int, runs: int, discrete: bool = False) -> float:
    """Return the share of PIT curves of right models, Gaussian or Poisson, that lie in their band."""
    covered = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        mean = rng.uniform(0.5, 3.0, n)
        model = fm.Poisson(mean) if discrete else fm.Gaussian(mean, 1.0)
        y = rng.poisson(mean) if discrete else mean + rng.normal(size=n)
        curve = fm.metrics.pit_ecdf(y, model, random_state=seed)
        covered.append(((curve.low <= curve.observed) & (curve.observed <= curve.high)).all())
    return float(np.mean(covered))


def isotonic_coverage(
    kind: str, n: int, runs: int, resamples: int = 1000, level: float = 0.95
) -> tuple[float, Any]:
    """Return the share of curves of calibrated probabilities inside their band, and their p-values."""
    covered, p_values = [], []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        p = EVENTS[kind](rng, n)
        weights = rng.uniform(0.1, 1.0, n) if kind == "weights" else None
        band_of_curve = isotonic(
            p, rng.random(n) < p, weights, kind,
            level=level, resamples=resamples, random_state=seed,
        )  # fmt: skip
        curve = band_of_curve.frequency[
            np.searchsorted(band_of_curve.probability, band_of_curve.grid)
        ]
        covered.append(
            ((band_of_curve.low <= curve + 1e-9) & (curve <= band_of_curve.high + 1e-9)).all()
        )
        p_values.append(band_of_curve.p_value)
    return float(np.mean(covered)), np.array(p_values)


def forecasts(kind: str, rng: Any, n: int) -> tuple[Any, Any, Any]:
    """Return the point forecasts of two models, and outcomes."""
    if kind == "probability":
        p = rng.beta(1.0, 2.0, n)
        return p, np.clip(p + 0.1 * rng.normal(size=n), 0, 1), (rng.random(n) < p).astype(float)
    mean = rng.normal(size=n)
    noise = rng.standard_t(3, n) if kind == "heavy tails" else rng.normal(size=n)
    first = mean + 0.3 * rng.normal(size=n)
    return first, mean + 0.3 * rng.normal(size=n) if kind == "same" else 0.5 * mean, mean + noise


def murphy_coverage(kind: str, n: int, runs: int) -> float:
    """Return the share of bands that hold the expected difference at all thresholds with support."""
    theta, quantile = THETAS.get(kind, MORE_THETAS), 0.9 if kind == "quantile" else None
    rng = np.random.default_rng(10**6)
    truth = 0.0
    blocks = (
        n // 5
    )  # of 2,000 rows, which stay in the cache: errors are a twentieth of those of n rows
    for _ in range(blocks):
        first, second, y = forecasts(kind, rng, 2000)
        truth += np.mean(
            elementary_scores(first, y, theta, quantile)
            - elementary_scores(second, y, theta, quantile), axis=0,
        ) / blocks  # fmt: skip
    covered = []
    for seed in range(runs):
        first, second, y = forecasts(kind, np.random.default_rng(seed), n)
        curve = difference_of((first, second), y, None, theta, quantile, kind, 0.95, seed)
        inside = (curve.low <= truth) & (truth <= curve.high)
        covered.append(inside[curve.supported].all())
    return float(np.mean(covered))


def main(runs: int) -> None:
    """Print a table of coverages of 95 % bands."""
    error = stats.binom(runs, 0.95).std() / runs
    print(f"95 % bands, {runs} runs each (standard error {error:.3f})")
    for n in (50, 1000):
        print(f"ranks          n = {n:5} {histogram_coverage(n, runs):.3f}", flush=True)
        for discrete in (False, True):
            name = "PIT, Poisson " if discrete else "PIT, Gaussian"
            print(f"{name}  n = {n:5} {ecdf_coverage(n, runs, discrete):.3f}", flush=True)
    for kind in EVENTS:
        for n in (100, 1000):
            covered, p = isotonic_coverage(kind, n, runs, 400)
            print(
                f"isotonic, {kind:8} n = {n:5} {covered:.3f}, p <= 0.1: {np.mean(p <= 0.1):.3f}",
                flush=True,
            )
    for kind in MODELS:
        for n in (500, 1000, 5000):
            print(
                f"elementary scores, {kind:12} n = {n:5} {murphy_coverage(kind, n, runs):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
