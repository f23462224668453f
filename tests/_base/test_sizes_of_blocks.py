"""Sizes taken from a budget."""

import pytest

from fastmcmd._base.memory import power_of_two_within


@pytest.mark.parametrize(
    ("size", "expected"),
    [(-5, 0), (0, 0), (1, 1), (2, 2), (3, 2), (2**26 - 1, 2**25), (2**26, 2**26), (10**8, 2**26)],
)
def test_power_of_two(size, expected):
    assert power_of_two_within(size) == expected
