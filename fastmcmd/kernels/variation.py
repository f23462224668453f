"""The length over which a kernel on numbers varies: what quadrature has to resolve."""

from __future__ import annotations

import numpy as np

from fastmcmd.kernels.base import Kernel

__all__ = ["local_reach", "variation_length"]

_GROWTH = 1e6  # of k(y, y) far out: polynomials
_BELOW_ROUNDING = 1e-18  # of k(y, y)
_CHANGE = 0.02  # squared distance of features, relative to k(y, y), that is a first change


def variation_length(kernel: Kernel, at: float) -> float:
    """Return a length of panels over which polynomials of the nodes' order follow the kernel.

    Forty times the distance at which the features of two numbers begin to differ: 4 / sqrt(gamma) for
    an RBF kernel, on which 12 nodes are exact to 1e-10. Infinite for kernels that do not vary so.
    """
    gap = 2.0 ** np.arange(-60, 61, 0.5) * max(1.0, 1e-8 * abs(at))
    here, there = np.full((1, 1), at), (at + gap)[:, None]
    with np.errstate(all="ignore"):
        own, other = kernel.diagonal(here)[0], kernel.diagonal(there)
        if not other[-1] <= _GROWTH * max(float(own), float(other[0])):
            return np.inf  # a polynomial
        distance2 = own + other - 2 * kernel(here, there)[0]
        changed = np.flatnonzero(distance2 > _CHANGE * max(float(own), 1e-300))
    return float(40 * gap[changed[0]]) if len(changed) else np.inf


def local_reach(kernel: Kernel) -> float:
    """Return a distance of numbers beyond which a kernel is below rounding; infinite where there is none.

    Of translation-invariant kernels only: a power of two, found at a few distances from zero.
    """
    if not (kernel.translation_invariant and kernel.compiled):
        return np.inf
    gaps = 2.0 ** np.arange(-300, 301)
    with np.errstate(all="ignore"):
        values = np.abs(kernel(np.zeros((1, 1)), gaps[:, None])[0])
    large = np.flatnonzero(
        ~(values <= _BELOW_ROUNDING * float(kernel.diagonal(np.zeros((1, 1)))[0]))
    )
    if not len(large):
        return float(gaps[0])
    return np.inf if large[-1] == len(gaps) - 1 else float(gaps[large[-1] + 1])
