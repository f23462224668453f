"""Results are found by the names that people type; an unknown name brings near ones."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fastmcmd as fm

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, 60)
Y = X + 0.3 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def comparison():
    return fm.compare({"GP": fm.Gaussian(X, 0.3), "wide": fm.Gaussian(X, 1.0)}, Y, X, test=False)


def test_short_names_are_the_means(comparison):
    evaluation = comparison["GP"]
    assert evaluation["crps"] == evaluation["mean_crps"] == fm.crps(Y, (X, 0.3)).mean()
    assert evaluation["ece"] == evaluation["regression_ece"] == fm.ece(Y, (X, 0.3))
    assert evaluation["cce"] == evaluation["mean_cce"] == evaluation.cce.mean
    assert dict(evaluation)["rmse"] == evaluation["rmse"]
    assert set(evaluation.keys()) == {one.name for one in evaluation.measured}


def test_a_missing_name_suggests_the_nearest(comparison):
    with pytest.raises(KeyError, match="did you mean 'mean_crps'"):
        comparison["GP"]["mean_crp"]
    with pytest.raises(KeyError, match="did you mean 'crps'"):
        comparison["GP"]["CRPS"]
    with pytest.raises(KeyError, match=r"mean_energy_score does not apply"):
        comparison["GP"]["energy_score"]
    with pytest.raises(KeyError, match="did you mean 'GP'"):
        comparison["gp"]


def test_a_comparison_is_a_mapping_and_a_frame(comparison):
    assert comparison.keys() == ("GP", "wide")
    assert [comparison[name] for name in comparison] == list(comparison.evaluations.values())
    frame = comparison.to_frame()
    assert frame.loc["mean_crps", "GP"] == comparison["GP"]["crps"]
    assert list(frame.columns) == ["section", "label", "GP", "wide"]


def test_notebooks_show_tables(comparison):
    html = comparison._repr_html_()
    assert html.count("<tr>") == len(comparison.table().splitlines()) - 1
    assert "<table>" in comparison["GP"]._repr_html_()
    as_html = fm.compare({"<script>": fm.Gaussian(X, 0.3)}, Y)._repr_html_()
    assert "<script>" not in as_html


def test_report_returns_its_path(comparison, tmp_path, request):
    pytest.importorskip("matplotlib")
    request.getfixturevalue("unpainted")
    path = comparison["GP"].report(str(tmp_path / "one.html"))
    assert path.read_text().startswith("<!doctype html>")


def test_levels_of_intervals_are_named(comparison):
    """A newcomer read "coverage of the central interval" as that of 95 %; it was that of 90 %."""
    assert "coverage of the central interval (90 %)" in comparison["GP"].table()
    assert "interval score (90 %)" in comparison.table()
    assert "(80 %)" in fm.evaluate(Y, (X, 0.3), level=0.8).table()
    mixed = {"a": fm.evaluate(Y, (X, 0.3), level=0.8), "b": fm.evaluate(Y, (X, 0.3))}
    assert "central interval (" not in fm.compare(mixed).table()


def test_a_repr_does_not_change_from_run_to_run():
    one, other = (repr(fm.evaluate(Y, (X, 0.3))) for _ in range(2))
    assert one == other


def test_sorted_draws_are_suspected_to_be_quantiles():
    """An array of five predicted quantiles counts as five draws of equal weight: coverage .75 for 90 %."""
    quantiles = fm.Gaussian(X, 0.3).quantile([0.05, 0.25, 0.5, 0.75, 0.95])
    assert any("Quantiles(levels, values)" in one for one in fm.evaluate(Y, quantiles).notes)
    draws = fm.Gaussian(X, 0.3).sample(5, random_state=0)
    assert not fm.evaluate(Y, draws).notes
    assert not fm.evaluate(Y, np.repeat(X[:, None], 5, axis=1)).notes
    with pytest.raises(ValueError, match=r"the order is \(levels, values\)"):
        fm.Quantiles(quantiles, [0.05, 0.25, 0.5, 0.75, 0.95])


def test_classes_are_said_to_be_read_as_numbers():
    """Digits were read as numbers: their mean absolute error was 2.1, without a warning."""
    p = np.random.default_rng(0).dirichlet(np.ones(4), 40)
    labels = np.arange(40) % 4
    assert any("classes=names" in one for one in fm.evaluate(labels, fm.Categorical(p)).notes)
    counts = fm.Categorical(p, values=[0.0, 1.0, 5.0, 10.0])
    assert not fm.evaluate(np.array([0.0, 1.0, 5.0, 10.0] * 10), counts).notes


def test_the_exact_test_gives_the_same_answer_twice():
    """Two calls without a seed came to opposite conclusions: p = .02 and p = .055."""
    first, second = (fm.congruence_test(X, Y, (X, 0.25)) for _ in range(2))
    assert repr(first) == repr(second)


def test_a_p_value_is_never_zero():
    x = np.random.default_rng(1).normal(size=2000)
    y = x + 0.1 * np.random.default_rng(2).normal(size=2000)
    both = fm.compare({"good": (x, 0.1), "bad": (np.zeros(2000), 1.0)}, y)
    assert "p < 0.0001" in both.sentence
    assert "p = 0)" not in both.sentence


@pytest.mark.slow
def test_the_namespace_holds_our_names_alone():
    code = (
        "import fastmcmd as fm\n"
        "assert set(n for n in dir(fm) if n[0] != '_') == set(n for n in fm.__all__ if n[0] != '_')\n"
        "assert fm.plots.reliability and fm.metrics.crps is fm.crps\n"
        "assert fm.compat.uncertainty_toolbox.get_all_metrics"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
