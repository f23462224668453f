"""A sample of the rows that merges: the rows with the largest random keys, wherever they are.

Each row gets the key ``log(u) / mass`` (Efraimidis and Spirakis, *Weighted random sampling with a
reservoir*, 2006): the rows with the m largest keys are drawn one after the other without replacement, each
with a probability proportional to its mass among those left. Keys come from the number of the block, so the
sample does not depend on which worker computed it, or in which order parts were added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.distributed.blocks import Arguments
from fastmcmd.distributed.rows import (
    ALL_ROWS,
    RowRules,
    block_seed,
    checked_rows,
    rows_of,
    valid_rows,
)
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.smoother import Smoother
from fastmcmd.predictive import Categorical, Predictive
from fastmcmd.streaming.congruence_landmarks import features_of
from fastmcmd.streaming.congruence_sums import Probes

__all__ = ["BlockSample", "SampleJob", "Samples", "draw_sample", "probe_mass", "probes_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BlockSample:
    """Rows with the largest keys.

    Attributes
    ----------
    most : int
        Number of rows to keep.
    keys : ndarray (m,)
        Keys.
    x, y, simulated : ndarray (m, d), (m, k), (m, k)
        Inputs, outcomes, and one outcome of a right model; no columns without these.
    places : ndarray (m, 2)
        Block and row of each.
    rows : int
        Rows seen.
    weight, mass : float
        Sum of their weights, and of the masses by which they were drawn.
    classes : int
        Number of classes without an order that are predicted; 0 for numbers.
    weights : ndarray (m,) or None
        Weights of the rows, if there are any.
    masses : ndarray (m,) or None
        Masses of the rows.
    """

    most: int
    keys: Array
    x: Array
    y: Array
    simulated: Array
    places: NDArray[np.int64]
    rows: int
    weight: float
    mass: float
    classes: int = 0
    weights: Array | None = None
    masses: Array | None = None

    def __add__(self, other: BlockSample) -> BlockSample:
        for name in ("x", "y"):
            widths = getattr(self, name).shape[1], getattr(other, name).shape[1]
            if widths[0] != widths[1]:
                raise ValueError(
                    f"{name} has {widths[0]} columns in one block and {widths[1]} in another"
                )
        keys = np.concatenate([self.keys, other.keys])
        places = np.concatenate([self.places, other.places])
        # Ties, as between rows of no mass, are resolved by place.
        top = np.lexsort((places[:, 1], places[:, 0], -keys))[: self.most]
        x, y, simulated = (
            np.concatenate([getattr(self, name), getattr(other, name)])[top]
            for name in ("x", "y", "simulated")
        )
        weights, masses = (
            None if a is None or b is None else np.concatenate([a, b])[top]
            for a, b in ((self.weights, other.weights), (self.masses, other.masses))
        )
        return BlockSample(
            self.most, keys[top], x, y, simulated, places[top], self.rows + other.rows,
            self.weight + other.weight, self.mass + other.mass, max(self.classes, other.classes), weights,
            masses,
        )  # fmt: skip

    @property
    def complete(self) -> bool:
        """Whether no row with a mass was left out."""
        return len(self.keys) < self.most or self.mass <= len(self.keys)

    def in_order(self) -> NDArray[np.intp]:
        """Return the positions of the rows in the order of the data."""
        return np.lexsort((self.places[:, 1], self.places[:, 0]))


@dataclass(frozen=True, eq=False)
class Samples:
    """Several samples of the same rows."""

    parts: tuple[BlockSample, ...]

    def __add__(self, other: Samples) -> Samples:
        return Samples(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))


@dataclass(frozen=True, eq=False)
class SampleJob:
    """Samples of rows: uniform, or by what landmarks miss, to propose landmarks and measure residuals.

    Attributes
    ----------
    name : str
        Name of the pass.
    seed : SeedSequence
        Source of the keys.
    most : int
        Number of rows to keep.
    smoother : Smoother or None
        Landmarks whose residual ``k(x, x) - |f(x)|^2`` is the mass of a row; None for equal masses.
    probes : int
        Rows of a second sample, with the masses of `probe_mass`; 0 for none.
    floor, unit : float
        Mean residual and mean weight.
    rules : RowRules
        Rows to leave out of the sample: those with an ignored label, and those with NaN unless they raise.
    """

    name: str
    seed: np.random.SeedSequence
    most: int
    smoother: Smoother | None = None
    probes: int = 0
    floor: float = 0.0
    unit: float = 1.0
    rules: RowRules = ALL_ROWS

    def sums(self, arguments: Arguments, number: int) -> Samples | None:
        """Return the samples of a block."""
        if self.rules == ALL_ROWS:
            x, y, prediction, weights = checked_rows(arguments)
        else:
            rows = valid_rows(arguments, self.rules)
            if not rows.outcomes:
                return None
            one = next(iter(rows.outcomes.values()))
            x, y, prediction, weights = (
                rows_of(arguments["x"], rows.valid), one.y.reshape(len(one.y), -1), one.prediction,
                one.weights,
            )  # fmt: skip
        residual = np.ones(len(x)) if self.smoother is None else features_of(self.smoother, x)[1]
        if isinstance(prediction, dict):
            prediction = next(iter(prediction.values()))
        seed = block_seed(self.seed, number)
        purpose = Purpose.DEFAULTS if self.smoother is None else Purpose.LANDMARKS
        rng = generator(seed, purpose)
        first = draw_sample(x, y, weights, residual, self.most, rng, number)
        if prediction is not None:
            first = replace(first, classes=_classes_of(prediction))
            if self.smoother is None and not len(first.keys):  # no row has a weight
                first = replace(first, simulated=np.empty((0, y.shape[1])))
            elif self.smoother is None:
                top = first.places[:, 1]
                outcomes_of = exchangeable_outcomes(y, prediction, 1, rng)
                first = replace(first, simulated=outcomes_of.simulated(top, 1, rng)[:, 0])
        if not self.probes:
            return Samples((first,))
        rng = generator(seed, Purpose.CERTIFICATE)
        mass = probe_mass(residual, self.floor, weights, self.unit)
        return Samples((first, draw_sample(x, y, weights, mass, self.probes, rng, number)))


def draw_sample(
    x: Array, y: Array, weights: Array | None, mass: Array, most: int, rng: np.random.Generator, number: int
) -> BlockSample:  # fmt: skip
    """Return a sample of the rows of a block, by their masses; rows of weight 0 have none."""
    if weights is not None:
        mass = np.where(weights > 0, mass, 0.0)
    with np.errstate(divide="ignore"):
        keys = np.where(mass > 0, np.log(rng.random(len(x))) / mass, -np.inf)
    top = np.sort(np.argsort(-keys, kind="stable")[:most])
    top = top[mass[top] > 0]
    places = np.stack([np.full(len(top), number), top], axis=1).astype(np.int64)
    return BlockSample(
        most, keys[top], x[top], y[top], np.empty((len(top), 0)), places, len(x),
        float(len(x) if weights is None else weights.sum()), float(mass.sum()), 0,
        None if weights is None else np.asarray(weights)[top], mass[top],
    )  # fmt: skip


def probe_mass(residual: Array, floor: float, weights: Array | None, unit: float) -> Array:
    """Return the masses for drawing rows that measure the residual: large residuals and heavy rows."""
    mass = residual + floor
    return mass if weights is None else np.asarray(mass * (1 + (weights / unit) ** 2))


def probes_of(sample: BlockSample, rank: int) -> Probes:
    """Return rows at which the residual is measured, with the probabilities by which they were drawn.

    Given the largest key that was not top, each row is top independently with a known probability (Cohen
    and Kaplan, *Summarizing data using bottom-k sketches*, 2007).
    """
    order = np.argsort(-sample.keys, kind="stable")
    chances = np.ones(len(order))
    assert sample.masses is not None
    if len(order) == sample.most:
        *_, last = order
        order = order[:-1]
        chances = -np.expm1(sample.masses[order] * sample.keys[last])
    weights = np.ones(len(order)) if sample.weights is None else sample.weights[order]
    return Probes(sample.x[order], weights, chances, np.zeros((len(order), rank)))


def _classes_of(prediction: Predictive) -> int:
    return len(prediction.values) if isinstance(prediction, Categorical) else 0
