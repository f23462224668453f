"""The cumulative distribution of PIT values, with a band for all levels together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.checks import check_choice, check_count
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.tables import ColumnTable
from fastmcmd.metrics.count_bands import check_level, even_bands
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import metric
from fastmcmd.metrics.pit import PITS, pit_of_rows, sort_pit
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["PITEcdf", "pit_ecdf"]


@dataclass(frozen=True, eq=False, repr=False)
class PITEcdf(Plotted, ColumnTable):
    """Share of PIT values up to each level, with a simultaneous band of a calibrated model.

    Attributes
    ----------
    expected : ndarray (j,)
        Levels, evenly spaced inside (0, 1).
    observed : ndarray (j,)
        Share of PIT values up to each level.
    low, high : ndarray (j,)
        Band that holds all shares together with probability ``level``, if PIT values are uniform.
    level : float
        Level of the band.
    n : int
        Rows.
    pit : str
        Kind of PIT.
    p_value : float
        P-value of a uniform PIT: that of the share farthest in a tail, for all levels together.
    """

    picture: ClassVar[str] = "pit_ecdf"
    expected: Array
    observed: Array
    low: Array
    high: Array
    level: float
    n: int
    pit: str
    p_value: float

    @property
    def differences(self) -> Array:
        """Observed minus expected shares (j,)."""
        return np.asarray(self.observed - self.expected)

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns as lists, by name."""
        names = ("expected", "observed", "low", "high")
        return {name: getattr(self, name).tolist() for name in names}

    def __repr__(self) -> str:
        worst = int(np.argmax(np.abs(self.differences)))
        return (
            f"PITEcdf of {self.n:,} rows ({self.pit}): p = {self.p_value:.3g} for a uniform PIT; largest "
            f"difference {self.differences[worst]:+.4f} at level {self.expected[worst]:.2f}"
        )


@metric
def pit_ecdf(
    y: ArrayLike,
    prediction: PredictionLike,
    points: int = 100,
    *,
    level: float = 0.95,
    pit: str = "randomized",
    random_state: RandomState = 0,
    nan_policy: NanPolicy = "raise",
) -> PITEcdf:
    """Return the shares of PIT values up to each level, with a simultaneous band.

    Parameters
    ----------
    points : int
        Levels are ``1/points, ..., (points - 1)/points``.
    level : float
        Probability with which the band holds the shares at all levels together, if the PIT is uniform.
    pit : {"randomized", "mid", "plain"}
        See `pit_values`. For counts, only the randomised PIT of a calibrated model is uniform.
    nan_policy : {"raise", "omit"}
        What to do with rows that hold NaN.

    Returns
    -------
    PITEcdf

    Notes
    -----
    See Säilynoja, Bürkner & Vehtari, *Graphical Test for Discrete Uniformity and its Applications in
    Goodness-of-Fit Evaluation and Multiple Sample Comparison* (Statistics and Computing, 2022). The band is
    exact for independent rows. A histogram depends on its bins; this curve does not.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> curve = fm.metrics.pit_ecdf(y, (np.zeros(1000), 1.2))
    >>> bool(curve.p_value < 0.001), bool((curve.observed < curve.low).any())
    (True, True)
    """
    check_choice(pit, "pit", PITS)
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    level, points = check_level(level), check_count(points, "points", least=2)
    rows = read(y, prediction, None, nan_policy)
    values = sort_pit(pit_of_rows(rows.y, rows.prediction, pit, random_state))
    expected = np.arange(1, points) / points
    count = values.up_to(expected)
    bands = even_bands(points, values.n, cumulative=True)
    low, high = bands.band(level)
    n = values.n
    return PITEcdf(expected, count / n, low / n, high / n, level, n, pit, bands.p_value(count))
