"""The exact test: statistic by the plain definition, size, power, bad input."""

import sys
from pathlib import Path

import numpy as np
import pytest
from builders import sine_model

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.inference.exchangeable import ROWS, exchangeable_outcomes
from fastmcmd.inference.outcome_features import (
    BlockOutcomes,
    Bumps,
    FourierFeatures,
    landmark_features,
)
from fastmcmd.inference.row_test import row_test
from fastmcmd.inference.smoother import Smoother
from fastmcmd.inference.statistics import project
from fastmcmd.predictive import as_predictive

sys.path.insert(0, str(Path(__file__).parents[1] / "simulations"))
import congruence_test as simulation


def plain_squares(x, pool, x_kernel, y_kernel, lam):
    """Squared CCE (n, B + 1) at the rows, of residuals from the mean over data sets, by definition."""
    n, count = pool.shape
    gram = x_kernel(x)
    a = np.linalg.solve(gram + n * lam * np.eye(n), gram)  # columns are the coefficients of a point
    values = y_kernel(pool.reshape(-1)).reshape(n, count, n, count)
    centre = values - values.mean(axis=1, keepdims=True)
    centre = centre - centre.mean(axis=3, keepdims=True)
    return np.stack(
        [np.einsum("iq,ij,jq->q", a, centre[:, b, :, b], a) for b in range(count)], axis=1
    )


@pytest.mark.parametrize("kernel", [fm.RBF(0.8), fm.Laplacian(0.7), fm.Delta()])
def test_statistic_is_the_mean_squared_cce(rng, kernel):
    n, count, lam = 25, 19, 0.02
    x = rng.standard_normal((n, 2))
    y = rng.integers(0, 4, n).astype(float)[:, None]
    rates = np.full(n, 1.5)
    outcomes = exchangeable_outcomes(y, fm.Poisson(rates), count, 0)
    pool = outcomes.block(0)
    kinds = [landmark_features(kernel, pool, rng, "y")]
    basis = Smoother.of(fm.RBF(0.5), x, n).basis(x)
    projection = project(outcomes, kinds, basis, x, basis.energy(lam), Progress(False, 0.0))
    squares = plain_squares(x, pool[:, :, 0], fm.RBF(0.5), kernel, lam) * (count + 1) / count
    energy = basis.energy(lam) @ (projection.outcomes[0].astype(float) ** 2).sum(axis=2)
    np.testing.assert_allclose(energy, squares.mean(axis=0), rtol=2e-4)
    rows = row_test(basis, projection.outcomes[0], x, lam)
    np.testing.assert_allclose(rows.values, np.sqrt(squares[:, 0]), rtol=2e-4)
    np.testing.assert_allclose(rows.null_mean, np.sqrt(squares[:, 1:].mean(axis=1)), rtol=2e-4)
    p = (squares >= squares[:, :1] * (1 - 1e-6)).mean(axis=1)
    np.testing.assert_allclose(rows.p_values, p, atol=1.01 / (count + 1))
    scores = (squares - squares.mean(axis=1, keepdims=True)) / squares.std(axis=1, keepdims=True)
    adjusted = (scores.max(axis=0) >= scores[:, :1]).mean(axis=1)
    np.testing.assert_allclose(rows.adjusted, adjusted, atol=1.01 / (count + 1))


def test_bumps_are_a_gaussian_kernel(rng):
    raw = rng.uniform(-3, 3, (4, 50, 1))
    features = Bumps("y", "raw", -9.0, 0.7, 40).transform(BlockOutcomes(raw)).astype(float)
    kernel = fm.RBF(1 / (2 * 0.7**2))
    for row, row_values in zip(features, raw, strict=True):
        np.testing.assert_allclose(row @ row.T, kernel(row_values[:, 0]), atol=4e-3)
    plain = np.exp(-(((raw + 9.0) / 0.7 - 0.6 * np.sqrt(2) * np.arange(40)) ** 2))
    np.testing.assert_allclose(features / features.max(), plain / plain.max(), atol=2e-2)
    far = Bumps("y", "raw", -9.0, 0.7, 40).transform(BlockOutcomes(np.array([[[1e300], [-1e300]]])))
    assert np.isfinite(far).all()


def test_fourier_features_are_a_gaussian_kernel_on_average(rng):
    raw = rng.standard_normal((1, 40, 2))
    frequencies = rng.standard_normal((2, 4_000))
    one = FourierFeatures("y", "raw", np.zeros(2), np.full(2, 1.5), 50.0, frequencies)
    row = one.transform(BlockOutcomes(raw))[0].astype(float)
    np.testing.assert_allclose(row @ row.T, fm.RBF(1 / (2 * 1.5**2))(raw[0]), atol=0.06)


