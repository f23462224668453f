"""A long stream in miniature; `simulations/long_stream.py` runs it with 10,000,000 rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_stream_in_windows_takes_constant_memory_and_has_the_numbers_of_its_rows():
    pytest.importorskip("psutil", reason="psutil is not installed")
    program = Path(__file__).parents[1] / "simulations" / "long_stream.py"
    process = subprocess.run(
        [sys.executable, "-W", "ignore", program, "60000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "60,000 rows" in process.stdout
