"""The bound covers rounding for output kernels so flat that outputs look equal in float64."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm

X_KERNEL, LAM = fm.RBF(0.5), 1e-5


def small_gamma_cce(x, y, mean, gamma):
    """For gamma to 0, the CCE of ``exp(-gamma (y - z)^2)`` is ``sqrt(2 gamma) |sum a_i (y_i - m_i)|``."""
    n = len(y)
    k = X_KERNEL(x)
    a = np.linalg.solve(k + n * LAM * np.eye(n), k)
    return np.sqrt(2 * gamma) * np.abs(a.T @ (y - mean))


@pytest.mark.parametrize("solver", ["cholesky", "cg", "lowrank"])
@pytest.mark.parametrize("gamma", [1e-14, 1e-17, 1e-18, 1e-30])
@pytest.mark.parametrize("predicted", ["draws", "densities"])
def test_what_rounding_hides_is_in_the_bound(rng, solver, gamma, predicted):
    """Different outputs had equal features and were taken for equal outputs, with a bound of 0."""
    x, y, draws = rng.normal(size=(40, 2)), rng.normal(size=40), rng.normal(size=(40, 3))
    prediction = draws if predicted == "draws" else fm.Gaussian(draws[:, 0], 0.5)
    mean = draws.mean(axis=1) if predicted == "draws" else draws[:, 0]
    result = fm.cce(
        x,
        y,
        prediction,
        x_kernel=X_KERNEL,
        y_kernel=fm.RBF(gamma),
        lam=LAM,
        solver=solver,
        tol=1e-3,
    )
    truth = small_gamma_cce(x, y, mean, gamma)
    assert np.all(np.abs(result.values - truth) <= result.error_bounds)


@pytest.mark.parametrize("solver", ["cholesky", "cg", "lowrank"])
@pytest.mark.parametrize("draws", [1, 4])
def test_outputs_that_are_the_same_leave_nothing(rng, solver, draws):
    x, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    result = fm.cce(
        x, y, np.repeat(y[:, None], draws, axis=1), x_kernel=X_KERNEL, y_kernel=fm.RBF(0.5), lam=LAM,
        solver=solver,
    )  # fmt: skip
    assert np.all(result.values <= result.error_bounds)
    if draws == 1:
        assert result.error_bound < 1e-12
