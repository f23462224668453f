"""Rows of numbers in memory or on disk, read block by block and never loaded whole."""

from fastmcmd.rows.opening import open_rows
from fastmcmd.rows.output import Output, check_apart, files_of, open_out
from fastmcmd.rows.source import RowSource
from fastmcmd.rows.table import Rows, as_blocks

__all__ = [
    "Output",
    "RowSource",
    "Rows",
    "as_blocks",
    "check_apart",
    "files_of",
    "open_out",
    "open_rows",
]
