"""Predicted distributions in mpmath, with which the adversary compares the package.

Each oracle is one distribution of one number. Its methods take and return mpmath numbers. Nothing is
shared with the package: cdfs come from mpmath's special functions, or for large shapes from quadrature of
the density; scores from closed forms in 60 digits, where cancellation does not matter, or from sums.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from mpmath import mp, mpf

mp.dps = 40

INF = mpf("inf")
LARGE_SHAPE = 2000  # beyond, mpmath's incomplete gamma and beta functions are slow: quadrature
_MOST_TERMS = 20_000  # of a power series
FAR = mpf(10) ** 9  # standard deviations from which exp(-z^2 / 2) is 0 in any format
_ORDER = 18


def _gauss_legendre(order: int) -> list[tuple[Any, Any]]:
    """Return nodes and weights of Gauss and Legendre's rule in [-1, 1], to all digits."""
    nodes = []
    for start in np.polynomial.legendre.leggauss(order)[0]:
        z = mp.findroot(lambda x: mp.legendre(order, x), mpf(float(start)))
        slope = order * (z * mp.legendre(order, z) - mp.legendre(order - 1, z)) / (z * z - 1)
        nodes.append((z, 2 / ((1 - z * z) * slope**2)))
    return nodes


_RULE = _gauss_legendre(_ORDER)


class Unknown(Exception):
    """The oracle has no answer: the problem is skipped, and counted."""


class Oracle:
    """One distribution. ``discrete`` ones have ``mass`` instead of ``density``."""

    discrete = False
    low: Any = -INF
    high: Any = INF

    def cdf(self, y: Any) -> Any:
        """P(Y <= y)."""
        raise NotImplementedError

    def sf(self, y: Any) -> Any:
        """P(Y > y)."""
        raise NotImplementedError

    def cdf_below(self, y: Any) -> Any:
        """P(Y < y)."""
        return self.cdf(y)

    def log_prob(self, y: Any) -> Any:
        """Log density or log probability."""
        raise NotImplementedError

    def mean(self) -> Any:
        """Mean, or None if there is none."""
        raise NotImplementedError

    def variance(self) -> Any:
        """Variance, or None if there is none."""
        raise NotImplementedError

    def crps(self, y: Any) -> Any:
        """Continuous ranked probability score."""
        raise NotImplementedError


def normal_sf(z: Any) -> Any:
    """P(Z > z)."""
    if z > FAR:
        return mpf(0)
    return mpf(1) if z < -FAR else mp.erfc(z / mp.sqrt(2)) / 2


def normal_density(z: Any) -> Any:
    """Standard normal density."""
    return mpf(0) if abs(z) > FAR else mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


class Gaussian(Oracle):
    def __init__(self, m: Any, s: Any) -> None:
        self.m, self.s = m, s

    def cdf(self, y: Any) -> Any:
        return normal_sf((self.m - y) / self.s)

    def sf(self, y: Any) -> Any:
        return normal_sf((y - self.m) / self.s)

    def log_prob(self, y: Any) -> Any:
        z = (y - self.m) / self.s
        return -z * z / 2 - mp.log(self.s) - mp.log(2 * mp.pi) / 2

    def mean(self) -> Any:
        return self.m

    def variance(self) -> Any:
        return self.s**2

    def crps(self, y: Any) -> Any:
        z = (y - self.m) / self.s
        middle = 1 - 2 * normal_sf(abs(z))
        return self.s * (abs(z) * middle + 2 * normal_density(z) - 1 / mp.sqrt(mp.pi))


class LogNormal(Oracle):
    low = mpf(0)

    def __init__(self, mu: Any, sigma: Any) -> None:
        self.mu, self.sigma = mu, sigma

    def _w(self, y: Any) -> Any:
        return (mp.log(y) - self.mu) / self.sigma

    def cdf(self, y: Any) -> Any:
        return mpf(0) if y <= 0 else normal_sf(-self._w(y))

    def sf(self, y: Any) -> Any:
        return mpf(1) if y <= 0 else normal_sf(self._w(y))

    def log_prob(self, y: Any) -> Any:
        if y <= 0:
            return -INF
        w = self._w(y)
        return -w * w / 2 - mp.log(y) - mp.log(self.sigma) - mp.log(2 * mp.pi) / 2

    def mean(self) -> Any:
        return mp.exp(self.mu + self.sigma**2 / 2)

    def variance(self) -> Any:
        return mp.expm1(self.sigma**2) * mp.exp(2 * self.mu + self.sigma**2)

    def crps(self, y: Any) -> Any:
        mean = self.mean()
        w = self._w(y) if y > 0 else -INF
        above = mpf(0) if w == -INF else normal_sf(self.sigma - w)
        share = 0 if w == -INF else 1 - normal_sf(w)
        return y * (2 * share - 1) + 2 * mean * (normal_sf(self.sigma / mp.sqrt(2)) - above)


