"""Double Poisson predictions: counts with more or less variance than a Poisson distribution."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.cached import cached_property
from fastmcmd.errors import RowError
from fastmcmd.predictive.count_base import STEP, WholeNumbers, beside, vector
from fastmcmd.predictive.numerics.spread import MOST_VALUES, shared_support

__all__ = ["DoublePoisson"]

_MOST_MEAN = 2.0**52
_LEAST_VARIANCE = 1e-290  # smaller variances lose some or all of their digits

_TABLE = 1 << 14  # counts whose logarithms are tabulated


class DoublePoisson(WholeNumbers):
    """Exactly normalised double Poisson distributions with mean near mu and variance near mu / phi.

    Parameters
    ----------
    mean : array_like (n,)
        Parameter mu, nonnegative. The mean of the distribution, the attribute ``mean``, is close to it.
    phi : array_like, scalar or (n,)
        Inverse dispersion (precision), positive. 1 is the Poisson distribution; values below 1 increase the
        variance, values above 1 reduce it.

    Attributes
    ----------
    mu, phi : ndarray (n,)
        The parameters.
    mean, variance : ndarray (n,)
        Exact moments of the normalised distributions.

    Raises
    ------
    ValueError
        Parameters out of range, not finite or of another shape, or parameters that spread the mass over
        more than a million counts.

    Notes
    -----
    Efron (*Double Exponential Families and Their Use in Generalized Linear Regression*, JASA 1986):

        p(y) = c(mu, phi) phi^(1/2) exp(-phi mu) (e^-y y^y / y!) (e mu / y)^(phi y)

    phi is the second parameter of Efron and that of Deep Double Poisson Networks (Young & Jenkins 2024),
    both precisions. c is computed from the sum of the masses. Most code either uses Efron's approximation,
    ``1/c = 1 + (1 - phi) / (12 mu phi) (1 + 1 / (mu phi))``, which is accurate only for large ``mu phi``,
    or leaves c out; its log scores are then not comparable with those of other distributions. ``mu = 0`` is
    a point mass at 0.

    All results are sums over the counts whose mass is above rounding: about ``18 sqrt(mu / phi)`` counts
    per row, some 20 ns each. Masses have about 14 correct digits.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> from fastmcmd.predictive.double_poisson import DoublePoisson
    >>> narrow = DoublePoisson([4.0, 100.0], 2.0)
    >>> narrow.variance.round(3).tolist()
    [1.994, 50.0]
    >>> bool(np.allclose(DoublePoisson([3.0], 1.0).log_prob([2.0]), fm.Poisson([3.0]).log_prob([2.0])))
    True
    """

    def __init__(self, mean: ArrayLike, phi: ArrayLike) -> None:
        self.mu = vector(mean, "mean")
        self.phi = beside(phi, "phi", self.mu)
        # This is the bound from which the loops start; the actual windows are somewhat shorter.
        with np.errstate(over="ignore", invalid="ignore"):
            depth = 42 / self.phi
            length = depth / 3 + np.sqrt(depth * depth / 9 + 2 * depth * self.mu)
        length = np.where(self.mu > 0, length, 0.0)
        if len(length) and length.max() > MOST_VALUES:
            row = int(length.argmax())
            raise RowError(
                f"mean {self.mu[row]:g} and phi {self.phi[row]:g} (row {row}) spread the mass over more "
                f"than {MOST_VALUES:,} counts, too many to sum over; a larger phi or a smaller mean is "
                "needed, or a continuous distribution",
                row,
            )
        if len(length) and self.mu.max() > _MOST_MEAN:
            raise ValueError(
                f"mean has values up to {self.mu.max():g}; at most {_MOST_MEAN:g} is needed: float64 does "
                "not tell larger counts apart, and a continuous distribution serves"
            )

    def __repr__(self) -> str:
        return f"DoublePoisson{self.shape}"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return self.mu.shape

    @cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        """Sums of the masses (n,), means and variances."""
        total, mean, variance = (np.empty(len(self)) for _ in range(3))
        self._by_rows(_core.double_poisson_moments, total, mean, variance)
        return total, mean, variance

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._sums[1]

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        return self._sums[2]

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        std = np.sqrt(self.variance)
        rows = np.flatnonzero(self.variance < _LEAST_VARIANCE)
        if len(rows):  # counts above 1 do not matter, and the square may underflow
            std[rows] = np.exp(self.take(rows).log_prob(np.ones(len(rows))) / 2)
        return std

    def _tail(self, count: Array, upper: bool) -> Array:
        out = np.empty(len(self))

        def tails(
            y: Array, mu: Array, phi: Array, logs: Array, heads: Array, *outputs: Array
        ) -> None:
            _core.double_poisson_tails(y, mu, phi, logs, heads, upper, *outputs)

        self._by_rows(tails, self._sums[0], out, first=self._per_row(count))
        return out

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log probability (n,); -inf where y is not a count."""
        out = np.empty(len(self))
        self._by_rows(
            _core.double_poisson_log_masses,
            self._sums[0],
            out,
            first=self._per_row(self.outcomes(y)),
        )
        return out

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,): the integral of ``(F(x) - 1{x >= y})^2``.

        Notes
        -----
        The score ``E|Y - y| - E|Y - Y'| / 2`` is computed as the sum of ``p_i p_j min(|i - y|, |j - y|)``
        over the pairs of counts on one side of y, in one pass and without cancellation. Outcomes that are
        not counts have a score, too.
        """
        out = np.empty(len(self))
        self._by_rows(_core.double_poisson_crps, out, first=self._per_row(self.outcomes(y)))
        return out

    @property
    def has_quick_quantiles(self) -> bool:
        """True: few sums give a quantile."""
        return True

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (1, j) for all rows, or (n, j)."""
        out = np.empty((len(self), levels.shape[1]))
        if not out.size:
            return out
        one_row_each, longest = len(levels) == len(self), self._range[1]

        def quantiles(*arrays: Array) -> None:
            first, mu, phi, logs, heads, total, part = arrays if one_row_each else (levels, *arrays)
            scratch = np.empty(longest)
            _core.double_poisson_quantiles(first, mu, phi, logs, heads, total, scratch, part)

        self._by_rows(quantiles, self._sums[0], out, first=levels if one_row_each else None)
        return out

    def take(self, rows: NDArray[np.intp]) -> DoublePoisson:
        """Return the distributions of some rows."""
        part = DoublePoisson.__new__(DoublePoisson)
        part.mu, part.phi = self.mu[rows], self.phi[rows]
        return part

    @property
    def node_count(self) -> int:
        """Number of counts in the widest row."""
        return self._range[1]

    def _find_range(self) -> tuple[Array, int]:
        low, high = np.empty(len(self)), np.empty(len(self))
        self._by_rows(_core.double_poisson_windows, low, high)
        return low, int((high - low).max(initial=0.0)) + 1

    def nodes(self, splits: int = 1) -> Nodes:
        """Return consecutive counts (n, L) that hold the mass, and their probabilities."""
        del splits
        first, count = self._range
        return first[:, None] + np.arange(count, dtype=np.float64), self._masses(first, count)

    def support(self) -> Nodes | None:
        """Return the counts (L,) that all rows share and their probabilities (n, L)."""
        return shared_support(*self._range, self._masses)

    def _masses(self, first: Array, count: int) -> Array:
        out = np.empty((len(self), count))
        self._by_rows(_core.double_poisson_masses, out, first=first)
        return out

    def _per_row(self, y: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(y, self.shape))

    def _by_rows(
        self, loop: Callable[..., None], *arrays: Array, first: Array | None = None
    ) -> None:
        """Run a loop over blocks of rows: (``first``, mu, phi, tables, ``arrays``)."""
        tables = _tables()

        def work(rows: slice) -> None:
            before = () if first is None else (first[rows],)
            loop(
                *before, self.mu[rows], self.phi[rows], *tables, *(array[rows] for array in arrays)
            )

        over_rows(work, len(self), STEP)


@lru_cache(maxsize=1)
def _tables() -> tuple[Array, Array]:
    """Return ``log k`` and ``log(k^k e^-k / k!)`` of the first counts: both tables stay in the cache."""
    logs, heads = np.empty(_TABLE), np.empty(_TABLE)
    _core.double_poisson_tables(logs, heads)
    return logs, heads
