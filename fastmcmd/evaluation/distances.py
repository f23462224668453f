"""How far a bootstrap sample lies from the sample itself, for measures that are norms.

ECE and its kin are norms of a curve of differences that is 0 for a right model. Sampling noise only ever
adds to a norm: percentiles of resampled norms lie above the truth, and never reach 0. But whatever the true
curve is, by the triangle inequality the norm of the sample's curve is off by no more than the norm of the
difference of both curves, and the bootstrap tells how large that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fastmcmd.evaluation.context import Context
from fastmcmd.evaluation.nulls import curve_number
from fastmcmd.metrics.reliability_sums import ECE_LEVELS, TOOLBOX_LEVELS, ReliabilityCurve

__all__ = ["DISTANCES", "Distance"]

Distance = Callable[[Context], float]


def _of_curve(name: str) -> Callable[[Context], Distance]:
    """Return distances of reliability curves, by the norm that the measure is."""
    kind, levels = (
        ("quantile", ECE_LEVELS) if name == "regression_ece" else ("interval", TOOLBOX_LEVELS)
    )

    def curve(context: Context) -> ReliabilityCurve:
        return context.reliability(kind, levels)

    def distances(context: Context) -> Distance:
        observed = curve(context).observed

        def distance(again: Context) -> float:
            other = curve(again)
            shifted = replace(other, observed=other.expected + (other.observed - observed))
            return curve_number(name, shifted)

        return distance

    return distances


def _ence(context: Context) -> Distance:
    ratio = context.variance_curve.rmse / context.variance_curve.rmv

    def distance(again: Context) -> float:
        other = again.variance_curve
        return float(np.abs(other.rmse / other.rmv - ratio).mean())

    return distance


def _uce(context: Context) -> Distance:
    gaps = context.variance_curve.rmse**2 - context.variance_curve.rmv**2

    def distance(again: Context) -> float:
        other = again.variance_curve
        moved = np.abs(other.rmse**2 - other.rmv**2 - gaps)
        return float(other.mass @ moved / other.mass.sum())

    return distance


DISTANCES: dict[str, Callable[[Context], Distance]] = {
    **{
        name: _of_curve(name)
        for name in (
            "regression_ece",
            "rms_calibration_error",
            "mean_absolute_calibration_error",
            "miscalibration_area",
        )
    },
    "ence": _ence,
    "uce": _uce,
}
