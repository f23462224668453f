"""The low-rank solver: normal equations at landmarks, summed over rows in one pass, certified.

With features f(x) at p landmarks, ``F = f(X)`` and ``K = F F' + E``, the systems ``(F F' + D) B = P`` need
only sums over rows, however many there are: ``F' D^-1 F`` (p, p), ``F' D^-1 P`` (p, r) and ``P' D^-1 P``
(r, r). The answer at x is ``f(x)' W`` with ``W = (I + F' D^-1 F)^-1 F' D^-1 P``; the coefficients are
``B = D^-1 (P - F W)``.

The error follows from ``R = P - (K + D) B = -E B`` and from ``e(x) = k(x) - F f(x)``, the part of the
kernel at x that the features do not explain::

    |k(x)'B* - f(x)'W| <= sqrt(k(x,x))/2 ||D^-1/2 E B||_2 + |e(x)'B|

E is positive semi-definite with a known diagonal: ``||D^-1/2 E B|| <= t b`` and
``|e(x)'B| <= sqrt(e(x,x) t) b`` with ``t = tr(D^-1/2 E D^-1/2)``, ``b = ||D^1/2 B||_2``. This bound is
rigorous and needs no pass over K, but it requires a trace near ``tol``. If the trace falls slowly, the
residual R itself is measured: for all rows if that is cheap (`certified_by_all`, rigorous), else for some
(`ResidualSample`, sampled).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.sums import size_of
from fastmcmd.backends.base import Backend, Products
from fastmcmd.backends.tall_skinny import cholesky_factor, eigh, inner, substituted, times
from fastmcmd.errors import NumericalError
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels.base import UNIT, relative_error
from fastmcmd.solvers.base import CertificateKind
from fastmcmd.solvers.rounding import Rounding

__all__ = ["LowRankSolution", "RowErrors", "RowSums", "SumsState", "solve_sums"]


@dataclass(frozen=True, eq=False)
class SumsState:
    """The sums of `RowSums` after ``rows`` rows in ``blocks`` blocks."""

    gram: Array
    cross: Array
    square: Array
    residual_trace: float
    diagonal: float
    weight: float
    max_residual_diagonal: float
    rows: int
    blocks: int


class RowSums:
    """Sums over the rows of a sample: of features f, right-hand sides P and weights.

    Attributes
    ----------
    square : ndarray (c, c)
        ``sum w P P'`` within each system, 0 elsewhere.
    residual_trace, diagonal, weight : float
        ``sum w e(x, x)``, ``sum w k(x, x)``, ``sum w``.
    max_residual_diagonal : float
        Largest ``e(x, x)``.
    """

    def __init__(self, backend: Backend, rank: int, systems: list[slice]) -> None:
        columns, self._systems = systems[-1].stop, systems
        self._products: Products | None = backend.products(rank, columns)
        self._settled: tuple[Array, Array] | None = None
        self.square = np.zeros((columns, columns))
        self.residual_trace = self.diagonal = self.weight = self.max_residual_diagonal = 0.0
        self._rows, self._blocks = 0, 0

    def add(
        self,
        f: object,
        rhs: Array,
        residual_diagonal: Array,
        diagonal: Array,
        weight: Array | None,
    ) -> None:
        """Add a block of rows: features f (p, b), right-hand sides (b, c), residual diagonal (b,)."""
        if weight is None:
            self.weight += len(residual_diagonal)
            self.residual_trace += float(residual_diagonal.sum())
            self.diagonal += float(diagonal.sum())
            weighted = rhs
        else:
            self.weight += float(weight.sum())
            # Not `@`: BLAS would wake its threads for each block, and wait if others use the machine.
            self.residual_trace += float((weight * residual_diagonal).sum())
            self.diagonal += float((weight * diagonal).sum())
            weighted = rhs * weight[:, None]
        for columns in self._systems:
            self.square[columns, columns] += inner(weighted[:, columns], rhs[:, columns])
        assert self._products is not None, "rows after the last"
        self._products.add(f, rhs, weight)
        self.max_residual_diagonal = max(self.max_residual_diagonal, float(residual_diagonal.max()))
        self._rows, self._blocks = max(self._rows, len(residual_diagonal)), self._blocks + 1

    def settle(self) -> RowSums:
        """Compute the final sums, so that a device can free its memory; return self."""
        self._settled, self._products = self._sums(), None
        return self

    def _sums(self) -> tuple[Array, Array]:
        if self._products is not None:
            return self._products.sums()
        assert self._settled is not None
        return self._settled

    @property
    def gram(self) -> Array:
        """``sum w f f'`` (p, p)."""
        return self._sums()[0]

    @property
    def cross(self) -> Array:
        """``sum w f P'`` (p, c)."""
        return self._sums()[1]

    @property
    def rounding(self) -> float:
        """Relative error of a sum in float64, for any order of summation within a block."""
        return relative_error(self._rows + self._blocks + 4, UNIT)

    def state(self) -> SumsState:
        """Return the sums so far."""
        gram, cross = self._sums()
        return SumsState(
            gram, cross, self.square, self.residual_trace, self.diagonal, self.weight,
            self.max_residual_diagonal, self._rows, self._blocks,
        )  # fmt: skip

    def restore(self, state: SumsState) -> None:
        """Resume from saved sums."""
        assert self._products is not None
        self._products.start(state.gram, state.cross)
        self.square, self.residual_trace = state.square, state.residual_trace
        self.diagonal, self.weight = state.diagonal, state.weight
        self.max_residual_diagonal = state.max_residual_diagonal
        self._rows, self._blocks = state.rows, state.blocks


