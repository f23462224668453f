"""Inputs on a device stay there: CuPy's calls on NumPy (fake_cupy.py), and stand-in devices."""

import sys
import types

import fake_cupy
import numpy as np
import pytest
from builders import unit_inputs
from host_device import HostDevice

import fastmcmd as fm
from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.device import cuda
from fastmcmd.gram import operator
from fastmcmd.rows import Rows, open_rows, table


@pytest.fixture
def gpus(monkeypatch):
    """Put two stand-ins behind ``backend="cupy"``."""
    devices = {}

    def device(index, budget):
        return devices.setdefault(
            index, HostDevice(budget or 10**9, f"stand-in {index}", index=index)
        )

    monkeypatch.setattr(cuda, "cuda_device_count", lambda: (2, ""))
    monkeypatch.setattr(cuda, "cuda_device", device)
    return devices


@pytest.fixture
def put(monkeypatch):
    """Return a function that puts an array on a device; ``put.downloads`` are the bytes that come back."""
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(cuda, "cupy", lambda: module)
    get = fake_cupy.ndarray.get

    def put(values, gpu=1):
        with module.cuda.Device(gpu):
            return module.asarray(values)

    def counting(self, stream=None):
        put.downloads.append(self.nbytes)
        return get(self, stream)

    monkeypatch.setattr(fake_cupy.ndarray, "get", counting)
    put.downloads = []
    return put


@pytest.fixture
def blocks(monkeypatch):
    """Use small blocks, and copy no input merely because it is small."""
    monkeypatch.setattr(table, "_BLOCK_BYTES", 20_000)
    monkeypatch.setattr(operator, "_BLOCK_BYTES", 40_000)
    monkeypatch.setattr(sys.modules["fastmcmd.estimate.arguments"], "_TINY", 0)


class Tensor:
    """Stand-in for the used part of a CUDA tensor."""

    def __init__(self, values, gpu=1, gradient=False):
        self._values = np.asarray(values)
        self.device = types.SimpleNamespace(index=gpu)
        self.is_cuda, self.gradient = True, gradient
        kind = self._values.dtype.kind
        self.dtype = types.SimpleNamespace(is_floating_point=kind == "f", is_complex=kind == "c")

    def detach(self):
        return Tensor(self._values, self.device.index)

    def element_size(self):
        return self._values.itemsize

    def float(self):
        return Tensor(self._values.astype(np.float32), self.device.index)

    def double(self):
        return Tensor(self._values.astype(np.float64), self.device.index)

    def numpy(self):
        assert not self.gradient, "call detach() first"
        return self._values

    def __len__(self):
        return len(self._values)


@pytest.fixture
def tensor(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor))
    return Tensor


def agree(on_device, on_host):
    assert (
        np.abs(np.asarray(on_device) - np.asarray(on_host)).max()
        <= on_device.error_bound + on_host.error_bound
    )


# ------------------------------------------------------------------------------------------ rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["cupy", "torch"])
def test_rows_are_the_array_itself(put, tensor, kind, dtype):
    values = np.arange(60, dtype=dtype).reshape(20, 3)
    source = put(values) if kind == "cupy" else tensor(values, gradient=True)
    rows = open_rows(source, "x", columns=3, stays=True)
    assert isinstance(rows, Rows)
    assert (rows.shape, rows.dtype) == ((20, 3), dtype)
    where = source.data.ptr if kind == "cupy" else values.ctypes.data
    assert rows.on_device.data.ptr == where  # no copy
    assert "on cuda:1" in repr(rows)
    np.testing.assert_array_equal(rows[[3, 0, 19]], values[[3, 0, 19]])
    row_blocks = [block for _, block in rows.blocks(7)]
    np.testing.assert_array_equal(np.concatenate(row_blocks), values)
    assert put.downloads[-1] == values[:6].nbytes
    assert open_rows(rows, "x", columns=3, stays=True) is rows


@pytest.mark.parametrize("kind", ["cupy", "torch"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(12, dtype=np.float16).reshape(6, 2), np.float32),
        (np.arange(12, dtype=np.int32).reshape(6, 2), np.float64),
        (np.arange(12).reshape(6, 2) % 2 == 0, np.float64),
        (np.arange(5.0), np.float64),
    ],
)
def test_other_types_and_shapes_are_converted_on_the_device(put, tensor, kind, values, expected):
    rows = open_rows(put(values) if kind == "cupy" else tensor(values), "x", stays=True)
    flat = values.reshape(len(values), -1)
    assert (rows.shape, rows.dtype) == (flat.shape, expected)
    assert not put.downloads
    assert rows.on_device.shape == flat.shape
    np.testing.assert_array_equal(rows[:], flat.astype(expected))


