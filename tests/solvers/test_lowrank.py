"""The low-rank solver as a whole: values by definition, certificates, options, adversaries."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import oracle
import pytest
from builders import two_samples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from threadpoolctl import threadpool_limits  # scikit-learn needs it, too

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.row_stream import RowStream
from fastmcmd.gram import KernelFeatures
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.solvers.rounding import factor_error

KERNELS = {
    "rbf": fm.RBF(0.4),
    "narrow": fm.RBF(30.0),
    "polynomial": fm.Polynomial(3),
    "laplacian": fm.Laplacian(0.5),
    "matern12": fm.Matern(0.5, 0.8),
    "matern52": fm.Matern(2.5, 1.2),
    "linear": fm.Linear(),
    "sum": fm.RBF(0.3) + fm.Polynomial(2),
    "product": fm.RBF(0.2) * fm.Matern(1.5, 1.5),
}
SOLVERS = ("lowrank", "nystrom")
Y_KERNEL = fm.RBF(0.5)


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    """Run thousands of small factorisations: on a busy machine BLAS's threads take 20 times as long."""
    with threadpool_limits(1, "blas"):
        yield


def quiet(function, *args, **options):
    """Call with ToleranceWarning allowed: the certificate is valid, and may exceed tol."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        return function(*args, **options)


def off(result, square, slack):
    """Return the errors relative to their bounds, without the oracle's own rounding."""
    assert np.isfinite(result.values).all()
    assert np.isfinite(result.error_bounds).all()
    assert (result.values >= 0).all()
    square = np.maximum(square, 0)
    error_of_norm = np.sqrt(square + slack) - np.sqrt(np.maximum(square - slack, 0)) + 1e-13
    error = np.abs(result.values - np.sqrt(square))
    return np.maximum(error - error_of_norm, 0) / result.error_bounds


def off_mcmd(result, args, x_kernel, y_kernel, lam=0.1, lam_prime=None, **weights):
    grid, x, y, x_prime, _ = args
    x_kernel = x_kernel.resolve(oracle._rows(x))
    square = oracle.mcmd_squared(*args, x_kernel, y_kernel, lam, lam_prime, **weights)
    slack = oracle.cancellation(grid, x, x_prime, x_kernel, y_kernel, y, lam, lam_prime)
    return off(result, square, slack)


def shared_parts(args):
    """Return both samples at the same inputs, evaluated there."""
    _, x, y, _, y_prime = args
    return x, x, y, x, y_prime


