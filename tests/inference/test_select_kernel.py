"""Choice of kernels: errors equal those of refits without a row, and the right kernel wins."""

import json

import numpy as np
import pytest
from builders import noisy_sine

import fastmcmd as fm
from fastmcmd.inference.select_kernel import leave_one_out, select_kernel


def naive(kernel, y_kernel, x, y, lam, weights=None):
    """Return the squared errors of predicting p(y_i) from all other rows, by kernel matrices alone.

    With N lam as it is with all rows. Rows of weight w have ``K + N lam diag(1/w)``.
    """
    n = len(y)
    weights = np.ones(n) if weights is None else weights
    k, outputs, errors = kernel(x), y_kernel(y), []
    for i in range(n):
        other_rows = np.flatnonzero(np.arange(n) != i)
        system = k[np.ix_(other_rows, other_rows)] + np.diag(
            weights.sum() * lam / weights[other_rows]
        )
        a = np.linalg.solve(system, k[other_rows, i])
        errors.append(
            outputs[i, i]
            - 2 * a @ outputs[other_rows, i]
            + a @ outputs[np.ix_(other_rows, other_rows)] @ a
        )
    return np.array(errors)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("repeats", [False, True])
def test_errors_are_those_of_refitting_without_the_row(rng, weighted, repeats):
    x = rng.normal(size=(50, 2))
    if repeats:
        x[25:] = x[:25]
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=50)
    weights = rng.uniform(0.2, 3, 50) if weighted else None
    kernels = {"rbf": fm.RBF(0.7), "matern": fm.Matern(1.5, 1.0), "linear": fm.Linear() + 1.0}
    lams = (0.1, 0.003)
    y_kernel = fm.RBF(0.8)
    selection = select_kernel(x, y, kernels, lams, None, y_kernel, weights, landmarks=50)
    share = np.full(50, 1 / 50) if weights is None else weights / weights.sum()
    assert len(selection.scores) == 6
    for one in selection.scores:
        errors = naive(kernels[one.name], y_kernel, x, y, one.lam, weights)
        assert one.error == pytest.approx(share @ errors, rel=1e-6)
        assert one.residual == pytest.approx(0, abs=1e-8)
    assert selection.scores[0].error == min(one.error for one in selection.scores)
    assert selection.best == selection.scores[0]
    assert selection.best.behind == 0


