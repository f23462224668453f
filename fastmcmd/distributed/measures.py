"""The numbers of an evaluation as sums over rows: the sums of a block, and the numbers that follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd import streaming
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.classification.calibration import curve_of
from fastmcmd.distributed.blocks import Arguments
from fastmcmd.evaluation.class_gaps import CLASS_MEASURES, simulated_class_gaps
from fastmcmd.evaluation.context import Context, Settings
from fastmcmd.evaluation.measures import ALL_MEASURES, CONGRUENCE, MEAN_SCORES, ON_REQUEST, SCORES
from fastmcmd.evaluation.nulls import NULL_SAMPLES, null_curve_errors, simulated_spread_errors
from fastmcmd.evaluation.result import NO_CLASSES, Measured
from fastmcmd.metrics.pit import conclude_histogram, histogram_sums
from fastmcmd.metrics.reliability_sums import (
    ECE_LEVELS,
    TOOLBOX_LEVELS,
    conclude_reliability,
    reliability_sums,
)
from fastmcmd.metrics.variance import gather_columns
from fastmcmd.metrics.variance_bins import Cells, into_bins
from fastmcmd.predictive import Gaussian
from fastmcmd.streaming.mass_sketch import LogSketch
from fastmcmd.streaming.means import mean_sums

__all__ = [
    "ClassGapSums",
    "Number",
    "SimulatedSpread",
    "concluded",
    "curves_of",
    "gathered",
    "nulls_of",
]

_BY_NAME = {one.name: one for one in ALL_MEASURES}
_ON_REQUEST = {one.name for one in ON_REQUEST}
_CONSTANT = "y or the predicted mean is constant"
_ACCURACY = 1e-3  # of the bins of predicted variance, as in `fastmcmd.streaming.ENCECurve`
_CALIBRATION = (
    "ece",
    "rms_calibration_error",
    "mean_absolute_calibration_error",
    "miscalibration_area",
)


@dataclass(frozen=True)
class Number:
    """A measure as a function of sums.

    Attributes
    ----------
    sums : str
        Name of the sums, which several measures may share.
    gather : callable (Context) -> sums
        Returns the sums of a block.
    conclude : callable (sums, Settings) -> float
        Returns the number.
    applies : str
        Name of the measure whose `missing` says if a block has these sums. A block may lack what all rows
        have, such as two classes; its sums are needed nevertheless.
    """

    sums: str
    gather: Callable[[Context], Any]
    conclude: Callable[[Any, Settings], Any]
    applies: str


def _plain(name: str, kind: Any, applies: str | None = None) -> Number:
    return Number(
        name,
        lambda c: kind().gather(c.rows, None),
        lambda s, _: kind().conclude(s),
        applies or name,
    )


def _labelled(name: str, kind: Any, **settings: Any) -> Number:
    def conclude(sums: Any, _: Settings) -> Any:
        value = kind(**settings).conclude(sums)
        return getattr(value, "value", value)  # an estimate with a bound, or a number

    return Number(name, lambda c: kind(**settings).gather_rows(c.labelled), conclude, "accuracy")


def _mean(name: str, values: Callable[[Context], Any]) -> Number:
    return Number(
        name,
        lambda c: mean_sums(values(c), c.weights, False),
        lambda s, _: s.total / s.weight,
        name,
    )


def _interval(name: str, kind: Any) -> Number:
    def gather(context: Context) -> Any:
        context.quantile_scores()
        return kind(context.settings.level).gather_rows(context.rows)

    return Number(name, gather, lambda s, settings: kind(settings.level).conclude(s), name)


def _curve(attribute: str) -> Number:
    return Number(
        "interval", lambda c: reliability_sums(c.sorted_pit, TOOLBOX_LEVELS, "interval"),
        lambda s, _: getattr(conclude_reliability(s, "interval"), attribute), attribute,
    )  # fmt: skip


def _variance(attribute: str) -> Number:
    return Number(
        "variance", lambda c: streaming.ENCECurve().gather_rows(c.rows),
        lambda s, settings: getattr(_variance_curve(s, settings), attribute), attribute,
    )  # fmt: skip


def _variance_curve(sums: Any, settings: Settings) -> Any:
    bins = min(settings.bins, sums.n)
    return streaming.ENCECurve(bins, binning=settings.binning).curve(sums)


NUMBERS: Mapping[str, Number] = {
    "mae": _plain("mae", streaming.MAE),
    "rmse": _plain("rmse", streaming.RMSE),
    "median_absolute_error": _plain("median_absolute_error", streaming.MedianAbsoluteError),
    "marpd": _plain("marpd", streaming.MARPD),
    "bias": _plain("bias", streaming.Bias),
    "r2": _plain("r2", streaming.R2, "mae"),
    "pearson": _plain("pearson", streaming.Pearson, "mae"),
    "accuracy": _mean("accuracy", lambda c: c.of_classes("hit")),
    "auroc": _labelled("auroc", streaming.AUROC, absent="omit"),
    **{
        name: _mean(name, SCORES[score]) for name, score in MEAN_SCORES.items() if name in _BY_NAME
    },
    "ece": _labelled("ece", streaming.ClassificationECE),
    "classwise_ece": _labelled("classwise_ece", streaming.ClasswiseECE),
    "regression_ece": Number(
        "quantile", lambda c: reliability_sums(c.sorted_pit, ECE_LEVELS, "quantile"),
        lambda s, _: conclude_reliability(s, "quantile").ece(), "regression_ece",
    ),
    **{name: _curve(name) for name in _CALIBRATION[1:]},
    "coverage": _interval("coverage", streaming.Coverage),
    "ence": _variance("ence"),
    "null_ence": _variance("null_ence"),
    "uce": _variance("uce"),
    "sharpness": Number(
        "sharpness", lambda c: streaming.Sharpness().gather_rows(c.rows),
        lambda s, _: streaming.Sharpness().conclude(s), "sharpness",
    ),
    "confidence": _mean("confidence", lambda c: c.of_classes("confidence")),
    "entropy": _mean("entropy", lambda c: c.of_classes("entropy")),
    "mean_interval_width": _interval("mean_interval_width", streaming.MeanIntervalWidth),
    "variance_variation": Number(
        "variance_variation", lambda c: streaming.VarianceVariation().gather_rows(c.rows),
        lambda s, _: streaming.VarianceVariation().conclude(s), "mean_dawid_sebastiani",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ClassGapSums:
    """Gaps between frequencies and probabilities in bins, of simulated outcomes of a right model.

    Attributes
    ----------
    ece : ndarray (samples, 1, bins)
        Of the likeliest class, times the weight of each bin.
    classwise_ece : ndarray (samples, classes, bins)
        Of each class.
    weight : float
        Sum of the weights.
    """

    ece: NDArray[np.float64]
    classwise_ece: NDArray[np.float64]
    weight: float

    def __add__(self, other: ClassGapSums) -> ClassGapSums:
        return ClassGapSums(
            self.ece + other.ece,
            self.classwise_ece + other.classwise_ece,
            self.weight + other.weight,
        )

    @staticmethod
    def of(context: Context) -> ClassGapSums:
        """Return the sums of a block."""
        total = float(len(context.y) if context.weights is None else context.weights.sum())
        gaps = simulated_class_gaps(context)
        return ClassGapSums(total * gaps["ece"], total * gaps["classwise_ece"], total)

    def expectations(self) -> dict[str, float]:
        """Return the expected calibration errors."""
        pairs = zip(CLASS_MEASURES, (self.ece, self.classwise_ece), strict=True)
        return {name: float(np.abs(gaps / self.weight).sum(axis=2).mean()) for name, gaps in pairs}


@dataclass(frozen=True, eq=False)
class SimulatedSpread:
    """Squared errors of simulated outcomes of a right model, in fine bins of predicted variance.

    Attributes
    ----------
    sketch : LogSketch
        Sums of weights, of variances, and of the squared errors of each simulated data set.
    n : int
        Number of rows.
    """

    sketch: LogSketch
    n: int

    def __add__(self, other: SimulatedSpread) -> SimulatedSpread:
        return SimulatedSpread(self.sketch + other.sketch, self.n + other.n)

    @staticmethod
    def of(context: Context) -> SimulatedSpread:
        """Return the sums of a block."""
        rng = generator(context.settings.random_state, Purpose.NULL)
        variance, (ones, weighted, *_) = gather_columns(context.rows)
        squares = (
            context.base.sample(NULL_SAMPLES, rng) - np.asarray(context.prediction.mean)[:, None]
        ) ** 2
        columns = [ones, weighted, *(ones[:, None] * squares).T]
        return SimulatedSpread(LogSketch.of(variance, columns, _ACCURACY), len(context.y))

    def expectations(self, settings: Settings) -> dict[str, float]:
        """Return the expected ENCE and UCE, in the bins that `fastmcmd.evaluate` has."""
        sums = self.sketch.sums[self.sketch.sums[:, 0] > 0]
        spread = np.sqrt(sums[:, 1] / sums[:, 0])
        cells = Cells(spread, sums, np.zeros(len(sums)))
        binned = into_bins(cells, min(settings.bins, self.n), settings.binning).sums
        return simulated_spread_errors(binned[binned[:, 0] > 0])


def nulls_of(sums: Mapping[str, Any], settings: Settings, gaussian: bool) -> dict[str, float]:
    """Return the expectations of calibration errors under a right model, where sums determine them.

    Curves need uniform PIT values. ENCE and UCE have a formula for Gaussian predictions, and simulated
    outcomes for others.
    """
    nulls: dict[str, float] = {}
    if "quantile" in sums and (gaussian or settings.pit == "randomized"):
        nulls |= null_curve_errors(conclude_reliability(sums["quantile"], "quantile").effective)
    if "variance" in sums and gaussian:
        curve = _variance_curve(sums["variance"], settings)
        nulls |= {"ence": curve.null_ence, "uce": curve.null_uce}
    elif "null_variance" in sums:
        nulls |= sums["null_variance"].expectations(settings)
    if "null_classes" in sums:
        nulls |= sums["null_classes"].expectations()
    return nulls


def gathered(
    context: Context, measures: tuple[str, ...] = (), nulls: bool = True
) -> tuple[Arguments, dict[str, str]]:
    """Return the sums of a block by name, and why measures do not apply to it.

    ``measures`` are those to add to the usual ones.
    """
    sums: dict[str, object] = {}
    reasons: dict[str, str] = {}
    for name, number in NUMBERS.items():
        if name in _ON_REQUEST and name not in measures:
            continue
        reason = _BY_NAME[number.applies].missing(context)
        if reason is not None:
            reasons[name] = reason
        elif number.sums not in sums:
            sums[number.sums] = number.gather(context)
    if context.numbers:
        sums["pit"] = histogram_sums(context.sorted_pit, context.settings.bins)
        sums["curve"] = reliability_sums(context.sorted_pit, TOOLBOX_LEVELS, "quantile")
    if nulls and context.nominal:
        sums["null_classes"] = ClassGapSums.of(context)
    if nulls and "variance" in sums and not isinstance(context.base, Gaussian):
        sums["null_variance"] = SimulatedSpread.of(context)
    return sums, reasons


def concluded(
    sums: Mapping[str, object], reasons: Mapping[str, str], settings: Settings, gaussian: bool
) -> tuple[list[Measured], dict[str, str]]:
    """Return all numbers in the order of `fastmcmd.evaluate`, and why others do not apply."""
    numbers, missing = [], {}
    for one in ALL_MEASURES:
        if one.name in CONGRUENCE:
            continue
        if one.name in _ON_REQUEST and one.name not in {*sums, *reasons}:
            continue  # not requested
        reason: str | None = reasons.get(one.name)
        if one.name == "null_ence" and "variance" in sums and not gaussian:
            simulated = sums.get("null_variance")
            # None for a group, or if only some blocks are Gaussian.
            if not isinstance(simulated, SimulatedSpread):
                missing[one.name] = "it needs predictions of one kind in all blocks, and no groups"
                continue
            value = simulated.expectations(settings)["ence"]
        elif reason is None:
            number = NUMBERS[one.name]
            value = _number(number, sums[number.sums], settings)
            if math.isnan(value) and one.name in ("r2", "pearson", "auroc", "variance_variation"):
                reason = "all outcomes are of one class" if one.name == "auroc" else _CONSTANT
        if reason is None:
            label = one.titled(settings.level)
            numbers.append(Measured(one.name, value, one.section, label, one.best))
        elif reason != NO_CLASSES:
            missing[one.name] = reason
    return numbers, missing


def curves_of(sums: Mapping[str, Any], settings: Settings) -> Arguments:
    """Return the curves that `fastmcmd.evaluate` has."""
    curves: Arguments = {}
    if "curve" in sums:
        curves["reliability"] = conclude_reliability(sums["curve"], "quantile")
        curves["reliability_interval"] = conclude_reliability(sums["interval"], "interval")
        curves["pit"] = conclude_histogram(sums["pit"], settings.pit)
    if "variance" in sums:
        curves["variance"] = _variance_curve(sums["variance"], settings)
    if "ece" in sums:
        curves["reliability_of_classes"] = curve_of(sums["ece"])
    return curves


def _number(number: Number, sums: object, settings: Settings) -> float:
    try:
        with np.errstate(all="ignore"):
            return float(np.mean(number.conclude(sums, settings)))
    except (ValueError, ZeroDivisionError):  # as r2 of constant outcomes
        return math.nan
