"""Pictures show the given numbers."""

from __future__ import annotations

import itertools

import matplotlib

matplotlib.use("Agg")

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection

import fastmcmd as fm
from fastmcmd import plots
from fastmcmd.plots.panels import panels, panels_over_plane, planes_of


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
    plotted_x = ax.lines[0].get_xdata()
    assert abs(np.corrcoef(plotted_x, x[:, 0])[0, 1]) > 0.99
    assert "principal" in ax.get_xlabel()


def test_few_distinct_inputs_and_thinning(rng):
    ax = plots.cce_over_inputs(np.repeat([0.0, 1.0], 50_000), rng.uniform(size=100_000))
    assert len(ax.lines[0].get_xdata()) == 20_000
    plots.cce_over_inputs([1.0, 1.0], [0.1, 0.2])


def test_histogram_and_witness(rng):
    values = rng.uniform(size=400)
    ax = plots.cce_histogram(values, label="m")
    heights, edges, _ = ax.patches[0].get_data()
    np.testing.assert_array_equal(heights, np.histogram(values, len(heights))[0])
    assert (edges[0], edges[-1]) == (values.min(), values.max())
    assert ax.lines[0].get_xdata()[0] == pytest.approx(values.mean())
    grid = np.linspace(-1, 1, 20)
    ax = plots.witness(grid, np.sin(grid)[None, :], label="m")
    np.testing.assert_allclose(ax.lines[1].get_ydata(), np.sin(grid))
    assert "too little" in ax.texts[0].get_text()
    again = plots.witness(grid, np.cos(grid), ax=ax, outcome=0.5)
    assert ax.lines[-1].get_xydata().tolist() == [[0.5, 0.0]]
    assert again is ax
    assert len(ax.texts) == 2  # labelled once


def test_result_plot(rng):
    x, y = rng.normal(size=100), rng.normal(size=100)
    result = fm.cce(x, y, rng.normal(size=100))
    grey, points = (line.get_ydata() for line in result.plot(x).lines[:2])
    assert "effective_rows" not in vars(result)  # the picture takes a faster way
    supported = result.effective_rows >= 5
    np.testing.assert_array_equal(grey, result.values[~supported])
    np.testing.assert_array_equal(points, result.values[supported])
    grey_bars, bars = sorted(
        (one.get_data() for one in result.plot().patches), key=lambda one: one.values.sum()
    )
    assert grey_bars.values.sum() == (~supported).sum()
    np.testing.assert_array_equal(bars.baseline, grey_bars.values)
    assert bars.values.sum() == 100


