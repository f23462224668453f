"""Inputs that classification metrics accept, and inputs that they reject."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
import fastmcmd.classification as c
from fastmcmd.classification.inputs import read
from fastmcmd.classification.summary import summarize

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])
Y = np.array([0, 1, 2, 0])

FUNCTIONS = {
    "accuracy": c.accuracy,
    "top_k_accuracy": lambda y, p, **o: c.top_k_accuracy(y, p, k=2, **o),
    "confusion_matrix": c.confusion_matrix,
    "nll": c.nll,
    "mean_brier_score": c.mean_brier_score,
    "mean_ranked_probability_score": c.mean_ranked_probability_score,
    "brier": lambda y, p, **o: c.brier_decomposition(y, p, **o).score,
    "brier_mass": lambda y, p, **o: c.brier_decomposition(y, p, binning="mass", **o).score,
    "ece": c.ece,
    "ece_mass": lambda y, p, **o: c.ece(y, p, binning="mass", **o),
    "ece_l2": lambda y, p, **o: c.ece(y, p, norm="l2", **o),
    "mce": c.mce,
    "classwise_ece": c.classwise_ece,
    "adaptive_ece": c.adaptive_ece,
    "curve": lambda y, p, **o: c.reliability_curve(y, p, bins=2, **o).accuracy,
    "above": lambda y, p, **o: c.accuracy_above_confidence(y, p, thresholds=[0, 0.3], **o).accuracy,
    "auroc": c.auroc,
    "auroc_weighted": lambda y, p, **o: c.auroc(y, p, average="weighted", **o),
}
BY_ROW = {
    "log_score": c.log_score,
    "brier_score": c.brier_score,
    "ranked_probability_score": c.ranked_probability_score,
    "entropy": lambda y, p, **o: c.entropy(p, **o),
    "confidence": lambda y, p, **o: c.confidence(p, **o),
}


def bad(row, column, value):
    p = P.copy()
    p[row, column] = value
    return p


@pytest.mark.parametrize("name", [*FUNCTIONS, *BY_ROW, "evaluate"])
@pytest.mark.parametrize(
    ("p", "message"),
    [
        (bad(2, 1, np.nan), r"p holds NaN \(first in row 2\)"),
        (bad(2, 1, -0.1), r"p\[2, 1\] is -0.1; probabilities in \[0, 1\]"),
        (bad(2, 0, 1.5), r"p\[2, 0\] is 1.5"),
        (bad(2, 0, np.inf), r"p\[2, 0\] is inf"),
        (bad(2, 0, 0.31), r"row 2 sums to 1.01 \(tolerance 1e-06\)"),
        (np.log(P), r"p\[0, 0\] is -0.35.* softmax"),
    ],
)
def test_refuses_what_are_no_probabilities(name, p, message):
    function = {**FUNCTIONS, **BY_ROW, "evaluate": c.evaluate}[name]
    with pytest.raises(ValueError, match=message):
        function(Y, p)
    with pytest.raises(ValueError, match=message):
        function(Y.tolist(), p.tolist())


@pytest.mark.parametrize(
    "name", [name for name in [*FUNCTIONS, *BY_ROW] if name != "top_k_accuracy"]
)
@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "NaN"), (-0.5, r"p\[1\] is -0.5"), (2, "is 2")]
)
def test_refuses_what_is_no_probability_of_class_1(name, value, message):
    with pytest.raises(ValueError, match=message):
        {**FUNCTIONS, **BY_ROW}[name]([0, 1, 1], [0.5, value, 0.25])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2, 3], r"y\[3\] is 3.*from 0 to 2.*3 classes"),
        ([0, -1, 2, 1], r"y\[1\] is -1"),
        ([0, 1, 0.5, 1], r"y\[2\] is 0.5"),
        ([0, 1, np.nan, 1], r"y\[2\] is nan"),
        ([0, 1, 1], "y has 3, p has 4"),
        ([[0], [1], [1], [0]], r"y has shape \(4, 1\)"),
        (np.array([True, False, True, True]), "boolean"),
        (np.array([0, 1, 2, 2**63], dtype=np.uint64), r"y\[3\]"),
    ],
)
def test_refuses_labels(y, message):
    with pytest.raises(ValueError, match=message):
        c.accuracy(y, P)


def test_refuses_more_names_than_classes():
    with pytest.raises(ValueError, match="4 different labels"):
        c.accuracy(["cat", "dog", "cow", "emu"], P)
    with pytest.raises(TypeError, match="names of the classes as text"):
        c.accuracy(np.array([1j, 0, 1, 0]), P)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (np.ones((3, 1)), "two classes or more"),
        (np.ones((3, 2, 2)), "shape"),
        (np.empty((0, 2)), "no rows"),
        (0.5, "shape"),
    ],
)
def test_refuses_shapes(p, message):
    with pytest.raises(ValueError, match=message):
        c.accuracy([0, 1, 0], p)


@pytest.mark.parametrize(
    ("weight", "message"),
    [([1, 1], "shape"), ([1, -1, 1, 1], "negative"), ([0] * 4, "zero"), ([1, np.nan, 1, 1], "NaN")],
)
def test_refuses_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        c.accuracy(Y, P, sample_weight=weight)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (c.accuracy, {"ties": "random"}, "ties is 'random'"),
        (c.accuracy, {"nan_policy": "drop"}, "nan_policy"),
        (c.top_k_accuracy, {"k": 4}, "at most the 3 classes"),
        (c.top_k_accuracy, {"k": 0}, "k is 0"),
        (c.nll, {"clip": 0.7}, "clip is 0.7"),
        (c.mean_brier_score, {"scale_by_half": "yes"}, "scale_by_half"),
        (c.ece, {"bins": 0}, "bins is 0"),
        (c.ece, {"bins": 2.5}, "bins is 2.5"),
        (c.ece, {"norm": "l3"}, "norm is 'l3'"),
        (c.ece, {"binning": "even"}, "binning is 'even'"),
        (c.ece, {"closed": "both"}, "closed is 'both'"),
        (c.ece, {"of": "positive"}, "p has 3 classes"),
        (c.classwise_ece, {"threshold": 1.5}, "threshold is 1.5"),
        (c.accuracy_above_confidence, {"thresholds": [0.5, 2]}, "thresholds"),
        (c.auroc, {"average": "micro"}, "average is 'micro'"),
        (c.accuracy, {"sum_tolerance": -1}, "sum_tolerance"),
    ],
)
def test_refuses_options(function, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        function(Y, P, **options)


def test_refuses_two_sets_of_other_classes():
    with pytest.raises(ValueError, match="p_out has 2 classes, p_in has 3"):
        c.ood_auroc(P, [[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"p_out\[0, 0\] is 2"):
        c.ood_auroc(P, [[2.0, 0.5, 0.5]])
    with pytest.raises(ValueError, match="of is 'variance'"):
        c.uncertainty_histogram(P, P, of="variance")
    with pytest.raises(ValueError, match="base is 1"):
        c.entropy(P, base=1.0)


def test_tolerance_of_the_sum_depends_on_the_type():
    off = P * (1 + 5e-5)
    assert c.accuracy(Y, off.astype(np.float32)) == c.accuracy(Y, P)
    with pytest.raises(ValueError, match="tolerance 1e-06"):
        c.accuracy(Y, off)
    assert c.accuracy(Y, off, sum_tolerance=1e-3) == c.accuracy(Y, P)
    c.accuracy(Y, P.astype(np.float16))  # 1e-2, though it is read as float32
    with pytest.raises(ValueError, match=r"tolerance 0\.0001"):
        c.accuracy(Y, (P * 1.001).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accepts_what_holds_numbers(name):
    pd, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    function = FUNCTIONS[name]
    expected = function(Y, P)
    frozen = P.copy()
    frozen.flags.writeable = False
    for y, p in [
        (Y.tolist(), P.tolist()),
        (pd.Series(Y), pd.DataFrame(P)),
        (torch.tensor(Y), torch.tensor(P, requires_grad=True)),
        (Y.astype(np.uint8), np.asfortranarray(P)),
        (Y.astype(np.float32), np.repeat(P, 2, axis=0)[::2]),
        (Y[::-1][::-1], frozen),
    ]:
        np.testing.assert_array_equal(function(y, p), expected)


def test_booleans_are_labels_of_two_classes():
    p = [0.2, 0.7, 0.4]
    assert c.accuracy(np.array([False, True, True]), p) == c.accuracy([0, 1, 1], p) == 2 / 3


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_with_nan_are_left_out_or_propagate(name, rng):
    function = FUNCTIONS[name]
    p = rng.dirichlet(np.ones(3), size=40)
    y, w = np.arange(40) % 3 + 0.0, rng.random(40)
    expected = function(y[3:], p[3:], sample_weight=w[3:])
    y[0], p[1, 2], w[2] = np.nan, np.nan, np.nan
    np.testing.assert_array_equal(function(y, p, sample_weight=w, nan_policy="omit"), expected)
    value = function(y, p, sample_weight=w, nan_policy="propagate")
    assert np.isnan(value).all()
    np.testing.assert_array_equal(
        function(y[3:], p[3:], sample_weight=w[3:], nan_policy="propagate"), expected
    )
    with pytest.raises(ValueError, match=r"NaN|nan"):
        function(y, p, sample_weight=w)


@pytest.mark.parametrize("name", BY_ROW)
@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_values_of_rows_with_nan_are_nan(name, policy, rng):
    function = BY_ROW[name]
    p = rng.dirichlet(np.ones(3), size=10)
    y = np.arange(10) % 3
    expected = function(y, p)
    p[[2, 7], 1] = np.nan
    expected[[2, 7]] = np.nan
    np.testing.assert_array_equal(function(y, p, nan_policy=policy), expected)


def test_message_names_the_row_as_given_where_rows_are_left_out():
    p = bad(3, 0, 0.9)
    p[0] = np.nan
    with pytest.raises(ValueError, match="row 3 sums"):
        c.accuracy(Y, p, nan_policy="omit")
    with pytest.raises(ValueError, match=r"y\[3\] is 7"):
        c.accuracy([np.nan, 0, 0, 7], P, nan_policy="omit")
    with pytest.raises(ValueError, match="all 4 rows hold NaN"):
        c.accuracy(Y, np.full((4, 3), np.nan), nan_policy="omit")


def test_first_bad_row_is_named_whatever_block_it_is_in(rng):
    p = rng.dirichlet(np.ones(10), size=60_000)  # five blocks
    for row in (0, 13_107, 31_000, 59_999):
        wrong = p.copy()
        wrong[row:, 4] = -1
        with pytest.raises(ValueError, match=rf"p\[{row}, 4\] is -1"):
            c.confidence(wrong)


def test_float32_is_not_copied():
    rng = np.random.default_rng(0)
    p = rng.random((20_000, 200)).astype(np.float32)  # 16 MB
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(0, 200, size=len(p))
    c.ece(y[:10], p[:10])  # compiled
    assert np.shares_memory(read(y, p).p, p)
    assert np.shares_memory(read(y, p).labels, y)
    tracemalloc.start()
    c.ece(y, p)
    assert tracemalloc.get_traced_memory()[1] < 8e6
    tracemalloc.stop()


@pytest.mark.slow
def test_sums_of_many_classes_stay_within_memory():
    rng = np.random.default_rng(0)
    p = rng.random((20_000, 1000)).astype(np.float32)
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(0, 1000, size=len(p))
    c.brier_decomposition(y[:10], p[:10])  # compiled
    tracemalloc.start()
    c.brier_decomposition(y, p)  # sums of a block are 0.7 MB, and there are 153 blocks
    assert tracemalloc.get_traced_memory()[1] < 45e6
    tracemalloc.stop()


def test_inputs_are_not_changed(rng):
    p = rng.dirichlet(np.ones(4), size=50)
    y, w = rng.integers(0, 4, size=50), rng.random(50)
    copies = y.copy(), p.copy(), w.copy()
    c.evaluate(y, p, sample_weight=w, p_out=p)
    c.evaluate(y, p, p_out=p)
    for now, before in zip((y, p, w), copies, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.slow
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(2, 9),
    st.booleans(),
    st.sampled_from([np.float32, np.float64]),
)
def test_summary_of_rows_is_that_of_the_plain_definition(seed, n, classes, tied, kind):
    rng = np.random.default_rng(seed)
    p = rng.multinomial(8, np.ones(classes) / classes, size=n) / 8.0  # ties; exact in binary
    if not tied:
        p = rng.dirichlet(np.full(classes, 0.3), size=n)
    p = p.astype(kind)
    y = rng.integers(0, classes, size=n)
    summary, _ = summarize(read(y, p), entropy=True)
    q = p.astype(np.float64)
    label_probability = q[np.arange(n), y][:, None]
    is_other = np.arange(classes) != y[:, None]
    before = np.arange(classes) < y[:, None]
    np.testing.assert_array_equal(summary.predicted, p.argmax(axis=1))
    np.testing.assert_array_equal(summary.confidence, p.max(axis=1))
    np.testing.assert_array_equal(summary.label_probability, label_probability[:, 0])
    np.testing.assert_allclose(summary.other_squares, (q**2 * is_other).sum(axis=1), rtol=1e-14)
    np.testing.assert_array_equal(summary.above, (q > label_probability).sum(axis=1))
    np.testing.assert_array_equal(
        summary.tied_before, ((q == label_probability) & before).sum(axis=1)
    )
    np.testing.assert_array_equal(
        summary.tied_after, ((q == label_probability) & is_other & ~before).sum(axis=1)
    )
    logs = np.log(q, where=q > 0, out=np.zeros_like(q))
    np.testing.assert_allclose(summary.entropy, -(q * logs).sum(axis=1), rtol=1e-13, atol=1e-15)
    assert summary.confidence.dtype == kind


def test_results_do_not_depend_on_threads(rng):
    p = rng.dirichlet(np.ones(30), size=12_000).astype(np.float32)
    y, w = rng.integers(0, 30, size=len(p)), rng.random(len(p))
    results = []
    try:
        for threads in (1, 2, 3):
            fm.set_num_threads(threads)
            results.append(
                c.evaluate(y, p, sample_weight=w, ordered=True).to_dict()
                | {f"plain {k}": v for k, v in c.evaluate(y, p, p_out=p[:500]).to_dict().items()}
            )
    finally:
        fm.set_num_threads(None)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("name", [*FUNCTIONS, "log_score", "brier_score", "evaluate"])
@pytest.mark.parametrize("p", [P, P[:, 0]], ids=["classes", "binary"])
def test_labels_are_needed(name, p):
    """Without labels, compiled loops read memory outside their arrays, or an assertion failed."""
    call = {**FUNCTIONS, **BY_ROW, "evaluate": c.evaluate}[name]
    with pytest.raises(TypeError, match="y is None"):
        call(None, p)


def test_streaming_needs_labels():
    for kind in ("ClassificationECE", "ClasswiseECE", "AUROC", "TopKAccuracy"):
        accumulator = getattr(fm.streaming, kind)()
        with pytest.raises(TypeError, match="y is None"):
            accumulator.update(None, P)
