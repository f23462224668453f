"""Maps of where one model is better than another: the difference of their losses, smoothed over the inputs.

The hypothesis ``E[d | x] = 0`` for the difference d of two losses is that of equal conditional predictive
ability (Giacomini & White, *Tests of conditional predictive ability*, Econometrica, 2006). They choose a
few functions of x; a kernel smoother covers all of its directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Json
from fastmcmd._base.tables import ColumnTable, aligned
from fastmcmd.backends.tall_skinny import inner, times
from fastmcmd.frames import RowLabels, to_frame
from fastmcmd.inference.comparison import ROUNDING
from fastmcmd.inference.inputs import InputMap
from fastmcmd.inference.local_corrections import MOST_LEVERAGE, quadratic
from fastmcmd.inference.smoother import SUPPORTED, Basis, Smoother
from fastmcmd.kernels.base import power_of_two

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["DifferenceMap", "difference_map"]

Array = NDArray[np.float64]

_LANDMARKS = 200
_LADDER = (1.0, 10.0, 100.0)  # regularisers of the test, in units of that of the map
_FEWEST = 15.0  # smallest number of effective rows
_POINTS = 150  # points of the band that are searched for the largest deviation
_MOST_VALUES = 4e8  # largest number of values of replicates at points
_REPLICATES_PER_BLOCK = 50  # replicates in memory at once
_ROUNDING = 1e-12
_TIE = 1e-9  # difference of standardised logarithms of statistics that counts as a tie
# Largest skewness by the deciles of residuals. Exponential residuals have 0.47, and the band fails in 21 %.
_MOST_SKEWNESS = 0.3


@dataclass(frozen=True, eq=False, repr=False)
class DifferenceMap(ColumnTable):
    """The expected difference of two models' losses at q inputs, first minus second.

    Attributes
    ----------
    first, second, measure : str
        The models, and the measure of comparison; below 0 the first model is better.
    difference : ndarray (q,)
        Smoothed difference; NaN without support.
    band : ndarray (q, 2)
        Simultaneous band for the smoothed difference at all supported inputs; NaN if the differences are
        too skewed for its level to hold.
    supported : ndarray (q,), bool
        Whether there are enough rows near an input.
    p_value : float
        P-value of ``E[d | x] = 0`` for every x: neither model is better at any input.
    p_value_mean : float
        P-value of a mean difference of 0 over all rows, by the same signs.
    level : float
        Confidence level of the band.
    x : ndarray (q, d)
        The inputs.
    column_names : tuple of str
        The names of their columns, if the evaluations have them.
    """

    first: str
    second: str
    measure: str
    difference: Array
    band: Array
    supported: NDArray[np.bool_]
    p_value: float
    p_value_mean: float
    level: float
    x: Array
    labels: RowLabels | None = field(default=None)
    column_names: tuple[str, ...] = ()

    @property
    def better(self) -> NDArray[np.int_]:
        """-1 if the first model is better beyond chance, 1 if the second is, else 0 (q,)."""
        with np.errstate(invalid="ignore"):
            return (self.band[:, 0] > 0).astype(int) - (self.band[:, 1] < 0).astype(int)

    @property
    def sentence(self) -> str:
        """The conclusion in words."""
        start = f"{self.measure}, {self.first} less {self.second}: "
        if not self.p_value <= 1 - self.level:
            return f"{start}no input is known at which they differ (p = {self.p_value:.3g})."
        if not np.isfinite(self.band).any():
            return (
                f"{start}the models differ given x (p = {self.p_value:.3g}); the differences are too "
                "skewed for a band that says where."
            )
        count = max(int(self.supported.sum()), 1)
        shares = [np.count_nonzero(self.better == sign) / count for sign in (-1, 1)]
        return (
            f"{start}the models differ beyond chance (p = {self.p_value:.3g}); the band shows "
            f"{self.first} to be better at {shares[0]:.0%} of the inputs, {self.second} at {shares[1]:.0%}."
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists, by name."""
        return {name: values.tolist() for name, values in self._columns().items()}

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row for each input, with the labels of the inputs."""
        return to_frame(self._columns(), self.labels)

    def table(self) -> str:
        """Return the inputs with the largest differences as text, at most ten of each sign."""
        supported = np.flatnonzero(self.supported)
        order = supported[np.argsort(self.difference[supported], kind="stable")]
        if len(order) > 20:
            order = np.concatenate([order[:10], order[-10:]])
        rows = [["row", "difference", f"{self.level:.0%} band", "better"]]
        names = {-1: self.first, 0: "", 1: self.second}
        for place in order:
            low, high = self.band[place]
            rows.append([str(place), f"{self.difference[place]:.4g}", f"{low:.4g} to {high:.4g}",
                         names[int(self.better[place])]])  # fmt: skip
        return aligned(rows)

    def plot(self, x: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
        """Plot the difference with its band over the inputs; see `fastmcmd.plots.difference_map`."""
        from fastmcmd import plots

        return plots.difference_map(self, x, ax)

    def _columns(self) -> Json:
        return {
            "difference": self.difference, "low": self.band[:, 0], "high": self.band[:, 1],
            "better": self.better, "supported": self.supported,
        }  # fmt: skip

    def __len__(self) -> int:
        return len(self.difference)

    def __repr__(self) -> str:
        return self.sentence


def difference_map(
    x: Array,
    d: Array,
    grid: Array,
    mapping: InputMap,
    lam: float,
    *,
    weights: Array,
    clusters: NDArray[np.intp] | None,
    level: float,
    simulations: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, NDArray[np.bool_], float, float]:
    """Return difference (q,), band (q, 2), supported (q,), and p-values given x and on average.

    Parameters
    ----------
    x, d : ndarray (n, k), (n,)
        Inputs and differences of losses.
    grid : ndarray (q, k)
        Inputs of the map.
    mapping : InputMap
        Kernel on inputs.
    lam : float
        Regulariser.
    weights : ndarray (n,)
        Weights of the rows.
    clusters : ndarray (n,) of int or None
        Clusters of rows, between which outcomes are independent; None: all rows are independent.
    level : float
        Confidence level of the band.
    simulations : int
        Number of draws of random signs.
    rng : numpy.random.Generator
        Source of the signs.

    Notes
    -----
    The test multiplies differences by random signs, one for each cluster (the wild bootstrap). It ranks the
    largest of four studentised statistics among those of all signs: the mean difference, and the mean
    square of the smoothed difference for three regularisers. It is exact for differences that are symmetric
    about 0 given x, else approximate. For the band, leave-one-out residuals get the same signs and are
    smoothed again; the band takes their largest deviation over the inputs, relative to the standard error
    of each replicate (a bootstrap-t).
    """
    unit = power_of_two(float(np.abs(d).max()))  # squares of differences may leave float64
    d, weights = d * unit, weights * power_of_two(float(weights.max()))
    basis = Smoother.of(mapping.kernel, mapping(x), _LANDMARKS).basis(mapping(x), weights)
    g, at = basis.coordinates(mapping(x)), basis.coordinates(mapping(grid))
    groups = np.arange(len(d)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    signs = rng.choice(np.array([-1.0, 1.0]), (simulations, int(groups.max()) + 1))

    def sums(values: Array) -> Array:
        """Return ``G'W s d`` (simulations, p) for values (n,) under all signs."""
        terms = g * (weights * values)[:, None]
        return times(signs, _by_group(terms, groups))

    p, p_mean = _test(basis, g, d, weights, sums, signs, groups, lam)
    shrink = basis.shrinkage(lam)
    support = g.T @ weights * shrink
    total = at @ support
    diagonal = weights * np.einsum("np,p,np->n", g, shrink, g)
    with np.errstate(divide="ignore", invalid="ignore"):
        fitted = g @ (shrink * (g.T @ (weights * d))) / (g @ support)
        leverage = np.clip(diagonal / (g @ support), 0.0, MOST_LEVERAGE)
        residual = np.nan_to_num((d - fitted) / (1 - leverage))
        difference = at @ (shrink * (g.T @ (weights * d))) / total
        rows = total**2 / quadratic(at, shrink[:, None] * inner(g, g, scale=weights**2) * shrink)
        supported = (total > SUPPORTED) & (rows >= _FEWEST)
    scores = _by_group(g * (weights * residual)[:, None], groups)
    error = np.sqrt(quadratic(at, shrink[:, None] * inner(scores, scores) * shrink)) / np.abs(total)
    where = np.flatnonzero(supported & (error > 0))
    reach = 0.0
    if len(where):
        where = where[np.unique(np.linspace(0, len(where) - 1, _POINTS).astype(np.intp))]
        smoother = _Smooth(g, weights, shrink, g @ support, leverage)
        coefficients = times(g * shrink, at[where].T) * weights[:, None] / total[where]
        count = min(simulations, int(_MOST_VALUES // (len(d) * len(where))) + 99)
        ratios = [
            smoother.largest_ratio(signs[some][:, groups] * residual, coefficients, groups)
            for some in np.array_split(np.arange(count), max(1, count // _REPLICATES_PER_BLOCK))
        ]
        reach = float(np.quantile(np.concatenate(ratios), level, method="higher"))
    if abs(_skewness(residual)) > _MOST_SKEWNESS:
        reach = np.nan
    difference = np.where(supported, difference, np.nan) / unit
    width = (
        reach * error + ROUNDING
    ) / unit  # models that agree near an input differ by rounding there
    band = difference[:, None] + width[:, None] * np.array([-1.0, 1.0])
    return difference, band, supported, p, p_mean


def _skewness(values: Array) -> float:
    """Return ``(q90 + q10 - 2 q50) / (q90 - q10)``; 0 for symmetric values and for equal ones."""
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return float((high + low - 2 * middle) / (high - low)) if high > low else 0.0


@dataclass(frozen=True, eq=False)
class _Smooth:
    """A smoother for replicates of residuals, which gives their standard errors."""

    g: Array
    weights: Array
    shrink: Array
    total: Array
    leverage: Array

    def largest_ratio(self, values: Array, a: Array, groups: NDArray[np.intp]) -> Array:
        """Return the largest ``|sum a_i v_i| / error`` (b,) over q inputs; values (b, n), a (n, q)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            coefficients = times(values * self.weights, self.g) * self.shrink
            smooth = times(coefficients, self.g.T) / self.total
            residuals = np.nan_to_num((values - smooth) / (1 - self.leverage))
            if values.shape[1] == int(groups.max()) + 1:
                squares = times(residuals * residuals, a * a)
            else:
                parts = [_by_group((residuals * one).T, groups) for one in a.T]
                squares = np.stack([np.einsum("cb,cb->b", one, one) for one in parts], axis=1)
            ratios = np.abs(times(values, a)) / np.sqrt(squares)
        return np.asarray(np.nan_to_num(ratios, posinf=0.0).max(axis=1))


def _test(
    basis: Basis,
    g: Array,
    d: Array,
    weights: Array,
    sums: Callable[[Array], Array],
    signs: Array,
    groups: NDArray[np.intp],
    lam: float,
) -> tuple[float, float]:
    """Return p-values of ``E[d | x] = 0`` and of a mean of 0."""
    projected = np.concatenate([(g.T @ (weights * d))[None], sums(d)]) ** 2
    means = _by_group((weights * d)[:, None], groups)[:, 0]
    mean = np.concatenate([[means.sum()], signs @ means]) ** 2
    if mean.max() <= (_ROUNDING * (weights @ np.abs(d))) ** 2 and not projected.any():
        return 1.0, 1.0
    statistics = [mean, *(projected @ basis.energy(lam * one) for one in _LADDER)]
    logs = np.log(np.maximum(np.stack(statistics), 1e-300))
    spread = logs.std(axis=1, keepdims=True)
    centred = logs - logs.mean(axis=1, keepdims=True)
    # The mean has one degree of freedom: the logarithm of its square has a long lower tail but no upper
    # tail.
    score = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    ranks = np.stack([_ranks(one) for one in score])
    largest = ranks.max(axis=0)
    second = np.sort(ranks, axis=0)[-2] / len(largest)  # the next rank breaks ties of the largest
    key = largest + second
    return float(np.mean(key >= key[0] - 1e-12)), float(np.mean(mean >= mean[0] * (1 - 1e-12)))


def _ranks(values: Array) -> NDArray[np.intp]:
    """Return how many of the values (b,) lie below each; values that differ by rounding are equal.

    With few clusters there are few distinct signs, which are drawn repeatedly. If rounding broke their
    ties, a p-value could fall below the share of signs that are as extreme.
    """
    order = np.argsort(values, kind="stable")
    new = np.diff(values[order], prepend=-np.inf) > _TIE
    first = np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))
    out = np.empty(len(values), dtype=np.intp)
    out[order] = first
    return out


def _by_group(values: Array, groups: NDArray[np.intp]) -> Array:
    """Return the sums (G, p) over groups of rows of values (n, p)."""
    if len(values) == int(groups.max()) + 1:
        return values
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return np.asarray(np.add.reduceat(values[order], starts, axis=0))
