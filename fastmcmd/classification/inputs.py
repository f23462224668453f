"""Checked inputs of classification metrics: labels, probabilities and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import AnyArray, HostArray
from fastmcmd._base.arrays import (
    HOST,
    Namespace,
    device_namespace,
    kind_of,
    namespace_of,
    shape_only,
)
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import check_choice, check_positive, check_same_length
from fastmcmd._base.ignored import AllIgnoredError, IgnoreIndex, ignored_labels
from fastmcmd._base.names import as_names
from fastmcmd.classification.labels import (
    as_labels,
    as_numbers,
    numbers_of_columns,
    numbers_of_names,
    refuse_label,
)
from fastmcmd.errors import RowError
from fastmcmd.frames import check_row_order
from fastmcmd.metrics.inputs import (
    NAN_POLICIES,
    SelectedRows,
    check_weights_shape,
    checked_weights,
)
from fastmcmd.predictive.adapters.missing import rows_without_nan
from fastmcmd.predictive.base import Array

__all__ = [
    "SUM_TOLERANCES",
    "LabelledRows",
    "count_classes",
    "read",
    "read_probabilities",
]

State = TypeVar("State")

# Largest distance of the sum of a row from one, by the bytes of the original type of p. Rounding in a
# softmax over 1,000 classes stays ten times below; float64 arrays often hold results computed in float32.
SUM_TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-6}

_BLOCK = (
    1 << 17
)  # probabilities per block: 1 MB of float64, so that several loops find it in the cache
GROUPS = 64  # more groups than threads, so that no thread waits long for the last group
_NOTHING = np.empty(0)


@dataclass(frozen=True, eq=False)
class LabelledRows(SelectedRows):
    """Labels, probabilities and weights, which may lie on a device; valid rows hold no NaN.

    Attributes
    ----------
    p : ndarray (n, C) or (n,)
        Unchanged probabilities of all rows; (n,) are those of class 1. `summarize` or `check` checks their
        values when they are read.
    labels : ndarray (m,) or None
        Labels of the valid rows, from 0 to C - 1.
    classes : int
        Number of classes C.
    tolerance : float
        Largest distance of the sum of a row from one.
    weights, valid, n, propagate, blank
        See `SelectedRows`.
    name : str
        Name of p in messages.
    unchecked : bool
        Whether labels of two classes still need to be checked, by `check_labels` or when they are read.
    """

    p: Array
    labels: NDArray[np.int64] | None
    weights: Array | None
    valid: NDArray[np.intp] | None
    classes: int
    tolerance: float
    propagate: bool
    name: str
    unchecked: bool = False
    blank: bool = False

    def __len__(self) -> int:
        return self.p.shape[0] if self.valid is None else len(self.valid)

    @property
    def binary(self) -> bool:
        """Whether p holds only the probabilities of class 1."""
        return self.p.ndim == 1

    @property
    def n(self) -> int:
        """Number of rows before rows were left out."""
        return self.p.shape[0]

    @property
    def namespace(self) -> Namespace:
        """The array library and device of these rows: NumPy, or a GPU library."""
        return namespace_of(self.p)

    def original(self, rows: slice) -> Array:
        """Return the unchanged p of a block of valid rows."""
        if self.valid is None:
            return self.p[rows, ...]
        return self.namespace.rows(self.p, self.valid[rows])

    def block(self, rows: slice) -> Array:
        """Return contiguous p (b, C) of a block of valid rows; in float64 if p holds only class 1."""
        p = self.original(rows)
        if p.ndim == 2:
            return np.ascontiguousarray(p)
        positive = p.astype(np.float64)
        return np.stack([1.0 - positive, positive], axis=1)

    def positive(self) -> Array:
        """Return the probabilities (m,) of class 1."""
        p = self.original(slice(None))
        return np.ascontiguousarray(p if p.ndim == 1 else p[:, 1])

    @property
    def known_labels(self) -> NDArray[np.int64]:
        """The labels; raises an error if there are none, because compiled loops do not check."""
        if self.labels is None:
            raise TypeError("y is None; labels from 0 to C - 1 are needed")
        return self.labels

    def labels_of(self, rows: slice) -> NDArray[np.int64]:
        """Return the labels of a block; an empty array if there are none."""
        return self.labels[rows] if self.labels is not None else np.empty(0, dtype=np.int64)

    def weights_of(self, rows: slice) -> Array:
        """Return the weights of a block; an empty array if there are none."""
        return self.weights[rows] if self.weights is not None else _NOTHING

    def over(
        self,
        work: Callable[[slice, Array, State], object],
        state: Callable[[], State],
        groups: int = GROUPS,
    ) -> list[State]:
        """Call ``work(rows, block, state)`` for each block, and return the states in order of rows.

        Consecutive blocks form at most ``groups`` groups, which run on threads. Each group has a state,
        created by ``state()``, to which its blocks add.
        """
        step = max(1, _BLOCK // self.classes)
        blocks = -(-len(self) // step)

        def run(group: slice) -> State:
            group_state = state()
            for start in range(group.start, group.stop, step):
                part = slice(start, min(start + step, group.stop))
                work(part, self.block(part), group_state)
            return group_state

        return over_rows(run, len(self), step * -(-blocks // groups))

    def over_blocks(self, work: Callable[[slice, Array], object]) -> None:
        """Call ``work(rows, block)`` for each block, on threads."""
        self.over(lambda rows, block, _: work(rows, block), lambda: None)

    def check_block(self, rows: slice, block: Array) -> None:
        """Raise an error unless all rows of a block are probabilities."""
        bad = _core.check_rows(block, self.tolerance)
        if bad >= 0:
            self.refuse(rows.start + bad)

    def check(self) -> LabelledRows:
        """Return these rows after one pass that checks that all are probabilities."""
        if self.namespace.on_host:
            if self.binary:
                p = self.original(slice(None))
                if not (p.min() >= 0 and p.max() <= 1):  # also if any is NaN
                    self.refuse(int(np.argmin((p >= 0) & (p <= 1))))
            else:
                self.over_blocks(self.check_block)
            return self
        arrays, p = self.namespace, self.original(slice(None))
        xp = arrays.xp
        if p.ndim == 1:
            fits = (p >= 0) & (p <= 1)
        else:
            total = xp.sum(p, axis=1, dtype=xp.float64)
            fits = (xp.abs(total - 1.0) <= self.tolerance) & (arrays.least(p) >= 0)
            fits = fits & (arrays.greatest(p) <= 1)
        if not bool(xp.all(fits)):
            self.refuse(int(arrays.argmax(arrays.cast(~fits, "int8"))))
        return self

    def check_labels(self) -> None:
        """Raise an error unless all labels are classes."""
        if self.unchecked and self.labels is not None:
            as_labels(self.labels, self.classes, self.valid)

    def refuse(self, row: int) -> NoReturn:
        """Raise an error that describes what is wrong with a row."""
        if self.labels is not None and not 0 <= self.labels[row] < self.classes:
            refuse_label(self.labels, row, self.classes, self.valid)
        values = np.atleast_1d(self.namespace.to_host(self.original(slice(row, row + 1)))[0])
        row = row if self.valid is None else int(self.valid[row])
        if np.isnan(values).any():
            raise RowError(
                f"{self.name} holds NaN (first in row {row}); remove such rows, or use nan_policy='omit'",
                row,
            )
        wrong = np.flatnonzero((values < 0) | (values > 1))
        if len(wrong):
            where = f"{self.name}[{row}]" if self.binary else f"{self.name}[{row}, {wrong[0]}]"
            raise RowError(
                f"{where} is {values[wrong[0]]:.9g}; probabilities in [0, 1] are needed (of logits "
                "take the softmax first)",
                row,
            )
        total = values.sum(dtype=np.float64)
        raise RowError(
            f"{self.name} has a row that does not sum to one: row {row} sums to {total:.9g} (tolerance "
            f"{self.tolerance:g}); divide each row by its sum, or raise sum_tolerance",
            row,
        )


def read(
    y: AnyArray | LabelledRows,
    p: ArrayLike,
    sample_weight: ArrayLike | None = None,
    nan_policy: str = "raise",
    sum_tolerance: float | None = None,
    name: str = "p",
    labels_later: bool = False,
    on_device: bool = False,
    ignore_index: IgnoreIndex = None,
) -> LabelledRows:
    """Return labels, probabilities and weights after checking shapes, labels and weights.

    Parameters
    ----------
    y : array_like (n,)
        Labels, integers from 0 to C - 1; booleans for two classes; or text, see `numbers_of_names`.
        Columns of a data frame ``p`` that are other numbers name the classes, see `numbers_of_columns`.
    p : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1. Arrays of float32 and float64 are not copied.
    sample_weight : array_like (n,), optional
        Nonnegative weights.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows in which y, p or the weight is NaN: raise an error; leave them out; or make
        aggregates NaN. In the last two cases, their per-row values are NaN.
    sum_tolerance : float, optional
        Largest distance of the sum of a row from one. Default: 1e-6 for float64, 1e-4 for float32, 1e-2 for
        float16.
    name : str
        Name of p in messages.
    labels_later : bool
        Whether to postpone the check of integer labels until they are read, which saves a pass. Applies if
        p has shape (n,).
    on_device : bool
        Whether rows stay on the device of p. All are checked there, and host labels and weights are copied
        to it. If False, arrays are copied to the host.
    ignore_index : int or str, optional
        Label of rows to leave out, whatever their probabilities and weights hold.

    Raises
    ------
    AllIgnoredError
        All rows have the label ``ignore_index``.
    ValueError, TypeError
        Shapes that differ, labels out of range, negative weights, NaN (with "raise", in y or the weights;
        NaN in p raises an error when its values are read), or no remaining row.
    """
    if isinstance(y, LabelledRows):  # already read
        return y
    arrays = (device_namespace(p) if on_device else None) or HOST
    return _read_rows(
        arrays, (y,), p, sample_weight, nan_policy, sum_tolerance, name, labels_later,
        ignore_index=ignore_index,
    )  # fmt: skip


def read_probabilities(
    p: ArrayLike,
    sample_weight: ArrayLike | None = None,
    nan_policy: str = "raise",
    sum_tolerance: float | None = None,
    name: str = "p",
    weight_name: str = "sample_weight",
) -> LabelledRows:
    """Return probabilities and weights without labels, with the checks of `read`."""
    return _read_rows(
        HOST, None, p, sample_weight, nan_policy, sum_tolerance, name, False, weight_name
    )


def _read_rows(
    arrays: Namespace,
    y: tuple[AnyArray] | None,
    p: AnyArray,
    sample_weight: ArrayLike | None,
    nan_policy: str,
    sum_tolerance: float | None,
    name: str,
    labels_later: bool,
    weight_name: str = "sample_weight",
    ignore_index: IgnoreIndex = None,
) -> LabelledRows:
    """Return checked rows; ``y`` is a tuple with the labels, or None without labels."""
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    check_row_order(y=None if y is None else y[0], **{name: p, weight_name: sample_weight})
    names = None if y is None else as_names(*y)
    numbers = as_numbers(*y) if y is not None and names is None and arrays.on_host else None
    table = p  # keeps the column names of a data frame
    rounded = "float16" in str(getattr(p, "dtype", ""))  # float16 and torch's bfloat16
    p = arrays.bring(p, name)
    n, classes = int(p.shape[0]) if p.ndim else 0, count_classes(tuple(p.shape), name)
    if sum_tolerance is not None:
        tolerance = check_positive(sum_tolerance, "sum_tolerance")
    else:
        kind = p.dtype if arrays.on_host else np.dtype(kind_of(p))
        tolerance = SUM_TOLERANCES[2 if rounded else kind.itemsize]
    labels, ignored = None, None
    if y is not None:
        if names is None and numbers is None:
            labels = _labels_on_device(arrays, *y)
            ignored = ignored_labels(labels, ignore_index, False)
        else:
            labels, ignored = _labels_on_host(names, numbers, ignore_index, table, classes, name)
            labels = labels if names is None else arrays.from_host(labels)
        check_same_length(y=range(labels.shape[0]), **{name: range(n)})
    weights = None
    if sample_weight is not None:
        weights = arrays.bring(sample_weight, weight_name)
        check_weights_shape(weights, n, weight_name)
    labelled = None if ignored is None else ~arrays.to_host(ignored)
    if labelled is not None and not labelled.any():
        raise AllIgnoredError(ignore_index, n)
    valid = None if labelled is None or labelled.all() else np.flatnonzero(labelled)
    propagate = blank = False
    if nan_policy != "raise":
        has_nan = labels is not None and kind_of(labels).startswith("float")
        without_nan = rows_without_nan(arrays, n, (p, weights, labels if has_nan else None))
        if without_nan is not None:
            without_nan = arrays.to_host(without_nan)
            labelled = np.ones(n, dtype=bool) if labelled is None else labelled
            complete = without_nan & labelled
            propagate = nan_policy == "propagate" and not np.array_equal(complete, labelled)
            valid = np.flatnonzero(complete)
            blank = not len(valid)
        if blank and nan_policy == "omit":
            raise ValueError(f"all {n} rows hold NaN; at least one without is needed")
    if blank:
        valid, weights = np.arange(n), None
        labels = None if labels is None else arrays.from_host(valid % classes)
        p = arrays.from_host(_stand_in(arrays.to_host(p)))
    elif valid is not None:
        labels = None if labels is None else arrays.rows(labels, valid)
        weights = None if weights is None else arrays.rows(weights, valid)
    count = n if valid is None else len(valid)
    later = labels_later and arrays.on_host and p.ndim == 1
    later = later and labels is not None and labels.dtype == np.int64
    rows = LabelledRows(
        p,
        labels if later or labels is None else _checked_labels(arrays, labels, classes, valid),
        checked_weights(arrays, weights, count, weight_name),
        valid,
        classes,
        tolerance,
        propagate,
        name,
        later,
        blank,
    )
    return rows if arrays.on_host else rows.check()


def _labels_on_host(
    names: HostArray | None, numbers: HostArray | None, ignore_index: IgnoreIndex, table: AnyArray,
    classes: int, name: str,
) -> tuple[HostArray, NDArray[np.bool_] | None]:  # fmt: skip
    """Return the columns of names or numbers of classes, and which are ignored: these need be no class."""
    if names is not None:
        ignored = ignored_labels(names, ignore_index, True)
        if ignored is not None:
            names[ignored] = None
        return numbers_of_names(names, table, classes, name), ignored
    assert numbers is not None
    ignored = ignored_labels(numbers, ignore_index, False)
    if ignored is not None and ignored.any():
        numbers = np.where(ignored, np.nan, numbers)
    return numbers_of_columns(numbers, table, classes, name), ignored


def _labels_on_device(arrays: Namespace, y: AnyArray) -> AnyArray:
    """Return y (n,) on the device as booleans, integers or floats."""
    if device_namespace(y) is None:
        numbers = as_numbers(y)
        # int64 is the only integer type with which torch computes on all devices.
        return arrays.from_host(numbers.astype(np.int64) if numbers.dtype.kind in "iu" else numbers)
    arrays.check_same(y, "y")
    if y.ndim != 1:
        as_numbers(shape_only(y))
    return y if kind_of(y).startswith(("bool", "int", "uint")) else arrays.as_real(y, "y")


def _checked_labels(arrays: Namespace, y: AnyArray, classes: int, valid: AnyArray) -> AnyArray:
    """Return labels as int64, or raise the errors of `as_labels`."""
    if arrays.on_host:
        return as_labels(y, classes, valid)
    xp, kind = arrays.xp, kind_of(y)
    if kind == "bool" and classes == 2:
        return arrays.cast(y, "int64")
    if kind.startswith("float"):
        can_be_cast = xp.isfinite(y) & (xp.abs(y) < classes)  # only these can be cast to integers
        labels = arrays.cast(xp.where(can_be_cast, y, -1.0), "int64")
        fits = (labels >= 0) & (arrays.cast(labels, kind) == y)
    elif kind != "bool":
        labels = arrays.cast(y, "int64")
        fits = (labels >= 0) & (labels < classes)
    if kind == "bool" or not bool(xp.all(fits)):
        as_labels(arrays.to_host(y), classes, valid)
    return labels


def count_classes(shape: tuple[int, ...], name: str) -> int:
    """Return the number of classes of probabilities of shape (n, C) or (n,)."""
    if len(shape) not in (1, 2):
        raise ValueError(
            f"{name} has shape {shape}; (n, C), or (n,) for the probability of class 1, is needed"
        )
    if shape[0] == 0:
        raise ValueError(f"{name} has no rows (shape {shape}); at least one is needed")
    classes = 2 if len(shape) == 1 else shape[1]
    if classes < 2:
        raise ValueError(
            f"{name} has shape {shape}; two classes or more are needed: give the probability of "
            f"class 1 as shape ({shape[0]},)"
        )
    return classes


def _stand_in(p: Array) -> Array:
    """Return placeholder probabilities with the shape and type of p; the likeliest class varies by row."""
    turn = np.arange(len(p))
    if p.ndim == 1:
        return (0.25 + 0.5 * (turn % 2)).astype(p.dtype)
    probabilities = np.full(p.shape, 0.5 / p.shape[1], dtype=p.dtype)
    probabilities[turn, turn % p.shape[1]] += 0.5
    return probabilities
