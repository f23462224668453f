"""Features at landmarks and sums of their products: core and backends agree with NumPy and SciPy."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.linalg import solve_triangular

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd.backends import get_backend
from fastmcmd.gram import KernelFeatures

DTYPES = [np.float32, np.float64]
UNIT = {np.float32: 6e-8, np.float64: 1.2e-16}
POINTS = {np.float32: _core.PointsF32, np.float64: _core.PointsF64}
# Landmarks p, rows n, columns d: one, around the widths of panels, blocks (128) and chunks (256).
SHAPES = [
    (1, 1, 1),
    (1, 130, 3),
    (5, 1, 2),
    (7, 127, 40),
    (33, 129, 2),
    (67, 257, 5),
    (130, 300, 33),
    (101, 1700, 3),
    (205, 140, 2),
]
BACKENDS = ["cpu", "numba", "numpy"]
CODES = np.array([_core.OPS["laplacian"]], np.int32), np.array([[0.7, 0.0, 0.0, 0.0]])
KERNEL = fm.Laplacian(0.7)  # well conditioned at any number of landmarks


def example(p, n, d, dtype, seed=0):
    """Return landmarks, rows and the Cholesky factor, in the precision."""
    rng = np.random.default_rng(seed)
    z, x = rng.normal(size=(p, d)).astype(dtype), rng.normal(size=(n, d)).astype(dtype)
    factor = np.linalg.cholesky(KERNEL(z.astype(float)) + 1e-3 * np.eye(p))
    return z, x, np.ascontiguousarray(factor.astype(dtype))


def expected(z, x, factor):
    """Return features, their squares and the sizes of the coefficients, in float64."""
    factor = factor.astype(float)
    f = solve_triangular(factor, KERNEL(z.astype(float), x.astype(float)), lower=True)
    at = solve_triangular(factor, f, lower=True, trans="T")
    return f, (f**2).sum(axis=0), np.sqrt((at**2).sum(axis=0))


def core_features(z, x, factor, threads=1, keep=True, sizes=True):
    points = POINTS[factor.dtype.type]
    out = np.full((len(z), len(x)), np.nan, factor.dtype) if keep else None
    squares = np.full(len(x), np.nan)
    norms = np.full(len(x), np.nan) if sizes else None
    _core.features(*CODES, points(z), points(x), factor, out, squares, norms, threads=threads)
    return out, squares, norms


def near(actual, expected, dtype, amplification):
    """Return the rounding of substitution: units, times the condition of the factor."""
    off = np.abs(actual - expected).max()
    assert off <= 40 * UNIT[dtype] * amplification * max(1.0, np.abs(expected).max()), off


# --- features ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("p", "n", "d"), SHAPES)
def test_features_match_definition(p, n, d, dtype):
    z, x, factor = example(p, n, d, dtype)
    f, squares, sizes = expected(z, x, factor)
    condition = np.linalg.cond(factor)
    actual = core_features(z, x, factor)
    near(actual[0], f, dtype, condition)
    near(actual[1], squares, dtype, condition)
    near(actual[2], sizes, dtype, condition**2)
    assert actual[0].dtype == dtype
    # Outputs that are not requested do not change the others; nor does the number of threads.
    for threads in (1, 2, 3):
        for keep in (True, False):
            for size in (True, False):
                other = core_features(z, x, factor, threads, keep, size)
                assert (other[0] is not None) == keep
                assert not keep or (other[0] == actual[0]).all()
                assert (other[1] == actual[1]).all()
                assert (other[2] is not None) == size
                assert not size or (other[2] == actual[2]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_share_many_rows_and_change_nothing(dtype):
    """The work is enough for all threads, and not a multiple of any block."""
    z, x, factor = example(61, 3001, 3, dtype)
    first = core_features(z, x, factor, 1)
    near(first[0], expected(z, x, factor)[0], dtype, np.linalg.cond(factor))
    products = [np.zeros((61, 61)) for _ in range(3)]
    for threads in (2, 3):
        for one, other in zip(first, core_features(z, x, factor, threads), strict=True):
            assert (one == other).all()
    for threads, out in zip((1, 2, 3), products, strict=True):
        _core.self_product(first[0], None, out, threads=threads)
        assert (out == products[0]).all()


def test_features_at_landmarks_are_the_factor():
    """L^-1 K(Z, Z) = L': the map is exact at the landmarks."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(40, 2))
    factor = np.linalg.cholesky(KERNEL(z))
    f, squares, sizes = core_features(z, z, factor)
    np.testing.assert_allclose(f, factor.T, atol=1e-13)
    np.testing.assert_allclose(squares, 1.0, atol=1e-13)
    np.testing.assert_allclose(sizes, 1.0, atol=1e-11)  # each is interpolated by itself alone


