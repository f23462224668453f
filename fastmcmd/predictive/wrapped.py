"""Base classes of predictions that hold another prediction: unchanged, or transformed."""

from __future__ import annotations

import functools
from abc import abstractmethod, update_abstractmethods
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.cached import cached_property
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.numerics.spread import root_of_squares

__all__ = ["Affine", "Derived", "Wrapped"]


class Derived(Predictive):
    """Distributions computed row by row from those of another prediction.

    A subclass overrides `_moments`, or ``mean`` and ``std``.

    Attributes
    ----------
    inner : Predictive
        The prediction.
    """

    inner: Predictive

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return self.inner.shape

    @property
    def has_quick_quantiles(self) -> bool:
        """Whether those of the inner distribution are."""
        return self.inner.has_quick_quantiles

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Means and standard deviations (n,); by default, sums over nodes."""
        values, masses = self.nodes()
        mean = np.einsum("nl,nl->n", masses, values)
        return mean, root_of_squares(masses, values - mean[:, None])

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._moments[0]

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return self._moments[1]

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)


class Affine(Predictive):
    """Distributions of an increasing affine function of outcomes of another prediction.

    A subclass defines `_forth`, the function, and `_back`, its inverse.

    Attributes
    ----------
    inner : Predictive
        The prediction.
    scale : ndarray (n,)
        Slopes of the function.
    """

    inner: Predictive
    scale: Array

    @abstractmethod
    def _back(self, y: ArrayLike) -> Array:
        """Return the outcomes of the inner distributions that are mapped to y."""

    @abstractmethod
    def _forth(self, values: Array) -> Array:
        """Return the values (n,) or (n, j) to which those of the inner distributions are mapped."""

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        return self.inner.cdf(self._back(y))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,)."""
        return self.inner.sf(self._back(y))

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density (n,): that of the inner distribution minus the log of the scale."""
        return np.asarray(self.inner.log_prob(self._back(y)) - np.log(self.scale))

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j)."""
        return self._forth(self.inner.quantile(level))

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        return self._forth(self.inner.quantiles_at(levels))

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the numbers (n, j) at which `sf` equals levels (n, j)."""
        return self._forth(self.inner.upper_quantiles_at(levels))

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        return self._forth(self.inner.sample(size, random_state))

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the nodes of the inner distributions, mapped, and their weights."""
        values, weights = self.inner.nodes(splits)
        return self._forth(values), weights

    def nodes_within(self, length: float) -> Nodes:
        """Return mapped nodes, from panels no longer than ``length`` after they are mapped."""
        values, weights = self.inner.nodes_within(length / float(self.scale.max()))
        return self._forth(values), weights

    def coarse_nodes(self) -> Nodes:
        """Return the mapped nodes of a lower order."""
        values, weights = self.inner.coarse_nodes()
        return self._forth(values), weights


class Wrapped(Predictive):
    """The same distributions as another prediction, to which every public member is forwarded.

    It is the base of wrappers that do not change the distributions. A wrapper that changes them subclasses
    `Predictive`, whose defaults then follow from the methods that it overrides.

    Parameters
    ----------
    base : Predictive
        The prediction.
    """

    if TYPE_CHECKING:  # the abstract members; at run time `_forward_all` creates them

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def variance(self) -> Array: ...
        def cdf(self, y: ArrayLike) -> Array: ...
        def log_prob(self, y: ArrayLike) -> Array: ...
        def quantile(self, level: ArrayLike) -> Array: ...
        def sample(self, size: int, random_state: RandomState = None) -> Array: ...
        def take(self, rows: NDArray[np.intp]) -> Predictive: ...
        def nodes(self, splits: int = 1) -> Nodes: ...

    def __init__(self, base: Predictive) -> None:
        self.base = base
        self.discrete = base.discrete
        self.has_density, self.has_inverse = base.has_density, base.has_inverse

    def __repr__(self) -> str:
        return repr(self.base)


def _forwarding(name: str, member: object) -> Any:
    """Return a property or method that forwards to the base."""
    if not callable(member):
        return property(lambda self: getattr(self.base, name), doc=getattr(member, "__doc__", None))

    def method(self: Wrapped, *args: object, **kwargs: object) -> Any:
        ask: Callable[..., Array] = getattr(self.base, name)
        return ask(*args, **kwargs)

    functools.update_wrapper(method, member)
    vars(method).pop("__isabstractmethod__", None)
    return method


def _forward_all() -> None:
    flags = Predictive.__annotations__  # `Wrapped.__init__` copies these
    members = {name: member for name, member in vars(Predictive).items() if name[0] != "_"}
    for name, member in ({"mean": None, "std": None} | members).items():
        if name not in flags:
            setattr(Wrapped, name, _forwarding(name, member))
    update_abstractmethods(Wrapped)


_forward_all()
