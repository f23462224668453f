"""Arrays that are not draws, and swapped arguments, are recognised; draws are accepted."""

from __future__ import annotations

import importlib

import numpy as np
import pandas as pd
import pytest

import fastmcmd as fm
from fastmcmd.inference.congruence_result import ONE_DRAW
from fastmcmd.predictive.adapters import outcome_checks
from fastmcmd.predictive.adapters.outcome_checks import far_outcomes

N = 200


@pytest.fixture
def data(rng):
    x = rng.normal(size=N)
    std = 0.2 + 0.1 * np.abs(x)
    return x, x + std * rng.normal(size=N), x, std


def _notes(*arguments, **options):
    return fm.evaluate(*arguments, test=False, **options).notes


@pytest.mark.parametrize(
    ("first", "second"), [("mean", "std"), ("mu", "sigma"), ("Mean", "Std. dev."), ("loc", "scale")]
)
def test_named_columns_are_no_draws(data, first, second):
    x, y, mean, std = data
    frame = pd.DataFrame({first: mean, second: std})
    for call in (
        lambda: fm.evaluate(y, frame),
        lambda: fm.metrics.mean_crps(y, frame),
        lambda: fm.cce(x, y, frame),
        lambda: fm.metrics.regression_ece(y, frame),
    ):
        with pytest.raises(
            ValueError, match=r"prediction is a frame with the columns .*\(mean, std\)"
        ):
            call()
    pair = (frame[first], frame[second])
    assert fm.metrics.mean_crps(y, pair) == fm.metrics.mean_crps(y, (mean, std))


@pytest.mark.parametrize("names", [["mean", "lower", "upper"], [0.1, 0.5, 0.9], ["q0.05", "q0.95"]])
def test_columns_of_intervals_are_no_draws(data, rng, names):
    _, y, *_ = data
    with pytest.raises(ValueError, match="Quantiles"):
        fm.evaluate(y, pd.DataFrame(rng.normal(size=(N, len(names))), columns=names))


def test_class_probabilities_are_no_draws(rng):
    p = rng.dirichlet(np.ones(4), N)
    labels = np.array([rng.choice(4, p=row) for row in p])
    for y, probabilities in [(labels, p), (labels + 1, p), (labels, p.astype(np.float32))]:
        with pytest.raises(
            ValueError, match=r"probabilities of 4 classes.*classification\.evaluate"
        ):
            fm.evaluate(y, probabilities)
        with pytest.raises(ValueError, match="probabilities of 4 classes"):
            fm.metrics.mean_crps(y, probabilities)
    with pytest.raises(ValueError, match="probabilities of 2 classes"):
        fm.evaluate(labels > 1, np.stack([1 - p[:, 0], p[:, 0]], axis=1))
    fm.evaluate(labels, fm.Draws(p))  # declared as draws


def test_a_point_prediction_is_noted(data):
    _, y, mean, _ = data
    for points in (mean, mean[:, None], pd.DataFrame({"mean": mean})):
        assert _notes(y, points) == (f"one draw per row: {ONE_DRAW}",)


