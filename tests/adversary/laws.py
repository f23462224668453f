"""Distributions of numbers in NumPy and SciPy, from which expectations of kernels are integrated.

A law is a set of atoms and a continuous part, given by its cdf and survival function and by the places
where those are not smooth. ``E g(Y)`` of the continuous part, of mass m, follows by parts:

    m g(z) + integral over t > z of g'(t) S(t) - integral over t < z of g'(t) F(t)

where F and S are bounded wherever the density has a pole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_HALVINGS = 60  # of panels towards each place where an integrand is not smooth
_DOUBLINGS = 40


def _nothing(t: Any) -> Any:
    return np.zeros_like(t)


@dataclass
class Law:
    """A distribution of numbers.

    Attributes
    ----------
    expression : str
        Python that makes it, ``{n}`` being the number of equal rows.
    centre, width : float
        About the median and the standard deviation; kernels are as wide as ``width``, give or take.
    atoms : list of (value, mass)
        Its atoms.
    cdf, sf : callable
        ``P(Y <= t)`` and ``P(Y > t)`` of the continuous part.
    mass : float
        The mass of the continuous part.
    breaks : list of (place, width)
        Where the cdf is not smooth or changes fast, and over which distance.
    """

    expression: str
    centre: float
    width: float
    atoms: list[tuple[float, float]] = field(default_factory=list)
    cdf: Callable[[Any], Any] = _nothing
    sf: Callable[[Any], Any] = _nothing
    mass: float = 0.0
    breaks: list[tuple[float, float]] = field(default_factory=list)

    def expectation(
        self, k: Any, slope: Any, z: float, length: float
    ) -> tuple[float, float, float]:
        """Return ``E k(Y)`` of a kernel at z, the sum of the sizes of its parts, and what is left out.

        ``slope`` is the derivative of k, which may jump at z and at 0; ``length`` is the distance over
        which k changes.
        """
        values = np.array([v for v, _ in self.atoms])
        masses = np.array([m for _, m in self.atoms])
        parts = masses * k(values) if len(values) else np.zeros(1)
        total, size = float(parts.sum()), float(np.abs(parts).sum())
        left_out = 0.0
        if self.mass == 0:
            return total, size, left_out
        middle = float(k(np.array([z]))[0]) * self.mass
        total, size = total + middle, size + abs(middle)
        places = [(z, length), (0.0, length), (self.centre, self.width), *self.breaks]
        for sign in (1, -1):
            left, right = _panels(places, z, sign)
            half = (right - left) / 2
            gap = left[:, None] + half[:, None] * (1 + _NODES)
            t = z + sign * gap
            tail = self.sf(t) if sign > 0 else self.cdf(t)
            with np.errstate(all="ignore"):
                pieces = np.where(tail > 0, slope(t) * tail, 0.0) * _WEIGHTS * half[:, None]
            total += sign * float(pieces.sum())
            size += float(np.abs(pieces).sum())
            left_out += _beyond(np.abs(pieces).sum(axis=1), right)
        return total, size, left_out


def _beyond(parts: Any, ends: Any) -> float:
    """Return the part of a power-law integral beyond its last panel: the geometric series."""
    octaves = [float(parts[(ends > ends[-1] / 2**k) & (ends <= ends[-1] / 2 ** (k - 1))].sum())
               for k in (3, 2)]  # fmt: skip
    if not octaves[1] > 0:
        return 0.0
    ratio = octaves[1] / octaves[0] if octaves[0] > 0 else np.inf
    return octaves[1] * ratio**2 / (1 - ratio) if ratio < 1 else np.inf


def _panels(places: list[tuple[float, float]], z: float, sign: int) -> tuple[Any, Any]:
    """Return the ends of panels, as distances from z, graded towards places."""
    steps = 2.0 ** np.arange(-_HALVINGS, _DOUBLINGS)
    edges = [np.zeros(1)]
    for place, width in places:
        away = sign * (place - z)
        for side in (-1, 0, 1):
            edges.append(away + side * width * steps if side else np.array([away]))
    points = np.unique(np.concatenate(edges))
    points = points[(points >= 0) & np.isfinite(points)]
    return points[:-1], points[1:]


def _number(rng: Any, low: float, high: float) -> float:
    return float(10 ** rng.uniform(low, high))


def _continuous(expression: str, frozen: Any, centre: float, width: float, ends: Any) -> Law:
    """Return the law of one of SciPy's continuous distributions."""
    breaks = [(float(end), width) for end in ends]
    return Law(expression, centre, width, [], frozen.cdf, frozen.sf, 1.0, breaks)


