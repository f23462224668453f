"""The dense form of small samples agrees with the definition and the feature form."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.solvers import System, certify
from fastmcmd.solvers.base import scaled_norm

X_KERNEL, Y_KERNEL, LAM = fm.RBF(0.25), 0.5 * fm.RBF(0.5) + 0.5 * fm.RBF(2.0), 0.1


def expectation(mean, std, other_mean, other_std):
    """Return E k(Y, Y') of normal numbers for `Y_KERNEL`, by Gauss-Hermite quadrature of the difference."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    gap = mean[:, None] - other_mean[None, :]
    spread = np.sqrt(std[:, None] ** 2 + other_std[None, :] ** 2)
    total = np.zeros_like(gap)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        square = (gap + spread * node) ** 2
        total += weight * (0.5 * np.exp(-0.5 * square) + 0.5 * np.exp(-2.0 * square))
    return total


def definition(x, y, mean, std, at):
    """Return the CCE at points, from solutions at each of them and all pairs of outputs."""
    n = len(x)
    a = np.linalg.solve(X_KERNEL(x) + n * LAM * np.eye(n), X_KERNEL(x, at))
    zero = np.zeros(n)
    pairs = (
        expectation(y, zero, y, zero)
        + expectation(mean, std, mean, std)
        - expectation(y, zero, mean, std)
        - expectation(mean, std, y, zero)
    )
    return np.sqrt(np.einsum("iq,ij,jq->q", a, pairs, a))


def sample(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    mean = x[:, 0] + 0.1 * rng.normal(size=n)
    return x, x[:, 0] + 0.5 * rng.normal(size=n), mean, rng.uniform(0.3, 0.6, n)


@pytest.mark.parametrize("n", [1, 2, 31, 33, 64, 150])
@pytest.mark.parametrize("spread", [False, True], ids=["draw", "gaussian"])
def test_values_are_within_their_bounds(n, spread):
    x, y, mean, std = sample(n)
    prediction = fm.Gaussian(mean, std) if spread else fm.Draws(mean[:, None])
    at = np.concatenate([x, x[:5] + 0.3])
    result = fm.cce(x, y, prediction, at, X_KERNEL, Y_KERNEL, LAM)
    assert result.info.form == ("dense" if spread or n <= 64 else "feature")
    assert result.info.certificate == "rigorous"
    assert result.error_bound <= 1e-6
    expected = definition(x, y, mean, std if spread else np.zeros(n), at)
    assert (np.abs(result.values - expected) <= result.error_bounds + 1e-12).all()


@pytest.mark.parametrize("n", [50, 400])
def test_a_fit_that_stays_keeps_features(n):
    """An estimator may evaluate any number of points, for which features cost less."""
    x, y, mean, std = sample(n)
    prediction = fm.Gaussian(mean, std)
    settings = {"x_kernel": X_KERNEL, "y_kernel": Y_KERNEL, "lam": LAM}
    stays = fm.ConditionalCongruence(**settings).fit(x, y, prediction).result_
    once = fm.cce(x, y, prediction, **settings)
    assert stays.info.form == "feature"
    assert once.info.form == ("dense" if n == 50 else "feature")
    off = np.abs(stays.values - once.values)
    assert (off <= stays.error_bounds + once.error_bounds).all()


def test_many_points_or_draws_take_features():
    x, y, mean, std = sample(50)
    rng = np.random.default_rng(1)
    settings = {"x_kernel": X_KERNEL, "y_kernel": Y_KERNEL, "lam": LAM}
    many = fm.cce(x, y, fm.Gaussian(mean, std), rng.normal(size=(20_000, 2)), **settings)
    draws = fm.cce(x, y, fm.Draws(mean[:, None] + rng.normal(size=(50, 40))), **settings)
    assert many.info.form == draws.info.form == "feature"


def test_what_the_caller_chooses_stands():
    x, y, mean, std = sample(50)
    prediction = fm.Gaussian(mean, std)
    for choice in ({"solver": "cg"}, {"solver": "cholesky"}, {"dtype": "float32"}):
        assert fm.cce(x, y, prediction, **choice).info.form == "feature"


def test_values_do_not_depend_on_threads():
    x, y, mean, std = sample(120)
    values = []
    for threads in (1, 2):
        fm.set_num_threads(threads)
        values.append(fm.cce(x, y, fm.Gaussian(mean, std)).values)
    fm.set_num_threads(None)
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("size", [1e-18, 1e-3])
def test_the_certificate_is_at_least_the_scaled_residual(size):
    """Also if it is that of the Frobenius norm, which takes the place of a norm below the rounding."""
    rng = np.random.default_rng(0)
    x, shift, rhs = rng.normal(size=(40, 2)), rng.uniform(1, 5, 40), rng.normal(size=(40, 7))
    operator = GramOperator(get_backend("auto", fm.RBF(0.5)), fm.RBF(0.5), x, EXACT, 10**8)
    matrix = fm.RBF(0.5)(x) + np.diag(shift)
    value = np.linalg.solve(matrix, rhs) + size * rng.normal(size=rhs.shape)
    (solution,), (residual,) = certify.exact(operator, [System(rhs, shift)], [value])
    exact = scaled_norm(rhs - matrix @ value, shift)
    certificate = solution.certificate
    assert exact <= certificate.residual <= exact + 3 * certificate.rounding
    np.testing.assert_allclose(residual, rhs - matrix @ value, atol=1e-14)


@pytest.mark.parametrize("spread", [False, True], ids=["draw", "gaussian"])
def test_the_bound_holds_where_squares_underflow(spread):
    """A Laplacian kernel decays by one factor beyond all inputs, and so does the CCE: to 1e-174 here."""
    x, y, mean = np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([1.0, 0.3])
    prediction = fm.Gaussian(mean, 0.4) if spread else fm.Draws(mean[:, None])
    near = fm.cce(x, y, prediction, np.array([1.0]), fm.Laplacian(1.0), fm.RBF(1.0), LAM)
    far = fm.cce(x, y, prediction, np.array([400.0]), fm.Laplacian(1.0), fm.RBF(1.0), LAM)
    assert near.info.form == far.info.form == "dense"
    expected = near.values * np.exp(-399.0)
    assert (np.abs(far.values - expected) <= far.error_bounds).all()
    assert far.error_bound < 1e-150
