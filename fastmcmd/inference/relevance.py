"""The test of relevance: an estimate of mean squared CCE without noise, and the distribution of its error.

With residuals e_i of mean mu_i and ``S = H'W H / N``, the excess ``U = sum_{i != j} S_ij <e_i, e_j>`` is
unbiased for ``theta = sum_{i != j} S_ij <mu_i, mu_j>``. Its error has two parts,

    U - theta = 2 sum_i <e_i - mu_i, sum_{j != i} S_ij mu_j> + sum_{i != j} S_ij <e_i - mu_i, e_j - mu_j>.

The first is a sum of independent terms. It dominates if the misfit is large, and is treated as normal. The
second dominates if the model is nearly right, and its distribution is skewed. It is simulated by residuals
with random signs, which preserve the spread of the outcomes whatever the model says about it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fastmcmd._base.blocks import row_blocks
from fastmcmd.inference.smoother import Basis

__all__ = ["SIGNS", "Excess", "excess_of"]

_ROWS = 512  # rows of a block, whose signed residuals are in memory at once
SIGNS = 199  # random signs for the second part
_STEPS = 60  # bisections of a quantile

Array = NDArray[np.float64]
Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Excess:
    """An estimate of the mean squared CCE without noise, with the distribution of its error.

    Attributes
    ----------
    value : float
        U.
    quadratic : ndarray (b,)
        Draws of the second part of the error.
    error : float
        Standard deviation of the first part.
    """

    value: float
    quadratic: Array
    error: float

    def p_value(self, limit: float) -> float:
        """Return the probability of so large a U if the mean squared CCE is ``limit``."""
        gaps = self.value - limit - self.quadratic
        if not self.error > 0:
            return float(np.mean(gaps <= 0))
        return float(special.ndtr(-gaps / self.error).mean())

    def bound(self, level: float) -> float:
        """Return the limit with p-value ``level``: a one-sided confidence bound."""
        reach = 10 * self.error + float(np.abs(self.quadratic).max())
        low, high = self.value - reach, self.value + reach
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.p_value(middle) < level else (low, middle)
        return (low + high) / 2


def excess_of(
    basis: Basis,
    x: Array,
    residuals: Single,
    lam: float,
    rng: np.random.Generator,
    weights: Array | None = None,
) -> Excess:
    """Return the excess of observed residuals (n, r) at inputs (n, d), in two passes over the rows.

    ``weights`` (n,) are those of ``basis``; a row of weight w then takes part as ``w e_i``.
    """
    w = np.ones(len(x)) if weights is None else weights
    energy, shrinkage = basis.energy(lam), basis.shrinkage(lam)
    blocks = row_blocks(len(x), _ROWS)
    total = np.zeros((len(energy), residuals.shape[1]))
    signed = np.zeros((len(energy), SIGNS * residuals.shape[1]), dtype=np.float32)
    noise = 0.0
    for rows in blocks:
        g, e = basis.coordinates(x[rows]), residuals[rows] * w[rows, None].astype(np.float32)
        total += g.T @ e
        noise += float(np.square(g).dot(energy) @ np.square(e).sum(axis=1))
        signs = rng.integers(0, 2, (len(e), SIGNS), dtype=np.int8).astype(np.float32) * 2 - 1
        flipped = (signs[:, :, None] * e[:, None]).reshape(len(e), -1)
        signed += g.astype(np.float32).T @ flipped
    squares = np.square(signed.reshape(len(energy), SIGNS, -1)).sum(axis=2, dtype=np.float64)
    quadratic = energy @ squares - noise
    terms = 0.0
    for rows in blocks:
        g, e, row_weights = basis.coordinates(x[rows]), residuals[rows], w[rows, None]
        diagonal, leverage = np.square(g) @ energy, np.square(g) @ shrinkage * w[rows]
        other_rows = row_weights * ((g * energy) @ total - diagonal[:, None] * (row_weights * e))
        loo_residuals = (e - (g * shrinkage) @ total) / np.maximum(1 - leverage, 1e-6)[:, None]
        terms += float(np.square(np.einsum("ir,ir->i", loo_residuals, other_rows)).sum())
    # The products of residuals in 4 terms^2 contain the variance of the quadratic part twice.
    first = 4 * terms - 2 * float(np.mean(np.square(quadratic)))
    value = float(energy @ np.square(total).sum(axis=1)) - noise
    return Excess(value, quadratic, float(np.sqrt(max(first, 0.0))))
