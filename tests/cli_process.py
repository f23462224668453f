"""The command line as a process, as people and scripts start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fastmcmd as fm

# Processes run the package that the tests run, wherever they start and whether it is installed.
ROOT = str(Path(fm.__file__).parents[1])


def environment(*folders):
    path = [*map(str, folders), ROOT, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def run_cli(*arguments, **options):
    options.setdefault("env", environment())
    return subprocess.run(
        [sys.executable, "-m", "fastmcmd", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )
