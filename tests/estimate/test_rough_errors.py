"""Trace errors far above the goal come from an earlier fit, and are close to those of their own fit."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.estimate.candidate_problem import CandidateProblem


@pytest.mark.parametrize("weighted", [False, True])
def test_rough_errors_are_close_to_those_of_a_fit(monkeypatch, weighted):
    rng = np.random.default_rng(3)
    n, d = 30_000, 4
    x = rng.normal(size=(n, d))
    x[rng.choice(n, 40, replace=False)] += 30.0 * rng.normal(size=(40, d))  # isolated rows
    y, draws = np.sin(x[:, 0]) + rng.normal(size=(2, n))
    ratios, original = [], CandidateProblem.rough_errors

    def compared(problem):
        rough, before = original(problem), problem.fit
        if rough is not None:
            ratios.append(rough / problem.errors("rigorous"))
            problem.fit = before
        return rough

    monkeypatch.setattr(CandidateProblem, "rough_errors", compared)
    options = {"weights": rng.uniform(0.1, 3.0, n)} if weighted else {}
    result = fm.cce(
        x, y, draws, x_kernel=fm.RBF(0.1), y_kernel=fm.RBF(0.5), lam=0.1, tol=1e-3,
        solver="lowrank", **options,
    )  # fmt: skip
    assert result.error_bound <= 1e-3
    assert len(ratios) >= 2
    np.testing.assert_allclose(ratios, 1.0, rtol=0.02)
