"""Areas under curves agree with scikit-learn, and all measures at once agree with each alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from builders import labelled_with_every_class
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import fastmcmd.classification as c

KINDS = st.sampled_from([np.float32, np.float64])
PROBLEMS = st.builds(
    labelled_with_every_class,
    st.integers(0, 2**32 - 1),
    st.integers(0, 60),
    st.integers(2, 7),
    KINDS,
    st.booleans(),
)


@pytest.mark.slow
@given(PROBLEMS)
def test_auroc_is_that_of_scikit_learn(data):
    y, p, w = data
    q = p.astype(np.float64)
    q = q[:, 1] if p.shape[1] == 2 else q / q.sum(axis=1, keepdims=True)
    if p.dtype == np.float32 and p.shape[1] > 2:
        q = p  # dividing would break ties
    for weights in (None, w, w * 0.37):
        for average in ("macro", "weighted"):
            expected = roc_auc_score(
                y, q, multi_class="ovr", average=average, sample_weight=weights
            )
            value = c.auroc(y, p, average=average, sample_weight=weights)
            assert value == pytest.approx(expected, abs=1e-12)


@given(PROBLEMS)
def test_auroc_is_the_share_of_pairs_in_order(data):
    y, p, _ = data
    value = c.auroc(y, p, average=None)
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    expected = []
    for label in classes:
        positives, negatives = p[y == label, label][:, None], p[y != label, label]
        expected.append(((positives > negatives) + 0.5 * (positives == negatives)).mean())
    np.testing.assert_allclose(value, expected[0] if len(classes) == 1 else expected, rtol=1e-14)


def test_auroc_of_many_rows_with_ties_is_that_of_scikit_learn(rng):
    n = 150_000  # two groups of columns of 9 would not fit 2^15: several blocks of rows
    p = rng.multinomial(20, np.ones(9) / 9, size=n) / 20
    y = rng.integers(0, 9, size=n)
    expected = roc_auc_score(y, p, multi_class="ovr")
    assert c.auroc(y, p) == pytest.approx(expected, abs=1e-13)


def test_columns_are_taken_in_groups(rng, monkeypatch):
    y, p, w = labelled_with_every_class(0, 500, 7)
    expected = c.auroc(y, p), c.auroc(y, p, sample_weight=w), c.adaptive_ece(y, p)
    monkeypatch.setattr("fastmcmd.classification.columns._GROUP_BYTES", 2 * len(y) * 8)
    assert (c.auroc(y, p), c.auroc(y, p, sample_weight=w), c.adaptive_ece(y, p)) == expected
    p[3, 6] = 2.0
    with pytest.raises(ValueError, match=r"p\[3, 6\] is 2"):
        c.auroc(y, p)


@given(PROBLEMS)
def test_integer_weights_are_repeated_rows_and_only_order_matters(data):
    y, p, w = data
    expected = c.auroc(y, p, sample_weight=w)
    repeated = c.auroc(y.repeat(w), p.repeat(w, axis=0))
    assert repeated == pytest.approx(expected, abs=1e-13)
    if p.shape[1] == 2:
        q = p[:, 1]
        assert c.auroc(y, q) == c.auroc(y, q / 4 + 0.5)
        assert c.auroc(y, q) + c.auroc(1 - y, q) == pytest.approx(1, abs=1e-14)


def test_classes_without_rows():
    y, p = [0, 0, 1, 1], [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.6, 0.3, 0.1], [0.2, 0.6, 0.2]]
    with pytest.raises(ValueError, match="y has no rows of class 2, so the area of 1 of 3 classes"):
        c.auroc(y, p)
    value = c.auroc(y, p, average=None, absent="omit")
    np.testing.assert_array_equal(value, [0.75, 0.75, np.nan])
    assert c.auroc(y, p, absent="omit") == c.auroc(y, p, absent="omit", average="weighted") == 0.75
    with pytest.raises(ValueError, match="all rows of class 1"):
        c.auroc([1, 1], [0.2, 0.4])
    with pytest.raises(ValueError, match="no rows of class 1"):
        c.auroc([0, 1], [0.2, 0.4], sample_weight=[1, 0])
    assert np.isnan(c.auroc([1, 1], [0.2, 0.4], absent="omit"))
    assert c.evaluate(y, p).auroc == 0.75
    assert c.evaluate(y, p).auroc_classes == 2


@pytest.mark.slow
@given(PROBLEMS, st.integers(0, 100), st.booleans())
def test_ood_auroc_is_that_of_scikit_learn(data, seed, tied):
    _, p_in, w_in = data
    _, p_out, w_out = labelled_with_every_class(seed, 20, p_in.shape[1], p_in.dtype.type, tied)
    labels = np.repeat([0, 1], [len(p_in), len(p_out)])
    for of, sign in (("confidence", -1), ("entropy", 1)):
        values = sign * np.concatenate([getattr(c, of)(p_in), getattr(c, of)(p_out)])
        assert c.ood_auroc(p_in, p_out, of=of) == pytest.approx(
            roc_auc_score(labels, values), abs=1e-12
        )
        weights = np.concatenate([w_in, w_out])
        expected = roc_auc_score(labels, values, sample_weight=weights)
        actual = c.ood_auroc(p_in, p_out, of=of, weight_in=w_in, weight_out=w_out)
        assert actual == pytest.approx(expected, abs=1e-12)
        one = np.concatenate([w_in, np.ones(len(w_out))])
        expected = roc_auc_score(labels, values, sample_weight=one)
        actual = c.ood_auroc(p_in, p_out, of=of, weight_in=w_in)
        assert actual == pytest.approx(expected, abs=1e-12)


def test_ood_auroc_with_nan():
    p_in, p_out = [[0.9, 0.1], [np.nan, 0.5]], [[0.5, 0.5]]
    with pytest.raises(ValueError, match="p_in holds NaN"):
        c.ood_auroc(p_in, p_out)
    assert c.ood_auroc(p_in, p_out, nan_policy="omit") == 1.0
    assert np.isnan(c.ood_auroc(p_in, p_out, nan_policy="propagate"))
    assert np.isnan(c.uncertainty_histogram(p_in, p_out, nan_policy="propagate").inside).all()


# All measures at once


@given(PROBLEMS, st.booleans(), st.sampled_from(["right", "left"]), st.sampled_from(["l1", "l2"]))
def test_evaluate_gives_what_each_function_gives(data, weighted, closed, norm):
    y, p, w = data
    weights = {"sample_weight": w if weighted else None}
    bins = {"bins": 7, "closed": closed, **weights}
    p_out = labelled_with_every_class(9, 5, p.shape[1])[1]
    evaluation = c.evaluate(y, p, p_out=p_out, ordered=True, k=2, norm=norm, **bins)
    parts = c.brier_decomposition(y, p, **bins).to_dict()
    parts.pop("score")
    expected = {
        "accuracy": c.accuracy(y, p, **weights),
        "nll": c.nll(y, p, **weights),
        "impossible": int(np.isinf(c.log_score(y, p)).sum()),
        "brier_score": c.mean_brier_score(y, p, **weights),
        **{f"brier_{name}": value for name, value in parts.items()},
        "ranked_probability_score": c.mean_ranked_probability_score(y, p, **weights),
        "ece": c.ece(y, p, norm=norm, **bins),
        "mce": c.mce(y, p, **bins),
        "ece_mass": c.ece(y, p, norm=norm, binning="mass", **bins),
        "classwise_ece": c.classwise_ece(y, p, norm=norm, **bins),
        "adaptive_ece": c.classwise_ece(y, p, norm=norm, binning="mass", **bins),
        "confidence": np.average(c.confidence(p), weights=weights["sample_weight"]),
        "entropy": np.average(c.entropy(p), weights=weights["sample_weight"]),
        "auroc": c.auroc(y, p, **weights),
        "auroc_weighted": c.auroc(y, p, average="weighted", **weights),
        "auroc_classes": 1 if p.shape[1] == 2 else p.shape[1],
        "ood_auroc_entropy": c.ood_auroc(p, p_out, weight_in=weights["sample_weight"]),
        "ood_auroc_confidence": c.ood_auroc(
            p, p_out, of="confidence", weight_in=weights["sample_weight"]
        ),
    }
    if p.shape[1] > 2:
        expected["top_2_accuracy"] = c.top_k_accuracy(y, p, k=2, **weights)
    numbers = evaluation.to_dict()
    assert set(numbers) == set(expected)
    for name, value in expected.items():
        assert numbers[name] == pytest.approx(value, rel=1e-6 if name == "confidence" else 1e-13), (
            name
        )
    curve = c.reliability_curve(y, p, **bins)
    np.testing.assert_array_equal(evaluation.reliability.accuracy, curve.accuracy)
    above = c.accuracy_above_confidence(y, p, **weights)
    np.testing.assert_array_equal(evaluation.above_confidence.accuracy, above.accuracy)
    histogram = c.uncertainty_histogram(p, p_out, weight_in=weights["sample_weight"])
    np.testing.assert_array_equal(evaluation.ood["entropy"][1].inside, histogram.inside)


def test_evaluation_tells_what_it_holds():
    y, p, _ = labelled_with_every_class(0, 100, 7)
    evaluation = c.evaluate(y, p)
    assert repr(evaluation).startswith("Classification of 107 rows, 7 classes\n")
    assert "ranked_probability_score" not in evaluation.to_dict()
    assert "ranked_probability_score" in c.evaluate(y, p, ordered=True).to_dict()
    assert "label among the 5 most probable classes" in evaluation.table()
    assert "negative log-likelihood" in evaluation._repr_html_()
    assert "that the most probable class is right" in repr(evaluation)
    assert "that class 1 occurs" in repr(c.evaluate(y > 2, p[:, 1]))
    assert evaluation["nll"] == evaluation.nll
    assert set(evaluation.keys()) == set(evaluation.to_dict())
    with pytest.raises(KeyError, match="did you mean 'nll'"):
        evaluation["nl"]
    json.dumps(evaluation.to_dict())
    assert evaluation.to_frame().loc["nll", "value"] == evaluation.nll
    with pytest.raises(AttributeError):
        evaluation.nll = 0.0


def test_evaluate_with_rows_of_nan():
    y, p, w = labelled_with_every_class(0, 100, 4)
    expected = c.evaluate(y[1:], p[1:], sample_weight=w[1:]).to_dict()
    p[0, 0] = np.nan
    assert c.evaluate(y, p, sample_weight=w, nan_policy="omit").to_dict() == expected
    numbers = c.evaluate(y, p, sample_weight=w, nan_policy="propagate").to_dict()
    plain = {name for name, value in numbers.items() if not np.isnan(value)}
    assert plain == {"impossible", "auroc_classes"}
