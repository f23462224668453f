"""The drop-in for the published code agrees with the published definitions."""

from __future__ import annotations

import inspect
import sys
import threading
import types
import warnings
from functools import partial

import numpy as np
import oracle
import published
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd.compat import probcal
from fastmcmd.compat.probcal.recognise import CallableKernel, known_kernel

KERNELS = {
    "rbf": (probcal.rbf_kernel, published.rbf, {"gamma": 0.3}),
    "laplacian": (probcal.laplacian_kernel, published.laplacian, {"gamma": 0.2}),
    "true laplacian": (
        partial(probcal.laplacian_kernel, squared=False),
        published.true_laplacian,
        {"gamma": 0.2},
    ),
    "polynomial": (
        probcal.polynomial_kernel,
        published.polynomial,
        {"gamma": 0.1, "coef0": 0.5, "degree": 2},
    ),
}


def problem(rng, n=60, m=80, q=30, d=2):
    x, x_prime, grid = (rng.normal(size=(k, d)) for k in (n, m, q))
    return grid, x, rng.normal(size=n), x_prime, 0.4 + rng.normal(size=m)


def test_signatures_are_the_published_ones():
    def parameters_of(function):
        return [
            (p.name, p.default)
            for p in inspect.signature(function).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD
        ]

    empty = inspect.Parameter.empty
    arrays = [(name, empty) for name in ("grid", "x", "y", "x_prime", "y_prime")]
    mcmd = [*arrays, ("x_kernel", empty), ("y_kernel", empty), ("lmbda", 0.01)]
    assert (
        parameters_of(probcal.compute_mcmd_numpy)
        == parameters_of(probcal.compute_mcmd_torch)
        == mcmd
    )
    assert parameters_of(probcal.compute_regression_ece) == [
        ("y_true", empty),
        ("posterior_predictive", empty),
        ("num_bins", 100),
        ("weights", "uniform"),
        ("alpha", 1.0),
    ]
    rows = [("x", empty), ("x_prime", empty)]
    assert (
        parameters_of(probcal.rbf_kernel)
        == parameters_of(probcal.laplacian_kernel)
        == [*rows, ("gamma", None)]
    )
    assert parameters_of(probcal.polynomial_kernel) == [
        *rows,
        ("gamma", 1.0),
        ("coef0", 1.0),
        ("degree", 3),
    ]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [1, 3, 50])
def test_kernels_of_arrays(name, d, rng):
    ours, plain, parameters = KERNELS[name]
    x, z = rng.normal(size=(20, d)), rng.normal(size=(11, d))
    np.testing.assert_allclose(
        ours(x, z, **parameters), plain(x, z, **parameters), rtol=1e-12, atol=1e-300
    )
    single = ours(x.astype(np.float32), z.astype(np.float32), **parameters)
    assert single.dtype == np.float32
    expected = plain(
        *(a.astype(np.float32).astype(np.float64) for a in (x, z)), **parameters
    ).astype(np.float32)
    np.testing.assert_allclose(single, expected, rtol=2e-7, atol=1e-40)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 4])
def test_kernels_of_tensors(name, kind, d, rng):
    torch = pytest.importorskip("torch")
    ours, plain, parameters = KERNELS[name]
    x, z = rng.normal(size=(40, d)), rng.normal(size=(31, d))
    given_x, given_z = (torch.tensor(a, dtype=getattr(torch, kind)) for a in (x, z))
    actual = ours(given_x, given_z, **parameters)
    assert actual.dtype == given_x.dtype
    assert actual.device == given_x.device
    np.testing.assert_allclose(
        actual.numpy(), plain(x, z, **parameters), atol=1e-12 if kind == "float64" else 1e-5
    )


def test_kernels_of_tensors_keep_the_gradient():
    torch = pytest.importorskip("torch")
    x = torch.tensor([[0.5, -1.0]], dtype=torch.float64, requires_grad=True)
    z = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    (slope,) = torch.autograd.grad(probcal.rbf_kernel(x, z, gamma=0.3).sum(), x)
    value = np.exp(-0.3 * 4.25)
    np.testing.assert_allclose(slope.numpy(), [[-0.6 * -0.5 * value, -0.6 * -2.0 * value]])


