"""The Cholesky factor in a file agrees with SciPy in memory, and survives failures."""

from __future__ import annotations

import errno
import functools
import os
import sys
import tempfile
from collections import namedtuple

import numpy as np
import pytest
from builders import noisy_sine
from scipy import linalg

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.backends import get_backend
from fastmcmd.backends.base import NotPositiveDefiniteError
from fastmcmd.errors import MemoryLimitError
from fastmcmd.gram import GramOperator
from fastmcmd.solvers import block_layout, scratch
from fastmcmd.solvers.base import Goal, System
from fastmcmd.solvers.block_layout import choose_layout, least_memory
from fastmcmd.solvers.cholesky import DirectSolver, cholesky_bytes
from fastmcmd.solvers.out_of_core import OutOfCoreCholesky
from fastmcmd.solvers.scratch import ScratchFile

UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}
KERNEL = fm.RBF(0.5)


def operator_of(n, dtype=np.float64, d=3, kernel=KERNEL, backend="cpu"):
    x = np.random.default_rng(n).normal(size=(n, d)).astype(dtype)
    return GramOperator(get_backend(backend, kernel), kernel, x, np.dtype(dtype), 10**9)


def dense(operator, shift):
    return operator.kernel(operator.x.astype(np.float64)) + np.diag(shift)


@functools.cache
def factored(n, dtype):
    """Return a diagonal, SciPy's factor of the matrix with it, and the matrix's condition."""
    shift = np.random.default_rng(20240512).uniform(0.5, 3.0, size=n)
    matrix = dense(operator_of(n, dtype), shift)
    values = linalg.eigvalsh(matrix)
    return shift, linalg.cho_factor(matrix, lower=True), values[-1] / values[0]


def open_files(folder):
    """Return how many files in ``folder`` this process holds, also removed ones, and how many it lists."""
    count = 0
    if sys.platform == "linux":
        for number in os.listdir("/proc/self/fd"):
            try:
                count += os.readlink(f"/proc/self/fd/{number}").startswith(f"{folder}/")
            except OSError:  # the listing itself
                continue
    return count, len(os.listdir(folder))


@pytest.fixture
def writes(monkeypatch):
    """Return a function that replaces the write with the given number by another action."""

    def install(number, action):
        count = 0
        plain = ScratchFile.write

        class Raw:
            def __init__(self, raw):
                self.raw = raw

            def write(self, view):
                nonlocal count
                count += 1
                return action(self.raw, view) if count == number else self.raw.write(view)

            def __getattr__(self, name):
                return getattr(self.raw, name)

        def write(self, offset, numbers):
            if not isinstance(self._raw, Raw):
                self._raw = Raw(self._raw)
            plain(self, offset, numbers)

        monkeypatch.setattr(ScratchFile, "write", write)
        return lambda: count

    return install


# ------------------------------------------------------------------------------------- solutions


@pytest.mark.parametrize("dtype", UNITS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 701])
@pytest.mark.parametrize("factor", [1.0, 1.4, 3.0, 1000.0])
def test_solutions_are_scipys(dtype, n, factor, tmp_path, rng):
    operator = operator_of(n, dtype)
    shift, reference, condition = factored(n, dtype)
    with OutOfCoreCholesky(
        operator, shift, tmp_path, int(factor * least_memory(operator))
    ) as cholesky:
        for k in (1, 2, 37):
            rhs = rng.normal(size=(n, k))
            original = rhs.copy()
            solution = cholesky.solve(rhs)
            expected = linalg.cho_solve(reference, rhs)
            assert solution.dtype == np.float64
            assert solution.shape == (n, k)
            error = np.linalg.norm(solution - expected) / np.linalg.norm(expected)
            assert error <= 4 * UNITS[dtype] * condition
            np.testing.assert_array_equal(rhs, original)
        assert cholesky.solve(np.empty((n, 0))).shape == (n, 0)


def test_several_groups_are_used():
    operator = operator_of(701)
    counts = [
        len(choose_layout(operator, budget).groups(budget))
        for budget in (
            least_memory(operator),
            3 * least_memory(operator),
            1000 * least_memory(operator),
        )
    ]
    assert counts[0] >= 6
    assert 2 <= counts[1] < counts[0]
    assert counts[2] == 1


