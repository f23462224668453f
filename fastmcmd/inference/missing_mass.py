"""Missing mass: outcomes to which predictions near an input assign too little or too much probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fastmcmd._base.checks import as_array, as_float, as_rows, as_weights, check_same_length, quote
from fastmcmd._base.tables import Notebook
from fastmcmd.default_kernels import chosen_lam
from fastmcmd.inference.inputs import input_map
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.base import PredictionLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MissingMass", "missing_mass"]

Array = NDArray[np.float64]

_LANDMARKS = 300
_GRID = 121
_BANDWIDTH = 0.7  # bandwidth of densities, in standard deviations of the predictions near the input


@dataclass(frozen=True, eq=False)
class MissingMass(Notebook):
    """Observed minus predicted probability near one input.

    Attributes
    ----------
    values : ndarray (g,)
        Outcomes.
    observed, predicted : ndarray (g,)
        Probabilities of counts and classes, or densities, averaged over the rows near the input.
    gap : ndarray (g,)
        Their difference: above 0 the model assigns too little probability.
    band : ndarray (g,)
        Half-width, around 0, of the pointwise band that contains the gap of right predictions.
    level : float
        Pointwise level of the band.
    bandwidth : float
        Standard deviation of the smoothing of densities; 0 for probabilities.
    """

    values: Array
    observed: Array
    predicted: Array
    gap: Array
    band: Array
    level: float
    bandwidth: float

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Plot the gap over y, with its band; see `fastmcmd.plots.missing_mass`."""
        from fastmcmd.plots import missing_mass as draw

        return draw(self, ax, **options)


def missing_mass(
    x: object,
    y: ArrayLike,
    prediction: PredictionLike,
    at: ArrayLike,
    values: ArrayLike | None = None,
    x_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    level: float = 0.95,
    weights: ArrayLike | None = None,
) -> MissingMass:
    """Return observed minus predicted probabilities near one input, with the band of right predictions.

    The witness contrasts y with all outcomes that are similar under the output kernel. This is mass
    instead: for counts and classes the difference of probabilities, for continuous outcomes that of
    densities smoothed over y.

    Parameters
    ----------
    x : array_like (n, d) or (n,)
        Inputs.
    y : array_like (n,)
        Outcomes.
    prediction : Predictive or what converts to one
        Predicted distributions of numbers.
    at : array_like (d,) or number
        The input.
    values : array_like (g,), optional
        Outcomes of the result; default those that occur, or 121 over their range.
    x_kernel, lam : optional
        As in `fastmcmd.diagnose`.
    level : float
        Level of the band.
    weights : array_like (n,), optional
        Nonnegative weights of the rows.

    Returns
    -------
    MissingMass

    Raises
    ------
    ValueError
        There are no rows near the input, or an argument is not as described.

    Notes
    -----
    With the coefficients a_i of kernel ridge regression at the input, ``gap(v) = sum_i a_i (k(v, y_i) -
    E k(v, Y_i)) / sum_i a_i``, where k is the indicator of equality or a Gaussian density. Under right
    predictions its variance is ``sum_i a_i^2 Var k(v, Y_i) / (sum_i a_i)^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.inference.missing_mass import missing_mass
    >>> y = np.repeat([0.0, 1.0, 2.0, 3.0], 100)
    >>> import fastmcmd as fm
    >>> curve = missing_mass(np.zeros(400), y, fm.Poisson(np.full(400, 1.5)), 0.0, values=[0, 1])
    >>> curve.gap.round(3).tolist()  # 0.25 - exp(-1.5), 0.25 - 1.5 exp(-1.5)
    [0.027, -0.085]
    """
    x, y = as_rows(x, "x").astype(np.float64), as_rows(y, "y", columns=1).astype(np.float64)
    check_same_length(x=x, y=y)
    point = as_array(at, "at").astype(np.float64).reshape(1, -1)
    if point.shape[1] != x.shape[1]:
        raise ValueError(f"at is {quote(at)}; one input of {x.shape[1]} numbers is needed")
    level = as_float(level, "level")
    if not 0 < level < 1:
        raise ValueError(f"level is {quote(level)}; a number between 0 and 1 is needed")
    predictive = as_predictive(prediction, len(y), 1, y=y)
    checked_weights = as_weights(weights, "weights", len(y))
    row_weights = np.ones(len(y)) if checked_weights is None else checked_weights
    mapping, lam = input_map(x, x_kernel, checked_weights), chosen_lam(lam, x_kernel)
    smoother = Smoother.of(mapping.kernel, mapping(x), _LANDMARKS, 0)
    basis = smoother.basis(mapping(x), row_weights)
    near = basis.coordinates(mapping(point))[0] * basis.shrinkage(lam)
    a = row_weights * (basis.coordinates(mapping(x)) @ near)
    total = float(a.sum())
    if not total > 0.1:
        raise ValueError(f"at is {quote(at)}, near which there are no rows")
    a /= total
    outcomes = y[:, 0]
    grid = (
        _grid(outcomes, predictive.discrete) if values is None else as_rows(values, "values")[:, 0]
    )
    grid = grid.astype(np.float64)
    bandwidth = 0.0
    if not predictive.discrete:
        spread = np.asarray(predictive.quantile(np.array([0.25, 0.75])))
        bandwidth = float(
            _BANDWIDTH * (np.abs(a) @ (spread[:, 1] - spread[:, 0])) / np.abs(a).sum() / 1.349
        )
        bandwidth = bandwidth or float(np.std(outcomes)) * _BANDWIDTH or 1.0
    observed, mean, variance = _moments(predictive, outcomes, grid, bandwidth, a)
    wide = float(special.ndtri((1 + level) / 2))
    return MissingMass(
        grid, observed, mean, observed - mean, wide * np.sqrt(variance), level, bandwidth
    )


def _grid(y: Array, discrete: bool) -> Array:
    if discrete:
        return np.unique(y)
    low, high = np.quantile(y, [0.001, 0.999])
    return np.linspace(low, high, _GRID)


def _moments(
    prediction: Predictive, y: Array, grid: Array, bandwidth: float, a: Array
) -> tuple[Array, Array, Array]:
    """Return ``sum a_i k(v, y_i)``, ``sum a_i E k(v, Y_i)`` and ``sum a_i^2 Var k(v, Y_i)`` (g,)."""
    observed, mean, variance = (np.empty(len(grid)) for _ in range(3))
    nodes = None if prediction.discrete else prediction.coarse_nodes()
    for place, value in enumerate(grid):
        if nodes is None:
            one, expected = (y == value).astype(np.float64), np.exp(prediction.log_prob(value))
            square = expected
        else:
            height = 1 / (np.sqrt(2 * np.pi) * bandwidth)
            one = height * np.exp(-(((y - value) / bandwidth) ** 2) / 2)
            at_nodes = height * np.exp(-(((nodes[0] - value) / bandwidth) ** 2) / 2)
            expected = np.einsum("nl,nl->n", nodes[1], at_nodes)
            square = np.einsum("nl,nl->n", nodes[1], at_nodes**2)
        observed[place], mean[place] = a @ one, a @ expected
        variance[place] = (a * a) @ np.maximum(square - expected**2, 0.0)
    return observed, mean, variance
