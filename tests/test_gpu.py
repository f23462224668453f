"""What must hold on a real card as on its stand-in: the same tests on both, those of the card marked."""

import numpy as np
import pytest
from host_device import HostDevice

import fastmcmd as fm
from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.device import cuda

KINDS = ["stand-in", pytest.param("cuda", marks=pytest.mark.gpu)]
KERNELS = [fm.Polynomial(3, 1 / 64, 1.0), fm.RBF(0.5), fm.Laplacian(0.1), fm.Matern(0.5, 3.0)]


@pytest.fixture(params=KINDS)
def make(request):
    """What makes a card with a budget."""
    if request.param == "cuda":
        return lambda budget: cuda.CudaDevice(0, budget)
    return HostDevice


@pytest.fixture(params=KINDS)
def cupy_backend(request, monkeypatch):
    """``backend="cupy"``, on a card or its stand-in; gives what looks a card up."""
    if request.param == "cuda":
        return lambda limit: cuda.cuda_device(0, limit)
    made = {}

    def device(index, budget):
        return made.setdefault((index, budget), HostDevice(budget or 10**9, f"stand-in {index}"))

    monkeypatch.setattr(cuda, "cupy", lambda: None)
    monkeypatch.setattr(cuda, "cuda_cards", lambda: (2, ""))
    monkeypatch.setattr(cuda, "cuda_device", device)
    return lambda limit: device(0, limit)


def problem(n=700, d=64, seed=0):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, d)) / np.sqrt(d)).astype(np.float32)
    return x, x[:, 0] + 0.3 * rng.normal(size=n), x[:, 0] + 0.4 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("precision", ["float32", "split"])
def test_products_do_not_depend_on_tiles_or_memory(make, kernel, precision):
    """Rows kept or passing through two streams, tiles of any size: the same to rounding."""
    x, y, z = problem()
    v = np.stack([y, z, np.ones_like(y)], axis=1)
    exact = kernel(x.astype(float)) @ v
    size = np.abs(kernel(x.astype(float))) @ np.abs(v)
    for tile, budget in ((512, 10**8), (64, 10**8), (256, 1_200_000), (64, 600_000)):
        device = make(budget)
        backend = CupyBackend(tile=tile, devices=(device,), precision=precision)
        for dtype, unit in ((np.float32, 2.0**-21), (np.float64, 2.0**-50)):
            points = backend.points(x, dtype)
            found = backend.symmetric_matmul(kernel, points, v)
            # Entries and sums: 64 coordinates, 700 terms.
            assert (np.abs(found - exact) <= 300 * unit * size).all()
            assert device.peak <= budget + 100_000  # pools round sizes up
            del points


def test_rows_that_are_used_again_are_copied_once(make):
    x, y, _ = problem()
    device = make(10**8)
    backend = CupyBackend(devices=(device,))
    points = backend.points(x, np.float32)
    first = backend.symmetric_matmul(fm.RBF(0.5), points, y[:, None])
    held = device.held
    again = backend.symmetric_matmul(fm.RBF(0.5), points, y[:, None])
    np.testing.assert_array_equal(first, again)
    assert device.held == held > x.nbytes
    del points
    assert device.held < held - x.nbytes // 2


def test_out_of_memory_is_told(make):
    x, y, _ = problem(3000)
    backend = CupyBackend(devices=(make(200_000),))
    with pytest.raises(fm.MemoryLimitError, match=r"device_memory_limit is .* needs at least"):
        backend.symmetric_matmul(fm.RBF(0.5), backend.points(x, np.float32), y[:, None])


@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky", "lowrank"])
@pytest.mark.parametrize("columns", [2, 64])
def test_certified_on_a_card(cupy_backend, solver, columns):
    x, y, draws = problem(900, columns)
    options = dict(x_kernel=fm.RBF(0.5), solver=solver, tol=1e-6)
    exact = fm.cce(x, y, draws, x_kernel=fm.RBF(0.5), tol=1e-10, dtype="float64", backend="cpu")
    found = fm.cce(x, y, draws, backend="cupy", device_memory_limit="40MB", **options)
    assert found.info.backend == "cupy"
    assert found.info.device
    assert found.error_bound <= 1e-6
    assert np.abs(found.values - exact.values).max() <= found.error_bound + exact.error_bound
    assert cupy_backend(40_000_000).peak <= 40_100_000


def test_weights_and_the_bootstrap(cupy_backend):
    x, y, draws = problem(500, 3)
    weights = np.random.default_rng(1).integers(0, 3, 500)
    there = fm.cce(x, y, draws, weights=weights, backend="cupy", tol=1e-7)
    here = fm.cce(x, y, draws, weights=weights, backend="cpu", tol=1e-7)
    assert np.abs(there.values - here.values).max() <= there.error_bound + here.error_bound
    found = fm.evaluate(y, (x[:, 0], 0.3), x, backend="cupy", n_boot=10)
    assert found.cce.info.backend == "cupy"


def test_inputs_on_disk(cupy_backend, tmp_path):
    x, y, draws = problem(3000, 16)
    path = tmp_path / "x.npy"
    np.save(path, x)
    options = dict(x_kernel=fm.RBF(0.05), solver="lowrank", tol=1e-3, memory_limit="40MB")
    there = fm.cce(path, y, draws, backend="cupy", **options)
    here = fm.cce(x, y, draws, backend="cpu", tol=1e-8, x_kernel=fm.RBF(0.05))
    assert np.abs(there.values - here.values).max() <= there.error_bound + here.error_bound


@pytest.mark.gpu
def test_arrays_of_cupy_and_torch_on_a_card():
    cp = cuda.cupy()
    x, y, draws = problem(400, 8)
    here = fm.cce(x, y, draws)
    there = fm.cce(cp.asarray(x), cp.asarray(y), cp.asarray(draws))
    assert isinstance(there.values, cp.ndarray)
    assert there.info.backend == "cupy"
    bound = here.error_bound + float(there.error_bound)
    assert np.abs(np.asarray(there) - here.values).max() <= bound
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        tensors = (torch.as_tensor(v, device="cuda") for v in (x, y, draws))
        found = fm.cce(*tensors)
        assert found.info.backend == "cupy"
        assert np.abs(found.values - here.values).max() <= bound


@pytest.mark.gpu
def test_rates_are_measured_on_a_card():
    device = cuda.cuda_device(0, None)
    assert set(device.rates) == {"float64", "float32", "tf32"}
    assert min(device.rates.values()) > 1e9
    assert device.tensor_cores_pay in (True, False)
