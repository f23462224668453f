"""Recalibration: learn on held-out rows how predictions are wrong, and correct other predictions.

Each recalibrator has ``fit(prediction, y, x=None)`` and ``transform(prediction, x=None)``. To add one,
write a file in this folder and add three lines here: its import, its name, and its registration for `load`.
"""

from fastmcmd.recalibration.atoms import RecalibratedAtoms
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.conditional_rescaling import ConditionalRescaling
from fastmcmd.recalibration.conformal_intervals import ConformalIntervals
from fastmcmd.recalibration.isotonic_cdf import IsotonicCDF
from fastmcmd.recalibration.level_recalibrators import IntervalRecalibrator, QuantileRecalibrator
from fastmcmd.recalibration.monotone import MonotoneMap
from fastmcmd.recalibration.recalibrated import RecalibratedCDF
from fastmcmd.recalibration.rescaled import Rescaled
from fastmcmd.recalibration.spread import HistogramBinningStd, IsotonicStd, StdScaling
from fastmcmd.recalibration.std_ratio import StdRatio
from fastmcmd.recalibration.stored import load, register
from fastmcmd.recalibration.temperature_scaling import TemperatureScaling
from fastmcmd.recalibration.tilted import TiltedCDF, TiltedCounts
from fastmcmd.recalibration.witness_tilting import WitnessTilting

__all__ = [
    "ConditionalRescaling",
    "ConformalIntervals",
    "HistogramBinningStd",
    "IntervalRecalibrator",
    "IsotonicCDF",
    "IsotonicStd",
    "MonotoneMap",
    "QuantileRecalibrator",
    "RecalibratedAtoms",
    "RecalibratedCDF",
    "Recalibrator",
    "Rescaled",
    "StdRatio",
    "StdScaling",
    "TemperatureScaling",
    "TiltedCDF",
    "TiltedCounts",
    "WitnessTilting",
    "load",
]

for _kind in (
    ConditionalRescaling,
    ConformalIntervals,
    HistogramBinningStd,
    IntervalRecalibrator,
    IsotonicCDF,
    IsotonicStd,
    QuantileRecalibrator,
    StdRatio,
    StdScaling,
    TemperatureScaling,
    WitnessTilting,
):
    register(_kind)
