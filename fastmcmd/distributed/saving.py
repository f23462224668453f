"""Checkpoints of sums over blocks: the sum so far and the number of finished groups, without pickle."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fastmcmd._base.annotations import FilePath
from fastmcmd.checkpoint import Checkpoint
from fastmcmd.classification.bins import BinSums
from fastmcmd.classification.metric import Totals
from fastmcmd.classification.ranking import RankSketch
from fastmcmd.distributed.bootstrap import ResampledSums
from fastmcmd.distributed.losses import PieceSums
from fastmcmd.distributed.measures import ClassGapSums, SimulatedSpread
from fastmcmd.distributed.parts import Differences, ModelParts, Parts, Summaries
from fastmcmd.distributed.sampling import Samples
from fastmcmd.distributed.sums import Summary
from fastmcmd.metrics.intervals import IntervalSums, SpreadSums
from fastmcmd.metrics.pit import PITSums
from fastmcmd.metrics.point_sums import AverageSums, Comoments
from fastmcmd.metrics.reliability_sums import ReliabilitySums
from fastmcmd.streaming.accuracy import Sketches
from fastmcmd.streaming.congruence_saved import (
    SavedLandmarks,
    SavedSums,
    landmarks_of,
    saved_landmarks,
    saved_sums,
    sums_of,
)
from fastmcmd.streaming.congruence_sums import CongruenceSums
from fastmcmd.streaming.means import MeanSums
from fastmcmd.streaming.variance import SpreadSketch

__all__ = ["BlockCheckpoint", "packed", "unpacked"]

Sums = (
    AverageSums | BinSums | ClassGapSums | Comoments | IntervalSums | MeanSums | PITSums | RankSketch
    | ReliabilitySums | SimulatedSpread | Sketches | SpreadSketch | SpreadSums | Totals
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SavedCongruence:
    """Sums of the CCE, with their landmarks."""

    features: SavedLandmarks
    sums: SavedSums


@dataclass(frozen=True, eq=False)
class SavedModel:
    """`ModelParts`, with names and labels in lists."""

    names: list[str]
    sums: list[Sums]
    skipped: dict[str, str]
    labels: list[str | int | float | bool]
    groups: list[SavedModel]
    rows: int
    gaussian: bool


@dataclass(frozen=True, eq=False)
class SavedParts:
    """`Parts`, with names in lists."""

    names: list[str]
    models: list[SavedModel]
    pairs: list[str]
    differences: list[Differences]
    congruence: SavedCongruence | None
    rows: int
    nan_rows: int
    ignored: int
    nan_groups: list[str | int | float | bool]
    losses: dict[str, PieceSums]
    resampled: list[ResampledSums]


@dataclass(frozen=True, eq=False)
class SavedState:
    """The sum of the first groups of a pass."""

    finished: int
    state: Samples | Summary | Summaries | SavedCongruence | SavedParts | None


_FORMAT_OF_SUMS = "2"  # of `evaluate` and `compare`; 2: pieces of rows have weights


class BlockCheckpoint:
    """The checkpoint of a run on blocks.

    Parameters
    ----------
    checkpoint : Checkpoint
        The file.
    """

    every: ClassVar[float] = 30.0  # seconds between two saves

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    @classmethod
    def of(
        cls, path: FilePath, name: str, options: dict[str, object], tokens: Sequence[str]
    ) -> BlockCheckpoint:
        """Return the checkpoint of a call: its function, settings, and the tokens of its collections."""
        left_out = ("client", "progress", "checkpoint", "x", "y", "prediction", "at", "grid", "by")
        settings = {
            key: repr(value)
            for key, value in options.items()
            if key not in left_out and not key.endswith("_prime") and "weight" not in key
        }
        if name == "evaluate":  # and `compare`
            settings["format of sums"] = _FORMAT_OF_SUMS
        text = repr((name, sorted(settings.items()), list(tokens)))
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return cls(Checkpoint(path, digest, cls.every, settings))

    def load(self, name: str) -> tuple[int, Any]:
        """Return the number of finished groups of a pass, and their sum."""
        saved_state = self._checkpoint.load(_stage(name), SavedState)
        if saved_state is None:
            return 0, None
        with self.fitting():
            if saved_state.finished < 1:
                raise ValueError(f"finished is {saved_state.finished}")
            return saved_state.finished, unpacked(saved_state.state)

    @contextlib.contextmanager
    def fitting(self) -> Iterator[None]:
        """Report errors from loaded sums that do not fit the computation as those of a damaged file."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise self._checkpoint.damaged(error) from error

    def save(self, name: str, finished: int, state: object, last: bool) -> None:
        """Save the sum of the first groups of a pass, if it is time or the pass is finished."""
        self._checkpoint.save(_stage(name), lambda: SavedState(finished, packed(state)), force=last)

    def finish(self) -> None:
        """Remove the file."""
        self._checkpoint.finish()


def _stage(name: str) -> str:
    return name.replace(" ", "_")


def packed(state: object) -> Any:
    """Return sums as a state that `fastmcmd.io.state` writes."""
    if isinstance(state, CongruenceSums):
        features, sums = saved_landmarks(state.smoother), saved_sums(state)
        assert features is not None
        assert sums is not None
        return SavedCongruence(features, sums)
    if isinstance(state, ModelParts):
        return SavedModel(
            list(state.sums), list(state.sums.values()), state.skipped, list(state.groups),
            [packed(one) for one in state.groups.values()], state.rows, state.gaussian,
        )  # fmt: skip
    if isinstance(state, Parts):
        return SavedParts(
            list(state.models), [packed(one) for one in state.models.values()], list(state.pairs),
            list(state.pairs.values()), packed(state.congruence), state.rows, state.nan_rows,
            state.ignored, list(state.nan_groups), state.losses, state.resampled,
        )  # fmt: skip
    return state


def unpacked(state: object) -> Any:
    """Return the sums of a saved state."""
    if isinstance(state, SavedCongruence):
        data_sets = state.sums.models[0].cross.shape[1]
        return sums_of(state.sums, landmarks_of(state.features), data_sets)
    if isinstance(state, SavedModel):
        groups = [unpacked(one) for one in state.groups]
        return ModelParts(
            dict(zip(state.names, state.sums, strict=True)), state.skipped,
            dict(zip(state.labels, groups, strict=True)), state.rows, state.gaussian,
        )  # fmt: skip
    if isinstance(state, SavedParts):
        models = [unpacked(one) for one in state.models]
        return Parts(
            dict(zip(state.names, models, strict=True)),
            dict(zip(state.pairs, state.differences, strict=True)), unpacked(state.congruence),
            state.rows, state.nan_rows, state.ignored, tuple(state.nan_groups), state.losses,
            state.resampled,
        )  # fmt: skip
    return state
