"""Quantiles as distributions agree with numerical integrals of their definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.predictive.quantiles import TAILS, Quantiles

LEVELS = np.array([0.05, 0.25, 0.4, 0.5, 0.9])


def some(rng, tails, n=6):
    values = np.sort(rng.normal(size=(n, len(LEVELS))), axis=1)
    values[0, 1:3] = values[0, 1]  # an atom inside
    values[1, :2] = values[1, 0]  # beside a tail
    values[2] = 0.7  # a point
    return Quantiles(LEVELS, values, tails=tails)


def over_levels(quantiles, row, function):
    """Return the integral over u of a function of the quantile at u and u."""
    part = quantiles.take(np.array([row]))
    ends = [0.0, *quantiles.levels, 1.0]
    return sum(
        integrate.quad(
            lambda u: function(float(part.quantile(u)[0]), u), a, b, epsabs=1e-13, epsrel=1e-12
        )[0]
        for a, b in itertools.pairwise(ends)
    )


@pytest.mark.parametrize("tails", TAILS)
def test_given_quantiles_are_exact(rng, tails):
    q = some(rng, tails)
    np.testing.assert_array_equal(q.quantile(LEVELS), q.values)
    np.testing.assert_array_equal(q.quantile(0.4), q.values[:, 2])
    between = q.quantile(0.3)
    np.testing.assert_allclose(between, q.values[:, 1] + (q.values[:, 2] - q.values[:, 1]) / 3)
    many = q.quantile(np.linspace(0, 1, 101))
    assert (many[:, 1:] >= many[:, :-1]).all()


@pytest.mark.parametrize("tails", TAILS)
def test_cdf_and_quantiles_are_inverse(rng, tails):
    """At every level u: P(Y < q) <= u <= P(Y <= q), and q is the smallest such number."""
    q = some(rng, tails)
    for u in np.linspace(0.001, 0.999, 51):
        y = q.quantile(u)
        assert (q.cdf_below(y) <= u + 1e-13).all()
        assert (q.cdf(y) >= u - 1e-13).all()
        assert (q.cdf(y - 1e-6) < u).all()
    y = rng.normal(size=len(q))
    np.testing.assert_allclose(q.sf(y), 1 - q.cdf(y), atol=1e-15)
    np.testing.assert_array_equal(q.cdf([np.inf, -np.inf, np.nan] * 2), [1, 0, np.nan] * 2)


def test_atoms(rng):
    q = some(rng, "exponential")
    inside, beside, point = q.values[0, 1], q.values[1, 0], 0.7
    y = np.array([inside, beside, point])
    part = q.take(np.arange(3))
    np.testing.assert_allclose(part.cdf(y), [0.4, 0.25, 1.0])
    np.testing.assert_allclose(part.cdf_below(y), [0.25, 0.0, 0.0])
    flat = Quantiles(LEVELS, [np.arange(5.0)], tails="flat")
    assert [float(flat.cdf([v])[0]) for v in (-0.1, 0.0, 4.0)] == [0.0, 0.05, 1.0]
    assert [float(flat.cdf_below([v])[0]) for v in (0.0, 4.0, 4.1)] == [0.0, 0.9, 1.0]


def test_exponential_tails_continue_the_density():
    q = Quantiles([0.2, 0.4, 0.9], [[0.0, 1.0, 3.0]])
    step = 1e-5
    for knot in (0.0, 3.0):
        left = (q.cdf([knot]) - q.cdf([knot - step])) / step
        right = (q.cdf([knot + step]) - q.cdf([knot])) / step
        np.testing.assert_allclose(left, right, rtol=1e-4)
    np.testing.assert_allclose(q.sf([3.0 + 2 * 0.4]), 0.1 * np.exp(-2), rtol=1e-13)
    np.testing.assert_allclose(q.sf([3.0 + 100 * 0.4]), 0.1 * np.exp(-100), rtol=1e-12)


@pytest.mark.parametrize("tails", TAILS)
def test_moments(rng, tails):
    q = some(rng, tails)
    for row in range(len(q)):
        mean = over_levels(q, row, lambda v, u: v)
        assert q.mean[row] == pytest.approx(mean, abs=1e-9)
        variance = over_levels(q, row, lambda v, u, mean=mean: (v - mean) ** 2)
        assert q.variance[row] == pytest.approx(variance, abs=1e-9)
    np.testing.assert_allclose(q.std**2, q.variance)


@pytest.mark.slow
@pytest.mark.parametrize("tails", TAILS)
@pytest.mark.parametrize("place", [-2.5, -0.3, 0.2, 0.7, 1.1, 4.0])
def test_crps_is_twice_the_integrated_check_loss(rng, tails, place):
    q = some(rng, tails)
    scores = q.crps(np.full(len(q), place))
    for row in range(len(q)):
        loss = over_levels(q, row, lambda v, u: (u - (place < v)) * (place - v))
        assert scores[row] == pytest.approx(2 * loss, abs=1e-6)  # a kink inside quad's panels


@given(st.data())
def test_crps_at_knots_and_anywhere(data):
    """Agree with the integral of (F - 1{y <= t})^2 in Gauss-Legendre panels between all kinks."""
    values = data.draw(
        hnp.arrays(np.float64, 5, elements=st.floats(-10, 10).map(lambda v: round(v, 2)))
    )
    values.sort()
    tails = data.draw(st.sampled_from(TAILS))
    y = data.draw(st.sampled_from(list(values)) | st.floats(-15, 15))
    q = Quantiles(LEVELS, values[None], tails=tails)
    z, w = np.polynomial.legendre.leggauss(20)
    reach = 40.0 * (1 + np.ptp(values))
    far = np.concatenate([-np.geomspace(reach, 1e-3, 60), np.geomspace(1e-3, reach, 60)])
    kinks = np.unique(np.concatenate([values, [y], values[0] + far, values[-1] + far]))
    a, b = kinks[:-1, None], kinks[1:, None]
    t = (a + b) / 2 + (b - a) / 2 * z
    squares = (
        q.take(np.zeros(t.size, dtype=np.intp)).cdf(t.ravel()).reshape(t.shape) - (t >= y)
    ) ** 2
    integral = (squares * w * (b - a) / 2).sum()
    assert float(q.crps([y])[0]) == pytest.approx(integral, abs=1e-9)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 129])
@pytest.mark.parametrize("count", [2, 3, 19])
def test_crps_of_a_row_does_not_depend_on_the_rows_beside_it(rng, n, count):
    levels = np.sort(rng.random(count))
    values = np.sort(rng.normal(size=(n, count)).round(1), axis=1)  # with equal quantiles
    y = np.where(rng.random(n) < 0.3, values[:, 0], rng.normal(size=n).round(1))
    scores = Quantiles(levels, values).crps(y)
    alone = [Quantiles(levels, values[i : i + 1]).crps(y[i : i + 1])[0] for i in range(n)]
    np.testing.assert_array_equal(scores, alone)


def test_crps_of_outcomes_that_are_not_finite(rng):
    q = some(rng, "exponential", 3)
    np.testing.assert_array_equal(q.crps([np.nan, np.inf, -np.inf]), [np.nan, np.inf, np.inf])


def test_many_quantiles_of_a_gaussian_score_as_it_does(rng):
    mean, std = rng.normal(size=20), rng.uniform(0.5, 2, 20)
    y = rng.normal(size=20)
    gaussian = fm.Gaussian(mean, std)
    levels = np.arange(1, 2000) / 2000
    q = Quantiles(levels, gaussian.quantile(levels))
    np.testing.assert_allclose(q.crps(y), gaussian.crps(y), rtol=1e-4)
    np.testing.assert_allclose(q.mean, mean, atol=1e-12)
    np.testing.assert_allclose(q.std, std, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("tails", TAILS)
def test_nodes(rng, tails):
    q = some(rng, tails)
    for values, weights in (q.nodes(), q.nodes(2), q.coarse_nodes()):
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-13)
        np.testing.assert_allclose((weights * values).sum(axis=1), q.mean, atol=1e-9)
        for row in range(len(q)):
            expected = over_levels(q, row, lambda v, u: np.exp(-(v**2)))
            expectations = (weights[row] * np.exp(-(values[row] ** 2))).sum()
            assert expectations == pytest.approx(expected, abs=1e-5)
    assert q.node_count == q.nodes()[1].shape[1]
    points = np.array([[0.0], [1.0]])
    expectations = q.expected_kernel(fm.RBF(1.0), points)
    for row in range(len(q)):
        expected = over_levels(q, row, lambda v, u: np.exp(-((v - 1) ** 2)))
        assert expectations[row, 1] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("tails", TAILS)
def test_samples(rng, tails):
    q = some(rng, tails)
    draws = q.sample(5000, 3)
    assert draws.shape == (6, 5000)
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(draws, q.sample(5000, 3))
    for row in (3, 4, 5):
        grid = np.linspace(-3, 3, 61)
        share = (draws[row][:, None] <= grid).mean(axis=0)
        exact = q.take(np.full(61, row)).cdf(grid)
        assert np.abs(share - exact).max() < 0.025  # Kolmogorov: 1.63 / sqrt(5000) at 1 %
    assert (draws[2] == 0.7).all()


def test_take_and_shift(rng):
    q = some(rng, "exponential")
    y, rows = rng.normal(size=6), np.array([4, 1, 1])
    part = q.take(rows)
    assert part.tails == q.tails
    for name in ("cdf", "cdf_below", "crps"):
        np.testing.assert_array_equal(getattr(part, name)(y[rows]), getattr(q, name)(y)[rows])
    np.testing.assert_array_equal(part.variance, q.variance[rows])
    shifted = Quantiles(LEVELS, 4 * q.values + 1)
    np.testing.assert_allclose(shifted.crps(4 * y + 1), 4 * q.crps(y), rtol=1e-12)


def test_crossing_quantiles_are_sorted_on_request():
    values = np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 2.0], [1.0, 0.0, 5.0]])
    before = values.copy()
    with pytest.raises(ValueError, match="row 1 decrease: quantiles cross there, and in 2 rows"):
        Quantiles([0.1, 0.5, 0.9], values)
    prediction = Quantiles([0.1, 0.5, 0.9], values, sort=True)
    np.testing.assert_array_equal(prediction.values, np.sort(values, axis=1))
    np.testing.assert_array_equal(values, before)


def test_one_level(rng):
    q = Quantiles([0.5], [[1.0], [2.0]], tails="flat")
    assert q.quantile([0.1, 0.9]).tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert q.crps([3.0, 1.5]).tolist() == [2.0, 0.5]
    with pytest.raises(ValueError, match="one level"):
        Quantiles([0.5], [[1.0]])


def test_exponential_tails_keep_the_spread_of_a_laplace_distribution():
    levels = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    laplace = stats.laplace()
    deviation = {t: Quantiles(levels, laplace.ppf(levels)[None], tails=t).std[0] for t in TAILS}
    assert abs(deviation["exponential"] - np.sqrt(2)) < 0.2
    assert deviation["flat"] < 1.1


@pytest.mark.parametrize(
    ("levels", "values", "options", "message"),
    [
        ([0.5, 0.1], [[0, 1]], {}, "must increase strictly"),
        ([0.1, 0.1], [[0, 1]], {}, "must increase strictly"),
        ([0.0, 0.5], [[0, 1]], {}, "numbers between 0 and 1"),
        ([0.5, np.nan], [[0, 1]], {}, "numbers between 0 and 1"),
        ([], [[]], {}, r"\(j,\) is needed"),
        ([0.1, 0.5], [0.0, 1.0], {}, r"values have shape \(2,\)"),
        ([0.1, 0.5], [[0.0, 1.0, 2.0]], {}, r"\(n, 2\) is needed"),
        ([0.1, 0.5], np.zeros((0, 2)), {}, "values has no rows"),
        ([0.1, 0.5], [[0.0, np.nan]], {}, "values holds NaN"),
        ([0.1, 0.5], [[0.0, np.inf]], {"sort": True}, "values holds infinity"),
        ([0.1, 0.5], [[0.0, 1.0]], {"tails": "normal"}, "tails is 'normal'"),
    ],
)
def test_bad_input(levels, values, options, message):
    with pytest.raises(ValueError, match=message):
        Quantiles(levels, values, **options)


def test_no_density(rng):
    q = some(rng, "exponential")
    assert not q.has_density
    with pytest.raises(ValueError, match="quantiles have no density"):
        q.log_prob(np.zeros(6))
    with pytest.raises(ValueError, match="y has shape"):
        q.crps([0.0, 1.0])
