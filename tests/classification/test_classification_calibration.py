"""Calibration errors of classes agree with their definitions, scikit-learn, netcal and torchmetrics."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from builders import class_probabilities
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

import fastmcmd.classification as c
from fastmcmd.classification.bins import Binning, mass_edges


def problem(seed, n, classes, kind=np.float64, tied=False):
    """Return labels drawn from their probabilities, the probabilities, and integer weights."""
    rng = np.random.default_rng(seed)
    p = class_probabilities(rng, n, classes, tied)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)
    return y, p.astype(kind), rng.integers(1, 4, size=n)


def errors(values, hits, weights, edges, closed="right"):
    """Return the calibration errors of one event by their definitions: l1, l2, max."""
    inner = edges[1:-1]
    b = np.searchsorted(inner, values, side="left" if closed == "right" else "right")
    gaps, shares = [], []
    for j in range(len(edges) - 1):
        in_bin = b == j
        if in_bin.any():
            w = weights[in_bin]
            gaps.append(
                abs(np.average(hits[in_bin], weights=w) - np.average(values[in_bin], weights=w))
            )
            shares.append(w.sum() / weights.sum())
    gaps, shares = np.array(gaps), np.array(shares)
    return {
        "l1": (shares * gaps).sum(),
        "l2": np.sqrt((shares * gaps**2).sum()),
        "max": gaps.max(initial=0.0),
    }


KINDS = st.sampled_from([np.float32, np.float64])
PROBLEMS = st.builds(
    problem, st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 7), KINDS, st.booleans()
)
CLOSED = st.sampled_from(["right", "left"])


@given(PROBLEMS, st.integers(1, 20), CLOSED)
def test_ece_is_that_of_the_definition(data, bins, closed):
    y, p, w = data
    edges = np.linspace(0, 1, bins + 1).astype(p.dtype)
    hits = p.argmax(axis=1) == y
    values = p.max(axis=1)
    expected = errors(values.astype(float), hits, w + 0.5, edges.astype(float), closed)
    for norm, value in expected.items():
        error = c.ece(y, p, bins=bins, norm=norm, closed=closed, sample_weight=w + 0.5)
        assert error == pytest.approx(value, abs=1e-13)
    assert c.mce(y, p, bins=bins, closed=closed, sample_weight=w + 0.5) == pytest.approx(
        expected["max"], abs=1e-13
    )


@given(PROBLEMS, st.integers(1, 20), CLOSED)
def test_classwise_ece_is_the_mean_of_the_errors_of_classes(data, bins, closed):
    y, p, w = data
    edges = np.linspace(0, 1, bins + 1).astype(p.dtype).astype(float)
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    for threshold in (None, 0.125):
        expected = []
        for label in classes:
            selected_rows = p[:, label] > (-1 if threshold is None else threshold)
            values, hits = p[selected_rows, label].astype(float), y[selected_rows] == label
            expected.append(
                errors(values, hits, w[selected_rows], edges, closed)
                if selected_rows.any()
                else None
            )
        for norm in ("l1", "l2", "max"):
            options = {"threshold": threshold, "sample_weight": w, "closed": closed, "norm": norm}
            values = [np.nan if e is None else e[norm] for e in expected]
            error = c.classwise_ece(y, p, bins=bins, average=None, **options)
            np.testing.assert_allclose(error, values, atol=1e-13)
            mean = np.nan if np.isnan(values).all() else np.nanmean(values)
            np.testing.assert_allclose(
                c.classwise_ece(y, p, bins=bins, **options), mean, atol=1e-13
            )


@given(PROBLEMS, st.integers(1, 20), CLOSED, st.booleans())
def test_bins_of_even_weight_are_quantile_bins(data, bins, closed, weighted):
    y, p, w = data
    w = w if weighted else np.ones(len(y))
    options = {"bins": bins, "sample_weight": w if weighted else None, "binning": "mass"}
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])

    def edges(values, weights):
        # The smallest value that at least a share j / bins is not above: NumPy's inverted_cdf.
        levels = np.arange(1, bins) / bins
        if closed == "left":  # mirrored: the largest value that at least 1 - j / bins is not below
            inner = -np.quantile(-values, 1 - levels, method="inverted_cdf", weights=weights)
        else:
            inner = np.quantile(values, levels, method="inverted_cdf", weights=weights)
        return np.concatenate([[0], inner, [1]])

    clear = all(abs(w.sum() * j / bins % 1 - 0.5) < 0.49 for j in range(1, bins))
    if not clear:  # NumPy's levels are rounded, and a level is at a step of the distribution
        return
    expected = []
    for label in classes:
        values = p[:, label].astype(float)
        expected.append(errors(values, y == label, w, edges(values, w), closed)["l1"])
    error = c.classwise_ece(y, p, average=None, closed=closed, **options)
    np.testing.assert_allclose(error, expected, atol=1e-13)
    values, hits = p.max(axis=1).astype(float), p.argmax(axis=1) == y
    expected = errors(values, hits, w, edges(values, w), closed)["l1"]
    assert c.ece(y, p, closed=closed, **options) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bins", [63, 64, 65, 127, 128, 129, 1000])
def test_many_bins_hold_the_rows_that_numpy_puts_there(bins, tied, kind, closed):
    y, p, w = problem(bins, 700, 5, kind, tied)
    options = {"bins": bins, "binning": "mass", "closed": closed, "sample_weight": w}
    expected = []
    for label in range(5):
        values = p[:, label]
        order = np.argsort(values)
        edges = mass_edges(values[order], w[order].astype(float), Binning(bins, "mass", closed))
        expected.append(errors(values.astype(float), y == label, w, edges, closed)["l1"])
    error = c.classwise_ece(y, p, average=None, **options)
    np.testing.assert_allclose(error, expected, atol=1e-13)
    values, hits = p.max(axis=1), (p.argmax(axis=1) == y).astype(int)
    curve = c.reliability_curve(hits, values, **options)
    inner = curve.edges[1:-1].astype(kind)
    place = np.searchsorted(inner, values, side="left" if closed == "right" else "right")
    np.testing.assert_array_equal(curve.count, np.bincount(place, minlength=bins))


@pytest.mark.parametrize("closed", ["right", "left"])
@pytest.mark.parametrize(("n", "bins"), [(60, 15), (61, 15), (74, 15), (7, 10), (100, 1)])
def test_bins_of_even_weight_hold_even_numbers(n, bins, closed, rng):
    values = np.sort(rng.random(n))
    edges = mass_edges(values, None, Binning(bins, "mass", closed))
    weighted = mass_edges(values, np.full(n, 2.0), Binning(bins, "mass", closed))
    np.testing.assert_array_equal(edges, weighted)
    y = rng.integers(0, 2, size=n)
    curve = c.reliability_curve(y, values, bins=bins, binning="mass", closed=closed)
    assert curve.count.sum() == n
    assert curve.count.max() - curve.count.min() <= 1


def test_adaptive_ece_is_that_of_nixon_et_al(rng):
    y, p, _ = problem(5, 600, 4)  # no ties, and bins divides n
    gaps = []
    for label in range(4):
        order = np.argsort(p[:, label])
        for rows in np.split(order, 15):
            gaps.append(abs((y[rows] == label).mean() - p[rows, label].mean()))
    assert c.adaptive_ece(y, p) == pytest.approx(np.mean(gaps), abs=1e-14)
    assert c.adaptive_ece(y, p) == c.classwise_ece(y, p, binning="mass")
    thresholded = []
    for label in range(4):
        rows = np.flatnonzero(p[:, label] > 0.25)
        rows = rows[np.argsort(p[rows, label])]
        parts = np.split(rows, np.ceil(len(rows) * np.arange(1, 15) / 15).astype(int))
        for part in parts:
            gap = (y[part] == label).mean() - p[part, label].mean()
            thresholded.append(len(part) / len(rows) * abs(gap) / 4)
    assert c.adaptive_ece(y, p, threshold=0.25) == pytest.approx(sum(thresholded), abs=1e-14)


def test_no_probability_above_the_threshold():
    p = np.tile([0.5, 0.3, 0.2], (5, 1))
    y = [0, 0, 1, 2, 0]
    by_class = c.classwise_ece(y, p, threshold=0.25, average=None)
    assert np.isnan(by_class).tolist() == [False, False, True]
    assert c.classwise_ece(y, p, threshold=0.25) == pytest.approx((0.1 + 0.1) / 2)
    assert c.adaptive_ece(y, p, threshold=0.25) == pytest.approx((0.1 + 0.1) / 2)
    assert np.isnan(c.classwise_ece(y, p, threshold=0.75))
    assert np.isnan(c.adaptive_ece(y, p, threshold=0.75))


# Edges


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [1, 2, 3, 5, 7, 10, 15, 49, 100, 1000])
def test_a_probability_on_an_edge_is_in_the_bin_of_the_convention(bins, kind):
    edges = np.linspace(0, 1, bins + 1).astype(kind)
    y = np.arange(bins + 1) % 2
    right = c.reliability_curve(y, edges, bins=bins)
    left = c.reliability_curve(y, edges, bins=bins, closed="left")
    assert right.count.tolist() == [2] + [1] * (bins - 1)  # 0 and 1 / bins
    assert left.count.tolist() == [1] * (bins - 1) + [2]  # 1 - 1 / bins and 1
    above = np.nextafter(edges[:-1], kind(2))
    assert c.reliability_curve(y[1:], above, bins=bins).count.tolist() == [1] * bins
    below = np.nextafter(edges[1:], kind(-1))
    assert c.reliability_curve(y[1:], below, bins=bins).count.tolist() == [1] * bins


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), KINDS)
def test_arithmetic_finds_the_bin_that_a_search_finds(seed, bins, kind):
    rng = np.random.default_rng(seed)
    edges = np.linspace(0, 1, bins + 1).astype(kind)
    near = rng.choice(edges, size=600)
    for _ in range(3):
        near = np.where(rng.random(600) < 0.5, np.nextafter(near, kind(rng.integers(-1, 3))), near)
    values = np.concatenate([near.clip(0, 1), rng.random(600).astype(kind)])
    y = rng.integers(0, 2, size=len(values))
    for closed, side in (("right", "left"), ("left", "right")):
        counts = c.reliability_curve(y, values, bins=bins, closed=closed).count
        places = np.searchsorted(edges[1:-1], values, side=side)
        np.testing.assert_array_equal(counts, np.bincount(places, minlength=bins))


def test_single_precision_bins_as_double_precision_does():
    tenths = np.arange(11) / 10
    y = np.arange(11) % 2
    one = c.reliability_curve(y, tenths, bins=10)
    other = c.reliability_curve(y, tenths.astype(np.float32), bins=10)
    np.testing.assert_array_equal(one.count, other.count)
    np.testing.assert_array_equal(one.edges, other.edges)


# Peers


@given(st.integers(0, 2**32 - 1), st.integers(5, 200), st.integers(1, 20))
def test_reliability_curve_is_that_of_scikit_learn(seed, n, bins):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    y[:2] = 0, 1
    curve = c.reliability_curve(y, p, bins=bins)
    frequency, mean = calibration_curve(y, p, n_bins=bins)
    filled = curve.count > 0
    np.testing.assert_allclose(curve.accuracy[filled], frequency, rtol=1e-13)
    np.testing.assert_allclose(curve.confidence[filled], mean, rtol=1e-13)
    assert np.isnan(curve.accuracy[~filled]).all()


def test_ece_is_that_of_netcal_with_bins_closed_on_the_left(rng):
    pytest.importorskip("torch")
    netcal = pytest.importorskip("netcal.metrics")
    y, p, _ = problem(1, 2000, 4)
    q = rng.integers(0, 11, size=2000) / 10  # on the edges
    z = (rng.random(2000) < q).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = netcal.ECE(15).measure(p, y), netcal.MCE(15).measure(p, y)
        two = netcal.ECE(10).measure(q, z)
    assert c.ece(y, p, closed="left") == pytest.approx(many[0], abs=1e-12)
    assert c.mce(y, p, closed="left") == pytest.approx(many[1], abs=1e-12)
    assert c.ece(z, q, bins=10, closed="left") == pytest.approx(two, abs=1e-12)
    assert abs(c.ece(z, q, bins=10) - two) > 1e-5


def torchmetrics():
    pytest.importorskip("torch")
    return pytest.importorskip("torchmetrics.functional.classification")


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_ece_is_that_of_torchmetrics_away_from_edges(norm):
    tm, torch = torchmetrics(), pytest.importorskip("torch")
    y, p, _ = problem(2, 2000, 4)
    options = {"n_bins": 15, "norm": norm}
    many = tm.multiclass_calibration_error(torch.tensor(p), torch.tensor(y), 4, **options)
    assert c.ece(y, p, norm=norm) == pytest.approx(float(many), abs=1e-6)  # theirs in float32
    z = (y == 1).astype(int)
    two = tm.binary_calibration_error(torch.tensor(p[:, 1]), torch.tensor(z), **options)
    assert c.ece(z, p[:, 1], norm=norm) == pytest.approx(float(two), abs=1e-12)


def test_a_sure_prediction_has_no_bin_of_its_own_as_in_torchmetrics():
    tm, torch = torchmetrics(), pytest.importorskip("torch")
    y, p = [1, 0], [0.96875, 1.0]
    theirs = float(tm.binary_calibration_error(torch.tensor(p), torch.tensor(y), n_bins=10))
    assert theirs == pytest.approx((0.03125 + 1) / 2)  # two bins
    assert c.ece(y, p, bins=10) == pytest.approx(abs(0.5 - 1.96875 / 2))  # one bin, as in the paper
    assert c.reliability_curve(y, p, bins=10).count[-1] == 2


def test_nan_and_values_out_of_range_are_refused_where_torchmetrics_answers():
    tm, torch = torchmetrics(), pytest.importorskip("torch")
    for value in (np.nan, 1.5):
        p = [0.25, value, 0.75]
        theirs = tm.binary_calibration_error(torch.tensor(p), torch.tensor([0, 1, 1]), n_bins=10)
        assert np.isfinite(float(theirs))
        with pytest.raises(ValueError, match=r"NaN|p\[1\] is 1.5"):
            c.ece([0, 1, 1], p)


# What the measures are for


def test_a_calibrated_model_has_errors_near_zero_and_a_sure_one_has_not():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.5), size=50_000)
    y = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    sure = p**2 / (p**2).sum(axis=1, keepdims=True)
    for error in (c.ece, c.classwise_ece, c.adaptive_ece):
        assert error(y, p) < 0.01  # sqrt(bins / n) is 0.017
        assert error(y, sure) > 3 * error(y, p)
    curve = c.reliability_curve(y, sure)
    assert (curve.gap[6:] < 0).all()


@pytest.mark.parametrize(
    "function",
    [
        c.ece,
        lambda y, p, **o: c.ece(y, p, binning="mass", **o),
        lambda y, p, **o: c.ece(y, p, binning="mass", closed="left", **o),
        c.mce,
        c.classwise_ece,
        c.adaptive_ece,
        lambda y, p, **o: c.adaptive_ece(y, p, threshold=0.2, **o),
    ],
)
@given(PROBLEMS)
def test_integer_weights_are_repeated_rows_and_order_does_not_matter(function, data):
    y, p, w = data
    expected = function(y, p, sample_weight=w)
    repeated = function(y.repeat(w), p.repeat(w, axis=0))
    np.testing.assert_allclose(repeated, expected, atol=1e-13)
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = function(y[order], p[order], sample_weight=w[order])
    np.testing.assert_allclose(shuffled, expected, atol=1e-13)
    names = np.random.default_rng(1).permutation(p.shape[1])
    top = np.sort(p, axis=1)
    if p.shape[1] > 2 and (top[:, -1] > top[:, -2]).all():  # else the first of equal classes counts
        renamed = function(np.argsort(names)[y], p[:, names], sample_weight=w)
        np.testing.assert_allclose(renamed, expected, atol=1e-13)


@given(PROBLEMS, CLOSED)
def test_mirrored_probabilities_mirror_the_curve(data, closed):
    eighths = np.random.default_rng(len(data[0])).integers(0, 9, size=len(data[0])) / 8
    y = data[0] % 2
    other = "left" if closed == "right" else "right"
    for binning in ("width", "mass"):
        one = c.reliability_curve(y, eighths, bins=4, binning=binning, closed=closed)
        two = c.reliability_curve(1 - y, 1 - eighths, bins=4, binning=binning, closed=other)
        np.testing.assert_array_equal(one.count, two.count[::-1])
        np.testing.assert_allclose(one.accuracy, 1 - two.accuracy[::-1], atol=1e-14)


def test_curve_tells_what_it_holds():
    curve = c.reliability_curve([0, 1, 1], [0.2, 0.7, 0.9], bins=2)
    assert "ReliabilityCurve of 3 rows in 2 bins" in repr(curve)
    assert list(curve.to_frame().columns) == list(curve.to_dict())
    assert curve.to_dict()["accuracy"] == [0.0, 1.0]
    np.testing.assert_allclose(curve.gap, [-0.2, 0.2])
