"""Truncated and zero-inflated densities, and rare huge scales, against dense sums of bumps on the line."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import linalg, stats

import fastmcmd as fm
from fastmcmd.embedding.interpolation import integration_sites
from fastmcmd.predictive.numerics.quadrature import COARSE

GAMMA, LAM, ROUNDING = 0.5, 1e-2, 1e-11
X_KERNEL, Y_KERNEL = fm.RBF(0.5), fm.RBF(GAMMA)
EDGE = 400.0  # beyond it there is no mass
OFFSETS = np.array([0.0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 9, 14, 22, 40, 80, 150, 300, 600])
STEPS = np.concatenate([[0.0], np.geomspace(1e-4, 2 * EDGE, 26)])
PANEL = np.polynomial.legendre.leggauss(16)
GRID = np.arange(-EDGE - 8, EDGE + 8, 0.25 / np.sqrt(GAMMA))  # sums are integrals, to rounding


def bumps(at, y):
    """Return bumps around numbers (...), whose inner products are the kernel."""
    height = (4 * GAMMA / np.pi) ** 0.25 * np.sqrt(0.25 / np.sqrt(GAMMA))
    return height * np.exp(-2 * GAMMA * (at - y[..., None]) ** 2)


def dense_nodes(log_density, loc, scale, low, high):
    """Return nodes and weights of one density on the line, in an interval."""
    low, high = max(low, -EDGE), min(high, EDGE)
    places = np.concatenate(
        [loc + scale * OFFSETS, loc - scale * OFFSETS, low + STEPS, high - STEPS]
    )
    ends = np.unique(np.clip(places, low, high))
    z, w = PANEL
    half = np.diff(ends)[:, None] / 2
    y = (ends[:-1, None] + half * (1 + z)).ravel()
    logs = log_density(y, loc, scale)
    weights = (half * w).ravel() * np.exp(logs - logs.max())
    weights /= weights.sum()
    return y[weights > 1e-18], weights[weights > 1e-18]


def reach(nodes):
    """Return the part of the grid that bumps around nodes reach."""
    first, last = np.searchsorted(GRID, [nodes.min() - 7, nodes.max() + 7])
    return slice(int(first), int(last))


def subtract_mean(differences, nodes, shares):
    """Subtract the mean bump of nodes in ascending order, some at a time: these reach few grid points."""
    for first in range(0, len(nodes), 64):
        some = slice(first, first + 64)
        near = reach(nodes[some])
        differences[near] -= shares[some] @ bumps(GRID[near], nodes[some])


def problem(seed=0, n=300, rare=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    loc = np.sin(x[:, 0]) + 0.5 * x[:, 1]
    scale = 0.3 + 0.1 * np.abs(x[:, 0])
    rows = rng.choice(n, rare, replace=False)
    y = loc + scale * rng.normal(size=n)
    return rng, x, loc, scale, rows, y


def values(x, differences, at, weights=None):
    """Return the CCE at ``at`` from the differences (n, g) of embeddings, by its definition."""
    share = np.full(len(x), 1.0) if weights is None else weights * len(x) / weights.sum()
    system = X_KERNEL(x, x) + len(x) * LAM * np.diag(1 / share)
    return np.linalg.norm(np.linalg.solve(system, X_KERNEL(x, at)).T @ differences, axis=1)


def assert_exact(x, y, prediction, differences, **options):
    at = x[::7]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        result = fm.cce(
            x, y, prediction, x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM, at=at, **options
        )
    assert result.info.form == "feature"
    error = np.abs(result.values - values(x, differences, at, options.get("weights")))
    assert (error <= result.error_bounds + ROUNDING).all(), (error.max(), result.error_bound)
    assert result.error_bound <= 1e-6


def truncated(kind, seed, far=20.0):
    """Return inputs, outcomes, truncated predictions and their scipy.stats bases and intervals."""
    rng, x, loc, scale, rows, y = problem(seed)
    n = len(x)
    low, high = np.full(n, -1.0), np.full(n, np.inf)
    if kind == "two-sided":
        high[:] = 1.5
    if kind == "own ends":
        low, high = (
            loc - scale * np.exp(rng.normal(size=n)),
            loc + scale * np.exp(rng.normal(size=n)),
        )
    if kind == "upper":
        low, high = np.full(n, -np.inf), np.full(n, 0.5)
    loc[rows[:3]] += rng.uniform(-far, far, 3)  # truncation far out in a tail
    scale[rows[3:]] *= np.exp(rng.uniform(-4, 3, len(rows) - 3))
    if kind in ("own ends", "two-sided"):  # nearly empty intervals
        low[rows[0]], high[rows[0]] = loc[rows[0]] + 0.1, loc[rows[0]] + 0.1 + 1e-9
    return x, np.clip(y, low, high), loc, scale, low, high


def student_t(y, loc, scale):
    return stats.t.logpdf(y, 8.0, loc, scale)


BASES = {  # and log densities of SciPy: to freeze one takes longer than to integrate it
    "StudentT": (lambda m, s: fm.StudentT(8.0, m, s), student_t),
    "Laplace": (fm.Laplace, stats.laplace.logpdf),
    "Logistic": (fm.Logistic, stats.logistic.logpdf),
    "Gaussian": (fm.Gaussian, stats.norm.logpdf),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lower", "upper", "two-sided", "own ends"])
@pytest.mark.parametrize("base", BASES)
def test_truncated_predictions_with_rare_rows(base, kind):
    x, y, loc, scale, low, high = truncated(
        kind, len(base) + len(kind), 10.0 if base == "Gaussian" else 20.0
    )
    make, log_density = BASES[base]
    prediction = fm.Truncated(make(loc, scale), low, high)
    differences = bumps(GRID, y)
    for row in range(len(x)):
        of_row = loc[row], scale[row]
        nodes, shares = dense_nodes(log_density, *of_row, low[row], high[row])
        subtract_mean(differences[row], nodes, shares)
    assert_exact(x, y, prediction, differences)


@pytest.mark.slow
def test_a_sentinel_outcome_weights_and_threads():
    x, y, loc, scale, low, high = truncated("lower", seed=5)
    y[17] = 1e6
    weights = np.random.default_rng(1).uniform(0.2, 3, len(x))
    prediction = fm.Truncated(fm.StudentT(8.0, loc, scale), low, high)
    grid = np.concatenate([GRID, 1e6 + GRID[np.abs(GRID) < 10]])
    differences = bumps(grid, y)
    for row in range(len(x)):
        of_row = loc[row], scale[row]
        nodes, shares = dense_nodes(student_t, *of_row, low[row], high[row])
        subtract_mean(differences[row], nodes, shares)
    assert_exact(x, y, prediction, differences, weights=weights)
    before, results = fm.get_num_threads(), []
    try:
        for threads in (1, 2):
            fm.set_num_threads(threads)
            results.append(fm.cce(x, y, prediction, y_kernel=Y_KERNEL, lam=LAM, weights=weights))
    finally:
        fm.set_num_threads(before)
    np.testing.assert_array_equal(results[0].values, results[1].values)
    assert results[0].error_bound == results[1].error_bound


@pytest.mark.slow
def test_zero_inflated_densities():
    """Kernels at every pivot were integrated on their own: 27 seconds for 2,000 rows."""
    rng, x, loc, scale, rows, y = problem(3)
    loc[rows] += rng.uniform(-30, 30, len(rows))
    scale[rows] *= np.exp(rng.uniform(-3, 2, len(rows)))
    zero = rng.uniform(0, 0.6, len(x))
    y[rng.uniform(size=len(x)) < zero] = 0.0
    differences = bumps(GRID, y) - zero[:, None] * bumps(GRID, np.zeros(1))
    for row in range(len(x)):
        of_row = loc[row], scale[row]
        nodes, shares = dense_nodes(student_t, *of_row, -np.inf, np.inf)
        subtract_mean(differences[row], nodes, (1 - zero[row]) * shares)
    prediction = fm.ZeroInflated(fm.StudentT(8.0, loc, scale), zero)
    assert_exact(x, y, prediction, differences)


@cache
def evaluation_points(seed, n):
    """Return every hundredth input of a problem, and the coefficients of their embeddings."""
    x = problem(seed, n)[1]
    at = x[::100]
    system = X_KERNEL(x, x)
    system.flat[:: n + 1] += n * LAM
    return at, linalg.solve(system, X_KERNEL(x, at), assume_a="pos")


@pytest.mark.slow
@pytest.mark.parametrize("largest", [1e2, 1e6])
def test_gaussian_mixtures_with_rare_huge_scales(largest):
    """Pivots left out a tenth of the value, and the dense form took half a minute."""
    rng, x, loc, scale, rows, y = problem(4, n=4200)
    at, a = evaluation_points(4, len(x))
    wide = 2 * scale
    wide[rows] = largest ** rng.uniform(0.3, 1, len(rows))
    shares = rng.dirichlet(np.ones(2), len(x))
    prediction = fm.Mixture([fm.Gaussian(loc, scale), fm.Gaussian(loc + 1, wide)], shares)
    atoms = [
        (np.ones(len(x)), y, 0 * y),
        (-shares[:, 0], loc, scale),
        (-shares[:, 1], loc + 1, wide),
    ]
    square = np.zeros(len(at))
    for first in range(0, len(x), 100):  # blocks that stay in the cache, on and above the diagonal
        some, later = slice(first, first + 100), slice(first, None)
        gram = np.zeros((len(x[some]), len(x[later])))
        for w, m, s in atoms:
            for v, q, t in atoms:
                spread = 1 + 2 * GAMMA * (s[some, None] ** 2 + t[later] ** 2)
                exponent = -GAMMA * (m[some, None] - q[later]) ** 2 / spread
                gram += w[some, None] * v[later] * np.exp(exponent) / np.sqrt(spread)
        gram[:, 100:] *= 2
        square += np.einsum("iq,iq->q", a[some], gram @ a[later])
    truth = np.sqrt(np.maximum(square, 0.0))
    result = fm.cce(x, y, prediction, x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM, at=at)
    assert result.info.form == "feature"
    assert (np.abs(result.values - truth) <= result.error_bounds + ROUNDING).all()
    assert result.error_bound <= 1e-6


def test_truncated_families_with_common_ends_are_interpolated():
    _, _, loc, scale, _, _ = problem(n=4000)
    prediction = fm.Truncated(fm.StudentT(5.0, loc, scale), 0.0)
    (sites,) = integration_sites(prediction, Y_KERNEL, 1e-8)
    assert len(sites) < 2000
    again = prediction.at(prediction.coordinates)
    np.testing.assert_allclose(again.mass, prediction.mass, rtol=1e-13)
    scattered = loc + np.random.default_rng(0).normal(size=len(loc))
    own_ends = fm.Truncated(fm.StudentT(5.0, loc, scale), scattered - 3, scattered + 3)
    assert integration_sites(own_ends, Y_KERNEL, 1e-8) is None


def test_panels_end_at_kinks():
    """A kink between two ends of panels left errors that each refinement halved only."""
    prediction = fm.Truncated(fm.Laplace([0.0, 0.3], [1.0, 0.5]), [-0.7, -2.0], [2.0, 0.9])
    for nodes, weights in (prediction.nodes(), prediction.coarse_nodes()):
        for row, loc, scale in ((0, 0.0, 1.0), (1, 0.3, 0.5)):
            ends = [prediction.low[row], loc, prediction.high[row]]
            z, w = np.polynomial.legendre.leggauss(60)
            y = np.concatenate([a + (b - a) * (z + 1) / 2 for a, b in pairwise(ends)])
            mass = np.concatenate([w * (b - a) / 2 for a, b in pairwise(ends)])
            mass = mass * np.exp(-np.abs(y - loc) / scale)
            exact = mass @ np.cos(y) / mass.sum()
            assert abs(weights[row] @ np.cos(nodes[row]) - exact) < 1e-13
    assert prediction.nodes()[1].shape[1] == prediction.node_count
    assert prediction.coarse_nodes()[1].shape[1] == prediction.node_count * COARSE // 12
