"""Distributions made from others, in mpmath: mixtures, extra zeros, intervals, atoms, quantiles."""

from __future__ import annotations

import itertools
from typing import Any

from count_oracles import steps_crps
from distribution_oracles import (
    INF,
    Gaussian,
    Oracle,
    Unknown,
    normal_density,
    normal_sf,
)
from mpmath import mp, mpf


class Mixture(Oracle):
    def __init__(self, parts: list[Oracle], weights: list[Any]) -> None:
        total = mp.fsum(weights)
        self.parts, self.weights = parts, [w / total for w in weights]
        self.discrete = all(part.discrete for part in parts)

    def _sum(self, name: str, *at: Any) -> Any:
        values = [getattr(part, name)(*at) for part in self.parts]
        terms = [(w, v) for w, v in zip(self.weights, values, strict=True) if w > 0]
        if any(v is None for _, v in terms):
            return None
        return mp.fsum(w * v for w, v in terms)

    def cdf(self, y: Any) -> Any:
        return self._sum("cdf", y)

    def cdf_below(self, y: Any) -> Any:
        return self._sum("cdf_below", y)

    def sf(self, y: Any) -> Any:
        return self._sum("sf", y)

    def log_prob(self, y: Any) -> Any:
        logs = [
            part.log_prob(y) + mp.log(w)
            for part, w in zip(self.parts, self.weights, strict=True)
            if w > 0
        ]
        top = max(logs)
        return top if abs(top) == INF else top + mp.log(mp.fsum(mp.exp(v - top) for v in logs))

    def mean(self) -> Any:
        return self._sum("mean")

    def variance(self) -> Any:
        mean = self.mean()
        if mean is None or abs(mean) == INF:
            return None
        pairs = zip(self.weights, self.parts, strict=True)
        return mp.fsum(w * (p.variance() + (p.mean() - mean) ** 2) for w, p in pairs if w > 0)

    def crps(self, y: Any) -> Any:
        if not all(isinstance(part, Gaussian) for part in self.parts):
            raise Unknown

        def distance(gap: Any, spread: Any) -> Any:
            z = gap / spread
            return spread * (abs(z) * (1 - 2 * normal_sf(abs(z))) + 2 * normal_density(z))

        pairs = list(zip(self.weights, self.parts, strict=True))
        with mp.workdps(700):  # a wide component of tiny weight cancels
            score = mp.fsum(w * distance(y - p.m, p.s) for w, p in pairs)
            for w, p in pairs:
                for v, q in pairs:
                    score -= w * v * distance(p.m - q.m, mp.sqrt(p.s**2 + q.s**2)) / 2
        return score


class ZeroInflated(Oracle):
    def __init__(self, base: Oracle, p: Any) -> None:
        self.base, self.p = base, p
        self.discrete = base.discrete

    def cdf(self, y: Any) -> Any:
        return self.p * (y >= 0) + (1 - self.p) * self.base.cdf(y)

    def cdf_below(self, y: Any) -> Any:
        return self.p * (y > 0) + (1 - self.p) * self.base.cdf_below(y)

    def sf(self, y: Any) -> Any:
        return self.p * (y < 0) + (1 - self.p) * self.base.sf(y)

    def log_prob(self, y: Any) -> Any:
        log_mass = self.base.log_prob(y)
        log_mass = log_mass + mp.log1p(-self.p) if self.p < 1 else -INF
        if y != 0:
            return log_mass
        extra = mp.log(self.p) if self.p > 0 else -INF
        if not self.discrete:
            return extra
        return mp.log(self.p + mp.exp(log_mass))

    def mean(self) -> Any:
        if self.p == 1:
            return mpf(0)
        mean = self.base.mean()
        return None if mean is None else (1 - self.p) * mean

    def variance(self) -> Any:
        if self.p == 1:
            return mpf(0)
        if self.base.mean() is None:
            return None
        return (1 - self.p) * (self.base.variance() + self.p * self.base.mean() ** 2)

    def crps(self, y: Any) -> Any:
        p = self.p
        if p < 1 and self.base.crps(mpf(0)) == INF:
            return INF
        if p == 1:
            return abs(y)
        return p * abs(y) + (1 - p) * (self.base.crps(y) - p * self.base.crps(mpf(0)))


