"""PIT and reliability curves agree with Uncertainty Toolbox, plain counts and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd import metrics
from fastmcmd.metrics.pit import sort_pit
from fastmcmd.metrics.reliability_sums import conclude_reliability, reliability_sums

LEVELS = np.linspace(0, 1, 100)


def _gaussian(rng, n=500, shift=0.3, scale=1.4):
    mean, std = rng.normal(size=n), rng.uniform(0.5, 2, n)
    return mean + shift + scale * std * rng.normal(size=n), mean, std


def test_against_uncertainty_toolbox(rng):
    toolbox = pytest.importorskip("uncertainty_toolbox")
    for shift, scale in ((0.0, 1.0), (0.4, 0.6), (0.0, 2.0)):
        y, mean, std = _gaussian(rng, shift=shift, scale=scale)
        theirs = toolbox.metrics.get_all_average_calibration(mean, std, y, 100, verbose=False)
        ours = {
            "rms_cal": metrics.rms_calibration_error,
            "ma_cal": metrics.mean_absolute_calibration_error,
            "miscal_area": metrics.miscalibration_area,
        }
        assert set(ours) == set(theirs)
        for name, function in ours.items():
            assert function(y, (mean, std)) == pytest.approx(theirs[name], abs=1e-12)


def test_uncertainty_toolbox_reverses_a_sign_for_quantiles(rng):
    """The peer compares the quantile with prediction minus outcome: 1 - P(PIT < 1 - p), not P(PIT <= p)."""
    toolbox = pytest.importorskip("uncertainty_toolbox")
    y, mean, std = _gaussian(rng, shift=0.8, scale=1.0)
    expected, theirs = toolbox.metrics_calibration.get_proportion_lists_vectorized(
        mean, std, y, prop_type="quantile"
    )
    pit = stats.norm(mean, std).cdf(y)
    ours = metrics.reliability_curve(y, (mean, std), expected).observed
    np.testing.assert_allclose(ours, [(pit <= p).mean() for p in expected], atol=1e-12)
    np.testing.assert_allclose(theirs, [1 - (pit < 1 - p).mean() for p in expected], atol=1e-12)
    # Outcomes above the predictions: few below any quantile. The peer reports the opposite.
    assert ours[50] < 0.45
    assert theirs[50] > 0.55


def test_uncertainty_toolbox_counts_nan_as_a_miss(rng):
    toolbox = pytest.importorskip("uncertainty_toolbox")
    y, mean, std = _gaussian(rng, 100)
    y[:50] = np.nan
    _, theirs = toolbox.metrics_calibration.get_proportion_lists_vectorized(mean, std, y)
    assert theirs[-1] == 0.5
    omitted = metrics.reliability_curve(y, (mean, std), kind="interval", nan_policy="omit")
    assert omitted.observed[-1] == 1.0
    assert omitted.n == 50


@pytest.mark.parametrize("kind", ["quantile", "interval"])
@pytest.mark.parametrize("weighted", [False, True])
def test_curve_is_a_weighted_count(rng, kind, weighted):
    y, mean, std = _gaussian(rng)
    weights = rng.uniform(0, 1, len(y)) if weighted else None
    pit = stats.norm(mean, std).cdf(y)
    expected = [
        np.average(pit <= p if kind == "quantile" else np.abs(pit - 0.5) <= p / 2, weights=weights)
        for p in LEVELS
    ]
    curve = metrics.reliability_curve(y, (mean, std), LEVELS, kind=kind, sample_weight=weights)
    np.testing.assert_allclose(curve.observed, expected, atol=1e-12)
    np.testing.assert_array_equal(curve.expected, LEVELS)
    assert curve.n == len(y)
    assert curve.maximum_calibration_error == pytest.approx(np.abs(expected - LEVELS).max())
    assert "ReliabilityCurve" in repr(curve)
    assert len(curve.table().splitlines()) == 13


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=20))
def test_integer_weights_are_repeated_values(rows):
    values, weights = np.array(rows, dtype=float).T
    values /= 8
    if not weights.any():
        weights[0] = 2
    levels = np.linspace(0, 1, 9)
    repeated = sort_pit(np.repeat(values, weights.astype(int)))
    weighted = sort_pit(values, weights)
    for kind in ("quantile", "interval"):
        one, two = (
            conclude_reliability(reliability_sums(pit, levels, kind), kind)
            for pit in (weighted, repeated)
        )
        np.testing.assert_allclose(one.observed, two.observed)
        assert one.miscalibration_area == pytest.approx(two.miscalibration_area)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_area_is_the_integral_of_the_piecewise_linear_difference(observed):
    levels = np.linspace(0, 1, len(observed))
    curve = metrics.ReliabilityCurve(
        levels, np.array(observed), np.array(observed), "quantile", 1, 1.0
    )
    gap = np.array(observed) - levels
    # Kinks lie at levels and where the difference changes sign; Simpson is exact between them.
    zeros = [
        levels[i] + (levels[i + 1] - levels[i]) * gap[i] / (gap[i] - gap[i + 1])
        for i in range(len(gap) - 1)
        if gap[i] * gap[i + 1] < 0
    ]
    points = np.unique(np.concatenate([levels, zeros]))
    expected = integrate.trapezoid(np.abs(np.interp(points, levels, gap)), points)
    assert curve.miscalibration_area == pytest.approx(expected, abs=1e-12)


def test_pit_of_central_intervals_and_of_their_quantiles_agree(rng):
    y, mean, std = _gaussian(rng)
    levels = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
    frozen = stats.norm(mean, std)
    expected = [
        ((frozen.ppf((1 - q) / 2) <= y) & (y <= frozen.ppf((1 + q) / 2))).mean() for q in levels
    ]
    curve = metrics.reliability_curve(y, (mean, std), levels, kind="interval")
    np.testing.assert_allclose(curve.observed, expected)


@pytest.mark.parametrize("family", ["poisson", "negative binomial"])
def test_ece_of_a_correct_count_model_vanishes_only_with_the_randomised_pit(rng, family):
    errors = {"randomized": [], "plain": [], "mid": []}
    for n in (1_000, 100_000):
        mean = rng.uniform(0.2, 4, n)
        if family == "poisson":
            y, model = rng.poisson(mean), fm.Poisson(mean)
        else:
            y, model = rng.negative_binomial(2, 2 / (2 + mean)), fm.NegativeBinomial(mean, 0.5)
        for pit, ece_values in errors.items():
            ece_values.append(metrics.regression_ece(y, model, pit=pit))
    # A calibrated curve scatters by sqrt(p (1 - p) / n): 0.39 / sqrt(n) on average, 0.8 of it absolute.
    assert errors["randomized"][0] < 4 * 0.31 / np.sqrt(1_000)
    assert errors["randomized"][1] < 4 * 0.31 / np.sqrt(100_000)
    assert errors["plain"][1] > 0.1
    assert abs(errors["plain"][1] - errors["plain"][0]) < 0.03
    assert errors["mid"][1] < errors["plain"][1]


def test_scatter_is_that_of_calibrated_models(rng):
    curves = [
        metrics.reliability_curve(rng.normal(size=200), (np.zeros(200), 1.0), [0.1, 0.5, 0.8])
        for _ in range(800)
    ]
    scatter = np.std([curve.observed for curve in curves], axis=0)
    np.testing.assert_allclose(scatter, curves[0].scatter, rtol=0.1)  # 0.1: four standard errors


def test_frequency_weights_and_exponent(rng):
    y, mean, std = _gaussian(rng)
    pit = stats.norm(mean, std).cdf(y)
    levels = np.array([0.2, 0.5, 0.7])
    counts = np.array([(pit <= p).sum() for p in levels])
    gaps = np.abs(counts / len(y) - levels) ** 2
    error = metrics.regression_ece(y, (mean, std), levels, weights="frequency", alpha=2.0)
    assert error == pytest.approx((counts * gaps).sum() / counts.sum())
    assert np.isnan(metrics.regression_ece([50.0], ([0.0], 1.0), weights="frequency"))
    with pytest.raises(ValueError, match="weights are all zero"):
        metrics.regression_ece(y, (mean, std), levels, weights=[0, 0, 0])


def test_levels_may_come_in_any_order(rng):
    y, mean, std = _gaussian(rng)
    order = rng.permutation(len(LEVELS))
    one = metrics.miscalibration_area(y, (mean, std), LEVELS[order])
    assert one == pytest.approx(metrics.miscalibration_area(y, (mean, std), LEVELS))


def test_invariances(rng):
    y, mean, std = _gaussian(rng)
    order = rng.permutation(len(y))
    for function in (metrics.regression_ece, metrics.miscalibration_area):
        value = function(y, (mean, std))
        assert function(y[order], (mean[order], std[order])) == pytest.approx(value, abs=1e-12)
        assert function(3 * y + 1, (3 * mean + 1, 3 * std)) == pytest.approx(value, abs=0.003)


def test_nan_policies(rng):
    y, mean, std = _gaussian(rng, 50)
    holed = y.copy()
    holed[7] = np.nan
    valid = np.delete(np.arange(50), 7)
    pit = metrics.pit_values(holed, (mean, std), nan_policy="omit")
    assert np.isnan(pit[7])
    np.testing.assert_array_equal(pit[valid], metrics.pit_values(y, (mean, std))[valid])
    for function in (
        metrics.regression_ece,
        metrics.rms_calibration_error,
        metrics.mean_absolute_calibration_error,
        metrics.miscalibration_area,
    ):
        assert function(holed, (mean, std), nan_policy="omit") == pytest.approx(
            function(y[valid], (mean[valid], std[valid]))
        )
        assert np.isnan(function(holed, (mean, std), nan_policy="propagate"))
        with pytest.raises(ValueError, match="y holds NaN"):
            function(holed, (mean, std))


def test_histogram_of_counts_without_noise(rng):
    """Czado, Gneiting & Held's histogram is the mean of randomised ones, and flat for a right model."""
    mean = rng.uniform(0.3, 4, 400)
    y = rng.poisson(mean)
    model = fm.Poisson(mean)
    exact = metrics.pit_histogram(y, model, 7, pit="nonrandomized")
    low, high = stats.poisson(mean).cdf(y - 1), stats.poisson(mean).cdf(y)
    edges = np.linspace(0, 1, 8)
    expected = np.zeros(7)
    for a, b in zip(low, high, strict=True):
        expected += np.diff(np.clip((edges - a) / (b - a), 0, 1))
    np.testing.assert_allclose(exact.mass, expected, rtol=1e-12)
    assert exact.mass.sum() == pytest.approx(400)
    masses = [metrics.pit_histogram(y, model, 7, random_state=seed).mass for seed in range(300)]
    error = np.std(masses, axis=0) / np.sqrt(300)
    assert (np.abs(np.mean(masses, axis=0) - exact.mass) < 4.5 * error).all()


