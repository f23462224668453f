"""Densities at the nodes of panels in the core, and ends of panels, against mpmath and SciPy."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.predictive import Beta, LogNormal, StudentT, Weibull
from fastmcmd.predictive.base import EDGE_LEVELS, Predictive
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics.density_panels import _rule, joined, panel_scores
from fastmcmd.predictive.numerics.density_terms import DensityFamily
from fastmcmd.predictive.truncated import Truncated
from fastmcmd.predictive.zero_inflated import ZeroInflated

# Families with usual rows and rare ones: their log densities in mpmath.
FAMILIES = {
    "normal": (
        fm.Gaussian([0.0, -3.0, 1e3], [1.0, 1e-3, 50.0]),
        lambda y, m, s: -(((y - m) / s) ** 2) / 2 - mp.log(s) - mp.log(2 * mp.pi) / 2,
        ("mean", "std"),
    ),
    "laplace": (
        fm.Laplace([0.0, 1e5, 2.0], [1.0, 3.0, 1e-6]),
        lambda y, m, s: -abs(y - m) / s - mp.log(2 * s),
        ("loc", "scale"),
    ),
    "logistic": (
        fm.Logistic([0.0, 1e5, 2.0], [1.0, 3.0, 1e-6]),
        lambda y, m, s: -(y - m) / s - 2 * mp.log(1 + mp.exp(-(y - m) / s)) - mp.log(s),
        ("loc", "scale"),
    ),
    "student": (
        StudentT([1.0, 4.5, 2000.0], [0.0, 1.0, -5.0], [1.0, 1e-3, 7.0]),
        lambda y, v, m, s: (
            mp.loggamma((v + 1) / 2)
            - mp.loggamma(v / 2)
            - mp.log(v * mp.pi) / 2
            - mp.log(s)
            - (v + 1) / 2 * mp.log1p(((y - m) / s) ** 2 / v)
        ),
        ("df", "loc", "scale"),
    ),
    "student, whole degrees of freedom": (
        StudentT([2.0, 7.0, 18.0], [0.0, 1.0, -5.0], [1.0, 1e-3, 7.0]),
        lambda y, v, m, s: FAMILIES["student"][1](y, v, m, s),
        ("df", "loc", "scale"),
    ),
    "log-normal": (
        LogNormal([0.0, -4.0, 6.0], [1.0, 0.05, 2.5]),
        lambda y, m, s: -(((mp.log(y) - m) / s) ** 2) / 2 - mp.log(y * s) - mp.log(2 * mp.pi) / 2,
        ("mu", "sigma"),
    ),
    "gamma": (
        fm.Gamma([2.0, 0.4, 60.0], [1.0, 1e4, 0.01]),
        lambda y, a, r: (a - 1) * mp.log(y) + a * mp.log(r) - r * y - mp.loggamma(a),
        ("concentration", "rate"),
    ),
    "beta": (
        Beta([2.0, 0.7, 60.0], [3.0, 5.0, 45.0]),
        lambda y, a, b: (
            (a - 1) * mp.log(y)
            + (b - 1) * mp.log1p(-y)
            + mp.loggamma(a + b)
            - mp.loggamma(a)
            - mp.loggamma(b)
        ),
        ("a", "b"),
    ),
    "weibull": (
        Weibull([1.5, 0.5, 15.0], [1.0, 1e4, 0.01]),
        lambda y, k, s: mp.log(k / s) + (k - 1) * mp.log(y / s) - (y / s) ** k,
        ("concentration", "scale"),
    ),
}


def at_nodes(prediction, rows, left, half):
    """Return nodes and densities (p, 20) of panels of rows (p,), from the scratch memory of the core."""
    nodes, _ = gauss_legendre(20)
    ends = np.stack([left, left + 2 * half], axis=1)
    half = (ends[:, 1] - ends[:, 0]) / 2
    out = np.zeros((len(rows), 20))
    terms = prediction.take(rows).density_terms()
    families, constants, weights = map(np.array, zip(*terms, strict=True))
    zeros, none, scratch = np.zeros(1), np.empty((0, 0)), np.empty((256, 28))
    for row in range(len(rows)):
        one = slice(row, row + 1)
        _core.integrate_densities(
            ends[one], zeros, zeros, families, constants[:, one], weights[:, one],
            np.array([1.0, 1.0, 1.0, 1.0, 4.0, 0.0, 8.0, 0.1]), np.empty(0), none, np.empty((1, 0)),
            *_rule(), scratch, np.empty(256, dtype=np.int64), none, none, np.empty((0, 2)),
        )  # fmt: skip
        out[row] = scratch.ravel()[7 * 256 : 7 * 256 + 20]
    return left[:, None] + half[:, None] * (1 + nodes), out


@pytest.mark.parametrize("kind", FAMILIES)
def test_densities_of_the_core(rng, kind):
    prediction, log_density, names = FAMILIES[kind]
    ends = prediction.quantile([1e-12, 1e-3, 0.3, 0.31, 0.99, 1 - 1e-9])
    rows = np.repeat(np.arange(3), 5)
    left, right = ends[:, :-1].ravel(), ends[:, 1:].ravel()
    values, densities = at_nodes(prediction, rows, left, (right - left) / 2)
    with mp.workdps(40):
        for row, y, density in zip(rows, values, densities, strict=True):
            parameters = [mp.mpf(float(getattr(prediction, name)[row])) for name in names]
            for place in rng.integers(0, 20, 4):
                expected = log_density(mp.mpf(float(y[place])), *parameters)
                # Terms of the logarithm round, and so does the distance from a far location.
                size = abs(float(expected)) + 70
                assert abs(mp.log(mp.mpf(float(density[place]))) - expected) < 2e-16 * size * 4


def test_every_family_has_a_formula():
    families = set()
    for prediction, _, _ in FAMILIES.values():
        ((family, constants, weights),) = prediction.density_terms()
        families.add(family)
        assert constants.shape == (3, 5)
        assert (weights == 1).all()
    assert families == {family.value for family in DensityFamily}


def test_families_outside_the_range_of_the_formulas():
    """Their densities come from Python; integrals of these are the cdf."""
    for prediction in (
        StudentT([0.5], 0.0, 1.0),
        LogNormal([30.0], 0.3),
        fm.Gamma([500.0], 1.0),
        Beta([500.0], 400.0),
        Weibull([50.0], 1.0),
    ):
        assert prediction.density_terms() is None
        mixture = Mixture([prediction, prediction], [0.4, 0.6])
        assert mixture.density_terms() is None
        levels = np.arange(1, 10) / 10
        np.testing.assert_allclose(
            mixture.quantile(levels), prediction.quantile(levels), rtol=1e-10, atol=1e-12
        )


def test_exponentials_and_logarithms_far_out():
    """Densities beyond the range of doubles are 0, never NaN, infinite or negative."""
    rows, half = np.zeros(4, dtype=np.int64), np.full(4, 1e-3)
    for prediction, _, _ in FAMILIES.values():
        for left in ([0.0, 1e-310, 1e-300, 0.5], [1e3, 1e10, 1e200, 1e300]):
            if isinstance(prediction, Beta):
                left = [0.0, 1e-310, 0.5, 1 - 2e-3]
            _, densities = at_nodes(prediction.take(rows[:1]), rows, np.array(left), half)
            assert np.isfinite(densities).all()
            assert (densities >= 0).all()


@pytest.mark.parametrize("upper", [False, True])
def test_near_quantiles_of_beta_rows(rng, upper):
    """Masses at the ends of panels are about the levels; rows with a small shape are exact."""
    a, b = np.exp(rng.uniform(0.0, 4.0, (2, 200)))
    rare = rng.permutation(200)[:5]
    a[rare[:3]] = [0.3, 0.9, 1e-3]
    near = Beta(a, b)._near_quantiles(EDGE_LEVELS, upper)
    tail = stats.beta(a[:, None], b[:, None])
    mass = tail.sf(near) if upper else tail.cdf(near)
    inside = (near > 1e-300) & (near < 1 - 1e-10)
    ratio = np.log(mass[inside]) / np.log(np.broadcast_to(EDGE_LEVELS, near.shape)[inside])
    assert ratio.min() > 0.85
    assert ratio.max() < 1.15
    rows = np.minimum(a, b) < 1
    exact = tail.isf(EDGE_LEVELS) if upper else tail.ppf(EDGE_LEVELS)
    np.testing.assert_allclose(near[rows], exact[rows], rtol=1e-8, atol=1e-300)


def test_a_rare_row_among_beta_mixtures(rng):
    """A pole, a spike and a uniform row at random places; the neighbours keep their values."""
    n = 60
    a, b, c, d = np.exp(rng.uniform(0.2, 2.5, (4, n)))
    places = rng.permutation(n)[:3]
    a[places], b[places] = [0.2, 60.0, 1.0], [0.4, 50.0, 1.0]
    mixture = Mixture([Beta(a, b), Beta(c, d)], [0.3, 0.7])
    levels = np.arange(1, 20) / 20
    quantiles, y = mixture.quantile(levels), rng.uniform(size=n)
    masses = 0.3 * stats.beta(a[:, None], b[:, None]).cdf(quantiles)
    masses += 0.7 * stats.beta(c[:, None], d[:, None]).cdf(quantiles)
    np.testing.assert_allclose(masses, np.broadcast_to(levels, masses.shape), atol=2e-12)
    np.testing.assert_allclose(mixture.crps(y), Predictive.crps(mixture, y), rtol=1e-9)
    single = mixture.take(places)
    np.testing.assert_array_equal(single.quantile(levels), quantiles[places])


@pytest.mark.parametrize(
    ("base", "low", "high"),
    [
        (StudentT([3.0, 3.0, 3.0], [0.0, 5.0, -40.0], 1.0), -1.0, 2.0),
        (fm.Gamma([2.0, 9.0, 0.5], 1.0), 0.5, 4.0),
        (Beta([2.0, 0.5, 30.0], [3.0, 0.5, 2.0]), 0.1, 0.9),
    ],
    ids=["student", "gamma", "beta"],
)
def test_draws_of_truncated_rows(base, low, high):
    """By acceptance where the interval is likely, and by quantiles where it is not."""
    prediction = Truncated(base, low, high)
    draws = prediction.sample(4000, 5)
    np.testing.assert_array_equal(draws, prediction.sample(4000, 5))
    assert (draws >= low).all()
    assert (draws <= high).all()
    for row in range(3):
        one = prediction.take(np.array([row]))
        levels = one.take(np.zeros(4000, dtype=np.intp)).cdf(draws[row])
        assert stats.kstest(levels, "uniform").pvalue > 1e-4


DIGITS = """
import importlib.util, hashlib
import numpy as np
spec = importlib.util.spec_from_file_location({name!r}, {file!r})
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
rng = np.random.default_rng(3)
digest = hashlib.sha256()
nodes = np.polynomial.legendre.leggauss(20)[0]
out = rng.uniform(size=(50, 20))
edges = np.cumsum(rng.uniform(0.01, 0.1, (50, 9)), axis=1)
constants = np.exp(rng.normal(size=(1, 50, 5)) / 3)
constants[..., 2] /= 20
constants[0, :9, 2] = np.arange(1, 10) / 2
limits = np.array([1e-3, 1.0, 1.0, 1e9, 4.0, 1.0, 8.0, 0.1])
rule, nodes, series = rng.uniform(size=40), rng.normal(size=(20, 20)), rng.normal(size=(20, 20))
ends, places = np.empty((50, 13)), np.empty(32, dtype=np.int64)
starts, stops = np.array([0, 4, 9]), rng.uniform(0.1, 0.5, (50, 2))
core.join_edges(edges, starts, stops, edges[:, 0].copy(), edges[:, 8].copy(), places, ends)
digest.update(ends.tobytes())
none, zeros = np.empty((0, 0)), np.zeros(50)
for family in range(8):
    scratch = np.zeros((32, 28))
    core.integrate_densities(
        edges, zeros, zeros, np.array([family]), constants, np.ones((1, 50)), limits, np.empty(0), none,
        np.empty((1, 0)), rule, nodes, series, scratch, places, none, none, np.empty((0, 2)),
    )
    digest.update(scratch.ravel()[224:].tobytes())
