"""The shape of the tails of differences, and whether their mean has an interval."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.inference.comparison import paired
from fastmcmd.inference.tails import tail_shape, why_no_interval


@pytest.mark.parametrize("shape", [-1.0, -0.4, 0.0, 0.15, 0.3])
def test_quantiles_of_the_generalised_pareto_distribution_have_its_shape(shape):
    """A tail above a threshold is a generalised Pareto distribution of the same shape."""
    levels = (np.arange(20_000) + 0.5) / 20_000
    values = stats.genpareto(shape).ppf(levels)
    assert tail_shape(values) == pytest.approx(shape, abs=0.01)


def test_shape_is_that_of_the_definition(rng):
    values = rng.standard_t(4, 400)
    ascending = sorted(values)
    excess = [one - ascending[-61] for one in ascending[-60:]]  # 3 sqrt(400)
    second = np.mean([abs(a - b) for a, b in combinations(excess, 2)]) / 2
    assert tail_shape(values) == pytest.approx(2 - np.mean(excess) / second, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e9, 1e300])
def test_shape_does_not_depend_on_unit_and_origin(rng, scale):
    values = rng.standard_t(4, 400)
    values *= 1.7e8 / np.abs(values).max()  # times 1e300: next to the largest float64
    assert tail_shape(scale * values) == pytest.approx(tail_shape(values), rel=1e-9)
    assert tail_shape(values + 1e6) == pytest.approx(tail_shape(values), rel=1e-6)
    assert tail_shape(rng.permutation(values)) == tail_shape(values)


def test_ties():
    assert tail_shape(np.zeros(200)) == tail_shape(np.full(200, 7.0)) == -np.inf
    rare = np.zeros(200)
    rare[:29] = 1.0
    assert tail_shape(rare) == np.inf  # these few decide the mean
    assert tail_shape(-rare) == -np.inf
    rare[29] = 1.0
    assert tail_shape(rare) == -np.inf
    counts = np.repeat([0.0, 1.0, 2.0, 3.0], [100, 60, 30, 10])
    excess = np.repeat([1.0, 2.0], [30, 10])  # the 40 largest, above 1
    naive = np.mean([abs(a - b) for a, b in combinations(excess, 2)]) / 2
    assert tail_shape(counts) == pytest.approx(2 - excess.mean() / naive)
    noisy = counts + 1e-14 * np.random.default_rng(0).normal(size=200)  # rounding splits no tie
    assert tail_shape(noisy) == pytest.approx(tail_shape(counts))
    with pytest.raises(ValueError, match="30 values have no tail"):
        tail_shape(np.arange(30.0))


def test_reasons(rng):
    normal = rng.normal(size=1_000)
    assert why_no_interval(normal) == ""
    assert why_no_interval(normal[:199]) == "fewer than 200 rows"
    assert why_no_interval(normal[:199], "clusters") == "fewer than 200 clusters"
    for one in (np.exp(2 * normal), -np.exp(2 * normal)):  # either tail
        assert why_no_interval(one) == "a few rows decide its mean"


def test_terms_without_bounds_keep_their_standard_error(rng):
    terms = np.exp(2 * rng.normal(size=600)) / 600
    plain, cautious = paired(terms, None, 0.95), paired(terms, None, 0.95, unbounded=True)
    assert (cautious.difference, cautious.error) == (plain.difference, plain.error)
    assert np.isnan([cautious.low, cautious.high, cautious.p_value]).all()
    assert cautious.reason == "a few rows decide its mean"
    light = rng.normal(size=600)
    assert paired(light, None, 0.95, unbounded=True) == paired(light, None, 0.95)
    clusters = np.arange(600) // 6
    assert paired(light, clusters, 0.95, unbounded=True).reason == "fewer than 200 clusters"
    equal = paired(np.zeros(50), None, 0.95, 1.0, unbounded=True)
    assert (equal.low, equal.high, equal.p_value) == (0.0, 0.0, 1.0)  # the same predictions


def test_many_terms_are_judged_by_sums_of_consecutive_ones(rng):
    terms = rng.exponential(size=50_500) ** 2
    terms -= terms.mean()
    assert why_no_interval(terms) == "a few rows decide its mean"
    sums = np.add.reduceat(terms, np.arange(0, len(terms), 51))
    assert why_no_interval(sums) == paired(terms, None, 0.95, unbounded=True).reason == ""
    terms[7] = 40 * np.abs(sums).max()
    assert paired(terms, None, 0.95, unbounded=True).reason == "a few rows decide its mean"


def heavy(n=400):
    """Return a comparison whose outcomes have three degrees of freedom, and its inputs."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=n)
    y = x + rng.standard_t(3, n)
    models = {"normal": fm.Gaussian(x, 1.7), "shifted": fm.Gaussian(x + 0.7, 1.2)}
    return models, y, x


