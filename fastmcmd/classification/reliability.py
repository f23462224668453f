"""Predicted probabilities against observed frequencies, by bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.tables import columns_as_text
from fastmcmd.classification.bins import (
    Binning,
    BinSums,
)
from fastmcmd.classification.events import event_sums
from fastmcmd.classification.metric import metric
from fastmcmd.predictive.base import Array

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ReliabilityCurve", "curve_of", "reliability_curve"]


@dataclass(frozen=True, eq=False, repr=False)
class ReliabilityCurve:
    """Predicted probabilities against observed frequencies, by bin.

    Attributes
    ----------
    edges : ndarray (bins + 1,)
        Where bins begin and end.
    count : ndarray (bins,)
        Rows in each.
    weight : ndarray (bins,)
        Their weight.
    confidence, accuracy : ndarray (bins,)
        Mean probability and frequency of the event; NaN in empty bins.
    """

    edges: Array
    count: NDArray[np.int64]
    weight: Array
    confidence: Array
    accuracy: Array

    @property
    def gap(self) -> Array:
        """Accuracy less confidence: below 0 where the model is too sure."""
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

    def to_frame(self) -> pd.DataFrame:
        """Return the columns as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def table(self) -> str:
        """Return the bins as text, a line each."""
        return columns_as_text(self.to_dict())

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
) -> ReliabilityCurve:
    """Return mean predicted probability and observed frequency in bins.

    Returns
    -------
    ReliabilityCurve
        Edges, counts, mean probabilities and frequencies.

    Notes
    -----
    Guo, Pleiss, Sun & Weinberger, *On Calibration of Modern Neural Networks* (ICML 2017), section 2, with
    their bins (a, b]. ``sklearn.calibration.calibration_curve`` is ``of="positive"`` with bins (a, b],
    and drops empty bins; its "quantile" bins interpolate between values.

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
    return curve_of(event_sums(y, p, of, binned, sample_weight, nan_policy, sum_tolerance))


def curve_of(sums: BinSums) -> ReliabilityCurve:
    """Return the reliability curve of one event."""
    return ReliabilityCurve(
        sums.edges[:, 0],
        sums.count[0].astype(np.int64),
        sums.weight[0],
        sums.confidence[0],
        sums.accuracy[0],
    )
