"""In words: on which side the spread of predictions is wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive import Categorical, Predictive

__all__ = ["has_outliers", "in_words"]

_OUTLYING = 1.2  # mean squared standardised error from which a few outcomes lie far away


def has_outliers(
    y: NDArray[np.float64], prediction: Predictive, weights: NDArray[np.float64] | None = None
) -> bool:
    """Return whether the mean squared standardised error of outcomes (n,) or (n, 1) is clearly above 1.

    If most outcomes also lie nearer to the predictions than these say, a few decide that mean.
    """
    if isinstance(prediction, Categorical) or y.size != len(prediction) or not y.size:
        return False
    with np.errstate(all="ignore"):
        errors = (y.reshape(-1) - prediction.mean) / prediction.std
        square = float(np.average(np.square(errors), weights=weights))
    return bool(np.isfinite(square) and square > _OUTLYING)


def in_words(
    direction: str,
    predictions: str,
    they: str = "they",
    *,
    of_classes: bool = False,
    outliers: bool = False,
    model: str = "they are",
) -> str:
    """Return a clause about predictions whose spread is "too wide" or "too narrow"; "" for neither.

    Parameters
    ----------
    direction : str
        "too wide", "too narrow" or "".
    predictions, they : str
        Words for the predictions: "outcomes lie closer to ``predictions`` than ``they`` say".
    of_classes : bool
        Whether the predictions are probabilities of classes.
    outliers : bool
        Whether a few outcomes lie far away although the predictions look too wide.
    model : str
        Subject and verb of a sentence about classes, such as "it is".
    """
    if direction not in ("too wide", "too narrow"):
        return ""
    wide = direction == "too wide"
    if of_classes:
        pronoun = "it" if model == "it is" else "they"
        sure = "less" if wide else "more"
        return f"{model} {sure} sure of the classes than {pronoun} should be"
    if wide and outliers:
        return f"most outcomes lie closer to {predictions} than {they} say, a few much further"
    side = "closer to" if wide else "further from"
    return f"outcomes lie {side} {predictions} than {they} say"
