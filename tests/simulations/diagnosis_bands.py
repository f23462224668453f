"""Do the bands of `diagnose` cover? python tests/simulations/diagnosis_bands.py [RUNS] [--seed FIRST]

Four families, each right, wrong by a constant, and wrong by smooth functions of x, at n = 2,000: the
share of inputs with support at which the 90 % bands hold the true shift and the true factor.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import fastmcmd as fm
from fastmcmd.inference.corrections import CountCorrection

N = 2000
FAMILIES = ("Gaussian", "Student t", "gamma", "negative binomial")
KINDS = ("right", "constant", "smooth")


def problem(family: str, kind: str, seed: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return x, y, the prediction, and the shift and the log factor that it needs."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, N)
    shift, log_factor = {
        "right": (0 * x, 0 * x),
        "constant": (0 * x - 0.2, 0 * x + np.log(1.5)),
        "smooth": (0.3 * np.sin(1.5 * x), np.log(1.5) * np.cos(1.5 * x)),
    }[kind]
    if family == "negative binomial":
        prediction = fm.NegativeBinomial(np.exp(1 + 0.5 * x), 0.5)
        log_factor = log_factor / 2
        model = CountCorrection(prediction)
        table = model.table(slice(0, N))
        masses = table.masses(*model.parameters(shift, log_factor, slice(0, N), table))
        place = (np.cumsum(masses, axis=1) < rng.random((N, 1))).sum(axis=1)
        place = np.minimum(place, masses.shape[1] - 1)
        return x, table.values[np.arange(N), place], prediction, shift, log_factor
    prediction = {
        "Gaussian": lambda: fm.Gaussian(np.sin(2 * x), 0.3 * np.exp(-log_factor)),
        "Student t": lambda: fm.StudentT(np.full(N, 4.0), np.sin(2 * x), 0.3 * np.exp(-log_factor)),
        "gamma": lambda: fm.Gamma.from_mean(np.exp(0.5 * x), dispersion=0.3),
    }[family]()
    draws = prediction.sample(1, rng)[:, 0]
    y = prediction.mean + shift + np.exp(log_factor) * (draws - prediction.mean)
    return x, y, prediction, shift, log_factor


def coverage(family: str, kind: str, runs: int, first: int = 0) -> tuple[float, float]:
    """Return the shares of inputs with support whose bands hold the true shift and the true factor."""
    covered = []
    for seed in range(first, first + runs):
        x, y, prediction, shift, log_factor = problem(family, kind, seed)
        diagnosis = fm.diagnose(x, y, prediction)
        some = diagnosis.supported
        covered.append(
            [
                np.mean((band[some, 0] <= truth[some]) & (truth[some] <= band[some, 1]))
                for band, truth in (
                    (diagnosis.shift_band, shift),
                    (diagnosis.factor_band, np.exp(log_factor)),
                )
            ]
        )
    shift_held, factor_held = np.mean(covered, axis=0)
    return float(shift_held), float(factor_held)


def main(runs: int, first: int) -> None:
    """Print a table."""
    for family in FAMILIES:
        for kind in KINDS:
            rates = coverage(family, kind, runs, first)
            print(f"{family:18} {kind:9} shift {rates[0]:.3f} factor {rates[1]:.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int, nargs="?", default=20)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    arguments = parser.parse_args()
    main(arguments.runs, arguments.seed)
