"""One row, ties, constant outcomes, infinite variance: a valid answer, or an error with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from builders import noisy_sine

import fastmcmd as fm
from fastmcmd.errors import NumericalError

N = 120


@pytest.fixture
def sample() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, N)
    return x, noisy_sine(rng, x)


def gaussian(x: Any) -> fm.Gaussian:
    return fm.Gaussian(np.sin(x), np.full(len(x), 0.3))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_are_tested(sample: tuple[Any, Any], rows: int) -> None:
    x, y = sample[0][:rows], sample[1][:rows]
    test = fm.congruence_test(x, y, gaussian(x), simulations=39)
    assert 1 / 40 <= test.p_value <= 1
    far = fm.congruence_test(x, y + 9.0, gaussian(x), simulations=39)
    assert far.p_value == 1 / 40


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("how", ["x", "y", "all x", "all y"])
def test_ties_keep_the_size(how: str) -> None:
    """Right models: inputs are rounded or constant, outcomes are counts or constants."""
    rejected = 0
    for run in range(20):
        rng = np.random.default_rng([8, run])
        x = rng.uniform(-2, 2, 60)
        if how == "x":
            x = np.round(x)
        elif how == "all x":
            x = np.zeros(60)
        if how == "y":
            rate = np.exp(x / 2)
            y, model = rng.poisson(rate).astype(float), fm.Poisson(rate)
        elif how == "all y":  # the model is nearly certain that all outcomes are zero
            y, model = np.zeros(60), fm.Poisson(np.full(60, 1e-9))
        else:
            y, model = noisy_sine(rng, x), gaussian(x)
        test = fm.congruence_test(x, y, model, simulations=19, random_state=[8, run])
        rejected += test.p_value <= 0.05
    assert rejected <= 5  # binomial(20, .05): above with probability 0.03 %


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_infinite_variance_is_tested_and_diagnosed() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, 400)
    y = x + 0.3 * rng.standard_t(1.5, 400)
    right, shifted = fm.StudentT(1.5, x, 0.3), fm.StudentT(1.5, x + 0.5, 0.3)
    assert fm.congruence_test(x, y, right, simulations=39).p_value > 0.05
    assert fm.congruence_test(x, y, shifted, simulations=39).p_value == 1 / 40
    diagnosis = fm.diagnose(x, y, shifted)
    assert np.abs(np.median(diagnosis.shift[diagnosis.supported]) + 0.5) < 0.1


CONSTANT: dict[str, Callable[[Any, Any], object]] = {
    "cce": lambda x, y: fm.cce(x, y, gaussian(x)),
    "select_kernel": lambda x, y: fm.select_kernel(x, y),
    "kernel_report": lambda x, y: fm.kernel_report(x, y, gaussian(x)),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_outcomes_give_no_scale(name: str, sample: tuple[Any, Any]) -> None:
    x, y = sample
    with pytest.raises(NumericalError, match=r"all 120 outcomes y are equal.*y_kernel"):
        CONSTANT[name](x, 0 * y + 1)


def test_constant_outcomes_are_tested_and_mended(sample: tuple[Any, Any]) -> None:
    """Scales of the test come from predictions, which have a spread."""
    x, y = sample
    constant = 0 * y + 1
    assert fm.congruence_test(x, constant, gaussian(x), simulations=39).p_value == 1 / 40
    mended = fm.recalibration.ConditionalRescaling().fit(gaussian(x), constant, x)
    mean = mended.transform(gaussian(x), x).mean
    assert np.abs(mean - 1).mean() < np.abs(np.sin(x) - 1).mean() / 2


def test_one_draw_is_exchanged_with_the_outcome() -> None:
    """With one member a row, y and the member swap: equally many data sets lie on either side."""
    shares = {0.0: 0, 0.5: 0}
    for shift in shares:
        for run in range(20):
            rng = np.random.default_rng([9, run])
            x = rng.uniform(-2, 2, 80)
            y, member = np.sin(x) + 0.3 * rng.standard_normal((2, 80))
            test = fm.congruence_test(
                x, y + shift, fm.Draws(member[:, None]), simulations=19, random_state=[9, run]
            )
            shares[shift] += test.p_value <= 0.05
    assert shares[0.0] <= 5
    assert shares[0.5] >= 18


def test_masked_labels_are_refused_not_read(rng):
    x, y = rng.standard_normal((2, 60))
    labels = np.ma.masked_array(np.arange(60) // 2, mask=np.arange(60) == 7)
    text = np.ma.masked_array(labels.data.astype(str), mask=labels.mask)
    prediction = fm.Gaussian(np.zeros(60), 1.0)
    with pytest.raises(ValueError, match="groups is a masked array with 1 masked value"):
        fm.congruence_test(x, y, prediction, groups=labels)
    with pytest.raises(ValueError, match="groups is a masked array with 1 masked value"):
        fm.congruence_test(x, y, prediction, groups=labels, nan_policy="omit")
    with pytest.raises(ValueError, match="by is a masked array with 1 masked value"):
        fm.evaluate(y, prediction, by=labels)
    with pytest.raises(ValueError, match=r"columns.* is a masked array with 1 masked value"):
        fm.weak_regions({"group": text}, x, y, prediction)
