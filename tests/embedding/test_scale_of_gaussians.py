"""Expectations under Gaussians do not depend on the unit of the outputs, at any scale."""

import numpy as np
import pytest

import fastmcmd as fm

Y = np.array([-0.4, 0.2, 0.9])
MEAN, STD = np.array([0.1, -0.3, 2.0]), np.array([0.3, 1e-3, 2.0])
KERNELS = {
    "laplacian": lambda unit: fm.Laplacian(1 / unit),
    "matern 1/2": lambda unit: fm.Matern(0.5, unit),
    "matern 5/2": lambda unit: fm.Matern(2.5, unit),
}


def predictions(unit):
    gaussian = fm.Gaussian(MEAN * unit, STD * unit)
    wider = fm.Gaussian(MEAN * unit, 2 * STD * unit)
    return gaussian, fm.Mixture([gaussian, wider], [0.3, 0.7])


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e-165, 1e-158, 1e158, 1e300])
@pytest.mark.parametrize("kernel", KERNELS)
def test_expectations_know_no_unit(kernel, unit):
    # The square of a standard deviation of 1e-165 is 0, of one of 1e158 infinite.
    make = KERNELS[kernel]
    for one, other in zip(predictions(1.0), predictions(unit), strict=True):
        expected = one.expected_kernel(make(1.0), Y)
        np.testing.assert_allclose(
            other.expected_kernel(make(unit), Y * unit), expected, rtol=1e-12
        )
    one, other = predictions(1.0)[0], predictions(unit)[0]
    expected = one.closed_form_pairs(make(1.0), one)
    np.testing.assert_allclose(
        other.closed_form_pairs(make(unit), other), expected, rtol=1e-12, atol=1e-15
    )


def test_bound_holds_in_a_tiny_unit():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 2))
    y, mean, std = x[:, 0], x[:, 1], np.full(40, 0.3)
    kernel = fm.Laplacian("median")
    expected = fm.cce(x, y, fm.Gaussian(mean, std), y_kernel=kernel)
    unit = 1e-165
    result = fm.cce(x, y * unit, fm.Gaussian(mean * unit, std * unit), y_kernel=kernel)
    error = np.abs(result.values - expected.values)
    assert (error <= result.error_bound + expected.error_bound).all()
