"""Several models in one call share solves; each value and certificate is as for the model alone."""

from __future__ import annotations

import functools
import json
import subprocess
import sys

import numpy as np
import oracle
import pytest
from builders import FORKED, STATUS_FIELD

import fastmcmd as fm
from fastmcmd.estimate import fit as fitting
from fastmcmd.estimate.budget import Budget
from fastmcmd.estimate.candidate_problem import CandidateProblem
from fastmcmd.estimate.lowrank_choice import low_rank_groups
from fastmcmd.estimate.row_stream import RowStream, StackedRowStream
from fastmcmd.solvers.base import System, by_diagonal

KERNEL = fm.RBF(0.5)


@pytest.fixture
def data(rng):
    n = 300
    x = rng.uniform(-2, 2, (n, 2))
    x[40:60] = x[:20]  # equal inputs collapse
    y = rng.poisson(np.exp(0.5 * x[:, 0])).astype(float)
    models = {
        "counts": fm.Poisson(np.exp(0.5 * x[:, 0])),
        "normal": fm.Gaussian(x[:, 0], 1.0 + 0.5 * np.abs(x[:, 1])),
        "one draw": rng.poisson(1.0, n).astype(float),
        "draws": rng.normal(size=(n, 7)) * 5,
        "the outcomes": y.copy(),
    }
    return x, y, models


def _agree(estimators, alone):
    """Values agree within the sum of both bounds, at every input."""
    a, b = estimators.result_, alone.result_
    assert (np.abs(a.values - b.values) <= a.error_bounds + b.error_bounds).all()


@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky", "lowrank"])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_is_as_it_would_be_alone(data, rng, solver, weighted):
    x, y, models = data
    weights = rng.integers(0, 4, len(x)).astype(float) if weighted else None
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL, lam=0.02, solver=solver, tol=1e-5)
    estimators = estimator.fit_each(x, y, models, weights)
    assert list(estimators) == list(models)
    new = rng.uniform(-2, 2, (9, 2))
    for name, prediction in models.items():
        alone = fm.ConditionalCongruence(**estimator.get_params()).fit(x, y, prediction, weights)
        one = estimators[name]
        _agree(one, alone)
        a, b = one.evaluate(new), alone.evaluate(new)
        assert (np.abs(a.values - b.values) <= a.error_bounds + b.error_bounds).all()
        assert one.result_.error_bound <= estimator.tol
        assert one.result_.info.form == alone.result_.info.form
        assert one.n_features_in_ == 2
        np.testing.assert_allclose(
            one.witness(new, [0.0, 2.0]), alone.witness(new, [0.0, 2.0]), atol=1e-4
        )
    zero = estimators["the outcomes"].result_
    assert zero.values.max() <= zero.error_bound


@pytest.mark.parametrize("solver", ["cg", "cholesky", "lowrank"])
def test_bounds_hold_against_the_definition(data, solver):
    """Each model has its own bound, even if features and sizes differ."""
    x, y, models = data
    models = {name: models[name] for name in ("one draw", "the outcomes")}
    models["far"] = 40.0 + 9 * models["one draw"]
    estimators = fm.ConditionalCongruence(
        x_kernel=KERNEL, y_kernel=fm.RBF(0.3), lam=0.01, solver=solver, tol=1e-4
    ).fit_each(x, y, models)
    for name, draws in models.items():
        arguments = (x, x, y, x, draws, KERNEL, fm.RBF(0.3))
        exact = np.maximum(oracle.mcmd_squared(*arguments, lam=0.01), 0.0)
        result = estimators[name].result_
        off = oracle.cancellation(x, x, x, KERNEL, fm.RBF(0.3), y, lam=0.01)
        low = np.sqrt(np.maximum(exact - off, 0.0)) - result.error_bounds
        high = np.sqrt(exact + off) + result.error_bounds
        assert (low <= result.values).all(), name
        assert (result.values <= high).all(), name


def test_vectors_and_random_draws(rng):
    x = rng.normal(size=(70, 3))
    y = x[:, :2] + 0.3 * rng.normal(size=(70, 2))
    models = {
        "normal": fm.Gaussian(x[:, :2], 0.5 + 0.0 * x[:, :2]),
        "draws": rng.normal(size=(70, 4, 2)),
    }
    for draws in (None, 2):
        estimator = fm.ConditionalCongruence(
            x_kernel=KERNEL, y_kernel=fm.RBF(0.1), draws=draws, random_state=3, tol=1e-4
        )
        estimators = estimator.fit_each(x, y, models)
        for name, prediction in models.items():
            _agree(
                estimators[name],
                fm.ConditionalCongruence(**estimator.get_params()).fit(x, y, prediction),
            )
            assert estimators[name].output_columns_ == 2


