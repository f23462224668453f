"""What a pass over blocks costs: tasks, and bytes of the sums that move.

Dask asks objects for their sizes, by which it places tasks and guards memory. `counted_bytes` returns
those of sums, whose arrays Python's own ``sys.getsizeof`` does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from fastmcmd.inference.comparison import MULTIPLIERS

__all__ = [
    "bootstrap_bytes",
    "counted_bytes",
    "group_sizes",
    "loss_bytes",
    "sample_bytes",
    "sum_bytes",
    "task_count",
]

GROUP, FAN = 64, 8  # blocks of a group; sums added by one task
PROBES = 128  # rows at which the residual of landmarks is measured


def group_sizes(blocks: int, group: int = GROUP) -> list[int]:
    """Return the number of blocks of each group."""
    return [min(group, blocks - start) for start in range(0, blocks, group)]


def task_count(blocks: int, group: int = GROUP, fan: int = FAN) -> int:
    """Return the number of tasks of a pass: one for each block, and the sums of a tree for each group.

    The result of each task moves at most once: to the worker that adds it or, from the root of a group, to
    the client.
    """
    count = 0
    for level in group_sizes(blocks, group):
        count += level
        while True:
            level = -(-level // fan)
            count += level
            if level == 1:
                break
    return count


def sum_bytes(
    landmarks: int, output_features: int, columns: int, models: int = 1, simulations: int = 0,
    probes: int = PROBES,
) -> int:  # fmt: skip
    """Return the bytes of the sums of the CCE of a block, for inputs of some columns.

    With p landmarks, r output features, d columns, m models, B simulations and s probes these are
    ``8 [p^2 (2 + 2m) + p d + 2 r + m (p r (1 + B) + r^2 + s r + 1 + B) + s (d + p + 2)]``: the Gram matrix,
    the factor and the landmarks; for each model noise, null and products; and products at the probes.
    """
    p, r, d, data_sets = landmarks, output_features, columns, 1 + simulations
    by_model = p * r * data_sets + r * r + probes * r + data_sets
    common = p * p * (2 + 2 * models) + p * d + 2 * r
    return 8 * (common + models * by_model + (probes * (d + p + 2) if probes else 0))


def bootstrap_bytes(n_boot: int, means: int, classes: int = 0) -> int:
    """Return the bytes of the sums of bootstrap samples of one model over a block.

    With B samples and q measures that are means these are ``8 (B + 1) (3 q + 233)`` for numbers, whose
    curves have 99 and 100 levels, with 30 moments, and ``8 (B + 1) (3 q + 2 + 15 (k + 1))`` for k classes.
    """
    curves = 15 * (classes + 1) if classes else 231
    return 8 * (n_boot + 1) * (3 * means + 2 + curves)


def loss_bytes(
    pieces: int, models: int, by_draws: int = 0, landmarks: int = 0, output_features: int = 0
) -> int:
    """Return the bytes of the differences of several models' mean squared CCE over a block.

    With b pieces of rows, m models, q of them by draws, p landmarks and r output features these are
    ``8 [b (2 + m) + m (m - 1) + 40 q p r]``: the losses and weights of the pieces, two sums of each pair,
    and simulated errors of the draws.
    """
    pairs = models * (models - 1)
    return 8 * (
        pieces * (2 + models) + pairs + by_draws * MULTIPLIERS * landmarks * output_features
    )


def sample_bytes(
    rows: int, columns: int, outputs: int = 1, simulated: bool = True, weighted: bool = False
) -> int:
    """Return the bytes of a sample of rows: inputs, outcomes, key, mass and place of each."""
    return 8 * rows * (columns + outputs * (1 + simulated) + 4 + weighted)


def counted_bytes(value: object) -> int:
    """Return the bytes of the arrays that a value holds, in fields, dicts and sequences."""
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(counted_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(counted_bytes, value))
    if is_dataclass(value) and not isinstance(value, type):
        return sum(counted_bytes(getattr(value, field.name)) for field in fields(value))
    return sys.getsizeof(value)
