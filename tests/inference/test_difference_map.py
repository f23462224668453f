"""Maps show where one model is better, and the test asks whether it is better anywhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.difference_map import difference_map
from fastmcmd.inference.inputs import InputMap, input_map


def two_models(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    y = np.sin(2 * x) + 0.4 * rng.normal(size=n)
    models = {
        "left": fm.Gaussian(np.sin(2 * x) + 0.4 * (x > 0), 0.4),
        "right": fm.Gaussian(np.sin(2 * x) - 0.4 * (x < 0), 0.4),
    }
    return x, y, models


def test_each_model_is_better_on_its_side():
    x, y, models = two_models()
    result = fm.compare(models, y, x).map()
    assert result.p_value <= 0.01
    assert result.p_value < result.p_value_mean  # the means are nearly equal
    assert (result.better[x > 0] >= 0).all()
    assert (result.better[x < 0] <= 0).all()
    assert (result.better != 0).mean() > 0.3
    assert "left" in repr(result)
    assert "right" in result.table()
    assert json.dumps(result.to_dict())
    assert len(result.to_frame()) == len(result) == 400
    assert result.plot().get_xlabel() == "x"


def test_models_that_agree_at_an_input_are_equal_there():
    """Smoothed differences of 1e-20 had bands of 1e-21."""
    x, y, models = two_models()
    models = {"one": models["left"], "other": fm.Gaussian(np.sin(2 * x), 0.4)}
    result = fm.compare(models, y, x).map(x_kernel=fm.RBF(200.0))
    assert (result.better[x < -0.5] == 0).all()
    assert (result.better[x > 0.2] > 0).any()


def test_difference_is_the_ridge_regression():
    rng = np.random.default_rng(0)
    x, grid, d = rng.normal(size=(80, 2)), rng.normal(size=(5, 2)), rng.normal(size=80)
    kernel, weights = fm.RBF(0.5), rng.uniform(0.5, 2, 80)
    inputs_map = InputMap(np.zeros(2), np.ones(2), kernel)
    difference, *_ = difference_map(
        x,
        d,
        grid,
        inputs_map,
        0.05,
        weights=weights,
        clusters=None,
        level=0.9,
        simulations=19,
        rng=rng,
    )
    shift = np.diag(0.05 * weights.sum() / weights)
    a = np.linalg.solve(kernel(x, x) + shift, kernel(x, grid))
    expected = d @ a / a.sum(axis=0)
    supported = np.isfinite(difference)
    assert supported.any()
    np.testing.assert_allclose(difference[supported], expected[supported], rtol=1e-6)


@pytest.mark.slow
def test_equal_models_are_seldom_called_different():
    """Run a fixed-seed excerpt of tests/simulations/difference_map.py."""
    rejected = misses = 0
    for run in range(60):
        rng = np.random.default_rng(run)
        x, d = rng.uniform(-2, 2, (150, 1)), rng.normal(size=150)
        clusters = None if run % 2 else np.arange(150) // 3
        _, band, supported, p, p_mean = difference_map(
            x, d, x[:20], input_map(x, None), 0.01, weights=np.ones(150), clusters=clusters,
            level=0.95, simulations=99, rng=rng,
        )  # fmt: skip
        rejected += p <= 0.05
        misses += ((band[supported, 0] > 0) | (band[supported, 1] < 0)).any()
        assert 0.01 <= min(p, p_mean) <= 1
    assert rejected <= 8
    assert misses <= 10


@pytest.mark.slow
def test_clusters_widen_the_band():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, 600)
    groups = np.arange(600) // 10
    y = np.sin(x) + rng.normal(size=60)[groups]
    models = {"a": fm.Gaussian(np.sin(x) + 0.3, 1.0), "b": fm.Gaussian(np.sin(x) - 0.3, 1.0)}
    evaluations = fm.compare(models, y, x).evaluations
    alone = fm.compare(evaluations).map(simulations=99)
    grouped = fm.compare(evaluations, groups=groups).map(simulations=99)
    widths = [np.nanmean(np.diff(one.band, axis=1)) for one in (alone, grouped)]
    assert widths[1] > 1.5 * widths[0]
    assert grouped.p_value > alone.p_value


def test_same_model_twice_and_named_errors():
    x, y, models = two_models(n=60)
    twice = fm.compare({"a": models["left"], "b": models["left"]}, y, x)
    result = twice.map(simulations=19)
    assert result.p_value == result.p_value_mean == 1.0
    assert not result.better.any()
    with pytest.raises(ValueError, match="second"):
        twice.map("a", "c")
    with pytest.raises(ValueError, match="measure"):
        twice.map(measure="ence")
    with pytest.raises(ValueError, match="two models"):
        fm.compare({"a": models["left"]}, y, x).map()
    with pytest.raises(ValueError, match="give x"):
        fm.compare(models, y).map()


def test_skewed_differences_have_no_band():
    """Bands of exponential differences excluded the truth in a fifth of simulated samples."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 1))
    bands = []
    for d in (rng.normal(size=400), rng.exponential(size=400) - 1):
        _, band, supported, *_ = difference_map(
            x, d, x[:20], input_map(x, None), 0.01, weights=np.ones(400), clusters=None,
            level=0.95, simulations=99, rng=rng,
        )  # fmt: skip
        assert supported.any()
        bands.append(bool(np.isfinite(band).any()))
    assert bands == [True, False]


def test_signs_of_few_clusters_that_are_drawn_again_count_as_equal():
    """Of six clusters, two of 64 signs are equally extreme: rounding broke the ties, and p was 0.001."""
    x, rng = np.linspace(-1, 1, 60), np.random.default_rng(0)
    models = {"near": fm.Gaussian(np.zeros(60), 1.0), "far": fm.Gaussian(np.full(60, 3.0), 1.0)}
    result = fm.compare(models, rng.normal(size=60), x, groups=np.arange(60) // 10).map()
    assert result.p_value == result.p_value_mean > 0.02


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_of_y_do_not_matter(unit):
    x, y, models = two_models(200)
    scaled = {name: fm.Gaussian(one.mean * unit, one.std * unit) for name, one in models.items()}
    plain = fm.compare(models, y, x).map(simulations=99)
    result = fm.compare(scaled, y * unit, x).map(simulations=99)
    assert result.p_value == plain.p_value
    np.testing.assert_allclose(result.band / unit, plain.band, rtol=1e-6)
