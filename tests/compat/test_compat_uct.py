"""The drop-in for Uncertainty Toolbox agrees with the original, function by function.

Where the original's sign is wrong it is called with negated predictions and outcomes, which turns the
sign of their difference and nothing else.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd.compat import uncertainty_toolbox as ours

uct = pytest.importorskip("uncertainty_toolbox")
MODULES = (
    "metrics",
    "metrics_accuracy",
    "metrics_calibration",
    "metrics_scoring_rule",
    "recalibration",
    "data",
    "utils",
    "viz",
)
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def problem(seed, n=None):
    """Return shifted, too narrow predictions, with outcomes, some of them at the mean."""
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(2, 120))
    mean, std = rng.normal(size=n), rng.uniform(0.3, 2, n)
    y = mean + 0.3 + 1.4 * std * rng.normal(size=n)
    y[rng.random(n) < 0.1] = mean[0]
    return mean, std, y


def public(module):
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == module.__name__
    }


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_is_there_with_its_signature(name):
    original, mine = getattr(uct, name), getattr(ours, name)
    assert public(original)
    for called, function in public(original).items():
        expected = [
            (p.name, p.default, p.kind) for p in inspect.signature(function).parameters.values()
        ]
        parameters = [
            (p.name, p.default, p.kind)
            for p in inspect.signature(getattr(mine, called)).parameters.values()
        ]
        assert parameters == expected, called
        assert called in mine.__all__


def test_the_package_has_the_names_of_the_original():
    names = [name for name, _ in inspect.getmembers(uct, inspect.isfunction)]
    assert names
    for name in names:
        assert callable(getattr(ours, name))
        assert name in ours.__all__
    assert set(ours.metrics.METRIC_NAMES) == set(uct.metrics.METRIC_NAMES)


@given(seed=st.integers(0, 10_000))
def test_accuracy(seed):
    mean, _, y = problem(seed)
    actual, expected = (module.prediction_error_metrics(mean, y) for module in (ours, uct))
    assert list(actual) == list(expected)
    np.testing.assert_allclose(list(actual.values()), list(expected.values()), **CLOSE)


def test_accuracy_of_constant_outputs():
    for predicted in (np.array([1.0, 1.0]), np.array([1.0, 2.0])):
        y = np.ones(2)
        assert ours.prediction_error_metrics(predicted, y)["r2"] == uct.metrics_accuracy.r2_score(
            y, predicted
        )


def test_marpd_of_zeros_is_zero():
    assert ours.prediction_error_metrics([0.0, 1.0], [0.0, 3.0])["marpd"] == 50.0


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    scaled=st.booleans(),
    resolution=st.integers(1, 30),
    ends=st.sampled_from([(0.01, 0.99), (0.2, 0.7), (0.5, 0.5)]),
)
def test_scores(seed, scaled, resolution, ends):
    arrays = problem(seed)
    for name in ("nll_gaussian", "crps_gaussian"):
        actual, expected = (getattr(module, name)(*arrays, scaled) for module in (ours, uct))
        np.testing.assert_allclose(actual, expected, **CLOSE)
    for name in ("check_score", "interval_score"):
        actual, expected = (
            getattr(module, name)(*arrays, scaled, *ends, resolution) for module in (ours, uct)
        )
        np.testing.assert_allclose(actual, expected, **CLOSE)
        np.testing.assert_allclose(
            getattr(ours, name)(*arrays), getattr(uct, name)(*arrays), **CLOSE
        )


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    bins=st.integers(1, 120),
    kind=st.sampled_from(["interval", "quantile"]),
    vectorized=st.booleans(),
    recalibrated=st.booleans(),
)
def test_average_calibration(seed, bins, kind, vectorized, recalibrated):
    mean, std, y = problem(seed)
    sign = -1 if kind == "quantile" else 1  # the original's sign, see above
    model = None
    if recalibrated:
        levels = np.linspace(0, 1, 20)
        model = uct.iso_recal(levels, levels**2)
    for name in (
        "root_mean_squared_calibration_error",
        "mean_absolute_calibration_error",
        "miscalibration_area",
    ):
        options = (bins, vectorized, model, kind)
        actual = getattr(ours, name)(mean, std, y, *options)
        expected = getattr(uct, name)(sign * mean, std, sign * y, *options)
        np.testing.assert_allclose(actual, expected, err_msg=name, **CLOSE)
    for name in ("get_proportion_lists", "get_proportion_lists_vectorized"):
        actual = getattr(ours, name)(mean, std, y, bins, model, kind)
        expected = getattr(uct, name)(sign * mean, std, sign * y, bins, model, kind)
        for mine, other in zip(actual, expected, strict=True):
            np.testing.assert_allclose(mine, other, err_msg=name, **CLOSE)


@given(seed=st.integers(0, 10_000), level=st.floats(0, 1))
def test_single_proportions(seed, level):
    mean, std, y = problem(seed)
    actual = ours.get_proportion_in_interval(mean, std, y, level)
    assert actual == pytest.approx(uct.get_proportion_in_interval(mean, std, y, level), abs=1e-12)
    actual = ours.metrics_calibration.get_proportion_under_quantile(mean, std, y, level)
    expected = uct.metrics_calibration.get_proportion_under_quantile(-mean, std, -y, level)
    assert actual == pytest.approx(expected, abs=1e-12)


def test_proportions_below_quantiles_are_those_of_outcomes():
    """A model that predicts too low has few outcomes below its quantiles; the original reports many."""
    y = np.random.default_rng(0).normal(1.0, size=5000)
    mean, std = np.zeros(5000), np.ones(5000)
    proportion = ours.metrics_calibration.get_proportion_under_quantile(mean, std, y, 0.5)
    assert proportion == pytest.approx(np.mean(y <= 0.0), abs=1e-12)
    assert proportion < 0.2
    assert uct.metrics_calibration.get_proportion_under_quantile(mean, std, y, 0.5) > 0.8


@given(seed=st.integers(0, 10_000), count=st.integers(2, 30), steps=st.booleans())
def test_area_from_proportions(seed, count, steps):
    rng = np.random.default_rng(seed)
    expected = np.sort(rng.random(count))
    observed = np.round(rng.random(count), 1) if steps else np.sort(rng.random(count))
    name = "miscalibration_area_from_proportions"
    np.testing.assert_allclose(
        getattr(ours.metrics_calibration, name)(expected, observed),
        getattr(uct.metrics_calibration, name)(expected, observed),
        **CLOSE,
    )


@given(seed=st.integers(0, 10_000), level=st.floats(0.001, 0.999))
def test_intervals_and_quantiles(seed, level):
    mean, std, _ = problem(seed)
    levels = np.linspace(0, 1, 20)
    for model in (None, uct.iso_recal(levels, levels**2)):
        actual, expected = (
            module.get_prediction_interval(mean, std, level, model) for module in (ours, uct)
        )
        np.testing.assert_allclose(actual.lower, expected.lower, **CLOSE)
        np.testing.assert_allclose(actual.upper, expected.upper, **CLOSE)
        actual, expected = (
            module.metrics_calibration.get_quantile(mean, std, np.array([level]), model)
            for module in (ours, uct)
        )
        np.testing.assert_allclose(actual, expected, **CLOSE)


@given(seed=st.integers(0, 10_000))
def test_sharpness(seed):
    _, std, _ = problem(seed)
    np.testing.assert_allclose(ours.sharpness(std), uct.sharpness(std), **CLOSE)


@pytest.mark.parametrize("cali_type", ["mean_abs", "root_mean_sq"])
@pytest.mark.parametrize("kind", ["interval", "quantile"])
@pytest.mark.parametrize("replace", [False, True])
def test_groups_are_those_of_the_original(cali_type, kind, replace):
    mean, std, y = problem(1, n=57)
    sign = -1 if kind == "quantile" else 1
    options = {
        "cali_type": cali_type,
        "prop_type": kind,
        "num_bins": 23,
        "num_group_bins": 4,
        "draw_with_replacement": replace,
        "num_trials": 3,
        "num_group_draws": 5,
    }
    np.random.seed(5)  # noqa: NPY002  # what the original draws from
    expected = uct.adversarial_group_calibration(sign * mean, std, sign * y, **options)
    np.random.seed(5)  # noqa: NPY002
    groups = ours.adversarial_group_calibration(mean, std, y, **options)
    for name in ("group_size", "score_mean", "score_stderr"):
        np.testing.assert_allclose(getattr(groups, name), getattr(expected, name), **CLOSE)


def test_progress_of_groups_is_shown(capsys):
    mean, std, y = problem(1, n=20)
    ours.adversarial_group_calibration(mean, std, y, "mean_abs", num_group_bins=3, verbose=True)
    assert "300 of 300 groups" in capsys.readouterr().err


@pytest.mark.slow
def test_all_metrics(capsys):
    arrays = problem(3, n=40)
    np.random.seed(7)  # noqa: NPY002
    with contextlib.redirect_stdout(io.StringIO()):
        expected = uct.get_all_metrics(*arrays, num_bins=20, resolution=9, scaled=False)
    capsys.readouterr()
    np.random.seed(7)  # noqa: NPY002
    metrics = ours.get_all_metrics(*arrays, num_bins=20, resolution=9, scaled=False)
    printed_text = capsys.readouterr().out
    assert list(metrics) == list(expected)
    for family, values in expected.items():
        assert list(metrics[family]) == list(values)
        for name, value in values.items():
            assert ours.metrics.METRIC_NAMES[name] in printed_text
            if isinstance(value, dict):
                assert list(metrics[family][name]) == list(value)
                for part in value:
                    np.testing.assert_allclose(metrics[family][name][part], value[part], **CLOSE)
            else:
                np.testing.assert_allclose(metrics[family][name], value, **CLOSE)
    assert f"{metrics['scoring_rule']['crps']:.4g}" in printed_text
    ours.get_all_metrics(*arrays, verbose=False)
    assert capsys.readouterr().out == ""


# ---- recalibration ----


@given(
    q=st.floats(-0.2, 1.2), count=st.integers(1, 12), low=st.sampled_from([0.0, -0.5]),
    high=st.sampled_from([1.0, 1.5, 0.7]),
)  # fmt: skip
def test_index_of_a_level(q, count, low, high):
    levels = np.linspace(low, high, count)
    try:
        expected = uct.recalibration.get_q_idx(levels, q)
    except ValueError:
        with pytest.raises(ValueError, match="q is"):
            ours.recalibration.get_q_idx(levels, q)
    else:
        assert ours.recalibration.get_q_idx(levels, q) == expected


@given(
    seed=st.integers(0, 10_000), beyond=st.sampled_from([(0, 0), (3, 0), (0, 2), (4, 3)]),
    flat=st.booleans(),
)  # fmt: skip
def test_isotonic_model(seed, beyond, flat):
    """The inverse also holds if expected proportions leave [0, 1] and observed ones stall or fall."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(5, 25))
    step = 1 / (count - 1)
    expected = np.round(np.arange(-beyond[0], count + beyond[1]) * step, 12)
    observed = np.sort(rng.random(len(expected))) + 0.1 * rng.normal(size=len(expected))
    observed = np.clip(observed, 0, 1)
    if flat:
        observed = np.round(observed, 1)
    levels = np.linspace(-0.1, 1.1, 60)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            model = uct.iso_recal(expected, observed)
        except (RuntimeError, IndexError):
            model = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if model is None:
            with pytest.raises(ValueError, match="must rise"):
                ours.iso_recal(expected, observed)
            return
        result = ours.iso_recal(expected, observed)
    np.testing.assert_allclose(result.predict(levels), model.predict(levels), **CLOSE)


