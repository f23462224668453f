"""`evaluate`: every measure that applies to one prediction, or to several of the same outcomes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from fastmcmd._base.annotations import (
    CertificateName,
    Encoder,
    FilePath,
    HostArray,
    InputsLike,
    MemoryLimit,
    RandomState,
    SolverName,
)
from fastmcmd._base.blockwise import is_blockwise, on_blocks
from fastmcmd._base.ignored import AllIgnoredError
from fastmcmd._base.names import name_list
from fastmcmd._base.progress import Progress
from fastmcmd.errors import RowError
from fastmcmd.evaluation.config import EvaluationConfig, inputs_of
from fastmcmd.evaluation.measuring import check_some_row, evaluation_of
from fastmcmd.evaluation.outcomes import read_outcomes
from fastmcmd.evaluation.result import Evaluation
from fastmcmd.frames import check_row_order, input_names
from fastmcmd.kernels.base import KernelLike
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import classes_of

__all__ = ["evaluate", "evaluate_many"]


def evaluate(
    y: ArrayLike,
    prediction: PredictionLike,
    x: InputsLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    nan_policy: str = "raise",
    level: float = 0.9,
    bins: int = 10,
    binning: str = "mass",
    pit: str = "randomized",
    random_state: RandomState = 0,
    adversarial: bool = False,
    n_boot: int = 0,
    confidence: float = 0.95,
    by: ArrayLike | None = None,
    test: bool | None = None,
    ignore_index: int | str | None = None,
    measures: Sequence[str] | None = None,
    x_kernel: KernelLike = None,
    y_kernel: KernelLike = None,
    lam: float | str | None = None,
    draws: int | None = None,
    encoder: Encoder | None = None,
    tol: float | None = None,
    solver: SolverName = "auto",
    backend: str = "auto",
    dtype: DTypeLike | None = None,
    memory_limit: MemoryLimit = None,
    certificate: CertificateName = "auto",
    progress: bool = False,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
    checkpoint: FilePath | None = None,
    client: object = None,
) -> Evaluation:
    """Return all measures of predicted distributions: accuracy, scores, calibration, sharpness, congruence.

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs.
    prediction : Predictive or anything that converts to one
        Predicted distributions, as in `cce`.
    x : array_like (n, d) or (n,), or rows on disk, optional
        Inputs. If passed, the conditional congruence error is computed as well.
    sample_weight : array_like (n,), optional
        Nonnegative weights of rows.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows in which x, y, the weight or an array of the prediction is NaN: raise an error,
        leave them out, or return NaN for all numbers, and for those of each group with such a row. NaN in
        an x that is on disk, or that an encoder reads, is left to their readers.
    level : float
        Level of the central interval whose coverage, width and score are computed.
    bins : int
        Number of bins of ENCE, UCE and the PIT histogram.
    binning : {"mass", "width"}
        Whether bins of predicted variance have equal count or equal width.
    pit : {"randomized", "mid", "plain"}
        PIT of outcomes with positive probability; see `pit_values`.
    random_state : int, numpy.random.SeedSequence, numpy.random.Generator or None
        Seed of randomised PITs, simulated null expectations, draws, random groups and bootstrap samples.
        Each uses a separate stream, and none repeats the numbers of your ``default_rng(seed)``.
    adversarial : bool
        Whether to search for the worst random groups (`adversarial_group_calibration`). This takes longer
        than everything else.
    n_boot : int
        Number of bootstrap samples of rows for confidence intervals; 0 computes none. Intervals of means,
        R², the correlation and the RMSE are studentised, that of the median absolute error is a percentile
        interval, and that of the coverage is Wilson's. For ECE and similar measures, which cannot be
        negative, the interval is the number plus and minus the bound of the triangle inequality, cut at 0.
        Numbers whose interval would not reach its level, such as the mean and largest CCE, have none; the
        documentation lists the measured coverage.
    confidence : float
        Level of these intervals, in (0, 1).
    by : array_like (n,), optional
        Labels of groups of rows. Each group is also evaluated separately, from the scores and PIT values of
        all rows.
    test : bool, optional
        Whether to test if the prediction is wrong beyond chance (`congruence_test`, 199 simulations). The
        result is the first printed line. Default (None): test if inputs are in memory and need no encoder,
        and there are at most 10,000 rows.
    ignore_index : int or str, optional
        For predictions of named classes: label of rows to leave out. It need not be a class.
    measures : sequence of str, optional
        Names of measures to add to the usual ones: "gaussian_kernel_score", "quadratic_score",
        "linearized_log_score", and, for draws, "error_spread_score" and "ensemble_log_score".
    x_kernel, y_kernel, lam, draws, encoder, solver, backend, dtype, memory_limit, certificate
    devices, device_memory_limit
        As in `cce`.
    tol : float, optional
        Largest allowed error of a value of the CCE. Default: 1e-6 for up to 10,000 rows, and beyond a
        hundredth of the standard deviation that chance gives the values of a right model, from 1e-6 to 1e-4
        (``evaluation.congruence.result_.tol``).
    progress : bool
        Whether to show progress.
    checkpoint, client
        For Dask collections only, as in `cce`; see `fastmcmd.distributed`.

    Returns
    -------
    Evaluation
        All numbers, by name (``evaluation["mean_crps"]``), as ``.table()``, ``.to_dict()`` or
        ``.to_frame()``; with ``.test``, ``.curves`` and per-row values in ``.rows``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    Each number equals that of the function of `fastmcmd.metrics` with the same name, with default arguments
    except for those above. Moments, PIT values and their order are computed once.

    Examples
    --------
    A model with the right mean claims more than twice the right spread.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 300)
    >>> y = x + 0.3 * rng.normal(size=300)
    >>> evaluation = fm.evaluate(y, fm.Gaussian(x, 0.7), x)
    >>> print(evaluation.sentence.split(";")[0])
    The model is wrong beyond chance (p = 0.005): its spread is 2.4 times too wide

    A single number by its name; the right model has a smaller CRPS:

    >>> round(evaluation["crps"], 3), round(fm.evaluate(y, fm.Gaussian(x, 0.3))["crps"], 3)
    (0.21, 0.163)

    `measures` adds scores by name:

    >>> more = fm.evaluate(y, fm.Gaussian(x, 0.3), measures=["quadratic_score"])
    >>> round(more["quadratic_score"], 3)
    -0.983
    """
    if is_blockwise(y, prediction, x, sample_weight, by, client=client):
        return on_blocks("evaluate", locals())
    if checkpoint is not None:
        raise ValueError(
            "checkpoint is given, and no argument is a Dask collection, which needs one"
        )
    start = time.perf_counter()
    config = EvaluationConfig.of(
        sample_weight=sample_weight, nan_policy=nan_policy, level=level, bins=bins, binning=binning,
        pit=pit, random_state=random_state, adversarial=adversarial, n_boot=n_boot,
        confidence=confidence, by=by, test=test, ignore_index=ignore_index, measures=measures,
        x_kernel=x_kernel, y_kernel=y_kernel, lam=lam, draws=draws,
        encoder=encoder, tol=tol, solver=solver, backend=backend, dtype=dtype,
        memory_limit=memory_limit, certificate=certificate, progress=progress, devices=devices,
        device_memory_limit=device_memory_limit,
    )  # fmt: skip
    check_row_order(y=y, x=x, prediction=prediction, by=by)
    outcomes = read_outcomes(y, prediction, x, config)
    labels, names = config.labels(outcomes), input_names(x)
    options = config.congruence.options()  # checked even though without x they are not used
    with Progress(options.progress, options.tol) as progress_line:
        congruence, failure = None, ""
        if x is not None:
            x = inputs_of(x, outcomes, config.congruence.encoder)
            try:
                check_some_row(outcomes)
                congruence = config.congruence.fit(
                    x, outcomes.y, outcomes.prediction, outcomes.weights
                )
            except config.skippable as error:
                failure = str(error)
        evaluation = evaluation_of(
            y, outcomes, config, labels, x, congruence, progress_line, start, failure
        )
        return replace(evaluation, column_names=names)


def evaluate_many(
    y: ArrayLike,
    models: Mapping[str, PredictionLike],
    x: InputsLike | None,
    config: EvaluationConfig,
) -> dict[str, Evaluation]:
    """Return the evaluation of each model's prediction, equal to that of `fastmcmd.evaluate`.

    Raises
    ------
    ValueError, TypeError
        If an argument is not as described; the message names the model. Also if predictions hold NaN in
        different rows.
    """
    start = time.perf_counter()
    by_model = {f"models[{name!r}]": prediction for name, prediction in models.items()}
    check_row_order(y=y, x=x, by=config.by, **by_model)
    outcomes = {
        name: _outcomes_of(y, name, prediction, x, config) for name, prediction in models.items()
    }
    first = next(iter(outcomes.values()))
    for name, one in outcomes.items():
        if not _same(one.valid, first.valid):
            raise ValueError(
                f"models[{name!r}] holds NaN in other rows than the first model: numbers over "
                "different rows cannot be compared"
            )
    _check_same_classes({name: one.prediction for name, one in outcomes.items()})
    labels, names = config.labels(first), input_names(x)
    options = config.congruence.options()
    evaluations: dict[str, Evaluation] = {}
    with Progress(options.progress, options.tol) as progress_line:
        congruences, failure = {}, ""
        if x is not None:
            x = inputs_of(x, first, config.congruence.encoder)
            predictions = {name: one.prediction for name, one in outcomes.items()}
            try:
                check_some_row(first)
                congruences = config.congruence.fit_each(x, first.y, predictions, first.weights)
            except config.skippable as error:
                failure = str(error)
        common_seconds = time.perf_counter() - start
        for name, one in outcomes.items():
            progress_line.under(name)
            model_start = time.perf_counter() - common_seconds
            congruence = congruences.get(name)
            evaluation = evaluation_of(
                y, one, config, labels, x, congruence, progress_line, model_start, failure
            )
            evaluations[name] = replace(evaluation, column_names=names)
        progress_line.under("")
    return evaluations


def _outcomes_of(
    y: ArrayLike,
    name: str,
    prediction: PredictionLike,
    x: InputsLike | None,
    config: EvaluationConfig,
) -> Outcomes:
    try:
        return read_outcomes(y, prediction, x, config)
    except AllIgnoredError:
        raise
    except (TypeError, ValueError) as error:
        in_model = type(error)(f"models[{name!r}]: {error}")
        if isinstance(error, RowError) and isinstance(in_model, RowError):
            in_model.row = error.row
        raise in_model from None


def _check_same_classes(predictions: Mapping[str, Predictive]) -> None:
    """Refuse classes in another order: an outcome would be another number for each model."""
    classes = {name: classes_of(one) for name, one in predictions.items()}
    first, *other_names = classes
    for name in other_names:
        if classes[name] != classes[first]:
            raise ValueError(
                f"models[{name!r}] predicts classes {_classes_text(classes[name])} and models[{first!r}] "
                f"{_classes_text(classes[first])}; the same names in the same order are needed"
            )


def _classes_text(classes: tuple[str, ...] | None) -> str:
    return "that are numbers" if classes is None else name_list(classes)


def _same(values: HostArray | None, other_values: HostArray | None) -> bool:
    if values is None or other_values is None:
        return values is other_values
    return np.array_equal(values, other_values)
