"""Split-conformal intervals within groups."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import as_array
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.recalibration.base import Fitted, read_rows, to_predictive
from fastmcmd.recalibration.conformal_intervals import ConformalIntervals
from fastmcmd.recalibration.state import check_vector

__all__ = ["MondrianIntervals"]

Self = TypeVar("Self", bound="MondrianIntervals")


class MondrianIntervals(Fitted):
    """Intervals that hold new outcomes with probability at least ``level`` in each group of rows.

    Parameters
    ----------
    level : float, default 0.9
        Probability that an interval holds its outcome.
    score : {"absolute", "scaled", "cqr"}
        Score of a row; see `ConformalIntervals`.

    Attributes
    ----------
    groups_ : ndarray (g,)
        The groups of the calibration rows, increasing.
    starts_ : ndarray (g + 1,)
        Where the scores of each group begin, and their number.
    scores_, upto_ : ndarray (n,)
        Those of `ConformalIntervals`, group after group.

    Notes
    -----
    Mondrian conformal prediction (Vovk, Lindsay, Nouretdinov & Gammerman, *Mondrian Confidence Machine*,
    2003): conformal intervals whose calibration rows are those of the same group. The guarantee holds in
    each group whose rows are exchangeable. A group without calibration rows, or with fewer than ``level /
    (1 - level)``, has infinite intervals: nothing less is guaranteed.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.recalibration import MondrianIntervals
    >>> y, groups = [1.0, -2.0, 3.0, -4.0, 10.0, 20.0, 30.0, 40.0], np.repeat([0, 1], 4)
    >>> intervals = MondrianIntervals(0.8).fit((np.zeros(8), 1.0), y, groups)
    >>> intervals.interval((np.zeros(2), 1.0), [0, 1]).tolist()
    [[-4.0, 4.0], [-40.0, 40.0]]
    """

    groups_: Array
    starts_: Array
    scores_: Array
    upto_: Array

    def __init__(self, level: float = 0.9, score: str = "absolute") -> None:
        one = ConformalIntervals(level, score)
        self.level, self.score = one.level, one.score

    def check_state(self) -> None:
        """Raise ValueError unless groups and their scores are valid."""
        super().check_state()
        check_vector(self.groups_, "groups_")
        check_vector(self.starts_, "starts_", len(self.groups_) + 1)
        check_vector(self.scores_, "scores_", ascending=False)
        check_vector(self.upto_, "upto_", len(self.scores_), ascending=False)
        steps = np.diff(self.starts_)
        if (
            not len(self.groups_)
            or not (np.diff(self.groups_) > 0).all()
            or self.starts_[0] != 0
            or self.starts_[-1] != len(self.scores_)
            or not ((steps >= 1) & (steps % 1 == 0)).all()
        ):
            raise ValueError("starts_ are no beginnings of groups")
        for place in range(len(self.groups_)):
            self._of_group(place).check_state()

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: Self,
        prediction: PredictionLike,
        y: ArrayLike,
        groups: ArrayLike,
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
        groups : array_like (n,)
            Numbers of the groups, such as those of `numpy.digitize`.
        sample_weight : array_like (n,), optional
            Nonnegative weights; every group needs a positive one.

        Raises
        ------
        ValueError
            Invalid values, or predictions without the mean or std that the score needs.
        """
        rows = read_rows(prediction, y, sample_weight, nan_policy)
        row_groups = _groups(groups, rows.n)
        row_groups = row_groups if rows.valid is None else row_groups[rows.valid]
        self.groups_, place = np.unique(row_groups, return_inverse=True)
        parts = []
        for group in range(len(self.groups_)):
            some = np.flatnonzero(place == group)
            weights = None if rows.weights is None else rows.weights[some]
            one = ConformalIntervals(self.level, self.score)
            parts.append(one.fit(rows.prediction.take(some), rows.y[some], sample_weight=weights))
        self.starts_ = np.cumsum([0.0, *(len(one.scores_) for one in parts)])
        self.scores_ = np.concatenate([one.scores_ for one in parts])
        self.upto_ = np.concatenate([one.upto_ for one in parts])
        return self

    def interval(self, prediction: PredictionLike, groups: ArrayLike) -> Array:
        """Return the lower and upper ends (n, 2) of intervals for new rows.

        Parameters
        ----------
        prediction : Predictive or anything that converts to one
            Predicted distributions of new rows.
        groups : array_like (n,)
            Their groups.
        """
        self.check_fitted()
        predictive = to_predictive(prediction)
        row_groups = _groups(groups, len(predictive))
        out = np.empty((len(row_groups), 2))
        out[:] = -np.inf, np.inf
        for place, group in enumerate(self.groups_):
            some = np.flatnonzero(row_groups == group)
            if len(some):
                out[some] = self._of_group(place).interval(predictive.take(some))
        return out

    def _of_group(self, place: int) -> ConformalIntervals:
        one = ConformalIntervals(self.level, self.score)
        rows = slice(int(self.starts_[place]), int(self.starts_[place + 1]))
        one.scores_, one.upto_ = self.scores_[rows], self.upto_[rows]
        return one


def _groups(value: ArrayLike, n: int) -> Array:
    """Return checked numbers of groups (n,)."""
    groups = np.asarray(value)
    if groups.dtype.kind in "US" or any(isinstance(one, str) for one in groups.ravel()):
        raise TypeError(
            f"groups has dtype {groups.dtype}; numbers are needed, the same for calibration and "
            "prediction: with names = numpy.unique(groups), numpy.searchsorted(names, groups)"
        )
    groups = as_array(groups, "groups").astype(np.float64)
    if groups.shape != (n,):
        raise ValueError(
            f"groups has shape {groups.shape} and prediction has {n} rows; one number per row is needed"
        )
    if not np.isfinite(groups).all():
        raise ValueError("groups holds NaN or infinity; numbers of groups are needed")
    return groups
