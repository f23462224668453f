"""`ignore_index` leaves out rows with this label, as torchmetrics does."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
from cli_process import run_cli

import fastmcmd as fm
from fastmcmd import classification as fc
from fastmcmd import streaming

FUNCTIONS = [
    name
    for name in fc.__all__
    if inspect.isfunction(getattr(fc, name))
    and "y" in inspect.signature(getattr(fc, name)).parameters
]
PER_ROW = ("brier_score", "log_score", "ranked_probability_score")
# Classes of torchmetrics, their arguments; ours, their arguments.
PEERS = [
    ("MulticlassAccuracy", {"average": "micro"}, "Accuracy", {}),
    ("MulticlassAUROC", {}, "AUROC", {"absent": "omit"}),
    ("MulticlassCalibrationError", {"n_bins": 15}, "ClassificationECE", {"closed": "left"}),
    ("MulticlassConfusionMatrix", {}, "ConfusionMatrix", {}),
]


def sample(rng, classes=3, n=60, ignored=-1):
    p = rng.dirichlet(np.ones(classes), n)
    y = rng.integers(0, classes, n)
    y[::4] = ignored
    return y, p


def arguments(name, rng):
    """Return labels, the other arguments by name, and the rows that stay."""
    classes = 2 if name.startswith(("murphy", "isotonic")) else 3
    y, p = sample(rng, classes)
    if name == "murphy_difference":
        return y, [p, p[::-1].copy()], y >= 0
    return y, [p], y >= 0


def plain(value):
    """Return a result as arrays and numbers, field by field."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return plain(vars(value)) if hasattr(value, "__dataclass_fields__") else value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_leaves_such_rows_out(name, rng):
    function = getattr(fc, name)
    y, p, valid = arguments(name, rng)
    options = {"of": "positive"} if "of" in inspect.signature(function).parameters else {}
    options = options if p[0].shape[1] == 2 else {}
    options |= {"k": 2} if name == "top_k_accuracy" else {}
    expected = function(y[valid], *(one[valid] for one in p), **options)
    for one in p:
        one[~valid] = [np.nan, 7.0, -1.0][: one.shape[1]]  # may hold anything
    actual = function(y, *p, **options, ignore_index=-1)
    if name in PER_ROW:
        np.testing.assert_array_equal(actual[valid], expected)
        assert np.isnan(actual[~valid]).all()
    else:
        np.testing.assert_equal(plain(actual), plain(expected))


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_ignored_rows_are_not_missing_rows(policy, rng):
    y, p = sample(rng)
    weights = np.where(y < 0, np.nan, 2.0)
    valid = y >= 0
    assert fc.nll(y, p, sample_weight=weights, ignore_index=-1, nan_policy=policy) == pytest.approx(
        fc.nll(y[valid], p[valid])
    )
    p[1] = np.nan
    scores = fc.nll(y, p, ignore_index=-1, nan_policy=policy)
    valid[1] = False
    expected = fc.nll(y[valid], p[valid]) if policy == "omit" else np.nan
    assert scores == pytest.approx(expected, nan_ok=True)
    p[:] = np.nan
    if policy == "propagate":
        assert np.isnan(fc.nll(y, p, ignore_index=-1, nan_policy=policy))
    else:
        with pytest.raises(ValueError, match="hold NaN"):
            fc.nll(y, p, ignore_index=-1, nan_policy=policy)


def test_a_class_may_be_ignored(rng):
    y, p = sample(rng, ignored=2)
    assert fc.accuracy(y, p, ignore_index=2) == fc.accuracy(y[y != 2], p[y != 2])


def test_labels_may_be_names(rng):
    numbers_, p = sample(rng)
    y = np.array(["ant", "bee", "cow", "void"])[numbers_]
    assert fc.nll(y, p, ignore_index="void") == fc.nll(numbers_, p, ignore_index=-1)
    with pytest.raises(TypeError, match="y holds text"):
        fc.nll(y, p, ignore_index=-1)
    with pytest.raises(TypeError, match="y holds numbers"):
        fc.nll(numbers_, p, ignore_index="void")