class Truncated(Oracle):
    """Truncation of a base whose cdf and survival function have all their digits."""

    def __init__(self, base: Oracle, low: Any, high: Any) -> None:
        self.base, self.low, self.high = base, low, high
        self.discrete = base.discrete
        self.mass = self._between(low, high)
        if self.mass < mpf(10) ** -300:
            raise Unknown  # documented: "intervals of a mass above 1e-300"

    def _between(self, a: Any, b: Any, below: bool = False) -> Any:
        """Return P(a <= B <= b), or without b; in more digits if the difference cancels."""
        for digits in (60, 350, 700):
            with mp.extradps(digits):
                larger = self.base.cdf_below(b) if below else self.base.cdf(b)
                smaller = self.base.cdf_below(a)
                if smaller > 0.5 and not self.discrete:
                    larger, smaller = self.base.sf(a), self.base.sf(b)
                if a == b or abs(larger - smaller) >= abs(larger) * mpf(10) ** -digits:
                    break
        return larger - smaller

    def cdf(self, y: Any) -> Any:
        if y < self.low:
            return mpf(0)
        return mpf(1) if y >= self.high else self._between(self.low, y) / self.mass

    def cdf_below(self, y: Any) -> Any:
        if y <= self.low:
            return mpf(0)
        return mpf(1) if y > self.high else self._between(self.low, y, True) / self.mass

    def sf(self, y: Any) -> Any:
        if y < self.low:
            return mpf(1)
        if y >= self.high:
            return mpf(0)
        if self.discrete:
            return (self.base.sf(y) - self.base.sf(self.high)) / self.mass
        return self._between(y, self.high) / self.mass

    def log_prob(self, y: Any) -> Any:
        if y < self.low or y > self.high:
            return -INF
        return self.base.log_prob(y) - mp.log(self.mass)

    def _standard(self) -> tuple[Any, Any]:
        if not isinstance(self.base, Gaussian):
            raise Unknown
        return (self.low - self.base.m) / self.base.s, (self.high - self.base.m) / self.base.s

    def mean(self) -> Any:
        a, b = self._standard()
        with mp.extradps(60):
            shift = (normal_density(a) - normal_density(b)) / self.mass
        return self.base.m + self.base.s * shift

    def variance(self) -> Any:
        a, b = self._standard()
        with mp.extradps(200):
            mass = self._between(self.low, self.high)
            height = normal_density(a), normal_density(b)
            slope = (0 if abs(a) == INF else a * height[0]) - (
                0 if abs(b) == INF else b * height[1]
            )
            shift = (height[0] - height[1]) / mass
            return self.base.s**2 * (1 + slope / mass - shift**2)

    def crps(self, y: Any) -> Any:
        a, b = self._standard()
        with mp.extradps(100):
            mass = self._between(self.low, self.high)
            m, s = self.base.m, self.base.s
            z = (min(max(y, self.low), self.high) - m) / s

            def inside(u: Any, v: Any) -> Any:
                return normal_sf(u) - normal_sf(v) if u > 0 else normal_sf(-v) - normal_sf(-u)

            both = inside(a * mp.sqrt(2), b * mp.sqrt(2)) / (mp.sqrt(mp.pi) * mass)
            inner = z * (inside(a, z) - inside(z, b)) + 2 * normal_density(z) - both
            return s * (abs((y - m) / s - z) + inner / mass)


class Rescaled(Oracle):
    """Distribution of ``mean + scale (Y - mean)``; the mean is rounded, and ``factor`` may move it."""

    def __init__(self, base: Oracle, scale: Any, factor: Any) -> None:
        self.base, self.scale, self.middle = base, scale, base.mean()
        if self.middle is None:
            raise Unknown
        self.middle *= factor

    def _back(self, y: Any) -> Any:
        return self.middle + (y - self.middle) / self.scale

    def cdf(self, y: Any) -> Any:
        return self.base.cdf(self._back(y))

    def sf(self, y: Any) -> Any:
        return self.base.sf(self._back(y))

    def log_prob(self, y: Any) -> Any:
        return self.base.log_prob(self._back(y)) - mp.log(self.scale)

    def mean(self) -> Any:
        return self.middle

    def variance(self) -> Any:
        variance = self.base.variance()
        return None if variance is None else variance * self.scale**2

    def crps(self, y: Any) -> Any:
        return self.scale * self.base.crps(self._back(y))