def test_one_solve_and_one_factor_serve_all(data, monkeypatch):
    x, y, models = data
    solves, factors = [], []
    solver_of = fitting.solver_of

    class Counting:
        def __init__(self, options):
            self.solver = solver_of(options)

        def solve(self, problem, *args):
            solves.append(len(problem.systems))
            return self.solver.solve(problem, *args)

    monkeypatch.setattr(fitting, "solver_of", Counting)
    from fastmcmd.backends.numpy import NumpyBackend

    factor = NumpyBackend.packed_cholesky
    monkeypatch.setattr(
        NumpyBackend,
        "packed_cholesky",
        lambda self, packed: factors.append(1) or factor(self, packed),
    )
    for solver in ("cg", "cholesky"):
        estimator = fm.ConditionalCongruence(x_kernel=KERNEL, solver=solver, backend="numpy")
        estimators = estimator.fit_each(x, y, models)
        assert {one.result_.info.solver for one in estimators.values()} == {solver}
    assert solves == [5, 5]
    assert factors == [1]


def test_one_pass_serves_all(data, monkeypatch):
    x, y, models = data
    passes = []
    begin = StackedRowStream.begin
    monkeypatch.setattr(
        StackedRowStream, "begin", lambda self: passes.append(self.columns) or begin(self)
    )
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL, solver="lowrank", rank=60, tol=1e-3)
    estimators = estimator.fit_each(x, y, models)
    ranks = [one.result_.info.rank for one in estimators.values()]
    assert passes == [sum(ranks)]
    assert {one.result_.info.landmarks for one in estimators.values()} == {60}


@pytest.mark.slow
def test_a_model_out_of_reach_does_not_hold_back_others(rng, monkeypatch):
    """The others take the low-rank form; that one uses products, with the same value as alone."""
    n = 9_000
    x = rng.uniform(-2, 2, (n, 1))
    y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=n)
    models = {"a": fm.Gaussian(np.sin(x[:, 0]), 0.2), "b": fm.Gaussian(np.zeros(n), 1.0)}
    estimator = fm.ConditionalCongruence(x_kernel=fm.RBF(1.0))
    assert {one.result_.info.solver for one in estimator.fit_each(x, y, models).values()} == {
        "lowrank"
    }
    errors = CandidateProblem.errors

    def hard(self, kind):
        errors_of = errors(self, kind)
        if len(errors_of) == 2:
            errors_of[1] = 1e9
        return errors_of

    monkeypatch.setattr(CandidateProblem, "errors", hard)
    estimators = estimator.fit_each(x, y, models)
    assert [one.result_.info.solver for one in estimators.values()] == ["lowrank", "cg"]
    for name, prediction in models.items():
        _agree(
            estimators[name], fm.ConditionalCongruence(x_kernel=fm.RBF(1.0)).fit(x, y, prediction)
        )


@pytest.mark.slow
def test_memory_for_one_at_a_time(rng, monkeypatch):
    """A limit that one model alone just meets makes groups smaller, and raises no error."""
    n = 3000
    x = rng.normal(size=(n, 3))
    y = x[:, 0] + 0.3 * rng.normal(size=n)
    models = {str(k): fm.Gaussian(x[:, 0], 0.3 + 0.1 * k) for k in range(4)}
    groups = []
    fit = fitting.feature_problems

    def counting(nature, pairs, task, budget, *args):
        if len(pairs) > 1:
            assert budget.working + 8_000_000 <= task.options.memory_limit
        groups.append(len(pairs))
        return fit(nature, pairs, task, budget, *args)

    monkeypatch.setattr(fitting, "feature_problems", counting)
    by_limit = {}
    for limit in (*range(23_000_000, 38_000_000, 3_000_000), 400_000_000):
        estimator = fm.ConditionalCongruence(
            x_kernel=KERNEL, solver="cg", memory_limit=limit, y_kernel="paper", lam=0.1
        )
        groups.clear()
        try:
            alone = estimator.fit(x, y, models["3"]).result_
        except fm.MemoryLimitError:
            with pytest.raises(fm.MemoryLimitError):
                estimator.fit_each(x, y, models)
            continue
        groups.clear()
        estimators = estimator.fit_each(x, y, models)
        assert sum(groups) == 4
        by_limit[max(groups)] = limit
        assert estimators["3"].result_.info.cache == alone.info.cache  # as fast as alone
        np.testing.assert_allclose(estimators["3"].result_.values, alone.values, atol=2e-6)
    assert 1 in by_limit
    assert 4 in by_limit
    assert len(by_limit) > 2


