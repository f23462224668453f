"""One factor for all standard deviations, chosen by the calibration of central intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import as_array, check_choice, check_count, check_positive, quote
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Gaussian, Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.bins import positive_std
from fastmcmd.recalibration.rescaled import rescale
from fastmcmd.recalibration.state import check_number

__all__ = ["StdRatio"]

_CRITERIA = ("ma_cal", "rms_cal", "miscal")
_COARSE = 65  # factors between the bounds: steps of 1.15 by default
_FINE = 17  # factors between the neighbours of the best factor, in each round
_STEP = 1e-4  # step of the logarithm at which the search ends: coverage is a step function


class StdRatio(Recalibrator):
    """Multiplies all standard deviations by the factor with the best calibrated central intervals.

    Parameters
    ----------
    criterion : {"ma_cal", "rms_cal", "miscal"}
        The quantity to minimise: the mean absolute or root mean square difference of nominal and observed
        coverage, or the area between the two.
    bounds : (float, float), default (0.01, 100)
        Smallest and largest factor.
    levels : int, default 100
        Number of nominal coverages, evenly spaced from 0 to 1.

    Attributes
    ----------
    ratio_ : float
        The factor.
    error_ : float
        The criterion at that factor.

    Notes
    -----
    This is ``optimize_recalibration_ratio`` and ``get_std_recalibrator`` of Uncertainty Toolbox 0.1.1, with
    its definition of coverage: y lies in the central interval of probability p if ``|2 F(y) - 1| <= p``.
    The toolbox searches factors, not their logarithms, with bounded Brent on a step function, and may end
    far from the optimum. This class evaluates the whole range on a logarithmic grid and refines around the
    best factor, up to steps of order 1 / n, which a few more rows would move. Each of some 120 evaluations
    is a binary search in the sorted ``|z|`` for Gaussians, and one distribution function per row for
    others.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import StdRatio
    >>> y = np.random.default_rng(0).normal(size=20000)
    >>> abs(StdRatio("rms_cal").fit((np.zeros(20000), 0.25), y).ratio_ - 4) < 0.1
    True
    """

    ratio_: float
    error_: float

    def __init__(
        self, criterion: str = "ma_cal", bounds: object = (1e-2, 1e2), levels: int = 100
    ) -> None:
        self.criterion = check_choice(criterion, "criterion", _CRITERIA)
        pair = as_array(bounds, "bounds")
        if pair.shape != (2,):
            raise ValueError(f"bounds are {quote(bounds)}; a pair (smallest, largest) is needed")
        low, high = (check_positive(float(bound), "bounds") for bound in pair)
        if not low < high:
            raise ValueError(f"bounds are {quote(bounds)}; the first must be the smaller one")
        self.bounds = (low, high)
        self.levels: int = check_count(levels, "levels", 2)

    def check_state(self) -> None:
        """Raise ValueError unless the factor is valid."""
        super().check_state()
        check_number(self.ratio_, "ratio_")

    def learn(self, rows: Outcomes) -> None:
        """Set the factor."""
        rescale(rows.prediction.take(np.arange(1)), 1.0)
        coverage = _coverage(rows, np.linspace(0, 1, self.levels))
        grid = np.linspace(np.log(self.bounds[0]), np.log(self.bounds[1]), _COARSE)
        errors_at: dict[float, float] = {}
        while True:
            for place in grid.tolist():
                if place not in errors_at:
                    errors_at[place] = self._error(coverage(float(np.exp(place))))
            errors = np.array([errors_at[place] for place in grid.tolist()])
            # Choose the middle of equally good factors.
            ties = np.flatnonzero(errors == errors.min())
            best = int(ties[len(ties) // 2])
            if grid[1] - grid[0] <= _STEP:
                break
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
            grid = np.linspace(low, high, _FINE)
        self.ratio_, self.error_ = float(np.exp(grid[best])), float(errors[best])

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions with scaled standard deviations."""
        return rescale(prediction, self.ratio_)

    def _error(self, observed: Array) -> float:
        gaps = np.abs(observed - np.linspace(0, 1, self.levels))
        if self.criterion == "ma_cal":
            return float(gaps.mean())
        if self.criterion == "rms_cal":
            return float(np.sqrt(np.mean(gaps**2)))
        # Areas of trapezoids, or of two triangles if the curves cross.
        signed = observed - np.linspace(0, 1, self.levels)
        one, two = signed[:-1], signed[1:]
        total = np.abs(one) + np.abs(two)
        crossing = (one**2 + two**2) / np.where(total > 0, total, 1.0)
        return float(np.sum(np.where(one * two < 0, crossing, total)) / 2 / (self.levels - 1))


def _coverage(rows: Outcomes, levels: Array) -> Callable[[float], Array]:
    """Return a function from a factor to observed coverages (j,)."""
    from scipy import special

    prediction, weights = rows.prediction, rows.weights
    if isinstance(prediction, Gaussian):
        with np.errstate(over="ignore"):  # infinite where a deviation is tiny
            size = np.abs(rows.y - prediction.mean) / positive_std(prediction)
        order = np.argsort(size, kind="stable")
        size, upto = size[order], _upto(weights, order)
        bounds = special.ndtri(0.5 + levels / 2)
        return lambda factor: upto[np.searchsorted(size, factor * bounds, side="right")]

    def observed(factor: float) -> Array:
        inside = np.abs(2 * rescale(prediction, factor).cdf(rows.y) - 1)
        order = np.argsort(inside, kind="stable")
        return _upto(weights, order)[np.searchsorted(inside[order], levels, side="right")]

    return observed


def _upto(weights: Array | None, order: NDArray[np.intp]) -> Array:
    """Return the cumulative shares (n + 1,) of rows in order."""
    if weights is None:
        return np.arange(len(order) + 1) / len(order)
    upto = np.concatenate([[0.0], np.cumsum(weights[order])])
    return np.asarray(upto / upto[-1])
