"""Metrics of device arrays give the host's numbers, computed on the device, with the same errors."""

import inspect
import re
from pathlib import Path

import device_arrays
import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import metrics
from fastmcmd._base import arrays
from fastmcmd.classification import ece, mce
from fastmcmd.classification import reliability_curve as class_curve
from fastmcmd.metrics import variance_bins
from fastmcmd.predictive import on_device
from fastmcmd.predictive.adapters import missing

N = 1203  # no multiple of the numbers of bins
FEW = 250  # numbers that may come to the host together: sums of bins, counts of levels
COPIES = 30  # one a column of sums: those of qce are its 19 levels, and some


@pytest.fixture(params=device_arrays.LIBRARIES)
def gpu(request, monkeypatch):
    return device_arrays.gpu(request.param, monkeypatch)


def _sample(rng, n=N, kind=np.float64):
    """Return outcomes, and predictions as a pair and as draws; spreads have ties."""
    mean, std = rng.normal(size=n), rng.uniform(0.5, 2, n).round(1)
    y = 0.2 + mean + std * rng.normal(size=n)
    draws = mean[:, None] + std[:, None] * rng.normal(size=(n, 12))
    draws[:50, 3] = y[:50]  # atoms where the outcome is
    pair = mean.astype(kind), std.astype(kind)
    return y.astype(kind), {"pair": pair, "draws": draws.astype(kind)}


def _put(gpu, value):
    return tuple(map(gpu.put, value)) if isinstance(value, tuple) else gpu.put(value)


def _numbers_of(result):
    """Return the numbers of a result."""
    if isinstance(result, metrics.ReliabilityCurve):
        return [*result.observed, *result.within, result.effective, result.n]
    if isinstance(result, metrics.PITHistogram):
        return [*result.mass, result.n]
    if isinstance(result, metrics.VarianceCurve):
        return [*result.rmv, *result.rmse, *result.mass, *result.edges, *result.null_std, result.n]
    if isinstance(result, fm.classification.ReliabilityCurve):
        columns = [result.edges, result.count, result.weight, result.confidence, result.accuracy]
        return np.concatenate(columns)
    return result


def _same(gpu, on_device, on_host, by_row):
    """Compare the results of device and host."""
    assert max(gpu.host_copies, default=0) <= FEW
    assert len(gpu.host_copies) <= COPIES
    if by_row:
        on_device = gpu.get(on_device)
        assert on_device.dtype == np.float64
    else:
        assert type(on_device) is type(on_host)
    np.testing.assert_allclose(_numbers_of(on_device), _numbers_of(on_host), rtol=3e-12, atol=1e-14)


BY_ROW = [
    (metrics.crps, {}),
    (metrics.log_score, {}),
    (metrics.dawid_sebastiani, {}),
    (metrics.pit_values, {}),
    (metrics.pit_values, {"pit": "mid", "random_state": 3}),
    (metrics.check_score, {}),
    (metrics.check_score, {"levels": [0.9, 0.1]}),
    (metrics.interval_score, {"level": [0.5, 0.9]}),
    (metrics.weighted_interval_score, {}),
    (metrics.energy_score, {}),
]
AVERAGED = [
    (metrics.mae, {}),
    (metrics.rmse, {}),
    (metrics.bias, {}),
    (metrics.r2, {}),
    (metrics.pearson, {}),
    (metrics.marpd, {}),
    (metrics.mean_crps, {}),
    (metrics.nll, {}),
    (metrics.mean_dawid_sebastiani, {}),
    (metrics.mean_check_score, {}),
    (metrics.mean_interval_score, {}),
    (metrics.mean_weighted_interval_score, {}),
    (metrics.mean_energy_score, {}),
    (metrics.pit_histogram, {}),
    (metrics.pit_histogram, {"pit": "nonrandomized", "bins": 7}),
    (metrics.reliability_curve, {}),
    (metrics.reliability_curve, {"kind": "interval", "pit": "plain"}),
    (metrics.regression_ece, {"weights": "frequency", "alpha": 2}),
    (metrics.rms_calibration_error, {}),
    (metrics.mean_absolute_calibration_error, {}),
    (metrics.miscalibration_area, {}),
    (metrics.coverage, {}),
    (metrics.coverage, {"level": [0.0, 0.5, 1.0]}),
    (metrics.mean_interval_width, {"level": [0.3, 0.9]}),
    (metrics.sharpness, {}),
    (metrics.ence, {}),
    (metrics.ence_curve, {"bins": 17}),
    (metrics.ence_curve, {"binning": "width"}),
    (metrics.ence_curve, {"binning": "width", "by": "variance", "limits": (0.6, 2.0), "bins": 9}),
    (metrics.ence_curve, {"bins": 1}),
    (metrics.uce, {}),
    (metrics.qce, {}),
    (metrics.qce, {"binning": "width", "kind": "quantile", "levels": [0.9, 0.2]}),
]


