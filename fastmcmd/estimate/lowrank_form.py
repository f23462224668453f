"""The low-rank form of two samples: output features from some rows, then a fit of each set of inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.base import Backend
from fastmcmd.checkpoint import Checkpoint, stages_of
from fastmcmd.embedding.expected import candidates
from fastmcmd.embedding.features import output_features, pooled_with_importance
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.lowrank import LowRankFit, LowRankPart, Term
from fastmcmd.estimate.lowrank_fit import fit_part
from fastmcmd.estimate.part_problem import Setting
from fastmcmd.estimate.primal import Truncation
from fastmcmd.estimate.rowwise import RowStream
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.progress import Progress

__all__ = ["POOL", "fit_low_rank"]

POOL = 40000  # outputs of a sample among which pivots are looked for
_ROUNDS = 3  # times that outputs which the features miss join them
_SHARE = 0.3  # of the tolerance that truncation may take
_ROUNDING = 1.5  # times what rounding alone misses: no pivots would bring that down much


def fit_low_rank(
    samples: tuple[Sample, Sample],
    backend: Backend,
    y_kernel: Kernel,
    x_kernel: Kernel,
    setting: Setting,
    options: Options,
    eps: float,
    most: int,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> LowRankFit | None:
    """Return the fitted low-rank form, or None where its goal is out of reach.

    Parameters
    ----------
    samples : tuple of Sample
        Nature and model.
    backend, x_kernel, y_kernel
        What computes which kernel.
    setting : Setting
        Goal of all parts together, landmarks, memory.
    options : Options
        How to compute.
    eps : float
        Residual that output features may leave, relative.
    most : int
        Rank of the output features at most.
    progress : Progress
        Told of each pass.
    checkpoint : Checkpoint, optional
        Where the sums of the passes are kept.
    """
    extra: list[NDArray[np.float64]] = []
    for attempt in range(_ROUNDS):
        values, importance = _outputs(samples, extra)
        found = output_features(
            y_kernel, options.backend_for(y_kernel), values, eps, most, importance
        )
        if found is None:
            return None
        features = found[0]
        parts: list[LowRankPart] = []
        streams = []
        missed = expectation = 0.0
        rigorous = True
        groups = _groups(samples, features.rank)
        for number, (group, terms, difference) in enumerate(groups):
            stream = RowStream(group, features, difference)
            share = replace(setting, goal=setting.goal / len(groups))
            stages = stages_of(checkpoint, f"low rank {attempt} {number}")
            part = fit_part(stream, terms, backend, x_kernel, share, progress, stages)
            if part is None:
                return None
            error, certain = stream.expectation_error()
            missed += stream.truncated()
            expectation += error
            rigorous = rigorous and certain
            parts.append(part)
            streams.append(stream)
        truncation = Truncation(missed, expectation, rigorous)
        if setting.scale / 2 * missed <= _SHARE * options.tol or attempt + 1 == _ROUNDS:
            break
        if missed <= _ROUNDING * sum(_rounding(features, sample) for sample in samples):
            break
        more = [
            _uncovered(sample.all_outputs.take(np.unique(stream.worst_rows)).flat, features, eps)
            for stream in streams
            for sample in stream.samples
            if isinstance(sample.all_outputs, DrawnOutputs)
        ]
        more = [outputs for outputs in more if len(outputs)]
        if not more:  # rounding, or expectations: other pivots would miss as much
            break
        extra.extend(more)
    rank = max(part.features.rank for part in parts)
    rows = setting.block_rows(rank, features.rank, parts[0].features.pivots.shape[1])
    return LowRankFit(features, parts, truncation, rows)


def _groups(
    samples: tuple[Sample, Sample], rank: int
) -> list[tuple[list[Sample], list[Term], bool]]:
    """Return the samples that share their inputs, and the systems over them."""
    nature, model = samples
    whole = slice(0, rank)
    if not nature.same_rows(model):
        return [
            ([nature], [Term(whole, nature.lam, 1.0)], False),
            ([model], [Term(whole, model.lam, -1.0)], False),
        ]
    if nature.lam == model.lam:
        return [([nature, model], [Term(whole, nature.lam, 1.0)], True)]
    terms = [Term(whole, nature.lam, 1.0), Term(slice(rank, 2 * rank), model.lam, -1.0)]
    return [([nature, model], terms, False)]


def _rounding(features: KernelFeatures, sample: Sample) -> float:
    """Return what a sample's features miss where they miss nothing but rounding."""
    largest = float(np.max(features.kernel.diagonal(features.pivots)))
    return float(np.sqrt(features.noise * largest / sample.lam))


def _uncovered(
    outputs: NDArray[np.float64], features: KernelFeatures, eps: float
) -> NDArray[np.float64]:
    """Return those of some outputs that more pivots would serve: not only rounding is missed of them."""
    diagonal = np.asarray(features.kernel.diagonal(outputs), dtype=np.float64)
    missed = features.residuals(outputs, features.transform(outputs))
    return outputs[missed > (eps + features.noise) * diagonal.max()]


def _outputs(
    samples: tuple[Sample, Sample], extra: list[NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distinct outputs to choose pivots from, and their importance."""
    parts = []
    for sample in samples:
        outputs = sample.all_outputs
        if isinstance(outputs, DrawnOutputs):
            values = _spread(outputs)
            parts.append((values, np.ones(len(values))))
        else:
            parts.append(candidates(outputs.prediction))
    parts.extend((values, np.ones(len(values))) for values in extra)
    distinct, _, importance = pooled_with_importance(*parts)
    return distinct, importance


def _spread(outputs: DrawnOutputs) -> NDArray[np.float64]:
    """Return some outputs: drawn evenly from the rows, with the ends of each component."""
    flat = outputs.flat
    if len(flat) <= POOL:
        return np.asarray(flat, dtype=np.float64)
    rng = np.random.default_rng(len(flat))
    chosen = [rng.choice(len(flat), POOL, replace=False)]
    for column in range(flat.shape[1]):
        chosen.append(np.array([np.argmin(flat[:, column]), np.argmax(flat[:, column])]))
    return np.asarray(flat[np.unique(np.concatenate(chosen))], dtype=np.float64)
