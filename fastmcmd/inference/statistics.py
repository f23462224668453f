"""One pass over the rows: the squared misfit of each data set under several kernels and regularisers.

With the coordinates g(x) of the smoother, and the features e of outcomes minus their mean over the data
sets, a data set b needs ``A_b = G'W E_b`` (p, r), where W holds the weights of the rows:
``sum_k c_k(lam) |A_b,k|^2`` is the weighted mean over rows of its squared CCE, for any regulariser. All
data sets take part in the same single-precision products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import HostArray
from fastmcmd._base.blocks import ahead, row_blocks
from fastmcmd._base.progress import Progress
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.cpu import core
from fastmcmd.inference.exchangeable import ROWS, OutcomeSource, Reference
from fastmcmd.inference.outcome_features import BlockOutcomes, OutcomeFeatures
from fastmcmd.inference.smoother import Basis

__all__ = ["ClusterSigns", "Projections", "project"]

_FARTHEST = 1e300  # largest standardised outcome: its logarithm is finite
_ROUNDING = 1e-10  # of mean squared residuals in single precision, for features of the order of 1
_EQUAL = 1e-5  # relative difference of squared residuals of equal outcomes, in single precision

Array = NDArray[np.float64]
Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ClusterSigns:
    """Random signs, one per cluster of rows and data set: the wild bootstrap of dependent rows.

    Attributes
    ----------
    labels : ndarray (n,) of int
        The cluster of each row, from 0.
    signs : ndarray (G, B + 1)
        1 or -1, or the six values of Webb; those of the first data set, the observed one, are 1.
    """

    labels: NDArray[np.intp]
    signs: NDArray[np.int8] | Single

    @staticmethod
    def random(labels: NDArray[np.intp], data_sets: int, rng: np.random.Generator) -> ClusterSigns:
        """Return random signs for so many data sets."""
        signs = rng.integers(0, 2, (int(labels.max()) + 1, data_sets), dtype=np.int8) * 2 - 1
        signs[:, 0] = 1
        return ClusterSigns(labels, signs.astype(np.int8))

    @staticmethod
    def six_point(
        labels: NDArray[np.intp], data_sets: int, rng: np.random.Generator
    ) -> ClusterSigns:
        """Return random values of +-sqrt(1/2), +-1 and +-sqrt(3/2).

        Their squares vary, so a sum of few clusters has larger p-values than with signs. Source: Webb,
        *Reworking wild bootstrap-based inference for clustered errors* (Canadian Journal of Economics,
        2023).
        """
        signs = ClusterSigns.random(labels, data_sets, rng).signs
        sizes = rng.choice(np.sqrt(np.array([0.5, 1.0, 1.5], dtype=np.float32)), signs.shape)
        sizes[:, 0] = 1
        return ClusterSigns(labels, np.asarray(signs * sizes, dtype=np.float32))

    def of_rows(self, rows: slice) -> Single:
        """Return the signs (m, B + 1) for some rows."""
        return self.signs[self.labels[rows]].astype(np.float32)


@dataclass(frozen=True, eq=False)
class Projections:
    """The sums over all data sets that a test needs.

    Attributes
    ----------
    outcomes : list of ndarray (p, B + 1, r)
        ``G'W E_b`` for each kind of features.
    spread : ndarray (f, B + 1)
        Weighted mean over rows of ``|e_i|^2`` for each kind: the squared distance of outcomes from the
        expectation.
    dispersion : ndarray (f, B + 1)
        ``spread`` minus its expectation under a right model; with signs of clusters the mean over rows of
        the signed rank, -1/2 to 1/2, of the observed ``|e_i|^2`` among those simulated for the row.
    noise : ndarray (B + 1,)
        ``sum_i S_ii |e_i|^2`` of the first kind: the part of its mean squared CCE that is noise.
    signal_factor : float
        Factor for the excess of the first kind, which makes it unbiased for wrong predictions.
    extreme : ndarray (B + 1,) or None
        ``log(1 + |z|)`` of the most extreme standardised outcome; None with signs of clusters.
    residuals : ndarray (n, r) or None
        ``e_i`` of the observed outcomes and the first kind, unbiased for ``E p(y_i) - E_f p(Y)``.
    """

    outcomes: list[Single]
    spread: Array
    dispersion: Array
    noise: Array
    signal_factor: float
    extreme: Array | None
    residuals: Single | None


def project(
    outcomes: OutcomeSource,
    kinds: list[OutcomeFeatures],
    basis: Basis,
    x: Array,
    energy: Array,
    progress: Progress,
    *,
    weights: Array | None = None,
    signs: ClusterSigns | None = None,
    keep_residuals: bool = False,
    chunk: int = ROWS,
    threads: int | None = None,
) -> Projections:
    """Return the projections of all data sets in one pass over the rows.

    Parameters
    ----------
    outcomes : OutcomeSource
        The data sets.
    kinds : list of OutcomeFeatures
        Features of outcomes.
    basis : Basis
        Coordinates of inputs.
    x : ndarray (n, d)
        Inputs.
    energy : ndarray (p,)
        `Basis.energy` of the regulariser for ``noise``.
    progress : Progress
        Receives the progress.
    weights : ndarray (n,), optional
        Weights of the rows, with mean 1.
    signs : ClusterSigns, optional
        If given, data sets are the observed residuals with these signs; simulated outcomes only give the
        mean.
    keep_residuals : bool
        Whether to return ``residuals``, which take n x r numbers in single precision.
    chunk : int
        Rows whose features are in memory at once, in each thread.
    threads : int, optional
        Number of threads; default: all.
    """
    data_sets = outcomes.simulations + 1
    size = len(basis.spectrum)
    totals = [np.zeros((size, data_sets * kind.rank), dtype=np.float32) for kind in kinds]
    spread, signed = np.zeros((len(kinds), data_sets)), np.zeros((len(kinds), data_sets))
    noise, extreme = np.zeros(data_sets), np.zeros(data_sets)
    residuals = np.empty((len(x), kinds[0].rank), dtype=np.float32) if keep_residuals else None
    threads = get_num_threads() if threads is None else threads
    exact = [outcomes.has_support or (outcomes.has_exact_mean and kind.is_smooth) for kind in kinds]
    vectors = np.ascontiguousarray(basis.vectors[:, basis.significant])

    def product(a: HostArray, b: HostArray) -> HostArray:
        """Return ``a b``; with several threads not by BLAS, which would start more threads in each."""
        if threads == 1:
            return np.asarray(a @ b)
        out = np.empty((len(a), b.shape[1]))
        core().dense_matmul(np.ascontiguousarray(a), b, out, 1)
        return out

    def sums_of_chunk(
        rows: slice, raw: Array, reference: Reference
    ) -> tuple[list[HostArray], Array, Array, Array]:
        """Return the sums of some rows: projections, spread and dispersion, noise, extremes."""
        block = BlockOutcomes(raw, reference)
        by_kind = [kind.transform(block) for kind in kinds]
        squares = np.empty((len(kinds), len(block.raw), data_sets))
        for kind, features, norms, is_exact in zip(kinds, by_kind, squares, exact, strict=True):
            means = kind.means(reference) if is_exact else features.mean(axis=1)
            _core.centre_rows(features, means, norms)
        standardised = np.abs(block.standardised)
        coordinates = product(basis.smoother.transform(x[rows]), vectors)
        self_weight = np.einsum("ip,p->i", np.square(coordinates), energy)  # S_ii
        spreads = squares
        if weights is not None:
            w = weights[rows]
            standardised[~(w > 0)] = 0.0  # also infinite ones
            coordinates *= w[:, None]
            self_weight *= w * w
            spreads = squares * w[:, None]
        far = np.log1p(np.minimum(standardised.max(axis=(0, 2)), _FARTHEST))
        flipped, some = (
            np.zeros((len(kinds), data_sets)),
            np.einsum("i,ib->b", self_weight, squares[0]),
        )
        if residuals is not None:
            residuals[rows] = by_kind[0][:, 0]
        if signs is not None:
            flips = signs.of_rows(rows)
            above = np.stack([_centred_ranks(one) for one in squares])
            if weights is not None:
                above *= w
            flipped, some = np.einsum("ki,ib->kb", above, flips), np.full(data_sets, some[0])
            by_kind = [features[:, :1] * flips[:, :, None] for features in by_kind]
        sums = np.stack([spreads.sum(axis=1), flipped])
        transposed = coordinates.T.astype(np.float32)
        products = [
            product(transposed, features.reshape(len(features), -1)) for features in by_kind
        ]
        return products, sums, some, far

    def sums_of(rows: slice) -> tuple[slice, list[HostArray], Array, Array, Array]:
        """Return the sums of a block, whose outcomes have one random stream."""
        raw = outcomes.block(rows.start // ROWS)
        reference = outcomes.reference(rows.start // ROWS, raw)

        def sums_of_part(part: slice) -> tuple[list[HostArray], Array, Array, Array]:
            inside = slice(part.start - rows.start, part.stop - rows.start)
            return sums_of_chunk(part, raw[inside], reference.take(inside))

        parts = row_blocks(rows.stop, chunk, rows.start)
        products, sums, some, far = sums_of_part(parts[0])
        for part in parts[1:]:
            more = sums_of_part(part)
            for total, one in zip(products, more[0], strict=True):
                total += one
            sums, some, far = sums + more[1], some + more[2], np.maximum(far, more[3])
        return rows, products, sums, some, far

    blocks = row_blocks(len(x), ROWS)
    sweep = progress.sweep(f"exact test, {outcomes.simulations} simulated data sets", len(x))
    for rows, products, sums, some, far in ahead(sums_of, blocks, threads):
        for total, one in zip(totals, products, strict=True):
            total += one
        spread += sums[0]
        signed += sums[1]
        noise += some
        np.maximum(extreme, far, out=extreme)
        sweep.advance(rows.stop)
    factors = np.array([outcomes.noise_factor(exact=is_exact) for is_exact in exact])
    signal = outcomes.signal_factor(exact=exact[0])
    if residuals is not None:
        residuals *= np.float32(np.sqrt(factors[0] * signal))
    spread *= factors[:, None] / len(x)
    spread[spread < _ROUNDING] = 0.0
    if signs is None:
        dispersion = spread - spread.mean(axis=1, keepdims=True)
    else:
        dispersion = np.where(spread.max(axis=1, keepdims=True) > 0, signed / len(x), 0.0)
    shape = (size, data_sets, -1)
    return Projections(
        [
            total.reshape(shape) * np.float32(np.sqrt(factor))
            for total, factor in zip(totals, factors, strict=True)
        ],
        spread,
        dispersion,
        noise * factors[0],
        signal,
        extreme if signs is None else None,
        residuals,
    )


def _centred_ranks(squares: Array) -> Array:
    """Return the mid-ranks (m,), -1/2 to 1/2, of the first of the values (m, B + 1) among the others."""
    observed, simulated = squares[:, :1], squares[:, 1:]
    tie = _EQUAL * simulated.mean(axis=1, keepdims=True) + _ROUNDING
    above = (observed > simulated + tie).mean(axis=1)
    return np.asarray((above - (simulated > observed + tie).mean(axis=1)) / 2)
