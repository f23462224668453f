"""Features of outcomes for tests: maps that depend on all data sets alike, never on y alone.

Any map is valid; a good one detects what kernels on outputs detect, at little cost. A radial kernel on
numbers is a lattice of Gaussian bumps, ``exp(-g (y - y')^2) = sum_j p_j(y) p_j(y')`` with
``p_j(y) = (h sqrt(4 g / pi))^(1/2) exp(-2 g (y - j h)^2)``, up to 3e-3 at the step ``h = 0.6 / sqrt(g)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd import _core
from fastmcmd._base.cached import cached_property
from fastmcmd.backends import get_backend
from fastmcmd.gram import KernelFeatures
from fastmcmd.inference.exchangeable import NORMAL_IQR, Reference
from fastmcmd.kernels import Kernel
from fastmcmd.kernels.custom import examine_kernel
from fastmcmd.solvers.landmarks import LandmarkSearch

__all__ = [
    "BlockOutcomes",
    "Bumps",
    "FeatureTable",
    "FourierFeatures",
    "LandmarkFeatures",
    "OutcomeFeatures",
    "ladder_of_outcomes",
    "landmark_features",
    "standard_bumps",
]

_STEP = 0.6  # step of a lattice, in units of 1 / sqrt(g)
_MOST_BUMPS = 64
_NEAR = 5  # bumps on either side that are not negligible
_FREQUENCIES = (
    32  # quasi-random frequencies, if a lattice would be too long or has several dimensions
)
_REACH = 5.0  # standardised outcomes beyond count as this far
_FARTHEST = 1e4  # lengths from the centre at which outcomes are clipped, for frequencies
_MARGIN = 4.0  # scales beyond the predicted range at which outcomes are clipped
_LARGEST = float(np.finfo(np.float64).max) / 8  # size of outcomes that determine scales
_RANK_WIDTH = 0.2  # length of the kernel on ranks in (0, 1)
_MOST_LANDMARKS = 64
_CANDIDATES = 2_000
_TABLE_SIZES = (257, 1025, 4097)  # points of a table of features; larger ones leave the cache
_TABLE_RANGE, _TABLE_MARGIN = (
    (0.001, 0.999),
    0.5,
)  # of outcomes; the margin in units of their distance
_TABLE_ERROR = 1e-6  # of features, relative to the largest: that of single precision, nearly

Array = NDArray[np.float64]
Single = NDArray[np.float32]


class BlockOutcomes:
    """The outcomes (m, B + 1, k) of some rows, in the forms that features use.

    Parameters
    ----------
    raw : ndarray (m, B + 1, k)
        The outcomes.
    reference : Reference, optional
        What right predictions say about these rows. Default: the outcomes themselves.

    Attributes
    ----------
    raw : ndarray (m, B + 1, k)
        The outcomes themselves.
    reference : Reference
        What right predictions say about these rows.
    """

    def __init__(self, raw: Array, reference: Reference | None = None) -> None:
        self.raw = raw
        self.reference = Reference.of_values(raw) if reference is None else reference

    @cached_property
    def standardised(self) -> Array:
        """Outcomes minus the median of the row, over its spread: a bijection of y given x."""
        spread = self.reference.spread
        usable = (spread > 0) & np.isfinite(spread)
        with np.errstate(invalid="ignore", over="ignore"):
            gaps = self.raw - self.reference.centre[:, None]
            gaps /= np.where(usable, spread, 1.0)[:, None]
        return np.nan_to_num(gaps, copy=False, posinf=np.inf, neginf=-np.inf)

    @cached_property
    def ranks(self) -> Array:
        """Share of the row's reference below each outcome (0 to 1): the probability integral transform."""
        ranks = np.empty(self.raw.shape)
        for column in range(self.raw.shape[2]):
            column_ranks = np.empty(ranks.shape[:2])
            _core.mid_ranks(
                self.raw[:, :, column], self.reference.sorted_values[column], column_ranks
            )
            ranks[:, :, column] = column_ranks
        return ranks


