"""`fm.plan` predicts what the call then does."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.estimate import lowrank_choice, trace_glance
from fastmcmd.estimate.task import Task
from fastmcmd.gram import GramOperator
from fastmcmd.options import Options
from fastmcmd.planning import exact
from fastmcmd.planning.exact import exact_plan
from fastmcmd.planning.lowrank import search
from fastmcmd.planning.observed_outputs import ObservedOutputs
from fastmcmd.planning.subsample import (
    Subsample,
    SubsampleOperator,
    WholeOperator,
)
from fastmcmd.solvers import System
from fastmcmd.solvers.certify import replaced
from fastmcmd.solvers.preconditioner import RANKS, Landmarks


def inputs_of(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return rng.uniform(-2, 2, (n, d))
    if kind == "normal":
        return rng.standard_normal((n, d), dtype=np.float32)
    # Rows of length 1 around a mean, with a spectrum that falls slowly, like embeddings of images.
    size = np.arange(1, d + 1) ** -0.5
    x = (rng.normal(size=(n, d)) + rng.normal(size=(1, d))) * size
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def outputs_of(x, seed=1):
    """Return observed outputs, and predictions that are nearly right."""
    mean = np.sin(x[:, 0] / x[:, 0].std())
    return mean + 0.3 * np.random.default_rng(seed).normal(size=len(x)), fm.Gaussian(
        0.9 * mean, 0.4
    )


def options_of(**options):
    return Options.of(**{"memory_limit": "4GB", **options})


CASES = [
    ("uniform", 300, 2, fm.RBF(0.25), {}),
    ("uniform", 3000, 1, fm.RBF(1.0), {}),
    ("uniform", 3000, 2, fm.RBF(0.5), {"lam": 1e-4}),
    ("uniform", 2000, 2, fm.RBF(0.5), {"lam": 1e-6}),
    ("uniform", 3000, 8, fm.RBF(1 / 8), {"tol": 1e-4}),
    ("normal", 3000, 64, None, {}),
    ("embedded", 3000, 512, None, {"lam": 1e-4}),
    ("embedded", 3000, 512, fm.RBF(2.0), {"tol": 1e-4}),
    ("uniform", 5000, 1, fm.RBF(1.0), {}),
    ("uniform", 6000, 8, fm.RBF(1 / 8), {}),
    ("normal", 6000, 64, None, {"memory_limit": "60MB"}),
    ("normal", 6000, 64, None, {"memory_limit": "2GB"}),
    ("embedded", 8000, 512, None, {"certificate": "rigorous"}),
    ("embedded", 8000, 512, None, {"certificate": "sampled"}),
    ("uniform", 12000, 2, fm.RBF(0.5), {"lam": 0.01}),
    # The bound of the trace is too large, residuals of some rows suffice.
    ("uniform", 12000, 2, fm.RBF(0.5), {"lam": 1e-3}),
    ("embedded", 16000, 64, None, {"tol": 1e-4}),
    # Preconditioned.
    # At 1e-6 float32 just reaches the tolerance, and on the plan's rows just does not.
    ("embedded", 12000, 64, None, {"lam": 1e-4, "solver": "cg", "tol": 2e-6}),
    ("uniform", 8000, 2, fm.RBF(0.5), {"lam": 1e-6, "solver": "cg"}),
    ("uniform", 8000, 2, fm.RBF(0.5), {"solver": "cg"}),
    ("normal", 3000, 64, None, {"solver": "cg", "dtype": "float64"}),
    ("uniform", 8000, 2, fm.RBF(0.5), {"solver": "lowrank", "tol": 1e-4}),
    ("uniform", 8000, 2, fm.RBF(0.5), {"solver": "nystrom"}),
    ("embedded", 8000, 64, fm.RBF(2.0), {"solver": "lowrank", "rank": 200}),
    ("uniform", 1500, 3, fm.RBF(0.3), {"solver": "cholesky"}),
    ("uniform", 1500, 3, fm.RBF(0.3), {"solver": "cholesky", "dtype": "float32"}),
]


def alike(stated, was):
    return stated == was or was / 2 <= stated <= 2 * was


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
@pytest.mark.parametrize(("kind", "n", "d", "kernel", "options"), CASES)
def test_the_call_does_what_the_plan_says(kind, n, d, kernel, options):
    x = inputs_of(kind, n, d)
    y, prediction = outputs_of(x)
    options = {"lam": 0.1, **options}
    kernel = "paper" if kernel is None else kernel
    plan = fm.plan(x, kernel, **options)
    info = fm.cce(x, y, prediction, x_kernel=kernel, y_kernel="paper", **options).info
    assert (plan.solver, plan.cache, plan.backend) == (info.solver, info.cache, info.backend)
    assert alike(plan.landmarks, info.landmarks)
    assert alike(plan.passes, info.passes)
    assert plan.seconds > 0
    if plan.solver != "lowrank":  # there the candidates are counted, too
        assert alike(plan.memory_bytes, info.peak_bytes)
    for note in info.notes:
        if note.startswith("preconditioned"):
            assert any(reason.startswith("preconditioned") for reason in plan.reasons)


def test_what_is_printed():
    plan = fm.plan(inputs_of("uniform", 500, 2), fm.RBF(0.25), solver="cg")
    assert str(plan).startswith("500 rows, 2 columns: cg, streamed, cpu\n  about ")
    assert f"in {plan.passes} passes" in str(plan)
    as_dict = plan.to_dict()
    assert (as_dict["n"], as_dict["d"], as_dict["backend"]) == (500, 2, "cpu")
    assert as_dict["reasons"] == list(plan.reasons)


@pytest.mark.slow
def test_the_same_each_time():
    x = inputs_of("uniform", 7000, 2)
    one, other = (fm.plan(x, fm.RBF(0.5), lam=1e-3).to_dict() for _ in range(2))
    one.pop("seconds"), other.pop("seconds")
    assert one == other


@pytest.mark.slow
def test_inputs_are_not_changed_and_not_copied():
    x = inputs_of("normal", 50_000, 40)
    before = x.copy()
    tracemalloc.start()
    try:
        fm.plan(x, fm.RBF(0.01))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(x, before)
    assert peak < 400e6  # a few small problems; K would be 10 GB


def test_rounding_that_rules_low_rank_out_is_foreseen():
    """Landmarks would suffice for so small a lam except for rounding: the call returns to CG."""
    plan = fm.plan(inputs_of("uniform", 20_000, 2), fm.RBF(0.5), lam=1e-6)
    assert plan.solver != "lowrank"
    assert any("rounding" in reason for reason in plan.reasons)


@pytest.mark.slow
def test_a_hard_problem_ends():
    """The run takes hundreds of products: the plan samples some, and says so."""
    plan = fm.plan(
        inputs_of("uniform", 3000, 8), fm.Laplacian(0.05), lam=1e-7, solver="cg", tol=1e-8
    )
    assert (plan.solver, plan.passes > 60) == ("cg", True)
    assert any(reason.startswith("more than 60 products") for reason in plan.reasons)


@pytest.mark.slow
def test_a_shape_will_do():
    plan = fm.plan((10**6, 512), memory_limit="20GB")
    assert (plan.n, plan.d, plan.solver, plan.cache) == (10**6, 512, "cg", "streamed")
    assert plan.seconds > 60
    assert "shape" in repr(plan)
    small = fm.plan((10**6, 512), memory_limit="4GB")  # the rows in float32 do not fit
    assert any("each pass prepares them anew" in reason for reason in small.reasons)
    assert small.seconds > plan.seconds


def test_inputs_on_disk(tmp_path):
    x = inputs_of("uniform", 6000, 1, seed=2)
    np.save(tmp_path / "x.npy", x)
    on_disk, in_memory = fm.plan(tmp_path / "x.npy", fm.RBF(0.5)), fm.plan(x, fm.RBF(0.5))
    assert (on_disk.solver, on_disk.landmarks) == (in_memory.solver, in_memory.landmarks)


@pytest.mark.slow
def test_rows_on_disk_that_do_not_fit(tmp_path):
    x = inputs_of("normal", 8000, 200)
    np.save(tmp_path / "x.npy", x)
    options = {"memory_limit": "40MB", "solver": "cg", "tol": 1e-4}
    plan = fm.plan(tmp_path / "x.npy", fm.RBF(0.01), **options)
    y, prediction = outputs_of(x)
    info = fm.cce(tmp_path / "x.npy", y, prediction, x_kernel=fm.RBF(0.01), **options).info
    assert plan.cache == info.cache == "streamed"
    assert alike(plan.passes, info.passes)


def test_bad_input():
    with pytest.raises(ValueError, match="shape"):
        fm.plan((0, 3))
    with pytest.raises(ValueError, match="lam"):
        fm.plan(np.ones((5, 1)), lam=0)
    with pytest.raises(ValueError, match="features"):
        fm.plan(np.ones((5, 1)), features=0)
    with pytest.raises(fm.MemoryLimitError):
        fm.plan((10**6, 8), fm.RBF(1.0), memory_limit="10MB", solver="cg")
    with pytest.raises(fm.MemoryLimitError, match="landmarks of 50,000 rows"):
        fm.plan(inputs_of("uniform", 50_000, 1), fm.RBF(1.0), memory_limit="9MB", solver="lowrank")


@pytest.mark.parametrize("x", [np.zeros((50, 2)), np.ones((1, 3)), np.arange(2.0)])
def test_degenerate_inputs(x):
    """Equal rows, one row, two rows: each has a plan, and no warning."""
    plan = fm.plan(x, fm.RBF(1.0))
    assert plan.n == len(x)
    assert plan.passes >= 1


@pytest.mark.parametrize("solver", ["lowrank", "nystrom"])
def test_fewer_distinct_rows_than_landmarks(solver):
    """A search that has no rows left stops."""
    x = np.repeat(inputs_of("uniform", 90, 3), 60, axis=0)
    plan = fm.plan(x, fm.RBF(3.0), solver=solver, tol=1e-12, certificate="rigorous")
    assert plan.solver == "lowrank"
    tight = fm.plan(x, fm.RBF(3.0), solver=solver, rank=70, memory_limit="20MB")
    assert tight.landmarks == 70
    assert tight.memory_bytes <= 20e6


def test_rows_that_repeat():
    """CG uses the distinct rows, in the call and in the plan."""
    x = np.repeat(inputs_of("uniform", 300, 2), 20, axis=0)
    plan = fm.plan(x, fm.RBF(0.5), solver="cg", lam=0.1)
    y, prediction = outputs_of(x)
    info = fm.cce(
        x, y, prediction, x_kernel=fm.RBF(0.5), solver="cg", y_kernel="paper", lam=0.1
    ).info
    assert (info.n, plan.n) == (300, 6000)
    assert "300 distinct inputs" in plan.reasons
    assert plan.memory_bytes < 10e6 + info.peak_bytes
    assert alike(plan.passes, info.passes)


def test_a_factorisation_that_fails():
    """The plan raises no error: it reports the error of the call."""
    x = np.linspace(0, 1, 400)[:, None]
    plan = fm.plan(x, fm.RBF(0.01), lam=1e-18, solver="cholesky", dtype="float32")
    assert plan.solver == "cholesky"
    assert any("is not positive definite" in reason for reason in plan.reasons)
    with pytest.raises(ValueError, match="is not positive definite"):
        fm.cce(x, x, x + 1, x_kernel=fm.RBF(0.01), lam=1e-18, solver="cholesky", dtype="float32")


def test_a_factor_beyond_memory(tmp_path):
    """Like the call itself, the plan names cache_dir in its error, or uses block columns in a file."""
    x = np.random.default_rng(0).normal(size=(6000, 3)).astype(np.float32)
    options = {"solver": "cholesky", "memory_limit": "100MB"}
    with pytest.raises(fm.MemoryLimitError, match="with cache_dir, or use solver='cg'"):
        fm.plan(x, fm.RBF(0.3), **options)
    plan = fm.plan(x, fm.RBF(0.3), cache_dir=tmp_path, **options)
    assert plan.cache == "disk"
    assert plan.memory_bytes <= 100_000_000
    assert any("cache_dir stores it" in reason for reason in plan.reasons)
    assert not list(tmp_path.iterdir())
    # Factors are float64 unless dtype says otherwise: n (n + 256) / 2 numbers, and rows.
    in_memory = fm.plan(x, fm.RBF(0.3), solver="cholesky", memory_limit="2GB")
    assert in_memory.cache == "packed"
    assert in_memory.memory_bytes > 8 * 6000 * 6000 / 2


@pytest.mark.parametrize("kernel", [fm.RBF(0.1), fm.Polynomial(3, 0.1, 1.0), fm.Laplacian(0.2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_costs_are_those_of_all_rows(kernel, dtype):
    """A subsample reports the cost and memory of all rows."""
    x = inputs_of("normal", 3000, 50)
    backend = get_backend("auto", kernel)
    all_rows = GramOperator(backend, kernel, x, dtype, 40_000_000)
    some = Subsample(3000, x[:300])
    for kind in (SubsampleOperator, WholeOperator):
        stands = kind(some, some, backend, kernel, dtype, 40_000_000)
        assert stands.size == all_rows.size == 3000
        assert stands.packed_bytes == all_rows.packed_bytes
        assert (stands.caches, stands.holds_rows) == (all_rows.caches, all_rows.holds_rows)
        for columns in (1, 30):
            assert stands.streamed_cost(columns) == pytest.approx(all_rows.streamed_cost(columns))
            assert stands.product_cost(columns) == pytest.approx(all_rows.product_cost(columns))
        for precision in (np.float32, np.float64):
            assert stands.row_bytes(precision) == pytest.approx(
                all_rows.row_bytes(precision), rel=0.1
            )
    assert (len(stands), len(SubsampleOperator(some, some, backend, kernel, dtype, 1))) == (
        3000,
        300,
    )


def test_work_is_counted_for_all_rows():
    x = inputs_of("normal", 2000, 5)
    backend = get_backend("auto", fm.RBF(0.1))
    some = Subsample(2000, x[:200])
    stands = SubsampleOperator(some, some, backend, fm.RBF(0.1), np.float32, 10**9)
    v = np.ones((200, 3))
    stands.matmul(v)
    one = 2000.0**2 * (15 + 5 + 2 * 3)  # gram.cost: an exponential, five coordinates, three columns
    assert stands.work == pytest.approx(one)
    stands.matmul(v, exact=True)
    assert stands.work == pytest.approx(3 * one)  # float64 costs twice as much
    stands.cross_matmul(stands.x[:20], v, np.dtype(np.float64))
    assert stands.work == pytest.approx(3 * one + 2 * 2 * one * 20 / 2000)


def test_parts_of_some_rows_have_their_right_hand_sides():
    """Candidates for landmarks may be any rows; a part of the problem consists of its own."""
    x = inputs_of("normal", 2000, 5)
    backend, rng = get_backend("auto", fm.RBF(0.1)), np.random.default_rng(0)
    some = Subsample(2000, x[:200])
    stands = SubsampleOperator(
        some, Subsample(2000, x[:1000]), backend, fm.RBF(0.1), np.float32, 10**9
    )
    rows, index = stands.own_rows(50, rng)
    np.testing.assert_array_equal(rows, x[index])
    assert len(np.unique(index)) == 50
    assert index.max() < 200
    assert len(stands.random_rows(400, rng)[0]) == 400


def test_a_small_problem_is_its_own_plan():
    """If the subsample holds all rows, its products are those of the problem."""
    x = inputs_of("uniform", 900, 3)
    rows = Subsample(900, x)
    y, draws = (values[:, :, 0] for values in rows.outputs())
    plan = exact_plan(
        rows, get_backend("cpu", fm.RBF(0.5)), fm.RBF(0.5), options_of(solver="cg"), 0.1, 0.74e-6, 30,
    )  # fmt: skip
    info = fm.cce(
        x, y[:, 0], draws, x_kernel=fm.RBF(0.5), y_kernel=rows.y_kernel, solver="cg", lam=0.1
    ).info
    assert abs(plan.passes - info.passes) <= 1


@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
@pytest.mark.parametrize(("n", "kind"), [(50_000, 3), (50_000, None), (20_000, 3)])
def test_rows_far_from_all_others_need_landmarks_of_their_own(n, kind):
    """Few of the first candidates are that far; a look at all rows finds the others."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (n, 1)) if kind is None else rng.standard_t(kind, (n, 1))
    y, prediction = outputs_of(x)
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5), "lam": 0.1, "solver": "auto"}
    plan, info = fm.plan(x, y=y, **options), fm.cce(x, y, prediction, **options).info
    assert (plan.solver, plan.passes) == (info.solver, info.passes) == ("lowrank", 1)
    assert not any("continued with" in note for note in info.notes)
    assert alike(plan.landmarks, info.landmarks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
@pytest.mark.parametrize(
    ("kind", "d", "lam"), [("normal", 2, 1e-4), ("normal", 3, 0.1), ("t", 2, 0.1)]
)
def test_landmarks_of_a_plan_are_those_of_the_call(kind, d, lam):
    """Isolated rows become candidates in both, and both try the same numbers."""
    rng = np.random.default_rng(0)
    x = rng.standard_t(5, (40_000, d)) if kind == "t" else rng.standard_normal((40_000, d))
    y, _ = outputs_of(x)
    draws = y + 0.3 * rng.normal(size=len(y))
    options = {"x_kernel": fm.RBF(1 / (2 * d)), "y_kernel": fm.RBF(0.5), "lam": lam, "tol": 1e-5}
    plan = fm.plan(x, y=y, prediction=draws, **options)
    info = fm.cce(x, y, draws, **options).info
    assert plan.solver == info.solver == "lowrank"
    assert plan.landmarks == pytest.approx(info.landmarks, rel=0.3)


def test_observed_outputs_are_the_right_hand_sides():
    """With y a plan solves for features of y, not for made-up ones."""
    x = inputs_of("uniform", 3000, 2)
    y = outputs_of(x)[0]
    of_y = ObservedOutputs(np.column_stack([y, y]), fm.RBF(0.3))
    rows = Subsample(3000, x, outcomes=of_y)
    outputs, draws = rows.some(500).outputs()
    assert (outputs.shape, draws.shape) == ((500, 1, 2), (500, 2, 2))
    np.testing.assert_array_equal(outputs[:, 0, 0], y[:500])
    assert set(draws.ravel()) == set(y[:500])  # of the neighbours in the direction of a linear fit
    features, differences = rows.some(500).features()
    p = features.transform(of_y.y[:500])
    np.testing.assert_allclose(
        differences, p - features.transform(draws.reshape(-1, 2)).reshape(500, 2, -1).mean(axis=1),
        atol=1e-12,
    )  # fmt: skip


def test_rounding_is_that_of_all_rows():
    """The rounding of a scaled residual falls with the root of the number of rows."""
    bounds = {}
    for n in (750, 3000):
        x = inputs_of("normal", n, 4)
        operator = GramOperator(get_backend("cpu", fm.RBF(0.1)), fm.RBF(0.1), x, np.float32, 10**9)
        systems = [System(np.random.default_rng(n).normal(size=(n, 40)), np.full(n, 0.1 * n))]
        values = [systems[0].rhs / systems[0].shift[:, None]]
        exact = operator.matmul(values[0], exact=True)
        residuals = [systems[0].rhs - systems[0].shift[:, None] * values[0] - exact]
        rounded = replaced(operator, systems, values, residuals)
        bounds[n] = np.linalg.norm((rounded[0] - residuals[0]) / np.sqrt(0.1 * n))
        some = SubsampleOperator(
            Subsample(4 * n, x), Subsample(4 * n, x), operator.backend, operator.kernel, np.float32, 10**9
        )  # fmt: skip
        assert some.rounding_share == 0.5
        np.testing.assert_allclose(
            replaced(some, systems, values, residuals)[0] - residuals[0],
            0.5 * (rounded[0] - residuals[0]), atol=1e-12,
        )  # fmt: skip
    assert bounds[3000] == pytest.approx(0.5 * bounds[750], rel=0.3)


@pytest.mark.slow
def test_features_of_outputs_are_counted_or_said_to_be_assumed():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 2000)
    y = 20 * x + rng.normal(size=2000)
    assert any("30 features of outputs are assumed" in one for one in fm.plan(x).reasons)
    assert not any("features of outputs" in one for one in fm.plan(x, features=40).reasons)
    reasons = [
        next(one for one in fm.plan(x, y=values).reasons if "features of outputs, from y" in one)
        for values in (np.sin(x) + rng.normal(size=2000), y)
    ]
    few, many = (int(one.split()[0]) for one in reasons)
    assert 20 <= few <= 80
    assert many > 2 * few  # of width 1 over a range of 80
    published = fm.plan(x, y=y, y_kernel="paper").reasons
    assert int(next(one for one in published if "from y" in one).split()[0]) < 40
    with pytest.raises(ValueError, match="shape of x"):
        fm.plan((100, 2), y=y)
    with pytest.raises(ValueError, match="rows must match"):
        fm.plan(x, y=y[1:])


