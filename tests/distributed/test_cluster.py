"""Worker processes: the bits of this process, faults, costs, and the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest
from cli_process import run_cli
from in_blocks import make_data

import fastmcmd as fm
from fastmcmd.distributed import BlockError, SchedulerLostError, predicted, running, setting
from fastmcmd.distributed.cost import (
    counted_bytes,
    loss_bytes,
    sample_bytes,
    sum_bytes,
    task_count,
)
from fastmcmd.distributed.saving import BlockCheckpoint

dask_array = pytest.importorskip("dask.array", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
pytestmark = pytest.mark.slow

KERNELS = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.7), "lam": 0.02}
SIZES = (40,) * 12
WORKERS = 2


def slowly(mean, seconds=0.1):
    """Return predictions that take time on the workers."""

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
    data, other = make_data((40,) * 6), make_data((50, 3), seed=1)
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
    assert len(pids) == WORKERS
    threading.Timer(1.0, os.kill, (pids[0], signal.SIGKILL)).start()
    killed = fm.cce(x, y, slowly(data.blocks("mean")), client=client, **KERNELS)
    assert killed.estimate.value == pytest.approx(expected.estimate.value, rel=1e-12)
    assert killed.estimate.rows == expected.estimate.rows
    client.wait_for_workers(WORKERS, timeout=30)
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
    """The first block waits until another group finishes; otherwise 20 seconds pass in vain."""
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
    """An error in this process, such as Ctrl-C, cancels the tasks of the workers."""
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


def test_a_block_that_kills_its_workers_is_named(client, cluster, monkeypatch):
    """A nanny kills a worker that runs out of memory; the error names the block at fault."""
    data = make_data((40,) * 4)

    def greedy(mean, x):
        if np.array_equal(x[:1], data.x[80:81]):
            arrays = [np.ones(1 << 24) for _ in range(8)]  # 1 GB, of 0.6 allowed
            time.sleep(20)
            del arrays
        return fm.Gaussian(mean, 0.5)

    for nanny in cluster.workers.values():
        monkeypatch.setattr(nanny.memory_manager, "memory_limit", 600_000_000)
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    pids = set(client.run(os.getpid).values())
    with pytest.raises(BlockError, match=r"block .*2.* \(of 4.*every worker that computed it died"):
        fm.evaluate(
            data.blocks("y"),
            predicted(greedy, data.blocks("mean"), data.blocks("x")),
            client=client,
        )
    client.wait_for_workers(WORKERS, timeout=30)
    assert len(pids - set(client.run(os.getpid).values())) == 1


def start_process(module: str, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *options, "--no-dashboard"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_scheduler_is_killed_and_the_checkpoint_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "GROUP", 3)
    monkeypatch.setattr(BlockCheckpoint, "every", 0.0)
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


# ---- tasks, messages and bytes of a pass, against the formulas of fastmcmd.distributed.cost ----

SAMPLE = 500
BLOCKS, GROUP = 21, 16  # blocks of 40 rows: a group of 16 (two levels of sums), one of 5
OURS = ("_of_shared", "added")  # functions of the tasks: sums of a block, sums of sums


def prefix(key: object) -> str:
    return str(key).split("-", maxsplit=1)[0]


@pytest.fixture
def passes(client, cluster, monkeypatch):
    """Count tasks and result sizes in the scheduler, and the bytes that workers receive, for each pass."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class Finished(SchedulerPlugin):
        def __init__(self) -> None:
            self.tasks, self.bytes = Counter(), Counter()

        def transition(self, key, start, finish, *_, **more):
            if (start, finish) == ("processing", "memory"):
                self.tasks[prefix(key)] += 1
                self.bytes[prefix(key)] += more.get("nbytes", 0)

    plugin = Finished()
    cluster.scheduler.add_plugin(plugin, name="counted")
    original, results = running.Run.reduce, {}

    def received():
        logs = client.run(
            lambda dask_worker: [
                (sorted(map(str, one["keys"])), one["total"])
                for one in dask_worker.transfer_incoming_log
            ]
        )
        return {worker: len(log) for worker, log in logs.items()}, logs

    def reduce(self, job, blocks):
        tasks, sizes, sent = plugin.tasks.copy(), plugin.bytes.copy(), self.counters.tasks
        before, _ = received()
        value = original(self, job, blocks)
        _, logs = received()
        transfers, messages = Counter(), 0
        for worker, log in logs.items():
            for keys, _ in log[before[worker] :]:
                transfers.update(map(prefix, keys))
                messages += 1
        results[job.name] = {
            "tasks": plugin.tasks - tasks, "bytes": plugin.bytes - sizes, "moved": transfers,
            "messages": messages, "own": self.counters.tasks - sent, "value": value,
        }  # fmt: skip
        return value

    monkeypatch.setattr(running.Run, "reduce", reduce)
    monkeypatch.setattr(running, "GROUP", GROUP)
    monkeypatch.setattr(setting, "CANDIDATES", SAMPLE)  # as on data with more rows than the sample
    yield results
    cluster.scheduler.remove_plugin("counted")


