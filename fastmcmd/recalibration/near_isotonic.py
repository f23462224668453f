"""Near-isotonic regression for all penalties: the modified pool-adjacent-violators algorithm."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array

__all__ = ["NearIsotonicPath"]

_EQUAL = 1e-12  # relative difference below which penalties, or values of neighbours, count as equal


@dataclass(frozen=True, eq=False)
class NearIsotonicPath:
    """Solutions b of ``min sum_i w_i (v_i - b_i)^2 / 2 + lam sum_i max(b_i - b_(i+1), 0)`` for all ``lam``.

    Neighbours whose solutions meet stay together, so the solution is piecewise linear in ``lam``. A group
    of neighbours is born when two groups merge and dies when it merges itself.

    Attributes
    ----------
    penalties : ndarray (m,)
        The values of ``lam`` at which groups merge, increasing; 0 alone if ``v`` increases already. At the
        last, b increases.
    value, slope, start : ndarray (g,)
        Value of each group at birth, its slope in ``lam``, and ``lam`` at birth.
    birth, death : ndarray (g,) of int
        The group is part of the solutions at penalties ``birth`` to ``death - 1``.
    parent : ndarray (g,) of int
        The group into which a group merges, which has a larger number; -1 if none.
    nodes : ndarray (n,) of int
        The first group of each i.

    Notes
    -----
    Tibshirani, Hoefling & Tibshirani, *Nearly-isotonic regression* (Technometrics, 2011), section 3.
    """

    penalties: Array
    value: Array
    slope: Array
    start: Array
    birth: NDArray[np.intp]
    death: NDArray[np.intp]
    parent: NDArray[np.intp]
    nodes: NDArray[np.intp]

    @staticmethod
    def of(values: Array, weights: Array) -> NearIsotonicPath:
        """Return the path of values (n,) with positive weights (n,)."""
        return _Merging(values, weights).path()

    def solution(self, place: int) -> Array:
        """Return b (n,) at ``penalties[place]``."""
        weights = np.zeros(len(self.penalties))
        weights[place] = 1.0
        return self.average(weights)

    def alive(self, place: int) -> NDArray[np.intp]:
        """Return the groups of the solution at ``penalties[place]``."""
        return np.flatnonzero((self.birth <= place) & (place < self.death))

    def at(self, groups: NDArray[np.intp], place: int) -> Array:
        """Return the values of groups at ``penalties[place]``."""
        return self.value[groups] + self.slope[groups] * (
            self.penalties[place] - self.start[groups]
        )

    def average(self, weights: Array) -> Array:
        """Return the sum of the solutions (n,) at all penalties, times weights (m,)."""
        mass = np.concatenate([[0.0], np.cumsum(weights)])
        moment = np.concatenate([[0.0], np.cumsum(weights * self.penalties)])
        mass = mass[self.death] - mass[self.birth]
        moment = moment[self.death] - moment[self.birth]
        total = self.value * mass + self.slope * (moment - self.start * mass)
        for group in range(len(total) - 1, -1, -1):  # parents first
            if self.parent[group] >= 0:
                total[group] += total[self.parent[group]]
        return total[self.nodes]


class _Merging:
    """Groups of neighbours while the penalty grows, as a linked list; the next merger is on a heap."""

    def __init__(self, values: Array, weights: Array) -> None:
        first = np.flatnonzero(
            np.append(True, values[1:] != values[:-1])
        )  # equal neighbours stay so
        self.nodes = np.cumsum(np.append(False, values[1:] != values[:-1])).astype(np.intp)
        self.value: list[float] = values[first].tolist()
        self.weight: list[float] = np.add.reduceat(weights, first).tolist()
        count = len(first)
        self.before, self.after = list(range(-1, count - 1)), [*range(1, count), -1]
        pairs = zip(self.value, self.value[1:], strict=False)
        self.violates = [*(left > right for left, right in pairs), False]  # the group after it
        self.start, self.birth = [0.0] * count, [0] * count
        self.death, self.parent = [-1] * count, [-1] * count
        self.slope = [self._slope(group) for group in range(count)]
        self.least = _EQUAL * float(np.abs(values).max())
        self.heap: list[tuple[float, int, int]] = []
        for group in range(count - 1):
            self._schedule(group, 0.0)

    def _slope(self, group: int) -> float:
        before = self.before[group]
        up = before >= 0 and self.violates[before]
        return (up - self.violates[group]) / self.weight[group]

    def _at(self, group: int, penalty: float) -> float:
        return self.value[group] + self.slope[group] * (penalty - self.start[group])

    def _schedule(self, group: int, penalty: float) -> None:
        """Put the penalty at which a group meets the next on the heap, if they will meet."""
        after = self.after[group]
        if group < 0 or after < 0:
            return
        sign = -1.0 if self.violates[group] else 1.0
        distance = sign * (self._at(after, penalty) - self._at(group, penalty))
        speed = sign * (self.slope[group] - self.slope[after])
        if distance <= self.least:
            heapq.heappush(self.heap, (penalty, group, after))
        elif speed > 0:
            heapq.heappush(self.heap, (penalty + distance / speed, group, after))

    def _merge(self, group: int, after: int, penalty: float, place: int) -> None:
        new, weight = len(self.value), self.weight[group] + self.weight[after]
        ahead, share = self.before[group], self.weight[after] / weight
        value = self._at(group, penalty)
        value += share * (self._at(after, penalty) - value)
        self.value.append(value)
        self.weight.append(weight)
        self.before.append(ahead)
        self.after.append(self.after[after])
        self.violates.append(self.violates[after])
        for part in (group, after):
            self.death[part], self.parent[part] = place, new
        self.start.append(penalty)
        self.birth.append(place)
        self.death.append(-1)
        self.parent.append(-1)
        if ahead >= 0:
            self.after[ahead] = new
        if self.after[new] >= 0:
            self.before[self.after[new]] = new
        self.slope.append(self._slope(new))
        self._schedule(ahead, penalty)
        self._schedule(new, penalty)

    def path(self) -> NearIsotonicPath:
        """Merge until all values increase, and return all groups."""
        penalties: list[float] = []
        while self.heap:
            penalty, group, after = heapq.heappop(self.heap)
            if self.death[group] >= 0 or self.death[after] >= 0:
                continue  # one of them has merged with another
            if not penalties or penalty > penalties[-1] * (1 + _EQUAL):
                penalties.append(penalty)
            self._merge(group, after, penalties[-1], len(penalties) - 1)
        penalties = penalties or [0.0]
        death = np.array(self.death, dtype=np.intp)
        death[death < 0] = len(penalties)
        return NearIsotonicPath(
            np.array(penalties),
            np.array(self.value),
            np.array(self.slope),
            np.array(self.start),
            np.array(self.birth, dtype=np.intp),
            death,
            np.array(self.parent, dtype=np.intp),
            self.nodes,
        )
