"""Metrics of this package as torchmetrics: ``update(preds, target)``, ``compute()``, ``reset()``.

Each class has the name and the arguments of an accumulator of `fastmcmd.streaming`. It works in
``MetricCollection``, with Lightning's ``self.log`` and with several processes. torch and torchmetrics are
imported when the first class is requested.

Sums are computed on the CPU. The state is one row of sums in float64 on the device of the metric, which
must support float64 (Apple's MPS does not). Metrics of classes accept ``logits=True``; logits are never
guessed from values. Metrics that randomise PITs of discrete distributions should have a different
``random_state`` in each process.

For a curve, a histogram or a decomposition, ``compute()`` returns a named tuple of tensors, such as
`ReliabilityValues`. ``plot()`` draws curves like `fastmcmd.plots` and other metrics like torchmetrics.
``accumulator()`` returns an accumulator, whose results are the objects of `fastmcmd.metrics`.

Examples
--------
>>> import pytest
>>> _ = pytest.importorskip("torchmetrics")
>>> import torch
>>> from fastmcmd.compat.torchmetrics import CRPS
>>> metric = CRPS()
>>> for y in torch.tensor([[0.0, 1.0], [2.0, 0.0]]):
...     metric.update(torch.distributions.Normal(torch.zeros(2), torch.ones(2)), y)
>>> metric.compute().ndim
0
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd import streaming
from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import as_array, dense_tensor
from fastmcmd._base.ignored import AllIgnoredError
from fastmcmd.classification import AccuracyAboveConfidence as AboveCurve
from fastmcmd.classification import AreaEstimate
from fastmcmd.classification import BrierDecomposition as Terms
from fastmcmd.compat.flat import flatten, restore
from fastmcmd.errors import require
from fastmcmd.metrics.pit import PITHistogram as Histogram
from fastmcmd.metrics.reliability_sums import ReliabilityCurve
from fastmcmd.metrics.variance_curve import VarianceCurve
from fastmcmd.streaming import Accumulator

if TYPE_CHECKING:
    pass


# Whether large values are better; None if no value is best in itself. A new metric is a line here.
_BETTER: dict[str, bool | None] = {
    "AUROC": True,
    "Accuracy": True,
    "AccuracyAboveConfidence": None,
    "Bias": None,
    "BrierDecomposition": None,
    "BrierScore": False,
    "CRPS": False,
    "CheckScore": False,
    "ClassificationECE": False,
    "ClassificationNLL": False,
    "ClasswiseECE": False,
    "ConfusionMatrix": None,
    "Coverage": None,
    "DawidSebastiani": False,
    "ENCE": False,
    "ENCECurve": None,
    "EnergyScore": False,
    "IntervalScore": False,
    "MAE": False,
    "MARPD": False,
    "MeanAbsoluteCalibrationError": False,
    "MeanIntervalWidth": None,
    "MedianAbsoluteError": False,
    "MiscalibrationArea": False,
    "NLL": False,
    "PITHistogram": None,
    "Pearson": True,
    "QCE": False,
    "R2": True,
    "RMSCalibrationError": False,
    "RMSE": False,
    "RankedProbabilityScore": False,
    "RegressionECE": False,
    "Reliability": None,
    "Sharpness": None,
    "TopKAccuracy": True,
    "UCE": False,
    "VarianceVariation": None,
    "VariogramScore": False,
    "WeightedIntervalScore": False,
}
_THEIR_NAMES = {
    "CalibrationError": "ClassificationECE",
    "ContinuousRankedProbabilityScore": "CRPS",
    "MeanAbsoluteError": "MAE",
    "MeanSquaredError": "RMSE",
    "PearsonCorrCoef": "Pearson",
    "R2Score": "R2",
}
_OF_CLASSES = ("fastmcmd.streaming.classification", "fastmcmd.streaming.classification_parts")


class ReliabilityValues(NamedTuple):
    """Tensors of a reliability curve; see `fastmcmd.metrics.reliability_curve`."""

    expected: AnyArray
    observed: AnyArray
    within: AnyArray
    n: AnyArray
    effective: AnyArray


class PITValues(NamedTuple):
    """Tensors of a histogram of PIT values; see `fastmcmd.metrics.pit_histogram`."""

    edges: AnyArray
    mass: AnyArray
    n: AnyArray


class VarianceValues(NamedTuple):
    """Tensors of errors against predicted spread; see `fastmcmd.metrics.ence_curve`."""

    rmv: AnyArray
    rmse: AnyArray
    mass: AnyArray
    edges: AnyArray
    null_std: AnyArray
    empty: AnyArray
    n: AnyArray


class BrierTerms(NamedTuple):
    """Tensors of the terms of a Brier score; see `fastmcmd.classification.brier_decomposition`."""

    uncertainty: AnyArray
    resolution: AnyArray
    reliability: AnyArray
    within_variance: AnyArray
    within_covariance: AnyArray


class AboveValues(NamedTuple):
    """Tensors of accuracy by confidence; see `fastmcmd.classification.accuracy_above_confidence`."""

    thresholds: AnyArray
    accuracy: AnyArray
    count: AnyArray
    weight: AnyArray


@dataclass(frozen=True)
class _Shape:
    """The conversion of a result of several numbers to tensors, and their plot."""

    values: type[Any]  # a named tuple, of the fields of the result that are no words
    result: type
    plot: str | None = None  # in `fastmcmd.plots`


_SHAPES = {
    "AccuracyAboveConfidence": _Shape(AboveValues, AboveCurve),
    "BrierDecomposition": _Shape(BrierTerms, Terms),
    "ENCECurve": _Shape(VarianceValues, VarianceCurve, "variance"),
    "PITHistogram": _Shape(PITValues, Histogram, "pit_histogram"),
    "Reliability": _Shape(ReliabilityValues, ReliabilityCurve, "reliability"),
}

__all__ = [*_BETTER, *(shape.values.__name__ for shape in _SHAPES.values())]


def __getattr__(name: str) -> type:
    if name not in _BETTER:
        ours = _THEIR_NAMES.get(name)
        hint = f"; here it is {ours}" if ours else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    globals()[name] = kind = _metric_class(name)
    return kind


def __dir__() -> list[str]:
    return sorted(__all__)


def _packages() -> tuple[Any, Any]:
    """Return torch and torchmetrics."""
    advice = f"{__name__} needs PyTorch and torchmetrics: pip install torch torchmetrics"
    return require("torch", advice), require("torchmetrics", advice)


@functools.cache
def _base() -> type:
    """Return the base class of all metrics here."""
    torch, torchmetrics = _packages()

    class Base(torchmetrics.Metric):  # type: ignore[misc,name-defined,unused-ignore]
        is_differentiable = False
        full_state_update = False
        kind: type  # the accumulator

        def __init__(self, *args: Any, **options: Any) -> None:
            parameters = inspect.signature(self.kind).parameters
            theirs = {name: value for name, value in options.items() if name not in parameters}
            logits = _logits(self.kind, theirs)
            super().__init__(**theirs)
            self._logits = logits
            self._template = self.kind(
                *args, **{k: v for k, v in options.items() if k in parameters}
            )
            self._place: Any = None
            self.add_state("sums", default=[], dist_reduce_fx="cat")
            self.set_dtype(torch.float64)  # also sent by a process without rows

        def update(
            self, preds: AnyArray, target: ArrayLike, sample_weight: ArrayLike | None = None
        ) -> None:
            """Add a batch.

            Parameters
            ----------
            preds : torch distribution, pair (mean, std), draws (n, l), probabilities, ...
                Predictions accepted by the corresponding function, with tensors; logits if ``logits=True``.
            target : tensor (n,), or (n, k) for metrics of vectors
                Observed outputs, or labels.
            sample_weight : tensor (n,), optional
                Nonnegative weights.
            """
            probabilities = _probabilities(torch, preds) if self._logits else preds
            try:
                with _their_names():
                    state = self._template.gather(target, probabilities, sample_weight)
            except AllIgnoredError:  # as in torchmetrics, which counts no row of such a batch
                return
            before = self._total()
            row = flatten(self._template, state if before is None else before + state)
            self._place = _device(target, preds)
            self.sums = [torch.as_tensor(row, device=self.device)]

        def compute(self) -> Any:
            """Return the metric of all rows so far as a float64 tensor on the device of the inputs.

            For a curve, a histogram or a decomposition, it is a named tuple of tensors.

            Raises
            ------
            ValueError
                If no process has any rows yet.
            """
            value = self.accumulator().compute()
            value = value.value if isinstance(value, AreaEstimate) else value
            place = self.device if self._place is None else self._place

            def tensor(number: ArrayLike) -> AnyArray:
                return torch.as_tensor(np.asarray(number, dtype=np.float64), device=place)

            shape = _SHAPES.get(self.kind.__name__)
            if shape is None:
                return tensor(value)
            return shape.values(*(tensor(getattr(value, one)) for one in shape.values._fields))

        def plot(self, val: Any = None, ax: Any = None) -> tuple[Any, Any]:
            """Plot the metric, and return the matplotlib figure and its axes.

            Parameters
            ----------
            val : result of `compute` or `forward`, or a list of these, optional
                What to plot. Default: the metric of all rows so far. Of several confusion matrices, the
                last is plotted.
            ax : matplotlib axes, optional
                Axes to draw in. Default: new axes.

            Raises
            ------
            MissingDependencyError, ModuleNotFoundError
                If matplotlib is not installed.
            """
            val = self.compute() if val is None else val
            shape = _SHAPES.get(self.kind.__name__)
            if shape is not None and shape.plot is not None:
                return _draw(self._template, shape, val, ax)
            if self.kind is streaming.AccuracyAboveConfidence:
                return _draw_above(torch, val, ax)
            if self.kind is streaming.ConfusionMatrix:
                from torchmetrics.utilities.plot import plot_confusion_matrix

                # Matrices cannot lie on each other.
                last = val[-1] if isinstance(val, (list, tuple)) else val
                figure, axes = plot_confusion_matrix(last, ax)
            else:
                figure, axes = self._plot(_by_name(val), ax)
            return figure, axes

        def accumulator(self) -> Accumulator[Any]:
            """Return the accumulator of `fastmcmd.streaming` with all rows so far."""
            accumulator = copy.copy(self._template)
            state = self._total()
            if state is not None:
                accumulator.add(state)
            return accumulator

        def _total(self) -> Any:
            """Return the sums so far, or None without rows; while synchronised, those of all processes."""
            sums = [self.sums] if isinstance(self.sums, torch.Tensor) else self.sums
            rows = [as_array(one, "sums") for one in sums]
            return restore(self._template, np.concatenate(rows)) if rows else None

        def __repr__(self) -> str:
            return repr(self._template)

    return Base


@contextmanager
def _their_names() -> Iterator[None]:
    """Rename arguments in error messages to the names of torchmetrics."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if error.args and isinstance(error.args[0], str):
            message = re.sub(r"\by\b", "target", error.args[0])
            error.args = (re.sub(r"^(prediction|p)\b", "preds", message), *error.args[1:])
        raise


