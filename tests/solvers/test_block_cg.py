"""Block CG agrees with dense solves, with and without a preconditioner."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from builders import noisy_sine
from cg_runs import block_cg, solve_cg
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.backends import get_backend
from fastmcmd.backends.tall_skinny import HostBlocks
from fastmcmd.gram import GramOperator
from fastmcmd.solvers.base import Goal, System, scaled_norm
from fastmcmd.solvers.block_cg import _spectral as spectral_norm

TARGET = 1e-6


class Dense:
    """Operator with K in memory that counts its products."""

    def __init__(self, k):
        self.k, self.passes = k, 0

    def blocks(self, columns):
        return HostBlocks()

    def matmul(self, v):
        self.passes += 1
        return self.k @ v


def rbf(x, z, gamma):
    return np.exp(-gamma * ((x[:, None] - z[None]) ** 2).sum(-1))


def features(rng, x, columns):
    """Return differences of output features of two samples at the inputs, as CCE solves for."""
    y = noisy_sine(rng, x)
    z = np.linspace(-2, 2, columns)
    other = y + 0.2 * rng.normal(size=len(x))
    p = np.exp(-0.5 * (y[:, None] - z) ** 2) - np.exp(-0.5 * (other[:, None] - z) ** 2)
    u, s, _ = np.linalg.svd(np.exp(-0.5 * (z[:, None] - z) ** 2))
    return p @ u / np.sqrt(np.maximum(s, 1e-14 * s[0]))


def problem(rng, n=300, d=2, columns=12, gamma=0.5, lam=1e-2, weighted=False):
    x = rng.normal(size=(n, d))
    w = rng.uniform(0.2, 3, n) if weighted else np.ones(n)
    system = System(features(rng, x, columns), w.sum() * lam / w)
    return x, rbf(x, x, gamma), system


def nystrom(x, shift, gamma, landmarks, rng):
    """Return a Nystroem approximation of (D^(-1/2) K D^(-1/2) + I)^-1.

    What the landmarks leave is replaced by its median on the diagonal; without that, directions that
    were not captured would be left with eigenvalues far above those that were.
    """
    landmark_rows = x[rng.choice(len(x), landmarks, replace=False)]
    values, vectors = np.linalg.eigh(rbf(landmark_rows, landmark_rows, gamma))
    ok = values > 1e-12 * values[-1]
    f = (
        rbf(x, landmark_rows, gamma)
        @ (vectors[:, ok] / np.sqrt(values[ok]))
        / np.sqrt(shift)[:, None]
    )
    mu = 1 + max(0.0, float(np.median(1 / shift - (f**2).sum(1))))
    factor = scipy.linalg.cho_factor(mu * np.eye(f.shape[1]) + f.T @ f)
    return lambda block: (block - f @ scipy.linalg.cho_solve(factor, f.T @ block)) / mu


def true_norm(k, system, value):
    return scaled_norm(system.rhs - system.shift[:, None] * value - k @ value, system.shift)


def check(k, system, result, target=TARGET):
    """The recurred residual is the true one, and the error stays within its bound."""
    assert result.converged
    assert true_norm(k, system, result.value) <= 1.01 * target + 1e-9
    exact = np.linalg.solve(k + np.diag(system.shift), system.rhs)
    error = np.linalg.norm(np.sqrt(system.shift)[:, None] * (result.value - exact), 2)
    assert error <= 1.01 * target + 1e-8


def plain(k, system, target, max_iterations):
    """Run the iteration as published, in plain NumPy: (value, residual, iterations)."""

    def orthonormal(block, least):
        values, vectors = np.linalg.eigh(block.T @ block)
        keep = values > max(least * least, 1e-14 * values[-1], 1e-300)
        return block @ (vectors[:, keep] / np.sqrt(values[keep]))

    def spectral(block):
        return float(np.sqrt(max(0.0, np.linalg.eigvalsh(block.T @ block)[-1])))

    scale = 1.0 / np.sqrt(system.shift)[:, None]
    residual = scale * system.rhs
    solution = np.zeros_like(residual)
    iterations, best, since_best, norm, first = 0, np.inf, 0, spectral(residual), None
    start = np.hstack([residual, scale * (norm / np.linalg.norm(scale))])
    directions = orthonormal(start, 0.1 * target)
    while norm > target and iterations < max_iterations:
        if directions.shape[1] == 0:
            directions = orthonormal(residual, 0.0)
        image = scale * (k @ (scale * directions)) + directions
        iterations += 1
        energy = directions.T @ image
        values, vectors = np.linalg.eigh((energy + energy.T) / 2)
        good = values > 1e-13 * values[-1]
        half = vectors[:, good] / np.sqrt(values[good])
        directions, image = directions @ half, image @ half
        step = directions.T @ residual
        solution += directions @ step
        residual -= image @ step
        norm = spectral(residual)
        best, since_best = (norm, 0) if norm < best / 2 else (best, since_best + 1)
        if since_best > 25:
            break
        conjugate = residual - directions @ (image.T @ residual)
        if first is None:
            first = directions, image
        else:
            conjugate -= first[0] @ (first[1].T @ residual)
        directions = orthonormal(conjugate, 0.1 * target)
    return scale * solution, residual / scale, iterations


@pytest.mark.parametrize("lam", [1e-1, 1e-3])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("columns", "weighted"), [(12, False), (12, True), (1, True)])
def test_without_preconditioner_it_is_the_published_iteration(rng, lam, order, columns, weighted):
    _, k, system = problem(rng, lam=lam, columns=columns, weighted=weighted)
    system = System(np.asarray(system.rhs, order=order), system.shift)
    solution = block_cg(Dense(k), [system], TARGET, 60)[0]
    value, residual, iterations = plain(k, system, TARGET, 60)
    assert abs(solution.iterations - iterations) <= 1
    difference = np.sqrt(system.shift)[:, None] * (solution.value - value)
    assert np.linalg.norm(difference, 2) <= 2.02 * TARGET
    if lam == 1e-1:  # few iterations, so that rounding has not grown
        assert solution.iterations == iterations
        assert np.abs(solution.value - value).max() <= 1e-11 * np.abs(value).max()
        assert np.abs(solution.residual - residual).max() <= 1e-11 * np.abs(system.rhs).max()


class Single(Dense):
    """The same holds in float32."""

    def matmul(self, v):
        self.passes += 1
        return (self.k.astype(np.float32) @ v.astype(np.float32)).astype(np.float64)


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("lam", [1e-2, 1e-4])
def test_a_run_ends_where_its_products_say_no_more(rng, lam, preconditioned):
    """The rest is about the size of rounding, and many more iterations would not reduce it."""
    x, k, system = problem(rng, lam=lam, gamma=0.1)
    preconditioners = [nystrom(x, system.shift, 0.1, 60, rng)] if preconditioned else None
    largest = np.linalg.eigvalsh(k / np.sqrt(np.outer(system.shift, system.shift)))[-1] + 1
    options = {"precondition": preconditioners, "unit": 2.0**-24}
    short = block_cg(
        Single(k), [system], 1e-12, 400, largest=largest if preconditioned else 0.0, **options
    )[0]
    assert short.short
    assert short.converged
    assert short.largest == pytest.approx(largest, rel=0.05)
    error = true_norm(k, system, short.value)
    scaled = np.sqrt(system.shift)[:, None]
    exact = np.linalg.solve(k + np.diag(system.shift), system.rhs)
    assert error <= 20 * 2.0**-24 * largest * np.linalg.norm(scaled * exact, 2)
    long = block_cg(Single(k), [system], 1e-12, 60, precondition=preconditioners)[0]
    assert not long.short or not long.converged
    assert short.iterations < long.iterations
    assert error < 10 * true_norm(k, system, long.value)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lam", [1e-1, 1e-3])
@pytest.mark.parametrize("landmarks", [0, 5, 100])
def test_against_a_dense_solve(rng, landmarks, lam, weighted):
    x, k, system = problem(rng, lam=lam, weighted=weighted)
    preconditioners = [nystrom(x, system.shift, 0.5, landmarks, rng)] if landmarks else None
    check(k, system, block_cg(Dense(k), [system], TARGET, 200, precondition=preconditioners)[0])


@pytest.mark.parametrize(("d", "gamma"), [(2, 0.5), (5, 0.1), (20, 0.05)])
def test_a_preconditioner_saves_products(rng, d, gamma):
    for lam in (1e-1, 1e-3, 1e-5):
        x, k, system = problem(rng, n=400, d=d, gamma=gamma, lam=lam, columns=20)
        plain = block_cg(Dense(k), [system], TARGET, 300)[0]
        operator = Dense(k)
        preconditioners = [nystrom(x, system.shift, gamma, 150, rng)]
        preconditioned = block_cg(operator, [system], TARGET, 300, precondition=preconditioners)[0]
        check(k, system, preconditioned)
        assert operator.passes == preconditioned.iterations <= plain.iterations
        if lam <= 1e-3 and d < 20:  # the landmarks hold nearly all of K
            assert preconditioned.iterations <= plain.iterations / 3


def test_tiny_lam_only_with_a_preconditioner(rng):
    x, k, system = problem(rng, n=400, lam=1e-7)
    assert not block_cg(Dense(k), [system], TARGET, 300)[0].converged
    preconditioners = [nystrom(x, system.shift, 0.5, 130, rng)]
    solution = block_cg(Dense(k), [system], TARGET, 300, precondition=preconditioners)[0]
    check(k, system, solution)
    assert solution.iterations <= 15


def test_the_inverse_itself_needs_two_products(rng):
    _, k, system = problem(rng, lam=1e-4)
    scale = 1 / np.sqrt(system.shift)
    inverse = np.linalg.inv(scale[:, None] * k * scale + np.eye(len(k)))
    solution = block_cg(Dense(k), [system], TARGET, 9, precondition=[lambda b: inverse @ b])[0]
    check(k, system, solution)
    assert solution.iterations <= 2


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_scale_of_a_preconditioner_does_not_matter(rng, factor):
    x, k, system = problem(rng, lam=1e-3)
    lead = nystrom(x, system.shift, 0.5, 60, rng)
    once = block_cg(Dense(k), [system], TARGET, 99, precondition=[lead])[0]
    other = block_cg(Dense(k), [system], TARGET, 99, precondition=[lambda b: factor * lead(b)])[0]
    check(k, system, other)
    assert abs(other.iterations - once.iterations) <= 1


def test_systems_in_step_share_products(rng):
    x, k, system = problem(rng, lam=1e-2)
    other = System(features(rng, x, 5), 0.03 * system.shift)
    zero = System(np.zeros((len(k), 3)), system.shift)
    systems = [system, zero, other]
    preconditioners = [nystrom(x, s.shift, 0.5, 20, rng) for s in systems]
    for precondition in (None, preconditioners):
        operator = Dense(k)
        solution = block_cg(operator, systems, TARGET, 200, precondition=precondition)
        for one, result in zip(systems, solution, strict=True):
            check(k, one, result)
        assert solution[1].iterations == 0
        assert not solution[1].value.any()
        assert operator.passes == max(result.iterations for result in solution)
        alone = block_cg(
            Dense(k), [other], TARGET, 200, precondition=precondition and precondition[2:]
        )
        assert abs(alone[0].iterations - solution[2].iterations) <= 1


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    columns=st.integers(1, 8),
    lam=st.sampled_from([1e-5, 1e-3, 1e-1, 10.0]),
    landmarks=st.integers(1, 60),
    copied=st.booleans(),
    order=st.sampled_from("CF"),
)
def test_random_problems(seed, n, columns, lam, landmarks, copied, order):
    rng = np.random.default_rng(seed)
    x, k, system = problem(rng, n, columns=columns, lam=lam, weighted=True)
    rhs = np.hstack([system.rhs, system.rhs, 0 * system.rhs]) if copied else system.rhs
    system = System(np.asarray(rhs, order=order), system.shift)
    preconditioners = [nystrom(x, system.shift, 0.5, min(n, landmarks), rng)]
    solution = block_cg(Dense(k), [system], TARGET, 3 * n + 20, precondition=preconditioners)[0]
    check(k, system, solution)


def test_a_preconditioner_must_be_positive_definite(rng):
    _, k, system = problem(rng)
    with pytest.raises(ValueError, match="precondition is not positive definite"):
        block_cg(Dense(k), [system], TARGET, 9, precondition=[lambda b: -b])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("certificate", ["rigorous", "sampled"])
def test_certified_solutions(rng, dtype, certificate):
    n, gamma = 700, 0.5
    lam = (
        1e-3 if dtype == np.float64 else 1e-2
    )  # below, the worst case of float32 is above the goal
    x, k, system = problem(rng, n=n, lam=lam, gamma=gamma)
    kernel = fm.RBF(gamma)
    backend = get_backend("auto", kernel)
    goal = Goal(1e-6, 1.0)
    exact = np.linalg.solve(k + np.diag(system.shift), system.rhs)
    precisions = []
    for landmarks in (0, 100):
        operator = GramOperator(backend, kernel, x, np.dtype(dtype), 10**9)
        preconditioners = [nystrom(x, system.shift, gamma, landmarks, rng)] if landmarks else None
        solutions = solve_cg(
            operator, [system], goal, certificate, 200, Progress(False, 1e-6), preconditioners
        )
        assert solutions.converged
        (solution,) = solutions.solutions
        assert goal.miss(solution.certificate) <= 1
        off = np.linalg.norm(k @ (solution.value - exact), axis=1).max()
        assert off <= solution.certificate.error(1.0) + 1e-10
        precisions.append(solutions.iterations)
    assert precisions[1] < precisions[0]


def test_squares_of_residuals_that_leave_float64_are_named():
    """Inputs near 1e96 under a linear kernel ended in an error of linear algebra."""
    with pytest.raises(fm.errors.NumericalError, match="scale the columns of x"):
        spectral_norm(HostBlocks(), np.full((3, 2), 1e200))