nodes = np.polynomial.legendre.leggauss(20)[0]
sizes = np.empty((50, 5))
core.panel_sizes(out, nodes, rng.normal(size=(20, 4)), sizes)
mean, alpha = np.exp(rng.normal(size=(2, 50)))
first, last, masses = np.empty(50), np.empty(50), np.empty((50, 90))
core.count_ranges(mean, alpha, 1e-16, first, last)
core.count_masses(first, mean / (1 + alpha * mean), np.ones(50), alpha, masses)
scores, values = np.empty(50), first[:, None] + np.arange(90.0)
core.step_scores(values, masses, rng.uniform(0, 9, 50), scores)
quantiles = np.empty((50, 9))
core.step_quantiles(values, masses, np.arange(1, 10)[None] / 10, 1e-12, np.empty((2, 90)), quantiles)
distances = np.empty((50, 20))
core.row_distances(rng.normal(size=(50, 7)), rng.normal(size=(7, 20)), distances)
smooth, ends = np.zeros((50, 37)), np.cumsum(rng.uniform(0.1, 9, (50, 6)), axis=1)
series = rng.normal(size=(50, 5, 12))
core.smooth_panels(
    ends[:, :-1].copy(), ends[:, 1:].copy(), series, np.abs(series), np.linspace(-0.9, 0.9, 12),
    rng.normal(size=(12, 12)), 1.1, np.linspace(-2, 40, 37), rng.uniform(size=(3, 40)),
    rng.uniform(size=(3, 40)), rng.normal(size=(2, 8)), smooth,
)
for array in (sizes, first, last, masses, scores, quantiles, distances, smooth):
    digest.update(array.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_digits_do_not_depend_on_the_instruction_set():
    script = DIGITS.format(name=_core.__name__, file=_core.__file__)
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "FASTMCMD_ISA": isa},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for isa in _core.available_isas()
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 2 * hashlib.sha256().digest_size


