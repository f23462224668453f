"""How `memory_limit` is divided: what the work needs besides the matrix, and what is left for it."""

from __future__ import annotations

from dataclasses import dataclass

from fastmcmd._base.memory import format_bytes
from fastmcmd._base.threads import get_num_threads
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram.cost import prepared_bytes

__all__ = ["TILE_BYTES", "Budget", "low_rank_peak", "pool_bytes"]

TILE_BYTES = 4_000_000  # a thread's tiles and partial products
_CG_ARRAYS = 10  # (n, r) arrays in float64 that block CG and its certificate hold together
_VALUES = 1 << 21  # values of a block of kernel values, as in gram/features.py
_LEAST_BYTES = 8_000_000  # blocks of prepared rows, when neither rows nor tiles are kept
_PROPOSED = 128  # landmarks proposed together, as in `LandmarkSearch`
_TILE = 512  # rows of a tile, at most: the packed triangle is of whole ones


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

    def serves_as(self, other: Budget, n: int, dim: int, least: int = 0) -> bool:
        """Tell whether as much can be held over n inputs in ``dim`` columns as within another budget.

        That is ``least``, prepared rows, tiles and a factor, in float32 or float64: what decides between
        ways of different speed, or between one and none.
        """
        ways = [least]
        for size in (4, 8):
            rows = prepared_bytes(n * dim, size)
            tiles = size * (n + _TILE) ** 2 // 2
            # Rows; tiles besides; rows twice, or in both precisions: a factor, the exact product.
            ways += [rows, rows + tiles, 2 * rows + tiles, 3 * rows + tiles]
        ours, theirs = self.limit - self.working, other.limit - other.working
        return ours >= _LEAST_BYTES and all(ours >= way or theirs < way for way in ways)

    def holds(self) -> bool:
        """Tell whether streaming, the least of all ways, fits."""
        return self.limit - self.working >= _LEAST_BYTES

    def available(self, least: int = 0, what: str = "to stream this problem") -> int:
        """Return what is left for prepared rows, tiles and factors.

        Parameters
        ----------
        least : int
            What the solver asked for needs of it.
        what : str
            For what that is, in the message.

        Raises
        ------
        MemoryLimitError
            Less is left, or not even streaming fits.
        """
        available, least = self.limit - self.working, max(least, _LEAST_BYTES)
        if available < least:
            raise MemoryLimitError(
                f"memory_limit is {format_bytes(self.limit)}; at least "
                f"{format_bytes(self.working + least)} are needed {what}"
            )
        return available


def pool_bytes(outputs: int, rank: int) -> tuple[int, int]:
    """Return what features of some outputs take: kept during a fit, and in passing before it."""
    return 8 * outputs * rank, 8 * 2 * min(_VALUES, outputs * rank)


def low_rank_peak(
    *,
    rows: int,
    points: int,
    dim: int,
    models: int,
    columns: int,
    rank: int,
    outputs: int,
    searched: int,
    block: int,
    whole: int,
) -> int:
    """Return the bytes that a fit took at its peak.

    Measured peaks of resident memory are between 0.6 and 1.1 times that (a factor of two is asserted in
    ``tests/estimate/test_peak_bytes.py``): the allocator keeps some of what one stage freed, so that
    output features count beside the stages that follow them.

    Parameters
    ----------
    rows, points, dim : int
        Rows of the sample, points of evaluation, input columns.
    models, columns, rank : int
        Models fitted together, their right-hand sides, landmarks.
    outputs : int
        Outputs among which output features were looked for.
    searched : int
        Candidates for landmarks.
    block : int
        Rows of a block of a pass.
    whole : int
        What the residuals of all rows took; 0 where they were not formed.
    """
    threads = get_num_threads()
    block, per_model = min(block, rows), columns // max(1, models)
    features = 8 * outputs * (3 * per_model + 6)
    proposed = min(_PROPOSED, max(8, rank // 2))
    search = 8 * searched * (rank + 2 * proposed + 6 * columns + dim + 4)
    passes = 8 * block * (2 * rank + 4 * (1 + threads) * columns + 3 * dim) + 48 * rank**2
    stored = 8 * (5 * rows + 2 * points) + 8 * models * rows
    return threads * TILE_BYTES + stored + features + max(search, passes, whole + 24 * rank**2)
