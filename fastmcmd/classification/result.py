"""The result of a classification's evaluation: all numbers, with display names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastmcmd._base.tables import ByName, aligned, as_html, data_frame, did_you_mean
from fastmcmd.classification.accuracy import AccuracyAboveConfidence
from fastmcmd.classification.calibration import ReliabilityCurve
from fastmcmd.classification.confidence import UncertaintyHistogram
from fastmcmd.classification.decomposition import BrierDecomposition

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassificationEvaluation"]

_LOW, _HIGH, _ZERO = "lower is better", "higher is better", "0 is best"
# Section, display name and best values of each number.
_ROWS = {
    "accuracy": ("accuracy", "accuracy", _HIGH),
    "auroc": ("accuracy", "area under the ROC curve, mean over classes", _HIGH),
    "auroc_weighted": ("accuracy", "area under the ROC curve, by weight", _HIGH),
    "auroc_classes": ("accuracy", "classes with such an area", ""),
    "nll": ("scores", "negative log-likelihood, nats", _LOW),
    "impossible": ("scores", "outcomes of predicted probability 0", _LOW),
    "brier_score": ("scores", "Brier score", _LOW),
    "brier_uncertainty": ("scores", "  uncertainty of the outcomes", ""),
    "brier_resolution": ("scores", "  resolution", _HIGH),
    "brier_reliability": ("scores", "  reliability (miscalibration)", _LOW),
    "brier_within_variance": ("scores", "  variance within bins", ""),
    "brier_within_covariance": ("scores", "  covariance within bins", ""),
    "ranked_probability_score": ("scores", "ranked probability score", _LOW),
    "ece": ("calibration", "expected calibration error", _ZERO),
    "mce": ("calibration", "largest gap of a bin", _ZERO),
    "ece_mass": ("calibration", "expected calibration error, bins of equal weight", _ZERO),
    "classwise_ece": ("calibration", "classwise calibration error", _ZERO),
    "adaptive_ece": ("calibration", "classwise, bins of equal weight", _ZERO),
    "confidence": ("sharpness", "mean confidence", ""),
    "entropy": ("sharpness", "mean entropy, nats", ""),
    "ood_auroc_entropy": ("unfamiliar rows", "told apart by entropy (area)", _HIGH),
    "ood_auroc_confidence": ("unfamiliar rows", "told apart by confidence (area)", _HIGH),
}
_EVENTS = {"top": "the most probable class is right", "positive": "class 1 occurs"}


@dataclass(frozen=True, eq=False, repr=False)
class ClassificationEvaluation(ByName[float]):
    """All measures of a classification.

    Attributes
    ----------
    n, classes : int
        Numbers of evaluated rows and of classes.
    accuracy : float
        See `accuracy`.
    top_k_accuracy : float or None
        See `top_k_accuracy`; None if there are at most k classes.
    k : int
        The k of `top_k_accuracy`.
    nll : float
        Mean log score in nats; infinite if any label has probability 0.
    impossible : int
        Number of rows with positive weight whose label has probability 0.
    brier_score : float
        See `mean_brier_score`.
    brier_decomposition : BrierDecomposition
        Terms of the Brier score; see `brier_decomposition`.
    ranked_probability_score : float or None
        See `mean_ranked_probability_score`; None unless classes are ordered.
    ece, mce, ece_mass : float
        Calibration error with bins of equal width, its largest gap, and the error with bins of equal
        weight.
    classwise_ece, adaptive_ece : float
        Mean calibration error over classes, with bins of equal width and of equal weight.
    confidence, entropy : float
        Mean largest probability, and mean entropy in nats.
    auroc, auroc_weighted : float
        Mean area over classes, unweighted and weighted; for two classes, that of class 1. NaN if no class
        has an area.
    auroc_classes : int
        Number of classes with a defined area.
    reliability : ReliabilityCurve
        The curve behind ``ece``.
    above_confidence : AccuracyAboveConfidence
        Accuracy of the rows with confidence at least each threshold.
    of : str
        Event behind ``ece``, ``mce``, ``ece_mass`` and the curve: "top", that the most probable class is
        right, or "positive", that class 1 occurs.
    ood : dict
        With ``p_out``: for "entropy" and "confidence" the `ood_auroc` and the `UncertaintyHistogram`.
    """

    n: int
    classes: int
    accuracy: float
    top_k_accuracy: float | None
    k: int
    nll: float
    impossible: int
    brier_score: float
    brier_decomposition: BrierDecomposition
    ranked_probability_score: float | None
    ece: float
    mce: float
    ece_mass: float
    classwise_ece: float
    adaptive_ece: float
    confidence: float
    entropy: float
    auroc: float
    auroc_weighted: float
    auroc_classes: int
    reliability: ReliabilityCurve
    above_confidence: AccuracyAboveConfidence
    of: str
    ood: dict[str, tuple[float, UncertaintyHistogram]]

    def to_dict(self) -> dict[str, float]:
        """Return all computed numbers by name."""
        terms = self.brier_decomposition.to_dict()
        by_name: dict[str, float | None] = {
            "accuracy": self.accuracy,
            f"top_{self.k}_accuracy": self.top_k_accuracy,
            "nll": self.nll,
            "impossible": self.impossible,
            "brier_score": self.brier_score,
            **{f"brier_{name}": value for name, value in terms.items() if name != "score"},
            "ranked_probability_score": self.ranked_probability_score,
            "ece": self.ece,
            "mce": self.mce,
            "ece_mass": self.ece_mass,
            "classwise_ece": self.classwise_ece,
            "adaptive_ece": self.adaptive_ece,
            "confidence": self.confidence,
            "entropy": self.entropy,
            "auroc": self.auroc,
            "auroc_weighted": self.auroc_weighted,
            "auroc_classes": self.auroc_classes,
            **{f"ood_auroc_{name}": ood[0] for name, ood in self.ood.items()},
        }
        return {name: value for name, value in by_name.items() if value is not None}

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per number: section, label, value, best."""
        numbers = self.to_dict()
        rows = [(name, *self._row(name)) for name in numbers]
        columns = {
            "metric": [name for name, *_ in rows],
            "section": [section for _, section, _, _ in rows],
            "label": [label.strip() for _, _, label, _ in rows],
            "value": list(numbers.values()),
            "best": [best for *_, best in rows],
        }
        return data_frame(columns).set_index("metric")

    def __getitem__(self, name: str) -> float:
        """Return a number by name, such as ``evaluation["nll"]``."""
        numbers = self.to_dict()
        if name not in numbers:
            hint = did_you_mean(name, list(numbers))
            raise KeyError(f"no measure {name!r}; {hint}there are {', '.join(numbers)}")
        return numbers[name]

    def keys(self) -> tuple[str, ...]:
        """Return the names of all numbers."""
        return tuple(self.to_dict())

    def table(self) -> str:
        """Return the numbers as text, one per line, by section."""
        return aligned(self._lines(), left=(0, 2))

    def _row(self, name: str) -> tuple[str, str, str]:
        """Return section, label and best value of a number."""
        if name.startswith("top_"):
            return "accuracy", f"label among the {self.k} most probable classes", _HIGH
        return _ROWS[name]

    def _lines(self) -> list[list[str]]:
        numbers = self.to_dict()
        order = dict.fromkeys(section for section, _, _ in _ROWS.values())
        lines = [["", "value", ""]]
        for section in order:
            names = [name for name in numbers if self._row(name)[0] == section]
            lines += [[section, "", ""]] if names else []
            for name in names:
                _, label, best = self._row(name)
                lines.append([f"  {label}", f"{numbers[name]:.4g}", best])
        return lines

    @property
    def _title(self) -> str:
        return f"Classification of {self.n:,} rows, {self.classes} classes"

    @property
    def _event(self) -> str:
        return f"calibration error, largest gap: of the event that {_EVENTS[self.of]}"

    def _repr_html_(self) -> str:
        return as_html([self._title, self._event], self._lines())

    def __repr__(self) -> str:
        return f"{self._title}\n{self.table()}\n{self._event}"
