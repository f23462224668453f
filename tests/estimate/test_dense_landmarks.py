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
SOME = slice(None, None, 7)  # points at which the definition is evaluated


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
    error = np.abs(result.values[SOME] - _definition(x, y, d, x[SOME], weights))
    assert (error <= result.error_bounds[SOME] + 1e-13).all()


def test_gaussians_against_the_definition(rng):
    x, y, d = _data(rng)
    std = rng.uniform(0.1, 1, y.shape)
    result = _cce(x, y, fm.Gaussian(d[:, 0], std))
    assert (result.info.form, result.info.solver) == ("dense", "lowrank")
    a = coefficients(X_KERNEL, x, x[SOME], LAM)
    mean, wide = np.concatenate([y, d[:, 0]]), np.concatenate([0 * y, std])
    wider = 1 + 2 * 0.7 * (wide[:, None] ** 2 + wide[None] ** 2)
    k = np.prod(np.exp(-0.7 * (mean[:, None] - mean[None]) ** 2 / wider) / np.sqrt(wider), axis=2)
    c = np.concatenate([a, -a])
    expected = np.sqrt(np.maximum(np.einsum("iq,iq->q", c, k @ c), 0.0))
    assert (np.abs(result.values[SOME] - expected) <= result.error_bounds[SOME] + 1e-13).all()
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


@pytest.mark.parametrize("name", ["auto", "numpy"])
@pytest.mark.parametrize("atoms", [False, True])
def test_difference_gram_against_its_definition(atoms, name, rng, monkeypatch):
    from fastmcmd.backends import get_backend
    from fastmcmd.embedding import difference_gram

    monkeypatch.setattr(difference_gram, "_ENTRIES", 1 << 10)  # many panels and blocks
    n, u, k = 70, 130, 2
    outputs, deviations = rng.normal(size=(u, k)), rng.uniform(size=(u, k)) if atoms else None
    spreads = tuple(
        Spread(rng.integers(0, n, m), rng.integers(0, u, m), rng.normal(size=m)) for m in (n, 3 * n)
    )
    backend = get_backend(name, Y_KERNEL)
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
    norms, errors = gram.norms(z, 1e-14, 0.0)
    assert (np.abs(norms - np.sqrt(np.diag(z.T @ m @ z))) <= errors).all()
    assert errors.max() < 1e-6
    for memory in (0, 1 << 30):
        resident = gram.keeping(memory)
        assert bool(resident.nbytes) == bool(memory)
        for _ in range(2):
            assert (resident.quadratic_forms(z) == gram.quadratic_forms(z)).all()


def test_points_in_blocks_have_the_values_of_one_block(rng, monkeypatch):
    from fastmcmd.estimate.dense import DenseFit

    x, y, d = _vector_draws(rng, n=450, columns=3, rare=3)
    options = {"y_kernel": fm.RBF(30.0), "lam": LAM, "solver": "cholesky"}
    at_once = fm.cce(x, y, fm.Draws(d), **options)
    assert at_once.info.form == "dense"
    monkeypatch.setattr(DenseFit, "_block", lambda self, count, point_bytes: min(count, 100))
    parts = fm.cce(x, y, fm.Draws(d), **options)
    np.testing.assert_allclose(parts.values, at_once.values, rtol=1e-12)
    assert parts.info.peak_bytes > 4 * 450**2


def test_choice_between_features_and_landmarks(rng):
    """Outcomes of high rank at inputs of low rank take landmarks; a constant kernel takes one feature."""
    x, y, d = _data(rng, n=2000)
    result = _cce(x, y, fm.Draws(d))
    assert (result.info.form, result.info.solver) == ("dense", "lowrank")
    one = y[:, 0]
    flat = fm.cce(x, one, fm.Gaussian(one, 0.3), y_kernel=fm.Constant(1.0))
    assert (flat.info.form, flat.info.rank) == ("feature", 1)
    assert flat.error_bound <= 1e-12
    assert not flat.values.any()


