"""Accumulators of classification metrics give the function's value for any split and merge order."""

from __future__ import annotations

import numpy as np
import pytest
from builders import labelled_with_every_class
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd.classification as c
from fastmcmd import streaming


def problem(seed, n, classes, kind=np.float64, tied=False):
    """Return labels with every class, probabilities, and weights that are not integers."""
    y, p, _ = labelled_with_every_class(seed, n, classes, kind, tied)
    return y, p, np.random.default_rng(seed).random(n + classes) + 0.1


PROBLEMS = st.builds(
    problem,
    st.integers(0, 2**32 - 1),
    st.integers(0, 60),
    st.integers(2, 6),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
)

PAIRS = {
    "accuracy": (streaming.Accuracy, c.accuracy, {}),
    "accuracy, shared": (streaming.Accuracy, c.accuracy, {"ties": "share"}),
    "top 2": (streaming.TopKAccuracy, c.top_k_accuracy, {"k": 2}),
    "nll": (streaming.ClassificationNLL, c.nll, {}),
    "nll, clipped": (streaming.ClassificationNLL, c.nll, {"clip": 1e-3}),
    "brier": (streaming.BrierScore, c.mean_brier_score, {}),
    "brier, sum": (streaming.BrierScore, c.mean_brier_score, {"scale_by_half": False}),
    "ece": (streaming.ClassificationECE, c.ece, {"bins": 7}),
    "ece, l2": (streaming.ClassificationECE, c.ece, {"norm": "l2", "closed": "left"}),
    "ece, max": (streaming.ClassificationECE, c.ece, {"norm": "max"}),
    "classwise": (streaming.ClasswiseECE, c.classwise_ece, {"bins": 5}),
    "classwise above": (streaming.ClasswiseECE, c.classwise_ece, {"threshold": 0.2}),
    "confusion": (streaming.ConfusionMatrix, c.confusion_matrix, {}),
}


def merged(make, data, weighted, seed, batches):
    """Return an accumulator of rows split at random into batches, merged in random order."""
    y, p, w = data
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))
    cuts = np.sort(rng.integers(0, len(y) + 1, size=batches - 1))
    parts = []
    for part in np.split(rows, cuts):
        accumulator = make()
        if len(part):
            accumulator.update(y[part], p[part], sample_weight=w[part] if weighted else None)
        parts.append(accumulator)
    while len(parts) > 1:
        one, other = (parts.pop(rng.integers(len(parts))) for _ in range(2))
        parts.append(one.merge(other))
    return parts[0]


