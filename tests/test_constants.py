"""A constant on which several modules must agree is defined in one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fastmcmd"
# The only module that writes it, and how it is written.
CONSTANTS = {
    "unit roundoff": (
        "kernels/base.py",
        r"= float\(np\.finfo\(np\.float64\)\.eps\)|= 2\.0\*\*-5[23]",
    ),
    "integers that float64 holds": ("_base/checks.py", r"1 << 53"),
    "levels inside (0, 1)": ("predictive/base.py", r"2\.0\*\*-1074|2\.0\*\*-54"),
    "bytes of prepared rows": ("gram/cost.py", r"\* 1\.02\b"),
    "mass left out by quadrature": ("predictive/expectation.py", r"TAIL\w* = 1e-16"),
    "signs of a test of relevance": ("inference/relevance.py", r"SIGNS = 199"),
    "rows from which landmarks come": (
        "inference/smoother.py",
        r"CANDIDATES\b.* = \(?\s*10_000(?!  # rows of the)",
    ),
    "support of a smoother": ("inference/smoother.py", r"SUPPORTED = 0\.5"),
    "leverage of a row": ("inference/local_corrections.py", r"MOST_LEVERAGE = "),
    "range of summed counts": (
        "inference/corrections.py",
        r"\b_?(COUNTS_)?(BELOW|ABOVE)\b.* = \(?\s*[13]",
    ),
    "rows that probe landmarks": ("distributed/cost.py", r"PROBES = 128"),
    "simulated draws of a variance": ("inference/comparison.py", r"MULTIPLIERS = "),
    "least simulations": ("inference/inputs.py", r"LEAST_SIMULATIONS = "),
    "range of exact squares": ("predictive/numerics/spread.py", r"1e-280, 1e290"),
    "deviation beyond a sample": ("solvers/certify.py", r"SPREAD = 2\.0"),
    "most products of CG": ("solvers/cg.py", r"MOST_PRODUCTS = "),
    "half-width of a bump": ("embedding/densities.py", r"REACH = 6"),
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
