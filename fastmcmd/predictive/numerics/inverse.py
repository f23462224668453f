"""Searches for the smallest numbers at which a condition holds, to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = [
    "Masses",
    "by_halving",
    "by_search",
    "least",
    "least_count",
    "masses_above",
    "masses_below",
    "middle_double",
    "root_share",
]

One = TypeVar("One", bound="Predictive")

_BLOCK = 1 << 16  # numbers searched at once
# Steps after which only halving continues: jumps of a cdf slow interpolation down.
_INTERPOLATIONS = 24
_DONE_SHARE = 0.25  # numbers that are dropped at once, because parts of predictions cost time
_FACTOR = 1 << 52  # distance of the ranks of x and 2 x
_MOST_DOUBLINGS = 9  # of the exponent of a step: 2^512
_MOST_APART = 40  # exponent of the largest distance in rank from an end

_LARGEST = float(np.finfo(np.float64).max)
_INFINITY = int(np.float64(np.inf).view(np.int64))  # rank of infinity among the doubles
_ONE = int(np.float64(1.0).view(np.int64))  # rank of 1

# Two masses (m,) of predictions at numbers (m,) for levels (m,). A level is reached where the first is at
# least the second.
Masses = Callable[[One, Array, Array], tuple[Array, Array]]
Triple = tuple[Array, Array, Array]


def by_halving(
    prediction: One, levels: Array, is_reached: Callable[[One, Array, Array], NDArray[np.bool_]]
) -> Array:
    """Return the smallest numbers (n, j) that have reached levels (n, j).

    ``is_reached(prediction, x, level)`` returns, for predictions, numbers and levels of the same rows,
    whether x has reached the level. Columns are processed in blocks to bound memory.
    """
    n, count = levels.shape
    out = np.empty((n, count))
    for columns in row_blocks(count, _BLOCK // max(1, n)):
        block = levels[:, columns]
        wide: object = prediction
        if block.shape[1] > 1:
            wide = prediction.take(np.repeat(np.arange(n), block.shape[1]))
        flat = np.ascontiguousarray(block).ravel()
        result = least(lambda x, wide=wide, flat=flat: is_reached(wide, x, flat), len(flat))  # type: ignore[misc]
        out[:, columns] = result.reshape(block.shape)
    return out


def by_search(
    prediction: One, levels: Array, masses: Masses[One], resolution: float = 0.0
) -> Array:
    """Return the smallest numbers (n, j) that have reached levels (n, j), for cdfs that take long.

    A step costs about 0.1 microseconds a number, and 0.1 milliseconds a call: `by_halving` is quicker for
    cdfs that cost less.

    Parameters
    ----------
    prediction : Predictive
        Distributions.
    levels : ndarray (n, j)
        Levels in (0, 1).
    masses : callable
        ``masses(prediction, x, level)`` returns, for predictions, numbers and levels of the same rows, two
        masses: x has reached the level if the first is at least the second.
    resolution : float
        Results may be larger than the numbers by less than this; 0 for the last digit.

    Notes
    -----
    Ever longer steps from 0 enclose the number between doubles. Inverse quadratic interpolation of log odds
    then closes in on it where it is safe. Elsewhere, and after 24 steps, ranks of doubles are halved: there
    are at most 88 steps, about 20 for smooth cdfs. Columns are processed in blocks to bound memory.
    """
    n, count = levels.shape
    out = np.empty((n, count))
    for columns in row_blocks(count, _BLOCK // max(1, n)):
        block = levels[:, columns]
        rows = np.repeat(np.arange(n), block.shape[1])
        flat = np.ascontiguousarray(block).ravel()
        quantiles = _searched(prediction, rows, flat, masses, resolution)
        out[:, columns] = quantiles.reshape(block.shape)
    return out


def _searched(
    prediction: One,
    rows: NDArray[np.intp],
    levels: Array,
    masses: Masses[One],
    resolution: float,
) -> Array:
    """Return the smallest numbers (m,) of rows that have reached their levels."""
    out = np.empty(len(rows))
    part = prediction if len(rows) == len(prediction) else cast("One", prediction.take(rows))
    places = np.arange(len(rows))  # of the numbers that are still searched
    brackets = _Brackets.unbounded(len(rows))
    turn = 0
    while len(places):
        middle = brackets.proposals(turn, is_smooth=not prediction.discrete)
        # Sums may overflow far out, but cdfs are still 0 or 1 there.
        with np.errstate(all="ignore"):
            mass, goal = masses(part, _double(middle), levels[places])
            # Differences of log odds: of most distributions, nearly linear in a part of a tail.
            value = np.log(mass * (1 - goal) / (goal * (1 - mass)))
            brackets.tighten(middle, mass >= goal, value)
        turn += 1
        is_done = brackets.are_closed
        if resolution:
            is_done |= brackets.are_shorter(resolution)
        if np.count_nonzero(is_done) >= _DONE_SHARE * len(places):
            out[places[is_done]] = _double(brackets.high[is_done])
            places, brackets = places[~is_done], brackets.take(~is_done)
            part = cast("One", prediction.take(rows[places]))
    return out


@dataclass
class _Brackets:
    """Pairs of doubles, by rank, between which monotone functions f become nonnegative.

    Attributes
    ----------
    low, high : ndarray (m,), int64
        Ranks of numbers with f < 0, and of larger numbers with f >= 0.
    below, above : ndarray (m,)
        f at both; infinite where it is unknown.
    old, value : ndarray (m,)
        The end that was replaced last, and f there.
    run : ndarray (m,), int64
        How many times in a row the lower (negative) or upper (positive) end was replaced.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    below: Array
    above: Array
    old: Array
    value: Array
    run: NDArray[np.int64]

    @staticmethod
    def unbounded(count: int) -> _Brackets:
        """Return brackets of all numbers."""
        ends = np.full(count, _INFINITY)
        far = np.full(count, np.inf)
        return _Brackets(-ends, ends, -far, far, far, far, np.zeros(count, dtype=np.int64))

    def take(self, rows: NDArray[np.bool_]) -> _Brackets:
        """Return some of the brackets."""
        return _Brackets(*(getattr(self, one.name)[rows] for one in fields(self)))

    @property
    def are_closed(self) -> NDArray[np.bool_]:
        """Where both ends are neighbours."""
        return self.low + 1 >= self.high

    def tighten(self, middle: NDArray[np.int64], holds: NDArray[np.bool_], value: Array) -> None:
        """Replace one end of each bracket by a rank between both, at which f is given."""
        is_open = ~self.are_closed
        fall, rise = is_open & ~holds, is_open & holds
        end = np.where(holds, self.high, self.low)
        self.old = np.where(is_open, _double(end), self.old)
        self.value = np.where(is_open, np.where(holds, self.above, self.below), self.value)
        self.low, self.high = np.where(fall, middle, self.low), np.where(rise, middle, self.high)
        self.below, self.above = (
            np.where(fall, value, self.below),
            np.where(rise, value, self.above),
        )
        self.run = np.where(holds, np.maximum(self.run, 0) + 1, np.minimum(self.run, 0) - 1)

    def are_shorter(self, length: float) -> NDArray[np.bool_]:
        """Where the ends differ by less than a length."""
        with np.errstate(over="ignore"):
            return np.asarray(_double(self.high) - _double(self.low) < length)

    def proposals(self, turn: int, is_smooth: bool) -> NDArray[np.int64]:
        """Return ranks (m,) strictly between the ends of open brackets."""
        middle = (self.low >> 1) + (self.high >> 1) + (self.low & self.high & 1)
        if turn >= _INTERPOLATIONS:
            return middle
        ranks = self._magnitudes(middle)
        if not is_smooth:
            return ranks
        numbers = self._interpolated()
        usable = np.isfinite(numbers)
        near = _rank(np.where(usable, numbers, 0.0))
        # The more often one end moved, the farther from it: the other end, too, comes close to the root.
        apart = np.minimum(1 << np.minimum(2 * np.abs(self.run), _MOST_APART), middle - self.low)
        near = np.clip(near, self.low + apart, self.high - apart)
        return np.where(usable, near, ranks)

    def _magnitudes(self, middle: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the middle; for brackets with an end at 0 or infinity, a rank near the other end.

        Ever longer steps find the magnitude of a number sooner than halving.
        """
        step = _FACTOR << np.minimum(np.abs(self.run), _MOST_DOUBLINGS)
        is_lowest, is_highest = self.low == -_INFINITY, self.high == _INFINITY
        from_high = is_lowest | ((self.low == 0) & (self.high > 0) & ~is_highest)
        from_low = is_highest | ((self.high == 0) & (self.low < 0) & ~is_lowest)
        if not (from_high | from_low).any():
            return middle
        up = self.low + np.minimum(step, middle - self.low)
        down = self.high - np.minimum(step, self.high - middle)
        up, down = np.where(self.low == 0, _ONE, up), np.where(self.high == 0, -_ONE, down)
        ranks = np.where(from_high, down, np.where(from_low, up, middle))
        return np.where(is_lowest & is_highest, 0, ranks)

    def _interpolated(self) -> Array:
        """Return roots (m,) of inverse quadratic interpolation; NaN where it is unsafe."""
        is_high = self.run > 0
        low, high = _double(self.low), _double(self.high)
        x1, f1 = np.where(is_high, high, low), np.where(is_high, self.above, self.below)
        x2, f2 = np.where(is_high, low, high), np.where(is_high, self.below, self.above)
        x3, f3 = self.old, self.value
        share = root_share((x1, x2, x3), (f1, f2, f3))
        with np.errstate(all="ignore"):
            return np.where((share >= 0) & (share <= 1), x1 + share * (x2 - x1), np.nan)


def root_share(numbers: Triple, values: Triple) -> Array:
    """Return where, between the first and the second number, interpolation has its root; NaN if unsafe.

    Inverse quadratic interpolation is safe if the inverse is monotone between both numbers, at which signs
    differ (Chandrupatla, *A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
    function without using derivatives*, 1997).
    """
    (a, b, c), (fa, fb, fc) = numbers, values
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        share = fa / (fb - fa) * fc / (fb - fc)
        share += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        return np.where((phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi), share, np.nan)


def masses_below(prediction: Predictive, x: Array, level: Array) -> tuple[Array, Array]:
    """Return two masses, the first at least the second where the cdf has reached a level."""
    return prediction.cdf(x), level


def masses_above(prediction: Predictive, x: Array, level: Array) -> tuple[Array, Array]:
    """Return two masses, the first at least the second where ``sf`` is at most a level."""
    return level, prediction.sf(x)


def least(is_reached: Callable[[Array], NDArray[np.bool_]], n: int) -> Array:
    """Return the smallest numbers (n,) at which a monotone condition holds: it also holds above them.

    Bisects the ranks of doubles instead of their values. 64 steps find the last digit at any scale, and the
    result is exact for distributions with atoms.
    """
    low, high = np.full(n, -_INFINITY), np.full(n, _INFINITY)
    with np.errstate(all="ignore"):  # sums may overflow far out, but cdfs are still 0 or 1 there
        for _ in range(64):
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            holds = is_reached(_double(middle))
            low, high = np.where(holds, low, middle), np.where(holds, middle, high)
    return _double(high)


def least_count(
    is_reached: Callable[[Array, NDArray[np.intp]], NDArray[np.bool_]], start: Array
) -> Array:
    """Return the smallest counts (n,) at which a monotone condition holds; infinity if at none.

    ``is_reached(counts, rows)`` tells whether it holds at counts of some rows. Ever longer steps from
    ``start`` (n,) enclose the count, and halving finds it: few steps from a good start, about a hundred
    from any.
    """
    low, high = np.full(len(start), -1.0), np.full(len(start), np.inf)
    rows, length = np.arange(len(start)), 0.5
    counts = np.clip(np.floor(np.nan_to_num(start)), 0.0, _LARGEST)
    while len(rows):
        holds = is_reached(counts, rows)
        low[rows[~holds]], high[rows[holds]] = counts[~holds], counts[holds]
        rows = rows[np.maximum(low[rows] + 1, np.nextafter(low[rows], np.inf)) < high[rows]]
        below, above = low[rows], high[rows]
        length = min(2 * length * max(1.0, np.log2(length)), _LARGEST / 4)
        with np.errstate(over="ignore", invalid="ignore"):
            middle = below / 2 + above / 2
            apart = above > 4 * (below + 1)  # halve the logarithm
            middle = np.where(apart, np.sqrt(below + 1) * np.sqrt(above), middle)
        counts = np.where(below < 0, above - length, middle)
        counts = np.floor(np.where(np.isinf(above), below + length, counts))
        least = np.maximum(below + 1, np.nextafter(below, np.inf))
        most = np.where(np.isinf(above), _LARGEST, np.minimum(above - 1, np.nextafter(above, 0.0)))
        counts = np.clip(counts, least, most)
    return high


def _double(rank: NDArray[np.int64]) -> Array:
    """Return doubles by rank: rank 0 is 0.0, ranks -1 and 1 are the next doubles, and so on."""
    bits = np.where(rank >= 0, rank, np.iinfo(np.int64).min - rank)
    return bits.view(np.float64)


def _rank(number: Array) -> NDArray[np.int64]:
    """Return the ranks of doubles, as `_double` counts them."""
    bits = np.ascontiguousarray(number).view(np.int64)
    return np.where(bits >= 0, bits, np.iinfo(np.int64).min - bits)


def middle_double(low: Array, high: Array) -> Array:
    """Return the double with as many doubles below it, down to one end, as above it, up to the other."""
    low_rank, high_rank = _rank(low), _rank(high)
    return _double((low_rank >> 1) + (high_rank >> 1) + (low_rank & high_rank & 1))