class Laplace(Oracle):
    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale

    def cdf(self, y: Any) -> Any:
        z = (y - self.loc) / self.scale
        return mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2

    def sf(self, y: Any) -> Any:
        z = (y - self.loc) / self.scale
        return mp.exp(-z) / 2 if z > 0 else 1 - mp.exp(z) / 2

    def log_prob(self, y: Any) -> Any:
        return -abs(y - self.loc) / self.scale - mp.log(2 * self.scale)

    def mean(self) -> Any:
        return self.loc

    def variance(self) -> Any:
        return 2 * self.scale**2

    def crps(self, y: Any) -> Any:
        z = abs(y - self.loc) / self.scale
        return self.scale * (z + mp.exp(-z) - mpf(3) / 4)


class Uniform(Oracle):
    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high

    def cdf(self, y: Any) -> Any:
        return min(max((y - self.low) / (self.high - self.low), mpf(0)), mpf(1))

    def sf(self, y: Any) -> Any:
        return min(max((self.high - y) / (self.high - self.low), mpf(0)), mpf(1))

    def log_prob(self, y: Any) -> Any:
        return -mp.log(self.high - self.low) if self.low <= y <= self.high else -INF

    def mean(self) -> Any:
        return (self.low + self.high) / 2

    def variance(self) -> Any:
        return (self.high - self.low) ** 2 / 12

    def crps(self, y: Any) -> Any:
        width = self.high - self.low
        z = (y - self.low) / width
        inner = min(max(z, mpf(0)), mpf(1))
        return width * (abs(z - inner) + inner * inner - inner + mpf(1) / 3)


def remembered(method: Any) -> Any:
    """Cache what a method of an oracle returns: cdf, sf and score ask for the same tails."""

    @functools.wraps(method)
    def ask(self: Any, *at: Any) -> Any:
        cache = self.__dict__.setdefault("_kept", {})
        key = (method.__name__, *at)
        if key not in cache:
            cache[key] = method(self, *at)
        return cache[key]

    return ask


def outer_mass(log_density: Any, y: Any, sign: int, rate: Any, curvature: Any, end: Any) -> Any:
    """Integrate a density from y outwards (``sign``), where it falls, by panels that double.

    ``rate`` and ``curvature`` are those of its logarithm at y: they give the first panel.
    """
    start = log_density(y)
    width = 1 / max(abs(rate), mp.sqrt(abs(curvature)), mpf(10) ** -400)
    if start + mp.log(width) < -3000:
        return mpf(0)  # for any double; and y plus a step may be y in the digits held
    total, near = mpf(0), mpf(0)
    for _ in range(80):
        far = near + width
        if abs(end) != INF:
            far = min(far, abs(end - y))
        half = (far - near) / 2
        part = mpf(0)
        for z, w in _RULE:
            at = y + sign * (near + half * (1 + z))
            part += w * mp.exp(log_density(at) - start)
        total += half * part
        if far == abs(end - y) or half * part < total * mpf(10) ** -22:
            return total * mp.exp(start)
        near, width = far, 2 * width if near else width
    raise Unknown


