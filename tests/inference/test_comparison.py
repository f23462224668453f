"""Paired differences of models agree with plain n x n definitions; simulation checks error rates."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from builders import noisy_sine
from simulations import comparison as simulations

import fastmcmd as fm
from fastmcmd.inference.comparison import (
    clusters_of,
    congruence_losses,
    holm,
    model_confidence_set,
    paired,
)

X_KERNEL, Y_KERNEL, LAM = fm.RBF(1.0), fm.RBF(1.5), 0.05


def sample(seed=0, n=80):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 1))
    x[3:7] = x[0]
    return rng, x, noisy_sine(rng, x)


def inner(a, s, b, t):
    """Return E k(Y_i, Y'_j) of Gaussians with means a, b and standard deviations s, t."""
    spread = 1 + 2 * 1.5 * (s**2 + t**2)
    return np.exp(-1.5 * (a[:, None] - b[None, :]) ** 2 / spread) / np.sqrt(spread)


def naive(x, y, first, second, weights=None):
    """Return terms (n,) of the difference of mean squared CCE of two Gaussian models by n x n matrices."""
    n = len(y)
    w = np.ones(n) if weights is None else weights
    c = oracle.coefficients(X_KERNEL, x, x, LAM, weights)  # (rows, points)
    smoother = (c * w) @ c.T / w.sum()
    (a, s), (b, t) = first, second
    pa, pb = inner(y, 0.0, a, s), inner(y, 0.0, b, t)
    aa, ab, bb = inner(a, s, a, s), inner(a, s, b, t), inner(b, t, b, t)
    # <(S Delta)_i, 2 p_i - M_A,i - M_B,i> with Delta_j = M_A,j - M_B,j
    gram = 2 * pa - 2 * pb - aa + ab - ab.T + bb
    return -np.einsum("ij,ij->i", smoother, gram)


@pytest.mark.parametrize("weighted", [False, True])
def test_terms_against_the_definition(weighted):
    rng, x, y = sample()
    weights = rng.integers(0, 4, len(y)).astype(float) if weighted else None
    mean = np.sin(x[:, 0])
    models = {"a": (mean + 0.3, 0.3), "b": (0.7 * mean, 0.5)}
    options = {"x_kernel": X_KERNEL, "y_kernel": Y_KERNEL, "lam": LAM}
    fitted = fm.ConditionalCongruence(**options).fit_each(
        x, y, {name: fm.Gaussian(*p) for name, p in models.items()}, weights
    )
    parts = congruence_losses([one.chance for one in fitted.values()])
    expected = naive(x, y, *models.values(), weights)
    if weighted:
        assert np.abs(expected[weights == 0]).max() == 0
        expected = expected[weights > 0]
    np.testing.assert_allclose(parts.pair(0, 1), expected, atol=2e-8)
    squares = [np.average(one.result_.values**2, weights=weights) for one in fitted.values()]
    assert parts.pair(0, 1).sum() == pytest.approx(squares[0] - squares[1], abs=1e-6)
    losses = parts.losses().sum(axis=0)
    assert losses[0] - losses[1] == pytest.approx(squares[0] - squares[1], abs=1e-6)
    assert (parts.pair(0, 0) == 0).all()
    comparison = fm.compare({name: fm.Gaussian(*p) for name, p in models.items()}, y, x,
                       sample_weight=weights, **options)  # fmt: skip
    (record,) = comparison.pairs.of("mean_cce")
    assert record.difference == pytest.approx(squares[0] - squares[1], abs=1e-6)
    assert record.low < record.difference < record.high


def test_wide_predictions_against_the_definition():
    """Pivots of outcomes would have to cover 600 lengths of the kernel."""
    _, x, y = sample()
    mean = np.sin(x[:, 0])
    models = {"a": (40 * mean, 30.0), "b": (-40 * mean, 40.0)}
    fitted = fm.ConditionalCongruence(x_kernel=X_KERNEL, y_kernel=Y_KERNEL, lam=LAM).fit_each(
        x, y, {name: fm.Gaussian(*p) for name, p in models.items()}
    )
    parts = congruence_losses([one.chance for one in fitted.values()])
    expected = naive(x, y, *models.values())
    np.testing.assert_allclose(
        parts.pair(0, 1), expected, rtol=0, atol=1e-6 * np.abs(expected).max()
    )


def test_draws_are_not_punished_for_their_noise():
    """The estimate subtracts what the sampling noise of l draws adds, as its definition does."""
    rng, x, y = sample()
    draws = np.sin(x) + 0.3 * rng.normal(size=(len(y), 4))
    prediction = fm.Gaussian(np.sin(x[:, 0]), 0.3)
    options = {"x_kernel": X_KERNEL, "y_kernel": Y_KERNEL, "lam": LAM}
    fitted = fm.ConditionalCongruence(**options).fit_each(
        x, y, {"draws": fm.Draws(draws), "exact": prediction}
    )
    parts = congruence_losses([one.chance for one in fitted.values()])
    c = oracle.coefficients(X_KERNEL, x, x, LAM)
    smoother = c @ c.T / len(y)
    k = np.exp(-1.5 * (draws[:, :, None] - draws[:, None, :]) ** 2)
    spread = (1 - k.mean(axis=(1, 2))) * 4 / 3
    np.testing.assert_allclose(parts.corrections[0], smoother.diagonal() * spread / 4, rtol=1e-6)
    assert parts.variances[0] > 0
    assert parts.variances[1] == 0
    # The variance of the noise against fresh draws.
    differences = []
    for seed in range(24):
        again = np.sin(x) + 0.3 * np.random.default_rng(seed).normal(size=(len(y), 4))
        one = fm.ConditionalCongruence(**options).fit(x, y, fm.Draws(again)).chance
        differences.append(congruence_losses([one, fitted["exact"].chance]).pair(0, 1).sum())
    assert abs(np.mean(differences)) < 4 * np.std(differences) / 24**0.5 + 1e-4
    assert 0.4 < parts.variances[0] / np.var(differences) < 2.5


def test_equal_models_tie():
    _, x, y = sample()
    models = {
        "a": fm.Gaussian(y * 0, 1.0),
        "b": fm.Gaussian(y * 0, 1.0),
        "far": fm.Gaussian(y + 3, 0.1),
    }
    comparison = fm.compare(models, y, x, x_kernel=X_KERNEL)
    for measure in ("mean_cce", "mean_crps", "rmse"):
        tie = comparison.pairs.of(measure)[0]
        assert (tie.difference, tie.p_value, tie.p_adjusted) == (0.0, 1.0, 1.0), measure
        assert comparison.starred(measure) == set()
    assert "tie" in comparison.pairs.table()
    assert comparison.confidence_set("mean_cce")["a"] == 1.0
    assert comparison.confidence_set("mean_cce")["far"] < 0.05


@pytest.mark.slow
def test_better_models_are_starred_and_printed():
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, 300)
    y = noisy_sine(rng, x)
    models = {"right": fm.Gaussian(np.sin(x), 0.3), "marginal": fm.Gaussian(0 * x, 0.8)}
    comparison = fm.compare(models, y, x, x_kernel=X_KERNEL)
    assert comparison.starred("mean_cce") == {0}
    assert comparison.starred("mean_crps") == {0}
    printed = str(comparison)
    assert "CCE squared, mean" in printed
    assert "95 % interval" in printed
    (record,) = comparison.pairs.of("mean_cce")
    assert record.high < 0
    assert record.p_value < 1e-4
    apart = {name: fm.evaluate(y, model, x, x_kernel=X_KERNEL) for name, model in models.items()}
    assert fm.compare(apart).pairs.of("mean_cce")[0].p_value == pytest.approx(
        record.p_value, rel=1e-3
    )
    apart["right"] = fm.evaluate(y, models["right"], x, x_kernel=fm.RBF(0.3))
    assert np.isnan(fm.compare(apart).pairs.of("mean_cce")[0].p_value)
    with pytest.raises(ValueError, match="different kernels"):
        fm.compare(apart).confidence_set("mean_cce")


