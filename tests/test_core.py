"""The C++ core agrees with plain NumPy definitions, on every instruction set."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import cho_solve, solve_triangular
from scipy.spatial.distance import cdist

from fastmcmd import _core

DTYPES = [np.float32, np.float64]
TOLERANCE = {np.float32: 4e-6, np.float64: 4e-15}
POINTS = {np.float32: _core.PointsF32, np.float64: _core.PointsF64}

LEAVES = [
    ("rbf", 0.7),
    ("laplacian", 0.4),
    ("polynomial", 0.5, 1.0, 1),
    ("polynomial", 0.5, 1.0, 3),
    ("polynomial", 0.25, 0.5, 8),
    ("polynomial", 0.1, 4.0, 2.5),
    ("polynomial", 0.1, 1.0, 11),
    ("matern", 1.3, 0.5),
    ("matern", 1.3, 1.5),
    ("matern", 0.8, 2.5),
    ("linear",),
    ("cosine",),
    ("delta",),
    ("constant", 1.7),
]
SUM = [("rbf", 0.3), ("polynomial", 0.5, 1.0, 2), ("add",)]
PRODUCT = [("laplacian", 0.3), ("matern", 1.0, 1.5), ("mul",)]
MIXED = [
    ("rbf", 0.3),
    ("rbf", 1.1),
    ("add",),
    ("constant", 0.5),
    ("delta",),
    ("cosine",),
    ("laplacian", 0.2),
    ("mul",),
    ("add",),
    ("mul",),
    ("add",),
]
# Sums of RBFs, perhaps scaled, stay in registers up to three of them.
RBFS = [("rbf", 0.3), ("rbf", 1.2), ("add",)]
SCALED = [*RBFS, ("constant", 0.4), ("mul",)]
THREE = [*RBFS, ("rbf", 4.8), ("add",), ("constant", 0.4), ("mul",)]
FOUR = [*RBFS, ("rbf", 4.8), ("add",), ("rbf", 0.1), ("add",)]
SHIFTED = [*RBFS, ("constant", 0.4), ("add",)]
PROGRAMS = [
    *([leaf] for leaf in LEAVES), SUM, PRODUCT, MIXED, RBFS, SCALED, THREE, FOUR, SHIFTED,
]  # fmt: skip


def program_name(program):
    return "-".join("_".join(str(part) for part in op) for op in program)


def encode(program):
    codes = np.array([_core.OPS[op[0]] for op in program], np.int32)
    params = np.zeros((len(program), 4))
    for row, op in zip(params, program, strict=True):
        row[: len(op) - 1] = op[1:]
    return codes, params


def leaf_value(name, p, x, z):
    """Return a kernel by its formula; kernels/test_kernels.py compares with scikit-learn.

    That takes more than a second to load, here once for each instruction set and sanitizer.
    """
    match name:
        case "rbf":
            return np.exp(-p[0] * cdist(x, z, "sqeuclidean"))
        case "laplacian":
            return np.exp(-p[0] * cdist(x, z, "cityblock"))
        case "polynomial":
            return (p[0] * (x @ z.T) + p[1]) ** p[2]
        case "matern":
            s = np.sqrt(2 * p[1]) * cdist(x, z) / p[0]
            return {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s * s / 3}[p[1]] * np.exp(-s)
        case "linear":
            return x @ z.T
        case "cosine":
            lengths = np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(z, axis=1))
            return x @ z.T / np.where(lengths == 0, 1, lengths)
        case "delta":
            return (cdist(x, z, "chebyshev") == 0).astype(float)
        case "constant":
            return np.full((len(x), len(z)), p[0])
    raise AssertionError(name)


def definition(program, x, z):
    """Return K(x, z) in float64 of the rounded inputs."""
    x, z = x.astype(float), z.astype(float)
    stack = []
    for name, *p in program:
        if name == "add":
            top = stack.pop()
            stack.append(stack.pop() + top)
        elif name == "mul":
            top = stack.pop()
            stack.append(stack.pop() * top)
        else:
            stack.append(leaf_value(name, p, x, z))
    assert len(stack) == 1
    return stack[0]


def make_points(rng, n, d, dtype, like=None):
    """Return points of norm about one; some of them also in `like`, for the delta kernel."""
    x = (rng.standard_normal((n, d)) / np.sqrt(d)).astype(dtype)
    if like is not None:
        common = min(len(x), len(like)) // 3
        x[:common] = like[:common]
    return x


def core_gram(program, x, z, threads=2, **options):
    points = POINTS[x.dtype.type]
    out = np.full((len(x), len(z)), np.nan, x.dtype)
    _core.gram(*encode(program), points(x), points(z), out, threads, **options)
    return out


def pack_dense(matrix, tile, dtype):
    n = len(matrix)
    blocks = -(-n // tile)
    padded = np.zeros((blocks * tile, blocks * tile), dtype)
    padded[:n, :n] = matrix
    grid = padded.reshape(blocks, tile, blocks, tile).swapaxes(1, 2)
    return np.stack([grid[i, j] for i in range(blocks) for j in range(i + 1)])


def unpack_lower(tiles, n):
    tile = tiles.shape[1]
    blocks = -(-n // tile)
    out = np.zeros((blocks * tile, blocks * tile), tiles.dtype)
    index = 0
    for i in range(blocks):
        for j in range(i + 1):
            out[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile] = tiles[index]
            index += 1
    return out


def assert_near(actual, expected, scale, dtype, factor=1.0):
    """Check agreement within a few units of rounding of the sum of absolute terms."""
    error = np.max(np.abs(actual - expected) / np.maximum(scale, 1e-300), initial=0)
    assert error <= factor * TOLERANCE[dtype], error


# --- Gram matrices -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", PROGRAMS, ids=program_name)
def test_gram_matches_definition(program, dtype):
    rng = np.random.default_rng(0)
    for d in (1, 2, 7, 8, 33, 70):
        for n, m in ((1, 31), (31, 2), (257, 130)):
            x = make_points(rng, n, d, dtype)
            z = make_points(rng, m, d, dtype, like=x)
            expected = definition(program, x, z)
            for tile in (32, 64, 256):
                actual = core_gram(program, x, z, tile=tile)
                assert_near(actual, expected, np.abs(expected).max(), dtype)


@pytest.mark.parametrize("program", [RBFS, MIXED, [("cosine",)]], ids=program_name)
@pytest.mark.parametrize("most", [1, 3, 30, 400])
def test_group_sums_match_their_definition(most, program):
    rng = np.random.default_rng(most)
    sizes = rng.integers(0, most + 1, 250 // most + 3)
    sizes[rng.integers(len(sizes))] = most
    for counts in (sizes, np.append([0, *sizes], 0), [600], [5, 0, 0]):
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        groups, n = len(counts), int(starts[-1])
        x, shares = make_points(rng, n, rng.choice([2, 40]), np.float64), rng.normal(size=n)
        spread = np.zeros((n, groups))
        spread[np.arange(n), np.repeat(np.arange(groups), counts)] = shares
        expected = spread.T @ definition(program, x, x) @ spread
        scale = np.abs(spread).sum(axis=0)
        for first, stop in {(0, groups), (groups // 3, groups // 2 + 1), (groups - 1, groups)}:
            both = []
            for threads in (1, 2):
                out = np.full((stop - first, groups - first), np.nan)
                _core.group_sums(
                    *encode(program), _core.PointsF64(x), starts, shares, first, stop, out, threads
                )
                both.append(out)
            assert (both[0] == both[1]).all()
            size = 10 * np.outer(scale[first:stop], scale[first:]) + 1e-300
            assert_near(out, expected[first:stop, first:], size, np.float64)


def test_gram_large_dimension():
    rng = np.random.default_rng(1)
    for d in (127, 128, 129, 300):
        x = make_points(rng, 45, d, np.float64)
        for program in ([("polynomial", 0.5, 1.0, 3)], [("laplacian", 0.1)], [("delta",)], MIXED):
            expected = definition(program, x, x)
            assert_near(core_gram(program, x, x), expected, 5.0, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [3, 40])
def test_symmetric_diagonal_is_exact(dtype, d):
    rng = np.random.default_rng(2)
    x = (100 + 50 * rng.standard_normal((97, d))).astype(dtype)
    for program in ([("rbf", 2.0)], [("matern", 0.1, 0.5)], [("matern", 0.1, 2.5)], SUM[:1]):
        out = core_gram(program, x, x, symmetric=True)
        assert (np.diag(out) == 1).all()
        assert (out == out.T).all()


def test_matern_of_coincident_points_in_high_dimension():
    # |x|^2 + |z|^2 - 2 x.z would leave sqrt(eps) here.
    x = (np.random.default_rng(3).standard_normal((20, 50)) + 10).astype(np.float32)
    assert (np.diag(core_gram([("matern", 1.0, 0.5)], x, x)) == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_cosine_of_zero_is_zero(dtype):
    x = np.zeros((3, 4), dtype)
    x[1] = 2
    assert_near(core_gram([("cosine",)], x, x), np.diag([0.0, 1.0, 0.0]), 1, dtype)


def test_offset_and_source_dtype():
    rng = np.random.default_rng(4)
    wide = 1e6 + rng.standard_normal((50, 3))
    offset = wide.mean(axis=0)
    out = np.empty((50, 50), np.float32)
    points = _core.PointsF32(wide, offset)
    _core.gram(*encode([("rbf", 1.0)]), points, points, out, 1)
    expected = np.exp(-((wide[:, None] - wide[None]) ** 2).sum(axis=2))
    assert np.abs(out - expected).max() < 1e-6
    narrow = wide.astype(np.float32)
    points = _core.PointsF64(narrow, None)
    out64 = np.empty((50, 50))
    _core.gram(*encode([("linear",)]), points, points, out64, 1)
    assert np.abs(out64 / (narrow.astype(float) @ narrow.astype(float).T) - 1).max() < 1e-14


def test_points_attributes():
    points = _core.PointsF32(np.ones((70, 5)), None, 2)
    assert (points.n, points.d) == (70, 5)
    assert points.nbytes >= 70 * 5 * 4


# --- products ------------------------------------------------------------------------------------


def all_products(program, x, z, v, w, tile, threads):
    """Check every product of K(x, z) with v and of K(x, x) with w."""
    points = POINTS[x.dtype.type]
    codes, params = encode(program)
    px, pz = points(x), points(z)
    n, k = len(x), v.shape[1]
    dense = core_gram(program, x, z, threads)
    packed_tile = -(-tile // _core.TILE_UNIT) * _core.TILE_UNIT
    blocks = -(-n // packed_tile)
    tiles = np.full((blocks * (blocks + 1) // 2, packed_tile, packed_tile), np.nan, x.dtype)
    again = tiles.copy()
    out = {name: np.full((n, k), np.nan) for name in ("mat", "dense", "sym", "pack", "packed")}
    forms = np.full(k, np.nan)
    _core.matmul(codes, params, px, pz, v, out["mat"], threads, tile=tile)
    _core.dense_matmul(dense, v, out["dense"], threads, tile=tile)
    _core.symmetric_matmul(codes, params, px, w, out["sym"], threads, tile=tile)
    _core.pack_matmul(codes, params, px, tiles, w, out["pack"], threads)
    _core.pack(codes, params, px, again, threads)
    assert (tiles == again).all()
    _core.packed_matmul(tiles, n, w, out["packed"], threads)
    assert (out["pack"] == out["packed"]).all()
    _core.quadratic_forms(codes, params, px, w, forms, threads, tile=tile)
    return out | {"forms": forms, "tiles": tiles}


def check_products(program, n, m, d, k, tile, dtype, rng):
    x = make_points(rng, n, d, dtype)
    z = make_points(rng, m, d, dtype, like=x)
    v = rng.standard_normal((m, k)).astype(dtype)
    w = rng.standard_normal((n, k)).astype(dtype)
    result = all_products(program, x, z, v, w, tile, 1)
    for threads in (2, 5):
        other = all_products(program, x, z, v, w, tile, threads)
        for name, value in result.items():
            assert (value == other[name]).all(), (name, threads)
    kernel, square = definition(program, x, z), definition(program, x, x)
    # Kernels with a distance from the norms carry its rounding, relative to 1, in every entry.
    size = np.abs(kernel).max() * np.abs(v).sum(axis=0)
    square_size = np.abs(square).max() * np.abs(w).sum(axis=0)
    for name in ("mat", "dense"):
        assert_near(result[name], kernel @ v, size, dtype)
    for name in ("sym", "pack", "packed"):
        assert_near(result[name], square @ w, square_size, dtype)
    forms = np.einsum("ik,ik->k", w.astype(float), square @ w)
    assert_near(result["forms"], forms, square_size * np.abs(w).sum(axis=0), dtype)
    tiles = unpack_lower(result["tiles"], n)
    assert (tiles[n:] == 0).all()
    assert (tiles[:, n:] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 3, 4, 5, 16, 17, 30, 65])
def test_products_match_definition(dtype, k):
    rng = np.random.default_rng(k)
    for n, m, d, tile in ((1, 2, 3, 256), (31, 257, 8, 32), (257, 31, 33, 64), (520, 257, 7, 256)):
        check_products([("rbf", 0.5)], n, m, d, k, tile, dtype, rng)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", PROGRAMS, ids=program_name)
def test_products_of_every_kernel(program, dtype):
    rng = np.random.default_rng(5)
    check_products(program, 100, 65, 6, 3, 32, dtype, rng)
    check_products(program, 70, 33, 40, 9, 64, dtype, rng)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 150),
    m=st.integers(1, 150),
    d=st.integers(1, 50),
    k=st.integers(1, 40),
    tile=st.integers(1, 300),
    triangle=st.integers(0, len(PROGRAMS) - 1),
    double=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_products_of_any_shape(n, m, d, k, tile, triangle, double, seed):
    dtype = np.float64 if double else np.float32
    check_products(PROGRAMS[triangle], n, m, d, k, tile, dtype, np.random.default_rng(seed))


def test_float32_products_sum_in_float64_across_tiles():
    n = 20_000
    x = np.zeros((n, 1), np.float32)
    v = np.full((n, 1), 1 / 3, np.float32)
    out = np.empty((n, 1))
    _core.symmetric_matmul(*encode([("constant", 1.0)]), _core.PointsF32(x), v, out, 2)
    assert np.abs(out / (n * float(v[0, 0])) - 1).max() < 1e-6


def test_products_into_a_memmap(tmp_path):
    rng = np.random.default_rng(6)
    x = make_points(rng, 100, 4, np.float32)
    tiles = np.memmap(tmp_path / "tiles", np.float32, "w+", shape=(10, 32, 32))
    _core.pack(*encode([("rbf", 1.0)]), _core.PointsF32(x), tiles, 2)
    expected = pack_dense(definition([("rbf", 1.0)], x, x), 32, np.float64)
    assert np.abs(tiles - expected).max() < 1e-6


# --- Cholesky ------------------------------------------------------------------------------------


def positive_definite(rng, n, shift):
    a = rng.standard_normal((n, n + 3))
    return a @ a.T / n + shift * np.eye(n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tile", [32, 64, 256])
@pytest.mark.parametrize("n", [1, 31, 64, 257, 520])
def test_cholesky_and_solves(n, tile, dtype):
    rng = np.random.default_rng(n)
    matrix = positive_definite(rng, n, 0.5).astype(dtype)
    tiles = pack_dense(matrix, tile, dtype)
    diagonal = rng.uniform(0.1, 1.0, n)
    _core.packed_add_diagonal(tiles, n, diagonal)
    matrix = matrix.astype(float) + np.diag(diagonal)
    other = tiles.copy()
    assert _core.packed_cholesky(tiles, n, 1) == -1
    assert _core.packed_cholesky(other, n, 3) == -1
    assert (tiles == other).all()
    lower = unpack_lower(tiles, n)
    assert (lower[n:] == 0).all()
    assert (np.triu(lower, 1) == 0).all()
    lower = lower[:n, :n].astype(float)
    exact = np.linalg.cholesky(matrix)
    assert_near(lower, exact, np.abs(exact).max(), dtype)
    for k in (1, 3, 17, 70):
        b = rng.standard_normal((n, k)).astype(dtype)
        forward, full, threaded = b.copy(), b.copy(), b.copy()
        _core.packed_solve_lower(tiles, n, forward, 2)
        _core.packed_solve(tiles, n, full, 1)
        _core.packed_solve(tiles, n, threaded, 3)
        assert (full == threaded).all()
        expected = solve_triangular(exact, b.astype(float), lower=True)
        assert_near(forward, expected, np.abs(expected).max(), dtype, 10)
        expected = cho_solve((exact, True), b.astype(float))
        assert_near(full, expected, np.abs(expected).max(), dtype, 10)


def test_nearly_singular_matrix_keeps_a_small_residual():
    n = 400
    rng = np.random.default_rng(7)
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    matrix = (q * np.logspace(0, -13, n)) @ q.T
    matrix = (matrix + matrix.T) / 2
    tiles = pack_dense(matrix, 256, np.float64)
    assert _core.packed_cholesky(tiles, n, 2) == -1
    lower = unpack_lower(tiles, n)[:n, :n]
    assert np.abs(lower @ lower.T - matrix).max() < 1e-15 * 20
    b = matrix @ rng.standard_normal((n, 2))
    x = b.copy()
    _core.packed_solve(tiles, n, x, 2)
    # Backward stable: the residual is small however badly x itself is determined.
    assert np.abs(matrix @ x - b).max() < 1e-13 * np.abs(x).max()


@pytest.mark.parametrize("bad", [0, 5, 63, 64, 200, 299])
def test_first_pivot_that_is_not_positive_is_named(bad):
    n = 300
    rng = np.random.default_rng(8)
    matrix = positive_definite(rng, n, 0.5)
    lower = np.linalg.cholesky(matrix)
    # The pivot of row `bad` becomes -1, all earlier ones stay.
    matrix[bad, bad] -= lower[bad, bad] ** 2 + 1
    for threads in (1, 3):
        tiles = pack_dense(matrix, 64, np.float64)
        assert _core.packed_cholesky(tiles, n, threads) == bad


def test_nan_in_the_matrix_is_a_bad_pivot():
    matrix = np.eye(40)
    matrix[33, 33] = np.nan
    assert _core.packed_cholesky(pack_dense(matrix, 32, np.float64), 40, 2) == 33


# --- exp -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "low", "high", "bound"),
    [(np.float32, -87.3, 88.3, 1e-7), (np.float64, -708.3, 709.4, 3e-16)],
)
def test_exp_over_the_full_range(dtype, low, high, bound):
    for x in (np.linspace(low, high, 1_000_001), np.linspace(-1, 1, 500_003), -np.logspace(-30, 1)):
        x = x.astype(dtype)
        exact = np.exp(x.astype(np.longdouble))
        assert np.abs(_core.exp(x) / exact - 1).max() <= bound


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_at_the_edges(dtype):
    x = np.array([0.0, -0.0, -1e3, -1e30, -np.inf, 1e3, np.inf, np.nan], dtype)
    expected = np.array([1, 1, 0, 0, 0, np.inf, np.inf, np.nan], dtype)
    assert np.array_equal(_core.exp(x), expected, equal_nan=True)


# --- interface -----------------------------------------------------------------------------------


def test_interface_values():
    assert _core.isa() in _core.available_isas()
    assert _core.available_isas()[0] == "baseline"
    assert isinstance(_core.NDEBUG, bool)
    assert set(_core.OPS) == {leaf[0] for leaf in LEAVES} | {"add", "mul"}


def wrong_calls():
    codes, params = encode([("rbf", 1.0)])
    x = _core.PointsF32(np.ones((4, 2)))
    other = _core.PointsF32(np.ones((4, 3)))
    v = np.ones((4, 2), np.float32)
    out = np.ones((4, 2))
    tiles = np.zeros((1, 32, 32), np.float32)
    locked = np.ones((4, 2))
    locked.flags.writeable = False
    sym = _core.symmetric_matmul

    def grouped(starts, first, stop):
        sums = np.ones((stop - first, len(starts) - 1 - first))
        points, at = _core.PointsF64(np.ones((4, 2))), np.array(starts, np.int64)
        _core.group_sums(codes, params, points, at, np.ones(4), first, stop, sums, 1)

    return {
        "dtype of v": lambda: sym(codes, params, x, v.astype(float), out, 1),
        "shape of v": lambda: sym(codes, params, x, v[:3], out, 1),
        "dimensions of v": lambda: sym(codes, params, x, v[:, 0].copy(), out, 1),
        "layout of v": lambda: sym(codes, params, x, np.asfortranarray(v), out, 1),
        "shape of out": lambda: sym(codes, params, x, v, out[:, :1].copy(), 1),
        "dtype of out": lambda: sym(codes, params, x, v, v.copy(), 1),
        "locked out": lambda: sym(codes, params, x, v, locked, 1),
        "threads": lambda: sym(codes, params, x, v, out, 0),
        "tile": lambda: sym(codes, params, x, v, out, 1, tile=0),
        "params": lambda: sym(codes, params[:, :3].copy(), x, v, out, 1),
        "codes": lambda: sym(codes.astype(np.int64), params, x, v, out, 1),
        "unknown code": lambda: sym(np.array([99], np.int32), params, x, v, out, 1),
        "empty program": lambda: sym(codes[:0], params[:0], x, v, out, 1),
        "two kernels": lambda: sym(*encode([("linear",), ("linear",)]), x, v, out, 1),
        "nothing to add": lambda: sym(*encode([("linear",), ("add",)]), x, v, out, 1),
        "nu": lambda: sym(*encode([("matern", 1.0, 1.0)]), x, v, out, 1),
        "columns": lambda: _core.matmul(codes, params, x, other, v, out, 1),
        "symmetric": lambda: _core.gram(
            codes,
            params,
            x,
            _core.PointsF32(np.ones((3, 2))),
            np.ones((4, 3), np.float32),
            1,
            symmetric=True,
        ),
        "tile of tiles": lambda: _core.pack(codes, params, x, np.zeros((1, 8, 8), np.float32), 1),
        "count of tiles": lambda: _core.packed_matmul(tiles, 40, np.ones((40, 1), "f4"), out, 1),
        "dtype of tiles": lambda: _core.packed_cholesky(tiles.astype(int), 4, 1),
        "n of tiles": lambda: _core.packed_cholesky(tiles, 0, 1),
        "diagonal": lambda: _core.packed_add_diagonal(tiles, 4, np.ones(3)),
        "dtype of b": lambda: _core.packed_solve(tiles, 4, np.ones((4, 1)), 1),
        "shape of a": lambda: _core.dense_matmul(np.ones((4, 3)), np.ones((4, 2)), out, 1),
        "empty data": lambda: _core.PointsF64(np.ones((0, 2))),
        "flat data": lambda: _core.PointsF64(np.ones(3)),
        "offset": lambda: _core.PointsF64(np.ones((3, 2)), np.ones(3)),
        "exp": lambda: _core.exp(np.ones((2, 2))),
        "starts": lambda: grouped([0, 3, 2, 4], 0, 3),
        "end of starts": lambda: grouped([0, 3, 5], 0, 2),
        "first group": lambda: grouped([0, 2, 4], -1, 1),
        "last group": lambda: grouped([0, 2, 4], 0, 3),
        "no groups": lambda: grouped([0, 2, 4], 1, 1),
    }


@pytest.mark.parametrize("name", wrong_calls())
def test_wrong_calls_raise_value_error(name):
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        wrong_calls()[name]()


def test_points_of_the_wrong_type_raise_type_error():
    codes, params = encode([("rbf", 1.0)])
    x, z = _core.PointsF32(np.ones((4, 2))), _core.PointsF64(np.ones((4, 2)))
    with pytest.raises(TypeError):
        _core.gram(codes, params, x, z, np.ones((4, 4)), 1)


# --- processes -----------------------------------------------------------------------------------


# The extension alone: the package around it takes longer to load.
LOAD_CORE = f"""
import importlib.util
spec = importlib.util.spec_from_file_location({_core.__name__!r}, {_core.__file__!r})
_core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_core)
"""


@pytest.mark.slow
def test_interrupt_stops_a_long_product():
    code = """
        import numpy as np
        x = _core.PointsF32(np.ones((270_000, 40), np.float32))
        codes, params = np.array([_core.OPS["linear"]], np.int32), np.zeros((1, 4))
        v, out = np.ones((270_000, 8), np.float32), np.empty((270_000, 8))
        print("started", flush=True)
        try:
            while True:
                _core.symmetric_matmul(codes, params, x, v, out, 2)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", LOAD_CORE + textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "started\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = time.perf_counter()
        assert process.stdout.readline() == "interrupted\n"
        assert time.perf_counter() - sent < 1
        assert process.wait(10) == 0