class Gamma(Oracle):
    low = mpf(0)

    def __init__(self, a: Any, rate: Any) -> None:
        self.a, self.rate = a, rate

    def _log(self, x: Any) -> Any:
        return (self.a - 1) * mp.log(x) - x - self._log_gamma

    @functools.cached_property
    def _log_gamma(self) -> Any:
        return mp.loggamma(self.a)

    @remembered
    def _tail(self, y: Any, upper: bool) -> Any:
        x, a = y * self.rate, self.a
        if x <= 0:
            return mpf(upper)
        if a <= LARGE_SHAPE and x <= 20 * LARGE_SHAPE:
            return (
                mp.gammainc(a, x, INF, regularized=True)
                if upper
                else mp.gammainc(a, 0, x, regularized=True)
            )
        above, tail = self._outer(x)
        return tail if above == upper else 1 - tail

    @remembered
    def _outer(self, x: Any) -> tuple[bool, Any]:
        a = self.a
        above = x > a - 1
        sign, end = (1, INF) if above else (-1, mpf(0))
        return above, outer_mass(self._log, x, sign, (a - 1) / x - 1, (a - 1) / x**2, end)

    def cdf(self, y: Any) -> Any:
        return self._tail(y, False)

    def sf(self, y: Any) -> Any:
        return self._tail(y, True)

    def log_prob(self, y: Any) -> Any:
        x = y * self.rate
        if x < 0:
            return -INF
        if x == 0:
            if self.a == 1:
                return mp.log(self.rate)
            return INF if self.a < 1 else -INF
        return self._log(x) + mp.log(self.rate)

    def mean(self) -> Any:
        return self.a / self.rate

    def variance(self) -> Any:
        return self.a / self.rate**2

    def crps(self, y: Any) -> Any:
        x, a = y * self.rate, self.a
        density = mp.exp(self._log(x)) * x if x > 0 else mpf(0)
        gini = mp.exp(mp.loggamma(a + mpf(1) / 2) - self._log_gamma) / mp.sqrt(mp.pi)
        cdf = self.cdf(y)
        shift = 1 - 2 * self.sf(y) if cdf > 0.5 else 2 * cdf - 1
        return ((x - a) * shift + 2 * density - gini) / self.rate


class Beta(Oracle):
    low, high = mpf(0), mpf(1)

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b
        self._log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)

    def _log(self, y: Any) -> Any:
        return (self.a - 1) * mp.log(y) + (self.b - 1) * mp.log1p(-y) - self._log_beta

    @remembered
    def _tail(self, y: Any, upper: bool, complement: Any = None) -> Any:
        """Return P(Y > y) or P(Y <= y); ``rest`` is 1 - y, if it is known to more digits."""
        a, b = self.a, self.b
        complement = 1 - y if complement is None else complement
        if y <= 0 or complement <= 0:
            return mpf((y <= 0) == upper)
        if max(a, b) <= LARGE_SHAPE:
            # The series of the smaller argument.
            if y < mpf(1) / 2:
                tail, is_upper = mp.betainc(a, b, 0, y, regularized=True), False
                if upper and tail > mpf(1) - mpf(10) ** -20:
                    tail, is_upper = mp.betainc(b, a, 0, complement, regularized=True), True
            else:
                tail, is_upper = mp.betainc(b, a, 0, complement, regularized=True), True
                if not upper and tail > mpf(1) - mpf(10) ** -20:
                    tail, is_upper = mp.betainc(a, b, 0, y, regularized=True), False
            return tail if is_upper == upper else 1 - tail
        # From the end of the smaller shape: the density may have a pole there, which quadrature must miss.
        flip = b < a
        below, tail = self._outer(complement, y, b, a) if flip else self._outer(y, complement, a, b)
        return tail if below == (flip == upper) else 1 - tail

    def _outer(self, y: Any, complement: Any, a: Any, b: Any) -> tuple[bool, Any]:
        """Return whether y lies below the mean, and the mass outside of it; ``rest`` is 1 - y, a < b."""
        start = a * mp.log(y) + b * mp.log(complement) - self._log_beta
        if y * (a + b) < a + 1:
            return True, mp.exp(start - mp.log(a)) * self._series(y, a, b)
        if start < -3000:
            return False, mpf(0)
        if complement < mpf(10) ** -20:
            raise Unknown  # quadrature in y would not see 1 - y

        def log(at: Any) -> Any:
            return (a - 1) * mp.log(at) + (b - 1) * mp.log1p(-at) - self._log_beta

        rate = (a - 1) / y - (b - 1) / complement
        curvature = abs(a - 1) / y**2 + abs(b - 1) / complement**2
        return False, outer_mass(log, y, 1, rate, curvature, mpf(1))

    def _series(self, y: Any, a: Any, b: Any) -> Any:
        """Sum the positive terms ``(a + b)_n / (a + 1)_n y^n``, or use quadrature if they are many."""
        total = term = mpf(1)
        for n in range(_MOST_TERMS):
            term *= y * (a + b + n) / (a + 1 + n)
            total += term
            if term < total * mpf(10) ** -38:
                return total
        if a < 1:
            raise Unknown

        def log(at: Any) -> Any:
            return (a - 1) * (mp.log(at) - mp.log(y)) + (b - 1) * (mp.log1p(-at) - mp.log1p(-y))

        rate = (a - 1) / y - (b - 1) / (1 - y)
        curvature = abs(a - 1) / y**2 + abs(b - 1) / (1 - y) ** 2
        return a * outer_mass(log, y, -1, rate, curvature, mpf(0)) / (y * (1 - y))

    def cdf(self, y: Any) -> Any:
        return self._tail(y, False)

    def sf(self, y: Any) -> Any:
        return self._tail(y, True)

    def log_prob(self, y: Any) -> Any:
        if y < 0 or y > 1:
            return -INF
        if y in (0, 1):
            shape, other = (self.a, self.b) if y == 0 else (self.b, self.a)
            if shape == 1:
                return mp.log(other)
            return INF if shape < 1 else -INF
        return self._log(y)

    def mean(self) -> Any:
        return self.a / (self.a + self.b)

    def variance(self) -> Any:
        total = self.a + self.b
        return self.a * self.b / total**2 / (total + 1)

    def crps(self, y: Any) -> Any:
        a, b = self.a, self.b
        inner = min(max(y, mpf(0)), mpf(1))
        power = mp.exp(self._log(inner)) * inner * (1 - inner) if 0 < inner < 1 else mpf(0)
        half = mpf(1) / 2
        logs = [mp.loggamma(x + half) - mp.loggamma(x) for x in (a, b, a + b)]
        gini = mp.exp(logs[0] + logs[1] - logs[2]) / (2 * mp.sqrt(mp.pi))
        cdf = self.cdf(inner)
        shift = 1 - 2 * self.sf(inner) if cdf > 0.5 else 2 * cdf - 1
        return (y - self.mean()) * shift + 2 / (a + b) * (power - gini)


