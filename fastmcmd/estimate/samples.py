"""Samples and kernels of a CCE, from the caller's inputs, outcomes and predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Encoder, HostArray, InputsLike, RandomState
from fastmcmd._base.checks import (
    as_rows,
    as_weights,
    check_callable,
    check_count,
    check_same_length,
)
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.embedding.sample import DrawnOutputs, Outputs, PredictedOutputs, Sample
from fastmcmd.estimate.arguments import (
    inputs,
    prepared_inputs,
    resolved_kernels,
    scaled_inputs,
)
from fastmcmd.kernels import Kernel, scales_of
from fastmcmd.options import Options
from fastmcmd.predictive import Categorical, Draws, Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.adapters.outcome_checks import far_outcomes
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered
from fastmcmd.rows import Rows

__all__ = ["Problem", "encoded", "encoded_inputs", "problem_of"]


def encoded(x: InputsLike | Rows, encoder: Encoder | None) -> InputsLike | Rows:
    """Return ``encoder(x)``, or ``x`` if there is none."""
    if encoder is None:
        return x
    check_callable(encoder, "encoder", 1, "a callable that maps inputs to an array")
    return encoder(x)


def encoded_inputs(
    value: InputsLike,
    encoder: Encoder | None,
    name: str,
    options: Options,
    columns: int | None = None,
) -> HostArray | Rows:
    """Return checked inputs, encoded if there is an encoder; messages name the argument at fault."""
    description = name if encoder is None else f"encoder({name})"
    return inputs(encoded(value, encoder), description, options, columns)


@dataclass(frozen=True, eq=False)
class Problem:
    """The checked data and kernels of a CCE.

    Attributes
    ----------
    nature : Sample
        Inputs and observed outcomes.
    models : list of Sample
        The same inputs with the outcomes of each prediction.
    x_kernel, y_kernel : Kernel
        Resolved kernels, for inputs and outcomes as the samples hold them.
    scales : tuple of float (d,) or None
        Factors of the columns of the caller's inputs.
    grid : ndarray (q, d) or Rows
        Points to score, with the same scales; the inputs themselves by default.
    options : Options
        Options of the computation, with landmarks scaled alike.
    suspicions : list of list of str
        Remarks on what looks wrong about each prediction.
    """

    nature: Sample
    models: list[Sample]
    x_kernel: Kernel
    y_kernel: Kernel
    scales: tuple[float, ...] | None
    grid: HostArray | Rows
    options: Options
    suspicions: list[list[str]]

    @property
    def kernels(self) -> tuple[Kernel, Kernel]:
        """Both kernels."""
        return self.x_kernel, self.y_kernel


def problem_of(
    x: HostArray | Rows,
    y: ArrayLike,
    predictions: Iterable[PredictionLike],
    x_kernel: Kernel | str | None,
    y_kernel: Kernel | str | None,
    lam: float | str | None,
    draws: int | None,
    weights: ArrayLike | None,
    random_state: RandomState,
    options: Options,
    grid: HostArray | Rows | None = None,
) -> Problem:
    """Check the caller's arguments, choose the kernels, and return the problem.

    Inputs and outcomes determine the kernels, which are thus the same for every prediction. Outcomes are
    classes if any prediction is `Categorical`. The caller has already checked and encoded ``x`` and
    ``grid``.
    """
    check_order(y, "(x, y, prediction)")
    predictions = list(predictions)
    for one in predictions:
        y = numbered(y, one)
    observed = as_rows(y, "y")
    check_same_length(x=x, y=observed)
    predictives = [as_predictive(p, *observed.shape, y=y, x=x) for p in predictions]
    suspicions = [_suspicions(observed, one) for one in predictives]
    masses = as_weights(weights, "weights", len(x))
    classes = any(isinstance(one, Categorical) for one in predictives)
    x_kernel, y_kernel, lam = chosen_kernels(
        x, observed, x_kernel, y_kernel, lam, classes=classes, weights=masses,
        memory_limit=options.memory_limit,
    )  # fmt: skip
    scales = scales_of(x_kernel)
    points = x if grid is None else grid
    x_kernel, options, (x, points) = scaled_inputs(x_kernel, options, x=x, at=points)
    x, points = prepared_inputs(x_kernel, x=x, at=points)
    (observed,) = prepared_inputs(y_kernel, y=observed)
    outputs = [_predicted_outputs(one, draws, random_state) for one in predictives]
    outputs = [_prepared_outputs(y_kernel, side) for side in outputs]
    kernels = resolved_kernels(x_kernel, y_kernel, x, observed)
    nature = Sample(x, DrawnOutputs(observed[:, None, :]), masses, lam)
    models = [Sample(x, side, masses, lam, nature) for side in outputs]
    return Problem(nature, models, *kernels, scales, points, options, suspicions)


def _suspicions(y: HostArray, prediction: Predictive) -> list[str]:
    """Return notes on outcomes (n, k) that are far from every prediction."""
    if y.shape[1] > 1 or isinstance(prediction, Categorical):
        return []
    return far_outcomes(np.asarray(y[:, 0], dtype=np.float64), prediction)


def _predicted_outputs(
    predictive: Predictive, draws: int | None, random_state: RandomState
) -> Outputs:
    """Return the outputs of the model: draws, or distributions that are used exactly."""
    n, columns = len(predictive), predictive.columns
    draws = check_count(draws, "draws", optional=True)
    if draws is None:
        if isinstance(predictive, Draws):
            return DrawnOutputs(predictive.array.reshape(n, -1, columns))
        return PredictedOutputs(predictive)
    rng = generator(random_state, Purpose.CCE)
    return DrawnOutputs(
        np.asarray(predictive.sample(draws, rng), dtype=np.float64).reshape(n, -1, columns)
    )


def _prepared_outputs(kernel: Kernel | None, outputs: Outputs) -> Outputs:
    """Return draws in the form that the output kernel needs; distributions unchanged."""
    if not isinstance(outputs, DrawnOutputs):
        return outputs
    flat = outputs.flat
    (values,) = prepared_inputs(kernel, prediction=flat)
    if values is flat:
        return outputs
    return DrawnOutputs(values.reshape(outputs.values.shape), outputs.weights)
