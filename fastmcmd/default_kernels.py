"""Default kernels, chosen from the scales of x and y but never from a model, so that units do not matter.

The input kernel is the mean of three RBFs with lengths l, l/2 and l/4 on standardised columns, where l is
the median distance. The output kernel is the mean of two RBFs. One is as wide as all outcomes and detects
where a model is wrong on average; the other is as wide as the outcomes at one input and detects a wrong
spread. docs/decisions/default_kernels.md has the study.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import HostArray, InputsLike
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import as_rows, as_weights, check_lam, check_same_length, quote
from fastmcmd._base.memory import format_bytes
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.cpu import core
from fastmcmd.backends.tall_skinny import cholesky_factor, inner, substituted, times
from fastmcmd.errors import MemoryLimitError, NumericalError
from fastmcmd.kernels import RBF, Constant, Delta, Kernel, Polynomial, Scaled
from fastmcmd.kernels.base import KernelLike, power_of_two
from fastmcmd.rows import Rows, open_rows

__all__ = [
    "DEFAULT_LAM",
    "PAPER_LAM",
    "DefaultKernels",
    "check_lam_or_name",
    "chosen_input_kernel",
    "chosen_kernels",
    "chosen_lam",
    "column_scales",
    "default_input_kernel",
    "default_kernels_of",
    "given_kernel",
    "kernel_or_name",
    "median_distance",
    "paper_kernels",
]

DEFAULT_LAM = 0.01
PAPER_LAM = 0.1
_NAMES = ("auto", "paper")
_ROWS = 10_000  # most rows whose spreads are measured
_ENTRIES = 1 << 21  # most entries of their inputs: a few hundredths of a second
_COLUMNS = 64  # columns per block when spreads are measured
_AT_A_TIME = 64  # rows whose distances a thread computes: some hundred microseconds
_WIDE = 64  # columns beyond which distances come from inner products
_NEAR = 1e-4  # squared distance, relative to the norms, below which rows are subtracted instead
_HASHED = 1 << 20  # bytes that a thread hashes at a time: about a millisecond
_PAIRS = 1_000  # rows whose pairwise distances are measured
_RIDGE = 500  # rows of the ridge regression: an eigendecomposition of a few hundredths of a second
_LAMS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # regularisers of that regression
_FEWEST = 15  # rows below which residuals are meaningless
_NARROWEST = 300.0  # largest ratio of marginal to residual spread, to limit output features
_NEIGHBOURS = 3
_BLOCK = 128  # rows per block of the neighbour search
_IQR = 1.349  # interquartile range of a standard normal
_Q50, _Q75 = 0.6745, 1.1503  # quantiles of |z|, z standard normal
_WINSOR = 4.0  # distance from the median, in marginal spreads, to which outcomes are clipped
_REMEMBERED = 16  # cached choices: several models and functions share those of the same data
_LEAST_LENGTH = 1e-140  # least length, and 1 over the largest: squares stay in float64
_DIGITS = 36  # binary digits kept of products: further digits depend on the number of threads

Array = NDArray[np.float64]

_recent: dict[bytes, DefaultKernels] = {}  # by a hash of the examined rows, oldest first


@dataclass(frozen=True)
class DefaultKernels:
    """Kernels and regulariser chosen from inputs and outcomes, never from a model.

    Attributes
    ----------
    x_kernel : Kernel
        Kernel on the original (not standardised) inputs.
    y_kernel : Kernel
        Kernel on the original outcomes.
    lam : float
        Regulariser.
    scales : tuple of float (d,)
        One over the standard deviation of each column of x; 0 for constant columns.
    length : float
        Median distance l of standardised inputs.
    marginal_spread : float
        Robust standard deviation of the outcomes; NaN for classes.
    residual_spread : float
        Robust standard deviation of the outcomes around a smooth function of x; NaN for classes.
    """

    x_kernel: Kernel
    y_kernel: Kernel
    lam: float
    scales: tuple[float, ...]
    length: float
    marginal_spread: float
    residual_spread: float


def default_kernels_of(
    x: InputsLike | Rows, y: ArrayLike, *, classes: bool = False, weights: ArrayLike | None = None
) -> DefaultKernels:
    """Return the default kernels for inputs (n, d), in memory or on disk, and outcomes (n,) or (n, k).

    The same data always give the same kernels: rows of large data are drawn with a fixed, separate random
    stream.

    Parameters
    ----------
    x, y : array_like
        Finite inputs and outcomes. Of more than 10,000 rows, 10,000 random ones are examined, and fewer
        with more than 209 columns.
    classes : bool
        Whether outcomes are labels without an order, such as bool. The output kernel is then `Delta`.
    weights : array_like (n,), optional
        Rows of weight 0 are left out; all others count equally.

    Raises
    ------
    ValueError
        If lengths differ, values are NaN, or all outcomes are equal.
    """
    classes = classes or getattr(y, "dtype", None) == np.bool_
    rows = open_rows(x, "x")
    y = as_rows(y, "y")
    check_same_length(x=rows, y=y)
    return _defaults_of(rows, y, classes, as_weights(weights, "weights", len(y)))


def _defaults_of(
    rows: HostArray | Rows, y: HostArray, classes: bool, weights: Array | None
) -> DefaultKernels:
    """Return the default kernels of checked inputs (n, d) and outcomes (n, k), from memory if recent."""
    some = _examined(rows, weights)
    inputs, outcomes = _rows_of(rows, some), np.asarray(y[some], dtype=np.float64)
    digest = _digest(inputs, outcomes, classes)
    kernels = _recent.get(digest)
    if kernels is None:
        kernels = _defaults(inputs, outcomes, classes)
        for oldest in list(_recent)[: 1 + len(_recent) - _REMEMBERED]:
            _recent.pop(oldest, None)
        _recent[digest] = kernels
    return kernels


def _digest(x: HostArray, y: Array, classes: bool) -> bytes:
    """Return a hash that identifies these rows."""
    digest = hashlib.blake2b(f"{x.shape} {x.dtype.str} {y.shape} {classes}".encode())
    for values in (x, y):
        for part in _digests(np.ascontiguousarray(values).reshape(-1).view(np.uint8)):
            digest.update(part)
    return digest.digest()


def _digests(numbers: NDArray[np.uint8]) -> list[bytes]:
    """Return hashes of parts, computed on threads."""
    return over_rows(
        lambda part: hashlib.blake2b(numbers[part].data).digest(), len(numbers), _HASHED
    )


def _defaults(x: HostArray, outcomes: Array, classes: bool) -> DefaultKernels:
    """Return the default kernels of examined rows."""
    scales, length, distances, near = _input_scales(x)
    marginal = residual = np.nan
    y_kernel: Kernel = Delta()
    if not classes:
        marginal = _marginal_spread(outcomes)
        residual = _residual_spread(distances, length, outcomes[near])
        residual = min(_rounded(max(residual, marginal / _NARROWEST)), marginal)
        y_kernel = _rbf(marginal, "y")
        if residual < marginal:
            y_kernel = 0.5 * y_kernel + 0.5 * _rbf(residual, "y")
    return DefaultKernels(
        _input_kernel(scales, length), y_kernel, DEFAULT_LAM, tuple(scales.tolist()), length, marginal,
        residual,
    )  # fmt: skip


def default_input_kernel(
    x: HostArray | Rows, name: str = "x", weights: ArrayLike | None = None
) -> Kernel:
    """Return the default kernel of checked inputs (n, d), which does not depend on outcomes.

    It equals that of `default_kernels_of` for the same inputs and weights. Messages call the inputs
    ``name``.
    """
    weights = as_weights(weights, "weights", len(x))
    scales, length, *_ = _input_scales(_rows_of(x, _examined(x, weights)), name)
    return _input_kernel(scales, length, name)


def paper_kernels() -> tuple[Kernel, Kernel, float]:
    """Return the published kernels and regulariser of Young et al."""
    return Polynomial(degree=3, gamma=None, coef0=1.0), RBF("variance"), PAPER_LAM


def chosen_kernels(
    x: HostArray | Rows,
    y: HostArray,
    x_kernel: KernelLike = None,
    y_kernel: KernelLike = None,
    lam: float | str | None = None,
    *,
    classes: bool = False,
    weights: Array | None = None,
    none: str = "auto",
    memory_limit: int | None = None,
) -> tuple[Kernel, Kernel, float]:
    """Return the kernels and the regulariser for the values of the public arguments.

    Parameters
    ----------
    x, y
        Checked inputs (n, d) and outcomes (n, k).
    x_kernel, y_kernel : Kernel, "auto", "paper" or None
        A kernel is returned unchanged, without resolving its parameters.
    lam : float, "auto", "paper" or None
        See `chosen_lam`.
    classes, weights
        As in `default_kernels_of`.
    none : {"auto", "paper"}
        Meaning of None.
    memory_limit : int, optional
        Bytes that the choice may use.

    Raises
    ------
    ValueError, TypeError
        An argument that is neither a kernel nor one of these names.
    MemoryLimitError
        If choosing default kernels needs more than ``memory_limit``.
    """
    of_inputs = given_kernel(x_kernel, "x_kernel", none)
    of_outputs = given_kernel(y_kernel, "y_kernel", none)
    lam = chosen_lam(lam, x_kernel, none)
    if memory_limit is not None and None in (of_inputs, of_outputs):
        _check_memory(x, memory_limit)
    if of_outputs is None:
        default = _defaults_of(x, y, classes or y.dtype == np.bool_, weights)
        of_outputs = default.y_kernel
        of_inputs = default.x_kernel if of_inputs is None else of_inputs
    elif of_inputs is None:
        of_inputs = default_input_kernel(x, weights=weights)
    return of_inputs, of_outputs, lam


def chosen_input_kernel(
    x: HostArray | Rows,
    x_kernel: KernelLike = None,
    weights: ArrayLike | None = None,
    name: str = "x",
) -> Kernel:
    """Return the kernel for the value of ``x_kernel`` and checked inputs (n, d), without outcomes.

    Messages call the inputs ``name``.
    """
    x_kernel = kernel_or_name(x_kernel, "x_kernel")
    if isinstance(x_kernel, Kernel):
        return x_kernel
    if x_kernel == "auto":
        return default_input_kernel(x, name, weights)
    return paper_kernels()[0]


def chosen_lam(lam: float | str | None, x_kernel: KernelLike = None, none: str = "auto") -> float:
    """Return the regulariser for the value of ``lam``.

    None depends on ``x_kernel``: it is 0.1 with "paper" and 0.01 with "auto". With a Kernel object,
    ``none`` decides.
    """
    if lam is None:
        x_kernel = kernel_or_name(x_kernel, "x_kernel", none)
        lam = x_kernel if isinstance(x_kernel, str) else none
    check_lam_or_name(lam)
    return {"auto": DEFAULT_LAM, "paper": PAPER_LAM}[lam] if isinstance(lam, str) else float(lam)


def check_lam_or_name(lam: object) -> None:
    """Raise an error unless ``lam`` is a positive number, "auto", "paper" or None."""
    if isinstance(lam, str):
        if lam not in _NAMES:
            raise ValueError(
                f'lam is {lam!r}; a positive number, "auto", "paper" or None is needed'
            )
    elif lam is not None:
        check_lam(lam)


def kernel_or_name(kernel: object, name: str, none: str = "auto") -> Kernel | str:
    """Return the checked argument: a kernel, "auto" or "paper"; ``none`` replaces None."""
    if kernel is None:
        return none
    if isinstance(kernel, Kernel) or (isinstance(kernel, str) and kernel in _NAMES):
        return kernel
    requirement = 'a fastmcmd kernel such as fastmcmd.RBF(0.5), "auto", "paper" or None is needed'
    raise (ValueError if isinstance(kernel, str) else TypeError)(
        f"{name} is {quote(kernel)}; {requirement}"
    )


def given_kernel(kernel: object, name: str, none: str = "auto") -> Kernel | None:
    """Return the kernel passed as ``x_kernel`` or ``y_kernel``; None if the data determine it."""
    choice = kernel_or_name(kernel, name, none)
    if isinstance(choice, Kernel):
        return choice
    if choice != "paper":
        return None
    published = dict(zip(("x_kernel", "y_kernel"), paper_kernels()[:2], strict=True))
    return published[name]


def _check_memory(x: HostArray | Rows, limit: int) -> None:
    """Raise an error if choosing default kernels for inputs (n, d) takes more than ``limit`` bytes."""
    need = _bytes_of_choice(*x.shape)
    if need > limit:
        raise MemoryLimitError(
            f"memory_limit is {format_bytes(limit)}; at least {format_bytes(need, least=True)} are needed "
            "to choose default kernels for these inputs: pass x_kernel and y_kernel, or a higher limit"
        )


def _bytes_of_choice(n: int, d: int) -> int:
    """Return about how many bytes the choice of default kernels uses at its peak.

    These are first the examined rows and some of their columns; then the distances, together with a vector
    of all pairs or the matrices of the ridge regression.
    """
    rows, pairs, ridge = min(n, _most_examined(d)), min(n, _PAIRS), min(n, _RIDGE)
    examined = 8 * rows * d
    scales = 24 * rows * min(d, _COLUMNS)
    distances = 8 * pairs**2 + max(8 * pairs**2, 56 * ridge**2)
    if d > _WIDE:
        distances = max(distances, 24 * pairs**2)
    return examined + max(scales, 16 * pairs * d + distances)


def _examined(x: HostArray | Rows, weights: HostArray | None) -> NDArray[np.intp]:
    """Return the rows to examine, among those with positive weight."""
    taking_part = np.arange(len(x)) if weights is None else np.flatnonzero(weights)
    return taking_part[_sample(len(taking_part), _most_examined(x.shape[1]), 0)]


def _most_examined(d: int) -> int:
    """Return the largest number of rows with d inputs that are examined."""
    return max(_PAIRS, min(_ROWS, _ENTRIES // max(d, 1)))


def _rows_of(x: HostArray | Rows, some: NDArray[np.intp]) -> HostArray:
    """Return some rows in their original precision, without a copy if these are all rows."""
    return np.asarray(x if len(some) == len(x) and isinstance(x, np.ndarray) else x[some])


def _rounded(value: float) -> float:
    """Return a positive number rounded to 36 binary digits."""
    if not math.isfinite(value):
        return value
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(fraction, _DIGITS)), exponent - _DIGITS)


def _sample(n: int, most: int, stream: int) -> NDArray[np.intp] | slice:
    """Return at most ``most`` of n rows, in order; equal arguments give equal rows."""
    if n <= most:
        return slice(0, n)
    rng = generator((n, stream), Purpose.DEFAULTS)
    return np.sort(rng.choice(n, most, replace=False))


def column_scales(x: HostArray, name: str = "x") -> Array:
    """Return one over the standard deviation (d,) of each column, 0 where a column is constant.

    A column counts as constant if it varies no more than rounding errors would.
    """
    scales = [_scales(x[:, k : k + _COLUMNS], k, name) for k in range(0, x.shape[1], _COLUMNS)]
    return np.concatenate(scales)


def _scales(x: HostArray, first: int, name: str) -> Array:
    """Return the scales of a block of columns that begins at column ``first``."""
    near = np.asarray(x, dtype=np.float64)
    largest = np.abs(near).max(axis=0)
    unit = np.array([power_of_two(float(one)) for one in largest])  # so that no square overflows
    near = near * unit
    spread = (near - near[0]).std(axis=0)
    varies = spread > 4 * np.finfo(np.float64).eps * np.abs(near).max(axis=0)
    with np.errstate(over="ignore"):
        scales = np.divide(unit, spread, out=np.zeros_like(spread), where=varies)
    if not np.isfinite(scales).all():
        column = first + int(np.flatnonzero(~np.isfinite(scales))[0])
        raise NumericalError(
            f"column {column} of {name} is too small to be standardised in float64; rescale it"
        )
    return scales


def _input_scales(
    x: HostArray, name: str = "x"
) -> tuple[Array, float, Array, NDArray[np.intp] | slice]:
    """Return column scales, the median distance, distances (m, m), and the rows that these belong to.

    Distances are between scaled inputs.
    """
    scales = column_scales(x, name)
    some = _sample(len(x), _PAIRS, 1)
    distances = _distances(np.asarray(x[some], dtype=np.float64) * scales)
    length = _median_length(distances)
    return scales, _rounded(length) if x.shape[1] > _WIDE else length, distances, some


def _distances(x: Array) -> Array:
    """Return the distances (m, m) of scaled inputs."""
    if x.shape[1] > _WIDE:
        return _distances_by_products(x)
    x, columns = np.ascontiguousarray(x), np.ascontiguousarray(x.T)
    out = np.empty((len(x), len(x)))

    def fill(rows: slice) -> None:
        core().row_distances(x[rows], columns, out[rows])

    over_rows(fill, len(x), _AT_A_TIME)
    return out


def _distances_by_products(x: Array) -> Array:
    """Return the distances from inner products, except between near rows, where these would cancel."""
    x = x - x.mean(axis=0)
    norms = np.einsum("ij,ij->i", x, x)
    both = norms[:, None] + norms
    squares = both - 2 * (x @ x.T)
    first, second = np.nonzero(np.triu(squares < _NEAR * both))
    for start in range(0, len(first), len(x)):
        i, j = first[start : start + len(x)], second[start : start + len(x)]
        squares[i, j] = squares[j, i] = np.square(x[i] - x[j]).sum(axis=1)
    return np.sqrt(squares)


def median_distance(x: Array) -> float:
    """Return the median distance of at most 1,000 scaled inputs (n, d); 0 if all are equal."""
    return _median_length(_distances(x[_sample(len(x), _PAIRS, 1)]))


def _median_length(distances: Array) -> float:
    """Return the median distance of pairs; if it is 0, of unequal pairs; 0 if all are equal."""
    values = np.concatenate([row[i + 1 :] for i, row in enumerate(distances)])
    if not len(values) or not values.max() > 0:
        return 0.0
    median = float(np.median(values))
    return median if median > 0 else float(np.median(values[values > 0]))


def _input_kernel(scales: Array, length: float, name: str = "x") -> Kernel:
    """Return the mean of three RBFs of scaled columns, as a kernel on the original inputs.

    A scale that all columns share is absorbed into the lengths, so that inputs need not be multiplied,
    unless their squares leave float64.
    """
    if not length > 0:
        return Constant(1.0)
    common = float(scales[0]) if (scales == scales[0]).all() else None
    if common is not None and not _LEAST_LENGTH < length / common < 1 / _LEAST_LENGTH:
        common = None
    lengths = [length / part / (common or 1.0) for part in (1, 2, 4)]
    wide, middle, narrow = (_rbf(one, name) for one in lengths)
    kernel = (wide + middle + narrow) * (1 / 3)
    return kernel if common is not None else Scaled(kernel, tuple(float(one) for one in scales))


def _rbf(length: float, name: str) -> Kernel:
    with np.errstate(over="ignore", divide="ignore"):
        gamma = float(np.float64(0.5) / np.float64(length) / np.float64(length))
    if not 0 < gamma < np.inf:
        raise NumericalError(
            f"{name} is too large or too small: its spread is {length:.3g}, whose square leaves "
            f"float64; rescale {name}"
        )
    return RBF(gamma)


def _marginal_spread(y: Array) -> float:
    """Return the Euclidean norm of the robust standard deviations of the columns of outcomes (n, k)."""
    total = _norm(_spreads(y))
    if not total > 0:
        raise NumericalError(
            f"all {len(y)} outcomes y are equal: they give the output kernel no scale; pass y_kernel"
        )
    return total


def _norm(values: Array) -> float:
    """Return the Euclidean norm of numbers whose squares may leave float64."""
    unit = power_of_two(float(np.abs(values).max()))
    return float(np.linalg.norm(values * unit)) / unit


def _spreads(y: Array) -> Array:
    """Return ``IQR / 1.349`` (k,) of each column, or its standard deviation if that is 0."""
    low, high = np.quantile(y, [0.25, 0.75], axis=0)
    spread = (high - low) / _IQR
    unit = power_of_two(float(np.abs(y).max()))
    deviation = ((y - y[0]) * unit).std(axis=0) / unit
    return np.asarray(np.where(spread > 0, spread, deviation))


def _residual_spread(distances: Array, length: float, y: Array) -> float:
    """Return the robust spread of outcomes (m, k) around a smooth function of inputs.

    It is the smaller of two estimates: from leave-one-out residuals of kernel ridge regression, and from
    differences to the mean of three neighbours. It is infinite if there are too few rows or outcomes do not
    depend on x.
    """
    if len(y) < _FEWEST or not length > 0:
        return np.inf
    unit = power_of_two(float(np.abs(y).max()))
    y = y * unit
    middle = np.median(y, axis=0)
    reach = _WINSOR * np.maximum(_spreads(y), np.finfo(np.float64).tiny)
    pulled = np.clip(y, middle - reach, middle + reach)
    ridge = _ridge_residuals(distances, length, pulled - middle)
    near = _neighbour_residuals(distances, y)
    return min(_robust(ridge), _robust(near)) / unit


def _robust(residuals: Array) -> float:
    """Return the robust standard deviation of residuals (m, k), combined over columns."""
    half, most = np.quantile(np.abs(residuals), [0.5, 0.75], axis=0)
    return float(np.linalg.norm((half / _Q50 + most / _Q75) / 2))


def _ridge_residuals(distances: Array, length: float, y: Array) -> Array:
    """Return the leave-one-out residuals of kernel ridge regression for the best of some regularisers.

    With the inverse A of the system, they are ``(A y)_i / A_ii``.
    """
    some = _sample(len(y), _RIDGE, 2)
    r2 = np.square(distances[some][:, some] / length)
    y = y[some]
    kernel = (np.exp(-0.5 * r2) + np.exp(-2 * r2) + np.exp(-8 * r2)) / 3
    del r2
    identity, diagonal = np.eye(len(y)), np.diag_indices(len(y))
    best: tuple[float, Array] = (np.inf, y)
    for lam in _LAMS:
        kernel[diagonal] = 1 + len(y) * lam
        root = substituted(cholesky_factor(kernel), identity)  # R with inverse = R'R
        residuals = inner(root, times(root, y)) / np.square(root).sum(axis=0)[:, None]
        size = float(np.mean(residuals**2))
        if size < best[0]:
            best = (size, residuals)
    return best[1]


def _neighbour_residuals(distances: Array, y: Array) -> Array:
    """Return outcomes minus the mean of those at the nearest inputs, scaled to one outcome's spread."""
    nearest = np.empty((len(distances), _NEIGHBOURS), dtype=np.intp)
    for start in range(0, len(distances), _BLOCK):
        block = distances[start : start + _BLOCK].copy()
        diagonal = np.arange(len(block))
        block[diagonal, start + diagonal] = np.inf
        nearest[start + diagonal] = np.argpartition(block, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    return np.asarray((y - y[nearest].mean(axis=1)) / np.sqrt(1 + 1 / _NEIGHBOURS))
