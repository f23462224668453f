"""The base class of continuous families, with one value of each parameter per input."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_count
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.base import check_levels, check_range, parameter
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.log_densities import LogDensity, log_densities

__all__ = ["Family", "parameters"]


_VALUES = 1 << 14  # densities per block: temporaries stay in the cache
_SHAPES = 1e-100, 1e100  # sums and reciprocals of shapes stay in range


def parameters(
    positive: tuple[str, ...], *, shapes: tuple[str, ...] = (), **values: object
) -> dict[str, Array]:
    """Return parameters as finite float64 (n,), with scalars repeated; at least one must have length n.

    Parameters
    ----------
    positive : tuple of str
        Names of the parameters that must be > 0.
    shapes : tuple of str
        Names of those that no change of the unit alters: special functions take them.
    **given : array_like
        Scalars, (n,) or (n, 1).
    """
    arrays = {}
    for name, value in values.items():
        array = parameter(value, name, least=0.0 if name in positive else None, strict=True)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim > 1:
            raise ValueError(
                f"{name} has shape {array.shape}; a scalar or (n,) is needed: one value per input"
            )
        if name in shapes:
            check_range(array, name, *_SHAPES)
        arrays[name] = array
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim}
    if not lengths:
        raise ValueError(
            f"{' and '.join(arrays)} are scalars; at least one must be (n,): one value per input"
        )
    if len(set(lengths.values())) > 1:
        lengths_text = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"parameters must have the same number of rows, or be scalars: {lengths_text}"
        )
    shape = (next(iter(lengths.values())),)
    for name, array in arrays.items():
        if array.shape == shape:
            array.setflags(write=False)
        else:
            arrays[name] = np.broadcast_to(array, shape)
    return arrays


class Family(ScipyPredictive):
    """A continuous family of scipy.stats, with formulas of its own that are faster or in closed form.

    A subclass lists its parameters, which become attributes (n,), and defines its moments, the formulas
    below for blocks of rows (outcomes or levels, then the parameters in order), and the frozen
    distribution. The frozen distribution is created only for what SciPy computes: nodes and higher
    moments.
    """

    discrete = False
    _names: tuple[str, ...]
    # Positive parameters, with whose logarithms distributions vary smoothly.
    _scales: tuple[str, ...] = ()
    _ends = (-np.inf, np.inf)  # of the support of all rows
    _core_density: ClassVar[LogDensity | None] = None  # by which the core knows the log density
    # Whether `_crps` is a loop of the core, which divides rows itself.
    _has_core_scores: ClassVar[bool] = False
    _upper_quantile: Any = None  # a formula like the others; without it, SciPy's ``isf`` is used

    def __init__(self, values: dict[str, Array]) -> None:
        for name in self._names:
            setattr(self, name, values[name])
        self._n = len(values[self._names[0]])

    @property
    def _values(self) -> tuple[Array, ...]:
        return tuple(getattr(self, name) for name in self._names)

    @property
    def coordinates(self) -> Array:
        """Coordinates (n, k) of the parameters, with which smooth expectations vary smoothly."""
        columns = zip(self._values, self.logarithmic, strict=True)
        return np.stack([np.log(one) if is_log else one for one, is_log in columns], axis=1)

    @property
    def logarithmic(self) -> tuple[bool, ...]:
        """Which coordinates are logarithms."""
        return tuple(name in self._scales for name in self._names)

    def at(self, coordinates: Array) -> Family:
        """Return the distributions of this family at coordinates (m, k)."""
        columns = zip(self._names, coordinates.T, self.logarithmic, strict=True)
        return self._with({name: np.exp(one) if is_log else one for name, one, is_log in columns})

    @cached_property
    def frozen(self) -> Any:
        """The same distribution in scipy.stats."""
        return self._freeze()

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.shape}"

    def take(self, rows: NDArray[np.intp]) -> Family:
        """Return the distributions of some rows."""
        return self._with({name: getattr(self, name)[rows] for name in self._names})

    def _with(self, values: dict[str, Array]) -> Family:
        """Return distributions of this family with other parameters, which are not checked."""
        part = type(self).__new__(type(self))
        Family.__init__(part, values)
        return part

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        return self._by_rows(self._cdf, y)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,); small probabilities keep all their digits."""
        return self._by_rows(self._sf, y)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density (n,): -inf outside the support."""
        if self._core_density is not None:
            return log_densities(self._core_density, self.outcomes(y), *self._values)
        return self._by_rows(self._log_prob, y)

    def log_densities(self, values: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return log densities (m, L) of some rows (m,), or all, at numbers (m, L)."""
        out = np.empty(values.shape)
        formula, constants = self._formula
        columns = [(one if rows is None else one[rows])[:, None] for one in constants]

        def work(rows: slice) -> None:
            with np.errstate(all="ignore"):
                out[rows] = formula(values[rows], *(column[rows] for column in columns))

        over_rows(work, len(out), max(1, _VALUES // max(1, values.shape[1])))
        return out

    def _density(self, values: Array) -> Array:
        """Return densities (n, L), infinite beyond doubles."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_densities(values))

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), in closed form."""
        if self._has_core_scores:
            return np.asarray(
                self._crps(np.broadcast_to(self.outcomes(y), self.shape), *self._values)
            )
        return self._by_rows(self._crps, y)

    def ends(self) -> tuple[Array, Array] | None:
        """Return the ends (n,) of the support."""
        low, high = self._ends
        return np.full(len(self), low), np.full(len(self), high)

    @property
    def has_quick_quantiles(self) -> bool:
        """True: quantiles have a formula."""
        return True

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j)."""
        levels = check_levels(level)
        quantiles = np.empty((len(self), levels.size))
        for column, one in enumerate(levels.ravel()):
            # The level is passed as a number, so functions of it alone are computed once, not per row.
            quantiles[:, column] = by_rows(partial(self._quantile, one), *self._values)
        return quantiles[:, 0] if levels.ndim == 0 else quantiles

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        return by_rows(self._quantile, levels, *(value[:, None] for value in self._values))

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the numbers (n, j) at which `sf` equals levels (n, j)."""
        if self._upper_quantile is None:
            return super().upper_quantiles_at(levels)
        return by_rows(self._upper_quantile, levels, *(value[:, None] for value in self._values))

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        shape = (len(self), check_count(size, "size"))
        values = (value[:, None] for value in self._values)
        return self._sample(generator(random_state, Purpose.SAMPLE), shape, *values)

    @cached_property
    def _formula(self) -> tuple[Any, tuple[Array, ...]]:
        with np.errstate(all="ignore"):
            return self._density_formula()

    def _density_formula(self) -> tuple[Any, tuple[Array, ...]]:
        """Return a formula of log densities at (m, L), and the constants (n,) that it takes by row."""
        return self._log_prob, self._values

    def _by_rows(self, function: Callable[..., Array], y: ArrayLike) -> Array:
        """Return the values of a formula at outcomes."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return by_rows(function, y, *self._values)

    @abstractmethod
    def _freeze(self) -> Any: ...

    # Formulas for a block of rows. Arguments: outcomes or levels, then the parameters in order.

    @abstractmethod
    def _cdf(self, *values: Any, **options: Any) -> Any: ...

    @abstractmethod
    def _sf(self, *values: Any, **options: Any) -> Any: ...

    @abstractmethod
    def _log_prob(self, *values: Any, **options: Any) -> Any: ...

    @abstractmethod
    def _crps(self, *values: Any, **options: Any) -> Any: ...

    @abstractmethod
    def _quantile(self, *values: Any, **options: Any) -> Any: ...

    @abstractmethod
    def _sample(self, *values: Any, **options: Any) -> Any: ...
