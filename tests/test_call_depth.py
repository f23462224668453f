"""The number of frames between `cce` and the core: a reader follows a call through few functions."""

from __future__ import annotations

import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm

PACKAGE = str(Path(fm.__file__).parent)
# Expressions are no functions that a reader has to open. Before Python 3.12 cached properties are of the
# package, later of the standard library.
COMPREHENSIONS = {"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>"}
# Loops over rows that have nothing to do with the kernel matrix: checks, norms, hashes, closed forms.
LOOPS = {
    "all_finite", "matern_of_normal_pairs", "matern_of_normals", "rbf_of_normal_pairs", "rbf_of_normals",
    "row_hashes", "row_squares",
}  # fmt: skip
BACKPORT = str(Path(PACKAGE, "_base", "cached.py"))


def deepest(call) -> list[str]:
    """Return the functions of the package between ``call`` and its deepest call of the core."""
    longest: list[str] = []

    def look(frame: types.FrameType | None, event: str, function: object) -> None:
        nonlocal longest
        if event != "c_call" or "fastmcmd._core" not in str(getattr(function, "__module__", "")):
            return
        if function.__name__ in LOOPS:
            return
        names = [function.__name__]
        while frame is not None:
            code = frame.f_code
            ours = code.co_filename.startswith(PACKAGE) and code.co_filename != BACKPORT
            if ours and code.co_name not in COMPREHENSIONS:
                names.append(f"{Path(code.co_filename).name}:{code.co_name}")
            frame = frame.f_back
        if len(names) > len(longest):
            longest = names

    before = sys.getprofile()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return longest[:0:-1]


SMOOTH, NARROW, KINKED = fm.RBF(0.05), fm.RBF(2.0), fm.Laplacian(20.0)
MOST = 10
PRECONDITIONED = {"solver": "cg", "x_kernel": NARROW, "lam": 1e-5, "y_kernel": SMOOTH, "tol": 1e-4}
LOW_RANK = {"solver": "lowrank", "x_kernel": SMOOTH, "tol": 1e-3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "options"),
    [
        pytest.param(60, {}, id="small"),
        pytest.param(600, {}, id="default"),
        pytest.param(600, {"solver": "cholesky"}, id="cholesky"),
        pytest.param(2500, {"solver": "cg", "x_kernel": fm.RBF(0.5)}, id="cg"),
        pytest.param(2500, {"x_kernel": fm.RBF(0.5)}, id="auto calls cg"),
        pytest.param(2500, PRECONDITIONED, id="preconditioned cg"),
        pytest.param(300, {"solver": "cholesky", "y_kernel": KINKED}, id="dense"),
        pytest.param(300, {"solver": "cg", "y_kernel": KINKED}, id="cg below blocks of points"),
        pytest.param(2500, LOW_RANK, id="low rank"),
        pytest.param(2500, LOW_RANK | {"certificate": "sampled"}, id="low rank, sampled"),
    ],
)
def test_few_frames_from_cce_to_the_core(n, options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    y = x[:, 0] + rng.normal(size=n)
    results = []
    frames = deepest(lambda: results.append(fm.cce(x, y, fm.Gaussian(x[:, 0], 1.0), **options)))
    assert frames[0] == "cce.py:cce"
    assert len(frames) <= MOST, " > ".join(frames)
    if options is PRECONDITIONED:
        assert any(note.startswith("preconditioned with") for note in results[0].info.notes)
