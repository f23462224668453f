"""Data sets that an exact test ranks the observed outcomes among; a right model makes them exchangeable.

If the prediction is right, y and B outcomes drawn from it are exchangeable, row by row. Any computation
that treats all B + 1 data sets alike leaves them exchangeable, and the rank of the observed data set is
uniform.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import Purpose, generator, seed_sequence
from fastmcmd.predictive import Categorical, Draws, Predictive
from fastmcmd.predictive.base import LEAST_UNIFORM, MOST_LEVEL

__all__ = [
    "NORMAL_IQR",
    "ExchangedOutcomes",
    "GivenOutcomes",
    "OutcomeSource",
    "Reference",
    "SimulatedOutcomes",
    "exchangeable_outcomes",
]

# Rows of a block. Each block has its own random stream, so results do not depend on memory or threads.
ROWS = 512
_SCALE_ROWS = 2_000  # rows that give the scales of outcomes
_SCALE_DRAWS = 20
REFERENCES = 32  # outcomes of a row that represent its distribution
NORMAL_IQR = 1.349  # interquartile range of a standard normal distribution
_QUARTILES = (0.25, 0.5, 0.75)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reference:
    """What right predictions say about the outcomes of some rows, with which all data sets are compared.

    Attributes
    ----------
    values : ndarray (m, J, k)
        Equally likely outcomes. Their mean features are unbiased for those of the distribution.
    centre, spread : ndarray (m, k)
        Medians; interquartile ranges over 1.349, or standard deviations where these are 0.
    support, masses : ndarray (C, 1), ndarray (m, C), or None
        All outcomes that are possible and their probabilities, if these are few: then mean features are
        exact.
    """

    values: Array
    centre: Array
    spread: Array
    support: Array | None = None
    masses: Array | None = None

    @staticmethod
    def of_values(values: Array) -> Reference:
        """Return a reference whose scales are those of its values (m, J, k)."""
        sorted_values = np.sort(values, axis=1)
        count = values.shape[1]
        quarter = max(1, count // 4)
        with np.errstate(invalid="ignore", over="ignore"):
            centre = sorted_values[:, (count - 1) // 2 : count // 2 + 1].mean(axis=1)
            spread = (sorted_values[:, -quarter] - sorted_values[:, quarter - 1]) / NORMAL_IQR
            if not (spread > 0).all():
                wide = np.sqrt(np.mean(np.square(values - centre[:, None]), axis=1))
                spread = np.where(spread > 0, spread, wide)
        return Reference(values, centre, spread)

    @staticmethod
    def of_predictions(prediction: Predictive, values: Array) -> Reference:
        """Return a reference whose scales are those of predicted distributions."""
        quartiles = np.asarray(prediction.quantile(_QUARTILES)).reshape(len(prediction), -1, 3)
        with np.errstate(invalid="ignore", over="ignore"):
            spread = (quartiles[:, :, 2] - quartiles[:, :, 0]) / NORMAL_IQR
            flat = np.flatnonzero(~(spread > 0).all(axis=1))
            if len(flat):
                std = np.asarray(prediction.take(flat).std).reshape(len(flat), -1)
                spread[flat] = np.where(spread[flat] > 0, spread[flat], std)
        return Reference(values, quartiles[:, :, 1], spread)

    @cached_property
    def sorted_values(self) -> Array:
        """The values (k, m, J) of each column in ascending order."""
        return np.sort(np.moveaxis(self.values, 2, 0), axis=2)

    def take(self, rows: slice) -> Reference:
        """Return the reference of some of the rows."""
        masses = None if self.masses is None else self.masses[rows]
        return Reference(
            self.values[rows], self.centre[rows], self.spread[rows], self.support, masses
        )


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
    def has_exact_mean(self) -> bool:
        """Whether the mean features of the reference are, nearly, those of right predictions.

        Otherwise the reference is the data sets themselves, and p-values vary more from seed to seed.
        """
        return False

    @property
    def has_support(self) -> bool:
        """Whether the reference has all possible outcomes, so that mean features are exact."""
        return False

    def noise_factor(self, *, exact: bool) -> float:
        """Return the factor that gives squared residuals of right predictions their expectation.

        ``exact`` says whether residuals are from the expectation itself, or from the mean over all data
        sets, which includes the outcome.
        """
        return 1.0 if exact else (self.simulations + 1) / self.simulations

    def signal_factor(self, *, exact: bool) -> float:
        """Return the further factor for an unbiased square of the misfit of wrong predictions."""
        return 1.0 if exact else (self.simulations + 1) / self.simulations

    def block(self, number: int) -> Array:
        """Return the outcomes (m, B + 1, k) of a block of rows, the observed ones first."""
        rows = self._rows(number)
        rng = np.random.Generator(np.random.PCG64(self._child(number)))
        return np.concatenate(
            [self.y[rows, None, :], self._simulated(rows, self.simulations, rng)], axis=1
        )

    def reference(self, number: int, outcomes: Array) -> Reference:
        """Return the reference of a block of rows, whose data sets are ``outcomes`` (m, B + 1, k)."""
        del number
        return Reference.of_values(outcomes)

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

    def _rows(self, number: int) -> NDArray[np.intp]:
        return np.arange(number * ROWS, min((number + 1) * ROWS, len(self.y)))

    def _levels(self, number: int, count: int, rows: int) -> Array:
        """Return a level (rows, count) in each of as many equal parts of (0, 1).

        Their places are pseudo-random and the same for each ``random_state``, so p-values do not vary with
        them.
        """
        rng = np.random.Generator(np.random.PCG64(number))
        levels = (np.arange(count) + rng.random((rows, count))) / count
        return np.clip(levels, LEAST_UNIFORM, MOST_LEVEL)

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

    @property
    def has_exact_mean(self) -> bool:
        """Whether quantiles are quick: the reference then has an outcome in each 32nd of probability."""
        return self.prediction.columns == 1 and self.prediction.has_quick_quantiles

    @property
    def has_support(self) -> bool:
        """True for probabilities of classes."""
        return isinstance(self.prediction, Categorical)

    def reference(self, number: int, outcomes: Array) -> Reference:
        """Return the reference of a block of rows: the distributions themselves if quantiles are quick."""
        if not self.prediction.has_quick_quantiles:
            return Reference.of_values(outcomes)
        prediction = self.prediction.take(self._rows(number))
        if self.has_exact_mean:
            levels = self._levels(number, REFERENCES, len(prediction))
            outcomes = np.asarray(prediction.quantiles_at(levels), dtype=np.float64)[:, :, None]
        reference = Reference.of_predictions(prediction, outcomes)
        if isinstance(prediction, Categorical):
            masses = prediction.probs.astype(np.float64)
            return replace(reference, support=prediction.values[:, None], masses=masses)
        return reference

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
    def has_exact_mean(self) -> bool:
        """Whether the reference is the exchanged values, or one of each 32nd of many numbers."""
        return self.draws.shape[2] == 1 or self.draws.shape[1] < REFERENCES

    def noise_factor(self, *, exact: bool) -> float:
        """As for other predictions; also, the mean of the draws without the outcome is farther from it."""
        return (1 + 1 / self.draws.shape[1]) ** 2 * super().noise_factor(exact=exact)

    def reference(self, number: int, outcomes: Array) -> Reference:
        """Return the reference of a block of rows: the values that are exchanged."""
        values = self._values(self._rows(number))
        scales = Reference.of_values(values)
        if values.shape[1] <= REFERENCES:
            return scales
        if self.has_exact_mean:
            levels = self._levels(number, REFERENCES, len(values))
            places = (levels * values.shape[1]).astype(np.intp)
            outcomes = np.take_along_axis(np.sort(values, axis=1), places[:, :, None], axis=1)
        return Reference(outcomes, scales.centre, scales.spread)

    def _values(self, rows: NDArray[np.intp]) -> Array:
        return np.concatenate([self.y[rows, None, :], self.draws[rows]], axis=1)

    def _simulated(self, rows: NDArray[np.intp], size: int, rng: np.random.Generator) -> Array:
        values = self._values(rows)
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

    def noise_factor(self, *, exact: bool) -> float:
        """Return 1: residuals are only compared with each other."""
        del exact
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
