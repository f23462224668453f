"""Murphy diagrams: their areas are known scores, and bands of differences hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats
from simulations.picture_bands import murphy_coverage

import fastmcmd as fm

CLASSES = fm.classification


def test_areas_are_scores(rng):
    mean = rng.normal(size=60)
    y = mean + rng.normal(size=60)
    thetas = np.linspace(-8, 8, 40_001)
    model = fm.Gaussian(mean, 1.3)

    def area(*options):
        curve = fm.metrics.murphy_curve(y, model, *options, thetas=thetas)
        return integrate.trapezoid(curve.score, curve.theta)

    assert area("mean") == pytest.approx(np.mean((y - mean) ** 2) / 4, rel=1e-3)
    loss = fm.metrics.mean_check_score(y, model, levels=0.8)
    assert area("quantile", 0.8) == pytest.approx(loss, rel=1e-3)
    p = stats.norm.sf(0.5, mean, 1.3)
    curve = fm.metrics.murphy_curve(y, model, "exceedance", 0.5, thetas=np.linspace(0, 1, 20_001))
    brier = np.mean((p - (y > 0.5)) ** 2)
    assert integrate.trapezoid(curve.score, curve.theta) == pytest.approx(brier / 4, rel=1e-3)
    same = CLASSES.murphy_curve(y > 0.5, p, thetas=curve.theta)
    np.testing.assert_allclose(same.score, curve.score, atol=1e-15)


def test_scores_row_by_row(rng):
    y, forecast, weights = rng.normal(size=30), rng.normal(size=30), rng.uniform(size=30)
    thetas = np.sort(rng.normal(size=7))
    curve = fm.metrics.murphy_curve(
        y, (forecast, 1.0), "quantile", 0.5, thetas=thetas, sample_weight=weights
    )
    for theta, score in zip(thetas, curve.score, strict=True):
        expected = [0.5 if min(a, b) <= theta < max(a, b) else 0.0
                    for a, b in zip(y, forecast, strict=True)]  # fmt: skip
        assert score == pytest.approx(np.average(expected, weights=weights))
    assert list(curve.to_dict()) == ["theta", "score"]
    assert "0.5 quantile" in repr(curve)


def test_the_right_model_is_nowhere_worse(rng):
    """Agree with the expected scores of Ehm et al., section 3.3: the perfect forecaster is lowest."""
    mean = rng.normal(size=40_000)
    y = mean + rng.normal(size=40_000)
    right, flat, reversed_ = (
        fm.metrics.murphy_curve(y, (m, 1.0), thetas=np.linspace(-3, 3, 31)).score
        for m in (mean, 0 * mean, -mean)
    )
    assert (right <= flat + 2e-3).all()
    assert (flat <= reversed_ + 2e-3).all()
    # of a constant forecast 0 at theta >= 0: E (y - theta)^+ / 2 with y of variance 2
    expected = [
        stats.norm.expect(lambda v, t=t: max(v - t, 0), scale=math.sqrt(2)) / 2 for t in (0, 1)
    ]
    np.testing.assert_allclose(flat[[15, 20]], expected, atol=0.01)


@pytest.mark.parametrize("power", [-900, -500, 500, 900])
def test_difference_at_any_scale(rng, power):
    y, mean, unit = rng.normal(size=80), rng.normal(size=80), 2.0**power
    curve = fm.metrics.murphy_difference(y, (mean, 1.0), (0 * mean, 1.0))
    scaled = fm.metrics.murphy_difference(y * unit, (mean * unit, unit), (0 * mean, unit))
    for name in ("difference", "low", "high"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(curve, name) * unit, rtol=1e-9)
    np.testing.assert_array_equal(scaled.supported, curve.supported)


def test_difference_is_that_of_the_curves(rng):
    mean = rng.normal(size=300)
    y, weights = mean + rng.normal(size=300), rng.uniform(size=300)
    models = (mean, 1.0), (0 * mean, 1.4)
    thetas = np.linspace(-2, 2, 11)
    curve = fm.metrics.murphy_difference(y, *models, thetas=thetas, sample_weight=weights)
    first, second = (
        fm.metrics.murphy_curve(y, one, thetas=thetas, sample_weight=weights).score
        for one in models
    )
    np.testing.assert_allclose(curve.difference, first - second, atol=1e-14)
    assert np.isfinite(curve.low).tolist() == curve.supported.tolist()
    assert set(curve.better[~curve.supported]) <= {0}
    p = rng.uniform(size=300)
    same = CLASSES.murphy_difference(rng.random(300) < p, p, p)
    assert not same.supported.any()
    assert not same.better.any()
    assert "0% of the thresholds" in repr(same)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mean", "quantile", "probability", "same"])
def test_the_band_of_a_difference_holds(kind):
    """The band holds approximately; tests/simulations/picture_bands.py has more runs and sizes."""
    assert murphy_coverage(kind, 500, 150) > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 150)


def test_arguments_are_named():
    y, model = np.arange(3.0), (np.arange(3.0), 1.0)
    with pytest.raises(ValueError, match="at is None for functional='quantile'; a number"):
        fm.metrics.murphy_curve(y, model, "quantile")
    with pytest.raises(ValueError, match=r"at is 0\.5 for functional='mean'; None"):
        fm.metrics.murphy_curve(y, model, at=0.5)
    with pytest.raises(ValueError, match="functional"):
        fm.metrics.murphy_curve(y, model, "mode")
    with pytest.raises(ValueError, match="thetas has shape"):
        fm.metrics.murphy_curve(y, model, thetas=[[0.0]])
    with pytest.raises(ValueError, match="first"):
        CLASSES.murphy_difference([0, 1], [0.5, 1.5], [0.5, 0.5])
