"""The names of torchmetrics, computed by `fastmcmd.compat.torchmetrics`, for torchmetrics' own test files.

Its test files need the rest of torchmetrics. So only these names are replaced, in the modules that hold
them. Batches of any shape become rows, and scores outside [0, 1] are logits, as torchmetrics guesses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from fastmcmd.compat import torchmetrics as ours


def _probabilities(preds: Tensor, classes: bool) -> Tensor:
    half = preds.dtype == torch.half  # rows of probabilities sum to 1 to three digits
    preds = preds.detach().double()
    if ((preds >= 0) & (preds <= 1)).all():
        return preds / preds.sum(1, keepdim=True) if half and classes else preds
    return preds.softmax(1) if classes else preds.sigmoid()


class BinaryCalibrationError(ours.ClassificationECE):  # type: ignore[misc,valid-type,unused-ignore]
    """Metric with torchmetrics' name and arguments."""

    def __init__(
        self, n_bins: int = 15, norm: str = "l1", ignore_index: int | None = None,
        validate_args: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(bins=n_bins, norm=norm, ignore_index=ignore_index, **options)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch of any shape."""
        super().update(_probabilities(preds, False).flatten(), target.flatten())


class MulticlassCalibrationError(ours.ClassificationECE):  # type: ignore[misc,valid-type,unused-ignore]
    """Metric with torchmetrics' name and arguments."""

    def __init__(
        self, num_classes: int, n_bins: int = 15, norm: str = "l1",
        ignore_index: int | None = None, validate_args: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(bins=n_bins, norm=norm, ignore_index=ignore_index, **options)
        self.num_classes = num_classes

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch (N, C, ...)."""
        p = _probabilities(preds, True)
        super().update(p.movedim(1, -1).reshape(-1, self.num_classes), target.flatten())


class CalibrationError(Metric):
    """Class whose task argument selects the metric."""

    def __new__(cls, task: str, num_classes: int | None = None, **options: Any) -> Metric:  # type: ignore[misc]
        """Return the metric of a task."""
        if task == "binary":
            return BinaryCalibrationError(**options)
        if task == "multiclass":
            return MulticlassCalibrationError(num_classes, **options)
        raise ValueError(f"Invalid task {task!r}")


def _once(metric: Metric, preds: Tensor, target: Tensor) -> Tensor:
    metric.update(preds, target)
    return metric.compute().to(preds.dtype)


def binary_calibration_error(
    preds: Tensor, target: Tensor, n_bins: int = 15, norm: str = "l1",
    ignore_index: int | None = None, validate_args: bool = True,
) -> Tensor:  # fmt: skip
    """Return the calibration error of one batch."""
    return _once(BinaryCalibrationError(n_bins, norm, ignore_index), preds, target)


def multiclass_calibration_error(
    preds: Tensor, target: Tensor, num_classes: int, n_bins: int = 15, norm: str = "l1",
    ignore_index: int | None = None, validate_args: bool = True,
) -> Tensor:  # fmt: skip
    """Return the calibration error of one batch."""
    return _once(MulticlassCalibrationError(num_classes, n_bins, norm, ignore_index), preds, target)


class ContinuousRankedProbabilityScore(ours.CRPS):  # type: ignore[misc,valid-type,unused-ignore]
    """Metric with torchmetrics' name and messages."""

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch of draws (N, M)."""
        if preds.shape[0] != target.shape[0]:
            raise RuntimeError(
                "Predictions and targets are expected to have the same shape, but got "
                f"{preds.shape} and {target.shape}"
            )
        if preds.shape[1] < 2:
            raise ValueError(
                f"CRPS requires at least 2 ensemble members, but you provided {preds.shape}."
            )
        super().update(preds, target)


def continuous_ranked_probability_score(preds: Tensor, target: Tensor) -> Tensor:
    """Return the CRPS of one batch."""
    return _once(ContinuousRankedProbabilityScore(), preds, target)


REPLACED = {
    "torchmetrics.classification.calibration_error": (
        BinaryCalibrationError, MulticlassCalibrationError, CalibrationError,
    ),
    "torchmetrics.functional.classification.calibration_error": (
        binary_calibration_error, multiclass_calibration_error,
    ),
    "torchmetrics.regression.crps": (ContinuousRankedProbabilityScore,),
    "torchmetrics.functional.regression.crps": (continuous_ranked_probability_score,),
}  # fmt: skip
