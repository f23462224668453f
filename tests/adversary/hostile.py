"""Values that are always wrong, and unusual forms of values that are valid.

Each takes the argument of a valid call and gives what replaces it. ``TAGS`` says what a value is, so that
the checks know which of them can never be right.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import pathlib
import warnings

import numpy as np

__all__ = ["HARMLESS", "POOL", "TAGS", "default_array"]


def default_array(base):
    """The argument itself if it is an array, or one like it."""
    if isinstance(base, np.ndarray):
        return base
    if isinstance(base, (list, tuple)) and base and all(isinstance(b, (int, float)) for b in base):
        return np.array(base, dtype=float)
    return np.linspace(0.1, 0.9, 24)


def floats(base):
    return np.array(default_array(base), dtype=np.float64)


def put(value):
    def change(base):
        array = floats(base)
        if array.size:
            array.reshape(-1)[array.size // 2] = value
        return array

    return change


def pandas(make):
    def change(base):
        import pandas as pd

        array = floats(base)
        if array.ndim > 2 or not array.size:
            raise NotImplementedError
        return make(pd, array)

    return change


def torch(make):
    def change(base):
        import torch as library

        array = floats(base)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make(library, library.tensor(array))

    return change


def sparse(base):
    from scipy import sparse as library

    return library.csr_matrix(np.atleast_2d(floats(base)))


def with_na(pd, array):
    column = pd.array([*([1] * (len(array) - 1)), None], dtype="Int64")
    return pd.Series(column)


def generator(base):
    return (value for value in floats(base).ravel().tolist())


def reversed_strides(base):
    return np.ascontiguousarray(default_array(base)[::-1])[::-1]


def strided(base):
    array = default_array(base)
    wide = np.repeat(array, 2, axis=0)
    return wide[::2]


def read_only(base):
    array = default_array(base).copy()
    array.flags.writeable = False
    return array


def big_endian(base):
    array = default_array(base)
    return array.astype(array.dtype.newbyteorder(">"))


class Liar:
    """An object with a length and a shape, and no values."""

    shape, dtype, ndim = (24,), np.dtype(float), 1

    def __len__(self):
        return 24


def ragged(base):
    return [[0.1, 0.2], [0.3]]


def recursive(base):
    nested = []
    nested.append(nested)
    return nested


HARMLESS = {
    "reversed strides": reversed_strides,
    "strided": strided,
    "read-only": read_only,
    "big-endian": big_endian,
    "Fortran order": lambda base: np.asfortranarray(default_array(base)),
    "list": lambda base: default_array(base).tolist(),
    "masked, nothing masked": lambda base: np.ma.masked_array(default_array(base)),
    "objects": lambda base: default_array(base).astype(object),
    "long double": lambda base: floats(base).astype(np.longdouble),
    "subclass": lambda base: default_array(base).view(np.recarray)
    if default_array(base).dtype.names
    else default_array(base).view(type("Sub", (np.ndarray,), {})),
    "Series or DataFrame": pandas(lambda pd, a: pd.Series(a) if a.ndim == 1 else pd.DataFrame(a)),
    "Float64 Series": pandas(
        lambda pd, a: pd.Series(a, dtype="Float64") if a.ndim == 1 else pd.DataFrame(a)
    ),
    "torch": torch(lambda t, a: a),
    "torch, needs gradient": torch(lambda t, a: a.clone().requires_grad_()),
    "torch, negated view": torch(lambda t, a: t.complex(a * 0, a).conj().imag.neg()),
}  # fmt: skip

BAD = {
    "None": (lambda base: None, "none"),
    "NaN": (lambda base: float("nan"), "nan number"),
    "inf": (lambda base: float("inf"), "inf number"),
    "-inf": (lambda base: float("-inf"), "inf negative number"),
    "1e308": (lambda base: 1e308, "huge number"),
    "-1e308": (lambda base: -1e308, "huge negative number"),
    "5e-324": (lambda base: 5e-324, "tiny number"),
    "0": (lambda base: 0, "zero number"),
    "-1": (lambda base: -1, "negative number"),
    "0.5": (lambda base: 0.5, "number"),
    "10**400": (lambda base: 10**400, "huge number"),
    "2**63": (lambda base: 2**63, "huge number"),
    "2**62": (lambda base: 2**62, "huge number"),
    "-10**400": (lambda base: -(10**400), "huge negative number"),
    "True": (lambda base: True, "bool"),
    "False": (lambda base: False, "bool"),
    "1j": (lambda base: 1j, "never"),
    "text": (lambda base: "nonsense", "text"),
    "empty text": (lambda base: "", "text"),
    "number in a text": (lambda base: "1.5", "text"),
    "NUL in a text": (lambda base: "a\0b", "text"),
    "bytes": (lambda base: b"bytes", "never"),
    "object": (lambda base: object(), "never"),
    "class": (lambda base: dict, "class"),
    "lambda": (lambda base: lambda *args: 0.0, "callable"),
    "lambda of nothing": (lambda base: lambda: 0.0, "callable"),
    "module": (lambda base: np, "never"),
    "...": (lambda base: ..., "never"),
    "NotImplemented": (lambda base: NotImplemented, "never"),
    "set": (lambda base: {0.1, 0.2}, "never"),
    "dict": (lambda base: {"a": 1.0}, "dict"),
    "empty dict": (lambda base: {}, "dict"),
    "range": (lambda base: range(24), "range"),
    "generator": (generator, "generator"),
    "iterator": (lambda base: iter([0.1, 0.2]), "generator"),
    "Path": (lambda base: pathlib.Path("/nonexistent/path"), "path"),
    "date": (lambda base: datetime.date(2020, 1, 1), "never"),
    "Decimal": (lambda base: decimal.Decimal("0.5"), "number"),
    "Decimal NaN": (lambda base: decimal.Decimal("nan"), "nan number"),
    "Fraction": (lambda base: fractions.Fraction(1, 3), "number"),
    "float32 number": (lambda base: np.float32(0.5), "number"),
    "NumPy NaN": (lambda base: np.float64("nan"), "nan number"),
    "NumPy bool": (lambda base: np.True_, "bool"),
    "NaT": (lambda base: np.datetime64("NaT"), "never"),
    "something with a shape": (lambda base: Liar(), "never dtyped"),
    "empty list": (lambda base: [], "empty"),
    "empty tuple": (lambda base: (), "empty"),
    "nested empty lists": (lambda base: [[], []], "empty"),
    "ragged": (ragged, "never"),
    "recursive": (recursive, "never"),
    "list with None": (lambda base: [0.1, None, 0.3], "has nan"),
    "list of texts": (lambda base: ["a", "b"], "texts"),
    "tuple of one": (lambda base: (0.5,), "short"),
    "tuple of three": (lambda base: (0.1, 0.2, 0.3), "short"),
    "empty array": (lambda base: np.empty(0), "empty"),
    "no rows": (lambda base: np.empty((0, 2)), "empty"),
    "no columns": (lambda base: np.empty((24, 0)), "empty"),
    "0-d array": (lambda base: np.array(0.5), "0d"),
    "0-d NaN": (lambda base: np.array(np.nan), "nan number"),
    "1-element array": (lambda base: np.array([0.5]), "short"),
    "3-d": (lambda base: np.ones((24, 2, 2)), "3d"),
    "5-d": (lambda base: np.ones((2, 2, 2, 2, 2)), "never"),
    "33-d": (lambda base: np.ones((1,) * 32), "never"),
    "transposed": (lambda base: np.atleast_2d(floats(base)).T, "shape"),
    "one row": (lambda base: np.atleast_2d(floats(base).ravel()), "shape"),
    "one short": (lambda base: floats(base)[:-1], "short"),
    "one too many": (lambda base: np.concatenate([floats(base), floats(base)[:1]]), "long"),
    "NaN inside": (put(np.nan), "has nan"),
    "all NaN": (lambda base: floats(base) * np.nan, "has nan"),
    "inf inside": (put(np.inf), "has inf"),
    "-inf inside": (put(-np.inf), "has inf"),
    "1e308 inside": (put(1e308), "has huge"),
    "-1e308 inside": (put(-1e308), "has huge"),
    "5e-324 inside": (put(5e-324), "has tiny"),
    "all 5e-324": (lambda base: np.full(floats(base).shape, 5e-324), "has tiny"),
    "all 1e300": (lambda base: np.full(floats(base).shape, 1e300), "has huge"),
    "all zero": (lambda base: np.zeros(floats(base).shape), "zeros"),
    "negated": (lambda base: -floats(base) - 1, "negatives"),
    "scaled up": (lambda base: floats(base) * 1e160, "has huge"),
    "scaled down": (lambda base: floats(base) * 1e-200, "has tiny"),
    "booleans": (lambda base: floats(base) > 0.5, "bools"),
    "complex": (lambda base: floats(base) + 1j, "never"),
    "texts of numbers": (lambda base: floats(base).astype(str), "never"),
    "objects that are texts of numbers": (
        lambda base: floats(base).astype(str).astype(object), "never",
    ),
    "texts": (lambda base: np.full(floats(base).shape, "a"), "texts"),
    "objects": (lambda base: np.array([object()] * 24), "never"),
    "objects None": (lambda base: np.full(floats(base).shape, None), "has nan"),
    "objects 10**400": (lambda base: np.full(floats(base).shape, 10**400, dtype=object), "never"),
    "structured": (lambda base: np.zeros(24, dtype=[("a", float), ("b", int)]), "never"),
    "datetime64": (lambda base: np.arange(24).astype("datetime64[D]"), "never"),
    "timedelta64": (lambda base: np.arange(24).astype("timedelta64[s]"), "never"),
    "void": (lambda base: np.zeros(24, dtype="V8"), "never"),
    "masked": (
        lambda base: np.ma.masked_array(floats(base), mask=np.ones(floats(base).shape, bool)),
        "never",
    ),
    "masked constant": (lambda base: np.ma.masked, "never"),
    "matrix": (lambda base: np.asmatrix(np.atleast_2d(floats(base).ravel()).T), "shape"),
    "sparse": (sparse, "never dtyped"),
    "broadcast": (lambda base: np.broadcast_to(0.5, floats(base).shape), "same"),
    "float16": (lambda base: floats(base).astype(np.float16), "close"),
    "float32": (lambda base: floats(base).astype(np.float32), "close"),
    "int64 > 2**53": (
        lambda base: 2**60 + np.arange(floats(base).size).reshape(floats(base).shape), "big integers",
    ),
    "uint64": (
        lambda base: np.full(floats(base).shape, 2**64 - 1, dtype=np.uint64), "big integers",
    ),
    "int8": (lambda base: np.full(floats(base).shape, -128, dtype=np.int8), "negatives"),
    "pandas NA": (pandas(with_na), "has nan"),
    "pandas categories": (
        pandas(lambda pd, a: pd.Series(pd.Categorical(["a", "b"] * 12))), "texts",
    ),
    "pandas texts": (pandas(lambda pd, a: pd.Series(["x"] * 24)), "texts"),
    "pandas dates": (pandas(lambda pd, a: pd.Series(pd.date_range("2020", periods=24))), "never dates"),
    "pandas interval": (pandas(lambda pd, a: pd.interval_range(0, 24)), "never"),
    "pandas mixed frame": (
        pandas(lambda pd, a: pd.DataFrame({"a": [1.0] * 24, "b": ["x"] * 24})), "never",
    ),
    "torch conj": (torch(lambda t, a: t.complex(a, a).conj()), "never"),
    "torch meta": (torch(lambda t, a: a.to("meta")), "never"),
    "torch sparse": (torch(lambda t, a: a.to_sparse()), "never"),
    "torch bfloat16": (torch(lambda t, a: a.to(t.bfloat16)), "close"),
    "torch quantized": (
        torch(lambda t, a: t.quantize_per_tensor(a.float(), 0.1, 0, t.quint8)), "close",
    ),
    "torch empty": (torch(lambda t, a: t.empty(0)), "empty"),
    "torch complex": (torch(lambda t, a: t.complex(a, a)), "never"),
}  # fmt: skip

POOL = {**{f"harmless {name}": make for name, make in HARMLESS.items()}}
POOL |= {name: make for name, (make, _) in BAD.items()}
TAGS = {**{f"harmless {name}": {"harmless"} for name in HARMLESS}}
TAGS |= {name: set(tags.split()) for name, (_, tags) in BAD.items()}
