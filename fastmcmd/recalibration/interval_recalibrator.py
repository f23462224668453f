"""Recalibration of central intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.checks import check_choice
from fastmcmd.metrics import pit_values
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.atoms import recalibrated
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.monotone import MonotoneMap, empirical
from fastmcmd.recalibration.quantile_recalibrator import inner_levels
from fastmcmd.recalibration.state import check_map

__all__ = ["IntervalRecalibrator"]


class IntervalRecalibrator(Recalibrator):
    """Widens or narrows central intervals so that they hold the share of outcomes that they promise.

    Parameters
    ----------
    levels : array_like (j,), optional
        Shares of central intervals at which outcomes inside are counted; default 99 even ones.
    pit : {"randomized", "mid", "plain"}
        See `fastmcmd.pit_values`.
    random_state : int, numpy.random.Generator or None, default 0
        Source of the randomisation.

    Attributes
    ----------
    levels_, observed_ : ndarray (k,)
        Shares promised and observed, from (0, 0) to (1, 1).

    Notes
    -----
    With C(q) the observed share of outcomes in central intervals of probability q, recalibrated
    distribution functions are ``R(p) = (1 + C(2 p - 1)) / 2`` above the median and the mirror image below,
    so medians stay where they are: ``transform(prediction).quantile([(1 - q) / 2, (1 + q) / 2])`` is the
    interval. Shifts are not mended; `QuantileRecalibrator` does that. Uncertainty Toolbox 0.1.1
    (``get_interval_recalibrator``) is the same for Gaussians, one interval at a time.

    Beyond the last level distributions keep the tails that the model gave them.

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

    levels_: Array
    observed_: Array

    def __init__(
        self,
        levels: ArrayLike | None = None,
        pit: str = "randomized",
        random_state: RandomState = 0,
    ) -> None:
        self.levels = None if levels is None else inner_levels(levels)
        self.pit = check_choice(pit, "pit", ("randomized", "mid", "plain"))
        self.random_state = random_state

    def check_state(self) -> None:
        """Raise ValueError where the fitted map is none."""
        super().check_state()
        check_map(self.levels_, self.observed_)

    def learn(self, rows: Outcomes) -> None:
        """Set promised and observed shares."""
        seen = pit_values(rows.y, rows.prediction, pit=self.pit, random_state=self.random_state)
        mapping = empirical(np.abs(2 * seen - 1), rows.weights)[0]
        mapping = mapping.at_levels(inner_levels(self.levels))
        self.levels_, self.observed_ = mapping.p, mapping.r

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions with central intervals of other shares."""
        p, r = self.levels_, self.observed_
        both = MonotoneMap.through(
            np.concatenate([(1 - p[::-1]) / 2, (1 + p[1:]) / 2]),
            np.concatenate([(1 - r[::-1]) / 2, (1 + r[1:]) / 2]),
        )
        return recalibrated(prediction, both)
