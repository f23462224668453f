"""Work on a device, on the stand-in of host_device.py: budgets, streamed rows, devices, sources."""

import gc
import re
import shutil
import subprocess
import sys

import fake_cupy
import numpy as np
import pytest
from builders import noisy_sine
from host_device import HostDevice, backend_of, compiled, rows_of
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd._base.blocks import row_blocks
from fastmcmd.backends import get_backend
from fastmcmd.backends.cpu import core
from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.device import cuda, source
from fastmcmd.device.base import DeviceMemoryError
from fastmcmd.device.features import DeviceFeatures, DeviceProducts, Piece
from fastmcmd.device.layout import choose
from fastmcmd.device.rows import DeviceRows
from fastmcmd.device.sweep import share
from fastmcmd.errors import MemoryLimitError

KERNEL = 2.0 * fm.RBF(0.3) + fm.Polynomial(2, 0.1, 1.0) * fm.Laplacian(0.05)


def test_blocks_of_cg_stay_on_the_device(monkeypatch):
    """Between products only small matrices are copied: the solution leaves the device twice.

    That is near the end, where its sizes and four columns of a product guide the certificate, and at the
    end.
    """
    x = rows_of(900, 40)
    y = noisy_sine(np.random.default_rng(0), x)
    device = HostDevice(10**8)
    monkeypatch.setattr(cuda, "cupy", lambda: None)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: (1, ""))
    monkeypatch.setattr(cuda, "cuda_device", lambda index, budget: device)
    large, download = [], HostDevice.download

    def downloaded(self, array):
        large.append(array.shape[0] == 900)
        return download(self, array)

    monkeypatch.setattr(HostDevice, "download", downloaded)
    options = dict(x_kernel=fm.RBF(0.5), solver="cg", lam=0.01)
    result = fm.cce(x, y, y[::-1].copy(), backend="cupy", **options)
    exact = fm.cce(x, y, y[::-1].copy(), backend="cpu", dtype="float64", **options)
    bound = result.error_bound + exact.error_bound
    assert np.abs(result.values - exact.values).max() <= bound
    assert result.info.iterations > 4
    # The solution near the end and four columns of its product; the solution and its residual, and products
    # of the certificate and of the values at the inputs.
    assert sum(large) <= 7
    assert len(large) > 20


def test_sums_of_features_that_fill_a_device():
    """Their copy in float64 is made in parts where it does not fit whole; too little memory is named."""
    rng = np.random.default_rng(0)
    f, rhs, weight = rng.normal(size=(300, 2000)), rng.normal(size=(2000, 3)), rng.random(2000)
    expected = (f * weight) @ f.T, (f * weight) @ rhs
    for budget in (20_000_000, 5_500_000):
        device = HostDevice(budget)
        values = device.upload(f.astype(np.float32))
        features = DeviceFeatures([Piece(device, slice(0, 2000), values, True)])
        sums = DeviceProducts((device,), 300, 3)
        sums.add(features, rhs, weight)
        for total, exact in zip(sums.sums(), expected, strict=True):
            np.testing.assert_allclose(total, exact, atol=1e-3)
        assert device.peak <= budget
    device = HostDevice(3_400_000)
    values = device.upload(f.astype(np.float32))
    sums = DeviceProducts((device,), 300, 3)
    with pytest.raises(MemoryLimitError, match="device_memory_limit"):
        sums.add(DeviceFeatures([Piece(device, slice(0, 2000), values, True)]), rhs, weight)


