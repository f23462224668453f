"""Every family at extreme parameters: an error that names one, or numbers without a warning.

What cannot be represented is infinite, and no method of a family gives NaN at a finite outcome. Each
parameter takes values from the smallest to the largest double; products overflow and underflow in all ways.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import fastmcmd as fm

SIZES = [5e-324, 1e-310, 1e-200, 1e-20, 0.5, 3.0, 1e5, 1e20, 1e99, 1e160, 1.79e308]
SOME = [5e-324, 1e-200, 0.5, 3.0, 1e20, 1e160, 1.79e308]
PLACES = [0.0, 5e-324, 1.0, 1e160, 1.79e308, -1.79e308]
SHARES = [0.0, 5e-324, 0.3, 1 - 2.0**-53, 1.0]
FAR = [0.0, 5e-324, 1.0, 1e160, 1e307, -1e307]  # differences are doubles
ENDS = [-1e160, 0.0, 1.0, 1.79e308]
OUTCOMES = [-1.79e308, -1.0, 0.0, 5e-324, 0.3, 1.0, 2.0, 1e3, 1e16, 1e160, 1.79e308]
LEVELS = np.array([0.0, 5e-324, 1e-200, 0.1, 0.5, 1 - 2.0**-53, 1.0])

FAMILIES = {
    "Gaussian": (lambda a, b: fm.Gaussian([a], b), "mean std", [PLACES, [0.0, *SIZES]]),
    "Laplace": (lambda a, b: fm.Laplace([a], b), "loc scale", [PLACES, SIZES]),
    "StudentT": (lambda d, a, b: fm.StudentT(d, [a], b), "df loc scale", [SIZES, PLACES[::2], SOME]),
    "Uniform": (lambda a, b: fm.Uniform([a], b), "low high", [PLACES, PLACES]),
    "LogNormal": (lambda a, b: fm.LogNormal([a], b), "mu sigma", [[*PLACES, -1e5, 720.0], SIZES]),
    "Gamma": (lambda a, b: fm.Gamma([a], b), "shape rate", [SIZES, SIZES]),
    "Gamma of scale": (lambda a, b: fm.Gamma([a], scale=b), "shape scale", [SOME, SIZES]),
    "Gamma of mean": (lambda a, b: fm.Gamma.from_mean([a], b), "mean dispersion", [SOME, SOME]),
    "Beta": (lambda a, b: fm.Beta([a], b), "a b", [SOME, SOME]),
    "Poisson": (lambda a: fm.Poisson([a]), "mean", [[0.0, *SIZES]]),
    "NegativeBinomial": (
        lambda a, b: fm.NegativeBinomial([a], b), "mean dispersion", [[0.0, *SIZES], SIZES],
    ),
    "NegativeBinomial of n": (
        lambda a, b: fm.NegativeBinomial.from_n_p([a], b), "n p", [SIZES, [*SHARES, 1e-200]],
    ),
    "DoublePoisson": (lambda a, b: fm.DoublePoisson([a], b), "mean phi", [[0.0, *SIZES], SIZES]),
    "ZeroInflated counts": (
        lambda a, p: fm.ZeroInflated(fm.Poisson([a]), p), "mean probability", [SIZES, SHARES],
    ),
    "ZeroInflated": (
        lambda a, b, p: fm.ZeroInflated(fm.Gamma([a], b), p), "shape rate probability",
        [SOME, SOME, SHARES],
    ),
    "Truncated": (
        lambda a, b, c, d: fm.Truncated(fm.Gaussian([a], b), c, d), "mean std low high prediction base",
        [PLACES[::2], SOME[::2], ENDS, ENDS],
    ),
    "Mixture": (
        lambda a, b, c, w: fm.Mixture([fm.Gaussian([a], b), fm.Gaussian([c], 1.0)], [w, 1.0]),
        "weights std", [PLACES[::2], SOME[::2], PLACES[1::2], [5e-324, 0.5]],
    ),
    "Draws": (lambda a, b: fm.Draws([[a, b, 0.0]]), "draws", [FAR, FAR]),
    "Quantiles": (
        lambda a, b: fm.Quantiles([0.1, 0.9], [sorted((a, b))]), "values", [FAR, FAR],
    ),
    "Categorical": (
        lambda a, b: fm.Categorical([[0.3, 0.7]], [a, b]), "values probs", [PLACES, PLACES],
    ),
}  # fmt: skip
NO_DENSITY = ("Draws", "Quantiles")


def results(prediction, name):
    """Yield what each method gives, with the name of the method."""
    yield "mean", lambda: prediction.mean
    yield "std", lambda: prediction.std
    yield "variance", lambda: prediction.variance
    yield "quantile", lambda: prediction.quantile(LEVELS)
    yield "sample", lambda: prediction.sample(3, 0)
    rows = prediction.take(np.zeros(len(OUTCOMES), dtype=np.intp))
    for method in ("cdf", "sf", "cdf_below", "crps", "log_prob"):
        if method != "log_prob" or name not in NO_DENSITY:
            yield method, lambda method=method: getattr(rows, method)(OUTCOMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_numbers_without_warnings_or_a_refusal_that_names_a_parameter(name):
    """Here negative binomials hung in SciPy, or ended the process; others silently gave NaN."""
    make, parameters, lists = FAMILIES[name]
    refused = []
    for values in itertools.product(*lists):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "overflow")  # what overflows is infinite
            try:
                prediction = make(*values)
            except ValueError as error:
                refused.append((str(error), values))
                continue
            for method, compute in results(prediction, name):
                computed_values = compute()
                defined = method in ("mean", "std", "variance", "sample")
                assert defined or not np.isnan(computed_values).any(), (values, method)
    assert len(refused) < np.prod([len(one) for one in lists])
    parameter_pattern = re.compile(rf"\b({parameters.replace(' ', '|')})\b")
    assert [one for one in refused if not parameter_pattern.search(one[0])] == []


# Counts


@pytest.mark.parametrize("dispersion", [1e-20, 1e-5, 0.5, 10.0, 1e5])
@pytest.mark.parametrize("mean", [1e-3, 1.0, 1e3, 1e8, 1e16, 1e20])
def test_quantiles_of_negative_binomials_are_the_least_counts(mean, dispersion):
    prediction = fm.NegativeBinomial([mean], dispersion)
    for level in (1e-200, 1e-17, 0.1, 0.5, 0.9, 1 - 1e-9, 1 - 2.0**-53):
        count = prediction.quantile(level)
        before = np.minimum(count - 1, np.nextafter(count, 0.0))
        assert prediction.cdf(count)[0] >= level
        assert count[0] == 0 or prediction.cdf(before)[0] < level
        upper = prediction.upper_quantiles_at(np.array([[level]]))[:, 0]
        before = np.minimum(upper - 1, np.nextafter(upper, 0.0))
        assert prediction.sf(upper)[0] <= level
        assert upper[0] == 0 or prediction.sf(before)[0] > level


@pytest.mark.slow
def test_the_process_survives_large_means_of_little_dispersion():
    code = "import fastmcmd as fm; print(fm.NegativeBinomial([1e16], 1e-20).quantile([0.1, 1e-9]))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "prediction",
    [fm.Poisson([1e20]), fm.NegativeBinomial([1e20], 0.5), fm.NegativeBinomial([1e18], 10.0)],
    ids=repr,
)
def test_draws_of_counts_beyond_64_bit_integers(prediction):
    draws = prediction.sample(4000, 1)
    np.testing.assert_allclose(
        draws.mean(), prediction.mean[0], atol=5 * prediction.std[0] / 4000**0.5
    )
    np.testing.assert_allclose(draws.std(), prediction.std[0], rtol=0.2)


def test_far_masses_of_counts_of_great_dispersion():
    """log p(k) for alpha k >> 1 is (1 / alpha - 1) log k - k log(1 + 1 / (alpha mean)) up to a constant."""
    prediction = fm.NegativeBinomial([2.0], 1e100)
    near, far = prediction.log_prob([1e190])[0], prediction.log_prob([1e290])[0]
    power = 1e-100 - 1
    exponent = 1e290 * np.log1p(1 / 2e100)
    np.testing.assert_allclose(far - near, power * np.log(1e100) - exponent, rtol=1e-10)
