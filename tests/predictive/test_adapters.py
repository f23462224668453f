"""Distributions of other libraries convert by their family, or by their methods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import fastmcmd as fm
from fastmcmd.predictive import (
    Beta,
    Binomial,
    Exponential,
    Gamma,
    Gaussian,
    GeneralizedPareto,
    Laplace,
    Logistic,
    LogNormal,
    MethodsPredictive,
    NegativeBinomial,
    Poisson,
    ScipyPredictive,
    StudentT,
    Uniform,
    Weibull,
    as_predictive,
)
from fastmcmd.predictive.located import Located

LOC, SCALE = np.array([0.5, -1.0, 3.0]), np.array([1.0, 0.3, 2.0])


@pytest.mark.parametrize(
    ("frozen", "family"),
    [
        (stats.norm(LOC, SCALE), Gaussian),
        (stats.t(3.0, LOC, scale=SCALE), StudentT),
        (stats.cauchy(LOC, SCALE), StudentT),
        (stats.laplace(LOC, SCALE), Laplace),
        (stats.lognorm(SCALE, scale=np.exp(LOC)), LogNormal),
        (stats.gamma(SCALE, scale=2.0), Gamma),
        (stats.expon(scale=SCALE), Exponential),
        (stats.weibull_min(SCALE, scale=2.0), Weibull),
        (stats.genpareto(LOC, 0.5, SCALE), GeneralizedPareto),
        (stats.logistic(LOC, SCALE), Logistic),
        (stats.binom(7, SCALE / 3), Binomial),
        (stats.binom(7, SCALE / 3, loc=1), ScipyPredictive),
        (stats.expon(1.0, SCALE), ScipyPredictive),
        (stats.weibull_min(SCALE, 1.0), Located),
        (stats.beta(a=SCALE, b=2.0), Beta),
        (stats.uniform(LOC, SCALE), Uniform),
        (stats.poisson(SCALE), Poisson),
        (stats.nbinom(2.0, SCALE / 3), NegativeBinomial),
        (stats.gamma(SCALE, loc=1.0), Located),
        (stats.beta(SCALE, 2.0, scale=2.0), Located),
        (stats.lognorm(SCALE, 1.0), Located),
        (stats.poisson(SCALE, loc=1), ScipyPredictive),
    ],
    ids=lambda value: value.dist.name if hasattr(value, "dist") else value.__name__,
)
def test_frozen_distributions(frozen, family):
    prediction = as_predictive(frozen, 3)
    assert type(prediction) is family
    y = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(prediction.cdf(y), frozen.cdf(y), rtol=1e-12)
    logs = frozen.logpmf if prediction.discrete else frozen.logpdf
    np.testing.assert_allclose(prediction.log_prob(y), logs(y), rtol=1e-10)


def same(prediction, expected, y):
    np.testing.assert_allclose(prediction.mean, expected.mean, rtol=1e-6, atol=1e-9)
    # Single precision objects have variances that are differences of moments.
    np.testing.assert_allclose(prediction.variance, expected.variance, rtol=3e-5)
    np.testing.assert_allclose(prediction.cdf(y), expected.cdf(y), rtol=2e-6, atol=1e-12)
    np.testing.assert_allclose(prediction.log_prob(y), expected.log_prob(y), rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(
        prediction.quantile([0.1, 0.7]), expected.quantile([0.1, 0.7]), rtol=1e-5
    )
    np.testing.assert_allclose(prediction.crps(y), expected.crps(y), rtol=1e-6)


def test_new_random_variables_of_scipy():
    if not hasattr(stats, "make_distribution"):
        pytest.skip("SciPy before 1.15")
    y = np.array([0.3, 1.5, 4.0])
    normal = stats.Normal(mu=LOC, sigma=SCALE)
    assert type(as_predictive(normal, 3)) is Gaussian
    assert type(as_predictive(stats.Uniform(a=LOC, b=LOC + 1), 3)) is Uniform
    same(as_predictive(normal, 3), Gaussian(LOC, SCALE), y)
    same(as_predictive(stats.exp(normal), 3), LogNormal(LOC, SCALE), y)
    gamma = stats.make_distribution(stats.gamma)(a=SCALE)
    prediction = as_predictive(gamma * 2, 3)
    assert isinstance(prediction, MethodsPredictive)
    same(prediction, Gamma(SCALE, 0.5), y)
    binomial = as_predictive(stats.Binomial(n=np.array([5, 6, 7]), p=0.3), 3)
    assert type(binomial) is Binomial
    counts = np.array([0.0, 2.0, 6.0])
    same(binomial, ScipyPredictive(stats.binom([5, 6, 7], 0.3), 3), counts)
    np.testing.assert_array_equal(binomial.log_prob([0.5, 1.5, -1.0]), -np.inf)
    np.testing.assert_allclose(
        binomial.cdf_below(counts), stats.binom([5, 6, 7], 0.3).cdf(counts - 1)
    )


TORCH = {
    "Normal": (lambda d, a, b: d.Normal(a, b), lambda: Gaussian(LOC, SCALE)),
    "LogNormal": (lambda d, a, b: d.LogNormal(a, b), lambda: LogNormal(LOC, SCALE)),
    "StudentT": (lambda d, a, b: d.StudentT(3.0, a, b), lambda: StudentT(3.0, LOC, SCALE)),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), lambda: Laplace(LOC, SCALE)),
    "Gamma": (lambda d, a, b: d.Gamma(b, b + 1), lambda: Gamma(SCALE, SCALE + 1)),
    "Exponential": (lambda d, a, b: d.Exponential(b), lambda: Exponential(SCALE)),
    "Beta": (lambda d, a, b: d.Beta(b, b + 1), lambda: Beta(SCALE, SCALE + 1)),
    "Uniform": (lambda d, a, b: d.Uniform(a, a + b), lambda: Uniform(LOC, LOC + SCALE)),
    "Poisson": (lambda d, a, b: d.Poisson(b), lambda: Poisson(SCALE)),
    "Binomial": (
        lambda d, a, b: d.Binomial(7, b / 4),
        lambda: Binomial(7, SCALE / 4),
    ),
    "Geometric": (lambda d, a, b: d.Geometric(b / 4), lambda: NegativeBinomial(4 / SCALE - 1, 1.0)),
    "Gumbel": (
        lambda d, a, b: d.Gumbel(a, b),
        lambda: ScipyPredictive(stats.gumbel_r(LOC, SCALE), 3),
    ),
    "Weibull": (
        lambda d, a, b: d.Weibull(b, b + 1),
        lambda: Weibull(SCALE + 1, SCALE),
    ),
    "HalfNormal": (
        lambda d, a, b: d.HalfNormal(b),
        lambda: ScipyPredictive(stats.halfnorm(0.0, SCALE), 3),
    ),
}


def check_library(d, array, name):
    make, expected = TORCH[name]
    expected = expected()
    prediction = as_predictive(make(d, array(LOC), array(SCALE)), 3)
    if not isinstance(prediction, MethodsPredictive):
        assert type(prediction) is type(expected)
    y = np.array([0.0, 2.0, 1.0]) if prediction.discrete else np.array([0.7, 0.2, 0.9])
    if name == "Uniform":
        y = LOC + 0.3 * SCALE
    same(prediction, expected, y)


@pytest.mark.parametrize("name", TORCH)
def test_torch(name):
    torch = pytest.importorskip("torch")
    check_library(torch.distributions, torch.as_tensor, name)


@pytest.mark.parametrize("name", TORCH)
def test_numpyro(name):
    jnp = pytest.importorskip("jax.numpy")
    distributions = pytest.importorskip("numpyro.distributions")
    check_library(distributions, jnp.asarray, name)


def test_torch_structures():
    torch = pytest.importorskip("torch")
    d = torch.distributions
    loc, scale = torch.as_tensor(LOC), torch.as_tensor(SCALE)
    y = np.array([0.7, 0.2, 0.9])
    share = as_predictive(d.Bernoulli(torch.as_tensor([0.1, 0.5, 0.9])), 3)
    np.testing.assert_allclose(share.mean, [0.1, 0.5, 0.9], rtol=1e-6)
    ranks = as_predictive(d.Categorical(torch.ones(3, 4)), 3)
    np.testing.assert_allclose(ranks.mean, 1.5)
    # A transformed distribution: moments, support and some methods are missing.
    exp = d.TransformedDistribution(d.Normal(loc, scale / 4), [d.ExpTransform()])
    prediction = as_predictive(exp, 3)
    assert isinstance(prediction, MethodsPredictive)
    same(prediction, LogNormal(LOC, SCALE / 4), y)
    np.testing.assert_array_equal(prediction.log_prob([-1.0, 0.0, -3.0]), -np.inf)
    np.testing.assert_array_equal(prediction.cdf([-1.0, 0.0, np.inf]), [0, 0, 1])
    weights = torch.as_tensor([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
    parts = d.Normal(torch.stack([loc, loc + 2], 1), torch.stack([scale, scale], 1))
    mixed = as_predictive(d.MixtureSameFamily(d.Categorical(weights), parts), 3)
    direct = d.MixtureSameFamily(d.Categorical(weights), parts).cdf(torch.as_tensor(y))
    np.testing.assert_allclose(mixed.cdf(y), direct, rtol=1e-6)
    mixed_batch = d.MixtureSameFamily(d.Categorical(torch.ones(2)), d.Normal(torch.zeros(2), 1.0))
    np.testing.assert_allclose(as_predictive(mixed_batch, 3).cdf(y), stats.norm.cdf(y), rtol=1e-6)


def test_torch_independent():
    """Reinterpreted dimensions are components of a vector, not rows."""
    torch = pytest.importorskip("torch")
    d = torch.distributions
    vectors = d.Independent(d.Normal(torch.arange(6.0).reshape(3, 2), 2.0), 1)
    prediction = as_predictive(vectors, 3, columns=2)
    np.testing.assert_array_equal(prediction.mean, np.arange(6.0).reshape(3, 2))
    np.testing.assert_allclose(
        prediction.log_prob(np.ones((3, 2))), vectors.log_prob(torch.ones(3, 2)), rtol=1e-6
    )
    with pytest.raises(ValueError, match="3 components and y has 1"):
        as_predictive(d.Independent(d.Normal(torch.zeros(3), 1.0), 1), 3)
    assert as_predictive(d.Independent(d.Normal(torch.zeros(3), 1.0), 0), 3).shape == (3,)
    one = d.Independent(d.Laplace(torch.zeros(3, 1), 1.0), 1)
    assert type(as_predictive(one, 3)) is Laplace
    with pytest.raises(TypeError, match=r"Independent of torch Laplace.*give draws"):
        as_predictive(d.Independent(d.Laplace(torch.zeros(3, 2), 1.0), 1), 3, columns=2)
    with pytest.raises(TypeError, match=r"MultivariateNormal of vectors \(2,\).*give draws"):
        as_predictive(d.MultivariateNormal(torch.zeros(3, 2), torch.eye(2)), 3, columns=2)


@pytest.mark.slow
def test_parts_of_an_object():
    """Take, repeat and split rows, of objects made anew and of objects evaluated as a whole."""
    torch = pytest.importorskip("torch")
    d = torch.distributions
    loc = torch.linspace(-2, 2, 9).double()
    anew = as_predictive(d.Gumbel(loc, torch.ones(9).double()), 9)
    transformed = as_predictive(
        d.TransformedDistribution(d.Normal(loc, 1.0), [d.AffineTransform(1.0, 2.0)]), 9
    )
    assert anew._divisible
    assert not transformed._divisible
    rows = np.array([8, 0, 0, 3, 8, 8])
    y = np.linspace(-1, 3, 9)
    for prediction in (anew, transformed):
        part = prediction.take(rows)
        np.testing.assert_array_equal(part.cdf(y[rows]), prediction.cdf(y)[rows])
        np.testing.assert_array_equal(part.take([1, 4]).cdf(0.5), part.cdf(0.5)[[1, 4]])
        np.testing.assert_array_equal(part.mean, prediction.mean[rows])
        np.testing.assert_allclose(part.crps(y[rows]), prediction.crps(y)[rows], rtol=1e-12)
        np.testing.assert_array_equal(part.quantile(0.3), prediction.quantile(0.3)[rows])
    same(transformed, Gaussian(1 + 2 * loc.numpy(), 2.0), y)
    expectations = transformed.expected_kernel(fm.RBF(0.3), [0.0, 1.0])
    expected = Gaussian(1 + 2 * loc.numpy(), 2.0).expected_kernel(fm.RBF(0.3), [0.0, 1.0])
    np.testing.assert_allclose(expectations, expected, atol=1e-9)


class FakeTFP:
    """Stand-in for TensorFlow Probability: moments are methods, values have the object's dtype."""

    class dtype:
        as_numpy_dtype = np.float32

    def __init__(self, frozen, without=()):
        self._frozen, self._without = frozen, without
        self.batch_shape, self.event_shape = np.shape(frozen.mean()), ()

    def _call(self, name, method, *values):
        if name in self._without:
            raise NotImplementedError(f"{name} is not implemented")
        for value in values:
            assert value.dtype == np.float32
        return np.asarray(method(*values), np.float32)

    def cdf(self, value):
        return self._call("cdf", self._frozen.cdf, value)

    def survival_function(self, value):
        return self._call("survival_function", self._frozen.sf, value)

    def quantile(self, value):
        return self._call("quantile", self._frozen.ppf, value)

    def log_prob(self, value):
        log_prob = getattr(
            self._frozen, "logpmf" if hasattr(self._frozen.dist, "pmf") else "logpdf"
        )
        return self._call("log_prob", log_prob, value)

    def mean(self):
        return self._call("mean", self._frozen.mean)

    def variance(self):
        return self._call("variance", self._frozen.var)


