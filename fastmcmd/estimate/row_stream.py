"""Samples as streams of rows: inputs, right-hand sides, weights; no array of size n x r is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.blocks import ahead, row_blocks
from fastmcmd.embedding.expected import Expectation, expectation_goal
from fastmcmd.embedding.pivots import uncovered
from fastmcmd.embedding.sample import DrawnOutputs, Sample, same_outputs
from fastmcmd.estimate.task import Task
from fastmcmd.gram import KernelFeatures
from fastmcmd.predictive import Predictive
from fastmcmd.rows import Rows, as_blocks

__all__ = [
    "AnyRowStream",
    "RowBlock",
    "RowStream",
    "StackedRowStream",
    "StreamState",
    "goal_of_rows",
]

_EXPECTATION_SHARE = 0.2  # share of `Task.expectation_error`: other errors use up the tolerance
_NEARLY = 0.999  # share of a limit below which a sum in another order is surely below it, too


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows of a stream.

    Attributes
    ----------
    rows : slice
        Their place in the stream.
    x : ndarray (b, d)
        Their inputs.
    rhs : ndarray (b, c)
        Right-hand sides: mean output features; those of several samples are adjacent or subtracted.
    residuals : list of ndarray (b,)
        Residual norm of the output features in each row, for each sample.
    weight : ndarray (b,) or None
        Weights of the rows.
    """

    rows: slice
    x: HostArray
    rhs: Array
    residuals: list[Array]
    weight: Array | None


@dataclass(frozen=True, eq=False)
class StreamState:
    """Accumulated truncation of the output features in the rows so far.

    Attributes
    ----------
    total : float
        Sum of the weights.
    truncated : ndarray (samples,)
        Weighted sums of the squared residual norms of each sample's features.
    worst_rows : list of int
        The row of each block with the largest residual.
    uncovered : ndarray (samples,)
        The part of ``truncated`` in rows of predictions that the features do not cover.
    """

    total: float
    truncated: Array
    worst_rows: list[int]
    uncovered: Array


class AnyRowStream(Protocol):
    """Right-hand sides of the rows of samples, block by block, and what their features leave out."""

    samples: list[Sample]
    x: HostArray | Rows
    weights: Array | None

    @property
    def columns(self) -> int:
        """Number of right-hand sides."""

    @property
    def is_drawn(self) -> bool:
        """Whether all outputs are drawn: nothing is integrated, and `truncated` is the whole error."""

    @property
    def bears_threads(self) -> bool:
        """Whether several threads may compute blocks."""

    @property
    def held_bytes(self) -> int:
        """Bytes of right-hand sides in memory."""

    def __len__(self) -> int: ...

    def rhs(self, rows: slice | NDArray[np.intp]) -> tuple[Array, list[Array]]:
        """Return right-hand sides (b, c) of some rows, and the residual norms of their features."""

    def begin(self) -> None:
        """Begin a pass."""

    def account(self, block: RowBlock) -> None:
        """Add the residuals of a block to the accumulated truncation."""

    def state(self) -> StreamState:
        """Return the accumulated truncation so far."""

    def restore(self, state: StreamState) -> None:
        """Resume from a saved state."""

    def truncated(self) -> float:
        """Return ``sum ||D^(-1/2) s||`` over the samples after a pass."""

    def expectation_error(self) -> tuple[float, bool]:
        """Return ``sum ||D^(-1/2) error||`` of the expectations, and whether it is rigorous."""


def goal_of_rows(features: KernelFeatures, task: Task, lam: float) -> float:
    """Return the target error of each expectation, far below what other errors leave of the tolerance."""
    return max(expectation_goal(features), _EXPECTATION_SHARE * task.expectation_error(lam))


class RowStream:
    """A stream of the rows of samples at the same inputs.

    Parameters
    ----------
    samples : list of Sample
        One sample, or two at the same inputs with the same weights.
    features : KernelFeatures
        Features of the output kernel.
    difference : bool
        Whether the right-hand side is the difference of the two samples (one solve for both).
    points : ndarray (u, k), optional
        Drawn outputs at which interpolation coefficients are measured, as in `Expectation`.
    goals : list of float, optional
        Target error of an embedding by quadrature for each sample, if `Expectation` may have more error
        than by default.
    """

    def __init__(
        self,
        samples: list[Sample],
        features: KernelFeatures,
        difference: bool,
        points: Array | None = None,
        goals: Sequence[float | None] | None = None,
    ) -> None:
        self.samples = samples
        self.features = features
        self.difference = difference
        self.x: HostArray | Rows = samples[0].x
        self.weights = samples[0].weights
        self._expectations = [
            None
            if isinstance(sample.all_outputs, DrawnOutputs)
            else Expectation(features, sample.all_outputs.prediction, points, goal)
            for sample, goal in zip(samples, goals or [None] * len(samples), strict=True)
        ]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def columns(self) -> int:
        """Number of right-hand sides."""
        return self.features.rank * (1 if self.difference else len(self.samples))

    @property
    def is_drawn(self) -> bool:
        """Whether all outputs are drawn: nothing is integrated, and `truncated` is the whole error."""
        return all(expectation is None for expectation in self._expectations)

    def expectation_error(self) -> tuple[float, bool]:
        """Return ``sum ||D^(-1/2) error||`` of the expectations, and whether it is rigorous.

        The error is measured in every row; numerical integration of expectations takes an extra pass.
        """
        total, rigorous = 0.0, True
        for sample, expectation in zip(self.samples, self._expectations, strict=True):
            if expectation is not None and not isinstance(sample.all_outputs, DrawnOutputs):
                error = expectation.errors(sample.all_outputs.prediction)
                weight = np.ones(len(error)) if sample.weights is None else sample.weights
                square = float(weight @ error**2) / float(weight.sum())
                total += float(np.sqrt(square / sample.lam))
                rigorous = rigorous and expectation.rigorous
        return total, rigorous

    def coverage(self, limit: float) -> Iterator[tuple[Sample, Predictive, Array, float]]:
        """Yield predicted samples, their predictions, residuals of the rows, and the rounding of these.

        Samples whose rows miss at most the weighted norm ``limit`` are left out: a pass has shown it.
        """
        for number, (sample, expectation) in enumerate(
            zip(self.samples, self._expectations, strict=True)
        ):
            if expectation is not None and not isinstance(sample.all_outputs, DrawnOutputs):
                missing = self._uncovered[number] / self._total / sample.lam
                if not np.sqrt(missing) > _NEARLY * limit:
                    continue
                prediction = sample.all_outputs.prediction
                residual, _, floor = expectation.coverage(prediction)
                yield sample, prediction, residual, floor

    def noise(self) -> float:
        """Return the rounding that closed forms add to the squared residuals."""
        return sum(
            expectation.noise for expectation in self._expectations if expectation is not None
        )

    def rhs(self, rows: slice | NDArray[np.intp]) -> tuple[Array, list[Array]]:
        """Return right-hand sides (b, c) of some rows, and the residual norms of their features."""
        means, residuals, parts = [], [], []
        for sample, expectation in zip(self.samples, self._expectations, strict=True):
            part = sample.all_outputs.take(rows)
            if isinstance(part, DrawnOutputs):
                parts.append(part)
                flat = np.ascontiguousarray(part.flat, dtype=np.float64)
                mean, squares = self.features.with_squares(flat)
                miss = np.sqrt(self.features.residuals_of(flat, squares))
                if part.values.shape[1] > 1 or part.weights is not None:
                    index = np.arange(len(flat))
                    mean = part.mean_features(mean, index)
                    miss = part.mean_features(miss[:, None], index)[:, 0]
            else:
                assert expectation is not None
                expected = expectation.of(part.prediction)
                mean, miss = expected.mean, expected.residual
            means.append(mean)
            residuals.append(miss)
        if self.difference:
            if len(parts) == 2:
                # Residuals of the same outputs cancel as their features do (not with two regularisers: the
                # coefficients differ).
                equal = same_outputs(*parts) & (means[0] == means[1]).all(axis=1)
                residuals = [np.where(equal, 0.0, miss) for miss in residuals]
            return means[0] - means[1], residuals
        return (means[0] if len(means) == 1 else np.hstack(means)), residuals

    def begin(self) -> None:
        """Reset the accumulated truncation before a pass."""
        self._truncated = np.zeros(len(self.samples))
        self._uncovered = np.zeros(len(self.samples))
        self._total = 0.0
        self.worst_rows: list[int] = []

    def account(self, block: RowBlock) -> None:
        """Add the residuals of a block to the accumulated truncation."""
        noise = self.noise()
        weight = np.ones(len(block.x)) if block.weight is None else block.weight
        self._total += float(weight.sum())
        for index, miss in enumerate(block.residuals):
            self._truncated[index] += float((weight * (miss**2 + noise)).sum())
            expectation = self._expectations[index]
            if expectation is not None:
                above = uncovered(miss, expectation.floor)
                self._uncovered[index] += float((weight * above).sum())
        self.worst_rows.append(block.rows.start + int(np.argmax(sum(block.residuals))))

    def state(self) -> StreamState:
        """Return the accumulated truncation so far."""
        return StreamState(
            self._total, self._truncated.copy(), list(self.worst_rows), self._uncovered.copy()
        )

    def restore(self, state: StreamState) -> None:
        """Resume from a saved state."""
        self._total, self._truncated = state.total, state.truncated
        self._uncovered = state.uncovered
        self.worst_rows = state.worst_rows

    @property
    def bears_threads(self) -> bool:
        """Whether several threads may compute blocks: no user function and no device takes part."""
        return (
            self.features.kernel.compiled
            and not self.features.backend.on_device
            and all(isinstance(sample.all_outputs, DrawnOutputs) for sample in self.samples)
        )

    @property
    def held_bytes(self) -> int:
        """Bytes of right-hand sides in memory: rows are computed block by block."""
        return 0

    def largest_excess(self, square: float) -> float:
        """Return the largest ``||D^(-1/2) s||`` of drawn outputs beyond the residual ``square`` of each."""
        expected = square + self.noise()
        return max(
            (
                float(np.sqrt(max(0.0, total / self._total - expected) / sample.lam))
                for total, sample in zip(self._truncated, self.samples, strict=True)
                if isinstance(sample.all_outputs, DrawnOutputs)
            ),
            default=0.0,
        )

    def truncated(self) -> float:
        """Return ``sum ||D^(-1/2) s||`` over the samples after a pass."""
        return sum(
            float(np.sqrt(total / self._total / sample.lam))
            for total, sample in zip(self._truncated, self.samples, strict=True)
        )


class StackedRowStream:
    """Streams over the same rows, one for each model, that advance together.

    Parameters
    ----------
    streams : sequence of AnyRowStream
        Streams with the same inputs and weights.
    """

    def __init__(self, streams: Sequence[AnyRowStream]) -> None:
        self.streams = streams
        self.x: HostArray | Rows = streams[0].x
        self.weights = streams[0].weights

    def __len__(self) -> int:
        return len(self.x)

    @property
    def columns(self) -> int:
        """Number of right-hand sides of all models."""
        return sum(stream.columns for stream in self.streams)

    def rhs(self, rows: slice | NDArray[np.intp]) -> tuple[Array, list[Array]]:
        """Return right-hand sides (b, c) of some rows, adjacent for all models, and residual norms."""
        return _beside([stream.rhs(rows) for stream in self.streams])

    def blocks(self, step: int, start: int = 0, threads: int = 1) -> Iterator[RowBlock]:
        """Yield the rows from ``start`` in blocks of ``step``; several threads compute blocks ahead."""
        if threads <= 1 or not self._bears_threads:
            for rows, x in as_blocks(self.x, step, start):
                yield self._block(rows, x, [stream.rhs(rows) for stream in self.streams])
            return

        def work(rows: slice) -> RowBlock:
            return self._block(rows, self.x[rows], [stream.rhs(rows) for stream in self.streams])

        if isinstance(self.x, Rows):
            self.x.check_unchanged()
        yield from ahead(work, row_blocks(len(self), step, start), threads)
        if isinstance(self.x, Rows):
            self.x.check_unchanged()

    def _block(self, rows: slice, x: HostArray, parts: list[tuple[Array, list[Array]]]) -> RowBlock:
        """Return a block of the right-hand sides, and residual norms, of each stream."""
        weight = None if self.weights is None else self.weights[rows]
        return RowBlock(rows, x, *_beside(parts), weight)

    @property
    def _bears_threads(self) -> bool:
        """Whether several threads may compute blocks: no user function and no device takes part."""
        if isinstance(self.x, Rows) and self.x.on_device is not None:
            return False
        return all(stream.bears_threads for stream in self.streams)

    def begin(self) -> None:
        """Reset the accumulated truncation before a pass."""
        for stream in self.streams:
            stream.begin()

    def account(self, block: RowBlock) -> None:
        """Add the residuals of a block to the accumulated truncation."""
        remaining = iter(block.residuals)
        for stream in self.streams:
            residuals = [next(remaining) for _ in stream.samples]
            stream.account(replace(block, residuals=residuals))

    def state(self) -> list[StreamState]:
        """Return the accumulated truncation of each stream so far."""
        return [stream.state() for stream in self.streams]

    def restore(self, states: list[StreamState]) -> None:
        """Resume from saved states."""
        for stream, state in zip(self.streams, states, strict=True):
            stream.restore(state)


def _beside(parts: list[tuple[Array, list[Array]]]) -> tuple[Array, list[Array]]:
    """Return the right-hand sides of all models side by side, and all residual norms."""
    if len(parts) == 1:
        return parts[0]
    return np.hstack([rhs for rhs, _ in parts]), [miss for _, part in parts for miss in part]