@pytest.mark.slow
def test_scores_and_quantiles_of_one_pass(rng):
    """They are those of two passes, also in rare rows: apart, with a pole, heavy, of extreme weights."""
    n = 40
    loc, scale = rng.normal(size=(2, n)), np.exp(rng.normal(size=(2, n)))
    df, weights = rng.uniform(2, 30, (2, n)), rng.dirichlet([2, 2], n)
    places = rng.permutation(n)[:4]
    loc[1][places[0]] = 1e3
    df[0][places[1]], weights[places[2]] = 0.45, [1 - 1e-12, 1e-12]
    scale[0][places[3]] = 1e-8
    mixture = Mixture(
        [StudentT(df[0], loc[0], scale[0]), StudentT(df[1], loc[1], scale[1])], weights
    )
    levels, y = np.arange(1, 16) / 16, rng.normal(size=n)
    assert mixture.shares_panels
    scores, quantiles = mixture.scored_quantiles(y, levels)
    assert np.isposinf(scores[places[1]])
    np.testing.assert_allclose(scores, mixture.crps(y), rtol=1e-12)
    both = quantiles, mixture.quantile(levels)
    np.testing.assert_allclose(*both, rtol=1e-11, atol=1e-11)
    below = weights[:, :1] * stats.t(df[0], loc[0], scale[0]).cdf(quantiles.T).T
    below += weights[:, 1:] * stats.t(df[1], loc[1], scale[1]).cdf(quantiles.T).T
    # Far from 0, the rounding of a quantile is a step of a narrow component's cdf.
    inside = np.ones(n, dtype=bool)
    inside[places[[0, 3]]] = False
    np.testing.assert_allclose(below[inside], np.tile(levels, (n - 2, 1)), atol=1e-11)
    usual = np.setdiff1d(np.arange(n), places)
    evaluation = fm.evaluate(y[usual], mixture.take(usual))
    np.testing.assert_allclose(evaluation["crps"], mixture.crps(y)[usual].mean(), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["student", "gamma", "beta", "mixture"])