FakeTFP.__module__ = "tensorflow_probability.python.distributions.fake"


def test_a_type_of_numpy_and_parts_that_cannot_be_copied():
    """As over JAX: the dtype is NumPy's, and bijectors cannot be copied one by one."""

    class Bijector:
        _validate_args = True

        def __copy__(self):
            raise TypeError("missing argument")

    class Lenient(FakeTFP):
        dtype = np.float32
        _validate_args = validate_args = False
        __module__ = FakeTFP.__module__

        def __init__(self, frozen):
            super().__init__(frozen)
            self.bijector = Bijector()

    class Strict(Lenient):
        _validate_args = validate_args = True
        __module__ = FakeTFP.__module__

        def copy(self, validate_args):
            assert validate_args is False
            return Lenient(self._frozen)

        def cdf(self, value):
            raise ValueError("outside the support")

    expected = ScipyPredictive(stats.logistic(LOC, SCALE), 3)
    for kind in (Lenient, Strict):
        prediction = as_predictive(kind(stats.logistic(LOC, SCALE)), 3)
        np.testing.assert_allclose(prediction.cdf(0.3), expected.cdf(0.3), atol=1e-6)


class Logistic:
    """Logistic distributions by their formulas: SciPy's take ten times as long for a few values."""

    dist = None

    def __init__(self, loc, scale):
        self._loc, self._scale = loc, scale

    def _z(self, y):
        return (y - self._loc) / self._scale

    def cdf(self, y):
        return special.expit(self._z(y))

    def sf(self, y):
        return special.expit(-self._z(y))

    def ppf(self, level):
        return self._loc + self._scale * special.logit(level)

    def logpdf(self, y):
        return special.log_expit(self._z(y)) + special.log_expit(-self._z(y)) - np.log(self._scale)

    def mean(self):
        return self._loc

    def var(self):
        return (np.pi * self._scale) ** 2 / 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "without", [(), ("quantile",), ("mean", "variance"), ("survival_function", "quantile", "mean")]
)
def test_methods_that_may_be_missing(without):
    prediction = as_predictive(FakeTFP(Logistic(LOC, SCALE), without), 3)
    assert isinstance(prediction, MethodsPredictive)
    assert not prediction.discrete
    expected = ScipyPredictive(stats.logistic(LOC, SCALE), 3)
    same(prediction, expected, np.array([0.7, -1.2, 2.5]))
    draws = prediction.sample(60, 0)  # each by many calls of the cdf where there is no quantile
    np.testing.assert_array_equal(prediction.sample(3, 1), prediction.sample(3, 1))
    for row in range(3):
        assert stats.kstest(draws[row], stats.logistic(LOC[row], SCALE[row]).cdf).pvalue > 1e-4


