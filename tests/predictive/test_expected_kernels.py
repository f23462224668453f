"""Expectations of kernels with kinks under densities with poles agree with integrals by parts."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

import fastmcmd as fm

sys.path.insert(0, str(Path(__file__).parents[1] / "adversary"))

import expectations
from laws import LAWS


def _by_levels(frozen, kernel, z):
    """Return E k by SciPy's adaptive quadrature over levels, split at the kink of k."""
    jump_level = float(frozen.cdf(z))
    total = 0.0
    for low, high in ((0.0, jump_level), (jump_level, 1.0)):
        if low < high:
            integral, _ = integrate.quad(
                lambda u: float(kernel([[frozen.ppf(u)]], [[z]])[0, 0]),
                low,
                high,
                epsabs=1e-13,
                limit=500,
            )
            total += integral
    return total


@pytest.mark.parametrize(
    ("prediction", "frozen", "z"),
    [
        (fm.Beta([5.437], 0.8127), stats.beta(5.437, 0.8127), 0.8515),
        (fm.Beta([0.3], 0.5), stats.beta(0.3, 0.5), 0.02),
        (fm.Gamma([0.2], 3.0), stats.gamma(0.2, scale=1 / 3), 0.01),
        (fm.LogNormal([0.5], 1.5), stats.lognorm(1.5, scale=np.exp(0.5)), 0.3),
        (fm.StudentT(1.2, [1.0], 2.0), stats.t(1.2, 1.0, 2.0), 3.0),
    ],
)
@pytest.mark.parametrize("kernel", [fm.Laplacian(15.06), fm.Matern(0.5, 0.7), fm.Matern(1.5, 0.01)])
def test_kinks_beside_poles(prediction, frozen, z, kernel):
    """The Laplacian's expectation under Beta(5.437, 0.8127) had a relative error of 3.6e-8."""
    expectation = prediction.expected_kernel(kernel, [z])[0, 0]
    assert expectation == pytest.approx(_by_levels(frozen, kernel, z), rel=2e-11, abs=1e-13)


def test_mixtures_are_sums_over_their_components():
    parts = fm.Gamma([0.2, 2.0], 3.0), fm.Draws([[0.0, 0.5], [1.0, 3.0]])
    mixture = fm.Mixture(parts, [[0.3, 0.7], [1.0, 0.0]])
    kernel, z = fm.Laplacian(7.0), [0.01, 0.5]
    one, two = (part.expected_kernel(kernel, z) for part in parts)
    expected = np.array([[0.3], [1.0]]) * one + np.array([[0.7], [0.0]]) * two
    np.testing.assert_allclose(mixture.expected_kernel(kernel, z), expected, rtol=1e-13)


def test_narrow_kernels_keep_relative_digits():
    """A kernel far narrower than the nodes' distances: the density times the kernel's integral."""
    prediction, z = fm.Gamma([0.7], 1.0), np.array([0.3, 2.0, 9.0])
    for length in (1e-4, 1e-7):
        expected_values = prediction.expected_kernel(fm.Laplacian(1 / length), z)[0]
        height = stats.gamma(0.7).pdf(z)
        np.testing.assert_allclose(
            expected_values, 2 * length * height, rtol=20 * length**2 / 0.01 + 1e-9
        )


@pytest.mark.slow
@pytest.mark.parametrize("family", dict.fromkeys(law.__name__.replace("_", "") for law in LAWS))
def test_every_family_agrees_with_integrals_by_parts(family):
    violations, _, check_count = expectations.run(4, seed=100, only=family)
    assert check_count >= 8
    assert not violations, "\n".join(violations)
