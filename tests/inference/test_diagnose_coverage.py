"""The bands of `diagnose` cover: a small part of tests/simulations/diagnosis_bands.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "simulations"))

from diagnosis_bands import coverage


@pytest.mark.parametrize("kind", ["right", "smooth"])
def test_bands_cover(kind):
    # 4 runs with some 10 independent inputs each: a standard error of 0.04 around 0.9.
    for share in coverage("Gaussian", kind, 4):
        assert 0.8 < share <= 1
