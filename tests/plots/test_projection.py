"""Inputs on a plane: projections, the rows they use, inputs of every kind; values over the plane."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import types

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import plots
from fastmcmd.errors import MissingDependencyError
from fastmcmd.plots.inputs import FEW, Inputs, some
from fastmcmd.plots.projection import Plane, principal
from fastmcmd.plots.values import bins_of, colour_limits


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def components(x, count):
    """Return principal components by the singular value decomposition."""
    centred = x - x.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:count].T


@pytest.mark.parametrize("shape", [(200, 3), (200, 50), (12, 40), (3, 7), (5, 2100)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_principal_components(rng, shape, dtype):
    x = (rng.normal(size=shape) * np.linspace(3, 1, shape[1]) + 100).astype(dtype)
    actual, expected = principal(x, 2), components(x.astype(np.float64), 2)
    signs = np.sign((actual * expected).sum(axis=0))
    np.testing.assert_allclose(actual, expected * signs, atol=1e-8)
    np.testing.assert_array_equal(actual, principal(x.copy(), 2))


def test_principal_components_of_what_has_fewer(rng):
    """One row, equal rows or one column have no extent along the second axis."""
    for x in (np.ones((1, 5)), np.ones((9, 5)), rng.normal(size=(9, 1))):
        np.testing.assert_allclose(principal(x, 2)[:, 1], 0, atol=1e-12)
    line = np.outer(np.arange(5.0), [0.6, -0.8])
    np.testing.assert_allclose(principal(line, 1)[:, 0], 2 - np.arange(5.0), atol=1e-12)


def test_axes_of_many_rows_come_from_some_of_them(rng):
    x = rng.normal(size=(30_000, 4)) * [9, 4, 1, 1]
    actual, expected = principal(x, 2), components(x, 2)
    for column in range(2):
        assert abs(np.corrcoef(actual[:, column], expected[:, column])[0, 1]) > 0.999


def test_two_columns_are_the_plane(rng):
    x = rng.normal(size=(50, 2))
    plane = plots.project(x)
    np.testing.assert_array_equal(plane.places, x)
    assert plane.names == ("x, column 1", "x, column 2")
    np.testing.assert_array_equal(plane.rows, np.arange(50))


def test_some_rows():
    rows = some(100_000, 1000)
    assert (np.diff(rows) > 0).all()
    assert len(rows) == 1000
    assert 40_000 < rows.mean() < 60_000
    np.testing.assert_array_equal(rows, some(100_000, 1000))
    np.testing.assert_array_equal(some(5, 5), np.arange(5))


def test_many_rows_are_thinned(rng):
    x = rng.normal(size=(120_000, 3))
    plane = plots.project(x)
    assert (len(plane.rows), plane.n) == (100_000, 120_000)
    assert len(plots.project(x, x[:, :2]).rows) == 100_000
    blocks = []
    projected = plots.project(x, lambda rows: blocks.append(rows) or rows[:, 1:])
    assert len(projected.rows) == FEW
    np.testing.assert_array_equal(blocks[0], x[projected.rows])
    np.testing.assert_array_equal(projected.places, x[projected.rows, 1:])


def test_wide_inputs_are_thinned_more(rng):
    """The rows taken together have at most 256 MB."""
    x = np.broadcast_to(np.float32(1), (20_000, 4096))
    rows, part = Inputs(x, len(x), None).sample
    assert len(rows) == len(part) == 2**25 // 4096


@pytest.mark.slow
def test_tsne_keeps_groups_together(rng):
    pytest.importorskip("sklearn")
    group = np.repeat([0, 1, 2], 30)
    x = rng.normal(size=(90, 60)) + 30 * np.eye(60)[group]  # more columns than t-SNE is given
    plane = plots.project(x, "tsne")
    apart = np.linalg.norm(plane.places[:, None] - plane.places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_array_equal(group[apart.argmin(axis=1)], group)
    np.testing.assert_array_equal(plane.places, plots.project(x, "tsne").places)
    assert plane.names[0].startswith("t-SNE")
    assert plots.project(x[:5], "tsne").places.shape == (5, 2)  # fewer than its neighbours
    with pytest.raises(ValueError, match="x has 3 rows; projection='tsne' needs at least 4"):
        plots.project(x[:3], "tsne")


def test_umap_gets_the_same_seed_every_time(rng, monkeypatch):
    """Without the package, check the arguments that it would receive."""
    seeds = []

    class UMAP:
        def __init__(self, **options):
            seeds.append(options)

        def fit_transform(self, rows):
            seeds.append(rows.shape)
            return rows[:, :2].astype(np.float32)

    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=UMAP))
    x = rng.normal(size=(FEW + 10, 4))
    plane = plots.project(x, "umap")
    assert seeds == [{"n_neighbors": 15, "random_state": 0, "n_jobs": 1}, (FEW, 4)]
    np.testing.assert_allclose(plane.places, x[plane.rows, :2], rtol=1e-6)
    assert plane.places.dtype == np.float64
    plots.project(x[:6], "umap")
    assert seeds[2]["n_neighbors"] == 5
    with pytest.raises(ValueError, match="x has 2 rows; projection='umap' needs at least 4"):
        plots.project(x[:2], "umap")


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [("tsne", "sklearn.manifold", "scikit-learn"), ("umap", "umap", "umap-learn")],
)
def test_packages_that_are_missing_are_named(rng, monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    message = rf"needs {package}: pip install 'fastmcmd\[projection\]'"
    with pytest.raises(MissingDependencyError, match=message):
        plots.project(rng.normal(size=(20, 3)), name)


def test_bad_projections(rng):
    x = rng.normal(size=(20, 3))
    with pytest.raises(ValueError, match=r"'isomap'; 'pca', 'tsne', 'umap', an \(n, 2\) array"):
        plots.project(x, "isomap")
    with pytest.raises(ValueError, match="x has 1 column; projection='tsne' needs at least two"):
        plots.project(x[:, :1], "tsne")
    with pytest.raises(ValueError, match="projection has 3 columns; 2 are needed"):
        plots.project(x, x)
    with pytest.raises(ValueError, match="x has 20, projection has 19"):
        plots.project(x, x[1:, :2])
    with pytest.raises(
        ValueError, match=r"made an array \(20, 3\) of 20 rows; \(20, 2\) is needed"
    ):
        plots.project(x, lambda rows: rows)
    with pytest.raises(ValueError, match="the projection of x holds NaN"):
        plots.project(x, lambda rows: np.full((len(rows), 2), np.nan))


def kinds():
    """Return inputs of every kind that an encoder may take, all of them 0 to 5."""
    numbers = np.arange(6)
    inputs = [numbers, numbers.tolist(), tuple(numbers.tolist()), numbers.astype(object)]
    for name in ("pandas", "polars", "torch"):
        if importlib.util.find_spec(name) is not None:
            package = importlib.import_module(name)
            inputs.append(package.tensor(numbers) if name == "torch" else package.Series(numbers))
    return inputs


def test_inputs_are_encoded_some_at_a_time():
    for x in kinds():
        blocks = []

        def encoder(part, x=x, blocks=blocks):
            assert isinstance(x, tuple) or type(part) is type(x)
            blocks.append(len(part))
            return [[float(one), 1.0] for one in part]

        encoded_rows = Inputs(x, 6, encoder).take([4, 1])
        np.testing.assert_array_equal(encoded_rows, [[4, 1], [1, 1]], err_msg=str(type(x)))
        assert blocks == [2]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2, 3], "b": [4.0, 5, 6]}, index=[7, 8, 9])
    inputs = Inputs(frame, 3, lambda part: part[["b"]])
    np.testing.assert_array_equal(inputs.take([2]), [[6]])


def test_inputs_that_cannot_be_cut_are_encoded_whole_once():
    blocks = []

    def encoder(parts):
        blocks.append(parts)
        return np.stack([parts["a"], parts["b"]], axis=1)

    inputs = Inputs({"a": np.arange(4.0), "b": np.ones(4)}, 4, encoder)
    np.testing.assert_array_equal(inputs.take([3, 0]), [[3, 1], [0, 1]])
    inputs.take([1])
    assert len(blocks) == 1
    with pytest.raises(ValueError, match="the encoder made 1 rows of 2 inputs"):
        Inputs(np.arange(4.0), 4, lambda part: part[:1]).take([0, 1])
    with pytest.raises(ValueError, match="the encoder made 4 rows of 5 inputs"):
        Inputs({"a": np.arange(4.0), "b": np.ones(4)}, 5, encoder).take([0])


def test_inputs_on_disk(rng, tmp_path):
    x = rng.normal(size=(40, 3))
    np.save(tmp_path / "x.npy", x)
    plane = plots.project(tmp_path / "x.npy")
    np.testing.assert_allclose(plane.places, plots.project(x).places, atol=1e-12)
    ax = plots.over_inputs(str(tmp_path / "x.npy"), x[:, 0])
    assert "principal" in ax.get_xlabel()


# Values over the plane.


def test_hexagons_hold_means(rng):
    """Each of several distant sites has one hexagon, coloured by the mean of the values there."""
    sites = np.array([[0.0, 0], [10, 0], [0, 10], [10, 10], [5, 5]])
    at = rng.integers(0, 5, 400)
    values = rng.normal(size=400)
    ax = plots.over_plane(sites[at], values, name="CRPS")
    expected = [values[at == site].mean() for site in range(5)]
    np.testing.assert_allclose(np.sort(ax.collections[0].get_array()), np.sort(expected))
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert bar.get_ylabel() == "mean CRPS"
    assert ax.collections[0].get_clim() == pytest.approx((min(expected), max(expected)))
    assert ax.get_xlabel() == "x, column 1"


@pytest.mark.parametrize("kind", ["normal", "lattice", "line", "point", "zero", "large"])
def test_hexagons_are_those_of_hexbin(kind, rng):
    """Each point is counted in the hexagon where matplotlib's hexbin counts it."""
    from matplotlib.figure import Figure

    places = rng.normal(size=(500, 2)) * (1, 40) + (0, 3)
    if kind == "lattice":
        places = np.round(places)
    elif kind == "line":
        places[:, 1] = 7.0
    elif kind == "point":
        places[:] = (0.0, -2.0)
    elif kind == "zero":
        places *= 1e-300
    elif kind == "large":
        places = places * 1e-6 + 1e6
    values = rng.normal(size=500)
    plane = Plane(places, np.arange(500), 500, ("a", "b"))
    ax, usual = Figure().subplots(), Figure().subplots()
    cells = plots.over_plane(plane, values, ax).collections[0]
    expected = usual.hexbin(*places.T, C=values, gridsize=30)
    np.testing.assert_allclose(ax.get_xlim(), usual.get_xlim())
    np.testing.assert_allclose(ax.get_ylim(), usual.get_ylim())
    np.testing.assert_allclose(
        cells.get_paths()[0].vertices, expected.get_paths()[0].vertices, rtol=1e-6
    )
    scale = np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())
    start = ax.get_xlim()[0], ax.get_ylim()[0]
    hexagons = _rows_by_centre(cells, scale, start)
    np.testing.assert_allclose(hexagons, _rows_by_centre(expected, scale, start), atol=1e-6)


