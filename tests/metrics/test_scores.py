"""Proper scores agree with definitions and peers, and the truth scores best."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd.metrics import interval_scores, quantile_scores
from fastmcmd.metrics.interval_scores import (
    interval_score,
    interval_score_from,
    mean_interval_score,
    mean_weighted_interval_score,
    weighted_interval_score,
)
from fastmcmd.metrics.quantile_scores import check_score, mean_check_score
from fastmcmd.metrics.scores import (
    crps,
    dawid_sebastiani,
    log_score,
    mean_crps,
    mean_dawid_sebastiani,
    nll,
)
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.quantiles import Quantiles

PERCENT = np.linspace(0.01, 0.99, 99)

SCORES = {
    "log": (log_score, nll),
    "crps": (crps, mean_crps),
    "check": (check_score, mean_check_score),
    "interval": (interval_score, mean_interval_score),
    "weighted interval": (weighted_interval_score, mean_weighted_interval_score),
    "dawid-sebastiani": (dawid_sebastiani, mean_dawid_sebastiani),
}
BY_NAME = pytest.mark.parametrize("name", list(SCORES))


def gaussian(rng, n=50):
    mean, std = rng.normal(size=n), rng.uniform(0.3, 3, n)
    return mean + 2 * std * rng.normal(size=n), mean, std


def pinball(y, quantiles, levels):
    gap = np.asarray(y)[:, None] - quantiles
    return np.where(gap >= 0, levels * gap, (levels - 1) * gap)


def winkler(y, lower, upper, level):
    misses_by = np.where(y < lower, lower - y, 0) + np.where(y > upper, y - upper, 0)
    return upper - lower + 2 / (1 - level) * misses_by


def predictions(rng, n=50):
    """Return predictions with every kind of quantile function."""
    _, mean, std = gaussian(rng, n)
    return {
        "gaussian": fm.Gaussian(mean, std),
        "scipy": as_predictive(stats.t(5.0, loc=mean, scale=std), n),
        "counts": fm.Poisson(np.exp(mean)),
        "draws": fm.Draws(rng.normal(size=(n, 12))),
        "quantiles": Quantiles([0.2, 0.5, 0.7], np.sort(rng.normal(size=(n, 3)), axis=1)),
        "mixture": Mixture([fm.Gaussian(mean, std), fm.Gaussian(-mean, std)]),
    }


# --- definitions ----------------------------------------------------------------------------------


def test_check_scores_are_pinball_losses(rng):
    y = np.round(rng.normal(size=50), 1)
    for kind, prediction in predictions(rng).items():
        for levels in (PERCENT, np.array([0.9, 0.05, 0.5, 0.5])):
            expected = pinball(y, prediction.quantile(levels), levels).mean(axis=1)
            scores = check_score(y, prediction, levels=levels)
            np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-14, err_msg=kind)
        np.testing.assert_array_equal(
            check_score(y, prediction), check_score(y, prediction, levels=PERCENT)
        )
        one = pinball(y, prediction.quantile([0.3]), 0.3)[:, 0]
        np.testing.assert_allclose(check_score(y, prediction, levels=0.3), one, atol=1e-14)


def test_interval_scores_are_winkler_scores(rng):
    y = np.round(3 * rng.normal(size=50), 1)
    level = np.array([0.5, 0.9, 0.2])
    for kind, prediction in predictions(rng).items():
        lower, upper = prediction.quantile(0.5 - level / 2), prediction.quantile(0.5 + level / 2)
        expected = winkler(y[:, None], lower, upper, level)
        scores = interval_score(y, prediction, level=level)
        np.testing.assert_allclose(scores, expected.mean(axis=1), rtol=1e-12, err_msg=kind)
        given_ends = interval_score_from(y, lower, upper, level=level)
        np.testing.assert_allclose(given_ends, expected.mean(axis=1), rtol=1e-14, err_msg=kind)
        np.testing.assert_allclose(
            interval_score(y, prediction, level=0.9), expected[:, 1], rtol=1e-12, err_msg=kind
        )
        single = interval_score_from(y, lower[:, 1], upper[:, 1], level=0.9)
        np.testing.assert_allclose(single, expected[:, 1], rtol=1e-14)


def test_weighted_interval_score_as_published(rng):
    """Agree with Bracher et al. 2021: the median with weight 1/2, intervals with alpha/2."""
    y = 3 * rng.normal(size=50)
    alpha = np.array([0.02, 0.05, *np.arange(0.1, 0.95, 0.1)])
    assert len(alpha) == 11
    for kind, prediction in predictions(rng).items():
        lower, upper = prediction.quantile(alpha / 2), prediction.quantile(1 - alpha / 2)
        intervals = winkler(y[:, None], lower, upper, 1 - alpha) @ (alpha / 2)
        expected = (np.abs(y - prediction.quantile(0.5)) / 2 + intervals) / 11.5
        scores = weighted_interval_score(y, prediction)
        np.testing.assert_allclose(scores, expected, rtol=1e-10, err_msg=kind)


def test_weighted_interval_score_of_many_levels_is_the_crps(rng):
    y, mean, std = gaussian(rng)
    levels = np.arange(1, 2000) / 2000
    scores = weighted_interval_score(y, (mean, std), levels=levels)
    np.testing.assert_allclose(scores, crps(y, (mean, std)), rtol=2e-3)


def test_dawid_sebastiani(rng):
    y, mean, std = gaussian(rng)
    actual = dawid_sebastiani(y, (mean, std))
    np.testing.assert_allclose(actual, 2 * np.log(std) + ((y - mean) / std) ** 2, atol=1e-13)
    expected = 2 * log_score(y, (mean, std)) - np.log(2 * np.pi)
    np.testing.assert_allclose(actual, expected, atol=1e-12)
    for bad in (stats.t(2.0, loc=mean), mean):  # infinite, and of one draw: zero
        with pytest.raises(ValueError, match="variances that are not positive and finite"):
            dawid_sebastiani(y, bad)


def test_log_score(rng):
    y, mean, std = gaussian(rng)
    expected = -stats.norm(mean, std).logpdf(y)
    np.testing.assert_allclose(log_score(y, (mean, std)), expected, rtol=1e-12)
    vectors = fm.Gaussian(mean.reshape(25, 2), std.reshape(25, 2))
    scores = log_score(y.reshape(25, 2), vectors)
    np.testing.assert_allclose(scores, expected.reshape(25, 2).sum(axis=1), rtol=1e-12)
    assert nll(y.reshape(25, 2), vectors) == pytest.approx(scores.mean())


def test_infinite_log_scores_are_returned_and_can_be_counted():
    counts = fm.Poisson([1.0, 1.0, 2.0])
    scores = log_score([0.5, 1.0, -1.0], counts)
    assert np.isinf(scores).tolist() == [True, False, True]
    assert nll([0.5, 1.0, -1.0], counts) == np.inf
    # Rows of no weight do not count.
    assert nll([0.5, 1.0, -1.0], counts, sample_weight=[0, 2, 0]) == pytest.approx(1.0)


def test_crps_of_a_gaussian_has_the_right_sign(rng):
    """A widely copied closed form has its sign reversed: 1/sqrt(pi) - 2 phi(z) - z (2 Phi(z) - 1)."""
    z = np.linspace(-4, 4, 81)
    scores = crps(z, (np.zeros(81), 1.0))
    misprint = 1 / np.sqrt(np.pi) - 2 * stats.norm.pdf(z) - z * (2 * stats.norm.cdf(z) - 1)
    np.testing.assert_allclose(scores, -misprint, rtol=1e-10)
    assert (scores > 0).all()
    assert scores.argmin() == 40
    assert scores[40] == pytest.approx((np.sqrt(2) - 1) / np.sqrt(np.pi))


def test_crps_of_a_sharp_prediction_is_the_absolute_error(rng):
    y, mean, _ = gaussian(rng)
    np.testing.assert_allclose(crps(y, (mean, 1e-9)), np.abs(y - mean), atol=1e-8)
    np.testing.assert_allclose(crps(y, mean), np.abs(y - mean), atol=1e-15)


def test_crps_of_large_samples_is_that_of_their_distribution(rng):
    """Agree with the unbiased estimator, within its standard error, for every prediction."""
    y = rng.normal(size=50)
    for kind, prediction in predictions(rng).items():
        draws = prediction.sample(20_000, 1)
        gap = crps(y, draws, estimator="fair") - crps(y, prediction)
        error = np.abs(draws - y[:, None]).std(axis=1) / np.sqrt(20_000)
        assert (np.abs(gap) < 5 * error + 1e-12).all(), kind


def test_estimators_by_name(rng):
    draws, y = rng.normal(size=(9, 5)), rng.normal(size=9)
    for estimator in ("qd", "nrg", "pwm", "fair"):
        np.testing.assert_array_equal(
            crps(y, draws, estimator=estimator), fm.Draws(draws).crps(y, estimator)
        )
    np.testing.assert_array_equal(crps(y, draws), crps(y, draws, estimator="qd"))
    quantiles = Quantiles([0.1, 0.4, 0.8], np.sort(rng.normal(size=(9, 3)), axis=1))
    loss = pinball(y, quantiles.values, quantiles.levels)
    np.testing.assert_allclose(crps(y, quantiles, estimator="pinball"), 2 * loss.mean(axis=1))
    np.testing.assert_array_equal(crps(y, quantiles), quantiles.crps(y))
    for prediction, estimator, message in (
        ((np.zeros(9), 1.0), "qd", "which is for draws, and prediction is a Gaussian"),
        (draws, "pinball", "which is for Quantiles, and prediction is a Draws"),
        (quantiles, "fair", "which is for draws, and prediction is a Quantiles"),
        (draws, "median", "estimator is 'median'"),
        (quantiles, "akr", "which is for draws, and prediction is a Quantiles"),
    ):
        with pytest.raises(ValueError, match=message):
            mean_crps(y, prediction, estimator=estimator)


def test_pinball_at_midpoints_is_the_score_of_draws(rng):
    draws, y = np.sort(rng.normal(size=(20, 10)), axis=1), rng.normal(size=20)
    midpoints = (np.arange(10) + 0.5) / 10
    scores = crps(y, Quantiles(midpoints, draws), estimator="pinball")
    np.testing.assert_allclose(scores, crps(y, draws), rtol=1e-12)


# --- peers ----------------------------------------------------------------------------------------


def test_uncertainty_toolbox(rng):
    """Agree with the peer's whole module of scoring rules, with its settings."""
    peer = pytest.importorskip("uncertainty_toolbox.metrics_scoring_rule")
    y, mean, std = gaussian(rng, 500)
    theirs = mean, std, y
    tolerance = {"rel": 1e-10, "abs": 1e-10}
    assert nll(y, (mean, std)) == pytest.approx(peer.nll_gaussian(*theirs), **tolerance)
    assert mean_crps(y, (mean, std)) == pytest.approx(peer.crps_gaussian(*theirs), **tolerance)
    score = mean_check_score(y, (mean, std), levels=np.linspace(0.01, 0.99, 99))
    assert score == pytest.approx(peer.check_score(*theirs), **tolerance)
    assert mean_check_score(y, (mean, std)) == pytest.approx(score)
    few = mean_check_score(y, (mean, std), levels=np.linspace(0.2, 0.7, 4))
    expected = peer.check_score(*theirs, start_q=0.2, end_q=0.7, resolution=4)
    assert few == pytest.approx(expected, **tolerance)
    score = mean_interval_score(y, (mean, std), level=np.linspace(0.01, 0.99, 99))
    assert score == pytest.approx(peer.interval_score(*theirs), **tolerance)


