"""Nodes of heavy tails, most of them far from every pivot, against plain sums over all nodes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.embedding.near_pivots import NearPivots
from fastmcmd.embedding.panels import PanelSums
from fastmcmd.embedding.quadrature import sums_over_nodes
from fastmcmd.gram import KernelFeatures

KERNELS = {
    "narrow": fm.RBF(2.0),
    "two widths": fm.RBF(0.1) + fm.RBF(3.0),
    "reaches far": fm.Laplacian(0.01),
    "depends on the place": fm.RBF(0.5) * fm.Polynomial(1, gamma=1e-3) + fm.RBF(0.5),
}


def features_of(kernel, rng):
    """Return features at pivots in three groups far apart."""
    pivots = np.concatenate([rng.normal(size=9) * 2, 500 + rng.normal(size=3), [-1e7]])[:, None]
    factor = np.linalg.cholesky(kernel(pivots, pivots) + 1e-9 * np.eye(len(pivots)))
    return KernelFeatures(kernel, pivots, factor, get_backend("numpy", kernel))


def heavy_nodes(rng, n, count):
    """Return nodes and weights (n, count): Cauchy, in clusters far out, and beyond 2^53."""
    values = rng.standard_cauchy(size=(n, count)) * 10.0 ** rng.integers(0, 5, size=(n, 1))
    values[:, : count // 4] = 1e5 + rng.uniform(size=(n, count // 4))
    values[rng.integers(n), -1], values[rng.integers(n), -2] = 1e300, -1e17
    weights = rng.uniform(size=(n, count)) / count
    weights[:, 5::7] = 0.0
    return values, weights


@pytest.mark.parametrize("name", KERNELS)
def test_sums_over_heavy_tails_are_plain_sums(name, rng):
    kernel = KERNELS[name]
    features = features_of(kernel, rng)
    values, weights = heavy_nodes(rng, 40, 400)
    if name == "depends on the place":
        values = np.clip(values, -1e6, 1e6)
    with np.errstate(over="ignore"):
        gram = kernel(features.pivots, values.reshape(-1, 1))
    p = linalg.solve_triangular(features.factor, gram, lower=True).T.reshape(40, 400, -1)
    mean = np.einsum("nl,nlr->nr", weights, p)
    diagonal = kernel.diagonal(values.reshape(-1, 1)).reshape(40, 400)
    root = np.sqrt(np.maximum(diagonal - (p**2).sum(axis=2), 0.0))
    residual = (weights * root).sum(axis=1)
    size = np.sqrt(diagonal.max())
    sums, residuals = sums_over_nodes(features, values, weights)
    np.testing.assert_allclose(sums, mean, rtol=1e-9, atol=1e-11 * size)
    np.testing.assert_allclose(residuals, residual, rtol=1e-5, atol=1e-6 * size)
    panels = PanelSums(features, 0.25)
    sums, residuals, error = panels.sums(values, weights)
    assert (np.linalg.norm(sums - mean, axis=1) <= error + 1e-9 * size).all()
    assert (residuals >= residual - 1e-6 * size).all()


def test_features_end_where_no_pivot_is_within_reach(rng):
    features = features_of(KERNELS["narrow"], rng)
    near = NearPivots(features)
    points = np.concatenate([np.linspace(-40, 540, 4000), [-1e7, -1e300, np.inf]])[:, None]
    with np.errstate(all="ignore"):
        exact = features.transform(points)
    computed = near.transform(points)
    np.testing.assert_allclose(computed[:-1], exact[:-1], rtol=0, atol=1e-12)
    assert (computed[:-1].any(axis=1)).sum() < 500  # the others are zeros
    low = np.floor(points[:-1, 0] / 0.25) * 0.25
    touched = near.touch(low, 0.25)
    assert touched[computed[:-1].any(axis=1)].all()
    assert not touched.all()
