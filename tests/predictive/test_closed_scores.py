"""Tests of scores and tails in closed form: of lines, of parts of them, and of families of scipy.stats."""

from __future__ import annotations

import functools
import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

import fastmcmd as fm
from fastmcmd.predictive import StudentT, as_predictive
from fastmcmd.predictive.adapters.closed_crps import closed_crps
from fastmcmd.predictive.clipped import Clipped
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    SymmetricFamily,
    piece_scores,
    symmetric_tails,
)
from fastmcmd.predictive.truncated import Truncated

N = 25


def _bases(rng):
    loc, scale = rng.normal(size=N), rng.uniform(0.5, 2.0, N)
    df = rng.uniform(1.2, 30.0, N)
    return {
        "normal": (fm.Gaussian(loc, scale), stats.norm(loc, scale)),
        "logistic": (fm.Logistic(loc, scale), stats.logistic(loc, scale)),
        "laplace": (fm.Laplace(loc, scale), stats.laplace(loc, scale)),
        "student": (StudentT(df, loc, scale), stats.t(df, loc, scale)),
        "uniform": (fm.Uniform(loc - 9, loc + 9), stats.uniform(loc - 9, 18.0 + 0 * loc)),
    }


def _integral(cdf, y, ends):
    """Return the integral of ``(F(t) - 1{t >= y})^2`` between the first and the last end."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    edges = np.unique([*ends, *np.linspace(ends[0], ends[-1], 41), np.clip(y, ends[0], ends[-1])])
    total = 0.0
    for low, high in itertools.pairwise(edges):
        t = low + (high - low) * (nodes + 1) / 2
        total += (high - low) / 2 * (weights @ (cdf(t) - (low >= y)) ** 2)
    return total


def _case(name):
    rng = np.random.default_rng(3)
    base, frozen = _bases(rng)[name]
    low = frozen.ppf(0.05) + rng.uniform(0, 1, N)
    high = low + rng.uniform(0.5, 4, N)
    y = rng.uniform(low - 0.5, high + 0.5)
    return base, frozen, low, high, y


def _row(frozen, i):
    return frozen.dist(*(np.broadcast_to(one, N)[i] for one in frozen.args))


def _scores_between(case, cdf_of):
    """Return scores of rows with all mass from low to high; ``cdf_of(one, low, high)`` is F of a row."""
    _, frozen, low, high, y = case
    expected = []
    for i in range(N):
        one = _row(frozen, i)
        centre = np.clip(one.median(), low[i], high[i])
        inner = _integral(cdf_of(one, low[i], high[i]), y[i], [low[i], centre, high[i]])
        expected.append(inner + abs(y[i] - np.clip(y[i], low[i], high[i])))
    return expected


@pytest.mark.parametrize("name", ["normal", "logistic", "laplace", "student", "uniform"])
def test_scores_of_truncated_distributions_are_integrals(name):
    base, _, low, high, y = case = _case(name)

    def cdf_of(one, low, high):
        below = one.cdf(low)
        mass = one.cdf(high) - below
        return lambda t: (one.cdf(t) - below) / mass

    expected = _scores_between(case, cdf_of)
    np.testing.assert_allclose(Truncated(base, low, high).crps(y), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["normal", "logistic", "laplace", "student", "uniform"])
def test_scores_of_clipped_distributions_are_integrals(name):
    base, _, low, high, y = case = _case(name)
    expected = _scores_between(case, lambda one, *_: one.cdf)
    np.testing.assert_allclose(Clipped(base, low, high).crps(y), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["normal", "logistic", "laplace", "uniform"])
def test_pieces_with_masses_at_the_ends_are_integrals(name):
    base, frozen, low, high, y = _case(name)
    below, above = np.linspace(0, 0.6, N), np.linspace(0.3, 0, N)
    scores = base.piece_scores(y, CDFPiece(low, high, below, 1 - below - above, above))
    safe = np.flatnonzero(~np.isnan(scores))  # others lose digits
    assert len(safe) > N / 2
    for i in safe:
        one = _row(frozen, i)
        share = (1 - below[i] - above[i]) / (one.cdf(high[i]) - one.cdf(low[i]))
        expected = _integral(
            lambda t, one=one, i=i, share=share: below[i] + share * (one.cdf(t) - one.cdf(low[i])),
            y[i], [low[i], np.clip(one.median(), low[i], high[i]), high[i]],
        )  # fmt: skip
        assert scores[i] == pytest.approx(expected, rel=1e-10)


def test_infinite_and_missing_outcomes_of_clipped_distributions():
    base = Clipped(fm.Gaussian(np.zeros(3), 1.0), np.full(3, -1.0), np.full(3, 1.0))
    scores = base.crps([np.inf, -np.inf, np.nan])
    assert np.isinf(scores[:2]).all()
    assert np.isnan(scores[2])


def test_mixtures_with_gaps_and_masses():
    """Two uniform parts with a gap between them, and a mass inside the gap."""
    zero = np.zeros(4)
    parts = [
        fm.Uniform(zero, zero + 1),
        fm.Uniform(zero + 3, zero + 5),
        fm.Draws(zero[:, None] + 2),
    ]
    mixture = fm.Mixture(parts, [0.5, 0.3, 0.2])
    y = np.array([-1.0, 1.5, 2.5, 4.0])

    def cdf(t):
        rising = 0.5 * np.clip(t, 0, 1) + 0.3 * np.clip((t - 3) / 2, 0, 1)
        return rising + 0.2 * (t >= 2)

    expected = [_integral(cdf, one, [-2.0, 0.0, 1.0, 2.0, 3.0, 5.0]) for one in y]
    np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-12)


@pytest.mark.parametrize("family", [fm.Gaussian, fm.Logistic, fm.Laplace])
def test_half_the_mass_is_below_the_centre(family, rng):
    """Exactly: intervals of level 0 contain the outcomes at their centre."""
    loc, scale = rng.normal(size=200), 10.0 ** rng.uniform(-300, 300, 200)
    below, above = family(loc, scale).cdf_and_sf(loc)
    assert (below == 0.5).all()
    assert (above == 0.5).all()


def test_normal_tails_keep_all_digits():
    z = np.concatenate([np.linspace(-37, 9, 400), -np.logspace(-12, 0, 40)])
    below, above = symmetric_tails(SymmetricFamily.NORMAL, z, np.zeros(1), np.ones(1))
    with mpmath.workdps(40):
        half = [mpmath.erfc(mpmath.mpf(one) / mpmath.sqrt(2)) / 2 for one in z]
        other = [mpmath.erfc(-mpmath.mpf(one) / mpmath.sqrt(2)) / 2 for one in z]
    np.testing.assert_allclose(above, np.array(half, dtype=float), rtol=2e-15)
    np.testing.assert_allclose(below, np.array(other, dtype=float), rtol=2e-15)


TAILS = {
    SymmetricFamily.NORMAL: special.ndtr,
    SymmetricFamily.LOGISTIC: special.expit,
    SymmetricFamily.LAPLACE: lambda z: np.where(
        z < 0, np.exp(-np.abs(z)) / 2, 1 - np.exp(-np.abs(z)) / 2
    ),
}
REACH = {
    SymmetricFamily.NORMAL: 40.0,
    SymmetricFamily.LOGISTIC: 720.0,
    SymmetricFamily.LAPLACE: 720.0,
}
SHARES = st.floats(0, 0.45)


def _graded(function, low, high, anchors):
    """Integrate with panels that shrink towards anchors, at which tails change fast."""
    steps = np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 25)])
    edges = np.concatenate([one + sign * steps for one in anchors for sign in (-1, 1)])
    edges = np.unique([low, high, *edges[(edges > low) & (edges < high)]])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    values = function(edges[:-1, None] + half * (nodes + 1))
    return float((half * weights * values).sum())


@given(
    family=st.sampled_from(list(SymmetricFamily)),
    ends=st.tuples(st.floats(-60, 60), st.floats(-60, 60)),
    is_open=st.sampled_from([(False, False), (True, False), (False, True), (True, True)]),
    place=st.floats(-0.2, 1.2),
    shares=st.tuples(SHARES, SHARES),
    scale=st.sampled_from([1e-150, 1.0, 1e150]),
)
def test_scores_of_pieces_are_right_or_missing(family, ends, is_open, place, shares, scale):
    """No digits are lost without a NaN, wherever the interval lies."""
    tail, reach = TAILS[family], REACH[family]
    low, high = sorted(ends)
    y = low + place * (high - low)
    low, high = (-np.inf if is_open[0] else low), (np.inf if is_open[1] else high)
    below, above = (0.0 if one else share for one, share in zip(is_open, shares, strict=True))
    numbers = (
        np.array([one]) for one in (low * scale, high * scale, below, 1 - below - above, above)
    )
    row = np.array([y * scale]), np.zeros(1), np.array([scale])
    score = piece_scores(family, *row, CDFPiece(*numbers))[0] / scale
    if np.isnan(score):
        return
    inside = min(max(y, low), high)
    anchors = [one for one in (low, inside, high, 0.0) if np.isfinite(one)]
    mass = tail(high) - tail(low) if low < 0 else tail(-low) - tail(-high)
    share = (1 - below - above) / mass

    def lower(t):  # the masses below and above t in the interval, by the smaller tail
        return np.where(t < 0, tail(t) - tail(low), mass - (tail(-t) - tail(-high)))

    def upper(t):
        return np.where(t > 0, tail(-t) - tail(-high), mass - (tail(t) - tail(low)))

    start, stop = max(low, min(-reach, inside)), min(high, max(reach, inside))
    left = _graded(lambda t: (below + share * lower(t)) ** 2, start, inside, anchors)
    right = _graded(lambda t: (above + share * upper(t)) ** 2, inside, stop, anchors)
    assert score == pytest.approx(left + right, rel=1e-9)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (-np.inf, 0.5), (0.25, np.inf), (-3.0, -1.0)]
)
@pytest.mark.parametrize("y", [-2.0, -0.5, 0.0, 0.3, 1.5, 4.0])
@pytest.mark.parametrize(
    "base",
    [
        fm.Uniform([0.0], [1.0]),
        fm.Exponential([1.5]),
        Truncated(fm.Gaussian([0.2], [1.0]), 0.0, 1.0),
    ],
    ids=["uniform", "exponential", "truncated"],
)
def test_intervals_beyond_the_support(base, low, high, y):
    """The cdf is constant there, which counts for outcomes outside the support."""
    place = np.clip(y, low, high)
    inner = _integral(
        lambda t: base.take(np.zeros(len(t), dtype=np.intp)).cdf(t),
        place, [max(low, -3.0), np.clip(0.0, low, high), np.clip(1.0, low, high), min(high, 25.0)],
    )  # fmt: skip
    clipped = Clipped(base, np.array([low]), np.array([high]))
    np.testing.assert_allclose(clipped.crps([y]), inner + abs(y - place), rtol=1e-7, atol=1e-12)
    if high > 0.5:
        wide, tight = Truncated(base, low, high), Truncated(base, max(low, 0.0), high)
        np.testing.assert_allclose(wide.crps([y]), tight.crps([y]), rtol=1e-12)


@pytest.mark.parametrize("base", [fm.Gaussian, fm.Logistic, fm.Laplace])
@pytest.mark.parametrize("width", [0.0, 1e-12, 1e-3])
@pytest.mark.parametrize("centre", [-41.0, -6.0, 0.0, 35.0])
def test_clipped_to_almost_a_point(base, width, centre):
    """The score is the distance, but for the width of the interval."""
    low, high = np.array([centre]), np.array([centre + width])
    clipped = Clipped(base([0.0], [1.0]), low, high)
    for y in (low, high, low - 3, high + 1e5):
        expected = np.abs(y - np.clip(y, low, high))
        np.testing.assert_allclose(clipped.crps(y), expected, rtol=1e-12, atol=1.01 * width)


@pytest.mark.parametrize("base", [fm.Gaussian, fm.Logistic, fm.Laplace])
@pytest.mark.parametrize("width", [1e-12, 3e-10, 1e-8])
def test_clipped_to_a_few_numbers(base, width):
    """Nodes of quadrature are rounded to the ends, where the cdf of the clipped distribution jumps."""
    base, low = base(np.full(9, 20.0), np.ones(9)), np.linspace(18.0, 21.0, 9)
    high = low + width
    for share in (0.0, 0.4, 1.0):
        y = low + share * (high - low)
        score = Clipped(base, low, high).crps(y)
        expected = base.cdf(low) ** 2 * (y - low) + base.sf(low) ** 2 * (high - y)
        np.testing.assert_allclose(score, expected, rtol=10 * width + 1e-13)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1.0, 1e150])
@pytest.mark.parametrize("base", [fm.Gaussian, fm.Logistic, fm.Laplace])
def test_extreme_scales_and_outcomes(base, scale):
    unit = Clipped(base([0.5], [1.0]), np.array([0.0]), np.array([2.0])).crps([1.0])
    scaled = Clipped(base([0.5 * scale], [scale]), np.array([0.0]), np.array([2 * scale]))
    np.testing.assert_allclose(scaled.crps([scale]) / scale, unit, rtol=1e-12)
    for prediction in (scaled, Truncated(base([0.0], [scale]), 0.0, np.inf), base([0.0], [scale])):
        far = 1e308 if scale < 1 else 1e20 * scale
        np.testing.assert_allclose(prediction.crps([-far]), far, rtol=1e-12)


def test_single_precision_is_converted():
    y, low, high = (np.array([one], np.float32) for one in (0.3, -0.7, 1.1))
    loc, scale = np.array([0.1], np.float32), np.array([0.9], np.float32)
    double = [one.astype(np.float64) for one in (loc, scale, low, high, y)]
    for base in (fm.Gaussian, fm.Logistic, fm.Laplace):
        scores = Truncated(base(loc, scale), low, high).crps(y)
        assert scores.dtype == np.float64
        expected = Truncated(base(*double[:2]), *double[2:4]).crps(double[4])
        np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize(
    "frozen",
    [
        stats.expon(np.array([0.0, 1.0, -1.0]), 0.5),
        stats.gumbel_r(np.array([0.0, 1.0, -1.0]), 0.5),
        stats.genextreme(np.array([-0.4, 0.3, 0.0]), 0.2, 0.5),
        stats.fisk(np.array([1.5, 3.0, 8.0]), -0.2, 2.0),
        stats.loglaplace(np.array([1.5, 3.0, 8.0]), -0.2, 2.0),
    ],
    ids=lambda frozen: frozen.dist.name,
)
@pytest.mark.parametrize("level", [0.02, 0.6, 0.98])
def test_closed_forms_of_scipy_families(frozen, level):
    y = np.broadcast_to(frozen.ppf(level), 3)
    ends = [frozen.ppf(q) for q in (1e-13, 1e-4, 0.01, 0.1, 0.5, 0.9)]
    ends += [frozen.isf(q) for q in (0.01, 1e-3, 1e-5, 1e-8, 1e-11, 1e-14, 1e-17, 1e-21)]
    scores = closed_crps(frozen, y)
    assert np.isfinite(scores).all()
    for i in range(3):
        edges = sorted(np.broadcast_to(one, 3)[i] for one in ends)
        one = as_predictive(frozen, 3).take(np.array([i])).frozen
        middle = y[i]
        # Far out the survival function is squared, which keeps small probabilities.
        left = [*(end for end in edges if end < middle), middle]
        right = [middle, *(end for end in edges if end > middle)]
        expected = sum(
            _integral(lambda t, f=function: np.asarray(f(t)), np.inf, part)
            for function, part in ((one.cdf, left), (one.sf, right))
        )
        assert scores[i] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("z", [-1e3, -3.0, -0.5, 0.0, 0.4, 1.0, 2.5, 50.0])
@pytest.mark.parametrize("c", [-0.999, -0.5, -2e-4, -1e-5, 0.0, 1e-3, 1.0, 3.0, 30.0])
def test_extreme_values_of_all_shapes(c, z):
    """Shapes ``-c`` next to 0 and 1, and outcomes outside the support."""

    def power(t):
        return np.exp(-t) if c == 0 else np.exp(np.log1p(np.maximum(-c * t, -1)) / c)

    _check_scipy(
        stats.genextreme(np.array([c])), z,
        lambda t: np.exp(-power(t)), lambda t: -np.expm1(-power(t)),
    )  # fmt: skip


@pytest.mark.parametrize("z", [-3.0, 1e-12, 0.5, 1.0, 1.0001, 3.0, 1e4])
@pytest.mark.parametrize("c", [1.001, 1.1, 2.0, 50.0, 1e3])
def test_log_logistic_and_log_laplace_of_all_shapes(c, z):
    """Shapes next to 1, at which the mean becomes infinite, and narrow distributions."""

    def log_power(t):
        return c * np.log(np.maximum(t, 0.0))

    _check_scipy(
        stats.fisk(np.array([c])), z,
        lambda t: special.expit(log_power(t)), lambda t: special.expit(-log_power(t)),
    )  # fmt: skip

    def tail(t):
        return np.exp(-np.abs(log_power(t))) / 2

    _check_scipy(
        stats.loglaplace(np.array([c])), z,
        lambda t: np.where(t < 1, tail(t), 1 - tail(t)),
        lambda t: np.where(t < 1, 1 - tail(t), tail(t)),
    )  # fmt: skip


def _check_scipy(frozen, z, cdf, sf):
    """Compare a score with the integral of squares; 1 is a kink, and tails may end at 1e200."""
    low, high = (float(one) for one in np.ravel(frozen.support()))
    levels = 10.0 ** np.arange(-30.0, 0), np.linspace(0.15, 0.95, 17)
    places = [float(frozen.ppf(one)[0]) for one in np.concatenate(levels)]
    places += [float(frozen.isf(one)[0]) for one in levels[0]] + [z, 1.0]
    steps = 2.0 ** np.concatenate([np.arange(-60, 20, 2), np.arange(20, 660, 4)])
    edges = np.concatenate([places, z - steps, z + steps, 1 - steps[:30], 1 + steps[:30]])
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def integral(function, low, high):
        some = np.unique([low, high, *edges[(edges > low) & (edges < high)]])
        half = np.diff(some)[:, None] / 2
        return (half * weights * function(some[:-1, None] + half * (nodes + 1)) ** 2).sum()

    with np.errstate(all="ignore"):
        expected = max(low - z, 0.0)
        if z > low:
            left = max(low, -(2.0**650))
            expected += integral(lambda t: np.where(t > high, 1.0, cdf(t)), left, z)
        if z < high:
            expected += integral(sf, max(low, z), min(high, 2.0**650))
    score = as_predictive(frozen, 1).crps([z])
    np.testing.assert_allclose(score, expected, rtol=1e-10)


@pytest.mark.parametrize("z", [-60.0, -8.0, -1.0, 0.0, 0.5, 3.0, 60.0])
@pytest.mark.parametrize("a", [-100.0, -3.0, 0.0, 1e-3, 2.0, 1e3])
def test_skew_normal_of_all_shapes(a, z):
    def cdf(t):
        return special.ndtr(t) - 2 * special.owens_t(t, a)

    def sf(t):
        return special.ndtr(-t) + 2 * special.owens_t(t, a)

    anchors = [0.0, z]
    expected = _graded(lambda t: cdf(t) ** 2, min(z, -40.0), z, anchors)
    expected += _graded(lambda t: sf(t) ** 2, z, max(z, 40.0), anchors)
    score = as_predictive(stats.skewnorm(np.array([a])), 1).crps([z])
    np.testing.assert_allclose(score, expected, rtol=1e-11)


@pytest.mark.parametrize(
    "frozen",
    [
        stats.expon(np.array([1.0]), 1e-300),
        stats.gumbel_r(np.array([0.0]), 1e-300),
        stats.genextreme(np.array([0.3]), 0.0, 1e-300),
        stats.fisk(np.array([3.0]), 0.0, 1e-300),
        stats.loglaplace(np.array([3.0]), 0.0, 1e-300),
        stats.skewnorm(np.array([3.0]), 0.0, 1e-300),
    ],
    ids=lambda frozen: frozen.dist.name,
)
@pytest.mark.parametrize("y", [-1e20, 1e20])
def test_scores_far_outside_are_distances(frozen, y):
    np.testing.assert_allclose(as_predictive(frozen, 1).crps([y]), 1e20, rtol=1e-12)


def test_gumbel_scores_far_above():
    """exp(-z) underflows, and E_1 of it would be infinite."""
    scores = as_predictive(stats.gumbel_r(np.zeros(3)), 3).crps([39.0, 41.0, 1e4])
    np.testing.assert_allclose(scores, np.array([39.0, 41.0, 1e4]) - np.euler_gamma - np.log(2))


def test_families_of_a_user_are_not_taken_for_scipys():
    class Half(stats.rv_continuous):
        def _cdf(self, x):
            return x / 2

    frozen = Half(a=0.0, b=2.0, name="gumbel_r")(loc=np.zeros(1))
    np.testing.assert_allclose(as_predictive(frozen, 1).crps([0.5]), 7 / 24)


def test_scores_of_families_without_a_mean_are_infinite():
    assert np.isinf(
        as_predictive(stats.genextreme(np.array([-1.0, -2.0])), 2).crps([0.0, 1.0])
    ).all()
    assert np.isinf(as_predictive(stats.fisk(np.array([1.0, 0.5])), 2).crps([1.0, 1.0])).all()


@pytest.mark.parametrize("df", [1.5, 5.3, 31.16, 100.0, 1e4])
@pytest.mark.parametrize("low", [0.0, 1e-10, 9.3e-8, -9.3e-8, 1e-5, -1e-3, 3.0])
def test_truncated_students_next_to_the_centre(df, low):
    """The square of ``low`` may be less than the rounding of 1."""
    nu, end = mpmath.mpf(df), mpmath.mpf(low)
    height = mpmath.gamma((nu + 1) / 2) / mpmath.gamma(nu / 2) / mpmath.sqrt(nu * mpmath.pi)

    @functools.cache  # three integrals have the same nodes
    def density(t):
        return height * (1 + t * t / nu) ** (-(nu + 1) / 2)

    with mpmath.workdps(30):
        ends = [end, *(end + 2**k for k in range(-2, 6)), mpmath.inf]
        mass = mpmath.quad(density, ends)
        # The score at the lower end is the mean distance from it less half of that of two variables.
        mean = mpmath.quad(lambda t: (t - end) * density(t), ends) / mass
        beyond = mpmath.quad(lambda t: nu / (nu - 1) * (1 + t * t / nu) * density(t) ** 2, ends)
        # With M(t) the integral of s f(s) beyond t, it is 2 E M(Y) / mass - E Y.
        at_end = nu / (nu - 1) * (1 + end**2 / nu) * density(end)
        expected = float(mean - (2 * beyond / mass**2 - at_end / mass))
    prediction = Truncated(StudentT([df], [0.0], [1.0]), low, np.inf)
    np.testing.assert_allclose(prediction.crps([low]), expected, rtol=2e-12)


def _censored_gamma_score(shape, shift, y):
    """Return the score of Scheuerer & Hamill (2015), equation 11, of rate 1; terms cancel."""
    a, d, z = mpmath.mpf(shape), mpmath.mpf(shift), mpmath.mpf(y) + mpmath.mpf(shift)

    def below(order, x):
        return mpmath.gammainc(order, 0, x, regularized=True)

    half_distance = (
        a / mpmath.pi * mpmath.beta(0.5, a + mpmath.mpf(0.5)) * (1 - below(2 * a, 2 * d))
    )
    at_end, after = below(a, d), below(a + 1, d)
    means = a * (1 + 2 * at_end * after - at_end**2 - 2 * below(a + 1, z))
    return float(z * (2 * below(a, z) - 1) - half_distance + means - d * at_end**2)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 7.0, 300.0, 1e5])
@pytest.mark.parametrize("level", [1e-9, 0.02, 0.5, 0.9])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_shifted_gamma_censored_at_zero(shape, level, scale):
    """Outcomes are at the mass, near it, in the middle and far out; no row is integrated."""
    shift = max(stats.gamma(shape).ppf(level), 1e-30)
    y = np.array([0.0, 1e-3 * shift, np.sqrt(shape), 40 * shape + 40])
    frozen = stats.gamma(np.full(4, shape), -shift * scale, scale)
    inner = as_predictive(frozen, 4)
    low, high = np.zeros(4), np.full(4, np.inf)
    below, rise = inner.cdf_and_sf(low)
    scores = inner.piece_scores(y * scale, CDFPiece(low, high, below, rise, low))
    with mpmath.workdps(60):
        expected = [_censored_gamma_score(shape, shift, one) for one in y]
    is_safe = ~np.isnan(scores)
    assert is_safe[[0, 2, 3]].all()
    np.testing.assert_allclose(scores[is_safe] / scale, np.array(expected)[is_safe], rtol=3e-12)
    clipped = Clipped(inner, low, high).crps(y * scale)
    if scale == 1:
        np.testing.assert_allclose(clipped, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "ends", [(0.0, np.inf), (-np.inf, 2.0), (0.5, 3.0), (-1.0, 0.4), (6.0, 7.0)]
)
def test_pieces_of_gamma_distributions_are_integrals(ends):
    rng = np.random.default_rng(2)
    shape, rate = rng.uniform(0.3, 6, N), rng.uniform(0.5, 2, N)
    base, y = fm.Gamma(shape, rate), rng.uniform(-1, 8, N)
    low, high = np.full(N, ends[0]), np.full(N, ends[1])
    clipped = Clipped(base, low, high).crps(y)
    for i in range(N):
        one = stats.gamma(shape[i], scale=1 / rate[i])
        cuts = np.clip([-2.0, 0.0, 1e-6, 1e-4, 0.01, 0.1, 1.0, 60.0], *ends)
        place = np.clip(y[i], *ends)
        inner = _integral(one.cdf, place, np.sort(np.append(cuts, place)))
        assert clipped[i] == pytest.approx(inner + abs(y[i] - place), rel=1e-6)


def test_whole_shifted_gamma_distributions():
    frozen = stats.gamma(np.array([0.4, 3.0, 50.0]), np.array([-1.0, 2.0, 0.5]), 2.0)
    y = np.array([-3.0, 6.0, 200.0])
    base = fm.Gamma(np.array([0.4, 3.0, 50.0]), 0.5)
    scores = as_predictive(frozen, 3).crps(y)
    np.testing.assert_allclose(scores, base.crps(y - [-1.0, 2.0, 0.5]), rtol=1e-12)


@pytest.mark.parametrize("base", [fm.Gaussian, fm.Logistic, fm.Laplace])
def test_outcomes_at_the_end_of_a_piece_lose_no_digits(base):
    """Of a distribution with nine tenths of its mass at an end, the score there is a square in the tail."""
    low, high, none = np.array([1.5]), np.array([np.inf]), np.zeros(1)
    one = base([0.0], [1.0])
    scores = one.piece_scores(low, CDFPiece(low, high, none + 0.9, none + 0.1, none))
    tail = one.sf(low)[0]
    expected = _integral(
        lambda t: 1 - 0.1 * np.array([one.sf([v])[0] for v in t]) / tail, 1.5, [1.5, 40.0]
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-10)
