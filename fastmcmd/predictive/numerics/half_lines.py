"""Expectations of Laplacian and Matern kernels of normal differences, by the compiled loops."""

from __future__ import annotations

import numpy as np

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import over_rows

__all__ = ["laplacian", "laplacian_of_pairs", "matern", "matern_of_pairs"]

_BLOCK = 1 << 14  # values of a block: some tenths of a millisecond


def laplacian(gamma: float, mean: Array, std: Array) -> Array:
    """Return ``E exp(-gamma |D|)`` for normal D; arguments broadcast."""
    return _of_normals(gamma, 0, mean, std)


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
    the integral of ``v^k exp(-v^2 / 2 - u v)`` over v > 0: a Chebyshev series (csrc/loops/half_lines.h).
    """
    return _of_normals(np.sqrt(2 * nu) / length_scale, _order(nu), mean, std)


def laplacian_of_pairs(
    gamma: float, mean: Array, std: Array, other_mean: Array, other_std: Array
) -> Array:
    """Return ``E exp(-gamma |Y_i - Y'_j|)`` (n, m) for independent normal numbers, (n,) and (m,)."""
    return _of_pairs(gamma, 0, mean, std, other_mean, other_std)


def matern_of_pairs(
    nu: float, length_scale: float, mean: Array, std: Array, other_mean: Array, other_std: Array
) -> Array:
    """Return ``E k(Y_i - Y'_j)`` (n, m) for independent normal numbers, (n,) and (m,), as `matern` does."""
    rate = np.sqrt(2 * nu) / length_scale
    return _of_pairs(rate, _order(nu), mean, std, other_mean, other_std)


def _order(nu: float) -> int:
    return round(nu - 0.5)


def _of_normals(rate: float, order: int, mean: Array, std: Array) -> Array:
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    means, stds = (
        np.ascontiguousarray(np.broadcast_to(one, shape), dtype=np.float64).reshape(-1)
        for one in (mean, std)
    )
    values = np.empty(len(means))

    def fill(rows: slice) -> None:
        _core.matern_of_normals(means[rows], stds[rows], rate, order, values[rows])

    over_rows(fill, len(values), _BLOCK)
    return values.reshape(shape)


def _of_pairs(
    rate: float, order: int, mean: Array, std: Array, other_mean: Array, other_std: Array
) -> Array:
    means, stds, against, spread = (
        np.ascontiguousarray(one, dtype=np.float64)
        for pair in ((mean, std), (other_mean, other_std))
        for one in np.broadcast_arrays(*pair)
    )
    values = np.empty((len(means), len(against)))

    def fill(rows: slice) -> None:
        _core.matern_of_normal_pairs(
            means[rows], stds[rows], against, spread, rate, order, values[rows]
        )

    over_rows(fill, len(means), max(1, _BLOCK // max(1, len(against))))
    return values