def _by_name(val: Any) -> Any:
    """Return named tuples as dicts, which torchmetrics can draw."""
    if isinstance(val, BrierTerms):
        return val._asdict()
    return [_by_name(one) for one in val] if isinstance(val, (list, tuple)) else val


def _results(val: Any, kind: type) -> list[Any]:
    """Return one or several results of `compute` as a list."""
    results = [val] if isinstance(val, kind) else val
    if not isinstance(results, (list, tuple)) or not results:
        raise TypeError(
            f"val is a {type(val).__name__}; what compute() returns, or a list, is needed"
        )
    for one in results:
        if not isinstance(one, kind):
            raise TypeError(f"val holds a {type(one).__name__}; what compute() returns is needed")
    return list(results)


def _draw_above(torch: Any, val: Any, ax: Any) -> tuple[Any, Any]:
    """Plot accuracy over confidence; several results of `compute` share one plot."""
    from torchmetrics.utilities.plot import plot_curve

    x, y = [], []
    for one in _results(val, AboveValues):
        # torchmetrics makes numbers of arrays of one element; thresholds come in any order.
        taus, accuracy = torch.atleast_1d(one.thresholds), torch.atleast_1d(one.accuracy)
        order = torch.argsort(taus)
        x.append(taus[order])
        y.append(accuracy[order])
    curve: Any = (x, y) if len(x) > 1 else (x[0], y[0])
    labels: list[int | str] = list(range(1, len(x) + 1))
    names = "confidence at least", "accuracy"
    ax = plot_curve(curve, ax=ax, label_names=names, labels=labels)[1]
    return ax.figure, ax


