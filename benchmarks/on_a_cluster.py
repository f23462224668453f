"""The cost of a cluster: CPU time of two workers against one process; tasks, bytes and messages of a pass.

    python benchmarks/on_a_cluster.py 2000000        # CPU time of all processes
    python benchmarks/on_a_cluster.py --overhead     # of tasks that do nothing

CPU time, since machines are shared: that of every process of the call, from before to after it.
"""

from __future__ import annotations

import argparse
import time
import warnings

import dask.array as da
import psutil
from distributed import Client, LocalCluster

import fastmcmd as fm
from fastmcmd.distributed import running


def data(n: int, d: int, chunk: int):
    """Return inputs, outcomes and predicted means that workers make from seeds."""
    rng = da.random.default_rng(0)
    x = rng.normal(size=(n, d), chunks=(chunk, d))
    # Independent of x, like columns of files: no worker needs the output of another one.
    return x, rng.normal(size=n, chunks=chunk), 0.3 + 0 * rng.normal(size=n, chunks=chunk)


def seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def transfers(dask_worker) -> tuple[int, int]:
    log = dask_worker.transfer_incoming_log
    return len(log), sum(one["total"] for one in log)


def call(x, y, mean, client):
    return fm.cce(
        x, y, fm.Gaussian(mean, 1.0), x_kernel=KERNELS[0], y_kernel=KERNELS[1], client=client
    )


KERNELS = 0.5 * fm.RBF(0.03) + 0.5 * fm.RBF(0.12), 0.5 * fm.RBF(0.25) + 0.5 * fm.RBF(0.5)


def compare(n: int, chunk: int, repeats: int) -> None:
    arrays = data(n, 8, chunk)
    loads = []
    original = running.Run.reduce
    running.Run.reduce = lambda self, job, blocks: (
        loads.append(self.counters) or original(self, job, blocks)
    )
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        workers = [
            psutil.Process(pid) for pid in client.run(lambda: __import__("os").getpid()).values()
        ]
        me = psutil.Process()
        call(*data(20_000, 8, 10_000), client)  # compiles and imports
        call(*data(20_000, 8, 10_000), None)
        everyone = [me, *workers]
        before, wall = sum(map(seconds, everyone)), time.perf_counter()
        time.sleep(10)
        idle = (sum(map(seconds, everyone)) - before) / (time.perf_counter() - wall)
        print(f"idle: CPU {idle:.3f} s a second for client, scheduler and two workers")
        for _ in range(repeats):
            before, wall = seconds(me), time.perf_counter()
            local = call(*arrays, None)
            alone, wall = seconds(me) - before, time.perf_counter() - wall
            print(f"one process: CPU {alone:.1f} s, wall {wall:.1f} s, mean {local.mean:.12g}")
            earlier = client.run(transfers)
            before = [seconds(one) for one in (me, *workers)]
            wall = time.perf_counter()
            remote = call(*arrays, client)
            cpu_s = [seconds(one) - b for one, b in zip((me, *workers), before, strict=True)]
            wall = time.perf_counter() - wall
            later = client.run(transfers)
            messages, sent = (sum(later[w][i] - earlier[w][i] for w in later) for i in (0, 1))
            total = loads[-1]
            print(
                f"two workers: CPU {sum(cpu_s):.1f} s ({sum(cpu_s) / alone:.3f} of one process; client and "
                f"scheduler {cpu_s[0]:.1f} s), wall {wall:.1f} s, mean {remote.mean:.12g}\n"
                f"  {total.passes} passes, {total.tasks} tasks, {total.groups} groups; between workers "
                f"{messages} messages, {sent / 1e6:.1f} MB"
            )


def overhead() -> None:
    """Print the time of the client, scheduler and workers for tasks that do nothing."""

    class Nothing:
        name = "nothing"

        def sums(self, arguments, number):
            return 1

    from fastmcmd._base.progress import Progress
    from fastmcmd.distributed.blocks import Blocks

    blocks = Blocks.of(y=da.zeros(6_400, chunks=10))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
        Progress(False, 0.0) as progress,
    ):
        workers = [
            psutil.Process(pid) for pid in client.run(lambda: __import__("os").getpid()).values()
        ]
        for _ in range(3):
            run = running.Run(client, progress)
            before = [seconds(one) for one in (psutil.Process(), *workers)]
            wall = time.perf_counter()
            run.reduce(Nothing(), blocks)
            cpu_s = [
                seconds(one) - b
                for one, b in zip((psutil.Process(), *workers), before, strict=True)
            ]
            count = len(blocks)
            print(
                f"a block: {sum(cpu_s) / count * 1e3:.2f} ms CPU (client and scheduler "
                f"{cpu_s[0] / count * 1e3:.2f} ms), {(time.perf_counter() - wall) / count * 1e3:.2f} ms "
                f"wall, {run.counters.tasks / count:.2f} tasks of ours"
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int, nargs="?", default=200_000)
    parser.add_argument("--chunk", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--overhead", action="store_true")
    arguments = parser.parse_args()
    if arguments.overhead:
        overhead()
    else:
        compare(arguments.n, arguments.chunk, arguments.repeats)
