"""Tabulated features of outcomes agree with the features; without an accurate table there is none."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.outcome_features import BlockOutcomes, landmark_features


def features_of(kernel, draws, rng):
    return landmark_features(kernel, draws.reshape(-1, 1, 1), rng, "y")


@pytest.mark.parametrize(
    "kernel", [fm.RBF(0.5), 0.5 * fm.RBF(0.5) + 0.5 * fm.RBF(50.0), fm.Matern(2.5, 1.0)]
)
def test_tables_give_what_the_kernel_gives(rng, kernel):
    features = features_of(kernel, 3 + rng.standard_normal(2_000), rng)
    values = np.concatenate([3 + 2 * rng.standard_normal(500), [-1e3, 1e9, -1e100]])
    expected = features.features.transform(values[:, None])
    assert features.table is not None
    assert features.table.holds(values).sum() > 400
    assert np.abs(features.of_values(values[:, None]) - expected).max() < 3e-6
    raw = values[:500].reshape(50, 10, 1)
    np.testing.assert_array_equal(
        features.transform(BlockOutcomes(raw)).reshape(500, -1),
        features.of_values(values[:500, None]),
    )


@pytest.mark.parametrize("kernel", [fm.Delta(), fm.Laplacian(1.0), fm.RBF(1e8)])
def test_rough_kernels_have_no_table(rng, kernel):
    draws = rng.integers(0, 9, 500).astype(float)
    features = features_of(kernel, draws, rng)
    assert features.table is None
    expected = features.features.transform(draws[:, None])
    np.testing.assert_array_equal(features.of_values(draws[:, None]), expected.astype(np.float32))


def test_a_smooth_kernel_has_a_table(rng):
    assert features_of(fm.RBF(0.5), rng.standard_normal(500), rng).table is not None
    assert features_of(fm.RBF(0.5), np.full(500, 2.0), rng).table is None
    heavy = features_of(fm.RBF(0.5), rng.standard_cauchy(5_000), rng)
    assert heavy.table is None


@pytest.mark.parametrize("kernel", [fm.Delta(), fm.RBF(1.0)])
def test_mean_features_of_classes_are_exact(rng, kernel):
    """The product of two rows' mean features is the sum over pairs of classes, by the kernel itself."""
    probs = rng.dirichlet(np.ones(4), 30)
    y = rng.integers(0, 4, (30, 1)).astype(float)
    outcomes = exchangeable_outcomes(y, fm.Categorical(probs), 19, 0)
    features = landmark_features(kernel, np.arange(4.0).reshape(-1, 1, 1), rng, "y")
    reference = outcomes.reference(0, outcomes.block(0)).take(slice(5, 25))
    means = features.means(reference)
    values = np.arange(4.0)[:, None]
    expected = probs[5:25] @ kernel(values, values) @ probs[5:25].T
    np.testing.assert_allclose(means @ means.T, expected, atol=1e-5)
