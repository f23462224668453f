"""Colours and axes that all plots share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.checks import check_instance
from fastmcmd.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ADVICE",
    "COLOURS",
    "GREY",
    "axes",
    "check_axes",
    "finish",
    "mark_bottom",
    "matplotlib",
    "plain",
    "tidy",
]  # fmt: skip

# The palette of Okabe & Ito: distinct with any colour vision, and by lightness in greyscale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
ADVICE = "pictures need matplotlib: pip install 'fastmcmd[plot]'"
GREY = "0.6"  # of bands, diagonals and what has no support


def matplotlib(module: str = "pyplot") -> Any:
    """Return a module of matplotlib, or raise an error that says how to install it."""
    return require(f"matplotlib.{module}", ADVICE)


def axes(ax: Axes | None) -> Axes:
    """Return ``ax``, or new axes if it is None."""
    if ax is None:
        return matplotlib().subplots(figsize=(6, 4), layout="constrained")[1]
    check_axes(ax, "ax")
    return ax


def check_axes(ax: object, name: str) -> None:
    """Raise an error unless an argument is matplotlib axes."""
    check_instance(ax, name, matplotlib("axes").Axes, "axes of matplotlib, or None,")


def tidy(ax: Axes) -> None:
    """Remove parts of the axes that carry no information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)


def mark_bottom(ax: Axes, places: Array) -> None:
    """Draw grey marks at the bottom of the axes, whatever their limits become."""
    bottom = np.full(len(places), 0.02)
    ax.plot(places, bottom, "|", color="0.7", markersize=4, transform=ax.get_xaxis_transform())


def finish(
    ax: Axes, label: str | None = None, place: Literal["best", "upper left"] = "best"
) -> Axes:
    """Return the axes, tidied, with a legend if there is a label."""
    if label:
        ax.legend(frameon=False, loc=place)
    tidy(ax)
    return ax


def plain(name: str) -> str:
    """Return a name escaped for matplotlib: without mathematics, and not hidden from the legend."""
    escaped = name.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
