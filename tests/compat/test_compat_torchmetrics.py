"""torchmetrics classes: numbers equal to the functions', collections, several processes, copies."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd import classification as fc
from fastmcmd import metrics, streaming
from fastmcmd.compat import torchmetrics as tm
from fastmcmd.compat.flat import flatten, restore

N = 60

# Class, its arguments, the function of the same value, its arguments.
REGRESSION = [
    ("NLL", {}, metrics.nll, {}),
    ("CRPS", {}, metrics.mean_crps, {}),
    ("CheckScore", {}, metrics.mean_check_score, {}),
    ("IntervalScore", {"level": 0.8}, metrics.mean_interval_score, {"level": 0.8}),
    ("WeightedIntervalScore", {}, metrics.mean_weighted_interval_score, {}),
    ("DawidSebastiani", {}, metrics.mean_dawid_sebastiani, {}),
    ("MAE", {}, metrics.mae, {}),
    ("RMSE", {}, metrics.rmse, {}),
    ("Bias", {}, metrics.bias, {}),
    ("MARPD", {}, metrics.marpd, {}),
    ("R2", {}, metrics.r2, {}),
    ("Pearson", {}, metrics.pearson, {}),
    ("RegressionECE", {}, metrics.regression_ece, {}),
    ("RMSCalibrationError", {}, metrics.rms_calibration_error, {}),
    ("MeanAbsoluteCalibrationError", {}, metrics.mean_absolute_calibration_error, {}),
    ("MiscalibrationArea", {}, metrics.miscalibration_area, {}),
    ("Coverage", {"level": [0.5, 0.9]}, metrics.coverage, {"level": [0.5, 0.9]}),
    ("MeanIntervalWidth", {}, metrics.mean_interval_width, {}),
    ("Sharpness", {}, metrics.sharpness, {}),
    ("ENCE", {"bins": 5}, metrics.ence, {"bins": 5}),
    ("UCE", {"bins": 5}, metrics.uce, {"bins": 5}),
    ("QCE", {"bins": 5}, metrics.qce, {"bins": 5}),
    ("VarianceVariation", {}, metrics.variance_variation, {}),
]  # fmt: skip
ABOUT = [("MedianAbsoluteError", {}, metrics.median_absolute_error, {})]  # to a relative 1e-3
CLASSES = [
    ("Accuracy", {}, fc.accuracy, {}),
    ("TopKAccuracy", {"k": 2}, fc.top_k_accuracy, {"k": 2}),
    ("BrierScore", {}, fc.mean_brier_score, {}),
    ("ClassificationECE", {"bins": 7}, fc.ece, {"bins": 7}),
    ("ClassificationNLL", {}, fc.nll, {}),
    ("ClasswiseECE", {"bins": 7}, fc.classwise_ece, {"bins": 7}),
    ("ConfusionMatrix", {}, fc.confusion_matrix, {}),
    ("AUROC", {}, fc.auroc, {}),
    ("RankedProbabilityScore", {}, fc.mean_ranked_probability_score, {}),
]
# Classes that return a named tuple, and the function whose result has the same attributes.
CURVES = [
    ("Reliability", {}, metrics.reliability_curve, {}),
    ("Reliability", {"levels": [0.2, 0.7], "kind": "interval"}, metrics.reliability_curve,
     {"levels": [0.2, 0.7], "kind": "interval"}),
    ("PITHistogram", {"bins": 7}, metrics.pit_histogram, {"bins": 7}),
    ("ENCECurve", {"bins": 5}, metrics.ence_curve, {"bins": 5}),
    ("ENCECurve", {"bins": 4, "by": "variance", "binning": "width"}, metrics.ence_curve,
     {"bins": 4, "by": "variance", "binning": "width"}),
]  # fmt: skip
PARTS = (slice(0, 10), slice(10, 11), slice(11, N))


@pytest.fixture
def torch():
    pytest.importorskip("torchmetrics")
    return pytest.importorskip("torch")


@pytest.fixture
def data(torch, rng):
    """Return means, standard deviations, outcomes and weights as tensors."""
    mean, std = rng.normal(size=N), np.exp(rng.normal(size=N) / 2)
    y = mean + std * rng.normal(size=N)
    return tuple(torch.as_tensor(one) for one in (mean, std, y, rng.integers(0, 3, N)))


@pytest.fixture
def labelled(torch, rng):
    logits = rng.normal(size=(N, 3))
    return torch.as_tensor(logits), torch.as_tensor(np.arange(N) % 3)


def _value(result):
    return result.detach().cpu().numpy()


@pytest.mark.parametrize(("name", "options", "function", "same"), REGRESSION + ABOUT)
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_give_what_the_function_gives(data, name, options, function, same, weighted):
    mean, std, y, w = data
    metric = getattr(tm, name)(**options)
    for part in PARTS:
        weights = (w[part] + 1,) if weighted else ()
        metric.update((mean[part], std[part]), y[part], *weights)
    expected = function(y, (mean, std), sample_weight=w + 1 if weighted else None, **same)
    rtol = 1e-3 if name == "MedianAbsoluteError" else 1e-10
    np.testing.assert_allclose(_value(metric.compute()), expected, rtol=rtol)


@pytest.mark.parametrize(("name", "options", "function", "same"), CLASSES)
@pytest.mark.parametrize("binary", [False, True])
def test_classes_in_batches(torch, labelled, name, options, function, same, binary):
    logits, y = labelled
    if binary:
        logits, y = logits[:, 0], (y == 0).long()
        options, same = ({"k": 1}, {"k": 1}) if name == "TopKAccuracy" else (options, same)
    p = torch.sigmoid(logits) if binary else torch.softmax(logits, 1)
    plain, of_logits = getattr(tm, name)(**options), getattr(tm, name)(logits=True, **options)
    for part in PARTS:
        plain.update(p[part], y[part])
        of_logits.update(logits[part], y[part])
    expected = function(y, p, **same)
    atol = plain.accumulator().compute().error_bound if name == "AUROC" else 0.0
    np.testing.assert_allclose(_value(plain.compute()), expected, rtol=1e-10, atol=atol)
    np.testing.assert_allclose(_value(of_logits.compute()), expected, rtol=1e-10, atol=atol)


def test_vectors_of_draws(torch, rng):
    draws, y = rng.normal(size=(N, 8, 2)), rng.normal(size=(N, 2))
    for name, function in [
        ("EnergyScore", metrics.mean_energy_score),
        ("VariogramScore", metrics.mean_variogram_score),
    ]:
        metric = getattr(tm, name)()
        for part in PARTS:
            metric.update(torch.as_tensor(draws[part]), torch.as_tensor(y[part]))
        np.testing.assert_allclose(_value(metric.compute()), function(y, draws), rtol=1e-10)


def test_every_accumulator_of_a_number_has_a_class():
    without_class = {"Accumulator", "MeanOf", "UncertaintyHistogram"}  # the last has no labels
    without_class |= {
        "CCE",
        "CongruenceEstimate",
        "SlidingWindow",
    }  # of inputs, too: update(x, y, prediction)
    tuples = {"AboveValues", "BrierTerms", "PITValues", "ReliabilityValues", "VarianceValues"}
    assert set(dir(tm)) == set(streaming.__all__) - without_class | tuples
    tested = {one[0] for one in REGRESSION + ABOUT + CLASSES + CURVES}
    tested |= {"EnergyScore", "VariogramScore", "BrierDecomposition", "AccuracyAboveConfidence"}
    assert set(dir(tm)) == tested | tuples


# ---- curves, histograms, decompositions ----


def _same_curve(curve, expected):
    for name, value in curve._asdict().items():
        # Sketches place the edges of bins of equal mass, to the accuracy of the accumulator.
        rtol = 1e-3 if name == "edges" else 1e-10
        np.testing.assert_allclose(_value(value), getattr(expected, name), rtol=rtol, err_msg=name)


def _random_parts(rng, n):
    """Return the rows in random order, cut at random positions."""
    cuts = np.sort(rng.choice(np.arange(1, n), rng.integers(1, 6), replace=False))
    return np.split(rng.permutation(n), cuts)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "options", "function", "same"), CURVES)
def test_curves_in_batches(data, rng, name, options, function, same, weighted):
    mean, std, y, w = data
    w = w + 1 if weighted else None
    expected = function(y, (mean, std), sample_weight=w, **same)
    for _ in range(4):
        metric = getattr(tm, name)(**options)
        for part in _random_parts(rng, N):
            metric.update((mean[part], std[part]), y[part], None if w is None else w[part])
        _same_curve(metric.compute(), expected)
        metric.reset()
        metric.update((mean[:9], std[:9]), y[:9])
        _same_curve(metric.compute(), function(y[:9], (mean[:9], std[:9]), **same))


def test_terms_of_the_brier_score(torch, labelled, rng):
    logits, y = labelled
    for outputs, labels in ((logits, y), (logits[:, 0], (y == 0).long())):
        p = torch.sigmoid(outputs) if outputs.ndim == 1 else torch.softmax(outputs, 1)
        plain, of_logits = tm.BrierDecomposition(bins=6), tm.BrierDecomposition(6, logits=True)
        for part in _random_parts(rng, N):
            plain.update(p[part], labels[part])
            of_logits.update(outputs[part], labels[part])
        _same_curve(plain.compute(), fc.brier_decomposition(labels, p, bins=6))
        _same_curve(of_logits.compute(), fc.brier_decomposition(labels, p, bins=6))
        assert set(plain.compute()._asdict()) == {
            name for name in fc.brier_decomposition(labels, p).to_dict() if name != "score"
        }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("taus", [None, [0.9, 0.0, 0.5, 0.5, 1.0], [0.6]])
def test_accuracy_above_confidence(torch, labelled, rng, taus, weighted):
    logits, y = labelled
    w = torch.as_tensor(rng.integers(1, 4, N).astype(float)) if weighted else None
    for outputs, labels in ((logits, y), (logits[:, 0], (y == 0).long())):
        p = torch.sigmoid(outputs) if outputs.ndim == 1 else torch.softmax(outputs, 1)
        expected = fc.accuracy_above_confidence(labels, p, thresholds=taus, sample_weight=w)
        # By hand: of class 0 the probability is what class 1 leaves; ties go to the first class.
        full = torch.stack([1 - p, p], 1) if p.ndim == 1 else p
        sure, right = full.max(1).values, full.argmax(1) == labels
        mass = torch.ones(N, dtype=torch.float64) if w is None else w
        plain = tm.AccuracyAboveConfidence(taus)
        of_logits = tm.AccuracyAboveConfidence(thresholds=taus, logits=True)
        for part in _random_parts(rng, N):
            plain.update(p[part], labels[part], None if w is None else w[part])
            of_logits.update(outputs[part], labels[part], None if w is None else w[part])
        for result in (plain.compute(), of_logits.compute()):
            assert type(result) is tm.AboveValues
            _same_curve(result, expected)
            # torchmetrics makes numbers of arrays of one element.
            for tau, accuracy, count, weight in zip(*map(torch.atleast_1d, result), strict=True):
                is_sure = sure >= tau
                assert float(count) == int(is_sure.sum())
                assert float(weight) == float(mass[is_sure].sum())
                exact = float((mass * right)[is_sure].sum() / mass[is_sure].sum())  # NaN of none
                assert float(accuracy) == pytest.approx(exact, rel=1e-12, nan_ok=True)


def test_accuracy_above_confidence_of_two_processes(torch, labelled):
    logits, y = labelled
    one, two, other = (tm.AccuracyAboveConfidence(t, logits=True) for t in ([0.5], [0.5], [0.6]))
    one.update(logits[:20], y[:20])
    for metric in (two, other):
        metric.update(logits[20:], y[20:])
    one.merge_state(two)
    p = torch.softmax(logits, 1)
    _same_curve(
        pickle.loads(pickle.dumps(one)).compute(),
        fc.accuracy_above_confidence(y, p, thresholds=[0.5]),
    )
    one.merge_state(other)
    with pytest.raises(ValueError, match="other settings"):
        one.compute()


def test_curves_batch_by_batch(data):
    mean, std, y, _ = data
    metric = tm.PITHistogram(4)
    for part in (slice(0, 25), slice(25, N)):
        batch = metric((mean[part], std[part]), y[part])
        _same_curve(batch, metrics.pit_histogram(y[part], (mean[part], std[part]), bins=4))
    _same_curve(metric.compute(), metrics.pit_histogram(y, (mean, std), bins=4))


def test_curves_of_two_processes(data):
    mean, std, y, _ = data
    for name, options, function, same in CURVES:
        one, two, empty = (getattr(tm, name)(**options) for _ in range(3))
        one.update((mean[:20], std[:20]), y[:20])
        two.update((mean[20:], std[20:]), y[20:])
        assert empty.sums == []  # torchmetrics sends it as an array without numbers
        sent = [one.sums[0], one.sums[0][:0], two.sums[0]]

        def gather(state, group=None, sent=sent):
            return sent

        with one.sync_context(dist_sync_fn=gather, distributed_available=lambda: True):
            joined = one.accumulator().compute()
        expected = function(y, (mean, std), **same)
        for field, value in vars(expected).items():
            if not isinstance(value, str):
                rtol = 1e-3 if field == "edges" else 1e-10
                np.testing.assert_allclose(getattr(joined, field), value, rtol=rtol)
        one.merge_state(two)
        _same_curve(one.compute(), expected)


def test_copies_of_curves(data):
    mean, std, y, _ = data
    metric = tm.Reliability()
    metric.update((mean, std), y)
    metric.compute()  # stays in the metric, and moves with it
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        _same_curve(other.compute(), metrics.reliability_curve(y, (mean, std)))


@pytest.fixture
def axes():
    """Return new matplotlib axes without a screen."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    yield lambda: pyplot.subplots()[1]
    pyplot.close("all")


