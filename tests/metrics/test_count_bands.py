"""Bands of counts: exact by enumeration, and by simulation; ranks and PIT values that use them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.metrics.count_bands import CountBands, even_bands


def all_counts(n, cells):
    """Return all ways to put n values into cells."""
    return np.array([c for c in itertools.product(range(n + 1), repeat=cells) if sum(c) == n])


@pytest.mark.parametrize("cumulative", [False, True])
@pytest.mark.parametrize(("n", "mass"), [(6, (0.2, 0.5, 0.3)), (5, (0.25,) * 4), (4, (0.9, 0.1))])
def test_coverage_and_p_values_by_enumeration(n, mass, cumulative):
    bands = CountBands(np.array(mass), n, cumulative)
    counts = all_counts(n, len(mass))
    probability = stats.multinomial(n, mass).pmf(counts)
    heights = counts.cumsum(axis=1)[:, :-1] if cumulative else counts
    for level in (0.5, 0.9, 0.95):
        low, high = bands.band(level)
        inside = ((low <= heights) & (heights <= high)).all(axis=1)
        assert bands.coverage(low, high) == pytest.approx(probability[inside].sum(), abs=1e-12)
        assert bands.coverage(low, high) >= level
        # The p-value is below 1 - level exactly for counts outside the band, or near its edge.
        p = np.array([bands.p_value(one) for one in heights])
        assert (p[~inside] <= 1 - level + 1e-9).all()
    marginal = stats.binom(n, bands.expected)
    tail = np.minimum(1, 2 * np.minimum(marginal.cdf(heights), marginal.sf(heights - 1))).min(
        axis=1
    )
    for one, least in zip(heights, tail, strict=True):
        expected = probability[tail <= least * (1 + 1e-12)].sum()
        assert bands.p_value(one) == pytest.approx(min(expected, 1.0), abs=1e-9)


@pytest.mark.parametrize(
    ("cells", "n", "cumulative"), [(20, 1000, False), (100, 1000, True), (100, 50, True)]
)
def test_bands_hold_simulated_counts(rng, cells, n, cumulative):
    bands = even_bands(cells, n, cumulative=cumulative)
    low, high = bands.band(0.9)
    counts = rng.multinomial(n, bands.mass, size=20_000)
    counts = counts.cumsum(axis=1)[:, :-1] if cumulative else counts
    inside = ((low <= counts) & (counts <= high)).all(axis=1).mean()
    expected = bands.coverage(low, high)
    assert 0.9 <= expected < 0.93
    assert abs(inside - expected) < 4 * math.sqrt(0.09 / 20_000)
    # Point by point, the band is wider than the central 90 %.
    assert (low <= stats.binom(n, bands.expected).ppf(0.05)).all()


@pytest.mark.slow
def test_long_convolutions_agree_with_short_ones(monkeypatch):
    from fastmcmd.metrics import count_bands

    bands = even_bands(50, 5000, cumulative=True)
    low, high = bands.band(0.95)
    expected = bands.coverage(low, high)
    monkeypatch.setattr(count_bands, "_DIRECT", 0)
    assert bands.coverage(low, high) == pytest.approx(expected, abs=1e-10)
    large = even_bands(100, 10**6, cumulative=True)
    assert large.coverage(*large.band(0.95)) == pytest.approx(0.95, abs=1e-4)


def test_rank_histogram_against_counting(rng):
    y, draws = rng.normal(size=200), rng.normal(size=(200, 7))
    histogram = fm.metrics.rank_histogram(y, draws)
    ranks = (draws < y[:, None]).sum(axis=1)
    np.testing.assert_array_equal(histogram.count, np.bincount(ranks, minlength=8))
    np.testing.assert_array_equal(histogram.edges, np.arange(9))
    np.testing.assert_allclose(histogram.heights, histogram.count / 25)
    low, high = even_bands(8, 200).band(0.95)
    np.testing.assert_array_equal((histogram.low, histogram.high), (low, high))
    assert histogram.to_dict()["last rank"] == list(range(8))
    assert f"p = {histogram.p_value:.3g}" in repr(histogram)
    assert histogram.table().count("\n") == 9


def test_bins_of_ranks(rng):
    y = rng.normal(size=50)
    for members, expected in ((19, 20), (99, 20), (51, 13), (100, 20), (4, 5)):
        histogram = fm.metrics.rank_histogram(y, rng.normal(size=(50, members)))
        assert len(histogram.count) == expected, members
        assert histogram.edges[-1] == members + 1
        assert histogram.expected.sum() == pytest.approx(50)
    with pytest.raises(ValueError, match=r"bins is 6; an integer in \[1, 5\]"):
        fm.metrics.rank_histogram(y, rng.normal(size=(50, 4)), 6)
    with pytest.raises(TypeError, match=r"prediction is .*draws"):
        fm.metrics.rank_histogram(y, fm.Gaussian(y, 1.0))
    with pytest.raises(ValueError, match="level is 95"):
        fm.metrics.rank_histogram(y, rng.normal(size=(50, 4)), level=95)


def test_tied_ranks_are_uniform(rng):
    """Counts with many ties: the p-value is that of a right model only in random order."""
    p = [
        fm.metrics.rank_histogram(
            rng.poisson(1.0, 200), rng.poisson(1.0, (200, 9)).astype(float), random_state=seed
        ).p_value
        for seed in range(200)
    ]
    assert np.mean(np.array(p) <= 0.1) < 0.1 + 3 * math.sqrt(0.09 / 200)


def test_pit_ecdf_against_sorting(rng):
    y = rng.normal(size=300)
    curve = fm.metrics.pit_ecdf(y, (np.zeros(300), 1.5), 20)
    pit = stats.norm.cdf(y / 1.5)
    np.testing.assert_allclose(curve.expected, np.arange(1, 20) / 20)
    np.testing.assert_allclose(curve.observed, [(pit <= one).mean() for one in curve.expected])
    assert ((curve.observed < curve.low) | (curve.observed > curve.high)).any() == (
        curve.p_value <= 0.05
    )
    assert set(curve.to_dict()) == {"expected", "observed", "low", "high"}
    y[:3] = np.nan
    assert fm.metrics.pit_ecdf(y, (np.zeros(300), 1.0), nan_policy="omit").n == 297


@pytest.mark.slow
def test_p_values_of_a_right_model_are_uniform_at_most(rng):
    p = [fm.metrics.pit_ecdf(rng.normal(size=100), (np.zeros(100), 1.0), 30).p_value
         for _ in range(300)]  # fmt: skip
    for level in (0.05, 0.2, 0.5):
        assert abs(np.mean(np.array(p) <= level) - level) < 3.5 * math.sqrt(level / 300)


def test_band_of_a_pit_histogram(rng):
    y = rng.normal(size=400)
    histogram = fm.metrics.pit_histogram(y, (np.zeros(400), 1.0))
    low, high = even_bands(10, 400).band(0.9)
    np.testing.assert_allclose(histogram.band(0.9), np.array([low, high]) / 40)
    weighted = fm.metrics.pit_histogram(
        y, (np.zeros(400), 1.0), sample_weight=rng.uniform(size=400)
    )
    assert weighted.band() is None
