"""Temperature scaling agrees with brute force, torch and netcal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax

import fastmcmd as fm
from fastmcmd.recalibration import TemperatureScaling, load


def problem(n, classes, temperature, seed=0):
    """Return logits that are right at one temperature, and labels."""
    rng = np.random.default_rng(seed)
    logits = temperature * rng.normal(scale=2, size=(n, classes))
    share = softmax(logits / temperature, axis=1).cumsum(axis=1)
    y = (rng.random((n, 1)) > share).sum(axis=1).clip(0, classes - 1)
    return logits, y


def loss(logits, y, temperature, weights=None):
    terms = -log_softmax(logits / temperature, axis=1)[np.arange(len(y)), y]
    return float(np.average(terms, weights=weights))


@pytest.mark.parametrize("temperature", [0.01, 0.4, 1.0, 3.0, 500.0])
@pytest.mark.parametrize("classes", [2, 7])
def test_temperature_is_that_of_brute_force(temperature, classes):
    logits, y = problem(600, classes, temperature)
    weights = np.random.default_rng(1).uniform(0, 2, 600)
    result = TemperatureScaling().fit(logits, y, sample_weight=weights).temperature_
    best = minimize_scalar(
        lambda t: loss(logits, y, np.exp(t), weights),
        bounds=np.log([temperature / 10, temperature * 10]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert result == pytest.approx(np.exp(best.x), rel=1e-6)  # a flat minimum, to root of rounding
    # The derivative itself: sums of w (E l - l_y) at the optimum, in units of rounding.
    share = softmax(logits / result, axis=1)
    terms = weights * ((share * logits).sum(axis=1) - logits[np.arange(600), y])
    assert abs(terms.sum()) < 1e-12 * np.abs(terms).sum()
    assert result == pytest.approx(temperature, rel=0.3)


@given(
    st.integers(1, 60),
    st.integers(2, 6),
    st.floats(-6, 6),
    st.integers(0, 10**6),
)
def test_temperature_zeroes_the_derivative_or_is_refused(n, classes, power, seed):
    rng = np.random.default_rng(seed)
    logits = 10.0**power * rng.standard_t(2, size=(n, classes))
    y = rng.integers(0, classes, n)
    label_logits = logits[np.arange(n), y]
    if not np.sum(logits.mean(axis=1) - label_logits) < 0:
        with pytest.raises(ValueError, match="infinite"):
            TemperatureScaling().fit(logits, y)
    elif (label_logits == logits.max(axis=1)).all():
        with pytest.raises(ValueError, match="the best temperature is 0"):
            TemperatureScaling().fit(logits, y)
    else:
        temperature = TemperatureScaling().fit(logits, y).temperature_
        share = softmax(logits / temperature, axis=1)
        terms = (share * logits).sum(axis=1) - label_logits
        # Where the derivative is steep, T itself is only known to rounding.
        slope = (
            np.sum((share * logits**2).sum(axis=1) - (share * logits).sum(axis=1) ** 2)
            / temperature
        )
        assert abs(terms.sum()) < 1e-11 * np.abs(terms).sum() + 1e-13 * slope


@pytest.mark.slow
def test_search_on_few_rows_first_gives_the_same():
    logits, y = problem(250_000, 2, 2.0, seed=3)
    calibrator = TemperatureScaling().fit(logits, y)
    best = minimize_scalar(
        lambda t: loss(logits, y, t), bounds=(1.5, 2.5), method="bounded", options={"xatol": 1e-9}
    )
    assert calibrator.temperature_ == pytest.approx(best.x, rel=1e-6)
    np.testing.assert_allclose(
        calibrator.transform(logits), softmax(logits / calibrator.temperature_, axis=1), rtol=1e-12
    )


@pytest.mark.slow
def test_results_do_not_depend_on_threads():
    logits, y = problem(200_000, 4, 2.0, seed=4)
    before = fm.get_num_threads()
    temperatures = []
    try:
        for threads in (1, 2, 3):
            fm.set_num_threads(threads)
            scaling = TemperatureScaling().fit(logits, y)
            temperatures.append((scaling.temperature_, scaling.transform(logits[:9]).tobytes()))
    finally:
        fm.set_num_threads(before)
    assert temperatures[0] == temperatures[1] == temperatures[2]


def test_binary_logits_are_two_classes():
    logits, y = problem(500, 2, 3.0)
    one = TemperatureScaling().fit(logits[:, 1] - logits[:, 0], y)
    two = TemperatureScaling().fit(logits, y)
    assert one.temperature_ == pytest.approx(two.temperature_, rel=1e-12)
    probabilities = one.transform(logits[:, 1] - logits[:, 0])
    assert probabilities.shape == (500,)
    np.testing.assert_allclose(probabilities, two.transform(logits)[:, 1], rtol=1e-12)
    np.testing.assert_allclose(
        probabilities, expit((logits[:, 1] - logits[:, 0]) / one.temperature_)
    )


def test_overconfidence_is_repaired_on_a_second_sample_and_calibration_stays():
    first, second = problem(4000, 5, 1.0, 5), problem(4000, 5, 1.0, 6)
    calibrated = TemperatureScaling().fit(*first)
    assert calibrated.temperature_ == pytest.approx(1, abs=0.06)
    assert loss(*second, calibrated.temperature_) < loss(*second, 1.0) + 1e-3
    overconfident = TemperatureScaling().fit(3 * first[0], first[1])
    assert overconfident.temperature_ == pytest.approx(3 * calibrated.temperature_, rel=1e-12)
    p = overconfident.transform(3 * second[0])
    mended = -np.log(p[np.arange(4000), second[1]]).mean()
    assert mended < loss(3 * second[0], second[1], 1.0) - 0.1
    confidence, right = p.max(axis=1), p.argmax(axis=1) == second[1]
    gaps = [
        abs(confidence[part].mean() - right[part].mean())
        for part in np.array_split(np.argsort(confidence), 10)
    ]
    assert np.mean(gaps) < 2 * 0.5 / np.sqrt(400)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_invariances():
    logits, y = problem(300, 4, 2.0)
    temperature = TemperatureScaling().fit(logits, y).temperature_
    weights = np.random.default_rng(0).integers(0, 4, 300)
    again = np.repeat(np.arange(300), weights)
    order = np.random.default_rng(1).permutation(300)
    shift = np.random.default_rng(2).normal(size=(300, 1))
    one = TemperatureScaling().fit(logits, y, sample_weight=weights).temperature_
    assert one == pytest.approx(TemperatureScaling().fit(logits[again], y[again]).temperature_)
    assert TemperatureScaling().fit(logits[order], y[order]).temperature_ == pytest.approx(
        temperature
    )
    assert TemperatureScaling().fit(logits + shift, y).temperature_ == pytest.approx(temperature)
    assert TemperatureScaling().fit(7 * logits, y).temperature_ == pytest.approx(7 * temperature)
    single = TemperatureScaling().fit(logits.astype(np.float32), y).temperature_
    assert single == pytest.approx(temperature, rel=1e-5)
    huge = TemperatureScaling().fit(1e300 * logits / np.abs(logits).max(), y)
    assert np.isfinite(huge.transform(1e300 * logits / np.abs(logits).max())).all()


@pytest.mark.slow
def test_torch_lbfgs_agrees():
    torch = pytest.importorskip("torch")
    logits, y = problem(2000, 5, 2.5)
    log_t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([log_t], max_iter=200, line_search_fn="strong_wolfe")
    tensor, labels = torch.tensor(logits), torch.tensor(y)

    def closure():
        optimiser.zero_grad()
        value = torch.nn.functional.cross_entropy(tensor / log_t.exp(), labels)
        value.backward()
        return value

    optimiser.step(closure)
    calibrator = TemperatureScaling().fit(tensor, labels)
    assert calibrator.temperature_ == pytest.approx(float(log_t.exp().detach()), rel=1e-4)
    assert loss(logits, y, calibrator.temperature_) <= loss(logits, y, float(log_t.exp().detach()))


def test_netcal_agrees():
    pytest.importorskip("torch")
    scaling = pytest.importorskip("netcal.scaling")
    logits, y = problem(1500, 3, 2.5)
    theirs = scaling.TemperatureScaling()
    theirs.fit(softmax(logits, axis=1), y)
    p = np.asarray(theirs.transform(softmax(logits, axis=1)))
    ours = TemperatureScaling().fit(logits, y).transform(logits)
    np.testing.assert_allclose(ours, p, atol=2e-3)  # single precision, probabilities clipped
    assert -np.log(ours[np.arange(1500), y]).mean() <= -np.log(p[np.arange(1500), y]).mean() + 1e-9


def test_saved_and_shown(tmp_path):
    logits, y = problem(300, 4, 2.0)
    calibrator = TemperatureScaling()
    assert repr(calibrator) == "TemperatureScaling()"
    with pytest.raises(ValueError, match="not fitted"):
        calibrator.transform(logits)
    original = logits.copy()
    p = calibrator.fit_transform(logits, y)
    np.testing.assert_array_equal(logits, original)
    calibrator.save(tmp_path / "t.npz")
    again = load(tmp_path / "t.npz")
    assert again.temperature_ == calibrator.temperature_
    np.testing.assert_array_equal(again.transform(logits), p)


def test_rows_with_nan():
    logits, y = problem(300, 4, 2.0)
    holed, labels = logits.copy(), y.astype(float)
    holed[3, 1], labels[7] = np.nan, np.nan
    weights = np.ones(300)
    weights[11] = np.nan
    for bad in ((holed, y), (logits, labels)):
        with pytest.raises(ValueError, match=r"NaN|nan"):
            TemperatureScaling().fit(*bad)
    keep = np.setdiff1d(np.arange(300), [3, 7, 11])
    calibrator = TemperatureScaling().fit(holed, labels, sample_weight=weights, nan_policy="omit")
    assert calibrator.temperature_ == TemperatureScaling().fit(logits[keep], y[keep]).temperature_
    with pytest.raises(ValueError, match="all 2 rows hold NaN"):
        TemperatureScaling().fit(np.full((2, 2), np.nan), [0, 1], nan_policy="omit")


@pytest.mark.parametrize(
    ("logits", "y", "options", "message"),
    [
        (np.zeros((2, 2)), [0], {}, r"y has shape \(1,\)"),
        (np.zeros((2, 2)), [0, 2], {}, "y holds 2"),
        (np.zeros((2, 2)), [0, 0.5], {}, "y holds 0.5"),
        (np.zeros((2, 2)), [0, -1], {}, "y holds -1"),
        (np.zeros((0, 2)), [], {}, "none of them 0"),
        (np.zeros((2, 2, 2)), [0, 1], {}, r"\(n,\) or \(n, C\)"),
        ([[np.inf, 0.0], [0.0, 1.0]], [0, 1], {}, "logits hold infinity"),
        (np.eye(2), [0, 1], {"sample_weight": [1.0]}, r"sample_weight has shape \(1,\)"),
        (np.eye(2), [0, 1], {"sample_weight": [1.0, -1.0]}, "negative"),
        (np.eye(2), [0, 1], {"nan_policy": "propagate"}, "nan_policy is 'propagate'"),
        (np.eye(2), [0, 1], {}, "best temperature is 0"),
        (np.eye(2), [1, 0], {}, "infinite"),
        (np.zeros((2, 2)), [1, 0], {}, "infinite"),
        ([[1.5e308, -1.5e308], [0.0, 0.0]], [1, 0], {}, "more than a number can hold"),
    ],
)
def test_bad_input(logits, y, options, message):
    with pytest.raises(ValueError, match=message):
        TemperatureScaling().fit(logits, y, **options)


def test_a_prediction_of_classes_is_no_logits(rng):
    """The error said "check the order of the arguments"."""
    p = rng.dirichlet(np.ones(3), 60)
    y = np.array([rng.choice(3, p=row) for row in p])
    with pytest.raises(TypeError, match=r"Categorical.*as logits, np.log\(p.clip\(1e-12\)\)"):
        fm.recalibration.TemperatureScaling().fit(fm.Categorical(p), y)
    fitted = fm.recalibration.TemperatureScaling().fit(np.log(p.clip(1e-12)), y)
    assert 0.3 < fitted.temperature_ < 3
