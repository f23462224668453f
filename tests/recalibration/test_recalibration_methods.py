"""Recalibrators: a second sample shows the repair, and right models stay."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar

import fastmcmd as fm
from fastmcmd import recalibration as rc
from fastmcmd.predictive import as_predictive

N = 4000
REGRESSION = [
    rc.StdScaling,
    rc.StdRatio,
    rc.IsotonicCDF,
    rc.QuantileRecalibrator,
    rc.IntervalRecalibrator,
    rc.HistogramBinningStd,
    rc.IsotonicStd,
]


def outcomes(seed, kind="calibrated"):
    """Return predictions (mean, std), and outcomes that deviate from them in a known way."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(scale=3, size=N), rng.lognormal(sigma=0.5, size=N)
    noise = rng.normal(size=N)
    y = {
        "calibrated": mean + std * noise,
        "too narrow": mean + 2 * std * noise,
        "too wide": mean + std * noise / 3,
        "shifted": mean + std * (noise + 0.7),
        "skewed": mean + std * (rng.exponential(size=N) - 1),
        "by bins": mean + std**2 * noise,
    }[kind]
    return fm.Gaussian(mean, std), y


def crps(prediction, y):
    return float(prediction.crps(y).mean())


@pytest.mark.parametrize("make", REGRESSION)
def test_calibrated_predictions_lose_no_more_than_sampling_error(make):
    calibrator = make().fit(*outcomes(1))
    prediction, y = outcomes(2)
    mended = calibrator.transform(prediction)
    before, after = prediction.crps(y), mended.crps(y)
    # Scores of a fit with k parameters are off by k / n; k is at most 2 n^(1/3) = 32 here.
    assert after.mean() - before.mean() < 32 / N * before.mean()
    loss = prediction.log_prob(y) - mended.log_prob(y)
    assert loss.mean() < 2 * 32 / N
    # Both samples scatter: the largest distance to the true curve is below 1.36 / sqrt(n) in 95 %.
    assert fm.regression_ece(y, mended) < 2 * 1.36 / np.sqrt(N)


REPAIRS = [
    ("too narrow", rc.StdScaling),
    ("too narrow", rc.StdRatio),
    ("too narrow", rc.IsotonicCDF),
    ("too narrow", rc.IntervalRecalibrator),
    ("too narrow", rc.HistogramBinningStd),
    ("too narrow", rc.IsotonicStd),
    ("too wide", rc.StdScaling),
    ("too wide", rc.StdRatio),
    ("too wide", rc.IsotonicCDF),
    ("too wide", rc.QuantileRecalibrator),
    ("shifted", rc.IsotonicCDF),
    ("shifted", rc.QuantileRecalibrator),
    ("skewed", rc.IsotonicCDF),
    ("skewed", rc.QuantileRecalibrator),
]


@pytest.mark.parametrize(("kind", "make"), REPAIRS)
def test_known_errors_are_repaired_on_a_second_sample(kind, make):
    calibrator = make().fit(*outcomes(3, kind))
    prediction, y = outcomes(4, kind)
    mended = calibrator.transform(prediction)
    before, after = fm.regression_ece(y, prediction), fm.regression_ece(y, mended)
    assert before > 0.05
    assert after < 1.36 / np.sqrt(N)  # largest distance in 95 % of samples
    assert crps(mended, y) < crps(prediction, y)
    assert mended.log_prob(y).mean() > prediction.log_prob(y).mean()


@pytest.mark.parametrize(("make", "loss"), [(rc.HistogramBinningStd, 0.08), (rc.IsotonicStd, 0.03)])
def test_stds_of_the_wrong_power_are_repaired_by_bins(make, loss):
    calibrator = make().fit(*outcomes(5, "by bins"))
    prediction, y = outcomes(6, "by bins")
    best = fm.Gaussian(prediction.mean, prediction.std**2)
    mended = calibrator.transform(prediction)
    assert fm.ence(y, prediction) > 0.3
    assert fm.ence(y, mended) < 0.1
    assert best.log_prob(y).mean() - mended.log_prob(y).mean() < loss
    assert prediction.log_prob(y).mean() < mended.log_prob(y).mean() - 0.1