@pytest.mark.parametrize("gamma", [None, 0, 0.0])
@pytest.mark.parametrize("tensors", [False, True])
def test_gamma_of_nothing_is_one_over_d(gamma, tensors, rng):
    x, z = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    one, other = x, z
    if tensors:
        torch = pytest.importorskip("torch")
        one, other = torch.tensor(x), torch.tensor(z)
    for name, plain in (("rbf_kernel", published.rbf), ("laplacian_kernel", published.laplacian)):
        actual = getattr(probcal, name)(one, other, gamma=gamma)
        np.testing.assert_allclose(np.asarray(actual), plain(x, z, 0.25), rtol=1e-12)


def test_vectors_are_rows_of_one_column(rng):
    x, z = rng.normal(size=7), rng.normal(size=5)
    expected = published.laplacian(x[:, None], z[:, None], 1.0)
    np.testing.assert_allclose(probcal.laplacian_kernel(x, z), expected, rtol=1e-13)
    np.testing.assert_allclose(expected, published.rbf(x[:, None], z[:, None], 1.0), rtol=1e-13)


def test_bad_rows_of_kernels():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="dimensions"):
        probcal.rbf_kernel(np.ones(3), np.ones((3, 1)))
    with pytest.raises(ValueError, match="columns"):
        probcal.rbf_kernel(torch.ones(3, 2), torch.ones(3, 1))
    with pytest.raises(ValueError, match="shape"):
        probcal.polynomial_kernel(np.ones((2, 3, 1)), np.ones((2, 3, 1)))
    with pytest.raises(TypeError, match="two torch tensors"):
        probcal.rbf_kernel(torch.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="x_prime holds NaN"):
        probcal.rbf_kernel(np.ones(3), np.array([1.0, np.nan]))


@given(
    seed=st.integers(0, 10_000),
    d=st.integers(1, 4),
    x_name=st.sampled_from(["rbf", "true laplacian", "polynomial"]),
    y_name=st.sampled_from(["rbf", "laplacian", "true laplacian"]),
    lmbda=st.sampled_from([0.01, 0.1, 1.0]),
    wrapped=st.booleans(),
)
def test_mcmd_of_random_problems(seed, d, x_name, y_name, lmbda, wrapped):
    """Kernels by ``partial`` are recognised; as unknown functions they give the same values."""
    arrays = problem(np.random.default_rng(seed), d=d)
    kernels, plain = [], []
    for name in (x_name, y_name):
        ours, definition, parameters = KERNELS[name]
        kernels.append(
            (lambda x, z, f=definition, p=parameters: f(x, z, **p))
            if wrapped
            else partial(ours, **parameters)
        )
        plain.append(partial(definition, **parameters))
    values = probcal.compute_mcmd_numpy(*arrays, *kernels, lmbda)
    assert values.dtype == np.float64
    assert values.shape == (30,)
    np.testing.assert_allclose(values, oracle.mcmd(*arrays, *plain, lmbda), atol=1e-6)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_mcmd_of_tensors(kind, rng):
    torch = pytest.importorskip("torch")
    arrays = [a.astype(kind) for a in problem(rng)]
    tensors = [torch.tensor(a) for a in arrays]
    y_kernel = partial(probcal.rbf_kernel, gamma=(1 / (2 * tensors[2].var())))
    values = probcal.compute_mcmd_torch(*tensors, probcal.polynomial_kernel, y_kernel, lmbda=0.1)
    assert values.dtype == getattr(torch, kind)
    assert values.device == tensors[0].device
    gamma = 1 / (2 * arrays[2].var(ddof=1, dtype=np.float64))
    expected = oracle.mcmd(*arrays, published.polynomial, partial(published.rbf, gamma=gamma), 0.1)
    np.testing.assert_allclose(values.numpy(), expected, atol=2e-6)