# ------------------------------------------------------------------------------------ budgets


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "budget"),
    [
        (np.float32, 2_000_000),
        (np.float32, 250_000),
        (np.float32, 150_000),
        (np.float64, 400_000),
        (np.float64, 200_000),
    ],
)
def test_products_within_a_budget(budget, dtype):
    """Rows that stay on the device and rows that pass through it give the same products, within budget."""
    backend = backend_of(budget)
    device = backend.devices[0]
    x, z, v = rows_of(700, 40), rows_of(300, 40, seed=1), np.ones((700, 3))
    points, other_points = backend.points(x, dtype), backend.points(z, dtype)
    # Rows, norms, a tile and a streaming buffer: 0.18 MB in float32, 0.31 MB in float64.
    streams = budget < 50_000 + 1.1 * points.rows.laid_bytes(700)
    exact = KERNEL(x.astype(float))
    product = backend.symmetric_matmul(KERNEL, points, v)
    assert np.abs(product - exact @ v).max() < (2e-3 if dtype == np.float32 else 1e-10)
    if streams:
        assert device.copied_bytes > 2 * x.nbytes
    else:
        assert device.copied_bytes == x.nbytes
    cross = KERNEL(z.astype(float), x.astype(float))
    product = backend.matmul(KERNEL, other_points, points, v)
    assert np.abs(product - cross @ v).max() < (2e-3 if dtype == np.float32 else 1e-10)
    w = np.ones((300, 2))
    product = backend.matmul(KERNEL, points, other_points, w)
    assert np.abs(product - cross.T @ w).max() < (2e-3 if dtype == np.float32 else 1e-10)
    assert np.abs(backend.gram(KERNEL, other_points, points) - cross).max() < 1e-5
    assert 0 < device.peak <= budget
    assert device.refused == 0  # tiles are small enough by construction, not after a failure
    del points, other_points
    gc.collect()
    assert device.held < 1000  # the parameters of the programs