def test_histogram_of_continuous_predictions(rng):
    y, mean, std = _gaussian(rng)
    weights = rng.integers(0, 4, len(y))
    pit = stats.norm(mean, std).cdf(y)
    for kind in ("randomized", "plain", "mid", "nonrandomized"):
        histogram = metrics.pit_histogram(y, (mean, std), 8, pit=kind, sample_weight=weights)
        expected = np.histogram(pit, np.linspace(0, 1, 9), weights=weights)[0]
        np.testing.assert_allclose(histogram.mass, expected)
    assert histogram.heights.mean() == pytest.approx(1.0)
    assert histogram.share.sum() == pytest.approx(1.0)
    assert "0 to 0.125" in repr(histogram)
    hole = metrics.pit_histogram([np.nan, 0.0], ([0.0, 0.0], 1.0), nan_policy="propagate")
    assert np.isnan(hole.mass).all()
    assert "nan" in repr(hole)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (
            metrics.reliability_curve,
            {"levels": [0.5, 1.2]},
            "levels must be numbers between 0 and 1",
        ),
        (metrics.reliability_curve, {"kind": "centred"}, "kind is 'centred'"),
        (metrics.miscalibration_area, {"levels": [[0.5]]}, "levels must be"),
        (metrics.pit_histogram, {"bins": 0}, "bins is 0"),
        (metrics.pit_histogram, {"pit": "jittered"}, "pit is 'jittered'"),
        (metrics.regression_ece, {"weights": [np.nan] * 99}, "weights must be nonnegative"),
    ],
)
def test_bad_options(function, options, message):
    with pytest.raises(ValueError, match=message):
        function([0.0, 1.0], ([0.0, 0.0], 1.0), **options)
