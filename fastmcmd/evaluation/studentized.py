"""Studentised bootstrap intervals of measures that follow from means over rows (bootstrap-t).

Losses by row are skewed, and percentiles of resampled means then miss the truth on one side. The ratio of a
difference to its own standard error hardly depends on the distribution of losses: its quantiles over
bootstrap samples replace those of the normal distribution (Hall, *Theoretical Comparison of Bootstrap
Confidence Intervals*, Annals of Statistics, 1988).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.rowwise import OfMeans, of_means
from fastmcmd.predictive.base import Array

__all__ = ["Means", "studentized"]

_ROUNDING = 1e-13  # of a mean: a column that scatters less is constant
_STEP = 1e-6  # of the scatter of a column, for derivatives


class Means:
    """Measures of an evaluation that follow from means over rows, for any weights of them.

    Attributes
    ----------
    names : list of str
        Those of the requested names that are such measures.
    """

    def __init__(self, context: Context, names: Sequence[str]) -> None:
        distances = {
            name: measure for name in names if (measure := of_means(name, context)) is not None
        }
        self.names = list(distances)
        self._measures = list(distances.values())
        self._weights = context.weights
        self._n = len(context.y)
        columns = [column for one in self._measures for column in one.columns]
        self._rows = np.array(columns, dtype=np.float64).reshape(len(columns), self._n)
        self._centre = self._rows.mean(axis=1)
        self._rows -= self._centre[:, None]  # squares lose no digits to a large mean
        self._scale = self._rows.std(axis=1)
        same = self._scale <= _ROUNDING * np.abs(
            self._centre
        )  # the mean of equal numbers is rounded
        self._rows[same], self._scale[same] = 0.0, 0.0

    def whole(self) -> tuple[Array, Array]:
        """Return values and standard errors of all rows."""
        return self.sample(np.ones(self._n))

    def sample(self, counts: Array) -> tuple[Array, Array]:
        """Return values and standard errors where each row counts so many times."""
        weights = counts if self._weights is None else counts * self._weights
        squared = weights if self._weights is None else weights * self._weights
        total = float(weights.sum())
        shifts = self._rows @ weights / total
        means = self._centre + shifts
        firsts = self._rows @ squared
        seconds = np.einsum("kn,kn,n->k", self._rows, self._rows, squared)
        scatter = seconds - 2 * shifts * firsts + shifts**2 * squared.sum()
        values, errors = np.empty(len(self.names)), np.empty(len(self.names))
        start = 0
        for place, one in enumerate(self._measures):
            part = slice(start, start + len(one.columns))
            start = part.stop
            values[place] = one.finish(means[part].tolist(), total)
            slope = _slope(one, means[part], self._scale[part], total)
            if len(slope) == 1:
                variance = slope[0] ** 2 * scatter[part][0]
            else:
                linear = slope @ self._rows[part] - slope @ shifts[part]
                variance = float(squared @ linear**2)
            errors[place] = np.sqrt(max(variance, 0.0)) / total
        return values, errors


def _slope(one: OfMeans, means: Array, scale: Array, total: float) -> Array:
    """Return derivatives of a measure with respect to its means."""
    out = np.zeros(len(means))
    for k, step in enumerate(_STEP * scale):
        if step > 0:
            up, down = means.copy(), means.copy()
            up[k] += step
            down[k] -= step
            rise = one.finish(up.tolist(), total) - one.finish(down.tolist(), total)
            out[k] = rise / (up[k] - down[k])
    return out


def studentized(
    value: float, error: float, values: Array, errors: Array, confidence: float
) -> tuple[float, float] | None:
    """Return the interval of a number from values and standard errors of bootstrap samples.

    None where a sample has none: too few different rows.
    """
    if error == 0 and (values == value).all():
        return value, value
    moved = values - value
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(moved == 0, 0.0, moved / errors)
    if not np.isfinite(ratios).all():
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail], method="weibull")
    return value - max(float(high), 0.0) * error, value - min(float(low), 0.0) * error