@pytest.mark.parametrize(
    ("name", "options", "fields"),
    [
        ("Reliability", {"levels": [0.1, 0.5, 0.9]}, ("expected", "observed")),
        ("ENCECurve", {"bins": 3}, ("rmv", "rmse")),
    ],
)
def test_curves_are_drawn(data, axes, name, options, fields):
    mean, std, y, _ = data
    metric = getattr(tm, name)(**options)
    metric.update((mean, std), y)
    curve, ax = metric.compute(), axes()
    expected = np.stack([_value(getattr(curve, one)) for one in fields])
    for arguments in ((), (curve,)):
        figure, where = metric.plot(*arguments, ax=axes())
        assert where.figure is figure
        lines = [np.stack(line.get_data()) for line in where.lines]
        assert any(line.shape == expected.shape and np.allclose(line, expected) for line in lines)
    _, where = metric.plot([curve, curve], ax)
    assert where is ax
    assert [one.get_text() for one in ax.get_legend().get_texts()] == ["1", "2"]


@pytest.mark.slow
def test_accuracy_above_confidence_is_drawn(labelled, axes):
    logits, y = labelled
    for taus in ([0.9, 0.0, 0.5], [0.4]):
        metric = tm.AccuracyAboveConfidence(taus, logits=True)
        metric.update(logits, y)
        curve, ax = metric.compute(), axes()
        accuracy = dict(zip(taus, np.atleast_1d(_value(curve.accuracy)).tolist(), strict=True))
        for arguments in ((), (curve,)):
            figure, where = metric.plot(*arguments, ax=axes())
            assert where.figure is figure
            assert (where.get_xlabel(), where.get_ylabel()) == ("confidence at least", "accuracy")
            (line,) = where.lines
            assert line.get_xdata().tolist() == sorted(taus)
            assert line.get_ydata().tolist() == [accuracy[tau] for tau in sorted(taus)]
        assert metric.plot([curve, curve], ax)[1] is ax
        assert [one.get_text() for one in ax.get_legend().get_texts()] == ["1", "2"]
    for wrong in (3.0, [], [1.0]):
        with pytest.raises(TypeError, match=r"what compute\(\) returns"):
            metric.plot(wrong)


