"""Seconds of every parametric CRPS and log score of scoringrules, and of the same scores here.

Run as ``python -m benchmarks.peers.scoringrules_families [table.json [pattern]]``; a pattern such as
"logs_" selects functions. Each is called with 1,000, 100,000 and 1,000,000 rows, alternately with ours in
one process. Ours is timed twice: with the construction of the prediction, as scoringrules takes parameters,
and alone.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np

import fastmcmd as fm
from benchmarks.peers.timing import alternate, report

LONGEST = 1.0  # expected seconds beyond which larger sizes are left out
SIZES = 1_000, 100_000, 1_000_000


def arguments(rng, n):
    """Return outcomes and parameters by family name."""

    def uniform(low, high):
        return rng.uniform(low, high, n)

    normal, positive = rng.normal(size=n), rng.gamma(2.0, 1.0, n)
    loc, scale = uniform(-1, 1), uniform(0.5, 2)
    low, high = uniform(-3, -1), uniform(1, 3)
    masses = uniform(0, 0.3), uniform(0, 0.3)
    df = uniform(3, 12)
    inside = np.clip(loc + scale * normal, low, high)
    mean = uniform(1, 12)
    trials = np.full(n, 20.0)
    size = uniform(2, 8)
    return {
        "2pexponential": (normal, scale, uniform(0.5, 2), loc),
        "2pnormal": (normal, scale, uniform(0.5, 2), loc),
        "beta": (rng.beta(2, 3, n), uniform(0.5, 5), uniform(0.5, 5)),
        "binomial": (rng.binomial(20, 0.4, n).astype(float), trials, uniform(0.1, 0.9)),
        "clogistic": (inside, loc, scale, low, high),
        "cnormal": (inside, loc, scale, low, high),
        "csg0": (
            positive * (rng.random(n) > 0.2),
            uniform(1, 5),
            {"rate": uniform(0.5, 2), "shift": uniform(0.1, 1)},
        ),
        "ct": (inside, df, loc, scale, low, high),
        "exponential": (positive, scale),
        "exponential2": (positive + loc, loc, scale),
        "exponentialM": (positive + loc, masses[0], loc, scale),
        "gamma": (positive, uniform(0.5, 5), uniform(0.5, 2)),
        "gev": (loc + scale * rng.gumbel(size=n), uniform(-0.5, 0.5), loc, scale),
        "gpd": (loc + positive, uniform(-0.4, 0.4), loc, scale),
        "gtclogistic": (inside, loc, scale, low, high, *masses),
        "gtcnormal": (inside, loc, scale, low, high, *masses),
        "gtct": (inside, df, loc, scale, low, high, *masses),
        "hypergeometric": (
            rng.hypergeometric(12, 20, 8, n).astype(float),
            np.full(n, 12.0),
            np.full(n, 20.0),
            np.full(n, 8.0),
        ),
        "laplace": (normal, loc, scale),
        "logistic": (normal, loc, scale),
        "loglaplace": (np.exp(normal / 2), loc, uniform(0.1, 0.8)),
        "loglogistic": (np.exp(normal / 2), loc, uniform(0.1, 0.8)),
        "lognormal": (np.exp(normal / 2), loc, uniform(0.2, 1)),
        "mixnorm": (
            normal,
            rng.normal(size=(n, 3)),
            rng.uniform(0.5, 2, (n, 3)),
            np.full((n, 3), 1 / 3),
        ),
        "negbinom": (rng.poisson(mean).astype(float), size, uniform(0.3, 0.8)),
        "normal": (normal, loc, scale),
        "poisson": (rng.poisson(mean).astype(float), mean),
        "t": (normal, df, loc, scale),
        "tlogistic": (inside, loc, scale, low, high),
        "tnormal": (inside, loc, scale, low, high),
        "tt": (inside, df, loc, scale, low, high),
        "uniform": (rng.random(n), uniform(-2, 0), uniform(1, 2)),
    }


def mixture_of_columns(means, stds, weights):
    """Return mixtures of normal components, whose weights sum to 1."""
    return fm.Mixture(
        [fm.Gaussian(*column) for column in zip(means.T, stds.T, strict=True)], weights
    )


# Families whose adapter does more than construct them.
FAMILIES = {"mixnorm": mixture_of_columns}


def _unchanged(function, y, *values, **keywords):
    """Call a function that may overwrite its outcomes."""
    return function(y.copy(), *values, **keywords)


def main(pattern=""):
    """Print seconds, the ratio of ours to theirs, and the largest difference."""
    import scoringrules as sr

    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "peers"))
    import scoringrules_names as names

    rows = []
    warnings.simplefilter("ignore")
    for kind, score in (("crps", fm.metrics.crps), ("logs", fm.metrics.log_score)):
        for name in arguments(np.random.default_rng(0), 1):
            peer = getattr(sr, f"{kind}_{name}", None)
            if peer is None or pattern not in f"{kind}_{name}":
                continue
            row = {"function": f"{kind}_{name}"}
            for n in SIZES:
                y, *values = arguments(np.random.default_rng(0), n)[name]
                keywords = values.pop() if isinstance(values[-1], dict) else {}
                if row.get("slowest", 0.0) * n / SIZES[0] > LONGEST:
                    continue
                ours = partial(names.score_of, FAMILIES.get(name, names.FAMILIES[name]))
                arrays = []
                ours(lambda y, p, built=arrays: built.extend((y, p)), y, *values, **keywords)
                outcomes, prediction = arrays[0], names.as_predictive(arrays[1], n)
                with np.errstate(all="ignore"):
                    difference = np.nanmax(
                        np.abs(peer(y.copy(), *values, **keywords) - score(outcomes, prediction))
                    )
                    seconds = alternate(
                        [
                            partial(ours, score, y, *values, **keywords),
                            partial(score, outcomes, prediction),
                            partial(_unchanged, peer, y, *values, **keywords),
                        ]
                    ).min(axis=0)
                row["slowest"] = max(seconds) if n == SIZES[0] else row["slowest"]
                row[f"ours {n:,}, ms"], row[f"alone {n:,}, ms"], row[f"theirs {n:,}, ms"] = (
                    1e3 * s for s in seconds
                )
                row[f"ratio {n:,}"] = seconds[0] / seconds[2]
                row["difference"] = max(float(difference), row.get("difference", 0.0))
            row.pop("slowest")
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    report(rows, ("scoringrules",))


if __name__ == "__main__":
    main(*sys.argv[2:3])
