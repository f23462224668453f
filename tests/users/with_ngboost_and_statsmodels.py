"""Predictions of NGBoost and statsmodels, used unchanged."""

import numpy as np
import statsmodels.api as sm
from ngboost import NGBRegressor
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import fastmcmd as fm

x, y = load_diabetes(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)

ngb = NGBRegressor(n_estimators=50, verbose=False, random_state=0).fit(x_train, y_train)
ols = sm.OLS(y_train, sm.add_constant(x_train)).fit()

comparison = fm.compare(
    {
        "NGBoost": ngb.pred_dist(x_test),
        "OLS": ols.get_prediction(sm.add_constant(x_test)),
    },
    y_test,
    x_test,
)
print(comparison)
comparison.report("models.html")

counts = np.random.default_rng(0).poisson(np.exp(1 + x_train[:, 2] * 5))
poisson = sm.GLM(counts, sm.add_constant(x_train), family=sm.families.Poisson()).fit()
print(fm.evaluate(counts, fm.Poisson(poisson.predict()), x_train))
