"""Collections in blocks give the numbers of the same rows in memory, within the certificates."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import in_blocks
import numpy as np
import pytest
from cli_process import environment
from hypothesis import given, settings
from hypothesis import strategies as st
from in_blocks import Data, make_data, token_of

import fastmcmd as fm
from fastmcmd.distributed import BlockError, predicted
from fastmcmd.inference.comparison import holm

da = pytest.importorskip("dask.array", reason="Dask is not installed")

SKETCHED = {"median_absolute_error": 2e-3, "ence": 5e-3, "uce": 5e-3, "auroc": 5e-3}
SKETCHED["null_ence"] = 0.15  # simulated, if predictions are not Gaussian
KERNELS = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.7), "lam": 0.02}


def same_numbers(blocked, in_memory):
    """Every number is that of the rows in memory: sums to rounding, sketches to their accuracy."""
    assert set(in_memory.keys()) <= set(blocked.keys())
    for name in set(in_memory.keys()) & set(blocked.keys()):
        if name not in ("mean_cce", "max_cce"):
            assert blocked[name] == pytest.approx(
                in_memory[name], rel=SKETCHED.get(name, 1e-9), abs=1e-9
            ), name


def test_cce_is_within_both_bounds(data):
    in_memory = fm.cce(data.x, data.y, fm.Gaussian(data.mean, 0.5), weights=data.weights)
    blocked = fm.cce(
        data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5),
        weights=data.blocks("weights"), rank=200,
    )  # fmt: skip
    values, bounds = blocked.values.compute(), blocked.error_bounds.compute()
    assert (np.abs(values - in_memory.values) <= bounds + in_memory.error_bounds).all()
    assert abs(blocked.mean - in_memory.mean) <= blocked.mean_error_bound + in_memory.error_bound
    assert blocked.mean_error_bound < 0.05 * in_memory.mean
    assert len(blocked) == len(data.y)
    assert blocked.estimate.value == pytest.approx(
        np.sqrt(np.average(values**2, weights=data.weights)), rel=1e-9
    )
    assert blocked.null_mean.compute() == pytest.approx(in_memory.null_mean, rel=0.2)
    assert "landmarks" in blocked.info.notes[-1]
    assert "kernels" not in " ".join(blocked.info.notes)  # all rows were in the sample


def test_cce_at_points_in_memory_and_in_blocks(data):
    arguments = data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5)
    grid = np.random.default_rng(1).normal(size=(30, 2))
    at_grid = fm.cce(*arguments, at=grid, **KERNELS)
    at_blocks = fm.cce(*arguments, at=da.from_array(grid, chunks=(11, 1)), **KERNELS)
    # Products of 11 and of 30 rows may round differently.
    np.testing.assert_allclose(at_grid.values, at_blocks.values.compute(), rtol=1e-12)
    assert at_grid.mean == pytest.approx(at_blocks.mean, rel=1e-12)
    in_memory = fm.cce(data.x, data.y, fm.Gaussian(data.mean, 0.5), at=grid, **KERNELS)
    assert (
        np.abs(at_grid.values - in_memory.values) <= at_grid.error_bounds + in_memory.error_bounds
    ).all()


def test_mcmd_is_within_both_bounds(data):
    other = make_data((100, 250), seed=1)
    in_memory = fm.mcmd(data.x, data.x, data.y, other.x, other.y + 0.3, weights=data.weights)
    blocked = fm.mcmd(
        data.blocks("x"), data.blocks("x"), data.blocks("y"), other.blocks("x"), other.blocks("y") + 0.3,
        weights=data.blocks("weights"),
    )  # fmt: skip
    bounds = blocked.error_bounds.compute() + in_memory.error_bounds
    gaps = np.abs(blocked.values.compute() - in_memory.values)
    assert (gaps <= bounds).all()
    assert gaps.max() < 0.01 * in_memory.mean


@pytest.mark.parametrize("weighted", [False, True])
def test_evaluate_of_numbers(data, weighted):
    weights = {"sample_weight": data.weights} if weighted else {}
    in_blocks = {"sample_weight": data.blocks("weights")} if weighted else {}
    in_memory = fm.evaluate(
        data.y, fm.Gaussian(data.mean, 0.5), data.x, by=data.groups, test=False, **weights
    )
    blocked = fm.evaluate(
        data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), data.blocks("x"),
        by=data.blocks("groups"), **in_blocks,
    )  # fmt: skip
    same_numbers(blocked, in_memory)
    assert abs(blocked["mean_cce"] - in_memory["mean_cce"]) <= (
        blocked.cce.mean_error_bound + in_memory.cce.error_bound
    )
    assert list(blocked.by) == ["early", "late"]
    for label, (rows, numbers) in in_memory.by.items():
        assert blocked.by[label][0] == rows
        by_name = {one.name: one.value for one in numbers}
        for one in blocked.by[label][1]:
            assert one.value == pytest.approx(by_name[one.name], rel=SKETCHED.get(one.name, 1e-9))
    for name in ("crps", "pit", "log_score"):
        assert np.array_equal(blocked.rows[name].compute(), in_memory.rows[name])
    curve = blocked.curves["reliability"]
    assert curve.observed == pytest.approx(in_memory.curves["reliability"].observed, abs=1e-12)
    assert f"{len(data.y):,} rows" in str(blocked)


def test_evaluate_of_classes_of_which_one_appears_late():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 300)
    names = np.array(["ant", "bee", "cow"])
    y = names[[rng.choice(3, p=row) for row in p]]
    y[:200][y[:200] == "cow"] = "ant"
    in_memory = fm.evaluate(y, fm.Categorical(p, classes=list(names)), p[:, :1], test=False)
    blocked = fm.evaluate(
        da.from_array(y, chunks=70), fm.Categorical(da.from_array(p, chunks=(70, 2)), classes=list(names)),
        da.from_array(p[:, :1], chunks=70),
    )  # fmt: skip
    same_numbers(blocked, in_memory)
    assert blocked["mean_cce"] == pytest.approx(
        in_memory["mean_cce"], abs=blocked.cce.mean_error_bound
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_values_of_a_right_model_stand_beside_calibration_errors(data, weighted):
    weights = {"sample_weight": data.weights} if weighted else {}
    in_blocks = {"sample_weight": data.blocks("weights")} if weighted else {}
    in_memory = fm.evaluate(data.y, fm.Gaussian(data.mean, 0.5), **weights)
    blocked = fm.evaluate(data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), **in_blocks)
    nulls = {one.name: one.null for one in in_memory.measured if one.null is not None}
    assert len(nulls) == 6
    for one in blocked.measured:
        assert (one.null is None) == (one.name not in nulls)
        if one.null is not None:
            assert one.null == pytest.approx(nulls[one.name], rel=SKETCHED.get(one.name, 1e-9))
    assert blocked["null_ence"] == pytest.approx(in_memory["null_ence"], rel=5e-3)


def test_spread_errors_of_a_right_model_that_is_not_gaussian():
    """Each block simulates outcomes: their mean is that of many right data sets."""
    from fastmcmd.distributed.measures import SimulatedSpread
    from fastmcmd.evaluation.context import Context, Settings
    from fastmcmd.evaluation.nulls import null_expectations
    from fastmcmd.evaluation.outcomes import read_rows

    rng = np.random.default_rng(0)
    mean, scale = rng.normal(size=300), np.exp(0.5 * rng.normal(size=300))
    right = [mean + rng.laplace(size=300) * scale for _ in range(100)]
    chunks = 120
    blocks = fm.Laplace(da.from_array(mean, chunks=chunks), da.from_array(scale, chunks=chunks))
    ence = np.mean([fm.ence(y, fm.Laplace(mean, scale)) for y in right])
    uce = np.mean([fm.metrics.uce(y, fm.Laplace(mean, scale), binning="mass") for y in right])
    blocked = fm.evaluate(da.from_array(right[0], chunks=chunks), blocks)
    nulls = {one.name: one.null for one in blocked.measured}
    assert nulls["ence"] == blocked["null_ence"] == pytest.approx(ence, rel=0.15)
    assert nulls["uce"] == pytest.approx(uce, rel=0.15)
    for weights in (None, rng.uniform(0.1, 2, 300)):
        for binning in ("mass", "width"):
            rows = read_rows(right[0], fm.Laplace(mean, scale), weights, "raise", None)
            context = Context(rows, Settings(binning=binning))
            expected = null_expectations(context, ["ence", "uce"])  # of the same simulated outcomes
            sums = SimulatedSpread.of(context).expectations(context.settings)
            assert sums == pytest.approx(expected, rel=0.01)


def poisson_oracle(seed, sizes, n_boot):
    """Return the counts (n_boot, n) that blocks draw, in the order of the rows."""
    from fastmcmd._base.seeds import Purpose, generator
    from fastmcmd.distributed.rows import block_seed

    counts = []
    for number, size in enumerate(sizes):
        rng = generator(block_seed(np.random.SeedSequence(seed), number), Purpose.BOOTSTRAP)
        counts.append(rng.poisson(1.0, (n_boot, size)))
    return np.concatenate(counts, axis=1)


@pytest.mark.parametrize("weighted", [False, True])
def test_bootstrap_samples_are_the_numbers_of_rows_counted_again(data, weighted):
    """Each sample of the blocks equals `evaluate` with the counts of its rows as weights."""
    from fastmcmd.evaluation.bootstrap import Means
    from fastmcmd.evaluation.context import Context, Settings
    from fastmcmd.evaluation.measures import ALL_MEASURES
    from fastmcmd.evaluation.outcomes import read_rows

    data.y += 1e6  # a large mean must not cost the digits of squares
    data.mean += 1e6
    weights = data.weights if weighted else None
    blocked = fm.evaluate(
        data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), n_boot=20, random_state=3,
        sample_weight=data.blocks("weights") if weighted else None,
    )  # fmt: skip
    replicates, n = blocked.replicates, len(data.y)
    counts = poisson_oracle(3, data.sizes, 20).astype(float)
    settings = Settings(random_state=3)
    rows = read_rows(data.y, fm.Gaussian(data.mean, 0.5), weights, "raise", None)
    context = Context(rows, settings)
    means = Means(context, list(replicates.errors))
    assert set(means.names) == set(replicates.errors)
    values, errors = means.samples(counts)
    for place, name in enumerate(means.names):
        assert replicates.values[name] == pytest.approx(values[:, place], rel=1e-7), name
        error = means.over_all_rows()[1][place]
        assert replicates.errors[name][0] == pytest.approx(error, rel=1e-4, abs=1e-7)
        assert replicates.errors[name][1] == pytest.approx(errors[:, place], rel=1e-4, abs=1e-7)
    computes = {one.name: one.compute for one in ALL_MEASURES}
    again = context.reweighted(counts[7] * (1 if weights is None else weights))
    for name in ("regression_ece", "miscalibration_area", "rms_calibration_error"):
        assert replicates.values[name][7] == pytest.approx(computes[name](again), rel=1e-9)
        assert (
            replicates.distances[name] >= abs(replicates.values[name] - blocked[name]) - 1e-12
        ).all()
    effective = n if weights is None else weights.sum() ** 2 / (weights @ weights)
    assert replicates.effective == pytest.approx(effective)
    for one in blocked.measured:
        if one.low is not None:
            assert one.low <= one.value * (1 + 1e-9)
            assert one.value * (1 - 1e-9) <= one.high
    without = {one.name for one in blocked.measured if one.low is None}
    assert without - {"mean_interval_width"} == {  # constant here, up to rounding
        "median_absolute_error", "ence", "null_ence", "uce", "variance_variation",
    }  # fmt: skip


@pytest.mark.slow
def test_intervals_of_blocks_hold_the_truth():
    """Run an excerpt of tests/simulations/interval_coverage.py --blocks with a fixed seed."""
    program = Path(__file__).parents[1] / "simulations" / "interval_coverage.py"
    names = runpy.run_path(str(program))
    truth = {"bias": 0.0, "coverage": 0.9, "rms_calibration_error": 0.0, "regression_ece": 0.0}
    numbers = [
        names["measured_in_blocks"](
            *names["SCENARIOS"]["Gaussian, right"](np.random.default_rng(run), 120), 40, run
        )
        for run in range(20)
    ]
    for name, value in truth.items():
        intervals = [one for run in numbers for one in run if one.name == name]
        covered = sum(one.low <= value <= one.high for one in intervals)
        assert covered >= 15  # of 20 at 95 %: fewer in one of 3,000 simulations


def test_intervals_of_classes_and_bootstrap_tests_of_compared_models(data):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 300)
    names = ["ant", "bee", "cow"]
    y = np.array(names)[[rng.choice(3, p=row) for row in p]]
    in_memory = fm.evaluate(y, fm.Categorical(p, classes=names), n_boot=100)
    blocks = fm.Categorical(da.from_array(p, chunks=(70, 3)), classes=names)
    blocked = fm.evaluate(da.from_array(y, chunks=70), blocks, n_boot=100)
    ends = {one.name: (one.low, one.high) for one in in_memory.measured}
    for one in blocked.measured:
        if one.name != "auroc":  # other samples of the same rows
            width = ends[one.name][1] - ends[one.name][0]
            assert (one.low, one.high) == pytest.approx(ends[one.name], abs=0.4 * width), one.name
    mean = data.blocks("mean")
    models = {"one": fm.Gaussian(mean, 0.5), "two": fm.Gaussian(mean, 2.0)}
    compared = fm.compare(models, data.blocks("y"), n_boot=100)
    (pair,) = compared.pairs.of("rms_calibration_error")
    assert pair.p_value == pytest.approx(1 / 101)
    assert compared.starred("rms_calibration_error") == {0}


def test_added_measures_and_ignored_labels():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 300)
    y = np.array(["ant", "bee", "cow"])[[rng.choice(3, p=row) for row in p]].astype(object)
    y[::7] = "void"
    y[70:140] = "void"  # a block
    x, names = p[:, :1], ["ant", "bee", "cow"]
    options = {"ignore_index": "void", "measures": ["linearized_log_score"]}
    in_memory = fm.evaluate(y, fm.Categorical(p, classes=names), x, test=False, **options)
    blocks = fm.Categorical(da.from_array(p, chunks=(70, 3)), classes=names)
    blocked = fm.evaluate(
        da.from_array(y, chunks=70), blocks, da.from_array(x, chunks=70), **options
    )
    same_numbers(blocked, in_memory)
    assert blocked.notes == in_memory.notes
    assert abs(blocked["mean_cce"] - in_memory["mean_cce"]) <= (
        blocked.cce.mean_error_bound + in_memory.cce.error_bound
    )
    nulls = {one.name: one.null for one in in_memory.measured if one.null is not None}
    for one in blocked.measured:
        if one.name in ("ece", "classwise_ece"):  # of other simulated outcomes
            assert one.null == pytest.approx(nulls[one.name], rel=0.15)
    assert np.array_equal(np.isnan(blocked.rows["cce"].compute()), y == "void")
    with pytest.raises(ValueError, match="all 300 labels are 'void'"):
        fm.evaluate(da.from_array(np.full(300, "void"), chunks=70), blocks, ignore_index="void")
    numbers = fm.evaluate(
        da.zeros(9, chunks=4), fm.Gaussian(da.zeros(9, chunks=4), 1.0), measures=["quadratic_score"]
    )
    # -2 f(0) + the integral of f^2
    expected = 1 / (2 * np.sqrt(np.pi)) - 2 / np.sqrt(2 * np.pi)
    assert numbers["quadratic_score"] == pytest.approx(expected)


def test_nan_that_propagates_reaches_the_groups_that_hold_it(data):
    """Groups with a row of NaN had numbers, although the values of all rows were NaN."""
    y = data.y.copy()
    y[3] = np.nan  # of "early"
    y[200] = np.nan  # all of a block
    data.y = y
    options = {"nan_policy": "propagate"}
    blocked = fm.evaluate(
        data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), by=data.blocks("groups"), **options
    )
    in_memory = fm.evaluate(y, fm.Gaussian(data.mean, 0.5), by=data.groups, **options)
    for label in ("early", "late"):
        by_name = {one.name: one.value for one in in_memory.by[label][1]}
        for one in blocked.by[label][1]:
            expected = pytest.approx(
                by_name[one.name], rel=SKETCHED.get(one.name, 1e-9), nan_ok=True
            )
            assert one.value == expected, (label, one.name)


def test_a_block_without_weight_holds_no_nan(data):
    """With ``nan_policy="propagate"``, a block of rows without weight made every number NaN."""
    data.weights[201:534] = 0.0
    blocked = fm.evaluate(
        data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), nan_policy="propagate",
        sample_weight=data.blocks("weights"),
    )  # fmt: skip
    in_memory = fm.evaluate(data.y, fm.Gaussian(data.mean, 0.5), sample_weight=data.weights)
    same_numbers(blocked, in_memory)
    assert not blocked.notes


def test_nan_that_propagates_leaves_no_differences_of_models(data):
    data.y[3] = np.nan
    mean = data.blocks("mean")
    models = {"one": fm.Gaussian(mean, 0.5), "two": fm.Gaussian(mean, 0.6)}
    arguments = models, data.blocks("y"), data.blocks("x")
    compared = fm.compare(*arguments, nan_policy="propagate", **KERNELS)
    assert all(np.isnan([one.difference, one.low, one.p_value]).all() for one in compared.pairs)
    compared = fm.compare(*arguments, nan_policy="omit", **KERNELS)
    (pair,) = compared.pairs.of("mean_cce")
    valid = np.isfinite(data.y)
    in_memory = fm.compare(
        {"one": fm.Gaussian(data.mean[valid], 0.5), "two": fm.Gaussian(data.mean[valid], 0.6)},
        data.y[valid], data.x[valid], test=False, **KERNELS,
    )  # fmt: skip
    assert pair.p_value == pytest.approx(in_memory.pairs.of("mean_cce")[0].p_value, rel=1e-4)


def test_groups_need_labels(data):
    labels = data.groups.astype(object)
    labels[210] = None
    with pytest.raises(BlockError, match=r"block 3 .*by has no label in row 9 \(None\)"):
        fm.evaluate(
            data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5),
            by=da.from_array(labels, chunks=(data.sizes,)),
        )  # fmt: skip


def test_a_test_of_other_rows_than_those_evaluated_is_refused(data):
    arguments = data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5)
    with pytest.raises(ValueError, match="test=True with ignore_index is not available"):
        fm.evaluate(*arguments, data.blocks("x"), ignore_index=0, test=True)
    with pytest.raises(ValueError, match="test is True, and there are no inputs"):
        fm.evaluate(*arguments, test=True)


@pytest.mark.slow
def test_the_exact_test_takes_weights(data):
    """An error about truth values was raised; `evaluate` tested the rows without weights."""
    data.weights[data.x[:, 0] > 0] = 0.0
    x, y, weights = data.blocks("x"), data.blocks("y"), data.blocks("weights")
    prediction = fm.Gaussian(data.blocks("mean"), 0.5)
    half = data.x[:, 0] <= 0
    test = fm.congruence_test(x, y, prediction, weights=weights, simulations=39, **KERNELS)
    evaluation = fm.evaluate(y, prediction, x, sample_weight=weights, test=True)
    assert evaluation.test.simulated.shape == (200,)
    # Its CCE equals the accumulator's over the rows with weight.
    sums = fm.streaming.CCE(KERNELS["x_kernel"], KERNELS["y_kernel"], data.x[half][:200], 0.02)
    sums.update(data.x[half], data.y[half], fm.Gaussian(data.mean[half], 0.5), data.weights[half])
    assert np.sqrt(test.simulated[0]) == pytest.approx(sums.compute().value, rel=1e-3)


def test_predictions_that_are_tuples_or_in_memory(data):
    """(mean, std) raised an error; an array as long as a block was used for every block."""
    y, mean = data.blocks("y"), data.blocks("mean")
    in_memory = fm.evaluate(data.y, fm.Gaussian(data.mean, 0.5))["crps"]
    std = np.full(len(data.y), 0.5)
    predictions = [
        (mean, 0.5), (mean, std), (data.mean, 0.5), fm.Gaussian(mean, std), fm.Laplace(mean, 0.5),
        data.mean[:, None] + np.array([[-0.3, 0.0, 0.4]]),
    ]  # fmt: skip
    for prediction in predictions[:4]:
        assert fm.evaluate(y, prediction)["crps"] == pytest.approx(in_memory, rel=1e-12)
    draws = predictions[-1]
    assert fm.evaluate(y, draws)["crps"] == pytest.approx(fm.evaluate(data.y, draws)["crps"])
    both = fm.compare({"a": (mean, 0.5), "b": predictions[-2]}, y)
    assert both["a"]["crps"] == pytest.approx(in_memory, rel=1e-12)
    equal = da.from_array(data.y, chunks=200)
    for wrong in (data.mean[:200], (data.mean[:200], 0.5), fm.Gaussian(equal, np.ones(200))):
        with pytest.raises(ValueError, match=r"200 rows|has 200"):
            fm.evaluate(equal, wrong)
    with pytest.raises(ValueError, match=r"prediction is in memory \(Gaussian\) and y is a Dask"):
        fm.evaluate(y, fm.Gaussian(data.mean, 0.5))


@pytest.mark.slow
def test_evaluate_of_vectors(data):
    y = np.stack([data.y, data.x[:, 1]], axis=1)
    draws = y[:, None, :] + np.random.default_rng(3).normal(size=(len(y), 5, 2))
    in_memory = fm.evaluate(y, draws, data.x, test=False)
    blocked = fm.evaluate(
        da.from_array(y, chunks=(111, 1)), da.from_array(draws, chunks=(97, 2, 1)), data.blocks("x")
    )
    same_numbers(blocked, in_memory)
    assert abs(blocked["mean_cce"] - in_memory["mean_cce"]) <= (
        blocked.cce.mean_error_bound + in_memory.cce.error_bound
    )


def test_evaluate_leaves_rows_with_nan_out(data):
    y = data.y.copy()
    y[[3, 150, 210]] = np.nan
    y[200:201] = np.nan  # all rows of a block
    data.y = y
    data.x = data.x.copy()
    data.x[55, 0] = np.nan
    in_memory = fm.evaluate(y, fm.Gaussian(data.mean, 0.5), data.x, nan_policy="omit", test=False)
    arguments = data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), data.blocks("x")
    blocked = fm.evaluate(*arguments, nan_policy="omit")
    same_numbers(blocked, in_memory)
    assert "5 of 600 rows hold NaN" in blocked.notes[0]
    crps = blocked.rows["crps"].compute()
    assert np.array_equal(np.isnan(crps), np.isnan(y) | np.isnan(data.x[:, 0]))
    with pytest.raises(BlockError, match=r"block 0 \(of 5, counted from 0\).*NaN"):
        fm.evaluate(*arguments)
    spread = fm.evaluate(*arguments[:2], nan_policy="propagate")
    assert np.isnan(spread["crps"])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_compare_has_the_intervals_of_rows_in_memory(data, weighted):
    """The intervals agree too: those of the mean squared CCE, and the model confidence set."""
    data.weights[[3, 250]] = 0.0
    draws = data.mean[:, None] + 0.5 * np.random.default_rng(5).normal(size=(len(data.y), 5))
    models = {"one": fm.Gaussian(data.mean, 0.5), "two": fm.Gaussian(data.mean - 0.2, 0.5)}
    models["draws"] = fm.Draws(draws)
    mean = data.blocks("mean")
    in_blocks = {"one": fm.Gaussian(mean, 0.5), "two": fm.Gaussian(mean - 0.2, 0.5)}
    in_blocks["draws"] = da.from_array(draws, chunks=(data.sizes, 5))
    blocked = fm.compare(
        in_blocks, data.blocks("y"), data.blocks("x"), **KERNELS,
        **({"sample_weight": data.blocks("weights")} if weighted else {}),
    )  # fmt: skip
    in_memory = fm.compare(
        models, data.y, data.x, test=False, **KERNELS,
        **({"sample_weight": data.weights} if weighted else {}),
    )  # fmt: skip
    for measure in ("nll", "mean_crps", "mae", "marpd", "rmse", "r2", "mean_cce"):
        ours, theirs = blocked.pairs.of(measure), in_memory.pairs.of(measure)
        assert len(ours) == len(theirs) == (1 if measure == "nll" else 3)
        for one, other in zip(ours, theirs, strict=True):
            assert (one.first, one.second) == (other.first, other.second)
            by_draws = measure == "mean_cce" and "draws" in (one.first, one.second)
            squares = measure in ("rmse", "r2")  # have no interval
            for name in ("difference", "p_value", *(() if squares else ("low", "high"))):
                rel = 1e-4 if measure == "mean_cce" else 1e-7
                if by_draws and name != "difference":  # the variance of draws is simulated
                    rel = 0.5
                assert getattr(one, name) == pytest.approx(
                    getattr(other, name), rel=rel, abs=2e-3 if by_draws else 1e-12
                ), (measure, name)
        adjusted = holm(np.array([one.p_value for one in ours]))
        assert [one.p_adjusted for one in ours] == adjusted.tolist()
    for measure in ("mean_crps", "mean_cce", "mae", "rmse"):
        assert blocked.confidence_set(measure) == in_memory.confidence_set(measure)
    assert blocked.confidence_set() == blocked.confidence_set("mean_crps")
    with pytest.raises(ValueError, match="pearson has no model confidence set for Dask"):
        blocked.confidence_set("pearson")
    assert blocked.sentence.split(":")[0] == in_memory.sentence.split(":")[0]
    assert "CCE squared, mean" in blocked.differences()
    for name in models:
        same_numbers(blocked[name], in_memory[name])


def test_differences_of_the_cce_are_within_the_certificates():
    """With few landmarks, the difference of the mean squares is off by at most their bounds."""
    data = make_data((150, 100))
    mean = data.blocks("mean")
    blocked = fm.compare(
        {"one": fm.Gaussian(mean, 0.5), "two": fm.Gaussian(mean - 0.8, 0.5)}, data.blocks("y"),
        data.blocks("x"), x_kernel=fm.RBF(2.0), y_kernel=fm.RBF(0.7), lam=0.05,
    )  # fmt: skip
    squares, errors = [], []
    for name, shift in (("one", 0.0), ("two", 0.8)):
        exact = fm.cce(
            data.x, data.y, fm.Gaussian(data.mean - shift, 0.5), x_kernel=fm.RBF(2.0),
            y_kernel=fm.RBF(0.7), lam=0.05,
        )  # fmt: skip
        squares.append(np.mean(exact.values**2))
        estimate = blocked[name].cce.estimate
        bound = estimate.error_bound + exact.error_bound
        errors.append(bound * (2 * estimate.value + bound))
    (pair,) = blocked.pairs.of("mean_cce")
    gap = abs(pair.difference - (squares[0] - squares[1]))
    assert 1e-7 < gap <= sum(errors)
    assert sum(errors) < 0.3 * abs(pair.difference)


def test_compared_models_of_classes_and_of_frames_of_unknown_sizes():
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 400)
    names = ["ant", "bee", "cow"]
    frame = pandas.DataFrame(p, columns=names)
    frame["y"] = [names[rng.choice(3, p=row)] for row in p]
    flat = np.full_like(p, 1 / 3)
    table = dataframe.from_map(
        lambda part: part,
        [frame.iloc[:1], frame.iloc[1:250], frame.iloc[250:]],
        meta=frame.iloc[:0],
    )

    def right(part):
        return fm.Categorical(part.to_numpy(), classes=list(part.columns))

    def level(part):
        return fm.Categorical(np.full(part.shape, 1 / 3), classes=list(part.columns))

    models = {"right": predicted(right, table[names]), "level": predicted(level, table[names])}
    blocked = fm.compare(models, table["y"], table[["ant", "bee"]], lam=0.01)
    in_memory = fm.compare(
        {"right": fm.Categorical(p, classes=names), "level": fm.Categorical(flat, classes=names)},
        frame["y"], frame[["ant", "bee"]].to_numpy(), test=False, lam=0.01,
    )  # fmt: skip
    (ours,), (theirs,) = (one.pairs.of("mean_cce") for one in (blocked, in_memory))
    assert ours.p_value == pytest.approx(theirs.p_value, rel=0.1)
    assert ours.difference == pytest.approx(theirs.difference, rel=0.02)
    assert blocked.confidence_set("mean_cce") == in_memory.confidence_set("mean_cce")


@pytest.mark.parametrize(("rows", "sizes"), [(2_500, (1_000, 1_500)), (2_500, None), (7, (3, 4))])
def test_pieces_hold_every_row_once_and_are_about_a_thousand(rows, sizes):
    from fastmcmd.distributed.losses import Pieces, PieceSums

    losses = np.random.default_rng(0).normal(size=(rows, 2))
    parts = np.split(losses, [3 if sizes is None else sizes[0]])
    pieces = Pieces(max(1, -(-rows // 1_000)), 0) if sizes else Pieces(0, 500)
    sums = [PieceSums.of(part, pieces, number) for number, part in enumerate(parts)]
    total = sums[1] + sums[0]  # in the order of the blocks, whichever came first
    assert np.array_equal(np.unique(total.blocks), [0, 1])
    assert (np.diff(total.blocks) >= 0).all()
    np.testing.assert_allclose(total.sums.sum(axis=0), losses.sum(axis=0), rtol=1e-12)
    if rows == 7:
        assert np.array_equal(total.sums, losses)
    else:
        assert 400 <= len(total.sums) <= 1_000
    assert len(PieceSums.of(losses[:0], pieces, 0).sums) == 0


def test_differences_of_pieces_are_about_their_mean():
    """Pieces differ in length and weight; only what lies above the common mean counts."""
    from fastmcmd.distributed.losses import Pieces, PieceSums

    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, 13).astype(float)
    weights[4:8] = 0.0  # a piece of its own
    losses = rng.normal(size=(13, 2))
    pieces = PieceSums.of(weights[:, None] * losses, Pieces(4, 0), 0, weights)
    assert pieces.weights.tolist() == [weights[a : a + 4].sum() for a in (0, 4, 8, 12)]
    d = losses[:, 0] - losses[:, 1]
    deviation = weights * (d - np.average(d, weights=weights))
    expected = [deviation[a : a + 4].sum() for a in (0, 8, 12)]
    np.testing.assert_allclose(pieces.centred(0, 1), expected, rtol=1e-12)


def test_heavy_tails_in_blocks_have_no_interval_of_the_log_score():
    rng = np.random.default_rng(4)
    mean = rng.normal(size=1_500)  # pieces of two rows
    y, chunks = mean + rng.standard_t(3, 1_500), (700, 500, 300)
    draws = mean[:, None] + rng.normal(size=(1_500, 4))
    blocks = [da.from_array(one, chunks=chunks) for one in (mean, y)]
    of_rows, of_blocks = (
        {
            "a": fm.Gaussian(at, 1.7), "b": fm.Gaussian(at + 0.7, 1.2),
            "d": fm.Draws(draws if at is mean else da.from_array(draws, chunks=(chunks, 4))),
            "c": fm.Gaussian(at + 0.0, 1.7),
        }
        for at in (mean, blocks[0])
    )  # fmt: skip
    in_memory = fm.compare(of_rows, y).pairs.of("nll")
    blocked = fm.compare(of_blocks, blocks[1])
    pairs = blocked.pairs.of("nll")
    assert [one.reason for one in pairs] == [one.reason for one in in_memory]
    assert [one.reason for one in pairs] == [
        "a few rows decide its mean",
        "",
        "a few rows decide its mean",
    ]
    for one, other in zip(pairs, in_memory, strict=True):
        assert one.error == pytest.approx(other.error, rel=1e-9)
        assert one.p_value == pytest.approx(other.p_value, nan_ok=True)
    assert pairs[1].p_value == 1.0  # the same predictions
    assert "a few rows decide its mean; compare the CRPS" in blocked.differences()
    with pytest.raises(ValueError, match="nll has no model confidence set for Dask"):
        blocked.confidence_set("nll")  # draws have no density
    del of_blocks["d"]
    with pytest.raises(ValueError, match="nll has no model confidence set: a few rows decide its"):
        fm.compare(of_blocks, blocks[1]).confidence_set("nll")


@pytest.mark.slow
def test_plots_and_pages_show_the_curves_of_blocks(data, tmp_path):
    pytest.importorskip("matplotlib")
    mean = data.blocks("mean")
    models = {"one": fm.Gaussian(mean, 0.5), "two": fm.Gaussian(mean - 0.2, 0.6)}
    blocked = fm.compare(models, data.blocks("y"), data.blocks("x"), **KERNELS)
    reliability, spread, pit = blocked["one"].plot().axes
    assert spread.get_title() == "Errors and predicted spread"
    assert pit.get_title() == "Probability integral transform"
    theirs = fm.plots.reliability(
        fm.evaluate(data.y, fm.Gaussian(data.mean, 0.5)).curves["reliability"]
    )
    for line, other in zip(reliability.lines, theirs.lines, strict=True):
        np.testing.assert_allclose(line.get_xydata(), other.get_xydata(), rtol=1e-9, atol=1e-12)
    page = blocked.report(tmp_path / "both.html").read_text()
    assert "evaluated on 600 outcomes" in page
    assert blocked.sentence.split("(")[0] in page
    assert page.count("<svg") == 4  # a histogram of PIT for each model
    assert "Best and worst points" not in page
    draws = np.zeros((600, 4, 2))
    vectors = fm.evaluate(
        da.from_array(data.x, chunks=(100, 2)), da.from_array(draws, chunks=(100, 4, 2))
    )
    with pytest.raises(ValueError, match="outputs are vectors and rows are not in memory"):
        vectors.plot()


def test_curves_of_classes_are_those_of_rows_in_memory():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 300)
    names = ["ant", "bee", "cow"]
    y = np.array(names)[[rng.choice(3, p=row) for row in p]]
    in_memory = fm.evaluate(y, fm.Categorical(p, classes=names)).curves["reliability_of_classes"]
    blocks = fm.Categorical(da.from_array(p, chunks=(70, 2)), classes=names)
    curve = fm.evaluate(da.from_array(y, chunks=70), blocks).curves["reliability_of_classes"]
    for name in ("edges", "count", "weight", "confidence", "accuracy"):
        np.testing.assert_allclose(getattr(curve, name), getattr(in_memory, name), rtol=1e-12)


def test_sums_of_a_comparison_are_saved_and_read(tmp_path, monkeypatch):
    """A checkpoint of `compare` resumes with its losses and differences."""
    from fastmcmd.distributed import running
    from fastmcmd.distributed.saving import BlockCheckpoint

    monkeypatch.setattr(running, "GROUP", 1)
    monkeypatch.setattr(BlockCheckpoint, "every", 0.0)
    data, original, calls = make_data((60, 40, 30)), running.block_sums, []
    draws = data.mean[:, None] + np.random.default_rng(5).normal(size=(130, 5))
    models = {"one": fm.Gaussian(data.blocks("mean"), 0.5)}
    models["draws"] = da.from_array(draws, chunks=(data.sizes, 5))

    def compare(**options):
        return fm.compare(models, data.blocks("y"), data.blocks("x"), **KERNELS, **options)

    def ends(*arguments):
        calls.append(arguments[0].name)
        if calls.count("values") == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(running, "block_sums", ends)
        with pytest.raises(KeyboardInterrupt):
            compare(checkpoint=tmp_path / "run.ckpt")
    resumed, straight = compare(checkpoint=tmp_path / "run.ckpt"), compare()
    assert str(resumed) == str(straight)
    for measure in ("mean_crps", "mean_cce"):
        assert resumed.confidence_set(measure) == straight.confidence_set(measure)


def test_exact_test_of_classes_speaks_of_classes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 1))
    right = 1 / (1 + np.exp(-3 * x))
    y = (rng.random(600) < right[:, 0]).astype(float)
    blocks = da.from_array(x, chunks=(200, 1)), da.from_array(y, chunks=200)
    unsure = 0.5 + np.array([-0.15, 0.15]) * (right - 0.5)
    unsure = fm.Categorical(da.from_array(unsure, chunks=(200, 2)))
    assert "of the classes" in fm.congruence_test(*blocks, unsure, simulations=39).sentence
    normal = fm.Gaussian(da.zeros(600, chunks=200), 3.0)
    assert "classes" not in fm.congruence_test(*blocks, normal, simulations=39).sentence


@pytest.mark.slow
def test_exact_test_is_that_of_the_accumulator_and_holds_its_level():
    """The test rejects a right model as often as the level says, and a wrong one nearly always."""
    rejected = accepted = 0
    for seed in range(40):
        data = make_data((60, 40), seed)
        right = np.sin(data.x[:, 0])
        x, y = data.blocks("x"), data.blocks("y")
        data.mean = right
        weights = data.blocks("weights") if seed % 2 else None
        test = fm.congruence_test(
            x,
            y,
            fm.Gaussian(data.blocks("mean"), 0.5),
            simulations=19,
            random_state=seed,
            weights=weights,
        )
        rejected += test.p_value <= 0.1
        if seed < 10:
            shifted = fm.Gaussian(data.blocks("mean") + 0.4, 0.5)
            test = fm.congruence_test(x, y, shifted, simulations=19, random_state=seed)
            accepted += test.p_value > 0.1
    assert rejected <= 10  # of 40 at level 0.1: more than 10 in one of 100 simulations
    assert accepted <= 1


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 150), max_size=8),
    other_cuts=st.lists(st.integers(0, 150), max_size=8),
    seed=st.integers(0, 1000),
)
def test_any_split_gives_the_same_sums(cuts, other_cuts, seed):
    """Blocks of any sizes, also of 0 and 1 rows, give equal numbers at the same landmarks."""
    results = []
    for places in (cuts, other_cuts):
        ends = [0, *sorted(places), 150]
        data = make_data(tuple(np.diff(ends).tolist()), seed)
        results.append(
            fm.cce(
                data.blocks("x"),
                data.blocks("y"),
                fm.Gaussian(data.blocks("mean"), 0.5),
                landmarks=data.x[:20],
                certificate="rigorous",
                **KERNELS,
            )
        )
    one, two = results
    assert one.estimate.value == pytest.approx(two.estimate.value, rel=1e-9)
    assert one.estimate.excess == pytest.approx(two.estimate.excess, rel=1e-9, abs=1e-12)
    assert one.mean == pytest.approx(two.mean, rel=1e-9)
    sums = fm.streaming.CCE(KERNELS["x_kernel"], KERNELS["y_kernel"], data.x[:20], KERNELS["lam"])
    value = sums.update(data.x, data.y, fm.Gaussian(data.mean, 0.5)).compute().value
    assert one.estimate.value == pytest.approx(value, rel=1e-9)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(order=st.permutations(range(6)), seed=st.integers(0, 100))
def test_sums_of_blocks_add_in_any_order_and_grouping(order, seed):
    from fastmcmd.distributed.losses import Pieces
    from fastmcmd.distributed.parts import EvaluationJob
    from fastmcmd.distributed.rows import RowRules
    from fastmcmd.distributed.running import added
    from fastmcmd.evaluation.context import Settings

    data = make_data((10, 20, 5, 1, 30, 40), seed)
    ends = np.cumsum([0, *data.sizes])
    job = EvaluationJob(
        Settings(), RowRules(), np.random.SeedSequence(0), None, 100, (), Pieces(1, 0), 5
    )
    sums = []
    for number in range(6):
        rows = slice(ends[number], ends[number + 1])
        arguments = {
            "y": data.y[rows],
            "prediction": {
                "one": fm.Gaussian(data.mean[rows], 0.5),
                "two": fm.Gaussian(data.mean[rows], 1.0),
            },
            "by": data.groups[rows],
        }
        sums.append(job.sums(arguments, number))
    straight = added(sums)
    mixed = added([added([sums[i] for i in order[:2]]), added([sums[i] for i in order[2:]])])
    from fastmcmd.distributed.measures import concluded

    for name in straight.models:
        one, two = (
            concluded(p.models[name].sums, p.models[name].skipped, Settings(), True)[0]
            for p in (straight, mixed)
        )
        for a, b in zip(one, two, strict=True):
            assert a.value == pytest.approx(b.value, rel=1e-9, abs=1e-12)
    assert straight.models["one"].groups.keys() == mixed.models["one"].groups.keys()
    for measure, losses in straight.losses.items():
        assert np.array_equal(losses.sums, mixed.losses[measure].sums)
    for one, two in zip(straight.resampled, mixed.resampled, strict=True):
        first, second = one.replicates(()), two.replicates(())
        for name, values in first.values.items():
            assert second.values[name] == pytest.approx(values, rel=1e-9, abs=1e-12)
        for name, (error, errors) in first.errors.items():
            expected = pytest.approx([error, *errors], rel=1e-6, abs=1e-9)
            assert [second.errors[name][0], *second.errors[name][1]] == expected
        for name, distances in first.distances.items():
            assert second.distances[name] == pytest.approx(distances, rel=1e-9, abs=1e-12)


def test_frames_of_unequal_types_and_parts_without_rows(data):
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame({"a": data.x[:, 0], "b": data.x[:, 1], "y": data.y, "m": data.mean})
    parts = [frame.iloc[:100], frame.iloc[100:100], frame.iloc[100:101], frame.iloc[101:]]
    parts[2] = parts[2].astype(np.float32).astype(np.float64)
    frame.iloc[100] = parts[2].iloc[0]
    table = dataframe.from_map(lambda part: part, parts, meta=frame.iloc[:0])
    blocked = fm.evaluate(table["y"], fm.Gaussian(table["m"], 0.5), table[["a", "b"]])
    in_memory = fm.evaluate(
        frame["y"], fm.Gaussian(frame["m"], 0.5), frame[["a", "b"]].to_numpy(), test=False
    )
    same_numbers(blocked, in_memory)
    by_function = fm.evaluate(
        table["y"], predicted(lambda part: fm.Gaussian(part["m"], 0.5), table), table[["a", "b"]]
    )
    assert by_function["crps"] == blocked["crps"]
    integers = dataframe.from_map(
        lambda part: part, [frame[["y"]].iloc[:300].round().astype(int), frame[["y"]].iloc[300:]],
        meta=frame[["y"]].iloc[:0],
    )  # fmt: skip
    mixed = fm.evaluate(
        integers["y"], predicted(lambda y: fm.Gaussian(y * 0.5, 1.0), integers["y"])
    )
    y = np.concatenate([frame["y"].iloc[:300].round(), frame["y"].iloc[300:]])
    assert mixed["crps"] == pytest.approx(fm.evaluate(y, fm.Gaussian(y * 0.5, 1.0))["crps"])


def test_large_data_are_sampled_and_landmarks_proposed_by_blocks(monkeypatch):
    """A cluster of 2 % of the rows in one block gets landmarks, although the first sample is small."""
    from fastmcmd.distributed import setting

    data = make_data((500, 500, 500, 500))
    data.x[1990:] += 30.0
    monkeypatch.setattr(setting, "CANDIDATES", 100)
    blocked = fm.cce(
        data.blocks("x"),
        data.blocks("y"),
        fm.Gaussian(data.blocks("mean"), 0.5),
        rank=60,
        **KERNELS,
    )
    landmarks = blocked.accumulator._smoother.features.pivots
    assert (landmarks[:, 0] > 20).sum() >= 3
    assert "were chosen from 100 of 2,000 rows" in blocked.info.notes[0]
    in_memory = fm.cce(data.x, data.y, fm.Gaussian(data.mean, 0.5), **KERNELS)
    assert (
        np.abs(blocked.values.compute() - in_memory.values) <= blocked.error_bounds.compute()
    ).all()


@pytest.mark.slow
def test_measured_certificate_holds():
    """The bound of the root mean square exceeds the error in all 12 data sets, and is seldom loose."""
    ratios = []
    for seed in range(0, 36, 3):
        data = make_data((100, 200), seed)
        exact = fm.cce(data.x, data.y, fm.Gaussian(data.mean, 0.5), **KERNELS)
        blocked = fm.cce(
            data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5),
            rank=10 + seed, random_state=seed, **KERNELS,
        )  # fmt: skip
        gap = abs(blocked.estimate.value - np.sqrt(np.mean(exact.values**2)))
        assert gap <= blocked.estimate.error_bound + exact.error_bound
        rigorous = fm.cce(
            data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5),
            rank=10 + seed, random_state=seed, certificate="rigorous", **KERNELS,
        )  # fmt: skip
        ratios.append(rigorous.estimate.error_bound / blocked.estimate.error_bound)
    assert np.median(ratios) > 10


def test_values_by_row_are_written_block_by_block(data, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    blocked = fm.evaluate(
        data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), data.blocks("x"), **KERNELS
    )
    files = blocked.to_parquet(tmp_path / "rows")
    assert [name for name in files if name] == [f"part-{i:06d}.parquet" for i in (0, 1, 3, 4)]
    table = parquet.read_table(tmp_path / "rows")
    assert np.array_equal(table["crps"].to_numpy(), blocked.rows["crps"].compute())
    assert np.array_equal(table["cce"].to_numpy(), blocked.rows["cce"].compute())
    assert not any(blocked.to_parquet(tmp_path / "rows"))  # nothing is written again


def test_files_of_another_call_are_refused(data, tmp_path):
    """Rows of other predictions, settings or inputs must not remain as if this call had written them."""
    parquet = pytest.importorskip("pyarrow.parquet")

    def evaluated(std=0.5, **options):
        return fm.evaluate(data.blocks("y"), fm.Gaussian(data.blocks("mean"), std), **options)

    folder = tmp_path / "rows"
    evaluated().to_parquet(folder)
    crps = parquet.read_table(folder)["crps"].to_numpy()
    (folder / "part-000003.parquet").unlink()
    for other in (evaluated(std=0.7), evaluated(nan_policy="omit"), evaluated(x=data.blocks("x"))):
        with pytest.raises(
            ValueError, match=r"part-000000\.parquet holds rows of other predictions"
        ):
            other.to_parquet(folder)
    assert evaluated().to_parquet(folder).count("part-000003.parquet") == 1
    assert np.array_equal(parquet.read_table(folder)["crps"].to_numpy(), crps)
    y, prediction = data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5)
    values = [
        fm.cce(data.blocks("x"), y, prediction, **{**KERNELS, "lam": lam}) for lam in (0.02, 0.1)
    ]
    values[0].to_parquet(tmp_path / "cce")
    assert not any(values[0].to_parquet(tmp_path / "cce"))
    with pytest.raises(ValueError, match="holds rows of other predictions"):
        values[1].to_parquet(tmp_path / "cce")


@pytest.mark.slow
def test_frames_of_the_same_files_have_the_same_identity(tmp_path):
    """Names are stable across processes, where Dask uses others: checkpoints resume there."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    file = tmp_path / "0.parquet"
    pandas.DataFrame({"y": [1.0, 2.0], "m": [1.5, 2.5]}).to_parquet(file)
    before = token_of(tmp_path)
    code = f"from in_blocks import token_of; print(token_of({str(tmp_path)!r}))"
    paths = environment(Path(in_blocks.__file__).parent)
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=paths)
    assert other.stdout.strip() == before, other.stderr
    assert token_of(tmp_path, "y") != before
    pandas.DataFrame({"y": [1.0, 2.0, 4.0], "m": [1.5, 2.5, 3.5]}).to_parquet(file)
    assert token_of(tmp_path) != before


