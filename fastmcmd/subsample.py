"""Samplers, which draw the rows of a subsample and their weights.

A row drawn with probability pi has the weight ``(k / n) / pi``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd.backends.base import Backend
from fastmcmd.gram import diagonal_of
from fastmcmd.kernels import Kernel
from fastmcmd.rows import Rows

__all__ = [
    "Sampler",
    "along",
    "inclusion",
    "leverage",
    "leverage_scores",
    "proportional",
    "stratified",
    "systematic",
    "uniform",
]

_LANDMARKS = 256  # several hundred represent K_X almost exactly at the published lam
_BLOCK = 1 << 20  # kernel values held in memory at once
_UNIFORM_SHARE = 0.5  # uniform part of the sampling probabilities: no weight exceeds 1 / this
_CERTAIN = 1e-9  # distance from 1 within which inclusion probabilities count as 1, above rounding

Index = NDArray[np.intp]
Floats = NDArray[np.float64]
Sampler = Callable[[np.random.Generator], tuple[Index, Floats]]


def uniform(n: int, size: int) -> Sampler:
    """Return a sampler of ``size`` out of n rows with equal probabilities."""

    def sample(rng: np.random.Generator) -> tuple[Index, Floats]:
        return np.sort(rng.choice(n, size, replace=False)), np.ones(size)

    return sample


def stratified(position: Floats, size: int, strata: int) -> Sampler:
    """Return a sampler that draws proportionally from strata of rows ordered by ``position``."""
    n = len(position)
    counts = np.full(strata, n // strata) + (np.arange(strata) < n % strata)
    sizes = proportional(counts, size)
    ends = np.cumsum(counts)[:-1]
    weight = np.repeat(counts * (size / n) / sizes, sizes)
    if (counts * size == sizes * n).all():
        weight = np.ones(size)  # the allocation is exactly proportional

    def sample(rng: np.random.Generator) -> tuple[Index, Floats]:
        shuffled = rng.permutation(n)
        strata_order = shuffled[np.argsort(position[shuffled], kind="stable")]
        rows = np.concatenate(
            [
                rng.choice(stratum, count, replace=False)
                for stratum, count in zip(np.split(strata_order, ends), sizes, strict=True)
            ]
        )
        ascending = np.argsort(rows)
        return rows[ascending], weight[ascending]

    return sample


def proportional(counts: NDArray[np.int_], size: int) -> NDArray[np.int_]:
    """Return the allocation of ``size`` rows to strata of ``counts`` rows, by largest remainders.

    The arithmetic is in integers, so the allocation adds up exactly. Of equal remainders, that of the first
    stratum wins. No stratum gets more rows than it has, because ``size`` is at most their sum.
    """
    quota, remainders = np.divmod(counts * size, counts.sum())
    remaining_count = size - int(quota.sum())
    quota[np.argsort(-remainders, kind="stable")[:remaining_count]] += 1
    return np.asarray(quota)


def along(y: HostArray) -> Floats:
    """Return the position (n,) of outputs (n, k) on their first principal component."""
    y = y.astype(np.float64)
    if y.shape[1] == 1:
        return y[:, 0]
    centred = y - y.mean(axis=0)
    return np.asarray(centred @ np.linalg.eigh(centred.T @ centred)[1][:, -1])


def leverage(
    x: HostArray | Rows,
    weights: Floats | None,
    kernel: Kernel,
    backend: Backend,
    lam: float,
    size: int,
    rng: np.random.Generator,
) -> Sampler:
    """Return a sampler with probabilities proportional to the mean of 1/n and the normalised leverage."""
    scores = leverage_scores(x, weights, kernel, backend, lam, rng)
    n, total = len(x), scores.sum()
    density = np.full(n, 1 / n)
    if total > 0:
        density = _UNIFORM_SHARE / n + (1 - _UNIFORM_SHARE) * scores / total
    chance = inclusion(density, size)

    def sample(source: np.random.Generator) -> tuple[Index, Floats]:
        rows = systematic(chance, size, source)
        return rows, (size / n) / chance[rows]

    return sample


def leverage_scores(
    x: HostArray | Rows,
    weights: Floats | None,
    kernel: Kernel,
    backend: Backend,
    lam: float,
    rng: np.random.Generator,
) -> Floats:
    """Return approximate ridge leverage scores (n,): the diagonal of ``K (K + N lam diag(1/w))^-1``.

    The scores use Nystroem features of landmarks. The part of a row that landmarks do not explain is
    treated as orthogonal to all other rows, so that rows far from all landmarks are likely to be drawn.
    """
    n = len(x)
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    landmarks = np.sort(rng.choice(n, min(n, _LANDMARKS), replace=False))
    pivots = backend.points(x[landmarks], np.float64)
    values, vectors = np.linalg.eigh(np.asarray(backend.gram(kernel, pivots), dtype=np.float64))
    positive = values > len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
    whiten = vectors[:, positive] / np.sqrt(values[positive])

    def features() -> Iterator[tuple[slice, Floats]]:
        step = max(1, _BLOCK // len(landmarks))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            gram = backend.gram(kernel, backend.points(x[rows], np.float64), pivots)
            yield rows, np.asarray(gram, dtype=np.float64) @ whiten

    covariance = lam * np.eye(whiten.shape[1])
    for rows, f in features():
        covariance += f.T @ (share[rows, None] * f)
    precision = np.linalg.inv(covariance)  # condition number at most 1 + max k / lam
    diagonal = diagonal_of(kernel, x)
    scores = np.empty(n)
    for rows, f in features():
        inside = share[rows] * np.einsum("ij,ij->i", f @ precision, f)
        residual = share[rows] * np.maximum(diagonal[rows] - np.einsum("ij,ij->i", f, f), 0.0)
        scores[rows] = inside + residual / (residual + lam)
    return scores


def inclusion(density: Floats, size: int) -> Floats:
    """Return inclusion probabilities ``min(1, c density)`` (n,) that sum to ``size``."""
    order = np.argsort(-density)
    falling = density[order]
    below = np.cumsum(falling[::-1])[::-1]  # sums from each row on
    # If the j most probable rows are certain, the others share size - j. Use the first j that fits.
    scale = (size - np.arange(size)) / below[:size]
    certain = int(np.argmax(scale * falling[:size] < 1 - _CERTAIN))
    if not scale[certain] * falling[certain] < 1 - _CERTAIN:  # only if all rows are drawn
        return np.ones(len(density))
    chance = np.ones(len(density))
    chance[order[certain:]] = scale[certain] * falling[certain:]
    return chance


def systematic(chance: Floats, size: int, rng: np.random.Generator) -> Index:
    """Return ``size`` distinct rows, ascending, row i with probability ``chance[i]``.

    This is systematic sampling (Madow, 1949): intervals as long as the probabilities are joined in random
    order, and points at steps of 1 from a random start select rows. No interval is longer than a step, so
    no row is selected twice.
    """
    sure = np.flatnonzero(chance == 1)
    uncertain_rows = rng.permutation(np.flatnonzero(chance < 1))
    count = size - len(sure)
    if count == 0:
        return sure
    ends = np.cumsum(chance[uncertain_rows])
    ends *= count / ends[-1]
    ends[-1] = np.inf  # the last point may round up to the end
    sampled_rows = uncertain_rows[
        np.searchsorted(ends, rng.random() + np.arange(count), side="right")
    ]
    return np.sort(np.concatenate([sure, sampled_rows]))
