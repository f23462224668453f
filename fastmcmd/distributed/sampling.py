"""A sample of the rows that merges: the rows with the largest random keys, wherever they are.

Each row gets the key ``log(u) / mass`` (Efraimidis and Spirakis, *Weighted random sampling with a
reservoir*, 2006): the rows with the m largest keys are drawn one after the other without replacement, each
with a probability proportional to its mass among those left. Keys come from the number of the block, so the
sample does not depend on which worker computed it, or in which order parts were added.
"""

from __future__ import annotations

from dataclasses import dataclass
import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.distributed.blocks import Arguments
from fastmcmd.distributed.rows import block_seed, checked_rows, rows_of, valid_rows
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.smoother import Smoother
from fastmcmd.predictive import Categorical
from fastmcmd.streaming.congruence_landmarks import features_of

__all__ = ["Sample", "SampleJob"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with the largest keys.

    Attributes
    ----------
    most : int
        Number of rows to keep.
    keys : ndarray (m,)
        Keys.
    x, y, drawn : ndarray (m, d), (m, k), (m, k)
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
    """

    most: int
    keys: Array
    x: Array
    y: Array
    drawn: Array
    places: NDArray[np.int64]
    rows: int
    weight: float
    mass: float
    classes: int = 0
    weights: Array | None = None

    def __add__(self, other: Sample) -> Sample:
        for name in ("x", "y"):
            widths = getattr(self, name).shape[1], getattr(other, name).shape[1]
            if widths[0] != widths[1]:
                raise ValueError(f"{name} has {widths[0]} columns in one block and {widths[1]} in another")
        keys = np.concatenate([self.keys, other.keys])
        places = np.concatenate([self.places, other.places])
        # Ties, as between rows of no mass, are resolved by place.
        kept = np.lexsort((places[:, 1], places[:, 0], -keys))[: self.most]
        x, y, drawn = (
            np.concatenate([getattr(self, name), getattr(other, name)])[kept]
            for name in ("x", "y", "drawn")
        )
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = np.concatenate([self.weights, other.weights])[kept]
        return Sample(
            self.most, keys[kept], x, y, drawn, places[kept], self.rows + other.rows,
            self.weight + other.weight, self.mass + other.mass, max(self.classes, other.classes), weights,
        )  # fmt: skip

    def in_order(self) -> NDArray[np.intp]:
        """Return the positions of the rows in the order of the data."""
        return np.lexsort((self.places[:, 1], self.places[:, 0]))


@dataclass(frozen=True, eq=False)
class SampleJob:
    """A sample of rows: uniform, or with masses from what landmarks miss.

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
    policy : str
        What to do with rows that hold NaN: all but "raise" leaves them out of the sample.
    """

    name: str
    seed: np.random.SeedSequence
    most: int
    smoother: Smoother | None = None
    policy: str = "raise"

    def sums(self, arguments: Arguments, number: int) -> Sample | None:
        """Return the sample of a block."""
        if self.policy == "raise":
            x, y, prediction, weights = checked_rows(arguments)
        else:
            outcomes, valid, _ = valid_rows(arguments, self.policy)
            if not outcomes:
                return None
            one = next(iter(outcomes.values()))
            x, y, prediction, weights = (
                rows_of(arguments["x"], valid), one.y.reshape(len(one.y), -1), one.prediction, one.weights,
            )  # fmt: skip
        rng = generator(block_seed(self.seed, number), Purpose.LANDMARKS)
        mass = np.ones(len(x)) if self.smoother is None else features_of(self.smoother, x)[1]
        if weights is not None:
            mass = np.where(weights > 0, mass, 0.0)
        with np.errstate(divide="ignore"):
            keys = np.where(mass > 0, np.log(rng.random(len(x))) / mass, -np.inf)
        kept = np.sort(np.argsort(-keys, kind="stable")[: self.most])
        kept = kept[mass[kept] > 0]
        one = next(iter(prediction.values())) if isinstance(prediction, dict) else prediction
        drawn = np.empty((len(kept), 0))
        if one is not None and self.smoother is None and len(kept):
            drawn = exchangeable_outcomes(y, one, 1, rng).simulated(kept, 1, rng)[:, 0]
        places = np.stack([np.full(len(kept), number), kept], axis=1).astype(np.int64)
        return Sample(
            self.most, keys[kept], x[kept], y[kept], drawn, places, len(x),
            float(len(x) if weights is None else weights.sum()), float(mass.sum()),
            len(one.values) if isinstance(one, Categorical) else 0, None if weights is None else weights[kept],
        )  # fmt: skip
