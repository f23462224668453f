"""Curves, histograms and decompositions in batches equal those of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmcmd import classification, streaming

N = 80


def problem(seed, classes):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), N)
    y = np.array([rng.choice(classes, p=row) for row in p])
    return y, p, rng.integers(0, 3, N).astype(float) + (np.arange(N) % 7 == 0)


def batches(cuts):
    return [rows for rows in np.split(np.arange(N), sorted(cuts)) if len(rows)]


@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=4, unique=True),
    seed=st.integers(0, 500),
    classes=st.integers(2, 5),
    weighted=st.booleans(),
    backwards=st.booleans(),
)
def test_any_batches(cuts, seed, classes, weighted, backwards):
    y, p, weights = problem(seed, classes)
    pairs = (
        (streaming.RankedProbabilityScore, classification.mean_ranked_probability_score, {}),
        (streaming.BrierDecomposition, classification.brier_decomposition, {"bins": 4}),
        (
            streaming.AccuracyAboveConfidence,
            classification.accuracy_above_confidence,
            {"thresholds": [0.9, 0.0, 0.5]},
        ),
    )
    for kind, function, options in pairs:
        expected = function(y, p, sample_weight=weights if weighted else None, **options)
        parts = []
        for rows in batches(cuts):
            batch = weights[rows] if weighted else None
            if weighted and not batch.any():
                continue
            parts.append(kind(**options).update(y[rows], p[rows], batch))
        merged = kind(**options)
        for part in reversed(parts) if backwards else parts:
            merged.merge(part)
        value = merged.compute()
        if isinstance(expected, float):
            assert value == pytest.approx(expected, rel=1e-12)
        elif isinstance(expected, classification.BrierDecomposition):
            for name in ("uncertainty", "resolution", "reliability", "within_variance", "score"):
                assert getattr(value, name) == pytest.approx(getattr(expected, name), abs=1e-13)
        else:
            np.testing.assert_allclose(value.accuracy, expected.accuracy, rtol=1e-12)
            np.testing.assert_allclose(value.weight, expected.weight)
            if not weighted:  # batches of weight 0 leave no trace
                np.testing.assert_array_equal(value.count, expected.count)


@pytest.mark.parametrize("of", ["entropy", "confidence"])
def test_histograms(of):
    _, p, weights = problem(3, 4)
    _, q, _ = problem(4, 4)
    expected = classification.uncertainty_histogram(p, q, of=of, bins=6, weight_in=weights)
    accumulator = streaming.UncertaintyHistogram(of, bins=6)
    accumulator.update(p[:30], q[:70], weights[:30]).update(p[30:], q[70:], weights[30:])
    np.testing.assert_allclose(accumulator.compute().inside, expected.inside)
    np.testing.assert_allclose(accumulator.compute().outside, expected.outside)
    np.testing.assert_array_equal(accumulator.compute().edges, expected.edges)
    with pytest.raises(ValueError, match="p_in has 2 classes, batches before had 4"):
        accumulator.update(p[:, :2] / p[:, :2].sum(1, keepdims=True), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="of is 'variance'"):
        streaming.UncertaintyHistogram("variance")


def test_settings_must_agree():
    one = streaming.AccuracyAboveConfidence([0.1]).update([0], [0.2])
    with pytest.raises(ValueError, match="they must agree"):
        one.merge(streaming.AccuracyAboveConfidence([0.2]))
    with pytest.raises(ValueError, match="p holds NaN"):
        streaming.BrierDecomposition().update([0], [np.nan])
