"""`fastmcmd.load`. Importing this module registers the readers of all classes that can be saved."""

from fastmcmd import estimator, recalibration  # noqa: F401 (these register what they can read)
from fastmcmd.storage import load
from fastmcmd.streaming import congruence, monitor  # noqa: F401

__all__ = ["load"]