def test_records_as_a_frame():
    pytest.importorskip("pandas")
    _, x, y = sample()
    comparison = fm.compare({"a": (0 * y, 1.0), "b": (y * 0, 2.0)}, y, x)
    frame = comparison.pairs.to_frame()
    assert list(frame) == [
        "measure", "first", "second", "difference", "low", "high", "p_value", "p_adjusted", "error",
        "reason",
    ]  # fmt: skip
    assert len(frame) == len(comparison.pairs) == len(comparison.pairs.to_dict())


def test_holm_and_clusters():
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])
    assert clusters_of(7, None, 3).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert clusters_of(2, None, 5).tolist() == [0, 0]
    assert clusters_of(4, None, None) is None


def test_intervals_of_sums_over_clusters():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 5)
    terms = rng.normal(size=60)
    interval = paired(terms, groups, 0.9)
    sums = terms.reshape(12, 5).sum(axis=1)
    assert interval.error == pytest.approx(np.sqrt(12) * sums.std(ddof=1))
    assert interval.difference == pytest.approx(terms.sum())
    assert paired(terms, np.repeat(np.arange(3), 20), 0.9) is None  # too few to say anything


def test_arguments_of_dependence():
    _, _x, y = sample()
    models = {"a": (0 * y, 1.0), "b": (0 * y, 2.0)}
    by_group = fm.compare(models, y, groups=np.repeat(list("abcdefgh"), 10))
    by_block = fm.compare(models, y, block_length=10)
    assert by_group.pairs.of("mean_crps")[0] == by_block.pairs.of("mean_crps")[0]
    assert by_block.pairs.of("mean_crps")[0] != fm.compare(models, y).pairs.of("mean_crps")[0]
    with pytest.raises(ValueError, match="groups and block_length"):
        fm.compare(models, y, groups=y, block_length=3)
    with pytest.raises(ValueError, match="groups"):
        fm.compare(models, y, groups=[1, 2])
    with pytest.raises(ValueError, match="block_length"):
        fm.compare(models, y, block_length=0)