@pytest.mark.parametrize("name", PAIRS)
@given(PROBLEMS, st.booleans(), st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_any_split_and_any_order_of_merging_give_the_value_of_the_function(
    name, data, weighted, seed, batches
):
    kind, function, options = PAIRS[name]
    y, p, w = data
    expected = function(y, p, sample_weight=w if weighted else None, **options)
    value = merged(lambda: kind(**options), data, weighted, seed, batches).compute()
    np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", PAIRS)
def test_one_batch_gives_the_very_value_of_the_function(name, rng):
    kind, function, options = PAIRS[name]
    y, p, w = problem(0, 300, 4)
    value = kind(**options).update(y, p, sample_weight=w).compute()
    np.testing.assert_array_equal(value, function(y, p, sample_weight=w, **options))
    np.testing.assert_array_equal(
        kind(nan_policy="omit", **options).update([*y, np.nan], [*p, p[0]], [*w, 1]).compute(),
        function(y, p, sample_weight=w, **options),
    )


@pytest.mark.parametrize("name", [*PAIRS, "auroc"])
def test_after_an_error_an_accumulator_is_as_before(name):
    kind, _, options = PAIRS.get(name, (streaming.AUROC, None, {}))
    y, p, _ = problem(0, 30, 3)
    accumulator = kind(**options).update(y, p)
    expected = accumulator.compute()
    with pytest.raises(ValueError, match="sums to"):
        accumulator.update(y, p * 0.5)
    np.testing.assert_equal(accumulator.compute(), expected)
    with pytest.raises(ValueError, match="settings"):
        accumulator.merge(kind(sum_tolerance=0.5, **options))
    with pytest.raises(ValueError, match="seen no rows"):
        kind(**options).compute()


@pytest.mark.parametrize(
    "kind", [streaming.ClasswiseECE, streaming.ConfusionMatrix, streaming.AUROC]
)
def test_batches_of_other_classes_are_refused(kind):
    three, four = problem(0, 10, 3), problem(0, 10, 4)
    with pytest.raises(ValueError, match="same classes"):
        kind().update(*three[:2]).update(*four[:2])


@pytest.mark.parametrize("name", PAIRS)
def test_a_row_of_nan_makes_the_value_nan_for_good(name):
    kind, _, options = PAIRS[name]
    y, p, _ = problem(0, 30, 3)
    accumulator = kind(nan_policy="propagate", **options).update(y, p)
    assert np.isfinite(accumulator.compute()).all()
    p[0, 0] = np.nan
    assert np.isnan(accumulator.update(y, p).compute()).all()


def test_single_and_double_precision_batches_merge():
    y, p, _ = problem(0, 100, 3)
    errors = streaming.ClassificationECE().update(y, p).update(y, p.astype(np.float32))
    assert errors.compute() == pytest.approx(c.ece(y, p), abs=1e-6)
    assert errors.curve().count.sum() == 2 * len(y)


def test_impossible_labels_are_counted():
    scores = streaming.ClassificationNLL()
    assert scores.impossible == 0
    scores.update([0], [0.5]).update([1, 0], [0.0, 1.0])
    assert (scores.compute(), scores.impossible) == (np.inf, 2)


# The area from histograms


@given(PROBLEMS, st.booleans(), st.integers(1, 5), st.sampled_from([1, 8, 128]))
def test_area_is_within_the_bound_for_any_split(data, weighted, batches, resolution):
    y, p, w = data
    for average in ("macro", "weighted"):
        exact = c.auroc(y, p, average=average, sample_weight=w if weighted else None)
        estimate = merged(
            lambda average=average: streaming.AUROC(average=average, resolution=resolution),
            data,
            weighted,
            batches,
            batches,
        ).compute()
        assert abs(float(estimate) - exact) <= estimate.error_bound + 1e-12
        assert 0 <= estimate.error_bound <= 0.5


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_bound_holds_for_scores_that_differ_in_the_last_digits(seed, scale):
    rng = np.random.default_rng(seed)
    exponents = rng.integers(0, 60, size=200)
    p = rng.random(200) * 0.5**exponents
    p = np.where(rng.random(200) < 0.5, p, 1 - p)
    p[:6] = 0, 1, 0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), 1 - 2**-53
    y = rng.random(200) < p**scale
    y[:2] = 0, 1
    estimate = streaming.AUROC(resolution=scale).update(y, p).compute()
    assert abs(estimate.value - c.auroc(y, p)) <= estimate.error_bound + 1e-13


def test_bound_is_small_and_attained():
    rng = np.random.default_rng(0)
    p = rng.random(50_000) ** 3
    y = rng.random(50_000) < p
    estimate = streaming.AUROC().update(y, p).compute()
    assert 0 < estimate.error_bound < 1e-3
    low, high = 0.25, np.nextafter(0.25, 1)  # one bin
    for p_negative, p_positive, exact in ((low, high, 1.0), (high, low, 0.0)):
        worst = streaming.AUROC().update([0, 1], [p_negative, p_positive]).compute()
        assert (worst.value, worst.error_bound) == (0.5, 0.5)
        assert c.auroc([0, 1], [p_negative, p_positive]) == exact


def test_classes_without_rows_are_refused_by_compute_only():
    p = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.6, 0.3, 0.1], [0.2, 0.6, 0.2]]
    area = streaming.AUROC().update([0, 0, 1, 1], p)
    with pytest.raises(
        ValueError, match="y has no rows, or only rows, of 1 of 3 classes, the first is class 2"
    ):
        area.compute()
    assert streaming.AUROC(absent="omit").update([0, 0, 1, 1], p).compute().value == 0.75
    last = streaming.AUROC().update([2], [[0.0, 0.5, 0.5]])
    assert area.merge(last).compute().error_bound == 0


def test_rows_of_nan_make_the_area_nan():
    value = streaming.AUROC(nan_policy="propagate").update([0, 1, 1], [0.5, np.nan, 0.75]).compute()
    assert np.isnan(value.value)
    assert np.isnan(value.error_bound)


# Bins of even weight, from fine bins

MASS = {
    "ece": (streaming.ClassificationECE, c.ece),
    "classwise": (streaming.ClasswiseECE, c.classwise_ece),
}


@pytest.mark.parametrize("name", MASS)
@given(
    PROBLEMS,
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.sampled_from(["l1", "l2", "max"]),
    st.sampled_from(["left", "right"]),
    st.sampled_from([1, 8, 128]),
)
def test_error_in_bins_of_even_weight_is_within_its_bound(
    name, data, weighted, seed, batches, norm, closed, resolution
):
    kind, function = MASS[name]
    y, p, w = data
    options = {"bins": 5, "binning": "mass", "norm": norm, "closed": closed}
    exact = function(y, p, sample_weight=w if weighted else None, **options)
    accumulator = merged(
        lambda: kind(**options, resolution=resolution), data, weighted, seed, batches
    )
    assert abs(accumulator.compute() - exact) <= accumulator.error_bound() + 1e-12


