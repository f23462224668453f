"""The map over blocks and the reduction of their sums: here, or on the workers of a cluster.

Blocks are summed in groups of 64. A group is one graph: a task for each block, and a tree that adds eight
sums at a time. Only the sum of a group comes to this process, which adds groups in order. So results do not
depend on workers, speed or restarts, at most a few groups are in memory, and a checkpoint is one sum and
the number of finished groups.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from fastmcmd._base.progress import Progress, Sweep
from fastmcmd.distributed.blocks import (
    Arguments,
    BlockError,
    Blocks,
    arguments_of,
    common_rows,
    received,
    shipped,
)
from fastmcmd.distributed.cost import FAN, GROUP, counted_bytes
from fastmcmd.distributed.saving import BlockCheckpoint

__all__ = ["FAN", "GROUP", "Job", "Run", "SchedulerLostError", "added"]

_POLL = 0.5  # seconds between two looks at the connection
_SUBMITTED_AHEAD = 2  # blocks of later groups per thread, so that no worker waits for a slow block


class SchedulerLostError(ConnectionError):
    """The connection to the scheduler was lost during a computation."""


Handle: TypeAlias = Any  # a future of a client; without one, the value itself


class Job(Protocol):
    """What is summed: a picklable object with the sums of one block."""

    @property
    def name(self) -> str:
        """Name of the pass."""

    def sums(self, arguments: Arguments, number: int) -> Any:
        """Return the sums of block ``number``, which has at least one row."""


@dataclass
class Counters:
    """What a run has sent: tasks, and bytes of the sums that came here."""

    passes: int = 0
    tasks: int = 0
    groups: int = 0


@dataclass
class Run:
    """Where and how blocks are computed.

    Attributes
    ----------
    client : distributed.Client or None
        The cluster; None computes block by block in this process.
    progress : Progress
        Shows finished blocks.
    checkpoint : BlockCheckpoint or None
        The checkpoint.
    counters : Counters
        What was sent so far.
    """

    client: Any
    progress: Progress
    checkpoint: BlockCheckpoint | None = None
    counters: Counters = field(default_factory=Counters)

    def reduce(self, job: Job, blocks: Blocks) -> Any:
        """Return the sums of all blocks; None if they have no rows.

        Raises
        ------
        BlockError
            A block cannot be read or computed, or its workers died; the message names it.
        SchedulerLostError
            The scheduler died.
        """
        self.counters.passes += 1
        first, total = (0, None) if self.checkpoint is None else self.checkpoint.load(job.name)
        sweep = self.progress.sweep(f"{job.name}{self._where()}", len(blocks), unit="blocks")
        groups = range(first, -(-len(blocks) // GROUP))
        sums: Generator[object, None, None] = (
            (self._local(job, blocks, one) for one in groups)
            if self.client is None
            else self._remote(job, blocks, groups, sweep)
        )
        with contextlib.closing(sums):
            for number, one in zip(groups, sums, strict=True):
                with contextlib.ExitStack() as stack:
                    if self.checkpoint is not None and number == first > 0:  # to sums from the file
                        stack.enter_context(self.checkpoint.fitting())
                    total = added([total, one])
                self.counters.groups += 1
                if self.checkpoint is not None:
                    self.checkpoint.save(job.name, number + 1, total, number == groups[-1])
                if self.client is None:
                    sweep.advance(min((number + 1) * GROUP, len(blocks)))
        return total

    def _where(self) -> str:
        if self.client is None:
            return ""
        count = len(self.client.scheduler_info(n_workers=-1)["workers"])
        return f" on {count} worker{'s' if count != 1 else ''}"

    def _local(self, job: Job, blocks: Blocks, group: int) -> Any:
        """Return the sums of a group, block by block, or by the scheduler that is set for Dask."""
        import dask

        if dask.config.get("scheduler", None) is not None:
            _, (root,) = self._graph(job, blocks, group)
            try:
                return dask.compute(root)[0]
            except BlockError:
                raise
            except Exception as error:
                numbers = _numbers(group, len(blocks))
                raise BlockError(
                    f"one of the blocks {numbers[0]} to {numbers[-1]} (of {len(blocks)}, counted from 0): "
                    f"{type(error).__name__}: {error}"
                ) from error
        total = part = None
        for number in _numbers(group, len(blocks)):
            try:
                values = dask.compute(*blocks.block(number), scheduler="synchronous")
            except Exception as error:
                raise _error_of_block(number, len(blocks), error) from error
            part = added([part, block_sums(job, blocks.template, number, len(blocks), *values)])
            self.counters.tasks += 1
            if (number + 1) % FAN == 0:  # in the order of the tree on workers: the same bits
                total, part = added([total, part]), None
        return added([total, part])

    def _remote(
        self, job: Job, blocks: Blocks, groups: range, sweep: Sweep
    ) -> Generator[Any, None, None]:
        """Yield the sums of groups in order; several groups are computed at a time."""
        waiting = list(groups)
        running: dict[
            int, list[Handle]
        ] = {}  # futures of a group: those of its blocks, then the sum
        ready: dict[int, Any] = {}
        finished_blocks = groups.start * GROUP
        try:
            for next_group in groups:
                while next_group not in ready:
                    while waiting and len(running) < self._most_groups(len(running)):
                        group = waiting.pop(0)
                        running[group] = self._submitted(job, blocks, group)
                    for group in self._finished(running, blocks):
                        futures = running.pop(group)
                        ready[group] = self._result(futures, group, blocks)
                        finished_blocks += len(futures) - 1
                    partial = sum(
                        one.status == "finished" for f in running.values() for one in f[:-1]
                    )
                    sweep.advance(min(finished_blocks + partial, len(blocks)))
                yield ready.pop(next_group)
        except OSError as error:  # those of the connection, as data raise a BlockError
            raise self.scheduler_error() from error
        finally:
            futures = [one for group in running.values() for one in group]
            if futures and self.client.status == "running":
                with contextlib.suppress(Exception):
                    self.client.cancel(futures, force=True)

    def _most_groups(self, running: int) -> int:
        """Return how many groups may run at a time; workers may come and go."""
        if running < 2:
            return 2
        threads = sum(self.client.nthreads().values()) or 1
        return max(2, -(-_SUBMITTED_AHEAD * threads // GROUP) + 1)

    def _submitted(self, job: Job, blocks: Blocks, group: int) -> list[Handle]:
        """Return the futures of a group."""
        sums, root = self._graph(job, blocks, group)
        futures: list[object] = self.client.compute([*sums, *root])
        return futures

    def _graph(self, job: Job, blocks: Blocks, group: int) -> tuple[list[Handle], list[Handle]]:
        """Return the sums of the blocks of a group, and that of the group, not computed."""
        from dask import delayed

        shipment = shipped(job, blocks.template)
        summed = delayed(_of_shared, pure=False)
        numbers = _numbers(group, len(blocks))
        sums = [summed(shipment, number, len(blocks), *blocks.block(number)) for number in numbers]
        level: list[object] = sums
        adder = delayed(added, pure=False)
        while len(level) > 1 or level is sums:
            level = [adder(level[at : at + FAN]) for at in range(0, len(level), FAN)]
            self.counters.tasks += len(level)
        self.counters.tasks += len(sums)
        return sums, level

    def _finished(self, running: dict[int, list[Handle]], blocks: Blocks) -> list[int]:
        """Wait a moment, and return the groups that are finished or have failed."""
        from distributed import wait

        # Ignore timeouts and cancelled futures; the code below checks them.
        with contextlib.suppress(Exception), self.client.as_current():
            wait(
                [one[-1] for one in running.values()], timeout=_POLL, return_when="FIRST_COMPLETED"
            )
        if self.client.status != "running" or any(
            one[-1].status in ("cancelled", "lost") for one in running.values()
        ):
            raise self.scheduler_error()
        failed = [
            (group * GROUP + place, one)
            for group, futures in running.items()
            for place, one in enumerate(futures[:-1])
            if one.status == "error"
        ]
        if failed:
            raise _failure(failed, len(blocks))
        return [group for group, futures in running.items() if futures[-1].done()]

    def _result(self, futures: list[Handle], group: int, blocks: Blocks) -> Any:
        try:
            return futures[-1].result()
        except OSError:
            raise
        except Exception as error:
            first = group * GROUP
            failed = [
                (first + place, one)
                for place, one in enumerate(futures[:-1])
                if one.status == "error"
            ]
            if failed:
                raise _failure(failed, len(blocks)) from None
            raise BlockError(f"sums of blocks from {first} on: {error}") from error

    def scheduler_error(self) -> SchedulerLostError:
        """Return the error of a lost connection, with advice."""
        hint = "" if self.checkpoint is None else "; the same call resumes from checkpoint"
        return SchedulerLostError(
            f"the connection to the scheduler was lost, or its tasks were cancelled{hint}"
        )


@lru_cache
def register_sizes() -> None:
    """Let Dask know the sizes of sums in this process: it places tasks and guards memory by them."""
    from dask.sizeof import sizeof

    from fastmcmd.distributed.parts import Parts, Summaries
    from fastmcmd.distributed.sampling import Samples
    from fastmcmd.streaming.congruence_sums import CongruenceSums

    for kind in (CongruenceSums, Parts, Samples, Summaries):
        sizeof.register(kind, counted_bytes)


def added(sums: list[Handle]) -> Any:
    """Return the sum of some sums, from left to right; None stands for no rows."""
    total = None
    for one in sums:
        if one is not None:
            total = one if total is None else total + one
    return total


def block_sums(job: Job, template: Arguments, number: int, count: int, *values: object) -> Any:
    """Return the sums of a block, or None if it has no rows; errors name it."""
    try:
        if not common_rows(values):
            return None
        with _CORE:
            return job.sums(arguments_of(template, values), number)
    except BlockError:
        raise
    except Exception as error:
        raise _error_of_block(number, count, error) from error


_CORE = threading.RLock()  # the compiled core has its own threads


def _of_shared(shipment: bytes, number: int, count: int, *values: object) -> Any:
    register_sizes()
    return block_sums(*received(shipment), number, count, *values)


def _numbers(group: int, count: int) -> range:
    return range(group * GROUP, min((group + 1) * GROUP, count))


def _error_of_block(number: int, count: int, error: BaseException | None) -> BlockError:
    """Return an error that names the block at fault."""
    if isinstance(error, BlockError):
        return error
    place = f"block {number} (of {count}, counted from 0)"
    return BlockError(f"{place}: {type(error).__name__}: {error}")


def _failure(failed: list[tuple[int, Handle]], count: int) -> BlockError:
    """Return an error that names the block that failed, or those on workers that died."""
    errors = [(number, one.exception()) for number, one in failed]
    for number, error in errors:
        if type(error).__name__ != "KilledWorker":
            return _error_of_block(number, count, error)
    numbers = ", ".join(str(number) for number, _ in errors)
    return BlockError(
        f"block {numbers} (of {count}, counted from 0): every worker that computed it died, probably for "
        "want of memory: use smaller blocks, a smaller memory_limit, or workers with more memory"
    )