def _draw(accumulator: Accumulator[Any], shape: _Shape, val: Any, ax: Any) -> tuple[Any, Any]:
    """Plot curves; several results of `compute` share one plot."""
    from fastmcmd import plots
    from fastmcmd.plots.style import COLOURS

    assert shape.plot is not None
    curves = _results(val, shape.values)
    for place, one in enumerate(curves):
        parts: dict[str, Any] = {}
        for field in fields(shape.result):
            if field.name not in shape.values._fields:
                parts[field.name] = accumulator.settings[field.name]  # a word, such as the kind
            else:
                part = as_array(getattr(one, field.name), field.name)
                # torchmetrics makes numbers of arrays of one element: the field says which it was.
                change = {"int": int, "float": float}.get(str(field.type), np.atleast_1d)
                parts[field.name] = change(part)
        label = f"{place + 1}" if len(curves) > 1 else None
        colour = COLOURS[place % len(COLOURS)]
        ax = getattr(plots, shape.plot)(shape.result(**parts), ax, label, colour)
    return ax.figure, ax


def _logits(kind: type, options: dict[str, Any]) -> bool:
    """Remove ``logits`` from the options of a metric of classes and return it."""
    if kind.__module__ not in _OF_CLASSES or "logits" not in options:
        return False
    logits = options.pop("logits")
    if not isinstance(logits, bool):
        raise TypeError(f"logits is {logits!r}; True or False is needed")
    return logits


