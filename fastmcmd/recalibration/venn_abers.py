"""Venn-Abers calibration: a pair of probabilities that holds a calibrated one."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Fitted
from fastmcmd.recalibration.labelled import check_finite, read_labelled, scores_of
from fastmcmd.recalibration.platt_scaling import in_given_shape
from fastmcmd.recalibration.state import check_vector

__all__ = ["VennAbers"]

Self = TypeVar("Self", bound="VennAbers")


class VennAbers(Fitted):
    """Maps scores of two classes to pairs of probabilities by isotonic regression with the new row added.

    Attributes
    ----------
    scores_ : ndarray (k,)
        Distinct scores of the calibration rows, increasing.
    low_, high_ : ndarray (k,)
        The isotonic fit at each score after a further row with this score and label 0, or 1, is added.

    Notes
    -----
    The inductive Venn-Abers predictor of Vovk, Petej & Fedorova, *Large-scale probabilistic predictors with
    and without guarantees of validity* (NeurIPS 2015), by their algorithms 1 to 4 in O(n log n). If
    calibration and new rows are exchangeable, one of the two probabilities, that of the label that the row
    will have, is perfectly calibrated, at any sample size and for any score. Their distance is of order
    ``n^(-1/3)``: a wide pair says that there are too few rows like this one. `transform` merges the pair
    for the log score: ``p1 / (1 - p0 + p1)`` (their equation 6).

    Examples
    --------
    >>> from fastmcmd.recalibration import VennAbers
    >>> pairs = VennAbers().fit([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1])
    >>> pairs.interval([0.15, 0.7]).round(4).tolist()
    [[0.0, 0.5], [0.5, 1.0]]
    """

    scores_: Array
    low_: Array
    high_: Array

    def __init__(self) -> None:
        pass

    def check_state(self) -> None:
        """Raise ValueError unless scores and probabilities are valid."""
        super().check_state()
        check_vector(self.scores_, "scores_")
        for name in ("low_", "high_"):
            check_vector(getattr(self, name), name, len(self.scores_))
        inside = (self.low_ >= 0) & (self.low_ <= self.high_) & (self.high_ <= 1)
        if not len(self.scores_) or not inside.all():
            raise ValueError("low_ and high_ are no pairs of probabilities")

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: Self, scores: ArrayLike, y: ArrayLike, *, nan_policy: NanPolicy = "raise"
    ) -> Self:
        """Compute the two isotonic fits and return this object.

        Parameters
        ----------
        scores : array_like (n,) or (n, 2)
            Scores of class 1: logits, probabilities, or any number that grows with them; or of both
            classes, whose difference counts.
        y : array_like (n,)
            Labels 0 and 1, or names of the classes.

        Raises
        ------
        ValueError
            Invalid values.
        """
        values, labels, _ = read_labelled(scores, y, None, nan_policy, "scores")
        self.scores_, place, count = np.unique(
            _margin(values), return_inverse=True, return_counts=True
        )
        ones = np.bincount(place, labels, minlength=len(count)).astype(np.float64)
        weights = count.astype(np.float64)
        self.high_ = _with_one_added(weights, ones)
        self.low_ = 1 - _with_one_added(weights[::-1], (weights - ones)[::-1])[::-1]
        return self

    def interval(self, scores: ArrayLike) -> Array:
        """Return the pairs of probabilities of class 1 (n, 2), if the label were 0, and if it were 1."""
        return self._pairs(self._checked_scores(scores))

    def _checked_scores(self, scores: ArrayLike) -> Array:
        """Return new scores (n,) or (n, 2)."""
        self.check_fitted()
        values = scores_of(scores, "scores")
        check_finite(values, "scores")
        return values

    def _pairs(self, scores: Array) -> Array:
        at = _margin(scores)
        low = np.concatenate([[0.0], self.low_])[np.searchsorted(self.scores_, at, side="right")]
        high = np.append(self.high_, 1.0)[np.searchsorted(self.scores_, at, side="left")]
        return np.stack([low, high], axis=1)

    def transform(self, scores: ArrayLike) -> Array:
        """Return merged probabilities (n, 2) of scores (n, 2), or of class 1 (n,) of scores (n,)."""
        values = self._checked_scores(scores)
        pairs = self._pairs(values)
        merged = pairs[:, 1] / (1 - pairs[:, 0] + pairs[:, 1])
        return in_given_shape(merged, values)


def _margin(scores: Array) -> Array:
    scores = scores.astype(np.float64)
    if scores.ndim == 1:
        return scores
    if scores.shape[1] != 2:
        raise ValueError(
            f"scores has shape {scores.shape}; (n,) or (n, 2) is needed: VennAbers is for two classes"
        )
    return np.asarray(scores[:, 1] - scores[:, 0])


def _with_one_added(weights: Array, ones: Array) -> Array:
    """Return the isotonic fit at each of k scores after a row of label 1 has been added there (k,).

    Algorithms 1 and 2 of Vovk, Petej & Fedorova 2015: the slopes of the greatest convex minorant of the
    cumulative sums, whose corners move with the place of the added row.
    """
    x = [-1.0, 0.0, *np.cumsum(weights).tolist()]
    y = [-1.0, 0.0, *np.cumsum(ones).tolist()]
    points = list(zip(x, y, strict=True))

    def turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
        """Whether the path from a over b to c does not turn left."""
        return (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0]) <= 0

    corners = points[:2]
    for point in points[2:]:
        while len(corners) > 1 and turns_right(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    corners.reverse()  # the first corner is the last of the list
    out = np.empty(len(weights))
    for i in range(len(weights)):
        first, second = corners[-1], corners[-2]
        out[i] = (second[1] - first[1]) / (second[0] - first[0])
        before, middle, after = points[i], points[i + 1], points[i + 2]
        reflected = (before[0] + after[0] - middle[0], before[1] + after[1] - middle[1])
        points[i + 1] = reflected
        if (second[0] - first[0]) * (reflected[1] - first[1]) >= (second[1] - first[1]) * (
            reflected[0] - first[0]
        ):
            continue  # at or above the first edge
        corners.pop()
        while len(corners) > 1 and turns_right(reflected, corners[-1], corners[-2]):
            corners.pop()
        corners.append(reflected)
    return out
