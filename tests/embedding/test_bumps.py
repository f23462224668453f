"""Integrals of densities under bumps, and sums over nodes by series, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd._base.threads import set_thread_count
from fastmcmd.backends import get_backend
from fastmcmd.embedding.bumps import project, smooth
from fastmcmd.embedding.densities import PanelDensities, parts_of
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.panels import PanelSums, _distinct
from fastmcmd.embedding.quadrature import sums_over_nodes
from fastmcmd.gram import KernelFeatures
from fastmcmd.predictive import Predictive

_T = np.linspace(-4, 4, 33)


def plain_integrals(prediction: Predictive, rate: float) -> np.ndarray:
    """Return the integrals by Gauss-Legendre on 4,000 short intervals, ends of the support among theirs."""
    z, w = gauss_legendre(8)
    edges = np.linspace(-12, 12, 4001)
    half = np.diff(edges)[:, None] / 2
    y = (edges[:-1, None] + half + half * z).ravel()
    weights = (half * w).ravel()
    bumps = np.exp(-((rate * (y[:, None] - _T)) ** 2))
    rows = [prediction.take(np.full(len(y), row)) for row in range(len(prediction))]
    return np.array([(weights * np.exp(row.log_prob(y))) @ bumps for row in rows])


@pytest.mark.parametrize("rate", [0.2, 1.0, 5.0, 60.0])
@pytest.mark.parametrize(
    "prediction",
    [
        fm.StudentT(8.0, [0.0, 1.5], [0.3, 0.05]),
        fm.Logistic([0.0, -1.5], [0.3, 0.1]),
        fm.Uniform([-1.5, -3.0], [0.0, 2.4]),
    ],
)
def test_smoothed_densities(prediction, rate):
    ((_, part),) = parts_of(prediction)
    densities = PanelDensities.of(part, [(rate, 1e-12)])
    actual = smooth(densities, gauss_legendre(densities.series.shape[2])[0], rate, _T)
    np.testing.assert_allclose(actual, plain_integrals(prediction, rate), rtol=0, atol=2e-9)


@pytest.mark.parametrize("rate", [0.3, 2.0, 9.0])
def test_projected_bumps(rate):
    low, high = np.array([-3.0, -1.0, 0.5]), np.array([-1.0, 0.4, 4.0])
    y = np.linspace(-6, 6, 41)
    actual = project(y, low, high, rate, 16)
    z, w = np.polynomial.legendre.leggauss(200)
    for p, (a, b) in enumerate(zip(low, high, strict=True)):
        t = (a + b) / 2 + (b - a) / 2 * z
        basis = np.polynomial.legendre.legvander(z, 15) * np.sqrt((2 * np.arange(16) + 1) / (b - a))
        bumps = np.exp(-((rate * (t - y[:, None])) ** 2))
        np.testing.assert_allclose(
            actual[:, p], bumps @ (basis * w[:, None]) * (b - a) / 2, atol=5e-9
        )


def test_chebyshev_moments():
    rng = np.random.default_rng(0)
    place, slot = rng.integers(0, 5, (7, 61)), np.array([0, -1, 1, 2, -1])
    place[3] = np.sort(place[3])
    z, weights = rng.random((7, 61)), rng.random((7, 61))
    number, length, most = np.array([0.0, 1.0, 2.0]), 0.3, rng.random((3, 8))
    z = (np.array([0, 9, 1, 2, 9])[place] + z) * length
    moments, residual = np.zeros((7, 3, 22)), np.zeros(7)
    _core.chebyshev_moments(place, slot, z, weights, number, length, most, moments, residual)
    expected, bounds = np.zeros_like(moments), np.zeros(7)
    for i, j in np.ndindex(place.shape):
        panel = slot[place[i, j]]
        if panel >= 0:
            u = 2 * (z[i, j] / length - number[panel]) - 1
            expected[i, panel] += weights[i, j] * np.cos(np.arange(22) * np.arccos(u))
            bounds[i] += weights[i, j] * most[panel, int((u + 1) / 2 * 8)]
    np.testing.assert_allclose(moments, expected, atol=1e-12)
    np.testing.assert_allclose(residual, bounds, rtol=1e-13)


def sums_on_panels(features: KernelFeatures, values: np.ndarray, weights: np.ndarray) -> tuple:
    sums = PanelSums.of(features, values.ravel()[::7])
    assert sums is not None
    return sums.sums(values, weights)


def test_sums_on_panels_with_any_number_of_threads():
    rng = np.random.default_rng(1)
    kernel = fm.RBF(0.5)
    pool = np.linspace(-6, 6, 400)[:, None]
    features = output_features(kernel, get_backend("cpu", kernel), pool, 1e-10, 200)[0]
    values, weights = rng.normal(size=(3000, 90)), rng.random((3000, 90))
    results = []
    for threads in (1, 3):
        set_thread_count(threads)
        results.append(sums_on_panels(features, values, weights))
    set_thread_count(None)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    mean, _ = sums_over_nodes(features, values, weights)
    gap = np.linalg.norm(results[0][0] - mean, axis=1)
    assert (gap <= results[0][2] + 1e-12 * weights.sum(axis=1)).all()


@pytest.mark.parametrize("far", [False, True])
def test_distinct_numbers(far):
    numbers = np.array([[3.0, -2.0, np.inf], [3.0, 4e15 if far else 4.0, -2.0]])
    distinct, place, count = _distinct(numbers)
    expected = np.unique(numbers, return_counts=True)
    np.testing.assert_array_equal(distinct, expected[0])
    np.testing.assert_array_equal(count, expected[1])
    np.testing.assert_array_equal(distinct[place], numbers)


@pytest.mark.parametrize(
    "prediction",
    [
        fm.StudentT([2.0, 5.0], 0.0, [1.0, 3.0]),
        fm.Beta([2.0, 0.5], 3.0),
        fm.Truncated(fm.Gaussian([0.0, 1.0], 1.0), -1.0, 1.5),
        fm.Gaussian([0.0, 1.0], 1.0),
        fm.Poisson([3.0, 4.0]),
    ],
)
@pytest.mark.parametrize("length", [0.03, 0.5, 100.0])
def test_number_of_nodes(prediction, length):
    assert prediction.node_count_within(length) == prediction.nodes_within(length)[1].shape[1]
