"""Accuracy, proper scores and the Brier decomposition agree with scikit-learn and with definitions."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from builders import labelled
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

import fastmcmd.classification as c

KINDS = st.sampled_from([np.float32, np.float64])


PROBLEMS = st.builds(
    labelled, st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 7), KINDS, st.booleans()
)


@given(PROBLEMS)
def test_accuracy_is_that_of_scikit_learn(data):
    y, p, w = data
    assert c.accuracy(y, p) == pytest.approx(sk.accuracy_score(y, p.argmax(axis=1)), abs=1e-15)
    expected = sk.accuracy_score(y, p.argmax(axis=1), sample_weight=w)
    assert c.accuracy(y, p, sample_weight=w) == pytest.approx(expected, abs=1e-15)


@given(PROBLEMS, st.integers(1, 6))
def test_top_k_accuracy_is_that_of_scikit_learn_with_the_last_of_equals_first(data, k):
    y, p, w = data
    classes = p.shape[1]
    if classes == 2 or k >= classes:
        assert c.top_k_accuracy(y, p, k=classes) == 1.0
        return
    expected = sk.top_k_accuracy_score(y, p, k=k, labels=np.arange(classes), sample_weight=w)
    value = c.top_k_accuracy(y, p, k=k, sample_weight=w, ties="last")
    assert value == pytest.approx(expected, abs=1e-15)
    first = np.argsort(-p, axis=1, kind="stable")[:, :k] == y[:, None]
    assert c.top_k_accuracy(y, p, k=k) == pytest.approx(first.any(axis=1).mean(), abs=1e-15)


def test_shared_ties_are_the_mean_over_random_orders(rng):
    y, p, _ = labelled(3, 200, 5, tied=True)
    for k in (1, 2, 3):
        hits = []
        for _ in range(2000):
            order = rng.permutation(5)
            ranked = order[np.argsort(-p[:, order], axis=1, kind="stable")][:, :k]
            hits.append((ranked == y[:, None]).any(axis=1).mean())
        share = c.top_k_accuracy(y, p, k=k, ties="share")
        assert abs(share - np.mean(hits)) < 4 * np.std(hits) / np.sqrt(len(hits))
        first, last = (c.top_k_accuracy(y, p, k=k, ties=ties) for ties in ("first", "last"))
        assert np.std(hits) > 0  # makes ties that have to be broken
        assert first != last


def test_ties_are_an_error_on_request():
    p = [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.25, 0.5, 0.25]]
    with pytest.raises(
        ValueError, match="1 rows have equally probable classes, the first is row 1"
    ):
        c.accuracy([0, 1, 2], p, ties="raise")
    assert (
        c.accuracy([0, 2, 2], p, ties="raise") == 1 / 3
    )  # no label is in the tie for the first place


@given(PROBLEMS)
def test_top_1_is_accuracy_for_all_ways_of_breaking_ties(data):
    y, p, w = data
    for ties in ("first", "last", "share"):
        one = c.top_k_accuracy(y, p, k=1, ties=ties, sample_weight=w)
        assert one == c.accuracy(y, p, ties=ties, sample_weight=w)


@given(PROBLEMS)
def test_confusion_matrix_is_that_of_scikit_learn(data):
    y, p, w = data
    labels = np.arange(p.shape[1])
    expected = sk.confusion_matrix(y, p.argmax(axis=1), labels=labels, sample_weight=w)
    np.testing.assert_array_equal(c.confusion_matrix(y, p, sample_weight=w), expected)


@given(PROBLEMS)
def test_nll_is_that_of_scikit_learn_with_its_clipping(data):
    y, p, w = data
    labels = np.arange(p.shape[1])
    expected = sk.log_loss(y, p, labels=labels, sample_weight=w)
    scores = c.nll(y, p, sample_weight=w, clip=np.finfo(p.dtype).eps)
    assert scores == pytest.approx(
        expected, rel=1e-12 if p.dtype == np.float64 else 2e-6, abs=1e-15
    )
    q = p[np.arange(len(y)), y].astype(float)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(c.log_score(y, p), 0.0 - np.log(q))
        assert c.nll(y, p) == pytest.approx(-np.log(q).mean(), rel=1e-13)


def test_impossible_labels_score_infinity_and_are_counted():
    y, p = [0, 1, 1, 0], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    assert c.log_score(y, p)[[1, 3]].tolist() == [np.inf, np.inf]
    assert c.nll(y, p) == np.inf
    assert c.evaluate(y, p).impossible == 2
    assert c.evaluate(y, p, clip=1e-6).impossible == 2
    assert np.isfinite(c.evaluate(y, p, clip=1e-6).nll)
    without = [1, 0, 3, 0]  # rows of weight zero do not count
    assert c.nll(y, p, sample_weight=without) == pytest.approx(3 * np.log(2) / 4, rel=1e-15)
    assert c.evaluate(y, p, sample_weight=without).impossible == 0


@given(PROBLEMS)
def test_brier_score_is_that_of_scikit_learn(data):
    y, p, w = data
    labels = np.arange(p.shape[1])
    for half in (True, False, "auto"):
        expected = sk.brier_score_loss(y, p, labels=labels, sample_weight=w, scale_by_half=half)
        score = c.mean_brier_score(y, p, sample_weight=w, scale_by_half=half)
        assert score == pytest.approx(expected, rel=1e-12 if p.dtype == np.float64 else 1e-5)
    hot = np.eye(p.shape[1])[y]
    expected = ((p.astype(float) - hot) ** 2).sum(axis=1)
    np.testing.assert_allclose(c.brier_score(y, p, scale_by_half=False), expected, rtol=1e-13)


@given(st.integers(0, 2**32 - 1), st.integers(2, 60), KINDS)
def test_probability_of_class_1_is_the_same_as_two_columns(seed, n, kind):
    rng = np.random.default_rng(seed)
    p = (rng.integers(0, 65, size=n) / 64).astype(kind)  # 1 - p is exact
    y, w = rng.integers(0, 2, size=n), rng.random(n) + 0.1
    y[:2] = 0, 1
    both = np.stack([1 - p, p], axis=1)
    one, two = (c.evaluate(y, q, sample_weight=w, of="positive").to_dict() for q in (p, both))
    assert one == pytest.approx(two, rel=1e-13, abs=1e-15)
    assert one["brier_score"] == pytest.approx(np.average((p.astype(float) - y) ** 2, weights=w))


def test_brier_score_keeps_digits_of_good_predictions():
    p = np.array([[1 - 2**-40, 2**-40]])
    assert c.brier_score([0], p)[0] == 2.0**-80


@given(PROBLEMS)
def test_ranked_probability_score_is_that_of_the_definition(data):
    y, p, w = data
    classes = p.shape[1]
    q = p.astype(np.float64)
    steps = (np.arange(classes - 1) >= y[:, None]).astype(float)
    expected = ((np.cumsum(q, axis=1)[:, :-1] - steps) ** 2).sum(axis=1)
    loose = 1e-13 if p.dtype == np.float64 else 1e-5  # rows of float32 sum to one to 1e-7
    np.testing.assert_allclose(c.ranked_probability_score(y, p), expected, rtol=loose, atol=loose)
    score = c.mean_ranked_probability_score(y, p, sample_weight=w, normalize=True)
    assert score == pytest.approx(np.average(expected, weights=w) / (classes - 1), abs=loose)


def test_ranked_probability_score_is_that_of_scoringrules(rng):
    scoringrules = peers.imported("scoringrules")
    p, y = rng.dirichlet(np.ones(6), size=50), rng.integers(0, 6, size=50)
    expected = scoringrules.rps_score(y + 1, p, backend="numpy")  # counts categories from 1
    np.testing.assert_allclose(c.ranked_probability_score(y, p), expected, rtol=1e-12)


def test_ranked_probability_score_rewards_nearness_and_brier_does_not():
    p = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert c.ranked_probability_score([0, 0], p).tolist() == [1, 3]
    assert c.brier_score([0, 0], p).tolist() == [2, 2]


@given(PROBLEMS)
def test_entropy_is_that_of_scipy(data):
    _, p, _ = data
    expected = stats.entropy(p.astype(float), axis=1, base=2)
    loose = 1e-12 if p.dtype == np.float64 else 1e-6  # SciPy divides rows by their sum
    np.testing.assert_allclose(c.entropy(p, base=2), expected, rtol=loose, atol=loose)


def test_the_true_distribution_scores_best():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), size=20_000)
    y = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    for other in (p**1.3, p**0.7, p + 0.05, p[:, [1, 0, 2, 3, 4]], p[::-1]):
        wrong = other / other.sum(axis=1, keepdims=True)
        for score in (c.log_score, c.brier_score, c.ranked_probability_score):
            worse = score(y, wrong) - score(y, p)
            assert worse.mean() > 3 * worse.std() / np.sqrt(len(y))


# The decomposition of the Brier score


def terms(o, f, w, b, bins):
    """Return Murphy's terms and those within bins of one class, by their definitions."""
    totals = np.zeros(5)
    total, frequency = w.sum(), np.average(o, weights=w)
    totals[0] = frequency * (1 - frequency)
    for j in range(bins):
        in_bin = b == j
        if in_bin.any():
            share = w[in_bin].sum() / total
            mean_o, mean_f = (np.average(v[in_bin], weights=w[in_bin]) for v in (o, f))
            totals[1] += share * (mean_o - frequency) ** 2
            totals[2] += share * (mean_f - mean_o) ** 2
            totals[3] += (w[in_bin] * (f[in_bin] - mean_f) ** 2).sum() / total
            totals[4] += 2 * (w[in_bin] * (f[in_bin] - mean_f) * (o[in_bin] - mean_o)).sum() / total
    return totals


