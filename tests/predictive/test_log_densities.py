"""Log densities and log probabilities by formulas of our own, against mpmath."""

import mpmath
import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.mixture import Mixture

INFINITE = mpmath.mpf("-inf")


@pytest.fixture(autouse=True)
def many_digits():
    with mpmath.workdps(50):
        yield


def assert_close(values, exact, error=2e-15):
    for value, one in zip(values.tolist(), exact, strict=True):
        if one == INFINITE:
            assert value == -np.inf
        else:
            assert abs(value - one) <= error * (1 + abs(one))


def log_choices(n, k):
    n, k = mpmath.mpf(int(n)), mpmath.mpf(int(k))
    return mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)


def log_power(base, exponent):
    if exponent == 0:
        return mpmath.mpf(0)
    return INFINITE if base == 0 else exponent * mpmath.log(base)


@pytest.mark.parametrize("n", [0, 1, 20, 64, 65, 1000, 10**6, 10**12])
def test_binomial(n, rng):
    p = np.concatenate([
        [0.0, 1.0, 0.5, 5e-324], 10 ** rng.uniform(-300, -1, 20),
        1 - 10 ** rng.uniform(-16, -1, 20), rng.uniform(0, 1, 30),
    ])  # fmt: skip
    for k in (np.zeros(len(p)), np.full(len(p), n), np.round(n * p), np.floor(0.9 * n * p)):
        exact = []
        for count, one in zip(k.tolist(), p.tolist(), strict=True):
            one, count = mpmath.mpf(one), int(count)
            sides = log_power(one, count) + log_power(1 - one, n - count)
            exact.append(log_choices(n, count) + sides)
        assert_close(fm.Binomial(n, p).log_prob(k), exact, 5e-15)


@pytest.mark.parametrize("total", [1, 100, 170, 171, 10**6, 10**12])
def test_hypergeometric(total, rng):
    good, sampled = (rng.integers(0, total + 1, 60).astype(float) for _ in range(2))
    least, most = np.maximum(sampled - (total - good), 0), np.minimum(good, sampled)
    prediction = as_predictive(stats.hypergeom(total, good.astype(int), sampled.astype(int)), 60)
    middle = np.clip(np.round(good * (sampled / total)), least, most)
    for k in (least, most, middle, np.floor((least + most) / 2)):
        exact = [
            log_choices(g, one) + log_choices(total - g, s - one) - log_choices(total, s)
            for g, s, one in zip(good, sampled, k, strict=True)
        ]
        assert_close(prediction.log_prob(k), exact, 5e-15)


@pytest.mark.parametrize("n", [20, 200])
def test_counts_that_are_not_possible(n):
    y = np.array([-1.0, 0.5, n + 1.0, np.inf, -np.inf, np.nan])
    expected = [-np.inf] * 5 + [np.nan]
    np.testing.assert_array_equal(fm.Binomial(np.full(6, n), 0.3).log_prob(y), expected)
    shifted = as_predictive(stats.hypergeom(2 * n, np.full(6, n), n, loc=3), 6)
    np.testing.assert_array_equal(shifted.log_prob(y + 3), expected)


def log_logistic(z, c):
    return mpmath.log(c) + (c - 1) * mpmath.log(z) - 2 * mpmath.log1p(z**c)


def log_laplace(z, c):
    return mpmath.log(c / 2) + (c - 1 if z < 1 else -c - 1) * mpmath.log(z)


def extreme(z, c):
    if c * z >= 1:
        return INFINITE
    gumbel = -mpmath.log1p(-c * z) / c if c else z
    return -(1 - c) * gumbel - mpmath.exp(-gumbel)


@pytest.mark.parametrize("c", [1e-3, 0.3, 0.999999, 1.0, 2.0, 1e4])
@pytest.mark.parametrize(
    ("family", "formula"), [(stats.fisk, log_logistic), (stats.loglaplace, log_laplace)]
)
def test_logarithms_of_symmetric_families(family, formula, c, rng):
    z = np.concatenate([10 ** rng.uniform(-300, 300, 30), 1 + 1e-6 * rng.normal(size=30)])
    loc, scale = -3.0, 4.0
    prediction = as_predictive(family(np.full(60, c), scale=scale), 60)
    exact = [formula(mpmath.mpf(one), mpmath.mpf(c)) - mpmath.log(scale) for one in z]
    assert_close(prediction.log_prob(scale * z), exact)
    ends = np.array([loc, loc - 1, np.inf, -np.inf, np.nan])
    shifted = as_predictive(family(np.full(5, c), loc, scale), 5)
    np.testing.assert_allclose(
        shifted.log_prob(ends), family(c, loc, scale).logpdf(ends), rtol=1e-14
    )


