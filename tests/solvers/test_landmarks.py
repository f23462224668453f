"""The search for landmarks: its factor, the residuals that it reports, and how it draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import cho_solve, cholesky
from threadpoolctl import threadpool_limits  # scikit-learn needs it, too

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.backends.cpu import accepted_pivots
from fastmcmd.gram import KernelFeatures
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.solvers.rounding import bounded_residuals, factor_error

KERNELS = {
    "rbf": fm.RBF(0.6),
    "laplacian": fm.Laplacian(0.7),
    "matern": fm.Matern(1.5, 0.9),
    "polynomial": fm.Polynomial(3, gamma=0.4),
    "linear": fm.Linear(),
    "sum": fm.RBF(0.5) + fm.Polynomial(2, gamma=0.3),
}


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """Run thousands of small factorisations: on a busy machine BLAS's threads take 20 times as long."""
    with threadpool_limits(1, "blas"):
        yield


def search_of(kernel, rows, most=None, weight=None, seed=0, backend="auto", offset=None):
    weight = np.ones(len(rows)) if weight is None else weight
    return LandmarkSearch(
        get_backend(backend, kernel), kernel, rows, weight, len(rows) if most is None else most,
        np.random.default_rng(seed), offset,
    )  # fmt: skip


def check(search, kernel):
    """Factor and residuals equal SciPy's, as exactly as the condition of K_ZZ allows."""
    rows, pivots = np.asarray(search.rows, dtype=float), search.pivots
    inside = kernel(rows[pivots])
    cross = kernel(rows[pivots], rows)
    size = np.abs(inside).max()
    assert len(np.unique(pivots)) == len(pivots) == search.rank
    features = search.kernel_features()
    np.testing.assert_array_equal(features.pivots, search.rows[pivots])
    assert (np.triu(features.factor, 1) == 0).all()
    # Backward error: exact for kernel values off by rounding, however badly conditioned they are.
    slack = 40 * (search.rank + 10) * 2.3e-16 * size
    np.testing.assert_allclose(features.factor @ features.factor.T, inside, rtol=0, atol=slack)
    np.testing.assert_allclose(
        np.einsum("ij,ij->j", search.columns, search.columns) + search.residual_diagonal,
        np.maximum(kernel.diagonal(rows), 0), rtol=0, atol=slack,
    )  # fmt: skip
    assert (search.residual_diagonal >= 0).all()
    assert (search.residual_diagonal[pivots] == 0).all()
    condition = np.linalg.cond(inside)
    if condition < 1e9:
        lower = cholesky(inside, lower=True)
        np.testing.assert_allclose(features.factor, lower, rtol=0, atol=slack * condition)
        residual = kernel.diagonal(rows) - np.einsum(
            "ij,ij->j", cross, cho_solve((lower, True), cross)
        )
        np.testing.assert_allclose(
            search.residual_diagonal, residual, rtol=0, atol=slack * condition
        )


