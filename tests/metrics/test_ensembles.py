"""Scores of ensembles, densities, levels and events agree with definitions and peers."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from scipy import integrate, stats

import fastmcmd as fm
from fastmcmd import metrics

N, M = 15, 8


@pytest.fixture
def ensemble(rng):
    return rng.normal(size=N), rng.normal(size=(N, M))


@pytest.mark.parametrize("estimator", ["int", "akr", "akr_circperm", "qd", "nrg", "pwm", "fair"])
def test_estimators_of_the_crps(ensemble, estimator):
    sr = peers.imported("scoringrules")
    y, draws = ensemble
    in_order = np.sort(draws, axis=1) if estimator == "pwm" else draws
    expected = sr.crps_ensemble(y, in_order, estimator=estimator, backend="numpy")
    np.testing.assert_allclose(metrics.crps(y, draws, estimator=estimator), expected, rtol=1e-11)


def test_pairs_estimate_the_score_without_bias(rng):
    """Over draws in random order, "akr" has the mean of "fair"."""
    y, draws = np.zeros(20_000), rng.normal(size=(20_000, 6))
    for estimator in ("akr", "akr_circperm"):
        gap = metrics.crps(y, draws, estimator=estimator) - metrics.crps(y, draws, estimator="fair")
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(len(y))


def test_weights_and_missing_members(rng, ensemble):
    ps = peers.imported("properscoring")
    y, draws = ensemble
    weights = rng.uniform(size=draws.shape)
    weights[rng.random(draws.shape) < 0.2] = 0.0
    np.testing.assert_allclose(
        metrics.crps(y, fm.WeightedDraws(draws, weights)),
        ps.crps_ensemble(y, draws, weights=weights),
        rtol=1e-11,
    )
    missing = np.where(rng.random(draws.shape) < 0.3, np.nan, draws)
    missing[:, 0] = draws[:, 0]
    scores = metrics.crps(y, fm.WeightedDraws(missing))
    np.testing.assert_allclose(scores, ps.crps_ensemble(y, missing), rtol=1e-11)
    one = fm.WeightedDraws(missing)
    for i in range(N):
        row_draws = fm.Draws(missing[i][None, ~np.isnan(missing[i])])
        row = one.take(np.array([i]))
        for method in ("mean", "std"):
            assert getattr(row, method)[0] == pytest.approx(
                getattr(row_draws, method)[0], abs=1e-15
            )
        assert row.cdf([0.1])[0] == pytest.approx(row_draws.cdf([0.1])[0])
        if row_draws.node_count > 1:
            expected = row_draws.crps(y[i : i + 1], "fair")
            np.testing.assert_allclose(row.crps(y[i : i + 1], "fair"), expected, atol=1e-14)
    np.testing.assert_allclose(fm.WeightedDraws(draws).crps(y), fm.Draws(draws).crps(y), rtol=1e-12)


def test_weighted_draws_in_the_rest_of_the_package(rng):
    x, y = rng.normal(size=(40, 1)), rng.normal(size=40)
    draws, weights = rng.normal(size=(40, 6)), rng.uniform(size=(40, 6))
    both = fm.WeightedDraws(draws, weights)
    repeated_draws = np.repeat(draws, 2, axis=1)
    same = fm.WeightedDraws(repeated_draws, np.repeat(weights, 2, axis=1) / 2)
    kernel = fm.RBF(0.5)
    np.testing.assert_allclose(
        fm.cce(x, y, both, y_kernel=kernel).values,
        fm.cce(x, y, same, y_kernel=kernel).values,
        rtol=1e-6,
    )
    assert both.quantile([0.0, 1.0]).shape == (40, 2)
    assert fm.evaluate(y, both)["mean_crps"] == pytest.approx(both.crps(y).mean())
    with pytest.raises(ValueError, match="no member with positive weights"):
        fm.WeightedDraws([[np.nan, np.nan]])
    with pytest.raises(ValueError, match="weights have shape"):
        fm.WeightedDraws([[0.0, 1.0]], [1.0])
    with pytest.raises(ValueError, match="weights hold negative"):
        fm.WeightedDraws([[0.0, 1.0]], [1.0, -1.0])
    with pytest.raises(ValueError, match="row 0 has one"):
        fm.WeightedDraws([[0.0, 1.0]], [1.0, 0.0]).crps([0.0], "fair")


@pytest.mark.parametrize("estimator", ["nrg", "fair"])
def test_gaussian_kernel_score(rng, ensemble, estimator):
    sr = peers.imported("scoringrules")
    y, draws = ensemble
    scores = metrics.gaussian_kernel_score(y, draws, estimator=estimator)
    np.testing.assert_allclose(scores, sr.gksuv_ensemble(y, draws, estimator=estimator), rtol=1e-11)
    y, draws = rng.normal(size=(N, 2)), rng.normal(size=(N, M, 2))
    scores = metrics.gaussian_kernel_score(y, draws, estimator=estimator)
    np.testing.assert_allclose(scores, sr.gksmv_ensemble(y, draws, estimator=estimator), rtol=1e-11)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("width", "near"), [(1e308, 1.0), (1e160, 1.0), (1e-170, 0.0), (1e-308, 0.0)]
)
def test_gaussian_kernel_score_of_widths_whose_squares_leave_the_range(width, near):
    """The square overflowed, or was 0 and a divisor."""
    y, draws = [0.25, -2.0], [[0.0, 1.0, 3.0], [4.0, 5.0, 6.0]]
    scores = metrics.gaussian_kernel_score(y, draws, bandwidth=width)
    self_term = (1 + 2 * near) / 3  # of each draw with all three
    np.testing.assert_allclose(scores, self_term / 2 - near + 0.5, rtol=1e-14, atol=1e-15)
    scores = metrics.gaussian_kernel_score(y, ([0.0, 1.0], 2.0), bandwidth=width)
    np.testing.assert_allclose(scores, 0.5 - near / 2, rtol=1e-14, atol=1e-15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("exponent", [-1000, -540, -100, 250, 500, 1000])
def test_error_spread_score_at_any_scale(rng, exponent):
    """The score was NaN for draws of 1e200, and draws of 1e-170 were taken for equal."""
    y, draws = rng.normal(size=N), rng.normal(size=(N, M)) ** 3
    expected = metrics.error_spread_score(y, draws)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(expected, 4 * exponent)
    error = metrics.error_spread_score(np.ldexp(y, exponent), np.ldexp(draws, exponent))
    np.testing.assert_allclose(error, expected, rtol=1e-12, atol=1e-320)
    far = metrics.error_spread_score([-1e308], [[1e308, -1e308, 1.7e308]])
    np.testing.assert_array_equal(far, np.inf)
    with pytest.raises(ValueError, match="equal draws in row 1"):
        metrics.error_spread_score([0.0, 0.0], [[0.1, 0.2, 0.4], [0.1, 0.1, 0.1]])


def test_gaussian_kernel_score_of_densities():
    """``E k`` of Gaussians is a Gaussian with the sum of the variances."""
    for width in (0.01, 1.0, 30.0):
        y, mean, std = np.array([0.3, 4.0]), np.array([0.0, 1.0]), np.array([1.0, 2.0])
        one, two = width**2 + std**2, width**2 + 2 * std**2
        near = width / np.sqrt(one) * np.exp(-((y - mean) ** 2) / (2 * one))
        expected = width / np.sqrt(two) / 2 - near + 0.5
        scores = metrics.gaussian_kernel_score(y, (mean, std), bandwidth=width)
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
        halves = fm.Mixture([fm.Gaussian(mean, std)] * 2)
        scores = metrics.gaussian_kernel_score(y, halves, bandwidth=width)
        np.testing.assert_allclose(scores, expected, rtol=1e-12)
    integrated = metrics.gaussian_kernel_score(y, stats.skewnorm(0.0, mean, std), bandwidth=30.0)
    np.testing.assert_allclose(integrated, expected, rtol=1e-7)
    with pytest.raises(ValueError, match="needs draws"):
        metrics.gaussian_kernel_score(y, (mean, std), estimator="fair")


SCALES = [1e-300, 1e-160, 1e160, 1e300]


@pytest.mark.parametrize("scale", SCALES)
def test_kernel_scores_do_not_depend_on_the_unit(rng, ensemble, scale):
    y, draws = ensemble
    vectors = rng.normal(size=(N, 2)), rng.normal(size=(N, M, 2))
    for outcomes, members in (ensemble, vectors):
        scores = metrics.gaussian_kernel_score(outcomes * scale, members * scale, bandwidth=scale)
        expected = metrics.gaussian_kernel_score(outcomes, members)
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)
    mean, std = draws[:, 0], np.abs(draws[:, 1])
    scores = metrics.gaussian_kernel_score(y * scale, (mean * scale, std * scale), bandwidth=scale)
    expected = metrics.gaussian_kernel_score(y, (mean, std))
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)
    apart = metrics.gaussian_kernel_score(y, draws, bandwidth=5e-324)
    np.testing.assert_allclose(apart, 0.5 + 0.5 / M, rtol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_scores_of_ensembles_at_any_scale(ensemble, scale):
    y, draws = ensemble
    scores = metrics.ensemble_log_score(y * scale, draws * scale)
    expected = metrics.ensemble_log_score(y, draws) + np.log(scale)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    fourth = metrics.error_spread_score(y * scale, draws * scale)
    assert (fourth == (0.0 if scale < 1 else np.inf)).all()
    far = metrics.error_spread_score([1e70], draws[:1] * scale if scale < 1 else draws[:1] * 1e60)
    np.testing.assert_allclose(far, 1e280, rtol=1e-8)  # the fourth power of the error
    small = metrics.error_spread_score(y * 1e-60, draws * 1e-60)
    np.testing.assert_allclose(small, metrics.error_spread_score(y, draws) * 1e-240, rtol=1e-9)


def test_equal_draws_have_no_error_spread_score():
    with pytest.raises(ValueError, match="prediction has equal draws in row 1"):
        metrics.error_spread_score([0.0, 0.0], [[0.0, 1.0, 2.0], [0.1, 0.1, 0.1]])


def test_a_density_beyond_float64_is_refused():
    with pytest.raises(ValueError, match="prediction has a density beyond float64 in row 1"):
        metrics.quadratic_score([0.0, 0.0], ([0.0, 0.0], [1.0, 1e-310]))


def test_log_score_of_ensembles(ensemble):
    sr = peers.imported("scoringrules")
    y, draws = ensemble
    np.testing.assert_allclose(
        metrics.ensemble_log_score(y, draws), sr.logs_ensemble(y, draws), rtol=1e-11
    )
    scores = metrics.ensemble_log_score(y, draws, bandwidth=np.full(N, 0.3))
    np.testing.assert_allclose(scores, sr.logs_ensemble(y, draws, bw=np.full(N, 0.3)), rtol=1e-11)
    density = metrics.kernel_density(draws, 0.3)
    one = stats.norm.pdf(y[:, None], draws, 0.3).mean(axis=1)
    np.testing.assert_allclose(density.log_prob(y), np.log(one), rtol=1e-12)
    with pytest.raises(ValueError, match="bandwidth is 0"):
        metrics.kernel_density([[1.0, 1.0]])
    with pytest.raises(ValueError, match="bandwidth holds values"):
        metrics.kernel_density(draws, -1.0)


def test_error_spread_score(rng, ensemble):
    y, draws = ensemble
    mean, s = draws.mean(axis=1), draws.std(axis=1, ddof=1)
    g = stats.skew(draws, axis=1) * np.sqrt(M * (M - 1)) / (M - 2)
    biased = stats.moment(draws, 3, axis=1) * M**2 / ((M - 1) * (M - 2)) / s**3
    np.testing.assert_allclose(biased, g, rtol=1e-12)  # the adjusted skewness of Fisher and Pearson
    e = mean - y
    expected = (s**2 - e**2 - e * s * g) ** 2
    np.testing.assert_allclose(metrics.error_spread_score(y, draws), expected, rtol=1e-10)
    # Propriety for skewed outcomes: the mirrored ensemble and one without skewness score worse.
    n = 4000
    y = rng.exponential(size=n)
    levels = (np.arange(400) + 0.5) / 400
    right = stats.expon.ppf(levels)
    other = 2 * right.mean() - right
    normal = stats.norm.ppf(levels, right.mean(), right.std())
    scores = [metrics.error_spread_score(y, np.tile(one, (n, 1))) for one in (right, other, normal)]
    for score in scores[1:]:
        gain = score - scores[0]
        assert gain.mean() > 3 * gain.std() / np.sqrt(n)
    with pytest.raises(ValueError, match="equal draws in row 0"):
        metrics.error_spread_score([0.0], [[1.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match="needs 3"):
        metrics.error_spread_score([0.0], [[1.0, 2.0]])


def test_quadratic_score(rng):
    y = np.array([0.3, 1.0, 2.0])
    for ours, frozen in (
        (fm.Gaussian([0.0, 1.0, 5.0], 1.5), stats.norm([0.0, 1.0, 5.0], 1.5)),
        (fm.Gamma([2.0, 3.0, 1.5], 1.0), stats.gamma([2.0, 3.0, 1.5])),
        (fm.Logistic([0.0, 1.0, 5.0], 0.5), stats.logistic([0.0, 1.0, 5.0], 0.5)),
    ):
        squares = [
            integrate.quad(
                lambda t, i=i, f=frozen: f.pdf(t)[i] ** 2, -40, 60, points=[0, 1, 5], limit=200
            )[0]
            for i in range(3)
        ]
        expected = np.array(squares) - 2 * frozen.pdf(y)
        np.testing.assert_allclose(metrics.quadratic_score(y, ours), expected, rtol=1e-6)
    k = np.arange(60)
    expected = (stats.poisson.pmf(k, 3.0) ** 2).sum() - 2 * stats.poisson.pmf(2, 3.0)
    np.testing.assert_allclose(
        metrics.quadratic_score([2], fm.Poisson([3.0])), expected, rtol=1e-10
    )
    y = rng.normal(size=20_000)
    best = metrics.quadratic_score(y, (np.zeros(len(y)), 1.0))
    for std in (0.7, 1.4):
        gain = metrics.quadratic_score(y, (np.zeros(len(y)), std)) - best
        assert gain.mean() > 3 * gain.std() / np.sqrt(len(y))


@pytest.mark.parametrize("threshold", [0.05, 1.0, 7.0])
def test_linearized_log_score(rng, threshold):
    y = np.append(3 * rng.normal(size=30), 1e4)
    p = stats.norm.pdf(y)
    with np.errstate(divide="ignore"):
        expected = np.where(p >= threshold, -np.log(p), 1 - np.log(threshold) - p / threshold)
    scores = metrics.linearized_log_score(y, (np.zeros(31), 1.0), threshold=threshold)
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    pd = pytest.importorskip("pandas")
    skpro_metrics = pytest.importorskip("skpro.metrics")
    from skpro.distributions import Normal

    frame = pd.DataFrame(y[:-1, None])
    peer = skpro_metrics.LinearizedLogLoss(range=threshold).evaluate_by_index(
        frame, Normal(mu=np.zeros((30, 1)), sigma=1.0)
    )
    np.testing.assert_allclose(scores[:-1], np.asarray(peer)[:, 0], rtol=1e-10)


def test_scores_of_each_level(ensemble):
    y, draws = ensemble
    for prediction in (draws, (draws.mean(axis=1), 1.0), fm.Gamma(np.full(N, 2.0), 1.0)):
        levels = [0.1, 0.5, 0.9]
        actual = metrics.check_scores_by_level(y, prediction, levels=levels)
        for j, level in enumerate(levels):
            expected = metrics.check_score(y, prediction, levels=level)
            np.testing.assert_allclose(actual[:, j], expected, rtol=1e-12, atol=1e-15)
        actual = metrics.interval_scores_by_level(y, prediction, levels=levels)
        for j, level in enumerate(levels):
            expected = metrics.interval_score(y, prediction, level=level)
            np.testing.assert_allclose(actual[:, j], expected, rtol=1e-12)
    assert metrics.check_scores_by_level(y, draws).shape == (N, 99)


def test_threshold_brier_score(ensemble):
    ps = peers.imported("properscoring")
    y, draws = ensemble
    at = np.array([-0.5, 0.0, 0.7])
    actual = metrics.threshold_brier_score(y, draws, thresholds=at)
    np.testing.assert_allclose(actual, ps.threshold_brier_score(y, draws, at), atol=1e-15)
    single = metrics.threshold_brier_score(y, draws, thresholds=0.7)
    np.testing.assert_array_equal(single, actual[:, 2])
    grid = np.linspace(-8, 8, 8001)
    expected = metrics.threshold_brier_score(y, (draws[:, 0], 1.0), thresholds=grid)
    area = np.trapezoid(expected, grid, axis=1)
    np.testing.assert_allclose(area, fm.crps(y, (draws[:, 0], 1.0)), atol=2e-3)


def test_fair_brier_score_has_the_mean_of_the_source(rng):
    """The mean over draws is the score of their true probability, 0.3."""
    draws = (rng.random((40_000, 3)) < 0.3) * 1.0
    y = np.zeros(len(draws))
    scores = metrics.threshold_brier_score(y, draws, thresholds=0.5, fair=True)
    assert abs(scores.mean() - 0.09) < 4 * scores.std() / 200
    assert metrics.threshold_brier_score(y, draws, thresholds=0.5).mean() > 0.15
    with pytest.raises(ValueError, match="fair is True"):
        metrics.threshold_brier_score(y, (y, 1.0), thresholds=0.5, fair=True)


def test_discrimination_and_roc(rng):
    sk = pytest.importorskip("sklearn.metrics")
    y = rng.normal(size=300)
    mean = np.round(y + rng.normal(size=300), 1)  # ties
    chance, event = stats.norm.sf(0.5, mean, 1.0), y > 0.5
    weights = rng.uniform(size=300)
    result = metrics.discrimination(y, (mean, 1.0), threshold=0.5, bins=4)
    for shares, some in ((result.event, event), (result.no_event, ~event)):
        expected = np.histogram(chance[some], np.linspace(0, 1, 5))[0] / some.sum()
        np.testing.assert_allclose(shares, expected)
    curve = metrics.roc_curve(y, (mean, 1.0), threshold=0.5, sample_weight=weights)
    fpr, tpr, at = sk.roc_curve(event, chance, sample_weight=weights, drop_intermediate=False)
    np.testing.assert_allclose(curve.false_positive_rate, fpr, atol=1e-14)
    np.testing.assert_allclose(curve.true_positive_rate, tpr, atol=1e-14)
    np.testing.assert_allclose(curve.threshold[1:], at[1:])
    assert curve.area == pytest.approx(sk.roc_auc_score(event, chance, sample_weight=weights))
    assert "area" in repr(curve)
    assert "no event" in repr(result)
    with pytest.raises(ValueError, match="no outcome"):
        metrics.roc_curve(y, (mean, 1.0), threshold=99.0)