def gaussian(rng: Any) -> Law:
    s = _number(rng, -3, 3)
    m = float(rng.normal()) * s * _number(rng, -1, 2)
    return _continuous(f"fm.Gaussian([{m!r}] * {{n}}, {s!r})", stats.norm(m, s), m, s, [])


def laplace(rng: Any) -> Law:
    s = _number(rng, -3, 3)
    m = float(rng.normal()) * s
    return _continuous(f"fm.Laplace([{m!r}] * {{n}}, {s!r})", stats.laplace(m, s), m, s, [m])


def student(rng: Any) -> Law:
    df = _number(rng, 0, 2)
    s = _number(rng, -2, 2)
    m = float(rng.normal()) * s
    expression = f"fm.StudentT({df!r}, [{m!r}] * {{n}}, {s!r})"
    return _continuous(expression, stats.t(df, m, s), m, s, [])


def uniform(rng: Any) -> Law:
    low, width = float(rng.normal()), _number(rng, -3, 3)
    high = low + width
    frozen = stats.uniform(low, high - low)
    expression = f"fm.Uniform([{low!r}] * {{n}}, {high!r})"
    return _continuous(expression, frozen, low + width / 2, width / 3, [low, high])


def log_normal(rng: Any) -> Law:
    mu, sigma = float(rng.normal()), _number(rng, -2, 0.5)
    middle = float(np.exp(mu))
    expression = f"fm.LogNormal([{mu!r}] * {{n}}, {sigma!r})"
    frozen = stats.lognorm(sigma, scale=middle)
    return _continuous(expression, frozen, middle, middle * sigma, [0.0])


def gamma(rng: Any) -> Law:
    a, rate = _number(rng, -1.5, 2), _number(rng, -2, 2)
    expression = f"fm.Gamma([{a!r}] * {{n}}, {rate!r})"
    frozen = stats.gamma(a, scale=1 / rate)
    return _continuous(expression, frozen, a / rate, np.sqrt(a) / rate, [0.0])


def beta(rng: Any) -> Law:
    a, b = _number(rng, -1.5, 1.5), _number(rng, -1.5, 1.5)
    frozen = stats.beta(a, b)
    expression = f"fm.Beta([{a!r}] * {{n}}, {b!r})"
    return _continuous(expression, frozen, a / (a + b), float(frozen.std()), [0.0, 1.0])


def logistic(rng: Any) -> Law:
    m, s = float(rng.normal()), _number(rng, -3, 3)
    return _continuous(f"fm.Logistic([{m!r}] * {{n}}, {s!r})", stats.logistic(m, s), m, s, [])


def exponential(rng: Any) -> Law:
    rate = _number(rng, -2, 2)
    expression = f"fm.Exponential([{rate!r}] * {{n}})"
    return _continuous(expression, stats.expon(scale=1 / rate), 0.7 / rate, 1 / rate, [0.0])


def weibull(rng: Any) -> Law:
    k, s = _number(rng, -0.5, 1.5), _number(rng, -2, 2)
    expression = f"fm.Weibull([{k!r}] * {{n}}, {s!r})"
    return _continuous(expression, stats.weibull_min(k, scale=s), s, s / max(k, 1.0), [0.0])


def generalized_pareto(rng: Any) -> Law:
    xi, s, m = float(rng.uniform(-1.5, 0.15)), _number(rng, -2, 2), float(rng.normal())
    frozen = stats.genpareto(xi, m, s)
    expression = f"fm.GeneralizedPareto([{xi!r}] * {{n}}, {s!r}, {m!r})"
    ends = [m, m - s / xi] if xi < 0 else [m]
    return _continuous(expression, frozen, float(frozen.median()), s, ends)


def _counts(expression: str, frozen: Any) -> Law:
    mean, std = float(frozen.mean()), float(frozen.std())
    values = np.arange(0.0, np.ceil(2 * frozen.isf(1e-13)) + 40)
    masses = frozen.pmf(values)
    return Law(expression, mean, max(std, 0.1), list(zip(values, masses, strict=True)))


def poisson(rng: Any) -> Law:
    m = _number(rng, -2, 3)
    return _counts(f"fm.Poisson([{m!r}] * {{n}})", stats.poisson(m))


