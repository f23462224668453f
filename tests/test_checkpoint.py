"""State on disk: saved states are restored, and an interrupted run ends like any other."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cg_runs import solve_cg
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from killing import kills_until_done
from numpy.typing import NDArray

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.backends import get_backend
from fastmcmd.backends.tall_skinny import HostBlocks
from fastmcmd.checkpoint import Checkpoint, fingerprint_of
from fastmcmd.gram import GramOperator
from fastmcmd.io import archive
from fastmcmd.solvers import cg
from fastmcmd.solvers.base import Goal, System

KERNEL = fm.RBF(0.5)


@dataclass(frozen=True)
class SavedArrays:
    """The state of a stage."""

    arrays: dict[str, NDArray[Any]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


def files(path):
    return sorted(other.name for other in path.parent.iterdir())


def same(state, other):
    assert state.keys() == other.keys()
    for name, array in state.items():
        assert array.dtype == other[name].dtype
        assert array.shape == other[name].shape
        assert array.tobytes() == other[name].tobytes()


# The file.


@given(
    arrays=st.dictionaries(
        st.text("abc.0", min_size=1, max_size=5),
        hnp.arrays(
            st.sampled_from([np.float64, np.float32, np.int64, np.bool_, np.uint8]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
        ),
        min_size=1,
        max_size=4,
    ),
    fortran=st.booleans(),
)
def test_what_is_saved_comes_back(tmp_path_factory, arrays, fortran):
    path = tmp_path_factory.mktemp("saved") / "run.ckpt"
    if fortran:
        arrays = {name: np.asarray(array, order="F") for name, array in arrays.items()}
    Checkpoint(path, "f", every=0).save("stage", lambda: SavedArrays(arrays))
    loaded = Checkpoint(path, "f").load("stage", SavedArrays).arrays
    same(loaded, arrays)
    for name, array in arrays.items():  # the layout too: sums depend on it
        assert loaded[name].flags.f_contiguous == array.flags.f_contiguous
    with np.load(path, allow_pickle=False) as plain:  # an .npz as any other
        assert len(plain.files) == len(arrays) + 2


def test_stages_keep_what_others_saved(path):
    checkpoint = Checkpoint(path, "f", every=0)
    assert checkpoint.load("one", SavedArrays) is None
    first = SavedArrays({"a": np.arange(5.0)})
    second, third = SavedArrays({"a": np.eye(2), "b": np.array(3)}), SavedArrays({"b": np.array(4)})
    checkpoint.stage("one").save(lambda: first)
    checkpoint.stage("two").save(lambda: second)
    checkpoint.stage("two").save(lambda: third)
    later = Checkpoint(path, "f", every=0)
    same(later.stage("one").load(SavedArrays).arrays, first.arrays)
    same(later.load("two", SavedArrays).arrays, third.arrays)
    assert later.load("on", SavedArrays) is None
    later.stage("one").drop()
    assert later.load("one", SavedArrays) is None
    later.save("three", lambda: first)
    last = Checkpoint(path, "f")
    assert last.load("one", SavedArrays) is None
    same(last.load("two", SavedArrays).arrays, third.arrays)
    same(last.load("three", SavedArrays).arrays, first.arrays)
    assert files(path) == ["run.ckpt"]
    last.finish()
    assert files(path) == []
    last.finish()
    assert last.load("two", SavedArrays) is None


def test_nothing_is_gathered_before_it_is_time(path):
    checkpoint = Checkpoint(path, "f", every=3600)

    def never():
        raise AssertionError("gathered")

    checkpoint.save("stage", never)
    assert files(path) == []
    checkpoint.save("stage", lambda: SavedArrays({"a": np.zeros(1)}), force=True)
    checkpoint.save("stage", never)
    assert Checkpoint(path, "f").load("stage", SavedArrays) is not None


def test_time_passes(path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    checkpoint = Checkpoint(path, "f", every=30)
    written_file = []

    def state():
        written_file.append(now[0])
        return SavedArrays({"a": np.zeros(1)})

    for now[0] in np.arange(100.0, 200.0, 7.0):
        checkpoint.save("stage", state)
    assert written_file == [135.0, 170.0]


def test_stage_names(path):
    for name in ("", "a/b"):
        with pytest.raises(ValueError, match="stage is"):
            Checkpoint(path, "f").stage(name)


# Invalid files.


def test_other_settings_are_named(path):
    mine = {"lam": 0.1, "kernel": "RBF(0.5)", "n": 100, "old": None}
    Checkpoint(path, "one", 0, mine).save("stage", lambda: SavedArrays({"a": np.zeros(1)}))
    theirs = {"lam": 0.2, "kernel": "RBF(0.5)", "n": 100, "new": [1, 2]}
    with pytest.raises(ValueError, match="belongs to another computation") as raised:
        Checkpoint(path, "two", 0, theirs)
    text = str(raised.value)
    assert f"checkpoint {path}" in text
    assert "lam was 0.1, is 0.2; old was None, is not given; new was not given, is [1, 2]." in text
    assert "kernel" not in text
    with pytest.raises(ValueError, match="the data differ"):
        Checkpoint(path, "two", 0, mine)
    assert Checkpoint(path, "one", 0, mine).load("stage", SavedArrays) is not None


def written_file(path, **arrays):
    arrays = arrays or {"a": np.arange(1000.0)}
    Checkpoint(path, "f", every=0).save("stage", lambda: SavedArrays(arrays))
    return path.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_truncated(path, share):
    content = written_file(path)
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"checkpoint .*run.ckpt is damaged"):
        Checkpoint(path, "f")


def test_every_flipped_byte_is_noticed_or_harmless(path):
    content = written_file(path, a=np.arange(40.0))
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            state = Checkpoint(path, "f").load("stage", SavedArrays)
        except ValueError as error:
            assert "checkpoint" in str(error)  # noqa: PT017
        else:  # a byte that no reader uses, or the name of the stage
            assert state is None or np.array_equal(
                state.arrays.get("a", np.arange(40.0)), np.arange(40.0)
            )


def test_other_files(path):
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match="no checkpoint of fastmcmd"):
        Checkpoint(path, "f")
    np.savez(path.with_suffix(".npz"), a=np.zeros(3))
    with pytest.raises(ValueError, match="no checkpoint of fastmcmd"):
        Checkpoint(path.with_suffix(".npz"), "f")


def test_no_pickle(path):
    written_file(path)
    with zipfile.ZipFile(path, "a") as file, file.open("stage/evil.npy", "w") as member:
        np.lib.format.write_array(member, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="damaged"):
        Checkpoint(path, "f").load("stage", SavedArrays)


def test_other_format(path, monkeypatch):
    monkeypatch.setattr("fastmcmd.checkpoint._FORMAT", 99)
    written_file(path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"run.ckpt has format 99 .* reads format 3"):
        Checkpoint(path, "f")


# States that cannot be written.


def test_folder_that_is_missing_or_the_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"checkpoint: there is no folder '.*none'"):
        Checkpoint(tmp_path / "none" / "run.ckpt", "f")
    with pytest.raises(IsADirectoryError, match="checkpoint is"):
        Checkpoint(tmp_path, "f")


def test_read_only_folder(path, monkeypatch):
    def refuse(*args, **kwargs):  # as chmod would, but also for root
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match=r"checkpoint is .*run.ckpt'; .* not writable"):
        Checkpoint(path, "f")
    monkeypatch.undo()
    checkpoint = Checkpoint(path, "f", every=0)
    monkeypatch.setattr("os.open", refuse)
    message = r"checkpoint \(.*run.ckpt\) cannot be written: Permission denied$"
    with pytest.raises(PermissionError, match=message):
        checkpoint.save("stage", lambda: SavedArrays({"a": np.zeros(1)}))


def test_unreadable_file(path, monkeypatch):
    written_file(path)

    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(PermissionError, match=r"checkpoint .*run.ckpt cannot be read: Perm"):
        Checkpoint(path, "f")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()])
def test_full_disk(path, monkeypatch, error):
    content = written_file(path)
    checkpoint = Checkpoint(path, "f", every=0)
    write_sizes = []
    real = archive.write_npy

    def write(stream, array):
        write_sizes.append(real(stream, array))
        if len(write_sizes) == 3:
            raise error

    monkeypatch.setattr(archive, "write_npy", write)
    with pytest.raises(type(error)) as raised:
        checkpoint.save("stage", lambda: SavedArrays({"a": np.zeros(9), "b": np.ones(9)}))
    if isinstance(error, OSError):
        assert raised.value.errno == errno.ENOSPC
        assert str(raised.value).endswith(
            f"checkpoint ({path}) cannot be written: {error.strerror}"
        )
    assert len(write_sizes) == 3
    assert path.read_bytes() == content
    assert files(path) == ["run.ckpt"]


def test_only_files_of_the_package_are_removed(path):
    """`checkpoint="run"` once removed every ``run.*.part`` beside it."""
    mine = [
        path.with_name(name) for name in ("run.ckpt.abc.part", "run.ckpt.npy.1.part", ".run.ckpt")
    ]
    for file in mine:
        file.write_bytes(b"mine")
    checkpoint = Checkpoint(path, "f", every=0)
    checkpoint.save("stage", lambda: SavedArrays({"a": np.zeros(1)}))
    Checkpoint(path, "f").finish()
    assert files(path) == sorted(file.name for file in mine)
    assert {file.read_bytes() for file in mine} == {b"mine"}


def test_a_file_that_is_no_checkpoint_of_this_run_stays(path):
    checkpoint = Checkpoint(path, "f", every=0)
    path.write_bytes(b"put there meanwhile")
    checkpoint.finish()
    assert path.read_bytes() == b"put there meanwhile"


# Fingerprints.


def test_fingerprints(rng):
    class Rows:
        def fingerprint(self):
            return "content"

    x = rng.normal(size=(50, 3))
    different = [
        (x,),
        (x.astype(np.float32),),
        (x[:-1],),
        (x.T,),
        (x.reshape(-1),),
        (x + 1e-16 * (np.arange(150).reshape(50, 3) == 149) * 1e3,),
        (x, 0.1),
        (x, 0.1, "a", "b"),
        (x, 0.1, "ab"),
        (x, 1),
        (x, 1.0),
        (x, True),
        (x, "1"),
        (x, b"1"),
        (x, None),
        (Rows(),),
        ("content",),
        (),
        (np.zeros((0, 3)),),
        (np.zeros((3, 0)),),
        (np.array(1.0),),
        (np.array([1.0]),),
    ]
    prints = [fingerprint_of(*parts) for parts in different]
    assert len(set(prints)) == len(prints)
    assert prints == [fingerprint_of(*parts) for parts in different]
    assert fingerprint_of(np.asfortranarray(x)) == prints[0]
    assert fingerprint_of(np.repeat(x, 2, axis=0)[::2]) == prints[0]
    assert fingerprint_of(x, np.float64(0.1)) == prints[6]
    with pytest.raises(TypeError, match="fingerprint cannot be made of list"):
        fingerprint_of([1])
    with pytest.raises(TypeError, match="dtype object"):
        fingerprint_of(np.array([None]))


def test_fingerprint_does_not_depend_on_blocks(tmp_path, monkeypatch, rng):
    x = rng.normal(size=(100, 3))
    expected = fingerprint_of(x, x[:, 0])
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setattr("fastmcmd.checkpoint._HASHED", 100)
    assert fingerprint_of(np.load(tmp_path / "x.npy", mmap_mode="r"), x[:, 0]) == expected


# Interrupted runs.

GOAL = Goal(1e-6, 1.0)


class Stopped(Exception):
    """Stands for any cause that ends a run."""


class Fragile(GramOperator):
    """An operator that fails in a product after ``left`` of them."""

    products: float = np.inf
    error: BaseException = Stopped()

    def matmul(self, v, *, exact=False):
        self._count()
        return super().matmul(v, exact=exact)

    def _count(self):
        self.products -= 1
        if self.products < 0:
            raise self.error


def operator_of(x, backend="cpu", dtype=np.float64, budget=10**9, products=np.inf, error=None):
    operator = Fragile(get_backend(backend, KERNEL), KERNEL, x, np.dtype(dtype), budget)
    operator.products, operator.error = products, error or Stopped()
    return operator


def systems_of(rng, n, lam=1e-3, columns=(7, 3, 1), order="C"):
    x = rng.normal(size=(n, 2))
    shift = n * lam * rng.uniform(0.5, 2, n)
    blocks = [np.cos(np.outer(x[:, 0], np.arange(1, r + 1))) for r in columns]
    return x, [
        System(np.asarray(block, order=order), shift * 3**i) for i, block in enumerate(blocks)
    ]


def equal(solution, other):
    assert solution.iterations == other.iterations
    assert solution.converged == other.converged
    for one, two in zip(solution.solutions, other.solutions, strict=True):
        assert np.array_equal(one.value, two.value)
        assert np.array_equal(one.image, two.image)
        assert one.certificate == two.certificate


def run(operator, systems, certificate="rigorous", keep=None, preconditioners=None, most=300):
    progress = Progress(False, GOAL.error)
    return solve_cg(operator, systems, GOAL, certificate, most, progress, preconditioners, keep)


@pytest.mark.parametrize(
    ("backend", "dtype", "budget", "order"),
    [
        ("numpy", np.float64, 10**9, "C"),
        ("numpy", np.float32, 0, "F"),
        ("cpu", np.float64, 10**9, "F"),
        ("cpu", np.float32, 10**9, "C"),  # packed: the first product after resuming packs again
        ("cpu", np.float32, 0, "C"),
    ],
)
@pytest.mark.parametrize("certificate", ["rigorous", "sampled"])
def test_resumed_after_any_product(rng, path, backend, dtype, budget, order, certificate):
    lam = 1e-3 if dtype == np.float64 else 1e-2
    x, systems = systems_of(rng, 600, lam, order=order)
    uninterrupted = operator_of(x, backend, dtype, budget)
    expected = run(uninterrupted, systems, certificate)
    if dtype == np.float32 and certificate == "rigorous":
        assert uninterrupted.passes > expected.iterations  # refined: rounds are resumed as well
    for step in (3, 5):  # certifying may take three products, saved as one
        for _ in range(99):
            operator = operator_of(x, backend, dtype, budget, products=step)
            keep = Checkpoint(path, "f", every=0).stage("cg")
            try:
                solution = run(operator, systems, certificate, keep)
            except Stopped:
                continue
            break
        equal(solution, expected)
        assert operator.passes == uninterrupted.passes
        again = run(operator_of(x, backend, dtype, budget, products=0), systems, certificate, keep)
        equal(again, expected)  # does not repeat finished work
        keep.checkpoint.finish()


@pytest.mark.parametrize("most", [9, 300])
def test_runs_that_give_up_are_resumed(rng, path, most):
    x, systems = systems_of(rng, 150, 1e-8)
    expected = run(operator_of(x), systems, most=most)
    assert not expected.converged  # for lack of products, or because more do not help
    assert (expected.iterations == 9) == (most == 9)
    for _ in range(300):
        try:
            keep = Checkpoint(path, "f", every=0).stage("cg")
            solution = run(operator_of(x, products=4), systems, keep=keep, most=most)
        except Stopped:
            continue
        break
    equal(solution, expected)


def test_resumed_with_a_preconditioner(rng, path):
    x, systems = systems_of(rng, 200)
    k = KERNEL(x, x)
    preconditioners = []
    for system in systems:
        scale = 1 / np.sqrt(system.shift)
        values, vectors = np.linalg.eigh(scale[:, None] * k * scale)
        values[:-20] = 0
        preconditioners.append(
            lambda block, u=vectors, v=values: u @ ((u.T @ block) / (1 + v)[:, None])
        )
    expected = run(operator_of(x), systems, preconditioners=preconditioners)
    assert expected.iterations < run(operator_of(x), systems).iterations
    for _ in range(99):
        try:
            keep = Checkpoint(path, "f", every=0).stage("cg")
            solution = run(
                operator_of(x, products=2), systems, keep=keep, preconditioners=preconditioners
            )
        except Stopped:
            continue
        break
    equal(solution, expected)


def test_refinements_are_resumed(rng, path, monkeypatch):
    x, systems = systems_of(rng, 600, 1e-2)
    rounds = []
    refined = cg.certify.refined

    def record_round(*args):
        rounds.append(len(args[1]))
        return refined(*args)

    monkeypatch.setattr(cg.certify, "refined", record_round)
    expected = run(operator_of(x, dtype=np.float32), systems)
    assert rounds  # otherwise the test is vacuous
    stops = 0
    for _ in range(99):
        keep = Checkpoint(path, "f", every=0).stage("cg")
        written_file = keep.load(cg.CGState)
        stops += written_file is not None and written_file.round is not None
        try:
            solution = run(operator_of(x, dtype=np.float32, products=1), systems, keep=keep)
        except Stopped:
            continue
        break
    equal(solution, expected)
    assert stops >= 2  # inside a round, and at its start


@pytest.mark.parametrize("products", [0, 1, 5, 12])
def test_ctrl_c_saves_before_it_goes_on(rng, path, products):
    x, systems = systems_of(rng, 200)
    expected = run(operator_of(x), systems)
    operator = operator_of(x, products=products, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(operator, systems, keep=Checkpoint(path, "f", every=3600).stage("cg"))
    keep = Checkpoint(path, "f", every=3600).stage("cg")
    assert keep.load(cg.CGState).passes == products
    later_operator = operator_of(x)
    equal(run(later_operator, systems, keep=keep), expected)


def test_ctrl_c_in_the_certifying_pass(rng, path):
    x, systems = systems_of(rng, 200)
    expected = run(operator_of(x), systems)
    operator = operator_of(x, products=expected.iterations, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(operator, systems, keep=Checkpoint(path, "f", every=3600).stage("cg"))
    keep = Checkpoint(path, "f", every=3600).stage("cg")
    equal(run(operator_of(x, products=1), systems, keep=keep), expected)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_between_products_leaves_no_half_state(rng, path, monkeypatch):
    """A signal during an update is held back until the update is complete."""
    x, systems = systems_of(rng, 200)
    expected = run(operator_of(x), systems)
    calls = []

    def interrupting(*arguments, **keywords):
        calls.append(None)
        if len(calls) == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return times(*arguments, **keywords)

    times = HostBlocks.times
    monkeypatch.setattr(HostBlocks, "times", staticmethod(interrupting))
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(operator_of(x), systems, keep=Checkpoint(path, "f", every=3600).stage("cg"))
    assert signal.getsignal(signal.SIGINT) is handler
    assert 30 <= len(calls) < 45
    keep = Checkpoint(path, "f", every=3600).stage("cg")
    equal(run(operator_of(x), systems, keep=keep), expected)


def test_nothing_is_written_without_need(rng, path):
    x, systems = systems_of(rng, 100)
    expected = run(operator_of(x), systems)
    equal(run(operator_of(x), systems, keep=Checkpoint(path, "f").stage("cg")), expected)
    assert files(path) == []


DATA = """
import sys
import time
import numpy as np
sys.path.insert(0, sys.argv[1])
import test_checkpoint as t
x, systems = t.systems_of(np.random.default_rng(5), 500, 1e-2)
operator = t.operator_of(x, dtype=np.float32)
multiply = operator.matmul
operator.matmul = lambda v, **options: time.sleep(0.005) or multiply(v, **options)  # long
keep = t.Checkpoint(sys.argv[2], "f", every=0).stage("cg") if len(sys.argv) > 3 else None
"""
WORK = """
solution = t.run(operator, systems, keep=keep)
arrays = {f"{i}value": s.value for i, s in enumerate(solution.solutions)}
arrays |= {f"{i}image": s.image for i, s in enumerate(solution.solutions)}
np.savez(sys.argv[-1], iterations=solution.iterations, **arrays)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_again_and_again(path, tmp_path):
    rng = np.random.default_rng(int(time.time()))  # a different moment each time
    folder = os.path.dirname(__file__)
    results = tmp_path / "results.npz"
    waits = [rng.uniform(0, 0.03 * most) for most in range(1, 5)]
    assert kills_until_done(DATA, WORK, [folder, path, "keep", results], waits) >= 1
    x, systems = systems_of(np.random.default_rng(5), 500, 1e-2)
    expected = run(operator_of(x, dtype=np.float32), systems)
    with np.load(results, allow_pickle=False) as archive:
        assert archive["iterations"] == expected.iterations
        for index, solution in enumerate(expected.solutions):
            assert np.array_equal(archive[f"{index}value"], solution.value)
            assert np.array_equal(archive[f"{index}image"], solution.image)
