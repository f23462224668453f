"""The tolerance that the noise of the data asks for: no digits that a repetition would change anyway."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.embedding.sample import Sample
from fastmcmd.inference.chance import Chance
from fastmcmd.kernels import Kernel

__all__ = ["MANY_ROWS", "noise_tolerance"]

MANY_ROWS = 10_000  # rows up to which the usual tolerance takes a second or less
_SHARE = 0.01  # of the standard deviation of the CCE at a point
_LEVEL = 0.1  # quantile of these standard deviations over points
_MOST = 1e-4  # largest tolerance
_ROWS, _POINTS = 1_000, 200  # rows and points that the noise is estimated from
_MATRICES = 4  # matrices of these rows in memory at once


def noise_tolerance(
    nature: Sample,
    models: Sequence[Sample],
    x_kernel: Kernel,
    y_kernel: Kernel,
    usual: float,
    memory_limit: int,
) -> float:
    """Return a hundredth of the standard deviation of the CCE at a point if the model is right.

    The standard deviation is estimated from at most 1,000 random rows: their coefficients at another point
    stand for those of all rows, which are as many times smaller as there are more rows. It differs from
    point to point; this function takes a small one (the tenth part is smaller), and the smallest of all
    models. The result has one digit, so that small changes of the data do not change it. It is at least
    ``usual`` and at most 1e-4.

    Parameters
    ----------
    nature : Sample
        Inputs and outcomes.
    models : sequence of Sample
        The same inputs with predictions.
    x_kernel, y_kernel : Kernel
        Resolved kernels.
    usual : float
        The tolerance for up to 10,000 rows, and if the noise is unknown: predictions without a spread.
    memory_limit : int
        Bytes that the estimate may use.
    """
    n = len(nature)
    if n <= MANY_ROWS:
        return usual
    rows = np.arange(n) if nature.weights is None else np.flatnonzero(nature.weights > 0)
    count = min(_ROWS, len(rows) // 2, int(math.sqrt(memory_limit / (8 * _MATRICES))))
    if count < 2:
        return usual
    rng = generator(n, Purpose.CHANCE)
    some = rng.choice(rows, min(len(rows), count + _POINTS), replace=False)
    inner, points = np.sort(some[:count]), np.sort(some[count:])
    part = _of_rows(nature, inner)
    tolerance = _MOST
    for model in models:
        chance = Chance(part, _of_rows(model, inner, part), x_kernel, y_kernel, nature.x[points])
        if chance.reason or "variances" not in chance.norms:
            return usual
        try:
            deviations = chance.right_deviations * math.sqrt(count / len(rows))
        except np.linalg.LinAlgError:  # the solver has another precision, and says what is wrong
            return usual
        share = _SHARE * float(np.quantile(deviations, _LEVEL))
        if not share > usual:  # also true of a NaN
            return usual
        tolerance = min(tolerance, share)
    digit = 10.0 ** math.floor(math.log10(tolerance))
    return max(usual, float(f"{math.floor(tolerance / digit * (1 + 1e-12)) * digit:.0e}"))


def _of_rows(sample: Sample, rows: NDArray[np.intp], twin: Sample | None = None) -> Sample:
    weights = None if sample.weights is None else sample.weights[rows]
    return Sample(sample.x[rows], sample.all_outputs.take(rows), weights, sample.lam, twin)