@pytest.mark.parametrize("c", [-3.0, -1.0, -0.1, -1e-12, 0.0, 1e-5, 0.3, 1.0, 2.0])
def test_generalised_extreme_values(c, rng):
    z = np.concatenate([rng.gumbel(size=40), 10 ** rng.uniform(-300, 300, 20)])
    prediction = as_predictive(stats.genextreme(np.full(60, c)), 60)
    # The rounding of ``c z`` is that of the outcome.
    assert_close(prediction.log_prob(z), [extreme(mpmath.mpf(one), c) for one in z], 3e-14)
    ends = np.array([1 / c if c else 0.5, np.inf, -np.inf, np.nan])
    family = stats.genextreme(np.full(4, c), 2.0, 4.0)
    with np.errstate(all="ignore"):
        expected = family.logpdf(2 + 4 * ends)
    np.testing.assert_allclose(
        as_predictive(family, 4).log_prob(2 + 4 * ends), expected, rtol=1e-14
    )


def test_mixtures_add_densities(rng):
    n = 40
    means, stds = rng.normal(size=(3, n)), 10 ** rng.uniform(-3, 3, (3, n))
    weights = rng.dirichlet(np.ones(3), n)
    weights[:5] = [0.0, 1.0, 0.0]
    y = np.concatenate([rng.normal(size=n - 2), [1e150, -1e5]])
    mixture = Mixture([fm.Gaussian(m, s) for m, s in zip(means, stds, strict=True)], weights)
    exact = []
    for i in range(n):
        total = sum(
            mpmath.mpf(mixture.weights[i, k]) * mpmath.npdf(y[i], means[k, i], stds[k, i])
            for k in range(3)
        )
        exact.append(mpmath.log(total))
    assert_close(mixture.log_prob(y), exact, 5e-15)


