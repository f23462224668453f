"""Sampled certificates at 16,000 rows: problems that broke them once."""

from __future__ import annotations

import pytest
import sampled


@pytest.mark.parametrize("seed", [510])
def test_bounds_that_were_too_small(seed):
    """Points beside isolated rows far from the origin were rounded to float32: 4.3 times the bound."""
    found = sampled.attack(seed, 16000)
    assert found.kind == "lowrank sampled"
    assert found.ratio <= 1
