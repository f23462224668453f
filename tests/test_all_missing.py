"""Rows that all hold NaN: an error unless NaN propagates, which makes every number NaN."""

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


def taking_nan(module):
    for name in module.__all__:
        function = getattr(module, name)
        if inspect.isfunction(function) and "nan_policy" in inspect.signature(function).parameters:
            yield name


def check_nan(found):
    values = found if isinstance(found, (float, np.ndarray)) else None
    if values is None and hasattr(found, "to_dict"):
        values = np.array([v for v in found.to_dict().values() if isinstance(v, float)])
    if values is not None:
        assert np.isnan(values).all(), found


REGRESSION = [name for name in taking_nan(fm.metrics) if name != "adversarial_group_calibration"]


@pytest.mark.parametrize("name", REGRESSION)
@pytest.mark.parametrize("where", ["y", "mean", "weight"])
def test_metrics(name, where):
    function = getattr(fm.metrics, name)
    takes = inspect.signature(function).parameters
    vectors = "energy" in name or "variogram" in name
    y = NAN if where == "y" else Y
    mean = NAN if where == "mean" else Y / 2
    option = dict(OPTION)
    if where == "weight":
        if "sample_weight" not in takes:
            pytest.skip("takes no weights")
        option["sample_weight"] = NAN
    if "lower" in takes:
        call, base = (lambda **o: function(y, mean - 1, mean + 1, **o)), {}
    elif vectors:
        pair = np.stack([mean, mean], axis=1)[:, None, :] + np.arange(4.0)[:, None]
        call, base = (lambda **o: function(np.stack([y, y], axis=1), pair, **o)), {}
    else:
        call, base = (lambda **o: function(y, (mean, 1.0 + np.abs(Y)), **o)), {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
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
        given = p, P
    elif "y" in takes:
        given = (NAN if where == "y" else np.arange(N) % 3), p
    else:
        given = (p,)
    if where == "y" and "y" not in takes:
        pytest.skip("takes no labels")
    found = function(*given, **option)
    if not isinstance(found, (float, np.ndarray)):
        return
    check_nan(found)


def test_an_evaluation_needs_a_row():
    with pytest.raises(ValueError, match="all 24 rows hold NaN"):
        fm.evaluate(NAN, (Y, 1.0), nan_policy="propagate")


def test_streaming():
    seen = fm.streaming.CRPS(nan_policy="propagate").update(Y, (Y, 1.0))
    assert seen.compute() > 0
    assert np.isnan(seen.update(NAN, (Y, 1.0)).compute())
