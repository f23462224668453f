"""Poisson and negative binomial: log probabilities, tails, scores and quantiles by independent sums."""

from __future__ import annotations

import math

import numpy as np
import peers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fastmcmd as fm
from fastmcmd import _core

ROWS = [  # mean, dispersion (0: Poisson)
    (1e-3, 0.0), (0.5, 0.0), (4.0, 0.0), (49.0, 0.0), (700.0, 0.0), (1e4, 0.0),
    (1e-3, 0.5), (0.5, 2.0), (3.0, 0.1), (30.0, 0.5), (300.0, 0.01), (10.0, 20.0), (2000.0, 0.3),
    (0.2, 300.0),
]  # fmt: skip


def counts(mean, alpha):
    return fm.Poisson(mean) if np.all(np.equal(alpha, 0)) else fm.NegativeBinomial(mean, alpha)


def frozen(mean, alpha):
    return stats.poisson(mean) if alpha == 0 else stats.nbinom(1 / alpha, 1 / (1 + alpha * mean))


def summed_crps(one, y):
    """Return the integral over unit steps, from SciPy's cdf and survival function."""
    k = np.arange(one.mean() + 12 * one.std() + 60 * one.var() / one.mean())
    floor = math.floor(y)
    inside = one.cdf(k[k < floor]) ** 2
    total = math.fsum(inside) + math.fsum(one.sf(k[k > floor]) ** 2)
    if floor > k[-1]:
        total += floor - k[-1] - 1
    if y < 0:
        return total - y
    part = y - floor
    return total + part * one.cdf(floor) ** 2 + (1 - part) * one.sf(floor) ** 2


@pytest.mark.parametrize(("mean", "alpha"), ROWS)
def test_crps_is_the_integral(mean, alpha):
    one = frozen(mean, alpha)
    sd = math.sqrt(mean * (1 + alpha * mean))
    outcomes = [
        0.0,
        1.0,
        mean // 1,
        (mean + 4 * sd) // 1 + 1,
        (mean + 60 * sd) // 1 + 500,
        1.5,
        -2.5,
    ]
    y = np.array([*outcomes, mean + 0.25])
    scores = counts(np.full(len(y), mean), np.full(len(y), alpha)).crps(y)
    expected = [summed_crps(one, value) for value in y]
    np.testing.assert_allclose(scores, expected, rtol=1e-10)


def test_sums_and_closed_forms_agree(rng):
    """Score rows long enough for the closed form by the sums of short rows."""
    for alpha in (np.zeros(300), 10 ** rng.uniform(-6, 0.5, 300)):
        mean = 10 ** rng.uniform(3.2, 3.7, 300)
        y = np.floor(mean * rng.uniform(0, 3, 300)) + rng.choice([0.0, 0.3], 300)
        prediction = counts(mean, alpha)
        assert not prediction._summed(mean, alpha).any()
        sums = np.empty(300)
        _core.crps_by_sums(y, mean, alpha, sums)
        np.testing.assert_allclose(prediction.crps(y), sums, rtol=2e-11, atol=1e-13 * mean.max())


def test_crps_of_rows_of_all_lengths_together(rng):
    """Score blocks in which some rows use sums and others the closed form."""
    mean = rng.permutation(np.concatenate([np.full(20, 3.0), np.full(20, 3e4)]))
    for alpha in (0.0, 0.7):
        y = np.floor(mean * rng.uniform(0, 2, 40))
        all_rows = counts(mean, np.full(40, alpha)).crps(y)
        alone = [counts([m], [alpha]).crps([value])[0] for m, value in zip(mean, y, strict=True)]
        np.testing.assert_array_equal(all_rows, alone)


