"""Maps of levels, recalibrated and rescaled distributions agree with integrals and closed forms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from builders import Opaque
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive
from fastmcmd.recalibration import MonotoneMap, RecalibratedAtoms, RecalibratedCDF, Rescaled
from fastmcmd.recalibration.atoms import recalibrated
from fastmcmd.recalibration.levels import rule
from fastmcmd.recalibration.monotone import empirical
from fastmcmd.recalibration.rescaled import rescale

FAMILIES = {
    "normal": lambda loc: stats.norm(loc, 1.5),
    "student, 3 degrees": lambda loc: stats.t(3.0, loc, 2.0),
    "student, two shapes": lambda loc: stats.t([4.0, 9.0], loc, 2.0),
    "laplace": lambda loc: stats.laplace(loc),
    "lognormal": lambda loc: stats.lognorm(0.8, loc=loc),
    "gamma, steep": lambda loc: stats.gamma(0.7, loc=loc, scale=2.0),
    "uniform": lambda loc: stats.uniform(loc, 3.0),
}


def a_map(seed: int, knots: int = 8) -> MonotoneMap:
    rng = np.random.default_rng(seed)
    ends = [0.0], [1.0]
    p, r = (np.concatenate([ends[0], np.sort(rng.random(knots)), ends[1]]) for _ in range(2))
    return MonotoneMap(p, r)


def row(frozen, i):
    """Return the distribution of one row."""
    args = [np.broadcast_to(a, 2)[i] for a in frozen.args]
    return frozen.dist(*args, **{k: np.broadcast_to(v, 2)[i] for k, v in frozen.kwds.items()})


@pytest.mark.parametrize("family", FAMILIES)
def test_mean_is_the_integral_of_the_cdf_over_the_whole_line(family):
    # E Y = int_0^inf (1 - F) - int_-inf^0 F, with targets of both signs: Levi's eq. 13 has the first part.
    frozen = FAMILIES[family](np.array([-2.0, 0.5]))
    mean = RecalibratedCDF(as_predictive(frozen, 2), a_map(1)).mean
    for i in range(2):
        one, r = row(frozen, i), a_map(1)
        ends = one.ppf(r.p)
        upper, lower = 0.0, 0.0
        for a, b in pairwise(ends):
            for left, right in ((a, min(b, 0.0)), (max(a, 0.0), b)):
                if left >= right:
                    continue
                sign = 1.0 if left >= 0 else -1.0

                def area(y, sign=sign, one=one, r=r):
                    # 1 - R(F) by the mirrored map, so that upper tails keep their digits
                    if sign > 0:
                        return np.interp(one.sf(y), 1 - r.p[::-1], 1 - r.r[::-1])
                    return r(one.cdf(y))

                part = integrate.quad(area, left, right, epsabs=1e-13, epsrel=1e-11, limit=400)[0]
                upper, lower = (upper + part, lower) if sign > 0 else (upper, lower + part)
        if ends[0] > 0:  # below the support 1 - F is 1
            upper += ends[0]
        if ends[-1] < 0:
            lower += -ends[-1]
        assert mean[i] == pytest.approx(upper - lower, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("degrees", [3.0, 4.0])
def test_moments_of_heavy_tails_in_closed_form(degrees):
    # Antiderivatives of y f(y) and y^2 f(y) of Student's t.
    with np.errstate(invalid="ignore"):
        if degrees == 4.0:
            first = lambda y: np.where(np.isinf(y), 0.0, -4 / (y * y + 4) ** 1.5)  # noqa: E731
            second = lambda y: np.where(np.isinf(y), np.sign(y), y**3 / (y * y + 4) ** 1.5)  # noqa: E731
        else:
            c = 6 * np.sqrt(3) / np.pi
            first = lambda y: c * -1 / (2 * (3 + y * y))  # noqa: E731
            second = lambda y: (  # noqa: E731
                c
                * (
                    np.where(np.isinf(y), 0.0, -y / (2 * (3 + y * y)))
                    + np.arctan(y / np.sqrt(3)) / (2 * np.sqrt(3))
                )
            )
        r = a_map(3)
        ends = stats.t.ppf(r.p, degrees)
        mean = r.slopes @ np.diff(first(ends))
        variance = r.slopes @ np.diff(second(ends)) - mean**2
    recalibrated_prediction = RecalibratedCDF(
        as_predictive(stats.t(degrees, [1.0, -7.0], 2.0), 2), r
    )
    np.testing.assert_allclose(
        recalibrated_prediction.mean, [1 + 2 * mean, -7 + 2 * mean], rtol=1e-12
    )
    np.testing.assert_allclose(recalibrated_prediction.variance, 4 * variance, rtol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_mean_and_variance_agree_with_draws(family):
    recalibrated_prediction = RecalibratedCDF(
        as_predictive(FAMILIES[family](np.array([-2.0, 0.5])), 2), a_map(2)
    )
    draws = recalibrated_prediction.sample(200_000, random_state=1)
    assert draws.shape == (2, 200_000)
    error = recalibrated_prediction.std / np.sqrt(200_000)
    assert (np.abs(draws.mean(axis=1) - recalibrated_prediction.mean) < 4 * error).all()
    for i in range(2):  # the distribution itself, at 1 % of a false alarm in a million
        level = recalibrated_prediction.take(np.full(2000, i)).cdf(draws[i, :2000])
        assert stats.kstest(level, "uniform").pvalue > 1e-6
    if family != "student, 3 degrees":  # whose fourth moment is infinite
        fourth = ((draws - recalibrated_prediction.mean[:, None]) ** 4).mean(axis=1)
        spread = np.sqrt((fourth - recalibrated_prediction.variance**2) / 200_000)
        assert (np.abs(draws.var(axis=1) - recalibrated_prediction.variance) < 5 * spread).all()


def test_general_path_agrees_with_the_shared_one():
    gaussian = fm.Gaussian([0.3, -2.0, 5.0], [1.0, 3.0, 0.1])
    r = a_map(4)
    one, two = RecalibratedCDF(gaussian, r), RecalibratedCDF(Opaque(gaussian), r)
    np.testing.assert_allclose(two.mean, one.mean, rtol=1e-13)
    np.testing.assert_allclose(two.variance, one.variance, rtol=1e-12)
    np.testing.assert_allclose(two.nodes()[0], one.nodes()[0], rtol=1e-12)
    np.testing.assert_allclose(two.sample(5, 0), one.sample(5, 0), rtol=1e-9)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(0.01, 50))
def test_moments_move_with_location_and_scale(seed, location, scale):
    r = a_map(seed, knots=seed % 12 + 1)
    unit = RecalibratedCDF(fm.Gaussian([0.0], 1.0), r)
    recalibrated_prediction = RecalibratedCDF(fm.Gaussian([location], scale), r)
    np.testing.assert_allclose(
        recalibrated_prediction.mean, location + scale * unit.mean, atol=1e-12 * scale
    )
    np.testing.assert_allclose(
        recalibrated_prediction.variance, scale**2 * unit.variance, rtol=1e-12
    )


def test_the_identity_changes_nothing():
    same = MonotoneMap(np.array([0.0, 0.2, 1.0]), np.array([0.0, 0.2, 1.0]))
    for inner in (fm.Gaussian([1.0], 2.0), as_predictive(stats.t(2.5, [0.0]), 1)):
        recalibrated_prediction = RecalibratedCDF(inner, same)
        np.testing.assert_allclose(recalibrated_prediction.mean, inner.mean, atol=1e-13)
        np.testing.assert_allclose(recalibrated_prediction.variance, inner.variance, rtol=1e-12)
        np.testing.assert_allclose(
            recalibrated_prediction.log_prob([0.3]), inner.log_prob([0.3]), rtol=1e-12
        )
        np.testing.assert_allclose(
            recalibrated_prediction.crps([0.3]), inner.crps([0.3]), rtol=1e-9
        )
    counts = fm.Poisson([3.0, 0.5])
    recalibrated_prediction = RecalibratedAtoms(counts, same)
    np.testing.assert_allclose(recalibrated_prediction.mean, counts.mean, rtol=1e-12)
    np.testing.assert_allclose(
        recalibrated_prediction.log_prob([2.0, 40.0]), counts.log_prob([2.0, 40.0]), rtol=1e-9
    )


def test_moments_that_do_not_exist_stay_so():
    recalibrated_prediction = RecalibratedCDF(as_predictive(stats.t(2.0, [1.0]), 1), a_map(0))
    assert np.isfinite(recalibrated_prediction.mean).all()
    assert np.isinf(recalibrated_prediction.variance).all()
    assert not np.isfinite(
        RecalibratedCDF(as_predictive(stats.cauchy([1.0]), 1), a_map(0)).mean
    ).any()


@given(st.integers(0, 10**6), st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=6))
def test_cdf_and_quantile_undo_each_other_and_increase(seed, levels):
    levels = np.sort(np.array(levels))
    for inner in (fm.Gaussian([-1.0], 2.0), as_predictive(stats.gamma(2.0, loc=[1.0]), 1)):
        recalibrated_prediction = RecalibratedCDF(inner, a_map(seed))
        values = recalibrated_prediction.quantile(levels)
        assert values.shape == (1, len(levels))
        assert (np.diff(values) >= 0).all()
        back = [recalibrated_prediction.cdf(values[:, j])[0] for j in range(len(levels))]
        np.testing.assert_allclose(back, levels, rtol=1e-9, atol=1e-12)
        assert (np.diff(back) >= 0).all()
        np.testing.assert_allclose(
            [recalibrated_prediction.sf(values[:, j])[0] for j in range(len(levels))],
            1 - levels,
            atol=1e-12,
        )


@given(st.integers(0, 10**6), st.floats(0.05, 30.0))
@example(seed=4397, mean=1.0)  # the map is almost flat at a level
def test_count_quantiles_undo_the_cdf(seed, mean):
    recalibrated_prediction = RecalibratedAtoms(fm.Poisson([mean]), a_map(seed))
    counts = np.arange(12.0)
    levels = np.array([recalibrated_prediction.cdf(np.array([k]))[0] for k in counts])
    assert (np.diff(levels) >= -1e-15).all()
    values, masses = (part[0] for part in recalibrated_prediction.nodes())
    assert masses.sum() == pytest.approx(1)
    assert (masses >= 0).all()
    for k, level in zip(counts, levels, strict=True):
        if 1e-9 < level < 1 - 1e-9 and masses[values == k].sum() > 1e-9:
            assert recalibrated_prediction.quantile(level)[0] == k


def test_log_prob_is_the_derivative_of_the_cdf():
    rng = np.random.default_rng(5)
    inner = fm.Gaussian(rng.normal(size=50), rng.uniform(0.5, 2, 50))
    recalibrated_prediction, y = RecalibratedCDF(inner, a_map(6)), rng.normal(size=50)
    step = 1e-6
    slope = (recalibrated_prediction.cdf(y + step) - recalibrated_prediction.cdf(y - step)) / (
        2 * step
    )
    inside = np.abs(recalibrated_prediction.mapping.p - inner.cdf(y)[:, None]).min(axis=1) > 1e-5
    assert inside.sum() > 40
    np.testing.assert_allclose(
        np.exp(recalibrated_prediction.log_prob(y))[inside], slope[inside], rtol=1e-6
    )


def test_log_prob_of_counts_is_the_log_of_differences_also_far_out():
    counts, r = fm.Poisson(np.full(30, 4.0)), a_map(7)
    y = np.arange(30.0)
    recalibrated_prediction = RecalibratedAtoms(counts, r)
    high, low = stats.poisson.cdf(y, 4.0), stats.poisson.cdf(y - 1, 4.0)
    near = y < 12
    plain = np.log(np.interp(high, r.p, r.r) - np.interp(low, r.p, r.r))
    np.testing.assert_allclose(recalibrated_prediction.log_prob(y)[near], plain[near], rtol=1e-8)
    far = np.log(r.slopes[-1]) + stats.poisson.logpmf(y[-5:], 4.0)
    np.testing.assert_allclose(recalibrated_prediction.log_prob(y)[-5:], far, rtol=1e-12)
    assert recalibrated_prediction.log_prob(np.full(30, 1.5))[0] == -np.inf


@pytest.mark.parametrize("y", [-9.0, 0.4, 1.0, 30.0])
def test_crps_of_gaussians_against_its_integral(y):
    r, inner = a_map(8), stats.norm(0.3, 2.0)
    score = RecalibratedCDF(fm.Gaussian([0.3], 2.0), r).crps([y])[0]
    ends = np.unique(np.concatenate([[-80.0], inner.ppf(r.p[1:-1]), [y, 80.0]]))
    total = 0.0
    for a, b in pairwise(ends):
        total += integrate.quad(lambda t: (r(inner.cdf(t)) - (t >= y)) ** 2, a, b, epsabs=1e-13)[0]
    assert score == pytest.approx(total, rel=1e-10)


def test_crps_of_other_families_against_draws():
    recalibrated_prediction = RecalibratedCDF(as_predictive(stats.laplace([0.0, 1.0]), 2), a_map(9))
    draws, y = recalibrated_prediction.sample(4000, 0), np.array([0.5, -2.0])
    spread = np.abs(draws[:, :2000] - draws[:, 2000:])
    terms = np.abs(draws - y[:, None])
    sampled = terms.mean(axis=1) - spread.mean(axis=1) / 2
    error = terms.std(axis=1) / np.sqrt(4000) + spread.std(axis=1) / np.sqrt(2000) / 2
    assert (np.abs(recalibrated_prediction.crps(y) - sampled) < 4 * error).all()


@pytest.mark.parametrize("kind", ["poisson", "draws"])
def test_atoms_against_plain_sums(kind):
    rng = np.random.default_rng(0)
    r = a_map(10)
    if kind == "poisson":
        inner, values = fm.Poisson([2.0, 6.0]), np.broadcast_to(np.arange(80.0), (2, 80))
        upto = stats.poisson.cdf(values, np.array([[2.0], [6.0]]))
        y = np.array([3.0, 9.0])
    else:
        inner = fm.Draws(rng.normal(size=(2, 9)))
        values = np.sort(inner.array, axis=1)
        upto = np.broadcast_to(np.arange(1, 10) / 9, (2, 9))
        y = np.array([0.2, -3.0])
    masses = np.diff(r(upto), axis=1, prepend=0)
    recalibrated_prediction = recalibrated(inner, r)
    assert isinstance(recalibrated_prediction, RecalibratedAtoms)
    mean = (masses * values).sum(axis=1)
    np.testing.assert_allclose(recalibrated_prediction.mean, mean, rtol=1e-11)
    second = (masses * (values - mean[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(recalibrated_prediction.variance, second, rtol=1e-10)
    apart = np.abs(values[:, :, None] - values[:, None, :])
    gini = np.einsum("ni,nj,nij->n", masses, masses, apart)
    crps = (masses * np.abs(values - y[:, None])).sum(axis=1) - gini / 2
    np.testing.assert_allclose(recalibrated_prediction.crps(y), crps, rtol=1e-10)
    np.testing.assert_allclose(
        recalibrated_prediction.cdf(y), (masses * (values <= y[:, None])).sum(axis=1)
    )
    draws = recalibrated_prediction.sample(50_000, 3)
    error = recalibrated_prediction.std / np.sqrt(50_000)
    assert (np.abs(draws.mean(axis=1) - mean) < 4 * error).all()
    assert np.isin(draws, values).all()
    kernel = fm.RBF(0.3)
    plain = (masses * np.exp(-0.3 * (values - 1.0) ** 2)).sum(axis=1)
    np.testing.assert_allclose(
        recalibrated_prediction.expected_kernel(kernel, [1.0])[:, 0], plain, rtol=1e-10
    )


def test_sampling_searches_blocks_of_rows():
    recalibrated_prediction = RecalibratedAtoms(
        fm.Draws(np.arange(3000.0)[:, None] + [[0.0, 0.5]]), a_map(1)
    )
    draws = recalibrated_prediction.sample(7, 0)
    offset = draws - np.arange(3000.0)[:, None]
    assert np.isin(offset, [0.0, 0.5]).all()
    share = recalibrated_prediction.nodes()[1][0, 0]
    assert abs((offset == 0).mean() - share) < 4 * np.sqrt(share * (1 - share) / offset.size)


def test_expected_kernel_under_a_recalibrated_gaussian_against_its_integral():
    r, kernel = a_map(11), fm.RBF(0.7)
    expectations = RecalibratedCDF(fm.Gaussian([0.3], 2.0), r).expected_kernel(kernel, [1.0, -2.0])
    ends = stats.norm.ppf(r.p, 0.3, 2.0)
    for j, z in enumerate((1.0, -2.0)):
        total = 0.0
        for a, b, slope in zip(ends[:-1], ends[1:], r.slopes, strict=True):
            total += (
                slope
                * integrate.quad(
                    lambda t, z=z: np.exp(-0.7 * (t - z) ** 2) * stats.norm.pdf(t, 0.3, 2.0),
                    *(a, b),
                    epsabs=1e-14,
                )[0]
            )
        assert expectations[0, j] == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("make", [fm.Gaussian, lambda m, s: as_predictive(stats.laplace(m, s), 60)])
def test_cce_takes_recalibrated_predictions(make):
    rng = np.random.default_rng(2)
    x, m = rng.normal(size=(60, 2)), rng.normal(size=60)
    y = m + rng.normal(size=60)
    recalibrated_prediction = recalibrated(make(m, np.full(60, 0.7)), a_map(12, 3))
    exact = fm.cce(x, y, recalibrated_prediction, y_kernel=fm.RBF(0.5))
    from_draws = fm.cce(
        x, y, fm.Draws(recalibrated_prediction.sample(4000, 0)), y_kernel=fm.RBF(0.5)
    )
    np.testing.assert_allclose(exact.values, from_draws.values, atol=0.01)
    assert exact.error_bound < 1e-5


def test_cce_takes_recalibrated_counts_and_draws():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 2)), rng.poisson(3.0, 40).astype(float)
    for inner in (fm.Poisson(np.full(40, 3.0)), fm.Draws(rng.poisson(3.0, (40, 30)))):
        recalibrated_prediction = recalibrated(inner, a_map(13, 3))
        values, masses = recalibrated_prediction.nodes()
        exact = fm.cce(x, y, recalibrated_prediction, y_kernel=fm.RBF(0.5))
        from_draws = fm.cce(
            x, y, fm.Draws(recalibrated_prediction.sample(4000, 0)), y_kernel=fm.RBF(0.5)
        )
        assert values.shape == masses.shape
        np.testing.assert_allclose(exact.values, from_draws.values, atol=0.01)


def test_maps_of_maps_are_one_map():
    one, two = a_map(14), a_map(15)
    inner = fm.Gaussian([0.0, 1.0], 1.0)
    prediction = recalibrated(recalibrated(inner, one), two)
    assert prediction.inner is inner
    y = np.array([-0.7, 2.0])
    np.testing.assert_allclose(prediction.cdf(y), two(one(inner.cdf(y))), rtol=1e-12)
    nested = RecalibratedCDF(RecalibratedCDF(inner, one), two)
    np.testing.assert_allclose(prediction.log_prob(y), nested.log_prob(y), rtol=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(0, 1000))
def test_empirical_map_against_the_plain_definition(values, seed):
    values = np.array(values)
    weights = np.random.default_rng(seed).integers(0, 4, len(values)).astype(float)
    weights[seed % len(values)] += 1
    level_map, effective = empirical(values, weights)
    assert level_map.p[0] == level_map.r[0] == 0
    assert level_map.p[-1] == level_map.r[-1] == 1
    assert (np.diff(level_map.p) > 0).all()
    assert (np.diff(level_map.r) > 0).all()
    repeated, same = empirical(np.repeat(values, weights.astype(int)), None)
    np.testing.assert_allclose(level_map.p, repeated.p)
    np.testing.assert_allclose(level_map.r, repeated.r)
    assert effective == pytest.approx(same)
    for p, r in zip(level_map.p[1:-1], level_map.r[1:-1], strict=True):
        plain = weights[values < p].sum() + weights[values == p].sum() / 2
        assert r == pytest.approx(plain / weights.sum())
    np.testing.assert_allclose(empirical(values, 7.5 * weights)[0].r, level_map.r)


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_rules_integrate_powers_of_levels(seed, knots):
    # E g(R(p)) for g(u) = u is 1/2, whatever R is, and sums of weights are the masses of cells.
    r = a_map(seed, knots)
    nodes = rule(r)
    assert nodes.weights.sum() == pytest.approx(1)
    assert nodes.weights @ r(nodes.levels) == pytest.approx(0.5, abs=1e-10)
    assert (np.diff(nodes.levels) >= 0).all()
    if np.diff(r.p).min() > 1e-3:
        cell = np.searchsorted(r.p, nodes.levels) - 1
        np.testing.assert_allclose(
            np.bincount(cell, nodes.weights, len(r.p) - 1), np.diff(r.r), rtol=1e-9
        )


@pytest.mark.slow
@given(st.integers(0, 10**6), st.floats(0.01, 100))
def test_rescaled_agrees_with_the_same_family(seed, scale):
    rng = np.random.default_rng(seed)
    location, y = rng.normal(size=4), rng.normal(size=4)
    inner = as_predictive(stats.laplace(location, 2.0), 4)
    expected = as_predictive(stats.laplace(location, 2.0 * scale), 4)
    recalibrated_prediction = Rescaled(inner, scale)
    for name in ("cdf", "sf", "cdf_below", "log_prob"):
        np.testing.assert_allclose(
            getattr(recalibrated_prediction, name)(y), getattr(expected, name)(y), rtol=1e-9
        )
    np.testing.assert_allclose(recalibrated_prediction.crps(y), expected.crps(y), rtol=1e-7)
    np.testing.assert_allclose(recalibrated_prediction.variance, expected.variance)
    np.testing.assert_allclose(recalibrated_prediction.mean, expected.mean)
    np.testing.assert_allclose(
        recalibrated_prediction.quantile([0.1, 0.9]), expected.quantile([0.1, 0.9]), rtol=1e-9
    )
    np.testing.assert_allclose(
        recalibrated_prediction.expected_kernel(fm.RBF(0.3), y),
        expected.expected_kernel(fm.RBF(0.3), y),
        atol=1e-8,
    )
    np.testing.assert_allclose(recalibrated_prediction.take(np.array([2])).std, expected.std[2:3])


def test_rescaled_keeps_families_and_shared_parts():
    gaussian = rescale(fm.Gaussian([1.0, 2.0], 3.0), [2.0, 4.0])
    assert isinstance(gaussian, fm.Gaussian)
    assert gaussian.std.tolist() == [6.0, 12.0]
    draws = rescale(fm.Draws([[0.0, 2.0]]), 3.0)
    assert isinstance(draws, fm.Draws)
    assert draws.array.tolist() == [[-2.0, 4.0]]
    twice = rescale(rescale(as_predictive(stats.laplace([1.0]), 1), 2.0), 3.0)
    assert isinstance(twice, Rescaled)
    assert twice.scale.tolist() == [6.0]
    r = a_map(16)
    one = RecalibratedCDF(twice, r)
    two = RecalibratedCDF(as_predictive(stats.laplace([1.0], 6.0), 1), r)
    np.testing.assert_allclose(one.mean, two.mean)
    np.testing.assert_allclose(one.variance, two.variance)
    np.testing.assert_allclose(one.sample(3, 0), two.sample(3, 0))


@pytest.mark.parametrize(
    ("inner", "scale", "message"),
    [
        (fm.Poisson([2.0]), 1.0, "is discrete"),
        (as_predictive(stats.cauchy([0.0]), 1), 1.0, "means that are not finite"),
        (as_predictive(stats.laplace([0.0]), 1), 0.0, "scale has values"),
        (as_predictive(stats.laplace([0.0]), 1), np.nan, "scale has values"),
    ],
)
def test_rescaled_refuses(inner, scale, message):
    with pytest.raises(ValueError, match=message):
        Rescaled(inner, scale)


def test_families_of_the_package_are_integrated_once_for_all_rows():
    predictive = pytest.importorskip("fastmcmd.predictive.location_scale")
    r, loc = a_map(17), np.linspace(-3, 3, 5000)
    prediction = RecalibratedCDF(predictive.StudentT(4.0, loc, 2.0), r)
    one = RecalibratedCDF(as_predictive(stats.t(4.0, loc[:1], 2.0), 1), r)
    np.testing.assert_allclose(prediction.mean - loc, one.mean[0] - loc[0], rtol=1e-9)
    np.testing.assert_allclose(prediction.variance, one.variance[0], rtol=1e-9)
    assert prediction.nodes()[0].shape == (5000, prediction.node_count)


def test_atoms_of_partly_discrete_predictions_keep_their_probability():
    inflated = pytest.importorskip("fastmcmd.predictive.zero_inflated")
    positive = pytest.importorskip("fastmcmd.predictive.positive")
    inner = inflated.ZeroInflated(positive.Gamma(2.0, [1.0, 3.0]), [0.3, 0.1])
    r = a_map(18)
    recalibrated_prediction = RecalibratedCDF(inner, r)
    np.testing.assert_allclose(
        recalibrated_prediction.log_prob([0.0, 0.0]), np.log(r(np.array([0.3, 0.1])))
    )
    np.testing.assert_allclose(recalibrated_prediction.cdf_below([0.0, 0.0]), 0.0)
    draws = recalibrated_prediction.sample(100_000, 0)
    np.testing.assert_allclose((draws == 0).mean(axis=1), r(np.array([0.3, 0.1])), atol=0.006)
    error = recalibrated_prediction.std / np.sqrt(100_000)
    assert (np.abs(draws.mean(axis=1) - recalibrated_prediction.mean) < 4 * error).all()


def test_scores_of_nan_and_infinity():
    for inner in (fm.Gaussian([0.0, 1.0], 1.0), fm.Poisson([1.0, 2.0]), fm.Draws([[0, 1], [2, 3]])):
        recalibrated_prediction = recalibrated(inner, a_map(19))
        score = recalibrated_prediction.crps([np.nan, np.inf])
        assert np.isnan(score[0])
        assert score[1] == np.inf
        assert np.isnan(recalibrated_prediction.cdf([np.nan, 0.0])[0])


def test_quantiles_where_a_level_is_mapped_next_to_one():
    """The map is steep there, and rounds the rest of the level: 80 doubles off."""
    p = np.array([0.0, 0.83, 0.999864979182365, 1.0])
    mapping = MonotoneMap(p, np.array([0.0, 0.5, 0.8172611979937172, 1.0]))
    inner = fm.Gaussian([0.2719235002779635], 0.0012235780170924138)
    level = 0.9975214759195098
    share = (1 - level) * (1 - p[2]) / (1 - mapping.r[2])
    right = inner.upper_quantiles_at(np.array([[share]]))[0, 0]
    prediction = RecalibratedCDF(inner, mapping)
    np.testing.assert_allclose(prediction.quantile(level), right, rtol=3e-16)
    np.testing.assert_allclose(prediction.quantiles_at(np.array([[level]])), right, rtol=3e-16)


def mapped_atoms(values, weights, mapping):
    """Return sorted atoms (n, L) and the increments of R(F) at them, by definition."""
    order = np.argsort(values, axis=1)
    values = np.take_along_axis(values, order, axis=1)
    upto = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    upto[:, -1] = 1.0
    return values, np.diff(np.interp(upto, mapping.p, mapping.r), axis=1, prepend=0.0)


@pytest.mark.parametrize("kind", ["mixture", "zero-inflated"])
def test_combinations_of_draws_are_recalibrated_exactly(kind):
    """Their distribution functions are steps: quadrature over levels missed means by 1e-2."""
    rng = np.random.default_rng(3)
    draws, n = rng.gamma(2.0, size=(9, 6)), 9
    chance = rng.uniform(0.1, 0.6, n)
    prediction, weights = {
        "mixture": (
            fm.Mixture([fm.Draws(draws[:, :2]), fm.Draws(draws[:, 2:])], [0.3, 0.7]),
            np.tile([0.15, 0.15, 0.175, 0.175, 0.175, 0.175], (n, 1)),
        ),
        "zero-inflated": (
            fm.ZeroInflated(fm.Draws(draws), chance),
            np.column_stack([np.tile((1 - chance)[:, None] / 6, 6), chance]),
        ),
    }[kind]
    outcomes = np.column_stack([draws, np.zeros(n)]) if kind == "zero-inflated" else draws
    mapping = MonotoneMap(
        np.array([0.0, 0.2, 0.55, 0.9, 1.0]), np.array([0.0, 0.35, 0.5, 0.8, 1.0])
    )
    values, masses = mapped_atoms(outcomes, weights, mapping)
    mapped_prediction = recalibrated(prediction, mapping)
    mean = (masses * values).sum(axis=1)
    np.testing.assert_allclose(mapped_prediction.mean, mean, rtol=1e-12)
    std = np.sqrt((masses * (values - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose(mapped_prediction.std, std, rtol=1e-10)
    y = rng.gamma(2.0, size=n)
    pairs = np.abs(values[:, :, None] - values[:, None, :])
    spread = np.einsum("ni,nij,nj->n", masses, pairs, masses) / 2
    score = (masses * np.abs(values - y[:, None])).sum(axis=1) - spread
    np.testing.assert_allclose(mapped_prediction.crps(y), score, rtol=1e-10)
    expected = (masses[:, :, None] * np.exp(-0.5 * (values[:, :, None] - y) ** 2)).sum(axis=1)
    np.testing.assert_allclose(
        mapped_prediction.expected_kernel(fm.RBF(0.5), y[:, None]), expected, rtol=1e-12
    )
    upto = np.cumsum(masses, axis=1)
    for level in (0.11, 0.37, 0.83):
        first = values[np.arange(n), (upto >= level).argmax(axis=1)]
        np.testing.assert_array_equal(mapped_prediction.quantile(level), first)
