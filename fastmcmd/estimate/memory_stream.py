"""A stream of rows whose right-hand sides are in memory.

Integrated expectations take longer than everything else of a pass. Where the right-hand sides of all rows
fit in memory, they are computed once, in few columns (`leading_columns`), and every pass takes them from
there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd.embedding.sample import Sample
from fastmcmd.estimate.outputs import MeanFeatures, on_line
from fastmcmd.estimate.panel_rows import LEAST_ROWS
from fastmcmd.estimate.row_stream import RowBlock, StreamState
from fastmcmd.estimate.task import Task
from fastmcmd.rows import Rows

__all__ = ["MemoryStream", "fits_in_memory"]

# Numbers of each row in memory while its mean features are computed, at once or in blocks of rows, and the
# share of the budget for them.
_AT_ONCE, _IN_BLOCKS, _BUDGET_SHARE = 800, 100, 0.5
_MOST_ROWS = 300_000  # fresh memory for more takes as long as passes that compute rows anew


def fits_in_memory(sides: tuple[Sample, Sample], task: Task, budget: int) -> bool:
    """Tell whether passes take the right-hand sides of two samples from memory.

    They do for densities of numbers that are integrated, if both samples have one system over distinct
    inputs, and ``budget`` bytes allow it.
    """
    nature, model = sides
    n = len(nature)
    numbers = _IN_BLOCKS if n >= LEAST_ROWS else _AT_ONCE
    if n > _MOST_ROWS or 8 * numbers * n > _BUDGET_SHARE * budget:
        return False
    if not on_line(sides, task):
        return False
    if not (nature.same_rows(model) and nature.lam == model.lam):
        return False
    return len(nature.design) == n and nature.same_system(model)


class MemoryStream:
    """A stream of the rows of two samples, whose right-hand sides are in memory.

    It is an `AnyRowStream`.

    Parameters
    ----------
    samples : list of Sample
        Two samples with one system.
    features : MeanFeatures
        Their mean features.
    """

    is_drawn = False  # its truncation and its integrals add to the error
    bears_threads = True

    def __init__(self, samples: list[Sample], features: MeanFeatures) -> None:
        self.samples = samples
        self.columns = features.columns
        self.x: HostArray | Rows = samples[0].x
        self.weights = samples[0].weights
        (self._rhs,) = features.means
        self._truncation = features.truncation

    def __len__(self) -> int:
        return len(self.x)

    def expectation_error(self) -> tuple[float, bool]:
        """Return ``sum ||D^(-1/2) error||`` of the expectations, and whether it is rigorous."""
        return self._truncation.expectation, self._truncation.rigorous

    def rhs(self, rows: slice | NDArray[np.intp]) -> tuple[Array, list[Array]]:
        """Return right-hand sides (b, c) of some rows; their truncation is known in all."""
        some = self._rhs[rows]
        return some, [np.zeros(len(some)) for _ in self.samples]

    def begin(self) -> None:
        """Begin a pass."""

    def account(self, block: RowBlock) -> None:
        """Take a block, whose truncation is known."""

    def state(self) -> StreamState:
        """Return the state of a pass."""
        return StreamState(1.0, np.zeros(len(self.samples)), [], np.zeros(len(self.samples)))

    def restore(self, state: StreamState) -> None:
        """Resume a pass."""

    def truncated(self) -> float:
        """Return ``sum ||D^(-1/2) s||`` over the samples."""
        return self._truncation.residual

    @property
    def held_bytes(self) -> int:
        """Bytes of the right-hand sides."""
        return int(self._rhs.nbytes)
