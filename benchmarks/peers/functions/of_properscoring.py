"""properscoring: all of its functions."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm
from benchmarks.peers.functions.pairs import Pair, regression
from fastmcmd import metrics

PACKAGES = ("properscoring",)
NO_COUNTERPART: dict[str, str] = {}
THRESHOLDS = [-0.5, 0.0, 0.5]


def pairs(rng, n):
    """Return pairs by name."""
    import properscoring as ps
    from scipy import stats

    y, mean, std = regression(rng, n)
    members = mean[:, None] + std[:, None] * rng.normal(size=(n, 20))
    weights = rng.random((n, 20))
    weights /= weights.sum(axis=1, keepdims=True)
    p = rng.random(n)
    event = (rng.random(n) < p).astype(np.float64)
    some = slice(0, 200)  # one adaptive quadrature a row
    rows_of_scipy = [stats.norm(m, s) for m, s in zip(mean[some], std[some], strict=True)]
    return {
        "brier_score": Pair(
            lambda: fm.classification.brier_score(event, p), lambda: ps.brier_score(event, p)
        ),
        "crps_gaussian": Pair(
            lambda: metrics.crps(y, (mean, std)), lambda: ps.crps_gaussian(y, mean, std)
        ),
        "crps_ensemble": Pair(
            lambda: metrics.crps(y, members), lambda: ps.crps_ensemble(y, members), rtol=1e-7
        ),
        "crps_ensemble, weights": Pair(
            lambda: metrics.crps(y, fm.WeightedDraws(members, weights)),
            lambda: ps.crps_ensemble(y, members, weights),
            rtol=1e-7,
        ),
        "threshold_brier_score": Pair(
            lambda: metrics.threshold_brier_score(y, members, thresholds=THRESHOLDS),
            lambda: ps.threshold_brier_score(y, members, np.asarray(THRESHOLDS)),
        ),
        "threshold_brier_score, one threshold": Pair(
            lambda: metrics.threshold_brier_score(y, members, thresholds=[0.0])[..., 0],
            lambda: ps.threshold_brier_score(y, members, 0.0),
        ),
        "crps_quadrature, 200 rows": Pair(
            lambda: metrics.crps(y[some], stats.norm(mean[some], std[some])),
            lambda: [ps.crps_quadrature(*row) for row in zip(y[some], rows_of_scipy, strict=True)],
            rtol=1e-3,
            atol=1e-4,
            largest=1_000,
        ),
    }