def test_scores_and_quantiles_of_truncated_rows_in_one_pass(rng, kind):
    """They are those of two passes, also beside tiny intervals."""
    n = 30
    a, b = rng.uniform(1.5, 9, (2, n))
    low, high = np.full(n, 0.2), np.full(n, 0.8)
    if kind != "mixture":
        low[rng.permutation(n)[:2]] = 0.8 - 1e-9
    base = {
        "student": StudentT(a, b / 10, 0.1),
        "gamma": fm.Gamma(a, 10 * a),
        "beta": Beta(a, b),
        "mixture": Mixture([Beta(a, b), Beta(b, a)], [0.3, 0.7]),
    }[kind]
    prediction = Truncated(base, low, high)
    levels = np.arange(1, 16) / 16
    y = rng.uniform(0.1, 0.9, n)
    assert prediction.shares_panels
    scores, quantiles = prediction.scored_quantiles(y, levels)
    np.testing.assert_allclose(scores, prediction.crps(y), rtol=1e-11)
    np.testing.assert_allclose(quantiles, prediction.quantile(levels), rtol=1e-10)
    for column, level in enumerate(levels):
        np.testing.assert_allclose(prediction.cdf(quantiles[:, column]), level, atol=1e-6)


def test_masses_of_student_tails():
    """Far out by a series, elsewhere by the incomplete beta function, row by row."""
    df, z = (
        np.array([1.0, 1.5, 4.0, 7.9, 60.0, 3.0, 4.0]),
        np.array([12.0, 15, 25, 40, 90, 1.5, -2.0]),
    )
    prediction = StudentT(df, 1.0, 2.0)
    below, above = prediction.masses_outside(1 - 2 * z, 1 + 2 * z)
    for row, (v, t) in enumerate(zip(df.tolist(), z.tolist(), strict=True)):
        half = mp.betainc(mp.mpf(v) / 2, 0.5, 0, v / (v + mp.mpf(t) ** 2), regularized=True) / 2
        expected = half if t > 0 else 1 - half
        assert below[row] == pytest.approx(float(expected), rel=2e-14)
        assert above[row] == pytest.approx(float(expected), rel=2e-14)


