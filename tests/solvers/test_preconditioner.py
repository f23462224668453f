"""The preconditioner agrees with dense algebra; when CG adopts it, and when it does not help."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import noisy_sine
from cg_runs import follow

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.backends import get_backend
from fastmcmd.gram import GramOperator
from fastmcmd.gram.cost import expected_products
from fastmcmd.solvers import ProblemSize, costs, preconditioned_cg, switch_policy
from fastmcmd.solvers.base import Goal, System, by_diagonal, scaled_norm
from fastmcmd.solvers.block_cg import BlockCGRun
from fastmcmd.solvers.cg import MOST_PRODUCTS
from fastmcmd.solvers.preconditioned_cg import Attempt
from fastmcmd.solvers.preconditioner import RANKS, Landmarks, Preconditioner
from fastmcmd.solvers.row_features import StoredFeatures, StreamedFeatures

BUDGET = 50_000_000
TOL = 1e-5


def operator_of(rng, n=500, d=2, kernel=None, dtype="f8", backend="cpu"):
    kernel = kernel or fm.RBF(0.5)
    x = rng.normal(size=(n, d)) + (3 if d > 32 else 0)
    return GramOperator(get_backend(backend, kernel), kernel, x, np.dtype(dtype), 10**9)


def scaled(operator, shift):
    """Return K~ in full."""
    return operator.kernel(operator.x) / np.sqrt(shift[:, None] * shift)


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("d", "gamma"), [(2, 0.5), (40, 0.02)])
@pytest.mark.parametrize(("kind", "error"), [(StreamedFeatures, 1e-9), (StoredFeatures, 3e-4)])
def test_woodbury(rng, backend, dtype, d, gamma, kind, error, monkeypatch):
    monkeypatch.setattr("fastmcmd.solvers.row_features._BLOCK_BYTES", 100_000)  # several blocks
    operator = operator_of(rng, 700, d, fm.RBF(gamma), dtype, backend)
    shift = rng.uniform(0.5, 2.0, 700)
    landmarks = Landmarks(operator, shift, BUDGET)
    landmarks.grow(RANKS[0])
    features, mu = landmarks.kernel_features(), 1.0 + landmarks.damping
    matrix = kind(operator, features)
    assert len(list(matrix.images(np.ones((features.rank, 1))))) > 1
    apply = Preconditioner(matrix, shift, mu)
    landmark_features = features.pivots.astype(float)
    cross = operator.kernel(operator.x, landmark_features) / np.sqrt(shift)[:, None]
    low = cross @ np.linalg.solve(operator.kernel(landmark_features), cross.T)
    block = rng.normal(size=(700, 3))
    expected = np.linalg.solve(low + mu * np.eye(700), block)
    np.testing.assert_allclose(apply(block), expected, rtol=0, atol=error * abs(block).max())
    largest = np.linalg.eigvalsh(low + mu * np.eye(700))[-1]
    assert 0.8 * largest <= apply.largest <= 1.001 * largest


def test_stored_features_have_the_same_bits_for_any_threads(rng):
    operator, shift = operator_of(rng, 3000, 3, dtype="f4"), np.full(3000, 30.0)
    landmarks = Landmarks(operator, shift, BUDGET)
    landmarks.grow(RANKS[1])
    block = rng.normal(size=(3000, 7))

    def applied():
        features = StoredFeatures(operator, landmarks.kernel_features())
        return Preconditioner(features, shift, 1.0 + landmarks.damping)(block)

    before = fm.get_num_threads()
    try:
        fm.set_num_threads(1)
        one = applied()
        for threads in (2, 3):
            fm.set_num_threads(threads)
            np.testing.assert_array_equal(applied(), one)
    finally:
        fm.set_num_threads(before)


@pytest.mark.parametrize(
    ("spare", "lam", "gamma", "in_memory"),
    [
        (10**9, 0.1, 0.5, True),
        (4 * 64 * 2000 - 1, 0.1, 0.5, False),  # do not fit
        (10**9, 1e-5, 0.5, False),  # rounding of the inverse
        (10**9, 0.1, 1e-4, False),  # landmarks that are nearly dependent
    ],
)
def test_when_features_are_stored(rng, spare, lam, gamma, in_memory):
    operator = operator_of(rng, 2000, 2, fm.RBF(gamma), "f4")
    shift = np.full(2000, 2000 * lam)
    system = System(np.cos(operator.x[:, :1]), shift)
    landmarks = Landmarks(operator, shift, BUDGET)
    landmarks.grow(64)
    size = ProblemSize(operator, (1,), 1, 1 / lam, TOL, spare)
    preconditioners = switch_policy.preconditioners_of(operator, [system], size, landmarks, BUDGET)
    assert isinstance(preconditioners.apply[0]._features, StoredFeatures) == in_memory
    assert (operator.feature_bytes > 0) == in_memory


def test_bits_within_a_tight_limit_do_not_depend_on_the_threads(rng, small):
    """Tiles of one more thread leave 4 MB less for the search for landmarks."""
    x = rng.normal(size=(8000, 8))
    y, p = noisy_sine(rng, x), noisy_sine(rng, x)
    options = {"x_kernel": fm.RBF(0.1), "y_kernel": fm.RBF(0.5), "lam": 0.01, "solver": "cg"}
    before = fm.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            fm.set_num_threads(threads)
            results.append(fm.cce(x, y, p, memory_limit="70MB", **options))
    finally:
        fm.set_num_threads(before)
    assert any(note.startswith("preconditioned with") for note in results[0].info.notes)
    np.testing.assert_array_equal(results[0].values, results[1].values)


@pytest.mark.parametrize("limit", ["40MB", "100MB"])
def test_stored_features_stay_within_the_memory_limit(rng, limit, small):
    x = rng.normal(size=(8000, 8))
    y, p = noisy_sine(rng, x), noisy_sine(rng, x)
    options = {"x_kernel": fm.RBF(0.1), "y_kernel": fm.RBF(0.5), "lam": 0.01, "solver": "cg"}
    result = fm.cce(x, y, p, memory_limit=limit, **options)
    assert any(note.startswith("preconditioned with") for note in result.info.notes)
    assert result.info.peak_bytes <= {"40MB": 40e6, "100MB": 100e6}[limit]
    unlimited = fm.cce(x, y, p, **options)
    assert (
        abs(result.values - unlimited.values) <= result.error_bounds + unlimited.error_bounds
    ).all()


def test_few_products_are_left(rng):
    """In its own variables the spectrum is near 1 once the landmarks leave little."""
    operator = operator_of(rng)
    shift = np.full(500, 500 * 1e-5)
    landmarks = switch_policy.landmarks_after(operator, [System(shift[:, None], shift)], 3, BUDGET)
    features = StreamedFeatures(operator, landmarks.kernel_features())
    apply = Preconditioner(features, shift, 1.0 + landmarks.damping)
    matrix = scaled(operator, shift) + np.eye(500)
    values = np.linalg.eigvals(apply(matrix)).real
    assert values.max() / values.min() < 2
    assert np.linalg.cond(matrix) > 1e4


@pytest.mark.parametrize("n", [400, 7000])
def test_what_is_left(rng, n, monkeypatch):
    """Some rows show the largest remaining eigenvalue to within a factor of two."""
    operator = operator_of(rng, n, 4)
    shift = np.full(n, n * 1e-3)
    landmarks = Landmarks(operator, shift, BUDGET)
    landmarks.grow(RANKS[0])
    if n > 2000:  # of all rows, from other rows than those seen
        landmark_features = landmarks.kernel_features()
        some = rng.choice(n, 1500, replace=False)
        x, p = operator.x[some], landmark_features.transform(operator.x[some])
        residual, share = operator.kernel(x) - p @ p.T, n / 1500
    else:
        p = landmarks.kernel_features().transform(operator.x)
        residual, share = operator.kernel(operator.x) - p @ p.T, 1.0
    exact = np.linalg.eigvalsh(residual)[-1] * share / shift[0]
    for dtype in (np.dtype("f4"), np.dtype("f8")):
        assert exact / 2 <= landmarks.residual_eigenvalue(dtype) <= 2 * exact


def test_what_is_left_of_isolated_rows(rng):
    """One row far from the others is no share of many rows, whether or not it is in the sample."""
    operator = operator_of(rng, 400, 2)
    operator.x[7] = 1e3
    shift = np.full(400, 40.0)
    landmarks = Landmarks(operator, shift, BUDGET)
    rows = np.flatnonzero((landmarks.rows != 1e3).all(axis=1))
    landmarks.take(rows[:100])
    assert landmarks.residual_eigenvalue() == pytest.approx(1 / 40, rel=0.1)


def test_landmarks_are_the_same_each_time(rng):
    operator, shift = operator_of(rng), np.full(500, 0.5)
    first = Landmarks(operator, shift, BUDGET)
    for rank in RANKS[:3]:
        first.grow(rank)
        first.residual_eigenvalue()
    again = switch_policy.landmarks_after(operator, [System(shift[:, None], shift)], 3, BUDGET)
    assert first.rank == RANKS[2]
    assert first.residual_eigenvalue() == again.residual_eigenvalue()
    np.testing.assert_array_equal(first.kernel_features().pivots, again.kernel_features().pivots)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_left_does_not_depend_on_earlier_looks(rng, dtype):
    """A resumed run decides by the same bits; each look adds what its own landmarks explain."""
    operator, shift = operator_of(rng, 900, 6), np.full(900, 0.05)
    landmarks, same_landmarks = (Landmarks(operator, shift, BUDGET) for _ in range(2))
    for rank in (*RANKS[:4], 200):
        landmarks.grow(rank)
        landmarks.residual_eigenvalue(np.dtype(dtype))
        same_landmarks.grow(rank)
    assert landmarks.rank == 200
    eigenvalue = landmarks.residual_eigenvalue(np.dtype(dtype))
    assert eigenvalue == same_landmarks.residual_eigenvalue(np.dtype(dtype))
    # The same from all landmarks at once, by dense algebra.
    p = landmarks.kernel_features().transform(landmarks._sampled_rows)
    residual = (operator.kernel(landmarks._sampled_rows) - p @ p.T) / shift[0]
    share = 900 / len(residual)
    residual.flat[:: len(residual) + 1] /= share
    assert eigenvalue == pytest.approx(np.linalg.eigvalsh(residual)[-1] * share, rel=0.1)


def test_a_kernel_of_low_rank_has_no_more_landmarks(rng):
    operator = operator_of(rng, kernel=fm.Polynomial(2, gamma=1.0))
    landmarks = Landmarks(operator, np.full(500, 0.5), BUDGET)
    landmarks.grow(RANKS[0])
    assert landmarks.exhausted
    assert landmarks.rank == 6
    assert landmarks.residual_eigenvalue() < 1e-8


def test_nothing_is_left_of_a_kernel_that_is_zero(rng):
    operator = operator_of(rng, kernel=fm.Polynomial(1, gamma=1.0, coef0=0.0))
    operator.x[:] = 0.0
    landmarks = Landmarks(operator, np.full(500, 0.5), BUDGET)
    landmarks.grow(RANKS[0])
    assert landmarks.residual_eigenvalue() == 0.0


@pytest.mark.parametrize("budget", [0, 10**6, 10**8])
def test_budget_is_respected(rng, budget):
    operator = operator_of(rng, 3000)
    landmarks = Landmarks(operator, np.full(3000, 0.5), budget)
    assert landmarks._columns.nbytes <= max(budget, 16 * 64 * 64)


# ------------------------------------------------------------------------------ taken on, or not


def problem(rng, lam, n=1200, d=2, columns=12):
    operator = operator_of(rng, n, d)
    rhs = np.cos(np.outer(operator.x[:, 0], np.arange(1, columns + 1)))
    rhs += 0.3 * rng.normal(size=rhs.shape)
    return operator, [System(rhs, np.full(n, n * lam)), System(rhs[:, :4], np.full(n, 3 * n * lam))]


def solved(operator, systems, **options):
    columns = tuple(system.rhs.shape[1] for system in systems)
    size = ProblemSize(operator, columns, len(by_diagonal(systems)), 1.0, TOL)
    attempt = Attempt(
        operator,
        systems,
        size,
        Goal(TOL, 1.0),
        "rigorous",
        400,
        Progress(False, TOL),
        BUDGET,
        **options,
    )
    follow(attempt)
    return attempt.result, attempt.preconditioners, attempt.notes


@pytest.fixture
def eager(monkeypatch):
    """Let small problems be preconditioned too: costs out of proportion to their size are zero."""
    monkeypatch.setattr(costs, "_LANDMARK", 0.0)
    monkeypatch.setattr(costs, "_APPLIED", 0.0)


def never(monkeypatch):
    monkeypatch.setattr(switch_policy.SwitchPolicy, "decide", lambda self, history: None)


def test_not_at_the_papers_regulariser(rng):
    operator, systems = problem(rng, 0.1)
    solution, lead, notes = solved(operator, systems)
    assert solution.converged
    assert lead is None
    assert notes == []


@pytest.mark.parametrize("lam", [1e-4, 1e-5])
def test_where_plain_cg_needs_many_products(rng, lam, eager, monkeypatch):
    operator, systems = problem(rng, lam)
    solved_systems, lead, notes = solved(operator, systems)
    assert solved_systems.converged
    assert notes == [f"preconditioned with {lead.rank} landmarks"]
    matrix = operator.kernel(operator.x)
    for system, solution in zip(systems, solved_systems.solutions, strict=True):
        residual = system.rhs - system.shift[:, None] * solution.value - matrix @ solution.value
        assert scaled_norm(residual, system.shift) <= 2 * solution.certificate.residual
        exact = np.linalg.solve(matrix + np.diag(system.shift), system.rhs)
        error = np.linalg.norm(matrix @ (solution.value - exact), axis=1).max()
        assert error <= TOL
    with monkeypatch.context() as patch:
        never(patch)
        plain, _, _ = solved(problem(np.random.default_rng(0), lam)[0], systems)
    assert solved_systems.iterations < plain.iterations or not plain.converged


def test_it_serves_again(rng, eager):
    operator, systems = problem(rng, 1e-5)
    _, lead, _ = solved(operator, systems)
    solution, same, notes = solved(operator, systems, preconditioners=lead)
    assert solution.converged
    assert same is lead
    assert solution.iterations < 12
    assert notes == [f"preconditioned with {lead.rank} landmarks"]


def test_back_to_plain_where_it_stalls(rng, monkeypatch):
    operator, systems = problem(rng, 1e-3)
    with monkeypatch.context() as patch:
        never(patch)
        plain, _, _ = solved(operator, systems)
    assert plain.converged

    def useless(self, block):  # positive definite, and badly conditioned
        weight = np.logspace(-8, 0, len(block))[np.random.default_rng(3).permutation(len(block))]
        return weight[:, None] * block

    monkeypatch.setattr(switch_policy.Preconditioner, "__call__", useless)
    monkeypatch.setattr(switch_policy, "_WORTH", 100.0)
    solution, lead, notes = solved(operator, systems)
    assert lead is None
    assert solution.converged
    assert "stalled: continued without a preconditioner" in notes[-1]
    for one, two in zip(solution.solutions, plain.solutions, strict=True):
        np.testing.assert_array_equal(one.value, two.value)


def test_back_to_plain_where_it_is_not_positive_definite(rng, monkeypatch):
    operator, systems = problem(rng, 1e-3)
    monkeypatch.setattr(switch_policy.Preconditioner, "__call__", lambda self, block: -block)
    monkeypatch.setattr(switch_policy, "_WORTH", 100.0)
    solution, lead, notes = solved(operator, systems)
    assert lead is None
    assert solution.converged
    assert "not positive definite" in notes[-1]


def test_the_whole_way(rng, eager):
    x = rng.normal(size=(1500, 2))
    y = noisy_sine(rng, x)
    p = y + 0.2 * rng.normal(size=1500)
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5), "lam": 1e-4}
    result = fm.cce(x, y, p, solver="cg", **options)
    exact = fm.cce(x, y, p, solver="cholesky", **options)
    assert any(note.startswith("preconditioned with") for note in result.info.notes)
    assert (abs(result.values - exact.values) <= result.error_bounds + exact.error_bounds).all()


# ------------------------------------------------------------------------------- from the start


@pytest.fixture
def small(monkeypatch):
    """Try plain CG on a part of small problems, too."""
    monkeypatch.setattr(switch_policy, "_MANY", 2)
    monkeypatch.setattr(switch_policy, "_USUAL", (64, 1.0))


@pytest.mark.parametrize("lam", [1e-2, 1e-3])
def test_from_the_start_where_plain_cg_needs_many_products(rng, lam, eager, small, monkeypatch):
    operator, systems = problem(rng, lam)
    result, lead, notes = solved(operator, systems)
    assert result.converged
    assert notes == [f"preconditioned with {lead.rank} landmarks"]
    matrix = operator.kernel(operator.x)
    for system, solution in zip(systems, result.solutions, strict=True):
        exact = np.linalg.solve(matrix + np.diag(system.shift), system.rhs)
        assert np.linalg.norm(matrix @ (solution.value - exact), axis=1).max() <= TOL
    monkeypatch.setattr(switch_policy.SwitchPolicy, "part_rows", lambda self: 0)
    later, _, _ = solved(*problem(np.random.default_rng(0), lam))
    assert result.iterations < later.iterations


def test_not_from_the_start_where_plain_cg_is_short(rng, eager, small, monkeypatch):
    operator, systems = problem(rng, 10.0)
    monkeypatch.setattr(switch_policy, "_WORTH_FROM_START", 0.8)  # landmarks cost nothing here
    monkeypatch.setattr(switch_policy, "Preconditioner", None)  # not called
    result, lead, _ = solved(operator, systems)
    assert result.converged
    assert lead is None


@pytest.mark.slow
def test_products_are_predicted(rng, eager, small):
    """On some of the rows plain CG needs about as many products as on all."""
    for lam in (1e-1, 1e-2, 1e-3):
        operator, systems = problem(rng, lam, n=4000)
        policy = switch_policy.SwitchPolicy(
            operator, systems, ProblemSize(operator, (12, 4), 2, 1.0, TOL), TOL, 400, BUDGET
        )
        predicted = sum(1 for _ in policy.on_part(512).products())
        count = sum(1 for _ in BlockCGRun(operator, systems, TOL, 400).products())
        assert abs(predicted - count) <= 1 + 0.2 * count


def test_a_part_that_cg_exhausts_does_not_speak_against_landmarks(rng, eager):
    """Block CG of 12 columns needs at most 9 products for 100 rows; all rows need more."""
    operator, systems = problem(rng, 1e-3)
    size = ProblemSize(operator, (12, 4), 2, 1e4, TOL)
    policy = switch_policy.SwitchPolicy(operator, systems, size, TOL, 400, BUDGET)
    usual = math.ceil(expected_products(1e4, TOL))
    exhausted, longer = policy.at_start(9, 100), policy.at_start(usual, 10**6)
    assert exhausted is not None
    assert longer is not None
    assert exhausted.most == longer.most
    fewer = policy.at_start(9, 1000)
    assert fewer is None or fewer.most < exhausted.most


def test_products_beyond_those_on_a_part_follow_from_the_decay():
    class Falling:
        def products(self):
            return iter([10.0 ** (-k / 8) for k in range(100)])

    run = preconditioned_cg._PartRun(Falling(), 1e-10)
    for norm in run.products():
        run.after_product(norm)
        if run.ends:
            break
    assert run.ends
    assert run.expected == pytest.approx(81, rel=0.05)
    short = preconditioned_cg._PartRun(Falling(), 1e-10)
    for norm in (1.0, 0.1, None):
        short.after_product(norm)
    assert not short.ends
    assert short.expected == 3


@pytest.mark.parametrize("norms", [[1.0] * 40, [1.0, math.inf] * 20, [1.0, 0.0] * 20])
def test_a_part_that_does_not_converge_expects_the_most_products(norms):
    run = preconditioned_cg._PartRun(None, 1e-10)
    for norm in norms:
        run.after_product(norm)
    assert run.expected == MOST_PRODUCTS


def test_a_stalled_start_goes_back_to_plain(rng, eager, small, monkeypatch):
    operator, systems = problem(rng, 1e-2)
    monkeypatch.setattr(switch_policy.Preconditioner, "__call__", lambda self, block: -block)
    result, lead, notes = solved(operator, systems)
    assert lead is None
    assert result.converged
    assert "not positive definite" in notes[-1]


def policy_of(rng, budget):
    operator = operator_of(rng, 4000, 8, fm.RBF(0.3))
    systems = [System(np.cos(operator.x[:, :1]), np.full(4000, 400.0))]
    size = ProblemSize(operator, (1,), 1, 10.0, TOL, 10**9)
    return switch_policy.SwitchPolicy(operator, systems, size, TOL, 400, budget), systems


@pytest.mark.parametrize("blocks", [6, 16])
def test_a_search_and_tiles_take_turns_where_both_do_not_fit(rng, monkeypatch, blocks):
    monkeypatch.setattr("fastmcmd.gram.operator.cached_pays", lambda *_, **__: True)
    policy, systems = policy_of(rng, 64 * 256**2)
    operator, v = policy._operator, rng.normal(size=(4000, 2))
    operator.search_bytes = 64 * 256**2
    operator.budget = operator.row_bytes(operator.dtype) + operator._bytes_of(blocks)
    operator.matmul(v)
    later = operator.matmul(v)
    assert policy.cheapest(switch_policy.Allowance(0.0, 5.0)) is None
    assert policy.step > 0
    both_fit = blocks == 16
    assert (operator._packed is not None) == (policy._landmarks is not None) == both_fit
    np.testing.assert_array_equal(operator.matmul(v), later)
    landmarks = policy.cheapest(switch_policy.Allowance(np.inf, 5.0))
    again = switch_policy.landmarks_after(operator, systems, landmarks.step, 64 * 256**2)
    np.testing.assert_array_equal(landmarks.rows[landmarks.pivots], again.rows[again.pivots])


def test_no_more_landmarks_are_expected_than_the_search_holds(rng, monkeypatch):
    """Otherwise the search grows to its limit, and CG begins without any: 1.0 instead of 0.5 s."""
    policy, _ = policy_of(rng, 64 * 256**2)
    ranks, expected = [], policy._expected

    def recording(rank, *arguments, **options):
        ranks.append(rank)
        return expected(rank, *arguments, **options)

    monkeypatch.setattr(policy, "_expected", recording)
    policy.cheapest(switch_policy.Allowance(np.inf, 5.0, from_start=True))
    assert policy._landmarks.most == 256
    assert max(ranks) == 256


def test_fewer_landmarks_where_more_did_not_help(rng, monkeypatch):
    """Each step expects the next to be cheap, and none is: the cheapest so far are within the cost."""
    policy, systems = policy_of(rng, 64 * 256**2)
    monkeypatch.setattr(
        policy, "_expected", lambda rank, *_, **__: {64: 7.0, 96: 5.0}.get(rank, 9.0)
    )
    monkeypatch.setattr(policy, "_ahead", lambda *_, **__: (1.0, 0))
    landmarks = policy.cheapest(switch_policy.Allowance(6.0, 5.0, from_start=True))
    assert (landmarks.rank, landmarks.step) == (96, 2)
    expected = switch_policy.landmarks_after(policy._operator, systems, 2, 64 * 256**2)
    np.testing.assert_array_equal(landmarks.pivots, expected.pivots)
    assert policy.cheapest(switch_policy.Allowance(4.0, 5.0, from_start=True)) is None


def test_decisions_of_a_resumed_run(rng):
    """A resumed run decides as one that has looked at landmarks with features it does not store."""
    operator = operator_of(rng, 4000, 2, fm.RBF(1e-4), "f4")
    shift = np.full(4000, 400.0)
    systems = [System(np.cos(operator.x[:, :1]), shift)]
    size = ProblemSize(operator, (1,), 1, 10.0, TOL, 10**9)
    target = 1e-12

    def policy():
        return switch_policy.SwitchPolicy(operator, systems, size, target, 10**5, BUDGET)

    policy_before, policy_after = policy(), policy()
    policy_before.cheapest(switch_policy.Allowance(0.0, 5.0))
    assert policy_before.step
    policy_after.resume(policy_before.step)
    for fall in 10 ** np.linspace(-2, -0.001, 3000):
        history = list(fall ** np.arange(4))
        decisions = [one.decide(history) for one in (policy_before, policy_after)]
        assert (decisions[0] is None) == (decisions[1] is None)


def test_features_count_in_the_memory_of_the_second_attempt(rng, monkeypatch, small):
    """A preconditioner that float64 takes over from float32 keeps its features."""
    monkeypatch.setattr("fastmcmd.solvers.cg._REFINEMENTS", 0)
    operators = []
    original = GramOperator.__init__

    def remember(self, *args):
        original(self, *args)
        operators.append(self)

    monkeypatch.setattr(GramOperator, "__init__", remember)
    x = rng.normal(size=(8000, 8))
    y, p = noisy_sine(rng, x), noisy_sine(rng, x)
    kernels = {"x_kernel": fm.RBF(0.1), "y_kernel": fm.RBF(0.5)}
    result = fm.cce(x, y, p, lam=1e-3, tol=1e-8, solver="cg", **kernels)
    assert any("continued in float64" in note for note in result.info.notes)
    assert any(note.startswith("preconditioned with") for note in result.info.notes)
    first = next(one for one in operators if one.feature_bytes and one.dtype == np.dtype("f4"))
    last = next(one for one in operators if one.passes and one.dtype == np.dtype("f8"))
    assert last.feature_bytes == first.feature_bytes
    last.entry_cost = 1e3  # tiles pay
    last.budget = last.row_bytes(last.dtype) + last.packed_bytes + last.feature_bytes
    assert last.tile_bytes == last.packed_bytes
    last.budget, last.search_bytes = last.budget - 1, 0
    assert last.tile_bytes < last.packed_bytes
