"""Split-conformal intervals."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_weights, check_choice
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.recalibration.base import Fitted, read_rows, to_predictive
from fastmcmd.recalibration.bins import positive_std
from fastmcmd.recalibration.state import check_vector

__all__ = ["ConformalIntervals"]

Self = TypeVar("Self", bound="ConformalIntervals")

_SCORES = ("absolute", "scaled", "cqr")
_ROUNDING = 1e-12  # relative rounding of (n + 1) level: a level such as 0.07 must not cost a row


class ConformalIntervals(Fitted):
    """Intervals that hold new outcomes with probability at least ``level``, however poor the model is.

    Parameters
    ----------
    level : float, default 0.9
        Probability, over calibration and new rows, that an interval holds its outcome.
    score : {"absolute", "scaled", "cqr"}
        Score of a row: ``|y - mean|``; ``|y - mean| / std``; or the distance of y from the predicted
        central interval of probability ``level`` (negative inside).

    Attributes
    ----------
    scores_ : ndarray (n,)
        Scores of the calibration rows, in increasing order.
    upto_ : ndarray (n,)
        Cumulative sums of their weights.

    Notes
    -----
    With n exchangeable calibration rows the k-th smallest score, ``k = ceil((n + 1) level)``, bounds a new
    score with probability at least ``level``, and at most ``level + 1 / (n + 1)`` if scores do not tie
    (Vovk, Gammerman & Shafer 2005; Lei, G'Sell, Rinaldo, Tibshirani & Wasserman, *Distribution-Free
    Predictive Inference for Regression*, 2018, theorem 2.2, for "absolute", and section 5.2 for "scaled";
    Romano, Patterson & Candes, *Conformalized Quantile Regression*, 2019, for "cqr"). Fewer than ``level /
    (1 - level)`` rows cannot guarantee ``level``; the intervals are then infinite.

    With weights, the weight of a new row replaces the 1 in n + 1. Its threshold is the smallest score whose
    cumulative weight reaches ``level (sum w_i + w_new)`` (Tibshirani, Barber, Candes & Ramdas, *Conformal
    Prediction Under Covariate Shift*, 2019, corollary 1). The guarantee is for the average over inputs, not
    for each input. If "cqr" narrows an interval to less than nothing, both ends are its midpoint.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.recalibration import ConformalIntervals
    >>> intervals = ConformalIntervals(0.8).fit((np.zeros(4), 1.0), [1.0, -2.0, 3.0, -4.0])
    >>> intervals.interval((np.array([10.0]), 1.0)).tolist()
    [[6.0, 14.0]]
    """

    scores_: Array
    upto_: Array

    def __init__(self, level: float = 0.9, score: str = "absolute") -> None:
        if isinstance(level, bool) or not isinstance(level, int | float | np.number):
            raise TypeError(f"level is {level!r}; a number between 0 and 1 is needed")
        if not 0 < level < 1:
            raise ValueError(f"level is {level!r}; a number between 0 and 1 is needed")
        self.level = float(level)
        self.score = check_choice(score, "score", _SCORES)

    def check_state(self) -> None:
        """Raise ValueError unless scores and the sums of their weights are valid."""
        super().check_state()
        check_vector(self.scores_, "scores_")
        check_vector(self.upto_, "upto_", len(self.scores_))
        if not (len(self.upto_) and self.upto_[0] >= 0 and self.upto_[-1] > 0):
            raise ValueError("upto_ is no sum of weights")

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: Self,
        prediction: PredictionLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> Self:
        """Compute the scores of rows that the model was not trained on.

        Parameters
        ----------
        prediction : Predictive or anything that converts to one
            Predicted distributions of numbers.
        y : array_like (n,)
            Observed outputs.
        sample_weight : array_like (n,), optional
            Nonnegative weights, such as density ratios of new to calibration inputs.

        Raises
        ------
        ValueError
            Invalid values, or predictions without the mean or std that the score needs.
        """
        rows = read_rows(prediction, y, sample_weight, nan_policy)
        low, high, unit = self._base(rows.prediction)
        scores = np.maximum(low - rows.y, rows.y - high) / unit
        order = np.argsort(scores, kind="stable")
        self.scores_ = scores[order]
        weights = np.ones(len(order)) if rows.weights is None else rows.weights[order]
        self.upto_ = np.cumsum(weights)
        return self

    def interval(
        self, prediction: PredictionLike, *, sample_weight: ArrayLike | None = None
    ) -> Array:
        """Return the lower and upper ends (n, 2) of intervals for new rows.

        Parameters
        ----------
        prediction : Predictive or anything that converts to one
            Predicted distributions of new rows.
        sample_weight : array_like (n,), optional
            Weights of the new rows, on the same scale as those of `fit`. Default: 1.
        """
        self.check_fitted()
        predictive = to_predictive(prediction)
        low, high, unit = self._base(predictive)
        weights = as_weights(sample_weight, "sample_weight", len(predictive))
        reach = self._threshold(np.ones(1) if weights is None else weights) * unit
        out = np.stack(np.broadcast_arrays(low - reach, high + reach), axis=1)
        crossed = out[:, 0] > out[:, 1]
        out[crossed] = out[crossed].mean(axis=1, keepdims=True)
        return out

    def _threshold(self, weights: Array) -> Array:
        """Return the largest allowed score (n,), infinite if there are too few calibration rows."""
        target = self.level * (self.upto_[-1] + weights) * (1 - _ROUNDING)
        place = np.searchsorted(self.upto_, target, side="left")
        return np.append(self.scores_, np.inf)[place]

    def _base(self, prediction: Predictive) -> tuple[Array, Array, Array]:
        """Return the ends (n,) of the intervals before widening, and the unit of widening."""
        if self.score == "cqr":
            ends = prediction.quantile(np.array([(1 - self.level) / 2, (1 + self.level) / 2]))
            low, high = ends[:, 0], ends[:, 1]
        else:
            low = high = np.asarray(prediction.mean)
        if not (np.isfinite(low) & np.isfinite(high)).all():
            raise ValueError(
                f"prediction has means or quantiles that are not finite, which score={self.score!r} needs"
            )
        unit = positive_std(prediction) if self.score == "scaled" else np.ones(1)
        return low, high, unit
