"""Coverage, width and sharpness agree with plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd import metrics


def test_gaussian_intervals(rng):
    mean, std = rng.normal(size=300), rng.uniform(0.5, 2, 300)
    y = mean + 1.3 * std * rng.normal(size=300)
    weights = rng.uniform(0, 1, 300)
    levels = np.array([0.0, 0.3, 0.9, 0.99])
    low, high = (
        stats.norm(mean, std).ppf(p) for p in ((1 - levels)[:, None] / 2, (1 + levels)[:, None] / 2)
    )
    inside = (low <= y) & (y <= high)
    for w in (None, weights):
        np.testing.assert_allclose(
            metrics.coverage(y, (mean, std), levels, sample_weight=w),
            np.average(inside, axis=1, weights=w),
        )
        np.testing.assert_allclose(
            metrics.mean_interval_width(y, (mean, std), levels, sample_weight=w),
            np.average(high - low, axis=1, weights=w),
            atol=1e-12,
        )
        assert metrics.sharpness(y, (mean, std), sample_weight=w) == pytest.approx(
            np.sqrt(np.average(std**2, weights=w))
        )
    assert isinstance(metrics.coverage(y, (mean, std)), float)
    assert metrics.coverage(y, (mean, std), 1.0) == 1.0
    assert metrics.mean_interval_width(y, (mean, std), 1.0) == np.inf


@pytest.mark.parametrize("family", ["poisson", "negative binomial", "binomial"])
def test_counts_have_closed_intervals_between_quantiles(rng, family):
    mean = rng.uniform(0.2, 6, 500)
    y = rng.poisson(mean).astype(float)
    y[:5] = [0, 60, 1, 3, 200]  # far out, where cdfs round to 1
    model, frozen = {
        "poisson": (fm.Poisson(mean), stats.poisson(mean)),
        "negative binomial": (fm.NegativeBinomial(mean, 0.5), stats.nbinom(2, 2 / (2 + mean))),
        "binomial": (stats.binom(10, mean / 10),) * 2,
    }[family]
    for level in (0.0, 0.37, 0.9, 0.999, 1.0):
        # SciPy's quantile of level 0 is -1, below all counts.
        low, high = np.maximum(frozen.ppf((1 - level) / 2), 0.0), frozen.ppf((1 + level) / 2)
        expected = ((low <= y) & (y <= high)).mean()
        assert metrics.coverage(y, model, level) == (1.0 if level == 1 else pytest.approx(expected))
        assert metrics.mean_interval_width(y, model, level) == pytest.approx((high - low).mean())


def test_calibrated_models_cover(rng):
    mean = rng.uniform(0.5, 6, 100_000)
    assert metrics.coverage(rng.poisson(mean), fm.Poisson(mean), 0.8) > 0.8
    continuous = metrics.coverage(mean + rng.normal(size=100_000), (mean, 1.0), 0.8)
    assert continuous == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 100_000))


def test_draws_use_their_own_quantiles(rng):
    draws = rng.normal(size=(200, 50))
    y = rng.normal(size=200)
    low, high = np.quantile(draws, [0.1, 0.9], axis=1)
    assert metrics.coverage(y, draws, 0.8) == ((low <= y) & (y <= high)).mean()
    assert metrics.mean_interval_width(y, draws, 0.8) == pytest.approx((high - low).mean())


def test_sharpness_against_uncertainty_toolbox(rng):
    toolbox = pytest.importorskip("uncertainty_toolbox")
    std = rng.uniform(0.5, 2, 100)
    assert metrics.sharpness(std, (std, std)) == pytest.approx(
        toolbox.metrics_calibration.sharpness(std), rel=1e-14
    )


def test_bad_input(rng):
    y = rng.normal(size=6)
    holed = np.where(np.arange(6) == 2, np.nan, y)
    for function in (metrics.coverage, metrics.mean_interval_width, metrics.sharpness):
        assert np.isnan(function(holed, (y, 1.0), nan_policy="propagate"))
        assert np.isfinite(function(holed, (y, 1.0), nan_policy="omit"))
        with pytest.raises(ValueError, match="y holds NaN"):
            function(holed, (y, 1.0))
    with pytest.raises(ValueError, match=r"level is 1\.5"):
        metrics.coverage(y, (y, 1.0), 1.5)
    with pytest.raises(ValueError, match="variances that are not finite"):
        metrics.sharpness(y, stats.cauchy(loc=y))
