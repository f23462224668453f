"""Distinct rows agree with a dictionary of the rows."""

import numpy as np
import pytest

from fastmcmd.embedding.design import distinct_rows


def _oracle(x):
    places: dict[tuple[float, ...], int] = {}
    first, group = [], []
    for row, values in enumerate(x.tolist()):
        key = tuple(values)  # -0.0 and 0.0 are equal and have equal hashes
        if key not in places:
            places[key] = len(places)
            first.append(row)
        group.append(places[key])
    return first, group


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("values", [3, 50, None])
def test_distinct_rows_match_a_dictionary(dtype, columns, values):
    rng = np.random.default_rng(columns)
    for n in (1, 2, 7, 200):
        x = rng.normal(size=(n, columns))
        if values is not None:  # repeats rows with either sign of zero
            x = np.round(
                rng.integers(-values, values + 1, (n, columns)) * rng.choice([-0.0, 1], n)[:, None]
            )
        x = x.astype(dtype)
        first, group = distinct_rows(x)
        expected_first, expected_group = _oracle(x)
        assert first.tolist() == expected_first
        groups = list(range(n)) if group is None else group.tolist()
        assert groups == expected_group
        assert (group is None) == (len(first) == n)


@pytest.mark.parametrize("columns", [1, 5, 9])
def test_one_repeated_row_is_merged(columns):
    x = np.random.default_rng(0).normal(size=(1000, columns))
    x[700] = x[3]
    first, group = distinct_rows(x)
    assert len(first) == 999
    assert group is not None
    assert group[700] == group[3] == 3


def test_rows_that_differ_only_in_late_columns_are_distinct():
    x = np.zeros((100, 9))
    x[:, 8] = np.arange(100)
    first, group = distinct_rows(x)
    assert group is None
    assert len(first) == 100


def test_rows_in_any_layout_have_the_same_hashes():
    x = np.random.default_rng(0).integers(0, 3, (50, 3)).astype(np.float64)
    bytes_of_x = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = bytes_of_x[1:].view(np.float64).reshape(x.shape)
    unaligned[:] = x
    wide = np.zeros((50, 5))
    wide[:, 1:4] = x
    for same in (np.asfortranarray(x), unaligned, wide[:, 1:4], x[::-1][::-1]):
        for ours, expected in zip(distinct_rows(same), distinct_rows(x), strict=True):
            np.testing.assert_array_equal(ours, expected)
