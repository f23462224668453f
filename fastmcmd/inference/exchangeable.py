"""Data sets that an exact test ranks the observed outcomes among; a right model makes them exchangeable.

If the prediction is right, y and B outcomes drawn from it are exchangeable, row by row. Any computation
that treats all B + 1 data sets alike leaves them exchangeable, and the rank of the observed data set is
uniform.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.seeds import Purpose, generator, seed_sequence
from fastmcmd.predictive import Draws, Predictive

__all__ = [
    "ExchangedOutcomes",
    "GivenOutcomes",
    "OutcomeSource",
    "SimulatedOutcomes",
    "exchangeable_outcomes",
]

# Rows of a block. Each block has its own random stream, so results do not depend on memory or threads.
ROWS = 512
_SCALE_ROWS = 2_000  # rows that give the scales of outcomes
_SCALE_DRAWS = 20

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OutcomeSource(ABC):
    """Data sets of outcomes: the observed one and B from a right model.

    Attributes
    ----------
    y : ndarray (n, k)
        Observed outcomes.
    simulations : int
        Number B of simulated data sets.
    seeds : numpy.random.SeedSequence
        Parent of the seeds; each block of rows has its own child.
    """

    y: Array
    simulations: int
    seeds: np.random.SeedSequence

    @property
    def correction(self) -> float:
        """Factor for squared residuals, which are from the mean over data sets that include the outcome."""
        return (self.simulations + 1) / self.simulations

    def block(self, number: int) -> Array:
        """Return the outcomes (m, B + 1, k) of a block of rows, the observed ones first."""
        rows = np.arange(number * ROWS, min((number + 1) * ROWS, len(self.y)))
        rng = np.random.Generator(np.random.PCG64(self._child(number)))
        return np.concatenate(
            [self.y[rows, None, :], self._simulated(rows, self.simulations, rng)], axis=1
        )

    def of_some_rows(self) -> Array:
        """Return further simulated outcomes (m, 20, k) of at most 2,000 rows, for scales.

        They take no part in the ranking and do not favour y.
        """
        n = len(self.y)
        rng = np.random.Generator(np.random.PCG64(self._child(-1)))
        rows = np.arange(n) if n <= _SCALE_ROWS else rng.choice(n, _SCALE_ROWS, replace=False)
        return self._simulated(np.sort(rows), _SCALE_DRAWS, rng)

    def simulated(self, rows: NDArray[np.intp], size: int, rng: np.random.Generator) -> Array:
        """Return further outcomes (m, size, k) of some rows, from the stream of the caller."""
        return self._simulated(rows, size, rng)

    def _child(self, number: int) -> np.random.SeedSequence:
        key = (*self.seeds.spawn_key, number + 1)
        return np.random.SeedSequence(self.seeds.entropy, spawn_key=key)

    @abstractmethod
    def _simulated(self, rows: NDArray[np.intp], size: int, rng: np.random.Generator) -> Array:
        """Return outcomes (m, size, k) of some rows."""


@dataclass(frozen=True, eq=False)
class SimulatedOutcomes(OutcomeSource):
    """Outcomes drawn from predicted distributions."""

    prediction: Predictive

    def _simulated(self, rows: NDArray[np.intp], size: int, rng: np.random.Generator) -> Array:
        outcomes = np.asarray(self.prediction.take(rows).sample(size, rng), dtype=np.float64)
        return outcomes.reshape(len(rows), size, -1)


@dataclass(frozen=True, eq=False)
class ExchangedOutcomes(OutcomeSource):
    """Exchanged outcomes for predictions that are l draws: any of the l + 1 values of a row replaces y.

    Draws compared with their own mean would look too good, because they are part of it (a test of size .23
    at l = 5).
    """

    draws: Array  # (n, l, k)

    @property
    def correction(self) -> float:
        """As in `Outcomes`; also, the mean of the draws without the outcome is farther from it."""
        count = self.draws.shape[1]
        return (1 + 1 / count) ** 2 * (self.simulations + 1) / self.simulations

    def _simulated(self, rows: NDArray[np.intp], size: int, rng: np.random.Generator) -> Array:
        values = np.concatenate([self.y[rows, None, :], self.draws[rows]], axis=1)
        columns = rng.integers(0, values.shape[1], (len(rows), size))
        return np.asarray(values[np.arange(len(rows))[:, None], columns])


@dataclass(frozen=True, eq=False)
class GivenOutcomes(OutcomeSource):
    """Given data sets, none of which is distinguished."""

    values: Array  # (n, B + 1, k)

    @staticmethod
    def of(values: Array) -> GivenOutcomes:
        """Return data sets with these values (n, B + 1, k)."""
        seeds = np.random.SeedSequence(0)  # unused: nothing is drawn
        return GivenOutcomes(values[:, 0], values.shape[1] - 1, seeds, values)

    @property
    def correction(self) -> float:
        """1: residuals are only compared with each other."""
        return 1.0

    def block(self, number: int) -> Array:
        """Return the outcomes (m, B + 1, k) of a block of rows."""
        return self.values[number * ROWS : (number + 1) * ROWS]

    def _simulated(self, rows: NDArray[np.intp], size: int, rng: np.random.Generator) -> Array:
        return self.values[rows, 1 : 1 + size]


def exchangeable_outcomes(
    y: Array, prediction: Predictive, simulations: int, random_state: object
) -> OutcomeSource:
    """Return the data sets for a test of ``prediction`` with outcomes ``y`` (n, k)."""
    source = generator(random_state, Purpose.TEST)
    seeds = seed_sequence(source)
    if isinstance(prediction, Draws):
        draws = prediction.array.reshape(len(y), -1, y.shape[1])
        return ExchangedOutcomes(y, simulations, seeds, draws)
    return SimulatedOutcomes(y, simulations, seeds, prediction)
