"""A record of the checked problems, one line each: runs resume from it, and results add up.

Shards write to files of their own; ``congruence.py --sum FILE FILE ...`` adds them up.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np


def line(out):
    """Return one outcome as a line of JSON."""
    fields = {
        "seed": out.seed,
        "kinds": [kind for kind, _ in out.violations],
        "slow": out.slow,
        "refusal": out.refusal.split(":")[0],
        "certificate": out.certificate,
        "decided": out.decided,
        "useless": out.useless,
        "seconds": [round(float(s), 4) for s in out.seconds],
        "oracle": None if not np.isfinite(out.oracle) else float(out.oracle),
    }
    return json.dumps(fields) + "\n"


def read(paths):
    """Return the contents of files, the newest line of each seed; a line cut short by a kill is dropped."""
    records = {}
    for path in paths:
        if not Path(path).exists():
            continue
        for text in Path(path).read_text().splitlines():
            try:
                record = json.loads(text)
            except ValueError:
                continue
            records[record["seed"]] = record
    return list(records.values())


def summary(records):
    """Return the counts of recorded outcomes as text."""
    kinds = Counter(kind for one in records for kind in one["kinds"])
    certified = Counter(one["certificate"] for one in records if one["certificate"])
    refusals = Counter(one["refusal"] for one in records if one["refusal"])
    slow = sum(bool(one["slow"]) for one in records)
    timed = [one for one in records if one["seconds"][1]]
    times = np.array([one["seconds"] for one in timed] or [(0.0, 0.0)])
    ratio = np.array([one["oracle"] for one in records if one["oracle"] is not None] or [np.nan])
    total = max(len(records), 1)
    return "\n".join([
        f"{len(records):,} problems; violations: {dict(kinds) or 'none'}",
        f"  certificates: {dict(certified)}; refusals: {dict(refusals)}; not decided by the reference: "
        f"{sum(not one['decided'] for one in records)}",
        f"  slow: {slow} ({slow / total:.1%}); bound above every value and tol: "
        f"{sum(one['useless'] for one in records)}",
        f"  error of the reference / bound: median {np.median(ratio):.1e}, "
        f"90 % {np.quantile(ratio, 0.9):.1e}",
        f"  processor seconds a problem (fastmcmd, reference): median {np.median(times[:, 0]):.3f}, "
        f"{np.median(times[:, 1]):.3f}; mean {times[:, 0].mean():.3f}, {times[:, 1].mean():.3f}; "
        f"largest {times[:, 0].max():.1f}, {times[:, 1].max():.1f}",
    ])  # fmt: skip
