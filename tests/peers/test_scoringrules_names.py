"""The names of scoringrules in `scoringrules_names` give scoringrules' numbers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

sr = pytest.importorskip("scoringrules")
RNG = np.random.default_rng(0)
Y, DRAWS = RNG.normal(size=40), RNG.normal(size=(40, 9))
VECTORS, MEMBERS = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 9, 3))


@pytest.fixture(scope="module")
def names():
    """The module, loaded by its path; what it puts into ``sys.modules`` is taken out again."""
    before = sys.modules.get("scoringrules.backend")
    path = Path(__file__).with_name("scoringrules_names.py")
    spec = importlib.util.spec_from_file_location("scoringrules_names", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if before is not None:
        sys.modules["scoringrules.backend"] = before
    return module


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
        ("interval_score", (Y, Y - 1, Y + 0.5, 0.1)),
        ("brier_score", (np.array([0, 1]), np.array([0.2, 0.9]))),
    ],
)
def test_names_give_the_same_numbers(names, name, arguments):
    ours, theirs = getattr(names, name)(*arguments), getattr(sr, name)(*arguments)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
