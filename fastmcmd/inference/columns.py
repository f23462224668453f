"""Columns that describe rows, as numbers: a text column of few labels becomes indicator columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import as_array, as_rows, quote, refuse_masked

__all__ = ["MOST_LABELS", "numbers_of_columns", "rows_of_columns"]

Array = NDArray[np.float64]

MOST_LABELS = 20  # largest number of labels of a text column; each becomes an indicator column
_EMPTY = "''"  # how an empty label is shown


def numbers_of_columns(
    columns: Any, reference_names: tuple[str, ...] | None = None
) -> tuple[Array, tuple[str, ...]]:
    """Return the columns as numbers (n, c) and their names; text becomes indicator columns."""
    if hasattr(columns, "columns") and not isinstance(columns, Mapping):  # a data frame
        column_names = [str(name) for name in columns.columns]
        if len(set(column_names)) < len(column_names):
            twice = next(name for name in column_names if column_names.count(name) > 1)
            raise ValueError(f"columns has more than one column named {twice!r}; rename them")
        columns = {str(name): columns[name] for name in columns.columns}
    if not isinstance(columns, Mapping):
        rows = as_rows(columns, "columns")
        columns = {f"column {place}": rows[:, place] for place in range(rows.shape[1])}
    if not columns:
        raise ValueError("columns is empty; at least one column is needed")
    indicators: dict[str, Array] = {}
    for name, values in columns.items():
        refuse_masked(values, f"columns[{name!r}]")
        plain = np.asarray(values)
        if plain.dtype.kind in "OUS":
            labels = plain.astype(str)
            distinct = np.unique(labels)
            if reference_names is not None:
                prefix = f"{name} is "
                labels_in_order = [
                    k.removeprefix(prefix) for k in reference_names if k.startswith(prefix)
                ]
                distinct = np.array(["" if label == _EMPTY else label for label in labels_in_order])
            if len(distinct) > MOST_LABELS:
                raise ValueError(
                    f"columns[{name!r}] has {len(distinct)} labels; at most {MOST_LABELS} are taken"
                )
            # With two labels one column is enough.
            for label in distinct[:1] if len(distinct) == 2 else distinct:
                _add(
                    indicators, f"{name} is {label or _EMPTY}", (labels == label).astype(np.float64)
                )
        else:
            title = f"columns[{name!r}]"
            number = as_rows(as_array(values, title), title, columns=1)[:, 0]
            _add(indicators, str(name), number.astype(np.float64))
    lengths = {len(one) for one in indicators.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns have {quote(sorted(lengths))} rows; the same number is needed")
    return np.stack(list(indicators.values()), axis=1), tuple(indicators)


def _add(columns: dict[str, Array], name: str, values: Array) -> None:
    if name in columns:
        raise ValueError(f"columns has more than one column named {name!r}; rename them")
    columns[name] = values


def rows_of_columns(columns: Any, rows: NDArray[np.intp], n: int) -> Any:
    """Return some rows of columns that have n rows; other columns unchanged."""
    if hasattr(columns, "columns") and not isinstance(columns, Mapping):  # a data frame
        return columns.iloc[rows] if hasattr(columns, "iloc") and len(columns) == n else columns
    if isinstance(columns, Mapping):
        plain = {name: np.asarray(values) for name, values in columns.items()}
        return {name: v[rows] if v.ndim and len(v) == n else v for name, v in plain.items()}
    values = np.asarray(columns)
    return values[rows] if values.ndim and len(values) == n else columns
