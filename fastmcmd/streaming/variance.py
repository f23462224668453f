"""Errors relative to predicted spread over a test set that arrives in batches, by sketches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice, check_count
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.metrics.intervals import SpreadSums, conclude_variation, gather_spread
from fastmcmd.metrics.pit import PITS, pit_of_rows
from fastmcmd.metrics.quantile_calibration import (
    QCE_LEVELS,
    conclude_qce,
    finite_std,
    smallest_level,
)
from fastmcmd.metrics.reliability_sums import KINDS, read_levels
from fastmcmd.metrics.variance import (
    BINNINGS,
    SPREADS,
    check_bins,
    check_kurtosis,
    check_limits,
    gather_columns,
)
from fastmcmd.metrics.variance_bins import Cells, into_bins
from fastmcmd.metrics.variance_curve import VarianceCurve, conclude_variance
from fastmcmd.streaming.base import OfRows
from fastmcmd.streaming.mass_sketch import LogSketch, check_accuracy, sketch_keys

__all__ = ["ENCE", "QCE", "UCE", "ENCECurve", "SpreadSketch", "VarianceVariation"]


@dataclass(frozen=True)
class SpreadSketch:
    """Sums in fine bins of predicted spread.

    Attributes
    ----------
    sketch : LogSketch
        Sketch of variances or standard deviations.
    n : int
        Number of rows.
    nan_result : bool
        Whether NaN propagates.
    """

    sketch: LogSketch
    n: int
    nan_result: bool

    def __add__(self, other: SpreadSketch) -> SpreadSketch:
        return SpreadSketch(
            self.sketch + other.sketch, self.n + other.n, self.nan_result or other.nan_result
        )


class ENCECurve(OfRows[SpreadSketch]):
    """Errors relative to predicted variances, in bins; see `fastmcmd.metrics.ence_curve`.

    Parameters
    ----------
    bins, binning, by, limits, kurtosis, nan_policy
        See `fastmcmd.metrics.ence_curve`; ``binning`` and ``by`` default to those of the function.
    accuracy : float
        Variances within this relative distance of each other may count as equal if an edge of a bin lies
        between them. Sums over all rows are exact; only rows that close to an edge change bins.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.streaming.variance import ENCECurve
    >>> rng = np.random.default_rng(0)
    >>> std = np.exp(rng.normal(size=4000))
    >>> y = std * rng.normal(size=4000)
    >>> curve = ENCECurve().update(y[:2500], (0.0, std[:2500])).update(y[2500:], (0.0, std[2500:]))
    >>> abs(curve.compute().ence - fm.ence(y, (0.0, std))) < 1e-3
    True
    """

    _binning = "mass"
    _by = "std"
    _positive = True

    def __init__(
        self,
        bins: int = 10,
        *,
        binning: str | None = None,
        by: str | None = None,
        limits: tuple[float, float] | None = None,
        kurtosis: float = 3.0,
        accuracy: float = 1e-3,
        nan_policy: NanPolicy = "raise",
    ) -> None:
        self._bins = check_count(bins, "bins")
        self._equal = check_choice(
            self._binning if binning is None else binning, "binning", BINNINGS
        )
        self._spread = check_choice(self._by if by is None else by, "by", SPREADS)
        self._limits = check_limits(limits, self._equal)
        self._kurtosis = check_kurtosis(kurtosis)
        self._accuracy = check_accuracy(accuracy)
        super().__init__(
            nan_policy,
            bins=self._bins,
            binning=self._equal,
            by=self._spread,
            limits=self._limits,
            kurtosis=self._kurtosis,
            accuracy=self._accuracy,
        )

    def gather_rows(self, rows: Outcomes) -> SpreadSketch:
        """Return sums of weights, variances and squared errors in fine bins of variance."""
        variance, columns = gather_columns(rows, positive=self._positive)
        sketch = LogSketch.of(variance, columns, self._accuracy)
        return SpreadSketch(sketch, len(rows.y), rows.nan_result)

    def curve(self, state: SpreadSketch) -> VarianceCurve:
        """Return the curve."""
        sums = state.sketch.sums[state.sketch.sums[:, 0] > 0]
        spread = sums[:, 1] / sums[:, 0]  # mean variances: exact if a bin holds equal ones
        if self._spread == "std":
            spread = np.sqrt(spread)
        bins = check_bins(self._bins, state.n)
        binned = into_bins(Cells(spread, sums[:, :3], sums[:, 3]), bins, self._equal, self._limits)
        return conclude_variance(binned, state.n, self._equal, self._spread, self._kurtosis)

    def conclude(self, state: SpreadSketch) -> VarianceCurve | float:
        """Return the curve."""
        return self.curve(state)


class ENCE(ENCECurve):
    """Expected normalised calibration error; see `ENCECurve` and `fastmcmd.ence`."""

    def conclude(self, state: SpreadSketch) -> float:
        """Return the error."""
        return self.curve(state).ence


class UCE(ENCECurve):
    """Uncertainty calibration error; see `ENCECurve` and `fastmcmd.metrics.uce`."""

    _binning = "width"
    _by = "variance"
    _positive = False

    def conclude(self, state: SpreadSketch) -> float:
        """Return the error."""
        return self.curve(state).uce


class QCE(OfRows[SpreadSketch]):
    """Quantile calibration error in bins of predicted spread; see `fastmcmd.metrics.qce`.

    Parameters
    ----------
    levels, bins, binning, limits, kind, pit
        See `fastmcmd.metrics.qce`.
    accuracy : float
        See `ENCECurve`; here for standard deviations.
    random_state, nan_policy
        See `OfRows`.
    """

    def __init__(
        self,
        levels: ArrayLike | None = None,
        bins: int = 10,
        *,
        binning: str = "mass",
        limits: tuple[float, float] | None = None,
        kind: str = "interval",
        pit: str = "randomized",
        accuracy: float = 1e-3,
        random_state: RandomState = 0,
        nan_policy: NanPolicy = "raise",
    ) -> None:
        self._levels = np.sort(read_levels(levels, QCE_LEVELS))
        self._bins = check_count(bins, "bins")
        self._binning = check_choice(binning, "binning", BINNINGS)
        self._limits = check_limits(limits, binning)
        self._kind = check_choice(kind, "kind", KINDS)
        self._pit = check_choice(pit, "pit", PITS)
        self._accuracy = check_accuracy(accuracy)
        super().__init__(
            nan_policy,
            random_state,
            levels=self._levels.tolist(),
            bins=self._bins,
            binning=binning,
            limits=self._limits,
            kind=kind,
            pit=pit,
            accuracy=self._accuracy,
        )

    def gather_rows(self, rows: Outcomes) -> SpreadSketch:
        """Return weights by level in fine bins of standard deviation."""
        pit = pit_of_rows(rows.y, rows.prediction, self._pit, self._stream)
        level = smallest_level(pit, self._levels, self._kind)
        spread = finite_std(rows)
        keys, place = np.unique(sketch_keys(spread, self._accuracy), return_inverse=True)
        width = len(self._levels) + 1
        masses = np.bincount(place * width + level, rows.weights, len(keys) * width)
        masses = masses.reshape(-1, width).astype(np.float64)
        mass = masses.sum(axis=1, keepdims=True)
        total = np.bincount(place, spread if rows.weights is None else rows.weights * spread)
        sums = np.concatenate([mass, total[:, None], masses], axis=1)
        sketch = LogSketch(self._accuracy, keys, sums)
        return SpreadSketch(sketch, len(rows.y), rows.nan_result)

    def conclude(self, state: SpreadSketch) -> float:
        """Return the error."""
        bins = check_bins(self._bins, state.n)
        if state.nan_result:
            return float("nan")
        sums = state.sketch.sums[state.sketch.sums[:, 0] > 0]
        cells = Cells(sums[:, 1] / sums[:, 0], np.delete(sums, 1, axis=1), np.zeros(len(sums)))
        return conclude_qce(into_bins(cells, bins, self._binning, self._limits), self._levels)


class VarianceVariation(OfRows[SpreadSums]):
    """Coefficient of variation of standard deviations; see `fastmcmd.metrics.variance_variation`.

    Parameters
    ----------
    ddof : float
        Number subtracted from the sum of weights in the variance.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows that hold NaN.
    """

    def __init__(self, *, ddof: float = 1, nan_policy: NanPolicy = "raise") -> None:
        self._ddof = ddof
        super().__init__(nan_policy, ddof=ddof)

    def gather_rows(self, rows: Outcomes) -> SpreadSums:
        """Return sums of standard deviations."""
        return gather_spread(rows)

    def conclude(self, state: SpreadSums) -> float:
        """Return the coefficient."""
        return conclude_variation(state, self._ddof)
