"""Log densities and log probabilities of families of scipy.stats, faster or more exact than SciPy's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.predictive.numerics.count_masses import hypergeometric_log_masses
from fastmcmd.predictive.numerics.log_densities import LogDensity, log_densities

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

__all__ = ["closed_log_prob"]

_OF_RATIOS = {"fisk": LogDensity.LOG_LOGISTIC, "loglaplace": LogDensity.LOG_LAPLACE}


def closed_log_prob(frozen: rv_frozen, y: Array) -> Array | None:
    """Return log densities or log probabilities (n,) of a frozen distribution; None without a formula."""
    name = frozen.dist.name
    if name not in ("genextreme", "hypergeom", *_OF_RATIOS):
        return None
    values, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
    shapes = [np.asarray(one, dtype=np.float64) for one in values]
    if name == "hypergeom":
        return hypergeometric_log_masses(y - loc, *shapes)
    if name == "genextreme":
        return log_densities(LogDensity.EXTREME, y, *shapes, loc, scale)
    with np.errstate(over="ignore"):
        return log_densities(_OF_RATIOS[name], y - loc, scale, *shapes)
