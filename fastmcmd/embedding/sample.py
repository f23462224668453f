"""One side of the comparison: inputs with outputs, or with predicted distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.embedding.design import Design
from fastmcmd.predictive import Predictive

__all__ = ["DrawnOutputs", "Outputs", "PredictedOutputs", "Sample"]

_BLOCK = 1 << 20  # feature values held together


@dataclass(frozen=True, eq=False)
class DrawnOutputs:
    """Outputs (N, l, k): l draws for each of N rows, with equal weights or ``weights`` (N, l)."""

    values: NDArray[Any]
    weights: NDArray[np.float64] | None = None

    @property
    def flat(self) -> NDArray[Any]:
        """All outputs (N * l, k)."""
        return self.values.reshape(-1, self.values.shape[2])

    @property
    def share(self) -> NDArray[np.float64]:
        """Weight (N * l,) of each output within its row."""
        n, draws, _ = self.values.shape
        return np.full(n * draws, 1.0 / draws) if self.weights is None else self.weights.reshape(-1)

    def take(self, rows: NDArray[np.intp]) -> DrawnOutputs:
        """Return the outputs of some rows."""
        return DrawnOutputs(self.values[rows], None if self.weights is None else self.weights[rows])

    def mean_features(self, p: NDArray[np.float64], where: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the mean feature (N, r) of each row from features ``p`` of distinct outputs."""
        n, draws, _ = self.values.shape
        if draws == 1 and self.weights is None:
            return p[where]
        index = where.reshape(n, draws)
        share = self.share.reshape(n, draws)
        out = np.empty((n, p.shape[1]))
        step = max(1, _BLOCK // (draws * p.shape[1]))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            out[rows] = np.einsum("nl,nlr->nr", share[rows], p[index[rows]])
        return out


@dataclass(frozen=True, eq=False)
class PredictedOutputs:
    """A predicted distribution for each of N rows, used through its expectations."""

    prediction: Predictive

    def take(self, rows: NDArray[np.intp]) -> PredictedOutputs:
        """Return the distributions of some rows."""
        return PredictedOutputs(self.prediction.take(rows))


Outputs = DrawnOutputs | PredictedOutputs


@dataclass(frozen=True, eq=False)
class Sample:
    """A design and the outputs of the rows that take part, and its regulariser."""

    design: Design
    outputs: Outputs
    lam: float

    @staticmethod
    def of(
        x: NDArray[Any], outputs: Outputs, weights: NDArray[np.float64] | None, lam: float
    ) -> Sample:
        """Return the sample of the rows of positive weight, equal inputs collapsed."""
        design = Design.of(x, weights)
        if design.rows is not None:
            outputs = outputs.take(design.rows)
        return Sample(design, outputs, lam)

    @property
    def shift(self) -> NDArray[np.float64]:
        """The diagonal of its regularised system."""
        return self.design.shift(self.lam)
