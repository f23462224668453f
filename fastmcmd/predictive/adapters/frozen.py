"""Frozen distributions of scipy.stats as predictions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_count
from fastmcmd._base.row_store import RowStore
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.kernels import Kernel, Polynomial
from fastmcmd.kernels.base import EPS
from fastmcmd.predictive.adapters.closed_crps import (
    closed_clipped_scores,
    closed_crps,
    closed_piece_scores,
)
from fastmcmd.predictive.adapters.closed_densities import closed_log_prob
from fastmcmd.predictive.adapters.frozen_shapes import (
    FrozenShapes,
    has_kinks,
    has_own_formula,
    has_slow_quantiles,
    lacks_moments,
    quantile_search,
)
from fastmcmd.predictive.atomless import no_moment, without_atoms
from fastmcmd.predictive.base import ByQuadrature, check_levels
from fastmcmd.predictive.expectation import TAIL_MASS
from fastmcmd.predictive.numerics.closed_scores import CDFPiece
from fastmcmd.predictive.numerics.inverse import by_search, masses_above, masses_below
from fastmcmd.predictive.numerics.node_moments import node_moments
from fastmcmd.predictive.numerics.quadrature import (
    PANEL_LEVELS,
    Ends,
    composite,
    node_count,
    nodes_within,
    panel_ends,
)
from fastmcmd.predictive.numerics.spread import MOST_VALUES, shared_support

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

__all__ = ["ScipyPredictive", "is_frozen", "is_of_scipy"]

_NEAR = 1 << 10  # values above the median that hold the mass of most distributions
_FEW_SHAPES = 4  # distinct shapes up to which SciPy's search for each takes little time
_REPEATED = 2  # rows per shape from which shapes are searched instead of rows
_LATTICE_STEP = 0.25  # part of the distance of the values of a discrete distribution
_SUMMED = 64  # values above the median whose probabilities are added up first
_MOST_SUMMED = 1 << 20  # probabilities in memory at once
_LOST_MASS = 1e-9  # mass of a discrete distribution that may be missing before it is an error
_MODERATE = 1e100  # sizes below which finite scores do not overflow
_ROUNDING = 1e-9  # rounding of the values of a discrete distribution with a fractional loc


def is_frozen(value: object) -> bool:
    """Return whether ``value`` is a frozen univariate distribution of scipy.stats."""
    return hasattr(value, "dist") and hasattr(value, "ppf") and hasattr(value, "rvs")


def is_of_scipy(family: Any) -> bool:
    """Return whether a family is SciPy's own, not a user's family of the same name."""
    return type(family) is type(getattr(scipy.stats, str(family.name), None))


class ScipyPredictive(ByQuadrature):
    """A frozen scipy.stats distribution whose parameters hold one value per input.

    Parameters
    ----------
    frozen : scipy.stats frozen distribution
        A continuous distribution, or a discrete one over ``loc`` plus whole numbers.
    n : int
        Number of inputs; parameters are scalars or (n,).

    Raises
    ------
    ValueError
        Parameters that do not have one value per input, or that SciPy does not allow.

    Examples
    --------
    >>> from scipy import stats
    >>> from fastmcmd.predictive import ScipyPredictive
    >>> ScipyPredictive(stats.t(3.0, loc=[0.0, 1.0]), 2).quantile(0.5).tolist()
    [0.0, 1.0]
    """

    has_inverse = True

    def __init__(self, frozen: rv_frozen, n: int) -> None:
        for value in (*frozen.args, *frozen.kwds.values()):
            if np.ndim(value) > 1 or np.size(value) not in (1, n):
                raise ValueError(
                    f"prediction has a parameter of shape {np.shape(value)}; a number or ({n},) is "
                    "needed: one value per input"
                )
        self.frozen = _in_double_precision(frozen)
        self._n = n
        # A frozen distribution has both pdf and pmf; its family has only one of them.
        self.discrete = hasattr(frozen.dist, "pmf")
        if not _is_allowed(frozen):
            raise ValueError("prediction has parameters that scipy.stats does not allow")

    def __repr__(self) -> str:
        return f"ScipyPredictive({self.frozen.dist.name}, {self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (self._n,)

    def _all(self, value: object) -> Array:
        return np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), (self._n,)))

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return self._moments_of("m")[0]

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite or NaN where the distribution has none."""
        variance = self._moments_of("v")[0]
        return np.where(variance < 0, np.nan, variance)  # SciPy's integral of a heavy tail

    def _moments_of(self, names: str) -> list[Array]:
        """Return the moments (n,) that letters of ``rv_continuous.stats`` name.

        Without a formula, equal shapes are integrated once: by nodes, or by SciPy where these fail.
        """
        shapes = self.shapes
        if shapes is None:
            return [self._all(one) for one in np.atleast_1d(self.frozen.stats(moments=names))]
        if self.discrete or not lacks_moments(self.frozen.dist):
            return shapes.moments(names)
        return shapes.moments(names, _integrated_moments(self._standard(shapes)))

    def _standard(self, shapes: FrozenShapes) -> ScipyPredictive:
        """Return the distributions of the distinct shapes, with location 0 and scale 1."""
        standard = ScipyPredictive(self.frozen.dist(*shapes.distinct.T), len(shapes))
        store, places = self._ends_by_row
        standard._ends_by_row = store, places[shapes.first_rows]
        return standard

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        y = self.outcomes(y)
        if self._by_counts is not None:
            base, loc = self._by_counts
            return self._all(_quietly(base.cdf, _last_count(y, loc)))
        return self._all(_quietly(self.frozen.cdf, y))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,)."""
        y = self.outcomes(y)
        if self._by_counts is not None:
            base, loc = self._by_counts
            return self._all(_quietly(base.sf, _last_count(y, loc)))
        above = self._all(_quietly(self.frozen.sf, y))
        missing = np.isnan(above) & ~np.isnan(y)  # far out in SciPy's inverse Gaussian
        return np.where(missing, 1 - self.cdf(y), above) if missing.any() else above

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        if not self.discrete:
            return self.cdf(y)
        if self._by_counts is not None:
            base, loc = self._by_counts
            return self._all(_quietly(base.cdf, _first_count(self.outcomes(y), loc) - 1))
        # Evaluate midway between two values, so that rounding of y - loc does not matter.
        start = self._all(np.asarray(self.frozen.ppf(0.5)) % 1.0)
        below = np.ceil(self.outcomes(y) - start - _ROUNDING) - 0.5
        return self._all(_quietly(self.frozen.cdf, below + start))

    @cached_property
    def _unshifted(self) -> tuple[rv_frozen, Array] | None:
        """A discrete distribution with the location 0, and its location; None of other distributions."""
        frozen = self.frozen
        if not self.discrete or not hasattr(frozen.dist, "_parse_args"):
            return None
        shapes, loc, _ = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
        loc = self._all(loc)
        return (_frozen_as(frozen, tuple(shapes), {}) if loc.any() else frozen), loc

    @cached_property
    def _by_counts(self) -> tuple[rv_frozen, Array] | None:
        """`_unshifted` of SciPy's families: some of their cdfs hold at whole numbers only."""
        return self._unshifted if is_of_scipy(self.frozen.dist) else None

    def cdf_bounds(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return P(Y < y) and P(Y <= y): the same array for continuous distributions."""
        high = self.cdf(y)
        return (self.cdf_below(y) if self.discrete else high), high

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density or log probability (n,)."""
        y = self.outcomes(y)
        if type(self) is ScipyPredictive and is_of_scipy(self.frozen.dist):
            logs = closed_log_prob(self.frozen, np.broadcast_to(y, self.shape))
            if logs is not None:
                return logs
        logs = self._all(_quietly(self.frozen.logpmf if self.discrete else self.frozen.logpdf, y))
        infinite = np.isinf(y)  # where formulas of SciPy subtract infinity from infinity
        return np.where(infinite, -np.inf, logs) if infinite.any() else logs

    def log_densities(self, values: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return log densities or log probabilities (m, L) of some rows (m,), or all, at numbers (m, L)."""
        part = self if rows is None else self.take(rows)
        frozen = part.frozen
        return part._rows(frozen.logpmf if self.discrete else frozen.logpdf, values)

    @cached_property
    def shapes(self) -> FrozenShapes | None:
        """The parameters; None if the distribution does not tell them as SciPy's do."""
        return FrozenShapes.of(self.frozen, self._n)

    @property
    def coordinates(self) -> Array:
        """Coordinates (n, k) of a continuous distribution: shapes, loc and the logarithm of the scale."""
        assert self.shapes is not None, "a family of SciPy"
        return self.shapes.coordinates

    @property
    def logarithmic(self) -> tuple[bool, ...]:
        """Which coordinates are logarithms."""
        return *(False for _ in range(self.frozen.dist.numargs)), False, True

    def kinks(self) -> Array:
        """Return the places (n, k) where densities of some families of SciPy are not smooth."""
        family = self.frozen.dist
        if not has_kinks(family.name) or not is_of_scipy(family) or self.shapes is None:
            return super().kinks()
        return self.shapes.kinks()

    @property
    def _shapes_of_scipy(self) -> FrozenShapes | None:
        """The parameters of a continuous family of SciPy; None of other families, such as our own."""
        return self.shapes if type(self) is ScipyPredictive and not self.discrete else None

    def at(self, coordinates: Array) -> ScipyPredictive:
        """Return the distributions of this family at coordinates (m, k)."""
        *shapes, loc, log_scale = coordinates.T
        frozen = self.frozen.dist(*shapes, loc=loc, scale=np.exp(log_scale))
        return ScipyPredictive(frozen, len(coordinates))

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score (n,), in closed form for some families."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        scores = closed_crps(self.frozen, y) if is_of_scipy(self.frozen.dist) else None
        if scores is None:
            return self._crps_by_shape(y)
        self._integrate(scores, y, np.flatnonzero(np.isnan(scores) | ~np.isfinite(y)))
        return scores

    def _integrate(self, scores: Array, y: Array, rows: NDArray[np.intp]) -> None:
        """Replace the scores of some rows by those of quadrature."""
        if len(rows):
            scores[rows] = ByQuadrature.crps(self.take(rows), y[rows])

    def _crps_by_shape(self, y: Array) -> Array:
        """Return scores (n,) by quadrature, without integrals in further rows of shapes with infinite ones.

        Whether a score is infinite depends on the tails, and so neither on y nor on location and scale.
        """
        shapes = self.shapes
        if self.discrete or shapes is None or 2 * len(shapes) > self._n:
            return super().crps(y)
        first = shapes.first_rows
        scores = np.where(np.isnan(y), np.nan, np.inf)
        self._integrate(scores, y, first)
        # Of moderate size: a finite score may overflow.
        sizes = np.max(np.abs([y[first], shapes.loc[first], shapes.scale[first]]), axis=0)
        is_infinite = np.isinf(scores[first]) & (sizes < _MODERATE)
        is_left = ~is_infinite[shapes.place]
        is_left[first] = False
        self._integrate(scores, y, np.flatnonzero(is_left))
        return scores

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece; None without a formula."""
        if type(self) is not ScipyPredictive or not is_of_scipy(self.frozen.dist):
            return None
        return closed_piece_scores(self.frozen, y, piece)

    def clipped_scores(self, y: Array, low: Array, high: Array) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` from low to high, where F is the cdf."""
        if type(self) is not ScipyPredictive:
            return super().clipped_scores(y, low, high)
        if not is_of_scipy(self.frozen.dist):
            return None
        return closed_clipped_scores(self.frozen, y, low, high)

    @property
    def has_quick_quantiles(self) -> bool:
        """Whether SciPy has a formula for the quantiles of this family."""
        return has_own_formula(self.frozen.dist, "_ppf")

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles (n,) or (n, j)."""
        levels = check_levels(level)
        result = self._inverse("ppf", np.broadcast_to(levels.ravel(), (self._n, levels.size)))
        return result[:, 0] if levels.ndim == 0 else result

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        return self._inverse("ppf", levels)

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the smallest numbers (n, j) at which `sf` is at most levels (n, j)."""
        return self._inverse("isf", levels)

    def _inverse(self, name: str, levels: Array) -> Array:
        """Return ``ppf`` or ``isf`` (n, j) of levels (n, j) or (1, j).

        Without a formula SciPy searches for number after number. So for levels that all rows share, equal
        shapes are searched once, by SciPy if there are few; others are searched all at once.
        """
        frozen = self.frozen
        shapes = None if self._n == 1 or self.has_quick_quantiles else self.shapes
        if shapes is None:
            return self._rows(quantile_search(frozen, name), levels)
        same_levels = levels.strides[0] == 0 or len(levels) == 1 or not (levels != levels[0]).any()
        if same_levels and len(shapes) <= _FEW_SHAPES:
            return shapes.quantiles(name, levels[0])
        if not has_own_formula(frozen.dist, "_cdf"):
            return self._rows(quantile_search(frozen, name), levels)
        if same_levels and _REPEATED * len(shapes) <= self._n and not self.discrete:
            return shapes.of_shapes(_standard_quantiles(shapes, name, levels[:1]))
        levels = np.broadcast_to(levels, (self._n, levels.shape[1]))
        return self._searched(name, levels)

    def _searched(self, name: str, levels: Array) -> Array:
        """Return ``ppf`` or ``isf`` (n, j) of levels (n, j) by a search; levels 0 and 1 are SciPy's."""
        is_inside = (levels > 0) & (levels < 1)
        inside = np.where(is_inside, levels, 0.5)
        if self._unshifted is not None:  # without the rounding of ``y - loc``
            frozen, loc = self._unshifted
            of_counts = _masses_upto_count if name == "ppf" else _masses_above_count
            out = by_search(ScipyPredictive(frozen, self._n), inside, of_counts, _LATTICE_STEP)
            out = loc[:, None] + np.floor(out)
        else:
            masses = masses_below if name == "ppf" else masses_above
            out = by_search(self, inside, masses)
        if is_inside.all():
            return out
        by_scipy = quantile_search(self.frozen, name)
        ends = self._rows(by_scipy, np.where(is_inside, np.nan, levels))
        return np.where(is_inside, out, ends)

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        rng = generator(random_state, Purpose.SAMPLE)
        draws = self.frozen.rvs(size=(check_count(size, "size"), self._n), random_state=rng)
        return np.asarray(draws, dtype=np.float64).T.copy()

    def take(self, rows: NDArray[np.intp]) -> ScipyPredictive:
        """Return the distributions of some rows."""
        frozen = self.frozen
        if not (isinstance(rows, np.ndarray) and rows.dtype.kind in "iu"):
            rows = np.arange(self._n)[rows]  # a mask becomes indices

        def one(value: object) -> Any:
            value = np.asarray(value)
            return value if value.size == 1 else value[rows]

        args = tuple(one(value) for value in frozen.args)
        options = {name: one(value) for name, value in frozen.kwds.items()}
        part = ScipyPredictive(_frozen_as(frozen, args, options), len(rows))
        if has_slow_quantiles(frozen.dist):
            store, places = self._ends_by_row
            part._ends_by_row = store, places[rows]
        return part

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return self._range[1] if self.discrete else node_count()

    def support(self) -> Nodes | None:
        """Return the values (L,) that all rows share and their probabilities (n, L)."""
        if not self.discrete:
            return None
        return shared_support(*self._range, lambda *_: self._own_support()[1])

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return E k(Y, z) of continuous distributions: polynomials to degree 4, Linear, Delta, Cosine."""
        match kernel:
            case Polynomial(degree=degree, gamma=float() as gamma, coef0=coef0) if (
                degree <= 4 and not self.discrete
            ):
                return self._polynomial(degree, gamma, coef0, points[:, 0])
        return None if self.discrete else without_atoms(self, kernel, points)

    def _polynomial(self, degree: int, gamma: float, coef0: float, z: Array) -> Array | None:
        """Return ``E (gamma Y z + coef0)^degree`` from central moments."""
        mean, variance, skewness, excess = (moment[:, None] for moment in self._moments_of("mvsk"))
        central: list[Any] = [
            1.0,
            0.0,
            variance,
            skewness * variance**1.5,
            (excess + 3) * variance**2,
        ]
        centre = gamma * mean * z + coef0
        out = np.zeros((self._n, len(z)))
        for power in range(degree + 1):
            if power != 1:
                out += (
                    math.comb(degree, power)
                    * centre ** (degree - power)
                    * (central[power] * (gamma * z) ** power)
                )
        if not np.isfinite(out).all():
            raise no_moment(degree)
        return out

    def _rows(self, function: Callable[[Array], ArrayLike], values: Array) -> Array:
        """Return ``function`` of values (n, L) or (1, L), evaluated row by row."""
        result = np.asarray(_quietly(function, values.T), dtype=np.float64).T
        shape = self._n, values.shape[1]
        return result if result.shape == shape else np.array(np.broadcast_to(result, shape))

    def _quadrature(self, order: int, splits: int = 1, length: float | None = None) -> Nodes:
        shapes = self._shapes_of_scipy
        if length is None and shapes is not None and _REPEATED * len(shapes) <= self._n:
            values, weights = self._standard(shapes)._quadrature(order, splits)
            return shapes.of_shapes(values), weights[shapes.place]
        return composite(
            self.quantiles_at, self.upper_quantiles_at, self._density, order, splits, length,
            self._panel_ends,
        )  # fmt: skip

    @cached_property
    def _panel_ends(self) -> Ends:
        lower, upper = self.panel_quantiles(PANEL_LEVELS)
        return panel_ends(lambda _: lower, lambda _: upper)

    def panel_quantiles(self, levels: Array) -> tuple[Array, Array]:
        """Return quantiles (n, j) at levels (1, j) from below and from above, to rounding of levels.

        Where they cost a search, parts of a prediction share those at the ends of panels.
        """
        shapes = self._shapes_of_scipy
        is_slow = shapes is not None and has_slow_quantiles(self.frozen.dist)
        if shapes is None or not (is_slow and np.array_equal(levels, PANEL_LEVELS)):
            return super().panel_quantiles(levels)
        store, rows = self._ends_by_row
        lower, upper = np.split(store.rows(rows, self._standard_ends), 2, axis=1)
        return shapes.of_rows(lower), shapes.of_rows(upper)

    @cached_property
    def _ends_by_row(self) -> tuple[RowStore, NDArray[np.intp]]:
        """Ends of panels of the prediction of which this is a part, and the places (n,) of its rows there.

        They are those of location 0 and scale 1, which depend on nothing but the shapes of a row.
        """
        return RowStore(self._n, 2 * PANEL_LEVELS.shape[1]), np.arange(self._n)

    def _standard_ends(self, rows: NDArray[np.intp]) -> Array:
        """Return quantiles (m, 2 j) of rows at ends of panels, from below and from above."""
        shapes = (self if len(rows) == self._n else self.take(rows)).shapes
        assert shapes is not None, "a family of SciPy"
        sides = [_standard_quantiles(shapes, name, PANEL_LEVELS) for name in ("ppf", "isf")]
        return np.concatenate(sides, axis=1)[shapes.place]

    def node_count_within(self, length: float) -> int:
        """Return the number of nodes (L) of `nodes_within`, without computing the nodes."""
        if self.discrete:
            return super().node_count_within(length)
        return nodes_within(self._panel_ends, length)

    def _density(self, values: Array) -> Array:
        """Return densities (n, L) at values (n, L)."""
        return self._rows(self.frozen.pdf, values)

    @cached_property
    def _range(self) -> tuple[Array, int]:
        return self._find_range()

    def _find_range(self) -> tuple[Array, int]:
        """Return the first value of each row (n,) and the number of values that hold almost all mass."""
        middle = self.quantile(0.5)
        self._check_tail(middle)
        first = self.quantile(TAIL_MASS)
        formulas = ("_cdf", "_ppf", "_isf")
        if any(has_own_formula(self.frozen.dist, name) for name in formulas):
            last = self.upper_quantiles_at(np.array([[TAIL_MASS]]))[:, 0]
        else:
            last = self._last_by_masses(middle)
        # Quantiles near level 1 are lost to rounding, and a degenerate count may have none in the tail.
        first = np.where(np.isfinite(first), np.minimum(first, middle), middle)
        count = float(np.max(np.maximum(last, middle) - first, initial=0.0)) + 1
        if not count <= MOST_VALUES:
            raise _too_many()
        return first, int(count)

    def _last_by_masses(self, first: Array) -> Array:
        """Return the first values (n,) from ``first`` on above which the mass is at most `TAIL_MASS`.

        SciPy adds probabilities up until the sum is 1, which rounded sums may never reach.
        """
        last = first.copy()
        left, count = np.arange(self._n), _SUMMED
        while len(left):
            heavy = []
            for rows in row_blocks(len(left), max(1, _MOST_SUMMED // count)):
                some = left[rows]
                values = first[some, None] + np.arange(count, dtype=np.float64)
                part = self.take(some)
                masses = part._rows(part.frozen.pmf, values)
                above = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
                last[some] += np.maximum(np.count_nonzero(above > TAIL_MASS, axis=1) - 1, 0)
                heavy.append(some[above[:, count // 2] > TAIL_MASS])
            left, count = np.concatenate(heavy), 2 * count
            if count > MOST_VALUES:
                break
            last[left] = first[left]
        return last

    def _check_tail(self, middle: Array) -> None:
        """Raise an error if tails are too long to sum over, before searching for quantiles far out."""
        above = 1 - self.cdf(middle + _NEAR)
        if above.max(initial=0.0) > _LOST_MASS:
            row = self.take(np.array([int(above.argmax())]))
            if 1 - row.cdf(middle[above.argmax()] + MOST_VALUES)[0] > _LOST_MASS:
                raise _too_many()

    def _own_support(self) -> Nodes:
        first, count = self._range
        if type(self) is not ScipyPredictive or self._n * count > _MOST_SUMMED:
            return self._consecutive(first, count)
        return first[:, None] + np.arange(count, dtype=np.float64), self._small_masses

    @cached_property
    def _small_masses(self) -> Array:
        """Probabilities (n, L) of all values, at most 8 MB: SciPy may take microseconds for each."""
        masses = self._consecutive(*self._range)[1]
        masses.setflags(write=False)
        return masses

    def _consecutive(self, first: Array, count: int) -> Nodes:
        """Return ``count`` values (n, count) from ``first`` on, and their probabilities."""
        values = first[:, None] + np.arange(count, dtype=np.float64)
        return values, self._masses(values)

    def _masses(self, values: Array) -> Array:
        """Return probabilities (n, L) of consecutive values (n, L), which sum to 1."""
        masses = self._rows(self.frozen.pmf, values)
        total = masses.sum(axis=1, keepdims=True)
        if not (np.abs(total - 1) <= _LOST_MASS).all():
            raise ValueError(
                "prediction is a discrete distribution over other values than loc + whole numbers; "
                "give draws of it"
            )
        return np.asarray(masses / total)


def _standard_quantiles(shapes: FrozenShapes, name: str, levels: Array) -> Array:
    """Return ``ppf`` or ``isf`` (u, j) at levels (1, j) of each shape, with location 0 and scale 1."""
    family = shapes.family
    if has_own_formula(family, "_ppf") or not has_own_formula(family, "_cdf"):
        return shapes.standard_quantiles(name, levels[0])
    standard = ScipyPredictive(family(*shapes.distinct.T), len(shapes))
    return standard._searched(name, np.broadcast_to(levels, (len(shapes), levels.shape[1])))


def _last_count(y: Array, loc: Array) -> Array:
    """Return the largest whole numbers up to ``y - loc``, apart from rounding."""
    return np.asarray(np.floor(y - loc + _rounding(loc)))


def _first_count(y: Array, loc: Array) -> Array:
    """Return the smallest whole numbers from ``y - loc`` on, apart from rounding."""
    return np.asarray(np.ceil(y - loc - _rounding(loc)))


def _rounding(loc: Array) -> Array:
    return np.where(loc == np.floor(loc), 0.0, np.maximum(_ROUNDING, 4 * EPS * np.abs(loc)))


def _masses_upto_count(part: ScipyPredictive, x: Array, level: Array) -> tuple[Array, Array]:
    """Return `masses_below` at the largest counts up to x: some cdfs hold at whole numbers only."""
    return part._all(part.frozen.cdf(np.floor(x))), level


def _masses_above_count(part: ScipyPredictive, x: Array, level: Array) -> tuple[Array, Array]:
    """Return `masses_above` at the largest counts up to x."""
    return level, part._all(part.frozen.sf(np.floor(x)))


def _integrated_moments(standard: ScipyPredictive) -> Array:
    """Return means, variances, skewnesses and excesses (4, u) by quadrature; NaN where it is not exact."""
    moments = np.empty((4, len(standard)))
    for rows in row_blocks(len(standard), max(1, _MOST_SUMMED // node_count())):
        part = standard.take(np.arange(rows.start, rows.stop))
        try:
            moments[:, rows] = node_moments(part.nodes(), part.coarse_nodes())
        except ValueError:  # a row without finite quantiles
            moments[:, rows] = np.nan
            if len(part) > 1:
                by_row = [
                    _integrated_moments(part.take(np.array([row]))) for row in range(len(part))
                ]
                moments[:, rows] = np.concatenate(by_row, axis=1)
    return moments


def _frozen_as(
    frozen: rv_frozen, args: tuple[object, ...], options: dict[str, object]
) -> rv_frozen:
    """Return the family frozen at other parameters; SciPy takes a millisecond: it writes docstrings."""
    if not hasattr(frozen.dist, "_parse_args"):
        return frozen.dist(*args, **options)
    other = copy.copy(frozen)
    other.args, other.kwds = args, options
    shapes, _, _ = other.dist._parse_args(*args, **options)
    other.a, other.b = other.dist._get_support(*shapes)
    return other


def _in_double_precision(frozen: rv_frozen) -> rv_frozen:
    """Return a distribution without single-precision parameters, in whose precision SciPy would compute."""
    parameters = (*frozen.args, *frozen.kwds.values())
    types = [np.asarray(one).dtype for one in parameters]
    if not any(one.kind == "f" and one.itemsize < 8 for one in types):
        return frozen
    args = [_widened(one) for one in frozen.args]
    return frozen.dist(*args, **{name: _widened(one) for name, one in frozen.kwds.items()})


def _is_allowed(frozen: rv_frozen) -> bool:
    """Return whether SciPy allows the parameters: with others, ends of the support are NaN."""
    family = frozen.dist
    if is_of_scipy(family):  # without the ends, which may take a power of each row
        shapes, loc, scale = family._parse_args(*frozen.args, **frozen.kwds)
        *shapes, loc, scale = np.broadcast_arrays(*shapes, loc, scale)
        if np.isfinite(loc).all() and np.isfinite(scale).all():
            return bool(np.all(family._argcheck(*shapes) & (scale > 0)))
    return not np.isnan(frozen.support()[0]).any()


def _widened(value: object) -> object:
    value = np.asarray(value)
    return value.astype(np.float64) if value.dtype.kind == "f" else value


def _quietly(function: Callable[[Array], ArrayLike], values: Array) -> ArrayLike:
    """Return ``function(values)``: SciPy's formulas overflow in the tails, where the limits are right."""
    with np.errstate(all="ignore"):
        return function(values)


def _too_many() -> ValueError:
    return ValueError(
        f"prediction gives mass to more than {MOST_VALUES:,} values of one input, too many to sum "
        "over; give draws=l, or draws of it"
    )
