"""Plots with matplotlib (``pip install 'fastmcmd[plot]'``). Functions take ``ax=`` and return the axes."""

from fastmcmd.plots.calibration import pit_histogram, reliability, variance
from fastmcmd.plots.congruence import (
    cce_histogram,
    cce_over_inputs,
    cce_projection,
    downsampled_cce,
    witness,
)
from fastmcmd.plots.diagnosis import diagnosis
from fastmcmd.plots.difference_map import difference_map
from fastmcmd.plots.inference import congruence_test, missing_mass, rejection, verdict
from fastmcmd.plots.kernel_choice import kernel_choice, kernel_power
from fastmcmd.plots.monitor import evidence
from fastmcmd.plots.panels import evaluation
from fastmcmd.plots.predictions import fan, ordered_intervals
from fastmcmd.plots.probabilities import isotonic_reliability, murphy
from fastmcmd.plots.projection import project
from fastmcmd.plots.regions import weak_regions
from fastmcmd.plots.spread import group_calibration, residuals, sharpness
from fastmcmd.plots.uniformity import pit_ecdf, rank_histogram
from fastmcmd.plots.values import cumulative, histogram, over_inputs, over_plane

__all__ = [
    "cce_histogram",
    "cce_over_inputs",
    "cce_projection",
    "congruence_test",
    "cumulative",
    "diagnosis",
    "difference_map",
    "downsampled_cce",
    "evaluation",
    "evidence",
    "fan",
    "group_calibration",
    "histogram",
    "isotonic_reliability",
    "kernel_choice",
    "kernel_power",
    "missing_mass",
    "murphy",
    "ordered_intervals",
    "over_inputs",
    "over_plane",
    "pit_ecdf",
    "pit_histogram",
    "project",
    "rank_histogram",
    "rejection",
    "reliability",
    "residuals",
    "sharpness",
    "variance",
    "verdict",
    "weak_regions",
    "witness",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
