"""`mcmd` and `cce` agree with equation 2, over everything that can vary, with their certificates."""

from __future__ import annotations

import warnings

import numpy as np
import oracle
import pytest
from builders import two_samples
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd.solvers import cg

KERNELS = {
    "rbf": fm.RBF(0.4),
    "laplacian": fm.Laplacian(0.5),
    "polynomial": fm.Polynomial(3),
    "matern": fm.Matern(1.5, 0.8),
    "matern12": fm.Matern(0.5, 0.8),
    "linear": fm.Linear() + 1.0,
    "cosine": fm.Cosine() + 0.5,
    "sum": fm.RBF(0.3) + fm.Polynomial(2),
    "product": fm.RBF(0.3) * fm.Matern(2.5, 1.5),
}


def check(result, args, x_kernel, y_kernel, lam=0.1, lam_prime=None, **weights):
    """Values agree with the oracle within the certificate (and the oracle's own rounding)."""
    grid, x, y, x_prime, _ = args
    x_kernel, y_kernel = (
        x_kernel.resolve(np.atleast_2d(x.T).T),
        y_kernel.resolve(np.atleast_2d(y.T).T),
    )
    square = oracle.mcmd_squared(*args, x_kernel, y_kernel, lam, lam_prime, **weights)
    expected = np.sqrt(np.maximum(square, 0))
    slack = oracle.cancellation(grid, x, x_prime, x_kernel, y_kernel, y, lam, lam_prime)
    errors = np.sqrt(np.maximum(square, 0) + slack) - np.sqrt(np.maximum(square - slack, 0))
    off = np.abs(result.values - expected)
    assert np.isfinite(result.values).all()
    assert (result.values >= 0).all()
    assert (off <= result.error_bounds + errors + 1e-12).all(), (off.max(), result.error_bound)
    return float(off.max())


@pytest.mark.parametrize("y_name", ["rbf", "matern", "laplacian", "polynomial", "delta"])
@pytest.mark.parametrize("x_name", KERNELS)
def test_kernels(rng, x_name, y_name):
    args = two_samples(rng)
    y_kernel = fm.Delta() if y_name == "delta" else KERNELS[y_name]
    if y_name == "delta":
        args = (*args[:2], args[2].round(1), args[3], args[4].round(1))
    result = fm.mcmd(*args, x_kernel=KERNELS[x_name], y_kernel=y_kernel)
    assert check(result, args, KERNELS[x_name], y_kernel) < 1e-6


