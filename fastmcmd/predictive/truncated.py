"""Predictions conditioned on an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import over_rows, row_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_count, distinct_digits
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.errors import RowError
from fastmcmd.predictive.base import EDGE_LEVELS, LEAST_LEVEL, MOST_LEVEL, ByQuadrature, Predictive
from fastmcmd.predictive.count_base import Counts, WholeNumbers
from fastmcmd.predictive.double_poisson import DoublePoisson
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.expectation import TAIL_MASS
from fastmcmd.predictive.family import Family
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics.closed_scores import (
    CDFPiece,
    mass_between,
    scores_with_distance,
    supported_scores,
)
from fastmcmd.predictive.numerics.density_panels import (
    has_panels,
    has_shared_levels,
    panel_moments,
    panel_scores,
)
from fastmcmd.predictive.numerics.density_terms import DensityTerm
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.inverse import by_halving, least
from fastmcmd.predictive.numerics.marching import FEW
from fastmcmd.predictive.numerics.narrow_intervals import MOST_COUNTS, Narrow, NarrowCounts
from fastmcmd.predictive.numerics.quadrature import (
    Ends,
    composite,
    node_count,
    nodes_within,
    panel_ends,
)
from fastmcmd.predictive.numerics.spread import MOST_VALUES, root_of_squares
from fastmcmd.predictive.numerics.step_quantiles import step_quantiles
from fastmcmd.predictive.pearson import PearsonFamily
from fastmcmd.predictive.zero_inflated import ZeroInflated

__all__ = ["Truncated"]

_MISSING_SHARE = 1e-9  # share of the mass that the base's nodes may miss; new nodes beyond it
_BLOCK = 1 << 18  # nodes per block
_PANELS = 100  # numbers per row that count for the size of a block
_LITTLE_MASS = 0.02  # mass of the interval below which few panels of the base lie in it
_NO_SHARE = 1e-25  # share of the mass from which a component of a mixture matters
_CANCELS = (
    1e-3  # mass, of the smaller tail that begins with it, below which their difference is not used
)
_LEVEL_CANCELS = 1e-4  # the same for levels of quantiles, which lose a digit more at most
_NEWTON_STEPS, _LARGE_STEP = 4, 1e-6  # relative to the distance from the end
_LAST_COUNT = 2.0**52
_OFTEN, _MOST_ROUNDS = 0.1, 20  # mass of an interval in which draws of the base are no waste
_LEAST_SCALED = 1e-250  # mass by which densities may be divided without losing digits
_COUNTS_CANCEL = 0.1  # the same for counts, whose cdfs have fewer digits
_NARROW = 0.05  # ratio of the variance to that of the base below which its closed form loses digits


class Truncated(ByQuadrature):
    """Distributions conditional on ``low <= Y <= high``, both ends included.

    Parameters
    ----------
    base : Predictive of numbers
        Distributions before truncation, continuous or discrete.
    low, high : array_like, scalar or (n,), default -inf, inf
        Ends of the interval.

    Attributes
    ----------
    base, low, high : Predictive, ndarray (n,), ndarray (n,)
        The parameters.

    Raises
    ------
    TypeError
        A base that is not a distribution of single numbers, or is draws, or is partly discrete.
    ValueError
        Ends that are NaN, in the wrong order or of another shape; a row without mass between its ends.

    Notes
    -----
    For a base variable B, ``P(Y <= y) = P(low <= B <= y) / P(low <= B <= high)``. Above the median of the
    base, masses are differences of two values of its survival function; below the median, of its cdf. If
    the survival function is accurate in the tail (Gaussian, counts, scipy.stats), intervals far out in
    either tail are as accurate as any other, as long as their mass is above 1e-300. For other bases,
    whose survival function is ``1 - cdf``, relative errors are 1e-16 divided by the mass of the interval.
    If both ends have almost the same cdf, or an end and the outcome, the density is integrated between them
    instead; quantiles as a base have no density, so their errors remain.

    Means and variances of a truncated Gaussian use the closed form (Johnson, Kotz & Balakrishnan,
    *Continuous Univariate Distributions*, volume 1, section 13.10.1) wherever it is accurate, and
    integrals of the density or sums over nodes otherwise. If the base has no quantile function, quantiles
    at many levels come from sums over counts, or from integrals of the densities of a mixture, and others
    from bisection, with 64 evaluations of the cdf.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> from fastmcmd.predictive.truncated import Truncated
    >>> positive = Truncated(fm.Gaussian([0.0, 1.0], 1.0), low=0.0)
    >>> positive.mean.round(4).tolist()
    [0.7979, 1.2876]
    >>> Truncated(fm.Poisson([2.0]), low=1.0).cdf([0.0]).tolist()
    [0.0]
    """

    def __init__(
        self, base: Predictive, low: ArrayLike = -np.inf, high: ArrayLike = np.inf
    ) -> None:
        if not isinstance(base, Predictive):
            raise TypeError(
                f"base is a {type(base).__name__}; a fastmcmd distribution such as Gaussian(mean, std) is "
                "needed"
            )
        if isinstance(base, Draws):
            raise TypeError("base is Draws; leave out the draws outside the interval instead")
        if _partly_discrete(base):
            raise TypeError(
                "base is partly discrete, partly continuous; truncate its parts instead"
            )
        if base.columns > 1:
            raise ValueError(
                f"base has {base.columns} components; a base of single numbers is needed"
            )
        low, high = _end(low, "low", base.shape), _end(high, "high", base.shape)
        if (low > high).any():
            row = int((low > high).argmax())
            low_text, high_text = distinct_digits(low[row], high[row])
            raise RowError(
                f"low is {low_text} and high is {high_text} in row {row}; low <= high is needed",
                row,
            )
        self._set(base, low, high)
        if not (self._log_mass > -np.inf).all():
            row = int((~(self._log_mass > -np.inf)).argmax())
            low_text, high_text = distinct_digits(self.low[row], self.high[row])
            raise RowError(
                "base has no mass, or none that a double can hold, from low to high, "
                f"in [{low_text}, {high_text}] in row {row}",
                row,
            )

    def _set(self, base: Predictive, low: Array, high: Array) -> None:
        self.base, self.low, self.high = base, low, high
        self.discrete = base.discrete
        self.has_density = base.has_density
        # P(B < low), P(B >= low), P(B <= high), P(B > high)
        if base.atomless:
            tails = base.interval_masses(self.low, self.high)
            self._below, self._from, self._upto, self._above, self._mass = tails
        else:
            self._below, self._from = base.cdf_below(self.low), self._not_below(self.low)
            self._upto, self._above = base.cdf_and_sf(self.high)
            four = self._below, self._from, self._upto, self._above
            self._mass = by_rows(mass_between, *four, light=True)
        with np.errstate(divide="ignore"):
            self._log_mass = np.log(self._mass)
        self._cancelled = self._integrate()

    @property
    def atomless(self) -> bool:
        """Whether every single output has probability 0 under the base."""
        return self.base.atomless

    def __repr__(self) -> str:
        return f"Truncated({self.base!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return self.base.shape

    def _not_below(self, y: Array) -> Array:
        """Return P(B >= y)."""
        return self.base.sf(np.nextafter(y, -np.inf) if self.discrete else y)

    def _integrate(self) -> NDArray[np.intp]:
        """Recompute masses that cancel, by sums or integrals, and return their rows."""
        if (self._mass >= max(_CANCELS, _COUNTS_CANCEL)).all():  # tails are at most 1
            return np.empty(0, dtype=np.intp)
        tail = np.where(self._below > 0.5, self._from, self._upto)
        with np.errstate(over="ignore", invalid="ignore"):
            width = self.high - self.low
        if isinstance(self.base, (Counts, DoublePoisson)):
            narrow = (width < MOST_COUNTS) & (np.floor(self.high) >= np.ceil(self.low))
            narrow &= (self._mass < _COUNTS_CANCEL * tail) & (np.abs(self.high) < _LAST_COUNT)
            kind: type[Narrow] | type[NarrowCounts] = NarrowCounts
        elif self.discrete or not self.has_density:
            return np.empty(0, dtype=np.intp)
        else:
            narrow = (self._mass < _CANCELS * tail) & (width > 0) & np.isfinite(width)
            kind = Narrow
        rows = np.flatnonzero(narrow)
        if len(rows):
            self._narrow = kind(self.base.take(rows), self.low[rows], self.high[rows])
            self._log_mass[rows] = self._narrow.log_mass
            self._mass[rows] = np.exp(self._narrow.log_mass)
        return rows

    @property
    def _few_counts(self) -> NarrowCounts | None:
        """The counts of all rows and their probabilities if every interval holds few; else None."""
        if not len(self) or len(self._cancelled) < len(self) or not self.discrete:
            return None
        return self._narrow if isinstance(self._narrow, NarrowCounts) else None

    def _share(self, mass: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.clip(mass / self._mass, 0.0, 1.0))

    def _with_narrow(self, values: Array, y: Array, upper: bool) -> Array:
        """Return ``values`` (n,) at y, replaced by sums or integrals in rows whose mass cancels."""
        rows = self._cancelled
        if not len(rows):
            return values
        values = np.array(np.broadcast_to(values, self.shape))
        place = self._narrow.place(np.broadcast_to(y, self.shape)[rows])
        values[rows] = self._narrow.above(place) if upper else self._narrow.below(place)
        return values

    def _without_cancellation(self, share: Array, tail: Array, low: Array, high: Array) -> Array:
        """Return ``share`` (n,) of the mass from ``low`` to ``high``, integrated in rows where it cancels.

        ``tail`` is the smaller of the base's masses below and above ``low``. Beside an end of the interval,
        cdfs of a continuous base may differ by less than their rounding.
        """
        if self.discrete or not self.has_density:
            return share
        with np.errstate(over="ignore", invalid="ignore"):
            width = high - low
        narrow = (share * self._mass < _CANCELS * tail) & (width > 0) & np.isfinite(width)
        narrow &= (low >= self.low) & (high <= self.high)
        narrow[self._cancelled] = False  # integrated already
        rows = np.flatnonzero(narrow)
        if not len(rows):
            return share
        low, high = (np.broadcast_to(end, self.shape)[rows] for end in (low, high))
        part = Narrow(self.base.take(rows), low, high)
        share = share.copy()
        share[rows] = np.exp(part.log_mass - self._log_mass[rows])
        return share

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        y = self.outcomes(y)
        mass = mass_between(self._below, self._from, *self.base.cdf_and_sf(y))
        share = self._with_narrow(self._share(mass), y, False)
        tail = _smaller(self._below, self._from)
        share = self._without_cancellation(share, tail, self.low, y)
        return np.where(y < self.low, 0.0, np.where(y >= self.high, 1.0, share))

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        y = self.outcomes(y)
        mass = mass_between(self._below, self._from, self.base.cdf_below(y), self._not_below(y))
        before = np.nextafter(y, -np.inf) if self.discrete else y
        share = self._with_narrow(self._share(mass), before, False)
        tail = _smaller(self._below, self._from)
        share = self._without_cancellation(share, tail, self.low, y)
        return np.where(y <= self.low, 0.0, np.where(y > self.high, 1.0, share))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,)."""
        y = self.outcomes(y)
        below, at_least = self.base.cdf_and_sf(y)
        mass = mass_between(below, at_least, self._upto, self._above)
        share = self._with_narrow(self._share(mass), y, True)
        share = self._without_cancellation(share, _smaller(below, at_least), y, self.high)
        return np.where(y < self.low, 1.0, np.where(y >= self.high, 0.0, share))

    def masses_outside(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return P(Y_i <= low_i) and P(Y_i > high_i): 0 where these are the ends of the interval."""
        none = np.zeros(len(self))
        below = none if self.atomless and (low <= self.low).all() else self.cdf(low)
        return below, none if (high >= self.high).all() else self.sf(high)

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density or log probability (n,): -inf outside the interval."""
        y = self.outcomes(y)
        y = np.broadcast_to(y, self.shape)
        logs = self.base.log_prob(y)
        return by_rows(_inside, y, logs, self._log_mass, self.low, self.high, light=True)

    def ends(self) -> tuple[Array, Array] | None:
        """Return the ends (n,) of the interval, or those of the base inside it."""
        ends = self.base.ends()
        return (
            None
            if ends is None
            else (np.maximum(self.low, ends[0]), np.minimum(self.high, ends[1]))
        )

    def kinks(self) -> Array:
        """Return those of the base (n, k), moved to the ends if they lie outside."""
        return np.clip(self.base.kinks(), self.low[:, None], self.high[:, None])

    def atoms(self) -> Array:
        """Return those of the base (n, k); outside the interval they have no mass."""
        return self.base.atoms()

    def log_densities(self, values: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return log densities or log probabilities (m, L) of some rows (m,), or all, at numbers (m, L)."""
        constants = self.low, self.high, self._log_mass
        low, high, log_mass = ((v if rows is None else v[rows])[:, None] for v in constants)
        inside = (values >= low) & (values <= high)
        return np.where(inside, self.base.log_densities(values, rows) - log_mass, -np.inf)

    @property
    def mass(self) -> Array:
        """Masses (n,) of the base between the ends."""
        return self._mass

    @property
    def coordinates(self) -> Array:
        """Coordinates (n, k) of the base, a `Family` or `Gaussian`, and the ends."""
        base = cast(Family | Gaussian, self.base)
        return np.column_stack([base.coordinates, self.low, self.high])

    @property
    def logarithmic(self) -> tuple[bool, ...]:
        """Which coordinates are logarithms."""
        return *cast(Family | Gaussian, self.base).logarithmic, False, False

    def at(self, coordinates: Array) -> Truncated:
        """Return the distributions at coordinates (m, k); there may be no mass between their ends."""
        part = Truncated.__new__(Truncated)
        base = cast(Family | Gaussian, self.base).at(coordinates[:, :-2])
        part._set(base, coordinates[:, -2].copy(), coordinates[:, -1].copy())
        return part

    def panel_quantiles(self, levels: Array) -> tuple[Array, Array]:
        """Return quantiles (n, j) at levels (1, j) from below and from above, to rounding of levels."""
        lower, upper = self._tails
        return lower(levels), upper(levels)

    def panel_edges(self, least: float | None = None) -> tuple[Array, Array, Array]:
        """Return the ends of panels of the base in the interval, and the ends of the interval.

        Where little of the base's mass is left, these are quantiles of the truncated distribution.
        """
        if not self._inverts:
            return super().panel_edges(least)
        low, high = self.low[:, None].copy(), self.high[:, None].copy()
        for end, find in ((low, self._lower_end), (high, self._upper_end)):
            rows = np.flatnonzero(np.isinf(end[:, 0]))
            if len(rows):
                end[rows] = find(rows)
        inner = np.clip(self.base.panel_edges()[0], low, high)
        edges = np.concatenate([low, inner, high], axis=1)
        little = self._mass < _LITTLE_MASS
        for is_above in (False, True):  # whether the interval is in the upper tail of the base
            rows = np.flatnonzero(little & ((self._below > 0.5) == is_above))
            if len(rows):
                quantiles = self.take(rows)._edges_in_tail(is_above)
                edges[rows, 1:-1] = low[rows]
                count = quantiles.shape[1]
                edges[rows, 1 : 1 + count] = np.clip(quantiles, low[rows], high[rows])
                edges[rows] = np.maximum.accumulate(edges[rows], axis=1)
        return edges, edges[:, 0], edges[:, -1]

    def _edges_in_tail(self, is_above: bool) -> Array:
        """Return quantiles (n, E), with small levels only on the side of the tail."""
        few = np.array([*EDGE_LEVELS[-2:], 0.5])
        both = [np.tile(levels, (len(self), 1)) for levels in (EDGE_LEVELS, few)]
        lower, upper = both[::-1] if is_above else both
        # Ends of panels may be off by rounding: none is refined.
        quantiles = self._inverse(lower, 1 - lower, exact=False)
        above = self._inverse(1 - upper, upper, exact=False)
        return np.concatenate([quantiles, above[:, ::-1]], axis=1)

    def _lower_end(self, rows: NDArray[np.intp]) -> Array:
        return self.take(rows).quantiles_at(np.full((len(rows), 1), TAIL_MASS))

    def _upper_end(self, rows: NDArray[np.intp]) -> Array:
        return self.take(rows).upper_quantiles_at(np.full((len(rows), 1), TAIL_MASS))

    @property
    def has_quick_quantiles(self) -> bool:
        """Whether the base has a quick quantile function; of counts, a search is needed."""
        return self._inverts and self.base.has_quick_quantiles

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        if self._inverts:
            return self._inverse(levels, 1 - levels)
        if len(self._cancelled) and not self.discrete:
            return self._inverse_with_narrow(levels, 1 - levels, exact=True)
        quantiles = self._searched(levels)
        # With an infinite end, rounding makes the cdf reach 1 at a finite number.
        last = (levels >= 1) & np.isinf(self.high)[:, None]
        return (
            np.where(last, self.base.quantile(1.0)[:, None], quantiles) if last.any() else quantiles
        )

    def _searched(self, levels: Array) -> Array:
        """Return quantiles (n, j): from sums over counts or panels for many levels, and from a search."""
        quick = self.exact_nodes if self.discrete else self._splits
        if levels.shape[1] < FEW or not quick:
            return by_halving(self, np.maximum(levels, LEAST_LEVEL), Truncated.reaches)
        levels = np.broadcast_to(levels, (len(self), levels.shape[1]))
        out = np.empty(levels.shape)
        per_row = max(levels.shape[1], self.node_count if self.discrete else _PANELS)
        order = self._order()

        def work(block: slice) -> None:
            rows = order[block]
            part = self.take(rows)
            row_levels = levels[rows]
            if self.discrete:
                quantiles = step_quantiles(part, row_levels)
            else:
                quantiles = part._mixture.quantiles_at(row_levels)
            row, column = np.nonzero(np.isnan(quantiles))
            if len(row):
                level = np.maximum(row_levels[row, column], LEAST_LEVEL)[:, None]
                quantiles[row, column] = by_halving(part.take(row), level, Truncated.reaches)[:, 0]
            out[rows] = quantiles

        over_rows(work, len(self), max(1, _BLOCK // per_row))
        return out

    def _order(self) -> NDArray[np.intp]:
        """Return the rows in the order in which blocks take them: counts of similar ranges together."""
        return np.argsort(self.base.mean) if self.discrete else np.arange(len(self))

    @property
    def _splits(self) -> bool:
        """Whether the base is a mixture whose truncated components have quick quantiles."""
        return isinstance(self.base, Mixture) and self.base.has_panels and not len(self._cancelled)

    @cached_property
    def _mixture(self) -> Mixture:
        """The same distributions as mixtures of truncated components."""
        parts, shares = [], []
        for weight, component in cast(Mixture, self.base).parts():
            part = Truncated.__new__(Truncated)
            part._set(component, self.low, self.high)
            mass = weight * part._mass
            empty = ~(mass > _NO_SHARE * self._mass)
            if empty.any():  # a component without mass between the ends needs none
                low = np.where(empty, -np.inf, self.low)
                part._set(component, low, np.where(empty, np.inf, self.high))
            parts.append(part)
            shares.append(np.where(empty, 0.0, mass))
        mixture = Mixture.__new__(Mixture)
        weights = np.stack(shares, axis=1)
        mixture._set(tuple(parts), weights / weights.sum(axis=1, keepdims=True))
        return mixture

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the smallest numbers (n, j) at which `sf` is at most levels (n, j)."""
        return (
            self._inverse(1 - levels, levels)
            if self._inverts
            else super().upper_quantiles_at(levels)
        )

    @property
    def _inverts(self) -> bool:
        return self.base.has_inverse and not self.discrete

    def reaches(self, x: Array, level: Array) -> NDArray[np.bool_]:
        """Return where ``cdf(x) >= level``, from the smaller of the cdf and its complement."""
        return np.where(level < 0.5, self.cdf(x) >= level, self.sf(x) <= 1 - level)

    def _inverse(self, level: Array, complement: Array, exact: bool = True) -> Array:
        """Return quantiles (n, j) of a continuous base, each computed from the tail in which it lies.

        Unless they must be ``exact``, those beside an end of the interval may be off by rounding of levels.
        """
        if len(self._cancelled):
            return self._inverse_with_narrow(level, complement, exact)
        mass = self._mass[:, None]
        lower = self._below[:, None] + level * mass
        upper = self._above[:, None] + complement * mass
        is_lower = lower <= upper
        if is_lower.all():
            quantiles = self.base.quantiles_at(lower)
        elif not is_lower.any():
            quantiles = self.base.upper_quantiles_at(upper)
        else:
            # If a row has levels in both tails, level 0.5 replaces those of the other tail: levels stay in
            # order, and no quantile function is slow or infinite at 0.5.
            quantiles = np.empty(is_lower.shape)
            rows = np.flatnonzero(is_lower.any(axis=1))
            below = np.where(is_lower[rows], lower[rows], 0.5)
            quantiles[rows] = self.base.take(rows).quantiles_at(below)
            rows = np.flatnonzero(~is_lower.all(axis=1))
            above = np.where(is_lower[rows], 0.5, upper[rows])
            high = self.base.take(rows).upper_quantiles_at(above)
            quantiles[rows] = np.where(is_lower[rows], quantiles[rows], high)
        quantiles = np.asarray(np.clip(quantiles, self.low[:, None], self.high[:, None]))
        if not exact:
            return quantiles
        self._refine(quantiles, level, _smaller(self._below, self._from), False)
        self._refine(quantiles, complement, _smaller(self._upto, self._above), True)
        return quantiles

    def _refine(self, quantiles: Array, share: Array, tail: Array, upper: bool) -> None:
        """Replace quantiles (n, j) beside an end, where the levels of the base cancel.

        ``share`` is the mass (n, j) between the end and the quantile, and ``tail`` the base's mass (n,)
        from which it is subtracted. Newton's method starts from the rounded quantile; beside an end the cdf
        is almost a line.
        """
        if not self.has_density:
            return
        share = np.broadcast_to(share, quantiles.shape)
        cancels = (share * self._mass[:, None] < _LEVEL_CANCELS * tail[:, None]) & (share > 0)
        rows, columns = np.nonzero(cancels)
        if not len(rows):
            return
        remaining = np.arange(len(rows))
        for _ in range(_NEWTON_STEPS):
            part = self.take(rows[remaining])
            cells = rows[remaining], columns[remaining]
            start = quantiles[cells]
            with np.errstate(all="ignore"):
                gap = (part.sf(start) if upper else part.cdf(start)) - share[cells]
                step = gap * np.exp(-part.log_prob(start))
            step = np.where(np.isfinite(step), step if upper else -step, 0.0)
            quantiles[cells] = np.clip(start + step, part.low, part.high)
            # Convergence is quadratic: the error that is left is at most the square of the relative step.
            distance = np.abs(quantiles[cells] - (part.high if upper else part.low))
            remaining = remaining[np.abs(step) > _LARGE_STEP * distance]
            if not len(remaining):
                return

    def _inverse_with_narrow(self, level: Array, complement: Array, exact: bool) -> Array:
        level, complement = (
            np.broadcast_to(v, (len(self), v.shape[1])) for v in (level, complement)
        )
        out = np.empty(level.shape)
        rows = self._cancelled
        assert isinstance(self._narrow, Narrow)  # counts have no inverse
        out[rows] = self._narrow.quantiles(level[rows], _by_halving)
        other_rows = np.setdiff1d(np.arange(len(self)), rows)
        if len(other_rows):
            other_part = self.take(other_rows)
            out[other_rows] = (
                other_part._inverse(level[other_rows], complement[other_rows], exact)
                if other_part._inverts
                else other_part.quantiles_at(level[other_rows])
            )
        return out

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size): quantiles at uniform levels.

        If quantiles of the base are slow (Student-t, Gamma, Beta), draws of the base that lie in the
        interval instead, where these are not rare. Draws from truncated mixtures are those of their
        truncated components.
        """
        rng = generator(random_state, Purpose.SAMPLE)
        if self._splits:
            return self._mixture.sample(size, rng)
        if isinstance(self.base, PearsonFamily):
            return self._accepted(check_count(size, "size"), rng)
        uniform = 1 - rng.random((len(self), check_count(size, "size")))  # in (0, 1]
        if not self.discrete:
            return self.quantiles_at(np.minimum(uniform, MOST_LEVEL))
        out = np.empty(uniform.shape)
        for rows, part in self._blocks():
            out[rows] = step_quantiles(part, np.minimum(uniform[rows], MOST_LEVEL), close=-1.0)
        return out

    def _accepted(self, size: int, rng: np.random.Generator) -> Array:
        """Return draws (n, size) of the base in the interval; quantiles in rows where these are rare."""
        out = np.empty((len(self), size))
        often = self._mass > _OFTEN
        for is_often in (True, False):
            rows = np.flatnonzero(often == is_often)
            for block in row_blocks(len(rows), max(1, _BLOCK // max(1, size))):
                part = self.take(rows[block])
                if is_often:
                    out[rows[block]] = part._of_base(size, rng)
                else:
                    levels = np.minimum(1 - rng.random((len(part), size)), MOST_LEVEL)
                    out[rows[block]] = part.quantiles_at(levels)
        return out

    def _of_base(self, size: int, rng: np.random.Generator) -> Array:
        """Return draws (n, size) of the base until they lie in the interval; quantiles for a few."""
        out = self.base.sample(size, rng)
        row, column = np.nonzero(~((out >= self.low[:, None]) & (out <= self.high[:, None])))
        for _ in range(_MOST_ROUNDS):
            if not len(row):
                return out
            again = self.base.take(row).sample(1, rng)[:, 0]
            accepted = (again >= self.low[row]) & (again <= self.high[row])
            out[row[accepted], column[accepted]] = again[accepted]
            row, column = row[~accepted], column[~accepted]
        if len(row):
            levels = np.minimum(1 - rng.random((len(row), 1)), MOST_LEVEL)
            out[row, column] = self.take(row).quantiles_at(levels)[:, 0]
        return out

    def take(self, rows: NDArray[np.intp]) -> Truncated:
        """Return the distributions of some rows."""
        part = Truncated.__new__(Truncated)
        part.base = self.base.take(rows)
        part.discrete, part.has_density = self.discrete, self.has_density
        for name in ("low", "high", "_below", "_from", "_upto", "_above", "_mass", "_log_mass"):
            setattr(part, name, getattr(self, name)[rows])
        part._cancelled = np.empty(0, dtype=np.intp)
        if len(self._cancelled) and np.isin(rows, self._cancelled).any():
            part._cancelled = part._integrate()
        if "_mixture" in self.__dict__:
            part._mixture = self._mixture.take(rows)
        return part

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._moments[0]

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self._moments[1] ** 2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Means and standard deviations (n,)."""
        mean, std = np.empty(len(self)), np.empty(len(self))
        is_inexact = np.ones(len(self), dtype=bool)
        if isinstance(self.base, Gaussian):
            with np.errstate(invalid="ignore", divide="ignore"):
                mean, std, shrink = _gaussian_moments(self)
            is_inexact = ~(shrink > _NARROW)
        rows = self._cancelled
        if len(rows):
            mean[rows], std[rows] = self._narrow.moments()
            is_inexact[rows] = False
        heavy = np.zeros(len(self), dtype=bool)
        if is_inexact.any() and not self.discrete:
            heavy = is_inexact & ~np.isfinite(self.base.std)
        if heavy.any():
            mean[heavy], std[heavy] = self.take(np.flatnonzero(heavy))._heavy_moments()
            heavy &= ~np.isfinite(std)
        inexact_rows = np.flatnonzero(is_inexact & ~(heavy & ~np.isfinite(mean)))
        if len(inexact_rows):
            is_all = len(inexact_rows) == len(self)
            sums = (self if is_all else self.take(inexact_rows))._sums()
            mean[inexact_rows], std[inexact_rows] = (
                sums[0],
                np.where(heavy[inexact_rows], std[inexact_rows], sums[1]),
            )
        return mean, std

    def _heavy_moments(self) -> tuple[Array, Array]:
        """Return the moments of a base's tail that has none; 0 if no mass is left."""
        ends = self.base.quantile(np.array([0.0, 1.0]))
        down = np.isneginf(np.maximum(self.low, ends[:, 0]))
        up = np.isposinf(np.minimum(self.high, ends[:, 1]))
        centre = self.base.mean
        signs = (up & ~(centre < np.inf)).astype(float), (down & ~(centre > -np.inf)).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(signs[0] + signs[1] > 0, (signs[0] - signs[1]) / 0.0, 0.0)
        std = np.where(up | down, np.inf, 0.0)
        return mean, np.where(np.isnan(mean), np.nan, std)

    def _sums(self) -> tuple[Array, Array]:
        """Return means and standard deviations as integrals of densities, or sums over nodes."""
        if self._splits:
            mixture = self._mixture
            return mixture.mean, mixture.std
        mean, std = np.full(len(self), np.nan), np.full(len(self), np.nan)
        if has_panels(self):

            def work(rows: slice) -> None:
                part = self.take(np.arange(rows.start, rows.stop))
                mean[rows], std[rows] = panel_moments(part)

            over_rows(work, len(self), max(1, _BLOCK // _PANELS))
            unsafe = np.flatnonzero(np.isnan(mean))
            if len(unsafe):
                mean[unsafe], std[unsafe] = self.take(unsafe)._node_sums()
            return mean, std
        return self._node_sums()

    def _node_sums(self) -> tuple[Array, Array]:
        mean, std = np.empty(len(self)), np.empty(len(self))
        for rows, part in self._blocks():
            values, weights = part.nodes()
            mean[rows] = np.einsum("nl,nl->n", weights, values)
            std[rows] = root_of_squares(weights, values - mean[rows, None])
        return mean, std

    def _blocks(self) -> Iterator[tuple[NDArray[np.intp], Truncated]]:
        order = self._order()
        for block in row_blocks(
            len(self), _BLOCK // (self if self.discrete else self.base).node_count
        ):
            yield order[block], self.take(order[block])

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,).

        Uses the closed form for a Gaussian, logistic, Laplace or Student-t base wherever it is accurate,
        and integrals of densities, sums, or quadrature of the cdf otherwise.

        Notes
        -----
        The closed form is that of Jordan, Krueger & Lerch (JSS 2019), appendix A. For a Gaussian base let a
        be the lower end, b the upper end and z the outcome y clipped to the interval, all standardised; P
        is the mass between:

            CRPS / std = |y - z| + (z (P(a, z) - P(z, b)) + 2 phi(z)) / P
                         - P(sqrt(2) a, sqrt(2) b) / (sqrt(pi) P^2)
        """
        y = np.broadcast_to(self.outcomes(y), self.shape)
        out = self._closed_scores(y)
        closed = ~np.isnan(out)
        if closed.all():
            return out
        narrow = np.zeros(len(self), dtype=bool)
        if len(self._cancelled):
            outcomes = y[self._cancelled]
            out[self._cancelled] = np.where(
                np.isfinite(outcomes),
                self._narrow.crps(np.where(np.isfinite(outcomes), outcomes, 0.0)),
                np.abs(outcomes),
            )
            narrow[self._cancelled] = True
        rows = np.flatnonzero(~closed & ~narrow)
        if rows.size:
            out[rows] = self._integrated_crps(rows, y[rows])
        return out

    def _closed_scores(self, y: Array) -> Array:
        """Return scores (n,) in closed form; NaN where it loses digits, or y is not finite."""
        none = np.zeros(len(self))
        piece = CDFPiece(self.low, self.high, none, none + 1, none)
        inside = partial(self.piece_scores, piece=piece)
        scores = scores_with_distance(y, self.low, self.high, inside)
        return np.full(len(self), np.nan) if scores is None else scores

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return those of the base, by which F rises inside the interval; NaN where masses cancel."""
        scores = supported_scores(y, piece, self.low, self.high, partial(self.base.piece_scores, y))
        if scores is not None and len(self._cancelled):
            scores[self._cancelled] = np.nan
        return scores

    def _integrated_crps(self, rows: NDArray[np.intp], y: Array) -> Array:
        """Return scores of some rows, from their densities if quantiles are quick, else from the cdf."""
        out = np.abs(y)  # of infinity and NaN
        rows, places = rows[np.isfinite(y)], np.flatnonzero(np.isfinite(y))
        if not self._has_panels:
            out[places] = Predictive.crps(self.take(rows), y[places])
            return out

        def work(block: slice) -> None:
            part, outcomes = self.take(rows[block]), y[places[block]]
            components = part._panel_components()
            scores = panel_scores(part, components, outcomes[:, None])[0][:, 0]
            unsafe = np.flatnonzero(np.isnan(scores))
            if len(unsafe):
                scores[unsafe] = Predictive.crps(part.take(unsafe), outcomes[unsafe])
            out[places[block]] = scores

        over_rows(work, len(rows), max(1, _BLOCK // _PANELS))
        return out

    @property
    def _has_panels(self) -> bool:
        """Whether densities between quick quantiles give scores and moments."""
        if self.discrete or not self.atomless:
            return False
        return has_panels(self) or self._splits

    @property
    def shares_panels(self) -> bool:
        """Whether scores come from integrals of densities, and quantiles of the base are slow."""
        return self._has_panels and (isinstance(self.base, PearsonFamily) or self._splits)

    def scored_quantiles(self, y: Array, levels: Array) -> tuple[Array, Array]:
        """Return scores (n,) and quantiles (n, j), from the same panels if levels rise and are many."""
        shares = self.shares_panels and len(levels) >= FEW and has_shared_levels(levels[None, :])
        if not shares or not np.isfinite(y).all():
            return super().scored_quantiles(y, levels)
        scores, out = np.empty(len(self)), np.empty((len(self), len(levels)))
        usual = np.setdiff1d(np.arange(len(self)), self._cancelled)
        if self._splits:
            self._panel_components()  # computed once, before rows are taken
        if len(self._cancelled):
            narrow = self.take(self._cancelled)
            scores[self._cancelled] = narrow.crps(y[self._cancelled])
            out[self._cancelled] = narrow.quantile(levels)

        def work(block: slice) -> None:
            rows = usual[block]
            part, outcomes = self.take(rows), y[rows]
            components = part._panel_components()
            all_scores, quantiles = panel_scores(
                part, components, outcomes[:, None], levels[None, :]
            )
            row_scores = all_scores[:, 0]
            unsafe = np.flatnonzero(np.isnan(row_scores))
            if len(unsafe):
                row_scores[unsafe] = Predictive.crps(part.take(unsafe), outcomes[unsafe])
            unsafe = np.flatnonzero(np.isnan(quantiles).any(axis=1))
            if len(unsafe):
                quantiles[unsafe] = part.take(unsafe).quantile(levels)
            scores[rows], out[rows] = row_scores, quantiles

        over_rows(work, len(usual), max(1, _BLOCK // max(_PANELS, len(levels))))
        return scores, out

    def _panel_components(self) -> tuple[Predictive, ...]:
        return self._mixture.components if self._splits else (self,)

    def density_terms(self) -> list[DensityTerm] | None:
        """Return those of the base, divided by the mass of the interval, in which all panels lie."""
        terms = self.base.density_terms()
        if terms is None or not (self._mass > _LEAST_SCALED).all():
            return None
        return [(family, constants, share / self._mass) for family, constants, share in terms]

    @property
    def node_count(self) -> int:
        """Number of nodes per row: that of a discrete base, or of the quadrature."""
        few = self._few_counts
        if few is not None:
            return few.counts.shape[1]
        if self._splits:
            return self._mixture.node_count
        return self.base.node_count if self.discrete else node_count(stops=self.kinks().shape[1])

    def nodes(self, splits: int = 1) -> Nodes:
        """Return nodes and weights: of a mixture those of its components, each in its own panels."""
        return self._mixture.nodes(splits) if self._splits else super().nodes(splits)

    def coarse_nodes(self) -> Nodes:
        """Return nodes of a lower order, of a mixture those of its components."""
        return self._mixture.coarse_nodes() if self._splits else super().coarse_nodes()

    def nodes_within(self, length: float) -> Nodes:
        """Return nodes from panels no longer than ``length``, of a mixture those of its components."""
        return self._mixture.nodes_within(length) if self._splits else super().nodes_within(length)

    def node_count_within(self, length: float) -> int:
        """Return the number of nodes (L) of `nodes_within`, for one interval without computing them."""
        if self._splits or self.discrete:
            return super().node_count_within(length)
        return nodes_within(self._panel_ends, length)

    @property
    def exact_nodes(self) -> bool:
        """Whether the nodes of the base are exact."""
        return self.base.exact_nodes

    def support(self) -> Nodes | None:
        """Return the outputs (L,) that all rows share and their probabilities (n, L), as the base does."""
        nodes = self.base.support() if self.discrete and self._few_counts is None else None
        if nodes is None:
            return None
        masses = self._inside(*nodes)
        return None if masses is None else (nodes[0], masses)

    def _inside(self, values: Array, weights: Array) -> Array | None:
        """Return the weights of the base's nodes in the interval, or None if the nodes miss mass."""
        inside = (values >= self.low[:, None]) & (values <= self.high[:, None])
        masses = np.where(inside, weights, 0.0)
        total = masses.sum(axis=1)
        if (np.abs(total - self._mass) > _MISSING_SHARE * self._mass).any():
            return None
        return np.asarray(masses / total[:, None])

    def _own_support(self) -> Nodes:
        few = self._few_counts
        if few is not None:
            return few.counts, few.weights
        values, weights = self.base.nodes()
        masses = self._inside(values, weights)
        if masses is not None:
            return values, masses
        # The interval lies beyond the last node of the base: continue with whole numbers from there.
        consecutive = (np.diff(values, axis=1) == 1).all() and not (values % 1).any()
        if not (consecutive or _on_whole_numbers(self.base)):
            raise ValueError(
                "the interval lies in a tail of base that its nodes do not reach, and base is not over "
                "whole numbers; a wider interval is needed"
            )
        first = self.quantile(TAIL_MASS)
        last = least(lambda x: self.sf(x) <= TAIL_MASS, len(self))
        count = float((last - first).max()) + 1
        if not count <= MOST_VALUES:
            raise ValueError(
                f"base gives mass to {count:,.0f} values of one input in the interval, too many to sum over"
            )
        values = first[:, None] + np.arange(int(count), dtype=np.float64)
        weights = np.exp(np.stack([self.log_prob(column) for column in values.T], axis=1))
        return values, weights / weights.sum(axis=1, keepdims=True)

    def _quadrature(self, order: int, splits: int = 1, length: float | None = None) -> Nodes:
        def density(values: Array) -> Array:
            return np.asarray(np.exp(self.log_densities(values)))

        lower, upper = self._tails
        return composite(lower, upper, density, order, splits, length, self._panel_ends)

    @property
    def _tails(self) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """Quantile functions at levels from below and from above."""

        def at(levels: Array) -> Array:
            return np.broadcast_to(levels, (len(self), levels.shape[1]))

        # Ends of panels may be off by rounding of levels: none is refined.
        if self._inverts:
            return (
                lambda levels: self._inverse(at(levels), 1 - at(levels), exact=False),
                lambda levels: self._inverse(1 - at(levels), at(levels), exact=False),
            )
        return (
            lambda levels: self.quantiles_at(at(levels)),
            lambda levels: self.upper_quantiles_at(at(levels)),
        )

    @cached_property
    def _panel_ends(self) -> Ends:
        kinks = self.kinks()
        if not kinks.shape[1]:
            return panel_ends(*self._tails)
        below = np.stack([self.cdf(column) for column in kinks.T], axis=1)
        above = np.stack([self.sf(column) for column in kinks.T], axis=1)
        return panel_ends(*self._tails, stops=(kinks, below, above))


def _by_halving(base: Predictive, low: Array, high: Array, level: Array) -> Array:
    """Return quantiles (m,) of distributions truncated to intervals, by bisection of the cdf."""
    return by_halving(Truncated(base, low, high), level[:, None], Truncated.reaches)[:, 0]


def _partly_discrete(base: Predictive) -> bool:
    match base:
        case ZeroInflated():
            return not base.discrete
        case Mixture():
            return not base.discrete and any(
                part.discrete or isinstance(part, Draws) or _partly_discrete(part)
                for part in base.components
            )
    return False


def _on_whole_numbers(base: Predictive) -> bool:
    """Tell whether all values are whole numbers, as those of mixtures of counts are."""
    if isinstance(base, Mixture):
        return all(_on_whole_numbers(part) for part in base.components)
    return isinstance(base, WholeNumbers)


def _end(value: object, name: str, shape: tuple[int, ...]) -> Array:
    """Return the checked ends (n,) of one side, which may be infinite."""
    from fastmcmd._base.checks import as_array

    array = as_array(value, name)
    with np.errstate(invalid="ignore"):
        least = array.min(initial=np.inf)  # NaN if there is one
    if np.isnan(least):
        raise ValueError(f"{name} holds NaN; numbers or infinities are needed")
    try:
        rows = np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name} has shape {array.shape}; a scalar or {shape} is needed") from None
    ends = _core.row_array(len(rows))
    np.copyto(ends, rows)
    return ends


def _inside(y: Array, logs: Array, log_mass: Array, low: Array, high: Array) -> Array:
    """Return log densities, with those of the base divided by the mass of the interval."""
    logs = logs - log_mass
    logs[(y < low) | (y > high)] = -np.inf
    return logs


def _smaller(below: Array, at_least: Array) -> Array:
    """Return the mass of the tail that `mass_between` subtracts from."""
    return np.where(below > 0.5, at_least, below)


def _gaussian_moments(of: Truncated) -> tuple[Array, Array, Array]:
    """Return means and standard deviations of a truncated Gaussian, and the share of variance that is left.

    With standardised ends a and b, mass Z and density h: ``E = (h(a) - h(b)) / Z`` and
    ``Var = 1 + (a h(a) - b h(b)) / Z - E^2``.
    """
    base = of.base
    with np.errstate(over="ignore"):
        ends = [(end - base.mean) / base.std for end in (of.low, of.high)]
        height = [np.exp(-z * z / 2) / np.sqrt(2 * np.pi) for z in ends]
    slope = [np.where(np.isinf(z), 0.0, z) * h for z, h in zip(ends, height, strict=True)]
    shift = (height[0] - height[1]) / of._mass
    shrink = 1 + (slope[0] - slope[1]) / of._mass - shift * shift
    return base.mean + base.std * shift, base.std * np.sqrt(np.maximum(shrink, 0.0)), shrink
