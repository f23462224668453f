"""Logistic maps of scores: Platt scaling for two classes, vector scaling for several."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import NanPolicy
from fastmcmd._base.checks import check_flag
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Fitted
from fastmcmd.recalibration.labelled import check_finite, read_labelled, scores_of
from fastmcmd.recalibration.logistic import fit_logistic
from fastmcmd.recalibration.state import check_real, check_vector

__all__ = ["PlattScaling", "VectorScaling", "in_given_shape"]

AnyPlatt = TypeVar("AnyPlatt", bound="PlattScaling")
AnyVector = TypeVar("AnyVector", bound="VectorScaling")

_MOST_STEPS = 2000
_FLAT = 1e-6  # gradient of the mean loss, of standardised logits, at which the search may end


def _margin(scores: Array) -> Array:
    """Return scores (n,) of class 1 against class 0, from (n,) or (n, 2)."""
    scores = scores.astype(np.float64)
    if scores.ndim == 1:
        return scores
    if scores.shape[1] != 2:
        raise ValueError(
            f"logits has shape {scores.shape}; (n,) or (n, 2) is needed: PlattScaling is for two classes; "
            "VectorScaling is for more"
        )
    return np.asarray(scores[:, 1] - scores[:, 0])


def in_given_shape(p: Array, scores: Array) -> Array:
    """Return probabilities of class 1 as (n,), or as (n, 2) if scores have two columns."""
    return p if scores.ndim == 1 else np.stack([1 - p, p], axis=1)


class PlattScaling(Fitted):
    """Maps scores s of two classes to probabilities ``1 / (1 + exp(-(a s + b)))`` (logistic calibration).

    Parameters
    ----------
    smooth : bool, default True
        Whether labels 0 and 1 count as ``1 / (n0 + 2)`` and ``(n1 + 1) / (n1 + 2)``, as published: a and b
        are then finite even if scores separate the classes.

    Attributes
    ----------
    slope_, intercept_ : float
        a and b.

    Notes
    -----
    Platt, *Probabilistic Outputs for Support Vector Machines* (1999), section 2.2, by Newton's method (Lin,
    Lin & Weng, *A note on Platt's probabilistic outputs*, 2007). scikit-learn's
    ``CalibratedClassifierCV(method="sigmoid")`` fits the same map. A slope below 0 means that scores rank
    the classes in the wrong order.

    Examples
    --------
    >>> from fastmcmd.recalibration import PlattScaling
    >>> scaling = PlattScaling().fit([-2.0, -1.0, 1.0, 2.0], [0, 1, 0, 1])
    >>> scaling.transform([0.0]).round(12).tolist()
    [0.5]
    """

    slope_: float
    intercept_: float

    def __init__(self, smooth: bool = True) -> None:
        self.smooth = check_flag(smooth, "smooth")

    def check_state(self) -> None:
        """Raise ValueError unless slope and intercept are valid."""
        super().check_state()
        check_real(self.slope_, "slope_")
        check_real(self.intercept_, "intercept_")

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: AnyPlatt,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> AnyPlatt:
        """Find slope and intercept and return this object.

        Parameters
        ----------
        logits : array_like (n,) or (n, 2)
            Scores of class 1, such as logits or distances from a hyperplane; or of both classes, whose
            difference counts.
        y : array_like (n,)
            Labels 0 and 1, or names of the classes.

        Raises
        ------
        ValueError
            Invalid values; or, without ``smooth``, scores that separate the classes.
        """
        scores, labels, weights = read_labelled(logits, y, sample_weight, nan_policy)
        margin = _margin(scores)
        targets = labels.astype(np.float64)
        if self.smooth:
            ones = targets.sum() if weights is None else weights @ targets
            zeros = (len(targets) if weights is None else weights.sum()) - ones
            targets = np.where(labels == 1, (ones + 1) / (ones + 2), 1 / (zeros + 2))
        fitted = fit_logistic(np.stack([margin, np.ones(len(margin))], axis=1), targets, weights)
        if fitted is None:
            raise ValueError(
                "logits separate the labels in y, so no finite slope is best; use smooth=True, or more rows"
            )
        self.slope_, self.intercept_ = map(float, fitted)
        return self

    def transform(self, logits: ArrayLike) -> Array:
        """Return probabilities (n, 2) of scores (n, 2), or of class 1 (n,) of scores (n,)."""
        self.check_fitted()
        scores = scores_of(logits)
        check_finite(scores)
        p = scipy.special.expit(self.slope_ * _margin(scores) + self.intercept_)
        return in_given_shape(p, scores)


class VectorScaling(Fitted):
    """Multiplies the logit of each class by a factor, and adds an offset: ``softmax(a * logits + b)``.

    Attributes
    ----------
    factors_, offsets_ : ndarray (C,)
        a and b; the offsets sum to 0.

    Notes
    -----
    Guo, Pleiss, Sun & Weinberger, *On Calibration of Modern Neural Networks* (ICML 2017), section 4.2, by
    maximum likelihood. With equal factors and no offsets it is `TemperatureScaling`. Unlike that, it may
    change predicted labels, and needs rows of every class.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.recalibration import VectorScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 3))
    >>> y = (logits + rng.gumbel(size=(2000, 3))).argmax(axis=1)
    >>> scaling = VectorScaling().fit(4 * logits, y)
    >>> bool((np.abs(scaling.factors_ - 0.25) < 0.05).all())
    True
    """

    factors_: Array
    offsets_: Array

    def __init__(self) -> None:
        pass

    def check_state(self) -> None:
        """Raise ValueError unless factors and offsets are valid."""
        super().check_state()
        check_vector(self.factors_, "factors_", ascending=False)
        check_vector(self.offsets_, "offsets_", len(self.factors_), ascending=False)
        if len(self.factors_) < 2:
            raise ValueError("factors_ are of fewer than two classes")

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: AnyVector,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> AnyVector:
        """Find factors and offsets and return this object.

        Parameters
        ----------
        logits : array_like (n, C)
            Unnormalised log probabilities.
        y : array_like (n,)
            Labels from 0 to C - 1, or names of the classes.

        Raises
        ------
        ValueError
            Invalid values, a class without rows, or logits that separate the classes.
        """
        scores, labels, weights = read_labelled(logits, y, sample_weight, nan_policy)
        if scores.ndim == 1:
            raise ValueError(
                f"logits has shape {scores.shape}; (n, C) is needed: PlattScaling is for scores (n,)"
            )
        w = np.ones(len(labels)) if weights is None else weights
        count = scores.shape[1]
        mass = np.bincount(labels, w, minlength=count)
        if not (mass > 0).all():
            raise ValueError(
                f"y has no row of class {int(np.argmin(mass > 0))}; rows of every class are needed"
            )
        self.factors_, self.offsets_ = _vector_fit(scores.astype(np.float64), labels, w / w.sum())
        return self

    def transform(self, logits: ArrayLike) -> Array:
        """Return probabilities (n, C)."""
        self.check_fitted()
        scores = scores_of(logits)
        check_finite(scores)
        if scores.ndim != 2 or scores.shape[1] != len(self.factors_):
            raise ValueError(
                f"logits has shape {scores.shape}; (n, {len(self.factors_)}) is needed, as in fit"
            )
        return np.asarray(scipy.special.softmax(scores * self.factors_ + self.offsets_, axis=1))


def _vector_fit(logits: Array, labels: NDArray[np.intp], weights: Array) -> tuple[Array, Array]:
    """Return factors and offsets (C,) of the largest likelihood, from a quasi-Newton search."""
    from scipy import optimize

    unit = float(np.abs(logits).max()) or 1.0
    rows, count = np.arange(len(labels)), logits.shape[1]
    scaled = logits / unit

    def loss(at: Array) -> tuple[float, Array]:
        eta = scaled * at[:count] + at[count:]
        total = scipy.special.logsumexp(eta, axis=1)
        gap = np.exp(eta - total[:, None])
        gap[rows, labels] -= 1
        gap *= weights[:, None]
        value = float(weights @ (total - eta[rows, labels]))
        return value, np.concatenate([(gap * scaled).sum(axis=0), gap.sum(axis=0)])

    options = {"maxiter": _MOST_STEPS, "maxfun": 4 * _MOST_STEPS, "ftol": 1e-15, "gtol": 1e-10}
    start = np.concatenate([np.full(count, unit), np.zeros(count)])
    result = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    eta = scaled * result.x[:count] + result.x[count:]
    # Where every label has the largest logit, larger factors are always better.
    if (eta.argmax(axis=1) == labels)[weights > 0].all() or not np.abs(result.jac).max() < _FLAT:
        raise ValueError(
            "logits separate the labels in y, so no finite factors are best; rows that the model was not "
            "trained on, and more of them, are needed"
        )
    offsets = result.x[count:]
    return np.asarray(result.x[:count] / unit), np.asarray(offsets - offsets.mean())