@pytest.mark.parametrize("alpha", [0.0, 1e-5, 0.3, 5.0])
def test_crps_far_from_the_mass(alpha):
    """CRPS = |y - mean| - E|Y - Y'| / 2 up to rounding, at any distance."""
    for mean in (5.0, 900.0):
        half = summed_crps(frozen(mean, alpha), -1.0)  # |y - mean| - E|Y - Y'| / 2 at y = -1
        half = mean + 1 - half
        y = np.array([1e6, 1e9, 1e15, 1e300, -1e6])
        scores = counts(np.full(5, mean), np.full(5, alpha)).crps(y)
        np.testing.assert_allclose(scores, np.abs(y - mean) - half, rtol=1e-12)


def test_crps_of_hardly_any_mass():
    """Near 0 a score is the square of a tiny probability, not a difference of larger numbers."""
    means = np.array([1e-3, 1e-6, 1e-9, 1e-12])
    one_or_more = -np.expm1(-means)
    np.testing.assert_allclose(fm.Poisson(means).crps(0.0), one_or_more**2, rtol=1e-6)
    np.testing.assert_allclose(fm.Poisson(means[2:]).crps(0.0), one_or_more[2:] ** 2, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 0.02, 0.5, 30.0])
@pytest.mark.parametrize("mean", [1e-6, 0.3, 20.0, 1e5, 1e8])
def test_log_probabilities_keep_their_digits(mean, alpha):
    mp = pytest.importorskip("mpmath")
    with mp.workdps(40):
        m, a = mp.mpf(mean), mp.mpf(alpha)
        for y in {0, 1, 7, int(mean), int(mean + 3 * math.sqrt(mean)), int(3 * mean) + 40}:
            if alpha == 0:
                expected = y * mp.log(m) - m - mp.loggamma(y + 1)
            else:
                ways = mp.loggamma(y + 1 / a) - mp.loggamma(1 / a) - mp.loggamma(y + 1)
                expected = ways - mp.log1p(a * m) / a + y * mp.log(a * m / (1 + a * m))
            (log_prob,) = counts([mean], [alpha]).log_prob([y])
            assert log_prob == pytest.approx(float(expected), rel=2e-14, abs=1e-13)


@pytest.mark.parametrize(
    ("mean", "alpha"), [(30.0, 0.5), (500.0, 1e-3), (4.0, 1e-5), (20.0, 0.0), (0.1, 4.0)]
)
def test_tails_keep_their_digits(mean, alpha):
    mp = pytest.importorskip("mpmath")
    sd = math.sqrt(mean * (1 + alpha * mean))
    for y in {0, int(mean / 3), int(mean), int(mean + 3 * sd), int(mean + 15 * sd)}:
        with mp.workdps(60):
            m, a = mp.mpf(mean), mp.mpf(alpha)
            if alpha == 0:
                below, above = (
                    mp.gammainc(y + 1, m, regularized=True),
                    mp.gammainc(y + 1, 0, m, regularized=True),
                )
            else:
                p = 1 / (1 + a * m)
                below = mp.fsum(
                    mp.rf(1 / a, k) / mp.factorial(k) * p ** (1 / a) * (1 - p) ** k
                    for k in range(y + 1)
                )
                above = 1 - below
        prediction = counts([mean], [alpha])
        assert prediction.cdf([y])[0] == pytest.approx(float(below), rel=3e-12)
        assert prediction.sf([y])[0] == pytest.approx(float(above), rel=3e-12)
        assert prediction.cdf_below([y + 1])[0] == prediction.cdf([y])[0]


