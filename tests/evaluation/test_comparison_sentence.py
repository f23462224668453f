"""The first sentence of a comparison says which model is better, and which are wrong."""

import html
from types import SimpleNamespace

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.evaluation.conclusion import comparison_sentence
from fastmcmd.evaluation.differences import PairOfModels, Pairs


def pair(measure, first, second, difference, p):
    return PairOfModels(measure, first, second, difference, np.nan, np.nan, p, p)


def model(p, nll=1.0):
    """Return a stand-in for an evaluation with this p-value of its test; None means no test."""
    score = SimpleNamespace(name="nll", value=nll)
    test = None if p is None else SimpleNamespace(p_value=p)
    return SimpleNamespace(test=test, measured=(score,))


def models_with(**p_values):
    return {name: model(p) for name, p in p_values.items()}


@pytest.mark.parametrize(
    ("evaluations", "records", "sentence"),
    [
        (
            models_with(A=0.005, B=0.005),
            [("nll", "A", "B", 0.21, 0.004)],
            "B is better than A beyond chance (p = 0.004): its negative log-likelihood is 0.21 lower; "
            "both are wrong beyond chance.",
        ),
        (
            models_with(a=0.3, b=0.01),
            [("mean_crps", "a", "b", -0.01, 0.4)],
            "Neither a nor b is better beyond chance (p = 0.4): the CRPS differs by 0.01; "
            "b is wrong beyond chance, and no misfit of a was found.",
        ),
        (
            models_with(a=0.3, b=0.6, c=None),
            [("nll", "a", "b", -1, 0.01), ("nll", "a", "c", -3, 0.001), ("nll", "b", "c", -2, 0.001)],
            "a is the best of 3 models beyond chance (p at most 0.01): its negative log-likelihood is 1 "
            "lower than that of b, the next; no misfit beyond chance was found in either.",
        ),
        (
            models_with(a=None, b=None, c=None),
            [("nll", "a", "b", -1, 0.2), ("nll", "a", "c", -3, 0.001), ("nll", "b", "c", -2, 0.001)],
            "No model is the best beyond chance: a has the lowest negative log-likelihood, and "
            "b (p = 0.2) may be as good.",
        ),
        (  # scores that disagree, and an infinite difference that says nothing
            models_with(a=None, b=None),
            [("nll", "a", "b", -0.5, 0.01), ("mean_crps", "a", "b", 0.1, 0.02)],
            "a is better than b beyond chance (p = 0.01): its negative log-likelihood is 0.5 lower; "
            "by CRPS b is better beyond chance.",
        ),
        (
            {"a": model(None, np.inf), "b": model(None)},
            [("nll", "a", "b", np.inf, np.nan), ("mean_crps", "a", "b", 0.1, 0.02)],
            "b is better than a beyond chance (p = 0.02): its CRPS is 0.1 lower; "
            "the negative log-likelihood of a is infinite.",
        ),
        (
            {"a": model(0.01), "b": model(0.01, np.inf)},
            [("nll", "a", "b", -np.inf, 0.0), ("mean_brier_score", "a", "b", -0.1, 0.4)],
            "Neither a nor b is better beyond chance (p = 0.4): the Brier score differs by 0.1; "
            "the negative log-likelihood of b is infinite; both are wrong beyond chance.",
        ),
        (models_with(a=None, b=None), [], ""),
        (models_with(a=0.01), [], ""),
    ],
)  # fmt: skip
def test_sentences(evaluations, records, sentence):
    pairs = Pairs([pair(*one) for one in records], 0.05)
    assert comparison_sentence(evaluations, pairs, 0.05) == sentence


@pytest.mark.slow
def test_a_comparison_and_its_report_begin_with_the_sentence(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + 0.5 * rng.normal(size=200)
    models = {"right": fm.Gaussian(x, 0.5), "flat": fm.Gaussian(np.zeros(200), 1.0)}
    both = fm.compare(models, y, x)
    assert both.sentence.startswith("right is better than flat beyond chance (p < 0.0001)")
    assert both.sentence.endswith(
        "; flat is wrong beyond chance, and no misfit of right was found."
    )
    assert repr(both).startswith(both.sentence + "\n")
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, stream, **_: stream.write("<svg></svg>")
    )
    both.report(tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert html.escape(both.sentence) in page


def test_a_comparison_says_why_numbers_are_missing(rng):
    y = rng.normal(size=50)
    members = rng.normal(size=(50, 6))
    models = {"members": members, "Gaussian": fm.Gaussian(np.zeros(50), 1.0), "points": 0 * members}
    comparison = fm.compare(models, y)
    first, second, third = comparison.gaps()
    assert first.startswith("not computed for Gaussian, points: Pearson correlation (")
    assert second == (
        "not computed for members, points: negative log-likelihood (the prediction has no density)"
    )
    assert third.startswith("not computed for points: Dawid-Sebastiani score, ENCE, ")
    assert second in repr(comparison)
    assert fm.compare({"Gaussian": models["Gaussian"]}, y).gaps() == []


def test_tiny_p_values_are_bounds(rng):
    """A normal approximation says nothing about a p-value of 1e-168."""
    y = rng.normal(size=400)
    comparison = fm.compare({"near": (y, np.ones(400)), "far": (y + 9, np.ones(400))}, y)
    assert comparison.pairs.of("mean_crps")[0].p_value < 1e-4
    assert "< 0.0001" in comparison.differences()
    assert "e-" not in comparison.differences()


@pytest.mark.parametrize("by", ["sex", {"sex": np.zeros(50)}])
def test_groups_are_labels_of_rows(by):
    with pytest.raises(TypeError, match=r"by is .*; one label per row is needed"):
        fm.evaluate(np.zeros(50), fm.Gaussian(np.zeros(50), 1.0), by=by)


@pytest.mark.slow
def test_a_comparison_by_groups_tests_its_models_by_groups():
    """A right model of dependent rows was called wrong beyond chance (p = 0.005) in the first line."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    common = rng.normal(size=40)[groups]
    x = 0.2 * rng.normal(size=400) + rng.normal(size=40)[groups]
    y = x + 0.8 * common + 0.6 * rng.normal(size=400)
    models = {"a": fm.Gaussian(x, 1.0), "b": fm.Gaussian(x, 1.3)}
    apart = {name: fm.evaluate(y, one, x) for name, one in models.items()}
    assert apart["a"].test.exact
    assert apart["a"].test.p_value <= 0.05
    both = fm.compare(apart, groups=groups)
    assert both["a"].test.clusters == 40
    assert both["a"].test.p_value > 0.05
    assert "b is wrong beyond chance, and no misfit of a was found" in both.sentence
    assert "approximate" in both["b"].sentence
    again = fm.compare(models, y, x, groups=groups)
    assert again["b"].test.to_dict() == both["b"].test.to_dict()
    few = fm.compare(apart, block_length=60)
    assert few["a"].test is None
    assert "wrong" not in few.sentence


def test_a_clause_begins_with_a_capital_where_a_model_is_called_b():
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    models = {name: fm.Gaussian(x, 3.0) for name in ("a", "b")}
    comparison = fm.compare(models, x + rng.normal(size=100), x)
    assert not comparison.sentence.startswith("both")
