"""Frozen distributions of scipy.stats as predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.predictive.base import Array, Nodes, Predictive

__all__ = ["ScipyPredictive", "is_frozen"]

_TAIL = 1e-16  # mass left out at either end
_ORDER = 12  # Gauss-Legendre nodes a panel
# Panels end at these quantiles: closer together in the tails, where densities turn fastest in
# probability; between the outermost of them lies all but the tail mass.
_HALF = [_TAIL, 1e-13, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4]


def is_frozen(value: Any) -> bool:
    """Tell whether ``value`` is a frozen univariate distribution of scipy.stats."""
    return hasattr(value, "dist") and hasattr(value, "ppf") and hasattr(value, "rvs")


class ScipyPredictive(Predictive):
    """A frozen scipy.stats distribution whose parameters hold one value an input.

    Parameters
    ----------
    frozen : scipy.stats frozen distribution
        Continuous or discrete.
    n : int
        Number of inputs; parameters are broadcast to it.
    """

    def __init__(self, frozen: Any, n: int) -> None:
        self.frozen = frozen
        self._n = n
        # A frozen distribution has both methods; its family has only one of them.
        self.discrete = hasattr(frozen.dist, "pmf")

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (self._n,)

    def _all(self, value: Any) -> Array:
        return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (self._n,)))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._all(self.frozen.mean())

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite or NaN where the distribution has none."""
        return self._all(self.frozen.var())

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return np.asarray(np.sqrt(self.variance))

    def cdf(self, y: Any) -> Array:
        """Return P(Y <= y) (n,)."""
        return self._all(self.frozen.cdf(y))

    def cdf_below(self, y: Any) -> Array:
        """Return P(Y < y) (n,)."""
        if not self.discrete:
            return self.cdf(y)
        return self._all(self.frozen.cdf(np.ceil(np.asarray(y, dtype=np.float64)) - 1))

    def log_prob(self, y: Any) -> Array:
        """Return the log density or log probability (n,)."""
        return self._all(self.frozen.logpmf(y) if self.discrete else self.frozen.logpdf(y))

    def quantile(self, level: Any) -> Array:
        """Return quantiles (n,) or (n, j)."""
        level = np.asarray(level, dtype=np.float64)
        if level.ndim == 0:
            return self._all(self.frozen.ppf(level))
        return np.stack([self._all(self.frozen.ppf(one)) for one in level], axis=1)

    def sample(self, size: int, random_state: Any = None) -> Array:
        """Return draws (n, size)."""
        rng = np.random.default_rng(random_state)
        draws = self.frozen.rvs(size=(size, self._n), random_state=rng)
        return np.asarray(draws, dtype=np.float64).T.copy()

    def take(self, rows: NDArray[np.intp]) -> ScipyPredictive:
        """Return the distributions of some rows."""
        frozen = self.frozen

        def one(value: Any) -> Any:
            value = np.asarray(value)
            return value if value.ndim == 0 else np.broadcast_to(value, (self._n,))[rows]

        args = [one(value) for value in frozen.args]
        options = {name: one(value) for name, value in frozen.kwds.items()}
        return ScipyPredictive(frozen.dist(*args, **options), len(rows))

    def nodes(self) -> Nodes:
        """Return the support of a discrete distribution, or composite Gauss-Legendre nodes."""
        return self._support() if self.discrete else self._quadrature(_ORDER)

    def coarse_nodes(self) -> Nodes:
        """Return nodes of a lower order, whose difference estimates the error of `nodes`."""
        return self._support() if self.discrete else self._quadrature(_ORDER - 4)

    def _support(self) -> Nodes:
        low, high = (self._all(self.frozen.ppf(level)) for level in (_TAIL, 1 - _TAIL))
        # ppf(1 - tail) is limited by rounding of 1 - tail: go on by the spread of the tail itself.
        high = np.maximum(high, self._all(self.frozen.isf(_TAIL)))
        first = np.floor(np.minimum(low, high))
        count = int((high - first).max()) + 1
        values = first[:, None] + np.arange(count, dtype=np.float64)
        weights = self._pmf(values)
        return values, weights / weights.sum(axis=1, keepdims=True)

    def _pmf(self, values: Array) -> Array:
        """Return probabilities of whole numbers (n, L)."""
        return np.asarray(self.frozen.dist.pmf(values, *self._columns()), dtype=np.float64)

    def _columns(self) -> list[Any]:
        """Return the parameters as columns (n, 1), in the order of the distribution."""
        shapes = self.frozen.dist._parse_args(*self.frozen.args, **self.frozen.kwds)
        parts = [*shapes[0], shapes[1]]
        if not self.discrete:
            parts.append(shapes[2])
        return [self._all(part)[:, None] for part in parts]

    def _quadrature(self, order: int) -> Nodes:
        half = np.array(_HALF)
        low = [self._all(self.frozen.ppf(level)) for level in half]
        middle = self._all(self.frozen.ppf(0.5))
        high = [self._all(self.frozen.isf(level)) for level in half[::-1]]
        ends = np.maximum.accumulate(np.stack([*low, middle, *high], axis=1), axis=1)
        z, w = np.polynomial.legendre.leggauss(order)
        left, width = ends[:, :-1, None], np.diff(ends, axis=1)[:, :, None]
        values = (left + width * (z + 1) / 2).reshape(self._n, -1)
        weights = (np.broadcast_to(width * w / 2, (*width.shape[:2], order))).reshape(self._n, -1)
        density = np.asarray(self.frozen.dist.pdf(values, *self._columns()), dtype=np.float64)
        weights = weights * np.where(np.isfinite(density), density, 0.0)
        return values, weights / weights.sum(axis=1, keepdims=True)
