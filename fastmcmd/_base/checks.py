"""Checks and conversions of arguments, done once in the public functions.

Code below the public functions trusts its types. Messages name the argument, its value and what is needed.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import math
import numbers
import operator
import os
import sys
from collections.abc import Callable, Sized
from typing import Any, Literal, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import AnyArray, HostArray
from fastmcmd._base.threads import get_num_threads
from fastmcmd.errors import RowError

__all__ = [
    "FLOATS",
    "all_finite",
    "as_array",
    "as_float",
    "as_rows",
    "as_weights",
    "check_callable",
    "check_choice",
    "check_count",
    "check_finite_rows",
    "check_flag",
    "check_instance",
    "check_lam",
    "check_lams",
    "check_path",
    "check_positive",
    "check_same_length",
    "dense_tensor",
    "distinct_digits",
    "is_cupy",
    "is_tensor",
    "missing_labels",
    "on_device",
    "quote",
    "refuse_masked",
    "tensor_on_host",
    "weights_of_rows",
]

FLOATS = np.dtype(np.float32), np.dtype(np.float64)  # of this machine's byte order
_ENCODE_TEXT = "encode text as columns of 0 and 1, such as by pandas.get_dummies"
_COUNT_DATES = (
    "convert times to numbers, such as days: (times - times.min()) / numpy.timedelta64(1, 'D')"
)
EXACT_INTEGERS = 1 << 53  # integers up to here are float64 numbers
_TWO_64 = 2.0**64  # long doubles represent smaller integers exactly
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-100, 1e100  # of the largest: sums of squares stay in range
_LEAST_LAM, _MOST_LAM = 1e-100, 1e100  # products with n and weights stay in range
_LEAST_SHARE = 1e-100  # of the largest weight that a positive one must have: so do their ratios
_MOST_COUNT = 1 << 40  # largest count: more fits in no memory, and products would overflow
_FINITE_BLOCK = 1 << 18  # elements examined at a time: still in the cache for a second pass


def as_array(value: Any, name: str) -> HostArray:
    """Return ``value`` as a real NumPy array of float32 or float64, without a copy if it is one.

    Lists, integers, booleans, float16, memory maps, pandas columns, torch tensors (detached, from
    any device) and CuPy arrays are accepted. Integers and booleans become float64, float16
    becomes float32.
    """
    if type(value) is np.ndarray and value.dtype in FLOATS:
        return value
    if value is None:
        raise TypeError(f"{name} is None; an array of numbers is needed")
    refuse_masked(value, name)
    if isinstance(value, np.ma.MaskedArray):
        value = value.data
    if not isinstance(value, np.ndarray):
        if hasattr(value, "detach"):
            value = tensor_on_host(value, name)
        elif is_cupy(value):
            with value.device:  # of whose current stream the copy waits for
                value = value.get()
        elif hasattr(value, "toarray") and hasattr(value, "nnz"):
            raise TypeError(f"{name} is a sparse matrix; a dense array is needed: {name}.toarray()")
        elif (
            type(value).__module__.partition(".")[0] == "pandas"
            and str(getattr(value, "dtype", "")) == "boolean"
        ):
            value = value.to_numpy(dtype=np.float64, na_value=np.nan)  # NA next to True and False
        elif type(value).__name__ == "LazyFrame":
            raise TypeError(f"{name} is a LazyFrame; {name}.collect() is needed")
    try:
        array = np.asarray(value)
    except Exception as error:  # __array__ of other libraries may raise anything
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} cannot be made an array: {error}") from None
    if array.dtype == object:
        array = _of_objects(array, name, getattr(value, "columns", None))
    if array.dtype.kind in "iub":
        _check_exact(array, name)
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        hint = {"M": _COUNT_DATES, "m": _COUNT_DATES, "U": _ENCODE_TEXT, "S": _ENCODE_TEXT}
        advice = hint.get(array.dtype.kind, "")
        raise TypeError(
            f"{name} has dtype {array.dtype}; real numbers are needed{advice and '; '}{advice}"
        )
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.itemsize > 8:
        _check_whole(array, name)
    if array.dtype not in FLOATS:
        return array.astype(np.float32 if array.dtype.itemsize == 4 else np.float64)
    return array


def dense_tensor(value: AnyArray, name: str) -> Any:
    """Return a torch tensor with values: no meta or sparse tensor; a quantized one is expanded."""
    if getattr(value, "is_meta", False):
        raise TypeError(
            f"{name} is a meta tensor, which has no values; a tensor with data is needed"
        )
    layout = str(getattr(value, "layout", "torch.strided"))
    if layout != "torch.strided":
        raise TypeError(f"{name} is a sparse tensor; a dense one is needed: {name}.to_dense()")
    return value.dequantize() if getattr(value, "is_quantized", False) else value


def tensor_on_host(value: AnyArray, name: str) -> Any:
    """Return a torch tensor that NumPy can convert: on the host, dense, without a gradient.

    Every tensor that becomes an array passes through here.
    """
    value = dense_tensor(value, name).detach().cpu()
    if str(value.dtype) == "torch.bfloat16":  # unknown to NumPy; exact in float32
        value = value.float()
    for resolve in ("resolve_conj", "resolve_neg"):  # views that NumPy cannot express
        value = getattr(value, resolve)() if hasattr(value, resolve) else value
    return value


def _of_objects(array: HostArray, name: str, columns: Any) -> HostArray:
    """Return an array of Python objects (numbers, and None or NA for missing values) as float64.

    ``columns`` are the names of a data frame's columns, or anything else.

    Text raises an error even if it looks like a number, because the meaning of "1,5" or "0x1" is ambiguous.
    """
    for kind in set(map(type, array.ravel().tolist())):
        missing = kind is type(None) or kind.__name__ == "NAType"
        number = hasattr(kind, "__float__") or hasattr(kind, "__index__")
        if issubclass(kind, np.generic):
            number = issubclass(kind, (np.number, np.bool_))
        if issubclass(kind, (complex, np.complexfloating)) or not (number or missing):
            if array.ndim == 2 and columns is not None and len(columns) == array.shape[1]:
                column = next(j for j, one in enumerate(array.T) if kind in set(map(type, one)))
                name = f"{name}[{columns[column]!r}]"
            advice = "convert them first, or use NaN for missing values"
            if hasattr(kind, "cdf"):
                raise TypeError(
                    f"{name} is a predicted distribution, {kind.__name__}; numbers are needed: check the "
                    "order of the arguments"
                )
            if issubclass(kind, str):
                advice = _ENCODE_TEXT
            elif issubclass(kind, (datetime.date, datetime.timedelta, np.datetime64)):
                advice = _COUNT_DATES
            raise TypeError(
                f"{name} holds Python objects that are not numbers (of type {kind.__name__}); {advice}"
            )
        if kind.__name__ == "NAType":
            entries = [None if type(one) is kind else one for one in array.ravel()]
            array = np.array(entries, dtype=object).reshape(array.shape)
    try:
        numbers: HostArray = array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} holds integers beyond the range of float64") from None
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} holds Python objects that are not numbers; an array of numbers is needed"
        ) from None
    integers = [
        one for one in array.ravel().tolist() if type(one) is int and abs(one) > EXACT_INTEGERS
    ]
    for one in integers:
        if int(float(one)) != one:
            _refuse_integer(one, name)
    return numbers


def _check_exact(array: HostArray, name: str) -> None:
    """Raise an error if float64 cannot represent an integer: different integers would silently be equal."""
    if array.dtype.itemsize < 8 or array.dtype.kind == "b" or not array.size:
        return
    low, high = int(array.min()), int(array.max())
    if high <= EXACT_INTEGERS and low >= -EXACT_INTEGERS:
        return
    flat = array.ravel()
    large = flat[
        (flat > EXACT_INTEGERS)
        if array.dtype.kind == "u"
        else (flat > EXACT_INTEGERS) | (flat < -EXACT_INTEGERS)
    ]
    # An integer is exact if its digits before the trailing zero bits fit: divide by its lowest bit.
    with np.errstate(over="ignore"):
        size = large.astype(np.uint64)
        size = np.where(large < 0, ~size + np.uint64(1), size)
        digits = size // (size & (~size + np.uint64(1)))
    bad = digits > EXACT_INTEGERS
    if bad.any():
        _refuse_integer(int(large[int(np.argmax(bad))]), name)


def _check_whole(array: HostArray, name: str) -> None:
    """Raise an error if a long double is a whole number up to 64 bits that float64 cannot represent."""
    size = np.abs(array)
    with np.errstate(over="ignore", invalid="ignore"):
        is_large_integer = (size > EXACT_INTEGERS) & (size < _TWO_64) & (np.floor(array) == array)
        bad = is_large_integer & (array.astype(np.float64).astype(array.dtype) != array)
    if bad.any():
        _refuse_integer(int(array[bad][0]), name)


def _refuse_integer(value: int, name: str) -> NoReturn:
    raise ValueError(
        f"{name} holds {value}, which float64 cannot represent: integers beyond 2**53 would be rounded, "
        "and different ones become equal; subtract an offset, or number them anew"
    )


def is_cupy(value: object) -> bool:
    """Return whether a value is an array of CuPy, without importing it."""
    return type(value).__module__.partition(".")[0] == "cupy"


def on_device(value: AnyArray) -> int | None:
    """Return the number of the CUDA device that an array of CuPy or torch lies on, else None."""
    if type(value) is np.ndarray:
        return None
    if is_cupy(value):
        return int(value.device.id)
    if is_tensor(value) and bool(getattr(value, "is_cuda", False)):
        return int(value.device.index or 0)
    return None


def all_finite(array: HostArray) -> bool:
    """Tell whether an array of float32 or float64 holds neither NaN nor infinity."""
    if not array.flags.c_contiguous:
        array = array.T
    if array.flags.c_contiguous and array.flags.aligned:
        return bool(_core.all_finite(array, get_num_threads()))
    step = max(1, _FINITE_BLOCK // max(1, array[:1].size))
    return all(
        _core.all_finite(np.array(array[start : start + step], order="C"), get_num_threads())
        for start in range(0, len(array), step)
    )


def check_finite_rows(
    array: HostArray,
    name: str,
    first_row: int = 0,
    rows: HostArray | None = None,
    is_finite: Callable[[HostArray], bool] = all_finite,
) -> None:
    """Raise a ValueError that names the first row with NaN or infinity.

    Parameters
    ----------
    array : ndarray (n, ...)
        Numbers.
    name : str
        Name of the argument.
    first_row : int
        Number of the first row in the caller's array.
    rows : ndarray (n,), optional
        Number of each row there, if some rows have been left out.
    is_finite : callable
        Tells whether all numbers of an array are finite: `all_finite`, or a function that reuses its pass.
    """
    if is_finite(array):
        return
    step = max(1, _FINITE_BLOCK // max(1, array[:1].size))
    for start in range(0, len(array), step):
        block = array[start : start + step]
        finite = np.isfinite(block)
        if not finite.all():
            bad = int(block.size - np.count_nonzero(finite))
            places = np.array([int(np.argwhere(~finite)[0][0]), 0, len(block) - 1]) + start
            row, first, last = places + first_row if rows is None else rows[places]
            has_nan = bool(np.isnan(block).any())
            problem = "NaN" if has_nan else "infinity"
            omit = ', or pass nan_policy="omit" if the function has it' * has_nan
            raise RowError(
                f"{name} holds {problem} (first in row {row}; {bad} such value{'s' * (bad > 1)} in rows "
                f"{first} to {last}); remove such rows first{omit}",
                row,
            )


def as_rows(
    value: object,
    name: str,
    *,
    columns: int | None = None,
    rows: HostArray | None = None,
    is_finite: Callable[[HostArray], bool] = all_finite,
) -> HostArray:
    """Return ``value`` as a finite (n, d) array; (n,) is read as (n, 1).

    ``rows`` (n,) are the numbers of the rows for messages, if some rows have been left out. ``is_finite``
    tells whether an array is finite.
    """
    array = as_array(value, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}; (n,) or (n, d) is needed: one row an observation"
        )
    if array.shape[0] == 0:
        raise ValueError(f"{name} has no rows (shape {array.shape}); at least one is needed")
    if array.shape[1] == 0:
        raise ValueError(f"{name} has no columns (shape {array.shape}); at least one is needed")
    if columns is not None and array.shape[1] != columns:
        raise ValueError(f"{name} has {array.shape[1]} columns; {columns} are needed")
    check_finite_rows(array, name, rows=rows, is_finite=is_finite)
    return array


def check_same_length(**arrays: Sized) -> None:
    """Raise an error unless all named arrays have the same number of rows."""
    if len({len(array) for array in arrays.values()}) > 1:
        lengths_text = ", ".join(f"{name} has {len(array)}" for name, array in arrays.items())
        raise ValueError(f"rows must match: {lengths_text}")


def as_weights(value: object, name: str, n: int) -> NDArray[np.float64] | None:
    """Return nonnegative weights (n,) as float64, or None; at least one must be positive."""
    if value is None:
        return None
    weights = weights_of_rows(value, name, n)
    check_finite_rows(weights, name)
    if (negative := weights < 0).any():
        raise RowError(
            f"{name} has negative values (first in row {int(negative.argmax())}, smallest "
            f"{weights.min():g}); all must be >= 0",
            int(negative.argmax()),
        )
    if not (weights > 0).any():
        raise ValueError(f"{name} are all zero; at least one must be positive")
    largest = float(weights.max())
    if not _LEAST_WEIGHT <= largest <= _MOST_WEIGHT:
        raise ValueError(
            f"{name} has a largest value of {largest:g}; weights whose largest lies in [{_LEAST_WEIGHT:g}, "
            f"{_MOST_WEIGHT:g}] are needed, so that sums of their squares stay in range: rescale them"
        )
    result = weights.astype(np.float64)
    least = float(np.min(result, where=result > 0, initial=np.inf))
    if least < _LEAST_SHARE * largest:
        raise ValueError(
            f"{name} has a positive value of {least:g} beside {largest:g}; their ratio leaves the range of "
            "float64: use 0 for rows that do not count"
        )
    return result


def weights_of_rows(value: object, name: str, n: int) -> HostArray:
    """Return weights (n,) without checking their values, which may be NaN."""
    weights = as_array(value, name)
    if weights.shape != (n,):
        raise ValueError(f"{name} has shape {weights.shape}; ({n},) is needed: one weight per row")
    return weights


def check_positive(value: object, name: str) -> float:
    """Return ``value`` as a positive finite float."""
    number = as_float(value, name, "a positive finite number")
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"{name} is {number:g}; a positive finite number is needed")
    return number


def check_lam(value: object, name: str = "lam") -> float:
    """Return a checked regulariser as a float that is neither negligible nor overflows in products."""
    number = check_positive(value, name)
    if not _LEAST_LAM <= number <= _MOST_LAM:
        raise ValueError(
            f"{name} is {number:g}; a number in [{_LEAST_LAM:g}, {_MOST_LAM:g}] is needed: beyond it "
            "products with the number of rows leave the range of float64"
        )
    return number


def check_lams(value: object, name: str = "lam") -> list[float]:
    """Return one regulariser, or an array or sequence of regularisers, as a list of floats."""
    if isinstance(value, (list, tuple)):
        lams = [check_lam(one, f"{name}[{place}]") for place, one in enumerate(value)]
    elif isinstance(value, np.ndarray) and value.ndim == 1:
        lams = [check_lam(one, f"{name}[{place}]") for place, one in enumerate(value.tolist())]
    else:
        lams = [check_lam(value, name)]
    if not lams:
        raise ValueError(f"{name} is empty; a positive number or several are needed")
    return lams


def check_instance(value: object, name: str, kind: type, requirement: str) -> None:
    """Raise an error unless ``value`` is an instance of a class; ``requirement`` says how to get one."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {quote(value)}; {requirement} is needed")


