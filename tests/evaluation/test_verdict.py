"""The conclusion in one sentence names planted faults, and accuses no right model."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.evaluation.verdict import Remedy

N = 600


@pytest.fixture(scope="module")
def planted():
    """Return means that are 1.2 too low for ages above 61, and right elsewhere."""
    rng = np.random.default_rng(0)
    age, income = rng.uniform(20, 80, N), rng.normal(size=N)
    mean = age / 30 + income
    y = mean + 1.2 * (age > 61) + 0.5 * rng.normal(size=N)
    x = np.stack([age, income], axis=1)
    return x, y, mean


def test_a_planted_fault_is_named(planted):
    x, y, mean = planted
    result = fm.verdict(x, y, fm.Gaussian(mean, 0.5), {"age": x[:, 0], "income": x[:, 1]})
    assert result.wrong
    worst = result.where[0]
    assert "age" in worst.description.split(" and ")[0]
    assert 0.8 < worst.shift < 1.6
    assert result.remedy.share > 0.8
    assert result.sentence.startswith("The model is wrong beyond chance (p = 0.005), most for ")
    assert "where it predicts 1." in result.sentence
    assert " too low" in result.sentence
    assert "rescaling by input would mend" in result.sentence
    assert repr(result).startswith(result.sentence)
    assert worst.description in result.table()
    assert json.loads(json.dumps(result.to_dict()))["where"][0]["rows"] == worst.rows


def test_a_right_model_is_not_accused(planted):
    x, y, mean = planted
    right = fm.Gaussian(mean + 1.2 * (x[:, 0] > 61), 0.5)
    result = fm.verdict(x, y, right)
    assert not result.wrong
    assert result.sentence == result.test.sentence
    assert (result.regions, result.diagnosis, result.remedy, result.where) == (None, None, None, ())
    assert result.to_dict()["remedy"] is None


def test_a_wrong_shape_is_not_called_mendable():
    """Two modes with the right mean and variance: neither a shift nor a factor of spread helps."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    y = x[:, 0] + rng.choice([-1, 1], N) * 0.8 + 0.3 * rng.normal(size=N)
    result = fm.verdict(x, y, fm.Gaussian(x[:, 0], np.sqrt(0.73)))
    assert result.wrong
    assert result.remedy.p_value <= 0.05
    assert not result.remedy.share >= 0.5
    assert "misfit beyond chance remains" in result.sentence or "not mend" in result.sentence


