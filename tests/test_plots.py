"""Pictures show what they are given."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import plots


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_cce_over_one_input(rng):
    x = rng.uniform(0, 1, 500)
    values = 1 + x
    ax = plots.cce_over_inputs(x, values, label="model")
    points, median = ax.lines
    np.testing.assert_array_equal(points.get_ydata(), values)
    np.testing.assert_allclose(median.get_ydata(), 1 + median.get_xdata(), atol=0.01)
    assert ax.get_legend().get_texts()[0].get_text() == "model"
    assert ax.get_ylabel() == "CCE"


def test_cce_over_many_inputs_uses_the_first_principal_component(rng):
    x = rng.normal(size=(300, 4)) * [5, 1, 1, 1]
    ax = plots.cce_over_inputs(x, rng.uniform(size=300), ax=plt.subplots()[1])
    drawn = ax.lines[0].get_xdata()
    assert abs(np.corrcoef(drawn, x[:, 0])[0, 1]) > 0.99
    assert "principal" in ax.get_xlabel()


def test_few_distinct_inputs_and_thinning(rng):
    ax = plots.cce_over_inputs(np.repeat([0.0, 1.0], 50_000), rng.uniform(size=100_000))
    assert len(ax.lines[0].get_xdata()) == 20_000
    plots.cce_over_inputs([1.0, 1.0], [0.1, 0.2])


def test_histogram_and_witness(rng):
    values = rng.uniform(size=400)
    ax = plots.cce_histogram(values, label="m")
    assert sum(patch.get_height() for patch in ax.patches) == 400
    assert ax.lines[0].get_xdata()[0] == pytest.approx(values.mean())
    grid = np.linspace(-1, 1, 20)
    ax = plots.witness(grid, np.sin(grid)[None, :], label="m")
    np.testing.assert_allclose(ax.lines[1].get_ydata(), np.sin(grid))
    assert "too little" in ax.texts[0].get_text()
    again = plots.witness(grid, np.cos(grid), ax=ax)
    assert again is ax
    assert len(ax.texts) == 2  # told once


def test_result_plot(rng):
    x, y = rng.normal(size=100), rng.normal(size=100)
    result = fm.cce(x, y, rng.normal(size=100))
    np.testing.assert_array_equal(result.plot(x).lines[0].get_ydata(), result.values)
    assert result.plot().patches


def test_mismatched_lengths_are_told():
    with pytest.raises(ValueError, match="rows must match"):
        plots.cce_over_inputs([0.0, 1.0], [0.1])


def test_demo_picture(tmp_path, rng):
    """Bars are the observed shares, lines the mean probabilities of each model."""
    from fastmcmd import demo

    data = demo.load()
    some = rng.choice(len(data["y"]), 400, replace=False)
    per_person = ("x", "y", "poisson_mean", "negbin_mean")
    data = {name: value[some] if name in per_person else value for name, value in data.items()}
    judged = demo.run(data)
    assert demo.table(judged)[1][:2] == ["Poisson", "400"]
    demo.draw(data, judged, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    everyone = np.arange(400)
    for one in judged:
        share = demo.probabilities(one, everyone)
        assert share.sum() == pytest.approx(1)
        expected = np.exp(one.prediction.log_prob(np.full(400, 3.0))).mean()
        assert share[3] == pytest.approx(expected, rel=1e-10)


def test_reliability(rng):
    y = rng.normal(size=2000)
    for kind in ("quantile", "interval"):
        curve = fm.metrics.reliability_curve(y, (np.zeros(2000), 2.0), kind=kind)
        ax = plots.reliability(curve, label="wide")
        diagonal, line = ax.lines
        np.testing.assert_array_equal(diagonal.get_ydata(), [0, 1])
        np.testing.assert_array_equal(line.get_ydata(), curve.observed)
        assert kind in ax.get_ylabel()
        assert ax.get_legend().get_texts()[0].get_text() == "wide"


def test_pit_histogram(rng):
    histogram = fm.metrics.pit_histogram(rng.normal(size=500), (np.zeros(500), 1.0), bins=5)
    ax = plots.pit_histogram(histogram, label="m")
    values, edges, _ = ax.patches[-1].get_data()
    np.testing.assert_allclose(values, histogram.mass / 100)
    np.testing.assert_allclose(edges, np.linspace(0, 1, 6))


def test_variance_and_constant_spread(rng):
    std = rng.uniform(1, 3, 600)
    y = std * rng.normal(size=600)
    curve = fm.metrics.ence_curve(y, (np.zeros(600), std), bins=6)
    ax = plots.variance(curve, label="m")
    points = ax.lines[1]
    np.testing.assert_allclose(points.get_xdata(), curve.rmv)
    np.testing.assert_allclose(points.get_ydata(), curve.rmse)
    constant = fm.metrics.ence_curve(y, (np.zeros(600), 2.0), bins=6)
    low, high = plots.variance(constant).get_xlim()
    assert low < 2 < high


def test_projection(rng):
    x = rng.normal(size=(400, 2))
    ax = plots.cce_projection(x, np.full(400, 0.3))
    np.testing.assert_allclose(ax.collections[0].get_array(), 0.3)
    assert ax.get_xlabel() == "x, column 1"
    assert "principal" in plots.cce_projection(rng.normal(size=(400, 5)), x[:, 0] ** 2).get_xlabel()
    with pytest.raises(ValueError, match="x has 1 column"):
        plots.cce_projection(x[:, 0], x[:, 0])


def test_an_evaluation_side_by_side(rng):
    x = rng.normal(size=(300, 2))
    y = x[:, 0] + rng.normal(size=300)
    figure = fm.evaluate(y, (x[:, 0], 1.0), x).plot()
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert len(titles) == 6
    assert titles[0] == "Reliability"
    figure.canvas.draw()
    few = fm.evaluate(y, (x[:, 0], 1.0)).plot(plt.figure())
    assert next(ax.get_title() for ax in few.axes) == "Reliability"
    with pytest.raises(ValueError, match="nothing to draw"):
        fm.evaluate(x, fm.Gaussian(x, 1.0)).plot()


def test_a_second_model_stays_in_the_picture(rng):
    """Limits that begin at 0 still grow with what is drawn later."""
    x = rng.uniform(size=200)
    ax = plots.cce_over_inputs(x, np.full(200, 0.1))
    plots.cce_over_inputs(x, np.full(200, 5.0), ax=ax)
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] > 5
    ax = plots.cce_histogram(np.full(50, 0.1))
    plots.cce_histogram(np.full(50, 3.0), ax=ax)
    assert ax.get_xlim()[0] == 0
    assert ax.get_xlim()[1] > 3
