"""``backend="auto"`` takes a device where one is there and its plan is clearly the quicker one."""

from __future__ import annotations

import importlib.util
import sys
import types

import numpy as np
import pytest
from host_device import HostDevice

import fastmcmd as fm
from fastmcmd.device import cuda
from fastmcmd.estimate.task import backend_of
from fastmcmd.gram.cost import MatrixSize
from fastmcmd.options import Options
from fastmcmd.planning import choice, rates
from fastmcmd.planning.choice import settled
from fastmcmd.solvers import ProblemSize
from fastmcmd.solvers.costs import step_cost

KERNEL, Y_KERNEL = fm.RBF(0.5), fm.RBF(1.0)


def problem(n=900, d=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    return x, x[:, 0] + rng.normal(size=n), x[:, 0] + 1.1 * rng.normal(size=n)


def asked(**given):
    return Options.of(**{"memory_limit": "4GB", **given})


@pytest.fixture
def gpu(monkeypatch):
    """A stand-in for a device; gives its memory, whose size a test may change before it is used."""
    told = types.SimpleNamespace(budget=10**9, gpus=1, made={}, error=None)

    def device(index, budget):
        if told.error is not None:
            raise told.error
        return told.made.setdefault((index, budget), HostDevice(budget or told.budget, "stand-in"))

    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    monkeypatch.setattr(cuda, "cupy", lambda: None)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: (told.gpus, "" if told.gpus else "none"))
    monkeypatch.setattr(cuda, "cuda_device", device)
    monkeypatch.setattr(choice, "_DECIDED", {})
    monkeypatch.setattr(rates, "_RATES", {})
    return told


@pytest.fixture
def speeds(monkeypatch):
    """Operations a second of the CPU and the device, instead of measured ones; measurements are counted."""
    told = {"cpu": 1e7, "cupy": 1e12, "count": 0}

    def measured(backend, kernel, rows, columns, dtype):
        told["count"] += 1
        return told.get(backend.name, 1e7)

    monkeypatch.setattr(rates, "_measured", measured)
    return told


@pytest.fixture
def any_size(monkeypatch):
    """Even small work may go to a device."""
    monkeypatch.setattr(choice, "STARTUP", 1e-6)


def test_the_faster_device_is_taken(gpu, speeds, any_size):
    x, y, drawn = problem()
    found = fm.cce(x, y, drawn, x_kernel=KERNEL)
    assert found.info.backend == "cupy"
    assert any("took the device" in note and "stand-in" in note for note in found.info.notes)
    here = fm.cce(x, y, drawn, x_kernel=KERNEL, backend="cpu")
    assert np.abs(found.values - here.values).max() <= found.error_bound + here.error_bound
    assert "HostDevice" not in repr(found)


def test_all_tiles_of_a_call_come_from_the_same_backend(gpu, speeds, any_size):
    x, y, drawn = problem(600)
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL).fit(x, y, drawn)
    assert estimator.result_.info.backend == "cupy"
    fitted = estimator.fitted()
    assert fitted.backend.name == fitted.options.backend == "cupy"
    assert backend_of(fitted.options, KERNEL).devices == (gpu.made[0, None],)
    assert estimator.evaluate(x[:5] + 0.1).info.backend == "cupy"


def test_several_models_together(gpu, speeds, any_size):
    x, y, drawn = problem(400)
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL)
    for one in estimator.fit_each(x, y, {"one": drawn, "other": drawn + 0.3}).values():
        assert one.result_.info.backend == one.fitted().options.backend == "cupy"
        assert any("took the device" in note for note in one.result_.info.notes)


def test_mcmd_of_two_samples(gpu, speeds, any_size):
    x, y, drawn = problem(500)
    found = fm.mcmd(x[:9], x, y, x[:400] + 0.1, drawn[:400], x_kernel=KERNEL)
    assert found.info.backend == "cupy"


def test_a_slower_device_is_left_alone(gpu, speeds, any_size):
    speeds["cupy"] = 0.9 * speeds["cpu"]
    x, y, drawn = problem()
    found = fm.cce(x, y, drawn, x_kernel=KERNEL)
    assert found.info.backend == "cpu"
    assert any("stays on the CPU" in note for note in found.info.notes)


def test_clearly_faster_is_asked_for(gpu, speeds, any_size, monkeypatch):
    """A device that saves a tenth, or just what it takes to start, is not worth the risk."""
    speeds["cupy"] = 1.1 * speeds["cpu"]
    x = problem()[0]
    assert settled(asked(), (KERNEL, Y_KERNEL), x, 0.1).backend == "auto"
    speeds.update(cupy=1e12)
    rates._RATES.clear()
    whole, there = (fm.plan(x, KERNEL, backend=name, lam=0.1).seconds for name in ("cpu", "cupy"))
    # The nominal speed knows nothing of so slow a processor.
    monkeypatch.setattr(choice, "nominal_seconds", lambda *_: whole)
    for share, backend in ((1.1, "auto"), (0.9, "cupy")):
        monkeypatch.setattr(choice, "STARTUP", share * (0.7 * whole - there))
        choice._DECIDED.clear()
        assert settled(asked(), (KERNEL, Y_KERNEL), x, 0.1).backend == backend


