"""Shapes of frozen distributions of scipy.stats: for each of them, SciPy searches or integrates once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd.errors import NumericalError

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

__all__ = [
    "FrozenShapes",
    "has_kinks",
    "has_own_formula",
    "has_slow_quantiles",
    "lacks_moments",
    "quantile_search",
]

_OF_INTEGERS = {"erlang", "irwinhall", "ksone", "kstwo"}  # families whose only shape is an integer

# Families whose formula for quantiles is itself a search: microseconds for each number.
_SEARCHED = {"invgauss", "ksone", "kstwo", "ncf", "nct", "ncx2", "rice", "skewnorm", "wald"}

# Kinks of standard densities, apart from medians, as functions of the shapes.
_KINKS: dict[str, Callable[..., tuple[Array, ...]]] = {
    "crystalball": lambda beta, m: (-beta,),
    "laplace_asymmetric": lambda kappa: (0.0 * kappa,),
    "skewcauchy": lambda a: (0.0 * a,),
    "trapezoid": lambda c, d: (c, d),
    "triang": lambda c: (c,),
}


@dataclass(frozen=True, eq=False)
class FrozenShapes:
    """The parameters of n frozen distributions of one family, without those of shapes that are equal.

    Attributes
    ----------
    family : rv_continuous or rv_discrete
        The family.
    distinct : ndarray (u, k)
        Distinct shape parameters.
    place : ndarray (n,)
        Index of each row's shapes.
    loc, scale : ndarray (n,)
        Locations, and scales: 1 for discrete distributions.
    """

    family: Any
    distinct: Array
    place: NDArray[np.intp]
    loc: Array
    scale: Array

    @staticmethod
    def of(frozen: rv_frozen, n: int) -> FrozenShapes | None:
        """Return the parameters of n rows, or None if the distribution does not tell them as SciPy's do."""
        if not hasattr(frozen.dist, "_parse_args"):
            return None
        shapes, loc, scale = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
        columns = [
            np.array(np.broadcast_to(np.asarray(one, dtype=np.float64), (n,)))
            for one in (*shapes, loc, scale)
        ]
        if all(np.size(one) == 1 for one in shapes):
            distinct = np.array([[np.asarray(one, dtype=np.float64).item() for one in shapes]])
            return FrozenShapes(frozen.dist, distinct, np.zeros(n, dtype=np.intp), *columns[-2:])
        rows = np.stack(columns[:-2], axis=1)
        distinct, place = np.unique(rows, axis=0, return_inverse=True)
        return FrozenShapes(frozen.dist, distinct, place.reshape(-1), *columns[-2:])

    def __len__(self) -> int:
        return len(self.distinct)

    @property
    def coordinates(self) -> Array:
        """Coordinates (n, k + 2) of continuous distributions: shapes, loc, and logarithms of scales."""
        return np.column_stack([self.distinct[self.place], self.loc, np.log(self.scale)])

    @property
    def are_integers(self) -> bool:
        """Whether shapes are integers, between which SciPy's formulas do not hold."""
        return self.family.name in _OF_INTEGERS

    @property
    def first_rows(self) -> NDArray[np.intp]:
        """The first row (u,) of each shape."""
        return np.unique(self.place, return_index=True)[1]

    def moments(self, names: str, integrals: Array | None = None) -> list[Array]:
        """Return the moments (n,) that letters of ``rv_continuous.stats`` name.

        ``integrals`` (4, u) are those of "mvsk" of the standard distributions; NaN where SciPy integrates.
        """
        standard = np.full((len(names), len(self)), np.nan)
        if integrals is not None:
            standard = integrals[["mvsk".index(name) for name in names]]
        missing = np.isnan(standard).any(axis=0)
        if missing.any():
            values = np.atleast_1d(self.family.stats(*self.distinct[missing].T, moments=names))
            standard[:, missing] = np.reshape(values, (len(names), -1))
        moments = []
        for name, values in zip(names, standard, strict=True):
            of_rows = np.broadcast_to(values, len(self))[self.place]
            with np.errstate(invalid="ignore"):
                if name == "m":
                    of_rows = of_rows * self.scale + self.loc
                elif name == "v":
                    of_rows = of_rows * self.scale * self.scale
            moments.append(of_rows)
        return moments

    def quantiles(self, name: str, levels: Array) -> Array:
        """Return ``ppf`` or ``isf`` (n, j) of levels (j,)."""
        return self.of_shapes(self.standard_quantiles(name, levels))

    def standard_quantiles(self, name: str, levels: Array) -> Array:
        """Return SciPy's ``ppf`` or ``isf`` (u, j) of levels (j,), with location 0 and scale 1."""
        with np.errstate(all="ignore"):
            standard = quantile_search(self.family(*self.distinct.T), name)(levels[:, None])
        return np.broadcast_to(standard, (len(levels), len(self))).T

    def kinks(self) -> Array:
        """Return the places (n, j) of the kinks of a family for whose name `has_kinks` is true."""
        return self.of_shapes(np.stack(_KINKS[self.family.name](*self.distinct.T), axis=1))

    def of_shapes(self, standard: Array) -> Array:
        """Return numbers (n, j) of the rows from those (u, j) of the standard distributions."""
        return self.of_rows(standard[self.place])

    def of_rows(self, standard: Array) -> Array:
        """Return numbers (n, j) of the rows from those (n, j) with location 0 and scale 1."""
        with np.errstate(invalid="ignore"):
            return np.asarray(standard * self.scale[:, None] + self.loc[:, None])


def has_kinks(name: str) -> bool:
    """Tell whether densities of the family of SciPy with this name have kinks apart from medians."""
    return name in _KINKS


def has_slow_quantiles(family: object) -> bool:
    """Tell whether quantiles of a family of scipy.stats cost a search, in SciPy or by us."""
    return not has_own_formula(family, "_ppf") or getattr(family, "name", None) in _SEARCHED


def lacks_moments(family: object) -> bool:
    """Tell whether SciPy integrates for the moments of a family whose nodes cost less."""
    has_moments = has_own_formula(family, "_stats") or has_own_formula(family, "_munp")
    has_nodes = has_own_formula(family, "_ppf") or has_own_formula(family, "_cdf")
    return has_nodes and not has_moments


def quantile_search(frozen: rv_frozen, name: str) -> Callable[[Array], Array]:
    """Return ``ppf`` or ``isf`` of a frozen distribution.

    Where SciPy's search fails, levels above a half are searched from the other side.
    """
    by_name = getattr(frozen, name)
    from_above = frozen.isf if name == "ppf" else frozen.ppf

    def search(levels: Array) -> Array:
        try:
            return np.asarray(by_name(levels))
        except (ValueError, RuntimeError, OverflowError):
            is_high = levels > 0.5
        try:
            low, high = np.where(is_high, 0.5, levels), np.where(is_high, 1 - levels, 0.5)
            return np.where(is_high, from_above(high), by_name(low))
        except (ValueError, RuntimeError, OverflowError) as error:
            raise NumericalError(
                f"prediction: {name} of scipy.stats.{frozen.dist.name} fails ({error}); give draws of "
                "it, an array (n, l)"
            ) from error

    return search


def has_own_formula(family: object, name: str) -> bool:
    """Return whether a family of scipy.stats has a formula of this name, not a search or an integral."""
    generic = (scipy.stats.rv_continuous, scipy.stats.rv_discrete)
    formula = getattr(type(family), name, None)
    return all(formula is not getattr(base, name) for base in generic)
