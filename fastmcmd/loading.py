"""`fastmcmd.load`: importing this module registers the readers of all classes that can be saved."""

from fastmcmd import estimator, recalibration  # noqa: F401 (both register what they can read)
from fastmcmd.storage import load

__all__ = ["load"]
