"""Metrics of a classification whose test set arrives in batches."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_choice, check_count
from fastmcmd.classification.accuracy import TIES, gather_top_k
from fastmcmd.classification.bins import Binning, BinSums, gather_classes
from fastmcmd.classification.calibration import (
    NORMS,
    ReliabilityCurve,
    check_threshold,
    curve_of,
    mean_error,
)
from fastmcmd.classification.events import EVENTS, check_event, event_of, gather_event
from fastmcmd.classification.inputs import LabelledRows
from fastmcmd.classification.metric import Totals, total
from fastmcmd.classification.scores import brier_of, check_clip, halved, log_score_of
from fastmcmd.classification.summary import summarize
from fastmcmd.predictive.base import Array
from fastmcmd.streaming.base import OfLabelledRows
from fastmcmd.streaming.mass_sketch import MassSketch, error_bounds, sketch_classes, sketch_event

__all__ = [
    "Accuracy",
    "BinnedError",
    "BrierScore",
    "ClassificationECE",
    "ClassificationNLL",
    "ClasswiseECE",
    "TopKAccuracy",
    "WeightedMean",
]


class WeightedMean(OfLabelledRows[Totals]):
    """A weighted mean over rows."""

    def conclude(self, state: Totals) -> float:
        """Return the mean."""
        return state.mean


class TopKAccuracy(WeightedMean):
    """Share of rows whose label is among the ``k`` most probable classes; `top_k_accuracy`.

    Parameters
    ----------
    k : int
        Number of classes, from 1 to C.
    ties : {"first", "last", "share", "raise"}
        Which of equally probable classes come first.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import TopKAccuracy
    >>> scores = TopKAccuracy(k=2).update([1], [[0.5, 0.3, 0.2]]).update([2], [[0.4, 0.35, 0.25]])
    >>> scores.compute()
    0.5
    """

    def __init__(
        self,
        k: int = 5,
        ties: str = "first",
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        check_choice(ties, "ties", TIES)
        super().__init__(
            k=check_count(k, "k"),
            ties=ties,
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> Totals:
        """Return the sums of checked rows."""
        return gather_top_k(rows, summarize(rows)[0], self.settings["k"], self.settings["ties"])


class Accuracy(TopKAccuracy):
    """Share of rows whose most probable class is the label; `accuracy`.

    Parameters
    ----------
    ties : {"first", "last", "share", "raise"}
        Which of equally probable classes is predicted.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import Accuracy
    >>> one, other = Accuracy().update([0, 1], [0.2, 0.3]), Accuracy().update([1, 1], [0.9, 0.8])
    >>> one.merge(other).compute()
    0.75
    """

    def __init__(
        self,
        ties: str = "first",
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        super().__init__(1, ties, nan_policy, sum_tolerance, ignore_index)


class ClassificationNLL(WeightedMean):
    """Mean negative log likelihood; `nll`.

    Parameters
    ----------
    clip : float, optional
        If given, probabilities are first moved into [clip, 1 - clip].
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import ClassificationNLL
    >>> scores = ClassificationNLL().update([0, 1], [0.5, 0.5]).update([1], [0.0])
    >>> scores.compute(), scores.impossible
    (inf, 1)
    """

    def __init__(
        self,
        clip: float | None = None,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        super().__init__(
            clip=check_clip(clip),
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> Totals:
        """Return the sums of checked rows."""
        return total(rows, log_score_of(summarize(rows)[0], self.settings["clip"]))

    @property
    def impossible(self) -> int:
        """Number of rows so far with an infinite score: positive weight, and a label of probability 0."""
        return 0 if self._state is None else self._state.infinite


class BrierScore(WeightedMean):
    """Mean Brier score; `mean_brier_score`.

    Parameters
    ----------
    scale_by_half : bool or "auto"
        Whether to halve the sum over classes; "auto" does so for two classes.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import BrierScore
    >>> BrierScore().update([0, 1], [0.5, 0.5]).update([1], [1.0]).compute()
    0.16666666666666666
    """

    def __init__(
        self,
        scale_by_half: bool | str = "auto",
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        ignore_index: int | str | None = None,
    ) -> None:
        halved(scale_by_half, 2)
        super().__init__(
            scale_by_half=scale_by_half,
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> Totals:
        """Return the sums of checked rows."""
        half = halved(self.settings["scale_by_half"], rows.classes)
        return total(rows, brier_of(summarize(rows)[0], half))


class BinnedError(OfLabelledRows[Any]):
    """A calibration error of probabilities in bins of even width or of even weight.

    Bins of even weight depend on all rows. Their edges are edges of fine bins, so a row in the fine bin at
    an edge may be counted on the wrong side; `error_bound` bounds the effect.
    """

    def __init__(
        self, bins: int, binning: str, norm: str, closed: str, resolution: int, **settings: Any
    ) -> None:
        check_choice(norm, "norm", NORMS)
        self._binning = Binning(bins, binning, closed)
        super().__init__(
            bins=bins,
            binning=binning,
            norm=norm,
            closed=closed,
            resolution=check_count(resolution, "resolution"),
            **settings,
        )

    @abstractmethod
    def error(self, gaps: Array, sums: BinSums) -> float:
        """Return the metric from the errors (k,) of all classes."""

    def binned(self, state: BinSums | MassSketch) -> BinSums:
        """Return the sums in bins."""
        return state.binned(self._binning)[0] if isinstance(state, MassSketch) else state

    def conclude(self, state: BinSums | MassSketch) -> float:
        """Return the error."""
        sums = self.binned(state)
        return self.error(sums.errors(self.settings["norm"]), sums)

    def error_bound(self) -> float:
        """Return a bound on the distance of the value from that of the function, beyond rounding.

        It is 0 for bins of even width, and if each fine bin with an edge holds one distinct probability.

        Raises
        ------
        ValueError
            There are no rows yet.
        """
        if self._state is None:
            raise ValueError(f"{type(self).__name__} has seen no rows; call update first")
        if not isinstance(self._state, MassSketch):
            return 0.0
        sums, weight, gap = self._state.binned(self._binning)
        return self.error(error_bounds(sums, weight, gap, self.settings["norm"]), sums)


class ClassificationECE(BinnedError):
    """Expected calibration error in bins of even width or weight; `ece`.

    Parameters
    ----------
    bins : int
        Number of bins.
    binning : {"width", "mass"}
        Bins of even width in [0, 1], or of even weight.
    norm : {"l1", "l2", "max"}
        Mean of the gaps, root of the mean of their squares, or the largest.
    closed : {"right", "left"}
        Bins are (a, b] or [a, b).
    of : {"top", "positive"}, optional
        Event that is predicted: the most probable class, or class 1.
    resolution : int
        Number of fine bins in each halving of the distance to 0 and to 1, for bins of even weight; see
        `error_bound`.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import ClassificationECE
    >>> errors = ClassificationECE(bins=2).update([0, 1], [0.25, 0.75]).update([0], [0.75])
    >>> errors.compute()
    0.25
    >>> errors.curve().count.tolist()
    [1, 2]
    >>> even = ClassificationECE(bins=2, binning="mass").update([0, 1, 0], [0.25, 0.75, 0.75])
    >>> round(even.compute(), 12), even.error_bound()
    (0.25, 0.0)
    """

    def __init__(
        self,
        bins: int = 15,
        norm: str = "l1",
        closed: str = "right",
        of: str | None = None,
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        *,
        binning: str = "width",
        resolution: int = 128,
        ignore_index: int | str | None = None,
    ) -> None:
        if of is not None:
            check_choice(of, "of", EVENTS)
        super().__init__(
            bins,
            binning,
            norm,
            closed,
            resolution,
            of=of,
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> BinSums | MassSketch:
        """Return the sums of checked rows in bins, or in fine bins if bins have even weight."""
        of = check_event(self.settings["of"], rows)
        if self._binning.kind == "mass":
            return sketch_event(rows, *event_of(rows, of), self.settings["resolution"])
        return gather_event(rows, of, self._binning)

    def error(self, gaps: Array, sums: BinSums) -> float:
        """Return the error of the only event."""
        return float(gaps[0])

    def curve(self) -> ReliabilityCurve:
        """Return the reliability curve of all rows so far."""
        if self._state is None:
            raise ValueError("ClassificationECE has seen no rows; call update first")
        return curve_of(self.binned(self._state))


class ClasswiseECE(BinnedError):
    """Mean calibration error of each class's probabilities in bins; `classwise_ece`.

    Parameters
    ----------
    bins : int
        Number of bins.
    binning : {"width", "mass"}
        Bins of even width in [0, 1], or, for each class, of even weight: `adaptive_ece`.
    norm : {"l1", "l2", "max"}
        See `ClassificationECE`.
    threshold : float, optional
        If given, only probabilities above it count.
    closed : {"right", "left"}
        Bins are (a, b] or [a, b).
    resolution : int
        See `ClassificationECE`. Memory for each class is at most 7 KB times this number.
    nan_policy, sum_tolerance, ignore_index
        As in the function.

    Examples
    --------
    >>> from fastmcmd.streaming import ClasswiseECE
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
        nan_policy: NanPolicy = "raise",
        sum_tolerance: float | None = None,
        *,
        binning: str = "width",
        resolution: int = 32,
        ignore_index: int | str | None = None,
    ) -> None:
        super().__init__(
            bins,
            binning,
            norm,
            closed,
            resolution,
            threshold=check_threshold(threshold),
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )

    def gather_rows(self, rows: LabelledRows) -> BinSums | MassSketch:
        """Return the sums of checked rows in bins, or in fine bins if bins have even weight."""
        threshold = self.settings["threshold"]
        if self._binning.kind == "mass":
            return sketch_classes(rows, threshold, self.settings["resolution"])
        return gather_classes(rows, self._binning, threshold)

    def error(self, gaps: Array, sums: BinSums) -> float:
        """Return the mean error over the classes that have rows."""
        return mean_error(gaps, sums)
