"""Interpolated expected features against integrals of single rows, for every family."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.backends import CpuBackend
from fastmcmd.embedding import interpolation
from fastmcmd.embedding.candidates import candidates
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.interpolation import InterpolatedMeans, integration_sites
from fastmcmd.embedding.parameter_cells import CellTree
from fastmcmd.embedding.parameter_series import ParameterSeries
from fastmcmd.embedding.quadrature import mean_features_by_nodes

predictive = fm.predictive
KERNEL = 0.5 * fm.RBF(0.05) + 0.5 * fm.RBF(0.5)  # narrow ones need hundreds of features in tails
NARROW = 0.5 * fm.RBF(0.3) + 0.5 * fm.RBF(4.0)
KERNELS = {  # heavy tails, densities with jumps, and those that are narrow near 0
    "StudentT": fm.RBF(0.5),
    "Uniform": fm.RBF(0.1),
    "LogNormal": NARROW,
    "Gamma": NARROW,
}
GOAL = 1e-8
ROWS = 4000


def cloud(n, seed=0, columns=2):
    """Return parameters near a curve, as models predict them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    first = np.sin(x) + 0.5 * x
    second = (0.4 + 0.2 * np.abs(x)) * np.exp(0.1 * rng.normal(size=n))
    return (first, second, np.exp(0.3 * rng.normal(size=n)))[:columns]


def families(n, seed=0):
    """Return predictions of every family."""
    loc, scale, other = cloud(n, seed, 3)
    positive = 1.5 + np.tanh(loc)
    return {
        "StudentT": predictive.StudentT(5.0, loc, scale),
        "StudentT, own df": predictive.StudentT(3 + 2 * other, loc, scale),
        "Laplace": predictive.Laplace(loc, scale),
        "Logistic": predictive.Logistic(loc, 0.5 * scale),
        "Uniform": predictive.Uniform(loc - scale, loc + scale),
        "LogNormal": predictive.LogNormal(0.4 * loc, 0.5 * scale),
        "Gamma": predictive.Gamma(positive, 1 / scale),
        "Beta": predictive.Beta(positive, 1 + scale),
        "Weibull": fm.Weibull(positive, 2 * scale),
        "Exponential": fm.Exponential(1 / scale),
        "GeneralizedPareto": fm.GeneralizedPareto(0.2 * np.tanh(loc), scale, 0.0),
    }


def features_of(kernel, prediction, count=300):
    """Return features of the kernel on outputs of some predictions."""
    some = prediction.take(np.linspace(0, len(prediction) - 1, count).astype(np.intp))
    outputs, importance = candidates(some)
    return output_features(kernel, CpuBackend(), outputs, 1e-12, 900, importance)[0]


def means_of(prediction, kernel=KERNEL, goal=GOAL):
    """Return interpolated means, and a function that integrates rows."""
    features = features_of(kernel, prediction)

    def integrals(some):
        return mean_features_by_nodes(features, some, goal)

    return InterpolatedMeans.of_all(prediction, kernel, integrals, goal), integrals


@cache
def means_of_family(name):
    """Return a family, its interpolated means, a function that integrates rows, and the goal."""
    own_df = name == "StudentT, own df"
    prediction = families(16_000 if own_df else ROWS)[name]
    goal = 100 * GOAL if own_df else GOAL  # three parameters need more points
    return prediction, *means_of(prediction, KERNELS.get(name, KERNEL), goal), goal


def assert_within_errors(means, integrals, some):
    """Compare interpolated means of some predictions with their integrals."""
    mean, _, error = means.of(some)
    expected, _, errors = integrals(some)
    assert (np.linalg.norm(mean - expected, axis=1) <= error + errors).all()


