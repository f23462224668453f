"""Features interpolated in the output, against those that are integrated."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.embedding.line import line_features
from fastmcmd.embedding.line_table import LineTable


@pytest.mark.parametrize(
    "kernel",
    [fm.RBF(0.5), fm.RBF(0.3) + 0.3 * fm.RBF(0.01) + fm.Constant(2.0), 7.0 * fm.RBF(1e-4)],
)
@pytest.mark.parametrize("far", [False, True])
def test_against_integrals(kernel, far):
    rng = np.random.default_rng(0)
    y = rng.standard_t(2, 30_000)
    if far:
        y[rng.choice(len(y), 5)] = [1e6, -1e6, 300.0, 1e4, 0.0]
    y.sort()
    prediction = fm.StudentT(3.0, rng.normal(size=200), rng.uniform(0.5, 2.0, 200))
    features = line_features(kernel, y, prediction, 1e-9)[0]
    table = LineTable.of(features, y)
    assert len(table.cells)
    for some in (slice(0, 40), slice(14_000, 16_000), slice(29_970, 30_000)):
        p, residual = table.at(y[some])
        exact = features.transform(y[some, None])
        size = np.sqrt(kernel.at_zero)
        scale = 1.0 + np.abs(y[some]).max() / features.narrowest * 1e-3  # rounding of far outputs
        np.testing.assert_allclose(p, exact, atol=1e-12 * size * scale)
        expected = features.residuals(y[some, None], exact)
        np.testing.assert_allclose(residual, expected, atol=1e-13 * size**2 * scale)


def test_few_outputs_take_no_table():
    y = np.linspace(-30.0, 30.0, 400)
    prediction = fm.StudentT(3.0, np.zeros(20), np.ones(20))
    features = line_features(fm.RBF(2.0), y, prediction, 1e-9)[0]
    table = LineTable.of(features, y)
    assert not len(table.cells)
    np.testing.assert_array_equal(table.at(y)[0], features.transform(y[:, None]))
