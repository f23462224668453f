"""Displays in the style of scikit-learn draw the function's curve on the given axes."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib").use("Agg")

from sklearn.linear_model import BayesianRidge, LogisticRegression  # noqa: E402

from fastmcmd.compat import sklearn as compat  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = X[:, 0] + RNG.normal(size=200)
MODEL = BayesianRidge().fit(X, Y)
FUNCTIONS = {
    "ReliabilityDisplay": fm.metrics.reliability_curve,
    "PITHistogramDisplay": fm.metrics.pit_histogram,
    "PITEcdfDisplay": fm.metrics.pit_ecdf,
    "VarianceDisplay": fm.metrics.ence_curve,
    "MurphyDisplay": fm.metrics.murphy_curve,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_estimator_and_predictions_give_the_same_curve(name, unpainted):
    import matplotlib.pyplot as plt

    kind = getattr(compat, name)
    _, ax = plt.subplots()
    display = kind.from_estimator(MODEL, X, Y, ax=ax)
    prediction = MODEL.predict(X, return_std=True)
    expected = FUNCTIONS[name](Y, prediction).to_dict()
    np.testing.assert_equal(display.curve.to_dict(), expected)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    again = kind.from_predictions(Y, prediction)
    np.testing.assert_equal(again.curve.to_dict(), expected)
    assert again.plot(ax) is again
    assert repr(again).startswith(f"{name} of ")
    plt.close("all")


def test_classes_are_named_by_the_estimator(unpainted):
    import matplotlib.pyplot as plt

    names = np.array(["no", "yes"])[(Y > 0).astype(int)]
    model = LogisticRegression().fit(X, names)
    weights = RNG.uniform(size=200)
    display = compat.ClassReliabilityDisplay.from_estimator(
        model, X, names, sample_weight=weights, bins=5
    )
    expected = fm.classification.reliability_curve(
        (Y > 0).astype(int), model.predict_proba(X), sample_weight=weights, bins=5
    )
    np.testing.assert_equal(display.curve.to_dict(), expected.to_dict())
    plt.close("all")
