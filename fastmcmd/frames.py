"""Row labels: read from data frames and labelled arrays, and attached to per-row values.

Only this module handles pandas and xarray as containers; it imports them only when their objects occur.
`fastmcmd._base.checks.as_array` reads the values of pandas, polars and xarray objects.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.checks import quote
from fastmcmd.errors import require

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = [
    "RowLabels",
    "check_row_order",
    "column_names",
    "input_names",
    "row_labels",
    "to_frame",
    "to_xarray",
]


_DIM = "row"  # name of the rows in xarray if they had none
_FEW = 20  # labels that are compared first


@dataclass(frozen=True, eq=False)
class RowLabels:
    """Labels of the rows of an object.

    Attributes
    ----------
    index : pandas.Index or None
        Labels of the rows, if there are any.
    dim : str
        Name of the row dimension, for xarray.
    coords : dict
        Coordinates along that dimension and scalar coordinates, for xarray.
    """

    index: Any = None
    dim: Any = _DIM
    coords: Mapping[Any, Any] = field(default_factory=dict)


def column_names(value: object) -> tuple[str, ...]:
    """Return the column names of a pandas or polars data frame; an empty tuple for other objects."""
    names = getattr(value, "columns", None)
    if names is None or isinstance(names, str) or not hasattr(value, "dtypes"):
        return ()
    return tuple(str(name) for name in names)


def input_names(x: object) -> tuple[str, ...]:
    """Return the names of inputs: those of the columns of a data frame, or the name of a series, if any."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if any(one is not None and isinstance(x, one.Series) for one in (pandas, polars)):
        name = x.name  # type: ignore[attr-defined]
        return () if name is None or name == "" else (str(name),)
    return column_names(x)


def row_labels(value: object) -> RowLabels | None:
    """Return the row labels of a pandas or xarray object, or None for other objects.

    Parameters
    ----------
    value : object
        A pandas Series, DataFrame or Index (which are labels themselves), or an xarray DataArray whose
        first dimension is that of rows. Lists, arrays, tensors and polars columns have no labels.

    Examples
    --------
    >>> import pytest
    >>> pandas = pytest.importorskip("pandas")
    >>> from fastmcmd.frames import row_labels
    >>> row_labels(pandas.Series([1.0, 2.0], index=["a", "b"])).index.tolist()
    ['a', 'b']
    >>> row_labels([1.0, 2.0]) is None
    True
    """
    pandas, xarray = sys.modules.get("pandas"), sys.modules.get("xarray")
    if pandas is not None:
        if isinstance(value, (pandas.Series, pandas.DataFrame)):
            return RowLabels(value.index)
        if isinstance(value, pandas.Index):
            return RowLabels(value)
    if xarray is not None and isinstance(value, xarray.DataArray) and value.ndim:
        dim = value.dims[0]
        coords = {name: one for name, one in value.coords.items() if set(one.dims) <= {dim}}
        return RowLabels(value.indexes.get(dim), dim, coords)
    return None


def check_row_order(**arguments: object) -> None:
    """Raise an error if two arguments have the same row labels in another order.

    Rows are matched by position. Row labels are those of pandas and xarray objects, also inside tuples and
    dicts; the labels 0, 1, ... that pandas gives by default are none, and neither are labels that repeat.

    Raises
    ------
    ValueError
        The labels of one argument are those of another in another order.
    """
    if "pandas" not in sys.modules:
        return
    labelled: list[tuple[str, pd.Index]] = []
    for name, value in arguments.items():
        for part in _parts(value):
            index = _own_labels(part)
            if index is None or any(index is labels for _, labels in labelled):
                continue
            for other, labels in labelled:
                row = _first_in_other_order(labels, index)
                if row is not None:
                    names, advice = f"{other} and {name}", f"{name} with .loc[{other}.index]"
                    if other == name:
                        names, advice = f"parts of {name}", "them alike"
                    (one_label,), (other_label,) = labels[[row]].tolist(), index[[row]].tolist()
                    raise ValueError(
                        f"{names} have the same row labels in another order (row {row}: "
                        f"{quote(one_label)} and {quote(other_label)}), and rows are matched by position; "
                        f"reorder {advice}"
                    )
            labelled.append((name, index))


def _parts(value: object) -> tuple[object, ...]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    return value if isinstance(value, tuple) else (value,)