def test_columns_of_a_frame_may_be_numbers(rng):
    pandas = pytest.importorskip("pandas")
    y, p = sample(rng)
    frame = pandas.DataFrame(p, columns=[3, 5, 9])
    labels = np.array([3, 5, 9, 255])[y]
    assert fc.nll(labels, frame, ignore_index=255) == fc.nll(y, p, ignore_index=-1)


@pytest.mark.parametrize("wrong", [1.5, True, [1]])
def test_other_kinds_are_refused(wrong, rng):
    y, p = sample(rng)
    with pytest.raises(TypeError, match="ignore_index"):
        fc.accuracy(y, p, ignore_index=wrong)
    with pytest.raises(TypeError, match="ignore_index"):
        streaming.Accuracy(ignore_index=wrong)
    with pytest.raises(ValueError, match=r"ignore_index is 1000.* a 64-bit integer"):
        fc.accuracy(y, p, ignore_index=10**400)


def test_messages_count_all_rows(rng):
    y, p = sample(rng)
    y[5] = 7
    with pytest.raises(ValueError, match=r"y\[5\] is 7"):
        fc.accuracy(y, p, ignore_index=-1)
    prediction = fm.Categorical(p, classes=list("abc"))
    with pytest.raises(ValueError, match=r"y\[5\] is 7"):
        fm.evaluate(y, prediction, ignore_index=-1)
    y[5], p[6] = 0, [0.5, 0.6, 0.7]
    with pytest.raises(ValueError, match="row 6 sums"):
        fc.accuracy(y, p, ignore_index=-1)
    with pytest.raises(ValueError, match="all 2 labels are -1"):
        fc.accuracy([-1, -1], [0.5, 0.5], ignore_index=-1)


@pytest.mark.parametrize(("theirs", "options", "name", "our_options"), PEERS)
@pytest.mark.parametrize("ignored", [-1, 1, 255])
@pytest.mark.filterwarnings("ignore:No positive samples")
def test_streaming_agrees_with_torchmetrics(theirs, options, name, our_options, ignored, rng):
    torch = pytest.importorskip("torch")
    classification = pytest.importorskip("torchmetrics.classification")
    from fastmcmd.compat import torchmetrics as compat

    y, p = sample(rng, ignored=ignored)
    y[:20] = ignored  # one whole batch
    metric = getattr(classification, theirs)(num_classes=3, ignore_index=ignored, **options)
    ours = getattr(streaming, name)(**our_options, ignore_index=ignored)
    through_torch = getattr(compat, name)(**our_options, ignore_index=ignored)
    for rows in (slice(0, 20), slice(20, 35), slice(35, 60)):
        batch = torch.as_tensor(p[rows]), torch.as_tensor(y[rows])
        metric.update(*batch)
        through_torch.update(*batch)
        ours.update(y[rows], p[rows])
    expected = np.asarray(metric.compute(), dtype=np.float64)
    value = ours.compute()
    if name == "AUROC":  # torchmetrics counts an absent class as 0
        present = len(set(y.tolist()) - {ignored})
        expected, value = expected * (3 / present if ignored == 1 else 1), value.value
        assert value == pytest.approx(float(expected), abs=2e-3)
    else:
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(through_torch.compute()), value)


def test_merged_accumulators_agree_on_it():
    with pytest.raises(ValueError, match="settings"):
        streaming.Accuracy(ignore_index=-1).merge(streaming.Accuracy())


