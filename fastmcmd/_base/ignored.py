"""``ignore_index``: the label of rows that metrics of classes leave out."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import quote

__all__ = ["AllIgnoredError", "IgnoreIndex", "check_ignore_index", "ignored_labels"]

IgnoreIndex = int | str | None
_LARGEST = 1 << 63


class AllIgnoredError(ValueError):
    """All rows have the label that ``ignore_index`` leaves out."""

    def __init__(self, ignore_index: IgnoreIndex, n: int) -> None:
        super().__init__(
            f"all {n} labels are {ignore_index!r}, which ignore_index leaves out; at least one other is "
            "needed"
        )


def check_ignore_index(ignore_index: object) -> IgnoreIndex:
    """Return ``ignore_index`` as an integer, text or None.

    Raises
    ------
    TypeError
        If it is anything else.
    ValueError
        An integer of more than 64 bits, which no label equals.
    """
    if ignore_index is None or isinstance(ignore_index, str):
        return ignore_index
    if isinstance(ignore_index, (int, np.integer)) and not isinstance(ignore_index, bool):
        if not -_LARGEST <= int(ignore_index) < _LARGEST:
            raise ValueError(f"ignore_index is {quote(ignore_index)}; a 64-bit integer is needed")
        return int(ignore_index)
    raise TypeError(
        f"ignore_index is {quote(ignore_index)}; an integer, or the name of a class as text, is needed"
    )


def ignored_labels(labels: AnyArray, ignore_index: IgnoreIndex, text: bool) -> AnyArray:
    """Return a mask (n,) of the labels that equal ``ignore_index``; None if that is None.

    Parameters
    ----------
    labels : array (n,)
        Names or numbers, perhaps on a device.
    ignore_index : int, str or None
        The label of rows to leave out.
    text : bool
        Whether labels are names.

    Raises
    ------
    TypeError
        If ``ignore_index`` is neither text nor an integer, or text for labels that are numbers, or a number
        for names.
    """
    ignore_index = check_ignore_index(ignore_index)
    if ignore_index is None:
        return None
    if isinstance(ignore_index, str) != text:
        kind, expected = ("text", "a name") if text else ("numbers", "an integer")
        raise TypeError(
            f"ignore_index is {ignore_index!r} and y holds {kind}; {expected} is needed"
        )
    return labels == ignore_index
