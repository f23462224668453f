"""The command line, called in this process, which is quick, or started as a user's shell starts it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import fastmcmd as fm
from fastmcmd.cli import main

# Processes run the package under test, wherever they start and whether or not it is installed.
ROOT = str(Path(fm.__file__).parents[1])


def environment(*folders):
    path = [*map(str, folders), ROOT, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def start_cli(*arguments, **options):
    """Run ``python -m fastmcmd`` and return the completed process; each start takes a second."""
    options.setdefault("env", environment())
    return subprocess.run(
        [sys.executable, "-m", "fastmcmd", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def run_cli(*arguments, stderr=None):
    """Call the command line in this process, and return exit status and texts as `start_cli` does.

    Warnings are handled as in a new process, not turned into errors by the settings of the tests.
    ``stderr`` may be a `terminal.Terminal`.
    """
    command = [*map(str, arguments)]
    out, err = io.StringIO(), io.StringIO() if stderr is None else stderr
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        for quiet in (DeprecationWarning, PendingDeprecationWarning, ImportWarning):
            warnings.simplefilter("ignore", quiet)
        try:
            status = main(command)
        except SystemExit as exit_info:  # argparse: --help, or unknown options
            status = exit_info.code or 0
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())