def _probabilities(torch: Any, logits: ArrayLike) -> AnyArray:
    """Return probabilities of logits (n, C), or (n,) of class 1, in float64 to avoid underflow."""
    scores = dense_tensor(torch.as_tensor(logits), "preds").double()
    return torch.sigmoid(scores) if scores.ndim == 1 else torch.softmax(scores, -1)


def _device(*inputs: object) -> Any:
    """Return the device of the first tensor, or None without tensors."""
    for one in inputs:
        for part in one if isinstance(one, tuple) else (one,):
            if hasattr(part, "detach"):
                return part.device
    return None


def _metric_class(name: str) -> type:
    """Return the metric class with a name."""
    kind = getattr(streaming, name)
    extra = "\n    logits : bool, default False\n        Whether ``preds`` are logits." * (
        kind.__module__ in _OF_CLASSES
    )
    text = f"""`fastmcmd.streaming.{name}` as a torchmetrics metric.

    Parameters
    ----------
    *args, **options
        As of the accumulator, and those of ``torchmetrics.Metric``, such as ``process_group``.{extra}
    """
    members = {
        "kind": kind,
        "higher_is_better": _BETTER[name],
        "__module__": __name__,
        "__qualname__": name,
        "__doc__": text,
    }
    return type(name, (_base(),), members)
