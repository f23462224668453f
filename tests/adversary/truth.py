"""The plain definition of the MCMD with an estimate of its own error.

Systems are solved by a float64 Cholesky factor (a long-double one if that is not enough) and refined with
residuals in the type of the whole computation. What is left of the residual bounds the error rigorously;
rounding is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from formulas import diagonal, matrix, widths
from measures import LD, Embedded
from scipy.linalg import cho_factor, cho_solve

_LARGEST_LONG_FACTOR = 400  # rows for which a factor in long double is affordable
_QUADRATURE = 1e-15  # relative error of an expectation in long double: see test_truth.py


class Undecided(Exception):
    """The reference cannot solve this system."""


@dataclass
class Truth:
    """Values (q,), their possible errors, and the embedding itself."""

    values: np.ndarray
    errors: np.ndarray
    embedding: Embedded
    coefficient_errors: np.ndarray


def long_factor(m):
    """Return the lower Cholesky factor in the type of ``m``."""
    low = np.tril(m)
    for j in range(len(low)):
        pivot = low[j, j]
        if not pivot > 0:
            raise Undecided("a pivot is not positive")
        low[j:, j] /= np.sqrt(pivot)
        column = low[j + 1 :, j]
        if len(column):
            low[j + 1 :, j + 1 :] -= column[:, None] * column[None, :]
    return low


def long_solve(low, b):
    x = b.copy()
    for j in range(len(low)):
        x[j] /= low[j, j]
        x[j + 1 :] -= low[j + 1 :, j, None] * x[j][None, :]
    for j in reversed(range(len(low))):
        x[j] /= low[j, j]
        x[:j] -= low[j, :j, None] * x[j][None, :]
    return x


def coefficients(spec, x, grid, lam, weights, sizes, real):
    """Return a (n, q) with ``(K + N lam diag(1/w)) a = k(grid)``, and a bound (q,) on what errors cost.

    ``sizes`` (n,) are the norms of the outputs' features: the bound is on ``|sum_i (a_i - a~_i) p_i|``.
    """
    n, d = x.shape
    eps = np.finfo(real).eps * 2.0
    w = np.ones(n, dtype=LD) if weights is None else np.asarray(weights, dtype=LD)
    on = np.flatnonzero(w > 0)
    shift = (w.sum() * LD(lam) / w[on]).astype(real)
    gram = matrix(spec, x[on], x[on], real)
    right = matrix(spec, x[on], grid, real)
    norms = np.sqrt(np.maximum(diagonal(spec, grid, real), 0))
    scale = 1 / np.sqrt(np.diag(gram) + shift)
    system = gram * scale[:, None] * scale[None, :]
    system[np.diag_indices(len(on))] += shift * scale * scale
    b = right * scale[:, None]
    if not (np.isfinite(system).all() and np.isfinite(b).all()):
        raise Undecided("kernel values leave the range of the type")
    u, r = _refined(system, b, real)
    # Rounding of entries (of size at most 1, and own), of their sums, and the residual itself.
    noise = eps * (8 + d) * (np.sqrt((u * u).sum(axis=0)) + norms + np.abs(u).max(axis=0))
    left = np.abs(r) + noise[None, :]
    in_norm = np.sqrt(((left / scale[:, None]) ** 2 / shift[:, None]).sum(axis=0))
    weight = np.sqrt((sizes[on].astype(real) ** 2 / shift).sum())
    out = np.zeros((n, len(grid)), dtype=real)
    out[on] = u * scale[:, None]
    return out, in_norm * weight


def _refined(system, b, real):
    """Return the solution and its residual."""
    size = np.abs(b).max(axis=0)
    best = None
    for attempt in ("float64", "long"):
        if attempt == "float64":
            try:
                factor = cho_factor(system.astype(np.float64), lower=True)
            except np.linalg.LinAlgError:
                continue

            def solve(r, factor=factor):
                top = np.abs(r).max(axis=0)
                top = np.where(top > 0, top, 1)
                return cho_solve(factor, (r / top).astype(np.float64)).astype(real) * top
        else:
            if len(system) > _LARGEST_LONG_FACTOR or real is np.float64:
                break
            low = long_factor(system)

            def solve(r, low=low):
                return long_solve(low, r)

        u = solve(b)
        r = b - system @ u
        worst = np.abs(r).max()
        for _ in range(30):
            step = solve(r)
            new = u + step
            residual = b - system @ new
            fresh = np.abs(residual).max()
            if not fresh < 0.7 * worst:
                break
            u, r, worst = new, residual, fresh
        if best is None or worst < best[2]:
            best = (u, r, worst)
        if (
            np.abs(r).max(axis=0)
            <= 1e3 * np.finfo(real).eps * np.maximum(size, np.abs(u).max(axis=0))
        ).all():
            break
    if best is None:
        raise Undecided("the system is too ill-conditioned for the reference")
    return best[0], best[1]


def norms(measure, spec, n, columns, real):
    """Return bounds (n,) on the norms of the embedded outputs of each row."""
    out = np.zeros(n, dtype=LD)
    zero = float(diagonal(spec, np.zeros((1, columns)), LD)[0])
    for rows, values, weights in measure.atoms:
        diagonal_values = diagonal(spec, values.reshape(len(rows), columns), LD)
        np.add.at(out, rows, np.abs(weights) * np.sqrt(np.maximum(diagonal_values, 0)))
    for rows, means, stds, weights in measure.gaussians:
        far = np.abs(means) + 4 * stds
        diagonal_values = diagonal(spec, far.reshape(len(rows), columns), LD)
        np.add.at(out, rows, np.abs(weights) * np.sqrt(np.maximum(diagonal_values, zero)))
    for rows, weights, part in measure.parts:
        far = np.array([[np.abs(p.y_edges).max() for p in part]], dtype=LD)
        diagonal_values = max(float(diagonal(spec, far, LD)[0]), zero)
        np.add.at(out, rows, np.abs(weights) * LD(diagonal_values) ** LD(0.5))
    return out


def of_nodes(p):
    """Return the relative error of float64 expectations, including the rounding of nodes."""
    parts = [one for measure in (p.nature, p.model) for *_, part in measure.parts for one in part]
    far = max((float(np.abs(part.y_edges).max()) for part in parts), default=0.0)
    lengths = [float(width) for width in widths(p.y_spec) if width > 0]
    return 1e-13 + 4e-16 * far / min(lengths, default=np.inf)


def mcmd(problem, rows, real):
    """Return the truth of a problem at some rows of its grid, computed in the type ``real``."""
    p = problem
    grid = p.grid[rows]
    embedding = Embedded(p.y_spec, real, len(rows), p.columns)
    size = norms(p.nature, p.y_spec, len(p.x), p.columns, real)
    model_size = norms(p.model, p.y_spec, len(p.x_prime), p.columns, real)
    one_system = p.x_prime is p.x and p.lam_prime == p.lam and p.weights_prime is p.weights
    if one_system:
        a, off = coefficients(p.x_spec, p.x, grid, p.lam, p.weights, size + model_size, real)
        b, off_b = a, np.zeros_like(off)
    else:
        a, off = coefficients(p.x_spec, p.x, grid, p.lam, p.weights, size, real)
        b, off_b = coefficients(
            p.x_spec, p.x_prime, grid, p.lam_prime, p.weights_prime, model_size, real
        )
    embedding.add(p.nature, a)
    embedding.add(p.model, -b)
    square, size, on_parts = embedding.square()
    eps = np.finfo(real).eps * 2.0
    quadrature = of_nodes(p) if real is np.float64 else _QUADRATURE
    # Entries of the kernel are right to a few units (more with many columns), sums to a few more.
    e2 = eps * (8 + p.columns) * size**2 + (quadrature + 8 * eps) * on_parts * size
    value = np.sqrt(np.maximum(square, 0))
    off = off + off_b
    error = np.maximum(
        np.sqrt(np.maximum(square, 0) + e2) - value, value - np.sqrt(np.maximum(square - e2, 0))
    )
    if not (np.isfinite(value).all() and np.isfinite(error).all()):
        raise Undecided("values leave the range of the type")
    return Truth(value, error + off, embedding, off)
