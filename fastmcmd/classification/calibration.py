"""Calibration of probabilities: calibration errors in bins, and reliability curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_choice, check_positive
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.tables import ColumnTable
from fastmcmd.classification.bins import (
    Binning,
    BinSums,
    gather_classes,
)
from fastmcmd.classification.events import event_sums
from fastmcmd.classification.inputs import read
from fastmcmd.classification.metric import metric
from fastmcmd.predictive.base import Array

__all__ = [
    "NORMS",
    "ReliabilityCurve",
    "adaptive_ece",
    "check_threshold",
    "class_error",
    "classwise_ece",
    "curve_of",
    "ece",
    "mce",
    "mean_error",
    "reliability_curve",
]

NORMS = ("l1", "l2", "max")


@metric
def ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    bins: int = 15,
    binning: str = "width",
    norm: str = "l1",
    closed: str = "right",
    of: str | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> float:
    """Return the expected calibration error of predicted classes.

    Parameters
    ----------
    p : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1. If you have only confidences, use
        ``ece(correct, confidence)``.

    Returns
    -------
    float
        In [0, 1]. For a calibrated model it is not 0 but decreases like ``sqrt(bins / n)``.

    Notes
    -----
    See Naeini, Cooper & Hauskrecht, *Obtaining Well Calibrated Probabilities Using Bayesian Binning* (AAAI
    2015), for "positive", and Guo et al. (ICML 2017), equation 3, for "top". Other libraries differ:
    torchmetrics puts p = 1 into a separate bin, interprets values outside [0, 1] as logits, and uses bins
    [a, b) for two classes as for many; netcal uses bins [a, b) and puts p = 1 into the last bin. With
    ``binning="mass"`` and "top", this is AdaECE of Mukhoti et al. (2020); for that of Nixon et al. see
    `adaptive_ece`.

    Examples
    --------
    All three predictions are right, with a mean confidence of 0.77. So the classifier is underconfident
    by 0.23:

    >>> import fastmcmd as fm
    >>> round(fm.classification.ece([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]), 2)
    0.23
    """
    check_choice(norm, "norm", NORMS)
    binned = Binning(bins, binning, closed)
    sums = event_sums(y, p, of, binned, sample_weight, nan_policy, sum_tolerance, ignore_index)
    return float(sums.errors(norm)[0])


@metric
def mce(
    y: ArrayLike,
    p: ArrayLike,
    *,
    bins: int = 15,
    binning: str = "width",
    closed: str = "right",
    of: str | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> float:
    """Return the maximum calibration error, the largest gap in any bin: `ece` with ``norm="max"``.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    This is equation 5 of Guo et al. (ICML 2017). A bin may hold a single row: use few bins, or
    ``binning="mass"``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> round(fm.classification.mce([0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]), 12)
    0.4
    """
    return ece(
        y,
        p,
        bins=bins,
        binning=binning,
        norm="max",
        closed=closed,
        of=of,
        sample_weight=sample_weight,
        nan_policy=nan_policy,
        sum_tolerance=sum_tolerance,
        ignore_index=ignore_index,
    )


@metric
def classwise_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    bins: int = 15,
    binning: str = "width",
    norm: str = "l1",
    threshold: float | None = None,
    closed: str = "right",
    average: str | None = "macro",
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> float | Array:
    """Return the calibration error of the probabilities of each class, averaged over classes.

    Parameters
    ----------
    p : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1. For two classes, only class 1 is evaluated, because
        class 0 is its mirror image.
    binning : {"width", "mass"}
        Bins of equal width in [0, 1], or, for each class, of equal weight.
    average : {"macro"} or None
        "macro": the mean over classes that have rows (with a threshold, some may have none). None: one
        value per class, NaN for classes without rows.

    Returns
    -------
    float, or ndarray (C,) for ``average=None`` ((1,) for two classes)
        In [0, 1]; NaN if no probability is above the threshold.

    Notes
    -----
    See Kull et al., *Beyond Temperature Scaling: Obtaining Well-Calibrated Multi-Class Probabilities with
    Dirichlet Calibration* (NeurIPS 2019). It is the static calibration error of Nixon et al., *Measuring
    Calibration in Deep Learning* (CVPR workshops 2019). With a threshold, the weights of bins are shares of
    the remaining rows of the class.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> p = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]
    >>> fm.classification.classwise_ece([0, 0, 1, 2], p)
    0.0
    """
    check_choice(norm, "norm", NORMS)
    if average is not None:
        check_choice(average, "average", ("macro",))
    threshold = check_threshold(threshold)
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    sums = gather_classes(rows, Binning(bins, binning, closed), threshold)
    return sums.errors(norm) if average is None else class_error(sums, norm)


@metric
def adaptive_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    bins: int = 15,
    norm: str = "l1",
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> float:
    """Return the adaptive calibration error, the mean over classes with bins of equal weight.

    It is `classwise_ece` with ``binning="mass"``.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    See Nixon et al., *Measuring Calibration in Deep Learning* (CVPR workshops 2019); with ``threshold``
    this is their thresholded error. They give each bin the same weight and split equal probabilities by the
    order of rows. Here equal probabilities share a bin, and each bin has the weight of its rows. Both agree
    if all probabilities differ and the number of bins divides n.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.adaptive_ece([0, 1], [[1.0, 0.0], [0.0, 1.0]], bins=2)
    0.0
    """
    return float(
        classwise_ece(
            y,
            p,
            bins=bins,
            binning="mass",
            norm=norm,
            threshold=threshold,
            sample_weight=sample_weight,
            nan_policy=nan_policy,
            sum_tolerance=sum_tolerance,
            ignore_index=ignore_index,
        )
    )


def check_threshold(threshold: float | None) -> float | None:
    """Return ``threshold`` as a checked number in (0, 1), or None."""
    if threshold is None:
        return None
    threshold = check_positive(threshold, "threshold")
    if not threshold < 1:
        raise ValueError(f"threshold is {threshold:g}; a number between 0 and 1 is needed")
    return threshold


def class_error(sums: BinSums, norm: str) -> float:
    """Return the mean error over classes that have rows."""
    return mean_error(sums.errors(norm), sums)


def mean_error(errors: Array, sums: BinSums) -> float:
    """Return the mean of errors (k,) over classes that have rows."""
    if np.isnan(sums.weight).any():
        return float("nan")
    finite = errors[~np.isnan(errors)]
    return float(finite.mean()) if len(finite) else float("nan")


@dataclass(frozen=True, eq=False, repr=False)
class ReliabilityCurve(Plotted, ColumnTable):
    """Predicted probabilities and observed frequencies, by bin.

    Attributes
    ----------
    edges : ndarray (bins + 1,)
        Edges of the bins.
    count : ndarray (bins,)
        Number of rows in each bin.
    weight : ndarray (bins,)
        Weight of these rows.
    confidence, accuracy : ndarray (bins,)
        Mean probability and frequency of the event; NaN in empty bins.
    """

    picture: ClassVar[str] = "reliability"
    edges: Array
    count: NDArray[np.int64]
    weight: Array
    confidence: Array
    accuracy: Array

    @property
    def gap(self) -> Array:
        """Accuracy minus confidence; negative if the model is overconfident."""
        return self.accuracy - self.confidence

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists, by name."""
        return {
            "low": self.edges[:-1].tolist(),
            "high": self.edges[1:].tolist(),
            "count": self.count.tolist(),
            "weight": self.weight.tolist(),
            "confidence": self.confidence.tolist(),
            "accuracy": self.accuracy.tolist(),
        }

    def __repr__(self) -> str:
        return f"ReliabilityCurve of {self.count.sum():,} rows in {len(self.count)} bins\n{self.table()}"