def test_the_printed_set_has_the_models_of_the_confidence_set(rng):
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    models = {
        "right": fm.Gaussian(x, 1.0),
        "same": fm.Gaussian(x, 1.0),
        "wide": fm.Gaussian(x, 3.0),
    }
    compared = fm.compare(models, y)
    line = "the best by CRPS is right or same (model confidence set, 95 %)"
    assert "Comparison of 3 models at 200 rows" in repr(compared)
    assert compared.may_be_best == line == repr(compared).splitlines()[-1]
    assert line not in str(compared.pairs.table())
    assert fm.compare({name: models[name] for name in ("right", "wide")}, y).may_be_best == ""
    few = fm.compare(models, y, groups=np.arange(200) // 4)
    assert few.confidence_set()["wide"] < 0.05
    assert few.may_be_best == ""  # 50 groups
    three = fm.compare({**models, "again": models["right"]}, y).may_be_best
    assert three.startswith("the best by CRPS is right, same or again (")
    some = fm.compare(models, np.where(np.arange(200) < 9, np.nan, y), nan_policy="omit")
    assert "Comparison of 3 models at 191 of 200 rows" in repr(some)


def test_measures_of_a_comparison_have_short_names(rng):
    x = rng.normal(size=200)
    models = {"right": fm.Gaussian(x, 1.0), "wide": fm.Gaussian(x, 3.0)}
    compared = fm.compare(models, x + rng.normal(size=200), x)
    assert compared.pairs.of("crps")[0] == compared.pairs.of("mean_crps")[0]
    assert compared.pairs.of("ece")[0].measure == "regression_ece"
    assert len(compared.pairs.of("brier_score")) == 0  # these models have none
    assert compared.confidence_set("crps") == compared.confidence_set("mean_crps")
    assert compared.map(measure="crps").p_value == compared.map(measure="mean_crps").p_value
    for call in (
        compared.pairs.of,
        compared.confidence_set,
        lambda name: compared.map(measure=name),
    ):
        with pytest.raises(ValueError, match="measure is 'crsp'; one of 'mae'"):
            call("crsp")


def test_the_printed_set_counts_the_rows_that_were_used(rng):
    """Rows with NaN, without weight or with little of it are no rows of the set."""
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    models = {"a": (x, 1.0), "b": (x, 1.1), "c": (x, 3.0)}
    few = np.arange(200) < 90
    missing = fm.compare(models, np.where(few, y, np.nan), nan_policy="omit")
    assert missing.may_be_best == ""
    for least in (0.0, 1e-6):
        assert fm.compare(models, y, sample_weight=np.where(few, 1.0, least)).may_be_best == ""
    many = np.where(np.arange(200) < 100, 1.0, 0.0)
    assert fm.compare(models, y, sample_weight=many).may_be_best != ""
    assert fm.compare(models, y, sample_weight=many, groups=np.arange(200) // 2).may_be_best == ""
    exact = fm.compare(models, y, confidence=0.9999)  # more than 1,000 bootstrap samples can tell
    assert exact.may_be_best == ""


def test_infinite_losses_have_no_printed_set(rng):
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    heavy = fm.StudentT(0.5, x, 1.0)  # whose CRPS is infinite
    compared = fm.compare({"a": (x, 1.0), "b": (x, 2.0), "heavy": heavy}, y)
    assert compared["heavy"]["crps"] == np.inf
    assert compared.may_be_best == ""
    assert "model confidence set" not in repr(compared) + compared._repr_html_()


def test_confidence_set_against_a_loop():
    rng = np.random.default_rng(1)
    losses = rng.normal(size=(50, 3)) + np.array([0.0, 0.2, 1.0])
    confidence_set = model_confidence_set(losses, samples=400, random_state=0)
    assert confidence_set.max() == 1.0
    assert confidence_set[2] < 0.01
    assert (confidence_set == model_confidence_set(losses, samples=400, random_state=0)).all()
    # Two models: the statistic is the t of one difference, whose null is the bootstrap of it.
    two = losses[:, :2]
    d = two[:, 1] - two[:, 0]
    resampled_rows = np.random.default_rng(5).integers(0, 50, (20_000, 50))
    resampled = d[resampled_rows].sum(axis=1) - d.sum()
    expected = (np.abs(resampled) >= abs(d.sum())).mean()
    p = model_confidence_set(two, samples=4_000).min()
    assert p == pytest.approx(expected, abs=0.04)


@pytest.mark.slow
def test_small_simulation_of_error_rates():
    """Of 30 comparisons of equally wrong models at 5 %, more than 6 differ with probability 0.1 %."""
    rates = simulations.equally_wrong(n=100, repeats=30)
    assert rates["called different"] <= 6 / 30
    assert rates["coverage"] >= 24 / 30


@pytest.mark.slow
@pytest.mark.parametrize("power", [-660, 660])
def test_conclusions_do_not_depend_on_the_unit(rng, power):
    """Squares of outcomes and scores exceed float64; intervals and p-values stay finite."""
    x = rng.normal(size=(120, 2))
    y, mean, std = x[:, 0] + rng.normal(size=120), x[:, 0], 0.6 + np.abs(x[:, 1])

    def compared(unit):
        models = {"A": (mean * unit, unit), "B": (mean * unit / 2, std * unit)}
        return fm.compare(models, y * unit, x, n_boot=50)

    comparison, scaled, unit = compared(1.0), compared(2.0**power), 2.0**power
    of_unit = {"mae", "rmse", "mean_crps", "bias", "mean_interval_score", "sharpness"}
    measures, scaled_measures = (
        {one.name: one for one in one_comparison.evaluations["B"].measured}
        for one_comparison in (comparison, scaled)
    )
    for name in [*of_unit, "r2", "pearson", "variance_variation"]:
        factor = unit if name in of_unit else 1.0
        for part in ("value", "low", "high"):
            number = getattr(measures[name], part) * factor
            assert getattr(scaled_measures[name], part) == pytest.approx(number, rel=1e-9), name
    pairs, scaled_pairs = (
        {one.measure: one for one in one_comparison.pairs}
        for one_comparison in (comparison, scaled)
    )
    for name in [*of_unit - {"sharpness"}, "r2", "pearson"]:
        one, other = pairs[name], scaled_pairs[name]
        assert other.p_value == pytest.approx(one.p_value, rel=1e-6)
        if np.isfinite(one.low):
            ends = [one.low * unit, one.high * unit]
            assert [other.low, other.high] == pytest.approx(ends, rel=1e-6)
    assert scaled.confidence_set("mean_crps") == comparison.confidence_set("mean_crps")
    of_scaled, of_plain = (
        one_comparison.map("A", "B", simulations=50) for one_comparison in (scaled, comparison)
    )
    np.testing.assert_allclose(of_scaled.band, of_plain.band * unit)


def test_differences_of_accuracies_have_the_sign_of_the_accuracies():
    """The difference had the sign of the difference of the shares of errors."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 1], 300)
    y = np.array(list("abc"))[[rng.choice(3, p=row) for row in p]]
    models = {
        "right": fm.Categorical(p, classes=list("abc")),
        "mixed": fm.Categorical(p[:, [1, 2, 0]], classes=list("abc")),
    }
    comparison = fm.compare(models, y)
    (pair,) = comparison.pairs.of("accuracy")
    gap = comparison["right"]["accuracy"] - comparison["mixed"]["accuracy"]
    assert pair.difference == pytest.approx(gap)
    assert 0 < pair.low < gap < pair.high
    assert comparison.starred("accuracy") == {0}