def spans(part_edges, left, right):
    """Return how many panels of a component a panel spans; equal ends count as one."""
    ends = np.unique(part_edges)
    places = np.arange(len(ends))
    return np.interp(right, ends, places) - np.interp(left, ends, places)


@pytest.mark.parametrize("kind", ["gamma", "student"])
def test_scores_and_quantiles_of_zero_inflated_rows_in_one_pass(rng, monkeypatch, kind):
    """They are those of two passes; the panels of the base are cut once a row."""
    n = 40
    a, b = rng.uniform(1.5, 9, (2, n))
    parts = {
        "gamma": [fm.Gamma(a, 1.0), fm.Gamma(b, 2.0)],
        "student": [StudentT(a, b - 4, 1.0), StudentT(b, 1.0, 2.0)],
    }[kind]
    probability = rng.uniform(size=n)
    probability[:4] = [
        0.0,
        1.0,
        0.25,
        0.25 - 1e-12,
    ]  # at the last, a level is far in a tail of the base
    prediction = ZeroInflated(Mixture(parts, [0.3, 0.7]), probability)
    levels = np.arange(1, 16) / 16
    y = np.where(rng.uniform(size=n) < 0.2, 0.0, rng.uniform(0.1, 9, n))
    expected = prediction.crps(y), prediction.quantile(levels)
    rows_cut = []
    monkeypatch.setattr(
        "fastmcmd.predictive.mixture.panel_scores",
        lambda part, *arguments: rows_cut.append(len(part)) or panel_scores(part, *arguments),
    )
    scores, quantiles = prediction.scored_quantiles(y, levels)
    np.testing.assert_allclose(scores, expected[0], rtol=1e-11)
    np.testing.assert_allclose(quantiles, expected[1], rtol=1e-10, atol=1e-11)
    assert n - 4 <= rows_cut[0] <= n
    assert sum(rows_cut) <= n + 2 * (n - rows_cut[0])


