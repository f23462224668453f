"""Pictures, with matplotlib (``pip install 'fastmcmd[plot]'``). Each takes ``ax=`` and returns it."""

from fastmcmd.plots.calibration import pit_histogram, reliability, variance
from fastmcmd.plots.congruence import cce_histogram, cce_over_inputs, cce_projection, witness
from fastmcmd.plots.downsampled import downsampled_cce
from fastmcmd.plots.evaluation import evaluation

__all__ = [
    "cce_histogram",
    "cce_over_inputs",
    "cce_projection",
    "downsampled_cce",
    "evaluation",
    "pit_histogram",
    "reliability",
    "variance",
    "witness",
]
