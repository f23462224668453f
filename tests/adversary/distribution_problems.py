"""Draws the distributions that the adversary attacks: every family, at parameters over the whole range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import count_oracles as count_families
import distribution_oracles as plain
import lifetime_oracles as lifetimes
import numpy as np
import wrapped_oracles as wrapped
from mpmath import mpf


@dataclass
class Problem:
    """One predicted distribution.

    Attributes
    ----------
    name : str
        The family.
    expression : str
        Python that makes it, ``{n}`` being the number of equal rows.
    numbers : list of float
        Its parameters.
    oracle : callable (numbers in mpmath) to Oracle
    places : list of float
        Outcomes at which errors are likely: centre, ends, atoms.
    width : float
        About the standard deviation.
    counts : bool
        Whether outcomes of interest are whole numbers.
    """

    name: str
    expression: str
    numbers: list[float]
    oracle: Callable[[list[Any]], Any]
    places: list[float]
    width: float
    counts: bool = False
    fixed: tuple[int, ...] = field(default=())  # numbers that the conditioning does not move


def power(rng: Any, low: float, high: float) -> float:
    """Return a number that is log-uniform between powers of ten."""
    return float(10.0 ** rng.uniform(low, high))


def signed(rng: Any, low: float, high: float) -> float:
    """Return such a number of either sign, or 0."""
    return float(rng.choice([-1.0, 0.0, 1.0], p=[0.4, 0.2, 0.4])) * power(rng, low, high)


def _scale(rng: Any) -> float:
    return power(rng, -300, 300) if rng.random() < 0.4 else power(rng, -3, 3)


def _loc(rng: Any, scale: float) -> float:
    kind = rng.random()
    if kind < 0.3:
        return signed(rng, -300, 300)
    return float(np.clip(scale * signed(rng, -3, 8), -1e307, 1e307))


def gaussian(rng: Any) -> Problem:
    s = _scale(rng)
    m = _loc(rng, s)
    return Problem("Gaussian", f"fm.Gaussian([{m!r}] * {{n}}, {s!r})", [m, s],
                   lambda v: plain.Gaussian(*v), [m], s)  # fmt: skip


def laplace(rng: Any) -> Problem:
    s = _scale(rng)
    m = _loc(rng, s)
    return Problem("Laplace", f"fm.Laplace([{m!r}] * {{n}}, {s!r})", [m, s],
                   lambda v: plain.Laplace(*v), [m], s)  # fmt: skip


def student(rng: Any) -> Problem:
    s = _scale(rng)
    m = _loc(rng, s)
    df = (
        float(rng.choice([1.0, 2.0, 0.5, 1 + 1e-9, 1.001, 3.0]))
        if rng.random() < 0.3
        else power(rng, -3, 10)
    )
    return Problem("StudentT", f"fm.StudentT({df!r}, [{m!r}] * {{n}}, {s!r})", [df, m, s],
                   lambda v: plain.StudentT(*v), [m], s, fixed=(0,))  # fmt: skip


def uniform(rng: Any) -> Problem:
    width = min(_scale(rng), 1e300)
    low = _loc(rng, width)
    high = low + width
    if not low < high:
        high = float(np.nextafter(low, np.inf))
    return Problem("Uniform", f"fm.Uniform([{low!r}] * {{n}}, {high!r})", [low, high],
                   lambda v: plain.Uniform(*v), [low, high], high - low)  # fmt: skip


def log_normal(rng: Any) -> Problem:
    sigma = power(rng, -8, 2) if rng.random() < 0.8 else power(rng, -300, 3)
    mu = signed(rng, -3, 2.8)
    middle = float(np.exp(mu))
    return Problem("LogNormal", f"fm.LogNormal([{mu!r}] * {{n}}, {sigma!r})", [mu, sigma],
                   lambda v: plain.LogNormal(*v), [middle, 0.0], middle * min(sigma, 10.0))  # fmt: skip


def gamma(rng: Any) -> Problem:
    a, rate = power(rng, -8, 12) if rng.random() < 0.5 else power(rng, -1, 3), _scale(rng)
    mean = a / rate
    return Problem("Gamma", f"fm.Gamma([{a!r}] * {{n}}, {rate!r})", [a, rate],
                   lambda v: plain.Gamma(*v), [mean, 0.0], float(np.sqrt(a) / rate))  # fmt: skip


def beta(rng: Any) -> Problem:
    wide = rng.random() < 0.5
    a, b = (power(rng, -8, 12) if wide else power(rng, -1, 3) for _ in range(2))
    mean = a / (a + b)
    width = float(np.sqrt(mean * (b / (a + b)) / (a + b + 1)))
    return Problem("Beta", f"fm.Beta([{a!r}] * {{n}}, {b!r})", [a, b],
                   lambda v: plain.Beta(*v), [mean, 0.0, 1.0], width)  # fmt: skip


def poisson(rng: Any) -> Problem:
    m = power(rng, -300, 15) if rng.random() < 0.4 else power(rng, -5, 4)
    m = 0.0 if rng.random() < 0.03 else m
    return Problem("Poisson", f"fm.Poisson([{m!r}] * {{n}})", [m],
                   lambda v: count_families.Counts(*v), [m, 0.0, 1.0], float(np.sqrt(m)), True)  # fmt: skip


def negative_binomial(rng: Any) -> Problem:
    wide = rng.random() < 0.4
    m = power(rng, -300, 12) if wide else power(rng, -5, 3)
    alpha = power(rng, -15, 8) if wide else power(rng, -3, 1.5)
    return Problem(
        "NegativeBinomial", f"fm.NegativeBinomial([{m!r}] * {{n}}, {alpha!r})", [m, alpha],
        lambda v: count_families.Counts(*v), [m, 0.0, 1.0], float(np.sqrt(m * (1 + alpha * m))), True,
    )  # fmt: skip


def double_poisson(rng: Any) -> Problem:
    wide = rng.random() < 0.4
    m = power(rng, -300, 3) if wide else power(rng, -3, 2.5)
    phi = power(rng, -2.5, 6) if wide else power(rng, -1.5, 1.5)
    return Problem(
        "DoublePoisson", f"fm.DoublePoisson([{m!r}] * {{n}}, {phi!r})", [m, phi],
        lambda v: count_families.DoublePoisson(*v), [m, 0.0, 1.0], float(np.sqrt(m / phi)), True,
    )  # fmt: skip


def logistic(rng: Any) -> Problem:
    s = _scale(rng)
    m = _loc(rng, s)
    return Problem("Logistic", f"fm.Logistic([{m!r}] * {{n}}, {s!r})", [m, s],
                   lambda v: lifetimes.Logistic(*v), [m], s)  # fmt: skip


def exponential(rng: Any) -> Problem:
    rate = _scale(rng)
    return Problem("Exponential", f"fm.Exponential([{rate!r}] * {{n}})", [rate],
                   lambda v: lifetimes.Exponential(*v), [1 / rate, 0.0], 1 / rate)  # fmt: skip


def weibull(rng: Any) -> Problem:
    k = power(rng, -2.2, 8) if rng.random() < 0.4 else power(rng, -1, 2)
    scale = _scale(rng)
    return Problem("Weibull", f"fm.Weibull([{k!r}] * {{n}}, {scale!r})", [k, scale],
                   lambda v: lifetimes.Weibull(*v), [scale, 0.0], scale / max(k, 1.0))  # fmt: skip


def generalized_pareto(rng: Any) -> Problem:
    few = [0.0, 1.0, 0.5, 2.0, -1.0, 1 + 1e-9, -0.5]
    xi = float(rng.choice(few)) if rng.random() < 0.3 else signed(rng, -12, 1.5)
    s = _scale(rng)
    m = 0.0 if rng.random() < 0.5 else _loc(rng, s)
    return Problem("GeneralizedPareto", f"fm.GeneralizedPareto([{xi!r}] * {{n}}, {s!r}, {m!r})",
                   [xi, s, m], lambda v: lifetimes.GeneralizedPareto(*v), [m], s)  # fmt: skip


def binomial(rng: Any) -> Problem:
    n = int(power(rng, 0, 3.2)) if rng.random() < 0.9 else int(rng.integers(0, 3))
    p = (
        float(rng.random())
        if rng.random() < 0.5
        else power(rng, -300 if rng.random() < 0.2 else -8, 0)
    )
    p = float(rng.choice([p, 1 - p, 0.0, 1.0], p=[0.7, 0.2, 0.05, 0.05]))
    return Problem(
        "Binomial", f"fm.Binomial({n!r}, [{p!r}] * {{n}})", [float(n), p],
        lambda v: lifetimes.Binomial(*v), [float(n * p), 0.0, float(n)],
        float(np.sqrt(n * p * (1 - p))), True, (0,),
    )  # fmt: skip


def _probability(rng: Any) -> float:
    ends = [0.0, 1.0, 1 - 2.0**-53, 1e-16, 1e-300, 0.5]
    return float(rng.choice(ends)) if rng.random() < 0.4 else float(rng.random())


SIMPLE = [gaussian, laplace, student, uniform, log_normal, gamma, beta]
LIFETIMES = [logistic, exponential, weibull, generalized_pareto]
COUNTS = [poisson, negative_binomial, double_poisson]


def mixture(rng: Any) -> Problem:
    kinds = [gaussian, gaussian] if rng.random() < 0.6 else list(rng.choice([*SIMPLE], 2))
    if rng.random() < 0.2:
        kinds = list(rng.choice(COUNTS, 2))
    one, two = (kind(rng) for kind in kinds)
    w = _probability(rng)
    split = len(one.numbers)
    first, second = (one.expression, two.expression)
    return Problem(
        "Mixture",
        f"fm.Mixture([{first}, {second}], [{w!r}, {1 - w!r}])",
        [*one.numbers, *two.numbers],
        lambda v: wrapped.Mixture(
            [one.oracle(v[:split]), two.oracle(v[split:])], [mpf(w), mpf(1 - w)]
        ),
        [*one.places, *two.places],
        max(one.width, two.width) if rng.random() < 0.5 else min(one.width, two.width),
        one.counts and two.counts,
        (*one.fixed, *(split + i for i in two.fixed)),
    )


def zero_inflated(rng: Any) -> Problem:
    base = rng.choice([*COUNTS, *SIMPLE])(rng)
    p = _probability(rng)
    return Problem(
        "ZeroInflated", f"fm.ZeroInflated({base.expression}, {p!r})", base.numbers,
        lambda v: wrapped.ZeroInflated(base.oracle(v), mpf(p)), [*base.places, 0.0], base.width,
        base.counts, base.fixed,
    )  # fmt: skip


def truncated(rng: Any) -> Problem:
    base = rng.choice([gaussian, gaussian, *SIMPLE, poisson, negative_binomial])(rng)
    centre = base.places[0]
    if base.counts:
        low = float(np.floor(max(0.0, centre + base.width * rng.normal() * 2)))
        high = low + float(np.floor(power(rng, 0, 3)))
    else:
        low = centre + base.width * rng.normal() * float(rng.choice([1.0, 4.0]))
        high = low + base.width * power(rng, -12, 2)
        if base.name in ("Gamma", "LogNormal", "Beta"):
            low, high = max(low, 0.0), max(high, base.width * 0.1)
    if rng.random() < 0.2:
        high = np.inf
    if not base.counts and rng.random() < 0.2:  # ends near which outcomes have digits
        low, high = (0.0, high) if rng.random() < 0.5 else (low, 0.0)
    low, high = min(low, high), max(low, high)
    text = [repr(v).replace("inf", "np.inf") for v in (float(low), float(high))]
    ends = [low] if np.isinf(high) else [low, high, low + (high - low) * float(rng.random())]
    count = len(base.numbers)
    return Problem(
        "Truncated", f"fm.Truncated({base.expression}, {text[0]}, {text[1]})",
        [*base.numbers, low, high],
        lambda v: wrapped.Truncated(base.oracle(v[:count]), *v[count:]), [*ends, *base.places],
        base.width if np.isinf(high) else high - low, base.counts,
        (*base.fixed, *([count, count + 1] if base.counts else [])),
    )  # fmt: skip


def rescaled(rng: Any) -> Problem:
    base = laplace(rng)
    for _ in range(20):  # but no component whose width is lost in the rounding of its mean
        base = rng.choice([laplace, student, uniform, gamma, beta, log_normal])(rng)
        if base.width > 1e-9 * abs(base.places[0]):
            break
    else:
        base = Problem("Laplace", "fm.Laplace([1.0] * {n}, 1.0)", [1.0, 1.0],
                       lambda v: plain.Laplace(*v), [1.0], 1.0)  # fmt: skip
    scale = power(rng, -200, 200) if rng.random() < 0.3 else power(rng, -3, 3)
    count = len(base.numbers)
    return Problem(
        "Rescaled", f"fm.recalibration.Rescaled({base.expression}, {scale!r})", [*base.numbers, scale, 1.0],
        lambda v: wrapped.Rescaled(base.oracle(v[:count]), *v[count:]), [base.places[0]],
        float(np.clip(base.width * scale, 1e-300, 1e300)), fixed=base.fixed,
    )  # fmt: skip


def recalibrated(rng: Any) -> Problem:
    base = gaussian(rng)
    count = int(rng.integers(0, 8))
    p, r = (
        [0.0, *np.unique(rng.beta(0.5, 0.5, count).clip(1e-9, 1 - 1e-9)).tolist(), 1.0]
        for _ in "pr"
    )
    count = min(len(p), len(r))
    p, r = ([*values[: count - 1], 1.0] for values in (p, r))
    knots = [[mpf(v) for v in values] for values in (p, r)]
    mapping = f"fm.recalibration.MonotoneMap(np.array({p!r}), np.array({r!r}))"
    return Problem(
        "Recalibrated", f"fm.recalibration.RecalibratedCDF({base.expression}, {mapping})", base.numbers,
        lambda v: wrapped.Recalibrated(base.oracle(v), *knots), base.places, base.width,
    )  # fmt: skip


def categorical(rng: Any) -> Problem:
    count = int(rng.integers(2, 8))
    values = np.unique(
        [_loc(rng, 1.0) if rng.random() < 0.3 else float(rng.integers(-9, 9)) for _ in range(count)]
    )
    masses = rng.dirichlet(np.full(len(values), 10.0 ** rng.uniform(-2, 1)))
    probs = [float(p) for p in masses / masses.sum()]
    numbers = [float(v) for v in values]
    return Problem(
        "Categorical", f"fm.Categorical([{probs!r}] * {{n}}, {numbers!r})", numbers,
        lambda v: wrapped.Atoms(v, [mpf(p) for p in probs]), numbers, max(float(np.ptp(values)), 1e-300),
        fixed=tuple(range(len(numbers))),
    )  # fmt: skip


def draws(rng: Any) -> Problem:
    count = int(rng.integers(1, 9))
    scale = _scale(rng)
    centre = _loc(rng, scale)
    numbers = [float(np.clip(centre + scale * rng.normal(), -1e307, 1e307)) for _ in range(count)]
    return Problem(
        "Draws", f"fm.Draws([{numbers!r}] * {{n}})", numbers,
        lambda v: wrapped.Atoms(v, [mpf(1)] * len(v)), numbers, scale,
        fixed=tuple(range(count)),
    )  # fmt: skip


def weighted_draws(rng: Any) -> Problem:
    base = draws(rng)
    weights = [_probability(rng) for _ in base.numbers]
    weights[0] = weights[0] or 0.5
    expression = f"fm.WeightedDraws([{base.numbers!r}] * {{n}}, {weights!r})"
    return Problem(
        "WeightedDraws", expression, base.numbers,
        lambda v: wrapped.Atoms(v, [mpf(w) for w in weights]), base.places, base.width,
        fixed=base.fixed,
    )  # fmt: skip


def quantiles(rng: Any) -> Problem:
    count = int(rng.integers(2, 8))
    levels = np.unique(rng.random(count) if rng.random() < 0.7 else [1e-12, 0.5, 1 - 1e-12])
    levels = levels[levels > 0]
    if len(levels) < 2:
        levels = np.array([0.25, 0.75])
    scale = _scale(rng)
    centre = _loc(rng, scale)
    numbers = [
        float(v)
        for v in np.sort(np.clip(centre + scale * rng.normal(size=len(levels)), -1e307, 1e307))
    ]
    numbers = [numbers[0]] * 2 + numbers[2:] if rng.random() < 0.1 else numbers
    probabilities = [float(p) for p in levels]
    return Problem(
        "Quantiles", f"fm.Quantiles({probabilities!r}, [{numbers!r}] * {{n}})", numbers,
        lambda v: wrapped.Quantiles([mpf(p) for p in probabilities], v), numbers, scale,
        fixed=tuple(range(len(numbers))),
    )  # fmt: skip


FAMILIES = [
    *SIMPLE, *LIFETIMES, *COUNTS, binomial, mixture, zero_inflated, truncated, truncated,
    rescaled, recalibrated, categorical, draws, weighted_draws,
    quantiles,
]  # fmt: skip


def outcomes(problem: Problem, rng: Any, count: int) -> list[float]:
    """Return outcomes: near the centre, in the far tails, at atoms and ends, anywhere, infinite."""
    points = []
    for _ in range(count):
        place = float(rng.choice(problem.places))
        kind = rng.random()
        with np.errstate(all="ignore"):
            if kind < 0.2:
                y = place
            elif kind < 0.6:
                y = place + problem.width * rng.normal() * float(rng.choice([0.3, 1.0, 3.0, 8.0]))
            elif kind < 0.8:
                y = place + problem.width * signed(rng, -8, 5)
            elif kind < 0.93:
                y = signed(rng, -300, 300)
            elif kind < 0.97:
                y = float(np.nextafter(place, rng.choice([-np.inf, np.inf])))
            else:
                y = float(rng.choice([-np.inf, np.inf, 0.0]))
            if problem.counts and rng.random() < 0.85:
                y = float(np.floor(abs(y)))
        points.append(float(np.clip(y, -1e308, 1e308)) if np.isfinite(y) else y)
    return [0.0 if np.isnan(y) else y for y in points]
