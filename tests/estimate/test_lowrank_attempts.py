"""When the low-rank form is tried, how often its passes run, and what ends an attempt before them."""

import math

import numpy as np
import oracle
import pytest

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.pivots import uncovered
from fastmcmd.embedding.sample import DrawnOutputs, PredictedOutputs, Sample
from fastmcmd.estimate import lowrank_choice, lowrank_form
from fastmcmd.estimate.lowrank_pass import Passes
from fastmcmd.estimate.row_stream import RowStream, StackedRowStream

X_KERNEL, Y_KERNEL = fm.RBF(0.5), fm.RBF(0.5)


def noisy(rng, n, d=1):
    x = rng.standard_normal((n, d))
    y, draws = np.sin(x[:, 0]) + 0.3 * rng.standard_normal((2, n))
    return x, y, draws


@pytest.mark.parametrize("lam", [1e-4, 1e-2])
def test_a_thousand_rows_on_a_line_take_landmarks(lam):
    x, y, draws = noisy(np.random.default_rng(0), 1000)
    result = fm.cce(x, y, draws, x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=lam)
    assert result.info.solver == "lowrank"
    exact = oracle.mcmd(x, x, y, x, draws, X_KERNEL, Y_KERNEL, lam=lam)
    assert result.error_bound <= 1e-6
    assert (np.abs(result.values - exact) <= result.error_bounds + 1e-9).all()


@pytest.mark.parametrize(("n", "d"), [(1200, 1), (2400, 2)])
def test_a_glance_rules_out_rough_kernels_before_outputs_are_looked_at(n, d, monkeypatch):
    monkeypatch.setattr("fastmcmd.estimate.fit.LowRankForms", None)  # not called
    x, y, draws = noisy(np.random.default_rng(1), n, d)
    kernel = fm.RBF(5000.0)
    result = fm.cce(x, y, draws, x_kernel=kernel, y_kernel=Y_KERNEL, lam=0.01)
    assert result.info.solver in ("cg", "cholesky")
    exact = oracle.mcmd(x[::8], x, y, x, draws, kernel, Y_KERNEL, lam=0.01)
    assert (np.abs(result.values[::8] - exact) <= result.error_bounds[::8] + 1e-9).all()


def test_the_inputs_of_a_model_are_glanced_at_too(monkeypatch):
    """Smooth inputs of nature do not help if those of the model need more landmarks."""
    monkeypatch.setattr("fastmcmd.estimate.fit.LowRankForms", None)
    rng = np.random.default_rng(2)
    x, y, _ = noisy(rng, 1200)
    x_prime, _, draws = noisy(rng, 1200)
    x, x_prime = 0.001 * x, 10 * x_prime
    kernel = fm.RBF(500.0)
    result = fm.mcmd(x[:50], x, y, x_prime, draws, kernel, Y_KERNEL, lam=0.01)
    exact = oracle.mcmd(x[:50], x, y, x_prime, draws, kernel, Y_KERNEL, lam=0.01)
    assert (np.abs(result.values - exact) <= result.error_bounds + 1e-9).all()


def test_all_outputs_in_the_tails_are_candidates():
    values = np.random.default_rng(3).standard_t(3, 50_000)
    outputs = DrawnOutputs(values[:, None, None])
    some = np.sort(lowrank_form._spread(outputs, 2000)[:, 0])
    ascending = np.sort(values)
    count = 300  # 30 of 2,000 stand for 750
    np.testing.assert_array_equal(some[:count], ascending[:count])
    np.testing.assert_array_equal(some[-count:], ascending[-count:])
    assert len(some) < 2000 + 2 * 1500


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_equal_outputs_at_the_ends_are_no_tails(share):
    rng = np.random.default_rng(4)
    values = np.where(rng.random(20_000) < share, 0.0, rng.uniform(0.0, 1.0, 20_000))
    some = lowrank_form._spread(DrawnOutputs(values[:, None, None]), 2000)
    assert len(some) <= 2000 + 2 * 750
    assert some.min() == values.min()
    assert some.max() == values.max()


def test_outputs_far_out_take_no_second_round(monkeypatch):
    rng, n = np.random.default_rng(5), 3000
    x = rng.standard_normal((n, 1))
    y, draws = np.sin(x[:, 0]) + 0.3 * rng.standard_t(4, (2, n))
    monkeypatch.setattr(lowrank_form, "POOL", 200)
    rounds, original = [], lowrank_form._Round
    monkeypatch.setattr(lowrank_form, "_Round", lambda *args: rounds.append(1) or original(*args))
    options = {"x_kernel": X_KERNEL, "y_kernel": fm.RBF(4.0), "lam": 1e-3, "solver": "lowrank"}
    result = fm.cce(x, y, draws, **options)
    assert len(rounds) == 1
    some = np.argsort(-np.abs(y))[::10]  # far out, and near
    exact = oracle.mcmd(x[some], x, y, x, draws, X_KERNEL, fm.RBF(4.0), lam=1e-3)
    assert result.error_bound <= 1e-6
    assert (np.abs(result.values[some] - exact) <= result.error_bounds[some] + 1e-8).all()


