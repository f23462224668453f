"""Seconds of a row from those of some rows, for functions that need no clock."""

import pytest

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