@dataclass(frozen=True, eq=False)
class OutcomeFeatures(ABC):
    """Features of outcomes.

    Attributes
    ----------
    name : str
        Name of the features in results.
    """

    name: str

    @property
    def is_smooth(self) -> bool:
        """Whether features vary little between neighbours among some tens of outcomes of a row."""
        return True

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of features r."""

    @property
    @abstractmethod
    def scratch_bytes(self) -> int:
        """Bytes that `transform` needs for each outcome beside the features."""

    @abstractmethod
    def transform(self, outcomes: BlockOutcomes) -> Single:
        """Return the features (m, B + 1, r)."""

    def means(self, reference: Reference) -> Single:
        """Return the mean features (m, r) of right predictions."""
        if reference.support is None or reference.masses is None:
            means = self.transform(BlockOutcomes(reference.values, reference)).mean(axis=1)
        else:
            of_support = self.transform(BlockOutcomes(reference.support[None]))[0]
            means = reference.masses @ of_support
        return np.asarray(means, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Bumps(OutcomeFeatures):
    """A radial kernel on numbers, by a lattice of ``count`` bumps from ``low`` on."""

    form: str  # "raw", "standardised" or "ranks"
    low: float
    length: float
    count: int

    @property
    def rank(self) -> int:
        """Number of bumps of the lattice."""
        return self.count

    @property
    def scratch_bytes(self) -> int:
        """Bytes for each outcome: its place on the lattice."""
        return 24

    def transform(self, outcomes: BlockOutcomes) -> Single:
        """Return the features (m, B + 1, r)."""
        step = _STEP * np.sqrt(2.0)  # g = 1/2 in units of the length
        with np.errstate(over="ignore"):
            places = (getattr(outcomes, self.form)[:, :, 0] - self.low) / self.length
        np.clip(places, 0.0, (self.count - 1) * step, out=places)
        out = np.zeros((*places.shape, self.count), dtype=np.float32)
        decay = np.exp(-((step * np.arange(_NEAR + 1)) ** 2))
        _core.outcome_bumps(places, step, float(np.sqrt(step * np.sqrt(2 / np.pi))), decay, out)
        return out


@dataclass(frozen=True, eq=False)
class FourierFeatures(OutcomeFeatures):
    """A radial kernel on numbers or vectors, by quasi-random frequencies (k, r / 2)."""

    form: str
    centre: Array
    scale: Array  # lengths of the columns (k,)
    reach: float
    frequencies: Array

    @property
    def rank(self) -> int:
        """Number of sines and cosines."""
        return 2 * self.frequencies.shape[1]

    @property
    def scratch_bytes(self) -> int:
        """Bytes for each outcome: its place, the angles in two precisions, sines and cosines."""
        return 32 * self.frequencies.shape[0] + 20 * self.frequencies.shape[1]

    def transform(self, outcomes: BlockOutcomes) -> Single:
        """Return the features (m, B + 1, r)."""
        with np.errstate(over="ignore"):
            places = (getattr(outcomes, self.form) - self.centre) / self.scale
        places = np.clip(places, -self.reach, self.reach)
        angles = (places @ self.frequencies).astype(np.float32)
        out = np.concatenate([np.cos(angles), np.sin(angles)], axis=2)
        out /= np.float32(np.sqrt(self.frequencies.shape[1]))
        return out


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of a kernel on numbers, tabulated: a cubic polynomial between points of a grid.

    Attributes
    ----------
    low, step : float
        The first point of the grid, and their distance.
    values : ndarray (m, r)
        Features at the points.
    """

    low: float
    step: float
    values: Single

    @staticmethod
    def of(features: KernelFeatures, low: float, high: float) -> FeatureTable | None:
        """Return a table for numbers in [low, high]; None if the kernel is too narrow or rough for it.

        It is compared with the features half-way between its points, where such a polynomial is furthest
        off, and at the pivots, where a kernel may jump or bend.
        """
        if not (high > low and np.isfinite(high - low)):
            return None
        pivots = np.asarray(features.pivots, dtype=np.float64)[:, 0]
        for count in _TABLE_SIZES:
            step = (high - low) / (count - 4)
            points = low + step * (np.arange(count) - 1.0)
            table = FeatureTable(
                points[0], step, features.transform(points[:, None]).astype(np.float32)
            )
            check_points = np.concatenate([points[1:-2] + 0.5 * step, pivots[table.holds(pivots)]])
            exact = features.transform(check_points[:, None])
            if np.abs(table.at(check_points) - exact).max() <= _TABLE_ERROR * np.abs(exact).max():
                return table
        return None

    def at(self, y: Array) -> Single:
        """Return the features (n, r) of numbers (n,) between ``low + step`` and the last point but two."""
        out = np.empty((len(y), self.values.shape[1]), dtype=np.float32)
        _core.interpolate((y - self.low) / self.step, self.values, out)
        return out

    def holds(self, y: Array) -> NDArray[np.bool_]:
        """Return which of the numbers (n,) the table covers."""
        last = self.low + self.step * (len(self.values) - 3)
        return np.asarray((y >= self.low + self.step) & (y <= last))


