"""Local corrections of predictions, a shift and a factor of spread near an input, by least squares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends.tall_skinny import inner, times
from fastmcmd.inference.corrections import CountCorrection, LocationScale
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.kernels.base import power_of_two

__all__ = [
    "MOST_LEVERAGE",
    "CorrectionFit",
    "Influences",
    "Local",
    "RowBlocks",
    "Uncertainty",
    "fit_corrections",
    "quadratic",
    "smoothing_filter",
]

Array = NDArray[np.float64]

_STEPS = 4  # linearisations: shifts of one standard deviation and factors of 2 are exact to 1 %
_BLOCK = 4096  # rows in memory at once
_FEW = 4096  # inputs whose quadratic forms cost nothing in double precision
_ENOUGH = 20_000  # rows for all linearisations but the last
_MOST_STORED = 1 << 25  # coordinates that are stored between passes; more are recomputed
_LONGEST = 0.7  # change of the log factor in one step
_SINGULAR = 1e-8  # share of the product of the diagonal: a smaller determinant is rounding
# Leverage of a row on its own correction; beyond it the residual is meaningless.
MOST_LEVERAGE = 0.8


@dataclass(frozen=True)
class Local:
    """Corrections at q inputs, with the derivatives in their equations.

    Attributes
    ----------
    shift, log_factor : ndarray (q,)
        The corrections; NaN if the equations are singular.
    by_shift, by_factor : ndarray (q, r)
        Smoothed derivatives J of the embedding.
    """

    shift: Array
    log_factor: Array
    by_shift: Array
    by_factor: Array

    def solve(self, residual: Array) -> tuple[Array, Array]:
        """Return the least-squares solutions of ``J (c, s)' = residual`` for residuals (q, r)."""
        return _solve(residual, self.by_shift, self.by_factor)


class RowBlocks:
    """The rows of a sample in blocks, with their coordinates in a basis.

    Parameters
    ----------
    smoother : Smoother
        Features of inputs.
    x : ndarray (n, d)
        Inputs.
    weights : ndarray (n,)
        Weights of the rows.
    """

    def __init__(self, smoother: Smoother, x: Array, weights: Array) -> None:
        self.x, self.weights = x, weights
        self._coordinates: Array | None = None
        if len(x) * smoother.rank <= _MOST_STORED:
            self.basis, self._coordinates = smoother.basis_and_coordinates(x, weights)
        else:
            self.basis = smoother.basis(x, weights)

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        return self.every(1)

    def every(self, stride: int) -> Iterator[tuple[slice, Array]]:
        """Yield every ``stride``-th row in blocks: the rows and their coordinates."""
        for start in range(0, len(self.x), _BLOCK * stride):
            rows = slice(start, min(start + _BLOCK * stride, len(self.x)), stride)
            yield rows, self.coordinates(rows)

    def coordinates(self, rows: slice) -> Array:
        """Return g(x) (m, p) for some rows."""
        if self._coordinates is not None:
            return self._coordinates[rows]
        return self.basis.coordinates(self.x[rows])


def smoothing_filter(basis: Basis, lam: float) -> Array:
    """Return ``(1 - (N lam / (s + N lam))^3) / s`` (p,): ridge regression, twice more on its residuals.

    One pass of ridge regression flattens peaks by about as much as its standard error, so no band around it
    has its nominal coverage. With iteration (Tukey's twicing, once more) the bias is of higher order, and
    the coefficients ``a(x) = g(x)' diag(filter) g_i`` remain explicit.
    """
    shrink = basis.shrinkage(lam)
    remainder = 1 - basis.spectrum * shrink
    return np.asarray(shrink * (1 + remainder + remainder**2))


