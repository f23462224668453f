"""Every measure that applies to a prediction, in shared passes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.checks import as_array, check_choice, check_count, check_positive, check_same_length
from fastmcmd.estimator import ConditionalCongruence
from fastmcmd.evaluation.bootstrap import intervals
from fastmcmd.evaluation.context import Context, Settings
from fastmcmd.evaluation.measures import MEASURES, SCORES
from fastmcmd.evaluation.result import Evaluation, Measured
from fastmcmd.frames import row_labels
from fastmcmd.kernels import Kernel
from fastmcmd.metrics import adversarial_group_calibration
from fastmcmd.metrics.inputs import Outcomes, read
from fastmcmd.metrics.pit import PITS
from fastmcmd.predictive.base import Array
from fastmcmd.progress import Progress
from fastmcmd.rows import Rows

__all__ = ["evaluate"]


def evaluate(
    y: Any,
    prediction: Any,
    x: Any = None,
    *,
    sample_weight: Any = None,
    nan_policy: str = "raise",
    level: float = 0.9,
    bins: int = 10,
    binning: str = "mass",
    pit: str = "randomized",
    random_state: int | None = 0,
    adversarial: bool = False,
    n_boot: int = 0,
    confidence: float = 0.95,
    by: Any = None,
    x_kernel: Kernel | None = None,
    y_kernel: Kernel | None = None,
    lam: float = 0.1,
    draws: int | None = None,
    encoder: Callable[[Any], Any] | None = None,
    tol: float = 1e-6,
    solver: str = "auto",
    backend: str = "auto",
    dtype: Any = None,
    memory_limit: Any = None,
    certificate: str = "auto",
    progress: bool = False,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
) -> Evaluation:
    """Evaluate predicted distributions: accuracy, scores, calibration, sharpness, congruence.

    Parameters
    ----------
    y : array_like (n,) or (n, k)
        Observed outputs.
    prediction : Predictive or what converts to one
        Predicted distributions; as in `cce`.
    x : array_like (n, d) or (n,), or rows on disk, optional
        Inputs. With them the conditional congruence error is computed, too.
    sample_weight : array_like (n,), optional
        Nonnegative weights of rows.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows in which y, the weight or an array given as prediction is NaN: raise, leave
        them out, or let all numbers be NaN.
    level : float
        Level of the central interval whose coverage, width and score are told.
    bins : int
        Bins of ENCE, UCE and of the PIT histogram.
    binning : {"mass", "width"}
        Bins of predicted variance of equal count or equal width.
    pit : {"randomized", "mid", "plain"}
        See `pit_values`.
    random_state : int or None
        Source of randomised PITs, random groups and bootstrap samples.
    adversarial : bool
        Whether the worst random groups are looked for (`adversarial_group_calibration`), which takes
        longer than everything else.
    n_boot : int
        Bootstrap samples of rows for intervals of every number; 0 for none. The fit behind the CCE is
        kept: its interval is that of the mean over test points.
    confidence : float
        Level of these intervals, in (0, 1).
    by : array_like (n,), optional
        Labels of groups of rows, which are evaluated apart, too: by the scores and PIT values of all rows.
    x_kernel, y_kernel, lam, draws, encoder, tol, solver, backend, dtype, memory_limit, certificate
    devices, device_memory_limit
        As in `cce`.
    progress : bool
        Show what is done.

    Returns
    -------
    Evaluation
        ``evaluation["mean_crps"]``, ``.table()``, ``.to_dict()``, ``.to_frame()``, ``.curves``, ``.rows``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    Numbers are those of the functions of `fastmcmd.metrics` of the same names, at their defaults but
    for the arguments above. Moments, PIT values and their order are computed once.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 300)
    >>> y = x + 0.3 * rng.normal(size=300)
    >>> found = fm.evaluate(y, fm.Gaussian(x, 0.3), x)
    >>> found["mean_crps"] < fm.evaluate(y, fm.Gaussian(x, 1.0))["mean_crps"]
    True
    """
    start = time.perf_counter()
    check_choice(pit, "pit", PITS)
    check_choice(binning, "binning", ("mass", "width"))
    bins = check_count(bins, "bins")
    n_boot = check_count(n_boot, "n_boot", least=0)
    level, confidence = _share(level, "level"), _share(confidence, "confidence")
    outcomes = read(y, prediction, sample_weight, nan_policy, columns=None)
    labels = None if by is None else _labels(by, outcomes)
    settings = Settings(level, bins, binning, pit, random_state)
    told = Progress(progress, tol)
    congruence = None
    try:
        if x is not None:
            congruence = ConditionalCongruence(
                x_kernel=x_kernel, y_kernel=y_kernel, lam=lam, draws=draws, encoder=encoder,
                random_state=random_state, tol=tol, solver=solver, backend=backend, dtype=dtype,
                memory_limit=memory_limit, certificate=certificate, progress=progress,
                devices=devices, device_memory_limit=device_memory_limit,
            )  # fmt: skip
            inputs = _inputs(x, outcomes)
            congruence.fit(inputs, outcomes.y, outcomes.prediction, outcomes.weights)
        values = None if congruence is None else congruence.result_.values
        context = Context(outcomes, settings, values)
        measured, skipped = _measure(context, told)
        if n_boot:
            measured = intervals(context, measured, n_boot, confidence, random_state, told)
        curves = _curves(context)
        if adversarial and context.numbers:
            told.stage("random groups")
            curves["groups"] = adversarial_group_calibration(
                replace(context.rows, weights=None), None, random_state=random_state
            )
        parts = None
        if labels is not None:
            parts = _by_label(context, labels, told)
    finally:
        told.close()
    if outcomes.spoiled:
        measured = tuple(one.without_value() for one in measured)
    return Evaluation(
        measured=measured,
        curves=curves,
        rows=_rows(context),
        congruence=congruence,
        skipped=skipped,
        notes=_notes(context),
        n=outcomes.n,
        y=outcomes.y,
        x=None if congruence is None else inputs,
        prediction=outcomes.prediction,
        by=parts,
        settings={
            "level": settings.level, "bins": bins, "binning": binning, "pit": pit,
            "random_state": random_state, "nan_policy": nan_policy, "n_boot": n_boot,
            "confidence": confidence, "weighted": sample_weight is not None,
        },
        seconds=time.perf_counter() - start,
        labels=row_labels(y),
    )  # fmt: skip


def _share(value: Any, name: str) -> float:
    share = check_positive(value, name)
    if share >= 1:
        raise ValueError(f"{name} is {share:g}; a number in (0, 1) is needed")
    return share


def _labels(by: Any, outcomes: Outcomes) -> NDArray[Any]:
    labels = np.asarray(by)
    if labels.ndim != 1:
        raise ValueError(f"by has shape {labels.shape}; (n,) is needed: a label a row")
    if labels.dtype == object:  # as data frames hold text, and integers beside missing ones
        missing = [i for i, one in enumerate(labels) if not isinstance(one, (str, int))]
        if missing:
            raise ValueError(
                f"by has no label in row {missing[0]} ({labels[missing[0]]!r}); text or "
                "integers are needed"
            )
    if len(labels) != outcomes.n:
        raise ValueError(f"rows must match: y has {outcomes.n}, by has {len(labels)}")
    return labels if outcomes.kept is None else labels[outcomes.kept]


def _inputs(x: Any, outcomes: Outcomes) -> Any:
    """Return the inputs of the rows kept."""
    if outcomes.kept is None:
        return x
    if isinstance(x, (str, os.PathLike, Rows)):
        raise ValueError(
            "x is on disk and rows hold NaN; nan_policy='omit' needs x in memory, as an array"
        )
    rows = as_array(x, "x")
    check_same_length(x=rows, y=np.empty(outcomes.n))
    return rows[outcomes.kept]


def _measure(
    context: Context, told: Progress, of: str = ""
) -> tuple[tuple[Measured, ...], dict[str, str]]:
    measured, skipped = [], {}
    for one in MEASURES:
        reason = one.missing(context)
        if reason is not None:
            skipped[one.name] = reason
            continue
        told.stage(one.label + of)
        measured.append(Measured(one.name, one.compute(context), one.section, one.label, one.best))
    return tuple(measured), skipped


def _curves(context: Context) -> dict[str, Any]:
    if not context.numbers:
        return {}
    found: dict[str, Any] = {
        "reliability": context.reliability("quantile"),
        "reliability_interval": context.reliability("interval"),
        "pit": context.histogram,
    }
    if context.spread is None and np.isfinite(context.prediction.mean).all():
        found["variance"] = context.variance_curve
    return found


def _rows(context: Context) -> dict[str, Array]:
    """Return values by row, NaN in rows left out."""
    found: dict[str, Array] = {}
    if context.numbers:
        found["pit"] = context.pit
        found["crps"] = SCORES["crps"](context)
    if context.base.has_density:
        found["log_score"] = SCORES["log_score"](context)
    if context.cce is not None:
        found["cce"] = context.cce
    return {name: context.outcomes.scatter(values) for name, values in found.items()}


def _notes(context: Context) -> tuple[str, ...]:
    notes = []
    outcomes = context.outcomes
    if outcomes.kept is not None:
        left = outcomes.n - len(outcomes.kept)
        what = "every number is NaN" if outcomes.propagate else "they are left out"
        notes.append(f"{left:,} of {outcomes.n:,} rows hold NaN: {what}")
    if context.base.has_density:
        infinite = int(np.isinf(SCORES["log_score"](context)).sum())
        if infinite:
            what = "outcome has" if infinite == 1 else "outcomes have"
            notes.append(f"{infinite:,} {what} no probability under the prediction")
    return tuple(notes)


def _by_label(
    everything: Context, labels: NDArray[Any], told: Progress
) -> dict[Any, tuple[int, tuple[Measured, ...]]]:
    """Return rows and numbers of each group."""
    found = {}
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        context = everything.subset(rows)
        key = label.item() if isinstance(label, np.generic) else label
        found[key] = (len(rows), _measure(context, told, f", group {key}")[0])
    return found
