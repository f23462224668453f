"""The command line. To add a command, write a file in this folder and list it in `COMMANDS`."""

from fastmcmd.cli.app import main

__all__ = ["main"]
