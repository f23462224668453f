"""``info.peak_bytes`` is the memory that a call took, and a call beyond the limit takes next to none."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from builders import STATUS_FIELD, noisy_sine

import fastmcmd as fm

FACTOR = 2.0  # that ``peak_bytes`` and the measured peak may differ by, see `low_rank_peak`
ALLOWANCE = 12_000_000  # of the measured peak: buffers of BLAS, stacks of threads, code paged in

CODE = (
    STATUS_FIELD
    + """
import ctypes, sys
import numpy as np
import fastmcmd as fm

n, d, options, points, tails = eval(sys.argv[1])
rng = np.random.default_rng(0)
x = rng.normal(size=(n, d))
mean, scale = np.sin(x[:, 0]), np.full(n, 0.3)
y = mean + 0.3 * (rng.standard_t(tails, n) if tails else rng.normal(size=n))
p = fm.StudentT(tails, mean, scale) if tails else y + rng.normal(size=n)
at = rng.normal(size=(points, d)) if points else None
few = p.take(np.arange(600)) if tails else p[:600]
fm.cce(x[:600], y[:600], few, **options, at=None if at is None else at[:3000])
ctypes.CDLL(None).malloc_trim(0)


open("/proc/self/clear_refs", "w").write("5")
before = field("VmRSS:")
info = fm.cce(x, y, p, at=at, **options).info
print(field("VmHWM:") - before, info.peak_bytes, info.solver)
"""
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("n", "d", "options"),
    [
        (30000, 2, "dict(solver='lowrank', x_kernel=fm.RBF(0.5), tol=1e-4)"),
        (100000, 2, "dict(solver='lowrank', x_kernel=fm.RBF(0.5), rank=50, tol=1.0)"),
        (20000, 8, "dict(solver='lowrank', x_kernel=fm.RBF(0.1), rank=300, tol=1.0)"),
    ],
)
def test_peak_bytes_of_the_low_rank_form_are_those_measured(n, d, options):
    """The plan was 4 MB for a peak of 170 MB."""
    assert_stated(n, d, options, 0, "lowrank")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("n", "d", "points"), [(3000, 2, 300_000), (2000, 8, 200_000)])
def test_peak_bytes_of_many_points_are_those_measured(n, d, points):
    """Images of a million points were 240 MB: they are made in blocks."""
    options = "dict(solver='cg', x_kernel=fm.RBF(0.1), y_kernel=fm.RBF(0.5), lam=0.1)"
    assert_stated(n, d, options, points, "cg")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_bytes_of_heavy_tails_are_those_measured():
    """Features of all outputs counted, 2.2 GB of them, although they are computed in blocks."""
    options = "dict(x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(0.5), lam=0.01, tol=1e-5)"
    assert_stated(8000, 2, options, 0, "cg", tails=1.5)


def assert_stated(n, d, options, points, expected_solver, tails=None):
    """Check ``peak_bytes`` of a call in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-c", CODE, f"({n}, {d}, {options}, {points}, {tails})"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    peak, stated_peak, solver = process.stdout.split()
    assert solver == expected_solver
    assert int(stated_peak) <= FACTOR * int(peak)
    assert int(peak) - ALLOWANCE <= FACTOR * int(stated_peak)


@pytest.mark.parametrize("solver", ["auto", "cg", "lowrank", "cholesky"])
@pytest.mark.parametrize("draws", [1, 20, None])
def test_a_refusal_comes_before_anything_is_allocated(solver, draws):
    """A limit of 1 kB raised its error only after 292 MB had been allocated."""
    rng, n = np.random.default_rng(0), 30000
    x = rng.normal(size=(n, 3))
    y = noisy_sine(rng, x)
    prediction = fm.Gaussian(y, np.full(n, 0.4))
    if draws is not None:
        prediction = y[:, None] + rng.normal(size=(n, draws))
    tracemalloc.start()
    try:
        with pytest.raises(fm.MemoryLimitError, match="memory_limit is 1 kB"):
            fm.cce(x, y, prediction, x_kernel=fm.RBF(0.5), memory_limit=1000, solver=solver)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000  # less than the 8 MB of blocks that any call needs


@pytest.mark.slow
def test_auto_takes_landmarks_where_cg_exceeds_the_budget():
    rng, n = np.random.default_rng(1), 30000
    x = rng.normal(size=(n, 2))
    y = noisy_sine(rng, x)
    options = {"x_kernel": fm.RBF(0.5), "tol": 1e-3, "memory_limit": "70MB", "backend": "cpu"}
    for lam in (0.1, 0.3):  # with and without an attempt at landmarks before CG
        result = fm.cce(x, y, y + 0.1, lam=lam, **options)
        assert result.info.solver == "lowrank"
        assert result.error_bound <= 1e-3
    with pytest.raises(fm.MemoryLimitError):
        fm.cce(x, y, y + 0.1, solver="cg", **options)


@pytest.mark.slow
def test_auto_takes_landmarks_below_the_rows_it_usually_looks_at_them(monkeypatch):
    """The iterates of CG exceed the limit; blocks of rows fit."""
    rng, n = np.random.default_rng(1), 6000
    x = rng.normal(size=(n, 1))
    y = noisy_sine(rng, x)
    draws = y[:, None] + 0.3 * rng.normal(size=(n, 10))
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(2.0), "tol": 1e-4}
    options |= {"memory_limit": "52MB", "backend": "cpu"}
    monkeypatch.setattr("fastmcmd._base.threads._thread_count", 2)  # each has tiles of its own
    monkeypatch.setattr("fastmcmd.estimate.lowrank_choice._OF_COLUMNS", {1: (n + 1, 0.0)})
    with pytest.raises(fm.MemoryLimitError):
        fm.cce(x, y, draws, solver="cg", **options)
    expected = fm.cce(x, y, draws, solver="lowrank", **options)
    result = fm.cce(x, y, draws, **options)
    assert result.info.solver == "lowrank"
    assert any("too small for cg" in note for note in result.info.notes)
    assert np.all(
        np.abs(result.values - expected.values) <= result.error_bound + expected.error_bound
    )
