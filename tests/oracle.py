"""Plain definitions in NumPy float64, the reference of the tests.

Equation 2 of Young et al. (arXiv 2405.12412) as written, with inverses as solves.
"""

from __future__ import annotations

import numpy as np


def gram(kernel, x, z):
    return np.asarray(kernel(np.asarray(x, dtype=np.float64), np.asarray(z, dtype=np.float64)))


def _rows(a):
    a = np.asarray(a, dtype=np.float64)
    return a[:, None] if a.ndim == 1 else a


def coefficients(kernel, x, grid, lam, weights=None):
    """Return ``(K + N lam diag(1/w))^-1 k(grid)`` (n, q), with all rows, nothing collapsed."""
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    out = np.zeros((len(x), len(grid)))
    on = w > 0
    system = _normal(gram(kernel, x[on], x[on])) + np.diag(w.sum() * lam / w[on])
    out[on] = np.linalg.solve(system, _normal(gram(kernel, x[on], grid)))
    return _normal(out)


def _normal(values):
    """Return zeros for numbers far below rounding, whose subnormal products take ten times as long."""
    return np.where(np.abs(values) < 1e-40 * np.abs(values).max(initial=0.0), 0.0, values)


def mcmd_squared(
    grid, x, y, x_prime, y_prime, x_kernel, y_kernel, lam=0.1, lam_prime=None,
    weights=None, weights_prime=None,
):  # fmt: skip
    """Return MCMD^2 (q,) by equation 2; kernels are resolved."""
    grid, x, y, x_prime, y_prime = map(_rows, (grid, x, y, x_prime, y_prime))
    a = coefficients(x_kernel, x, grid, lam, weights)
    lam_prime = lam if lam_prime is None else lam_prime
    if (
        weights is None
        and weights_prime is None
        and lam == lam_prime
        and np.array_equal(x, x_prime)
    ):
        b = a
    else:
        b = coefficients(x_kernel, x_prime, grid, lam_prime, weights_prime)
    first = np.einsum("iq,iq->q", a, gram(y_kernel, y, y) @ a)
    second = np.einsum("iq,iq->q", a, gram(y_kernel, y, y_prime) @ b)
    third = np.einsum("iq,iq->q", b, gram(y_kernel, y_prime, y_prime) @ b)
    return first - 2 * second + third


def mcmd(*args, **kwargs):
    """Return MCMD (q,); rounding may make the square negative, which counts as zero."""
    return np.sqrt(np.maximum(mcmd_squared(*args, **kwargs), 0.0))


def cancellation(grid, x, x_prime, x_kernel, y_kernel, y, lam=0.1, lam_prime=None):
    """Return a bound on the oracle's own error in MCMD^2: rounding times the coefficients' size."""
    grid, x, x_prime = map(_rows, (grid, x, x_prime))
    a = coefficients(x_kernel, x, grid, lam)
    b = coefficients(x_kernel, x_prime, grid, lam if lam_prime is None else lam_prime)
    size = (np.abs(a).sum(0) + np.abs(b).sum(0)) ** 2
    return 1e-14 * size * float(np.max(y_kernel.diagonal(_rows(y)))) * max(1.0, len(x) / 100)
