"""Several stand-in devices share work: the results of one device, with part of its memory each."""

import numpy as np
import pytest
from host_device import backend_of, rows_of

import fastmcmd as fm
from fastmcmd.backends.base import NotPositiveDefiniteError
from fastmcmd.errors import MemoryLimitError

KERNEL = 2.0 * fm.RBF(0.3) + fm.Polynomial(2, 0.1, 1.0) * fm.Laplacian(0.05)


@pytest.mark.parametrize("gpus", [2, 3])
def test_several_devices_give_what_one_gives(gpus):
    x, v = rows_of(500, 8, np.float64), np.random.default_rng(0).normal(size=(500, 4))
    one, many = backend_of(10**8), backend_of(10**8, gpus)
    for backend in (one, many):
        points = backend.points(x, np.float64)
        packed, product = backend.pack_matmul(KERNEL, points, v)
        backend.packed_add_diagonal(packed, np.full(500, 50.0))
        backend.packed_cholesky(packed)
        solution = backend.packed_solve(packed, v)
        results = (
            backend.gram(KERNEL, points),
            backend.symmetric_matmul(KERNEL, points, v),
            product,
            solution,
        )
        if backend is one:
            first = results
    for mine, other in zip(first, results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-11, atol=1e-11)
    assert all("pairs" in device.launched for device in many.devices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "tile"), [(500, 64), (130, 64), (64, 64), (7, 64)])
def test_a_factor_is_spread_over_devices(n, tile, dtype):
    """Each device factors its own tiles: the numbers of one device, with part of its memory."""
    x, b = rows_of(n, 5, np.float64), np.random.default_rng(0).normal(size=(n, 3))
    kernel = fm.RBF(0.5)
    shifted = kernel(x) + 0.5 * np.eye(n)
    peaks, factors, solutions = [], [], []
    for gpus in (1, 3):
        backend = backend_of(10**8, gpus, tile)
        points = backend.points(x, dtype)
        packed = backend.pack(kernel, points)
        del points
        backend.packed_add_diagonal(packed, np.full(n, 0.5))
        backend.packed_cholesky(packed)
        factors.append(packed.tiles.to_host())
        solutions.append(backend.packed_solve(packed, b))
        peaks.append(max(device.peak for device in backend.devices))
        if gpus > 1 and n > tile:
            assert all(device.peer_bytes for device in backend.devices[: -(-n // tile)])
    unit = np.finfo(dtype).eps
    np.testing.assert_array_equal(*factors)
    np.testing.assert_allclose(factors[0] @ factors[0].T, shifted, atol=200 * unit)
    np.testing.assert_allclose(solutions[1], np.linalg.solve(shifted, b), atol=2000 * unit)
    np.testing.assert_allclose(solutions[0], solutions[1], atol=500 * unit)
    if n == 500:
        assert peaks[1] < 0.6 * peaks[0]


@pytest.mark.parametrize("gpus", [1, 3])
@pytest.mark.parametrize("bad", [0, 70, 299])
def test_a_pivot_that_is_not_positive_is_an_error(gpus, bad):
    backend = backend_of(10**8, gpus)
    packed = backend.pack(fm.RBF(50.0), backend.points(rows_of(300, 5, np.float64), np.float64))
    diagonal = np.full(300, 5.0)
    diagonal[bad] = -9.0
    backend.packed_add_diagonal(packed, diagonal)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        backend.packed_cholesky(packed)
    assert caught.value.index == bad


def test_a_device_too_small_for_a_factor_is_an_error():
    backend = backend_of(300_000, 2)
    points = backend.points(rows_of(600, 5, np.float64), np.float64)
    with pytest.raises(
        MemoryLimitError, match=r"stand-in \d has no room for .* device_memory_limit"
    ):
        backend.pack(fm.RBF(1.0), points)


@pytest.mark.parametrize("budget", [10**8, 2_500_000])
@pytest.mark.parametrize("n", [3000, 700, 300, 1])
def test_features_are_shared_by_devices(budget, n, rng):
    """Each device computes and sums its own rows; sums resume from the saved state."""
    x, z = rows_of(n, 4, np.float64), rows_of(60, 4, np.float64, 1)
    kernel = fm.RBF(0.5)
    factor = np.linalg.cholesky(kernel(z) + 1e-6 * np.eye(60))
    expected = np.linalg.solve(factor, kernel(z, x))
    rhs, weight = rng.normal(size=(n, 3)), rng.uniform(0.5, 2, n)
    backend = backend_of(budget, 3)
    landmarks, points = backend.points(z, np.float64), backend.points(x, np.float64)
    features = backend.features(kernel, landmarks, points, factor, keep=True, sizes=True)
    np.testing.assert_allclose(backend.to_host(features.values), expected, atol=1e-9)
    np.testing.assert_allclose(features.squares, (expected**2).sum(0), atol=1e-9)
    sizes = np.linalg.norm(np.linalg.solve(factor.T, expected), axis=0)
    np.testing.assert_allclose(features.sizes, sizes, rtol=1e-6)
    busy = ["substitute" in device.launched for device in backend.devices]
    assert sum(busy) == max(1, min(3, n // 256))
    for device in backend.devices:  # another factor, and the first one again
        device.uploaded = 0
    other = backend.features(kernel, landmarks, points, 2 * factor, keep=False, sizes=False)
    np.testing.assert_allclose(other.squares, features.squares / 4, atol=1e-12)
    assert [device.uploaded >= factor.nbytes for device in backend.devices] == busy
    backend.features(kernel, landmarks, points, factor, keep=False, sizes=False)
    for device in backend.devices:
        device.uploaded = 0
    alone = backend.features(kernel, landmarks, points, factor, keep=False, sizes=False)
    assert all(device.uploaded < 1000 for device in backend.devices)  # parameters of the kernel
    np.testing.assert_allclose(alone.squares, features.squares, atol=1e-12)
    assert alone.values is alone.sizes is None
    exact = (expected * weight) @ expected.T, (expected * weight) @ rhs
    for columns in (3, 0):
        sums = backend.products(60, columns)
        sums.add(features.values, rhs[:, :columns], weight)
        sums.add(np.ascontiguousarray(expected), rhs[:, :columns], weight)  # those of the host
        half = sums.sums()
        sums = backend.products(60, columns)
        sums.add(features.values, rhs[:, :columns], None)  # forgotten
        sums.start(*half)
        sums.add(features.values, rhs[:, :columns], weight)
        for total, exact_sum in zip(sums.sums(), exact, strict=True):
            exact_sum = exact_sum[:, :columns] if exact_sum is exact[1] else exact_sum
            np.testing.assert_allclose(total, 3 * exact_sum, rtol=1e-9, atol=1e-7)
    if n == 3000:
        assert all("weighted" in device.launched for device in backend.devices)
    assert all(device.peak <= budget for device in backend.devices)
