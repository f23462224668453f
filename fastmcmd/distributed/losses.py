"""Losses of several models over the rows of a block: of their scores, and of the mean squared CCE.

The difference of two models' mean squared CCE is linear in the outcomes
(`fastmcmd.inference.comparison`). With the sums ``A = F'WE`` of each model, its terms at a row are
``w f(x)' U diag(energy) U' (A_first - A_second)`` times ``2 p(y) - M_first - M_second``: one more pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.distributed.blocks import Blocks
from fastmcmd.distributed.rows import block_seed
from fastmcmd.embedding.sample import DrawnOutputs
from fastmcmd.inference.comparison import (
    LEAST_CLUSTERS,
    MULTIPLIERS,
    ROUNDING,
    CongruenceLosses,
    Paired,
    add_draw_errors,
    concluded,
)
from fastmcmd.inference.row_norms import member_spread
from fastmcmd.predictive import Predictive
from fastmcmd.streaming import CCE
from fastmcmd.streaming.congruence_sums import CongruenceSums, Ridge
from fastmcmd.streaming.output_features import Columns, OutputMap, outputs_of

__all__ = ["CongruenceDifferences", "CongruenceTerms", "PieceSums", "Pieces"]

Array = NDArray[np.float64]

_PIECES = 1_000  # sums of consecutive rows that the bootstrap samples, as for rows in memory
_FEATURE_VALUES = 1 << 22  # feature values of draws in memory at once


@dataclass(frozen=True)
class Pieces:
    """How the rows of blocks are cut into pieces of consecutive rows.

    Attributes
    ----------
    length : int
        Rows of a piece, if the sizes of the blocks are known; else 0.
    count : int
        Pieces of a block otherwise.
    """

    length: int
    count: int

    @staticmethod
    def of(blocks: Blocks) -> Pieces:
        """Return about 1,000 pieces of all rows: single rows, if there are fewer."""
        if blocks.rows is not None:
            return Pieces(max(1, -(-sum(blocks.rows) // _PIECES)), 0)
        return Pieces(0, -(-_PIECES // len(blocks)))

    def starts(self, n: int) -> NDArray[np.intp]:
        """Return the first rows of the pieces of a block of n rows."""
        length = self.length or max(1, -(-n // self.count))
        return np.arange(0, n, length, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class PieceSums:
    """Sums of losses over pieces of consecutive rows.

    Attributes
    ----------
    blocks : ndarray (b,) of int
        The block of each piece.
    sums : ndarray (b, m)
        The sums of each model.
    weights : ndarray (b,)
        The weights of the pieces; numbers of rows, if rows have no weights.
    """

    blocks: NDArray[np.int64]
    sums: Array
    weights: Array

    def __add__(self, other: PieceSums) -> PieceSums:
        blocks = np.concatenate([self.blocks, other.blocks])
        order = np.argsort(blocks, kind="stable")
        return PieceSums(
            blocks[order],
            np.concatenate([self.sums, other.sums])[order],
            np.concatenate([self.weights, other.weights])[order],
        )

    @staticmethod
    def of(losses: Array, pieces: Pieces, number: int, weights: Array | None = None) -> PieceSums:
        """Return the sums of losses (n, m) of block ``number``, which the weights (n,) multiply already."""
        starts = pieces.starts(len(losses))
        columns = np.column_stack([losses, np.ones(len(losses)) if weights is None else weights])
        sums = np.add.reduceat(columns, starts, axis=0) if len(starts) else columns
        blocks = np.full(len(starts), number, dtype=np.int64)
        return PieceSums(blocks, sums[:, :-1].copy(), sums[:, -1].copy())

    def centred(self, first: int, second: int) -> Array:
        """Return the differences of two models by piece of positive weight, about their mean."""
        some = self.weights > 0
        d, share = self.sums[some, first] - self.sums[some, second], self.weights[some]
        return np.asarray(d - share * (d.sum() / share.sum()))


@dataclass(frozen=True, eq=False)
class CongruenceDifferences:
    """Sums of the terms of the differences of several models' mean squared CCE.

    Attributes
    ----------
    rows : int
        Rows with a positive weight.
    totals, squares : ndarray (pairs,)
        Sums of the terms and of their squares, for all pairs in order.
    size : float
        Sum of the absolute losses of all models.
    pieces : PieceSums
        Losses whose sums have the same differences.
    draw_errors : dict of ndarray (40, p, r)
        Simulated errors of ``F'WM`` of predictions by draws, by the number of the model as text.
    """

    rows: int
    totals: Array
    squares: Array
    size: float
    pieces: PieceSums
    draw_errors: dict[str, Array]

    def __add__(self, other: CongruenceDifferences) -> CongruenceDifferences:
        return CongruenceDifferences(
            self.rows + other.rows, self.totals + other.totals, self.squares + other.squares,
            self.size + other.size, self.pieces + other.pieces,
            {  # a block without rows of weight has none
                name: _either(self.draw_errors.get(name), other.draw_errors.get(name))
                for name in sorted({*self.draw_errors, *other.draw_errors})
            },
        )  # fmt: skip


def _either(one: Array | None, other: Array | None) -> Array:
    """Return the sum of two arrays, or the one that there is."""
    if one is None or other is None:
        return np.asarray(other if one is None else one)
    return one + other


@dataclass(frozen=True, eq=False)
class _AtColumns:
    """Output features at some columns, in the form of `KernelFeatures`."""

    outputs: OutputMap
    columns: Columns

    @property
    def rank(self) -> int:
        return len(self.columns)

    def transform(self, y: Array) -> Array:
        return self.outputs.transform(y, self.columns)


@dataclass(frozen=True, eq=False)
class CongruenceTerms:
    """The terms at the rows of a block, given the sums of all rows.

    Attributes
    ----------
    accumulator : CCE
        Features of inputs and outputs.
    columns : ndarray (r, 2)
        Output features that any row reaches.
    solved : ndarray (m, p, r)
        ``U diag(energy) U' F'WE`` of each model.
    energy : ndarray (p, p)
        ``U diag(energy) U'``.
    pieces : Pieces
        How rows are cut into pieces.
    seed : SeedSequence
        Source of the simulated errors of draws.
    step : int
        Rows that are handled together.
    """

    accumulator: CCE
    columns: Columns
    solved: Array
    energy: Array
    pieces: Pieces
    seed: np.random.SeedSequence
    step: int

    @staticmethod
    def of(
        accumulator: CCE, sums: CongruenceSums, lam: float, pieces: Pieces,
        seed: np.random.SeedSequence, step: int,
    ) -> CongruenceTerms:  # fmt: skip
        """Return the terms from the sums of all rows."""
        models = list(sums.models.values())
        ridge = Ridge(sums, models[0], lam)
        vectors = ridge.eigen[1]
        energy = (vectors * ridge.energy(lam)) @ vectors.T
        solved = np.stack([energy @ one.cross[:, 0] for one in models])
        part = accumulator.fresh(0)
        part._smoother = sums.smoother
        return CongruenceTerms(part, sums.columns, solved, energy, pieces, seed, step)

    def sums(
        self, x: Array, y: Array, models: Sequence[Predictive], weights: Array | None, number: int
    ) -> CongruenceDifferences | None:
        """Return the sums of a block with inputs (n, d) and outcomes (n, k)."""
        rows = np.arange(len(y)) if weights is None else np.flatnonzero(weights > 0)
        rng = generator(block_seed(self.seed, number), Purpose.COMPARISON)
        totals = np.zeros((2, len(models) * (len(models) - 1) // 2))
        losses, errors = [np.empty((0, len(models)))], dict[str, Array]()
        for start in range(0, len(rows), self.step):
            some = rows[start : start + self.step]
            w = np.ones(len(some)) if weights is None else np.asarray(weights)[some]
            parts = self._parts(
                x[some], y[some], [one.take(some) for one in models], w, errors, rng
            )
            for place, pair in enumerate(combinations(range(len(models)), 2)):
                terms = parts.pair(*pair)
                totals[:, place] += terms.sum(), terms @ terms
            losses.append(parts.losses())
        values = np.concatenate(losses)
        return CongruenceDifferences(
            len(rows), totals[0], totals[1], float(np.abs(values).sum()),
            PieceSums.of(values, self.pieces, number), errors,
        )  # fmt: skip

    def _parts(
        self, x: Array, y: Array, models: Sequence[Predictive], w: Array, errors: dict[str, Array],
        rng: np.random.Generator,
    ) -> CongruenceLosses:  # fmt: skip
        """Return the losses of some rows, and add the simulated errors of their draws."""
        outputs, smoother = self.accumulator._outputs, self.accumulator._smoother
        assert smoother is not None
        f = smoother.transform(x)
        features = _AtColumns(outputs, self.columns)
        weighed = w[:, None] * f
        leverage = np.einsum("ip,ip->i", weighed @ self.energy, weighed)
        means = np.stack([outputs.expected(one, self.columns)[0] for one in models])
        corrections = np.zeros(means.shape[:2])
        for place, (one, mean) in enumerate(zip(models, means, strict=True)):
            side = outputs_of(one, outputs.dimension)
            if not isinstance(side, DrawnOutputs) or side.values.shape[1] == 1:
                continue
            draws = side.values.shape[1]
            corrections[place] = leverage * member_spread(features, side, mean) / draws
            total = errors.setdefault(
                str(place), np.zeros((MULTIPLIERS, f.shape[1], len(self.columns)))
            )
            step = max(1, _FEATURE_VALUES // (draws * max(len(self.columns), 1)))
            for start in range(0, len(f), step):
                part = slice(start, start + step)
                values = np.asarray(side.values[part], dtype=np.float64)
                add_draw_errors(total, weighed[part], features, values, mean[part], rng)
        # The outcomes' part is the same for all models, and only differences count.
        smoothed = np.stack([-(weighed @ one) for one in self.solved])
        return CongruenceLosses(
            smoothed, means, features.transform(y), corrections, np.zeros(len(models))
        )

    def concluded(
        self, sums: CongruenceDifferences, names: Sequence[str], confidence: float
    ) -> Mapping[tuple[str, str], Paired | None]:
        """Return the difference of each pair of models, with its interval; None for too few rows."""
        variances = np.zeros(len(names))
        for place in range(len(names)):
            draw_errors = sums.draw_errors.get(str(place))
            if draw_errors is not None:
                change = -2 * np.einsum("pr,bpr->b", self.solved[place], draw_errors)
                change += np.einsum(
                    "bpr,pq,bqr->b", draw_errors, self.energy, draw_errors, optimize=True
                )
                variances[place] = float(change.var(ddof=1))
        results: dict[tuple[str, str], Paired | None] = {}
        n = sums.rows
        pairs = combinations(range(len(names)), 2)
        for (one, other), total, squares in zip(pairs, sums.totals, sums.squares, strict=True):
            pair = names[one], names[other]
            if n < LEAST_CLUSTERS:
                results[pair] = None
                continue
            scatter = max(float(squares) - float(total) ** 2 / n, 0.0) * n / (n - 1)
            error = float(np.sqrt(scatter + variances[one] + variances[other]))
            negligible = abs(total) <= ROUNDING * sums.size
            results[pair] = concluded(float(total), error, n - 1.0, confidence, negligible)
        return results