def test_what_is_drawn_is_what_the_functions_return(data, axes, monkeypatch):
    from fastmcmd import plots

    mean, std, y, _ = data
    for name, options, function, same in CURVES:
        curves = []

        def draw(curve, ax, label, colour, curves=curves):
            curves.append(curve)
            return axes()

        shape = tm._SHAPES[name]
        monkeypatch.setattr(plots, shape.plot, draw)
        metric = getattr(tm, name)(**options)
        metric.update((mean, std), y)
        metric.plot()
        expected = function(y, (mean, std), **same)
        assert type(curves[0]) is type(expected)
        for field, value in vars(expected).items():
            plotted = getattr(curves[0], field)
            assert type(plotted) is type(value), field
            if isinstance(value, str):
                assert plotted == value
            else:
                np.testing.assert_allclose(plotted, value, rtol=1e-3 if field == "edges" else 1e-10)


def test_histograms_and_numbers_are_drawn(torch, data, labelled, axes):
    mean, std, y, _ = data
    for metric, label in ((tm.CRPS(), "CRPS"), (tm.PITHistogram(4), "density")):
        metric.update((mean, std), y)
        figure, ax = metric.plot()
        assert ax.get_ylabel() == label
        assert ax.figure is figure
    logits, labels = labelled
    confusion, terms = tm.ConfusionMatrix(logits=True), tm.BrierDecomposition(logits=True)
    for metric in (confusion, terms):
        metric.update(logits, labels)
        assert metric.plot()[0].axes
    cell_texts = {text.get_text() for text in confusion.plot([confusion.compute()] * 2)[1].texts}
    matrix = fc.confusion_matrix(labels, torch.softmax(logits, 1))
    assert cell_texts == {str(round(float(count), 2)) for count in matrix.ravel()}


