"""Rows, style and files of the pictures of ``viz``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastmcmd._base.checks import check_count
from fastmcmd.plots.style import matplotlib

__all__ = ["filter_subset", "save_figure", "set_style", "update_rc"]

_STYLE = {
    "font.size": 12.0, "lines.linewidth": 2, "axes.axisbelow": True, "axes.titlesize": "medium",
    "axes.labelsize": "medium", "axes.grid": True, "grid.alpha": 0.3, "figure.figsize": (4.0, 4.0),
    "figure.dpi": 200, "legend.fontsize": "small",
}  # fmt: skip


def filter_subset(input_list: Sequence[object], n_subset: int) -> list[Any]:
    """Return the same random rows (``numpy.random``) of all arrays, in ascending order.

    Parameters
    ----------
    input_list : sequence of array_like (n, ...)
        Arrays of equal length.
    n_subset : int
        Number of rows.

    Examples
    --------
    >>> filter_subset([np.arange(3)], 3)[0].tolist()
    [0, 1, 2]
    """
    arrays = [np.asarray(one) for one in input_list]
    count = check_count(n_subset, "n_subset", most=len(arrays[0]))
    rows = np.sort(np.random.choice(range(len(arrays[0])), count, replace=False))  # noqa: NPY002
    return [array[rows] for array in arrays]


def set_style(style_str: str = "default") -> None:
    """Set matplotlib's parameters to the sizes of the original, without its need for LaTeX.

    Parameters
    ----------
    style_str : str
        "default"; any other text has no effect.
    """
    if style_str == "default":
        matplotlib().rcParams.update(_STYLE)


def save_figure(
    file_name: str = "figure",
    ext_list: list[str] | str | None = None,
    white_background: bool = True,
) -> None:
    """Save the current figure of matplotlib in several formats.

    Parameters
    ----------
    file_name : str
        Path without an extension.
    ext_list : str or list of str, optional
        Extensions. Default: "pdf" and "png".
    white_background : bool
        Whether the background is white, or transparent.
    """
    colour = "w" if white_background else "none"
    for extension in [ext_list] if isinstance(ext_list, str) else ext_list or ["pdf", "png"]:
        path = f"{file_name}.{extension}"
        matplotlib().savefig(path, bbox_inches="tight", facecolor=colour, edgecolor=colour)
        print(f"Saved figure {path}")


def update_rc(key_str: str, value: object) -> None:
    """Set one of matplotlib's parameters.

    Parameters
    ----------
    key_str : str
        Name of the parameter.
    value : object
        Its value.
    """
    matplotlib().rcParams.update({key_str: value})
