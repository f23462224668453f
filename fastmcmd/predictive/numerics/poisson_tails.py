"""Compiled loop for tails of Poisson distributions with large means, imported only when needed."""

from __future__ import annotations

import math

from fastmcmd._base.annotations import Array
from fastmcmd._base.compiled import compiled
from fastmcmd.predictive.numerics.count_loops import deviance

__all__ = ["large_tails"]

_UNDERFLOWS = 800.0  # exponent beyond which the series below would overflow


@compiled
def large_tails(k: Array, mean: Array, upper: bool, out: Array) -> None:
    """Write P(Y <= k), or P(Y > k), for whole k >= 0 (n,) and means from 3e5.

    Notes
    -----
    This is Temme's uniform expansion of the incomplete gamma functions, with ``a = k + 1`` and ``eta^2 / 2
    = m/a - 1 - log(m/a)`` (NIST Digital Library of Mathematical Functions, 8.12.3 to 8.12.11):

        P(Y <= k) = erfc(eta sqrt(a/2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) sum_i c_i(eta) a^-i

    If the tail does not underflow, eta is below 0.07 and the terms left out are below 1e-15 of the tail.
    """
    for i in range(len(k)):
        a = k[i] + 1.0
        half = deviance(a, mean[i])  # a eta^2 / 2
        if half > _UNDERFLOWS:
            out[i] = 0.0 if (mean[i] < a) == upper else 1.0
            continue
        root = math.copysign(math.sqrt(half), mean[i] - a)
        eta = root * math.sqrt(2.0 / a)
        c = -281 / 151559100
        c = -571 / 261273600 + eta * c
        c = 1 / 25515 + eta * c
        c = -139 / 777600 + eta * c
        c = 1 / 2835 + eta * c
        c = 1 / 864 + eta * c
        c = -2 / 135 + eta * c
        c = 1 / 12 + eta * c
        c = -1 / 3 + eta * c
        c += (-1 / 540 + eta * (-1 / 288 + eta * (1 / 378 - eta * 77 / 77760))) / a
        c += 25 / 6048 / (a * a)
        rest = math.exp(-half) * c / math.sqrt(2.0 * math.pi * a)
        if upper:
            out[i] = 0.5 * math.erfc(-root) - rest
        else:
            out[i] = 0.5 * math.erfc(root) + rest
