"""Searches for quantiles, and what parts of a prediction share: ends of panels and moments."""

import pickle

import mpmath as mp
import numpy as np
import pytest
import scipy
from scipy import stats

from fastmcmd._base import row_store
from fastmcmd._base.row_store import RowStore
from fastmcmd.predictive import ScipyPredictive
from fastmcmd.predictive.adapters import frozen as frozen_module
from fastmcmd.predictive.numerics.inverse import by_search, least, masses_above, masses_below
from fastmcmd.predictive.numerics.node_moments import node_moments
from fastmcmd.predictive.numerics.quadrature import PANEL_LEVELS

LEVELS = np.array([1e-300, 1e-16, 1e-9, 1e-3, 0.2, 0.5, 0.8, 0.999, 1 - 1e-9])


class Cdf:
    """One of the cdfs of numbers, and how often it is evaluated."""

    discrete = False

    def __init__(self, cdf, sf, loc, scale):
        self._cdf, self._sf, self.loc, self.scale = cdf, sf, loc, scale
        self.counts = []

    def __len__(self):
        return len(self.loc)

    def take(self, rows):
        part = Cdf(self._cdf, self._sf, self.loc[rows], self.scale[rows])
        part.counts = self.counts
        return part

    def cdf(self, x):
        self.counts.append(len(x))
        return self._cdf((x - self.loc) / self.scale)

    def sf(self, x):
        self.counts.append(len(x))
        return self._sf((x - self.loc) / self.scale)


def normal(loc, scale):
    return Cdf(scipy.special.ndtr, lambda z: scipy.special.ndtr(-z), loc, scale)


