"""Independent definitions of the kernels, for any floating-point type.

A kernel is a tuple: ``("rbf", gamma)``, ``("sum", left, right)`` and so on. Nothing here is imported from
fastmcmd. Squares are taken of scaled differences, so that 1e-200 does not underflow.
"""

from __future__ import annotations

import numpy as np

LEAVES = (
    "rbf", "laplacian", "matern", "delta", "linear", "polynomial", "cosine", "constant", "custom",
)  # fmt: skip


def overlap(a, b):
    total = 0.0
    for i in range(len(a)):
        total += min(abs(a[i]), abs(b[i])) if a[i] * b[i] > 0 else 0.0
    return total


def cauchy(a, b):
    total = 1.0
    for i in range(len(a)):
        difference = float(a[i]) - float(b[i])  # not NumPy's numbers, which warn about overflow
        total /= 1.0 + difference * difference
    return total


def lopsided(a, b):
    """Not a kernel: not symmetric."""
    total = 0.0
    for i in range(len(a)):
        total += abs(a[i] - 0.5 * b[i])
    return 1.0 / (1.0 + total)


def indefinite(a, b):
    """Not a kernel: symmetric, with negative eigenvalues."""
    total = 0.0
    for i in range(len(a)):
        total += (a[i] - b[i]) ** 2
    return total + 1e-3


CUSTOM = {
    "overlap": overlap,
    "cauchy": cauchy,
    "lopsided": lopsided,
    "indefinite": indefinite,
}


def _custom(name, x, z):
    """Evaluate the definite functions above for arrays (..., k) that broadcast."""
    if name == "overlap":
        same = np.sign(x) * np.sign(z) > 0
        return np.where(same, np.minimum(np.abs(x), np.abs(z)), x.dtype.type(0)).sum(axis=-1)
    return (1 / (1 + (x - z) ** 2)).prod(axis=-1)


def evaluate(spec, x, z):
    """Return k of rows (..., k) that broadcast against each other."""
    kind, real = spec[0], x.dtype.type
    if kind == "sum":
        return evaluate(spec[1], x, z) + evaluate(spec[2], x, z)
    if kind == "product":
        return evaluate(spec[1], x, z) * evaluate(spec[2], x, z)
    if kind == "constant":
        return np.full(np.broadcast_shapes(x.shape[:-1], z.shape[:-1]), real(spec[1]))
    if kind == "custom":
        return _custom(spec[1], x, z)
    if kind == "delta":
        return (x == z).all(axis=-1).astype(real)
    if kind in ("linear", "polynomial"):
        inner = _sum(x, z, lambda a, b: a * b)
        return inner if kind == "linear" else (real(spec[2]) * inner + real(spec[3])) ** spec[1]
    if kind == "cosine":
        return _sum(_unit(x), _unit(z), lambda a, b: a * b)
    if kind == "laplacian":
        gamma = real(spec[1])
        return np.exp(-_sum(x, z, lambda a, b: gamma * np.abs(a - b)))
    if kind == "rbf":
        root = np.sqrt(real(spec[1]))
        return np.exp(-_sum(x, z, lambda a, b: (root * (a - b)) ** 2))
    if kind == "matern":
        scale = np.sqrt(real(2 * spec[1])) / real(spec[2])
        r = np.sqrt(_sum(x, z, lambda a, b: (scale * (a - b)) ** 2))
        factor = {0.5: lambda: 1, 1.5: lambda: 1 + r, 2.5: lambda: 1 + r + r * r / 3}[spec[1]]()
        with np.errstate(over="ignore", invalid="ignore"):
            value = factor * np.exp(-r)
        return np.where(r > 12000, real(0), value)
    raise ValueError(kind)


def _sum(x, z, term):
    """Return the sum over components of ``term``, one component at a time."""
    with np.errstate(over="ignore"):
        total = term(x[..., 0], z[..., 0])
        for i in range(1, x.shape[-1]):
            total = total + term(x[..., i], z[..., i])
    return total


def _unit(x):
    largest = np.abs(x).max(axis=-1, keepdims=True)
    scaled = x / np.where(largest > 0, largest, 1)
    norm = np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    return scaled / np.where(norm > 0, norm, 1)


def matrix(spec, x, z, real):
    """Return the matrix (n, m) of rows x (n, k) and z (m, k) in the type ``real``."""
    x, z = np.asarray(x, dtype=real), np.asarray(z, dtype=real)
    out = np.empty((len(x), len(z)), dtype=real)
    step = max(1, (1 << 18) // max(1, len(z)))
    for start in range(0, len(x), step):
        out[start : start + step] = evaluate(spec, x[start : start + step, None, :], z[None, :, :])
    return out


def diagonal(spec, x, real):
    x = np.asarray(x, dtype=real)
    return evaluate(spec, x, x)


def flatten(spec):
    """Return the leaves of a kernel."""
    if spec[0] in ("sum", "product"):
        return flatten(spec[1]) + flatten(spec[2])
    return [spec]


def rbf_terms(spec):
    """Return [(factor, gamma)] whose sum of ``factor * rbf`` is the kernel, or None."""
    if spec[0] == "constant":
        return [(np.longdouble(spec[1]), np.longdouble(0))]
    if spec[0] == "rbf":
        rule = (
            isinstance(spec[1], str) or spec[1] is None
        )  # terms exist whatever the number of a rule is
        return [(np.longdouble(1), np.longdouble(1 if rule else spec[1]))]
    if spec[0] in ("sum", "product"):
        left, right = rbf_terms(spec[1]), rbf_terms(spec[2])
        if left is None or right is None:
            return None
        if spec[0] == "sum":
            return left + right
        return [(a * b, g + h) for a, g in left for b, h in right]
    return None


def widths(spec):
    """Return the distances from a point at which panels should end, and whether 0 is one."""
    candidates = set()
    for leaf in flatten(spec):
        if leaf[0] == "rbf":
            candidates |= {c / np.sqrt(np.longdouble(leaf[1])) for c in (1.5, 3.0, 4.6, 6.8)}
        elif leaf[0] in ("laplacian", "matern"):
            scale = (
                1 / np.longdouble(leaf[1])
                if leaf[0] == "laplacian"
                else np.longdouble(leaf[2]) / np.sqrt(np.longdouble(2 * leaf[1]))
            )
            candidates |= {c * scale for c in (0, 2, 8, 18, 30, 50)}
        elif leaf[0] == "custom":
            candidates |= {np.longdouble(c) for c in (0, 0.5, 1, 2, 4, 8, 20, 100, 1000)}
    return sorted(candidates)


def has_origin(spec):
    return any(leaf[0] in ("cosine", "custom") for leaf in flatten(spec))
