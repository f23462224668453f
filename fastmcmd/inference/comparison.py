"""Comparison of models: paired differences with intervals, to see whether they are beyond chance.

The outcomes are the same for all models, so differences are computed row by row. The difference of two
models' mean squared CCE is linear in the outcomes: with ``S = H'H / n``, ``Delta = M_A - M_B`` and
residuals e_A, e_B, ``T_A - T_B = -sum_i <(S Delta)_i, e_A,i + e_B,i>``. Its terms are independent given
x, and their conditional means vary little, because the embeddings of both predictions are subtracted from
the outcome's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fastmcmd._base.arrays import HOST
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import inner, times
from fastmcmd.embedding.line import LineFeatures
from fastmcmd.embedding.sample import DrawnOutputs
from fastmcmd.gram import KernelFeatures
from fastmcmd.inference.chance import Chance
from fastmcmd.inference.row_norms import FeatureMap, embedded, member_spread
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.inference.tails import why_no_interval
from fastmcmd.predictive.numerics.spread import unit_of

__all__ = [
    "LEAST_CLUSTERS",
    "MULTIPLIERS",
    "ROUNDING",
    "CongruenceLosses",
    "Paired",
    "add_draw_errors",
    "clusters_of",
    "concluded",
    "congruence_bytes",
    "congruence_losses",
    "holm",
    "model_confidence_set",
    "paired",
]

Array = NDArray[np.float64]

LEAST_CLUSTERS = 6  # with fewer clusters, no pattern of signs is significant: 2 / 2^5 > 0.05
ROUNDING = 1e-12  # relative to the terms' sizes: smaller sums are rounding
_LANDMARKS = 100, 400  # landmarks in x, at least and at most: validity does not depend on them
_OPERATIONS = 2e10  # operations of a product of the coordinates with themselves
_TYPICAL_RANK = 40  # rank of output features for an RBF kernel on numbers
_RANK = 400  # largest rank of the output features: validity does not depend on it
_ROWS_ON_LINE = 150_000  # rows of all models, with up to 4,000 features each: 5 GB
_ROWS = 4_096  # rows whose coordinates are in memory at once
MULTIPLIERS = 40  # simulated draws for a variance
_BATCHES = (
    1_000  # largest number of sums of consecutive rows that the bootstrap samples, or have tails
)


@dataclass(frozen=True)
class Paired:
    """A difference between two models, with its confidence interval and p-value.

    Attributes
    ----------
    difference, low, high : float
        The difference, first minus second, and its confidence interval.
    p_value : float
        Two-sided p-value of no difference.
    error : float
        Standard error.
    reason : str
        Why there is no interval and no p-value, though there is an error; "" if there is one.
    """

    difference: float
    low: float
    high: float
    p_value: float
    error: float
    reason: str = ""


def holm(p: Array) -> Array:
    """Return adjusted p-values, which are compared with the level of the family.

    Holm, *A simple sequentially rejective multiple test procedure* (Scandinavian Journal of Statistics,
    1979).
    """
    order = np.argsort(p)
    scaled = p[order] * np.arange(len(p), 0, -1)
    out = np.empty_like(p)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out


def clusters_of(
    n: int, groups: NDArray[np.intp] | None, block_length: int | None
) -> NDArray[np.intp] | None:
    """Return the cluster (n,) of each row, or None if all rows are independent.

    Parameters
    ----------
    n : int
        Number of rows.
    groups : ndarray (n,) of int or None
        Numbers of groups, from 0. Rows of different groups are independent.
    block_length : int or None
        Length of blocks of consecutive rows; the last block includes the remainder.
    """
    if groups is not None:
        return groups
    if block_length is None:
        return None
    return np.minimum(np.arange(n) // block_length, max(n // block_length - 1, 0))


def paired(
    terms: Array,
    clusters: NDArray[np.intp] | None,
    confidence: float,
    size: float | None = None,
    difference: float | None = None,
    more_variance: float = 0.0,
    shares: Array | None = None,
    unbounded: bool = False,
) -> Paired | None:
    """Return a difference that is a sum over rows, with its t interval; None for too few rows.

    Parameters
    ----------
    terms : ndarray (n,)
        Terms of the sum, independent between clusters.
    clusters : ndarray (n,) of int or None
        Clusters as `clusters_of` returns them.
    confidence : float
        Level of the interval.
    size : float, optional
        Sum of the absolute values of the subtracted terms: a difference below its rounding is 0.
    difference : float, optional
        The difference, if it is known more exactly than by the sum of the terms.
    more_variance : float
        Variance from other sources than the outcomes.
    shares : ndarray (n,), optional
        Weights of rows with sum 1, if terms are weighted: their common mean is subtracted in these shares.
    unbounded : bool
        Whether terms have no bounds: they have an interval only if it holds (`why_no_interval`).

    Notes
    -----
    Sums over clusters are centred at their mean, and their variance has the divisor G - 1. If means differ
    between rows, the interval is wider than necessary, never narrower.
    """
    total = float(terms.sum())
    if difference is None:
        difference = total
    share = np.full(len(terms), 1 / len(terms)) if shares is None else shares
    centred = terms - total * share
    if clusters is not None:
        centred = np.bincount(clusters, weights=centred).astype(np.float64)
        share = np.bincount(clusters, weights=share).astype(np.float64)
    has_weight = share > 0
    count = int(has_weight.sum())
    freedom = 1 / float(share @ share) - 1  # G - 1 of equal shares
    if count < LEAST_CLUSTERS or freedom < 1:
        return None
    negligible = size is not None and abs(difference) <= ROUNDING * size
    # Terms may have the unit of y, whose square may leave float64.
    unit = unit_of(HOST, centred)
    centred = centred / unit
    error = unit * math.sqrt(float(centred @ centred) * (freedom + 1) / freedom)
    error = math.hypot(error, math.sqrt(more_variance))
    reason = ""
    if unbounded:
        plural = "rows" if clusters is None else "clusters"
        spread = centred[has_weight]
        if size is not None and error <= ROUNDING * size:  # all terms are equal
            spread = np.zeros_like(spread)
        reason = why_no_interval(_in_batches(spread), plural)
    return concluded(difference, error, freedom, confidence, negligible, reason)


def _in_batches(terms: Array) -> Array:
    """Return at most 1,000 sums of consecutive terms: a mean of many terms settles before its terms do."""
    length = -(-len(terms) // _BATCHES)
    return np.asarray(np.add.reduceat(terms, np.arange(0, len(terms), length)))


def concluded(
    difference: float, error: float, freedom: float, confidence: float, negligible: bool,
    reason: str = "",
) -> Paired:  # fmt: skip
    """Return the t interval of a difference with its standard error; a negligible difference is 0.

    With a ``reason`` why there is none, only a negligible difference has an interval.
    """
    if negligible or (error == 0 and difference == 0):
        return Paired(difference, difference, difference, 1.0, error)
    if reason:
        return Paired(difference, math.nan, math.nan, math.nan, error, reason)
    if error == 0:
        return Paired(difference, difference, difference, 0.0, error)
    reach = float(special.stdtrit(freedom, (1 + confidence) / 2)) * error
    p = float(2 * special.stdtr(freedom, -abs(difference) / error))
    return Paired(difference, difference - reach, difference + reach, p, error)


@dataclass(frozen=True, eq=False)
class CongruenceLosses:
    """The rows' contributions to several models' mean squared CCE.

    Attributes
    ----------
    smoothed : ndarray (m, n, r)
        ``w_i (S M)_i`` of each model.
    means : ndarray (m, n, r)
        ``M``: the embedded predictions.
    outcomes : ndarray (n, r)
        ``p(y_i)``.
    corrections : ndarray (m, n)
        ``S_ii s_i^2 / l`` for predictions by l draws: the contribution of their sampling noise.
    variances : ndarray (m,)
        Variance of a model's mean squared CCE due to its draws.
    """

    smoothed: Array
    means: Array
    outcomes: Array
    corrections: Array
    variances: Array

    def pair(self, first: int, second: int) -> Array:
        """Return terms (n,) whose sum is the difference of two models' mean squared CCE."""
        delta = self.smoothed[first] - self.smoothed[second]
        both = 2 * self.outcomes - self.means[first] - self.means[second]
        terms = -np.einsum("ir,ir->i", delta, both)
        return np.asarray(terms - self.corrections[first] + self.corrections[second])

    def losses(self) -> Array:
        """Return losses (n, m) whose sums have the same differences as the models' mean squared CCE."""
        middle = self.means.mean(axis=0)
        reference = self.smoothed.mean(axis=0)
        columns = []
        for smoothed, mean, correction in zip(
            self.smoothed, self.means, self.corrections, strict=True
        ):
            deviation = smoothed - reference
            away = (mean - middle) - 2 * (self.outcomes - middle)
            columns.append(np.einsum("ir,ir->i", deviation, away) - correction)
        return np.stack(columns, axis=1)