PLACES = {
    "moderate": (np.array([-3.0, 0.0, 0.1, 50.0]), np.array([1.0, 2.0, 0.01, 7.0])),
    "tiny": (np.zeros(2), np.array([1e-200, 1e-290])),
    "huge": (np.array([0.0, 1e200]), np.array([1e250, 1e199])),
    "far": (np.array([1e10, -1e12]), np.array([1e-3, 1.0])),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_search_ends_at_the_last_digit_of_a_normal_quantile(name):
    prediction = normal(*PLACES[name])
    levels = np.tile(LEVELS, (len(prediction), 1))
    low = by_search(prediction, levels, masses_below)
    high = by_search(prediction, levels, masses_above)
    z = scipy.special.ndtri(LEVELS)
    loc, scale = (one[:, None] for one in PLACES[name])
    rounding = 4e-16 * np.abs(loc) + scale * (2e-14 * np.abs(z) + 2e-16)
    assert (np.abs(low - loc - scale * z) <= rounding)[:, :6].all()
    assert (np.abs(high - loc + scale * z) <= rounding)[:, :6].all()
    for column, level in enumerate(
        LEVELS
    ):  # the cdf reaches the level there, and not one double before
        assert (prediction.cdf(low[:, column]) >= level).all()
        assert (prediction.cdf(np.nextafter(low[:, column], -np.inf)) < level).all()
        assert (prediction.sf(high[:, column]) <= level).all()
        assert (prediction.sf(np.nextafter(high[:, column], -np.inf)) > level).all()


def test_a_smooth_cdf_is_evaluated_a_third_as_often_as_by_halving(rng):
    prediction = normal(rng.normal(size=500), rng.uniform(0.1, 3.0, 500))
    levels = np.tile(LEVELS[1:8], (500, 1))
    by_search(prediction, levels, masses_below)
    assert sum(prediction.counts) <= 64 / 3 * levels.size


@pytest.mark.parametrize("scale", [1e-250, 1e-3, 1.0, 1e80])
def test_jumps_and_flat_stretches_cost_no_more_than_halving_after_interpolation(scale):
    def steps(z):  # atoms at -1 and 2, a density on (0, 1)
        return 0.25 * (z >= -1) + 0.5 * np.clip(z, 0.0, 1.0) + 0.25 * (z >= 2)

    prediction = Cdf(steps, None, np.zeros(1), np.full(1, scale))
    levels = np.array([[0.1, 0.25, 0.3, 0.5, 0.75, 0.8, 1 - 1e-9]])
    quantiles = by_search(prediction, levels, masses_below)
    assert max(prediction.counts) == levels.size
    assert len(prediction.counts) <= 24 + 64
    expected = least(lambda x: steps(x / scale) >= levels[0], levels.size)
    np.testing.assert_array_equal(quantiles[0], expected)
    np.testing.assert_allclose(expected / scale, [-1, -1, 0.1, 0.5, 1, 2, 2], rtol=1e-15)


def test_a_cdf_of_nan_or_below_the_level_everywhere_has_an_infinite_quantile():
    prediction = Cdf(lambda z: np.where(z > 7, np.nan, 0.1), None, np.zeros(2), np.ones(2))
    assert np.isposinf(by_search(prediction, np.full((2, 1), 0.5), masses_below)).all()


@pytest.mark.parametrize("loc", [0.0, 3.0, 1e6])
def test_quantiles_of_lattices_are_the_first_values_whose_cumulative_mass_reaches_a_level(loc):
    one, other = np.array([3.0, 20.0, 0.5]), np.array([8.0, 2.0, 0.5])
    prediction = ScipyPredictive(stats.skellam(one, other, loc=loc), 3)
    levels = np.array([[1e-12, 1e-3, 0.31, 0.5, 0.77, 0.999]]) * np.array([[1.0], [0.99], [0.98]])
    values = np.arange(-120.0, 121.0)
    for row in range(3):
        cumulative = np.cumsum(stats.skellam.pmf(values, one[row], other[row]))
        below = values[np.searchsorted(cumulative, levels[row])] + loc
        np.testing.assert_array_equal(prediction.quantiles_at(levels)[row], below)
        above = np.cumsum(stats.skellam.pmf(values[::-1], one[row], other[row]))[::-1]
        first = [values[1:][above[1:] <= level][0] - 1 + loc for level in levels[row]]
        np.testing.assert_array_equal(prediction.upper_quantiles_at(levels)[row], first)


FAMILIES = {
    "skewnorm": lambda k: stats.skewnorm(k, loc=k, scale=2.0),
    "invgauss": lambda k: stats.invgauss(k + 2.5, loc=k, scale=1.0 + k**2),
    "exponnorm": lambda k: stats.exponnorm(k + 2.5, loc=k),
    "argus": lambda k: stats.argus(np.where(k > 0, 1.0, 2.0), loc=k),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_parts_share_the_ends_of_their_panels(name, monkeypatch):
    shapes = np.linspace(-2.0, 2.0, 12)
    prediction = ScipyPredictive(FAMILIES[name](shapes), 12)
    searched = []

    def counting(shapes, name, levels):
        if levels is PANEL_LEVELS:  # others are those of rows whose densities are not smooth
            searched.append(len(shapes))
        return original(shapes, name, levels)

    original = frozen_module._standard_quantiles
    monkeypatch.setattr(frozen_module, "_standard_quantiles", counting)
    rows = np.array([7, 2, 9, 2])
    first = prediction.take(rows).nodes()
    count = sum(searched)
    assert count > 0
    part = prediction.take(np.array([1, 2, 3, 7, 9])).take(np.array([3, 1, 4, 1]))
    again, coarse = part.nodes(), part.coarse_nodes()
    assert sum(searched) == count  # nothing is searched again
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    alone = ScipyPredictive(FAMILIES[name](shapes[[7, 2, 9, 2]]), 4)
    for one, other in zip(alone.nodes() + alone.coarse_nodes(), again + coarse, strict=True):
        np.testing.assert_array_equal(one, other)
    lower, upper = prediction.panel_quantiles(PANEL_LEVELS)
    frozen = FAMILIES[name](shapes)
    np.testing.assert_allclose(
        frozen.cdf(lower.T).T, np.tile(PANEL_LEVELS, (12, 1)), rtol=1e-6, atol=1e-15
    )
    np.testing.assert_allclose(
        frozen.sf(upper.T).T, np.tile(PANEL_LEVELS, (12, 1)), rtol=1e-6, atol=1e-15
    )


def test_a_row_store_is_bounded_and_its_copies_start_empty(monkeypatch):
    monkeypatch.setattr(row_store, "_MOST_BYTES", 8 * 3 * 5)  # five rows of three numbers
    store, computed = RowStore(8, 3), []

    def rows_of(rows):
        def compute(places):
            computed.extend(rows[places])
            return rows[places][:, None] + np.array([0.0, 0.25, 0.5])

        return store.rows(rows, compute)

    for rows in (np.array([6, 1, 4]), np.array([1, 6, 0, 4, 4])):
        np.testing.assert_array_equal(rows_of(rows), rows[:, None] + np.array([0.0, 0.25, 0.5]))
    assert computed == [6, 1, 4, 6, 0]  # row 6 is beyond the bound
    store = pickle.loads(pickle.dumps(store))
    rows_of(np.array([1]))
    assert computed[-1] == 1


def test_rows_of_few_shapes_have_the_nodes_of_their_shapes():
    shapes, loc = np.repeat([0.5, 2.0], 4), np.linspace(-3, 3, 8)
    prediction = ScipyPredictive(stats.exponnorm(shapes, loc=loc, scale=1.5), 8)
    values, weights = prediction.nodes()
    for row in range(8):
        one = ScipyPredictive(stats.exponnorm(shapes[row], loc=loc[row], scale=1.5), 1).nodes()
        np.testing.assert_allclose(values[row], one[0][0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(weights[row], one[1][0], rtol=1e-7, atol=1e-13)
    mean = np.einsum("nl,nl->n", weights, values)
    np.testing.assert_allclose(mean, loc + 1.5 * shapes, rtol=1e-12, atol=1e-12)


def von_mises(kappa):
    """Return the moments of a von Mises distribution, from its Fourier series."""
    ratio = [mp.besseli(k, kappa) / mp.besseli(0, kappa) for k in range(60)]
    return 0, mp.pi**2 / 3 + 4 * sum((-1) ** k * ratio[k] / k**2 for k in range(1, 60))


def johnson_sb(a, b):
    """Return the moments of Johnson's bounded distribution, from those of the normal one."""

    def moment(order):
        return mp.quad(
            lambda z: mp.npdf(z) / (1 + mp.exp(-(z - a) / b)) ** order, [-30, -8, -2, 0, 2, 8, 30]
        )

    return moment(1), moment(2) - moment(1) ** 2


def power_normal(c):
    """Return the moments of the smallest of c normal numbers."""

    def moment(order):
        return mp.quad(
            lambda z: z**order * c * mp.npdf(z) * mp.ncdf(-z) ** (c - 1), [-30, -8, -2, 0, 2, 8, 30]
        )

    return moment(1), moment(2) - moment(1) ** 2


MOMENTS = {
    "vonmises": ([0.5, 1.3, 4.0], von_mises),
    "johnsonsb": ([[4.3, 1.0], [3.2, 0.7]], johnson_sb),
    "powernorm": ([4.4, 1.5], power_normal),
    "recipinvgauss": ([0.6, 2.0], lambda mu: (1 / mp.mpf(mu) + 1, 1 / mp.mpf(mu) + 2)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_without_a_formula_are_exact(name, monkeypatch):
    shapes, exact = MOMENTS[name]
    shapes = np.atleast_2d(np.array(shapes))
    family = getattr(stats, name)
    n = shapes.shape[1]
    prediction = ScipyPredictive(family(*shapes, loc=np.full(n, 0.5), scale=np.full(n, 2.0)), n)
    monkeypatch.setattr(type(family), "stats", None)  # SciPy's integrals take seconds
    for row, parameters in enumerate(shapes.T):
        mean, variance = (float(one) for one in exact(*map(float, parameters)))
        np.testing.assert_allclose(prediction.mean[row], 0.5 + 2 * mean, rtol=1e-12)
        np.testing.assert_allclose(prediction.variance[row], 4 * variance, rtol=1e-11)


def test_moments_of_heavy_tails_are_left_to_scipy():
    prediction = ScipyPredictive(stats.pareto(np.array([0.7, 1.4, 2.5, 40.0])), 4)
    mean, variance, skewness, excess = node_moments(prediction.nodes(), prediction.coarse_nodes())
    np.testing.assert_array_equal(np.isnan(mean), [True, True, True, False])
    np.testing.assert_array_equal(np.isnan(variance), [True, True, True, False])
    assert np.isnan(
        [skewness[3], excess[3]]
    ).all()  # shares of 1e-12 and more beyond 1e-16 of the mass
    expected = [float(one) for one in stats.pareto(40.0).stats("mv")]
    np.testing.assert_allclose([mean[3], variance[3]], expected, rtol=1e-11)
