"""Scores and calibration, as plain functions. A new one is a function in its family's file."""

from fastmcmd.metrics.calibration import ence, pit_values, regression_ece
from fastmcmd.metrics.scores import nll

__all__ = ["ence", "nll", "pit_values", "regression_ece"]