def test_mcmd_of_a_function_that_takes_one_precision(rng):
    """A function with a float32 matrix inside is not called in float64, which would fail."""
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(a, dtype=torch.float32) for a in problem(rng)]
    metric = torch.tensor([[1.0, 0.2], [0.2, 0.5]])
    dtypes = set()

    def kernel(x, z):
        dtypes.add(x.dtype)
        return (x @ metric @ z.T + 1) ** 2 / 10

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)  # float32 entries certify no 1e-6
        values = probcal.compute_mcmd_torch(*tensors, kernel, probcal.rbf_kernel, 0.1)
    assert torch.float32 in dtypes
    double = metric.double().numpy()
    expected = oracle.mcmd(
        *(t.numpy() for t in tensors),
        lambda x, z: (x @ double @ z.T + 1) ** 2 / 10,
        partial(published.rbf, gamma=1.0),
        0.1,
    )
    assert values.dtype == torch.float32
    np.testing.assert_allclose(values.numpy(), expected, atol=1e-4)


def test_mcmd_needs_no_gradient_and_says_so(rng):
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(a) for a in problem(rng)]
    tensors[4].requires_grad_(True)
    arguments = (*tensors, probcal.rbf_kernel, probcal.rbf_kernel)
    with pytest.warns(UserWarning, match="needs a gradient"):
        values = probcal.compute_mcmd_torch(*arguments)
    assert not values.requires_grad
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        probcal.compute_mcmd_torch(*arguments)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda s: s.rbf_kernel, fm.RBF(0.25)),
        (lambda s: partial(s.rbf_kernel, gamma=np.float32(0.5)), fm.RBF(0.5)),
        (lambda s: partial(partial(s.rbf_kernel, gamma=2), gamma=0.5), fm.RBF(0.5)),
        (lambda s: partial(s.polynomial_kernel, degree=2), fm.Polynomial(2, 1.0, 1.0)),
        (lambda s: s.laplacian_kernel, None),
        (lambda s: partial(s.rbf_kernel, gamma=np.ones(3)), None),
        (lambda s: partial(s.rbf_kernel, np.ones((3, 4))), None),
        (lambda s: lambda x, z: s.rbf_kernel(x, z), None),
    ],
)
def test_what_is_recognised(make, expected):
    """Both our functions and those of the published module are recognised by name."""
    stand_in = types.ModuleType("probcal.evaluation.kernels")
    for name in ("rbf_kernel", "laplacian_kernel", "polynomial_kernel"):

        def function(x, z):
            raise AssertionError("not called")

        function.__module__, function.__name__ = stand_in.__name__, name
        setattr(stand_in, name, function)
    assert known_kernel(make(probcal), 4) == expected
    assert known_kernel(make(stand_in), 4) == expected


def test_published_laplacian_of_one_column_is_the_rbf():
    assert known_kernel(partial(probcal.laplacian_kernel, gamma=0.7), 1) == fm.RBF(0.7)
    right = partial(probcal.laplacian_kernel, gamma=0.7, squared=False)
    assert known_kernel(right, 1) == known_kernel(right, 3) == fm.Laplacian(0.7)


def test_published_laplacian_of_more_columns_is_no_kernel(rng):
    """The kernel has negative eigenvalues; the published number is still returned, with a warning."""
    points = np.stack(np.meshgrid(*[np.linspace(-2, 2, 7)] * 2), axis=-1).reshape(-1, 2)
    assert np.linalg.eigvalsh(probcal.laplacian_kernel(points, points, gamma=0.3)).min() < -1e-3
    arrays = problem(rng)
    kernels = (probcal.laplacian_kernel, probcal.rbf_kernel)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        values = probcal.compute_mcmd_numpy(*arrays, *kernels, 0.1)
    plain = (partial(published.laplacian, gamma=0.5), partial(published.rbf, gamma=1.0))
    np.testing.assert_allclose(values, oracle.mcmd(*arrays, *plain, 0.1), atol=1e-9)
    grid, x, _, x_prime, _ = arrays
    with pytest.raises(ValueError, match=r"y_kernel.*squared=False"):
        probcal.compute_mcmd_numpy(grid, x, x, x_prime, x_prime, *reversed(kernels))


