"""Gaussian quadrature rules, computed once each: a rule of 100 nodes takes a millisecond."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["gauss_hermite", "gauss_legendre"]

Rule = tuple[NDArray[np.float64], NDArray[np.float64]]


@lru_cache(maxsize=64)
def gauss_legendre(order: int) -> Rule:
    """Return nodes in (-1, 1) and weights of the given order, read-only."""
    return _constant(np.polynomial.legendre.leggauss(order))


@lru_cache(maxsize=64)
def gauss_hermite(order: int) -> Rule:
    """Return nodes and weights for the weight function exp(-z^2 / 2), read-only."""
    return _constant(np.polynomial.hermite_e.hermegauss(order))


def _constant(rule: Rule) -> Rule:
    for part in rule:
        part.setflags(write=False)
    return rule