def test_a_short_range_of_proportions_is_warned_of():
    levels = np.linspace(0, 1, 11)
    with pytest.warns(UserWarning, match="from 0.1 to 0.9"):
        ours.iso_recal(levels, 0.1 + 0.8 * levels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.iso_recal(levels, levels**2)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["ma_cal", "rms_cal", "miscal"])
def test_ratio_is_at_least_as_good(criterion):
    error = {
        "ma_cal": uct.mean_absolute_calibration_error,
        "rms_cal": uct.root_mean_squared_calibration_error,
        "miscal": uct.miscalibration_area,
    }[criterion]
    better = 0
    # The original takes some ten seconds for each of the other two criteria.
    for seed in range(6 if criterion == "miscal" else 1):
        mean, std, y = problem(seed, n=150)
        actual = ours.optimize_recalibration_ratio(mean, std, y, criterion)
        original = uct.optimize_recalibration_ratio(mean, std, y, criterion)
        mine = error(mean, actual * std, y, vectorized=True)
        other = error(mean, original * std, y, vectorized=True)
        # The minimum of a step function over a fine grid of ratios.
        assert mine <= other + 2e-4
        better += mine < other - 1e-6
        recalibrate = ours.recalibration.get_std_recalibrator(mean, std, y, criterion)
        np.testing.assert_allclose(recalibrate(std), actual * std, rtol=1e-12)
    assert better > 0 or criterion != "miscal"


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9])
def test_recalibrators(level):
    mean, std, y = problem(4, n=300)
    new_mean, new_std, _ = problem(5, n=20)
    actual = ours.recalibration.get_interval_recalibrator(mean, std, y)(new_mean, new_std, level)
    expected = uct.recalibration.get_interval_recalibrator(mean, std, y)(new_mean, new_std, level)
    np.testing.assert_allclose(actual.lower, expected.lower, **CLOSE)
    np.testing.assert_allclose(actual.upper, expected.upper, **CLOSE)
    actual = ours.recalibration.get_quantile_recalibrator(mean, std, y)(new_mean, new_std, level)
    levels, below = uct.get_proportion_lists_vectorized(-mean, std, -y, prop_type="quantile")
    model = uct.iso_recal(levels, below)
    expected = uct.metrics_calibration.get_quantile(new_mean, new_std, level, model)
    np.testing.assert_allclose(actual, expected, **CLOSE)


