"""Calibration in the worst of random groups agrees with Uncertainty Toolbox."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import metrics
from fastmcmd.metrics import adversarial_group_calibration as worst_group

NORMS = {"mean_absolute": "mean_abs", "rms": "root_mean_sq"}


def _gaussian(rng, n):
    mean, std = rng.normal(size=n), rng.uniform(0.5, 2, n)
    return mean + 0.2 + 1.2 * std * rng.normal(size=n), mean, std


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("replace", [False, True])
def test_same_groups_give_the_numbers_of_uncertainty_toolbox(rng, monkeypatch, norm, replace):
    toolbox = pytest.importorskip("uncertainty_toolbox")
    y, mean, std = _gaussian(rng, 83)
    group_sizes = []

    def choice(n, size, replace):
        group_sizes.append(rng.choice(n, size, replace=replace))
        return group_sizes[-1]

    monkeypatch.setattr(np.random, "choice", choice)
    theirs = toolbox.metrics_calibration.adversarial_group_calibration(
        mean, std, y, NORMS[norm], draw_with_replacement=replace, num_trials=4, num_group_draws=3
    )
    groups = [np.array(group_sizes[12 * i : 12 * i + 12]).reshape(4, 3, -1) for i in range(10)]
    ours = worst_group(y, (mean, std), norm=norm, groups=groups)
    np.testing.assert_allclose(ours.mean, theirs.score_mean, atol=1e-12)
    np.testing.assert_allclose(ours.std, theirs.score_stderr, atol=1e-12)
    np.testing.assert_allclose(ours.stderr, theirs.score_stderr / 2, atol=1e-12)
    random = worst_group(y, (mean, std), norm=norm, trials=4, draws=3, replace=replace)
    np.testing.assert_array_equal(random.fractions, theirs.group_size)
    np.testing.assert_array_equal(random.sizes, ours.sizes)


@pytest.mark.slow
@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_random_groups_have_the_same_distribution(rng, replace, by_rows):
    """Means over many trials agree with groups drawn by NumPy, at every size, within four errors.

    Weights of 1 draw row by row, none draw the counts of a group.
    """
    y, mean, std = _gaussian(rng, 60)
    fractions = np.array([0.1, 0.4, 0.7])
    ours = worst_group(
        y,
        (mean, std),
        fractions=fractions,
        trials=400,
        draws=3,
        replace=replace,
        random_state=3,
        sample_weight=np.ones(60) if by_rows else None,
    )
    groups = [
        np.array([rng.choice(60, size, replace=replace) for _ in range(1200)]).reshape(400, 3, size)
        for size in ours.sizes
    ]
    theirs = worst_group(y, (mean, std), groups=groups)
    error = np.hypot(ours.stderr, theirs.stderr)
    assert (np.abs(ours.mean - theirs.mean) < 4 * error).all()
    np.testing.assert_allclose(ours.std, theirs.std, rtol=0.25)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["quantile", "interval"])
def test_all_rows_are_one_group(rng, weighted, kind):
    y, mean, std = _gaussian(rng, 200)
    weights = rng.uniform(0, 1, 200) if weighted else None
    options = {"kind": kind, "sample_weight": weights}
    ours = worst_group(y, (mean, std), norm="rms", fractions=[1.0], **options)
    expected = metrics.rms_calibration_error(y, (mean, std), **options)
    np.testing.assert_allclose(ours.worst, expected, atol=1e-12)
    np.testing.assert_allclose(ours.std, 0, atol=1e-12)


def test_groups_of_rows_with_weights(rng):
    y, mean, std = _gaussian(rng, 40)
    weights = rng.uniform(0.1, 1, 40)
    rows = rng.integers(0, 40, (2, 3, 11))
    ours = worst_group(y, (mean, std), groups=[rows], sample_weight=weights)
    expected = [
        max(
            metrics.mean_absolute_calibration_error(
                y[g], (mean[g], std[g]), sample_weight=weights[g]
            )
            for g in trial
        )
        for trial in rows
    ]
    np.testing.assert_allclose(ours.worst[0], expected, atol=1e-12)


def test_results_depend_on_the_seed_only(rng):
    y, mean, std = _gaussian(rng, 300)
    before = fm.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            fm.set_num_threads(threads)
            results.append(worst_group(y, (mean, std), random_state=5).worst)
    finally:
        fm.set_num_threads(before)
    np.testing.assert_array_equal(*results)
    assert (results[0] != worst_group(y, (mean, std), random_state=6).worst).any()


def test_finds_a_group_that_an_average_hides(rng):
    """If half of the rows are too wide and half too narrow, small groups show it."""
    std = np.where(np.arange(4000) < 2000, 0.4, 2.5)
    y = rng.normal(size=4000)
    hidden = worst_group(y, (np.zeros(4000), std), fractions=[0.01, 1.0])
    right = worst_group(y, (np.zeros(4000), np.ones(4000)), fractions=[0.01, 1.0])
    assert hidden.mean[0] > right.mean[0] + 0.02
    assert "worst error" in hidden.table()
    assert "mean absolute" in repr(hidden)


def test_counts_and_a_single_trial(rng):
    mean = rng.uniform(0.3, 4, 2000)
    result = worst_group(rng.poisson(mean), fm.Poisson(mean), trials=1, fractions=[0.5, 1])
    assert result.mean[1] < 0.03
    assert np.isnan(result.std).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "max"}, "norm is 'max'"),
        ({"kind": "both"}, "kind is 'both'"),
        ({"fractions": [1.5]}, "fractions is"),
        ({"trials": 0}, "trials is 0"),
        ({"draws": -1}, "draws is -1"),
        ({"groups": [np.zeros((2, 2))]}, "groups has an array of shape"),
        ({"groups": [np.full((1, 1, 1), 9)]}, "rows of y from 0 to 4 are needed"),
        ({"groups": []}, "groups must hold arrays"),
        ({"nan_policy": "propagate"}, "nan_policy is 'propagate'"),
        ({"sample_weight": [1, 0, 0, 0, 0]}, "sample_weight are all zero in a group"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        worst_group(np.arange(5.0), (np.arange(5.0), 1.0), **options)


def test_rows_with_nan_are_left_out(rng):
    y, mean, std = _gaussian(rng, 50)
    y[3] = np.nan
    result = worst_group(y, (mean, std), fractions=[1.0], nan_policy="omit")
    assert result.sizes.tolist() == [49]
    assert result.mean[0] == pytest.approx(
        metrics.mean_absolute_calibration_error(y, (mean, std), nan_policy="omit")
    )