class Recalibrated(Oracle):
    """Distribution with cdf ``R(F(y))`` of a Gaussian F, with R linear between knots."""

    def __init__(self, base: Gaussian, p: list[Any], r: list[Any]) -> None:
        self.base, self.p, self.r = base, p, r
        self.slopes = [(r[i + 1] - r[i]) / (p[i + 1] - p[i]) for i in range(len(p) - 1)]
        self.ends = [-INF, *[mp.sqrt(2) * mp.erfinv(2 * v - 1) for v in p[1:-1]], INF]

    def _cell(self, y: Any) -> int:
        return self._cell_of((y - self.base.m) / self.base.s)

    def _cell_of(self, z: Any) -> int:
        level = 1 - normal_sf(z)
        return max(i for i in range(len(self.p) - 1) if self.p[i] <= level)

    def cdf(self, y: Any) -> Any:
        i = self._cell(y)
        return self.r[i] + self.slopes[i] * (self.base.cdf(y) - self.p[i])

    def sf(self, y: Any) -> Any:
        i = self._cell(y)
        upper = self.base.sf(y) - (1 - self.p[i + 1])
        return (1 - self.r[i + 1]) + self.slopes[i] * upper

    def log_prob(self, y: Any) -> Any:
        return self.base.log_prob(y) + mp.log(self.slopes[self._cell(y)])

    def mean(self) -> Any:
        return self.base.m + self.base.s * self._first()

    def _first(self) -> Any:
        """The mean in standard deviations of the base."""
        heights = [mpf(0) if abs(z) == INF else normal_density(z) for z in self.ends]
        return mp.fsum(
            s * (a - b) for s, a, b in zip(self.slopes, heights, heights[1:], strict=False)
        )

    def variance(self) -> Any:
        def part(z: Any) -> Any:  # of the integral of z^2 phi: Phi(z) - z phi(z)
            if abs(z) == INF:
                return mpf(z > 0)
            return (1 - normal_sf(z)) - z * normal_density(z)

        parts = [part(z) for z in self.ends]
        second = mp.fsum(
            s * (b - a) for s, a, b in zip(self.slopes, parts, parts[1:], strict=False)
        )
        return self.base.s**2 * (second - self._first() ** 2)

    def crps(self, y: Any) -> Any:
        z = (y - self.base.m) / self.base.s
        knots = sorted({v for v in self.ends if abs(v) != INF} | {z})
        below = self.base.s * mp.fsum(
            self._square(a, b, False) for a, b in itertools.pairwise([-INF, *knots]) if b <= z
        )
        above = self.base.s * mp.fsum(
            self._square(a, b, True) for a, b in itertools.pairwise([*knots, INF]) if a >= z
        )
        return below + above

    def _square(self, a: Any, b: Any, upper: bool) -> Any:
        """Return the integral of ``R(Phi)^2``, or of ``(1 - R(Phi))^2``, between two points of a cell."""
        middle = b - 1 if a == -INF else a + 1 if b == INF else (a + b) / 2
        i = self._cell_of(middle)
        slope = self.slopes[i]
        # c + slope * tail, where the tail is Phi or 1 - Phi.
        c = (
            (1 - self.r[i + 1] - slope * (1 - self.p[i + 1]))
            if upper
            else self.r[i] - slope * self.p[i]
        )
        if upper:
            a, b = -b, -a
        integral = slope**2 * (_both(b) - _both(a)) + 2 * c * slope * (_one(b) - _one(a))
        return integral + (c**2 * (b - a) if c != 0 else 0)


def _one(z: Any) -> Any:
    """Return the integral of Phi up to z."""
    return mpf(0) if z == -INF else z * (1 - normal_sf(z)) + normal_density(z)


def _both(z: Any) -> Any:
    """Return the integral of Phi^2 up to z."""
    if z == -INF:
        return mpf(0)
    low = 1 - normal_sf(z)
    return (
        z * low**2 + 2 * low * normal_density(z) - (1 - normal_sf(mp.sqrt(2) * z)) / mp.sqrt(mp.pi)
    )


class Atoms(Oracle):
    """Categorical distributions and draws."""

    discrete = True

    def __init__(self, values: list[Any], masses: list[Any]) -> None:
        total = mp.fsum(masses)
        order = sorted(range(len(values)), key=lambda i: values[i])
        self.values = [values[i] for i in order]
        self.masses = [masses[i] / total for i in order]

    def _over(self, keep: Any) -> Any:
        pairs = zip(self.values, self.masses, strict=True)
        return mp.fsum(p for v, p in pairs if keep(v))

    def cdf(self, y: Any) -> Any:
        return self._over(lambda v: v <= y)

    def cdf_below(self, y: Any) -> Any:
        return self._over(lambda v: v < y)

    def sf(self, y: Any) -> Any:
        return self._over(lambda v: v > y)

    def log_prob(self, y: Any) -> Any:
        mass = self._over(lambda v: v == y)
        return mp.log(mass) if mass > 0 else -INF

    def mean(self) -> Any:
        return mp.fsum(v * p for v, p in zip(self.values, self.masses, strict=True))

    def variance(self) -> Any:
        pairs = list(zip([v - self.values[0] for v in self.values], self.masses, strict=True))
        mean = mp.fsum(v * p for v, p in pairs)
        return mp.fsum((v - mean) ** 2 * p for v, p in pairs)

    def crps(self, y: Any) -> Any:
        return steps_crps(self.values, self.masses, y)


