"""``backend="auto"`` uses a device if one is present and its plan is clearly faster."""

from __future__ import annotations

import sys
import types
from dataclasses import replace

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


def options_for(**settings):
    return Options.of(**{"memory_limit": "4GB", **settings})


@pytest.fixture
def gpu(monkeypatch):
    """Stand-in for a device. Returns its memory, whose size a test may change before use."""
    stub = types.SimpleNamespace(budget=10**9, gpus=1, devices={}, error=None)

    def device(index, budget):
        if stub.error is not None:
            raise stub.error
        return stub.devices.setdefault(
            (index, budget), HostDevice(budget or stub.budget, "stand-in")
        )

    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    monkeypatch.setattr(cuda, "cupy", lambda: None)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: (stub.gpus, "" if stub.gpus else "none"))
    monkeypatch.setattr(cuda, "cuda_device", device)
    monkeypatch.setattr(choice, "_DECIDED", {})
    monkeypatch.setattr(rates, "_RATES", {})
    return stub


@pytest.fixture
def speeds(monkeypatch):
    """Replace the measured speeds of CPU and device by fixed ones, and count the measurements."""
    speed_of = {"cpu": 1e7, "cupy": 1e12, "count": 0}

    def measured_rate(backend, kernel, rows, columns, dtype):
        speed_of["count"] += 1
        return speed_of.get(backend.name, 1e7)

    monkeypatch.setattr(rates, "_measured_rate", measured_rate)
    return speed_of


@pytest.fixture
def any_size(monkeypatch):
    """Allow even small problems to run on a device."""
    monkeypatch.setattr(choice, "STARTUP", 1e-6)


def test_the_faster_device_is_taken(gpu, speeds, any_size):
    x, y, draws = problem()
    result = fm.cce(x, y, draws, x_kernel=KERNEL)
    assert result.info.backend == "cupy"
    assert any("took the device" in note and "stand-in" in note for note in result.info.notes)
    on_cpu = fm.cce(x, y, draws, x_kernel=KERNEL, backend="cpu")
    assert np.abs(result.values - on_cpu.values).max() <= result.error_bound + on_cpu.error_bound
    assert "HostDevice" not in repr(result)


def test_all_tiles_of_a_call_come_from_the_same_backend(gpu, speeds, any_size):
    x, y, draws = problem(600)
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL).fit(x, y, draws)
    assert estimator.result_.info.backend == "cupy"
    fitted = estimator.fitted()
    assert fitted.backend.name == fitted.options.backend == "cupy"
    assert backend_of(fitted.options, KERNEL).devices == (gpu.devices[0, None],)
    assert estimator.evaluate(x[:5] + 0.1).info.backend == "cupy"


def test_several_models_together(gpu, speeds, any_size):
    x, y, draws = problem(400)
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL)
    for one in estimator.fit_each(x, y, {"one": draws, "other": draws + 0.3}).values():
        assert one.result_.info.backend == one.fitted().options.backend == "cupy"
        assert any("took the device" in note for note in one.result_.info.notes)


def test_mcmd_of_two_samples(gpu, speeds, any_size):
    x, y, draws = problem(500)
    result = fm.mcmd(x[:9], x, y, x[:400] + 0.1, draws[:400], x_kernel=KERNEL)
    assert result.info.backend == "cupy"


def test_a_slower_device_is_left_alone(gpu, speeds, any_size):
    speeds["cupy"] = 0.9 * speeds["cpu"]
    x, y, draws = problem()
    result = fm.cce(x, y, draws, x_kernel=KERNEL)
    assert result.info.backend == "cpu"
    assert any("stays on the CPU" in note for note in result.info.notes)


def test_the_device_must_be_clearly_faster(gpu, any_size, monkeypatch):
    """A device that saves a fifth, or only as much as its start costs, is not worth the risk."""
    seconds, plan = {"cpu": 1.0, "cupy": 0.8}, choice._plan
    monkeypatch.setattr(
        choice,
        "_plan",
        lambda options, name, *arguments: replace(
            plan(options, name, *arguments), seconds=seconds[name]
        ),
    )
    monkeypatch.setattr(choice, "nominal_seconds", lambda *_: seconds["cpu"])
    x = problem()[0]
    assert settled(options_for(), (KERNEL, Y_KERNEL), x, 0.1).backend == "auto"
    seconds["cupy"] = 0.1
    for startup, backend in ((0.65, "auto"), (0.55, "cupy")):
        monkeypatch.setattr(choice, "STARTUP", startup)
        choice._DECIDED.clear()
        assert settled(options_for(), (KERNEL, Y_KERNEL), x, 0.1).backend == backend


def test_rates_are_measured_once(gpu, speeds, any_size):
    x = problem()[0]
    first = settled(options_for(), (KERNEL, Y_KERNEL), x, 0.1)
    count = speeds["count"]
    assert count > 0
    assert settled(options_for(), (KERNEL, Y_KERNEL), x, 0.1) == first
    settled(options_for(), (KERNEL, Y_KERNEL), x[:-1], 0.1)
    assert speeds["count"] == count


