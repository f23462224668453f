"""Predicted densities under output kernels with kinks or jumps take linear time in the nodes."""

from __future__ import annotations

import numpy as np
import pytest
from builders import noisy_sine
from scipy import stats

import fastmcmd as fm
from fastmcmd.embedding.quadrature import _distances
from fastmcmd.estimate import dense
from fastmcmd.kernels.distance import local_reach
from fastmcmd.solvers import PreconditionedCG


def _data(rng, n=60):
    x = rng.normal(size=n)
    y = np.round(noisy_sine(rng, x), 1)  # some outputs are equal
    return x, y


def _weights(x, lam, at):
    """Return the coefficients (n, q) by their definition."""
    kernel = fm.RBF(0.5)
    return np.linalg.solve(kernel(x) + len(x) * lam * np.eye(len(x)), kernel(x, at))


@pytest.mark.parametrize("solver", ["auto", "cholesky", "lowrank"])
@pytest.mark.parametrize("kernel", [fm.Delta(), 0.4 * fm.Delta() * fm.Laplacian(2.0)], ids=repr)
def test_delta_of_densities_needs_no_quadrature(solver, kernel, rng):
    """Nodes counted as atoms: a loose bound, and 360 nodes a row for an embedding that is zero."""
    x, y = _data(rng)
    prediction = fm.StudentT(np.full(len(x), 3.0), np.sin(x), 0.3)
    at = np.linspace(-2, 2, 9)
    result = fm.cce(
        x, y, prediction, at=at, x_kernel=fm.RBF(0.5), y_kernel=kernel, lam=0.01, solver=solver
    )
    a = _weights(x, 0.01, at)
    expected = np.sqrt(np.einsum("iq,ij,jq->q", a, kernel(y), a))
    assert result.info.certificate == "rigorous"
    assert (np.abs(result.values - expected) <= result.error_bounds).all()
    assert result.error_bound <= result.tol


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
@pytest.mark.parametrize("kernel", [fm.Laplacian(1.5), fm.Matern(1.5, 0.4)], ids=repr)
@pytest.mark.parametrize("delta", [0.0, 0.3])
def test_laplace_predictions_against_integrals(kernel, delta, rng):
    """Each row has its own nodes; `Delta` as a further kernel affects the outcomes alone."""
    x, y = _data(rng, 8)
    mean, scale = np.sin(x), rng.uniform(0.1, 1, len(x))
    levels = (np.arange(500) + 0.5) / 500
    nodes = stats.laplace(mean[:, None], scale[:, None]).ppf(levels)
    cross = np.array([kernel(row, y).mean(axis=0) for row in nodes])
    self_terms = np.array([[kernel(a, b).mean() for b in nodes] for a in nodes])
    at = np.linspace(-1.5, 1.5, 5)
    a = _weights(x, 0.05, at)
    square = np.einsum("iq,ij,jq->q", a, kernel(y) + delta * (y[:, None] == y) + self_terms, a)
    square -= 2 * np.einsum("iq,ij,jq->q", a, cross, a)
    y_kernel = kernel + delta * fm.Delta() if delta else kernel
    fitted = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), y_kernel=y_kernel, lam=0.05).fit(
        x, y, fm.Laplace(mean, scale)
    )
    result = fitted.evaluate(at)
    np.testing.assert_allclose(result.values, np.sqrt(square), rtol=5e-3)
    # The witness is the embedding's inner product with the kernel at outputs, drawn ones and others.
    z = np.array([y[0], y[3] + 0.01, 2.0])
    against = kernel(z, y) + delta * (z[:, None] == y)
    other = np.array([[kernel([v], b).mean() for b in nodes] for v in z])
    np.testing.assert_allclose(fitted.witness(at, z), ((against - other) @ a).T, atol=5e-3)


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
def test_saved_estimators_keep_which_outputs_are_atoms(tmp_path, rng):
    x, y = _data(rng, 20)
    kernel = fm.RBF(1.0) + 0.3 * fm.Delta()
    fitted = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), y_kernel=kernel, lam=0.05).fit(
        x, y, fm.Laplace(np.sin(x), np.full(len(x), 0.4))
    )
    fitted.save(tmp_path / "fitted.npz")
    again = fm.load(tmp_path / "fitted.npz")
    at = np.linspace(-1, 1, 4)
    np.testing.assert_array_equal(again.evaluate(at).values, fitted.evaluate(at).values)


