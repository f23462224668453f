"""Frozen distributions of scipy.stats as the classes here that have closed forms for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.beta import Beta
from fastmcmd.predictive.counts import NegativeBinomial, Poisson
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.location_scale import Laplace, StudentT, Uniform
from fastmcmd.predictive.positive import Gamma, LogNormal

__all__ = ["from_frozen"]


def from_frozen(frozen: Any, n: int) -> Predictive:
    """Return a frozen distribution as a class with closed forms if there is one for it.

    Parameters
    ----------
    frozen : scipy.stats frozen distribution
        Its parameters are numbers or (m,); with (m,) it has m rows, else ``n``.
    n : int
        Rows of the outputs.
    """
    sizes = {np.size(value) for value in (*frozen.args, *frozen.kwds.values())} - {1}
    if len(sizes) == 1:  # the rows that it has: a mismatch is told by as_predictive
        n = sizes.pop()
    wrapped = ScipyPredictive(frozen, n)
    known = _known(wrapped)
    return wrapped if known is None else known


def _known(wrapped: ScipyPredictive) -> Predictive | None:
    family = wrapped.frozen.dist
    if not _of_scipy(family):
        return None
    names = [] if not family.shapes else [name.strip() for name in family.shapes.split(",")]
    given = dict(zip([*names, "loc", "scale"], wrapped.frozen.args, strict=False))
    given = {"loc": 0.0, "scale": 1.0} | given | wrapped.frozen.kwds

    def one(name: str) -> Any:
        return np.array(np.broadcast_to(np.asarray(given[name], np.float64).ravel(), wrapped.shape))

    loc, scale = one("loc"), one("scale")
    unmoved = not loc.any()
    match family.name:
        case "norm":
            return Gaussian(loc, scale)
        case "t":
            return StudentT(one("df"), loc, scale)
        case "cauchy":
            return StudentT(1.0, loc, scale)
        case "laplace":
            return Laplace(loc, scale)
        case "uniform":
            return Uniform(loc, loc + scale)
        case "lognorm" if unmoved:
            return LogNormal(np.log(scale), one("s"))
        case "gamma" if unmoved:
            return Gamma(one("a"), scale=scale)
        case "expon" if unmoved:
            return Gamma(1.0, scale=scale)
        case "beta" if unmoved and (scale == 1).all():
            return Beta(one("a"), one("b"))
        case "poisson" if unmoved:
            return Poisson(one("mu"))
        case "nbinom" if unmoved:
            return NegativeBinomial.from_n_p(one("n"), one("p"))
    return None


def _of_scipy(family: Any) -> bool:
    """Tell whether a family is the one of its name in SciPy, not the user's own."""
    from scipy import stats

    return type(family) is type(getattr(stats, str(family.name), None))