@pytest.mark.parametrize("backend", ["cpu", "numba", "numpy"])
@pytest.mark.parametrize("name", KERNELS)
def test_factor_and_residuals(rng, name, backend):
    rows = rng.normal(size=(150, 3))
    search = search_of(KERNELS[name], rows, backend=backend)
    for rank in (1, 3, 17, 40, 90):
        search.grow(rank)
        assert search.rank == rank or search.exhausted
        assert search.rank <= rank
        check(search, KERNELS[name])


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    d=st.integers(1, 4),
    most=st.integers(1, 80),
    name=st.sampled_from(sorted(KERNELS)),
    single=st.booleans(),
    repeats=st.booleans(),
)
def test_any_rows(seed, n, d, most, name, single, repeats):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)).astype(np.float32 if single else np.float64)
    if repeats:
        rows = rows[rng.integers(0, 1 + n // 3, n)]
    search = search_of(KERNELS[name], rows, most, seed=seed)
    search.grow(most)
    distinct = len(np.unique(rows, axis=0))
    assert 1 <= search.rank <= min(most, distinct)
    check(search, KERNELS[name])
    before = search.rank
    search.grow(most + 10)  # no residual, or no more landmarks allowed
    assert search.rank == before


def test_smooth_kernels_end_at_rounding(rng):
    """A polynomial of degree 2 in 2 variables has rank 6: the search finds no seventh landmark."""
    search = search_of(fm.Polynomial(2, gamma=0.5), rng.normal(size=(400, 2)), 100)
    search.grow(100)
    assert search.rank == 6
    assert search.exhausted
    assert search.residual_diagonal.max() <= 1e-12 * search.diagonal.max()


def test_offset_moves_rows_and_landmarks(rng):
    rows = 1e6 + rng.normal(size=(80, 40))
    offset = rows.mean(axis=0)
    kernel = fm.RBF(0.02)
    search = search_of(kernel, rows, 30, offset=offset)
    search.grow(30)
    inside = kernel(rows[search.pivots] - offset)
    features = search.kernel_features()
    np.testing.assert_allclose(features.factor @ features.factor.T, inside, atol=1e-9)
    assert features.offset is offset


# --- how pivots are drawn ------------------------------------------------------------------------


def pair_probabilities(matrix, weight):
    """Return the exact chance of each ordered pair of first two pivots, by the definition."""
    n = len(matrix)
    out = np.zeros((n, n))
    first = weight * matrix.diagonal()
    first = first / first.sum()
    for i in range(n):
        residual = matrix.diagonal() - matrix[i] ** 2 / matrix[i, i]
        second = weight * np.maximum(residual, 0)
        second[i] = 0
        out[i] = first[i] * second / second.sum()
    return out


@pytest.mark.parametrize("weighted", [False, True])
def test_pivots_follow_randomly_pivoted_cholesky(weighted):
    """Blocks with rejection draw from the distribution of one pivot at a time."""
    rows = np.array([[0.0], [0.3], [0.5], [1.5], [2.1]])
    kernel = fm.RBF(0.8) + fm.Linear()  # diagonals differ
    weight = np.array([1.0, 3.0, 0.0, 2.0, 0.5]) if weighted else np.ones(5)
    chance = pair_probabilities(kernel(rows), weight)
    runs, counts = 1500, np.zeros((5, 5))
    backend, rng = get_backend("numpy", kernel), np.random.default_rng(7)
    for _ in range(runs):
        search = LandmarkSearch(backend, kernel, rows, weight, 2, rng)
        search.grow(2)
        counts[tuple(search.pivots)] += 1
    possible = chance > 0
    assert counts[~possible].sum() == 0
    assert stats.chisquare(counts[possible], runs * chance[possible]).pvalue > 1e-3


@pytest.mark.slow
def test_third_pivot_too():
    """Rejection continues within a block: ordered triples of four points."""
    rows = np.array([[0.0], [0.4], [1.0], [1.3]])
    kernel = fm.Laplacian(0.9)
    matrix = kernel(rows)
    triples = list(itertools.permutations(range(4), 3))
    pairs = pair_probabilities(matrix, np.ones(4))
    chance = []
    for i, j, k in triples:
        pivots = [i, j]
        residual = matrix - matrix[:, pivots] @ np.linalg.solve(
            matrix[np.ix_(pivots, pivots)], matrix[pivots]
        )
        residual_diagonal = residual.diagonal().copy()
        residual_diagonal[pivots] = 0
        chance.append(pairs[i, j] * residual_diagonal[k] / residual_diagonal.sum())
    backend, rng = get_backend("numpy", kernel), np.random.default_rng(11)
    counts = dict.fromkeys(triples, 0)
    for _ in range(1500):
        search = LandmarkSearch(backend, kernel, rows, np.ones(4), 3, rng)
        search.grow(3)
        counts[tuple(int(index) for index in search.pivots)] += 1
    assert stats.chisquare(list(counts.values()), 1500 * np.array(chance)).pvalue > 1e-3


def test_rows_of_no_weight_are_never_drawn(rng):
    weight = (np.arange(60) % 3 == 0).astype(float)
    search = search_of(fm.Laplacian(0.5), rng.normal(size=(60, 2)), weight=weight)
    search.grow(60)
    assert (weight[search.pivots] > 0).all()
    assert search.rank == 20
    check(search, fm.Laplacian(0.5))


def test_the_same_seed_draws_the_same(rng):
    rows = rng.normal(size=(200, 2))
    pivots = []
    for _ in range(2):
        search = search_of(fm.RBF(0.5), rows, seed=3)
        search.grow(40)
        pivots.append(search.pivots)
    np.testing.assert_array_equal(*pivots)
    other = search_of(fm.RBF(0.5), rows, seed=4)
    other.grow(40)
    assert (other.pivots != pivots[0]).any()


# --- degenerate rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_equal_rows_end_the_search(name):
    search = search_of(KERNELS[name], np.full((50, 3), 0.7), 20)
    search.grow(20)
    assert (search.rank, search.exhausted) == (1, True)
    assert np.isfinite(search.columns).all()
    np.testing.assert_allclose(search.residual_diagonal, 0.0, atol=1e-13 * search.diagonal[0])


def test_repeated_rows_end_the_search(rng):
    rows = np.repeat(rng.normal(size=(7, 2)), 30, axis=0)
    search = search_of(fm.Laplacian(1.0), rows, 50)
    search.grow(50)
    assert (search.rank, search.exhausted) == (7, True)
    check(search, fm.Laplacian(1.0))


@pytest.mark.parametrize("how", ["grow", "take"])
def test_kernel_that_is_zero_everywhere_has_a_feature_that_is_zero(how):
    """A search without a landmark once left nothing to compute with."""
    search = search_of(fm.Linear(), np.zeros((9, 2)), 4)
    if how == "grow":
        search.grow(4)
    else:
        search.take(np.arange(3))
    assert search.rank == 1
    features = search.kernel_features()
    values, _, residual = features.of_rows(
        np.array([[1.0, 2.0], [0.0, 0.0]]), np.dtype(np.float64), keep=True, sizes=True
    )
    np.testing.assert_array_equal(values.values, np.zeros((1, 2)))
    np.testing.assert_array_equal(values.sizes, np.zeros(2))
    np.testing.assert_array_equal(residual, [5.0, 0.0])


def test_zero_rows_among_others_are_no_landmarks(rng):
    rows = np.vstack([np.zeros((30, 3)), rng.normal(size=(10, 3))])
    search = search_of(fm.Linear(), rows, 20)
    search.grow(20)
    assert search.rank == 3
    assert (search.pivots >= 30).all()
    check(search, fm.Linear())


# --- given landmarks -----------------------------------------------------------------------------


def test_given_landmarks_in_order_without_repeats(rng):
    rows = rng.normal(size=(300, 2))
    rows[200:] = rows[:100]
    search = search_of(fm.Laplacian(0.8), rows)
    search.take(np.arange(300))
    np.testing.assert_array_equal(search.pivots, np.arange(200))
    assert search.trial_count == 300
    check(search, fm.Laplacian(0.8))


def test_factor_of_nearly_dependent_landmarks(rng):
    """In one block, its factor was off by 4e-12 and more: substitution errors there."""
    x = rng.normal(size=(4200, 1))
    kernel = fm.RBF(0.5)
    first = LandmarkSearch(get_backend("auto", kernel), kernel, x, np.ones(4200), 60, rng)
    first.grow(35)
    marks = first.kernel_features().pivots
    again = LandmarkSearch(get_backend("auto", kernel), kernel, marks, np.ones(len(marks)), 60, rng)
    again.take(np.argsort(marks[:, 0]))
    features = again.kernel_features()
    assert features.inverse_norm > 1e5
    gap = kernel(features.pivots, features.pivots) - features.factor @ features.factor.T
    assert np.abs(gap).max() < 1e-14


@pytest.mark.parametrize("rank", [1, 2, 40, 300])
@pytest.mark.parametrize("least", [1.0, 1e-3, 1e-6])
def test_the_inverse_norm_is_a_close_bound(rank, least, rng):
    """Agree with LAPACK's singular values, for few small ones and for many."""
    kernel = fm.RBF(0.5)
    for share in (0.01, 1.0):
        values = np.where(np.arange(rank) < share * rank, least, 1.0) * rng.uniform(1, 2, rank)
        q, _ = np.linalg.qr(rng.normal(size=(rank, rank)))
        factor = np.linalg.cholesky((q * values**2) @ q.T)
        features = KernelFeatures(
            kernel, rng.normal(size=(rank, 1)), factor, get_backend("auto", kernel)
        )
        norm = 1 / np.linalg.svd(factor, compute_uv=False)[-1]
        assert norm * (1 - 1e-6) <= features.inverse_norm <= norm * rank ** (1 / 16) * (1 + 1e-6)


def test_the_inverse_norm_of_a_singular_factor_is_infinite():
    kernel = fm.RBF(0.5)
    for least in (1e-18, 1e-200):
        factor = np.array([[1.0, 0.0], [1.0, least]])
        features = KernelFeatures(kernel, np.zeros((2, 1)), factor, get_backend("auto", kernel))
        assert features.inverse_norm == np.inf


def test_take_in_steps_then_grow(rng):
    rows = rng.normal(size=(180, 2))
    search = search_of(fm.Matern(0.5, 1.0), rows, 60)
    search.take(np.array([5, 170, 3]))
    search.take(np.array([3, 9, 5]))
    np.testing.assert_array_equal(search.pivots, [5, 170, 3, 9])
    assert search.trial_count == 6
    search.grow(50)
    assert search.rank == 50
    check(search, fm.Matern(0.5, 1.0))


def test_no_more_landmarks_than_the_limit(rng):
    search = search_of(fm.Laplacian(0.5), rng.normal(size=(90, 2)), 12)
    search.take(np.arange(40))
    assert (search.rank, search.exhausted) == (12, True)
    check(search, fm.Laplacian(0.5))
    landmark_search = search_of(fm.Laplacian(0.5), rng.normal(size=(90, 2)), 12)
    landmark_search.grow(30)
    assert (landmark_search.rank, landmark_search.exhausted) == (12, True)


def test_given_landmarks_come_in_the_order_of_what_others_miss():
    """On a fine grid in its own order, each second point was nearly reproduced by those before it."""
    rows = np.linspace(-3, 3, 60)[:, None]
    search = search_of(fm.RBF(0.5), rows)
    search.take_all()
    check(search, fm.RBF(0.5))
    assert (search.residual_diagonal <= 2e-13).all()
    features = search.kernel_features()
    near = np.linspace(-3, 3, 501)[:, None]
    f = features.transform(near)
    np.testing.assert_allclose(f @ f.T, fm.RBF(0.5)(near), rtol=0, atol=1e-11)
    assert np.linalg.norm(features.coefficients(f.T), axis=0).max() < 100


def test_rows_with_a_residual_come_first_and_the_search_ends():
    """A row whose residual was rounding was proposed again and again."""
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.normal(size=(30, 2)), 1e4 * rng.normal(size=(2, 2)), np.zeros((1, 2))]
    )
    for kernel in (fm.Polynomial(3, gamma=1.0), fm.RBF(0.5), fm.Linear()):
        search = search_of(kernel, rows)
        search.take_largest(len(rows), 1e-13)
        unexplained = search.residual_diagonal > 1e-9 * search.diagonal
        assert not unexplained.any()
        search = search_of(kernel, rows)
        search.take_largest(2, 0.0)
        assert search.rank == 2


