"""A small run of the program that attacks all readers of files; see ``tests/adversary/files.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_process import environment

PROGRAM = Path(__file__).parent / "adversary" / "files.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process as on Linux")
@pytest.mark.parametrize(("seeds", "how"), [((14, 15), None), ((3,), "member"), ((4,), "forge")])
def test_no_file_ends_the_process_or_lies(seeds, how):
    """Few altered files reach the checks of saved objects: exchanged members, and forged contents."""
    command = [sys.executable, PROGRAM, "--count", "150", "--seed", *map(str, seeds)]
    if how:
        command += ["--how", how]
        for kind in ("estimator", "recalibrator", "accumulator of the CCE"):
            command += ["--kind", kind]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env={**environment(), "OMP_NUM_THREADS": "1"},
        cwd=os.fspath(PROGRAM.parent),
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