def test_evaluate_leaves_such_rows_out(rng):
    y, p = sample(rng, n=120)
    x, valid = rng.normal(size=(120, 2)), y >= 0
    by = np.where(np.arange(120) % 2, "odd", "even")
    prediction = fm.Categorical(p, classes=list("abc"))
    options = {"x_kernel": fm.RBF(1.0), "lam": 0.1}
    evaluation = fm.evaluate(y, prediction, x, by=by, ignore_index=-1, **options)
    expected = fm.evaluate(
        y[valid], fm.Categorical(p[valid], classes=list("abc")), x[valid], by=by[valid], **options
    )
    assert evaluation.to_dict()["metrics"] == pytest.approx(expected.to_dict()["metrics"])
    assert evaluation.n == 120
    assert np.isnan(evaluation.rows["brier_score"][~valid]).all()
    for label in ("odd", "even"):
        assert evaluation.by[label][0] == expected.by[label][0]
    assert any("30 of 120 rows have the ignored label" in note for note in evaluation.notes)
    names = np.array(["a", "b", "c", "void"], dtype=object)[y]
    of_names = fm.evaluate(names, prediction, x, ignore_index="void", **options)
    assert of_names.to_dict()["metrics"] == evaluation.to_dict()["metrics"]
    with pytest.raises(ValueError, match="names no classes"):
        fm.evaluate(y, p, ignore_index=-1)


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_evaluate_tells_ignored_rows_from_missing_ones(policy, rng):
    y, p = sample(rng, n=120)
    y = y.astype(float)
    y[1] = np.nan
    by = np.arange(120) % 2
    prediction = fm.Categorical(p, classes=list("abc"))
    evaluation = fm.evaluate(y, prediction, by=by, ignore_index=-1, nan_policy=policy)
    assert np.isnan(evaluation["nll"]) == (policy == "propagate")
    values = {label: dict(_by_name(evaluation.by[label][1])) for label in (0, 1)}
    assert np.isfinite(values[0]["nll"])
    assert np.isnan(values[1]["nll"]) == (policy == "propagate")
    assert any("1 of 120 rows holds NaN" in note for note in evaluation.notes)


def _by_name(result):
    return [(one.name, one.value) for one in result]


def test_compare_leaves_such_rows_out(rng):
    y, p = sample(rng, n=120)
    valid = y >= 0
    even = np.full_like(p, 1 / 3)
    of = {
        name: fm.Categorical(one, classes=list("abc"))
        for name, one in {"p": p, "even": even}.items()
    }
    comparison = fm.compare(of, y, ignore_index=-1)
    expected = fm.compare(
        {name: one.take(np.flatnonzero(valid)) for name, one in of.items()}, y[valid]
    )
    assert comparison.table() == expected.table()
    assert comparison.differences() == expected.differences()


def test_command_line_leaves_such_rows_out(tmp_path, rng):
    path = tmp_path / "p.csv"
    path.write_text("y,a,b\ncat,0.7,0.3\ndog,0.2,0.8\nvoid,,\ndog,0.4,0.6\n")
    options = ("--prediction", "classes:cat=a,dog=b", "--format", "json")
    process = run_cli("evaluate", path, *options, "--ignore-index", "void")
    assert process.returncode == 0, process.stderr
    expected = fc.nll([0, 1, 1], [[0.7, 0.3], [0.2, 0.8], [0.4, 0.6]])
    assert json.loads(process.stdout)["metrics"]["nll"] == pytest.approx(expected)
    compared = run_cli(
        "compare", path, "--model", "m=classes:cat=a,dog=b", "--format", "json",
        "--ignore-index", "void",
    )  # fmt: skip
    assert json.loads(compared.stdout)["m"]["metrics"]["nll"] == pytest.approx(expected)
    refused = run_cli("evaluate", path, *options)
    assert refused.returncode == 2
    assert "'void'" in refused.stderr
    assert "line 4" in refused.stderr
    path.write_text("y,a,b\nvoid,0.7,0.3\n")
    assert (
        "leaves out all rows"
        in run_cli("evaluate", path, *options, "--ignore-index", "void").stderr
    )
    np.savez(tmp_path / "p.npz", y=rng.normal(size=9), mean=np.zeros(9), std=np.ones(9))
    of_numbers = run_cli("evaluate", tmp_path / "p.npz", "--ignore-index", "1")
    assert "classes:NAME=COLUMN" in of_numbers.stderr