def test_orders_of_arguments(data):
    x, y, mean, std = data
    assert any(
        "the order of arguments is (y, prediction, x)" in one
        for one in _notes(mean, std, y, x_kernel=fm.RBF(1.0))
    )
    with pytest.raises(
        TypeError, match=r"y is a pair of arrays.*the order of arguments is \(y, pred"
    ):
        fm.evaluate((mean, std), y)
    with pytest.raises(TypeError, match="y is a predicted distribution, Gaussian"):
        fm.metrics.mean_crps(fm.Gaussian(mean, std), y)
    with pytest.raises(TypeError, match=r"the order of arguments is \(x, y, prediction\)"):
        fm.cce(x, fm.Gaussian(mean, std), y)
    level = mean + 5
    assert any("the order is (mean, std)" in one for one in _notes(y + 5, (std, level)))
    stacked = np.stack([mean, std], axis=1)
    assert any("second looks like a standard deviation" in one for one in _notes(y, stacked))
    common = np.stack([mean, np.full(len(y), 40.0)], axis=1)  # draws do not agree in all rows
    assert any("second looks like a standard deviation" in one for one in _notes(y, common))
    far = np.stack([mean + 300, std * 2 + 40], axis=1)  # the spread of outcomes does not show it
    assert any("one is nearly always the larger" in one for one in _notes(y + 300, far))
    with pytest.raises(ValueError, match=r"given as a tuple, \(mean, std\)"):
        fm.evaluate(y, np.stack([mean, std]))
    with pytest.raises(ValueError, match="transpose them"):
        fm.evaluate(y, np.zeros((30, N)))
    with pytest.raises(ValueError, match="transpose them"):
        fm.evaluate(y, [np.zeros(N) for _ in range(30)])
    labels = (y > 0).astype(float)
    p = 1 / (1 + np.exp(-mean))
    assert any("classification.evaluate" in one for one in _notes(labels, fm.Draws(p)))


def test_the_probability_of_the_second_class_is_no_draw(data):
    """`congruence_test` of a classifier called it wrong beyond chance, of one draw per row."""
    x, y, mean, _ = data
    p, labels = 1 / (1 + np.exp(-mean)), (y > 0).astype(int)
    for call in (
        lambda: fm.congruence_test(x, labels, p),
        lambda: fm.evaluate(labels == 1, p[:, None]),
    ):
        with pytest.raises(ValueError, match=r"second of two classes.*Categorical"):
            call()
    assert fm.congruence_test(x, labels, fm.Draws(p)).one_draw
    for other in (labels * 0, labels + 0.5, labels * 2):
        assert fm.congruence_test(x, other, p).n == N
    assert "no spread" in repr(fm.congruence_test(x, y, mean))


@pytest.mark.slow
def test_draws_and_models_are_left_alone(rng):
    """No error and no note on 160 legitimate inputs: right and wrong models, all kinds of draws."""
    for trial in range(40):
        n = int(rng.integers(3, 80))
        x = rng.normal(size=n) * 10.0 ** rng.integers(-2, 3) + rng.integers(-5, 6)
        std = np.abs(rng.normal(size=n)) + 0.05
        y = x + std * rng.normal(size=n)
        if trial % 2:
            y = np.round(np.abs(y))
        wrong = rng.normal(size=n) * rng.uniform(0, 3) + rng.uniform(-3, 3)
        m = int(rng.integers(2, 6))
        draws = (x + wrong)[:, None] + std[:, None] * rng.normal(size=(n, m))
        counts = rng.integers(0, 2, (n, m))  # rows may sum to 1
        assert _notes(y, draws) == (), trial
        assert _notes(y, np.abs(draws), x, x_kernel=fm.RBF(1.0)) == (), trial
        assert _notes((y > y.mean()).astype(int), counts) == (), trial
        if trial % 2:  # y is positive, and points are plausible predictions of it
            points = np.abs(y + std * rng.normal(size=n)) + 0.1
            note = (f"one draw per row: {ONE_DRAW}",)
            assert _notes(y, points, x, x_kernel=fm.RBF(1.0)) == note, trial
        assert _notes(y, (x + wrong, std * rng.uniform(0.1, 10))) == (), trial


def test_names_of_draws_are_left_alone(rng):
    y = rng.normal(size=N)
    for names in (
        [0, 1, 2],
        ["draw_0", "draw_1", "draw_2"],
        ["member 1", "member 2", "control"],
        ["model_mean", "net", "forest"],
    ):
        assert _notes(y, pd.DataFrame(rng.normal(size=(N, 3)), columns=names)) == ()
    vectors = pd.DataFrame(rng.normal(size=(N, 2)), columns=["mean", "std"])
    fm.metrics.mae(rng.normal(size=(N, 2)), vectors)  # outputs may have this name
    shares = rng.dirichlet(np.ones(3), N)
    assert _notes(rng.uniform(size=N), shares) == ()  # shares that are draws: y is no label


