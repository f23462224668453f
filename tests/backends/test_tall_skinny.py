"""Products of tall and narrow blocks agree with NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd.backends.tall_skinny import (
    beside,
    eigh,
    inner,
    residual,
    roots_of_forms,
    row_squares,
    scaled,
    spread,
    squares_and_largest,
    times,
)

SIZES = st.tuples(
    st.sampled_from([0, 1, 2, 127, 128, 129, 1024, 1025, 2500]),
    st.sampled_from([0, 1, 3, 8, 17, 40]),
    st.sampled_from([0, 1, 2, 9, 33]),
)


def block(rng, n, k, layout):
    """Return a block (n, k) stored by rows, by columns, or as columns of a wider array."""
    if layout == "columns":
        return rng.normal(size=(k, n)).T
    if layout == "part":
        return rng.normal(size=(n, k + 5))[:, 2 : 2 + k]
    return rng.normal(size=(n, k))


def close(actual, expected, sizes):
    """Check agreement up to the rounding of sums of `sizes`, the products of absolute values."""
    assert actual.shape == expected.shape
    assert (np.abs(actual - expected) <= 1e-14 * (sizes + 1)).all()


@settings(max_examples=60, deadline=None)
@given(SIZES, st.sampled_from(["rows", "columns", "part"]), st.integers(1, 4), st.integers(0, 99))
def test_as_numpy_has_them(sizes, layout, threads, seed):
    n, k, j = sizes
    rng = np.random.default_rng(seed)
    a, b = block(rng, n, k, layout), block(rng, n, j, layout)
    small, scale = block(rng, k, j, layout), rng.normal(size=n)
    absolute = np.abs(a) @ np.abs(small)
    fm.set_num_threads(threads)
    try:
        close(inner(a, b), a.T @ b, np.abs(a).T @ np.abs(b))
        close(times(a, small), a @ small, absolute)
        close(times(a, small, base=b, sign=-1.0), b - a @ small, absolute + np.abs(b))
        np.testing.assert_array_equal(scaled(scale, a), scale[:, None] * a)
        product = scale[:, None] * a
        close(scaled(scale, a, base=a), a + product, np.abs(a) + np.abs(product))
        np.testing.assert_array_equal(beside([a, b, a]), np.hstack([a, b, a]))
    finally:
        fm.set_num_threads(None)


@settings(max_examples=40, deadline=None)
@given(SIZES, st.sampled_from(["rows", "columns", "part"]), st.integers(1, 4), st.integers(0, 99))
def test_residuals_and_their_sums(sizes, layout, threads, seed):
    n, k, _ = sizes
    rng = np.random.default_rng(seed)
    rhs, value, image = (block(rng, n, k, layout) for _ in range(3))
    shift = rng.uniform(0.1, 3.0, n)
    fm.set_num_threads(threads)
    try:
        out, sums = residual(rhs, shift, value, image)
    finally:
        fm.set_num_threads(None)
    product = shift[:, None] * value
    expected = rhs - product - image
    close(out, expected, np.abs(rhs) + np.abs(product) + np.abs(image))
    sizes = (np.abs(rhs) + np.abs(product)) ** 2 / shift[:, None]
    np.testing.assert_allclose(
        (sums.shifts, sums.values, sums.operands, sums.residuals),
        (
            (1 / shift).sum(),
            np.linalg.norm(value, axis=1).sum(),
            sizes.sum(),
            (expected**2 / shift[:, None]).sum(),
        ),
        rtol=1e-11,
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("columns", [1, 40, 700])
def test_spreading_adds_rows(rng, columns, threads):
    a, start = rng.normal(size=(30, columns)), rng.normal(size=(11, columns))
    source, where = rng.integers(0, 30, 90), rng.integers(0, 11, 90)
    share, out = rng.normal(size=90), start.copy()
    fm.set_num_threads(threads)
    spread(a, source, where, share, out)
    fm.set_num_threads(None)
    matrix = np.zeros((11, 30))
    np.add.at(matrix, (where, source), share)
    np.testing.assert_allclose(out, start + matrix @ a, rtol=1e-12, atol=1e-12)


def test_spreading_checks_indices(rng):
    a, share, inside = rng.normal(size=(3, 2)), np.ones(2), np.array([0, 2])
    for source, where in ((inside + 1, inside), (inside, inside - 1)):
        with pytest.raises(ValueError, match="must be rows"):
            spread(a, source, where, share, np.zeros((3, 2)))


def test_results_in_place(rng):
    a, b = rng.normal(size=(3000, 12)), rng.normal(size=(3000, 7))
    square, small, scale = (
        rng.normal(size=(12, 12)),
        rng.normal(size=(12, 7)),
        rng.normal(size=3000),
    )
    for start, call, expected in (
        (a, lambda out: times(out, square, out=out), a @ square),
        (b, lambda out: times(a, small, base=out, sign=-1.0, out=out), b - a @ small),
        (a, lambda out: scaled(scale, out, out=out), scale[:, None] * a),
        (a, lambda out: scaled(scale, out, base=out, out=out), a + scale[:, None] * a),
    ):
        out = start.copy()
        assert call(out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_no_bit_depends_on_threads(rng):
    a, b, small = (rng.normal(size=shape) for shape in ((40_000, 30), (40_000, 9), (30, 9)))
    results = []
    for threads in (1, 2, 3, 5):
        fm.set_num_threads(threads)
        missing, sums = residual(a, 2 + np.abs(b[:, 0]), a, a)
        results.append((inner(a, b), times(a, small), scaled(b[:, 0], a), missing, sums.values))
    fm.set_num_threads(None)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_wide_blocks_are_summed_in_little_memory(rng):
    """Sums of 600 x 500 columns in many parts would be larger than the blocks."""
    a, b = rng.normal(size=(20_000, 600)), rng.normal(size=(20_000, 500))
    close(inner(a, b), a.T @ b, np.abs(a).T @ np.abs(b))


def test_one_block_is_not_copied(rng):
    a = rng.normal(size=(5, 3))
    assert beside([a]) is a


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 2, 127, 300, 1000]),
    st.sampled_from([1, 3, 8, 13, 64]),
    st.sampled_from(["rows", "columns", "part"]),
    st.sampled_from([np.float32, np.float64]),
    st.integers(1, 3),
)
def test_squares_of_rows(n, d, layout, dtype, threads):
    rng = np.random.default_rng(n + d)
    x = block(rng, n, d, layout).astype(dtype, order="A")
    offset = rng.normal(size=d)
    fm.set_num_threads(threads)
    try:
        for shift in (None, offset):
            shifted = x.astype(np.float64) - (0 if shift is None else shift)
            expected = [math.fsum(value * value for value in row) for row in shifted]
            squares, largest = squares_and_largest(x, shift)
            np.testing.assert_allclose(squares, expected, rtol=1e-14)
            np.testing.assert_array_equal(squares, row_squares(x, shift))
            assert largest == squares.max()
    finally:
        fm.set_num_threads(None)


@pytest.mark.parametrize("row", [0, 1, 4])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_the_largest_square_is_nan_or_infinite_if_a_square_is(row, bad):
    x = np.ones((5, 2))
    x[row, 1] = bad
    for rows in (x, np.asfortranarray(x)):
        largest = squares_and_largest(rows)[1]
        np.testing.assert_equal(largest, np.nan if np.isnan(bad) else np.inf)
    assert squares_and_largest(x[:0])[1] == 0.0


@pytest.mark.parametrize(("outputs", "points"), [(1, 1), (3, 7), (300, 40)])
@pytest.mark.parametrize("unit", [0.0, 1e-16, 1e-3])
def test_roots_of_forms(outputs, points, unit):
    rng = np.random.default_rng(0)
    coefficients = rng.normal(size=(outputs, points)) * 10.0 ** rng.uniform(-9, 1, points)
    coefficients[:, -1] = 0.0
    forms = rng.normal(size=points) * 10.0 ** rng.uniform(-20, 2, points)
    forms[-1] = 0.0
    roots, errors = roots_of_forms(coefficients, forms, unit, 1e-300)
    np.testing.assert_array_equal(roots, np.sqrt(np.maximum(forms, 0.0)))
    size = np.abs(coefficients).sum(axis=0)
    slack = unit * size**2 + np.where(size > 0, 1e-300, 0.0)
    low = np.sqrt(np.maximum(forms - slack, 0.0))
    high = np.sqrt(np.maximum(forms, 0.0) + slack)
    np.testing.assert_allclose(errors, np.maximum(roots - low, high - roots), rtol=1e-6, atol=1e-15)
    assert errors[-1] == 0.0
    # Every exact form within the slack has its root within the error.
    share = rng.uniform(-1, 1, (20, points))
    exact = np.sqrt(np.maximum(forms + share * slack, 0.0))
    assert (np.abs(exact - roots) <= errors * (1 + 1e-12) + 1e-15 * (1 + roots)).all()


def test_roots_of_forms_that_are_not_finite():
    roots, errors = roots_of_forms(np.ones((2, 3)), np.array([np.nan, np.inf, 1.0]), 1e-16, 0.0)
    assert np.isnan(roots[0])
    assert np.isnan(errors[0])
    assert roots[1] == np.inf
    assert np.isnan(errors[1])
    assert roots[2] == 1.0
    errors = roots_of_forms(np.array([[np.inf, np.nan]]), np.ones(2), 1e-16, 0.0)[1]
    assert errors[0] == np.inf
    assert np.isnan(errors[1])


@pytest.mark.parametrize("size", [255, 520, 700, 900])
def test_eigenvalues_of_matrices_with_an_oracle(size):
    """As LAPACK has them: well separated, repeated and next to zero."""
    rng = np.random.default_rng(size)
    q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    expected = np.sort(np.repeat(10.0 ** -np.arange(size // 5), 5)[:size])
    a = (q[:, : len(expected)] * expected) @ q[:, : len(expected)].T
    a = (a + a.T) / 2
    for vectors in (False, True):
        values, columns = eigh(a, vectors=vectors)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=0, atol=1e-14)
        if vectors:
            np.testing.assert_allclose((columns * values) @ columns.T, a, rtol=0, atol=1e-13)
            np.testing.assert_allclose(columns.T @ columns, np.eye(size), rtol=0, atol=1e-12)