def test_counts_by_methods():
    """Nothing declares them discrete; the cdf jumps."""
    frozen = stats.poisson([0.4, 3.0, 200.0])
    prediction = as_predictive(FakeTFP(frozen, ("mean", "quantile")), 3)
    assert prediction.discrete
    expected = Poisson([0.4, 3.0, 200.0])
    y = np.array([0.0, 4.0, 210.0])
    np.testing.assert_array_equal(prediction.quantile([0.2, 0.5]), expected.quantile([0.2, 0.5]))
    np.testing.assert_allclose(prediction.mean, expected.mean, rtol=1e-5)
    np.testing.assert_allclose(prediction.crps(y), expected.crps(y), rtol=1e-4)
    np.testing.assert_allclose(prediction.cdf_below(y), expected.cdf_below(y), rtol=1e-5)
    np.testing.assert_array_equal(prediction.log_prob([0.5, 1.5, -1.0]), -np.inf)


def test_errors_name_what_is_missing():
    with pytest.raises(TypeError, match="whose cdf is missing or not implemented; give draws"):
        as_predictive(FakeTFP(stats.logistic(LOC), ("cdf",)), 3)
    with pytest.raises(TypeError, match="whose log_prob or logpdf is missing or not implemented"):
        as_predictive(FakeTFP(stats.logistic(LOC), ("log_prob",)), 3)
    with pytest.raises(ValueError, match=r"shape \(3,\); \(4,\) is needed"):
        MethodsPredictive(FakeTFP(stats.logistic(LOC)), 4)

    class OnlyDraws:
        def sample(self):
            return 0.0

    with pytest.raises(TypeError, match="an object with cdf and log_prob"):
        as_predictive(OnlyDraws(), 3)