class Quantiles(Oracle):
    """Linear between quantiles, with exponential tails."""

    def __init__(self, levels: list[Any], values: list[Any]) -> None:
        self.p, self.v = levels, values
        self.left = levels[0] * (values[1] - values[0]) / (levels[1] - levels[0])
        self.right = (1 - levels[-1]) * (values[-1] - values[-2]) / (levels[-1] - levels[-2])

    def cdf(self, y: Any) -> Any:
        return self._share(y, False)

    def sf(self, y: Any) -> Any:
        return self._share(y, True)

    def _share(self, y: Any, upper: bool) -> Any:
        p, v = self.p, self.v
        if y < v[0]:
            share = p[0] * mp.exp((y - v[0]) / self.left) if self.left > 0 else mpf(0)
            return 1 - share if upper else share
        if y >= v[-1]:
            share = (1 - p[-1]) * mp.exp((v[-1] - y) / self.right) if self.right > 0 else mpf(0)
            return share if upper else 1 - share
        i = max(i for i in range(len(v)) if v[i] <= y)
        share = p[i] + (p[i + 1] - p[i]) * (y - v[i]) / (v[i + 1] - v[i])
        return 1 - share if upper else share

    def mean(self) -> Any:
        return self.v[0] + self._mean_beyond()

    def _mean_beyond(self) -> Any:
        """Return the mean minus the first quantile, or 0 for an atom."""
        p, v = self.p, [value - self.v[0] for value in self.v]
        inner = mp.fsum((p[i + 1] - p[i]) * (v[i + 1] + v[i]) / 2 for i in range(len(v) - 1))
        return inner - p[0] * self.left + (1 - p[-1]) * (v[-1] + self.right)

    def variance(self) -> Any:
        p, mean = self.p, self._mean_beyond()
        v = [value - self.v[0] - mean for value in self.v]
        inner = mp.fsum(
            (p[i + 1] - p[i]) * (v[i + 1] ** 2 + v[i + 1] * v[i] + v[i] ** 2) / 3
            for i in range(len(v) - 1)
        )
        low = (v[0] - self.left) ** 2 + self.left**2
        high = (v[-1] + self.right) ** 2 + self.right**2
        return inner + p[0] * low + (1 - p[-1]) * high

    def crps(self, y: Any) -> Any:
        # The integral of F^2 below y and (1 - F)^2 above, both linear from knot to knot.
        knots = sorted([*self.v, y])
        total = mpf(0)
        for left, right in itertools.pairwise(knots):
            if right > self.v[0] and left < self.v[-1]:
                side = self.cdf if right <= y else self.sf
                middle, width = (left + right) / 2, right - left
                # Simpson's rule is exact for squares of linear functions; ends are limits from inside.
                first, last = self._inside(left, right)
                if side == self.sf:
                    first, last = 1 - first, 1 - last
                centre = side(middle)
                total += width * (first**2 + 4 * centre**2 + last**2) / 6
        total += self._tail_score(self.p[0], self.left, self.v[0] - y)
        return total + self._tail_score(1 - self.p[-1], self.right, y - self.v[-1])

    def _inside(self, left: Any, right: Any) -> tuple[Any, Any]:
        middle, width = (left + right) / 2, right - left
        if width == 0:
            return self.cdf(left), self.cdf(left)
        quarter = self.cdf(left + width / 4)
        slope = (self.cdf(middle) - quarter) / (width / 4)
        return quarter - slope * width / 4, quarter + slope * width * 3 / 4

    def _tail_score(self, mass: Any, scale: Any, beyond: Any) -> Any:
        if beyond <= 0:
            return mass**2 * scale / 2
        tail_mass = mass * mp.exp(-beyond / scale) if scale > 0 else mpf(0)
        # y lies in the tail: (1 - F)^2 from the quantile to y, F^2 from there on.
        first = beyond - 2 * scale * (mass - tail_mass) + scale * (mass**2 - tail_mass**2) / 2
        return first + tail_mass**2 * scale / 2