def test_line_and_band_are_grey_where_no_data_support_them(rng):
    x = np.concatenate([rng.uniform(0, 1, 280), rng.uniform(3, 4, 20)])
    ax = plots.cce_over_inputs(x, 1 + x, label="model", colour="#ff0000", supported=x < 1, points=0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["model"]
    coloured = [one for one in ax.lines if one.get_color() == "#ff0000" and len(one.get_xdata())]
    grey = [one for one in ax.lines if one.get_color() != "#ff0000"]
    assert max(one.get_xdata().max() for one in coloured) < 1
    assert len(grey[0].get_xdata()) == 2  # from the last bin with support to the only one without
    assert max(one.get_xdata().max() for one in grey) > 3
    alone = plots.cce_over_inputs([1.0, 1.0], [0.1, 0.2], supported=[False, False])
    assert not any(one.get_color() == "#0072B2" and len(one.get_xdata()) for one in alone.lines)


def test_mismatched_lengths_are_an_error():
    with pytest.raises(ValueError, match="rows must match"):
        plots.cce_over_inputs([0.0, 1.0], [0.1])


@pytest.mark.slow
def test_demo_picture(tmp_path, rng):
    """Bars are the observed shares, lines the mean probabilities of each model."""
    from fastmcmd import demo

    data = demo.load()
    some = rng.choice(len(data["y"]), 400, replace=False)
    per_person = ("x", "y", "poisson_mean", "negbin_mean")
    data = {name: value[some] if name in per_person else value for name, value in data.items()}
    demo_result = demo.run(data)
    assert demo.table(demo_result)[1][:2] == ["Poisson", "400"]
    demo.draw(data, demo_result, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    everyone = np.arange(400)
    for one in demo_result:
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
    # A second model stays in the picture, and there is one dashed line for both.
    far = fm.metrics.ence_curve(y, (np.zeros(600), 30.0), bins=6)
    both = plots.variance(far, plots.variance(curve))
    assert sum(line.get_linestyle() == "--" for line in both.lines) == 1
    (low, high), (left, right) = both.get_ylim(), both.get_xlim()
    assert low <= curve.rmse.min() < 30 < high
    assert left <= curve.rmv.min() < 30 < right


@pytest.mark.slow
def test_an_evaluation_side_by_side(rng):
    x = rng.normal(size=(300, 2))
    y = x[:, 0] + rng.normal(size=300)
    figure = fm.evaluate(y, (x[:, 0], 1.0), x).plot()
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == [
        "Reliability",
        "Errors and predicted spread",
        "Probability integral transform",
        "Sharpness",
        "CCE of all points",
        "CCE over inputs",
        "CCE over the plane",
        "Negative log-likelihood over the plane",
        "Outcome y over the plane",
    ]
    figure.canvas.draw()
    few = fm.evaluate(y, (x[:, 0], 1.0)).plot(plt.figure())
    assert next(ax.get_title() for ax in few.axes) == "Reliability"
    with pytest.raises(ValueError, match="nothing to draw"):
        fm.evaluate(x, fm.Gaussian(x, 1.0)).plot()


def test_a_long_name_of_a_model_is_wrapped(rng):
    y = rng.normal(size=100)
    names = "forest of 200 trees with at least 3 rows", "short"
    figure = plots.evaluation({name: fm.evaluate(y, (np.zeros(100), 1.0)) for name in names})
    titles = [ax.get_title() for ax in figure.axes]
    assert "Probability integral transform: short" in titles
    (long,) = (one for one in titles if "forest" in one)
    assert long.replace("\n", " ") == f"Probability integral transform: {names[0]}"
    figure.canvas.draw()
    width = figure.get_window_extent().width
    for ax in figure.axes:
        box = ax.title.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= width


@pytest.mark.slow
def test_several_evaluations_share_pictures(rng):
    x = rng.normal(size=(200, 2))
    y = x[:, 0] + rng.normal(size=200)
    models = {"right": (x[:, 0], 1.0), "_costs $5": (np.zeros(200), np.full(200, 1.5))}
    evaluations = {name: fm.evaluate(y, model, x) for name, model in models.items()}
    figure = plots.evaluation(fm.compare(evaluations))
    by_title = {ax.get_title(): ax for ax in figure.axes if ax.get_title()}
    assert len(by_title) == 12
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["right", r" _costs \$5"]  # shown unchanged
    lines = by_title["Reliability"].lines
    for line, one in zip(lines[1:], evaluations.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), one.curves["reliability"].observed)
    cce = by_title["CCE of all points"].lines
    for line, one in zip(cce, evaluations.values(), strict=True):
        assert line.get_xdata()[-1] == one["max_cce"]
    planes = [ax for title, ax in by_title.items() if title.startswith("CCE over the plane")]
    assert len(planes) == 2
    assert planes[0].collections[0].get_clim() == planes[1].collections[0].get_clim()
    spread = by_title["Sharpness"].lines[1]
    np.testing.assert_allclose(spread.get_xdata(), 1.5)
    figure.canvas.draw()
    with pytest.raises(TypeError, match="a dict of at least one Evaluation"):
        plots.evaluation({})


def test_a_second_model_stays_in_the_picture(rng):
    """Limits that begin at 0 still grow with later curves."""
    x = rng.uniform(size=200)
    ax = plots.cce_over_inputs(x, np.full(200, 0.1))
    plots.cce_over_inputs(x, np.full(200, 5.0), ax=ax)
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] > 5
    ax = plots.cce_histogram(np.full(50, 0.1))
    plots.cce_histogram(np.full(50, 3.0), ax=ax)
    assert ax.get_xlim()[0] == 0
    assert ax.get_xlim()[1] > 3


