"""One temperature for the logits of a classifier."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import HostArray, NanPolicy
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Fitted
from fastmcmd.recalibration.labelled import check_finite, read_labelled, scores_of
from fastmcmd.recalibration.state import check_number

__all__ = ["TemperatureScaling"]

Self = TypeVar("Self", bound="TemperatureScaling")

_BLOCK = 1 << 17  # logits per block: a block in float64 and its exponentials stay in the cache
_MOST_STEPS = 200  # bisection over all exponents needs fewer; Newton's method takes 5 to 8
_LAST_STEP = 1e-9  # relative size of the last step
_FIRST_ROWS = 100_000  # rows on which the search begins if there are many more


class TemperatureScaling(Fitted):
    """Divides logits by the temperature T that maximises the likelihood.

    Attributes
    ----------
    temperature_ : float
        The temperature T, above 1 for an overconfident model.

    Notes
    -----
    The method is that of Guo, Pleiss, Sun & Weinberger, *On Calibration of Modern Neural Networks* (ICML
    2017), section 4.2. The negative log likelihood is convex in b = 1/T, with the derivatives ``sum w (E l
    - l_y)`` and ``sum w Var l`` under softmax(b l). Newton's method inside a bracket converges to rounding,
    over rows in blocks, with float64 sums. netcal and most published code stop a general optimiser earlier.

    T changes neither predicted labels nor accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.recalibration import TemperatureScaling
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> scaling = TemperatureScaling().fit(logits, [0, 0, 1, 1])
    >>> scaling.transform(logits).round(12).tolist()[0]
    [0.75, 0.25]
    """

    temperature_: float

    def __init__(self) -> None:
        pass

    def check_state(self) -> None:
        """Raise ValueError unless the temperature is valid."""
        super().check_state()
        check_number(self.temperature_, "temperature_")

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: Self,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> Self:
        """Find the temperature and return this object.

        Parameters
        ----------
        logits : array_like (n, C) or (n,)
            Unnormalised log probabilities; (n,) are logits of class 1 against class 0.
        y : array_like (n,)
            Labels from 0 to C - 1, or names of the classes: the columns of a data frame of logits, else
            the sorted names.

        Raises
        ------
        ValueError
            Invalid values; or no finite positive temperature is best, because logits carry no information
            about the labels or are largest for every label.
        """
        scores, labels, weights = read_labelled(logits, y, sample_weight, nan_policy)
        likelihood = _Likelihood(scores, labels, weights)
        if not likelihood.first < 0:
            raise ValueError(
                "logits of the labels are on average no larger than others: the best temperature is "
                "infinite, and they tell nothing about y"
            )
        if not likelihood.last > 0:
            raise ValueError(
                "the logit of every label is the largest of its row: the best temperature is 0; rows that "
                "the model was not trained on, and more of them, are needed"
            )
        self.temperature_ = likelihood.unit / _root(likelihood, _first_guess(likelihood))
        return self

    def transform(self, logits: ArrayLike) -> Array:
        """Return probabilities (n, C) of logits (n, C), or of class 1 (n,) of logits (n,)."""
        self.check_fitted()
        scores = scores_of(logits)
        check_finite(scores)
        out = np.empty(scores.shape)

        def fill(rows: slice) -> None:
            if scores.ndim == 1:
                from scipy import special

                out[rows] = special.expit(scores[rows] / self.temperature_)
                return
            part = scores[rows].astype(np.float64)
            part -= part.max(axis=1, keepdims=True)
            np.exp(part / self.temperature_, out=part)
            np.divide(part, part.sum(axis=1, keepdims=True), out=out[rows])

        over_rows(fill, len(scores), _BLOCK // (scores.size // len(scores)))
        return out

    def fit_transform(
        self,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> Array:
        """Fit, and return the probabilities of the same rows."""
        self.fit(logits, y, sample_weight=sample_weight, nan_policy=nan_policy)
        return self.transform(logits)


class _Likelihood:
    """Derivatives of the negative log likelihood in b = unit / T.

    Attributes
    ----------
    unit : float
        Largest gap between logits of a row. Gaps are divided by it, so that squares do not overflow.
    first, last : float
        First derivative at b = 0 and towards infinity. A best b exists if their signs differ.
    """

    def __init__(self, logits: HostArray, labels: NDArray[np.intp], weights: Array | None) -> None:
        self.logits, self.labels, self.weights = logits, labels, weights
        self.total = float(len(labels)) if weights is None else float(weights.sum())
        self.step = max(1, _BLOCK // (2 if logits.ndim == 1 else logits.shape[1]))
        with np.errstate(over="ignore"):
            widest = max(over_rows(lambda rows: -self._gaps(rows)[0].min(), len(labels), self.step))
        if not np.isfinite(widest):
            raise ValueError("logits of a row differ by more than a number can hold")
        self.unit = float(widest) or 1.0
        ends = np.sum(over_rows(self._ends, len(labels), self.step), axis=0) / self.total
        self.first, self.last = float(ends[0]), float(ends[1])

    def _gaps(self, rows: slice) -> tuple[Array, Array]:
        """Return logits (m, C) minus the largest of their row, and those of the labels (m,)."""
        part = self.logits[rows].astype(np.float64)
        if part.ndim == 1:
            part = np.stack([np.zeros(len(part)), part], axis=1)
        part -= part.max(axis=1, keepdims=True)
        return part, part[np.arange(len(part)), self.labels[rows]]

    def _weights(self, rows: slice) -> Any:
        return 1.0 if self.weights is None else self.weights[rows]

    def _ends(self, rows: slice) -> Array:
        gaps, label_gaps = self._gaps(rows)
        mean = (gaps / self.unit).mean(axis=1)
        label_gaps, weights = label_gaps / self.unit, self._weights(rows)
        return np.array([np.sum(weights * (mean - label_gaps)), np.sum(weights * -label_gaps)])

    def slope(self, inverse: float) -> tuple[float, float]:
        """Return the first and second derivatives at b, as means over rows."""

        def sums(rows: slice) -> Array:
            gaps, label_gaps = self._gaps(rows)
            gaps /= self.unit
            label_gaps /= self.unit
            share = np.exp(gaps * inverse)
            total = share.sum(axis=1)
            share *= gaps
            first = share.sum(axis=1) / total
            second = np.einsum("nc,nc->n", share, gaps) / total - first**2
            weights = self._weights(rows)
            return np.array([np.sum(weights * (first - label_gaps)), np.sum(weights * second)])

        slopes = np.sum(over_rows(sums, len(self.labels), self.step), axis=0)
        return float(slopes[0]) / self.total, float(slopes[1]) / self.total

    def few(self, stride: int) -> _Likelihood | None:
        """Return the likelihood of every ``stride``-th row, or None if these rows have no best b."""
        weights = None if self.weights is None else self.weights[::stride]
        if weights is not None and not weights.sum() > 0:
            return None
        thinned = _Likelihood(self.logits[::stride], self.labels[::stride], weights)
        return thinned if thinned.first < 0 < thinned.last else None


def _first_guess(likelihood: _Likelihood) -> float:
    """Return a first guess of b: from evenly spaced rows if there are many, else for T near 1."""
    guess = float(np.clip(likelihood.unit, 1.0, 1e3))
    stride = len(likelihood.labels) // _FIRST_ROWS
    few = likelihood.few(stride) if stride > 1 else None
    return guess if few is None else _root(few, guess) * likelihood.unit / few.unit


def _root(likelihood: _Likelihood, guess: float) -> float:
    """Return the b > 0 at which the first derivative, which increases, is 0."""
    low, high = 0.0, np.inf
    inverse = guess
    for _ in range(_MOST_STEPS):
        gradient, curvature = likelihood.slope(inverse)
        if gradient == 0:
            return inverse
        low, high = (low, inverse) if gradient > 0 else (inverse, high)
        following = inverse - gradient / curvature if curvature > 0 else np.inf
        # Newton's method squares the error, so the result of so small a step is exact to rounding.
        if abs(following - inverse) <= _LAST_STEP * inverse:
            return following
        if not low < following < high:
            if low > 0 and high < np.inf:
                following = np.sqrt(low * high)
            else:
                following = inverse * 4 if high == np.inf else inverse / 4
            if not low < following < high:
                return inverse
        inverse = float(following)
    return inverse
