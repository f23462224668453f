"""The most probable class of rows that are read side by side, and of others."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd.classification as c
from fastmcmd.classification.inputs import read
from fastmcmd.classification.summary import summarize, top_classes


def tied_rows(rng, n, classes, dtype):
    """Return probabilities in eighths and sixteenths, of which many are equal."""
    counts = rng.multinomial(16, np.full(classes, 1 / classes), size=n)
    return (counts / 16).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3, 8, 9, 10, 16, 17, 40])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_the_first_of_the_most_probable_classes(rng, n, classes, dtype):
    p, labels = tied_rows(rng, n, classes, dtype), rng.integers(0, classes, n)
    rows = read(labels, p)
    for summary in (top_classes(rows), summarize(rows)[0]):
        np.testing.assert_array_equal(summary.predicted, p.argmax(axis=1))
        np.testing.assert_array_equal(summary.confidence, p.max(axis=1))
    assert c.accuracy(labels, p) == np.mean(p.argmax(axis=1) == labels)
    table = np.zeros((classes, classes))
    np.add.at(table, (labels, p.argmax(axis=1)), 1)
    np.testing.assert_array_equal(c.confusion_matrix(labels, p), table)


@pytest.mark.parametrize("n", [1, 40_000])
def test_two_classes_by_their_second_column(rng, n):
    p, labels = np.round(rng.random(n), 2), rng.integers(0, 2, n)
    both = np.stack([1 - p, p], axis=1)
    for actual, other in (
        (top_classes(read(labels, p)), summarize(read(labels, both))[0]),
        (top_classes(read(labels, p.astype(np.float32))), top_classes(read(labels, p))),
    ):
        np.testing.assert_array_equal(actual.predicted, other.predicted)
        np.testing.assert_allclose(actual.confidence, other.confidence, rtol=1e-7)
    np.testing.assert_array_equal(c.confusion_matrix(labels, p), c.confusion_matrix(labels, both))


@pytest.mark.parametrize("function", [c.accuracy, c.confusion_matrix, c.ece])
@pytest.mark.parametrize("classes", [3, 10, 17])
@pytest.mark.parametrize("bad", [-1e-9, 1.5, np.nan, np.inf])
def test_the_first_row_without_probabilities_is_named(rng, function, classes, bad):
    p, labels = rng.dirichlet(np.ones(classes), 20_003), np.zeros(20_003, dtype=np.int64)
    for row in (0, 5, 19_999, 20_002):
        wrong = p.copy()
        wrong[[row, min(row + 1, 20_002)], 1] = bad
        with pytest.raises(ValueError, match=rf"\b{row}\b"):
            function(labels, wrong)


def test_sums_of_rows_side_by_side_are_those_of_single_rows(rng):
    """The same rows are refused at the edge of the tolerance, wherever they lie."""
    p = rng.dirichlet(np.ones(10), 400)
    gaps = np.sort([np.abs(row.sum() - 1.0) for row in p])
    tolerance = float(gaps[gaps > 0][0])
    refused = []
    for row in p:
        outcomes = []
        for count in (1, 8):
            try:
                c.accuracy(
                    np.zeros(count, np.int64), np.tile(row, (count, 1)), sum_tolerance=tolerance
                )
                outcomes.append(False)
            except ValueError:
                outcomes.append(True)
        assert outcomes[0] == outcomes[1]
        refused.append(outcomes[0])
    assert any(refused)
    assert not all(refused)