def _rows_by_centre(cells, scale, start):
    """Centres and means of hexagons, in order of the centres."""
    centres = np.round((cells.get_offsets() - start) / scale, 6)
    rows = np.column_stack([centres, cells.get_array()])
    return rows[np.lexsort(centres.T)]


def test_values_of_a_plane_of_some_rows(rng):
    x = rng.normal(size=(FEW + 500, 3))
    plane = plots.project(x, lambda rows: np.tile([[0.0, 0], [9, 9]], (len(rows), 1))[: len(rows)])
    values = rng.normal(size=len(x))
    plotted_values = plots.over_plane(plane, values).collections[0].get_array()
    plane_values = values[plane.rows]
    np.testing.assert_allclose(
        np.sort(plotted_values), np.sort([plane_values[::2].mean(), plane_values[1::2].mean()])
    )
    with pytest.raises(ValueError, match=f"x has {FEW + 500}, values has 4"):
        plots.over_plane(plane, values[:4])
    with pytest.raises(ValueError, match="x is a Plane, which has its projection"):
        plots.over_plane(plane, values, projection=x[:, :2])


def test_a_few_extremes_do_not_take_all_colours(rng):
    x = rng.uniform(size=(5000, 2))
    values = np.ones(5000) + x[:, 0]
    values[7], values[8] = 1e6, np.inf
    cells = plots.over_plane(x, values).collections[0]
    low, high = cells.get_clim()
    assert 0.9 < low < high < 2.1
    worst = cells.get_array().max()
    assert worst > 1e200  # the hexagon of the infinite value
    np.testing.assert_allclose(cells.cmap(cells.norm(worst)), cells.cmap(1.0))
    collection = plots.over_plane(x, np.full(5000, np.inf)).collections[0]
    assert collection.get_clim() == (0, 1)
    with pytest.raises(ValueError, match=r"values holds NaN \(first in row 3\)"):
        plots.over_plane(x[:5], [1, 2, 3, np.nan, np.nan])