# --- against the definition ----------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 300),
    m=st.integers(1, 120),
    d=st.integers(1, 6),
    k=st.integers(1, 2),
    lam=st.sampled_from([1e-3, 1e-2, 0.1, 1.0, 10.0]),
    lam_prime=st.sampled_from([None, 1e-3, 0.3, 5.0]),
    tol=st.sampled_from([1e-3, 1e-4, 1e-6, 1e-8]),
    x_name=st.sampled_from(sorted(KERNELS)),
    solver=st.sampled_from(SOLVERS),
    certificate=st.sampled_from(["auto", "rigorous"]),
    single=st.booleans(),
    same_inputs=st.booleans(),
    duplicates=st.booleans(),
    weighted=st.booleans(),
    rank=st.sampled_from([None, None, 1, 7, 40]),
)
def test_random_problems(
    seed, n, m, d, k, lam, lam_prime, tol, x_name, solver, certificate, single, same_inputs, duplicates,
    weighted, rank,
):  # fmt: skip
    """A rigorous bound holds at every point; sampled ones are checked in bulk below."""
    rng = np.random.default_rng(seed)
    grid, x, y, x_prime, y_prime = two_samples(
        rng, n, m, 9, d, k, np.float32 if single else np.float64
    )
    if duplicates:
        x = x[rng.integers(0, max(1, n // 3), n)]
    if same_inputs:
        x_prime, y_prime = x, rng.normal(size=y.shape)
    weights = {}
    if weighted:
        w = rng.uniform(0, 3, n) * (rng.random(n) < 0.8)
        w[0] = 1.0
        weights = {"weights": w, "weights_prime": rng.uniform(0.1, 2, len(x_prime))}
        if same_inputs and seed % 2:
            weights["weights_prime"] = w
    args = (np.vstack([grid, x[:20]]), x, y, x_prime, y_prime)
    result = quiet(
        fm.mcmd, *args, x_kernel=KERNELS[x_name], y_kernel=Y_KERNEL, lam=lam, lam_prime=lam_prime,
        solver=solver, tol=tol, certificate=certificate, rank=rank, **weights,
    )  # fmt: skip
    assert result.info.solver == "lowrank"
    assert result.info.landmarks <= min(rank or n + m, max(n, len(x_prime)))
    ratio = off_mcmd(result, args, KERNELS[x_name], Y_KERNEL, lam, lam_prime, **weights)
    if certificate == "rigorous":
        assert result.info.certificate == "rigorous"
    if result.info.certificate == "rigorous":
        assert ratio.max() <= 1, ratio.max()


@pytest.mark.slow
def test_sampled_bounds_hold_at_nearly_all_points():
    """Of 22,800 points of 60 problems, 99.9 % hold, inside and outside the sample."""
    rng = np.random.default_rng(5)
    points = above = 0
    for x_name, lam, tol in itertools.product(
        ("narrow", "matern12", "laplacian", "rbf", "polynomial"), (0.01, 0.1, 1.0), (1e-3, 1e-5)
    ):
        for d, solver in ((1, "lowrank"), (4, "nystrom")):
            args = two_samples(rng, 110, 110, 270, d)
            args = (np.vstack([args[0], args[1]]), args[1], args[2], args[1], args[4])
            result = quiet(
                fm.mcmd, *args, x_kernel=KERNELS[x_name], y_kernel=Y_KERNEL, lam=lam, tol=tol,
                solver=solver, certificate="sampled", rank=None,
            )  # fmt: skip
            assert result.info.certificate == "sampled"
            ratio = off_mcmd(result, args, KERNELS[x_name], Y_KERNEL, lam)
            points += len(ratio)
            above += int((ratio > 1).sum())
    assert points == 60 * 380
    assert above <= points / 1000, (above, points)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "numba", "numpy"])
@pytest.mark.parametrize("tol", [1e-3, 1e-5, 1e-7, 1e-8])
def test_errors_stay_within_the_tolerance(rng, tol, backend):
    """With rank=None and no warning (an error in these tests) every value is within tol."""
    args = shared_parts(two_samples(rng, 300, 300, 1, 2))
    result = fm.mcmd(
        *args, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, solver="lowrank", tol=tol, backend=backend
    )
    assert result.info.backend == backend
    assert result.error_bound <= tol
    assert off_mcmd(result, args, fm.RBF(0.4), Y_KERNEL).max() <= 1


def test_fewer_landmarks_for_a_larger_tolerance(rng):
    args = shared_parts(two_samples(rng, 400, 400, 1, 2))
    ranks = [
        fm.mcmd(*args, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, solver="lowrank", tol=tol)
        for tol in (1e-2, 1e-5, 1e-8)
    ]
    ranks = [result.info.landmarks for result in ranks]
    assert ranks[0] < ranks[1] < ranks[2] < 300


def test_warns_where_the_error_exceeds_the_tolerance(rng):
    args = two_samples(rng, 300, 300, 50, 3)
    with pytest.warns(fm.ToleranceWarning, match="certified to be at most"):
        result = fm.mcmd(*args, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, solver="lowrank", rank=5)
    assert result.info.landmarks == 5
    assert result.error_bound > 1e-6


def plain_cce(grid, x, x_kernel, lam, inner, weights=None):
    """Return CCE^2 from the matrix of inner products of the rows' output differences, and the slack."""
    a = oracle.coefficients(x_kernel, oracle._rows(x), oracle._rows(grid), lam, weights)
    square = np.einsum("iq,iq->q", a, inner @ a)
    return square, 4e-14 * np.abs(a).sum(axis=0) ** 2 * max(1.0, len(x) / 100)


def mixtures(y, nodes, shares):
    """Return inner products of ``phi(y_i) - sum_s w_is phi(nodes_is)``, from their definition."""
    n, count = shares.shape
    flat = nodes.reshape(n * count, -1)
    mixed = Y_KERNEL(y, flat).reshape(n, n, count)
    cross = np.einsum("ijs,js->ij", mixed, shares)
    both = Y_KERNEL(flat, flat).reshape(n, count, n, count)
    return (
        Y_KERNEL(y, y) - cross - cross.T
        + np.einsum("isjt,is,jt->ij", both, shares, shares, optimize=True)
    )  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["gaussian", "poisson", "draws", "vectors"])
