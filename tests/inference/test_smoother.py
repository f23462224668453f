"""The smoother on landmarks agrees with plain kernel ridge regression."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.smoother import Smoother


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [fm.RBF(0.5), fm.Matern(1.5, 1.0), fm.Polynomial(2, 1.0, 1.0)])
def test_all_rows_as_landmarks_give_the_plain_smoother(rng, kernel, weighted):
    n, lam = 40, 0.05
    x = rng.standard_normal((n, 2))
    e = rng.standard_normal((n, 3))
    w = rng.uniform(0.2, 3, n) if weighted else np.ones(n)
    gram = kernel(x)
    total = w.sum()
    a = np.linalg.solve(gram * w + total * lam * np.eye(n), gram).T * w
    basis = Smoother.of(kernel, x, n).basis(x, w if weighted else None)
    g = basis.coordinates(x)
    projected = g.T @ (w[:, None] * e)
    np.testing.assert_allclose(
        g @ (basis.shrinkage(lam)[:, None] * projected), a @ e, rtol=1e-6, atol=1e-8
    )
    assert basis.effective_dimension(lam) == pytest.approx(np.trace(a), rel=1e-6)
    if not weighted:
        mean_square = ((a @ e) ** 2).sum(axis=1).mean()
        energy = basis.energy(lam) @ (projected**2).sum(axis=1)
        assert energy == pytest.approx(mean_square, rel=1e-6)


@pytest.mark.slow
def test_few_landmarks_are_close_where_the_kernel_is_smooth(rng):
    x = rng.uniform(-2, 2, (3_000, 1))
    e = np.sin(2 * x) + rng.standard_normal((3_000, 1))
    kernel, lam = fm.RBF(0.5), 0.01
    basis = Smoother.of(kernel, x, 30, 0).basis(x)
    assert basis.smoother.rank <= 30
    g = basis.coordinates(x)
    plain = kernel(x) @ np.linalg.solve(kernel(x) + 3_000 * lam * np.eye(3_000), e)
    near = g @ (basis.shrinkage(lam)[:, None] * (g.T @ e))
    np.testing.assert_allclose(near, plain, atol=1e-4)


def test_one_row_and_equal_rows():
    one = Smoother.of(fm.RBF(1.0), np.zeros((1, 2)), 5).basis(np.zeros((1, 2)))
    assert one.spectrum == pytest.approx([1.0])
    same = Smoother.of(fm.RBF(1.0), np.zeros((7, 2)), 5).basis(np.zeros((7, 2)))
    assert same.spectrum == pytest.approx([7.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_effective_rows_against_the_definition(weighted):
    """With as many landmarks as rows, the result is exact."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(60, 2)), [[9.0, 9.0]]])
    weights = rng.uniform(0.2, 2.0, 61) if weighted else None
    w = np.ones(61) if weights is None else weights
    kernel, lam = fm.RBF(0.5), 0.01
    at = np.concatenate([x[::10], rng.normal(size=(5, 2)), [[30.0, 0.0]]])
    basis = Smoother.of(kernel, x, 61).basis(x, weights)
    a = np.linalg.solve(
        np.diag(w) @ kernel(x) + w.sum() * lam * np.eye(61), w[:, None] * kernel(x, at)
    )
    expected = (a * kernel(x, at)).sum(axis=0) ** 2 / np.maximum((a**2).sum(axis=0), 1e-300)
    np.testing.assert_allclose(basis.effective_rows(at, lam), expected, rtol=1e-6, atol=1e-9)
    rows = fm.congruence_test(
        x, x[:, 0] + rng.normal(size=61), fm.Gaussian(x[:, 0], 1.0), x_kernel=kernel, lam=lam, at=at,
        weights=weights, simulations=19, random_state=0,
    ).rows  # fmt: skip
    np.testing.assert_allclose(rows.effective_rows, expected, rtol=0.01, atol=1e-6)
    assert not rows.supported[6]  # the row far from all others
    assert not rows.supported[-1]
    assert "few rows near" in repr(rows)
