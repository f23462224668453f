"""Output features by pivots: their residual at every output, and the rounds that they take."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.embedding import features as module
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.pivots import Pool

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


def test_kernels_of_higher_rank_take_many_candidates(rounds):
    """A few candidates serve smooth kernels only; one of higher rank starts once more with many."""
    y = np.random.default_rng(0).normal(size=9000)[:, None]
    kernel, eps = fm.RBF(100.0), 1e-9
    features, _, residual = output_features(kernel, get_backend("cpu", kernel), y, eps, 800)
    assert features.rank > module._FEW_RANK
    assert rounds[0] <= module._FEW < module._CANDIDATES / 2 < rounds[1]
    assert residual.max() <= eps + 2 * features.noise
    assert (residual >= residual_by_definition(kernel, features.pivots, y) - 1e-12).all()


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_pivots_whose_residual_is_rounding(backend, monkeypatch):
    """The factor's diagonal was computed from a difference that may be 0: features were NaN."""
    monkeypatch.setattr(module, "_FEW", 10**6)
    y = np.sort(np.random.default_rng(0).standard_t(3, size=6000))[:, None]
    kernel = fm.RBF(0.3)
    for eps in (1e-15, 1.5e-15, 2e-15):
        features, p, residual = output_features(kernel, get_backend(backend, kernel), y, eps, 2000)
        assert np.isfinite(p).all()
        assert (np.diagonal(features.factor) > 0).all()
        assert residual.max() <= eps + 2 * features.noise


def test_numbers_keep_their_order():
    """Numbers of which few are equal are not merged; the result is that of distinct numbers."""
    rng, kernel = np.random.default_rng(0), fm.RBF(0.5)
    y, z = rng.normal(size=(900, 1)), rng.normal(size=(700, 1))
    z[:100] = y[:100]  # equal numbers
    backend = get_backend("cpu", kernel)
    features, values, p, residual, (first, second) = Pool(
        kernel, backend, [(y, None), (z, None)]
    ).features(1e-9, 200)
    assert (first, second) == (slice(0, 900), slice(900, 1600))
    np.testing.assert_array_equal(values[first], y)
    np.testing.assert_array_equal(values[second], z)
    assert len(np.unique(features.pivots)) == features.rank
    np.testing.assert_array_equal(p[900:1000], p[:100])
    np.testing.assert_allclose(p[first] @ p[second].T, kernel(y, z), atol=1e-8)
    np.testing.assert_allclose(
        residual, features.residuals(values, features.transform(values)), rtol=0, atol=1e-15
    )
    merged, distinct, *_ = Pool(kernel, backend, [(y, np.ones(900)), (z, np.ones(700))]).features(
        1e-9, 200
    )
    assert len(distinct) == 1500
    assert abs(merged.rank - features.rank) <= 2


def test_numbers_that_repeat_are_merged():
    y = np.random.default_rng(0).poisson(20.0, size=(900, 1))
    kernel = fm.RBF(0.5)
    _, values, p, _, (where,) = Pool(kernel, get_backend("cpu", kernel), [(y, None)]).features(
        1e-9, 200
    )
    np.testing.assert_array_equal(values, np.unique(y)[:, None])
    np.testing.assert_array_equal(values[where], y)
    assert len(p) == len(values)


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("n", [1, 5, 64, 700])
def test_differences_of_features(backend, n, monkeypatch):
    """Only the differences are stored; residuals are those of all outputs, in blocks as well."""
    monkeypatch.setattr("fastmcmd.gram.features._BLOCK", 3000)
    rng, kernel = np.random.default_rng(0), fm.RBF(0.5)
    y, z = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    pool = Pool(kernel, get_backend(backend, kernel), [(y, None), (z, None)], differences=True)
    features, values, p, residual, (first, second) = pool.features(1e-9, 100)
    np.testing.assert_array_equal(values[first], y)
    np.testing.assert_array_equal(values[second], z)
    p_of_all, its_residual = features.with_residuals(values)
    np.testing.assert_array_equal(p, p_of_all[first] - p_of_all[second])
    np.testing.assert_array_equal(residual, its_residual)
    np.testing.assert_allclose(p_of_all @ p_of_all.T, kernel(values, values), atol=1e-8)


def test_differences_need_pairs():
    kernel = fm.RBF(0.5)
    features = output_features(
        kernel, get_backend("cpu", kernel), np.arange(6.0)[:, None], 1e-9, 6
    )[0]
    with pytest.raises(ValueError, match=r"groups of two rows|whole groups"):
        features.with_residuals(np.arange(3.0)[:, None], differences=True)
