"""Seconds of every function of a peer that has a counterpart here, and of the counterpart.

Run as ``python -m benchmarks.peers.function_sweep PEERS [table.json [pattern]]``. PEERS is one name or
several joined by commas: uncertainty_toolbox, properscoring, scipy, sklearn, netcal, torchmetrics,
survival, calibration. A pattern such as "ece" selects functions. Each is called with 1,000 and 100,000
rows, alternately with ours in one process, with the construction of the prediction as a user pays it.
The tables (`benchmarks.peers.functions`) say what has no counterpart.
"""

from __future__ import annotations

import importlib
import sys
import warnings

import numpy as np

from benchmarks.peers.functions.pairs import Pair
from benchmarks.peers.timing import alternate, report

SIZES = 1_000, 100_000
# Repetitions, seconds for one function and size, and seconds beyond which a slow peer runs once.
TIMING = {"most": 25, "patience": 0.5, "least": 3, "longest": 10.0}


def difference(pair: Pair) -> float:
    """Return the largest difference of the two results, after a check that they agree."""
    ours, theirs = pair.ours(), pair.theirs()
    if pair.rtol is None:
        return np.nan
    one, other = (np.asarray(pair.value(v), dtype=np.float64) for v in (ours, theirs))
    np.testing.assert_allclose(one, other, rtol=pair.rtol, atol=pair.atol, err_msg=pair.note)
    return float(np.nanmax(np.abs(one - other), initial=0.0))


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main(peers: str, _: str = "", pattern: str = "") -> None:
    """Print milliseconds, ratios (ours over theirs, of least and of median times) and differences."""
    warnings.simplefilter("ignore")
    rows, packages, wrong = [], [], []
    for peer in peers.split(","):
        table = importlib.import_module(f"benchmarks.peers.functions.of_{peer}")
        packages += table.PACKAGES
        sets = {n: table.pairs(np.random.default_rng(0), n) for n in SIZES}
        for name in sets[SIZES[0]]:
            if pattern not in name:
                continue
            row = {"function": name}
            for n in SIZES:
                pair = sets[n][name]
                if n > pair.largest:
                    continue
                with np.errstate(all="ignore"):
                    try:
                        row["difference"] = difference(pair)
                    except AssertionError as error:
                        wrong.append(f"{name}, {n} rows: {error}")
                    ours, theirs = alternate([pair.ours, pair.theirs], **TIMING).T
                row[f"ours {n:,}, ms"] = 1e3 * float(ours.min())
                row[f"theirs {n:,}, ms"] = 1e3 * float(theirs.min())
                row[f"ratio {n:,}"] = float(ours.min() / theirs.min())
                row[f"median {n:,}"] = float(np.median(ours) / np.median(theirs))
            row["note"] = sets[SIZES[0]][name].note
            rows.append(row)
            print(*(_short(value) for value in row.values()), file=sys.stderr, flush=True)
        for name, reason in table.NO_COUNTERPART.items():
            print(f"no counterpart: {peer}.{name}: {reason}")
    sys.argv[1:] = sys.argv[2:3]
    report(rows, tuple(packages))
    if wrong:
        raise SystemExit("\n".join(["results differ:", *wrong]))


if __name__ == "__main__":
    main(*sys.argv[1:4])
