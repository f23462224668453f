"""Accuracy of point predictions agrees with scikit-learn, Uncertainty Toolbox and plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd import metrics
from fastmcmd.metrics.point_sums import weighted_median

NAMES = ("mae", "rmse", "median_absolute_error", "r2", "pearson", "marpd", "bias")


def _data(rng, n=301, k=None):
    shape = n if k is None else (n, k)
    y = rng.normal(2.0, 3.0, shape)
    return y, y + rng.normal(0.5, 1.0, shape)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("multioutput", ["uniform_average", "raw_values"])
def test_against_scikit_learn(rng, weighted, k, multioutput):
    from sklearn import metrics as sklearn

    y, point = _data(rng, k=k)
    weights = rng.uniform(0, 2, len(y)) if weighted else None
    theirs = {
        "mae": sklearn.mean_absolute_error,
        "rmse": sklearn.root_mean_squared_error,
        "r2": sklearn.r2_score,
    }
    if k is None or not weighted:  # theirs weights vector outputs otherwise only in newer versions
        theirs["median_absolute_error"] = sklearn.median_absolute_error
    for name, function in theirs.items():
        expected = function(y, point, sample_weight=weights, multioutput=multioutput)
        values = getattr(metrics, name)(y, point, sample_weight=weights, multioutput=multioutput)
        if k is None:
            expected = np.ravel(expected)[0]
        np.testing.assert_allclose(np.ravel(values), np.ravel(expected), rtol=1e-12)


def test_against_uncertainty_toolbox(rng):
    toolbox = pytest.importorskip("uncertainty_toolbox")
    y, point = _data(rng)
    theirs = toolbox.metrics.get_all_accuracy_metrics(point, y, verbose=False)
    ours = {"mdae": "median_absolute_error", "corr": "pearson"}
    for name, value in theirs.items():
        values = getattr(metrics, ours.get(name, name))(y, fm.Gaussian(point, 2.0))
        assert values == pytest.approx(value, rel=1e-12)


def test_pearson_and_bias_with_weights(rng):
    y, point = _data(rng)
    weights = rng.uniform(0, 2, len(y))
    covariance = np.cov(y, point, aweights=weights)
    expected = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert metrics.pearson(y, point, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
    assert metrics.bias(y, point, sample_weight=weights) == pytest.approx(
        np.average(point - y, weights=weights), rel=1e-12
    )


@given(
    st.lists(
        st.tuples(st.integers(-4, 4), st.integers(-4, 4), st.integers(0, 3)),
        min_size=2,
        max_size=15,
    )
)
def test_integer_weights_are_repeated_rows(rows):
    y, point, weights = np.array(rows, dtype=float).T
    if not weights.any():
        weights[0] = 2
    often = weights.astype(int)
    for name in NAMES:
        function = getattr(metrics, name)
        np.testing.assert_allclose(
            function(y, point, sample_weight=weights),
            function(np.repeat(y, often), np.repeat(point, often)),
            rtol=1e-9,
            atol=1e-12,
        )


def test_weighted_median_definition():
    """Return the least value with half of the weight at or below it; the midpoint if exactly half."""
    assert weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])) == 1.5 + 0.5
    assert weighted_median(np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 1.0])) == 1.5
    assert weighted_median(np.array([1.0, 2.0, 5.0]), np.array([2.0, 0.0, 2.0])) == 3.0


def test_invariances(rng):
    y, point = _data(rng)
    order = rng.permutation(len(y))
    for name in NAMES:
        function = getattr(metrics, name)
        assert function(y[order], point[order]) == pytest.approx(function(y, point), rel=1e-12)
        if name != "marpd":
            shifted = function(y + 7, point + 7)
            assert shifted == pytest.approx(function(y, point), rel=1e-10)
        scale = 1.0 if name in ("r2", "pearson", "marpd") else 3.0
        assert function(3 * y, 3 * point) == pytest.approx(scale * function(y, point), rel=1e-12)


def test_digits_survive_a_large_mean(rng):
    y, point = _data(rng)
    # Agree up to the rounding of the data, 1e9 eps / spread.
    assert metrics.r2(y + 1e9, point + 1e9) == pytest.approx(metrics.r2(y, point), abs=1e-6)
    assert metrics.pearson(y + 1e9, point + 1e9) == pytest.approx(
        metrics.pearson(y, point), abs=1e-6
    )


def test_constants_have_no_correlation(rng):
    y = np.full(7, 0.1)  # its mean is not exactly 0.1 in floats
    point = rng.normal(size=7)
    assert np.isnan(metrics.r2(y, point))
    assert np.isnan(metrics.pearson(y, point))
    assert np.isnan(metrics.pearson(point, y))
    assert np.isfinite(metrics.r2(point, y))
    both = metrics.r2(np.c_[y, point], np.c_[point, point], multioutput="raw_values")
    assert np.isnan(both[0])
    assert both[1] == 1.0


def test_marpd_of_two_zeros_is_zero():
    assert metrics.marpd([0.0, 1.0], [0.0, -1.0]) == 100.0


def test_median_as_point(rng):
    y = rng.normal(size=40)
    skewed = stats.lognorm(0.7, loc=rng.normal(size=40))
    assert metrics.mae(y, skewed, point="median") == pytest.approx(
        np.abs(y - skewed.median()).mean()
    )
    assert metrics.mae(y, skewed) == pytest.approx(np.abs(y - skewed.mean()).mean())
    cauchy = stats.cauchy(loc=y, scale=1.0)
    assert metrics.mae(y, cauchy, point="median") == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="means that are not finite; use point='median'"):
        metrics.mae(y, cauchy)


@pytest.mark.parametrize("name", NAMES)
def test_nan_policies_and_bad_input(rng, name):
    function = getattr(metrics, name)
    y, point = _data(rng, 20)
    holed = y.copy()
    holed[3] = np.nan
    valid = np.delete(np.arange(20), 3)
    with pytest.raises(ValueError, match="y holds NaN"):
        function(holed, point)
    assert function(holed, point, nan_policy="omit") == pytest.approx(
        function(y[valid], point[valid])
    )
    assert np.isnan(function(holed, point, nan_policy="propagate"))
    for bad, message in (
        ({"point": "mode"}, "point is 'mode'"),
        ({"multioutput": "sum"}, "multioutput is 'sum'"),
        ({"sample_weight": -np.ones(20)}, "sample_weight has negative"),
        ({"nan_policy": "drop"}, "nan_policy is 'drop'"),
    ):
        with pytest.raises(ValueError, match=message):
            function(y, point, **bad)
    before = y.copy(), point.copy()
    function(y, point)
    np.testing.assert_array_equal(before, (y, point))