def test_bands_of_two_curves_are_not_added_up(rng):
    y = rng.normal(size=100)
    ax = plots.reliability(fm.metrics.reliability_curve(y, (np.zeros(100), 1.0)))
    plots.reliability(fm.metrics.reliability_curve(y, (np.zeros(100), 2.0)), ax)
    assert len(ax.collections) == 1
    assert len(ax.lines) == 3  # the diagonal once


def test_values_over_the_plane_are_those_of_their_rows(rng):
    """Rows may be left out: each hexagon has the mean of the rows inside it."""
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    y[::3] = np.nan
    evaluation = fm.evaluate(y, (x, 1.0), x, nan_policy="omit")
    at = rng.integers(0, 3, 200)
    sites = np.array([[0.0, 0], [50, 0], [0, 50]])
    valid = np.isfinite(y)
    for projection in (sites[at], sites[at[valid]]):
        planes = planes_of({"m": evaluation}, projection)
        by_title = {p.title: p for p in panels_over_plane({"m": evaluation}, planes)}
        for title, values in (
            ("CCE over the plane", evaluation.rows["cce"]),
            ("Negative log-likelihood over the plane", evaluation.rows["log_score"]),
            ("Outcome y over the plane", y),
        ):
            means = by_title[title].draw(plt.figure().subplots()).collections[0].get_array()
            expected = [values[valid & (at == site)].mean() for site in range(3)]
            np.testing.assert_allclose(np.sort(means), np.sort(expected))


def test_more_models_than_colours(rng):
    """Each of several pictures uses a colour once; PIT histograms share their height."""
    y = rng.normal(size=100)
    models = {f"model {std}": fm.evaluate(y, (np.zeros(100), std)) for std in range(1, 9)}
    pictures = panels(models)
    titles = [panel.title for panel in pictures]
    assert titles.count("Reliability") == titles.count("Sharpness") == 2
    assert titles.count("Probability integral transform") == 8
    counts, tops = [], []
    for panel in pictures:
        ax = panel.draw(plt.figure().subplots())
        if panel.title == "Reliability":
            lines = [line for line in ax.lines if line.get_label().startswith("model")]
            assert len({line.get_color() for line in lines}) == len(lines)
            counts.append(len(lines))
        if panel.title.startswith("Probability"):
            tops.append(ax.get_ylim()[1])
    assert counts == [6, 2]
    assert len(set(tops)) == 1
    assert tops[0] >= max(one.curves["pit"].heights.max() for one in models.values())


@pytest.mark.parametrize(
    ("name", "argument"),
    [("congruence_test", "test"), ("diagnosis", "diagnosed"), ("missing_mass", "curve"),
     ("rejection", "curve"), ("verdict", "conclusion"), ("weak_regions", "regions")],
)  # fmt: skip
def test_pictures_of_results_refuse_others(name, argument):
    with pytest.raises(TypeError, match=f"{argument} is .* returns is needed"):
        getattr(plots, name)([1.0, 2.0])


def test_regions_are_points_beside_a_right_model():
    from fastmcmd.inference.regions import WeakRegion, WeakRegions

    regions = WeakRegions(
        (
            WeakRegion("x > $1", 0.3, 0.1, "", 0.005, 0.01, 40, 20),
            WeakRegion("x <= $1", 0.05, 0.06, "", 0.6, 0.6, 60, 30),
        ),
        0.05, (((0, True, 1.0),), ((0, False, 1.0),)), ("x",),
    )  # fmt: skip
    ax = regions.plot(plt.figure().subplots())
    by_label = {line.get_label(): line for line in ax.lines}
    assert by_label["beyond chance"].get_xydata().tolist() == [[0.3, 1.0]]  # the worst on top
    assert by_label["may be chance"].get_xydata().tolist() == [[0.05, 0.0]]
    assert by_label["a right model"].get_xydata().tolist() == [[0.06, 0.0], [0.1, 1.0]]
    assert [text.get_text().split("\n")[0] for text in ax.get_yticklabels()] == [
        r"x <= \$1", r"x > \$1",
    ]  # fmt: skip