def test_colours_of_several_models(rng):
    x = rng.uniform(size=(2000, 2))
    plane = plots.project(x)
    low, high = colour_limits([(plane, x[:, 0]), (plane, x[:, 0] + 5)])
    assert low < 0.1
    assert high > 5.9
    assert plots.over_plane(plane, x[:, 0], limits=(low, high)).collections[0].get_clim() == (
        low,
        high,
    )


def test_cce_projection_is_over_plane(rng):
    x = rng.normal(size=(400, 5))
    result = fm.cce(x, x[:, 0], x[:, 1])
    ax = plots.cce_projection(x, result)
    same = plots.over_plane(x, result.values).collections[0].get_array()
    np.testing.assert_array_equal(ax.collections[0].get_array(), same)
    assert ax.get_xlabel() == "first principal component"
    projected = plots.cce_projection(x, result, projection=x[:, 3:])
    assert projected.get_xlabel() == "first coordinate"
    with pytest.raises(ValueError, match="x has 1 column; projection='pca' needs at least two"):
        plots.cce_projection(x[:, 0], x[:, 0])


@pytest.mark.parametrize("kind", ["normal", "repeated", "two", "constant", "one"])
def test_bins_are_of_equal_count(rng, kind):
    position = {
        "normal": rng.normal(size=1000),
        "repeated": rng.integers(0, 6, 300).astype(float),
        "two": np.repeat([0.0, 1.0], 20),
        "constant": np.zeros(9),
        "one": np.zeros(1),
    }[kind]
    bins = bins_of(position)
    np.testing.assert_array_equal(np.sort(np.concatenate(bins)), np.arange(len(position)))
    for one, other in itertools.pairwise(bins):
        assert position[one].max() < position[other].min()  # equal positions stay together
    if kind == "normal":
        assert len(bins) == 15
        assert {len(one) for one in bins} <= {66, 67}
    if kind == "constant":
        assert len(bins) == 1


