"""Distributions of other libraries, adapted through their methods: cdf, log density and optional others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.checks import check_count
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.kernels import Kernel
from fastmcmd.predictive.adapters.foreign import Caller, bounds, rows_of, says_discrete
from fastmcmd.predictive.atomless import without_atoms
from fastmcmd.predictive.base import ByQuadrature, check_levels
from fastmcmd.predictive.expectation import TAIL_MASS
from fastmcmd.predictive.numerics.crps import crps
from fastmcmd.predictive.numerics.inverse import least
from fastmcmd.predictive.numerics.quadrature import composite, node_count
from fastmcmd.predictive.numerics.spread import shared_support

__all__ = ["MethodsPredictive"]

_CDF = ("cdf",)
_SF = ("ccdf", "survival_function", "sf")
_LOG_DENSITY = ("log_prob", "logpdf")
_LOG_MASS = ("log_prob", "logpmf")
_QUANTILE = ("icdf", "quantile", "ppf")
_MEAN, _VARIANCE = ("mean",), ("variance", "var")

_MOST_VALUES = 1 << 20  # most values of one discrete distribution
_TAIL_SHARE = 1e-7  # share of a moment in the omitted tails; the moment is NaN beyond it
_WRONG = 1e-4  # error allowed in a discrete distribution's mass: long float32 sums lose as much
# A cdf jumps at a quantile if it falls by `_JUMP` within `_ULPS` units of rounding below it.
_ULPS = 4
_JUMP = {8: 1e-6, 4: 1e-3}  # by bytes of its numbers
_BLOCK = 1 << 14  # rows per block of the CRPS; each call evaluates the whole object


class MethodsPredictive(ByQuadrature):
    """Distributions of numbers from another library, evaluated through their methods.

    Parameters
    ----------
    value : object
        An object with ``cdf`` and ``log_prob`` (or ``logpdf``, ``logpmf``). Also used if present: ``icdf``
        (or ``quantile``, ``ppf``), ``survival_function`` (or ``ccdf``, ``sf``), and ``mean`` and
        ``variance``, as methods or attributes. Distributions of PyTorch, NumPyro and TensorFlow Probability
        qualify, and so do SciPy's new random variables.
    n : int
        Number of inputs; the object holds one distribution per input, or one for all.
    discrete : bool, optional
        Whether all probability is on whole numbers. Default: what the object reports; if it reports
        nothing, whether its cdf jumps at the median.

    Raises
    ------
    TypeError
        Methods that are missing or not implemented: the message names them.
    ValueError
        Distributions that are not one number per input.

    Notes
    -----
    Quantiles come from the object if it has them, otherwise from bisection of its cdf. Draws are quantiles
    at uniform levels, so that they depend on ``random_state`` alone. Missing moments are computed by
    quadrature. If the object computes in single precision, so do the results.

    Examples
    --------
    >>> from scipy import stats
    >>> from fastmcmd.predictive import MethodsPredictive
    >>> class Exponential:
    ...     def cdf(self, y): return stats.expon.cdf(y)
    ...     def log_prob(self, y): return stats.expon.logpdf(y)
    >>> MethodsPredictive(Exponential(), 2).mean.round(10).tolist()
    [1.0, 1.0]
    """

    def __init__(self, value: object, n: int, discrete: bool | None = None) -> None:
        self.value = value
        self._call = Caller(value)
        shape = self._call(_CDF, np.zeros((1, 1))).shape
        if len(shape) != 2 or shape[0] != 1 or shape[1] not in (1, n):
            raise ValueError(
                f"prediction is a {type(value).__name__} of shape {shape[1:] if shape[0] == 1 else shape}; "
                f"({n},) is needed: one number per input"
            )
        self._batch = shape[1]
        self._rows: NDArray[np.intp] | None = None
        self._n = n
        self._divisible = False
        self._low, self._high = bounds(value)
        self.discrete = False
        answer = says_discrete(value) if discrete is None else discrete
        self.discrete = self._jumps() if answer is None else answer
        self.log_prob(self.quantile(0.5))  # raises now if log_prob is not implemented
        self._divisible = self._batch > 1 and self._same_in_parts()

    def __repr__(self) -> str:
        return f"MethodsPredictive({type(self.value).__name__}, {self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (self._n,)

    def take(self, rows: NDArray[np.intp]) -> MethodsPredictive:
        """Return the distributions of some rows.

        A new object is created for them if it gives the same values; otherwise the whole object is
        evaluated.
        """
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        rows = np.asarray(rows)
        part._n = len(rows)
        if self._batch == 1:
            return part
        if self._divisible and len(rows) > 1:  # a batch of one would count as one for all rows
            part.value = rows_of(self.value, rows)
            part._call = Caller(part.value)
            part._batch = len(rows)
            part._low, part._high = bounds(part.value)
            return part
        part._rows = rows if self._rows is None else self._rows[rows]
        part._divisible = False
        return part

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        return self._cdf(np.broadcast_to(self.outcomes(y), self.shape))

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        y = self.outcomes(y)
        return self.cdf(np.ceil(y) - 1 if self.discrete else y)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,), from the survival function of the object if it has one."""
        if not self._call.has(_SF):
            return 1 - self.cdf(y)
        return self._inside(_SF, np.broadcast_to(self.outcomes(y), self.shape), 1.0, 0.0)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density or log probability (n,)."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        names = _LOG_MASS if self.discrete else _LOG_DENSITY
        log_density = self._inside(names, y, -np.inf, -np.inf)
        if self.discrete:
            log_density[(y != np.floor(y)) & ~np.isnan(y)] = -np.inf
        return log_density

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j)."""
        levels = check_levels(level)
        quantiles = self._quantiles(np.broadcast_to(levels.ravel(), (len(self), levels.size)))
        return quantiles[:, 0] if levels.ndim == 0 else quantiles

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size): quantiles at uniform levels."""
        rng = generator(random_state, Purpose.SAMPLE)
        levels = np.maximum(
            rng.random((len(self), check_count(size, "size"))), np.finfo(float).tiny
        )
        return self._quantiles(levels)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), by quadrature or sums."""
        return crps(self, y, step=_BLOCK)

    @property
    def mean(self) -> Array:
        """Means (n,), from the object or by quadrature; NaN if tails are too heavy for quadrature."""
        return self._moment(_MEAN, 1)

    @property
    def variance(self) -> Array:
        """Variances (n,), from the object or by quadrature; NaN if tails are too heavy for quadrature."""
        return self._moment(_VARIANCE, 2)

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return self._range()[1] if self.discrete else node_count()

    def support(self) -> Nodes | None:
        """Return the values (L,) that all rows share and their probabilities (n, L)."""
        return shared_support(*self._range(), self._masses) if self.discrete else None

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z) for kernels with a closed form under every continuous distribution."""
        return None if self.discrete else without_atoms(self, kernel, points)

    def _cdf(self, y: Array) -> Array:
        y = np.floor(y) if self.discrete else y
        return np.clip(self._inside(_CDF, y, 0.0, 1.0), 0.0, 1.0)

    def _quantiles(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j); a call of the object computes many of each row."""
        n = len(self)
        out = np.empty(levels.shape)
        for columns in row_blocks(levels.shape[1], max(1, _BLOCK // max(1, n))):
            block = levels[:, columns]
            count = block.shape[1]
            repeated = self if count == 1 else self.take(np.repeat(np.arange(n), count))
            out[:, columns] = repeated._quantile(block.ravel()).reshape(block.shape)
        return out

    def _quantile(self, level: Array) -> Array:
        """Return the quantile of each row at its own level (n,)."""
        low, high = (self._per_row(np.asarray(end)) for end in (self._low, self._high))
        inner = (level > 0) & (level < 1)
        out = np.where(level <= 0, low, high)
        if self._call.has(_QUANTILE) and not self.discrete:
            quantiles = self._grid(_QUANTILE, level)
            out = np.where(inner | ~np.isfinite(out), quantiles, out)
        else:
            out[inner] = np.nan
        missing = np.flatnonzero(inner & ~np.isfinite(out))
        if missing.size:
            part = self.take(missing)
            out[missing] = least(lambda y: part._cdf(y) >= level[missing], len(missing))
        return out

    def _moment(self, names: tuple[str, ...], order: int) -> Array:
        if self._call.has(names):
            return self._per_row(np.array(self._call.moment(names)))
        out = np.empty(len(self))
        for rows in row_blocks(len(self), _BLOCK // 8):
            part = self.take(np.arange(rows.start, rows.stop))
            values, weights = part.nodes()
            mean = (weights * values).sum(axis=1)
            spread = (weights * (values - mean[:, None]) ** order).sum(axis=1)
            size = (weights * np.abs(values - mean[:, None]) ** order).sum(axis=1)
            ends = part.quantile([TAIL_MASS, 1 - TAIL_MASS]) - mean[:, None]
            tail_part = TAIL_MASS * (np.abs(ends) ** order).max(axis=1)
            moments = mean if order == 1 else spread
            out[rows] = np.where(self.discrete | (tail_part <= _TAIL_SHARE * size), moments, np.nan)
        return out

    def _per_row(self, values: Array) -> Array:
        """Return values of the object, of shape (), (1,) or (batch,), as one value per row."""
        values = np.broadcast_to(values, (self._batch,))
        if self._batch == 1:
            return np.full(len(self), values[0])
        return np.array(values if self._rows is None else values[self._rows])

    def _inside(self, names: tuple[str, ...], y: Array, below: float, above: float) -> Array:
        """Return a method's values at y (n,); outside the support, where it may fail, use its limits."""
        low, high = (self._per_row(np.asarray(end)) for end in (self._low, self._high))
        inside = (y >= low) & (y <= high) & np.isfinite(y)
        safe = np.where(
            inside, y, np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0))
        )
        values = self._grid(names, safe)
        outside = np.where(np.isnan(y), np.nan, np.where(y > low, above, below))
        inside &= ~(np.isnan(values) & ((y == low) | (y == high)))  # 0 times infinity at an end
        return np.where(inside, values, outside)

    def _grid(self, names: tuple[str, ...], y: Array) -> Array:
        """Return a method's values at y (n,), evaluating the whole object."""
        if self._batch == 1:
            return self._call(names, y[:, None])[:, 0]
        if self._rows is None:
            return self._call(names, y[None, :])[0]
        # Rows may repeat: each occurrence takes the next free place in its column of a (count, batch) grid.
        order = np.argsort(self._rows, kind="stable")
        sorted_rows = self._rows[order]
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order)) - np.searchsorted(sorted_rows, sorted_rows)
        grid = np.full((int(place.max(initial=0)) + 1, self._batch), y[0] if len(y) else 0.0)
        grid[place, self._rows] = y
        return self._call(names, grid)[place, self._rows]

    def _same_in_parts(self) -> bool:
        """Return whether new objects, created for some of the rows, give the same values."""
        rows = np.arange(len(self))[::-1]
        other = rows_of(self.value, rows)
        if other is None or tuple(other.batch_shape) != (len(rows),):
            return False
        part = self.take(rows)
        part.value, part._call, part._rows = other, Caller(other), None
        middle = self.quantile(0.5)
        names = _LOG_MASS if self.discrete else _LOG_DENSITY
        return all(
            np.array_equal(self._grid(name, middle)[rows], part._grid(name, middle[rows]))
            for name in (_CDF, names)
        )

    def _jumps(self) -> bool:
        """Return whether some cdf jumps at its median."""
        middle = self._quantile(np.full(len(self), 0.5))
        size = self._call.size
        step = _ULPS * np.spacing(np.abs(middle).astype(f"f{size}")).astype(np.float64)
        fall = self._cdf(middle) - self._cdf(middle - step)
        return bool((fall > _JUMP[size]).any())

    def _quadrature(self, order: int, splits: int = 1, length: float | None = None) -> Nodes:
        return composite(
            lambda level: self.quantile(level[0]),
            lambda level: self.quantile(1 - level[0]),
            lambda values: np.exp(np.stack([self.log_prob(y) for y in values.T], axis=1)),
            order,
            splits,
            length,
        )

    def _range(self) -> tuple[Array, int]:
        """Return the first value of each row (n,) and the number of values that hold almost all mass."""
        ends = self.quantile([TAIL_MASS, 1 - TAIL_MASS])
        count = float(np.max(ends[:, 1] - ends[:, 0], initial=0.0)) + 1
        if not count <= _MOST_VALUES:
            raise ValueError(
                f"prediction gives mass to more than {_MOST_VALUES:,} values of one input, too many to "
                "sum over; give draws=l, or draws of it"
            )
        return ends[:, 0], int(count)

    def _own_support(self) -> Nodes:
        first, count = self._range()
        return first[:, None] + np.arange(count, dtype=np.float64), self._masses(first, count)

    def _masses(self, first: Array, count: int) -> Array:
        """Return probabilities (n, count), which sum to 1."""
        logs = [self.log_prob(first + step) for step in range(count)]
        masses = np.exp(np.stack(logs, axis=1))
        total = masses.sum(axis=1, keepdims=True)
        if not (np.abs(total - 1) <= _WRONG).all():
            raise ValueError(
                "prediction is a discrete distribution over other values than whole numbers; give "
                "draws of it"
            )
        return np.asarray(masses / total)
