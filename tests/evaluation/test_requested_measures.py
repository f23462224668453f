"""Scores that a caller adds to an evaluation by name."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.evaluation.measures import MEASURES, ON_REQUEST

OF_DRAWS = ("gaussian_kernel_score", "error_spread_score", "ensemble_log_score")
OF_DENSITIES = ("gaussian_kernel_score", "quadratic_score", "linearized_log_score")


def test_all_on_request_are_tested():
    names = {one.name.removeprefix("mean_") for one in ON_REQUEST}
    assert names == {*OF_DRAWS, *OF_DENSITIES}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_numbers_are_those_of_the_functions(weighted, full, rng):
    y = rng.normal(size=60)
    weights = rng.uniform(0.5, 2.0, 60) if weighted else None
    by = np.arange(60) % 2
    for prediction, scores in (
        (rng.normal(size=(60, 12)), OF_DRAWS),
        (fm.Gaussian(0.2 * y, np.full(60, 1.1)), OF_DENSITIES),
    ):
        names = [f"mean_{one}" if full else one for one in scores]
        evaluation = fm.evaluate(y, prediction, sample_weight=weights, measures=names, by=by)
        for one in scores:
            mean = getattr(fm.metrics, f"mean_{one}")
            assert evaluation[one] == pytest.approx(mean(y, prediction, sample_weight=weights))
        shares = {one.name: one.value for one in evaluation.by[1][1]}
        part = fm.Draws(prediction) if isinstance(prediction, np.ndarray) else prediction
        some = np.flatnonzero(by)
        expected = getattr(fm.metrics, f"mean_{scores[0]}")(
            y[some],
            part.take(some),
            sample_weight=None if weights is None else weights[some],
        )
        assert shares[f"mean_{scores[0]}"] == pytest.approx(expected)


def test_they_are_added_to_their_section(rng):
    y, draws = rng.normal(size=30), rng.normal(size=(30, 8))
    plain, more = fm.evaluate(y, draws), fm.evaluate(y, draws, measures=OF_DRAWS)
    before, after = plain.keys(), more.keys()
    assert not any(one.name in before for one in ON_REQUEST)
    added = [name for name in after if name not in before]
    assert added == [f"mean_{one}" for one in OF_DRAWS]
    sections = [one.section for one in more.measured]
    assert sections == sorted(sections, key=list(dict.fromkeys(sections)).index)
    for name in before:
        assert more[name] == plain[name]


def test_the_usual_ones_may_be_named(rng):
    y, draws = rng.normal(size=30), rng.normal(size=(30, 8))
    names = ["crps", "wis", "mean_crps", MEASURES[0].name]
    assert fm.evaluate(y, draws, measures=names).keys() == fm.evaluate(y, draws).keys()


def test_vectors_have_a_kernel_score(rng):
    y, draws = rng.normal(size=(30, 2)), rng.normal(size=(30, 8, 2))
    evaluation = fm.evaluate(y, draws, measures=["gaussian_kernel_score", "quadratic_score"])
    expected = fm.metrics.mean_gaussian_kernel_score(y, draws)
    assert evaluation["gaussian_kernel_score"] == pytest.approx(expected)
    with pytest.raises(KeyError, match="outputs are vectors"):
        evaluation["quadratic_score"]


@pytest.mark.parametrize(
    ("name", "prediction", "why"),
    [
        ("error_spread_score", "gaussian", "needs draws"),
        ("ensemble_log_score", "gaussian", "needs draws"),
        ("error_spread_score", "equal", "equal draws in row 3"),
        ("ensemble_log_score", "equal", "row 3 agree"),
        ("quadratic_score", "draws", "no density"),
    ],
)
def test_where_they_do_not_apply(name, prediction, why, rng):
    y, draws = rng.normal(size=30), rng.normal(size=(30, 8))
    if prediction == "equal":
        draws[3] = 1.0
    of = fm.Gaussian(y, 1.0) if prediction == "gaussian" else draws
    evaluation = fm.evaluate(y, of, measures=[name])
    with pytest.raises(KeyError, match=why):
        evaluation[name]


def test_classes_have_none_of_them(rng):
    prediction = fm.Categorical(rng.dirichlet(np.ones(3), 30), classes=["a", "b", "c"])
    evaluation = fm.evaluate(rng.integers(0, 3, 30), prediction, measures=OF_DENSITIES)
    assert all(one.name in evaluation.skipped for one in ON_REQUEST if one.name[5:] in OF_DENSITIES)


def test_intervals_and_comparisons_have_them(rng):
    y = rng.normal(size=80)
    models = {"right": fm.Gaussian(np.zeros(80), 1.0), "wide": fm.Gaussian(np.zeros(80), 3.0)}
    names = ["quadratic_score", "gaussian_kernel_score"]
    comparison = fm.compare(models, y, measures=names, n_boot=50)
    for name in names:
        pair = comparison.pairs.of(f"mean_{name}")[0]
        losses = [getattr(fm.metrics, name)(y, one) for one in models.values()]
        assert abs(pair.difference) == pytest.approx(abs(np.mean(losses[0] - losses[1])))
        number = {one.name: one for one in comparison["right"].measured}[f"mean_{name}"]
        assert number.low < number.value < number.high
    assert "quadratic score" in comparison.table()
    assert comparison.confidence_set("mean_quadratic_score")["right"] == 1


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("weighted_crps", "mean_weighted_crps(y, prediction, lower=...)"),
        ("mean_weighted_crps", "mean_weighted_crps(y, prediction, lower=...)"),
        ("weighted_energy_score", "mean_weighted_energy_score(y, prediction, weight=...)"),
        ("threshold_brier_score", "threshold_brier_score(y, prediction, thresholds=...)"),
        ("survival_crps", "survival_crps(y, prediction, event=...)"),
        ("ipcw_brier_score", "ipcw_brier_score(y, prediction, event=..., times=...)"),
    ],
)
def test_what_needs_an_argument_is_refused(name, call):
    with pytest.raises(ValueError, match="which evaluate does not take") as caught:
        fm.evaluate([0.0], ([0.0], 1.0), measures=[name])
    assert f"fastmcmd.metrics.{call}" in str(caught.value)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="did you mean 'quadratic_score'"):
        fm.evaluate([0.0], ([0.0], 1.0), measures=["quadratic_scores"])
    for wrong in ("crps", [1]):
        with pytest.raises(TypeError, match="a list of names"):
            fm.evaluate([0.0], ([0.0], 1.0), measures=wrong)


@pytest.mark.parametrize("wrong", ["quadratic_score", 3, np.datetime64("NaT"), [1], {"a": 1}])
def test_measures_are_a_list_of_names(wrong):
    with pytest.raises(TypeError, match=r"measures is .* a list of names is needed"):
        fm.evaluate([0.0, 1.0], ([0.0, 1.0], 1.0), measures=wrong)
