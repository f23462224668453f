"""Mixtures of predictions, such as deep ensembles, mixture density networks and hurdle models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import as_array, check_count, quote
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.kernels import Kernel
from fastmcmd.predictive.base import Predictive, check_levels
from fastmcmd.predictive.count_base import WholeNumbers
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.numerics import gaussian_mixture
from fastmcmd.predictive.numerics.density_panels import has_panels, has_shared_levels
from fastmcmd.predictive.numerics.density_terms import DensityTerm
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.inverse import by_halving
from fastmcmd.predictive.numerics.marching import FEW
from fastmcmd.predictive.numerics.mixture_quantiles import (
    completed,
    is_reached,
    quantiles,
    quick_quantiles,
)
from fastmcmd.predictive.numerics.separate_parts import Intervals, intervals_of, separate_scores
from fastmcmd.predictive.numerics.spread import root, root_of_squares
from fastmcmd.predictive.numerics.step_quantiles import step_scores
from fastmcmd.predictive.numerics.unit_halves import panel_scores

__all__ = ["Mixture"]

_BLOCK = 1 << 18  # numbers held in memory at once
_PER_PART = 4  # the same if components are separate
_QUANTILES = 1 << 15  # quantiles per search: its two dozen arrays stay in a cache
_PANELS = 100  # numbers per row and component that count for the size of a block
_SEPARATE = 1 << 17  # quantiles of separate components per block
_SUM_ERROR = 1e-6  # error allowed in a sum of weights; a float32 softmax is off by 1e-7


class Mixture(Predictive):
    """Mixtures of K predicted distributions per input.

    Parameters
    ----------
    components : sequence of K Predictive
        Distributions for the same n inputs, over outputs of the same shape.
    weights : array_like (K,) or (n, K), optional
        Nonnegative weights that sum to 1 within 1e-6; they are divided by their sum. Default: equal.

    Attributes
    ----------
    components : tuple of Predictive
    weights : ndarray (n, K)
    discrete : bool
        Whether all components are discrete.
    has_density : bool
        Whether `log_prob` is available.

    Raises
    ------
    TypeError
        Components that are not distributions.
    ValueError
        No components, components of different shapes, or weights that are negative, not finite, of
        another shape, or do not sum to 1.

    Notes
    -----
    Discrete and continuous components may be mixed, for example an atom at zero and a continuous amount.
    All methods except `log_prob` then work; densities and probabilities cannot be added. `log_prob` is
    not available either if components are draws or quantiles.

    For vector outputs this is the mixture of the joint distributions; `cdf` and `quantile` treat each
    component of the output separately, as for other distributions.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> from fastmcmd.predictive.mixture import Mixture
    >>> ensemble = Mixture([fm.Gaussian([0.0, 1.0], 1.0), fm.Gaussian([2.0, 1.0], 1.0)])
    >>> ensemble.mean.tolist(), ensemble.variance.tolist()
    ([1.0, 1.0], [2.0, 1.0])
    >>> ensemble.quantile(0.5).round(12).tolist()
    [1.0, 1.0]
    """

    def __init__(self, components: Sequence[Predictive], weights: ArrayLike | None = None) -> None:
        if not isinstance(components, Iterable) or getattr(components, "ndim", 1) == 0:
            raise TypeError(f"components is {quote(components)}; a list of distributions is needed")
        components = tuple(components)
        if not components:
            raise ValueError("components are empty; at least one distribution is needed")
        for i, component in enumerate(components):
            if not isinstance(component, Predictive):
                raise TypeError(
                    f"components[{i}] is a {type(component).__name__}; a fastmcmd distribution is "
                    "needed, such as Gaussian(mean, std) or Draws(array)"
                )
            if component.shape != components[0].shape:
                raise ValueError(
                    f"components[{i}] has shape {component.shape} and components[0] has "
                    f"{components[0].shape}; they must agree"
                )
        self._set(components, _weights(weights, len(components[0]), len(components)))

    def _set(self, components: tuple[Predictive, ...], weights: Array) -> None:
        self.components, self.weights = components, weights
        self._all_used = bool((weights > 0).all())
        kinds = {component.discrete for component in components}
        self.discrete = kinds == {True}
        self.has_density = len(kinds) == 1 and all(part.has_density for part in components)

    @property
    def atomless(self) -> bool:
        """Whether every single output has probability 0 under all components."""
        return all(part.atomless for part in self.components)

    def __repr__(self) -> str:
        return f"Mixture({len(self.components)} components, {self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)`` or ``(n, k)``."""
        return self.components[0].shape

    def _sum(self, of: Callable[[Predictive], Array]) -> Array:
        """Return the weighted sum of the values of ``of`` over the components; rows are the first axis."""
        total: object = 0.0
        for weight, component in self.parts():
            value = of(component)
            weight = weight.reshape(-1, *[1] * (value.ndim - 1))
            if not self._all_used:  # a component of weight 0 contributes nothing, even if infinite
                value = np.where(weight > 0, value, 0.0)
            total = total + weight * value
        return np.asarray(total)

    def mirrored(self) -> Mixture | None:
        """Return the distributions of 1 - Y if all components have them."""
        complements = [component.mirrored() for component in self.components]
        parts = [part for part in complements if part is not None]
        return Mixture(parts, self.weights) if len(parts) == len(complements) else None

    def parts(self) -> Any:
        """Return pairs of the weights (n,) of a component and that component."""
        return zip(self.weights.T, self.components, strict=True)

    @property
    def mean(self) -> Array:
        """Means, of the shape of the outputs."""
        return self._sum(lambda component: component.mean)

    @property
    def variance(self) -> Array:
        """Variances: the mean of the variances plus the variance of the means."""
        mean = self.mean
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self._sum(lambda part: part.variance + (part.mean - mean) ** 2)
        if np.isfinite(variance).all():
            return variance
        variance = np.where(np.isinf(mean), np.inf, variance)
        overflows = np.isinf(variance).reshape(len(variance), -1).any(axis=1)
        rows = np.flatnonzero(overflows)
        if len(rows):  # a square overflows before it is weighted
            with np.errstate(over="ignore"):
                variance[rows] = self._spread(rows) ** 2
        return variance

    @property
    def std(self) -> Array:
        """Standard deviations."""
        return root(self.variance, self._spread)

    def _spread(self, rows: NDArray[np.intp]) -> Array:
        """Return the standard deviations of rows, avoiding overflow of squares."""
        part = self.take(rows)
        mean = part.mean
        with np.errstate(invalid="ignore"):
            pieces = [c.std for c in part.components] + [c.mean - mean for c in part.components]
            weights = np.concatenate([part.weights, part.weights], axis=1)
            weights = weights.reshape(len(rows), *[1] * (mean.ndim - 1), -1)
            gaps = np.where(weights > 0, np.stack(pieces, axis=-1), 0.0)
            spread = root_of_squares(weights, gaps)
        return np.where(np.isinf(mean), np.inf, spread)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,), or (n, k) per component of the output."""
        y = self.outcomes(y)
        return self._sum(lambda component: component.cdf(y))

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y)."""
        y = self.outcomes(y)
        return self._sum(lambda component: component.cdf_below(y))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y)."""
        y = self.outcomes(y)
        return self._sum(lambda component: component.sf(y))

    def masses_outside(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return P(Y_i <= low_i) and P(Y_i > high_i)."""
        masses = self._sum(lambda part: np.stack(part.masses_outside(low, high), axis=1))
        return masses[:, 0], masses[:, 1]

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density or log probability (n,), by a log-sum-exp over components.

        Raises
        ------
        ValueError
            If components are partly discrete and partly continuous, or have no density.
        """
        if not self.has_density:
            raise ValueError(
                "this mixture has no density or probabilities: its components are partly discrete, or "
                "draws or quantiles; use crps or another score of the cdf"
            )
        y = self.outcomes(y)
        if self.all_gaussian and self.columns == 1:
            parts = [one for one in self.components if isinstance(one, Gaussian)]
            means, stds = [part.mean for part in parts], [part.std for part in parts]
            y = np.broadcast_to(y, self.shape)
            return gaussian_mixture.log_densities(y, means, stds, self.weights)
        logs = [component.log_prob(y) for component in self.components]
        return by_rows(_weighted_log_sum, *self.weights.T, *logs)

    @property
    def has_quick_quantiles(self) -> bool:
        """Whether all components are Gaussian."""
        return self.all_gaussian

    def quantile(self, level: ArrayLike) -> Array:
        """Return the smallest y with ``P(Y <= y) >= level``; levels (j,) add a last axis.

        A search between the quantiles of the components finds it to rounding; atoms of discrete components
        and draws are found exactly. For many levels, continuous components are integrated once per row, and
        the probabilities of discrete ones summed. Draws count as atoms here, whereas `Draws.quantile`
        interpolates between them.
        """
        levels = check_levels(level)
        level_array = np.atleast_1d(levels)
        out = np.empty((*self.shape, len(level_array)))
        order = self._order()
        self.intervals  # noqa: B018  # computed once, before rows are taken

        def work(block: slice) -> None:
            rows = order[block]
            out[rows] = quantiles(self.take(rows), level_array)

        over_rows(work, len(self), self._rows_at_once(len(level_array)))
        return out if levels.ndim else np.asarray(out[..., 0])

    def _order(self) -> NDArray[np.intp]:
        """Return the rows in the order in which blocks take them: counts of similar ranges together."""
        return np.argsort(self.mean) if self.discrete else np.arange(len(self))

    def _rows_at_once(self, count: int) -> int:
        """Return the number of rows whose quantiles at ``count`` levels are computed together."""
        count = max(1, count)
        if self.all_gaussian:
            return max(1, _BLOCK // (self.columns * count))
        if self.intervals is not None:
            return max(1, _SEPARATE // count)
        if count >= FEW and self.columns == 1 and (self.has_panels or self.has_steps):
            per_row = self.node_count if self.has_steps else _PANELS * len(self.components)
            return max(1, _BLOCK // max(per_row, count))
        # Rows are repeated for each level, together with their draws or quantiles: at most 16 MB of them.
        atom_count = sum(part.node_count for part in self.components if not part.has_density)
        step = min(_QUANTILES // self.columns, 8 * _BLOCK // (1 + atom_count))
        return max(1, step // count)

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) of numbers at levels (n, j), which may differ from row to row."""
        is_quick = self.all_gaussian or (
            levels.shape[1] >= FEW and (self.has_panels or self.has_steps)
        )
        is_quick = is_quick or self.intervals is not None
        if self.columns > 1 or not is_quick:
            return by_halving(self, levels, is_reached)
        out = np.empty(levels.shape)
        order = self._order()

        def work(block: slice) -> None:
            rows = order[block]
            part, row_levels = self.take(rows), levels[rows]
            quantiles = quick_quantiles(part, row_levels)
            if quantiles is None:
                quantiles = np.full(row_levels.shape, np.nan)
            out[rows] = _with_searched(part, row_levels, quantiles)

        over_rows(work, len(self), self._rows_at_once(levels.shape[1]))
        return out

    @property
    def has_panels(self) -> bool:
        """Whether all components are continuous, with densities and quick quantiles."""
        return all(has_panels(part) for part in self.components)

    @cached_property
    def intervals(self) -> Intervals | None:
        """Intervals of the components, if these are separate in some rows."""
        if self.columns > 1 or self.all_gaussian or self.has_steps:
            return None
        return intervals_of(self)

    @property
    def has_steps(self) -> bool:
        """Whether all components have atoms alone."""
        return all(part.discrete or isinstance(part, Draws) for part in self.components)

    def densities(self, rows: NDArray[np.intp], values: Array) -> Array:
        """Return densities (m, L) of some rows (m,) at values (m, L)."""
        total = np.zeros(values.shape)
        with np.errstate(all="ignore"):
            for weight, component in self.parts():
                part = component.log_densities(values, rows)
                np.exp(part, out=part)
                part *= weight[rows, None]
                total += part
        return total

    def density_terms(self) -> list[DensityTerm] | None:
        """Return the terms of all components, if all have some."""
        terms: list[DensityTerm] = []
        for weight, component in self.parts():
            part = component.density_terms()
            if part is None:
                return None
            terms.extend((family, constants, weight * share) for family, constants, share in part)
        return terms

    def kinks(self) -> Array:
        """Return those of all components (n, k)."""
        return np.concatenate([component.kinks() for component in self.components], axis=1)

    def atoms(self) -> Array:
        """Return those of all components (n, k), and the outputs of components of atoms alone."""
        columns = [
            part.nodes()[0] if part.exact_nodes else part.atoms() for part in self.components
        ]
        return np.concatenate(columns, axis=1)

    def log_densities(self, values: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return log densities or log probabilities (m, L) of some rows (m,), or all, at numbers (m, L)."""
        total = np.full(values.shape, -np.inf)
        with np.errstate(all="ignore"):
            for weight, component in self.parts():
                weight = weight if rows is None else weight[rows]
                part = component.log_densities(values, rows) + np.log(weight)[:, None]
                total = np.logaddexp(total, np.where(weight[:, None] > 0, part, -np.inf))
        return total

    @property
    def all_gaussian(self) -> bool:
        """Whether all components are Gaussian."""
        return all(isinstance(part, Gaussian) for part in self.components)

    def moments(self) -> tuple[Array, Array]:
        """Return means and standard deviations (k, n, K) of Gaussian components."""
        parts: Any = self.components
        mean, std = (
            np.stack(
                [getattr(part, name).reshape(len(self), self.columns).T for part in parts], axis=-1
            )
            for name in ("mean", "std")
        )
        return mean, std

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size) or (n, size, k)."""
        rng = generator(random_state, Purpose.SAMPLE)
        u = rng.random((len(self), check_count(size, "size")))
        out = np.empty((*u.shape, *self.shape[1:]))
        upper = np.cumsum(self.weights, axis=1)
        upper /= upper[:, -1:]
        lower = np.zeros((len(self), 1))
        for i, component in enumerate(self.components):
            from_component = (u >= lower) & (u < upper[:, i, None])
            out[from_component] = component.sample(size, rng)[from_component]
            lower = upper[:, i, None]
        return out

    def take(self, rows: NDArray[np.intp]) -> Mixture:
        """Return the distributions of some rows."""
        part = Mixture.__new__(Mixture)
        part._set(tuple(c.take(rows) for c in self.components), self.weights[rows])
        if "intervals" in self.__dict__:
            part.intervals = None if self.intervals is None else self.intervals.take(rows)
        return part

    @property
    def exact_nodes(self) -> bool:
        """Whether the nodes of all components are exact."""
        return all(component.exact_nodes for component in self.components)

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the nodes of all components, weighted by the components' weights."""
        parts = [component.nodes(splits) for component in self.components]
        common = self._common_counts
        if common is None:
            return self._joined(parts)
        first, count = common
        totals = np.zeros((len(self), count))
        for weight, (values, masses) in zip(self.weights.T, parts, strict=True):
            _core.add_masses(masses, (values[:, 0] - first).astype(np.int64), weight, totals)
        return first[:, None] + np.arange(count, dtype=np.float64), totals

    @cached_property
    def _common_counts(self) -> tuple[Array, int] | None:
        """The first of the counts that all components share, by row (n,), and how many these are.

        None if components are not all of counts, or if they lie so far apart that they are fewer.
        """
        ranges = [part.counts for part in self.components if isinstance(part, WholeNumbers)]
        if len(ranges) < len(self.components) or not len(self):
            return None
        first = np.min([one for one, _ in ranges], axis=0)
        count = max(float((one - first).max()) + length for one, length in ranges)
        return (first, int(count)) if count <= sum(length for _, length in ranges) else None

    def coarse_nodes(self) -> Nodes:
        """Return fewer nodes; comparing sums over both estimates the error of `nodes`."""
        return self._joined([component.coarse_nodes() for component in self.components])

    def _joined(self, parts: list[Nodes]) -> Nodes:
        values = np.concatenate([values for values, _ in parts], axis=1)
        shares = [w[:, None] * part for w, (_, part) in zip(self.weights.T, parts, strict=True)]
        return values, np.concatenate(shares, axis=1)

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        if self._common_counts is not None:
            return self._common_counts[1]
        return sum(component.node_count for component in self.components)

    def support(self) -> Nodes | None:
        """Return the outputs (L,) that all rows and components share and their probabilities (n, L)."""
        parts = []
        for component in self.components:
            nodes = component.support()
            if nodes is None or nodes[0].ndim != 1:
                return None
            parts.append(nodes)
        values = np.unique(np.concatenate([values for values, _ in parts]))
        masses = np.zeros((len(self), len(values)))
        for weight, (outputs, mass) in zip(self.weights.T, parts, strict=True):
            masses[:, np.searchsorted(values, outputs)] += weight[:, None] * mass
        return values, masses

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return ``E k(Y_i, z_j)`` (n, r) if every component has a closed form: their weighted sum."""
        total = np.zeros((len(self), len(points)))
        for weight, component in self.parts():
            values = component.closed_form(kernel, points)
            if values is None:
                return None
            total += weight[:, None] * values
        return total

    def closed_form_pairs(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return ``E k(Y_i, Y'_j)`` (n, m) if every pair of components has a closed form."""
        other_parts: Any = other.parts() if isinstance(other, Mixture) else [(np.ones(1), other)]
        other_parts = list(other_parts)
        total = np.zeros((len(self), len(other)))
        for weight, component in self.parts():
            for share, against in other_parts:
                values = component.closed_form_pairs(kernel, against)
                if values is None:
                    return None
                total += weight[:, None] * share * values
        return total

    def closed_form_rows(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return ``E k(Y_i, Y'_i)`` (n,) if every pair of components has a closed form."""
        other_parts: Any = other.parts() if isinstance(other, Mixture) else [(np.ones(1), other)]
        other_parts = list(other_parts)
        total = np.zeros(len(self))
        for weight, component in self.parts():
            for share, against in other_parts:
                values = component.closed_form_rows(kernel, against)
                if values is None:
                    return None
                total += weight * share * values
        return total

    def weighted_parts(self) -> list[tuple[Array, Predictive]]:
        """Return pairs of the weights (n,) of a component and that component."""
        return list(self.parts())

    def gaussian_parts(self) -> list[tuple[Array, Predictive]] | None:
        """Return the weights (n,) and components if all are Gaussian or Gaussian mixtures; else None."""
        gaussians: list[tuple[Array, Predictive]] = []
        for weight, component in self.parts():
            inner = component.gaussian_parts()
            if inner is None:
                return None
            gaussians.extend((weight * share, gaussian) for share, gaussian in inner)
        return gaussians

    def nodes_within(self, length: float) -> Nodes:
        """Return the nodes of all components from panels no longer than ``length``."""
        return self._joined([component.nodes_within(length) for component in self.components])

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,).

        Uses a closed form for Gaussian components, the scores of components that do not overlap, exact
        sums for draws and discrete components, integrals of the densities of continuous families, and
        quadrature of the cdf otherwise.

        Parameters
        ----------
        y : array_like (n,)
            Observed outputs. NaN gives NaN; infinity gives an infinite score.

        Raises
        ------
        ValueError
            Outputs of another shape, or vector outputs.

        Notes
        -----
        With ``A(m, v) = E|N(m, v)|``, the score of Gaussian components is ``sum_i w_i A(y - m_i, v_i) - 1/2
        sum_ij w_i w_j A(m_i - m_j, v_i + v_j)`` (Grimit, Gneiting, Berrocal & Johnson, *The continuous
        ranked probability score for circular variables and its application to mesoscale forecast ensemble
        verification*, 2006).
        """
        if self.columns == 1 and self.all_gaussian:
            return self._by_rows(_gaussian_crps, y, len(self.components) ** 2)
        if self.columns == 1 and self.has_steps:
            return self._by_rows(step_scores, y, self.node_count)
        if self.intervals is not None:
            return self._by_rows(_separate_crps, y, _PER_PART * len(self.components))
        if self.columns == 1 and self.has_panels:
            return self._by_rows(_panel_crps, y, _PANELS * len(self.components))
        return super().crps(y)

    @property
    def shares_panels(self) -> bool:
        """Whether scores and quantiles come from integrals of densities."""
        if self.columns > 1 or self.all_gaussian or not self.has_panels:
            return False
        return self.intervals is None or not self.intervals.is_separate.all()

    def scored_quantiles(self, y: Array, levels: Array) -> tuple[Array, Array]:
        """Return scores (n,) and quantiles (n, j), from the same panels if levels rise and are many."""
        shares = self.shares_panels and len(levels) >= FEW and has_shared_levels(levels[None, :])
        if not shares or not np.isfinite(y).all():
            return super().scored_quantiles(y, levels)
        scores, quantiles = self._from_panels(y[:, None], levels[None, :])
        return scores[:, 0], quantiles

    def scored_row_quantiles(self, y: Array, levels: Array) -> tuple[Array, Array]:
        """Return scores (n, k) and quantiles (n, j) at levels (n, j), shared panels if these are many."""
        shares = self.shares_panels and levels.shape[1] >= FEW and has_shared_levels(levels)
        if not shares or not np.isfinite(y).all():
            return super().scored_row_quantiles(y, levels)
        return self._from_panels(y, levels)

    def _from_panels(self, y: Array, levels: Array) -> tuple[Array, Array]:
        """Return scores (n, k) and quantiles (n, j) at levels (1, j) or (n, j)."""
        scores, out = np.empty(y.shape), np.empty((len(self), levels.shape[1]))

        def work(rows: slice) -> None:
            part = self.take(np.arange(rows.start, rows.stop))
            row_levels = levels if len(levels) == 1 else levels[rows]
            row_scores, quick = panel_scores(part, part.components, y[rows], row_levels)
            for column, outcomes in enumerate(y[rows].T):
                row_scores[:, column] = _with_generic_scores(part, outcomes, row_scores[:, column])
            scores[rows] = row_scores
            if len(levels) == 1:
                out[rows] = completed(part, levels[0], quick)
            else:
                out[rows] = _with_searched(part, row_levels, quick)

        over_rows(work, len(self), self._rows_at_once(levels.shape[1]))
        return scores, out

    def _by_rows(
        self, function: Callable[[Mixture, Array], Array], y: ArrayLike, per_row: int
    ) -> Array:
        y = np.broadcast_to(self.outcomes(y), self.shape)
        out = np.array(np.abs(y))  # the scores of infinity and NaN
        if len(self) <= max(1, _BLOCK // per_row) and np.isfinite(y).all():
            return function(self, y)
        order = self._order()

        def work(block: slice) -> None:
            rows = order[block]
            finite = rows[np.isfinite(y[rows])]
            out[finite] = function(self.take(finite), y[finite])

        over_rows(work, len(self), max(1, _BLOCK // per_row))
        return out


def _weights(value: object, n: int, count: int) -> Array:
    if value is None:
        return np.full((n, count), 1.0 / count)
    weights = as_array(value, "weights")
    if weights.shape not in ((count,), (n, count)):
        raise ValueError(
            f"weights have shape {weights.shape}; ({count},) or ({n}, {count}) is needed: a weight a "
            "component"
        )
    rows = np.asarray(weights, dtype=np.float64).reshape(-1, count)
    shares, bounds = _core.row_array(rows.size).reshape(rows.shape), np.empty(4)
    _core.weight_shares(rows, shares, bounds)
    if not len(rows):
        return shares
    if not (bounds[0] >= 0 and bounds[1] < np.inf):
        raise ValueError("weights hold NaN, infinity or negative values; all must be >= 0")
    sums = np.nan_to_num(bounds[2:], nan=np.inf)
    worst = sums[np.abs(sums - 1).argmax()]
    if abs(worst - 1) > _SUM_ERROR:
        raise ValueError(f"weights sum to {worst:g}; a sum of 1 is needed")
    return shares if len(rows) == n else np.tile(shares, (n, 1))


def _weighted_log_sum(*weights_and_logs: Array) -> Array:
    """Return ``log(sum_k w_k exp(l_k))`` from weights and, after these, logarithms."""
    count = len(weights_and_logs) // 2
    largest, smaller = np.full(len(weights_and_logs[0]), -np.inf), []
    for weight, log in zip(weights_and_logs[:count], weights_and_logs[count:], strict=True):
        term = np.log(weight) + log
        if not weight.all():  # a component of weight 0 contributes nothing, even if infinite
            term[weight == 0] = -np.inf
        smaller.append(np.minimum(largest, term))
        largest = np.maximum(largest, term)
    unit = largest
    if not np.isfinite(largest).all():
        unit = np.where(np.isfinite(largest), largest, 0.0)
    total = np.zeros(len(largest))
    for term in smaller[1:]:  # the first one is -inf
        total += np.exp(term - unit)
    return np.asarray(largest + np.log1p(total))


def _gaussian_crps(mixture: Mixture, y: Array) -> Array:
    (mean,), (std,) = mixture.moments()
    return gaussian_mixture.crps(y, mean, std, mixture.weights)


def _with_searched(mixture: Mixture, levels: Array, quantiles: Array) -> Array:
    """Return ``quantiles`` at levels (n, j), by bisection where they are NaN."""
    row, column = np.nonzero(np.isnan(quantiles))
    if len(row):
        single = by_halving(mixture.take(row), levels[row, column][:, None], is_reached)
        quantiles[row, column] = single[:, 0]
    return quantiles


def _separate_crps(mixture: Mixture, y: Array) -> Array:
    """Return scores from those of the components; as in other mixtures where they overlap."""
    intervals = mixture.intervals
    if intervals is None:
        return _overlapping_crps(mixture, y)
    scores = separate_scores(mixture, intervals, y)
    rows = np.flatnonzero(np.isnan(scores))
    if len(rows):
        scores[rows] = _overlapping_crps(mixture.take(rows), y[rows])
    return scores


def _overlapping_crps(mixture: Mixture, y: Array) -> Array:
    if mixture.has_panels:
        return _panel_crps(mixture, y)
    return Predictive.crps(mixture, y)


def _panel_crps(mixture: Mixture, y: Array) -> Array:
    """Return integrals of densities; the generic score where they are unsafe."""
    scores, _ = panel_scores(mixture, mixture.components, y[:, None])
    return _with_generic_scores(mixture, y, scores[:, 0])


def _with_generic_scores(mixture: Mixture, y: Array, scores: Array) -> Array:
    """Return ``scores`` (n,), from the cdf where they are NaN."""
    rows = np.flatnonzero(np.isnan(scores))
    if len(rows):  # a component whose score is infinite makes that of the mixture infinite
        part = mixture.take(rows)
        components = zip(part.weights.T, part.components, strict=True)
        infinite = [(w > 0) & np.isposinf(one.crps(y[rows])) for w, one in components]
        scores[rows[np.any(infinite, axis=0)]] = np.inf
        rows = rows[~np.any(infinite, axis=0)]
        scores[rows] = Predictive.crps(mixture.take(rows), y[rows])
    return scores
