"""Corrected predictions in feature space: the effect of a shift and a factor of spread on embeddings.

The outcome and the prediction of row i are standardised by the centre and the scale of the prediction.
Given x this is a bijection of the outcomes, so nothing is lost, and one length scale of the output kernel
suits all rows: a wrong spread shows even if the means vary faster than the input kernel resolves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fastmcmd import _core
from fastmcmd._base.gauss import gauss_legendre
from fastmcmd.errors import NumericalError
from fastmcmd.gram import KernelFeatures
from fastmcmd.predictive import Categorical, Draws, NegativeBinomial, Predictive
from fastmcmd.predictive.count_base import Counts

__all__ = [
    "CLASSES_HAVE_NONE",
    "COUNTS_ABOVE",
    "COUNTS_BELOW",
    "FARTHEST",
    "CountCorrection",
    "KernelMap",
    "LocationScale",
    "centre_and_scale",
    "correctable",
    "log_masses",
    "reason_against",
    "starting_point",
]

CLASSES_HAVE_NONE = (
    "classes have neither location nor spread (recalibration.TemperatureScaling makes them more or less "
    "sure)"
)

Array = NDArray[np.float64]
Index = NDArray[np.intp]

_STEP = 0.4  # step of the lattice, times sqrt(gamma): reproduces the RBF kernel to 1e-6
_REACH = 8.0  # standardised outcomes that features cover on either side
_LENGTH = 1.0  # length of the RBF kernel on standardised outcomes
_ENDS = (
    1e-9,
    1e-4,
    3e-3,
    0.03,
    0.15,
    0.5,
)  # levels between which quadrature nodes lie, and mirrored
_NODES = 5  # nodes between two of these levels
_LEVELS = 2 * (len(_ENDS) - 1) * _NODES
_LEAST_FACTOR = 1e-6  # factor of spread; below it outcomes merely repeat the predicted means
_STANDARD_IQR = 1.3489795003921634  # interquartile range of the standard normal distribution
COUNTS_BELOW = 12.0  # range of summed counts below the mean, in standard deviations
COUNTS_ABOVE = 30.0  # the same above the mean, for distributions that were widened
_DENSE_STD = 50.0  # counts with a larger standard deviation are summed in steps of 1/25 of it
_WIDER = 3.0  # standard deviation of the reference of counts, in those of the prediction
_LEAST_DISPERSION = 1e-3  # smallest dispersion of that reference
_LEAST_MEAN = 1e-100  # of a count in that dispersion: its square is a number
_TINY = 1e-6  # of the 5 % quantile of scales: a row of a smaller scale would outweigh all others
FARTHEST = 3.0  # largest log factor of means or of spread of counts, from where corrections start
_LOG_STEP = 0.7  # largest change of a log mean in one step
MOST_COUNTS = 1 << 14  # largest number of counts of a row
_POWERS = (-1.0, 50.0)  # range of a, from the reference to almost a point
_COUNTS_PER_CALL = 1 << 16  # counts in a call of log_prob
_MOST_TABLE = 1 << 24  # counts whose probabilities are stored between steps
_LEAST_GROUP, _MOST_GROUPS = 64, 16  # rows that share a table, and such tables of a block


@dataclass(frozen=True)
class OutputLattice:
    """Gaussian bumps ``p_j(z) = height exp(-rate (z - j step)^2)`` that reproduce an RBF kernel."""

    step: float
    rate: float
    height: float
    most: int

    @staticmethod
    def of(length: float) -> OutputLattice:
        """Return the lattice for ``exp(-(z - z')^2 / (2 length^2))`` and outcomes up to 8 from 0."""
        gamma = 0.5 / length**2
        step = _STEP / np.sqrt(gamma)
        height = float(np.sqrt(step * np.sqrt(4 * gamma / np.pi)))
        return OutputLattice(float(step), 2 * gamma, height, int(np.ceil(_REACH / step)))

    @property
    def size(self) -> int:
        """Number of bumps."""
        return 2 * self.most + 1

    def means(self, z: Array, weight: Array, stretch: Array) -> tuple[Array, Array, Array]:
        """Return ``sum_l w_l p(z_l)`` (n, r) at nodes (n, L); also with ``p'`` and ``p' stretch`` for p."""
        out = [np.zeros((len(z), self.size)) for _ in range(3)]
        _core.lattice_means(z, weight, stretch, self.step, self.rate, self.height, True, *out)
        return out[0], out[1], out[2]

    def mean(self, z: Array, weight: Array) -> Array:
        """Return ``sum_l w_l p(z_l)`` (n, r) at nodes (n, L)."""
        out, unused = np.zeros((len(z), self.size)), np.empty((0, 0))
        _core.lattice_means(
            z, weight, z, self.step, self.rate, self.height, False, out, unused, unused
        )
        return out

    def at(self, z: Array) -> Array:
        """Return p(z) (n, r) for standardised outcomes (n,)."""
        return self.mean(np.ascontiguousarray(z)[:, None], np.ones((1, 1)))


@dataclass(frozen=True)
class KernelMap:
    """Features of an output kernel at pivots, with derivatives by central differences.

    Parameters
    ----------
    features : KernelFeatures
        The features.
    step : float
        Half the step of the central differences.
    """

    features: KernelFeatures
    step: float

    @property
    def size(self) -> int:
        """Number of features."""
        return self.features.rank

    def means(self, z: Array, weight: Array, stretch: Array) -> tuple[Array, Array, Array]:
        """Return ``sum_l w_l p(z_l)`` (n, r) at nodes (n, L); also with ``p'`` and ``p' stretch`` for p."""
        mean, slope, stretched = (np.zeros((len(z), self.size)) for _ in range(3))
        for j in range(z.shape[1]):
            w = weight[:, j : j + 1]
            mean += w * self.at(z[:, j])
            change = self.at(z[:, j] + self.step) - self.at(z[:, j] - self.step)
            change *= w / (2 * self.step)
            slope += change
            stretched += change * stretch[:, j : j + 1]
        return mean, slope, stretched

    def mean(self, z: Array, weight: Array) -> Array:
        """Return ``sum_l w_l p(z_l)`` (n, r) at nodes (n, L)."""
        out = np.zeros((len(z), self.size))
        for j in range(z.shape[1]):
            out += weight[:, j : j + 1] * self.at(z[:, j])
        return out

    def at(self, z: Array) -> Array:
        """Return p(z) (n, r) for outcomes (n,)."""
        return self.features.transform(np.ascontiguousarray(z)[:, None])


class LocationScale:
    """Continuous predictions and draws Y, corrected to ``centre + shift + exp(log_factor) (Y - centre)``.

    Parameters
    ----------
    prediction : Predictive
        Distributions of numbers with finite means.
    offset, unit : float or ndarray (n,)
        Outcomes are standardised as ``(y - centre - offset) / (scale unit)``.
    outputs : KernelMap, optional
        Features of unstandardised outcomes; if given, outcomes are not standardised.
    """

    log_mean = False

    def __init__(
        self,
        prediction: Predictive,
        offset: Array | float = 0.0,
        unit: Array | float = 1.0,
        outputs: KernelMap | None = None,
    ) -> None:
        self.prediction, self.unit = prediction, unit
        self.centre, self.scale = centre_and_scale(prediction)
        self.step: Array = self.scale * unit  # largest change of the shift in one step
        self.map: OutputLattice | KernelMap = (
            OutputLattice.of(_LENGTH) if outputs is None else outputs
        )
        self.size = self.map.size
        self._origin = self.centre + offset if outputs is None else np.zeros(len(self.centre))
        self._unit = self.scale * unit if outputs is None else np.ones(len(self.centre))
        self._stored_nodes: tuple[Array, Array] | None = None
        if len(prediction) * _LEVELS <= _MOST_TABLE:
            self._stored_nodes = self._nodes(prediction)

    def _nodes(self, part: Predictive) -> tuple[Array, Array]:
        """Return nodes (m, L) and weights (1, L) or (m, L)."""
        if isinstance(part, Draws):
            values, weights = part.nodes()
            return np.asarray(values), np.ascontiguousarray(np.broadcast_to(weights, values.shape))
        levels, shares = quantile_rule()
        return np.asarray(part.quantile(levels)), shares[None, :]

    def _nodes_of(self, rows: slice) -> tuple[Array, Array]:
        if self._stored_nodes is None:
            return self._nodes(self.prediction.take(np.arange(len(self.centre))[rows]))
        values, weights = self._stored_nodes
        return values[rows], weights if len(weights) == 1 else weights[rows]

    def features(self, y: Array, rows: slice) -> Array:
        """Return features (m, r) of outcomes of some rows."""
        with np.errstate(over="ignore"):  # such a remote outcome has no features, as at infinity
            standardised = (y - self._origin[rows]) / self._unit[rows]
        return self.map.at(standardised)

    def embed(self, shift: Array, log_factor: Array, rows: slice) -> tuple[Array, Array, Array]:
        """Return the expected features (m, r) of corrected predictions, and their two derivatives."""
        z, weights, stretch = self._corrected(shift, log_factor, rows)
        mean, slope, stretched = self.map.means(z, weights, stretch)
        return mean, slope / self._unit[rows, None], stretched

    def expected(self, shift: Array, log_factor: Array, rows: slice) -> Array:
        """Return the expected features (m, r) of corrected predictions."""
        z, weights, _ = self._corrected(shift, log_factor, rows)
        return self.map.mean(z, weights)

    def _corrected(
        self, shift: Array, log_factor: Array, rows: slice
    ) -> tuple[Array, Array, Array]:
        """Return corrected nodes (m, L), weights, and the nodes' distances from the corrected centre."""
        values, weights = self._nodes_of(rows)
        unit = self._unit[rows, None]
        centre = self.centre[rows, None]
        stretch = (values - centre) * np.exp(log_factor)[:, None] / unit
        z = stretch + (centre + shift[:, None] - self._origin[rows, None]) / unit
        return z, weights, stretch


class CountCorrection:
    """Predicted counts f(k), corrected to ``f(k) exp(a r(k) + b k)``, normalised.

    ``r(k) = log f(k) - log q(k)``, where q is the negative binomial distribution with the same mean and
    three times the standard deviation (of f corrected as at the start, by ``offset`` and ``unit``): a < 0
    moves f towards q, which is wider, and a > 0 away from it. The numbers a and b are solved for, so that
    the mean is multiplied by ``exp(shift)`` and the standard deviation by ``exp(shift / 2 + log_factor)``.
    The factor ``exp(shift / 2)`` is the effect of the mean on
    a Poisson distribution, which thus stays a Poisson distribution if ``log_factor`` is 0.
    """

    log_mean = True

    def __init__(
        self,
        prediction: Predictive,
        unit: Array | float = 1.0,
        outputs: KernelMap | None = None,
        offset: Array | float = 0.0,
    ) -> None:
        self.prediction, self.unit = prediction, unit
        self.centre, self.scale = centre_and_scale(prediction)
        self.step: Array = np.full(len(self.centre), _LOG_STEP)
        self.offset: Array = np.broadcast_to(
            np.asarray(offset, dtype=np.float64), self.centre.shape
        )
        # Tables of counts, and features, cover the corrected distribution at the start.
        self._middle = self.centre * np.exp(self.offset)
        self._width = self.scale * np.exp(self.offset / 2) * unit
        self.map: OutputLattice | KernelMap = (
            OutputLattice.of(_LENGTH) if outputs is None else outputs
        )
        self.size = self.map.size
        self._origin = self._middle if outputs is None else np.zeros(len(self.centre))
        self._unit = self._width if outputs is None else np.ones(len(self.centre))
        excess = (_WIDER * self._width) ** 2 - self._middle
        dispersion = excess / np.maximum(self._middle, _LEAST_MEAN) ** 2
        self.reference = NegativeBinomial(self._middle, np.maximum(dispersion, _LEAST_DISPERSION))
        self._tables: dict[tuple[int, int, int | None], list[_Part]] = {}

    def features(self, y: Array, rows: slice) -> Array:
        """Return features (m, r) of outcomes of some rows."""
        with np.errstate(over="ignore"):  # such a remote outcome has no features, as at infinity
            standardised = (y - self._origin[rows]) / self._unit[rows]
        return self.map.at(standardised)

    def table(self, rows: slice | Index, dense: bool = False) -> CountTable:
        """Return counts that hold the mass of some rows, corrected or not.

        With ``dense`` these are all counts. Otherwise wide distributions are sampled in steps of a small
        part of their standard deviations.
        """
        low, stride, counts = self._ranges(rows, dense)
        count = int(np.max(counts, initial=1))
        if count > MOST_COUNTS:
            raise NumericalError(
                f"prediction spreads its counts over {count:,} values in some row, more than "
                f"{MOST_COUNTS:,}: give a continuous distribution of y"
            )
        values = low[:, None] + stride[:, None] * np.arange(count, dtype=np.float64)
        index = np.arange(len(self.centre))[rows]
        logs = log_masses(self.prediction.take(index), values)
        ratios = logs - log_masses(self.reference.take(index), values)
        statistic = np.where(np.isfinite(ratios), ratios, 0.0)  # 0 where log f is -inf
        self._remove_trend(statistic, values, rows)
        return CountTable(values, np.where(np.isnan(logs), -np.inf, logs), statistic)

    def _remove_trend(self, statistic: Array, values: Array, rows: slice | Index) -> None:
        """Subtract the slope of r in the middle, which the term b k has, too, in rows far from f.

        There r is so steep that Newton's method for a and b would not converge.
        """
        far = np.flatnonzero(self.offset[rows] != 0)
        if not len(far) or values.shape[1] < 2:
            return
        middle = self._middle[rows][far, None]
        place = np.clip((values[far] < middle).sum(axis=1), 1, values.shape[1] - 1)
        run = values[far, place] - values[far, place - 1]
        slope = (statistic[far, place] - statistic[far, place - 1]) / run
        statistic[far] -= slope[:, None] * (values[far] - middle)

    def _ranges(self, rows: slice | Index, dense: bool) -> tuple[Array, Array, Array]:
        """Return the first count, the step and the number of counts of each row."""
        centre, scale = self._middle[rows], self._width[rows]
        low = np.maximum(np.floor(centre - COUNTS_BELOW * scale - 12), 0.0)
        high = np.ceil(centre + COUNTS_ABOVE * scale + 12)
        stride = np.ones(len(centre))
        if not dense:
            wide = scale > _DENSE_STD
            stride[wide] = np.floor(scale[wide] / (_DENSE_STD / 2))
        return low, stride, (high - low) // stride + 1

    def _parts(self, rows: slice) -> list[_Part]:
        """Return rows grouped by their number of counts, with tables, which are stored up to a limit.

        A single table for all rows would be as wide as the widest of them.
        """
        key = (rows.start, rows.stop, rows.step)
        existing = self._tables.get(key)
        if existing is not None:
            return existing
        index = np.arange(len(self.centre))[rows]
        order = np.argsort(self._ranges(index, dense=False)[2], kind="stable")
        groups = np.array_split(order, max(1, min(len(order) // _LEAST_GROUP, _MOST_GROUPS)))
        parts = [(place, index[place], self.table(index[place])) for place in groups]
        stored_count = sum(part[2].values.size for some in self._tables.values() for part in some)
        if stored_count + sum(part[2].values.size for part in parts) <= _MOST_TABLE:
            self._tables[key] = parts
        return parts

    def parameters(
        self, shift: Array, log_factor: Array, rows: slice | Index, table: CountTable
    ) -> tuple[Array, Array]:
        """Return a and b (m,) for the corrections of some rows, given their table."""
        power = np.clip(np.exp(-2 * log_factor) - 1, *_POWERS)
        offset = self.offset[rows]
        tilt = offset.copy()  # the answer for a Poisson distribution
        shift = np.clip(shift, offset - FARTHEST, offset + FARTHEST)
        mean = self.centre[rows] * np.exp(shift)
        unit = np.log(np.broadcast_to(self.unit, self.centre.shape)[rows])
        log_factor = np.clip(log_factor, unit - FARTHEST, unit + FARTHEST)
        std = self.scale[rows] * np.exp(log_factor + shift / 2)
        scratch = np.empty(table.values.shape[1])
        _core.solve_moments(
            table.values, table.logs, table.statistic, mean, std, *_POWERS, scratch, power, tilt
        )
        return power, tilt

    def embed(self, shift: Array, log_factor: Array, rows: slice) -> tuple[Array, Array, Array]:
        """Return the expected features (m, r) of corrected predictions, and their two derivatives."""
        sums = np.zeros((3, len(shift), self.size))
        for place, index, table in self._parts(rows):
            parameters = self.parameters(shift[place], log_factor[place], index, table)
            sums[:, place] = self._with_derivatives(parameters, index, table)
        return sums[0], sums[1], sums[2]

    def expected(self, shift: Array, log_factor: Array, rows: slice) -> Array:
        """Return the expected features (m, r) of corrected predictions."""
        mean = np.empty((len(shift), self.size))
        for place, index, table in self._parts(rows):
            masses = table.masses(*self.parameters(shift[place], log_factor[place], index, table))
            mean[place] = self.map.mean(self._standardised(index, table), masses)
        return mean

    def _standardised(self, index: Index, table: CountTable) -> Array:
        return np.asarray((table.values - self._origin[index, None]) / self._unit[index, None])

    def _with_derivatives(
        self, parameters: tuple[Array, Array], index: Index, table: CountTable
    ) -> Array:
        """Return expected features and their derivatives (3, m, r) of some rows."""
        weights = np.empty((3, *table.values.shape))
        _core.correction_weights(table.values, table.logs, table.statistic, *parameters, weights)
        z = self._standardised(index, table)
        sums = np.zeros((3, len(z), self.size))
        if isinstance(self.map, OutputLattice):
            lattice = self.map
            _core.weighted_lattice_sums(
                z, weights, lattice.step, lattice.rate, lattice.height, sums
            )
        else:
            for j in range(z.shape[1]):
                sums += weights[:, :, j, None] * self.map.at(z[:, j])
        return sums


@dataclass(frozen=True)
class CountTable:
    """Counts of rows, their log probabilities, and the statistic r, all (n, L)."""

    values: Array
    logs: Array
    statistic: Array

    def masses(self, power: Array, tilt: Array) -> Array:
        """Return ``f(k) exp(a r(k) + b k)`` (n, L), normalised, for a and b (n,)."""
        masses = self.logs + power[:, None] * self.statistic + tilt[:, None] * self.values
        masses -= masses.max(axis=1, keepdims=True)
        np.exp(masses, out=masses)
        return np.asarray(masses / masses.sum(axis=1, keepdims=True))


_Part = tuple[Index, Index, CountTable]  # places in a block, the rows there, and their counts


def log_masses(prediction: Predictive, counts: Array) -> Array:
    """Return log probabilities (n, L) of counts (n, L), in few calls."""
    out = np.empty(counts.shape)
    if isinstance(prediction, Counts) and (counts[:, 1:] - counts[:, :-1] == 1).all():
        prediction.log_masses_from(np.ascontiguousarray(counts[:, 0]), out)
        return out
    step = max(1, _COUNTS_PER_CALL // counts.shape[1])
    for start in range(0, len(counts), step):
        some = counts[start : start + step]
        rows = np.repeat(np.arange(start, start + len(some)), counts.shape[1])
        out[start : start + step] = prediction.take(rows).log_prob(some.ravel()).reshape(some.shape)
    return out


@lru_cache(maxsize=1)
def quantile_rule() -> tuple[Array, Array]:
    """Return levels and weights of an integral over levels, by Gauss-Legendre rules between `_ENDS`."""
    half = np.array(_ENDS)
    ends = np.concatenate([half, 1 - half[-2::-1]])
    z, w = gauss_legendre(_NODES)
    width = np.diff(ends)[:, None]
    levels = (ends[:-1, None] + width * (z + 1) / 2).ravel()
    shares = (width * w / 2).ravel()
    return levels, shares / shares.sum()


def centre_and_scale(prediction: Predictive) -> tuple[Array, Array]:
    """Return means and standard deviations (n,); infinite standard deviations come from the quartiles."""
    centre = np.array(prediction.mean, dtype=np.float64)
    scale = np.array(prediction.std, dtype=np.float64)
    bad = ~np.isfinite(scale)
    if bad.any():
        ends = np.asarray(prediction.take(np.flatnonzero(bad)).quantile([0.25, 0.75]))
        scale[bad] = (ends[:, 1] - ends[:, 0]) / _STANDARD_IQR
    zero = ~(scale > 0)
    if not (prediction.discrete or zero.all()):
        zero |= scale < _TINY * np.quantile(scale[~zero], 0.05)
    if zero.any() and not zero.all():
        scale[zero] = np.median(scale[~zero])
    return centre, scale


def reason_against(prediction: Predictive) -> str | None:
    """Return why a shift and a factor of spread cannot correct predictions, or None if they can."""
    if len(prediction.shape) > 1:
        return "outputs are vectors; give one column at a time"
    if isinstance(prediction, Categorical):
        return CLASSES_HAVE_NONE
    if not np.isfinite(prediction.mean).all():
        return "some predicted means are not finite"
    if not (np.asarray(prediction.std) > 0).any():
        return "all predictions are points without spread"
    if prediction.discrete:
        if not (np.asarray(prediction.quantile(0.0)) >= 0).all():
            return "discrete outcomes below 0 are no counts"
        if not (np.asarray(prediction.mean) > 0).all():
            return "some predicted means of counts are 0"
    return None


def correctable(
    prediction: Predictive,
    offset: Array | float,
    unit: Array | float,
    outputs: KernelMap | None = None,
) -> LocationScale | CountCorrection:
    """Return predictions in a form that can be corrected: counts keep their outcomes, others move."""
    if prediction.discrete:
        return CountCorrection(prediction, unit, outputs, offset)
    return LocationScale(prediction, offset, unit, outputs)


def starting_point(prediction: Predictive, y: Array, weights: Array) -> tuple[float, float]:
    """Return the shift and the factor of spread that all rows need in common, from medians.

    Features cover outcomes up to 8 units from 0, and Gauss-Newton steps find factors near 1: a model whose
    standard deviation is a tenth of the right one everywhere is first corrected as a whole. Counts start
    without a correction.
    """
    if prediction.discrete:
        return 0.0, 1.0
    some = weights > 0
    centre, scale = centre_and_scale(prediction)
    gap, scale = (y - centre)[some], scale[some]
    shift = float(np.median(gap))
    half = np.asarray(prediction.take(np.flatnonzero(some)).quantile([0.25, 0.75]))
    expected = float(np.median((half[:, 1] - half[:, 0]) / (2 * scale)))
    with np.errstate(over="ignore"):
        factor = float(np.median(np.abs(gap - shift) / scale))
    if not (expected > 0 and factor > _LEAST_FACTOR * expected):
        return shift, 1.0
    return shift, factor / expected