@dataclass(frozen=True)
class CorrectionFit:
    """Corrections as functions of the input: sums over rows in the coordinates of a smoother.

    Attributes
    ----------
    coefficients : ndarray (p, 3 r)
        ``diag(filter) G'W [working residual, t, u]``.
    support : ndarray (p,)
        ``diag(filter) G'W 1``: the smoother's image of the constant 1.
    shift, log_factor : ndarray (n,)
        Corrections at the rows themselves.
    """

    coefficients: Array
    support: Array
    shift: Array
    log_factor: Array

    def at(self, g: Array, ratio: Array | None = None) -> Local:
        """Return the corrections at inputs with coordinates g (q, p).

        ``ratio`` (p,) is another filter divided by that of the fit; corrections then use the other filter.
        """
        weighted = self.coefficients if ratio is None else ratio[:, None] * self.coefficients
        working, by_shift, by_factor = np.split(times(g, weighted), 3, axis=1)
        return Local(*_solve(working, by_shift, by_factor), by_shift, by_factor)


def fit_corrections(
    blocks: RowBlocks,
    shrink: Array,
    model: LocationScale | CountCorrection,
    y: Array,
    start: tuple[Array | float, Array | float] = (0.0, 0.0),
    steps: int = _STEPS,
) -> CorrectionFit:
    """Return solutions c and s of ``sum_i a_i(x) e_i(c, s) = 0`` at every x, by least squares.

    Parameters
    ----------
    blocks : RowBlocks
        The rows.
    shrink : ndarray (p,)
        The filter: ``a_i(x) = w_i g(x)' diag(filter) g_i``.
    model : LocationScale or CountCorrection
        Predictions of the rows.
    y : ndarray (n,)
        Outcomes.
    start : (float or ndarray (n,), float or ndarray (n,))
        Initial shift and log factor of the rows.
    steps : int
        Number of linearisations.

    Notes
    -----
    Gauss-Newton on the local problem: with the rows corrected by their own (c_i, s_i), e_i and its
    derivatives -t_i and -u_i, the next correction at x solves

        min_{c, s} |sum_i a_i(x) (e_i + t_i c_i + u_i s_i) - sum_i a_i(x) t_i c - sum_i a_i(x) u_i s|^2.
    """
    shift, log_factor = np.full(len(y), start[0]), np.full(len(y), start[1])
    size, p = model.size, len(shrink)
    stride = max(len(y) // _ENOUGH, 1)
    for step in range(steps):
        last = step == steps - 1
        row_stride = 1 if last else stride
        sums, support = np.zeros((p, 3 * size)), np.zeros(p)
        for rows, g in blocks.every(row_stride):
            c, s = shift[rows], log_factor[rows]
            mean, by_shift, by_factor = model.embed(c, s, rows)
            working = model.features(y[rows], rows) - mean
            working += by_shift * c[:, None] + by_factor * s[:, None]
            weighted = g * blocks.weights[rows, None]
            sums += inner(weighted, np.concatenate([working, by_shift, by_factor], axis=1))
            support += weighted.sum(axis=0)
        fit = CorrectionFit(shrink[:, None] * sums, shrink * support, shift, log_factor)
        shift, log_factor = shift.copy(), log_factor.copy()
        # Before the last linearisation the skipped rows follow, in one step as long as all steps so far.
        longest_step, following = 1, row_stride
        if step == steps - 2 and stride > 1:
            longest_step, following = steps - 1, 1
            shift[:], log_factor[:] = start
        for rows, g in blocks.every(following):
            correction = fit.at(g)
            most = longest_step * model.step[rows]
            shift[rows] += _limited(correction.shift - shift[rows], most)
            log_factor[rows] += _limited(
                correction.log_factor - log_factor[rows], longest_step * _LONGEST
            )
    return CorrectionFit(fit.coefficients, fit.support, shift, log_factor)


@dataclass(frozen=True)
class Uncertainty:
    """Variances of corrections: quadratic forms in the coordinates of an input.

    Attributes
    ----------
    shift, log_factor, rows : ndarray (p, p)
        ``F G'W^2 diag(v) G F`` with the filter F and v the squared influence of a row on the shift, on the
        log factor, and 1.
    unit : float
        Unit of the shift, whose square in units of y may leave float64.
    """

    shift: Array
    log_factor: Array
    rows: Array
    unit: float


class Influences:
    """Sums over rows that give the variances of corrections.

    The influence of row i on the correction at x is ``a_i(x) (J'J)^-1 J' e_i`` with J at x. Here J is taken
    at x_i, so that the sum over rows is a quadratic form in the coordinates of x: rows that matter at x are
    near it. Residuals are divided by one minus their leverage (as in the jackknife, HC3), because a row
    pulls the correction towards itself.

    Parameters
    ----------
    shrink : ndarray (p,)
        The filter of the fit.
    fit : CorrectionFit
        The corrections.
    unit : float
        Unit of the shift, whose square in units of y may leave float64.
    """

    def __init__(self, shrink: Array, fit: CorrectionFit, unit: float = 1.0) -> None:
        self.shrink, self.fit, self.unit = shrink, fit, unit
        self._sums = [np.zeros((len(shrink), len(shrink))) for _ in range(3)]

    def add(self, g: Array, w: Array, residual: Array) -> None:
        """Add rows with coordinates g (m, p), weights w (m,) and residuals after correction (m, r)."""
        local = self.fit.at(g)
        total = g @ self.fit.support
        weighted = g * self.shrink
        self_weight = w * np.einsum("np,np->n", weighted, g)
        with np.errstate(divide="ignore", invalid="ignore"):
            # J grows with the sum of the a_i: this is the influence of a unit of a_i.
            leverage = np.clip(self_weight / total, 0.0, MOST_LEVERAGE)
            factor = w * total / (1 - leverage)
            by_shift, by_factor = local.solve(residual)
            for out, one in zip(self._sums, (by_shift / self.unit, by_factor), strict=False):
                influence = np.nan_to_num(one * factor, posinf=0.0, neginf=0.0)
                np.multiply(g, influence[:, None], out=weighted)
                out += inner(weighted, weighted)
        np.multiply(g, w[:, None], out=weighted)
        self._sums[2] += inner(weighted, weighted)

    def uncertainty(self) -> Uncertainty:
        """Return the quadratic forms."""
        shrink = self.shrink
        shift, log_factor, rows = (shrink[:, None] * one * shrink for one in self._sums)
        return Uncertainty(shift, log_factor, rows, self.unit)


def quadratic(g: Array, matrix: Array) -> Array:
    """Return ``g(x)' M g(x)`` (q,) for a sum of squares M, not below zero.

    For more than 4,096 inputs it is computed in single precision, to about 1e-6, which is enough for widths
    of bands and noise to be subtracted.
    """
    if len(g) <= _FEW:
        return np.maximum(np.einsum("qp,qp->q", times(g, matrix), g), 0.0)
    root = np.sqrt(np.maximum(np.diag(matrix), 0.0))  # scaled by these, entries are at most 1
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    scaled = (inverse[:, None] * matrix * inverse).astype(np.float32)
    out = np.empty(len(g))
    for start in range(0, len(g), _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = g[rows] * root
        unit = float(np.abs(block).max(initial=0.0)) or 1.0
        single = (block / unit).astype(np.float32)
        out[rows] = np.einsum("qp,qp->q", single @ scaled, single) * (unit * unit)
    return np.maximum(out, 0.0)


def _limited(step: Array, most: Array | float) -> Array:
    return np.where(np.isfinite(step), np.clip(step, -most, most), 0.0)


def _solve(residual: Array, by_shift: Array, by_factor: Array) -> tuple[Array, Array]:
    """Return the least-squares solutions in two unknowns, row by row; NaN if singular."""
    unit = power_of_two(float(np.abs(by_shift).max(initial=0.0)))  # squares may leave float64
    by_shift = by_shift * unit
    aa = np.einsum("qr,qr->q", by_shift, by_shift)
    bb = np.einsum("qr,qr->q", by_factor, by_factor)
    ab = np.einsum("qr,qr->q", by_shift, by_factor)
    ra = np.einsum("qr,qr->q", by_shift, residual)
    rb = np.einsum("qr,qr->q", by_factor, residual)
    det = aa * bb - ab * ab
    good = det > _SINGULAR * aa * bb
    det = np.where(good, det, np.nan)
    return unit * ((bb * ra - ab * rb) / det), (aa * rb - ab * ra) / det
