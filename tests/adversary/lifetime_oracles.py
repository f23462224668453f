"""Logistic, exponential, Weibull, generalised Pareto and binomial distributions in mpmath."""

from __future__ import annotations

import itertools
from typing import Any

from count_oracles import WholeNumbers, steps_crps
from distribution_oracles import INF, Oracle, Unknown, remembered
from mpmath import mp, mpf

_MOST_TRIALS = 3000  # binomial sums are over all counts


class Logistic(Oracle):
    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale

    def cdf(self, y: Any) -> Any:
        return self.sf(2 * self.loc - y)

    def sf(self, y: Any) -> Any:
        z = (y - self.loc) / self.scale
        return mp.exp(-z) / (1 + mp.exp(-z)) if z > 0 else 1 / (1 + mp.exp(z))

    def log_prob(self, y: Any) -> Any:
        z = abs(y - self.loc) / self.scale
        return -z - 2 * mp.log1p(mp.exp(-z)) - mp.log(self.scale)

    def mean(self) -> Any:
        return self.loc

    def variance(self) -> Any:
        return (mp.pi * self.scale) ** 2 / 3

    def crps(self, y: Any) -> Any:
        z = abs(y - self.loc) / self.scale
        return self.scale * (z + 2 * mp.log1p(mp.exp(-z)) - 1)


class Lifetime(Oracle):
    """A distribution given by ``-log S``; the score is a sum of integrals of S and of its square."""

    low = mpf(0)

    def hazard(self, y: Any) -> Any:
        """``-log P(Y > y)``, inf above the support."""
        raise NotImplementedError

    def sf(self, y: Any) -> Any:
        return mpf(1) if y <= self.low else mp.exp(-self.hazard(y))

    def cdf(self, y: Any) -> Any:
        return mpf(0) if y <= self.low else -mp.expm1(-self.hazard(y))


class Weibull(Lifetime):
    """With shape 1, exponential."""

    def __init__(self, k: Any, scale: Any) -> None:
        self.k, self.scale = k, scale

    def hazard(self, y: Any) -> Any:
        return (y / self.scale) ** self.k

    def log_prob(self, y: Any) -> Any:
        if y < 0:
            return -INF
        if y == 0:
            return -mp.log(self.scale) if self.k == 1 else (INF if self.k < 1 else -INF)
        log_z = mp.log(y / self.scale)
        return mp.log(self.k / self.scale) + (self.k - 1) * log_z - mp.exp(self.k * log_z)

    def mean(self) -> Any:
        return self.scale * mp.gamma(1 + 1 / self.k)

    def variance(self) -> Any:
        with mp.extradps(40):
            u = 1 / self.k
            return self.scale**2 * (mp.gamma(1 + 2 * u) - mp.gamma(1 + u) ** 2)

    @remembered
    def crps(self, y: Any) -> Any:
        with mp.extradps(40):
            u, x = 1 / self.k, self.hazard(y) if y > 0 else mpf(0)
            # Beyond 10^4 nothing is left of S.
            lower = mp.gamma(1 + u) if x > 10**4 else mp.gammainc(1 + u, 0, x)
            spread = self.scale * (mp.gamma(1 + u) * mpf(2) ** -u - 2 * lower)
            return y * (1 - 2 * mp.exp(-x)) + spread if y > 0 else -y + spread


class Exponential(Weibull):
    def __init__(self, rate: Any) -> None:
        super().__init__(mpf(1), 1 / rate)

    def crps(self, y: Any) -> Any:
        return abs(y) + self.scale * (mpf(1) / 2 - 2 * self.cdf(y))


class GeneralizedPareto(Lifetime):
    def __init__(self, xi: Any, scale: Any, loc: Any) -> None:
        self.xi, self.scale, self.low = xi, scale, loc
        self.high = loc - scale / xi if xi < 0 else INF

    def hazard(self, y: Any) -> Any:
        if y >= self.high:
            return INF
        z = (y - self.low) / self.scale
        return z if self.xi == 0 else mp.log1p(self.xi * z) / self.xi

    def log_prob(self, y: Any) -> Any:
        if y < self.low or y > self.high:
            return -INF
        if y == self.high:
            if self.xi == -1:
                return -mp.log(self.scale)
            return -INF if self.xi > -1 else INF
        return -(1 + self.xi) * self.hazard(y) - mp.log(self.scale)

    def mean(self) -> Any:
        return self.low + self.scale / (1 - self.xi) if self.xi < 1 else INF

    def variance(self) -> Any:
        xi = self.xi
        return self.scale**2 / (1 - xi) ** 2 / (1 - 2 * xi) if xi < mpf(1) / 2 else INF

    def crps(self, y: Any) -> Any:
        xi = self.xi
        if xi >= 2:
            return INF
        with mp.extradps(40):
            gap = y - self.low
            if gap <= 0:
                share = mpf(0)
            elif xi == 1:
                share = self.hazard(y)
            else:
                hazard = self.hazard(y)
                share = (1 if hazard == INF else -mp.expm1(-(1 - xi) * hazard)) / (1 - xi)
            return abs(gap) + self.scale * (1 / (2 - xi) - 2 * share)


class Binomial(WholeNumbers):
    """Sum over all counts; the number of trials is exact."""

    def __init__(self, n: Any, p: Any) -> None:
        self.n, self.p = int(n), p
        if self.n > _MOST_TRIALS:
            raise Unknown
        with mp.extradps(20):
            self.masses = [self._mass(k) for k in range(self.n + 1)]
            self.below = [mpf(0), *itertools.accumulate(self.masses)]  # P(Y < k)
            self.above = [mpf(0), *itertools.accumulate(reversed(self.masses))][::-1]  # P(Y >= k)

    def _mass(self, k: int) -> Any:
        return mp.binomial(self.n, k) * self.p**k * (1 - self.p) ** (self.n - k)

    @remembered
    def _tail(self, y: Any, upper: bool) -> Any:
        k = int(min(max(mp.floor(y), -1), self.n)) + 1
        return self.above[k] if upper else self.below[k]

    def log_prob(self, y: Any) -> Any:
        if y != mp.floor(y) or not 0 <= y <= self.n or self.masses[int(y)] == 0:
            return -INF
        return mp.log(self.masses[int(y)])

    def mean(self) -> Any:
        return self.n * self.p

    def variance(self) -> Any:
        return self.n * self.p * (1 - self.p)

    def crps(self, y: Any) -> Any:
        return steps_crps([mpf(k) for k in range(self.n + 1)], self.masses, y)