def test_std_scaling_is_the_best_factor_of_the_likelihood():
    prediction, y = outcomes(7, "skewed")
    scale = rc.StdScaling().fit(prediction, y).scale_

    def objective(s):  # Levi et al., eq. 12, as it should read
        z = (y - prediction.mean) / prediction.std
        return N * np.log(s) + np.sum(z * z) / (2 * s * s)

    best = minimize_scalar(objective, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-9})
    assert scale == pytest.approx(best.x, rel=1e-6)


def test_all_knots_overfit_the_density_and_few_do_not():
    # The log score of single gaps is worse by 1 - Euler's constant = 0.42, and not better with more rows.
    prediction, y = outcomes(8)
    second, z = outcomes(9)
    every = rc.IsotonicCDF(knots=None).fit(prediction, y)
    few = rc.IsotonicCDF().fit(prediction, y)
    assert len(every.levels_) == N + 2
    assert len(few.levels_) == int(np.ceil(2 * N ** (1 / 3))) + 2
    loss = second.log_prob(z).mean() - every.transform(second).log_prob(z).mean()
    assert 0.36 < loss < 0.48
    assert second.log_prob(z).mean() - few.transform(second).log_prob(z).mean() < 0.01
    grid = np.linspace(0.001, 0.999, 500)
    gap = few.transform(second).mapping(grid) - every.transform(second).mapping(grid)
    assert np.abs(gap).max() < 1.36 / np.sqrt(N)


def test_isotonic_regression_of_the_pairs_is_the_pairs():
    # Compare Kuleshov's algorithm 1 by scikit-learn with the map with all knots.
    sklearn = pytest.importorskip("sklearn.isotonic")
    prediction, y = outcomes(10, "shifted")
    pit = np.sort(prediction.cdf(y))
    share = (np.arange(N) + 0.5) / N
    regressed = sklearn.IsotonicRegression(out_of_bounds="clip").fit(pit, share)
    level_map = rc.IsotonicCDF(knots=None).fit(prediction, y)
    np.testing.assert_allclose(level_map.observed_[1:-1], regressed.predict(pit), rtol=1e-12)
    np.testing.assert_allclose(level_map.levels_[1:-1], pit)


def test_isotonic_std_without_bins_is_scikit_learn():
    sklearn = pytest.importorskip("sklearn.isotonic")
    prediction, y = outcomes(11, "by bins")
    weights = np.random.default_rng(0).uniform(0.1, 3, N)
    square = (y - prediction.mean) ** 2
    peer = sklearn.IsotonicRegression(out_of_bounds="clip").fit(
        prediction.variance, square, sample_weight=weights
    )
    calibrator = rc.IsotonicStd(bins=None).fit(prediction, y, sample_weight=weights)
    new, _ = outcomes(12)
    np.testing.assert_allclose(
        calibrator.transform(new).variance, peer.predict(new.variance), rtol=1e-9
    )


@given(st.lists(st.tuples(st.floats(0.01, 5), st.floats(0.1, 9)), min_size=1, max_size=30))
def test_isotonic_std_is_the_nearest_nondecreasing_sequence(pairs):
    values, weights = (np.array(part) for part in zip(*pairs, strict=True))
    prediction = fm.Gaussian(np.zeros(len(values)), np.sqrt(np.arange(1.0, len(values) + 1)))
    calibrator = fm.recalibration.IsotonicStd(bins=None).fit(
        prediction, np.sqrt(values), sample_weight=weights
    )
    errors = calibrator.errors_
    assert (np.diff(errors) >= 0).all()
    n = len(values)
    # Largest of the least means: max over a <= i of min over b >= i of mean(a..b).
    for i in range(n):
        best = max(
            min(np.average(values[a : b + 1], weights=weights[a : b + 1]) for b in range(i, n))
            for a in range(i + 1)
        )
        assert errors[i] == pytest.approx(best, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["ma_cal", "rms_cal", "miscal"])