def test_recalibrated_quantiles_of_a_shifted_model_go_to_the_outcomes():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=4000), np.ones(4000)
    y = mean + 1 + rng.normal(size=4000)
    for level in (0.1, 0.5, 0.9):
        quantile = ours.recalibration.get_quantile_recalibrator(mean, std, y)(mean, std, level)
        assert np.mean(y <= quantile) == pytest.approx(level, abs=0.03)
        wrong = uct.recalibration.get_quantile_recalibrator(mean, std, y)(mean, std, level)
        assert abs(np.mean(y <= wrong) - level) > abs(np.mean(y <= quantile) - level)


# ---- arguments ----


@pytest.mark.parametrize(
    "name",
    [
        "nll_gaussian",
        "crps_gaussian",
        "check_score",
        "interval_score",
        "root_mean_squared_calibration_error",
        "mean_absolute_calibration_error",
        "miscalibration_area",
        "get_proportion_lists",
        "get_proportion_lists_vectorized",
        "get_all_metrics",
    ],
)
@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"y_true": [1.0, np.nan]}, "y_true holds NaN"),
        ({"y_pred": [np.inf, 0.0]}, "y_pred holds infinity"),
        ({"y_std": [1.0, 0.0]}, r"y_std holds values that are not positive \(first in row 1"),
        ({"y_true": [1.0]}, "rows must match"),
        ({"y_pred": [[1.0], [2.0]]}, r"y_pred has shape \(2, 1\)"),
        ({"y_pred": [], "y_std": [], "y_true": []}, "no rows"),
    ],
)
def test_bad_vectors_are_named(name, changed, match):
    arguments = {"y_pred": [0.0, 1.0], "y_std": [1.0, 1.0], "y_true": [0.0, 1.0]} | changed
    with pytest.raises(ValueError, match=match):
        getattr(ours, name)(**arguments)


