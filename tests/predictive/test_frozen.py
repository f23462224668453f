"""Quantiles and moments of frozen distributions that rows share are those that SciPy gives each row."""

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import ScipyPredictive
from fastmcmd.predictive.adapters.frozen_shapes import lacks_moments
from fastmcmd.predictive.adapters.outcome_checks import far_outcomes
from fastmcmd.predictive.base import ByQuadrature

N = 7
LOC, SCALE = np.linspace(-2, 3, N), np.geomspace(0.1, 50, N)
LEVELS = np.array([1e-12, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-9])
# Families with and without a formula for quantiles: shapes that all rows share, or of each row's own.
SAME_SHAPES = {
    "exponnorm": (1.5,),
    "argus": (1.0,),
    "foldnorm": (1.95,),
    "johnsonsb": (4.3, 3.2),
    "gumbel_r": (),
}
OWN_SHAPES = {"exponnorm": (SCALE,), "argus": (0.5 + SCALE,), "gengamma": (np.arange(1.0, 8), 2.0)}


def cases(kinds):
    return {
        name: getattr(stats, name)(*shapes, loc=LOC, scale=SCALE) for name, shapes in kinds.items()
    }


@pytest.mark.parametrize("name", SAME_SHAPES)
def test_rows_that_share_shapes_have_scipy_quantiles_and_moments(name):
    frozen = cases(SAME_SHAPES)[name]
    prediction = ScipyPredictive(frozen, N)
    np.testing.assert_array_equal(prediction.quantile(LEVELS), frozen.ppf(LEVELS[:, None]).T)
    np.testing.assert_array_equal(prediction.quantile(0.3), frozen.ppf(0.3))
    shared_levels = np.broadcast_to(LEVELS, (N, len(LEVELS)))
    expected = frozen.isf(LEVELS[:, None]).T
    np.testing.assert_array_equal(prediction.upper_quantiles_at(shared_levels), expected)
    np.testing.assert_array_equal(prediction.quantile([0.0, 1.0]), np.stack(frozen.support(), 1))
    rows = np.array([5, 0, 3])
    for part, parameters in ((prediction, slice(None)), (prediction.take(rows), rows)):
        shapes = SAME_SHAPES[name]
        one = getattr(stats, name)(*shapes, loc=LOC[parameters], scale=SCALE[parameters])
        # SciPy's adaptive integrals lose digits; `test_searches` has integrals of more digits.
        loose = 1e4 if lacks_moments(prediction.frozen.dist) else 1.0
        np.testing.assert_allclose(part.mean, one.mean(), rtol=1e-12 * loose, atol=1e-12 * loose)
        np.testing.assert_allclose(part.variance, one.var(), rtol=1e-11 * loose)