@pytest.mark.parametrize("discrete", [False, True])
def test_ranks_and_standardised_outcomes(rng, discrete):
    raw = rng.standard_normal((6, 20, 2))
    if discrete:
        raw = np.round(raw)
    block = BlockOutcomes(raw)
    for i in range(6):
        for c in range(2):
            column = raw[i, :, c]
            below = (column[None, :] < column[:, None]).sum(axis=1)
            equal = (column[None, :] == column[:, None]).sum(axis=1)
            np.testing.assert_allclose(block.ranks[i, :, c], (below + equal / 2) / 20)
            order = np.argsort(column, kind="stable")
            assert (np.diff(block.standardised[i, order, c]) >= 0).all()
    assert np.isfinite(block.standardised).all()


def test_constant_rows_and_infinite_outcomes_are_finite():
    raw = np.array([[[5.0]] + [[0.0]] * 19, [[np.inf]] + [[1.0], [2.0]] * 9 + [[3.0]]])
    block = BlockOutcomes(raw)
    assert not np.isnan(block.standardised).any()
    assert block.standardised[0, 0, 0] > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gaussian", "Poisson", "draws", "classes", "vectors"])
def test_p_values_of_right_models_are_not_too_small(kind):
    """P(p <= .1) is .1; by the binomial, the chance of failing is 1e-4 for each kind."""
    values = simulation.p_values(kind, 40, 60, seed=5, simulations=19)
    assert (values <= 0.1).sum() <= 26
    assert values.mean() > 0.4
    assert values.mean() < 0.65 or kind in ("Poisson", "classes")  # ties make these conservative


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gaussian", "Poisson", "draws"])
def test_p_values_of_right_models_at_points_are_not_too_small(kind):
    """At 5 points: each alone, and the smallest adjusted one; the larger samples are in docs/theory.md."""
    alone, adjusted = simulation.point_p_values(
        kind, 100, 60, 5, simulations=39, at=np.linspace(-2, 2, 5)
    )
    assert 0.04 <= (alone <= 0.1).mean() <= 0.16
    assert (alone.min(axis=1) <= 0.1).mean() >= 0.2  # unadjusted: beyond what the next line allows
    assert (adjusted.min(axis=1) <= 0.1).mean() <= 0.19


@pytest.mark.slow
def test_draws_tested_against_their_own_mean_would_fail():
    """The exchange preserves the size: with 5 new draws the test rejects far too often."""

    def naive(run):
        _, y, members = simulation.right_models(60, np.random.default_rng([9, run]))["draws"]()
        model = as_predictive(members, 60)
        pool = np.concatenate([y[:, None], model.sample(99, np.random.default_rng(run))], axis=1)
        z = ((pool - members.mean(axis=1, keepdims=True)) ** 2).mean(axis=0)
        return (z >= z[0]).mean()

    assert np.mean([naive(run) <= 0.05 for run in range(60)]) > 0.2
    assert (simulation.p_values("draws", 60, 60, seed=9, simulations=19) <= 0.05).mean() <= 0.17


@pytest.mark.slow
def test_a_misfit_that_the_cce_does_not_show_is_said_to_be_elsewhere():
    """A model that is too wide has the CCE of a right one, or less."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = x[:, 0] + 0.3 * rng.normal(size=300)
    wide, shifted = fm.Gaussian(x[:, 0], 0.36), fm.Gaussian(x[:, 0] + 0.3, 0.3)
    verdict = fm.verdict(x, y, wide)
    assert verdict.test.p_value <= 0.05
    assert "The CCE alone does not show the misfit: the dispersion" in repr(verdict)
    assert "does not show" in repr(fm.evaluate(y, wide, x))
    assert fm.congruence_test(x, y, shifted).hidden == ""
    assert fm.congruence_test(x, y, fm.Gaussian(x[:, 0], 0.3)).hidden == ""


def test_a_few_far_outcomes_do_not_contradict_a_narrow_spread():
    """Of counts that are mostly 0, the test said "closer" and the verdict "3.5 times too narrow"."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (800, 1))
    y = np.where(rng.random(800) < 0.9, 0, rng.poisson(8, 800))
    test = fm.congruence_test(x, y, fm.Poisson(np.full(800, 0.8)))
    assert test.dispersion == "too wide"
    assert test.outliers
    assert "most outcomes lie closer to them than they say, a few much further" in test.sentence
    assert not fm.congruence_test(x, rng.poisson(0.8, 800), fm.Poisson(np.full(800, 0.8))).outliers
    assert not fm.congruence_test(x, x + rng.normal(size=(800, 1)), (x[:, 0], 2.0)).outliers


