"""Metrics of test sets that arrive in batches: ``update``, ``merge``, ``compute``."""

# A new metric is an `Accumulator` in the file of its family. It calls the gather and conclude functions
# of the same metric for whole data sets.

from fastmcmd.streaming.accuracy import (
    MAE,
    MARPD,
    R2,
    RMSE,
    Bias,
    MedianAbsoluteError,
    Pearson,
)
from fastmcmd.streaming.base import Accumulator
from fastmcmd.streaming.calibration import (
    Coverage,
    MeanAbsoluteCalibrationError,
    MeanIntervalWidth,
    MiscalibrationArea,
    PITHistogram,
    RegressionECE,
    Reliability,
    RMSCalibrationError,
    Sharpness,
)
from fastmcmd.streaming.classification import (
    Accuracy,
    BrierScore,
    ClassificationECE,
    ClassificationNLL,
    ClasswiseECE,
    TopKAccuracy,
)
from fastmcmd.streaming.classification_parts import (
    AUROC,
    AccuracyAboveConfidence,
    BrierDecomposition,
    ConfusionMatrix,
    RankedProbabilityScore,
    UncertaintyHistogram,
)
from fastmcmd.streaming.congruence import CCE
from fastmcmd.streaming.congruence_estimate import CongruenceEstimate
from fastmcmd.streaming.means import (
    CRPS,
    NLL,
    CheckScore,
    DawidSebastiani,
    EnergyScore,
    IntervalScore,
    MeanOf,
    VariogramScore,
    WeightedIntervalScore,
)
from fastmcmd.streaming.variance import ENCE, QCE, UCE, ENCECurve, VarianceVariation
from fastmcmd.streaming.window import SlidingWindow

__all__ = [
    "AUROC",
    "CCE",
    "CRPS",
    "ENCE",
    "MAE",
    "MARPD",
    "NLL",
    "QCE",
    "R2",
    "RMSE",
    "UCE",
    "Accumulator",
    "Accuracy",
    "AccuracyAboveConfidence",
    "Bias",
    "BrierDecomposition",
    "BrierScore",
    "CheckScore",
    "ClassificationECE",
    "ClassificationNLL",
    "ClasswiseECE",
    "ConfusionMatrix",
    "CongruenceEstimate",
    "Coverage",
    "DawidSebastiani",
    "ENCECurve",
    "EnergyScore",
    "IntervalScore",
    "MeanAbsoluteCalibrationError",
    "MeanIntervalWidth",
    "MeanOf",
    "MedianAbsoluteError",
    "MiscalibrationArea",
    "PITHistogram",
    "Pearson",
    "RMSCalibrationError",
    "RankedProbabilityScore",
    "RegressionECE",
    "Reliability",
    "Sharpness",
    "SlidingWindow",
    "TopKAccuracy",
    "UncertaintyHistogram",
    "VarianceVariation",
    "VariogramScore",
    "WeightedIntervalScore",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