@pytest.mark.slow
@given(
    n=st.integers(1, 400),
    m=st.integers(1, 200),
    d=st.sampled_from([1, 3, 40]),
    k=st.integers(1, 20),
    tile=st.sampled_from([16, 64, 256]),
    budget=st.integers(30_000, 3_000_000),
    gpus=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_any_budget_gives_the_product_or_says_what_it_needs(n, m, d, k, tile, budget, gpus, seed):
    backend = backend_of(budget, gpus, tile)
    rng = np.random.default_rng(seed)
    x, z = rows_of(n, d, np.float64, seed), rows_of(m, d, np.float64, seed + 1)
    v, w = rng.normal(size=(n, k)), rng.normal(size=(m, k))
    left, right = backend.points(x, np.float64), backend.points(z, np.float64)
    try:
        square = backend.symmetric_matmul(KERNEL, left, v)
        cross = backend.matmul(KERNEL, left, right, w)
    except MemoryLimitError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert re.match("device_memory_limit is .* needs at least .* on the device", message)
        return
    np.testing.assert_allclose(square, KERNEL(x) @ v, rtol=0, atol=1e-9 * np.abs(v).sum())
    np.testing.assert_allclose(cross, KERNEL(x, z) @ w, rtol=0, atol=1e-9 * np.abs(w).sum())
    for device in backend.devices:
        assert device.peak <= budget
        assert device.refused == 0


def test_a_limit_too_small_names_the_bytes_needed():
    backend = backend_of(50_000, tile=256)
    points = backend.points(rows_of(2000, 64), np.float32)
    with pytest.raises(MemoryLimitError, match=r"device_memory_limit is 50 kB; .* at least \d+ kB"):
        backend.symmetric_matmul(fm.RBF(1.0), points, np.ones((2000, 1)))


def test_right_hand_sides_that_do_not_fit_come_in_parts():
    backend = backend_of(400_000, tile=32)
    x, v = rows_of(500, 2, np.float64), np.random.default_rng(0).normal(size=(500, 90))
    product = backend.symmetric_matmul(fm.RBF(1.0), backend.points(x, np.float64), v)
    np.testing.assert_allclose(product, fm.RBF(1.0)(x) @ v, atol=1e-10)
    assert backend.devices[0].peak <= 400_000


@pytest.mark.slow
def test_tiles_shrink_where_the_device_has_less_than_the_budget():
    """Other programs use the device: it rejects the first tiles, and smaller ones fit."""
    backend = backend_of(10**8, tile=2048)
    device = backend.devices[0]
    x, v = rows_of(3000, 3, np.float64), np.ones((3000, 1))
    points = backend.points(x, np.float64)
    free, device.budget = device.budget, 4_000_000
    type(device).budget = property(lambda self: free)  # its own view of free memory
    try:
        allocate = device.empty

        def empty(shape, dtype):
            if device.held + int(np.prod(shape)) * np.dtype(dtype).itemsize > 4_000_000:
                device.refused += 1
                raise DeviceMemoryError(int(np.prod(shape)) * np.dtype(dtype).itemsize)
            return allocate(shape, dtype)

        device.empty = empty
        product = backend.symmetric_matmul(fm.RBF(1.0), points, v)
    finally:
        del type(device).budget
    np.testing.assert_allclose(product, fm.RBF(1.0)(x) @ v, atol=1e-10)
    assert device.refused >= 1


def test_a_full_device_is_an_error():
    backend = backend_of(10**8, tile=512)

    def nothing(shape, dtype):
        raise DeviceMemoryError(int(np.prod(shape)) * np.dtype(dtype).itemsize)

    backend.devices[0].empty = nothing
    points = backend.points(rows_of(900, 3), np.float32)
    with pytest.raises(
        MemoryLimitError, match=r"stand-in 0 has no room for .* others may use the device"
    ):
        backend.symmetric_matmul(fm.RBF(1.0), points, np.ones((900, 1)))


def test_layouts():
    big = DeviceRows(rows_of(4000, 50), np.dtype(np.float32))
    all_there = choose(10**9, big, big, 0, 10, 1024, (False, False))
    assert (all_there.held_resident, all_there.tile) == (True, 1024)
    streamed = choose(3_000_000, big, big, 0, 10, 1024, (False, False))
    assert not streamed.held_resident
    assert streamed.need <= 3_000_000
    few = DeviceRows(rows_of(100, 50), np.dtype(np.float32))
    mixed = choose(1_000_000, few, big, 0, 10, 256, (False, False))
    assert (mixed.held_resident, mixed.streamed_resident) == (True, False)


@pytest.mark.parametrize("gpus", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [1, 5, 12])
def test_blocks_are_shared_once_each(gpus, n):
    blocks = row_blocks(10 * n, 10)
    shares = [share(blocks, place, gpus) for place in range(gpus)]
    assert sorted(b.start for some in shares for b in some) == [b.start for b in blocks]
    if n > gpus:
        work = [sum(1 + b.start for b in some) for some in shares]
        assert max(work) < 2.1 * sum(work) / gpus


# ------------------------------------------------------------------------------------- results


@pytest.mark.parametrize("budget", [10**8, 220_000])
def test_split_products_for_tensor_cores(budget, monkeypatch):
    """Three products of float16 parts are as accurate as one in float32, within the bound; one is not."""
    x, v = rows_of(200, 64), np.ones((200, 2))
    kernel = fm.Polynomial(3, 1.0, 1.0)
    exact = kernel(x.astype(float))
    norm2 = float((x.astype(float) ** 2).sum(1).max())

    def error(precision):
        backend = backend_of(budget, precision=precision)
        points = backend.points(x, np.float32)
        product = backend.symmetric_matmul(kernel, points, v)
        assert np.abs(product - exact @ v).max() <= 200 * 1e-4
        assert backend.devices[0].peak <= budget
        return backend, float(np.abs(backend.gram(kernel, points) - exact).max())

    fine, plain = error("float32")
    split, small = error("split")
    assert split.unit(np.dtype(np.float32), 64) == 2.0**-21
    assert split.unit(np.dtype(np.float32), 8) == fine.unit(np.dtype(np.float32), 64) == 2.0**-24
    assert split.unit(np.dtype(np.float64), 64) == 2.0**-53
    assert small <= kernel.rounding(2.0**-21, 64, norm2, False, float(exact.max()))
    assert small < 4 * plain
    only_high = HostDevice.multiply

    def dropped(self, out, a, b, **how):
        if a.dtype == np.float16:  # the last of the three products alone
            a, b = a[128:], b[128:]
        only_high(self, out, a, b, **how)

    monkeypatch.setattr(HostDevice, "multiply", dropped)
    backend = backend_of(10**8, precision="split")
    matrix = backend.gram(kernel, backend.points(x, np.float32))
    assert np.abs(matrix - exact).max() > 20 * small


def adversarial_rows(kind, rng):
    """Return rows (9, 70) in float32 that float16 parts could represent badly."""
    x = rng.normal(size=(9, 70))
    match kind:
        case "40 orders of magnitude":
            x *= 10.0 ** rng.uniform(-30, 10, x.shape)
        case "norms apart":
            x *= 10.0 ** np.linspace(-15, 15, 9)[:, None]
        case "one huge coordinate":
            x[:, 5] = 1e9
        case "subnormal":
            x *= 1e-42
        case "subnormal beside normal":
            x[:, ::2] *= 1e-40
            x[:, 1::2] *= 2.0**-110
        case "largest":
            x = (
                np.finfo(np.float32).max
                * np.sign(x)
                * rng.choice([1.0, 1 - 2.0**-11, 0.5], x.shape)
            )
        case "zeros":
            x[rng.random(x.shape) < 0.5] = 0.0
            x[3] = 0.0
        case "worst":  # high and low lie halfway between neighbours, and both are rounded down
            x = np.full(x.shape, 1 + 2.0**-11 - 3 * 2.0**-23)
        case "bits":
            bits = rng.integers(0, 0x7F800000, x.shape, dtype=np.uint32)
            x = np.copysign(bits.view(np.float32).astype(float), x)
    return x.astype(np.float32)


ADVERSARIAL = [
    "random", "40 orders of magnitude", "norms apart", "one huge coordinate", "subnormal",
    "subnormal beside normal", "largest", "zeros", "worst", "bits",
]  # fmt: skip


@pytest.mark.parametrize("kind", ADVERSARIAL)
@pytest.mark.parametrize("other", ADVERSARIAL)
def test_the_unit_roundoff_of_split_products(kind, other, rng):
    """Relative to |x| |z|, products of parts err by 2^-21, and their sums by that of float32."""
    x, z = adversarial_rows(kind, rng), adversarial_rows(other, rng)
    assert np.isfinite(x).all()
    assert np.isfinite(z).all()
    backend = backend_of(10**7, precision="split")
    (device,) = backend.devices
    sides = [backend.points(rows, np.float32) for rows in (x, z)]
    exact = x.astype(float) @ z.astype(float).T
    sizes = np.outer(*(np.linalg.norm(rows.astype(float), axis=1) for rows in (x, z)))
    with np.errstate(over="ignore"):  # products beyond float32 are infinite
        product = backend.gram(fm.Linear(), *sides)
    blocks = [points.rows.resident(device) for points in sides]
    left, right = (device.download(block.parts).astype(float) for block in blocks)
    powers = [np.ldexp(1.0, device.download(block.exponents)) for block in blocks]
    assert max(np.abs(left).max(), np.abs(right).max()) <= 2.0**15
    by_parts = (left[70:].T @ right[:210]) * np.outer(*powers)
    error = np.abs(by_parts - exact)
    assert (error <= 2.0**-21 * sizes).all()
    if kind == other == "worst":
        assert (error > 0.99 * 2.0**-21 * sizes).all()
    fits = sizes < 2.0**127
    summed = (2.0**-21 + 210 * 2.0**-24) * sizes + 2.0**-149
    assert (np.abs(product - exact)[fits] <= summed[fits]).all()


def test_parts_are_the_nearest_float16(rng):
    """Rounding on a device is that of NumPy, to even halfway, for normal and subnormal numbers."""
    bits = rng.integers(0, 0x8000, (1, 4000)).astype(np.uint16) & 0x77FF
    x = bits.view(np.float16).astype(np.float32)
    gap = np.spacing(bits.view(np.float16)).astype(np.float32)
    x += gap * rng.choice([0.0, 0.5, -0.5, 0.25, 0.499], x.shape).astype(np.float32)
    x = np.where(rng.random(x.shape) < 0.5, -x, x).clip(-(2.0**15), 2.0**15)
    x[0, 0] = 20_000.0  # the exponent of the row is 0
    x[np.abs(x) >= 2**15] = 0.5
    device, rows = HostDevice(), DeviceRows(x, np.dtype(np.float32), split=True)
    block = rows.keep(device, 1)
    assert device.download(block.exponents) == [0]
    high, low = device.download(block.parts)[:8000, 0].reshape(2, 4000)
    np.testing.assert_array_equal(high, x[0].astype(np.float16))
    np.testing.assert_array_equal(low, (x[0] - high.astype(np.float32)).astype(np.float16))
    subnormal = np.abs(x[0]) < 2.0**-14
    assert 50 < subnormal.sum() < 2000


@pytest.mark.parametrize("count", [1, 8, 21])
def test_bytes_of_split_rows(count):
    """The bytes of rows are those that a device takes: 12 per coordinate, and three numbers per row."""
    rows = DeviceRows(rows_of(count, 40), np.dtype(np.float32), split=True)
    device = HostDevice()
    block = rows.empty(device, count)
    assert rows.laid_row == 12 * 40 + 12
    assert count * rows.laid_row <= device.held <= rows.laid_bytes(count)
    assert block.parts.strides[0] % 16 == 0  # as tensor cores read fastest
    del block
    assert device.held == 0


def test_tensor_cores_are_taken_where_they_pay():
    for pays in (False, True):
        device = HostDevice(tensor_cores_pay=pays)
        backend = CupyBackend(devices=(device,))
        assert backend.splits(np.dtype(np.float32), 64) is pays
        assert not backend.splits(np.dtype(np.float32), 8)
        assert not backend.splits(np.dtype(np.float64), 64)
        assert ("tensor cores" in backend.label(np.dtype(np.float32), 64)) is pays


def test_features_in_blocks_and_on_the_host(rng):
    """A device too small for all features copies them to the host, and back for the sums."""
    x, z = rows_of(5000, 4, np.float64), rows_of(60, 4, np.float64, 1)
    kernel = fm.RBF(0.5)
    factor = np.linalg.cholesky(kernel(z) + 1e-6 * np.eye(60))
    expected = np.linalg.solve(factor, kernel(z, x))
    rhs, weight = rng.normal(size=(5000, 3)), rng.uniform(0.5, 2, 5000)
    for budget in (10**8, 2_500_000):
        backend = backend_of(budget)
        landmarks, points = backend.points(z, np.float64), backend.points(x, np.float64)
        features = backend.features(kernel, landmarks, points, factor, keep=True, sizes=True)
        residency = {piece.is_resident for piece in features.values.pieces}
        assert residency == ({True} if budget == 10**8 else {True, False}) or residency == {False}
        np.testing.assert_allclose(backend.to_host(features.values), expected, atol=1e-9)
        np.testing.assert_allclose(features.squares, (expected**2).sum(0), atol=1e-9)
        sizes = np.linalg.norm(np.linalg.solve(factor.T, expected), axis=0)
        np.testing.assert_allclose(features.sizes, sizes, rtol=1e-6)
        gram, cross = np.ones((60, 60)), np.ones((60, 3))
        backend.add_products(features.values, rhs, weight, gram, cross)
        np.testing.assert_allclose(gram - 1, (expected * weight) @ expected.T, atol=1e-8)
        np.testing.assert_allclose(cross - 1, (expected * weight) @ rhs, atol=1e-8)
        assert backend.devices[0].peak <= budget


@pytest.fixture
def stand_in(monkeypatch):
    """Set ``backend="cupy"`` on the stand-in."""
    devices = {}

    def device(index, budget):
        return devices.setdefault(
            index, HostDevice(budget or 10**9, f"stand-in {index}", index=index)
        )

    monkeypatch.setattr(cuda, "cupy", lambda: None)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: (2, ""))
    monkeypatch.setattr(cuda, "cuda_device", device)
    return devices


