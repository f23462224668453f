"""Right-hand sides in memory serve passes as those that are computed block by block."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.estimate import memory_stream

OPTIONS = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5) + fm.RBF(5.0), "lam": 0.01}
FAMILIES = {
    "t": lambda mean, scale: fm.predictive.StudentT(4.0, mean, scale),
    "laplace": lambda mean, scale: fm.predictive.Laplace(mean, scale),
    "lognormal": lambda mean, scale: fm.predictive.LogNormal(mean, scale),
}


def problem(family, n=1500, seed=0):
    """Predictions of one column of inputs, five of them far wider than the rest."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2.0, 2.0, size=(n, 1))
    scale = 0.3 + 0.1 * np.abs(x[:, 0])
    scale[rng.choice(n, 5, replace=False)] *= 6.0
    prediction = FAMILIES[family](np.sin(x[:, 0]), scale)
    return x, prediction.sample(1, rng).reshape(-1), prediction


def forms_of(monkeypatch):
    """Whether each low-rank form has its right-hand sides in memory."""
    streams = []
    begin = memory_stream.MemoryStream.__init__

    def counting(self, *args):
        streams.append(self)
        begin(self, *args)

    monkeypatch.setattr(memory_stream.MemoryStream, "__init__", counting)
    return streams


def fitted_to_t(**options):
    """Estimate the CCE of the problem of family t."""
    return fm.ConditionalCongruence(**OPTIONS, **options).fit(*problem("t"))


@pytest.fixture(scope="module")
def landmarks_of_t():
    with pytest.MonkeyPatch.context() as patch:
        streams = forms_of(patch)
        estimator = fitted_to_t(tol=1e-5, solver="lowrank")
    assert len(streams) == 1
    return estimator


@pytest.fixture(scope="module")
def cg_of_t():
    return fitted_to_t(tol=1e-8, solver="cg")


def test_against_cg(landmarks_of_t, cg_of_t):
    """The same values as CG with a smaller tolerance; rows of t take seconds to compute anew."""
    result, exact = landmarks_of_t.result_, cg_of_t.result_
    assert result.error_bound <= 1e-5
    assert (np.abs(result.values - exact.values) <= result.error_bounds + 1e-8).all()


@pytest.mark.parametrize("family", ["laplace", "lognormal"])
def test_against_other_methods(monkeypatch, family):
    """The same values as rows that are computed anew, and as CG with a smaller tolerance."""
    streams = forms_of(monkeypatch)
    x, y, prediction = problem(family)
    result = fm.cce(x, y, prediction, **OPTIONS, tol=1e-5, solver="lowrank")
    assert len(streams) == 1
    assert result.error_bound <= 1e-5
    exact = fm.cce(x, y, prediction, **OPTIONS, tol=1e-8, solver="cg")
    assert (np.abs(result.values - exact.values) <= result.error_bounds + 1e-8).all()
    monkeypatch.setattr(memory_stream, "_BUDGET_SHARE", 0.0)
    streamed = fm.cce(x, y, prediction, **OPTIONS, tol=1e-5, solver="lowrank")
    assert len(streams) == 1
    gap = np.abs(result.values - streamed.values)
    assert (gap <= result.error_bounds + streamed.error_bounds).all()


@pytest.mark.parametrize(
    "change", ["repeated inputs", "zero weights", "gaussian", "many rows", "two columns"]
)
def test_where_rows_are_computed_anew(monkeypatch, change):
    streams = forms_of(monkeypatch)
    x, y, prediction = problem("laplace")
    options = {**OPTIONS, "solver": "lowrank", "tol": 1e-4}
    if change == "repeated inputs":
        x[1::2] = x[::2]
    elif change == "zero weights":
        options["weights"] = np.arange(len(x)) % 4 != 0
    elif change == "gaussian":
        prediction = fm.Gaussian(np.sin(x[:, 0]), 0.4)
    elif change == "many rows":
        monkeypatch.setattr(memory_stream, "_MOST_ROWS", len(x) - 1)
    else:
        y = np.stack([y, y], axis=1)
        prediction = fm.Gaussian(np.stack([np.sin(x[:, 0])] * 2, axis=1), 0.4)
    assert fm.cce(x, y, prediction, **options).error_bound <= 1e-4
    assert not streams


def test_other_points_files_and_witness(tmp_path, landmarks_of_t, cg_of_t):
    estimator, exact = landmarks_of_t, cg_of_t
    assert estimator.fitted().form.basis is not None
    points, outputs = np.linspace(-1.9, 1.9, 40)[:, None], np.linspace(-6.0, 6.0, 30)
    values = estimator.score_samples(points)
    np.testing.assert_allclose(values, exact.score_samples(points), atol=1.1e-5)
    witness = estimator.witness(points, outputs)
    np.testing.assert_allclose(witness, exact.witness(points, outputs), atol=1e-4)
    path = tmp_path / "estimator.npz"
    estimator.save(path)
    loaded = fm.load(path)
    np.testing.assert_array_equal(loaded.score_samples(points), values)
    np.testing.assert_array_equal(loaded.witness(points, outputs), witness)


def test_several_models(monkeypatch, landmarks_of_t):
    """Models in memory and others share landmarks; each has its own columns."""
    streams = forms_of(monkeypatch)
    x, y, prediction = problem("t")
    models = {
        "t": prediction,
        "laplace": FAMILIES["laplace"](np.sin(x[:, 0]), np.full(len(x), 0.4)),
        "gaussian": fm.Gaussian(np.sin(x[:, 0]), 0.4),
    }
    estimator = fm.ConditionalCongruence(**OPTIONS, tol=1e-5, solver="lowrank")
    estimators = estimator.fit_each(x, y, models)
    assert len(streams) == 2
    for name, model in models.items():
        alone = (
            landmarks_of_t.result_
            if name == "t"
            else fm.cce(x, y, model, **OPTIONS, tol=1e-5, solver="lowrank")
        )
        result = estimators[name].result_
        gap = np.abs(result.values - alone.values)
        assert (gap <= result.error_bounds + alone.error_bounds).all()


def test_threads_do_not_change_bits(landmarks_of_t):
    before = fm.get_num_threads()
    try:
        for threads in {1, 2} - {before}:
            fm.set_num_threads(threads)
            result = fitted_to_t(tol=1e-5, solver="lowrank").result_
            np.testing.assert_array_equal(result.values, landmarks_of_t.result_.values)
    finally:
        fm.set_num_threads(before)
