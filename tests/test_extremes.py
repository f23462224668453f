"""Bounds on inputs that strain float32 and float64 hold against a definition in long double.

Long double has 64 bits and reaches 1e4932: nothing here under- or overflows in it.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.errors import NumericalError
from fastmcmd.estimate.error_forecast import cannot_converge, slope
from fastmcmd.kernels.gamma import resolve_gamma

LONG = np.longdouble


def long_kernel(kernel, x, z):
    """The kernel matrix in long double by its formula."""
    x, z = np.asarray(x, dtype=LONG), np.asarray(z, dtype=LONG)
    match kernel:
        case fm.Sum(left=a, right=b):
            return long_kernel(a, x, z) + long_kernel(b, x, z)
        case fm.Product(left=a, right=b):
            return long_kernel(a, x, z) * long_kernel(b, x, z)
        case fm.Constant(value=value):
            return np.full((len(x), len(z)), LONG(value))
        case fm.Linear():
            return x @ z.T
        case fm.Polynomial(degree=degree, gamma=gamma, coef0=coef0):
            return (LONG(gamma) * (x @ z.T) + LONG(coef0)) ** degree
        case fm.Cosine():
            norms = [np.sqrt((rows**2).sum(1)) for rows in (x, z)]
            one, other = (np.where(norm > 0, norm, 1) for norm in norms)
            return (x / one[:, None]) @ (z / other[:, None]).T
    difference = x[:, None] - z[None]
    match kernel:
        case fm.RBF(gamma=gamma):
            return np.exp(-LONG(gamma) * (difference**2).sum(-1))
        case fm.Laplacian(gamma=gamma):
            return np.exp(-LONG(gamma) * np.abs(difference).sum(-1))
        case fm.Delta():
            return (difference == 0).all(-1).astype(LONG)
        case fm.Matern(nu=nu, length_scale=length):
            r = np.sqrt(2 * LONG(nu) * (difference**2).sum(-1)) / LONG(length)
            return {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[nu] * np.exp(-r)
    raise AssertionError(kernel)


def rows_of(a):
    return a[:, None] if a.ndim == 1 else a


def long_solve(matrix, right):
    """Solve a positive definite system by elimination."""
    both = np.hstack([matrix, right])
    for k in range(len(matrix)):
        both[k] /= both[k, k]
        other_rows = np.arange(len(matrix)) != k
        both[other_rows, k:] -= both[other_rows, k : k + 1] * both[k, k:]
    return both[:, len(matrix) :]


_TRUTHS = {}


def long_mcmd(grid, x, y, y_prime, *parameters):
    """Return the MCMD at ``grid`` of two samples at the same inputs, solved in long double."""
    arrays = [np.array(rows_of(array)) for array in (grid, x, y, y_prime)]
    key = (*((array.shape, array.dtype.str, array.tobytes()) for array in arrays), repr(parameters))
    if key not in _TRUTHS:
        _TRUTHS[key] = _long_mcmd(*arrays, *parameters)
    return _TRUTHS[key]


def _long_mcmd(grid, x, y, y_prime, x_kernel, y_kernel, lam, lam_prime=None):
    matrix, right = long_kernel(x_kernel, x, x), long_kernel(x_kernel, x, grid)

    def solution(regulariser):
        return long_solve(matrix + len(x) * LONG(regulariser) * np.eye(len(x)), right)

    outputs = np.vstack([y, y_prime])
    products = long_kernel(y_kernel, outputs, outputs)
    if lam_prime is None:  # both samples have one solution
        n, both = len(x), solution(lam)
        products = products[:n, :n] - products[:n, n:] - products[n:, :n] + products[n:, n:]
    else:
        both = np.vstack([solution(lam), -solution(lam_prime)])
    square = np.einsum("iq,iq->q", both, products @ both)
    return np.sqrt(np.maximum(square, 0)).astype(np.float64)


def assert_certified(result, truth):
    off = np.abs(np.asarray(result) - truth)
    assert (off <= result.error_bounds + 1e-15).all(), float((off / result.error_bounds).max())


NUGGET = 0.2 * fm.RBF(0.5) + fm.Delta()


def nearly_equal(n, d, *, tiny):
    """Return rows of which 17 differ in the last digits of float64, some near the origin."""
    rng = np.random.default_rng(d)
    x = 45000 + 30 * rng.random((n, d))
    some = rng.choice(n, 17, replace=False)
    x[some] = x[some[0]] + 1e-9 * rng.random((17, d))
    if tiny:
        x[some[-6:]] = 1e-13 * rng.random((6, d))
    y, other = rng.standard_normal(n), rng.standard_normal(n)
    other[some] += 2
    return x, y, other


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky", "lowrank"])
@pytest.mark.parametrize("d", [1, 40])
@pytest.mark.parametrize("lam_prime", [None, 0.03])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_delta_sees_rows_that_float32_merges(solver, d, lam_prime, dtype):
    """Some rows become equal once the mean of all rows is subtracted."""
    x, y, other = nearly_equal(200, d, tiny=True)
    kernel = 0.2 * fm.RBF(0.5 / d) + fm.Delta()
    result = fm.mcmd(
        x, x, y, x, other, x_kernel=kernel, y_kernel=fm.RBF(0.5), lam=0.01, lam_prime=lam_prime,
        solver=solver, dtype=dtype, tol=1e-5,
    )  # fmt: skip
    truth = long_mcmd(x, x, y, other, kernel, fm.RBF(0.5), 0.01, lam_prime)
    assert_certified(result, truth)
    assert result.error_bound <= 1e-5
    assert result.info.dtype == "float64"


def test_delta_at_points_that_float32_merges_with_inputs():
    x, y, other = nearly_equal(150, 2, tiny=False)
    grid = np.vstack([x[:40], x[:40] + 1e-9])
    options = {"x_kernel": NUGGET, "y_kernel": fm.RBF(0.5), "lam": 0.02, "solver": "cg"}
    truth = long_mcmd(grid, x, y, other, NUGGET, fm.RBF(0.5), 0.02)
    for certificate in ("rigorous", "sampled"):
        result = fm.mcmd(grid, x, y, x, other, certificate=certificate, **options)
        assert_certified(result, truth)


def test_delta_of_float32_rows_stays_in_float32():
    x, y, other = nearly_equal(150, 40, tiny=False)
    x = x.astype(np.float32)
    result = fm.mcmd(x, x, y, x, other, x_kernel=NUGGET, lam=0.1, y_kernel=fm.RBF(0.5), solver="cg")
    assert_certified(result, long_mcmd(x, x, y, other, NUGGET, fm.RBF(0.5), 0.1))


def kernels_in(unit):
    """Return kernels whose lengths are of the order of ``unit``, as far as parameters allow."""
    square = 1 / unit / unit
    kernels = [
        fm.Cosine(), 0.5 * fm.Cosine() + 1.0, fm.Cosine() * fm.Cosine(), fm.Linear(), fm.Delta(),
        fm.Laplacian(0.5 / unit), fm.Matern(0.5, unit), fm.Matern(1.5, unit), fm.Matern(2.5, unit),
        fm.Delta() * fm.Matern(1.5, unit), fm.Laplacian(0.5 / unit) + fm.Delta(),
        fm.Cosine() + fm.Matern(2.5, unit),
    ]  # fmt: skip
    if 0 < square < np.inf:
        kernels += [fm.RBF(0.5 * square), fm.RBF(0.5 * square) * fm.Linear()]
        kernels += [fm.Polynomial(3, 0.5 * square, 1.0), fm.Polynomial(2, 0.5 * square, 0.0)]
        kernels += [fm.RBF(0.5 * square) + 0.1 * fm.Delta()]
    return kernels


def near_duplicates(rng, n, d, offset):
    x = offset + rng.standard_normal((n, d)) / np.sqrt(d)
    x[n // 2 : n // 2 + 4] = x[0] * (1 + 1e-15 * rng.integers(0, 3, (4, d)))
    x[-3:] = x[1]
    return x


CASES = list(
    itertools.product(
        [1e-200, 1e-165, 1e-100, 1e-20, 1.0, 1e20, 1e100, 1e165],
        [0.0, 1e5],
    )
)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "offset"), CASES)
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_certified_or_refused_at_any_scale(unit, offset, dtype):
    rng = np.random.default_rng(3)
    answered, reasons = 0, set()
    for d in (1, 3, 40):
        x = near_duplicates(rng, 40, d, offset) * unit
        y, other = rng.standard_normal(40), 0.5 + rng.standard_normal(40)
        for kernel in kernels_in(unit):
            for solver in ("cholesky", "cg") if d == 3 else ("auto",):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", fm.ToleranceWarning)
                        result = fm.mcmd(
                            x, x, y, x, other, x_kernel=kernel, y_kernel=fm.RBF(0.5), lam=0.1,
                            solver=solver, dtype=dtype,
                        )  # fmt: skip
                except ValueError as error:
                    reasons.add(str(error))
                    continue
                answered += 1
                if np.max(kernel.diagonal(x)) > 1e12:  # long double has no more digits either
                    assert result.error_bound > 1e-6
                    continue
                assert_certified(result, long_mcmd(x, x, y, other, kernel, fm.RBF(0.5), 0.1))
    assert answered >= 6
    assert all("scale" in reason or "float32" in reason for reason in reasons), reasons


def test_cosine_does_not_depend_on_the_sizes_of_rows():
    """Squares of 1e-165 are 0, those of 1e165 infinite."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 4)), rng.standard_normal(60)
    x[7] = 0
    plain = fm.cce(x, y, fm.Gaussian(0 * y, 1.0), x_kernel=fm.Cosine(), y_kernel="paper", lam=0.1)
    sizes = 10.0 ** rng.choice([-300, -165, -30, 0, 25, 165, 300], 60)[:, None]
    for scaled in (x * 1e-165, x * 1e165, x * sizes, np.float32(x) * np.float32(1e-30)):
        np.testing.assert_allclose(fm.Cosine()(scaled), fm.Cosine()(x), atol=1e-6)
        np.testing.assert_array_equal(fm.Cosine().diagonal(scaled), fm.Cosine().diagonal(x))
        result = fm.cce(
            scaled, y, fm.Gaussian(0 * y, 1.0), x_kernel=fm.Cosine(), y_kernel="paper", lam=0.1
        )
        np.testing.assert_allclose(result, plain, atol=1e-6)
        fitted = fm.ConditionalCongruence(x_kernel=fm.Cosine(), y_kernel="paper", lam=0.1).fit(
            x, y, fm.Gaussian(0 * y, 1.0)
        )
        np.testing.assert_allclose(fitted.score_samples(scaled), plain, atol=1e-6)
    with pytest.raises(NumericalError, match="scale the columns"):
        fm.cce(
            x * sizes,
            y,
            fm.Gaussian(0 * y, 1.0),
            x_kernel=fm.Cosine() + fm.RBF(1.0),
            y_kernel="paper",
            lam=0.1,
        )