def test_what_cannot_be_drawn(data):
    pytest.importorskip("matplotlib")
    mean, std, y, _ = data
    metric = tm.Reliability()
    metric.update((mean, std), y)
    for wrong in (3.0, [], [1.0], {"expected": 1}):
        with pytest.raises(TypeError, match=r"what compute\(\) returns"):
            metric.plot(wrong)


def test_curves_in_a_collection(data, axes):
    from torchmetrics import MetricCollection

    mean, std, y, _ = data
    collection = MetricCollection(
        {"middle": tm.Reliability([0.5]), "all": tm.Reliability(), "pit": tm.PITHistogram(),
         "ence": tm.ENCECurve(3), "crps": tm.CRPS()},
        prefix="val_",
    )  # fmt: skip
    for part in PARTS:
        collection.update((mean[part], std[part]), y[part])
    values = collection.compute()
    _same_curve(values["val_middle"], metrics.reliability_curve(y, (mean, std), levels=[0.5]))
    _same_curve(values["val_all"], metrics.reliability_curve(y, (mean, std)))
    _same_curve(values["val_pit"], metrics.pit_histogram(y, (mean, std)))
    _same_curve(values["val_ence"], metrics.ence_curve(y, (mean, std), bins=3))
    assert float(values["val_crps"]) == pytest.approx(metrics.mean_crps(y, (mean, std)))
    assert len(collection.plot(values)) == 5