def _vector_draws(rng, n=1000, draws=4, columns=2, rare=0):
    """Return inputs, outcomes and draws, of which a few rows at random places are unlike the rest."""
    x, y, _ = _data(rng, n, columns)
    d = y[:, None] + rng.normal(size=(n, draws, columns))
    places = rng.choice(n, rare, replace=False)
    x[places] *= 8
    d[places] = 60 * rng.normal(size=(rare, 1, columns)) + 3 * rng.normal(
        size=(rare, draws, columns)
    )
    return x, y, d


@pytest.mark.parametrize("case", ["plain", "rare rows", "weights", "equal rows", "shared draws"])
def test_vector_draws_on_a_lattice(case, rng, monkeypatch):
    from fastmcmd.embedding import bump_lattice
    from fastmcmd.estimate import outputs as choice
    from fastmcmd.estimate.dense import DenseFit

    # As if kernel values of all pairs took too long.
    monkeypatch.setattr(choice, "_FEW_FEATURES", 100)
    monkeypatch.setattr(choice, "_MOST_PAIRED", 1000)
    monkeypatch.setattr(DenseFit, "_pairs_cost", lambda self, outputs: 1e15)
    calls = []
    products = bump_lattice.BumpLattice.inner_products
    monkeypatch.setattr(
        bump_lattice.BumpLattice,
        "inner_products",
        lambda self, z: calls.append(len(self)) or products(self, z),
    )
    x, y, d = _vector_draws(rng, rare=7 if case == "rare rows" else 0)
    weights = np.exp(rng.normal(size=len(x))) if case == "weights" else None
    if case == "equal rows":
        x[1::20] = x[::20]
    if case == "shared draws":
        d[::3] = y[::3, None]  # embeddings that cancel
    kernel = 0.5 * fm.RBF(0.05) + 0.3 * fm.RBF(3.0) + fm.Constant(0.2)
    result = fm.cce(x, y, fm.Draws(d), x_kernel=X_KERNEL, y_kernel=kernel, lam=LAM, weights=weights)
    assert calls
    assert (result.info.form, result.info.solver) == ("dense", "lowrank")
    assert result.info.certificate == "rigorous"
    assert result.error_bound <= result.tol
    a = coefficients(X_KERNEL, x, x[::5], LAM, weights)
    outputs = np.concatenate([y, d.reshape(-1, 2)])
    c = np.concatenate([a, -np.repeat(a, d.shape[1], axis=0) / d.shape[1]])
    form = np.zeros(c.shape[1])
    for start in range(0, len(outputs), 500):  # pairs of different blocks once
        rows, later = slice(start, start + 500), slice(start + 500, None)
        form += np.einsum("iq,iq->q", c[rows], kernel(outputs[rows], outputs[rows]) @ c[rows])
        form += 2 * np.einsum("iq,iq->q", c[rows], kernel(outputs[rows], outputs[later]) @ c[later])
    error = np.abs(result.values[::5] - np.sqrt(np.maximum(form, 0.0)))
    assert (error <= result.error_bounds[::5] + 1e-13).all()


@pytest.mark.parametrize("columns", [1, 2])
def test_bump_lattice_against_its_definition(columns, rng, monkeypatch):
    from fastmcmd.backends import get_backend
    from fastmcmd.embedding import bump_lattice
    from fastmcmd.embedding.difference_gram import DifferenceGram

    monkeypatch.setattr(bump_lattice, "_ROWS", 16)  # several blocks of a tile
    n, u = 50, 300
    kernel = 0.5 * fm.RBF(0.7) + 0.4 * fm.RBF(9.0) + fm.Constant(0.3)
    outputs = 3 * rng.normal(size=(u, columns)) + 1e3
    outputs[5] = -1e6
    spreads = tuple(
        Spread(rng.integers(0, n, m), rng.integers(0, u, m), rng.normal(size=m)) for m in (n, 4 * n)
    )
    gram = DifferenceGram(kernel, get_backend("auto", kernel), outputs, None, spreads, n)
    lattice = bump_lattice.BumpLattice.of(gram)
    s = np.zeros((u, n))
    for part in spreads:
        np.add.at(s, (part.where, part.source), part.share)
    m, z = s.T @ kernel(outputs, outputs) @ s, rng.normal(size=(n, 5))
    inner, diagonal = lattice.inner_products(z)
    size = (lattice.sizes @ np.abs(z)).max() ** 2
    unit = lattice.entry_error + 2.2e-16 * lattice.roundings + 4 * lattice.feature_error
    assert np.abs(inner - z.T @ m @ z).max() <= unit * size
    np.testing.assert_allclose(diagonal, np.diag(m), atol=1e-8, rtol=1e-8)
    z[:, 0] = 0.0
    norms, errors = lattice.norms(z, 0.0, 0.0)
    assert (np.abs(norms - np.sqrt(np.diag(z.T @ m @ z))) <= errors).all()
    assert norms[0] == errors[0] == 0.0
    assert errors.max() < 1e-6


