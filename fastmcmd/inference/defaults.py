"""Default kernels: chosen from the scales of x and y, so that units do not matter.

The input kernel is the mean of three RBFs at l, l/2 and l/4 on standardised columns, l the median distance.
The output kernel is the mean of two RBFs: one as wide as all outcomes, which sees where a model is wrong on
average, one as wide as outcomes at one input, which sees a wrong spread. docs/kernels.md has the study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from fastmcmd._base.checks import as_rows, as_weights, check_lam, check_same_length, shown
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.errors import NumericalError
from fastmcmd.kernels import RBF, Constant, Delta, Kernel, Polynomial, Scaled
from fastmcmd.kernels.base import power_of_two
from fastmcmd.predictive import Categorical
from fastmcmd.rows import Rows, open_rows

__all__ = [
    "PAPER_LAM",
    "DefaultKernels",
    "chosen_kernels",
    "column_scales",
    "default_input_kernel",
    "default_kernels_of",
    "median_distance",
    "named_kernels",
    "paper_kernels",
]

PAPER_LAM = 0.1
_LAM = 0.01
_ROWS = 10_000  # rows whose spreads are measured
_PAIRS = 1_000  # rows whose distances are measured
_RIDGE = 500  # rows of the kernel ridge regression: one eigendecomposition of a few hundredths of a second
_LAMS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # regularisers of that regression
_FEWEST = 15  # rows below which residuals say nothing
_NARROWEST = 300.0  # marginal over residual spread, at most: beyond, output features are too many
_NEIGHBOURS = 3
_IQR = 1.349  # interquartile range of a standard normal
_Q50, _Q75 = 0.6745, 1.1503  # quantiles of |z|, z standard normal
_WINSOR = 4.0  # marginal spreads from the median beyond which outcomes are pulled in

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DefaultKernels:
    """Kernels and regulariser that follow from inputs and outcomes, never from a model.

    Attributes
    ----------
    x_kernel : Kernel
        Of inputs as they are given.
    y_kernel : Kernel
        Of outcomes as they are given.
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
    x: Any, y: Any, *, classes: bool = False, weights: Any = None
) -> DefaultKernels:
    """Return the default kernels for inputs (n, d), in memory or on disk, and outcomes (n,) or (n, k).

    The same kernels whenever it is called with the same data: rows of large data are drawn from a stream of
    their own.

    Parameters
    ----------
    x, y : array_like
        Finite inputs and outcomes; of more than 10,000 rows a random 10,000 are looked at.
    classes : bool
        Whether outcomes are labels without an order, as bool is: the output kernel is `Delta`.
    weights : array_like (n,), optional
        Rows of weight 0 do not count; all others count alike.

    Raises
    ------
    ValueError
        Other lengths; NaN; all outcomes are equal.
    """
    classes = classes or getattr(y, "dtype", None) == np.bool_
    rows = open_rows(x, "x")
    y = as_rows(y, "y")
    check_same_length(x=rows, y=y)
    weights = as_weights(weights, "weights", len(y))
    taking_part = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    some = taking_part[_sample(len(taking_part), _ROWS, 0)]
    inputs = np.asarray(rows[some], dtype=np.float64)
    outcomes = np.asarray(y[some], dtype=np.float64)
    scales = column_scales(inputs)
    inputs = inputs * scales
    distances, near = _distances(inputs)
    length = _median_length(distances)
    x_kernel = _input_kernel(scales, length)
    marginal = residual = np.nan
    y_kernel: Kernel = Delta()
    if not classes:
        marginal = _marginal_spread(outcomes)
        residual = _residual_spread(distances, length, outcomes[near])
        residual = float(np.clip(residual, marginal / _NARROWEST, marginal))
        y_kernel = _rbf(marginal, "y")
        if residual < marginal:
            y_kernel = 0.5 * y_kernel + 0.5 * _rbf(residual, "y")
    factors = tuple(float(one) for one in scales)
    return DefaultKernels(x_kernel, y_kernel, _LAM, factors, length, marginal, residual)


def default_input_kernel(x: Array, name: str = "x") -> Kernel:
    """Return the default kernel of inputs (n, d) alone: no outcome is looked at."""
    inputs = np.asarray(x[_sample(len(x), _ROWS, 0)], dtype=np.float64)
    scales = column_scales(inputs)
    return _input_kernel(scales, _median_length(_distances(inputs * scales)[0]), name)


def paper_kernels() -> tuple[Kernel, Kernel, float]:
    """Return the published kernels and regulariser of Young et al."""
    return Polynomial(degree=3, gamma=None, coef0=1.0), RBF("variance"), PAPER_LAM


