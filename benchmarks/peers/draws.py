"""CRPS of draws, n = 100,000 and m = 100, against sorting alone, properscoring and scoringrules.

Then the cdf and quantiles, against NumPy's plain expressions.

Run as ``python -m benchmarks.peers.draws [file.json]``; one thread each.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import properscoring  # noqa: E402
import scoringrules  # noqa: E402

import fastmcmd as fm  # noqa: E402
from benchmarks.peers.timing import best, report  # noqa: E402
from fastmcmd.metrics.scores import crps  # noqa: E402

N, M = 100_000, 100


def main():
    """Measure and print."""
    fm.set_num_threads(1)
    rng = np.random.default_rng(0)
    rows = []
    for dtype in (np.float64, np.float32):
        draws = rng.normal(size=(N, M)).astype(dtype)
        y = rng.normal(size=N).astype(dtype)
        prediction = fm.Draws(draws)
        exact = _by_pairs(y[:200], draws[:200])
        ways = {
            "np.sort alone": lambda draws=draws: np.sort(draws, axis=1),
            "fastmcmd, Draws(array).crps(y)": lambda draws=draws, y=y: fm.Draws(draws).crps(y),
            "fastmcmd, metrics.crps(y, array)": lambda draws=draws, y=y: crps(y, draws),
            "fastmcmd, held.crps(y)": lambda prediction=prediction, y=y: prediction.crps(y),
            "fastmcmd, held.crps(y, 'fair')": lambda prediction=prediction, y=y: prediction.crps(
                y, "fair"
            ),
            "properscoring (Numba)": lambda draws=draws, y=y: properscoring.crps_ensemble(y, draws),
            "scoringrules, backend='numba'": lambda draws=draws, y=y: scoringrules.crps_ensemble(
                y, draws, backend="numba"
            ),
            "scoringrules, default": lambda draws=draws, y=y: scoringrules.crps_ensemble(y, draws),
        }
        floor = None
        for name, way in ways.items():
            seconds, result = best(way, repeats=7)
            floor = seconds if floor is None else floor
            scored = result.ndim == 1 and "fair" not in name
            error = float(np.abs(result[:200] - exact).max()) if scored else ""
            rows.append(
                {
                    "dtype": np.dtype(dtype).name,
                    "way": name,
                    "seconds": seconds,
                    "to np.sort": seconds / floor,
                    "largest error": error,
                }
            )
    report(rows, ("numba", "properscoring", "scoringrules"))
    report(_cdf_and_quantiles(rng))


def _cdf_and_quantiles(rng):
    """Return rows of the second table."""
    draws, y = rng.normal(size=(N, M)), rng.normal(size=N)
    levels = np.linspace(0.01, 0.99, 9)
    unsorted, sorted_draws = fm.Draws(draws), fm.Draws(draws)
    sorted_draws.quantile(0.5)
    ways = {
        "cdf": {
            "numpy": lambda: (draws <= y[:, None]).mean(axis=1),
            "fastmcmd, unsorted": lambda: unsorted.cdf(y),
            "fastmcmd, sorted": lambda: sorted_draws.cdf(y),
        },
        "9 quantiles": {
            "numpy": lambda: np.quantile(draws, levels, axis=1).T,
            "fastmcmd, sorting": lambda: fm.Draws(draws).quantile(levels),
            "fastmcmd, sorted": lambda: sorted_draws.quantile(levels),
        },
    }
    rows = []
    for method, several in ways.items():
        plain = None
        for name, way in several.items():
            seconds, result = best(way, repeats=5)
            plain = result if plain is None else plain
            gap = float(np.abs(result - plain).max())
            rows.append(
                {"what": method, "way": name, "seconds": seconds, "largest difference": gap}
            )
    return rows


def _by_pairs(y, draws):
    """Return the score by its definition over pairs, in float64."""
    y, draws = y.astype(np.float64), draws.astype(np.float64)
    distance = np.abs(draws - y[:, None]).mean(axis=1)
    return distance - np.abs(draws[:, :, None] - draws[:, None, :]).mean(axis=(1, 2)) / 2


if __name__ == "__main__":
    main()