def test_delayed_objects_are_refused(data):
    from dask import delayed

    with pytest.raises(TypeError, match=r"y is a dask\.delayed object; .*from_delayed"):
        fm.evaluate(delayed(data.y), fm.Gaussian(data.blocks("mean"), 0.5))


def test_collections_from_zarr_and_parquet(data, tmp_path):
    """Workers read blocks where they sum them: chunks of Zarr arrays, files of a Parquet folder."""
    zarr = pytest.importorskip("zarr")
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    in_memory = fm.evaluate(data.y, fm.Gaussian(data.mean, 0.5), data.x, test=False, **KERNELS)
    for name in ("x", "y", "mean"):
        values = getattr(data, name)
        array = zarr.create_array(
            store=str(tmp_path / name), shape=values.shape, dtype=values.dtype,
            chunks=(130, *values.shape[1:]),
        )  # fmt: skip
        array[...] = values
    x, y, mean = (da.from_zarr(str(tmp_path / name)) for name in ("x", "y", "mean"))
    same_numbers(fm.evaluate(y, fm.Gaussian(mean, 0.5), x, **KERNELS), in_memory)
    frame = pandas.DataFrame({"a": data.x[:, 0], "b": data.x[:, 1], "y": data.y, "m": data.mean})
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[rows].to_parquet(tmp_path / f"{number}.parquet")
    table = dataframe.read_parquet(str(tmp_path / "*.parquet"))
    blocked = fm.evaluate(table["y"], fm.Gaussian(table["m"], 0.5), table[["a", "b"]], **KERNELS)
    same_numbers(blocked, in_memory)
    assert blocked["mean_cce"] == pytest.approx(
        in_memory["mean_cce"], abs=blocked.cce.mean_error_bound
    )


