"""Sampled certificates: problems that broke them once."""

from __future__ import annotations

import pytest
import sampled


@pytest.mark.parametrize("seed", [510])
def test_bounds_that_were_too_small(seed):
    """Points beside isolated rows far from the origin were rounded to float32: 4.3 times the bound."""
    found = sampled.attack(seed, 16000)
    assert found.kind == "lowrank sampled"
    assert found.ratio <= 1


@pytest.mark.parametrize("seed", [640055, 640195])
def test_points_beside_a_cluster_with_a_landmark(seed):
    """The landmarks miss little of its rows and all of what lies between them: 6.5 times the bound."""
    found = sampled.attack(seed, 2000)
    assert found.kind == "lowrank sampled"
    assert found.ratio <= 0.5