class StudentT(Oracle):
    def __init__(self, df: Any, loc: Any, scale: Any) -> None:
        self.df, self.loc, self.scale = df, loc, scale
        half = mpf(1) / 2
        self._constant = (
            mp.loggamma((df + 1) * half) - mp.loggamma(df * half) - mp.log(df * mp.pi) / 2
        )

    def _log(self, z: Any) -> Any:
        return self._constant - (self.df + 1) / 2 * mp.log1p(z * z / self.df)

    @remembered
    def _outer(self, z: Any) -> Any:
        """Return P(Z > z) for z >= 0."""
        df = self.df
        if z == 0:
            return mpf(1) / 2
        if df <= LARGE_SHAPE:
            return mp.betainc(df / 2, mpf(1) / 2, 0, df / (df + z * z), regularized=True) / 2
        rate = (df + 1) * z / (df + z * z)
        return outer_mass(self._log, z, 1, rate, (df + 1) / df / (1 + z * z / df), INF)

    def sf(self, y: Any) -> Any:
        z = (y - self.loc) / self.scale
        return self._outer(z) if z >= 0 else 1 - self._outer(-z)

    def cdf(self, y: Any) -> Any:
        z = (y - self.loc) / self.scale
        return self._outer(-z) if z <= 0 else 1 - self._outer(z)

    def log_prob(self, y: Any) -> Any:
        return self._log((y - self.loc) / self.scale) - mp.log(self.scale)

    def mean(self) -> Any:
        return self.loc if self.df > 1 else None

    def variance(self) -> Any:
        if self.df <= 1:
            return None
        return self.scale**2 * self.df / (self.df - 2) if self.df > 2 else INF

    def crps(self, y: Any) -> Any:
        df = self.df
        if df <= 0.5:
            return INF
        z = abs(y - self.loc) / self.scale
        if df == 1:
            return self.scale * (2 * z * mp.atan(z) - mp.log1p(z * z) + 2 * mp.log(2)) / mp.pi
        half = mpf(1) / 2
        # 2 sqrt(df) B(1/2, df - 1/2) / B(1/2, df / 2)^2, by gamma functions
        logs = mp.loggamma(df - half) - mp.loggamma(df)
        logs += 2 * (mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2))
        gini = mp.sqrt(df / mp.pi) * mp.exp(logs)
        weighted = (df + z * z) * mp.exp(self._log(z))
        return self.scale * (z * (1 - 2 * self._outer(z)) + 2 * (weighted - gini) / (df - 1))
