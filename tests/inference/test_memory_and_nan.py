"""`memory_limit` and `nan_policy` of the exact test: allocated bytes, and rows left out."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.errors import MemoryLimitError
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.outcome_features import ladder_of_outcomes, landmark_features
from fastmcmd.inference.smoother import Smoother
from fastmcmd.inference.statistics import ClusterSigns, project


def problem(n: int, d: int = 2, seed: int = 0) -> tuple[Any, Any, fm.Gaussian]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, x[:, 0] + rng.normal(size=n), fm.Gaussian(x[:, 0], 1.0)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "many simulations": {"simulations": 399},
    "points": {"at": np.zeros((1_000, 2))},
    "largest row": {"statistic": "max"},
    "relevance": {"null": "relevant", "delta": 0.1},
    "forecast": {"condition_on": "forecast"},
    "clusters": {"groups": np.arange(1_000) // 50},
    "weights": {"weights": np.arange(1_000.0)},
    "a rough kernel": {"y_kernel": fm.Laplacian(1.0)},
}


def peak_bytes(call: Any) -> int:
    call()  # allocations made once per process do not count
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_peak_memory_is_within_the_limit(name: str) -> None:
    x, y, model = problem(1_000)
    limit = 50_000_000 if name == "many simulations" else 24_000_000
    options = {"simulations": 99, **OPTIONS[name]}

    def call() -> fm.CongruenceTest:
        return fm.congruence_test(x, y, model, memory_limit=limit, **options)

    assert peak_bytes(call) <= limit


def test_peak_memory_of_vectors_and_draws_is_within_the_limit() -> None:
    rng = np.random.default_rng(0)
    x, y, _ = problem(700)
    members = x[:, :1] + rng.normal(size=(len(x), 50))
    vectors = x[:, :1, None] + rng.normal(size=(len(x), 10, 3))
    cases = ((y, fm.Draws(members)), (vectors[:, 0], fm.Draws(vectors[:, 1:])))
    for case in cases:
        call = partial(fm.congruence_test, x, *case, simulations=99, memory_limit="40MB")
        peak = peak_bytes(call)
        assert peak <= 40_000_000


def test_a_small_limit_changes_nothing_but_rounding() -> None:
    x, y, model = problem(900)
    unlimited = fm.congruence_test(x, y, model, at=x[:20], simulations=99)
    limited = fm.congruence_test(x, y, model, at=x[:20], simulations=99, memory_limit="24MB")
    assert limited.p_value == unlimited.p_value
    np.testing.assert_allclose(limited.simulated, unlimited.simulated, rtol=1e-4)
    assert unlimited.rows is not None
    assert limited.rows is not None
    np.testing.assert_allclose(limited.rows.values, unlimited.rows.values, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("signs", [False, True])
def test_sums_of_chunks_are_those_of_blocks(signs: bool) -> None:
    x, y, model = problem(700)
    rng = np.random.default_rng(1)
    outcomes = exchangeable_outcomes(y[:, None], model, 19, 0)
    kinds = [*ladder_of_outcomes(outcomes.of_some_rows())]
    kinds.append(landmark_features(fm.Laplacian(1.0), outcomes.of_some_rows(), rng, "y"))
    weights = rng.exponential(size=700)
    weights /= weights.mean()
    basis = Smoother.of(fm.RBF(0.5), x, 50).basis(x, weights)
    flips = ClusterSigns.random(np.arange(700) // 20, 20, rng) if signs else None
    one, other = (
        project(
            outcomes, kinds, basis, x, basis.energy(0.01), Progress(False, 0.0), weights=weights,
            signs=flips, keep_residuals=True, chunk=chunk, threads=threads,
        )
        for chunk, threads in ((512, 2), (7, 1))
    )  # fmt: skip
    for a, b in zip(one.outcomes, other.outcomes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    for name in ("spread", "dispersion", "noise", "extreme", "residuals"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_too_small_a_limit_says_what_is_needed() -> None:
    x, y, model = problem(500)
    with pytest.raises(MemoryLimitError, match=r"memory_limit is 1 MB.*needed for 500 rows"):
        fm.congruence_test(x, y, model, memory_limit="1MB")
    with pytest.raises(ValueError, match="memory_limit"):
        fm.congruence_test(x, y, model, memory_limit="much")


def with_nan(name: str) -> tuple[dict[str, Any], Any]:
    """Return arguments of which one holds NaN in rows 3 and 40, and a mask of the other rows."""
    rng = np.random.default_rng(2)
    x, y, _ = problem(120)
    arguments: dict[str, Any] = {
        "x": x, "y": y, "prediction": (x[:, 0].copy(), np.ones(120)),
        "weights": rng.exponential(size=120), "condition_on": rng.normal(size=(120, 2)),
    }  # fmt: skip
    valid = np.ones(120, dtype=bool)
    valid[[3, 40]] = False
    if name == "mean":
        arguments["prediction"][0][~valid] = np.nan
    elif name == "draws":
        draws = x[:, :1] + rng.normal(size=(120, 9))
        draws[3, 4] = draws[40, 0] = np.nan
        arguments["prediction"] = draws
    elif name == "groups":
        del arguments["condition_on"]
        labels = np.array([f"patient {i // 4}" for i in range(120)], dtype=object)
        labels[[3, 40]] = None, np.nan
        arguments["groups"] = labels
    else:
        arguments[name] = arguments[name].copy()
        arguments[name][~valid] = np.nan
    return arguments, valid


@pytest.mark.parametrize("name", ["x", "y", "weights", "condition_on", "mean", "draws", "groups"])
def test_rows_with_nan_are_refused_or_left_out(name: str) -> None:
    arguments, valid = with_nan(name)
    with pytest.raises(ValueError, match="label" if name == "groups" else "(?i)nan|finite"):
        fm.congruence_test(**arguments)
    omitted = fm.congruence_test(**arguments, nan_policy="omit")
    valid_arguments = {
        key: tuple(part[valid] for part in value) if isinstance(value, tuple) else value[valid]
        for key, value in arguments.items()
    }
    expected = fm.congruence_test(**valid_arguments)
    assert omitted.n == 118
    assert omitted.p_value == expected.p_value
    np.testing.assert_array_equal(omitted.simulated, expected.simulated)


def test_nothing_is_left_out_without_nan() -> None:
    x, y, model = problem(80)
    one, other = (
        fm.congruence_test(x, y, model, nan_policy=policy) for policy in ("raise", "omit")
    )
    assert other.n == 80
    np.testing.assert_array_equal(one.simulated, other.simulated)


def test_bad_policies_and_rows() -> None:
    x, y, model = problem(60)
    with pytest.raises(ValueError, match="nan_policy"):
        fm.congruence_test(x, y, model, nan_policy="propagate")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="all 60 rows hold NaN"):
        fm.congruence_test(x, y * np.nan, model, nan_policy="omit")
    with pytest.raises(ValueError, match=r"infinit|finite"):
        fm.congruence_test(x, np.where(y > 0, np.inf, y), model, nan_policy="omit")
    with pytest.raises(ValueError, match=r"weights"):
        fm.congruence_test(
            x, np.where(y > 1, np.nan, y), model, weights=np.ones(3), nan_policy="omit"
        )
    with pytest.raises(ValueError, match=r"infinit|finite"):  # is not a NaN
        fm.congruence_test(
            np.where(x > 2, np.inf, x), np.where(y > 9, np.nan, y), model, nan_policy="omit"
        )


@pytest.mark.slow
def test_size_with_rows_left_out() -> None:
    """Rows that are missing at random, or by x, do not make right models look wrong."""
    rejected = 0
    for run in range(60):
        rng = np.random.default_rng([5, run])
        x = rng.normal(size=80)
        y = x + rng.normal(size=80)
        y[(rng.random(80) < 0.2) | (x > 1.2)] = np.nan
        test = fm.congruence_test(
            x, y, fm.Gaussian(x, 1.0), simulations=19, nan_policy="omit", random_state=[5, run]
        )
        rejected += test.p_value <= 0.05
    assert rejected <= 9  # binomial(60, .05): above with probability 0.1 %
