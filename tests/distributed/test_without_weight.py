"""Blocks and groups without weight, models whose differences lose digits, wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest
from in_blocks import make_data

import fastmcmd as fm

da = pytest.importorskip("dask.array", reason="Dask is not installed")

SIZES = (20, 15, 25)
KERNELS = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.7), "lam": 0.02}
MIDDLE = slice(20, 35)


@pytest.fixture(scope="module")
def weightless():
    """Return rows whose middle block has no weight, and the point farthest from the others."""
    data = make_data(SIZES, seed=3)
    data.weights[MIDDLE] = 0.0
    data.y[MIDDLE] += 4.0
    data.x[22] = 1.0
    return data


def both(data, models, measure=fm.compare, **options):
    """Return the result of rows in memory, and of the same rows in blocks."""
    blocks = {name: model(data.blocks("mean")) for name, model in models.items()}
    return (
        measure({name: model(data.mean) for name, model in models.items()}, data.y, **options),
        measure(blocks, data.blocks("y"), **options),
    )


def test_values_by_row_do_not_depend_on_the_weights_of_their_block(weightless):
    data = weightless
    in_memory = fm.evaluate(
        data.y,
        fm.Gaussian(data.mean, 0.5),
        data.x,
        sample_weight=data.weights,
        test=False,
        **KERNELS,
    )
    blocked = fm.evaluate(
        data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), data.blocks("x"),
        sample_weight=data.blocks("weights"), **KERNELS,
    )  # fmt: skip
    assert np.array_equal(blocked.rows["crps"].compute(), in_memory.rows["crps"])
    assert np.isfinite(blocked.rows["cce"].compute()).all()
    assert blocked["max_cce"] == pytest.approx(in_memory["max_cce"], rel=1e-3)
    assert blocked["crps"] == pytest.approx(in_memory["crps"], rel=1e-12)
    assert "60 rows" in blocked.title
    values = fm.cce(
        data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5),
        weights=data.blocks("weights"), **KERNELS,
    )  # fmt: skip
    assert values.mean == pytest.approx(
        fm.cce(data.x, data.y, fm.Gaussian(data.mean, 0.5), weights=data.weights, **KERNELS).mean,
        abs=values.mean_error_bound,
    )


def test_rows_of_a_group_count_whatever_their_block(weightless):
    data = weightless
    groups = np.where(np.arange(60) % 2, "odd", "even")
    in_memory = fm.evaluate(
        data.y, fm.Gaussian(data.mean, 0.5), sample_weight=data.weights, by=groups, test=False
    )
    blocked = fm.evaluate(
        data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), sample_weight=data.blocks("weights"),
        by=da.from_array(groups, chunks=(SIZES,)),
    )  # fmt: skip
    counts = {label: rows for label, (rows, _) in in_memory.by.items()}
    assert {label: rows for label, (rows, _) in blocked.by.items()} == counts


@pytest.mark.parametrize("places", [MIDDLE, slice(0, 60, 3)])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_group_without_weight_is_named(places, in_blocks):
    data = make_data(SIZES)
    groups = np.full(60, "some")
    groups[places] = "none"
    data.weights[places] = 0.0
    y, mean, weights = data.y, data.mean, data.weights
    if in_blocks:
        y, mean, weights = (data.blocks(name) for name in ("y", "mean", "weights"))
    with pytest.raises(ValueError, match="by: no row of group 'none' has a positive sample_weight"):
        fm.evaluate(y, fm.Gaussian(mean, 1.0), by=groups, sample_weight=weights)


def test_bootstrap_samples_without_weight_have_no_median():
    evaluation = fm.evaluate(
        [0.0, 1.0], fm.Gaussian([0.0, 0.0], 1.0), sample_weight=[1.0, 0.0], n_boot=20
    )
    (median,) = [one for one in evaluation.measured if one.name == "median_absolute_error"]
    assert median.value == 0.0
    assert median.low is None


@pytest.mark.parametrize("unit", [1.0, 1e-150, 1e150])
def test_differences_have_the_intervals_of_rows_in_memory(unit):
    data = make_data(SIZES)
    data.y = unit * (data.mean + 1e-9 * np.random.default_rng(0).normal(size=60))
    data.mean = unit * data.mean
    models = {
        "a": lambda mean: fm.Gaussian(mean, unit),
        "a\tb": lambda mean: fm.Gaussian(mean + 1e3 * unit, unit),  # a large common difference
        "b\tc": lambda mean: fm.Gaussian(mean + unit, unit),
        "c": lambda mean: fm.Gaussian(mean - 2 * unit, unit),
    }
    in_memory, blocked = (
        {(one.measure, one.first, one.second): one for one in result._tests.pairs()}
        for result in both(data, models)
    )
    pairs = [name for name in in_memory if name[0] == "mean_crps"]
    assert len(pairs) == 6
    for name in pairs:
        one, other = in_memory[name], blocked[name]
        assert other.difference == pytest.approx(one.difference, rel=1e-12, abs=0)
        width = one.high - one.low
        assert width > 0
        assert other.high - other.low == pytest.approx(width, rel=1e-2, abs=0)


def test_few_rows_of_unequal_weights_have_the_test_of_rows_in_memory():
    data = make_data((5, 7))
    data.weights[:3] = 9.0
    models = {"a": lambda mean: fm.Gaussian(mean, 0.5), "b": lambda mean: fm.Gaussian(mean, 1.0)}
    blocks = {name: model(data.blocks("mean")) for name, model in models.items()}
    in_memory = fm.compare(
        {name: model(data.mean) for name, model in models.items()},
        data.y,
        sample_weight=data.weights,
    )
    blocked = fm.compare(blocks, data.blocks("y"), sample_weight=data.blocks("weights"))
    one, other = (
        next(pair for pair in result._tests.pairs() if pair.measure == "mean_crps")
        for result in (in_memory, blocked)
    )
    assert other.p_value == pytest.approx(one.p_value, rel=1e-9)


def test_models_need_different_names(weightless):
    prediction = fm.Gaussian(weightless.blocks("mean"), 1.0)
    with pytest.raises(ValueError, match="models have the same names as text: 1, 1"):
        fm.compare({1: prediction, "1": prediction}, weightless.blocks("y"))
    with pytest.raises(ValueError, match="models have the names"):
        fm.compare({"": prediction, "b": prediction}, weightless.blocks("y"))


def test_outcomes_without_scale_leave_out_the_cce_as_in_memory(weightless):
    y = np.full(60, 2.0)
    in_memory = fm.evaluate(y, fm.Gaussian(weightless.mean, 1.0), weightless.x, test=False)
    blocked = fm.evaluate(
        da.from_array(y, chunks=(SIZES,)), fm.Gaussian(weightless.blocks("mean"), 1.0),
        weightless.blocks("x"),
    )  # fmt: skip
    assert "give the output kernel no scale" in in_memory.skipped["mean_cce"]
    assert blocked.skipped["mean_cce"] == in_memory.skipped["mean_cce"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nan_policy": "skip"}, "nan_policy is 'skip'"),
        ({"tol": 0}, "tol is 0"),
        ({"encoder": 3}, "encoder is 3; a callable"),
        ({"checkpoint": 3}, "checkpoint is 3; the path"),
    ],
)
def test_wrong_options_are_named(weightless, options, text):
    prediction = fm.Gaussian(weightless.blocks("mean"), 1.0)
    with pytest.raises((TypeError, ValueError), match=text):
        fm.evaluate(weightless.blocks("y"), prediction, weightless.blocks("x"), **options)


def test_a_checkpoint_of_rows_in_memory_is_refused(weightless):
    with pytest.raises(ValueError, match="checkpoint is given"):
        fm.compare({"a": fm.Gaussian(weightless.mean, 1.0)}, weightless.y, checkpoint="run.ckpt")


def test_negative_weights_of_a_whole_block_are_refused(weightless):
    weights = np.ones(60)
    weights[MIDDLE] = -1.0
    with pytest.raises(ValueError, match="weights has negative values"):
        fm.cce(
            weightless.blocks("x"), weightless.blocks("y"), fm.Gaussian(weightless.blocks("mean"), 1.0),
            weights=da.from_array(weights, chunks=(SIZES,)),
        )  # fmt: skip


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_intervals_of_squares_beyond_float64_are_left_out(unit):
    data = make_data(SIZES)
    blocked = fm.evaluate(
        unit * data.blocks("y"), fm.Gaussian(unit * data.blocks("mean"), unit), n_boot=30
    )
    by_name = {one.name: one for one in blocked.measured}
    assert by_name["rmse"].low is None
    assert by_name["rmse"].value > 0
    assert by_name["mae"].low < by_name["mae"].value < by_name["mae"].high
