"""Sizes of terms that a product of CG measures beside its directions."""

from __future__ import annotations

import numpy as np
import pytest
from cg_runs import block_cg

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.gram import EXACT, GramOperator
from fastmcmd.solvers.base import System
from fastmcmd.solvers.block_cg import BlockCGRun


@pytest.mark.parametrize("tolerance", [1e-6, 1e-2, 0.3])
def test_terms_are_those_of_a_solution(rng, tolerance):
    """Also where the first residual is near the target, so that CG makes few products."""
    n, kernel = 400, fm.RBF(0.5)
    x = np.arange(n)[:, None] * np.full((1, 3), 100.0)
    x[:20] = x[0] + 0.02 * rng.normal(size=(20, 3))
    rhs = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    operator = GramOperator(get_backend("cpu", kernel), kernel, x, EXACT, 10**9)
    system = System(rhs, np.full(n, 0.1))
    target = tolerance * float(np.linalg.norm(rhs / np.sqrt(0.1)))
    run = BlockCGRun(operator, [system], target, 100, measures_terms=True)
    for _ in run.products():
        pass
    (result,) = run.results()
    (usual,) = block_cg(operator, [system], target, 100)
    np.testing.assert_allclose(result.value, usual.value, rtol=0, atol=1e-9)
    if result.iterations == 1:
        assert result.term_squares is None
        return
    # The solution is that of an earlier product, so that only ratios of rows count.
    terms = result.term_squares
    assert terms is not None
    assert terms[:20].min() > 0.0
    assert terms[20:].max() < 1e-6 * terms[:20].min()
