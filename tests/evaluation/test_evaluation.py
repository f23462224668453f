"""`evaluate` gives the numbers of the single functions, and a readable result."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import metrics
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.evaluation.context import Memo
from fastmcmd.evaluation.measures import MEASURES

N = 400


@pytest.fixture
def gaussian(rng):
    x = rng.uniform(-2, 2, (N, 2))
    std = 0.2 + 0.2 * np.abs(x[:, 1])
    y = x[:, 0] + std * rng.normal(size=N)
    return x, y, fm.Gaussian(x[:, 0], std)


# Curves have attributes, not functions, of these names; the rest are functions of `metrics`.
OF_CURVES = {
    "uce": lambda y, p, w: metrics.uce(y, p, binning="mass", sample_weight=w),
    "null_ence": lambda y, p, w: metrics.ence_curve(y, p, sample_weight=w).null_ence,
    "coverage": lambda y, p, w: metrics.coverage(y, p, level=0.8, sample_weight=w),
    "mean_interval_width": lambda y, p, w: metrics.mean_interval_width(
        y, p, level=0.8, sample_weight=w
    ),
    "mean_interval_score": lambda y, p, w: metrics.mean_interval_score(
        y, p, level=0.8, sample_weight=w
    ),
}


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_are_those_of_the_functions(gaussian, rng, weighted):
    x, y, prediction = gaussian
    weights = rng.integers(0, 4, N).astype(float) if weighted else None
    evaluation = fm.evaluate(y, prediction, x, sample_weight=weights, level=0.8)
    for one in evaluation.measured:
        if one.section == "congruence":
            continue
        function = OF_CURVES.get(one.name) or (
            lambda y, p, w, name=one.name: getattr(metrics, name)(y, p, sample_weight=w)
        )
        assert one.value == pytest.approx(function(y, prediction, weights), rel=1e-12), one.name
    cce = fm.cce(x, y, prediction, weights=weights)
    np.testing.assert_allclose(evaluation.rows["cce"], cce.values, rtol=1e-12)
    assert evaluation["mean_cce"] == pytest.approx(np.average(cce.values, weights=weights))
    assert evaluation["max_cce"] == cce.values.max()
    of_classes = {
        "accuracy",
        "auroc",
        "mean_brier_score",
        "ece",
        "classwise_ece",
        "confidence",
        "entropy",
    }
    names = {one.name for one in evaluation.measured} | set(evaluation.skipped)
    assert names == {one.name for one in MEASURES} - of_classes


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: (rng.poisson(4.0, N), fm.Poisson(np.full(N, 4.0))),
        lambda rng: (rng.poisson(4.0, N), fm.NegativeBinomial(np.full(N, 4.0), 0.3)),
        lambda rng: (rng.normal(size=N), rng.normal(size=(N, 20))),
        lambda rng: (rng.standard_t(4, N), fm.StudentT(np.full(N, 4.0), 0.0, 1.0)),
        lambda rng: (rng.normal(size=N), rng.normal(size=N)),
        lambda rng: (rng.normal(size=(N, 2)), rng.normal(size=(N, 10, 2))),
        lambda rng: (rng.normal(size=(N, 2)), fm.Gaussian(np.zeros((N, 2)), 1.0)),
    ],
    ids=["poisson", "nb", "draws", "t", "points", "vector draws", "vector gaussian"],
)
def test_any_prediction(make, rng):
    """`evaluate` computes what applies and reports a reason for the rest; nothing fails."""
    y, prediction = make(rng)
    evaluation = fm.evaluate(y, prediction)
    assert all(np.isfinite(one.value) for one in evaluation.measured)
    assert evaluation["rmse"] > 0
    assert {one.name for one in evaluation.measured}.isdisjoint(evaluation.skipped)
    json.dumps(evaluation.to_dict(), allow_nan=False)
    assert len(evaluation.to_frame()) == len(evaluation.measured)
    for one in evaluation.measured:
        assert one.label in repr(evaluation)


def test_reasons_are_reported(rng):
    y = rng.normal(size=N)
    draws = fm.evaluate(y, rng.normal(size=(N, 5)))
    assert draws.skipped["nll"] == "the prediction has no density"
    assert draws.skipped["mean_cce"] == "no inputs x were given"
    with pytest.raises(KeyError, match="nll does not apply: the prediction has no density"):
        draws["nll"]
    with pytest.raises(KeyError, match="no measure 'nil'; there are mae, "):
        draws["nil"]
    points = fm.evaluate(y, rng.normal(size=N))
    assert points.skipped["ence"] == "a predicted variance is zero"
    assert points["mean_crps"] == pytest.approx(points["mae"])
    constant = fm.evaluate(np.ones(N), (np.zeros(N), 1.0))
    assert constant.skipped["r2"] == "y is constant"
    heavy = fm.evaluate(rng.standard_cauchy(N), fm.StudentT(np.ones(N), 0.0, 1.0))
    assert heavy.skipped["rmse"] == "a predicted mean is not finite"
    assert heavy.skipped["ence"] == "a predicted mean is not finite"
    assert np.isfinite(heavy["mean_crps"])


def test_an_excluded_outcome_is_counted(rng):
    y = np.append(rng.poisson(3.0, N - 1).astype(float), 0.5)
    evaluation = fm.evaluate(y, fm.Poisson(np.full(N, 3.0)))
    assert evaluation["nll"] == np.inf
    assert evaluation.notes == ("1 outcome has no probability under the prediction",)
    assert evaluation.to_dict()["metrics"]["nll"] == "inf"


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_rows_with_nan(gaussian, policy):
    x, y, prediction = gaussian
    with pytest.raises(ValueError, match="y holds NaN"):
        fm.evaluate(np.where(np.arange(N) < 3, np.nan, y), prediction)
    with_nan = np.where(np.arange(N) < 3, np.nan, y)
    evaluation = fm.evaluate(with_nan, prediction, x, nan_policy=policy, n_boot=3)
    clean = fm.evaluate(y[3:], prediction.take(np.arange(3, N)), x[3:])
    for name, values in evaluation.rows.items():
        assert np.isnan(values[:3]).all()
        np.testing.assert_allclose(values[3:], clean.rows[name], rtol=1e-9)
    if policy == "omit":
        assert [one.value for one in evaluation.measured] == pytest.approx(
            [one.value for one in clean.measured]
        )
        assert evaluation.notes == ("3 of 400 rows hold NaN: they are left out",)
    else:
        assert all(np.isnan(one.value) for one in evaluation.measured)
        assert evaluation.notes == ("3 of 400 rows hold NaN: every number is NaN",)


def test_intervals_are_those_of_resampled_rows(gaussian):
    """A bootstrap sample as weights gives the numbers of the repeated rows."""
    _x, y, prediction = gaussian
    evaluation = fm.evaluate(y, prediction, n_boot=1, random_state=5)
    rows = generator(5, Purpose.BOOTSTRAP).integers(0, N, N)
    again = fm.evaluate(y[rows], prediction.take(rows))
    # The medians of repeated rows and of weights agree where weights are whole numbers.
    for one in again.measured:
        if one.name in evaluation.replicates.values:
            value = evaluation.replicates.values[one.name][0]
            assert value == pytest.approx(one.value, rel=1e-9), one.name
    assert len(evaluation.replicates.values) >= 23
    many = fm.evaluate(y, prediction, n_boot=200, confidence=0.9)
    mae = next(one for one in many.measured if one.name == "mae")
    spread = np.abs(y - prediction.mean).std() / np.sqrt(N)
    assert mae.high - mae.low == pytest.approx(2 * 1.645 * spread, rel=0.25)
    for one in many.measured:
        assert one.low is None or one.low <= one.value <= one.high, one.name
    assert "90 % interval" in many.table()
    assert {"low", "high"} <= set(many.to_frame().columns)


def test_groups(gaussian):
    x, y, prediction = gaussian
    side = np.where(x[:, 0] > 0, "right", "left")
    evaluation = fm.evaluate(y, prediction, x, by=side)
    assert list(evaluation.by) == ["left", "right"]
    for label, (rows, numbers) in evaluation.by.items():
        inside = np.flatnonzero(side == label)
        assert rows == len(inside)
        alone = fm.evaluate(y[inside], prediction.take(inside))
        values = {one.name: one.value for one in numbers}
        assert values["mean_crps"] == pytest.approx(alone["mean_crps"])
        assert values["ence"] == pytest.approx(alone["ence"])
        assert values["mean_cce"] == pytest.approx(evaluation.rows["cce"][inside].mean())
    assert "left (" in evaluation.table()
    assert set(evaluation.to_dict()["by"]) == {"left", "right"}


def test_adversarial_groups_on_demand(gaussian):
    _, y, prediction = gaussian
    assert "groups" not in fm.evaluate(y, prediction).curves
    groups_curve = fm.evaluate(y, prediction, adversarial=True).curves["groups"]
    expected = metrics.adversarial_group_calibration(y, prediction, random_state=0)
    np.testing.assert_array_equal(groups_curve.mean, expected.mean)


def test_curves_are_those_of_the_functions(gaussian):
    _, y, prediction = gaussian
    curves = fm.evaluate(y, prediction, bins=7).curves
    expected = metrics.reliability_curve(y, prediction)
    np.testing.assert_allclose(curves["reliability"].observed, expected.observed)
    expected = metrics.reliability_curve(y, prediction, kind="interval")
    np.testing.assert_allclose(curves["reliability_interval"].observed, expected.observed)
    histogram = metrics.pit_histogram(y, prediction, bins=7)
    np.testing.assert_allclose(curves["pit"].mass, histogram.mass)
    variance = metrics.ence_curve(y, prediction, bins=7)
    np.testing.assert_allclose(curves["variance"].rmse, variance.rmse)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"level": 1.0}, ValueError, "level is 1; a number in"),
        ({"confidence": 0}, ValueError, "confidence is 0"),
        ({"bins": 0}, ValueError, "bins is 0"),
        ({"n_boot": -1}, ValueError, "n_boot is -1"),
        ({"n_boot": 2.5}, TypeError, "n_boot is 2.5"),
        ({"pit": "smooth"}, ValueError, "pit is 'smooth'"),
        ({"binning": "depth"}, ValueError, "binning is 'depth'"),
        ({"nan_policy": "ignore"}, ValueError, "nan_policy is 'ignore'"),
        ({"by": np.zeros(3)}, ValueError, "y has 400, by has 3"),
        ({"by": np.zeros((N, 2))}, ValueError, "by has shape"),
        ({"sample_weight": -np.ones(N)}, ValueError, "sample_weight has negative values"),
        ({"x": np.zeros((3, 2))}, ValueError, "rows must match: x has 3, y has 400"),
    ],
)
def test_bad_arguments(gaussian, options, error, message):
    _, y, prediction = gaussian
    with pytest.raises(error, match=message):
        fm.evaluate(y, prediction, **options)


def test_inputs_are_not_changed(gaussian, rng):
    x, y, prediction = gaussian
    weights = rng.uniform(size=N)
    before = [a.copy() for a in (x, y, prediction.mean, prediction.std, weights)]
    for array in (x, y, weights):
        array.setflags(write=False)
    fm.evaluate(y, prediction, x, sample_weight=weights, n_boot=2, adversarial=True)
    for array, old in zip((x, y, prediction.mean, prediction.std, weights), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_a_prediction_that_remembers(rng):
    """The context asks the prediction for each answer once, and each answer is the same."""
    y = rng.poisson(3.0, N).astype(float)
    base = fm.Poisson(np.full(N, 3.0))
    memo = Memo(base, y)
    assert memo.cdf(y) is memo.cdf(y)
    assert memo.cdf_below(y) is memo.cdf_below(y)
    assert memo.mean is memo.mean
    np.testing.assert_array_equal(memo.cdf(y), base.cdf(y))
    np.testing.assert_array_equal(memo.cdf(y + 1), base.cdf(y + 1))  # others are not remembered
    np.testing.assert_array_equal(memo.cdf(y[::-1].copy()), base.cdf(y[::-1].copy()))
    np.testing.assert_array_equal(memo.quantile(0.3), base.quantile(0.3))
    np.testing.assert_array_equal(memo.quantile([0.3, 0.6]), base.quantile([0.3, 0.6]))
    np.testing.assert_array_equal(memo.log_prob(y), base.log_prob(y))
    np.testing.assert_array_equal(memo.crps(y), base.crps(y))
    assert memo.discrete
    assert repr(memo) == repr(base)
    kernel, points = fm.RBF(0.5), np.array([0.0, 2.0])
    np.testing.assert_allclose(
        memo.expected_kernel(kernel, points), base.expected_kernel(kernel, points)
    )


@pytest.mark.slow
def test_comparison(gaussian):
    x, y, prediction = gaussian
    wide = fm.Gaussian(prediction.mean, 3 * prediction.std)
    comparison = fm.compare(
        {"right": fm.evaluate(y, prediction, x), "wide": fm.evaluate(y, wide, x)}
    )
    lines = [line for line in comparison.table().splitlines() if line.startswith("  ")]
    table = {line.strip().split("  ")[0]: line for line in lines}
    for label in ("CRPS", "negative log-likelihood"):
        cells = [cell for cell in table[label].split("  ") if cell]
        assert cells[1].strip().startswith("*"), label
        assert not cells[2].strip().startswith("*")
    assert "*" not in table["mean absolute error"]  # the same means
    assert "*" in table["CCE, mean"]  # by its mean square
    assert "*" not in table["ENCE"]  # no bootstrap samples
    assert "paired test of the same rows, level 0.05" in str(comparison)
    few = fm.compare({name: fm.evaluate(y, prediction) for name in ("right", "wide")})
    assert set(few.to_dict()) == {"right", "wide"}
    alone = fm.compare({"right": fm.evaluate(y, prediction)})
    assert "*" not in alone.table()
    with pytest.raises(ValueError, match="'other' was evaluated on other outcomes"):
        fm.compare({"a": fm.evaluate(y, prediction), "other": fm.evaluate(y + 1, prediction)})
    with pytest.raises(TypeError, match="at least one Evaluation"):
        fm.compare({})
    with pytest.raises(TypeError, match=r"models\['a'\] is a float"):
        fm.compare({"a": 1.0})


def _same_numbers(evaluation, alone, tol=4e-6):
    assert [one.name for one in evaluation] == [one.name for one in alone]
    for one, other in zip(evaluation, alone, strict=True):
        np.testing.assert_allclose(one.value, other.value, rtol=1e-9, atol=tol)
        if other.low is None:
            assert one.low is None
        else:
            np.testing.assert_allclose([one.low, one.high], [other.low, other.high], atol=tol)


@pytest.mark.slow
@pytest.mark.parametrize("with_x", [True, False])
@pytest.mark.parametrize("nan_policy", ["raise", "omit", "propagate"])
def test_models_together_are_as_each_alone(gaussian, rng, with_x, nan_policy):
    """Bootstrap, groups, weights, NaN rows and values by row: only the run time differs."""
    x, y, prediction = gaussian
    y = y.copy()
    n = len(y)
    if nan_policy != "raise":
        y[[3, 17]] = np.nan
    models = {
        "right": prediction,
        "arrays": (np.asarray(prediction.mean), 0.7),
        "draws": rng.normal(size=(n, 5)),
    }
    how = {
        "sample_weight": rng.uniform(0.5, 2, n), "nan_policy": nan_policy, "n_boot": 20,
        "by": np.where(rng.uniform(size=n) < 0.4, "north", "south"), "random_state": 5,
        "x_kernel": fm.RBF(0.5), "draws": 2, "adversarial": True,
    }  # fmt: skip
    inputs = x if with_x else None
    comparison = fm.compare(models, y, inputs, **how)
    assert list(comparison.evaluations) == list(models)
    for name, model in models.items():
        one, alone = comparison.evaluations[name], fm.evaluate(y, model, inputs, **how)
        _same_numbers(one.measured, alone.measured)
        assert one.by.keys() == alone.by.keys()
        for label, (rows, numbers) in alone.by.items():
            assert one.by[label][0] == rows
            _same_numbers(one.by[label][1], numbers)
        assert one.rows.keys() == alone.rows.keys()
        for row, values in alone.rows.items():
            np.testing.assert_allclose(one.rows[row], values, rtol=1e-12, atol=4e-6)
        assert (one.settings, one.notes, one.skipped) == (
            alone.settings, alone.notes, alone.skipped,
        )  # fmt: skip
        assert one.n == alone.n
        np.testing.assert_array_equal(one.curves["pit"].mass, alone.curves["pit"].mass)
        assert (one.cce is None) == (not with_x)
        np.testing.assert_array_equal(one.y, alone.y)
    if with_x and nan_policy == "raise":
        estimator = comparison.evaluations["right"].congruence
        np.testing.assert_allclose(
            estimator.score_samples(x[:4]), estimator.result_.values[:4], atol=2e-6
        )


def test_evaluate_many_rejects(gaussian):
    x, y, prediction = gaussian
    with_nan = np.asarray(prediction.mean).copy()
    with_nan[5] = np.nan
    with pytest.raises(ValueError, match=r"models\['b'\] holds NaN in other rows"):
        fm.compare({"a": prediction, "b": (with_nan, 1.0)}, y, nan_policy="omit")
    with pytest.raises(ValueError, match=r"models\['b'\]: "):
        fm.compare({"a": prediction, "b": (with_nan, 1.0)}, y)
    with pytest.raises(ValueError, match="level"):
        fm.compare({"a": prediction}, y, level=2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'levels'"):
        fm.compare({"a": prediction}, y, levels=0.5)
    with pytest.raises(TypeError, match="multiple values for argument 'prediction'"):
        fm.compare({"a": prediction}, y, prediction=prediction)
    evaluation = fm.evaluate(y, prediction)
    with pytest.raises(TypeError, match=r"models\['a'\] is an Evaluation already"):
        fm.compare({"a": evaluation}, y)
    with pytest.raises(TypeError, match="x, n_boot without y"):
        fm.compare({"a": evaluation}, x=x, n_boot=3)
    with pytest.raises(ValueError, match="same names as text: 1, 1"):
        fm.compare({1: evaluation, "1": evaluation})


def test_evaluate_many_on_disk_and_with_progress(gaussian, tmp_path, capsys):
    x, y, prediction = gaussian
    np.save(tmp_path / "x.npy", x)
    models = {"a": prediction, "b": fm.Gaussian(prediction.mean, 3 * prediction.std)}
    comparison = fm.compare(models, y, tmp_path / "x.npy", progress=True, n_boot=2)
    progress_text = capsys.readouterr().err
    assert "fastmcmd: a: " in progress_text
    assert "fastmcmd: b: bootstrap" in progress_text
    for name, model in models.items():
        np.testing.assert_allclose(
            comparison.evaluations[name].rows["cce"], fm.cce(x, y, model).values, atol=2e-6
        )


def test_inputs_on_disk(gaussian, tmp_path):
    x, y, prediction = gaussian
    np.save(tmp_path / "x.npy", x)
    evaluation = fm.evaluate(y, prediction, tmp_path / "x.npy")
    np.testing.assert_allclose(evaluation.rows["cce"], fm.cce(x, y, prediction).values, atol=2e-6)
    y[0] = np.nan
    with pytest.raises(ValueError, match="x is on disk and rows hold NaN"):
        fm.evaluate(y, prediction, tmp_path / "x.npy", nan_policy="omit")


@pytest.mark.slow
def test_nan_in_inputs_leaves_rows_out_of_every_measure(gaussian):
    x, y, prediction = gaussian
    rows = np.random.default_rng(7).choice(len(y), 9, replace=False)
    holes = x.copy()
    holes[rows, rows % x.shape[1]] = np.nan
    keep = np.setdiff1d(np.arange(len(y)), rows)
    expected = fm.evaluate(y[keep], prediction.take(keep), x[keep])
    omitted = fm.evaluate(y, prediction, holes, nan_policy="omit")
    assert omitted.to_dict()["metrics"] == expected.to_dict()["metrics"]
    assert omitted.test.p_value == expected.test.p_value
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(omitted.rows["cce"])), np.sort(rows))
    np.testing.assert_array_equal(omitted.rows["crps"][keep], expected.rows["crps"])
    both = fm.compare({"a": prediction, "b": prediction}, y, holes, nan_policy="omit")
    assert both["b"]["mean_cce"] == expected["mean_cce"]
    assert np.isnan(fm.evaluate(y, prediction, holes, nan_policy="propagate")["mean_crps"])
    with pytest.raises(ValueError, match="x holds NaN"):
        fm.evaluate(y, prediction, holes)
    with pytest.raises(ValueError, match=r"all .* rows hold NaN"):
        fm.evaluate(y, prediction, np.full_like(x, np.nan), nan_policy="omit")
    nothing = fm.evaluate(y, prediction, np.full_like(x, np.nan), nan_policy="propagate")
    assert np.isnan(nothing["mean_crps"])
    assert "rows hold NaN" in nothing.skipped["mean_cce"]


def test_a_group_of_one_row(gaussian):
    """A group of one row omits the measures that one row does not determine, and reports the rest."""
    _, y, prediction = gaussian
    evaluation = fm.evaluate(y, prediction, by=(np.arange(N) == 7).astype(int))
    rows, numbers = evaluation.by[1]
    assert rows == 1
    names = {one.name for one in numbers}
    assert "mae" in names
    assert "variance_variation" not in names


class CountingGaussian(fm.Gaussian):
    """Gaussian that counts the outcomes passed to its methods."""

    calls: dict[str, int] = {}

    def _note(self, name, y):
        self.calls[name] = self.calls.get(name, 0) + np.size(y)

    def cdf(self, y):
        self._note("cdf", y)
        return super().cdf(y)

    def log_prob(self, y):
        self._note("log_prob", y)
        return super().log_prob(y)

    def crps(self, y):
        self._note("crps", y)
        return super().crps(y)

    def take(self, rows):
        return CountingGaussian(self.mean[rows], self.std[rows])


def test_groups_and_bootstrap_ask_nothing_again(gaussian, rng):
    """Scores of rows are computed once, however many reports use them."""
    _, y, prediction = gaussian
    CountingGaussian.calls.clear()
    counting = CountingGaussian(prediction.mean, prediction.std)
    labels = rng.integers(0, 3, N)
    evaluation = fm.evaluate(y, counting, by=labels, n_boot=3)
    assert CountingGaussian.calls == {"cdf": N, "log_prob": N, "crps": N}
    for label in range(3):
        rows = labels == label
        alone = fm.evaluate(y[rows], prediction.take(np.flatnonzero(rows)))
        count, numbers = evaluation.by[label]
        assert count == rows.sum()
        for one in numbers:
            assert one.value == pytest.approx(alone[one.name], rel=1e-12), one.name


@pytest.mark.parametrize("name", ["Gamma", "StudentT", "Mixture", "Draws", "Poisson"])
def test_scores_of_quantiles_are_those_of_the_functions(name, rng):
    """One pass computes the quantiles at all levels."""
    shape = rng.uniform(1, 5, 50)
    prediction = {
        "Gamma": lambda: fm.predictive.Gamma(shape, 2.0),
        "StudentT": lambda: fm.predictive.StudentT(shape, 1.0, 2.0),
        "Mixture": lambda: fm.predictive.Mixture(
            [fm.predictive.Gamma(shape, 1.0), fm.Gaussian(shape, 1.0)]
        ),
        "Draws": lambda: fm.Draws(rng.normal(size=(50, 20))),
        "Poisson": lambda: fm.Poisson(shape),
    }[name]()
    y = np.floor(rng.gamma(shape)) if name == "Poisson" else rng.gamma(shape)
    evaluation = fm.evaluate(y, prediction, level=0.8)
    for measure, options in [
        ("mean_check_score", {}),
        ("mean_interval_score", {"level": 0.8}),
        ("mean_weighted_interval_score", {}),
        ("coverage", {"level": 0.8}),
        ("mean_interval_width", {"level": 0.8}),
    ]:
        expected = getattr(metrics, measure)(y, prediction, **options)
        assert evaluation[measure] == pytest.approx(expected, rel=1e-12), measure


def test_checked_outcomes_are_taken_as_they_are(gaussian):
    _, y, prediction = gaussian
    checked_rows = metrics.inputs.read(y, prediction, np.arange(N) + 1.0)
    assert metrics.inputs.read(checked_rows, None) is checked_rows
    assert metrics.rmse(checked_rows, None) == metrics.rmse(
        y, prediction, sample_weight=np.arange(N) + 1.0
    )


def test_a_memo_knows_its_outcomes_by_identity(gaussian):
    """Another array at the same address is not taken for the first."""
    _, y, prediction = gaussian
    memo = Memo(prediction, y)
    before = memo.cdf(y)
    view = y[:]
    view_answer = memo.cdf(view)
    assert view_answer is not before
    part = memo.subset(np.array([3, 1]))
    np.testing.assert_array_equal(part.cdf(part.y), before[[3, 1]])
    assert part.cdf(part.y) is part.cdf(part.y)


def test_a_name_in_the_data_cannot_command_a_terminal():
    y = np.linspace(-1, 1, 30)
    by = np.where(y > 0, "north\x1b[2J", "south")
    evaluation = fm.evaluate(y, fm.Gaussian(y, 1.0), by=by)
    evaluation = dataclasses.replace(evaluation, notes=("a \x1b]0;title\x07 note",))
    assert "\x1b" not in repr(evaluation)
    assert "\x07" not in repr(evaluation)
    assert "\x1b" not in repr(fm.compare({"a\x1b[2J": evaluation, "b": evaluation}))


def test_intervals_of_vectors_are_those_of_their_rows():
    """Vectors raised an error about shapes because they have no PIT to sort."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(150, 2))
    draws = y[:, None] + rng.normal(size=(150, 6, 2))
    evaluation = fm.evaluate(y, draws, n_boot=300)
    by_name = {one.name: one for one in evaluation.measured}
    errors = np.abs(draws.mean(axis=1) - y).mean(axis=1)
    scatter = errors.std(ddof=1) / np.sqrt(150)
    one = by_name["mae"]
    assert one.low == pytest.approx(errors.mean() - 1.96 * scatter, abs=0.35 * scatter)
    assert one.high == pytest.approx(errors.mean() + 1.96 * scatter, abs=0.35 * scatter)
    assert all(
        other.low <= other.value <= other.high
        for other in by_name.values()
        if other.low is not None
    )