def check_callable(value: object, name: str, arguments: int, requirement: str) -> None:
    """Raise an error unless ``value`` accepts that many arguments; ``requirement`` says what it must do."""
    if not callable(value):
        raise TypeError(f"{name} is {quote(value)}; {requirement} is needed")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # functions of C need not have one
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        raise TypeError(f"{name} is {quote(value)} ({error}); {requirement} is needed") from None


def as_float(value: Any, name: str, requirement: str = "a number") -> float:
    """Return a real number as a float; raise an error for other values, including booleans and text."""
    if type(value) is float:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    real = isinstance(value, (numbers.Real, decimal.Decimal)) and not isinstance(
        value, (bool, np.bool_)
    )
    if not real:
        raise TypeError(f"{name} is {quote(value)}; {requirement} is needed")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"{name} is beyond the range of float64; {requirement} is needed"
        ) from None


def quote(value: object) -> str:
    """Return a value as text for messages, on one line and shortened."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a foreign repr may raise; the message must still appear
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:97]}..."


def distinct_digits(first: float, second: float) -> tuple[str, str]:
    """Return two numbers as text for messages, with six digits or as many as distinguish them.

    Examples
    --------
    >>> distinct_digits(1.0, 100000.0)
    ('1', '100000')
    >>> distinct_digits(100000.0, 100000.0000001)
    ('100000', '100000.0000001')
    """
    texts = f"{first:g}", f"{second:g}"
    for digits in range(7, 18):
        if texts[0] != texts[1] or first == second:
            break
        texts = f"{first:.{digits}g}", f"{second:.{digits}g}"
    return texts


@overload
def check_count(
    value: object, name: str, least: int = 1, most: int | None = None, *, explanation: str = ""
) -> int: ...
@overload
def check_count(
    value: object,
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    optional: Literal[True],
    explanation: str = "",
) -> int | None: ...
@overload
def check_count(
    value: object,
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    optional: bool = False,
    also: tuple[str, ...],
    explanation: str = "",
) -> int | str | None: ...
def check_count(
    value: Any,
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    optional: bool = False,
    also: tuple[str, ...] = (),
    explanation: str = "",
) -> int | str | None:
    """Return ``value`` as an integer from ``least`` to ``most``, or None if that is ``optional``.

    Accepts integers of any kind (``__index__``) and the words in ``also``, but no booleans and no floats.
    ``explanation`` describes ``most`` in the message.
    """
    if optional and value is None:
        return None
    if isinstance(value, str) and value in also:
        return value
    if most is not None:
        requirement = f"an integer in [{least}, {most}]"
    else:
        requirement = "a positive integer" if least == 1 else f"an integer >= {least}"
    alternatives = [*(["None"] if optional else []), *map(repr, also)]
    message = (
        f"{''.join(f'{other} or ' for other in alternatives)}{requirement}"
        f"{f' ({explanation})' if explanation else ''} is needed"
    )
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except (TypeError, ValueError, RuntimeError, NotImplementedError):  # arrays and tensors
        raise TypeError(f"{name} is {quote(value)}; {message}") from None
    if number < least or number > (_MOST_COUNT if most is None else most):
        raise ValueError(f"{name} is {quote(number)}; {message}")
    return number


def refuse_masked(value: object, name: str) -> None:
    """Raise an error if a masked array has masked values; NumPy would use the values behind the mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} is a masked array with {int(np.ma.getmaskarray(value).sum())} masked values; "
            "remove or fill them first"
        )


