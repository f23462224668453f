"""Linear-time quadratic forms of exponential sums agree with the kernel matrix in long double."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.embedding.exponential_sums import ExponentialSum, split_delta

UNIT = 2.0**-53
KERNELS = [
    fm.Laplacian(0.7),
    fm.Laplacian(1e4),
    fm.Laplacian(1e-5),
    fm.Matern(0.5, 0.3),
    fm.Matern(1.5, 2.0),
    fm.Matern(2.5, 0.05),
    fm.Delta(),
    fm.Constant(0.3),
    0.3 * fm.Matern(1.5, 0.4) + fm.Laplacian(2.0) + 0.1,
    fm.Matern(1.5, 0.4) * fm.Matern(2.5, 3.0) * fm.Laplacian(0.2),
    (fm.Laplacian(2.0) + 0.5) * (fm.Delta() + fm.Matern(1.5, 1.0)),
    fm.Delta() * fm.Constant(2.0) + fm.Laplacian(1.0) * 3.0,
]


def _outputs(kind, rng):
    match kind:
        case "spread":
            return rng.normal(size=300)
        case "close":
            return 1e3 + 1e-6 * rng.normal(size=300)
        case "far":
            return rng.standard_cauchy(300) * 10.0 ** rng.integers(-3, 6, 300)
        case "wild":
            return np.concatenate([[-1e150, 1e150, 1e-300, 0.0], rng.normal(size=300)])
    return np.array([0.4])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("kind", ["spread", "close", "far", "wild", "one"])
def test_against_the_matrix(kernel, kind, rng):
    y = np.unique(_outputs(kind, rng))[:, None]
    c = rng.normal(size=(len(y), 3)) * rng.uniform(0, 1, (len(y), 1)) ** 4
    exponential_sum = ExponentialSum.of(kernel, 1)
    order = rng.permutation(len(y))
    largest = float(kernel.diagonal(y).max())
    long = y[:, 0].astype(np.longdouble)
    with np.errstate(all="ignore"):
        matrix = _plain(kernel, long[:, None], long[None, :])
    expected = (c * (matrix @ c.astype(np.longdouble))).sum(axis=0)
    limit = UNIT * exponential_sum.rounding(len(y)) * largest * np.abs(c).sum(axis=0) ** 2
    for rows in (slice(None), order):
        actual = exponential_sum.quadratic_forms(y[rows], c[rows])
        assert (np.abs(actual - expected) <= limit).all()


def _plain(kernel, a, b):
    """Return the kernel of numbers by its formula, in long double."""
    r = np.abs(a - b)
    match kernel:
        case fm.Constant(value=value):
            return np.longdouble(value) + 0 * r
        case fm.Delta():
            return (a == b).astype(np.longdouble)
        case fm.Laplacian(gamma=gamma):
            return np.exp(-np.longdouble(gamma) * r)
        case fm.Matern(nu=nu, length_scale=length):
            s = np.minimum(np.sqrt(np.longdouble(2 * nu)) * r / np.longdouble(length), 11000)
            return {0.5: 1, 1.5: 1 + s, 2.5: 1 + s + s * s / 3}[nu] * np.exp(-s)
    one, other = _plain(kernel.left, a, b), _plain(kernel.right, a, b)
    return one + other if "Sum" in type(kernel).__name__ else one * other


def test_many_outputs_in_one_length(rng):
    """Rounding grows with the blocks, not with the outputs: the kernel is nearly constant here."""
    y = np.sort(rng.uniform(0, 1, 20_000))[:, None]
    c = np.abs(rng.normal(size=(len(y), 2)))
    actual = ExponentialSum.of(fm.Matern(2.5, 1e4), 1).quadratic_forms(y, c)
    np.testing.assert_allclose(actual, c.sum(axis=0) ** 2, rtol=2e-8)
    cosh = ExponentialSum.of(fm.Laplacian(1e-3), 1).quadratic_forms(y, c)
    right = np.exp(-1e-3 * y)
    c64 = c.astype(np.longdouble)
    before = np.cumsum(c64 / right, axis=0) - c64 / right
    expected = (c64 * (2 * right * before + c64)).sum(axis=0).astype(float)
    np.testing.assert_allclose(cosh, expected, rtol=1e-13)


@pytest.mark.parametrize("kernel", [fm.RBF(1.0), fm.Linear(), fm.RBF(0.3) * fm.Laplacian(1.0)])
def test_other_kernels_have_no_such_form(kernel):
    assert ExponentialSum.of(kernel, 1) is None
    assert ExponentialSum.of(kernel + fm.Delta(), 1) is None


def test_vectors_have_constants_and_equality_only(rng):
    y = rng.integers(0, 3, (40, 2)).astype(float)
    y = np.unique(y, axis=0)
    c = rng.normal(size=(len(y), 2))
    kernel = 0.3 * fm.Delta() + 0.2
    actual = ExponentialSum.of(kernel, 2).quadratic_forms(y, c)
    np.testing.assert_allclose(actual, np.einsum("ij,ik,kj->j", c, kernel(y), c), rtol=1e-13)
    assert ExponentialSum.of(fm.Laplacian(1.0), 2) is None


@pytest.mark.parametrize(
    "kernel", [*KERNELS, fm.RBF(2.0), fm.RBF(1.0) * (0.5 + fm.Delta())], ids=repr
)
def test_kernels_without_delta(kernel, rng):
    y, z = rng.normal(size=(2, 30, 1))
    remainder, had = split_delta(kernel)
    assert had == ("Delta" in repr(kernel))
    expected = kernel(y, z)  # no two are equal
    np.testing.assert_allclose(
        np.zeros((30, 30)) if remainder is None else remainder(y, z), expected, rtol=1e-14
    )