def chosen_kernels(
    x: NDArray[Any] | Rows,
    y: NDArray[Any],
    x_kernel: Any = None,
    y_kernel: Any = None,
    lam: Any = None,
    *,
    classes: bool = False,
    weights: Any = None,
    none: str = "auto",
) -> tuple[Kernel, Kernel, float]:
    """Return the kernels and the regulariser that arguments mean for inputs and outcomes.

    Parameters
    ----------
    x, y
        Checked inputs (n, d) and outcomes (n, k).
    x_kernel, y_kernel : Kernel, "auto", "paper" or None
        A kernel is returned as it is, its parameters not yet resolved.
    lam : float, "auto", "paper" or None
        None goes with ``x_kernel``: 0.1 with the published one, 0.01 with the default one; with one of the
        caller's own what ``none`` says.
    classes, weights
        As in `default_kernels_of`.
    none : {"auto", "paper"}
        What None means for a kernel.

    Raises
    ------
    ValueError, TypeError
        Something that is neither a kernel nor one of these names.
    """
    x_kernel, y_kernel = (
        _named(kernel, name, none)
        for kernel, name in ((x_kernel, "x_kernel"), (y_kernel, "y_kernel"))
    )
    if isinstance(lam, str) and lam not in ("auto", "paper"):
        raise ValueError(f'lam is {lam!r}; a positive number, "auto", "paper" or None is needed')
    if lam is None:
        lam = x_kernel if isinstance(x_kernel, str) else none
    if isinstance(lam, str):
        lam = PAPER_LAM if lam == "paper" else _LAM
    lam = check_lam(lam)
    paper = paper_kernels()
    if "auto" in (x_kernel, y_kernel):
        default = default_kernels_of(x, y, classes=classes, weights=weights)
        x_kernel = default.x_kernel if x_kernel == "auto" else x_kernel
        y_kernel = default.y_kernel if y_kernel == "auto" else y_kernel
    return (
        paper[0] if x_kernel == "paper" else x_kernel,
        paper[1] if y_kernel == "paper" else y_kernel,
        lam,
    )


def named_kernels(
    x: Any, y: Any, predictions: Sequence[Any], x_kernel: Any, y_kernel: Any, lam: Any, weights: Any
) -> tuple[Any, Any, Any]:
    """Return kernels and regulariser with the names "auto" and "paper" replaced; all else as given.

    None still means the published ones. Where all predictions are `Categorical`, outcomes are classes.
    """
    names = ("auto", "paper")
    if not any(isinstance(one, str) and one in names for one in (x_kernel, y_kernel, lam)):
        return x_kernel, y_kernel, PAPER_LAM if lam is None else lam
    classes = all(isinstance(one, Categorical) for one in predictions)
    return chosen_kernels(
        x, y, x_kernel, y_kernel, lam, classes=classes, weights=weights, none="paper"
    )


def _named(kernel: Any, name: str, none: str) -> Any:
    if kernel is None:
        return none
    if isinstance(kernel, Kernel) or (isinstance(kernel, str) and kernel in ("auto", "paper")):
        return kernel
    needed = 'a fastmcmd kernel such as fastmcmd.RBF(0.5), "auto", "paper" or None is needed'
    raise (ValueError if isinstance(kernel, str) else TypeError)(
        f"{name} is {shown(kernel)}; {needed}"
    )


def _sample(n: int, most: int, stream: int) -> NDArray[np.intp] | slice:
    """Return at most so many of n rows, in order; the same ones in the same call."""
    if n <= most:
        return slice(0, n)
    rng = generator((n, stream), Purpose.DEFAULTS)
    return np.sort(rng.choice(n, most, replace=False))


def column_scales(x: Array) -> Array:
    """Return one over the standard deviation (d,) of each column, 0 where a column is constant.

    A column counts as constant where it varies no more than rounding would make it.
    """
    largest = np.abs(x).max(axis=0)
    unit = np.array([power_of_two(float(one)) for one in largest])  # so that no square overflows
    near = x * unit
    spread = (near - near[0]).std(axis=0)
    varies = spread > 4 * np.finfo(np.float64).eps * np.abs(near).max(axis=0)
    with np.errstate(over="ignore"):
        scales = np.divide(unit, spread, out=np.zeros_like(spread), where=varies)
    if not np.isfinite(scales).all():
        column = int(np.flatnonzero(~np.isfinite(scales))[0])
        raise NumericalError(
            f"column {column} of x is too small to be standardised in float64; rescale it"
        )
    return scales