@pytest.mark.parametrize("nan_policy", ["omit", "propagate"])
def test_inputs_with_nan_and_a_wrong_shape_are_an_error_that_names_it(rng, nan_policy):
    y = rng.normal(size=30)
    x = rng.normal(size=(30, 2))
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="rows must match: x has 20, y has 30"):
        fm.evaluate(y, (y, 1.0), x[:20], nan_policy=nan_policy)
    with pytest.raises(ValueError, match=r"x has shape \(30, 2, 3\)"):
        fm.evaluate(y, (y, 1.0), np.stack([x] * 3, axis=2), nan_policy=nan_policy)


@pytest.mark.parametrize("text", [False, True])
def test_many_small_groups_have_the_numbers_of_their_rows(text, rng):
    n = 300
    mean, std = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    y = mean + rng.normal(size=n)
    y[17] = np.nan
    labels = rng.integers(0, 60, n)
    by = np.array([f"ward {one}" for one in labels]) if text else labels
    evaluation = fm.evaluate(y, fm.Gaussian(mean, std), by=by, nan_policy="propagate")
    assert list(evaluation.by) == np.unique(by).tolist()
    for name, (count, numbers) in evaluation.by.items():
        rows = np.flatnonzero(by == name)
        assert count == len(rows) - (17 in rows)
        values = {one.name: one.value for one in numbers}
        if 17 in rows:
            assert np.isnan(values["mae"])
            continue
        error = y[rows] - mean[rows]
        assert values["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-12)
        assert values["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)
        assert values["bias"] == pytest.approx(-error.mean(), rel=1e-9)
        crps = fm.Gaussian(mean[rows], std[rows]).crps(y[rows])
        assert values["mean_crps"] == pytest.approx(crps.mean(), rel=1e-12)
