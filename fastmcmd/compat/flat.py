"""Conversion of the sums of accumulators to one row of numbers, which processes can exchange, and back."""

from __future__ import annotations

import hashlib
import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fastmcmd._base.annotations import AnyArray, HostArray
from fastmcmd._base.checks import EXACT_INTEGERS
from fastmcmd.classification.accuracy import AboveSums, ConfusionCounts
from fastmcmd.classification.bins import BinSums
from fastmcmd.classification.metric import Totals
from fastmcmd.classification.ranking import RankSketch
from fastmcmd.metrics.intervals import IntervalSums, SpreadSums
from fastmcmd.metrics.pit import PITSums
from fastmcmd.metrics.point_sums import AverageSums, Comoments
from fastmcmd.metrics.reliability_sums import ReliabilitySums
from fastmcmd.predictive.base import Array
from fastmcmd.streaming.accuracy import Sketches
from fastmcmd.streaming.base import Accumulator
from fastmcmd.streaming.mass_sketch import FineSums, LogSketch, MassSketch
from fastmcmd.streaming.means import MeanSums
from fastmcmd.streaming.variance import SpreadSketch

__all__ = ["flatten", "restore"]

# Classes are identified by their positions in these two lists: only append to them.
_CLASSES = (
    MeanSums, AverageSums, Comoments, Sketches, LogSketch, SpreadSketch, SpreadSums, IntervalSums,
    ReliabilitySums, PITSums, Totals, BinSums, ConfusionCounts, RankSketch, AboveSums,
    FineSums, MassSketch,
)  # fmt: skip
_DTYPES = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_))

_BOOL, _INT, _FLOAT, _NONE, _ARRAY, _TUPLE, _CLASS = range(7)
_MARK = 8  # numbers that identify the accumulator, one byte each


def flatten(accumulator: Accumulator[Any], state: object) -> Array:
    """Return sums as float64 numbers (m,): the length, a mark of the accumulator, and its sums.

    `restore` reads such rows, also several of them joined end to end.

    Raises
    ------
    TypeError
        If this module cannot write the sums.

    Notes
    -----
    The bytes of the mark are numbers from 0 to 255, so that different marks are not close to each other.
    torchmetrics compares states numerically to find metrics of a collection that can share one.
    """
    parts: list[AnyArray] = [[0.0], _mark(accumulator)]
    _write(state, parts)
    row = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    row[0] = len(row)
    return row


def restore(accumulator: Accumulator[Any], row: Array) -> Any:
    """Return the total of all sums in one or several joined rows of `flatten`; None for an empty row.

    Raises
    ------
    ValueError
        If sums belong to an accumulator of another kind or with other settings, or numbers do not come from
        `flatten`.
    """
    restored, start = None, 0
    while start < len(row):
        length = int(row[start]) if math.isfinite(row[start]) else 0
        if length <= _MARK or start + length > len(row):
            raise ValueError("these are not sums of an accumulator, or part of them is missing")
        part = row[start : start + length]
        if not np.array_equal(part[1 : _MARK + 1], _mark(accumulator)):
            raise ValueError(
                f"these are sums of another metric than {accumulator!r}, or of one with other settings"
            )
        state = _RowReader(part[_MARK + 1 :]).value()
        restored = state if restored is None else restored + state
        start += length
    return restored


def _mark(accumulator: Accumulator[Any]) -> Array:
    settings = sorted(accumulator.settings.items())
    name = f"{type(accumulator).__name__} {settings!r}".encode()
    return np.frombuffer(hashlib.sha256(name).digest()[:_MARK], dtype=np.uint8).astype(np.float64)


def _write(value: object, parts: list[AnyArray]) -> None:
    if is_dataclass(value) and type(value) in _CLASSES:
        parts.append([_CLASS, _CLASSES.index(type(value))])
        for field in fields(value):
            _write(getattr(value, field.name), parts)
    elif isinstance(value, tuple):
        parts.append([_TUPLE, len(value)])
        for one in value:
            _write(one, parts)
    elif isinstance(value, np.ndarray) and value.dtype in _DTYPES:
        _check_exact(value)
        parts.append([_ARRAY, _DTYPES.index(value.dtype), value.ndim, *value.shape])
        parts.append(value.ravel())
    elif value is None:
        parts.append([_NONE])
    elif isinstance(value, (bool, np.bool_)):
        parts.append([_BOOL, value])
    elif isinstance(value, (int, np.integer)):
        _check_exact(np.asarray(value))
        parts.append([_INT, value])
    elif isinstance(value, (float, np.floating)):
        parts.append([_FLOAT, value])
    else:
        raise TypeError(f"sums hold a {type(value).__name__}, which cannot be made numbers")


def _check_exact(values: HostArray) -> None:
    if values.dtype.kind == "i" and values.size and int(np.abs(values).max()) > EXACT_INTEGERS:
        raise ValueError(
            f"a count is above {EXACT_INTEGERS:,}, the largest that float64 numbers hold exactly"
        )


class _RowReader:
    """A sequential reader of values from a row of numbers."""

    def __init__(self, row: Array) -> None:
        self._row, self._at = row, 0

    def value(self) -> Any:
        """Return the next value."""
        kind = self._integer()
        if kind == _CLASS:
            state_class = _CLASSES[self._integer()]
            return state_class(*[self.value() for _ in fields(state_class)])
        if kind == _TUPLE:
            return tuple(self.value() for _ in range(self._integer()))
        if kind == _ARRAY:
            dtype = _DTYPES[self._integer()]
            shape = [self._integer() for _ in range(self._integer())]
            return self._take(math.prod(shape)).reshape(shape).astype(dtype)
        if kind == _NONE:
            return None
        number = float(self._take(1)[0])
        return {_BOOL: bool, _INT: int, _FLOAT: float}[kind](number)

    def _integer(self) -> int:
        return int(self._take(1)[0])

    def _take(self, count: int) -> Array:
        self._at += count
        if self._at > len(self._row):
            raise ValueError("sums of an accumulator end too early")
        return self._row[self._at - count : self._at]
