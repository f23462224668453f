"""Tasks, messages and bytes of a pass, counted by Dask's scheduler and workers, against the formulas."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.distributed import running, setting
from fastmcmd.distributed.cost import (
    bootstrap_bytes,
    counted_bytes,
    loss_bytes,
    sample_bytes,
    sum_bytes,
    task_count,
)

da = pytest.importorskip("dask.array", reason="Dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")

WORKERS, SAMPLE = 3, 500
BLOCKS, GROUP = 21, 16  # blocks of 40 rows: a group of 16 (two levels of sums), one of 5
OURS = ("_of_shared", "added")  # functions of the tasks: sums of a block, sums of sums


def prefix(key: object) -> str:
    return str(key).split("-", maxsplit=1)[0]


@pytest.fixture
def passes(client, cluster, monkeypatch):
    """Count tasks and sizes of results in the scheduler, and what workers receive, for each pass."""
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


@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 2])
def test_a_pass_takes_the_tasks_and_bytes_of_the_formula(client, passes, models):
    rng = np.random.default_rng(0)
    n, d = 40 * BLOCKS, 3
    x = da.from_array(rng.normal(size=(n, d)), chunks=(40, d))
    y = da.from_array(rng.normal(size=n), chunks=40)
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
        assert counted_bytes(losses) == 8 * n * (1 + models) * len(losses)


def test_bytes_of_differences_of_models_by_draws():
    from fastmcmd.distributed.losses import CongruenceTerms, Pieces

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 50))
    models = {"a": fm.Gaussian(x, 1.0), "b": fm.Draws(rng.normal(size=(50, 4)))}
    models["c"] = fm.Draws(rng.normal(size=(50, 3)))
    sums = fm.streaming.CCE(fm.RBF(0.2), fm.RBF(0.5), 9, 0.01).update(x, y, models)
    state = sums._state
    seed = np.random.SeedSequence(0)
    terms = CongruenceTerms.of(sums, state, 0.01, Pieces(5, 0), seed, 20)
    part = terms.sums(x[:, None], y[:, None], list(models.values()), None, 0)
    expected = loss_bytes(10, 3, 2, state.smoother.rank, len(state.columns))
    assert 0 <= counted_bytes(part) - expected < 60  # and two numbers
    # A block without rows must not drop the errors of the draws.
    none = terms.sums(x[:0, None], y[:0, None], [one.take([]) for one in models.values()], None, 1)
    for total in (part + none, none + part):
        assert total.draw_errors.keys() == part.draw_errors.keys()
        assert np.array_equal(total.draw_errors["1"], part.draw_errors["1"])


@pytest.mark.parametrize("classes", [0, 3])
def test_bytes_of_bootstrap_samples(classes):
    from fastmcmd.distributed.bootstrap import resampled_sums
    from fastmcmd.evaluation.context import Context, Settings
    from fastmcmd.evaluation.outcomes import read_rows

    y = np.arange(30) % (classes or 30)
    p = np.full((30, 3), 1 / 3)
    prediction = fm.Categorical(p, classes=list("abc")) if classes else fm.Gaussian(y, 1.0)
    outcomes = np.array(list("abc"))[y] if classes else y
    context = Context(read_rows(outcomes, prediction, None, "raise", None), Settings())
    (sums,) = resampled_sums({"": context}, 50, np.random.SeedSequence(0))
    expected = bootstrap_bytes(50, len(sums.moments), classes)
    assert counted_bytes(sums) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("options", [{}, {"simulations": 19}, {"landmarks": 7}])
def test_bytes_of_sums_of_an_accumulator(options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    one = fm.streaming.CCE(fm.RBF(0.2), fm.RBF(0.5), random_state=0, **{"landmarks": 30, **options})
    one.update(x, x[:, 0], {"a": fm.Gaussian(x[:, 0], 1.0), "b": fm.Gaussian(x[:, 1], 1.0)})
    state = one._state
    expected = sum_bytes(
        state.smoother.rank, len(state.columns), 4, 2, options.get("simulations", 0), probes=0
    )
    assert counted_bytes(state) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("blocks", "tasks"), [(1, 2), (8, 9), (9, 12), (64, 73), (65, 75), (0, 0)])
def test_tasks_of_small_passes(blocks, tasks):
    assert task_count(blocks) == tasks


def test_the_projection_of_the_page_follows_from_its_constants():
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    row, block = map(
        float, re.search(r"(\d+) µs of CPU per row .*?, (\d+) ms per block", page).groups()
    )
    number = {"10^8": 1e8, "10^10": 1e10, "1,000": 1e3, "10^5": 1e5, "10^4": 1e4}
    seconds = {"s": 1.0, "min": 60.0}
    lines = re.findall(
        r"\| (10\^\d+) \| ([\d,^]+) of \S+ rows \| (\d+) (s|min) \| (\d+) (s|min) \|", page
    )
    assert len(lines) == 3
    for rows, blocks, work, unit, client, other in lines:
        assert number[rows] * row * 1e-6 / 100 / seconds[unit] == pytest.approx(
            float(work), abs=0.5
        )
        passes = number[blocks] * block * 1e-3 * 4 / seconds[other]
        assert passes == pytest.approx(float(client), abs=0.5)