def congruence_bytes(models: Sequence[Chance]) -> float:
    """Return the approximate memory that `congruence_losses` needs, in bytes."""
    return 8.0 * _TYPICAL_RANK * len(models[0].nature) * (2 * len(models) + 2)


def congruence_losses(models: Sequence[Chance], random_state: object = 0) -> CongruenceLosses:
    """Return the rows' contributions to the mean squared CCE of models with the same outcomes and kernels.

    Parameters
    ----------
    models : sequence of Chance
        Models, evaluated at their own inputs.
    random_state : int or numpy.random.Generator
        Source of landmarks, and of simulated draws for predictions that are draws.
    """
    first = models[0]
    nature = first.nature
    design_rows = nature.design.rows
    x = np.asarray(nature.x if design_rows is None else nature.x[design_rows])
    n = len(x)
    weight = (
        nature.weights
        if design_rows is None or nature.weights is None
        else nature.weights[design_rows]
    )
    w = np.ones(n) if weight is None else weight
    y = np.asarray(nature.outputs.values[:, 0], dtype=np.float64)  # type: ignore[union-attr]
    outputs = [one.model.outputs for one in models]
    line = n * (2 * len(models) + 2) <= _ROWS_ON_LINE
    embedding = embedded(first.y_kernel, y, outputs, _RANK, best=True, line=line)
    if embedding is None:
        raise ValueError(f"{first.y_kernel!r} has no features of affordable rank here")
    features, outcomes, means = embedding[0], embedding[1], np.stack(embedding[2])
    most = int(np.clip(np.sqrt(_OPERATIONS / n), *_LANDMARKS))
    basis = Smoother.of(first.x_kernel, x, most, random_state).basis(x, weight)
    energy = basis.energy(nature.lam)
    sums = np.zeros((len(models), len(energy), features.rank))
    for rows, g in _Blocks(basis, x):
        for model, mean in enumerate(means):
            sums[model] += inner(g, w[rows, None] * mean[rows])
    smoothed, corrections = np.empty_like(means), np.zeros(means.shape[:2])
    spreads = [
        member_spread(features, side, mean) / side.values.shape[1]
        if isinstance(side, DrawnOutputs) and side.values.shape[1] > 1
        else None
        for side, mean in zip(outputs, means, strict=True)
    ]
    for rows, g in _Blocks(basis, x):
        weighed = w[rows, None] * g * energy
        leverage = np.einsum("ip,ip->i", w[rows, None] * g, weighed)
        for model, spread in enumerate(spreads):
            smoothed[model, rows] = times(weighed, sums[model])
            if spread is not None:
                corrections[model, rows] = leverage * spread[rows]
    variances = np.zeros(len(models))
    observed = sum(inner(g, w[rows, None] * outcomes[rows]) for rows, g in _Blocks(basis, x))
    rng = generator(random_state, Purpose.COMPARISON)
    for model, (side, spread) in enumerate(zip(outputs, spreads, strict=True)):
        if spread is not None:
            assert isinstance(side, DrawnOutputs)
            residual = energy[:, None] * (observed - sums[model])
            draw_errors = _moved_by_draws(basis, x, w, features, side, means[model], rng)
            change = 2 * np.einsum("pr,bpr->b", residual, draw_errors)
            change += np.einsum("bpr,p,bpr->b", draw_errors, energy, draw_errors)
            variances[model] = float(change.var(ddof=1))
    return CongruenceLosses(smoothed, means, outcomes, corrections, variances)


