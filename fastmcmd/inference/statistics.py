"""One pass over the rows: the squared misfit of each data set under a ladder of kernels and regularisers.

With the coordinates g(x) of the smoother and the features e of outcomes less their mean over the data sets,
a data set b needs ``A_b = G'E_b`` (p, r): ``sum_k c_k(lam) |A_b,k|^2`` is the mean over rows of its squared
CCE, whatever the regulariser. All data sets go through the same products of single precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.blocks import ahead, row_blocks
from fastmcmd._base.progress import Progress
from fastmcmd._base.threads import get_num_threads
from fastmcmd.inference.exchangeable import ROWS, Outcomes
from fastmcmd.inference.outcome_features import BlockOutcomes, OutcomeFeatures
from fastmcmd.inference.smoother import Basis

__all__ = ["Projections", "project"]

_FARTHEST = 1e300  # of standardised outcomes: their logarithm is finite

Array = NDArray[np.float64]
Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Projections:
    """What a test needs of all data sets.

    Attributes
    ----------
    outcomes : list of ndarray (p, B + 1, r)
        ``G'E_b`` for each kind of features.
    spread : ndarray (f, B + 1)
        Mean over rows of ``|e_i|^2`` for each kind: how far outcomes are from what is expected.
    extreme : ndarray (B + 1,)
        ``log(1 + |z|)`` of the most extreme standardised outcome.
    """

    outcomes: list[NDArray[np.float32]]
    spread: Array
    extreme: Array


def project(
    outcomes: Outcomes,
    kinds: list[OutcomeFeatures],
    basis: Basis,
    x: Array,
    progress: Progress,
) -> Projections:
    """Return the projections of all data sets; memory does not grow with the rows."""
    from fastmcmd.inference.outcome_loops import centre_rows

    data_sets = outcomes.simulations + 1
    size = len(basis.spectrum)
    totals = [np.zeros((size, data_sets * kind.rank), dtype=np.float32) for kind in kinds]
    spread = np.zeros((len(kinds), data_sets))
    extreme = np.zeros(data_sets)

    def residuals(rows: slice) -> tuple[NDArray[np.float32], list[Single], Array, Array]:
        block = BlockOutcomes(outcomes.block(rows.start // ROWS))
        made = [kind.transform(block) for kind in kinds]
        squares = np.zeros((len(kinds), data_sets))
        for features, sums in zip(made, squares, strict=True):
            centre_rows(features, sums)
        far = np.log1p(np.minimum(np.abs(block.standardised).max(axis=(0, 2)), _FARTHEST))
        return basis.coordinates(x[rows]).astype(np.float32), made, squares, far

    blocks = row_blocks(len(x), ROWS)
    sweep = progress.sweep(f"exact test, {outcomes.simulations} simulated data sets", len(x))
    done = 0
    for coordinates, made, squares, far in ahead(residuals, blocks, get_num_threads()):
        for total, features in zip(totals, made, strict=True):
            total += coordinates.T @ features.reshape(len(features), -1)
        spread += squares
        np.maximum(extreme, far, out=extreme)
        done += len(coordinates)
        sweep.done(done)
    root = np.float32(np.sqrt(outcomes.correction))
    shape = (size, data_sets, -1)
    return Projections(
        [total.reshape(shape) * root for total in totals],
        spread * outcomes.correction / len(x),
        extreme,
    )