def with_neighbours(ends):
    """Return ends of panels (E,) with one more panel on either side."""
    return np.concatenate([[2 * ends[0] - ends[1]], ends, [2 * ends[-1] - ends[-2]]])


def test_joined_ends_of_panels(rng):
    """Stops are ends, and no panel spans more of a component than 1.05 of its own panels, nor much less.

    Before the first and after the last end of a component lies one more panel, as long as its neighbour.
    """
    n = 30
    scales = 10.0 ** rng.integers(-3, 4, (3, n, 1))
    edges = [np.sort(scale * rng.normal(size=(n, 9)) + rng.normal(), axis=1) for scale in scales]
    edges[0][:, :3] = edges[0][:, 2:3]
    low, high = (f(edges, axis=(0, 2)) for f in (np.min, np.max))
    stops = low[:, None] + (high - low)[:, None] * rng.uniform(-0.1, 1.1, (n, 2))
    ends = joined(edges, stops, low, high)
    np.testing.assert_array_equal(ends[:, 0], low)
    np.testing.assert_array_equal(ends[:, -1], high)
    for row in range(n):
        places = np.unique(ends[row])
        assert (np.diff(ends[row]) >= 0).all()
        inner = stops[row][(stops[row] > low[row]) & (stops[row] < high[row])]
        assert np.isin(inner, places).all()
        every = [with_neighbours(np.unique(part[row])) for part in edges]
        most = np.max([spans(part, places[:-1], places[1:]) for part in every], axis=0)
        assert most.max() <= 1.05 * (1 + 1e-9)
        before_stop = np.isin(places[1:], [*inner, high[row]])
        assert (most[~before_stop] >= 1 - 1e-9).all()
    edges[1][3, 4] = np.nan
    assert np.isnan(joined(edges, stops, low, high)[3]).all()


def test_a_narrow_component_in_the_tail_of_a_wide_one():
    """Panels of the wide one end where the narrow one begins: its mass of 1e-12 there counts at 1e-6."""
    rows = np.array([
        [5.0, 275428.0, 9105.06, -63098.8, 3299.65, 0.968],
        [6.0, -49.496, 3.0239, -1.78745, 0.85642, 0.6155],
        [7.0, -0.14643, 0.21228, -4.5105, 0.0385, 0.8938],
        [8.0, 0.0, 1.0, 60.0, 0.5, 0.5],
    ])  # fmt: skip
    df, loc, scale, mean, std, weight = rows.T
    weights = np.stack([weight, 1 - weight], axis=1)
    mixture = Mixture([StudentT(df, loc, scale), fm.Gaussian(mean, std)], weights)
    levels = np.array([1e-6, 1e-5, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 1e-5, 1 - 1e-6])
    quantiles = mixture.scored_quantiles(loc, levels)[1].T
    below = weight * stats.t.cdf(quantiles, df, loc, scale)
    below += (1 - weight) * stats.norm.cdf(quantiles, mean, std)
    above = weight * stats.t.sf(quantiles, df, loc, scale)
    above += (1 - weight) * stats.norm.sf(quantiles, mean, std)
    np.testing.assert_allclose(below[:6].T, np.tile(levels[:6], (4, 1)), rtol=1e-9)
    np.testing.assert_allclose(above[6:].T, np.tile(1 - levels[6:], (4, 1)), rtol=1e-9)


@pytest.mark.parametrize("df", [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0])
def test_quantiles_of_student_near_the_median(df):
    offset = np.array([5.551115123125783e-17, 1e-12, 1e-9, 1e-6, 0.9e-4, 1.1e-4, 1e-3])
    prediction = StudentT([df], 0.0, 1.0)
    below, above = prediction.quantile(0.5 - offset)[0], prediction.quantile(0.5 + offset)[0]
    nodes, factors = np.polynomial.legendre.leggauss(20)  # SciPy's cdf is 0.5 near the median
    masses = stats.t.pdf(below[:, None] * (1 + nodes) / 2, df) @ factors * -below / 2
    np.testing.assert_allclose(masses, offset, rtol=1e-12, atol=5e-13)
    np.testing.assert_allclose(above[1:], -below[1:], rtol=1e-11, atol=2e-12)