@pytest.mark.parametrize(
    "kernel",
    [fm.RBF(3.0), fm.Laplacian(2.0), fm.RBF(1.0) * fm.Laplacian(1.0), fm.Cosine()],
    ids=repr,
)
def test_distances_between_nodes(kernel, rng):
    """The sum covers only pairs within the reach of the kernel, and each distinct row once."""
    one = rng.normal(size=(5, 300, 1)) * 50, rng.dirichlet(np.ones(300), size=5)
    other = rng.normal(size=(5, 200, 1)) * 50, rng.dirichlet(np.ones(200), size=5)
    for part in (*one, *other):
        part[3] = part[1]
    points = np.concatenate([one[0], other[0]], axis=1)
    signed = np.concatenate([one[1], -other[1]], axis=1)
    expected = [np.sqrt(c @ kernel(p) @ c) for p, c in zip(points, signed, strict=True)]
    np.testing.assert_allclose(_distances(kernel, one, other), expected, rtol=1e-10)


def test_reach_of_a_kernel():
    assert 6.4 <= local_reach(fm.RBF(1.0)) <= 8.0
    assert 41 <= local_reach(fm.Laplacian(1.0)) <= 64
    assert local_reach(fm.RBF(1e-20)) >= 6.4e10
    for kernel in (fm.Linear(), fm.RBF(1.0) + 0.1, fm.Cosine(), fm.Polynomial(2, 1.0, 1.0)):
        assert local_reach(kernel) == np.inf


@pytest.mark.parametrize(
    ("prediction", "atomless"),
    [
        (fm.Gaussian([0.0], [1.0]), True),
        (fm.Poisson([2.0]), False),
        (fm.Draws([[0.0, 1.0]]), False),
        (fm.Quantiles([0.1, 0.9], [[0.0, 1.0]]), False),
        (fm.ZeroInflated(fm.Gamma([1.0], scale=[1.0]), 0.2), False),
        (fm.Mixture([fm.Laplace([0.0], 1.0), fm.Uniform([0.0], 1.0)]), True),
        (fm.Mixture([fm.Laplace([0.0], 1.0), fm.Poisson([1.0])]), False),
        (fm.Mixture([fm.ZeroInflated(fm.Gamma([1.0], scale=[1.0]), 0.2)]), False),
        (fm.Truncated(fm.Gaussian([0.0], [1.0]), -1, 1), True),
    ],
    ids=repr,
)
def test_distributions_without_atoms(prediction, atomless):
    assert prediction.atomless is atomless


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
@pytest.mark.parametrize("at", [None, [0.0]])
def test_solvers_are_compared_for_the_accuracy_that_they_must_reach(rng, monkeypatch, at):
    """Factors and CG were compared for the whole tolerance; solves get 0.4 of it."""
    x, y = _data(rng)
    errors, estimate = [], PreconditionedCG.estimate
    monkeypatch.setattr(
        dense, "LEAST_CG", 0.0
    )  # so few rows are factored without an estimate of CG
    monkeypatch.setattr(
        PreconditionedCG, "estimate", lambda *args: errors.append(args[1].error) or estimate(*args)
    )
    p = fm.Laplace(np.sin(x), np.full(len(x), 0.4))
    assert fm.cce(x, y, p, at=at, y_kernel=fm.Laplacian(2.0), tol=1e-2).info.form == "dense"
    assert set(errors) == {4e-3}


def test_the_warning_names_quadrature(rng):
    """The message blamed rounding in float64, whose share was 1e-14."""
    x, y = _data(rng)
    # Nodes serve these predictions, because they have an atom at 0.
    prediction = fm.ZeroInflated(fm.Laplace(np.sin(x), np.full(len(x), 0.4)), 0.1)
    with pytest.warns(
        fm.ToleranceWarning, match="quadrature of the predicted distributions leaves"
    ):
        result = fm.cce(x, y, prediction, y_kernel=fm.Laplacian(2.0))
    assert result.info.cause.kind == "quadrature"
    assert result.info.cause.size >= result.error_bound / 2


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
def test_memory_of_the_dense_form_is_what_it_took(rng):
    """`peak_bytes` was all the memory of the machine: 11 GB for 60 rows."""
    x, y = _data(rng)
    for solver in ("cholesky", "cg"):
        result = fm.cce(
            x, y, fm.Laplace(np.sin(x), np.full(len(x), 0.4)), y_kernel=fm.Laplacian(2.0),
            x_kernel=fm.RBF(1.0), solver=solver,
        )  # fmt: skip
        assert result.info.form == "dense"
        assert 1e4 < result.info.peak_bytes < 1e9


@pytest.mark.parametrize(("columns", "cache"), [(2, "streamed"), (300, "packed")])
def test_dense_form_says_where_tiles_were(rng, columns, cache):
    """CG stores tiles only where reading them takes less time than computing them again."""
    x, y = rng.normal(size=(300, columns)), rng.normal(size=300)
    result = fm.cce(
        x, y, y + 0.1 * rng.normal(size=300), x_kernel=fm.RBF(1 / columns), y_kernel=fm.Laplacian(20.0),
        solver="cg", dtype="float32", lam=0.1, tol=1e-3,
    )  # fmt: skip
    assert (result.info.form, result.info.cache) == ("dense", cache)
