"""Errors that the search for landmarks predicts, against those that a pass over all rows certifies."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.estimate import landmark_choice


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "by_norm"), [(0, False), (1, False), (0, True)])
def test_the_predicted_error_is_that_of_all_rows(seed, by_norm, monkeypatch):
    predicted = []
    errors = landmark_choice.CandidateProblem.errors

    def recorded(self, kind):
        result = errors(self, kind)
        predicted.append((self.search.rank, float(result[0]) * self.problem.setting.goal))
        return result

    monkeypatch.setattr(landmark_choice, "CANDIDATES", 1500)
    monkeypatch.setattr(landmark_choice, "_FEW", 1500)
    monkeypatch.setattr(landmark_choice.CandidateProblem, "errors", recorded)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6000, 4))
    if by_norm:  # the tails at the end
        x = x[np.argsort((x**2).sum(axis=1))]
    mean = np.sin(x[:, 0])
    y = mean + 0.3 * rng.standard_normal(6000)
    options = {"x_kernel": fm.RBF(1 / 8), "lam": 0.1, "solver": "lowrank", "certificate": "sampled"}
    certified = fm.cce(x, y, fm.Gaussian(mean, 0.3), tol=1e-3, **options)
    rank, error = predicted[-1]
    assert rank == certified.info.landmarks
    ratio = error / certified.error_bounds.max()
    # Those of the candidates themselves are a quarter or less: the tails hold isolated rows.
    assert 1 / 2 < ratio < 2
