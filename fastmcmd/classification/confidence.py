"""Confidence and entropy of predictions, inside and outside the distribution of the training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_choice, check_positive
from fastmcmd._base.tables import ColumnTable
from fastmcmd.classification.bins import Binning, gather_values, width_edges
from fastmcmd.classification.inputs import LabelledRows, read_probabilities
from fastmcmd.classification.metric import metric
from fastmcmd.classification.summary import summarize, top_classes
from fastmcmd.predictive.base import Array

__all__ = [
    "MEASURES",
    "UncertaintyHistogram",
    "check_same_classes",
    "confidence",
    "entropy",
    "histogram_of",
    "read_two_sets",
    "uncertainty_histogram",
    "uncertainty_of",
]

MEASURES = ("confidence", "entropy")


@metric
def confidence(
    p: ArrayLike, *, nan_policy: NanPolicy = "raise", sum_tolerance: float | None = None
) -> Array:
    """Return the largest probability of each row.

    Returns
    -------
    ndarray (n,)
        In [1 / C, 1].

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.confidence([0.25, 0.5, 1.0]).tolist()
    [0.75, 0.5, 1.0]
    """
    rows = read_probabilities(p, None, nan_policy, sum_tolerance)
    return rows.scatter(top_classes(rows).confidence)


@metric
def entropy(
    p: ArrayLike,
    *,
    base: float | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
) -> Array:
    """Return the entropy of the predicted classes of each row.

    Parameters
    ----------
    base : float, optional
        Base of the logarithm, above 1: 2 for bits, C for values in [0, 1]. Default: e, for nats.

    Returns
    -------
    ndarray (n,)
        ``-sum_k p_k log p_k``, with ``0 log 0 = 0``.

    Notes
    -----
    ``scipy.stats.entropy(p, axis=1, base=base)`` divides rows by their sum first.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.entropy([[0.5, 0.5], [1.0, 0.0]], base=2).tolist()
    [1.0, 0.0]
    """
    scale = 1.0
    if base is not None:
        base = check_positive(base, "base")
        if not base > 1:
            raise ValueError(f"base is {base:g}; a number above 1 is needed")
        scale = float(np.log(base))
    rows = read_probabilities(p, None, nan_policy, sum_tolerance)
    return rows.scatter(uncertainty_of(rows, "entropy") / scale)


@dataclass(frozen=True, eq=False, repr=False)
class UncertaintyHistogram(ColumnTable):
    """Histograms of the uncertainty of a model on two sets of rows.

    Attributes
    ----------
    edges : ndarray (bins + 1,)
        Edges of the bins.
    inside, outside : ndarray (bins,)
        Counts or weights of the rows like the training data, and of the rows unlike it.
    of : str
        "confidence" or "entropy" (in nats).
    """

    edges: Array
    inside: Array
    outside: Array
    of: str

    @property
    def densities(self) -> tuple[Array, Array]:
        """Both histograms, scaled to integrate to one."""
        widths = np.diff(self.edges)
        return (
            self.inside / (self.inside.sum() * widths),
            self.outside / (self.outside.sum() * widths),
        )

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists, by name."""
        return {
            "low": self.edges[:-1].tolist(),
            "high": self.edges[1:].tolist(),
            "inside": self.inside.tolist(),
            "outside": self.outside.tolist(),
        }

    def __repr__(self) -> str:
        return f"UncertaintyHistogram of {self.of} in {len(self.inside)} bins\n{self.table()}"


@metric
def uncertainty_histogram(
    p_in: ArrayLike,
    p_out: ArrayLike,
    *,
    of: str = "entropy",
    bins: int = 20,
    closed: str = "right",
    weight_in: ArrayLike | None = None,
    weight_out: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
) -> UncertaintyHistogram:
    """Return histograms of confidence or entropy inside and outside the training distribution.

    Parameters
    ----------
    p_in, p_out : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1, for rows like the training data and unlike it.
    of : {"entropy", "confidence"}
        Measure of uncertainty: entropy in nats, in [0, log C], or the largest probability, in [0, 1].
    bins : int
        Number of bins of equal width.
    weight_in, weight_out : array_like (n,), optional
        Nonnegative weights of the rows.

    Returns
    -------
    UncertaintyHistogram
        Counts or weights by bin.

    Notes
    -----
    See Ovadia et al., *Can You Trust Your Model's Uncertainty?* (NeurIPS 2019).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> p_in, p_out = [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5]]
    >>> fm.classification.uncertainty_histogram(p_in, p_out, of="confidence", bins=2)
    UncertaintyHistogram of confidence in 2 bins
    low  high  inside  outside
    --------------------------
      0   0.5       0        1
    0.5     1       2        0
    """
    check_choice(of, "of", MEASURES)
    binning = Binning(bins, "width", closed)
    inside, outside = read_two_sets(p_in, p_out, weight_in, weight_out, nan_policy, sum_tolerance)
    return histogram_of(
        inside, outside, uncertainty_of(inside, of), uncertainty_of(outside, of), of, binning
    )


def histogram_of(
    inside: LabelledRows,
    outside: LabelledRows,
    values_in: Array,
    values_out: Array,
    of: str,
    binning: Binning,
) -> UncertaintyHistogram:
    """Return `uncertainty_histogram` from the uncertainties of the valid rows."""
    highest = float(np.log(inside.classes)) if of == "entropy" else 1.0

    def count(rows: LabelledRows, values: Array) -> Array:
        kind = rows.p.dtype
        if of == "entropy":
            values = np.minimum(values / highest, 1.0)  # a row may sum to slightly more than one
            kind = values.dtype
        nothing = np.zeros(len(values), dtype=np.int64)
        edges = width_edges(binning.bins, kind)
        return gather_values(rows, values, nothing, edges, binning).weight[0]

    edges = highest * width_edges(binning.bins)
    return UncertaintyHistogram(edges, count(inside, values_in), count(outside, values_out), of)


def uncertainty_of(rows: LabelledRows, of: str) -> Array:
    """Return confidence, or entropy in nats, of the valid rows."""
    summary = summarize(rows, entropy=of == "entropy")[0]
    return summary.confidence if summary.entropy is None else summary.entropy


def read_two_sets(
    p_in: ArrayLike,
    p_out: ArrayLike,
    weight_in: ArrayLike | None,
    weight_out: ArrayLike | None,
    nan_policy: NanPolicy,
    sum_tolerance: float | None,
) -> tuple[LabelledRows, LabelledRows]:
    """Return the rows of two sets of the same classes."""
    inside = read_probabilities(p_in, weight_in, nan_policy, sum_tolerance, "p_in", "weight_in")
    outside = read_probabilities(
        p_out, weight_out, nan_policy, sum_tolerance, "p_out", "weight_out"
    )
    check_same_classes(inside, outside)
    return inside, outside


def check_same_classes(inside: LabelledRows, outside: LabelledRows) -> None:
    """Raise an error unless two sets have the same number of classes."""
    if inside.classes != outside.classes:
        raise ValueError(
            f"{outside.name} has {outside.classes} classes, {inside.name} has {inside.classes}; they "
            "must agree"
        )
