"""Scores of a million counts: NLL, PIT (cdf and cdf below) and CRPS, beside SciPy and scoringrules.

    python -m benchmarks.peers.counts [results.json]

Peers run on fewer rows; all times are per million rows. The difference is the largest relative one from
the peer on its rows, without those where it returns NaN, which are counted.
"""

from __future__ import annotations

import gc

import numpy as np
import scoringrules
from scipy import stats

import fastmcmd as fm
from benchmarks.peers.timing import best, peak_bytes, report
from fastmcmd.predictive.double_poisson import DoublePoisson

N = 1_000_000
MANY, FEW = 50_000, 5_000  # rows of peers; scoringrules takes tens of microseconds for some


def rows_of(name, make, y, peers):
    """Return the cost of each part, on a new object each time, as in one evaluation."""
    parts = {"log_prob": ("log_prob",), "pit": ("cdf", "cdf_below"), "crps": ("crps",)}
    all_methods = [method for methods in parts.values() for method in methods]
    for part, methods in {"all": all_methods, **parts}.items():

        def ours(methods=methods):
            prediction = make()
            return [getattr(prediction, method)(y) for method in methods]

        seconds, result = best(ours, repeats=2)
        row = {"family": name, "part": part, "seconds": seconds}
        if part == "all":
            gc.collect()
            row["peak MB beyond inputs"] = peak_bytes(ours) / 1e6
        if part in peers:
            peer, count, theirs = peers[part]
            with np.errstate(all="ignore"):
                time, value = best(
                    lambda theirs=theirs, count=count: theirs(count), repeats=2, warm=0
                )
            row |= {"peer": peer, "peer seconds": time * N / count}
            row["times faster"] = row["peer seconds"] / seconds
            finite = np.isfinite(value[-1])
            mine, other = result[-1][:count][finite], value[-1][finite]
            off = np.abs(mine - other) / np.maximum(np.abs(other), 1e-300)
            row |= {"difference": float(off.max()), "peer NaN": int((~finite).sum())}
        yield row


def main():
    rng = np.random.default_rng(7)
    mean = rng.gamma(4.0, 7.0, N) + 5  # most from 10 to 60
    alpha, phi = rng.uniform(0.05, 1.0, N), rng.uniform(0.3, 2.0, N)
    y = rng.poisson(rng.gamma(1 / alpha, alpha * mean)).astype(float)

    def scipy_of(make):
        return {
            "log_prob": ("scipy", MANY, lambda n: [make(n).logpmf(y[:n])]),
            "pit": ("scipy", MANY, lambda n: [make(n).cdf(y[:n]), make(n).cdf(y[:n] - 1)]),
        }

    def negbin_crps(n):
        return [scoringrules.crps_negbinom(y[:n], 1 / alpha[:n], 1 / (1 + alpha[:n] * mean[:n]))]

    def poisson_crps(n):
        return [scoringrules.crps_poisson(y[:n], mean[:n])]

    negbin = scipy_of(lambda n: stats.nbinom(1 / alpha[:n], 1 / (1 + alpha[:n] * mean[:n])))
    poisson = scipy_of(lambda n: stats.poisson(mean[:n]))
    rows = [
        *rows_of(
            "Poisson",
            lambda: fm.Poisson(mean),
            y,
            {**poisson, "crps": ("scoringrules", MANY, poisson_crps)},
        ),
        *rows_of(
            "NegativeBinomial",
            lambda: fm.NegativeBinomial(mean, alpha),
            y,
            {**negbin, "crps": ("scoringrules", FEW, negbin_crps)},
        ),
        *rows_of("DoublePoisson", lambda: DoublePoisson(mean, phi), y, {}),
    ]
    report(rows, ("scoringrules", "numba"))


if __name__ == "__main__":
    main()
