"""Fewer right-hand sides than features: what is left out is measured, and counts in every bound."""

import math

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd.backends.tall_skinny import pivoted_basis
from fastmcmd.estimate.leading_columns import leading_columns, omissible


def omitted(rows, weight, basis):
    """The weighted norm of what a basis leaves, from the definition."""
    difference = rows - (rows @ basis) @ basis.T
    return math.sqrt(float(np.sum(weight[:, None] * difference**2)))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 300),
    st.integers(17, 120),
    st.floats(0.05, 0.9),
    st.sampled_from([1e-12, 1e-8, 1e-4, 1e-2]),
)
def test_against_singular_values(seed, n, rank, decay, share):
    """The basis omits at most the limit, and has about as few columns as the singular vectors."""
    rng = np.random.default_rng(seed)
    mixing = np.linalg.qr(rng.normal(size=(rank, rank)))[0]
    rows = rng.normal(size=(n, rank)) * decay ** np.arange(rank) @ mixing
    weight = rng.gamma(1.0, size=n)
    limit = share * math.sqrt(float(np.sum(weight[:, None] * rows**2)))
    leading = leading_columns([rows], [weight], limit)
    values = scipy.linalg.svdvals(np.sqrt(weight)[:, None] * rows)
    tails = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1])
    least = int(np.sum(tails > limit))
    if leading is None:
        # No fewer columns, or their directions are below the rounding of the largest.
        assert least > 0.6 * rank or share < 1e-7
        return
    columns = leading.basis.shape[1]
    np.testing.assert_allclose(leading.basis.T @ leading.basis, np.eye(columns), atol=1e-12)
    np.testing.assert_allclose(leading.rows[0], rows @ leading.basis, atol=1e-13 * values[0])
    assert leading.omitted <= limit
    assert leading.omitted == pytest.approx(
        omitted(rows, weight, leading.basis), rel=1e-3, abs=1e-14
    )
    assert columns <= (least + 4 if share > 1e-7 else rank)


def test_graded_columns():
    """Columns far below the rounding of the largest are kept if the limit is below them."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 60)) * 10.0 ** -np.arange(60)
    leading = leading_columns([rows], [np.ones(500)], 1e-13)
    assert 13 <= leading.basis.shape[1] <= 17
    assert leading.omitted <= 1e-13
    assert leading_columns([rows], [np.ones(500)], 1e-20) is None  # rounding of the rows


def test_rare_rows_are_represented():
    """Seven rows of ten thousand, in directions of their own at random places."""
    rng = np.random.default_rng(1)
    rows = np.zeros((10_000, 80))
    rows[:, :5] = rng.normal(size=(10_000, 5))
    rare = rng.choice(10_000, 7, replace=False)
    rows[rare, 40:47] = np.diag(rng.uniform(1e-3, 1.0, 7))
    leading = leading_columns([rows], [np.full(10_000, 1e-4)], 1e-7)
    assert leading.basis.shape[1] == 12
    np.testing.assert_allclose(leading.rows[0] @ leading.basis.T, rows, atol=1e-12)


@pytest.mark.parametrize("rows", [np.zeros((30, 40)), np.full((30, 40), 1e-200)])
def test_rows_that_are_nothing(rows):
    leading = leading_columns([rows], [np.ones(30)], 1e-6)
    assert leading.basis.shape == (40, 1)
    assert leading.omitted <= 1e-6


def test_nothing_is_saved():
    assert leading_columns([np.eye(40)], [np.ones(40)], 1e-3) is None
    assert leading_columns([np.ones((30, 8))], [np.ones(30)], 1e-3) is None


def test_omissible_residual_is_limited():
    assert omissible(1e-6, 2.0) == pytest.approx(2e-7)
    assert omissible(1e-6, 2.0, 1e-6) == pytest.approx(5e-7)
    assert omissible(1e-6, 2.0, np.inf) == pytest.approx(5e-5)


def problem(n=1200, d=3, seed=3):
    """Student-t predictions, some of them far wider than the rest."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    scale = np.full(n, 0.4)
    scale[rng.choice(n, 5, replace=False)] = 30.0
    mean = np.sin(x[:, 0])
    y = mean + scale * rng.standard_t(4, n)
    return x, y, fm.predictive.StudentT(4.0, mean, scale)


OPTIONS = {"x_kernel": fm.RBF(0.3), "y_kernel": fm.RBF(0.5), "lam": 0.01, "solver": "cg"}