@given(PROBLEMS, st.integers(1, 12))
def test_decomposition_is_that_of_the_definition_and_adds_up(data, bins):
    y, p, w = data
    q, w = p.astype(float), w + 0.25
    edges = (np.arange(bins + 1) * (1 / bins)).astype(p.dtype).astype(float)
    expected = np.zeros(5)
    for label in range(p.shape[1]):
        b = np.clip(np.searchsorted(edges, q[:, label], side="left") - 1, 0, bins - 1)
        if p.shape[1] == 2 and label == 0:
            continue
        expected += terms(y == label, q[:, label], w, b, bins)
    expected *= 2 if p.shape[1] == 2 else 1
    decomposition = c.brier_decomposition(y, p, bins=bins, sample_weight=w, scale_by_half=False)
    terms_of = [
        decomposition.uncertainty,
        decomposition.resolution,
        decomposition.reliability,
        decomposition.within_variance,
        decomposition.within_covariance,
    ]
    np.testing.assert_allclose(terms_of, expected, rtol=1e-12, atol=1e-14)
    loose = 1e-13 if p.shape[1] > 2 or p.dtype == np.float64 else 1e-6  # class 0 is 1 - class 1
    for half in (True, False, "auto"):
        for binning in ("width", "mass"):
            options = {"sample_weight": w, "scale_by_half": half}
            parts = c.brier_decomposition(y, p, bins=bins, binning=binning, **options)
            score = c.mean_brier_score(y, p, **options)
            assert parts.score == pytest.approx(score, abs=loose)
            three = parts.uncertainty - parts.generalized_resolution + parts.reliability
            assert three == pytest.approx(score, abs=loose)


