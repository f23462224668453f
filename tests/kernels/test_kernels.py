"""Kernels: values equal to scikit-learn's, parameters, combinations, and bounds that must hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.gaussian_process import kernels as sk_gp
from sklearn.metrics import pairwise as sk

import fastmcmd as fm
from fastmcmd.backends.cpu import CpuBackend
from fastmcmd.gram import tile_dtype
from fastmcmd.kernels import kernel_from_dict
from fastmcmd.kernels.base import in_range, relative_error
from fastmcmd.kernels.gamma import resolve_gamma

UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def overlap(a, b):
    return np.minimum(a, b).sum()


KERNELS = [
    fm.RBF(0.7),
    fm.Laplacian(0.3),
    fm.Polynomial(3, 0.5, 1.0),
    fm.Polynomial(1, 2.0, 0.0),
    fm.Matern(0.5, 0.8),
    fm.Matern(1.5, 1.3),
    fm.Matern(2.5, 2.0),
    fm.Linear(),
    fm.Cosine(),
    fm.Delta(),
    fm.Constant(0.4),
    fm.RBF(0.7) + fm.Linear(),
    fm.RBF(0.7) * fm.Polynomial(2, 0.1, 1.0),
    2.0 * fm.Laplacian(0.3) + 0.5,
    (fm.RBF(1.0) + fm.Delta()) * fm.Matern(1.5, 1.0),
]


@pytest.fixture
def rows(rng):
    return rng.normal(size=(17, 4)), rng.normal(size=(9, 4))


# ---------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (fm.RBF(0.7), lambda x, z: sk.rbf_kernel(x, z, 0.7)),
        (fm.Laplacian(0.3), lambda x, z: sk.laplacian_kernel(x, z, 0.3)),
        (fm.Polynomial(3, 0.5, 1.5), lambda x, z: sk.polynomial_kernel(x, z, 3, 0.5, 1.5)),
        (fm.Linear(), sk.linear_kernel),
        (fm.Cosine(), sk.cosine_similarity),
        (fm.Matern(0.5, 0.8), sk_gp.Matern(0.8, nu=0.5)),
        (fm.Matern(1.5, 1.3), sk_gp.Matern(1.3, nu=1.5)),
        (fm.Matern(2.5, 2.0), sk_gp.Matern(2.0, nu=2.5)),
        (fm.Delta(), lambda x, z: (x[:, None] == z[None]).all(-1).astype(float)),
        (
            fm.RBF(0.7) * fm.Linear() + 2 * fm.Cosine() + 0.5,
            lambda x, z: (
                sk.rbf_kernel(x, z, 0.7) * (x @ z.T) + 2 * sk.cosine_similarity(x, z) + 0.5
            ),
        ),
        (
            fm.CustomKernel(overlap),
            lambda x, z: np.minimum(x[:, None], z[None]).sum(-1),
        ),
    ],
    ids=lambda value: repr(value) if isinstance(value, fm.Kernel) else "",
)
def test_values(kernel, reference, rows):
    x, z = rows
    z[0] = x[3]
    np.testing.assert_allclose(kernel(x, z), reference(x, z), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(x), reference(x, x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_matrix_is_psd_and_diagonal_agrees(kernel, rows):
    x = np.vstack([rows[0], rows[0][:2], np.zeros((1, 4))])
    matrix = kernel(x)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-13)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(matrix), rtol=1e-13, atol=1e-15)
    squares = (x**2).sum(axis=1)
    np.testing.assert_allclose(kernel.of_squares(squares), np.diag(matrix), rtol=1e-13, atol=1e-15)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12 * np.trace(matrix)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_precision_follows_the_inputs(kernel, rows):
    x, z = rows
    small = kernel(x.astype(np.float32), z.astype(np.float32))
    assert small.dtype == np.float32
    assert kernel(x.astype(np.float32), z).dtype == np.float64
    np.testing.assert_allclose(small, kernel(x, z), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64, bool, np.float16])
@pytest.mark.parametrize("kernel", [fm.RBF(0.01), fm.Linear(), fm.Delta(), fm.Laplacian(0.1)])
def test_whole_numbers_do_not_wrap_around(kernel, kind):
    x = np.array([[1], [100], [3]]).astype(kind)
    np.testing.assert_array_equal(kernel(x), kernel(x.astype(np.float64)))
    np.testing.assert_array_equal(kernel.diagonal(x), kernel.diagonal(x.astype(np.float64)))


def test_one_column_and_lists():
    y = [0.0, 1.0, 3.0]
    expected = np.exp(-0.5 * np.subtract.outer(y, y) ** 2)
    np.testing.assert_allclose(fm.RBF(0.5)(y), expected)
    np.testing.assert_allclose(fm.RBF(0.5)(np.array(y)[:, None], y), expected)


def test_columns_must_agree():
    with pytest.raises(ValueError, match=r"x has 2 columns and z has 3"):
        fm.RBF(1.0)(np.zeros((4, 2)), np.zeros((4, 3)))


def test_blocks_of_rows_do_not_show(rng, monkeypatch):
    x = rng.normal(size=(50, 3))
    expected = fm.Matern(1.5)(x)
    monkeypatch.setattr("fastmcmd.kernels.base._BLOCK", 120)
    np.testing.assert_array_equal(fm.Matern(1.5)(x), expected)


def test_cosine_of_a_zero_row_is_zero():
    x = np.array([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(fm.Cosine()(x), [[0, 0], [0, 1]], atol=1e-15)


# ------------------------------------------------------------------------------------ parameters


def test_gamma_rules(rng):
    y = rng.normal(scale=3.0, size=200)
    x = rng.normal(size=(200, 3)) * [1.0, 2.0, 3.0] + 50
    assert fm.RBF("variance").resolve(y).gamma == pytest.approx(1 / (2 * np.var(y, ddof=1)))
    total = np.var(x, axis=0, ddof=1).sum()
    assert fm.RBF("variance").resolve(x).gamma == pytest.approx(1 / (2 * total))
    assert fm.Laplacian("variance").resolve(x).gamma == pytest.approx(1 / (2 * total))
    median = np.median(pdist(x))
    assert fm.RBF("median").resolve(x).gamma == pytest.approx(1 / (2 * median**2))
    median = np.median(pdist(x, "cityblock"))
    assert fm.Laplacian("median").resolve(x).gamma == pytest.approx(1 / median)
    assert fm.RBF().resolve(x).gamma == pytest.approx(1 / 3)
    assert fm.Polynomial().resolve(x) == fm.Polynomial(3, 1 / 3, 1.0)


def test_variance_in_blocks(rng, monkeypatch):
    x = rng.normal(size=(101, 3)).astype(np.float32) + 1000
    monkeypatch.setattr("fastmcmd.kernels.gamma._BLOCK", 30)
    total = np.var(x.astype(np.float64), axis=0, ddof=1).sum()
    assert resolve_gamma("variance", x, "euclidean") == pytest.approx(1 / (2 * total), rel=1e-12)


def test_median_of_many_rows_is_the_same_every_time(rng):
    x = rng.normal(size=(5000, 2))
    gamma = fm.RBF("median").resolve(x).gamma
    assert gamma == fm.RBF("median").resolve(x).gamma
    assert gamma == pytest.approx(1 / (2 * np.median(pdist(x[::3])) ** 2), rel=0.1)


@pytest.mark.parametrize("rule", ["variance", "median"])
def test_gamma_out_of_range_is_an_error(rule):
    with (
        np.errstate(divide="ignore", over="ignore"),
        pytest.raises(ValueError, match=rf"gamma='{rule}' (gives inf|needs data that vary)"),
    ):
        fm.RBF(rule).resolve(np.array([0.0, 1e-160, 2e-160]))


@pytest.mark.parametrize("rule", ["variance", "median"])
def test_gamma_of_equal_rows_is_an_error(rule):
    # The mean of three 0.1 is not 0.1: the variance must be 0 all the same.
    with pytest.raises(ValueError, match=rf"gamma='{rule}' needs data that vary"):
        fm.RBF(rule).resolve(np.full((3, 2), 0.1))
    with pytest.raises(ValueError, match="needs at least two rows"):
        fm.RBF(rule).resolve(np.ones((1, 2)))


def test_resolve_reaches_every_part(rng):
    x = rng.normal(size=(20, 2))
    kernel = fm.RBF("median") * fm.Polynomial() + 2 * fm.Laplacian("variance")
    assert not kernel.is_resolved
    with pytest.raises(ValueError, match="resolve"):
        kernel(x)
    resolved = kernel.resolve(x)
    assert resolved.is_resolved
    assert resolved.resolve(100 * x) == resolved
    assert resolved(x).shape == (20, 20)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fm.RBF(0), ValueError, "gamma is 0"),
        (lambda: fm.RBF(-1.0), ValueError, "gamma is -1"),
        (lambda: fm.RBF(math.nan), ValueError, "gamma is nan"),
        (lambda: fm.RBF(True), TypeError, "gamma is True"),
        (lambda: fm.RBF("scale"), ValueError, "gamma is 'scale'"),
        (lambda: fm.Laplacian([1.0]), TypeError, "gamma is"),
        (lambda: fm.Polynomial(degree=0), ValueError, "degree is 0"),
        (lambda: fm.Polynomial(degree=2.5), ValueError, r"degree is 2\.5"),
        (lambda: fm.Polynomial(coef0=-1), ValueError, "coef0 is -1"),
        (lambda: fm.Matern(nu=1), ValueError, r"nu is 1; 0\.5, 1\.5 or 2\.5"),
        (lambda: fm.Matern(nu=[1.5]), TypeError, "nu is"),
        (lambda: fm.Matern(length_scale=0), ValueError, "length_scale is 0"),
        (lambda: fm.Constant(-1), ValueError, "value is -1"),
        (lambda: fm.CustomKernel(3), TypeError, "function is 3"),
        (lambda: fm.CustomKernel(overlap, name=3), TypeError, "name is 3"),
        (lambda: fm.Sum(fm.RBF(1.0), 3), TypeError, "right is 3"),
        (lambda: 0 * fm.RBF(1.0), ValueError, "factor of a kernel is 0"),
        (lambda: fm.RBF(1.0) * -2, ValueError, "factor of a kernel is -2"),
        (lambda: fm.RBF(1.0) + -2, ValueError, "number added to a kernel is -2"),
        (lambda: fm.RBF(1.0) * True, TypeError, "factor of a kernel is True"),
        (lambda: fm.RBF(1.0) + "a", TypeError, "unsupported operand"),
        (lambda: np.ones(2) * fm.RBF(1.0), TypeError, "unsupported operand"),
    ],
)
def test_wrong_parameters_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


# ---------------------------------------------------------------------------------------- values


def test_repr_equality_hash():
    assert repr(fm.RBF(0.5)) == "RBF(gamma=0.5)"
    assert repr(fm.RBF("median") * fm.Linear() + 1) == (
        "RBF(gamma='median') * Linear() + Constant(value=1.0)"
    )
    assert repr((fm.Linear() + 1) * fm.Delta()) == "(Linear() + Constant(value=1.0)) * Delta()"
    assert repr(fm.CustomKernel(overlap)) == "CustomKernel(overlap)"
    assert repr(fm.CustomKernel(overlap, name="mine")) == "CustomKernel(mine)"
    assert fm.RBF(1) == fm.RBF(1.0) != fm.Laplacian(1.0)
    assert fm.RBF(1.0) + fm.Linear() == fm.RBF(1.0) + fm.Linear() != fm.Linear() + fm.RBF(1.0)
    assert len({fm.RBF(1), fm.RBF(1.0), fm.CustomKernel(overlap), fm.CustomKernel(overlap)}) == 2
    assert np.float64(2) * fm.RBF(1.0) == fm.RBF(1.0) * 2
    assert sum([fm.RBF(1.0), fm.Linear()]) == fm.RBF(1.0) + 0 + fm.Linear()


@pytest.mark.parametrize("kernel", [*KERNELS, fm.RBF("median"), fm.Polynomial()], ids=repr)
def test_round_trip_through_json(kernel):
    assert kernel_from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel


def test_what_cannot_be_saved():
    with pytest.raises(TypeError, match="without pickle"):
        (fm.CustomKernel(overlap) + fm.RBF(1.0)).to_dict()
    with pytest.raises(ValueError, match="kernel is 'Exec'"):
        kernel_from_dict({"kernel": "Exec"})


def test_translation_invariance(rows):
    x, z = rows
    for kernel in KERNELS:
        shifted = kernel(x + 3.0, z + 3.0)
        if kernel.translation_invariant:
            np.testing.assert_allclose(shifted, kernel(x, z), atol=1e-12)
        else:
            assert np.abs(shifted - kernel(x, z)).max() > 1e-3, kernel


def test_program():
    codes, parameters = (fm.RBF(0.5) * fm.Polynomial(2, 0.1, 3.0) + 1).program()
    assert codes == ("rbf", "polynomial", "mul", "constant", "add")
    assert parameters == [
        (0.5, 0, 0, 0),
        (0.1, 3.0, 2.0, 0),
        (0, 0, 0, 0),
        (1.0, 0, 0, 0),
        (0, 0, 0, 0),
    ]
    assert fm.Matern(2.5, 3.0).program() == (("matern",), [(3.0, 2.5, 0, 0)])
    custom = fm.RBF(0.5) + fm.CustomKernel(overlap)
    assert not custom.compiled
    assert (fm.RBF(0.5) + fm.Linear()).compiled
    with pytest.raises(TypeError, match="no program"):
        custom.program()


# ---------------------------------------------------------------------------------------- bounds


def exact(kernel, x, z):
    """Evaluate the kernel in extended precision, from its formula alone."""
    x, z = x.astype(np.longdouble), z.astype(np.longdouble)
    difference = x[:, None] - z[None]
    square, dot = (difference**2).sum(-1), (x[:, None] * z[None]).sum(-1)
    one = np.longdouble(1)
    match kernel:
        case fm.Sum(left=a, right=b):
            return exact(a, x, z) + exact(b, x, z)
        case fm.Product(left=a, right=b):
            return exact(a, x, z) * exact(b, x, z)
        case fm.RBF(gamma=g):
            return np.exp(-g * one * square)
        case fm.Laplacian(gamma=g):
            return np.exp(-g * one * np.abs(difference).sum(-1))
        case fm.Polynomial(degree=p, gamma=g, coef0=c):
            return (g * one * dot + c) ** p
        case fm.Matern(nu=nu, length_scale=length):
            r = np.sqrt(2 * nu * one * square) / length
            return {0.5: one, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[nu] * np.exp(-r)
        case fm.Linear():
            return dot
        case fm.Cosine():
            size = np.sqrt((x**2).sum(-1))[:, None] * np.sqrt((z**2).sum(-1))
            return dot / np.where(size > 0, size, 1)
        case fm.Delta():
            return (difference == 0).all(-1) * one
        case fm.Constant(value=value):
            return np.full(dot.shape, value * one)
    raise AssertionError(kernel)


def naive_sum(terms):
    """Sum over the last axis sequentially, rounding every partial sum."""
    return np.cumsum(terms, axis=-1, dtype=terms.dtype)[..., -1]


def computed(kernel, x, z, direct):
    """Evaluate the kernel in the rows' precision: direct or expanded distances, sequential sums."""
    match kernel:
        case fm.Sum(left=a, right=b):
            return computed(a, x, z, direct) + computed(b, x, z, direct)
        case fm.Product(left=a, right=b):
            return computed(a, x, z, direct) * computed(b, x, z, direct)
        case fm.RBF() | fm.Matern() if not direct:
            kind = x.dtype.type
            square = naive_sum(x * x)[:, None] + naive_sum(z * z)
            square = square - kind(2) * naive_sum(x[:, None] * z[None])
            return kernel.value(np.maximum(square, kind(0)))
    return kernel(x, z)