@pytest.mark.parametrize("name", MASS)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.booleans(), st.sampled_from([1, 3, 15]))
def test_tied_probabilities_give_the_value_of_the_function(name, seed, n, integer, bins):
    kind, function = MASS[name]
    y, p, _ = problem(seed, n, 3, tied=True)  # multiples of 1/8: a fine bin holds one value
    w = np.random.default_rng(seed).integers(0, 3, len(y)).astype(float) if integer else None
    w = None if w is None or not w.any() else w
    accumulator = kind(bins=bins, binning="mass")
    for part in np.array_split(np.arange(len(y)), 3):
        if len(part) and (w is None or w[part].any()):
            accumulator.update(y[part], p[part], sample_weight=None if w is None else w[part])
    exact = function(y, p, bins=bins, binning="mass", sample_weight=w)
    assert accumulator.compute() == pytest.approx(exact, rel=1e-11, abs=1e-14)
    assert accumulator.error_bound() == 0


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0, 1 - 2**-24, 1e-300])
@pytest.mark.parametrize("n", [1, 7])
def test_constant_probabilities_give_the_value_of_the_function(value, n):
    y, p = np.arange(n) % 2, np.full(n, value)
    accumulator = streaming.ClassificationECE(binning="mass").update(y, p)
    assert accumulator.compute() == pytest.approx(c.ece(y, p, binning="mass"), abs=1e-15)
    assert accumulator.error_bound() == 0
    exact, curve = c.reliability_curve(y, p, binning="mass"), accumulator.curve()
    np.testing.assert_array_equal(curve.edges, exact.edges)
    np.testing.assert_array_equal(curve.count, exact.count)
    np.testing.assert_allclose(curve.confidence, exact.confidence, rtol=1e-15)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_error_where_confidences_crowd_near_one_is_small(norm):
    rng = np.random.default_rng(0)
    wrong = rng.random(100_000) ** 6 / 2  # half of them below 0.01
    p, y = 1 - wrong, rng.random(100_000) < 1 - wrong**0.9
    accumulator = streaming.ClassificationECE(binning="mass", norm=norm)
    for part in np.array_split(np.arange(len(y)), 7):
        accumulator.update(y[part], p[part])
    exact = c.ece(y, p, binning="mass", norm=norm)
    assert 0 < accumulator.error_bound() < 0.2 * exact
    assert accumulator.compute() == pytest.approx(exact, rel=0.01)


def test_adaptive_error_above_a_threshold_is_that_of_the_function():
    y, p, _ = problem(3, 5000, 10)
    accumulator = streaming.ClasswiseECE(threshold=0.01, binning="mass", resolution=1024)
    for part in np.array_split(np.arange(len(y)), 11):
        accumulator.update(y[part], p[part])
    exact = c.adaptive_ece(y, p, threshold=0.01)
    assert abs(accumulator.compute() - exact) <= accumulator.error_bound() < 0.02 * exact


def test_bins_of_even_weight_refuse_what_bins_of_even_width_do():
    y, p, _ = problem(0, 30, 3)
    for kind, _ in MASS.values():
        errors = kind(binning="mass").update(y, p)
        expected = errors.compute()
        with pytest.raises(ValueError, match="sums to"):
            errors.update(y, p * 0.5)
        with pytest.raises(ValueError, match="settings"):
            errors.merge(kind())
        with pytest.raises(ValueError, match="seen no rows"):
            kind(binning="mass").error_bound()
        with pytest.raises(ValueError, match="'width', 'mass'"):
            kind(binning="even")
        assert errors.compute() == expected
        p_nan = p.copy()
        p_nan[0] = np.nan
        with_nan = kind(binning="mass", nan_policy="propagate").update(y, p).update(y, p_nan)
        assert np.isnan([with_nan.compute(), with_nan.error_bound()]).all()
    with pytest.raises(ValueError, match=r"p\[1\] is 1.5"):
        streaming.ClassificationECE(binning="mass").update([0, 1], [0.5, 1.5])
    with pytest.raises(ValueError, match="same classes"):
        streaming.ClasswiseECE(binning="mass").update(y, p).update([0], [[0.5, 0.5]])
    assert streaming.ClassificationECE().update(y, p).error_bound() == 0
