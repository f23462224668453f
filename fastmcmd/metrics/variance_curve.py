"""The curve of errors against predicted variances in bins, which ENCE and UCE summarise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fastmcmd._base.plotted import Plotted
from fastmcmd._base.tables import ColumnTable, aligned
from fastmcmd.metrics.variance_bins import Binned
from fastmcmd.predictive.base import Array

__all__ = ["VarianceCurve", "conclude_variance"]


@dataclass(frozen=True, eq=False, repr=False)
class VarianceCurve(Plotted, ColumnTable):
    """Root mean squared errors and root mean variances, in bins of predicted spread.

    Attributes
    ----------
    rmv, rmse : ndarray (b,)
        Roots of the mean predicted variance and of the mean squared error of each bin that is not empty.
    mass : ndarray (b,)
        Weight in these bins.
    edges : ndarray (bins + 1,)
        Predicted spreads at the edges of all bins.
    null_std : ndarray (b,)
        Standard deviations of RMSE/RMV for a calibrated model. Weights are importance weights: a row of
        weight 2 is one row, and scatters more than two rows of weight 1.
    empty : int
        Number of bins left out because they are empty.
    n : int
        Rows.
    binning, by : str
        As in `fastmcmd.metrics.ence_curve`.
    """

    picture: ClassVar[str] = "variance"
    rmv: Array
    rmse: Array
    mass: Array
    edges: Array
    null_std: Array
    empty: int
    n: int
    binning: str
    by: str

    @property
    def errors(self) -> Array:
        """``|RMV - RMSE| / RMV`` of each bin."""
        return np.asarray(np.abs(self.rmv - self.rmse) / self.rmv)

    @property
    def ence(self) -> float:
        """Mean of the errors."""
        return float(self.errors.mean())

    @property
    def maximum(self) -> float:
        """Largest of the errors."""
        return float(self.errors.max())

    @property
    def uce(self) -> float:
        """Weighted mean over bins of ``|MSE - MV|``."""
        share = self.mass / self.mass.sum()
        with np.errstate(over="ignore"):
            return float(share @ (np.abs(self.rmse - self.rmv) * (self.rmse + self.rmv)))

    @property
    def null_ence(self) -> float:
        """Expected ENCE of a calibrated model with these variances.

        In each bin ``RMSE / RMV - 1`` is approximately normal with mean 0 and standard deviation
        ``sqrt((kurtosis - 1) sum w^2 s^4) / (2 sum w s^2)``, or ``sqrt((kurtosis - 1) / (4 n_b))`` for
        equal variances. Its mean absolute value is ``sqrt(2 / pi)`` times that. The formula needs many rows
        per bin and a finite kurtosis; otherwise use `fastmcmd.metrics.null_ence`.
        """
        return float(np.sqrt(2 / np.pi) * self.null_std.mean())

    @property
    def null_uce(self) -> float:
        """Expected UCE of a calibrated model with these variances.

        As for `null_ence`, except that ``MSE - MV`` of a bin has the standard deviation ``2 MV null_std``.
        """
        share = self.mass / self.mass.sum()
        return float(np.sqrt(2 / np.pi) * (share @ (2 * self.rmv**2 * self.null_std)))

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns of the curve as lists, by name."""
        return {
            "rmv": self.rmv.tolist(),
            "rmse": self.rmse.tolist(),
            "weight": self.mass.tolist(),
            "error": self.errors.tolist(),
            "null_std": self.null_std.tolist(),
        }

    def table(self) -> str:
        """Return the bins as text."""
        rows = [["bin", "weight", "RMV", "RMSE", "error", "null std"]]
        for b in range(len(self.rmv)):
            rows.append(
                [
                    str(b + 1),
                    f"{self.mass[b]:g}",
                    f"{self.rmv[b]:.4g}",
                    f"{self.rmse[b]:.4g}",
                    f"{self.errors[b]:.4f}",
                    f"{self.null_std[b]:.4f}",
                ]
            )
        return aligned(rows)

    def __repr__(self) -> str:
        empty = f", {self.empty} bins empty" if self.empty else ""
        return (
            f"VarianceCurve of {self.n:,} rows in bins of equal {self.binning}{empty}: ENCE "
            f"{self.ence:.4g} ({self.null_ence:.4g} if calibrated), maximum {self.maximum:.4g}\n"
            f"{self.table()}"
        )


def conclude_variance(
    binned: Binned, n: int, binning: str, by: str = "std", kurtosis: float = 3.0
) -> VarianceCurve:
    """Return the curve of sums of weights, variances and squared errors in bins."""
    some = binned.sums[:, 0] > 0
    mass, variance, squares = binned.sums[some].T
    positive = np.where(variance > 0, variance, np.nan)
    return VarianceCurve(
        binned.unit * np.sqrt(variance / mass),
        binned.unit * np.sqrt(squares / mass),
        mass,
        binned.edges,
        np.sqrt((kurtosis - 1) * binned.noise[some]) / (2 * positive),
        int(np.count_nonzero(~some)),
        n,
        binning,
        by,
    )