def test_columns_first_are_copied_on_the_device(put):
    values = np.arange(12.0).reshape(3, 4)
    source = put(values)
    transposed = fake_cupy.ndarray(source._inner.T, source._memory, source.device)
    rows = open_rows(transposed, "x", stays=True)
    assert rows.on_device.flags.c_contiguous
    assert rows.on_device.device.id == 1
    np.testing.assert_array_equal(rows[:], values.T)


def test_without_staying_the_host_has_them(put):
    values = np.arange(12.0).reshape(6, 2)
    rows = open_rows(put(values), "x")
    assert isinstance(rows, np.ndarray)
    np.testing.assert_array_equal(rows, values)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.zeros((2, 2, 2)), ValueError, r"x \(a CuPy array on cuda:1\) has shape \(2, 2, 2\)"),
        (np.zeros((0, 2)), ValueError, "has no rows"),
        (np.zeros((4, 0)), ValueError, "has no columns"),
        (np.zeros((4, 2)), ValueError, "has 2 columns; 3 are needed"),
        (np.zeros((4, 3), complex), TypeError, "real numbers are needed"),
    ],
)
def test_bad_arrays_are_an_error(put, values, error, message):
    with pytest.raises(error, match=message):
        open_rows(put(values), "x", columns=3, stays=True)


def test_errors_name_the_row_that_is_not_finite(put, blocks, gpus):
    x, y, draws = unit_inputs(900, 5)
    x[700, 3] = np.nan
    with pytest.raises(
        ValueError, match=r"x \(a CuPy array on cuda:1\) holds NaN \(first in row 700"
    ):
        fm.cce(put(x), y, draws, tol=1e-4)


def test_without_cupy_tensors_are_refused_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor))
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(fm.MissingDependencyError, match=r"pip install 'fastmcmd\[gpu\]'"):
        fm.cce(Tensor(np.ones((5, 2))), np.ones(5), np.ones(5))


# -------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("budget", [10**8, 150_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_rows_on_devices(put, budget, dtype):
    """Nothing is copied on its own device; another device copies each block, resident or streamed."""
    x, y, _ = unit_inputs(700, 40)
    kernel, v = fm.RBF(0.4), y[:, None]
    devices = [HostDevice(budget, f"stand-in {i}", index=i) for i in range(2)]
    exact = kernel(x.astype(float)) @ v
    unit = 3e-3 if dtype == np.float32 else 1e-10
    offset = x.mean(axis=0, dtype=np.float64)
    for devices_used in (devices[1:], devices[:1], devices):
        backend = CupyBackend(tile=64, devices=tuple(devices_used))
        points = backend.points(put(x), dtype, offset)
        again = [backend.symmetric_matmul(kernel, points, v) for _ in range(2)]
        host = backend.symmetric_matmul(kernel, backend.points(x, dtype, offset), v)
        np.testing.assert_array_equal(*again)
        np.testing.assert_array_equal(again[0], host)
        assert np.abs(again[0] - exact).max() < unit
        del points
    for device in devices:
        assert device.peak <= budget
    assert devices[0].peer_bytes >= 2 * x.nbytes  # alone, and with the other
    assert devices[1].peer_bytes == 0
    assert not put.downloads


@pytest.mark.parametrize("home", [0, 1])
def test_features_of_blocks_are_made_where_these_lie(put, blocks, home):
    """The host reads a block for its own work; the device does not get it back from there."""
    x, _, _ = unit_inputs(600, 24)
    device = HostDevice(10**8, index=1)
    backend, kernel = CupyBackend(devices=(device,)), fm.RBF(0.3)
    marks = backend.points(x[:30], np.float64)
    factor = np.linalg.cholesky(kernel(x[:30].astype(float)) + 1e-6 * np.eye(30))
    rows = open_rows(put(x, home), "x", stays=True)
    backend.features(kernel, marks, marks, factor, keep=False, sizes=False)
    before = device.copied_bytes
    for at, block in rows.blocks():
        points = backend.points(block, np.float64)
        features = backend.features(kernel, marks, points, factor, keep=True, sizes=False)
        expected = np.linalg.solve(factor, kernel(x[:30].astype(float), x[at].astype(float)))
        np.testing.assert_allclose(backend.to_host(features.values), expected, atol=1e-9)
    assert device.copied_bytes == before
    assert device.peer_bytes == (x.nbytes if home == 0 else 0)


def test_what_is_made_of_a_block_has_no_place(put):
    """Otherwise the device would compute with other numbers than the host."""
    rows = open_rows(put(np.arange(12.0).reshape(6, 2)), "x", stays=True)
    (_, block), *_ = rows.blocks()
    assert block.device_rows.shape == (6, 2)
    for derived in (block[1:], block + 1.0, block.astype(np.float32), block.copy(), block[[0, 2]]):
        assert getattr(derived, "device_rows", None) is None
    assert not hasattr(np.ascontiguousarray(block), "device_rows")