@pytest.mark.parametrize("unit", [1e-60, 1e-30, 1e50])
def test_rows_are_drawn_by_norms_that_float32_does_not_hold(unit):
    """Norms of rows were stored in float32: infinite for y near 1e115, so no landmark was drawn."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(700, 2))
    y = x[:, 0] + rng.normal(size=700)
    draws = x[:, :1] + rng.normal(size=(700, 3))
    options = {"solver": "lowrank", "certificate": "sampled", "lam": 1e-3, "tol": 1e-3}
    expected = fm.cce(x, y, draws, x_kernel=fm.RBF(1.0), y_kernel=fm.Linear(), **options)
    options["tol"] *= unit
    result = fm.cce(
        x, unit * y, unit * draws, x_kernel=fm.RBF(1.0), y_kernel=fm.Linear(), **options
    )
    bounds = expected.error_bounds + result.error_bounds / unit
    assert (np.abs(result.values / unit - expected.values) <= bounds).all()
    assert result.error_bound <= 2e-3 * unit


@pytest.mark.parametrize("unit", [1e-165, 1e-160, 1e-100, 1e100, 1e160])
def test_values_of_kernels_of_distances_do_not_depend_on_the_unit(unit):
    """Bit for bit if the unit is a power of two."""
    unit = 2.0 ** round(np.log2(unit))
    x = np.random.default_rng(0).standard_normal((20, 3))
    for nu in (0.5, 1.5, 2.5):
        np.testing.assert_array_equal(fm.Matern(nu, unit)(x * unit), fm.Matern(nu, 1.0)(x))
    np.testing.assert_array_equal(fm.Laplacian(1 / unit)(x * unit), fm.Laplacian(1.0)(x))
    if 1e-154 < unit < 1e154:
        np.testing.assert_array_equal(fm.RBF(1 / unit**2)(x * unit), fm.RBF(1.0)(x))


def test_lengths_whose_squares_underflow_are_refused():
    x = np.random.default_rng(0).standard_normal((30, 2)) * 1e-165
    with pytest.raises(ValueError, match=r"x_kernel is Matern.*scale x"):
        fm.mcmd(x, x, x[:, 0], x, x[:, 1], x_kernel=fm.Matern(1.5, 1e-165))


def test_rules_for_gamma_know_underflow_from_equal_rows():
    x = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(ValueError, match="squares underflow"):
        resolve_gamma("variance", x * 1e-200, "euclidean")
    with pytest.raises(ValueError, match="all rows are equal"):
        resolve_gamma("variance", np.ones((30, 2)), "euclidean")
    usual = resolve_gamma("median", x, "euclidean")
    assert resolve_gamma("median", x * 1e-150, "euclidean") == pytest.approx(usual * 1e300)
    with pytest.raises(ValueError, match="scale them"):
        resolve_gamma("median", x * 1e-200, "euclidean")


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 100.0, 1e4, 1e8])
@pytest.mark.parametrize("solver", ["auto", "lowrank"])
def test_vector_outputs_on_a_curve_far_from_the_origin(offset, solver):
    """For outputs of more than 32 columns, |y|^2 + |z|^2 - 2 y.z has no digits left there."""
    rng = np.random.default_rng(0)
    x, along = rng.standard_normal((120, 2)), rng.standard_normal(64)
    y, other = (offset + np.outer(rng.standard_normal(120), along) for _ in range(2))
    kernel = fm.RBF(0.5 / 64)
    result = fm.mcmd(x, x, y, x, other, x_kernel=fm.RBF(0.5), y_kernel=kernel, solver=solver)
    assert result.info.form == "feature"
    assert_certified(result, long_mcmd(x, x, y, other, fm.RBF(0.5), kernel, 0.1))
    assert result.error_bound < 1e-6


# Functions that are no kernels ----------------------------------------------------------------------


def _asymmetric(a, b):
    return a[0] * b[0] + np.sin(a[0])


def _indefinite(a, b):
    return np.abs(a - b).sum()


def _sometimes_nan(a, b):
    return np.exp(-((a[0] - b[0]) ** 2)) if a[0] * b[0] > -4 else np.nan


@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize("place", ["alone", "in a sum"])
@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (_asymmetric, ValueError, "x_kernel.*not symmetric"),
        (_indefinite, ValueError, "x_kernel.*not positive semi-definite"),
        (_sometimes_nan, ValueError, "returned nan"),
        (lambda a, b: "1.5", TypeError, "returned str"),
        (lambda a, b: np.outer(a, b), TypeError, "shape"),
        (lambda a, b: None, TypeError, "NoneType"),
        (lambda a, b: 1j, TypeError, "complex"),
    ],
)
def test_a_function_that_is_no_kernel_is_refused(backend, place, function, error, match):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 2)) * 2, rng.standard_normal(60)
    kernel = fm.CustomKernel(function)
    if place == "in a sum":
        kernel = kernel + 1e-3 * fm.RBF(1.0)
    with pytest.raises(error, match=match):
        fm.cce(x, y, fm.Gaussian(0 * y, 1.0), x_kernel=kernel, backend=backend)


def test_output_kernels_are_examined_too():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(60), rng.standard_normal(60)
    with pytest.raises(ValueError, match=r"y_kernel.*not positive semi-definite"):
        fm.mcmd(x, x, y, x, y + 1, y_kernel=fm.CustomKernel(_indefinite))


def _product(a, b):
    return (a * b).sum() ** 2 + 1.0


def test_a_function_that_is_a_kernel_is_taken():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 3))
    x[3:6] = x[0]
    for scale in (1e-3, 1.0, 1e3):
        matrix = fm.CustomKernel(_product)(x * scale)
        fm.CustomKernel(_product).examine(x * scale, "x_kernel")
        np.testing.assert_allclose(matrix, fm.Polynomial(2, 1.0, 0.0)(x * scale) + 1, rtol=1e-9)


@pytest.mark.slow
def test_a_negative_pivot_of_a_function_says_so(monkeypatch):
    """The factorisation shows what no drawn pair does."""
    monkeypatch.setattr(fm.CustomKernel, "examine", lambda *_: None)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    with pytest.raises(NumericalError, match="is not positive semi-definite"):
        fm.cce(
            x, y, fm.Gaussian(0 * y, 1.0), x_kernel=fm.CustomKernel(_indefinite), lam=1e-3,
            solver="cholesky",
        )  # fmt: skip


# A bound that exceeds the value ---------------------------------------------------------------------


def unscaled(n, scale):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, 4)), rng.standard_normal(n)
    x[:, 3] *= scale
    return x, y


@pytest.mark.slow
@pytest.mark.parametrize("scale", [100.0, 1e3, 1e60])
def test_columns_of_unlike_scale_take_no_other_number_down(scale):
    x, y = unscaled(150, scale)
    prediction = fm.Gaussian(0 * y, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        evaluation = fm.evaluate(y, prediction, x, n_boot=20, x_kernel="paper", y_kernel="paper")
        models = {"one": prediction, "two": fm.Gaussian(0 * y, 2.0)}
        compared = fm.compare(models, y, x, x_kernel="paper", y_kernel="paper")
    assert evaluation["mean_crps"] == fm.evaluate(y, prediction)["mean_crps"]
    for name in ("mean_cce", "max_cce"):
        assert "scale the columns of x" in evaluation.skipped[name]
        with pytest.raises(KeyError, match="scale the columns"):
            evaluation[name]
    assert evaluation.cce is None
    assert "cce" not in evaluation.rows
    assert "CCE, mean" not in repr(evaluation)
    assert "scale the columns of x" in repr(evaluation)
    assert "scale the columns" in str(compared.evaluations["two"].skipped["mean_cce"])


def test_a_mean_below_its_bound_is_not_printed():
    x, y = unscaled(150, 100.0)
    with pytest.warns(fm.ToleranceWarning, match=r"x_kernel has values up to .* scale the columns"):
        result = fm.cce(x, y, fm.Gaussian(0 * y, 1.0), x_kernel="paper", y_kernel="paper")
    assert result.info.cause.kind == "kernel values"
    assert result.error_bounds.mean() > result.mean
    assert "mean not known, its error bound" in repr(result)
    assert "5 / 50 / 95 %" not in repr(result)
    fine = fm.cce(x[:, :3], y, fm.Gaussian(0 * y, 1.0), x_kernel="paper", y_kernel="paper")
    assert fine.vague == ""
    assert f"mean {fine.mean:.6g}" in repr(fine)


def test_right_model_with_a_small_bound_has_a_mean():
    """0 +- 1e-9 is a valid answer."""
    x = np.linspace(-1, 1, 50)
    result = fm.mcmd(x, x, x, x, x)
    assert result.mean == 0.0
    assert result.vague == ""


def test_constant_outcomes_skip_the_cce():
    y = np.ones(40)
    evaluation = fm.evaluate(
        y, fm.Gaussian(0 * y, 1.0), np.linspace(0, 1, 40), x_kernel="paper", y_kernel="paper"
    )
    assert "gamma='variance'" in evaluation.skipped["mean_cce"]
    assert evaluation["mae"] == 1.0


def test_wrong_arguments_are_still_errors():
    y = np.linspace(0, 1, 40)
    for wrong in ({"lam": -1.0}, {"x_kernel": "rbf"}, {"solver": "fast"}):
        with pytest.raises((ValueError, TypeError)):
            fm.evaluate(y, fm.Gaussian(0 * y, 1.0), y, **wrong)
    with pytest.raises(ValueError, match="rows"):
        fm.evaluate(y, fm.Gaussian(0 * y, 1.0), y[:-1])


# Errors by name -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["nystrom", "lowrank", "cg", "cholesky"])
@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.parametrize("scale", [1e6, 1e40])
@pytest.mark.parametrize("kernel", [None, fm.RBF(1.0), fm.Linear()], ids=repr)
def test_no_raw_errors_of_linear_algebra(solver, dtype, scale, kernel):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((300, 3)), rng.standard_normal(300)
    x[:2] *= scale
    refused = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fm.ToleranceWarning)
            result = fm.mcmd(
                x, x, y, x, y + 1, x_kernel=kernel, y_kernel=fm.RBF(0.5), solver=solver, dtype=dtype
            )
    except NumericalError as error:
        refused = str(error)
    if refused:
        assert "scale the columns" in refused
        return
    assert np.isfinite(result.values).all()
    assert np.isfinite(result.error_bounds).all()
    if isinstance(kernel, fm.RBF):
        assert_certified(result, long_mcmd(x, x, y, y + 1, kernel, fm.RBF(0.5), 0.1))


def test_forecast_without_progress():
    for kind in ("rigorous", "sampled"):
        assert slope((48, 2.0), (48, 1.0), kind) == 0.0
        assert slope((48, 0.0), (96, 1.0), kind) == 0.0
        assert slope((48, 2.0), (96, 1.0), kind) < 0.0
        assert cannot_converge((48, 2.0), (48, 2.0), 100, kind)
        assert not cannot_converge((48, 2.0), (96, 0.0), 100, kind)
        assert cannot_converge((48, np.inf), (96, np.inf), 100, kind)


def test_functions_are_tried_on_both_samples():
    """One row of the first sample says nothing about a function."""
    rng = np.random.default_rng(0)
    one, many = rng.normal(size=(1, 2)), rng.normal(size=(50, 2))
    kernel = fm.CustomKernel(_asymmetric)
    for kernels, name in (((kernel, fm.RBF(1.0)), "x_kernel"), ((fm.RBF(1.0), kernel), "y_kernel")):
        with pytest.raises(ValueError, match=f"{name}.*not symmetric"):
            fm.mcmd(one, one, one, many, many, x_kernel=kernels[0], y_kernel=kernels[1])
