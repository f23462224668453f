"""Evaluations of classes that have no order."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.evaluation.class_gaps import ClassGaps
from fastmcmd.evaluation.context import Context, Settings
from fastmcmd.metrics.inputs import read

NAMES = ("cat", "dog", "emu")
NUMBERS = {
    "accuracy": fm.classification.accuracy,
    "auroc": fm.classification.auroc,
    "nll": fm.classification.nll,
    "mean_brier_score": fm.classification.mean_brier_score,
    "ece": fm.classification.ece,
    "classwise_ece": fm.classification.classwise_ece,
}


def sample(rng, n=300, classes=3, sharper=1.0):
    """Return inputs, labels, and the true probabilities raised to a power."""
    x = rng.normal(size=(n, 2))
    scores = np.concatenate([np.zeros((n, 1)), x, x[:, :1] * x[:, 1:]], axis=1)[:, :classes]
    right = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (right.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1)
    p = right**sharper
    return x, y, p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_are_those_of_the_functions(rng, classes, weighted):
    _, y, p = sample(rng, classes=classes, sharper=2.0)
    weights = rng.uniform(0.5, 2.0, len(y)) if weighted else None
    prediction = fm.Categorical(p, classes=NAMES[:classes] if classes < 4 else [*NAMES, "gnu"])
    evaluation = fm.evaluate(y, prediction, sample_weight=weights)
    for name, function in NUMBERS.items():
        expected = function(y, p, sample_weight=weights)
        assert evaluation[name] == pytest.approx(expected, rel=1e-12), name
    confidence, entropy = fm.classification.confidence(p), fm.classification.entropy(p)
    assert evaluation["confidence"] == pytest.approx(np.average(confidence, weights=weights))
    assert evaluation["entropy"] == pytest.approx(np.average(entropy, weights=weights))
    assert evaluation["brier_score"] == evaluation["mean_brier_score"]
    np.testing.assert_allclose(evaluation.rows["brier_score"], fm.classification.brier_score(y, p))


def test_names_are_outcomes(rng):
    x, y, p = sample(rng)
    prediction = fm.Categorical(p, classes=NAMES)
    names = np.array(NAMES)[y]
    of_names, of_numbers = fm.evaluate(names, prediction), fm.evaluate(y, prediction)
    assert of_names.to_dict()["metrics"] == of_numbers.to_dict()["metrics"]
    np.testing.assert_array_equal(
        fm.cce(x, names, prediction).values, fm.cce(x, y, prediction).values
    )
    labels = names.astype(object)
    labels[4] = None
    valid = np.delete(np.arange(len(y)), 4)
    with pytest.raises(ValueError, match="NaN"):
        fm.evaluate(labels, prediction)
    omitted = fm.evaluate(labels, prediction, nan_policy="omit")
    assert omitted["nll"] == pytest.approx(fm.evaluate(y[valid], prediction.take(valid))["nll"])


def test_what_is_no_class_is_refused(rng):
    _, y, p = sample(rng)
    prediction = fm.Categorical(p, classes=NAMES)
    with pytest.raises(
        ValueError, match=r"y\[0\] is 'bee', which is no class .* 'cat', 'dog', 'emu'"
    ):
        fm.evaluate(np.where(y >= 0, "bee", ""), prediction)
    with pytest.raises(ValueError, match="name its classes"):
        fm.evaluate(np.array(NAMES)[y], fm.Categorical(p))
    with pytest.raises(ValueError, match="integers from 0 to 2"):
        fm.evaluate(y + 1, prediction)
    with pytest.raises(ValueError, match="2 names, and probs has 3 columns"):
        fm.Categorical(p, classes=["cat", "dog"])
    with pytest.raises(ValueError, match="'cat' twice"):
        fm.Categorical(p, classes=["cat", "dog", "cat"])
    with pytest.raises(ValueError, match="values and classes"):
        fm.Categorical(p, [0, 1, 2], classes=NAMES)


def test_measures_of_numbers_are_left_out(rng):
    _, y, p = sample(rng)
    evaluation = fm.evaluate(y, fm.Categorical(p, classes=NAMES))
    assert {one.name for one in evaluation.measured} == {*NUMBERS, "confidence", "entropy"}
    assert "not applicable: mean_cce, max_cce" in repr(evaluation)  # without inputs
    with pytest.raises(KeyError, match="classes have no order"):
        evaluation["crps"]
    numbers = fm.evaluate(y.astype(float), (np.zeros(len(y)), 1.0))
    assert "accuracy" not in numbers.skipped
    assert "pit" not in evaluation.rows
    json.dumps(evaluation.to_dict())


def test_gaps_give_the_calibration_errors(rng):
    _, y, p = sample(rng, sharper=2.0)
    weights = rng.uniform(0.5, 2.0, len(y))
    prediction = fm.Categorical(p, classes=NAMES)
    context = Context(read(y, prediction, weights), Settings())
    for name in ("ece", "classwise_ece"):
        events = ClassGaps.of(name, context)
        gaps = events.gaps(events.observed(context.labelled.known_labels), weights)
        expected = NUMBERS[name](y, p, sample_weight=weights)
        assert ClassGaps.error(gaps) == pytest.approx(expected, rel=1e-10)


def test_a_right_model_is_near_what_is_expected_of_it(rng):
    """Means over 40 samples agree within 4 standard errors on either side."""
    values, expected = [], []
    for _ in range(40):
        _, y, p = sample(rng, 200)
        evaluation = fm.evaluate(y, fm.Categorical(p, classes=NAMES))
        nulls = {one.name: one.null for one in evaluation.measured}
        values.append([evaluation["ece"], evaluation["classwise_ece"]])
        expected.append([nulls["ece"], nulls["classwise_ece"]])
    gap = np.array(values) - np.array(expected)
    assert np.all(np.abs(gap.mean(axis=0)) < 4 * gap.std(axis=0) / np.sqrt(40))


def test_intervals_groups_and_pairs(rng):
    x, y, p = sample(rng, sharper=3.0)
    roots = p ** (1 / 3)
    sharp = fm.Categorical(p, classes=NAMES)
    true = fm.Categorical(roots / roots.sum(axis=1, keepdims=True), classes=NAMES)
    side = np.where(x[:, 0] > 0, "right", "left")
    comparison = fm.compare({"sharp": sharp, "true": true}, y, x, n_boot=60, by=side)
    evaluation = comparison["sharp"]
    for one in evaluation.measured:
        if one.section != "congruence":
            assert one.low <= one.value <= one.high, one.name
    assert set(evaluation.by) == {"left", "right"}
    rows, numbers = evaluation.by["left"]
    assert rows == (side == "left").sum()
    left = {one.name: one.value for one in numbers}
    assert left["nll"] == pytest.approx(fm.classification.nll(y[side == "left"], p[side == "left"]))
    assert comparison.starred("nll") == {1}
    assert "negative log-likelihood" in comparison.sentence


def test_a_group_of_one_class_has_no_area(rng):
    _, y, p = sample(rng)
    evaluation = fm.evaluate(
        y, fm.Categorical(p, classes=NAMES), by=np.where(y == 1, "dogs", "others")
    )
    assert "auroc" not in {one.name for one in evaluation.by["dogs"][1]}


def test_pictures_and_report(rng, tmp_path, request):
    pytest.importorskip("matplotlib")
    request.getfixturevalue("unpainted")
    x, y, p = sample(rng, 120, sharper=2.0)
    evaluation = fm.evaluate(y, fm.Categorical(p, classes=NAMES), x)
    titles = [ax.get_title() for ax in evaluation.plot().axes]
    assert "Frequency and probability" in titles
    assert "Sharpness" not in titles
    page = evaluation.report(tmp_path / "report.html").read_text()
    assert "probability of the outcome" in page
    assert "predicted std" not in page


def test_command_line(rng, tmp_path, capsys):
    from fastmcmd.cli import main

    x, y, p = sample(rng, 150, sharper=2.0)
    file = tmp_path / "animals.csv"
    lines = ["animal,age,side,cat,dog,emu"]
    for label, (age, other), row in zip(np.array(NAMES)[y], x, p, strict=True):
        lines.append(
            f"{label},{age},{'a' if other > 0 else 'b'},{','.join(map(repr, row.tolist()))}"
        )
    file.write_text("\n".join(lines) + "\n")
    spec = "classes:cat=cat,dog=dog,emu=emu"
    arguments = [str(file), "--y", "animal", "--x", "age", "--format", "json"]
    assert not main(["evaluate", *arguments, "--prediction", spec, "--by", "side"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["metrics"]["accuracy"] == fm.classification.accuracy(y, p)
    assert set(printed["by"]) == {"a", "b"}
    assert main(["evaluate", *arguments, "--prediction", "classes:cat=cat,dog=dog"])
    assert "the classes of --prediction are cat, dog" in capsys.readouterr().err


def test_models_need_the_same_classes(rng):
    _, y, p = sample(rng)
    names = np.array(NAMES)[y]
    models = {
        "one": fm.Categorical(p, classes=NAMES),
        "other": fm.Categorical(p, classes=NAMES[::-1]),
    }
    with pytest.raises(ValueError, match="the same names in the same order"):
        fm.compare(models, names)


def test_names_are_outcomes_of_tests(rng):
    x, y, p = sample(rng, 120)
    prediction, names = fm.Categorical(p, classes=NAMES), np.array(NAMES)[y]
    of_names, of_numbers = (fm.congruence_test(x, one, prediction) for one in (names, y))
    assert of_names.p_value == of_numbers.p_value
    regions = fm.weak_regions({"u": x[:, 0]}, x, names, prediction)
    assert repr(regions) == repr(fm.weak_regions({"u": x[:, 0]}, x, y, prediction))


@pytest.mark.parametrize("classes", [[1, 2, 3], [2, 0, 1], [-1, 0, 1], ["cat", 1, 2]], ids=str)
def test_numbers_are_no_names(rng, classes):
    """Label 1 selected the second column, whose name was "2"."""
    _, _, p = sample(rng)
    with pytest.raises(ValueError, match=r"classes holds numbers.* columns 0 to 2.*astype\(str\)"):
        fm.Categorical(p, classes=classes)


def test_numbers_of_columns_are_names(rng):
    _, y, p = sample(rng)
    numbered = fm.Categorical(p, classes=np.arange(3))  # the classes_ of a scikit-learn classifier
    expected = fm.evaluate(y, fm.Categorical(p, classes=NAMES))["nll"]
    assert (
        fm.evaluate(y, numbered)["nll"] == fm.evaluate(y.astype(str), numbered)["nll"] == expected
    )


def test_numbers_that_are_no_class_are_refused_everywhere(rng):
    x, y, p = sample(rng)
    prediction, labels = fm.Categorical(p, classes=NAMES), np.where(np.arange(len(y)) == 5, 3, y)
    for function in (
        fm.cce, fm.congruence_test, fm.diagnose, fm.kernel_report, fm.verdict,
        lambda *arguments: fm.evaluate(labels, prediction),
        lambda *arguments: fm.weak_regions(x, *arguments),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"y\[5\] is 3; .* integers from 0 to 2"):
            function(x, labels, prediction)


@pytest.mark.slow
def test_names_are_outcomes_of_verdict_diagnosis_and_selection(rng):
    x, y, p = sample(rng)
    names, wrong = np.array(NAMES)[y], fm.Categorical(np.roll(p, 1, axis=0), classes=NAMES)
    assert fm.verdict(x, names, wrong).sentence == fm.verdict(x, y, wrong).sentence
    assert fm.verdict(x, names, wrong).wrong
    assert "classes" in fm.diagnose(x, names, wrong).reason
    by_names, same = fm.select_kernel(x, names), fm.select_kernel(x, y, y_kernel=fm.Delta())
    assert (by_names.x_kernel, by_names.lam) == (same.x_kernel, same.lam)


def test_a_witness_is_of_numbers_of_classes(rng):
    x, y, p = sample(rng)
    fitted = fm.ConditionalCongruence().fit(x, np.array(NAMES)[y], fm.Categorical(p, classes=NAMES))
    with pytest.raises(TypeError, match="y_grid holds text; the numbers of classes"):
        fitted.witness(x[:2], NAMES)
    assert fitted.witness(x[:2], np.arange(3)).shape == (2, 3)


def test_names_need_a_prediction_of_classes(rng):
    x, y, p = sample(rng)
    names = np.array(NAMES)[y]
    for call in (
        lambda: fm.evaluate(names, p), lambda: fm.cce(x, names, p),
        lambda: fm.congruence_test(x, names, (x[:, 0], 1.0)), lambda: fm.kernel_report(x, names),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"y holds text.*Categorical\(p, classes=...\)"):
            call()


def test_an_infinite_score_leaves_the_conclusion_to_the_brier_score(rng):
    x, y, p = sample(rng, 400)
    blurred = np.full_like(p, 1 / 3)
    blurred[0] = np.eye(3)[(y[0] + 1) % 3]  # no probability for the first outcome
    models = {
        "true": fm.Categorical(p, classes=NAMES),
        "blurred": fm.Categorical(blurred, classes=NAMES),
    }
    both = fm.compare(models, y, x)
    assert both.sentence.startswith(
        "true is better than blurred beyond chance (p < 0.0001): its Brier"
    )
    assert "the negative log-likelihood of blurred is infinite" in both.sentence
    one = both.pairs.of("mean_brier_score")[0]
    expected = fm.classification.mean_brier_score(y, p) - fm.classification.mean_brier_score(
        y, blurred
    )
    assert one.difference == pytest.approx(expected)
    assert "Brier score" in both.differences()
    assert both.map().measure == "Brier score"
    with pytest.raises(ValueError, match="such as 'mean_brier_score' is needed"):
        both.map(measure="nll")


def test_the_line_of_the_cce_has_the_weights_of_the_table(rng):
    x, y, p = sample(rng)
    weights = np.where(x[:, 0] > 0.5, 20.0, 0.1)
    evaluation = fm.evaluate(y, fm.Categorical(p, classes=NAMES), x, sample_weight=weights)
    expected = np.average(evaluation.rows["cce"], weights=weights)
    assert evaluation.cce_line.startswith(f"CCE {expected:.3g} ")
    assert f"{expected:.3g}" != f"{evaluation.cce.mean:.3g}"


def test_a_class_without_outcomes_is_noted(rng):
    _, y, p = sample(rng)
    rows = np.flatnonzero(y != 0)
    prediction = fm.Categorical(p, classes=NAMES)
    evaluation = fm.evaluate(y[rows], prediction.take(rows))
    note = "no outcome is 'cat': the area under the ROC curve is of the others"
    assert evaluation.notes == (note,)
    assert fm.evaluate(y, prediction).notes == ()
    only = np.flatnonzero(y == 1)
    assert fm.evaluate(y[only], prediction.take(only)).notes == ()  # there is no area
    areas = fm.classification.auroc(y[rows], p[rows], absent="omit")
    assert evaluation["auroc"] == pytest.approx(float(areas), rel=1e-12)


def test_rows_that_are_left_out_do_not_count_in_the_title(rng):
    _, y, p = sample(rng)
    labels = np.where(np.arange(len(y)) < 7, np.nan, y)
    evaluation = fm.evaluate(labels, fm.Categorical(p, classes=NAMES), nan_policy="omit")
    assert "at 293 of 300 rows" in repr(evaluation)
    assert "at 300 rows" in repr(fm.evaluate(y, fm.Categorical(p, classes=NAMES)))


def test_the_confidence_set_of_classifiers_is_by_the_brier_score(rng):
    _, y, p = sample(rng)
    right, flat = (fm.Categorical(one, classes=NAMES) for one in (p, np.full_like(p, 1 / 3)))
    both = fm.compare({"right": right, "flat": flat}, y)
    assert both.confidence_set() == both.confidence_set("mean_brier_score")
    assert both.confidence_set()["right"] == 1.0


def test_groups_may_be_named_by_text_as_a_condition(rng):
    """The command line took words, and Python refused them."""
    x, y, p = sample(rng)
    names = np.array(["left", "middle", "right"])
    place = np.digitize(x[:, 0], [-0.5, 0.5])
    prediction = fm.Categorical(p, classes=NAMES)
    by_name = fm.congruence_test(x, y, prediction, condition_on=names[place], at=["right", "left"])
    columns = np.eye(3)
    by_column = fm.congruence_test(
        x, y, prediction, condition_on=columns[place], at=columns[[2, 0]]
    )
    assert by_name.to_dict() == by_column.to_dict()
    assert by_name.rows.adjusted.tolist() == by_column.rows.adjusted.tolist()
    with pytest.raises(ValueError, match="labels of condition_on are needed, such as 'left'"):
        fm.congruence_test(x, y, prediction, condition_on=names[place], at=["up"])
    some = names[place].astype(object)
    some[3] = None
    with pytest.raises(ValueError, match="no label in row 3"):
        fm.congruence_test(x, y, prediction, condition_on=some)


def test_recalibration_refuses_named_classes_but_for_the_temperature(rng):
    pandas = pytest.importorskip("pandas")
    x, y, p = sample(rng)
    module = fm.recalibration
    prediction, names = fm.Categorical(p, classes=NAMES), np.array(NAMES)[y]
    for recalibrator in (module.QuantileRecalibrator(), module.IsotonicCDF(), module.StdScaling(),
                         module.ConditionalRescaling(), module.WitnessTilting()):  # fmt: skip
        with pytest.raises(ValueError, match=r"classes, which have no order.*TemperatureScaling"):
            recalibrator.fit(prediction, names, x)
    with pytest.raises(ValueError, match=r"classes, which have no order"):
        module.ConformalIntervals().fit(prediction, names)
    numbers = module.QuantileRecalibrator().fit((x[:, 0], 1.0), x[:, 1])
    with pytest.raises(ValueError, match=r"classes, which have no order"):
        numbers.transform(prediction)
    logits = 2.0 * np.log(p)
    expected = module.TemperatureScaling().fit(logits, y).temperature_
    assert module.TemperatureScaling().fit(logits, names).temperature_ == expected
    table = pandas.DataFrame(logits, columns=[3, 1, 2])
    labels = np.array([3, 1, 2])[y]
    assert module.TemperatureScaling().fit(table, labels).temperature_ == expected


@pytest.mark.parametrize(("sharper", "word"), [(4.0, "more"), (0.25, "less")])
def test_the_sentence_says_whether_a_classifier_is_too_sure(rng, sharper, word):
    x, y, p = sample(rng, 1000, sharper=sharper)
    evaluation = fm.evaluate(y, fm.Categorical(p, classes=NAMES), x)
    ending = f"; it is {word} sure of the classes than it should be."
    assert evaluation.sentence.startswith("The model is wrong beyond chance (p = 0.005)")
    assert evaluation.sentence.endswith(ending)
    assert evaluation.test.dispersion == ("too narrow" if sharper > 1 else "too wide")


def test_classes_in_another_order_than_the_columns_are_refused(rng):
    pandas = pytest.importorskip("pandas")
    _, _, p = sample(rng)
    table = pandas.DataFrame(p, columns=list(NAMES))
    expected = fm.Categorical(p, classes=NAMES).probs
    np.testing.assert_array_equal(fm.Categorical(table, classes=NAMES).probs, expected)
    np.testing.assert_array_equal(fm.Categorical(table, classes=["a", "b", "c"]).probs, expected)
    with pytest.raises(ValueError, match="classes is 'dog', 'cat', 'emu' and the columns of probs"):
        fm.Categorical(table, classes=["dog", "cat", "emu"])


def test_a_number_is_no_outcome_where_names_are_other_numbers(rng):
    """With the classes "2", "0", "1", outcome 0 was read as the first class."""
    x, y, p = sample(rng)
    names = np.array(["2", "0", "1"])
    shifted, plain = fm.Categorical(p, classes=names), fm.Categorical(p, classes=NAMES)
    for function in (fm.cce, fm.congruence_test, fm.diagnose, fm.kernel_report, fm.verdict):
        with pytest.raises(
            ValueError, match=r"y holds numbers, and classes has the name '2'.*astype"
        ):
            function(x, y, shifted)
    with pytest.raises(ValueError, match="a number may mean a name or a place"):
        fm.evaluate(y, shifted, x)
    actual, expected = (
        fm.evaluate(np.asarray(column_names)[y.astype(int)], prediction, x)
        for column_names, prediction in ((names, shifted), (NAMES, plain))
    )
    assert actual["nll"] == expected["nll"]
    assert actual["accuracy"] == expected["accuracy"]
    in_order = fm.Categorical(p, classes=["0", "1", "2"])
    assert fm.evaluate(y, in_order)["nll"] == expected["nll"]
