"""Quantiles, scores and moments of continuous distributions from their densities alone.

A cdf costs a special function, a density an exponential. Each row is cut into panels, on which a polynomial
through the densities at Gauss-Legendre nodes is exact to rounding; panels where it is not are halved. The
integral of the polynomials is the cdf, which Newton's method inverts. The tails outside the panels come
from the cdf itself. If all masses of a row do not sum to 1, its results are NaN, and other methods compute
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import Array
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.predictive.expectation import TAIL_MASS

if TYPE_CHECKING:
    from fastmcmd.predictive.base import Predictive

__all__ = [
    "DensityPanels",
    "are_shared",
    "has_panels",
    "has_shared_levels",
    "panel_moments",
    "panel_quantiles",
    "panel_scores",
    "safe_scores",
    "scores_up_to",
]

_NODES = 20  # a panel then spans about one standard deviation of a Gaussian
# Errors of the cdf that are allowed in a panel, some relative to the smaller tail to which it belongs.
_FOR_QUANTILES = 1e-15  # relative
_FOR_SCORES = 3e-16
_FOR_MOMENTS = 1e-12  # relative; the error of a mass is far smaller
_NOISE = 100.0  # multiple of the allowed error that rounding of densities may cause
_GAIN = 4.0  # factor by which a halving at least reduces errors, if it helps
_MOST_HALVINGS = 7
_CHUNK = 800  # panels whose 16,000 densities are computed at a time
_TAIL_LEVEL, _NEGLIGIBLE = (
    1e-7,
    1e-17,
)  # level of a tail; its integral, relative to the width of the rest
_MOST_TAIL = 0.005  # length of a tail that may be left out, relative to the middle half of the mass
_APART = 8.0  # ratio of the ends of a panel from which it is cut at their geometric mean
_SLOWEST = 0.1  # decay of a series, from orders about 9 to 19, above which a peak may lie between the nodes
_TAIL_ENOUGH = 1e-15  # integral beyond the panels, relative to a score, that may be left out

# Densities (p, m) at the nodes of panels: of their rows (p,), left ends and half widths.
Density = Callable[[NDArray[np.intp], Array, Array], Array]


@lru_cache(maxsize=1)
def _rule() -> tuple[Array, Array, Array]:
    """Return weights and nodes (2 m,), and matrices (m, m) for `_core.panel_quantiles`.

    Products of densities at the nodes with the first are integrals up to each node, those with the second
    Legendre coefficients.
    """
    z, w = gauss_legendre(_NODES)
    legendre = np.polynomial.legendre.legvander(z, _NODES)  # (m, m + 1)
    order = np.arange(_NODES)
    series = (order[:, None] + 0.5) * legendre[:, :-1].T * w
    integrals = np.empty((_NODES, _NODES))  # of P_k up to node j
    integrals[:, 0] = 1 + z
    integrals[:, 1:] = (legendre[:, 2:] - legendre[:, : _NODES - 1]) / (2 * order[1:] + 1)
    series = np.ascontiguousarray(series.T)
    return np.concatenate([w, z]), np.ascontiguousarray(series @ integrals.T), series


@dataclass(frozen=True)
class DensityPanels:
    """Densities of n rows on their panels, which adjoin and are sorted by row and place.

    Attributes
    ----------
    starts : ndarray (n + 1,)
        Places of the first panel of each row, and the number of all.
    row, left, half : ndarray (p,)
        Row of each panel, its left end, and half its width.
    density : ndarray (q, m)
        Densities at the nodes of these panels and others.
    places : ndarray (p,)
        Rows of ``density`` that belong to the panels.
    below, above : ndarray (n,)
        Masses outside the panels.
    resolved : ndarray (n,)
        Whether the polynomials are exact to rounding.
    """

    starts: NDArray[np.int64]
    row: NDArray[np.intp]
    left: Array
    half: Array
    density: Array
    places: NDArray[np.int64]
    below: Array
    above: Array
    resolved: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        prediction: Predictive,
        edges: Array,
        enough: float,
        spread: Array | None = None,
        least: float = np.inf,
    ) -> DensityPanels:
        """Return panels between edges (n, E), which rise along each row.

        Parameters
        ----------
        prediction : Predictive
            Distributions, for their densities, and their cdf at the first and the last edge.
        edges : ndarray (n, E)
            Ends of panels, at first.
        enough : float
            Error of the cdf that is allowed within a panel, relative to the smaller tail to which it
            belongs.
        spread : ndarray (n,), optional
            Widths of the distributions, if scores are the aim. The error is then not relative, and larger
            where it hardly changes a score.
        least : float, optional
            Level from which quantiles are an aim, too; their error is `_FOR_QUANTILES`.
        """
        below, above = prediction.masses_outside(edges[:, 0], edges[:, -1])
        n = len(edges)
        resolved: Any = np.isfinite(edges).all(axis=1)
        # Rows without panels get one, whose results do not count.
        edges = np.where(resolved[:, None], edges, np.minimum(np.arange(edges.shape[1]), 1.0))
        row: Any
        left: Any
        right: Any
        left, right = edges[:, :-1], edges[:, 1:]
        wide = right > left
        row = np.repeat(np.arange(n), wide.sum(axis=1))
        left, right = left[wide], right[wide]
        rule, _, series = _rule()
        weights = rule[:_NODES]
        density = _densities_of(prediction)
        some = np.ascontiguousarray(series[:, [-2, -1, _NODES // 2 - 2, _NODES // 2 - 1]])
        parts: list[tuple[Any, ...]] = []
        tables, table_length = [], 0  # densities of all panels, also of those that are halved
        tail, error_before = np.empty(0), np.full(len(row), np.inf)
        with np.errstate(all="ignore"):
            for turn in range(_MOST_HALVINGS + 1):
                half = (right - left) / 2
                values, sizes = density(row, left, half), np.empty((len(row), 5))
                _core.panel_sizes(values, weights, some, sizes)
                if not turn:
                    tail = _smaller_tail(half * sizes[:, 0], row, below, above)
                last_terms = sizes[:, 1] + sizes[:, 2]
                error = half * last_terms / _NODES
                if spread is None:
                    most_error = enough * tail
                else:
                    # The error of the mass counts fully, that of the integral by the width of the panel.
                    # The decay of the series tells its coefficient of order 2 m, the error of the mass.
                    decay = last_terms / (sizes[:, 3] + sizes[:, 4])
                    local = enough * spread[row] / (2 * half * tail)
                    decays = (error * decay**2 <= enough) & (decay <= _SLOWEST)
                    most_error = np.where(decays, np.maximum(local, enough), enough)
                    inner = np.minimum(most_error, _FOR_QUANTILES * tail)
                    most_error = np.where(tail >= least, inner, most_error)
                poor = ~(error <= most_error)
                # Halving does not help against rounding of densities, nor against poles, except where it is
                # one of ratios.
                closes_in = ~(error <= _NOISE * most_error) & _is_apart(left, right)
                rough = poor & ~(error < error_before / _GAIN) & (turn > 1) & ~closes_in
                rough |= poor & (~np.isfinite(error) | (turn == _MOST_HALVINGS))
                resolved[row[rough & ~(error <= _NOISE * most_error)]] = False
                open_ = poor & ~rough & resolved[row]
                tables.append(values)
                places = np.arange(table_length, table_length + len(row))
                table_length += len(row)
                if not open_.any():
                    parts.append((row, left, half, places))
                    break
                closed = ~open_
                parts.append(tuple(v[closed] for v in (row, left, half, places)))
                row, left, right, tail, error = (v[open_] for v in (row, left, right, tail, error))
                middle = _middle(left, right)
                row, tail, error_before = (np.concatenate([v, v]) for v in (row, tail, error))
                left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        if len(parts) > 1:
            row, left, half, places = (np.concatenate(v) for v in zip(*parts, strict=True))
            order = np.lexsort((left, row))
            row, left, half, places = (v[order] for v in (row, left, half, places))
            values = np.concatenate(tables)
        else:
            row, left, half, places = parts[0]
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(row, minlength=n), out=starts[1:])
        return cls(starts, row, left, half, values, places, below, above, resolved)

    def quantiles(self, levels: Array) -> Array:
        """Return quantiles (n, j) at rising levels (n or 1, j) in (0, 1); NaN where they are unsafe."""
        out = np.empty((len(self.below), levels.shape[1]))
        rule, nodes, series = _rule()
        _core.panel_quantiles(
            self.starts, self.left, self.half, self.density, self.places, self.below, self.above,
            np.ascontiguousarray(levels), rule, nodes, series, out,
        )  # fmt: skip
        out[~self.resolved] = np.nan
        return out

    def scores(self, y: Array) -> Array:
        """Return the integral of ``(F - 1{y <= t})^2`` over the panels (n,); NaN where it is unsafe.

        y (n,) are ends of panels, or lie outside.
        """
        splits = np.add.reduceat(self.left + self.half < y[self.row], self.starts[:-1])
        out = np.empty(len(y))
        rule, nodes, series = _rule()
        _core.panel_scores(
            self.starts, splits.astype(np.int64), self.left, self.half, self.density, self.places,
            self.below, self.above, rule, nodes, series, out,
        )  # fmt: skip
        out[~self.resolved] = np.nan
        return out

    def ends(self) -> tuple[Array, Array]:
        """Return the left end of the first panel and the right end of the last one (n,)."""
        last = self.starts[1:] - 1
        return self.left[self.starts[:-1]], self.left[last] + 2 * self.half[last]

    def moments(self) -> tuple[Array, Array]:
        """Return means and standard deviations (n,) of the mass in the panels; NaN if unsafe."""
        rule, _, _ = _rule()
        weights, nodes = rule[:_NODES], rule[_NODES:]
        first, last = self.ends()
        unit = last - first
        # Places relative to the first panel: the mean of a narrow distribution far from 0 keeps its digits.
        place = (self.left - first[self.row]) / unit[self.row]
        width = self.half / unit[self.row]
        share = self.density[self.places] * weights * self.half[:, None]
        at = place[:, None] + width[:, None] * (1 + nodes)
        starts = self.starts[:-1]
        mass = np.add.reduceat(share.sum(axis=1), starts)
        mean = np.add.reduceat((share * at).sum(axis=1), starts) / mass
        square = np.add.reduceat((share * (at - mean[self.row, None]) ** 2).sum(axis=1), starts)
        std = unit * np.sqrt(square / mass)
        safe = self.resolved & (np.abs(mass + self.below + self.above - 1) <= 1e-12)
        return np.where(safe, first + unit * mean, np.nan), np.where(safe, std, np.nan)


def _densities_of(prediction: Predictive) -> Density:
    """Return the densities at nodes of panels, for as many panels at a time as stay in a cache."""
    nodes = _rule()[0][_NODES:]

    def densities(rows: NDArray[np.intp], left: Array, half: Array) -> Array:
        out = np.empty((len(rows), _NODES))
        for start in range(0, len(rows), _CHUNK):
            some = slice(start, start + _CHUNK)
            values = left[some, None] + half[some, None] * (1 + nodes)
            out[some] = prediction.densities(rows[some], values)
        return out

    return densities


def _integrated(
    prediction: Predictive,
    edges: Array,
    enough: float,
    *,
    levels: Array | None = None,
    y: Array | None = None,
    spread: Array | None = None,
    least: float = np.inf,
    moments: bool = False,
) -> tuple[Array, Array, Array]:
    """Return scores (n, k), quantiles (n, j) and moments (n, 2), each without rows if it is not asked for.

    Outcomes y are (n, k). `DensityPanels.of` describes the other arguments. The core integrates densities
    for which it has formulas.
    """
    n = len(edges)
    terms = prediction.density_terms()
    if terms is None:
        panels = DensityPanels.of(prediction, edges, enough, spread, least)
        return (
            np.empty((0, 0))
            if y is None
            else np.stack([panels.scores(one) for one in y.T], axis=1),
            np.empty((0, 0)) if levels is None else panels.quantiles(levels),
            np.stack(panels.moments(), axis=1) if moments else np.empty((0, 2)),
        )
    with np.errstate(all="ignore"):
        below, above = prediction.masses_outside(edges[:, 0], edges[:, -1])
    scores = np.empty((0, 0) if y is None else y.shape)
    quantiles = np.empty((0, 0) if levels is None else (n, levels.shape[1]))
    mean_and_std = np.empty((n if moments else 0, 2))
    families, constants, weights = zip(*terms, strict=True)
    limits = (enough, _FOR_QUANTILES, least, _NOISE, _GAIN, float(_MOST_HALVINGS), _APART, _SLOWEST)
    most_panels = (edges.shape[1] - 1) << (_MOST_HALVINGS + 1)
    _core.integrate_densities(
        np.ascontiguousarray(edges), below, above,
        np.array(families), np.stack(constants), np.stack(weights), np.array(limits),
        np.empty(0) if spread is None else spread,
        np.empty((0, 0)) if y is None else np.ascontiguousarray(y),
        np.empty((1, 0)) if levels is None else np.ascontiguousarray(levels),
        *_rule(), np.empty((most_panels, _NODES + 8)), np.empty(most_panels, dtype=np.int64),
        scores, quantiles, mean_and_std,
    )  # fmt: skip
    return scores, quantiles, mean_and_std


def _smaller_tail(mass: Array, row: NDArray[np.intp], below: Array, above: Array) -> Array:
    """Return about min(F at the right end, 1 - F at the left end) of each panel."""
    total = np.cumsum(mass)
    starts = np.searchsorted(row, np.arange(len(below)))
    offset = np.concatenate([np.zeros(1), total])[starts]
    upto = total - offset[row] + below[row]
    return np.asarray(np.maximum(np.minimum(upto, 1 - upto + mass + above[row]), mass))


def _middle(left: Array, right: Array) -> Array:
    """Return the points at which panels are cut: geometric means of ends that are far apart."""
    near, far = np.minimum(np.abs(left), np.abs(right)), np.maximum(np.abs(left), np.abs(right))
    with np.errstate(all="ignore"):
        between = np.sign(right) * np.sqrt(near) * np.sqrt(far)
    return np.where(_is_apart(left, right), between, left + (right - left) / 2)


def _is_apart(left: Array, right: Array) -> NDArray[np.bool_]:
    """Tell which panels have ends so far apart that they are cut at their geometric mean."""
    near, far = np.minimum(np.abs(left), np.abs(right)), np.maximum(np.abs(left), np.abs(right))
    return np.asarray((np.sign(left) * np.sign(right) > 0) & (far > _APART * near))


def has_panels(component: Predictive) -> bool:
    """Tell whether the distribution is continuous with a density, and its quantiles have a formula."""
    return component.atomless and component.columns == 1 and component.has_quick_quantiles


def joined(edges: Sequence[Array], stops: Array, first: Array, last: Array) -> Array:
    """Return ends (n, E) of panels from ``first`` to ``last`` (n,), which rise; the last one is repeated.

    No panel spans more of a component than 1.05 of its own panels. Their ends are in ``edges``. Stops
    (n, k) are ends, too, if they lie between first and last.
    """
    columns = np.concatenate(edges, axis=1) if len(edges) > 1 else np.ascontiguousarray(edges[0])
    starts = np.cumsum([0, *(part_edges.shape[1] for part_edges in edges)])
    ends = np.empty((len(columns), columns.shape[1] + stops.shape[1] + 2))
    places = np.empty(len(edges), dtype=np.int64)
    _core.join_edges(columns, starts, np.ascontiguousarray(stops), first, last, places, ends)
    return ends


def _edges_of(
    components: Sequence[Predictive], least: float
) -> tuple[tuple[Array, ...], Array, Array]:
    """Return ends of panels of each component, and the numbers (n,) beyond which are tails of ``least``."""
    edges, lows, highs = zip(*(one.panel_edges(least) for one in components), strict=True)
    return edges, np.min(lows, axis=0), np.max(highs, axis=0)


def _ends_of(edges: Sequence[Array]) -> tuple[Array, Array]:
    """Return the first and the last end (n,) of all components."""
    return (
        np.min([part_edges[:, 0] for part_edges in edges], axis=0),
        np.max([part_edges[:, -1] for part_edges in edges], axis=0),
    )


def panel_quantiles(
    prediction: Predictive,
    components: Sequence[Predictive],
    levels: Array,
    end: float = np.inf,
) -> Array:
    """Return quantiles (n, j) at levels (n, j) or (1, j) that rise in (0, 1); NaN where they are unsafe.

    Parameters
    ----------
    prediction : Predictive
        Distributions.
    components : sequence of Predictive
        Distributions between whose quantiles those of ``prediction`` lie.
    levels : ndarray (n, j) or (1, j)
        Levels.
    end : float, optional
        Number beyond which quantiles are NaN: there are no panels.
    """
    least = min(float(levels.min()), 1 - float(levels.max())) / 2
    if not least > 0:
        return np.full((len(prediction), levels.shape[1]), np.nan)
    edges, first, last = _edges_of(components, least)
    low, high = _ends_of(edges)
    first, last = np.clip(low, first, last), np.clip(high, first, last)
    first, last = np.minimum(first, end), np.minimum(last, end)
    ends = joined(edges, prediction.kinks(), first, last)
    return _integrated(prediction, ends, _FOR_QUANTILES, levels=levels)[1]


def _middle_half(part_edges: Array) -> Array:
    """Return the widths (n,) between the ends beside the middle one: about the interquartile range."""
    place = part_edges.shape[1] // 2
    return np.asarray(part_edges[:, place + 1] - part_edges[:, place - 1])


def panel_scores(
    prediction: Predictive,
    components: Sequence[Predictive],
    y: Array,
    levels: Array | None = None,
) -> tuple[Array, Array]:
    """Return scores and quantiles from the same panels; NaN where they are unsafe.

    Parameters
    ----------
    prediction : Predictive
        Distributions.
    components : sequence of Predictive
        Distributions between whose quantiles those of ``prediction`` lie.
    y : ndarray (n, k)
        Finite outcomes.
    levels : ndarray (1, j) or (n, j), optional
        Levels that rise from `_TAIL_LEVEL` or more to its complement or less.

    Returns
    -------
    scores : ndarray (n, k)
        Continuous ranked probability scores.
    quantiles : ndarray (n, j)
        Without levels, j is 0.
    """
    scores, quantiles, outside = scores_up_to(prediction, components, y, levels)
    return safe_scores(scores, outside), quantiles


def safe_scores(scores: Array, outside: Array) -> Array:
    """Return scores (n, k); NaN where integrals (n,) beyond the panels may matter."""
    return np.where(outside[:, None] <= _TAIL_ENOUGH * scores, scores, np.nan)


def scores_up_to(
    prediction: Predictive,
    components: Sequence[Predictive],
    y: Array,
    levels: Array | None = None,
    end: float = np.inf,
) -> tuple[Array, Array, Array]:
    """Return parts of scores below ``end``, quantiles, and bounds (n,) of integrals beyond the panels.

    Quantiles beyond ``end`` are NaN. See `panel_scores` for the arguments.
    """
    edges, first, last = _edges_of(components, _TAIL_LEVEL)
    low, high = _ends_of(edges)
    spread = np.min([_middle_half(part_edges) for part_edges in edges], axis=0)
    # Leave out tails whose squares do not matter; at their ends densities may have poles.
    with np.errstate(over="ignore", invalid="ignore"):
        most = np.minimum(_NEGLIGIBLE / _TAIL_LEVEL**2 * (last - first), _MOST_TAIL * spread)
        inside = ((y >= first[:, None]) & (y <= last[:, None])).all(axis=1)
        first = np.where(inside & (first - low <= most), first, low)
        last = np.where(inside & (high - last <= most), last, high)
        middle = low + (high - low) / 2
        reach = np.maximum(np.abs(y - middle[:, None]).max(axis=1), (high - low) / 2)
        # Tails of regular variation: their integrals beyond the panels are a few times these.
        outside = 10 * TAIL_MASS**2 * reach + _TAIL_LEVEL**2 * (first - low + high - last)
    nearest = np.clip(y, first[:, None], last[:, None])
    beyond = np.maximum(nearest - y, y - nearest if end == np.inf else 0.0)
    first, last = np.minimum(first, end), np.minimum(last, end)
    ends = joined(edges, np.concatenate([prediction.kinks(), nearest], axis=1), first, last)
    least = np.inf if levels is None else min(float(levels.min()), 1 - float(levels.max()))
    scores, quantiles, _ = _integrated(
        prediction, ends, _FOR_SCORES, levels=levels, y=nearest, spread=spread, least=least
    )
    scores += beyond
    return scores, np.empty((len(y), 0)) if levels is None else quantiles, outside


def has_shared_levels(levels: Array) -> bool:
    """Tell whether the panels of scores reach quantiles at levels (n, j), and these rise in each row."""
    return bool(are_shared(levels).all())


def are_shared(levels: Array) -> NDArray[np.bool_]:
    """Return the rows (n,) of levels (n, j) that panels of scores reach, and that do not fall."""
    rises = (levels[:, 1:] >= levels[:, :-1]).all(axis=1)
    inside = (levels[:, 0] >= _TAIL_LEVEL) & (levels[:, -1] <= 1 - _TAIL_LEVEL)
    return np.asarray(rises & inside)


def panel_moments(prediction: Predictive) -> tuple[Array, Array]:
    """Return means and standard deviations (n,); NaN where they are unsafe.

    As for sums over `Predictive.nodes`, 1e-16 of the mass is left out at either end.
    """
    edges = prediction.panel_edges()[0]
    ends = joined([edges], prediction.kinks(), edges[:, 0].copy(), edges[:, -1].copy())
    moments = _integrated(prediction, ends, _FOR_MOMENTS, moments=True)[2]
    return moments[:, 0], moments[:, 1]
