"""Which correction the predictions of a group of rows need: a shift, a factor of spread, or another shape.

A diagnosis fits shift and factor to the bulk of the outcomes. If only the shape of the predictions is
wrong, it still reports a "shift" of their middle and a "factor" of their bulk, although means and standard
deviations are right. This module therefore compares both with the moments of the group, which a reader can
check: "too high" refers to the mean error, "too wide" to the ratio of standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.inference.diagnosis import Diagnosis
from fastmcmd.predictive import Predictive

__all__ = ["Need", "Needs"]

Array = NDArray[np.float64]

_SOME = 0.1  # share of a group's bands on each side from which its shifts vary in direction
_MOST = 0.5  # share of a group's bands that must exclude "none" on one side for a claim about it
_QUANTILE = 2.576  # normal quantile of two-sided 99 % intervals of the moments
_FEWEST = 10.0  # effective rows below which the standard error of a moment is meaningless
_NOTHING = float("nan")


@dataclass(frozen=True)
class Need:
    """The correction that predictions of a group of rows need.

    Attributes
    ----------
    shift : float
        Shift in units of y or, for counts, of the logarithm of the mean; NaN if none is established.
    factor : float
        Factor of the spread; NaN if none is established.
    shape : bool
        Whether the misfit looks like a shift or a factor although mean and standard deviation are right.
    too_low, too_high : float
        Shares of inputs at which predictions are too low and too high, if most are one or the other and
        neither is rare: the mean of the model misses a structure. NaN otherwise.
    """

    shift: float = _NOTHING
    factor: float = _NOTHING
    shape: bool = False
    too_low: float = _NOTHING
    too_high: float = _NOTHING

    @property
    def varies(self) -> bool:
        """Whether predictions are too low at some inputs and too high at others."""
        return bool(np.isfinite(self.too_low))

    @property
    def empty(self) -> bool:
        """Whether nothing is established."""
        return not (
            np.isfinite(self.shift) or np.isfinite(self.factor) or self.shape or self.varies
        )

    def in_words(self, log_mean: bool) -> str:
        """Return in words what is wrong with predictions that need this correction, or ""."""
        parts = []
        side = "low" if self.shift > 0 else "high"
        if np.isfinite(self.shift) and log_mean:
            parts.append(f"its means are {np.exp(abs(self.shift)):.2g} times too {side}")
        elif np.isfinite(self.shift):
            parts.append(f"it predicts {abs(self.shift):.2g} too {side}")
        if self.varies:
            subject = "its means are" if log_mean else "it predicts"
            parts.append(
                f"{subject} too low at {self.too_low:.0%} of inputs and too high at {self.too_high:.0%}"
            )
        if np.isfinite(self.factor):
            wide = self.factor < 1
            times = 1 / self.factor if wide else self.factor
            parts.append(f"its spread is {times:.2g} times too {'wide' if wide else 'narrow'}")
        if self.shape:
            parts.append("its distributions have the wrong shape")
        return (", and " if self.varies else " and ").join(parts)


class Needs:
    """Corrections that groups of rows need, from a diagnosis at these rows and from their moments.

    Parameters
    ----------
    diagnosis : Diagnosis
        Diagnosis at all rows.
    y : ndarray (n,)
        Outcomes.
    prediction : Predictive
        Predictions of numbers.
    """

    def __init__(self, diagnosis: Diagnosis, y: Array, prediction: Predictive) -> None:
        self.diagnosis = diagnosis
        self.log_mean = diagnosis.scale == "log mean"
        self._y = y
        self._mean = np.asarray(prediction.mean, dtype=np.float64)
        self._std = np.asarray(prediction.std, dtype=np.float64)

    def of(self, rows: NDArray[np.bool_] | None = None) -> Need:
        """Return the correction that the rows (default: all) need as a group."""
        answered = self.diagnosis.supported & np.isfinite(self.diagnosis.shift)
        rows = answered if rows is None else answered & rows
        if not rows.any():
            return Need()
        diagnosis = self.diagnosis
        band = diagnosis.shift_band[rows]
        low, high = float(np.mean(band[:, 0] > 0)), float(np.mean(band[:, 1] < 0))
        log_factor, log_band = np.log(diagnosis.factor[rows]), np.log(diagnosis.factor_band[rows])
        shift, first = _established(
            _common(diagnosis.shift[rows], diagnosis.shift_band[rows]), self._shift(rows)
        )
        change, second = _established(_common(log_factor, log_band), self._log_factor(rows))
        shape = (first or second) and self._is_steady(rows)
        if min(low, high) > _SOME and low + high > _MOST:
            return Need(_NOTHING, float(np.exp(change)), False, low, high)
        return Need(shift, float(np.exp(change)), shape)

    def _is_steady(self, rows: NDArray[np.bool_]) -> bool:
        """Return whether shifts vary by less than the predicted spread.

        If they vary more, moments of the group say nothing about the shape at each of its inputs.
        """
        unit = self._mean[rows] if self.log_mean else np.ones(int(rows.sum()))
        return bool(np.std(unit * self.diagnosis.shift[rows]) <= np.median(self._std[rows]))

    def agrees(self, dispersion: str) -> bool:
        """Return whether the standard deviation of all standardised errors is on this side of 1.

        ``dispersion`` is "too wide", "too narrow" or "".
        """
        with np.errstate(all="ignore"):
            square = float(np.mean(np.square((self._y - self._mean) / self._std)))
        return square > 1 if dispersion == "too narrow" else square < 1

    def _shift(self, rows: NDArray[np.bool_]) -> tuple[float, float]:
        """Return the mean error of the rows (counts: the log ratio of means) and its standard error."""
        y, mean = self._y[rows], self._mean[rows]
        with np.errstate(all="ignore"):
            if not self.log_mean:
                gap = y - mean
                return float(gap.mean()), float(gap.std() / np.sqrt(len(gap)))
            ratio = y.sum() / mean.sum()
            error = np.sqrt(np.square(y - ratio * mean).sum()) / y.sum()
            return float(np.log(ratio)), float(error)

    def _log_factor(self, rows: NDArray[np.bool_]) -> tuple[float, float]:
        """Return the log of the standard deviation of standardised errors, and its standard error.

        Errors are those of predictions after the shift of the diagnosis at each input, so that a shift that
        varies within the group does not count as spread.
        """
        shift = self.diagnosis.shift[rows]
        with np.errstate(all="ignore"):
            if self.log_mean:
                gap = self._y[rows] - self._mean[rows] * np.exp(shift)
                scale = self._std[rows] * np.exp(shift / 2)
            else:
                gap, scale = self._y[rows] - self._mean[rows] - shift, self._std[rows]
            standard = gap / scale
            squares = np.square(standard - standard.mean())
            variance, effective = squares.mean(), squares.sum() ** 2 / np.square(squares).sum()
            error = squares.std() / np.sqrt(len(squares)) / (2 * variance)
            return float(0.5 * np.log(variance)), float(error if effective >= _FEWEST else _NOTHING)


def _common(values: Array, band: Array) -> float:
    """Return the median of the values if most bands exclude 0 on its side, else NaN."""
    middle = float(np.median(values))
    beyond = band[:, 0] > 0 if middle > 0 else band[:, 1] < 0
    return middle if beyond.mean() > _MOST else _NOTHING


def _established(diagnosed: float, moment: tuple[float, float]) -> tuple[float, bool]:
    """Return the correction that a diagnosis and a moment establish, or NaN, and whether they disagree.

    The moment decides if it is beyond chance and has the sign of the diagnosis. If it is compatible with
    the diagnosis but too noisy to be beyond chance, the diagnosis decides. Otherwise both disagree, and the
    distributions differ in shape. A moment of a few outliers has no usable error: then nothing is
    established if its sign is not that of the diagnosis.
    """
    value, error = moment
    if not (np.isfinite(diagnosed) and np.isfinite(value)):
        return diagnosed, False
    if not np.isfinite(error):
        return (diagnosed if (value > 0) == (diagnosed > 0) else _NOTHING), False
    reach = _QUANTILE * error
    if abs(value) > reach and (value > 0) == (diagnosed > 0):
        return value, False
    return (diagnosed, False) if abs(value - diagnosed) <= reach else (_NOTHING, True)