def _names(cases):
    return [
        f"{function.__name__}-{','.join(map(str, options.values()))}" for function, options in cases
    ]


def _has_it(function, prediction):
    return prediction == "pair" or function not in (metrics.log_score, metrics.nll)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(("function", "options"), BY_ROW, ids=_names(BY_ROW))
def test_rows_as_on_the_host(gpu, rng, function, options, kind):
    y, predictions = _sample(rng, kind=kind)
    for name, prediction in predictions.items():
        if _has_it(function, name):
            on_host = function(y, prediction, **options)
            gpu.host_copies.clear()
            _same(gpu, function(gpu.put(y), _put(gpu, prediction), **options), on_host, True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("function", "options"), AVERAGED, ids=_names(AVERAGED))
def test_aggregates_as_on_the_host(gpu, rng, function, options, weighted):
    y, predictions = _sample(rng)
    weights = rng.integers(0, 4, N) * rng.uniform(0.5, 1.0) if weighted else None
    for name, prediction in predictions.items():
        if _has_it(function, name):
            on_host = function(y, prediction, sample_weight=weights, **options)
            device_weights = None if weights is None else gpu.put(weights)
            gpu.host_copies.clear()
            on_device = function(
                gpu.put(y), _put(gpu, prediction), sample_weight=device_weights, **options
            )
            _same(gpu, on_device, on_host, False)


def test_spreads_that_differ_little_or_not_at_all(gpu, rng):
    y, predictions = _sample(rng)
    mean = predictions["pair"][0]
    spreads = [np.ones(N), np.where(np.arange(N) < 3, 5.0, 1.0), np.exp(rng.normal(size=N))]
    for std in spreads:
        for options in ({}, {"binning": "width"}, {"bins": N}, {"bins": 100}):
            on_host = metrics.ence_curve(y, (mean, std), **options)
            from_device = metrics.ence_curve(gpu.put(y), _put(gpu, (mean, std)), **options)
            np.testing.assert_allclose(_numbers_of(from_device), _numbers_of(on_host), rtol=1e-9)


def test_edges_between_rows(gpu, rng):
    """Bins of equal weight end exactly between two rows: the later one is the edge."""
    mean, std = np.zeros(100), np.linspace(1.0, 2.0, 100)
    for weights in (None, np.full(100, 2.0)):
        for function, options in (
            (metrics.ence_curve, {"bins": 4}),
            (metrics.ence_curve, {"bins": 100}),
        ):
            on_host = function(std, (mean, std), sample_weight=weights, **options)
            from_device = function(std, (mean, gpu.put(std)), sample_weight=weights, **options)
            np.testing.assert_array_equal(from_device.edges, on_host.edges)
            np.testing.assert_array_equal(from_device.mass, on_host.mass)


def test_rows_of_no_weight_do_not_count(gpu, rng):
    y, predictions = _sample(rng)
    y[5] = 1e200  # of an infinite score
    weights = (np.arange(N) != 5).astype(float)
    device_pair = _put(gpu, predictions["pair"])
    on_host = metrics.nll(y, predictions["pair"], sample_weight=weights)
    with np.errstate(over="ignore"):  # NumPy implements some of the libraries
        on_device = metrics.nll(gpu.put(y), device_pair, sample_weight=weights)
        assert metrics.nll(gpu.put(y), device_pair) == np.inf
    assert on_device == pytest.approx(on_host, rel=1e-12)


