"""The dense form at landmarks of the inputs, against the plain definition in float64."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import coefficients

import fastmcmd as fm
from fastmcmd.embedding.atoms import kernel_of_atoms
from fastmcmd.embedding.difference_gram import DifferenceGram
from fastmcmd.embedding.spread import Spread

X_KERNEL, Y_KERNEL, LAM = fm.RBF(1.0), fm.RBF(0.7), 0.01


def _data(rng, n=1100, columns=3, draws=1, rare=0):
    x = rng.normal(size=(n, 2))
    x[:rare] *= 20
    y = rng.normal(size=(n, columns))
    return x, y, y[:, None] + rng.normal(size=(n, draws, columns))


def _definition(x, y, draws, at, weights=None):
    """Return the CCE (q,) of draws (n, l, k)."""
    a = coefficients(X_KERNEL, x, at, LAM, weights)
    count = draws.shape[1]
    outputs = np.concatenate([y, draws.reshape(-1, y.shape[1])])
    c = np.concatenate([a, -np.repeat(a, count, axis=0) / count])
    return np.sqrt(np.maximum(np.einsum("iq,iq->q", c, Y_KERNEL(outputs, outputs) @ c), 0.0))


def _cce(x, y, prediction, **options):
    return fm.cce(x, y, prediction, x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM, **options)


@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("case", ["plain", "rare rows", "weights", "little memory", "equal rows"])
def test_draws_against_the_definition(draws, case, rng):
    x, y, d = _data(rng, draws=draws, rare=5 if case == "rare rows" else 0)
    weights = None
    if case == "weights":
        weights = np.exp(2 * rng.normal(size=len(x)))
    if case == "equal rows":
        x[1::20] = x[::20]
        d[::2] = y[::2, None]
    limit = "40MB" if case == "little memory" else None
    result = _cce(x, y, fm.Draws(d), weights=weights, memory_limit=limit)
    assert (result.info.form, result.info.solver) == ("dense", "lowrank")
    assert result.info.rank > 0
    assert result.info.certificate == "rigorous"
    assert result.error_bound <= result.tol
    error = np.abs(result.values - _definition(x, y, d, x, weights))
    assert (error <= result.error_bounds + 1e-13).all()


def test_gaussians_against_the_definition(rng):
    x, y, d = _data(rng)
    std = rng.uniform(0.1, 1, y.shape)
    result = _cce(x, y, fm.Gaussian(d[:, 0], std))
    assert (result.info.form, result.info.solver) == ("dense", "lowrank")
    a = coefficients(X_KERNEL, x, x, LAM)
    mean, wide = np.concatenate([y, d[:, 0]]), np.concatenate([0 * y, std])
    wider = 1 + 2 * 0.7 * (wide[:, None] ** 2 + wide[None] ** 2)
    k = np.prod(np.exp(-0.7 * (mean[:, None] - mean[None]) ** 2 / wider) / np.sqrt(wider), axis=2)
    c = np.concatenate([a, -a])
    expected = np.sqrt(np.maximum(np.einsum("iq,iq->q", c, k @ c), 0.0))
    assert (np.abs(result.values - expected) <= result.error_bounds + 1e-13).all()
    assert result.error_bound <= result.tol


def test_same_bits_with_any_number_of_threads(rng):
    x, y, d = _data(rng, draws=2)
    threads = fm.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            fm.set_num_threads(count)
            results.append(_cce(x, y, fm.Draws(d)))
    finally:
        fm.set_num_threads(threads)
    one, other = results
    assert one.info.solver == "lowrank"
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.error_bounds, other.error_bounds)


def test_perfect_draws_have_small_bounds(rng):
    """At a value of zero rounding is worst: those points take their form from M itself, or from solves."""
    x, y, d = _data(rng)
    d[: len(x) // 2] = y[: len(x) // 2, None]
    x[: len(x) // 2, 0] -= 30
    result = _cce(x, y, fm.Draws(d))
    expected = _definition(x, y, d, x)
    assert expected.min() < 1e-8
    assert (np.abs(result.values - expected) <= result.error_bounds + 1e-8).all()
    assert result.error_bound <= result.tol


def test_exact_solves_remain_where_inputs_have_no_low_rank(rng):
    x, y, d = _data(rng)
    result = fm.cce(
        x, y, fm.Draws(d), x_kernel=fm.RBF(200.0), y_kernel=Y_KERNEL, lam=LAM, at=x[:600]
    )
    assert (result.info.form, result.info.solver, result.info.rank) == ("dense", "cholesky", 0)
    system = fm.RBF(200.0)(x, x) + len(x) * LAM * np.eye(len(x))
    a = np.linalg.solve(system, fm.RBF(200.0)(x, x[:600]))
    c, outputs = np.concatenate([a, -a]), np.concatenate([y, d[:, 0]])
    expected = np.sqrt(np.einsum("iq,iq->q", c, Y_KERNEL(outputs, outputs) @ c))
    assert (np.abs(result.values - expected) <= result.error_bounds + 1e-13).all()


@pytest.mark.parametrize("atoms", [False, True])
def test_difference_gram_against_its_definition(atoms, rng, monkeypatch):
    from fastmcmd.backends import get_backend
    from fastmcmd.embedding import difference_gram

    monkeypatch.setattr(difference_gram, "_ENTRIES", 1 << 10)  # many panels and blocks
    n, u, k = 70, 130, 2
    outputs, deviations = rng.normal(size=(u, k)), rng.uniform(size=(u, k)) if atoms else None
    spreads = tuple(
        Spread(rng.integers(0, n, m), rng.integers(0, u, m), rng.normal(size=m)) for m in (n, 3 * n)
    )
    backend = get_backend("auto", Y_KERNEL)
    gram = DifferenceGram(Y_KERNEL, backend, outputs, deviations, spreads, n)
    s = np.zeros((u, n))
    for part in spreads:
        np.add.at(s, (part.where, part.source), part.share)
    full = Y_KERNEL(outputs, outputs)
    if deviations is not None:
        rows = np.concatenate([outputs, deviations], axis=1)
        full = kernel_of_atoms(Y_KERNEL, rows, rows)
    m, z = s.T @ full @ s, rng.normal(size=(n, 5))
    inner, diagonal = gram.inner_products(z)
    np.testing.assert_allclose(inner, z.T @ m @ z, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(diagonal, np.diag(m), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        gram.quadratic_forms(z), np.diag(z.T @ m @ z), rtol=1e-10, atol=1e-10
    )


def test_choice_between_features_and_landmarks(rng):
    """Outcomes of high rank at inputs of low rank take landmarks; a constant kernel takes one feature."""
    x, y, d = _data(rng, n=2000)
    result = _cce(x, y, fm.Draws(d))
    assert (result.info.form, result.info.solver) == ("dense", "lowrank")
    one = y[:, 0]
    flat = fm.cce(x, one, fm.Gaussian(one, 0.3), y_kernel=fm.Constant(1.0), tol=1e-5)
    assert (flat.info.form, flat.info.rank) == ("feature", 1)
