"""CCE of a right model, excess and support of a CCE agree with plain n x n definitions."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import oracle
import pytest
from builders import noisy_sine
from scipy import special, stats
from simulations.excess import simulate

import fastmcmd as fm
from fastmcmd.embedding.sample import PredictedOutputs
from fastmcmd.inference import chance as module
from fastmcmd.inference.row_norms import row_norms
from fastmcmd.rows import open_rows

N = 120
X_KERNEL, LAM = fm.RBF(1.0), 0.05


def data(seed=0, n=N):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    x[5:12] = x[0]  # equal inputs
    y = noisy_sine(rng, x)
    y[20:25] = y[20]  # equal outcomes
    return rng, x, y


def nodes_of(prediction):
    """Return nodes (n, L) and weights (n, L) with which expectations under predictions are sums."""
    if isinstance(prediction, fm.Gaussian):
        z, w = np.polynomial.hermite_e.hermegauss(80)
        values = prediction.mean[:, None] + prediction.std[:, None] * z
        return values, np.broadcast_to(w / w.sum(), values.shape)
    if isinstance(prediction, fm.Draws):
        values = prediction.array
        return values, np.full(values.shape, 1 / values.shape[1])
    counts = np.arange(80.0)
    values = np.broadcast_to(counts, (len(prediction), 80))
    return values, np.exp(
        np.stack([prediction.log_prob(np.full(len(prediction), c)) for c in counts], 1)
    )


def naive_norms(kernel, y, prediction):
    """Return |e_i|^2 and V_i row by row, from kernel matrices over nodes."""
    values, weights = nodes_of(prediction)
    errors, variances = np.empty(len(y)), np.empty(len(y))
    for i, outcome in enumerate(y):
        k = kernel(values[i][:, None], values[i][:, None])
        inner = weights[i] @ k @ weights[i]
        cross = weights[i] @ kernel(values[i][:, None], [[outcome]])[:, 0]
        self_term = weights[i] @ k.diagonal()
        errors[i] = kernel([[outcome]], [[outcome]])[0, 0] - 2 * cross + inner
        variances[i] = self_term - inner
        if isinstance(prediction, fm.Draws):
            draws = values.shape[1]
            variances[i] *= (draws + 1) / (draws - 1)
    return errors, variances


def predictions(x, rng):
    return {
        "gaussian": fm.Gaussian(np.sin(x[:, 0]), 0.4),
        "draws": fm.Draws(np.sin(x[:, :1]) + 0.3 * rng.normal(size=(len(x), 6))),
        "poisson": fm.Poisson(np.exp(0.4 * x[:, 0])),
    }


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(
    ("form", "y_kernel"),
    [
        ("gaussian", fm.RBF(2.0)),
        ("gaussian", fm.Polynomial(degree=2, gamma=0.5)),
        ("draws", fm.RBF(2.0)),
        ("draws", fm.Laplacian(1.0)),
        ("poisson", fm.RBF(0.3)),
        ("poisson", fm.Delta()),
        ("poisson", fm.Laplacian(1.0)),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_against_the_definition(form, y_kernel, weighted):
    rng, x, y = data()
    prediction = predictions(x, rng)[form]
    if form == "poisson":
        y = rng.poisson(np.exp(0.4 * x[:, 0])).astype(float)
    weights = rng.integers(0, 4, N).astype(float) if weighted else None
    grid = rng.uniform(-3, 3, (9, 2))
    result = fm.cce(x, y, prediction, grid, X_KERNEL, y_kernel, LAM, weights=weights, tol=1e-5)
    a2 = oracle.coefficients(X_KERNEL, x, grid, LAM, weights) ** 2
    errors, variances = naive_norms(y_kernel, y, prediction)
    np.testing.assert_allclose(result.null_mean, a2.T @ variances, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        result.excess, result.values**2 - a2.T @ errors, rtol=1e-6, atol=1e-9
    )
    explained = np.einsum("iq,iq->q", np.sqrt(a2) * np.sign(
        oracle.coefficients(X_KERNEL, x, grid, LAM, weights)), X_KERNEL(x, grid))  # fmt: skip
    np.testing.assert_allclose(result.effective_rows, explained**2 / a2.sum(axis=0), rtol=1e-8)


@pytest.mark.slow
def test_gaussian_under_a_kernel_with_a_kink():
    _rng, x, y = data()
    kernel = fm.Laplacian(1.5)
    prediction = fm.Gaussian(np.sin(x[:, 0]), 0.4)
    result = fm.cce(x, y, prediction, x, X_KERNEL, kernel, LAM, tol=1e-4)
    draws = prediction.sample(2_000, 1)
    inner = np.array([kernel(row[:1000, None], row[1000:, None]).mean() for row in draws])
    a2 = oracle.coefficients(X_KERNEL, x, x, LAM) ** 2
    np.testing.assert_allclose(result.null_mean, a2.T @ (1 - inner), rtol=0.02)


def test_landmarks_agree_with_the_dense_factor(monkeypatch):
    rng, x, y = data(n=600)
    prediction = fm.Gaussian(np.sin(x[:, 0]), 0.4)
    weights = rng.integers(0, 4, 600).astype(float)
    grid = rng.uniform(-2, 2, (50, 2))
    exact = fm.cce(x, y, prediction, grid, X_KERNEL, None, LAM, weights=weights)
    expected = exact.null_mean, exact.excess, exact.effective_rows
    assert exact.source.landmarks == 0
    assert exact.source.approximation == 0
    monkeypatch.setattr(module, "_EXACT", 10)
    near = fm.cce(x, y, prediction, grid, X_KERNEL, None, LAM, weights=weights)
    for one, other in zip(
        (near.null_mean, near.excess, near.effective_rows), expected, strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    assert near.source.landmarks > 10
    assert near.source.approximation < 1e-3


def test_rows_at_one_input_support_it_as_many_as_they_are():
    x = np.repeat([[0.0], [100.0], [200.0]], [1, 7, 12], axis=0)
    y = np.arange(20.0)
    result = fm.cce(
        x,
        y,
        fm.Gaussian(y, 1.0),
        [[0.0], [100.0], [200.0], [150.0]],
        X_KERNEL,
        y_kernel="paper",
        lam=0.1,
        tol=1e-5,
    )
    np.testing.assert_allclose(result.effective_rows, [1, 7, 12, 0], atol=1e-9)
    # A row of large weight counts as one row.
    heavy = fm.cce(x[:1], y[:1], fm.Gaussian(y[:1], 1.0), x_kernel=X_KERNEL, y_kernel=fm.RBF(1.0),
                   weights=[50.0], lam=0.1)  # fmt: skip
    np.testing.assert_allclose(heavy.effective_rows, [1.0])


def test_one_row_and_constant_outcomes():
    one = fm.cce([[0.0]], [1.0], fm.Gaussian([0.0], 1.0), x_kernel=X_KERNEL, y_kernel=fm.RBF(1.0))
    np.testing.assert_allclose(one.excess, 0.0, atol=1e-9)  # a single row has no pairs
    x = np.linspace(-1, 1, 30)
    result = fm.cce(x, np.ones(30), fm.Gaussian(np.ones(30), 0.5), y_kernel=fm.RBF(1.0))
    assert np.isfinite(result.excess).all()
    assert (result.null_mean > 0).all()


def test_predictions_of_infinite_variance():
    rng, x, _ = data()
    y = np.sin(x[:, 0]) + 0.3 * rng.standard_cauchy(N)
    prediction = fm.Draws(np.sin(x[:, :1]) + 0.3 * rng.standard_cauchy((N, 10)))
    result = fm.cce(x, y, prediction, x, X_KERNEL, fm.RBF(1.0), LAM, tol=1e-4)
    assert np.isfinite(result.null_mean).all()
    assert abs(result.excess.mean()) < 0.3 * result.null_mean.mean()


def test_costs_nothing_until_read():
    _, x, y = data()
    result = fm.cce(x, y, fm.Gaussian(y, 1.0), x_kernel=X_KERNEL)
    assert "right model" not in repr(result)
    assert not {"norms", "_sums"} & set(result.source.__dict__)
    result.null_mean.mean()
    assert "a right model" in repr(result)


def test_errors_say_why():
    _, x, y = data()
    with pytest.raises(ValueError, match="compares two samples"):
        fm.mcmd(x, x, y, x, y + 1).excess  # noqa: B018
    with pytest.raises(ValueError, match="one draw a row"):
        fm.cce(x, y, y + 0.1).null_mean  # noqa: B018
    assert np.isfinite(fm.cce(x, y, y + 0.1).excess).all()


def test_rows_on_disk_are_refused_with_the_reason(tmp_path):
    _, x, y = data()
    np.save(tmp_path / "x.npy", x)
    result = fm.cce(x, y, fm.Gaussian(y, 1.0), x_kernel=X_KERNEL)
    on_disk = replace(result, source=result.source.at(open_rows(str(tmp_path / "x.npy"), "at")))
    with pytest.raises(ValueError, match="the inputs are on disk"):
        on_disk.excess  # noqa: B018


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies(copied):
    _, x, y = data()
    result = fm.cce(x, y, fm.Gaussian(y, 1.0), x_kernel=X_KERNEL)
    expected = result.excess
    again = copied(result)
    np.testing.assert_array_equal(again.excess, expected)
    if again.source is None:
        with pytest.raises(ValueError, match="without the data"):
            again.null_mean  # noqa: B018
    else:
        np.testing.assert_array_equal(again.null_mean, result.null_mean)


def test_fitted_estimators_score_new_inputs_with_support():
    _, x, y = data()
    models = {"a": fm.Gaussian(y, 1.0), "b": fm.Gaussian(np.sin(x[:, 0]), 0.3)}
    estimators = fm.ConditionalCongruence(x_kernel=X_KERNEL, y_kernel="paper", lam=0.1).fit_each(
        x, y, models
    )
    for name, prediction in models.items():
        alone = fm.cce(x, y, prediction, x_kernel=X_KERNEL, y_kernel="paper", lam=0.1)
        np.testing.assert_allclose(estimators[name].result_.excess, alone.excess, atol=1e-5)
    far = estimators["b"].evaluate([[0.0, 0.0], [30.0, 0.0]])
    assert far.effective_rows[0] > 5
    assert far.effective_rows[1] < 1e-6


def test_best_and_worst():
    _, x, y = data()
    wrong = np.where(x[:, 0] > 1, 1.5, 0.0)
    result = fm.cce(x, y, fm.Gaussian(np.sin(x[:, 0]) + wrong, 0.3), x_kernel=X_KERNEL)
    worst = result.worst(5)
    supported = result.effective_rows >= 5
    assert (x[worst, 0] > 0.7).all()
    assert result.excess[worst[0]] == result.excess[supported].max()
    assert result.excess[result.best(1)[0]] == result.excess[supported].min()
    assert result.worst(3, by="value").tolist() == np.argsort(-result.values)[:3].tolist()
    assert len(result.best(10_000)) == N
    with pytest.raises(ValueError, match="by"):
        result.best(3, by="luck")
    with pytest.raises(ValueError, match="k"):
        result.best(0)


def test_frames_hold_what_was_computed():
    pytest.importorskip("pandas")
    _, x, y = data()
    result = fm.cce(x, y, fm.Gaussian(y, 1.0), x_kernel=X_KERNEL)
    assert list(result.to_frame()) == ["cce", "error_bound"]
    result.effective_rows.mean()
    frame = result.to_frame()
    assert list(frame) == ["cce", "error_bound", "effective_rows", "supported"]
    assert (frame["supported"] == (result.effective_rows >= 5)).all()


@pytest.mark.parametrize("repeated", [False, True])
def test_norms_from_the_features_of_the_fit(repeated):
    # Tails wide against the kernel: the fit computes features on panels, and the norms with them.
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 1))
    y = x[:, 0] + rng.standard_t(3, size=60)
    if repeated:
        x[30:], y[20:40] = x[:30], y[:20]
    student = fm.StudentT(rng.uniform(2.5, 4.0, 60), x[:, 0], 0.8)
    kernel, weights = fm.RBF(2.0), rng.uniform(0.5, 2.0, 60)
    result = fm.cce(x, y, student, x_kernel=X_KERNEL, y_kernel=kernel, weights=weights)
    fitted = fm.ConditionalCongruence(x_kernel=X_KERNEL, y_kernel=kernel).fit(x, y, student)
    errors, variances = row_norms(kernel, y[:, None], PredictedOutputs(student))
    for chance in (result.source, fitted.chance):
        assert chance.computed_norms is not None
        np.testing.assert_allclose(chance.norms["errors"], errors, atol=4e-6)
        np.testing.assert_allclose(chance.norms["variances"], variances, atol=4e-6)
    # The definition, by the trapezoidal rule, which is exact for smooth functions that vanish at the ends.
    step = 0.01
    gap = np.arange(-6.0, 6.0, step)
    density = stats.t.pdf(y[:, None] + gap, student.df[:, None], x[:, :1], 0.8)
    cross = step * density @ np.exp(-2 * gap**2)
    inner = 1 - fitted.chance.norms["variances"]
    np.testing.assert_allclose(
        fitted.chance.norms["errors"], 1 - 2 * cross + inner, rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_excess_is_right_on_average(factor):
    excess, error, null, square, formula, right = simulate(factor, n=150, repeats=12)
    assert abs(excess - formula) < max(0.1 * formula, 4 * error)
    np.testing.assert_allclose(null, right, rtol=1e-5)  # known exactly
    np.testing.assert_allclose(square, right, rtol=0.2)


def test_norms_of_rows_with_tails_that_are_wide_against_the_kernel():
    rng = np.random.default_rng(0)
    gamma, scale = 0.7, 0.5
    centre = rng.normal(size=40)
    y = centre + rng.standard_cauchy(40)
    prediction = PredictedOutputs(fm.StudentT(np.full(40, 1.0), centre, scale))
    errors, variances = row_norms(fm.RBF(gamma), y[:, None], prediction)
    # Voigt profiles: E exp(-gamma (Y - y)^2) of a Cauchy distribution.
    root = np.sqrt(gamma)
    cross = special.wofz(root * (y - centre) + 1j * root * scale).real
    inner = special.erfcx(2 * root * scale)
    np.testing.assert_allclose(variances, 1 - inner, atol=1e-5)
    np.testing.assert_allclose(errors, 1 - 2 * cross + inner, atol=1e-5)
