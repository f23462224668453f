"""How `memory_limit` is divided: what the work needs besides the matrix, and what is left for it."""

from __future__ import annotations

from dataclasses import dataclass

from fastmcmd.errors import MemoryLimitError
from fastmcmd.memory import format_bytes

__all__ = ["TILE_BYTES", "Budget", "pool_bytes"]

TILE_BYTES = 4_000_000  # a thread's tiles and partial products
_CG_ARRAYS = 10  # (n, r) arrays in float64 that block CG and its certificate hold together
_BLOCK = 1 << 21  # values of a block of kernel values, as in gram/features.py
_LEAST_ROOM = 8_000_000  # blocks of prepared rows, when neither rows nor tiles are kept


@dataclass(frozen=True)
class Budget:
    """Bytes of a call beyond its inputs.

    Attributes
    ----------
    limit : int
        ``memory_limit``.
    working : int
        What outputs, features, right-hand sides, iterates and thread-local tiles take.
    """

    limit: int
    working: int

    @staticmethod
    def of(
        limit: int, *, n: int, columns: int, outputs: int, rank: int, points: int, threads: int
    ) -> Budget:
        """Return the budget of a solve with ``columns`` right-hand sides over ``n`` inputs."""
        iterates = _CG_ARRAYS * 8 * n * columns
        features = 8 * outputs * (3 * rank + 6)
        values = 8 * points * (2 * columns + 4)
        return Budget(limit, iterates + features + values + threads * TILE_BYTES)

    def room(self) -> int:
        """Return what is left for prepared rows, tiles and factors.

        Raises
        ------
        MemoryLimitError
            Not even streaming fits.
        """
        room = self.limit - self.working
        if room < _LEAST_ROOM:
            raise MemoryLimitError(
                f"memory_limit is {format_bytes(self.limit)}; at least "
                f"{format_bytes(self.working + _LEAST_ROOM)} are needed to stream this problem"
            )
        return room


def pool_bytes(outputs: int, rank: int) -> tuple[int, int]:
    """Return what features of some outputs take: kept during a fit, and in passing before it."""
    return 8 * outputs * rank, 8 * 2 * min(_BLOCK, outputs * rank)