def test_rates_are_measured_once(gpu, speeds, any_size):
    x = problem()[0]
    first = settled(asked(), (KERNEL, Y_KERNEL), x, 0.1)
    count = speeds["count"]
    assert count > 0
    assert settled(asked(), (KERNEL, Y_KERNEL), x, 0.1) == first
    settled(asked(), (KERNEL, Y_KERNEL), x[:-1], 0.1)
    assert speeds["count"] == count


@pytest.mark.parametrize("backend", ["cpu", "numba", "numpy"])
def test_a_name_is_never_overruled(gpu, speeds, any_size, backend):
    x, y, drawn = problem(120)
    assert fm.cce(x, y, drawn, x_kernel=KERNEL, backend=backend).info.backend == backend
    assert fm.plan(x, KERNEL, backend=backend).backend == backend
    assert not speeds["count"] or all(place[0].name != "cupy" for place in rates._RATES)


def test_a_checkpoint_stays_on_the_cpu(gpu, speeds, any_size, tmp_path):
    """A run that is gone on with must take the same way, whatever rates are then."""
    x, y, drawn = problem(300)
    found = fm.cce(x, y, drawn, x_kernel=KERNEL, checkpoint=tmp_path / "run")
    assert found.info.backend == "cpu"


def test_kernels_that_a_device_does_not_know(gpu, speeds, any_size):
    x = problem(60)[0]
    own = fm.CustomKernel(_gauss)
    for kernels in ((own, Y_KERNEL), (KERNEL, own)):
        assert settled(asked(), kernels, x, 0.1).backend == "auto"


def _gauss(a, b):
    total = 0.0
    for k in range(a.shape[0]):
        total += (a[k] - b[k]) ** 2
    return np.exp(-total)


def test_a_device_without_memory(gpu, speeds, any_size):
    gpu.budget = 10_000_000
    found = settled(asked(), (KERNEL, Y_KERNEL), problem()[0], 0.1)
    assert found.backend == "auto"
    assert "10 MB to spare" in found.backend_reason


def test_a_device_that_cannot_be_used(gpu, speeds, any_size):
    gpu.error = RuntimeError("the driver is too old")
    x, y, drawn = problem(300)
    found = fm.cce(x, y, drawn, x_kernel=KERNEL)
    assert found.info.backend == "cpu"
    assert any("the driver is too old" in note for note in found.info.notes)


def test_no_device(gpu, speeds, any_size):
    gpu.gpus = 0
    found = settled(asked(), (KERNEL, Y_KERNEL), problem()[0], 0.1)
    assert (found.backend, found.backend_reason, speeds["count"]) == ("auto", "", 0)


def test_no_cupy(speeds, any_size, monkeypatch):
    """Without CuPy nothing is measured, and it is not tried to import it."""
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: pytest.fail("devices were looked for"))
    found = settled(asked(), (KERNEL, Y_KERNEL), problem()[0], 0.1)
    assert (found.backend, speeds["count"]) == ("auto", 0)


def test_small_work_looks_at_no_device(gpu, speeds, monkeypatch):
    """Below what a device takes to start, not even the choice is loaded."""
    monkeypatch.setattr(choice, "choose", lambda *_: pytest.fail("a device was looked for"))
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: pytest.fail("devices were looked for"))
    x, y, drawn = problem(2000)
    assert fm.cce(x, y, drawn, x_kernel=KERNEL).info.backend == "cpu"
    # As sizes alone tell; no row is looked at but the first.
    like = np.broadcast_to(np.float32(0.0), (10**6, 512))
    with pytest.raises(pytest.fail.Exception, match="a device was looked for"):
        settled(asked(), (fm.RBF(1.0), Y_KERNEL), like, 0.1)


def test_memory_that_the_cpu_lacks_is_told_by_the_call(gpu, speeds, any_size):
    x, y, drawn = problem(900)
    with pytest.raises(fm.MemoryLimitError, match="memory_limit is 2"):
        fm.cce(x, y, drawn, x_kernel=KERNEL, memory_limit="2MB")


@pytest.mark.slow
def test_the_plan_says_which(gpu, speeds, any_size):
    x = problem()[0]
    found = fm.plan(x, KERNEL)
    assert found.backend == found.to_dict()["backend"] == "cupy"
    assert "cupy" in repr(found)
    assert "took the device" in found.reasons[0]
    here = fm.plan(x, KERNEL, backend="cpu")
    assert here.seconds > found.seconds
    assert (found.solver, found.landmarks) == (here.solver, here.landmarks)
    shaped = fm.plan((10**5, 3), KERNEL, memory_limit="4GB")
    assert shaped.backend == "cupy"


def test_nominal_seconds_follow_from_sizes():
    """The first product and four more, with the steps between, at k / lam = 10.

    A pair costs an exponential, five coordinates and 2 x 30 columns.
    """
    matrix = MatrixSize(fm.RBF(1.0), 1000, 5, "cpu")
    easy, hard = (ProblemSize(matrix, (30,), 1, condition, 1e-6) for condition in (10.0, 1e6))
    operations = 5 * 1000**2 * (15 + 5 + 60) + 4 * step_cost(1000, 30)
    seconds = choice.nominal_seconds(easy, 2)
    assert seconds == pytest.approx(operations / (2 * 2e10))
    assert choice.nominal_seconds(hard, 2) > 5 * seconds