@pytest.mark.parametrize("scatter", [0.0, 1.0, 200.0])
def test_outcomes_that_no_row_predicts_are_remarked(rng, scatter):
    y = 100 + scatter * np.abs(rng.normal(size=60))
    notes = fm.evaluate(y, fm.Gaussian(np.ones(60), np.full(60, 0.1))).notes
    assert any("more than 50 predicted standard deviations" in note for note in notes)


@pytest.mark.parametrize("std", [1e-1, 1e-3, 1e-6])
def test_networks_that_are_far_too_sure_are_only_wrong(rng, std):
    mean = rng.normal(size=200)
    y = mean + 0.5 * rng.normal(size=200) + 0.3
    assert not fm.evaluate(y, fm.Gaussian(mean, np.full(200, std))).notes


def test_values_of_predictions_that_are_far_off_have_a_note(rng):
    x = rng.normal(size=100)
    y = x + 0.3 * rng.normal(size=100)
    far = fm.Gaussian(x + 1e4, 0.3)
    result = fm.cce(x, y, far)
    assert "100% of the outcomes" in repr(result)
    assert "mixed up" in result.info.notes[-1]
    assert fm.ConditionalCongruence().fit(x, y, far).result_.info.notes == result.info.notes
    assert not any("mixed up" in note for note in fm.cce(x, y, fm.Gaussian(x, 0.3)).info.notes)


def test_swapped_inputs_and_outcomes_are_recognised(rng):
    x = rng.normal(size=(N, 2))
    y = x[:, 0] + rng.normal(size=N)
    prediction = fm.Gaussian(x[:, 0], 1.0)
    for call in (fm.cce, fm.congruence_test, fm.diagnose, fm.verdict):
        with pytest.raises(ValueError, match=r"x has 1, as many as the prediction: are x and y in"):
            call(y, x, prediction)
    with pytest.raises(ValueError, match="are x and y in each other's place"):
        fm.cce(y.tolist(), x, prediction)
    with pytest.raises(TypeError, match=r"the order of arguments is \(models, y, x\)"):
        fm.compare(y, {"a": prediction}, x)


def test_a_summary_of_statsmodels_is_not_read_as_draws(rng):
    x = rng.normal(size=(60, 2))
    y = x.sum(axis=1) + rng.normal(size=60)
    linear_model = pytest.importorskip("statsmodels.api")
    predicted = linear_model.OLS(y, x).fit().get_prediction(x)
    with pytest.raises(ValueError, match="not its summary_frame"):
        fm.evaluate(y, predicted.summary_frame())
    assert fm.evaluate(y, predicted)["crps"] < 1


@pytest.mark.parametrize(
    "name", ["datasets", "kernels", "encoders", "compat.sklearn", "compat.probcal"]
)
def test_modules_list_their_own_names(name):
    module = importlib.import_module(f"fastmcmd.{name}")
    assert {one for one in dir(module) if not one.startswith("__")} == set(module.__all__)


@pytest.mark.parametrize("draws", [2, 3, 50, 2000, 2500])
def test_no_outcome_between_its_draws_is_far(draws, monkeypatch):
    """Samuelson's inequality replaces the moments of draws around their outcomes."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(60, 1))
    array = centre + 1e-3 * rng.normal(size=(60, draws))
    array[::2, 0] += 1.0  # one draw far from the others
    for gap in (0.0, 0.5, 100.0):
        y = centre[:, 0] + np.where(np.arange(60) > 0, gap, 0.0)
        prediction = fm.Draws(array)
        with monkeypatch.context() as patch:
            patch.setattr(outcome_checks, "_SAMUELSON", 0)  # from the moments of all draws
            expected = far_outcomes(y, prediction)
        assert far_outcomes(y, prediction) == expected
        assert bool(expected) is (gap == 100.0)