def test_sklearn_kernels_are_recognised_with_their_own_defaults(rng):
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    for function, expected in (
        (pairwise.rbf_kernel, fm.RBF(0.5)),
        (partial(pairwise.rbf_kernel, gamma=0), fm.Constant(1.0)),
        (pairwise.laplacian_kernel, fm.Laplacian(0.5)),
        (pairwise.polynomial_kernel, fm.Polynomial(3, 0.5, 1.0)),
        (pairwise.linear_kernel, fm.Linear()),
        (pairwise.cosine_similarity, fm.Cosine()),
    ):
        kernel = known_kernel(function, 2)
        assert kernel == expected
        x, z = rng.normal(size=(8, 2)), rng.normal(size=(6, 2))
        np.testing.assert_allclose(kernel(x, z), function(x, z), rtol=1e-12)
    assert known_kernel(pairwise.chi2_kernel, 2) is None


def test_mcmd_of_an_object_of_another_library(rng):
    """A kernel of scikit-learn's Gaussian processes is a callable like any other."""
    gaussian = pytest.importorskip("sklearn.gaussian_process.kernels")
    arrays = problem(rng)
    kernel = gaussian.RBF(1.3) + gaussian.Matern(0.7, nu=1.5)
    values = probcal.compute_mcmd_numpy(*arrays, kernel, fm.RBF(0.5), 0.1)
    expected = oracle.mcmd(*arrays, kernel, partial(published.rbf, gamma=0.5), 0.1)
    np.testing.assert_allclose(values, expected, atol=1e-6)


def test_a_function_is_called_by_one_thread_at_a_time(rng):
    inside, most, calls = [0], [0], [0]

    def kernel(x, z):
        inside[0] += 1
        calls[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.001)
        actual = published.rbf(x, z, 0.3)
        inside[0] -= 1
        return actual

    threads = fm.get_num_threads()
    fm.set_num_threads(4)
    try:
        probcal.compute_mcmd_numpy(*problem(rng, n=600, m=600), kernel, kernel, 0.1)
    finally:
        fm.set_num_threads(threads)
    assert calls[0] > 10
    assert most[0] == 1


def test_inputs_stay_as_they_are(rng):
    arrays = problem(rng)
    copies = [a.copy() for a in arrays]
    probcal.compute_mcmd_numpy(*arrays, probcal.polynomial_kernel, probcal.rbf_kernel, 0.1)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_equal_samples_are_at_distance_zero(rng):
    """The published difference of three terms is NaN at some points of equal samples."""
    _, x, y, _, _ = problem(rng)
    values = probcal.compute_mcmd_numpy(x, x, y, x, y, probcal.rbf_kernel, probcal.rbf_kernel)
    np.testing.assert_array_equal(values, 0.0)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"lmbda": 0.0}, "lmbda is 0"),
        ({"x_kernel": "rbf"}, "x_kernel is 'rbf'"),
        ({"x_kernel": lambda x, z: x @ z.T[:, :1]}, "x_kernel returned shape"),
        ({"y_kernel": lambda x, z: np.exp(x - z.T)}, "y_kernel is not symmetric"),
        ({"y_kernel": lambda x, z: np.full((len(x), len(z)), np.nan)}, "y_kernel returned NaN"),
        ({"x_kernel": partial(probcal.rbf_kernel, gamma=-1.0)}, "x_kernel: gamma is -1"),
        ({"y": np.ones(3)}, "rows must match"),
        ({"grid": np.full((4, 2), np.inf)}, "grid holds infinity"),
    ],
)
def test_bad_arguments_are_named(changed, match, rng):
    arguments = dict(zip(("grid", "x", "y", "x_prime", "y_prime"), problem(rng), strict=True))
    arguments |= {"x_kernel": probcal.rbf_kernel, "y_kernel": probcal.rbf_kernel} | changed
    with pytest.raises((TypeError, ValueError), match=match):
        probcal.compute_mcmd_numpy(**arguments)


def test_arrays_are_not_taken_for_tensors(rng):
    pytest.importorskip("torch")
    with pytest.raises(TypeError, match="grid is a ndarray; a torch tensor"):
        probcal.compute_mcmd_torch(*problem(rng), probcal.rbf_kernel, probcal.rbf_kernel)


def test_callable_kernel_is_no_program():
    kernel = CallableKernel(published.rbf, "x_kernel", np.asarray, 1e-16)
    with pytest.raises(TypeError, match="pickle"):
        kernel.to_dict()
    with pytest.raises(TypeError, match="compiled core"):
        list(kernel.instructions())


