"""A short run of the adversary of merged accumulators, and the problems that broke them."""

from __future__ import annotations

import merges
import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.streaming.congruence_landmarks import extended, smoother_at


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_in_every_order_of_merging(seed):
    ratio, _ = merges.attack(seed)
    assert ratio <= 1


@pytest.mark.parametrize("step", [1e-2, 1e-3, 1e-5, 1e-7])
def test_landmarks_that_grow_among_nearly_dependent_ones_have_a_factor(step):
    """Two factorizations were mixed: K - LL' was 1e-6, an accumulator 40 % off under a bound of 2 %."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 2))
    near = [base + step * rng.normal(size=base.shape) for _ in range(3)]
    for kernel in (fm.Matern(2.5, 2.0), fm.Matern(1.5, 0.5), fm.RBF(5.0)):
        smoother = smoother_at(kernel, np.concatenate([base, near[0]]))
        for rows in near[1:]:
            smoother = extended(smoother, rows, 60, 1e-13)
        assert smoother.factor_error < 1e-12
