"""An evaluation as one HTML page. To add a part, write a function in `sections.py`."""

from fastmcmd.report.sections import write_report

__all__ = ["write_report"]
