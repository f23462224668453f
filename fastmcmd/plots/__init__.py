"""Pictures, with matplotlib (``pip install 'fastmcmd[plot]'``). Each takes ``ax=`` and returns it."""

from fastmcmd.plots.congruence import cce_histogram, cce_over_inputs, witness
from fastmcmd.plots.downsampled import downsampled_cce

__all__ = ["cce_histogram", "cce_over_inputs", "downsampled_cce", "witness"]
