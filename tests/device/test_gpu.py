"""The same tests on a real device (marked ``gpu``) and on a simulated one."""

import functools
import os
import sys
import types
import zlib

import fake_cupy
import numpy as np
import pytest
from builders import unit_inputs
from host_device import HostDevice

import fastmcmd as fm
from fastmcmd.backends import cupy as cupy_module
from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.device import cuda, layout
from fastmcmd.device.base import DeviceMemoryError
from fastmcmd.device.column_blocks import DeviceBlocks

# The last is a device; the second one CuPy's calls with NumPy behind them, each test in one of the modes of
# fake_streams.py, all in that of FASTMCMD_TEST_STREAMS.
MODES = ("eager", "late", "random")
KINDS = ["stand-in", "calls", pytest.param("cuda", marks=pytest.mark.gpu)]
KERNELS = [fm.Polynomial(3, 1 / 64, 1.0), fm.RBF(0.5), fm.Laplacian(0.1), fm.Matern(0.5, 3.0)]


def test_cupy_has_all_names_that_are_played():
    """No device is needed: CuPy's modules, and CUDA's libraries that they load."""
    cupy = pytest.importorskip("cupy")
    try:
        _ = cupy.cuda.cublas.sgemm, cupy.cuda.cusolver.spotrf
    except ImportError as error:
        pytest.skip(f"a library of CUDA is missing: {error}")
    played = set(_names(fake_cupy.module()))
    assert [name for name in sorted(played) if not _has(cupy, name)] == []


def _names(part, before=""):
    """Yield the names of public members, and of members of classes and modules that the stand-in has."""
    for name in dir(part):
        if not name.startswith("_"):
            yield before + name
            inner = getattr(part, name)
            kind = inner if isinstance(inner, type) else type(inner)
            if kind is types.SimpleNamespace or kind.__module__.startswith(("fake_", "cupy.")):
                yield from (
                    _names(inner, f"{before}{name}.") if not isinstance(inner, property) else ()
                )


def _has(module, name):
    for part in name.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


@pytest.fixture
def calls(monkeypatch, request):
    """Install a module in place of CuPy."""
    seed = zlib.crc32(request.node.nodeid.encode())
    mode = os.environ.get("FASTMCMD_TEST_STREAMS", MODES[seed % len(MODES)])
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module(mode=mode, seed=seed))
    monkeypatch.setattr(cuda, "_MEASURED", 64)
    forget = (cuda.cuda_device_count, cuda.cuda_device)
    for cached in forget:
        cached.cache_clear()
    yield
    for cached in forget:
        cached.cache_clear()


@pytest.fixture(params=KINDS)
def make(request):
    """Return the function that makes a device with a budget."""
    if request.param == "stand-in":
        return HostDevice
    if request.param == "calls":
        request.getfixturevalue("calls")
    return lambda budget: cuda.CudaDevice(0, budget)


@pytest.fixture(params=KINDS)
def cupy_backend(request, monkeypatch):
    """Set ``backend="cupy"`` on a device or its stand-in; return the function that finds a device."""
    if request.param != "stand-in":
        if request.param == "calls":
            request.getfixturevalue("calls")
        return lambda limit: cuda.cuda_device(0, limit)
    backends = {}

    def device(index, budget):
        return backends.setdefault(
            (index, budget), HostDevice(budget or 10**9, f"stand-in {index}")
        )

    monkeypatch.setattr(cuda, "cupy", lambda: None)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: (2, ""))
    monkeypatch.setattr(cuda, "cuda_device", device)
    return lambda limit: device(0, limit)


@functools.cache
def product_of_definition(kernel):
    """Return rows x, columns v, K(x, x) v and the same of absolute values, in float64."""
    x, y, z = unit_inputs(400)
    v = np.stack([y, z, np.ones_like(y)], axis=1)
    matrix = kernel(x.astype(float))
    return x, v, matrix @ v, np.abs(matrix) @ np.abs(v)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("precision", ["float32", "split"])
