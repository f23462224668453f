"""Sums over the rows of each group and bin: the sums of any region are sums of these.

The page holds sums, not rows, so that its size does not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.report.bins import Axis
from fastmcmd.report.quantities import CLASS_BINS, LEVELS

__all__ = [
    "CellSums",
    "Groups",
    "ModelCellSums",
    "ModelRows",
    "RegionCells",
    "groups_of",
    "sums_over",
]

Array = NDArray[np.float64]

_SMALL_GROUPS = "other groups"


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows: the labels, and the index (n,) of each row's group."""

    labels: list[str]
    places: NDArray[np.integer]

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.labels)


def groups_of(labels: NDArray[np.generic] | None, n: int, most: int) -> Groups:
    """Return the groups with these labels (n,). The smallest are one group if there are too many."""
    if labels is None:
        return Groups([""], np.zeros(n, dtype=np.uint8))
    names, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(names) <= most:
        return Groups([str(name) for name in names], places.astype(np.uint8))
    largest = np.sort(np.argsort(-counts, kind="stable")[: most - 1])
    index = np.full(len(names), most - 1, dtype=np.uint8)
    index[largest] = np.arange(most - 1)
    return Groups([*(str(names[one]) for one in largest), _SMALL_GROUPS], index[places])


@dataclass(frozen=True, eq=False)
class ModelRows:
    """What is summed for a model.

    Attributes
    ----------
    quantities : ndarray (s, n)
        Per-row values whose means are numbers of the page.
    pit : ndarray (n,) of int or None
        Bin of each row's PIT.
    classes : (ndarray (n,) of int, ndarray (3, n)) or None
        Bin of the likeliest class's probability; hit, probability and variance of a hit.
    witness : ndarray (m, k) or None
        Witness of some rows, at k outcomes.
    """

    quantities: Array
    pit: NDArray[np.integer] | None
    classes: tuple[NDArray[np.integer], Array] | None
    witness: Array | None


@dataclass(frozen=True, eq=False)
class ModelCellSums:
    """Sums of `ModelRows` over each cell: (c, s), (c, 20), (c, 10, 4) with counts first, (c, k)."""

    quantities: Array
    pit: Array | None
    classes: Array | None
    witness: Array | None


@dataclass(frozen=True, eq=False)
class RegionCells:
    """The cells of an axis, or of two: each row is in one of ``count`` of them."""

    places: NDArray[np.integer]
    count: int

    @staticmethod
    def of(groups: Groups, axis: Axis) -> RegionCells:
        """Return the cells of groups and bins, group by group."""
        places = groups.places.astype(np.uint16) * np.uint16(len(axis)) + axis.places
        return RegionCells(places, len(groups) * len(axis))

    @staticmethod
    def of_plane(groups: Groups, across: Axis, up: Axis) -> RegionCells:
        """Return the cells of groups and of pairs of bins: group, then bin upwards, then bin across."""
        places = groups.places.astype(np.uint16) * np.uint16(len(up)) + up.places
        places = places * np.uint16(len(across)) + across.places
        return RegionCells(places, len(groups) * len(up) * len(across))


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums over each of c cells.

    Attributes
    ----------
    rows : ndarray (c,)
        Number of rows.
    weights : ndarray (c,)
        Sum of weights; the number of rows without weights.
    witness_rows : ndarray (c,)
        Number of the rows whose witness is summed.
    models : list of ModelCellSums
    """

    rows: NDArray[np.int64]
    weights: Array
    witness_rows: NDArray[np.int64]
    models: list[ModelCellSums]


def sums_over(
    cells: RegionCells,
    models: list[ModelRows],
    weights: Array | None,
    witness_places: NDArray[np.intp],
) -> CellSums:
    """Return the sums over each cell.

    Parameters
    ----------
    cells : RegionCells
        The cell of each row.
    models : list of ModelRows
        What is summed.
    weights : ndarray (n,) or None
        Weights of the rows.
    witness_places : ndarray (m,)
        The rows whose witness there is.
    """
    places, count = cells.places, cells.count

    def total(values: Array | None, at: NDArray[np.integer] = places, size: int = count) -> Array:
        return np.bincount(at, values, size).astype(np.float64, copy=False)

    rows = total(None).astype(np.int64)
    some = places[witness_places]
    return CellSums(
        rows=rows,
        weights=rows.astype(np.float64) if weights is None else total(weights),
        witness_rows=np.bincount(some, minlength=count),
        models=[_of_model(one, places, count, weights, some, total) for one in models],
    )


def _of_model(
    model: ModelRows,
    places: NDArray[np.integer],
    count: int,
    weights: Array | None,
    some: NDArray[np.integer],
    total: Callable[..., Array],
) -> ModelCellSums:
    def weighted(values: Array) -> Array:
        return values if weights is None else values * weights

    quantities = np.array([total(weighted(one)) for one in model.quantities]).reshape(-1, count).T
    pit = classes = witness = None
    if model.pit is not None:
        code = places.astype(np.intp) * LEVELS + model.pit
        pit = total(weights, code, count * LEVELS).reshape(count, LEVELS)
    if model.classes is not None:
        bins, values = model.classes
        code = places.astype(np.intp) * CLASS_BINS + bins
        parts = [total(weights, code, count * CLASS_BINS)]
        parts += [total(weighted(one), code, count * CLASS_BINS) for one in values]
        classes = np.stack(parts, axis=1).reshape(count, CLASS_BINS, len(parts))
    if model.witness is not None:
        witness = np.array([np.bincount(some, one, count) for one in model.witness.T]).T
    return ModelCellSums(quantities, pit, classes, witness)
