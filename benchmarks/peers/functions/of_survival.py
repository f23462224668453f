"""scikit-survival and lifelines: concordance, censoring and Brier scores of survival."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm
from benchmarks.peers.functions.pairs import Pair
from fastmcmd import metrics

PACKAGES = ("scikit-survival", "lifelines")
NO_COUNTERPART = {
    "cumulative_dynamic_auc": "no ROC curves of survival here",
    "lifelines: estimators and fitters": "fastmcmd judges predictions, it fits none",
}
TIMES = np.linspace(0.1, 1.5, 10)


def pairs(rng, n):
    """Return pairs by name."""
    import lifelines
    from lifelines.utils import concordance_index
    from sksurv import metrics as sm
    from sksurv import nonparametric
    from sksurv.util import Surv

    rate = rng.lognormal(sigma=0.5, size=n)
    life, censoring = rng.exponential(1 / rate), rng.exponential(2.0, n)
    event, y = life <= censoring, np.minimum(life, censoring)
    y = np.where(y < y.max(), y, y.max())
    risk, predicted = rate, 1 / rate
    surv = Surv.from_arrays(event, y)
    survival = np.exp(-rate[:, None] * TIMES)
    limit = float(np.quantile(y, 0.95))
    return {
        "sksurv.concordance_index_censored": Pair(
            lambda: metrics.concordance_index(y, predicted, event=event),
            lambda: sm.concordance_index_censored(event, y, risk)[0],
            largest=10_000,
            note="theirs grows like n squared",
        ),
        "sksurv.concordance_index_ipcw": Pair(
            lambda: metrics.concordance_index(
                y, predicted, event=event, weighting="uno", tau=limit
            ),
            lambda: sm.concordance_index_ipcw(surv, surv, risk, tau=limit)[0],
            largest=10_000,
            rtol=1e-3,
            note="G(t) there, G(t-) here; theirs grows like n squared",
        ),
        "lifelines.concordance_index": Pair(
            lambda: metrics.concordance_index(y, predicted, event=event),
            lambda: concordance_index(y, predicted, event),
        ),
        "sksurv.brier_score": Pair(
            lambda: metrics.ipcw_brier_score(y, fm.Exponential(rate), event=event, times=TIMES),
            lambda: sm.brier_score(surv, surv, survival, TIMES)[1],
            rtol=1e-3,
            atol=1e-3,
            note="G(t) there, G(t-) here; survival probabilities are ready there",
        ),
        "sksurv.integrated_brier_score": Pair(
            lambda: metrics.integrated_ipcw_brier_score(
                y, fm.Exponential(rate), event=event, times=TIMES
            ),
            lambda: sm.integrated_brier_score(surv, surv, survival, TIMES),
            rtol=1e-3,
            atol=1e-3,
        ),
        "sksurv.kaplan_meier_estimator": Pair(
            lambda: metrics.kaplan_meier(y, event),
            lambda: nonparametric.kaplan_meier_estimator(event, y),
            value=lambda v: v[1][len(v[1]) // 2],
            rtol=None,
        ),
        "lifelines.KaplanMeierFitter": Pair(
            lambda: metrics.kaplan_meier(y, event),
            lambda: lifelines.KaplanMeierFitter().fit(y, event),
            rtol=None,
        ),
    }
