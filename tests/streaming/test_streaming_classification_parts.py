"""Curves, histograms and decompositions in batches are those of all rows."""

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
        whole = function(y, p, sample_weight=weights if weighted else None, **options)
        parts = []
        for rows in batches(cuts):
            batch = weights[rows] if weighted else None
            if weighted and not batch.any():
                continue
            parts.append(kind(**options).update(y[rows], p[rows], batch))
        merged = kind(**options)
        for part in reversed(parts) if backwards else parts:
            merged.merge(part)
        found = merged.compute()
        if isinstance(whole, float):
            assert found == pytest.approx(whole, rel=1e-12)
        elif isinstance(whole, classification.BrierDecomposition):
            for name in ("uncertainty", "resolution", "reliability", "within_variance", "score"):
                assert getattr(found, name) == pytest.approx(getattr(whole, name), abs=1e-13)
        else:
            np.testing.assert_allclose(found.accuracy, whole.accuracy, rtol=1e-12)
            np.testing.assert_allclose(found.weight, whole.weight)
            if not weighted:  # batches of weight 0 were not seen
                np.testing.assert_array_equal(found.count, whole.count)


@pytest.mark.parametrize("of", ["entropy", "confidence"])
def test_histograms(of):
    _, p, weights = problem(3, 4)
    _, q, _ = problem(4, 4)
    whole = classification.uncertainty_histogram(p, q, of=of, bins=6, weight_in=weights)
    seen = streaming.UncertaintyHistogram(of, bins=6)
    seen.update(p[:30], q[:70], weights[:30]).update(p[30:], q[70:], weights[30:])
    np.testing.assert_allclose(seen.compute().inside, whole.inside)
    np.testing.assert_allclose(seen.compute().outside, whole.outside)
    np.testing.assert_array_equal(seen.compute().edges, whole.edges)
    with pytest.raises(ValueError, match="p_in has 2 classes, batches before had 4"):
        seen.update(p[:, :2] / p[:, :2].sum(1, keepdims=True), [[0.5, 0.5]])
    with pytest.raises(ValueError, match="of is 'variance'"):
        streaming.UncertaintyHistogram("variance")


def test_settings_must_agree():
    one = streaming.AccuracyAboveConfidence([0.1]).update([0], [0.2])
    with pytest.raises(ValueError, match="they must agree"):
        one.merge(streaming.AccuracyAboveConfidence([0.2]))
    with pytest.raises(ValueError, match="p holds NaN"):
        streaming.BrierDecomposition().update([0], [np.nan])
