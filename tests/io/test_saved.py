"""Every class that can be saved is restored unchanged, and files of earlier formats load."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import fastmcmd as fm
from fastmcmd import recalibration, storage
from fastmcmd.io.state import encode
from fastmcmd.recalibration.base import Fitted

pytestmark = pytest.mark.filterwarnings("ignore::fastmcmd.ToleranceWarning")
DATA = Path(__file__).parents[1] / "data"
GRID = np.linspace(-1, 1, 6).reshape(3, 2)
SAVABLE = [
    kind
    for kind in map(vars(recalibration).get, recalibration.__all__)
    if inspect.isclass(kind) and issubclass(kind, Fitted) and kind is not recalibration.Recalibrator
]
CLASSES = (
    recalibration.PlattScaling,
    recalibration.TemperatureScaling,
    recalibration.VectorScaling,
    recalibration.VennAbers,
    recalibration.BayesianBinning,
    recalibration.BetaCalibration,
    recalibration.NearIsotonicEnsemble,
)
PROBABILITIES = CLASSES[-3:]


def data(rows=60):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    return x, y, fm.Gaussian(x[:, 0], 1.3)


def estimator(**options):
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": "paper", "lam": 0.1, **options}
    return fm.ConditionalCongruence(**options).fit(*data())


ESTIMATORS = {
    "feature": {},
    "feature float32": {"dtype": "float32", "tol": 1e-3, "random_state": 7},
    "feature, two samples": {"draws": 2, "random_state": np.random.default_rng(1)},
    "low rank": {"solver": "lowrank", "tol": 1e-2, "rank": 20},
    "low rank, own landmarks": {"solver": "lowrank", "tol": 1e-2, "landmarks": data()[0][:30]},
    "dense, normal outputs": {"y_kernel": fm.Laplacian(1.0)},
    "dense, draws": {"y_kernel": fm.Laplacian(9.0), "draws": 10, "random_state": 5},
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_come_back(name, tmp_path):
    fitted = estimator(**ESTIMATORS[name])
    fitted.save(tmp_path / "a.npz")
    again = fm.load(tmp_path / "a.npz")
    for x in (GRID, data()[0]):
        ours, theirs = fitted.evaluate(x), again.evaluate(x)
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.error_bounds, theirs.error_bounds)
        assert ours.info.certificate == theirs.info.certificate
    np.testing.assert_array_equal(fitted.witness(GRID, [0.0, 1.0]), again.witness(GRID, [0.0, 1.0]))
    np.testing.assert_array_equal(fitted.result_.values, again.result_.values)
    np.testing.assert_array_equal(fitted.result_.error_bounds, again.result_.error_bounds)
    assert again.result_.info == fitted.result_.info
    again.save(tmp_path / "b.npz")
    assert contents(tmp_path / "a.npz") == contents(tmp_path / "b.npz")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_of_repeated_and_weighted_rows_come_back(name, tmp_path):
    x, y, prediction = data()
    x, weights = x[np.arange(60) % 23], np.arange(60) % 4 * 0.7
    options = {"x_kernel": fm.RBF(0.5), "y_kernel": "paper", "lam": 0.1, **ESTIMATORS[name]}
    for row_weights in (None, weights):
        fitted = fm.ConditionalCongruence(**options).fit(x, y, prediction, weights=row_weights)
        fitted.save(tmp_path / "a.npz")
        ours, theirs = fitted.evaluate(GRID), fm.load(tmp_path / "a.npz").evaluate(GRID)
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.error_bounds, theirs.error_bounds)


@pytest.mark.parametrize("kind", SAVABLE)
def test_recalibrators_come_back(kind, tmp_path):
    x, y, prediction = data(400)
    needs_inputs = getattr(kind, "needs_inputs", False)
    if kind in CLASSES:
        prediction, y = np.stack([y, -y], axis=1), (y + prediction.mean < 0).astype(int)
    if kind in PROBABILITIES:
        prediction = special.expit(prediction[:, 1])
    if kind is recalibration.MondrianIntervals:
        x, needs_inputs = np.arange(400) % 3, True
    fitted = kind().fit(prediction, y, x) if needs_inputs else kind().fit(prediction, y)
    fitted.save(tmp_path / "a.npz")
    for load in (fm.load, recalibration.load):
        again = load(tmp_path / "a.npz")
        assert type(again) is kind
        assert repr(again) == repr(fitted)
        for name, value in fitted.fitted.items():
            np.testing.assert_array_equal(again.fitted[name], value)


def test_all_that_have_save_are_tested():
    """Each public class with ``save`` is tested here, or in a file that is named here."""
    public = {
        kind
        for module in (fm, recalibration, fm.metrics, fm.classification, fm.streaming)
        for kind in (getattr(module, name) for name in module.__all__)
        if inspect.isclass(kind) and hasattr(kind, "save") and not inspect.isabstract(kind)
    }
    tested_elsewhere = {fm.ConditionalCongruence, fm.Monitor, fm.streaming.CCE}
    assert public - {recalibration.Recalibrator} == {*tested_elsewhere, *SAVABLE}


def contents(path):
    with np.load(path) as file:
        arrays = {name: file[name].tobytes() for name in file.files if name != "settings"}
        settings = json.loads(file["settings"].tobytes())
    arrays.pop("checksum")  # the time is among what it covers
    return arrays, settings


@pytest.mark.parametrize("name", ["feature", "lowrank", "dense_normal"])
def test_estimators_of_format_2_are_read(name):
    with np.load(DATA / "format2_expected.npz") as expected:
        values, result = expected[name], expected[f"{name}_result"]
    estimator = fm.load(DATA / f"format2_{name}.npz")
    np.testing.assert_allclose(estimator.score_samples(GRID), values, rtol=1e-12)
    np.testing.assert_array_equal(estimator.result_.values, result)
    if name == "lowrank":
        assert estimator.landmarks.shape == (20, 2)
    if name == "feature":
        assert estimator.random_state.random() == np.random.default_rng(3).random()
        assert estimator.get_params()["x_kernel"] == fm.RBF(0.5) + 0.1


@pytest.mark.parametrize("name", ["IsotonicCDF", "StdScaling"])
def test_recalibrators_of_format_2_are_read(name):
    with np.load(DATA / "format2_expected.npz") as expected:
        quantiles = expected[name]
    prediction = fm.Gaussian(data(24)[0][:, 0], 1.0)
    recalibrated_prediction = fm.load(DATA / f"format2_{name}.npz").transform(prediction)
    np.testing.assert_allclose(
        recalibrated_prediction.quantile(np.full(24, 0.3)), quantiles, rtol=1e-12
    )


def test_estimators_of_format_1_are_read(tmp_path):
    """Format 1 had no checksum, only resolved kernels, and node errors without the regulariser."""
    for name in ("feature", "dense_normal"):
        with np.load(DATA / f"format2_{name}.npz") as file:
            arrays = {key: file[key] for key in file.files if key != "checksum"}
        settings = json.loads(arrays.pop("settings").tobytes())
        del settings["given"]
        if name == "dense_normal":
            del settings["embedding_error"]
            settings["node_error"] = 0.0
        text = json.dumps({**settings, "format": 1}).encode()
        np.savez(tmp_path / "a.npz", **arrays, settings=np.frombuffer(text, np.uint8))
        again = fm.load(tmp_path / "a.npz").score_samples(GRID)
        np.testing.assert_array_equal(
            again, fm.load(DATA / f"format2_{name}.npz").score_samples(GRID)
        )


def test_another_class_is_refused(tmp_path):
    estimator().save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"not a saved recalibrator; fastmcmd\.load"):
        recalibration.load(tmp_path / "a.npz")
    storage.save(tmp_path / "b.npz", "os", recalibration.stored.RecalibratorState({}, {}))
    with pytest.raises(ValueError, match="holds a os, which this fastmcmd does not know"):
        fm.load(tmp_path / "b.npz")


@pytest.mark.parametrize("field", ["values", "error_bounds"])
@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_values_that_no_computation_gives_are_refused(tmp_path, field, value):
    """A wrong file is rejected, with and without a checksum."""
    path = tmp_path / "a.npz"
    estimator().save(path)
    arrays, settings, _ = storage.read_file(path, "estimator")
    arrays[field] = np.where(np.arange(60) == 7, value, arrays[field])
    storage.write_file(path, arrays, {"kind": settings["kind"], "state": settings["state"]})
    with pytest.raises(ValueError, match="negative or NaN"):
        fm.load(path)


def test_field_names_of_a_file():
    """These names are in the files of users.

    A new field needs a default, and a line in the list; any other change needs a new format and its reader.
    """
    from fastmcmd.estimate.saved import state_of

    names = {}
    for name in ESTIMATORS:
        arrays, document = encode(state_of(estimator(**ESTIMATORS[name])))
        names |= dict.fromkeys([*arrays, *leaves(document)])
    assert sorted(names) == sorted((DATA / "format3_names.txt").read_text().split())


def leaves(document, path=""):
    if isinstance(document, dict):
        for name, value in document.items():
            yield from leaves(value, f"{path}.{name}" if path else name)
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from leaves(value, f"{path}.{place}")
    else:
        yield path
