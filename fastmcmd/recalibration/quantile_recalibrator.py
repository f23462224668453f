"""Recalibration at fixed levels of quantiles."""

from __future__ import annotations

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

__all__ = ["QuantileRecalibrator", "inner_levels"]

_LEVELS = 99  # even ones inside (0, 1)


def inner_levels(levels: ArrayLike | None) -> Array:
    """Return increasing levels inside (0, 1), by default 99 even ones."""
    if levels is None:
        return np.arange(1, _LEVELS + 1) / (_LEVELS + 1)
    found = as_array(levels, "levels").astype(np.float64)
    inside = found.ndim == 1 and len(found) > 0 and bool(((found > 0) & (found < 1)).all())
    if not inside or (np.diff(found) <= 0).any():
        raise ValueError(
            f"levels are {levels!r}; increasing numbers (j,) between 0 and 1 are needed"
        )
    return found


class QuantileRecalibrator(Recalibrator):
    """Moves quantiles to the levels at which as many outcomes fall below them as they promise.

    Parameters
    ----------
    levels : array_like (j,), optional
        Levels at which shares of outcomes are observed; default 99 even ones.
    pit : {"randomized", "mid", "plain"}
        See `fastmcmd.pit_values`.
    random_state : int, numpy.random.Generator or None, default 0
        Source of the randomisation.

    Attributes
    ----------
    levels_, observed_ : ndarray (k,)
        Levels and the shares of outcomes below the quantiles there, from (0, 0) to (1, 1).

    Notes
    -----
    ``transform(prediction).quantile(q)`` is the predicted quantile at the level p where a share q was
    observed, linear between levels. `IsotonicCDF` observes at levels that follow the data instead.

    Uncertainty Toolbox 0.1.1 (``get_quantile_recalibrator``) counts ``(mean - y) / std <= z_p``, the share
    above the quantile at 1 - p: for a model that is shifted it moves quantiles away from the
    outcomes. It takes Gaussians only, returns one quantile at a time, and clips levels to those observed.

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
        """Set levels and shares."""
        seen = pit_values(rows.y, rows.prediction, pit=self.pit, random_state=self.random_state)
        mapping = empirical(seen, rows.weights)[0].at_levels(inner_levels(self.levels))
        self.levels_, self.observed_ = mapping.p, mapping.r

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions whose quantiles are moved."""
        return recalibrated(prediction, MonotoneMap(self.levels_, self.observed_))
