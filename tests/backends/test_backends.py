"""Backends: each operation of each backend agrees with its definition; the registry."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings

import numba
import numpy as np
import pytest
from host_device import HostDevice
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd import backends
from fastmcmd.backends import available_backends, get_backend
from fastmcmd.backends.base import NotPositiveDefiniteError, PackedGram, packed_shape
from fastmcmd.backends.cpu import CpuBackend
from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.backends.numba import NumbaBackend, _rounds
from fastmcmd.backends.numpy import NumpyBackend
from fastmcmd.device.packed import DeviceTiles


def stand_in(**options):
    """Return the device backend, run on the CPU."""
    return CupyBackend(devices=(HostDevice(),), **options)


def gpu(**options):
    from fastmcmd.device.cuda import cuda_device

    return CupyBackend(devices=(cuda_device(0, None),), **options)


BACKENDS = {
    "cpu": CpuBackend,
    "numba": NumbaBackend,
    "numpy": NumpyBackend,
    "stand-in": stand_in,
    "cupy": gpu,
}
NAMES = [pytest.param(name, marks=[pytest.mark.gpu] * (name == "cupy")) for name in BACKENDS]
UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def overlap(a, b):
    total = 0.0
    for k in range(len(a)):
        total += min(abs(a[k]), abs(b[k]))
    return total


KERNELS = [
    fm.RBF(0.3),
    fm.Laplacian(0.2),
    fm.Polynomial(3, 0.2, 1.0),
    fm.Polynomial(11, 0.05, 1.0),
    fm.Matern(0.5, 1.5),
    fm.Matern(1.5, 1.5),
    fm.Matern(2.5, 1.5),
    fm.Linear(),
    fm.Cosine(),
    fm.Delta(),
    2.0 * fm.RBF(0.3) + fm.Polynomial(2, 0.1, 1.0) * fm.Matern(1.5, 1.0) + 0.5,
]
CUSTOM = [
    fm.CustomKernel(overlap),
    fm.CustomKernel(overlap) * fm.RBF(0.1) + fm.Laplacian(0.2) + 1.0,
]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture(params=UNITS, ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


@pytest.fixture
def threads():
    yield fm.set_num_threads
    fm.set_num_threads(None)


def close(actual, expected, dtype, size, n=1):
    """Check agreement to 40 units in the last place of the terms, plus one for each of n terms."""
    assert np.abs(actual - expected).max() <= (40 + n) * UNITS[dtype] * size


def unpack(packed):
    """Return the lower triangle that packed tiles hold as a full symmetric matrix."""
    if isinstance(packed.tiles, DeviceTiles):
        full = np.tril(packed.tiles.to_host().astype(np.float64))
        return full + np.tril(full, -1).T
    tile = packed.tiles.shape[1]
    blocks = -(-packed.n // tile)
    full = np.zeros((blocks * tile, blocks * tile))
    for i in range(blocks):
        for j in range(i + 1):
            part = packed.tiles[i * (i + 1) // 2 + j]
            rows, columns = slice(i * tile, (i + 1) * tile), slice(j * tile, (j + 1) * tile)
            full[columns, rows] = part.T
            full[rows, columns] = part
    return full


def packed_of(backend, matrix, dtype):
    n, tile = len(matrix), backend.tile
    if isinstance(backend, CupyBackend):
        tiles = DeviceTiles(n, tile, dtype)
        for i in range(tiles.blocks):
            for j in range(i + 1):
                tiles.bring(backend.devices[0], i, j, matrix[tiles.rows(i), tiles.rows(j)])
        return PackedGram(tiles, n)
    blocks = -(-n // tile)
    full = np.zeros((blocks * tile, blocks * tile), dtype=dtype)
    full[:n, :n] = matrix
    tiles = np.empty(packed_shape(n, tile), dtype=dtype)
    for i in range(blocks):
        for j in range(i + 1):
            tiles[i * (i + 1) // 2 + j] = full[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile]
    return PackedGram(tiles, n)


def check_operations(backend, kernel, n, m, d, k, dtype, seed=0):
    """Compare every operation on one problem with a dense float64 matrix of the same rows."""
    rng = np.random.default_rng(seed)
    a = (rng.normal(size=(n, d)) / np.sqrt(d)).astype(dtype)
    b = (rng.normal(size=(m, d)) / np.sqrt(d)).astype(dtype)
    b[: m // 3] = a[rng.integers(0, n, size=m // 3)]
    v, w = rng.normal(size=(m, k)), rng.normal(size=(n, k))
    originals = v.copy(), w.copy(), a.copy()
    square, cross = kernel(a.astype(np.float64)), kernel(a.astype(np.float64), b.astype(np.float64))
    most = float(max(np.abs(square).max(), np.abs(cross).max()))
    norm2 = float(max((a.astype(float) ** 2).sum(1).max(), (b.astype(float) ** 2).sum(1).max()))
    unit = UNITS[dtype]
    entry = kernel.rounding(unit, d, norm2, backend.direct_distances(d), most) + 2 * unit * most

    def product_error(v):
        return (entry + (backend.tile + 8) * unit * most) * np.abs(v).sum(axis=0).max(initial=0)

    x, z = backend.points(a, dtype), backend.points(b, dtype)
    assert (x.n, x.d, x.dtype) == (n, d, np.dtype(dtype))
    assert x.nbytes >= a.nbytes or isinstance(backend, CupyBackend)  # shared with the caller

    assert np.abs(backend.gram(kernel, x) - square).max() <= entry
    gram = backend.gram(kernel, x, z)
    assert gram.shape == (n, m)
    assert gram.dtype == dtype
    assert np.abs(gram - cross).max() <= entry
    target = np.full((n, m), np.nan, dtype=dtype)
    backend.write_gram(kernel, x, z, target)
    np.testing.assert_array_equal(target, gram)

    out = backend.matmul(kernel, x, z, v)
    assert out.shape == (n, k)
    assert out.dtype == np.float64
    assert np.abs(out - cross @ v).max(initial=0) <= product_error(v)
    out = backend.symmetric_matmul(kernel, x, w)
    assert out.dtype == np.float64
    assert np.abs(out - square @ w).max(initial=0) <= product_error(w)

    forms = backend.quadratic_forms(kernel, x, w)
    assert forms.shape == (k,)
    bound = product_error(w) * np.abs(w).sum(axis=0).max(initial=0) * 2
    assert np.abs(forms - np.einsum("ik,ik->k", w, square @ w)).max(initial=0) <= bound

    packed = backend.pack(kernel, x)
    if isinstance(packed.tiles, np.ndarray):
        tile = backend.tile
        if isinstance(backend, CpuBackend):  # one tile is no larger than the matrix needs
            tile = min(tile, 32 * -(-n // 32))
        assert packed.tiles.shape == backend.packed_shape(n) == packed_shape(n, tile)
    assert packed.nbytes == packed.tiles.nbytes
    full = unpack(packed)
    assert np.abs(full[:n, :n] - square).max() <= entry
    assert not full[n:].any()
    assert not full[:, n:].any()
    out = backend.packed_matmul(packed, w)
    assert np.abs(out - square @ w).max(initial=0) <= product_error(w)
    again, out = backend.pack_matmul(kernel, x, w)
    np.testing.assert_array_equal(unpack(again), unpack(packed))
    assert np.abs(out - square @ w).max(initial=0) <= product_error(w)

    shift = rng.uniform(1, 2, size=n)
    backend.packed_add_diagonal(packed, shift)
    expected = full[:n, :n] + np.diag(shift)
    assert np.abs(unpack(packed)[:n, :n] - expected).max() <= 4 * unit * (most + 2)
    for before, now in zip(originals, (v, w, a), strict=True):
        np.testing.assert_array_equal(before, now)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_operations(name, dtype, kernel):
    check_operations(BACKENDS[name](tile=32), kernel, 75, 50, 3, 5, dtype)


@pytest.mark.parametrize("kernel", CUSTOM, ids=repr)
@pytest.mark.parametrize("name", ["numba", "numpy"])
def test_operations_with_a_function(name, dtype, kernel):
    check_operations(BACKENDS[name](tile=32), kernel, 75, 50, 3, 5, dtype)


@pytest.mark.slow
@given(
    n=st.integers(1, 140),
    m=st.integers(1, 70),
    d=st.sampled_from([1, 2, 5, 33, 64]),
    k=st.integers(0, 40),
    tile=st.sampled_from([32, 64, 96]),
    part=st.sampled_from([fm.RBF(0.3), KERNELS[-1]]),
    double=st.booleans(),
    seed=st.integers(0, 1000),
)
@pytest.mark.parametrize("name", NAMES)
def test_operations_of_any_shape(name, n, m, d, k, tile, part, double, seed):
    dtype = np.float64 if double else np.float32
    check_operations(BACKENDS[name](tile=tile), part, n, m, d, k, dtype, seed)


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 600])
def test_sizes_around_a_tile(name, dtype, n):
    check_operations(BACKENDS[name](), KERNELS[-1], n, 600 // n, 4, 3, dtype)


def test_tiles_of_the_core():
    backend = CpuBackend(tile=33)
    with pytest.raises(ValueError, match="tile size must be a multiple of 32"):
        backend.pack(fm.RBF(1.0), backend.points(np.ones((40, 2)), np.float64))


@pytest.mark.parametrize("tile", [1, 7, 50])
@pytest.mark.parametrize("name", ["numba", "numpy"])
def test_odd_tiles(name, tile):
    check_operations(BACKENDS[name](tile=tile), fm.RBF(0.3), 41, 23, 2, 3, np.float64)


def test_columns_of_numbers(name):
    """Use (n, 1) data, as outputs are, including whole numbers."""
    backend = BACKENDS[name]()
    y = np.array([[3], [1], [3], [0]])
    points = backend.points(y, np.float32)
    np.testing.assert_array_equal(backend.gram(fm.Delta(), points), y == y.T)
    np.testing.assert_allclose(
        backend.gram(fm.RBF(0.5), points), np.exp(-0.5 * (y - y.T) ** 2.0), rtol=1e-6
    )


def test_offset_is_subtracted_before_rounding(name, rng):
    """Far from the origin, float32 would lose the digits of the rows."""
    backend = BACKENDS[name]()
    x = 1e6 + rng.normal(size=(40, 3))
    original = x.copy()
    near = backend.points(x, np.float32, x.mean(axis=0))
    assert np.abs(backend.gram(fm.RBF(0.5), near) - fm.RBF(0.5)(x)).max() < 1e-5
    np.testing.assert_array_equal(x, original)


@pytest.mark.parametrize("d", [1, 31, 32, 33, 128])
@pytest.mark.parametrize("kernel", [fm.RBF(1.0), fm.Matern(0.5), fm.Matern(2.5), fm.Laplacian()])
def test_direct_distances_on_request(name, dtype, d, kernel, rng):
    """A backend that declares direct distances but expands squares breaks the bound far from the origin."""
    backend = BACKENDS[name]()
    x = 100 + rng.normal(size=(60, d)) / np.sqrt(d)
    kernel = kernel.resolve(x)
    norm2 = float((x**2).sum(1).max())
    bound = kernel.entry_error(UNITS[dtype], d, norm2, backend.direct_distances(d))
    z = x + 1e-3
    gram = backend.gram(kernel, backend.points(x, dtype), backend.points(z, dtype))
    assert np.abs(gram - kernel(x, z)).max() <= bound


@pytest.mark.parametrize("d", [1, 40])
@pytest.mark.parametrize("ratio", [4, 4 * (1 + 1e-15), 5])
def test_sums_of_exponentials(name, dtype, d, ratio):
    """The core takes fourth powers of values from 1 down to 0, if the ratio is 4 exactly."""
    backend = BACKENDS[name]()
    x = np.zeros((200, d))
    x[1:, 0] = np.geomspace(1e-9, 40.0, 199)
    narrow = fm.RBF(0.5) + fm.RBF(0.5 * ratio)
    for kernel in (narrow, narrow + fm.RBF(0.5 * ratio**2), narrow * fm.Constant(0.5)):
        bound = kernel.entry_error(UNITS[dtype], d, 1600.0, backend.direct_distances(d))
        points = backend.points(x, dtype)
        gram = np.asarray(backend.gram(kernel, points))
        assert np.abs(gram - kernel(x)).max() <= bound
        assert np.isfinite(gram).all()
        assert (gram >= 0).all()
        assert np.all(np.diag(gram) == dtype(kernel.diagonal(x)[0]))


# ------------------------------------------------------------------------------ factors, threads


@pytest.mark.parametrize("n", [1, 32, 33, 150])
def test_cholesky_and_solve(name, dtype, n, rng):
    backend = BACKENDS[name](tile=32)
    kernel = fm.RBF(0.5)
    x = rng.normal(size=(n, 2))
    packed = backend.pack(kernel, backend.points(x, dtype))
    backend.packed_add_diagonal(packed, np.full(n, 0.5))
    matrix = kernel(x) + 0.5 * np.eye(n)
    backend.packed_cholesky(packed)
    lower = np.tril(unpack(packed)[:n, :n])
    close(lower @ lower.T, matrix, dtype, 1.5, n)
    b = rng.normal(size=(n, 7))
    original = b.copy()
    solution = backend.packed_solve(packed, b)
    assert solution.dtype == np.float64
    close(matrix @ solution, b, dtype, 1.5 * np.abs(solution).sum(axis=0).max() + 4, n)
    np.testing.assert_array_equal(b, original)


def test_solve_for_no_columns(name, dtype):
    backend = BACKENDS[name](tile=32)
    factor = packed_of(backend, np.eye(40), dtype)
    assert backend.packed_solve(factor, np.ones((40, 0))).shape == (40, 0)


@pytest.mark.parametrize("bad", [0, 5, 31, 32, 70])
def test_a_bad_pivot_is_named(name, dtype, bad, rng):
    backend = BACKENDS[name](tile=32)
    a = rng.normal(size=(75, 75))
    matrix = a @ a.T + 75 * np.eye(75)
    matrix[bad, bad] = -1.0
    with pytest.raises(NotPositiveDefiniteError) as caught:
        backend.packed_cholesky(packed_of(backend, matrix, dtype))
    assert caught.value.index == bad


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        *((name, KERNELS[-1]) for name in ("cpu", "numba", "numpy", "stand-in")),
        *((name, CUSTOM[-1]) for name in ("numba", "numpy")),
    ],
    ids=["cpu", "numba", "numpy", "stand-in", "numba-custom", "numpy-custom"],
)
def test_threads_do_not_change_a_bit(name, dtype, kernel, rng, threads):
    backend = BACKENDS[name](tile=32)
    n = 131  # a block of rows for each of five threads, the last one not full
    rows, v = rng.normal(size=(n, 3)), rng.normal(size=(n, 6))
    results = []
    for count in (1, 2, 5):
        threads(count)
        x = backend.points(rows, dtype)
        packed, product = backend.pack_matmul(kernel, x, v)
        result = [
            backend.gram(kernel, x),
            backend.matmul(kernel, x, x, v),
            backend.symmetric_matmul(kernel, x, v),
            backend.quadratic_forms(kernel, x, v),
            unpack(packed),
            product,
            backend.packed_matmul(packed, v),
        ]
        backend.packed_add_diagonal(packed, np.full(n, 200.0))
        backend.packed_cholesky(packed)
        results.append([*result, backend.packed_solve(packed, v)])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_rounds_hold_every_pair_once_and_no_index_twice(count):
    rounds = list(_rounds(count))
    pairs = [pair for some in rounds for pair in some]
    assert sorted(pairs) == [(i, j) for i in range(count) for j in range(i + 1)]
    for some in rounds[1:]:
        assert len({index for pair in some for index in pair}) == 2 * len(some)


def test_numba_evaluates_each_pair_of_tiles_once(rng, monkeypatch):
    """A user's function takes most of the time."""
    pairs = []
    backend = NumbaBackend(tile=10)
    kernel = fm.CustomKernel(overlap)
    tile_function = backend.tile_of(kernel)

    def counting(self, kernel):
        return lambda x, z: pairs.append(len(x) * len(z)) or tile_function(x, z)

    monkeypatch.setattr(NumbaBackend, "tile_of", counting)
    x = backend.points(rng.normal(size=(35, 2)), np.float64)
    backend.symmetric_matmul(kernel, x, np.ones((35, 1)))
    assert sum(pairs) == 6 * 100 + 3 * 50 + 25