def test_infinite_scores_over_inputs(rng):
    """A bin whose median is infinite has no point; other quantiles equal NumPy's."""
    x = np.sort(rng.uniform(size=300))
    values = rng.normal(size=300)
    values[-20:] = np.inf
    ax = plots.over_inputs(x, values, points=0, name="log score")
    (median,) = ax.lines
    bins = bins_of(x)
    np.testing.assert_allclose(
        median.get_ydata()[:-1], [np.quantile(values[one], 0.5) for one in bins[:-1]]
    )
    assert np.isnan(median.get_ydata()[-1])
    ax.figure.canvas.draw()


def test_over_inputs_of_an_encoder_uses_some_rows(rng):
    blocks = []
    inputs = Inputs(
        list(range(FEW + 100)), FEW + 100, lambda part: blocks.append(len(part)) or part
    )
    ax = plots.over_inputs(inputs, np.ones(FEW + 100))
    assert len(ax.lines[0].get_xdata()) == FEW
    plots.over_inputs(inputs, np.zeros(FEW + 100))
    assert blocks == [FEW]  # once for all pictures


def test_cumulative(rng):
    values = rng.exponential(size=4000)
    line = plots.cumulative(values, label="m").lines[0]
    for at, share in zip(line.get_xdata()[1:], line.get_ydata()[1:], strict=True):
        assert share == pytest.approx((values <= at).mean(), abs=1e-12)
    assert len(line.get_xdata()) <= 501
    line = plots.cumulative([1.0, np.inf, 2.0, np.inf]).lines[0]
    assert line.get_ydata().max() == 0.5  # half of them are nowhere


def test_histograms_of_one_value_and_of_infinite_ones():
    ax = plots.histogram([0.3] * 50, name="std")
    heights, edges, _ = ax.patches[0].get_data()
    np.testing.assert_array_equal(heights, [50])
    np.testing.assert_allclose(edges, [0.294, 0.306])
    heights, edges, _ = plots.histogram([0.0, 0.0]).patches[0].get_data()
    np.testing.assert_allclose(edges, [-0.5, 0.5])
    heights, _, _ = plots.histogram([1.0, np.inf, 2.0]).patches[0].get_data()
    assert heights.sum() == 2
    with pytest.raises(ValueError, match="no finite value"):
        plots.histogram([np.inf])
    with pytest.raises(ValueError, match=r"values has shape \(2, 2\); \(n,\) is needed"):
        plots.histogram(np.ones((2, 2)))
