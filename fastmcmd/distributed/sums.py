"""Sums of the congruence error of one block, and its values at the points of one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import as_rows
from fastmcmd.distributed.blocks import Arguments
from fastmcmd.distributed.rows import block_seed, checked_rows
from fastmcmd.inference.smoother import Smoother
from fastmcmd.predictive import Draws, Predictive
from fastmcmd.streaming import CCE
from fastmcmd.streaming.congruence_landmarks import features_of, scaled_rows
from fastmcmd.streaming.congruence_sums import CongruenceSums, Ridge
from fastmcmd.streaming.output_features import Columns

__all__ = [
    "BlockPointValues",
    "CongruenceJob",
    "Embedded",
    "Summary",
    "SummaryJob",
    "congruence_sums",
]

Array = NDArray[np.float64]


class Embedded(CCE):
    """Sums of the outcomes themselves: the misfit of a model whose embedding is 0.

    `mcmd` compares two samples, each of which has sums of its own.
    """

    def _expected(self, prediction: Predictive, columns: Columns) -> tuple[Array, Array, bool]:
        n = len(prediction)
        return np.zeros((n, len(columns))), np.zeros(n), True

    def _variances(self, prediction: Predictive, mean: Array) -> None:
        """Return None: without a model there is no noise of one."""


def congruence_sums(
    accumulator: CCE, x: Array, y: Array, prediction: Any, weights: Array | None, step: int
) -> CongruenceSums | None:
    """Return the sums of some rows, computed ``step`` rows at a time; None if all have weight 0."""
    total: CongruenceSums | None = None
    for start in range(0, len(y), step):
        rows = np.arange(start, min(start + step, len(y)))
        w = None if weights is None else weights[rows]
        if w is not None and not w.any():
            continue
        some = (
            {name: one.take(rows) for name, one in prediction.items()}
            if isinstance(prediction, Mapping)
            else prediction.take(rows)
        )
        one = accumulator.gather(x[rows], y[rows], some, w)
        total = one if total is None else total + one
    return total


@dataclass(frozen=True, eq=False)
class CongruenceJob:
    """Sums of the CCE.

    Attributes
    ----------
    accumulator : CCE
        Without rows, with the landmarks.
    seed : SeedSequence
        Source of the simulated outcomes of blocks.
    step : int
        Rows that are handled together.
    name : str
        Name of the pass.
    """

    accumulator: CCE
    seed: np.random.SeedSequence
    step: int
    name: str = "sums"

    def sums(self, arguments: Arguments, number: int) -> CongruenceSums | None:
        """Return the sums of a block."""
        x, y, prediction, weights = checked_rows(arguments)
        if prediction is None:
            prediction = Draws(y[:, None] if y.shape[1] == 1 else y[:, None, :])
        part = self.accumulator.fresh(block_seed(self.seed, number))
        return congruence_sums(part, x, y, prediction, weights, self.step)


@dataclass(frozen=True, eq=False)
class BlockPointValues:
    """Values of the CCE or MCMD, their error bounds, and their noise at points.

    Attributes
    ----------
    smoother : Smoother
        Landmarks.
    coefficients : ndarray (p, r)
        The product with f(x) is the embedding at x.
    ridges : tuple of Ridge
        One for the CCE; those of the two samples of the MCMD, whose bounds add up.
    """

    smoother: Smoother
    coefficients: Array
    ridges: tuple[Ridge, ...]

    @staticmethod
    def of(*ridges: Ridge) -> BlockPointValues:
        """Return the values of one regression, or of the difference of two."""
        for one in ridges:
            _ = one.dual_norm, one.sampled_residual  # computed once, here
        if len(ridges) == 1:
            return BlockPointValues(ridges[0].sums.smoother, ridges[0].coefficients, ridges)
        first, second = ridges
        columns = np.unique(np.concatenate([first.sums.columns, second.sums.columns]), axis=0)
        places = {tuple(one): at for at, one in enumerate(columns.tolist())}
        total = np.zeros((len(first.coefficients), len(columns)))
        for sign, one in ((1.0, first), (-1.0, second)):
            positions = [places[tuple(column)] for column in one.sums.columns.tolist()]
            total[:, positions] += sign * one.coefficients
        return BlockPointValues(first.sums.smoother, total, ridges)

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells these values from others: their size, to digits that rounding leaves alone."""
        return repr(self.coefficients.shape), f"{np.linalg.norm(self.coefficients):.6e}"

    def at(self, x: Array, noise: bool = False) -> dict[str, Array]:
        """Return "value" and "error_bound" (q,); with ``noise`` also "null_mean" and "excess"."""
        f, residual = features_of(self.smoother, x)
        diagonal = self.smoother.features.diagonal(scaled_rows(self.smoother, x))
        value = np.asarray(np.linalg.norm(f @ self.coefficients, axis=1))
        bound = np.sum(
            [
                np.minimum(
                    one.error_bounds(diagonal, residual), one.sampled_bounds(diagonal, residual)
                )
                for one in self.ridges
            ],
            axis=0,
        )
        values = {"value": value, "error_bound": bound}
        if noise:
            (ridge,) = self.ridges
            solved = ridge.solved(f)
            null = ridge.model.null
            values["null_mean"] = (
                np.full(len(f), np.nan)
                if null is None
                else np.einsum("ij,ij->i", solved @ null, solved)
            )
            values["excess"] = value**2 - np.einsum("ij,ij->i", solved @ ridge.model.noise, solved)
        return values


@dataclass(frozen=True)
class Summary:
    """Sums of values at points.

    Attributes
    ----------
    points : int
    weight : float
    total, weighted, bounds : float
        Sums of values, of weighted values, and of error bounds.
    least, largest, bound : float
        Extremes of values, and the largest error bound.
    """

    points: int
    weight: float
    total: float
    weighted: float
    bounds: float
    least: float
    largest: float
    bound: float

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.points + other.points, self.weight + other.weight, self.total + other.total,
            self.weighted + other.weighted, self.bounds + other.bounds, min(self.least, other.least),
            max(self.largest, other.largest), max(self.bound, other.bound),
        )  # fmt: skip

    @staticmethod
    def of(values: Array, bounds: Array, weights: Array | None) -> Summary:
        """Return the sums of some points."""
        w = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
        return Summary(
            len(values), float(w.sum()), float(values.sum()), float(w @ values), float(bounds.sum()),
            float(values.min()), float(values.max()), float(bounds.max()),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SummaryJob:
    """Sums of values at points.

    Attributes
    ----------
    values : BlockPointValues
        What is summed.
    name : str
        Name of the pass.
    """

    values: BlockPointValues
    name: str = "values"

    def sums(self, arguments: Arguments, number: int) -> Summary:
        """Return the sums of a block."""
        values = self.values.at(as_rows(arguments["x"], "x").astype(np.float64))
        return Summary.of(values["value"], values["error_bound"], arguments.get("weights"))
