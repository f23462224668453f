"""Scorers work in scikit-learn's searches, and the estimator passes scikit-learn's checks."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fastmcmd as fm
from fastmcmd._base.params import Parameters
from fastmcmd.compat.sklearn import SCORERS, QuantilePredictions, scorer


@pytest.fixture
def data(rng):
    X = rng.normal(size=(90, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=90)


@pytest.fixture
def labelled(data, rng):
    X, y = data
    return X, np.array(["ape", "bee", "cat"])[np.digitize(y, [-0.5, 0.5])]


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_importing_the_module_needs_no_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import fastmcmd.compat.sklearn as s; print(len(s.SCORERS) > 10)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("name", "metric"),
    [("neg_nll", "nll"), ("neg_crps", "mean_crps"), ("neg_ence", "ence"), ("neg_qce", "qce")],
)
def test_cross_validation_gives_the_metric_of_each_fold(data, name, metric):
    X, y = data
    folds = KFold(3)
    scores = cross_val_score(
        BayesianRidge(), X, y, scoring=SCORERS[name], cv=folds, error_score="raise"
    )
    expected = []
    for train, test in folds.split(X):
        model = BayesianRidge().fit(X[train], y[train])
        expected.append(
            -getattr(fm.metrics, metric)(y[test], model.predict(X[test], return_std=True))
        )
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_gaussian_likelihood_against_scipy(data):
    X, y = data
    model = GaussianProcessRegressor(alpha=0.1).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    expected = stats.norm.logpdf(y, mean, std).mean()
    assert SCORERS["neg_nll"](model, X, y) == pytest.approx(expected, rel=1e-12)


def test_regression_names_all_score(data):
    X, y = data
    model = BayesianRidge().fit(X, y)
    classes = {name for name, one in SCORERS.items() if one.classes}
    for name in set(SCORERS) - classes - {"neg_energy_score"}:
        assert np.isfinite(SCORERS[name](model, X, y)), name
        assert name.startswith("neg_") == (SCORERS[name].sign == -1)


def test_a_better_model_scores_higher(data):
    X, y = data
    good, bad = BayesianRidge().fit(X, y), BayesianRidge().fit(X[:, 1:], y)

    class SecondOnly:
        def predict(self, X, return_std=False):
            return bad.predict(X[:, 1:], return_std=return_std)

    for name in ("neg_nll", "neg_crps", "r2", "neg_rmse", "neg_interval_score"):
        assert SCORERS[name](good, X, y) > SCORERS[name](SecondOnly(), X, y), name


def test_grid_search_of_a_pipeline(data):
    X, y = data
    search = GridSearchCV(
        make_pipeline(StandardScaler(), GaussianProcessRegressor(optimizer=None)),
        {"gaussianprocessregressor__alpha": [1e-8, 0.1]},
        scoring=SCORERS["neg_crps"],
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_ == {"gaussianprocessregressor__alpha": 0.1}
    inside = search.best_estimator_
    expected = -fm.metrics.mean_crps(y, inside.predict(X, return_std=True))
    assert search.score(X, y) == pytest.approx(expected, rel=1e-12)
    assert SCORERS["neg_crps"](search, X, y) == pytest.approx(expected, rel=1e-12)
    assert repr(clone(search).scoring) == repr(SCORERS["neg_crps"])


def test_several_scorers_and_processes(data):
    X, y = data
    both = {"a": SCORERS["neg_crps"], "b": scorer(fm.metrics.ence, bins=3)}
    one = cross_validate(BayesianRidge(), X, y, scoring=both, cv=3, error_score="raise")
    two = cross_validate(BayesianRidge(), X, y, scoring=both, cv=3, n_jobs=2, error_score="raise")
    for name in ("test_a", "test_b"):
        np.testing.assert_array_equal(one[name], two[name])
    fold = next(KFold(3).split(X))
    model = BayesianRidge().fit(X[fold[0]], y[fold[0]])
    prediction = model.predict(X[fold[1]], return_std=True)
    assert one["test_b"][0] == pytest.approx(-fm.ence(y[fold[1]], prediction, bins=3))


def test_classifiers_against_scikit_learn(labelled):
    X, labels = labelled
    model = LogisticRegression().fit(X, labels)
    p = model.predict_proba(X)
    assert SCORERS["neg_classification_nll"](model, X, labels) == pytest.approx(
        -log_loss(labels, p)
    )
    assert SCORERS["accuracy"](model, X, labels) == pytest.approx(model.score(X, labels))
    two = np.where(labels == "ape", "yes", "no")
    binary = LogisticRegression().fit(X, two)
    expected = brier_score_loss(two, binary.predict_proba(X)[:, 1], pos_label="yes")
    assert SCORERS["neg_brier_score"](binary, X, two) == pytest.approx(-expected)
    scores = cross_val_score(
        LogisticRegression(),
        X,
        labels,
        scoring=SCORERS["neg_classification_ece"],
        error_score="raise",
    )
    assert ((scores < 0) & (scores > -1)).all()


def test_labels_are_places_in_the_classes_of_the_estimator(labelled):
    X, labels = labelled
    model = LogisticRegression().fit(X, labels)
    expected = -fm.classification.ece(
        np.searchsorted(model.classes_, labels), model.predict_proba(X)
    )
    assert SCORERS["neg_classification_ece"](model, X, labels) == expected
    with pytest.raises(ValueError, match="not fitted on: dog"):
        SCORERS["accuracy"](model, X, np.where(labels == "ape", "dog", labels))
    with pytest.raises(TypeError, match="no predict_proba"):
        SCORERS["accuracy"](BayesianRidge().fit(X, X[:, 0]), X, labels)
    inside = GridSearchCV(make_pipeline(LogisticRegression()), {}, cv=2).fit(X, labels)
    assert SCORERS["neg_classification_ece"](inside, X, labels) == expected


def test_integer_weights_are_repeated_rows(data, labelled, rng):
    X, y = data
    w = rng.integers(0, 3, 90)
    model = BayesianRidge().fit(X, y)
    for name in ("neg_nll", "neg_crps", "r2"):
        weighted = SCORERS[name](model, X, y, sample_weight=w)
        repeated = SCORERS[name](model, np.repeat(X, w, axis=0), np.repeat(y, w))
        assert weighted == pytest.approx(repeated, rel=1e-9)
    classifier = LogisticRegression().fit(*labelled)
    weighted = SCORERS["neg_brier_score"](classifier, *labelled, sample_weight=w)
    rows = [np.repeat(part, w, axis=0) for part in labelled]
    assert weighted == pytest.approx(SCORERS["neg_brier_score"](classifier, *rows))


def test_weights_by_metadata_routing(routing, data, rng):
    X, y = data
    w = rng.integers(0, 3, 90)
    model = BayesianRidge().set_fit_request(sample_weight=False)
    asks = SCORERS["neg_crps"].set_score_request(sample_weight=True)
    scores = cross_val_score(model, X, y, scoring=asks, cv=KFold(3), params={"sample_weight": w})
    for value, (train, test) in zip(scores, KFold(3).split(X), strict=True):
        fitted = BayesianRidge().fit(X[train], y[train])
        prediction = fitted.predict(X[test], return_std=True)
        expected = fm.metrics.mean_crps(y[test], prediction, sample_weight=w[test])
        assert value == pytest.approx(-expected)
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
        cross_val_score(
            model, X, y, scoring=SCORERS["neg_crps"], cv=KFold(3), params={"sample_weight": w}
        )
    scorers = {
        "plain": SCORERS["neg_crps"].set_score_request(sample_weight=False),
        "weighted": SCORERS["neg_crps"].set_score_request(sample_weight="w"),
    }
    both = cross_validate(model, X, y, scoring=scorers, cv=KFold(3), params={"w": w})
    np.testing.assert_array_equal(both["test_weighted"], scores)
    assert not np.array_equal(both["test_plain"], scores)
    search = GridSearchCV(model, {"alpha_1": [1e-6]}, scoring=asks, cv=KFold(3))
    assert search.fit(X, y, sample_weight=w).best_score_ == pytest.approx(scores.mean())


class Frozen:
    """Model that returns fixed predictions under the method names of other libraries."""

    def __init__(self, **methods):
        for name, value in methods.items():
            setattr(self, name, value)


def test_distributions_of_other_libraries(data):
    X, y = data
    crps = SCORERS["neg_crps"]
    expected = -fm.metrics.mean_crps(y, fm.StudentT(5, X[:, 0], 0.3))
    frozen = stats.t(5, X[:, 0], 0.3)
    for name in ("pred_dist", "predict_dist"):
        model = Frozen(**{name: lambda X: frozen})
        assert crps(model, X, y) == pytest.approx(expected, rel=1e-9)

    class Wrapped:  # as NGBoost has them
        dist = frozen

    model = Frozen(pred_dist=lambda X: Wrapped(), predict=lambda X, return_std=True: 1 / 0)
    assert crps(model, X, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_ngboost(data):
    ngboost = pytest.importorskip("ngboost")
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ngboost.NGBRegressor(n_estimators=10, verbose=False, random_state=0).fit(X, y)
        score = SCORERS["neg_nll"](model, X, y)
        expected = model.pred_dist(X).logpdf(y).mean()
    assert score == pytest.approx(expected, rel=1e-9)


def test_quantiles(data):
    X, y = data
    levels = (0.1, 0.5, 0.9)
    values = X[:, :1] + 0.3 * stats.norm.ppf(levels)
    expected = -fm.metrics.mean_crps(y, fm.Quantiles(levels, values))
    quantile_scorer = scorer(fm.metrics.mean_crps, predict=QuantilePredictions(levels))
    models = [
        Frozen(predict_quantiles=lambda X, alpha: values),
        Frozen(predict=lambda X, quantiles=None: values if list(quantiles) == [*levels] else None),
        Frozen(predict=lambda X: values),
    ]
    for model in models:
        assert quantile_scorer(model, X, y) == expected
    crossing = Frozen(predict=lambda X: values[:, ::-1])
    with pytest.raises(ValueError, match="decrease"):
        quantile_scorer(crossing, X, y)
    sort = scorer(fm.metrics.mean_crps, predict=QuantilePredictions(levels, sort=True))
    assert sort(crossing, X, y) == expected
    with pytest.raises(ValueError, match="levels"):
        QuantilePredictions((0.9, 0.1))


def test_a_function_of_ones_own(data):
    X, y = data

    def draws(estimator, X):
        return estimator.predict(X)[:, None] + np.array([-0.3, 0.0, 0.3])

    model = LinearRegression().fit(X, y)
    score = scorer(fm.metrics.mean_crps, predict=draws)(model, X, y)
    assert score == -fm.metrics.mean_crps(y, model.predict(X)[:, None] + np.array([-0.3, 0.0, 0.3]))

    def spread(y, prediction, sample_weight=None):
        return prediction[1].mean()

    assert scorer(spread, greater_is_better=False)(BayesianRidge().fit(X, y), X, y) < 0
    assert scorer(spread, greater_is_better=True)(BayesianRidge().fit(X, y), X, y) > 0


def test_a_bias_of_either_sign_is_bad(data):
    X, y = data
    model = BayesianRidge().fit(X, y)
    bias = scorer(fm.metrics.bias)
    assert bias(model, X, y + 1) == pytest.approx(-1, abs=1e-6)
    assert bias(model, X, y - 1) == pytest.approx(-1, abs=1e-6)


def test_bad_arguments(data):
    X, y = data
    with pytest.raises(TypeError, match="SCORERS"):
        scorer("crps")
    with pytest.raises(ValueError, match="'auto', 'std', 'dist', 'proba'"):
        scorer(fm.metrics.nll, predict="quantile")
    with pytest.raises(ValueError, match="coverage, of which no value is best in itself"):
        scorer(fm.metrics.coverage)
    with pytest.raises(ValueError, match="greater_is_better"):
        scorer(lambda y, p: 0.0)
    with pytest.raises(TypeError, match="greater_is_better is 1"):
        scorer(fm.metrics.coverage, greater_is_better=1)
    with pytest.raises(TypeError, match=r"LinearRegression has no predict\(X, return_std=True\)"):
        SCORERS["neg_nll"](LinearRegression().fit(X, y), X, y)
    with pytest.raises(TypeError, match="has no pred_dist"):
        scorer(fm.metrics.nll, predict="dist")(BayesianRidge().fit(X, y), X, y)
    with pytest.raises(TypeError, match=r"shape \(90,\)"):
        scorer(fm.metrics.crps)(BayesianRidge().fit(X, y), X, y)
    worst = scorer(fm.metrics.adversarial_group_calibration)
    with pytest.raises(TypeError, match="returns a GroupCalibration"):
        worst(BayesianRidge().fit(X, y), X, y)
    with pytest.raises(ValueError, match="y holds NaN"):
        SCORERS["neg_nll"](BayesianRidge().fit(X, y), X, np.where(y > 0, np.nan, y))
    with pytest.raises(ValueError, match="negative"):
        SCORERS["neg_nll"](BayesianRidge().fit(X, y), X, y, sample_weight=-np.ones(90))
    with pytest.raises(TypeError):
        SCORERS["mine"] = None


def test_scorers_are_copied_and_stored():
    one = SCORERS["neg_crps"]
    assert repr(pickle.loads(pickle.dumps(one))) == repr(copy.deepcopy(one)) == repr(one)
    assert one.set_score_request(sample_weight=True) is not one


# ConditionalCongruence


class WithMarginal(fm.ConditionalCongruence, Parameters, BaseEstimator):
    """Estimator that predicts the marginal of y, so that the checks can call ``fit(X, y)``."""

    __init__ = fm.ConditionalCongruence.__init__

    def fit(self, X, y):
        if hasattr(X, "nnz"):
            return super().fit(X, y, (0.0, 1.0))
        X = np.asarray(X)
        y = np.asarray(y, dtype=np.float64)
        return super().fit(X, y, (float(y.mean()), max(float(y.std()), 1e-3)))


# Checks that do not apply, or that the estimator does not pass, each with the reason.
NOT_MET = {
    "check_complex_data": "complex numbers are refused, by a TypeError of other words",
    "check_dtype_object": "objects are refused, in other words",
    "check_estimators_empty_data_messages": "no columns are refused, in other words",
    "check_fit2d_1sample": "one row is refused, in other words",
    "check_fit1d": "inputs (n,) are taken as (n, 1)",
}


def _checks():
    from sklearn.utils.estimator_checks import estimator_checks_generator

    for number, (estimator, check) in enumerate(
        estimator_checks_generator(WithMarginal(), legacy=True, mark=None)
    ):
        name = check.func.__name__
        marks = [pytest.mark.xfail(reason=NOT_MET[name])] if name in NOT_MET else []
        yield pytest.param(estimator, check, id=f"{name}-{number}", marks=marks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_conventions_of_estimators(estimator, check):
    check(estimator)


class Congruence(fm.ConditionalCongruence, Parameters):
    """Add get_params and set_params, whether or not the class already has them."""

    __init__ = fm.ConditionalCongruence.__init__


def test_parameters_and_clones(data):
    X, y = data
    kernel = fm.RBF(0.5)
    fitted = Congruence(x_kernel=kernel, lam=0.2).fit(X, y, (X[:, 0], 0.3))
    params = fitted.get_params()
    assert params["x_kernel"] is kernel
    assert params["lam"] == 0.2
    assert set(params) >= {"y_kernel", "tol", "solver", "certificate", "landmarks"}
    again = clone(fitted)
    assert again.get_params()["lam"] == 0.2
    with pytest.raises(ValueError, match="not fitted"):
        again.score_samples(X)
    again.set_params(lam=0.3, tol=1e-4)
    expected = fm.cce(X, y, (X[:, 0], 0.3), x_kernel=kernel, lam=0.3, tol=1e-4)
    result = again.fit(X, y, (X[:, 0], 0.3)).result_
    off = np.abs(result.values - expected.values)
    assert (off <= result.error_bounds + expected.error_bounds).all()
    with pytest.raises(ValueError, match=r"no parameter 'lamda'.*lam"):
        again.set_params(tol=0.5, lamda=1.0)
    assert again.tol == 1e-4


def test_hostile_levels_labels_and_flags():
    with pytest.raises(TypeError, match="sort is"):
        QuantilePredictions((0.1, 0.9), sort=[])
    with pytest.raises(ValueError, match="levels cannot be made an array"):
        QuantilePredictions([[0.1, 0.2], [0.3]])
    with pytest.raises(TypeError, match="classes is"):
        scorer(fm.metrics.mean_crps, classes=np.ones(2))
    brier = scorer(fm.classification.mean_brier_score)

    class Model:
        classes_ = np.arange(2)

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    masked = np.ma.masked_array([0, 1], mask=[True, False])
    with pytest.raises(ValueError, match="y is a masked array"):
        brier(Model(), [[0.0], [1.0]], masked)