@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky", "lowrank"])
def test_cce_on_a_device(stand_in, solver, rng):
    """Each solver gives the result of the core, with its certificate: the backend changes nothing else."""
    x = rng.normal(size=(600, 2))
    y = noisy_sine(rng, x)
    kernels = dict(x_kernel=fm.RBF(0.5), y_kernel="paper", lam=0.1)
    options = dict(**kernels, tol=1e-6, solver=solver)
    exact = fm.cce(x, y, fm.Gaussian(x[:, 0], 0.4), **kernels, tol=1e-9, dtype="float64")
    result = fm.cce(
        x, y, fm.Gaussian(x[:, 0], 0.4), backend="cupy", device_memory_limit="12MB", **options
    )
    assert result.info.backend == "cupy"
    assert result.error_bound <= 1e-6
    assert np.abs(result.values - exact.values).max() <= result.error_bound + exact.error_bound
    assert 0 < stand_in[0].peak <= 12_000_000


def test_two_devices_and_the_estimator(stand_in, rng, tmp_path):
    x = rng.normal(size=(400, 40))
    y = x[:, 0] + rng.normal(size=400)
    gpus = fm.ConditionalCongruence(backend="cupy", devices=[0, 1]).fit(x, y, (x[:, 0], 1.2))
    core = fm.ConditionalCongruence().fit(x, y, (x[:, 0], 1.2))
    some, grid = rng.normal(size=(7, 40)), np.linspace(-2, 2, 5)
    bound = gpus.result_.error_bound + core.result_.error_bound
    assert np.abs(gpus.score_samples(some) - core.score_samples(some)).max() < 1e-5
    assert np.abs(gpus.result_.values - core.result_.values).max() <= bound
    np.testing.assert_allclose(gpus.witness(some, grid), core.witness(some, grid), atol=1e-5)
    assert all("pairs" in stand_in[i].launched for i in (0, 1))


