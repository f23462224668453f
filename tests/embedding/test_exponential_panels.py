"""Inner products of polynomial densities on panels, and densities on panels, against mpmath and SciPy."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import integrate

import fastmcmd as fm
from fastmcmd.embedding.exponential_panels import TERMS, ExponentialPanels, polynomials
from fastmcmd.embedding.exponential_sums import densities_kernel
from fastmcmd.embedding.panel_densities import shared_panels

KERNELS = {
    "laplacian": fm.Laplacian(1.3),
    "matern": fm.Matern(1.5, 0.8),
    "smooth": fm.Matern(2.5, 2.0),
    "sum": fm.Laplacian(0.2) + fm.Matern(1.5, 0.3) * fm.Matern(2.5, 1.0) + fm.Constant(0.5),
}
EDGES = np.array(
    [-3.0, -2.9, -1.0, 0.5, 1e3, 1e4]
)  # panels much shorter and much longer than the kernel


def polynomial(panel, degree, t):
    low, high = EDGES[panel], EDGES[panel + 1]
    x = (
        2 * (mpmath.mpf(float(t)) - low) / (high - low) - 1
        if not isinstance(t, mpmath.mpf)
        else (2 * (t - low) / (high - low) - 1)
    )
    return mpmath.legendre(degree, x) * mpmath.sqrt((2 * degree + 1) / (high - low))


def value(kernel, s):
    """Return a kernel at a distance: the terms of its sum of exponentials."""
    return mpmath.fsum(
        mpmath.fsum(c * (rate * s) ** k for k, c in enumerate(p)) * mpmath.exp(-rate * s)
        for rate, p in kernel.terms
    )


def plain(kernel, y, panel, degree):
    """Return ``integral k(|y - t|) P(t) dt`` by mpmath, in pieces no longer than the kernel's length."""
    low, high = EDGES[panel], EDGES[panel + 1]
    steps = [0.0, 0.3, 1.0, 3.0, 8.0, 20.0, 50.0, 120.0, 300.0]
    inside = {low, high, *(p for s in steps for p in (y - s, y + s) if low < p < high)}
    points = [mpmath.mpf(p) for p in sorted(inside)]
    return mpmath.quad(lambda t: value(kernel, abs(t - y)) * polynomial(panel, degree, t), points)


@pytest.mark.parametrize("name", KERNELS)
def test_values_at_outputs(name):
    kernel = densities_kernel(KERNELS[name])
    y = np.array([-50.0, -3.0, -2.95, -1.0, 0.0, 2.0, 999.0, 1e4, 2e4])
    values = ExponentialPanels(kernel, EDGES).at(y).reshape(len(y), -1, TERMS)
    for i, panel, degree in [(0, 0, 1), (1, 0, 3), (2, 0, 15), (2, 2, 2), (3, 1, 5), (4, 2, 9), (4, 3, 1),
                             (5, 3, 4), (6, 3, 0), (6, 4, 2), (7, 4, 7), (8, 4, 0), (8, 1, 0)]:  # fmt: skip
        expected = float(plain(kernel, float(y[i]), panel, degree))
        scale = np.sqrt(EDGES[panel + 1] - EDGES[panel])
        np.testing.assert_allclose(
            values[i, panel, degree], expected, rtol=1e-11, atol=2e-14 * scale
        )


