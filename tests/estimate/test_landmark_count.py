"""How many landmarks a goal needs, by which certificate, and which rows become landmarks."""

import itertools
import math

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.backends import get_backend
from fastmcmd.estimate import landmark_choice, lowrank_fit, lowrank_form
from fastmcmd.estimate.landmark_count import LandmarkCount, PassCost, ranks_to_try
from fastmcmd.estimate.lowrank_fit import LowRank
from fastmcmd.solvers.landmarks import LandmarkSearch

COST = PassCost(entry=30.0, columns=50)


def climb(trace, sampled, certificate="auto", most=4000):
    """Return the count after it is decided or out of landmarks, the last rank, and all ranks tried."""
    count, ranks = LandmarkCount(certificate, most, COST), []
    for rank in ranks_to_try(0, most, [count]):
        ranks.append(rank)
        last = rank == most
        for kind, error in (("rigorous", trace), ("sampled", sampled)):
            if count.asks(kind, rank, last=last):
                count.add(kind, rank, error(rank))
        count.decide(rank, last=last)
    return count, ranks[-1], ranks


@pytest.mark.parametrize("power", [1.2, 3.0])
def test_landmarks_grow_by_the_power_that_was_seen(power):
    factor = lowrank_fit._growth(1.4, power)
    assert factor == pytest.approx(min(2.0, (1.4 / lowrank_fit._AIM) ** (1 / power)))
    assert lowrank_fit._growth(1.4, None) == pytest.approx((1.4 / lowrank_fit._AIM) ** 0.25)
    assert lowrank_fit._growth(math.inf, power) == 2.0


def test_the_trace_certificate_is_taken_unless_it_costs_clearly_more():
    fast, slow = (
        (lambda rank: 1e3 * math.exp(-rank / 40)),
        (lambda rank: 1e6 * math.exp(-rank / 80)),
    )
    count, rank, _ = climb(fast, fast)
    assert (count.kind, count.landmarks, rank) == ("rigorous", 287, 287)
    count, rank, ranks = climb(slow, fast)
    assert (count.kind, rank) == ("sampled", 256)
    assert count.landmarks == math.ceil(
        40 * math.log(1e3 / 0.88)
    )  # near enough: without another look
    assert climb(slow, fast, "rigorous")[0].kind == "rigorous"
    assert climb(slow, fast, "rigorous")[1] == 1149
    assert len(ranks) < 20  # those far below the forecasts are left out
    assert max(b / a for a, b in itertools.pairwise(ranks)) < 2


def test_no_number_is_enough():
    flat = lambda rank: 1e6 / rank  # noqa: E731
    count, rank, _ = climb(flat, flat, most=2000)
    assert count.decided
    assert count.kind is None
    assert rank < 1000  # and that is clear early


def test_at_the_limit_residuals_decide():
    """The trace looks as if it needed few more landmarks than there may be."""
    trace = lambda rank: 1e6 * math.exp(-rank / 22)  # noqa: E731
    count, rank, _ = climb(trace, lambda rank: 0.1 if rank >= 300 else 5.0, most=300)
    assert (count.kind, rank) == ("sampled", 300)


def test_the_farthest_candidates_become_landmarks():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, 3))
    x[::100] += rng.choice([-40.0, 40.0], (30, 3)) + 4 * rng.standard_normal((30, 3))
    kernel = fm.RBF(0.5)
    backend = get_backend("auto", kernel)

    def searched():
        return LandmarkSearch(
            backend, kernel, x, np.ones(len(x)), 400, np.random.default_rng(1), np.zeros(3)
        )

    plain, far = searched(), searched()
    plain.grow(200)
    far.grow(100)
    far.take_farthest(200)
    assert far.rank == plain.rank == 200
    assert len(set(far.pivots)) == 200
    assert far.residual_diagonal.max() < 0.6 * plain.residual_diagonal.max()
    # Features and residuals still make up the kernel.
    np.testing.assert_allclose(
        (far.columns**2).sum(axis=0) + far.residual_diagonal, 1.0, atol=1e-12
    )
    low = far.columns.T @ far.columns
    np.testing.assert_allclose(low[far.pivots], kernel(x[far.pivots], x), atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_isolated_rows_outside_the_candidates_cost_no_second_pass(weighted, monkeypatch):
    monkeypatch.setattr(landmark_choice, "CANDIDATES", 1000)
    monkeypatch.setattr(landmark_choice, "ALL_CANDIDATES", 1000)
    rng = np.random.default_rng(2)
    n = 6000
    x = rng.standard_normal((n, 3))
    isolated = rng.choice(n, 60, replace=False)
    x[isolated] = rng.uniform(6, 40, (60, 3)) * rng.choice([-1, 1], (60, 3))
    mean = np.sin(x[:, 0])
    y = mean + 0.3 * rng.standard_normal(n)
    y[isolated[:20]] += 3
    weight = {}
    if weighted:
        weight["weights"] = rng.choice([0.0, 0.5, 1.0, 2.0], n)
        weight["weights"][isolated] = 1.0
    options = {"x_kernel": fm.RBF(0.1), "y_kernel": fm.RBF(0.5), "lam": 0.1, **weight}
    prediction = fm.Gaussian(mean, 0.3)
    low = fm.cce(x, y, prediction, tol=3e-4, solver="lowrank", certificate="sampled", **options)
    exact = fm.cce(x, y, prediction, tol=1e-5, solver="cg", **options)
    assert (np.abs(low.values - exact.values) <= low.error_bounds + exact.error_bounds).all()
    assert low.error_bounds.max() <= 3e-4
    assert low.info.passes == 2  # normal equations, and sampled residuals
    assert not any("continued with" in note for note in low.info.notes)


def test_one_output_of_large_residual_does_not_repeat_the_solve(monkeypatch):
    monkeypatch.setattr(lowrank_form, "POOL", 6000)
    solves = []
    solve = LowRank.solve
    monkeypatch.setattr(
        LowRank, "solve", lambda self, *args: solves.append(1) or solve(self, *args)
    )
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (12_000, 1))
    mean = np.sin(x[:, 0])
    y = mean + 0.3 * rng.standard_normal(len(x))
    middle = np.argsort(y)[10]  # neither the largest nor the smallest, and not in the pool
    y[middle] = y.min() + 0.02
    options = {"x_kernel": fm.RBF(1.0), "y_kernel": fm.RBF(20.0), "lam": 0.01}
    low = fm.cce(x, y, fm.Gaussian(mean, 0.3), solver="lowrank", tol=1e-5, **options)
    exact = fm.cce(x, y, fm.Gaussian(mean, 0.3), solver="cg", tol=1e-6, **options)
    assert len(solves) == 1
    assert low.error_bounds.max() <= 1e-5
    assert (np.abs(low.values - exact.values) <= low.error_bounds + exact.error_bounds).all()


def test_rounding_of_closed_forms_is_measured_at_the_outcomes():
    """Far candidates of the predictions are no outcomes; their coefficients made the bound 1e-5."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((6000, 2))
    mean, std = np.sin(2 * x[:, 0]), 0.5 + 0.3 * np.abs(x[:, 0])
    y = mean + std * rng.standard_normal(len(x))
    low = fm.cce(x, y, fm.Gaussian(mean, std), x_kernel=fm.RBF(0.05), solver="lowrank", tol=1e-6)
    exact = fm.cce(x, y, fm.Gaussian(mean, std), x_kernel=fm.RBF(0.05), solver="cg", tol=1e-6)
    assert low.error_bounds.max() <= 1e-6
    assert (np.abs(low.values - exact.values) <= low.error_bounds + exact.error_bounds).all()