@pytest.mark.parametrize(
    ("std", "message"),
    [(0.45, "too wide"), (0.2, "too narrow"), (0.3, "")],
    ids=["wide", "narrow", "right"],
)
def test_dispersion_is_named(std, message):
    x, y, prediction = sine_model(np.random.default_rng(12), std=std)
    test = fm.congruence_test(x, y, prediction, random_state=1)
    assert test.dispersion == message
    assert (test.p_value <= 0.05) == bool(message)
    words = {"too wide": "closer to them", "too narrow": "further from them", "": "No misfit"}
    assert words[message] in repr(test)


def test_what_plain_cce_cannot_see_is_seen(rng):
    x = rng.uniform(-2, 2, 400)
    y = 100 * x + rng.standard_normal(400)
    for factor in (0.4, 2.5):
        assert fm.congruence_test(x, y, (100 * x, factor), random_state=0).p_value == 1 / 200


def test_rows_find_the_place(rng):
    x, y, _ = sine_model(rng, 800)
    mean = np.sin(x) + np.where(x > 1, 0.8, 0.0)
    at = np.array([-1.5, -1.0, 0.0, 1.4, 1.8])
    test = fm.congruence_test(x, y, fm.Gaussian(mean, 0.3), random_state=2, at=at)
    assert (test.rows.adjusted[3:] <= 0.05).all()
    assert (test.rows.adjusted[:2] > 0.05).all()
    assert (test.rows.false_discovery[3:] < 0.05).all()
    assert test.rows.flags.tolist() == [
        False,
        False,
        bool(test.rows.adjusted[2] <= 0.05),
        True,
        True,
    ]
    assert (test.rows.discoveries == (test.rows.false_discovery <= 0.1)).all()
    assert list(test.rows.to_frame()) == [
        "values", "null_mean", "null_band", "p_values", "adjusted", "false_discovery",
        "effective_rows", "supported",
    ]  # fmt: skip
    largest = fm.congruence_test(x, y, fm.Gaussian(mean, 0.3), random_state=2, statistic="max")
    assert largest.p_value == 1 / 200
    assert largest.evidence[0].statistic == "largest row"


def test_an_encoder_maps_inputs_and_points(rng):
    x, y, model = sine_model(rng, 200)

    def encoder(rows):
        return np.stack([np.sin(np.asarray(rows)).ravel(), np.asarray(rows).ravel()], axis=1)

    result = fm.congruence_test(
        x.tolist(), y, model, encoder=encoder, at=[0.0, 1.0], simulations=19
    )
    same = fm.congruence_test(encoder(x), y, model, at=encoder([0.0, 1.0]), simulations=19)
    assert (result.p_value, result.statistic) == (same.p_value, same.statistic)
    np.testing.assert_array_equal(result.rows.values, same.rows.values)
    with pytest.raises((TypeError, ValueError), match="encoder"):
        fm.congruence_test(x, y, model, encoder=3)


def test_conditioning(rng):
    """A model that ignores x is calibrated given its forecast, but not congruent."""
    x = rng.uniform(-2, 2, 600)
    y = x + 0.3 * rng.standard_normal(600)
    marginal = fm.Gaussian(np.zeros(600), np.sqrt(4 / 3 + 0.09))
    draws = rng.uniform(-2, 2, (600, 60)) + 0.3 * rng.standard_normal((600, 60))
    assert fm.congruence_test(x, y, marginal, random_state=0).p_value == 1 / 200
    on_forecast = fm.congruence_test(x, y, draws, random_state=0, condition_on="forecast")
    assert on_forecast.p_value > 0.05
    assert "given the forecast" in repr(on_forecast)
    column = fm.congruence_test(x, y, draws, random_state=0, condition_on=rng.uniform(size=600))
    assert column.p_value > 0.05
    assert column.condition_on == "columns"


@pytest.mark.slow
def test_same_seed_same_result_whatever_the_threads(rng):
    x, y, prediction = sine_model(rng, 2 * ROWS + 100)
    one = fm.congruence_test(x, y, prediction, random_state=4)
    try:
        fm.set_num_threads(1)
        two = fm.congruence_test(x, y, prediction, random_state=4)
    finally:
        fm.set_num_threads(None)
    assert one.p_value == two.p_value
    np.testing.assert_allclose(one.simulated, two.simulated, rtol=1e-4)
    assert fm.congruence_test(x, y, prediction, random_state=5).simulated[1] != one.simulated[1]


