"""An evaluation as one HTML page. A new part of the page is a function in `sections.py`."""

from fastmcmd.report.sections import write_report

__all__ = ["write_report"]
