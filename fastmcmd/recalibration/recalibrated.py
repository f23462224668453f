"""Continuous predictions whose distribution functions are mapped by one increasing function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Gaussian, Predictive, ScipyPredictive
from fastmcmd.predictive.atomless import without_atoms
from fastmcmd.predictive.base import Array, Nodes, check_levels, uniform_levels
from fastmcmd.predictive.two_piece import TwoPiece
from fastmcmd.predictive.wrapped import Derived
from fastmcmd.recalibration.levels import Rule, far_below, rule, rule_between, rule_count
from fastmcmd.recalibration.monotone import MonotoneMap
from fastmcmd.recalibration.rescaled import Rescaled

__all__ = ["RecalibratedCDF"]

_BLOCK = 1 << 20  # quantiles per block
_ENOUGH = 1e-10  # accepted change of the moments on finer panels, in standard deviations
_MOST_SPLITS = 8
_MANY_KNOTS = 1 << 13  # with this many knots, panels need not be split
_MOST_ATOMS = 64  # with more, panels do not end at them
_ROUNDING = 1e-13  # rounding of sums over nodes
_UPPER = 0.999  # level, before or after mapping, from which quantiles come from the mass above
_FAR = 1e20  # standard deviations at which a score equals the distance to rounding


class RecalibratedCDF(Derived):
    """Distributions with distribution functions R(F(y)), where F belongs to a continuous prediction.

    Parameters
    ----------
    inner : Predictive
        Continuous predicted distributions of n numbers.
    mapping : MonotoneMap
        Increasing map R with R(0) = 0 and R(1) = 1.

    Notes
    -----
    Y' with this distribution function is ``Q(R^-1(U))`` for uniform U. Its quantiles are therefore those of
    the inner distribution at other levels, and ``E g(Y') = int g(Q(p)) R'(p) dp``. For g(y) = y this equals
    ``int_0^inf (1 - R(F(y))) dy - int_-inf^0 R(F(y)) dy``; Levi et al. (2019), equation 13, has only the
    first part, which holds for positive targets.

    Means and variances are integrals over levels; the two tails beyond 1e-16 follow from the known moments
    of the inner distribution. Errors are near rounding if the quantile function is smooth (even with
    infinite fourth moments), and 1e-9 standard deviations at the atoms of partly discrete distributions:
    panels end at the levels between which the quantile function of a row jumps. More than 64 atoms have no
    such panels, and cost some 1e-3 standard deviations. Location-scale families are integrated once for all
    rows; others, such as mixtures, need some hundred quantiles per row.

    R' is constant between knots, so the log density changes by a constant in each interval and jumps at
    knots.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import MonotoneMap, RecalibratedCDF
    >>> r = MonotoneMap(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.25, 1.0]))
    >>> moved = RecalibratedCDF(fm.Gaussian([0.0], 1.0), r)  # three quarters of the mass above 0
    >>> moved.cdf(0.0).tolist(), moved.mean.round(6).tolist()
    ([0.25], [0.398942])
    """

    def __init__(self, inner: Predictive, mapping: MonotoneMap) -> None:
        self.inner = inner
        self.mapping = mapping
        self.discrete = inner.discrete
        self.has_density = inner.has_density

    @property
    def atomless(self) -> bool:
        """Whether every single output has probability 0 under the inner distribution."""
        return self.inner.atomless

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r}, {self.mapping!r})"

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,): R(F(y))."""
        return self.mapping(self.inner.cdf(y))

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        return self.mapping(self.inner.cdf_below(y))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,); small probabilities keep all their digits."""
        level, mapping = self.inner.sf(y), self.mapping
        small = np.interp(level, 1 - mapping.p[::-1], 1 - mapping.r[::-1])
        return np.where(level < 0.5, small, 1 - self.cdf(y))

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density (n,), ``log f(y) + log R'(F(y))``, or the log probability of an atom."""
        inner = np.asarray(self.inner.log_prob(y))
        low, high = self.inner.cdf_below(y), self.inner.cdf(y)
        first, last = self.mapping.cell(low), self.mapping.cell(high)
        log_density = inner + np.log(self.mapping.slopes[last])
        # Within one interval of R this also holds for atoms, and keeps the digits of small ones.
        across = (first != last) & (low < high) & np.isfinite(inner)
        if across.any():
            gap = self.mapping(high[across]) - self.mapping(low[across])
            with np.errstate(divide="ignore"):
                log_density[across] = np.log(gap)
        return log_density

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j), which are those of the inner distributions at R^-1(level)."""
        levels = check_levels(level)
        inner_levels = self.mapping.inverse(levels)
        quantiles = self.inner.quantile(inner_levels)
        upper = (np.maximum(levels, inner_levels) > _UPPER) & (levels < 1)
        if not upper.any() or self.discrete:
            return quantiles
        # Near 1, R^-1 rounds, even to 1: use the mass above, which keeps its digits.
        quantiles = np.array(quantiles.reshape(len(self), -1))
        above = self.mapping.inverse_above(1 - np.atleast_1d(levels)[np.atleast_1d(upper)])
        rows = np.broadcast_to(above, (len(self), len(above)))
        quantiles[:, np.atleast_1d(upper)] = self.inner.upper_quantiles_at(rows)
        return quantiles if levels.ndim else quantiles[:, 0]

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        if self.discrete:  # levels at atoms must not be rounded
            return super().quantiles_at(levels)
        inner_levels = self.mapping.inverse(levels)
        quantiles = self.inner.quantiles_at(inner_levels)
        row, column = np.nonzero(np.maximum(levels, inner_levels) > _UPPER)
        if len(row):
            above = self.mapping.inverse_above(1 - levels[row, column])
            quantiles[row, column] = self.inner.take(row).upper_quantiles_at(above[:, None])[:, 0]
        return quantiles

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the smallest numbers (n, j) at which `sf` is at most levels (n, j)."""
        if self.discrete:
            return super().upper_quantiles_at(levels)
        inner_levels = self.mapping.inverse_above(levels)
        quantiles = self.inner.upper_quantiles_at(inner_levels)
        row, column = np.nonzero(np.maximum(levels, inner_levels) > _UPPER)
        if len(row):
            below = self.mapping.inverse(1 - levels[row, column])
            quantiles[row, column] = self.inner.take(row).quantiles_at(below[:, None])[:, 0]
        return quantiles

    @property
    def rough_levels(self) -> Array:
        """Levels at the knots of R, and levels at which inner quantile functions are not smooth."""
        return np.union1d(self.mapping.r[1:-1], self.mapping(self.inner.rough_levels))

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        uniform = uniform_levels((len(self), size), random_state)
        return self.inner.quantiles_at(self.mapping.inverse(uniform))

    def take(self, rows: NDArray[np.intp]) -> RecalibratedCDF:
        """Return the distributions of some rows."""
        return type(self)(self.inner.take(rows), self.mapping)

    @cached_property
    def _standard(self) -> _Standard | None:
        return _standardised(self.inner)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Return means and standard deviations (n,)."""
        standard = self._standard
        if standard is None:
            mean, variance = _moments(self.inner, self.mapping)
            return mean, np.sqrt(variance)
        mean, variance = _moments(standard.shapes, self.mapping)
        mean, std = mean[standard.shape_index], np.sqrt(variance[standard.shape_index])
        return standard.location + standard.scale * mean, standard.scale * std

    def nodes(self, splits: int = 1) -> Nodes:
        """Return quantiles at Gauss-Legendre levels between the knots of R."""
        return self._at(_rule_of(self.mapping, self._jumps, splits))

    def coarse_nodes(self) -> Nodes:
        """Return fewer nodes; comparing sums over both estimates the error of `nodes`."""
        return self._at(_rule_of(self.mapping, self._jumps, coarse=True))

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return _rule_count(self.mapping, self._jumps)

    @cached_property
    def _jumps(self) -> tuple[Array, Array] | None:
        return _jumps(self.inner)

    def _at(self, nodes: Rule) -> Nodes:
        standard = self._standard
        if standard is None:
            values = _quantiles(self.inner, nodes.levels)
        else:
            values = standard.values(standard.shapes.quantile(nodes.levels))
        return values, np.broadcast_to(nodes.weights, values.shape)

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z) for kernels that need no integral."""
        return without_atoms(self, kernel, points) if self.has_density else None

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,); for Gaussians in closed form.

        With ``z = (y - mean) / std``, ``M(z)`` the first moment below z and ``m = M(inf)`` under R(Phi):
        ``std (z (2 R(Phi(z)) - 1) + m - 2 M(z) - int q(u) (2 u - 1) du)``.
        """
        if not isinstance(self.inner, Gaussian):
            return super().crps(y)
        from scipy import special

        def density(z: Array) -> Array:
            return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))

        mapping = self.mapping
        edges = density(special.ndtri(mapping.p))
        below = np.concatenate([[0.0], np.cumsum(mapping.slopes * -np.diff(edges))])
        nodes = rule(mapping)
        spread = nodes.weights * special.ndtri(nodes.levels) * (2 * mapping(nodes.levels) - 1)
        y = self.outcomes(y)
        with np.errstate(over="ignore"):
            z = (y - self.inner.mean) / self.inner.std
        far = np.abs(z) > _FAR  # only the distance matters there
        z = np.where(far, 0.0, z)
        level = special.ndtr(z)
        cell = mapping.cell(level)
        partial = below[cell] + mapping.slopes[cell] * (edges[cell] - density(z))
        score = z * (2 * mapping(level) - 1) + below[-1] - 2 * partial - spread.sum()
        return np.where(far, np.abs(y - self.mean), self.inner.std * score)


def _moments(inner: Predictive, mapping: MonotoneMap) -> tuple[Array, Array]:
    """Return means and variances (n,), refining panels until they no longer change."""
    mean, variance = np.empty(len(inner)), np.empty(len(inner))
    fine = len(mapping.p) > _MANY_KNOTS
    for rows, part in _parts(inner, 2 * _rule_count(mapping, _jumps(inner))):
        jumps = _jumps(part)
        moments = _once(part, _rule_of(mapping, jumps, coarse=not fine))
        splits, last = 1, np.inf
        while splits <= _MOST_SPLITS and not fine:
            coarser, moments = moments, _once(part, _rule_of(mapping, jumps, splits))
            change = _change(coarser, moments)
            if change <= _ENOUGH or change > last / 2:  # converged, or limited by rounding near 1
                break
            splits, last = 2 * splits, change
        mean[rows], variance[rows] = moments
    return mean, variance


def _change(coarser: tuple[Array, Array], finer: tuple[Array, Array]) -> float:
    """Return the largest change: of finite means in standard deviations, of variances relatively."""
    finite = np.isfinite(finer[1])
    mean, variance = finer[0][finite], finer[1][finite]
    one = np.abs(mean - coarser[0][finite]) / np.sqrt(variance)
    two = np.abs(variance - coarser[1][finite]) / variance
    return float(max(np.max(one, initial=0.0), np.max(two, initial=0.0)))


def _rule_of(
    mapping: MonotoneMap,
    jumps: tuple[Array, Array] | None,
    splits: int = 1,
    coarse: bool = False,
) -> Rule:
    """Return the quadrature rule: with levels of each row if there are atoms, at which quantiles jump."""
    if jumps is None:
        return rule(mapping, splits, coarse)
    return rule_between(mapping, jumps, splits, coarse)


def _rule_count(mapping: MonotoneMap, jumps: tuple[Array, Array] | None) -> int:
    return len(rule(mapping).levels) if jumps is None else rule_count(mapping, jumps)


def _jumps(inner: Predictive) -> tuple[Array, Array] | None:
    """Return the levels between which quantiles are atoms; None without, or if there are too many."""
    if inner.atomless:
        return None
    below, upto = inner.jump_levels()
    return (below, upto) if 0 < below.shape[1] <= _MOST_ATOMS else None


def _quantiles(inner: Predictive, levels: Array) -> Array:
    """Return quantiles (n, L) at levels (L,), or at levels (n, L) of each row."""
    return inner.quantile(levels) if levels.ndim == 1 else inner.quantiles_at(levels)


def _once(inner: Predictive, nodes: Rule) -> tuple[Array, Array]:
    """Return means and variances (n,) from one quadrature rule."""
    centre, spread = np.asarray(inner.mean), np.asarray(inner.variance)
    finite = np.isfinite(centre)
    origin = np.where(finite, centre, inner.quantile(0.5))[:, None]
    gaps = _quantiles(inner, nodes.levels) - origin
    # Integrate far below only if the tail is unbounded; a bounded tail has nothing left there.
    endless = not np.isfinite(inner.quantile(0.0)).all()
    far, share = far_below(nodes.outside[0] if endless else 0.0)
    beyond = inner.quantile(far) - origin if len(far) else np.zeros((len(inner), 0))
    beyond = np.where(np.isfinite(beyond), beyond, 0.0)

    def moment(power: int, total: Array) -> Array:
        """Return a moment about the origin: that of the bulk, plus each tail times its slope."""
        bulk = gaps**power
        low = beyond**power @ share
        high = total - nodes.integral(bulk) - low
        # Short tails vanish in the rounding of that difference: place their mass at the last node.
        is_rounding = np.abs(high) <= _ROUNDING * nodes.integral(np.abs(bulk))
        high = np.where(is_rounding, nodes.outside[1] * bulk[:, -1], high)
        return np.asarray(nodes.mean(bulk) + nodes.slopes[0] * low + nodes.slopes[1] * high)

    with np.errstate(invalid="ignore", over="ignore"):
        first = moment(1, np.zeros(len(inner)))
        second = moment(2, spread) - first**2
    mean = np.where(finite, origin[:, 0] + first, centre)
    return mean, np.where(np.isfinite(spread) & finite, second, spread)


def _parts(inner: Predictive, per_row: int) -> Iterator[tuple[slice, Predictive]]:
    for rows in row_blocks(len(inner), _BLOCK // per_row):
        is_all = rows.stop - rows.start == len(inner)
        yield rows, inner if is_all else inner.take(np.arange(rows.start, rows.stop))


@dataclass(frozen=True, eq=False)
class _Standard:
    """Predictions as ``location + scale Z``.

    Attributes
    ----------
    shapes : Predictive of u rows
        The distributions of Z.
    shape_index : ndarray (n,)
        The row of ``shapes`` for each row.
    location, scale : ndarray (n,)
        Parameters of each row.
    """

    shapes: Predictive
    shape_index: NDArray[np.intp]
    location: Array
    scale: Array

    def values(self, shape_values: Array) -> Array:
        """Return values (n, L) from those of Z (u, L)."""
        return np.asarray(
            self.location[:, None] + self.scale[:, None] * shape_values[self.shape_index]
        )


def _standardised(prediction: Predictive) -> _Standard | None:
    """Return continuous predictions as locations and scales of a few distributions, or None."""
    match prediction:
        case Gaussian():
            one = Gaussian(np.zeros(1), np.ones(1))
            shape_index = np.zeros(len(prediction), dtype=np.intp)
            return _Standard(one, shape_index, prediction.mean, prediction.std)
        case Rescaled():
            inner = _standardised(prediction.inner)
            if inner is None:
                return None
            mean, scale = prediction.mean, prediction.scale
            location = mean + scale * (inner.location - prediction.inner.mean)
            return _Standard(inner.shapes, inner.shape_index, location, inner.scale * scale)
        case ScipyPredictive() if not (prediction.discrete or isinstance(prediction, TwoPiece)):
            return _of_scipy(prediction)
    return None


def _of_scipy(prediction: ScipyPredictive) -> _Standard | None:
    """Return a frozen distribution of SciPy as shapes, locations and scales, or None."""
    parameters = prediction.shapes
    if parameters is None:
        return None
    count, has_shapes = len(parameters), parameters.distinct.shape[1] > 0
    if has_shapes and count > len(prediction) // 2:  # too few rows share their shapes
        return None
    shapes = ScipyPredictive(parameters.family(*parameters.distinct.T), count)
    return _Standard(shapes, parameters.place, parameters.loc, parameters.scale)
