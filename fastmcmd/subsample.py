"""Samplers: which rows a subsample takes, and the weight of each.

A sampler draws rows and their weights; a row drawn with probability pi counts ``(k / n) / pi``.
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

_LANDMARKS = 256  # several hundred are an almost exact picture of K_X at the paper's lam
_BLOCK = 1 << 20  # kernel values held in memory at once
_UNIFORM_SHARE = 0.5  # of the sampling probabilities: no row weighs more than 1 / this
_CERTAIN = 1e-9  # inclusion probabilities this close to 1 are 1, well above rounding of their sums

Index = NDArray[np.intp]
Floats = NDArray[np.float64]
Sampler = Callable[[np.random.Generator], tuple[Index, Floats]]


def uniform(n: int, size: int) -> Sampler:
    """Return the sampler of ``size`` of n rows, all equally probable."""

    def sample(rng: np.random.Generator) -> tuple[Index, Floats]:
        return np.sort(rng.choice(n, size, replace=False)), np.ones(size)

    return sample


def stratified(position: Floats, size: int, strata: int) -> Sampler:
    """Return the sampler that takes its share of every stratum of rows, ordered by ``position``."""
    n = len(position)
    counts = np.full(strata, n // strata) + (np.arange(strata) < n % strata)
    sizes = proportional(counts, size)
    ends = np.cumsum(counts)[:-1]
    weight = np.repeat(counts * (size / n) / sizes, sizes)
    if (counts * size == sizes * n).all():
        weight = np.ones(size)  # in proportion without rounding

    def sample(rng: np.random.Generator) -> tuple[Index, Floats]:
        shuffled = rng.permutation(n)
        ordered = shuffled[np.argsort(position[shuffled], kind="stable")]
        chosen = np.concatenate(
            [
                rng.choice(stratum, count, replace=False)
                for stratum, count in zip(np.split(ordered, ends), sizes, strict=True)
            ]
        )
        ascending = np.argsort(chosen)
        return chosen[ascending], weight[ascending]

    return sample


def proportional(counts: NDArray[np.int_], size: int) -> NDArray[np.int_]:
    """Return how many of ``size`` fall to strata of ``counts`` rows, by largest remainders.

    In whole numbers throughout, so that they add up; of equal remainders the first stratum comes
    first. None gets more than it has, as ``size`` is at most their sum.
    """
    quota, rest = np.divmod(counts * size, counts.sum())
    left = size - int(quota.sum())
    quota[np.argsort(-rest, kind="stable")[:left]] += 1
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
    """Return the sampler of rows in proportion to the mean of 1/n and their leverage."""
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

    From Nystroem features of landmarks. What they miss of a row is taken as orthogonal to all
    others, which makes rows far from any landmark probable instead of impossible.
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
    precision = np.linalg.inv(covariance)  # of condition at most 1 + max k / lam
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
    # With the j most probable rows certain, the others share size - j; take the first j that fits.
    scale = (size - np.arange(size)) / below[:size]
    certain = int(np.argmax(scale * falling[:size] < 1 - _CERTAIN))
    if not scale[certain] * falling[certain] < 1 - _CERTAIN:  # only where all rows are taken
        return np.ones(len(density))
    chance = np.ones(len(density))
    chance[order[certain:]] = scale[certain] * falling[certain:]
    return chance


def systematic(chance: Floats, size: int, rng: np.random.Generator) -> Index:
    """Return ``size`` distinct rows, ascending, row i with probability ``chance[i]``.

    Probabilities are laid end to end in random order, and the rows met at equal steps of 1 from a
    random start are taken (Madow, 1949): no row is met twice, as none is longer than a step.
    """
    sure = np.flatnonzero(chance == 1)
    rest = rng.permutation(np.flatnonzero(chance < 1))
    count = size - len(sure)
    if count == 0:
        return sure
    ends = np.cumsum(chance[rest])
    ends *= count / ends[-1]
    ends[-1] = np.inf  # a start just below 1 may round up to it
    met = rest[np.searchsorted(ends, rng.random() + np.arange(count), side="right")]
    return np.sort(np.concatenate([sure, met]))
