"""Platt, vector and beta scaling, Venn-Abers, and conformal intervals of groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

import fastmcmd as fm
from fastmcmd.recalibration import (
    BayesianBinning,
    BetaCalibration,
    ConformalIntervals,
    MondrianIntervals,
    PlattScaling,
    StdScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
)


def binary(rng, n=400, slope=0.4, shift=0.7):
    """Return scores whose right logits are ``slope s + shift``."""
    s = 3 * rng.normal(size=n)
    return s, (rng.random(n) < special.expit(slope * s + shift)).astype(int)


def log_loss(p, y, w=None):
    return np.average(-np.log(np.where(y == 1, p, 1 - p)), weights=w)


@pytest.mark.parametrize("weighted", [False, True])
def test_platt_scaling_is_the_maximum_likelihood(rng, weighted):
    s, y = binary(rng)
    w = rng.uniform(0.1, 3, len(y)) if weighted else None
    calibrator = PlattScaling(smooth=False).fit(s, y, sample_weight=w)
    best = optimize.minimize(
        lambda at: log_loss(special.expit(at[0] * s + at[1]), y, w), [1.0, 0.0], tol=1e-12
    )
    np.testing.assert_allclose([calibrator.slope_, calibrator.intercept_], best.x, atol=1e-5)
    loss = log_loss(calibrator.transform(s), y, w)
    assert loss <= best.fun + 1e-14
    for change in ({"slope_": 1e-3}, {"intercept_": 1e-3}):
        other = PlattScaling(smooth=False)
        other.slope_ = calibrator.slope_ + change.get("slope_", 0)
        other.intercept_ = calibrator.intercept_ + change.get("intercept_", 0)
        assert log_loss(other.transform(s), y, w) > loss
    assert abs(np.average(calibrator.transform(s) - y, weights=w)) < 1e-9  # as with every intercept


def test_platt_scaling_as_scikit_learn(rng):
    calibration = pytest.importorskip("sklearn.calibration")
    s, y = binary(rng)
    theirs = calibration._SigmoidCalibration().fit(s, y)
    calibrator = PlattScaling().fit(s, y)
    np.testing.assert_allclose(calibrator.transform(s), theirs.predict(s), atol=1e-5)
    both = calibrator.transform(np.stack([np.zeros(len(s)), s], axis=1))
    np.testing.assert_allclose(
        both, np.stack([1 - calibrator.transform(s), calibrator.transform(s)], axis=1)
    )
    by_name = PlattScaling().fit(s, np.where(y == 1, "yes", "no"))
    assert by_name.slope_ == calibrator.slope_
    again = PlattScaling().fit(1e200 * s, y)
    assert again.slope_ == pytest.approx(calibrator.slope_ / 1e200, rel=1e-6)
    separated = np.array([-1.0, -2.0, 3.0, 4.0])
    assert np.isfinite(PlattScaling().fit(separated, [0, 0, 1, 1]).slope_)
    with pytest.raises(ValueError, match="smooth=True"):
        PlattScaling(smooth=False).fit(separated, [0, 0, 1, 1])
    with pytest.raises(ValueError, match="PlattScaling is for two classes"):
        PlattScaling().fit(np.zeros((3, 3)), [0, 1, 2])


def test_vector_scaling(rng):
    n = 3000
    truth = rng.normal(size=(n, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]
    y = (truth + rng.gumbel(size=(n, 3))).argmax(axis=1)
    logits = (truth - [0.3, 0.0, -0.3]) * [3.0, 0.5, 1.0]
    calibrator = VectorScaling().fit(logits, y)
    np.testing.assert_allclose(calibrator.factors_, [1 / 3, 2.0, 1.0], atol=0.35)
    assert abs(calibrator.offsets_.sum()) < 1e-9

    def loss(a, b):
        p = special.softmax(logits * a + b, axis=1)
        return -np.log(p[np.arange(n), y]).mean()

    best = loss(calibrator.factors_, calibrator.offsets_)
    np.testing.assert_allclose(calibrator.transform(logits), special.softmax(
        logits * calibrator.factors_ + calibrator.offsets_, axis=1), rtol=1e-12)  # fmt: skip
    for j in range(3):  # a minimum in each direction
        for sign in (-1, 1):
            step = sign * 1e-3 * np.eye(3)[j]
            assert loss(calibrator.factors_ + step, calibrator.offsets_) > best
            assert loss(calibrator.factors_, calibrator.offsets_ + step) > best - 1e-12
    one = TemperatureScaling().fit(logits, y).transform(logits)
    assert best < -np.log(one[np.arange(n), y]).mean()
    doubled = VectorScaling().fit(np.tile(logits, (2, 1)), np.tile(y, 2))
    weighted = VectorScaling().fit(logits, y, sample_weight=np.full(n, 2.0))
    np.testing.assert_allclose(doubled.factors_, weighted.factors_, rtol=1e-4)
    with pytest.raises(ValueError, match="no row of class 2"):
        VectorScaling().fit(logits, np.minimum(y, 1))
    with pytest.raises(ValueError, match="separate"):
        VectorScaling().fit(10 * np.eye(3)[y % 3], y)
    with pytest.raises(ValueError, match="as in fit"):
        calibrator.transform(logits[:, :2])
    with pytest.raises(ValueError, match="PlattScaling is for scores"):
        VectorScaling().fit(logits[:, 0], np.minimum(y, 1))


def test_beta_calibration(rng):
    p = rng.beta(0.7, 0.9, size=3000)
    truth = special.expit(1.7 * np.log(p) - 0.4 * np.log1p(-p) + 0.3)
    y = (rng.random(3000) < truth).astype(int)
    w = rng.uniform(0.2, 2, 3000)
    for weights in (None, w):
        calibrator = BetaCalibration().fit(p, y, sample_weight=weights)
        np.testing.assert_allclose(
            [*calibrator.slopes_, calibrator.intercept_], [1.7, 0.4, 0.3], atol=0.35
        )

        def loss(at, weights=weights):
            shares = special.expit(at[0] * np.log(p) - at[1] * np.log1p(-p) + at[2])
            return log_loss(shares, y, weights)

        best = optimize.minimize(loss, [1.0, 1.0, 0.0], method="Nelder-Mead",
                                 options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000})  # fmt: skip
        assert loss([*calibrator.slopes_, calibrator.intercept_]) <= best.fun + 1e-10
    shares = calibrator.transform(np.linspace(0, 1, 50))
    assert (np.diff(shares) >= 0).all()
    both = calibrator.transform(np.stack([1 - p, p], axis=1))
    np.testing.assert_allclose(both[:, 1], calibrator.transform(p), rtol=1e-9)


def test_slopes_of_beta_calibration_are_not_negative(rng):
    p = rng.uniform(size=2000)
    y = (rng.random(2000) < special.expit(-0.8 * np.log1p(-p) - 0.5 * np.log(p) - 1)).astype(int)
    calibrator = BetaCalibration().fit(p, y)
    assert calibrator.slopes_.tolist()[0] == 0.0
    assert calibrator.slopes_[1] > 0
    other = BetaCalibration().fit(p, (rng.random(2000) < 1 - p).astype(int))  # has the wrong sign
    assert calibrator.slopes_.min() == 0.0
    assert other.slopes_.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(other.transform(p), other.transform(p[:1])[0])
    with pytest.raises(ValueError, match="separates"):
        BetaCalibration().fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"p holds values from 0.1 to 1.5"):
        BetaCalibration().fit([0.1, 1.5], [0, 1])
    with pytest.raises(ValueError, match="two classes"):
        BetaCalibration().fit(np.full((3, 3), 1 / 3), [0, 1, 2])


@pytest.mark.parametrize("digits", [0, 1, 8])
def test_venn_abers_is_isotonic_regression_with_the_row_added(rng, digits):
    s, y = binary(rng, 60)
    s = np.round(s, digits)
    new = np.unique(
        np.concatenate([np.round(3 * rng.normal(size=40), digits), s, s + 0.05, [-99.0, 99.0]])
    )
    interval = VennAbers().fit(s, y).interval(new)
    for score, pair in zip(new, interval, strict=True):
        for label in (0, 1):
            at, values = np.append(s, score), np.append(y, label).astype(float)
            levels, place, count = np.unique(at, return_inverse=True, return_counts=True)
            means = np.bincount(place, values) / count
            fit = optimize.isotonic_regression(means, weights=count).x
            assert pair[label] == pytest.approx(fit[np.searchsorted(levels, score)], abs=1e-12)
    assert (interval[:, 0] <= interval[:, 1]).all()


def test_one_of_the_pair_is_calibrated(rng):
    """Over many draws of 20 calibration rows the theorem holds, and the plain isotonic fit fails."""
    nearest, plain, labels = [], [], []
    for _ in range(1500):
        s, y = binary(rng, 21)
        pair = VennAbers().fit(s[:20], y[:20]).interval(s[20:])[0]
        nearest.append(pair[y[20]])
        order = np.argsort(s[:20])
        fit = optimize.isotonic_regression(y[:20][order].astype(float)).x
        place = np.clip(np.searchsorted(s[:20][order], s[20]), 0, 19)
        plain.append(fit[place])
        labels.append(y[20])
    nearest, plain, labels = map(np.array, (nearest, plain, labels))
    for low, high in ((0.0, 0.34), (0.34, 0.67), (0.67, 1.01)):
        some = (nearest >= low) & (nearest < high)
        gap = labels[some] - nearest[some]
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(some.sum())
    sure = plain == 0.0
    assert labels[sure].mean() > 0.05  # says never, and it happens


def test_merged_probabilities(rng):
    s, y = binary(rng)
    calibrator = VennAbers().fit(s, y)
    low, high = calibrator.interval(s).T
    np.testing.assert_allclose(calibrator.transform(s), high / (1 - low + high))
    both = calibrator.transform(np.stack([-s / 2, s / 2], axis=1))
    np.testing.assert_allclose(both[:, 1], calibrator.transform(s))
    np.testing.assert_allclose(both.sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="two classes"):
        VennAbers().fit(np.zeros((3, 3)), [0, 1, 2])


def _bins_by_definition(p, y, count):
    """Return one model of Bayesian binning, bin by bin: inner edges, means, marginal likelihood."""
    n = len(p)
    cuts = [round(n * k / count) for k in range(count + 1)]
    means, likelihood = [], 1.0
    inner = [(p[c - 1] + p[c]) / 2 for c in cuts[1:-1]]
    ends = [0.0, *inner, 1.0]
    for k in range(count):
        labels = y[cuts[k] : cuts[k + 1]]
        middle, weight = (ends[k] + ends[k + 1]) / 2, 2 / count
        a, b = weight * middle, weight * (1 - middle)
        likelihood *= special.beta(labels.sum() + a, (1 - labels).sum() + b) / special.beta(a, b)
        means.append((labels.sum() + a) / (len(labels) + weight))
    return inner, means, likelihood


def test_bayesian_binning_by_definition(rng):
    p = np.sort(rng.uniform(size=40))
    y = (rng.random(40) < p).astype(int)
    calibrator = BayesianBinning().fit(p[::-1], y[::-1])
    new = np.linspace(0.001, 0.999, 97)
    total = weight = 0.0
    for count in range(1, 36):  # from 40^(1/3) / 10 to 10 40^(1/3)
        inner, means, likelihood = _bins_by_definition(p, y, count)
        total = total + likelihood * np.array(means)[np.searchsorted(inner, new)]
        weight += likelihood
    np.testing.assert_allclose(calibrator.transform(new), total / weight, rtol=1e-9)


def test_bayesian_binning_mends_probabilities(rng):
    p = np.round(rng.uniform(size=6000), 2)  # many are equal
    y = (rng.random(6000) < p**2).astype(int)
    calibrator = BayesianBinning().fit(p[:3000], y[:3000])
    before = fm.classification.ece(y[3000:], p[3000:])
    after = fm.classification.ece(y[3000:], calibrator.transform(p[3000:]))
    assert after < 0.04 < before
    both = calibrator.transform(np.stack([1 - p, p], axis=1))
    np.testing.assert_allclose(both[:, 1], calibrator.transform(p), atol=0.05)
    single = BayesianBinning().fit(np.full(9, 0.5), np.arange(9) % 3 == 0)
    np.testing.assert_allclose(single.transform([0.2, 0.9]), 4 / 11)


@pytest.mark.parametrize("far", [[1 - 2**-52, 1.0], [0.0, 5e-324], [0.0, 1e-300, 1 - 2**-52, 1.0]])
@pytest.mark.parametrize("surprising", [False, True])
def test_bayesian_binning_next_to_0_and_1(rng, far, surprising):
    """The middle of a bin next to 1 rounds to 1, and that next to 0 to 0: the map was NaN."""
    p = np.concatenate([rng.uniform(size=60), np.repeat(far, 20)])
    y = ((p > 0.5) != surprising).astype(int)
    calibrator = BayesianBinning().fit(p, y)
    assert ((calibrator.shares_ > 0) & (calibrator.shares_ < 1)).all()
    for value in (far[0], far[-1]):
        assert abs(calibrator.transform([value, value])[0] - y[p == value][0]) < 0.1


@pytest.mark.parametrize("score", ["absolute", "scaled", "cqr"])
def test_mondrian_intervals(rng, score):
    n = 900
    groups = rng.integers(0, 3, n) * 10.0
    std = 1 + groups / 5
    y = std * rng.normal(size=n)
    prediction = fm.Gaussian(np.zeros(n), rng.uniform(0.5, 2.0, n))
    calibrator = MondrianIntervals(0.8, score).fit(prediction, y, groups)
    new = np.array([0.0, 20.0, 10.0, 20.0, 5.0])
    part = prediction.take(np.arange(5))
    ends = calibrator.interval(part, new)
    for i, group in enumerate(new[:4]):
        some = np.flatnonzero(groups == group)
        one = ConformalIntervals(0.8, score).fit(prediction.take(some), y[some])
        np.testing.assert_array_equal(ends[i], one.interval(part.take(np.array([i])))[0])
    assert ends[4].tolist() == [-np.inf, np.inf]
    with pytest.raises(ValueError, match="groups has shape"):
        calibrator.interval(part, new[:4])
    with pytest.raises(ValueError, match="groups holds NaN"):
        calibrator.interval(part, np.full(5, np.nan))
    for names in (np.array(list("ababa")), np.array(["a", 1, 2, 3, 4], dtype=object)):
        with pytest.raises(TypeError, match=r"groups has dtype .*searchsorted"):
            calibrator.interval(part, names)


def test_coverage_within_groups(rng):
    """With nine rows per group, 90 % of new rows are covered, by the theorem, in the wide group too."""
    inside, plain = [], []
    for _ in range(400):
        groups = np.repeat([0, 0, 0, 1], 11)
        y = np.where(groups == 1, 5.0, 1.0) * rng.normal(size=44)
        fitted = np.arange(44) % 11 < 9
        new = np.flatnonzero(~fitted & (groups == 1))
        prediction = fm.Gaussian(np.zeros(44), 1.0)
        args = prediction.take(np.flatnonzero(fitted)), y[fitted]
        low, high = MondrianIntervals(0.9).fit(*args, groups[fitted]).interval(
            prediction.take(new), groups[new]
        ).T  # fmt: skip
        inside += ((y[new] >= low) & (y[new] <= high)).tolist()
        low, high = ConformalIntervals(0.9).fit(*args).interval(prediction.take(new)).T
        plain += ((y[new] >= low) & (y[new] <= high)).tolist()
    assert np.mean(inside) > 0.9 - 4 * 0.3 / np.sqrt(800)
    assert np.mean(plain) < 0.8


def test_intervals_normalised_by_a_recalibrated_std(rng):
    """A common factor changes nothing; a recalibrated spread that follows the errors does."""
    n = 3000
    x = rng.uniform(size=n)
    y = (0.2 + x) * rng.normal(size=n)
    prediction = fm.Gaussian(np.zeros(n), (0.2 + x) ** 2)
    parts = np.split(np.arange(n), 3)
    fit_rows, calibration, test = (prediction.take(rows) for rows in parts)
    plain = ConformalIntervals(0.9, "scaled").fit(calibration, y[parts[1]])
    for recalibrator, better in ((StdScaling(), False), (fm.recalibration.IsotonicStd(), True)):
        mended = recalibrator.fit(fit_rows, y[parts[0]])
        intervals = ConformalIntervals(0.9, "scaled").fit(
            mended.transform(calibration), y[parts[1]]
        )
        widths = [
            np.diff(intervals.interval(rows), axis=1).mean()
            for intervals, rows in ((plain, test), (intervals, mended.transform(test)))
        ]
        low, high = intervals.interval(mended.transform(test)).T
        covered = np.mean((y[parts[2]] >= low) & (y[parts[2]] <= high))
        assert abs(covered - 0.9) < 0.04
        assert (widths[1] < 0.97 * widths[0]) == better
