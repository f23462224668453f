"""Where is a model wrong? The README's example, with the answer checked."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, 2000)
y = np.sin(x) + (0.1 + 0.15 * np.abs(x)) * rng.normal(size=2000)

# A model that has the right mean and a constant standard deviation.
prediction = fm.Gaussian(np.sin(x), 0.35)

result = fm.cce(x, y, prediction)
print(result)
print("best calibrated near x =", round(float(x[result.values.argmin()]), 2))

congruence = fm.ConditionalCongruence().fit(x, y, prediction)
print("CCE at new, unlabelled inputs:", congruence.score_samples([0.0, 1.5, 3.0]).round(3))
h = congruence.witness([0.0], np.linspace(-1, 1, 5))
print("at x = 0 the model puts too much mass where this is negative:", h.round(3))

scores = congruence.score_samples([0.0, 1.5, 3.0])
assert scores[1] < scores[0]
assert scores[1] < scores[2]
assert result.error_bound <= 1e-6