@pytest.mark.parametrize("rows", [64, 100, 500])
@pytest.mark.parametrize("width", [64, 90])
def test_any_blocks(rows, width, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(block_layout, "_ROWS", rows)
    monkeypatch.setattr(block_layout, "_WIDTHS", (width,))
    monkeypatch.setattr(block_layout, "_GRAM_WORK", 6.0 * width * 33)  # blocks of K of 33 rows
    operator, shift = operator_of(533), rng.uniform(1.0, 2.0, size=533)
    rhs = rng.normal(size=(533, 4))
    for factor in (1.0, 2.5, 100.0):
        with OutOfCoreCholesky(
            operator, shift, tmp_path, int(factor * least_memory(operator))
        ) as cholesky:
            np.testing.assert_allclose(
                dense(operator, shift) @ cholesky.solve(rhs), rhs, rtol=0, atol=1e-11
            )


@pytest.mark.parametrize("backend", ["cpu", "numba", "numpy"])
def test_rows_are_centred_as_for_other_solvers(backend, tmp_path, rng):
    operator = operator_of(300, np.float32, d=40, kernel=fm.RBF(0.02), backend=backend)
    operator = GramOperator(
        operator.backend, operator.kernel, operator.x + np.float32(100), operator.dtype, 10**9
    )
    shift, rhs = np.full(300, 5.0), rng.normal(size=(300, 2))
    with OutOfCoreCholesky(operator, shift, tmp_path, 10**6) as factor:
        miss = dense(operator, shift) @ factor.solve(rhs) - rhs
    assert np.abs(miss).max() < 1e-5  # 100^2 rounded to float32 alone would cost 6e-4 * 40


def test_the_file_is_half_of_the_matrix(tmp_path):
    operator = operator_of(701)
    with OutOfCoreCholesky(operator, np.ones(701), tmp_path, least_memory(operator)) as factor:
        assert 701**2 / 2 * 8 <= factor._open_file().nbytes <= 0.75 * 701**2 * 8


def test_memory_stays_within_the_budget(tmp_path):
    """NumPy's own allocations, traced, never exceed ``budget``."""
    import tracemalloc

    operator = operator_of(1500, d=50)
    OutOfCoreCholesky(operator, np.ones(1500), tmp_path, 5_000_000).close()  # imports, threads
    for budget in (least_memory(operator), 5_000_000):
        tracemalloc.start()
        try:
            OutOfCoreCholesky(operator, np.ones(1500), tmp_path, budget).close()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert 0.3 * budget < peak <= budget + 100_000


def test_progress_reports_groups_and_rate(tmp_path):
    operator, reports = operator_of(300), []

    class Lines(Progress):
        def stage(self, name):
            reports.append(name)

    budget = least_memory(operator)
    OutOfCoreCholesky(operator, np.ones(300), tmp_path, budget, Lines(False, 1e-6)).close()
    count = len(choose_layout(operator, budget).groups(budget))
    assert count >= 3
    for index in range(count):
        assert f"group {index + 1} of {count}" in reports[index]
    rates = [float(line.split(", ")[-1].removesuffix(" GFLOP/s")) for line in reports[1:]]
    assert len(rates) == count
    assert min(rates) >= 0


# -------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("bad", [0, 63, 64, 200, 299])
@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_a_bad_pivot_is_named(bad, factor, tmp_path):
    operator, shift = operator_of(300), np.ones(300)
    shift[bad] = -2.0
    with pytest.raises(NotPositiveDefiniteError) as caught:
        OutOfCoreCholesky(operator, shift, tmp_path, int(factor * least_memory(operator)))
    assert caught.value.index == bad
    del caught
    assert open_files(tmp_path) == (0, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_pivot_that_is_not_a_number_is_named(value, tmp_path):
    operator, shift = operator_of(300), np.ones(300)
    shift[130] = value
    with pytest.raises(NotPositiveDefiniteError) as caught:
        OutOfCoreCholesky(operator, shift, tmp_path, least_memory(operator))
    assert caught.value.index == 130


def test_too_little_memory_says_how_much_is_needed(tmp_path):
    operator = operator_of(300)
    need = least_memory(operator)
    with pytest.raises(
        MemoryLimitError, match=rf"needs {need / 1000:.0f} kB for block columns.* leaves"
    ):
        OutOfCoreCholesky(operator, np.ones(300), tmp_path, need - 1)
    OutOfCoreCholesky(operator, np.ones(300), tmp_path, need).close()
    assert open_files(tmp_path) == (0, 0)


def test_a_missing_folder(tmp_path):
    operator = operator_of(50)
    with pytest.raises(FileNotFoundError, match=r"cache_dir is .*nowhere'; an existing folder"):
        OutOfCoreCholesky(operator, np.ones(50), tmp_path / "nowhere", 10**7)


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "name").write_text("")
    with pytest.raises(OSError, match=r"cache_dir is .*an existing folder"):
        OutOfCoreCholesky(operator_of(50), np.ones(50), tmp_path / "name", 10**7)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written(number, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(OSError, match=r"cache_dir is .*; creating the file") as caught:
        OutOfCoreCholesky(operator_of(50), np.ones(50), tmp_path, 10**7)
    assert caught.value.errno == number
    assert os.strerror(number) in str(caught.value)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write to every folder"
)
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=r"cache_dir is .*; creating the file"):
        OutOfCoreCholesky(operator_of(50), np.ones(50), tmp_path, 10**7)