PREDICTIONS = {
    "gaussian": lambda mean, rng: fm.Gaussian(mean, 0.4),
    "draws": lambda mean, rng: mean[:, None] + 0.4 * rng.normal(size=(len(mean), 6)),
    "t": lambda mean, rng: fm.predictive.StudentT(5.0, mean, 0.3),
    "pair": lambda mean, rng: (mean, 0.4),
}


@pytest.mark.parametrize("kind", PREDICTIONS)
@pytest.mark.parametrize(("d", "lam"), [(1, 0.01), (8, 0.1)])
def test_predictions_give_the_features_of_the_call(kind, d, lam):
    """Their number is that of the call, or nearly: a plan sees some rows only."""
    x = inputs_of("uniform", 5100, d)
    y, prediction = outputs_of(x)[0], PREDICTIONS[kind](np.sin(x[:, 0]), np.random.default_rng(2))
    options = {
        "x_kernel": fm.RBF(0.5),
        "lam": lam,
        "tol": 1e-4,
        "solver": "lowrank" if d == 1 else "cg",
    }
    plan = fm.plan(x, y=y, prediction=prediction, **options)
    info = fm.cce(x, y, prediction, **options).info
    reason = next(
        one for one in plan.reasons if "features of outputs, from y and its predictions" in one
    )
    assert int(reason.split()[0]) == pytest.approx(info.rank, rel=0.25)
    assert (plan.solver, plan.cache) == (info.solver, info.cache)
    assert alike(plan.passes, info.passes)


