"""The dense form with densities on panels, against the definition by characteristic functions."""

import numpy as np
import pytest

import fastmcmd as fm

LAM = 0.05


def spectrum(nu, length, w):
    """Return the Fourier transform of a Matern kernel (nu 1/2 or 3/2)."""
    rate = np.sqrt(2 * nu) / length
    return 2 * rate / (rate**2 + w**2) if nu == 0.5 else 4 * rate**3 / (rate**2 + w**2) ** 2


def characteristic(family, loc, scale, w):
    """Return ``E exp(i w Y)`` (n, len(w))."""
    size = scale[:, None] * w
    with np.errstate(over="ignore"):
        absolute = {
            "logistic": np.pi * size / np.sinh(np.maximum(np.pi * size, 1e-30)),
            "cauchy": np.exp(-size),
            "laplace": 1 / (1 + size**2),
        }[family]
    return absolute * np.exp(1j * loc[:, None] * w)


def frequencies(highest, step):
    """Return nodes and weights on (0, highest)."""
    z, w = np.polynomial.legendre.leggauss(16)
    low = np.arange(0, highest, step)
    return (low[:, None] + step * (z + 1) / 2).ravel(), np.tile(step * w / 2, len(low))


def plain(x, y, family, loc, scale, nu, length, highest, step, delta=0.0, x_scale=1.0):
    """Return the CCE (n,) at x, with all inner products as integrals over frequencies."""
    w, weight = frequencies(highest, step)
    phi = characteristic(family, loc, scale, w)
    weight = weight * spectrum(nu, length, w) / np.pi
    model = np.real((phi * weight) @ phi.conj().T)
    cross = np.real((np.exp(1j * y[:, None] * w) * weight) @ phi.conj().T)
    kernel = fm.Matern(nu, length)
    single = kernel(y[:, None], y[:, None]) + delta * (y[:, None] == y)
    inner = single - cross - cross.T + model
    k = np.exp(-x_scale * (x - x.T) ** 2)
    a = np.linalg.solve(k + LAM * len(x) * np.eye(len(x)), k)
    return np.sqrt(np.einsum("ij,ik,kj->j", a, inner, a))


