"""Kernels of scaled columns: every solver gives the CCE of inputs scaled by hand."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.kernels import kernel_from_dict, scale_columns, split_scales
from fastmcmd.rows import open_rows

SCALES = (0.5, 2000.0, 0.0)


@pytest.fixture
def data(rng):
    x = rng.normal(size=(120, 3)) / [0.5, 2000.0, 1.0]
    y = x[:, 0] + rng.normal(size=120)
    return x, y, fm.Gaussian(0.8 * x[:, 0], 1.2)


def both(data, kernel, **options):
    x, y, prediction = data
    options |= {"y_kernel": "paper", "lam": 0.1}
    scaled = fm.cce(x, y, prediction, x_kernel=fm.Scaled(kernel, SCALES), **options)
    plain = fm.cce(x * SCALES, y, prediction, x_kernel=kernel, **options)
    return scaled.values, plain.values


def test_matrix_and_diagonal_are_those_of_scaled_rows(data):
    x = data[0]
    kernel = fm.Polynomial(2, 0.3)
    np.testing.assert_array_equal(fm.Scaled(kernel, SCALES)(x), kernel(x * SCALES))
    np.testing.assert_allclose(
        fm.Scaled(kernel, SCALES).diagonal(x), np.diag(kernel(x * SCALES)), rtol=1e-14
    )


@pytest.mark.parametrize(
    "kernel",
    [fm.RBF("median"), fm.RBF(0.5) + 0.1, fm.Polynomial(), fm.Cosine(), fm.Matern(1.5, 2.0)],
)
@pytest.mark.parametrize("solver", ["cholesky", "cg", "lowrank"])
def test_cce_is_that_of_scaled_inputs(data, kernel, solver):
    np.testing.assert_array_equal(*both(data, kernel, solver=solver))


@pytest.mark.parametrize("backend", ["cpu", "numpy", "numba"])
def test_every_backend(data, backend):
    np.testing.assert_array_equal(*both(data, fm.RBF(0.5), backend=backend))


def test_landmarks_are_inputs(data):
    x, y, prediction = data
    kernel = fm.RBF(0.001)
    scaled = fm.cce(
        x,
        y,
        prediction,
        x_kernel=fm.Scaled(kernel, SCALES),
        solver="lowrank",
        landmarks=x[::2],
        y_kernel="paper",
        lam=0.1,
    )
    plain = fm.cce(
        x * SCALES,
        y,
        prediction,
        x_kernel=kernel,
        solver="lowrank",
        landmarks=x[::2] * SCALES,
        y_kernel="paper",
        lam=0.1,
    )
    np.testing.assert_array_equal(scaled.values, plain.values)


def test_inputs_on_disk_and_in_float32(data, tmp_path):
    x, y, prediction = data
    kernel = fm.Scaled(fm.RBF(0.5), SCALES)
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    expected = fm.cce(x.astype(np.float32).astype(np.float64), y, prediction, x_kernel=kernel)
    memory_map = np.load(tmp_path / "x.npy", mmap_mode="r")
    for source in (tmp_path / "x.npy", memory_map, x.astype(np.float32)):
        result = fm.cce(source, y, prediction, x_kernel=kernel)
        np.testing.assert_allclose(result.values, expected.values, atol=1e-9)


@pytest.mark.slow
def test_large_files_are_scaled_block_by_block(rng, tmp_path):
    x = rng.normal(size=(3_000, 40))
    np.save(tmp_path / "x.npy", x)
    y = x[:, 0] + rng.normal(size=3_000)
    scales = tuple(rng.uniform(0.1, 0.3, 40))
    options = {"solver": "cholesky", "memory_limit": 200_000_000, "at": x[:50]}
    rows = open_rows(tmp_path / "x.npy", "x")
    scaled_rows = rows.scaled(np.array(scales))
    assert scaled_rows.dtype == np.float64
    np.testing.assert_array_equal(scaled_rows[:], x * scales)
    np.testing.assert_array_equal(scaled_rows[[5, 2]], (x * scales)[[5, 2]])
    data_kernel = fm.Scaled(fm.RBF("variance"), scales)
    assert data_kernel.resolve(rows).inner.gamma == pytest.approx(
        data_kernel.resolve(x).inner.gamma
    )
    kernel = fm.Scaled(fm.RBF(0.5), scales)
    on_disk = fm.cce(rows, y, fm.Gaussian(x[:, 0], 2.0), x_kernel=kernel, **options)
    expected = fm.cce(x * scales, y, fm.Gaussian(x[:, 0], 2.0), x_kernel=fm.RBF(0.5),
                   solver="cholesky", at=x[:50] * scales)  # fmt: skip
    np.testing.assert_allclose(on_disk.values, expected.values, atol=1e-6)


def test_mcmd_downsampling_and_plan(data):
    x, y, prediction = data
    kernel = fm.RBF(0.5)
    scaled = fm.Scaled(kernel, SCALES)
    result = fm.mcmd(x, x, y, x[:50], y[:50] + 1, x_kernel=scaled)
    z = x * SCALES
    np.testing.assert_array_equal(
        result.values, fm.mcmd(z, z, y, z[:50], y[:50] + 1, x_kernel=kernel).values
    )
    for method in ("uniform", "leverage"):
        some, expected = (
            fm.downsampled_cce(
                rows,
                y,
                prediction,
                60,
                repeats=2,
                method=method,
                x_kernel=k,
                random_state=0,
                y_kernel="paper",
                lam=0.1,
            )
            for rows, k in ((x, scaled), (z, kernel))
        )
        np.testing.assert_array_equal(some.values, expected.values)
    assert fm.plan(x, scaled, lam=0.1).landmarks == fm.plan(z, kernel, lam=0.1).landmarks


def test_fitted_estimators_scale_new_inputs_and_are_saved(data, tmp_path):
    x, y, prediction = data
    kernel = fm.RBF("median")
    cc = fm.ConditionalCongruence(fm.Scaled(kernel, SCALES), tol=1e-5).fit(x, y, prediction)
    plain = fm.ConditionalCongruence(kernel, tol=1e-5).fit(x * SCALES, y, prediction)
    new = x[:7] + 0.1
    np.testing.assert_array_equal(cc.score_samples(new), plain.score_samples(new * SCALES))
    np.testing.assert_array_equal(cc.witness(new, [0.0]), plain.witness(new * SCALES, [0.0]))
    estimators = fm.ConditionalCongruence(fm.Scaled(kernel, SCALES), tol=1e-5).fit_each(
        x, y, {"a": prediction}
    )
    np.testing.assert_array_equal(estimators["a"].score_samples(new), cc.score_samples(new))
    cc.save(tmp_path / "cc.npz")
    again = fm.load(tmp_path / "cc.npz")
    np.testing.assert_array_equal(again.score_samples(new), cc.score_samples(new))
    assert again.x_kernel == cc.x_kernel


def test_nested_scales_multiply_and_sums_share_them():
    a, b = fm.RBF(0.5), fm.Linear()
    assert fm.Scaled(fm.Scaled(a, (2, 3)), (5, 7)) == fm.Scaled(a, (10, 21))
    summed = fm.Scaled(a, (1, 2)) + fm.Scaled(b, (1, 2)) * 3.0 + 1.0
    scales, inner = split_scales(summed)
    assert scales == (1, 2)
    assert inner == a + b * 3.0 + 1.0
    with pytest.raises(ValueError, match="differently scaled columns"):
        split_scales(fm.Scaled(a, (1, 2)) + fm.Scaled(b, (2, 1)))
    with pytest.raises(ValueError, match="differently scaled columns"):
        split_scales(fm.Scaled(a, (1, 2)) + b)
    x = np.ones((2, 2))
    assert scale_columns(a, x) == (a, x)


def test_kernels_come_back_from_their_dictionaries():
    kernel = fm.Scaled(fm.RBF(0.5) + fm.Constant(1.0), (1.0, 2.0))
    assert kernel_from_dict(kernel.to_dict()) == kernel
    assert len({kernel, fm.Scaled(fm.RBF(0.5) + fm.Constant(1.0), [1, 2])}) == 1


@pytest.mark.parametrize("scales", [(), (-1.0, 1.0), (np.nan, 1.0), (np.inf, 1.0)])
def test_bad_scales_are_errors(scales):
    with pytest.raises(ValueError, match="scales is"):
        fm.Scaled(fm.RBF(1.0), scales)
    with pytest.raises(TypeError, match="scales"):
        fm.Scaled(fm.RBF(1.0), "ab")


def test_other_columns_are_an_error_that_names_the_argument(data):
    x, y, prediction = data
    with pytest.raises(ValueError, match="x has 2 columns and the kernel has scales for 3"):
        fm.cce(x[:, :2], y, prediction, x_kernel=fm.Scaled(fm.RBF(1.0), SCALES))
    with pytest.raises(TypeError, match="y_kernel is Scaled"):
        fm.cce(x, y, prediction, y_kernel=fm.Scaled(fm.RBF(1.0), (2.0,)))


def test_bounds_of_large_scales(rng):
    """The square of a scale overflowed, though the rows are small."""
    x = rng.normal(size=(5, 2))
    kernel, plain = fm.Scaled(fm.Linear(), (1e200, 2e200)), fm.Scaled(fm.Linear(), (1.0, 2.0))
    norm2 = float(np.square(x).sum(axis=1).max())
    np.testing.assert_allclose(kernel.max_value(norm2 * 1e-300), plain.max_value(norm2) * 1e100)
