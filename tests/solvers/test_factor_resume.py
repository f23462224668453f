"""A long Cholesky factorisation resumes after any interruption."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
import test_out_of_core
from killing import Stopped, killed_until_done, stopping
from test_out_of_core import dense

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.backends.base import NotPositiveDefiniteError
from fastmcmd.backends.cpu import CpuBackend
from fastmcmd.checkpoint import Checkpoint, stages_of
from fastmcmd.estimate import resume, task
from fastmcmd.solvers import block_layout, cholesky
from fastmcmd.solvers.base import Goal, System
from fastmcmd.solvers.block_layout import whole_factor_fits
from fastmcmd.solvers.cholesky import DirectSolver, SolutionState, cholesky_bytes
from fastmcmd.solvers.factor_file import FactorStage
from fastmcmd.solvers.out_of_core import OutOfCoreCholesky
from fastmcmd.solvers.scratch import ScratchFile

N = 440
PIECES = 7  # block columns of 64
ON_DISK = {"n": 1600, "memory_limit": "20MB"}  # with cache_dir: 25 block rows, several groups
CASES = {
    "cpu float64": {},
    "cpu float32": {"dtype": "float32", "tol": 1e-3},
    "numba": {"backend": "numba"},
    "numpy": {"backend": "numpy"},
    "two diagonals": {"lam_prime": 3e-3},
    "two designs": {"other": True},
    "dense": {"y_kernel": fm.Laplacian(1.0), "tol": 1e-5},
    "dense, two designs": {"y_kernel": fm.Laplacian(1.0), "tol": 1e-5, "other": True},
}


def small(setattr):
    """Save small factors too, in small pieces, each at once; fix the number of threads.

    Buffers of threads count against the memory limits of these tests.
    """
    fm.set_num_threads(2)
    setattr(resume, "_EVERY", 0.0)
    setattr(cholesky, "_LONG", 0.0)
    setattr(block_layout, "_WIDTHS", (64,))
    get_backend = task.get_backend
    setattr(task, "get_backend", lambda *arguments: replace(get_backend(*arguments), tile=64))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch.setattr)
    yield
    fm.set_num_threads(None)


def run(case, checkpoint=None, n=N, **changed):
    options = {"lam": 1e-3, "memory_limit": "200MB", **CASES[case], **changed}
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 3))
    y, z = x[:, 0] + rng.normal(size=n), x[:, 0] + rng.normal(size=n)
    x_prime = rng.normal(size=(n, 3)) if options.pop("other", False) else x
    return fm.mcmd(
        x[:300], x, y, x_prime, z, x_kernel=fm.RBF(0.5), solver="cholesky", checkpoint=checkpoint,
        **options,
    )  # fmt: skip


def operator_of(*args, **options):
    operator = test_out_of_core.operator_of(*args, **options)
    operator.backend = replace(operator.backend, tile=64)
    return operator


def factors(folder):
    return [name for name in os.listdir(folder) if name.endswith(".factor")]


def as_killed(patch):
    """Leave files as a killed process does."""
    close = OutOfCoreCholesky.close

    def left(self):
        if isinstance(sys.exc_info()[1], Stopped) and self._file is not None:
            self._file._file.close(leave=True)
        close(self)

    patch.setattr(OutOfCoreCholesky, "close", left)


def count_rows(patch, rows_made, before=lambda: None):
    """Add to ``made`` for each piece that is made."""
    plain = OutOfCoreCholesky._factor_column

    def work(self, *args):
        rows_made.append(args[0])
        before()
        plain(self, *args)

    patch.setattr(OutOfCoreCholesky, "_factor_column", work)


def again_and_again(patch, rows_made, work, saves=1):
    """Run ``work`` until it ends, each time as if killed after some saves; return its result."""
    count_rows(patch, rows_made)
    for stops in range(100):
        with pytest.MonkeyPatch.context() as inner:
            stopping(inner, saves)
            as_killed(inner)
            try:
                return work(), stops
            except Stopped:
                continue
    raise AssertionError("no progress")


def assert_same(result, expected):
    np.testing.assert_array_equal(result.values, expected.values)
    np.testing.assert_array_equal(result.error_bounds, expected.error_bounds)
    assert result.info.cache == expected.info.cache
    assert result.info.passes == expected.info.passes
    assert result.info.peak_bytes == expected.info.peak_bytes


@pytest.mark.parametrize("case", CASES)
def test_stopped_after_each_row(case, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    expected, packed = run(case, tmp_path / "other.ckpt"), run(case)
    rows_made = []
    with monkeypatch.context() as patch:
        result, stops = again_and_again(patch, rows_made, lambda: run(case, path))
    assert_same(result, expected)
    # Each run saves one piece and loses the next one; nothing else is computed twice.
    solves = 2 if "two" in case else 1
    count = solves * PIECES
    assert stops >= count
    assert len(rows_made) <= 2 * count
    assert expected.info.cache == packed.info.cache == "packed"
    assert (
        np.abs(result.values - packed.values) <= result.error_bounds + packed.error_bounds
    ).all()
    assert os.listdir(tmp_path) == []


def test_stopped_where_memory_is_too_small(tmp_path, monkeypatch):
    folder, path = tmp_path / "cache", tmp_path / "run.ckpt"
    folder.mkdir()
    options = {**ON_DISK, "cache_dir": folder}
    expected = run("cpu float64", **options)
    assert expected.info.cache == "disk"
    rows_made = []
    with monkeypatch.context() as patch:
        result, stops = again_and_again(
            patch, rows_made, lambda: run("cpu float64", path, **options), 6
        )
    assert_same(result, expected)
    assert stops >= 4
    assert len(rows_made) <= 25 + stops
    assert os.listdir(folder) == []
    assert not path.exists()


@pytest.mark.parametrize(("error", "left"), [(KeyboardInterrupt, 1), (RuntimeError, 0)])
@pytest.mark.parametrize("where", ["beside", "cache_dir"])
def test_the_file_stays_for_an_interrupt_only(where, error, left, tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "_EVERY", 3600.0)
    folder, path = tmp_path / "cache", tmp_path / "run.ckpt"
    folder.mkdir()
    options = {**ON_DISK, "cache_dir": folder} if where == "cache_dir" else {}
    pieces = 25 if options else PIECES
    work = folder if options else tmp_path
    rows_made = []

    def ending():
        if len(rows_made) == 5:
            raise error("in the fifth piece")

    with monkeypatch.context() as patch:
        count_rows(patch, rows_made, ending)
        with pytest.raises(error, match="fifth piece"):
            run("cpu float64", path, **options)
    assert len(factors(work)) == left
    assert path.exists() == bool(left)  # at Ctrl-C, however recent the last save is
    expected = run("cpu float64", tmp_path / "other.ckpt", **options)
    rows_made = []
    with monkeypatch.context() as patch:
        count_rows(patch, rows_made)
        assert_same(run("cpu float64", path, **options), expected)
    assert len(rows_made) == pieces - 4 * left
    assert factors(work) == []


def test_ctrl_c_after_the_factor_keeps_it(tmp_path, monkeypatch):
    """The factor resumes even if its last piece was not yet saved."""
    monkeypatch.setattr(resume, "_EVERY", 3600.0)
    path = tmp_path / "run.ckpt"

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fastmcmd.solvers.certify.exact", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("cpu float64", path)
    assert len(factors(tmp_path)) == 1
    expected, rows_made = run("cpu float64", tmp_path / "other.ckpt"), []
    count_rows(monkeypatch, rows_made)
    assert_same(run("cpu float64", path), expected)
    assert rows_made == []


def stopped_at(number, path, monkeypatch, **options):
    with monkeypatch.context() as patch:
        stopping(patch, number)
        as_killed(patch)
        with pytest.raises(Stopped):
            run("cpu float64", path, **options)
    (name,) = factors(path.parent)
    return path.parent / name


def test_another_file_of_the_name_is_not_taken(tmp_path, monkeypatch):
    """Each factorisation marks its file: other data, say of a checkpoint removed since, differ."""
    path, expected = tmp_path / "run.ckpt", run("cpu float64", tmp_path / "other.ckpt")
    file = stopped_at(5, path, monkeypatch)
    content = path.read_bytes()
    path.unlink()  # the run is begun anew, and ended again: the file is now of this one
    assert stopped_at(6, path, monkeypatch) != file
    assert not file.exists()  # left by a run that the checkpoint no longer knows
    path.write_bytes(content)
    assert_same(run("cpu float64", path), expected)
    for damage in (b"short", b"", None):
        file = stopped_at(5, path, monkeypatch)
        file.unlink() if damage is None else file.write_bytes(damage)
        assert_same(run("cpu float64", path), expected)
    assert os.listdir(tmp_path) == []


def test_checkpoints_of_one_name_can_share_a_folder(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("a", "b", "cache")]
    for folder in folders:
        folder.mkdir()
    *ours, cache = folders
    for folder in ours:
        with monkeypatch.context() as patch:
            stopping(patch, 3)
            as_killed(patch)
            with pytest.raises(Stopped):
                run("cpu float64", folder / "run.ckpt", cache_dir=cache)
    assert len(factors(cache)) == 2
    for folder in ours:
        run("cpu float64", folder / "run.ckpt", cache_dir=cache)
    assert os.listdir(cache) == []


def test_a_solution_outlives_its_factor(tmp_path, monkeypatch):
    """If killed during the second factor, the run does not repeat the first, whose file does not stay."""
    path = tmp_path / "run.ckpt"
    expected = run("two diagonals", tmp_path / "other.ckpt")
    with monkeypatch.context() as patch:
        stopping(patch, PIECES + 1)  # the last is the solution
        patch.setattr(ScratchFile, "close", lambda self, leave=True: self._raw.close())
        with pytest.raises(Stopped):
            run("two diagonals", path)
    assert len(factors(tmp_path)) == 2
    rows_made = []
    count_rows(monkeypatch, rows_made)
    assert_same(run("two diagonals", path), expected)
    assert len(rows_made) == PIECES
    assert os.listdir(tmp_path) == []


def test_short_factorisations_have_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(cholesky, "_LONG", 1e15)
    monkeypatch.setattr(OutOfCoreCholesky, "__init__", None)  # must not be reached
    np.testing.assert_array_equal(
        run("cpu float64", tmp_path / "run.ckpt").values, run("cpu float64").values
    )


@pytest.mark.parametrize(
    ("n", "dtype", "long"),
    [(14_000, "f8", False), (15_000, "f8", True), (17_500, "f4", False), (19_000, "f4", True)],
)
def test_what_takes_long(n, dtype, long):
    class Sized:
        backend = fm.backends.get_backend("cpu", fm.RBF(1.0))

        def __len__(self):
            return n

        def streamed_cost(self, columns):
            return 0.0

    sized = Sized()
    sized.dtype = np.dtype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cholesky, "_LONG", LONG)
        assert cholesky._takes_long(sized) == long
        sized.streamed_cost = lambda columns: 2e12  # a kernel that is slow itself
        assert cholesky._takes_long(sized)


LONG = cholesky._LONG


def whole_factor_memory(operator):
    """Return the least budget in which the factor stays in memory, beside the rows."""
    rows = cholesky_bytes(operator) - operator.packed_bytes
    low, high = 0, 10**8
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if whole_factor_fits(operator, middle) else (middle, high)
    return max(high + rows, cholesky_bytes(operator))


def solver_of(path, n=300):
    operator = operator_of(n)
    return DirectSolver(operator, None, stages_of(Checkpoint(path, "of", 0.0), "test")), operator


def test_the_factor_stays_in_memory(tmp_path, rng, monkeypatch):
    """The file is write-only: solves read nothing back."""
    monkeypatch.setattr(ScratchFile, "read", None)
    solver, operator = solver_of(tmp_path / "run.ckpt")
    shift, goal, progress = np.full(300, 3.0), Goal(1e-8, 1.0), Progress(False, 1e-8)
    matrix = dense(operator, shift)
    for _ in range(2):
        rhs = rng.normal(size=(300, 2))
        (solution,) = solver.solve([System(rhs, shift)], goal, progress, keep=True)
        np.testing.assert_allclose(solution.value, np.linalg.solve(matrix, rhs), rtol=1e-10)
    ((_, factor),) = solver._factors
    assert factor.in_memory
    assert operator.packed_bytes / 2 < factor.nbytes <= operator.packed_bytes
    assert operator.cache == "packed"
    assert len(factors(tmp_path)) == 1
    solver.close()
    assert factors(tmp_path) == []


def test_a_stored_factor_is_read_once(tmp_path, rng, monkeypatch):
    """A later run with other right-hand sides finds the whole factor."""
    shift, goal, progress = np.full(300, 3.0), Goal(1e-8, 1.0), Progress(False, 1e-8)
    rhs = rng.normal(size=(300, 2))
    solver, _ = solver_of(tmp_path / "run.ckpt")
    (expected,) = solver.solve([System(rhs, shift)], goal, progress, keep=True)
    solver.leave()
    monkeypatch.setattr(OutOfCoreCholesky, "_factor_column", None)  # must not be reached
    solver, _ = solver_of(tmp_path / "run.ckpt")
    (solution,) = solver.solve([System(rhs, shift)], goal, progress, keep=True)
    np.testing.assert_array_equal(solution.value, expected.value)
    solver.close()


@pytest.mark.parametrize("name", ["value", "image"])
def test_a_solution_of_another_length_is_refused(name, tmp_path, rng):
    """A forged solution was returned unchanged, and failed far from its file."""
    path = tmp_path / "run.ckpt"
    system, goal = System(rng.normal(size=(300, 2)), np.full(300, 3.0)), Goal(1e-8, 1.0)
    solver, _ = solver_of(path)
    (solution,) = solver.solve([system], goal, Progress(False, 1e-8))
    stage = Checkpoint(path, "of", 0.0).stage("test solution 0")
    saved_state = stage.load(SolutionState)
    np.testing.assert_array_equal(saved_state.solution.value, solution.value)
    for forged in (getattr(solution, name)[:-1], np.full((300, 2), np.nan)):
        state = replace(saved_state, solution=replace(solution, **{name: forged}))
        stage.save(lambda state=state: state, force=True)
        solver, _ = solver_of(path)
        with pytest.raises(
            ValueError, match=r"run\.ckpt is damaged.*solution 0 do not fit the data"
        ):
            solver.solve([system], goal, Progress(False, 1e-8))


def test_too_little_memory_beside_the_factor(tmp_path):
    """If the rest does not fit beside it, the factor is in block columns, in a file that stays."""
    shift, goal, progress = np.full(300, 3.0), Goal(1e-8, 1.0), Progress(False, 1e-8)
    rhs, caches = np.ones((300, 1)), []
    for less in (0, 1):
        solver, operator = solver_of(tmp_path / "run.ckpt")
        operator.budget = whole_factor_memory(operator) - less
        (solution,) = solver.solve([System(rhs, shift)], goal, progress, keep=True)
        np.testing.assert_allclose(dense(operator, shift) @ solution.value, rhs, rtol=0, atol=1e-12)
        assert len(factors(tmp_path)) == 1
        caches.append(operator.cache)
        solver.close()
    assert caches == ["packed", "disk"]


def test_memory_stays_within_the_budget(tmp_path, monkeypatch):
    """Trace NumPy's own allocations."""
    import tracemalloc

    solver, operator = solver_of(tmp_path / "run.ckpt", 1500)
    operator.budget = whole_factor_memory(operator)
    tracemalloc.start()
    try:
        solver._factor(np.full(1500, 3.0), Progress(False, 1e-8))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        solver.close()
    assert operator.packed_bytes / 2 < peak <= operator.budget


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "numba", "numpy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 300])
def test_factors_are_scipys(n, dtype, backend, tmp_path, rng):
    operator = operator_of(n, dtype, backend=backend)
    shift = rng.uniform(0.5, 3.0, size=n)
    stage = Checkpoint(tmp_path / "run.ckpt", "of", 0.0).stage("factor")
    place = FactorStage(tmp_path, stage)
    factor = OutOfCoreCholesky(operator, shift, None, 10**8, None, place, in_memory=True)
    assert factor.in_memory
    rhs = rng.normal(size=(n, 3))
    matrix, unit = dense(operator, shift), float(np.finfo(dtype).eps)
    solution, expected = factor.solve(rhs), np.linalg.solve(matrix, rhs)
    error = np.linalg.norm(solution - expected) / np.linalg.norm(expected)
    assert error <= 4 * unit * np.linalg.cond(matrix)
    factor.close()
    with OutOfCoreCholesky(operator, shift, tmp_path, 10**8) as filed:  # only the position differs
        np.testing.assert_array_equal(filed.solve(rhs), solution)


