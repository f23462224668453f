"""Predictions given as (mean, std) or draws on a GPU, with the same formulas as on the host."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, Array, Nodes, RandomState
from fastmcmd._base.arrays import Namespace, shape_only
from fastmcmd._base.blocks import row_blocks
from fastmcmd.predictive.adapters.convert import as_predictive
from fastmcmd.predictive.base import Predictive, check_levels
from fastmcmd.predictive.draws import Draws, crps_factors, places_of, refuse_density
from fastmcmd.predictive.gaussian import Gaussian

__all__ = [
    "DeviceDraws",
    "DeviceGaussian",
    "DevicePrediction",
    "bring_parameters",
    "family",
    "on_device_predictive",
]

# Draws per block: temporaries of 64 MB each, and enough work for any array library.
_BLOCK = 1 << 23


def family(prediction: Predictive) -> str:
    """Return the name of a prediction's class for messages, the same on host and device."""
    return type(prediction).__name__.removeprefix("Device")


class DevicePrediction(Predictive):
    """Predicted distributions whose parameters and results are arrays on a device.

    Attributes
    ----------
    namespace : Namespace
        The array library of the parameters.
    """

    namespace: Namespace

    @abstractmethod
    def on_host(self) -> Predictive:
        """Return the same distributions on the host."""

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws generated on the host, equal to those of `on_host`."""
        return self.on_host().sample(size, random_state)

    def nodes(self, splits: int = 1) -> Nodes:
        """Return nodes and weights as host arrays."""
        return self.on_host().nodes(splits)


@dataclass(frozen=True, eq=False, repr=False)
class DeviceGaussian(DevicePrediction):
    """Normal distributions (n,), or (n, k) of independent components, on a device.

    Parameters
    ----------
    namespace : Namespace
        The array library of ``mean`` and ``std``.
    mean, std : array of float64, both (n,) or (n, k)
        Checked means and standard deviations.
    """

    namespace: Namespace
    mean: AnyArray
    std: AnyArray

    has_inverse = True

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)`` or ``(n, k)``."""
        return tuple(self.mean.shape)

    @property
    def variance(self) -> Array:
        """Variances."""
        return self.std**2

    def cdf(self, y: AnyArray) -> Array:
        """Return P(Y <= y)."""
        return self.namespace.special.ndtr((y - self.mean) / self.std)

    def log_prob(self, y: AnyArray) -> Array:
        """Return the log density (n,), summed over components."""
        xp = self.namespace.xp
        z = (y - self.mean) / self.std
        density = -z * z / 2 - xp.log(self.std) - math.log(2 * math.pi) / 2
        return density if len(self.shape) == 1 else xp.sum(density, axis=1)

    def crps(self, y: AnyArray) -> Array:
        """Return the continuous ranked probability score; see `Gaussian.crps`."""
        xp = self.namespace.xp
        z = (y - self.mean) / self.std
        score = z * self.namespace.special.erf(z / math.sqrt(2))
        score = score + math.sqrt(2 / math.pi) * xp.exp(-z * z / 2)
        return self.std * (score - 1 / math.sqrt(math.pi))

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles; levels (j,) add a last axis."""
        z = scipy.special.ndtri(check_levels(level))
        if z.ndim == 0:
            return self.mean + self.std * float(z)
        return self.mean[..., None] + self.std[..., None] * self.namespace.from_host(z)

    def take(self, rows: NDArray[np.intp]) -> DeviceGaussian:
        """Return the distributions of some rows."""
        mean, std = (self.namespace.rows(part, rows) for part in (self.mean, self.std))
        return DeviceGaussian(self.namespace, mean, std)

    def on_host(self) -> Gaussian:
        """Return the same distributions on the host."""
        to_host = self.namespace.to_host
        return Gaussian(to_host(self.mean), to_host(self.std))


class DeviceDraws(DevicePrediction):
    """Empirical distributions of draws on a device.

    Parameters
    ----------
    namespace : Namespace
        The array library of the draws.
    draws : array of float32 or float64, (n, m) or (n, m, k)
        Checked draws. For draws of vectors, only `array` and the moments are available.
    """

    has_density = False

    def __init__(self, namespace: Namespace, draws: AnyArray) -> None:
        self.namespace = namespace
        self.array = draws
        self._sorted_draws: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)`` or ``(n, k)``."""
        return (self.array.shape[0], *self.array.shape[2:])

    @property
    def node_count(self) -> int:
        """Number of draws per row."""
        return int(self.array.shape[1])

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield blocks of rows, each with its draws."""
        for rows in row_blocks(len(self), _BLOCK // math.prod(self.array.shape[1:])):
            yield rows, self.array[rows, ...]

    @property
    def mean(self) -> Array:
        """Means over draws."""
        return self.namespace.concat([self._mean(draws) for _, draws in self.blocks()])

    @property
    def variance(self) -> Array:
        """Variances over draws: those of the empirical distribution (ddof=0)."""
        variances = []
        for _, draws in self.blocks():
            gap = self._float64(draws) - self._mean(draws)[:, None]
            variances.append(self.namespace.xp.sum(gap * gap, axis=1) / self.node_count)
        return self.namespace.concat(variances)

    @property
    def std(self) -> Array:
        """Standard deviations over draws."""
        return self.namespace.xp.sqrt(self.variance)

    def _float64(self, values: AnyArray) -> AnyArray:
        return self.namespace.cast(values, "float64")

    def _mean(self, draws: AnyArray) -> AnyArray:
        return self.namespace.xp.sum(self._float64(draws), axis=1) / self.node_count

    def cdf(self, y: AnyArray) -> Array:
        """Return the share of draws <= y."""
        return self._share(lambda draws, at: draws <= at, y)

    def cdf_below(self, y: AnyArray) -> Array:
        """Return the share of draws < y."""
        return self._share(lambda draws, at: draws < at, y)

    def _share(self, condition: AnyArray, y: AnyArray) -> AnyArray:
        counts = [
            self.namespace.count(condition(x, y[rows, None, ...])) for rows, x in self.blocks()
        ]
        return self._float64(self.namespace.concat(counts)) / self.node_count

    def log_prob(self, y: AnyArray) -> Array:
        """Raise ValueError: draws have no density."""
        del y
        refuse_density()

    def quantile(self, level: ArrayLike) -> Array:
        """Return empirical quantiles; see `Draws.quantile`."""
        levels = check_levels(level)
        quantiles = [self._quantile(one) for one in np.atleast_1d(levels)]
        return quantiles[0] if levels.ndim == 0 else self.namespace.xp.stack(quantiles, axis=-1)

    def _quantile(self, level: Array) -> AnyArray:
        low, high, part = places_of(level, self.node_count)
        share = float(part)
        sorted_draws = self._sort()
        first, last = (self._float64(sorted_draws[:, int(place)]) for place in (low, high))
        gap = last - first
        # Interpolate from the nearer draw, as `Draws.quantile` does.
        return first + share * gap if share < 0.5 else last - (1 - share) * gap

    def _sort(self) -> AnyArray:
        """Return the sorted draws; they stay in memory, which doubles the bytes of the draws."""
        if self._sorted_draws is None:
            parts = (self.namespace.sort(draws) for _, draws in self.blocks())
            self._sorted_draws = self.namespace.concat(list(parts))
        return self._sorted_draws

    def crps(self, y: AnyArray, estimator: str = "qd") -> Array:
        """Return the continuous ranked probability score (n,); see `Draws.crps`."""
        factors = self.namespace.from_host(crps_factors(estimator, self.node_count))
        xp, scores = self.namespace.xp, []
        for rows, draws in self.blocks():
            sorted_draws = (
                self.namespace.sort(draws)
                if self._sorted_draws is None
                else self._sorted_draws[rows, ...]
            )
            gap = self._float64(sorted_draws) - y[rows, None, ...]
            scores.append(xp.sum(xp.abs(gap) - factors * gap, axis=1) / self.node_count)
        return self.namespace.concat(scores)

    def energy_score(self, y: AnyArray, beta: float, pairs: float) -> Array:
        """Return ``mean_i |x_i - y|^beta - sum_{i<j} |x_i - x_j|^beta / pairs`` (n,)."""
        xp, vectors, scores = self.namespace.xp, len(self.shape) == 2, []

        def powers(gaps: AnyArray) -> AnyArray:
            """Return the sums of norms to the power beta of gaps (b, l) or (b, l, k)."""
            if not vectors:
                return xp.sum(xp.abs(gaps) ** beta, axis=1)
            return xp.sum(xp.sum(gaps * gaps, axis=2) ** (beta / 2), axis=1)

        for rows, draws in self.blocks():
            x = self._float64(draws)
            near = powers(x - y[rows, None, ...])
            far = near * 0.0
            for i in range(self.node_count - 1):  # launched in sequence, without waiting for any
                far = far + powers(x[:, i + 1 :, ...] - x[:, i : i + 1, ...])
            scores.append(near / self.node_count - far / pairs)
        return self.namespace.concat(scores)

    def take(self, rows: NDArray[np.intp]) -> DeviceDraws:
        """Return the draws of some rows."""
        return DeviceDraws(self.namespace, self.namespace.rows(self.array, rows))

    def on_host(self) -> Draws:
        """Return the same draws on the host."""
        return Draws(self.namespace.to_host(self.array))


def bring_parameters(arrays: Namespace, prediction: Any) -> Any:
    """Return draws, or (mean, std), as real arrays of the device."""
    if not isinstance(prediction, tuple):
        return arrays.bring(prediction, "prediction")
    if len(prediction) != 2:
        as_predictive(prediction, 1)  # raises an error that names the requirement
    mean, std = prediction
    return arrays.bring(mean, "mean"), arrays.bring(std, "std")


def on_device_predictive(arrays: Namespace, prediction: Any, rows: AnyArray) -> DevicePrediction:
    """Return the distributions for checked outcomes (n, k) from the parameters of `bring_parameters`."""
    if isinstance(prediction, tuple):
        mean, std = prediction
        predictive = _gaussian(arrays, mean, std, rows)
    else:
        predictive = _draws(arrays, prediction, rows)
    as_predictive(predictive, rows.shape[0], rows.shape[1])  # as many rows and components as y
    return predictive


def _gaussian(arrays: Namespace, mean: AnyArray, std: AnyArray, rows: AnyArray) -> DevicePrediction:
    """Return normal distributions, with the checks of `Gaussian`."""
    xp = arrays.xp
    mean, std = arrays.cast(mean, "float64"), arrays.cast(std, "float64")
    if mean.ndim == 0:
        mean = arrays.full(rows.shape[0], 0.0) + mean
    if not bool(xp.all(xp.isfinite(mean)) & xp.all(xp.isfinite(std) & (std > 0))):
        Gaussian(arrays.to_host(mean), arrays.to_host(std))
    try:
        fits = np.broadcast_shapes(tuple(std.shape), tuple(mean.shape)) == tuple(mean.shape)
    except ValueError:
        fits = False
    if mean.ndim not in (1, 2) or not fits:
        Gaussian(shape_only(mean), shape_only(std) + 1.0)
    std = xp.broadcast_to(std, mean.shape)
    if mean.ndim == 2 and mean.shape[1] == 1:
        mean, std = mean[:, 0], std[:, 0]
    return DeviceGaussian(arrays, mean, std)


def _draws(arrays: Namespace, draws: AnyArray, rows: AnyArray) -> DevicePrediction:
    """Return draws, with the checks of `Draws`."""
    if rows.shape[1] > 1 and draws.ndim == 2:  # one vector per input
        draws = draws[:, None, :]
    if draws.ndim not in (1, 2, 3) or 0 in draws.shape:
        as_predictive(shape_only(draws), 1)  # raises an error that names the requirement
    if draws.ndim == 1:
        draws = draws[:, None]
    elif draws.ndim == 3 and draws.shape[2] == 1:
        draws = draws[:, :, 0]
    predictive, xp = DeviceDraws(arrays, draws), arrays.xp
    if not bool(xp.all(xp.stack([xp.all(xp.isfinite(block)) for _, block in predictive.blocks()]))):
        nan = xp.any(xp.stack([xp.any(xp.isnan(block)) for _, block in predictive.blocks()]))
        as_predictive(np.array([math.nan if bool(nan) else math.inf]), 1)  # raises the error
    return predictive