def test_no_low_rank_of_the_outputs(stand_in, rng):
    """The dense form computes quadratic forms and columns on the device."""
    x = rng.normal(size=(150, 2))
    y, draws = rng.normal(size=150), rng.normal(size=(150, 2))
    options = dict(y_kernel=fm.Laplacian(3.0), tol=1e-6)
    result = fm.cce(x, y, draws, backend="cupy", **options)
    exact = fm.cce(x, y, draws, backend="numpy", dtype="float64", **options)
    assert result.info.form == exact.info.form == "dense"
    assert np.abs(result.values - exact.values).max() <= result.error_bound + exact.error_bound


@pytest.fixture
def on_second(monkeypatch):
    """Return a function that puts an array on device 1, like CuPy's: NumPy cannot read it."""
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(cuda, "cupy", lambda: module)

    def put(values):
        with module.cuda.Device(1):
            return module.asarray(values)

    put.kind = module.ndarray
    return put


def test_data_on_a_device_are_computed_there(stand_in, on_second, rng):
    x = rng.normal(size=(300, 3))
    y, mean = x[:, 0] + rng.normal(size=300), x[:, 0]
    on_device = fm.cce(on_second(x), on_second(y), (on_second(mean), 1.0))
    on_host = fm.cce(x, y, (mean, 1.0))
    assert (on_device.info.backend, on_host.info.backend) == ("cupy", "cpu")
    assert list(stand_in) == [1]  # the device that x lies on
    assert isinstance(on_device.values, on_second.kind)
    assert isinstance(on_device.error_bounds, on_second.kind)
    np.testing.assert_allclose(np.asarray(on_device), on_host.values, atol=2e-6)
    assert "cupy (stand-in 1)" in repr(on_device)
    assert on_device.to_dict()["mean"] == pytest.approx(on_host.mean, abs=2e-6)
    assert len(on_device.to_frame()) == 300
    on_device.plot().figure.clear()
    fitted = fm.ConditionalCongruence().fit(on_second(x), y, (mean, 1.0))
    assert fitted.result_.info.device == "stand-in 1"
    on_request = fm.cce(on_second(x), y, (mean, 1.0), backend="cpu")
    assert on_request.info.backend == "cpu"
    mine = fm.mcmd(on_second(x), on_second(x), y, x, mean)
    assert isinstance(mine.values, on_second.kind)


