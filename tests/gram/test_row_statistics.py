"""Passes over all rows: their statistics, and that a call makes each pass once."""

import functools
from fractions import Fraction

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.backends.cpu import core
from fastmcmd.gram import (
    GramOperator,
    diagonal_of,
    offset_of,
    row_statistics,
    shared_row_statistics,
)
from fastmcmd.gram.row_statistics import exact_offset_of, is_exact, largest_norm2, squared_norms
from fastmcmd.rows import open_rows

KERNELS = [
    fm.Polynomial(3, 0.2, 1.0),
    fm.Linear() + fm.RBF(0.5),
    fm.Cosine() * fm.Delta(),
    fm.RBF(0.5),
    2.0 * fm.Matern(1.5, 1.0),
    fm.CustomKernel(lambda x, z: 1.0 + float(x @ z)),
]


@pytest.fixture(params=["memory", "disk"])
def make(request, tmp_path, monkeypatch):
    """Return a function that puts rows in memory or on disk, in many pieces and blocks."""
    monkeypatch.setattr(row_statistics, "_PIECE", 1000)
    monkeypatch.setattr("fastmcmd.rows.table._BLOCK_BYTES", 30_000)

    def rows(x):
        if request.param == "memory":
            return x
        np.save(tmp_path / "x.npy", x)
        return open_rows(tmp_path / "x.npy", "x")

    return rows


@pytest.fixture
def reads(monkeypatch):
    """Record the passes: over blocks of rows, or for norms over all rows in memory at once."""
    passes, blocks, norms = [], row_statistics._blocks, row_statistics.squares_and_largest
    monkeypatch.setattr(row_statistics, "_blocks", lambda x: passes.append(x) or blocks(x))
    monkeypatch.setattr(
        row_statistics,
        "squares_and_largest",
        lambda x, offset: passes.append(x) or norms(x, offset),
    )
    return passes


def plain(kernel, x):
    """Return the diagonal of the kernel matrix, row by row."""
    exact = x.astype(np.float64)
    return np.array([kernel(row[None])[0, 0] for row in exact])


@functools.cache
def rows_and_diagonal(place, dtype, n, d):
    """Return rows, one of them 0, and the diagonal of one of the kernels' matrices, row by row."""
    x = np.random.default_rng(0).normal(3, 1, size=(n, d)).astype(dtype)
    x[n // 2] = 0.0
    return x, plain(KERNELS[place], x)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (700, 3), (900, 40)])
def test_against_plain_definitions(make, kernel, dtype, n, d):
    values, diagonal = rows_and_diagonal(KERNELS.index(kernel), dtype, n, d)
    x, exact = make(values), values.astype(np.float64)
    backend = get_backend("auto", kernel)
    # A user's function sees the rows unchanged, in float32 too.
    unit = 1e-13 if kernel.compiled else 3 * np.finfo(dtype).eps
    np.testing.assert_allclose(diagonal_of(kernel, x), diagonal, rtol=unit)
    offset = offset_of(kernel, backend, x)
    centred = kernel.translation_invariant and not backend.direct_distances(d)
    assert (offset is not None) is centred
    if centred:
        np.testing.assert_allclose(offset, exact.mean(axis=0), rtol=1e-12, atol=1e-12)
    centred_rows = exact - (exact.mean(axis=0) if centred else 0.0)
    expected = (centred_rows**2).sum(axis=1).max()
    assert largest_norm2(x, offset) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(squared_norms(x, offset), (centred_rows**2).sum(axis=1), rtol=1e-12)
    operator = GramOperator(backend, kernel, x, np.dtype(np.float32), 10**9)
    assert operator.max_norm2 == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(operator.diagonal, diagonal_of(kernel, x))


def test_the_same_bits_for_any_number_of_threads(make):
    x = make(np.random.default_rng(0).normal(size=(900, 40)).astype(np.float32))
    results, backend = [], get_backend("cpu", fm.RBF(1.0))
    try:
        for threads in (1, 3):
            fm.set_num_threads(threads)
            mean = offset_of(fm.RBF(1.0), backend, x)
            norms = squared_norms(x, mean)
            results.append((mean, diagonal_of(KERNELS[0], x), norms, largest_norm2(x, mean)))
    finally:
        fm.set_num_threads(None)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_call_makes_each_pass_once(make, reads):
    x = make(np.random.default_rng(0).normal(size=(500, 40)))
    for kernel, passes in ((fm.Polynomial(3, 0.2, 1.0), 1), (fm.RBF(0.5), 2)):
        backend = get_backend("cpu", kernel)
        reads.clear()
        with shared_row_statistics():
            scale = diagonal_of(kernel, x)
            operators = [
                GramOperator(backend, kernel, x, np.dtype(kind), 10**9)
                for kind in (np.float32, np.float64)
            ]
            assert operators[1].largest(x[:3]) == pytest.approx(scale.max(), rel=2)
        assert sum(some is x for some in reads) == passes
        assert operators[0].offset is operators[1].offset
        np.testing.assert_array_equal(operators[0].diagonal, scale)


