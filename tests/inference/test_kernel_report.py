"""What kernels can detect: powers agree with plain simulation, and blind kernels are called blind."""

import json

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.kernel_report import kernel_report

OPTIONS = {"simulations": 59, "random_state": 0}


def line(rng, n=200):
    x = rng.uniform(-2, 2, (n, 1))
    return x, x[:, 0] + 0.4 * rng.normal(size=n), fm.Gaussian(x[:, 0], 0.4)


def plain_power(x, y, truth, wrong, x_kernel, y_kernel, lam, rng, samples=40):
    """Return how often the wrong model is detected, by kernel matrices and `fastmcmd.cce` alone."""

    def statistic(outcomes):
        result = fm.cce(x, outcomes, wrong, None, x_kernel, y_kernel, lam, tol=1e-4)
        return float(np.mean(result.values**2))

    null = np.array([statistic(wrong.sample(1, rng)[:, 0]) for _ in range(samples)])
    null_values = np.array([statistic(truth.sample(1, rng)[:, 0]) for _ in range(samples)])
    ranks = (1 + (null[None] >= null_values[:, None]).sum(axis=1)) / (samples + 1)
    return float(np.mean(ranks <= 0.05))


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "name"), [(0.5, "std x 0.5"), (2.0, "std x 2")])
def test_powers_are_those_of_plain_simulation(rng, factor, name):
    x = rng.uniform(-2, 2, (60, 1))
    truth = fm.Gaussian(np.zeros(60), np.full(60, 1.0))
    wrong = fm.Gaussian(np.zeros(60), np.full(60, factor))
    y = truth.sample(1, rng)[:, 0]
    kernels = fm.RBF(0.5), fm.RBF(0.2), 0.1
    report = kernel_report(x, y, truth, *kernels, simulations=199, random_state=0)
    plain = plain_power(x, y, truth, wrong, *kernels, rng)
    assert report.power[name] == pytest.approx(plain, abs=0.25)  # of 40 samples


def test_good_kernels_see_everything(rng):
    report = kernel_report(*line(rng), **OPTIONS)
    assert min(report.power.values()) > 0.9
    assert report.warnings == ()
    assert report.effective_dimension > 4
    assert report.explained > 0.3