def _own_labels(value: object) -> pd.Index | None:
    """Return the row labels; None without, or if they are the default ones, the numbers of the rows."""
    pandas = sys.modules["pandas"]
    labels = None if isinstance(value, pandas.Index) else row_labels(value)  # an Index holds values
    index: pd.Index | None = None if labels is None else labels.index
    if isinstance(index, pandas.RangeIndex) and (index.start, index.step) == (0, 1):
        return None
    return index


def _first_in_other_order(one: pd.Index, other: pd.Index) -> int | None:
    """Return the first row whose labels differ, if the same labels have another order; else None."""
    if len(one) != len(other) or one.equals(other):
        return None
    try:
        if not (one.is_unique and other.is_unique):
            return None
        if (other.get_indexer(one[:_FEW]) < 0).any():  # quick for other labels
            return None
        places = other.get_indexer(one)
    except Exception:  # labels that pandas cannot match, such as tuples and text, are not the same
        return None
    is_elsewhere = places != np.arange(len(one))
    if (places < 0).any() or not is_elsewhere.any():
        return None
    return int(np.argmax(is_elsewhere))


def to_frame(columns: Mapping[str, Array], labels: object = None) -> pd.DataFrame:
    """Return per-row values as a pandas frame with the row labels as its index.

    Parameters
    ----------
    columns : dict of ndarray (n,)
        Values by name.
    labels : RowLabels, pandas or xarray object, or array_like (n,), optional
        Row labels, or an object that has them. Default: 0 to n - 1.

    Raises
    ------
    MissingDependencyError
        If pandas is not installed.
    ValueError
        If the numbers of labels and rows differ.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("pandas")
    >>> import numpy as np
    >>> from fastmcmd.frames import to_frame
    >>> to_frame({"cce": np.array([0.5, 0.25])}, ["a", "b"])["cce"].to_dict()
    {'a': 0.5, 'b': 0.25}
    """
    without = "the values by row are arrays without it"
    pd = require("pandas", f"a frame needs pandas: pip install 'fastmcmd[frame]'; {without}")
    index_labels = labels if isinstance(labels, RowLabels) else row_labels(labels)
    index = None
    if index_labels is None and labels is not None:
        try:
            values = np.asarray(labels)
        except Exception as error:  # __array__ of other libraries may raise anything
            raise TypeError(f"index cannot be made an array: {error}") from None
        if values.ndim != 1:
            raise TypeError(f"index is {quote(labels)}; labels (n,) are needed: one per row")
        try:
            index = pd.Index(values)
        except Exception as error:  # pandas has no index of this type
            raise TypeError(f"index cannot be one of pandas: {error}") from None
    index = index_labels.index if index_labels is not None else index
    _check_length(columns, index)
    return pd.DataFrame(dict(columns), index=index)


def to_xarray(columns: Mapping[str, Array], labels: RowLabels | None = None) -> xr.Dataset:
    """Return per-row values as an xarray Dataset with the coordinates of the rows.

    Parameters
    ----------
    columns : dict of ndarray (n,)
        Values by name.
    labels : RowLabels, optional
        Row labels. Without coordinates, their index becomes one, along the dimension ``"row"``.

    Raises
    ------
    MissingDependencyError
        If xarray is not installed.
    ValueError
        If the numbers of labels and rows differ.

    Examples
    --------
    >>> import pytest
    >>> xarray = pytest.importorskip("xarray")
    >>> import numpy as np
    >>> from fastmcmd.frames import row_labels, to_xarray
    >>> y = xarray.DataArray([1.0, 2.0], dims="time", coords={"time": [10, 20]})
    >>> float(to_xarray({"crps": np.array([0.5, 0.25])}, row_labels(y))["crps"].sel(time=20))
    0.25
    """
    without = "the values by row are arrays without it"
    xr = require("xarray", f"a Dataset needs xarray: pip install xarray; {without}")
    labels = RowLabels() if labels is None else labels
    _check_length(columns, labels.index)
    coords = dict(labels.coords)
    if not coords and labels.index is not None:
        coords = dict(xr.DataArray(np.empty(len(labels.index)), {labels.dim: labels.index}).coords)
    clash = sorted(str(name) for name in columns if name in coords or name == labels.dim)
    if clash:
        raise ValueError(
            f"rows have coordinates {', '.join(clash)}, as values by row are called; rename them in y"
        )
    return xr.Dataset({name: (labels.dim, one) for name, one in columns.items()}, coords)


def _check_length(columns: Mapping[str, Array], index: Any) -> None:
    for name, values in columns.items():
        if index is not None and len(values) != len(index):
            raise ValueError(
                f"index has {len(index)} labels of rows, and {name} has {len(values)} rows"
            )
