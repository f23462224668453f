"""Labels of a classification: numbers from 0 to C - 1, or names of classes."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, HostArray
from fastmcmd._base.checks import as_array, is_cupy
from fastmcmd._base.names import is_number, name_list, places_of_names
from fastmcmd.errors import RowError
from fastmcmd.frames import column_names

__all__ = ["as_labels", "as_numbers", "numbers_of_columns", "numbers_of_names", "refuse_label"]


def as_numbers(y: AnyArray) -> HostArray:
    """Return y (n,) as integers or booleans without a copy, or as float64."""
    if is_cupy(y):  # NumPy does not convert CuPy arrays implicitly
        y = y.get()
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    array = np.asarray(y) if kind in ("i", "u", "b") and not np.ma.isMaskedArray(y) else None
    if array is None or array.dtype.kind not in "iub":
        try:
            array = as_array(y, "y")
        except TypeError as error:
            raise TypeError(
                f"{error}: integers from 0 to C - 1, or the names of the classes as text"
            ) from None
    if array.ndim != 1:
        raise ValueError(f"y has shape {array.shape}; (n,) is needed: one label per row")
    return array


def numbers_of_names(names: NDArray[np.object_], p: AnyArray, classes: int, name: str) -> HostArray:
    """Return the class of each label (n,) as integers, or as float64 with NaN for missing labels.

    The columns of a data frame ``p`` name the classes. The columns of an array stand for the sorted names,
    as in scikit-learn; each name must then occur, so that columns are not confused.

    Raises
    ------
    ValueError
        If a label names no column, if there are not as many different labels as classes, or if labels are
        numbers as text, which sort differently as text.
    """
    present_names = names[[one is not None for one in names]]
    occurring = sorted(set(present_names.tolist()))
    columns = column_names(p)
    if columns == tuple(str(place) for place in range(classes)) and not set(occurring) & set(
        columns
    ):
        columns = ()  # default column numbers of pandas
    if classes == len(columns) and set(occurring) <= set(columns):
        order = {column: place for place, column in enumerate(columns)}
    elif columns and len(columns) == classes:
        unknown = next(one for one in occurring if one not in columns)
        row = int(np.flatnonzero(names == unknown)[0])
        raise RowError(
            f"y[{row}] is {unknown!r}, which is no column of {name}; its columns are {name_list(columns)}",
            row,
        )
    else:
        otherwise = (
            f"give {name} as a data frame whose columns are the classes, or y as integers from 0 to "
            f"{classes - 1}"
        )
        if any(is_number(one) for one in occurring):
            example = next(filter(is_number, occurring))
            raise ValueError(f"y holds numbers as text, such as {example!r}; {otherwise}")
        if len(occurring) != classes:
            raise ValueError(
                f"y holds {len(occurring)} different labels ({name_list(occurring)}) and {name} has "
                f"{classes} classes; {otherwise}"
            )
        order = {label: place for place, label in enumerate(occurring)}
    return places_of_names(names, order)


def numbers_of_columns(labels: HostArray, p: AnyArray, classes: int, name: str) -> HostArray:
    """Return the class of each label (n,) if the columns of a data frame ``p`` are other numbers.

    Such columns name the classes, as texts do. Otherwise, labels are returned as they are.

    Raises
    ------
    ValueError
        If a label is no column.
    """
    columns = column_names(p)
    if labels.dtype == np.bool_ or len(columns) != classes or not all(map(is_number, columns)):
        return labels
    values = np.array([float(one) for one in columns])
    if np.array_equal(values, np.arange(classes)) or len(np.unique(values)) < classes:
        return labels
    order = np.argsort(values)
    places = order[np.searchsorted(values, labels, sorter=order).clip(max=classes - 1)]
    missing = np.isnan(labels)
    unknown = np.flatnonzero((values[places] != labels) & ~missing)
    if len(unknown):
        row = int(unknown[0])
        raise RowError(
            f"y[{row}] is {labels[row]:g}, which is no column of {name}; its columns are "
            f"{name_list(columns)}",
            row,
        )
    return np.where(missing, np.nan, places) if missing.any() else places


def as_labels(y: HostArray, classes: int, valid: NDArray[np.intp] | None) -> NDArray[np.int64]:
    """Return numbers (n,) as checked labels."""
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
            fits = bool(labels.view(np.uint64).max() < classes)  # negative ones become largest
        else:
            fits = bool(labels.min() >= 0 and labels.max() < classes)
        if fits:
            return labels.astype(np.int64, copy=False)
        bad = (labels < 0) | (labels >= classes)
    refuse_label(y, int(np.flatnonzero(bad)[0]), classes, valid)


def refuse_label(
    y: HostArray, first: int, classes: int, valid: NDArray[np.intp] | None
) -> NoReturn:
    """Raise an error that names the first label that is not a class."""
    row = first if valid is None else int(valid[first])
    if y[first] != y[first]:
        raise RowError(
            f'y[{row}] is nan, a missing label; nan_policy="omit" leaves such rows out', row
        )
    raise RowError(
        f"y[{row}] is {y[first]}; integers from 0 to {classes - 1} are needed ({classes} classes in p)",
        row,
    )
