"""The choice between CG, Cholesky and landmarks."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.solvers import switch_policy


def on_a_line(n):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 1))
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=n)
    return x, y, y[::-1].copy()


OPTIONS = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5), "lam": 1e-4}


def check_against_cholesky(result, arguments):
    direct = fm.cce(*arguments, **OPTIONS, solver="cholesky")
    bounds = result.error_bound + direct.error_bound
    np.testing.assert_allclose(result.values, direct.values, rtol=0, atol=bounds)
    assert result.error_bound <= 1e-6


def test_landmarks_decide_if_plain_cg_would_need_many_products():
    """On a line, CG with a preconditioner takes a quarter of the time of the factorisation."""
    arguments = on_a_line(6000)
    result = fm.cce(*arguments, **OPTIONS, certificate="rigorous")
    assert result.info.solver == "cg"
    check_against_cholesky(result, arguments)


def test_residuals_are_measured_where_the_bound_on_rounding_misses_the_tolerance():
    """More landmarks do not lower that bound, and CG takes several times as long."""
    arguments = on_a_line(6000)
    result = fm.cce(*arguments, **OPTIONS)
    assert result.info.solver == "lowrank"
    assert result.info.passes == 2
    check_against_cholesky(result, arguments)


def test_residuals_of_a_sample_serve_where_those_of_all_rows_would_take_long(monkeypatch):
    monkeypatch.setattr("fastmcmd.estimate.lowrank_pass._CHEAP", 0.0)
    monkeypatch.setattr("fastmcmd.estimate.lowrank_pass._AFFORDABLE", 0.0)
    arguments = on_a_line(6000)
    result = fm.cce(*arguments, **OPTIONS)
    assert result.info.solver == "lowrank"
    assert result.info.certificate == "sampled"
    check_against_cholesky(result, arguments)


@pytest.mark.parametrize("certificate", ["auto", "rigorous", "sampled"])
def test_cg_takes_the_landmarks_that_auto_has_looked_at(certificate, monkeypatch):
    """One search, and the choices of CG alone."""
    searches, certificates = [], []
    landmarks, certified = switch_policy.Landmarks, switch_policy.SwitchPolicy._certified

    def searched(*args):
        searches.append(args)
        return landmarks(*args)

    def recorded(self, products):
        certificates.append(self._certificate)
        return certified(self, products)

    monkeypatch.setattr("fastmcmd.estimate.lowrank_choice._limit", lambda *args: 0)
    monkeypatch.setattr(switch_policy, "Landmarks", searched)
    monkeypatch.setattr(switch_policy.SwitchPolicy, "_certified", recorded)
    monkeypatch.setattr("fastmcmd.solvers.costs.expected_products", lambda *args: 100.0)
    arguments, options = on_a_line(6000), OPTIONS | {"certificate": certificate}
    result = fm.cce(*arguments, **options)
    assert len(searches) == 1
    assert set(certificates) == {certificate}
    alone = fm.cce(*arguments, **options, solver="cg")
    assert result.info.solver == alone.info.solver == "cg"
    assert result.info.notes == alone.info.notes
    np.testing.assert_array_equal(result.values, alone.values)