def test_products_do_not_depend_on_tiles_or_memory(make, kernel, precision, monkeypatch):
    """Resident or streamed rows, with tiles of any size, give the same product up to rounding."""
    layouts = []

    def choose(*args, **options):
        layouts.append(layout.choose(*args, **options))
        return layouts[-1]

    monkeypatch.setattr(cupy_module, "choose", choose)
    x, v, exact, size = product_of_definition(kernel)
    for dtype, unit in ((np.float32, 2.0**-21), (np.float64, 2.0**-50)):
        streaming = 170_000 if (dtype, precision) == (np.float32, "float32") else 290_000
        for tile, budget in ((256, 10**8), (64, 10**8), (128, 700_000), (64, streaming)):
            device = make(budget)
            backend = CupyBackend(tile=tile, devices=(device,), precision=precision)
            product = backend.symmetric_matmul(kernel, backend.points(x, dtype), v)
            # Entries and sums: 64 coordinates, 400 terms.
            assert (np.abs(product - exact) <= 300 * unit * size).all()
            assert device.peak <= budget + 100_000  # pools round sizes up
            assert layouts[-1].held_resident == (budget != streaming)


@pytest.mark.slow
def test_rows_that_are_used_again_are_copied_once(make):
    x, y, _ = unit_inputs(700)
    device = make(10**8)
    backend = CupyBackend(devices=(device,))
    points = backend.points(x, np.float32)
    first = backend.symmetric_matmul(fm.RBF(0.5), points, y[:, None])
    held_bytes = device.held
    again = backend.symmetric_matmul(fm.RBF(0.5), points, y[:, None])
    np.testing.assert_array_equal(first, again)
    assert device.held == held_bytes > x.nbytes
    del points
    assert device.held < held_bytes - x.nbytes // 2


def test_out_of_memory_is_an_error(make):
    x, y, _ = unit_inputs(3000)
    backend = CupyBackend(devices=(make(200_000),))
    with pytest.raises(fm.MemoryLimitError, match=r"device_memory_limit is .* needs at least"):
        backend.symmetric_matmul(fm.RBF(0.5), backend.points(x, np.float32), y[:, None])


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky", "lowrank"])
@pytest.mark.parametrize("columns", [2, 64])
def test_certified_on_a_device(cupy_backend, solver, columns):
    x, y, draws = unit_inputs(900, columns)
    options = dict(x_kernel=fm.RBF(0.5), solver=solver, tol=1e-6)
    exact = fm.cce(x, y, draws, x_kernel=fm.RBF(0.5), tol=1e-10, dtype="float64", backend="cpu")
    result = fm.cce(x, y, draws, backend="cupy", device_memory_limit="40MB", **options)
    assert result.info.backend == "cupy"
    assert result.info.device
    assert result.error_bound <= 1e-6
    assert np.abs(result.values - exact.values).max() <= result.error_bound + exact.error_bound
    assert cupy_backend(40_000_000).peak <= 40_100_000


