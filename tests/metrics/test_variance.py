"""ENCE, UCE, c_v and QCE agree with definitions, netcal, simulation and published counter-examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd import metrics


def _lognormal(rng, n):
    std = np.exp(rng.normal(size=n))
    return std * rng.normal(size=n), np.zeros(n), std


def _plain(y, mean, std, bins):
    """Return equation 8 of Levi et al. for n divisible by bins and no ties."""
    order = np.argsort(std)
    rmv, rmse = [], []
    for rows in np.array_split(order, bins):
        rmv.append(np.sqrt((std[rows] ** 2).mean()))
        rmse.append(np.sqrt(((y - mean)[rows] ** 2).mean()))
    return np.array(rmv), np.array(rmse)


def _netcal(name):
    pytest.importorskip("torch")
    module = pytest.importorskip("netcal.metrics")
    return getattr(module, name)


@pytest.mark.parametrize("bins", [1, 4, 10])
def test_bins_of_equal_count(rng, bins):
    y, mean, std = _lognormal(rng, 500)
    curve = metrics.ence_curve(y, (mean, std), bins)
    rmv, rmse = _plain(y, mean, std, bins)
    np.testing.assert_allclose(curve.rmv, rmv, rtol=1e-10)
    np.testing.assert_allclose(curve.rmse, rmse, rtol=1e-10)
    np.testing.assert_allclose(curve.mass, 500 / bins)
    errors = np.abs(rmv - rmse) / rmv
    assert metrics.ence(y, (mean, std), bins) == pytest.approx(errors.mean(), rel=1e-10)
    assert curve.maximum == pytest.approx(errors.max(), rel=1e-9)
    assert metrics.uce(y, (mean, std), bins, binning="mass") == pytest.approx(
        np.abs(rmv**2 - rmse**2).mean(), rel=1e-10
    )
    assert curve.edges[0] == std.min()
    assert curve.edges[-1] == std.max()
    assert "if calibrated" in repr(curve)


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.integers(1, 4), st.integers(0, 3)), min_size=2, max_size=15
    ),
    st.integers(1, 4),
    st.sampled_from(["mass", "width"]),
)
def test_integer_weights_are_repeated_rows_in_any_order(rows, bins, binning):
    y, std, weights = np.array(rows, dtype=float).T
    weights[0] += 4  # enough rows for the bins
    often = weights.astype(int)
    order = np.random.default_rng(0).permutation(often.sum())
    y_all, std_all = np.repeat(y, often)[order], np.repeat(std, often)[order]
    zeros, zeros_all = np.zeros(len(y)), np.zeros(len(y_all))
    bins = min(bins, len(y))
    for name in ("ence", "uce"):
        function = getattr(metrics, name)
        assert function(
            y, (zeros, std), bins, binning=binning, sample_weight=weights
        ) == pytest.approx(function(y_all, (zeros_all, std_all), bins, binning=binning), abs=1e-9)
    assert metrics.qce(
        y, (zeros, std), bins=bins, binning=binning, sample_weight=weights
    ) == pytest.approx(
        metrics.qce(y_all, (zeros_all, std_all), bins=bins, binning=binning), abs=1e-9
    )
    if weights.sum() > 1 and len(set(std)) > 1:
        assert metrics.variance_variation(y, (zeros, std), sample_weight=weights) == pytest.approx(
            metrics.variance_variation(y_all, (zeros_all, std_all)), abs=1e-12
        )


def test_a_gross_error_in_one_bin_leaves_the_others_as_they_are(rng):
    y, mean, std = _lognormal(rng, 400)
    y[np.argmin(std)] = 1e12
    rmv, rmse = _plain(y, mean, std, 5)
    curve = metrics.ence_curve(y, (mean, std), 5)
    np.testing.assert_allclose(curve.rmse, rmse, rtol=1e-12)
    np.testing.assert_allclose(curve.rmv, rmv, rtol=1e-12)


def test_rows_astride_an_edge_are_shared():
    """With three rows and two bins, half of the middle row counts in each."""
    curve = metrics.ence_curve([1.0, 2.0, 6.0], ([0.0] * 3, [1.0, 2.0, 3.0]), bins=2)
    np.testing.assert_allclose(curve.mass, 1.5)
    np.testing.assert_allclose(curve.rmse**2, [(1 + 4 / 2) / 1.5, (4 / 2 + 36) / 1.5])
    np.testing.assert_allclose(curve.rmv**2, [(1 + 4 / 2) / 1.5, (4 / 2 + 9) / 1.5])


def test_equal_width_against_netcal(rng):
    y, mean, std = _lognormal(rng, 5_000)
    for bins in (5, 20):
        assert metrics.ence(y, (mean, std), bins, binning="width") == pytest.approx(
            float(_netcal("ENCE")(bins).measure((mean, std), y, kind="meanstd")), rel=1e-10
        )
        assert metrics.uce(y, (mean, std), bins) == pytest.approx(
            float(_netcal("UCE")(bins).measure((mean, std), y, kind="meanstd")), rel=1e-10
        )


def test_netcal_bins_by_equal_width_only(rng):
    """A calibrated model with log-normal spreads: bins with a row or two make its ENCE large."""
    y, mean, std = _lognormal(rng, 100_000)
    theirs = float(_netcal("ENCE")(10).measure((mean, std), y, kind="meanstd"))
    assert theirs > 0.05
    assert metrics.ence(y, (mean, std)) < 0.02
    curve = metrics.ence_curve(y, (mean, std), 40, binning="width")
    assert curve.empty == 40 - len(
        np.unique(np.floor((std - std.min()) / np.ptp(std) * 40).clip(0, 39))
    )
    assert curve.empty > 0
    assert f"{curve.empty} bins empty" in repr(curve)


def test_constant_spread_which_netcal_refuses(rng):
    y = rng.normal(size=1000)
    prediction = (np.zeros(1000), np.ones(1000))
    with pytest.raises(ValueError, match="edge difference is numerically 0"):
        _netcal("ENCE")(10).measure(prediction, y, kind="meanstd")
    error = abs(1 - np.sqrt(np.mean(y**2)))
    assert metrics.ence(y, prediction) == pytest.approx(error)
    curve = metrics.ence_curve(y, prediction, binning="width")
    assert curve.ence == pytest.approx(error)
    assert curve.empty == 9
    assert metrics.variance_variation(y, prediction) == 0.0
    # All rows are one cell, so the null expectation is that of a single bin.
    assert metrics.ence_curve(y, prediction).null_ence == pytest.approx(
        np.sqrt(2 / np.pi) * np.sqrt(2 / (4 * 1000))
    )


@pytest.mark.parametrize(
    ("family", "kurtosis"), [("gaussian", 3.0), ("laplace", 6.0), ("uniform", 1.8)]
)
def test_null_expectation_against_simulation(rng, family, kurtosis):
    scale = np.sort(rng.uniform(1, 3, 4000))
    frozen = {
        "gaussian": stats.norm(np.zeros(4000), scale),
        "laplace": stats.laplace(np.zeros(4000), scale),
        "uniform": stats.uniform(-scale, 2 * scale),
    }[family]
    values = []
    for _ in range(60):
        y = frozen.rvs(random_state=rng)
        curve = metrics.ence_curve(y, frozen, kurtosis=kurtosis)
        values.append(curve.ence)
    # 600 half-normal errors scatter by 75 % each: 3 % of the mean.
    assert curve.null_ence == pytest.approx(np.mean(values), rel=0.13)
    assert metrics.null_ence(y, frozen, repetitions=60) == pytest.approx(np.mean(values), rel=0.16)


def test_null_expectation_grows_with_the_root_of_bins_over_rows(rng):
    y, mean, std = _lognormal(rng, 8000)
    few, many = (
        metrics.ence_curve(y, (mean, 1 + 0 * std + 1e-9 * std), b).null_ence for b in (5, 20)
    )
    assert many / few == pytest.approx(2.0, rel=1e-3)
    np.testing.assert_allclose(few, np.sqrt(2 / np.pi) * np.sqrt(2 / (4 * 1600)), rtol=1e-3)


def test_null_expectation_with_shared_and_weighted_rows(rng):
    """Ties, weights and rows across edges change the scatter: simulation agrees with the formula."""
    n = 3000
    std = rng.integers(1, 5, n) / 2.0
    weights = rng.uniform(0, 3, n) ** 2
    curve = metrics.ence_curve(
        rng.normal(size=n) * std, (np.zeros(n), std), 7, sample_weight=weights
    )
    simulated = metrics.null_ence(
        np.zeros(n), (np.zeros(n), std), 7, sample_weight=weights, repetitions=400
    )
    assert curve.null_ence == pytest.approx(simulated, rel=0.1)


def test_scaled_models(rng):
    y, mean, std = _lognormal(rng, 50_000)
    assert metrics.ence(y, (mean, 2 * std)) == pytest.approx(0.5, abs=0.01)
    assert metrics.ence(3 * y + 1, (3 * mean + 1, 3 * std)) == pytest.approx(
        metrics.ence(y, (mean, std)), rel=1e-9
    )
    assert metrics.uce(3 * y, (mean, 3 * std)) == pytest.approx(9 * metrics.uce(y, (mean, std)))


def test_variation_is_a_ratio_of_standard_deviations(rng):
    std = rng.uniform(0.5, 2, 100)
    for ddof in (0, 1):
        assert metrics.variance_variation(std, (std, std), ddof=ddof) == pytest.approx(
            std.std(ddof=ddof) / std.mean(), rel=1e-12
        )
    with pytest.raises(ValueError, match="ddof is 1"):
        metrics.variance_variation([0.0], ([0.0], 1.0))


@pytest.mark.parametrize("kind", ["interval", "quantile"])
@pytest.mark.parametrize("binning", ["mass", "width"])
def test_qce_is_a_mean_of_differences_in_bins(rng, kind, binning):
    y, mean, std = _lognormal(rng, 600)
    std = std * 1.3
    pit = stats.norm(mean, std).cdf(y)
    levels = np.array([0.1, 0.5, 0.9])
    if binning == "mass":
        place = np.empty(600, dtype=int)
        place[np.argsort(std)] = np.arange(600) // 100
    else:
        edges = np.linspace(std.min(), std.max(), 7)
        place = np.clip(np.searchsorted(edges, std, side="right") - 1, 0, 5)
    expected = 0.0
    for b in range(6):
        rows = pit[place == b]
        for level in levels:
            inside = rows <= level if kind == "quantile" else np.abs(rows - 0.5) <= level / 2
            if len(rows):
                expected += len(rows) / 600 * abs(inside.mean() - level) / 3
    actual = metrics.qce(y, (mean, std), levels, 6, kind=kind, binning=binning)
    assert actual == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["interval", "quantile"])
def test_levels_on_the_lattice_of_draws_are_counted_alike(rng, kind):
    """The PIT of 20 draws is a multiple of 0.05, and so are the levels: every count has ties."""
    draws, y = rng.normal(size=(500, 20)), rng.normal(size=500)
    levels = np.arange(21) / 20
    curve = metrics.reliability_curve(y, draws, levels, kind=kind)
    error = curve.mean_absolute_calibration_error
    assert metrics.qce(y, draws, levels, 1, kind=kind) == pytest.approx(error, abs=1e-12)
    groups = metrics.adversarial_group_calibration(y, draws, levels, kind=kind, fractions=[1.0])
    assert groups.mean[0] == pytest.approx(error, abs=1e-12)


def test_qce_against_netcal(rng):
    y, mean, std = _lognormal(rng, 3_000)
    levels = np.array([0.1, 0.5, 0.9])
    theirs = _netcal("QCE")(12, marginal=False).measure((mean, std), y, q=levels, reduction="mean")
    assert metrics.qce(y, (mean, std), levels, 12, binning="width") == pytest.approx(
        theirs, abs=1e-10
    )


def test_cauchy_forecast_calibrated_by_intervals_is_not_by_ence(rng):
    """Levi et al. (2019): random scales say nothing about the errors, and every interval is right.

    The ratio of a normal outcome and an independent normal scale has a Cauchy distribution.
    """
    n = 40_000
    y, scale = rng.normal(size=n), np.abs(rng.normal(size=n))
    forecast = stats.cauchy(loc=np.zeros(n), scale=scale)
    assert metrics.regression_ece(y, forecast) < 0.005
    assert metrics.mean_absolute_calibration_error(y, forecast) < 0.005
    assert metrics.coverage(y, forecast, 0.9) == pytest.approx(0.9, abs=0.01)
    # The ratio has no variance, and so no ENCE; its scale, used as a standard deviation, is far off.
    for function in (metrics.ence, metrics.uce):
        with pytest.raises(ValueError, match=r"variances that are not \w+ and finite"):
            function(y, forecast)
    with pytest.raises(ValueError, match="standard deviations that are not finite"):
        metrics.qce(y, forecast)
    curve = metrics.ence_curve(y, (np.zeros(n), scale))
    np.testing.assert_allclose(curve.rmse, 1.0, rtol=0.06)  # 4 standard errors of 4,000 rows
    assert curve.ence > 0.5


def test_marginal_forecaster_is_calibrated_and_congruent_with_nothing(rng):
    """The model ignores x: ECE is near 0, and CCE as large as the outcome varies with x."""
    n = 600
    x = rng.uniform(-2, 2, (n, 1))
    y = 2 * x[:, 0] + 0.3 * rng.normal(size=n)
    marginal = np.tile(np.quantile(y, np.linspace(0.001, 0.999, 200)), (n, 1))
    truth = fm.Gaussian(2 * x[:, 0], 0.3)
    assert metrics.regression_ece(y, marginal) < 0.01
    kernels = {"x_kernel": fm.RBF(1.0), "y_kernel": fm.RBF(1.0)}
    wrong, right = (fm.cce(x, y, p, **kernels).mean for p in (marginal, truth))
    assert wrong > 4 * right


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": 6}, "bins is 6"),
        ({"binning": "count"}, "binning is 'count'"),
        ({"by": "range"}, "by is 'range'"),
        ({"limits": (0, 1)}, "limits are for binning='width'"),
        ({"limits": (1, 0), "binning": "width"}, "limits is"),
    ],
)
def test_bad_options(options, message):
    options = {"bins": 3, **options}
    with pytest.raises(ValueError, match=message):
        metrics.ence(np.arange(5.0), (np.arange(5.0), 1.0), **options)


def test_kurtosis_and_nan(rng):
    with pytest.raises(ValueError, match=r"kurtosis is 0\.5"):
        metrics.ence_curve([0.0], ([0.0], 1.0), 1, kurtosis=0.5)
    y = np.array([0.0, np.nan, 2.0, 1.0])
    prediction = (np.zeros(4), np.arange(1.0, 5.0))
    valid = np.array([0, 2, 3])
    inner = (np.zeros(3), np.arange(1.0, 5.0)[valid])
    for function in (metrics.ence, metrics.uce, metrics.variance_variation):
        options = {} if function is metrics.variance_variation else {"bins": 2}
        assert function(y, prediction, nan_policy="omit", **options) == pytest.approx(
            function(y[valid], inner, **options)
        )
        assert np.isnan(function(y, prediction, nan_policy="propagate", **options))
        with pytest.raises(ValueError, match="y holds NaN"):
            function(y, prediction, **options)
    assert np.isnan(metrics.qce(y, prediction, bins=2, nan_policy="propagate"))


def test_limits_keep_outer_rows_in_the_outer_bins(rng):
    y, mean, std = _lognormal(rng, 400)
    curve = metrics.ence_curve(y, (mean, std), 4, binning="width", limits=(0.5, 2.5))
    place = np.clip(np.floor((std - 0.5) / 0.5), 0, 3)
    np.testing.assert_array_equal(curve.mass, np.bincount(place.astype(int)))


@pytest.mark.parametrize("weighted", [False, True])
def test_inputs_are_never_changed(rng, weighted):
    """Every function accepts read-only arrays; none keeps or returns one of them."""
    y, mean, std = _lognormal(rng, 50)
    weights = rng.uniform(0, 1, 50)
    for one in (y, mean, std, weights):
        one.flags.writeable = False
    prediction = fm.Gaussian(mean, std)
    options = {"sample_weight": weights} if weighted else {}
    for name in (
        *("mae", "rmse", "bias", "marpd", "r2", "pearson", "median_absolute_error"),
        *("pit_histogram", "reliability_curve", "regression_ece", "miscalibration_area"),
        *("coverage", "mean_interval_width", "sharpness", "variance_variation"),
        *("ence_curve", "uce", "qce", "null_ence", "adversarial_group_calibration"),
    ):
        getattr(metrics, name)(y, prediction, **options)
    assert metrics.pit_values(y, prediction).flags.writeable


def test_equal_spreads_do_not_vary(rng):
    """Rounding of the mean, or of each standard deviation, was printed as a variation of 2e-16."""
    mean = rng.gamma(3.0, 2.0, 221)
    for prediction in (
        fm.Gaussian(mean, 53.6892 / 3),
        fm.Quantiles([0.1, 0.5, 0.9], mean[:, None] + [-1.0, 0.0, 1.0]),
        mean[:, None] + rng.normal(size=50),
    ):
        assert fm.evaluate(mean, prediction)["variance_variation"] == 0
        assert fm.metrics.variance_variation(mean, prediction, sample_weight=mean) == 0


def test_point_predictions_have_no_variance():
    with pytest.raises(ValueError, match="not positive and finite"):
        metrics.ence([0.0, 1.0], [0.0, 1.0], 1)
    assert metrics.uce([0.0, 2.0], [0.0, 0.0], 1) == pytest.approx(2.0)


@pytest.mark.parametrize("power", [-570, -538, -533, -300, 300, 505, 511, 540])
def test_units_of_y_change_no_digit(rng, power):
    """Squares of standard deviations, and their squares, once under- and overflowed."""
    y, prediction = rng.normal(size=300), fm.Gaussian(np.zeros(300), rng.uniform(0.5, 2, 300))
    scaled = fm.Gaussian(np.zeros(300), np.ldexp(prediction.std, power))
    metrics = fm.metrics
    for by in ("std", "variance"):
        for binning in ("mass", "width"):
            plain = metrics.ence_curve(y, prediction, by=by, binning=binning)
            curve = metrics.ence_curve(np.ldexp(y, power), scaled, by=by, binning=binning)
            assert curve.ence == pytest.approx(plain.ence, rel=1e-12)
            assert curve.null_ence == pytest.approx(plain.null_ence, rel=1e-12)
            np.testing.assert_allclose(curve.rmse, np.ldexp(plain.rmse, power), rtol=1e-12)
    null = metrics.null_ence(np.ldexp(y, power), scaled, repetitions=3)
    assert null == pytest.approx(metrics.null_ence(y, prediction, repetitions=3), rel=1e-12)
    with np.errstate(over="ignore"):
        right = np.ldexp(metrics.uce(y, prediction), 2 * power)
    if np.finfo(np.float64).tiny < right < np.inf:
        assert metrics.uce(np.ldexp(y, power), scaled) == pytest.approx(right, rel=1e-12)
    else:
        with pytest.raises(ValueError, match="squared units of y"):
            metrics.uce(np.ldexp(y, power), scaled)


def test_limits_follow_the_unit(rng):
    y, std = rng.normal(size=300), rng.uniform(0.5, 2, 300)
    for by, limits in (("std", np.array([0.6, 1.9])), ("variance", np.array([0.4, 3.0]))):
        plain = fm.metrics.ence(y, (0 * y, std), binning="width", by=by, limits=limits)
        power = -470 if by == "std" else -400
        scale = power if by == "std" else 2 * power
        scaled_limits = np.ldexp(limits, scale)
        arguments = np.ldexp(y, power), fm.Gaussian(0 * y, np.ldexp(std, power))
        error = fm.metrics.ence(*arguments, binning="width", by=by, limits=scaled_limits)
        assert error == pytest.approx(plain, rel=1e-12)


def test_spreads_and_errors_too_far_apart_are_refused():
    std = np.array([1e-90, 1.0, 1e90])
    with pytest.raises(ValueError, match="another unit"):
        fm.metrics.ence(np.zeros(3), fm.Gaussian(np.zeros(3), std), bins=2)
    with pytest.raises(ValueError, match="squared errors"):
        fm.metrics.ence(np.array([0.0, 1e170]), fm.Gaussian(np.zeros(2), 1.0), bins=1)


def test_evaluation_names_spreads_out_of_range(rng):
    y = rng.normal(size=200) * 1e-170
    evaluation = fm.evaluate(y, fm.Gaussian(0 * y, 1e-170))
    assert "another unit" in evaluation.skipped["ence"]
    assert "another unit" in evaluation.skipped["uce"]
