"""Workers in processes of their own: the same bits as here, and faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from in_blocks import make_data

import fastmcmd as fm
from fastmcmd.distributed import BlockError, SchedulerLostError, predicted, running
from fastmcmd.distributed.saving import Saved

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
pytestmark = pytest.mark.slow

KERNELS = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.7), "lam": 0.02}
SIZES = (40,) * 12


def slowly(mean, seconds=0.1):
    """Return predictions that take their time on the workers."""

    def made_slowly(mean):  # travels by value: workers cannot import this file
        time.sleep(seconds)
        return fm.Gaussian(mean, 0.5)

    return predicted(made_slowly, mean)


def numbers_of(evaluation):
    document = evaluation.to_dict()
    return list(document["metrics"].values()), document["intervals"]


def compared(comparison):
    tests = [(one.p_value, one.low) for one in comparison.pairs if one.low == one.low]
    return tests, comparison.confidence_set("mean_cce"), comparison.confidence_set("nll")


def test_every_function_gives_the_bits_of_this_process(client):
    data, other = make_data(SIZES), make_data((50, 3), seed=1)
    x, y, mean = (data.blocks(name) for name in ("x", "y", "mean"))
    p = fm.Gaussian(mean, 0.5)
    calls = {
        "cce": lambda c: fm.cce(x, y, p, client=c, **KERNELS).estimate.value,
        "exact": lambda c: fm.cce(x, y, p, client=c, solver="cg", **KERNELS).mean,
        "mcmd": lambda c: fm.mcmd(x, x, y, other.blocks("x"), other.blocks("y"), client=c).mean,
        "evaluate": lambda c: numbers_of(fm.evaluate(y, p, x, n_boot=20, client=c)),
        "compare": lambda c: compared(
            fm.compare({"a": p, "b": fm.Gaussian(mean, 1.0)}, y, x, client=c)
        ),
        "test": lambda c: fm.congruence_test(x, y, p, simulations=39, client=c).p_value,
    }
    for name, call in calls.items():
        assert call(client) == call(None), name


def test_a_worker_is_killed_in_the_middle(client, cluster):
    data = make_data(SIZES)
    x, y = data.blocks("x"), data.blocks("y")
    expected = fm.cce(x, y, fm.Gaussian(data.blocks("mean"), 0.5), **KERNELS)
    pids = list(client.run(os.getpid).values())
    assert len(pids) == 3
    threading.Timer(1.0, os.kill, (pids[0], signal.SIGKILL)).start()
    killed = fm.cce(x, y, slowly(data.blocks("mean")), client=client, **KERNELS)
    assert killed.estimate.value == pytest.approx(expected.estimate.value, rel=1e-12)
    assert killed.estimate.rows == expected.estimate.rows
    client.wait_for_workers(3, timeout=30)
    assert pids[0] not in client.run(os.getpid).values()


def test_a_corrupt_block_is_named(client):
    data = make_data(SIZES)

    def corrupt(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 7:
            raise OSError("Couldn't deserialize thrift: the file is damaged")
        return block

    y = data.blocks("y").map_blocks(corrupt, dtype=float)
    for where in (client, None):
        with pytest.raises(
            BlockError, match=r"block 7 \(of 12.*OSError: Couldn't deserialize thrift"
        ):
            fm.evaluate(y, fm.Gaussian(data.blocks("mean"), 0.5), client=where)


def test_a_slow_block_does_not_hold_the_others(client, monkeypatch, tmp_path):
    """The first block waits until another group is done; otherwise 20 seconds, in vain."""
    monkeypatch.setattr(running, "GROUP", 2)
    data = make_data(SIZES)
    first_row, other_group_done = data.x[:1], tmp_path / "other_group_done"

    def slow(mean, x):
        if np.array_equal(x[:1], first_row):
            deadline = time.monotonic() + 20
            while not other_group_done.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        return fm.Gaussian(mean, 0.5)

    finished = []
    original = running.Run._result

    def result(self, futures, group, *args):
        finished.append(group)
        other_group_done.touch()
        return original(self, futures, group, *args)

    monkeypatch.setattr(running.Run, "_result", result)
    result = fm.evaluate(
        data.blocks("y"), predicted(slow, data.blocks("mean"), data.blocks("x")), client=client
    )
    assert sorted(finished) == list(range(6))
    assert finished[0] != 0  # the group of the slow block, for which others do not wait
    assert result["crps"] == pytest.approx(
        fm.evaluate(data.y, fm.Gaussian(data.mean, 0.5))["crps"], rel=1e-12
    )


def test_cancel_leaves_nothing_running(client):
    """An error in this process, such as Ctrl-C, cancels what the workers do."""
    data = make_data(SIZES)
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(1.0, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        fm.evaluate(data.blocks("y"), slowly(data.blocks("mean"), 0.5), client=client)
    deadline = time.monotonic() + 10
    while any(client.processing().values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_block_that_kills_its_workers_is_named():
    """A worker that runs out of memory is killed by its nanny; the block at fault is named."""
    import dask

    data = make_data((40,) * 4)

    def greedy(mean, x):
        if np.array_equal(x[:1], data.x[80:81]):
            arrays = [np.ones(1 << 24) for _ in range(8)]  # 1 GB, of 0.6 allowed
            time.sleep(20)
            del arrays
        return fm.Gaussian(mean, 0.5)

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit="600MB",
        ) as one,
        distributed.Client(one, set_as_default=False) as client,
        pytest.raises(BlockError, match=r"block .*2.* \(of 4.*every worker that computed it died"),
    ):
        fm.evaluate(
            data.blocks("y"),
            predicted(greedy, data.blocks("mean"), data.blocks("x")),
            client=client,
        )


def start_process(module: str, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *options, "--no-dashboard"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_scheduler_is_killed_and_the_checkpoint_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GROUP", 3)
    monkeypatch.setattr(Saved, "every", 0.0)
    data = make_data(SIZES)
    x, y, mean = (data.blocks(name) for name in ("x", "y", "mean"))
    file, path = str(tmp_path / "scheduler.json"), tmp_path / "run.ckpt"
    processes = [start_process("dask_scheduler", "--port", "0", "--scheduler-file", file)]
    processes.append(
        start_process("dask_worker", "--scheduler-file", file, "--nthreads", "1", "--no-nanny")
    )
    prediction = slowly(mean)
    try:
        client = distributed.Client(scheduler_file=file, timeout=30, set_as_default=False)
        client.wait_for_workers(1, timeout=30)

        def kill_after_a_group():
            while not path.exists():
                time.sleep(0.05)
            time.sleep(0.5)
            processes[0].kill()

        threading.Thread(target=kill_after_a_group, daemon=True).start()
        start = time.perf_counter()
        with pytest.raises(SchedulerLostError, match="resumes from checkpoint"):
            fm.evaluate(y, prediction, x, client=client, checkpoint=path, **KERNELS)
        assert time.perf_counter() - start < 20
        assert path.exists()
        client.close(timeout=1)
    finally:
        for one in processes:
            one.kill()
            one.wait()
    blocks = []
    original = running.block_sums
    monkeypatch.setattr(running, "block_sums", lambda *a: blocks.append(a[2]) or original(*a))
    resumed = fm.evaluate(y, prediction, x, checkpoint=path, **KERNELS)
    assert len(blocks) < 3 * len(SIZES)  # three passes
    assert not path.exists()
    expected = fm.evaluate(y, fm.Gaussian(mean, 0.5), x, **KERNELS)
    assert resumed.to_dict()["metrics"] == expected.to_dict()["metrics"]


def test_a_checkpoint_resumes_only_what_is_the_same(tmp_path, monkeypatch):
    """Another spread, function, grid or landmark resumed with the sums of the call before."""
    monkeypatch.setattr(running, "GROUP", 1)
    monkeypatch.setattr(Saved, "every", 0.0)
    data = make_data((30,) * 4)
    x, y, mean = (data.blocks(name) for name in ("x", "y", "mean"))
    path, landmarks = tmp_path / "run.ckpt", np.linspace(-1, 1, 1002).reshape(-1, 2)
    shifted = landmarks.copy()
    shifted[250] += 0.5
    original, blocks = running.block_sums, []

    def ends(*arguments):
        if len(blocks) == 2:
            raise KeyboardInterrupt
        blocks.append(arguments[2])
        return original(*arguments)

    def wide(m):
        return fm.Gaussian(m, 1.0)

    def narrow(m):
        return fm.Gaussian(m, 0.5)

    calls = [
        lambda std=0.5: fm.evaluate(y, fm.Gaussian(mean, std), checkpoint=path),
        lambda make=narrow: fm.evaluate(y, predicted(make, mean), checkpoint=path),
        lambda at=landmarks: fm.cce(
            x,
            y,
            fm.Gaussian(mean, 0.5),
            checkpoint=path,
            landmarks=at,
            certificate="rigorous",
            **KERNELS,
        ),
    ]
    for call, other in zip(calls, (1.0, wide, shifted), strict=True):
        blocks.clear()
        with monkeypatch.context() as patched:
            patched.setattr(running, "block_sums", ends)
            with pytest.raises(KeyboardInterrupt):
                call()
        assert path.exists()
        with pytest.raises(ValueError, match=r"run\.ckpt"):
            call(other)
        call()  # resumes, and removes the file
        assert not path.exists()


def test_a_checkpoint_of_classes_and_groups_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GROUP", 1)
    monkeypatch.setattr(Saved, "every", 0.0)
    import dask.array as da

    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 120)
    y, groups = rng.integers(0, 3, 120).astype(float), np.repeat(["a", "b"], 60)
    y[5] = np.nan
    arguments = [da.from_array(y, chunks=30)]
    arguments.append(fm.Categorical(da.from_array(p, chunks=(30, 3)), classes=list("uvw")))
    options = {"by": da.from_array(groups, chunks=30), "nan_policy": "propagate"}
    path, original, blocks = tmp_path / "run.ckpt", running.block_sums, []

    def ends(*arguments):
        if len(blocks) == 2:
            raise KeyboardInterrupt
        blocks.append(arguments[2])
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(running, "block_sums", ends)
        with pytest.raises(KeyboardInterrupt):
            fm.evaluate(*arguments, checkpoint=path, **options)
    resumed = fm.evaluate(*arguments, checkpoint=path, **options)
    expected = fm.evaluate(*arguments, **options)
    assert str(resumed.table()) == str(expected.table())
    assert "nan" in expected.table().lower()


def test_another_call_does_not_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(Saved, "every", 0.0)
    data, path = make_data(SIZES), tmp_path / "run.ckpt"
    arguments = data.blocks("x"), data.blocks("y")

    def broken(mean):
        raise OSError("gone")

    with pytest.raises(BlockError, match="OSError: gone"):
        fm.cce(*arguments, predicted(broken, data.blocks("mean")), checkpoint=path, **KERNELS)
    first = fm.cce(*arguments, fm.Gaussian(data.blocks("mean"), 0.5), checkpoint=path, **KERNELS)
    assert first.mean > 0
    assert not path.exists()
