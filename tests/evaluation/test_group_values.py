"""Numbers of groups equal those of evaluations of their rows alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm

N = 240
_OF_ROWS = (
    "mae", "rmse", "median_absolute_error", "marpd", "bias", "r2", "pearson", "nll", "mean_crps",
    "mean_check_score", "mean_interval_score", "mean_weighted_interval_score", "coverage", "sharpness",
    "ence", "uce", "mean_interval_width", "variance_variation", "miscalibration_area", "regression_ece",
    "rms_calibration_error", "mean_absolute_calibration_error",
)  # fmt: skip


def _same(y, prediction, labels, weights=None):
    """Compare all groups with `fastmcmd.evaluate` of their rows."""
    evaluation = fm.evaluate(y, prediction, by=labels, sample_weight=weights)
    for label, (count, numbers) in evaluation.by.items():
        rows = np.flatnonzero(labels == label)
        of_rows = None if weights is None else weights[rows]
        alone = fm.evaluate(y[rows], prediction.take(rows), sample_weight=of_rows)
        values = {one.name: one.value for one in numbers}
        assert count == len(rows)
        assert list(values) == [one.name for one in alone.measured]
        for one in alone.measured:
            if one.name in _OF_ROWS:
                np.testing.assert_allclose(
                    values[one.name],
                    one.value,
                    rtol=1e-11,
                    atol=1e-300,
                    err_msg=f"{label} {one.name}",
                )
    return evaluation


def test_curves_of_some_groups_at_a_time(rng, monkeypatch):
    monkeypatch.setattr("fastmcmd.evaluation.group_values._NUMBERS", 250)
    mean, labels = rng.normal(size=N), rng.integers(0, 9, N)
    _same(mean + rng.normal(size=N), fm.Gaussian(mean, 0.8), labels)


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_equal_evaluations_of_their_rows(rng, weighted):
    mean, std = rng.normal(size=N), rng.gamma(2, size=N)
    labels = rng.integers(0, 40, N) ** 2 // 40  # of one row, of two rows, and of many
    weights = rng.uniform(0.5, 3, N) if weighted else None
    _same(mean + std * rng.normal(size=N), fm.Gaussian(mean, std), labels, weights)


def test_groups_of_vastly_different_size(rng):
    """Squares of one group leave float64, those of another lie below it, one has a large mean."""
    labels = np.arange(N) % 6
    unit = np.array([1.0, 1e180, 1e-180, 1e-170, 1e6, 1.0])[labels]
    mean = unit * rng.normal(size=N) + np.array([0.0, 0.0, 0.0, 0.0, 1e15, 1e7])[labels]
    std = unit * rng.gamma(2, size=N)
    _same(mean + std * rng.normal(size=N), fm.Gaussian(mean, std), labels)


def test_groups_of_equal_values(rng):
    labels = np.arange(N) % 4
    mean = np.where(labels == 0, 0.3, rng.normal(size=N))
    std = np.where(labels == 1, 0.7, rng.gamma(2, size=N))
    y = np.where(labels == 2, 0.1, mean + std * rng.normal(size=N))
    y = np.where(labels == 3, mean, y)
    _same(y, fm.Gaussian(mean, std), labels)


def test_an_outcome_without_probability_is_of_its_group_alone(rng):
    low, labels = rng.normal(size=N), np.arange(N) % 5
    y = low + 2 * rng.random(N)
    y[7] = low[7] - 1
    evaluation = _same(y, fm.predictive.Uniform(low, low + 2), labels)
    of_groups = [
        next(one.value for one in numbers if one.name == "nll")
        for _, numbers in evaluation.by.values()
    ]
    np.testing.assert_array_equal(np.isinf(of_groups), np.arange(5) == 2)


def test_groups_against_definitions(rng):
    mean, std, labels = rng.normal(size=N), rng.gamma(2, size=N), np.arange(N) % 7
    y = mean + std * rng.normal(size=N)
    by = fm.evaluate(y, fm.Gaussian(mean, std), by=labels).by
    for label, (_, numbers) in by.items():
        rows = labels == label
        values = {one.name: one.value for one in numbers}
        errors, spread = (y - mean)[rows], std[rows]
        expected = {
            "mae": np.abs(errors).mean(),
            "rmse": np.sqrt(np.mean(errors**2)),
            "median_absolute_error": np.median(np.abs(errors)),
            "bias": -errors.mean(),
            "r2": 1 - np.sum(errors**2) / np.sum((y[rows] - y[rows].mean()) ** 2),
            "pearson": stats.pearsonr(y[rows], mean[rows])[0],
            "nll": -stats.norm.logpdf(errors, scale=spread).mean(),
            "sharpness": np.sqrt(np.mean(spread**2)),
            "variance_variation": stats.variation(spread, ddof=1),
            "coverage": np.mean(np.abs(errors / spread) <= stats.norm.ppf(0.95)),
        }
        for name, value in expected.items():
            assert values[name] == pytest.approx(value, rel=1e-11), name
