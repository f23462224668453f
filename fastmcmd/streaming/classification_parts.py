"""Classification over a test set that arrives in batches: curves, tables, decompositions, areas."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_choice, check_count, check_flag
from fastmcmd.classification.accuracy import (
    AboveSums,
    ConfusionCounts,
    check_thresholds,
    conclude_above,
    gather_above,
    gather_confusion,
)
from fastmcmd.classification.accuracy import AccuracyAboveConfidence as Curve
from fastmcmd.classification.bins import Binning, BinSums, gather_classes
from fastmcmd.classification.confidence import MEASURES, histogram_of, read_two_sets, uncertainty_of
from fastmcmd.classification.confidence import UncertaintyHistogram as Histogram
from fastmcmd.classification.decomposition import BrierDecomposition as Terms
from fastmcmd.classification.decomposition import decomposition_of
from fastmcmd.classification.inputs import LabelledRows
from fastmcmd.classification.metric import Totals, total
from fastmcmd.classification.ranking import (
    ABSENT,
    AVERAGES,
    AreaEstimate,
    RankSketch,
    gather_sketch,
)
from fastmcmd.classification.scores import halved, ranked_probability_score_of
from fastmcmd.classification.summary import top_classes
from fastmcmd.predictive.base import Array
from fastmcmd.streaming.base import Accumulator, OfLabelledRows
from fastmcmd.streaming.classification import WeightedMean

__all__ = [
    "AUROC",
    "AccuracyAboveConfidence",
    "BrierDecomposition",
    "ConfusionMatrix",
    "RankedProbabilityScore",
    "UncertaintyHistogram",
]


class RankedProbabilityScore(WeightedMean):
    """Mean ranked probability score; `mean_ranked_probability_score`.

    Parameters
    ----------
    normalize : bool
        Whether to divide by C - 1.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import RankedProbabilityScore
    >>> RankedProbabilityScore().update([0], [[0.5, 0.5, 0.0]]).update([1], [[0, 1, 0]]).compute()
    0.125
    """

    def __init__(
        self,
        normalize: bool = False,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        super().__init__(
            normalize=check_flag(normalize, "normalize"),
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> Totals:
        """Return the sums of checked rows."""
        return total(rows, ranked_probability_score_of(rows, self.settings["normalize"]))


class BrierDecomposition(OfLabelledRows[BinSums]):
    """Terms of the Brier score in bins of even width; `brier_decomposition`.

    Parameters
    ----------
    bins : int
        Number of bins.
    closed : {"right", "left"}
        Bins are (a, b] or [a, b).
    scale_by_half : bool or "auto"
        Whether to halve the sum over classes; "auto" does so for two classes.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import BrierDecomposition
    >>> terms = BrierDecomposition().update([0], [0.25]).update([1, 1, 1], [0.75] * 3).compute()
    >>> terms.uncertainty, terms.resolution, terms.reliability
    (0.1875, 0.1875, 0.0625)
    """

    def __init__(
        self,
        bins: int = 10,
        closed: str = "right",
        scale_by_half: bool | str = "auto",
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        halved(scale_by_half, 2)
        self._binning = Binning(bins, "width", closed)
        super().__init__(
            bins=bins, closed=closed, scale_by_half=scale_by_half, nan_policy=nan_policy,
            sum_tolerance=sum_tolerance, ignore_index=ignore_index,
        )  # fmt: skip

    def gather_rows(self, rows: LabelledRows) -> BinSums:
        """Return the sums of checked rows."""
        return gather_classes(rows, self._binning)

    def conclude(self, state: BinSums) -> Terms:
        """Return the terms of the decomposition."""
        classes = max(2, len(state.weight))  # for two classes, the sums hold class 1 only
        return decomposition_of(state, halved(self.settings["scale_by_half"], classes))


class AccuracyAboveConfidence(OfLabelledRows[AboveSums]):
    """Accuracy and number of rows above thresholds of confidence; `accuracy_above_confidence`.

    Parameters
    ----------
    thresholds : array_like (t,), optional
        Confidences in [0, 1]; default 0, 0.1, ..., 0.9.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import AccuracyAboveConfidence
    >>> curve = AccuracyAboveConfidence([0.0, 0.65]).update([0], [0.1]).update([1, 1], [0.7, 0.4])
    >>> curve.compute().count.tolist()
    [3.0, 2.0]
    """

    def __init__(
        self,
        thresholds: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        self._taus = check_thresholds(thresholds)
        super().__init__(
            thresholds=self._taus.tolist(),
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> AboveSums:
        """Return the sums of checked rows."""
        return gather_above(rows, top_classes(rows), self._taus)

    def conclude(self, state: AboveSums) -> Curve:
        """Return the curve."""
        return conclude_above(state)


@dataclass(frozen=True)
class TwoHistograms:
    """Histograms of two sets, added bin by bin; ``classes`` is the number of classes of the first set."""

    classes: int
    counts: Histogram

    def __add__(self, other: TwoHistograms) -> TwoHistograms:
        if other.classes != self.classes:
            raise ValueError(
                f"p_in has {other.classes} classes, batches before had {self.classes}; they must agree"
            )
        a, b = self.counts, other.counts
        both = Histogram(a.edges, a.inside + b.inside, a.outside + b.outside, a.of)
        return TwoHistograms(self.classes, both)


class UncertaintyHistogram(Accumulator[TwoHistograms]):
    """Histograms of confidence or entropy in and out of distribution; `uncertainty_histogram`.

    Parameters
    ----------
    of : {"entropy", "confidence"}
        Quantity that is counted.
    bins : int
        Number of bins.
    closed : {"right", "left"}
        Bins are (a, b] or [a, b).
    nan_policy, sum_tolerance
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import UncertaintyHistogram
    >>> counts = UncertaintyHistogram("confidence", bins=2).update([[0.9, 0.1]], [[0.5, 0.5]])
    >>> counts.update([[0.1, 0.9]], [[0.4, 0.6]]).compute().inside.tolist()
    [0.0, 2.0]
    """

    def __init__(
        self,
        of: str = "entropy",
        bins: int = 20,
        closed: str = "right",
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        check_choice(of, "of", MEASURES)
        self._binning = Binning(bins, "width", closed)
        super().__init__(
            of=of, bins=bins, closed=closed, nan_policy=nan_policy, sum_tolerance=sum_tolerance
        )

    def gather(
        self,
        p_in: ArrayLike,
        p_out: ArrayLike,
        weight_in: ArrayLike | None = None,
        weight_out: ArrayLike | None = None,
    ) -> TwoHistograms:
        """Return the histograms of a batch of both sets."""
        nan_policy, tolerance = self.settings["nan_policy"], self.settings["sum_tolerance"]
        of = self.settings["of"]
        inside, outside = read_two_sets(p_in, p_out, weight_in, weight_out, nan_policy, tolerance)
        values = uncertainty_of(inside, of), uncertainty_of(outside, of)
        counts = histogram_of(inside, outside, *values, of, self._binning)
        return TwoHistograms(inside.classes, counts)

    def conclude(self, state: TwoHistograms) -> Histogram:
        """Return the histograms."""
        return state.counts


class ConfusionMatrix(OfLabelledRows[ConfusionCounts]):
    """Weight of the rows by label and most probable class; `confusion_matrix`.

    Parameters
    ----------
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import ConfusionMatrix
    >>> ConfusionMatrix().update([0, 1], [0.3, 0.8]).update([1], [0.4]).compute().tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        super().__init__(
            nan_policy=nan_policy, sum_tolerance=sum_tolerance, ignore_index=ignore_index
        )

    def gather_rows(self, rows: LabelledRows) -> ConfusionCounts:
        """Return the counts of checked rows."""
        return gather_confusion(rows, top_classes(rows))

    def conclude(self, state: ConfusionCounts) -> Array:
        """Return the counts."""
        return state.table.copy()