def test_a_lattice_needs_a_sum_of_rbf_kernels(rng):
    from fastmcmd.embedding.bump_lattice import expected_cost, serves_on_lattice

    assert serves_on_lattice(fm.RBF(1.0) + fm.Constant(1.0), 2)
    assert not serves_on_lattice(fm.RBF(1.0), 3)
    assert not serves_on_lattice(fm.Laplacian(1.0), 2)
    near = rng.normal(size=(20, 5, 2))
    assert expected_cost(fm.RBF(1.0), near, 100, 10) < expected_cost(
        fm.RBF(1.0), 50 * near, 100, 10
    )
    assert expected_cost(fm.RBF(1.0), 1e20 * near, 100, 10) == np.inf


def test_one_outlying_point_needs_no_system_of_its_own(rng):
    x, y, d = _data(rng)
    at = x.copy()
    at[17], at[18], at[19] = 50.0, 4.5, -7.0
    result = _cce(x, y, fm.Draws(d), at=at)
    assert (result.info.solver, result.info.passes) == ("lowrank", 0)
    assert result.error_bound <= result.tol
    error = np.abs(result.values - _definition(x, y, d, at))
    assert (error <= result.error_bounds + 1e-13).all()
    assert result.values[17] < 1e-10
    plain = _cce(x, y, fm.Draws(d), at=np.delete(at, [17, 18, 19], axis=0))
    np.testing.assert_allclose(np.delete(result.values, [17, 18, 19]), plain.values, rtol=1e-12)


def test_only_points_beyond_the_tolerance_take_systems_of_their_own(rng, monkeypatch):
    from fastmcmd.estimate.dense_landmarks import DenseLandmarks

    x, y, d = _data(rng)
    evaluate = DenseLandmarks.evaluate

    def with_loose_bounds(form, grid, underflow, tol):
        values, errors = evaluate(form, grid, underflow, tol)
        values[3:5], errors[3:5] = 1.0, 2.0
        return values, errors

    monkeypatch.setattr(DenseLandmarks, "evaluate", with_loose_bounds)
    result = _cce(x, y, fm.Draws(d))
    assert (result.info.solver, result.info.rank > 0) == ("lowrank", True)
    assert result.info.passes > 0
    error = np.abs(result.values - _definition(x, y, d, x))
    assert (error <= result.error_bounds + 1e-13).all()
    assert result.error_bound <= result.tol


def test_an_estimator_computes_landmarks_once(rng, monkeypatch, tmp_path):
    from fastmcmd.embedding.difference_gram import DifferenceGram

    calls = []
    products = DifferenceGram.inner_products
    monkeypatch.setattr(
        DifferenceGram,
        "inner_products",
        lambda self, z: calls.append(len(self)) or products(self, z),
    )
    x, y, d = _data(rng)
    estimator = fm.ConditionalCongruence(x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM)
    estimator.fit(x, y, fm.Draws(d))
    at_some, at_all = estimator.score_samples(x[:7]), estimator.score_samples(x)
    assert len(calls) == 1
    np.testing.assert_allclose(at_some, at_all[:7], rtol=1e-12)
    assert (np.abs(at_all - _definition(x, y, d, x)) <= 1e-6).all()
    estimator.save(tmp_path / "form.npz")
    loaded = fm.load(tmp_path / "form.npz")
    np.testing.assert_array_equal(loaded.score_samples(x[:7]), at_some)
    np.testing.assert_array_equal(loaded.score_samples(x), at_all)
    assert len(calls) == 2