def test_scoringrules(rng):
    peer = peers.imported("scoringrules")
    y, mean, std = gaussian(rng, 100)
    np.testing.assert_allclose(crps(y, (mean, std)), peer.crps_normal(y, mean, std), rtol=1e-10)
    np.testing.assert_allclose(log_score(y, (mean, std)), peer.logs_normal(y, mean, std))
    prediction = fm.Gaussian(mean, std)
    lower, median, upper = prediction.quantile([0.05, 0.5, 0.95]).T
    np.testing.assert_allclose(
        interval_score(y, prediction), peer.interval_score(y, lower, upper, 0.1), rtol=1e-12
    )
    np.testing.assert_allclose(
        check_score(y, prediction, levels=0.05), peer.quantile_score(y, lower, 0.05), atol=1e-13
    )
    levels = np.array([0.1, 0.5, 0.6])
    values = prediction.quantile(levels)
    np.testing.assert_allclose(
        crps(y, Quantiles(levels, values), estimator="pinball"),
        peer.crps_quantile(y, values, levels, backend="numpy"),
    )
    draws = rng.normal(size=(100, 7))
    np.testing.assert_allclose(
        dawid_sebastiani(y, draws), peer.dssuv_ensemble(y, draws, bias=True), rtol=1e-10
    )
    alpha = np.array([0.1, 0.4])
    ends = prediction.quantile(alpha / 2), prediction.quantile(1 - alpha / 2)
    # Bracher et al. (2021), eq. 1; the NumPy form of the peer's own sum is wrong.
    parts = [peer.interval_score(y, *(end[:, k] for end in ends), alpha[k]) for k in range(2)]
    expected = (np.abs(y - median) / 2 + np.tensordot(alpha / 2, parts, 1)) / 2.5
    np.testing.assert_allclose(
        weighted_interval_score(y, prediction, levels=1 - alpha), expected, rtol=1e-12
    )


