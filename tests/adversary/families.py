"""Random predictions of every family, as fastmcmd's object and as a measure of the reference.

Rows of families without closed forms share a few sets of parameters (a palette), and rare rows have one of
their own; otherwise an independent reference would take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from measures import LD, Measure, Part, has_closed_form, is_separable

import fastmcmd as fm

CONTINUOUS = (
    "Gaussian", "Mixture", "Laplace", "StudentT", "LogNormal", "Gamma", "Beta", "Uniform", "Truncated",
    "Quantiles", "ZeroInflatedGamma", "MixedMixture", "scipy",
)  # fmt: skip
COUNTS = (
    "Poisson", "NegativeBinomial", "DoublePoisson", "Categorical", "ZeroInflatedPoisson",
    "TruncatedPoisson",
)  # fmt: skip
VECTORS = ("Gaussian", "Mixture", "Draws")


@dataclass
class MadeDraws:
    """A prediction, its measure, outcomes y, and the way it was made."""

    prediction: Any
    measure: Measure
    y: np.ndarray
    label: str


@dataclass
class Palette:
    """Which row has which parameters, and where these are."""

    group: np.ndarray
    loc: np.ndarray
    scale: np.ndarray

    def parts(self, make):
        parts = [(make(g),) for g in range(len(self.loc))]
        return [
            (
                np.flatnonzero(self.group == g),
                np.ones(int((self.group == g).sum()), dtype=LD),
                parts[g],
            )
            for g in range(len(parts))
        ]


def gaussian_part(mean, std):
    mean, std = LD(mean), LD(std)
    return Part(
        lambda u: -u * u / 2,
        lambda u: mean + std * u,
        lambda y: (y - mean) / std,
        -10,
        10,
        widest=3,
    )


def laplace_part(loc, scale):
    loc, scale = LD(loc), LD(scale)
    return Part(
        lambda u: -np.abs(u), lambda u: loc + scale * u, lambda y: (y - loc) / scale, -50, 50,
        hard=[loc], widest=10,
    )  # fmt: skip


def student_part(df, loc, scale):
    df, loc, scale = LD(df), LD(loc), LD(scale)
    unit = scale * np.sqrt(df)
    far = min(LD(52) / df + 1, LD(2000))
    return Part(
        lambda u: -df * (np.abs(u) + np.log1p(np.exp(-2 * np.abs(u)))),
        lambda u: loc + unit * np.sinh(u),
        lambda y: np.arcsinh((y - loc) / unit),
        -far, far, widest=1.5,
    )  # fmt: skip


def lognormal_part(mu, sigma):
    mu, sigma = LD(mu), LD(sigma)
    return Part(
        lambda u: -u * u / 2,
        lambda u: np.exp(mu + sigma * u),
        lambda y: (np.log(np.maximum(y, LD(1e-4900))) - mu) / sigma,
        -10, 10, widest=min(3, 1 / float(sigma)),
    )  # fmt: skip


def gamma_part(shape, scale):
    shape, scale = LD(shape), LD(scale)
    top = np.log(shape)
    narrow = 12 / np.sqrt(shape)
    return Part(
        lambda u: shape * u - np.exp(u),
        lambda u: scale * np.exp(u),
        lambda y: np.log(np.maximum(y, LD(1e-4900)) / scale),
        top - narrow - 52 / shape, top + narrow + LD(4.5), widest=1,
    )  # fmt: skip


def beta_part(a, b):
    a, b = LD(a), LD(b)

    def log_density(u):
        return -a * np.log1p(np.exp(-u)) - b * np.log1p(np.exp(u))

    def to_u(y):
        y = np.clip(y, LD(1e-4900), 1 - LD(2) ** -64)
        return np.log(y) - np.log1p(-y)

    low, high = np.log(a / b) - 60 / min(a, 1) - 20, np.log(a / b) + 60 / min(b, 1) + 20
    return Part(log_density, lambda u: 1 / (1 + np.exp(-u)), to_u, low, high, widest=1)


def uniform_part(low, high):
    low, high = LD(low), LD(high)
    return Part(
        lambda u: 0 * u, lambda u: low + (high - low) * u, lambda y: (y - low) / (high - low), 0, 1,
        hard=[low, high],
    )  # fmt: skip


def truncated_part(mean, std, low, high):
    mean, std = LD(mean), LD(std)
    u = [max((LD(low) - mean) / std, LD(-10)), min((LD(high) - mean) / std, LD(10))]
    return Part(
        lambda v: -v * v / 2, lambda v: mean + std * v, lambda y: (y - mean) / std, u[0], u[1],
        hard=[mean + std * v for v in u], widest=3,
    )  # fmt: skip


def quantile_parts(levels, values, tails):
    """Return atoms [(value, mass)] and (part, mass) or None of interpolated quantiles."""
    p, v = np.asarray(levels, dtype=LD), np.asarray(values, dtype=LD)
    atoms, edges, heights = [], [], []
    for i in range(len(p) - 1):
        mass, length = p[i + 1] - p[i], v[i + 1] - v[i]
        if length == 0:
            atoms.append((values[i], mass))
        else:
            edges.append((v[i], v[i + 1]))
            heights.append(np.log(mass / length))
    left = right = LD(0)
    if tails == "exponential":
        left = p[0] / (p[1] - p[0]) * (v[1] - v[0])
        right = (1 - p[-1]) / (p[-1] - p[-2]) * (v[-1] - v[-2])
    if left == 0:
        atoms.append((values[0], p[0]))
    if right == 0:
        atoms.append((values[-1], 1 - p[-1]))
    if not edges:
        return atoms, None, LD(0)
    unit = v[-1] - v[0]
    low, high = v[0] - 50 * left, v[-1] + 50 * right

    def log_density(u):
        y = v[0] + unit * u
        out = np.full(u.shape, LD(-2000))
        for (a, b), height in zip(edges, heights, strict=True):
            out = np.where((y >= a) & (y <= b), height, out)
        if left > 0:
            out = np.where(y < v[0], np.log(p[0] / left) + (y - v[0]) / left, out)
        if right > 0:
            out = np.where(y > v[-1], np.log((1 - p[-1]) / right) - (y - v[-1]) / right, out)
        return out

    part = Part(
        log_density, lambda u: v[0] + unit * u, lambda y: (y - v[0]) / unit,
        (low - v[0]) / unit, (high - v[0]) / unit, hard=list(np.unique(v)),
    )  # fmt: skip
    return atoms, part, 1 - sum((mass for _, mass in atoms), LD(0))


def _log_factorials(count):
    return np.concatenate([[LD(0)], np.cumsum(np.log(np.arange(1, count + 1).astype(LD)))])


def poisson_masses(mean, count):
    k = np.arange(count + 1).astype(LD)
    if mean == 0:
        return (k == 0).astype(LD)
    return np.exp(k * np.log(LD(mean)) - LD(mean) - _log_factorials(count))


def negative_binomial_masses(mean, dispersion, count):
    k = np.arange(count + 1).astype(LD)
    if mean == 0:
        return (k == 0).astype(LD)
    r, product = 1 / LD(dispersion), LD(dispersion) * LD(mean)
    rising = np.concatenate([[LD(0)], np.cumsum(np.log(r + k[:-1]))])
    return np.exp(
        rising
        - _log_factorials(count)
        - r * np.log1p(product)
        + k * np.log(product / (1 + product))
    )


def double_poisson_masses(mu, phi, count):
    k = np.arange(count + 1).astype(LD)
    if mu == 0:
        return (k == 0).astype(LD)
    logk = np.log(np.maximum(k, 1))
    logs = -k + k * logk - _log_factorials(count) + LD(phi) * (k + k * np.log(LD(mu)) - k * logk)
    masses = np.exp(logs - logs.max())
    return masses / masses.sum()


def atoms_of(values, masses):
    """Return atoms of n rows from values (m,) and masses (n, m)."""
    rows, where = np.nonzero(masses > LD(1e-24))
    return rows, np.asarray(values, dtype=np.float64)[where][:, None], masses[rows, where]


def make(rng, family, n, columns, y_spec, rare, scale, draws_l):
    """Return a `Made` for n rows.

    ``scale`` is the size of the outputs; ``rare`` are rows unlike the rest, in a way drawn at random.
    """
    closed = has_closed_form(y_spec, columns)
    k = columns
    count = int(rng.integers(1, 3))
    group = rng.integers(count, size=n)
    for i, row in enumerate(rare):
        if i < 2:
            group[row] = count + i
    total = int(group.max()) + 1
    loc = rng.normal(size=total) * scale
    spread = scale * 10 ** rng.uniform(-1.5, 0.3, size=total)
    for g in range(count, total):
        loc[g] += scale * rng.choice([-1, 1]) * 10 ** rng.uniform(-0.5, 2.5)
        spread[g] *= 10 ** rng.uniform(-2.5, 2.5)
    palette = Palette(group, loc, spread)
    builder = globals()[f"_{family.lower()}"]
    outputs = builder(rng, palette, n, k, closed, rare, scale, draws_l)
    y = outputs.y
    for row in rare:
        if rng.random() < 0.5 and family not in COUNTS and family != "Beta":
            y[row] = y[row] + scale * rng.choice([-1, 1]) * 10 ** rng.uniform(0, 3)
    return outputs


def _near(rng, loc, spread):
    return loc + spread * rng.normal(size=loc.shape) * 10 ** rng.uniform(-0.3, 0.3)


def _locations(rng, palette, n, k, rare, scale):
    """Return means and stds (n, k) of rows that all differ."""
    mean = scale * (
        rng.normal(size=(n, k)) if rng.random() < 0.7 else np.sin(np.arange(n * k)).reshape(n, k)
    )
    std = np.full((n, k), scale * 10 ** rng.uniform(-2, 0.3))
    if rng.random() < 0.5:
        std = std * 10 ** rng.uniform(-0.5, 0.5, size=(n, k))
    y = mean + std * rng.normal(size=(n, k)) * 10 ** rng.uniform(-0.3, 0.3)
    for row in rare:
        kind = rng.integers(3)
        if kind != 1:
            mean[row] += scale * rng.choice([-1, 1]) * 10 ** rng.uniform(-0.5, 3)
        if kind != 0:
            std[row] *= 10 ** rng.uniform(-3, 3)
    return mean, std, y


def _squeeze(a):
    return a[:, 0] if a.shape[1] == 1 else a


def _gaussian(rng, palette, n, k, closed, rare, scale, draws_l):
    if closed or draws_l:
        mean, std, y = _locations(rng, palette, n, k, rare, scale)
        one = np.ones(n, dtype=LD)
        measure = Measure(n, gaussians=[(np.arange(n), mean, std, one)])
        return MadeDraws(fm.Gaussian(_squeeze(mean), _squeeze(std)), measure, y, "Gaussian")
    mean = palette.loc[palette.group][:, None] * np.ones(k)
    std = palette.scale[palette.group][:, None] * np.ones(k)
    parts = [gaussian_part(m, s) for m, s in zip(palette.loc, palette.scale, strict=True)]
    measure = Measure(n, parts=palette.parts(lambda g: parts[g]))
    measure.parts = [(r, w, part * k) for r, w, part in measure.parts]
    return MadeDraws(
        fm.Gaussian(_squeeze(mean), _squeeze(std)),
        measure,
        _near(rng, mean, std),
        "Gaussian (palette)",
    )


def _mixture(rng, palette, n, k, closed, rare, scale, draws_l):
    parts = [
        _gaussian(rng, palette, n, k, closed, rare, scale, draws_l)
        for _ in range(2 if closed else 1)
    ]
    if len(parts) == 1:
        shifted = Palette(palette.group, palette.loc + scale, palette.scale * 0.5)
        parts.append(_gaussian(rng, shifted, n, k, closed, rare, scale, draws_l))
    share = rng.uniform(0.1, 0.9)
    weights = np.array([share, 1 - share])
    measure = parts[0].measure.scaled(np.full(n, weights[0] / weights.sum()))
    measure = measure.plus(parts[1].measure.scaled(np.full(n, weights[1] / weights.sum())))
    return MadeDraws(
        fm.Mixture([m.prediction for m in parts], weights), measure, parts[0].y, "Mixture"
    )


def _palette_family(rng, palette, n, prediction, make, y, label):
    return MadeDraws(prediction, Measure(n, parts=palette.parts(make)), y.reshape(n, 1), label)


def _laplace(rng, palette, n, k, closed, rare, scale, draws_l):
    loc, spread = palette.loc[palette.group], palette.scale[palette.group]
    return _palette_family(
        rng, palette, n, fm.Laplace(loc, spread),
        lambda g: laplace_part(palette.loc[g], palette.scale[g]), _near(rng, loc, spread), "Laplace",
    )  # fmt: skip


def _studentt(rng, palette, n, k, closed, rare, scale, draws_l):
    df = np.round(10 ** rng.uniform(0.0, 1.5, size=len(palette.loc)), 2)
    g = palette.group
    return _palette_family(
        rng, palette, n, fm.StudentT(df[g], palette.loc[g], palette.scale[g]),
        lambda i: student_part(df[i], palette.loc[i], palette.scale[i]),
        _near(rng, palette.loc[g], palette.scale[g]), f"StudentT(df={df.tolist()})",
    )  # fmt: skip


def _lognormal(rng, palette, n, k, closed, rare, scale, draws_l):
    mu = np.log(scale) + rng.normal(size=len(palette.loc)) * 0.7
    sigma = 10 ** rng.uniform(-1.5, 0.2, size=len(palette.loc))
    mu[-1] += rng.uniform(-3, 3)
    g = palette.group
    y = np.exp(mu[g] + sigma[g] * rng.normal(size=n))
    return _palette_family(
        rng, palette, n, fm.LogNormal(mu[g], sigma[g]), lambda i: lognormal_part(mu[i], sigma[i]), y,
        f"LogNormal(sigma={sigma.tolist()})",
    )  # fmt: skip


def _gamma_parameters(rng, palette, scale):
    shape = 10 ** rng.uniform(-0.7, 2, size=len(palette.loc))
    unit = scale / shape * 10 ** rng.uniform(-0.5, 0.5, size=len(shape))
    unit[-1] *= 10 ** rng.uniform(-2, 2)
    return shape, unit


def _gamma(rng, palette, n, k, closed, rare, scale, draws_l):
    shape, unit = _gamma_parameters(rng, palette, scale)
    g = palette.group
    return _palette_family(
        rng, palette, n, fm.Gamma(shape[g], scale=unit[g]), lambda i: _gamma_as_given(shape[i], unit[i]),
        rng.gamma(shape[g], unit[g]), f"Gamma(shape={shape.tolist()})",
    )  # fmt: skip


def _gamma_as_given(shape, scale):
    return gamma_part(shape, scale)


def _beta(rng, palette, n, k, closed, rare, scale, draws_l):
    a, b = 10 ** rng.uniform(-0.5, 2, size=(2, len(palette.loc)))
    g = palette.group
    return _palette_family(
        rng, palette, n, fm.Beta(a[g], b[g]), lambda i: beta_part(a[i], b[i]),
        rng.beta(a[g], b[g]), f"Beta({a.tolist()}, {b.tolist()})",
    )  # fmt: skip


def _uniform(rng, palette, n, k, closed, rare, scale, draws_l):
    low, high = palette.loc, palette.loc + palette.scale * 2
    g = palette.group
    return _palette_family(
        rng, palette, n, fm.Uniform(low[g], high[g]), lambda i: uniform_part(low[i], high[i]),
        rng.uniform(low[g], high[g]), "Uniform",
    )  # fmt: skip


def _truncated(rng, palette, n, k, closed, rare, scale, draws_l):
    loc, std = palette.loc, palette.scale
    low = loc + std * rng.uniform(-3, 1.5, size=len(loc))
    high = low + std * 10 ** rng.uniform(-1, 1, size=len(loc))
    if rng.random() < 0.3:
        high[:] = np.inf
    g = palette.group
    return _palette_family(
        rng, palette, n, fm.Truncated(fm.Gaussian(loc[g], std[g]), low[g], high[g]),
        lambda i: truncated_part(loc[i], std[i], low[i], high[i]),
        _near(rng, loc[g], std[g]), "Truncated(Gaussian)",
    )  # fmt: skip


def _quantiles(rng, palette, n, k, closed, rare, scale, draws_l):
    levels = np.sort(rng.choice(np.arange(1, 20), size=rng.integers(2, 7), replace=False)) / 20
    tails = str(rng.choice(["exponential", "flat"]))
    values = palette.loc[:, None] + palette.scale[:, None] * np.sort(
        rng.normal(size=(len(palette.loc), len(levels))), axis=1
    )
    if rng.random() < 0.3:
        values[0, -1] = values[0, -2]
    measure = Measure(n)
    for g in range(len(values)):
        rows = np.flatnonzero(palette.group == g)
        atoms, part, mass = quantile_parts(levels, values[g], tails)
        for value, weight in atoms:
            measure.atoms.append(
                (rows, np.full((len(rows), 1), value), np.full(len(rows), weight, dtype=LD))
            )
        if part is not None:
            measure.parts.append((rows, np.full(len(rows), mass, dtype=LD), (part,)))
    g = palette.group
    y = _near(rng, palette.loc[g], palette.scale[g]).reshape(n, 1)
    return MadeDraws(
        fm.Quantiles(levels, values[g], tails=tails), measure, y, f"Quantiles({tails})"
    )


def _zeroinflatedgamma(rng, palette, n, k, closed, rare, scale, draws_l):
    shape, unit = _gamma_parameters(rng, palette, scale)
    p = rng.uniform(0, 1, size=n)
    g = palette.group
    measure = Measure(n, parts=palette.parts(lambda i: gamma_part(shape[i], unit[i])))
    measure = measure.scaled(1 - p.astype(LD))
    measure.atoms.append((np.arange(n), np.zeros((n, 1)), p.astype(LD)))
    y = np.where(rng.random(n) < p, 0.0, rng.gamma(shape[g], unit[g])).reshape(n, 1)
    prediction = fm.ZeroInflated(fm.Gamma(shape[g], scale=unit[g]), p)
    return MadeDraws(prediction, measure, y, "ZeroInflated(Gamma)")


def _mixedmixture(rng, palette, n, k, closed, rare, scale, draws_l):
    one = _laplace(rng, palette, n, k, closed, rare, scale, draws_l)
    other = _uniform(rng, palette, n, k, closed, rare, scale, draws_l)
    w = rng.uniform(0, 1, size=n)
    weights = np.stack([w, 1 - w], axis=1)
    sums = weights.astype(LD).sum(axis=1)
    measure = one.measure.scaled(weights[:, 0] / sums).plus(
        other.measure.scaled(weights[:, 1] / sums)
    )
    return MadeDraws(
        fm.Mixture([one.prediction, other.prediction], weights),
        measure,
        one.y,
        "Mixture(Laplace, Uniform)",
    )


def _scipy(rng, palette, n, k, closed, rare, scale, draws_l):
    import scipy.stats

    loc, spread = palette.loc[palette.group], palette.scale[palette.group]
    outputs = _laplace(rng, palette, n, k, closed, rare, scale, draws_l)
    return MadeDraws(
        scipy.stats.laplace(loc, spread), outputs.measure, outputs.y, "scipy.stats.laplace"
    )


def _means(rng, palette, n, rare):
    mean = (
        10 ** rng.uniform(-1, 1.6, size=n)
        if rng.random() < 0.5
        else np.full(n, 10 ** rng.uniform(-1, 1.6))
    )
    for row in rare:
        mean[row] *= 10 ** rng.uniform(-2, 1)
    return mean


def _counts(n, masses_of, prediction, y, label):
    count = 40
    while True:
        masses = masses_of(count)
        is_complete = (
            masses.sum(axis=1).min() > 1 - 1e-12
        )  # the bulk may lie beyond: all is small before it
        if (is_complete and masses[:, -3:].max() < 1e-24) or count > 4000:
            break
        count *= 2
    atoms = atoms_of(np.arange(masses.shape[1]), masses)
    return MadeDraws(prediction, Measure(n, atoms=[atoms]), y.astype(float).reshape(n, 1), label)


def _poisson(rng, palette, n, k, closed, rare, scale, draws_l):
    mean = _means(rng, palette, n, rare)
    y = rng.poisson(mean * 10 ** rng.uniform(-0.3, 0.3))
    return _counts(
        n, lambda c: np.stack([poisson_masses(m, c) for m in mean]), fm.Poisson(mean), y, "Poisson"
    )


def _negativebinomial(rng, palette, n, k, closed, rare, scale, draws_l):
    mean = _means(rng, palette, n, rare)
    alpha = 10 ** rng.uniform(-3, -0.3)
    y = rng.poisson(mean)
    return _counts(
        n, lambda c: np.stack([negative_binomial_masses(m, alpha, c) for m in mean]),
        fm.NegativeBinomial(mean, alpha), y, f"NegativeBinomial({alpha})",
    )  # fmt: skip


def _doublepoisson(rng, palette, n, k, closed, rare, scale, draws_l):
    mean = _means(rng, palette, n, rare)
    phi = 10 ** rng.uniform(-0.7, 1)
    y = rng.poisson(mean)
    return _counts(
        n, lambda c: np.stack([double_poisson_masses(m, phi, c) for m in mean]),
        fm.DoublePoisson(mean, phi), y, f"DoublePoisson({phi})",
    )  # fmt: skip


def _categorical(rng, palette, n, k, closed, rare, scale, draws_l):
    count = int(rng.integers(1, 12))
    probs = rng.dirichlet(np.full(count, 10 ** rng.uniform(-1, 1)), size=n)
    probs = np.maximum(probs, 0)
    values = None if rng.random() < 0.5 else np.sort(rng.normal(size=count)) * scale
    prediction = fm.Categorical(probs, values)
    where = np.arange(count, dtype=float) if values is None else values
    exact = probs.astype(LD) / probs.astype(LD).sum(axis=1)[:, None]
    y = where[rng.integers(count, size=n)].reshape(n, 1)
    return MadeDraws(
        prediction, Measure(n, atoms=[atoms_of(where, exact)]), y, f"Categorical({count})"
    )


def _zeroinflatedpoisson(rng, palette, n, k, closed, rare, scale, draws_l):
    base_outputs = _poisson(rng, palette, n, k, closed, rare, scale, draws_l)
    p = rng.uniform(0, 1, size=n)
    measure = base_outputs.measure.scaled(1 - p.astype(LD))
    measure.atoms.append((np.arange(n), np.zeros((n, 1)), p.astype(LD)))
    return MadeDraws(
        fm.ZeroInflated(base_outputs.prediction, p),
        measure,
        base_outputs.y,
        "ZeroInflated(Poisson)",
    )


def _truncatedpoisson(rng, palette, n, k, closed, rare, scale, draws_l):
    mean = _means(rng, palette, n, rare)
    low = float(rng.integers(0, 3))
    high = low + float(rng.integers(3, 60))

    def masses(c):
        out = np.stack([poisson_masses(m, max(c, 200)) for m in mean])
        out[:, : int(low)] = 0
        out[:, int(high) + 1 :] = 0
        return out / out.sum(axis=1)[:, None]

    y = np.clip(rng.poisson(mean), low, high)
    return _counts(n, masses, fm.Truncated(fm.Poisson(mean), low, high), y, "Truncated(Poisson)")


def _draws(rng, palette, n, k, closed, rare, scale, draws_l):
    mean, std, y = _locations(rng, palette, n, k, rare, scale)
    m = int(rng.integers(1, max(2, min(10, 1500 // n + 2))))
    draws = mean[:, None, :] + std[:, None, :] * rng.normal(size=(n, m, k))
    if rng.random() < 0.2:
        draws = np.round(draws / scale) * scale
    values = draws[:, :, 0] if k == 1 else draws
    return MadeDraws(
        values if rng.random() < 0.5 else fm.Draws(values), of_draws(draws), y, f"Draws({m})"
    )


def of_draws(draws):
    """Return the measure of draws (n, m, k)."""
    n, m, k = draws.shape
    rows = np.repeat(np.arange(n), m)
    return Measure(n, atoms=[(rows, draws.reshape(-1, k), np.full(n * m, 1 / LD(m)))])


def can_integrate(family, y_spec, columns):
    """Return whether the reference knows the expectations of this family under this kernel."""
    if family in ("Draws", *COUNTS):
        return True
    if columns == 1:
        return True
    return has_closed_form(y_spec, columns) or is_separable(y_spec, columns)