@pytest.mark.parametrize("pivots", [4, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_knows_what_features_miss_of_predictions(pivots, weighted):
    rng, n, lam = np.random.default_rng(6), 500, 0.01
    prediction = fm.Gaussian(rng.normal(size=n), rng.uniform(0.1, 1.0, n))
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    kernel = fm.RBF(2.0).resolve(np.zeros((1, 1)))
    points = np.linspace(-7, 7, pivots)[:, None]
    features = output_features(kernel, get_backend("auto", kernel), points, 1e-13, 100)[0]
    sample = Sample(np.zeros((n, 1)), PredictedOutputs(prediction), weights, lam)
    stream = RowStream([sample], features, False)
    stream.begin()
    for block in StackedRowStream([stream]).blocks(128):
        stream.account(block)
    residual, _, floor = stream._expectations[0].coverage(prediction)
    w = np.ones(n) if weights is None else weights
    left_out = math.sqrt(float((w * uncovered(residual, floor)).sum()) / w.sum() / lam)
    assert (left_out > 1e-3) == (pivots == 4)
    assert len(list(stream.coverage(left_out * 1.1 + 1e-12))) == 0
    if left_out:
        ((_, _, again, again_floor),) = stream.coverage(left_out * 0.9)
        np.testing.assert_array_equal(again, residual)
        assert again_floor == floor
    restored = RowStream([sample], features, False)
    restored.begin()
    restored.restore(stream.state())
    assert len(list(restored.coverage(left_out * 0.9))) == (left_out > 0)


def test_isolated_rows_are_looked_for_before_few_landmarks_are_decided_on():
    """The tails of a line need landmarks of their own; without them a second pass was needed."""
    x, y, draws = noisy(np.random.default_rng(0), 30_000)
    options = {"x_kernel": X_KERNEL, "y_kernel": Y_KERNEL, "lam": 0.1}
    result = fm.cce(x, y, draws, **options)
    assert result.info.solver == "lowrank"
    assert result.info.passes == 1
    assert not result.info.notes
    some = x[::300]
    values = fm.mcmd(some, x, y, x, draws, X_KERNEL, Y_KERNEL, lam=0.1, solver="cg")
    bounds = result.error_bounds[::300] + values.error_bounds
    assert (np.abs(result.values[::300] - values.values) <= bounds).all()


@pytest.mark.parametrize("d", [1, 2])
def test_rounding_ends_a_rigorous_attempt_before_its_passes(d, monkeypatch):
    n, lam = 2400, 1e-5
    x, y, draws = noisy(np.random.default_rng(7), n, d)
    searched, original = [], lowrank_choice.ruled_out
    monkeypatch.setattr(
        lowrank_choice,
        "ruled_out",
        lambda *args, **options: searched.append(original(*args, **options)) or searched[-1],
    )
    monkeypatch.setattr(Passes, "sums", None)  # not called
    kernel = fm.RBF(1 / (2 * d))
    result = fm.cce(
        x, y, draws, x_kernel=kernel, y_kernel=Y_KERNEL, lam=lam, certificate="rigorous"
    )
    assert searched == [False]
    assert result.info.solver in ("cg", "cholesky")
    exact = oracle.mcmd(x[::8], x, y, x, draws, kernel, Y_KERNEL, lam=lam)
    assert (np.abs(result.values[::8] - exact) <= result.error_bounds[::8] + 1e-6).all()


def test_more_landmarks_are_not_tried_against_rounding():
    """solver="lowrank" with a rigorous certificate makes one pass where only rounding misses the goal."""
    x, y, draws = noisy(np.random.default_rng(8), 1500)
    with pytest.warns(fm.ToleranceWarning):
        result = fm.cce(
            x, y, draws, x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=1e-5, solver="lowrank",
            certificate="rigorous",
        )  # fmt: skip
    assert result.info.passes == 1
    exact = oracle.mcmd(x, x, y, x, draws, X_KERNEL, Y_KERNEL, lam=1e-5)
    assert (np.abs(result.values - exact) <= result.error_bounds + 1e-6).all()


def test_few_rows_with_many_output_features_take_the_dense_form(rng):
    """A kernel with a kink has as many features as there are outputs."""
    x, y, p = rng.normal(size=(3, 600))
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.Laplacian(1.0)}
    result = fm.cce(x, y, p, **kernels, lam=0.01)
    assert result.info.form == "dense"
    required = fm.cce(x, y, p, **kernels, lam=0.01, solver="lowrank", tol=1e-4)
    assert required.info.form == "feature"
    np.testing.assert_allclose(required.values, result.values, rtol=0, atol=1e-4)


def test_landmarks_that_take_longer_than_cg_are_ruled_out_at_a_glance(monkeypatch):
    """In three columns the search for 300 landmarks of 5,000 rows took twice as long as all of CG."""
    n, lam, glances, original = 5000, 0.01, [], lowrank_choice.ruled_out
    monkeypatch.setattr(
        lowrank_choice,
        "ruled_out",
        lambda *args, **options: glances.append(args) or original(*args, **options),
    )
    for d, solver in ((2, "lowrank"), (3, "cg")):
        x, y, draws = noisy(np.random.default_rng(9), n, d)
        options = {"x_kernel": fm.RBF(1 / (2 * d)), "y_kernel": Y_KERNEL, "lam": lam}
        with monkeypatch.context() as patch:
            if solver == "cg":
                patch.setattr("fastmcmd.estimate.fit.LowRankForms", None)  # not called
            result = fm.cce(x, y, draws, **options)
        assert result.info.solver == solver
        exact = fm.cce(x, y, draws, **options, solver="cholesky", tol=1e-9)
        bounds = result.error_bounds + exact.error_bounds
        assert (np.abs(result.values - exact.values) <= bounds).all()
    task = glances[0][1]
    assert lowrank_choice._paying(n, 1, task, lam) == math.inf
    assert lowrank_choice._paying(n, 3, task, lam) < lowrank_choice._paying(n, 2, task, lam)
    many = [lowrank_choice._paying(n, 3, task, lam) for n in (8000, 20_000, 50_000, 90_000)]
    assert many == sorted(many)
    of_lam = [lowrank_choice._paying(n, 3, task, lam) for lam in (0.1, 0.01, 1e-3, 1e-4)]
    assert of_lam == sorted(of_lam)
