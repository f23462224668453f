"""Recalibrators from altered files with a valid checksum are rejected, or work."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import recalibration as rc
from fastmcmd.storage import read_file, write_file

Y = np.sort(np.random.default_rng(0).normal(size=60))
KINDS = [
    rc.BayesianBinning,
    rc.BetaCalibration,
    rc.ConformalIntervals,
    rc.HistogramBinningStd,
    rc.IntervalRecalibrator,
    rc.IsotonicCDF,
    rc.IsotonicStd,
    rc.QuantileRecalibrator,
    rc.StdRatio,
    rc.StdScaling,
    rc.MondrianIntervals,
    rc.NearIsotonicEnsemble,
    rc.PlattScaling,
    rc.TemperatureScaling,
    rc.VectorScaling,
    rc.VennAbers,
]
BINARY = (
    rc.BayesianBinning,
    rc.BetaCalibration,
    rc.NearIsotonicEnsemble,
    rc.PlattScaling,
    rc.VennAbers,
)
GROUPS = np.arange(60) % 2


def fitted(kind):
    if kind in BINARY:
        shares = np.linspace(0.05, 0.95, 60)
        return kind().fit(shares, np.arange(60) % 5 < 5 * shares)
    if kind is rc.MondrianIntervals:
        return kind().fit(fm.Gaussian(Y / 2, 1.0), Y, GROUPS)
    if kind in (rc.TemperatureScaling, rc.VectorScaling):
        logits = np.random.default_rng(1).normal(size=(60, 3))
        return kind().fit(
            logits, np.argmax(logits + np.arange(60)[:, None] % 2 * logits[::-1], axis=1)
        )
    return kind().fit(fm.Gaussian(Y / 2, 1.0), Y)


def use(recalibrator):
    if isinstance(recalibrator, BINARY):
        return recalibrator.transform(np.array([0.2, 0.7]))
    if isinstance(recalibrator, (rc.TemperatureScaling, rc.VectorScaling)):
        return recalibrator.transform(np.zeros((2, 3)))
    new = fm.Gaussian([0.0, 1.0], 1.0)
    if isinstance(recalibrator, rc.MondrianIntervals):
        return recalibrator.interval(new, [0, 1])
    if isinstance(recalibrator, rc.ConformalIntervals):
        return recalibrator.interval(new)
    mended = recalibrator.transform(new)
    return np.concatenate([mended.cdf([0.3, 0.2]), mended.quantile(0.3)])


def forged_arrays(array):
    yield from (np.zeros(0), np.array(1.5), array[:-1], array[::-1], array.astype(complex))
    yield from (np.full(array.shape, bad) for bad in (np.nan, np.inf, -1.0, 0.0, 1e300, "a"))
    yield np.zeros((*array.shape, 2))


FORGED = [None, True, -1, 0, np.nan, np.inf, "x", [1], {}, 10**400]


def places(document):
    """Yield the container of each value of a JSON document, and its key there."""
    for key in list(document.keys() if isinstance(document, dict) else range(len(document))):
        yield document, key
        if isinstance(document[key], (dict, list)):
            yield from places(document[key])


def forgeries(arrays, settings):
    for name, array in arrays.items():
        for bad in forged_arrays(array):
            yield {**arrays, name: bad}, settings
        yield {other: value for other, value in arrays.items() if other != name}, settings
    for at in range(len(list(places(settings["state"])))):
        for bad in FORGED:
            other = copy.deepcopy(settings)
            holder, key = list(places(other["state"]))[at]
            holder[key] = bad
            yield arrays, other


@pytest.mark.parametrize("kind", KINDS)
def test_forged_contents_are_refused_or_harmless(kind, tmp_path):
    path = tmp_path / "a.npz"
    fitted(kind).save(path)
    arrays, settings, _ = read_file(path, "recalibrator")
    settings = {"kind": settings["kind"], "state": settings["state"]}
    write_file(path, arrays, settings)
    assert np.isfinite(use(rc.load(path))).all()
    refused = 0
    for other, document in forgeries(arrays, settings):
        write_file(path, other, document)
        message = None
        try:
            recalibrator = rc.load(path)
        except ValueError as error:
            message = str(error)
        if message is None:
            assert np.isfinite(use(recalibrator)).all()
        else:
            assert str(path) in message
            refused += 1
    assert refused > 10