def test_agreement_with_scipy_on_many_rows(rng):
    n = 20_000  # several blocks
    mean, alpha = rng.gamma(2.0, 20.0, n), rng.uniform(0.02, 2.0, n)
    for prediction, one in (
        (fm.Poisson(mean), stats.poisson(mean)),
        (fm.NegativeBinomial(mean, alpha), stats.nbinom(1 / alpha, 1 / (1 + alpha * mean))),
    ):
        y = one.rvs(random_state=rng).astype(float)
        np.testing.assert_allclose(prediction.cdf(y), one.cdf(y), rtol=1e-11)
        np.testing.assert_allclose(prediction.sf(y), one.sf(y), rtol=1e-11)
        np.testing.assert_allclose(prediction.cdf_below(y), one.cdf(y - 1), rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(prediction.log_prob(y), one.logpmf(y), rtol=1e-10)


def test_crps_of_peers(rng):
    peer = peers.imported("scoringrules")
    mean, alpha = rng.gamma(2.0, 10.0, 200), rng.uniform(0.1, 2.0, 200)
    y = rng.poisson(mean).astype(float)
    np.testing.assert_allclose(fm.Poisson(mean).crps(y), peer.crps_poisson(y, mean), rtol=1e-9)
    theirs = peer.crps_negbinom(y, 1 / alpha, 1 / (1 + alpha * mean))
    np.testing.assert_allclose(fm.NegativeBinomial(mean, alpha).crps(y), theirs, rtol=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_crps_by_draws(alpha, rng):
    """Agree with E|Y - y| - E|Y - Y'| / 2 over draws, within five standard errors."""
    prediction = counts([6.0], [alpha])
    one, other = prediction.sample(200_000, rng)[0], prediction.sample(200_000, rng)[0]
    for y in (0.0, 5.0, 20.0):
        values = np.abs(one - y) - np.abs(one - other) / 2
        error = values.std() / math.sqrt(len(values))
        assert abs(prediction.crps([y])[0] - values.mean()) < 5 * error


@pytest.mark.parametrize("score", ["crps", "log"])
def test_the_true_distribution_scores_best(score, rng):
    """Expected scores by sums over the truth: the truth is best among its neighbours."""
    y = np.arange(400.0)
    truth = np.exp(fm.NegativeBinomial(np.full(400, 9.0), 0.4).log_prob(y))

    def expected(mean, alpha):
        other = counts(np.full(400, mean), np.full(400, alpha))
        return truth @ (other.crps(y) if score == "crps" else -other.log_prob(y))

    best = expected(9.0, 0.4)
    for mean, alpha in [(9.1, 0.4), (8.9, 0.4), (9.0, 0.45), (9.0, 0.35), (9.0, 0.0), (12.0, 1.0)]:
        assert expected(mean, alpha) > best


@given(
    mean=st.floats(0, 1e5),
    alpha=st.one_of(st.just(0.0), st.floats(1e-8, 50)),
    y=st.floats(-5, 2e5),
    level=st.floats(0, 1),
)
def test_laws_of_count_distributions(mean, alpha, y, level):
    prediction = counts([mean], [alpha])
    below, at, above = (
        float(f([y])[0]) for f in (prediction.cdf_below, prediction.cdf, prediction.sf)
    )
    assert 0 <= below <= at <= 1
    assert at + above == pytest.approx(1, abs=1e-12)
    assert at - below == pytest.approx(np.exp(prediction.log_prob([y])[0]), abs=1e-11)
    assert prediction.cdf([y + 1])[0] >= at - 1e-14
    score = prediction.crps([y])[0]
    assert score >= 0
    assert score <= abs(y - mean) + float(prediction.std[0]) + 1e-12  # at most E|Y - y|
    if level == 1 and mean > 0:
        assert prediction.quantile(1.0)[0] == np.inf
    else:
        count = prediction.quantile(level)
        assert prediction.cdf(count)[0] >= level
        assert prediction.cdf_below(count)[0] < level or count[0] == 0


def assert_least(prediction, levels, quantiles):
    """Counts (n, j) are the least whose cdf, as users see it, is at least a level."""
    n, count = quantiles.shape
    repeated = prediction.take(np.repeat(np.arange(n), count))
    flat, levels = quantiles.ravel(), np.broadcast_to(levels, quantiles.shape).ravel()
    assert (repeated.cdf(flat) >= levels).all()
    assert ((repeated.cdf_below(flat) < levels) | (flat == 0)).all()


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-6, 0.01, 0.5, 20.0, 1e3])
def test_quantiles_are_those_of_scipy(alpha, rng):
    mean = np.concatenate([[0.0, 1e-300, 1e-9, 1e8], 10 ** rng.uniform(-3, 5, 40)])
    prediction = counts(mean, np.full(len(mean), alpha))
    levels = np.array([0.99, 1e-5, 0.5, 0.01, 0.123, 0.999999, 0.7])
    quantiles = prediction.quantile(levels)
    assert_least(prediction, levels, quantiles)
    with np.errstate(all="ignore"):
        expected = np.stack([frozen(m, alpha).ppf(levels) for m in mean[1:]])
    # SciPy's tail of a small dispersion loses digits: next counts where rounding decides.
    np.testing.assert_allclose(quantiles[1:], expected, atol=1 if 0 < alpha < 1e-3 else 0)
    np.testing.assert_array_equal(quantiles[0], 0)
    for j, level in enumerate(levels):
        np.testing.assert_array_equal(prediction.quantile(level), quantiles[:, j])