@st.composite
def adversarial_rows(draw):
    """Return rows far from the origin and close to each other, of few or many columns, with outliers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.sampled_from([1, 2, 7, 40, 300]))
    centre = draw(st.sampled_from([0.0, 1.0, -30.0, 1000.0])) * rng.uniform(0.5, 1, size=d)
    spread = draw(st.sampled_from([1e-3, 0.1, 1.0, 20.0])) / np.sqrt(d)
    x = centre + spread * rng.normal(size=(24, d))
    z = np.vstack([x[:6], x[6:12] + 1e-4 * spread * rng.normal(size=(6, d)), -x[12:14]])
    return x, z


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@given(rows=adversarial_rows())
def test_bounds_hold(kernel, rows):
    x, z = rows
    if "Delta" in repr(kernel):  # labels
        x, z = np.rint(x), np.rint(z)
    norm2 = float(max((x**2).sum(1).max(), (z**2).sum(1).max()))
    truth = exact(kernel, x, z)
    assert np.abs(truth).max() <= kernel.max_value(norm2) * (1 + 1e-12)
    for dtype, unit in UNITS.items():
        a, b = x.astype(dtype), z.astype(dtype)
        for direct in (True, False):
            error = np.abs(computed(kernel, a, b, direct) - truth).max()
            bound = kernel.entry_error(unit, x.shape[1], norm2, direct)
            assert error <= bound, (dtype, direct, float(error / bound))


@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.sampled_from([1, 2, 31, 32, 33, 100]),
    offset=st.sampled_from([0.0, 1.0, -30.0, 1e4]),
    spread=st.floats(-5, 2),
    scale=st.floats(-3, 3),
)
def test_bounds_hold_in_the_core(seed, d, offset, spread, scale):
    """The bound covers the compiled code itself, by the way it declares to form distances."""
    rng = np.random.default_rng(seed)
    x = offset * rng.uniform(0.5, 1, size=d) + 10**spread * rng.normal(size=(20, d)) / np.sqrt(d)
    z = np.vstack([x[:6], x[6:12] + 1e-4 * 10**spread, -x[12:14], np.zeros((1, d))])
    norm2 = float(max((x**2).sum(1).max(), (z**2).sum(1).max()))
    backend = CpuBackend(tile=32)
    gamma = 10**scale
    kernels = [fm.RBF(gamma), fm.Laplacian(gamma), fm.Matern(0.5, gamma), fm.Matern(2.5, gamma)]
    fourfold = fm.RBF(gamma) + fm.RBF(4 * gamma)  # the core takes fourth powers
    kernels += [fourfold, (fourfold + fm.RBF(16 * gamma)) * fm.Constant(1 / 3)]
    for kernel in (*KERNELS, *kernels, fm.Polynomial(7, 1 / d, 1.0)):
        if "Delta" in repr(kernel):
            continue
        truth = exact(kernel, x, z)
        for dtype, unit in UNITS.items():
            matrix = backend.gram(kernel, backend.points(x, dtype), backend.points(z, dtype))
            bound = kernel.entry_error(unit, d, norm2, backend.direct_distances(d))
            assert bound == math.inf or np.abs(matrix - truth).max() <= bound, (kernel, dtype)


def test_scale_of_the_kernel_matches_that_of_the_data():
    """At the length of the kernel, the bound has the order of the error."""
    rng = np.random.default_rng(0)
    for d in (1, 8, 64):
        x = rng.normal(size=(60, d)) / np.sqrt(d)
        norm2 = float((x**2).sum(1).max())
        for kernel in (fm.RBF(1.0), fm.Matern(2.5, 1.0), fm.Polynomial(3, 1.0, 1.0)):
            error = np.abs(kernel(x.astype(np.float32)) - exact(kernel, x, x)).max()
            bound = kernel.entry_error(UNITS[np.float32], d, norm2, True)
            assert error <= bound <= 1000 * error


def test_slope_of_matern_relative_to_distance():
    """Return ``max |r dk/dr|``, on which the bounds of Matern kernels rest."""
    r = np.linspace(1e-6, 40, 400_001)
    for factor, most in ((1.0, 0.3679), (1 + r, 0.5414), (1 + r + r * r / 3, 0.6044)):
        slope = np.abs(r * np.gradient(factor * np.exp(-r), r))
        assert slope.max() <= most


def test_bounds_are_infinite_outside_the_format():
    small = UNITS[np.float32]
    for kernel, norm2 in (
        (fm.RBF(1e-40), 1.0),
        (fm.RBF(1e33), 1.0),
        (fm.RBF(1.0), 1e38),
        (fm.Laplacian(1e-40), 1.0),
        (fm.Matern(1.5, 1e-39), 1.0),
        (fm.Polynomial(3, 1.0, 1.0), 1e13),
        (fm.Polynomial(400, 1.0, 1.0), 1e9),
        (fm.Constant(1e39), 1.0),
        (fm.Polynomial(2, 1.0) * fm.Polynomial(2, 1.0), 1e10),
    ):
        for k in (kernel, kernel + fm.RBF(1.0), kernel * fm.RBF(1.0)):
            assert k.entry_error(small, 3, norm2, True) == math.inf, k
    for kernel in (fm.RBF(1e-40), fm.Linear()):
        assert kernel.entry_error(UNITS[np.float64], 3, 1e10, True) < 1


def test_equality_is_decided_on_the_rows_as_given():
    close = np.array([2.0**24, 2.0**24 + 1])
    assert fm.Delta()(close.astype(np.float32)).all()  # why tiles keep the precision of the rows
    assert (fm.Delta()(close) == np.eye(2)).all()
    nugget = 0.2 * fm.RBF(1.0) + fm.Delta()
    assert nugget.compares_rows
    assert fm.CustomKernel(overlap).compares_rows
    assert not (fm.RBF(1.0) * fm.Laplacian(1.0)).compares_rows
    for dtype, expected in ((np.float32, np.float32), (np.float64, np.float64)):
        assert tile_dtype(nugget, np.float32, close.astype(dtype)) == expected
    assert tile_dtype(fm.RBF(1.0), np.float32, close) == np.float32


@given(n=st.floats(1, 1e9), unit=st.sampled_from(list(UNITS.values())))
@example(n=2.0**23, unit=2.0**-24)
def test_relative_error_covers_the_compounded_one(n, unit):
    bound = relative_error(n, unit)
    assert bound == math.inf or math.expm1(n * math.log1p(unit)) <= bound
    assert (n * unit < 0.5) == (bound < math.inf)


def test_range_of_a_format():
    assert in_range(2.0**-24, 0.0, 1.0, 1e38)
    assert not in_range(2.0**-24, 1e-39)
    assert not in_range(2.0**-24, 1e39)
    assert in_range(2.0**-53, 1e-39, 1e39)
    assert not in_range(2.0**-53, math.nan)


def test_assumption_about_a_function():
    kernel = fm.CustomKernel(overlap)
    assert kernel.max_value(1.0) == kernel.entry_error(1e-16, 1, 1.0, True) == math.inf
    assert kernel.rounding(1e-8, 2, 1.0, True, largest=3.0) == 16 * (2 + 8) * 1e-8 * 3.0
    assert fm.RBF(1.0).rounding(1e-8, 2, 1.0, True, 1.0) == (
        fm.RBF(1.0).entry_error(1e-8, 2, 1.0, True)
    )


@pytest.mark.parametrize("kernel", [fm.RBF(0.5), fm.Delta(), fm.Linear(), fm.RBF(0.5) + fm.Delta()])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (["1", "2"], "real numbers"),
        (np.array(["1", "2"], dtype=object), "not numbers"),
        ([1 + 2j, 0], "real numbers"),
        ([2**60, 2**60 + 1], "cannot represent"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), "masked"),
        (np.zeros((2, 2, 1)), "shape"),
        (3.0, "shape"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(kernel, bad, message):
    """Texts were read as numbers, imaginary parts and masks dropped, integers beyond 2^53 rounded."""
    for call in (lambda: kernel(bad), lambda: kernel.diagonal(bad)):
        with pytest.raises((ValueError, TypeError), match=f"x .*{message}"):
            call()
    with pytest.raises((ValueError, TypeError), match=f"z .*{message}"):
        kernel([1.0, 2.0], bad)