@pytest.mark.parametrize("bad", [0, 63, 64, 200, 299])
def test_a_bad_pivot_is_named(bad, tmp_path):
    operator, shift = operator_of(300), np.ones(300)
    shift[bad] = -2.0
    stage = Checkpoint(tmp_path / "run.ckpt", "of", 0.0).stage("factor")
    with pytest.raises(NotPositiveDefiniteError) as caught:
        OutOfCoreCholesky(
            operator, shift, None, 10**8, None, FactorStage(tmp_path, stage), in_memory=True
        )
    assert caught.value.index == bad
    assert factors(tmp_path) == []


def test_bad_pivots_are_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"not positive definite in float32 \(pivot \d+ is not"):
        run("cpu float32", tmp_path / "run.ckpt", lam=1e-12)
    assert factors(tmp_path) == []


def test_a_full_disk(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ScratchFile, "_reserve", full)
    with pytest.raises(
        OSError, match=r"checkpoint is .*run\.ckpt'; creating .*No space left"
    ) as caught:
        run("cpu float64", tmp_path / "run.ckpt")
    assert caught.value.errno == errno.ENOSPC
    assert factors(tmp_path) == []


def test_progress_tells_columns(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run.ckpt"
    stopped_at(5, path, monkeypatch)
    run("cpu float64", path, progress=True)
    progress_text = capsys.readouterr().err
    assert f"resumed from a checkpoint after {5 * 64:,} columns of the factor" in progress_text
    assert "group" not in progress_text


IMPORTS = """
import sys
import numpy as np
sys.path[:0] = [sys.argv[1], sys.argv[1] + '/..']
import test_factor_resume as t
t.small(setattr)
"""
WORK = """
result = t.run(sys.argv[2], sys.argv[3], n=1200)
np.savez(sys.argv[4], values=result.values, bounds=result.error_bounds)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("case", ["two diagonals", "dense, two designs"])
def test_killed_at_random_moments(case, tmp_path):
    path, results = tmp_path / "run.ckpt", tmp_path / "results.npz"
    arguments = [os.path.dirname(__file__), case, path, results]
    assert killed_until_done(IMPORTS, WORK, arguments, 0.5, first=0.0) >= 1
    assert sorted(os.listdir(tmp_path)) == ["results.npz"]
    expected = run(case, tmp_path / "other.ckpt", n=1200)
    with np.load(results, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["values"], expected.values)
        np.testing.assert_array_equal(archive["bounds"], expected.error_bounds)


def test_a_factor_on_a_device_has_no_file(tmp_path, rng):
    """A device that holds the factor writes no file; otherwise the host writes block columns."""
    from host_device import backend_of

    shift, goal, progress = np.full(300, 3.0), Goal(1e-8, 1.0), Progress(False, 1e-8)
    rhs, caches = rng.normal(size=(300, 2)), []
    # Only block columns need memory of the host.
    for device, budget in ((10**8, 1000), (600_000, 400_000)):
        solver, operator = solver_of(tmp_path / "run.ckpt")
        operator.backend, operator.budget = backend_of(device), budget
        solver.cache_dir = tmp_path
        (solution,) = solver.solve([System(rhs, shift)], goal, progress, keep=True)
        expected = np.linalg.solve(dense(operator, shift), rhs)
        np.testing.assert_allclose(solution.value, expected, rtol=1e-9)
        caches.append((operator.cache, len(factors(tmp_path))))
        solver.close()
    assert caches == [("packed", 0), ("disk", 1)]


@pytest.mark.parametrize("where", ["factor", "sums"])
def test_ctrl_c_in_dense_form_leaves_both_factors(where, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    expected = run("dense, two designs", tmp_path / "other.ckpt")
    rows_made = []

    def ending():
        if len(rows_made) == 12:
            raise KeyboardInterrupt

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if where == "factor":
            count_rows(patch, rows_made, ending)
        else:
            patch.setattr(CpuBackend, "quadratic_forms", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("dense, two designs", path)
    assert len(factors(tmp_path)) == 2
    rows_made = []
    count_rows(monkeypatch, rows_made)
    assert_same(run("dense, two designs", path), expected)
    assert len(rows_made) == (3 if where == "factor" else 0)
    assert os.listdir(tmp_path) == []


def test_an_error_in_dense_form_leaves_no_file(tmp_path, monkeypatch):
    def ending(*args):
        raise RuntimeError("in the sums")

    monkeypatch.setattr(CpuBackend, "quadratic_forms", ending)
    with pytest.raises(RuntimeError, match="in the sums"):
        run("dense, two designs", tmp_path / "run.ckpt")
    assert factors(tmp_path) == []
