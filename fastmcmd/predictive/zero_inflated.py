"""Predictions with additional mass at zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import check_count
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.kernels import Kernel
from fastmcmd.predictive.base import LEAST_LEVEL, MOST_LEVEL, Predictive, parameter
from fastmcmd.predictive.numerics.closed_scores import inflated_scores
from fastmcmd.predictive.numerics.density_panels import are_shared

__all__ = ["ZeroInflated", "row_probabilities"]

_QUANTILES = 1 << 18  # quantiles per block: a few temporaries of 2 MB each


class ZeroInflated(Predictive):
    """Mixtures of a point mass at zero and another distribution.

    Parameters
    ----------
    base : Predictive of numbers
        Distributions of the other outputs, discrete or continuous.
    probability : array_like, scalar or (n,)
        Probabilities of the additional zeros, in [0, 1]: P(Y = 0) is ``probability + (1 - probability)
        P(base = 0)``.

    Attributes
    ----------
    base, probability : Predictive, ndarray (n,)
        The parameters.

    Raises
    ------
    TypeError, ValueError
        A base that is not a distribution of single numbers; probabilities out of range or of another
        shape.

    Notes
    -----
    With a continuous base the distribution is mixed, like that of rainfall. `log_prob` is then the log
    density with respect to Lebesgue measure plus a unit mass at zero: ``log probability`` at 0 and
    ``log(1 - probability) + log f(y)`` elsewhere. It is comparable only between predictions of this form.
    ``discrete`` is False in this case, because the nodes come from quadrature; `cdf_below` accounts for the
    mass at zero.

    With D the score of the base, the continuous ranked probability score is::

        CRPS(y) = p |y| + (1 - p) (D(y) - p D(0))

    It follows from the squared distances between the three cdfs involved.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> from fastmcmd.predictive.zero_inflated import ZeroInflated
    >>> visits = ZeroInflated(fm.Poisson([2.0, 5.0]), 0.5)
    >>> visits.mean.tolist()
    [1.0, 2.5]
    >>> visits.cdf([0.0, 0.0]).round(4).tolist()
    [0.5677, 0.5034]
    """

    def __init__(self, base: Predictive, probability: ArrayLike) -> None:
        if not isinstance(base, Predictive):
            raise TypeError(
                f"base is a {type(base).__name__}; a fastmcmd distribution such as Poisson(mean) is needed"
            )
        if base.columns > 1:
            raise ValueError(
                f"base has {base.columns} components; a base of single numbers is needed"
            )
        self.base = base
        self.probability = row_probabilities(probability, "probability", base.shape)
        self.discrete = base.discrete
        self.has_density = base.has_density

    @property
    def atomless(self) -> bool:
        """False: zero has positive probability."""
        return False

    def __repr__(self) -> str:
        return f"ZeroInflated({self.base!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return self.base.shape

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        with np.errstate(invalid="ignore"):
            mean = (1 - self.probability) * self.base.mean
        return np.where(self.probability < 1, mean, 0.0)

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        p = self.probability
        with np.errstate(over="ignore", invalid="ignore"):
            variance = (1 - p) * (self.base.variance + (np.sqrt(p) * self.base.mean) ** 2)
        return np.where(p < 1, variance, 0.0)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        p = self.probability
        with np.errstate(invalid="ignore"):
            std = np.sqrt(1 - p) * np.hypot(self.base.std, np.sqrt(p) * self.base.mean)
        return np.where(p < 1, std, 0.0)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        y = self.outcomes(y)
        return self._mix(y >= 0, self.base.cdf(y))

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        y = self.outcomes(y)
        return self._mix(y > 0, self.base.cdf_below(y))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,)."""
        y = self.outcomes(y)
        return self._mix(y < 0, self.base.sf(y))

    def _mix(self, zero: NDArray[np.bool_], base_part: Array) -> Array:
        p = self.probability
        return np.asarray(p * zero + (1 - p) * base_part)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log probability (n,); for a continuous base, see the notes of the class."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        p = self.probability
        with np.errstate(divide="ignore", invalid="ignore"):
            base_part, extra = np.log1p(-p) + self.base.log_prob(y), np.log(p)
        if self.base.discrete:
            extra = np.logaddexp(extra, base_part, where=y == 0, out=np.zeros(len(self)))
        return np.where(y == 0, extra, base_part)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,)."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        return self.base.inflated_scores(y, self.probability)

    @property
    def shares_panels(self) -> bool:
        """Whether those of the base come from integrals of densities."""
        return self.base.shares_panels

    def scored_quantiles(self, y: Array, levels: Array) -> tuple[Array, Array]:
        """Return scores (n,) and quantiles (n, j); those of the base come from the same panels."""
        if not self.shares_panels or not np.isfinite(y).all():
            return super().scored_quantiles(y, levels)
        row_levels = np.broadcast_to(levels, (len(self), len(levels)))
        inner, at_zero = self._levels_of_base(row_levels)
        scores, out = np.empty(len(self)), np.empty(inner.shape)
        is_shared = are_shared(inner)
        rows = np.flatnonzero(is_shared)
        if len(rows):
            part = self if len(rows) == len(self) else self.take(rows)
            outcomes = np.stack([y[rows], np.zeros(len(rows))], axis=1)
            base_scores, quantiles = part.base.scored_row_quantiles(outcomes, inner[rows])
            at_outcome, at_zero_score = base_scores.T
            scores[rows] = inflated_scores(y[rows], at_outcome, at_zero_score, part.probability)
            out[rows] = part._with_zeros(row_levels[rows], at_zero[rows], quantiles)
        rows = np.flatnonzero(~is_shared)  # levels in the far tails of the base
        if len(rows):
            scores[rows], out[rows] = super(ZeroInflated, self.take(rows)).scored_quantiles(
                y[rows], levels
            )
        return scores, out

    @property
    def has_quick_quantiles(self) -> bool:
        """Whether those of the base are."""
        return self.base.has_quick_quantiles

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        out = np.empty(levels.shape)

        def work(rows: slice) -> None:
            is_all = rows.stop - rows.start == len(self)
            part = self if is_all else self.take(np.arange(rows.start, rows.stop))
            out[rows] = part._quantiles_at(levels[rows])

        over_rows(work, len(self), _QUANTILES // max(1, levels.shape[1]))
        return out

    def _quantiles_at(self, levels: Array) -> Array:
        inner, at_zero = self._levels_of_base(levels)
        return self._with_zeros(levels, at_zero, self.base.quantiles_at(inner))

    def _levels_of_base(self, levels: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return levels of the base (n, j): its quantiles there are those at ``levels``, except at zeros.

        Also returned is where quantiles are zeros. Levels there are those of a neighbour: rising levels
        stay in order, which is faster.
        """
        p = self.probability[:, None]
        below, at = self.cdf_below(0.0)[:, None], self.cdf(0.0)[:, None]
        is_negative = levels <= below
        with np.errstate(divide="ignore", invalid="ignore"):  # p = 1: all mass is at zero
            inner = np.where(is_negative, levels, levels - p) / (1 - p)
        at_zero = ~is_negative & (levels <= at)
        clipped = np.where(at_zero | ~(p < 1), 0.0, np.clip(inner, LEAST_LEVEL, MOST_LEVEL))
        before = np.maximum.accumulate(clipped, axis=1)
        least = np.where(clipped > 0, clipped, 0.5).min(axis=1, keepdims=True, initial=0.5)
        inner = np.where(clipped > 0, clipped, np.where(before > 0, before, least))
        return inner, at_zero

    def _with_zeros(self, levels: Array, at_zero: NDArray[np.bool_], quantiles: Array) -> Array:
        """Return quantiles (n, j) from those of the base."""
        p = self.probability[:, None]
        quantiles = np.where(at_zero | (p == 1), 0.0, quantiles)
        for level, outer in ((0.0, np.minimum), (1.0, np.maximum)):
            end = self.base.quantile(level)[:, None]
            end = np.where(p > 0, outer(np.where(p < 1, end, 0.0), 0.0), end)
            quantiles = np.where(levels == level, end, quantiles)
        return quantiles

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        rng = generator(random_state, Purpose.SAMPLE)
        draws = self.base.sample(size, rng)
        draws[rng.random((len(self), check_count(size, "size"))) < self.probability[:, None]] = 0.0
        return draws

    def take(self, rows: NDArray[np.intp]) -> ZeroInflated:
        """Return the distributions of some rows."""
        part = ZeroInflated.__new__(ZeroInflated)
        part.base, part.probability = self.base.take(rows), self.probability[rows]
        part.discrete, part.has_density = self.discrete, self.has_density
        return part

    def atoms(self) -> Array:
        """Return zero and those of the base (n, k)."""
        return np.hstack([np.zeros((len(self), 1)), self.base.atoms()])

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return self.base.node_count + 1

    @property
    def exact_nodes(self) -> bool:
        """Whether the nodes of the base are exact."""
        return self.base.exact_nodes

    def nodes(self, splits: int = 1) -> Nodes:
        """Return zero and the nodes of the base (n, L + 1), and their weights."""
        return self._with_zero(*self.base.nodes(splits))

    def coarse_nodes(self) -> Nodes:
        """Return zero and the coarse nodes of the base."""
        return self._with_zero(*self.base.coarse_nodes())

    def nodes_within(self, length: float) -> Nodes:
        """Return zero and the nodes of the base from panels no longer than ``length``."""
        return self._with_zero(*self.base.nodes_within(length))

    def _with_zero(self, values: Array, weights: Array) -> Nodes:
        p = self.probability[:, None]
        zeros = np.zeros((len(self), 1))
        return np.hstack([zeros, values]), np.hstack([p, (1 - p) * weights])

    def support(self) -> Nodes | None:
        """Return the outputs (L,) that all rows share and their probabilities (n, L), as the base does."""
        nodes = self.base.support()
        if nodes is None:
            return None
        p = self.probability[:, None]
        values, weights = nodes[0], (1 - p) * nodes[1]
        place = int(np.searchsorted(values, 0.0))
        if place == len(values) or values[place] != 0:
            values, weights = np.insert(values, place, 0.0), np.insert(weights, place, 0.0, axis=1)
        weights[:, place] += p[:, 0]
        return values, weights

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return ``p k(0, z) + (1 - p) E k(base, z)``; None for a discrete base without a closed form."""
        base_part = self.base.closed_form(kernel, points)
        if base_part is None:
            if self.base.discrete:
                return None
            base_part = self.base.expected_kernel(
                kernel, points
            )  # its own quadrature, to its own tolerance
        p = self.probability[:, None]
        return np.asarray(p * kernel(np.zeros((1, 1)), points) + (1 - p) * base_part)


def row_probabilities(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    """Return checked probabilities (n,)."""
    chance = parameter(value, name, least=0.0)
    if chance.max(initial=0.0) > 1:
        raise ValueError(f"{name} has values up to {chance.max():g}; all must be in [0, 1]")
    if chance.shape == shape:
        return chance
    try:
        return np.array(np.broadcast_to(chance, shape))
    except ValueError:
        raise ValueError(
            f"{name} has shape {chance.shape}; a scalar or {shape} is needed, as base has"
        ) from None