def problem(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    loc, scale = np.sin(x[:, 0]), 0.3 + 0.2 * rng.uniform(size=n)
    return x, loc + scale * rng.normal(size=n), loc, scale


def family_of(family, loc, scale):
    if family == "cauchy":
        return fm.StudentT(1.0, loc, scale)
    return {"logistic": fm.Logistic, "laplace": fm.Laplace}[family](loc, scale)


def kernel_of(nu):
    return fm.Laplacian(1 / 0.7) if nu == 0.5 else fm.Matern(nu, 0.7)


def options(**more):
    return dict(x_kernel=fm.RBF(1.0), lam=LAM, **more)


@pytest.mark.parametrize("nu", [0.5, 1.5])
@pytest.mark.parametrize("family", ["logistic", "cauchy"])
def test_rare_rows(family, nu):
    """A tiny scale, a huge scale, an outcome far away, and equal outcomes."""
    x, y, loc, scale = problem(30)
    scale[4], scale[11], y[20], y[7] = 0.02, 60.0, 45.0, y[8]
    result = fm.cce(x, y, family_of(family, loc, scale), y_kernel=kernel_of(nu), **options())
    expected = plain(x, y, family, loc, scale, nu, 0.7, 900.0, 0.15)
    assert result.info.form == "dense"
    assert np.max(result.error_bound) <= 1e-6
    assert np.abs(result.values - expected).max() <= np.max(result.error_bound) + 1e-8


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_kinks(nu):
    """Densities with a kink: their embeddings have one, too."""
    x, y, loc, scale = problem(24, seed=1)
    result = fm.cce(x, y, fm.Laplace(loc, scale), y_kernel=kernel_of(nu), **options())
    expected = plain(x, y, "laplace", loc, scale, nu, 0.7, 2500.0, 0.5)
    assert np.max(result.error_bound) <= 1e-6
    assert np.abs(result.values - expected).max() <= np.max(result.error_bound) + 1e-8


@pytest.mark.parametrize("nu", [0.5, 1.5])
@pytest.mark.parametrize("landmarks", [True, False])
def test_many_inputs(nu, landmarks):
    """Landmarks of smooth inputs; solves at each point for others."""
    x, y, loc, scale = problem(450, seed=2)
    x_scale = 1.0 if landmarks else 3e4
    settings = options(y_kernel=kernel_of(nu)) | {"x_kernel": fm.RBF(x_scale)}
    result = fm.cce(x, y, fm.Logistic(loc, scale), **settings)
    expected = plain(x, y, "logistic", loc, scale, nu, 0.7, 40.0, 0.5, x_scale=x_scale)
    assert (result.info.solver == "lowrank") == landmarks
    assert np.max(result.error_bound) <= 1e-6
    assert np.abs(result.values - expected).max() <= np.max(result.error_bound) + 1e-8


def test_equal_outcomes_count_in_delta():
    x, y, loc, scale = problem(30, seed=3)
    y = np.round(y, 1)
    kernel = kernel_of(0.5) + fm.Delta() * 0.25
    result = fm.cce(x, y, fm.Logistic(loc, scale), y_kernel=kernel, **options())
    expected = plain(x, y, "logistic", loc, scale, 0.5, 0.7, 200.0, 0.5, delta=0.25)
    assert np.abs(result.values - expected).max() <= np.max(result.error_bound) + 1e-8


def test_equal_inputs_and_weights():
    """Repeated rows are rows with weights."""
    x, y, loc, scale = problem(60, seed=4)
    twice = np.concatenate([np.arange(60), np.arange(20)])
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    at = x[:10]
    repeated = fm.cce(x[twice], y[twice], fm.Logistic(loc[twice], scale[twice]), y_kernel=kernel_of(1.5),
                      at=at, **options())  # fmt: skip
    weighted = fm.cce(
        x, y, fm.Logistic(loc, scale), weights=weights, y_kernel=kernel_of(1.5), at=at, **options()
    )
    np.testing.assert_allclose(repeated.values, weighted.values, rtol=0, atol=1e-8)


def test_bits_do_not_depend_on_threads():
    x, y, loc, scale = problem(450, seed=5)
    before, results = fm.get_num_threads(), []
    try:
        for threads in (1, 2):
            fm.set_num_threads(threads)
            results.append(
                fm.cce(x, y, fm.Logistic(loc, scale), y_kernel=kernel_of(0.5), **options()).values
            )
    finally:
        fm.set_num_threads(before)
    np.testing.assert_array_equal(*results)


def test_saved_and_loaded(tmp_path):
    x, y, loc, scale = problem(50, seed=6)
    fitted = fm.ConditionalCongruence(y_kernel=kernel_of(0.5), **options())
    fitted.fit(x, y, fm.Logistic(loc, scale))
    fitted.save(tmp_path / "cce.npz")
    loaded = fm.load(tmp_path / "cce.npz")
    new = np.linspace(-1, 1, 7)[:, None]
    np.testing.assert_array_equal(loaded.score_samples(new), fitted.score_samples(new))
    at = np.linspace(-2, 2, 9)
    np.testing.assert_array_equal(loaded.witness(new, at), fitted.witness(new, at))


def test_witness():
    x, y, loc, scale = problem(30, seed=7)
    fitted = fm.ConditionalCongruence(y_kernel=kernel_of(0.5), **options())
    fitted.fit(x, y, fm.Logistic(loc, scale))
    new, at = np.array([[-0.5], [0.8]]), np.array([-1.0, 0.0, 0.7, 30.0])
    w, weight = frequencies(60.0, 0.05)
    phi = characteristic("logistic", loc, scale, w) * weight * spectrum(0.5, 0.7, w) / np.pi
    model = np.real(np.exp(-1j * at[:, None] * w) @ phi.T)
    single = kernel_of(0.5)(at[:, None], y[:, None])
    k = np.exp(-((x - x.T) ** 2))
    a = np.linalg.solve(k + LAM * 30 * np.eye(30), np.exp(-((x - new.T) ** 2)))
    np.testing.assert_allclose(fitted.witness(new, at), ((single - model) @ a).T, rtol=0, atol=1e-6)
