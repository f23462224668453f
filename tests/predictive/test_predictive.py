"""Predicted distributions agree with scipy.stats, and their kernel expectations with quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.predictive import Draws, ScipyPredictive, as_predictive
from fastmcmd.predictive.expectation import closed_form_pairs

# Distributions of three inputs, and the same in scipy.stats.
PAIRS = {
    "gaussian": (fm.Gaussian([0.0, -2.0, 1e4], [1.0, 0.3, 20.0]), stats.norm([0, -2, 1e4], [1, 0.3, 20])),
    "poisson": (fm.Poisson([0.3, 4.0, 1e4]), stats.poisson([0.3, 4.0, 1e4])),
    "negbin": (
        fm.NegativeBinomial([0.3, 4.0, 300.0], [2.0, 0.5, 0.1]),
        stats.nbinom([0.5, 2.0, 10.0], [1 / 1.6, 1 / 3.0, 1 / 31.0]),
    ),
    "student": (as_predictive(stats.t([2.0, 5.0, 1.0], loc=1.0), 3), stats.t([2, 5, 1], loc=1)),
    "binomial": (as_predictive(stats.binom(10, [0.1, 0.5, 1.0]), 3), stats.binom(10, [0.1, 0.5, 1.0])),
}  # fmt: skip
KERNELS = {
    "rbf": fm.RBF(0.7),
    "laplacian": fm.Laplacian(1.3),
    "matern12": fm.Matern(0.5, 0.8),
    "matern32": fm.Matern(1.5, 0.8),
    "matern52": fm.Matern(2.5, 0.8),
    "linear": fm.Linear(),
    "polynomial": fm.Polynomial(3, 0.5, 1.0),
    "quintic": fm.Polynomial(5, 0.1, 1.0),
    "cosine": fm.Cosine(),
    "sum": fm.RBF(0.7) + 0.5 * fm.Laplacian(1.3) + 2.0,
    "product": fm.RBF(0.7) * fm.RBF(0.2),
    "mixed": fm.RBF(0.7) * fm.Laplacian(0.4),
    "distributed": (fm.RBF(0.7) + fm.Constant(0.5)) * fm.Constant(2.0),
    "nested": (fm.Laplacian(0.7) + fm.Linear()) * (fm.Constant(2.0) + fm.Constant(1.0)),
}
POINTS = np.array([-2.5, 0.0, 0.4, 3.0])


def panels(ends, order=40):
    """Return Gauss-Legendre nodes and weights over all panels between sorted ends."""
    ends = np.unique(ends)
    nodes, weights = np.polynomial.legendre.leggauss(order)
    width = np.diff(ends)[:, None]
    return (ends[:-1, None] + width * (nodes + 1) / 2).ravel(), (width / 2 * weights).ravel()


def integral(frozen, kernel, z):
    """Integrate in probability, in panels that crowd at both ends and at the kink at z."""
    small = [*np.logspace(-15, -1, 43), 0.2, 0.3, 0.4, 0.5]
    u, weights = panels([0.0, *small, *np.clip([frozen.cdf(z)], 0, 0.5)])
    v, upper = panels([0.0, *small, *np.clip([frozen.sf(z)], 0, 0.5)])
    low = kernel(frozen.ppf(u), [z])[:, 0]
    return float(weights @ low + upper @ kernel(frozen.isf(v), [z])[:, 0])


def gaussian_integral(mean, std, kernel, z):
    """Integrate over outputs: panels by the density, and by the kernel around z and 0."""
    around = np.concatenate([[0], np.logspace(-2, 2, 25)])
    y, weights = panels(
        [*(mean + std * np.linspace(-14, 14, 113)), *(z + around), *(z - around), 0.0]
    )
    return float((weights * stats.norm(mean, std).pdf(y)) @ kernel(y, [z])[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_methods_agree_with_scipy(name):
    ours, theirs = PAIRS[name]
    assert len(ours) == 3
    assert ours.shape == (3,)
    has_mean = np.isfinite(theirs.mean())  # SciPy calls the mean of a Cauchy distribution infinite
    np.testing.assert_array_equal(np.isfinite(ours.mean), has_mean)
    np.testing.assert_allclose(ours.mean[has_mean], theirs.mean()[has_mean], rtol=1e-13)
    np.testing.assert_allclose(ours.variance, theirs.var(), rtol=1e-12)
    np.testing.assert_allclose(ours.std, theirs.std(), rtol=1e-12)
    levels = [0.01, 0.3, 0.5, 0.99]
    expected = np.stack([theirs.ppf(level) for level in levels], axis=1)
    np.testing.assert_allclose(ours.quantile(levels), expected, rtol=1e-12)
    np.testing.assert_array_equal(ours.quantile(0.5), ours.quantile(levels)[:, 2])
    logs = theirs.logpmf if ours.discrete else theirs.logpdf
    for y in [*expected.T, expected[:, 0] + 1, np.full(3, -1.0)]:
        np.testing.assert_allclose(ours.cdf(y), theirs.cdf(y), rtol=1e-10, atol=1e-15)
        np.testing.assert_allclose(ours.log_prob(y), logs(y), rtol=1e-9)
        below = theirs.cdf(y - 1) if ours.discrete else theirs.cdf(y)
        np.testing.assert_allclose(ours.cdf_below(y), below, rtol=1e-10, atol=1e-15)
    part = ours.take(np.array([2, 0]))
    np.testing.assert_array_equal(part.quantile(0.3), ours.quantile(0.3)[[2, 0]])


@pytest.mark.parametrize("name", PAIRS)
def test_samples_follow_the_distribution(name):
    ours, theirs = PAIRS[name]
    draws = ours.sample(4000, 0)
    assert draws.shape == (3, 4000)
    np.testing.assert_array_equal(draws, ours.sample(4000, 0))
    for row, middle in zip(draws, theirs.ppf(0.5), strict=True):
        share = ((row <= middle) - 0.0).mean()
        expected = theirs.cdf(middle)[list(theirs.ppf(0.5)).index(middle)]
        assert abs(share - expected) < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize("name", ["poisson", "negbin", "binomial"])
def test_counts_between_whole_numbers(name):
    ours, theirs = PAIRS[name]
    assert (ours.log_prob([0.5, 1.5, 2.5]) == -np.inf).all()
    np.testing.assert_allclose(ours.cdf([1.5, 1.5, 1.5]), theirs.cdf(1), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        ours.cdf_below([1.5, 1.5, 1.5]), theirs.cdf(1), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_array_equal(ours.cdf_below([0.0, 0.0, 0.0]), 0.0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("mean", "std"), [(0.3, 1.0), (-1.0, 1e-3), (2.0, 40.0)])
def test_gaussian_expectations(kernel, mean, std):
    # RBF times Laplacian has no closed form here, and a kink, where quadrature converges slowly.
    tolerance = 2e-6 if kernel == "mixed" else 2e-13
    kernel = KERNELS[kernel]
    expectations = fm.Gaussian([mean], std).expected_kernel(kernel, POINTS)[0]
    expected = [gaussian_integral(mean, std, kernel, z) for z in POINTS]
    np.testing.assert_allclose(expectations, expected, rtol=1e-12, atol=tolerance)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear", "polynomial", "product"])
def test_vector_gaussian_expectations(kernel, rng):
    """Agree with Monte Carlo: within five standard errors at each of 12 points."""
    prediction = fm.Gaussian(rng.normal(size=(3, 2)), rng.uniform(0.3, 1, size=(3, 2)))
    points = rng.normal(size=(4, 2))
    kernel = KERNELS[kernel]
    expectations = prediction.expected_kernel(kernel, points)
    draws = prediction.sample(40_000, 1)
    for row in range(3):
        values = kernel(draws[row], points)
        error = 5 * values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(expectations[row] - values.mean(axis=0)) <= error).all()


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern32", "matern52", "linear", "sum"])
def test_pairs_of_gaussians(kernel, rng):
    """Compute E k(Y, Y') by integrating E k(Y, z) over the other one."""
    kernel = KERNELS[kernel]
    one = fm.Gaussian(rng.normal(size=3), rng.uniform(0.1, 2, size=3))
    other = fm.Gaussian([0.5, -1.0], [0.7, 0.3])
    expectation = closed_form_pairs(one, kernel, other)
    for j in range(2):
        z, weights = panels(other.mean[j] + other.std[j] * np.linspace(-12, 12, 97))
        weights = weights * stats.norm(other.mean[j], other.std[j]).pdf(z)
        np.testing.assert_allclose(
            expectation[:, j], one.expected_kernel(kernel, z) @ weights, rtol=1e-12, atol=1e-13
        )
    assert closed_form_pairs(one, KERNELS["mixed"], other) is None
    assert closed_form_pairs(one, fm.RBF(1.0), fm.Poisson([1.0])) is None
    assert (closed_form_pairs(one, fm.Delta(), other) == 0).all()


def test_vector_gaussian_without_closed_form(rng):
    """Two components use a product grid; more raise an error with advice."""
    prediction = fm.Gaussian(rng.normal(size=(2, 2)), 0.5)
    kernel, points = fm.RBF(0.3) * fm.Linear(), rng.normal(size=(3, 2))
    expectations = prediction.expected_kernel(kernel, points)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(z, z, indexing="ij"), -1).reshape(-1, 2)
    weight = np.outer(w, w).ravel() / (2 * np.pi)
    for row in range(2):
        expected = weight @ kernel(prediction.mean[row] + 0.5 * grid, points)
        np.testing.assert_allclose(expectations[row], expected, atol=1e-12)
    with pytest.raises(ValueError, match="3 components have no closed form"):
        fm.Gaussian(np.zeros((2, 3)), 1.0).expected_kernel(kernel, np.zeros((1, 3)))