def test_forms_of_predictions(torch, data):
    mean, std, y, _ = data
    expected = metrics.mean_crps(y, (mean, std))
    normal = torch.distributions.Normal(mean, std)
    for preds, target in [
        ((mean, std), y),
        (normal, y),
        (torch.distributions.Normal(mean[:, None], std[:, None]), y[:, None]),
        ((mean[:, None], std[:, None]), y[:, None]),
        ((mean.clone().requires_grad_(), std), y),
        (fm.Gaussian(mean, std), y.numpy()),
    ]:
        metric = tm.CRPS()
        metric.update(preds, target)
        assert float(metric.compute()) == pytest.approx(expected, rel=1e-12)
    draws = torch.stack([mean, mean + 1, mean - 1], 1)
    metric = tm.CRPS(estimator="fair")
    metric.update(draws, y)
    assert float(metric.compute()) == metrics.mean_crps(y, draws, estimator="fair")
    single = tm.CRPS()  # float32 in, sums in float64
    single.update((mean.float(), std.float()), y.float())
    assert single.compute().dtype == torch.float64
    assert float(single.compute()) == metrics.mean_crps(y.float(), (mean.float(), std.float()))


def test_forward_gives_the_batch_and_keeps_the_rest(data):
    mean, std, y, _ = data
    metric = tm.ENCE(bins=3)
    for part in (slice(0, 30), slice(30, N)):
        batch_value = metric((mean[part], std[part]), y[part])
        assert float(batch_value) == pytest.approx(
            metrics.ence(y[part], (mean[part], std[part]), bins=3)
        )
    assert float(metric.compute()) == pytest.approx(metrics.ence(y, (mean, std), bins=3))
    assert metric.update_count == 2
    metric.reset()
    assert metric.sums == []
    metric.update((mean[:9], std[:9]), y[:9])
    assert float(metric.compute()) == pytest.approx(
        metrics.ence(y[:9], (mean[:9], std[:9]), bins=3)
    )


