"""Forecasts of errors at more landmarks, on decays of known form and errors of known scatter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fastmcmd.estimate.common_share import CommonShare
from fastmcmd.estimate.error_forecast import TRACE_POWER, Forecast, SampledErrors, TraceErrors


def sure():
    """Return the share of the goal that a predicted error must not exceed."""
    forecast, error = Forecast("rigorous", 4000), 1.0
    while not forecast.within_goal():
        error -= 0.01
        forecast.add(100, error)
    return error


def test_forecast_of_an_exponential_decay():
    forecast = Forecast("rigorous", 4000)
    assert forecast.landmarks_needed is None
    for rank in (64, 81, 102):
        forecast.add(rank, 1e6 * math.exp(-rank / 50))
    assert forecast.landmarks_needed == pytest.approx(50 * math.log(1e6 / sure()), abs=1.0)
    assert not forecast.cannot_converge
    assert not forecast.within_goal()


@pytest.mark.parametrize("curvature", [0.05, 0.35, 1.0, 2.0])
def test_trace_errors_whose_slope_grows_like_a_power(curvature):
    """These decays are extrapolated exactly, from a power law to faster than exponential."""
    decay = lambda rank: 1e4 * math.exp(-3 * (rank / 100) ** curvature / curvature)  # noqa: E731
    trace = TraceErrors()
    assert trace.landmarks(0.5) is None
    for rank in (50, 100, 110, 200):  # the third is too near the second to tell a slope
        trace.add(rank, decay(rank))
    for rank in (200, 250, 400):
        share = decay(rank) / decay(200)
        # Slopes are taken half-way between two points: exact for a power law only.
        assert trace.landmarks(share) == pytest.approx(rank, rel=0.06)


def test_trace_errors_that_tell_nothing():
    trace = TraceErrors()
    for rank, error in ((50, 1.0), (100, 0.0), (200, math.inf)):
        trace.add(rank, error)
    assert trace.landmarks(0.5) is None
    trace.add(300, 2.0)  # they rise
    assert trace.landmarks(0.5) is None
    trace = TraceErrors()
    trace.add(50, 4.0)
    trace.add(100, 1.0)
    assert 100 < trace.landmarks(0.25) < 200  # the power law is 200


@pytest.mark.parametrize("power", [1.0, TRACE_POWER, 2.0])
@pytest.mark.parametrize("scatter", [0.0, 0.3])
def test_sampled_errors_are_fitted_along_the_trace(power, scatter):
    rng, ranks, off, powers = np.random.default_rng(0), [100, 190, 360, 400, 450], [], []
    for _ in range(300):
        errors = SampledErrors()
        assert not errors.has_begun
        for rank in ranks:
            trace = 1e5 * math.exp(-rank / 150)
            exact = 2e-4 * trace**power
            fitted = errors.add(rank, exact * math.exp(scatter * rng.normal()), trace)
        assert errors.has_begun
        off.append(math.log(fitted / exact))
        powers.append(errors.power)
    assert abs(np.mean(off)) < 0.15
    assert np.std(off) <= 0.8 * scatter + 1e-9
    # Drawn towards the usual power by a quarter of the way.
    assert np.mean(powers) == pytest.approx(power + (TRACE_POWER - power) / 4, abs=0.05)


def test_a_single_sampled_error_is_itself():
    forecast = Forecast("sampled", 4000)
    forecast.add(100, 5.0)  # without a trace
    assert forecast._looks == [(100, 5.0)]
    assert SampledErrors().add(100, 5.0, 30.0) == pytest.approx(5.0)


def test_a_sampled_error_is_forecast_by_the_trace():
    """One look is enough if the trace is known at fewer landmarks."""
    trace = lambda rank: 1e5 * (rank / 50) ** -1.5  # noqa: E731
    forecast = Forecast("sampled", 4000)
    for rank in (25, 50):
        forecast.add_trace(rank, trace(rank))
    forecast.add(100, 10.0, trace(100))
    expected = 100 * (10.0 / sure()) ** (1 / (1.5 * TRACE_POWER))
    assert forecast.landmarks_needed == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("true", [0.01, 0.05, 0.3])
def test_measurements_of_a_common_share_are_averaged(true):
    rng = np.random.default_rng(1)
    averages = []
    for _ in range(400):
        share = CommonShare()
        for rank in (100, 200, 300, 400):
            average = share.add(rank, true + 0.12 * rng.normal())
        averages.append(average)
    # A large one is drawn towards the usual share, by the variance of the average over that.
    assert np.mean(averages) == pytest.approx(true, abs=0.03 if true < 0.1 else 0.08)
    assert np.std(averages) < 0.06


def test_a_common_share_is_the_mean_of_its_posterior():
    """Of an exponential prior and normal measurements, by quadrature."""
    grid = np.linspace(0, 3, 200_001)
    for shares in ([-0.4], [0.0], [0.1, 0.02], [0.5, 0.3, 0.4], [-0.3, 0.2]):
        share = CommonShare()
        for value in shares:
            mean = share.add(100, value)
        squares = sum((grid - value) ** 2 for value in shares)
        weight = np.exp(-squares / (2 * 0.12**2) - grid / 0.05)
        assert mean == pytest.approx(float((grid * weight).sum() / weight.sum()), rel=1e-3)
    share = CommonShare()
    assert 0.0 < share.add(100, -20.0) < 0.01
    assert share.add(100, 80.0) == 1.0
    assert share.add(3000, 0.5) == CommonShare().add(3000, 0.5)  # the others are far below