@pytest.mark.slow
@given(
    mean=st.floats(-1e3, 1e3),
    std=st.floats(1e-9, 1e6),
    gap=st.floats(-50, 50),
    length=st.floats(1e-6, 1e6),
    nu=st.sampled_from([0.5, 1.5, 2.5]),
)
def test_matern_expectations_are_stable(mean, std, gap, length, nu):
    """At any scale: finite, in [0, 1], and never far from the narrow-Gaussian limit."""
    kernel = fm.Matern(nu, length)
    z = mean + gap * length
    (expectation,) = fm.Gaussian([mean], std).expected_kernel(kernel, [z])[0]
    assert 0 <= expectation <= 1 + 1e-14
    # |k'| <= 1 / length for nu = 1/2, less for the others: a bound by the mean distance.
    assert abs(expectation - kernel([mean], [z])[0, 0]) <= np.sqrt(2 * nu) * std / length + 1e-14


HEAVY_OR_SINGULAR = {
    "t2": stats.t(2.0),
    "cauchy": stats.cauchy(0.5, 2.0),
    "narrow kernel": stats.t(3.0, scale=100.0),
    "pole": stats.gamma(0.1),
    "two poles": stats.beta(0.5, 0.5),
    "jump": stats.uniform(-1.0, 2.0),
    "lognormal": stats.lognorm(1.5),
    "skewed": stats.skewnorm(6.0),
    "tiny": stats.logistic(0.0, 1e-6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY_OR_SINGULAR)
def test_quadrature_under_continuous_distributions(name):
    frozen = HEAVY_OR_SINGULAR[name]
    prediction = as_predictive(frozen, 1)
    values, weights = prediction.nodes()
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    assert values.shape == weights.shape == (1, prediction.node_count)
    for kernel, tolerance in ((fm.RBF(0.5), 2e-11), (fm.Laplacian(1.0), 2e-5)):
        expectations = prediction.expected_kernel(kernel, POINTS)[0]
        expected = [integral(frozen, kernel, z) for z in POINTS]
        np.testing.assert_allclose(expectations, expected, atol=tolerance)


@pytest.mark.parametrize("name", ["t2", "lognormal", "pole"])
def test_coarse_nodes_estimate_the_error(name):
    prediction = as_predictive(HEAVY_OR_SINGULAR[name], 1)
    kernel = fm.RBF(30.0)

    def total(nodes):
        return nodes[1][0] @ kernel(nodes[0][0], POINTS)

    expected = np.array([integral(HEAVY_OR_SINGULAR[name], kernel, z) for z in POINTS])
    error = np.abs(total(prediction.nodes()) - expected).max()
    estimate = np.abs(total(prediction.nodes()) - total(prediction.coarse_nodes())).max()
    assert error <= estimate + 1e-14


def test_moments_that_do_not_exist():
    heavy = as_predictive(stats.t(2.0), 4)
    assert np.isfinite(heavy.expected_kernel(fm.Linear(), [1.0])).all()
    with pytest.raises(ValueError, match=r"no finite moment of order 3.*bounded y_kernel"):
        heavy.expected_kernel(fm.Polynomial(3, 1.0), [1.0])
    with pytest.raises(ValueError, match="no finite moment of order 1"):
        as_predictive(stats.cauchy(), 4).expected_kernel(fm.Linear(), [1.0])
    exact = as_predictive(stats.gamma(3.0), 1).expected_kernel(fm.Polynomial(4, 1.0, 1.0), [0.5])
    expected = integrate.quad(lambda y: stats.gamma(3.0).pdf(y) * (0.5 * y + 1) ** 4, 0, 100)[0]
    assert exact[0, 0] == pytest.approx(expected, rel=1e-10)


COUNTS = {
    "poisson": (fm.Poisson([0.0, 0.2, 7.0]), [stats.poisson(m) for m in (0.0, 0.2, 7.0)]),
    "far apart": (fm.Poisson([1.0, 1e4]), [stats.poisson(1.0), stats.poisson(1e4)]),
    "shared by offset": (fm.Poisson([1500.0, 2200.0]), [stats.poisson(1500.0), stats.poisson(2200.0)]),
    "negbin": (
        fm.NegativeBinomial([0.5, 30.0], [1.3, 0.2]),
        [stats.nbinom(1 / 1.3, 1 / 1.65), stats.nbinom(5.0, 1 / 7.0)],
    ),
    "binomial": (as_predictive(stats.binom(12, 0.3), 2), [stats.binom(12, 0.3)] * 2),
    "geometric": (as_predictive(stats.geom([0.5, 0.02]), 2), [stats.geom(0.5), stats.geom(0.02)]),
    "half integers": (as_predictive(stats.poisson(3.0, loc=0.5), 1), [stats.poisson(3.0, loc=0.5)]),
    "negative": (as_predictive(stats.skellam(4.0, 9.0), 1), [stats.skellam(4.0, 9.0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial", "cosine", "delta"])
def test_sums_over_counts(name, kernel):
    """Agree with direct sums of SciPy's probabilities, whose own relative error is about 1e-13."""
    prediction, frozen = COUNTS[name]
    kernel = fm.Delta() if kernel == "delta" else KERNELS[kernel]
    weights = prediction.nodes()[1]
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-13)
    for row, one in enumerate(frozen):
        low, high = one.ppf(1e-16) - 5, one.isf(1e-16) + 20
        support = (one.ppf(0.5) % 1) + np.arange(np.floor(low), np.ceil(high))
        middle = one.ppf(0.5)
        points = np.array([middle, middle + 1, 0.4])
        expectations = prediction.expected_kernel(kernel, points)[row]
        expected = one.pmf(support) @ kernel(support, points)
        np.testing.assert_allclose(expectations, expected, rtol=3e-10, atol=1e-14)


def test_support_is_the_nodes():
    for name, is_shared in (("poisson", True), ("shared by offset", True), ("far apart", False)):
        prediction, _ = COUNTS[name]
        support = prediction.support()
        assert (support is not None) == is_shared
        if support is not None:
            values, weights = prediction.nodes()
            for row in range(len(prediction)):
                again = dict(zip(support[0].tolist(), support[1][row].tolist(), strict=True))
                for value, weight in zip(values[row].tolist(), weights[row].tolist(), strict=True):
                    assert again.get(value, 0.0) == pytest.approx(weight, abs=1e-17, rel=1e-12)


def test_negative_binomial_near_its_poisson_limit():
    """Tiny dispersions, as fits to equidispersed counts give, lose no digits."""
    mean, y = np.array([0.7, 5.0, 900.0]), np.array([1.0, 7.0, 950.0])
    near, limit = fm.NegativeBinomial(mean, 1e-13), fm.Poisson(mean)
    np.testing.assert_allclose(near.log_prob(y), limit.log_prob(y), atol=3e-9)
    np.testing.assert_allclose(near.cdf(y), limit.cdf(y), atol=1e-9)
    kernel = fm.RBF(0.01)
    np.testing.assert_allclose(
        near.expected_kernel(kernel, y), limit.expected_kernel(kernel, y), atol=1e-9
    )


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dispersion", [1e-12, 1e-15, 1e-16, 1e-17, 1e-40, 1e-300])
def test_negative_binomial_with_hardly_any_dispersion(dispersion):
    """SciPy's parameters round to a distribution at 0."""
    mean, y = np.array([0.0, 1e-9, 0.7, 5.0, 900.0]), np.array([0.0, 0.0, 1.0, 7.0, 950.0])
    near, limit = fm.NegativeBinomial(mean, dispersion), fm.Poisson(mean)
    levels = [0.1, 0.5, 0.9, 0.999]
    np.testing.assert_array_equal(near.quantile(levels), limit.quantile(levels))
    np.testing.assert_allclose(near.cdf(y), limit.cdf(y), atol=1e-9)
    np.testing.assert_allclose(near.log_prob(y), limit.log_prob(y), atol=3e-9)
    kernel = fm.RBF(0.01)
    np.testing.assert_allclose(
        near.expected_kernel(kernel, y), limit.expected_kernel(kernel, y), atol=1e-9
    )
    error = near.sample(4000, 0).mean(axis=1) - mean
    assert (np.abs(error) <= 5 * np.sqrt(mean / 4000) + 1e-12).all()


def test_supports_too_long_are_refused():
    with pytest.raises(ValueError, match="too many to sum over; give draws"):
        as_predictive(stats.zipf(1.5), 1).expected_kernel(fm.RBF(1.0), [1.0])
    uneven = stats.rv_discrete(values=([0.0, 0.3, 1.0], [0.2, 0.5, 0.3]))()
    with pytest.raises(ValueError, match="other values than loc \\+ whole numbers"):
        as_predictive(uneven, 1).expected_kernel(fm.RBF(1.0), [1.0])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("std", [1e-8, 1e-30, 1e-100, 1e-170, 1e-300])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern12", "matern32", "matern52"])
def test_narrow_gaussians_are_points(kernel, std):
    kernel, means = KERNELS[kernel], np.array([0.0, 0.3, 1e4])
    points = np.array([0.0, 0.3, 3.0, 1e4])
    expectations = fm.Gaussian(means, std).expected_kernel(kernel, points)
    np.testing.assert_allclose(
        expectations, kernel(means, points), atol=4 * std + 1e-15, rtol=1e-12
    )


@pytest.mark.parametrize("std", [1e20, 1e100, 1e150])
def test_wide_gaussians_are_flat(std):
    for kernel, mass in (("rbf", np.sqrt(np.pi / 0.7)), ("matern52", 16 / 3 / np.sqrt(5) * 0.8)):
        (expectation,) = fm.Gaussian([0.0], std).expected_kernel(KERNELS[kernel], [3.0])[0]
        assert expectation == pytest.approx(mass / np.sqrt(2 * np.pi) / std, rel=1e-9, abs=1e-130)


def test_independent_components(rng):
    """Three components: products of the expectations of one."""
    mean, std = rng.normal(size=(4, 3)), rng.uniform(0.2, 2, size=(4, 3))
    points = rng.normal(size=(5, 3))
    for kernel in (KERNELS["rbf"], KERNELS["laplacian"]):
        parts = [
            fm.Gaussian(mean[:, k], std[:, k]).expected_kernel(kernel, points[:, k])
            for k in range(3)
        ]
        expectations = fm.Gaussian(mean, std).expected_kernel(kernel, points)
        np.testing.assert_allclose(expectations, np.prod(parts, axis=0), rtol=1e-12)
        draws = fm.Gaussian(mean, std).sample(50_000, 3)
        for row in range(4):
            values = kernel(draws[row], points)
            error = 5 * values.std(axis=0) / np.sqrt(len(values))
            assert (np.abs(expectations[row] - values.mean(axis=0)) <= error).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel", [fm.Polynomial(5, 1.0), fm.Linear() * fm.Linear(), KERNELS["sum"] + fm.Polynomial(6)]
)
def test_tails_that_quadrature_would_miss(kernel):
    """Fifth moments of t(3), second moments of t(2), a quarter of the fifth of a lognormal."""
    kernel = kernel.resolve(np.zeros((1, 1)))
    heavy = stats.t(2.0) if isinstance(kernel, fm.Product) else stats.t(3.0)
    with pytest.raises(ValueError, match="tails too heavy for this y_kernel"):
        as_predictive(heavy, 2).expected_kernel(kernel, POINTS)
    assert as_predictive(heavy, 2).expected_kernel(kernel, []).shape == (2, 0)
    if not isinstance(kernel, fm.Product):
        with pytest.raises(ValueError, match="tails too heavy"):
            as_predictive(stats.lognorm(1.5), 1).expected_kernel(kernel, POINTS)
    decaying = kernel * fm.RBF(0.5)
    assert np.isfinite(as_predictive(heavy, 2).expected_kernel(decaying, POINTS)).all()
    far = heavy.isf([1e-16, 1e-15])  # where expectations are as small as the neglected mass
    expectations = as_predictive(heavy, 2).expected_kernel(fm.RBF(0.5) * fm.Linear(), far)
    assert np.isfinite(expectations).all()


@pytest.mark.slow
def test_high_powers_under_light_tails():
    kernel = fm.Polynomial(6, 1.0, 1.0)
    for frozen in (stats.gamma(3.0), stats.expon(), stats.logistic(3.0), stats.beta(0.5, 0.5)):
        (expectation,) = as_predictive(frozen, 1).expected_kernel(kernel, [1.0])[0]
        expected = sum(math.comb(6, j) * frozen.moment(j) for j in range(1, 7)) + 1
        assert expectation == pytest.approx(expected, rel=1e-8)


def test_rows_are_taken_with_their_parameters(rng):
    rows = np.array([3, 0])
    mean = rng.uniform(1, 5, size=4)
    y = np.array([2.0, 3.0, 1.0, 4.0])
    for prediction in (
        fm.Gaussian(mean, [1.0, 2.0, 3.0, 4.0]),
        fm.Poisson(mean),
        fm.NegativeBinomial(mean, [0.1, 0.2, 0.3, 0.4]),
        as_predictive(stats.gamma(2.0, scale=mean), 4),
        as_predictive(stats.poisson(mean, loc=1), 4),
        fm.Draws(rng.normal(size=(4, 5))),
    ):
        part = prediction.take(rows)
        assert type(part) is type(prediction)
        assert len(part) == 2
        np.testing.assert_array_equal(part.cdf(y[rows]), prediction.cdf(y)[rows])
        np.testing.assert_array_equal(part.variance, prediction.variance[rows])
        expectations = part.expected_kernel(fm.RBF(0.3), POINTS)
        expected = prediction.expected_kernel(fm.RBF(0.3), POINTS)[rows]
        np.testing.assert_allclose(expectations, expected, atol=1e-14)
    vectors = fm.Gaussian(rng.normal(size=(4, 2)), rng.uniform(1, 2, size=(4, 2))).take(rows)
    assert vectors.shape == (2, 2)


def test_draws(rng):
    array = rng.normal(size=(5, 7))
    draws = fm.Draws(array)
    np.testing.assert_allclose(draws.mean, array.mean(axis=1))
    np.testing.assert_allclose(draws.std**2, draws.variance)
    np.testing.assert_allclose(draws.quantile([0.0, 0.5]), np.quantile(array, [0, 0.5], axis=1).T)
    assert draws.cdf(array[:, 0])[0] == draws.cdf_below(array[:, 0])[0] + 1 / 7
    np.testing.assert_allclose(
        draws.expected_kernel(KERNELS["rbf"], POINTS)[2],
        KERNELS["rbf"](array[2], POINTS).mean(axis=0),
    )
    assert np.isin(draws.sample(50, 0)[3], array[3]).all()
    assert fm.Draws(array[:, 0]).nodes()[0].shape == (5, 1)
    assert fm.Draws(array[:, :, None]).shape == (5,)
    vectors = fm.Draws(rng.normal(size=(5, 7, 2)))
    assert vectors.columns == 2
    assert vectors.expected_kernel(fm.RBF(1.0), [[0.0, 0.0]]).shape == (5, 1)
    assert vectors.sample(3, 0).shape == (5, 3, 2)
    # Equal draws are atoms, which a Delta kernel sees.
    assert fm.Draws([[1.0, 1.0, 2.0]]).expected_kernel(fm.Delta(), [1.0])[0, 0] == pytest.approx(
        2 / 3
    )
    assert fm.Gaussian([1.0], 1.0).expected_kernel(fm.Delta(), [1.0])[0, 0] == 0


def test_column_vectors_are_numbers(rng):
    """(n, 1) parameters next to (n,) outcomes once broadcast to (n, n)."""
    mean, y = rng.normal(size=20), rng.normal(size=20)
    assert fm.nll(y, (mean[:, None], 1.0)) == fm.nll(y, (mean, 1.0))
    assert fm.ence(y, (mean[:, None], 1.0), bins=2) == fm.ence(y, (mean, 1.0), bins=2)
    assert fm.regression_ece(y[:, None], (mean[:, None], np.ones((20, 1)))) == fm.regression_ece(
        y, (mean, 1.0)
    )


def test_blocks_of_rows_do_not_matter(rng, monkeypatch):
    from fastmcmd.predictive import expectation

    mean = rng.uniform(0.1, 400, size=60)
    predictions = [
        fm.NegativeBinomial(mean, 0.1),
        as_predictive(stats.t(4.0, loc=mean), 60),
        fm.Draws(rng.normal(size=(60, 9))),
    ]
    in_one_block = [p.expected_kernel(fm.RBF(0.01), POINTS) for p in predictions]
    monkeypatch.setattr(expectation, "_BLOCK", 5000)
    for prediction, expected in zip(predictions, in_one_block, strict=True):
        expectations = prediction.expected_kernel(fm.RBF(0.01), POINTS)
        np.testing.assert_allclose(expectations, expected, atol=1e-14)


# --- conversion -----------------------------------------------------------------------------------


def test_what_is_accepted(rng):
    mean = rng.normal(size=4)
    assert isinstance(as_predictive(mean, 4), Draws)
    assert isinstance(as_predictive(mean.tolist(), 4), Draws)
    assert as_predictive(rng.normal(size=(4, 2)), 4, columns=2).shape == (4, 2)
    assert isinstance(as_predictive((mean, 1.0), 4), fm.Gaussian)
    assert as_predictive((0.0, 1.0), 4).shape == (4,)
    assert isinstance(as_predictive(stats.norm(mean, 2.0), 4), fm.Gaussian)
    np.testing.assert_array_equal(as_predictive(stats.norm(0, 2.0), 4).std, 2.0)
    assert isinstance(as_predictive(stats.logistic(mean), 4), ScipyPredictive)
    same = fm.Poisson([1.0])
    assert as_predictive(same, 1) is same
    histogram = stats.rv_histogram(np.histogram([1.0, 2.0, 2.0, 3.0], bins=3), density=False)()
    assert as_predictive(histogram, 4).cdf(np.full(4, 2.0)).shape == (4,)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros(3), ValueError, "prediction has 3 rows and y has 4"),
        ([np.zeros(4), np.ones(4)], ValueError, r"given as a tuple, \(mean, std\)"),
        ((np.zeros(4),), ValueError, "a tuple of 1"),
        ((np.zeros(4), 0.0), ValueError, "std has values down to 0; all must be > 0"),
        ((np.zeros(4), [1.0, np.nan, 1.0, 1.0]), ValueError, "std holds NaN"),
        ((np.zeros(4), np.ones(3)), ValueError, "std has shape"),
        (np.full(4, np.inf), ValueError, "prediction holds infinity"),
        (np.zeros((4, 0)), ValueError, r"prediction has shape \(4, 0\)"),
        (np.zeros((4, 2, 3)), ValueError, "3 components and y has 1"),
        (stats.norm(np.zeros(3), 1.0), ValueError, "3 rows and y has 4"),
        (stats.gamma(np.ones(4), scale=np.ones(3)), ValueError, r"parameter of shape \(3,\)|\(4,\)"),
        (stats.gamma(np.ones((4, 1))), ValueError, "one value per input"),
        (stats.t(np.full(4, -1.0)), ValueError, "scipy.stats does not allow"),
        (stats.norm, TypeError, "a frozen scipy.stats distribution"),
        ("gaussian", TypeError, "prediction is a builtins.str"),
        (None, TypeError, "NoneType"),
        (fm.Gaussian(np.zeros((4, 2)), 1.0), ValueError, "2 components and y has 1"),
    ],
)  # fmt: skip
def test_what_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        as_predictive(value, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fm.Poisson([-1.0]), "mean has values down to -1; all must be >= 0"),
        (lambda: fm.Poisson([[1.0, 2.0]]), r"mean has shape \(1, 2\)"),
        (lambda: fm.NegativeBinomial([1.0], 0.0), "dispersion has values down to 0"),
        (lambda: fm.NegativeBinomial([1.0], [1.0, 2.0]), r"dispersion has shape \(2,\)"),
        (lambda: fm.Gaussian(0.0, 1.0), r"mean has shape \(\)"),
        (lambda: fm.Gaussian([0.0], [-1.0]), "std has values down to -1"),
        (lambda: fm.Gaussian([0.0, 1.0], 1.0).cdf([0.0]), r"y has shape \(1,\); \(2,\) is needed"),
        (lambda: fm.Gaussian([0.0], 1.0).quantile(1.5), "level is 1.5"),
        (lambda: fm.Poisson([1.0]).quantile([0.1, np.nan]), "level is"),
        (lambda: fm.Poisson([1.0]).sample(0), "size is 0"),
        (lambda: fm.Draws([1.0]).log_prob([1.0]), "draws have no density"),
        (lambda: fm.Gaussian([0.0], 1.0).expected_kernel(fm.RBF(1.0), [[1.0, 2.0]]), "points have shape"),
    ],
)  # fmt: skip
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_torch_distributions():
    torch = pytest.importorskip("torch")
    d = torch.distributions
    mean = torch.tensor([0.5, 1.5], requires_grad=True)
    normal = as_predictive(d.Normal(mean, 2.0), 2)
    np.testing.assert_allclose(normal.mean, [0.5, 1.5])
    vectors = d.Independent(d.Normal(torch.zeros(2, 3), torch.ones(2, 3)), 1)
    assert as_predictive(vectors, 2, columns=3).shape == (2, 3)
    assert as_predictive(d.Normal(0.0, 1.0), 5).shape == (5,)
    np.testing.assert_allclose(as_predictive(d.Poisson(mean.detach()), 2).variance, [0.5, 1.5])
    negbin = d.NegativeBinomial(torch.tensor([2.0, 3.0]), torch.tensor([0.5, 0.25]))
    counts = torch.tensor([1.0, 4.0])
    np.testing.assert_allclose(
        as_predictive(negbin, 2).log_prob(counts), negbin.log_prob(counts), rtol=1e-6
    )
    student = d.StudentT(torch.tensor([3.0, 4.0]), mean.detach(), 2.0)
    np.testing.assert_allclose(
        as_predictive(student, 2).log_prob(counts), student.log_prob(counts), rtol=1e-6
    )
    assert as_predictive(d.Laplace(mean.detach()[:, None], 1.0), 2).shape == (2,)
    with pytest.raises(TypeError, match=r"torch VonMises, whose cdf is missing.*give draws"):
        as_predictive(d.VonMises(torch.zeros(2), 1.0), 2)