@pytest.mark.parametrize("name", families(2))
def test_coordinates_are_those_of_the_parameters(name):
    prediction = families(50)[name]
    same = prediction.at(prediction.coordinates)
    levels = np.array([0.01, 0.3, 0.9])
    assert type(same) is type(prediction)
    np.testing.assert_allclose(same.quantile(levels), prediction.quantile(levels), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", families(2))
def test_every_family_is_interpolated_within_its_errors(name):
    prediction, means, integrals, goal = means_of_family(name)
    assert means is not None
    mean, residual, error = means.of(prediction)
    rows = np.random.default_rng(1).choice(len(prediction), 50, replace=False)
    expected, residuals, errors = integrals(prediction.take(rows))
    differences = np.linalg.norm(mean[rows] - expected, axis=1)
    assert (differences <= error[rows] + errors).all()
    if name != "StudentT, own df":  # others exhaust the work for refinement
        assert np.median(error) < 4 * max(goal, np.median(errors))
    assert 0.7 < np.median(residual[rows] / residuals) < 2  # series on panels round up


@pytest.mark.slow
@pytest.mark.parametrize("name", ["StudentT", "Gamma", "Laplace"])
def test_features_are_those_of_scipy_quadrature(name):
    prediction, means, _, _ = means_of_family(name)
    loc, scale = cloud(ROWS)
    positive = 1.5 + np.tanh(loc)
    features = features_of(KERNELS.get(name, KERNEL), prediction)
    rows = np.random.default_rng(2).choice(ROWS, 4, replace=False)
    mean, _, error = means.of(prediction.take(rows))
    for place, row in enumerate(rows):
        frozen = {
            "StudentT": stats.t(5.0, loc[row], scale[row]),
            "Gamma": stats.gamma(positive[row], scale=scale[row]),
            "Laplace": stats.laplace(loc[row], scale[row]),
        }[name]
        middle = frozen.ppf(0.5)

        def integrand(y, frozen=frozen):
            return frozen.pdf(y) * features.transform(np.array([[y]]))[0]

        ends = [-np.inf if name != "Gamma" else 0.0, middle, np.inf]
        total = sum(
            integrate.quad_vec(integrand, *pair, epsabs=1e-11, limit=400)[0]
            for pair in (ends[:2], ends[1:])
        )
        assert np.linalg.norm(total - mean[place]) <= error[place] + 1e-9


@pytest.mark.slow
def test_mixtures_are_sums_of_their_families():
    loc, scale = cloud(4000)
    parts = [predictive.StudentT(4.0, loc, scale), predictive.Laplace(loc + 1, scale)]
    share = np.random.default_rng(3).uniform(size=4000)
    share[::7] = 0.0
    prediction = fm.Mixture(parts, np.stack([share, 1 - share], axis=1))
    means, integrals = means_of(prediction, fm.RBF(0.5), 1e-6)
    assert means is not None
    rows = np.r_[:60, 3500:3560]
    assert_within_errors(means, integrals, prediction.take(rows))


@pytest.mark.slow
def test_mixtures_with_gaussian_components_are_interpolated():
    loc, scale = cloud(8000)
    parts = [predictive.StudentT(4.0, loc, scale), fm.Gaussian(loc + 1, 0.5 * scale)]
    prediction = fm.Mixture(parts, np.array([0.3, 0.7]))
    means, integrals = means_of(prediction, fm.RBF(0.5), 1e-6)
    assert means is not None
    assert_within_errors(means, integrals, prediction.take(np.arange(100)))
    gaussian = fm.Mixture([fm.Gaussian(loc, scale), fm.Gaussian(loc + 1, scale)])
    means, integrals = means_of(gaussian, fm.RBF(0.5), 1e-6)
    assert_within_errors(means, integrals, gaussian.take(np.arange(100)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_rare_rows_unlike_the_rest_are_integrated_themselves(seed):
    rng = np.random.default_rng(seed)
    loc, scale = cloud(16_000, seed)
    rare = rng.choice(16_000, 7, replace=False)
    loc[rare], scale[rare] = rng.normal(0, 5, 7), np.exp(rng.normal(0, 3, 7))
    prediction = predictive.Laplace(loc, scale)
    means, integrals = means_of(prediction)
    assert_within_errors(means, integrals, prediction.take(rare))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_errors_of_rare_narrow_rows_hold_under_a_weak_narrow_kernel(seed):
    """The kernel's length hides its narrow part, which only one row in a hundred resolves."""
    rng = np.random.default_rng(seed)
    loc, scale = 0.2 * rng.normal(size=3000), 0.3 * np.exp(0.1 * rng.normal(size=3000))
    rare = rng.choice(3000, 30, replace=False)
    scale[rare] = 0.01 * np.exp(0.5 * rng.normal(size=30))
    prediction, kernel = predictive.Laplace(loc, scale), fm.RBF(0.3) + 1e-4 * fm.RBF(300.0)
    means, integrals = means_of(prediction, kernel, 1e-3)
    assert_within_errors(means, integrals, prediction.take(rare))


def test_predictions_beyond_the_cells_are_integrated():
    _, means, integrals, goal = means_of_family("StudentT")
    foreign = predictive.StudentT(
        [5.0, 5.0, 3.0, 5.0], [0.0, 80.0, 0.1, 0.2], [1e-3, 1.0, 0.5, 0.5]
    )
    mean, residual, error = means.of(foreign)
    expected = integrals(foreign.take(np.arange(3)))
    for ours, theirs in zip((mean, residual, error), expected, strict=True):
        np.testing.assert_allclose(ours[:3], theirs, atol=4 * goal)
    assert np.linalg.norm(mean[3] - integrals(foreign)[0][3]) < 10 * goal


def test_blocks_of_rows_and_threads_do_not_matter():
    prediction, means, _, _ = means_of_family("Logistic")
    at_once = means.of(prediction)
    order = np.random.default_rng(4).permutation(ROWS)
    for rows in np.array_split(order, 13):
        for part, every in zip(means.of(prediction.take(rows)), at_once, strict=True):
            np.testing.assert_array_equal(part, every[rows])
    before = fm.get_num_threads()
    try:
        fm.set_num_threads(1)
        again = means_of(prediction)[0].of(prediction)
    finally:
        fm.set_num_threads(before)
    for one, other in zip(again, at_once, strict=True):
        np.testing.assert_array_equal(one, other)


def test_interpolation_is_left_where_it_would_save_little():
    rng = np.random.default_rng(5)
    loc, scale = cloud(5000)
    scattered = predictive.StudentT(np.exp(rng.uniform(0, 5, 5000)), 1e3 * loc, scale)
    few = predictive.Laplace(loc[:500], scale[:500])
    alike = predictive.Laplace(np.zeros(2000), np.ones(2000))
    kinked = fm.Truncated(predictive.Laplace(loc, scale), low=-1.0)
    for prediction in (scattered, few, alike, kinked):
        assert integration_sites(prediction, KERNEL, GOAL) is None
    assert (
        integration_sites(predictive.Laplace(loc, scale), fm.Polynomial(2, gamma=1.0), GOAL) is None
    )


def test_one_parameter_in_a_narrow_range_needs_few_points():
    loc = np.random.default_rng(8).uniform(0, 0.2, 3000)
    prediction = predictive.Laplace(loc, np.ones(3000))
    means, integrals = means_of(prediction)
    assert_within_errors(means, integrals, prediction.take(np.arange(50)))
    (sites,) = integration_sites(prediction, KERNEL, GOAL)
    assert len(sites) < 20


def test_intervals_may_vanish_by_rounding_between_rows():
    low = np.random.default_rng(10).normal(size=2000)
    high = low + 1
    low[9], high[9] = 1e-17, 2e-17
    y = np.random.default_rng(11).uniform(low, high)
    assert np.isfinite(fm.cce(low, y, predictive.Uniform(low, high), lam=0.1, tol=1e-4).mean)


def test_series_that_do_not_converge_are_given_up_after_two_cells():
    calls = []
    loc, scale = cloud(20_000)

    def integrals(some):
        calls.append(len(some))
        jump = (np.cos(40 * some.loc) > 0)[:, None].astype(float)
        return np.hstack([jump, 1 - jump]), np.zeros(len(some)), np.zeros(len(some))

    prediction = predictive.Laplace(loc, scale)
    assert InterpolatedMeans.of_all(prediction, KERNEL, integrals, GOAL) is None
    assert len(calls) == 2
    assert sum(calls) < 300


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 10**6),
    st.sampled_from(["line", "lattice", "clusters", "decades"]),
    st.booleans(),
)
def test_cells_hold_all_rows_and_weights_reproduce_polynomials(seed, kind, own_scale):
    rng = np.random.default_rng(seed)
    n = 1500
    loc = {
        "line": rng.uniform(-2, 2, n),
        "lattice": rng.integers(0, 9, n) / 4,
        "clusters": rng.normal(size=n) + 1e4 * rng.integers(0, 2, n),
        "decades": 10.0 ** rng.uniform(-150, 150, n),
    }[kind]
    scale = np.exp(rng.normal(size=n)) if own_scale else np.full(n, 0.5)
    prediction = predictive.Logistic(loc, scale)
    tree = CellTree.of(prediction, KERNEL, 1e-9)
    assert tree is not None
    at = tree.coordinates(prediction)
    assert np.sort(np.concatenate([cell.rows for cell in tree.cells()])).tolist() == list(range(n))
    for cell, rows in tree.located(at):
        np.testing.assert_array_equal(np.sort(rows), np.sort(cell.rows))
        assert cell.holds(at[rows]).all()
        if cell.counts:
            size = np.where(cell.high > cell.low, cell.high - cell.low, 1.0)
            values = ((cell.points() - cell.low) / size).sum(axis=1) ** (min(cell.counts) - 1)
            exact = ((at[rows] - cell.low) / size).sum(axis=1) ** (min(cell.counts) - 1)
            for axis in range(len(cell.counts)):
                total = cell.weights(at[rows], axis).sum(axis=1)
                np.testing.assert_allclose(total, 1, rtol=1e-12)
            series = ParameterSeries.of(cell, values[:, None], values, 0.0)
            size = 1e-11 * np.abs(values).max()
            for ours in (series.at(at[rows])[0][:, 0], series.at(at[rows])[1]):
                np.testing.assert_allclose(ours, exact, atol=size)
            least, largest = cell.around(values, at[rows])
            middle = cell.around(values, cell.points())
            assert (least <= largest).all()
            assert ((middle[0] <= values) & (values <= middle[1])).all()


def test_omitted_terms_bound_those_of_known_series():
    x = np.random.default_rng(6).uniform(-1, 1, 3000)
    tree = CellTree.of(predictive.Laplace(x, np.full(3000, 2.0)), fm.RBF(0.01), 1e-6)
    (cell,) = tree.cells()
    values = np.exp(2 * cell.points())
    series = ParameterSeries.of(cell, values, values[:, 0], 0.0)
    off = np.abs(series.at(x[:, None])[0][:, 0] - np.exp(2 * x)).max()
    assert off / 3 < series.beyond[0] < 300 * off


def cell_of_three(n=4000):
    """Return a cell of three parameters with points, and the coordinates of its rows."""
    rng = np.random.default_rng(9)
    prediction = predictive.StudentT(
        4 + rng.uniform(size=n), 0.3 * rng.normal(size=n), np.exp(0.1 * rng.normal(size=n))
    )
    tree = CellTree.of(prediction, fm.RBF(0.1), 1e-6)
    cell = max(tree.cells(), key=lambda one: len(one.rows))
    assert len(cell.counts) == 3
    return cell, tree.coordinates_of(cell.rows)


def test_terms_that_are_left_out_change_values_by_at_most_their_norms():
    cell, at = cell_of_three()
    smooth = np.exp(cell.points() @ np.array([0.5, 0.8, 0.3]))[:, None] * np.array([1.0, 0.3])
    rng = np.random.default_rng(10)
    values = smooth + 1e-9 * rng.normal(size=smooth.shape)
    every_term = ParameterSeries.of(cell, values, values[:, 0], 0.0)
    for negligible in (1e-8, 1e-4, 1.0, 1e9):
        part = ParameterSeries.of(cell, values, values[:, 0], negligible)
        off = np.linalg.norm(part.at(at)[0] - every_term.at(at)[0], axis=1)
        assert off.max() <= part.dropped * (1 + 1e-12) + 1e-13
        assert part.dropped <= negligible
        assert len(part) < len(every_term)


def test_errors_at_points_are_those_of_rows_near_them():
    cell, at = cell_of_three()
    count = len(cell)
    np.testing.assert_array_less(0.999, cell.errors_of(np.ones(count), at))
    rng = np.random.default_rng(11)
    size = 10.0 ** rng.uniform(-9, -6, count)
    np.testing.assert_allclose(cell.errors_of(size, cell.points()), size, rtol=1e-6, atol=1e-14)
    # Independent errors at the points: their spread at a row over many draws.
    noise = rng.normal(size=(count, 400)) * size[:, None]
    spread = ParameterSeries.of(cell, noise, size, 0.0).at(at)[0].std(axis=1)
    assert (spread < 1.2 * cell.errors_of(size, at)).all()
    # An error that varies slowly.
    slow = np.exp(cell.points() @ np.array([0.5, 0.8, 0.3]))
    assert (np.exp(at @ np.array([0.5, 0.8, 0.3])) < 1.5 * cell.errors_of(slow, at)).all()


@pytest.mark.slow
def test_few_terms_are_held_for_three_parameters():
    prediction = families(20_000)["StudentT, own df"]
    features = features_of(KERNEL, prediction)
    goal = 100 * GOAL

    def integrals(some):
        return mean_features_by_nodes(features, some, goal)

    means = InterpolatedMeans.of_all(prediction, KERNEL, integrals, goal, most_terms=5000)
    assert means is not None
    assert_within_errors(means, integrals, prediction.take(np.arange(100)))
    assert InterpolatedMeans.of_all(prediction, KERNEL, integrals, goal, most_terms=500) is None


@pytest.mark.slow
def test_many_features_of_heavy_tails_are_integrated_exactly():
    """Wide rows come last where nodes are allotted."""
    rng = np.random.default_rng(12)
    prediction = predictive.StudentT(
        3 + np.exp(rng.normal(size=500)),
        rng.normal(size=500),
        np.exp(0.3 * rng.normal(size=500)),
    )
    features = features_of(fm.RBF(0.5), prediction)
    mean, _, error = mean_features_by_nodes(features, prediction, 1e-9)
    assert error.max() < 1e-7
    rows = np.argsort(-error)[:2]
    for row in rows:
        frozen = stats.t(prediction.df[row], prediction.loc[row], prediction.scale[row])
        ends = [*frozen.ppf([1e-12, 0.01, 0.5, 0.99]).tolist(), frozen.isf(1e-12)]

        def integrand(y, frozen=frozen):
            return frozen.pdf(y) * features.transform(np.array([[y]]))[0]

        total = sum(
            integrate.quad_vec(integrand, *pair, epsabs=1e-10, limit=4000)[0]
            for pair in pairwise(ends)
        )
        assert np.linalg.norm(total - mean[row]) <= error[row] + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["StudentT", "Gamma"])
def test_cce_is_that_of_integrals_of_all_rows(name, monkeypatch):
    prediction = families(3000)[name]
    rng = np.random.default_rng(7)
    x = np.column_stack([prediction.quantile(0.5), rng.normal(size=3000)])
    y = prediction.sample(1, 8)[:, 0]
    interpolated = fm.cce(x, y, prediction, lam=0.01, tol=1e-6)
    monkeypatch.setattr(interpolation, "_LEAST_ROWS", 10**9)
    integrated = fm.cce(x, y, prediction, lam=0.01, tol=1e-6)
    difference = np.abs(interpolated.values - integrated.values).max()
    assert difference <= interpolated.error_bound + integrated.error_bound
    assert difference > 0
    assert interpolated.error_bound <= 1e-6
