"""Measures of predicted probabilities of classes: ``fm.classification``.

Functions take labels and probabilities, ``(y, p)``. `evaluate` computes all measures in shared passes. If p
lies on a device (a CuPy array or a CUDA tensor of torch), `ece`, `mce` and `reliability_curve` compute
there; the other functions copy such arrays to the host.
"""

from fastmcmd.classification.accuracy import (
    AccuracyAboveConfidence,
    accuracy,
    accuracy_above_confidence,
    confusion_matrix,
    top_k_accuracy,
)
from fastmcmd.classification.calibration import (
    ReliabilityCurve,
    adaptive_ece,
    classwise_ece,
    ece,
    mce,
    reliability_curve,
)
from fastmcmd.classification.confidence import (
    UncertaintyHistogram,
    confidence,
    entropy,
    uncertainty_histogram,
)
from fastmcmd.classification.decomposition import BrierDecomposition, brier_decomposition
from fastmcmd.classification.evaluation import evaluate
from fastmcmd.classification.isotonic import isotonic_reliability
from fastmcmd.classification.murphy import murphy_curve, murphy_difference
from fastmcmd.classification.ranking import AreaEstimate, auroc, ood_auroc
from fastmcmd.classification.result import ClassificationEvaluation
from fastmcmd.classification.scores import (
    brier_score,
    log_score,
    mean_brier_score,
    mean_ranked_probability_score,
    nll,
    ranked_probability_score,
)

__all__ = [
    "AccuracyAboveConfidence",
    "AreaEstimate",
    "BrierDecomposition",
    "ClassificationEvaluation",
    "ReliabilityCurve",
    "UncertaintyHistogram",
    "accuracy",
    "accuracy_above_confidence",
    "adaptive_ece",
    "auroc",
    "brier_decomposition",
    "brier_score",
    "classwise_ece",
    "confidence",
    "confusion_matrix",
    "ece",
    "entropy",
    "evaluate",
    "isotonic_reliability",
    "log_score",
    "mce",
    "mean_brier_score",
    "mean_ranked_probability_score",
    "murphy_curve",
    "murphy_difference",
    "nll",
    "ood_auroc",
    "ranked_probability_score",
    "reliability_curve",
    "top_k_accuracy",
    "uncertainty_histogram",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