def test_effective_dimension_and_explained_share(rng):
    x = rng.normal(size=(60, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=60)
    kernel, y_kernel, lam = fm.RBF(0.5), fm.RBF(0.5), 0.01
    selection = select_kernel(x, y, [kernel], [lam], None, y_kernel, landmarks=60)
    matrix = kernel(x)
    trace = np.trace(np.linalg.solve(matrix + 60 * lam * np.eye(60), matrix))
    assert selection.best.effective_dimension == pytest.approx(trace, rel=1e-6)
    outputs = y_kernel(y)
    constant = []
    for i in range(60):
        a = np.full(60, 1 / 59)
        a[i] = 0
        constant.append(outputs[i, i] - 2 * a @ outputs[:, i] + a @ outputs @ a)
    explained = 1 - selection.best.error / np.mean(constant)
    assert selection.best.explained == pytest.approx(explained, rel=1e-6)


def test_standard_error_of_a_difference_is_paired(rng):
    x = rng.normal(size=40)
    y = x + rng.normal(size=40)
    kernels = {"a": fm.RBF(0.5), "b": fm.RBF(5.0)}
    y_kernel = fm.RBF(0.5)
    selection = select_kernel(x, y, kernels, [0.01], None, y_kernel, landmarks=40)
    errors = {name: naive(k, y_kernel, x[:, None], y, 0.01) for name, k in kernels.items()}
    best, other = selection.scores
    difference = errors[other.name] - errors[best.name]
    assert other.behind == pytest.approx(difference.mean(), rel=1e-5)
    assert other.behind_error == pytest.approx(difference.std() / np.sqrt(40), rel=1e-5)


def test_wiggles_need_a_narrow_kernel_and_lines_a_wide_one(rng):
    x = rng.uniform(-2, 2, 400)
    kernels = {"narrow": fm.RBF(50.0), "wide": fm.RBF(0.1)}
    wiggle = select_kernel(x, np.sin(12 * x) + 0.1 * rng.normal(size=400), kernels, scales=None)
    line = select_kernel(x, x + 0.5 * rng.normal(size=400), kernels, scales=None)
    assert (wiggle.best.name, line.best.name) == ("narrow", "wide")


def test_scales_leave_out_columns_of_noise(rng):
    x = rng.normal(size=(300, 4)) * [1e3, 1.0, 1e-3, 1.0]
    y = np.sin(x[:, 0] / 500) + 0.3 * rng.normal(size=300)
    selection = select_kernel(x, y, scales="select")
    relevant = np.array(selection.scales) * x.std(axis=0)
    assert relevant[0] > 5 * relevant[1:].max()
    standard = select_kernel(x, y)
    assert selection.best.error < standard.best.error
    np.testing.assert_allclose(np.array(standard.scales) * x.std(axis=0), 1)


def test_the_chosen_kernel_takes_inputs_as_they_are_given(rng):
    x = rng.normal(size=(80, 2)) * [1.0, 1e3]
    y = x[:, 0] + 0.3 * rng.normal(size=80)
    selection = select_kernel(x, y)
    assert isinstance(selection.x_kernel, fm.Scaled)
    z = x / x.std(axis=0)
    np.testing.assert_allclose(selection.x_kernel(x), selection.x_kernel.inner(z), rtol=1e-10)
    assert (
        fm.cce(x, y, fm.Gaussian(x[:, 0], 0.3), x_kernel=selection.x_kernel, lam=selection.lam).mean
        > 0
    )


def test_the_same_seed_gives_the_same_choice(rng):
    x = rng.normal(size=(500, 2))
    y = x[:, 0] + rng.normal(size=500)
    options = {"landmarks": 50}
    assert select_kernel(x, y, **options) == select_kernel(x, y, **options)
    assert (
        select_kernel(x, y, **options).scores
        != select_kernel(x, y, random_state=1, **options).scores
    )


def test_landmarks_are_close_to_all_rows(rng):
    x = rng.normal(size=(600, 2))
    y = noisy_sine(rng, x)
    full = select_kernel(x, y, [fm.RBF(0.5)], landmarks=600)
    few = select_kernel(x, y, [fm.RBF(0.5)], landmarks=80)
    assert few.best.explained == pytest.approx(full.best.explained, abs=0.01)


def test_vector_outcomes_and_classes(rng):
    x = rng.normal(size=(100, 2))
    both = x + 0.3 * rng.normal(size=(100, 2))
    assert select_kernel(x, both).best.explained > 0.2
    labels = (x[:, 0] > 0).astype(int)
    selection = select_kernel(x, labels, y_kernel=fm.Delta())
    assert selection.y_kernel == fm.Delta()
    assert selection.best.explained > 0.4


def test_nothing_to_predict_is_said(rng):
    selection = select_kernel(rng.normal(size=(200, 3)), rng.normal(size=200), lams=[1e-4])
    assert selection.best.explained < 0.05
    constant = select_kernel(np.ones((50, 2)), rng.normal(size=50))
    assert constant.sentence.startswith("No kernel predicts")


def test_result_reads_as_a_sentence_and_can_be_taken_apart(rng):
    x = rng.normal(size=(120, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=120)
    selection = select_kernel(x, y)
    assert repr(selection).startswith(
        f"{selection.best.name} with lam = {selection.lam:g} predicts"
    )
    assert len(selection.table(3).splitlines()) == 9  # two of the head, four of the legend
    as_json = json.loads(json.dumps(selection.to_dict()))
    assert as_json["best"]["error"] == selection.best.error
    frame = selection.to_frame()
    assert list(frame["error"]) == sorted(frame["error"])
    assert select_kernel(x, y, lams=[0.1, 0.09]).sentence.endswith("try others beyond it.")
    assert selection.plot() is not None


def test_functions_are_candidates(rng):
    x = np.abs(rng.normal(size=(30, 2)))
    kernel = fm.CustomKernel(lambda a, b: float(np.minimum(a, b).sum()), "overlap")
    selection = select_kernel(x, x[:, 0], {"overlap": kernel}, [0.1])
    assert json.dumps(selection.to_dict())


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"candidates": []}, ValueError, "candidates is empty"),
        ({"candidates": 3}, TypeError, "candidates is 3"),
        ({"candidates": ["rbf"]}, TypeError, "candidates holds"),
        ({"lams": []}, ValueError, "lams is empty"),
        ({"lams": [-1.0]}, ValueError, "lams\\[0\\] is -1"),
        ({"scales": "all"}, ValueError, "scales is 'all'"),
        ({"scales": [1.0]}, ValueError, "scales has shape"),
        ({"scales": [-1.0, 1.0]}, ValueError, "scales holds"),
        ({"weights": [1.0] * 2 + [0.0] * 18}, ValueError, "x has 2 rows"),
        ({"landmarks": 0}, ValueError, "landmarks is 0"),
        ({"y": np.zeros(20)}, ValueError, "all 20 outcomes y are equal"),
        ({"y": np.zeros(19)}, ValueError, "rows must match"),
    ],
)
def test_bad_arguments_are_named(rng, changed, error, match):
    x = rng.normal(size=(20, 2))
    with pytest.raises(error, match=match):
        select_kernel(**{"x": x, "y": x[:, 0], **changed})


def test_one_feature_is_a_mean(rng):
    y = rng.normal(size=(9, 1))
    errors, dimension = leave_one_out(np.ones((9, 1)), y, np.ones(9), [1e-13])
    means = [np.delete(y, i).mean() for i in range(9)]
    np.testing.assert_allclose(errors[0], (y[:, 0] - means) ** 2, rtol=1e-8)
    assert dimension[0] == pytest.approx(1)


def test_few_relevant_columns_among_many(rng):
    """A search through 60 inputs one by one left out the second one only by luck, and took seconds."""
    x = rng.normal(size=(400, 60))
    y = np.sin(3 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.3 * rng.normal(size=400)
    scales = np.array(fm.select_kernel(x, y, scales="select", landmarks=100).scales)
    assert set(np.argsort(-scales)[:2]) == {0, 1}
    assert np.count_nonzero(scales) < 10
