"""What is chosen before the rows are summed: kernels, regulariser, landmarks, output features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import as_rows, check_count
from fastmcmd._base.memory import format_bytes
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.distributed.blocks import Blocks
from fastmcmd.distributed.running import Run
from fastmcmd.distributed.sampling import Sample, SampleJob
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import offset_of
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import Delta, Kernel, scale_columns, split_scales
from fastmcmd.kernels.base import KernelLike
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.streaming import CCE
from fastmcmd.streaming.congruence_landmarks import smoother_at
from fastmcmd.streaming.congruence_sums import Probes
from fastmcmd.streaming.output_features import Lattice

__all__ = ["LANDMARKS", "Setting", "rows_per_step", "setting_of"]

CANDIDATES = 10_000  # rows of the sample from which kernels and landmarks are chosen
LANDMARKS = 100  # as those of `fastmcmd.streaming.CCE`
_OUTPUT_LANDMARKS = 200
_PROPOSED = 4  # rows proposed for each landmark that is still free
_PROBES, _LEAST_PROBES = 128, 20
_STEP = 8_192  # rows whose features are computed together
_RANK = 256  # output features of an RBF kernel on numbers, seldom more

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Setting:
    """Kernels and landmarks of a computation on blocks.

    Attributes
    ----------
    accumulator : CCE
        Without rows, with the landmarks.
    x_kernel, y_kernel : Kernel
        Kernels with numbers for parameters.
    lam : float
        Regulariser.
    sample : Sample
        Rows from which these were chosen.
    seed : SeedSequence
        Source of the streams of blocks.
    notes : tuple of str
        Remarks for the result.
    """

    accumulator: CCE
    x_kernel: Kernel
    y_kernel: Kernel
    lam: float
    sample: Sample
    seed: np.random.SeedSequence
    notes: tuple[str, ...]


def setting_of(
    run: Run,
    blocks: Blocks,
    seed: np.random.SeedSequence,
    *,
    x_kernel: KernelLike,
    y_kernel: KernelLike,
    lam: float | str | None,
    rank: int | None,
    landmarks: str | ArrayLike | None,
    simulations: int = 0,
    uniform: bool = False,
    none: str = "auto",
    more: Blocks | None = None,
    kind: type[CCE] = CCE,
    policy: str = "raise",
    certificate: str = "auto",
    of_prediction: bool = False,
) -> Setting:
    """Return kernels and landmarks from a sample of the rows, in one or two passes.

    Randomly pivoted Cholesky chooses half of the landmarks from 10,000 rows. In a second pass each block
    proposes rows, drawn by what these landmarks miss; the proposals are then accepted or rejected one after
    the other, so that accepted rows have the distribution of randomly pivoted Cholesky on all rows. If the
    sample holds all rows, the first pass is enough. ``more`` holds the second sample of `mcmd`.
    ``of_prediction`` chooses what depends on outcomes from those of a right model, as an exact test needs.
    """
    sample = run.reduce(SampleJob("sample", seed, CANDIDATES, policy=policy), blocks)
    if sample is None or not len(sample.keys):
        raise ValueError("there are no rows with a positive weight; at least one is needed")
    notes: list[str] = []
    order = sample.in_order()
    x, y = sample.x[order], (sample.drawn if of_prediction else sample.y)[order]
    kernel, outputs, regulariser = chosen_kernels(
        x, y, x_kernel, y_kernel, lam, classes=bool(sample.classes), none=none
    )
    scales, _ = split_scales(kernel)
    inner, rows = scale_columns(kernel, x)
    inner = inner.resolve(rows)
    outputs = outputs.resolve(y)
    if sample.rows > len(sample.keys):
        notes.append(
            f"kernels and landmarks were chosen from {len(sample.keys):,} of {sample.rows:,} rows"
        )
    if more is not None:
        other = run.reduce(SampleJob("sample of x_prime", seed, CANDIDATES), more)
        if other is None or not len(other.keys):
            raise ValueError("x_prime has no rows with a positive weight; at least one is needed")
        sample = replace(sample + other, most=CANDIDATES)
        rows = sample.x if scales is None else sample.x * np.array(scales)
    most = check_count(LANDMARKS if rank is None else rank, "rank", least=1)
    if landmarks is not None and not isinstance(landmarks, str):
        smoother = smoother_at(kernel, as_rows(landmarks, "landmarks", columns=x.shape[1]).astype(float))
    else:
        search = _search(inner, rows, min(most, len(rows)), seed)
        complete = sample.rows <= len(sample.keys) or more is not None
        if uniform or landmarks == "uniform":
            rng = generator(seed, Purpose.LANDMARKS)
            search.take(rng.permutation(len(rows))[:most], independent=True)
        else:
            search.grow(most if complete else max(1, most // 2))
        smoother = Smoother(search.kernel_features(), scales)
        if not (complete or search.exhausted or uniform or landmarks == "uniform"):
            smoother = _completed(run, blocks, smoother, most, seed, policy)
    accumulator = kind(
        kernel, outputs, smoother.features.pivots, regulariser, simulations=simulations,
        output_landmarks=_output_landmarks(outputs, sample, seed, of_prediction), random_state=generator(seed, Purpose.TEST),
    )  # fmt: skip
    accumulator._smoother = smoother
    accumulator._probes = _probes(sample, smoother.rank) if certificate != "rigorous" else None
    return Setting(accumulator, inner, outputs, regulariser, sample, seed, tuple(notes))


def rows_per_step(limit: int | None, landmarks: int, simulations: int, models: int = 1) -> int:
    """Return the number of rows that a worker handles at once within ``limit`` bytes.

    Raises
    ------
    MemoryLimitError
        The sums alone need more.
    """
    if limit is None:
        return _STEP
    sums = 8 * models * (3 * landmarks**2 + landmarks * _RANK * (1 + simulations) + _RANK**2)
    row = 8 * (4 * landmarks + models * 6 * _RANK)
    block = 8 * 512 * _RANK * simulations  # simulated outcomes come in blocks of 512 rows
    if 2 * sums + block + 256 * row > limit:
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(limit)} for each worker; {landmarks} landmarks and "
            f"{simulations} simulations need {format_bytes(2 * sums + block + 256 * row)}: pass a smaller "
            "rank, or fewer simulations"
        )
    return int(np.clip((limit - 2 * sums - block) // row, 256, _STEP))


def _probes(sample: Sample, rank: int) -> Probes | None:
    """Return rows at which the residual is measured; None if there are only a few."""
    count = min(_PROBES, len(sample.keys))
    if count < _LEAST_PROBES:
        return None
    some = np.argsort(-sample.keys, kind="stable")[:count]
    total = sample.mass  # the number of rows with a weight: all masses are 1
    weights = np.ones(count) if sample.weights is None else sample.weights[some]
    return Probes(sample.x[some], weights, total / count, np.zeros((count, rank)))


def _search(
    kernel: Kernel, rows: Array, most: int, seed: np.random.SeedSequence
) -> LandmarkSearch:
    backend = get_backend("auto", kernel)
    return LandmarkSearch(
        backend, kernel, rows, np.ones(len(rows)), most, generator(seed, Purpose.LANDMARKS),
        offset_of(kernel, backend, rows),
    )  # fmt: skip


def _completed(
    run: Run,
    blocks: Blocks,
    smoother: Smoother,
    most: int,
    seed: np.random.SeedSequence,
    policy: str,
) -> Smoother:
    """Return landmarks with those added that blocks propose."""
    features = smoother.features
    free = most - features.rank
    job = SampleJob("landmarks", seed, _PROPOSED * free, smoother, policy)
    proposed = run.reduce(job, blocks)
    if proposed is None or not len(proposed.keys):
        return smoother
    rows = proposed.x[np.argsort(-proposed.keys, kind="stable")]  # in the order of the draws
    if smoother.scales is not None:
        rows = rows * np.array(smoother.scales)
    pool = np.concatenate([features.pivots, rows])
    search = _search(features.kernel, pool, most, seed)
    old = np.arange(features.rank)
    search.take(old)
    search.consider(np.arange(len(old), len(pool)), most)
    search.grow(most)
    return Smoother(search.kernel_features(), smoother.scales)


def _output_landmarks(
    kernel: Kernel, sample: Sample, seed: np.random.SeedSequence, of_prediction: bool
) -> Array | None:
    """Return outputs at which features of ``kernel`` are exact; None if a lattice needs none."""
    if isinstance(kernel, Delta) and sample.classes:
        return np.arange(sample.classes, dtype=np.float64)[:, None]
    if sample.y.shape[1] == 1 and Lattice.of(kernel) is not None:
        return None
    outputs: Any = sample.y
    if of_prediction:
        outputs = sample.drawn
    elif sample.drawn.shape[1] == outputs.shape[1]:
        outputs = np.concatenate([outputs, sample.drawn])
    smoother = Smoother.of(
        kernel, outputs, _OUTPUT_LANDMARKS, generator(seed, Purpose.LANDMARKS), "y_kernel"
    )
    return np.asarray(smoother.features.pivots)