class _Blocks:
    """Coordinates of rows in blocks; each pass computes them again."""

    def __init__(self, basis: Basis, x: Array) -> None:
        self._basis, self._x = basis, x

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        for start in range(0, len(self._x), _ROWS):
            rows = slice(start, min(len(self._x), start + _ROWS))
            yield rows, self._basis.coordinates(self._x[rows])


def _moved_by_draws(
    basis: Basis,
    x: Array,
    w: Array,
    features: KernelFeatures | LineFeatures,
    side: DrawnOutputs,
    mean: Array,
    rng: np.random.Generator,
) -> Array:
    """Return simulated errors (b, p, r) of ``G'W M`` due to the draws, by Gaussian multipliers."""
    out = np.zeros((MULTIPLIERS, len(basis.spectrum), mean.shape[1]))
    for rows, g in _Blocks(basis, x):
        block = np.asarray(side.values[rows], dtype=np.float64)
        add_draw_errors(out, w[rows, None] * g, features, block, mean[rows], rng)
    return out


def add_draw_errors(
    out: Array,
    weighed: Array,
    features: FeatureMap,
    draws: Array,
    mean: Array,
    rng: np.random.Generator,
) -> None:
    """Add simulated errors of ``G'W M`` due to the draws to ``out`` (b, p, r), by Gaussian multipliers.

    Parameters
    ----------
    out : ndarray (b, p, r)
        Errors so far, which change.
    weighed : ndarray (n, p)
        ``w_i g(x_i)``.
    features : object with ``transform``
        Output features.
    draws : ndarray (n, l, k)
        The draws of each row.
    mean : ndarray (n, r)
        Their mean features.
    rng : numpy.random.Generator
        Source of the multipliers.
    """
    count, columns = draws.shape[1:]
    p = features.transform(draws.reshape(-1, columns)).reshape(*draws.shape[:2], -1)
    p = (p - mean[:, None]) / np.sqrt(count * (count - 1))
    for replicate in out:
        delta = np.einsum("il,ilr->ir", rng.standard_normal(draws.shape[:2]), p)
        replicate += weighed.T @ delta


