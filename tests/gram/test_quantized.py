"""Quantized tiles: products, errors, where they are permitted, and what certificates then say."""

from __future__ import annotations

import numpy as np
import pytest
from cg_runs import solve_cg
from hypothesis import given
from hypothesis import strategies as st
from rare_rows import inputs, system_of, true_error

import fastmcmd as fm
from fastmcmd import _core
from fastmcmd._base.progress import Progress
from fastmcmd.backends import get_backend
from fastmcmd.backends.base import QuantizedGram
from fastmcmd.checkpoint import Checkpoint
from fastmcmd.gram import GramOperator
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.gram.quantized import QUANTIZED_STEPS, quantization_error, row_errors
from fastmcmd.solvers.base import Goal, System
from fastmcmd.solvers.cg import CGState
from fastmcmd.solvers.protocol import LinearProblem

KERNELS = [fm.RBF(0.3), fm.Polynomial(degree=3, gamma=0.2, coef0=1.0), fm.Laplacian(0.5)]


@pytest.fixture
def few_rows(monkeypatch):
    """Quantize the tiles of small problems, too."""
    monkeypatch.setattr("fastmcmd.gram.operator.LEAST_QUANTIZED", 1)
    monkeypatch.setattr("fastmcmd.gram.operator.cached_pays", lambda *_, **__: True)


def operator_of(kernel, x, quantized=True):
    operator = GramOperator(get_backend("cpu", kernel), kernel, x, FLOAT32, 10**9)
    operator.quantized = quantized
    return operator


