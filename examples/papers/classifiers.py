"""Six ways to be unsure about a class, from stored networks: those of the dataset-shift paper."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax

import fastmcmd as fm
from examples.papers.stored import StoredStack, stacks_of

__all__ = ["DROP", "MEMBERS", "METHODS", "PASSES", "TRAINED", "Classifiers", "members_of"]

TRAINED = ("vanilla", "dropout", "last-layer dropout", "variational")
METHODS = (
    "vanilla", "temperature", "ensemble", "dropout", "last-layer dropout", "variational",
)  # fmt: skip
MEMBERS, PASSES = 10, 30  # of the ensemble; of the random networks
DROP = {"dropout": {1: 0.2, 2: 0.2}, "last-layer dropout": {2: 0.2}}  # by layer


def members_of(kind: str) -> int:
    """Return how many networks of a kind are trained for each trial."""
    return MEMBERS if kind == "vanilla" else 1


class Classifiers:
    """The stored networks of an experiment, for one trial.

    Parameters
    ----------
    name : str
        Name of the file.
    trial : int
        Number of the trial.
    calibration : tuple of ndarray
        Inputs and labels that the temperature is fitted on.
    """

    def __init__(self, name: str, trial: int, calibration: tuple[np.ndarray, np.ndarray]) -> None:
        self._stacks: dict[str, StoredStack] = stacks_of(name)
        self._trial = trial
        self._scaling = fm.recalibration.TemperatureScaling().fit(
            self._logits(calibration[0]), calibration[1]
        )

    def probabilities(self, method: str, x: np.ndarray, count: int | None = None) -> np.ndarray:
        """Return the probabilities (n, C) of a method, averaged over members or passes.

        ``count`` is their number if it is not `MEMBERS` or `PASSES`.
        """
        if method == "temperature":
            return self._scaling.transform(self._logits(x))
        if method in ("vanilla", "ensemble"):
            members = count or (MEMBERS if method == "ensemble" else 1)
            return np.mean([self.member(one, x) for one in range(members)], axis=0)
        rng = np.random.default_rng(self._trial)
        stack, drop = self._stacks[method], DROP.get(method)
        runs = [softmax(stack(self._trial, x, drop, rng), axis=1) for _ in range(count or PASSES)]
        return np.mean(runs, axis=0)

    def member(self, number: int, x: np.ndarray) -> np.ndarray:
        """Return the probabilities (n, C) of one vanilla network of the trial."""
        return softmax(self._stacks["vanilla"](self._trial * MEMBERS + number, x), axis=1)

    def _logits(self, x: np.ndarray) -> np.ndarray:
        return log_softmax(self._stacks["vanilla"](self._trial * MEMBERS, x), axis=1)
