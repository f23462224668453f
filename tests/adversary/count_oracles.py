"""Counts in mpmath: Poisson, negative binomial and double Poisson distributions."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from distribution_oracles import INF, LARGE_SHAPE, Beta, Gamma, Oracle, Unknown, remembered
from mpmath import mp, mpf


class WholeNumbers(Oracle):
    """Distributions on the whole numbers from 0."""

    discrete = True
    low = mpf(0)

    def cdf(self, y: Any) -> Any:
        return self._tail(y, False)

    def sf(self, y: Any) -> Any:
        return self._tail(y, True)

    def cdf_below(self, y: Any) -> Any:
        return self._tail(mp.ceil(y) - 1, False)


class Counts(WholeNumbers):
    """Poisson (a = 0) and negative binomial distributions."""

    def __init__(self, m: Any, a: Any = 0) -> None:
        self.m, self.a = m, mpf(a)

    @remembered
    def _tail(self, y: Any, upper: bool) -> Any:
        k = mp.floor(y)
        if k < 0:
            return mpf(upper)
        if self.m == 0:
            return mpf(not upper)
        if self.a == 0:
            return Gamma(k + 1, mpf(1))._tail(self.m, not upper)
        if self._summed:
            above = k + 1 > self.m  # the upper tail is the smaller part, so it is summed
            total = mp.fsum(self._masses(k + 1, 1) if above else self._masses(k, -1))
            return total if upper == above else 1 - total
        b = self.a * self.m
        return Beta(1 / self.a, k + 1)._tail(1 / (1 + b), upper, b / (1 + b))

    @functools.cached_property
    def _summed(self) -> bool:
        """Return whether tails are sums: shapes that are large for incomplete beta functions."""
        return 0 < self.a < mpf(1) / LARGE_SHAPE and self.variance() < 10**5

    def _masses(self, k: Any, step: int) -> Any:
        """Yield the probabilities from k on, until they are negligible."""
        first = mass = mp.exp(self.log_prob(k))
        while k >= 0 and mass > first * mpf(10) ** -45:
            yield mass
            k += step
            mass = mp.exp(self.log_prob(k))

    def log_prob(self, y: Any) -> Any:
        m, a = self.m, self.a
        if y < 0 or y != mp.floor(y):
            return -INF
        if m == 0:
            return mpf(0) if y == 0 else -INF
        if a == 0:
            return y * mp.log(m) - m - mp.loggamma(y + 1)
        with mp.extradps(30):
            size, b = 1 / a, a * m
            log_mass = mp.loggamma(y + size) - mp.loggamma(size) - mp.loggamma(y + 1)
            return log_mass - size * mp.log1p(b) + y * (mp.log(b) - mp.log1p(b))

    def mean(self) -> Any:
        return self.m

    def variance(self) -> Any:
        return self.m * (1 + self.a * self.m)

    @remembered
    def _half_gini(self) -> Any:
        m, a = self.m, self.a
        if a == 0:
            if m > 10**6:  # the asymptotic series, whose next term is below 1e-24
                return mp.sqrt(m / mp.pi) * (
                    1 - 1 / (16 * m) - 3 / (512 * m**2) - 15 / (8192 * m**3)
                )
            return m * mp.exp(-2 * m) * (mp.besseli(0, 2 * m) + mp.besseli(1, 2 * m))
        b = a * m
        if self._summed:
            top = mp.floor(m)
            below = list(itertools.accumulate(reversed(list(self._masses(top, -1)))))
            above = list(itertools.accumulate(reversed(list(self._masses(top + 1, 1)))))
            return mp.fsum(p * (1 - p) for p in [*below[:-1], *above])
        if 1 / a > 10**5:
            raise Unknown
        return m * (1 + b) * mp.hyp2f1(1 / a + 1, mpf(1) / 2, 2, -4 * b * (1 + b))

    def crps(self, y: Any) -> Any:
        m, a = self.m, self.a
        if m == 0:
            return abs(y)
        k = mp.floor(y)
        lost_digits = (
            max(0, int(-mp.log10(m))) if m < 1 else 0
        )  # the score may be of the order of m^2
        with mp.extradps(20 + 2 * min(lost_digits, 330)):
            mass = mp.exp(self.log_prob(k)) if k >= 0 else mpf(0)
            return (y - m) * (2 * self.cdf(y) - 1) + 2 * m * (1 + a * k) * mass - self._half_gini()


@functools.lru_cache(1 << 18)
def _poisson_of_itself(k: int) -> Any:
    """The logarithm of the probability of k under a Poisson distribution of mean k."""
    return k * mp.log(k) - k - mp.loggamma(k + 1)


@functools.lru_cache(1 << 18)
def _log(k: int) -> Any:
    return mp.log(k)


class DoublePoisson(WholeNumbers):
    """Sum over the counts whose mass is above 1e-45 of the largest, continued from any tail."""

    def __init__(self, m: Any, phi: Any) -> None:
        self.m, self.phi = m, phi
        if (m > 0 and m / phi > 10**5) or 1 / phi > 2000:
            raise Unknown
        if m > 0:
            self.log_m = mp.log(m)
            middle = int(mp.floor(m))
            top = max(self._log(middle), self._log(middle + 1))
            below = list(self._sum_from(middle, -1, top))
            above = list(self._sum_from(middle + 1, 1, top))
            self.top = top
            self.first = int(below[-1][0])
            self.values = [k for k, _ in reversed(below)] + [k for k, _ in above]
            self.masses = [p for _, p in reversed(below)] + [p for _, p in above]
            self.total = mp.fsum(self.masses)
            self.below = list(itertools.accumulate(self.masses))  # P(Y <= value), unscaled
            self.above = [mpf(0), *itertools.accumulate(reversed(self.masses))][
                ::-1
            ]  # P(Y >= value)

    def _log(self, k: Any) -> Any:
        m, phi = self.m, self.phi
        if k == 0:
            return -phi * m
        k = int(k)
        return _poisson_of_itself(k) - phi * (k * (_log(k) - self.log_m) + m - k)

    def _sum_from(self, k: int, step: int, top: Any) -> Any:
        first = None
        while k >= 0:
            log_mass = self._log(k)
            first = log_mass if first is None else max(first, log_mass)
            yield mpf(k), mp.exp(log_mass - top)
            if log_mass < min(top, first) - 105:
                return
            k += step

    @remembered
    def _tail(self, y: Any, upper: bool) -> Any:
        k = mp.floor(y)
        if k < 0:
            return mpf(upper)
        if self.m == 0:
            return mpf(not upper)
        above = k + 1 > self.m  # the upper tail is the smaller part, so it is summed
        inner = upper != above
        place = int(k) - self.first
        if 0 <= place < len(self.masses) - 1:  # tails beyond are below 1e-45 of the largest mass
            share = (self.above[place + 1] if above else self.below[place]) / self.total
            if share > mpf(10) ** -15:
                return 1 - share if inner else share
        start, step = (int(k) + 1, 1) if above else (int(k), -1)
        tail = mp.fsum(p for _, p in self._sum_from(start, step, self.top)) / self.total
        return 1 - tail if inner else tail

    def log_prob(self, y: Any) -> Any:
        if y < 0 or y != mp.floor(y):
            return -INF
        if self.m == 0:
            return mpf(0) if y == 0 else -INF
        return self._log(y) - self.top - mp.log(self.total)

    def mean(self) -> Any:
        if self.m == 0:
            return mpf(0)
        return mp.fsum(k * p for k, p in zip(self.values, self.masses, strict=True)) / self.total

    def variance(self) -> Any:
        if self.m == 0:
            return mpf(0)
        mean = self.mean()
        pairs = zip(self.values, self.masses, strict=True)
        return mp.fsum((k - mean) ** 2 * p for k, p in pairs) / self.total

    def crps(self, y: Any) -> Any:
        if self.m == 0:
            return abs(y)
        return steps_crps(self.values, [p / self.total for p in self.masses], y)


def steps_crps(values: list[Any], masses: list[Any], y: Any) -> Any:
    """Return the integral of the square of ``F - 1{y <= t}`` for atoms at rising values."""
    total = max(values[0] - y, mpf(0)) + max(y - values[-1], mpf(0))
    below, above = mpf(0), [mpf(0)]
    for mass in reversed(masses):
        above.append(above[-1] + mass)
    above.reverse()
    for i in range(len(values) - 1):
        below += masses[i]
        left, right = values[i], values[i + 1]
        inner = min(max(y, left), right)
        total += below**2 * (inner - left) + above[i + 1] ** 2 * (right - inner)
    return total
