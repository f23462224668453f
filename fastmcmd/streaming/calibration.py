"""Calibration over a test set that arrives in batches: counts at fixed levels, sums, sketches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice, check_count, check_positive
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.metrics.intervals import (
    IntervalSums,
    conclude_intervals,
    conclude_sharpness,
    gather_coverage,
    gather_variance,
    gather_widths,
)
from fastmcmd.metrics.pit import (
    PITS,
    PITSums,
    conclude_histogram,
    gather_histogram,
)
from fastmcmd.metrics.pit import PITHistogram as Histogram
from fastmcmd.metrics.reliability_sums import (
    ECE_LEVELS,
    KINDS,
    TOOLBOX_LEVELS,
    ReliabilityCurve,
    ReliabilitySums,
    check_weights,
    conclude_reliability,
    gather_reliability,
    read_levels,
)
from fastmcmd.predictive.base import Array, check_levels
from fastmcmd.streaming.base import OfRows

__all__ = [
    "Coverage",
    "MeanAbsoluteCalibrationError",
    "MeanIntervalWidth",
    "MiscalibrationArea",
    "PITHistogram",
    "RMSCalibrationError",
    "RegressionECE",
    "Reliability",
    "Sharpness",
]


class Reliability(OfRows[ReliabilitySums]):
    """Reliability curve; see `fastmcmd.metrics.reliability_curve`.

    Parameters
    ----------
    levels : array_like (j,), optional
        Levels in [0, 1]; default: 100 evenly spaced levels.
    kind : {"quantile", "interval"}, optional
        Outcomes below quantiles, or in central intervals; default: that of the function.
    pit : {"randomized", "mid", "plain"}
        Treatment of atoms in the PIT.
    random_state, nan_policy
        See `OfRows`.

    Examples
    --------
    >>> from fastmcmd.streaming.calibration import Reliability
    >>> scores = Reliability(levels=[0.5]).update([-1.0], ([0.0], 1.0)).update([1.0], ([0.0], 1.0))
    >>> scores.compute().observed.tolist()
    [0.5]
    """

    _kind = "quantile"
    _levels = TOOLBOX_LEVELS
    _inner = False

    def __init__(
        self,
        levels: ArrayLike | None = None,
        *,
        kind: str | None = None,
        pit: str = "randomized",
        random_state: RandomState = 0,
        nan_policy: NanPolicy = "raise",
        **settings: Any,
    ) -> None:
        self._read_levels = read_levels(levels, self._levels, inner=self._inner)
        self._curve_kind = check_choice(self._kind if kind is None else kind, "kind", KINDS)
        self._pit = check_choice(pit, "pit", PITS)
        super().__init__(
            nan_policy,
            random_state,
            levels=self._read_levels.tolist(),
            kind=self._curve_kind,
            pit=pit,
            **settings,
        )

    def gather_rows(self, rows: Outcomes) -> ReliabilitySums:
        """Return counts at the levels."""
        return gather_reliability(
            rows, self._read_levels, self._curve_kind, self._pit, self._stream
        )

    def curve(self, state: ReliabilitySums) -> ReliabilityCurve:
        """Return the curve."""
        return conclude_reliability(state, self._curve_kind)

    def conclude(self, state: ReliabilitySums) -> ReliabilityCurve | float:
        """Return the curve."""
        return self.curve(state)


class RegressionECE(Reliability):
    """Expected calibration error; see `fastmcmd.regression_ece`.

    Parameters
    ----------
    levels : array_like (j,), optional
        Levels in (0, 1); default: 99 evenly spaced levels.
    weights : {"uniform", "frequency"} or array_like (j,)
        Weights of levels.
    alpha : float
        Exponent of the differences.
    kind, pit, random_state, nan_policy
        See `Reliability`.
    """

    _levels = ECE_LEVELS
    _inner = True

    def __init__(
        self,
        levels: ArrayLike | None = None,
        weights: str | ArrayLike = "uniform",
        alpha: float = 1.0,
        *,
        kind: str = "quantile",
        pit: str = "randomized",
        random_state: RandomState = 0,
        nan_policy: NanPolicy = "raise",
    ) -> None:
        self._alpha = check_positive(alpha, "alpha")
        share = check_weights(weights, read_levels(levels, self._levels, inner=True))
        self._weights = weights if share is None else share.copy()
        super().__init__(
            levels,
            kind=kind,
            pit=pit,
            random_state=random_state,
            nan_policy=nan_policy,
            weights=weights if share is None else share.tolist(),
            alpha=self._alpha,
        )

    def conclude(self, state: ReliabilitySums) -> float:
        """Return the error."""
        return self.curve(state).ece(self._weights, self._alpha)


class RMSCalibrationError(Reliability):
    """Root mean square calibration error; see `fastmcmd.metrics.rms_calibration_error`."""

    _kind = "interval"

    def conclude(self, state: ReliabilitySums) -> float:
        """Return the error."""
        return self.curve(state).rms_calibration_error


class MeanAbsoluteCalibrationError(Reliability):
    """Mean absolute error; see `fastmcmd.metrics.mean_absolute_calibration_error`."""

    _kind = "interval"

    def conclude(self, state: ReliabilitySums) -> float:
        """Return the error."""
        return self.curve(state).mean_absolute_calibration_error


class MiscalibrationArea(Reliability):
    """Area between curve and diagonal; see `fastmcmd.metrics.miscalibration_area`."""

    _kind = "interval"

    def conclude(self, state: ReliabilitySums) -> float:
        """Return the area."""
        return self.curve(state).miscalibration_area


class PITHistogram(OfRows[PITSums]):
    """Histogram of the PIT; see `fastmcmd.metrics.pit_histogram`.

    Parameters
    ----------
    bins : int
        Number of even bins of [0, 1].
    pit : {"randomized", "mid", "plain", "nonrandomized"}
        Treatment of atoms in the PIT.
    random_state, nan_policy
        See `OfRows`.
    """

    def __init__(
        self,
        bins: int = 10,
        *,
        pit: str = "randomized",
        random_state: RandomState = 0,
        nan_policy: NanPolicy = "raise",
    ) -> None:
        self._bins = check_count(bins, "bins")
        self._pit = check_choice(pit, "pit", (*PITS, "nonrandomized"))
        super().__init__(nan_policy, random_state, bins=self._bins, pit=pit)

    def gather_rows(self, rows: Outcomes) -> PITSums:
        """Return counts in the bins."""
        return gather_histogram(rows, self._bins, self._pit, self._stream)

    def conclude(self, state: PITSums) -> Histogram:
        """Return the histogram."""
        return conclude_histogram(state, self._pit)


class _AtLevels(OfRows[IntervalSums]):
    """A mean over rows that is computed for the central interval of each level."""

    def __init__(self, level: ArrayLike = 0.9, *, nan_policy: NanPolicy = "raise") -> None:
        levels = check_levels(level)
        self._level: Array = np.array(np.atleast_1d(levels))
        self._scalar = levels.ndim == 0
        super().__init__(nan_policy, level=levels.tolist())

    def conclude(self, state: IntervalSums) -> float | Array:
        """Return the mean, one for each level."""
        return conclude_intervals(state, self._scalar)


class Coverage(_AtLevels):
    """Share of outcomes in central intervals; see `fastmcmd.metrics.coverage`.

    Parameters
    ----------
    level : float or array_like (j,)
        Levels in [0, 1].
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows that hold NaN.
    """

    def gather_rows(self, rows: Outcomes) -> IntervalSums:
        """Return the weight of outcomes in the intervals."""
        return gather_coverage(rows, self._level)


class MeanIntervalWidth(_AtLevels):
    """Mean width of central intervals; see `fastmcmd.metrics.mean_interval_width`.

    Parameters
    ----------
    level, nan_policy
        See `Coverage`.
    """

    def gather_rows(self, rows: Outcomes) -> IntervalSums:
        """Return sums of widths."""
        return gather_widths(rows, self._level)


class Sharpness(OfRows[IntervalSums]):
    """Root of the mean predicted variance; see `fastmcmd.metrics.sharpness`."""

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__(nan_policy)

    def gather_rows(self, rows: Outcomes) -> IntervalSums:
        """Return the sum of variances."""
        return gather_variance(rows)

    def conclude(self, state: IntervalSums) -> float:
        """Return the root of the mean."""
        return conclude_sharpness(state)
