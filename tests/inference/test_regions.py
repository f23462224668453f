"""Regions in which a model is wrong: search, description and test."""

from __future__ import annotations

import numpy as np
import pytest
from simulations import regions as simulations

import fastmcmd as fm
from fastmcmd.inference.columns import numbers_of_columns

X_KERNEL = fm.RBF(1.0)


def problem(n=600, seed=0, shift=0.5):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    columns = {"age": rng.uniform(20, 80, n), "chronic": rng.integers(0, 20, n).astype(float)}
    wrong = (columns["age"] > 61) & (columns["chronic"] > 9)
    return x, columns, wrong, x + np.where(wrong, shift, 0.0) + 0.3 * rng.normal(size=n)


def test_a_planted_region_in_columns_that_the_kernel_never_saw():
    x, columns, wrong, y = problem(1000, shift=0.6)
    regions = fm.weak_regions(columns, x, y, fm.Gaussian(x, 0.3), X_KERNEL)
    first = regions.significant[0]
    assert "age >" in first.description
    assert "chronic >" in first.description
    assert first.cce > 1.5 * first.null_cce
    assert first.p_adjusted <= 0.05
    inside = regions.contains(columns) == 0
    assert inside.sum() == first.rows
    assert wrong[inside].mean() > 0.7
    assert "wrong beyond chance" in repr(regions)
    assert first.description in str(regions)
    assert sum(one.rows for one in regions) == 1000


@pytest.mark.parametrize(("factor", "spread"), [(2.0, "too wide"), (0.5, "too narrow")])
def test_wrong_spread_is_named(factor, spread):
    x, columns, _, y = problem(shift=0.0)
    prediction = fm.Gaussian(x, np.where(columns["age"] > 50, factor * 0.3, 0.3))
    regions = fm.weak_regions(columns, x, y, prediction, X_KERNEL)
    assert regions.significant
    assert {one.spread for one in regions.significant} == {spread}
    wrong = regions.contains(columns) < len(regions.significant)
    assert (columns["age"][wrong] > 45).mean() > 0.95


@pytest.mark.parametrize("kind", ["draws", "poisson"])
def test_other_predictions(kind):
    rng = np.random.default_rng(1)
    x, group = rng.uniform(-1, 1, 500), rng.choice(["f", "m"], 500)
    shift = np.where(group == "f", 1.2, 0.0)
    if kind == "draws":
        y = x + 0.5 * shift + 0.3 * rng.normal(size=500)
        prediction = fm.Draws(x[:, None] + 0.3 * rng.normal(size=(500, 8)))
    else:
        y = rng.poisson(np.exp(x + shift)).astype(float)
        prediction = fm.Poisson(np.exp(x))
    regions = fm.weak_regions({"sex": group}, x, y, prediction, X_KERNEL)
    assert regions.significant[0].description == "sex is f"
    assert [one.description for one in regions[1:]] == ["sex is not f"]
    assert regions[1].p_adjusted > 0.01
    assert (regions.contains({"sex": group}) == (group != "f")).all()


def test_random_state_and_frames():
    pandas = pytest.importorskip("pandas")
    x, columns, _, y = problem()
    options = {"x_kernel": X_KERNEL, "simulations": 39}
    one = fm.weak_regions(pandas.DataFrame(columns), x, y, (x, 0.3), random_state=3, **options)
    other = fm.weak_regions(columns, x, y, (x, 0.3), random_state=3, **options)
    assert one.to_dict() == other.to_dict()
    assert list(one.to_frame()) == [
        "description", "cce", "null_cce", "spread", "p_value", "p_adjusted", "rows", "tested",
        "of_classes", "outliers",
    ]  # fmt: skip
    assert "region" in one.table()


def test_constant_columns_are_one_region():
    x, _, _, y = problem(100, shift=0.0)
    regions = fm.weak_regions({"a": np.ones(100)}, x, y, (x, 0.3), X_KERNEL, simulations=19)
    assert [one.description for one in regions] == ["all rows"]


def test_bad_arguments():
    x, columns, _, y = problem(100)
    with pytest.raises(ValueError, match="rows must match"):
        fm.weak_regions(columns, x[:50], y[:50], (x[:50], 0.3))
    with pytest.raises(ValueError, match="at least 40"):
        fm.weak_regions(x[:20], x[:20], y[:20], (x[:20], 0.3))
    with pytest.raises(ValueError, match="columns is empty"):
        fm.weak_regions({}, x, y, (x, 0.3))
    with pytest.raises(ValueError, match="level"):
        fm.weak_regions(columns, x, y, (x, 0.3), level=2)
    with pytest.raises(ValueError, match="labels"):
        fm.weak_regions({"id": [str(k) for k in range(100)]}, x, y, (x, 0.3))


@pytest.mark.slow
def test_size_by_a_small_simulation():
    """Of 24 right models at 5 %, more than 5 have a region with probability 0.1 %."""
    assert simulations.size(repeats=24, n=100, simulations=19) <= 5 / 24


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_of_columns_do_not_matter(unit):
    """The tree compares in float32: larger columns raised an error, and small ones were equal."""
    x, columns, _, y = problem(300)
    scaled = {name: values * unit for name, values in columns.items()}
    one = fm.weak_regions(columns, x, y, (x, 0.3), X_KERNEL, simulations=19)
    other = fm.weak_regions(scaled, x, y, (x, 0.3), X_KERNEL, simulations=19)
    assert len(one) > 1
    assert [region.p_value for region in one] == [region.p_value for region in other]
    assert (one.contains(columns) == other.contains(scaled)).all()


def test_thresholds_are_shown_with_the_digits_that_tell_values_apart():
    """2019.5 was shown as 2020, which lies on the other side of it."""
    x, rng = np.linspace(-1, 1, 200), np.random.default_rng(0)
    years = np.tile([2019, 2020], 100)
    y = x + 0.6 * (years == 2020) + 0.3 * rng.normal(size=200)
    for start in (0, 10**15):
        regions = fm.weak_regions({"year": years + start}, x, y, (x, 0.3), X_KERNEL, simulations=19)
        threshold = f"{start + 2019.5:.17g}"
        assert {one.description for one in regions} == {
            f"year > {threshold}",
            f"year <= {threshold}",
        }
        assert len(np.unique(regions.contains({"year": years + start}))) == 2


def test_columns_of_one_name_are_refused():
    pandas = pytest.importorskip("pandas")
    x, _, _, y = problem(100)
    twice = pandas.DataFrame(np.stack([x, x], axis=1), columns=["a", "a"])
    for columns in (twice, {"a": ["x", "y", "z", "y"] * 25, "a is x": x}):
        with pytest.raises(ValueError, match="more than one column named 'a"):
            fm.weak_regions(columns, x, y, (x, 0.3))
    with pytest.raises(ValueError, match="rows must match"):
        fm.weak_regions(x, x, y[:-1], (x, 0.3))


def test_an_empty_label_is_shown_as_one():
    """The description was "place is ", with nothing after it."""
    columns = {"place": np.array(["", "land", "town", ""])}
    numbers, names = numbers_of_columns(columns)
    assert names == ("place is ''", "place is land", "place is town")
    again, _ = numbers_of_columns({"place": np.array(["town", ""])}, names)
    np.testing.assert_array_equal(again, [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(numbers[:, 0], [1, 0, 0, 1])