def negative_binomial(rng: Any) -> Law:
    m, alpha = _number(rng, -2, 2), _number(rng, -2, 0.5)
    frozen = stats.nbinom(1 / alpha, 1 / (1 + alpha * m))
    return _counts(f"fm.NegativeBinomial([{m!r}] * {{n}}, {alpha!r})", frozen)


def binomial(rng: Any) -> Law:
    n, p = int(_number(rng, 0, 3)), float(rng.random())
    frozen = stats.binom(n, p)
    values = np.arange(n + 1.0)
    atoms = list(zip(values, frozen.pmf(values), strict=True))
    expression = f"fm.Binomial({n!r}, [{p!r}] * {{n}})"
    return Law(expression, n * p, max(float(frozen.std()), 0.1), atoms)


def draws(rng: Any) -> Law:
    width = _number(rng, -2, 2)
    values = [float(v) for v in width * rng.normal(size=int(rng.integers(1, 9)))]
    atoms = [(v, 1 / len(values)) for v in values]
    return Law(f"fm.Draws([{values!r}] * {{n}})", values[0], width, atoms)


def weighted_draws(rng: Any) -> Law:
    base = draws(rng)
    weights = [float(w) for w in rng.dirichlet(np.ones(len(base.atoms)))]
    values = [v for v, _ in base.atoms]
    expression = f"fm.WeightedDraws([{values!r}] * {{n}}, {weights!r})"
    return Law(expression, base.centre, base.width, list(zip(values, weights, strict=True)))


def categorical(rng: Any) -> Law:
    values = [float(v) for v in np.unique(rng.integers(-9, 9, int(rng.integers(2, 8))))]
    masses = rng.dirichlet(np.ones(len(values)))
    atoms = list(zip(values, [float(p) for p in masses / masses.sum()], strict=True))
    probabilities = [p for _, p in atoms]
    expression = f"fm.Categorical([{probabilities!r}] * {{n}}, {values!r})"
    return Law(expression, values[0], 3.0, atoms)


def quantiles(rng: Any) -> Law:
    levels = [float(p) for p in np.unique(rng.random(int(rng.integers(2, 8))))]
    if len(levels) < 2:
        levels = [0.25, 0.75]
    width = _number(rng, -2, 2)
    values = [float(v) for v in np.sort(width * rng.normal(size=len(levels)))]
    p, v = np.array(levels), np.array(values)
    left = p[0] * (v[1] - v[0]) / (p[1] - p[0])
    right = (1 - p[-1]) * (v[-1] - v[-2]) / (p[-1] - p[-2])

    def cdf(t: Any) -> Any:
        inner = np.interp(t, v, p)
        low = p[0] * np.exp(np.minimum(t - v[0], 0) / left)
        high = 1 - (1 - p[-1]) * np.exp(np.minimum(v[-1] - t, 0) / right)
        return np.where(t < v[0], low, np.where(t > v[-1], high, inner))

    def sf(t: Any) -> Any:
        far = (1 - p[-1]) * np.exp(np.minimum(v[-1] - t, 0) / right)
        return np.where(t > v[-1], far, 1 - cdf(t))

    breaks = [(one, width) for one in values]
    expression = f"fm.Quantiles({levels!r}, [{values!r}] * {{n}})"
    return Law(expression, float(np.median(v)), width, [], cdf, sf, 1.0, breaks)


SMOOTH = [gaussian, laplace, student, uniform, log_normal, gamma, gamma, beta, beta]
LIFETIMES = [logistic, exponential, weibull, generalized_pareto]
COUNTS = [poisson, negative_binomial]


def mixture(rng: Any) -> Law:
    parts = [kind(rng) for kind in rng.choice([*SMOOTH, *SMOOTH, draws, quantiles], 2)]
    w = float(rng.random())
    shares = [w, 1 - w]
    pairs = list(zip(parts, shares, strict=True))
    return Law(
        f"fm.Mixture([{parts[0].expression}, {parts[1].expression}], [{w!r}, {1 - w!r}])",
        parts[0].centre,
        parts[0].width,
        [(v, share * m) for part, share in pairs for v, m in part.atoms],
        lambda t: sum(share * part.cdf(t) for part, share in pairs),
        lambda t: sum(share * part.sf(t) for part, share in pairs),
        sum(share * part.mass for part, share in pairs),
        [(part.centre, part.width) for part in parts] + parts[0].breaks + parts[1].breaks,
    )


