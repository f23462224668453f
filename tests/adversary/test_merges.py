"""A short run of the adversary of merged accumulators, and the problems that broke them."""

from __future__ import annotations

import merges
import numpy as np
import pytest

import fastmcmd as fm


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_in_every_order_of_merging(seed):
    ratio, _ = merges.attack(seed)
    assert ratio <= 1


@pytest.mark.parametrize("seed", [579, 752, 1872, 2001, 4595, 5068])
def test_bounds_that_were_too_small(seed):
    """Growing and joining mixed two factorisations: errors were 64 to 230,000 times the bound."""
    rng = np.random.default_rng(seed)
    joined, *accumulators = merges.accumulators(merges.draw(rng), rng)
    for other in accumulators:
        joined.merge(other)
    assert joined._state.smoother.factor_error < 1e-12  # of K - LL', which was up to 1e-4
    ratio, _ = merges.attack(seed)
    assert ratio <= 1


@pytest.mark.parametrize("width", [1e-3, 1e-2, 1e-1])
def test_what_a_join_takes_from_the_embedding_is_in_its_residual(width):
    """Two nearly equal landmarks span a slope; a third, nearly equal to both, replaces half of it."""
    step, rng = 2.7e-7, np.random.default_rng(0)
    x = width * np.column_stack([rng.uniform(-1, 1, 30), np.zeros(30)])

    def accumulated(*batches):
        sums = fm.streaming.CCE(fm.RBF(1.0), fm.RBF(0.5), lam=1e-3, landmarks=2, random_state=0)
        for rows in map(np.asarray, batches):
            sums.update(rows, np.zeros(len(rows)), fm.Gaussian(rows[:, 0], np.ones(len(rows))))
        return sums

    joined = accumulated([[step / 2, step / 2]])
    joined.merge(accumulated([[0.0, 0.0], [step, 0.0]], x))
    state = joined._state
    assert state.smoother.rank == 1
    assert np.trace(state.gram) + state.residual.sum() >= 33 * (1 - 1e-15)  # k(x, x) is 1