def test_number_of_threads(monkeypatch, threads):
    threads(None)  # tests before may have set it
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert fm.get_num_threads() == 3
    threads(5)
    assert fm.get_num_threads() == 5
    threads(None)
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert fm.get_num_threads() == 4
    for wrong in ("many", "0", "-1", "\u00b2", ""):
        monkeypatch.setenv("OMP_NUM_THREADS", wrong)
        assert fm.get_num_threads() >= 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert fm.get_num_threads() >= 1
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="count is"):
            threads(wrong)


# ------------------------------------------------------------------------------ a person's function


def returns_an_array(a, b):
    return a + b


def calls_what_numba_does_not_know(a, b):
    return subprocess.run(a, b)


class Callable:
    def __call__(self, a, b):
        return float(a @ b)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (returns_an_array, "it returns array"),
        (calls_what_numba_does_not_know, r"Unknown attribute|Untyped global"),
        (Callable(), "not a function"),
        (np.dot, "not a function"),
    ],
)
def test_a_function_that_numba_cannot_compile(function, reason):
    backend = NumbaBackend()
    x = backend.points(np.ones((3, 2)), np.float64)
    with pytest.raises(TypeError, match=r"function .* cannot be compiled by Numba") as caught:
        backend.gram(fm.CustomKernel(function), x)
    assert re.search(reason, str(caught.value)), str(caught.value)
    assert "backend='numpy'" in str(caught.value)


