"""The core's work between products agrees with NumPy and SciPy: substitution, eigenvalues, sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_triangular

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd._base.checks import all_finite
from fastmcmd.backends import get_backend
from fastmcmd.backends.tall_skinny import cholesky_factor, eigh, eliminated, substituted
from fastmcmd.embedding.features import output_features
from fastmcmd.gram import KernelFeatures

SHAPES = [(1, 1), (1, 129), (5, 3), (33, 128), (130, 300), (300, 40)]


def lower(p, seed=0):
    rng = np.random.default_rng(seed)
    return np.tril(rng.normal(size=(p, p)) / np.sqrt(p)) + np.eye(p)


@pytest.mark.parametrize(("p", "n"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_substitution(p, n, transposed):
    factor, b = lower(p), np.random.default_rng(1).normal(size=(p, n))
    original = b.copy()
    ours = substituted(factor, b, transposed=transposed)
    theirs = solve_triangular(factor, b, lower=True, trans="T" if transposed else "N")
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11 * abs(theirs).max())
    np.testing.assert_array_equal(b, original)


@pytest.mark.parametrize("p", [1, 31, 32, 33, 255, 256, 257, 600])
def test_cholesky_factor(p):
    factor = lower(p)
    matrix = factor @ factor.T
    original = matrix.copy()
    ours = cholesky_factor(matrix)
    np.testing.assert_array_equal(matrix, original)
    np.testing.assert_array_equal(np.triu(ours, 1), np.zeros((p, p)))
    np.testing.assert_allclose(ours @ ours.T, matrix, rtol=0, atol=1e-13 * matrix.max())
    matrix[p // 2, p // 2] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        cholesky_factor(matrix)


@pytest.mark.parametrize(("k", "n"), SHAPES)
@pytest.mark.parametrize("r", [0, 1, 7, 300])
def test_elimination(k, n, r):
    rng = np.random.default_rng(2)
    rows, at, fresh = (rng.normal(size=shape) for shape in ((r, n), (r, k), (k, n)))
    factor = lower(k)
    expected = solve_triangular(factor, fresh - at.T @ rows, lower=True)
    ours = eliminated(fresh.copy(), rows, at, factor)
    np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-10 * abs(expected).max())


@pytest.mark.parametrize("n", [1, 2, 3, 28, 64, 160, 161])
@pytest.mark.parametrize("kind", ["full", "rank deficient", "graded", "equal", "diagonal", "zero"])
def test_eigenvalues(n, kind):
    rng = np.random.default_rng(n)
    b = rng.normal(size=(n + 3, n))
    if kind == "rank deficient":
        b[:, n // 2 :] = 0
    elif kind == "graded":
        b *= 10.0 ** rng.uniform(-12, 3, n)
    elif kind == "equal":
        b[:] = 1.0
    a = np.diag(rng.normal(size=n)) if kind == "diagonal" else b.T @ b
    a = np.zeros((n, n)) if kind == "zero" else a
    values, vectors = eigh(a)
    expected = np.linalg.eigvalsh(a)
    size = max(abs(expected).max(), 1e-300)
    assert abs(values - expected).max() <= 1e-13 * size
    assert abs(eigh(a, vectors=False)[0] - expected).max() <= 1e-13 * size
    assert abs(a @ vectors - vectors * values).max() <= 1e-13 * size
    assert abs(vectors.T @ vectors - np.eye(n)).max() <= 1e-13


def test_eigenvalues_of_nan_are_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        eigh(np.full((5, 5), np.nan))


@pytest.mark.parametrize("kernel", [fm.RBF(0.5), fm.Laplacian(1.0), 0.5 * fm.RBF(2.0) + fm.Delta()])
@pytest.mark.parametrize("count", [1, 40, 700])
def test_pivots_are_those_of_the_plain_loop(kernel, count):
    rng = np.random.default_rng(count)
    y, worth = rng.normal(size=(count, 1)), rng.uniform(0.1, 1, count)
    results = [
        output_features(kernel, get_backend(name, kernel), y, 1e-9, 200, worth)
        for name in ("cpu", "numpy")
    ]
    assert (results[0] is None) == (results[1] is None)
    if results[0] is None or results[1] is None:
        return
    (ours, p, missing), (plain, *_) = results
    gram = kernel(y)
    assert abs(ours.rank - plain.rank) <= 2
    assert (worth**2 * missing).max() <= 2e-9
    assert abs(gram - p @ p.T).max() <= missing.max() + 1e-13
    assert abs(ours.factor @ ours.factor.T - kernel(ours.pivots)).max() <= 1e-13


@pytest.mark.parametrize(("n", "group"), [(1, 8), (5, 9), (130, 16), (40, 1000)])
@pytest.mark.parametrize("name", ["cpu", "numpy"])
def test_sums_of_features(n, group, name):
    kernel, rng = fm.Laplacian(0.7), np.random.default_rng(3)
    pivots, y = rng.normal(size=(20, 2)), rng.normal(size=(n * group, 2))
    factor = np.linalg.cholesky(kernel(pivots))
    features = KernelFeatures(kernel, pivots, factor, get_backend(name, kernel))
    mean, residual = features.means(y, group)
    p = features.transform(y)
    np.testing.assert_allclose(mean, p.reshape(n, group, -1).mean(axis=1), rtol=0, atol=1e-13)
    np.testing.assert_allclose(residual, features.residuals(y, p), rtol=0, atol=1e-13)


def test_threads_do_not_change_bits(monkeypatch):
    rng, factor = np.random.default_rng(4), lower(150)
    b = rng.normal(size=(150, 3000))
    rows, at = rng.normal(size=(200, 3000)), rng.normal(size=(200, 150))
    results = []
    for threads in (1, 3):
        x, y = b.copy(), b.copy()
        _core.triangular_solve(factor, x, False, threads)
        _core.eliminate(rows, at, factor, y, threads)
        results.append((x, y))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [None, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [1, 7, 1024, 5000])
def test_finite_numbers(dtype, bad, size):
    for place in (0, size // 2, size - 1):
        x = np.full(size, np.finfo(dtype).max, dtype)  # whose sum overflows
        x[place] = x[place] if bad is None else bad
        for threads in (1, 3):
            assert _core.all_finite(x, threads) == (bad is None)
        assert all_finite(x[::-1]) == all_finite(np.stack([x, x], axis=1)[:, 0]) == (bad is None)


@pytest.mark.parametrize("shape", [(1, 1), (3, 700), (700, 3), (129, 64)])
@pytest.mark.parametrize("columns", [1, 2])
def test_rbf_of_normal_differences(shape, columns):
    """One exponential, a division and a root; some widths are the same in each row."""
    rng = np.random.default_rng(0)
    gaps = [rng.normal(size=shape) for _ in range(columns)]
    wide = [1 + rng.random((shape[0], width)) for width in (1, shape[1])][:columns]
    out = np.empty(shape)
    _core.rbf_of_normals(0.7, gaps, wide, out, 2)
    exponents = sum(gap**2 / width for gap, width in zip(gaps, wide, strict=True))
    product = np.prod(np.broadcast_arrays(out, *wide)[1:], axis=0)
    np.testing.assert_allclose(out, np.exp(-0.7 * exponents) / np.sqrt(product), rtol=4e-15)
