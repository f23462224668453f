"""Curves of predicted distributions as displays in the style of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeVar

from numpy.typing import ArrayLike

from fastmcmd import classification, metrics
from fastmcmd._base.annotations import InputsLike
from fastmcmd._base.plotted import Plotted
from fastmcmd.compat.estimators import Estimator, class_labels, prediction_of
from fastmcmd.predictive.base import PredictionLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ClassReliabilityDisplay",
    "Display",
    "MurphyDisplay",
    "PITEcdfDisplay",
    "PITHistogramDisplay",
    "ReliabilityDisplay",
    "VarianceDisplay",
]

AnyDisplay = TypeVar("AnyDisplay", bound="Display")


class Display:
    """A curve with its picture, created by ``from_estimator`` or ``from_predictions``.

    Attributes
    ----------
    curve : object
        Result of the function of `fastmcmd.metrics` or `fastmcmd.classification`, with all its numbers.
    ax_, figure_ : matplotlib axes and figure
        Where the curve was drawn.
    """

    compute: ClassVar[Callable[..., Plotted]]  # the function of the curve, of (y, prediction)
    of_classes: ClassVar[bool] = False
    ax_: Axes
    figure_: Figure

    def __init__(self, curve: Plotted) -> None:
        self.curve = curve

    @classmethod
    def from_estimator(
        cls: type[AnyDisplay],
        estimator: Estimator,
        X: InputsLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        predict: str | Callable[[Estimator, InputsLike], PredictionLike] | None = None,
        ax: Axes | None = None,
        **options: object,
    ) -> AnyDisplay:
        """Draw the curve of a fitted estimator at (X, y).

        Parameters
        ----------
        estimator : object
            A fitted estimator.
        X, y : array_like
            Inputs, and outcomes or labels.
        sample_weight : array_like (n,), optional
            Nonnegative weights.
        predict : {"auto", "std", "dist", "proba"} or callable (estimator, X) -> prediction, optional
            How to obtain predictions, as in `scorer`.
        ax : matplotlib axes, optional
            Axes to draw in. Default: new axes.
        **options
            Further arguments of the curve's function.
        """
        if predict is None:
            predict = "proba" if cls.of_classes else "auto"
        prediction = prediction_of(estimator, X, predict)
        outcomes = class_labels(estimator, y) if cls.of_classes else y
        return cls.from_predictions(
            outcomes, prediction, sample_weight=sample_weight, ax=ax, **options
        )

    @classmethod
    def from_predictions(
        cls: type[AnyDisplay],
        y: ArrayLike,
        prediction: PredictionLike,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
        **options: object,
    ) -> AnyDisplay:
        """Draw the curve of outcomes and predictions, or of labels and probabilities.

        Parameters
        ----------
        y : array_like (n,)
            Outcomes or labels.
        prediction : prediction of n rows
            Predicted distributions, or probabilities of classes.
        sample_weight : array_like (n,), optional
            Nonnegative weights.
        ax : matplotlib axes, optional
            Axes to draw in. Default: new axes.
        **options
            Further arguments of the curve's function.
        """
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        return cls(cls.compute(y, prediction, **options)).plot(ax)

    def plot(self: AnyDisplay, ax: Axes | None = None, **options: object) -> AnyDisplay:
        """Draw the curve, and return this display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw in. Default: new axes.
        **options
            As in the function of `fastmcmd.plots`.
        """
        self.ax_ = self.curve.plot(ax, **options)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {repr(self.curve).splitlines()[0]}"


class ReliabilityDisplay(Display):
    """Observed against expected shares of outcomes; see `fastmcmd.metrics.reliability_curve`.

    Examples
    --------
    >>> import pytest
    >>> _, matplotlib = pytest.importorskip("sklearn"), pytest.importorskip("matplotlib")
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import BayesianRidge
    >>> from fastmcmd.compat.sklearn import ReliabilityDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> display = ReliabilityDisplay.from_estimator(BayesianRidge().fit(X, y), X, y)
    >>> display.curve.n
    442
    """

    compute = staticmethod(metrics.reliability_curve)


class PITHistogramDisplay(Display):
    """Histogram of PIT values; see `fastmcmd.metrics.pit_histogram`."""

    compute = staticmethod(metrics.pit_histogram)


class PITEcdfDisplay(Display):
    """Cumulative PIT with a simultaneous band; see `fastmcmd.metrics.pit_ecdf`."""

    compute = staticmethod(metrics.pit_ecdf)


class VarianceDisplay(Display):
    """Errors against predicted spread; see `fastmcmd.metrics.ence_curve`."""

    compute = staticmethod(metrics.ence_curve)


class MurphyDisplay(Display):
    """Elementary scores at all thresholds; see `fastmcmd.metrics.murphy_curve`."""

    compute = staticmethod(metrics.murphy_curve)


class ClassReliabilityDisplay(Display):
    """Accuracy against confidence; see `fastmcmd.classification.reliability_curve`."""

    of_classes = True
    compute = staticmethod(classification.reliability_curve)
