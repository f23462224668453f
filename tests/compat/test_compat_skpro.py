"""The skpro adapter agrees with skpro's metrics and distributions, except for one defect of skpro."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm

skpro = pytest.importorskip("skpro")
pd = pytest.importorskip("pandas")

from skpro import distributions as dists  # noqa: E402
from skpro import metrics as theirs  # noqa: E402

from fastmcmd.compat.skpro import Metric, from_skpro  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of skpro and pandas

N = 40


@pytest.fixture
def data(rng):
    index = pd.RangeIndex(100, 100 + N)
    mean, std = rng.normal(size=(N, 1)), rng.uniform(0.5, 2, (N, 1))
    y = pd.DataFrame(rng.normal(mean, std), index=index, columns=["y"])
    return y, dists.Normal(mean, std, index=index, columns=["y"]), mean[:, 0], std[:, 0]


def _agree(prediction, expected, y, rtol=1e-9):
    """Compare the answers of two predictions."""
    np.testing.assert_allclose(prediction.mean, expected.mean, rtol=rtol)
    np.testing.assert_allclose(prediction.variance, expected.variance, rtol=rtol)
    for name in ("cdf", "cdf_below", "log_prob", "crps"):
        np.testing.assert_allclose(
            getattr(prediction, name)(y),
            getattr(expected, name)(y),
            rtol=rtol,
            atol=1e-12,
            err_msg=name,
        )
    levels = [0.1, 0.5, 0.99]
    np.testing.assert_allclose(
        prediction.quantile(levels), expected.quantile(levels), rtol=1e-7, atol=1e-9
    )
    rows = np.array([3, 0, 3])
    np.testing.assert_allclose(
        prediction.take(rows).crps(y[rows]), expected.crps(y)[rows], rtol=rtol
    )


def test_normal_is_gaussian(data):
    _, distribution, mean, std = data
    prediction = from_skpro(distribution)
    assert isinstance(prediction, fm.Gaussian)
    np.testing.assert_array_equal(prediction.mean, mean)
    np.testing.assert_allclose(prediction.std, std, rtol=1e-15)
    broadcast = from_skpro(dists.Normal(1.0, 2.0), 3)
    assert broadcast.mean.tolist() == [1.0] * 3
    assert broadcast.std.tolist() == [2.0] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (lambda a, b: dists.Laplace(a, b), lambda a, b: fm.Laplace(a, b)),
        (lambda a, b: dists.Gamma(b + 1, b), lambda a, b: stats.gamma(b + 1, scale=1 / b)),
        (lambda a, b: dists.LogNormal(a, b), lambda a, b: stats.lognorm(b, scale=np.exp(a))),
        (lambda a, b: dists.Uniform(a, a + b), lambda a, b: stats.uniform(a, b)),
    ],
    ids=["laplace", "gamma", "lognormal", "uniform"],
)
def test_continuous_ones_by_their_methods(data, make, ours):
    y, _, mean, std = data
    values = np.abs(y["y"].to_numpy())
    expected = fm.predictive.as_predictive(ours(mean, std), N)
    prediction = from_skpro(make(mean[:, None], std[:, None]))
    _agree(prediction, expected, values)
    _agree(pickle.loads(pickle.dumps(prediction)), expected, values)


def test_counts_by_their_methods(data):
    y, _, _, std = data
    values = np.floor(3 * np.abs(y["y"].to_numpy()))
    prediction = from_skpro(dists.Poisson(3 * std[:, None]))
    assert prediction.discrete
    _agree(prediction, fm.Poisson(3 * std), values)


def test_a_scalar_one_for_all_rows(data):
    y = data[0]["y"].to_numpy()[:5]
    _agree(from_skpro(dists.Laplace(0.5, 2.0), 5), fm.Laplace(np.full(5, 0.5), 2.0), y)


def test_empirical_is_draws(data, rng):
    y = data[0]
    draws = rng.normal(size=(N, 6))
    index = pd.MultiIndex.from_product([range(6), y.index])
    distribution = dists.Empirical(pd.DataFrame({"y": draws.T.ravel()}, index=index))
    prediction = from_skpro(distribution)
    assert isinstance(prediction, fm.Draws)
    np.testing.assert_array_equal(np.sort(prediction.array, axis=1), np.sort(draws, axis=1))
    np.testing.assert_allclose(prediction.crps(y["y"]), fm.Draws(draws).crps(y["y"]), rtol=1e-12)


def test_a_point_is_one_draw():
    prediction = from_skpro(dists.Delta([[0.5], [1.0]]))
    assert prediction.crps([1.0, 1.0]).tolist() == [0.5, 0.0]


def test_mixtures_of_what_their_parts_are(data):
    y, distribution, mean, std = data
    other = dists.Normal(mean[:, None] + 3, std[:, None], index=distribution.index, columns=["y"])
    prediction = from_skpro(dists.Mixture([("a", distribution), ("b", other)], weights=[1, 3]))
    expected = fm.Mixture([fm.Gaussian(mean, std), fm.Gaussian(mean + 3, std)], [0.25, 0.75])
    _agree(prediction, expected, y["y"].to_numpy())
    even = from_skpro(dists.Mixture([distribution, other]))
    np.testing.assert_allclose(even.mean, mean + 1.5)


@pytest.mark.slow
def test_the_whole_package_takes_what_comes_out(data):
    y, _, mean, std = data
    laplace = from_skpro(dists.Laplace(mean[:, None], std[:, None]))
    evaluation = fm.evaluate(y["y"], laplace, mean)
    expected = fm.evaluate(y["y"], fm.Laplace(mean, std), mean)
    assert evaluation["mean_crps"] == pytest.approx(expected["mean_crps"])
    assert evaluation["mean_cce"] == pytest.approx(expected["mean_cce"], abs=1e-6)


@pytest.mark.parametrize(
    ("ours", "name"), [(fm.metrics.mean_crps, "CRPS"), (fm.metrics.nll, "LogLoss")]
)
def test_scores_are_those_of_skpro(data, ours, name):
    y, distribution, *_ = data
    reference = getattr(theirs, name)()
    assert Metric(ours)(y, distribution) == pytest.approx(reference(y, distribution), rel=1e-9)
    scores = Metric(ours).evaluate_by_index(y, distribution)
    pd.testing.assert_frame_equal(scores, reference.evaluate_by_index(y, distribution), rtol=1e-9)


@pytest.mark.parametrize("multioutput", ["uniform_average", "raw_values", [1.0, 3.0]])
def test_several_columns(data, rng, multioutput):
    y, _, mean, std = data
    two = dists.Normal(
        np.stack([mean, mean + 1], 1), np.stack([std, std], 1), index=y.index, columns=["a", "b"]
    )
    outcomes = pd.DataFrame({"a": y["y"], "b": y["y"]}, index=y.index)
    metric = Metric(multioutput=multioutput)
    parts = [
        fm.metrics.mean_crps(y["y"], (mean, std)),
        fm.metrics.mean_crps(y["y"], (mean + 1, std)),
    ]
    value = metric(outcomes, two)
    if multioutput == "raw_values":
        assert list(value.columns) == ["a", "b"]
        np.testing.assert_allclose(value.iloc[0], parts)
    else:
        weights = None if isinstance(multioutput, str) else multioutput
        assert value == pytest.approx(np.average(parts, weights=weights))
    rows = metric.evaluate_by_index(outcomes, two)
    assert list(rows.columns) == ["a", "b"]
    np.testing.assert_allclose(rows.mean(), parts)
    joined = Metric(multioutput=multioutput, multivariate=True).evaluate_by_index(outcomes, two)
    assert list(joined.columns) == ["score"]
    assert joined.index.equals(y.index)


def test_aggregates_and_their_pseudo_values(data):
    y, distribution, mean, std = data
    metric = Metric(fm.metrics.ence, {"bins": 4})
    expected = fm.ence(y["y"], (mean, std), bins=4)
    assert metric(y, distribution) == pytest.approx(expected, rel=1e-12)
    rows = metric.evaluate_by_index(y, distribution)
    valid = np.arange(N) != 7
    without = fm.ence(y["y"].to_numpy()[valid], (mean[valid], std[valid]), bins=4)
    assert rows["y"].iloc[7] == pytest.approx(N * expected - (N - 1) * without)


def test_auc_of_skpro_depends_on_the_order_of_rows(data):
    """skpro computes the rank of row i as i / n: rows in another order have another "area"."""
    y, distribution, mean, std = data
    metric = Metric(fm.metrics.miscalibration_area)
    sorted_rows = np.argsort(distribution.cdf(y).to_numpy()[:, 0])
    shuffled = np.random.default_rng(0).permutation(N)
    ours, their = [], []
    for rows in (sorted_rows, shuffled):
        part = y.iloc[rows], distribution.iloc[rows]
        ours.append(metric(*part))
        their.append(theirs.AUCalibration()(*part))
    assert ours[0] == ours[1]
    if abs(their[0] - their[1]) < 1e-12:
        pytest.skip("skpro has mended it")
    assert their[0] == pytest.approx(0.0, abs=1e-12)  # whatever the prediction
    assert their[1] > 0.1
    # What their documentation says, the mean of |c_(i) - i/n|, is ours of quantiles but for the grid.
    pit = np.sort(stats.norm.cdf(y["y"], mean, std))
    calibration_area = np.abs(pit - np.arange(1, N + 1) / N).mean()
    area = Metric(fm.metrics.miscalibration_area, {"kind": "quantile"})(y, distribution)
    assert area == pytest.approx(calibration_area, abs=1 / N)


def test_benchmarks_of_skpro_run(rng):
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold
    from skpro.benchmarking.evaluate import evaluate
    from skpro.regression.residual import ResidualDouble

    x = rng.normal(size=60)
    X, y = pd.DataFrame({"x": x}), pd.DataFrame({"y": x + 0.3 * rng.normal(size=60)})
    table = evaluate(
        ResidualDouble(LinearRegression()), KFold(3), X, y,
        scoring=[Metric(), theirs.CRPS()], error_score="raise",
    )  # fmt: skip
    np.testing.assert_allclose(table["test_Metric"], table["test_CRPS"], rtol=1e-9)


def test_contract_of_skpro():
    from skpro.utils import check_estimator

    results = check_estimator(Metric, verbose=False)
    assert len(results) > 20
    assert {name: outcome for name, outcome in results.items() if outcome != "PASSED"} == {}


def test_parameters_tags_and_copies():
    metric = Metric(fm.metrics.ence, {"bins": 4})
    assert metric.get_tag("lower_is_better") is True
    assert Metric(fm.metrics.r2).get_tag("lower_is_better") is False
    assert metric.clone().get_params() == metric.get_params()
    assert pickle.loads(pickle.dumps(metric)).get_params() == metric.get_params()


def test_bad_distributions(data):
    _, distribution, mean, _ = data
    for value in (fm.Gaussian(mean, 1.0), dists.Normal, "normal", None, 3.0):
        with pytest.raises(TypeError, match="distribution of skpro"):
            from_skpro(value)
    with pytest.raises(ValueError, match="one column is needed"):
        from_skpro(dists.Normal(np.zeros((3, 2)), 1.0))
    with pytest.raises(ValueError, match="n, the number of inputs"):
        from_skpro(dists.Normal(0.0, 1.0))
    index = pd.MultiIndex.from_product([range(2), range(3)])
    spread = pd.DataFrame({"y": np.arange(6) / 4}, index=index)
    weights = pd.Series([0.2, 0.2, 0.2, 0.8, 0.8, 0.8], index=index)
    with pytest.raises(ValueError, match="discrete Empirical over other values than whole numbers"):
        from_skpro(dists.Empirical(spread, weights=weights))
    with pytest.raises(ValueError, match="has 40 rows; n is 4"):
        from_skpro(distribution, 4)


def test_bad_metrics_and_outcomes(data):
    y, distribution, *_ = data
    with pytest.raises(TypeError, match="metric is 'crps'"):
        Metric("crps")
    with pytest.raises(TypeError, match="of classes"):
        Metric(fm.classification.ece)
    with pytest.raises(ValueError, match="lower_is_better"):
        Metric(fm.metrics.coverage)
    assert Metric(fm.metrics.coverage, lower_is_better=False)(y, distribution) > 0.5
    with pytest.raises(ValueError, match="y_true has shape"):
        Metric()(y.iloc[:5], distribution)
    with pytest.raises(ValueError, match="other indices"):
        Metric()(y.iloc[::-1], distribution)
    with pytest.raises(ValueError, match="multioutput"):
        Metric(multioutput="mean")(y, distribution)
    with pytest.raises(ValueError, match="censored"):
        Metric().evaluate(y, distribution, C_true=pd.DataFrame(np.ones((N, 1))))
    with pytest.raises(ValueError, match="NaN"):
        Metric()(y.where(y > 0), distribution)
    two = y.rename(columns={"y": "a"}).assign(b=0.0)
    pair = dists.Normal(np.zeros((N, 2)), 1.0, index=y.index, columns=["b", "a"])
    with pytest.raises(ValueError, match="columns"):
        Metric()(two, pair)
    assert (
        Metric()(y.to_numpy()[:, 0], distribution)
        == Metric()(y, distribution)
        == Metric()(y["y"], distribution)
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"multioutput": "mean"}, "multioutput is 'mean'"),
        ({"multioutput": np.datetime64("2020-01-01")}, "multioutput"),
        ({"lower_is_better": np.eye(2)}, "lower_is_better"),
    ],
)
def test_arguments_of_the_metric_are_checked(wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Metric(**wrong)


def test_shapes_are_checked(data):
    with pytest.raises(ValueError, match=r"y_true has shape \(2, 2, 2\)"):
        Metric()(np.zeros((2, 2, 2)), data[1])
    with pytest.raises(TypeError, match="n is"):
        from_skpro(data[1], n=np.full(3, np.nan))


@pytest.mark.parametrize("bad", [np.nan, [0.5, np.nan], [-1.0, 2.0], 0.5])
def test_weights_of_columns_are_checked_at_once(bad):
    with pytest.raises(ValueError, match=r"multioutput (has|holds)"):
        Metric(multioutput=bad)


def test_options_and_outcomes_that_are_none_are_named():
    with pytest.raises(TypeError, match="multivariate is nan"):
        Metric(multivariate=np.nan)
    with pytest.raises(TypeError, match="y_true holds Python objects"):
        Metric()(pd.Series(["x", "1"]), dists.Normal([[0.0], [1.0]], 1.0))