@dataclass(frozen=True, eq=False)
class RowErrors:
    """The error at row i of the sample: at most ``slope sqrt(k(x, x)) + residuals_i + constant``."""

    slope: float
    constant: float
    residuals: Array


@dataclass(frozen=True, eq=False)
class LowRankSolution:
    """Weights of the features, with the parts of a bound on the error of ``f(x)' W``.

    Attributes
    ----------
    weights : ndarray (p, r)
        W.
    slope, constant : float
        The part of the error proportional to ``sqrt(k(x, x))``, and the constant part.
    miss, floor : float
        The part ``miss sqrt(e(x, x) + floor)``.
    through, row : float
        Rounding proportional to the norm |c| of the interpolation coefficients at x: it adds
        ``through |c|`` to the error and ``2 row |c|`` to e(x, x).
    kind : str
        "rigorous" or "sampled".
    pivots : float
        Rounding proportional to |c|^2: it adds ``pivots |c|^2`` to e(x, x).
    energy : float
        Bound on ``||D^(1/2) B||_2``.
    left : float
        Bound on the residual of the normal equations, ``||W - F'B||``.
    hidden : float
        Bound on ``||D^(-1/2) (E B + R)||_2``: the part of the residual that rounding hides.
    rows : RowErrors or None
        The error at the rows of the sample, if the residuals of all rows were computed.
    """

    weights: Array
    slope: float
    constant: float
    miss: float
    floor: float
    through: float
    row: float
    kind: CertificateKind
    pivots: float = 0.0
    energy: float = 0.0
    left: float = 0.0
    hidden: float = 0.0
    rows: RowErrors | None = None

    @property
    def needs_sizes(self) -> bool:
        """Whether the error depends on the norms of interpolation coefficients."""
        return self.through > 0.0 or self.row > 0.0 or self.pivots > 0.0

    def error(self, scale: Array, residual_diagonal: Array, size: Array) -> Array:
        """Bound the error where ``sqrt(k(x, x)) = scale``, e(x, x) = residual_diagonal, |c| = size."""
        rounding = (2 * self.row + self.pivots * size) * size
        off = self.miss * np.sqrt(residual_diagonal + self.floor + rounding)
        return scale * self.slope + off + self.through * size + self.constant


