"""Rows that all contain NaN raise an error, or make every number NaN if NaN propagates."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import fastmcmd as fm

N = 24
NAN = np.full(N, np.nan)
Y = np.linspace(-1, 1, N)
P = np.full((N, 3), 1 / 3)
OPTION = {"nan_policy": "propagate"}
# Arguments that have no defaults.
ARGUMENTS = {
    "event": np.arange(N) % 3 > 0,
    "times": [0.0, 0.5],
    "threshold": 0.0,
    "thresholds": [0.0, 0.5],
}
# Curves with bands or thresholds of the data: their documentation excludes "propagate".
NO_PROPAGATION = {
    "metrics": {"exceedance_reliability", "murphy_curve", "pit_ecdf", "rank_histogram"},
    "classification": {"isotonic_reliability", "murphy_curve"},
}
OF_DRAWS = {"ensemble_log_score", "error_spread_score", "rank_histogram"}


def taking_nan(module):
    for name in module.__all__:
        function = getattr(module, name)
        if inspect.isfunction(function) and "nan_policy" in inspect.signature(function).parameters:
            yield name


def without_default(takes):
    return {name for name, one in takes.items() if one.default is inspect.Parameter.empty}


def check_nan(result):
    values = result if isinstance(result, (float, np.ndarray)) else None
    if values is None and hasattr(result, "to_dict"):
        values = np.array([v for v in result.to_dict().values() if isinstance(v, float)])
    for name in ("area", "event"):  # of a ROC curve, and of a discrimination
        values = getattr(result, name, values)
    if values is not None:
        assert np.isnan(values).all(), result


REGRESSION = [name for name in taking_nan(fm.metrics) if name != "adversarial_group_calibration"]


@pytest.mark.parametrize("name", REGRESSION)
@pytest.mark.parametrize("where", ["y", "mean", "weight"])
def test_metrics(name, where):
    function = getattr(fm.metrics, name)
    takes = inspect.signature(function).parameters
    vectors = "energy" in name or "variogram" in name
    y = NAN if where == "y" else Y
    mean = NAN if where == "mean" else Y / 2
    option = OPTION | {key: ARGUMENTS[key] for key in ARGUMENTS.keys() & without_default(takes)}
    if where == "weight":
        if "sample_weight" not in takes:
            pytest.skip("takes no weights")
        option["sample_weight"] = NAN
    if "lower" in takes and "prediction" not in takes:
        call, base = (lambda **o: function(y, mean - 1, mean + 1, **o)), {}
    elif vectors:
        pair = np.stack([mean, mean], axis=1)[:, None, :] + np.arange(4.0)[:, None]
        call, base = (lambda **o: function(np.stack([y, y], axis=1), pair, **o)), {}
    elif name.removeprefix("mean_") in OF_DRAWS:
        call, base = (lambda **o: function(y, mean[:, None] + np.arange(5.0), **o)), {}
    else:
        call, base = (lambda **o: function(y, (mean, 1.0 + np.abs(Y)), **o)), {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        if name in NO_PROPAGATION["metrics"]:
            with pytest.raises(ValueError, match="one of 'raise', 'omit' is needed"):
                call(**option, **base)
        else:
            check_nan(call(**option, **base))
    with pytest.raises(ValueError, match="all 24 rows hold NaN"):
        call(**{**option, "nan_policy": "omit"})


@pytest.mark.parametrize("name", list(taking_nan(fm.classification)))
@pytest.mark.parametrize("where", ["y", "p"])
def test_classification(name, where):
    function = getattr(fm.classification, name)
    takes = inspect.signature(function).parameters
    p = P * np.nan if where == "p" else P
    option = {**OPTION, **({"k": 2} if "k" in takes else {})}
    if "p_in" in takes:
        predictions = p, P
    elif "y" in takes:
        predictions = (NAN if where == "y" else np.arange(N) % 3), p
    else:
        predictions = (p,)
    if where == "y" and "y" not in takes:
        pytest.skip("takes no labels")
    with pytest.raises(ValueError, match="all 24 rows hold NaN"):
        function(*predictions, **{**option, "nan_policy": "omit"})
    if name in NO_PROPAGATION["classification"]:
        with pytest.raises(ValueError, match="one of 'raise', 'omit' is needed"):
            function(*predictions, **option)
        return
    actual = function(*predictions, **option)
    if not isinstance(actual, (float, np.ndarray)):
        return
    check_nan(actual)


@pytest.mark.parametrize(
    "prediction",
    [fm.Gaussian(Y, 1.0), fm.Poisson(Y + 2), fm.Draws(np.stack([Y, Y + 1, Y - 1], axis=1))],
    ids=["gaussian", "poisson", "draws"],
)
def test_an_evaluation(prediction):
    x, by = Y[:, None], np.arange(N) % 2
    evaluation = fm.evaluate(
        NAN, prediction, x, n_boot=5, by=by, adversarial=True, nan_policy="propagate"
    )
    values = [one.value for one in evaluation.measured]
    values += [one.value for _, numbers in evaluation.by.values() for one in numbers]
    values += [value for rows in evaluation.rows.values() for value in rows] + list(evaluation.y)
    assert len(evaluation.measured) > 15
    assert np.isnan(values).all()
    assert evaluation.notes == ("all 24 rows hold NaN: every number is NaN",)
    assert "all 24 rows hold NaN" in evaluation.skipped["mean_cce"]
    assert not evaluation.curves
    with pytest.raises(ValueError, match="all 24 rows hold NaN"):
        fm.evaluate(NAN, prediction, nan_policy="omit")


def test_a_comparison():
    models = {"a": fm.Gaussian(Y, 1.0), "b": fm.Gaussian(-Y, 1.0)}
    comparison = fm.compare(models, NAN, Y[:, None], n_boot=5, nan_policy="propagate")
    assert all(np.isnan(values).all() for _, values in comparison.lines())
    assert "*" not in comparison.table()
    assert fm.compare(comparison.evaluations).table() == comparison.table()


def test_groups_are_nan_that_hold_such_a_row():
    y = Y.copy()
    y[3] = np.nan
    by = np.arange(N) % 2
    by_group = fm.evaluate(y, fm.Gaussian(Y, 1.0), by=by, nan_policy="propagate").by
    assert all(np.isnan(one.value) for one in by_group[1][1])
    alone = fm.evaluate(Y[by == 0], fm.Gaussian(Y[by == 0], 1.0))
    numbers = {one.name: one.value for one in by_group[0][1]}
    assert numbers["mean_crps"] == pytest.approx(alone["mean_crps"])


def test_streaming():
    accumulator = fm.streaming.CRPS(nan_policy="propagate").update(Y, (Y, 1.0))
    assert accumulator.compute() > 0
    assert np.isnan(accumulator.update(NAN, (Y, 1.0)).compute())