def test_predictions(rng, kind, weighted, solver):
    """Exact distributions, several draws, vector outputs; at other points and at its own."""
    n = 60
    x = rng.uniform(-2, 2, (n, 2))
    y = np.sin(x[:, :1]) + 0.3 * rng.normal(size=(n, 1))
    if kind == "gaussian":
        t, share = np.polynomial.hermite_e.hermegauss(50)
        mean, std = 0.5 * x[:, 0], rng.uniform(0.2, 0.6, n)
        prediction = fm.Gaussian(mean, std)
        nodes = (mean[:, None] + std[:, None] * t)[..., None]
        shares = np.tile(share / share.sum(), (n, 1))
    elif kind == "poisson":
        mean = np.exp(0.4 * x[:, 0])
        y = rng.poisson(mean * 1.3, n)[:, None].astype(float)
        prediction = fm.Poisson(mean)
        nodes = np.tile(np.arange(40.0)[:, None], (n, 1, 1))
        shares = stats.poisson.pmf(np.arange(40), mean[:, None])
    else:
        if kind == "vectors":
            y = np.hstack([y, rng.normal(size=(n, 1))])
        nodes = y[:, None] + 0.5 * rng.normal(size=(n, 6, y.shape[1]))
        prediction = nodes if kind == "vectors" else nodes[:, :, 0]
        shares = np.full((n, 6), 1 / 6)
    w = rng.uniform(0, 2, n) * (rng.random(n) < 0.8) if weighted else None
    inner = mixtures(y, nodes, shares)
    grid = rng.uniform(-2, 2, (30, 2))
    for at, points in ((None, x), (grid, grid)):
        result = fm.cce(
            x, y, prediction, at=at, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, weights=w,
            solver=solver, lam=0.1)  # fmt: skip
        assert result.info.solver == "lowrank"
        assert off(result, *plain_cce(points, x, fm.RBF(0.4), 0.1, inner, w)).max() <= 1


def test_repeated_inputs_are_summed_not_collapsed(rng):
    """Rows that repeat an input stay rows: the answer is that of distinct inputs with weights."""
    x = rng.normal(size=(40, 2))[rng.integers(0, 40, 300)]
    y, p = rng.normal(size=300), rng.normal(size=300)
    kernels = {"x_kernel": fm.Laplacian(0.5), "y_kernel": Y_KERNEL}
    ours = fm.cce(x, y, p, solver="lowrank", tol=1e-9, **kernels)
    theirs = fm.cce(x, y, p, solver="cholesky", tol=1e-9, **kernels)
    assert ours.info.landmarks <= 40
    np.testing.assert_allclose(ours.values, theirs.values, atol=1e-9)


def test_equal_outputs_cancel_only_under_one_regulariser(rng):
    """With lam != lam', truncation errors of the output features do not cancel where outputs agree."""
    x, y = rng.normal(size=(5, 1)), rng.normal(size=(5, 1))
    kernel = fm.RBF(1.0)
    features = KernelFeatures(kernel, np.zeros((1, 1)), np.eye(1), get_backend("auto", kernel))
    nature = Sample(x, DrawnOutputs(y[:, None]), None, 0.1)
    for difference, lam in ((True, 0.1), (False, 0.3)):
        model = Sample(x, DrawnOutputs(y[:, None].copy()), None, lam)
        residual = RowStream([nature, model], features, difference).rhs(slice(0, 5))[1]
        for miss in residual:
            assert (miss == 0).all() if difference else (miss > 1e-3).all()


# --- landmarks and rank --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_fixed_rank(rng, solver):
    args = two_samples(rng, 200, 200, 30, 2)
    bounds = []
    for rank in (1, 10, 60):
        result = quiet(
            fm.mcmd, *args, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, solver=solver, rank=rank
        )
        assert result.info.landmarks == rank
        assert off_mcmd(result, args, fm.RBF(0.4), Y_KERNEL).max() <= 1
        bounds.append(result.error_bound)
    assert bounds[0] > bounds[1] > bounds[2]


