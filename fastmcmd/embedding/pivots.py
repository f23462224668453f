"""Output features that cover both samples: predictions with large residuals add pivots.

All drawn outputs and some outputs of the predictions are the first candidates for pivots. Then the residual
of the features is measured in every row. The rows with the largest residuals, and others drawn with
probabilities proportional to their residuals, add outputs of their own, until the residual is negligible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import Backend
from fastmcmd.embedding.candidates import row_candidates
from fastmcmd.embedding.features import output_features, pooled_numbers, pooled_with_importance
from fastmcmd.embedding.sample import Places
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Predictive

__all__ = ["Pool", "Predicted", "rows_to_add", "uncovered"]


_ROWS = 200  # rows that add outputs in a round
_CERTAIN = 0.25  # share of these rows with the largest residuals; the others are drawn
_FLOORS = 2.0  # ratio to the residual of rounding above which a row counts as not covered


@dataclass(frozen=True, eq=False)
class Predicted:
    """A predicted sample, for the choice of pivots.

    Attributes
    ----------
    prediction : Predictive
        All n predictions.
    weight : ndarray (n,)
        ``1 / D_ii`` of each row: the weight of its squared residual.
    """

    prediction: Predictive
    weight: Array


class Pool:
    """Outputs that are candidates for pivots.

    Parameters
    ----------
    kernel : Kernel
        Resolved output kernel.
    backend : Backend
        Backend that computes kernel values.
    parts : sequence of (ndarray (u, k), ndarray (u,) or None)
        Outputs of each sample and their importance; None means the largest, 1.
    differences : bool
        Whether only differences of the features of two parts, row by row, are needed.
    """

    def __init__(
        self,
        kernel: Kernel,
        backend: Backend,
        parts: Sequence[tuple[Array, Array | None]],
        *,
        differences: bool = False,
    ) -> None:
        self._differences = differences
        self._kernel, self._backend = kernel, backend
        self._parts = list(parts)

    def add(self, parts: list[tuple[Array, Array]]) -> None:
        """Add outputs with their importance."""
        self._parts.extend(parts)

    def __len__(self) -> int:
        return sum(len(values) for values, _ in self._parts)

    def features(
        self, eps: float, most: int, stop: int | None = None
    ) -> tuple[KernelFeatures, Array, Array, Array, list[Places]] | None:
        """Return features, outputs with features and residuals, and positions of each part's rows.

        The outputs are distinct, unless they are numbers of which most differ: merging these would cost
        more than it saves. With ``differences``, these take the place of the features of such numbers.
        Returns None if the rank would exceed ``most``, or ``stop`` as in `output_features`.
        """
        values: Array
        where: list[Places]
        importance = ascending = numbers = None
        if all(weight is None for _, weight in self._parts):
            numbers = pooled_numbers([part for part, _ in self._parts], in_turn=self._differences)
        if numbers is None:
            distinct = pooled_with_importance(*self._parts)
            values, where, importance = distinct[0], [*distinct[1]], distinct[2]
        else:
            values, ascending, where = numbers[0], numbers[1], [*numbers[2]]
        result = output_features(
            self._kernel, self._backend, values, eps, most, importance, ascending,
            differences=self._differences and numbers is not None, stop=stop,
        )  # fmt: skip
        if result is None:
            return None
        features, p, missing = result
        return features, values, p, missing, where


def uncovered(residual: Array, floor: float) -> Array:
    """Return the squared residuals (n,) of rows, 0 where they are little more than rounding, ``floor``."""
    return np.where(residual > _FLOORS * floor, residual**2, 0.0)


def rows_to_add(
    side: Predicted,
    residual: Array,
    floor: float,
    limit: float,
    kernel: Kernel,
    seed: int,
) -> tuple[Array, Array] | None:
    """Return outputs of rows with large residuals, and their importance; None if residuals are negligible.

    Parameters
    ----------
    side : Predicted
        The sample.
    residual : ndarray (n,)
        Residual norm of the features in each row.
    floor : float
        Part of the residual that is rounding alone.
    allowed : float
        Weighted residual norm that is negligible.
    kernel : Kernel
        Output kernel.
    seed : int
        Seed of the random choice.
    """
    square = uncovered(residual, floor) * side.weight
    total = float(square.sum())
    if not np.sqrt(total) > limit:
        return None
    short = np.flatnonzero(square)
    if len(short) > _ROWS:
        certain = int(_CERTAIN * _ROWS)
        short = short[np.argsort(-square[short], kind="stable")]
        candidates = short[certain:]
        share = square[candidates] / square[candidates].sum()
        rng = generator(seed, Purpose.PROBE)
        count = min(_ROWS - certain, int(np.count_nonzero(share)))
        draws = rng.choice(candidates, count, replace=False, p=share)
        short = np.concatenate([short[:certain], draws])
    return row_candidates(side.prediction.take(np.sort(short)), kernel, seed)
