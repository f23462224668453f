"""Coefficients of distinct inputs, spread over the outputs of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.backends.tall_skinny import spread

__all__ = ["Spread"]

Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Spread:
    """A sparse matrix (u, n) that spreads coefficients of n inputs over u outputs, entry by entry.

    Attributes
    ----------
    source : ndarray (m,) of int
        Input of each drawn output.
    where : ndarray (m,) of int
        Place of each drawn output among the distinct ones.
    share : ndarray (m,)
        Share of the input's coefficient.
    """

    source: Index
    where: Index
    share: Array

    @staticmethod
    def of_rows(share: Array, source: Index, starts: Index) -> Spread:
        """Return the matrix from its entries in the order of the outputs, and where each output begins."""
        where = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return Spread(source.astype(np.intp), where.astype(np.intp), share)

    def by_rows(self, outputs: int) -> tuple[Array, Index, Index]:
        """Return the arguments of `of_rows`."""
        order = np.argsort(self.where, kind="stable")
        starts = np.concatenate([[0], np.bincount(self.where, minlength=outputs).cumsum()])
        return self.share[order], self.source[order], starts

    def add(self, coefficients: Array, total: Array) -> None:
        """Add coefficients (n, q) of the inputs to ``total`` (u, q) of the outputs."""
        spread(coefficients, self.source, self.where, self.share, total)
