"""The division of `memory_limit`: bytes for the working arrays, and the rest for the kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass

from fastmcmd._base.memory import format_bytes
from fastmcmd._base.threads import get_num_threads
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram.cost import prepared_bytes

__all__ = ["TILE_BYTES", "Budget", "low_rank_peak", "points_at_once", "pool_bytes"]

TILE_BYTES = 4_000_000  # a thread's tiles and partial products
_CG_ARRAYS = 10  # (n, r) arrays in float64 that block CG and its certificate hold at once
_OUTPUT_ARRAYS = 6  # numbers for each output: its values, their order, and where it came from
_POINT_ARRAYS = 14  # numbers for each evaluation point: values, errors, and what they are made of
_IMAGES = 2  # arrays of the images of a block of points
_IMAGE_ELEMENTS = 1 << 19  # of such an array: 4 MB
_LEAST_POINTS = 1024  # of such a block: enough tiles for several threads
_VALUES = 1 << 21  # kernel values in a block, as in gram/features.py
_LEAST_BYTES = 8_000_000  # blocks of prepared rows, if neither rows nor tiles are cached
_PROPOSED = 128  # landmarks proposed together, as in `LandmarkSearch`
_TILE = 512  # largest number of rows of a tile: the packed triangle consists of whole tiles


@dataclass(frozen=True)
class Budget:
    """The memory of a call beyond its inputs, in bytes.

    Attributes
    ----------
    limit : int
        ``memory_limit``.
    working : int
        Bytes of outputs and thread-local tiles, and of the largest stage: features of outputs, iterates of
        the systems, or values at points. Each frees its arrays before the next.
    estimated : bool
        Whether the rank of the output kernel, on which they depend, is only known from some outputs.
    """

    limit: int
    working: int
    estimated: bool = False

    @staticmethod
    def of(
        limit: int, *, n: int, columns: int, outputs: int, rank: int, points: int, threads: int,
        estimated: bool = False, on_device: bool = False, in_stages: bool = True,
    ) -> Budget:  # fmt: skip
        """Return the budget of a solve with ``columns`` right-hand sides over ``n`` inputs.

        ``in_stages`` tells whether features, iterates and values are freed before the next of them.
        """
        always = 8 * _OUTPUT_ARRAYS * outputs + threads * TILE_BYTES
        features = 8 * 3 * outputs * rank
        iterates = _CG_ARRAYS * 8 * n * columns
        at_once = points if on_device else min(points, points_at_once(columns))
        values = 8 * (_POINT_ARRAYS * points + _IMAGES * at_once * (columns + 2))
        stages = features, iterates, values
        return Budget(limit, always + (max if in_stages else sum)(stages), estimated)

    def serves_as(self, other: Budget, n: int, dim: int, least: int = 0) -> bool:
        """Tell whether n inputs of ``dim`` columns allow every method here that ``other`` allows.

        It compares with the needs of ``least``, prepared rows, tiles and a factor, in float32 and float64:
        these decide between methods of different speed, or between one and none.
        """
        ways = [least]
        for size in (4, 8):
            rows = prepared_bytes(n * dim, size)
            tiles = size * (n + _TILE) ** 2 // 2
            # Rows; rows and tiles; rows twice, or in both precisions: a factor, the exact product.
            ways += [rows, rows + tiles, 2 * rows + tiles, 3 * rows + tiles]
        ours, theirs = self.limit - self.working, other.limit - other.working
        return ours >= _LEAST_BYTES and all(ours >= way or theirs < way for way in ways)

    def holds(self, least: int = 0, purpose: str = "") -> bool:
        """Tell whether `available`, with the same arguments, returns the bytes that are left.

        By default that is whether streaming, which needs the least memory of all methods, fits.
        """
        del purpose
        return self.limit - self.working >= max(least, _LEAST_BYTES)

    def available(self, least: int = 0, purpose: str = "to stream this problem") -> int:
        """Return the bytes that are left for prepared rows, tiles and factors.

        Parameters
        ----------
        least : int
            Bytes that the chosen solver needs.
        purpose : str
            The purpose of these bytes, for the message.

        Raises
        ------
        MemoryLimitError
            Fewer bytes are left, or not even streaming fits.
        """
        if not self.holds(least):
            raise self.shortage(least, purpose)
        return self.limit - self.working

    def shortage(self, least: int = 0, purpose: str = "to stream this problem") -> MemoryLimitError:
        """Return the error that fewer bytes are left; arguments as in `available`."""
        need, amount = self.working + max(least, _LEAST_BYTES), "at least"
        if self.estimated:  # two digits, rounded up
            unit = 10 ** max(0, len(str(need)) - 2)
            need, amount = -(-need // unit) * unit, "about"
        return MemoryLimitError(
            f"memory_limit is {format_bytes(self.limit)}; {amount} "
            f"{format_bytes(need, least=True)} are needed {purpose}"
        )


def points_at_once(columns: int, spare: int = 0) -> int:
    """Return how many evaluation points have images of ``columns`` that fit a cache, or ``spare`` bytes."""
    elements = max(_IMAGE_ELEMENTS, spare // (8 * _IMAGES))
    return max(_LEAST_POINTS, elements // max(1, columns))


def pool_bytes(outputs: int, rank: int) -> tuple[int, int]:
    """Return the bytes of features of outputs: during the fit, and while they are computed."""
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
    residual_bytes: int,
) -> int:
    """Return the peak memory of a fit in bytes.

    It is that of the largest stage: each frees its arrays before the next. Measured peaks of resident
    memory are between 0.6 and 1.0 times this value (``tests/estimate/test_peak_bytes.py`` asserts a
    factor of two).

    Parameters
    ----------
    rows, points, dim : int
        Rows of the sample, evaluation points, input columns.
    models, columns, rank : int
        Models fitted together, their right-hand sides, landmarks.
    outputs : int
        Outputs from which output features were chosen.
    searched : int
        Candidates for landmarks.
    block : int
        Rows of a block of a pass.
    residual_bytes : int
        Bytes of the residuals of all rows; 0 if they were not computed.
    """
    threads = get_num_threads()
    block, per_model = min(block, rows), columns // max(1, models)
    features = 8 * outputs * (3 * per_model + 6)
    proposed = min(_PROPOSED, max(8, rank // 2))
    search = 8 * searched * (rank + 2 * proposed + 6 * columns + dim + 4)
    passes = 8 * block * (2 * rank + 2 * (1 + threads) * columns + 3 * dim) + 48 * rank**2
    stored_bytes = 8 * (7 * rows + 2 * points) + 24 * models * rows
    residuals = residual_bytes + 24 * rank**2
    return threads * TILE_BYTES + stored_bytes + max(features, search, passes, residuals)