@pytest.mark.parametrize("estimator", ["qd", "nrg", "pwm", "fair"])
def test_estimators_and_blocks(gpu, rng, monkeypatch, estimator):
    """Many blocks of rows, many sums on the host: as few and none."""
    monkeypatch.setattr(on_device, "_BLOCK", 100)
    monkeypatch.setattr(missing, "_BLOCK", 100)
    monkeypatch.setattr(variance_bins, "_MANY", 3)
    y, predictions = _sample(rng)
    pair, draws = predictions.values()
    from_device = metrics.crps(gpu.put(y), gpu.put(draws), estimator=estimator)
    np.testing.assert_allclose(
        gpu.get(from_device), metrics.crps(y, draws, estimator=estimator), rtol=1e-12
    )
    for prediction in (pair, draws):
        for function in (metrics.ence, metrics.sharpness, metrics.coverage):
            actual = function(gpu.put(y), _put(gpu, prediction))
            assert actual == pytest.approx(function(y, prediction), rel=1e-12)
        share = metrics.pit_values(gpu.put(y), _put(gpu, prediction), nan_policy="omit")
        np.testing.assert_allclose(gpu.get(share), metrics.pit_values(y, prediction), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1.0, 0.7])
@pytest.mark.parametrize("estimator", ["nrg", "fair"])
def test_energy_scores(gpu, rng, beta, estimator):
    options = {"beta": beta, "estimator": estimator}
    for k in (1, 3):
        y, draws = rng.normal(size=(70, k)), rng.normal(size=(70, 9, k))
        from_device = metrics.energy_score(gpu.put(y), gpu.put(draws), **options)
        np.testing.assert_allclose(
            gpu.get(from_device), metrics.energy_score(y, draws, **options), rtol=1e-11
        )
    weights = rng.uniform(size=70)
    score = metrics.mean_energy_score(gpu.put(y), gpu.put(draws), sample_weight=weights)
    assert score == pytest.approx(metrics.mean_energy_score(y, draws, sample_weight=weights))


def test_vectors(gpu, rng):
    y, mean, std = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)), rng.uniform(1, 2, (30, 2))
    from_device = metrics.log_score(gpu.put(y), _put(gpu, (mean, std)))
    np.testing.assert_allclose(gpu.get(from_device), metrics.log_score(y, (mean, std)), rtol=1e-12)
    draws = rng.normal(size=(30, 4, 2))
    for function in (metrics.mae, metrics.rmse, metrics.r2):
        for prediction in (mean, (mean, std), draws):
            options = {"multioutput": "raw_values"}
            from_device = function(gpu.put(y), _put(gpu, prediction), **options)
            np.testing.assert_allclose(from_device, function(y, prediction, **options), rtol=1e-12)


def test_what_is_left_to_the_host(gpu, rng):
    """Metrics see whole predictions on the device; what they do not need is computed on the host."""
    _, predictions = _sample(rng, 40)
    mean, std = (gpu.put(part) for part in predictions["pair"])
    draws = gpu.put(predictions["draws"])
    namespace, levels, rows = (
        arrays.device_namespace(mean),
        np.array([0.1, 0.5, 0.95]),
        np.array([3, 0, 7]),
    )
    pairs = [
        (on_device.DeviceGaussian(namespace, mean, std), fm.Gaussian(*predictions["pair"])),
        (on_device.DeviceDraws(namespace, draws), fm.Draws(predictions["draws"])),
    ]
    for from_device, on_host in pairs:
        np.testing.assert_array_equal(from_device.sample(3, 0), on_host.sample(3, 0))
        np.testing.assert_array_equal(from_device.nodes()[0], on_host.nodes()[0])
        with gpu.context():
            quantiles, few = from_device.quantile(levels), from_device.take(rows).mean
        np.testing.assert_allclose(gpu.get(quantiles), on_host.quantile(levels), rtol=1e-12)
        np.testing.assert_allclose(gpu.get(few), on_host.take(rows).mean, rtol=1e-12)


