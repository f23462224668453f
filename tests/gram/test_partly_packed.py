"""Tiles of the first row blocks in memory, the others computed in each product."""

from __future__ import annotations

import itertools

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
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.gram.precision import FLOAT32
from fastmcmd.gram.quantized import row_errors
from fastmcmd.solvers.base import Goal

KERNELS = [fm.RBF(0.3), fm.RBF(0.7) + fm.Laplacian(2.0), fm.Polynomial(degree=3, gamma=0.2)]


@pytest.fixture
def tiles_pay(monkeypatch):
    """Store the tiles of small problems, too."""
    monkeypatch.setattr("fastmcmd.gram.operator.cached_pays", lambda *_, **__: True)
    monkeypatch.setattr("fastmcmd.gram.operator._LEAST_SHARE", 0.0)


def operator_of(kernel, x, budget, dtype=FLOAT32, name="cpu", quantized=False):
    operator = GramOperator(get_backend(name, kernel), kernel, x, dtype, budget)
    operator.quantized = quantized
    return operator


def budget_for(operator, row_blocks):
    return operator.row_bytes(operator.dtype) + operator._bytes_of(row_blocks)


@pytest.mark.parametrize("dtype", [FLOAT32, EXACT], ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(("n", "k"), [(257, 1), (700, 4), (700, 30), (1100, 5)])
def test_bits_do_not_depend_on_the_part(rng, kernel, dtype, n, k):
    x, v = inputs(rng, n, rare=5), rng.normal(size=(n, k))
    backend = get_backend("cpu", kernel)
    points = backend.points(x, dtype, np.zeros(3))
    full, first = backend.pack_matmul(kernel, points, v)
    later = backend.packed_matmul(full, v)
    exact, magnitude = kernel(x, x) @ v, kernel(x, x) @ np.abs(v)
    # Distances between rows far out are computed from norms.
    unit = np.finfo(dtype).eps * (1 + 3 * np.square(x).sum(axis=1).max())
    assert (np.abs(first - exact) <= 10 * unit * magnitude.max()).all()
    blocks = -(-n // full.tiles.shape[1])
    for row_blocks in range(blocks + 2):
        part, product = backend.pack_part_matmul(kernel, points, v, row_blocks)
        count = min(row_blocks, blocks)
        assert len(part.tiles) == count * (count + 1) // 2
        assert (part.source is None) == (count == blocks)
        np.testing.assert_array_equal(part.tiles, full.tiles[: len(part.tiles)])
        np.testing.assert_array_equal(product, first)
        np.testing.assert_array_equal(backend.packed_matmul(part, v), later)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("k", [1, 30])
def test_parts_of_quantized_tiles(rng, kernel, k):
    """Rows of tiles in memory as in whole quantized tiles, the others as in float32."""
    n, row_blocks = 900, 2
    x, v = inputs(rng, n), rng.normal(size=(n, k))
    backend = get_backend("cpu", kernel)
    points = backend.points(x, FLOAT32, np.zeros(3))
    packed, product = backend.pack_matmul(kernel, points, v)
    full, first = backend.quantize_matmul(kernel, points, v)
    part, again = backend.quantize_matmul(kernel, points, v, row_blocks)
    tile, count = packed.tiles.shape[1], row_blocks * (row_blocks + 1) // 2
    np.testing.assert_array_equal(part.tiles, full.tiles[:count])
    np.testing.assert_array_equal(part.scales, full.scales[:count])
    np.testing.assert_array_equal(again, first)
    np.testing.assert_allclose(again, product, rtol=1e-5, atol=1e-5 * np.abs(product).max())
    later, rows = backend.packed_matmul(part, v), row_blocks * tile
    block = np.zeros_like(v)
    block[:rows] = v[:rows]
    of_block = backend.packed_matmul(full, block) - backend.packed_matmul(packed, block)
    expected = backend.packed_matmul(packed, v)
    expected[:rows] += of_block[:rows]
    np.testing.assert_allclose(later, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert not np.array_equal(later, backend.packed_matmul(packed, v))


def test_bits_do_not_depend_on_the_threads(rng):
    n, x = 1100, inputs(rng, 1100)
    v = rng.normal(size=(n, 7)).astype("f4")
    points = get_backend("cpu", KERNELS[0]).points(x, FLOAT32, np.zeros(3)).rows
    codes, params = np.array([_core.OPS["rbf"]], dtype=np.int32), np.array([[0.3, 0, 0, 0]])
    program, results = (codes, params, points), []
    for threads in (1, 2, 5):
        tiles, codes = np.zeros((6, 256, 256), dtype="f4"), np.zeros((6, 256, 256), dtype="u2")
        scales, products = np.zeros((6, 256, 2), dtype="f4"), np.empty((4, n, 7))
        _core.pack_matmul(*program, tiles, v, products[0], threads)
        _core.partly_packed_matmul(*program, tiles, v, products[1], threads)
        _core.quantize_matmul(*program, codes, scales, v, products[2], threads)
        _core.partly_quantized_matmul(*program, codes, scales, v, products[3], threads)
        results.append((tiles, codes, scales, products))
    for other in results[1:]:
        for value, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(value, same)


def test_wrong_shapes(rng):
    kernel = KERNELS[0]
    backend, x, v, out = get_backend("cpu", kernel), inputs(rng, 700), np.ones((700, 2)), None
    points = backend.points(x, FLOAT32, np.zeros(3))
    part, out = backend.pack_part_matmul(kernel, points, v, 1)
    assert part.source is not None
    codes = np.array([_core.OPS["rbf"]], dtype=np.int32)
    program = codes, np.array([[0.3, 0, 0, 0]]), points.rows
    single = v.astype("f4")
    with pytest.raises(ValueError, match="tiles has the wrong shape"):
        _core.packed_matmul(
            part.tiles, 700, single, out, 1
        )  # a part without what computes the rest
    many = np.zeros((7, *part.tiles.shape[1:]), dtype="f4")
    with pytest.raises(ValueError, match="tiles has the wrong shape"):
        _core.partly_packed_matmul(*program, many, single, out, 1)
    with pytest.raises(ValueError, match="v"):
        _core.partly_packed_matmul(*program, part.tiles, single[:5], out, 1)
    quantized, _ = backend.quantize_matmul(kernel, points, v, 1)
    with pytest.raises(ValueError, match="scales"):
        _core.partly_quantized_matmul(
            *program, quantized.tiles, quantized.scales[:, :5], single, out, 1
        )


@pytest.mark.parametrize("name", ["numpy", "numba"])
def test_other_backends_store_all_or_none(rng, name, tiles_pay):
    kernel = fm.RBF(0.3)
    operator = operator_of(kernel, inputs(rng, 1200), 10**9, name=name)
    with pytest.raises(NotImplementedError, match="all tiles or none"):
        operator.backend.pack_part_matmul(kernel, operator.points(), np.ones((1200, 1)), 1)
    blocks = operator.row_blocks
    assert blocks == 5
    operator.budget = budget_for(operator, blocks) - 1
    assert (operator.row_blocks, operator.tile_bytes, operator.caches) == (0, 0, False)


@pytest.mark.parametrize("quantized", [False, True])
def test_as_many_row_blocks_as_fit(rng, quantized, tiles_pay):
    operator = operator_of(KERNELS[0], inputs(rng, 2300), 10**9, quantized=quantized)
    blocks = operator.row_blocks
    assert blocks == 9
    for count in range(1, blocks + 1):
        operator.budget = budget_for(operator, count)
        assert operator.row_blocks == count
        # Features may take the place of a part.
        tile_bytes = operator.tile_bytes if count == blocks else 0
        assert operator.spare_bytes + operator.row_bytes(FLOAT32) + tile_bytes == operator.budget
        operator.budget -= 1
        assert operator.row_blocks == count - 1
        assert operator.row_bytes(FLOAT32) + operator.tile_bytes <= operator.budget
    small = operator_of(KERNELS[0], operator.x, 0, quantized=quantized)
    assert (small.row_blocks, small.holds_rows) == (0, False)


def test_a_tenth_of_the_tiles_is_the_least(rng, monkeypatch):
    monkeypatch.setattr("fastmcmd.gram.operator.cached_pays", lambda *_, **__: True)
    operator = operator_of(KERNELS[0], inputs(rng, 2300), 10**9)  # 9 row blocks of 45 tiles
    operator.budget = budget_for(operator, 3)
    assert operator.row_blocks == 3
    operator.budget = budget_for(operator, 2)
    assert (operator.row_blocks, operator.product_cost(3)) == (0, operator.streamed_cost(3))


def test_features_take_the_place_of_a_part_of_the_tiles(rng, tiles_pay):
    operator = operator_of(KERNELS[0], inputs(rng, 2300), 10**9)
    operator.entry_cost = 500.0
    operator.budget = budget_for(operator, 6)
    assert operator.spare_bytes == operator.budget - operator.row_bytes(FLOAT32)
    feature_bytes = operator._bytes_of(6) - operator._bytes_of(4) - 1
    expected = operator.product_cost(3, feature_bytes)
    assert operator.product_cost(3) < expected < operator.streamed_cost(3)
    v = rng.normal(size=(2300, 3))
    first, before = operator.matmul(v), operator.peak_bytes
    assert before == operator.budget
    operator.reserve(feature_bytes)
    assert operator._packed is None
    assert (operator.row_blocks, operator.product_cost(3)) == (4, expected)
    np.testing.assert_array_equal(operator.matmul(v), first)
    assert operator.peak_bytes == before
    operator.reserve(feature_bytes // 2)  # it holds as many tiles
    assert operator._packed is not None


def test_all_tiles_stay_beside_features(rng, tiles_pay):
    operator = operator_of(KERNELS[0], inputs(rng, 1200), 10**9)
    operator.budget = budget_for(operator, 5) + 1000
    assert operator.spare_bytes == 1000
    operator.matmul(np.ones((1200, 1)))
    operator.reserve(1000)
    assert operator._packed is not None
    assert operator.peak_bytes == operator.budget


def test_later_products_cost_less_the_more_is_stored(rng, tiles_pay):
    operator = operator_of(KERNELS[0], inputs(rng, 2300), 0)
    operator.entry_cost = 500.0
    costs = []
    for count in range(operator_of(KERNELS[0], operator.x, 10**9).row_blocks + 1):
        operator.budget = budget_for(operator, count)
        costs.append(operator.product_cost(3))
    assert costs[0] == operator.streamed_cost(3)
    assert costs[-1] == operator.cached_cost(3)
    assert all(later < earlier for earlier, later in itertools.pairwise(costs))


@pytest.mark.parametrize("quantized", [False, True])
def test_tiles_use_the_memory_of_a_search(rng, quantized, tiles_pay):
    """They give it back when a search begins, and get it again with the next product."""
    x, v = inputs(rng, 2300), rng.normal(size=(2300, 3))
    operator = operator_of(KERNELS[0], x, 10**9, quantized=quantized)
    operator.budget = budget_for(operator, 6)
    operator.search_bytes = budget_for(operator, 7) - operator.budget
    assert operator.row_blocks == 7
    assert operator.spare_bytes == operator.budget - operator.row_bytes(FLOAT32)
    assert operator.needs_search_bytes
    operator.matmul(v)
    assert operator.tile_bytes == operator._packed.nbytes == operator._bytes_of(7)
    later = operator.matmul(v)
    operator.begin_search()
    assert operator._packed is None
    np.testing.assert_array_equal(operator.matmul(v), later)
    assert operator._packed.nbytes == operator._bytes_of(7)
    assert operator.peak_bytes == operator.budget + operator.search_bytes


def test_tiles_that_fit_beside_a_search_stay(rng, tiles_pay):
    operator = operator_of(KERNELS[0], inputs(rng, 1200), 10**9)
    operator.budget = budget_for(operator, 5)
    operator.search_bytes = 10**6
    operator.matmul(np.ones((1200, 1)))
    assert not operator.needs_search_bytes
    operator.begin_search()
    assert operator._packed is not None
    # Rows in float64 that were prepared beside the tiles.
    operator.search_bytes = operator.row_bytes(EXACT)
    operator.matmul(np.ones((1200, 1)), exact=True)
    assert operator._exact_points is not None
    operator.begin_search()
    assert operator._packed is None
    assert operator._exact_points is None


@pytest.mark.parametrize("quantized", [False, True])
def test_what_is_said_of_a_part(rng, quantized, tiles_pay):
    operator = operator_of(KERNELS[0], inputs(rng, 1200), 10**9, quantized=quantized)
    operator.budget = budget_for(operator, 3)
    operator.matmul(np.ones((1200, 2)))
    kind = "quantized" if quantized else "packed"
    assert operator.cache == f"partly {kind}"
    assert operator.tile_bytes == operator._packed.nbytes
    assert operator.peak_bytes == operator.budget
    assert isinstance(operator._packed, QuantizedGram) == quantized
    operator.pack(FLOAT32)
    if not quantized:
        assert operator.cache == "packed"


def test_tiles_give_way_to_rows_in_float64(rng, tiles_pay):
    """A float64 pass over pairs once, and the tiles again after it, within the budget."""
    x, v = inputs(rng, 1200, d=40), rng.normal(size=(1200, 3))
    operator = operator_of(fm.RBF(0.02), x, 10**9)
    operator.budget = budget_for(operator, 3)
    assert operator.row_bytes(FLOAT32) + operator.row_bytes(EXACT) <= operator.budget
    first = operator.matmul(v)
    assert operator._packed is not None
    symmetric = []
    usual = operator.backend.symmetric_matmul

    def symmetric_product(kernel, points, v):
        assert operator._packed is None
        symmetric.append(points.dtype)
        return usual(kernel, points, v)

    object.__setattr__(operator.backend, "symmetric_matmul", symmetric_product)
    try:
        exact = operator.matmul(v, exact=True)
    finally:
        object.__delattr__(operator.backend, "symmetric_matmul")
    np.testing.assert_allclose(exact, operator.kernel(x, x) @ v, rtol=1e-12, atol=1e-12)
    assert symmetric == [EXACT]
    np.testing.assert_array_equal(operator.matmul(v), first)
    assert operator._packed is not None
    assert operator._exact_points is None


def test_expected_errors_of_rows_in_parts(rng):
    """Rows of whole tiles as if they were all; the products of the others err by nothing more."""
    n, kernel = 1100, fm.RBF(0.3)
    backend, x = get_backend("cpu", kernel), inputs(rng, n)
    points, squares = backend.points(x, FLOAT32, np.zeros(3)), rng.random(n)
    part, _ = backend.quantize_matmul(kernel, points, np.ones((n, 1)), 2)
    tile = part.tiles.shape[1]
    errors, inside = row_errors(part.tiles, part.scales, squares), 2 * tile
    alone = backend.points(x[:inside], FLOAT32, np.zeros(3))
    full, _ = backend.quantize_matmul(kernel, alone, np.ones((inside, 1)))
    np.testing.assert_allclose(
        errors[:inside], row_errors(full.tiles, full.scales, squares[:inside]), rtol=1e-3
    )
    assert not errors[inside:].any()


@given(
    seed=st.integers(0, 10**6),
    kernel=st.sampled_from(KERNELS),
    lam=st.sampled_from([0.1, 0.01]),
    error=st.sampled_from([1e-3, 1e-5, 1e-7]),
    rare=st.sampled_from([0, 1, 7]),
    certificate=st.sampled_from(["sampled", "rigorous"]),
    row_blocks=st.integers(0, 4),
    quantized=st.booleans(),
)
def test_certificates_hold(seed, kernel, lam, error, rare, certificate, row_blocks, quantized):
    """Whatever part is stored, in 16 bits or not; rows unlike the others are at random places."""
    rng, n = np.random.default_rng(seed), 900
    x = inputs(rng, n, rare=rare)
    system = system_of(rng, x, lam)
    operator = operator_of(kernel, x, 10**9, quantized=quantized)
    operator.entry_cost = 1e3
    operator.budget = budget_for(operator, row_blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastmcmd.gram.operator.cached_pays", lambda *_, **__: True)
        patch.setattr("fastmcmd.gram.operator._LEAST_SHARE", 0.0)
        assert operator.row_blocks == row_blocks
        scale = float(np.sqrt(operator.diagonal.max()))
        outcome = solve_cg(
            operator, [system], Goal(error * scale, scale), certificate, 300, Progress(False, 1e-6)
        )
    (solution,) = outcome.solutions
    bound = solution.certificate.error(scale)
    assert true_error(kernel, x, system, solution.value, x) <= bound * (1 + 1e-9)
