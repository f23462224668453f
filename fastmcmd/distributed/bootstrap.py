"""Bootstrap samples of rows in blocks: a row counts k times with the probability of a Poisson number.

The number of times that a row is in a sample of n rows with replacement is nearly a Poisson number of mean
1, independent of other rows (Chamandy, Muralidharan, Najmi & Naidu, *Estimating uncertainty for massive
data streams*, 2012). So each block draws its own, and the sums of samples add up. Intervals are those of
`fastmcmd.evaluation.bootstrap`: studentised for functions of means, and by the triangle inequality for
norms of curves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.distributed.pair_moments import MOMENT_MEASURES, PairMoments, powers_of
from fastmcmd.evaluation.bootstrap import WITHOUT, Replicates
from fastmcmd.evaluation.class_gaps import CLASS_MEASURES, ClassGaps
from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.measures import ALL_MEASURES, ON_REQUEST
from fastmcmd.evaluation.nulls import CURVE_MEASURES, curve_number
from fastmcmd.evaluation.row_means import is_root, mean_of
from fastmcmd.metrics.reliability_sums import ECE_LEVELS, TOOLBOX_LEVELS, ReliabilityCurve

__all__ = ["ResampledSums", "resampled_sums"]

Array = NDArray[np.float64]

_ROWS = 4_096  # rows whose counts are in memory at once
_LEVELS = {"quantile": ECE_LEVELS, "interval": TOOLBOX_LEVELS}


@dataclass(frozen=True, eq=False)
class ResampledSums:
    """Sums of all rows and of bootstrap samples: B + 1 of each, the first of all rows.

    Attributes
    ----------
    totals : ndarray (2, B + 1)
        Sums of ``c w`` and of ``c w^2``, for counts c and weights w.
    centres : dict of float
        What is subtracted from the values by row of each measure that is a function of one mean.
    moments : dict of ndarray (3, B + 1)
        Sums of ``c w v``, ``c w^2 v`` and ``c w^2 v^2`` over these values.
    curves : dict of ndarray (B + 1, j)
        Sums of ``c w`` between levels of the PIT, for "quantile" and "interval".
    gaps : dict of ndarray (B + 1, k, bins)
        Sums of ``c w`` times frequency less probability, for calibration errors of classes.
    pairs : PairMoments or None
        Moments of outcomes and predicted means, for numbers.
    """

    totals: Array
    centres: dict[str, float]
    moments: dict[str, Array]
    curves: dict[str, Array]
    gaps: dict[str, Array]
    pairs: PairMoments | None = None

    def __add__(self, other: ResampledSums) -> ResampledSums:
        weight, squared = other.totals
        moments = {}
        for name, sums in self.moments.items():
            if name in other.moments:
                first, second, squares = other.moments[name]
                move = np.float64(other.centres[name] - self.centres[name])
                with np.errstate(over="ignore", invalid="ignore"):  # beyond float64: no interval
                    third = squares + 2 * move * second + move**2 * squared
                moments[name] = sums + np.stack(
                    [first + move * weight, second + move * squared, third]
                )
        return ResampledSums(
            self.totals + other.totals, {name: self.centres[name] for name in moments}, moments,
            _common(self.curves, other.curves), _common(self.gaps, other.gaps),
            None if self.pairs is None or other.pairs is None else self.pairs + other.pairs,
        )  # fmt: skip

    def replicates(self, rows: tuple[object, ...]) -> Replicates:
        """Return the numbers of all samples; equal ``rows`` stand for samples of the same rows."""
        totals, squared = self.totals
        values, errors, distances = dict[str, Array](), {}, dict[str, Array]()
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for name, (firsts, seconds, squares) in self.moments.items():
                shifts = firsts / totals
                means = self.centres[name] + shifts
                scatter = squares - 2 * shifts * seconds + shifts**2 * squared
                error = np.sqrt(np.maximum(scatter, 0.0)) / totals
                if is_root(name):
                    means = np.sqrt(np.maximum(means, 0.0))
                    error = error / (2 * means)
                values[name] = means[1:]
                errors[name] = float(error[0]), error[1:]
            if self.pairs is not None:
                for name in MOMENT_MEASURES:
                    numbers, error = self.pairs.numbers(name)
                    values[name], errors[name] = numbers[1:], (float(error[0]), error[1:])
        for name in CURVE_MEASURES:
            kind = "quantile" if name == "regression_ece" else "interval"
            if kind in self.curves:
                samples = [self._curve(kind, sample) for sample in range(len(totals))]
                values[name] = np.array([curve_number(name, one) for one in samples[1:]])
                distances[name] = np.array(
                    [_distance(name, one, samples[0]) for one in samples[1:]]
                )
        for name, gaps in self.gaps.items():
            shares = gaps / totals[:, None, None]
            values[name] = np.array([ClassGaps.error(one) for one in shares[1:]])
            distances[name] = np.array([ClassGaps.error(one - shares[0]) for one in shares[1:]])
        return Replicates(rows, values, errors, distances, float(totals[0] ** 2 / squared[0]))

    def _curve(self, kind: str, sample: int) -> ReliabilityCurve:
        within = np.cumsum(self.curves[kind][sample])[:-1]
        weight, squared = self.totals[:, sample]
        effective = float(weight**2 / squared)
        return ReliabilityCurve(_LEVELS[kind], within / weight, within, kind, 0, effective)


def _distance(name: str, one: ReliabilityCurve, all_rows: ReliabilityCurve) -> float:
    """Return the norm of the difference of two curves."""
    shifted = replace(one, observed=one.expected + (one.observed - all_rows.observed))
    return curve_number(name, shifted)


def _common(one: Mapping[str, Array], other: Mapping[str, Array]) -> dict[str, Array]:
    return {name: one[name] + other[name] for name in one if name in other}


def resampled_sums(
    contexts: Mapping[str, Context],
    n_boot: int,
    seed: np.random.SeedSequence,
    requested: Collection[str] = (),
) -> list[ResampledSums]:
    """Return the sums of a block for each model; all have the same samples of rows.

    Parameters
    ----------
    contexts : dict of Context
        The rows, by model.
    n_boot : int
        Number of samples B.
    seed : SeedSequence
        Source of the samples, of this block.
    requested : collection of str
        Measures to add to the usual ones.
    """
    parts = [_GrowingSums.of(one, n_boot, requested) for one in contexts.values()]
    first = next(iter(contexts.values()))
    n, weights = len(first.y), first.weights
    rng = generator(seed, Purpose.BOOTSTRAP)
    totals = np.zeros((2, n_boot + 1))
    for start in range(0, n, _ROWS):
        rows = slice(start, min(n, start + _ROWS))
        counts = np.ones((n_boot + 1, rows.stop - start))
        counts[1:] = rng.poisson(1.0, (n_boot, rows.stop - start))
        w = np.ones(rows.stop - start) if weights is None else np.asarray(weights)[rows]
        weighed = counts * w
        squared = weighed * w
        totals += weighed.sum(axis=1), squared.sum(axis=1)
        for part in parts:
            part.add(rows, weighed, squared)
    return [part.sums(totals) for part in parts]


@dataclass(frozen=True, eq=False)
class _GrowingSums:
    """The sums of one model, which grow, with what its rows contribute."""

    names: list[str]
    values: Array
    centres: Array
    places: dict[str, NDArray[np.intp]]
    events: dict[str, tuple[NDArray[np.intp], Array]]
    moments: Array
    curves: dict[str, Array]
    gaps: dict[str, Array]
    powers: Array
    centre: tuple[float, float]
    pairs: Array

    @staticmethod
    def of(context: Context, n_boot: int, requested: Collection[str]) -> _GrowingSums:
        """Return the part of a model without sums."""
        without = {*WITHOUT, *(one.name for one in ON_REQUEST if one.name not in requested)}
        candidates = {
            one.name: mean_of(one.name, context)
            for one in ALL_MEASURES
            if one.name not in without and one.missing(context) is None
        }
        columns = {name: values for name, values in candidates.items() if values is not None}
        values = np.array(list(columns.values())).reshape(len(columns), len(context.y))
        centres = values.mean(axis=1)
        places: dict[str, NDArray[np.intp]] = {}
        events: dict[str, tuple[NDArray[np.intp], Array]] = {}
        if context.numbers:
            places = {kind: _places(context.pit, kind) for kind in _LEVELS}
        gaps = {}
        if context.nominal:
            for name in CLASS_MEASURES:
                one = ClassGaps.of(name, context)
                events[name] = (
                    one.cells,
                    one.observed(context.labelled.known_labels) - one.predicted,
                )
                shape = one.gaps(events[name][1] + one.predicted, None).shape
                gaps[name] = np.zeros((n_boot + 1, *shape))
        powers, centre = np.empty((0, len(context.y))), (0.0, 0.0)
        if context.numbers:
            y, mean = np.asarray(context.y), np.asarray(context.prediction.mean)
            if np.isfinite(mean).all():
                centre = float(y.mean()), float(mean.mean())
                powers = powers_of(y, mean, centre)
                if not np.isfinite(powers).all():  # no interval
                    powers = powers[:0]
        return _GrowingSums(
            list(columns), values - centres[:, None], centres, places, events,
            np.zeros((3, len(columns), n_boot + 1)),
            {kind: np.zeros((n_boot + 1, len(_LEVELS[kind]) + 1)) for kind in places}, gaps,
            powers, centre, np.zeros((2, len(powers), n_boot + 1)),
        )  # fmt: skip

    def add(self, rows: slice, weighed: Array, squared: Array) -> None:
        """Add some rows, given ``c w`` and ``c w^2`` of each sample (B + 1, m)."""
        values = self.values[:, rows]
        self.moments[0] += values @ weighed.T
        self.moments[1] += values @ squared.T
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float64: no interval
            self.moments[2] += values**2 @ squared.T
        self.pairs[0] += self.powers[:, rows] @ weighed.T
        self.pairs[1] += self.powers[:, rows] @ squared.T
        for kind, place in self.places.items():
            some, total = place[rows], self.curves[kind]
            for sample, weights in enumerate(weighed):
                total[sample] += np.bincount(some, weights, total.shape[1])
        for name, (cells, gaps) in self.events.items():
            flat, total = cells[rows].ravel(), self.gaps[name]
            for sample, weights in enumerate(weighed):
                products = (gaps[rows] * weights[:, None]).ravel()
                cell_sums = np.bincount(flat, products, total[sample].size)
                total[sample] += cell_sums.reshape(total[sample].shape)

    def sums(self, totals: Array) -> ResampledSums:
        """Return the sums."""
        return ResampledSums(
            totals, dict(zip(self.names, self.centres.tolist(), strict=True)),
            {name: self.moments[:, place].copy() for place, name in enumerate(self.names)},
            self.curves, self.gaps,
            PairMoments(self.centre, self.pairs) if len(self.powers) else None,
        )  # fmt: skip


def _places(pit: Array, kind: str) -> NDArray[np.intp]:
    """Return the first level (n,) up to which each outcome counts."""
    levels = _LEVELS[kind]
    if kind == "quantile":
        return np.searchsorted(levels, pit, "left")
    above = np.searchsorted(0.5 + levels / 2, pit, "left")
    below = np.searchsorted(-(0.5 - levels / 2), -pit, "left")
    return np.maximum(above, below)
