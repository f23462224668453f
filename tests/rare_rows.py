"""Systems over inputs of which a few rows are unlike the others, and the true errors of solutions."""

from __future__ import annotations

import numpy as np

from fastmcmd.solvers.base import System


def inputs(rng, n, d=3, rare=0):
    x = rng.normal(size=(n, d))
    x[rng.choice(n, rare, replace=False)] *= 50
    return x


def system_of(rng, x, lam):
    y = np.sin(x[:, :1] * np.arange(1, 6)) + 0.3 * rng.normal(size=(len(x), 5))
    return System(y / np.sqrt(5), np.full(len(x), len(x) * lam))


def true_error(kernel, x, system, value, grid):
    """Return the largest error of the answer ``k(grid)' B`` against a dense solve in float64."""
    matrix = kernel(x, x) + np.diag(system.shift)
    return np.linalg.norm(
        kernel(grid, x) @ (value - np.linalg.solve(matrix, system.rhs)), axis=1
    ).max()