@pytest.mark.parametrize("backend", ["cpu", "numba", "numpy"])
def test_a_name_is_never_overruled(gpu, speeds, any_size, backend):
    x, y, draws = problem(120)
    assert fm.cce(x, y, draws, x_kernel=KERNEL, backend=backend).info.backend == backend
    assert fm.plan(x, KERNEL, backend=backend).backend == backend
    assert not speeds["count"] or all(place[0].name != "cupy" for place in rates._RATES)


def test_a_checkpoint_stays_on_the_cpu(gpu, speeds, any_size, tmp_path):
    """A resumed run takes the same steps, even if measured rates differ."""
    x, y, draws = problem(300)
    result = fm.cce(x, y, draws, x_kernel=KERNEL, checkpoint=tmp_path / "run")
    assert result.info.backend == "cpu"


def test_kernels_that_a_device_does_not_know(gpu, speeds, any_size):
    x = problem(60)[0]
    custom = fm.CustomKernel(_gauss)
    for kernels in ((custom, Y_KERNEL), (KERNEL, custom)):
        assert settled(options_for(), kernels, x, 0.1).backend == "auto"


def _gauss(a, b):
    total = 0.0
    for k in range(a.shape[0]):
        total += (a[k] - b[k]) ** 2
    return np.exp(-total)


def test_a_device_without_memory(gpu, speeds, any_size):
    gpu.budget = 10_000_000
    options = settled(options_for(), (KERNEL, Y_KERNEL), problem()[0], 0.1)
    assert options.backend == "auto"
    assert "10 MB to spare" in options.backend_reason


def test_a_device_that_cannot_be_used(gpu, speeds, any_size):
    gpu.error = RuntimeError("the driver is too old")
    x, y, draws = problem(300)
    result = fm.cce(x, y, draws, x_kernel=KERNEL)
    assert result.info.backend == "cpu"
    assert any("the driver is too old" in note for note in result.info.notes)


def test_no_device(gpu, speeds, any_size):
    gpu.gpus = 0
    options = settled(options_for(), (KERNEL, Y_KERNEL), problem()[0], 0.1)
    assert (options.backend, options.backend_reason, speeds["count"]) == ("auto", "", 0)


def test_no_cupy(speeds, any_size, monkeypatch):
    """Without CuPy, nothing is measured and CuPy is not imported."""
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(choice, "_is_installed", lambda name: False)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: pytest.fail("devices were looked for"))
    options = settled(options_for(), (KERNEL, Y_KERNEL), problem()[0], 0.1)
    assert (options.backend, speeds["count"]) == ("auto", 0)


def test_small_work_looks_at_no_device(gpu, speeds, monkeypatch):
    """Below the start-up cost of a device, not even the module of the choice is imported."""
    monkeypatch.setattr(choice, "choose", lambda *_: pytest.fail("a device was looked for"))
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: pytest.fail("devices were looked for"))
    x, y, draws = problem(2000)
    assert fm.cce(x, y, draws, x_kernel=KERNEL).info.backend == "cpu"
    # Only the sizes decide; one row is read.
    like = np.broadcast_to(np.float32(0.0), (10**6, 512))
    with pytest.raises(pytest.fail.Exception, match="a device was looked for"):
        settled(options_for(), (fm.RBF(1.0), Y_KERNEL), like, 0.1)


def test_the_call_refuses_memory_that_the_cpu_lacks(gpu, speeds, any_size):
    x, y, draws = problem(900)
    with pytest.raises(fm.MemoryLimitError, match="memory_limit is 2"):
        fm.cce(x, y, draws, x_kernel=KERNEL, memory_limit="2MB")


@pytest.mark.slow
def test_the_plan_says_which(gpu, speeds, any_size):
    x = problem(400)[0]
    plan = fm.plan(x, KERNEL)
    assert plan.backend == plan.to_dict()["backend"] == "cupy"
    assert "cupy" in repr(plan)
    assert "took the device" in plan.reasons[0]
    on_cpu = fm.plan(x, KERNEL, backend="cpu")
    assert on_cpu.seconds > plan.seconds
    assert (plan.solver, plan.landmarks) == (on_cpu.solver, on_cpu.landmarks)
    shaped = fm.plan((1000, 3), KERNEL, memory_limit="4GB")
    assert shaped.backend == "cupy"


def test_nominal_seconds_follow_from_sizes():
    """Count the first product and four more, with the steps between them, at k / lam = 10.

    A pair costs an exponential, five coordinates and 2 x 30 columns.
    """
    matrix = MatrixSize(fm.RBF(1.0), 1000, 5, "cpu")
    easy, hard = (ProblemSize(matrix, (30,), 1, condition, 1e-6) for condition in (10.0, 1e6))
    operations = 5 * 1000**2 * (15 + 5 + 60) + 4 * step_cost(1000, 30)
    seconds = choice.nominal_seconds(easy, 2)
    assert seconds == pytest.approx(operations / (2 * 2e10))
    assert choice.nominal_seconds(hard, 2) > 5 * seconds
