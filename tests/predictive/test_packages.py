"""Predictions of modelling packages are accepted unchanged: tested with the packages themselves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from peers import imported
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive

pytestmark = pytest.mark.filterwarnings("ignore")  # the packages' own
N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = X[:, 0] + 0.3 * RNG.normal(size=120)


def same(prediction, family):
    at = RNG.normal(size=len(prediction))
    np.testing.assert_allclose(prediction.cdf(at), family.cdf(at), rtol=1e-9)
    np.testing.assert_allclose(prediction.mean, family.mean(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["Normal", "LogNormal", "Exponential", "Laplace", "Gamma", "Poisson", "T"]
)
def test_ngboost(name):
    ngboost, families = imported("ngboost"), imported("ngboost.distns")
    y = {"Poisson": np.round(np.exp(Y)), "Normal": Y, "Laplace": Y, "T": Y}.get(name, np.exp(Y))
    model = ngboost.NGBRegressor(Dist=getattr(families, name), n_estimators=3, verbose=False).fit(
        X, y
    )
    distribution = model.pred_dist(X[:N])
    prediction = as_predictive(distribution, N)
    same(prediction, distribution.dist)
    assert fm.metrics.mean_crps(y[:N], distribution) == fm.metrics.mean_crps(y[:N], prediction)


def test_ngboost_classes_and_vectors():
    ngboost, families = imported("ngboost"), imported("ngboost.distns")
    labels = (Y > 0).astype(int)
    model = ngboost.NGBClassifier(n_estimators=3, verbose=False).fit(X, labels)
    prediction = as_predictive(model.pred_dist(X[:N]), N, y=labels[:N])
    np.testing.assert_allclose(prediction.probs, model.predict_proba(X[:N]))
    both = families.MultivariateNormal(2)
    vectors = ngboost.NGBRegressor(Dist=both, n_estimators=3, verbose=False).fit(
        X, np.c_[Y, X[:, 1]]
    )
    with pytest.raises(TypeError, match=r"prediction is a MVN of NGBoost; .*draws"):
        as_predictive(vectors.pred_dist(X[:N]), N, 2)


def test_gpytorch():
    gpytorch, torch = imported("gpytorch"), imported("torch")
    factor = torch.tensor(RNG.normal(size=(2 * N, 2 * N)))
    covariance = factor @ factor.T + torch.eye(2 * N)
    mean = torch.tensor(RNG.normal(size=(N, 2)), requires_grad=True)
    one = gpytorch.distributions.MultivariateNormal(mean[:, 0], covariance[:N, :N])
    std = np.sqrt(np.diag(covariance))
    same(as_predictive(one, N), stats.norm(mean[:, 0].detach().numpy(), std[:N]))
    several = gpytorch.distributions.MultitaskMultivariateNormal(mean, covariance)
    prediction = as_predictive(several, N, 2)
    np.testing.assert_allclose(prediction.mean, mean.detach().numpy())
    np.testing.assert_allclose(prediction.std, std.reshape(N, 2))
    with pytest.raises(ValueError, match=f"prediction has {N} rows and y has {N + 1}"):
        as_predictive(one, N + 1)
    batch = gpytorch.distributions.MultivariateNormal(mean.T, covariance[:N, :N].expand(2, N, N))
    with pytest.raises(TypeError, match=r"batch shape \(2,\); \(\) is needed"):
        as_predictive(batch, N)
    with pytest.raises(
        TypeError, match=r"GPyTorch; the normal distribution that likelihood\(model"
    ):
        as_predictive(gpytorch.likelihoods.GaussianLikelihood(), N)


def test_statsmodels():
    api = imported("statsmodels.api")
    design = api.add_constant(X)
    linear = api.OLS(Y, design).fit()
    prediction = linear.get_prediction(design[:N])
    converted_prediction = as_predictive(prediction, N)
    low, high = converted_prediction.quantile(0.05), converted_prediction.quantile(0.95)
    np.testing.assert_allclose(
        np.stack([low, high], 1), prediction.conf_int(obs=True, alpha=0.1), rtol=1e-9
    )
    counts = api.GLM(np.round(np.exp(Y)), design, family=api.families.Poisson()).fit()
    same(
        as_predictive(counts.get_distribution(exog=design[:N]), N),
        stats.poisson(counts.predict(design[:N])),
    )
    for wrong in (counts.get_prediction(design[:N]), counts, linear):
        with pytest.raises(
            TypeError, match=r"statsmodels, which has no distribution .* get_distribution"
        ):
            as_predictive(wrong, N)
    forecast = api.tsa.ARIMA(Y, order=(1, 0, 0)).fit().get_forecast(N)
    low, high = as_predictive(forecast, N).quantile(0.05), as_predictive(forecast, N).quantile(0.95)
    np.testing.assert_allclose(np.stack([low, high], 1), forecast.conf_int(alpha=0.1), rtol=1e-9)


def test_intervals_of_mapie():
    regression, linear = imported("mapie.regression"), imported("sklearn.linear_model")
    model = regression.SplitConformalRegressor(
        linear.LinearRegression(), confidence_level=[0.9, 0.5], prefit=False
    )
    intervals = model.fit(X[:60], Y[:60]).conformalize(X[60:], Y[60:]).predict_interval(X[:N])
    with pytest.raises(ValueError, match=rf"\({N}, 2, 2\), as the intervals of MAPIE"):
        as_predictive(intervals, N)
    prediction = fm.Quantiles.from_intervals([0.9, 0.5], intervals[1], intervals[0])
    np.testing.assert_allclose(prediction.quantile(0.95), intervals[1][:, 1, 0])
    np.testing.assert_allclose(prediction.quantile(0.25), intervals[1][:, 0, 1])
    np.testing.assert_allclose(prediction.quantile(0.5), intervals[0])


def test_quantile_forest():
    forest = imported("quantile_forest")
    levels = [0.1, 0.5, 0.9]
    values = (
        forest.RandomForestQuantileRegressor(n_estimators=5)
        .fit(X, Y)
        .predict(X[:N], quantiles=levels)
    )
    np.testing.assert_array_equal(fm.Quantiles(levels, values).quantile(0.9), values[:, 2])


def test_intervals():
    ends = np.array([[[-2.0, -1.0], [2.0, 1.5]]])
    prediction = fm.Quantiles.from_intervals([0.9, 0.5], ends)
    np.testing.assert_allclose(prediction.levels, [0.05, 0.25, 0.75, 0.95])
    np.testing.assert_allclose(prediction.values, [[-2, -1, 1.5, 2]])
    np.testing.assert_allclose(fm.Quantiles.from_intervals(0.8, [[0, 1.0]]).levels, [0.1, 0.9])
    with pytest.raises(ValueError, match="cross"):
        fm.Quantiles.from_intervals([0.5, 0.9], ends)
    for wrong in (0.0, 1.0, np.nan, [[0.5]], []):
        with pytest.raises(
            ValueError, match=r"coverages are .*; numbers between 0 and 1 are needed"
        ):
            fm.Quantiles.from_intervals(wrong, ends)
    with pytest.raises(ValueError, match="distinct"):
        fm.Quantiles.from_intervals([0.5, 0.5], ends)
    with pytest.raises(
        ValueError, match=r"intervals have shape \(1, 2, 2\); \(n, 2, 1\) is needed"
    ):
        fm.Quantiles.from_intervals(0.5, ends)
    with pytest.raises(ValueError, match="intervals has 1, median has 2"):
        fm.Quantiles.from_intervals([0.9, 0.5], ends, median=[0.0, 1.0])


def test_objects_without_distributions():
    kind = type("Fit", (SimpleNamespace,), {"__module__": "statsmodels.tsa.fit"})
    forecast = kind(predicted_mean=np.zeros((3, 1)), se_mean=np.ones(3), signal_only=False)
    assert as_predictive(forecast, 3).std.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="signal_only=False"):
        as_predictive(kind(se_mean=np.ones(3), signal_only=True), 3)