def test_a_comparison_of_heavy_tails_rests_on_the_crps():
    models, y, x = heavy()
    both = fm.compare(models, y, x, test=False)
    (one,) = both.pairs.of("nll")
    losses = [-model.log_prob(y) for model in models.values()]
    expected = np.std(losses[0] - losses[1], ddof=1) / 20
    assert one.error == pytest.approx(expected, rel=1e-9)
    assert one.difference == pytest.approx(both["normal"]["nll"] - both["shifted"]["nll"])
    assert np.isnan([one.low, one.high, one.p_value, one.p_adjusted]).all()
    assert both.starred("nll") == set()
    assert both.sentence.startswith("normal is better than shifted beyond chance")
    assert "its CRPS is" in both.sentence
    note = (
        "no interval for the negative log-likelihood: a few rows decide its mean; compare the CRPS"
    )
    for text in (repr(both), both.differences()):
        assert note in text
        assert f"standard error {expected:.2g}" in text
    assert note.split(";", maxsplit=1)[0] in both.pairs.of("nll").table()
    assert "compare" not in both.pairs.of("nll").table()
    record = both.pairs.of("nll").to_dict()[0]
    assert (record["low"], record["p_value"]) == (None, None)
    assert record["reason"] == "a few rows decide its mean"
    (crps,) = both.pairs.of("mean_crps")
    reach = stats.t.ppf(0.975, 399) * crps.error
    assert (crps.low, crps.high) == pytest.approx(
        (crps.difference - reach, crps.difference + reach)
    )
    for call, answer in (
        (both.confidence_set, "model confidence set"),
        (both.map, "map of differences"),
    ):
        with pytest.raises(ValueError, match=f"nll has no {answer}: a few rows decide its mean"):
            call(measure="nll")


@pytest.mark.usefixtures("unpainted")
def test_the_report_says_why_there_is_no_interval(tmp_path):
    models, y, _ = heavy()
    page = fm.compare(models, y).report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert (
        "No interval for the negative log-likelihood: a few rows decide its mean; compare" in page
    )
    assert page.count("standard error") == 1


def test_a_comparison_of_few_rows_rests_on_the_crps(rng):
    y = rng.normal(size=199)
    both = fm.compare({"right": (0 * y, 1.0), "wide": (0 * y, 3.0)}, y)
    assert both.pairs.of("nll")[0].reason == "fewer than 200 rows"
    assert "its CRPS is" in both.sentence
    assert "fewer than 200 rows; compare the CRPS" in both.differences()


def test_light_tails_have_all_as_before(rng):
    y = rng.normal(size=1_000)
    models = {"right": (0 * y, 1.0), "shifted": (0 * y + 0.2, 1.0)}
    both = fm.compare(models, y)
    (one,) = both.pairs.of("nll")
    losses = [-fm.Gaussian(*model).log_prob(y) for model in models.values()]
    test = stats.ttest_rel(*losses)
    assert one.p_value == pytest.approx(test.pvalue, rel=1e-7)
    interval = test.confidence_interval(0.95)
    np.testing.assert_allclose((one.low, one.high), (interval.low, interval.high), rtol=1e-9)
    assert one.reason == ""
    assert both.starred("nll") == {0}
    assert "its negative log-likelihood is" in both.sentence
    assert both.confidence_set("nll")["right"] == 1.0


@pytest.mark.parametrize(("certain", "reason"), [(False, ""), (True, "a few rows decide its mean")])
def test_classes_have_the_rule_of_numbers(rng, certain, reason):
    """A fifth of the labels are noise: a model that may be nearly certain pays for a few of them."""
    score = rng.standard_t(2, 1_000)
    y = np.where((score > 0) != (rng.random(1_000) < 0.2), "yes", "no")
    surer = 1 / (1 + np.exp(-(score if certain else np.clip(score, -2, 2))))
    models = {"right": np.where(score > 0, 0.8, 0.2), "surer": surer}
    classes = ["no", "yes"]
    both = fm.compare({name: fm.Categorical(p, classes=classes) for name, p in models.items()}, y)
    assert both.pairs.of("nll")[0].reason == reason
    assert ("compare the Brier score" in both.differences()) == certain
    assert ("negative log-likelihood" in both.sentence) == (not certain)


@pytest.mark.parametrize("n", [400, 1_001, 2_500])
def test_equal_differences_have_an_interval_despite_rounding(rng, n):
    """Sums round: what is left about their mean has no tails."""
    for a, b in rng.uniform(0.1, 3, (6, 2)):
        models = {"a": (np.zeros(n), a), "b": (np.zeros(n), b)}
        for groups in (None, np.arange(n) % 210):
            compared = fm.compare(models, np.full(n, 37.3), groups=groups)
            (pair,) = compared.pairs.of("nll")
            assert pair.reason == ""
            assert pair.p_value == pytest.approx(0, abs=1e-12)
            assert pair.high - pair.low <= 1e-11 * abs(pair.difference)
    few = fm.compare({"a": (np.zeros(199), 1.0), "b": (np.zeros(199), 2.0)}, np.ones(199))
    assert few.pairs.of("nll")[0].reason == "fewer than 200 rows"
