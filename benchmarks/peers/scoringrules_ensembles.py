"""Seconds of every ensemble score of scoringrules, by its fastest backend, and of the same scores here.

Run as ``python -m benchmarks.peers.scoringrules_ensembles [table.json [pattern]]``; a pattern such as "crps"
selects functions. Both run alternately in one process, on one thread each.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"

import sys  # noqa: E402
import warnings  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

import fastmcmd as fm  # noqa: E402
from benchmarks.peers.scoringrules_families import alternate  # noqa: E402
from benchmarks.peers.timing import report  # noqa: E402

LONGEST = 5.0  # expected seconds beyond which a backend is left out


def first_component(vectors):
    """Return weights (...) of vectors (..., d); theirs has one vector."""
    return np.exp(-0.5 * np.square(np.asarray(vectors)[..., 0]))


def calls(rng):
    """Return arguments of functions by name: outcomes, members and keywords."""
    numbers = rng.normal(size=20_000), rng.normal(size=(20_000, 50)), {}
    vectors = rng.normal(size=(4_000, 3)), rng.normal(size=(4_000, 50, 3)), {}
    wide = rng.normal(size=(1_000, 20)), rng.normal(size=(1_000, 30, 20)), {}
    ends = {"a": -1.0, "b": 1.0}
    table = {
        name: numbers
        for name in (
            "crps_ensemble", "logs_ensemble", "dssuv_ensemble", "gksuv_ensemble", "error_spread_score",
        )
    }  # fmt: skip
    for name in ("crps", "gksuv"):
        for kind in ("tw", "ow", "vr"):
            table[f"{kind}{name}_ensemble"] = (*numbers[:2], ends)
    table["clogs_ensemble"] = (*numbers[:2], ends)
    for name in ("es", "vs", "gksmv", "dssmv"):
        table[f"{name}_ensemble"] = vectors
        table[f"{name}_ensemble, 20 components"] = wide
    return table


def backends_of(peer, arguments, keywords):
    """Return calls of a function of scoringrules by its backends; compiled ones have run once."""
    working = []
    for backend in ("numba", "numpy"):
        call = partial(peer, *arguments, **keywords, backend=backend)
        try:
            call()
        except Exception:  # noqa: BLE001, S112  # not every function has every backend
            continue
        working.append(call)
    return working


def main(pattern=""):
    """Print milliseconds, the ratio of ours to theirs, and the largest difference."""
    import scoringrules as sr

    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "peers"))
    import scoringrules_names as names

    fm.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = []
    for label, (y, members, keywords) in calls(np.random.default_rng(0)).items():
        name = label.split(",")[0]
        if pattern not in name:
            continue
        ours = partial(getattr(names, name), y, members, **keywords)
        result = ours()
        theirs = backends_of(getattr(sr, name), (y, members), keywords)
        difference = max(float(np.nanmax(np.abs(result - call()))) for call in theirs)
        seconds = alternate([ours, *theirs])
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
