"""How the exact test divides its work so that it stays within a memory limit."""

from __future__ import annotations

from dataclasses import dataclass

from fastmcmd._base.memory import format_bytes
from fastmcmd.errors import MemoryLimitError
from fastmcmd.inference.exchangeable import REFERENCES, ROWS
from fastmcmd.inference.outcome_features import OutcomeFeatures
from fastmcmd.inference.relevance import SIGNS
from fastmcmd.inference.smoother import CANDIDATES

__all__ = ["MemoryPlan", "TestSize"]

_BASE = 5_000_000  # bytes of scales, landmarks of outcomes, tables, threads
_FEATURE_ROWS = 8_192  # rows of a block of features
_CHUNKS = (ROWS, 128, 32, 8)  # rows whose features are in memory at once
# Bytes of an outcome: while it is drawn; and in its forms (sorted, standardised, ranks) with indices.
_SAMPLE_BYTES, _FORM_BYTES = 40, 96


@dataclass(frozen=True)
class TestSize:
    """The numbers that the memory of a test depends on.

    Attributes
    ----------
    rows, columns, outputs : int
        n, columns of the inputs, columns k of the outcomes.
    data_sets : int
        B + 1.
    points : int
        Points that are tested alone.
    clusters : int
        Clusters of dependent rows; 0 if rows are independent.
    residuals, relevance : bool
        Whether residuals of all rows are kept, and whether a test of relevance follows.
    """

    __test__ = False  # no class of pytest

    rows: int
    columns: int
    outputs: int
    data_sets: int
    points: int
    clusters: int
    residuals: bool
    relevance: bool


@dataclass(frozen=True)
class MemoryPlan:
    """How many landmarks, rows at once and threads a test uses.

    Attributes
    ----------
    landmarks : int
        Landmarks of inputs.
    chunk : int
        Rows whose features are in memory at once, in each thread.
    threads : int
        Threads.
    """

    landmarks: int
    chunk: int
    threads: int

    @staticmethod
    def of(
        limit: int,
        size: TestSize,
        kinds: list[OutcomeFeatures],
        landmarks: int,
        least_landmarks: int,
        threads: int,
    ) -> MemoryPlan:
        """Return the fastest plan within ``limit`` bytes.

        Smaller chunks come first, which change nothing but rounding; then a single thread, then fewer
        landmarks.

        Raises
        ------
        MemoryLimitError
            No plan is small enough.
        """
        fewer = sorted({landmarks, (landmarks + least_landmarks) // 2, least_landmarks})[::-1]
        plan = None
        for count in fewer:
            for thread_count in sorted({threads, 1})[::-1]:
                for chunk in _CHUNKS:
                    plan = MemoryPlan(count, chunk, thread_count)
                    if plan.bytes(size, kinds) <= limit:
                        return plan
        assert plan is not None
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(limit)}; about {format_bytes(plan.bytes(size, kinds))} are "
            f"needed for {size.rows:,} rows and {size.data_sets - 1:,} simulations"
        )

    def bytes(self, size: TestSize, kinds: list[OutcomeFeatures]) -> int:
        """Return an upper estimate of the memory that the test allocates."""
        n, m, first = size.rows, self.landmarks, kinds[0].rank
        rank = sum(kind.rank for kind in kinds)
        total = _BASE + 8 * n * (size.columns + size.outputs + 4) + size.clusters * size.data_sets
        if size.residuals:
            total += 4 * n * first
        search = 8 * min(n, CANDIDATES) * (2 * m + size.columns)
        features = 16 * min(n, _FEATURE_ROWS) * m + 24 * m * m
        cell = (
            _FORM_BYTES * size.outputs + 24 * len(kinds) + max(kind.scratch_bytes for kind in kinds)
        )
        cell += (8 if size.clusters else 4) * rank  # with signs of clusters, once more
        sums = 4 * m * size.data_sets * rank
        outcomes = size.data_sets + REFERENCES
        block = _SAMPLE_BYTES * ROWS * outcomes * size.outputs
        # Each thread holds the sums of a block and of a chunk, and two more blocks wait to be added.
        sweep = (3 + 5 * self.threads) * sums
        sweep += self.threads * (block + self.chunk * outcomes * cell)
        if size.clusters and size.points:
            sweep += sums  # a second sweep, beside the sums of the first
            total += 12 * size.clusters * size.data_sets
        after = 2 * sums + 4 * m * size.data_sets * first + 48 * size.points * size.data_sets
        if size.relevance:
            after += 4 * SIGNS * first * (2 * ROWS + 2 * m)
        return int(total + max(search, features, sweep, after))
