"""A constant on which several modules must agree is defined in one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fastmcmd"
# The only module that writes it, and how it is written.
CONSTANTS = {
    "unit roundoff": ("kernels/base.py", r"finfo\(np\.float64\)\.eps\) / 2|= 2\.0\*\*-53"),
    "integers that float64 holds": ("_base/checks.py", r"1 << 53"),
    "levels inside (0, 1)": ("predictive/base.py", r"2\.0\*\*-1074|2\.0\*\*-54"),
    "bytes of prepared rows": ("gram/cost.py", r"\* 1\.02\b"),
    "mass left out by quadrature": ("predictive/expectation.py", r"TAIL\w* = 1e-16"),
    "float32": ("gram/precision.py", r"^_?FLOAT32 ="),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_stands_in_one_module(name):
    place, pattern = CONSTANTS[name]
    sources = {
        str(path.relative_to(PACKAGE).as_posix()): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }
    holders = [path for path, text in sources.items() if re.search(pattern, text, re.MULTILINE)]
    assert holders == [place]
