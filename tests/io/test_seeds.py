"""One seed gives each purpose its own stream, and none the user's own numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd._base.seeds import Purpose, generator, seed_sequence

ROOT = Path(__file__).parents[2]


def test_streams_differ_from_each_other_and_from_the_users():
    for seed in (0, 7, 2**64):
        root = np.random.SeedSequence(seed)
        user_streams = [np.random.default_rng(one) for one in (seed, root, *root.spawn(3))]
        streams = [generator(seed, one) for one in Purpose]
        first = [one.random() for one in user_streams[::2] + streams]
        assert len(set(first)) == len(first)
        again = [generator(root, one).random() for one in Purpose]
        assert again == first[-len(Purpose) :]  # a seed sequence is accepted, and stays unchanged
    assert generator(None, Purpose.PIT).random() != generator(None, Purpose.PIT).random()


def test_generators_are_used_themselves():
    rng = np.random.default_rng(1)
    assert generator(rng, Purpose.PIT) is rng
    before = rng.bit_generator.state
    seed_sequence(rng)
    assert rng.bit_generator.state != before
    legacy = np.random.RandomState(3)
    assert generator(legacy, Purpose.PIT).random() == np.random.RandomState(3).random_sample()


@pytest.mark.parametrize(
    ("seed", "error"),
    [(-1, ValueError), ([1, -2], ValueError), ([], ValueError), (True, TypeError), ("0", TypeError),
     (0.5, TypeError), ({}, TypeError)],
)  # fmt: skip
def test_bad_seeds(seed, error):
    with pytest.raises(error, match=re.escape(f"random_state is {seed!r}; None, an integer")):
        generator(seed, Purpose.PIT)
    with pytest.raises(error, match="random_state is"):
        fm.evaluate([0.0, 1.0], ([0.0, 1.0], 1.0), random_state=seed)


def test_a_right_count_model_of_ones_own_seed_is_calibrated():
    """Outcomes from the uniform numbers of seed 0, tested with the defaults, gave p = 0.046."""
    mean = np.full(5_000, 3.0)
    y = stats.poisson.ppf(np.random.default_rng(0).uniform(size=5_000), mean)
    p_values = []
    for seed in range(1, 9):
        draws = stats.poisson.ppf(np.random.default_rng(seed).uniform(size=5_000), mean)
        p_values.append(fm.regression_ece(draws, fm.Poisson(mean)))
    assert fm.regression_ece(y, fm.Poisson(mean)) < 1.5 * max(p_values)
    assert fm.evaluate(y, fm.Poisson(mean))["regression_ece"] < 1.5 * max(p_values)


def test_draws_do_not_repeat_the_users_numbers():
    rng = np.random.default_rng(0)
    y = rng.normal(size=500)
    draws = fm.Gaussian(np.zeros(500), 1.0).sample(1, random_state=0)[:, 0]
    assert abs(np.corrcoef(y, draws)[0, 1]) < 0.2
    again = fm.Gaussian(np.zeros(500), 1.0).sample(1, random_state=0)[:, 0]
    np.testing.assert_array_equal(draws, again)


def test_values_of_what_cce_is():
    """The page states what its example prints; the perfect model's CCE was 0.399, y against itself."""
    page = (ROOT / "docs" / "what_cce_is.md").read_text()
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    stated = re.findall(r"print\(.*\)  # (0\.\d+)", block)
    assert len(stated) == 3
    values: list[float] = []
    exec(compile(block, "what_cce_is.md", "exec"), {"print": values.append})
    np.testing.assert_allclose(values, [float(one) for one in stated], atol=6e-4)
    assert values[2] < 0.05


def test_streams_of_batches():
    """Batches draw different numbers, and in order give the value of the function."""
    y = np.random.default_rng(4).normal(size=(40, 2))
    prediction = fm.Gaussian(np.zeros((40, 2)), 1.0)
    accumulator = fm.streaming.VariogramScore(draws=3, random_state=2)
    for rows in (np.arange(20), np.arange(20, 40)):
        accumulator.update(y[rows], prediction.take(rows))
    expected = fm.metrics.mean_variogram_score(y, prediction, draws=3, random_state=2)
    assert accumulator.compute() == pytest.approx(expected, rel=1e-12)


def test_no_other_place_makes_generators_from_a_users_seed():
    for path in (ROOT / "fastmcmd").rglob("*.py"):
        if path.name != "seeds.py":
            assert "default_rng(random_state)" not in path.read_text(), path