def test_histograms_where_values_lie_on_edges():
    """Without atoms, each row is a step, including its edge."""
    y = np.concatenate([np.linspace(0, 1, 11), [1e-310, 1e-290, 0.3 - 1e-16]])
    prediction = fm.Uniform(np.zeros(len(y)), 1.0)
    spread = metrics.pit_histogram(y, prediction, pit="nonrandomized")
    np.testing.assert_array_equal(
        spread.mass, metrics.pit_histogram(y, prediction, pit="plain").mass
    )


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_nan_policies(gpu, rng, policy):
    y, predictions = _sample(rng)
    pair, draws = predictions.values()
    y[3], pair[0][5], pair[1][7], draws[9, 2] = (np.nan,) * 4
    weights = rng.uniform(size=N)
    weights[11] = np.nan
    for prediction in (pair, draws):
        from_device = metrics.crps(gpu.put(y), _put(gpu, prediction), nan_policy=policy)
        on_host = metrics.crps(y, prediction, nan_policy=policy)
        np.testing.assert_allclose(gpu.get(from_device), on_host, rtol=1e-12)
        assert np.isnan(on_host).any()
        for function in (
            metrics.mean_crps,
            metrics.ence,
            metrics.qce,
            metrics.coverage,
            metrics.regression_ece,
            metrics.pit_histogram,
        ):
            options = {"sample_weight": weights, "nan_policy": policy}
            from_device = function(gpu.put(y), _put(gpu, prediction), **options)
            np.testing.assert_allclose(
                _numbers_of(from_device),
                _numbers_of(function(y, prediction, **options)),
                rtol=1e-11,
            )


def test_scalars_and_numbers_of_the_host(gpu, rng):
    """Scalars follow the prediction to its device, or to the host."""
    y, predictions = _sample(rng)
    (mean, std), draws = predictions.values()
    on_host = metrics.crps(y, (mean, 0.7))
    for pair in ((gpu.put(mean), 0.7), (gpu.put(mean), np.float32(0.7)), (mean, gpu.put(0.7))):
        from_device = gpu.get(metrics.crps(y, pair))
        np.testing.assert_allclose(from_device, on_host, rtol=1e-6)
    from_device = metrics.crps(y.tolist(), (0.0, gpu.put(std)))
    np.testing.assert_allclose(gpu.get(from_device), metrics.crps(y, (0.0, std)), rtol=1e-12)
    options = {"sample_weight": np.arange(N)}
    scores = metrics.mean_crps(y, gpu.put(draws), **options)
    assert scores == pytest.approx(metrics.mean_crps(y, draws, **options), rel=1e-12)
    scores = metrics.coverage(y, gpu.put(draws[:, 0].astype(np.int32)))
    assert scores == metrics.coverage(y, draws[:, 0].astype(np.int32))


def test_a_prediction_of_the_host_brings_rows_there(monkeypatch, rng):
    gpu = device_arrays.gpu("cupy", monkeypatch)
    y, predictions = _sample(rng)
    for prediction in (*predictions.values(), fm.Laplace(*predictions["pair"])):
        from_device = metrics.crps(gpu.put(y), prediction)
        assert isinstance(from_device, np.ndarray)
        np.testing.assert_array_equal(from_device, metrics.crps(y, prediction))


def test_two_devices_are_refused(monkeypatch, rng):
    gpu = device_arrays.gpu("cupy", monkeypatch)
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(arrays.FINDERS, "torch", lambda value: arrays._Torch(torch, value.device))
    y, predictions = _sample(rng)
    pair = _put(gpu, predictions["pair"])
    with pytest.raises(
        ValueError, match="y is of torch on cpu, and the prediction of cupy on <CUDA"
    ):
        metrics.crps(torch.tensor(y), pair)
    with pytest.raises(
        ValueError, match="std is of torch on cpu, and the prediction of cupy on <CUDA"
    ):
        metrics.crps(gpu.put(y), (pair[0], torch.tensor(predictions["pair"][1])))
    with pytest.raises(ValueError, match="y is of torch"):
        ece(torch.tensor([0, 1]), gpu.put([0.1, 0.9]))