# --- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("p", "n"), [(1, 1), (1, 300), (3, 255), (65, 257), (129, 64), (200, 513), (837, 259)]
)
def test_self_product_adds(p, n, weighted, dtype):
    rng = np.random.default_rng(p + n)
    a = rng.normal(size=(p, n)).astype(dtype)
    w = rng.uniform(0, 3, n) * (rng.random(n) < 0.8) if weighted else None
    before = rng.normal(size=(p, p))
    before += before.T
    out = before.copy()
    _core.self_product(a, w, out, threads=1)
    wide = a.astype(float)
    target = (wide if w is None else wide * w) @ wide.T
    size = (np.abs(wide) if w is None else np.abs(wide) * w) @ np.abs(wide).T + np.abs(before)
    assert (np.abs(out - before - target) <= 60 * UNIT[dtype] * size).all()
    off = ~np.eye(p, dtype=bool)
    assert np.abs(out - out.T)[off].max(initial=0) <= 60 * UNIT[dtype] * size.max()
    for threads in (2, 3):
        other = before.copy()
        _core.self_product(a, w, other, threads=threads)
        assert (other == out).all()


def test_self_product_sums_in_float64_over_chunks():
    a = np.full((2, 200_000), 1 / 3, np.float32)
    out = np.zeros((2, 2))
    _core.self_product(a, None, out, threads=2)
    # Summed in float32 alone it would be off by about 1e-3.
    assert np.abs(out / (200_000 * float(a[0, 0]) ** 2) - 1).max() < 4e-6


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("p", "n", "c"), [(1, 1, 1), (1, 300, 7), (67, 257, 1), (33, 600, 29)])
def test_dense_matmul_matches_numpy(p, n, c, dtype, transposed):
    rng = np.random.default_rng(p + n + c)
    a, v = rng.normal(size=(p, n)).astype(dtype), rng.normal(size=(n, c)).astype(dtype)
    out = np.full((p, c), np.nan)
    matrix = np.ascontiguousarray(a.T) if transposed else a
    _core.dense_matmul(matrix, v, out, threads=1, transposed=transposed)
    wide, right = a.astype(float), v.astype(float)
    assert (np.abs(out - wide @ right) <= 60 * UNIT[dtype] * (np.abs(wide) @ np.abs(right))).all()
    for threads in (2, 3):
        other = np.full((p, c), np.nan)
        _core.dense_matmul(matrix, v, other, threads=threads, transposed=transposed)
        assert (other == out).all()


# --- backends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("p", "n", "d"), [(1, 1, 1), (7, 127, 3), (67, 301, 5)])
def test_backends_agree(backend, p, n, d, dtype):
    z, x, factor = example(p, n, d, dtype, seed=2)
    f, squares, sizes = expected(z, x, factor)
    condition = np.linalg.cond(factor)
    engine = get_backend(backend, KERNEL)
    points = engine.points(z, dtype), engine.points(x, dtype)
    for keep, size in ((True, True), (False, True), (True, False), (False, False)):
        actual = engine.features(KERNEL, *points, factor, keep=keep, sizes=size)
        assert (actual.values is not None) == keep
        assert (actual.sizes is not None) == size
        near(actual.squares, squares, dtype, condition)
        if keep:
            near(actual.values, f, dtype, condition)
            assert actual.values.dtype == dtype
            assert actual.values.flags.c_contiguous
        if size:
            near(actual.sizes, sizes, dtype, condition**2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("p", "n", "c"), [(1, 1, 1), (5, 300, 3), (70, 257, 31)])
def test_backends_add_products(backend, p, n, c, weighted, dtype):
    rng = np.random.default_rng(p + n + c)
    f, rhs = rng.normal(size=(p, n)).astype(dtype), rng.normal(size=(n, c))
    w = rng.uniform(0, 2, n) * (rng.random(n) < 0.7) if weighted else None
    gram, cross = np.ones((p, p)), np.ones((p, c))
    get_backend(backend, KERNEL).add_products(f, rhs, w, gram, cross)
    wide = f.astype(float)
    left = wide if w is None else wide * w
    slack = 100 * UNIT[dtype]
    assert (np.abs(gram - 1 - left @ wide.T) <= slack * (np.abs(left) @ np.abs(wide).T + 1)).all()
    assert (np.abs(cross - 1 - left @ rhs) <= slack * (np.abs(left) @ np.abs(rhs) + 1)).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_features_of_rows_with_an_offset(backend):
    """Far from the origin: rows, landmarks and factor see the same shifted inputs."""
    rng = np.random.default_rng(3)
    x = 1e5 + rng.normal(size=(90, 40))
    offset = x.mean(axis=0)
    kernel = fm.RBF(0.02)
    z = x[:12]
    factor = np.linalg.cholesky(kernel(z - offset))
    features = KernelFeatures(kernel, z, factor, get_backend(backend, kernel), offset)
    target = solve_triangular(factor, kernel(z - offset, x - offset), lower=True)
    for dtype, slack in ((np.float32, 1e-4), (np.float64, 1e-9)):
        values, _, residual = features.of_rows(x, np.dtype(dtype), keep=True, sizes=True)
        np.testing.assert_allclose(values.values, target, atol=slack)
        np.testing.assert_allclose(residual, 1 - (target**2).sum(axis=0), atol=10 * slack)
        assert (residual >= 0).all()
        weights = rng.normal(size=(12, 3))
        image = features.combine(x, features.coefficients(weights), np.dtype(dtype))
        np.testing.assert_allclose(image, target.T @ weights, atol=100 * slack)


