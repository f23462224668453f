"""Output features by pivots: their residual at every output, and the rounds that they take."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.embedding import features as module
from fastmcmd.embedding.features import output_features

DRAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_t(3, size=n),
    "skewed": lambda rng, n: rng.lognormal(size=n),
    "outlier": lambda rng, n: np.append(rng.normal(size=n - 1), 1e4),
}


def residual_by_definition(kernel, pivots, y):
    """Return ``k(y, y) - k(y, Z) K(Z, Z)^+ k(Z, y)`` (n,)."""
    matrix, cross = kernel(pivots, pivots), kernel(pivots, y)
    values, vectors = np.linalg.eigh(matrix)
    significant = values > 1e-13 * values.max()
    whitened = vectors[:, significant].T @ cross / np.sqrt(values[significant])[:, None]
    return kernel.diagonal(y) - np.einsum("ij,ij->j", whitened, whitened)


@pytest.fixture
def rounds(monkeypatch):
    """Record the number of candidates of each round."""
    counts, factorize = [], module._PivotedCholesky.factorize

    def recording(self):
        counts.append(len(self._y))
        return factorize(self)

    monkeypatch.setattr(module._PivotedCholesky, "factorize", recording)
    return counts


@pytest.mark.parametrize("name", list(DRAWS))
@pytest.mark.parametrize("columns", [1, 2])
def test_the_residual_is_small_at_every_output(name, columns, rounds):
    rng = np.random.default_rng(0)
    y = np.stack([DRAWS[name](rng, 9000) for _ in range(columns)], axis=1)
    kernel, eps = fm.RBF(0.3), 1e-9
    features, p, residual = output_features(kernel, get_backend("cpu", kernel), y, eps, 800)
    assert residual.max() <= eps + 2 * features.noise
    assert (residual >= residual_by_definition(kernel, features.pivots, y) - 1e-12).all()
    np.testing.assert_allclose(p @ p[:50].T, kernel(y, y[:50]), atol=2 * np.sqrt(eps))
    assert max(rounds) < len(y)


def test_outputs_of_one_column_take_one_round(rounds):
    """The candidates were evenly spread in rank alone, and missed those in the tails."""
    y = np.sort(np.random.default_rng(0).normal(size=24_000))[:, None]
    kernel = fm.RBF(0.46)
    assert output_features(kernel, get_backend("cpu", kernel), y, 5e-15, 2000) is not None
    assert len(rounds) == 1
    assert rounds[0] <= 4000