def solve_sums(
    sums: RowSums,
    columns: slice,
    lam: float,
    features: KernelFeatures,
    rounding: Rounding | None,
) -> LowRankSolution:
    """Return the solution of the normal equations for one system, with the trace certificate.

    Parameters
    ----------
    sums : RowSums
        Over all rows.
    columns : slice
        Right-hand sides of this system.
    lam : float
        Its regulariser: ``D = N lam / w``.
    features : KernelFeatures
        The features that were summed.
    rounding : Rounding or None
        Rounding of these features; None if they are not in float64, and the certificate is then only a
        prediction.

    Raises
    ------
    NumericalError
        The sums are not finite.
    """
    scale = 1.0 / (sums.weight * lam)
    gram, cross = sums.gram * scale, sums.cross[:, columns] * scale
    square = sums.square[columns, columns] * scale
    system = gram + np.eye(len(gram))
    if not np.isfinite(system).all():
        raise NumericalError(
            "sums over the rows overflow: values of x_kernel are too large for their precision; scale "
            "the columns of x to unit variance, or use dtype='float64'"
        )
    # SciPy and NumPy bring a BLAS each: the threads of one still spin, and take the other's processors, for
    # 20 to 40 ms after a call. The small dense steps therefore use neither.
    try:
        factor = cholesky_factor(system)
    except np.linalg.LinAlgError:  # rounding exceeds 1
        factor = cholesky_factor(_raised(system))
    weights = substituted(factor, substituted(factor, cross), transposed=True)
    # Refined once; the remaining residual is part of the bound.
    missing = times(system, weights, base=cross, sign=-1.0)
    weights += substituted(factor, substituted(factor, missing), transposed=True)
    equation_residual = size_of(times(system, weights, base=cross, sign=-1.0))
    size = inner(cross, weights)
    energy = square - size - size.T + inner(weights, times(gram, weights))
    energy = (energy + energy.T) / 2
    trace = float(np.trace(gram))
    slack = sums.rounding + 4 * len(gram) * UNIT
    norm = size_of(weights)
    right = float(np.trace(square))
    b2 = float(eigh(energy, vectors=False)[0][-1]) + 4 * slack * (right + trace * norm**2)
    b = float(np.sqrt(max(b2, 0.0)))
    equation_residual += slack * (trace * norm + np.sqrt(trace * right))
    if rounding is None:
        t = sums.residual_trace * scale
        return LowRankSolution(
            weights=weights,
            slope=t * b / 2,
            constant=0.0,
            miss=float(np.sqrt(t)) * b,
            floor=0.0,
            through=0.0,
            row=0.0,
            kind="sampled",
        )
    # See `Rounding`. Norms of g and c over the rows, times D^(-1/2), and e plus the part that rounding
    # hides.
    g, c = rounding.row / np.sqrt(lam), rounding.size / np.sqrt(lam)
    pivots = rounding.pivots + rounding.upper**2
    mean = sums.diagonal * scale
    t = sums.residual_trace * scale * (1 + sums.rounding) + rounding.diagonal * mean
    t += 2 * c * g + pivots * c**2
    # |C'B| is at most c b. But L' C'B = W + (residual of the equations) + H'B, so C'B equals L'^-1 W, the
    # coefficients of the image, up to ||L^-1|| times the rounding error.
    spread = np.linalg.norm(features.coefficients(weights), axis=1)
    image = image_size = size_of(spread)
    off = features.inverse_norm * (equation_residual + rounding.upper * (c * b + image))
    image = min(c * b, image + off)

    def feature_rounding(c_x: float, g_x: float) -> float:
        """Bound the rounding of ``f(x)'F'B`` that features add if ``|c| = c_x``, ``|g| = g_x``."""
        return float(
            c_x * g * b + g_x * image + c_x * (rounding.upper**2 * c * b + rounding.pivots * image)
        )

    hidden = float(np.sqrt(trace) * equation_residual + feature_rounding(c, g))
    slope = (hidden + t * b) / 2 + equation_residual
    at = float(features.kernel.diagonal(features.pivots).max())
    return LowRankSolution(
        weights=weights,
        slope=float(slope),
        # Through f(x), and through the product with k(x, Z) by which the image is computed; its
        # coefficients L'^-1 W are backward stable, too.
        constant=2 * rounding.row * image_size
        + rounding.product * float(spread.sum())
        + feature_rounding(0.0, rounding.row),
        miss=float(np.sqrt(t)) * b,
        floor=float(rounding.diagonal * at),
        through=feature_rounding(1.0, 0.0),
        row=rounding.row,
        kind="rigorous",
        pivots=float(pivots),
        energy=b,
        left=float(equation_residual),
        hidden=hidden,
    )


def _raised(system: Array) -> Array:
    """Return normal equations whose smallest eigenvalues are raised, so that they have a Cholesky factor.

    They are at least 1 without rounding. What raising them changes is part of the residual, and of the
    error bound.
    """
    values, vectors = eigh(system)
    least = max(1.0, 8 * len(system) * UNIT * float(values[-1]))
    return times(vectors * np.maximum(values, least), np.ascontiguousarray(vectors.T))