def test_low_rank_memory(rng, monkeypatch):
    """With little memory, each model has its own passes, and as many landmarks as alone."""
    n = 2000
    x = rng.uniform(-2, 2, (n, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=n)
    models = {str(k): fm.Gaussian(x[:, 0], 0.3 + 0.1 * k) for k in range(3)}
    calls = []
    forms = fitting.LowRankForms
    monkeypatch.setattr(
        fitting,
        "LowRankForms",
        lambda nature, models, *args: calls.append(len(models)) or forms(nature, models, *args),
    )
    results = {}
    for limit in ("120MB", "4GB"):
        calls.clear()
        estimator = fm.ConditionalCongruence(
            x_kernel=KERNEL, solver="lowrank", tol=1e-3, memory_limit=limit
        )
        results[limit] = estimator.fit_each(x, y, models)
        assert calls == ([1, 1, 1] if limit == "120MB" else [3])
    for name in models:
        _agree(results["120MB"][name], results["4GB"][name])


def test_dense_and_feature_forms_side_by_side(rng):
    """A model whose outputs have no low rank is solved alone, in dense form."""
    n = 350
    x = rng.normal(size=(n, 2))
    y = rng.integers(0, 3, n).astype(float)
    models = {"few": rng.integers(0, 3, n).astype(float), "many": rng.normal(size=n)}
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL, y_kernel=fm.Laplacian(1.0), lam=0.1)
    estimators = estimator.fit_each(x, y, models)
    assert [one.result_.info.form for one in estimators.values()] == ["feature", "dense"]
    for name, draws in models.items():
        exact = oracle.mcmd(x, x, y, x, draws, KERNEL, fm.Laplacian(1.0))
        np.testing.assert_allclose(estimators[name].result_.values, exact, atol=2e-6)


