"""Seconds of a row from those of some rows, for functions that need no clock."""

import numpy as np
import pytest

from fastmcmd.backends import get_backend
from fastmcmd.kernels import RBF
from fastmcmd.planning import rates
from fastmcmd.planning.subsample import Subsample
from fastmcmd.planning.timing import seconds_a_row


@pytest.mark.parametrize("most", [4, 7, 1000])
@pytest.mark.parametrize("fixed", [0.0, 1.0])
def test_work_of_any_number_of_rows_is_left_out(fixed, most):
    assert seconds_a_row(lambda count: fixed + 0.25 * count, most) == pytest.approx(0.25)


@pytest.mark.parametrize("most", [1, 3])
def test_of_very_few_rows_all_counts(most):
    assert seconds_a_row(lambda count: 3.0 + count, most) == pytest.approx(3.0 / most + 1.0)


def test_rows_take_time_even_if_fewer_took_longer():
    assert seconds_a_row(lambda count: 6.0 if count < 100 else 3.0, 100) == pytest.approx(0.01)


def test_long_work_is_rated_twice(monkeypatch):
    """Threads of BLAS that still spin make the first measurement too slow."""
    measurements, kernel = [1e9, 3e9], RBF(0.5)
    some = Subsample(100, np.zeros((100, 2)))
    backend = get_backend("auto", kernel)
    for work, expected in ((1e9, 1e9), (1e10, 3e9)):
        monkeypatch.setattr(rates, "_RATES", {})
        results = iter(measurements)
        monkeypatch.setattr(rates, "_measured_rate", lambda *_, results=results: next(results))
        per_second = rates.rate(backend, kernel, some, 1, np.dtype(np.float32), work)
        assert per_second == expected