def test_too_wide_a_model_is_mended_though_its_cce_is_low():
    """A too wide model lowers CCE, so the share of a misfit in CCE does not show it."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=N)
    result = fm.verdict(x, x + 0.3 * rng.normal(size=N), fm.Gaussian(x, 0.66))
    assert result.wrong
    assert result.remedy.p_value > 0.01
    assert "does not mend" not in result.sentence
    assert "too wide" in result.sentence


@pytest.mark.slow
def test_the_remedy_is_measured_on_other_rows(planted):
    """Agree with the definition: fit on one half, test the other half before and after."""
    x, y, mean = planted
    prediction = fm.Gaussian(mean, 0.5)
    remedy = fm.verdict(x, y, prediction).remedy
    shares = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(N)
        one, other = np.sort(order[: N // 2]), np.sort(order[N // 2 :])
        fitted = fm.recalibration.ConditionalRescaling()
        fitted.fit(prediction.take(one), y[one], x[one])
        mended = fitted.transform(prediction.take(other), x[other])
        before, after = (
            fm.congruence_test(x[other], y[other], p, random_state=0)
            for p in (prediction.take(other), mended)
        )
        left = after.statistic - after.null_mean
        shares.append(1 - max(left, 0) / (before.statistic - before.null_mean))
    assert abs(remedy.share - np.mean(shares)) < 0.15


@pytest.mark.slow
def test_classes_vectors_and_few_rows(planted):
    x, y, mean = planted
    few = fm.verdict(x[:30], y[:30] + 3, fm.Gaussian(mean[:30], 0.5))
    assert few.wrong
    assert "fewer than 40 rows" in few.skipped["regions"]
    assert "fewer than 100 rows" in few.skipped["remedy"]
    p = 1 / (1 + np.exp(-x[:, 1]))
    labels = (np.random.default_rng(0).uniform(size=N) < 0.5).astype(int)
    classes = fm.verdict(x, labels, fm.Categorical(np.stack([1 - p, p], axis=1)))
    assert classes.wrong
    assert "classes" in classes.skipped["diagnosis"]
    vectors = fm.verdict(x, np.stack([y, y], axis=1), fm.Gaussian(np.stack([mean, mean], 1), 0.5))
    assert "vectors" in vectors.skipped["diagnosis"]
    wide = fm.verdict(np.random.default_rng(0).normal(size=(N, 60)), y, fm.Gaussian(mean, 0.5))
    assert "more than 50 columns" in wide.skipped["regions"]


def test_bad_arguments(planted):
    x, y, mean = planted
    prediction = fm.Gaussian(mean, 0.5)
    with pytest.raises(ValueError, match="level is 1"):
        fm.verdict(x, y, prediction, level=1.0)
    with pytest.raises(TypeError, match="test is float"):
        fm.verdict(x, y, prediction, test=0.05)
    other = fm.congruence_test(x[:50], y[:50], prediction.take(np.arange(50)))
    with pytest.raises(ValueError, match="test is of 50 rows, y has 600"):
        fm.verdict(x, y, prediction, test=other)


@pytest.mark.slow
def test_evaluations_begin_with_it(planted):
    pandas = pytest.importorskip("pandas")
    x, y, mean = planted
    frame = pandas.DataFrame(x, columns=["age", "income"])
    evaluation = fm.evaluate(y, fm.Gaussian(mean, 0.5), frame, x_kernel=fm.RBF(0.01))
    assert evaluation.column_names == ("age", "income")
    assert evaluation.sentence == evaluation.verdict().sentence
    assert "age" in evaluation.sentence
    assert repr(evaluation).startswith(evaluation.sentence)
    assert evaluation.to_dict()["sentence"] == evaluation.sentence
    with_columns = evaluation.verdict({"years": x[:, 0]})
    assert "years" in with_columns.sentence
    with pytest.raises(ValueError, match="no exact test"):
        fm.evaluate(y, fm.Gaussian(mean, 0.5)).verdict()


def test_picture(planted):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    x, y, mean = planted
    figure = fm.verdict(x, y, fm.Gaussian(mean, 0.5)).plot()
    assert len(figure.axes) == 3
    assert "wrong beyond chance" in figure.get_suptitle()


def test_a_part_that_cannot_be_computed_is_skipped():
    """An error was raised, even by `repr` of an evaluation."""
    pandas = pytest.importorskip("pandas")
    x = np.linspace(-1, 1, 60)
    equal = fm.verdict(x, np.ones(60), (x, 0.1))
    assert equal.wrong
    assert "equal" in equal.skipped["regions"]
    assert repr(fm.evaluate(np.ones(60), (x, 0.1), x=x))
    many = np.linspace(-1, 1, 120)
    wide = fm.verdict(many, np.ones(120), fm.Poisson(np.full(120, 1e12)))
    assert "counts" in wide.skipped["remedy"]
    twice = pandas.DataFrame(np.stack([x, x], axis=1), columns=["a", "a"])
    assert fm.verdict(twice, x + 1, (x, 0.1)).wrong


@pytest.mark.slow
def test_columns_of_all_rows_where_some_were_left_out(rng):
    x = rng.uniform(-2, 2, 300)
    y = x + 0.5 + 0.3 * rng.normal(size=300)
    y[::7] = np.nan
    evaluation = fm.evaluate(y, fm.Gaussian(x, 0.3), x, nan_policy="omit", test=True)
    valid = np.isfinite(y)
    columns = {"x": x, "side": np.where(x > 0, "left", "right")}
    part = {name: values[valid] for name, values in columns.items()}
    regions = [evaluation.verdict(one).regions for one in (columns, part)]
    assert regions[0].table() == regions[1].table()
    pd = pytest.importorskip("pandas")
    assert evaluation.verdict(pd.DataFrame(columns)).regions.table() == regions[0].table()


def _faults():
    """Return names, draws of mean 0 and std 1, shift and factor of the model, and the true claim."""
    return [
        ("exponential", lambda rng, n: rng.exponential(size=n) - 1, (0.0, 1.0), "wrong shape"),
        (
            "heavy tails",
            lambda rng, n: rng.standard_t(3, n) / np.sqrt(3),
            (0.0, 1.0),
            "wrong shape",
        ),
        ("biased", lambda rng, n: rng.normal(size=n), (0.5, 1.0), "predicts 0.5"),
        ("too wide", lambda rng, n: rng.normal(size=n), (0.0, 1.5), "1.5 times too wide"),
        ("too narrow", lambda rng, n: rng.normal(size=n), (0.0, 0.5), "2 times too narrow"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "draw", "fault", "message"), _faults(), ids=lambda a: str(a)[:12])
def test_the_sentence_says_what_is_wrong_and_nothing_else(name, draw, fault, message):
    """A skewed truth of the same mean and std was called shifted and too wide; claims are about moments."""
    rng = np.random.default_rng(3)
    n = 1500
    x = rng.uniform(-1, 1, n)
    sentence = fm.verdict(x, x + draw(rng, n), fm.Gaussian(x + fault[0], fault[1])).sentence
    assert message in sentence.replace("0.48", "0.5").replace("0.49", "0.5"), sentence
    for claim in ("predicts", "too wide", "too narrow", "wrong shape"):
        assert (claim in sentence) == (claim in message), sentence


@pytest.mark.parametrize(("std", "spread"), [(0.2, ""), (0.6, "3 times too wide")])
def test_a_model_that_misses_a_wave_is_wrong_in_its_means(std, spread):
    """The shape of these predictions is right; the sentence said "wrong shape" or only "too wide"."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, N)
    result = fm.verdict(x, np.sin(3 * x) + 0.2 * rng.normal(size=N), fm.Gaussian(np.zeros(N), std))
    assert re.search(
        r"it predicts too low at \d\d% of inputs and too high at \d\d%", result.sentence
    )
    assert "shape" not in result.sentence
    assert "varies" in result.table()
    assert re.search(r"spread is \d(\.\d)? times too wide", result.sentence) or not spread