class AUROC(OfLabelledRows[RankSketch]):
    """Area under the receiver operating characteristic from fine histograms; `auroc`.

    Parameters
    ----------
    average : {"macro", "weighted"}
        Mean over classes: plain, or weighted by their rows.
    absent : {"raise", "omit"}
        What `compute` does with classes that have no rows.
    resolution : int
        Bins in each halving of the distance to 0 and to 1. Memory for each class is 1 KB times this number.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Notes
    -----
    `compute` returns an `AreaEstimate`: a value, and a bound on its distance from the exact area, which the
    function returns. The order of two rows in different bins is certain; the order of two rows in the same
    bin is not. The bound is half the share of the latter pairs.

    Examples
    --------
    >>> from fastmcmd.streaming import AUROC
    >>> AUROC().update([0, 0, 1], [0.1, 0.4, 0.35]).update([1], [0.8]).compute()
    AreaEstimate(value=0.75, error_bound=0.0)
    """

    def __init__(
        self,
        average: str = "macro",
        absent: str = "raise",
        resolution: int = 128,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        check_choice(average, "average", AVERAGES)
        check_choice(absent, "absent", ABSENT)
        super().__init__(
            average=average,
            absent=absent,
            resolution=check_count(resolution, "resolution"),
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> RankSketch:
        """Return the histograms of checked rows."""
        return gather_sketch(rows, self.settings["resolution"])

    def conclude(self, state: RankSketch) -> AreaEstimate:
        """Return the area and a bound on its error."""
        return state.estimate(self.settings["average"], self.settings["absent"])