def _with_value(at, value):
    def change(array):
        array = np.array(array, dtype=np.float64)
        array[at] = value
        return array

    return change


def _bad_inputs(rng):
    y, predictions = _sample(rng, 60)
    (mean, std), draws = predictions.values()
    pair = (mean, std)
    weights = np.ones(60)
    nan, inf, negative = _with_value(7, np.nan), _with_value(8, -np.inf), _with_value(9, -1.0)
    yield from [
        (nan(y), pair, {}),
        (inf(y), draws, {}),
        (y[:, None, None], pair, {}),
        (np.ones((60, 2)), pair, {}),
        (y[:0], pair, {}),
        (y[:59], pair, {}),
        (y[:59], draws, {}),
        (y, (nan(mean), std), {}),
        (y, (mean, inf(std)), {}),
        (y, (mean, negative(std)), {}),
        (y, (mean, _with_value(0, 0.0)(std)), {}),
        (y, (mean, std[:5]), {}),
        (y, (mean[:, None, None], std), {}),
        (y, (mean, std, std), {}),
        (y, nan(draws), {}),
        (y, inf(draws), {}),
        (y, draws[:, :0], {}),
        (y, np.ones((60, 3, 2)), {}),
        (y, np.ones((60, 2, 2, 2)), {}),
        (y, draws * 1j, {}),
        (y, (mean * 1j, std), {}),
        (y, pair, {"sample_weight": weights[:9]}),
        (y, pair, {"sample_weight": np.ones((60, 2))}),
        (y, pair, {"sample_weight": negative(weights)}),
        (y, pair, {"sample_weight": nan(weights)}),
        (y, pair, {"sample_weight": 0 * weights}),
        (y, pair, {"nan_policy": "drop"}),
        (np.full(60, np.nan), pair, {"nan_policy": "omit"}),
    ]


def test_refusals_are_those_of_the_host(gpu, rng):
    for y, prediction, options in _bad_inputs(rng):
        with pytest.raises((ValueError, TypeError)) as host_error:
            metrics.mean_crps(y, prediction, **options)
        if "sample_weight" in options:
            options = {**options, "sample_weight": gpu.put(options["sample_weight"])}
        with pytest.raises(host_error.type) as device_error:
            metrics.mean_crps(gpu.put(y), _put(gpu, prediction), **options)
        assert str(device_error.value) == str(host_error.value)


def test_refusals_of_metrics(gpu, rng):
    y, predictions = _sample(rng, 60)
    pair, draws = predictions.values()
    constant = np.ones((60, 3))
    for function, prediction, options in [
        (metrics.nll, draws, {}),
        (metrics.dawid_sebastiani, constant, {}),
        (metrics.ence, constant, {}),
        (metrics.crps, pair, {"estimator": "fair"}),
        (metrics.crps, draws[:, :1], {"estimator": "fair"}),
        (metrics.crps, draws, {"estimator": "median"}),
        (metrics.energy_score, pair, {"beta": 0.5}),
        (metrics.energy_score, draws, {"draws": 5}),
        (metrics.ence, pair, {"bins": 61}),
    ]:
        if gpu.kind.__name__ == "Strict" and options.get("draws"):
            continue  # must be copied to the host, which this library refuses
        with pytest.raises(ValueError) as host_error:  # noqa: PT011
            function(y, prediction, **options)
        with pytest.raises(ValueError) as device_error:  # noqa: PT011
            function(gpu.put(y), _put(gpu, prediction), **options)
        assert str(device_error.value) == str(host_error.value)


def _classes(rng, n=N, k=5, kind=np.float64):
    p = rng.dirichlet(np.full(k, 0.6), n)
    p[:90] = p[:90].round(1)  # on edges of bins, and with ties
    p[:90, -1] = 1 - p[:90, :-1].sum(axis=1)
    p = np.clip(p, 0, 1)
    y = np.where(rng.uniform(size=n) < 0.5, p.argmax(axis=1), rng.integers(0, k, n))
    return y, p.astype(kind)