def test_pictures_hide_nothing(rng):
    """A marker at 0 was cut, labels of eight decades overlapped, a few last rows flattened a curve."""
    from fastmcmd.inference.regions import WeakRegion, WeakRegions

    regions = WeakRegions(
        (WeakRegion("x > 1", 0.6, 0.0, "", 0.01, 0.01, 40, 20),), 0.05, (((0, True, 1.0),),), ("x",)
    )
    figure, ax = plt.subplots(layout="constrained")
    regions.plot(ax)
    assert ax.get_xlim()[0] < 0
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert legend.y0 >= ax.bbox.y1
    assert legend.x1 <= figure.bbox.x1
    x = rng.uniform(-1, 1, (300, 2))
    diagnosed = fm.diagnose(x, rng.poisson(1.0, 300), fm.Poisson(np.ones(300)))
    band = np.where([True, False], 1e-3, 1e3) * np.ones((300, 2))
    axes = replace(diagnosed, factor_band=band).plot()
    assert axes[1].get_yscale() == "log"
    axes[1].figure.canvas.draw()
    boxes = [one.get_window_extent() for one in axes[1].get_yticklabels() if one.get_text()]
    assert len(boxes) > 3
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(boxes))
    loss = np.append(np.ones(499), 300.0)
    curve = fm.rejection_curve(np.arange(500.0), loss)
    assert curve.plot().get_ylim()[1] < 20
    plt.close("all")


def test_axes_of_others_are_refused(rng):
    curve = fm.rejection_curve(rng.normal(size=9), rng.normal(size=9))
    with pytest.raises(TypeError, match="ax is 5; axes of matplotlib"):
        curve.plot(ax=5)
    diagnosed = fm.diagnose(rng.normal(size=90), rng.normal(size=90), (np.zeros(90), 1.0))
    with pytest.raises(ValueError, match="a pair of matplotlib axes"):
        fm.plots.diagnosis(diagnosed, axes=[])
    with pytest.raises(TypeError, match="axes is 1; axes of matplotlib"):
        fm.plots.diagnosis(diagnosed, axes=(1, 2))


@pytest.mark.slow
def test_the_legend_of_a_test_covers_nothing(rng):
    """The line of the observed CCE crossed the legend."""
    x = rng.uniform(-2, 2, 200)
    for shift in (0.0, 0.5, 2.0):
        test = fm.congruence_test(x, x + rng.normal(size=200), fm.Gaussian(x + shift, 1.0))
        for size in ((4.5, 3.2), (6.0, 5.0)):
            figure, ax = plt.subplots(figsize=size, layout="constrained")
            test.plot(ax)
            figure.canvas.draw()
            legend = ax.get_legend().get_window_extent()
            artists = [*ax.get_lines(), *ax.patches]
            assert not any(one.get_window_extent().overlaps(legend) for one in artists)
            assert ax.bbox.x0 <= legend.x0 < legend.x1 <= ax.bbox.x1
            plt.close(figure)


def test_a_diagnosis_names_its_only_column(rng):
    pd = pytest.importorskip("pandas")
    x, y = rng.normal(size=120), rng.normal(size=120)
    diagnosis = fm.diagnose(pd.DataFrame({"$age": x}), y, (np.zeros(120), 1.0))
    assert diagnosis.plot()[1].get_xlabel() == r"\$age"
    assert fm.diagnose(x, y, (np.zeros(120), 1.0)).plot()[1].get_xlabel() == "x"
    two = fm.diagnose(pd.DataFrame({"a": x, "b": y}), y, (np.zeros(120), 1.0))
    assert two.plot()[1].get_xlabel() == "first principal component of x"
    assert (
        fm.diagnose(pd.Series(x, name="age"), y, (np.zeros(120), 1.0)).plot()[1].get_xlabel()
        == "age"
    )
    assert fm.diagnose(pd.Series(x), y, (np.zeros(120), 1.0)).plot()[1].get_xlabel() == "x"


