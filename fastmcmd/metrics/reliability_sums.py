"""Sums behind reliability curves, and the curves themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.checks import as_array, check_choice, check_positive
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.tables import ColumnTable, aligned
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.metrics.pit import SortedPIT, pit_of_rows, sort_pit
from fastmcmd.predictive.base import Array

__all__ = [
    "ECE_LEVELS",
    "KINDS",
    "TOOLBOX_LEVELS",
    "ReliabilityCurve",
    "ReliabilitySums",
    "check_weights",
    "conclude_reliability",
    "gather_reliability",
    "read_levels",
    "reliability_sums",
]

KINDS = ("quantile", "interval")
ECE_LEVELS = np.arange(1, 100) / 100  # every percent
TOOLBOX_LEVELS = np.linspace(0.0, 1.0, 100)  # default levels of Uncertainty Toolbox
_TABLE_ROWS = 11  # rows of a printed curve


@dataclass(frozen=True)
class ReliabilitySums:
    """Weights of the outcomes up to each level.

    Attributes
    ----------
    levels : ndarray (j,)
        Levels.
    within : ndarray (j,)
        Weight of outcomes below the quantile, or in the interval, of each level; NaN if NaN propagates.
    weight, squares : float
        Sum of the weights, and of their squares.
    n : int
        Rows.
    """

    levels: Array
    within: Array
    weight: float
    squares: float
    n: int

    def __add__(self, other: ReliabilitySums) -> ReliabilitySums:
        return ReliabilitySums(
            self.levels,
            self.within + other.within,
            self.weight + other.weight,
            self.squares + other.squares,
            self.n + other.n,
        )


@dataclass(frozen=True, eq=False, repr=False)
class ReliabilityCurve(Plotted, ColumnTable):
    """Observed and expected shares of outcomes at each level.

    Attributes
    ----------
    expected : ndarray (j,)
        Levels p.
    observed : ndarray (j,)
        Share of outcomes below the predicted p-quantile, or in the central interval of level p.
    within : ndarray (j,)
        Weight of these outcomes (without weights, their number).
    kind : str
        "quantile" or "interval".
    n : int
        Rows.
    effective : float
        Effective number of rows, ``(sum w)^2 / sum w^2``: as many rows of equal weight scatter as much.
    """

    picture: ClassVar[str] = "reliability"
    expected: Array
    observed: Array
    within: Array
    kind: str
    n: int
    effective: float

    @property
    def differences(self) -> Array:
        """Observed minus expected shares (j,)."""
        return np.asarray(self.observed - self.expected)

    @property
    def scatter(self) -> Array:
        """Standard deviations (j,) of the observed shares of a calibrated model."""
        return np.asarray(np.sqrt(self.expected * (1 - self.expected) / self.effective))

    @property
    def rms_calibration_error(self) -> float:
        """Root mean square of the differences."""
        return float(np.sqrt(np.mean(self.differences**2)))

    @property
    def mean_absolute_calibration_error(self) -> float:
        """Mean absolute difference."""
        return float(np.mean(np.abs(self.differences)))

    @property
    def maximum_calibration_error(self) -> float:
        """Largest absolute difference."""
        return float(np.max(np.abs(self.differences)))

    @property
    def miscalibration_area(self) -> float:
        """Area between the curve, drawn with straight lines, and the diagonal."""
        return float(area_to_diagonal(self.expected, self.differences))

    def ece(self, weights: str | ArrayLike = "uniform", alpha: float = 1.0) -> float:
        """Return ``sum_j w_j |p_j - observed_j|^alpha``; see `fastmcmd.regression_ece`."""
        share = check_weights(weights, self.expected)
        if share is None:
            share = np.ones_like(self.within) if weights == "uniform" else self.within
        gaps = np.abs(self.differences) ** check_positive(alpha, "alpha")
        total = share.sum()
        return float((share * gaps).sum() / total) if total != 0 else float("nan")

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns of the curve as lists, by name."""
        return {
            "expected": self.expected.tolist(),
            "observed": self.observed.tolist(),
            "within": self.within.tolist(),
            "scatter": self.scatter.tolist(),
        }

    def table(self) -> str:
        """Return expected and observed shares as text; long curves are thinned."""
        rows = [["expected", "observed", "difference", "scatter"]]
        count = len(self.expected)
        indices = np.unique(np.linspace(0, count - 1, min(count, _TABLE_ROWS)).round().astype(int))
        for j in indices:
            rows.append(
                [
                    f"{self.expected[j]:.4f}",
                    f"{self.observed[j]:.4f}",
                    f"{self.differences[j]:+.4f}",
                    f"{self.scatter[j]:.4f}",
                ]
            )
        return aligned(rows)

    def __repr__(self) -> str:
        kind_name = "quantiles" if self.kind == "quantile" else "central intervals"
        return (
            f"ReliabilityCurve of {kind_name}, {self.n:,} rows, {len(self.expected)} levels: mean absolute "
            f"calibration error {self.mean_absolute_calibration_error:.4g}\n{self.table()}"
        )


