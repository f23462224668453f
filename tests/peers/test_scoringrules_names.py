"""The names of scoringrules in `scoringrules_names` give scoringrules' numbers."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import peers
import pytest

sr = peers.imported("scoringrules")
version = metadata.version("scoringrules")
if tuple(int(part) for part in version.split(".")[:2]) < (0, 10):
    pytest.skip(f"scoringrules is {version}; 0.10 is needed", allow_module_level=True)

RNG = np.random.default_rng(0)
Y, DRAWS = RNG.normal(size=40), RNG.normal(size=(40, 9))
VECTORS, MEMBERS = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 9, 3))


@pytest.fixture(scope="module")
def names():
    """Load the module by its path."""
    path = Path(__file__).with_name("scoringrules_names.py")
    spec = importlib.util.spec_from_file_location("scoringrules_names", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stand_in_leaves_the_package_alone(names):
    """Its import once replaced scoringrules.backend, so that other tests failed."""
    assert sys.modules["scoringrules.backend"] is not names.backend
    assert names.MODULES["backend"] is names.backend


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("crps_ensemble", (Y, DRAWS)),
        ("twcrps_ensemble", (Y, DRAWS, 0.0, 1.0)),
        ("owcrps_ensemble", (Y, DRAWS, -1.0, 1.0)),
        ("vrcrps_ensemble", (Y, DRAWS, -1.0, 1.0)),
        ("es_ensemble", (VECTORS, MEMBERS)),
        ("vs_ensemble", (VECTORS, MEMBERS)),
        ("gksuv_ensemble", (Y, DRAWS)),
        ("gksmv_ensemble", (VECTORS, MEMBERS)),
        ("crps_normal", (Y, 0.1, 1.5)),
        ("logs_t", (Y, 5.0, 0.1, 1.5)),
        ("crps_gev", (Y, 0.1, 0.0, 1.0)),
        ("crps_negbinom", (np.arange(5), 3.0, 0.4)),
        ("crps_tnormal", (np.clip(Y, -1, 1), 0.0, 1.0, -1.0, 1.0)),
        ("crps_exponentialM", (Y[:6], 0.2, -0.5, 1.5)),
        ("crps_2pexponential", (Y[:6], 0.5, 1.5, 0.1)),
        ("crps_2pnormal", (Y[:6], 0.5, 1.5, 0.1)),
        ("crps_csg0", (np.abs(Y[:6]), 1.5, 2.0)),
        ("crps_clogistic", (Y[:6], 0.1, 1.5, -1.0, 1.0)),
        ("crps_cnormal", (Y[:6], 0.1, 1.5, -1.0, 1.0)),
        ("crps_ct", (Y[:6], 5.0, 0.1, 1.5, -1.0, 1.0)),
        ("crps_gtcnormal", (Y[:6], 0.1, 1.5, -2.0, 1.0, 0.1, 0.2)),
        ("crps_gpd", (Y[:6], 0.3, -0.5, 1.5, 0.2)),
        ("crps_uniform", (Y[:6], -1.0, 2.0, 0.3, 0.1)),
        ("logs_2pnormal", (Y[:6], 0.5, 1.5, 0.1)),
        ("logs_2pexponential", (Y[:6], 0.5, 1.5, 0.1)),
        ("clogs_ensemble", (Y, DRAWS, -1.0, 1.0)),
        ("dssuv_ensemble", (Y, DRAWS)),
        ("dssmv_ensemble", (VECTORS, MEMBERS)),
        ("rls_score", (np.array([1, 3]), np.array([[0.2, 0.5, 0.3], [0.1, 0.3, 0.6]]))),
        ("interval_score", (Y, Y - 1, Y + 0.5, 0.1)),
        ("brier_score", (np.array([0, 1]), np.array([0.2, 0.9]))),
    ],
)
def test_names_give_the_same_numbers(names, name, arguments):
    ours, theirs = getattr(names, name)(*arguments), getattr(sr, name)(*arguments)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
