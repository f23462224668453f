"""Means of scores in batches equal those of all rows, for any batches in any order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd import metrics, streaming

N = 90

CASES = {
    "NLL": (streaming.NLL, metrics.nll, {}),
    "CRPS": (streaming.CRPS, metrics.mean_crps, {}),
    "CheckScore": (streaming.CheckScore, metrics.mean_check_score, {"levels": [0.1, 0.5]}),
    "IntervalScore": (streaming.IntervalScore, metrics.mean_interval_score, {"level": 0.8}),
    "WeightedIntervalScore": (
        streaming.WeightedIntervalScore,
        metrics.mean_weighted_interval_score,
        {},
    ),
    "DawidSebastiani": (streaming.DawidSebastiani, metrics.mean_dawid_sebastiani, {}),
}


def problem(seed):
    rng = np.random.default_rng(seed)
    y, mean, std = rng.normal(size=N), rng.normal(size=N), rng.uniform(0.5, 2, N)
    return y, mean, std, rng.integers(0, 3, N).astype(float)


@pytest.mark.parametrize("name", CASES)
@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=5, unique=True),
    seed=st.integers(0, 1000),
    weighted=st.booleans(),
    backwards=st.booleans(),
)
def test_any_batches(name, cuts, seed, weighted, backwards):
    kind, function, options = CASES[name]
    y, mean, std, weights = problem(seed)
    weights[0] = weights[-1] = 1.0
    expected = function(y, (mean, std), sample_weight=weights if weighted else None, **options)
    parts = []
    for rows in np.split(np.arange(N), sorted(cuts)):
        batch = weights[rows] if weighted else None
        if weighted and not batch.any():
            continue
        parts.append(kind(**options).update(y[rows], (mean[rows], std[rows]), batch))
    merged = kind(**options)
    for part in reversed(parts) if backwards else parts:
        merged.merge(part)
    assert merged.compute() == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert repr(merged).startswith(f"{name}(")


def test_vector_scores(rng):
    y, draws = rng.normal(size=(30, 3)), rng.normal(size=(30, 12, 3))
    for kind, function in (
        (streaming.EnergyScore, metrics.mean_energy_score),
        (streaming.VariogramScore, metrics.mean_variogram_score),
    ):
        accumulator = kind().update(y[:10], draws[:10]).update(y[10:], draws[10:])
        assert accumulator.compute() == pytest.approx(function(y, draws), rel=1e-12)
        fair = kind(estimator="fair").update(y[:10], draws[:10]).update(y[10:], draws[10:])
        assert fair.compute() == pytest.approx(function(y, draws, estimator="fair"), rel=1e-12)
    first_column = streaming.WeightedIntervalScore(levels=[0.5, 0.9]).update(
        y[:, 0], draws[:, :, 0]
    )
    expected = metrics.mean_weighted_interval_score(y[:, 0], draws[:, :, 0], levels=[0.5, 0.9])
    assert first_column.compute() == pytest.approx(expected)


def test_estimators_of_draws(rng):
    y, draws = rng.normal(size=30), rng.normal(size=(30, 6))
    accumulator = streaming.CRPS(estimator="fair").update(y[:7], draws[:7]).update(y[7:], draws[7:])
    assert accumulator.compute() == pytest.approx(metrics.mean_crps(y, draws, estimator="fair"))
    with pytest.raises(ValueError, match="they must agree"):
        accumulator.merge(streaming.CRPS(estimator="nrg"))


def test_a_score_of_ones_own():
    accumulator = streaming.MeanOf(lambda y, prediction: np.abs(y - prediction.mean))
    accumulator.update([0.0, 3.0], ([0.0, 1.0], 1.0))
    assert accumulator.compute() == 1.0


def test_infinite_scores_are_counted():
    accumulator = (
        streaming.NLL().update([1.0, 0.5], fm.Poisson([1.0, 1.0])).update([2.0], fm.Poisson([1.0]))
    )
    assert accumulator.compute() == np.inf
    assert accumulator.infinite == 1
    assert streaming.NLL().infinite == 0
    weighted = streaming.NLL().update([1.0, 0.5], fm.Poisson([1.0, 1.0]), [1.0, 0.0])
    assert weighted.compute() == pytest.approx(1.0)


def test_nan_and_errors():
    y = [0.0, np.nan, 1.0]
    with pytest.raises(ValueError, match="y holds NaN"):
        streaming.CRPS().update(y, (np.zeros(3), 1.0))
    omit = streaming.CRPS(nan_policy="omit").update(y, (np.zeros(3), 1.0))
    assert omit.compute() == pytest.approx(metrics.mean_crps([0.0, 1.0], (np.zeros(2), 1.0)))
    with_nan = streaming.CRPS(nan_policy="propagate").update(y, (np.zeros(3), 1.0))
    assert np.isnan(with_nan.update([1.0], ([0.0], 1.0)).compute())
    with pytest.raises(ValueError, match="CRPS has seen no rows; call update first"):
        streaming.CRPS().compute()
    with pytest.raises(TypeError, match="other is a NLL; a CRPS is needed"):
        streaming.CRPS().merge(streaming.NLL())
    with pytest.raises(ValueError, match="nan_policy is 'skip'"):
        streaming.CRPS(nan_policy="skip")
    accumulator = streaming.CRPS().update([1.0], ([0.0], 1.0))
    before = accumulator.compute()
    with pytest.raises(ValueError, match="std has values down to -1"):
        accumulator.update([1.0], ([0.0], -1.0))
    assert accumulator.compute() == before  # an error leaves it as it was
    with pytest.raises(ValueError, match="seen no rows"):
        accumulator.reset().compute()


def exact_accuracy(y, point):
    """Return R^2 and the squared correlation in fractions."""
    y, point = ([Fraction(float(value)) for value in values] for values in (y, point))
    from_y, from_point = ([v - sum(values) / len(values) for v in values] for values in (y, point))
    squares, squares_point = sum(v * v for v in from_y), sum(v * v for v in from_point)
    products = sum(a * b for a, b in zip(from_y, from_point, strict=True))
    errors = sum((a - b) ** 2 for a, b in zip(y, point, strict=True))
    return float(1 - errors / squares), float(products**2 / squares / squares_point)


def in_batches(accumulator, y, prediction):
    parts = [
        accumulator().update(y[rows], prediction.take(rows))
        for rows in np.array_split(np.arange(len(y)), 9)
    ]
    total = parts.pop()
    for part in parts:
        total.merge(part)
    return total.compute()


@pytest.mark.parametrize(("offset", "scale"), [(1e6, 0.01), (1e12, 3e3), (1e15, 1e3), (-1e9, 1e-3)])
def test_values_far_from_zero_lose_no_digits_in_batches(rng, offset, scale):
    point = offset + scale * rng.normal(size=70)
    y = point + scale * rng.normal(size=70)
    prediction = fm.Gaussian(point, 1.0)
    r2, squared_correlation = exact_accuracy(y, point)
    for value in (in_batches(streaming.R2, y, prediction), metrics.r2(y, prediction)):
        assert value == pytest.approx(r2, rel=1e-12)
    for value in (in_batches(streaming.Pearson, y, prediction), metrics.pearson(y, prediction)):
        assert value**2 == pytest.approx(squared_correlation, rel=1e-12)


@pytest.mark.parametrize("spread", [1e-8, 1e-12])
def test_standard_deviations_that_are_almost_equal(rng, spread):
    std = 1 + spread * rng.normal(size=70)
    mean = sum(map(Fraction, std)) / 70
    exact = float(sum((Fraction(s) / mean - 1) ** 2 for s in std) / 69) ** 0.5
    y, prediction = np.zeros(70), fm.Gaussian(np.zeros(70), std)
    assert metrics.variance_variation(y, prediction) == pytest.approx(exact, rel=1e-12, abs=0)
    assert in_batches(streaming.VarianceVariation, y, prediction) == pytest.approx(
        exact, rel=1e-12, abs=0
    )


@pytest.mark.parametrize("weight", [None, np.array([0.0, 0.3, 0.1, 0.7, 1e-3, 3.0, 1.1])])
def test_equal_standard_deviations_do_not_vary(weight):
    std = np.full(7, 0.1)
    if weight is not None:
        std[0] = 5.0
    y = np.zeros(7)
    assert metrics.variance_variation(y, (y, std), sample_weight=weight) == 0
    if weight is None:
        assert (
            in_batches(streaming.VarianceVariation, np.zeros(70), fm.Gaussian(np.zeros(70), 0.1))
            == 0
        )
