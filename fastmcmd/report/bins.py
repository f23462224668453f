"""Bins of the quantities by which rows of a report are chosen: regions are runs of bins.

Edges are decimal numbers with few digits, so that a region reads as it is computed: "20 <= age < 45".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.plots.inputs import some

__all__ = ["Axis", "axis_of"]

Array = NDArray[np.float64]

_SAMPLE = 100_000  # rows from which edges are chosen
_FIRST = 2_000  # of them that mostly show that values are many
_TAIL = 0.005  # share of rows beyond the outermost edges, at each end
_CROWDED = 0.5  # share of rows in one bin of equal width from which bins have equal counts instead
_DIGITS = 4  # of edges between bins of equal counts
_NOISE = 1e-7  # of the range: a value nearer to 0 is written as 0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, eq=False)
class Axis:
    """The bins of one quantity.

    Attributes
    ----------
    name : str
        Name of the quantity.
    edges : ndarray (b - 1,)
        Inner edges, ascending: bin k holds values v with ``edges[k - 1] <= v < edges[k]``.
    places : ndarray (n,) of int
        Bin of each row.
    values : ndarray (b,) or None
        The value of each bin, if the quantity has as many distinct values as bins.
    ends : (float, float)
        Smallest and largest value.
    labels : tuple of str, optional
        Names of distinct values, such as classes.
    """

    name: str
    edges: Array
    places: NDArray[np.integer]
    values: Array | None
    ends: tuple[float, float]
    labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of bins."""
        return len(self.edges) + 1

    @property
    def texts(self) -> list[str]:
        """The edges as text; of distinct values, the values."""
        if self.labels and self.values is not None:
            return [self.labels[int(value)] for value in self.values]
        if self.values is not None:
            noise = _NOISE * (self.ends[1] - self.ends[0])
            return [f"{0.0 if abs(value) < noise else value:.6g}" for value in self.values]
        return [f"{edge:.12g}" for edge in self.edges]


def axis_of(name: str, values: Array, most: int) -> Axis | None:
    """Return the bins of a quantity with values (n,): at most ``most``, or None if it is constant.

    Distinct values, if they are that few, have a bin each. Otherwise bins have equal widths, and those at
    the ends are open; if half of all rows would fall into one of them, they have equal counts.
    """
    sample = values[some(len(values), _SAMPLE)]
    ends = float(values.min()), float(values.max())
    if not np.isfinite(ends).all() or ends[0] == ends[1]:
        return None
    if all(len(np.unique(part)) <= most for part in (sample[:_FIRST], sample)):
        distinct = np.unique(values)  # all of them, not only those of the sample
        if len(distinct) <= most:
            return _axis(name, values, distinct[1:], distinct, ends)
    edges = _equal_widths(sample, most)
    shares = np.bincount(np.searchsorted(edges, sample, side="right")) / len(sample)
    if shares.max() > _CROWDED:
        edges = _equal_counts(sample, most)
    edges = edges[(edges > ends[0]) & (edges <= ends[1])]
    return _axis(name, values, edges, None, ends) if edges.size else None


def _axis(
    name: str, values: Array, edges: Array, distinct: Array | None, ends: tuple[float, float]
) -> Axis:
    places = np.searchsorted(edges, values, side="right").astype(np.uint8)
    return Axis(name, edges, places, distinct, ends)


def _equal_widths(sample: Array, most: int) -> Array:
    """Return edges at multiples of a round step, for at most ``most`` bins."""
    low, high = np.quantile(sample, [_TAIL, 1 - _TAIL])
    if not high > low:
        return np.empty(0)
    least = (high - low) / max(most - 2, 1)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in _STEPS if factor * power >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # As text and back: the number that the page shows is the edge itself.
    return np.unique([float(f"{number * step:.12g}") for number in range(first, last + 1)])


def _equal_counts(sample: Array, most: int) -> Array:
    """Return edges between about equally many rows, rounded to few digits."""
    quantiles = np.quantile(sample, np.linspace(0, 1, most + 1)[1:-1])
    return np.unique([float(f"{edge:.{_DIGITS}g}") for edge in quantiles])
