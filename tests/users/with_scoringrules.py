"""The scores that scoringrules computes."""

import numpy as np
import scoringrules as sr

import fastmcmd as fm

rng = np.random.default_rng(0)
obs = rng.normal(size=500)
ensemble = obs[:, None] + rng.normal(size=(500, 20))

pairs = {
    "CRPS": (sr.crps_ensemble(obs, ensemble), fm.metrics.crps(obs, ensemble)),
    "fair CRPS": (
        sr.crps_ensemble(obs, ensemble, estimator="fair"),
        fm.metrics.crps(obs, ensemble, estimator="fair"),
    ),
    "CRPS of a normal": (
        sr.crps_normal(obs, 0.0, 1.0),
        fm.crps(obs, fm.Normal(np.zeros(500), 1.0)),
    ),
    "log score": (sr.logs_normal(obs, 0.0, 1.0), fm.metrics.log_score(obs, (np.zeros(500), 1.0))),
    "threshold-weighted CRPS": (
        sr.twcrps_ensemble(obs, ensemble, a=0.0, b=np.inf),
        fm.metrics.weighted_crps(obs, ensemble, lower=0.0),
    ),
    "interval score": (
        sr.interval_score(obs, obs - 1, obs + 2, 0.1),
        fm.metrics.interval_score(
            obs, fm.Quantiles([0.05, 0.95], np.stack([obs - 1, obs + 2], 1)), level=0.9
        ),
    ),
}
for name, (theirs, ours) in pairs.items():
    print(name, np.abs(theirs - ours).max())
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-12)

vectors, members = rng.normal(size=(100, 3)), rng.normal(size=(100, 20, 3))
np.testing.assert_allclose(
    sr.es_ensemble(vectors, members), fm.metrics.energy_score(vectors, members), rtol=1e-9
)
weights = rng.uniform(size=(100, 20))  # of the members
np.testing.assert_allclose(
    sr.es_ensemble(vectors, members, ens_w=weights),
    fm.metrics.energy_score(vectors, members, ens_weight=weights),
    rtol=1e-9,
)
np.testing.assert_allclose(
    sr.vs_ensemble(vectors, members), fm.metrics.variogram_score(vectors, members), rtol=1e-9
)
print(fm.evaluate(obs, ensemble))