@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg"])
@pytest.mark.parametrize("backend", ["cpu", "numba", "numpy"])
@pytest.mark.parametrize("dtype", [None, np.float32, np.float64])
def test_solvers_backends_dtypes(rng, solver, backend, dtype):
    args = two_samples(rng, n=300, m=280, q=30, d=3)
    result = fm.mcmd(
        *args, x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(1.0),
        solver=solver, backend=backend, dtype=dtype,
    )  # fmt: skip
    assert result.info.backend == backend
    assert result.error_bound <= 1e-6
    assert check(result, args, fm.RBF(0.5), fm.RBF(1.0)) <= 1e-6


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 70),
    m=st.integers(1, 70),
    d=st.integers(1, 5),
    k=st.integers(1, 2),
    lam=st.sampled_from([1e-4, 1e-2, 0.1, 1.0, 10.0]),
    lam_prime=st.sampled_from([None, 1e-3, 0.1, 5.0]),
    x_name=st.sampled_from(sorted(KERNELS)),
    y_name=st.sampled_from(["rbf", "laplacian", "matern"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    same_inputs=st.booleans(),
    duplicates=st.booleans(),
    weighted=st.booleans(),
    order=st.sampled_from("CF"),
)
def test_random_problems(
    seed,
    n,
    m,
    d,
    k,
    lam,
    lam_prime,
    x_name,
    y_name,
    dtype,
    same_inputs,
    duplicates,
    weighted,
    order,
):
    rng = np.random.default_rng(seed)
    grid, x, y, x_prime, y_prime = two_samples(rng, n, m, 7, d, k, dtype)
    if duplicates:
        x = x[rng.integers(0, max(1, n // 3), n)]
    if same_inputs:
        x_prime, y_prime = x, rng.normal(size=y.shape)
    x = np.asarray(x, order=order)
    weights = {}
    if weighted:
        w = rng.uniform(0, 3, len(x)) * (rng.random(len(x)) < 0.8)
        w[0] = 1.0
        weights = {"weights": w, "weights_prime": rng.uniform(0.1, 2, len(x_prime))}
    args = (grid, x, y, x_prime, y_prime)
    with warnings.catch_warnings():
        # Tiny lam: the certificate is valid, and may be above tol.
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        result = fm.mcmd(
            *args, x_kernel=KERNELS[x_name], y_kernel=KERNELS[y_name], lam=lam,
            lam_prime=lam_prime, **weights,
        )  # fmt: skip
    check(result, args, KERNELS[x_name], KERNELS[y_name], lam, lam_prime, **weights)


@pytest.mark.parametrize("lam", [1e-8, 1e-6, 1e-4, 10.0])
def test_extreme_lam(rng, lam):
    args = two_samples(rng, n=200, m=150, d=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        result = fm.mcmd(*args, x_kernel=fm.RBF(1.0), y_kernel=fm.RBF(1.0), lam=lam)
    check(result, args, fm.RBF(1.0), fm.RBF(1.0), lam)


def test_tolerance_warning_when_rounding_is_above_tol(rng):
    args = two_samples(rng, n=200, m=150, d=2)
    with pytest.warns(fm.ToleranceWarning, match="certified to be at most"):
        fm.mcmd(*args, x_kernel=fm.RBF(1.0), y_kernel=fm.RBF(1.0), lam=1e-8, tol=1e-9)


def test_identical_samples_give_zero(rng):
    x = rng.normal(size=(400, 3)).astype(np.float32)
    y = rng.normal(size=400)
    result = fm.mcmd(x, x, y, x, y)
    assert (result.values == 0).all()
    assert result.error_bound <= 1e-6
    near = fm.mcmd(x, x, y, x, y + 1e-9, x_kernel=fm.RBF(0.5))
    assert np.isfinite(near.values).all()
    assert near.mean < 1e-6


def test_paper_defaults(rng):
    x = rng.normal(size=(150, 6))
    y = x.sum(1) + rng.normal(size=150)
    draws = x.sum(1) + rng.normal(size=150)
    result = fm.cce(x, y, draws, x_kernel="paper", y_kernel="paper")
    expected = oracle.mcmd(
        x, x, y, x, draws, lambda a, b: (a @ b.T / 6 + 1) ** 3,
        lambda a, b: np.exp(-((a - b.T) ** 2) / (2 * np.var(y, ddof=1))),
    )  # fmt: skip
    np.testing.assert_allclose(result.values, expected, atol=1e-6)


def test_draws_per_input_are_repeated_rows(rng):
    """Identity 3.2: l draws per input are S' with each input l times, in one solve of size n."""
    x, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    draws = rng.normal(size=(80, 7))
    kernels = fm.RBF(0.5), fm.RBF("variance").resolve(y[:, None])
    ours = fm.cce(x, y, draws, x_kernel=kernels[0], tol=1e-9, y_kernel="paper", lam=0.1)
    repeated = fm.mcmd(
        x, x, y, np.repeat(x, 7, axis=0), draws.ravel(), x_kernel=kernels[0], tol=1e-9
    )
    expected = oracle.mcmd(x, x, y, np.repeat(x, 7, axis=0), draws.ravel(), *kernels)
    np.testing.assert_allclose(ours.values, expected, atol=1e-8)
    np.testing.assert_allclose(repeated.values, expected, atol=1e-8)
    assert ours.info.n_prime == 80
    assert repeated.info.n_prime == 80


def test_weights_are_repetitions(rng):
    """Identity 3.3: integer weights, repeated rows and collapsed rows are the same estimate."""
    x, y, y_prime = rng.normal(size=(50, 2)), rng.normal(size=50), rng.normal(size=50)
    counts = rng.integers(1, 5, 50)
    grid = rng.normal(size=(9, 2))
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5), "tol": 1e-9}
    weighted = fm.mcmd(grid, x, y, x, y_prime, weights=counts, weights_prime=counts, **kernels)
    rows = np.repeat(np.arange(50), counts)
    repeated = fm.mcmd(grid, x[rows], y[rows], x[rows], y_prime[rows], **kernels)
    np.testing.assert_allclose(weighted.values, repeated.values, atol=1e-9)
    scaled = fm.mcmd(
        grid, x, y, x, y_prime, weights=counts * 7.5, weights_prime=counts / 3, **kernels
    )
    np.testing.assert_allclose(weighted.values, scaled.values, atol=1e-9)


def test_zero_weight_rows_take_no_part(rng):
    x, y, p = rng.normal(size=(60, 2)), rng.normal(size=60), rng.normal(size=60)
    w = np.ones(60)
    w[40:] = 0
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5)}
    ours = fm.cce(x, y, p, weights=w, **kernels)
    first_rows = fm.cce(x[:40], y[:40], p[:40], at=x, **kernels)
    assert len(ours) == 60
    np.testing.assert_allclose(ours.values, first_rows.values, atol=1e-6)


def test_free_evaluation_equals_evaluation_elsewhere(rng):
    """Identity 3.4: at the points of S, K B = P - n lam B; a product gives the same."""
    x, y, p = rng.normal(size=(120, 3)), rng.normal(size=120), rng.normal(size=120)
    free = fm.cce(x, y, p, x_kernel=fm.RBF(0.5), tol=1e-9)
    elsewhere = fm.cce(x, y, p, at=np.vstack([x, x[:1] + 1]), x_kernel=fm.RBF(0.5), tol=1e-9)
    np.testing.assert_allclose(free.values, elsewhere.values[:-1], atol=2e-9)


def test_shifted_systems_share_products(rng):
    """lam != lam' with shared inputs: one operator, both systems in every product."""
    x, y, p = rng.normal(size=(400, 3)), rng.normal(size=400), rng.normal(size=400)
    kernels = {"x_kernel": fm.RBF(0.4), "y_kernel": fm.RBF(0.5)}
    both = fm.mcmd(x, x, y, x, p, lam=0.1, lam_prime=0.3, solver="cg", **kernels)
    one = fm.mcmd(x, x, y, x, p, lam=0.1, solver="cg", **kernels)
    assert both.info.passes <= one.info.passes + 2
    args = (x, x, y, x, p)
    check(both, args, fm.RBF(0.4), fm.RBF(0.5), 0.1, 0.3)


@pytest.mark.parametrize("form", ["feature", "dense"])
def test_threads_and_repetition_are_bit_identical(rng, form):
    x = rng.normal(size=(700, 40)).astype(np.float32)
    y, p = rng.normal(size=700), rng.normal(size=700)
    y_kernel = fm.RBF(0.5) if form == "feature" else fm.Laplacian(2.0)
    grid = rng.normal(size=(40, 40)).astype(np.float32)
    runs = []
    before = fm.get_num_threads()
    try:
        for threads in (1, 2, 5, 2):
            fm.set_num_threads(threads)
            runs.append(fm.mcmd(grid, x, y, x, p, y_kernel=y_kernel, solver="cg"))
    finally:
        fm.set_num_threads(before)
    assert runs[0].info.form == form
    for run in runs[1:]:
        np.testing.assert_allclose(run.values, runs[0].values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(runs[1].values, runs[3].values)


def test_dense_form_is_chosen_from_rank_not_name(rng):
    x, p = rng.normal(size=(600, 2)), rng.normal(size=600)
    few = rng.integers(0, 12, 600).astype(float)
    grid = x[:20]
    low = fm.mcmd(grid, x, few, x, few[::-1], y_kernel=fm.Laplacian(1.0))
    high = fm.mcmd(grid, x, rng.normal(size=600), x, p, y_kernel=fm.Laplacian(1.0))
    assert (low.info.form, low.info.rank) == ("feature", 12)
    assert high.info.form == "dense"


@pytest.mark.parametrize("tol", [1e-3, 1e-5, 1e-7, 1e-9])
def test_errors_stay_within_the_tolerance(rng, tol):
    args = two_samples(rng, n=500, m=500, q=50, d=4)
    result = fm.mcmd(*args, x_kernel=fm.RBF(0.3), y_kernel=fm.RBF(0.5), tol=tol, solver="cg")
    assert result.error_bound <= tol
    assert check(result, args, fm.RBF(0.3), fm.RBF(0.5)) <= tol


def far_from_the_origin(rng):
    """A problem where k(x, x) is about 5,000: one run in float32 ends near 2e-5."""
    x = (rng.normal(size=(1500, 40)) + 4).astype(np.float32)
    return x, rng.normal(size=1500), rng.normal(size=1500)


def test_float32_goes_on_in_float64(rng, monkeypatch):
    """If float32 stays above the tolerance, the run continues in float64, and info says so."""
    monkeypatch.setattr(cg, "_REFINEMENTS", 0)
    result = fm.cce(*far_from_the_origin(rng), solver="cg", y_kernel=fm.RBF(0.5), tol=3e-6)
    assert result.error_bound <= 3e-6
    assert result.info.dtype == "float64"
    assert "continued in float64" in result.info.notes[0]


def test_float32_is_refined_where_one_run_is_not_enough(rng):
    problem = far_from_the_origin(rng)
    options = {"y_kernel": fm.RBF(0.5), "tol": 3e-6}
    result = fm.cce(*problem, solver="cg", **options)
    exact = fm.cce(*problem, solver="cholesky", **options)
    assert result.info.dtype == "float32"
    assert result.error_bound <= 3e-6
    assert np.abs(result.values - exact.values).max() <= result.error_bound + exact.error_bound


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cg", "auto"])
def test_what_rounding_alone_exceeds_is_not_tried(rng, solver):
    """No solver is certified below the rounding of a certificate: the run ends, with a note."""
    x = rng.normal(size=(2500, 64)).astype(np.float32)
    y, p = rng.normal(size=2500), rng.normal(size=2500)
    options = {"x_kernel": "paper", "y_kernel": fm.RBF(0.5), "lam": 1e-2, "tol": 2e-10}
    with pytest.warns(fm.ToleranceWarning, match="float64 rounding is what is left"):
        result = fm.cce(x, y, p, solver=solver, **options)
    with pytest.warns(fm.ToleranceWarning):
        factored = fm.cce(x, y, p, solver="cholesky", **options)
    if solver == "cg":
        assert result.info.dtype == "float32"
        assert any("rounding in float64 alone leaves" in note for note in result.info.notes)
        assert result.info.cause.kind == "rounding"
    assert result.error_bound < 3 * factored.error_bound
    assert (
        np.abs(result.values - factored.values).max() <= result.error_bound + factored.error_bound
    )


def test_float32_is_refined_below_its_own_rounding(rng):
    x = rng.normal(size=(1500, 40)).astype(np.float32)
    y, p = rng.normal(size=1500), rng.normal(size=1500)
    options = {"x_kernel": fm.RBF(1 / 80), "y_kernel": fm.RBF(0.5), "lam": 0.1, "solver": "cg"}
    result = fm.cce(x, y, p, tol=1e-9, **options)
    exact = fm.cce(x, y, p, tol=3e-11, dtype=np.float64, **options)
    assert result.info.dtype == "float32"
    assert result.error_bound <= 1e-9
    assert (np.abs(result.values - exact.values) <= result.error_bounds + exact.error_bounds).all()


@pytest.mark.slow
def test_sampled_certificate_holds(rng):
    """With rows drawn at random, the bound is an estimate; it must not be below the error."""
    x = rng.normal(size=(3000, 60)).astype(np.float32)
    x[::500] *= 3  # some rows of large kernel values
    y, p = rng.normal(size=3000), rng.normal(size=3000)
    options = {"y_kernel": fm.RBF(0.5), "solver": "cg", "tol": 1e-4}
    result = fm.cce(x, y, p, certificate="sampled", **options)
    assert result.info.certificate == "sampled"
    exact = fm.cce(x, y, p, y_kernel=fm.RBF(0.5), solver="cholesky", tol=1e-6)
    assert (np.abs(result.values - exact.values) <= result.error_bounds + exact.error_bound).all()


@pytest.mark.slow
def test_custom_kernel(rng):
    def rational_quadratic(a, b):
        s = 0.0
        for i in range(len(a)):
            s += (a[i] - b[i]) ** 2
        return 1.0 / (1.0 + s)

    args = two_samples(rng, n=90, m=70)
    kernel = fm.CustomKernel(rational_quadratic)
    result = fm.mcmd(*args, x_kernel=kernel, y_kernel=fm.RBF(0.5))
    assert result.info.backend == "numba"
    assert check(result, args, kernel, fm.RBF(0.5)) < 1e-6
    both = fm.mcmd(*args, x_kernel=kernel + fm.RBF(1.0), y_kernel=kernel)
    assert check(both, args, kernel + fm.RBF(1.0), kernel) < 1e-6
