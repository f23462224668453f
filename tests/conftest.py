"""Shared settings of the tests: the same examples every time, and no deadline on shared machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fastmcmd",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fastmcmd")


@pytest.fixture
def rng():
    return np.random.default_rng(20240512)
