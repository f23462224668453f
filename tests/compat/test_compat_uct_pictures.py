"""Data, areas and pictures of the drop-in for Uncertainty Toolbox agree with the original."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from fastmcmd.compat import uncertainty_toolbox as ours

uct = pytest.importorskip("uncertainty_toolbox")
PLOTS = (
    "plot_xy", "plot_intervals", "plot_intervals_ordered", "plot_calibration",
    "plot_adversarial_group_calibration", "plot_sharpness", "plot_residuals_vs_stds",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", ["synthetic_arange_random", "synthetic_sine_heteroscedastic"])
def test_data_are_those_of_the_original(name):
    plotted_data = []
    for module in (ours, uct):
        np.random.seed(3)  # noqa: NPY002
        plotted_data.append(getattr(module, name)(25))
    for actual, expected in zip(*plotted_data, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("absolute", [True, False])
def test_areas_and_intersections(rng, absolute):
    corners = rng.normal(size=(6, 200)).round(1)  # some lines meet at the ends, some are parallel
    actual = ours.utils.trapezoid_area(*corners, absolute=absolute)
    expected = uct.utils.trapezoid_area(*corners, absolute=absolute)
    np.testing.assert_allclose(actual, expected, atol=1e-12)
    points = rng.normal(size=(4, 2, 50))
    points[3] = np.where(np.arange(50) < 5, points[2] + points[1] - points[0], points[3])
    np.testing.assert_allclose(
        ours.utils.intersection(*points)[0][5:], uct.utils.intersection(*points)[0][5:]
    )
    assert np.isnan(ours.utils.intersection((0, 0), (1, 1), (0, 1), (1, 2))).all()


def test_assertions():
    with pytest.raises(AssertionError, match="argument 1 has 5 values and argument 0 3"):
        ours.utils.assert_is_flat_same_shape(np.arange(3), np.arange(5))
    with pytest.raises(AssertionError, match="not positive"):
        ours.utils.assert_is_positive(np.array([1.0, 0.0]))
    for check in (ours.utils.assert_is_flat_same_shape, ours.utils.assert_is_positive):
        with pytest.raises(AssertionError, match="at least one"):
            check()
        with pytest.raises(AssertionError, match="argument 0 is"):
            check([1.0])


def numbers(ax):
    """Return the data of lines, without those of error bars."""
    return [line.get_xydata() for line in ax.lines if line.get_label()[:1] != "_"]


@pytest.mark.slow
@pytest.mark.parametrize("name", PLOTS)
def test_pictures_show_the_numbers_of_the_original(name):
    np.random.seed(0)  # noqa: NPY002
    mean, std, y, x = uct.data.synthetic_sine_heteroscedastic(40)
    plotted_data = []
    for module in (ours, uct):
        np.random.seed(1)  # noqa: NPY002
        parts = {"plot_xy": (mean, std, y, x), "plot_sharpness": (std,)}.get(name, (mean, std, y))
        plotted_data.append(getattr(module, name)(*parts, n_subset=20))
    actual, expected = plotted_data
    lines = [line for line in numbers(actual) if len(line) >= 20 or name.endswith("calibration")]
    for line in lines:
        assert any(
            line.shape == one.get_xydata().shape and np.allclose(line, one.get_xydata())
            for one in expected.lines
        )
    assert len(lines) >= (name != "plot_sharpness")
    assert actual.get_title() == expected.get_title()
    assert actual.get_xlabel() == expected.get_xlabel().strip("$")
    if name == "plot_sharpness":
        assert actual.texts[0].get_text().strip() == expected.texts[0].get_text().strip()
        heights = [[bar.get_height() for bar in ax.patches] for ax in plotted_data]
        np.testing.assert_allclose(*heights)


def test_given_proportions_and_groups():
    proportions = ([0.0, 0.5, 1.0], [0.0, 0.8, 1.0])
    ax = ours.plot_calibration(
        [0.0], [1.0], [0.0], exp_props=proportions[0], obs_props=proportions[1]
    )
    np.testing.assert_array_equal(numbers(ax)[1], np.transpose(proportions))
    with pytest.raises(ValueError, match="exp_props has 3, obs_props has 2"):
        ours.plot_calibration([0.0], [1.0], [0.0], exp_props=proportions[0], obs_props=[0.0, 1.0])
    with pytest.raises(ValueError, match=r"exp_props has shape \(3, 1, 1\)"):
        ours.plot_calibration([0.0], [1.0], [0.0], exp_props=np.zeros((3, 1, 1)))
    column = np.transpose([proportions[0]])
    ax = ours.plot_calibration([0.0], [1.0], [0.0], exp_props=column, obs_props=proportions[1])
    np.testing.assert_array_equal(numbers(ax)[1], np.transpose(proportions))
    ax = ours.plot_adversarial_group_calibration(
        [0.0, 1.0], [1.0, 1.0], [0.0, 1.0], group_size=[0.5, 1], score_mean=[0.3, 0.2]
    )
    np.testing.assert_array_equal(numbers(ax)[0], [[0.5, 0.3], [1.0, 0.2]])


@pytest.mark.parametrize("std", [[4e159, 4e159], [1e17, 1e17 + 16], [1.0, 1.0 + 1e-15], [0.4, 0.4]])
def test_the_sharpness_of_equal_deviations_is_drawn(std):
    """NumPy cannot make ten bins between numbers that are equal after rounding."""
    bars = ours.plot_sharpness(std).patches
    assert len(bars) == 10
    assert bars[0].get_x() <= std[0] <= std[1] <= bars[-1].get_x() + bars[-1].get_width()


@pytest.mark.slow
def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="n_subset is 3; an integer in"):
        ours.plot_sharpness([1.0, 2.0], n_subset=3)
    with pytest.raises(ValueError, match="rows must match"):
        ours.plot_xy([0.0], [1.0], [0.0], [0.0, 1.0])
    with pytest.raises(TypeError, match="ax is"):
        ours.plot_sharpness([1.0], ax="no")
    for place in ("", "middle", 11, -1, True, (0.0, 0.5, 1.0)):
        with pytest.raises(ValueError, match="leg_loc"):
            ours.plot_xy([0.0], [1.0], [0.0], [0.0], leg_loc=place)
    for place in ("upper right", 4, (0.1, 0.2)):
        ours.plot_xy([0.0], [1.0], [0.0], [0.0], leg_loc=place)


@pytest.mark.parametrize("std", [[1.0, 1.0], [1e300, 1e300], [1.0, 1.0 + 1e-12], [1e308], [1e-300]])
def test_deviations_that_agree(std):
    bars = ours.plot_sharpness(std).patches
    assert sum(bar.get_height() > 0 for bar in bars) == 1


@pytest.mark.slow
def test_their_quick_start_runs(tmp_path, monkeypatch, capsys):
    """The documented example and that of the pictures run with one import changed."""
    monkeypatch.chdir(tmp_path)
    with mpl.rc_context():
        ours.viz.set_style()
        ours.viz.update_rc("figure.dpi", 60)
        predictions, predictions_std, y, x = ours.data.synthetic_sine_heteroscedastic(100)
        metrics = ours.metrics.get_all_metrics(predictions, predictions_std, y, verbose=False)
        assert set(metrics) >= {"accuracy", "scoring_rule"}
        ours.plot_xy(predictions, predictions_std, y, x, leg_loc=4)
        ours.viz.save_figure("picture", ["png", "pdf"])
    assert capsys.readouterr().out == "Saved figure picture.png\nSaved figure picture.pdf\n"
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
