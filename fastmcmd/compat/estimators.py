"""Predicted distributions of fitted estimators that follow scikit-learn's conventions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, HostArray, InputsLike
from fastmcmd._base.checks import as_array, check_flag, is_tensor
from fastmcmd.predictive.adapters.frozen import is_frozen
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.quantiles import Quantiles

__all__ = ["PREDICTS", "Estimator", "QuantilePredictions", "class_labels", "prediction_of"]

PREDICTS = ("auto", "std", "dist", "proba")
Estimator: TypeAlias = Any  # of scikit-learn, or with its methods

_DIST = ("pred_dist", "predict_dist")


@dataclass(frozen=True)
class QuantilePredictions:
    """Converts the quantiles that an estimator predicts into distributions, for ``predict=`` of `scorer`.

    Parameters
    ----------
    levels : tuple of float
        Levels, strictly increasing in (0, 1).
    tails : {"exponential", "flat"}
        Distribution beyond the outer quantiles; see `Quantiles`.
    sort : bool
        Whether to sort crossing quantiles. By default they are an error.

    Notes
    -----
    Methods are tried in this order: ``predict_quantiles(X, levels)``, whatever the name of its second
    argument; ``predict(X, quantiles=levels)``, as in quantile forests; ``predict(X)``, whose columns must
    be the quantiles at these levels.

    Examples
    --------
    >>> from fastmcmd.compat.sklearn import QuantilePredictions
    >>> class Three:
    ...     def predict(self, X): return [[0.0, 1.0, 2.0]] * len(X)
    >>> QuantilePredictions((0.25, 0.5, 0.75))(Three(), [[0.0], [1.0]]).quantile(0.5).tolist()
    [1.0, 1.0]
    """

    levels: tuple[float, ...]
    tails: str = "exponential"
    sort: bool = False

    def __post_init__(self) -> None:
        levels = as_array(self.levels, "levels")
        object.__setattr__(self, "levels", tuple(levels.ravel().tolist()))
        check_flag(self.sort, "sort")
        Quantiles(self.levels, [np.zeros(len(self.levels))], tails=self.tails)  # an error now

    def __call__(self, estimator: Estimator, X: InputsLike) -> Quantiles:
        """Return the predicted distributions at X."""
        final, X = _final(estimator, X)
        levels = list(self.levels)
        if hasattr(final, "predict_quantiles"):
            values = final.predict_quantiles(X, levels)
        elif _takes(final.predict, "quantiles"):
            values = final.predict(X, quantiles=levels)
        else:
            values = final.predict(X)
        return Quantiles(levels, values, tails=self.tails, sort=self.sort)


def prediction_of(
    estimator: Estimator,
    X: InputsLike,
    predict: str | Callable[[Estimator, InputsLike], PredictionLike] = "auto",
) -> PredictionLike:
    """Return the prediction of an estimator at X, in a form that metrics of this package accept.

    Parameters
    ----------
    estimator : object
        A fitted estimator. In pipelines the last step predicts, in searches the best estimator.
    X : array_like
        Inputs.
    predict : {"auto", "std", "dist", "proba"} or callable (estimator, X) -> prediction
        How to predict. "std": ``predict(X, return_std=True)``. "dist": ``pred_dist(X)`` or
        ``predict_dist(X)``. "proba": ``predict_proba(X)``. "auto": like "dist" if the estimator has one of
        these methods, else like "std".

    Raises
    ------
    TypeError
        If the estimator cannot predict distributions in the requested way.
    """
    if callable(predict):
        return predict(estimator, X)
    final, X = _final(estimator, X)
    name = type(final).__name__
    if predict == "proba":
        if not hasattr(final, "predict_proba"):
            raise TypeError(f"{name} has no predict_proba, which a metric of classes needs")
        return _probabilities(final.predict_proba(X), name)
    method = next((one for one in _DIST if hasattr(final, one)), None)
    if method is not None and predict in ("auto", "dist"):
        output: PredictionLike = getattr(final, method)(X)
        inner: AnyArray = getattr(output, "dist", None)  # NGBoost wraps distributions of SciPy
        return inner if is_frozen(inner) else output
    if predict in ("auto", "std") and _takes(getattr(final, "predict", None), "return_std"):
        return tuple(final.predict(X, return_std=True))
    raise TypeError(
        f"{name} has no {_METHODS[predict]}, so it predicts no distributions known here; give "
        "predict=f with f(estimator, X) returning what fastmcmd takes as a prediction, such as "
        "(mean, std), or predict=QuantilePredictions(levels)"
    )


_METHODS = {
    "auto": "predict(X, return_std=True), pred_dist or predict_dist",
    "std": "predict(X, return_std=True)",
    "dist": "pred_dist or predict_dist",
}


def class_labels(estimator: Estimator, y: ArrayLike) -> NDArray[np.intp]:
    """Return labels as indices into ``estimator.classes_``, the order of the columns of probabilities.

    Raises
    ------
    TypeError
        If the estimator has no classes.
    ValueError
        If the estimator was not fitted on some label, which therefore has no predicted probability.
    """
    classes = getattr(estimator, "classes_", None)
    if classes is None or isinstance(classes, list):
        raise TypeError(
            f"{type(estimator).__name__} has no classes_ of one output; metrics of classes need a "
            "fitted classifier"
        )
    classes, labels = np.asarray(classes), _labels(y)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; (n,) is needed: one label per row")
    place = {label: index for index, label in enumerate(classes.tolist())}
    unknown = sorted({str(label) for label in labels.tolist() if label not in place})
    if unknown:
        raise ValueError(
            f"y holds labels that {type(estimator).__name__} was not fitted on: {', '.join(unknown[:5])}; "
            "stratified splits keep all labels in training"
        )
    return np.array([place[label] for label in labels.tolist()], dtype=np.intp)


def _labels(y: ArrayLike) -> HostArray:
    """Return labels, which may be text, as an array."""
    if is_tensor(y) or isinstance(y, np.ma.MaskedArray):
        return as_array(y, "y")
    try:
        return np.asarray(y)
    except Exception as error:  # __array__ of other libraries can raise anything
        raise ValueError(f"y cannot be made an array: {error}") from None


def _probabilities(output: AnyArray, name: str) -> AnyArray:
    if isinstance(output, list):
        raise TypeError(f"{name} predicts several outputs; metrics of classes take one")
    return output


def _final(estimator: Estimator, X: InputsLike) -> tuple[Estimator, InputsLike]:
    """Return the estimator that predicts, inside searches and pipelines, and its inputs."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps") and hasattr(estimator, "named_steps"):
            X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
            estimator = estimator.steps[-1][1]
        else:
            return estimator, X


def _takes(method: Callable[..., object] | None, name: str) -> bool:
    """Return whether a method has an argument of this name."""
    return method is not None and name in inspect.signature(method).parameters
