"""Mean features on panels, block by block, against those of all rows at once."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.estimate import outputs

OPTIONS = {"x_kernel": fm.RBF(1.0), "y_kernel": fm.RBF(0.5), "lam": 0.01, "solver": "cg"}


@pytest.fixture(autouse=True)
def _few_rows_suffice(monkeypatch):
    monkeypatch.setattr(outputs, "LEAST_ROWS", 1000)


def problem(n=1200, seed=0, far=()):
    """Student-t predictions in two columns; a few outcomes may be ``far`` from all predictions."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    mean = np.sin(x[:, 0])
    y = mean + rng.standard_t(3, n)
    y[rng.choice(n, len(far), replace=False)] = far
    return x, y, fm.StudentT(3.0, mean, np.ones(n))


@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_against_all_rows_at_once(monkeypatch, tol):
    x, y, prediction = problem()
    weights = np.random.default_rng(1).gamma(1.0, size=len(y))
    options = {**OPTIONS, "tol": tol, "weights": weights}
    in_blocks = fm.cce(x, y, prediction, **options)
    monkeypatch.setattr(outputs, "LEAST_ROWS", len(y) + 1)
    at_once = fm.cce(x, y, prediction, **options)
    assert in_blocks.error_bound <= tol
    gap = np.abs(in_blocks.values - at_once.values)
    assert (gap <= in_blocks.error_bounds + at_once.error_bounds).all()


@pytest.mark.parametrize("far", [(1e6, 1e6), (50.0, 60.0, 1e6), (-99999.0,), (200.0,) * 30])
def test_outcomes_far_out_are_represented(far):
    """Sentinels and other outcomes that no prediction expects: the tolerance is met as without them."""
    x, y, prediction = problem(far=far)
    result = fm.cce(x, y, prediction, **OPTIONS, tol=1e-6)
    assert result.error_bound <= 1e-6
    exact = fm.cce(x, y, prediction, **OPTIONS, tol=1e-8)
    assert (np.abs(result.values - exact.values) <= result.error_bounds + 1e-8).all()


def test_norms_of_rows():
    """Errors and variances of rows are those of the plain definition."""
    from fastmcmd.embedding.line import line_means
    from fastmcmd.estimate.panel_rows import panel_rows
    from fastmcmd.estimate.task import Task
    from fastmcmd.options import Options

    x, y, prediction = problem()
    task = Task(fm.RBF(1.0), fm.RBF(0.5), Options.of(tol=1e-6), x)
    features, (means,) = line_means(task.y_kernel, np.unique(y), [prediction], 1e-9)
    rows = panel_rows(features, y, means, np.full(len(y), 0.01), task)
    some = np.arange(0, len(y), 97)
    mean, error = features.expected(prediction.take(some), 1e-9)
    p = features.transform(y[some, None])
    np.testing.assert_allclose(rows.rows[some] @ rows.basis.T, p - mean, atol=1e-6)
    np.testing.assert_allclose(rows.squares[some], ((p - mean) ** 2).sum(axis=1), atol=1e-8)
    np.testing.assert_allclose(rows.expected_squares[some], (mean**2).sum(axis=1), atol=1e-8)
    assert (rows.errors[some] < 1e-7).all()
    assert (error < 1e-7).all()


@pytest.mark.parametrize("n", [300, 1500])
def test_means_of_rows_in_any_order(n):
    """Of few predictions, which are all integrated, and of many, which are interpolated."""
    from fastmcmd.embedding.line import line_means

    _, y, prediction = problem(n)
    _, (means,) = line_means(fm.RBF(0.5), np.unique(y), [prediction], 1e-9)
    order = np.random.default_rng(0).permutation(n)
    mean, error = means(np.arange(n))
    np.testing.assert_allclose(means(order)[0], mean[order], atol=1e-14)
    np.testing.assert_allclose(means(order)[1], error[order], atol=1e-14)
    np.testing.assert_allclose(means(order[:7])[0], mean[order[:7]], atol=1e-14)


def test_threads_do_not_change_bits():
    x, y, prediction = problem(9000)  # several blocks
    values, before = [], fm.get_num_threads()
    try:
        for threads in (1, 2):
            fm.set_num_threads(threads)
            values.append(fm.cce(x, y, prediction, **OPTIONS, tol=1e-5).values)
    finally:
        fm.set_num_threads(before)
    np.testing.assert_array_equal(*values)


def test_panels_that_are_too_many_for_the_goal(monkeypatch):
    """Panels of a coarser goal meet the tolerance where far outcomes leave too few for a fine one."""
    from fastmcmd.embedding import line

    rng = np.random.default_rng(0)
    n = 600
    x = rng.normal(size=(n, 2))
    mean = np.sin(x[:, 0])
    y = mean + 0.3 * rng.standard_cauchy(n)
    prediction = fm.StudentT(1.0, mean, np.full(n, 0.3))
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1.0), "lam": 0.1}
    fine = fm.cce(x, y, prediction, **options)
    monkeypatch.setattr(line, "_MOST", fine.info.rank - 1)
    coarse = fm.cce(x, y, prediction, **options)
    assert coarse.info.form == "feature"
    assert coarse.info.rank < fine.info.rank
    assert coarse.error_bound <= 1e-6
    gap = np.abs(coarse.values - fine.values)
    assert (gap <= coarse.error_bounds + fine.error_bounds).all()