@given(
    mean=st.one_of(st.floats(0, 1e8), st.floats(0, 40)),
    alpha=st.one_of(st.just(0.0), st.floats(-12, 3).map(lambda e: 10**e)),
    start=st.floats(0, 1, exclude_max=True),
)
def test_levels_at_and_next_to_steps_of_the_cdf(mean, alpha, start):
    """Levels that rounding moves to either side also agree, although walk and cdf may differ there."""
    prediction = counts([mean], [alpha])
    count = prediction.quantile(start)
    step = float(prediction.cdf(count)[0])
    shifts = 1 + np.array([0.0, 1e-15, -1e-15, 1e-12, -1e-12, 1e-9, -1e-9, 1e-6, -1e-6])
    levels = np.clip(np.append(step * shifts, np.nextafter(step, [0.0, 1.0])), 0, 1 - 2**-53)
    quantiles = prediction.quantile(levels)
    assert_least(prediction, levels, quantiles)
    if 0 < step < 1:
        assert quantiles[0, 0] == count[0]


@pytest.mark.parametrize("mean", [2e5, 2.99e5, 3e5, 1e6, 1e8, 1e10])
def test_tails_of_large_poisson_means(mean):
    """Where SciPy's incomplete gamma functions lose all digits, sums of ratios of masses are exact."""
    z = np.array([4.3, 4.499, 4.501, 6.0, 12.0, 25.0])
    prediction = fm.Poisson(np.full(len(z), mean))
    steps = np.arange(1, 40 * math.sqrt(mean) / 4)[:, None]
    for sign in (1, -1):
        k = np.floor(mean + sign * z * math.sqrt(mean))
        ratios = mean / (k + steps) if sign > 0 else (k - steps + 1) / mean
        total = 1 + np.cumprod(ratios, axis=0).sum(axis=0)
        expected = np.exp(prediction.log_prob(k)) * total
        tail = prediction.sf(k - 1) if sign > 0 else prediction.cdf(k)
        np.testing.assert_allclose(tail, expected, rtol=1e-11)
    middle = np.floor(mean + np.linspace(-4, 4, len(z)) * math.sqrt(mean))
    np.testing.assert_allclose(prediction.cdf(middle), stats.poisson.cdf(middle, mean), rtol=1e-11)
    np.testing.assert_allclose(prediction.cdf(middle) + prediction.sf(middle), 1, rtol=1e-14)