def test_too_little_space_is_an_error_before_any_work(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda folder: usage(10**6, 0, 15_999))
    operator = operator_of(50)
    monkeypatch.setattr(GramOperator, "prepare", None)  # must not be reached
    with pytest.raises(
        OSError, match=r"cache_dir is .* needs 20 kB there, and 16 kB are free"
    ) as e:
        OutOfCoreCholesky(operator, np.ones(50), tmp_path, 10**7)
    assert e.value.errno == errno.ENOSPC


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be taken ahead")
def test_space_that_cannot_be_taken(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def unknown(*args):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    operator = operator_of(50)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"cache_dir is .*No space left") as caught:
        OutOfCoreCholesky(operator, np.ones(50), tmp_path, 10**7)
    assert caught.value.errno == errno.ENOSPC
    assert open_files(tmp_path) == (0, 0)
    monkeypatch.setattr(os, "posix_fallocate", unknown)
    OutOfCoreCholesky(operator, np.ones(50), tmp_path, 10**7).close()


@pytest.mark.parametrize("number", [1, 4])
def test_a_disk_that_fills_up(number, writes, tmp_path):
    def full(raw, view):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    count = writes(number, full)
    operator = operator_of(300)
    with pytest.raises(
        OSError, match=r"cache_dir is .*; writing the file .*No space left"
    ) as caught:
        OutOfCoreCholesky(operator, np.ones(300), tmp_path, least_memory(operator))
    assert count() == number
    assert caught.value.errno == errno.ENOSPC
    assert open_files(tmp_path) == (0, 0)


def test_short_writes_are_finished(writes, tmp_path, rng):
    count = writes(2, lambda raw, view: raw.write(view[:1001]))
    operator, shift, rhs = operator_of(300), np.ones(300), rng.normal(size=(300, 2))
    with OutOfCoreCholesky(operator, shift, tmp_path, least_memory(operator)) as factor:
        assert count() > 2
        np.testing.assert_allclose(dense(operator, shift) @ factor.solve(rhs), rhs, atol=1e-11)


def test_a_truncated_file_is_an_error(tmp_path):
    factor = OutOfCoreCholesky(operator_of(300), np.ones(300), tmp_path, 10**7)
    factor._file._file._raw.truncate(1000)
    with pytest.raises(OSError, match=r"cache_dir is .*; reading the file .*shorter"):
        factor.solve(np.ones((300, 1)))
    factor.close()


# ------------------------------------------------------------------------------ nothing is left


def test_the_file_is_gone_when_done(tmp_path):
    operator = operator_of(100)
    with OutOfCoreCholesky(operator, np.ones(100), tmp_path, 10**7) as factor:
        if os.name == "posix":
            assert os.listdir(tmp_path) == []  # nothing that a killed process could leave
        if sys.platform == "linux":
            assert open_files(tmp_path) == (1, 0)
    assert open_files(tmp_path) == (0, 0)
    factor.close()
    with pytest.raises(ValueError, match="closed"):
        factor.solve(np.ones((100, 1)))


def test_the_file_is_gone_when_the_factor_is(tmp_path):
    factor = OutOfCoreCholesky(operator_of(100), np.ones(100), tmp_path, 10**7)
    del factor
    assert open_files(tmp_path) == (0, 0)


def test_the_file_is_gone_after_an_error_inside(tmp_path):
    with (
        pytest.raises(RuntimeError, match="mine"),
        OutOfCoreCholesky(operator_of(100), np.ones(100), tmp_path, 10**7),
    ):
        raise RuntimeError("mine")
    assert open_files(tmp_path) == (0, 0)


@pytest.mark.parametrize("number", [1, 3])
def test_the_file_is_gone_after_an_interrupt(number, writes, tmp_path):
    def interrupt(raw, view):
        raise KeyboardInterrupt

    count = writes(number, interrupt)
    operator = operator_of(300)
    with pytest.raises(KeyboardInterrupt) as caught:
        OutOfCoreCholesky(operator, np.ones(300), tmp_path, least_memory(operator))
    assert count() == number
    assert open_files(tmp_path) == (0, 0)
    del caught


