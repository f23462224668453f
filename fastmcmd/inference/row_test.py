"""The exact test at each of several points, with the simulations of the test of all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd.inference.smoother import Basis
from fastmcmd.result import LEAST_SUPPORT

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RowTest", "row_test"]

_FAMILY_WISE, _FALSE_SHARE = 0.05, 0.1  # levels of the masks
TIE = 1e-4  # standard deviations: closer values count as equal
_BLOCK = 256  # points whose values under all data sets are computed together

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class RowTest:
    """CCE at points, and that of right models.

    Attributes
    ----------
    values : ndarray (q,)
        CCE at each point, by landmarks.
    null_mean : ndarray (q,)
        Root of the mean squared CCE of a right model at the point.
    null_band : ndarray (q,)
        95 % quantile of the CCE of a right model at the point, for a single point.
    p_values : ndarray (q,)
        Exact p-value at each point alone.
    adjusted : ndarray (q,)
        P-values adjusted for all points (family-wise, studentised maximum): if the model is right
        everywhere, none of them is below 0.05 with probability 95 %.
    false_discovery : ndarray (q,)
        Estimated share of false discoveries among all points with at least this deviation.
    largest : ndarray (B + 1,)
        Largest deviation of any point in each data set, the observed one first.
    effective_rows : ndarray (q,)
        Support of each point, as `Result.effective_rows`, by the landmarks of the test.
    """

    values: Array
    null_mean: Array
    null_band: Array
    p_values: Array
    adjusted: Array
    false_discovery: Array
    largest: Array = field(repr=False)
    effective_rows: Array

    @property
    def supported(self) -> NDArray[np.bool_]:
        """Mask (q,) of points with at least 5 `effective_rows`; elsewhere hardly any misfit is detected."""
        return self.effective_rows >= LEAST_SUPPORT

    @property
    def flags(self) -> NDArray[np.bool_]:
        """Mask (q,) of the points that are wrong beyond chance at 5 %, family-wise."""
        return self.adjusted <= _FAMILY_WISE

    @property
    def discoveries(self) -> NDArray[np.bool_]:
        """Mask (q,) of points of which an estimated tenth at most is flagged by chance."""
        return self.false_discovery <= _FALSE_SHARE

    def columns(self) -> dict[str, HostArray]:
        """Return the values of all points by name."""
        names = (
            "values", "null_mean", "null_band", "p_values", "adjusted", "false_discovery",
            "effective_rows", "supported",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def to_frame(self, index: object = None) -> pd.DataFrame:
        """Return all values as a pandas frame with one row for each point."""
        from fastmcmd.frames import to_frame

        return to_frame(self.columns(), index)

    def __repr__(self) -> str:
        wrong = int(self.flags.sum())
        few = int((~self.supported).sum())
        return (
            f"Exact test at {len(self.values):,} points: wrong at {wrong:,} of them (family-wise 5 %)"
            f"{f'; few rows near {few:,}' if few else ''}"
        )


def row_test(basis: Basis, projection: NDArray[np.float32], points: Array, lam: float) -> RowTest:
    """Return the test at points (q, d), from the projections (p, B + 1, r) of all data sets."""
    size, data_sets, rank = projection.shape
    scaled = (projection * basis.shrinkage(lam)[:, None, None].astype(np.float32)).reshape(size, -1)
    squares = np.empty((len(points), data_sets))
    for start in range(0, len(points), _BLOCK):
        rows = slice(start, start + _BLOCK)
        values = basis.coordinates(points[rows]).astype(np.float32) @ scaled
        values = values.reshape(-1, data_sets, rank)
        squares[rows] = np.einsum("qbr,qbr->qb", values, values)
    mean = squares.mean(axis=1, keepdims=True)
    spread = squares.std(axis=1, keepdims=True)
    scores = np.where(spread > 0, (squares - mean) / np.where(spread > 0, spread, 1.0), 0.0)
    largest = scores.max(axis=0)
    return RowTest(
        values=np.sqrt(squares[:, 0]),
        null_mean=np.sqrt(squares[:, 1:].mean(axis=1)),
        null_band=np.sqrt(np.quantile(squares[:, 1:], 0.95, axis=1)),
        p_values=(scores >= scores[:, :1] - TIE).mean(axis=1),
        adjusted=(largest[None, :] >= scores[:, :1] - TIE).mean(axis=1),
        false_discovery=_false_discovery(scores),
        largest=largest,
        effective_rows=basis.effective_rows(points, lam),
    )


def _false_discovery(scores: Array) -> Array:
    """Return the mean number of simulated points at least as extreme, over that of observed points."""
    observed = np.sort(scores[:, 0])
    simulated = np.sort(scores[:, 1:].ravel())
    count = len(observed)
    false = (len(simulated) - np.searchsorted(simulated, observed, "left")) / (scores.shape[1] - 1)
    share = np.minimum(false / (count - np.arange(count)), 1.0)
    share = np.minimum.accumulate(share)  # monotone in the deviation
    out = np.empty(count)
    out[np.argsort(scores[:, 0], kind="stable")] = share
    return out
