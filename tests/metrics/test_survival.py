"""Scores of censored times agree with definitions in plain Python, and with uncensored scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

import fastmcmd as fm
from fastmcmd import metrics


def censored(rng, n=200, digits=1):
    """Return exponential times of rate exp(x), censored by others; rounded, so that some are equal."""
    x = rng.normal(size=n)
    times = rng.exponential(np.exp(-x))
    end = rng.exponential(2.0, n)
    y = np.round(np.minimum(times, end), digits) + 0.1
    return x, y, (times <= end), times, end


def product_limit(y, event, t, before=False):
    """Return Kaplan-Meier by its definition, time by time."""
    out = 1.0
    for at in sorted(set(y[event])):
        if at < t or (at == t and not before):
            out *= 1 - np.sum(event & (y == at)) / np.sum(y >= at)
    return out


def free(y, event, t, before):
    """Return the same for not being censored; events precede censored rows of the same time."""
    out = 1.0
    for at in sorted(set(y[~event])):
        if at < t or (at == t and not before):
            risk = np.sum(y > at) + np.sum(~event & (y == at))
            out *= 1 - np.sum(~event & (y == at)) / risk
    return out


def test_kaplan_meier(rng):
    _, y, event, *_ = censored(rng)
    times, share = metrics.kaplan_meier(y, event)
    np.testing.assert_allclose(share, [product_limit(y, event, t) for t in times], rtol=1e-12)
    all_events = np.ones(len(y), dtype=bool)
    times, share = metrics.kaplan_meier(y, all_events)
    np.testing.assert_allclose(share, [(y > t).mean() for t in times], atol=1e-12)


def test_log_score_and_crps(rng):
    x, y, event, *_ = censored(rng, 40)
    prediction = fm.Weibull(1.3, np.exp(-x))
    actual = metrics.survival_log_score(y, prediction, event=event)
    frozen = prediction.frozen
    expected = -np.where(event, frozen.logpdf(y), frozen.logsf(y))
    np.testing.assert_allclose(actual, expected, rtol=1e-12)
    actual = metrics.survival_crps(y, prediction, event=event)
    for i in range(40):
        one = prediction.take(np.array([i]))
        below = integrate.quad(lambda t, one=one: one.cdf(t)[0] ** 2, 0, y[i], epsabs=1e-12)[0]
        above = integrate.quad(lambda t, one=one: one.sf(t)[0] ** 2, y[i], np.inf, epsabs=1e-12)[0]
        assert actual[i] == pytest.approx(below + above * event[i], rel=1e-7)
    every = np.ones(40)
    np.testing.assert_array_equal(
        metrics.survival_crps(y, prediction, event=every), fm.crps(y, prediction)
    )
    draws = prediction.sample(50, 0)
    actual = metrics.survival_crps(y, draws, event=np.zeros(40))
    for i in range(40):
        steps = np.sort(np.append(draws[i][draws[i] < y[i]], y[i]))
        share = np.arange(1, len(steps)) / 50
        assert actual[i] == pytest.approx(share**2 @ np.diff(steps), rel=1e-10, abs=1e-15)


@pytest.mark.slow
def test_the_log_score_is_proper_and_the_crps_is_not(rng):
    """With a known end of follow-up, the CRPS weighted up to it is proper."""
    n = 2000
    times, end = rng.exponential(size=n), np.full(n, 0.5)
    y, event = np.minimum(times, end), times <= end

    def gain(score, rate):
        one = score(fm.Exponential(np.full(n, rate))) - score(fm.Exponential(np.ones(n)))
        return one.mean(), 3 * one.std() / np.sqrt(n)

    for rate in (0.6, 1.6):
        mean, error = gain(lambda p: metrics.survival_log_score(y, p, event=event), rate)
        assert mean > error
        mean, error = gain(lambda p: metrics.weighted_crps(y, p, upper=end), rate)
        assert mean > error
    mean, error = gain(lambda p: metrics.survival_crps(y, p, event=event), 1.6)
    assert mean < -error  # shorter times than the truth, and a better score


def test_brier_score(rng):
    x, y, event, *_ = censored(rng)
    prediction = fm.Exponential(np.exp(x))
    at = np.array([0.2, 0.5, 1.1])
    for train in (None, (y[:150], event[:150])):
        base = (y, event) if train is None else train
        actual = metrics.ipcw_brier_score(y, prediction, event=event, times=at, train=train)
        for t, value in zip(at, actual, strict=True):
            total = 0.0
            for i in range(len(y)):
                s = np.exp(-np.exp(x[i]) * t)
                if y[i] <= t and event[i]:
                    total += s**2 / free(*base, y[i], True)
                elif y[i] > t:
                    total += (1 - s) ** 2 / free(*base, t, False)
            assert value == pytest.approx(total / len(y), rel=1e-12)
    integrated = metrics.integrated_ipcw_brier_score(y, prediction, event=event, times=at)
    scores = metrics.ipcw_brier_score(y, prediction, event=event, times=at)
    assert integrated == pytest.approx(np.trapezoid(scores, at) / (at[-1] - at[0]))
    alone = metrics.ipcw_brier_score(y, prediction, event=event, times=0.5)
    assert alone == scores[1]
    # All observed: the plain Brier score.
    every = np.ones(len(y))
    plain = metrics.threshold_brier_score(y, prediction, thresholds=at).mean(axis=0)
    np.testing.assert_allclose(
        metrics.ipcw_brier_score(y, prediction, event=every, times=at), plain, rtol=1e-12
    )


def test_the_brier_score_is_that_without_censoring(rng):
    x, y, event, times, end = censored(rng, 20_000, digits=12)
    y = np.minimum(times, end)
    prediction = fm.Exponential(np.exp(x))
    actual = metrics.ipcw_brier_score(y, prediction, event=event, times=[0.7])[0]
    expected = metrics.threshold_brier_score(times, prediction, thresholds=0.7)
    assert abs(actual - expected.mean()) < 5 * expected.std() / np.sqrt(len(y))


@pytest.mark.parametrize("weighting", ["harrell", "uno"])
@pytest.mark.parametrize("tau", [None, 0.8])
def test_concordance(rng, weighting, tau):
    x, y, event, *_ = censored(rng, 80)
    score = np.round(-x, 1)
    agree = total = 0.0
    for i in range(80):
        if not event[i] or (tau is not None and y[i] >= tau):
            continue
        weight = 1.0 if weighting == "harrell" else free(y, event, y[i], True) ** -2
        for j in range(80):
            if y[i] < y[j] or (y[i] == y[j] and not event[j]):
                total += weight
                agree += weight * ((score[i] < score[j]) + (score[i] == score[j]) / 2)
    actual = metrics.concordance_index(y, score, event=event, weighting=weighting, tau=tau)
    assert actual == pytest.approx(agree / total, rel=1e-12)
    same = metrics.concordance_index(
        y, fm.Exponential(scale=np.exp(score)), event=event, weighting=weighting, tau=tau
    )
    assert same == pytest.approx(actual, rel=1e-12)  # of medians: any increasing map
    flipped = metrics.concordance_index(y, -score, event=event, weighting=weighting, tau=tau)
    assert flipped == pytest.approx(1 - actual, rel=1e-12)


def test_uno_removes_what_censoring_does(rng):
    """Return the concordance of all pairs up to tau, without censoring; x says nothing about late times."""
    n = 2500
    x = rng.normal(size=n)
    early = rng.exponential(size=n) / np.exp(2 * x)
    times = np.where(early < 0.3, early, 0.3 + rng.exponential(size=n))
    end = rng.exponential(0.6, n)
    y, event = np.minimum(times, end), times <= end
    truth = metrics.concordance_index(times, -x, event=np.ones(n), tau=1.5)
    uno = metrics.concordance_index(y, -x, event=event, weighting="uno", tau=1.5)
    harrell = metrics.concordance_index(y, -x, event=event, tau=1.5)
    assert abs(uno - truth) < 0.03
    assert harrell - truth > 0.06


def test_nan_and_errors(rng):
    x, y, event, *_ = censored(rng, 20)
    prediction = fm.Exponential(np.exp(x))
    y[3] = np.nan
    actual = metrics.survival_crps(y, prediction, event=event, nan_policy="omit")
    assert np.flatnonzero(np.isnan(actual)).tolist() == [3]
    index_left = metrics.concordance_index(y, -x, event=event, nan_policy="omit")
    keep = np.arange(20) != 3
    assert index_left == metrics.concordance_index(y[keep], -x[keep], event=event[keep])
    assert np.isnan(metrics.concordance_index(y, -x, event=event, nan_policy="propagate"))
    y[3] = 1.0
    with pytest.raises(ValueError, match=r"event has shape \(19,\).* row of y"):
        metrics.survival_crps(y, prediction, event=event[1:])
    with pytest.raises(ValueError, match=r"event has shape \(20,\); \(1,\) .* per row of y"):
        metrics.kaplan_meier(y[:1], event)
    with pytest.raises(ValueError, match="event holds values other than"):
        metrics.survival_crps(y, prediction, event=event * 2.0)
    with pytest.raises(ValueError, match=r"no comparable pair.* before tau = -1"):
        metrics.concordance_index(y, -x, event=event, tau=-1.0)
    with pytest.raises(ValueError, match="no comparable pair"):
        metrics.concordance_index(y, -x, event=np.zeros(20))
    with pytest.raises(ValueError, match="smaller times"):
        metrics.ipcw_brier_score(
            y, prediction, event=event, times=[1.0], train=([0.1, 0.2], [0, 0])
        )
    for times in ([1.0, 0.5], [1.0], [0.5, np.inf]):
        with pytest.raises(ValueError, match=r"times is .*increasing"):
            metrics.integrated_ipcw_brier_score(y, prediction, event=event, times=times)
    with pytest.raises(TypeError, match="train must be a pair"):
        metrics.ipcw_brier_score(y, prediction, event=event, times=[1.0], train=[y, event])
