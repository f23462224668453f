"""Blocks of columns (n, k) in float64 and the operations of CG on them, in host memory or on a device."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from fastmcmd._base.annotations import AnyArray, Array

__all__ = ["ColumnBlocks"]


class ColumnBlocks(Protocol):
    """Where blocks are, and what can be done with them; ``block[:, some]`` is a block without a copy.

    Small matrices (k, j) are the host's.
    """

    def active(self) -> AbstractContextManager[object]:
        """Return a context within which operations start sooner."""

    def take(self, host: Array) -> AnyArray:
        """Return a block, or a vector (n,), with the contents of an array of the host."""

    def host(self, block: AnyArray) -> Array:
        """Return the contents of a block as an array of the host, which may share its memory."""

    def zeros(self, rows: int, columns: int) -> AnyArray:
        """Return a block of zeros."""

    def inner(self, a: AnyArray, b: AnyArray) -> Array:
        """Return ``a' b`` (k, j) for blocks (n, k) and (n, j)."""

    def times(
        self,
        a: AnyArray,
        small: Array,
        *,
        base: AnyArray | None = None,
        sign: float = 1.0,
        out: AnyArray | None = None,
    ) -> AnyArray:
        """Return ``base + sign a small`` (n, j), or ``sign a small`` without a base.

        The result may take the memory of ``out``, which is ``base``, or ``a`` if it is as wide.
        """

    def scaled(self, scale: AnyArray, a: AnyArray, *, base: AnyArray | None = None) -> AnyArray:
        """Return ``base + scale[:, None] * a`` (n, k), or without the base, for a vector ``scale``."""

    def beside(self, blocks: list[AnyArray]) -> AnyArray:
        """Return blocks side by side as one; a single block is returned unchanged."""
