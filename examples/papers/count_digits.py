"""Handwritten digits as a count: the figures of the CCE paper that need images, with small networks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import fastmcmd as fm
from examples.papers.heads import parameters, prediction
from examples.papers.stored import arrays_of, stacks_of

__all__ = ["HEADS", "MAPS", "TRIALS", "model", "rows_of", "split", "standardised"]

HEADS = ("gaussian", "poisson", "negative binomial", "double poisson", "beta-NLL")
TRIALS = 5  # networks of each head, each with rows of its own
MAPS = 3  # trials whose test images are laid out on a map
TEST, SECOND = 400, 400  # rows; the rest trains


@lru_cache(maxsize=1)
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels / 16, labels.astype(np.float64)


def split(trial: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row numbers of a trial for training, for a second sample, and for the test."""
    order = np.random.default_rng(trial).permutation(len(_digits()[0]))
    return order[TEST + SECOND :], order[TEST : TEST + SECOND], order[:TEST]


def rows_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels (n, 64) in [0, 1] and the digits of rows."""
    pixels, labels = _digits()
    return pixels[numbers], labels[numbers]


def standardised(pixels: np.ndarray) -> np.ndarray:
    """Return pixels as the networks take them: centred, and divided by one standard deviation for all."""
    return (pixels - 0.3) / 0.38


def model(head: str, trial: int, pixels: np.ndarray) -> fm.Predictive:
    """Return what the network of a trial predicts for pixels (n, 64)."""
    out = stacks_of("count_digits")[head](trial, standardised(pixels))
    centre, scale = arrays_of("count_digits")["moments"].astype(np.float64)
    return prediction(head, *parameters(head, out, centre, scale))
