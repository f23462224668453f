"""What a predicted distribution is: one distribution for each of n inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.kernels import Kernel

__all__ = ["Array", "Nodes", "Predictive", "parameter"]

Array = NDArray[np.float64]
Nodes = tuple[Array, Array]


class Predictive(ABC):
    """Predicted distributions for n inputs, over numbers or vectors of k components.

    A new one gives the abstract members; expectations of kernels follow from `nodes`, or from a
    closed form in ``closed_form``.
    """

    discrete: bool = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """``(n,)``, or ``(n, k)`` for vector outputs."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Variances, of the shape of the distribution."""

    @property
    def columns(self) -> int:
        """Components k of an output."""
        return 1 if len(self.shape) == 1 else self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def cdf(self, y: Any) -> Array:
        """Return P(Y_i <= y_i) (n,)."""

    def cdf_below(self, y: Any) -> Array:
        """Return P(Y_i < y_i) (n,): the cdf for continuous distributions."""
        return self.cdf(y)

    @abstractmethod
    def log_prob(self, y: Any) -> Array:
        """Return the log density or log probability of y_i (n,)."""

    @abstractmethod
    def quantile(self, level: Any) -> Array:
        """Return quantiles: (n,) for a scalar level, (n, j) for levels (j,)."""

    @abstractmethod
    def sample(self, size: int, random_state: Any = None) -> Array:
        """Return ``size`` draws an input: (n, size), or (n, size, k) for vector outputs."""

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Predictive:
        """Return the distributions of some rows."""

    @abstractmethod
    def nodes(self) -> Nodes:
        """Return quadrature nodes (n, L) or (n, L, k) and their weights (n, L).

        Weighted sums over them are expectations under the distributions.
        """

    def coarse_nodes(self) -> Nodes:
        """Return cheaper nodes, whose difference estimates the error of `nodes`.

        The nodes themselves where their sums are exact, as for counts and draws.
        """
        return self.nodes()

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return ``E k(Y_i, z_j)`` (n, r) for points z (r, k) where a closed form is known."""
        del kernel, points
        return None

    def expected_kernel(self, kernel: Kernel, points: Any) -> Array:
        """Return ``E k(Y_i, z_j)`` (n, r) for points z (r,) or (r, k).

        Parameters
        ----------
        kernel : Kernel
            Resolved kernel on outputs.
        points : array_like
            Points z.
        """
        from fastmcmd.predictive.expectation import expected_kernel

        points = np.asarray(points, dtype=np.float64)
        return expected_kernel(self, kernel, points[:, None] if points.ndim == 1 else points)


def parameter(value: Any, name: str, *, least: float | None = None, strict: bool = False) -> Array:
    """Return a parameter as finite float64, checked to be (strictly) above ``least``."""
    from fastmcmd.checks import as_array

    array = as_array(value, name).astype(np.float64)
    if not np.isfinite(array).all():
        what = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} holds {what}; finite numbers are needed")
    if least is not None:
        bad = array <= least if strict else array < least
        if bad.any():
            sign = ">" if strict else ">="
            raise ValueError(
                f"{name} has values down to {array.min():g}; all must be {sign} {least:g}"
            )
    return array
