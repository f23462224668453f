"""Recalibrators that need inputs: repairs, no harm to right models, files, errors."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special

import fastmcmd as fm
from fastmcmd.inference.corrections import OutputLattice
from fastmcmd.inference.tilting import NODES, Nodes, nodes_of, normal_levels, score_tilts
from fastmcmd.recalibration import (
    ConditionalRescaling,
    IsotonicCDF,
    StdScaling,
    TiltedCDF,
    TiltedCounts,
    WitnessTilting,
)


def two_modes(n, seed):
    """Return x, y with two modes, a Gaussian model with the right mean and variance, and the truth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    y = x + 0.8 * rng.choice([-1.0, 1.0], n) + 0.35 * rng.normal(size=n)
    truth = fm.Mixture([fm.Gaussian(x - 0.8, 0.35), fm.Gaussian(x + 0.8, 0.35)], [0.5, 0.5])
    return x, y, fm.Gaussian(x, np.hypot(0.8, 0.35)), truth


def biased(n, seed):
    """Return x, y, a model that is too high on one side and too narrow on the other, and the truth."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    y = np.sin(2 * x) + 0.2 * rng.normal(size=n)
    model = fm.Gaussian(np.sin(2 * x) + 0.4 * (x > 1), np.where(x < -1, 0.1, 0.2))
    return x, y, model, fm.Gaussian(np.sin(2 * x), 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "problem", "share"),
    [(ConditionalRescaling, biased, 0.85), (WitnessTilting, two_modes, 0.7)],
)
def test_mends_most_of_the_gap_to_the_truth(kind, problem, share):
    x, y, model, _ = problem(1000, 0)
    new, outcome, wrong, truth = problem(1000, 1)
    mended = kind().fit(model, y, x).transform(wrong, new)
    before, after, best = (fm.nll(outcome, one) for one in (wrong, mended, truth))
    assert (before - after) / (before - best) >= share


@pytest.mark.parametrize("kind", [ConditionalRescaling, WitnessTilting])
def test_leaves_right_models_alone(kind):
    losses = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(400, 2))
        y = x[:, 0] + 0.5 * rng.normal(size=400)
        recalibrator = kind(landmarks=40).fit(fm.Gaussian(x[:, 0], 0.5), y, x)
        new = rng.normal(size=(500, 2))
        outcome = new[:, 0] + 0.5 * rng.normal(size=500)
        right = fm.Gaussian(new[:, 0], 0.5)
        mended = recalibrator.transform(right, new)
        losses.append(fm.nll(outcome, mended) - fm.nll(outcome, right))
    assert np.mean(losses) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ConditionalRescaling, WitnessTilting])
def test_counts_stay_counts(kind):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (2, 600))
    mean = np.exp(1 + 0.5 * x)
    y = rng.poisson(rng.gamma(2, mean / 2))
    models = [fm.Poisson(one * 1.2) for one in mean]
    mended = kind().fit(models[0], y[0], x[0]).transform(models[1], x[1])
    assert mended.discrete
    truth = fm.NegativeBinomial(mean[1], 0.5)
    before, after, best = (fm.nll(y[1], one) for one in (models[1], mended, truth))
    assert (before - after) / (before - best) > 0.8
    assert mended.log_prob(np.full(600, 0.5)).max() == -np.inf


def tilted():
    levels = special.ndtr(np.linspace(-6.5, 6.5, 255))
    levels = np.concatenate([[0.0], levels, [1.0]])
    log_weights = np.sin(np.linspace(0, [[9.0], [5.0], [3.0]], 257, axis=1)[:, :, 0])
    return TiltedCDF(fm.Gaussian([0.0, 1.0, 5.0], [1.0, 2.0, 0.1]), levels, np.exp(log_weights))


@pytest.mark.slow
def test_tilted_distributions_are_proper():
    prediction = tilted()
    for row, (centre, std) in enumerate([(0.0, 1.0), (1.0, 2.0), (5.0, 0.1)]):
        one = prediction.take(np.array([row]))
        ends = centre + std * np.linspace(-6.5, 6.5, 27)

        def density(y, one=one):
            return float(np.exp(one.log_prob([y])[0]))

        low, high = centre - 9 * std, centre + 9 * std
        total = integrate.quad(density, low, high, points=ends, limit=200)[0]
        mean = integrate.quad(lambda y: y * density(y), low, high, points=ends, limit=200)[0]
        assert total == pytest.approx(1, abs=1e-6)
        assert one.mean[0] == pytest.approx(mean, abs=1e-4 * std)
        middle = centre + 0.3 * std
        below = integrate.quad(density, low, middle, points=ends[ends < middle], limit=200)[0]
        assert one.cdf([middle])[0] == pytest.approx(below, abs=1e-6)
        assert one.sf([middle])[0] == pytest.approx(1 - below, abs=1e-6)
        score = integrate.quad(
            lambda y, one=one, middle=middle: (one.cdf([y])[0] - (y >= middle)) ** 2,
            low,
            high,
            points=[middle],
            limit=200,
        )[0]
        assert one.crps([middle])[0] == pytest.approx(score, abs=5e-4 * std)
    levels = np.array([0.0, 1e-6, 0.01, 0.5, 0.99, 1.0])
    quantiles = prediction.quantile(levels)
    assert quantiles.shape == (3, 6)
    assert (np.diff(quantiles) > 0).all()
    for column in range(1, 5):
        np.testing.assert_allclose(prediction.cdf(quantiles[:, column]), levels[column], rtol=1e-9)
    draws = prediction.sample(20000, 0)
    np.testing.assert_allclose(draws.mean(axis=1), prediction.mean, atol=0.05)
    np.testing.assert_allclose(draws.std(axis=1), prediction.std, rtol=0.05)
    _, weights = prediction.nodes()
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert prediction.sf([9.0, 1.0, 5.0])[0] > 0  # 1e-19: keeps its digits


def test_tilted_counts_are_sums_over_their_support():
    inner = fm.NegativeBinomial([2.0, 7.0], 0.5)
    log_weights = np.random.default_rng(0).normal(size=(2, 200))
    recalibrated_prediction = TiltedCounts(inner, np.zeros(2), log_weights)
    counts = np.arange(200.0)
    for row in range(2):
        one = inner.take(np.full(200, row))
        masses = np.exp(one.log_prob(counts) + log_weights[row])
        masses /= masses.sum()
        take = recalibrated_prediction.take(np.full(200, row))
        np.testing.assert_allclose(np.exp(take.log_prob(counts)), masses, atol=1e-12)
        np.testing.assert_allclose(take.cdf(counts), np.cumsum(masses), atol=1e-12)
        np.testing.assert_allclose(take.cdf_below(counts), np.cumsum(masses) - masses, atol=1e-12)
        np.testing.assert_allclose(take.sf(counts) + take.cdf(counts), 1)
        np.testing.assert_allclose(recalibrated_prediction.mean[row], masses @ counts)
        for level in (0.1, 0.5, 0.9):
            assert recalibrated_prediction.quantile(level)[row] == np.searchsorted(
                np.cumsum(masses), level
            )
    np.testing.assert_allclose(
        recalibrated_prediction.sample(20000, 0).mean(axis=1),
        recalibrated_prediction.mean,
        rtol=0.05,
    )


@pytest.mark.parametrize("kind", [ConditionalRescaling, WitnessTilting])
def test_saved_and_loaded(kind, tmp_path):
    x, y, model, _ = biased(300, 0)
    fitted = kind(fm.RBF(1.0), lam=0.01, landmarks=40).fit(model, y, x)
    fitted.save(tmp_path / "fitted.npz")
    loaded = fm.load(tmp_path / "fitted.npz")
    assert repr(loaded) == repr(fitted)
    assert "lam_=0.01" in repr(fitted)
    assert "array" not in repr(fitted)
    one, other = (recalibrator.transform(model, x) for recalibrator in (fitted, loaded))
    np.testing.assert_array_equal(one.cdf(y), other.cdf(y))


@pytest.mark.parametrize("kind", [ConditionalRescaling, WitnessTilting])
def test_inputs_are_needed(kind):
    x, y, model, _ = biased(100, 0)
    with pytest.raises(ValueError, match="x is missing"):
        kind().fit(model, y)
    fitted = kind(landmarks=20, lam=0.01).fit(model, y, x)
    with pytest.raises(ValueError, match="x is missing"):
        fitted.transform(model)
    with pytest.raises(ValueError, match="x has 99 rows"):
        fitted.transform(model, x[:99])
    with pytest.raises(ValueError, match="x has 2 columns"):
        fitted.transform(model, np.zeros((100, 2)))
    with pytest.raises(ValueError, match="x"):
        kind().fit(model, y, x[:99])


def test_others_take_inputs_and_ignore_them():
    x, y, model, _ = biased(100, 0)
    with_x = IsotonicCDF().fit(model, y, x).transform(model, x)
    np.testing.assert_array_equal(with_x.cdf(y), IsotonicCDF().fit_transform(model, y).cdf(y))
    with pytest.raises(ValueError, match="x has 99 rows"):
        StdScaling().fit(model, y, x[:99])


@pytest.mark.parametrize("kind", [ConditionalRescaling, WitnessTilting])
def test_rows_with_nan_are_left_out(kind):
    x, y, model, _ = biased(200, 0)
    holes = x.copy()
    holes[7] = np.nan
    other_rows = np.delete(np.arange(200), 7)
    with pytest.raises(ValueError, match="x"):
        kind().fit(model, y, holes)
    one = kind(landmarks=30, lam=0.01).fit(model, y, holes, nan_policy="omit")
    other = kind(landmarks=30, lam=0.01).fit(model.take(other_rows), y[other_rows], x[other_rows])
    np.testing.assert_allclose(
        one.transform(model, x).cdf(y), other.transform(model, x).cdf(y), rtol=1e-9
    )


@pytest.mark.parametrize("kind", [ConditionalRescaling, WitnessTilting])
def test_refuses_what_cannot_be_mended(kind):
    x = np.linspace(0, 1, 40)
    with pytest.raises(ValueError, match="classes"):
        kind().fit(fm.Categorical(np.full((40, 2), 0.5)), np.zeros(40), x)
    with pytest.raises(ValueError, match="at least 10"):
        kind().fit(fm.Gaussian(x[:5], 1.0), x[:5], x[:5])
    with pytest.raises((TypeError, ValueError), match="x_kernel"):
        kind("rbf")
    with pytest.raises(ValueError, match="lam"):
        kind(lam="best")


def test_draws_are_moved_and_not_tilted():
    x, y, _, truth = biased(300, 0)
    draws = fm.Draws(truth.sample(30, 1) + 1.0)
    mended = ConditionalRescaling(landmarks=40).fit(draws, y, x).transform(draws, x)
    assert isinstance(mended, fm.Draws)
    assert mended.crps(y).mean() < 0.5 * draws.crps(y).mean()
    with pytest.raises(ValueError, match="no density"):
        WitnessTilting().fit(draws, y, x)


@pytest.mark.filterwarnings("error")
def test_outcomes_far_from_all_predictions():
    """Weights of tilts beyond the range of doubles fall on nodes without mass."""
    prediction = fm.Gaussian(np.linspace(0.1, 0.9, 24), 0.3)
    x = np.linspace(0, 1, 24)[:, None]
    mended = WitnessTilting().fit(prediction, np.arange(24.0), x).transform(prediction, x)
    assert np.isfinite(mended.mean).all()


def test_tilts_of_nodes_without_mass():
    masses = np.array([[0.5, 0.5, 0.0]])
    nodes = Nodes(np.zeros((1, 3)), masses, np.zeros(1), np.ones(1), OutputLattice.of(1.0))
    weights = np.array([[0.0, np.log(3.0), 2000.0]])
    np.testing.assert_allclose(nodes.tilted(weights), [[0.25, 0.75, 0.0]], rtol=1e-15)
    np.testing.assert_allclose(nodes.log_normaliser(weights), [np.log(2.0)], rtol=1e-15)


def test_constant_outcomes_and_equal_inputs():
    flat = ConditionalRescaling().fit(fm.Gaussian(np.zeros(60), 1.0), np.zeros(60), np.ones(60))
    narrowed = flat.transform(fm.Gaussian(np.zeros(2), 1.0), np.ones(2))
    assert (narrowed.std <= 1).all()
    assert np.isfinite(narrowed.std).all()


def test_the_learned_score_is_that_of_the_mended_density(rng):
    """Outcomes far outside were scored as if not tilted: every tilt down of the rest looked like a gain."""
    prediction = fm.Gaussian(np.zeros(5), 1.0)
    y = np.array([-30.0, -6.8, 0.3, 7.0, 12.0])
    nodes = nodes_of(prediction, 0.0, 1.0, NODES)
    coefficients = rng.standard_normal((5, nodes.map.size))
    heights = nodes.heights(coefficients)
    gain = score_tilts(nodes, heights, (nodes.features(y) * coefficients).sum(axis=1))
    tilted = TiltedCDF(prediction, normal_levels(NODES)[0], np.exp(heights))
    np.testing.assert_allclose(gain, tilted.log_prob(y) - prediction.log_prob(y), atol=2e-3)


def test_tilting_does_no_harm_where_outcomes_lie_far_outside(rng):
    """A gain of 2e7 was announced, and the log score became infinite."""
    x = rng.uniform(-2, 2, 300)
    y = np.sin(x) + 0.3 * rng.standard_normal(300) + np.where(x > 1, 6.0, 0.0)
    wrong = fm.Gaussian(np.sin(x), 0.3)
    mended = WitnessTilting().fit(wrong, y, x)
    assert mended.gain_ < fm.nll(y, wrong)
    assert fm.nll(y, mended.transform(wrong, x)) <= fm.nll(y, wrong)


def test_one_wide_row_does_not_widen_all_others():
    """3,000 counts, of which one row needs 1,300 nodes and most 130, took four minutes to tilt."""
    rng = np.random.default_rng(0)
    mean = np.append(rng.uniform(1, 3, 199), 60.0)
    prediction = fm.NegativeBinomial(mean, 0.5)
    nodes = nodes_of(prediction, 0.0, 1.0, 97)
    rectangular = replace(nodes, counts=None)
    parts = nodes._parts
    assert sum(len(rows) * count for rows, count in parts) < 0.3 * nodes.values.size
    assert sorted(np.concatenate([rows for rows, _ in parts])) == list(range(200))
    coefficients = 0.1 * rng.normal(size=(200, nodes.map.size))
    tilted = [one.tilted(one.heights(coefficients)) for one in (nodes, rectangular)]
    np.testing.assert_allclose(*tilted, atol=1e-6)
    np.testing.assert_allclose(nodes.means(tilted[0]), rectangular.means(tilted[1]), atol=1e-5)


@pytest.mark.parametrize("kind", [ConditionalRescaling, WitnessTilting])
def test_a_correction_that_does_nothing_says_so(kind):
    """Only `gain_=0` said it, and a comparison that scores "differ by 2.53e-16"."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    right = fm.Gaussian(x, 1.0)
    fitted = kind(landmarks=40).fit(right, y, x)
    assert "predictions do not change" in repr(fitted)
    assert "change" not in repr(kind())
    wrong = kind(landmarks=40).fit(fm.Gaussian(x + 1, 1.0), y, x)
    assert "do not change" not in repr(wrong)
    same = fm.compare({"before": right, "after": fitted.transform(right, x)}, y)
    assert "the negative log-likelihood is the same" in same.sentence