@pytest.mark.parametrize("alpha", [0.0, 1e-9, 0.3, 50.0])
def test_extreme_levels(alpha):
    mean = np.array([1e-4, 3.0, 500.0, 3e4])
    prediction = counts(mean, np.full(4, alpha))
    levels = np.array([1e-300, 1e-100, 9e-9, 1e-8, 1.1e-8, 1 - 1e-8, 1 - 1e-12, 1 - 2**-53])
    quantiles = prediction.quantile(levels)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert_least(prediction, levels, quantiles)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_levels_of_each_row(alpha, rng):
    mean = np.append(rng.gamma(4, 3, 9), 1e6)
    prediction = counts(mean, np.full(10, alpha))
    levels = rng.random((10, 6))
    levels[:, 2:4] = 0.0, 1.0
    quantiles = prediction.quantiles_at(levels)
    for row in range(10):
        expected = prediction.take(np.array([row])).quantile(levels[row])[0]
        np.testing.assert_array_equal(quantiles[row], expected)
    np.testing.assert_array_equal(prediction.quantiles_at(levels[:, ::-1]), quantiles[:, ::-1])


def test_quantiles_do_not_depend_on_blocks_and_threads(rng, monkeypatch):
    mean = np.append(rng.gamma(4, 3, 3000), 1e6)
    prediction, levels = fm.NegativeBinomial(mean, 0.3), np.linspace(0.01, 0.99, 99)
    expected = prediction.quantile(levels)
    for threads, block in ((1, 1 << 18), (3, 1 << 10)):
        monkeypatch.setattr(
            "fastmcmd._base.blocks.get_num_threads", lambda threads=threads: threads
        )
        monkeypatch.setattr("fastmcmd.predictive.count_base._QUANTILES", block)
        np.testing.assert_array_equal(prediction.quantile(levels), expected)


def test_integer_levels_and_shapes():
    prediction = fm.Poisson([0.0, 3.0])
    np.testing.assert_array_equal(prediction.quantile([0.0, 0.5, 1.0]), [[0, 0, 0], [0, 3, np.inf]])
    assert prediction.quantile(0.5).shape == (2,)
    assert prediction.quantile([]).shape == (2, 0)
    assert prediction.take(np.arange(0)).quantile([0.1, 0.2, 0.3]).shape == (0, 3)


def test_outcomes_that_are_no_counts():
    for prediction in (fm.Poisson([2.0] * 6), fm.NegativeBinomial([2.0] * 6, 0.5)):
        y = np.array([-1.0, 0.5, np.inf, -np.inf, np.nan, 3.0])
        logs, cdf, crps = prediction.log_prob(y), prediction.cdf(y), prediction.crps(y)
        np.testing.assert_array_equal(logs[:4], -np.inf)
        assert np.isnan(logs[4])
        assert np.isfinite(logs[5])
        np.testing.assert_array_equal(cdf[[0, 2, 3]], [0, 1, 0])
        np.testing.assert_array_equal(prediction.sf(y)[[0, 2, 3]], [1, 0, 1])
        assert cdf[1] == prediction.cdf(0.0)[1]
        assert np.isnan([cdf[4], crps[4], prediction.sf(y)[4]]).all()
        assert np.isposinf(crps[2:4]).all()
        assert np.isfinite(crps[[0, 1, 5]]).all()


def test_means_of_zero():
    for prediction in (fm.Poisson([0.0, 0.0]), fm.NegativeBinomial([0.0, 0.0], 3.0)):
        np.testing.assert_array_equal(prediction.crps([0.0, 4.0]), [0, 4])
        np.testing.assert_array_equal(prediction.log_prob([0.0, 4.0]), [0, -np.inf])
        np.testing.assert_array_equal(prediction.cdf([0.0, 4.0]), 1)


@pytest.mark.parametrize("alpha", [1e-300, 1e-40, 1e-17, 1e-10])
def test_hardly_any_dispersion_scores_like_poisson(alpha):
    mean, y = np.array([1e-9, 0.7, 5.0, 900.0, 1e6]), np.array([0.0, 1.0, 7.0, 950.0, 999_000.0])
    near, limit = fm.NegativeBinomial(mean, alpha), fm.Poisson(mean)
    np.testing.assert_allclose(near.crps(y), limit.crps(y), rtol=1e-8 + 1e6 * alpha)
    np.testing.assert_allclose(
        near.log_prob(y), limit.log_prob(y), rtol=1e-12, atol=1e-3 * (alpha == 1e-10)
    )


