"""The direction of each metric of this package: which values are better."""

from __future__ import annotations

from collections.abc import Callable

from fastmcmd import classification, metrics

__all__ = ["best_values", "of_classes"]

# "low", "high", "zero" for metrics of either sign, None if no value is best in itself.
_REGRESSION: dict[str, str | None] = {
    "bias": "zero",
    "coverage": None,
    "mean_interval_width": None,
    "null_ence": None,
    "pearson": "high",
    "r2": "high",
    "sharpness": None,
    "variance_variation": None,
}
_CLASSIFICATION = {
    "accuracy": "high",
    "auroc": "high",
    "ood_auroc": "high",
    "top_k_accuracy": "high",
}


def of_classes(metric: Callable[..., object]) -> bool:
    """Return whether a metric is a function of `fastmcmd.classification`, with labels and probabilities."""
    return getattr(classification, getattr(metric, "__name__", ""), None) is metric


def best_values(metric: Callable[..., object]) -> str | None:
    """Return "low", "high", "zero", or None if no value is best in itself.

    Raises
    ------
    LookupError
        If the metric is not a function of this package.
    """
    name = getattr(metric, "__name__", "")
    if of_classes(metric):
        return _CLASSIFICATION.get(name, "low")
    if getattr(metrics, name, None) is metric:
        return _REGRESSION.get(name, "low")
    raise LookupError(f"{metric!r} is not a metric of fastmcmd.metrics or fastmcmd.classification")