@pytest.mark.parametrize("kernel", [fm.RBF(0.5), fm.Laplacian(1.0), fm.Linear()], ids=repr)
@pytest.mark.parametrize("far", [1e6, 1e160, 1e308])
def test_bounds_of_rows_do_not_depend_on_a_distant_one(kernel, far, rng):
    """The rounding of distances grows with the norms of rows: one of 1e308 made all bounds infinite."""
    x = rng.normal(size=(200, 2))
    search = search_of(kernel, x, most=20)
    search.grow(20)
    features = search.kernel_features()
    error = factor_error(features, 0.0)
    rows = x[:6].copy()
    near = bounded_residuals(features, rows, features.transform(rows), error)
    rows[2] = far
    with np.errstate(all="ignore"):
        beside = bounded_residuals(features, rows, features.transform(rows), error)
    near_rows = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(beside[near_rows], near[near_rows], rtol=1e-6)
    assert not np.isnan(beside[2])
    assert beside[2] >= np.asarray(kernel.diagonal(rows))[2] * (1 - 1e-6) or kernel == fm.Linear()


def decided(residual, proposals, least, most, uniform):
    """The definition of `accepted_pivots`: pivots, factor, and the number of uniform numbers."""
    residual, before = residual.copy(), residual.diagonal().copy()
    pivots, columns, draws = [], [], 0
    for index in proposals:
        if len(pivots) == most:
            break
        if residual[index, index] <= least[index]:
            continue
        if uniform is not None:
            draws += 1
            if uniform[draws - 1] * before[index] > residual[index, index]:
                continue
        columns.append(residual[:, index] / np.sqrt(residual[index, index]))
        residual -= np.outer(columns[-1], columns[-1])
        pivots.append(index)
    factor = np.tril(np.array(columns).T[pivots]) if pivots else np.empty((0, 0))
    return pivots, factor, draws