def test_numpy_takes_any_function():
    backend = NumpyBackend()
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    gram = backend.gram(fm.CustomKernel(Callable()), backend.points(x, np.float64))
    np.testing.assert_allclose(gram, x @ x.T)


def test_a_function_that_is_compiled_already(dtype):
    kernel = fm.CustomKernel(numba.njit(overlap))
    check_operations(NumbaBackend(tile=32), kernel, 40, 20, 2, 2, dtype)


@pytest.mark.slow
def test_rows_that_must_not_be_written():
    x = np.arange(6.0).reshape(3, 2)
    x.flags.writeable = False
    backend = NumbaBackend()
    for kernel in (fm.CustomKernel(overlap), fm.RBF(0.1), fm.Laplacian(0.1)):
        gram = backend.gram(kernel, backend.points(x, np.float64))
        np.testing.assert_allclose(gram, kernel(x), rtol=1e-14)


# ---------------------------------------------------------------------------------------- registry


def test_registry():
    assert get_backend("auto", fm.RBF(1.0)).name == "cpu"
    assert get_backend("auto", fm.RBF(1.0) + fm.CustomKernel(overlap)).name == "numba"
    backends = {"cpu": CpuBackend, "numba": NumbaBackend, "numpy": NumpyBackend}
    for name, kind in backends.items():
        backend = get_backend(name, fm.RBF(1.0))
        assert (type(backend), backend.name) == (kind, name)
        assert backend.supports(fm.CustomKernel(overlap)) == (name != "cpu")
        assert backend == kind()
    status = available_backends()
    gpu = status.pop("cupy")
    assert status == dict.fromkeys(backends, "available")
    assert gpu == "available" or "cupy" in gpu.lower() or "device" in gpu


