"""Conversion of a caller's inputs and kernels into the form that a computation uses."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from fastmcmd._base.annotations import HostArray
from fastmcmd.errors import NumericalError
from fastmcmd.gram import rows_are_finite
from fastmcmd.kernels import Kernel, Scaled, split_scales
from fastmcmd.kernels.base import UNIT
from fastmcmd.kernels.custom import examine_kernel
from fastmcmd.options import Options
from fastmcmd.rows import Rows, check_apart, open_rows

__all__ = [
    "check_files",
    "common_dtype",
    "inputs",
    "prepared_inputs",
    "resolved_kernels",
    "scaled_inputs",
]

_SMALL = 16  # inputs on disk are loaded if they take at most the memory limit divided by this
# Relative error of a kernel value: a larger one is underflow or overflow, not rounding.
_LARGEST_ROUNDING = 1e-3
_TINY = 1 << 22  # bytes: device inputs up to this are copied to the host, where duplicates collapse


def check_files(out: object, checkpoint: object, **inputs: object) -> None:
    """Raise if ``out`` and ``checkpoint`` name the same file, or the file of an input."""
    if out is not None:
        check_apart(out, "out", inputs)
    if checkpoint is not None:
        other_files = inputs if out is None else {**inputs, "out": out}
        check_apart(checkpoint, "checkpoint", other_files)


def inputs(
    value: object, name: str, options: Options, columns: int | None = None
) -> HostArray | Rows:
    """Return inputs as an (n, d) array, or as `Rows` if too large to load from disk or a device."""
    on_device = options.backend == "cupy"
    rows = open_rows(value, name, columns=columns, stays=on_device, is_finite=rows_are_finite)
    if not isinstance(rows, Rows):
        return rows
    small = options.memory_limit // _SMALL
    if rows.on_device is not None:
        small = min(small, _TINY)
    return np.asarray(rows[:]) if rows.nbytes <= small else rows


def common_dtype(*arrays: HostArray | Rows) -> tuple[Any, ...]:
    """Return the arrays in the widest of their precisions; an array passed twice gives one object.

    Rows on disk stay as they are.
    """
    if len({array.dtype for array in arrays}) == 1:
        return arrays
    wide = np.result_type(*(array.dtype for array in arrays))
    converted: dict[int, HostArray | Rows] = {}
    for array in arrays:
        on_disk = isinstance(array, Rows)  # converted block by block
        converted.setdefault(id(array), array if on_disk else _as_dtype(array, wide))
    return tuple(converted[id(array)] for array in arrays)


def _check_lengths(kernel: Kernel, dim: int, name: str) -> None:
    """Raise if squares of distances near the kernel's length scale leave the range of float64."""
    if not kernel.compiled or not kernel.translation_invariant:
        return
    if not _keeps_digits(kernel, dim):
        raise ValueError(
            f"{name} is {kernel!r}: at distances of its length, squares under- or overflow in float64; "
            f"scale {name[0]} and the parameters of the kernel"
        )


@lru_cache(maxsize=64)
def _keeps_digits(kernel: Kernel, dim: int) -> bool:
    return kernel.entry_error(UNIT, dim, 0.0, True) <= _LARGEST_ROUNDING * kernel.max_value(0.0)


def scaled_inputs(
    kernel: Any, options: Options | None = None, **arrays: HostArray | Rows
) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return the inner kernel of a `Scaled` one, the options, and the inputs with scaled columns.

    Landmarks in the options are scaled like inputs. An array passed twice gives one object. Without scales,
    everything is returned unchanged.
    """
    scales, inner = split_scales(kernel) if isinstance(kernel, Kernel) else (None, kernel)
    if scales is None:
        return kernel, options, tuple(arrays.values())
    scaled = kernel if isinstance(kernel, Scaled) else Scaled(inner, scales)
    scaled_arrays: dict[int, HostArray | Rows] = {}
    for name, array in arrays.items():
        if id(array) not in scaled_arrays:
            scaled_arrays[id(array)] = _scaled(scaled, array, name)
    if options is not None and isinstance(options.landmarks, np.ndarray):
        options = replace(options, landmarks=_scaled(scaled, options.landmarks, "landmarks"))
    return inner, options, tuple(scaled_arrays[id(array)] for array in arrays.values())


def _scaled(kernel: Scaled, array: HostArray | Rows, name: str) -> HostArray | Rows:
    if not isinstance(array, Rows):
        return kernel.rows(array, name)
    kernel.rows(np.empty((0, array.shape[1])), name)  # checks the number of columns
    return array.scaled(np.array(kernel.scales))


def prepared_inputs(kernel: object, **arrays: HostArray | Rows) -> tuple[Any, ...]:
    """Return inputs as the kernel needs them (`Kernel.prepared`); an array passed twice gives one object.

    The keywords in ``arrays`` are the names in error messages. Rows on disk are only checked.
    """
    if not isinstance(kernel, Kernel) or not kernel.divides_by_norms:
        return tuple(arrays.values())
    prepared_rows: dict[int, HostArray | Rows] = {}
    for name, array in arrays.items():
        if id(array) in prepared_rows:
            continue
        prepared_rows[id(array)] = (
            array if isinstance(array, Rows) else kernel.prepared(array, name)
        )
        if isinstance(array, Rows):
            for rows, block in array.blocks():
                if kernel.prepared(block, name) is not block:
                    raise NumericalError(
                        f"{name} has rows from {rows.start:,} on whose squares under- or overflow in "
                        f"{kernel!r}; scale the rows"
                    )
    return tuple(prepared_rows[id(array)] for array in arrays.values())


def _as_dtype(array: Any, dtype: DTypeLike) -> HostArray:
    return np.asarray(array.astype(dtype, copy=False))


def resolved_kernels(
    x_kernel: object,
    y_kernel: object,
    x: HostArray | Rows,
    y: HostArray,
    x_prime: HostArray | Rows | None = None,
    y_prime: HostArray | None = None,
) -> tuple[Kernel, Kernel]:
    """Return both kernels with their parameters resolved on x and y.

    Kernels that are Python functions are tested on rows of both samples.
    """
    resolved = []
    for kernel, data, other, name in (
        (x_kernel, x, x_prime, "x_kernel"),
        (y_kernel, y, y_prime, "y_kernel"),
    ):
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"{name} is {kernel!r}; a fastmcmd kernel is needed, such as fastmcmd.RBF(0.5) or "
                "fastmcmd.CustomKernel(function)"
            )
        if name == "y_kernel" and split_scales(kernel)[0] is not None:
            raise TypeError(
                f"y_kernel is {kernel!r}; predictions cannot be scaled by column: scale y and the draws "
                "of the predictions, and pass the inner kernel"
            )
        try:
            resolved.append(kernel.resolve(data))
        except ValueError as error:
            raise NumericalError(f"{name}: {error}") from None
        _check_lengths(resolved[-1], data.shape[1], name)
        samples = (data,) if other is None else (data, other)
        examine_kernel(resolved[-1], name, *samples)
    return resolved[0], resolved[1]