# --- refusals ------------------------------------------------------------------------------------


def refused_features(**changes):
    z, x, factor = example(4, 9, 2, np.float64)
    arguments = {
        "landmarks": _core.PointsF64(z), "x": _core.PointsF64(x), "factor": factor,
        "out": np.empty((4, 9)), "squares": np.empty(9), "sizes": np.empty(9), "threads": 1,
    }  # fmt: skip
    _core.features(*CODES, **(arguments | changes))


READ_ONLY = np.empty(9)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"factor": np.eye(4, dtype=np.float32)}, ValueError, "factor has the wrong dtype"),
        ({"factor": np.eye(3)}, ValueError, "factor has the wrong shape"),
        ({"factor": np.eye(8)[::2, ::2]}, ValueError, "factor must be C-contiguous"),
        ({"factor": np.asfortranarray(np.tri(4))}, ValueError, "factor must be C-contiguous"),
        ({"out": np.empty((9, 4))}, ValueError, "out has the wrong shape"),
        ({"out": np.empty((4, 9), np.float32)}, ValueError, "out has the wrong dtype"),
        ({"squares": np.empty(8)}, ValueError, "squares has the wrong shape"),
        ({"squares": np.empty(9, np.float32)}, ValueError, "squares has the wrong dtype"),
        ({"squares": READ_ONLY}, ValueError, "squares must be writeable"),
        ({"sizes": np.empty(18)[::2]}, ValueError, "sizes must be C-contiguous"),
        ({"sizes": np.empty((9, 1))}, ValueError, "sizes has the wrong shape"),
        ({"x": _core.PointsF64(np.ones((9, 3)))}, ValueError, "same number of columns"),
        ({"x": _core.PointsF32(np.ones((9, 2)))}, TypeError, "incompatible function arguments"),
        ({"threads": 0}, ValueError, "threads must be at least 1"),
    ],
)
def test_features_refuse(changes, error, message):
    with pytest.raises(error, match=message):
        refused_features(**changes)


@pytest.mark.parametrize(
    ("a", "weight", "out", "message"),
    [
        (np.ones((3, 5), np.int64), None, np.zeros((3, 3)), "a must be float32 or float64"),
        (np.ones((5, 3)).T, None, np.zeros((3, 3)), "a must be C-contiguous"),
        (np.ones(3), None, np.zeros((3, 3)), "a has too few dimensions"),
        (np.ones((3, 0)), None, np.zeros((3, 3)), "a must have at least one column"),
        (np.ones((3, 5)), np.ones(4), np.zeros((3, 3)), "weight has the wrong shape"),
        (np.ones((3, 5)), np.ones(5, np.float32), np.zeros((3, 3)), "weight has the wrong dtype"),
        (np.ones((3, 5)), np.ones(10)[::2], np.zeros((3, 3)), "weight must be C-contiguous"),
        (np.ones((3, 5)), None, np.zeros((3, 5)), "out has the wrong shape"),
        (np.ones((3, 5)), None, np.zeros((3, 3), np.float32), "out has the wrong dtype"),
    ],
)
def test_self_product_refuses(a, weight, out, message):
    with pytest.raises(ValueError, match=message):
        _core.self_product(a, weight, out, threads=1)


# --- instruction sets ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("isa", _core.available_isas())
def test_every_other_instruction_set(isa):
    """Run the numerical tests of this file again under each."""
    if isa == _core.isa() or "FASTMCMD_ISA" in os.environ:
        pytest.skip("it is the one of this process, or one was chosen")
    names = "match or threads or adds or chunks or are_the_factor"
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__, "-k", names],
        env=dict(os.environ, FASTMCMD_ISA=isa, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout
    assert " passed" in process.stdout
