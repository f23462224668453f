"""Errors of quadrature under predictions that define nodes and nothing coarser."""

import numpy as np
import pytest
from scipy import special, stats

import fastmcmd as fm
from fastmcmd.predictive.clipped import Clipped
from fastmcmd.predictive.numerics.quadrature import merged_neighbours

N, LAM, GAMMA_X, GAMMA_Y = 20, 0.01, 0.7, 20.0


class FewNodes(fm.Predictive):
    """Normal distributions with four nodes a split: far too few for a narrow kernel."""

    def __init__(self, mean):
        self.mean = np.asarray(mean)

    std = variance = property(lambda self: np.ones(len(self.mean)))
    shape = property(lambda self: self.mean.shape)

    def cdf(self, y):
        return special.ndtr(np.asarray(y) - self.mean)

    def log_prob(self, y):
        return stats.norm.logpdf(y, self.mean)

    def quantile(self, level):
        level = np.asarray(level, dtype=float)
        z = special.ndtri(level)
        return self.mean[:, None] + z if level.ndim else self.mean + z

    def take(self, rows):
        return FewNodes(self.mean[rows])

    def nodes(self, splits=1):
        count = 4 * splits
        z = special.ndtri((np.arange(count) + 0.5) / count)
        return self.mean[:, None] + z, np.full((len(self.mean), count), 1 / count)


def cce_by_definition(x, y, values, weights, at):
    """Return the CCE at points (q, 1) from atoms (n, L) of the predictions and their masses."""
    coefficients = np.linalg.solve(
        np.exp(-GAMMA_X * (x - x.T) ** 2) + N * LAM * np.eye(N), np.exp(-GAMMA_X * (x - at.T) ** 2)
    )
    points = np.concatenate([y, values.ravel()])
    signed = np.concatenate(
        [coefficients, -(weights[:, :, None] * coefficients[:, None]).reshape(-1, len(at))]
    )
    kernel = np.exp(-GAMMA_Y * np.subtract.outer(points, points) ** 2)
    return np.sqrt(np.einsum("iq,ij,jq->q", signed, kernel, signed))


def fine_normal_atoms(mean):
    """Return 200 Gauss-Legendre nodes (n, 200) of normal distributions, and their masses."""
    z, w = np.polynomial.legendre.leggauss(200)
    z, w = 9 * z, 9 * w
    return mean[:, None] + z, np.tile(w * stats.norm.pdf(z), (len(mean), 1))


def problem():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (N, 1))
    return x, np.sin(x[:, 0]) + rng.normal(size=N), np.linspace(-2, 2, 5)[:, None]


def bounded_cce(x, y, prediction, at):
    return fm.cce(
        x, y, prediction, at=at, x_kernel=fm.RBF(GAMMA_X), y_kernel=fm.RBF(GAMMA_Y), lam=LAM
    )


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
def test_bounds_hold_for_subclasses_without_coarse_nodes():
    """Without coarser nodes, the estimated error of the nodes was 0."""
    x, y, at = problem()
    mean = np.sin(x[:, 0])
    result = bounded_cce(x, y, FewNodes(mean), at)
    truth = cce_by_definition(x, y, *fine_normal_atoms(mean), at)
    assert (np.abs(result.values - truth) <= result.error_bounds).all()


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
def test_bounds_hold_for_clipped_predictions():
    x, y, at = problem()
    mean = np.sin(x[:, 0])
    low, high = mean - 0.83, mean + 0.41
    result = bounded_cce(x, y, Clipped(fm.Logistic(mean, 1.0), low, high), at)
    z, w = np.polynomial.legendre.leggauss(100)
    inside = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * z
    masses = (high - low)[:, None] / 2 * w * stats.logistic.pdf(inside, mean[:, None])
    values = np.column_stack([low, inside, high])
    below, above = stats.logistic.cdf(low - mean), stats.logistic.sf(high - mean)
    truth = cce_by_definition(x, y, values, np.column_stack([below, masses, above]), at)
    assert (np.abs(result.values - truth) <= result.error_bounds).all()


def test_merged_neighbours_keep_mass_and_mean():
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(3, 7)), rng.dirichlet(np.ones(7), 3)
    merged, masses = merged_neighbours(values, weights)
    assert merged.shape == masses.shape == (3, 4)
    np.testing.assert_allclose(masses.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(
        (masses * merged).sum(axis=1), (weights * values).sum(axis=1), rtol=1e-12
    )
    first = np.sort(values, axis=1)[:, :2]
    assert ((merged[:, 0] >= first[:, 0]) & (merged[:, 0] <= first[:, 1])).all()