@metric
def reliability_curve(
    y: ArrayLike,
    p: ArrayLike,
    *,
    bins: int = 15,
    binning: str = "width",
    closed: str = "right",
    of: str | None = None,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> ReliabilityCurve:
    """Return the mean predicted probability and the observed frequency in each bin.

    Returns
    -------
    ReliabilityCurve
        Edges, counts, mean probabilities and frequencies.

    Notes
    -----
    See Guo, Pleiss, Sun & Weinberger, *On Calibration of Modern Neural Networks* (ICML 2017), section 2,
    whose bins are (a, b]. ``sklearn.calibration.calibration_curve`` corresponds to ``of="positive"`` with
    bins (a, b], and drops empty bins; its "quantile" bins interpolate between values.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> print(fm.classification.reliability_curve([0, 1, 1], [0.2, 0.7, 0.9], bins=2).table())
    low  high  count  weight  confidence  accuracy
    ----------------------------------------------
      0   0.5      1       1         0.2         0
    0.5     1      2       2         0.8         1
    """
    binned = Binning(bins, binning, closed)
    return curve_of(
        event_sums(y, p, of, binned, sample_weight, nan_policy, sum_tolerance, ignore_index)
    )


def curve_of(sums: BinSums) -> ReliabilityCurve:
    """Return the reliability curve of one event."""
    return ReliabilityCurve(
        sums.edges[:, 0],
        sums.count[0].astype(np.int64),
        sums.weight[0],
        sums.confidence[0],
        sums.accuracy[0],
    )