BINNINGS = [
    {},
    {"closed": "left"},
    {"bins": 10, "binning": "mass"},
    {"bins": 10, "binning": "mass", "closed": "left"},
    {"bins": 1},
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("options", BINNINGS, ids=str)
def test_calibration_of_classes(gpu, rng, options, kind):
    y, p = _classes(rng, kind=kind)
    events = [(y, p, {}), (y % 2, p[:, 0], {}), (y % 2, p[:, 0], {"of": "top"})]
    two = np.stack([1 - p[:, 1], p[:, 1]], axis=1)
    events += [(y == 1, two, {"of": "positive"}), (y == 1, two, {"of": "top"})]
    for labels, values, of in events:
        for weights in (None, rng.integers(0, 3, N).astype(float)):
            for function in (ece, mce, class_curve):
                on_host = function(labels, values, sample_weight=weights, **of, **options)
                device_weights = None if weights is None else gpu.put(weights)
                gpu.host_copies.clear()
                on_device = function(
                    gpu.put(labels), gpu.put(values), sample_weight=device_weights, **of, **options
                )
                _same(gpu, on_device, on_host, False)


def test_labels_of_any_kind(gpu, rng):
    y, p = _classes(rng, 200)
    on_host = ece(y, p)
    for labels in (y.astype(np.float32), y.astype(np.int32), y.astype(np.uint8)):
        assert ece(gpu.put(labels), gpu.put(p)) == pytest.approx(on_host, abs=1e-14)
        assert ece(labels, gpu.put(p)) == pytest.approx(on_host, abs=1e-14)
    assert ece(y.tolist(), gpu.put(p)) == pytest.approx(on_host, abs=1e-14)


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_nan_of_classes(gpu, rng, policy):
    y, p = _classes(rng, 200)
    labels, weights = y.astype(float), rng.uniform(size=200)
    labels[3], p[5, 1], weights[7] = (np.nan,) * 3
    options = {"nan_policy": policy}
    on_host = ece(labels, p, sample_weight=weights, **options)
    from_device = ece(gpu.put(labels), gpu.put(p), sample_weight=gpu.put(weights), **options)
    assert from_device == pytest.approx(on_host, rel=1e-12, nan_ok=True)
    labels[9] = 7
    with pytest.raises(ValueError, match=r"y\[9\] is 7.0; integers from 0 to 4"):
        ece(gpu.put(labels), gpu.put(p), **options)
    labels[9], p[30] = 0, 0.7
    with pytest.raises(ValueError, match=r"row 30 sums to 3\.5"):
        ece(gpu.put(labels), gpu.put(p), **options)


def test_refusals_of_classes_are_those_of_the_host(gpu, rng):
    y, p = _classes(rng, 50)
    for labels, values, options in [
        (y[:49], p, {}),
        (y[:, None], p, {}),
        (_with_value(4, 5)(y), p, {}),
        (np.where(np.arange(50) == 6, -1, y), p, {}),
        (_with_value(4, 1.5)(y), p, {}),
        (_with_value(4, np.nan)(y), p, {}),
        (y > 1, p, {}),
        (y, p * 2, {}),
        (y, _with_value((5, 1), np.nan)(p), {}),
        (y, _with_value((5, 1), -0.25)(p), {}),
        (y, p * 0.999, {}),
        (y, np.where(np.arange(50)[:, None] == 5, [1 + 5e-7, 0, 0, 0, 0], p), {}),
        (y, p[:, :1], {}),
        (y[:0], p[:0], {}),
        (y, p[:, :, None], {}),
        (y, p, {"of": "positive"}),
        (y, p, {"sum_tolerance": -1.0}),
        (y, p, {"sample_weight": np.ones(49)}),
        (y, p, {"sample_weight": -np.ones(50)}),
        (y % 2, _with_value(5, 1.5)(p[:, 0]), {}),
        (y % 2, _with_value(5, np.nan)(p[:, 0]), {}),
    ]:
        with pytest.raises((ValueError, TypeError)) as host_error:
            ece(labels, values, **options)
        if "sample_weight" in options:
            options = {**options, "sample_weight": gpu.put(options["sample_weight"])}
        with pytest.raises(host_error.type) as device_error:
            ece(gpu.put(labels), gpu.put(values), **options)
        assert str(device_error.value) == str(host_error.value)


def test_half_precision(rng, monkeypatch):
    """Sums of float16 and bfloat16 rows are as inexact as these types."""
    torch = pytest.importorskip("torch")
    device_arrays.gpu("torch", monkeypatch)
    y, p = _classes(rng, 300)
    for kind in (torch.float16, torch.bfloat16):
        rounded = torch.tensor(p).to(kind)
        on_host = ece(y, rounded.float().numpy(), sum_tolerance=0.01)
        assert ece(torch.tensor(y), rounded) == pytest.approx(on_host, abs=1e-12)
    outcomes, predictions = _sample(rng, 50)
    draws = torch.tensor(predictions["draws"], requires_grad=True)
    from_device = metrics.crps(torch.tensor(outcomes), draws)
    np.testing.assert_allclose(from_device.numpy(), metrics.crps(outcomes, predictions["draws"]))


def _computed_there():
    """Return the names of the documented list."""
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    section = page.split("## Arrays on a device")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for line in table for name in re.findall(r"`([\w.]+)`", line.split("|")[1])}