# ------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"devices": [0]}, ValueError, "devices is an option of backend='cupy'"),
        ({"device_memory_limit": "1GB"}, ValueError, "device_memory_limit is an option of backend"),
        ({"backend": "cupy", "devices": "0"}, TypeError, "a list of devices such as"),
        ({"backend": "cupy", "devices": []}, ValueError, "different devices, at least one"),
        ({"backend": "cupy", "devices": [0, 0]}, ValueError, "different devices, at least one"),
        ({"backend": "cupy", "devices": [-1]}, ValueError, "devices"),
        ({"backend": "cupy", "device_memory_limit": "much"}, ValueError, "device_memory_limit is"),
        ({"backend": "cupy", "device_memory_limit": 0}, ValueError, "device_memory_limit is 0"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        fm.cce([0.0, 1.0], [0.0, 1.0], (0.0, 1.0), **options)


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(fm.MissingDependencyError, match=r"pip install 'fastmcmd\[gpu\]'"):
        get_backend("cupy", fm.RBF(1.0))


def test_without_a_device(monkeypatch):
    monkeypatch.setattr(cuda, "cupy", lambda: None)
    monkeypatch.setattr(cuda, "cuda_device_count", lambda: (0, "no CUDA device was found"))
    with pytest.raises(RuntimeError, match="no CUDA device was found; use backend='auto'"):
        get_backend("cupy", fm.RBF(1.0))


def test_a_function_has_no_cuda_source():
    with pytest.raises(ValueError, match="backend='cupy' cannot evaluate"):
        get_backend("cupy", fm.CustomKernel(lambda x, z: 1.0))


# -------------------------------------------------------------------------------------- sources

PROGRAMS = [
    fm.RBF(0.3),
    fm.Laplacian(0.2),
    fm.Polynomial(3, 0.2, 1.0),
    fm.Polynomial(11, 0.05, 1.0),
    fm.Matern(0.5, 1.5),
    fm.Matern(2.5, 1.5),
    KERNEL * fm.Cosine() + fm.Delta() * fm.Linear() + 0.5 * fm.Matern(1.5, 1.0),
]


def test_distances_are_formed_as_in_the_core():
    """The kernels' bounds on rounding hold for both."""
    assert source.DIRECT_LIMIT == core().DIRECT_DISTANCE_LIMIT
    assert set(core().OPS) == {
        "rbf", "laplacian", "polynomial", "matern", "linear", "cosine", "delta", "constant", "add",
        "mul",
    }  # fmt: skip


def test_parameters_are_no_part_of_a_source():
    texts = {
        source.tile_source(source.structure_of(fm.RBF(g))[0], 5, np.dtype(np.float32)).text
        for g in (0.1, 2.0)
    }
    assert len(texts) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no CUDA compiler")
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sources_compile_for_devices(gpu, dtype, tmp_path):
    """The compiler treats warnings as errors, and no kernel spills registers to memory."""
    kind = np.dtype(dtype)
    texts = [source.row_source(kind).text]
    for dim in (8, 100):
        structure = source.structure_of(PROGRAMS[-1])[0]
        texts.append(source.tile_source(structure, dim, kind).text)
    for place, text in enumerate(texts):
        path = tmp_path / f"{place}.cu"
        path.write_text(text)
        flags = [
            "-std=c++17",
            f"-arch={gpu}",
            "-cubin",
            "-Xptxas",
            "-v",
            "-Werror",
            "all-warnings",
        ]
        process = subprocess.run(
            ["nvcc", *flags, "-o", str(tmp_path / "out.cubin"), str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        spills = [line for line in process.stderr.splitlines() if "spill" in line]
        assert spills
        assert all(" 0 bytes spill stores, 0 bytes spill loads" in line for line in spills)


@pytest.mark.parametrize("kernel", PROGRAMS, ids=repr)
def test_every_source_compiles_here(kernel):
    """The stand-in runs the same source text that a device compiles."""
    for dim in (8, 100):
        structure, parameters = source.structure_of(kernel)
        text = source.tile_source(structure, dim, np.dtype(np.float32)).text
        assert "#include" not in text
        assert compiled(text).pairs
        assert parameters.shape == (4 * len(structure),)


def test_a_kernel_without_formula_is_refused():
    with pytest.raises(ValueError, match="no CUDA formula for 'unheard'"):
        source.tile_source((("unheard", None),), 3, np.dtype(np.float32))
