"""The needs of a group of rows: claims about most rows agree with moments that a reader can check."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.evaluation.needs import Need, Needs

N = 400


def diagnosed(shift, factor=1.0, reach=0.1, scale="units of y"):
    """Return a diagnosis at N rows with these corrections and bands of this half width."""
    x = np.linspace(-1, 1, 60)
    blank = fm.diagnose(x, x, fm.Gaussian(x + 0.01 * np.sin(9 * x), 0.1))
    shift, factor = np.broadcast_to(shift, N), np.broadcast_to(factor, N)
    ends = reach * np.array([-1.0, 1.0])
    return dataclasses.replace(
        blank, shift=shift, factor=factor, shift_band=shift[:, None] + ends,
        factor_band=factor[:, None] * np.exp(ends), supported=np.ones(N, dtype=bool), scale=scale,
    )  # fmt: skip


@pytest.fixture
def noise():
    """Standard normal outcomes with exactly the moments 0 and 1."""
    z = np.random.default_rng(0).normal(size=N)
    return (z - z.mean()) / z.std()


def test_a_claim_needs_most_rows_on_one_side(noise):
    """The need of a third of the rows was claimed for all of them; so was one of mixed signs."""
    third = np.where(np.arange(N) % 3 == 0, 0.5, 0.01)
    assert Needs(diagnosed(third), noise + third, fm.Gaussian(np.zeros(N), 1.0)).of().empty
    signs = np.where(np.arange(N) % 2 == 0, 0.5, -0.5)
    both = Needs(diagnosed(signs), noise + signs, fm.Gaussian(np.zeros(N), 1.0))
    assert not np.isfinite([both.of().shift, both.of().factor]).any()
    first = both.of(signs > 0)
    assert first.shift == pytest.approx((noise + signs)[signs > 0].mean())


def test_shifts_of_both_signs_are_named(noise):
    """A model without the structure of the means was said to have the wrong shape."""
    signs = np.where(np.arange(N) % 4 == 0, 2.0, -2.0)
    y = signs + 0.2 * noise
    need = Needs(diagnosed(signs, 0.2, 0.1), y, fm.Gaussian(np.zeros(N), 1.0)).of()
    assert (need.too_low, need.too_high, need.shape) == (0.25, 0.75, False)
    words = need.in_words(False)
    assert words.startswith(
        "it predicts too low at 25% of inputs and too high at 75%, and its spread"
    )
    assert need.in_words(True).startswith("its means are too low at 25% of inputs")
    few = np.where(np.arange(N) % 20 == 0, 2.0, -2.0)
    rare = Needs(diagnosed(few), few + noise, fm.Gaussian(np.zeros(N), 1.0)).of()
    assert not rare.varies
    assert rare.shift < -1


def test_numbers_are_moments_that_a_reader_can_check(noise):
    need = Needs(diagnosed(0.7, 1.6), 0.5 + 2 * noise, fm.Gaussian(np.zeros(N), 1.0)).of()
    assert need.shift == pytest.approx(0.5)
    assert need.factor == pytest.approx(2.0)
    assert need.in_words(False) == "it predicts 0.5 too low and its spread is 2 times too narrow"


def test_a_contradiction_is_a_matter_of_shape(noise):
    need = Needs(diagnosed(-0.5, 0.7), noise, fm.Gaussian(np.zeros(N), 1.0)).of()
    assert need.shape
    assert not np.isfinite([need.shift, need.factor]).any()
    assert need.in_words(False) == "its distributions have the wrong shape"


def test_outliers_leave_the_diagnosis(noise):
    y = noise + 0.5
    y[7] = 1e9
    need = Needs(diagnosed(0.45, 1.3), y, fm.Gaussian(np.zeros(N), 1.0)).of()
    assert (need.shift, need.shape) == (0.45, False)
    assert need.factor == pytest.approx(1.3)


def test_nothing_is_claimed_where_outliers_contradict_the_diagnosis():
    """Most errors are small, and eight outliers make the standard deviation too large."""
    y = np.where(np.arange(N) < 8, 50.0, 0.3) * np.where(np.arange(N) % 2, 1.0, -1.0)
    need = Needs(diagnosed(0.0, 0.3), y, fm.Gaussian(np.zeros(N), 1.0)).of()
    assert y.std() > 3
    assert not np.isfinite(need.factor)
    assert not need.shape


def test_outliers_may_contradict_the_dispersion_of_most_outcomes(noise):
    needs = Needs(diagnosed(0.0), 0.5 * noise, fm.Gaussian(np.zeros(N), 1.0))
    assert needs.agrees("too wide")
    assert not needs.agrees("too narrow")
    y = 0.5 * noise
    y[:4] = 30.0
    assert not Needs(diagnosed(0.0), y, fm.Gaussian(np.zeros(N), 1.0)).agrees("too wide")


def test_counts_are_compared_by_the_ratio_of_means():
    y = np.random.default_rng(1).poisson(6.0, N).astype(float)
    need = Needs(diagnosed(0.5, scale="log mean"), y, fm.Poisson(np.full(N, 3.0))).of()
    assert need.shift == pytest.approx(np.log(y.mean() / 3.0))
    assert not np.isfinite(need.factor)
    assert need.in_words(True) == f"its means are {y.mean() / 3:.2g} times too low"
    assert Need().in_words(True) == ""