def test_terms_within_bins_vanish_where_probabilities_in_a_bin_are_equal(rng):
    p = rng.choice([0.1, 0.5, 0.9], size=500)
    y = rng.random(500) < p
    decomposition = c.brier_decomposition(y, p, bins=3)
    assert abs(decomposition.within_variance) < 1e-16
    assert abs(decomposition.within_covariance) < 1e-16
    coarse = c.brier_decomposition(y, p, bins=1)
    assert coarse.within_covariance > 0.05
    assert coarse.resolution == 0
    assert coarse.score == pytest.approx(decomposition.score, abs=1e-14)


def test_within_variance_loses_no_digits_in_narrow_bins():
    p = 0.7 + 1e-9 * np.arange(1000)
    decomposition = c.brier_decomposition(np.arange(1000) % 2, p, bins=10, closed="left")
    assert decomposition.within_variance == pytest.approx(p.var(), rel=1e-6)


def test_climatology_has_no_resolution_and_no_error():
    y = np.repeat([0, 1, 2], [50, 30, 20])
    p = np.tile([0.5, 0.3, 0.2], (100, 1))
    decomposition = c.brier_decomposition(y, p)
    assert decomposition.uncertainty == pytest.approx(1 - 0.25 - 0.09 - 0.04, abs=1e-15)
    assert decomposition.reliability == pytest.approx(0, abs=1e-15)
    assert decomposition.resolution == pytest.approx(0, abs=1e-15)
    assert "uncertainty" in decomposition.table()
    assert decomposition.to_dict()["score"] == decomposition.score