def test_std_ratio_is_no_worse_than_uncertainty_toolbox_by_its_own_measure(criterion):
    uct = pytest.importorskip("uncertainty_toolbox")
    from uncertainty_toolbox.recalibration import optimize_recalibration_ratio

    measure = {
        "ma_cal": uct.metrics.mean_absolute_calibration_error,
        "rms_cal": uct.metrics.root_mean_squared_calibration_error,
        "miscal": uct.metrics.miscalibration_area,
    }[criterion]
    prediction, y = outcomes(13, "skewed")
    prediction, y = prediction.take(np.arange(200)), y[:200]
    calibrator = rc.StdRatio(criterion).fit(prediction, y)
    ours = measure(prediction.mean, calibrator.ratio_ * prediction.std, y)
    assert calibrator.error_ == pytest.approx(ours, abs=1e-9)
    if (
        criterion != "miscal"
    ):  # takes the original ten seconds; test_compat_uct.py compares one sample
        return
    theirs = optimize_recalibration_ratio(prediction.mean, prediction.std, y, criterion)
    # Both search a function with steps of about 1 / n: a tenth of one is no difference.
    assert ours <= measure(prediction.mean, theirs * prediction.std, y) + 0.1 / 200


def test_std_ratio_of_any_family_is_that_of_gaussians():
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=400), rng.normal(size=400)
    slow = as_predictive(stats.t(1e9, mean, 0.5), 400)  # Gaussians to rounding
    one = rc.StdRatio().fit(fm.Gaussian(mean, 0.5), y)
    assert rc.StdRatio().fit(slow, y).ratio_ == pytest.approx(one.ratio_, rel=1e-3)


def test_quantile_recalibrator_of_uncertainty_toolbox_makes_a_shifted_model_worse():
    # Its proportions of "quantile" count (mean - y) / std <= z_p: the sign is reversed.
    uct = pytest.importorskip("uncertainty_toolbox.recalibration")
    prediction, y = outcomes(14, "shifted")
    second, z = outcomes(15, "shifted")
    theirs = uct.get_quantile_recalibrator(prediction.mean, prediction.std, y)
    ours = rc.QuantileRecalibrator().fit(prediction, y).transform(second)
    levels = np.arange(0.1, 0.95, 0.1)
    raw, wrong, mended = (
        np.mean([abs(np.mean(z <= quantiles(q)) - q) for q in levels])
        for quantiles in (
            second.quantile,
            lambda q: theirs(second.mean, second.std, float(q)),
            ours.quantile,
        )
    )
    assert raw > 0.15
    assert wrong > 1.3 * raw
    assert mended < 0.02


def test_interval_recalibrator_agrees_with_uncertainty_toolbox():
    uct = pytest.importorskip("uncertainty_toolbox.recalibration")
    prediction, y = outcomes(16, "too narrow")
    theirs = uct.get_interval_recalibrator(prediction.mean, prediction.std, y)
    ours = rc.IntervalRecalibrator().fit(prediction, y).transform(prediction)
    for q in (0.3, 0.5, 0.9):
        expected = theirs(prediction.mean, prediction.std, q)
        ends = ours.quantile([(1 - q) / 2, (1 + q) / 2])
        # Both interpolate observed shares, between levels one hundredth apart.
        np.testing.assert_allclose(ends[:, 0], expected.lower, atol=0.05 * prediction.std.max())
        np.testing.assert_allclose(ends[:, 1], expected.upper, atol=0.05 * prediction.std.max())
    np.testing.assert_allclose(ours.quantile(0.5), prediction.mean, atol=1e-9)


def test_counts_with_the_wrong_dispersion_are_repaired():
    rng = np.random.default_rng(17)
    mean = rng.uniform(1, 12, (2, N))
    y = rng.poisson(rng.gamma(2.0, mean / 2.0))  # negative binomial, dispersion 1/2
    calibrator = rc.IsotonicCDF().fit(fm.Poisson(mean[0]), y[0])
    before, after = fm.Poisson(mean[1]), calibrator.transform(fm.Poisson(mean[1]))
    assert fm.regression_ece(y[1], before) > 0.04
    assert fm.regression_ece(y[1], after) < 0.02
    assert after.crps(y[1]).mean() < before.crps(y[1]).mean()
    assert after.log_prob(y[1]).mean() > before.log_prob(y[1]).mean() + 0.1
    right = rc.IsotonicCDF().fit(fm.NegativeBinomial(mean[0], 0.5), y[0])
    second = right.transform(fm.NegativeBinomial(mean[1], 0.5))
    loss = fm.NegativeBinomial(mean[1], 0.5).log_prob(y[1]) - second.log_prob(y[1])
    assert loss.mean() < 0.012


