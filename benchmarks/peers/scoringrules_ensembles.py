"""Seconds of every ensemble score of scoringrules, by its fastest backend, and of the same scores here.

Run as ``python -m benchmarks.peers.scoringrules_ensembles [table.json [pattern]]``; a pattern such as
"crps" selects functions. Both run alternately in one process, on one thread each.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import sys  # noqa: E402
import warnings  # noqa: E402
from functools import partial  # noqa: E402

import numpy as np  # noqa: E402

import fastmcmd as fm  # noqa: E402
from benchmarks.peers.timing import alternate, report  # noqa: E402


def calls(rng):
    """Return calls by the name in scoringrules: ours, outcomes, members and keywords of theirs."""
    metrics = fm.metrics
    numbers = rng.normal(size=20_000), rng.normal(size=(20_000, 50))
    vectors = rng.normal(size=(4_000, 3)), rng.normal(size=(4_000, 50, 3))
    wide = rng.normal(size=(1_000, 20)), rng.normal(size=(1_000, 30, 20))
    ends, interval = {"a": -1.0, "b": 1.0}, {"lower": -1.0, "upper": 1.0}
    table = {
        "crps_ensemble": (metrics.crps, *numbers, {}),
        "logs_ensemble": (metrics.ensemble_log_score, *numbers, {}),
        "dssuv_ensemble": (partial(metrics.dawid_sebastiani, ddof=1), *numbers, {}),
        "gksuv_ensemble": (metrics.gaussian_kernel_score, *numbers, {}),
        "error_spread_score": (metrics.error_spread_score, *numbers, {}),
    }
    kinds = {"tw": "threshold", "ow": "outcome", "vr": "vertical"}
    for short, weighting in kinds.items():
        options = {"weighting": weighting, **interval}
        of_cdf = partial(metrics.weighted_crps, **options)
        of_kernel = partial(metrics.weighted_gaussian_kernel_score, **options)
        table[f"{short}crps_ensemble"] = (of_cdf, *numbers, ends)
        table[f"{short}gksuv_ensemble"] = (of_kernel, *numbers, ends)
    of_vectors = {
        "es": metrics.energy_score,
        "vs": metrics.variogram_score,
        "gksmv": metrics.gaussian_kernel_score,
        "dssmv": partial(metrics.dawid_sebastiani, ddof=1),
    }
    for name, score in of_vectors.items():
        table[f"{name}_ensemble"] = (score, *vectors, {})
        table[f"{name}_ensemble, 20 components"] = (score, *wide, {})
    return table


def backends_of(peer, arguments, keywords):
    """Return calls of a function of scoringrules by its backends; compiled ones have run once."""
    working = []
    for backend in ("numba", "numpy"):
        call = partial(peer, *arguments, **keywords, backend=backend)
        try:
            call()
        except Exception:  # not every function has every backend
            continue
        working.append(call)
    return working


def main(pattern=""):
    """Print milliseconds, the ratio of ours to theirs, and the largest difference."""
    import scoringrules as sr

    fm.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for label, (score, y, members, keywords) in calls(np.random.default_rng(0)).items():
        name = label.split(",")[0]
        if pattern not in name:
            continue
        ours = partial(score, y, members)
        result = ours()
        theirs = backends_of(getattr(sr, name), (y, members), keywords)
        difference = max(float(np.nanmax(np.abs(result - call()))) for call in theirs)
        seconds = alternate([ours, *theirs]).min(axis=0)
        rows.append(
            {
                "function": label,
                "members": "x".join(str(size) for size in members.shape),
                "ours, ms": 1e3 * seconds[0],
                "theirs, ms": 1e3 * min(seconds[1:]),
                "ratio": seconds[0] / min(seconds[1:]),
                "difference": difference,
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    report(rows, ("scoringrules", "numba"))


if __name__ == "__main__":
    main(*sys.argv[2:3])