def test_sklearn(rng):
    from sklearn.metrics import mean_pinball_loss

    y, mean, std = gaussian(rng)
    weight = rng.uniform(size=50)
    for level in (0.1, 0.5, 0.93):
        quantile = fm.Gaussian(mean, std).quantile(level)
        expected = mean_pinball_loss(y, quantile, sample_weight=weight, alpha=level)
        score = mean_check_score(y, (mean, std), levels=level, sample_weight=weight)
        assert score == pytest.approx(expected)


# --- propriety ------------------------------------------------------------------------------------

TRUTHS = {
    "gaussian": (
        lambda n: fm.Gaussian(np.ones(n), 2.0),
        [
            lambda n: fm.Gaussian(np.full(n, 1.6), 2.0),
            lambda n: fm.Gaussian(np.ones(n), 1.2),
            lambda n: fm.Gaussian(np.ones(n), 3.2),
            lambda n: as_predictive(stats.expon(-1.0, np.full(n, 2.0)), n),  # the same moments
            lambda n: as_predictive(stats.uniform(-5.0, np.full(n, 12.0)), n),
        ],
    ),
    "counts": (
        lambda n: fm.NegativeBinomial(np.full(n, 4.0), 0.5),
        [
            lambda n: fm.Poisson(np.full(n, 4.0)),
            lambda n: fm.NegativeBinomial(np.full(n, 6.0), 0.5),
            lambda n: fm.NegativeBinomial(np.full(n, 4.0), 2.0),
        ],
    ),
    "mixture": (
        lambda n: Mixture([fm.Gaussian(np.full(n, -2.0), 0.5), fm.Gaussian(np.full(n, 2.0), 0.5)]),
        [
            lambda n: fm.Gaussian(np.zeros(n), np.sqrt(4.25)),  # the same moments
            lambda n: Mixture(
                [fm.Gaussian(np.full(n, -2.0), 0.5), fm.Gaussian(np.full(n, 2.0), 0.5)], [0.8, 0.2]
            ),
        ],
    ),
}


