"""Mistakes of users bring a clear error that names the argument, or the right answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fastmcmd as fm

N = 40


@pytest.fixture
def data(rng):
    x = rng.normal(size=(N, 2))
    return x, x[:, 0] + rng.normal(size=N), x[:, 0] + rng.normal(size=N)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"lam": 0}, ValueError, "lam is 0"),
        ({"lam": -1.0}, ValueError, "lam is -1"),
        ({"lam": "0.1"}, ValueError, "lam is '0.1'"),
        ({"lam": np.nan}, ValueError, "lam is nan"),
        ({"tol": 0}, ValueError, "tol is 0"),
        ({"solver": "magic"}, ValueError, "solver is 'magic'; one of"),
        ({"backend": "abacus"}, ValueError, "abacus"),
        ({"backend": "cupy"}, Exception, "cupy"),
        ({"certificate": "notary"}, ValueError, "certificate is 'notary'"),
        ({"dtype": "int32"}, ValueError, "dtype is int32"),
        ({"dtype": "no"}, TypeError, "dtype is 'no'"),
        ({"memory_limit": "much"}, ValueError, "memory_limit is 'much'"),
        ({"memory_limit": -5}, ValueError, "memory_limit is -5"),
        ({"memory_limit": "10kB"}, fm.MemoryLimitError, "at least .* are needed"),
        ({"x_kernel": "rbf"}, ValueError, "x_kernel is 'rbf'; a fastmcmd kernel"),
        ({"weights": np.ones(3)}, ValueError, r"weights has shape \(3,\); \(40,\) is needed"),
        ({"weights": -np.ones(N)}, ValueError, "weights has negative values"),
        ({"weights": np.zeros(N)}, ValueError, "weights are all zero"),
        ({"weights": np.full(N, np.nan)}, ValueError, "weights holds NaN"),
        ({"draws": 0}, ValueError, "draws is 0"),
        ({"draws": 1.5}, TypeError, "draws is 1.5"),
        ({"encoder": 3}, TypeError, "encoder is 3"),
        ({"at": np.ones((5, 3))}, ValueError, "at has 3 columns; 2 are needed"),
        ({"at": np.empty((0, 2))}, ValueError, "at has no rows"),
    ],
)
def test_options(data, change, error, message):
    with pytest.raises(error, match=message):
        fm.cce(*data, **change)


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        (0, np.full((N, 2), np.nan), ValueError, "x holds NaN .first in row 0"),
        (0, np.full((N, 2), np.inf), ValueError, "x holds infinity"),
        (0, np.ones((N, 2, 2)), ValueError, r"x has shape \(40, 2, 2\)"),
        (0, np.empty((0, 2)), ValueError, "x has no rows"),
        (0, np.ones((N, 2)) * 1j, TypeError, "x has dtype complex128"),
        (0, np.array([["a", "b"]] * N), TypeError, "x has dtype <U1"),
        (0, [[1.0, 2.0], [3.0]], ValueError, "x cannot be made an array"),
        (0, None, TypeError, "x is None"),
        (1, np.ones(N + 1), ValueError, "x has 40, y has 41"),
        (1, np.array([object()] * N), TypeError, "y holds Python objects"),
        (2, np.ones(N + 2), ValueError, "42"),
        (2, np.ones((N + 2, 3)), ValueError, "42"),
        (2, np.full(N, np.nan), ValueError, "NaN"),
        (2, fm.Gaussian(np.zeros(N - 1), 1.0), ValueError, "39"),
        (2, object(), TypeError, "prediction"),
    ],
)
def test_arrays(data, place, value, error, message):
    args = list(data)
    args[place] = value
    with pytest.raises(error, match=message):
        fm.cce(*args)


def test_masked_arrays(data):
    x, y, p = data
    unmasked = np.ma.masked_array(x, mask=False)
    np.testing.assert_array_equal(fm.cce(unmasked, y, p).values, fm.cce(x, y, p).values)
    holes = np.ma.masked_array(x, mask=np.arange(2 * N).reshape(N, 2) == 3)
    with pytest.raises(ValueError, match="x is a masked array with 1 masked values"):
        fm.cce(holes, y, p)


def test_constant_targets(data):
    x, _, p = data
    with pytest.raises(ValueError, match="y_kernel"):
        fm.cce(x, np.ones(N), p)
    result = fm.cce(x, np.ones(N), p, y_kernel=fm.RBF(0.5))
    assert np.isfinite(result.values).all()


def test_one_row():
    with pytest.raises(ValueError, match="y_kernel"):
        fm.cce([[1.0, 2.0]], [1.0], [2.0])
    result = fm.cce([[1.0, 2.0]], [1.0], [2.0], y_kernel=fm.RBF(0.5))
    assert result.values.shape == (1,)
    assert result.values[0] > 0


def test_forms_of_the_same_data(data):
    """Lists, integers, pandas columns, float16, odd strides, read-only and 1-D inputs."""
    import pandas as pd

    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, size=(N, 2)).astype(np.float64)
    _, y, p = data
    expected = fm.cce(x, y, p).values
    frame = pd.DataFrame(x, columns=["a", "b"])
    wide = np.zeros((2 * N, 6))
    wide[::2, ::3] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    for form in (
        x.tolist(),
        x.astype(np.int64),
        x.astype(np.float16),
        x.astype(np.float32),
        x.astype(np.longdouble),
        x.astype(">f8"),
        np.asfortranarray(x),
        wide[::2, ::3],
        frozen,
        frame,
        frame[["a", "b"]].astype(int),
    ):
        before = np.array(form, dtype=float)
        result = fm.cce(form, pd.Series(y), p.tolist())
        np.testing.assert_allclose(result.values, expected, atol=2e-6)
        np.testing.assert_array_equal(np.array(form, dtype=float), before)
    column = x[:, 0]
    np.testing.assert_array_equal(
        fm.cce(column, y, p).values, fm.cce(column[:, None], y[:, None], p[:, None]).values
    )


def test_memmap(tmp_path, data):
    x, y, p = data
    np.save(tmp_path / "x.npy", x)
    memory_map = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(fm.cce(memory_map, y, p).values, fm.cce(x, y, p).values)


def test_swapped_arguments_are_an_error(data):
    x, y, p = data
    with pytest.raises(ValueError, match="x_prime has 1 columns; 2 are needed"):
        fm.mcmd(x, x, y, p, x)
    with pytest.raises(ValueError, match="rows must match"):
        fm.mcmd(x, x, y[:-1], x, p)


def test_huge_and_tiny_values(data):
    x, y, p = data
    for scale in (1e-12, 1e12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fm.ToleranceWarning)
            result = fm.cce(x * scale, y * scale, p * scale, x_kernel=fm.RBF("median"))
        reference = fm.cce(x, y, p, x_kernel=fm.RBF("median"))
        np.testing.assert_allclose(result.values, reference.values, atol=1e-6)


def test_inputs_are_not_changed(data):
    copies = [a.copy() for a in data]
    fm.cce(*data, weights=np.ones(N), at=data[0] + 1)
    for now, before in zip(data, copies, strict=True):
        np.testing.assert_array_equal(now, before)


def test_nullable_booleans_and_lazy_frames():
    import pandas as pd

    from fastmcmd._base.checks import as_array

    array = as_array(pd.array([True, None, False], dtype="boolean"), "y")
    np.testing.assert_array_equal(array, [1.0, np.nan, 0.0])
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"y is a LazyFrame; y.collect\(\) is needed"):
        as_array(polars.DataFrame({"a": [1.0]}).lazy(), "y")


@pytest.mark.parametrize(("column", "advice"), [("sex", "get_dummies"), ("when", "such as days")])
def test_a_frame_with_text_or_dates_names_the_column(column, advice):
    """The message named neither the column nor a way out."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [30.0, 40.0], "sex": ["f", "m"]})
    frame["when"] = pandas.to_datetime(["2024-01-01", "2024-01-02"])
    y, prediction = np.zeros(2), (np.zeros(2), 1.0)
    with pytest.raises(TypeError, match=rf"^x\['{column}'\] .*{advice}"):
        fm.cce(frame[["age", column]], y, prediction)
    with pytest.raises(TypeError, match=rf"^x .*{advice}"):
        fm.cce(frame[column], y, prediction)


@pytest.mark.parametrize("where", ["x", "y"])
def test_rows_are_numbered_as_they_came(where):
    """With nan_policy="omit", the message gave the number of a row among those that were left."""
    data = {"x": np.arange(9.0), "y": np.arange(9.0)}
    data["y"][[1, 3]] = np.nan
    data[where][5] = np.inf
    message = rf"^{where} holds infinity \(first in row 5; 1 such value in rows 0 to 8\)"
    with pytest.raises(ValueError, match=message):
        fm.evaluate(data["y"], (np.zeros(9), 1.0), data["x"], nan_policy="omit")