# Invariances


SCORES = {
    "accuracy": c.accuracy,
    "share": lambda y, p, **o: c.top_k_accuracy(y, p, k=2, ties="share", **o),
    "nll": c.nll,
    "brier": c.mean_brier_score,
    "rps": c.mean_ranked_probability_score,
    "reliability": lambda y, p, **o: c.brier_decomposition(y, p, **o).reliability,
    "confusion": c.confusion_matrix,
    "above": lambda y, p, **o: np.nan_to_num(c.accuracy_above_confidence(y, p, **o).accuracy),
}


@pytest.mark.parametrize("name", SCORES)
@given(PROBLEMS)
def test_integer_weights_are_repeated_rows_and_order_does_not_matter(name, data):
    y, p, w = data
    function = SCORES[name]
    expected = function(y, p, sample_weight=w)
    np.testing.assert_allclose(function(y.repeat(w), p.repeat(w, axis=0)), expected, rtol=1e-12)
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = function(y[order], p[order], sample_weight=w[order])
    np.testing.assert_allclose(shuffled, expected, rtol=1e-12)
    np.testing.assert_allclose(
        function(y, p, sample_weight=0 * w + 3.0),
        function(y, p) * (3 if name == "confusion" else 1),
    )


@given(PROBLEMS, st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_accuracy_above_confidence_is_that_of_the_definition(data, eighths):
    y, p, w = data
    taus = np.array(eighths) / 8
    curve = c.accuracy_above_confidence(y, p, thresholds=taus, sample_weight=w)
    for i, tau in enumerate(taus):
        is_confident = p.max(axis=1) >= tau
        assert curve.count[i] == is_confident.sum()
        assert curve.weight[i] == w[is_confident].sum()
        if is_confident.any():
            right = p[is_confident].argmax(axis=1) == y[is_confident]
            assert curve.accuracy[i] == pytest.approx(np.average(right, weights=w[is_confident]))
        else:
            assert np.isnan(curve.accuracy[i])


def test_thresholds_are_rounded_to_the_type_of_the_probabilities():
    p = np.array([0.9], dtype=np.float32)
    assert float(p[0]) < 0.9
    assert c.accuracy_above_confidence([1], p, thresholds=[0.9]).count.tolist() == [1]


@given(PROBLEMS, PROBLEMS, st.integers(1, 12))
def test_uncertainty_histograms_count_as_numpy_does(data, other, bins):
    classes = data[1].shape[1]
    p_in, p_out = data[1], labelled(0, len(other[0]), classes)[1]
    for of in ("confidence", "entropy"):
        histogram = c.uncertainty_histogram(p_in, p_out, of=of, bins=bins, closed="left")
        top = np.log(classes) if of == "entropy" else 1.0
        assert histogram.edges[-1] == pytest.approx(top)
        assert histogram.inside.sum() == len(p_in)
        assert histogram.outside.sum() == len(p_out)
        values = getattr(c, of)(p_out)
        expected, edges = np.histogram(np.minimum(values, top), bins=bins, range=(0, top))
        clear = np.abs(values[:, None] - edges[None, 1:-1]).min(initial=1.0) > 1e-6
        if clear:  # no value within rounding of an edge
            np.testing.assert_array_equal(histogram.outside, expected)
    inside, outside = histogram.densities
    assert (inside * np.diff(histogram.edges)).sum() == pytest.approx(1)
    assert (outside * np.diff(histogram.edges)).sum() == pytest.approx(1)


def test_uncertainty_histogram_by_weight():
    p = [[0.9, 0.1], [0.5, 0.5], [0.6, 0.4]]
    histogram = c.uncertainty_histogram(p, p, of="confidence", bins=2, weight_in=[1, 2, 4])
    assert histogram.inside.tolist() == [2, 5]
    assert histogram.outside.tolist() == [1, 2]
    assert "inside" in histogram.table()
    assert histogram.to_frame().shape == (2, 4)