@pytest.mark.slow
@BY_NAME
@pytest.mark.parametrize("truth", list(TRUTHS))
def test_the_true_distribution_scores_best(name, truth):
    """On average over the same outcomes, the truth is better by 4 standard errors, or not worse by 2."""
    n = 4000 if name in ("check", "weighted interval") else 20_000  # many quantiles
    true, wrong_models = TRUTHS[truth]
    y = true(1).sample(n, 11)[0]
    score = SCORES[name][0]
    best = score(y, true(n))
    significant = 0
    for other in wrong_models:
        with np.errstate(invalid="ignore"):
            excess = score(y, other(n)) - best
        if np.isinf(excess).any():
            significant += 1
            continue
        error = excess.std() / np.sqrt(n)
        assert excess.mean() > -2 * error - 1e-12
        significant += excess.mean() > 4 * error
    # Dawid-Sebastiani sees only moments, and one interval does not see the inside.
    unseen = {"dawid-sebastiani": 2, "interval": 1}.get(name, 0)
    assert significant >= len(wrong_models) - unseen


@pytest.mark.parametrize("estimator", ["qd", "fair"])
def test_draws_from_the_truth_score_best(rng, estimator):
    n, m = 20_000, 20
    y = rng.normal(size=n)
    best = crps(y, rng.normal(size=(n, m)), estimator=estimator)
    for mean, std in ((0.5, 1.0), (0.0, 0.5), (0.0, 2.0)):
        excess = crps(y, rng.normal(mean, std, (n, m)), estimator=estimator) - best
        assert excess.mean() > 4 * excess.std() / np.sqrt(n)


# --- weights, NaN, invariances --------------------------------------------------------------------


@BY_NAME
def test_means_and_weights(rng, name):
    score, mean_score = SCORES[name]
    y, mean, std = gaussian(rng)
    weight = rng.integers(0, 4, 50)
    values = score(y, (mean, std))
    assert values.shape == (50,)
    assert mean_score(y, (mean, std)) == pytest.approx(values.mean())
    mean_value = mean_score(y, (mean, std), sample_weight=weight)
    assert isinstance(mean_value, float)
    assert mean_value == pytest.approx(np.average(values, weights=weight))
    rows = np.repeat(np.arange(50), weight)
    assert mean_value == pytest.approx(mean_score(y[rows], (mean[rows], std[rows])))