def check_labels(value: object, name: str, n: int) -> NDArray[np.intp]:
    """Return the group of each row as an integer (n,) from 0; labels are numbers or text without NaN."""
    refuse_masked(value, name)
    try:
        labels = np.asarray(value)
    except Exception as error:  # __array__ of other libraries may raise anything
        raise ValueError(f"{name} cannot be made an array: {error}") from None
    if labels.ndim != 1:
        raise ValueError(f"{name} has shape {labels.shape}; (n,) is needed: one label per row")
    check_same_length(**{"y": range(n), name: labels})
    missing = missing_labels(labels)
    if missing.any():
        raise RowError(
            f"{name} has no label in row {int(np.argmax(missing))}", int(np.argmax(missing))
        )
    plain = labels.astype(str) if labels.dtype == object else labels
    return np.asarray(np.unique(plain, return_inverse=True)[1].reshape(-1), dtype=np.intp)


def missing_labels(labels: HostArray) -> NDArray[np.bool_]:
    """Return a mask of the labels (n,) that are None, NaN, NaT or pandas's NA."""
    if labels.dtype.kind == "O":
        return np.array([one is None or not _equals_itself(one) for one in labels], dtype=np.bool_)
    if labels.dtype.kind in "fcmM":
        return np.asarray(labels != labels)
    return np.zeros(len(labels), dtype=np.bool_)


def _equals_itself(value: object) -> bool:
    try:
        return bool(value == value)
    except (TypeError, ValueError):  # pandas's NA
        return False


def is_tensor(value: object) -> bool:
    """Return whether a value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")  # where it is not loaded there are no tensors
    return torch is not None and isinstance(value, torch.Tensor)


def check_choice(value: object, name: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"{name} is {quote(value)}; one of {', '.join(map(repr, choices))} is needed"
        )
    return str(value)


def check_path(value: object, name: str) -> str:
    """Return the path of a file as text; the file need not exist."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} is {quote(value)}; the path of a file is needed")
    path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError(f"{name} is {quote(value)}; a path as text is needed, not as bytes")
    if not path or "\0" in path:
        raise ValueError(f"{name} is {path!r}; the path of a file is needed")
    return path


def check_flag(value: object, name: str) -> bool:
    """Return ``value`` as a bool: True or False, of Python or NumPy, or 0 or 1."""
    if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{name} is {quote(value)}; True or False is needed")
