"""Containers, read-only installations, forks, and settings of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import fastmcmd
from fastmcmd._base import cgroups, memory, threads
from fastmcmd._base.cached import cached_property

MIB = 1 << 20


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    threads._quota.cache_clear()
    yield tmp_path
    threads._quota.cache_clear()


V2 = "35 24 0:30 {inside} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)


def test_the_smallest_limit_over_all_ancestors_holds(root):
    write(
        root,
        {
            "proc/self/cgroup": "0::/pod/app/worker\n",
            "proc/self/mountinfo": V2.format(inside="/"),
            "sys/fs/cgroup/cgroup.procs": "",
            "sys/fs/cgroup/pod/memory.max": 600 * MIB,
            "sys/fs/cgroup/pod/memory.current": 100 * MIB,
            "sys/fs/cgroup/pod/app/memory.max": "max",
            "sys/fs/cgroup/pod/app/memory.current": 90 * MIB,
            "sys/fs/cgroup/pod/app/worker/memory.max": 24000 * MIB,
            "sys/fs/cgroup/pod/app/worker/memory.current": 80 * MIB,
        },
    )
    assert cgroups.free_memory() == 500 * MIB


def test_the_page_cache_is_free_memory(root):
    write(
        root,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": V2.format(inside="/"),
            "sys/fs/cgroup/memory.max": 1000 * MIB,
            "sys/fs/cgroup/memory.current": 999 * MIB,
            "sys/fs/cgroup/memory.stat": f"anon {MIB}\nfile {900 * MIB}\ninactive_file {800 * MIB}\n",
        },
    )
    assert cgroups.free_memory() == 801 * MIB


def test_the_softer_limit_of_version_2_counts(root):
    write(
        root,
        {
            "proc/self/cgroup": "0::/a\n",
            "proc/self/mountinfo": V2.format(inside="/"),
            "sys/fs/cgroup/a/memory.max": 1000 * MIB,
            "sys/fs/cgroup/a/memory.high": 300 * MIB,
            "sys/fs/cgroup/a/memory.current": 100 * MIB,
        },
    )
    assert cgroups.free_memory() == 200 * MIB


@pytest.mark.parametrize("inside", ["/docker/1234", "/"])
def test_a_container_sees_its_own_group_as_the_root(root, inside):
    """Without a namespace of groups the path in /proc/self/cgroup is that of the host."""
    write(
        root,
        {
            "proc/self/cgroup": "0::/docker/1234\n",
            "proc/self/mountinfo": V2.format(inside=inside),
            "sys/fs/cgroup/memory.max": 700 * MIB,
            "sys/fs/cgroup/memory.current": 200 * MIB,
            "sys/fs/cgroup/cpu.max": "150000 100000",
        },
    )
    assert cgroups.free_memory() == 500 * MIB
    assert cgroups.processors() == 1.5


def test_version_1(root):
    stat = f"inactive_file {MIB}\ntotal_inactive_file {30 * MIB}\n"
    write(
        root,
        {
            "proc/self/cgroup": "5:memory:/a/b\n3:cpu,cpuacct:/c\n0::/\n",
            "proc/self/mountinfo": V1,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
            "sys/fs/cgroup/memory/memory.usage_in_bytes": 5000 * MIB,
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": 400 * MIB,
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes": 130 * MIB,
            "sys/fs/cgroup/memory/a/memory.stat": stat,
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": 500 * MIB,
            "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": 20 * MIB,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": -1,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": 100000,
            "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": 250000,
            "sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": 100000,
        },
    )
    assert cgroups.free_memory() == 300 * MIB
    assert cgroups.processors() == 2.5


@pytest.mark.parametrize(("quota", "most"), [("max 100000", 6), ("210000 100000", 3), ("1 9", 1)])
def test_a_quota_limits_the_default_number_of_threads(root, monkeypatch, quota, most):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_thread_count", None)  # other tests set it
    monkeypatch.setattr(threads, "_last", (-float("inf"), 1))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    write(
        root,
        {
            "proc/self/cgroup": "0::/a\n",
            "proc/self/mountinfo": V2.format(inside="/"),
            "sys/fs/cgroup/a/cpu.max": quota,
        },
    )
    assert threads.get_num_threads() == most
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert threads.get_num_threads() == most  # as it was a moment ago
    monkeypatch.setattr(threads, "_SECONDS", 0.0)
    assert threads.get_num_threads() == 1


def test_without_groups_there_is_no_limit(root, monkeypatch):
    assert cgroups.free_memory() is None
    assert cgroups.processors() is None
    monkeypatch.setattr(memory, "_system_free", lambda: 123)
    monkeypatch.setattr(memory, "_last", (-float("inf"), 0))
    assert memory.available_memory() == 123
    monkeypatch.setattr(memory, "_system_free", lambda: 45)
    assert memory.available_memory() == 123  # as it was a moment ago
    monkeypatch.setattr(memory, "_SECONDS", 0.0)
    assert memory.available_memory() == 45


def run(code, *options, env=None, timeout=120, cwd=None):
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=timeout, env=env, cwd=cwd,
    )  # fmt: skip


@pytest.mark.slow
def test_an_unknown_instruction_set_is_named():
    code = """
        try:
            import fastmcmd
        except ImportError as error:
            print(error)
    """
    process = run(code, env={**os.environ, "FASTMCMD_ISA": "nonsense"})
    assert process.stdout.startswith("FASTMCMD_ISA is 'nonsense', must be one of"), process.stderr


class Slow:
    def __init__(self, wait):
        self.wait = wait

    @cached_property
    def value(self):
        """Stands for slow work."""
        self.wait()
        return object()


def test_a_cached_property_waits_for_no_other_object():
    """Before Python 3.12, that of functools holds a lock of the class during the computation."""
    start_event, go_on = threading.Event(), threading.Event()

    def wait():
        start_event.set()
        assert go_on.wait(20)

    busy = threading.Thread(target=lambda: Slow(wait).value, daemon=True)
    busy.start()
    assert start_event.wait(20)
    other = threading.Thread(target=lambda: Slow(lambda: None).value, daemon=True)
    other.start()
    other.join(5)
    waits = other.is_alive()
    go_on.set()
    busy.join(20)
    assert not waits


def test_a_cached_property_is_one_object_for_all_threads():
    barrier = threading.Barrier(4)
    slow = Slow(lambda: barrier.wait(20))
    values_seen = []
    several = [threading.Thread(target=lambda: values_seen.append(slow.value)) for _ in range(4)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert len(values_seen) == 4
    assert len(set(map(id, values_seen))) == 1
    assert "slow" in Slow.value.__doc__


def test_no_other_cached_property_is_used():
    for path in Path(fastmcmd.__file__).parent.rglob("*.py"):
        if path.name != "cached.py":
            assert "functools import cached_property" not in path.read_text(encoding="utf-8"), path


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_computes():
    code = """
        import os, threading, time
        import numpy as np
        import fastmcmd as fm

        fm.set_num_threads(1)
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(300, 2)), rng.normal(size=300)
        work = lambda n=300: fm.cce(x[:n], y[:n], fm.Gaussian(y[:n], 1.0)).mean
        work(50)
        stop = threading.Event()
        def loop():
            while not stop.is_set():
                work()
        thread = threading.Thread(target=loop)
        thread.start()
        children = []
        for _ in range(6):
            time.sleep(0.05)
            pid = os.fork()
            if not pid:
                work(50)
                os._exit(0)
            children.append(pid)
        assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
        stop.set()
        thread.join()
    """
    process = run(code, timeout=60)
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_checks_are_no_assertions():
    """With ``python -O`` assertions do not run."""
    code = """
        import numpy as np, fastmcmd as fm
        assert False, "not run"
        y, p = np.zeros(9), fm.Gaussian(np.zeros(9), 1.0)
        for call in (
            lambda: fm.classification.evaluate(None, np.full((9, 3), 1 / 3)),
            lambda: fm.cce(np.zeros((9, 2)), y[1:], p),
            lambda: fm.evaluate(y, (np.zeros(9), -np.ones(9))),
            lambda: fm.cce(y, y, p, lam=-1),
        ):
            try:
                call()
            except (TypeError, ValueError) as error:
                print(type(error).__name__)
    """
    process = subprocess.run(
        [sys.executable, "-O", "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=120, check=False,
        cwd=Path(fastmcmd.__file__).parents[1],
    )  # fmt: skip
    assert process.stdout.split() == ["TypeError", "ValueError", "RowError", "ValueError"], (
        process.stderr
    )
