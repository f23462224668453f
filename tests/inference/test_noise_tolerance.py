"""The tolerance that follows the noise: a hundredth of what chance does to the values of a right model."""

from __future__ import annotations

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference import noise_tolerance as module


@pytest.fixture
def few_are_many(monkeypatch):
    """Small problems count as large ones, and the noise is estimated from a part of their rows."""
    monkeypatch.setattr(module, "MANY_ROWS", 400)
    monkeypatch.setattr(module, "_ROWS", 300)


def _data(n, d, seed, spread=0.5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    return x, np.sin(x[:, 0]) + spread * rng.normal(size=n), fm.Gaussian(np.sin(x[:, 0]), spread)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_is_a_hundredth_of_the_deviations_in_repetitions(few_are_many, weighted):
    x, _, prediction = _data(900, 2, 0)
    weights = np.random.default_rng(1).integers(0, 3, 900).astype(float) if weighted else None
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1.0)}
    values, tolerances = [], []
    for seed in range(40):
        y = prediction.sample(1, np.random.default_rng(100 + seed))[:, 0]
        cc = fm.ConditionalCongruence(**kernels, tol=None).fit(x, y, prediction, weights)
        values.append(cc.result_.values)
        tolerances.append(cc.result_.tol)
    deviations = np.std(values, axis=0, ddof=1)
    assert len(set(tolerances)) == 1  # outcomes have no effect
    # One digit is cut: 1.9 may become 1. The deviations are estimated, too.
    assert 0.4 * np.quantile(deviations, 0.02) < 100 * tolerances[0] < np.quantile(deviations, 0.2)


def test_values_are_within_their_bounds():
    x, y, prediction = _data(11_000, 1, 2)
    exact = fm.cce(x, y, prediction, tol=1e-8)
    evaluation = fm.evaluate(y, prediction, x)
    result = evaluation.congruence.result_
    assert 1e-6 < result.tol <= 1e-4
    assert result.error_bound <= result.tol
    assert (np.abs(result.values - exact.values) <= result.error_bounds + exact.error_bounds).all()
    assert any("hundredth" in note for note in result.info.notes)


def test_usual_tolerance():
    x, y, prediction = _data(500, 1, 3)
    assert fm.evaluate(y, prediction, x, test=False).congruence.result_.tol == 1e-6
    assert fm.evaluate(y, prediction, x, test=False, tol=1e-4).congruence.result_.tol == 1e-4


def test_without_a_known_spread_it_stays(few_are_many):
    x, y, prediction = _data(500, 1, 4)
    result = fm.ConditionalCongruence(tol=None).fit(x, y, prediction.mean[:, None]).result_
    assert result.tol == 1e-6
    assert not any("hundredth" in note for note in result.info.notes)


def test_rows_without_noise_need_the_usual_tolerance(few_are_many):
    """One model that is nearly certain has nearly no noise; both share a solve."""
    x, y, prediction = _data(500, 1, 5)
    models = {"wide": prediction, "certain": fm.Gaussian(prediction.mean, 1e-9)}
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1.0)}
    fits = fm.ConditionalCongruence(**kernels, tol=None).fit_each(x, y, models)
    assert {one.result_.tol for one in fits.values()} == {1e-6}
    only = fm.ConditionalCongruence(**kernels, tol=None).fit_each(x, y, {"wide": prediction})
    assert only["wide"].result_.tol > 1e-6


def test_new_inputs_and_files_keep_the_tolerance(few_are_many, tmp_path):
    x, y, prediction = _data(500, 1, 6)
    fitted = fm.ConditionalCongruence(tol=None).fit(x, y, prediction)
    assert fitted.tol is None
    assert fitted.evaluate(x[:3]).tol == fitted.result_.tol > 1e-6
    fitted.save(tmp_path / "fit.npz")
    loaded = fm.load(tmp_path / "fit.npz")
    assert loaded.tol is None
    assert loaded.evaluate(x[:3]).tol == fitted.result_.tol
    np.testing.assert_array_equal(loaded.evaluate(x[:3]).values, fitted.evaluate(x[:3]).values)


def test_rows_on_disk_and_little_memory(few_are_many, tmp_path):
    x, y, prediction = _data(2_000, 2, 7)
    np.save(tmp_path / "x.npy", x)
    in_memory = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), tol=None).fit(x, y, prediction)
    on_disk = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), tol=None)
    on_disk.fit(tmp_path / "x.npy", y, prediction)
    assert on_disk.result_.tol == in_memory.result_.tol > 1e-6
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1.0)}
    little = fm.ConditionalCongruence(**kernels, tol=None, memory_limit="30MB")
    assert little.fit(x, y, prediction).result_.tol > 1e-6


@pytest.mark.parametrize("tol", [0.0, -1.0, float("nan"), "small"])
def test_bad_tolerances(tol):
    x, y, prediction = _data(50, 1, 8)
    with pytest.raises((ValueError, TypeError), match="tol"):
        fm.evaluate(y, prediction, x, tol=tol)
