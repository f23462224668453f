"""Results and fitted estimators can be copied, pickled by users, and sent to other processes."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import fastmcmd as fm

N = 80
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = X[:, 0] + 0.3 * RNG.normal(size=N)
P = fm.Gaussian(X[:, 0], 0.3)


def pickled(value):
    return pickle.loads(pickle.dumps(value))


WAYS = pytest.mark.parametrize("copied", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])


@WAYS
@pytest.mark.parametrize("solver", ["auto", "cholesky", "cg", "lowrank"])
@pytest.mark.parametrize("y_kernel", [fm.RBF(0.5), fm.Laplacian(20.0)], ids=["feature", "dense"])
def test_fitted_estimators(copied, solver, y_kernel):
    if solver == "lowrank" and isinstance(y_kernel, fm.Laplacian):
        pytest.skip("low rank needs features of the outputs")
    fitted = fm.ConditionalCongruence(
        x_kernel=fm.RBF(0.5), y_kernel=y_kernel, solver=solver, tol=10.0
    )
    fitted.fit(X, Y, P)
    new = RNG.normal(size=(7, 2))
    expected = fitted.evaluate(new)
    again = copied(fitted)
    values = again.evaluate(new)
    np.testing.assert_allclose(values.values, expected.values, rtol=1e-12)
    np.testing.assert_allclose(
        again.witness(new, Y[:3]), fitted.witness(new, Y[:3]), rtol=1e-9, atol=1e-12
    )
    assert again.get_params().keys() == fitted.get_params().keys()


@WAYS
def test_results(copied):
    result = fm.cce(X, Y, P)
    again = copied(result)
    assert (again.values == result.values).all()
    assert again.info == result.info
    evaluation = fm.evaluate(Y, P, X, by=Y > 0)
    assert copied(evaluation).table() == evaluation.table()
    compared = fm.compare({"a": P, "b": fm.Gaussian(X[:, 0], 1.0)}, Y, X)
    assert repr(copied(compared)) == repr(compared)


def test_results_go_to_other_processes_and_back():
    joblib = pytest.importorskip("joblib")
    fitted = fm.ConditionalCongruence().fit(X, Y, P)
    expected = fitted.score_samples(X[:5])
    (scores,) = joblib.Parallel(n_jobs=2)([joblib.delayed(_score)(fitted)])
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def _score(fitted):
    return fitted.score_samples(X[:5])
