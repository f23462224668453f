"""A summary of each row, computed in one pass over the probabilities and shared by several metrics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd import _core
from fastmcmd.classification.bins import ClassBins
from fastmcmd.classification.inputs import LabelledRows
from fastmcmd.predictive.base import Array

__all__ = ["RowSummary", "entropy_of_block", "summarize"]

_SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class RowSummary:
    """Summary of each of m rows.

    Attributes
    ----------
    predicted : ndarray (m,) of int32
        Most probable class; the first if several are equally probable.
    confidence : ndarray (m,)
        Probability of that class, in the type of p.
    label_probability : ndarray (m,)
        Probability of the label.
    other_squares : ndarray (m,)
        Sum of squared probabilities of all classes except the label.
    above, tied_before, tied_after : ndarray (m,) of int32
        Number of classes that are more probable than the label, and of equally probable classes with
        smaller and with larger numbers.
    entropy : ndarray (m,) or None
        Entropy in nats, if requested.
    """

    predicted: NDArray[np.int32]
    confidence: Array
    label_probability: Array
    other_squares: Array
    above: NDArray[np.int32]
    tied_before: NDArray[np.int32]
    tied_after: NDArray[np.int32]
    entropy: Array | None


def summarize(
    rows: LabelledRows, entropy: bool = False, also: ClassBins | None = None
) -> tuple[RowSummary, list[tuple[Array, Array]]]:
    """Return the summary of all rows and, from the same pass, the states of ``also``.

    The pass checks the probabilities. Without labels, arrays that depend on them are empty.
    """
    m = len(rows)
    labelled = m if rows.labels is not None else 0
    kind = np.float64 if rows.binary else rows.p.dtype
    summary = RowSummary(
        np.empty(m, dtype=np.int32),
        np.empty(m, dtype=kind),
        np.empty(labelled, dtype=kind),
        np.empty(labelled),
        np.empty(labelled, dtype=np.int32),
        np.empty(labelled, dtype=np.int32),
        np.empty(labelled, dtype=np.int32),
        np.empty(m) if entropy else None,
    )

    def work(part: slice, block: Array) -> None:
        bad = _core.summarize_rows(
            block,
            rows.labels_of(part),
            rows.tolerance,
            summary.predicted[part],
            summary.confidence[part],
            summary.label_probability[part],
            summary.other_squares[part],
            summary.above[part],
            summary.tied_before[part],
            summary.tied_after[part],
        )
        if bad >= 0:
            rows.refuse(part.start + bad)
        if summary.entropy is not None:
            summary.entropy[part] = entropy_of_block(block)

    if also is None:
        rows.over_blocks(work)
        return summary, []

    def work_and_bin(part: slice, block: Array, sums: tuple[Array, Array]) -> None:
        work(part, block)
        also.work(part, block, sums)

    return summary, rows.over(work_and_bin, also.state, also.groups)


def entropy_of_block(block: Array) -> Array:
    """Return the entropies in nats of the rows of a block that fits the cache.

    NumPy's logarithm uses vector instructions and is 5 times faster than a compiled loop. ``0 log 0`` is 0.
    """
    p = block.astype(np.float64, copy=False)
    logs = np.maximum(p, _SMALLEST)
    np.log(logs, out=logs)
    return np.asarray(0.0 - np.einsum("ij,ij->i", p, logs))