@pytest.mark.slow
def test_small_regulariser_shares_a_preconditioner(rng):
    n = 2500
    x = rng.uniform(-2, 2, (n, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=n)
    models = {"a": fm.Gaussian(x[:, 0], 0.3), "b": fm.Gaussian(x[:, 1], 1.0)}
    estimator = fm.ConditionalCongruence(
        x_kernel=fm.RBF(1.0), lam=1e-5, solver="cg", tol=1e-4, y_kernel="paper"
    )
    estimators = estimator.fit_each(x, y, models)
    for name, prediction in models.items():
        assert any("preconditioned" in note for note in estimators[name].result_.info.notes)
        _agree(
            estimators[name],
            fm.ConditionalCongruence(**estimator.get_params()).fit(x, y, prediction),
        )


def test_saved_and_loaded(data, tmp_path):
    x, y, models = data
    for solver in ("cg", "lowrank"):
        estimators = fm.ConditionalCongruence(x_kernel=KERNEL, solver=solver, tol=1e-4).fit_each(
            x, y, models
        )
        for one in estimators.values():
            one.save(tmp_path / "one.npz")
            again = fm.load(tmp_path / "one.npz")
            np.testing.assert_array_equal(again.score_samples(x[:5]), one.score_samples(x[:5]))


def test_arrays_of_a_model_are_its_own(data):
    x, y, models = data
    estimators = fm.ConditionalCongruence(x_kernel=KERNEL, solver="cg").fit_each(x, y, models)
    parts = [one.fitted().form.parts[0] for one in estimators.values()]
    for part in parts:
        base = part.image if part.image.base is None else part.image.base
        assert base.shape == part.image.shape
        assert len(part.solved.solutions) == 1


def test_what_is_refused(data, tmp_path):
    x, y, models = data
    estimator = fm.ConditionalCongruence(x_kernel=KERNEL)
    for wrong in ({}, [models["normal"]], models["normal"]):
        with pytest.raises(TypeError, match="predictions must be a dict of at least one"):
            estimator.fit_each(x, y, wrong)
    with_checkpoint = fm.ConditionalCongruence(checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="checkpoint holds the state of one fit"):
        with_checkpoint.fit_each(x, y, models)
    with pytest.raises(ValueError, match="rows must match"):
        estimator.fit_each(x, y[:-1], models)


def test_an_unmet_tolerance_names_the_model(data):
    x, y, models = data
    estimator = fm.ConditionalCongruence(
        x_kernel=KERNEL, solver="lowrank", rank=5, tol=1e-9, certificate="rigorous"
    )
    with pytest.warns(fm.ToleranceWarning) as record:
        estimators = estimator.fit_each(x, y, models)
    texts = [str(one.message) for one in record]
    for name in ("counts", "draws"):
        assert any(f"CCE of {name!r}" in text for text in texts)
        assert estimators[name].result_.name == "CCE"


def test_encoder_runs_once(data):
    x, y, models = data
    calls = []

    def encoder(rows):
        calls.append(len(rows))
        return np.asarray(rows) * 2

    estimator = fm.ConditionalCongruence(x_kernel=KERNEL, encoder=encoder)
    estimators = estimator.fit_each(x, y, models)
    assert calls == [len(x)]
    np.testing.assert_allclose(
        estimators["normal"].result_.values,
        fm.cce(2 * x, y, models["normal"], x_kernel=KERNEL).values,
        atol=2e-6,
    )


def test_by_diagonal(rng):
    shifts = [np.full(3, 1.0), np.full(3, 2.0), np.full(3, 1.0), np.array([1.0, 1.0, 2.0])]
    systems = [System(rng.normal(size=(3, 2)), shift) for shift in shifts]
    assert by_diagonal(systems) == [[0, 2], [1], [3]]


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize(("rows", "tiles"), [(1, 0), (1, 1), (2, 1), (3, 1)])
def test_budget_serves_as_another_until_something_no_longer_fits(size, rows, tiles):
    n, dim = 10_000, 2500
    tile_bytes = size * n * (rows * dim + tiles * n // 2)
    alone = Budget(2 * tile_bytes, 2 * tile_bytes - tile_bytes * 15 // 10)
    assert Budget(2 * tile_bytes, alone.working + 1000).serves_as(alone, n, dim)
    assert not Budget(2 * tile_bytes, 2 * tile_bytes - tile_bytes * 9 // 10).serves_as(
        alone, n, dim
    )
    available = alone.limit - alone.working - 1000
    assert not Budget(2 * tile_bytes, alone.working + 1000).serves_as(
        alone, n, dim, least=available + 1
    )


def test_budget_without_free_bytes_serves_as_none():
    """The error names one model, not several."""
    assert not Budget(1000, 3000).serves_as(Budget(1000, 2000), 100, 2)


def test_stacked_streams(rng):
    """Streams with right-hand sides side by side each have their own account, also when restored."""
    from fastmcmd.embedding.features import output_features
    from fastmcmd.estimate.samples import problem_of

    x, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    draws = [rng.normal(size=50), 3 * rng.normal(size=50)]
    options = fm.ConditionalCongruence().options()
    problem = problem_of(x, y, draws, KERNEL, "paper", 0.1, None, None, 0, options)
    nature, models, kernels = problem.nature, problem.models, problem.kernels
    backend = fm.backends.get_backend("numpy", kernels[1])
    streams = []
    for k, model in enumerate(models):
        features = output_features(
            kernels[1], backend, np.concatenate([y, draws[k]])[:, None], 1e-3, 50
        )[0]
        streams.append(RowStream([nature, model], features, True))
    both = StackedRowStream(streams)
    assert both.columns == sum(one.features.rank for one in streams)
    rhs, residual = both.rhs(slice(3, 9))
    np.testing.assert_array_equal(rhs, np.hstack([one.rhs(slice(3, 9))[0] for one in streams]))
    assert len(residual) == 4
    both.begin()
    first, second = both.blocks(30)
    both.account(first)
    saved_states = both.state()
    both.account(second)
    single = [one.truncated() for one in streams]
    both.begin()
    both.restore(saved_states)
    both.account(second)
    assert [one.truncated() for one in streams] == single
    for one in streams:
        one.begin()
        for block in StackedRowStream([one]).blocks(30):
            one.account(block)
    np.testing.assert_allclose([one.truncated() for one in streams], single, rtol=1e-12)
    assert single[0] != single[1]


def test_low_rank_is_not_considered_for_few_rows(data):
    from fastmcmd.estimate.samples import problem_of
    from fastmcmd.estimate.task import Task
    from fastmcmd.options import Options

    x, y, models = data
    options = fm.ConditionalCongruence().options()
    assert isinstance(options, Options)
    problem = problem_of(x, y, models.values(), KERNEL, "paper", 0.1, None, None, 0, options)
    task = Task(*problem.kernels, options, x)
    assert low_rank_groups(problem.nature, problem.models, task) == [(problem.models, None)]


def test_only_the_model_that_misses_outputs_goes_another_round(rng, monkeypatch):
    """Pivots from few outputs miss those in between: that model alone is summed again, with them."""
    from fastmcmd.estimate import lowrank_form

    n = 400
    x = rng.uniform(-2, 2, (n, 1))
    y = 90.0 * rng.integers(0, 2, n)
    rare = y.copy()
    rare[:2] = 40.0  # the tails are always included, not outputs between them
    models = {"plain": 90.0 - y, "rare": rare}
    monkeypatch.setattr(lowrank_form, "POOL", 20)
    rounds = []
    original = lowrank_form._Round
    monkeypatch.setattr(
        lowrank_form,
        "_Round",
        lambda pending, *args: (
            rounds.append([one.number for one in pending]) or original(pending, *args)
        ),
    )
    estimator = fm.ConditionalCongruence(
        x_kernel=KERNEL, y_kernel=fm.RBF(1.0), solver="lowrank", tol=1e-4, lam=0.1
    )
    estimators = estimator.fit_each(x, y, models)
    assert rounds[0] == [0, 1]
    assert rounds[1] == [1]
    for name, draws in models.items():
        exact = oracle.mcmd(x, x, y, x, draws, KERNEL, fm.RBF(1.0))
        result = estimators[name].result_
        assert result.error_bound <= estimator.tol
        assert (np.abs(result.values - exact) <= result.error_bounds + 1e-7).all()


PEAK = (
    STATUS_FIELD
    + FORKED
    + """
import json
import numpy as np
import fastmcmd as fm
from fastmcmd.estimate import fit

fm.set_num_threads(2)
n = 4000
rng = np.random.default_rng(0)
x = rng.normal(size=(n, 128)).astype(np.float32)
y, models = rng.normal(size=n), {str(k): rng.normal(size=n) for k in range(4)}

def measure(limit, options):
    options["x_kernel"] = fm.RBF(1 / 128)
    few = {name: draws[:600] for name, draws in models.items()}
    fm.ConditionalCongruence(**options).fit_each(x[:600], y[:600], few)  # libraries, BLAS buffers
    groups, inner = [], fit.feature_problems
    def counted(nature, pairs, *rest):
        groups.append(len(pairs))
        return inner(nature, pairs, *rest)
    fit.feature_problems = counted
    open("/proc/self/clear_refs", "w").write("5")
    before = field("VmRSS:")
    estimators = fm.ConditionalCongruence(memory_limit=limit, **options).fit_each(x, y, models)
    print(field("VmHWM:") - before, *groups, flush=True)

for limit, options in json.loads(sys.argv[1]):
    forked(measure, limit, options)
"""
)
LIMITS = [
    (46_000_000, {"solver": "cg"}, 2),
    (60_000_000, {"solver": "cg"}, 4),  # more would cost the tiles in memory
    (250_000_000, {"solver": "cg"}, 1),
    (350_000_000, {"solver": "cholesky"}, 1),
    (50_000_000, {"solver": "lowrank", "rank": 200, "tol": 1.0}, 0),
]


@functools.cache
def measurements():
    """Return the peak and the sizes of groups for each limit."""
    job = json.dumps([[limit, options] for limit, options, _ in LIMITS])
    process = subprocess.run(
        [sys.executable, "-c", PEAK, job], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return [list(map(int, line.split())) for line in process.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("case", range(len(LIMITS)), ids=[str(case[:2]) for case in LIMITS])
def test_memory_stays_within_the_limit(case):
    """Peak resident memory beyond the inputs, as in test_memory.py; results belong to the caller."""
    limit, _, groups = LIMITS[case]
    peak, *sizes = measurements()[case]
    results = 4 * 8 * 4000 * (2 * 22 + 2)  # coefficients and images of at most 22 features, values
    assert peak <= limit + results + 12_000_000  # heap fragmentation, BLAS buffers, code paged in
    assert len(sizes) == groups
