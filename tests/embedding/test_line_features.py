"""Features on panels of the line represent predictions that are wide against the output kernel."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import integrate, special, stats

import fastmcmd as fm
from fastmcmd.default_kernels import default_kernels_of
from fastmcmd.embedding.densities import PanelDensities
from fastmcmd.embedding.line import (
    common_line_features,
    line_features,
    line_means,
    serves_on_line,
)
from fastmcmd.embedding.parameter_cells import CellTree
from fastmcmd.predictive import ScipyPredictive
from tests.embedding.test_rare_predictions import values_by_definition

KERNEL = 0.5 * fm.RBF(0.5 / 0.6**2) + 0.5 * fm.RBF(0.5 / 0.1**2) + fm.Constant(0.25)
ONE = np.ones(3)
CENTRES = np.array([-0.7, 0.0, 0.4])
# Characteristic functions around the centres.
FAMILIES = {
    "Cauchy": (fm.StudentT(ONE, CENTRES, ONE), lambda w: np.exp(-np.abs(w))),
    "StudentT(3)": (
        fm.StudentT(3 * ONE, CENTRES, ONE),
        lambda w: np.exp(-np.sqrt(3) * np.abs(w)) * (1 + np.sqrt(3) * np.abs(w)),
    ),
    "Gaussian": (fm.Gaussian(CENTRES, 3 * ONE), lambda w: np.exp(-4.5 * w**2)),
    "narrow Gaussian": (fm.Gaussian(CENTRES, 1e-3 * ONE), lambda w: np.exp(-5e-7 * w**2)),
    "mixture": (
        fm.Mixture([fm.StudentT(ONE, CENTRES, 50 * ONE), fm.Gaussian(CENTRES, 0.2 * ONE)], [0.3, 0.7]),
        lambda w: 0.3 * np.exp(-50 * np.abs(w)) + 0.7 * np.exp(-0.02 * w**2),
    ),
    "TwoPieceLaplace": (
        fm.TwoPieceLaplace(CENTRES, 0.3, 2.0 * ONE),
        lambda w: 0.3 / 2.3 / (1 + 0.3j * w) + 2.0 / 2.3 / (1 - 2j * w),
    ),
    "scipy.stats.levy": (
        ScipyPredictive(stats.levy(CENTRES, 0.5), 3),
        lambda w: np.exp((1j * np.sign(w) - 1) * np.sqrt(0.5 * np.abs(w))),
    ),
    "scipy.stats.gumbel_l": (
        ScipyPredictive(stats.gumbel_l(CENTRES, 0.5), 3),
        lambda w: special.gamma(1 + 0.5j * w),
    ),
}  # fmt: skip


def expected(spectrum, gap):
    """Return ``E k(gap + Y)`` of `KERNEL`, from the characteristic function of Y (Bochner's theorem)."""
    total = 0.25
    for width in (0.6, 0.1):
        value, _ = integrate.quad(
            lambda w, s=width: np.real(
                np.exp(-0.5 * (s * w) ** 2) * s * spectrum(w) * np.exp(1j * w * gap)
            ),
            0, 9 / width, epsabs=1e-12, epsrel=1e-12, limit=2000, points=(0.01, 0.1, 1.0),
        )  # fmt: skip
        total += value / np.sqrt(2 * np.pi)
    return total


@pytest.mark.parametrize("family", FAMILIES)
def test_inner_products_follow_from_characteristic_functions(family):
    prediction, spectrum = FAMILIES[family]
    outputs = np.array([-2.0, -0.1, 0.0, 0.35, 40.0])
    features, mean, error = line_features(KERNEL, outputs, prediction, 1e-8)
    p = features.transform(outputs[:, None])
    np.testing.assert_allclose(p @ p.T, KERNEL(outputs[:, None]), atol=1e-7)
    assert np.sqrt(features.residuals(outputs[:, None], p)).max() < 1e-6
    assert error.max() < 1e-7
    for i in range(3):
        pairs = [
            expected(lambda w: np.abs(spectrum(w)) ** 2, CENTRES[i] - centre) for centre in CENTRES
        ]
        np.testing.assert_allclose(mean[i] @ mean.T, pairs, atol=2 * error.max() + 1e-11)
        cross = [expected(spectrum, CENTRES[i] - output) for output in outputs]
        np.testing.assert_allclose(mean[i] @ p.T, cross, atol=error.max() + 1e-8)


def test_panels_of_several_models_give_products_between_them():
    """The products also hold for mirrored predictions, whose embeddings cancel in a sum."""
    centres = {"Cauchy": CENTRES, "Gaussian": CENTRES, "mirrored": -CENTRES}
    spectra = [FAMILIES[name][1] for name in ("Cauchy", "Gaussian", "Cauchy")]
    predictions = [FAMILIES[name][0] for name in ("Cauchy", "Gaussian")]
    predictions.append(fm.StudentT(ONE, -CENTRES, ONE))
    features, means, errors = common_line_features(KERNEL, np.array([90.0]), predictions, 1e-8)
    assert np.max(errors) < 1e-7
    assert all(mean.shape == (3, features.rank) for mean in means)
    for one, at in enumerate(centres.values()):
        for other, to in enumerate(centres.values()):
            target = [
                expected(lambda w: spectra[one](w) * spectra[other](w), at[2] - t)  # noqa: B023
                for t in to
            ]
            np.testing.assert_allclose(means[one][2] @ means[other].T, target, atol=3e-7)


KINKS = {
    "triang": (stats.triang([0.2, 0.5, 0.9], CENTRES, 2.0), [[0.2], [0.5], [0.9]]),
    "laplace_asymmetric": (stats.laplace_asymmetric([0.5, 1.0, 3.0], CENTRES, 2.0), np.zeros((3, 1))),
    "skewcauchy": (stats.skewcauchy([0.5, 0.1, -0.9], CENTRES, 2.0), np.zeros((3, 1))),
    "crystalball": (stats.crystalball([0.5, 1.0, 2.0], 3.0, CENTRES, 2.0), [[-0.5], [-1.0], [-2.0]]),
    "two-piece": (fm.TwoPieceLaplace(CENTRES, 2.0, [1.0, 3.0, 9.0]), np.zeros((3, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", KINKS)
def test_panels_of_densities_end_at_kinks(name):
    """Series of a kink converge slowly: all panels would be halved many times."""
    frozen, standard = KINKS[name]
    prediction = frozen if isinstance(frozen, fm.TwoPieceLaplace) else ScipyPredictive(frozen, 3)
    kinks = CENTRES[:, None] + 2.0 * np.array(standard)
    np.testing.assert_allclose(prediction.kinks(), kinks, atol=1e-15)
    densities = PanelDensities.of(prediction, [(2.0, 1e-9)])
    gap = np.abs(densities.low[:, None, :] - kinks[:, :, None]).min(axis=2)
    assert gap.max() < 1e-15
    assert densities.low.shape[1] <= 80
    masses = densities.weights.sum(axis=2)
    for column in range(0, densities.low.shape[1], 5):
        low, high = densities.low[:, column], densities.high[:, column]
        expected = prediction.cdf(high) - prediction.cdf(low)
        np.testing.assert_allclose(masses[:, column], expected, atol=1e-13)


def steep(name, n):
    """Return predictions whose densities have a side much steeper than their quartiles tell."""
    rng = np.random.default_rng(3)
    loc, scale = np.sin(rng.normal(size=n)), np.full(n, 0.5)
    parts = {
        "levy": ScipyPredictive(stats.levy(loc, scale), n),
        "invgamma": ScipyPredictive(stats.invgamma(4.0, loc, scale), n),
        # Two families with the same coordinates: embeddings of one are not those of the other.
        "gumbel": ScipyPredictive(stats.gumbel_r(loc, scale), n),
    }
    if name == "mixture":
        return fm.Mixture([parts["levy"], parts["gumbel"]], np.array([0.3, 0.7]))
    return parts[name]


@pytest.mark.parametrize("name", ["levy", "invgamma", "mixture"])
def test_steep_densities_of_many_rows_are_interpolated_in_shorter_cells(name):
    prediction, outputs = steep(name, 4000), np.linspace(-2, 3, 50)
    features, (of_rows,) = line_means(fm.RBF(2.0), outputs, [prediction], 1e-8)
    mean, error = of_rows(np.arange(4000))
    rows = np.arange(0, 4000, 97)
    target, of_target = features.expected(prediction.take(rows), 1e-8)
    difference = np.linalg.norm(mean[rows] - target, axis=1)
    assert (difference <= error[rows] + of_target).all()
    assert difference.max() > 0  # they were not integrated themselves
    assert error.max() < 1e-7


@pytest.mark.filterwarnings("error")  # SciPy's, about an erlang distribution between two integers
def test_shapes_that_are_integers_are_not_interpolated(rng):
    n = 1000
    shapes, loc = rng.choice([2, 3, 4], n), np.sin(np.arange(n))
    prediction, outputs = ScipyPredictive(stats.erlang(shapes, loc, 0.5), n), np.linspace(-1, 3, 20)
    features, (of_rows,) = line_means(fm.RBF(2.0), outputs, [prediction], 1e-8)
    rows = np.arange(0, n, 97)
    mean, _ = of_rows(rows)
    target, _ = features.expected(prediction.take(rows), 1e-8)
    np.testing.assert_allclose(mean, target, atol=1e-12)
    sums = ScipyPredictive(stats.irwinhall(shapes, loc, 0.5), n)  # refused between two integers
    assert CellTree.of(sums, fm.RBF(2.0), 1e-8) is None


def test_densities_with_poles():
    """The gamma distribution of shape 0.1 has most of its mass near 0, and the rest far out."""
    prediction = fm.Gamma(0.1 * ONE, 0.02 * ONE)
    _, mean, error = line_features(KERNEL, np.array([0.0, 1.0]), prediction, 1e-8)
    square = expected(lambda w: (1 + (w / 0.02) ** 2) ** -0.1, 0.0)
    np.testing.assert_allclose(mean @ mean.T, square, atol=2 * error.max() + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("outliers", [(), (50.0, -200.0, 1e4)])
def test_values_of_heavy_tails_with_all_defaults(rng, outliers):
    n = 50
    x = rng.uniform(-1, 1, n)
    y = x + 0.1 * rng.standard_normal(n)
    y[: len(outliers)] = outliers
    prediction = fm.StudentT(np.ones(n), x, np.ones(n))
    result = fm.cce(x, y, prediction)
    assert result.error_bound <= 1e-6
    kernels = default_kernels_of(x, y)
    widths = kernels.marginal_spread, kernels.residual_spread
    nodes = np.linspace(0, 30, 4001)  # of exp(-|w|), whose kink is at 0

    def spectral(gaps, power):
        total = np.zeros_like(gaps)
        for width in widths:
            weight = np.exp(-0.5 * (width * nodes) ** 2 - power * nodes) * width
            for at in np.ndindex(gaps.shape):
                total[at] += integrate.simpson(weight * np.cos(nodes * gaps[at]), x=nodes)
        return total / np.sqrt(2 * np.pi)

    inner_rows = np.arange(len(outliers), n)
    at = x[inner_rows][:3]
    near, centres = np.subtract.outer(y, x), np.subtract.outer(x, x)
    far = (
        np.abs(near) > 20
    )  # too fast for the nodes: the density, to the order of its width squared
    cross = np.where(far, 0.0, spectral(np.where(far, 0.0, near), 1.0))
    tail = sum(np.sqrt(np.pi / 2) * width for width in widths) / np.pi / (1 + near**2)
    cross = np.where(far, tail, cross)
    gram = kernels.y_kernel(y[:, None]) - cross - cross.T + spectral(centres, 2.0)
    truth = values_by_definition(kernels.x_kernel, 0.01, x[:, None], at[:, None], gram)
    np.testing.assert_allclose(
        result.values[inner_rows][:3], truth, atol=1e-4 if outliers else 2e-6
    )


def test_log_normal_predictions_of_small_scatter(rng):
    """The call reported no low rank, and advised to draw from the predictions."""
    n = 300
    x = rng.uniform(-1, 1, n)
    y = x + 0.1 * rng.standard_normal(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = fm.cce(x, y, fm.LogNormal(x, np.ones(n)))
    assert result.error_bound <= 1e-6
    assert result.info.certificate == "sampled"


@pytest.mark.parametrize(
    "prediction",
    [
        fm.ZeroInflated(fm.Gamma(2 * ONE, ONE), 0.3),
        fm.Mixture([fm.ZeroInflated(fm.Gamma(2 * ONE, ONE), 0.3), fm.StudentT(ONE, ONE, ONE)]),
        fm.Mixture([fm.Poisson(ONE), fm.StudentT(ONE, ONE, ONE)]),
        fm.Poisson(ONE),
    ],
    ids=lambda one: type(one).__name__,
)
def test_atoms_have_no_density(prediction):
    """A zero-inflated gamma lost .3 of its mass, with a bound of 7e-9."""
    assert not serves_on_line(KERNEL, prediction)


@pytest.mark.slow
def test_a_rare_row_has_panels_of_its_own(rng):
    """One narrow, distant prediction among 600 is not among the rows that first choose the panels."""
    n = 600
    x = rng.uniform(-1, 1, n)
    mean, scale = x.copy(), np.ones(n)
    mean[301], scale[301] = 300.0, 0.01
    prediction = fm.StudentT(np.full(n, 5.0), mean, scale)
    _, features, error = line_features(KERNEL, np.sort(x), prediction, 1e-8)
    assert error.max() < 1e-6
    self_expectation = prediction.take(np.array([301])).expected_kernel(KERNEL, [300.0])[0, 0]
    assert features[301] @ features[301] == pytest.approx(self_expectation, rel=1e-2)


def test_mass_between_two_doubles_is_in_the_features():
    """A mass of 1e-5 of this beta lies above the last double below 1, where no density is computed."""
    prediction = fm.Beta([55.43485403124853], [0.34932819938004067])
    kernel = fm.RBF(3.2) * fm.Constant(0.0116) + fm.RBF(40.0)
    _, features, error = line_features(kernel, np.array([0.2]), prediction, 1e-9)
    # Jacobi nodes: the weight function of the beta itself.
    nodes, weights = special.roots_jacobi(80, 0.34932819938004067 - 1, 54.43485403124853)
    y, weights = (1 + nodes) / 2, weights / weights.sum()
    truth = float(weights @ kernel(y[:, None], y[:, None]) @ weights)
    norm = float(features[0] @ features[0])
    assert abs(norm - truth) <= 2 * np.sqrt(truth) * error[0] + 1e-12
    assert error[0] < 1e-8


def test_quantiles_beyond_float64_have_no_panels():
    prediction = fm.StudentT(np.full(2, 0.02), np.zeros(2), np.ones(2))
    assert not np.isfinite(prediction.quantiles_at(np.full((2, 1), 1e-16))).all()
    with np.errstate(all="ignore"):
        assert line_features(KERNEL, np.array([0.0]), prediction, 1e-6) is None


@pytest.mark.slow
def test_fits_are_saved_and_have_witnesses(rng, tmp_path):
    n = 40
    x = rng.uniform(-1, 1, (n, 1))
    y = x[:, 0] + 0.1 * rng.standard_normal(n)
    fitted = fm.ConditionalCongruence(y_kernel=KERNEL).fit(x, y, fm.LogNormal(x[:, 0], np.ones(n)))
    fitted.save(tmp_path / "fit")
    loaded = fm.load(tmp_path / "fit")
    grid = np.linspace(-1, 5, 7)
    np.testing.assert_array_equal(loaded.score_samples(x[:5]), fitted.score_samples(x[:5]))
    np.testing.assert_array_equal(loaded.witness(x[:2], grid), fitted.witness(x[:2], grid))
    wide = fm.ConditionalCongruence(y_kernel=KERNEL).fit(
        x, y, fm.LogNormal(x[:, 0], np.ones(n)).sample(500, 0)
    )
    np.testing.assert_allclose(fitted.witness(x[:2], grid), wide.witness(x[:2], grid), atol=0.05)


@pytest.mark.slow
def test_blocks_take_little_memory():
    """1,400 panels took 200 MB before the code knew that they are too many."""
    prediction = fm.Gaussian(np.linspace(-3000.0, 3000.0, 250), np.ones(250))
    outputs = np.asarray(prediction.mean)
    line_features(fm.RBF(0.5), outputs[:1], prediction.take(np.arange(1)), 1e-4)  # compiles
    tracemalloc.start()
    try:
        assert line_features(fm.RBF(0.5), outputs, prediction, 1e-4) is None
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()
