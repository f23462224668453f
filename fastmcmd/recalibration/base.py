"""The interface of a recalibrator, which learns on held-out rows and corrects predictions of other rows."""

from __future__ import annotations

import inspect
from abc import ABC
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import FilePath, Json, NanPolicy
from fastmcmd._base.checks import as_array, as_rows, check_choice, check_path, quote
from fastmcmd._base.docstrings import FIT_PARAMETERS, with_shared_parameters
from fastmcmd.frames import check_row_order
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.predictive.categorical import classes_of
from fastmcmd.recalibration import stored

__all__ = ["Fitted", "Recalibrator", "read_rows", "to_predictive"]

Self = TypeVar("Self", bound="Fitted")
AnyRecalibrator = TypeVar("AnyRecalibrator", bound="Recalibrator")


class Fitted:
    """An object with settings and, after ``fit``, fitted attributes that end in an underscore."""

    @property
    def settings(self) -> Json:
        """Arguments of the constructor."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    @property
    def fitted(self) -> Json:
        """Fitted attributes by name; empty before ``fit``."""
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        numbers = {
            name: value for name, value in self.fitted.items() if isinstance(value, float | int)
        }
        attributes = numbers or self.fitted
        fitted = ", ".join(f"{name}={_shown_value(value)}" for name, value in attributes.items())
        return f"{type(self).__name__}({settings})" + (f", fitted: {fitted}" if fitted else "")

    def check_fitted(self) -> None:
        """Raise an error if ``fit`` has not been called."""
        if not self.fitted:
            name = type(self).__name__
            raise ValueError(
                f"this {name} is not fitted; call fit first, on rows held out of training"
            )

    def check_state(self) -> None:
        """Raise ValueError unless the fitted attributes, read from a file, are valid results of ``fit``."""
        annotated = (inspect.get_annotations(kind) for kind in type(self).__mro__)
        attribute_names = {name for names in annotated for name in names if name.endswith("_")}
        if set(self.fitted) != attribute_names:
            raise ValueError(
                f"it holds {sorted(self.fitted)}; {sorted(attribute_names)} are needed"
            )

    def save(self, path: FilePath) -> None:
        """Write the fitted object to an ``.npz`` file (never pickle), atomically; `load` reads it."""
        check_path(path, "path")
        stored.save(self, path)


class Recalibrator(Fitted, ABC):
    """Learns from outcomes how predicted distributions are wrong, and corrects other predictions.

    A subclass defines ``learn`` and ``apply``, and sets attributes with a trailing underscore. If its
    correction depends on the input, it sets ``needs_inputs`` and defines ``learn_at`` and ``apply_at``.

    Attributes
    ----------
    needs_inputs : bool
        Whether ``fit`` and ``transform`` require ``x``. If False, they only check it.
    """

    needs_inputs: ClassVar[bool] = False

    def learn(self, rows: Outcomes) -> None:
        """Set the fitted attributes from checked rows."""
        raise NotImplementedError

    def apply(self, prediction: Predictive) -> Predictive:
        """Return corrected predictions."""
        raise NotImplementedError

    def learn_at(self, rows: Outcomes, x: Array) -> None:
        """Set the fitted attributes from checked rows and their inputs (n, d)."""
        raise NotImplementedError

    def apply_at(self, prediction: Predictive, x: Array) -> Predictive:
        """Return corrected predictions at inputs (n, d)."""
        raise NotImplementedError

    @with_shared_parameters(FIT_PARAMETERS)
    def fit(
        self: AnyRecalibrator,
        prediction: PredictionLike,
        y: ArrayLike,
        x: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> AnyRecalibrator:
        """Learn from predictions and outcomes of rows that the model was not trained on.

        Parameters
        ----------
        prediction : Predictive or anything that converts to one
            Predicted distributions of numbers.
        y : array_like (n,)
            Observed outputs.
        x : array_like (n, d) or (n,), optional
            Inputs. Required if corrections depend on the input; otherwise only their number is checked.
        sample_weight : array_like (n,), optional
            Nonnegative weights. A whole number w counts a row w times.

        Returns
        -------
        Recalibrator
            The fitted recalibrator itself.

        Raises
        ------
        ValueError
            Invalid values, numbers of rows that differ, missing inputs, or predictions that this method
            cannot correct.
        """
        check_row_order(prediction=prediction, y=y, x=x, sample_weight=sample_weight)
        array = self._inputs(x, "fit", nan_policy)
        if array is not None:
            y = _with_missing(y, array)
        rows = read_rows(prediction, y, sample_weight, nan_policy)
        if array is None:
            self.learn(rows)
            return self
        if len(array) != rows.n:
            raise ValueError(
                f"x has {len(array)} rows and y has {rows.n}; one input per row is needed"
            )
        if self.needs_inputs:
            self.learn_at(rows, array if rows.valid is None else array[rows.valid])
        else:
            self.learn(rows)
        return self

    def transform(self, prediction: PredictionLike, x: ArrayLike | None = None) -> Predictive:
        """Return corrected predicted distributions.

        Parameters
        ----------
        prediction : Predictive or anything that converts to one
            Predicted distributions of the same model, for any rows.
        x : array_like (n, d) or (n,), optional
            Inputs of these rows, required if ``fit`` required inputs.

        Raises
        ------
        ValueError
            If ``fit`` has not been called, inputs are missing, or this method cannot correct the
            predictions.
        """
        self.check_fitted()
        array = self._inputs(x, "transform", "raise")
        predictive = to_predictive(prediction)
        if array is not None and len(array) != len(predictive):
            raise ValueError(
                f"x has {len(array)} rows and prediction has {len(predictive)}; one input per row is needed"
            )
        if self.needs_inputs and array is not None:
            return self.apply_at(predictive, array)
        return self.apply(predictive)

    def fit_transform(
        self,
        prediction: PredictionLike,
        y: ArrayLike,
        x: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        nan_policy: NanPolicy = "raise",
    ) -> Predictive:
        """Fit, and return the same predictions corrected; they look better than new predictions would."""
        self.fit(prediction, y, x, sample_weight=sample_weight, nan_policy=nan_policy)
        return self.transform(prediction, x)

    def _inputs(self, x: ArrayLike | None, method: str, nan_policy: str) -> Array | None:
        """Return checked inputs (n, d); they may hold NaN only if rows with NaN are left out."""
        if x is None:
            if self.needs_inputs:
                raise ValueError(
                    f"x is missing: {type(self).__name__} mends predictions input by input, so {method} "
                    "needs the inputs of the predictions, x (n, d)"
                )
            return None
        check_choice(nan_policy, "nan_policy", ("raise", "omit"))
        if nan_policy == "omit":
            inputs = as_array(x, "x").astype(np.float64)
            inputs = inputs[:, None] if inputs.ndim == 1 else inputs
            blank = np.asarray(np.isnan(inputs).any(axis=tuple(range(1, inputs.ndim))))
            as_rows(np.where(np.isnan(inputs), 0.0, inputs), "x")
            return np.where(blank[:, None], np.nan, inputs)
        return as_rows(x, "x").astype(np.float64)


def _with_missing(y: ArrayLike, x: Array) -> ArrayLike:
    """Return outcomes, set to NaN in rows whose inputs hold NaN."""
    blank = np.asarray(np.isnan(x).any(axis=1))
    if not blank.any():
        return y
    outcomes = as_array(y, "y").astype(np.float64)
    if len(outcomes) == len(blank):
        outcomes[blank] = np.nan
    return outcomes


def read_rows(
    prediction: PredictionLike, y: ArrayLike, sample_weight: ArrayLike | None, nan_policy: NanPolicy
) -> Outcomes:
    """Return the checked rows for ``fit``, which does not accept ``nan_policy="propagate"``."""
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    _refuse_classes(prediction, "prediction")
    return read(y, prediction, sample_weight, nan_policy)


def to_predictive(value: object, name: str = "prediction") -> Predictive:
    """Return predicted distributions of numbers, one per row of ``value``."""
    _refuse_classes(value, name)
    predictive = as_predictive(value, _rows(value), 1, name)
    if not len(predictive):
        raise ValueError(f"{name} has no rows; at least one is needed")
    return predictive


def _refuse_classes(prediction: object, name: str) -> None:
    """Raise an error for classes without an order: their numbers mean nothing."""
    if classes_of(prediction) is not None:
        raise ValueError(
            f"{name} is of classes, which have no order, no location and no spread; TemperatureScaling, of "
            "log probabilities and labels, recalibrates a classifier"
        )


def _rows(value: Any) -> int:
    """Return the number of rows of anything that converts to a `Predictive`."""
    if isinstance(value, Predictive):
        return len(value)
    if isinstance(value, tuple):
        return max((np.size(part) for part in value), default=0)
    if hasattr(value, "args") and hasattr(value, "kwds"):  # frozen scipy.stats
        return max((np.size(part) for part in (*value.args, *value.kwds.values())), default=1)
    if hasattr(value, "batch_shape"):  # of PyTorch, NumPyro, TensorFlow Probability
        return int(value.batch_shape[0]) if len(value.batch_shape) else 1
    if hasattr(value, "cdf") and callable(getattr(value, "mean", None)):  # other distributions
        return int(np.size(value.mean()))
    if getattr(value, "ndim", 1) == 0 or isinstance(value, type):
        return 1  # no rows: the conversion raises the error
    return (
        value.shape[0] if hasattr(value, "nnz") else len(value) if hasattr(value, "__len__") else 1
    )


def _shown_value(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    return f"{value:.6g}" if isinstance(value, float) else quote(value)
