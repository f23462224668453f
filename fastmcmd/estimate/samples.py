"""Both samples of a CCE, checked, from what a person passes as inputs, outcomes and prediction."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Encoder, HostArray, InputsLike, RandomState
from fastmcmd._base.checks import (
    as_rows,
    as_weights,
    check_callable,
    check_count,
    check_lam,
    check_same_length,
)
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.embedding.sample import DrawnOutputs, Outputs, PredictedOutputs, Sample
from fastmcmd.estimate.arguments import default_kernels, inputs, prepared_inputs
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.predictive import Draws, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import Array, PredictionLike
from fastmcmd.rows import Rows

__all__ = ["encoded", "encoded_inputs", "samples_of", "samples_of_all"]


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
    """Return checked inputs, encoded if there is an encoder; messages name the culprit."""
    description = name if encoder is None else f"encoder({name})"
    return inputs(encoded(value, encoder), description, options, columns)


def samples_of(
    x: HostArray | Rows,
    y: ArrayLike,
    prediction: PredictionLike,
    x_kernel: Kernel | None,
    y_kernel: Kernel | None,
    lam: float,
    draws: int | None,
    weights: ArrayLike | None,
    random_state: RandomState,
) -> tuple[Sample, Sample, tuple[Kernel, Kernel]]:
    """Check the caller's arguments, and return both samples and the resolved kernels."""
    nature, (model,), kernels = samples_of_all(
        x, y, [prediction], x_kernel, y_kernel, lam, draws, weights, random_state
    )
    return nature, model, kernels


def samples_of_all(
    x: HostArray | Rows,
    y: ArrayLike,
    predictions: Iterable[PredictionLike],
    x_kernel: Kernel | None,
    y_kernel: Kernel | None,
    lam: float,
    draws: int | None,
    weights: ArrayLike | None,
    random_state: RandomState,
) -> tuple[Sample, list[Sample], tuple[Kernel, Kernel]]:
    """Check the caller's arguments, and return the sample of nature, those of models, resolved kernels."""
    check_order(y, "(x, y, prediction)")
    observed = as_rows(y, "y")
    check_same_length(x=x, y=observed)
    (observed,) = prepared_inputs(y_kernel, y=observed)
    outputs = [_predicted_outputs(p, observed, draws, random_state) for p in predictions]
    outputs = [_prepared_outputs(y_kernel, each) for each in outputs]
    masses = as_weights(weights, "weights", len(x))
    lam = check_lam(lam)
    kernels = default_kernels(x_kernel, y_kernel, x, observed)
    nature = Sample(x, DrawnOutputs(observed[:, None, :]), masses, lam)
    return nature, [Sample(x, each, masses, lam, nature) for each in outputs], kernels


def _predicted_outputs(
    prediction: PredictionLike, y: Array, draws: int | None, random_state: RandomState
) -> Outputs:
    """Return the outputs of the model's side: draws, or distributions used exactly."""
    n, columns = y.shape
    predictive = as_predictive(prediction, n, columns, y=y)
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
    """Return draws as the output kernel takes them; distributions as they are."""
    if isinstance(outputs, DrawnOutputs):
        (flat,) = prepared_inputs(kernel, prediction=outputs.flat)
        return DrawnOutputs(flat.reshape(outputs.values.shape), outputs.weights)
    return outputs