def test_published_kernels_are_blind_on_unit_norm_embeddings(rng):
    x = rng.normal(size=(200, 64)) + 6 * rng.normal(size=64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    mean = 40 * (x[:, 0] - x[:, 0].mean())
    prediction = fm.Gaussian(mean, 0.5)
    y = mean + 0.5 * rng.normal(size=200)
    blind = kernel_report(x, y, prediction, "paper", "paper", **OPTIONS)
    assert blind.power["ignores x"] < 0.3
    assert "Nearly blind to x" in blind.warnings[0]
    assert 'x_kernel="auto"' in blind.warnings[0]
    default = kernel_report(x, y, prediction, **OPTIONS)
    assert default.power["ignores x"] > 0.8
    assert not any("blind to x" in one for one in default.warnings)


@pytest.mark.slow
def test_steep_means_hide_the_spread_from_plain_cce_alone(rng):
    x = rng.uniform(-2, 2, 200)
    y = 100 * x + rng.normal(size=200)
    report = kernel_report(x, y, fm.Gaussian(100 * x, 1.0), **OPTIONS)
    wide = report.powers[1]
    assert wide.power < 0.3 < 0.9 < wide.standardised
    assert "Plain CCE" in report.warnings[0]
    assert "Standardised outcomes can" in report.warnings[0]


def test_a_prediction_that_does_not_depend_on_x_is_said_to(rng):
    x = rng.normal(size=(150, 2))
    report = kernel_report(x, rng.normal(size=150), (np.zeros(150), 1.0), **OPTIONS)
    assert np.isnan(report.power["ignores x"])
    assert "hardly changes with x" in report.warnings[0]


def test_a_regression_stands_in_for_a_prediction(rng):
    x, y, prediction = line(rng)
    report = kernel_report(x, y, **OPTIONS)
    assert report.assumed
    assert min(report.power.values()) > 0.9
    assert not kernel_report(x, y, prediction, **OPTIONS).assumed


@pytest.mark.parametrize("kind", ["counts", "draws", "one draw", "classes", "vectors"])
def test_all_kinds_of_prediction(rng, kind):
    x = rng.normal(size=(150, 2))
    rate = np.exp(1 + 0.7 * x[:, 0])
    y = rng.poisson(rate).astype(float)
    prediction = fm.Poisson(rate)
    if kind == "draws":
        prediction = rng.poisson(rate[:, None], (150, 20)).astype(float)
    elif kind == "one draw":
        prediction = rng.poisson(rate).astype(float)
    elif kind == "classes":
        share = 1 / (1 + np.exp(-3 * x[:, 0]))
        prediction = fm.Categorical(np.column_stack([1 - share, share]))
        y = (rng.uniform(size=150) < share).astype(float)
    elif kind == "vectors":
        y = x + 0.3 * rng.normal(size=(150, 2))
        prediction = x[:, None] + 0.3 * rng.normal(size=(150, 20, 2))
    report = kernel_report(x, y, prediction, **OPTIONS)
    assert report.power["ignores x"] > 0.8
    has_power = kind not in ("one draw", "classes")
    assert np.isfinite(report.power["std x 0.5"]) == has_power
    assert json.dumps(report.to_dict(), allow_nan=False)


def test_kernels_are_resolved_on_all_rows_and_few_are_looked_at(rng):
    x, y, prediction = line(rng, 1_500)
    report = kernel_report(x, y, prediction, fm.RBF("median"), "paper", 0.1, 19)
    assert report.rows == 1_000
    assert report.y_kernel == fm.RBF("variance").resolve(y)
    assert "1,000 rows" in report.sentence


def test_result_can_be_taken_apart(rng):
    x, y, prediction = line(rng)
    report = kernel_report(x, y, prediction, **OPTIONS)
    assert report == kernel_report(x, y, prediction, **OPTIONS)
    assert repr(report).startswith("With these kernels, plain CCE sees")
    assert len(report.table().splitlines()) == 5
    assert list(report.to_frame()["model"]) == ["std x 0.5", "std x 2", "ignores x"]
    assert report.plot() is not None


def test_bad_arguments_are_named(rng):
    x, y, prediction = line(rng, 30)
    with pytest.raises(ValueError, match="simulations is 5"):
        kernel_report(x, y, prediction, simulations=5)
    with pytest.raises(ValueError, match="rows must match"):
        kernel_report(x[:-1], y, prediction)
    with pytest.raises(ValueError, match="x_kernel is 'rbf'"):
        kernel_report(x, y, prediction, "rbf")


def test_values_whose_squares_overflow_are_refused(rng):
    x, y, prediction = line(rng, 40)
    y[3] = 1e308
    with pytest.raises(ValueError, match="y holds values up to 1e\\+308"):
        kernel_report(x, y, **OPTIONS)
    with pytest.raises(ValueError, match="prediction holds values up to"):
        kernel_report(x, prediction.mean, fm.Gaussian(y, 1.0), **OPTIONS)


def test_users_of_the_default_kernel_get_no_advice_to_use_it(rng):
    x, y = rng.normal(size=(30, 13)), rng.normal(size=30)
    prediction = fm.Gaussian(0.3 * x[:, 0], 1.0)
    warning = fm.kernel_report(x, y, prediction).warnings[0]
    assert "Nearly blind to x" in warning
    assert "More rows help" in warning
    default = fm.ConditionalCongruence().fit(x, y, prediction).x_kernel_
    assert fm.kernel_report(x, y, prediction, default).warnings[0] == warning
    assert 'Use x_kernel="auto"' in fm.kernel_report(x, y, prediction, fm.RBF(1e-6)).warnings[0]
