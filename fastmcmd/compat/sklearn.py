"""Scorers for scikit-learn's ``cross_val_score`` and ``GridSearchCV``, and displays of curves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import classification, metrics
from fastmcmd._base.annotations import InputsLike
from fastmcmd._base.checks import check_choice, check_flag
from fastmcmd.compat.direction import best_values, of_classes
from fastmcmd.compat.displays import (
    ClassReliabilityDisplay,
    Display,
    MurphyDisplay,
    PITEcdfDisplay,
    PITHistogramDisplay,
    ReliabilityDisplay,
    VarianceDisplay,
)
from fastmcmd.compat.estimators import (
    PREDICTS,
    Estimator,
    QuantilePredictions,
    class_labels,
    prediction_of,
)
from fastmcmd.predictive.base import PredictionLike

__all__ = [
    "SCORERS",
    "ClassReliabilityDisplay",
    "Display",
    "MurphyDisplay",
    "PITEcdfDisplay",
    "PITHistogramDisplay",
    "QuantilePredictions",
    "ReliabilityDisplay",
    "Scorer",
    "VarianceDisplay",
    "scorer",
]


class Scorer:
    """A metric of predicted distributions as a scikit-learn scorer, created by `scorer`.

    Attributes
    ----------
    metric : callable
        The metric.
    sign : int
        1 if large values of the metric are better, -1 if small values are better, 0 if values near zero are
        better.
    classes : bool
        Whether the metric takes labels and probabilities of classes.
    predict : str or callable
        How to obtain predictions.
    options : mapping
        Further arguments of the metric.
    """

    def __init__(
        self,
        metric: Callable[..., ArrayLike],
        sign: int,
        classes: bool,
        predict: str | Callable[[Estimator, InputsLike], PredictionLike],
        options: Mapping[str, object],
    ) -> None:
        self.metric, self.sign, self.classes = metric, sign, classes
        self.predict, self.options = predict, dict(options)
        self._requests: dict[str, bool | str | None] = {}

    def __call__(
        self,
        estimator: Estimator,
        X: InputsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the score of a fitted estimator at (X, y); greater is better.

        Parameters
        ----------
        estimator : object
            A fitted estimator.
        X, y : array_like
            Inputs, and outputs or labels.
        sample_weight : array_like (n,), optional
            Nonnegative weights.

        Raises
        ------
        TypeError
            If the estimator predicts no distributions, or the metric does not return a number.
        ValueError
            If the estimator does not know a label, or the metric raises an error.
        """
        prediction = prediction_of(estimator, X, self.predict)
        outcomes = class_labels(estimator, y) if self.classes else y
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        score = self.metric(outcomes, prediction, **weights, **self.options)
        if np.ndim(score) != 0 or not isinstance(score, SupportsFloat):
            output = (
                f"an array of shape {np.shape(score)}"
                if np.ndim(score)
                else f"a {type(score).__name__}"
            )
            raise TypeError(
                f"{_name(self.metric)} returns {output}; a scorer needs a metric that returns one number, "
                "such as mean_crps"
            )
        value = float(score)
        return self.sign * value if self.sign else -abs(value)

    def set_score_request(self, *, sample_weight: bool | str | None = True) -> Scorer:
        """Return a scorer that requests weights if metadata routing is on.

        Parameters
        ----------
        sample_weight : bool, None or str
            As in scikit-learn: True requests ``sample_weight``, False ignores it, None raises an error if
            it is passed, and a string is the name under which it is passed.

        Notes
        -----
        Unlike scikit-learn's scorers, which change in place, this scorer does not change.
        """
        scorer = copy.copy(self)
        scorer._requests = {"sample_weight": sample_weight}
        return scorer

    def get_metadata_routing(self) -> Any:
        """Return the requests of the scorer for scikit-learn's metadata routing."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.score.add_request(
            param="sample_weight", alias=self._requests.get("sample_weight", None)
        )
        return request

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"scorer({_name(self.metric)}, predict={self.predict!r}{options})"


def scorer(
    metric: Callable[..., ArrayLike],
    *,
    predict: str | Callable[[Estimator, InputsLike], PredictionLike] | None = None,
    greater_is_better: bool | None = None,
    classes: bool | None = None,
    **options: object,
) -> Scorer:
    """Return a metric of predicted distributions as a scikit-learn scorer; greater is better.

    Parameters
    ----------
    metric : callable (y, prediction, *, sample_weight=None, **options) -> float
        A function of `fastmcmd.metrics` or `fastmcmd.classification` that returns a number, or a custom
        function.
    predict : {"auto", "std", "dist", "proba"} or callable (estimator, X) -> prediction, optional
        How to obtain predictions. "std": ``predict(X, return_std=True)``, as in Gaussian processes and
        Bayesian ridge regression. "dist": ``pred_dist(X)`` or ``predict_dist(X)``, as in NGBoost. "proba":
        ``predict_proba(X)``. "auto": whichever of the first two exists. A function such as
        `QuantilePredictions` is also accepted. Default: "proba" for metrics of classes, else "auto".
    greater_is_better : bool, optional
        Which values of the metric are better. Not needed for metrics of this package that have a best
        value.
    classes : bool, optional
        Whether a custom metric takes labels from 0 to C - 1 and probabilities. Known for metrics of this
        package.
    **options
        Further arguments of the metric, such as ``bins=20``.

    Returns
    -------
    Scorer
        A callable (estimator, X, y, sample_weight=None) -> float. It returns minus the metric if small
        values are better, and minus its absolute value if values near zero are better.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or ``greater_is_better`` is missing for a metric without a
        declared best value, such as coverage.

    Notes
    -----
    Labels are read as indices into ``estimator.classes_``. In pipelines and searches, the last step or the
    best estimator predicts, because pipelines do not forward such methods.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.compat.sklearn import scorer
    >>> class Model:
    ...     def predict(self, X, return_std=False): return np.zeros(len(X)), np.ones(len(X))
    >>> crps = scorer(fm.metrics.mean_crps)
    >>> y = np.array([0.0, 1.0])
    >>> crps(Model(), y[:, None], y) == -fm.metrics.mean_crps(y, (np.zeros(2), np.ones(2)))
    True
    """
    if not callable(metric):
        raise TypeError(
            f"metric is {metric!r}; a function such as fastmcmd.metrics.mean_crps is needed (named scorers "
            "are in SCORERS)"
        )
    classes = of_classes(metric) if classes is None else check_flag(classes, "classes")
    if predict is None:
        predict = "proba" if classes else "auto"
    if not callable(predict):
        check_choice(predict, "predict", PREDICTS)
    if greater_is_better is None:
        sign = _sign(metric)
    elif isinstance(greater_is_better, (bool, np.bool_)):
        sign = 1 if greater_is_better else -1
    else:
        raise TypeError(f"greater_is_better is {greater_is_better!r}; True or False is needed")
    return Scorer(metric, sign, classes, predict, options)


def _sign(metric: Callable[..., ArrayLike]) -> int:
    remedy = "give greater_is_better=True or False"
    try:
        best = best_values(metric)
    except LookupError:
        raise ValueError(
            f"metric is {_name(metric)}, of which values are better is not known; {remedy}"
        ) from None
    if best is None:
        raise ValueError(
            f"metric is {_name(metric)}, of which no value is best in itself; {remedy}"
        )
    return {"low": -1, "high": 1, "zero": 0}[best]


def _name(metric: object) -> str:
    return str(getattr(metric, "__name__", None) or repr(metric))


SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {
        "neg_nll": scorer(metrics.nll),
        "neg_crps": scorer(metrics.mean_crps),
        "neg_check_score": scorer(metrics.mean_check_score),
        "neg_interval_score": scorer(metrics.mean_interval_score),
        "neg_weighted_interval_score": scorer(metrics.mean_weighted_interval_score),
        "neg_dawid_sebastiani": scorer(metrics.mean_dawid_sebastiani),
        "neg_energy_score": scorer(metrics.mean_energy_score),
        "neg_regression_ece": scorer(metrics.regression_ece),
        "neg_miscalibration_area": scorer(metrics.miscalibration_area),
        "neg_ence": scorer(metrics.ence),
        "neg_uce": scorer(metrics.uce),
        "neg_qce": scorer(metrics.qce),
        "neg_rmse": scorer(metrics.rmse),
        "neg_mae": scorer(metrics.mae),
        "r2": scorer(metrics.r2),
        "neg_classification_nll": scorer(classification.nll),
        "neg_brier_score": scorer(classification.mean_brier_score),
        "neg_classification_ece": scorer(classification.ece),
        "neg_adaptive_ece": scorer(classification.adaptive_ece),
        "neg_classwise_ece": scorer(classification.classwise_ece),
        "accuracy": scorer(classification.accuracy),
        "auroc": scorer(classification.auroc),
    }
)
"""Scorers of the usual metrics by name; those whose metric is better when small begin with ``neg_``."""


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
