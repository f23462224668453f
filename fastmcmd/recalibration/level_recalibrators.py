"""Recalibration of quantiles, or of central intervals, at fixed levels."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.checks import as_array, check_choice
from fastmcmd.metrics import pit_values
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.atoms import recalibrated
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.monotone import MonotoneMap, empirical
from fastmcmd.recalibration.state import check_map

__all__ = ["IntervalRecalibrator", "QuantileRecalibrator"]

_LEVELS = 99  # default number of evenly spaced levels inside (0, 1)


class _LevelRecalibrator(Recalibrator):
    """Compares nominal with observed shares of outcomes at fixed levels."""

    levels_: Array
    observed_: Array

    def __init__(
        self,
        levels: ArrayLike | None = None,
        pit: Literal["randomized", "mid", "plain"] = "randomized",
        random_state: RandomState = 0,
    ) -> None:
        self.levels = None if levels is None else _inner_levels(levels)
        self.pit = check_choice(pit, "pit", ("randomized", "mid", "plain"))
        self.random_state = random_state

    @staticmethod
    @abstractmethod
    def smallest_levels(pit: Array) -> Array:
        """Return the smallest level (n,) whose region holds each outcome, from PIT values (n,)."""

    @abstractmethod
    def pit_map(self) -> MonotoneMap:
        """Return R of the recalibrated distribution functions R(F(y))."""

    def check_state(self) -> None:
        """Raise ValueError unless the fitted attributes are a map of [0, 1]."""
        super().check_state()
        check_map(self.levels_, self.observed_)

    def learn(self, rows: Outcomes) -> None:
        """Set nominal and observed shares."""
        pit = pit_values(rows.y, rows.prediction, pit=self.pit, random_state=self.random_state)
        observed, _ = empirical(self.smallest_levels(pit), rows.weights)
        levels = np.arange(1, _LEVELS + 1) / (_LEVELS + 1) if self.levels is None else self.levels
        observed = observed.at_levels(levels)
        self.levels_, self.observed_ = observed.p, observed.r

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions with recalibrated distribution functions."""
        return recalibrated(prediction, self.pit_map())


class QuantileRecalibrator(_LevelRecalibrator):
    """Reassigns the levels of quantiles so that the nominal share of outcomes falls below each quantile.

    Parameters
    ----------
    levels : array_like (j,), optional
        Levels at which shares of outcomes are observed. Default: 99 evenly spaced levels.
    pit : {"randomized", "mid", "plain"}
        See `fastmcmd.pit_values`.
    random_state : int, numpy.random.Generator or None, default 0
        Source of the randomisation.

    Attributes
    ----------
    levels_, observed_ : ndarray (k,)
        Levels and the shares of outcomes below the quantiles at these levels, from (0, 0) to (1, 1).

    Notes
    -----
    ``transform(prediction).quantile(q)`` is the predicted quantile at the level p where a share q was
    observed, with linear interpolation between levels. `IsotonicCDF` chooses its levels from the data
    instead.

    Uncertainty Toolbox 0.1.1 (``get_quantile_recalibrator``) counts ``(mean - y) / std <= z_p``, the share
    above the quantile at 1 - p. For a shifted model, this moves quantiles away from the outcomes. The
    function accepts only Gaussians, returns one quantile at a time, and clips levels to those observed.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import QuantileRecalibrator
    >>> y = np.random.default_rng(0).normal(1.0, size=20000)
    >>> shifted = fm.Gaussian(np.zeros(20000), 1.0)
    >>> mended = QuantileRecalibrator().fit(shifted, y).transform(shifted)
    >>> mended.quantile(0.5)[0].round(1).item()
    1.0
    """

    @staticmethod
    def smallest_levels(pit: Array) -> Array:
        """Return the PIT values: the p-quantile lies above an outcome if its PIT is below p."""
        return pit

    def pit_map(self) -> MonotoneMap:
        """Return the map from nominal to observed shares."""
        return MonotoneMap(self.levels_, self.observed_)


class IntervalRecalibrator(_LevelRecalibrator):
    """Widens or narrows central intervals so that they hold their nominal share of outcomes.

    Parameters
    ----------
    levels : array_like (j,), optional
        Probabilities of the central intervals in which outcomes are counted. Default: 99 evenly spaced
        ones.
    pit : {"randomized", "mid", "plain"}
        See `fastmcmd.pit_values`.
    random_state : int, numpy.random.Generator or None, default 0
        Source of the randomisation.

    Attributes
    ----------
    levels_, observed_ : ndarray (k,)
        Nominal and observed shares, from (0, 0) to (1, 1).

    Notes
    -----
    With C(q) the observed share of outcomes in central intervals of probability q, the distribution
    function is mapped by ``R(p) = (1 + C(2 p - 1)) / 2`` above the median and by its mirror image below, so
    medians do not change. ``transform(prediction).quantile([(1 - q) / 2, (1 + q) / 2])`` is the
    recalibrated interval. Shifts are not corrected; use `QuantileRecalibrator` for these. Uncertainty
    Toolbox 0.1.1 (``get_interval_recalibrator``) does the same for Gaussians, one interval at a time.

    Beyond the last level, distributions keep the tails of the model.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import IntervalRecalibrator
    >>> y = np.random.default_rng(0).normal(size=20000)
    >>> narrow = fm.Gaussian(np.zeros(20000), 0.7)
    >>> mended = IntervalRecalibrator().fit(narrow, y).transform(narrow)
    >>> mended.quantile(0.95)[0].round(1).item()  # 1.15 before
    1.6
    """

    @staticmethod
    def smallest_levels(pit: Array) -> Array:
        """Return the probabilities of the smallest central intervals that hold the outcomes."""
        return np.abs(2 * pit - 1)

    def pit_map(self) -> MonotoneMap:
        """Return the map R: that of the shares above the median, and its mirror image below."""
        p, r = self.levels_, self.observed_
        return MonotoneMap.through(
            np.concatenate([(1 - p[::-1]) / 2, (1 + p[1:]) / 2]),
            np.concatenate([(1 - r[::-1]) / 2, (1 + r[1:]) / 2]),
        )


def _inner_levels(levels: ArrayLike) -> Array:
    """Return checked levels: increasing numbers inside (0, 1)."""
    values = as_array(levels, "levels").astype(np.float64)
    inside = values.ndim == 1 and len(values) > 0 and bool(((values > 0) & (values < 1)).all())
    if not inside or (np.diff(values) <= 0).any():
        raise ValueError(
            f"levels are {levels!r}; increasing numbers (j,) between 0 and 1 are needed"
        )
    return values
