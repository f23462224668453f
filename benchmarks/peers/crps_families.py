"""CRPS of continuous families: closed forms here, scoringrules, and quadrature as the reference.

Run as ``python -m benchmarks.peers.crps_families [table.json]``. Errors are the largest relative ones over
2,000 rows against adaptive quadrature of the cdf, which shares no formula with either: once for ordinary
parameters and once for narrow or concentrated distributions, as models predict them.
"""

from __future__ import annotations

import numpy as np

from benchmarks.peers.timing import best, report
from fastmcmd.predictive import Beta, Gamma, Gaussian, Laplace, LogNormal, StudentT, Uniform
from fastmcmd.predictive.numerics.crps import crps

N, PART = 1_000_000, 2_000


def cases(rng, n):
    """Return, by name, the prediction and scoringrules' function with its parameters."""
    import scoringrules as sr

    def uniform(low, high):
        return rng.uniform(low, high, n)

    def log_uniform(low, high):
        return np.exp(uniform(np.log(low), np.log(high)))

    out = {}

    def add(name, family, function, *values):
        out[name] = family(*values), lambda y: function(y, *values)

    add("normal", Gaussian, sr.crps_normal, uniform(-2, 2), uniform(0.5, 2))
    add("t", StudentT, sr.crps_t, uniform(1.5, 20), uniform(-2, 2), uniform(0.5, 2))
    add("t, df to 1e6", StudentT, sr.crps_t, log_uniform(20, 1e6), uniform(-2, 2), uniform(0.5, 2))
    add("laplace", Laplace, sr.crps_laplace, uniform(-2, 2), uniform(0.5, 2))
    add("lognormal", LogNormal, sr.crps_lognormal, uniform(-2, 2), uniform(0.2, 2))
    add(
        "lognormal, sigma from 1e-4",
        LogNormal,
        sr.crps_lognormal,
        uniform(-2, 2),
        log_uniform(1e-4, 0.1),
    )
    add("gamma", Gamma, sr.crps_gamma, uniform(0.5, 5), uniform(0.5, 2))
    add("gamma, shape to 1e6", Gamma, sr.crps_gamma, log_uniform(10, 1e6), uniform(0.5, 2))
    add("beta", Beta, sr.crps_beta, uniform(0.5, 5), uniform(0.5, 5))
    add("beta, to 1e4", Beta, sr.crps_beta, log_uniform(10, 1e4), log_uniform(10, 1e4))
    add("uniform", Uniform, sr.crps_uniform, uniform(-2, 0), uniform(1, 2))
    return out


def error(actual, expected):
    """Return the largest relative error, NaN counted as such."""
    return float(np.max(np.abs(np.asarray(actual) / expected - 1)))


def main():
    rows = []
    small, large = cases(np.random.default_rng(0), PART), cases(np.random.default_rng(0), N)
    for name, (prediction, peer) in small.items():
        y = prediction.sample(1, 1)[:, 0]
        expected = crps(prediction, y)
        with np.errstate(all="ignore"):
            theirs = error(peer(y), expected)
        row = {"family": name, "error": error(prediction.crps(y), expected), "error, sr": theirs}
        if "," not in name:
            prediction, peer = large[name]
            y = prediction.sample(1, 1)[:, 0]
            for method in ("crps", "cdf", "log_prob"):
                row[f"{method}, s"] = best(lambda m=method, p=prediction, y=y: getattr(p, m)(y))[0]
            row["crps sr, s"] = best(lambda p=peer, y=y: p(y))[0]
        rows.append(row)
    report(rows, ("scoringrules",))


if __name__ == "__main__":
    main()
