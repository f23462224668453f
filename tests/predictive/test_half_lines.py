"""Expectations of Laplacian and Matern kernels of normal differences, against mpmath."""

import mpmath
import numpy as np
import pytest

from fastmcmd import set_num_threads
from fastmcmd._base.threads import get_num_threads
from fastmcmd.predictive.numerics import half_lines

NUS = (0.5, 1.5, 2.5)


def plain(nu, length, mean, std):
    """Return ``E k(D)`` from the integrals over both halves of the line, with erfc."""
    with mpmath.workdps(80):
        rate = mpmath.sqrt(2 * mpmath.mpf(nu)) / length
        g, c, order = rate * mpmath.mpf(mean), rate * mpmath.mpf(std), round(nu - 0.5)
        if c == 0:
            r = abs(g)
            return float(sum([1, r, r * r / 3][: order + 1]) * mpmath.exp(-r))
        total = mpmath.mpf(0)
        for t in (g / c, -g / c):
            u = c + t
            first = mpmath.sqrt(mpmath.pi / 2) * mpmath.erfc(u / mpmath.sqrt(2))
            second = mpmath.exp(-u * u / 2) - u * first
            parts = [first, c * second, c * c * (first - u * second) / 3]
            total += mpmath.exp(c * c / 2 + c * t) * sum(parts[: order + 1])
        return float(total / mpmath.sqrt(2 * mpmath.pi))


@pytest.mark.parametrize("nu", NUS)
def test_expectations_over_all_scales(nu):
    rng = np.random.default_rng(3)
    mean = np.append(
        rng.normal(size=150) * 10 ** rng.uniform(-6, 2.5, 150), [0.0, 0.0, 3.0, -700.0]
    )
    std = np.append(10 ** rng.uniform(-6, 4, 150), [1.0, 0.0, 0.0, 1e3])
    expected = [plain(nu, 0.7, *pair) for pair in zip(mean, std, strict=True)]
    values = half_lines.matern(nu, 0.7, mean, std)
    # Rounding of arguments counts by their size: where values are tiny, these are about -700.
    np.testing.assert_allclose(values, expected, rtol=2e-13, atol=4e-16)
    np.testing.assert_allclose(values, expected, rtol=0, atol=2e-15)


@pytest.mark.parametrize("nu", NUS)
def test_expectations_beyond_the_range_of_squares(nu):
    mean = np.array([0.0, 0.0, 1e200, -1e308, 3.0, 0.0])
    std = np.array([1e-300, 1e-160, 1.0, 1e300, 1e-160, 1e10])
    values = half_lines.matern(nu, 1.0, mean, std)
    at_three = plain(nu, 1.0, 3.0, 0.0)
    wide = plain(nu, 1.0, 0.0, 1e10)
    np.testing.assert_allclose(
        values, [1.0, 1.0, 0.0, 0.0, at_three, wide], rtol=1e-14, atol=1e-130
    )


@pytest.mark.parametrize("nu", NUS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (70, 400)])
def test_pairs_are_differences(nu, shape):
    """Rare rows among them: a point, a tiny scale, a huge scale, a number far away."""
    rng = np.random.default_rng(5)
    one, other = (
        (rng.normal(size=n), rng.uniform(0, 2, n) * rng.choice([0.0, 1e-200, 1e-9, 1.0, 1e9], n))
        for n in shape
    )
    one[0][0], other[0][-1] = 1e6, -1e12
    pairs = half_lines.matern_of_pairs(nu, 0.4, *one, *other)
    gap = one[0][:, None] - other[0]
    np.testing.assert_allclose(
        pairs,
        half_lines.matern(nu, 0.4, gap, np.hypot(one[1][:, None], other[1])),
        rtol=1e-12,
        atol=1e-15,
    )
    np.testing.assert_allclose(
        half_lines.laplacian_of_pairs(2.5, *one, *other),
        half_lines.matern_of_pairs(0.5, 0.4, *one, *other),
        rtol=1e-13,
    )


def test_common_parameters_broadcast():
    mean, std = np.linspace(-1, 1, 7), np.array([0.3])
    values = half_lines.laplacian_of_pairs(1.0, mean, std, np.zeros(1), np.zeros(1))
    np.testing.assert_array_equal(values[:, 0], half_lines.laplacian(1.0, mean, std))


def test_bits_do_not_depend_on_threads():
    rng = np.random.default_rng(1)
    mean, std = rng.normal(size=300), rng.uniform(0, 1, 300)
    before, results = get_num_threads(), []
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            results.append(half_lines.matern_of_pairs(1.5, 1.0, mean, std, mean, std))
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(*results)