@pytest.mark.parametrize(
    ("name", "kernel", "message"),
    [
        ("gpu", fm.RBF(1.0), r"backend is 'gpu'; one of 'auto', 'cpu', 'cupy', 'numba', 'numpy'"),
        ("cupy", fm.CustomKernel(overlap), "backend='cupy' cannot evaluate"),
        ("cpu", fm.CustomKernel(overlap), r"cannot evaluate CustomKernel\(overlap\)"),
    ],
)
def test_what_the_registry_refuses(name, kernel, message):
    with pytest.raises(ValueError, match=message):
        get_backend(name, kernel)


@pytest.mark.parametrize("tile", [0, -32, 2.5, True])
def test_tiles_are_positive_whole_numbers(name, tile):
    with pytest.raises(ValueError, match="tile is"):
        BACKENDS[name](tile=tile)


def test_without_the_extension_numba_stands_in_and_says_so_once(monkeypatch):
    def missing():
        raise ImportError("hidden by the test", name="fastmcmd._core")

    monkeypatch.setattr(backends, "core", missing)
    backends._core_is_there.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="hidden by the test.*'numba' backend stands in"):
            assert get_backend("auto", fm.RBF(1.0)).name == "numba"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert get_backend("auto", fm.RBF(1.0)).name == "numba"
        with pytest.raises(ImportError, match="needs the compiled extension"):
            get_backend("cpu", fm.RBF(1.0))
        assert "hidden by the test" in available_backends()["cpu"]
    finally:
        backends._core_is_there.cache_clear()


def test_import_does_not_load_numba():
    code = "import sys, fastmcmd; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
