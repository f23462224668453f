"""Data frames as inputs keep the labels of their rows in the results."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd._base.checks import as_array
from fastmcmd.frames import RowLabels, row_labels, to_frame, to_xarray


@pytest.fixture
def data(rng):
    x = rng.uniform(-2, 2, 60)
    return x, x + 0.3 * rng.normal(size=60)


def _same(evaluation, expected):
    assert [one.name for one in evaluation.measured] == [one.name for one in expected.measured]
    for one, other in zip(evaluation.measured, expected.measured, strict=True):
        assert one.value == other.value, one.name


def test_pandas_columns_everywhere_and_their_index_out(data):
    pd = pytest.importorskip("pandas")
    x, y = data
    index = pd.Index([f"row {i}" for i in range(60)])[::-1]
    frame = pd.DataFrame({"x": x, "y": y, "s": 0.4, "w": np.arange(60)}, index=index)
    frame["group"] = np.where(x > 0, "right", "left")
    evaluation = fm.evaluate(
        frame["y"], (frame["x"], frame["s"]), frame[["x"]],
        sample_weight=frame["w"], by=frame["group"],
    )  # fmt: skip
    weights = np.arange(60.0)
    expected = fm.evaluate(
        y, (x, np.full(60, 0.4)), x, sample_weight=weights, by=np.where(x > 0, "right", "left")
    )
    _same(evaluation, expected)
    assert {k: v[0] for k, v in evaluation.by.items()} == {k: v[0] for k, v in expected.by.items()}
    rows = evaluation.rows_to_frame()
    assert rows.index.equals(index)
    values = ["pit", "crps", "log_score", "cce"]
    assert list(rows.columns) == [*values, "cce_error_bound", "cce_supported"]
    assert rows["cce_error_bound"].max() == evaluation.cce.error_bound
    np.testing.assert_array_equal(rows["cce_supported"], evaluation.cce.effective_rows >= 5)
    for name in values:
        np.testing.assert_array_equal(rows[name], evaluation.rows[name])
    frame["crps"] = rows["crps"]  # joins by label
    assert frame.loc["row 3", "crps"] == evaluation.rows["crps"][list(index).index("row 3")]


def test_rows_without_labels_are_counted(data):
    pd = pytest.importorskip("pandas")
    x, y = data
    rows = fm.evaluate(y, (x, 0.4)).rows_to_frame()
    assert rows.index.equals(pd.RangeIndex(60))


def test_rows_left_out_keep_their_place(data):
    pd = pytest.importorskip("pandas")
    x, y = data
    series = pd.Series(y, index=np.arange(100, 160))
    series.loc[107] = np.nan
    rows = fm.evaluate(series, (x, 0.4), nan_policy="omit").rows_to_frame()
    assert rows.index.equals(series.index)
    assert rows.index[rows["crps"].isna()].tolist() == [107]


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "boolean", "double[pyarrow]", "float32"])
def test_pandas_types_that_hold_missing_values(dtype):
    pd = pytest.importorskip("pandas")
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    column = pd.Series([1, 0, 1], dtype=dtype)
    np.testing.assert_array_equal(as_array(column, "y"), [1.0, 0.0, 1.0])
    if dtype not in ("float32", "boolean"):  # of which the one has none, the other gives objects
        column[1] = None
        np.testing.assert_array_equal(as_array(column, "y"), [1.0, np.nan, 1.0])
        with pytest.raises(ValueError, match="y holds NaN"):
            fm.metrics.mean_crps(column, (np.zeros(3), 1.0))
        mean_score = fm.metrics.mean_crps(column, (np.zeros(3), 1.0), nan_policy="omit")
        assert mean_score == fm.metrics.mean_crps([1.0, 1.0], (np.zeros(2), 1.0))


def test_pandas_columns_of_no_numbers_are_refused():
    pd = pytest.importorskip("pandas")
    for column in (
        pd.Series(list("abc")),
        pd.Series(list("abc"), dtype="category"),
        pd.Series(pd.date_range("2020", periods=3)),
    ):
        with pytest.raises(TypeError, match="numbers"):
            fm.evaluate(column, (np.zeros(3), 1.0))


def test_groups_without_a_label_are_refused(data):
    pd = pytest.importorskip("pandas")
    x, y = data
    group = pd.Series(["a", None] * 30, dtype=object)
    with pytest.raises(ValueError, match="no label in row 1"):
        fm.evaluate(y, (x, 0.4), by=group)


def test_groups_of_nullable_integers(data):
    pd = pytest.importorskip("pandas")
    x, y = data
    evaluation = fm.evaluate(y, (x, 0.4), by=pd.Series([1, 2] * 30, dtype="Int64"))
    assert set(evaluation.by) == {1, 2}


def test_polars_columns_everywhere(data):
    pl = pytest.importorskip("polars")
    x, y = data
    frame = pl.DataFrame({"x": x, "y": y, "s": np.full(60, 0.4)})
    frame = frame.with_columns(
        group=pl.when(pl.col("x") > 0).then(pl.lit("b")).otherwise(pl.lit("a"))
    )
    evaluation = fm.evaluate(
        frame["y"], (frame["x"], frame["s"]), frame.select("x"), by=frame["group"]
    )
    expected = fm.evaluate(y, (x, np.full(60, 0.4)), x, by=np.where(x > 0, "b", "a"))
    _same(evaluation, expected)
    assert set(evaluation.by) == {"a", "b"}
    assert evaluation.labels is None
    draws = pl.DataFrame({"first": x, "second": x + 1})
    assert fm.metrics.mean_crps(frame["y"], draws) == fm.metrics.mean_crps(
        y, np.stack([x, x + 1], axis=1)
    )
    with_null = pl.Series([1.0, None, 2.0])
    with pytest.raises(ValueError, match="y holds NaN"):
        fm.metrics.mean_crps(with_null, (np.zeros(3), 1.0))
    with pytest.raises(TypeError, match="x"):
        fm.cce(frame.lazy().select("x"), y, (x, 0.4))


def test_xarray_keeps_coordinates(data):
    xr = pytest.importorskip("xarray")
    pd = pytest.importorskip("pandas")
    x, y = data
    time = pd.date_range("2024-01-01", periods=60)
    array = xr.DataArray(
        y, dims="time", coords={"time": time, "station": ("time", np.arange(60) % 3), "height": 2.0}
    )
    evaluation = fm.evaluate(array, (array.copy(data=x), 0.4), array.copy(data=x))
    out = evaluation.rows_to_xarray()
    assert dict(out.sizes) == {"time": 60}
    for name in ("time", "station", "height"):
        xr.testing.assert_equal(
            out.coords[name].reset_coords(drop=True), array[name].reset_coords(drop=True)
        )
    assert float(out["cce"].sel(time="2024-01-05")) == evaluation.rows["cce"][4]
    by_station = out["crps"].groupby("station").mean()
    assert float(by_station[1]) == pytest.approx(evaluation.rows["crps"][1::3].mean())
    assert evaluation.rows_to_frame().index.equals(array.indexes["time"])


def test_xarray_of_other_rows(data):
    xr = pytest.importorskip("xarray")
    pd = pytest.importorskip("pandas")
    x, y = data
    out = fm.evaluate(y, (x, 0.4)).rows_to_xarray()
    assert dict(out.sizes) == {"row": 60}
    assert not out.coords
    labelled = fm.evaluate(pd.Series(y, index=np.arange(60) * 2), (x, 0.4)).rows_to_xarray()
    assert float(labelled["pit"].sel(row=10)) == float(out["pit"][5])
    bare = xr.DataArray(y, dims="t")  # a name without labels
    assert dict(fm.evaluate(bare, (x, 0.4)).rows_to_xarray().sizes) == {"t": 60}
    vectors = xr.DataArray(np.stack([y, y], 1), dims=("t", "k"), coords={"t": x, "k": ["a", "b"]})
    labels = row_labels(vectors)
    assert labels.dim == "t"
    assert set(labels.coords) == {"t"}


def test_names_that_clash_with_coordinates(data):
    xr = pytest.importorskip("xarray")
    x, y = data
    array = xr.DataArray(y, dims="crps", coords={"crps": x})
    with pytest.raises(ValueError, match="coordinates crps"):
        fm.evaluate(array, (x, 0.4)).rows_to_xarray()


def test_labels_of_another_length_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="3 labels of rows, and cce has 2"):
        to_frame({"cce": np.zeros(2)}, pd.Index([1, 2, 3]))
    with pytest.raises(ValueError, match="3 labels"):
        to_frame({"cce": np.zeros(2)}, ["a", "b", "c"])


def test_labels_of_things_without():
    for value in (None, 3.0, [1, 2], np.zeros(3), "y.npy"):
        assert row_labels(value) is None


@pytest.mark.parametrize(("package", "call"), [("pandas", to_frame), ("xarray", to_xarray)])
def test_without_the_package(monkeypatch, package, call):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(fm.MissingDependencyError, match="pip install"):
        call({"cce": np.zeros(2)}, RowLabels())


ENTRIES = {
    "evaluate": lambda x, y, p: fm.evaluate(y, p, x),
    "compare": lambda x, y, p: fm.compare({"a": p}, y, x),
    "cce": lambda x, y, p: fm.cce(x, y, p),
    "fit": lambda x, y, p: fm.ConditionalCongruence().fit(x, y, p),
    "congruence_test": lambda x, y, p: fm.congruence_test(x, y, p, simulations=19),
    "diagnose": lambda x, y, p: fm.diagnose(x, y, p),
    "verdict": lambda x, y, p: fm.verdict(x, y, p),
    "kernel_report": lambda x, y, p: fm.kernel_report(x, y),
    "select_kernel": lambda x, y, p: fm.select_kernel(x, y),
    "mcmd": lambda x, y, p: fm.mcmd(x, x, y, x, x["x"]),
    "downsampled": lambda x, y, p: fm.downsampled_cce(x, y, p, 30),
    "recalibration": lambda x, y, p: fm.recalibration.ConditionalRescaling().fit(p, y, x),
    "streaming": lambda x, y, p: fm.streaming.CCE(fm.RBF(1.0), fm.RBF(1.0), 9).update(x, y, p),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_same_labels_in_another_order_are_an_error(entry, data):
    """Rows are matched by position: labels that say otherwise are a mistake of the caller."""
    pd = pytest.importorskip("pandas")
    x, y = data
    frame = pd.DataFrame({"x": x, "y": y}, index=pd.date_range("2026-01-01", periods=60))
    shuffled = frame["y"].sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"same row labels in another order \(row \d+: "):
        ENTRIES[entry](frame[["x"]], shuffled, fm.Gaussian(x, 0.3))


def test_labels_in_messages_are_plain_numbers():
    pd = pytest.importorskip("pandas")
    y = pd.Series([0.0, 1.0, 2.0], index=[7, 8, 9])
    with pytest.raises(ValueError, match=r"\(row 0: 7 and 9\)"):
        fm.metrics.mean_crps(y, (y.iloc[::-1], 1.0))


def test_labels_of_predictions_weights_and_probabilities_are_compared(data):
    pd = pytest.importorskip("pandas")
    x, y = data
    frame = pd.DataFrame({"x": x, "y": y, "s": 0.3, "w": 1.0}, index=list("abcdef" * 10))
    frame.index += np.arange(60).astype(str)
    other = frame.iloc[::-1]
    with pytest.raises(ValueError, match=r"reorder prediction with \.loc\[y\.index\]"):
        fm.metrics.mean_crps(frame["y"], (frame["x"], other["s"]))
    with pytest.raises(ValueError, match=r"reorder sample_weight with \.loc\[y\.index\]"):
        fm.metrics.mean_crps(frame["y"], (x, 0.3), sample_weight=other["w"])
    p = pd.DataFrame({0: 0.4, 1: 0.6}, index=other.index)
    with pytest.raises(ValueError, match=r"reorder p with \.loc\[y\.index\]"):
        fm.classification.nll((frame["y"] > 0).astype(int), p)


def test_labels_that_say_nothing_about_the_order_are_not_compared(data):
    """Default labels 0, 1, ..., labels of other rows, and labels that repeat."""
    pd = pytest.importorskip("pandas")
    x, y = data
    expected = fm.metrics.mean_crps(y, (x, 0.3))
    shuffled = np.random.default_rng(0).permutation(60)
    for index in (shuffled, shuffled + 60, np.repeat(shuffled[:30], 2)):
        outcomes, means = pd.Series(y, index=index), pd.Series(x)
        assert fm.metrics.mean_crps(outcomes, (means, 0.3)) == expected
        if len(set(index)) < 60:
            means.index = index[::-1]
            assert fm.metrics.mean_crps(outcomes, (means, 0.3)) == expected


def test_equal_labels_of_other_types_have_the_same_order(data):
    """Time zones, categories and tuples: types differ, labels do not; neither are values labels."""
    pd = pytest.importorskip("pandas")
    x, y = data
    times = pd.date_range("2026-01-01", periods=60, freq="h", tz="Europe/Berlin")
    names = [f"row {i}" for i in range(60)]
    pairs = pd.MultiIndex.from_product([range(30), list("ab")])
    same = [
        (times, times.tz_convert("UTC")),
        (pd.CategoricalIndex(names), pd.CategoricalIndex(names, categories=names[::-1])),
        (pairs, pd.Index(list(pairs), tupleize_cols=False)),
        (pairs, pd.Index(names)),  # labels of another kind
    ]
    for first, second in same:
        fm.metrics.mean_crps(pd.Series(y, first), (pd.Series(x, second), 0.3))
        if second[0] != "row 0":
            with pytest.raises(ValueError, match="another order"):
                fm.metrics.mean_crps(pd.Series(y, first), (pd.Series(x, second[::-1]), 0.3))
    fm.metrics.mean_crps(pd.Index(y), (pd.Index(y[::-1]), 0.3))


def test_every_labelled_part_is_compared(data):
    pd = pytest.importorskip("pandas")
    x, y = data
    frame = pd.DataFrame(
        {"x": x, "y": y, "s": 0.3}, index=["row" + 200 * "w" + f"{i}" for i in range(60)]
    )
    other = frame.iloc[::-1]
    with pytest.raises(ValueError, match=r"^parts of prediction have the same row labels") as error:
        fm.metrics.mean_crps(y, (frame["x"], other["s"]))
    assert len(str(error.value)) < 400
    models = {"a": (frame["x"], 0.3), "b": (other["x"], 0.3)}
    with pytest.raises(
        ValueError, match=r"models\['a'\] and models\['b'\] have the same row labels"
    ):
        fm.compare(models, y)
    models = {"a": (x, 0.3), "b": (x, 0.5)}
    with pytest.raises(ValueError, match="y and groups have the same row labels"):
        fm.compare(models, frame["y"], groups=other["x"])
    with pytest.raises(ValueError, match="columns and y have the same row labels"):
        fm.weak_regions({"x": other["x"]}, x, frame["y"], (x, 0.3))
    reverse = pd.RangeIndex(59, -1, -1)
    with pytest.raises(ValueError, match="another order"):
        fm.metrics.mean_crps(
            pd.Series(y, range(60)[::-1]), (pd.Series(x, index=list(range(60))), 0.3)
        )
    fm.metrics.mean_crps(pd.Series(y, reverse), (pd.Series(x), 0.3))  # default labels
