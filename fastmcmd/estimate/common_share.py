"""The share of squared residuals that does not fall with the number of rows, over several measurements.

Outputs scatter around their mean, and what that adds to the squared residuals falls with the number of
rows; what the mean adds does not. Products of residuals from different parts of the rows show the second,
but one measurement is off by a tenth of all: as much as the first is among a hundred times as many rows.
So measurements on different rows are averaged.
"""

from __future__ import annotations

__all__ = ["CommonShare"]

_OCTAVES = 2.0  # of landmarks, whose measurements count: the share falls as landmarks are added


class CommonShare:
    """The average of measurements at growing numbers of landmarks."""

    def __init__(self) -> None:
        self._shares: list[tuple[int, float]] = []

    def add(self, rank: int, share: float) -> float:
        """Add a measurement at ``rank`` landmarks, which may be negative; return the average in [0, 1]."""
        self._shares.append((rank, share))
        recent = [one for at, one in self._shares if at * 2**_OCTAVES >= rank]
        return min(max(sum(recent) / len(recent), 0.0), 1.0)
