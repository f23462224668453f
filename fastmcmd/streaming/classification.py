"""Metrics of a classification whose test set passes by in batches."""

from __future__ import annotations

from typing import Any

from fastmcmd.checks import check_choice
from fastmcmd.classification.accuracy import TIES, ConfusionCounts, gather_confusion, gather_top_k
from fastmcmd.classification.bins import Binning, BinSums, gather_classes
from fastmcmd.classification.calibration import (
    EVENTS,
    NORMS,
    ReliabilityCurve,
    check_event,
    check_threshold,
    class_error,
    curve_of,
    gather_event,
)
from fastmcmd.classification.inputs import Rows, check_count, read
from fastmcmd.classification.ranking import (
    ABSENT,
    AVERAGES,
    AreaEstimate,
    RankSketch,
    gather_sketch,
)
from fastmcmd.classification.scores import brier_of, check_clip, halved, log_score_of
from fastmcmd.classification.summary import summarize
from fastmcmd.classification.totals import Totals, total
from fastmcmd.predictive.base import Array
from fastmcmd.streaming.base import Accumulator

__all__ = [
    "AUROC",
    "Accuracy",
    "BrierScore",
    "ClassificationECE",
    "ClassificationNLL",
    "ClasswiseECE",
    "ConfusionMatrix",
    "MeanScore",
    "TopKAccuracy",
    "read_batch",
]


class MeanScore(Accumulator[Totals]):
    """A weighted mean over rows."""

    def conclude(self, state: Totals) -> float:
        """Return the mean."""
        return state.mean


