"""Accumulators of accuracy and calibration give the functions' values, for any batches and order."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd import metrics
from fastmcmd.metrics.point_sums import weighted_median
from fastmcmd.streaming import accuracy, calibration, variance
from fastmcmd.streaming.mass_sketch import LogSketch

EXACT = {
    "mae": (accuracy.MAE, metrics.mae),
    "rmse": (accuracy.RMSE, metrics.rmse),
    "bias": (accuracy.Bias, metrics.bias),
    "marpd": (accuracy.MARPD, metrics.marpd),
    "r2": (accuracy.R2, metrics.r2),
    "pearson": (accuracy.Pearson, metrics.pearson),
    "ece": (calibration.RegressionECE, metrics.regression_ece),
    "rms": (calibration.RMSCalibrationError, metrics.rms_calibration_error),
    "mace": (
        calibration.MeanAbsoluteCalibrationError,
        metrics.mean_absolute_calibration_error,
    ),
    "area": (calibration.MiscalibrationArea, metrics.miscalibration_area),
    "coverage": (calibration.Coverage, metrics.coverage),
    "width": (calibration.MeanIntervalWidth, metrics.mean_interval_width),
    "sharpness": (calibration.Sharpness, metrics.sharpness),
    "variation": (variance.VarianceVariation, metrics.variance_variation),
}
# By sketches; with few distinct spreads, further apart than the accuracy, exact as well.
SKETCHED = {
    "ence": (variance.ENCE, metrics.ence),
    "uce": (variance.UCE, metrics.uce),
    "qce": (variance.QCE, metrics.qce),
}


def _rows(seed, n=60):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), rng.choice([0.5, 0.8, 1.0, 1.7, 2.5], n)
    return mean + 1.2 * std * rng.normal(size=n), mean, std, rng.uniform(0, 2, n)


def _batches(cuts, n):
    edges = [0, *sorted({c for c in cuts if 0 < c < n}), n]
    return [slice(a, b) for a, b in pairwise(edges)]


@given(
    st.lists(st.integers(1, 59), max_size=6),
    st.integers(0, 1000),
    st.sampled_from(sorted(EXACT | SKETCHED)),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_split_and_any_order_of_merging(cuts, seed, name, weighted, random):
    kind, function = (EXACT | SKETCHED)[name]
    y, mean, std, weights = _rows(seed)
    batches = _batches(cuts, 60)
    parts = []
    for rows in batches:
        w = weights[rows] if weighted else None
        parts.append(kind().update(y[rows], (mean[rows], std[rows]), sample_weight=w))
    random.shuffle(parts)
    while len(parts) > 1:
        one = parts.pop(random.randrange(len(parts)))
        parts[random.randrange(len(parts))].merge(one)
    expected = function(y, (mean, std), sample_weight=weights if weighted else None)
    assert parts[0].compute() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_options_reach_the_function(name):
    kind, function = EXACT[name]
    y, mean, std, _ = _rows(1)
    options = {
        "ece": {"levels": [0.2, 0.7], "weights": [1, 3], "alpha": 2.0, "kind": "interval"},
        "area": {"levels": [0.0, 0.3, 1.0], "kind": "quantile"},
        "coverage": {"level": [0.5, 0.9]},
        "width": {"level": 0.3},
        "variation": {"ddof": 0},
        "mae": {"point": "median"},
    }.get(name, {})
    value = kind(**options).update(y, (mean, std)).compute()
    np.testing.assert_allclose(value, function(y, (mean, std), **options), rtol=1e-12)


def test_curves(rng):
    y, mean, std, _ = _rows(2, 200)
    halves = (slice(0, 120), slice(120, 200))
    curve = calibration.Reliability([0.1, 0.6])
    histogram = calibration.PITHistogram(7)
    spread = variance.ENCECurve(4)
    for rows in halves:
        for one in (curve, histogram, spread):
            one.update(y[rows], (mean[rows], std[rows]))
    expected = metrics.reliability_curve(y, (mean, std), [0.1, 0.6])
    np.testing.assert_array_equal(curve.compute().observed, expected.observed)
    np.testing.assert_allclose(curve.compute().scatter, expected.scatter)
    np.testing.assert_array_equal(
        histogram.compute().mass, metrics.pit_histogram(y, (mean, std), 7).mass
    )
    expected = metrics.ence_curve(y, (mean, std), 4)
    spread_curve = spread.compute()
    for name in ("rmv", "rmse", "mass", "null_std", "edges"):
        np.testing.assert_allclose(getattr(spread_curve, name), getattr(expected, name), rtol=1e-12)
    assert spread_curve.n == 200


@pytest.mark.parametrize("pit", ["randomized", "nonrandomized", "mid"])
def test_batches_of_counts_in_order_share_one_stream(rng, pit):
    mean = rng.uniform(0.3, 4, 300)
    y = rng.poisson(mean)
    histogram = calibration.PITHistogram(pit=pit, random_state=4)
    ece = calibration.RegressionECE(random_state=4)
    for rows in (slice(0, 50), slice(50, 300)):
        histogram.update(y[rows], fm.Poisson(mean[rows]))
        ece.update(y[rows], fm.Poisson(mean[rows]))
    expected = metrics.pit_histogram(y, fm.Poisson(mean), pit=pit, random_state=4)
    np.testing.assert_allclose(histogram.compute().mass, expected.mass, rtol=1e-12)
    assert ece.compute() == metrics.regression_ece(y, fm.Poisson(mean), random_state=4)


def test_vector_outputs():
    rng = np.random.default_rng(0)
    y, point = rng.normal(size=(2, 50, 3))
    for kind, function in (EXACT[name] for name in ("mae", "r2", "pearson")):
        accumulator = (
            kind(multioutput="raw_values").update(y[:20], point[:20]).update(y[20:], point[20:])
        )
        expected = function(y, point, multioutput="raw_values")
        np.testing.assert_allclose(accumulator.compute(), expected, rtol=1e-12)


def test_moments_of_far_off_numbers(rng):
    """Batches with a large mean, one row each, lose no digits beyond the rounding of the data."""
    y = 1e8 + rng.normal(size=100)
    point = y + rng.normal(size=100)
    accumulator = accuracy.R2()
    for i in range(100):
        accumulator.update(y[i : i + 1], point[i : i + 1])
    assert accumulator.compute() == pytest.approx(metrics.r2(y, point), rel=1e-6)


@pytest.mark.parametrize("accuracy_", [1e-3, 0.02])
def test_sketched_ence_is_near(rng, accuracy_):
    std = np.exp(rng.normal(size=20_000))
    mean = rng.normal(size=20_000)
    y = mean + 1.1 * std * rng.normal(size=20_000)
    by_accuracy = {name: kind(accuracy=accuracy_) for name, (kind, _) in SKETCHED.items()}
    for rows in np.array_split(rng.permutation(20_000), 7):
        for one in by_accuracy.values():
            one.update(y[rows], (mean[rows], std[rows]))
    # Variances within the accuracy may change bins: a share of it changes in each of ten bins' sums.
    for name, (_, function) in SKETCHED.items():
        expected = function(y, (mean, std))
        assert by_accuracy[name].compute() == pytest.approx(
            expected, rel=0.1, abs=2 * accuracy_ / 10
        )


@given(
    st.lists(
        st.tuples(st.one_of(st.just(0.0), st.floats(1e-300, 1e300)), st.integers(0, 3)),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 20),
)
def test_sketched_median_has_its_relative_error(rows, split):
    values, weights = np.array(rows).T
    if not weights.any():
        weights[0] = 1.0
    parts = [
        LogSketch.of(values[rows], [weights[rows]], 0.01)
        for rows in (slice(0, split), slice(split, None))
        if len(values[rows])
    ]
    all_rows = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    # A mean of two such numbers has at most their relative error.
    assert all_rows.median() == pytest.approx(weighted_median(values, weights), rel=0.01 + 1e-9)
    if len(parts) == 2:
        again = parts[1] + parts[0]
        np.testing.assert_array_equal(again.keys, all_rows.keys)
        np.testing.assert_array_equal(again.sums, all_rows.sums)


def test_sketched_quantiles_of_real_numbers(rng):
    values = np.concatenate([rng.normal(size=500), [0.0, -1e-12, 1e12]])
    sketch = LogSketch.of(values, [np.ones(503)], 1e-3)
    levels = np.array([0.01, 0.3, 0.5, 0.77, 1.0])
    expected = np.quantile(values, levels, method="inverted_cdf")
    np.testing.assert_allclose(sketch.quantile(levels), expected, rtol=1e-3 + 1e-9)
    assert len(sketch.keys) <= 503
    np.testing.assert_array_equal(np.sort(sketch.values), sketch.values)


def test_sketches_of_another_kind_are_not_added():
    one = LogSketch.of(np.ones(2), [np.ones(2)], 0.01)
    with pytest.raises(ValueError, match=r"accuracy 0\.01 and 0\.02 cannot be added"):
        one + LogSketch.of(np.ones(2), [np.ones(2)], 0.02)
    with pytest.raises(ValueError, match="finite numbers only"):
        LogSketch.of(np.array([np.inf]), [np.ones(1)], 0.01)


def test_median_absolute_error(rng):
    y, mean, _, weights = _rows(3, 400)
    accumulator = accuracy.MedianAbsoluteError()
    for rows in (slice(0, 150), slice(150, 400)):
        accumulator.update(y[rows], mean[rows], sample_weight=weights[rows])
    expected = metrics.median_absolute_error(y, mean, sample_weight=weights)
    assert accumulator.compute() == pytest.approx(expected, rel=1e-3 + 1e-9)
    accumulator.reset()
    with pytest.raises(ValueError, match="has seen no rows"):
        accumulator.compute()


@pytest.mark.parametrize("name", EXACT | SKETCHED)
def test_nan_policies(name):
    kind, function = (EXACT | SKETCHED)[name]
    y, mean, std, _ = _rows(5)
    y[10] = np.nan
    halves = (slice(0, 30), slice(30, 60))

    def accumulator_of(policy):
        one = kind(nan_policy=policy)
        for rows in halves:
            one.update(y[rows], (mean[rows], std[rows]))
        return one.compute()

    assert accumulator_of("omit") == pytest.approx(
        function(y, (mean, std), nan_policy="omit"), rel=1e-9
    )
    assert np.isnan(accumulator_of("propagate"))
    with pytest.raises(ValueError, match="y holds NaN"):
        accumulator_of("raise")


def test_other_settings_are_not_merged(rng):
    one, other = calibration.RegressionECE(), calibration.RegressionECE(alpha=2.0)
    with pytest.raises(ValueError, match="they must agree"):
        one.merge(other)
    with pytest.raises(TypeError, match="a RegressionECE is needed"):
        one.merge(calibration.Sharpness())
    # Another stream of random numbers is no other setting: merged parts should have their own.
    calibration.RegressionECE(random_state=1).merge(calibration.RegressionECE(random_state=2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: variance.ENCE(accuracy=0.0), r"accuracy is 0;"),
        (lambda: variance.ENCE(0), "bins is 0"),
        (lambda: variance.UCE(limits=(2, 1)), "limits is"),
        (lambda: variance.QCE(levels=[2.0]), "levels must be"),
        (lambda: calibration.Coverage(1.5), r"level is 1\.5"),
        (lambda: calibration.RegressionECE([0.5], [1, 2]), "weights must be nonnegative"),
        (lambda: calibration.PITHistogram(pit="exact"), "pit is 'exact'"),
        (lambda: accuracy.MAE(point="mode"), "point is 'mode'"),
        (lambda: calibration.Sharpness(nan_policy="drop"), "nan_policy is 'drop'"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_error_leaves_the_accumulator_as_it_was():
    accumulator = variance.ENCE(2).update([0.0, 1.0], ([0.0, 0.0], [1.0, 2.0]))
    before = accumulator.compute()
    with pytest.raises(ValueError, match="y holds NaN"):
        accumulator.update([np.nan], ([0.0], 1.0))
    assert accumulator.compute() == before