def test_rank_above_the_rows_is_all_rows(rng):
    args = two_samples(rng, 50, 50, 10, 2)
    result = quiet(
        fm.mcmd, *args, x_kernel=fm.Laplacian(0.5), y_kernel=Y_KERNEL, solver="lowrank", rank=5000
    )
    assert result.info.landmarks == 50
    assert result.error_bound < 1e-5
    assert off_mcmd(result, args, fm.Laplacian(0.5), Y_KERNEL).max() <= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_given_landmarks(rng, dtype):
    """Any points are valid landmarks, rows of the sample or not; the certificate says how good they are."""
    args = two_samples(rng, 150, 150, 30, 2)
    line = np.linspace(-3, 3, 9)
    lattice = np.array(list(itertools.product(line, line)), dtype=dtype)
    options = {"x_kernel": fm.RBF(0.3), "y_kernel": Y_KERNEL, "solver": "lowrank"}
    result = quiet(fm.mcmd, *args, landmarks=lattice, certificate="rigorous", **options)
    assert result.info.landmarks == 81
    assert result.info.certificate == "rigorous"
    assert result.error_bound < 0.1
    assert off_mcmd(result, args, fm.RBF(0.3), Y_KERNEL).max() <= 1
    twice = quiet(
        fm.mcmd, *args, landmarks=np.vstack([lattice, lattice]), certificate="rigorous", **options
    )
    assert twice.info.landmarks == 81
    assert "81 landmarks repeat others" in " ".join(twice.info.notes)
    np.testing.assert_allclose(
        twice.values, result.values, rtol=1e-13
    )  # among equals, in any order


def test_all_rows_as_landmarks_are_exact(rng):
    samples = two_samples(rng, 90, 90, 30, 3)
    for args in (shared_parts(samples), (samples[0], *shared_parts(samples)[1:])):
        result = quiet(
            fm.mcmd, *args, x_kernel=fm.Laplacian(0.5), y_kernel=Y_KERNEL, solver="lowrank",
            landmarks=args[1],
        )  # fmt: skip
        assert result.info.landmarks == 90
        assert result.error_bound < (1e-9 if args[0] is args[1] else 1e-5)
        assert off_mcmd(result, args, fm.Laplacian(0.5), Y_KERNEL).max() <= 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rank": 0}, ValueError, "rank is 0; None or a positive integer"),
        ({"rank": -3}, ValueError, "rank is -3; None or a positive integer"),
        ({"rank": 2.5}, TypeError, "rank is 2.5; None or a positive integer"),
        ({"rank": True}, TypeError, "rank is True"),
        ({"rank": 5, "solver": "cg"}, ValueError, "rank is an option of solver='lowrank'"),
        ({"rank": 5, "solver": "auto"}, ValueError, "and solver is 'auto'"),
        ({"landmarks": "kmeans"}, ValueError, "landmarks is 'kmeans'"),
        ({"landmarks": [[1.0, np.nan]]}, ValueError, "landmarks"),
        (
            {"landmarks": np.ones((2, 2)), "solver": "cholesky"},
            ValueError,
            "landmarks is an option",
        ),
        pytest.param(
            {"landmarks": np.ones((4, 3))},
            ValueError,
            "landmarks has 3 columns",
        ),
    ],
)
def test_refused_options(rng, options, error, message):
    x, y, p = rng.normal(size=(30, 2)), rng.normal(size=30), rng.normal(size=30)
    with pytest.raises(error, match=message):
        fm.cce(x, y, p, **{"solver": "lowrank", **options})


# --- the choice of solver ------------------------------------------------------------------------


@pytest.mark.slow
def test_auto_takes_the_low_rank_form_for_few_columns(rng):
    x = rng.uniform(-1, 1, size=(17_000, 1))
    y, p = np.sin(3 * x[:, 0]) + rng.normal(size=17_000), rng.normal(size=17_000)
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": Y_KERNEL}
    result = fm.cce(x, y, p, **kernels)
    assert result.info.solver == "lowrank"
    assert 5 <= result.info.landmarks <= 60
    other = fm.cce(x, y, p, solver="cg", **kernels)
    assert other.info.landmarks == 0
    gap = np.abs(result.values - other.values)
    assert (gap <= result.error_bounds + other.error_bounds).all()


@pytest.mark.slow
def test_auto_does_not_where_landmarks_would_not_do(rng):
    x = rng.normal(size=(17_000, 8))
    y, p = x[:, 0] + rng.normal(size=17_000), rng.normal(size=17_000)
    result = fm.cce(x, y, p, x_kernel=fm.RBF(0.5), y_kernel=Y_KERNEL)
    assert result.info.solver != "lowrank"
    assert result.info.landmarks == 0
    assert result.error_bound <= 1e-6


