"""Exact tests of dependent rows, and of many tests: signs of clusters, stages that end early."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from builders import noisy_sine

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.inference.congruence_test import _in_stages
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.outcome_features import BlockOutcomes, landmark_features
from fastmcmd.inference.smoother import Smoother
from fastmcmd.inference.statistics import ClusterSigns, project

sys.path.insert(0, str(Path(__file__).parents[1] / "simulations"))

import clusters as simulation


def dependent(rng, clusters=40, rows=10):
    """Rows of a cluster share most of their noise, and each row's prediction is right."""
    groups = np.repeat(np.arange(clusters), rows)
    x = rng.uniform(-2, 2, clusters)[groups]
    noise = 0.9 * rng.standard_normal(clusters)[groups] + np.sqrt(0.19) * rng.standard_normal(
        len(groups)
    )
    return x, np.sin(x) + 0.3 * noise, fm.Gaussian(np.sin(x), 0.3), groups


def test_signed_residuals_by_their_definition(rng):
    n, count, lam = 30, 19, 0.02
    x, y = rng.standard_normal((n, 1)), rng.standard_normal((n, 1))
    outcomes = exchangeable_outcomes(y, fm.Gaussian(np.zeros(n), 1.0), count, 0)
    kinds = [landmark_features(fm.RBF(0.5), outcomes.block(0), rng, "y")]
    basis = Smoother.of(fm.RBF(0.5), x, n).basis(x)
    signs = ClusterSigns.random(np.arange(n) // 3, count + 1, rng)
    energy = basis.energy(lam)
    projection = project(outcomes, kinds, basis, x, energy, Progress(False, 0.0), signs=signs)
    features = kinds[0].transform(BlockOutcomes(outcomes.block(0))).astype(float)
    e = features - features.mean(axis=1, keepdims=True)
    root = np.sqrt((count + 1) / count)
    g = basis.coordinates(x)
    ranks = scipy.stats.rankdata(np.square(e).sum(axis=2), axis=1)[:, 0]  # from 1 to B + 1
    above = (ranks - 1 - count / 2) / count
    for b in range(count + 1):
        w = signs.signs[np.arange(n) // 3, b]
        np.testing.assert_allclose(
            projection.outcomes[0][:, b], g.T @ (w[:, None] * e[:, 0]) * root, atol=1e-5
        )
        assert projection.dispersion[0, b] == pytest.approx((w * above).mean(), abs=1e-6)
    assert (signs.signs[:, 0] == 1).all()
    assert set(np.unique(signs.signs)) == {-1, 1}


def test_dependent_rows_need_their_clusters():
    exact, clustered = [], []
    for run in range(12):
        x, y, prediction, groups = dependent(np.random.default_rng(run), 20)
        options = {"simulations": 39, "random_state": run}
        exact.append(fm.congruence_test(x, y, prediction, **options).p_value <= 0.05)
        clustered.append(
            fm.congruence_test(x, y, prediction, groups=groups, **options).p_value <= 0.05
        )
    assert sum(exact) >= 6
    assert sum(clustered) <= 4


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 1.5, 60)])
def test_ranks_of_equal_outcomes_are_in_the_middle(rng, weights):
    """Counts tie with simulated ones; an outcome that all data sets share has no dispersion."""
    n, count = 60, 39
    y = rng.poisson(1.5, n).astype(float)[:, None]
    rates = np.where(np.arange(n) < 3, 1e-12, 1.5)
    y[:3] = 0
    outcomes = exchangeable_outcomes(y, fm.Poisson(rates), count, 0)
    kinds = [landmark_features(fm.RBF(0.5), outcomes.block(0), rng, "y")]
    x = rng.standard_normal((n, 1))
    basis = Smoother.of(fm.RBF(0.5), x, n).basis(x)
    signs = ClusterSigns.random(np.arange(n), count + 1, rng)
    projection = project(
        outcomes, kinds, basis, x, basis.energy(0.01), Progress(False, 0.0), signs=signs,
        weights=weights,
    )  # fmt: skip
    values = outcomes.block(0)[:, :, 0]
    kernel = np.stack([fm.RBF(0.5)(row) for row in values])  # with equal rows for equal outcomes
    distance = 1 - 2 * kernel.mean(axis=2) + kernel.mean(axis=(1, 2))[:, None]
    ranks = scipy.stats.rankdata(distance.round(6), axis=1)[:, 0]
    above = (ranks - 1 - count / 2) / count * (1 if weights is None else weights)
    assert not above[:3].any()
    expected = (signs.signs * above[:, None]).mean(axis=0)
    np.testing.assert_allclose(projection.dispersion[0], expected, atol=1e-6)


@pytest.mark.slow
def test_dispersion_of_few_clusters_does_not_reject_too_often():
    """Squared residuals are skewed: without ranks, 9 of these 60 p-values were at most .05."""
    rejections = 0
    for run in range(60):
        rng = np.random.default_rng([0, run])
        groups = np.repeat(np.arange(10), 4)
        x, y, prediction = simulation.problem("skewed, x by cluster", groups, 0.8, rng)
        test = fm.congruence_test(
            x, y, prediction, y_kernel=fm.RBF(0.5), lam=0.1, simulations=39, groups=groups,
            random_state=run,
        )  # fmt: skip
        rejections += any(
            one.p_value <= 0.05 for one in test.evidence if one.statistic == "dispersion"
        )
    assert rejections <= 6