@pytest.mark.parametrize("name", OWN_SHAPES)
@pytest.mark.parametrize("own_levels", [False, True])
def test_rows_of_their_own_shapes_have_scipy_quantiles_and_moments(name, own_levels):
    frozen = cases(OWN_SHAPES)[name]
    prediction = ScipyPredictive(frozen, N)
    levels = np.tile(np.minimum(LEVELS, 1 - 1e-4), (N, 1))
    if own_levels:
        levels = levels ** np.linspace(0.8, 1.2, N)[:, None]
    quantiles, upper = prediction.quantiles_at(levels), prediction.upper_quantiles_at(levels)
    for row in range(N):
        one = getattr(stats, name)(
            *(np.broadcast_to(s, N)[row] for s in OWN_SHAPES[name]), LOC[row], SCALE[row]
        )
        # SciPy's own search ends at 2e-12 of the scale.
        np.testing.assert_allclose(quantiles[row], one.ppf(levels[row]), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(one.sf(upper[row]), levels[row], rtol=1e-6, atol=2e-15)
        assert prediction.mean[row] == pytest.approx(one.mean(), rel=1e-12)
        assert prediction.variance[row] == pytest.approx(one.var(), rel=1e-11)


def test_discrete_rows_have_scipy_quantiles_and_moments():
    rate = np.array([0.3, 2.0, 2.0, 70.0])
    frozen = stats.skellam(rate, 1.5, loc=[0, 3, -2, 1])
    prediction = ScipyPredictive(frozen, 4)
    np.testing.assert_array_equal(prediction.quantile(LEVELS), frozen.ppf(LEVELS[:, None]).T)
    np.testing.assert_allclose(prediction.mean, frozen.mean(), rtol=1e-14)
    np.testing.assert_allclose(prediction.variance, frozen.var(), rtol=1e-14)


@pytest.mark.parametrize("loc", [0.0, 0.1, -3.7])
def test_discrete_rows_of_their_own_shapes_have_scipy_quantiles(loc):
    rate = np.geomspace(0.3, 300, N)
    frozen = stats.skellam(rate, 1.5, loc=loc)
    prediction = ScipyPredictive(frozen, N)
    levels = np.array([0.0, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-9, 1.0])
    np.testing.assert_array_equal(prediction.quantile(levels), frozen.ppf(levels[:, None]).T)
    row_levels = np.clip(levels[1:-1] ** np.linspace(0.5, 2, N)[:, None], 1e-9, 1 - 1e-9)
    np.testing.assert_array_equal(prediction.quantiles_at(row_levels), frozen.ppf(row_levels.T).T)
    np.testing.assert_array_equal(
        prediction.upper_quantiles_at(row_levels), frozen.isf(row_levels.T).T
    )


def test_a_search_that_fails_from_below_is_made_from_above():
    """SciPy's quantile at level 1 - 1e-6 is an error, although that with 1e-6 above it is found."""
    frozen = stats.norminvgauss(1.25, 0.5, loc=LOC, scale=SCALE)
    with pytest.raises(ValueError, match="NaN"):
        frozen.ppf(1 - 1e-6)
    levels = np.array([1e-6, 0.3, 1 - 1e-6])
    quantiles = ScipyPredictive(frozen, N).quantile(levels)
    np.testing.assert_allclose(quantiles[:, 2], frozen.isf(1e-6), rtol=1e-9)
    np.testing.assert_array_equal(quantiles[:, :2], frozen.ppf(levels[:2, None]).T)


class NoSearch(stats.rv_continuous):
    """A family whose quantiles cannot be found."""

    def _cdf(self, x):
        return np.full_like(x, np.nan)


def test_a_search_that_fails_is_a_clear_error():
    prediction = ScipyPredictive(NoSearch(name="no_search")(loc=LOC), N)
    with pytest.raises(
        fm.errors.NumericalError, match=r"ppf of scipy\.stats\.no_search fails .*give draws"
    ):
        prediction.quantile([0.2, 0.5])


def test_moments_that_do_not_exist():
    prediction = ScipyPredictive(stats.burr12([1.0, 3.0], [1.5, 1.0], scale=2.0), 2)
    expected = stats.burr12([1.0, 3.0], [1.5, 1.0], scale=2.0)
    np.testing.assert_allclose(prediction.mean, expected.mean(), rtol=1e-12)
    np.testing.assert_array_equal(np.isfinite(prediction.variance), np.isfinite(expected.var()))
    assert not np.isfinite(ScipyPredictive(stats.cauchy(LOC, SCALE), N).mean).any()


@pytest.mark.parametrize("name", [*SAME_SHAPES, "gengamma"])
def test_coordinates_are_those_of_the_parameters(name):
    frozen = (cases(SAME_SHAPES) | cases(OWN_SHAPES))[name]
    prediction = ScipyPredictive(frozen, N)
    again = prediction.at(prediction.coordinates)
    y = prediction.quantile(np.array([0.1, 0.6]))
    np.testing.assert_allclose(again.quantile(np.array([0.1, 0.6])), y, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(again.log_densities(y), frozen.logpdf(y.T).T, rtol=1e-9, atol=1e-10)
    some = np.array([4, 1])
    np.testing.assert_array_equal(
        prediction.log_densities(y[some], some), prediction.log_densities(y)[some]
    )


class WithoutParameters:
    """A frozen distribution that does not tell its parameters as SciPy's do."""

    args, kwds = (), {}

    class dist:
        name = "own"

    mean, var, ppf, isf, rvs, support, stats = (
        getattr(stats.expon, name)
        for name in ("mean", "var", "ppf", "isf", "rvs", "support", "stats")
    )


def test_frozen_distributions_of_others():
    prediction = ScipyPredictive(WithoutParameters(), 3)
    np.testing.assert_array_equal(prediction.mean, np.ones(3))
    np.testing.assert_array_equal(prediction.variance, np.ones(3))
    np.testing.assert_allclose(
        prediction.quantile([0.5, 0.9]), np.tile(stats.expon.ppf([0.5, 0.9]), (3, 1))
    )


@pytest.mark.parametrize("n", [20, 64, 65, 1000])
@pytest.mark.parametrize("near", [0, 1, 2])
def test_the_note_of_far_outcomes_is_that_of_all_rows(rng, n, near):
    """Moments of eight rows settle most cases, but not differently from those of 64."""
    y = rng.normal(size=n) + 1e4
    y[rng.choice(n, near, replace=False)] -= 1e4
    nearly_all = near <= 0.02 * n or (n > 64 and near <= 1)
    assert bool(far_outcomes(y, fm.Gaussian(np.zeros(n), 1.0))) == nearly_all


@pytest.mark.parametrize(
    ("family", "shapes"), [("powernorm", (4.5,)), ("levy_l", ()), ("skewcauchy", (0.53,))]
)
def test_lost_quantiles_of_tiny_levels_do_not_refuse_a_prediction(rng, family, shapes):
    """SciPy's quantiles of level 1e-16 are infinite, or at the other end of the line."""
    n = 30
    x = rng.normal(size=n)
    frozen = getattr(stats, family)(*shapes, loc=x, scale=0.5)
    y = np.asarray(frozen.ppf(rng.uniform(0.05, 0.95, n)))
    result = fm.cce(x, y, frozen, y_kernel=fm.RBF(0.5))
    assert result.error_bound <= 1e-6
    # Draws of the same predictions, at levels in the middle of equal parts.
    draws = np.stack([frozen.ppf((k + 0.5) / 400) for k in range(400)], axis=1)
    target = fm.cce(x, y, draws, y_kernel=fm.RBF(0.5)).values
    np.testing.assert_allclose(result.values, target, atol=2e-3)


@pytest.mark.parametrize(
    ("name", "shapes"), [("geom", (0.3,)), ("exponnorm", (1.5,)), ("nbinom", (3.3, 0.4))]
)
def test_single_precision_parameters_are_computed_with_in_double_precision(name, shapes):
    """SciPy computes in the precision of the parameters: probabilities of geom summed to 1 + 1e-7."""
    single = [np.full(N, one, np.float32) for one in shapes]
    family, y = getattr(stats, name), np.arange(1.0, 1 + N)
    prediction = ScipyPredictive(family(*single), N)
    expected = family(*(one.astype(float) for one in single))
    np.testing.assert_array_equal(prediction.cdf(y), expected.cdf(y))
    np.testing.assert_array_equal(fm.crps(y, family(*single)), fm.crps(y, expected))


def test_single_precision_options_are_computed_with_in_double_precision():
    loc, y = np.linspace(-1, 1, N, dtype=np.float32), np.linspace(-2, 2, N)
    prediction = ScipyPredictive(stats.gumbel_l(loc=loc, scale=np.float32(0.3)), N)
    expected = stats.gumbel_l(loc.astype(float), float(np.float32(0.3)))
    np.testing.assert_array_equal(prediction.log_prob(y), expected.logpdf(y))


@pytest.mark.parametrize(
    ("name", "shapes", "is_infinite"),
    [
        ("levy", [()] * 3, [True, True, True]),
        ("burr12", [(1.0, 0.8), (1.0, 0.4), (1.0, 0.8)], [False, True, False]),
    ],
)
def test_scores_of_heavy_tails_are_infinite_in_all_rows_of_a_shape(name, shapes, is_infinite):
    """The squared tail has an integral if its index exceeds 1/2, at any scale and outcome."""
    loc, scale = LOC[:3], SCALE[:3]
    frozen = getattr(stats, name)(*np.array(shapes).T, loc=loc, scale=scale)
    prediction, y = ScipyPredictive(frozen, 3), loc + 1.5 * scale
    alone = ByQuadrature.crps(prediction, y)
    np.testing.assert_array_equal(np.isinf(alone), is_infinite)
    np.testing.assert_array_equal(prediction.crps(y), alone)
    y[0] = np.inf  # says nothing about other rows of this shape
    np.testing.assert_array_equal(prediction.crps(y)[1:], alone[1:])


class _OfMassesOnly(stats.rv_discrete):
    """A user's geometric distribution from 0 on, of which SciPy knows only the probabilities."""

    def _pmf(self, k, p):
        return p * (1 - p) ** k

    def _argcheck(self, p):
        return (p > 0) & (p < 1)


@pytest.mark.parametrize("heavy", [False, True])
def test_discrete_families_without_cdf_end_their_tails(heavy):
    """SciPy's search for the last value never ended where rounded sums stay below 1."""
    p = np.random.default_rng(0).uniform(0.1, 0.6, 60)[30:]
    if heavy:
        p = np.append(p, 1e-3)  # a tail of 37,000 values
    counts = np.arange(60_000.0)
    prediction = ScipyPredictive(_OfMassesOnly(a=0, name="of_masses_only")(p, loc=2), len(p))
    y = np.array([2.0, 5.0, 40.0])
    masses = p[:, None] * np.exp(np.multiply.outer(np.log1p(-p), counts))
    kernel = np.exp(-0.01 * (2 + counts[:, None] - y) ** 2)
    expected = prediction.expected_kernel(fm.RBF(0.01), y[:, None])
    np.testing.assert_allclose(expected, masses @ kernel, rtol=1e-10, atol=1e-14)
    last = np.ceil(np.log(1e-16) / np.log1p(-p.min()))  # P(Y - 2 >= k) = (1 - p)^k
    assert abs(prediction.node_count - last) <= 2


def test_discrete_families_without_lower_end_are_refused_by_name():
    class Unbounded(_OfMassesOnly):
        def _pmf(self, k, p):
            return p * (1 - p) ** -k

    frozen = Unbounded(a=-np.inf, b=0, name="unbounded")(np.full(5, 0.3))
    with pytest.raises(
        fm.errors.NumericalError, match=r"prediction: (ppf|isf) of scipy\.stats\.unbounded fails"
    ):
        fm.cce(np.arange(5.0), -np.arange(5.0), frozen)


def test_scores_of_few_counts_share_the_probabilities_of_the_prediction(monkeypatch):
    mu = np.random.default_rng(0).uniform(1.0, 10.0, (2, 50))
    frozen = stats.skellam(*mu)
    prediction = ScipyPredictive(frozen, 50)
    y = np.arange(50.0) % 7 - 3
    prediction.nodes()
    with monkeypatch.context() as patch:
        patch.delattr(ScipyPredictive, "_masses")
        scores = prediction.crps(y)
    parts = [prediction.take(np.array([row])).crps(y[row : row + 1])[0] for row in range(50)]
    np.testing.assert_allclose(scores, parts, rtol=1e-12)
    values = np.arange(-80.0, 81.0)
    exact = (frozen.cdf(values[:, None]) - (values[:, None] >= y)) ** 2
    np.testing.assert_allclose(scores, exact.sum(axis=0), rtol=1e-10)
