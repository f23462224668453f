"""What metrics of a classification read: labels, probabilities, weights; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fastmcmd.blocks import over_rows
from fastmcmd.checks import (
    as_array,
    as_weights,
    check_choice,
    check_positive,
    check_same_length,
    is_cupy,
    weights_of_rows,
)
from fastmcmd.metrics.inputs import NAN_POLICIES
from fastmcmd.predictive.base import Array

__all__ = [
    "SUM_TOLERANCES",
    "Rows",
    "as_labels",
    "as_numbers",
    "count_classes",
    "read",
    "read_probabilities",
]

# How far the sum of a row may be from one, by bytes of the type that p came in. Roundings of a softmax
# over 1,000 classes stay ten times below; float64 often holds what was computed in float32.
SUM_TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-6}

_BLOCK = (
    1 << 17
)  # probabilities in a block: 1 MB of float64, so that several loops find it in the cache
_GROUPS = 64  # more than threads, so that none waits long for the last
_NOTHING = np.empty(0)


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels, probabilities and weights; the rows kept are those without NaN.

    Attributes
    ----------
    p : ndarray (n, C) or (n,)
        Probabilities as given, all rows; (n,) are those of class 1. Their values are looked at where
        they are read: by `summarize`, or by `check`.
    labels : ndarray (m,) or None
        Labels of the rows kept, from 0 to C - 1.
    weights : ndarray (m,) or None
        Their weights.
    kept : ndarray (m,) or None
        Which of the n rows these are; None for all.
    classes : int
        C.
    tolerance : float
        How far the sum of a row may be from one.
    propagate : bool
        Whether a row left out makes aggregates NaN.
    name : str
        What p is called in messages.
    blank : bool
        Whether all rows held NaN, which propagates: p only stands in, and all that follows is NaN.
    unchecked : bool
        Whether labels of two classes are still to be looked at, by `check_labels` or where they are read.
    """

    p: Array
    labels: NDArray[np.int64] | None
    weights: Array | None
    kept: NDArray[np.intp] | None
    classes: int
    tolerance: float
    propagate: bool
    name: str
    unchecked: bool = False
    blank: bool = False

    def __len__(self) -> int:
        return len(self.p) if self.kept is None else len(self.kept)

    @property
    def binary(self) -> bool:
        """Whether p is that of class 1 alone."""
        return self.p.ndim == 1

    @property
    def spoiled(self) -> bool:
        """Whether every aggregate is NaN: rows hold NaN, and it propagates."""
        return self.kept is not None and self.propagate

    def given(self, rows: slice) -> Array:
        """Return p of a block of the rows kept, as given."""
        return self.p[rows] if self.kept is None else self.p[self.kept[rows]]

    def block(self, rows: slice) -> Array:
        """Return p (b, C) of a block of the rows kept, contiguous; of class 1 alone in float64."""
        p = self.given(rows)
        if p.ndim == 2:
            return np.ascontiguousarray(p)
        positive = p.astype(np.float64)
        return np.stack([1.0 - positive, positive], axis=1)

    def positive(self) -> Array:
        """Return the probabilities (m,) of class 1."""
        p = self.given(slice(None))
        return np.ascontiguousarray(p if p.ndim == 1 else p[:, 1])

    @property
    def known_labels(self) -> NDArray[np.int64]:
        """The labels, where there must be some: compiled loops read them without a check."""
        if self.labels is None:
            raise TypeError("y is None; labels from 0 to C - 1 are needed")
        return self.labels

    def labels_of(self, rows: slice) -> NDArray[np.int64]:
        """Return the labels of a block; an empty array where there are none."""
        return self.labels[rows] if self.labels is not None else np.empty(0, dtype=np.int64)

    def weights_of(self, rows: slice) -> Array:
        """Return the weights of a block; an empty array where there are none."""
        return self.weights[rows] if self.weights is not None else _NOTHING

    def over(
        self,
        work: Callable[[slice, Array, Any], Any],
        state: Callable[[], Any] = lambda: None,
        groups: int = _GROUPS,
    ) -> list[Any]:
        """Call ``work(rows, block, state)`` for each block; returns the states, in order of rows.

        Blocks that follow each other form at most ``groups`` groups, each with a state of its own, made
        by ``state()``, to which its blocks add. Groups run on threads.
        """
        step = max(1, _BLOCK // self.classes)
        blocks = -(-len(self) // step)

        def run(group: slice) -> Any:
            found = state()
            for start in range(group.start, group.stop, step):
                part = slice(start, min(start + step, group.stop))
                work(part, self.block(part), found)
            return found

        return over_rows(run, len(self), step * -(-blocks // groups))

    def check_block(self, rows: slice, block: Array, state: Any = None) -> None:
        """Raise unless all rows of a block are probabilities."""
        from fastmcmd.classification import loops

        bad = loops.check_rows(block, self.tolerance)
        if bad >= 0:
            self.refuse(rows.start + bad)

    def check(self) -> Rows:
        """Return these rows after one pass that raises unless all are probabilities."""
        self.over(self.check_block)
        return self

    def check_labels(self) -> None:
        """Raise unless all labels are those of classes."""
        if self.unchecked and self.labels is not None:
            as_labels(self.labels, self.classes, self.kept)

    def refuse(self, row: int) -> NoReturn:
        """Raise the error that says what is wrong with a row."""
        if self.labels is not None and not 0 <= self.labels[row] < self.classes:
            _refuse_label(self.labels, row, self.classes, self.kept)
        values = np.atleast_1d(self.given(slice(row, row + 1))[0])
        row = row if self.kept is None else int(self.kept[row])
        if np.isnan(values).any():
            raise ValueError(
                f"{self.name} holds NaN (first in row {row}); remove such rows, or use nan_policy='omit'"
            )
        wrong = np.flatnonzero((values < 0) | (values > 1))
        if len(wrong):
            where = f"{self.name}[{row}]" if self.binary else f"{self.name}[{row}, {wrong[0]}]"
            raise ValueError(
                f"{where} is {values[wrong[0]]:.9g}; probabilities in [0, 1] are needed (of logits "
                "take the softmax first)"
            )
        total = values.sum(dtype=np.float64)
        raise ValueError(
            f"{self.name} has a row that does not sum to one: row {row} sums to {total:.9g} (tolerance "
            f"{self.tolerance:g}); divide each row by its sum, or raise sum_tolerance"
        )

    def scatter(self, values: Array) -> Array:
        """Return values (m,) of the rows kept as (n,), NaN in the rows left out."""
        if self.kept is None:
            return values
        out = np.full(len(self.p), np.nan)
        if not self.blank:
            out[self.kept] = values
        return out


def read(
    y: Any,
    p: Any,
    sample_weight: Any = None,
    nan_policy: str = "raise",
    sum_tolerance: float | None = None,
    name: str = "p",
    labels_later: bool = False,
) -> Rows:
    """Return labels, probabilities and weights whose shapes, labels and weights are checked.

    Parameters
    ----------
    y : array_like (n,)
        Labels, integers from 0 to C - 1; booleans for two classes.
    p : array_like (n, C) or (n,)
        Probabilities of the classes, or of class 1. Arrays of float32 and float64 are not copied.
    sample_weight : array_like (n,), optional
        Nonnegative weights.
    nan_policy : {"raise", "omit", "propagate"}
        What to do with rows in which y, p or the weight is NaN: raise; leave them out; or let them make
        aggregates NaN. Values by row are NaN there in both cases.
    sum_tolerance : float, optional
        How far the sum of a row may be from one; default 1e-6 for float64, 1e-4 for float32, 1e-2 for
        float16.
    name : str
        What p is called in messages.
    labels_later : bool
        Leave integer labels beside p of shape (n,) to whoever reads them, to save a pass over them.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not match, labels out of range, negative weights, NaN (with "raise", in y or the
        weights; that of p is found where its values are read), or no row left.
    """
    if isinstance(y, Rows):  # already read
        return y
    return _read(as_numbers(y), p, sample_weight, nan_policy, sum_tolerance, name, labels_later)


def read_probabilities(
    p: Any,
    sample_weight: Any = None,
    nan_policy: str = "raise",
    sum_tolerance: float | None = None,
    name: str = "p",
    weight_name: str = "sample_weight",
) -> Rows:
    """Return probabilities and weights without labels, checked as by `read`."""
    return _read(None, p, sample_weight, nan_policy, sum_tolerance, name, False, weight_name)


def _read(
    labels: NDArray[Any] | None,
    p: Any,
    sample_weight: Any,
    nan_policy: str,
    sum_tolerance: float | None,
    name: str,
    labels_later: bool,
    weight_name: str = "sample_weight",
) -> Rows:
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    size = 2 if "float16" in str(getattr(p, "dtype", "")) else 0  # float16 and torch's bfloat16
    p = as_array(p, name)
    classes = count_classes(p.shape, name)
    tolerance = SUM_TOLERANCES[size or p.dtype.itemsize]
    if sum_tolerance is not None:
        tolerance = check_positive(sum_tolerance, "sum_tolerance")
    if labels is not None:
        check_same_length(y=labels, **{name: p})
    if sample_weight is not None:
        sample_weight = weights_of_rows(sample_weight, weight_name, len(p))
    kept, blank = None, False
    if nan_policy != "raise":
        kept = _without_nan(p, labels, sample_weight)
        blank = kept is not None and not len(kept)
        if blank and nan_policy == "omit":
            raise ValueError(f"all {len(p)} rows hold NaN; at least one without is needed")
        if blank:
            kept, sample_weight = np.arange(len(p)), None
            labels = None if labels is None else kept % classes
            p = _stand_in(p)
        elif kept is not None:
            labels = None if labels is None else labels[kept]
            sample_weight = None if sample_weight is None else sample_weight[kept]
    count = len(p) if kept is None else len(kept)
    later = labels_later and p.ndim == 1 and labels is not None and labels.dtype == np.int64
    return Rows(
        p,
        labels if later or labels is None else as_labels(labels, classes, kept),
        as_weights(sample_weight, weight_name, count),
        kept,
        classes,
        tolerance,
        nan_policy == "propagate",
        name,
        later,
        blank,
    )


def count_classes(shape: tuple[int, ...], name: str) -> int:
    """Return the classes of probabilities of a shape, (n, C) or (n,)."""
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


def as_numbers(y: Any) -> NDArray[Any]:
    """Return y (n,) as integers or booleans without a copy, or as float64."""
    if is_cupy(y):  # NumPy does not take its arrays by itself
        y = y.get()
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    array = np.asarray(y) if kind in ("i", "u", "b") and not np.ma.isMaskedArray(y) else None
    if array is None or array.dtype.kind not in "iub":
        try:
            array = as_array(y, "y")
        except TypeError as error:
            raise TypeError(
                f"{error}: labels from 0 to C - 1, as of numpy.unique(y, return_inverse=True)"
            ) from None
    if array.ndim != 1:
        raise ValueError(f"y has shape {array.shape}; (n,) is needed: a label a row")
    return array


def as_labels(y: NDArray[Any], classes: int, kept: NDArray[np.intp] | None) -> NDArray[np.int64]:
    """Return numbers (n,) as labels, checked."""
    if y.dtype == np.bool_:
        if classes > 2:
            raise ValueError(f"y is boolean; labels from 0 to {classes - 1} are needed")
        return y.astype(np.int64)
    labels = y
    if y.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            labels = y.astype(np.int64)
        bad = labels != y
    if y.dtype.kind != "f" or not bad.any():
        if labels.dtype == np.int64:
            fits = bool(labels.view(np.uint64).max() < classes)  # negative ones are the largest
        else:
            fits = bool(labels.min() >= 0 and labels.max() < classes)
        if fits:
            return labels.astype(np.int64, copy=False)
        bad = (labels < 0) | (labels >= classes)
    _refuse_label(y, int(np.flatnonzero(bad)[0]), classes, kept)


def _refuse_label(
    y: NDArray[Any], first: int, classes: int, kept: NDArray[np.intp] | None
) -> NoReturn:
    row = first if kept is None else int(kept[first])
    raise ValueError(
        f"y[{row}] is {y[first]}; integers from 0 to {classes - 1} are needed ({classes} classes in p)"
    )


def _without_nan(
    p: Array, labels: NDArray[Any] | None, weights: Array | None
) -> NDArray[np.intp] | None:
    """Return which rows hold no NaN, or None if none does."""
    bad = np.zeros(len(p), dtype=bool)
    columns = 1 if p.ndim == 1 else p.shape[1]

    def mark(rows: slice) -> None:
        found = np.isnan(p[rows])
        bad[rows] = found if p.ndim == 1 else found.any(axis=1)

    over_rows(mark, len(p), max(1, _BLOCK // columns))
    for values in (labels, weights):
        if values is not None:
            bad |= np.isnan(values)
    return np.flatnonzero(~bad) if bad.any() else None


def _stand_in(p: Array) -> Array:
    """Return probabilities of the shape and type of p: each class in turn is the likeliest."""
    turn = np.arange(len(p))
    if p.ndim == 1:
        return (0.25 + 0.5 * (turn % 2)).astype(p.dtype)
    found = np.full(p.shape, 0.5 / p.shape[1], dtype=p.dtype)
    found[turn, turn % p.shape[1]] += 0.5
    return found