def random_problem(seed):
    """Return inputs, outcomes, draws and options, some hostile: outliers, duplicates, tiny limits."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([3, 40, 257])), int(rng.choice([1, 2, 8, 31, 33, 64]))
    scale = 10.0 ** rng.uniform(-3, 3)
    x = scale * rng.normal(size=(n, d)) / np.sqrt(d)
    if rng.random() < 0.3:
        x[rng.integers(0, n, 1 + n // 200)] *= 10.0 ** rng.uniform(0, 4)
    if rng.random() < 0.2:
        x += scale * 10.0 ** rng.uniform(0, 3)
    if rng.random() < 0.2:
        x[rng.integers(0, n, 1 + n // 3)] = x[rng.integers(0, n, 1 + n // 3)]
    y = np.sin(x[:, 0] / scale) + 0.3 * rng.normal(size=n)
    kernels = (
        fm.RBF(0.5 / scale**2), fm.Laplacian(0.5 / scale), fm.Matern(1.5, scale),
        fm.RBF(0.3 / scale**2) + 0.5 * fm.Polynomial(2, 1 / scale**2, 1.0),
    )  # fmt: skip
    options = dict(
        x_kernel=kernels[rng.integers(4)], lam=float(rng.choice([0.1, 0.01, 0.001])),
        weights=rng.integers(1, 4, n) if rng.random() < 0.3 else None,
    )  # fmt: skip
    of_device = dict(
        tol=float(rng.choice([1e-4, 1e-6, 1e-8])), device_memory_limit=int(rng.choice([2e7, 1e9])),
        solver=str(rng.choice(["auto", "cg", "cholesky"])),
        certificate=str(rng.choice(["auto", "sampled", "rigorous"])),
    )  # fmt: skip
    kind = rng.choice([np.float32, np.float64])
    return (x.astype(kind), y, y + 0.3 * rng.normal(size=n)), options, of_device


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
def test_random_problems_agree_within_their_bounds(cupy_backend):
    for seed in range(8):
        arrays, options, of_device = random_problem(seed)
        on_host = fm.cce(*arrays, backend="cpu", dtype="float64", tol=1e-8, **options)
        on_device = fm.cce(*arrays, backend="cupy", **options, **of_device)
        bound = on_device.error_bound + on_host.error_bound
        assert np.abs(on_device.values - on_host.values).max() <= bound, seed


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cg", "cholesky", "lowrank"])
def test_two_devices(cupy_backend, solver):
    if cuda.cuda_device_count()[0] < 2:
        pytest.skip("one device only")
    x, y, draws = unit_inputs(700, 2)
    options = dict(x_kernel=fm.RBF(0.5), tol=1e-6)
    on_host = fm.cce(x, y, draws, backend="cpu", dtype="float64", **options)
    on_device = fm.cce(x, y, draws, backend="cupy", devices=[0, 1], solver=solver, **options)
    assert on_device.error_bound <= 1e-6
    assert (
        np.abs(on_device.values - on_host.values).max()
        <= on_device.error_bound + on_host.error_bound
    )


@pytest.mark.slow
def test_weights_and_the_bootstrap(cupy_backend):
    x, y, draws = unit_inputs(500, 3)
    weights = np.random.default_rng(1).integers(0, 3, 500)
    on_device = fm.cce(x, y, draws, weights=weights, backend="cupy", tol=1e-7)
    on_host = fm.cce(x, y, draws, weights=weights, backend="cpu", tol=1e-7)
    assert (
        np.abs(on_device.values - on_host.values).max()
        <= on_device.error_bound + on_host.error_bound
    )
    evaluation = fm.evaluate(y, (x[:, 0], 0.3), x, backend="cupy", n_boot=10)
    assert evaluation.cce.info.backend == "cupy"


@pytest.mark.slow
def test_inputs_on_disk(cupy_backend, tmp_path):
    x, y, draws = unit_inputs(3000, 16)
    path = tmp_path / "x.npy"
    np.save(path, x)
    options = dict(x_kernel=fm.RBF(0.05), solver="lowrank", tol=1e-3, memory_limit="40MB")
    fm.set_num_threads(2)  # each has its own tiles, within the limit
    on_device = fm.cce(path, y, draws, backend="cupy", **options)
    on_host = fm.cce(x, y, draws, backend="cpu", tol=1e-8, x_kernel=fm.RBF(0.05))
    assert (
        np.abs(on_device.values - on_host.values).max()
        <= on_device.error_bound + on_host.error_bound
    )


@pytest.mark.gpu
def test_arrays_of_cupy_and_torch_on_a_device():
    cp = cuda.cupy()
    x, y, draws = unit_inputs(400, 8)
    on_host = fm.cce(x, y, draws)
    on_device = fm.cce(cp.asarray(x), cp.asarray(y), cp.asarray(draws))
    assert isinstance(on_device.values, cp.ndarray)
    assert on_device.info.backend == "cupy"
    bound = on_host.error_bound + float(on_device.error_bound)
    assert np.abs(np.asarray(on_device) - on_host.values).max() <= bound
    # Too large for a plain copy: rows that stay there, and are read in blocks.
    x, y, draws = unit_inputs(9000, 128)
    options = dict(x_kernel=fm.RBF(0.05), tol=1e-5)
    on_host, on_device = fm.cce(x, y, draws, **options), fm.cce(cp.asarray(x), y, draws, **options)
    bound = on_host.error_bound + float(on_device.error_bound)
    assert np.abs(np.asarray(on_device) - on_host.values).max() <= bound
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        tensors = (torch.as_tensor(v, device="cuda") for v in (x, y, draws))
        from_tensors = fm.cce(*tensors, **options)
        assert from_tensors.info.backend == "cupy"
        assert np.abs(from_tensors.values - on_host.values).max() <= bound


@pytest.fixture(params=KINDS[1:])
def gpu(request):
    """Return a device of CuPy, or the stand-in with CuPy's calls."""
    if request.param == "calls":
        request.getfixturevalue("calls")
    return cuda.CudaDevice(0, 20_000_000)


@pytest.fixture
def other(gpu):
    """Return a second device."""
    if cuda.cuda_device_count()[0] < 2:
        pytest.skip("one device only")
    return cuda.CudaDevice(1, 20_000_000)