@dataclass(frozen=True, eq=False)
class LandmarkFeatures(OutcomeFeatures):
    """Any kernel, at landmarks among outcomes drawn from the prediction.

    Attributes
    ----------
    features : KernelFeatures
        The features.
    table : FeatureTable or None
        The same features, tabulated over the range of the drawn outcomes if these are numbers.
    """

    features: KernelFeatures
    table: FeatureTable | None = None

    @property
    def is_smooth(self) -> bool:
        """False: the kernel may be narrow, or one of classes."""
        return False

    @property
    def rank(self) -> int:
        """Number of landmarks."""
        return self.features.rank

    @property
    def scratch_bytes(self) -> int:
        """Bytes for each outcome: copies, and features in double precision if these are not tabulated."""
        return 24 * self.features.pivots.shape[1] + 24 * self.rank

    def transform(self, outcomes: BlockOutcomes) -> Single:
        """Return the features (m, B + 1, r)."""
        rows, count, columns = outcomes.raw.shape
        features = self.of_values(outcomes.raw.reshape(-1, columns))
        return features.reshape(rows, count, -1)

    def of_values(self, values: Array) -> Single:
        """Return the features (n, r) of outcomes (n, k)."""
        if self.table is None:
            return self.features.transform(values).astype(np.float32)
        inside = self.table.holds(values[:, 0])
        if inside.all():
            return self.table.at(values[:, 0])
        out = np.empty((len(values), self.rank), dtype=np.float32)
        out[inside] = self.table.at(values[inside, 0])
        out[~inside] = self.features.transform(values[~inside])
        return out


def landmark_features(
    kernel: Kernel,
    outcomes: Array,
    rng: np.random.Generator,
    name: str,
    most: int = _MOST_LANDMARKS,
) -> LandmarkFeatures:
    """Return features of a kernel at up to ``most`` landmarks among ``outcomes`` (m, l, k)."""
    flat = outcomes.reshape(-1, outcomes.shape[2])
    kernel = kernel.resolve(flat)
    if len(flat) > 10 * _CANDIDATES:
        flat = flat[rng.choice(len(flat), 10 * _CANDIDATES, replace=False)]
    rows = np.unique(flat, axis=0)
    examine_kernel(kernel, "y_kernel", rows)
    if len(rows) > _CANDIDATES:
        rows = rows[np.sort(rng.choice(len(rows), _CANDIDATES, replace=False))]
    search = LandmarkSearch(
        get_backend("auto", kernel), kernel, rows, np.ones(len(rows)), most, rng
    )
    search.grow(most)
    features = search.kernel_features()
    table = None
    if rows.shape[1] == 1:
        low, high = np.quantile(flat, _TABLE_RANGE)
        margin = _TABLE_MARGIN * (high - low)
        table = FeatureTable.of(features, float(low - margin), float(high + margin))
    return LandmarkFeatures(name, features, table)


