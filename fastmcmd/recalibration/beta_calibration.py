"""Beta calibration of predicted probabilities."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Fitted
from fastmcmd.recalibration.labelled import check_finite, read_labelled, scores_of
from fastmcmd.recalibration.logistic import fit_logistic
from fastmcmd.recalibration.platt_scaling import in_given_shape
from fastmcmd.recalibration.state import check_real

__all__ = ["BetaCalibration", "binary_probabilities"]

Self = TypeVar("Self", bound="BetaCalibration")

_LEAST = 1e-12  # probabilities are moved this far from 0 and 1, whose logarithms are infinite


def binary_probabilities(p: Array, method: str) -> Array:
    """Return probabilities (n,) of class 1, from (n,) or (n, 2)."""
    check_finite(p, "p")
    p = p.astype(np.float64)
    if p.ndim == 2 and p.shape[1] != 2:
        raise ValueError(
            f"p has shape {p.shape}; (n,) or (n, 2) is needed: {method} is for two classes"
        )
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p holds values from {p.min():g} to {p.max():g}; all must be in [0, 1]")
    return np.asarray(p if p.ndim == 1 else p[:, 1] / p.sum(axis=1))


class BetaCalibration(Fitted):
    """Maps probabilities p of two classes to ``1 / (1 + exp(-c) (1 - p)^b / p^a)``.

    Attributes
    ----------
    slopes_ : ndarray (2,)
        a and b, nonnegative.
    intercept_ : float
        c. With a = b = 1 and c = 0 the map is the identity.

    Notes
    -----
    Kull, Silva Filho & Flach, *Beta calibration: a well-founded and easily implemented improvement on
    logistic calibration for binary classifiers* (AISTATS 2017): logistic regression on ``log p`` and
    ``-log(1 - p)``. A negative slope is set to 0 and the rest is fitted again, as in the authors' betacal
    ("abm"), so the map is nondecreasing. Platt scaling of logits has a = b; beta calibration can also mend
    probabilities that are too moderate, or too extreme, at one end only.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.recalibration import BetaCalibration
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> y = rng.uniform(size=4000) < p
    >>> beta = BetaCalibration().fit(np.sqrt(p), y)
    >>> bool((np.abs(beta.transform(np.sqrt(p)) - p) < 0.05).all())
    True
    """

    slopes_: Array
    intercept_: float

    def __init__(self) -> None:
        pass

    def check_state(self) -> None:
        """Raise ValueError unless slopes and intercept are valid."""
        super().check_state()
        slopes = self.slopes_
        if (
            not isinstance(slopes, np.ndarray)
            or slopes.dtype != np.float64
            or slopes.shape != (2,)
            or not (np.isfinite(slopes) & (slopes >= 0)).all()
        ):
            raise ValueError("slopes_ is no pair of nonnegative float64")
        check_real(self.intercept_, "intercept_")

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: Self,
        p: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> Self:
        """Find slopes and intercept and return this object.

        Parameters
        ----------
        p : array_like (n,) or (n, 2)
            Predicted probabilities of class 1, or of both classes.
        y : array_like (n,)
            Labels 0 and 1, or names of the classes.

        Raises
        ------
        ValueError
            Invalid values, or probabilities that separate the classes.
        """
        probabilities, labels, weights = read_labelled(p, y, sample_weight, nan_policy, "p")
        features = _features(binary_probabilities(probabilities, type(self).__name__))
        targets = labels.astype(np.float64)
        slopes, active = np.zeros(2), [0, 1]
        while True:
            columns = np.concatenate([features[:, active], np.ones((len(features), 1))], axis=1)
            coefficients = fit_logistic(columns, targets, weights)
            if coefficients is None:
                raise ValueError(
                    "p separates the labels in y, so no finite slopes are best; rows that the model was "
                    "not trained on, and more of them, are needed"
                )
            active_slopes = coefficients[:-1]
            if not (active_slopes < 0).any():
                break
            active.pop(int(np.argmin(active_slopes)))
        slopes[active] = active_slopes
        self.slopes_, self.intercept_ = slopes, float(coefficients[-1])
        return self

    def transform(self, p: ArrayLike) -> Array:
        """Return probabilities (n, 2) of (n, 2), or of class 1 (n,) of (n,)."""
        self.check_fitted()
        probabilities = scores_of(p, "p")
        features = _features(binary_probabilities(probabilities, type(self).__name__))
        shares = scipy.special.expit(features @ self.slopes_ + self.intercept_)
        return in_given_shape(shares, probabilities)


def _features(p: Array) -> Array:
    p = np.clip(p, _LEAST, 1 - _LEAST)
    return np.stack([np.log(p), -np.log1p(-p)], axis=1)