def test_torch_is_not_imported_for_arrays():
    """A fresh interpreter that receives only arrays does not load torch."""
    import subprocess

    code = (
        "import sys, numpy as np\n"
        "from fastmcmd.compat.probcal import compute_mcmd_numpy, rbf_kernel\n"
        "x = np.linspace(0, 1, 20)\n"
        "compute_mcmd_numpy(x, x, x, x, x + 1, rbf_kernel, rbf_kernel)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- regression ECE ----


@given(
    seed=st.integers(0, 10_000),
    bins=st.integers(1, 40),
    weights=st.sampled_from(["uniform", "frequency"]),
    alpha=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_ece_of_scipy_distributions(seed, bins, weights, alpha):
    rng = np.random.default_rng(seed)
    y, mean = rng.normal(size=80), rng.normal(size=80)
    prediction = stats.norm(mean, 1.5)
    error = probcal.compute_regression_ece(y, prediction, bins, weights, alpha)
    expected = published.regression_ece(prediction.cdf(y), bins, weights, alpha)
    assert error == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("weights", ["uniform", "frequency"])
def test_ece_of_torch_counts_is_the_sum_of_their_masses(weights, rng):
    torch = pytest.importorskip("torch")
    rate = rng.uniform(0.2, 30, 200)
    y = rng.poisson(rate)
    values = np.arange(400.0)[None, :]
    masses = stats.poisson(rate[:, None]).pmf(values)
    error = probcal.compute_regression_ece(
        y, torch.distributions.Poisson(torch.tensor(rate)), weights=weights
    )
    expected = published.regression_ece(published.count_cdf(masses, y), weights=weights)
    assert error == pytest.approx(expected, abs=1e-12)
    total, probs = rng.uniform(0.5, 5, 200), rng.uniform(0.1, 0.8, 200)
    masses = stats.nbinom(total[:, None], 1 - probs[:, None]).pmf(values)
    for shape in ((200,), (200, 1)):
        prediction = torch.distributions.NegativeBinomial(
            torch.tensor(total).reshape(shape), torch.tensor(probs).reshape(shape)
        )
        error = probcal.compute_regression_ece(torch.tensor(y), prediction, weights=weights)
        expected = published.regression_ece(published.count_cdf(masses, y), weights=weights)
        assert error == pytest.approx(expected, abs=1e-12)


def test_ece_of_large_counts():
    """Above 2,000, the published sum contains no mass at all."""
    torch = pytest.importorskip("torch")
    rate = np.full(500, 5000.0)
    y = stats.poisson(rate).rvs(random_state=0)
    error = probcal.compute_regression_ece(y, torch.distributions.Poisson(torch.tensor(rate)))
    expected = published.regression_ece(stats.poisson(rate).cdf(y))
    assert error == pytest.approx(expected, abs=1e-12)
    assert error < 0.05


def test_targets_of_continuous_distributions_stay_real():
    torch = pytest.importorskip("torch")
    y = np.random.default_rng(3).normal(0, 0.3, 2000)
    scale = torch.full((2000,), 0.3, dtype=torch.float64)
    prediction = torch.distributions.Normal(torch.zeros(2000, dtype=torch.float64), scale)
    error = probcal.compute_regression_ece(y, prediction)
    expected = published.regression_ece(stats.norm(0, 0.3).cdf(y))
    assert error == pytest.approx(expected, abs=1e-12)
    truncated = published.regression_ece(stats.norm(0, 0.3).cdf(np.trunc(y)))
    assert error < 0.03
    assert truncated > 0.2


def test_ece_where_torch_has_no_cdf():
    torch = pytest.importorskip("torch")
    y = np.random.default_rng(3).standard_t(4.0, 300)
    df = torch.full((300,), 4.0, dtype=torch.float64)
    error = probcal.compute_regression_ece(y, torch.distributions.StudentT(df))
    assert error == pytest.approx(published.regression_ece(stats.t(4.0).cdf(y)), abs=1e-12)
    unknown = torch.distributions.RelaxedBernoulli(torch.tensor(1.0), torch.tensor([0.5, 0.5]))
    with pytest.raises(TypeError, match="RelaxedBernoulli"):
        probcal.compute_regression_ece([0.2, 0.7], unknown)


def test_ece_of_torch_distributions_of_distributions():
    """The result has the precision of the components, whatever wraps them."""
    torch = pytest.importorskip("torch")
    d = torch.distributions
    y = np.random.default_rng(3).lognormal(size=200)
    one = torch.ones(200, dtype=torch.float64)
    error = probcal.compute_regression_ece(y, d.LogNormal(0 * one, one))
    assert error == pytest.approx(published.regression_ece(stats.lognorm(1.0).cdf(y)), abs=1e-12)
    columns = d.Independent(d.Gamma(torch.stack([one]).T, torch.stack([one]).T), 1)
    error = probcal.compute_regression_ece(y, columns)
    assert error == pytest.approx(published.regression_ece(stats.expon().cdf(y)), abs=1e-12)
    two = torch.stack([one, 2 * one], dim=1)
    mixture = d.MixtureSameFamily(d.Categorical(two / 3), d.Normal(two, two))
    values = stats.norm(1, 1).cdf(y) / 3 + stats.norm(2, 2).cdf(y) * 2 / 3
    error = probcal.compute_regression_ece(y, mixture)
    assert error == pytest.approx(published.regression_ece(values), abs=1e-12)


class Table:
    """Like the published one: a random variable with a table of 0 to max_value - 1, by columns."""

    def __init__(self, masses, use_torch=False):
        self.max_value, self.dimension = masses.shape
        self.use_torch = use_torch
        table = np.cumsum(masses, axis=0)
        if use_torch:
            import torch

            self.device = torch.device("cpu")
            table = torch.tensor(table)
        self.table = table

    def cdf(self, x):
        assert "int" in str(x.dtype)
        assert type(x) is type(self.table)
        if self.use_torch:
            import torch

            return self.table[x, torch.arange(self.dimension)]
        return self.table[x, np.arange(self.dimension)]


@pytest.mark.parametrize("use_torch", [False, True])
def test_ece_of_a_table(use_torch, rng):
    if use_torch:
        pytest.importorskip("torch")
    rate = rng.uniform(1, 10, 100)
    masses = stats.poisson(rate[None, :]).pmf(np.arange(60.0)[:, None])
    y = rng.poisson(rate).astype(float)
    error = probcal.compute_regression_ece(y, Table(masses, use_torch))
    assert error == pytest.approx(
        published.regression_ece(published.count_cdf(masses.T, y)), abs=1e-12
    )
    y[:3] = [-1.0, 75.0, 2.5]
    values = published.count_cdf(masses.T, y)
    values[1] = 1.0
    error = probcal.compute_regression_ece(y, Table(masses, use_torch))
    assert error == pytest.approx(published.regression_ece(values), abs=1e-12)


def test_ece_of_our_own_distributions(rng):
    y, mean = rng.normal(size=50), rng.normal(size=50)
    error = probcal.compute_regression_ece(y, fm.Gaussian(mean, 1.0))
    assert error == pytest.approx(published.regression_ece(stats.norm(mean, 1).cdf(y)), rel=1e-12)


def test_ece_of_frequencies_that_are_all_zero():
    error = probcal.compute_regression_ece([50.0], stats.norm([0.0], 1.0), weights="frequency")
    assert np.isnan(error)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"y_true": [1.0, np.nan]}, "y_true holds NaN"),
        ({"num_bins": 0}, "num_bins is 0"),
        ({"weights": "even"}, "weights is 'even'"),
        ({"alpha": -1.0}, "alpha is -1"),
        ({"posterior_predictive": 3.0}, "posterior_predictive is a float"),
        ({"posterior_predictive": stats.norm(np.zeros(2)[:, None], 1.0)}, "one distribution"),
        ({"posterior_predictive": stats.norm(0.0, -1.0)}, "returns NaN"),
    ],
)
def test_bad_arguments_of_the_ece_are_named(changed, match):
    arguments = {"y_true": [0.0, 1.0], "posterior_predictive": stats.norm([0.0, 0.5], 1.0)}
    with pytest.raises((TypeError, ValueError), match=match):
        probcal.compute_regression_ece(**(arguments | changed))