@pytest.mark.slow
def test_products_after_a_fork():
    code = """
        import os
        import numpy as np
        x = _core.PointsF32(np.ones((3000, 4)))
        codes, params = np.array([_core.OPS["linear"]], np.int32), np.zeros((1, 4))
        v, out = np.ones((3000, 8), np.float32), np.empty((3000, 8))
        def run():
            _core.symmetric_matmul(codes, params, x, v, out, 2)
            assert (out == 12_000).all()
        run()
        pid = os.fork()
        run()
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
    """
    script = LOAD_CORE + textwrap.dedent(code)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def run_with_isa(isa, arguments):
    # Of pytest's plugins none is needed; that of Zarr alone takes more than a second to load.
    environment = dict(os.environ, FASTMCMD_ISA=isa, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_every_other_instruction_set():
    # Run the numerical tests of this file again under each.
    for isa in _core.available_isas():
        if isa == _core.isa() or "FASTMCMD_ISA" in os.environ:
            continue
        names = "definition or kernel or shape or diagonal or solves or exp or pivot"
        process = run_with_isa(isa, ["-m", "pytest", "-q", "-x", __file__, "-k", names])
        assert process.returncode == 0, process.stdout


@pytest.mark.slow
def test_the_environment_chooses_the_instruction_set():
    show = ["-c", LOAD_CORE + "print(_core.isa())"]
    for isa in _core.available_isas():
        assert run_with_isa(isa, show).stdout.strip() == isa
    assert "must be one of 'baseline'" in run_with_isa("mmx", show).stderr


def test_no_columns_are_refused():
    """Products with no right-hand side once wrote beyond their buffers."""
    points = _core.PointsF32(np.ones((5, 2), dtype=np.float32), None)
    program = np.array([_core.OPS["rbf"]], dtype=np.int32), np.array([[1.0, 0, 0, 0]])
    tiles = np.zeros((1, 32, 32), dtype=np.float32)
    none, out = np.ones((5, 0), dtype=np.float32), np.ones((5, 0))
    for call in (
        lambda: _core.matmul(*program, points, points, none, out, threads=1),
        lambda: _core.symmetric_matmul(*program, points, none, out, threads=1),
        lambda: _core.quadratic_forms(*program, points, none, np.ones(0), threads=1),
        lambda: _core.pack_matmul(*program, points, tiles, none, out, threads=1),
        lambda: _core.packed_matmul(tiles, 5, none, out, threads=1),
        lambda: _core.packed_solve(tiles, 5, none, threads=1),
    ):
        with pytest.raises(ValueError, match="at least one column"):
            call()


@pytest.mark.parametrize(("n", "k", "j"), [(1, 1, 1), (127, 3, 9), (1025, 17, 8), (3000, 40, 1)])
@pytest.mark.parametrize("threads", [1, 3])
def test_tall_blocks(rng, n, k, j, threads):
    """Columns of wider arrays are updated; the other columns stay unchanged."""
    wide, base, small = (
        rng.normal(size=(n, k + 4)),
        rng.normal(size=(n, j)),
        rng.normal(size=(k, j)),
    )
    a, scale = wide[:, 1 : 1 + k], rng.normal(size=n)
    actual = np.empty((k, j))
    _core.tall_skinny_inner(a, base, actual, threads)
    np.testing.assert_allclose(actual, a.T @ base, atol=1e-13 * n)
    _core.tall_skinny_inner(a, base, actual, threads, scale=scale)
    np.testing.assert_allclose(actual, (scale[:, None] * a).T @ base, atol=1e-13 * n)
    out = np.zeros((n, j + 2))
    _core.tall_skinny_times(a, small, out[:, 1:-1], threads, base=base, sign=-1.0)
    np.testing.assert_allclose(out[:, 1:-1], base - a @ small, atol=1e-12)
    assert not out[:, [0, -1]].any()
    before = wide.copy()
    _core.tall_skinny_scale(scale, a, a, threads, base=a)
    np.testing.assert_array_equal(
        wide[:, [0, *range(k + 1, k + 4)]], before[:, [0, *range(k + 1, k + 4)]]
    )
    np.testing.assert_allclose(a, (1 + scale[:, None]) * before[:, 1 : 1 + k], atol=1e-14)


def test_tall_blocks_that_do_not_fit_are_refused():
    a, out = np.ones((6, 3)), np.empty((3, 3))
    with pytest.raises(ValueError, match="b has the wrong shape"):
        _core.tall_skinny_inner(a, np.ones((5, 3)), out, 1)
    with pytest.raises(ValueError, match="a has the wrong dtype"):
        _core.tall_skinny_inner(a.astype(np.float32), a, out, 1)
    with pytest.raises(ValueError, match="a must have contiguous rows"):
        _core.tall_skinny_inner(np.ones((3, 6)).T, a, out, 1)
    with pytest.raises(ValueError, match="small has the wrong shape"):
        _core.tall_skinny_times(a, np.ones((4, 3)), np.empty((6, 3)), 1)
    with pytest.raises(ValueError, match="only where it is as wide"):
        _core.tall_skinny_times(a, np.ones((3, 2)), a[:, :2], 1)
    with pytest.raises(ValueError, match="scale has the wrong shape"):
        _core.tall_skinny_scale(np.ones(5), a, np.empty((6, 3)), 1)
    frozen = np.empty((6, 3))
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out must be writeable"):
        _core.tall_skinny_scale(np.ones(6), a, frozen, 1)


def test_memory_of_a_deleted_row_array_serves_the_next_of_its_size():
    array = _core.row_array(20_000)
    array[:] = 1.0
    view = array[10:20]
    del array
    other = _core.row_array(20_000)
    other[:] = 2.0
    assert not np.shares_memory(view, other)
    assert (view == 1.0).all()  # a view holds the memory
    place = other.ctypes.data
    del other
    larger = _core.row_array(20_001)
    assert larger.ctypes.data != place
    again = _core.row_array(20_000)
    assert again.ctypes.data == place
    assert again.flags.writeable
    assert again.dtype == np.float64
    assert place % 64 == 0


@pytest.mark.parametrize("n", [0, 1, 16_383, 16_384, 524_288, 524_289])
def test_row_arrays_of_any_size(n):
    arrays = [_core.row_array(n) for _ in range(4)]
    for value, array in enumerate(arrays):
        assert array.shape == (n,)
        array[:] = value
    for value, array in enumerate(arrays):
        assert (array == value).all()


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="it keeps freed memory")
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="where memory is read from")
def test_memory_that_waits_for_rows_is_bounded():
    code = """
    import resource
    from fastmcmd import _core

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    before = resident()
    arrays = [_core.row_array(500_000) for _ in range(40)]  # 160 MB
    for array in arrays:
        array[:] = 1.0
    assert resident() - before > 150e6
    del array, arrays
    print(resident() - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) < 20e6