def test_a_map_of_differences_names_its_only_column(rng):
    pd = pytest.importorskip("pandas")
    x = rng.normal(size=120)
    models = {"a": (x, 1.0), "b": (np.zeros(120), 1.0)}
    difference = fm.compare(models, x, pd.DataFrame({"$age": x})).map()
    assert difference.plot().get_xlabel() == r"\$age"
    assert fm.plots.difference_map(difference, 2 * x).get_xlabel() == "x"


def test_the_band_of_an_input_without_alike_neighbours_is_drawn(rng):
    """An area between inputs has no width if the sign at both neighbours is another one."""
    x = np.repeat([0.0, 1.0, 2.0], 100)
    y = np.where(x == 1.0, 1.0, 0.0) + 0.1 * rng.normal(size=300)
    flat, step = 0.1 * rng.normal(size=(2, 300))
    models = {"flat": fm.Gaussian(flat, 0.3), "step": fm.Gaussian(step + (x == 1.0), 0.3)}
    difference = fm.compare(models, y, x).map(x_kernel=fm.RBF(50.0))
    assert difference.better[x == 1.0].all()
    assert not difference.better[x != 1.0].any()
    lines = [one for one in difference.plot().collections if isinstance(one, LineCollection)]
    assert sorted(float(one[0, 0]) for part in lines for one in part.get_segments()) == [0, 1, 2]


@pytest.mark.parametrize(("rows", "scale"), [(120, "log"), (2000, "linear")])
def test_factors_of_several_scales_have_a_logarithmic_axis(rng, rows, scale):
    x = rng.uniform(-1, 1, rows)
    diagnosed = fm.diagnose(x, x + rng.normal(size=rows), (x, 1.0))
    band = diagnosed.factor_band[diagnosed.supported]
    assert (band.max() > 5 * band.min()) == (scale == "log")
    shift, factor = diagnosed.plot()
    assert (shift.get_yscale(), factor.get_yscale()) == ("linear", scale)


def test_inputs_without_support_are_marked_at_the_bottom(rng):
    """The marks lay on the line of a shift of 0 and at a factor of 0 if no input had a diagnosis."""
    x = rng.normal(size=(12, 12))
    diagnosed = fm.diagnose(x, rng.normal(size=12), (np.zeros(12), 1.0))
    assert not diagnosed.supported.any()
    axes = diagnosed.plot()
    for ax in axes:
        marks = ax.get_lines()[-1]
        height = ax.transAxes.inverted().transform(
            marks.get_transform().transform(marks.get_xydata())
        )
        assert (height[:, 1] < 0.05).all()
        assert "enough rows" in ax.texts[0].get_text()
    plt.close(axes[0].figure)


def test_models_share_a_legend_above_the_plots(rng):
    """Long names of models covered curves, and axes beside their own."""
    x, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    names = [
        "gradient boosting with quantile heads, tuned",
        "_deep ensemble of five $networks$",
        "linear",
    ]
    models = {name: (np.zeros(200), 1.0 + place) for place, name in enumerate(names)}
    figure = plots.evaluation(fm.compare(models, y, x))
    legend = figure.legends[0]
    shown_names = [text.get_text() for text in legend.get_texts()]
    assert shown_names == [names[0], r" _deep ensemble of five \$networks\$", names[2]]
    figure.canvas.draw()
    bottom = legend.get_window_extent().y0
    for ax in figure.axes:
        assert ax.get_legend() is None
        assert ax.get_tightbbox().y1 <= bottom
    alone = plots.evaluation(fm.evaluate(y, models["linear"], x))
    assert alone.legends == []
