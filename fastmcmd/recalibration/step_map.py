"""Maps of probabilities of two classes that are step functions."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Fitted
from fastmcmd.recalibration.beta_calibration import binary_probabilities
from fastmcmd.recalibration.labelled import read_labelled, scores_of
from fastmcmd.recalibration.platt_scaling import in_given_shape
from fastmcmd.recalibration.state import check_vector

__all__ = ["StepMap"]

Self = TypeVar("Self", bound="StepMap")


class StepMap(Fitted):
    """A step function of the probability of class 1. A subclass sets it in ``_learn``.

    Attributes
    ----------
    edges_ : ndarray (k,)
        Places in [0, 1] at which the map jumps, increasing. A probability at an edge belongs below it.
    shares_ : ndarray (k + 1,)
        Its values between them.
    """

    edges_: Array
    shares_: Array

    def __init__(self) -> None:
        pass

    def check_state(self) -> None:
        """Raise ValueError unless edges and shares are valid."""
        super().check_state()
        check_vector(self.edges_, "edges_")
        check_vector(self.shares_, "shares_", len(self.edges_) + 1, ascending=False)
        if not ((self.shares_ >= 0) & (self.shares_ <= 1)).all():
            raise ValueError("shares_ are no probabilities")

    def _learn(self, values: Array, labels: NDArray[np.intp]) -> None:
        """Set the map from probabilities of class 1 (n,) and labels (n,), 0 or 1."""
        raise NotImplementedError

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(self: Self, p: ArrayLike, y: ArrayLike, *, nan_policy: NanPolicy = "raise") -> Self:
        """Average the models and return this object.

        Parameters
        ----------
        p : array_like (n,) or (n, 2)
            Predicted probabilities of class 1, or of both classes.
        y : array_like (n,)
            Labels 0 and 1, or names of the classes.

        Raises
        ------
        ValueError
            Invalid values.
        """
        probabilities, labels, _ = read_labelled(p, y, None, nan_policy, "p")
        self._learn(binary_probabilities(probabilities, type(self).__name__), labels)
        return self

    def transform(self, p: ArrayLike) -> Array:
        """Return probabilities (n, 2) of (n, 2), or of class 1 (n,) of (n,)."""
        self.check_fitted()
        probabilities = scores_of(p, "p")
        values = binary_probabilities(probabilities, type(self).__name__)
        shares = self.shares_[np.searchsorted(self.edges_, values, side="left")]
        return in_given_shape(shares, probabilities)