def model_confidence_set(
    losses: Array,
    clusters: NDArray[np.intp] | None = None,
    samples: int = 1_000,
    random_state: object = 0,
) -> Array:
    """Return the p-value (m,) of each model's membership in the set of the best.

    Parameters
    ----------
    losses : ndarray (n, m)
        Parts of each model's loss, independent between clusters; their sums are compared.
    clusters : ndarray (n,) of int or None
        Clusters as `clusters_of` returns them.
    samples : int
        Number of bootstrap samples.
    random_state : int or numpy.random.Generator
        Source of the bootstrap samples.

    Returns
    -------
    ndarray (m,)
        The set of level 1 - a consists of the models with p-values of at least a. It contains the best
        model in at least a share 1 - a of all samples. The model with the smallest loss has p-value 1.

    Notes
    -----
    The statistic is T_max, with models eliminated one by one: Hansen, Lunde, Nason, *The model confidence
    set* (Econometrica, 2011), section 3.1.2. The bootstrap samples clusters; many independent rows are
    first summed in 1,000 batches.
    """
    n, count = losses.shape
    if clusters is None and n > _BATCHES:
        clusters = np.arange(n) * _BATCHES // n
    if clusters is not None:
        losses = np.stack([np.bincount(clusters, weights=column) for column in losses.T], axis=1)
    rng = generator(random_state, Purpose.COMPARISON)
    losses = losses / unit_of(HOST, losses)  # whose squares stay in float64
    total = losses.sum(axis=0)
    row_counts = rng.multinomial(len(losses), np.full(len(losses), 1 / len(losses)), size=samples)
    deviations = row_counts @ losses - total
    p_values, remaining, running = np.ones(count), list(range(count)), 0.0
    while len(remaining) > 1:
        gap = total[remaining] - total[remaining].mean()
        shift = deviations[:, remaining] - deviations[:, remaining].mean(axis=1, keepdims=True)
        scale = np.sqrt((shift**2).mean(axis=0))
        size = np.abs(losses[:, remaining]).sum(axis=0).max()
        varies = scale > ROUNDING * size
        if not varies.any() and np.abs(gap).max() <= ROUNDING * size:
            break  # all remaining models are equal
        scale = np.where(varies, scale, np.inf)
        t = gap / scale
        null = (shift / scale).max(axis=1)
        p = float((1 + np.count_nonzero(null >= t.max())) / (1 + samples))
        running = max(running, p)
        p_values[remaining.pop(int(np.argmax(t)))] = running
    return p_values