@pytest.mark.slow
def test_time_of_integrals_is_counted():
    """Expectations under t distributions take far longer than draws from them."""
    x = inputs_of("uniform", 4000, 1)
    y, mean = outputs_of(x)[0], np.sin(x[:, 0])
    draws = mean + 0.3 * np.random.default_rng(2).standard_t(5, size=len(x))
    seconds = [
        fm.plan(x, fm.RBF(0.5), y=y, prediction=one).seconds
        for one in (draws, fm.predictive.StudentT(5.0, mean, 0.3))
    ]
    assert seconds[1] > 3 * seconds[0]


def test_classes_have_the_kernel_of_classes():
    rng = np.random.default_rng(0)
    x, p = rng.normal(size=(500, 2)), rng.dirichlet(np.ones(3), size=500)
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 500)]
    plan = fm.plan(x, y=y, prediction=fm.Categorical(p, classes=["a", "b", "c"]))
    assert any(one.startswith("3 features of outputs") for one in plan.reasons)


def test_predictions_are_checked():
    x = inputs_of("uniform", 200, 2)
    y, prediction = outputs_of(x)
    with pytest.raises(ValueError, match="without y"):
        fm.plan(x, prediction=prediction)
    with pytest.raises(ValueError, match="rows"):
        fm.plan(x, y=y, prediction=fm.Gaussian(y[1:], 1.0))


