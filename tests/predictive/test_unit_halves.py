"""Mixtures of beta distributions with poles and other singular points at 1, against mpmath and SciPy."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics import density_panels, mixture_quantiles
from fastmcmd.predictive.numerics.unit_halves import panel_scores

LEVELS = np.array([1e-6, 0.01, 0.03, 0.1, 0.3, 0.45, 0.5, 0.7, 0.9, 0.97, 0.99, 1 - 1e-6])
# Shapes of two components, and the outcome.
ROWS = [
    (2.0, 1.03, 4.0, 1.06, 0.7),
    (3.0, 0.6, 1.5, 4.0, 0.9),
    (0.5, 0.5, 0.7, 0.4, 0.999),
    (0.8, 1.0, 5.0, 0.95, 0.1),
    (0.4, 3.0, 0.9, 0.9, 1e-5),
    (0.2, 0.25, 0.22, 2.0, 0.01),
]
WEIGHTS = np.array([0.3, 0.7])


def mixture():
    a, b, c, d, _ = np.array(ROWS).T
    return Mixture([fm.Beta(a, b), fm.Beta(c, d)], WEIGHTS)


def test_panels_in_each_half_resolve_rows_that_others_do_not():
    prediction, y = mixture(), np.array(ROWS)[:, -1:]
    plain, _ = density_panels.panel_scores(prediction, prediction.components, y, LEVELS[None])
    scores, quantiles = panel_scores(prediction, prediction.components, y, LEVELS[None])
    assert np.isnan(plain).any()
    assert np.isfinite(scores).all()
    assert np.isfinite(quantiles).all()


@pytest.mark.parametrize("ask", ["quantile", "scored_quantiles", "scored_row_quantiles"])
def test_quantiles_reach_their_levels(ask):
    prediction, y = mixture(), np.array(ROWS)[:, -1]
    if ask == "quantile":
        quantiles = prediction.quantile(LEVELS)
    elif ask == "scored_quantiles":
        quantiles = prediction.scored_quantiles(y, LEVELS)[1]
    else:
        levels = np.tile(LEVELS, (len(ROWS), 1))
        quantiles = prediction.scored_row_quantiles(y[:, None], levels)[1]
    assert (np.diff(quantiles, axis=1) >= 0).all()
    for (a, b, c, d, _), row in zip(ROWS, quantiles, strict=True):

        def cdf(x, a=a, b=b, c=c, d=d):
            return WEIGHTS @ [stats.beta.cdf(x, a, b), stats.beta.cdf(x, c, d)]

        assert (cdf(np.nextafter(row, 0)) <= LEVELS + 2e-13).all()
        assert (cdf(np.nextafter(row, 1)) >= LEVELS - 2e-13).all()


@pytest.mark.slow
@pytest.mark.parametrize("row", range(len(ROWS)))
def test_scores_are_integrals_of_the_cdf(row):
    a, b, c, d, y = ROWS[row]

    def square(x, upper):
        ends = (x, 1) if upper else (0, x)
        parts = [mp.betainc(*shapes, *ends, regularized=True) for shapes in ((a, b), (c, d))]
        return (WEIGHTS[0] * parts[0] + WEIGHTS[1] * parts[1]) ** 2

    exact = mp.quad(lambda x: square(x, False), [0, y]) + mp.quad(lambda x: square(x, True), [y, 1])
    outcomes = np.array(ROWS)[:, -1]
    prediction = mixture()
    same_panels = prediction.scored_quantiles(outcomes, LEVELS)[0]
    assert prediction.crps(outcomes)[row] == pytest.approx(float(exact), rel=2e-12)
    assert same_panels[row] == pytest.approx(float(exact), rel=2e-12)


def test_mirrored_distributions_are_those_of_the_complement():
    prediction = mixture()
    y = np.array(ROWS)[:, -1]
    np.testing.assert_allclose(prediction.mirrored().cdf(1 - y), prediction.sf(y), rtol=1e-12)
    with_gaussian = Mixture([fm.Beta([2.0], 3.0), fm.Gaussian([0.5], 0.1)])
    assert with_gaussian.mirrored() is None
    assert with_gaussian.components[1].mirrored() is None


def test_searched_quantiles_do_not_depend_on_how_many_are_missing(monkeypatch):
    prediction = mixture()
    searched = {}
    for share in (0.0, 2.0):
        monkeypatch.setattr(mixture_quantiles, "_MANY", share)
        missing = np.full((len(ROWS), len(LEVELS)), np.nan)
        searched[share] = mixture_quantiles.completed(prediction, LEVELS, missing)
    np.testing.assert_allclose(searched[0.0], searched[2.0], rtol=1e-14)
