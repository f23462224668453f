"""Checks and conversions of arguments, done once at the public functions.

Everything below the public functions trusts its types. Messages name the argument, what came
and what is needed.
"""

from __future__ import annotations

import numbers
import operator
import sys
from collections.abc import Sized
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "as_array",
    "as_rows",
    "as_weights",
    "check_choice",
    "check_count",
    "check_positive",
    "check_same_length",
    "is_cupy",
    "is_tensor",
    "on_card",
]

_FINITE_BLOCK = 1 << 18  # elements looked at together: they are still in the cache at a second look


def as_array(value: Any, name: str) -> NDArray[Any]:
    """Return ``value`` as a real NumPy array of float32 or float64, without a copy if it is one.

    Lists, integers, booleans, float16, memory maps, pandas columns, torch tensors (detached, from
    any device) and CuPy arrays are accepted. Integers and booleans become float64, float16
    becomes float32.
    """
    if value is None:
        raise TypeError(f"{name} is None; an array of numbers is needed")
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise ValueError(
                f"{name} is a masked array with {int(np.ma.getmaskarray(value).sum())} masked values; "
                "remove or fill them first"
            )
        value = value.data
    if not isinstance(value, np.ndarray):
        if hasattr(value, "detach"):  # torch: an array only once it needs no gradient
            value = value.detach().cpu()
            if str(value.dtype) == "torch.bfloat16":  # unknown to NumPy; exact in float32
                value = value.float()
        elif is_cupy(value):
            with value.device:  # of whose current stream the copy waits for
                value = value.get()
        elif hasattr(value, "toarray") and hasattr(value, "nnz"):
            raise TypeError(f"{name} is a sparse matrix; a dense array is needed: {name}.toarray()")
        elif (
            type(value).__module__.partition(".")[0] == "pandas"
            and str(getattr(value, "dtype", "")) == "boolean"
        ):
            value = value.to_numpy(dtype=np.float64, na_value=np.nan)  # NA beside True and False
        elif type(value).__name__ == "LazyFrame":
            raise TypeError(f"{name} is a LazyFrame; {name}.collect() is needed")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be made an array: {error}") from None
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{name} holds Python objects that are not numbers; an array of numbers is needed"
            ) from None
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise TypeError(f"{name} has dtype {array.dtype}; real numbers are needed")
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        return array.astype(np.float32 if array.dtype.itemsize == 4 else np.float64)
    return array


def is_cupy(value: Any) -> bool:
    """Tell whether a value is an array of CuPy, without importing it."""
    return type(value).__module__.partition(".")[0] == "cupy"


def on_card(value: Any) -> int | None:
    """Return the number of the CUDA card that an array of CuPy or torch lies on, else None."""
    if is_cupy(value):
        return int(value.device.id)
    if is_tensor(value) and bool(getattr(value, "is_cuda", False)):
        return int(value.device.index or 0)
    return None


def _check_finite(array: NDArray[Any], name: str, first_row: int = 0) -> None:
    step = max(1, _FINITE_BLOCK // max(1, array[:1].size))
    for start in range(0, len(array), step):
        block = array[start : start + step]
        # A sum is quicker, and nothing makes NaN or infinity finite; it may overflow, though.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum()):
                continue
        finite = np.isfinite(block)
        if not finite.all():
            bad = int(block.size - np.count_nonzero(finite))
            first = first_row + start
            row = first + int(np.argwhere(~finite)[0][0])
            what = "NaN" if np.isnan(block).any() else "infinity"
            raise ValueError(
                f"{name} holds {what} (first in row {row}; {bad} bad values in rows "
                f"{first} to {first + len(block) - 1}); remove such rows first"
            )


def as_rows(value: Any, name: str, *, columns: int | None = None) -> NDArray[Any]:
    """Return ``value`` as a finite (n, d) array; (n,) is taken as (n, 1)."""
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
    _check_finite(array, name)
    return array


def check_same_length(**arrays: Sized) -> None:
    """Raise unless all named arrays have the same number of rows."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"rows must match: {told}")


def as_weights(value: Any, name: str, n: int) -> NDArray[np.float64] | None:
    """Return nonnegative weights (n,) as float64, or None; at least one must be positive."""
    if value is None:
        return None
    weights = as_array(value, name)
    if weights.shape != (n,):
        raise ValueError(f"{name} has shape {weights.shape}; ({n},) is needed: a weight a row")
    _check_finite(weights, name)
    if (weights < 0).any():
        raise ValueError(
            f"{name} has negative values (smallest {weights.min():g}); all must be >= 0"
        )
    if not (weights > 0).any():
        raise ValueError(f"{name} are all zero; at least one must be positive")
    return weights.astype(np.float64)


def check_positive(value: Any, name: str) -> float:
    """Return ``value`` as a positive finite float."""
    is_scalar = isinstance(value, numbers.Real) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    )
    if not is_scalar or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; a positive number is needed")
    number = float(value)
    if not (number > 0 and np.isfinite(number)):
        raise ValueError(f"{name} is {number:g}; a positive finite number is needed")
    return number


@overload
def check_count(
    value: Any, name: str, least: int = 1, most: int | None = None, *, what: str = ""
) -> int: ...
@overload
def check_count(
    value: Any,
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    optional: Literal[True],
    what: str = "",
) -> int | None: ...
@overload
def check_count(
    value: Any,
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    optional: bool = False,
    also: tuple[str, ...],
    what: str = "",
) -> int | str | None: ...
def check_count(
    value: Any,
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    optional: bool = False,
    also: tuple[str, ...] = (),
    what: str = "",
) -> int | str | None:
    """Return ``value`` as an integer from ``least`` to ``most``, or None where that is ``optional``.

    Integers of any kind are taken (``__index__``), but no booleans, and no floats; and the words
    ``also`` allowed. ``what`` tells in the message what ``most`` is.
    """
    if optional and value is None:
        return None
    if isinstance(value, str) and value in also:
        return value
    if most is not None:
        needed = f"an integer in [{least}, {most}]"
    else:
        needed = "a positive integer" if least == 1 else f"an integer >= {least}"
    others = [*(["None"] if optional else []), *map(repr, also)]
    told = f"{''.join(f'{other} or ' for other in others)}{needed}{f' ({what})' if what else ''} is needed"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; {told}") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {number}; {told}")
    return number


def is_tensor(value: Any) -> bool:
    """Tell whether a value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")  # where it is not loaded there are no tensors
    return torch is not None and isinstance(value, torch.Tensor)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; one of {', '.join(map(repr, choices))} is needed")
    return str(value)
