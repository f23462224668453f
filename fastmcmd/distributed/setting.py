"""Choices before the rows are summed: kernels, regulariser, landmarks, output features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import as_rows, check_count
from fastmcmd._base.memory import format_bytes
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.distributed.blocks import Blocks
from fastmcmd.distributed.cost import PROBES
from fastmcmd.distributed.rows import ALL_ROWS, RowRules
from fastmcmd.distributed.running import Run
from fastmcmd.distributed.sampling import BlockSample, SampleJob, draw_sample, probe_mass, probes_of
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import offset_of
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import Kernel, scale_columns, split_scales
from fastmcmd.kernels.base import KernelLike
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.streaming import CCE
from fastmcmd.streaming.congruence_landmarks import features_of, smoother_at
from fastmcmd.streaming.output_features import landmarks_of_outputs

__all__ = ["LANDMARKS", "Setting", "rows_per_step", "setting_of"]

CANDIDATES = 10_000  # rows of the sample from which kernels and landmarks are chosen
LANDMARKS = 100  # as those of `fastmcmd.streaming.CCE`
_PROPOSED = 4  # rows proposed for each landmark that is still free
_STEP = 8_192  # rows whose features are computed together
_RANK = 256  # output features of an RBF kernel on numbers, seldom more

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Setting:
    """Kernels and landmarks of a computation on blocks.

    Attributes
    ----------
    accumulators : tuple of CCE
        One for each sample, without rows, with the landmarks.
    x_kernel, y_kernel : Kernel
        Kernels with numbers for parameters.
    lam : float
        Regulariser.
    sample : BlockSample
        Rows from which these were chosen.
    seed : SeedSequence
        Source of the streams of blocks.
    notes : tuple of str
        Remarks for the result.
    """

    accumulators: tuple[CCE, ...]
    x_kernel: Kernel
    y_kernel: Kernel
    lam: float
    sample: BlockSample
    seed: np.random.SeedSequence
    notes: tuple[str, ...]

    @property
    def accumulator(self) -> CCE:
        """The accumulator of the first sample."""
        return self.accumulators[0]


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
    rules: RowRules = ALL_ROWS,
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
    sample = _sample(run, blocks, seed, rules, "x")
    notes: list[str] = []
    order = sample.in_order()
    x, y = sample.x[order], (sample.simulated if of_prediction else sample.y)[order]
    kernel, outputs, regulariser = chosen_kernels(
        x, y, x_kernel, y_kernel, lam, classes=bool(sample.classes), none=none
    )
    scales, _ = split_scales(kernel)
    inner, rows = scale_columns(kernel, x)
    inner = inner.resolve(rows)
    outputs = outputs.resolve(y)
    if not sample.complete:
        notes.append(
            f"kernels and landmarks were chosen from {len(sample.keys):,} of {sample.rows:,} rows"
        )
    samples, data = [sample], [blocks]
    if more is not None:
        samples, data = [sample, _sample(run, more, seed, rules, "x_prime")], [blocks, more]
        rows = np.concatenate([one.x for one in samples])
        rows = rows if scales is None else rows * np.array(scales)
    most = check_count(LANDMARKS if rank is None else rank, "rank", least=1)
    proposing = False
    if landmarks is not None and not isinstance(landmarks, str):
        points = as_rows(landmarks, "landmarks", columns=x.shape[1]).astype(np.float64)
        smoother = smoother_at(kernel, points)
    else:
        search = _search(inner, rows, min(most, len(rows)), seed)
        if uniform or landmarks == "uniform":
            rng = generator(seed, Purpose.LANDMARKS)
            search.take(rng.permutation(len(rows))[:most], independent=True)
        else:
            proposing = more is None and not sample.complete
            search.grow(max(1, most // 2) if proposing else most)
            proposing = proposing and not search.exhausted
        smoother = Smoother(search.kernel_features(), scales)
    proposals, probes = None, []
    for one, some in zip(samples, data, strict=True):
        drawn_rows, results = _proposed(
            run, some, one, smoother, seed, rules, most - smoother.rank if proposing else 0,
            certificate != "rigorous", "landmarks" if one is sample else "residual of x_prime",
        )  # fmt: skip
        proposals = drawn_rows if one is sample else proposals
        probes.append(results)
    if proposing and proposals is not None and len(proposals.keys):
        smoother = _completed(smoother, proposals, most, seed)
    accumulators = []
    for rows_of_probes in probes:
        accumulator = kind(
            kernel, outputs, smoother.features.pivots, regulariser, simulations=simulations,
            output_landmarks=_output_landmarks(outputs, samples, seed, of_prediction),
            random_state=generator(seed, Purpose.TEST),
        )  # fmt: skip
        accumulator._smoother = smoother
        accumulator._probes = (
            None if rows_of_probes is None else probes_of(rows_of_probes, smoother.rank)
        )
        accumulators.append(accumulator)
    return Setting(tuple(accumulators), inner, outputs, regulariser, sample, seed, tuple(notes))


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


def _sample(
    run: Run, blocks: Blocks, seed: np.random.SeedSequence, rules: RowRules, name: str
) -> BlockSample:
    """Return a uniform sample of the rows."""
    results = run.reduce(SampleJob(f"sample of {name}", seed, CANDIDATES, rules=rules), blocks)
    if results is None or not len(results.parts[0].keys):
        without = "" if rules.policy == "raise" else " and without NaN"
        raise ValueError(
            f"{name} has no rows with a positive weight{without}; at least one is needed"
        )
    sample: BlockSample = results.parts[0]
    return sample


def _proposed(
    run: Run, blocks: Blocks, sample: BlockSample, smoother: Smoother, seed: np.random.SeedSequence,
    rules: RowRules, free: int, probed: bool, name: str,
) -> tuple[BlockSample | None, BlockSample | None]:  # fmt: skip
    """Return rows proposed as landmarks, and rows at which the residual is measured.

    Both come from one pass, or from the sample if it holds all rows.
    """
    residual = features_of(smoother, sample.x)[1]
    floor = max(float(residual.mean()), 1e-300)
    unit = 1.0 if sample.weights is None else float(sample.weights.mean())
    if sample.complete:
        rng = generator(seed, Purpose.CERTIFICATE)
        one = draw_sample(
            sample.x,
            sample.y,
            sample.weights,
            probe_mass(residual, floor, sample.weights, unit),
            PROBES + 1,
            rng,
            0,
        )
        return None, one if probed else None
    if not (free or probed):
        return None, None
    job = SampleJob(
        name,
        seed,
        max(1, _PROPOSED * free),
        smoother,
        PROBES + 1 if probed else 0,
        floor,
        unit,
        rules,
    )
    results = run.reduce(job, blocks)
    return results.parts[0], results.parts[1] if probed else None


def _search(kernel: Kernel, rows: Array, most: int, seed: np.random.SeedSequence) -> LandmarkSearch:
    backend = get_backend("auto", kernel)
    return LandmarkSearch(
        backend, kernel, rows, np.ones(len(rows)), most, generator(seed, Purpose.LANDMARKS),
        offset_of(kernel, backend, rows),
    )  # fmt: skip


def _completed(
    smoother: Smoother, proposed: BlockSample, most: int, seed: np.random.SeedSequence
) -> Smoother:
    """Return landmarks with those added that blocks propose."""
    features = smoother.features
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
    kernel: Kernel, samples: list[BlockSample], seed: np.random.SeedSequence, of_prediction: bool
) -> Array | None:
    """Return outputs at which features of ``kernel`` are exact; None if a lattice needs none."""
    first = samples[0]
    pools: list[Any] = [] if of_prediction else [one.y for one in samples]
    pools += [one.simulated for one in samples if one.simulated.shape[1] == first.y.shape[1]]
    rng = generator(seed, Purpose.LANDMARKS)
    return landmarks_of_outputs(kernel, np.concatenate(pools), first.classes, rng)