def test_a_whole_call(reads):
    """Scale, float32, certificates, float64 and evaluation share one pass over the rows, two if centred."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 40))
    y = x[:, 0] + rng.normal(size=400)
    for kernel, passes in (("paper", 1), (fm.RBF(0.01), 2)):
        reads.clear()
        fm.cce(x, y, (x[:, 0], 1.0), x_kernel=kernel, solver="cg", tol=1e-9)
        assert len(reads) == passes


@pytest.mark.parametrize("kernel", ["paper", fm.RBF(0.01)], ids=repr)
def test_norms_are_computed_once_a_call(kernel, monkeypatch):
    """Sampled certificates draw rows by their norms, which they computed anew."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 40))
    y = x[:, 0] + rng.normal(size=1500)
    shapes, row_squares = [], core().row_squares

    def recording(rows, *args, **options):
        shapes.append(rows.shape)
        return row_squares(rows, *args, **options)

    monkeypatch.setattr(core(), "row_squares", recording)
    result = fm.cce(x, y, y[::-1], x_kernel=kernel, solver="cg", tol=1e-3, certificate="sampled")
    assert result.info.certificate == "sampled"
    assert shapes.count(x.shape) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_pass_finds_bad_values_and_norms(bad, monkeypatch):
    """The check of x and its squared norms took a pass each."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 40)).astype(np.float32), rng.normal(size=300)
    compared, passes, row_squares = [], [], core().row_squares
    monkeypatch.setattr(row_statistics, "all_finite", lambda rows: compared.append(rows) or True)
    monkeypatch.setattr(
        core(),
        "row_squares",
        lambda rows, *args, **more: passes.append(rows) or row_squares(rows, *args, **more),
    )
    fm.cce(x, y, y[::-1], x_kernel="paper", tol=1e-3)
    assert not compared
    assert [rows.shape for rows in passes].count(x.shape) == 1
    x[:] = np.finfo(np.float32).max  # the sums of squares do not overflow
    with shared_row_statistics():
        assert row_statistics.rows_are_finite(x)
    x[217, 39] = bad
    kind = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(ValueError, match=rf"x holds {kind} \(first in row 217; 1 such value in"):
        fm.cce(x, y, y[::-1], x_kernel="paper", tol=1e-3)


def test_float64_rows_whose_squares_overflow_are_finite():
    x = np.full((5, 40), 1e200)
    with shared_row_statistics():
        assert row_statistics.rows_are_finite(x)
        assert row_statistics.rows_are_finite(np.ones((40, 50), np.float32).T)


def test_no_statistics_remain_after_a_call(reads):
    """A caller may change rows between two calls, and other rows may reuse their memory."""
    kernel, x = KERNELS[0], np.ones((50, 3))
    with shared_row_statistics():
        first = diagonal_of(kernel, x)
        with pytest.raises(ValueError, match="read-only"):
            first[0] = 0.0
    x *= 2
    with shared_row_statistics():
        np.testing.assert_array_equal(diagonal_of(kernel, x), plain(kernel, x))
        np.testing.assert_array_equal(first, plain(kernel, x / 2))
        for scale in (1.0, 3.0, 5.0):
            other = np.full((50, 3), scale)  # often at the address of the previous array
            np.testing.assert_allclose(diagonal_of(kernel, other), plain(kernel, other))
            del other
    reads.clear()
    diagonal_of(kernel, x)
    diagonal_of(kernel, x)
    assert len(reads) == 2


def test_bad_rows_on_disk_are_an_error(tmp_path):
    x = np.ones((3000, 4))
    x[2000, 1] = np.inf
    np.save(tmp_path / "x.npy", x)
    rows = open_rows(tmp_path / "x.npy", "x")
    with pytest.raises(ValueError, match=r"holds infinity \(first in row 2000"):
        diagonal_of(KERNELS[0], rows)


def longdouble_gram(kernel, z, x):
    """Return K(z, x) by its definition, in extended precision."""
    difference = z.astype(np.longdouble)[:, None] - x.astype(np.longdouble)
    if isinstance(kernel, fm.Laplacian):
        return np.exp(-np.longdouble(kernel.gamma) * np.abs(difference).sum(axis=2))
    squares = (difference**2).sum(axis=2)
    if isinstance(kernel, fm.RBF):
        return np.exp(-np.longdouble(kernel.gamma) * squares)
    r = np.sqrt(3 * squares) / np.longdouble(kernel.length_scale)
    return (1 + r) * np.exp(-r)


CENTRED_KERNELS = [fm.RBF(0.5), fm.Laplacian(0.5), fm.Matern(1.5, 1.0)]
DISTANCES = [20.0, 1e3, 1e6, 1e9, 1e12]
RARE_ROWS = [None, 0.0, 0.1, -1e3, "twice"]


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("far", RARE_ROWS)
def test_rows_far_from_the_origin_have_honest_bounds(distance, kind, dim, far, rng):
    # One of three kernels for each of the others' combinations: any three of the five choices meet.
    turn = DISTANCES.index(distance) + RARE_ROWS.index(far) + (kind == np.float32) + (dim == 1)
    kernel = CENTRED_KERNELS[turn % 3]
    x = distance * np.array([1, -0.5, 0.25])[:dim] + rng.normal(size=(400, dim))
    if far is not None:  # rare rows elsewhere
        x[::200] = 2 * x[0] if far == "twice" else far + 0.01 * rng.normal(size=(2, dim))
    x = x.astype(kind)
    grids = [
        x,
        (x[:50] + rng.normal(size=(50, dim))).astype(kind),
        rng.normal(size=(50, dim)),  # whose digits an offset would round
    ]
    v = rng.normal(size=(len(x), 2))
    exact = [longdouble_gram(kernel, grid, x) @ v for grid in grids]
    for dtype in (np.float32, np.float64):
        operator = GramOperator(get_backend("cpu", kernel), kernel, x, np.dtype(dtype), 10**8)
        for grid, expected in zip(grids, exact, strict=True):
            bound = operator.rounding(dtype, None if grid is x else grid)
            summing = np.finfo(np.float32).eps * 4 if dtype == np.float32 else 1e-13
            product = (
                operator.matmul(v) if grid is x else operator.cross_matmul(grid, v, np.dtype(dtype))
            )
            error = np.abs(product - expected).max(axis=0)
            assert (error <= (bound + summing) * np.abs(v).sum(axis=0)).all()


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9, 1e12])
def test_rows_far_from_the_origin_lose_no_digits_in_float32(distance, rng):
    kernel, x = fm.RBF(0.5), distance + rng.normal(size=(400, 2))
    operator = GramOperator(get_backend("cpu", kernel), kernel, x, np.dtype(np.float32), 10**8)
    v = rng.normal(size=(400, 1))
    np.testing.assert_allclose(
        operator.matmul(v), longdouble_gram(kernel, x, x).astype(float) @ v, atol=1e-4
    )
    assert operator.rounding(np.float32) < 2e-6


def test_only_rows_far_from_the_origin_without_rounding_are_centred(rng):
    kernel, x = fm.RBF(0.5), rng.normal(size=(3000, 2))
    backend = get_backend("cpu", kernel)
    assert exact_offset_of(kernel, backend, x) is None
    assert exact_offset_of(kernel, backend, x + 10) is None
    assert exact_offset_of(kernel, backend, np.full((100, 2), 1e6)) is None
    assert exact_offset_of(fm.Linear(), backend, x + 1e6) is None
    assert exact_offset_of(fm.Delta(), backend, x + 1e6) is None
    many_columns = rng.normal(size=(3000, 100)) + 1e6
    assert exact_offset_of(kernel, backend, many_columns) is None
    offset = exact_offset_of(kernel, backend, x + 1e6)
    np.testing.assert_allclose(offset, [1e6, 1e6], atol=1)
    np.testing.assert_array_equal((x + 1e6 - offset) + offset, x + 1e6)
    near = x + 1e6
    near[7] = [1e6, 0.1]
    assert exact_offset_of(kernel, backend, near[:1000] * 1.0) is None
    huge = np.full((100, 2), 1.7e308)
    huge[0] = 1e308
    assert exact_offset_of(kernel, backend, huge) is None


def test_exact_differences_and_rounded_ones_differ(rng):
    for scale in (1e-3, 1.0, 1e3, 1e9):
        x = rng.normal(size=(300, 1)) * scale + rng.choice([0.0, 1e3, 1e6], size=(300, 1))
        for offset in (np.array([1e3]), np.array([0.1]), np.array([1e6 + 0.5])):
            for row in x:
                exact = Fraction(row[0]) - Fraction(offset[0]) == Fraction(row[0] - offset[0])
                assert is_exact(row[None], offset) == exact