def test_units_and_views(rng):
    x, y, prediction = sine_model(rng)
    test = fm.congruence_test(x, y, prediction, random_state=0)
    assert test.cce == pytest.approx(np.sqrt(test.statistic))
    assert test.detectable**2 == pytest.approx(test.critical_value - test.null_mean)
    assert test.to_dict()["evidence"][0]["score"] == test.evidence[0].score
    assert len(test.to_frame()) == len(test.evidence) == 13
    assert "dispersion" in test.table()
    scores = [one.score for one in test.evidence]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_statistic_is_the_cce_of_the_given_kernels(rng):
    """With given kernels, ``cce`` is the root mean square of `fastmcmd.cce`, up to chance in the mean."""
    x, y, prediction = sine_model(rng, 400, std=0.5)
    kernels = {"x_kernel": fm.RBF(1.0), "y_kernel": fm.RBF(1.0), "lam": 0.01}
    test = fm.congruence_test(x, y, prediction, **kernels, simulations=999, random_state=0)
    values = fm.cce(x, y, prediction, **kernels).values
    assert test.cce == pytest.approx(np.sqrt(np.mean(values**2)), rel=0.01)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows(n):
    x, y = np.arange(n) * 1.0, np.zeros(n)
    test = fm.congruence_test(x, y, fm.Gaussian(np.zeros(n), 1.0), random_state=0)
    assert 0 < test.p_value <= 1
    assert (
        fm.congruence_test(x, y + 50, fm.Gaussian(np.zeros(n), 1.0), random_state=0).p_value < 0.02
    )


def test_constant_outcomes_and_points():
    x = np.arange(30.0)
    for shape in ((30, 1), (30, 7)):
        right = fm.congruence_test(x, np.full(30, 2.0), np.full(shape, 2.0), random_state=0)
        assert right.p_value == 1.0
    wrong = fm.congruence_test(
        x, np.full(30, 2.0), fm.Uniform(np.full(30, 3.0), 4.0), random_state=0
    )
    assert wrong.p_value == 1 / 200


def test_kernels_by_name(rng):
    x, y, prediction = sine_model(rng, 100)
    auto = {"x_kernel": "auto", "y_kernel": "auto", "lam": "auto"}
    plain = fm.congruence_test(x, y, prediction, random_state=0)
    assert fm.congruence_test(x, y, prediction, **auto, random_state=0).statistic == plain.statistic
    kernels = dict.fromkeys(auto, "paper")
    published = {"x_kernel": fm.Polynomial(3), "y_kernel": fm.RBF("variance"), "lam": 0.1}
    test = fm.congruence_test(x, y, prediction, **published, random_state=0)
    assert (
        fm.congruence_test(x, y, prediction, **kernels, random_state=0).statistic == test.statistic
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("df", [0.05, 0.3])
def test_endless_tails(df):
    model = fm.StudentT(np.full(100, df), 0.0, 1.0)
    y = model.sample(1, 3)[:, 0]
    test = fm.congruence_test(np.arange(100.0), y, model, random_state=0)
    assert 0 < test.p_value <= 1
    assert np.isfinite(test.simulated).all()


def test_heavy_tails_and_scales(rng):
    x = rng.uniform(-1, 1, 200)
    model = fm.StudentT(np.full(200, 0.3), 1e6 + x, 1e-3)
    assert 0 < fm.congruence_test(1e150 * x, model.sample(1, 0)[:, 0], model).p_value <= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"simulations": 5}, "simulations"),
        ({"lam": 0.0}, "lam"),
        ({"x_kernel": 3}, "x_kernel"),
        ({"y_kernel": "rbf"}, "y_kernel"),
        ({"statistic": "median"}, "statistic"),
        ({"condition_on": "y"}, "condition_on"),
        ({"condition_on": np.zeros(7)}, "condition_on"),
        ({"at": np.zeros((3, 4))}, "at"),
        ({"y": np.full(300, np.nan)}, "y"),
        ({"x": np.zeros(3)}, "x"),
        ({"random_state": -1}, "random_state"),
        ({"progress": "yes"}, "progress"),
        ({"condition_on": "forecast", "at": np.zeros(2)}, "at"),
    ],
)
def test_bad_input(rng, change, message):
    x, y, prediction = sine_model(rng)
    arguments = {"x": x, "y": y, "prediction": prediction, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        fm.congruence_test(**arguments)