def test_bad_options_are_named():
    arrays = ([0.0, 1.0], [1.0, 1.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="prop_type is 'both'"):
        ours.miscalibration_area(*arrays, prop_type="both")
    with pytest.raises(ValueError, match="num_bins is 0"):
        ours.miscalibration_area(*arrays, num_bins=0)
    with pytest.raises(ValueError, match="cali_type is 'rms'"):
        ours.adversarial_group_calibration(*arrays, "rms")
    with pytest.raises(ValueError, match="y_true has 1 row"):
        ours.adversarial_group_calibration([0.0], [1.0], [0.0], "mean_abs")
    with pytest.raises(ValueError, match="start_q is 0"):
        ours.check_score(*arrays, start_q=0.0)
    with pytest.raises(ValueError, match="resolution is 0"):
        ours.interval_score(*arrays, resolution=0)
    with pytest.raises(TypeError, match="recal_model is 3"):
        ours.miscalibration_area(*arrays, recal_model=3)
    with pytest.raises(ValueError, match="quantile is 1"):
        ours.get_prediction_interval(*arrays[:2], 1.0)
    with pytest.raises(ValueError, match="quantile has shape"):
        ours.get_prediction_interval(*arrays[:2], [0.1, 0.2])
    with pytest.raises(ValueError, match="criterion"):
        ours.optimize_recalibration_ratio(*arrays, "nll")


def test_scikit_learn_is_named_where_it_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.isotonic", None)
    with pytest.raises(fm.MissingDependencyError, match="pip install scikit-learn"):
        ours.iso_recal([0.0, 0.5, 1.0], [0.0, 0.4, 1.0])


def test_lists_tensors_and_columns_are_taken():
    torch = pytest.importorskip("torch")
    mean, std, y = problem(2, n=30)
    expected = stats.norm(mean, std).logpdf(y).mean() * -1
    for make in (list, torch.tensor):
        assert ours.nll_gaussian(*map(make, (mean, std, y))) == pytest.approx(expected, rel=1e-12)
