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