@pytest.mark.parametrize("name", KERNELS)
def test_inner_products(name):
    """Integrals of the values at outputs, by SciPy between the ends of layers."""
    kernel = densities_kernel(KERNELS[name])
    panels = ExponentialPanels(kernel, EDGES)
    inner = panels.inner
    np.testing.assert_allclose(inner, inner.T, rtol=0, atol=1e-13)
    for one, other, k, m in [(0, 0, 2, 2), (0, 1, 1, 3), (1, 2, 4, 0), (2, 2, 7, 7), (2, 3, 1, 2),
                             (3, 3, 0, 0), (3, 3, 5, 5), (3, 4, 1, 1), (1, 4, 0, 0)]:  # fmt: skip
        low, high = EDGES[one], EDGES[one + 1]
        layers = [0.0, 0.5, 2.0, 6.0, 20.0, 60.0, 200.0]
        cuts = np.unique(
            [low, high, *(c for s in layers for c in (low + s, high - s) if low < c < high)]
        )

        def integrand(t, other=other, m=m, k=k, low=low, high=high):
            at = panels.at(t).reshape(len(t), -1, TERMS)[:, other, m]
            widths = np.full(len(t), high - low)
            return at * polynomials(2 * (t - low) / (high - low) - 1, widths)[:, k]

        # Smooth between the cuts: the rule is exact to rounding.
        expected = sum(integrate.fixed_quad(integrand, *pair, n=80)[0] for pair in pairwise(cuts))
        np.testing.assert_allclose(
            inner[one * TERMS + k, other * TERMS + m], expected, rtol=1e-9, atol=1e-12
        )


def rows(family):
    """Return predictions, among them one of a tiny scale, one of a huge scale and one far away."""
    rng = np.random.default_rng(2)
    loc, scale = rng.normal(size=40), rng.uniform(0.2, 1.0, 40)
    scale[3], scale[17], loc[30] = 1e-4, 300.0, 4e4
    return (
        loc,
        scale,
        {
            "student": lambda: fm.StudentT(3.0, loc, scale),
            "cauchy": lambda: fm.StudentT(1.0, loc, scale),
            "laplace": lambda: fm.Laplace(loc, scale),
            "logistic": lambda: fm.Logistic(loc, scale),
            "mixture": lambda: fm.Mixture([fm.Gaussian(loc, scale), fm.Laplace(loc + 1, scale)]),
        }[family](),
    )


@pytest.mark.parametrize("name", ["laplacian", "matern"])
@pytest.mark.parametrize("family", ["student", "cauchy", "laplace", "logistic", "mixture"])
def test_errors_of_densities(family, name):
    """Differences of expectations are within the errors: ``k(z, z)`` is 1."""
    loc, scale, prediction = rows(family)
    kernel = densities_kernel(KERNELS[name])
    densities = shared_panels(prediction, kernel, 1e-6, 600)
    assert densities.error.max() <= 1e-5
    panels = densities.panels
    z = np.array([-1.0, 0.3, 2.0, 100.0, 4e4])
    values = panels.at(z) @ densities.coefficients.T
    for row in (0, 3, 9, 17, 30):
        one = prediction.take(np.array([row]))
        steps = scale[row] * np.concatenate(
            [-(4.0 ** np.arange(26, -3, -1)), [0.0], 4.0 ** np.arange(-2, 27)]
        )
        around = np.concatenate([loc[row] + steps, loc[row] + 1 + steps])
        for i, point in enumerate(z):
            near = point + np.array([-30.0, -10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, 30.0])
            cuts = np.unique(np.append(around, near))
            x, w = np.polynomial.legendre.leggauss(30)
            y = ((cuts[:-1] + cuts[1:])[:, None] + np.diff(cuts)[:, None] * x).ravel() / 2
            weight = (np.diff(cuts)[:, None] / 2 * w).ravel()
            density = np.exp(one.log_densities(y[None])[0])
            assert abs(weight @ density - 1) <= 1e-8
            expected = weight @ (density * KERNELS[name](y[:, None], np.array([[point]]))[:, 0])
            assert abs(values[i, row] - expected) <= densities.error[row] + 2e-8


def test_too_many_panels():
    kernel = densities_kernel(fm.Laplacian(1.0))
    prediction = fm.Laplace(np.linspace(0, 1000, 50), np.full(50, 1e-3))
    assert shared_panels(prediction, kernel, 1e-8, 100) is None


def test_quantiles_beyond_doubles():
    kernel = densities_kernel(fm.Laplacian(1.0))
    assert shared_panels(fm.StudentT(0.01, np.zeros(3), np.ones(3)), kernel, 1e-8, 100) is None
