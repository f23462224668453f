"""A sample, one side of the comparison: inputs with outputs, or with predicted distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.cached import cached_property
from fastmcmd.embedding.design import Design
from fastmcmd.predictive import Predictive
from fastmcmd.rows import Rows

__all__ = ["DrawnOutputs", "Outputs", "Places", "PredictedOutputs", "Sample", "same_outputs"]

Places = NDArray[np.intp] | slice  # of outputs in an array of features

_BLOCK = 1 << 20  # feature values in memory at once


@dataclass(frozen=True, eq=False)
class DrawnOutputs:
    """Outputs (N, l, k): l draws for each of N rows, with equal weights or ``weights`` (N, l)."""

    values: HostArray
    weights: NDArray[np.float64] | None = None

    @property
    def flat(self) -> HostArray:
        """All outputs (N * l, k)."""
        return self.values.reshape(-1, self.values.shape[2])

    @property
    def count(self) -> int:
        """Number of all outputs, N * l."""
        return self.values.shape[0] * self.values.shape[1]

    @property
    def share(self) -> NDArray[np.float64]:
        """Weight (N * l,) of each output within its row."""
        if self.weights is not None:
            return self.weights.reshape(-1)
        share = np.empty(self.count)
        share.fill(1.0 / self.values.shape[1])
        return share

    def take(self, rows: NDArray[np.intp] | slice) -> DrawnOutputs:
        """Return the outputs of some rows."""
        return DrawnOutputs(self.values[rows], None if self.weights is None else self.weights[rows])

    def mean_features(self, p: NDArray[np.float64], where: Places) -> NDArray[np.float64]:
        """Return the mean feature (N, r) of each row from features ``p`` of outputs.

        ``where`` are the places in ``p`` of all outputs in turn; a slice may give a view of ``p``.
        """
        n, draws, _ = self.values.shape
        if isinstance(where, slice):
            if draws == 1 and self.weights is None:
                return p[where]
            where = np.arange(len(p))[where]
        if draws == 1 and self.weights is None:
            return p.take(where, axis=0)  # twice as fast as p[where]
        index = where.reshape(n, draws)
        if self.weights is None:
            out = _means(p, index)
        else:
            share = self.share.reshape(n, draws)
            out = np.empty((n, p.shape[1]))
            step = max(1, _BLOCK // (draws * p.shape[1]))
            for start in range(0, n, step):
                rows = slice(start, start + step)
                out[rows] = np.einsum("nl,nlr->nr", share[rows], p[index[rows]])
        equal = self._equal_rows()
        out[equal] = p[index[equal, 0]]  # without the rounding of a sum
        return out

    def _equal_rows(self) -> NDArray[np.intp]:
        """Return the rows whose draws are all equal."""
        rows = np.flatnonzero((self.values[:, 0] == self.values[:, -1]).all(axis=1))
        some = self.values[rows]
        return rows[(some == some[:, :1]).all(axis=(1, 2))]


def same_outputs(one: DrawnOutputs, other: DrawnOutputs) -> NDArray[np.bool_]:
    """Return in which rows (N,) two samples have the same outputs, so that their embeddings cancel.

    Features of unequal outputs may be equal, too: to rounding, or where the kernel is 0. Only the outputs
    themselves show that nothing is left.
    """
    unweighted = one.weights is None and other.weights is None
    if unweighted and one.values.shape == other.values.shape:
        return np.asarray((one.values == other.values).all(axis=(1, 2)))
    first = one.values[:, :1]
    return np.asarray(
        (one.values == first).all(axis=(1, 2)) & (other.values == first).all(axis=(1, 2))
    )


def _means(p: NDArray[np.float64], index: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the means (n, r) of features ``p`` at ``index`` (n, l), summed in the order of the draws."""
    total = p.take(index[:, 0], axis=0)
    for draw in range(1, index.shape[1]):
        total += p.take(index[:, draw], axis=0)
    total /= index.shape[1]
    return total


@dataclass(frozen=True, eq=False)
class PredictedOutputs:
    """A predicted distribution for each of N rows, used through its expectations."""

    prediction: Predictive

    def take(self, rows: NDArray[np.intp] | slice) -> PredictedOutputs:
        """Return the distributions of some rows."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self.prediction)))
        return PredictedOutputs(self.prediction.take(rows))


Outputs = DrawnOutputs | PredictedOutputs


@dataclass(frozen=True, eq=False)
class Sample:
    """Inputs with outputs, their weights, and the regulariser.

    Attributes
    ----------
    x : ndarray (N, d) or Rows
        Inputs as the caller passed them.
    all_outputs : Outputs
        Outputs of all N rows.
    weights : ndarray (N,) or None
        Nonnegative weights of the rows.
    lam : float
        Regulariser.
    twin : Sample or None
        A sample at the same inputs with the same weights; this one shares its design.
    """

    x: HostArray | Rows
    all_outputs: Outputs
    weights: NDArray[np.float64] | None
    lam: float
    twin: Sample | None = None

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def design(self) -> Design:
        """The design: rows of positive weight, with equal inputs collapsed."""
        if self.twin is not None:
            return self.twin.design
        return Design.of(self.x, self.weights)

    @cached_property
    def outputs(self) -> Outputs:
        """The outputs of the rows of positive weight."""
        rows = self.design.rows
        return self.all_outputs if rows is None else self.all_outputs.take(rows)

    @property
    def shift(self) -> NDArray[np.float64]:
        """The diagonal of the regularised system."""
        return self.design.shift(self.lam)

    def same_system(self, other: Sample) -> bool:
        """Tell whether both samples have the same regularised system, except for right-hand sides."""
        return self.lam == other.lam and self.design.same_as(other.design)

    def same_rows(self, other: Sample) -> bool:
        """Tell whether both samples have the same inputs and weights row by row, before collapsing."""
        if other.twin is self or self.twin is other:
            return True
        if len(self) != len(other):
            return False
        if self.weights is None or other.weights is None:
            if self.weights is not other.weights:
                return False
        elif not np.array_equal(self.weights, other.weights):
            return False
        if self.x is other.x:
            return True
        if isinstance(self.x, Rows) or isinstance(other.x, Rows):
            return False
        return np.array_equal(self.x, other.x)
