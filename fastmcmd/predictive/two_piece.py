"""Predictions by two-piece distributions: halves of two scales that meet at the mode."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, NoReturn

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array
from fastmcmd._base.cached import cached_property
from fastmcmd.predictive.family import Family, parameters
from fastmcmd.predictive.numerics.closed_scores import (
    SymmetricFamily,
    symmetric_tails,
    two_piece_scores,
)
from fastmcmd.predictive.numerics.log_densities import LogDensity
from fastmcmd.predictive.numerics.quadrature import Ends, node_count, panel_ends

__all__ = ["TwoPiece", "TwoPieceLaplace", "TwoPieceNormal"]


class TwoPiece(Family):
    """A family of two halves of one symmetric distribution, with a scale for each side of the mode.

    With the standard density f and scales s and t, the density is ``2 f((y - loc) / s) / (s + t)`` below
    the mode and ``2 f((y - loc) / t) / (s + t)`` above: the mass of a side is its share of the scales. A
    subclass names f to the core in ``_symmetric``.
    """

    loc: Array
    lower_scale: Array
    upper_scale: Array
    _names = ("loc", "lower_scale", "upper_scale")
    _scales = ("lower_scale", "upper_scale")
    _symmetric: ClassVar[SymmetricFamily]
    _has_core_scores = True
    _moments: ClassVar[tuple[float, ...]]  # E|Z|^k of the standard distribution, k from 0 to 4

    def __init__(self, loc: ArrayLike, lower_scale: ArrayLike, upper_scale: ArrayLike) -> None:
        super().__init__(
            parameters(
                ("lower_scale", "upper_scale"),
                loc=loc, lower_scale=lower_scale, upper_scale=upper_scale,
            )
        )  # fmt: skip

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return np.asarray(self.loc + self._moments[1] * (self.upper_scale - self.lower_scale))

    @property
    def variance(self) -> Array:
        """Variances (n,); infinite where they overflow."""
        with np.errstate(over="ignore"):
            return np.asarray(self.std**2)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""
        gap = math.sqrt(self._moments[2] - self._moments[1] ** 2)
        both = np.sqrt(self._moments[2] * self.lower_scale) * np.sqrt(self.upper_scale)
        return np.hypot(gap * (self.upper_scale - self.lower_scale), both)

    def kinks(self) -> Array:
        """Return the modes (n, 1)."""
        return self.loc[:, None]

    @property
    def node_count(self) -> int:
        """Number of nodes per row."""
        return node_count(stops=1)

    @cached_property
    def _panel_ends(self) -> Ends:
        below, above = _shares(self.lower_scale, self.upper_scale)
        stops = self.kinks(), below[:, None], above[:, None]
        return panel_ends(self.quantiles_at, self.upper_quantiles_at, stops=stops)

    def _polynomial(self, degree: int, gamma: float, coef0: float, z: Array) -> Array | None:
        """Return ``E (gamma Y z + coef0)^degree`` from moments around the mode."""
        below, above = _shares(self.lower_scale, self.upper_scale)
        centre, total = gamma * self.loc[:, None] * z + coef0, np.zeros((len(self), len(z)))
        for k in range(degree + 1):
            moment = above * self.upper_scale**k + below * (-self.lower_scale) ** k
            term = centre ** (degree - k) * (self._moments[k] * moment[:, None] * (gamma * z) ** k)
            total += math.comb(degree, k) * term
        return total

    def _freeze(self) -> NoReturn:
        raise NotImplementedError("scipy.stats has no two-piece distributions")

    def _tails(self, y: Array, loc: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Return P(Y <= y) and P(Y > y)."""
        is_above = y > loc
        below, above = _shares(lower, upper)
        first, second = symmetric_tails(self._symmetric, y, loc, np.where(is_above, upper, lower))
        twice = 2 * np.where(
            is_above, second, first
        )  # the standard mass beyond y and its mirror image
        beyond = np.where(is_above, above, below)
        other = np.where(is_above, below, above) + beyond * (1 - twice)
        beyond = beyond * twice
        return np.where(is_above, other, beyond), np.where(is_above, beyond, other)

    def _cdf(self, y: Array, loc: Array, lower: Array, upper: Array) -> Array:
        return self._tails(y, loc, lower, upper)[0]

    def _sf(self, y: Array, loc: Array, lower: Array, upper: Array) -> Array:
        return self._tails(y, loc, lower, upper)[1]

    def _log_prob(self, y: Array, loc: Array, lower: Array, upper: Array) -> Array:
        gap = y - loc
        z = np.maximum(gap, 0.0) / upper + np.minimum(gap, 0.0) / lower  # one of them is 0
        return self._log_density(z) - np.log(lower / 2 + upper / 2)

    def _crps(self, y: Array, loc: Array, lower: Array, upper: Array) -> Array:
        return two_piece_scores(self._symmetric, y, loc, lower, upper)

    def _quantile(self, level: Array, loc: Array, lower: Array, upper: Array) -> Array:
        return self._at_masses(level, 1 - level, loc, lower, upper)

    def _upper_quantile(self, level: Array, loc: Array, lower: Array, upper: Array) -> Array:
        return self._at_masses(1 - level, level, loc, lower, upper)

    def _at_masses(
        self, mass_below: Array, mass_above: Array, loc: Array, lower: Array, upper: Array
    ) -> Array:
        """Return the numbers with these masses on either side."""
        below, above = _shares(lower, upper)
        is_above = mass_below > below
        level = np.where(is_above, mass_above / above, mass_below / below) / 2
        step = self._lower_quantile(np.minimum(level, 0.5))
        return loc + np.where(is_above, -upper, lower) * step

    def _sample(
        self,
        rng: np.random.Generator,
        shape: tuple[int, ...],
        loc: Array,
        lower: Array,
        upper: Array,
    ) -> Array:
        is_below = rng.random(shape) < _shares(lower, upper)[0]
        return loc + np.where(is_below, -lower, upper) * self._sizes(rng, shape)

    @staticmethod
    @abstractmethod
    def _log_density(z: Array) -> Array:
        """Return the standard log density."""

    @staticmethod
    @abstractmethod
    def _lower_quantile(level: Array) -> Array:
        """Return standard quantiles at levels up to 0.5."""

    @staticmethod
    @abstractmethod
    def _sizes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return draws of the absolute value of a standard variable."""


class TwoPieceNormal(TwoPiece):
    """Two-piece (split) normal distributions: normal halves of two scales that meet at the mode.

    Parameters
    ----------
    loc : array_like, scalar or (n,)
        Modes.
    lower_scale, upper_scale : array_like, scalar or (n,)
        Scales below and above the mode, positive. The mass of each side is its share of their sum.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    Fan charts of central banks use them (Wallis, *The Two-Piece Normal, Binormal, or Double Gaussian
    Distribution*, Statistical Science 2014). The CRPS follows from that of the normal distribution D of one
    side: with its share w of the scales, that of the other side w' and the scores d and d' of both normal
    distributions at the mode, it is ``|y - loc| + 2 w (D(y) - d - |y - loc|) + 2 (w^2 d + w'^2 d')``.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> inflation = fm.TwoPieceNormal([2.0, 2.5], 0.5, [1.5, 0.5])
    >>> inflation.cdf([2.0, 2.5]).tolist()
    [0.25, 0.5]
    """

    _symmetric = SymmetricFamily.NORMAL
    _core_density = LogDensity.TWO_PIECE_NORMAL
    _moments = (1.0, math.sqrt(2 / math.pi), 1.0, 2 * math.sqrt(2 / math.pi), 3.0)

    @staticmethod
    def _log_density(z: Array) -> Array:
        return np.asarray(-(z / 2) * z - math.log(2 * math.pi) / 2)

    @staticmethod
    def _lower_quantile(level: Array) -> Array:
        return np.asarray(scipy.special.ndtri(level))

    @staticmethod
    def _sizes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.abs(rng.standard_normal(shape))


class TwoPieceLaplace(TwoPiece):
    """Two-piece (asymmetric) Laplace distributions: exponential tails of two scales that meet at the mode.

    Parameters
    ----------
    loc : array_like, scalar or (n,)
        Modes.
    lower_scale, upper_scale : array_like, scalar or (n,)
        Scales below and above the mode, positive. The mass of each side is its share of their sum.

    Raises
    ------
    ValueError
        Parameters that are not finite or not positive, whose lengths differ, or all scalar.

    Notes
    -----
    The mode is the quantile at level ``lower_scale / (lower_scale + upper_scale)``. scoringrules calls them
    two-piece exponential, and SciPy ``laplace_asymmetric``. For the CRPS see `TwoPieceNormal`.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> delay = fm.TwoPieceLaplace([0.0, 5.0], 1.0, 3.0)
    >>> delay.mean.tolist(), delay.quantile(0.25).tolist()
    ([2.0, 7.0], [0.0, 5.0])
    """

    _symmetric = SymmetricFamily.LAPLACE
    _core_density = LogDensity.TWO_PIECE_LAPLACE
    _moments = (1.0, 1.0, 2.0, 6.0, 24.0)

    @staticmethod
    def _log_density(z: Array) -> Array:
        return np.asarray(-np.abs(z) - math.log(2))

    @staticmethod
    def _lower_quantile(level: Array) -> Array:
        return np.asarray(np.log(2 * level))

    @staticmethod
    def _sizes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.asarray(rng.standard_exponential(shape))


def _shares(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return the masses below and above the mode; small ones keep their digits."""
    return 1 / (1 + upper / lower), 1 / (1 + lower / upper)