def check_bounds(run):
    """Values against a run with a tolerance far below, whose columns are others."""
    results = {tol: run(tol) for tol in (1e-3, 1e-5, 1e-7)}
    for tol in (1e-3, 1e-5):
        difference = np.abs(results[tol].values - results[1e-7].values)
        assert (difference <= results[tol].error_bounds + results[1e-7].error_bounds).all()
        assert results[tol].error_bound <= tol


def test_heavy_tails_keep_their_bounds():
    x, y, prediction = problem()
    check_bounds(lambda tol: fm.cce(x, y, prediction, **OPTIONS, tol=tol))


def test_two_regularisers_keep_their_bounds():
    x, y, prediction = problem()
    draws = prediction.sample(1, np.random.default_rng(0)).reshape(-1)
    check_bounds(lambda tol: fm.mcmd(x, x, y, x, draws, **OPTIONS, tol=tol, lam_prime=0.05))


def test_witness_and_files(tmp_path):
    """Other points, the witness function and a saved estimator use the same few columns."""
    x, y, prediction = problem()
    estimator = fm.ConditionalCongruence(**OPTIONS, tol=1e-6).fit(x, y, prediction)
    exact = fm.ConditionalCongruence(**OPTIONS, tol=1e-9).fit(x, y, prediction)
    form = estimator.fitted().form
    assert form.basis is not None
    assert form.columns < form.features.rank
    rng = np.random.default_rng(5)
    points, outputs = rng.normal(size=(20, 3)), np.linspace(-9.0, 9.0, 30)
    np.testing.assert_allclose(
        estimator.witness(points, outputs), exact.witness(points, outputs), atol=1e-5
    )
    np.testing.assert_allclose(
        estimator.score_samples(points), exact.score_samples(points), atol=2e-6
    )
    path = tmp_path / "estimator.npz"
    estimator.save(path)
    loaded = fm.load(path)
    np.testing.assert_array_equal(loaded.score_samples(points), estimator.score_samples(points))
    np.testing.assert_array_equal(
        loaded.witness(points, outputs), estimator.witness(points, outputs)
    )


def test_columns_are_chosen_once(tmp_path):
    """Forty directions near the limit, of which a second choice would omit some more."""
    rng = np.random.default_rng(1)
    n, classes, rare = 2000, 60, 40
    x = rng.normal(size=(n, 5))
    p = np.exp(rng.normal(size=(n, classes)))
    p[:, classes - rare :] *= 1e-8 * p[:, : classes - rare].sum(axis=1, keepdims=True)
    p /= p.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(classes, p=row) for row in p])
    estimator = fm.ConditionalCongruence(
        x_kernel=fm.RBF(1.0), y_kernel=fm.Delta(), lam=0.01, tol=1e-6
    ).fit(x, y, fm.Categorical(p))
    form = estimator.fitted().form
    assert form.basis.shape[0] == form.features.rank
    estimator.save(tmp_path / "estimator.npz")
    loaded = fm.load(tmp_path / "estimator.npz")
    outputs = np.arange(3)
    np.testing.assert_array_equal(loaded.witness(x[:2], outputs), estimator.witness(x[:2], outputs))


def test_threads_do_not_change_bits():
    x, y, prediction = problem()
    values = []
    before = fm.get_num_threads()
    try:
        for threads in (1, 2):
            fm.set_num_threads(threads)
            values.append(fm.cce(x, y, prediction, **OPTIONS).values)
    finally:
        fm.set_num_threads(before)
    np.testing.assert_array_equal(*values)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 70),
    st.integers(1, 70),
    st.floats(0.1, 1.0),
    st.sampled_from([1e-12, 1e-8, 1e-4, 0.3]),
)
def test_pivoted_basis(seed, size, rank, decay, share):
    """The basis is orthonormal, omits at most what it may, and has no more columns than the rank."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(min(rank, size), size)) * decay ** np.arange(size)
    gram = rows.T @ rows
    limit = share * float(np.trace(gram))
    basis = pivoted_basis(gram, limit, size, 64 * np.finfo(float).eps / 2)
    columns = basis.shape[1]
    np.testing.assert_allclose(basis.T @ basis, np.eye(columns), atol=1e-12)
    assert omitted(rows, np.ones(len(rows)), basis) ** 2 <= limit + 1e-13 * size * np.trace(gram)
    assert columns <= len(rows)
    if columns > 1:
        assert pivoted_basis(gram, limit, columns - 1, 0.0) is None


def test_pivoted_basis_of_zeros():
    np.testing.assert_array_equal(
        pivoted_basis(np.zeros((3, 3)), 0.0, 3, 1e-15), [[1.0], [0.0], [0.0]]
    )
