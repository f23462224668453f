"""Recalibration: learn from held-out rows how predictions are wrong, and correct other predictions.

Each recalibrator has ``fit(prediction, y, x=None)`` and ``transform(prediction, x=None)``.
"""

# To add a recalibrator, write a file in this folder and add three lines here: its import, its name, and its
# registration for `load`.

from fastmcmd.recalibration.atoms import RecalibratedAtoms
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.bayesian_binning import BayesianBinning
from fastmcmd.recalibration.beta_calibration import BetaCalibration
from fastmcmd.recalibration.conditional_rescaling import ConditionalRescaling
from fastmcmd.recalibration.conformal_intervals import ConformalIntervals
from fastmcmd.recalibration.isotonic_cdf import IsotonicCDF
from fastmcmd.recalibration.level_recalibrators import IntervalRecalibrator, QuantileRecalibrator
from fastmcmd.recalibration.mondrian_intervals import MondrianIntervals
from fastmcmd.recalibration.monotone import MonotoneMap
from fastmcmd.recalibration.near_isotonic_ensemble import NearIsotonicEnsemble
from fastmcmd.recalibration.platt_scaling import PlattScaling, VectorScaling
from fastmcmd.recalibration.recalibrated import RecalibratedCDF
from fastmcmd.recalibration.rescaled import Rescaled
from fastmcmd.recalibration.spread import HistogramBinningStd, IsotonicStd, StdScaling
from fastmcmd.recalibration.std_ratio import StdRatio
from fastmcmd.recalibration.stored import load, register
from fastmcmd.recalibration.temperature_scaling import TemperatureScaling
from fastmcmd.recalibration.tilted import TiltedCDF, TiltedCounts
from fastmcmd.recalibration.venn_abers import VennAbers
from fastmcmd.recalibration.witness_tilting import WitnessTilting

__all__ = [
    "BayesianBinning",
    "BetaCalibration",
    "ConditionalRescaling",
    "ConformalIntervals",
    "HistogramBinningStd",
    "IntervalRecalibrator",
    "IsotonicCDF",
    "IsotonicStd",
    "MondrianIntervals",
    "MonotoneMap",
    "NearIsotonicEnsemble",
    "PlattScaling",
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
    "VectorScaling",
    "VennAbers",
    "WitnessTilting",
    "load",
]

for _kind in (
    BayesianBinning,
    BetaCalibration,
    ConditionalRescaling,
    ConformalIntervals,
    HistogramBinningStd,
    IntervalRecalibrator,
    IsotonicCDF,
    IsotonicStd,
    MondrianIntervals,
    NearIsotonicEnsemble,
    PlattScaling,
    QuantileRecalibrator,
    StdRatio,
    StdScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
    WitnessTilting,
):
    register(_kind)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