class TopKAccuracy(MeanScore):
    """Share of rows whose label is among the ``k`` most probable classes; `top_k_accuracy`.

    Parameters
    ----------
    k : int
        From 1 to C.
    ties : {"first", "last", "share", "raise"}
        Which of equally probable classes come first.
    nan_policy, sum_tolerance
        As of the function.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import TopKAccuracy
    >>> scores = TopKAccuracy(k=2).update([1], [[0.5, 0.3, 0.2]]).update([2], [[0.4, 0.35, 0.25]])
    >>> scores.compute()
    0.5
    """

    def __init__(
        self,
        k: int = 5,
        ties: str = "first",
        nan_policy: str = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        check_choice(ties, "ties", TIES)
        super().__init__(
            k=check_count(k, "k"), ties=ties, nan_policy=nan_policy, sum_tolerance=sum_tolerance
        )

    def gather(self, y: Any, p: Any, sample_weight: Any = None) -> Totals:
        """Return the sums of a batch of labels, probabilities and weights."""
        rows = read_batch(self, y, p, sample_weight)
        return gather_top_k(rows, summarize(rows)[0], self.settings["k"], self.settings["ties"])


class Accuracy(TopKAccuracy):
    """Share of rows whose most probable class is the label; `accuracy`.

    Parameters
    ----------
    ties : {"first", "last", "share", "raise"}
        Which of equally probable classes is predicted.
    nan_policy, sum_tolerance
        As of the function.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import Accuracy
    >>> one, other = Accuracy().update([0, 1], [0.2, 0.3]), Accuracy().update([1, 1], [0.9, 0.8])
    >>> one.merge(other).compute()
    0.75
    """

    def __init__(
        self,
        ties: str = "first",
        nan_policy: str = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        super().__init__(1, ties, nan_policy, sum_tolerance)


class ClassificationNLL(MeanScore):
    """Mean negative log likelihood; `nll`.

    Parameters
    ----------
    clip : float, optional
        Move probabilities into [clip, 1 - clip] first.
    nan_policy, sum_tolerance
        As of the function.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import ClassificationNLL
    >>> scores = ClassificationNLL().update([0, 1], [0.5, 0.5]).update([1], [0.0])
    >>> scores.compute(), scores.impossible
    (inf, 1)
    """

    def __init__(
        self,
        clip: float | None = None,
        nan_policy: str = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        super().__init__(clip=check_clip(clip), nan_policy=nan_policy, sum_tolerance=sum_tolerance)

    def gather(self, y: Any, p: Any, sample_weight: Any = None) -> Totals:
        """Return the sums of a batch of labels, probabilities and weights."""
        rows = read_batch(self, y, p, sample_weight)
        return total(rows, log_score_of(summarize(rows)[0], self.settings["clip"]))

    @property
    def impossible(self) -> int:
        """Rows so far whose score is infinite: of positive weight and with a label of probability 0."""
        return 0 if self._state is None else self._state.infinite


class BrierScore(MeanScore):
    """Mean Brier score; `mean_brier_score`.

    Parameters
    ----------
    scale_by_half : bool or "auto"
        Whether to halve the sum over classes; "auto" does for two classes.
    nan_policy, sum_tolerance
        As of the function.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import BrierScore
    >>> BrierScore().update([0, 1], [0.5, 0.5]).update([1], [1.0]).compute()
    0.16666666666666666
    """

    def __init__(
        self,
        scale_by_half: bool | str = "auto",
        nan_policy: str = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        halved(scale_by_half, 2)
        super().__init__(
            scale_by_half=scale_by_half, nan_policy=nan_policy, sum_tolerance=sum_tolerance
        )

    def gather(self, y: Any, p: Any, sample_weight: Any = None) -> Totals:
        """Return the sums of a batch of labels, probabilities and weights."""
        rows = read_batch(self, y, p, sample_weight)
        half = halved(self.settings["scale_by_half"], rows.classes)
        return total(rows, brier_of(summarize(rows)[0], half))


class ClassificationECE(Accumulator[BinSums]):
    """Expected calibration error in bins of even width; `ece`.

    Bins of even weight depend on all rows, so they have no accumulator.

    Parameters
    ----------
    bins : int
        Number of bins.
    norm : {"l1", "l2", "max"}
        Mean of the gaps, root of the mean of their squares, or the largest.
    closed : {"right", "left"}
        Bins are (a, b] or [a, b).
    of : {"top", "positive"}, optional
        Which event is predicted.
    nan_policy, sum_tolerance
        As of the function.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import ClassificationECE
    >>> errors = ClassificationECE(bins=2).update([0, 1], [0.25, 0.75]).update([0], [0.75])
    >>> errors.compute()
    0.25
    >>> errors.curve().count.tolist()
    [1, 2]
    """

    def __init__(
        self,
        bins: int = 15,
        norm: str = "l1",
        closed: str = "right",
        of: str | None = None,
        nan_policy: str = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        check_choice(norm, "norm", NORMS)
        if of is not None:
            check_choice(of, "of", EVENTS)
        self._binning = Binning(bins, "width", closed)
        super().__init__(
            bins=bins,
            norm=norm,
            closed=closed,
            of=of,
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
        )

    def gather(self, y: Any, p: Any, sample_weight: Any = None) -> BinSums:
        """Return the sums of a batch of labels, probabilities and weights."""
        rows = read_batch(self, y, p, sample_weight)
        return gather_event(rows, check_event(self.settings["of"], rows), self._binning)

    def conclude(self, state: BinSums) -> float:
        """Return the error."""
        return float(state.errors(self.settings["norm"])[0])

    def curve(self) -> ReliabilityCurve:
        """Return the reliability curve of all rows so far."""
        if self._state is None:
            raise ValueError("ClassificationECE has seen no rows; call update first")
        return curve_of(self._state)


class ClasswiseECE(Accumulator[BinSums]):
    """Mean calibration error of each class's probabilities in bins of even width; `classwise_ece`.

    Parameters
    ----------
    bins : int
        Number of bins.
    norm : {"l1", "l2", "max"}
        See `ClassificationECE`.
    threshold : float, optional
        Leave out probabilities not above it.
    closed : {"right", "left"}
        Bins are (a, b] or [a, b).
    nan_policy, sum_tolerance
        As of the function.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import ClasswiseECE
    >>> errors = ClasswiseECE().update([0, 0], [[0.5, 0.25, 0.25]] * 2)
    >>> errors.update([1, 2], [[0.5, 0.25, 0.25]] * 2).compute()
    0.0
    """

    def __init__(
        self,
        bins: int = 15,
        norm: str = "l1",
        threshold: float | None = None,
        closed: str = "right",
        nan_policy: str = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        check_choice(norm, "norm", NORMS)
        self._binning = Binning(bins, "width", closed)
        super().__init__(
            bins=bins,
            norm=norm,
            threshold=check_threshold(threshold),
            closed=closed,
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
        )

    def gather(self, y: Any, p: Any, sample_weight: Any = None) -> BinSums:
        """Return the sums of a batch of labels, probabilities and weights."""
        rows = read_batch(self, y, p, sample_weight)
        return gather_classes(rows, self._binning, self.settings["threshold"])

    def conclude(self, state: BinSums) -> float:
        """Return the mean error over classes that have rows."""
        return class_error(state, self.settings["norm"])


class ConfusionMatrix(Accumulator[ConfusionCounts]):
    """Weight of rows by label and most probable class; `confusion_matrix`.

    Parameters
    ----------
    nan_policy, sum_tolerance
        As of the function.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import ConfusionMatrix
    >>> ConfusionMatrix().update([0, 1], [0.3, 0.8]).update([1], [0.4]).compute().tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """

    def __init__(self, nan_policy: str = "raise", sum_tolerance: float | None = None) -> None:
        super().__init__(nan_policy=nan_policy, sum_tolerance=sum_tolerance)

    def gather(self, y: Any, p: Any, sample_weight: Any = None) -> ConfusionCounts:
        """Return the counts of a batch of labels, probabilities and weights."""
        rows = read_batch(self, y, p, sample_weight)
        return gather_confusion(rows, summarize(rows)[0])

    def conclude(self, state: ConfusionCounts) -> Array:
        """Return the counts."""
        return state.table.copy()


class AUROC(Accumulator[RankSketch]):
    """Area under the receiver operating characteristic from fine histograms; `auroc`.

    Parameters
    ----------
    average : {"macro", "weighted"}
        Mean over classes, plain or by weight of rows.
    absent : {"raise", "omit"}
        What `compute` does with classes that no row has.
    resolution : int
        Bins in each halving of the distance to 0 and to 1. Memory is 1 KB a class times this.
    nan_policy, sum_tolerance
        As of the function.

    Notes
    -----
    `compute` returns an `AreaEstimate`: a value, and how far the exact area, that of the function, may be
    from it. Pairs of rows in different bins are ordered for certain, those in the same bin may be in order
    or not: the bound is half the share of the latter.

    Examples
    --------
    >>> from fastmcmd.streaming.classification import AUROC
    >>> AUROC().update([0, 0, 1], [0.1, 0.4, 0.35]).update([1], [0.8]).compute()
    AreaEstimate(value=0.75, error_bound=0.0)
    """

    def __init__(
        self,
        average: str = "macro",
        absent: str = "raise",
        resolution: int = 128,
        nan_policy: str = "raise",
        sum_tolerance: float | None = None,
    ) -> None:
        check_choice(average, "average", AVERAGES)
        check_choice(absent, "absent", ABSENT)
        super().__init__(
            average=average,
            absent=absent,
            resolution=check_count(resolution, "resolution"),
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
        )

    def gather(self, y: Any, p: Any, sample_weight: Any = None) -> RankSketch:
        """Return the histograms of a batch of labels, probabilities and weights."""
        rows = read_batch(self, y, p, sample_weight)
        return gather_sketch(rows, self.settings["resolution"])

    def conclude(self, state: RankSketch) -> AreaEstimate:
        """Return the area and the bound of its error."""
        return state.estimate(self.settings["average"], self.settings["absent"])


def read_batch(accumulator: Accumulator[Any], y: Any, p: Any, sample_weight: Any) -> Rows:
    """Return the checked rows of a batch."""
    settings = accumulator.settings
    return read(y, p, sample_weight, settings["nan_policy"], settings["sum_tolerance"])
