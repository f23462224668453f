"""Predictions shifted, and stretched or shrunk around their means."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Draws, Gaussian, Predictive
from fastmcmd.predictive.atomless import without_atoms
from fastmcmd.predictive.base import Array
from fastmcmd.predictive.wrapped import Affine, Derived

__all__ = ["Rescaled", "rescale"]


def rescale(prediction: Predictive, scale: ArrayLike, shift: ArrayLike = 0.0) -> Predictive:
    """Return predictions whose distance from the mean is multiplied by ``scale``, then shifted.

    Gaussians stay Gaussians and draws stay draws; other continuous distributions become `Rescaled`.

    Parameters
    ----------
    prediction : Predictive
        Predicted distributions of numbers, continuous or draws.
    scale : array_like, scalar or (n,)
        Positive factors.
    shift : array_like, scalar or (n,)
        Numbers added to the means.

    Raises
    ------
    ValueError
        Counts, whose outcomes would no longer be whole numbers; or means that are not finite.
    """
    scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), prediction.shape)
    shift = np.broadcast_to(np.asarray(shift, dtype=np.float64), prediction.shape)
    match prediction:
        case Gaussian():
            return Gaussian(prediction.mean + shift, prediction.std * scale)
        case Draws():
            mean = prediction.mean[:, None]
            return Draws((mean + shift[:, None]) + scale[:, None] * (prediction.array - mean))
        case Rescaled():
            return Rescaled(prediction.inner, prediction.scale * scale, prediction.shift + shift)
    return Rescaled(prediction, scale, shift)


class Rescaled(Affine, Derived):
    """Distributions of ``mean + shift + scale (Y - mean)`` for continuous predictions of Y.

    Parameters
    ----------
    inner : Predictive
        Continuous predicted distributions of n numbers, with finite means.
    scale : array_like (n,)
        Positive factors.
    shift : array_like, scalar or (n,)
        Numbers added to the means.

    Raises
    ------
    ValueError
        A discrete distribution, or means that are not finite.

    Examples
    --------
    >>> from scipy import stats
    >>> from fastmcmd.predictive import as_predictive
    >>> from fastmcmd.recalibration import Rescaled
    >>> Rescaled(as_predictive(stats.laplace([0.0, 1.0]), 2), [1.0, 3.0]).variance.round(9).tolist()
    [2.0, 18.0]
    """

    def __init__(self, inner: Predictive, scale: ArrayLike, shift: ArrayLike = 0.0) -> None:
        if inner.discrete:
            raise ValueError(
                f"prediction is discrete ({inner!r}): rescaled, its outcomes would no longer be those of "
                "a count; use IsotonicCDF or QuantileRecalibrator, which keep them"
            )
        self.inner = inner
        self.scale = np.array(np.broadcast_to(np.asarray(scale, dtype=np.float64), inner.shape))
        self.shift = np.array(np.broadcast_to(np.asarray(shift, dtype=np.float64), inner.shape))
        self._inner_mean = np.asarray(inner.mean)
        self._mean = self._inner_mean + self.shift
        if not np.isfinite(self._inner_mean).all():
            raise ValueError("prediction has means that are not finite, around which to rescale")
        if not (np.isfinite(self.scale) & (self.scale > 0)).all():
            raise ValueError("scale has values that are not positive and finite")
        if not np.isfinite(self._mean).all():
            raise ValueError("shift has values that are not finite, or too large for the means")
        self.has_density, self.has_inverse = inner.has_density, inner.has_inverse

    @property
    def atomless(self) -> bool:
        """Whether every single output has probability 0 under the inner distribution."""
        return self.inner.atomless

    def __repr__(self) -> str:
        return f"Rescaled({self.inner!r})"

    @property
    def mean(self) -> Array:
        """Means (n,): those of the prediction plus the shift."""
        return self._mean

    @property
    def std(self) -> Array:
        """Standard deviations (n,): those of the prediction times the scale."""
        return np.asarray(self.inner.std * self.scale)

    def _back(self, y: ArrayLike) -> Array:
        """Return the outcomes of the inner distributions that are mapped to y."""
        with np.errstate(over="ignore"):
            return np.asarray(self._inner_mean + (self.outcomes(y) - self._mean) / self.scale)

    def kinks(self) -> Array:
        """Return those of the inner distributions, mapped."""
        from_mean = self.inner.kinks() - self._inner_mean[:, None]
        return np.asarray(self._mean[:, None] + self.scale[:, None] * from_mean)

    def atoms(self) -> Array:
        """Return those of the inner distributions, mapped."""
        return self._forth(self.inner.atoms())

    def jump_levels(self) -> tuple[Array, Array]:
        """Return those of the inner distributions: a mapped atom, mapped back, would be rounded."""
        return self.inner.jump_levels()

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        return self.inner.cdf_below(self._back(y))

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), which is homogeneous in the scale."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        back = self._back(y)
        with np.errstate(over="ignore"):
            score = self.scale * self.inner.crps(back)
            # So far out, only the distance matters.
            return np.where(np.isinf(back) & np.isfinite(y), np.abs(y - self._mean), score)

    def _forth(self, values: Array) -> Array:
        """Return the values (n,) or (n, j) to which those of the inner distributions are mapped."""
        before, mean, scale = self._inner_mean, self._mean, self.scale
        if values.ndim == 2:
            before, mean, scale = before[:, None], mean[:, None], scale[:, None]
        return np.asarray(mean + scale * (values - before))

    def take(self, rows: NDArray[np.intp]) -> Rescaled:
        """Return the distributions of some rows."""
        return Rescaled(self.inner.take(rows), self.scale[rows], self.shift[rows])

    @property
    def exact_nodes(self) -> bool:
        """Whether the nodes of the inner distributions are exact."""
        return self.inner.exact_nodes

    @property
    def rough_levels(self) -> Array:
        """Levels at which the inner quantile functions are not smooth."""
        return self.inner.rough_levels

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return self.inner.node_count

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z) for kernels that need no integral."""
        return without_atoms(self, kernel, points) if self.has_density else None
