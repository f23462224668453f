"""Results have a notebook view: their text, escaped, without wall times."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import fastmcmd as fm

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 2))
Y = X[:, 0] + RNG.normal(size=150)
P = fm.Gaussian(X[:, 0], 1.0)
RESULTS = {
    "cce": lambda: fm.cce(X, Y, P),
    "downsampled": lambda: fm.downsampled_cce(X, Y, P, 60),
    "test": lambda: fm.congruence_test(X, Y, P, simulations=19),
    "diagnosis": lambda: fm.diagnose(X, Y, P),
    "kernel choice": lambda: fm.select_kernel(X, Y),
    "rejection": lambda: fm.rejection_curve(np.abs(X[:, 1]), (Y - X[:, 0]) ** 2),
    "pairs": lambda: fm.compare({"<a>": P, "b": fm.Gaussian(X[:, 0], 2.0)}, Y).pairs,
    "reliability": lambda: fm.metrics.reliability_curve(Y, P),
    "pit": lambda: fm.metrics.pit_histogram(Y, P),
    "plan": lambda: fm.plan(X),
}


@pytest.mark.parametrize("name", RESULTS)
def test_notebooks_show_the_text(name):
    result = RESULTS[name]()
    view = result._repr_html_()
    assert "<a>" not in view
    text = html.unescape(re.sub(r"^<p>|^<pre>|</p>$|</pre>$", "", view.replace("</p><pre>", "\n")))
    assert text == repr(result)


@pytest.mark.parametrize("name", sorted(set(RESULTS) - {"plan"}))
def test_text_holds_no_wall_time(name):
    assert not re.search(r"\d m?s\b|seconds", repr(RESULTS[name]()))