def test_mixtures_of_infinite_and_absent_densities():
    beta, uniform = fm.Beta([0.5, 0.5, 0.5, 2.0], 1.0), fm.Uniform(np.zeros(4), 1.0)
    weights = [[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]
    logs = Mixture([beta, uniform], weights).log_prob([0.0, 0.0, 2.0, np.nan])
    np.testing.assert_array_equal(logs, [np.inf, 0.0, -np.inf, np.nan])


def test_many_rows_as_few(rng):
    n = 300_000  # several tasks of several blocks
    y, low, p = rng.random(n), rng.uniform(-1, 0, n), rng.random(n)
    rows = np.array([0, 16_383, 16_384, 131_071, 131_072, n - 1])
    for prediction, outcomes in (
        (fm.Uniform(low, 0.9), y),
        (fm.Truncated(fm.Logistic(low, 1.0), low, 0.9), y),
        (fm.Binomial(30, p), np.floor(31 * y)),
        (Mixture([fm.Gaussian(low, 1.0), fm.Laplace(low, 2.0)]), y),
    ):
        some = prediction.take(rows).log_prob(outcomes[rows])
        np.testing.assert_array_equal(prediction.log_prob(outcomes)[rows], some)


def extremes(rng, n):
    """Return locations, scales of all sizes and standardised outcomes, near and far out."""
    scale = np.where(np.arange(n) % 2, 10 ** rng.uniform(-250, 250, n), rng.uniform(0.3, 3, n))
    z = np.where(np.arange(n) % 5, rng.standard_t(2, n), 300 * rng.normal(size=n))
    return np.where(np.arange(n) % 3, rng.normal(size=n) * scale, 0.0), scale, z


def standardised(y, loc, scale):
    columns = zip(y.tolist(), loc.tolist(), scale.tolist(), strict=True)
    return [(mpmath.mpf(a) - b) / c for a, b, c in columns]


ENDS = np.array([np.inf, -np.inf, np.nan])
SYMMETRIC = [
    (fm.Laplace, lambda z: -abs(z) - mpmath.log(2)),
    (fm.Logistic, lambda z: -abs(z) - 2 * mpmath.log1p(mpmath.exp(-abs(z)))),
]
TWO_PIECE = [
    (fm.TwoPieceNormal, lambda z: -z * z / 2 - mpmath.log(2 * mpmath.pi) / 2),
    (fm.TwoPieceLaplace, SYMMETRIC[0][1]),
]


@pytest.mark.parametrize(("family", "formula"), SYMMETRIC)
def test_symmetric_families(family, formula, rng):
    loc, scale, z = extremes(rng, 101)
    y = loc + scale * z
    places = zip(standardised(y, loc, scale), scale, strict=True)
    exact = [formula(one) - mpmath.log(s) for one, s in places]
    assert_close(family(loc, scale).log_prob(y), exact)
    np.testing.assert_array_equal(
        family(np.zeros(3), 1.0).log_prob(ENDS), [-np.inf, -np.inf, np.nan]
    )


@pytest.mark.parametrize(("family", "formula"), TWO_PIECE)
def test_two_piece_families(family, formula, rng):
    loc, scale, z = extremes(rng, 101)
    y, upper = loc + scale * z, scale * rng.uniform(0.01, 100, 101)
    side = np.where(y > loc, upper, scale)
    places = zip(standardised(y, loc, side), scale, upper, strict=True)
    exact = [formula(one) - mpmath.log((mpmath.mpf(s) + t) / 2) for one, s, t in places]
    assert_close(family(loc, scale, upper).log_prob(y), exact)


def test_uniform_and_exponential(rng):
    loc, scale, z = extremes(rng, 101)
    high, y = loc + scale, loc + scale * z
    rows = zip(y, loc, high, strict=True)
    exact = [-mpmath.log(mpmath.mpf(b) - a) if a <= one <= b else INFINITE for one, a, b in rows]
    assert_close(fm.Uniform(loc, high).log_prob(y), exact)
    y = z / scale
    rows = zip(y, scale, strict=True)
    exact = [mpmath.log(r) - mpmath.mpf(one) * r if one >= 0 else INFINITE for one, r in rows]
    assert_close(fm.Exponential(scale).log_prob(y), exact)
    np.testing.assert_array_equal(
        fm.Uniform(np.zeros(3), 1.0).log_prob(ENDS), [-np.inf, -np.inf, np.nan]
    )


@pytest.mark.parametrize("xi", [-30.0, -1.0, -0.4, -1e-12, 0.0, 1e-17, 1e-6, 0.5, 1.0, 1.9])
def test_generalised_pareto(xi, rng):
    z = np.concatenate([10 ** rng.uniform(-300, 2, 50), rng.exponential(size=51), [-1.0]])
    scale = 3.0
    exact, scores = [], []
    for one in (scale * z / scale).tolist():
        one = mpmath.mpf(one)
        growth = 1 + xi * one
        inside = one >= 0 and growth > 0
        hazard = (mpmath.log(growth) / xi if xi else one) if inside else mpmath.inf * (one > 0)
        at_end = xi == -1 and one == 1
        density = -(1 + mpmath.mpf(xi)) * hazard - mpmath.log(scale) if inside else INFINITE
        exact.append(-mpmath.log(scale) if at_end else density)
        a, hazard = 1 - mpmath.mpf(xi), hazard if one > 0 else mpmath.mpf(0)
        share = hazard if a == 0 else (1 - mpmath.exp(-a * hazard)) / a
        scores.append(scale * (abs(one) - 2 * share + 1 / (2 - mpmath.mpf(xi))))
    prediction = fm.GeneralizedPareto(np.full(102, xi), scale)
    assert_close(prediction.log_prob(scale * z), exact, 3e-14)
    assert_close(prediction.crps(scale * z), scores, 2e-14)


@pytest.mark.parametrize("dispersion", [1e-9, 1e-3, 0.2, 1.0, 5.0])
def test_negative_binomial_counts(dispersion, rng):
    mean = np.concatenate([10 ** rng.uniform(-3, 6, 60), rng.uniform(0.2, 15, 60)])
    y = np.floor(mean * rng.gamma(1.5, 0.8, 120))
    exact = []
    for k, m in zip(y.tolist(), mean.tolist(), strict=True):
        k, m, size = mpmath.mpf(k), mpmath.mpf(m), 1 / mpmath.mpf(dispersion)
        odds = m / size
        choices = mpmath.loggamma(k + size) - mpmath.loggamma(size) - mpmath.loggamma(k + 1)
        exact.append(choices - size * mpmath.log1p(odds) + k * mpmath.log(odds / (1 + odds)))
    assert_close(fm.NegativeBinomial(mean, dispersion).log_prob(y), exact, 3e-14)
    odd = np.array([-1.0, 0.5, np.inf, np.nan])
    np.testing.assert_array_equal(
        fm.NegativeBinomial(np.ones(4), dispersion).log_prob(odd), [-np.inf] * 3 + [np.nan]
    )


def test_rows_do_not_depend_on_rows_beside_them(rng):
    n = 64
    usual, y = rng.uniform(0.5, 2, n), rng.normal(size=n)
    scale = usual.copy()
    scale[::9] = 10 ** rng.uniform(-320, 300, len(scale[::9]))
    for family in (
        lambda s: fm.Laplace(y, s),
        lambda s: fm.Logistic(y, s),
        lambda s: fm.GeneralizedPareto(y / 3, s),
        lambda s: as_predictive(stats.loglaplace(s, scale=s), n),
        lambda s: as_predictive(stats.genextreme(y, 0.0, s), n),
        lambda s: Mixture([fm.Gaussian(y, s), fm.Gaussian(-y, usual)]),
    ):
        same = scale == usual
        for method in ("log_prob", "crps"):
            mixed, plain = (getattr(family(s), method)(np.abs(y)) for s in (scale, usual))
            np.testing.assert_array_equal(mixed[same], plain[same])