@pytest.mark.parametrize("models", [1, 2])
def test_a_pass_takes_the_tasks_and_bytes_of_the_formula(client, passes, models):
    rng = np.random.default_rng(0)
    n, d = 40 * BLOCKS, 3
    x = dask_array.from_array(rng.normal(size=(n, d)), chunks=(40, d))
    y = dask_array.from_array(rng.normal(size=n), chunks=40)
    kernels = {"x_kernel": fm.RBF(0.2), "y_kernel": fm.RBF(0.5), "lam": 0.01}
    if models == 1:
        state = fm.cce(x, y, fm.Gaussian(0 * y, 1.0), client=client, **kernels).accumulator._state
        names = "sample of x", "landmarks", "sums", "values"
    else:
        both = {"a": fm.Gaussian(0 * y, 1.0), "b": fm.Gaussian(0 * y, 1.2)}
        state = fm.compare(both, y, x, client=client, **kernels)["a"].cce.accumulator._state
        names = "sample of x", "landmarks", "evaluation", "values"
    assert list(passes) == list(names)
    groups, tasks = 2, task_count(BLOCKS, GROUP)
    assert tasks == (16 + 2 + 1) + (5 + 1)
    for name, one in passes.items():
        assert sum(one["tasks"][part] for part in OURS) == tasks == one["own"], name
        assert one["tasks"]["_of_shared"] == BLOCKS
        assert one["tasks"]["bytes"] == groups, name  # the work, once a group
        # Each result moves at most once, and not at all if one worker took all blocks; those of the groups
        # come here.
        assert sum(one["moved"][part] for part in OURS) <= tasks - groups, name
        assert one["moved"]["bytes"] <= groups * (WORKERS - 1), name
        assert one["messages"] <= sum(one["moved"].values()), name
    assert any(one["moved"][part] for one in passes.values() for part in OURS)
    p, r = state.smoother.rank, len(state.columns)
    sums = passes[names[2]]
    congruence = sums["value"] if models == 1 else sums["value"].congruence
    expected = sum_bytes(p, r, d, models)
    assert counted_bytes(congruence) == pytest.approx(expected, rel=0.01)
    if models == 1:
        assert sums["bytes"]["_of_shared"] == pytest.approx(BLOCKS * expected, rel=0.02)
    sample = passes["sample of x"]
    assert counted_bytes(sample["value"]) == pytest.approx(sample_bytes(SAMPLE, d), rel=0.01)
    assert sample["bytes"]["_of_shared"] == pytest.approx(BLOCKS * sample_bytes(40, d), rel=0.2)
    values = passes["values"]["bytes"]["_of_shared"]
    if models == 1:
        assert values < 200 * BLOCKS
    else:  # of 840 rows each is a piece
        assert 0 <= values - BLOCKS * loss_bytes(40, models) < 250 * models * BLOCKS
        losses = sums["value"].losses
        assert counted_bytes(losses) == 8 * n * (2 + models) * len(losses)


# ---- fastmcmd evaluate 'folder/*.parquet' --dask ----


@pytest.mark.parametrize("starts_processes", [False, True])
def test_a_folder_of_parquet_files(folder, starts_processes, request, monkeypatch):
    """The command uses a running cluster, or starts processes: here, one."""
    path, frame = folder
    monkeypatch.setattr("fastmcmd._base.threads.get_num_threads", lambda: 1)
    where = [] if starts_processes else [request.getfixturevalue("cluster").scheduler_address]
    process = run_cli(
        "evaluate",
        path / "*.parquet",
        "--dask",
        *where,
        "--by",
        "g",
        "--format",
        "json",
        "--output",
        path / "rows",
        "--report",
        path / "page.html",
        "--n-boot",
        "20",
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    in_memory = fm.evaluate(
        frame["y"],
        fm.Gaussian(frame["mean"], frame["std"]),
        frame[["x0", "x1"]],
        by=frame["g"],
        test=False,
    )
    assert result["n"] == 351
    low, high = result["intervals"]["mean_crps"]
    assert low < in_memory["crps"] < high
    assert result["metrics"]["mean_crps"] == pytest.approx(in_memory["crps"], rel=1e-9)
    assert abs(result["metrics"]["mean_cce"] - in_memory["cce"]) < 0.05 * in_memory["cce"]
    assert list(result["by"]) == ["early", "late"]
    rows = pytest.importorskip("pandas").read_parquet(path / "rows")
    assert "351 outcomes" in (path / "page.html").read_text()
    assert np.allclose(rows["crps"], in_memory.rows["crps"], rtol=1e-12)
