"""The command line. A new command is a file here and a line in `COMMANDS`."""

from fastmcmd.cli.app import main

__all__ = ["main"]
