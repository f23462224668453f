"""Evaluation points unlike all inputs, against the plain definition in float64."""

from __future__ import annotations

import warnings

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.estimate import lowrank, row_images
from fastmcmd.estimate.lowrank import LowRankFit
from fastmcmd.estimate.primal import PrimalFit
from fastmcmd.gram import EXACT, GramOperator

X_KERNEL, Y_KERNEL, LAM = fm.RBF(0.5), fm.RBF(0.7), 0.01
OF_ORACLE = 5e-8  # its own error where values are next to zero


def data(seed, n=1500, d=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = x[:, 0] + 0.3 * rng.normal(size=n)
    return x, y, x[:, 0] + 0.5 * rng.normal(size=n)


def points(seed, d, count, distance, q=1200):
    """Return ordinary points, of which some are replaced by points at about this distance."""
    rng = np.random.default_rng(seed + 1)
    at = rng.normal(size=(q, d))
    direction = rng.normal(size=(count, d))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    index = rng.choice(q, count, replace=False)
    at[index] = direction * (3 + distance * rng.uniform(1, 2, size=(count, 1)))
    return at, index


def cce(x, y, draws, at, **options):
    options = {"x_kernel": X_KERNEL, "y_kernel": Y_KERNEL, "lam": LAM, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("error", fm.ToleranceWarning)
        return fm.cce(x, y, draws, at=at, **options)


def check(result, expected, some=slice(None)):
    assert result.error_bound <= result.tol
    off = np.abs(result.values[some] - expected)
    assert (off <= result.error_bounds[some] + OF_ORACLE).all()


def looked_at(index, q=1200):
    """Return some points: at most 60 that are unlike the inputs, and 60 of all."""
    return np.union1d(index[:60], np.arange(0, q, q // 60))


def definition(x, y, draws, at, kernel=X_KERNEL, weights=None, lam=LAM):
    return oracle.mcmd(at, x, y, x, draws, kernel, Y_KERNEL, lam, None, weights, weights)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    count=st.sampled_from([1, 2, 10, 100, 1000]),
    distance=st.one_of(st.floats(0.5, 30), st.sampled_from([1e3, 1e6])),
)
def test_landmarks_miss_points_at_random_places(seed, count, distance):
    x, y, draws = data(seed, 1100)
    at, index = points(seed, 1, count, distance)
    some = looked_at(index)
    check(cce(x, y, draws, at), definition(x, y, draws, at[some]), some)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    d=st.sampled_from([1, 2, 4, 8]),
    count=st.sampled_from([1, 10, 600]),
    distance=st.one_of(st.floats(0.5, 30), st.just(1e6)),
    solver=st.sampled_from(["auto", "cg", "cholesky"]),
)
def test_every_solver_serves_points_at_random_places(seed, d, count, distance, solver):
    x, y, draws = data(seed, 500, d)
    at, index = points(seed, d, count, distance)
    some = looked_at(index)
    check(cce(x, y, draws, at, solver=solver), definition(x, y, draws, at[some]), some)


CASES = ["weights", "little memory", "two kernels", "vague rows", "sampled"]


@pytest.mark.parametrize("case", CASES)
def test_rare_points_in_low_rank_form(case, rng):
    x, y, draws = data(5)
    at, _ = points(5, 1, 30, 10.0)
    kernel, weights, options = X_KERNEL, None, {}
    if case == "weights":
        weights = np.exp(rng.normal(size=len(x))) * (rng.uniform(size=len(x)) > 0.1)
        options["weights"] = weights
    if case == "little memory":
        options["memory_limit"] = "12MB"
    if case == "two kernels":
        kernel = options["x_kernel"] = 0.5 * fm.RBF(2.0) + 0.5 * fm.RBF(0.1)
    if case == "vague rows":
        x[:4] += 40  # rows unlike the others
    if case == "sampled":
        options["certificate"] = "sampled"
    result = cce(x, y, draws, at, **options)
    assert result.info.solver == "lowrank"
    assert any("values from all rows" in note for note in result.info.notes)
    check(result, definition(x, y, draws, at, kernel, weights))


@pytest.mark.parametrize("lam_prime", [LAM, 0.03])
@pytest.mark.parametrize("same_inputs", [True, False])
def test_systems_of_two_samples(lam_prime, same_inputs):
    x, y, draws = data(6, 1300)
    other = x if same_inputs else x[:1200] * 1.1
    at, index = points(6, 1, 40, 8.0)
    at[index[:5]] = 1e9  # equal to nothing: every kernel value is 0
    result = fm.mcmd(
        at, x, y, other, draws[: len(other)], x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM,
        lam_prime=lam_prime,
    )  # fmt: skip
    assert result.info.solver == "lowrank"
    args = at, x, y, other, draws[: len(other)], X_KERNEL, Y_KERNEL, LAM, lam_prime
    check(result, oracle.mcmd(*args))
    assert (result.values[index[:5]] == 0).all()


def test_same_bits_with_any_number_of_threads():
    x, y, draws = data(7)
    at, _ = points(7, 1, 300, 5.0)
    threads, results = fm.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            fm.set_num_threads(count)
            results.append(cce(x, y, draws, at))
    finally:
        fm.set_num_threads(threads)
    for result in results[1:]:
        np.testing.assert_array_equal(result.values, results[0].values)
        np.testing.assert_array_equal(result.error_bounds, results[0].error_bounds)


def test_a_fit_serves_several_sets_of_points(tmp_path):
    x, y, draws = data(8)
    cc = fm.ConditionalCongruence(x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM).fit(x, y, draws)
    assert cc.result_.info.solver == "lowrank"
    cc.save(tmp_path / "cc.npz")
    loaded = fm.load(tmp_path / "cc.npz")
    loaded.save(tmp_path / "again.npz")
    again = fm.load(tmp_path / "again.npz")
    for seed, count, distance in ((1, 20, 3.0), (2, 700, 20.0), (3, 0, 1.0)):
        at, index = points(seed, 1, count, distance)
        with warnings.catch_warnings():
            warnings.simplefilter("error", fm.ToleranceWarning)
            result = cc.evaluate(at)
            from_file = [one.evaluate(at) for one in (loaded, again)]
        some = looked_at(index)
        check(result, definition(x, y, draws, at[some]), some)
        for one in from_file:
            np.testing.assert_array_equal(one.values, result.values)
            np.testing.assert_array_equal(one.error_bounds, result.error_bounds)
    assert not any("all rows" in note for note in result.info.notes)  # none of the calls before


def test_a_file_of_very_many_rows_says_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr("fastmcmd.estimate.saved._ROW_BYTES", 1000)
    x, y, draws = data(9)
    cc = fm.ConditionalCongruence(x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM).fit(x, y, draws)
    cc.save(tmp_path / "cc.npz")
    at, _ = points(9, 1, 20, 5.0)
    with pytest.warns(fm.ToleranceWarning, match="the file holds landmarks only") as caught:
        result = fm.load(tmp_path / "cc.npz").evaluate(at)
    assert "auto" not in str(caught[0].message)
    expected = definition(x, y, draws, at)
    assert (np.abs(result.values - expected) <= result.error_bounds + OF_ORACLE).all()


@pytest.mark.parametrize(
    ("options", "unsaid"),
    [
        ({}, "auto"),
        ({"solver": "cg"}, "cg"),
        ({"solver": "lowrank", "rank": 20}, "lowrank"),
        ({"solver": "cholesky"}, "cholesky"),
    ],
)
def test_no_warning_recommends_what_was_used(options, unsaid):
    x, y, draws = data(10, 1200)
    with pytest.warns(fm.ToleranceWarning) as caught:
        fm.cce(x, y, draws, x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=1e-5, tol=1e-13, **options)
    assert f"'{unsaid}'" not in str(caught[0].message)


@pytest.mark.parametrize("form", [LowRankFit, PrimalFit])
def test_points_out_of_reach_take_no_time(form, monkeypatch):
    """A bound that is large everywhere, for another reason, ends with a trial at some points."""
    x, y, draws = data(11)
    evaluated = []
    matmul = GramOperator.cross_matmul

    def with_count(self, grid, v, dtype):
        if sum(v.shape) and self.kernel == X_KERNEL * X_KERNEL:
            evaluated.append(len(grid))
        return matmul(self, grid, v, dtype)

    monkeypatch.setattr(GramOperator, "cross_matmul", with_count)
    options = {"solver": "lowrank", "rank": 12} if form is LowRankFit else {"solver": "cg"}
    at, _ = points(11, 1, 0, 1.0, q=5000)
    with pytest.warns(fm.ToleranceWarning):
        fm.cce(
            x, y, draws, at=at, x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM, tol=1e-12, **options
        )
    assert 0 < max(evaluated) <= 256


def test_scales_bound_the_norms_of_coefficients(rng):
    """``2 |D^(1/2) a(x)|`` is at most the scale, which is near ``2 |D^(-1/2) k(x)|``."""
    x, at = rng.normal(size=(300, 2)), 4 * rng.normal(size=(200, 2))
    weight = np.exp(rng.normal(size=300))
    shift = weight.sum() * LAM / weight
    a = oracle.coefficients(X_KERNEL, x, at, LAM, weight)
    operator = GramOperator(get_backend("auto", X_KERNEL), X_KERNEL, x, EXACT, 1 << 24)
    squares, rounding = row_images.coefficient_norms(operator, 1 / shift, at)
    norms = np.sqrt(squares + rounding)
    exact = np.sqrt((X_KERNEL(x, at) ** 2 / shift[:, None]).sum(axis=0))
    np.testing.assert_allclose(norms**2, exact**2, rtol=1e-9, atol=1e-11)
    assert (np.sqrt((shift[:, None] * a**2).sum(axis=0)) <= norms * (1 + 1e-9)).all()


def test_kernels_whose_squares_overflow_keep_their_bounds(rng):
    x = rng.normal(size=(50, 2))
    kernel = fm.Polynomial(degree=3, gamma=1.0)
    operator = GramOperator(get_backend("auto", kernel), kernel, x, EXACT, 1 << 24)
    squares, _ = row_images.coefficient_norms(operator, np.ones(50), np.full((3, 2), 1e101))
    assert (squares == np.inf).all()


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_many_points_keep_landmarks_as_long_as_these_pay(share, monkeypatch):
    """Values from all rows at some points take less time than CG, whose values are at all points."""
    x, y, draws = data(12)
    at, index = points(12, 1, int(share * 3000), 1e6, q=3000)
    some = looked_at(index, 3000)
    expected = definition(x, y, draws, at[some])
    result = cce(x, y, draws, at)
    assert result.info.solver == "lowrank"
    check(result, expected, some)
    monkeypatch.setattr("fastmcmd.estimate.lowrank_choice._most_work", lambda *arguments: 0.0)
    other = cce(x, y, draws, at)
    if share > 0.1:
        assert other.info.solver != "lowrank"
    check(other, expected, some)


def test_chunks_of_points_give_the_bits_of_all_at_once(monkeypatch):
    x, y, draws = data(13)
    at, _ = points(13, 1, 900, 7.0)
    at_once = cce(x, y, draws, at)
    monkeypatch.setattr(lowrank, "points_at_once", lambda *arguments: 70)
    chunks = cce(x, y, draws, at)
    np.testing.assert_array_equal(chunks.values, at_once.values)
    np.testing.assert_array_equal(chunks.error_bounds, at_once.error_bounds)