def test_parameters_n_and_p(rng):
    n, p = rng.uniform(0.3, 9.0, 50), rng.uniform(0.05, 1.0, 50)
    p[0] = 1.0
    prediction, one = fm.NegativeBinomial.from_n_p(n, p), stats.nbinom(n, p)
    np.testing.assert_allclose(prediction.mean, one.mean(), rtol=1e-13)
    np.testing.assert_allclose(prediction.variance, one.var(), rtol=1e-12)
    y = one.rvs(random_state=rng).astype(float)
    np.testing.assert_allclose(prediction.log_prob(y), one.logpmf(y), rtol=1e-10, atol=1e-12)
    assert len(fm.NegativeBinomial.from_n_p(2.0, [0.1, 0.2])) == 2


def test_the_convention_of_torch():
    torch = pytest.importorskip("torch")
    total, probs = torch.tensor([2.0, 5.0]).double(), torch.tensor([0.3, 0.8]).double()
    theirs = torch.distributions.NegativeBinomial(total, probs)
    ours = fm.NegativeBinomial.from_n_p(total, 1 - probs)
    np.testing.assert_allclose(ours.mean, theirs.mean.numpy(), rtol=1e-12)
    logs = theirs.log_prob(torch.tensor([3.0, 7.0]).double()).numpy()
    np.testing.assert_allclose(ours.log_prob([3.0, 7.0]), logs, rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "p", "message"),
    [
        ([0.0], 0.5, "n has values down to 0; all must be > 0"),
        ([1.0], 0.0, "p has values down to 0; all must be > 0"),
        ([1.0], 1.5, r"p has values up to 1.5; all must be in \(0, 1\]"),
        ([1.0, 2.0], [0.1, 0.2, 0.3], r"n has shape \(2,\) and p has \(3,\)"),
        ([np.nan], 0.5, "n holds NaN"),
    ],
)
def test_bad_parameters_n_and_p(n, p, message):
    with pytest.raises(ValueError, match=message):
        fm.NegativeBinomial.from_n_p(n, p)


def test_bad_dispersions():
    with pytest.raises(ValueError, match=r"dispersion has shape \(2,\); a scalar or \(3,\)"):
        fm.NegativeBinomial([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="dispersion has values down to 0; all must be > 0"):
        fm.NegativeBinomial([1.0], 0.0)
    with pytest.raises(ValueError, match="y has shape"):
        fm.Poisson([1.0, 2.0]).crps([1.0, 2.0, 3.0])


def test_values_do_not_depend_on_threads(rng):
    mean, y = rng.gamma(2.0, 30.0, 30_000), rng.poisson(50.0, 30_000).astype(float)
    results = []
    try:
        for threads in (1, 2, 3):
            fm.set_num_threads(threads)
            prediction = fm.NegativeBinomial(mean, 0.4)
            results.append(
                np.stack([prediction.crps(y), prediction.cdf(y), prediction.log_prob(y)])
            )
    finally:
        fm.set_num_threads(None)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("dispersion", [None, 1e-6, 0.3, 20.0])
def test_log_masses_of_consecutive_counts(dispersion):
    mean = np.array([0.0, 1e-3, 4.0, 300.0, 2e5])
    prediction = fm.Poisson(mean) if dispersion is None else fm.NegativeBinomial(mean, dispersion)
    first = np.array([0.0, 0.0, 2.0, 0.0, 199_000.0])
    out = np.empty((5, 1200))
    prediction.log_masses_from(first, out)
    for row, start in enumerate(first):
        expected = prediction.take(np.full(1200, row)).log_prob(start + np.arange(1200.0))
        np.testing.assert_allclose(out[row], expected, rtol=1e-12, atol=1e-12)