@pytest.mark.parametrize("solver", ["auto", "lowrank"])
def test_errors_stay_within_the_tolerance_at_other_points(rng, solver):
    """Between and beyond the inputs of the sample, the landmarks' residual is larger."""
    x = rng.normal(size=(17_000, 1))
    y, p = np.sin(3 * x[:, 0]) + rng.normal(size=17_000), rng.normal(size=17_000)
    result = fm.cce(
        x, y, p, at=np.linspace(-7, 7, 50), x_kernel=fm.RBF(0.5), y_kernel=Y_KERNEL, solver=solver
    )
    assert result.error_bound <= 1e-6


def test_auto_does_not_below_some_thousand_rows(rng):
    x = rng.uniform(-1, 1, size=(500, 1))
    result = fm.cce(x, rng.normal(size=500), rng.normal(size=500), x_kernel=fm.RBF(0.5))
    assert result.info.solver != "lowrank"


# --- adversaries ---------------------------------------------------------------------------------


def test_a_second_round_picks_outliers_beyond_the_candidates():
    """The search takes landmarks from 20,000 rows; rows with large residuals join them after the pass.

    Far from all others, an outlier is a problem of its own: ``|phi(y) - phi(y')| / (1 + n lam)``.
    """
    rng = np.random.default_rng(2)
    n, far = 30_000, 12
    x = rng.uniform(-1, 1, size=(n, 1))
    rows = rng.choice(n, far, replace=False)
    x[rows, 0] = 100.0 + 50 * np.arange(far)
    y, p = rng.normal(size=n), rng.normal(size=n)
    result = fm.cce(x, y, p, x_kernel=fm.RBF(0.5), y_kernel=Y_KERNEL, solver="lowrank", lam=0.1)
    assert "continued with" in " ".join(result.info.notes)
    assert result.error_bound <= 1e-6
    alone = np.sqrt(2 - 2 * np.exp(-0.5 * (y[rows] - p[rows]) ** 2)) / (1 + n * 0.1)
    assert (np.abs(result.values[rows] - alone) <= result.error_bounds[rows]).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_outliers_with_few_landmarks(rng, solver):
    """With too few landmarks, the bound grows by the residual of the rows."""
    args = two_samples(rng, 200, 200, 20, 1)
    x = args[1]
    x[:5, 0] = 50 * np.arange(1, 6)
    args = (np.vstack([args[0], x[:5]]), x, args[2], x, args[4])
    for certificate in ("rigorous", "sampled"):
        result = quiet(
            fm.mcmd, *args, x_kernel=fm.RBF(0.5), y_kernel=Y_KERNEL, solver=solver, rank=6,
            certificate=certificate,
        )  # fmt: skip
        assert off_mcmd(result, args, fm.RBF(0.5), Y_KERNEL).max() <= 1


@pytest.mark.parametrize("certificate", ["rigorous", "sampled"])
def test_clusters_of_very_different_weight(rng, certificate):
    """A cluster that weighs a millionth is also answered within the bound."""
    centres = np.repeat([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]], 60, axis=0)
    x = centres + rng.normal(size=(180, 2))
    w = np.repeat([1.0, 1e-3, 1e-6], 60)
    y, p = rng.normal(size=(180, 1)), rng.normal(size=(180, 1))
    args = (x, x, y, x, p)
    weights = {"weights": w, "weights_prime": w}
    result = quiet(
        fm.mcmd, *args, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, solver="lowrank", tol=1e-4,
        certificate=certificate, **weights,
    )  # fmt: skip
    ratio = off_mcmd(result, args, fm.RBF(0.4), Y_KERNEL, **weights)
    assert ratio.max() <= 1


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n", [1, 2, 30])
def test_equal_rows_and_single_rows(rng, n, solver):
    """All inputs equal: the answer is the norm of the mean difference, shrunk."""
    x = np.full((n, 3), 0.4)
    y, p = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    args = (np.vstack([x[:1], x[:1] + 1]), x, y, x, p)
    result = fm.mcmd(*args, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, solver=solver)
    assert result.info.landmarks == 1
    assert off_mcmd(result, args, fm.RBF(0.4), Y_KERNEL).max() <= 1
    apart = two_samples(rng, n, n, 5, 3)
    result = quiet(fm.mcmd, *apart, x_kernel=fm.RBF(0.4), y_kernel=Y_KERNEL, solver=solver)
    assert off_mcmd(result, apart, fm.RBF(0.4), Y_KERNEL).max() <= 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_where_the_kernel_is_zero(rng, solver):
    """Linear at x = 0: those rows carry no information, and the answer there is 0."""
    args = two_samples(rng, 80, 70, 10, 3)
    for rows in (args[0][:3], args[1][:50], args[3][:50]):
        rows[:] = 0
    result = fm.mcmd(*args, x_kernel=fm.Linear(), y_kernel=Y_KERNEL, solver=solver)
    assert (result.values[:3] == 0).all()
    assert off_mcmd(result, args, fm.Linear(), Y_KERNEL).max() <= 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_kernel_that_is_zero_in_all_rows(rng, solver):
    grid, y, p = rng.normal(size=(8, 3)), rng.normal(size=20), rng.normal(size=20)
    x = np.zeros((20, 3))
    result = quiet(fm.mcmd, grid, x, y, x, p, x_kernel=fm.Linear(), solver=solver)
    np.testing.assert_array_equal(result.values, np.zeros(8))
    at_points = quiet(
        fm.mcmd, grid, grid[:, :], y[:8], grid, p[:8], x_kernel=fm.Linear(), solver="lowrank",
        landmarks=np.zeros((2, 3)), y_kernel=Y_KERNEL,
    )  # fmt: skip
    args = (grid, grid, y[:8, None], grid, p[:8, None])
    assert off_mcmd(at_points, args, fm.Linear(), Y_KERNEL).max() <= 1


