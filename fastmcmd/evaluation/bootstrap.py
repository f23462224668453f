"""Intervals of all numbers of an evaluation, from bootstrap samples of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.measures import MEASURES
from fastmcmd.evaluation.result import Measured
from fastmcmd.progress import Progress

__all__ = ["intervals"]

_REFERENCES = ("null_ence",)  # what others are held against: no estimates


def intervals(
    context: Context,
    measured: tuple[Measured, ...],
    n_boot: int,
    confidence: float,
    random_state: Any,
    told: Progress,
) -> tuple[Measured, ...]:
    """Return the numbers with percentile intervals (Efron 1979).

    A sample of n rows with replacement is a weight for each row, so what was computed by row serves
    all samples.
    """
    computes = {one.name: one.compute for one in MEASURES}
    rng = np.random.default_rng(random_state)
    n = len(context.y)
    found = np.empty((n_boot, len(measured)))
    sweep = told.sweep("bootstrap", n_boot, unit="samples")
    for sample in range(n_boot):
        counts = np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)
        if context.weights is not None:
            counts *= context.weights
        again = context.reweighted(counts)
        found[sample] = [computes[one.name](again) for one in measured]
        sweep.done(sample + 1)
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):  # a score may be infinite in some samples
        low, high = np.quantile(found, [tail, 1 - tail], axis=0)
    return tuple(
        one if one.name in _REFERENCES else replace(one, low=float(a), high=float(b))
        for one, a, b in zip(measured, low, high, strict=True)
    )
