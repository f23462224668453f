"""Log densities and log probabilities of families of scipy.stats, faster or more exact than SciPy's own.

Each function of a continuous family takes standardised outcomes in the support and the shape parameters of
SciPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.count_masses import hypergeometric_log_masses
from fastmcmd.predictive.numerics.elementwise import by_rows

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

__all__ = ["closed_log_prob"]


def closed_log_prob(frozen: rv_frozen, y: Array) -> Array | None:
    """Return log densities or log probabilities (n,) of a frozen distribution; None without a formula."""
    name = frozen.dist.name
    if name != "hypergeom" and name not in _FORMULAS:
        return None
    values, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    shapes = [np.asarray(one, dtype=np.float64) for one in values]
    if name == "hypergeom":
        return hypergeometric_log_masses(y - loc, *shapes)
    formula = _FORMULAS[name]

    def log_density(y: Array, loc: Array, scale: Array, *shapes: Array) -> Array:
        logs = formula((y - loc) / scale, *shapes)
        logs -= np.log(scale)
        return logs

    return by_rows(log_density, y, loc, scale, *shapes)


def _log_logistic(z: Array, c: Array) -> Array:
    log_z = np.log(z)
    logs = _power(z, log_z, c)
    logs -= 2 * np.log1p(np.exp(-np.abs(c * log_z)))
    return _in_support(z, logs + np.log(c))


def _log_laplace(z: Array, c: Array) -> Array:
    return _in_support(z, _power(z, np.log(z), c) + np.log(c / 2))


def _power(z: Array, log_z: Array, c: Array) -> Array:
    """Return the logarithm of ``z^(c - 1)`` below 1 and of ``z^(-c - 1)`` above."""
    power = np.copysign(c, -log_z) - 1
    logs = power * log_z
    if not z.all():
        logs[(z == 0) & (power == 0)] = 0.0
    return logs


def _in_support(z: Array, logs: Array) -> Array:
    """Return ``logs``, and -inf where z < 0."""
    logs[z < 0] = -np.inf
    return logs


def _extreme(z: Array, c: Array) -> Array:
    """Return log densities of generalised extreme value distributions.

    They follow from Gumbel's, of which ``log(1 + s z) / s`` is an outcome, s the shape -c.
    """
    shape = -c
    growth = shape * z
    gumbel = np.log1p(growth)
    gumbel /= shape
    if not shape.all():
        gumbel = np.where(shape == 0, z, gumbel)
    logs = -(1 + shape) * gumbel - np.exp(-gumbel)
    is_end = growth <= -1
    if is_end.any():
        logs[is_end] = -np.inf
        logs[(growth == -1) & (shape == -1)] = 0.0
    logs[np.isinf(z)] = -np.inf
    return logs


_FORMULAS: dict[str, Callable[..., Array]] = {
    "fisk": _log_logistic,
    "genextreme": _extreme,
    "loglaplace": _log_laplace,
}
