"""Recalibrated distributions with atoms and a density, against sums of both parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.zero_inflated import ZeroInflated
from fastmcmd.recalibration import MonotoneMap, Rescaled
from fastmcmd.recalibration.atoms import recalibrated

N = 3
RNG = np.random.default_rng(0)
KNOTS = [np.concatenate([[0.0], np.sort(RNG.uniform(0.02, 0.98, 6)), [1.0]]) for _ in range(2)]
R = MonotoneMap(*KNOTS)
CHANCE = np.array([0.1, 0.45, 0.7])
MEAN, STD = np.array([-0.5, 0.2, 1.5]), np.array([0.6, 1.0, 1.7])
SHAPE = np.array([0.6, 1.3, 3.5])
DRAWS = np.array([[-0.4, 1.1], [0.3, 0.3], [2.0, -1.0]])


def zero_inflated(family):
    return lambda i: [(CHANCE[i], 0.0)], lambda i: [(1 - CHANCE[i], family(i))]


GAMMA = zero_inflated(lambda i: stats.gamma(SHAPE[i], scale=STD[i]))
LOGNORMAL = zero_inflated(lambda i: stats.lognorm(0.5, scale=STD[i]))
NORMAL = zero_inflated(lambda i: stats.norm(MEAN[i], STD[i]))
# A prediction, and for each row its atoms and its densities, with their weights.
CASES = {
    "gamma": (ZeroInflated(as_predictive(stats.gamma(SHAPE, scale=STD), N), CHANCE), *GAMMA),
    "lognormal": (ZeroInflated(as_predictive(stats.lognorm(0.5, scale=STD), N), CHANCE), *LOGNORMAL),
    "normal": (ZeroInflated(fm.Gaussian(MEAN, STD), CHANCE), *NORMAL),
    "mixture": (
        fm.Mixture([ZeroInflated(fm.Gaussian(MEAN, STD), CHANCE), fm.Gaussian(MEAN / 2, 1.0)], [0.3, 0.7]),
        lambda i: [(0.3 * CHANCE[i], 0.0)],
        lambda i: [
            (0.3 * (1 - CHANCE[i]), stats.norm(MEAN[i], STD[i])), (0.7, stats.norm(MEAN[i] / 2, 1.0))
        ],
    ),
    "mixture with draws": (
        fm.Mixture([fm.Draws(DRAWS), fm.Gaussian(MEAN, STD)], [0.4, 0.6]),
        lambda i: [(0.2, DRAWS[i, 0]), (0.2, DRAWS[i, 1])],
        lambda i: [(0.6, stats.norm(MEAN[i], STD[i]))],
    ),
}  # fmt: skip


def expectation(atoms, densities, g):
    """Return E g(Y') of one row: over the recalibrated masses of atoms, and by quad over the density."""

    def cdf(y, *, below=False):
        steps = sum(mass for mass, at in atoms if at < y or (at == y and not below))
        return steps + sum(mass * one.cdf(y) for mass, one in densities)

    def density(y):
        slope = R.slopes[R.cell(np.array(cdf(y)))]
        return slope * sum(mass * one.pdf(y) for mass, one in densities) * g(y)

    places = {at for _, at in atoms}
    total = sum((R(cdf(at)) - R(cdf(at, below=True))) * g(at) for at in places)
    low = min(one.ppf(1e-17) for _, one in densities)
    high = max(one.isf(1e-17) for _, one in densities)
    ends = {low, high, *places}
    for level in R.p[1:-1]:
        if cdf(low) >= level:  # the level lies within the jump at the lower end
            continue
        ends.add(
            optimize.brentq(
                lambda y, level=level: cdf(y) - level, low, high, xtol=1e-15, rtol=1e-14
            )
        )
    ends |= {end for one in (0.25, 1.0, 4.0, 16.0) for end in (-one, one) if low < end < high}
    ends = sorted(ends)
    return total + sum(
        integrate.quad(density, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0]
        for a, b in itertools.pairwise(ends)
    )


@pytest.mark.parametrize("name", CASES)
def test_moments_and_nodes_of_atoms_with_a_density(name):
    """The quadrature over levels had errors of 1e-5 to 1e-3: quantiles jump at levels of each row."""
    prediction, atoms, densities = CASES[name]
    mended = recalibrated(prediction, R)
    values, weights = mended.nodes()
    assert weights.shape == (N, mended.node_count)
    coarse_values, coarse_weights = mended.coarse_nodes()
    assert coarse_weights.shape[1] < weights.shape[1]
    for i in range(N):
        row = atoms(i), densities(i)
        mean = expectation(*row, lambda y: y)
        std = np.sqrt(expectation(*row, lambda y, mean=mean: (y - mean) ** 2))
        bump = expectation(*row, lambda y: np.exp(-0.7 * (y - 0.1) ** 2))
        assert abs(mended.mean[i] - mean) < 1e-9 * std
        assert mended.std[i] == pytest.approx(std, rel=1e-9)
        assert weights[i] @ np.exp(-0.7 * (values[i] - 0.1) ** 2) == pytest.approx(bump, abs=1e-9)
        coarse = coarse_weights[i] @ np.exp(-0.7 * (coarse_values[i] - 0.1) ** 2)
        assert coarse == pytest.approx(bump, abs=1e-6)


def test_rescaled_atoms_keep_their_levels():
    inner = CASES["gamma"][0]
    direct, scaled = recalibrated(inner, R), recalibrated(Rescaled(inner, 1 / 3), R)
    np.testing.assert_allclose(scaled.std, direct.std / 3, rtol=1e-12)
    expected = inner.mean + (direct.mean - inner.mean) / 3
    np.testing.assert_allclose(scaled.mean, expected, rtol=1e-12)


def test_equality_counts_the_atoms():
    """Its expectation at 0 was 0, as for densities."""
    prediction = CASES["gamma"][0]
    mended = recalibrated(prediction, R)
    points = np.array([[0.0], [1.0]])
    equal = mended.expected_kernel(fm.kernels.Delta(), points)
    np.testing.assert_allclose(equal, np.column_stack([R(CHANCE), np.zeros(N)]), atol=1e-15)
    signs = mended.expected_kernel(fm.kernels.Cosine(), points)[:, 1]
    np.testing.assert_allclose(signs, 1 - R(CHANCE), atol=1e-12)
