"""One factor for all standard deviations, by maximum likelihood."""

from __future__ import annotations

import numpy as np

from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive import Predictive
from fastmcmd.recalibration.base import Recalibrator
from fastmcmd.recalibration.bins import positive_std
from fastmcmd.recalibration.rescaled import rescale
from fastmcmd.recalibration.state import check_number

__all__ = ["StdScaling"]


class StdScaling(Recalibrator):
    """Multiplies all standard deviations by ``s``, the root mean square of ``z = (y - mean) / std``.

    Attributes
    ----------
    scale_ : float
        The factor s.

    Notes
    -----
    ``s^2 = mean z^2`` minimises ``T log s + sum (y - mu)^2 / (2 s^2 sigma^2)``, the negative log likelihood
    of Gaussians. Levi, Gispan, Giladi & Fetaya, *Evaluating and Calibrating Uncertainty Prediction in
    Regression Tasks* (2019), print that objective in equation 12 with the wrong sign and factor of its
    first term, and minimise numerically. Gaussians stay Gaussians and draws draws; other continuous
    distributions are stretched around their means (`Rescaled`), counts are refused.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.recalibration import StdScaling
    >>> y = np.array([-3.0, 3.0])
    >>> StdScaling().fit((np.zeros(2), 1.0), y)
    StdScaling(), fitted: scale_=3
    """

    scale_: float

    def __init__(self) -> None:
        pass

    def check_state(self) -> None:
        """Raise ValueError where the factor is none."""
        super().check_state()
        check_number(self.scale_, "scale_")

    def learn(self, rows: Outcomes) -> None:
        """Set the factor."""
        rescale(rows.prediction.take(np.arange(1)), 1.0)  # refuses counts before, not after
        z = (rows.y - rows.prediction.mean) / positive_std(rows.prediction)
        scale = float(np.sqrt(rows.mean(z * z)))
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(
                f"the root mean square of (y - mean) / std is {scale:g}; a positive finite one is needed"
            )
        self.scale_ = scale

    def apply(self, prediction: Predictive) -> Predictive:
        """Return predictions with scaled standard deviations."""
        return rescale(prediction, self.scale_)
