"""Integrals of decaying kernels under a normal density, over each half of the line."""

from __future__ import annotations

import numpy as np
import scipy

from fastmcmd._base.annotations import Array

__all__ = ["laplacian", "matern"]

_DIRECT = 2.0  # argument below which the upward recurrence loses less than a digit
_NARROW, _WIDE = 1e-60, 1e140  # scales whose squares and products stay in range
_TERMS = 60  # terms of the continued fraction, exact to rounding from _DIRECT on


def laplacian(gamma: float, mean: Array, std: Array) -> Array:
    """Return ``E exp(-gamma |D|)`` for normal D; arguments broadcast."""
    return matern(0.5, 1 / gamma, mean, std)


def matern(nu: float, length_scale: float, mean: Array, std: Array) -> Array:
    """Return ``E k(D)`` for normal D and a Matern kernel of nu 1/2, 3/2 or 5/2.

    Parameters
    ----------
    nu, length_scale : float
        As in `fastmcmd.Matern`.
    mean, std : ndarray
        Parameters of D, which broadcast to the shape of the result.

    Notes
    -----
    With ``c = sqrt(2 nu) std / length_scale``, ``t = mean / std`` and ``u = c -+ t``, each half of
    the line gives ``phi(t) (J_0 + c J_1 + c^2 J_2 / 3)`` (as many terms as nu has), where ``J_k(u)`` is
    the integral of ``v^k exp(-v^2 / 2 - u v)`` over v > 0: ``J_0(u) = sqrt(pi / 2) erfcx(u / sqrt 2)``,
    ``J_1 = 1 - u J_0`` and ``J_(k+1) = k J_(k-1) - u J_k``. For large u that recurrence cancels; ratios
    then come from the continued fraction ``J_k / J_(k-1) = k / (u + J_(k+1) / J_k)``. For u <= 0 J_0 may
    overflow; then ``phi(t) J_0 = exp(c (c / 2 -+ t)) Phi(-u)`` is used.
    """
    length = length_scale / np.sqrt(2 * nu)
    with np.errstate(over="ignore"):  # an infinite bound does not clip
        std = np.clip(std, _NARROW * length, _WIDE * length)  # beyond, values equal their limit
    scale = std / length
    t = np.clip(mean / std, -_WIDE, _WIDE)
    density = np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    factors = {0.5: (1.0,), 1.5: (1.0, scale), 2.5: (1.0, scale, scale * scale / 3)}[nu]
    out = np.zeros(np.broadcast_shapes(t.shape, np.shape(scale)))
    for sign in (1.0, -1.0):
        parts = _half_line(len(factors), scale, sign * t, density)
        out += sum(factor * part for factor, part in zip(factors, parts, strict=True))
    return out


def _half_line(count: int, c: Array, t: Array, density: Array) -> list[Array]:
    """Return ``phi(t) J_k(c + t)`` for k below ``count``."""
    u = c + t
    positive = np.maximum(u, 0.0)
    small = np.sqrt(np.pi / 2) * scipy.special.erfcx(positive / np.sqrt(2))
    exponent = np.minimum(c * (c / 2 + t), 0.0)  # not positive where u is not positive
    parts = [np.where(u > 0, density * small, np.exp(exponent) * scipy.special.ndtr(-u))]
    if count == 1:
        return parts
    first, second = _ratios(np.maximum(u, _DIRECT))
    direct = density - u * parts[0]
    parts.append(np.where(u > _DIRECT, parts[0] * first, direct))
    if count == 3:
        parts.append(np.where(u > _DIRECT, parts[1] * second, parts[0] - u * parts[1]))
    return parts


def _ratios(u: Array) -> tuple[Array, Array]:
    """Return ``J_1 / J_0`` and ``J_2 / J_1`` for u of at least `_DIRECT`."""
    ratio = (np.sqrt(u * u + 4 * _TERMS) - u) / 2  # the fixed point if terms vary slowly
    following = ratio
    for k in range(_TERMS, 0, -1):
        following, ratio = ratio, k / (u + ratio)
    return ratio, following
