"""Text labels are the names of the classes."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm

c = fm.classification
NAMES = np.array(["emu", "cat", "dog"])  # class 0, 1, 2 of no order in particular
FUNCTIONS = [
    c.accuracy, c.nll, c.mean_brier_score, c.ece, c.mce, c.classwise_ece, c.adaptive_ece, c.auroc,
    c.mean_ranked_probability_score,
]  # fmt: skip


@pytest.fixture
def sample(rng):
    p = rng.dirichlet([1.0, 2.0, 1.0], 150)
    return np.array([rng.choice(3, p=row) for row in p]), p


def number(result):
    return float(getattr(result, "macro", result))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_sorted_names_stand_for_the_columns(sample, function):
    y, p = sample
    names = np.sort(NAMES)
    expected = number(function(y, p))
    for labels in (names[y], names[y].astype(object), names[y].tolist(), np.char.encode(names[y])):
        assert number(function(labels, p)) == expected


def test_as_scikit_learn(sample):
    sklearn = pytest.importorskip("sklearn.metrics")
    y, p = sample
    labels = NAMES[y]
    order = np.argsort(NAMES)
    assert c.nll(labels, p[:, order]) == pytest.approx(
        sklearn.log_loss(labels, p[:, order]), rel=1e-12
    )


def test_columns_of_a_data_frame_name_the_classes(sample):
    pandas = pytest.importorskip("pandas")
    y, p = sample
    for order in ([0, 1, 2], [2, 0, 1]):
        table = pandas.DataFrame(p[:, order], columns=NAMES[order])
        assert c.nll(NAMES[y], table) == pytest.approx(c.nll(y, p), rel=1e-14)
        assert c.accuracy(pandas.Series(NAMES[y]).astype("category"), table) == c.accuracy(y, p)
    some = y != 2  # a class that does not occur
    table = pandas.DataFrame(p, columns=NAMES)
    assert c.nll(NAMES[y[some]], table[some]) == pytest.approx(c.nll(y[some], p[some]), rel=1e-14)
    unnamed = pandas.DataFrame(p[:, np.argsort(NAMES)])  # its columns are 0, 1, 2
    assert c.nll(NAMES[y], unnamed) == pytest.approx(c.nll(y, p), rel=1e-14)


def test_of_two_classes_the_later_name_is_class_1(rng):
    p = rng.uniform(size=60)
    y = rng.uniform(size=60) < p
    assert c.nll(np.where(y, "yes", "no"), p) == c.nll(y, p)
    assert c.evaluate(np.where(y, "yes", "no"), p).to_dict() == c.evaluate(y, p).to_dict()


def test_missing_labels_follow_the_policy(sample):
    y, p = sample
    labels = np.sort(NAMES)[y].astype(object)
    labels[[3, 8]] = None, np.nan
    with pytest.raises(ValueError, match=r"y\[3\] is nan, a missing label; nan_policy"):
        c.nll(labels, p)
    valid = np.delete(np.arange(len(y)), [3, 8])
    assert c.nll(labels, p, nan_policy="omit") == c.nll(y[valid], p[valid])
    assert np.isnan(c.nll(labels, p, nan_policy="propagate"))


def test_what_is_ambiguous_is_refused(sample):
    pandas = pytest.importorskip("pandas")
    y, p = sample
    some = y != 2
    with pytest.raises(ValueError, match=r"2 different labels .'cat', 'emu'. and p has 3 classes"):
        c.nll(NAMES[y[some]], p[some])
    with pytest.raises(ValueError, match="numbers as text, such as '0'"):
        c.nll(y.astype(str), p)
    with pytest.raises(ValueError, match="'emu', which is no column of p; its columns are 'bee'"):
        c.nll(NAMES[y], pandas.DataFrame(p, columns=["bee", "cat", "dog"]))
    with pytest.raises(TypeError, match=r"y\[1\] is 7 and other labels are text"):
        c.nll(np.array(["cat", 7, "dog"], dtype=object), p[:3])
    with pytest.raises(ValueError, match="rows must match"):
        c.nll(np.sort(NAMES)[y][:-1], p)


def test_accumulators_take_names(sample):
    pandas = pytest.importorskip("pandas")
    y, p = sample
    table = pandas.DataFrame(p, columns=NAMES)
    accumulator = fm.streaming.ClassificationECE()
    for start in range(0, len(y), 10):  # a class is missing in some batches
        rows = slice(start, start + 10)
        accumulator.update(NAMES[y[rows]], table[rows])
    assert accumulator.compute() == pytest.approx(c.ece(y, p), rel=1e-12)


@pytest.mark.parametrize("columns", [[1, 2, 3], [2, 0, 1], [10, 20, 30], [0.5, -1.0, 2.0]], ids=str)
def test_columns_that_are_numbers_name_the_classes(sample, columns):
    """Labels 1 to C were read as indices 0 to C - 1 if the last one did not occur."""
    pandas = pytest.importorskip("pandas")
    y, p = sample
    labels, table = np.array(columns)[y], pandas.DataFrame(p, columns=columns)
    some = y != 2
    assert c.nll(labels, table) == pytest.approx(c.nll(y, p), rel=1e-14)
    assert c.nll(labels[some], table[some]) == pytest.approx(c.nll(y[some], p[some]), rel=1e-14)
    missing = np.where(np.arange(len(y)) == 4, np.nan, labels)
    valid = np.delete(np.arange(len(y)), 4)
    assert c.nll(missing, table, nan_policy="omit") == pytest.approx(c.nll(y[valid], p[valid]))
    with pytest.raises(ValueError, match=r"y\[0\] is 77, which is no column of p"):
        c.nll(np.where(np.arange(len(y)) == 0, 77, labels), table)