# --------------------------------------------------------------------------------------- results


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cg", "cholesky"])
@pytest.mark.parametrize("devices_used", [None, [0, 1]])
def test_the_host_never_holds_them(gpus, put, blocks, solver, devices_used):
    x, y, draws = unit_inputs(1100, 24)
    options = dict(x_kernel=fm.RBF(0.05), solver=solver, tol=1e-6)
    on_host = fm.cce(x, y, draws, backend="cpu", **options)
    source = put(x)
    on_device = fm.cce(source, y, draws, devices=devices_used, **options)
    assert isinstance(on_device.values, fake_cupy.ndarray)
    assert on_device.info.backend == "cupy"
    agree(on_device, on_host)
    assert max(put.downloads) <= x.nbytes // 2
    # A pass for row statistics, one for the norms by which the certificate samples rows, and the
    # sampled rows, which are read with what lies between them.
    assert sum(put.downloads) <= 3.5 * x.nbytes
    np.testing.assert_array_equal(source._inner, x)
    # The host chooses the rows that certify a result, and copies them in.
    assert sum(device.copied_bytes for device in gpus.values()) < x.nbytes
    assert (gpus[0].peer_bytes >= x.nbytes) if devices_used else list(gpus) == [1]


@pytest.mark.parametrize("devices_used", [None, [0, 1]])
def test_low_rank(gpus, put, blocks, devices_used):
    x, y, draws = unit_inputs(900, 1)
    options = dict(x_kernel=fm.RBF(0.5), solver="lowrank", tol=1e-4)
    on_device = fm.cce(put(x), y, draws, devices=devices_used, **options)
    assert on_device.info.solver == "lowrank"
    agree(on_device, fm.cce(x, y, draws, backend="cpu", tol=1e-8, x_kernel=fm.RBF(0.5)))


def test_samples_and_points_on_devices_and_on_the_host(gpus, put, blocks):
    x, y, _ = unit_inputs(600, 5)
    z, w, _ = unit_inputs(500, 5, seed=1)
    grid = unit_inputs(300, 5, seed=2)[0]
    on_host = fm.mcmd(grid, x, y, z, w, tol=1e-7, backend="cpu")
    for sources in (
        (put(grid), put(x), z),
        (grid, put(x), put(z, 0)),
        (put(grid, 0), put(x), put(z)),
    ):
        on_device = fm.mcmd(*sources[:2], y, sources[2], w, tol=1e-7, dtype="float64")
        assert isinstance(on_device.values, fake_cupy.ndarray)
        agree(on_device, on_host)


def test_dense_form(gpus, put, blocks):
    x, y, _ = unit_inputs(150, 2)
    draws = np.random.default_rng(5).normal(size=(150, 2))
    options = dict(y_kernel=fm.Laplacian(3.0), tol=1e-6)
    on_device = fm.cce(put(x), y, draws, at=put(x[:20]), **options)
    assert on_device.info.form == "dense"
    agree(on_device, fm.cce(x, y, draws, at=x[:20], backend="cpu", **options))


def test_tensors_weights_and_the_estimator(gpus, tensor, blocks):
    x, y, draws = unit_inputs(600, 5)
    weights = np.random.default_rng(3).integers(0, 3, 600)
    on_host = fm.cce(x, y, draws, weights=weights, tol=1e-7, backend="cpu")
    on_device = fm.cce(tensor(x), y, draws, weights=weights, tol=1e-7)
    assert on_device.info.backend == "cupy"
    assert isinstance(on_device.values, np.ndarray)
    agree(on_device, on_host)
    fitted = fm.ConditionalCongruence(tol=1e-7).fit(tensor(x), y, draws)
    other = fm.ConditionalCongruence(tol=1e-7, backend="cpu").fit(x, y, draws)
    agree(fitted.result_, other.result_)
    np.testing.assert_allclose(fitted.score_samples(x[:40]), other.score_samples(x[:40]), atol=1e-6)


def test_a_checkpoint_knows_data_on_a_device(gpus, put, blocks, tmp_path):
    x, y, draws = unit_inputs(600, 5)
    plain = fm.cce(put(x), y, draws, tol=1e-6)
    with_checkpoint = fm.cce(put(x), y, draws, tol=1e-6, checkpoint=tmp_path / "state")
    np.testing.assert_array_equal(np.asarray(with_checkpoint), np.asarray(plain))


def test_small_ones_are_simply_copied(gpus, put):
    """Small inputs are copied to the host, where equal rows collapse."""
    x, y, draws = unit_inputs(600, 5)
    x[300:] = x[:300]
    result = fm.cce(put(x), y, draws, tol=1e-6)
    assert result.info.n == 300
    assert put.downloads == [x.nbytes]
    assert isinstance(result.values, fake_cupy.ndarray)


def test_another_backend_copies_them(put, blocks):
    x, y, draws = unit_inputs(300, 5)
    result = fm.cce(put(x), y, draws, backend="cpu")
    assert result.info.backend == "cpu"
    assert put.downloads[0] == x.nbytes
    agree(result, fm.cce(x, y, draws, backend="cpu"))
