"""Fans, intervals, ranks, probabilities and Murphy diagrams show the given numbers."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import plots


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def band(collection):
    """Return the corners of a filled band."""
    return collection.get_paths()[0].vertices


def test_fan(rng):
    x = rng.permutation(np.linspace(0, 1, 200))
    y = x + rng.normal(size=200)
    model = fm.Gaussian(x, 1.0)
    ax = plots.fan(y, model, x, levels=(0.9, 0.5), label="model")
    median, inside, beyond = ax.lines
    np.testing.assert_allclose(
        median.get_xydata(), np.repeat(np.sort(x), 2).reshape(-1, 2), atol=1e-9
    )
    low, high = model.quantile([0.05, 0.95]).T
    outside = (y < low) | (y > high)
    assert set(beyond.get_ydata()) == set(y[outside])
    assert set(inside.get_ydata()) == set(y[~outside])
    wide = band(ax.collections[1])
    assert wide[:, 1].min() == pytest.approx(low.min())
    assert wide[:, 1].max() == pytest.approx(high.max())
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["model", "50%", "90%", "outcomes", "outcomes beyond 90%"]


def test_fan_without_outcomes_over_time_and_over_gaps():
    day = np.datetime64("2026-01-01") + np.arange(30)
    day[20:] += 60
    ax = plots.fan(None, fm.Gaussian(np.arange(30.0), 1.0), day)
    assert len(ax.lines) == 1
    height = ax.lines[0].get_ydata()
    assert np.flatnonzero(np.isnan(height)).tolist() == [20]
    unknown = np.where(np.arange(30) > 20, np.nan, np.arange(30.0))
    ax = plots.fan(unknown, (np.arange(30.0), 1.0), levels=0.5)
    assert len(ax.lines[1].get_xdata()) == 21
    assert ax.get_xlabel() == "row"
    plots.fan(None, np.random.default_rng(0).normal(size=(5, 10)))
    plots.fan([1.0, 2.0], ([1.0, 2.0], 1.0), [0.0, 0.0])


def test_fan_names_what_it_needs():
    model = fm.Gaussian(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="ordered_intervals"):
        plots.fan(np.zeros(3), model, np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"x has shape \(2,\); \(3,\)"):
        plots.fan(np.zeros(3), model, [0.0, 1.0])
    with pytest.raises(ValueError, match="x cannot be made an array"):
        plots.fan(np.zeros(3), model, [[0.0], [0.0, 1.0], [2.0]])
    with pytest.raises(ValueError, match="without NaT"):
        plots.fan(
            np.zeros(3), model, np.array(["2026-01-01", "NaT", "2026-01-02"], "datetime64[D]")
        )
    with pytest.raises(ValueError, match="levels is 95"):
        plots.fan(np.zeros(3), model, levels=95)
    for levels in ((), [[0.5]], [[0.5], [0.1, 0.9]], ["a"]):
        with pytest.raises((TypeError, ValueError), match="levels"):
            plots.fan(np.zeros(3), model, levels=levels)
    for y in (np.nan, np.zeros((3, 1))):
        with pytest.raises(ValueError, match=r"y has shape .* \(n,\) is needed"):
            plots.fan(y, model)


@pytest.mark.parametrize("order", ["outcome", "median", "width"])
def test_ordered_intervals(rng, order):
    mean, std = rng.normal(size=80), rng.uniform(0.5, 2, 80)
    y = mean + 2 * std * rng.normal(size=80)
    ax = plots.ordered_intervals(y, (mean, std), level=0.8, order=order, points=80)
    low, high = fm.Gaussian(mean, std).quantile([0.1, 0.9]).T
    inside = (low <= y) & (y <= high)
    assert ax.get_title().startswith(f"{inside.mean():.1%} of 80 outcomes")
    key = {"outcome": y, "median": mean, "width": std}[order]
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), y[np.argsort(key)])
    covered_bars, outside_bars = ax.collections
    assert len(covered_bars.get_segments()) == inside.sum()
    assert len(outside_bars.get_segments()) == (~inside).sum()


def test_residuals_and_sharpness(rng):
    std = rng.uniform(1, 3, 300)
    y = std * rng.normal(size=300)
    ax = plots.residuals(y, (np.zeros(300), std), label="model")
    diagonal, points, line = ax.lines
    np.testing.assert_array_equal(points.get_xydata(), np.stack([std, np.abs(y)], axis=1))
    curve = fm.metrics.ence_curve(y, (np.zeros(300), std), bins=12)
    np.testing.assert_allclose(line.get_xydata(), np.stack([curve.rmv, curve.rmse], axis=1))
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    wide = plots.residuals(y, (np.zeros(300), std**4))
    assert (wide.get_xscale(), wide.get_yscale()) == ("log", "log")
    ax = plots.sharpness(y, (np.zeros(300), std))
    assert ax.lines[0].get_xdata()[0] == pytest.approx(np.sqrt(np.mean(std**2)))


def test_groups(rng):
    y = rng.normal(size=300)
    groups = fm.metrics.adversarial_group_calibration(y, (np.zeros(300), 1.0), trials=3)
    ax = groups.plot(label="model")
    np.testing.assert_array_equal(ax.lines[0].get_xydata().T, [groups.sizes, groups.mean])


def test_rank_histogram(rng):
    histogram = fm.metrics.rank_histogram(rng.normal(size=900), 0.5 * rng.normal(size=(900, 9)))
    ax = histogram.plot(label="narrow")
    heights, edges, _ = ax.patches[-1].get_data()
    np.testing.assert_allclose(heights, histogram.count / 90)
    np.testing.assert_array_equal(edges, np.arange(11) - 0.5)
    high, _, low = ax.patches[0].get_data()
    np.testing.assert_allclose((low, high), (histogram.low / 90, histogram.high / 90))
    bars = [patch for patch in ax.patches if hasattr(patch, "get_height")]
    dark = [bar for bar in bars if bar.get_alpha() > 0.5]
    assert (
        len(dark)
        == ((histogram.count < histogram.low) | (histogram.count > histogram.high)).sum()
        > 0
    )


@pytest.mark.parametrize("difference", [True, False])
def test_pit_ecdf(rng, difference):
    y = rng.normal(size=200)
    curve = fm.metrics.pit_ecdf(y, (np.zeros(200), 1.0), 10)
    ax = curve.plot(label="a", difference=difference)
    less = curve.expected if difference else 0
    np.testing.assert_allclose(ax.lines[1].get_ydata()[1:-1], curve.observed - less)
    plots.pit_ecdf(curve, ax, "b", difference=difference)
    assert len(ax.collections) == 1  # one band for both


def test_isotonic_reliability(rng):
    p = rng.uniform(size=300)
    curve = fm.classification.isotonic_reliability(rng.random(300) < p, p, resamples=40)
    ax = curve.plot()
    np.testing.assert_array_equal(ax.lines[1].get_xydata().T, [curve.probability, curve.frequency])
    assert f"discrimination {curve.discrimination:.3f}" in ax.texts[0].get_text()
    plots.isotonic_reliability(curve, ax, "again")
    assert len(ax.texts) == len(ax.collections) == 1
    bare = fm.classification.isotonic_reliability(rng.random(300) < p, p, resamples=0)
    assert not plots.isotonic_reliability(bare, terms=False).collections


def test_murphy(rng):
    mean = rng.normal(size=600)
    y = mean + rng.normal(size=600)
    curve = fm.metrics.murphy_curve(y, (mean, 1.0))
    ax = curve.plot(label="model")
    np.testing.assert_array_equal(ax.lines[0].get_xydata().T, [curve.theta, curve.score])
    outcome = fm.metrics.murphy_difference(y, (mean, 1.0), (0 * mean, 1.4))
    ax = outcome.plot(names=("knows x", "ignores x"))
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), outcome.difference)
    assert np.isnan(ax.lines[2].get_ydata()).tolist() == (~outcome.supported).tolist()
    assert "knows x is better" in [text.get_text() for text in ax.get_legend().get_texts()]
    heights = band(ax.collections[-1])[:, 1]
    where = outcome.better == -1
    assert heights.min() >= outcome.low[where].min() - 1e-12
    for names in ("ab", ["a"], [1, 2], np.nan, np.array(np.nan), {"a": 1, "b": 2}, [["a"], ["b"]]):
        for result in (outcome, curve):
            with pytest.raises(ValueError, match="names is"):
                plots.murphy(result, names=names)


def test_other_results_are_refused(rng):
    wrong = fm.metrics.reliability_curve([0.0, 1.0], ([0.0, 0.0], 1.0))
    for name in (
        "rank_histogram",
        "pit_ecdf",
        "isotonic_reliability",
        "murphy",
        "group_calibration",
    ):
        with pytest.raises(TypeError, match=r"returns is needed|what metrics"):
            getattr(plots, name)(wrong)


def test_curves_of_the_package_have_plot(rng):
    y = rng.normal(size=100)
    model = (np.zeros(100), np.linspace(0.5, 1.5, 100))
    for result in (
        fm.metrics.reliability_curve(y, model), fm.metrics.pit_histogram(y, model),
        fm.metrics.ence_curve(y, model),
        fm.classification.reliability_curve(y > 0, np.linspace(0, 1, 100)),
    ):  # fmt: skip
        assert result.plot(label="model").get_legend() is not None


@pytest.mark.slow
def test_groups_of_a_right_model(rng):
    """The observed mean of a right model is exchangeable with the simulated ones at each size."""
    inside = []
    for seed in range(150):
        y = rng.normal(size=60)
        groups = fm.metrics.adversarial_group_calibration(
            y, (np.zeros(60), 1.0), fractions=[0.1, 0.5, 1.0], trials=2, draws=2, null=39,
            random_state=seed,
        )  # fmt: skip
        rank = (groups.null < groups.mean[:, None]).sum(axis=1)
        inside.append((rank >= 2) & (rank < 38))  # 36 of 40 places
    assert np.abs(np.mean(inside, axis=0) - 0.9).max() < 4 * np.sqrt(0.09 / 150)
    assert "if right" in groups.table()
    ax = groups.plot()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.median(groups.null, axis=1))
    with pytest.raises(ValueError, match="null is 3 and groups"):
        fm.metrics.adversarial_group_calibration(
            y, (np.zeros(60), 1.0), groups=[np.zeros((1, 1, 2), int)], null=3
        )