def _distances(x: Array) -> tuple[Array, NDArray[np.intp] | slice]:
    """Return the distances (m, m) of at most 1,000 rows of scaled inputs, and which rows these are."""
    from scipy.spatial.distance import pdist, squareform  # slow to load: only when used

    some = _sample(len(x), _PAIRS, 1)
    return squareform(pdist(x[some])), some


def median_distance(x: Array) -> float:
    """Return the median distance of scaled inputs (n, d), at most 1,000 of them; 0 where all are equal."""
    return _median_length(_distances(x)[0])


def _median_length(distances: Array) -> float:
    """Return the median distance of pairs, of unequal pairs where it is 0; 0 where all are equal."""
    values = distances[np.triu_indices(len(distances), 1)]
    if not len(values) or not values.max() > 0:
        return 0.0
    median = float(np.median(values))
    return median if median > 0 else float(np.median(values[values > 0]))


def _input_kernel(scales: Array, length: float, name: str = "x") -> Kernel:
    """Return the mean of three RBFs of scaled columns, as a kernel of the inputs as they are given.

    One scale for all columns goes into the lengths: no input has to be multiplied.
    """
    if not length > 0:
        return Constant(1.0)
    common = float(scales[0]) if (scales == scales[0]).all() else None
    lengths = [length / part / (common or 1.0) for part in (1, 2, 4)]
    wide, middle, narrow = (_rbf(one, name) for one in lengths)
    kernel = (wide + middle + narrow) * (1 / 3)
    return kernel if common is not None else Scaled(kernel, tuple(float(one) for one in scales))


def _rbf(length: float, name: str) -> Kernel:
    with np.errstate(over="ignore", divide="ignore"):
        gamma = float(np.float64(0.5) / np.float64(length) / np.float64(length))
    if not 0 < gamma < np.inf:
        raise NumericalError(
            f"the spread of {name} is {length:.3g}, whose square leaves float64; rescale {name}"
        )
    return RBF(gamma)


def _marginal_spread(y: Array) -> float:
    """Return the norm of the robust standard deviations of the columns of outcomes (n, k)."""
    spread = _spreads(y)
    total = float(np.linalg.norm(spread))
    if not total > 0:
        raise NumericalError(
            f"all {len(y)} outcomes y are equal: they give the output kernel no scale; pass y_kernel"
        )
    return total


def _spreads(y: Array) -> Array:
    """Return ``IQR / 1.349`` (k,) of each column, its standard deviation where that is 0."""
    low, high = np.quantile(y, [0.25, 0.75], axis=0)
    spread = (high - low) / _IQR
    unit = power_of_two(float(np.abs(y).max()))
    deviation = ((y - y[0]) * unit).std(axis=0) / unit
    return np.asarray(np.where(spread > 0, spread, deviation))


def _residual_spread(distances: Array, length: float, y: Array) -> float:
    """Return the robust spread of outcomes (m, k) around a smooth function of inputs: the smaller of two.

    Leave-one-out residuals of kernel ridge regression, and differences to the mean of three neighbours.
    Infinite where there are too few rows, or nothing depends on x.
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
    """Return the robust standard deviation of residuals (m, k), all columns together."""
    half, most = np.quantile(np.abs(residuals), [0.5, 0.75], axis=0)
    return float(np.linalg.norm((half / _Q50 + most / _Q75) / 2))


def _ridge_residuals(distances: Array, length: float, y: Array) -> Array:
    """Return the least leave-one-out residuals of kernel ridge regression over some regularisers."""
    some = _sample(len(y), _RIDGE, 2)
    r2 = np.square(distances[some][:, some] / length)
    y = y[some]
    kernel = (np.exp(-0.5 * r2) + np.exp(-2 * r2) + np.exp(-8 * r2)) / 3
    values, vectors = scipy.linalg.eigh(kernel, overwrite_a=True, check_finite=False)
    values = np.maximum(values, 0)
    projected, squares = vectors.T @ y, vectors**2
    best: tuple[float, Array] = (np.inf, y)
    for lam in _LAMS:
        share = values / (values + len(y) * lam)
        left = 1 - squares @ share
        residuals = (y - vectors @ (share[:, None] * projected)) / np.maximum(left, 1e-12)[:, None]
        size = float(np.mean(residuals**2))
        if size < best[0]:
            best = (size, residuals)
    return best[1]


def _neighbour_residuals(distances: Array, y: Array) -> Array:
    """Return outcomes less the mean of those at the nearest inputs, in units of one outcome's spread."""
    other = distances + np.diag(np.full(len(distances), np.inf))
    nearest = np.argpartition(other, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
    return np.asarray((y - y[nearest].mean(axis=1)) / np.sqrt(1 + 1 / _NEIGHBOURS))
