"""Decomposition of the Brier score into uncertainty, resolution and reliability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.tables import Notebook, columns_as_text
from fastmcmd.classification.bins import Binning, BinSums, gather_classes
from fastmcmd.classification.inputs import read
from fastmcmd.classification.metric import metric
from fastmcmd.classification.scores import halved

__all__ = ["BrierDecomposition", "brier_decomposition", "decomposition_of"]


@dataclass(frozen=True, repr=False)
class BrierDecomposition(Notebook):
    """The terms of the mean Brier score.

    Attributes
    ----------
    uncertainty : float
        Score of the class frequencies as a prediction: the difficulty of the problem.
    resolution : float
        Squared distance of the frequencies in bins from those of all rows; larger is better.
    reliability : float
        Squared distance of mean probabilities and frequencies in bins; smaller is better.
    within_variance, within_covariance : float
        Variance of probabilities within bins, and twice their covariance with the event. The other terms
        do not contain these.
    """

    uncertainty: float
    resolution: float
    reliability: float
    within_variance: float
    within_covariance: float

    @property
    def score(self) -> float:
        """The mean Brier score: the sum of the terms with their signs."""
        return (
            self.uncertainty
            - self.resolution
            + self.reliability
            + self.within_variance
            - self.within_covariance
        )

    @property
    def generalized_resolution(self) -> float:
        """Resolution including the terms within bins, so that three terms add up to the score."""
        return self.resolution - self.within_variance + self.within_covariance

    def to_dict(self) -> dict[str, float]:
        """Return the terms and their sum, by name."""
        return {
            "uncertainty": self.uncertainty,
            "resolution": self.resolution,
            "reliability": self.reliability,
            "within_variance": self.within_variance,
            "within_covariance": self.within_covariance,
            "score": self.score,
        }

    def table(self) -> str:
        """Return the terms as text, one per line, with their signs in the score."""
        terms = self.to_dict()
        return columns_as_text(
            {"term": list(terms), "sign": list("+-++-="), "value": list(terms.values())}
        )

    def __repr__(self) -> str:
        return f"BrierDecomposition\n{self.table()}"


@metric
def brier_decomposition(
    y: ArrayLike,
    p: ArrayLike,
    *,
    bins: int = 15,
    binning: str = "width",
    closed: str = "right",
    scale_by_half: bool | str = "auto",
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
    sum_tolerance: float | None = None,
    ignore_index: int | str | None = None,
) -> BrierDecomposition:
    """Return the decomposition of the mean Brier score into uncertainty, resolution and reliability.

    Parameters
    ----------
    bins : int
        Number of bins for each class.
    binning : {"width", "mass"}
        Bins of equal width in [0, 1], or, for each class, of equal weight.

    Returns
    -------
    BrierDecomposition
        Five terms; with their signs they add up to `mean_brier_score`, up to rounding.

    Notes
    -----
    The three terms of Murphy, *A New Vector Partition of the Probability Score* (Journal of Applied
    Meteorology, 1973), add up to the score if all probabilities in a bin are equal. In general, the
    variance and covariance within bins must be added (Stephenson, Coelho & Jolliffe, *Two Extra Components
    in the Brier Score Decomposition*, Weather and Forecasting, 2008). For each class, with weight shares
    ``w`` and bins ``b`` with mean probability ``f_b`` and frequency ``o_b``::

        score = o (1 - o) - sum_b w_b (o_b - o)^2 + sum_b w_b (f_b - o_b)^2
                + sum_i w_i (p_i - f_b)^2 - 2 sum_i w_i (p_i - f_b) (o_i - o_b)

    and the terms of all classes are added. Two classes have the same terms, so only class 1 is binned.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.classification.brier_decomposition([0, 1, 1, 1], [0.25, 0.75, 0.75, 0.75])
    BrierDecomposition
    term               sign   value
    -------------------------------
    uncertainty        +     0.1875
    resolution         -     0.1875
    reliability        +     0.0625
    within_variance    +          0
    within_covariance  -          0
    score              =     0.0625
    """
    rows = read(y, p, sample_weight, nan_policy, sum_tolerance, ignore_index=ignore_index)
    half = halved(scale_by_half, rows.classes)
    return decomposition_of(gather_classes(rows, Binning(bins, binning, closed)), half)


def decomposition_of(sums: BinSums, half: bool) -> BrierDecomposition:
    """Return the terms from the sums of all probabilities in bins; for two classes, of class 1."""
    weight = sums.weight.sum(axis=1, keepdims=True)
    frequency = sums.hit.sum(axis=1, keepdims=True) / weight
    occupied = sums.weight != 0  # includes bins with NaN
    safe = np.where(occupied, sums.weight, 1.0)
    share = sums.weight / weight
    mean, hits = sums.value / safe, sums.hit / safe
    gap = np.where(occupied, sums.middles + mean - hits, 0.0)
    resolution = share * np.where(occupied, hits - frequency, 0.0) ** 2
    variance = (sums.square - sums.value * mean) / weight
    covariance = 2 * (sums.product - sums.value * hits) / weight
    # For two classes, the sum over both is twice the term of class 1.
    scale = (2.0 if len(sums.weight) == 1 else 1.0) * (0.5 if half else 1.0)
    return BrierDecomposition(
        scale * float((frequency * (1 - frequency)).sum()),
        scale * float(resolution.sum()),
        scale * float((share * gap**2).sum()),
        scale * float(variance.sum()),
        scale * float(covariance.sum()),
    )
