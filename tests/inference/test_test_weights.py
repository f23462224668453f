"""Row weights in the exact test: statistics by definition, size, rows that count, bad input."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from builders import sine_model

import fastmcmd as fm
from fastmcmd._base.progress import Progress
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.forecast_calibration import forecast_calibration
from fastmcmd.inference.outcome_features import landmark_features
from fastmcmd.inference.relevance import excess_of
from fastmcmd.inference.smoother import Smoother
from fastmcmd.inference.statistics import project

sys.path.insert(0, str(Path(__file__).parents[1] / "simulations"))
import congruence_test as simulation
import relevance as relevance_simulation


def smoothing(x, w, kernel, lam):
    """Return the matrix H of ``mean given x = H P``, by the definition with weights."""
    gram = kernel(x)
    positive = w > 0
    h = np.zeros_like(gram)
    shifted = gram[np.ix_(positive, positive)] + w.sum() * lam * np.diag(1 / w[positive])
    h[:, positive] = gram[:, positive] @ np.linalg.inv(shifted)
    return h


@pytest.fixture
def weighted(rng):
    """Return inputs (40, 2), and weights with mean 1, some of them 0."""
    w = rng.exponential(size=40) * (rng.random(40) > 0.2)
    return rng.standard_normal((40, 2)), w / w.mean()


def test_sums_by_their_definition(rng, weighted):
    (x, w), count, lam = weighted, 19, 0.02
    y = rng.integers(0, 4, len(x)).astype(float)[:, None]
    outcomes = exchangeable_outcomes(y, fm.Poisson(np.full(len(x), 1.5)), count, 0)
    pool = outcomes.block(0)[:, :, 0]
    kernel = fm.RBF(0.8)
    basis = Smoother.of(fm.RBF(0.5), x, len(x)).basis(x, w)
    energy = basis.energy(lam)
    features = [landmark_features(kernel, pool[:, :, None], rng, "y")]
    sums = project(outcomes, features, basis, x, energy, Progress(False, 0.0), weights=w)
    h = smoothing(x, w, fm.RBF(0.5), lam)
    corrected = (count + 1) / count
    values = kernel(pool.reshape(-1)).reshape(*pool.shape, *pool.shape)
    centred = values - values.mean(axis=1, keepdims=True)
    centred = centred - centred.mean(axis=3, keepdims=True)
    for b in range(count + 1):
        products = centred[:, b, :, b] * corrected  # <e_i, e_j>
        mean_square = np.einsum("q,qi,ij,qj->", w / w.sum(), h, products, h)
        actual = energy @ np.square(sums.outcomes[0][:, b].astype(float)).sum(axis=1)
        assert actual == pytest.approx(mean_square, rel=3e-4)
        assert sums.spread[0, b] == pytest.approx(w @ np.diag(products) / w.sum(), rel=1e-4)
        noise = np.einsum("q,qi,i->", w / w.sum(), h * h, np.diag(products))
        assert sums.noise[b] == pytest.approx(noise, rel=3e-4)


def test_skce_by_its_definition(rng, weighted):
    (x, w), count = weighted, 19
    y = rng.standard_normal((len(x), 1))
    outcomes = exchangeable_outcomes(y, fm.Gaussian(np.zeros(len(x)), 1.0), count, 3)
    basis = Smoother.of(fm.RBF(0.5), x, len(x)).basis(x, w)
    features = [landmark_features(fm.RBF(0.5), outcomes.block(0), rng, "y")]
    sums = project(
        outcomes, features, basis, x, basis.energy(0.01), Progress(False, 0.0),
        weights=w, keep_residuals=True,
    )  # fmt: skip
    skce = forecast_calibration(basis, x, sums, 0.01, w).skce
    e = sums.residuals.astype(float)
    pairs = np.outer(w, w) * (1 - np.eye(len(x)))
    assert skce == pytest.approx((pairs * fm.RBF(0.5)(x) * (e @ e.T)).sum() / pairs.sum(), rel=1e-3)


def test_excess_by_its_definition(rng, weighted):
    (x, w), lam = weighted, 0.02
    n, e = len(x), rng.standard_normal((len(x), 5)) + 0.5
    basis = Smoother.of(fm.RBF(0.5), x, n).basis(x, w)
    excess = excess_of(basis, x, e.astype(np.float32), lam, rng, w)
    h = smoothing(x, w, fm.RBF(0.5), lam)
    s = h.T @ np.diag(w) @ h / w.sum()
    off_diagonal = s - np.diag(np.diag(s))
    products = off_diagonal * (e @ e.T)
    assert excess.value == pytest.approx(products.sum(), rel=1e-4)
    variance = 2 * np.square(products).sum()
    assert abs(excess.quadratic.mean()) < 5 * np.sqrt(variance / 199)
    residuals = np.array(
        [e[i] - np.delete(h[i], i) @ np.delete(e, i, 0) / (1 - h[i, i]) for i in range(n)]
    )
    terms = 4 * np.square(np.einsum("ir,ir->i", residuals, off_diagonal @ e)).sum()
    expected = terms - 2 * np.square(excess.quadratic).mean()
    assert excess.error**2 == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("options", [{}, {"statistic": "max"}, {"condition_on": "forecast"}])
def test_only_ratios_count(rng, options):
    x, y, prediction = sine_model(rng, 200)
    w = np.exp(x)
    one = fm.congruence_test(x, y, prediction, weights=w, **options)
    other = fm.congruence_test(x, y, prediction, weights=1e-30 * w, **options)
    assert one.p_value == other.p_value
    assert one.statistic == pytest.approx(other.statistic, rel=1e-6)
    equal = fm.congruence_test(x, y, prediction, weights=np.full(len(x), 7.0), **options)
    none = fm.congruence_test(x, y, prediction, **options)
    assert equal.p_value == none.p_value
    assert equal.statistic == pytest.approx(none.statistic, rel=1e-6)
    assert one.statistic != pytest.approx(none.statistic, rel=1e-3)


@pytest.mark.parametrize("options", [{}, {"statistic": "max"}, {"groups": np.arange(200) // 5}])
def test_rows_of_weight_zero_do_not_count(rng, options):
    x, y, prediction = sine_model(rng, 200)
    wrong = x > 1
    y = y + 5.0 * wrong
    without = fm.congruence_test(x, y, prediction, weights=np.where(wrong, 0.0, 1.0), **options)
    only = fm.congruence_test(x, y, prediction, weights=np.where(wrong, 1.0, 0.0), **options)
    assert without.p_value > 0.05
    assert only.p_value <= 0.02
    assert fm.congruence_test(x, y, prediction, **options).p_value <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gaussian", "Poisson", "draws"])
def test_p_values_of_right_models_are_not_too_small(kind):
    """P(p <= .1) is .1; by the binomial, the chance of failing is 1e-4 for each kind."""
    values = simulation.p_values(kind, 40, 60, seed=6, simulations=19, weighted=True)
    assert (values <= 0.1).sum() <= 16
    assert values.mean() > 0.4


@pytest.mark.slow
def test_relevance_at_its_boundary():
    """P(p <= .05) is at most .05; by the binomial, the chance of failing is 1e-3."""
    values, _ = relevance_simulation.p_values("mean + .2", 100, 60, seed=3, weighted=True)
    assert (values <= 0.05).sum() <= 9


@pytest.mark.slow
def test_an_evaluation_of_weighted_rows_is_tested(rng):
    x, y, prediction = sine_model(rng, 200)
    wrong = x > 1
    y = y + 2.0 * wrong
    w = np.where(wrong, 0.0, np.exp(x))
    weighted = fm.evaluate(y, prediction, x, sample_weight=w)
    alone = fm.congruence_test(x, y, prediction, weights=w)
    assert weighted.test.p_value == alone.p_value > 0.05
    assert repr(weighted).startswith("No misfit beyond chance")
    other = fm.evaluate(y, prediction, x, sample_weight=np.where(x < -1, 0.0, 1.0))
    assert other.test.p_value == 1 / 200
    verdict = other.verdict()
    assert verdict.wrong
    assert verdict.test.p_value == other.test.p_value
    own_verdict = fm.verdict(x, y, prediction, weights=np.where(x < -1, 0.0, 1.0))
    assert own_verdict.sentence == verdict.sentence
    assert len(own_verdict.diagnosis.shift) == (x >= -1).sum()
    assert not fm.verdict(x, y, prediction, weights=w).wrong


def test_the_command_line_takes_weights(rng, tmp_path, capsys):
    from fastmcmd.cli import main

    x, y, _ = sine_model(rng, 200)
    table = np.column_stack([x, y + 2.0 * (x > 1), np.sin(x), np.full(len(x), 0.3), 1.0 * (x <= 1)])
    path = tmp_path / "rows.csv"
    np.savetxt(path, table, delimiter=",", header="x,y,mean,std,w", comments="")
    options = ["--y", "y", "--x", "x", "--format", "json"]
    values = []
    for more in ([], ["--weights", "w"]):
        main(["test", str(path), *options, *more])
        values.append(json.loads(capsys.readouterr().out)["p_value"])
    assert values[0] == 1 / 200
    assert values[1] > 0.05


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "weights"),
        (-np.ones(200), "weights has negative values"),
        (np.zeros(200), "weights are all zero"),
        (np.full(200, np.nan), "weights"),
        (["a"] * 200, "weights"),
    ],
)
def test_bad_weights(rng, weights, message):
    x, y, prediction = sine_model(rng, 200)
    with pytest.raises((ValueError, TypeError), match=message):
        fm.congruence_test(x, y, prediction, weights=weights)
    with pytest.raises((ValueError, TypeError), match=message):
        fm.verdict(x, y, prediction, weights=weights)


def test_an_infinite_deviation_in_a_row_of_weight_0_does_not_count():
    """Infinity times 0 is NaN: the most extreme outcome must be that of the rows that count."""
    x, y = np.linspace(-1, 1, 40), np.linspace(-1.5, 1.5, 40)
    std, w = np.ones(40), np.ones(40)
    w[3] = 0.0
    y_far, std_tiny = y.copy(), std.copy()
    y_far[3], std_tiny[3] = 1e300, 1e-10
    far = fm.congruence_test(x, y_far, (0 * y, std_tiny), weights=w, simulations=39)
    scores = {line.statistic: line.score for line in far.evidence}
    assert np.isfinite(scores["most extreme outcome"])
    assert scores["most extreme outcome"] < 3