def test_rows_without_weight_are_no_clusters(rng):
    x, y, prediction, groups = dependent(rng)
    test = fm.congruence_test(x, y, prediction, groups=groups, weights=(groups < 15) * 1.0)
    assert test.clusters == 15
    with pytest.raises(ValueError, match="8 different labels in rows of positive weight"):
        fm.congruence_test(x, y, prediction, groups=groups, weights=(groups < 8) * 1.0)


@pytest.mark.parametrize("statistic", ["mean", "max"])
def test_points_have_values_of_six_sizes(rng, statistic):
    """The CCE at points does not depend on them, and few clusters do not reach a small p-value."""
    x, y, prediction, groups = dependent(rng, 12)
    at = np.linspace(-2, 2, 5)
    options = {"at": at, "statistic": statistic, "simulations": 99}
    test = fm.congruence_test(x, y, prediction, groups=groups, **options)
    plain = fm.congruence_test(x, y, prediction, **options)
    np.testing.assert_allclose(test.rows.values, plain.rows.values, rtol=1e-4)
    values = ClusterSigns.six_point(groups, 20_000, rng).signs.astype(float)
    assert (values[:, 0] == 1).all()
    sizes, counts = np.unique(np.round(values[:, 1:] ** 2, 6), return_counts=True)
    np.testing.assert_array_equal(sizes, [0.5, 1, 1.5])
    np.testing.assert_allclose(counts / counts.sum(), 1 / 3, atol=0.01)
    assert abs(values[:, 1:].mean()) < 0.01


def test_clusters_see_a_wrong_model_and_say_that_they_are_approximate(rng):
    x, y, prediction, groups = dependent(rng)
    labels = np.array([f"patient {one}" for one in groups], dtype=object)
    test = fm.congruence_test(x, y + 0.5, prediction, groups=labels, random_state=0, at=[0.0])
    assert test.p_value <= 0.01
    assert test.clusters == 40
    assert not test.exact
    assert "approximate" in test.sentence
    assert "40 clusters" in repr(test)
    assert test.rows is not None
    assert "most extreme outcome" not in test.table()
    wide = fm.congruence_test(x, y, fm.Gaussian(np.sin(x), 1.0), groups=groups, random_state=0)
    assert wide.dispersion == "too wide"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(400) % 5, "groups has 5 different labels; at least 10"),
        (np.arange(7), "groups"),
        (np.zeros((400, 2)), "groups has shape"),
        (
            np.where(np.arange(400) == 3, np.nan, np.arange(400) // 4),
            "groups has no label in row 3",
        ),
        (["a", None] * 200, "groups has no label in row 1"),
        (np.array([*range(399), np.nan], dtype=object), "groups has no label in row 399"),
    ],
)
def test_bad_groups(rng, groups, message):
    x, y, prediction, _ = dependent(rng)
    with pytest.raises(ValueError, match=message):
        fm.congruence_test(x, y, prediction, groups=groups)


def test_delta_whose_square_leaves_float64(rng):
    x, y, prediction, _ = dependent(rng)
    options = {"null": "relevant", "simulations": 19}
    assert fm.congruence_test(x, y, prediction, delta=1e300, **options).p_value == 1.0


def test_stages_end_where_the_first_is_clear(rng):
    x = rng.uniform(-2, 2, 200)
    y = noisy_sine(rng, x)
    right = fm.congruence_test(x, y, (np.sin(x), 0.3), simulations=499, alpha=0.05, random_state=0)
    assert right.p_value > 0.15
    assert right.simulations == 79
    wrong = fm.congruence_test(x, y, (np.sin(x), 0.6), simulations=499, alpha=0.05, random_state=0)
    assert wrong.p_value == 1 / 500
    for alpha in (0.05, 5e-324):
        few = fm.congruence_test(
            x, y, (np.sin(x), 0.3), simulations=99, alpha=alpha, random_state=0
        )
        assert few.simulations == 99


def test_p_values_of_stages_are_valid(rng):
    """P(p <= t) <= t for all t, with stages as far apart as those of independent simulations."""
    base = fm.congruence_test(np.zeros(5), np.zeros(5), (np.zeros(5), 1.0), simulations=19)

    def staged():
        level = rng.uniform()  # what infinitely many simulations would give

        def run(simulations):
            more = rng.binomial(simulations, level)
            return fm.CongruenceTest(
                **{
                    **vars(base),
                    "p_value": (1 + more) / (simulations + 1),
                    "simulations": simulations,
                }
            )

        return _in_stages(run, 999, 0.05).p_value

    p = np.array([staged() for _ in range(4000)])
    for t in (0.01, 0.05, 0.1, 0.15, 0.2, 0.5):
        assert (p <= t).mean() <= t + 4 * np.sqrt(t / len(p))


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1, "no"])
def test_bad_alpha(rng, alpha):
    x, y, prediction, _ = dependent(rng)
    with pytest.raises((ValueError, TypeError), match="alpha"):
        fm.congruence_test(x, y, prediction, alpha=alpha)
