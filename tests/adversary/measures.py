"""Predicted distributions as measures: atoms, Gaussians with closed forms, and densities on panels.

A density is a smooth function of a variable u that maps monotonically to the outcome y. Its panels are
found by halving until Gauss-Legendre sums no longer change; its mass is their sum, so that no normalising
constant is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from formulas import evaluate, has_origin, rbf_terms, widths

LD = np.longdouble
_ORDER = 16
_DEPTH = 50  # natural logarithms below the peak at which a density ends


def _gauss_legendre(order):
    """Return nodes and weights on [-1, 1] in long double: NumPy's, improved by Newton's method."""
    nodes = np.polynomial.legendre.leggauss(order)[0].astype(LD)
    for _ in range(3):
        below, value = np.ones_like(nodes), nodes.copy()
        for k in range(2, order + 1):
            below, value = value, ((2 * k - 1) * nodes * value - (k - 1) * below) / k
        slope = order * (nodes * value - below) / (nodes * nodes - 1)
        nodes = nodes - value / slope
    return nodes, 2 / ((1 - nodes * nodes) * slope * slope)


NODES, WEIGHTS = _gauss_legendre(_ORDER)


class Part:
    """A continuous distribution of one number.

    Parameters
    ----------
    log_density : function of u, up to a constant; -inf is allowed nowhere inside the panels
    to_y, to_u : the map and its inverse
    low, high : range of u, finite
    hard : outcomes y at which the density or its derivatives jump
    widest : longest panel in u
    """

    def __init__(self, log_density, to_y, to_u, low, high, hard=(), widest=np.inf):
        self.to_y, self.to_u = to_y, to_u
        self.hard = np.array(hard, dtype=LD)
        low, high = LD(low), LD(high)
        trial = np.linspace(0, 1, 4001).astype(LD) * (high - low) + low
        with np.errstate(over="ignore", under="ignore"):
            heights = log_density(trial)
        peak = heights.max()
        self.log_density = lambda u: log_density(u) - peak
        inside = np.flatnonzero(heights > peak - _DEPTH)
        first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, 4000)
        ends = [trial[first], trial[last]]
        with np.errstate(all="ignore"):
            jumps = [u for u in to_u(self.hard) if ends[0] < u < ends[1]] if len(hard) else []
        self.edges = np.array(self._panels(sorted({*ends, *jumps}), LD(widest)), dtype=LD)
        self.mass = LD(1)
        self.mass = self._sum(self.edges).sum()
        self.anchors = np.array(
            [*self.hard, *to_y(self.edges[[0, -1]]), to_y(self._median())], dtype=LD
        )
        self.y_edges = to_y(self.edges)

    def _sum(self, edges):
        return (self.at(*_nodes(edges[None, :]))).reshape(-1, _ORDER).sum(axis=-1)

    def at(self, u, w):
        """Return weights of nodes u whose lengths are w, in the type of u."""
        real = u.dtype.type
        with np.errstate(under="ignore"):
            return w * np.exp(self.log_density(u).astype(real)) / real(self.mass)

    def _panels(self, edges, widest):
        self.mass = LD(1)
        split = [edges[0]]
        for a, b in pairwise(edges):
            count = max(1, int(np.ceil((b - a) / widest)) if widest < np.inf else 4)
            split.extend(a + (b - a) * LD(i) / count for i in range(1, count + 1))
        edges, is_fine = np.array(split, dtype=LD), False
        for _ in range(40):
            middle = (edges[1:] + edges[:-1]) / 2
            total = self._sum(edges)
            finer = np.insert(edges, np.arange(1, len(edges)), middle)
            halves = self._sum(finer).reshape(-1, 2).sum(axis=1)
            bad = np.abs(total - halves) > 1e-18 * halves.sum()
            is_fine = not bad.any() or len(edges) > 400
            if is_fine:
                break
            edges = np.sort(np.concatenate([edges, middle[bad]]))
        return edges

    def _median(self):
        mass = np.cumsum(self._sum(self.edges))
        return self.edges[min(int(np.searchsorted(mass, 0.5)), len(self.edges) - 1)]


def _nodes(edges):
    """Return nodes and their lengths, (m, p, order), of panels with edges (m, p + 1)."""
    half = (edges[:, 1:] - edges[:, :-1]) / 2
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    real = edges.dtype.type
    nodes, weights = NODES.astype(real), WEIGHTS.astype(real)
    return middle[..., None] + half[..., None] * nodes, half[..., None] * weights


def _broken(part, breaks):
    """Return the panels (m, p + 1) of a part, broken at outcomes ``breaks`` (m, b) too."""
    with np.errstate(all="ignore"):
        u = part.to_u(breaks)
    low, high = part.edges[0], part.edges[-1]
    u = np.clip(np.where(np.isnan(u), low, u), low, high)
    edges = np.broadcast_to(part.edges, (len(u), len(part.edges)))
    return np.sort(np.concatenate([edges, u], axis=1), axis=1)


def against_points(spec, part, z, real):
    """Return E k(z, Y) for outcomes z (m,)."""
    out = np.empty(len(z), dtype=real)
    away = np.array(sorted({s * w for w in widths(spec) for s in (1, -1)}), dtype=LD)
    per_row = (len(away) + len(part.edges) + 1) * _ORDER
    step = max(1, (1 << 17) // per_row)
    z = np.asarray(z, dtype=LD)
    for start in range(0, len(z), step):
        some = z[start : start + step, None]
        breaks = np.concatenate(
            [some + away, 0 * some] if has_origin(spec) else [some + away], axis=1
        )
        u, w = _nodes(_broken(part, breaks).astype(real))
        y, w = part.to_y(u).astype(real), part.at(u, w)
        k = evaluate(spec, some[:, :, None, None].astype(real), y[..., None])
        out[start : start + step] = (k * w).sum(axis=(1, 2))
    return out


def against_part(spec, part, other, real):
    """Return E k(Y, Y') for independent Y and Y' of two parts."""
    away = np.array(sorted({LD(0)} | {s * w for w in widths(spec) for s in (1, -1)}), dtype=LD)
    breaks = np.concatenate([other.y_edges, (other.anchors[:, None] + away).reshape(-1), [LD(0)]])
    u, w = _nodes(_broken(part, breaks[None, :]))
    has_weight = (w > 0).reshape(-1)
    y, w = part.to_y(u).reshape(-1)[has_weight], part.at(u, w).reshape(-1)[has_weight]
    heavy = w > 1e-22
    return (against_points(spec, other, y[heavy], real) * w[heavy].astype(real)).sum()


@dataclass
class Measure:
    """Distributions of n rows: row, weight and place of every atom, Gaussian and part."""

    n: int
    atoms: list = field(default_factory=list)  # (rows, values (m, k), weights)
    gaussians: list = field(default_factory=list)  # (rows, means (m, k), stds (m, k), weights)
    parts: list = field(default_factory=list)  # (rows, weights, tuple of k parts)

    def scaled(self, share):
        """Return the measure with the weights of its rows multiplied by ``share`` (n,)."""
        share = np.asarray(share, dtype=LD)
        return Measure(
            self.n,
            [(r, v, w * share[r]) for r, v, w in self.atoms],
            [(r, m, s, w * share[r]) for r, m, s, w in self.gaussians],
            [(r, w * share[r], p) for r, w, p in self.parts],
        )

    def plus(self, other):
        return Measure(
            self.n,
            self.atoms + other.atoms,
            self.gaussians + other.gaussians,
            self.parts + other.parts,
        )


class Embedded:
    """A signed combination of measures, and its inner products under a kernel.

    ``add`` collects elements with coefficients (q,); ``square`` returns the squared norms (q,), the
    coefficients' sizes and which share of them rests on quadrature.
    """

    def __init__(self, spec, real, queries, columns):
        self.spec, self.real, self.q, self.k = spec, real, queries, columns
        self.atom_values, self.atom_mass = [], []
        self.means, self.stds, self.gauss_mass = [], [], []
        self.parts, self.part_mass = [], []

    def add(self, measure, a):
        """Add ``sum_i a_i(x) f_i`` for coefficients a (n, q)."""
        for rows, values, weights in measure.atoms:
            if not len(rows):
                continue
            self.atom_values.append(np.asarray(values, dtype=np.float64).reshape(len(rows), -1))
            self.atom_mass.append(a[rows] * weights[:, None].astype(self.real))
        for rows, means, stds, weights in measure.gaussians:
            self.means.append(means.reshape(len(rows), -1))
            self.stds.append(stds.reshape(len(rows), -1))
            self.gauss_mass.append(a[rows] * weights[:, None].astype(self.real))
        for rows, weights, part in measure.parts:
            mass = (a[rows] * weights[:, None].astype(self.real)).sum(axis=0)
            for i, earlier in enumerate(self.parts):
                if earlier is part:
                    self.part_mass[i] = self.part_mass[i] + mass
                    break
            else:
                self.parts.append(part)
                self.part_mass.append(mass)

    def collect(self):
        real = self.real
        if self.atom_values:
            values, mass = np.concatenate(self.atom_values), np.concatenate(self.atom_mass)
            values = values + 0.0  # -0 is 0
            self.values, where = np.unique(values, axis=0, return_inverse=True)
            self.mass = np.zeros((len(self.values), self.q), dtype=real)
            np.add.at(self.mass, where.reshape(-1), mass)
        else:
            self.values, self.mass = np.empty((0, self.k)), np.empty((0, self.q), dtype=real)
        if self.means:
            pairs = np.concatenate([np.concatenate(self.means), np.concatenate(self.stds)], axis=1)
            mass = np.concatenate(self.gauss_mass)
            pairs, where = np.unique(pairs, axis=0, return_inverse=True)
            self.gauss = pairs[:, : self.k], pairs[:, self.k :]
            self.gmass = np.zeros((len(pairs), self.q), dtype=real)
            np.add.at(self.gmass, where.reshape(-1), mass)
        else:
            self.gauss = np.empty((0, self.k)), np.empty((0, self.k))
            self.gmass = np.empty((0, self.q), dtype=real)

    def _all(self):
        """Return means and spreads of atoms (spread 0) and Gaussians, and their coefficients."""
        means = np.concatenate([self.values, self.gauss[0]])
        stds = np.concatenate([np.zeros_like(self.values), self.gauss[1]])
        return means, stds, np.concatenate([self.mass, self.gmass])

    def square(self):
        """Return (squares (q,), sizes (q,), sizes on quadrature (q,))."""
        self.collect()
        means, stds, mass = self._all()
        total = _quadratic(self.spec, means, stds, mass, self.real)
        size = np.abs(mass).T @ np.sqrt(np.maximum(_self_terms(self.spec, means, self.real), 0))
        on_parts = np.zeros(self.q, dtype=self.real)
        if self.parts:
            mass_p = np.array(self.part_mass, dtype=self.real)
            cross = np.array([_separable(self.spec, p, self.values, self.real) for p in self.parts])
            total = total + 2 * np.einsum("iq,ip,pq->q", self.mass, cross.T, mass_p, optimize=True)
            gram = np.empty((len(self.parts),) * 2, dtype=self.real)
            for i, one in enumerate(self.parts):
                for j in range(i + 1):
                    gram[i, j] = gram[j, i] = _separable_pair(
                        self.spec, one, self.parts[j], self.real
                    )
            total = total + np.einsum("pq,pr,rq->q", mass_p, gram, mass_p, optimize=True)
            on_parts = np.abs(mass_p).T @ np.sqrt(np.maximum(np.diag(gram), 0))
        return total, size + on_parts, on_parts

    def at(self, y):
        """Return the inner products (q, g) with the kernel at outcomes y (g, k)."""
        means, stds, mass = self._all()
        none = np.zeros_like(y)
        out = mass.T @ _mean_kernel(self.spec, means, stds, y, none, self.real)
        for part, weight in zip(self.parts, self.part_mass, strict=True):
            out = out + weight[:, None] * _separable(self.spec, part, y, self.real)[None, :]
        return out


def _self_terms(spec, means, real):
    rows = np.asarray(means, dtype=real)
    return evaluate(spec, rows, rows)


def _quadratic(spec, means, stds, mass, real):
    out = np.zeros(mass.shape[1], dtype=real)
    step = max(1, (1 << 18) // max(1, len(means)))
    for start in range(0, len(means), step):
        rows = slice(start, start + step)
        block = _mean_kernel(spec, means[rows], stds[rows], means, stds, real)
        out = out + (mass[rows] * (block @ mass)).sum(axis=0)
    return out


def _mean_kernel(spec, m, s, n, t, real):
    """Return E k(Y, Z), Y and Z Gaussian with independent components; spread 0 is an atom."""
    plain = not s.any() and not t.any()
    m, n = np.asarray(m, dtype=real), np.asarray(n, dtype=real)
    if plain or spec[0] == "linear":
        return evaluate(spec, m[:, None, :], n[None, :, :])
    s, t = np.asarray(s, dtype=real), np.asarray(t, dtype=real)
    terms = rbf_terms(spec)
    if terms is not None:
        out = 0
        for factor, gamma in terms:
            root = np.sqrt(2 * gamma).astype(real)
            value = np.full((len(m), len(n)), real(factor))
            for c in range(m.shape[1]):
                one = real(1)
                spread = (root * s[:, None, c]) ** 2 + (root * t[None, :, c]) ** 2
                gap = (root * (m[:, None, c] - n[None, :, c])) ** 2 / (2 * (one + spread))
                value = value * np.exp(-gap) / np.sqrt(one + spread)
            out = out + value
        return out
    if spec[0] == "sum":
        return _mean_kernel(spec[1], m, s, n, t, real) + _mean_kernel(spec[2], m, s, n, t, real)
    if spec[0] == "product" and "constant" in (spec[1][0], spec[2][0]):
        number, other = (spec[1], spec[2]) if spec[1][0] == "constant" else (spec[2], spec[1])
        return real(number[1]) * _mean_kernel(other, m, s, n, t, real)
    if spec[0] == "polynomial" and m.shape[1] == 1:
        return _polynomial(spec, (m[:, 0], s[:, 0]), (n[:, 0], t[:, 0]), real)
    raise ValueError(f"no closed form of {spec}")


def _polynomial(spec, one, other, real):
    _, degree, gamma, coef0 = spec
    out = real(0)
    binomial = real(1)
    left, right = _moments(*one, degree), _moments(*other, degree)
    for r in range(degree + 1):
        weight = binomial * real(gamma) ** r * real(coef0) ** (degree - r)
        out = out + weight * left[r][:, None] * right[r][None, :]
        binomial = binomial * (degree - r) / (r + 1)
    return out


def _moments(mean, std, degree):
    moments = [np.ones_like(mean), mean]
    for r in range(2, degree + 1):
        moments.append(mean * moments[-1] + (r - 1) * std * std * moments[-2])
    return moments[: degree + 1]


def has_closed_form(spec, columns):
    """Return whether expectations under Gaussians are known here without quadrature."""
    if rbf_terms(spec) is not None or spec[0] == "linear":
        return True
    if spec[0] == "sum":
        return has_closed_form(spec[1], columns) and has_closed_form(spec[2], columns)
    if spec[0] == "product":
        for number, other in ((spec[1], spec[2]), (spec[2], spec[1])):
            if number[0] == "constant":
                return has_closed_form(other, columns)
    return spec[0] == "polynomial" and columns == 1


def is_separable(spec, columns):
    """Return whether a kernel of vectors is a sum of products over their components."""
    if columns == 1:
        return True
    if spec[0] == "sum":
        return is_separable(spec[1], columns) and is_separable(spec[2], columns)
    if spec[0] == "product":
        return _factor(spec)
    return spec[0] in ("rbf", "laplacian", "constant")


def _factor(spec):
    if spec[0] == "product":
        return _factor(spec[1]) and _factor(spec[2])
    return spec[0] in ("rbf", "laplacian", "constant")


def _by_terms(spec, columns, value):
    """Add up the products over components of ``value(kernel, component)``."""
    if columns == 1:
        return value(spec, 0)
    if spec[0] == "sum":
        return _by_terms(spec[1], columns, value) + _by_terms(spec[2], columns, value)
    factor, factor_rest = _constants(spec)
    out = factor
    for c in range(columns):
        out = out * (value(factor_rest, c) if factor_rest is not None else 1)
    return out


def _constants(spec):
    """Return the number and the rest of a product."""
    if spec[0] == "constant":
        return LD(spec[1]), None
    if spec[0] == "product":
        (a, one), (b, other) = _constants(spec[1]), _constants(spec[2])
        remaining = one if other is None else other if one is None else ("product", one, other)
        return a * b, remaining
    return LD(1), spec


def _without_delta(spec):
    """A continuous outcome equals nothing: Delta is 0."""
    if spec[0] in ("sum", "product"):
        return (spec[0], _without_delta(spec[1]), _without_delta(spec[2]))
    return ("constant", 0.0) if spec[0] == "delta" else spec


def _separable(spec, part, z, real):
    spec = _without_delta(spec)
    one = np.ones(len(z), dtype=real)
    return (
        real(1)
        * one
        * _by_terms(spec, len(part), lambda k, c: against_points(k, part[c], z[:, c], real)).astype(
            real
        )
    )


def _separable_pair(spec, part, other, real):
    spec = _without_delta(spec)
    value = _by_terms(spec, len(part), lambda k, c: against_part(k, part[c], other[c], real))
    return real(value)
