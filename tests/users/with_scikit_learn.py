"""scikit-learn, with pickle and joblib."""

import pickle

import joblib
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fastmcmd as fm

x, y = load_diabetes(return_X_y=True, as_frame=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)

ridge = make_pipeline(StandardScaler(), BayesianRidge()).fit(x_train, y_train)
kernel = RBF(1.0) + WhiteKernel()
gp = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True))
gp.fit(x_train, y_train)

models = {
    name: model.predict(x_test, return_std=True)
    for name, model in {"ridge": ridge, "GP": gp}.items()
}
result = fm.evaluate(y_test, models["GP"], x_test)
print(result)
print(result["crps"], result["cce"], result["ece"])

comparison = fm.compare(models, y_test, x_test)
print(comparison)
print(comparison.to_frame())

again = pickle.loads(pickle.dumps(result))
assert again["crps"] == result["crps"]
joblib.dump(comparison, "comparison.joblib")
assert joblib.load("comparison.joblib")["GP"]["crps"] == result["crps"]

x, y = load_breast_cancer(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(x_train, y_train)
probs = classifier.predict_proba(x_test)
print(fm.classification.evaluate(y_test, probs))
print(fm.classification.ece(y_test, probs))
brier = fm.classification.mean_brier_score(y_test, probs)
assert np.isclose(brier, fm.classification.mean_brier_score(y_test, probs[:, 1]))
assert np.isclose(brier, brier_score_loss(y_test, probs[:, 1]))
