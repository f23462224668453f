"""What all rows of a location-scale family share, and quantiles at levels of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive import Gaussian, Predictive, ScipyPredictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.rescaled import Rescaled

__all__ = ["Standard", "standardised"]


@dataclass(frozen=True, eq=False)
class Standard:
    """Predictions as ``location + scale Z``.

    Attributes
    ----------
    shapes : Predictive of u rows
        The distributions of Z.
    which : ndarray (n,)
        The one of each row.
    location, scale : ndarray (n,)
        Parameters of each row.
    """

    shapes: Predictive
    which: NDArray[np.intp]
    location: Array
    scale: Array

    def values(self, shared: Array) -> Array:
        """Return values (n, L) from those of Z (u, L)."""
        return np.asarray(self.location[:, None] + self.scale[:, None] * shared[self.which])


def standardised(prediction: Predictive) -> Standard | None:
    """Return continuous predictions as locations and scales of few distributions, or None."""
    match prediction:
        case Gaussian():
            one = Gaussian(np.zeros(1), np.ones(1))
            which = np.zeros(len(prediction), dtype=np.intp)
            return Standard(one, which, prediction.mean, prediction.std)
        case Rescaled():
            inner = standardised(prediction.inner)
            if inner is None:
                return None
            mean, scale = prediction.mean, prediction.scale
            location = mean + scale * (inner.location - prediction.inner.mean)
            return Standard(inner.shapes, inner.which, location, inner.scale * scale)
        case ScipyPredictive() if not prediction.discrete:
            return _of_scipy(prediction)
    return None


def _of_scipy(prediction: ScipyPredictive) -> Standard | None:
    """Return the parameters of a frozen distribution: shapes, then loc and scale (1-D of SciPy)."""
    frozen: Any = prediction.frozen
    if not hasattr(frozen.dist, "numargs"):
        return None
    count, n = frozen.dist.numargs, len(prediction)
    given = dict(frozen.kwds)
    names = [*(frozen.dist.shapes.split(", ") if frozen.dist.shapes else []), "loc", "scale"]
    given.update(zip(names, frozen.args, strict=False))
    if set(names[:count]) - set(given):
        return None

    def whole(name: str, default: float) -> Array:
        return np.array(
            np.broadcast_to(np.asarray(given.get(name, default), np.float64).ravel(), (n,))
        )

    location, scale = whole("loc", 0.0), whole("scale", 1.0)
    if not count:
        shapes = ScipyPredictive(frozen.dist(), 1)
        return Standard(shapes, np.zeros(n, dtype=np.intp), location, scale)
    distinct, which = np.unique(
        np.stack([whole(name, np.nan) for name in names[:count]], axis=1),
        axis=0,
        return_inverse=True,
    )
    if len(distinct) > n // 2:  # little is shared
        return None
    shapes = ScipyPredictive(frozen.dist(*distinct.T), len(distinct))
    return Standard(shapes, which.reshape(-1).astype(np.intp), location, scale)
