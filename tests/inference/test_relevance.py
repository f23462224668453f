"""CCE at most delta: the excess and its error by plain definitions, bad input, conclusions."""

import sys
from pathlib import Path

import numpy as np
import pytest
from builders import sine_model
from scipy import stats

import fastmcmd as fm
from fastmcmd.inference.relevance import Excess, excess_of
from fastmcmd.inference.smoother import Smoother

sys.path.insert(0, str(Path(__file__).parents[1] / "simulations"))
import relevance as simulation


def test_excess_by_its_definition(rng):
    n, lam = 60, 0.02
    x, e = rng.standard_normal((n, 2)), rng.standard_normal((n, 5)) + 0.5
    basis = Smoother.of(fm.RBF(0.5), x, n).basis(x)
    excess = excess_of(basis, x, e.astype(np.float32), lam, rng)
    gram = fm.RBF(0.5)(x)
    h = gram @ np.linalg.inv(gram + n * lam * np.eye(n))
    s = h.T @ h / n
    off_diagonal = s - np.diag(np.diag(s))
    products = off_diagonal * (e @ e.T)
    assert excess.value == pytest.approx(products.sum(), rel=1e-5)
    # The mean and the variance of the part with random signs are those of a quadratic form.
    variance = 2 * np.square(products).sum()
    assert abs(excess.quadratic.mean()) < 5 * np.sqrt(variance / 199)
    assert excess.quadratic.var() == pytest.approx(variance, rel=0.5)
    left = np.array(
        [e[i] - np.delete(h[i], i) @ np.delete(e, i, 0) / (1 - h[i, i]) for i in range(n)]
    )
    terms = 4 * np.square(np.einsum("ir,ir->i", left, off_diagonal @ e)).sum()
    assert excess.error**2 == pytest.approx(
        terms - 2 * np.square(excess.quadratic).mean(), rel=1e-4
    )


def test_p_value_and_bound_are_one_another():
    normal = Excess(1.0, np.zeros(5), 0.5)
    assert normal.p_value(0.2) == pytest.approx(stats.norm.sf(1.6))
    assert normal.bound(0.05) == pytest.approx(1 - 0.5 * stats.norm.ppf(0.95))
    both = Excess(0.3, np.random.default_rng(0).exponential(size=50) - 1, 0.2)
    assert both.p_value(both.bound(0.05)) == pytest.approx(0.05)
    exact = Excess(0.3, np.zeros(5), 0.0)
    assert exact.p_value(0.2) == 0
    assert exact.p_value(0.3) == 1


def test_conclusions(rng):
    x, y, prediction = sine_model(rng, shift=0.3)
    options = {"random_state": 0, "null": "relevant"}
    beyond = fm.congruence_test(x, y, prediction, delta=0.1, **options)
    assert beyond.p_value < 0.01
    assert "CCE is above 0.1 beyond chance" in repr(beyond)
    assert beyond.lower_bound > 0.1
    assert not beyond.exact
    within = fm.congruence_test(x, y, prediction, delta=0.5, **options)
    assert within.p_value > 0.95
    assert "not shown to be above 0.5" in repr(within)
    assert "with 95 % confidence" in repr(within)
    assert within.to_dict()["null"] == "relevant"
    edge = fm.congruence_test(x, y, prediction, delta=beyond.lower_bound, **options)
    assert edge.p_value == pytest.approx(0.05)
    plain = fm.congruence_test(x, y, prediction, random_state=0)
    assert plain.exact
    assert plain.lower_bound is None
    assert plain.statistic == beyond.statistic


def test_excess_of_the_test_is_that_of_cce(rng):
    x, y, prediction = sine_model(rng, shift=0.3)
    kernels = {"x_kernel": fm.RBF(1.0), "y_kernel": fm.RBF(1.0), "lam": 0.01}
    test = fm.congruence_test(x, y, prediction, **kernels, simulations=999, random_state=0)
    assert test.excess == pytest.approx(fm.cce(x, y, prediction, **kernels).excess.mean(), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mean + .5", "counts, overdispersed"])
def test_size_at_the_boundary(kind):
    """At most 5 % are rejected: of 25 runs, more than 5 have probability 1e-3."""
    p, theta = simulation.p_values(kind, 60, 25)
    assert (theta > 0).all()
    assert (p <= 0.05).sum() <= 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"null": "relevant"}, "delta is None"),
        ({"null": "relevant", "delta": -0.1}, "delta"),
        ({"null": "relevant", "delta": 0.0}, "delta"),
        ({"null": "relevant", "delta": np.nan}, "delta"),
        ({"null": "relevant", "delta": "small"}, "delta"),
        (
            {
                "null": "relevant",
                "delta": 0.1,
                "x": np.zeros(9),
                "y": np.zeros(9),
                "prediction": np.zeros((9, 3)),
            },
            "9 rows; null='relevant' needs",
        ),
        ({"delta": 0.1}, "delta is 0.1, which null='right' does not use"),
        ({"null": "wrong"}, "null"),
        ({"null": "relevant", "delta": 0.1, "statistic": "max"}, "statistic"),
        ({"null": "relevant", "delta": 0.1, "groups": np.arange(300)}, "groups"),
        ({"null": "relevant", "delta": 0.1, "alpha": 0.05}, "alpha"),
    ],
)
def test_bad_input(rng, change, message):
    x, y, prediction = sine_model(rng, shift=0.3)
    with pytest.raises((ValueError, TypeError), match=message):
        fm.congruence_test(**{"x": x, "y": y, "prediction": prediction, **change})