def test_a_collection_shares_no_state_by_chance(torch, data):
    """All errors of the first batch are equal and positive, so sums of several metrics coincide."""
    from torchmetrics import MetricCollection

    mean, _, y, _ = data
    ones = torch.ones(N, dtype=torch.float64)
    collection = MetricCollection(
        {"mae": tm.MAE(), "bias": tm.Bias(), "wide": tm.Coverage(0.99), "most": tm.Coverage(0.9)},
        prefix="val_",
    )
    shift = torch.full((N,), 0.5, dtype=torch.float64)
    collection.update((mean, ones), mean - shift)
    collection.update((mean, ones), y)
    values = collection.compute()
    outcomes, means = torch.cat([mean - shift, y]), torch.cat([mean, mean])
    both = (means, torch.cat([ones, ones]))
    for name, expected in [
        ("val_mae", metrics.mae(outcomes, means)),
        ("val_bias", metrics.bias(outcomes, means)),
        ("val_wide", metrics.coverage(outcomes, both, level=0.99)),
        ("val_most", metrics.coverage(outcomes, both, level=0.9)),
    ]:
        assert float(values[name]) == pytest.approx(expected, rel=1e-10), name
    again = collection.clone(prefix="test_")
    again.reset()
    assert set(again.keys()) == {f"test_{name}" for name in ("mae", "bias", "wide", "most")}


def test_weights_through_a_collection(data):
    from torchmetrics import MetricCollection

    mean, std, y, w = data
    collection = MetricCollection([tm.CRPS(), tm.NLL()])
    collection.update((mean, std), y, sample_weight=w)
    assert float(collection.compute()["CRPS"]) == pytest.approx(
        metrics.mean_crps(y, (mean, std), sample_weight=w)
    )


@pytest.mark.parametrize(
    "name", ["CRPS", "R2", "ENCE", "QCE", "MedianAbsoluteError", "VarianceVariation"]
)
def test_states_of_two_are_merged(data, name):
    mean, std, y, _ = data
    kind = getattr(tm, name)
    one, two, empty, both = (kind() for _ in range(4))
    one.update((mean[:20], std[:20]), y[:20])
    two.update((mean[20:], std[20:]), y[20:])
    both.update((mean, std), y)
    one.merge_state(empty)
    one.merge_state(two)
    np.testing.assert_allclose(_value(one.compute()), _value(both.compute()), rtol=1e-10)
    by_dict = kind()
    by_dict.merge_state(both.metric_state)
    assert float(by_dict.accumulator().compute()) == float(both.compute())


def test_processes_of_which_one_has_no_rows(torch, data):
    mean, std, y, _ = data
    parts = (slice(0, 20), slice(0, 0), slice(20, N))
    metrics_of = [tm.ENCE(bins=4) for _ in parts]
    for metric, part in zip(metrics_of, parts, strict=True):
        if part.stop > part.start:
            metric.update((mean[part], std[part]), y[part])
    expected = metrics.ence(y, (mean, std), bins=4)

    def gather(state, group=None):
        """Stand-in for all_gather: returns what each process sends, all in one dtype."""
        sent = [
            one.sums[0] if one.sums else torch.tensor([], dtype=one.dtype) for one in metrics_of
        ]
        assert {part.dtype for part in sent} == {torch.float64}
        assert any(state is part or torch.equal(state, part) for part in sent)
        return sent

    for metric in metrics_of:
        before = list(metric.sums)
        metric.dist_sync_fn, metric.distributed_available_fn = gather, lambda: True
        with metric.sync_context(dist_sync_fn=gather, distributed_available=lambda: True):
            value = metric.accumulator().compute()
        assert value == pytest.approx(expected)
        assert len(metric.sums) == len(before)  # own rows again
        assert all(map(torch.equal, metric.sums, before))


