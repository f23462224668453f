"""Certificates: bounds on the residual of a solution, measured with float64 tiles.

`exact` computes the residual of every row in float64 and bounds the remaining rounding (rigorous).
`refined` certifies a correction that solves for such a residual: the correction is small, and so is the
worst-case effect of float32 on it; no further float64 pass is needed (rigorous).

`sampled` starts from the residual of every row as the iterations left it. Float32 tiles and float32 copies
of the coefficients separate it from the true residual. `sampled` measures that difference in float64 for
some rows. It draws them by the quantities that the rounding of a row grows with: ``k(x, x)`` relative to
the diagonal D, the row's own coefficient (``k_ii B_i`` is rounded, too), and the norm of x, from which
distances are computed. Entries near 0 are hardly rounded: the part of ``K B`` that comes from other rows
tells a cluster from rows far from all others, and so do its terms if they cancel. With quantized tiles
their steps tell how much 16 bits are expected to add to each row. The rows with the largest of each
quantity are always in the sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fastmcmd._base.annotations import Array, DType, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import beside, residual, row_squares, scaled
from fastmcmd.gram import EXACT, GramOperator, squared_norms
from fastmcmd.kernels.base import UNIT
from fastmcmd.rows import Rows
from fastmcmd.solvers.base import Certificate, Solution, System, by_diagonal, scaled_norm
from fastmcmd.solvers.off_diagonal import measured_squares
from fastmcmd.solvers.row_sample import RowSample

__all__ = [
    "SAMPLE",
    "SPREAD",
    "exact",
    "refined",
    "replaced",
    "rounding",
    "sampled",
    "sampled_cost",
]

_TILE = 256  # terms summed one after the other inside a tile

SAMPLE = 256  # rows drawn
_CERTAIN = 16  # rows always in the sample: the largest by each guess of the rounding
_LARGEST = 7 * _CERTAIN
SPREAD = 2.0  # assumed bound on the deviation of any row, relative to the largest in a sample


def rounding(
    operator: GramOperator,
    value: Array,
    grid: HostArray | Rows | None = None,
    dtype: DType = EXACT,
) -> float:
    """Bound the rounding of a row of K(grid, x) B: ``max |dK_ij| * sum_j ||B_j||``.

    Sums are in ``dtype`` within a tile and in float64 over tiles; B is rounded to ``dtype``, too.
    """
    sizes = np.sqrt(row_squares(value)).sum()
    return _entry_rounding(operator, grid, dtype) * float(sizes)


def _entry_rounding(
    operator: GramOperator, grid: HostArray | Rows | None = None, dtype: DType = EXACT
) -> float:
    """Bound the rounding of an entry of K(grid, x) and of its share in sums, ``max |dK_ij|``."""
    unit = UNIT if dtype == EXACT else float(np.finfo(dtype).eps) / 2
    summation = (_TILE + 4) * unit + len(operator) / _TILE * UNIT
    return operator.rounding(dtype, grid) + operator.largest(grid) * summation


def exact(
    operator: GramOperator, systems: list[System], values: list[Array]
) -> tuple[list[Solution], list[Array]]:
    """Return solutions with rigorous certificates, and their residuals, by one pass for all systems."""
    images = _split(operator.matmul(beside(values), exact=True), values)
    solutions, residuals = [], []
    entry = _entry_rounding(operator)
    for system, value, image in zip(systems, values, images, strict=True):
        missing, sums = residual(system.rhs, system.shift, value, image)
        row = entry * sums.values
        # The error of a row of K B is at most `row`; the subtraction of D B from P rounds its two
        # operands, to which its rounding is relative.
        noise = row * math.sqrt(sums.shifts) + 2 * UNIT * math.sqrt(sums.operands)
        # The Frobenius norm is no smaller than the norm, and needs no eigenvalues of R' R.
        frobenius = math.sqrt(sums.residuals)
        norm = frobenius if frobenius <= noise else scaled_norm(missing, system.shift)
        solutions.append(Solution(value, image, Certificate(norm + noise, row, "rigorous", noise)))
        residuals.append(missing)
    return solutions, residuals


def refined(
    operator: GramOperator,
    systems: list[System],
    base: list[Solution],
    corrections: list[Array],
    recurred: list[Array],
    residuals: list[Array],
) -> list[Solution]:
    """Return corrected solutions with rigorous certificates, without a further pass.

    Parameters
    ----------
    operator : GramOperator
        K, in the precision in which the corrections were solved.
    systems : list of System
        The systems.
    base : list of Solution
        Solutions before the correction, with their exact ``residuals``.
    corrections, recurred : list of ndarray (n, r)
        Approximate solutions of the systems with these residuals as right-hand sides, and the residuals
        of these solutions by the solver's recurrence.
    """
    solutions = []
    entry = _entry_rounding(operator, dtype=operator.dtype) + operator.quantization_bound
    for system, start, missing, correction, recurred_residual in zip(
        systems, base, residuals, corrections, recurred, strict=True
    ):
        noise = start.certificate.rounding  # of the exact residual itself
        row = entry * float(np.sqrt(row_squares(correction)).sum())
        bound = (
            scaled_norm(recurred_residual, system.shift)
            + noise
            + row * np.sqrt((1 / system.shift).sum())
        )
        image = scaled(-system.shift, correction, base=missing)
        image += start.image
        image -= recurred_residual
        solutions.append(
            Solution(
                start.value + correction,
                image,
                Certificate(bound, start.certificate.value + row, "rigorous", noise),
            )
        )
    return solutions


def sampled_cost(operator: GramOperator, columns: int) -> float:
    """Return the cost of `sampled` in float32 operations of a product."""
    share = (SAMPLE + _LARGEST) / operator.size
    return 2 * share * operator.streamed_cost(columns, exact=True)


def replaced(
    operator: GramOperator, systems: list[System], values: list[Array], recurred: list[Array]
) -> list[Array]:
    """Return the residuals that one product with tiles of the operator's own precision gives.

    ``recurred`` are the residuals by the solver's recurrence, from which rounding separates them.
    """
    images = _split(operator.matmul(beside(values)), values)
    residuals = [
        residual(system.rhs, system.shift, value, image)[0]
        for system, value, image in zip(systems, values, images, strict=True)
    ]
    share = operator.rounding_share
    if share == 1.0:
        return residuals
    return [old + share * (new - old) for old, new in zip(recurred, residuals, strict=True)]


def sampled(
    operator: GramOperator,
    systems: list[System],
    values: list[Array],
    recurred: list[Array],
    term_squares: list[Array | None],
) -> list[Solution]:
    """Return solutions with certificates estimated from some rows in float64.

    Parameters
    ----------
    operator : GramOperator
        K, in the precision in which the systems were solved.
    systems : list of System
        The systems.
    values, recurred : list of ndarray (n, r)
        Solutions B, and their residuals by the solver's recurrence, from which ``K B`` follows.
    term_squares : list of ndarray (n,) or None
        Squares of the terms of ``K B`` from other rows (`off_diagonal`), if a product has measured them.
    """
    # A fixed seed: the same call gives the same bound.
    rng = generator(len(operator), Purpose.CERTIFICATE)
    residuals = [
        residual(system.rhs, system.shift, value, recurred_residual)
        for system, value, recurred_residual in zip(systems, values, recurred, strict=True)
    ]
    diagonal = np.maximum(operator.diagonal, 0.0)
    of_iteration = [squares for squares in term_squares if squares is not None]
    has_all = len(of_iteration) == len(values)
    all_squares = of_iteration if has_all else measured_squares(operator, values)
    from_others = [
        (row_squares(scaled(-diagonal, value, base=image)), squares)
        for value, (image, _), squares in zip(values, residuals, all_squares, strict=True)
    ]
    sizes = _rounding_guesses(operator, systems, values, diagonal, from_others)
    sample = RowSample(len(operator), sizes, _CERTAIN, SAMPLE, rng)
    rows = sample.rows
    images = _split(operator.cross_matmul(operator.x[rows], beside(values), EXACT), values)
    scale, entry = np.sqrt(diagonal), _entry_rounding(operator)
    solutions = []
    for system, value, image, recurred_residual, (image_all, sums) in zip(
        systems, values, images, recurred, residuals, strict=True
    ):
        change = system.rhs[rows] - system.shift[rows, None] * value[rows] - image
        change -= recurred_residual[rows]
        change *= operator.rounding_share
        off = np.einsum("ij,ij->i", change, change)
        total = float(np.sqrt(max(0.0, sample.upper(off / system.shift[rows]))))
        fine = entry * sums.values
        total += scaled_norm(recurred_residual, system.shift) + fine * math.sqrt(sums.shifts)
        # Rounding of a row grows with its kernel values, hence with sqrt(k(x, x)).
        relative = float((np.sqrt(off) / np.maximum(scale[rows], 1e-300)).max())
        row = SPREAD * relative * float(scale.max()) + fine
        solutions.append(Solution(value, image_all, Certificate(total, row, "sampled")))
    return solutions


def _rounding_guesses(
    operator: GramOperator,
    systems: list[System],
    values: list[Array],
    diagonal: Array,
    from_others: list[tuple[Array, Array]],
) -> Iterator[Array]:
    """Yield guesses (n,) of the squared rounding that float32 adds to the rows of a scaled residual.

    ``from_others`` are the squares of what rows of ``K B`` have from other rows, of each system: of the
    sums, and of their terms without cancellation.
    """
    squares = squared_norms(operator.x, operator.offset)
    for group in by_diagonal(systems):
        shift = systems[group[0]].shift
        yield diagonal / shift
        # The error of an entry whose distance is computed from norms grows with these norms.
        of_distances = (squares / max(float(squares.max()), 1e-300)) ** 2 / shift
        yield diagonal * of_distances
        for number in group:
            norm = np.sqrt(row_squares(values[number]))
            norm /= max(float(norm.max()), 1e-300)
            yield (diagonal * norm) ** 2 / shift
            for guess in from_others[number]:
                relative = guess / max(float(guess.max()), 1e-300)
                yield relative / shift
                yield relative * of_distances
            quantization = operator.quantization_errors(norm**2)
            if quantization is not None:
                yield quantization / shift


def _split(block: Array, parts: list[Array]) -> list[Array]:
    if len(parts) == 1:
        return [block]
    return np.split(block, np.cumsum([part.shape[1] for part in parts])[:-1], axis=1)
