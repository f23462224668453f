"""Gaussian predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fastmcmd.kernels import RBF, Kernel, Laplacian, Matern, Polynomial
from fastmcmd.predictive import half_lines
from fastmcmd.predictive.atomless import without_atoms
from fastmcmd.predictive.base import (
    Array,
    Nodes,
    Predictive,
    check_levels,
    check_size,
    parameter,
)
from fastmcmd.predictive.quadrature import composite

__all__ = ["Gaussian"]

_ORDER = 64  # Gauss-Hermite nodes: exact for smooth kernels wider than about a third of std


@dataclass(frozen=True, eq=False)
class Gaussian(Predictive):
    """Normal distributions, with independent components for vector outputs.

    Parameters
    ----------
    mean : array_like (n,) or (n, k)
        Means; (n, 1) is taken as (n,).
    std : array_like, broadcast to the shape of ``mean``
        Standard deviations, positive.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, or whose shapes do not fit.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> g = fm.Gaussian([0.0, 1.0], 2.0)
    >>> g.variance.tolist()
    [4.0, 4.0]
    """

    mean: Array
    std: Array

    def __post_init__(self) -> None:
        mean = parameter(self.mean, "mean")
        std = parameter(self.std, "std", least=0.0, strict=True)
        if mean.ndim not in (1, 2):
            raise ValueError(f"mean has shape {mean.shape}; (n,) or (n, k) is needed")
        try:
            std = np.broadcast_to(std, mean.shape)
        except ValueError:
            raise ValueError(
                f"std has shape {std.shape}, which does not broadcast to that of mean, {mean.shape}"
            ) from None
        if mean.ndim == 2 and mean.shape[1] == 1:
            mean, std = mean[:, 0], std[:, 0]
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "std", std)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the outputs."""
        return self.mean.shape

    @property
    def variance(self) -> Array:
        """Variances."""
        return np.asarray(self.std**2)

    def cdf(self, y: Any) -> Array:
        """Return P(Y <= y) (n,), or (n, k) per component."""
        return np.asarray(special.ndtr((self.outcomes(y) - self.mean) / self.std))

    def log_prob(self, y: Any) -> Array:
        """Return the log density (n,), summed over components."""
        z = (self.outcomes(y) - self.mean) / self.std
        density = -z * z / 2 - np.log(self.std) - np.log(2 * np.pi) / 2
        return density if density.ndim == 1 else density.sum(axis=1)

    def quantile(self, level: Any) -> Array:
        """Return quantiles, per component; levels (j,) add a last axis."""
        z = special.ndtri(check_levels(level))
        if z.ndim == 0:
            return np.asarray(self.mean + self.std * z)
        return np.asarray(self.mean[..., None] + self.std[..., None] * z)

    def sample(self, size: int, random_state: Any = None) -> Array:
        """Return draws (n, size) or (n, size, k)."""
        rng = np.random.default_rng(random_state)
        noise = rng.standard_normal((self.shape[0], check_size(size), *self.shape[1:]))
        return np.asarray(self.mean[:, None] + self.std[:, None] * noise)

    def take(self, rows: NDArray[np.intp]) -> Gaussian:
        """Return the distributions of some rows."""
        return Gaussian(self.mean[rows], self.std[rows])

    def nodes(self, splits: int = 1) -> Nodes:
        """Return Gauss-Hermite nodes; for vectors only up to two components (a product grid).

        With more ``splits``, for numbers, panels between quantiles.
        """
        if splits == 1 or self.columns > 1:
            return self._hermite(_ORDER)
        z, w = composite(
            special.ndtri, lambda level: -special.ndtri(level), _density, splits=splits
        )
        values = self.mean[:, None] + self.std[:, None] * z
        return values, np.broadcast_to(w, values.shape)

    def coarse_nodes(self) -> Nodes:
        """Return nodes of a lower order, whose difference estimates the error of `nodes`."""
        return self._hermite(_ORDER * 3 // 4)

    def _hermite(self, order: int) -> Nodes:
        z, w = np.polynomial.hermite_e.hermegauss(order)
        w = w / w.sum()
        keep = w > 1e-18
        z, w = z[keep], w[keep]
        if self.mean.ndim == 1:
            values = self.mean[:, None] + self.std[:, None] * z
            return values, np.broadcast_to(w, values.shape)
        if self.columns > 2:
            raise ValueError(
                f"expectations of this y_kernel under Gaussian predictions with {self.columns} "
                "components have no closed form here; use an RBF y_kernel, or draws=..."
            )
        grid = np.stack(np.meshgrid(*([z] * self.columns), indexing="ij"), -1).reshape(
            -1, self.columns
        )
        weight = np.prod(
            np.stack(np.meshgrid(*([w] * self.columns), indexing="ij"), -1), -1
        ).ravel()
        grid, weight = grid[weight > 1e-18], weight[weight > 1e-18]
        values = self.mean[:, None] + self.std[:, None] * grid
        return values, np.broadcast_to(weight, values.shape[:2])

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z): RBF, Laplacian, Polynomial and Linear; for numbers Matern too."""
        mean = self.mean.reshape(len(self), -1)
        std = self.std.reshape(len(self), -1)
        match kernel:
            case RBF(gamma=float() as gamma):
                # A Gaussian of precision 2 gamma, convolved with one of variance std^2.
                spread = 1 + 2 * gamma * std**2
                exponent = np.zeros((len(self), len(points)))
                for k in range(mean.shape[1]):
                    gap = mean[:, k, None] - points[None, :, k]
                    exponent -= gamma * gap**2 / spread[:, k, None]
                return np.asarray(np.exp(exponent) / np.sqrt(spread.prod(axis=1))[:, None])
            case Laplacian(gamma=float() as gamma):
                out = np.ones((len(self), len(points)))
                for k in range(mean.shape[1]):
                    m, s = mean[:, k, None], std[:, k, None]
                    out *= half_lines.laplacian(gamma, m, s, points[None, :, k])
                return out
            case Matern(nu=nu, length_scale=length_scale) if mean.shape[1] == 1:
                return half_lines.matern(nu, length_scale, mean, std, points.T)
            case Polynomial(degree=degree, gamma=float() as gamma, coef0=coef0):
                # gamma Y.z + coef0 is normal: moments by parts, E S^p = m E S^(p-1) + (p-1) v E S^(p-2).
                centre = gamma * (mean @ points.T) + coef0
                variance = gamma**2 * (std**2 @ (points**2).T)
                before, moment = np.ones_like(centre), centre
                for power in range(2, degree + 1):
                    before, moment = moment, centre * moment + (power - 1) * variance * before
                return moment
        return without_atoms(self, kernel, points)


def _density(z: Array) -> Array:
    """Return the standard normal density."""
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))
