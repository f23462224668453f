"""Gaussian predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.checks import check_count
from fastmcmd._base.gauss import gauss_hermite
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.threads import get_num_threads
from fastmcmd.kernels import RBF, Delta, Kernel, Laplacian, Linear, Matern, Polynomial
from fastmcmd.kernels.distance import number
from fastmcmd.predictive.atomless import without_atoms
from fastmcmd.predictive.base import Predictive, check_levels, parameter
from fastmcmd.predictive.numerics import half_lines
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    SymmetricFamily,
    clipped_scores,
    interval_masses,
    piece_scores,
    symmetric_scores,
    symmetric_tails,
)
from fastmcmd.predictive.numerics.density_terms import DensityFamily, DensityTerm, density_term
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.log_densities import LogDensity, log_densities
from fastmcmd.predictive.numerics.quadrature import composite

__all__ = ["Gaussian", "Normal", "of_normal_difference", "of_normal_pairs"]

_ORDER = 64  # Gauss-Hermite nodes: exact to rounding for smooth kernels wider than about std / 3


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Gaussian(Predictive):
    """Normal distributions, with independent components for vector outputs; `Normal` is another name.

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
    Two rows with their own means and one standard deviation:

    >>> import fastmcmd as fm
    >>> g = fm.Gaussian([0.0, 1.0], 2.0)
    >>> g.variance.tolist(), g.cdf([0.0, 3.0]).round(3).tolist()
    ([4.0, 4.0], [0.5, 0.841])

    Central intervals of 90 %, one row per prediction:

    >>> g.quantile([0.05, 0.95]).round(2).tolist()
    [[-3.29, 3.29], [-2.29, 4.29]]
    """

    mean: Array
    std: Array

    has_inverse = True

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        mean = parameter(mean, "mean")
        std = parameter(std, "std", least=0.0, strict=True)
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

    def __repr__(self) -> str:
        return f"Gaussian{self.shape}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the outputs."""
        return self.mean.shape

    @property
    def variance(self) -> Array:
        """Variances."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,), or (n, k) per component."""
        return self.cdf_and_sf(y)[0]

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y); small probabilities keep all their digits."""
        return self.cdf_and_sf(y)[1]

    def cdf_and_sf(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return P(Y <= y) and P(Y > y) (n,), or (n, k) per component."""
        return symmetric_tails(SymmetricFamily.NORMAL, *self._broadcast(y))

    def interval_masses(self, low: Array, high: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return P(Y < low), P(Y >= low), P(Y <= high), P(Y > high) and P(low <= Y <= high) (n,)."""
        if self.columns > 1:
            return super().interval_masses(low, high)
        return interval_masses(SymmetricFamily.NORMAL, low, high, self.mean, self.std)

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; None for vectors."""
        if self.columns > 1:
            return None
        return piece_scores(SymmetricFamily.NORMAL, y, self.mean, self.std, piece)

    def clipped_scores(self, y: Array, low: Array, high: Array) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` from low to high; None for vectors."""
        if self.columns > 1:
            return None
        return clipped_scores(SymmetricFamily.NORMAL, y, self.mean, self.std, low, high)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density (n,), summed over components."""
        density = log_densities(LogDensity.NORMAL, *self._broadcast(y))
        return density if density.ndim == 1 else density.sum(axis=1)

    def log_densities(self, values: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return log densities (m, L) of some rows (m,), or all, at numbers (m, L)."""
        constants = self.mean, self.std, np.log(self.std) + np.log(2 * np.pi) / 2
        mean, std, height = ((v if rows is None else v[rows])[:, None] for v in constants)
        z = (values - mean) / std
        return np.asarray(-(z / 2) * z - height)

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the density of numbers, for the core."""
        if self.columns > 1:
            return None
        height = -np.log(self.std) - np.log(2 * np.pi) / 2
        return density_term(DensityFamily.NORMAL, height, self.mean, self.std)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), or (n, k) per component.

        Notes
        -----
        ``std (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))``, ``z = (y - mean) / std`` (Gneiting et al.,
        *Calibrated Probabilistic Forecasting Using Ensemble Model Output Statistics*, 2005, equation 5).
        """
        return symmetric_scores(SymmetricFamily.NORMAL, *self._broadcast(y))

    def _broadcast(self, y: ArrayLike) -> tuple[Array, Array, Array]:
        return np.broadcast_to(self.outcomes(y), self.shape), self.mean, self.std

    def ends(self) -> tuple[Array, Array] | None:
        """Return infinities (n,); None for vectors."""
        return (
            (np.full(len(self), -np.inf), np.full(len(self), np.inf)) if self.columns == 1 else None
        )

    @property
    def has_quick_quantiles(self) -> bool:
        """True: quantiles have a formula."""
        return True

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles, per component; levels (j,) add a last axis."""
        z = scipy.special.ndtri(check_levels(level))
        if z.ndim == 0:
            return np.asarray(self.mean + self.std * z)
        return np.asarray(self.mean[..., None] + self.std[..., None] * z)

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) of numbers at levels (n, j), which may differ from row to row."""
        return by_rows(_quantile, levels, self.mean[:, None], self.std[:, None])

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the numbers (n, j) at which `sf` equals levels (n, j)."""
        return by_rows(_upper_quantile, levels, self.mean[:, None], self.std[:, None])

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size) or (n, size, k)."""
        rng = generator(random_state, Purpose.SAMPLE)
        noise = rng.standard_normal((self.shape[0], check_count(size, "size"), *self.shape[1:]))
        return np.asarray(self.mean[:, None] + self.std[:, None] * noise)

    @property
    def coordinates(self) -> Array:
        """Means and logarithms of standard deviations (n, 2) of numbers, as those of a `Family`."""
        return np.stack([self.mean, np.log(self.std)], axis=1)

    @property
    def logarithmic(self) -> tuple[bool, ...]:
        """Which coordinates are logarithms."""
        return False, True

    def at(self, coordinates: Array) -> Gaussian:
        """Return the distributions at coordinates (m, 2)."""
        return Gaussian(coordinates[:, 0], np.exp(coordinates[:, 1]))

    def take(self, rows: NDArray[np.intp]) -> Gaussian:
        """Return the distributions of some rows."""
        part = Gaussian.__new__(Gaussian)  # these rows have been checked, and there may be none
        object.__setattr__(part, "mean", self.mean[rows])
        object.__setattr__(part, "std", self.std[rows])
        return part

    def nodes(self, splits: int = 1) -> Nodes:
        """Return Gauss-Hermite nodes; for vectors, a product grid for at most two components.

        For numbers and ``splits`` above 1, nodes come from panels between quantiles.
        """
        if splits == 1 or self.columns > 1:
            return self._hermite(_ORDER)
        z, w = composite(
            scipy.special.ndtri, lambda level: -scipy.special.ndtri(level), _density, splits=splits
        )
        values = self.mean[:, None] + self.std[:, None] * z
        return values, np.broadcast_to(w, values.shape)

    def coarse_nodes(self) -> Nodes:
        """Return nodes of a lower order, whose difference estimates the error of `nodes`."""
        return self._hermite(_ORDER * 3 // 4)

    def _hermite(self, order: int) -> Nodes:
        z, w = gauss_hermite(order)
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
        """Return E k(Y, z) for RBF, Laplacian, Polynomial and Linear kernels; for numbers, also Matern."""
        mean, std = self._moments()
        if isinstance(kernel, Polynomial):
            # S = gamma Y.z + coef0 is normal. By parts, E S^p = m E S^(p-1) + (p-1) v E S^(p-2).
            gamma = number(kernel.gamma)
            centre = gamma * (mean @ points.T) + kernel.coef0
            spread = (gamma * std) ** 2 @ (points**2).T
            before, moment = np.ones_like(centre), centre
            for power in range(2, kernel.degree + 1):
                before, moment = moment, centre * moment + (power - 1) * spread * before
            return moment
        values = of_normal_pairs(kernel, mean, std, points, np.zeros((1, points.shape[1])))
        return without_atoms(self, kernel, points) if values is None else values

    def closed_form_pairs(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return E k(Y, Y') of independent Gaussians, from the normal distribution of their difference."""
        if not isinstance(other, Gaussian):
            return None
        match kernel:
            case Linear():
                return np.asarray(self._moments()[0] @ other._moments()[0].T)
            case Delta():
                return np.zeros((len(self), len(other)))
        return of_normal_pairs(kernel, *self._moments(), *other._moments())

    def closed_form_rows(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return E k(Y_i, Y'_i) (n,) of independent Gaussians, row by row."""
        if not isinstance(other, Gaussian):
            return None
        (mean, std), (other_mean, other_std) = self._moments(), other._moments()
        match kernel:
            case Linear():
                return np.asarray(np.einsum("ij,ij->i", mean, other_mean))
            case Delta():
                return np.zeros(len(self))
        stds = list(zip(std.T, other_std.T, strict=True))
        return of_normal_difference(kernel, list((mean - other_mean).T), stds)

    def gaussian_parts(self) -> list[tuple[Array, Predictive]]:
        """Return the distribution itself, with weight 1."""
        return [(np.ones(len(self)), self)]

    def nodes_within(self, length: float) -> Nodes:
        """Return nodes of numbers from panels no longer than ``length``; for vectors, those of `nodes`."""
        if self.columns > 1:
            return self.nodes()
        widest = float(self.std.max(initial=0.0))
        z, w = composite(
            scipy.special.ndtri,
            lambda level: -scipy.special.ndtri(level),
            _density,
            length=length / max(widest, 1e-300),
        )
        values = self.mean[:, None] + self.std[:, None] * z
        return values, np.broadcast_to(w, values.shape)

    def _moments(self) -> tuple[Array, Array]:
        """Return means and standard deviations (n, k)."""
        return self.mean.reshape(len(self), -1), self.std.reshape(len(self), -1)


Normal = Gaussian  # the name in PyTorch, NumPyro, TensorFlow Probability and SciPy


def of_normal_pairs(
    kernel: Kernel, mean: Array, std: Array, other_mean: Array, other_std: Array
) -> Array | None:
    """Return ``E k(Y_i - Y'_j)`` (n, r) of independent normal vectors, or None without a closed form.

    Means and standard deviations are (n, k) and (r, k), or (1, k) if they are the same for all rows.
    """
    if (
        isinstance(kernel, RBF)
        and isinstance(kernel.gamma, float)
        and len(other_std) == len(other_mean)
    ):
        gamma, values = kernel.gamma, np.empty((len(mean), len(other_mean)))
        if values.size:
            wide, spread = 1 + 2 * gamma * std**2, 2 * gamma * other_std**2
            means, wides, againsts, spreads = map(_components, (mean, wide, other_mean, spread))
            _core.rbf_of_normal_pairs(
                gamma, means, wides, againsts, spreads, values, get_num_threads()
            )
        return values
    columns = range(mean.shape[1])
    match kernel:
        case RBF():
            gaps = (mean[:, k, None] - other_mean[None, :, k] for k in columns)
            stds = ((std[:, k, None], other_std[None, :, k]) for k in columns)
            return of_normal_difference(kernel, gaps, stds)
        case Laplacian(gamma=float() as gamma):
            vectors = zip(mean.T, std.T, other_mean.T, other_std.T, strict=True)
            return reduce(
                np.multiply, (half_lines.laplacian_of_pairs(gamma, *one) for one in vectors)
            )
        case Matern(nu=nu, length_scale=length) if len(columns) == 1:
            numbers = mean[:, 0], std[:, 0], other_mean[:, 0], other_std[:, 0]
            return half_lines.matern_of_pairs(nu, length, *numbers)
    return None


def of_normal_difference(
    kernel: Kernel, gaps: Iterable[Array], stds: Iterable[tuple[Array, Array]]
) -> Array | None:
    """Return ``E k(D)`` of normal vectors D with independent components, or None without a closed form.

    Parameters
    ----------
    kernel : Kernel
        RBF, Laplacian, or, for numbers, Matern.
    gaps : iterable of ndarray
        Mean of each component of D: arrays of one shape, that of the result.
    stds : iterable of pairs of ndarray
        Standard deviations of the two numbers whose difference is a component of D; they broadcast to that
        shape. They are passed instead of a variance because at a scale of 1e-160 variances underflow, while
        the spread still matters to the kernel.
    """
    match kernel:
        case RBF(gamma=float() as gamma):
            # A normal density of precision 2 gamma, convolved with that of the difference.
            means = list(gaps)
            distances = [_matrix(gap) for gap in means]
            values = np.empty(distances[0].shape)
            widers = []
            for one, other in stds:
                wider = np.atleast_2d((1 + 2 * gamma * one**2) + 2 * gamma * other**2)
                if wider.shape not in (values.shape, (len(values), 1)):
                    wider = np.broadcast_to(wider, values.shape)
                widers.append(_matrix(wider))
            if values.size:
                _core.rbf_of_normals(gamma, distances, widers, values, get_num_threads())
            return values.reshape(means[0].shape)
        case Laplacian(gamma=float() as gamma):
            out: Array | float = 1.0
            for gap, both in zip(gaps, stds, strict=True):
                out = out * half_lines.laplacian(gamma, gap, np.hypot(*both))
            return np.asarray(out)
        case Matern(nu=nu, length_scale=length_scale):
            (gap, *more), (both, *_) = list(gaps), list(stds)
            if not more:
                return half_lines.matern(nu, length_scale, gap, np.hypot(*both))
    return None


def _components(a: Array) -> list[Array]:
    """Return the columns of a matrix as contiguous float64 arrays."""
    return list(np.ascontiguousarray(a.T, dtype=np.float64))


def _matrix(a: Array) -> Array:
    return np.ascontiguousarray(np.atleast_2d(a), dtype=np.float64)


def _quantile(level: Array, mean: Array, std: Array) -> Array:
    return mean + std * scipy.special.ndtri(level)


def _upper_quantile(level: Array, mean: Array, std: Array) -> Array:
    return mean - std * scipy.special.ndtri(level)


def _density(z: Array) -> Array:
    """Return the standard normal density."""
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))