def ladder_of_outcomes(outcomes: Array) -> list[OutcomeFeatures]:
    """Return features of outcomes at their marginal scale, standardised, and as ranks.

    Parameters
    ----------
    outcomes : ndarray (m, l, k)
        Outcomes drawn from the prediction at some rows; they determine the scales.
    """
    columns = outcomes.shape[2]
    # Heavy tails reach infinity; differences of these are finite.
    flat = np.clip(outcomes.reshape(-1, columns), -_LARGEST, _LARGEST)
    low, first, third, high = np.quantile(flat, [0.001, 0.25, 0.75, 0.999], axis=0)
    middle = np.median(flat, axis=0)
    marginal = _positive((third - first) / NORMAL_IQR, flat)
    if columns > 1:
        width = np.sqrt(columns)
        reach = float(np.max(np.maximum(high - middle, middle - low) / marginal)) + _MARGIN
        zeros, ones = np.zeros(columns), np.ones(columns)
        return [
            _fourier("y", "raw", middle, marginal * width, reach / width),
            _fourier("standardised y", "standardised", zeros, ones * width, _REACH / width),
        ]
    first_bump = float(low[0] - _MARGIN * marginal[0])
    count = _bumps(float(high[0] - low[0]) / float(marginal[0]) + 2 * _MARGIN)
    ladder: list[OutcomeFeatures] = []
    if count <= _MOST_BUMPS:
        ladder.append(Bumps("y", "raw", first_bump, float(marginal[0]), count))
    else:
        reach = float(max(high[0] - middle[0], middle[0] - low[0]) / marginal[0]) + _MARGIN
        ladder.append(_fourier("y", "raw", middle, marginal, reach))
    ladder.append(replace(standard_bumps("standardised y", _REACH), form="standardised"))
    ladder.append(Bumps("rank of y", "ranks", 0.0, _RANK_WIDTH, _bumps(1 / _RANK_WIDTH)))
    return ladder


def standard_bumps(name: str, reach: float) -> Bumps:
    """Return an RBF kernel of length 1 on numbers of the order of 1, clipped beyond ``reach``."""
    return Bumps(name, "raw", -reach, 1.0, _bumps(2 * reach))


def _bumps(lengths: float) -> int:
    """Return the number of bumps that cover this many lengths of the kernel."""
    return int(np.ceil(min(lengths / (_STEP * np.sqrt(2)), 1e6))) + 1


def _fourier(name: str, form: str, centre: Array, scale: Array, reach: float) -> FourierFeatures:
    """Return features at normal frequencies: the same in each test, so that p-values do not vary."""
    columns = len(centre)
    if columns == 1:  # the middles of equal shares; scipy.stats takes long to load
        points = (np.arange(_FREQUENCIES)[:, None] + 0.5) / _FREQUENCIES
        frequencies = scipy.special.ndtri(points).T
    elif columns <= scipy.stats.qmc.Sobol.MAXDIM:
        points = scipy.stats.qmc.Sobol(columns, seed=0).random(_FREQUENCIES)
        frequencies = scipy.special.ndtri(points).T
    else:
        frequencies = np.random.default_rng(0).standard_normal((columns, _FREQUENCIES))
    return FourierFeatures(name, form, centre, scale, min(reach, _FARTHEST), frequencies)


def _positive(scale: Array, flat: Array) -> Array:
    """Return scales with zeros replaced by the standard deviation, or else by 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = flat.std(axis=0)
    wide = np.where((wide > 0) & np.isfinite(wide), wide, 1.0)
    return np.asarray(np.where((scale > 0) & np.isfinite(scale), scale, wide))