def test_only_the_sampled_rows_are_scaled(monkeypatch):
    """Default kernels scale columns; all rows of a wide matrix would take longer than the plan."""
    x = inputs_of("normal", 9000, 30) * np.arange(1, 31, dtype=np.float32)
    y, prediction = outputs_of(x)
    most, scaled = [0], fm.Scaled.rows

    def rows(self, x, name="x"):
        most[0] = max(most[0], len(x))
        return scaled(self, x, name)

    monkeypatch.setattr(fm.Scaled, "rows", rows)
    plan = fm.plan(x, y=y, prediction=prediction)
    assert 0 < most[0] <= 4000
    monkeypatch.undo()
    info = fm.cce(x, y, prediction).info
    assert (plan.solver, plan.cache) == (info.solver, info.cache)


def test_scaled_rows_that_repeat_or_lie_far_away():
    """Both are found among all rows, in scaled columns."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6000, 2)) * [1.0, 100.0]
    scaled = fm.Scaled(fm.RBF(0.5), (1.0, 0.01))
    rows = Subsample(6000, scaled.rows(x[:1000]), all_rows=x, scaled=scaled)
    np.testing.assert_array_equal(
        np.sort(rows.farthest(), axis=0),
        np.sort(Subsample(6000, x[:1000] * [1.0, 0.01], all_rows=x * [1.0, 0.01]).farthest(), axis=0),
    )  # fmt: skip
    x = np.repeat(x[:300], 20, axis=0)
    assert fm.plan(x, fm.Scaled(fm.RBF(0.5), (1.0, 0.01)), solver="cg").passes >= 1
    some = Subsample(6000, scaled.rows(x[::2]), all_rows=x, scaled=scaled)
    assert (some.distinct.n, len(some.distinct)) == (300, 300)


def test_tiles_that_fit_in_part_are_foreseen():
    """With the number of features of the call, memory is divided as in the call."""
    x = inputs_of("normal", 6000, 100)
    y, _ = outputs_of(x)
    draws = y + 0.3 * np.random.default_rng(2).normal(size=len(y))
    for limit in ("52MB", "55MB", "60MB"):
        plan = fm.plan(x, y=y, prediction=draws, memory_limit=limit)
        assert plan.cache == fm.cce(x, y, draws, memory_limit=limit).info.cache


@pytest.mark.parametrize(("n", "d"), [(6000, 4), (8000, 3), (3000, 1)])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_plan_glances_at_the_rows_of_the_call(monkeypatch, n, d, scaled):
    """Other rows could rule landmarks out where the call searches for them, and the other way round."""
    x = inputs_of("normal", n, d).astype(np.float64)
    y, _ = outputs_of(x)
    kernel = fm.Scaled(fm.RBF(0.5), tuple(np.linspace(0.5, 2.0, d))) if scaled else fm.RBF(0.5)
    trace_error, errors = trace_glance._trace_error, []

    def recorded(search, lam, scale):
        errors.append(trace_error(search, lam, scale))
        return errors[-1]

    monkeypatch.setattr(trace_glance, "_trace_error", recorded)
    fm.plan(x, kernel, y=y, prediction=y + 0.1, lam=0.01)
    of_plan = errors[:]
    errors.clear()
    fm.cce(x, y, y + 0.1, x_kernel=kernel, lam=0.01)
    assert of_plan
    assert of_plan == errors


def test_a_plan_of_rows_on_disk_glances_as_the_call(monkeypatch):
    """From 22,000 rows on the call searches rows on disk without a glance."""
    glances, x, kernel = [], inputs_of("normal", 6000, 3), fm.RBF(0.5)
    monkeypatch.setattr(
        lowrank_choice,
        "trace_may_suffice",
        lambda x, n, *arguments: glances.append((len(x), n)) or True,
    )
    on_disk, in_memory = Subsample(6000, x[:300]), Subsample(6000, x[:300], all_rows=x)
    task = Task(kernel, on_disk.y_kernel, options_of(), on_disk.x)
    for patient in (5000, 10_000):
        monkeypatch.setattr(lowrank_choice, "_PATIENT", patient)
        for rows in (on_disk, in_memory):
            search(rows, task, 0.01)
    assert glances == [(6000, 6000), (300, 6000), (6000, 6000)]


@pytest.mark.parametrize(("n", "counts"), [(12_000, [1333]), (16_000, [1000, 1777])])
def test_a_hard_problem_runs_on_few_rows_first_only_if_these_are_far_fewer(monkeypatch, n, counts):
    row_counts, problem_of = [], exact._Run._problem_of

    def recorded(self, some, stop):
        row_counts.append(len(some))
        return problem_of(self, some, stop)

    monkeypatch.setattr(exact._Run, "_problem_of", recorded)
    fm.plan(inputs_of("normal", n, 40), fm.RBF(0.05), lam=1e-5, solver="cg", dtype="float64")
    assert row_counts == counts


def test_landmarks_are_few_of_the_rows_that_represent_others():
    x = inputs_of("normal", 3000, 4)
    kernel, lam = fm.RBF(0.5), 1e-3
    for n, most in ((50_000, 600), (3000, RANKS[-1])):
        some, backend = Subsample(n, x), get_backend("auto", kernel)
        stands = SubsampleOperator(
            some.some(1000), some, backend, kernel, np.dtype(np.float32), 10**9
        )
        landmarks = Landmarks(stands, np.full(1000, 1000 * lam), 10**9)
        assert landmarks.most == most
        assert landmarks.largest == RANKS[-1]
        assert len(landmarks.rows) >= 2 * most
