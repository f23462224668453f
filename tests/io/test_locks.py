"""A lock separates two runs on one checkpoint; the lock of a killed run blocks nobody."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.io import alone_with, locks, temporary
from fastmcmd.io.locks import lock_path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no locks of this kind")

HOLD = """
import sys, time
from pathlib import Path
from fastmcmd.io import alone_with
with alone_with(Path(sys.argv[1]), "checkpoint"):
    print("held", flush=True)
    time.sleep(100)
"""

# Takes and releases the lock in a loop; its holder creates a file that must not exist yet.
CONTEND = """
import os, sys
from pathlib import Path
from fastmcmd.io import alone_with
path, only, done = Path(sys.argv[1]), sys.argv[2], 0
while done < 200:
    try:
        with alone_with(path, "checkpoint"):
            os.close(os.open(only, os.O_CREAT | os.O_EXCL))
            os.unlink(only)
            done += 1
    except BlockingIOError:
        pass
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.ckpt"


def run(rng, path, n=60):
    x = rng.normal(size=n)
    return fm.mcmd(x, x, x + rng.normal(size=n), x, x + rng.normal(size=n), checkpoint=path)


def test_a_second_run_is_refused_until_the_first_is_killed(path, rng):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        message = rf"checkpoint .*run\.ckpt is in use by another run \(process {process.pid} on "
        with pytest.raises(BlockingIOError, match=message):
            run(rng, path)
        process.kill()
    assert lock_path(path).exists()  # left behind
    assert np.isfinite(run(rng, path).mean)
    assert os.listdir(path.parent) == []


def test_refused_in_the_same_process_too(path):
    with (
        alone_with(path, "checkpoint"),
        pytest.raises(BlockingIOError, match=f"process {os.getpid()} on"),
        alone_with(path, "checkpoint"),
    ):
        pass
    with alone_with(path, "checkpoint"), alone_with(path.with_name("other"), "checkpoint"):
        locks_of = {lock_path(path).name, lock_path(path.with_name("other")).name}
        assert set(os.listdir(path.parent)) == locks_of
    assert os.listdir(path.parent) == []


def test_an_error_that_is_stored_releases_the_lock(path, rng, monkeypatch):
    """The traceback keeps the error alive, as the last error of an interactive session."""
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["fastmcmd.mcmd"], "fit", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError) as error_info:
            run(rng, path)
    run(rng, path)
    assert error_info.tb is not None
    assert os.listdir(path.parent) == []


@pytest.mark.slow
def test_only_one_of_many_has_it(path, tmp_path):
    command = [sys.executable, "-c", CONTEND, path, tmp_path / "only"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK])
def test_where_there_are_no_locks_nobody_is_refused(code, path, monkeypatch):
    def none(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(temporary.fcntl, "flock", none)
    with alone_with(path, "checkpoint"), alone_with(path, "checkpoint"):
        assert os.listdir(path.parent) == []
    monkeypatch.setattr(locks, "fcntl", None)
    with alone_with(path, "checkpoint"), alone_with(path, "checkpoint"):
        assert os.listdir(path.parent) == []


def test_a_lock_that_cannot_be_made(path):
    lock_path(path).mkdir()
    with (
        pytest.raises(OSError, match=r"checkpoint .*run\.ckpt cannot be locked: "),
        alone_with(path, "checkpoint"),
    ):
        pass


def test_files_of_a_user_are_not_taken_for_locks(path, rng, tmp_path):
    """A user's ``run.ckpt.lock`` was truncated and removed, even through a symbolic link."""
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    path.with_name("run.ckpt.lock").symlink_to(notes)
    run(rng, path)
    assert notes.read_text() == "mine"
    assert path.with_name("run.ckpt.lock").is_symlink()
    lock = lock_path(path)
    for make in (lambda: lock.symlink_to(notes), lambda: lock.write_text("mine")):
        make()
        with pytest.raises(OSError, match="cannot be locked"), alone_with(path, "checkpoint"):
            pass
        assert lock.read_text() == "mine"
        lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(OSError, match="is not a lock of fastmcmd"), alone_with(path, "checkpoint"):
        pass
    assert lock.is_fifo()


def test_a_link_to_a_checkpoint_is_locked_with_it(path):
    link = path.with_name("link")
    link.symlink_to(path)
    with (
        alone_with(path, "checkpoint"),
        pytest.raises(BlockingIOError),
        alone_with(link, "checkpoint"),
    ):
        pass
