"""Errors that the search for landmarks predicts, against those that a pass over all rows certifies."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.estimate import landmark_choice


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
def test_predicted_errors_are_those_of_rows_unlike_the_candidates(seed, monkeypatch):
    predicted = []
    errors = landmark_choice.CandidateProblem.errors

    def recorded(self, kind):
        result = errors(self, kind)
        predicted.append((self.search.rank, float(result[0]) * self.problem.setting.goal))
        return result

    monkeypatch.setattr(landmark_choice, "CANDIDATES", 1500)
    monkeypatch.setattr(landmark_choice.CandidateProblem, "errors", recorded)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((6000, 4))
    x[rng.choice(6000, 60, replace=False)] *= 2  # isolated rows: few of them are candidates
    mean = np.sin(x[:, 0])
    y = mean + 0.3 * rng.standard_normal(6000)
    options = {"x_kernel": fm.RBF(1 / 8), "lam": 0.1, "solver": "lowrank", "certificate": "sampled"}
    result = fm.cce(x, y, fm.Gaussian(mean, 0.3), tol=2e-3, **options)
    rank, error = predicted[-1]
    certified = fm.cce(x, y, fm.Gaussian(mean, 0.3), rank=rank, tol=2e-3, **options)
    ratio = error / certified.error_bounds.max()
    assert 1 / 4 < ratio < 4
    assert result.error_bounds.max() < 4e-3