def test_systems_with_named_files_only(tmp_path, rng, monkeypatch):
    """As on Windows: a named file that disappears when it is closed, and no POSIX calls."""
    for name in ("posix_fallocate", "posix_fadvise"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(tempfile, "TemporaryFile", tempfile.NamedTemporaryFile)
    operator, shift, rhs = operator_of(300), np.ones(300), rng.normal(size=(300, 2))
    with OutOfCoreCholesky(operator, shift, tmp_path, least_memory(operator)) as factor:
        assert len(os.listdir(tmp_path)) == 1
        np.testing.assert_allclose(dense(operator, shift) @ factor.solve(rhs), rhs, atol=1e-11)
    assert open_files(tmp_path) == (0, 0)
    shift[250] = -3.0
    with pytest.raises(NotPositiveDefiniteError):
        OutOfCoreCholesky(operator, shift, tmp_path, least_memory(operator))
    assert open_files(tmp_path) == (0, 0)


def test_two_at_once_in_a_folder(tmp_path, rng):
    operator, rhs = operator_of(300), rng.normal(size=(300, 2))
    one, other = np.full(300, 1.0), np.full(300, 7.0)
    budget = least_memory(operator)
    with (
        OutOfCoreCholesky(operator, one, tmp_path, budget) as first,
        OutOfCoreCholesky(operator, other, tmp_path, budget) as second,
    ):
        for factor, shift in ((first, one), (second, other), (first, one)):
            np.testing.assert_allclose(dense(operator, shift) @ factor.solve(rhs), rhs, atol=1e-11)


# ---------------------------------------------------------------------------------- through cce


def outputs_of(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 3))
    y = noisy_sine(rng, x)
    return x, y, y + 0.2 * rng.normal(size=n)


@pytest.fixture
def two_threads():
    """Limits that a factor in memory exceeds depend on the scratch space of threads."""
    fm.set_num_threads(2)
    yield
    fm.set_num_threads(None)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("y_kernel", "form"), [(fm.RBF(0.5), "feature"), (fm.Laplacian(1.0), "dense")]
)
def test_cce_with_the_factor_on_disk(y_kernel, form, tmp_path):
    x, y, p = outputs_of(1400)
    options = {"solver": "cholesky", "y_kernel": y_kernel, "x_kernel": KERNEL, "lam": 0.1}
    in_memory = fm.cce(x, y, p, at=x[:40], **options)
    limit = "20MB" if form == "feature" else "25MB"
    with pytest.raises(MemoryLimitError, match=r"cache_dir"):
        fm.cce(x, y, p, at=x[:40], memory_limit=limit, **options)
    result = fm.cce(x, y, p, at=x[:40], memory_limit=limit, cache_dir=tmp_path, **options)
    assert result.info.form == form
    assert (in_memory.info.cache, result.info.cache) == ("packed", "disk")
    assert result.info.peak_bytes <= 25_000_000
    np.testing.assert_allclose(result.values, in_memory.values, rtol=0, atol=1e-10)
    assert open_files(tmp_path) == (0, 0)


def test_factors_serve_later_systems(tmp_path, rng):
    operator = operator_of(300)
    operator.budget = 2 * least_memory(operator)
    assert cholesky_bytes(operator) > operator.budget
    solver, goal = DirectSolver(operator, tmp_path), Goal(1e-8, 1.0)
    shift, progress = np.full(300, 3.0), Progress(False, 1e-8)
    matrix = dense(operator, shift)
    for _ in range(2):
        rhs = rng.normal(size=(300, 2))
        (solution,) = solver.solve([System(rhs, shift)], goal, progress, keep=True)
        np.testing.assert_allclose(solution.value, np.linalg.solve(matrix, rhs), rtol=1e-10)
        if sys.platform == "linux":
            assert open_files(tmp_path)[0] == 1
    solver.close()
    assert open_files(tmp_path) == (0, 0)
    solver.solve([System(rhs, shift), System(rhs, 2 * shift)], goal, progress)
    assert open_files(tmp_path) == (0, 0)


@pytest.mark.usefixtures("two_threads")
def test_no_file_is_left_by_an_error(tmp_path, monkeypatch):
    x, y, p = outputs_of(1400)
    options = {"solver": "cholesky", "y_kernel": fm.Laplacian(1.0), "x_kernel": KERNEL, "lam": 0.1}

    def broken(self, rhs):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(OutOfCoreCholesky, "solve", broken)
    with pytest.raises(OSError, match="Input/output") as caught:
        fm.cce(x, y, p, memory_limit="25MB", cache_dir=tmp_path, **options)
    assert caught.tb is not None  # the frames are still there, and hold the solver
    assert open_files(tmp_path) == (0, 0)