def test_zero_kernel_at_all_points_gives_zero(rng):
    """sqrt(k(x, x)) = 0 at every point once overflowed in the choice of the truncation."""
    x, y, p = np.zeros((20, 2)), rng.normal(size=20), rng.normal(size=20)
    result = fm.cce(x, y, p, x_kernel=fm.Linear(), solver="lowrank")
    np.testing.assert_array_equal(result.values, np.zeros(20))


@pytest.mark.parametrize("solver", SOLVERS)
def test_nystrom_with_many_repeats(solver):
    """Uniform draws that find nothing new between two looks do not divide by zero."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(90, 3))[rng.integers(0, 90, 3000)]
    y, p = rng.normal(size=3000), rng.normal(size=3000)
    result = quiet(
        fm.cce, x, y, p, x_kernel=fm.Laplacian(1.0), y_kernel=Y_KERNEL, solver=solver, tol=1e-8
    )
    assert result.info.landmarks <= 90
    exact = fm.cce(x, y, p, x_kernel=fm.Laplacian(1.0), y_kernel=Y_KERNEL, solver="cholesky")
    gap = np.abs(result.values - exact.values)
    assert (gap <= result.error_bounds + exact.error_bounds).all()


def test_float32_inputs_are_their_own_values(rng):
    """Float32 inputs are exact: the same as their values in float64."""
    x = rng.normal(size=(300, 40)).astype(np.float32)
    y, p = rng.normal(size=300), rng.normal(size=300)
    kernels = {"x_kernel": fm.RBF(0.01), "y_kernel": Y_KERNEL, "lam": 0.1, "solver": "lowrank"}
    ours, wide = fm.cce(x, y, p, **kernels), fm.cce(x.astype(float), y, p, **kernels)
    gap = np.abs(ours.values - wide.values)
    assert (gap <= ours.error_bounds + wide.error_bounds).all()
    args = (x, x, y[:, None], x, p[:, None])
    assert off_mcmd(ours, args, fm.RBF(0.01), Y_KERNEL).max() <= 1


def test_far_from_the_origin_in_many_columns(rng):
    """Distances from norms lose digits; the offset and the rounding bound cover that."""
    x = 1e4 + rng.normal(size=(150, 40))
    y, p = rng.normal(size=(150, 1)), rng.normal(size=(150, 1))
    args = (x, x, y, x, p)
    result = quiet(fm.mcmd, *args, x_kernel=fm.RBF(0.01), y_kernel=Y_KERNEL, solver="lowrank")
    assert off_mcmd(result, args, fm.RBF(0.01), Y_KERNEL).max() <= 1


@pytest.mark.parametrize(
    ("x_name", "certificate"),
    [
        ("rbf", "auto"),
        ("rbf", "rigorous"),
        ("rbf", "sampled"),
        ("polynomial", "auto"),
        ("polynomial", "sampled"),
        ("laplacian", "auto"),
        ("laplacian", "sampled"),
    ],
)
def test_float32_features_are_certified(x_name, certificate):
    """The bound covers the rounding of float32 features, which is large for badly conditioned factors."""
    rng = np.random.default_rng(6)
    args = two_samples(rng, 200, 200, 40, 1)
    result = quiet(
        fm.mcmd, *args, x_kernel=KERNELS[x_name], y_kernel=Y_KERNEL, solver="lowrank", tol=1e-4,
        dtype=np.float32, certificate=certificate,
    )  # fmt: skip
    assert off_mcmd(result, args, KERNELS[x_name], Y_KERNEL).max() <= 1


# --- memory --------------------------------------------------------------------------------------


def test_more_landmarks_do_not_loosen_the_certificate(rng):
    """If only rounding was left, the bound grew with ||L^-1||^2: to 6e-6 with 269 landmarks."""
    x, y = rng.normal(size=(2000, 2)), rng.normal(size=2000)
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": Y_KERNEL, "lam": 0.1}
    exact = fm.cce(x, y, y + 1, solver="cholesky", **options)
    for rank, most in ((150, 1e-6), (250, 2e-9), (350, 2e-9)):
        result = fm.cce(x, y, y + 1, solver="lowrank", rank=rank, certificate="rigorous", **options)
        assert result.error_bound < most
        gap = np.abs(result.values - exact.values)
        assert (gap <= result.error_bounds + exact.error_bounds).all()


def test_measured_error_of_the_factor(rng):
    """The bound covers the error measured in long doubles, and is not far above it."""
    x = rng.normal(size=(120, 2))
    kernel = fm.Polynomial(2, gamma=1.0, coef0=1.0).resolve(x)  # rank 6: exact products of integers
    search = LandmarkSearch(get_backend("auto", kernel), kernel, x, np.ones(120), 60, rng)
    search.grow(60)
    features = search.kernel_features()
    wide, z = features.factor.astype(np.longdouble), features.pivots.astype(np.longdouble)
    error = float(np.linalg.norm(((z @ z.T + 1) ** 2 - wide @ wide.T).astype(float), 2))
    largest = float(kernel.diagonal(features.pivots).max())
    entry = 8 * np.finfo(float).eps * largest
    assert error <= factor_error(features, entry) <= 1e3 * np.finfo(float).eps * largest
    broken = replace(features, factor=features.factor + 1e-9 * np.tril(np.ones((len(z), len(z)))))
    wide = broken.factor.astype(np.longdouble)
    error = float(np.linalg.norm(((z @ z.T + 1) ** 2 - wide @ wide.T).astype(float), 2))
    assert error <= factor_error(broken, entry) <= 10 * error


@pytest.mark.parametrize("certificate", ["rigorous", "sampled"])
def test_blocks_that_do_not_divide_the_rows(rng, certificate):
    x, y, p = rng.normal(size=(1500, 2)), rng.normal(size=1500), rng.normal(size=1500)
    w = rng.uniform(0, 1, 1500) * (rng.random(1500) < 0.7)
    options = {
        "x_kernel": fm.RBF(0.2), "y_kernel": Y_KERNEL, "lam": 0.1, "weights": w, "tol": 1e-6,
        "certificate": certificate, "solver": "lowrank",
    }  # fmt: skip
    small = fm.cce(x, y, p, memory_limit="12MB", **options)
    large = fm.cce(x, y, p, memory_limit="2GB", **options)
    gap = np.abs(small.values - large.values)
    assert (gap <= small.error_bounds + large.error_bounds).all()
    square = oracle.mcmd_squared(
        x[:50], x, y, x, p, fm.RBF(0.2), Y_KERNEL, weights=w, weights_prime=w
    )
    assert (np.abs(small.values[:50] - np.sqrt(square)) <= small.error_bounds[:50] + 1e-9).all()


def test_limit_too_small_says_so(rng):
    x, y, p = rng.normal(size=(3000, 2)), rng.normal(size=3000), rng.normal(size=3000)
    with pytest.raises(fm.MemoryLimitError, match="memory_limit is"):
        fm.cce(x, y, p, solver="lowrank", memory_limit=1000)


def test_output_kernel_without_low_rank_is_not_silently_solved_otherwise(rng):
    """There are more output features than the low-rank form takes: the notes say what ran instead."""
    x = rng.uniform(size=(2200, 1))
    y, p = rng.normal(size=2200), rng.normal(size=2200)
    result = quiet(
        fm.cce, x, y, p, at=x[:5], x_kernel=fm.RBF(1.0), y_kernel=fm.Laplacian(5.0),
        solver="lowrank", tol=1e-2,
    )  # fmt: skip
    assert result.info.solver == "lowrank" or any("lowrank" in note for note in result.info.notes)


# --- the fitted object ---------------------------------------------------------------------------


@pytest.mark.parametrize("certificate", ["rigorous", "sampled"])
def test_fitted_saved_and_loaded(rng, tmp_path, certificate):
    x, y, p = rng.normal(size=(250, 2)), rng.normal(size=250), rng.normal(size=250)
    kernel = fm.RBF(0.3)
    cc = fm.ConditionalCongruence(
        x_kernel=kernel, y_kernel=Y_KERNEL, solver="lowrank", certificate=certificate, lam=0.1
    ).fit(x, y, p)
    grid, y_grid = rng.normal(size=(30, 2)), np.linspace(-3, 3, 11)
    result = quiet(cc.evaluate, grid)
    assert result.info.solver == "lowrank"
    args = (grid, x, y[:, None], x, p[:, None])
    assert off_mcmd(result, args, kernel, Y_KERNEL).max() <= 1
    np.testing.assert_array_equal(quiet(cc.score_samples, grid), result.values)
    args = (x, *args[1:])
    assert off_mcmd(cc.result_, args, kernel, Y_KERNEL).max() <= 1
    a = oracle.coefficients(kernel, x, grid, 0.1)
    columns = y_grid[:, None]
    h = a.T @ (Y_KERNEL(y[:, None], columns) - Y_KERNEL(p[:, None], columns))
    np.testing.assert_allclose(cc.witness(grid, y_grid), h, atol=2e-6)
    cc.save(tmp_path / "cc.npz")
    loaded = fm.load(tmp_path / "cc.npz")
    again = quiet(loaded.evaluate, grid)
    np.testing.assert_array_equal(again.values, result.values)
    np.testing.assert_array_equal(again.error_bounds, result.error_bounds)
    np.testing.assert_array_equal(loaded.witness(grid, y_grid), cc.witness(grid, y_grid))
    assert again.info.certificate == result.info.certificate
    assert again.info.landmarks == result.info.landmarks
    assert loaded.solver == "lowrank"


def test_how_landmarks_were_chosen_is_saved(rng, tmp_path):
    """A loaded object refits as the saved one does."""
    x, y, p = rng.normal(size=(80, 2)), rng.normal(size=80), rng.normal(size=80)
    for options in ({"rank": 12}, {"landmarks": "uniform", "rank": 9}, {"landmarks": x[:7]}):
        cc = fm.ConditionalCongruence(solver="lowrank", tol=1.0, **options)
        quiet(cc.fit, x, y, p)
        cc.save(tmp_path / "cc.npz")
        loaded = fm.load(tmp_path / "cc.npz")
        assert loaded.rank == cc.rank
        np.testing.assert_array_equal(loaded.landmarks, cc.landmarks)


def test_two_samples_saved_and_loaded_agree_with_a_fresh_fit(rng):
    """Evaluation at the sample's own inputs, which costs nothing, equals evaluation at copies."""
    x, y, p = rng.normal(size=(200, 3)), rng.normal(size=200), rng.normal(size=200)
    options = {"x_kernel": fm.RBF(0.3), "y_kernel": Y_KERNEL, "solver": "lowrank"}
    on_own_points, copies = fm.cce(x, y, p, **options), fm.cce(x, y, p, at=x.copy(), **options)
    np.testing.assert_array_equal(on_own_points.values, copies.values)
    np.testing.assert_allclose(on_own_points.error_bounds, copies.error_bounds, rtol=1e-3)


# --- the same again ------------------------------------------------------------------------------


@pytest.mark.parametrize("certificate", ["rigorous", "sampled"])
def test_threads_and_repetition_are_bit_identical(rng, certificate):
    x = rng.normal(size=(3000, 3))
    y, p = rng.normal(size=3000), rng.normal(size=3000)
    runs = []
    before = fm.get_num_threads()
    try:
        for threads in (1, 2, 3, 1):
            fm.set_num_threads(threads)
            runs.append(
                quiet(
                    fm.cce, x, y, p, x_kernel=fm.RBF(0.2), y_kernel=Y_KERNEL, solver="lowrank",
                    rank=150, certificate=certificate, tol=1e-3,
                )
            )  # fmt: skip
    finally:
        fm.set_num_threads(before)
    for run in runs[1:]:
        np.testing.assert_array_equal(run.values, runs[0].values)
        np.testing.assert_array_equal(run.error_bounds, runs[0].error_bounds)
