"""Output kernels that jump at 0, with predictions that are integrated by quadrature."""

import warnings

import numpy as np
import pytest

import fastmcmd as fm

N = 60
ONES = np.ones(N)
FAMILIES = {
    "Laplace": fm.Laplace(0.2 * ONES, 1.0),
    "Student t": fm.StudentT(5 * ONES, 0.2, 1.0),
    "Uniform": fm.Uniform(-1 * ONES, 2.0),
    "mixture": fm.Mixture([fm.Laplace(0.2 * ONES, 1.0), fm.Uniform(-1 * ONES, 2.0)], [0.4, 0.6]),
    "Gaussian": fm.Gaussian(0.2 * ONES, 1.0),
}


def outcomes():
    rng = np.random.default_rng(0)
    return rng.standard_normal(N), rng.standard_normal(N) + 0.3


@pytest.mark.parametrize("name", FAMILIES)
def test_sum_with_cosine_is_the_sum_of_squares(name):
    """Squared CCEs add up under a constant input kernel; the bound was 1e-10 for an error of 3e-3."""
    x, y = outcomes()
    results, bound = {}, 0.0
    for key, kernel in {
        "signs": fm.Cosine(), "rbf": fm.RBF(0.5), "both": 0.7 * fm.Cosine() + fm.RBF(0.5)
    }.items():  # fmt: skip
        result = fm.cce(x, y, FAMILIES[name], x_kernel=fm.Constant(1.0), y_kernel=kernel, lam=0.01)
        results[key], bound = result.values[0], bound + result.error_bounds[0]
    expected = np.sqrt(0.7 * results["signs"] ** 2 + results["rbf"] ** 2)
    assert abs(results["both"] - expected) <= bound <= 1e-5
    signs = np.mean(np.sign(y)) - (1 - 2 * FAMILIES[name].cdf(np.zeros(N))[0])
    assert results["signs"] == pytest.approx(abs(signs) / 1.01, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("form", ["feature", "dense"])
def test_product_with_cosine_is_within_its_bound(name, form):
    x, y = outcomes()
    prediction = FAMILIES[name]
    kernel = fm.Cosine() * fm.RBF(0.5 if form == "feature" else 2e5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        result = fm.cce(x, y, prediction, x_kernel=fm.Constant(1.0), y_kernel=kernel, lam=0.01)
    levels = (np.arange(2_000) + 0.5) / 2_000
    nodes = prediction.take(np.array([0])).quantile(levels)[0]
    cross, self_term = kernel(y, nodes).mean(), kernel(nodes, nodes).mean()
    truth = np.sqrt(max(kernel(y, y).mean() - 2 * cross + self_term, 0.0)) / 1.01
    assert abs(result.values[0] - truth) <= result.error_bounds[0] + 3e-3
