"""Mixtures agree with sums over their components, root finding and plain definitions."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics.mixture_quantiles import between_components
from fastmcmd.predictive.quantiles import Quantiles

N = 7
LEVELS = np.array([1e-12, 0.01, 0.3, 0.5, 0.9, 0.9999])


def gaussians(rng, count=3, n=N):
    parts = [fm.Gaussian(3 * rng.normal(size=n), rng.uniform(0.1, 2, n)) for _ in range(count)]
    return Mixture(parts, rng.dirichlet(np.ones(count), n))


def every_kind(rng):
    """Return mixtures of all kinds of components."""
    mean = rng.uniform(0.5, 20, N)
    counts = [fm.Poisson(mean), fm.NegativeBinomial(mean, 0.5)]
    draws = [fm.Draws(rng.normal(size=(N, 5))), fm.Draws(rng.normal(size=(N, 8)))]
    quantiles = Quantiles([0.1, 0.5, 0.9], np.sort(rng.normal(size=(N, 3)), axis=1), tails="flat")
    student = as_predictive(stats.t(4.0, loc=mean), N)
    gaussian = fm.Gaussian(mean, 1.0)
    return {
        "gaussians": gaussians(rng),
        "continuous": Mixture([student, gaussian], [0.3, 0.7]),
        "counts": Mixture(counts, [0.4, 0.6]),
        "draws": Mixture(draws, [0.5, 0.5]),
        "draws and counts": Mixture([draws[0], counts[0]]),
        "quantiles": Mixture([quantiles, gaussian]),
        "hurdle": Mixture([fm.Poisson(np.full(N, 1e-12)), gaussian], [0.2, 0.8]),
    }


KINDS = list(every_kind(np.random.default_rng(0)))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_over_components(rng, kind):
    mixture = every_kind(rng)[kind]
    y = np.round(rng.normal(3, 3, N))
    w, parts = mixture.weights, mixture.components
    for name in ("cdf", "cdf_below", "sf"):
        expected = sum(w[:, i] * getattr(part, name)(y) for i, part in enumerate(parts))
        np.testing.assert_allclose(getattr(mixture, name)(y), expected, rtol=1e-14)
    mean = sum(w[:, i] * part.mean for i, part in enumerate(parts))
    second = sum(w[:, i] * (part.variance + part.mean**2) for i, part in enumerate(parts))
    np.testing.assert_allclose(mixture.mean, mean)
    np.testing.assert_allclose(mixture.variance, second - mean**2, rtol=1e-10)
    np.testing.assert_allclose(mixture.std**2, mixture.variance)
    values, weights = mixture.nodes()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose((weights * values).sum(axis=1), mean, rtol=1e-6)
    assert mixture.node_count == weights.shape[1]
    rows = np.array([3, 0, 0])
    part = mixture.take(rows)
    for name in ("cdf", "crps"):
        np.testing.assert_allclose(
            getattr(part, name)(y[rows]), getattr(mixture, name)(y)[rows], rtol=1e-12
        )


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_the_smallest_that_reach_their_level(rng, kind):
    mixture = every_kind(rng)[kind]
    quantiles = mixture.quantile(LEVELS)
    assert quantiles.shape == (N, len(LEVELS))
    # Compiled Gaussian quantiles start from those of other levels: equal to rounding.
    rtol = 1e-14 if kind == "gaussians" else 0
    np.testing.assert_allclose(mixture.quantile(0.3), quantiles[:, 2], rtol=rtol)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    for level, y in zip(LEVELS, quantiles.T, strict=True):
        assert (mixture.cdf(y) >= level * (1 - 1e-12)).all()
        # The cdf is steep enough here for 1e-7, but in the far tail.
        before = mixture.cdf(y - 1e-7 * (1 + np.abs(y)))
        assert (before < level).all()
        assert (mixture.cdf_below(y) <= level * (1 + 1e-12) + 1e-15).all()


def test_quantiles_agree_with_root_finding(rng):
    mixture = gaussians(rng, 4, 30)
    for level in (1e-9, 0.2, 0.5, 0.99, 1 - 1e-9):
        quantiles = mixture.quantile(level)
        for row in range(30):
            mean = [part.mean[row] for part in mixture.components]
            std = [part.std[row] for part in mixture.components]

            def gap(x, mean=mean, std=std, row=row, level=level):
                return mixture.weights[row] @ stats.norm.cdf(x, mean, std) - level

            exact = optimize.brentq(gap, -60, 60, xtol=1e-14, rtol=1e-14)
            density = mixture.weights[row] @ stats.norm.pdf(exact, mean, std)
            # The rounding of a cdf allows this much.
            assert quantiles[row] == pytest.approx(exact, abs=1e-13 + 4e-16 / density)


def test_quantiles_of_counts_are_exact(rng):
    mean = rng.uniform(0, 60, 40)
    mixture = Mixture([fm.Poisson(mean), fm.Poisson(mean / 3)], [0.25, 0.75])
    k = np.arange(400)
    cdf = 0.25 * stats.poisson.cdf(k, mean[:, None]) + 0.75 * stats.poisson.cdf(
        k, mean[:, None] / 3
    )
    for level in (0.001, 0.3, 0.77, 0.9999):
        np.testing.assert_array_equal(mixture.quantile(level), (cdf < level).sum(axis=1))


def test_quantiles_of_draws_are_draws(rng):
    one, other = rng.normal(size=(20, 4)), rng.normal(size=(20, 9)) * 1e-3
    mixture = Mixture([fm.Draws(one), fm.Draws(other)], [0.3, 0.7])
    pooled = np.concatenate([one, other], axis=1)
    weights = np.concatenate([np.full(4, 0.3 / 4), np.full(9, 0.7 / 9)])
    order = np.argsort(pooled, axis=1)
    total = np.cumsum(weights[order], axis=1)
    for level in (0.05, 0.31, 0.62, 0.99):
        first = (total < level).sum(axis=1)
        expected = np.take_along_axis(pooled, order, axis=1)[np.arange(20), first]
        np.testing.assert_array_equal(mixture.quantile(level), expected)


def test_the_quantile_is_the_lower_end_where_the_cdf_is_flat():
    one, other = stats.uniform(0, 1), stats.uniform(5, 1)
    mixture = Mixture([as_predictive(one, 1), as_predictive(other, 1)], [0.5, 0.5])
    assert mixture.quantile(0.5)[0] == pytest.approx(1.0, abs=1e-12)
    apart = Mixture([fm.Gaussian([0.0], 1.0), fm.Gaussian([1e4], 1.0)])
    assert 5 < apart.quantile(0.5)[0] < 9  # where the first cdf reaches 1 in floating point


def test_levels_zero_and_one(rng):
    assert gaussians(rng).quantile([0.0, 1.0])[0].tolist() == [-np.inf, np.inf]
    draws = Mixture([fm.Draws([[1.0, 2.0]]), fm.Draws([[0.0, 9.0]])], [1.0, 0.0])
    assert draws.quantile([0.0, 1.0]).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("far", [0.0, 1e-9, 0.5, 3.0, 12.0, 300.0, 1e6])
@pytest.mark.parametrize("ratio", [1.0, 1e-6, 1e3])
def test_quantiles_of_gaussians_near_and_far(rng, far, ratio):
    """Agree with general inversion, started at other levels and at their own."""
    weights = rng.dirichlet(np.ones(3), 20)
    weights[0] = 0.0, 1.0, 0.0
    mean = rng.normal(size=20)
    parts = [
        fm.Gaussian(mean + i * far, np.full(20, scale)) for i, scale in enumerate((1, ratio, 1))
    ]
    mixture = Mixture(parts, weights)
    levels = np.array([0.99, 1e-300, 1e-9, 0.01, 0.02, 0.5, 0.51, 1 - 1e-9, 0.75, 1 - 2**-53])
    quantiles = mixture.quantile(levels)
    assert (np.diff(quantiles[:, np.argsort(levels)], axis=1) >= -1e-9).all()
    for at, level in enumerate(levels):
        alone = mixture.quantile(level)
        general = between_components(mixture, levels[at : at + 1])[:, 0]
        for y in (quantiles[:, at], alone):
            # The rounding of a cdf and of y allows this much.
            open_ = 1e-14 * level / np.exp(mixture.log_prob(general)) + 1e-14 * np.abs(general)
            assert (np.abs(y - general) <= open_ + 1e-14).all()


def test_no_levels_and_vector_outputs(rng):
    parts = [fm.Gaussian(rng.normal(size=(4, 2)), rng.uniform(0.1, 2, (4, 2))) for _ in range(3)]
    mixture, levels = Mixture(parts), np.array([0.4, 1e-12, 0.99, 1 - 1e-12])
    assert mixture.quantile([]).shape == (4, 2, 0)
    quantiles = mixture.quantile(levels)
    for k in range(2):
        column = Mixture([fm.Gaussian(part.mean[:, k], part.std[:, k]) for part in parts])
        np.testing.assert_allclose(quantiles[:, k], column.quantile(levels), rtol=1e-9)


def test_gaussian_quantiles_at_levels_of_each_row(rng):
    mixture = gaussians(rng)
    levels = rng.random((N, 5))
    levels[0, 1], levels[2, 3] = 1e-200, 1 - 1e-15
    quantiles = mixture.quantiles_at(levels)
    for row in range(N):
        expected = mixture.take(np.array([row])).quantile(levels[row])[0]
        np.testing.assert_allclose(quantiles[row], expected, rtol=1e-9)
        inner = slice(2, 3)
        np.testing.assert_allclose(quantiles[row, inner], expected[inner], rtol=1e-13)


def test_components_that_coincide(rng):
    one = fm.Gaussian(rng.normal(size=5), 0.3)
    levels = np.array([0.0, 0.2, 0.2, 0.9, 1.0])
    np.testing.assert_allclose(
        Mixture([one, one]).quantile(levels), one.quantile(levels), rtol=1e-14
    )


def test_gaussian_quantiles_do_not_depend_on_blocks_and_threads(rng, monkeypatch):
    mixture, levels = gaussians(rng, n=500), np.linspace(0.01, 0.99, 99)
    expected = mixture.quantile(levels)
    for threads, block in ((1, 1 << 18), (3, 1 << 10)):
        monkeypatch.setattr(
            "fastmcmd._base.blocks.get_num_threads", lambda threads=threads: threads
        )
        monkeypatch.setattr("fastmcmd.predictive.mixture._BLOCK", block)
        np.testing.assert_array_equal(mixture.quantile(levels), expected)


@given(st.integers(0, 10**6))
def test_quantiles_of_random_gaussians(seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-8, 8, (2, 9))
    parts = [fm.Gaussian(rng.normal(size=9) * s, s * rng.uniform(0.1, 1, 9)) for s in scale]
    mixture = Mixture(parts, rng.dirichlet([0.3, 0.3], 9))
    level = rng.uniform()
    np.testing.assert_allclose(mixture.cdf(mixture.quantile(level)), level, rtol=1e-12)


def test_log_prob(rng):
    mixture = gaussians(rng)
    y = rng.normal(size=N)
    density = sum(
        mixture.weights[:, i] * stats.norm.pdf(y, part.mean, part.std)
        for i, part in enumerate(mixture.components)
    )
    np.testing.assert_allclose(mixture.log_prob(y), np.log(density), rtol=1e-12)
    far = mixture.log_prob(y + 1e4)  # no density left, its logarithm all the same
    assert (far < -1e5).all()
    assert np.isfinite(far).all()
    counts = Mixture([fm.Poisson([2.0]), fm.Poisson([5.0])], [0.25, 0.75])
    masses = 0.25 * stats.poisson.pmf(3, 2) + 0.75 * stats.poisson.pmf(3, 5)
    np.testing.assert_allclose(counts.log_prob([3.0]), np.log(masses), rtol=1e-12)
    assert counts.log_prob([0.5])[0] == -np.inf
    off = Mixture([fm.Poisson([2.0]), fm.Poisson([5.0])], [0.0, 1.0])
    np.testing.assert_allclose(off.log_prob([3.0]), stats.poisson.logpmf(3, 5), rtol=1e-12)


def test_what_has_a_density(rng):
    answers = {kind: mixture.has_density for kind, mixture in every_kind(rng).items()}
    assert [kind for kind, has in answers.items() if has] == ["gaussians", "continuous", "counts"]
    discrete = [kind for kind, mixture in every_kind(rng).items() if mixture.discrete]
    assert discrete == ["counts"]
    with pytest.raises(ValueError, match="this mixture has no density"):
        every_kind(rng)["hurdle"].log_prob(np.zeros(N))


def test_crps_of_gaussians(rng):
    """Agree with quadrature of the cdf, and with scoringrules."""
    scoringrules = peers.imported("scoringrules")
    mixture = gaussians(rng, 3, 40)
    y = 3 * rng.normal(size=40)
    scores = mixture.crps(y)
    np.testing.assert_allclose(scores, Predictive.crps(mixture, y), rtol=1e-9)
    mean, std = (
        np.stack([getattr(p, name) for p in mixture.components], 1) for name in ("mean", "std")
    )
    peer = scoringrules.crps_mixnorm(y, mean, std, mixture.weights)
    np.testing.assert_allclose(scores, peer, rtol=1e-10)
    single = Mixture(mixture.components[:1])
    np.testing.assert_allclose(single.crps(y), mixture.components[0].crps(y), rtol=1e-11)
    np.testing.assert_array_equal(
        mixture.take(np.arange(3)).crps([np.nan, np.inf, -np.inf]), [np.nan, np.inf, np.inf]
    )


@pytest.mark.parametrize("kind", ["counts", "draws", "draws and counts"])
def test_crps_of_atoms_is_the_energy_form(rng, kind):
    mixture = every_kind(rng)[kind]
    y = rng.normal(2, 3, N)
    values, weights = mixture.nodes()
    near = (weights * np.abs(values - y[:, None])).sum(axis=1)
    apart = np.abs(values[:, :, None] - values[:, None, :])
    expected = near - np.einsum("ni,nj,nij->n", weights, weights, apart) / 2
    np.testing.assert_allclose(mixture.crps(y), expected, rtol=1e-9)


def test_crps_of_other_components(rng):
    """Agree with the energy form over a large sample."""
    mixture = every_kind(rng)["hurdle"]
    y = rng.normal(5, 3, N)
    as_draws = fm.Draws(mixture.sample(200_000, 0))
    np.testing.assert_allclose(mixture.crps(y), as_draws.crps(y, "fair"), atol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_samples(rng, kind):
    mixture = every_kind(rng)[kind]
    draws = mixture.sample(4000, 5)
    assert draws.shape == (N, 4000)
    np.testing.assert_array_equal(draws, mixture.sample(4000, 5))
    for place in (-0.5, 0.0, 1.5, 8.0, 14.0):
        share = (draws <= place).mean(axis=1)
        assert np.abs(share - mixture.cdf(place)).max() < 0.035  # 4.4 standard errors


def test_a_component_of_no_weight_has_no_part():
    cauchy = as_predictive(stats.cauchy(), 2)  # no mean
    gaussian = fm.Gaussian([0.0, 1.0], 2.0)
    mixture = Mixture([cauchy, gaussian], [0.0, 1.0])
    assert mixture.mean.tolist() == [0.0, 1.0]
    assert mixture.variance.tolist() == [4.0, 4.0]
    np.testing.assert_allclose(mixture.quantile(0.9), gaussian.quantile(0.9), rtol=1e-14)


def test_expectations(rng):
    points = np.array([[0.0], [1.0], [4.0]])
    for kind, mixture in every_kind(rng).items():
        expected = sum(
            w[:, None] * part.expected_kernel(fm.RBF(0.3), points)
            for w, part in zip(mixture.weights.T, mixture.components, strict=True)
        )
        expectations = mixture.expected_kernel(fm.RBF(0.3), points)
        np.testing.assert_allclose(expectations, expected, atol=1e-11, err_msg=kind)
    mixture = every_kind(rng)["gaussians"]
    assert mixture.closed_form(fm.RBF(0.3), points) is not None
    assert every_kind(rng)["draws"].closed_form(fm.RBF(0.3), points) is None
    pairs = mixture.closed_form_pairs(fm.RBF(0.3), mixture)
    values, weights = mixture.nodes()
    kernel = fm.RBF(0.3)(values[1][:, None], values[4][:, None])
    assert pairs[1, 4] == pytest.approx(weights[1] @ kernel @ weights[4], abs=1e-9)
    against = mixture.closed_form_pairs(fm.RBF(0.3), mixture.components[1])
    assert against.shape == (N, N)
    counts = every_kind(rng)["counts"]
    values, masses = counts.support()
    np.testing.assert_allclose(masses @ values, counts.mean, rtol=1e-9)
    np.testing.assert_allclose(masses.sum(axis=1), 1)


def test_vectors(rng):
    parts = [fm.Gaussian(rng.normal(size=(N, 2)), rng.uniform(0.5, 2, (N, 2))) for _ in range(3)]
    weights = rng.dirichlet(np.ones(3), N)
    mixture = Mixture(parts, weights)
    y = rng.normal(size=(N, 2))
    columns = [
        Mixture([fm.Gaussian(p.mean[:, k], p.std[:, k]) for p in parts], weights) for k in (0, 1)
    ]
    for k, column in enumerate(columns):
        np.testing.assert_allclose(mixture.mean[:, k], column.mean)
        np.testing.assert_allclose(mixture.variance[:, k], column.variance)
        np.testing.assert_allclose(mixture.cdf(y)[:, k], column.cdf(y[:, k]))
        np.testing.assert_allclose(
            mixture.quantile([0.1, 0.7])[:, k], column.quantile([0.1, 0.7]), rtol=1e-9
        )
    joint = sum(
        weights[:, i] * np.exp(part.log_prob(y)) for i, part in enumerate(parts)
    )  # not the product of the components' densities
    np.testing.assert_allclose(np.exp(mixture.log_prob(y)), joint)
    draws = mixture.sample(20_000, 1)
    assert draws.shape == (N, 20_000, 2)
    np.testing.assert_allclose(draws.mean(axis=1), mixture.mean, atol=0.1)


def test_weights_of_a_softmax_are_normalised(rng):
    weights = rng.dirichlet(np.ones(3), N).astype(np.float32)
    mixture = Mixture(gaussians(rng).components, weights)
    np.testing.assert_allclose(mixture.weights.sum(axis=1), 1, rtol=1e-15)
    equal = Mixture(mixture.components)
    np.testing.assert_allclose(equal.weights, 1 / 3)


@pytest.mark.parametrize(
    ("components", "weights", "error", "message"),
    [
        ([], None, ValueError, "components are empty"),
        ([fm.Draws([0.0]), 1.0], None, TypeError, r"components\[1\] is a float"),
        ([fm.Draws([0.0]), fm.Draws([0.0, 1.0])], None, ValueError, r"components\[1\] has shape"),
        ([fm.Draws([0.0])] * 2, [0.5, 0.6], ValueError, "weights sum to 1.1"),
        ([fm.Draws([0.0])] * 2, [1.5, -0.5], ValueError, "all must be >= 0"),
        ([fm.Draws([0.0])] * 2, [np.nan, 1.0], ValueError, "weights hold NaN"),
        ([fm.Draws([0.0])] * 2, [1.0], ValueError, r"weights have shape \(1,\)"),
    ],
)
def test_bad_input(components, weights, error, message):
    with pytest.raises(error, match=message):
        Mixture(components, weights)


@pytest.mark.parametrize(
    "mixture",
    [
        fm.Mixture([fm.Gaussian([0.0], 1.0), fm.Gaussian([2.0], 1.5)]),
        fm.Mixture([fm.Uniform([-17685.0], -17684.0), fm.Beta([1.4], 22.0)], [0.05, 0.95]),
        fm.Mixture([fm.Laplace([0.0], 1.0), fm.Gamma([2.0], 1.0)]),
    ],
    ids=["gaussian", "beta", "laplace"],
)
def test_quantiles_near_one_have_the_digits_of_their_distance_to_it(mixture):
    levels = 1 - 2.0 ** -np.array([10, 25, 40, 52])
    tails = [mixture.sf(q)[0] for q in mixture.quantile(levels).T]
    np.testing.assert_allclose(tails, 1 - levels, rtol=1e-11)
    row_quantiles = mixture.quantiles_at(levels[None, :])
    np.testing.assert_allclose([mixture.sf(q)[0] for q in row_quantiles.T], 1 - levels, rtol=1e-11)


def test_quantiles_beyond_all_doubles():
    """A component whose quantiles overflow raised an error."""
    heavy = fm.StudentT([0.0182], [1.9], [0.0222])
    mixture = fm.Mixture([fm.Gaussian([2.0], [6.0]), heavy], [0.4, 0.6])
    assert mixture.quantile([1e-148, 1 - 1e-12]).tolist() == [[-np.inf, np.inf]]
    for level in (1e-6, 0.01, 0.99):
        np.testing.assert_allclose(mixture.cdf(mixture.quantile(level)), level, rtol=1e-11)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.79e308), (-1.79e308, 1.79e308), (-0.0, 5e-324), (-3.0, -1e-300)]
)
def test_halving_the_number_of_doubles_ends_after_64_steps(low, high):
    from fastmcmd.predictive.numerics.inverse import middle_double

    for is_lower in (True, False):
        low_end, high_end = np.array([low]), np.array([high])
        for _ in range(64):
            middle = middle_double(low_end, high_end)
            assert low_end <= middle <= high_end
            if is_lower:
                high_end = np.where(middle > low_end, middle, high_end)
            else:
                low_end = middle
        assert np.nextafter(low_end, np.inf) == high_end


def test_quantiles_of_scales_far_apart_take_few_steps(monkeypatch):
    """Halving the distance took 2,203 and 539 steps."""
    calls, cdf = [], fm.Mixture.cdf
    monkeypatch.setattr(fm.Mixture, "cdf", lambda self, y: calls.append(1) or cdf(self, y))
    for scale, quantile in ((5e-324, -5e-324), (0.5, 0.5 * stats.norm.ppf(0.2))):
        prediction = fm.Mixture([fm.Gaussian([0.0], scale), fm.Gaussian([1e160], 1.0)], [0.5, 0.5])
        assert prediction.quantile(0.1)[0] == pytest.approx(quantile, rel=1e-14, abs=0.0)
    assert 0 < len(calls) < 300