def rounded(tiles, tile, n):
    """Return packed float32 tiles (p, t, t) of n rows as 16 bits leave them: by rows, in equal steps."""
    out, blocks = tiles.astype(np.float64), -(-n // tile)
    for i in range(blocks):
        for j in range(i + 1):
            part = out[i * (i + 1) // 2 + j, : n - i * tile, : n - j * tile]
            least = part.min(axis=1, keepdims=True)
            step = (part.max(axis=1, keepdims=True) - least) / QUANTIZED_STEPS
            step[step == 0] = 1.0
            part[...] = least + step * np.rint((part - least) / step)
    return out


def full_matrix(tiles, tile, n):
    blocks = -(-n // tile)
    out = np.zeros((blocks * tile, blocks * tile))
    for i in range(blocks):
        for j in range(i + 1):
            part = tiles[i * (i + 1) // 2 + j]
            out[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile] = part
            out[j * tile : (j + 1) * tile, i * tile : (i + 1) * tile] = part if i == j else part.T
    return out[:n, :n]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("n", [1, 31, 257, 600])
@pytest.mark.parametrize("k", [1, 4, 5, 30])
def test_products_match_rounded_values(rng, kernel, n, k):
    x, v = inputs(rng, n, rare=min(n // 20, 3)), rng.normal(size=(n, k))
    backend = get_backend("cpu", kernel)
    points = backend.points(x, FLOAT32)
    exact, product = backend.pack_matmul(kernel, points, v)
    packed, first = backend.quantize_matmul(kernel, points, v)
    np.testing.assert_array_equal(first, product)  # of the values before
    tile = packed.tiles.shape[1]
    # A diagonal tile is not symmetric: each of its rows has its own steps, and products use both halves.
    values = rounded(exact.tiles, tile, n)
    expected = np.zeros((n, k))
    for i in range(-(-n // tile)):
        for j in range(i + 1):
            rows, cols = (
                slice(i * tile, min(n, (i + 1) * tile)),
                slice(j * tile, min(n, (j + 1) * tile)),
            )
            part = values[i * (i + 1) // 2 + j, : rows.stop - rows.start, : cols.stop - cols.start]
            expected[rows] += part @ v[cols]
            if i != j:
                expected[cols] += part.T @ v[rows]
    size = np.abs(exact.tiles).max() * np.abs(v).sum(axis=0)
    # A value near the middle of two steps may be rounded either way: a few of them, by one step.
    tolerance = 1e-6 * size + 3 * packed.scales[..., 1].max() * np.abs(v).max(axis=0)
    assert (np.abs(backend.packed_matmul(packed, v) - expected) <= tolerance).all()
    assert packed.nbytes == packed.tiles.nbytes + packed.scales.nbytes


def test_bits_do_not_depend_on_threads(rng):
    kernel, x, v = KERNELS[0], inputs(rng, 700), rng.normal(size=(700, 7)).astype(np.float32)
    program = np.array([_core.OPS["rbf"]], dtype=np.int32), np.array([[0.3, 0, 0, 0]])
    points = get_backend("cpu", kernel).points(x, FLOAT32).rows
    results = []
    for threads in (1, 2, 5):
        tiles = np.zeros((6, 256, 256), dtype=np.uint16)
        scales = np.zeros((6, 256, 2), dtype=np.float32)
        first, later = np.empty((700, 7)), np.empty((700, 7))
        _core.quantize_matmul(*program, points, tiles, scales, v, first, threads)
        _core.quantized_matmul(tiles, scales, 700, v, later, threads)
        results.append((tiles, scales, first, later))
    for other in results[1:]:
        for value, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(value, same)


@pytest.mark.parametrize("scale", [0.0, 1e-42, 1e-30, 1e30])
def test_constant_and_extreme_rows(scale):
    """A row without a range is its value; a range that no step can represent is left out."""
    kernel, n = fm.Constant(max(scale, 1e-45)) * fm.RBF(1.0), 40
    x = np.zeros((n, 1)) if scale == 0 else np.linspace(0, 1, n)[:, None]
    backend = get_backend("cpu", kernel)
    points, v = backend.points(x, FLOAT32), np.ones((n, 1))
    packed, first = backend.quantize_matmul(kernel, points, v)
    later = backend.packed_matmul(packed, v)
    assert np.isfinite(later).all()
    np.testing.assert_allclose(later, first, rtol=1e-4, atol=n * 1e-38)


def test_wrong_arrays_are_refused():
    points = _core.PointsF32(np.ones((40, 2), dtype=np.float32), None)
    program = np.array([_core.OPS["rbf"]], dtype=np.int32), np.array([[1.0, 0, 0, 0]])
    tiles, v, out = np.zeros((3, 32, 32), np.uint16), np.ones((40, 2), np.float32), np.ones((40, 2))
    scales = np.zeros((3, 32, 2), np.float32)
    none = np.ones((40, 0), np.float32)
    for call in (
        lambda: _core.quantized_matmul(tiles[:2], scales[:2], 40, v, out, 1),
        lambda: _core.quantized_matmul(tiles.astype(float), scales, 40, v, out, 1),
        lambda: _core.quantized_matmul(tiles, scales[:2], 40, v, out, 1),
        lambda: _core.quantized_matmul(tiles, scales, 40, v[:3], out, 1),
        lambda: _core.quantized_matmul(tiles, scales, 40, none, none.astype(float), 1),
        lambda: _core.quantize_matmul(*program, points, tiles, scales[:, :5], v, out, 1),
        lambda: _core.quantize_matmul(*program, points, tiles[:1], scales, v, out, 1),
    ):
        with pytest.raises(ValueError, match=r"\w+ \w+"):
            call()


@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_other_backends_have_none(name):
    backend = get_backend(name, KERNELS[0])
    assert not backend.quantizes
    operator = GramOperator(backend, KERNELS[0], np.ones((9000, 1)), FLOAT32, 10**9)
    operator.quantize_within(1.0)
    assert not operator.quantized
    with pytest.raises(NotImplementedError, match=name):
        backend.quantize_matmul(KERNELS[0], operator.points(), np.ones((9000, 1)))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_predicted_error_is_measured(rng, kernel):
    """Entries of other rows err as much as predicted from a few, and within the bound."""
    x, n = inputs(rng, 1500), 1500
    operator = operator_of(kernel, x)
    sample = rng.choice(n, 256, replace=False)
    backend, points = operator.backend, operator.points()
    predicted = quantization_error(
        backend.gram(kernel, backend.points(x[sample], FLOAT32, operator.offset))
    )
    exact, _ = backend.pack_matmul(kernel, points, np.ones((n, 1)))
    packed, _ = backend.quantize_matmul(kernel, points, np.ones((n, 1)))
    values = (
        packed.scales[..., :1].astype(float) + packed.scales[..., 1:].astype(float) * packed.tiles
    )
    tile = packed.tiles.shape[1]
    error = full_matrix(values, tile, n) - full_matrix(exact.tiles, tile, n)
    assert 0.5 < predicted / np.sqrt(np.mean(error**2)) < 1.5
    rounding = 4 * np.finfo(np.float32).eps * np.abs(exact.tiles).max()
    assert np.abs(error).max() <= operator.quantization_bound + rounding


def test_bound_holds_at_the_widest_rows(rng):
    """Rows of the widest range, -1 to 1: six roundings between a value and back add to half a step."""
    operator = operator_of(fm.Cosine(), inputs(rng, 700))
    exact, _ = operator.backend.pack_matmul(operator.kernel, operator.points(), np.ones((700, 1)))
    packed, _ = operator.backend.quantize_matmul(
        operator.kernel, operator.points(), np.ones((700, 1))
    )
    values = (
        packed.scales[..., :1].astype(float) + packed.scales[..., 1:].astype(float) * packed.tiles
    )
    tile = packed.tiles.shape[1]
    error = full_matrix(values, tile, 700) - full_matrix(exact.tiles, tile, 700)
    assert np.abs(error).max() <= operator.quantization_bound


@pytest.mark.parametrize("size", [1e-36, 1e-34, 1e-20])
def test_ranges_below_float32_are_not_quantized(rng, few_rows, size):
    kernel, x = fm.Constant(size) * fm.RBF(0.3), inputs(rng, 500)
    operator = operator_of(kernel, x, quantized=False)
    assert operator.dtype == FLOAT32
    operator.quantize_within(np.inf)
    assert operator.quantized == (size > 1e-30)


@pytest.mark.parametrize("n", [40, 300, 900])
def test_expected_errors_of_rows(rng, n):
    """Against the errors themselves: those of a row on average, and of rows far from all others none."""
    x = rng.normal(size=(n, 3))
    x[: n // 2] += 1e3 * np.arange(1, n // 2 + 1)[:, None]
    operator = operator_of(fm.RBF(0.3), x)
    ones = np.ones((n, 1))
    exact, _ = operator.backend.pack_matmul(operator.kernel, operator.points(), ones)
    packed, _ = operator.backend.quantize_matmul(operator.kernel, operator.points(), ones)
    values = (
        packed.scales[..., :1].astype(float) + packed.scales[..., 1:].astype(float) * packed.tiles
    )
    tile, squares = packed.tiles.shape[1], rng.random(n)
    error = full_matrix(values, tile, n) - full_matrix(exact.tiles, tile, n)
    if n > tile:  # a diagonal tile is not symmetric, and `full_matrix` takes all of it
        assert not np.array_equal(error, error.T)
    observed = error**2 @ squares
    expected = row_errors(packed.tiles, packed.scales, squares)
    far = np.arange(n) < n // 2
    assert observed[far].max() <= 1e-3 * observed[~far].mean()
    assert 0.5 < expected[~far].mean() / observed[~far].mean() < 2
    if n <= tile:
        assert expected[far].max() <= 1e-3 * expected[~far].mean()


@pytest.mark.parametrize("seed", range(6))
def test_certificates_notice_a_cluster_among_rows_far_from_all(seed):
    """Only the rows of the cluster err, too few to be drawn by chance; estimates permit any goal."""
    rng = np.random.default_rng(seed)
    n, m, at = 4000, 24, 1600
    x = 2 * rng.normal(size=(n, 16))
    x[at : at + m] = x[at] + rng.choice([0.01, 0.02, 0.04]) * rng.normal(size=(m, 16))
    rhs = rng.normal(size=(n, 1))
    rhs[at : at + m] *= 0.4
    system = System(rhs, np.full(n, 1.6))
    kernel, inside = fm.Laplacian(1.5), slice(at, at + m)
    operator = operator_of(kernel, x)
    outcome = solve_cg(operator, [system], Goal(1e-6, 1.0), "sampled", 300, Progress(False, 1e-6))
    assert operator.has_quantized
    (solution,) = outcome.solutions
    # No other row has a kernel value above 1e-12 with those of the cluster.
    some = System(rhs[inside], system.shift[inside])
    error = true_error(kernel, x[inside], some, solution.value[inside], x[inside])
    assert error <= solution.certificate.error(1.0)


def test_permitted_within_the_error_only(rng, few_rows):
    kernel, x = KERNELS[0], inputs(rng, 500)
    operator = operator_of(kernel, x, quantized=False)
    sample = np.array(operator.backend.gram(kernel, operator.points()))
    predicted = quantization_error(sample)
    for share, expected in ((0.5, False), (2.0, True)):
        operator.quantize_within(share * predicted)
        assert operator.quantized == expected
    exact = GramOperator(operator.backend, kernel, x, np.dtype(np.float64), 10**9)
    exact.quantize_within(1.0)
    assert not exact.quantized


def test_bytes_of_tiles(rng, few_rows):
    operator = operator_of(KERNELS[0], inputs(rng, 900))
    full = operator.packed_bytes
    operator.matmul(np.ones((900, 2)))
    assert isinstance(operator._packed, QuantizedGram)
    assert operator.tile_bytes == operator._packed.nbytes
    assert 0.5 * full < operator.tile_bytes < 0.51 * full
    assert operator.cache == "quantized"
    assert operator.peak_bytes == operator.row_bytes(FLOAT32) + operator.tile_bytes
    operator.budget = operator.row_bytes(FLOAT32) + full - 1  # half of it holds them
    assert operator.row_blocks == 4
    operator.quantized = False
    assert operator.row_blocks == 3


@given(
    seed=st.integers(0, 10**6),
    kernel=st.sampled_from(KERNELS),
    lam=st.sampled_from([0.1, 0.01]),
    error=st.sampled_from([1e-3, 1e-5, 1e-7]),
    rare=st.sampled_from([0, 1, 7]),
    certificate=st.sampled_from(["sampled", "rigorous"]),
)
def test_certificates_hold(seed, kernel, lam, error, rare, certificate):
    """Whatever 16 bits leave, the certificate says it; rows unlike the others are at random places."""
    rng = np.random.default_rng(seed)
    x = inputs(rng, 600, rare=rare)
    system = system_of(rng, x, lam)
    operator = operator_of(kernel, x)
    operator.entry_cost = 1e3  # tiles pay
    scale = float(np.sqrt(operator.diagonal.max()))
    goal = Goal(error * scale, scale)
    outcome = solve_cg(operator, [system], goal, certificate, 300, Progress(False, 1e-6))
    assert operator.has_quantized
    (solution,) = outcome.solutions
    bound = solution.certificate.error(scale)
    assert true_error(kernel, x, system, solution.value, x) <= bound * (1 + 1e-9)


def test_continued_run_has_the_same_bits(rng, tmp_path, few_rows):
    """Only the first product uses the values before they are quantized, also after an interrupt."""
    kernel, x = KERNELS[2], inputs(rng, 700)
    systems, goal = [system_of(rng, x, 1e-3)], Goal(1e-6, 1.0)
    arguments = systems, goal, "sampled", 300, Progress(False, 1e-6)
    uninterrupted = solve_cg(operator_of(kernel, x), *arguments)
    assert uninterrupted.iterations > 4
    for count in (1, 2, 4):
        store = Checkpoint(tmp_path / f"{count}.ckpt", f"count={count}", every=0).stage("run")
        operator = operator_of(kernel, x)
        products = []

        def interrupted(v, exact=False, operator=operator, products=products, count=count):
            if len(products) == count:
                raise KeyboardInterrupt
            products.append(v.shape)
            return GramOperator.matmul(operator, v, exact=exact)

        operator.matmul = interrupted
        with pytest.raises(KeyboardInterrupt):
            solve_cg(operator, *arguments, store=store)
        assert store.load(CGState).passes == count
        resumed = solve_cg(operator_of(kernel, x), *arguments, store=store)
        np.testing.assert_array_equal(resumed.solutions[0].value, uninterrupted.solutions[0].value)


def test_tight_goals_keep_float32(rng, few_rows):
    """A problem permits quantized tiles where they add little to the error that it may leave."""
    kernel, x = fm.RBF(0.3), inputs(rng, 2000)
    backend = get_backend("cpu", kernel)
    system = system_of(rng, x, 0.1)
    quantized = {}
    for error in (1e-3, 1e-5, 1e-8):
        problem = LinearProblem(backend, kernel, x, [system], 0.1, Goal(error, 1.0), 10**9)
        quantized[error] = problem.operator(FLOAT32).quantized
    assert quantized == {1e-3: True, 1e-5: True, 1e-8: False}


def test_cce_says_what_it_read(rng):
    """Large problems at the usual regulariser read quantized tiles: the same answer, half of the memory."""
    n = 8500
    x = rng.normal(size=(n, 150))
    y = x[:, 0] + rng.normal(size=n)
    data = x, y, y + 0.1 * rng.normal(size=n)
    options = {"x_kernel": fm.RBF(1 / 300), "y_kernel": fm.RBF(0.5), "lam": 0.1, "solver": "cg"}
    result = fm.cce(*data, tol=1e-4, **options)
    exact = fm.cce(*data, tol=1e-6, dtype="float64", **options)
    assert (result.info.cache, exact.info.cache) == ("quantized", "packed")
    assert result.error_bound <= 1e-4
    assert np.abs(result.values - exact.values).max() <= result.error_bound + exact.error_bound
    assert result.info.peak_bytes < exact.info.peak_bytes / 2
