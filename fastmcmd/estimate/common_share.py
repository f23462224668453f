"""The share of squared residuals that does not fall with the number of rows, over several measurements.

Outputs scatter around their mean, and what that adds to the squared residuals falls with the number of
rows; what the mean adds does not. Products of residuals from different parts of the rows show the second,
but one measurement is off by a tenth of all: as much as the first is among a hundred times as many rows.
So measurements on different rows are averaged, and the share is the mean of what they leave possible.
"""

from __future__ import annotations

import math

__all__ = ["CommonShare"]

_OCTAVES = 2.0  # of landmarks, whose measurements count: the share falls as landmarks are added
_SCATTER = 0.12  # standard deviation of a measurement (0.1 to 0.15 measured, with 4,000 rows)
_USUAL = 0.05  # mean of the share before any measurement, of an exponential distribution


class CommonShare:
    """The mean share after measurements at growing numbers of landmarks."""

    def __init__(self) -> None:
        self._shares: list[tuple[int, float]] = []

    def add(self, rank: int, share: float) -> float:
        """Add a measurement at ``rank`` landmarks, which may be negative; return the mean, in [0, 1]."""
        from scipy.special import log_ndtr

        self._shares.append((rank, share))
        recent = [one for at, one in self._shares if at * 2**_OCTAVES >= rank]
        spread = _SCATTER / math.sqrt(len(recent))
        # The posterior is normal, cut at 0; this is its centre in standard deviations.
        centre = sum(recent) / len(recent) / spread - spread / _USUAL
        density = -(centre**2) / 2 - math.log(2 * math.pi) / 2
        return min(spread * (centre + math.exp(density - float(log_ndtr(centre)))), 1.0)
