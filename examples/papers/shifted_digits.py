"""Uncertainty of six classifiers when the images are rotated, moved, or shuffled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, verdict
from examples.papers.pictures import axes_of, save

_STORED = Path(__file__).parent / "predictions" / "digits.npz"
_TRAINED = ("vanilla", "ensemble", "dropout", "last-layer dropout", "variational")
_METHODS = (_TRAINED[0], "temperature", *_TRAINED[1:])
_ANGLES = (0, 15, 30, 45, 60, 90)
_LEAST = 2.0**-24  # least positive number of the stored half precision
_SHIFTED = ("rotated 15", "rotated 30", "moved 1", "moved 2")


def _normalised(rows: np.ndarray) -> np.ndarray:
    """Return probabilities whose sums half precision has rounded, with sums of one."""
    return rows / rows.sum(axis=1, keepdims=True)


class _Digits:
    """Stored probabilities by method and shift, and the labels."""

    def __init__(self) -> None:
        with np.load(_STORED, allow_pickle=False) as stored:
            self._stored = {name: stored[name] for name in stored.files}
        self.labels = self._stored["labels"]
        scaling = fm.recalibration.TemperatureScaling()
        self._scaling = scaling.fit(self._logits("calibration"), self._stored["calibration labels"])
        self.members = self._stored["members/rotated 15"].astype(np.float64)

    def _rows(self, method: str, shift: str) -> np.ndarray:
        return _normalised(self._stored[f"{method}/{shift}"].astype(np.float64))

    def _logits(self, shift: str) -> np.ndarray:
        return np.log(np.maximum(self._rows("vanilla", shift), _LEAST))

    def probabilities(self, method: str, shift: str) -> np.ndarray:
        """Return the probabilities (n, 10) of a method."""
        if method == "temperature":
            return self._scaling.transform(self._logits(shift))
        return self._rows(method, shift)

    def ece(self, method: str, shift: str) -> float:
        """Return the expected calibration error."""
        return fm.classification.ece(self.labels, self.probabilities(method, shift), bins=10)

    def brier(self, method: str, shift: str) -> float:
        """Return the mean Brier score."""
        return fm.classification.mean_brier_score(self.labels, self.probabilities(method, shift))

    def brier_of_ensembles(self, size: int) -> float:
        """Return the Brier score at 15 degrees, averaged over ensembles of neighbouring members."""
        ensembles = [
            np.roll(self.members, start, axis=0)[:size] for start in range(len(self.members))
        ]
        return float(
            np.mean(
                [
                    fm.classification.mean_brier_score(self.labels, _normalised(one.mean(axis=0)))
                    for one in ensembles
                ]
            )
        )

    def accuracy(self, method: str, shift: str) -> float:
        """Return the share of right labels."""
        return fm.classification.accuracy(self.labels, self.probabilities(method, shift))

    def entropy(self, method: str, shift: str) -> float:
        """Return the mean entropy in nats."""
        return float(fm.classification.entropy(self.probabilities(method, shift)).mean())


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims; the networks were trained once, whatever ``seeds`` is."""
    digits = _Digits()
    if picture is not None:
        _draw(picture, digits)

    def listed(values: dict[str, float]) -> str:
        return "; ".join(f"{name} {value:.3f}" for name, value in values.items())

    def over_shifts(measure: object) -> dict[str, float]:
        return {
            one: float(np.mean([measure(one, shift) for shift in _SHIFTED])) for one in _METHODS
        }

    plain = {one: digits.ece(one, "rotated 0") for one in _METHODS}
    shifted, brier = over_shifts(digits.ece), over_shifts(digits.brier)
    right = {one: digits.accuracy(one, "rotated 0") for one in _METHODS}
    accuracies = over_shifts(digits.accuracy)
    entropies = {one: digits.entropy(one, "rotated 0") for one in _METHODS}
    unknown = {one: digits.entropy(one, "shuffled") for one in _METHODS}
    best = min(brier, key=lambda name: brier[name])
    sizes = {size: digits.brier_of_ensembles(size) for size in (1, 5, 10)}
    return [
        Claim(
            "Accuracy and calibration fall with shift, for every method",
            f"accuracy: {listed(accuracies)}. ECE: {listed(shifted)}",
            f"without shift, accuracy: {listed(right)}. ECE: {listed(plain)}",
            verdict(*(accuracies[one] < right[one] and shifted[one] > plain[one] for one in _METHODS)),
        ),
        Claim(
            "Temperature scaling on data without shift is not enough under shift",
            f"ECE {shifted['temperature']:.3f} under shift", f"{plain['temperature']:.3f} without",
            verdict(shifted["temperature"] > 3 * plain["temperature"]),
        ),
        Claim(
            "Ensembles are best under shift", f"Brier score: {listed(brier)}; least: {best}", "",
            verdict(best == "ensemble"),
        ),
        Claim(
            "An ensemble of five has most of the gain of larger ones",
            "Brier score at 15 degrees: " + "; ".join(f"{k} {v:.3f}" for k, v in sizes.items()), "",
            verdict(sizes[1] - sizes[5] > 0.7 * (sizes[1] - sizes[10])),
        ),
        Claim(
            "Entropy is larger for images of no class (shuffled pixels)",
            listed(unknown), f"digits: {listed(entropies)}",
            verdict(*(unknown[one] > entropies[one] for one in _METHODS)),
        ),
    ]  # fmt: skip


def _draw(path: Path, digits: _Digits) -> None:
    figure, (left, middle, right) = axes_of(3)
    for method in _METHODS:
        shifts = [f"rotated {angle}" for angle in _ANGLES]
        left.plot(
            _ANGLES, [digits.accuracy(method, one) for one in shifts], marker="o", label=method
        )
        middle.plot(_ANGLES, [digits.ece(method, one) for one in shifts], marker="o", label=method)
        right.plot(_ANGLES, [digits.brier(method, one) for one in shifts], marker="o", label=method)
    for panel, name in ((left, "accuracy"), (middle, "ECE"), (right, "Brier score")):
        panel.set(xlabel="rotation in degrees", ylabel=name)
    save(figure, path)


EXPERIMENT = Experiment(
    "shifted_digits", "Classifiers under shift: six ways to be unsure",
    "Ovadia et al., *Can You Trust Your Model's Uncertainty?* (arXiv 1906.02530), sections 4.1 to 4.4, "
    "on scikit-learn's digits instead of MNIST", run, seeds=1,
)  # fmt: skip