@pytest.mark.parametrize("rank", [1, 3, 40])
@pytest.mark.parametrize("is_random", [True, False])
@pytest.mark.parametrize("most", [0, 4, 100])
def test_accepted_pivots_to_the_last_bit(rng, rank, is_random, most):
    m = 30
    root = rng.normal(size=(m, rank)) * rng.uniform(0.01, 2, size=(m, 1))
    residual = root @ root.T
    least = np.maximum(1e-12 * residual.diagonal(), 0.1 * (rng.random(m) < 0.2))
    proposals = rng.choice(m, 60)  # some come again
    uniform = np.random.default_rng(7).random(60) if is_random else None
    expected, factor, draws = decided(residual, proposals, least, most, uniform)
    generator = np.random.default_rng(7) if is_random else None
    pivots, result = accepted_pivots(residual.copy(), proposals, least, most, generator)
    assert pivots.tolist() == expected
    np.testing.assert_array_equal(result, factor)
    np.testing.assert_allclose(
        result @ result.T, residual[np.ix_(pivots, pivots)], rtol=0, atol=1e-12
    )
    if is_random:  # it advances by the numbers that were needed
        after = np.random.default_rng(7)
        after.random(draws)
        assert generator.random() == after.random()


@pytest.mark.parametrize("d", [2, 40])
def test_further_candidates_keep_the_landmarks(rng, d):
    x = rng.normal(size=(400, d))
    x[300::10] += 30.0  # unlike the others
    kernel = fm.RBF(1 / d)
    search = LandmarkSearch(
        get_backend("cpu", kernel), kernel, x[:300], np.ones(300), 60, np.random.default_rng(1)
    )
    search.grow(40)
    more = search.extended(x[300:], np.repeat([1.0, 0.5], [300, 100]), 80)
    assert more.weight[:300].min() == 1.0
    np.testing.assert_array_equal(more.pivots, search.pivots)
    np.testing.assert_array_equal(more.columns[:, :300], search.columns)
    features = search.kernel_features()
    np.testing.assert_allclose(more.columns.T, features.transform(x), rtol=0, atol=1e-10)
    expected = 1.0 - (features.transform(x) ** 2).sum(axis=1)
    np.testing.assert_allclose(
        more.residual_diagonal, np.maximum(expected, 0.0), rtol=0, atol=1e-10
    )
    more.grow(80)
    assert more.rank == 80
    assert len(search.columns) == 40
    gram = kernel(x[more.pivots])
    np.testing.assert_allclose(more._factor() @ more._factor().T, gram, rtol=0, atol=1e-10)