def test_means_of_counts_need_a_factor():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 1))
    mean = np.exp(1.0 + 0.3 * x[:, 0])
    table = fm.verdict(x, rng.poisson(mean), fm.Poisson(2 * mean)).table()
    title, _, line = table.splitlines()[:3]
    assert "mean times" in title
    assert float(line[title.index("mean times") :].split()[0]) == pytest.approx(0.5, abs=0.08)


def test_thresholds_of_incomes_have_no_exponent():
    rng = np.random.default_rng(0)
    income = rng.lognormal(10, 0.5, N).round()
    y = np.where(income > 30_000, 2.0, 0.0) + rng.normal(size=N)
    result = fm.verdict(np.log(income), y, (np.zeros(N), 1.0), {"income": income})
    assert "30" in result.where[0].description
    assert "e+" not in result.table()


def test_a_remedy_that_does_nothing_says_on_how_many_rows_it_was_fitted():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 300)
    result = fm.verdict(x, x + 0.5 + 0.3 * rng.normal(size=300), fm.Gaussian(x, 0.3))
    useless = replace(result, remedy=Remedy(0.0, 0.01, 300))
    assert "rescaling by input, fitted on 150 rows, does not mend it" in useless.sentence


@pytest.mark.parametrize(
    ("share", "p", "words"),
    [
        (0.98, 0.3, "would mend 98% of it, and what remains may be chance"),
        (0.47, 0.3, "would mend 47% of it; the rest is not beyond chance in 150 rows"),
        (0.98, 0.01, "would mend 98% of it, but a misfit beyond chance remains (p = 0.01)"),
        (np.nan, 0.3, "after rescaling by input the misfit is not beyond chance (in 150 rows)"),
        (np.nan, 0.01, "after rescaling by input a misfit beyond chance remains (p = 0.01)"),
    ],
)
def test_half_a_remedy_is_not_called_a_whole_one(share, p, words):
    """Of 47 % that were mended, the sentence said that "no misfit beyond chance remains"."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 300)
    result = fm.verdict(x, x + 0.5 + 0.3 * rng.normal(size=300), fm.Gaussian(x, 0.3))
    assert words in replace(result, remedy=Remedy(share, p, 300)).sentence


def test_a_verdict_without_a_diagnosis_says_how_far_outcomes_lie():
    """With ten inputs and 60 rows, a diagnosis establishes nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 10))
    y = x[:, 0] + 1.6 * rng.normal(size=60)
    result = fm.verdict(x, y, (x[:, 0], 1.0))
    assert result.overall is not None
    assert result.overall.empty
    assert result.test.dispersion == "too narrow"
    assert "; outcomes lie further from its predictions than these say" in result.sentence
    assert "diagnose(prediction.mean, y, prediction)" in repr(result)
    if result.where:
        assert "spread times" not in result.table()


def test_sentences_of_the_test_of_classes_speak_of_classes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    p = 1 / (1 + np.exp(-x))
    y = np.where(rng.random(300) < p, "yes", "no")
    sure = 1 / (1 + np.exp(-4 * x))
    test = fm.congruence_test(x, y, fm.Categorical(sure, classes=["no", "yes"]), random_state=0)
    assert test.sentence.endswith("; they are more sure of the classes than they should be.")


def test_a_prediction_in_place_of_the_outcomes_is_named():
    x = np.linspace(0, 1, 50)
    with pytest.raises(TypeError, match=r"the order of arguments is \(x, y, prediction\)"):
        fm.verdict(x, (x, np.ones(50)), x)
