"""Docstrings that are composed at import: every parameter is described, and examples run."""

import doctest
import inspect
import re
from operator import attrgetter

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd._base.docstrings import entries, with_shared_parameters
from fastmcmd.compat import uncertainty_toolbox

FUNCTIONS = [
    getattr(module, name)
    for module in (fm.metrics, fm.classification)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
]
UNCERTAINTY_TOOLBOX = [
    getattr(module, name)
    for module in (
        uncertainty_toolbox.metrics,
        uncertainty_toolbox.metrics_calibration,
        uncertainty_toolbox.recalibration,
    )
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
]
MEANS = [function for function in FUNCTIONS if function.__name__.startswith("mean_")]


def _described(function):
    """Return the names in the parameter list of a docstring, in order."""
    text = re.search(r"Parameters\n-+\n(.*?)(?:\n\n|\Z)", inspect.getdoc(function), re.DOTALL)
    heads = re.findall(r"^(\S.*?)(?: :.*)?$", text[1], re.MULTILINE)
    return [name for head in heads for name in head.split(", ")]


@pytest.mark.parametrize(
    "function",
    FUNCTIONS + UNCERTAINTY_TOOLBOX,
    ids=lambda f: f"{f.__module__}.{f.__name__}",
)
def test_every_parameter_is_described_once(function):
    assert _described(function) == list(inspect.signature(function).parameters)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_examples_run(function):
    """Find those of decorated functions too, which doctest does not find by itself."""
    examples = doctest.DocTestParser().get_doctest(function.__doc__, {}, function.__name__, "", 0)
    assert examples.examples
    report = []
    assert not doctest.DocTestRunner().run(examples, out=report.append).failed, "".join(report)


def test_own_entries_go_before_shared_ones():
    shared_entries = entries("a : int\n    Shared.\nb : float\n    Also shared.")

    @with_shared_parameters(shared_entries)
    def function(a, b=1.0, *, c=0, d=0):
        """Return nothing.

        Parameters
        ----------
        c, d : int
            Its own.
        b : float, default 1.0
            Its own, too.

        Returns
        -------
        None
        """

    assert function.__doc__ == (
        "Return nothing.\n\nParameters\n----------\na : int\n    Shared.\nb : float, default 1.0\n"
        "    Its own, too.\nc, d : int\n    Its own.\n\nReturns\n-------\nNone\n"
    )


def test_functions_without_a_docstring_stay_so():
    """Docstrings are None, as under ``python -OO``."""

    @with_shared_parameters({})
    def function(a):
        pass

    assert function.__doc__ is None


@pytest.mark.parametrize("policy", ["raise", "omit", "propagate"])
def test_means_are_weighted_means_of_their_scores(rng, policy):
    y, draws, weights = rng.normal(size=40), rng.normal(size=(40, 6)), rng.uniform(size=40)
    vectors, clouds = rng.normal(size=(40, 2)), rng.normal(size=(40, 6, 2))
    labels, p = rng.integers(0, 3, 40), rng.dirichlet(np.ones(3), 40)
    if policy != "raise":
        draws[3], clouds[3], p[3] = np.nan, np.nan, np.nan
    assert len(MEANS) >= 9
    for mean in MEANS:
        if "interval_width" in mean.__name__ or "calibration" in mean.__name__:
            continue
        module = fm.classification if "classification" in mean.__module__ else fm.metrics
        score = getattr(module, mean.__name__.removeprefix("mean_"))
        data = (labels, p) if module is fm.classification else (y, draws)
        data = (vectors, clouds) if "variogram" in mean.__name__ else data
        if any(word in mean.__name__ for word in ("likelihood", "quadratic", "linearized")):
            data = (y, (draws[:, 0], 1.0))  # of densities
        actual = mean(*data, sample_weight=weights, nan_policy=policy)
        values = score(*data, nan_policy=policy)
        some = ~np.isnan(values)
        assert some.all() == (policy == "raise")
        expected = np.average(values[some], weights=weights[some])
        assert actual == pytest.approx(np.nan if policy == "propagate" else expected, nan_ok=True)


def test_means_refuse_what_their_scores_do_not_take():
    with pytest.raises(TypeError, match="levels"):
        fm.metrics.mean_crps([0.0], ([0.0], 1.0), levels=[0.5])
    with pytest.raises(TypeError, match="normalize"):
        fm.classification.mean_brier_score([0], [0.5], normalize=True)


MOST_USED = [
    "evaluate",
    "compare",
    "cce",
    "mcmd",
    "ConditionalCongruence",
    "congruence_test",
    "verdict",
    "diagnose",
    "weak_regions",
    "select_kernel",
    "kernel_report",
    "rejection_curve",
    "Monitor",
    "crps",
    "nll",
    "ece",
    "ence",
    "pit_values",
    "Gaussian",
    "Quantiles",
    "metrics.reliability_curve",
    "metrics.coverage",
    "metrics.energy_score",
    "metrics.interval_score",
    "metrics.weighted_crps",
    "metrics.rank_histogram",
    "classification.evaluate",
    "classification.ece",
    "recalibration.IsotonicCDF",
    "recalibration.ConditionalRescaling",
]


@pytest.mark.parametrize("name", MOST_USED)
def test_the_most_used_functions_have_a_worked_example(name):
    """Each class has an example with a sentence that says what it shows, and results."""
    parts = (inspect.getdoc(attrgetter(name)(fm)) or "").split("Examples\n--------\n")
    assert len(parts) == 2
    lines = [line for line in parts[1].splitlines() if line.strip()]
    sentence, prompts = lines[0], [line for line in lines if line.startswith(">>>")]
    assert sentence[0].isupper() or sentence.startswith('"')
    assert not sentence.startswith(">>>")
    words = [line for line in lines if not line.startswith((">>>", "..."))]
    assert len(prompts) >= 2
    assert len(words) >= 2  # the sentence, and a result