def area_to_diagonal(expected: Array, differences: Array) -> Array:
    """Return the areas (...) between curves, drawn with straight lines, and the diagonal.

    ``differences`` (..., j) are observed minus expected (j,) shares.
    """
    order = np.argsort(expected, kind="stable")
    steps = np.diff(expected[order])
    gaps = differences[..., order]
    left, right = np.abs(gaps[..., :-1]), np.abs(gaps[..., 1:])
    total = left + right
    # If the curve crosses the diagonal, the area is two triangles with heights left and right.
    crosses = gaps[..., :-1] * gaps[..., 1:] < 0
    twice = np.where(crosses, (left**2 + right**2) / np.where(crosses, total, 1.0), total)
    return np.asarray(np.sum(steps * twice, axis=-1) / 2)


def read_levels(levels: ArrayLike | None, default: Array, *, inner: bool = False) -> Array:
    """Return checked levels (j,) in [0, 1], or in (0, 1) if ``inner``; the default for None."""
    if levels is None:
        return default
    values = as_array(levels, "levels").astype(np.float64)
    fits = (values > 0) & (values < 1) if inner else (values >= 0) & (values <= 1)
    if values.ndim != 1 or len(values) == 0 or not fits.all():
        ends = "" if inner else " (or equal to them)"
        raise ValueError(
            f"levels must be numbers between 0 and 1{ends} of shape (j,), got {levels!r}"
        )
    return values


def check_weights(weights: str | ArrayLike, levels: Array) -> Array | None:
    """Return the checked weights of levels, or None for "uniform" and "frequency"."""
    if isinstance(weights, str):
        check_choice(weights, "weights", ("uniform", "frequency"))
        return None
    share = as_array(weights, "weights").astype(np.float64)
    if share.shape != levels.shape or not (np.isfinite(share) & (share >= 0)).all():
        raise ValueError(
            f"weights must be nonnegative with shape {levels.shape}, got shape {share.shape}"
        )
    if not share.any():
        raise ValueError("weights are all zero; at least one must be positive")
    return share


def reliability_sums(pit: SortedPIT, levels: Array, kind: str = "quantile") -> ReliabilitySums:
    """Return the sums of a reliability curve from PIT values that are already sorted."""
    if kind == "quantile":
        within = pit.up_to(levels)
    else:
        within = pit.up_to(0.5 + levels / 2) - pit.below(0.5 - levels / 2)
    return ReliabilitySums(levels, within, pit.weight, pit.squares, pit.n)


def conclude_reliability(sums: ReliabilitySums, kind: str = "quantile") -> ReliabilityCurve:
    """Return the reliability curve from its sums."""
    return ReliabilityCurve(
        sums.levels,
        sums.within / sums.weight,
        sums.within,
        kind,
        sums.n,
        sums.weight**2 / sums.squares,
    )


def gather_reliability(
    rows: Outcomes, levels: Array, kind: str, pit: str, random_state: RandomState
) -> ReliabilitySums:
    """Return the sums of a reliability curve over checked rows; see `reliability_curve`."""
    values = pit_of_rows(rows.y, rows.prediction, pit, random_state)
    return reliability_sums(
        sort_pit(values, rows.weights, nan_result=rows.nan_result), levels, kind
    )