def test_heavy_tails_have_no_moments_by_quadrature():
    prediction = as_predictive(FakeTFP(stats.cauchy(LOC), ("mean", "variance")), 3)
    assert np.isnan(prediction.mean).all()
    assert np.isnan(prediction.variance).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("family", "shapes"),
    [
        ("gumbel_r", ()), ("gumbel_l", ()), ("genextreme", (1e-5,)), ("genextreme", (-5e-5,)),
        ("genlogistic", (0.3,)), ("loggamma", (1.0,)), ("fisk", (30.0,)), ("loglaplace", (0.9,)),
        ("invgauss", (1.0,)),
    ],
)  # fmt: skip
def test_far_outcomes_of_scipy_families_give_no_warning(family, shapes):
    """Formulas of SciPy overflow there, or give NaN for a survival function that is 0."""
    y = np.array([-1e9, -30.0, 0.0, 30.0, 1e9])
    prediction = as_predictive(getattr(stats, family)(*shapes, loc=np.zeros(5)), 5)
    scores, tails = prediction.crps(y), prediction.sf(y)
    assert not np.isnan([scores, tails, prediction.cdf(y), prediction.log_prob(y)]).any()
    assert tails[0] == 1.0
    assert tails[-1] <= 1e-8
    if family != "loglaplace":  # its mean is infinite
        np.testing.assert_allclose(scores[[0, -1]], 1e9, rtol=1e-8)
