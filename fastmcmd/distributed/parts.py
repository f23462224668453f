"""The sums of an evaluation: those of each model and group, of pairs of models, and of the CCE."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.arrays import HOST
from fastmcmd.distributed.blocks import Arguments
from fastmcmd.distributed.bootstrap import ResampledSums, resampled_sums
from fastmcmd.distributed.losses import CongruenceDifferences, CongruenceTerms, Pieces, PieceSums
from fastmcmd.distributed.measures import gathered
from fastmcmd.distributed.rows import RowRules, block_seed, rows_of, valid_rows
from fastmcmd.distributed.sums import BlockPointValues, Summary, congruence_sums
from fastmcmd.evaluation.config import check_labels
from fastmcmd.evaluation.context import Context, Settings
from fastmcmd.evaluation.measures import MEAN_SCORES
from fastmcmd.evaluation.row_means import losses
from fastmcmd.predictive import Gaussian
from fastmcmd.predictive.numerics.spread import unit_of
from fastmcmd.streaming import CCE
from fastmcmd.streaming.congruence_sums import CongruenceSums

__all__ = ["Differences", "EvaluationJob", "ModelParts", "Parts", "ValuesJob", "pair_name"]

Array = NDArray[np.float64]
Name = TypeVar("Name")

# Measures whose differences between models are tested by a t test of the losses by row.
PAIRED_MEASURES = (*MEAN_SCORES, "mae", "marpd", "rmse")


@dataclass(frozen=True, eq=False)
class ModelParts:
    """Sums of the measures of one model.

    Attributes
    ----------
    sums : dict
        By the names of `fastmcmd.distributed.measures`.
    skipped : dict of str
        Why measures do not apply.
    groups : dict
        The same for the rows of each label.
    rows : int
        Number of rows.
    gaussian : bool
        Whether all predictions are Gaussian.
    """

    sums: Arguments
    skipped: dict[str, str]
    groups: dict[Any, ModelParts]
    rows: int
    gaussian: bool

    def __add__(self, other: ModelParts) -> ModelParts:
        gaussian = self.gaussian and other.gaussian
        sums = {
            name: self.sums[name] + other.sums[name] for name in self.sums if name in other.sums
        }
        groups = dict(self.groups)
        for label, one in other.groups.items():
            groups[label] = groups[label] + one if label in groups else one
        reasons = {**other.skipped, **self.skipped}
        return ModelParts(sums, reasons, groups, self.rows + other.rows, gaussian)

    @staticmethod
    def of(
        context: Context, labels: HostArray | None, measures: tuple[str, ...], nulls: bool = True
    ) -> ModelParts:
        """Return the sums of a block, with those of each label."""
        groups, weights = {}, context.weights
        for label in () if labels is None else np.unique(labels):
            if weights is not None and not weights[labels == label].any():
                continue
            some = context.subset(np.flatnonzero(labels == label))
            key = label.item() if isinstance(label, np.generic) else label
            groups[key] = ModelParts.of(some, None, measures, nulls=False)
        gaussian = isinstance(context.base, Gaussian)
        return ModelParts(*gathered(context, measures, nulls), groups, len(context.y), gaussian)


@dataclass(frozen=True)
class Differences:
    """Sums of the differences d of two models' scores by row, with weights w.

    Attributes
    ----------
    rows : int
        Rows with a positive weight.
    centre : float
        The mean difference c of one block, so that a large common difference costs no digits.
    unit : float
        A power of two u near the largest ``|d - c|``: the square of a difference may leave float64.
    weight, weight2, d, wd2, w2d2, size : float
        Sums of w, w^2, w t, w^2 t and w^2 t^2, with t = (d - c) / u, and of w times both sizes.
    infinite : tuple of bool
        Whether a score of either model is infinite.
    """

    rows: int
    centre: float
    unit: float
    weight: float
    weight2: float
    d: float
    wd2: float
    w2d2: float
    size: float
    infinite: tuple[bool, bool]

    def __add__(self, other: Differences) -> Differences:
        gap = other.centre - self.centre
        unit = max(self.unit, other.unit, _unit(gap))
        move, one, two = gap / unit, self.unit / unit, other.unit / unit
        return Differences(
            self.rows + other.rows, self.centre, unit, self.weight + other.weight,
            self.weight2 + other.weight2, one * self.d + two * other.d + move * other.weight,
            one * self.wd2 + two * other.wd2 + move * other.weight2,
            one**2 * self.w2d2 + two**2 * other.w2d2 + 2 * move * two * other.wd2
            + move**2 * other.weight2,
            self.size + other.size,
            (self.infinite[0] or other.infinite[0], self.infinite[1] or other.infinite[1]),
        )  # fmt: skip

    @property
    def mean(self) -> float:
        """The weighted mean of d."""
        return self.centre + self.unit * (self.d / self.weight)

    @property
    def scatter(self) -> float:
        """The root of the sum of ``w^2 (d - mean)^2``, divided by the sum of w."""
        shift = self.d / self.weight
        squares = self.w2d2 - 2 * shift * self.wd2 + shift**2 * self.weight2
        return self.unit * math.sqrt(max(squares, 0.0)) / self.weight

    @staticmethod
    def of(first: Array, second: Array, weights: Array | None) -> Differences:
        """Return the sums of some rows."""
        w = np.ones(len(first)) if weights is None else weights
        some = w > 0
        first, second, w = first[some], second[some], w[some]
        infinite = bool(np.isinf(first).any()), bool(np.isinf(second).any())
        d = np.zeros(len(first)) if any(infinite) else first - second
        size = 0.0 if any(infinite) else float(w @ (np.abs(first) + np.abs(second)))
        centre = float(w @ d / w.sum())
        unit = _unit(float(np.abs(d - centre).max()))
        d = (d - centre) / unit
        return Differences(
            len(w), centre, unit, float(w.sum()), float(w @ w), float(w @ d), float(w * w @ d),
            float(w * w @ (d * d)), size, infinite,
        )  # fmt: skip


def _unit(size: float) -> float:
    """Return a power of two near a size; 1e-300 at least, so that quotients are finite."""
    return math.ldexp(1.0, math.frexp(max(abs(size), 1e-300))[1] - 1)


def pair_name(measure: str, first: int, second: int) -> str:
    """Return the name of the differences of two models, by their places: names may hold any character."""
    return f"{measure} {first} {second}"


def _losses(measure: str, contexts: Mapping[str, Context]) -> list[Array] | None:
    """Return the losses by row of each model, of which a measure is the mean or, as the RMSE, a root.

    None if it is not, as the RMSE of vectors.
    """
    rows = [losses(measure, one) for one in contexts.values()]
    by_model = [one for one in rows if one is not None]
    if len(by_model) < len(rows):
        return None
    unit = 1.0
    if measure == "rmse":  # squared errors in units of the block
        unit = unit_of(HOST, next(iter(contexts.values())).y) ** 2
    return [unit * one for one in by_model]


@dataclass(frozen=True, eq=False)
class Parts:
    """Sums of an evaluation.

    Attributes
    ----------
    models : dict of ModelParts
        By name.
    pairs : dict
        `Differences` by the `pair_name` of measure and models.
    congruence : CongruenceSums or None
        Sums of the CCE of all models.
    rows, nan_rows, ignored : int
        Rows in all, rows with NaN, and rows with an ignored label.
    nan_groups : tuple
        Labels of groups of which a row holds NaN.
    losses : dict of PieceSums
        Scores of all models, times the weights, summed over pieces of rows, by measure; NaN for models
        that have none.
    resampled : list of ResampledSums
        Sums of bootstrap samples of each model; none without a bootstrap.
    weightless : int
        Rows of blocks in which no row has a weight.
    weightless_groups : dict of int
        Rows of groups in blocks in which no row of the group has a weight.
    """

    models: dict[str, ModelParts]
    pairs: dict[str, Differences]
    congruence: CongruenceSums | None
    rows: int
    nan_rows: int
    ignored: int = 0
    nan_groups: tuple[Any, ...] = ()
    losses: dict[str, PieceSums] = field(default_factory=dict)
    resampled: list[ResampledSums] = field(default_factory=list)
    weightless: int = 0
    weightless_groups: dict[object, int] = field(default_factory=dict)

    def __add__(self, other: Parts) -> Parts:
        sums = [one for one in (self.congruence, other.congruence) if one is not None]
        return Parts(
            _added(self.models, other.models), _added(self.pairs, other.pairs),
            sums[0] + sums[1] if len(sums) == 2 else (sums[0] if sums else None),
            self.rows + other.rows, self.nan_rows + other.nan_rows, self.ignored + other.ignored,
            tuple(sorted({*self.nan_groups, *other.nan_groups}, key=str)),
            _added(self.losses, other.losses), _joined(self.resampled, other.resampled),
            self.weightless + other.weightless,
            _added(self.weightless_groups, other.weightless_groups),
        )  # fmt: skip


def _counts(labels: HostArray, weights: Array | None) -> dict[object, int]:
    """Return the number of rows of each label whose rows all have weight 0."""
    if weights is None:
        return {}
    counts = {}
    for label in np.unique(labels):
        some = labels == label
        if not weights[some].any():
            counts[label.item() if isinstance(label, np.generic) else label] = int(some.sum())
    return counts


def _joined(one: list[ResampledSums], other: list[ResampledSums]) -> list[ResampledSums]:
    """Return the sums of each model; a block without rows has none."""
    if not one or not other:
        return one or other
    return [a + b for a, b in zip(one, other, strict=True)]


def _added(one: Mapping[Name, Any], other: Mapping[Name, Any]) -> dict[Name, Any]:
    """Return sums by name; all blocks with rows have the same names."""
    names = [*one, *(name for name in other if name not in one)]
    return {
        name: one[name] + other[name]
        if name in one and name in other
        else one.get(name, other.get(name))
        for name in names
    }


@dataclass(frozen=True, eq=False)
class EvaluationJob:
    """Sums of an evaluation of one or several models.

    Attributes
    ----------
    settings : Settings
        Conventions of the numbers.
    rules : RowRules
        Rows to leave out.
    measures : tuple of str
        Measures to add.
    seed : SeedSequence
        Source of randomised PIT values of blocks.
    accumulator : CCE or None
        Landmarks of the CCE, without rows.
    step : int
        Rows whose CCE is summed together.
    pieces : Pieces or None
        How rows are cut into pieces for losses; None for a single model.
    n_boot : int
        Number of bootstrap samples.
    name : str
        Name of the pass.
    """

    settings: Settings
    rules: RowRules
    seed: np.random.SeedSequence
    accumulator: CCE | None
    step: int
    measures: tuple[str, ...] = ()
    pieces: Pieces | None = None
    n_boot: int = 0
    name: str = "evaluation"

    def sums(self, arguments: Arguments, number: int) -> Parts:
        """Return the sums of a block."""
        rows = valid_rows(arguments, self.rules)
        outcomes, valid, n, missing = rows.outcomes, rows.valid, rows.n, rows.missing
        nan_rows, ignored = (
            int(missing.sum()),
            0 if rows.ignored is None else int(rows.ignored.sum()),
        )
        labels, nan_groups = arguments.get("by"), ()
        if labels is not None:
            labels = check_labels(labels, n)
            nan_groups = tuple(np.unique(labels[missing]).tolist())
            labels = labels if valid is None else labels[valid]
        if not outcomes:
            count = n - nan_rows - ignored if rows.weightless else 0
            by_label = {} if labels is None or not count else _counts(labels, np.zeros(count))
            return Parts(
                {}, {}, None, n, nan_rows, ignored, nan_groups, weightless=count,
                weightless_groups=by_label,
            )  # fmt: skip
        first = next(iter(outcomes.values()))
        seed = block_seed(self.seed, number)
        settings = replace(self.settings, random_state=seed)
        contexts = {name: Context(one, settings) for name, one in outcomes.items()}
        models = {name: ModelParts.of(one, labels, self.measures) for name, one in contexts.items()}
        pairs, piece_sums = {}, {}
        for measure in PAIRED_MEASURES:
            having = {name: contexts[name] for name, one in models.items() if measure in one.sums}
            by_model = _losses(measure, having) if len(having) > 1 else None
            if by_model is None:
                continue
            for one, other in combinations(range(len(having)), 2):
                names, places = list(having), list(contexts)
                pair = pair_name(measure, places.index(names[one]), places.index(names[other]))
                pairs[pair] = Differences.of(by_model[one], by_model[other], first.weights)
            if self.pieces is not None:
                columns = np.full((len(first.y), len(contexts)), np.nan)
                columns[:, [name in having for name in contexts]] = np.stack(by_model, axis=1)
                if first.weights is not None:
                    columns = np.where(first.weights[:, None] > 0, columns, 0.0)
                    columns = columns * first.weights[:, None]
                piece_sums[measure] = PieceSums.of(columns, self.pieces, number, first.weights)
        congruence = None
        if self.accumulator is not None:
            y = first.y if first.y.ndim == 2 else first.y[:, None]
            predictions: Any = {name: one.prediction for name, one in outcomes.items()}
            if list(predictions) == [""]:
                predictions = predictions[""]
            congruence = congruence_sums(
                self.accumulator.fresh(seed), rows_of(arguments["x"], valid), y, predictions,
                first.weights, self.step,
            )  # fmt: skip
        resampled = []
        if self.n_boot:
            resampled = resampled_sums(contexts, self.n_boot, seed, self.measures)
        return Parts(
            models, pairs, congruence, n, nan_rows, ignored, nan_groups, piece_sums, resampled,
            weightless_groups={} if labels is None else _counts(labels, first.weights),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ValuesJob:
    """Sums of the CCE at the rows, for each model.

    Attributes
    ----------
    values : dict of BlockPointValues
        By model.
    rules : RowRules
        Rows to leave out.
    terms : CongruenceTerms or None
        What sums the differences of the mean squared CCE of several models.
    name : str
        Name of the pass.
    """

    values: Mapping[str, BlockPointValues]
    rules: RowRules
    terms: CongruenceTerms | None = None
    name: str = "values"

    def sums(self, arguments: Arguments, number: int) -> Summaries | None:
        """Return the sums of a block."""
        rows = valid_rows(arguments, self.rules, without_weight=True)
        if not rows.outcomes:
            return None
        x = rows_of(arguments["x"], rows.valid)
        first = next(iter(rows.outcomes.values()))
        weights, differences = first.weights, None
        if self.terms is not None:
            y = np.asarray(first.y, dtype=np.float64).reshape(len(first.y), -1)
            predictions = [one.prediction for one in rows.outcomes.values()]
            differences = self.terms.sums(x, y, predictions, weights, number)
        results = {name: one.at(x) for name, one in self.values.items()}
        return Summaries(
            {
                name: Summary.of(one["value"], one["error_bound"], weights)
                for name, one in results.items()
            },
            differences,
        )


@dataclass(frozen=True)
class Summaries:
    """A `Summary` for each model, and the differences of the mean squared CCE of several models."""

    models: dict[str, Summary]
    differences: CongruenceDifferences | None = None

    def __add__(self, other: Summaries) -> Summaries:
        parts = [one for one in (self.differences, other.differences) if one is not None]
        return Summaries(
            _added(self.models, other.models),
            parts[0] + parts[1] if len(parts) == 2 else (parts[0] if parts else None),
        )