def test_encoders_run_on_blocks(data):
    blocked = fm.cce(
        data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5),
        encoder=lambda x: np.hstack([x, x[:, :1] ** 2]), landmarks=np.eye(3), **KERNELS,
    )  # fmt: skip
    assert blocked.accumulator._smoother.features.pivots.shape[1] == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": np.float32}, "dtype is .* not available for Dask"),
        ({"solver": "cholesky"}, "solver is 'cholesky'; for Dask collections, auto"),
        ({"memory_limit": "1MB"}, "memory_limit is 1 MB for each worker; 100 landmarks"),
        ({"weights": np.ones(3)}, "rows must match: x has 600, weights has 3"),
    ],
)
def test_errors_name_the_argument(data: Data, change, message):
    with pytest.raises((ValueError, MemoryError), match=message):
        fm.cce(data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), **change)


def test_parts_that_do_not_fit(data):
    unknown = data.blocks("y")[data.blocks("x")[:, 0] > 0]
    with pytest.raises(ValueError, match=r"x has 3 blocks of rows and y has 5|y has 5 blocks"):
        fm.cce(data.blocks("x").rechunk((200, 2)), unknown, fm.Gaussian(unknown, 0.5))
    with pytest.raises(
        ValueError, match=r"block 0 .*: ValueError: its parts have different numbers of rows"
    ):
        fm.cce(data.blocks("x"), unknown, fm.Gaussian(unknown, 0.5))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_blocks():
    """Blocks are made only when they are needed, in the memory of the first few."""
    import subprocess
    import sys

    code = """
import numpy as np, dask.array as da, psutil, fastmcmd as fm
me = psutil.Process()
def spent(count):
    draws = da.random.default_rng(0)
    x = draws.normal(size=count * 2500, chunks=2500)
    y = draws.normal(size=count * 2500, chunks=2500)
    fm.evaluate(
        y, fm.Gaussian(0 * x, 1.0), x, x_kernel=fm.RBF(0.1), y_kernel=fm.RBF(0.1)
    )
    return me.memory_info().rss
first = spent(5)
assert spent(20) < first + 1.5e7, first  # a block and its features take 15 MB; 15 of them would take 225
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_the_scheduler_that_is_set_is_used(data, scheduler):
    import dask

    arguments = data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5), data.blocks("x")
    with dask.config.set(scheduler=scheduler):
        evaluation = fm.evaluate(*arguments, **KERNELS)
        with pytest.raises(BlockError, match=r"block 1 .*std has values down to -1"):
            fm.evaluate(
                arguments[0], predicted(lambda m: fm.Gaussian(m, min(len(m) - 2, 1)), arguments[0])
            )
    assert (
        evaluation.to_dict()["metrics"] == fm.evaluate(*arguments, **KERNELS).to_dict()["metrics"]
    )


def test_sums_of_spark_partitions_merge(data):
    """The functions of docs/distributed.md work as Spark calls them: batches of rows in, bytes out."""
    pa = pytest.importorskip("pyarrow")
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    code = page.split("accumulators of")[1].split("```python")[1].split("```")[0]
    names: dict = {}
    exec(code, names)
    x, landmarks = data.x[:, 0], np.linspace(-2, 2, 15)
    std = np.full(len(x), 0.5)
    table = pa.table({"x": x, "y": data.y, "mean": data.mean, "std": std})
    parts = []
    for rows in (slice(0, 200), slice(200, 600)):
        batches = table.slice(rows.start, rows.stop - rows.start).to_batches(max_chunksize=90)
        (one,) = names["part"](iter(batches), landmarks)
        parts.append(one["sums"][0].as_py())
    in_memory = fm.streaming.CCE(fm.RBF(0.5), fm.RBF(0.5), landmarks)
    in_memory.update(x, data.y, fm.Gaussian(data.mean, std))
    assert names["total"](parts).value == pytest.approx(in_memory.compute().value, rel=1e-12)


@pytest.mark.slow
def test_dask_is_not_imported_for_arrays_in_memory():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, fastmcmd as fm; x = np.arange(9.0);"
        "fm.cce(x, x, fm.Gaussian(x, 1.0)); fm.evaluate(x, fm.Gaussian(x, 1.0));"
        "assert 'dask' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_solver_over_pairs_of_blocks(data, weighted):
    """Conjugate gradients over pairs of blocks agree with one machine, up to both proven bounds."""
    weights = data.weights.copy()
    weights[[5, 250]] = 0.0
    data.weights = weights
    ours = {"weights": data.blocks("weights")} if weighted else {}
    theirs = {"weights": weights} if weighted else {}
    arguments = data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5)
    in_memory = fm.cce(data.x, data.y, fm.Gaussian(data.mean, 0.5), tol=1e-9, **theirs)
    exact = fm.cce(*arguments, solver="cg", rank=20, tol=1e-5, **ours)
    assert exact.info.solver == "cg"
    assert exact.info.certificate == "rigorous"
    assert exact.error_bound <= 1e-5  # of which output features miss about 2e-6
    assert (
        np.abs(exact.values - in_memory.values) <= exact.error_bounds + in_memory.error_bounds
    ).all()
    assert "25 pairs of blocks" in " ".join(exact.info.notes)
    grid = np.random.default_rng(1).normal(size=(30, 2))
    at = fm.cce(*arguments, solver="cg", at=grid, tol=1e-5, **ours)
    in_memory_at = fm.cce(data.x, data.y, fm.Gaussian(data.mean, 0.5), at=grid, tol=1e-9, **theirs)
    assert (
        np.abs(at.values - in_memory_at.values) <= at.error_bounds + in_memory_at.error_bounds
    ).all()


def test_exact_solver_ends_with_low_rank_above_a_million_rows(data, monkeypatch):
    from fastmcmd.distributed import congruence

    monkeypatch.setattr(congruence, "MOST_ROWS", 599)
    arguments = data.blocks("x"), data.blocks("y"), fm.Gaussian(data.blocks("mean"), 0.5)
    result = fm.cce(*arguments, solver="cg", **KERNELS)
    assert result.info.solver == "lowrank"
    assert any("solver 'cg' is for at most 599 rows" in note for note in result.info.notes)


def test_sums_without_weight_leave_few_pieces_for_tails():
    """Of 6,000 rows in 1,000 pieces, 600 have weight: 100 pieces, not fewer than 200 rows."""
    rng = np.random.default_rng(5)
    mean = rng.normal(size=6_000)
    weights = np.where(np.arange(6_000) < 600, 1.0, 0.0)
    of_mean, y, w = (
        da.from_array(one, chunks=2_000) for one in (mean, mean + rng.normal(size=6_000), weights)
    )
    models = {"a": fm.Gaussian(of_mean, 1.0), "b": fm.Gaussian(of_mean, 1.2)}
    compared = fm.compare({**models, "c": fm.Gaussian(of_mean, 1.3)}, y, sample_weight=w)
    assert compared.pairs.of("nll")[0].reason == "fewer than 200 pieces of rows"
    assert compared.may_be_best != ""
    few = fm.compare(models, y, sample_weight=w * (da.arange(6_000, chunks=2_000) < 150))
    assert few.pairs.of("nll")[0].reason == "fewer than 200 rows"
    equal = fm.compare(
        {name: fm.Gaussian(0 * of_mean, scale) for name, scale in (("a", 0.77), ("b", 1.3))},
        0 * y + 3.7,
    )
    assert equal.pairs.of("nll")[0].reason == ""