# Arguments that some metrics need besides outcomes and predictions.
_REQUIRED = {
    "k": 1,
    "event": np.ones(N),
    "times": [0.5, 1.0],
    "threshold": 0.0,
    "thresholds": [0.0],
}


def _of_draws(name: str) -> bool:
    return any(one in name for one in ("ensemble_log", "error_spread", "rank_histogram"))


@pytest.mark.slow
def test_the_documented_list_is_true(monkeypatch, rng):
    """Each public metric computes on the device if the page says so, else copies its rows to the host."""
    gpu = device_arrays.gpu("cupy", monkeypatch)
    y, predictions = _sample(rng)
    mean, std = predictions["pair"]
    y_there, pair = gpu.put(y), _put(gpu, (mean, std))
    labels, p = gpu.put((y > 0).astype(int)), gpu.put(rng.uniform(size=N))
    listed_names = _computed_there()
    on_device_names = set()
    for module, first in ((metrics, (y_there, pair)), (fm.classification, (labels, p))):
        for name in module.__all__:
            function = getattr(module, name)
            if not inspect.isfunction(function):
                continue
            parameters = list(inspect.signature(function).parameters)
            if parameters[:2] not in (["y", "prediction"], ["y", "p"]):
                continue
            gpu.host_copies.clear()
            if "variogram_score" in name or "weighted_energy_score" in name:  # of vectors
                function(gpu.put(np.ones((N, 2))), gpu.put(np.ones((N, 3, 2))))
            else:
                required = {
                    one: _REQUIRED[one]
                    for one, parameter in inspect.signature(function).parameters.items()
                    if one == "k" or (one in _REQUIRED and parameter.default is parameter.empty)
                }
                rows = first if not _of_draws(name) else (y_there, gpu.put(predictions["draws"]))
                function(*rows, **required)
            stays_on_device = max(gpu.host_copies, default=0) < N
            full = name if module is metrics else f"classification.{name}"
            on_device_names.add(full)
            assert stays_on_device == (full in listed_names), full
    assert listed_names < on_device_names


def test_rows_that_are_all_missing_propagate_as_on_the_host(gpu, rng):
    _, predictions = _sample(rng, 60)
    nothing = np.full(60, np.nan)
    for prediction in predictions.values():
        for function in (metrics.mean_crps, metrics.ence, metrics.coverage, metrics.mae):
            from_device = function(gpu.put(nothing), _put(gpu, prediction), nan_policy="propagate")
            assert np.isnan(from_device)
    from_device = metrics.crps(
        gpu.put(nothing), gpu.put(predictions["draws"]), nan_policy="propagate"
    )
    assert np.isnan(gpu.get(from_device)).all()
    labels, p = _classes(rng, 200)
    missing = gpu.put(np.full(p.shape, np.nan))
    assert np.isnan(ece(gpu.put(labels), missing, nan_policy="propagate"))