def zero_inflated(rng: Any) -> Law:
    base = rng.choice([*SMOOTH, *COUNTS])(rng)
    p = float(rng.random())
    return Law(
        f"fm.ZeroInflated({base.expression}, {p!r})",
        base.centre,
        base.width,
        [(0.0, p), *((v, (1 - p) * m) for v, m in base.atoms)],
        lambda t: (1 - p) * base.cdf(t),
        lambda t: (1 - p) * base.sf(t),
        (1 - p) * base.mass,
        base.breaks,
    )


def truncated(rng: Any) -> Law:
    """Return an interval with one end about a median away, and the tail or a few widths beyond."""
    for _ in range(50):
        base = rng.choice(SMOOTH)(rng)
        low = base.centre + base.width * float(rng.normal())
        high = np.inf if rng.random() < 0.3 else low + base.width * _number(rng, -2, 1)
        if rng.random() < 0.3 and base.breaks:
            low = base.breaks[0][0]  # where the density may have its pole
        if low < high and base.cdf(np.array(high)) - base.cdf(np.array(low)) > 1e-6:
            break
    f0, s0 = float(base.cdf(np.array(low))), float(base.sf(np.array(low)))
    f1, s1 = (1.0, 0.0)
    if high < np.inf:
        f1, s1 = float(base.cdf(np.array(high))), float(base.sf(np.array(high)))
    upper = f0 > 0.5
    mass = s0 - s1 if upper else f1 - f0

    def cdf(t: Any) -> Any:
        clipped = np.clip(t, low, high)
        inner = (s0 - base.sf(clipped)) if upper else base.cdf(clipped) - f0
        return inner / mass

    def sf(t: Any) -> Any:
        clipped = np.clip(t, low, high)
        inner = (base.sf(clipped) - s1) if upper or s1 < 0.5 else f1 - base.cdf(clipped)
        return inner / mass

    text = [repr(low), "np.inf" if high == np.inf else repr(high)]
    ends = [low] if high == np.inf else [low, high]
    width = min(base.width, high - low)
    return Law(
        f"fm.Truncated({base.expression}, {text[0]}, {text[1]})",
        base.centre if low <= base.centre <= high else low,
        width,
        [],
        cdf,
        sf,
        1.0,
        [*base.breaks, *((end, width) for end in ends)],
    )


def rescaled(rng: Any) -> Law:
    base = rng.choice([laplace, uniform, gamma, beta, log_normal])(rng)
    scale = _number(rng, -2, 2)
    one = eval_one(base.expression)
    mean = float(one.mean[0])

    def back(t: Any) -> Any:
        return mean + (t - mean) / scale

    def forth(place: float) -> float:
        return mean + scale * (place - mean)

    return Law(
        f"fm.recalibration.Rescaled({base.expression}, {scale!r})",
        forth(base.centre),
        base.width * scale,
        [],
        lambda t: base.cdf(back(t)),
        lambda t: base.sf(back(t)),
        1.0,
        [(forth(place), width * scale) for place, width in base.breaks],
    )


def recalibrated(rng: Any) -> Law:
    base = rng.choice([gaussian, gaussian, gamma, laplace])(rng)
    count = int(rng.integers(0, 6))
    p, r = (np.array([0.0, *np.sort(rng.uniform(0.02, 0.98, count)), 1.0]) for _ in "pr")
    one = eval_one(base.expression)
    knots = [(float(one.quantile(float(level))[0]), base.width) for level in p[1:-1]]
    mapping = f"fm.recalibration.MonotoneMap(np.array({p.tolist()!r}), np.array({r.tolist()!r}))"
    slope = (1 - r[-2]) / (1 - p[-2])

    def sf(t: Any) -> Any:
        upper = base.sf(t)
        return np.where(upper < 1 - p[-2], slope * upper, 1 - np.interp(base.cdf(t), p, r))

    return Law(
        f"fm.recalibration.RecalibratedCDF({base.expression}, {mapping})",
        base.centre,
        base.width,
        [],
        lambda t: np.interp(base.cdf(t), p, r),
        sf,
        1.0,
        [*base.breaks, *knots],
    )


def eval_one(expression: str) -> Any:
    """Return one row of the distribution that an expression makes."""
    import fastmcmd as fm

    return eval(expression.format(n=1), {"fm": fm, "np": np})


LAWS = [
    *SMOOTH, *LIFETIMES, *COUNTS, binomial, mixture, mixture, zero_inflated, truncated, truncated,
    rescaled, recalibrated, categorical, draws, weighted_draws, quantiles,
]  # fmt: skip