def test_rates_are_measured(gpu):
    assert set(gpu.rates) == {"float64", "float32", "float16"}
    assert min(gpu.rates.values()) > 0
    assert gpu.tensor_cores_pay in (True, False)
    assert "cuda:0" in gpu.label


def test_copies(gpu):
    host = np.arange(600.0).reshape(20, 30)
    on_device = gpu.upload(host)
    np.testing.assert_array_equal(gpu.download(on_device), host)
    np.testing.assert_array_equal(gpu.download(on_device[3:7, 5:9]), host[3:7, 5:9])
    np.testing.assert_array_equal(gpu.download(gpu.copy(on_device[:, 2:4])), host[:, 2:4])
    np.testing.assert_array_equal(gpu.download(gpu.zeros((4, 5), np.float32)), np.zeros((4, 5)))
    for slot, rows in ((0, host[:8]), (1, host[8:]), (0, host[8:]), (1, host[:2])):
        gpu.copy_in(slot, rows)
        np.testing.assert_array_equal(gpu.download(gpu.arrived(slot)), rows)
        gpu.done_with(slot)
    gpu.drop_slots()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_from_device_to_device(gpu, other, dtype):
    host = np.arange(600, dtype=dtype).reshape(20, 30)
    on_device = gpu.upload(host)
    for part in (np.s_[:], np.s_[3:7], np.s_[3:7, 5:9], np.s_[:0]):
        np.testing.assert_array_equal(
            other.download(other.take_from(gpu, on_device[part])), host[part]
        )
    assert gpu.adopted(on_device) is on_device
    assert other.adopted(on_device) is None
    assert gpu.adopted(object()) is None
    for slot, rows in ((0, slice(0, 8)), (1, slice(8, 20)), (0, slice(8, 20))):
        other.copy_in(slot, on_device[rows])
        np.testing.assert_array_equal(other.download(other.arrived(slot)), host[rows])
        other.done_with(slot)
        other.copy_in(slot, host[rows])  # copied from the host through the same memory
        np.testing.assert_array_equal(other.download(other.arrived(slot)), host[rows])
        other.done_with(slot)
    other.drop_slots()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors(make, dtype):
    """Factor a part of a larger matrix whose other half may hold anything."""
    device = make(20_000_000)
    rng = np.random.default_rng(0)
    root = rng.normal(size=(40, 60))
    matrix = (root @ root.T + np.eye(40)).astype(dtype)
    for place in (np.s_[:40, :40], np.s_[3:30, 3:30], np.s_[:1, :1], np.s_[:0, :0]):
        part = matrix[place]
        on_device = device.upload(np.tril(matrix) + np.triu(np.full((40, 40), 7, dtype), 1))
        assert device.factor(on_device[place]) == -1
        lower = np.tril(device.download(on_device[place]))
        atol = 50 * np.finfo(dtype).eps * float(np.abs(matrix).max())
        np.testing.assert_allclose(lower @ lower.T, part, atol=atol)
    for bad in (0, 17, 39):
        broken = matrix.copy()
        broken[bad, bad] = -1.0
        assert device.factor(device.upload(broken)) == bad


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_and_solutions_of_parts(gpu, dtype):
    """Slices of larger matrices, transposed or not, agree with NumPy."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=(40, 50)).astype(dtype) for _ in range(3))
    lower = (np.tril(rng.normal(size=(50, 50))) + 9 * np.eye(50)).astype(dtype)
    unit = 500 * np.finfo(dtype).eps
    for left, right in ((False, False), (True, False), (False, True), (True, True)):
        x, y, z = (gpu.upload(v) for v in (a, b, c))
        one = a[3:10, 5:17] if not left else a[5:17, 3:10]
        two = b[1:13, 4:9] if not right else b[4:9, 1:13]
        gpu.multiply(
            z[2:9, 1:6],
            x[3:10, 5:17] if not left else x[5:17, 3:10],
            y[1:13, 4:9] if not right else y[4:9, 1:13],
            transposed=(left, right), scale=-2.0, keep=0.5,
        )  # fmt: skip
        expected = c.copy()
        product = (one.T if left else one) @ (two.T if right else two)
        expected[2:9, 1:6] = -2 * product + 0.5 * c[2:9, 1:6]
        np.testing.assert_allclose(gpu.download(z), expected, atol=unit)
    factor = gpu.upload(lower)
    part = lower[4:12, 4:12]
    for right, transposed in ((False, False), (False, True), (True, False), (True, True)):
        operator = part.T if transposed else part
        rhs = a[:8, 3:20] if not right else a[:17, 3:11]
        on_device = gpu.upload(a)
        where = on_device[:8, 3:20] if not right else on_device[:17, 3:11]
        gpu.solve(factor[4:12, 4:12], where, right=right, transposed=transposed)
        expected = (
            np.linalg.solve(operator, rhs) if not right else np.linalg.solve(operator.T, rhs.T).T
        )
        np.testing.assert_allclose(gpu.download(where), expected, atol=unit)


def test_blocks_of_columns(make):
    """Operations of CG on blocks of a device agree with NumPy, and take memory within the limit."""
    device = make(4_000_000)
    blocks = DeviceBlocks(device)
    rng = np.random.default_rng(0)
    wide, small, scale = rng.normal(size=(700, 9)), rng.normal(size=(5, 4)), rng.normal(size=700)
    on_device, factor = blocks.take(wide), blocks.take(scale)
    a, b = on_device[:, :5], on_device[:, 5:]
    left, right = wide[:, :5], wide[:, 5:]

    def check(block, expected):
        np.testing.assert_allclose(blocks.host(block), expected, atol=1e-12)

    np.testing.assert_allclose(blocks.inner(a, b), left.T @ right, atol=1e-12)
    check(blocks.times(a, small), left @ small)
    check(blocks.times(a, small, sign=-1.0), -left @ small)
    check(blocks.times(a, small, base=b, sign=-1.0), right - left @ small)
    check(on_device, wide)  # a base that is not the result stays
    sums = blocks.zeros(700, 4)
    blocks.times(a, small, base=sums, out=sums)
    blocks.times(a, small, base=sums, out=sums)
    check(sums, 2 * left @ small)
    check(blocks.scaled(factor, a), scale[:, None] * left)
    check(blocks.scaled(factor, a, base=a), left + scale[:, None] * left)
    check(blocks.beside([b, a]), np.hstack([right, left]))
    check(blocks.beside([b]), right)
    none = blocks.times(a, small[:, :0])
    assert none.shape == (700, 0)
    assert blocks.inner(none, b).shape == (0, 4)
    check(blocks.times(none, np.ones((0, 4)), base=b), right)
    check(blocks.times(none, np.ones((0, 2))), np.zeros((700, 2)))
    with pytest.raises(fm.MemoryLimitError, match="device_memory_limit"):
        blocks.zeros(700, 1000)
    assert DeviceBlocks.fit(device, 700, 9)
    assert not DeviceBlocks.fit(device, 7000, 9)


def test_products_of_float16(gpu):
    """Whole numbers have exact products in float32; slices, transposed or not."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-100, 100, (40, 56)).astype(np.float16) for _ in range(3))
    for left, right in ((True, False), (False, False), (False, True), (True, True)):
        x, y, z = gpu.upload(a), gpu.upload(b), gpu.upload(c.astype(np.float32))
        one = np.s_[8:16, 8:11] if left else np.s_[8:11, 8:16]
        two = np.s_[16:21, :8] if right else np.s_[16:24, :5]
        gpu.multiply(z[2:5, 1:6], x[one], y[two], transposed=(left, right), scale=-2.0, keep=0.5)
        first, second, expected = a[one].astype(float), b[two].astype(float), c.astype(float)
        product = (first.T if left else first) @ (second.T if right else second)
        expected[2:5, 1:6] = 0.5 * expected[2:5, 1:6] - 2 * product
        np.testing.assert_array_equal(gpu.download(z), expected)


@pytest.mark.slow
def test_a_budget_that_is_used_up(gpu):
    held_bytes = gpu.held
    resident = gpu.empty((1_000_000,), np.float64)
    assert gpu.held >= held_bytes + 8_000_000
    assert not gpu.has_memory(13_000_000)
    with pytest.raises(DeviceMemoryError) as caught:
        gpu.empty((2_000_000,), np.float64)
    assert caught.value.wanted == 16_000_000
    del resident
    assert gpu.held < held_bytes + 1000
    assert gpu.peak >= 8_000_000


def test_devices_that_are_not_there(calls):
    with pytest.raises(ValueError, match="devices holds 7; there are 2 devices, from 0"):
        cuda.CudaDevice(7)