@BY_NAME
def test_nan(rng, name):
    score, mean_score = SCORES[name]
    y, mean, std = gaussian(rng)
    values = score(y, (mean, std))
    valid = np.ones(50, dtype=bool)
    valid[[3, 20]] = False
    y, mean = y.copy(), mean.copy()
    y[3], mean[20] = np.nan, np.nan
    with pytest.raises(ValueError, match="NaN"):
        score(y, (mean, std))
    for policy in ("omit", "propagate"):
        scores = score(y, (mean, std), nan_policy=policy)
        np.testing.assert_allclose(scores[valid], values[valid], rtol=1e-12)
        assert np.isnan(scores[~valid]).all()
    assert mean_score(y, (mean, std), nan_policy="omit") == pytest.approx(values[valid].mean())
    assert np.isnan(mean_score(y, (mean, std), nan_policy="propagate"))


@BY_NAME
@given(st.integers(0, 10**6), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_shift_and_scale(name, seed, shift, scale):
    rng = np.random.default_rng(seed)
    score = SCORES[name][0]
    y, mean, std = gaussian(rng, 8)
    values = score(y, (mean, std))
    scores = score(scale * y + shift, (scale * mean + shift, scale * std))
    expected = {
        "log": values + np.log(scale),
        "dawid-sebastiani": values + 2 * np.log(scale),
    }.get(name, scale * values)
    rounding = 1e-12 * (1 + abs(shift) / scale)
    np.testing.assert_allclose(scores, expected, rtol=100 * rounding, atol=100 * scale * rounding)
    mirrored = score(-y, (-mean, std))
    np.testing.assert_allclose(mirrored, values, rtol=1e-10)
    rows = rng.permutation(8)
    np.testing.assert_array_equal(score(y[rows], (mean[rows], std[rows])), values[rows])


def test_threads_and_blocks_do_not_matter(rng, monkeypatch):
    n = 60
    y = rng.normal(size=n)
    threads = fm.get_num_threads()
    try:
        for kind, prediction in predictions(rng, n).items():
            fm.set_num_threads(1)
            expected = [check_score(y, prediction), weighted_interval_score(y, prediction)]
            with monkeypatch.context() as patch:
                patch.setattr(quantile_scores, "_BLOCK", 1500)
                patch.setattr(quantile_scores, "_ROWS", 17)
                fm.set_num_threads(3)
                parts = [check_score(y, prediction), weighted_interval_score(y, prediction)]
            for one, other in zip(expected, parts, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13, err_msg=kind)
    finally:
        fm.set_num_threads(threads)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, g: check_score(y, g, levels=[0.0]), r"levels is \[0.0\]"),
        (lambda y, g: check_score(y, g, levels=[]), "levels is"),
        (lambda y, g: check_score(y, g, levels=[[0.5]]), "levels is"),
        (lambda y, g: interval_score(y, g, level=1.0), "level is 1.0"),
        (lambda y, g: interval_score(y, g, level=np.nan), "level is nan"),
        (lambda y, g: weighted_interval_score(y, g, levels=[0.5, 0.5]), "must differ"),
        (lambda y, g: crps([[0.0, 1.0]] * 2, g), "y has 2 columns"),
        (lambda y, g: crps([0.0], g), "prediction has 2 rows and y has 1"),
        (lambda y, g: mean_crps(y, g, sample_weight=[-1, 1]), "sample_weight has negative"),
        (lambda y, g: nll(y, g, nan_policy="ignore"), "nan_policy is 'ignore'"),
        (lambda y, g: interval_score_from(y, y, [1.0]), "lower has 2, upper has 1"),
        (lambda y, g: interval_score_from(y, [2.0, 0.0], [1.0, 1.0]), "lower is above upper in 1"),
        (lambda y, g: interval_score_from(y, y, y, level=[0.1, 0.2]), r"\(n, 2\) is needed"),
        (lambda y, g: interval_score_from(y, [np.nan, 0], y), "lower holds NaN"),
        (lambda y, g: interval_score_from(y, y, [np.inf, 0], nan_policy="omit"), "upper holds inf"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call([0.0, 1.0], fm.Gaussian([0.0, 0.0], 1.0))


def test_given_intervals_with_nan():
    scores = interval_score_from(
        [0.0, np.nan, 1.0], [-1.0, 0.0, np.nan], [1.0, 1.0, 2.0], nan_policy="omit"
    )
    np.testing.assert_array_equal(scores, [2.0, np.nan, np.nan])
    assert interval_scores.__all__ == sorted(interval_scores.__all__)
