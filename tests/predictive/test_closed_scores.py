"""Tests of scores and tails in closed form: of lines, of parts of them, and of families of scipy.stats."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import StudentT, as_predictive
from fastmcmd.predictive.adapters.closed_crps import closed_crps
from fastmcmd.predictive.clipped import Clipped
from fastmcmd.predictive.numerics.closed_scores import SymmetricFamily, symmetric_tails
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


@pytest.mark.parametrize("name", ["normal", "logistic", "laplace", "student", "uniform"])
def test_scores_of_truncated_distributions_are_integrals(name):
    base, frozen, low, high, y = _case(name)
    expected = []
    for i in range(N):
        one = _row(frozen, i)
        mass = one.cdf(high[i]) - one.cdf(low[i])
        centre = np.clip(one.median(), low[i], high[i])
        inner = _integral(
            lambda t, one=one, i=i, mass=mass: (one.cdf(t) - one.cdf(low[i])) / mass,
            y[i], [low[i], centre, high[i]],
        )  # fmt: skip
        expected.append(inner + abs(y[i] - np.clip(y[i], low[i], high[i])))
    np.testing.assert_allclose(Truncated(base, low, high).crps(y), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["normal", "logistic", "laplace", "student", "uniform"])
def test_scores_of_clipped_distributions_are_integrals(name):
    base, frozen, low, high, y = _case(name)
    expected = []
    for i in range(N):
        one = _row(frozen, i)
        inner = _integral(one.cdf, y[i], [low[i], np.clip(one.median(), low[i], high[i]), high[i]])
        expected.append(inner + abs(y[i] - np.clip(y[i], low[i], high[i])))
    np.testing.assert_allclose(Clipped(base, low, high).crps(y), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["normal", "logistic", "laplace", "uniform"])
def test_pieces_with_masses_at_the_ends_are_integrals(name):
    base, frozen, low, high, y = _case(name)
    below, above = np.linspace(0, 0.6, N), np.linspace(0.3, 0, N)
    scores = base.piece_scores(y, low, high, below, above)
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


def test_normal_tails_keep_all_digits():
    z = np.concatenate([np.linspace(-37, 9, 400), -np.logspace(-12, 0, 40)])
    below, above = symmetric_tails(SymmetricFamily.NORMAL, z, np.zeros(1), np.ones(1))
    with mpmath.workdps(40):
        half = [mpmath.erfc(mpmath.mpf(one) / mpmath.sqrt(2)) / 2 for one in z]
        other = [mpmath.erfc(-mpmath.mpf(one) / mpmath.sqrt(2)) / 2 for one in z]
    np.testing.assert_allclose(above, np.array(half, dtype=float), rtol=2e-15)
    np.testing.assert_allclose(below, np.array(other, dtype=float), rtol=2e-15)


@pytest.mark.parametrize(
    "frozen",
    [
        stats.expon(np.array([0.0, 1.0, -1.0]), 0.5),
        stats.gumbel_r(np.array([0.0, 1.0, -1.0]), 0.5),
        stats.genextreme(np.array([-0.4, 0.3, 0.0]), 0.2, 0.5),
        stats.fisk(np.array([1.5, 3.0, 8.0]), -0.2, 2.0),
        stats.loglaplace(np.array([1.5, 3.0, 8.0]), -0.2, 2.0),
        stats.skewnorm(np.array([-3.0, 0.7, 6.0]), 0.2, 0.5),
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


def test_scores_of_families_without_a_mean_are_infinite():
    assert np.isinf(
        as_predictive(stats.genextreme(np.array([-1.0, -2.0])), 2).crps([0.0, 1.0])
    ).all()
    assert np.isinf(as_predictive(stats.fisk(np.array([1.0, 0.5])), 2).crps([1.0, 1.0])).all()
