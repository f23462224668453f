"""Counts of concordant pairs, and summaries of two classes, against plain double loops."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import _core, metrics


def plain_counts(rank, until):
    """Return twice the number of greater ranks among the first rows, plus the number of equal ones."""
    return [
        2 * int((rank[:end] > rank_here).sum()) + int((rank[:end] == rank_here).sum())
        for rank_here, end in zip(rank, until, strict=True)
    ]


@pytest.mark.parametrize(("n", "ranks"), [(1, 1), (2, 1), (7, 3), (64, 64), (500, 20), (500, 500)])
def test_counts_of_pairs(rng, n, ranks):
    rank = rng.integers(0, ranks, n)
    until = np.sort(rng.integers(0, n + 1, n))
    counts = np.full(n, -1)
    _core.count_pairs(rank, until, np.zeros(ranks + 1, np.int64), np.zeros(ranks, np.int64), counts)
    assert counts.tolist() == plain_counts(rank, until)


def test_concordance_of_many_ties(rng):
    n = 300
    y, event = rng.integers(1, 6, n) * 1.0, rng.random(n) < 0.5
    predicted = rng.integers(0, 4, n) * 1.0
    earlier = (y[:, None] < y) | ((y[:, None] == y) & ~event)
    comparable = event[:, None] & earlier
    gap = predicted - predicted[:, None]
    expected = (comparable * ((gap > 0) + (gap == 0) / 2)).sum() / comparable.sum()
    assert metrics.concordance_index(y, predicted, event=event) == pytest.approx(
        expected, rel=1e-14
    )


def test_concordance_of_extreme_predictions():
    y, event = [1.0, 2.0, 3.0], [1, 1, 1]
    assert metrics.concordance_index(y, [-1e308, 0.0, 1e308], event=event) == 1.0
    assert metrics.concordance_index(y, [5e-324, 0.0, -5e-324], event=event) == 0.0
    assert metrics.concordance_index(y, [0.0, -0.0, 0.0], event=event) == 0.5


def test_concordance_does_not_depend_on_threads_or_order_of_rows(rng):
    n = 2000
    y, predicted = rng.exponential(size=n), np.round(rng.normal(size=n), 1)
    event = rng.random(n) < 0.6
    mixed = rng.permutation(n)
    before = fm.get_num_threads()
    results = set()
    try:
        for threads in (1, 2):
            fm.set_num_threads(threads)
            results.add(metrics.concordance_index(y, predicted, event=event))
            results.add(metrics.concordance_index(y[mixed], predicted[mixed], event=event[mixed]))
    finally:
        fm.set_num_threads(before)
    assert len(results) == 1  # counts are whole numbers


def summary_of_pairs(p, labels):
    """Call the loop and return its arrays."""
    n, kinds = len(p), (np.int32, float, float, float, np.int32, np.int32, np.int32)
    arrays = [np.zeros(n, dtype=kind) for kind in kinds]
    return _core.summarize_pairs(p, labels, *arrays), arrays


def test_summaries_of_two_classes_are_those_of_rows(rng):
    p = np.concatenate([rng.random(500), [0.0, 0.5, 1.0, 0.0, 0.5, 1.0, 5e-324, 1 - 2**-53]])
    labels = np.concatenate([rng.integers(0, 2, 500), [0, 0, 0, 1, 1, 1, 1, 0]])
    bad, arrays = summary_of_pairs(p, labels)
    assert bad == -1
    expected = [np.zeros_like(array) for array in arrays]
    assert _core.summarize_rows(np.stack([1 - p, p], axis=1), labels, 1e-6, *expected) == -1
    for actual, other in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(actual, other)


@pytest.mark.parametrize("bad", [-1e-300, 1 + 2**-52, np.nan, np.inf, -np.inf])
def test_the_first_number_that_is_no_probability(rng, bad):
    p = rng.random(40_000)
    p[[31_111, 39_000]] = bad
    assert summary_of_pairs(p, np.zeros(len(p), np.int64))[0] == 31_111
    labels = np.zeros(len(p), np.int64)
    for score in (
        fm.classification.brier_score,
        fm.classification.log_score,
        fm.classification.accuracy,
    ):
        with pytest.raises(ValueError, match="31111"):
            score(labels, p)


@pytest.mark.parametrize("n", [1, 8191, 8192, 8193, 300_000])
def test_scores_of_blocks_of_two_classes(rng, n):
    p, labels = rng.random(n), rng.integers(0, 2, n)
    label_p = np.where(labels == 1, p, 1 - p)
    np.testing.assert_array_equal(fm.classification.log_score(labels, p), -np.log(label_p))
    np.testing.assert_allclose(
        fm.classification.brier_score(labels, p), (p - labels) ** 2, rtol=1e-15
    )
    assert fm.classification.accuracy(labels, p) == np.mean((p > 1 - p) == labels)
    hits = fm.classification.accuracy(labels, np.stack([1 - p, p], axis=1))
    assert hits == fm.classification.accuracy(labels, p)


@pytest.mark.parametrize("classes", [2, 3, 8, 10, 16, 17, 40])
def test_summaries_of_narrow_and_wide_rows(rng, classes):
    p = rng.integers(0, 4, (200, classes)) + 0.0
    p[:, 0] += 1
    p /= p.sum(axis=1, keepdims=True)
    labels = rng.integers(0, classes, 200)
    label_p = p[np.arange(200), labels]
    squares = (p**2).sum(axis=1) - label_p**2 + (1 - label_p) ** 2
    score = fm.classification.brier_score(labels, p, scale_by_half=False)
    np.testing.assert_allclose(score, squares, rtol=1e-12)
    assert fm.classification.accuracy(labels, p) == np.mean(p.argmax(axis=1) == labels)