@pytest.mark.slow
def test_two_real_processes(torch, tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("torch without torch.distributed")
    script = tmp_path / "rank.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import numpy as np, torch, torch.distributed as dist
            import fastmcmd as fm
            from fastmcmd.compat import torchmetrics as tm

            rank, store = int(sys.argv[1]), sys.argv[2]
            dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
            rng = np.random.default_rng(0)
            mean, y = torch.tensor(rng.normal(size=50)), torch.tensor(rng.normal(size=50))
            std = torch.ones(50, dtype=torch.float64)
            crps, median, late = tm.CRPS(), tm.MedianAbsoluteError(), tm.NLL()
            part = slice(0, 13) if rank == 0 else slice(13, 50)
            for metric in (crps, median):  # sketches are of unequal length
                metric.update((mean[part], std[part]), y[part])
            if rank == 1:
                late.update((mean, std), y)
            got = [float(one.compute()) for one in (crps, median, late)]
            of = fm.metrics
            want = [f(y, (mean, std)) for f in (of.mean_crps, of.median_absolute_error, of.nll)]
            np.testing.assert_allclose(got, want, rtol=1e-3)
            np.testing.assert_allclose(got[::2], want[::2], rtol=1e-12)
            dist.destroy_process_group()
            """
        )
    )
    store = str(tmp_path / "store")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(script), str(rank), store],
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        for one in ranks:
            _, error_text = one.communicate(timeout=90)
            assert one.returncode == 0, error_text
    finally:
        for one in ranks:
            one.kill()


def test_copies_and_stored_states(data):
    mean, std, y, _ = data
    metric = tm.QCE(bins=4)
    metric.update((mean, std), y)
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        assert float(other.compute()) == float(metric.compute())
        other.update((mean, std), y)
        assert float(metric.compute()) == pytest.approx(metrics.qce(y, (mean, std), bins=4))
    metric.persistent(True)
    states = metric.state_dict()
    fresh = tm.QCE(bins=4)
    fresh.load_state_dict(states)
    assert float(fresh.accumulator().compute()) == float(metric.compute())


def test_changes_of_type_leave_sums_alone(torch, data):
    mean, std, y, _ = data
    module = torch.nn.ModuleList([tm.CRPS()])
    module[0].update((mean, std), y)
    before = float(module[0].compute())
    module.half()
    assert module[0].sums[0].dtype == torch.float64
    assert float(module[0].compute()) == before


def test_device_of_the_result(torch, data):
    mean, std, y, _ = data
    metric = tm.CRPS()
    metric.update((mean, std), y)
    assert metric.compute().device == y.device
    if torch.cuda.is_available():
        metric = tm.CRPS()
        for part in PARTS:
            metric.update((mean[part].cuda(), std[part].cuda()), y[part].cuda())
        assert metric.compute().is_cuda
        metric = metric.cuda()
        assert metric.sums[0].is_cuda
        metric.update((mean.cuda(), std.cuda()), y.cuda())
        assert float(metric.compute()) == pytest.approx(metrics.mean_crps(y, (mean, std)))


def test_what_is_better():
    pytest.importorskip("torchmetrics")
    assert tm.CRPS.higher_is_better is False
    assert tm.AUROC.higher_is_better is True
    assert tm.Coverage.higher_is_better is None
    assert tm.CRPS.full_state_update is False


def test_the_accumulator_knows_more(labelled):
    logits, y = labelled
    metric = tm.AUROC(logits=True)
    metric.update(logits, y)
    estimate = metric.accumulator().compute()
    assert estimate.value == float(metric.compute())
    assert estimate.error_bound >= 0


def test_bad_input_leaves_the_state(torch, data, labelled):
    mean, std, y, _ = data
    metric = tm.CRPS()
    metric.update((mean, std), y)
    before = float(metric.compute())
    for preds, target, message in [
        ((mean, std), y[:-1], "rows"),
        ((mean, -std), y, "std"),
        ((mean, std), torch.where(y > 0, torch.nan, y), "target holds NaN"),
        ("normal", y, "preds is a"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            metric.update(preds, target)
    assert float(metric.compute()) == before
    logits, labels = labelled
    with pytest.raises(ValueError, match="softmax"):
        tm.BrierScore().update(logits, labels)
    with pytest.raises(TypeError, match="logits is 'yes'"):
        tm.BrierScore(logits="yes")
    with pytest.raises(ValueError, match="logits"):
        tm.CRPS(logits=True)
    with pytest.raises(ValueError, match="bin"):
        tm.CRPS(bin=3)
    with pytest.raises(ValueError, match="bins is 0"):
        tm.ENCE(bins=0)
    with pytest.raises(AttributeError, match="MSE"):
        _ = tm.MSE


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_no_rows_yet(torch):
    with pytest.raises(ValueError, match="has seen no rows"):
        tm.CRPS().compute()


def test_states_of_other_settings_are_refused(data):
    mean, std, y, _ = data
    one, other = tm.Coverage(0.5), tm.Coverage(0.9)
    for metric in (one, other):
        metric.update((mean, std), y)
    one.merge_state(other)
    with pytest.raises(ValueError, match="other settings"):
        one.compute()


@pytest.mark.slow
def test_without_the_packages():
    code = (
        "import sys; sys.modules['torchmetrics'] = None\n"
        "import fastmcmd as fm\n"
        "from fastmcmd.compat import torchmetrics as tm\n"
        "try: tm.CRPS\n"
        "except fm.MissingDependencyError as error: print(error)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install torch torchmetrics" in process.stdout


# Computes sums as numbers, without torch.


@pytest.mark.parametrize(("name", "options"), [one[:2] for one in REGRESSION + ABOUT + CURVES])
def test_rows_of_numbers_hold_all_sums(rng, name, options):
    mean, std, y = rng.normal(size=30), np.full(30, 2.0), rng.normal(size=30)
    accumulator = getattr(streaming, name)(**options)
    parts = [
        flatten(accumulator, accumulator.gather(y[rows], (mean[rows], std[rows])))
        for rows in (slice(0, 12), slice(12, 30))
    ]
    value = accumulator.conclude(restore(accumulator, np.concatenate(parts)))
    accumulator.update(y[:12], (mean[:12], std[:12])).update(y[12:], (mean[12:], std[12:]))
    np.testing.assert_equal(_plain(value), _plain(accumulator.compute()))


def _plain(result):
    return getattr(result, "__dict__", result)


def test_rows_of_numbers_that_are_broken(rng):
    accumulator = streaming.CRPS()
    row = flatten(accumulator, accumulator.gather([0.0, 1.0], ([0.0, 0.0], 1.0)))
    assert restore(accumulator, np.empty(0)) is None
    for broken in (row[:-1], row[1:], np.full(20, np.nan), np.concatenate([row, row[:3]])):
        with pytest.raises(ValueError, match=r"not sums|another metric"):
            restore(accumulator, broken)
    with pytest.raises(ValueError, match="another metric"):
        restore(streaming.NLL(), row)
    with pytest.raises(TypeError, match="str"):
        flatten(accumulator, "sums")


def test_bins_of_even_weight_merge_over_processes(rng, torch):
    """The sums are sketches, which must also pass through the states of torchmetrics."""
    p, y = rng.dirichlet(np.ones(3), 600), rng.integers(0, 3, 600)
    for name, function in (("ClassificationECE", "ece"), ("ClasswiseECE", "classwise_ece")):
        metric = getattr(tm, name)(binning="mass")
        for part in np.array_split(np.arange(600), 4):
            metric.update(torch.tensor(p[part]), torch.tensor(y[part]))
        exact = getattr(fm.classification, function)(y, p, binning="mass")
        assert float(metric.compute()) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        ((np.zeros(3), np.ones(3)), [0.0, np.nan, 1.0], "^target holds NaN"),
        ((np.zeros(3), np.ones(3)), [0.0, 1.0], "^preds has 3 rows and target has 2"),
        ((np.zeros(3), np.ones(3)), 2.0, "^target has shape"),
    ],
)
def test_errors_name_the_arguments_of_torchmetrics(preds, target, message):
    pytest.importorskip("torchmetrics")
    with pytest.raises(ValueError, match=message):
        tm.CRPS().update(preds, target)


def test_names_of_torchmetrics_are_pointed_to_ours():
    torchmetrics = pytest.importorskip("torchmetrics")
    for theirs in ("CalibrationError", "ContinuousRankedProbabilityScore", "R2Score"):
        assert hasattr(torchmetrics, theirs) or hasattr(torchmetrics.regression, theirs)
        with pytest.raises(AttributeError, match=r"here it is (ClassificationECE|CRPS|R2)$"):
            getattr(tm, theirs)
