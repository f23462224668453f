"""The interface of a prediction: one distribution for each of n inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.abstract import Abstract
from fastmcmd._base.annotations import Array, Nodes, RandomState
from fastmcmd._base.blockwise import Deferred, is_blockwise
from fastmcmd._base.checks import as_array, check_count, distinct_digits, quote
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.errors import RowError
from fastmcmd.kernels import Kernel
from fastmcmd.predictive.expectation import expected_kernel
from fastmcmd.predictive.numerics.closed_scores import CDFPiece, inflated_scores, mass_between
from fastmcmd.predictive.numerics.crps import crps
from fastmcmd.predictive.numerics.density_terms import DensityTerm
from fastmcmd.predictive.numerics.elementwise import by_rows
from fastmcmd.predictive.numerics.inverse import by_halving
from fastmcmd.predictive.numerics.quadrature import COARSE, FINE, merged_neighbours

__all__ = [
    "LEAST_LEVEL",
    "MOST_LEVEL",
    "Array",
    "ByQuadrature",
    "DistributionLike",
    "Nodes",
    "PredictionLike",
    "Predictive",
    "check_levels",
    "parameter",
    "uniform_levels",
]


class DistributionLike(Protocol):
    """A distribution object of another library, such as SciPy, PyTorch or TensorFlow Probability."""

    @property
    def mean(self) -> Any: ...  # noqa: D102


EDGE_LEVELS = np.array([1e-16, 1e-11, 1e-7, 1e-4, 4e-3, 0.06, 0.24])  # and their mirror images
_MOST_SPLITS = 64  # parts of a panel for narrow kernels
LEAST_LEVEL, MOST_LEVEL = 2.0**-1074, 1 - 2.0**-53  # levels inside (0, 1)
LEAST_UNIFORM = 2.0**-54  # replaces a uniform draw of 0; the smallest other draw is 2^-53
_PANELS_OF_NODES = 10  # about how many panels hold the bulk of the usual nodes


class Predictive(Abstract):
    """Predicted distributions for n inputs, over numbers or vectors of k components.

    A subclass defines ``mean`` and ``std`` (as properties or fields) and the abstract members. Expectations
    of kernels are computed from `nodes`; a class with a closed form overrides `closed_form`.

    Attributes
    ----------
    mean, variance, std : ndarray, of the shape of the distribution
        Moments; infinite or NaN if the distribution has none.
    discrete : bool
        Whether single outputs have positive probability.
    has_density : bool
        Whether `log_prob` is available. False for draws and quantiles, which have no density.
    has_inverse : bool
        Whether `quantiles_at` and `upper_quantiles_at` use a quantile function rather than bisection.
    """

    discrete: bool = False
    has_density: bool = True
    has_inverse: bool = False

    def __new__(cls, *arguments: object, **options: object) -> Any:
        """Return an instance, or a `Deferred` prediction if a parameter is a collection of blocks."""
        if (arguments or options) and is_blockwise(arguments, options):
            return Deferred(cls, arguments, options)
        return super().__new__(cls)

    if TYPE_CHECKING:  # at run time, an abstract property would block dataclass fields of that name

        @property
        def mean(self) -> Array: ...  # noqa: D102

        @property
        def std(self) -> Array: ...  # noqa: D102

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """``(n,)``, or ``(n, k)`` for vector outputs."""

    @property
    @abstractmethod
    def variance(self) -> Array:
        """Variances, of the shape of the distribution."""

    @property
    def atomless(self) -> bool:
        """Whether every single output has probability 0, as for densities and mixtures of densities."""
        return self.has_density and not self.discrete

    @property
    def has_quick_quantiles(self) -> bool:
        """Whether a quantile costs little more than a draw: not one by a search with the cdf."""
        return False

    @property
    def columns(self) -> int:
        """Number of components k of an output."""
        return 1 if len(self.shape) == 1 else self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y_i <= y_i) (n,), or (n, k) per component of vector outputs."""

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y_i < y_i): the cdf for continuous distributions."""
        return self.cdf(y)

    def cdf_bounds(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return P(Y_i < y_i) and P(Y_i <= y_i): one and the same array for continuous distributions."""
        high = self.cdf(y)
        if self.atomless or (not self.discrete and type(self).cdf_below is Predictive.cdf_below):
            return high, high
        return self.cdf_below(y), high

    def masses_outside(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return P(Y_i <= low_i) and P(Y_i > high_i)."""
        return self.cdf(low), self.sf(high)

    def cdf_and_sf(self, y: ArrayLike) -> tuple[Array, Array]:
        """Return P(Y_i <= y_i) and P(Y_i > y_i), in the shape of `cdf`."""
        return self.cdf(y), self.sf(y)

    def piece_scores(self, y: Array, piece: CDFPiece) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` over a piece, in closed form.

        On it, F rises in proportion to the cdf (see `CDFPiece`). The outcomes are finite. Values are NaN
        where digits are lost; None without a closed form.
        """
        del y, piece
        return None

    def clipped_scores(self, y: Array, low: Array, high: Array) -> Array | None:
        """Return integrals (n,) of ``(F(t) - 1{t >= y})^2`` from low to high, where F is the cdf.

        They are `piece_scores` with the masses of the distribution itself.
        """
        below, at_least = self.cdf_and_sf(low)
        upto, above = self.cdf_and_sf(high)
        rise = mass_between(below, at_least, upto, above)
        return self.piece_scores(y, CDFPiece(low, high, below, rise, above))

    def interval_masses(self, low: Array, high: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return P(Y < low), P(Y >= low), P(Y <= high), P(Y > high) and P(low <= Y <= high) (n,).

        The distributions are continuous. The last one is a difference of the smaller tails.
        """
        tails = *self.cdf_and_sf(low), *self.cdf_and_sf(high)
        return *tails, by_rows(mass_between, *tails, light=True)

    def inflated_scores(self, y: Array, mass: Array) -> Array:
        """Return continuous ranked probability scores (n,) of mixtures with masses (n,) at 0."""
        return inflated_scores(y, self.crps(y), self.crps(0.0), mass)

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y_i > y_i), in the shape of `cdf`.

        The default is ``1 - cdf``; many classes override it to keep small probabilities accurate.
        """
        return np.asarray(1 - self.cdf(y))

    @abstractmethod
    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log density or log probability of y_i (n,); -inf where that is 0."""

    def log_densities(self, values: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return log densities or log probabilities (m, L) of some rows (m,) at numbers (m, L).

        By default these are all rows. Differs from `log_prob` by a few digits of rounding.
        """
        part = self if rows is None else self.take(rows)
        return np.stack([part.log_prob(column) for column in values.T], axis=1)

    def densities(self, rows: NDArray[np.intp], values: Array) -> Array:
        """Return densities (m, L) of some rows (m,) at values (m, L)."""
        with np.errstate(all="ignore"):
            return np.exp(self.log_densities(values, rows))

    def density_terms(self) -> list[DensityTerm] | None:
        """Return terms of the density that the core computes; None if it cannot, or loses digits."""
        return None

    def panel_quantiles(self, levels: Array) -> tuple[Array, Array]:
        """Return quantiles (n, j) at levels (1, j) from below and from above, to rounding of levels."""
        levels = np.broadcast_to(levels, (len(self), levels.shape[1]))
        return self.quantiles_at(levels), self.upper_quantiles_at(levels)

    def panel_edges(self, least: float | None = None) -> tuple[Array, Array, Array]:
        """Return ends (n, E) of panels on which the density is smooth, in ascending order.

        Also returned are numbers (n,) below and above all quantiles at levels from ``least`` to
        ``1 - least``.
        """
        low = EDGE_LEVELS if least is None else np.union1d(EDGE_LEVELS, least)
        lower = self._near_quantiles(np.array([*low, 0.5]), upper=False)
        upper = self._near_quantiles(low, upper=True)[:, ::-1]
        edges = np.maximum.accumulate(np.concatenate([lower, upper], axis=1), axis=1)
        place = 0 if least is None else int(np.searchsorted(low, least))
        return edges, edges[:, place], edges[:, -1 - place]

    def _near_quantiles(self, levels: Array, upper: bool) -> Array:
        """Return numbers (n, j) near the quantiles at levels (j,), or near those with such masses above."""
        find = self.upper_quantiles_at if upper else self.quantiles_at
        return find(np.broadcast_to(levels, (len(self), len(levels))))

    def quantile(self, level: ArrayLike) -> Array:
        """Return quantiles: the smallest outputs with ``cdf >= level``. Levels (j,) add a last axis."""
        levels = check_levels(level)
        row_levels = np.broadcast_to(np.atleast_1d(levels), (len(self), levels.size))
        quantiles = self.quantiles_at(row_levels)
        return quantiles if levels.ndim else quantiles[:, 0]

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) of numbers at levels (n, j) in (0, 1) of each row's own.

        The default bisects, with 64 evaluations of the cdf; classes with `has_inverse` use their
        quantile function.
        """
        return by_halving(self, levels, lambda one, x, level: one.cdf(x) >= level)

    def upper_quantiles_at(self, levels: Array) -> Array:
        """Return the smallest numbers (n, j) at which `sf` is at most levels (n, j) in (0, 1).

        These are the quantiles at ``1 - levels``, accurate for small levels, too.
        """
        return by_halving(self, levels, lambda one, x, level: one.sf(x) <= level)

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return ``size`` draws per input: (n, size), or (n, size, k) for vector outputs.

        The default returns quantiles at uniform levels.
        """
        return self.quantiles_at(uniform_levels((len(self), size), random_state))

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Predictive:
        """Return the distributions of some rows."""

    @abstractmethod
    def nodes(self, splits: int = 1) -> Nodes:
        """Return nodes (n, L) or (n, L, k) and their weights (n, L), which sum to 1.

        Weighted sums over the nodes are expectations: exact for draws and counts, by quadrature for other
        distributions. If a kernel is narrow relative to the distributions, more ``splits`` cut each panel
        of the quadrature into that many parts.
        """

    def coarse_nodes(self) -> Nodes:
        """Return fewer nodes: the difference between the two sums estimates the error of `nodes`.

        If sums over `nodes` are exact (`exact_nodes`), as for counts and draws, these are the same nodes.
        Otherwise the default merges neighbours, whose difference is larger than the error of smooth
        integrands; refinements then measure it.
        """
        values, weights = self.nodes()
        if self.exact_nodes or values.ndim != 2:
            return values, weights
        return merged_neighbours(values, weights)

    def nodes_within(self, length: float) -> Nodes:
        """Return nodes as `nodes` does, from panels no longer than ``length`` where their mass matters.

        It is for kernels that vary over ``length``. The default cuts all panels alike; distributions with
        heavy tails cut only the long ones.
        """
        values, _ = self.nodes()
        if self.discrete or values.ndim != 2:
            return self.nodes()
        middle = np.sort(values, axis=1)[:, values.shape[1] // 8 : -(values.shape[1] // 8) or None]
        spread = float(np.max(middle[:, -1] - middle[:, 0], initial=0.0))
        splits = int(np.clip(np.ceil(spread / (_PANELS_OF_NODES * length)), 2, _MOST_SPLITS))
        return self.nodes(splits)

    def node_count_within(self, length: float) -> int:
        """Return the number of nodes (L) of `nodes_within`."""
        return int(self.nodes_within(length)[1].shape[1])

    @property
    def node_count(self) -> int:
        """Number of nodes L per row (the largest L), without computing the nodes."""
        return int(self.take(np.zeros(1, dtype=np.intp)).nodes()[1].shape[1])

    @property
    def exact_nodes(self) -> bool:
        """Whether sums over `nodes` are free of quadrature error, as for draws and counts."""
        return self.discrete or self.columns > 1

    @property
    def rough_levels(self) -> Array:
        """Levels (j,) in (0, 1) at which the quantile functions of numbers have kinks or jumps.

        Integrals over levels end their panels there. A kink or jump at another level only costs time.
        """
        return np.empty(0)

    def mirrored(self) -> Predictive | None:
        """Return the distributions of 1 - Y, accurate next to both ends of [0, 1]; None without."""
        return None

    def kinks(self) -> Array:
        """Return numbers (n, k) at which densities have kinks or jumps, besides the ends of the support."""
        return np.empty((len(self), 0))

    def atoms(self) -> Array:
        """Return numbers (n, k) of positive probability, under distributions that also have a density.

        Numbers without mass may be among them. For distributions of atoms alone, see `nodes`.
        """
        return np.empty((len(self), 0))

    def jump_levels(self) -> tuple[Array, Array]:
        """Return P(Y_i < a) and P(Y_i <= a) (n, k) at the `atoms` of each row."""
        columns = self.atoms().T
        below, upto = np.empty((2, len(self), len(columns)))
        for j, atom in enumerate(columns):
            below[:, j], upto[:, j] = self.cdf_below(atom), self.cdf(atom)
        return below, upto

    def ends(self) -> tuple[Array, Array] | None:
        """Return numbers (n,) between which all outputs lie, both included; None if they are unknown."""
        return None

    def support(self) -> Nodes | None:
        """Return the outputs (L,) that all rows share and their probabilities (n, L).

        None if rows have different nodes.
        """
        return None

    def closed_form(self, kernel: Kernel, points: Array) -> Array | None:
        """Return ``E k(Y_i, z_j)`` (n, r) for points z (r, k), or None without a closed form."""
        del kernel, points
        return None

    def closed_form_pairs(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return ``E k(Y_i, Y'_j)`` (n, m) of independent Y and Y', or None without a closed form."""
        del kernel, other
        return None

    def closed_form_rows(self, kernel: Kernel, other: Predictive) -> Array | None:
        """Return ``E k(Y_i, Y'_i)`` (n,) of independent Y and Y', or None without a closed form."""
        del kernel, other
        return None

    def weighted_parts(self) -> list[tuple[Array, Predictive]] | None:
        """Return the weights (n,) and distributions of a mixture; None if this is no mixture."""
        return None

    def gaussian_parts(self) -> list[tuple[Array, Predictive]] | None:
        """Return the weights (n,) and components of a Gaussian mixture; None for other distributions."""
        return None

    def expected_kernel(self, kernel: Kernel, points: ArrayLike) -> Array:
        """Return ``E k(Y_i, z_j)`` (n, r).

        Uses a closed form if there is one, sums over draws or counts, and quadrature otherwise.

        Parameters
        ----------
        kernel : Kernel
            Kernel on outputs, with numeric parameters (see `Kernel.resolve`).
        points : array_like (r,) or (r, k)
            Points z, one per row.

        Raises
        ------
        ValueError
            Points whose number of components differs from that of the outputs, or an expectation that does
            not exist.
        """
        points = _numbers(points, "points")
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim != 2 or points.shape[1] != self.columns:
            raise ValueError(
                f"points have shape {points.shape}; (r, {self.columns}) is needed: one row per point"
            )
        if not np.isfinite(points).all():
            problem = "NaN" if np.isnan(points).any() else "infinity"
            raise ValueError(f"points hold {problem}; finite numbers are needed")
        return expected_kernel(self, kernel, points)

    def crps(self, y: ArrayLike) -> Array:
        """Return the continuous ranked probability score at y_i (n,); smaller is better.

        Uses a closed form if the class has one, a sum over the support of discrete distributions, and
        adaptive quadrature of the cdf otherwise. Components of vectors are scored separately, (n, k).

        Parameters
        ----------
        y : array_like, of the shape of the distribution
            Observed outputs. NaN gives NaN; infinity gives an infinite score.

        Raises
        ------
        ValueError
            Outputs of another shape.

        Notes
        -----
        ``CRPS(F, y) = integral of (F(t) - 1{y <= t})^2 dt`` (Gneiting & Raftery 2007, equation 20).
        """
        return crps(self, y)

    @property
    def shares_panels(self) -> bool:
        """Whether `scored_quantiles` costs less than scores and quantiles do apart."""
        return False

    def scored_quantiles(self, y: Array, levels: Array) -> tuple[Array, Array]:
        """Return the scores of `crps` (n,) and quantiles (n, j) at levels (j,)."""
        return self.crps(y), self.quantile(levels)

    def scored_row_quantiles(self, y: Array, levels: Array) -> tuple[Array, Array]:
        """Return scores (n, k) of outcomes (n, k) and quantiles (n, j) at levels (n, j), which rise."""
        return np.stack([self.crps(one) for one in y.T], axis=1), self.quantiles_at(levels)

    def outcomes(self, y: ArrayLike) -> Array:
        """Return observed outputs as float64, in the shape of the distribution or as a scalar."""
        y = _numbers(y, "y")
        if y.ndim == 2 and y.shape[1] == 1 and len(self.shape) == 1:
            y = y[:, 0]
        if y.ndim and y.shape != self.shape:
            raise ValueError(f"y has shape {y.shape}; {self.shape} is needed: one output per input")
        return y


class ByQuadrature(Predictive):
    """Distributions whose expectations are sums over the support (if discrete) or quadrature."""

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        return np.asarray(np.sqrt(self.variance))

    @abstractmethod
    def _own_support(self) -> Nodes:
        """Return the outputs (n, L) of each row and their probabilities."""

    @abstractmethod
    def _quadrature(self, order: int, splits: int = 1, length: float | None = None) -> Nodes:
        """Return nodes (n, L) and weights, from panels in ``splits`` parts or no longer than ``length``."""

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the support of a discrete distribution, or composite Gauss-Legendre nodes."""
        return self._own_support() if self.discrete else self._quadrature(FINE, splits)

    def nodes_within(self, length: float) -> Nodes:
        """Return nodes from panels no longer than ``length``, or the support of a discrete distribution."""
        return self._own_support() if self.discrete else self._quadrature(FINE, length=length)

    def coarse_nodes(self) -> Nodes:
        """Return nodes of a lower order; comparing sums over both estimates the error of `nodes`."""
        return self._own_support() if self.discrete else self._quadrature(COARSE)


# What `as_predictive` converts: our distributions, draws, (mean, std), distributions of other libraries.
PredictionLike: TypeAlias = Predictive | ArrayLike | tuple[ArrayLike, ArrayLike] | DistributionLike


def _numbers(value: object, name: str) -> Array:
    """Return real numbers as float64. Accepts NaN and infinity; refuses text, complex numbers and masks."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    return as_array(value, name).astype(np.float64, copy=False)


def parameter(
    value: object, name: str, *, least: float | None = None, strict: bool = False
) -> Array:
    """Return a parameter as finite float64; check that it is at least (if ``strict``, above) ``least``."""
    source = as_array(value, name)
    if source.ndim == 1:
        array, bounds = _core.row_array(len(source)), np.empty(2)
        if not (source.dtype == np.float64 and source.flags.c_contiguous):
            np.copyto(array, source)
            source = array
        _core.bounded_copy(source, array, bounds)  # one pass copies and compares
        low, high = bounds.tolist()
    else:
        array = source.astype(np.float64)
        # Passes without temporaries; NaN is neither above nor below a number.
        with np.errstate(invalid="ignore"):
            low, high = array.min(initial=np.inf), array.max(initial=-np.inf)
    is_above = least is None or (low > least if strict else low >= least)
    if is_above and low > -np.inf and high < np.inf:
        return array
    if not (finite := np.isfinite(array)).all():
        problem = "NaN" if np.isnan(array).any() else "infinity"
        raise RowError(
            f"{name} holds {problem}; finite numbers are needed{_first(~finite, name)}",
            _first_row(~finite),
        )
    if least is not None:
        bad = array <= least if strict else array < least
        if bad.any():
            sign = ">" if strict else ">="
            lowest, bound = distinct_digits(array.min(), least)
            raise RowError(
                f"{name} has values down to {lowest}; all must be {sign} {bound}{_first(bad, name)}",
                _first_row(bad),
            )
    return array


def _first_row(bad: NDArray[np.bool_]) -> int | None:
    """Return the row of the first bad value of a parameter; None if it is one number."""
    return int(np.argwhere(bad)[0][0]) if bad.ndim else None


def _first(bad: NDArray[np.bool_], name: str) -> str:
    """Return the position of a parameter's first bad value, for a message; "" if it is one number."""
    return f" (first: {name}[{_first_row(bad)}])" if bad.ndim else ""


def check_range(array: Array, name: str, least: float, most: float) -> None:
    """Raise an error if a parameter leaves the range in which formulas stay within float64."""
    outside = (array < least) | (array > most)
    if outside.any():
        raise RowError(
            f"{name} holds {array[outside][0]:g}; numbers in [{least:g}, {most:g}] are needed: beyond them "
            f"formulas leave the range of float64{_first(outside, name)}",
            _first_row(outside),
        )


def uniform_levels(shape: tuple[int, int], random_state: RandomState) -> Array:
    """Return uniform draws (n, size) in (0, 1): 0, whose quantile may be infinite, becomes 2^-54."""
    levels = generator(random_state, Purpose.SAMPLE).random(
        (shape[0], check_count(shape[1], "size"))
    )
    return np.maximum(levels, LEAST_UNIFORM)


def check_levels(level: ArrayLike) -> Array:
    """Return levels of quantiles as float64, a scalar or (j,), in [0, 1]."""
    levels = _numbers(level, "level")
    if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"level is {quote(level)}; a number or numbers (j,) in [0, 1] are needed")
    return levels
