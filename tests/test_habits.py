"""First attempts of newcomers: names, lookups, swapped arguments, clean completion, typed signatures."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import re

import numpy as np
import pytest

import fastmcmd as fm

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + RNG.normal(size=N)
PREDICTION = fm.Gaussian(X[:, 0], 1.0)
DRAWS = RNG.normal(size=(N, 9))
PROBS = RNG.dirichlet(np.ones(3), N)
LABELS = RNG.integers(0, 3, N)
SUBPACKAGES = ("metrics", "classification", "plots", "streaming", "recalibration", "compat")


@pytest.fixture(scope="module")
def evaluation():
    return fm.evaluate(Y, PREDICTION, X, test=False)


def test_evaluation_reads_like_a_dictionary(evaluation):
    assert evaluation["crps"] == pytest.approx(fm.crps(Y, PREDICTION).mean())
    assert evaluation["ece"] == pytest.approx(fm.ece(Y, PREDICTION))
    assert evaluation["cce"] == pytest.approx(evaluation.cce.mean)
    assert dict(evaluation) == dict(evaluation.items())
    assert list(evaluation) == list(evaluation.keys())
    assert evaluation.values()[0] == evaluation[next(iter(evaluation))]
    assert len(evaluation) == len(evaluation.keys())
    assert "crps" in evaluation
    assert "crsp" not in evaluation
    assert evaluation.get("crsp", 1.5) == 1.5
    assert evaluation.get("mean_energy_score") is None  # does not apply to numbers


def test_comparison_and_classes_read_like_dictionaries(evaluation):
    comparison = fm.compare({"GP": evaluation})
    assert comparison["GP"] is evaluation
    assert "GP" in comparison
    assert dict(comparison.items()) == {"GP": evaluation}
    assert comparison.get("tree") is None
    classes = fm.classification.evaluate(LABELS, PROBS)
    assert "nll" in classes
    assert classes.get("nll") == classes["nll"] == dict(classes)["nll"]


@pytest.mark.parametrize(
    ("look_up", "text"),
    [
        (lambda e: e["crsp"], "no measure 'crsp'; did you mean 'crps'? there are mae"),
        (lambda e: e[3], "no measure 3; there are mae"),
        (lambda e: fm.compare({"GP": e})["GPP"], "no model 'GPP'; did you mean 'GP'? there are GP"),
        (
            lambda e: fm.classification.evaluate(LABELS, PROBS)["nl"],
            "no measure 'nl'; did you mean 'nll'?",
        ),
    ],
)
def test_lookup_suggests_the_nearest_name(evaluation, look_up, text):
    with pytest.raises(KeyError, match=re.escape(text)):
        look_up(evaluation)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fm.verdict(Y, PREDICTION, X),
        lambda: fm.select_kernel(Y, PREDICTION),
        lambda: fm.weak_regions(X, Y, PREDICTION, X),
        lambda: fm.evaluate(Y, X, PREDICTION),
        lambda: fm.cce(PREDICTION, X, Y),
        lambda: fm.rejection_curve(PREDICTION, Y),
        lambda: fm.congruence_test(Y, PREDICTION, X),
        lambda: fm.crps(PREDICTION, Y),
        lambda: fm.recalibration.StdScaling().fit(Y, PREDICTION),
    ],
)
def test_prediction_in_the_place_of_an_array_is_recognised(call):
    with pytest.raises(TypeError, match=r"predicted distribution, Gaussian; .*order of"):
        call()


def _public():
    yield from ((name, getattr(fm, name)) for name in fm.__all__)
    for package in SUBPACKAGES[:-1]:
        module = getattr(fm, package)
        yield from ((f"{package}.{name}", getattr(module, name)) for name in module.__all__)


def test_signatures_show_types():
    """``Any`` is left to keyword arguments that are passed on, and to results of no common type."""
    vague = []
    for name, thing in _public():
        if not inspect.isfunction(thing) or name in ("load", "recalibration.load"):
            continue
        signature = inspect.signature(thing)
        kinds = {
            one.name: str(one.annotation)
            for one in signature.parameters.values()
            if one.kind is not one.VAR_KEYWORD
        }
        kinds["return"] = str(signature.return_annotation)
        vague += [
            f"{name}: {one}"
            for one, kind in kinds.items()
            if re.search(r"\bAny\b|inspect._empty", kind)
        ]
    for kind in (fm.Evaluation, fm.Comparison, fm.Result, fm.Verdict, fm.Diagnosis):
        for name in ("plot", "report"):
            method = getattr(kind, name, None)
            if method is not None:
                text = str(inspect.signature(method)).replace("**options: 'Any'", "")
                vague += [f"{kind.__name__}.{name}"] * bool(re.search(r"\bAny\b", text))
    assert vague == []


def test_completion_offers_nothing_foreign():
    for module in (fm, *(getattr(fm, name) for name in SUBPACKAGES)):
        offered = {name for name in dir(module) if not name.startswith("_")}
        assert offered <= set(module.__all__), module.__name__


@pytest.mark.parametrize(
    "curve",
    [
        fm.metrics.reliability_curve(Y, PREDICTION),
        fm.metrics.ence_curve(Y, PREDICTION),
        fm.metrics.pit_histogram(Y, PREDICTION),
        fm.metrics.pit_ecdf(Y, PREDICTION),
        fm.metrics.rank_histogram(Y, DRAWS),
        fm.metrics.discrimination(Y, PREDICTION, threshold=0.0),
        fm.metrics.roc_curve(Y, PREDICTION, threshold=0.0),
        fm.metrics.murphy_curve(Y, PREDICTION),
        fm.metrics.adversarial_group_calibration(Y, PREDICTION),
        fm.classification.reliability_curve(LABELS, PROBS),
        fm.classification.accuracy_above_confidence(LABELS, PROBS),
    ],
    ids=lambda curve: type(curve).__name__,
)
def test_curves_are_values(curve):
    columns = curve.to_dict()
    assert len({len(values) for values in columns.values()}) == 1
    assert json.loads(json.dumps(columns)).keys() == columns.keys()
    np.testing.assert_equal(pickle.loads(pickle.dumps(curve)).to_dict(), columns)
    np.testing.assert_equal(copy.deepcopy(curve).to_dict(), columns)
    assert curve._repr_html_()
    pytest.importorskip("pandas")
    assert list(curve.to_frame().columns) == list(columns)


def test_roc_points_are_those_of_the_columns():
    curve = fm.metrics.roc_curve([0.0, 2.0, 3.0], ([0.0, 2.0, 1.0], 1.0), threshold=1.0)
    columns = curve.to_dict()
    assert columns["true_positive_rate"] == curve.true_positive_rate.tolist()
    area = np.trapezoid(columns["true_positive_rate"], columns["false_positive_rate"])
    assert area == pytest.approx(curve.area)


@pytest.mark.parametrize("kind", [np.asarray, list, lambda one: np.asarray(one).tolist()])
@pytest.mark.parametrize("score", [fm.crps, fm.nll, fm.metrics.energy_score, fm.evaluate])
def test_draws_in_place_of_outcomes(score, kind):
    with pytest.raises(ValueError, match=r"the order of arguments is \(y, prediction\)"):
        score(kind(DRAWS), kind(Y))