def test_draws_that_scatter_too_little_are_repaired():
    rng = np.random.default_rng(18)
    y = rng.normal(scale=1.5, size=(2, N))
    draws = rng.normal(size=(2, N, 40))
    recalibrated_prediction = rc.IsotonicCDF().fit(fm.Draws(draws[0]), y[0]).transform(draws[1])
    assert crps(recalibrated_prediction, y[1]) < crps(fm.Draws(draws[1]), y[1])
    assert fm.regression_ece(y[1], recalibrated_prediction) < 0.02
    scaled = rc.StdScaling().fit(fm.Draws(draws[0]), y[0]).transform(draws[1])
    assert isinstance(scaled, fm.Draws)
    assert scaled.std.mean() == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize("make", REGRESSION)
def test_whole_weights_are_repeated_rows(make):
    rng = np.random.default_rng(19)
    prediction, y = outcomes(20, "by bins")
    rows = np.arange(500)
    weights = rng.integers(0, 4, 500)
    again = np.repeat(rows, weights)
    one = make().fit(prediction.take(rows), y[rows], sample_weight=weights)
    two = make().fit(prediction.take(again), y[again])
    for name, value in one.fitted.items():
        np.testing.assert_allclose(value, two.fitted[name], rtol=1e-9, err_msg=name)
    scaled = make().fit(prediction.take(rows), y[rows], sample_weight=weights * 0.37)
    for name, value in one.fitted.items():
        np.testing.assert_allclose(value, scaled.fitted[name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("make", REGRESSION)
def test_order_shift_and_scale_of_rows_change_nothing(make):
    prediction, y = outcomes(21, "skewed")
    order = np.random.default_rng(0).permutation(N)
    new, _ = outcomes(22)
    expected = make().fit(prediction, y).transform(new)
    transformed = make().fit(prediction.take(order), y[order]).transform(new)
    np.testing.assert_allclose(
        transformed.quantile([0.1, 0.8]), expected.quantile([0.1, 0.8]), rtol=1e-9
    )
    # 8 is a power of 2, so that nothing is rounded and StdRatio sees the same steps.
    wide = make().fit(fm.Gaussian(8 * prediction.mean, 8 * prediction.std), 8 * y)
    wide = wide.transform(fm.Gaussian(8 * new.mean, 8 * new.std))
    np.testing.assert_allclose(wide.quantile(0.2), 8 * expected.quantile(0.2), rtol=1e-9)
    far = make().fit(fm.Gaussian(prediction.mean + 64, prediction.std), y + 64)
    far = far.transform(fm.Gaussian(new.mean + 64, new.std))
    np.testing.assert_allclose(far.quantile(0.2), 64 + expected.quantile(0.2), rtol=1e-3)


@pytest.mark.parametrize("make", REGRESSION)
def test_rows_with_nan_are_refused_or_left_out(make):
    prediction, y = outcomes(23)
    holed = y.copy()
    holed[::7] = np.nan
    with pytest.raises(ValueError, match="y holds NaN"):
        make().fit(prediction, holed)
    with pytest.raises(ValueError, match="nan_policy is 'propagate'"):
        make().fit(prediction, y, nan_policy="propagate")
    keep = np.flatnonzero(~np.isnan(holed))
    one = make().fit(prediction, holed, nan_policy="omit")
    two = make().fit(prediction.take(keep), y[keep])
    for name, value in one.fitted.items():
        np.testing.assert_array_equal(value, two.fitted[name])


@pytest.mark.parametrize("make", REGRESSION)
def test_what_is_saved_is_what_is_loaded(make, tmp_path):
    prediction, y = outcomes(24, "skewed")
    calibrator = make()
    with pytest.raises(ValueError, match="not fitted"):
        calibrator.transform(prediction)
    with pytest.raises(ValueError, match="not fitted"):
        calibrator.save(tmp_path / "a.npz")
    assert repr(calibrator).endswith(")")
    mended = calibrator.fit_transform(prediction, y)
    assert "fitted: " in repr(calibrator)
    calibrator.save(tmp_path / "a.npz")
    again = rc.load(tmp_path / "a.npz")
    assert type(again) is make
    assert repr(again) == repr(calibrator)
    np.testing.assert_array_equal(again.transform(prediction).cdf(y), mended.cdf(y))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        settings = json.loads(archive["settings"].tobytes().decode())
    assert settings["kind"] == make.__name__


def test_levels_and_errors_of_saved_files(tmp_path):
    prediction, y = outcomes(25)
    calibrator = rc.QuantileRecalibrator(levels=[0.25, 0.5]).fit(prediction, y)
    calibrator.save(tmp_path / "a.npz")
    again = rc.load(tmp_path / "a.npz")
    assert isinstance(again, rc.QuantileRecalibrator)
    assert isinstance(fm.load(tmp_path / "a.npz"), rc.QuantileRecalibrator)
    assert again.levels.tolist() == [0.25, 0.5]
    calibrator.random_state = np.random.default_rng(0)
    with pytest.raises(TypeError, match="cannot be saved"):
        calibrator.save(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="not a saved recalibrator"):
        rc.load(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", settings=np.frombuffer(b'{"recalibrator": "os"}', np.uint8))
    with pytest.raises(ValueError, match="has format None"):
        rc.load(tmp_path / "c.npz")
    for name, numbers, message in (
        ("load", {}, "holds a load, which"),
        ("StdScaling", {"transform": 1}, "not a saved StdScaling"),
        ("StdScaling", {"scale": 1}, "not a saved StdScaling"),
    ):
        header = {"format": 1, "recalibrator": name, "settings": {}, "numbers": numbers}
        np.savez(tmp_path / "d.npz", settings=np.frombuffer(json.dumps(header).encode(), np.uint8))
        with pytest.raises(ValueError, match=message):
            rc.load(tmp_path / "d.npz")


def test_inputs_of_all_kinds_are_read_and_not_changed():
    prediction, y = outcomes(26, "too narrow")
    mean, std, original = prediction.mean.copy(), prediction.std.copy(), y.copy()
    expected = rc.StdScaling().fit(prediction, y).scale_
    assert rc.StdScaling().fit((mean, std), list(y)).scale_ == expected
    assert rc.StdScaling().fit(stats.norm(mean, std), y[:, None]).scale_ == pytest.approx(expected)
    calibrator = rc.StdScaling().fit((mean, std), y)
    assert calibrator.transform((mean, std)).std == pytest.approx(expected * std)
    assert calibrator.transform(stats.norm(mean, 2.0)).std == pytest.approx(2 * expected)
    assert len(calibrator.transform(stats.laplace(0.0, 2.0))) == 1
    assert isinstance(calibrator.transform(np.zeros((3, 5))), fm.Draws)
    if hasattr(stats, "Normal"):  # SciPy from 1.15
        new = stats.Normal(mu=np.zeros(4), sigma=np.ones(4))
        assert calibrator.transform(new).std == pytest.approx(expected * np.ones(4))
    torch = pytest.importorskip("torch")
    normal = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
    assert calibrator.transform(normal).std == pytest.approx(expected)
    np.testing.assert_array_equal(mean, prediction.mean)
    np.testing.assert_array_equal(y, original)


BAD = [
    (lambda: rc.HistogramBinningStd(0), ValueError, "bins is 0"),
    (lambda: rc.HistogramBinningStd(2.5), TypeError, "bins is 2.5"),
    (lambda: rc.HistogramBinningStd(True), TypeError, "bins is True"),
    (lambda: rc.IsotonicStd("many"), TypeError, "bins is 'many'"),
    (lambda: rc.IsotonicCDF(0), ValueError, "knots is 0"),
    (lambda: rc.IsotonicCDF(pit="none"), ValueError, "pit is 'none'"),
    (lambda: rc.StdRatio("nll"), ValueError, "criterion is 'nll'"),
    (lambda: rc.StdRatio(bounds=3), ValueError, "bounds are 3"),
    (lambda: rc.StdRatio(bounds=(2, 1)), ValueError, "the first must be the smaller"),
    (lambda: rc.StdRatio(bounds=(0, 1)), ValueError, "bounds is 0"),
    (lambda: rc.StdRatio(levels=1), ValueError, "levels is 1"),
    (lambda: rc.QuantileRecalibrator([0.5, 0.2]), ValueError, "increasing numbers"),
    (lambda: rc.IntervalRecalibrator([0.0, 0.2]), ValueError, "between 0 and 1"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD)
def test_bad_settings_are_an_error(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("make", REGRESSION)
def test_bad_rows_are_an_error(make):
    prediction, y = outcomes(27)
    with pytest.raises(ValueError, match="y has 3"):
        make().fit(prediction, y[:3])
    with pytest.raises(ValueError, match="sample_weight"):
        make().fit(prediction, y, sample_weight=-np.ones(N))
    with pytest.raises(ValueError, match="component"):
        make().fit(fm.Gaussian(np.zeros((N, 2)), 1.0), y)
    with pytest.raises(TypeError, match="distribution such as Gaussian"):
        make().fit(prediction, y).transform({"mean": 1})


@pytest.mark.parametrize(
    "make", [rc.StdScaling, rc.StdRatio, rc.HistogramBinningStd, rc.IsotonicStd]
)
def test_counts_cannot_be_stretched(make):
    with pytest.raises(ValueError, match="is discrete"):
        make().fit(fm.Poisson([1.0, 2.0]), [1.0, 2.0])


@pytest.mark.parametrize("make", [rc.StdScaling, rc.HistogramBinningStd, rc.IsotonicStd])
def test_stds_that_cannot_be_stretched(make):
    with pytest.raises(ValueError, match=r"0 fits them|root mean square"):
        make().fit(fm.Gaussian([1.0, 2.0], 1.0), [1.0, 2.0])
    with pytest.raises(ValueError, match="std of 0 in row 1"):
        make().fit(fm.Draws([[1.0, 2.0], [3.0, 3.0]]), [1.0, 2.0])
    with pytest.raises(ValueError, match="std of inf in row 0"):
        make().fit(as_predictive(stats.t(2.0, [0.0, 1.0]), 2), [1.0, 2.0])


def test_constant_std_is_one_bin_and_one_row_is_enough():
    y = np.array([1.0, -3.0])
    calibrator = rc.HistogramBinningStd(10).fit((np.zeros(2), 2.0), y)
    assert calibrator.stds_ == pytest.approx([np.sqrt(5)])
    assert rc.IsotonicStd().fit((np.zeros(2), 2.0), y).errors_ == pytest.approx([5.0])
    one = rc.IsotonicCDF().fit((np.zeros(1), 1.0), [0.4])
    assert one.observed_.tolist() == [0.0, 0.5, 1.0]
    assert one.transform((np.zeros(1), 1.0)).quantile(0.5)[0] == pytest.approx(0.4)


def test_outcomes_far_outside_leave_a_proper_map():
    # F(y) is 0 or 1 in rounding: the map stays increasing, and its mass near the ends stays.
    y = np.concatenate([np.full(50, -60.0), np.linspace(-1, 1, 100), np.full(50, 60.0)])
    recalibrated_prediction = (
        rc.IsotonicCDF().fit((np.zeros(200), 1.0), y).transform((np.zeros(1), 1.0))
    )
    assert (np.diff(recalibrated_prediction.mapping.p) > 0).all()
    assert (np.diff(recalibrated_prediction.mapping.r) > 0).all()
    assert recalibrated_prediction.cdf(-1.0)[0] == pytest.approx(0.25, abs=0.03)
    assert recalibrated_prediction.cdf(1.0)[0] == pytest.approx(0.75, abs=0.03)
    assert np.isfinite(recalibrated_prediction.mean).all()
    assert np.isfinite(recalibrated_prediction.log_prob(y[:1])).all()


def test_bins_have_equal_mass_and_keep_ties_together():
    from fastmcmd.recalibration.bins import equal_mass

    rng = np.random.default_rng(0)
    label, count = equal_mass(rng.permutation(1000.0 + np.arange(1000)), None, 10)
    assert np.bincount(label).tolist() == [100] * 10
    assert count == 10
    label, count = equal_mass(np.array([1.0, 1.0, 1.0, 2.0]), np.ones(4), 2)
    assert label.tolist() == [0, 0, 0, 1]
    label, count = equal_mass(np.array([5.0, 1.0, 3.0]), np.array([8.0, 1.0, 1.0]), 2)
    assert (label.tolist(), count) == ([1, 0, 0], 2)
    assert equal_mass(np.ones(5), None, 3)[1] == 1


def test_errors_whose_squares_leave_float64_are_refused():
    """The standard deviations were infinite."""
    y = np.r_[1e200, np.zeros(19)]
    with pytest.raises(ValueError, match=r"y\[0\] is 1e\+200: its squared distance"):
        fm.recalibration.IsotonicStd().fit(fm.Gaussian(np.zeros(20), 1.0), y)
