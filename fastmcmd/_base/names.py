"""Outcomes that are text: the names of classes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, HostArray
from fastmcmd._base.checks import is_cupy

__all__ = ["as_names", "is_number", "name_list", "numbers_of_labels", "places_of_names"]

_MOST_NAMES = 5  # names in a message


def as_names(y: AnyArray) -> NDArray[np.object_] | None:
    """Return y (n,) as text with None for missing labels; None if its labels are not text."""
    kind = getattr(getattr(y, "dtype", None), "kind", "O")
    if kind not in ("O", "U", "S") or hasattr(y, "detach") or is_cupy(y):
        return None
    try:
        labels = np.asarray(y)
    except Exception:  # may raise anything; `as_numbers` reports it
        return None
    if labels.ndim != 1 or labels.dtype.kind not in "OUS":
        return None
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    names = labels.astype(object)
    is_text = np.fromiter((isinstance(one, str) for one in names), dtype=bool, count=len(names))
    if not is_text.any():
        return None
    missing = np.fromiter((_is_missing(one) for one in names), dtype=bool, count=len(names))
    mixed = np.flatnonzero(~is_text & ~missing)
    if len(mixed):
        raise TypeError(
            f"y[{mixed[0]}] is {names[mixed[0]]!r} and other labels are text; all must be text, or all "
            "numbers"
        )
    names[missing] = None
    return names


def _is_missing(label: object) -> bool:
    """Tell whether an object is None, NaN, or the missing value of pandas."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, (float, np.floating)) and label != label


def places_of_names(names: NDArray[np.object_], order: Mapping[str, int]) -> HostArray:
    """Return the index of each name (n,): integers, or float64 with NaN for missing names."""
    places = np.array([np.nan if one is None else order[one] for one in names], dtype=np.float64)
    return places if np.isnan(places).any() else places.astype(np.int64)


def numbers_of_labels(y: AnyArray) -> HostArray | None:
    """Return the index of each label (n,) among the sorted names; None if labels are not text."""
    names = as_names(y)
    if names is None:
        return None
    numbers = next((one for one in names if one is not None and is_number(one)), None)
    if numbers is not None:
        raise ValueError(f"y holds numbers as text, such as {numbers!r}; convert it to numbers")
    order = {one: place for place, one in enumerate(sorted(set(filter(None, names))))}
    return places_of_names(names, order)


def is_number(label: str) -> bool:
    """Tell whether text is that of a number."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def name_list(names: tuple[str, ...] | list[str]) -> str:
    """Return names for a message, the first few if there are many."""
    text = ", ".join(repr(one) for one in names[:_MOST_NAMES])
    return text if len(names) <= _MOST_NAMES else f"{text}, ..."
