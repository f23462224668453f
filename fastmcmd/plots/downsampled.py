"""Pictures of the CCE from subsamples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastmcmd._base.annotations import InputsLike
from fastmcmd._base.checks import as_rows, check_instance, check_same_length
from fastmcmd.plots.projection import line
from fastmcmd.plots.style import COLOURS, axes, finish
from fastmcmd.plots.values import bins_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.downsampling import DownsampledResult

__all__ = ["downsampled_cce"]


def downsampled_cce(
    result: DownsampledResult,
    x: InputsLike | None = None,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Draw the CCE of subsamples with the spread over repeats as a band of one std each way.

    Parameters
    ----------
    result : DownsampledResult
        What is drawn. One repeat has no band.
    x : array_like (q,) or (q, d), optional
        The inputs scored: values and band are medians in 15 bins of equal count; of several columns
        the first principal component is drawn. Default: points in order of their CCE.
    ax : matplotlib axes, optional
        Where to draw.
    label : str, optional
        Name in the legend.
    colour : str
        Colour of line and band.

    Returns
    -------
    matplotlib axes
    """
    from fastmcmd.downsampling import DownsampledResult

    check_instance(result, "result", DownsampledResult, "what downsampled_cce returns")
    values, std = result.values, result.std
    if x is None:
        order = np.argsort(values)
        position, values, std = np.linspace(0, 100, len(order)), values[order], std[order]
        name, marker = "points in order of their CCE, %", ""
    else:
        rows = as_rows(x, "x")
        check_same_length(x=rows, values=values)
        position, name = line(rows)
        inside = bins_of(position)
        position, values, std = (
            np.array([np.median(part[rows]) for rows in inside]) for part in (position, values, std)
        )
        marker = "o"
    ax = axes(ax)
    if result.repeats > 1:
        ax.fill_between(
            position, np.maximum(values - std, 0), values + std, color=colour, alpha=0.2,
            linewidth=0, zorder=2,
        )  # fmt: skip
    ax.plot(position, values, "-", marker=marker, markersize=3.5, color=colour, label=label)
    ax.set(xlabel=name, ylabel="CCE")
    ax.set_ylim(bottom=0, auto=None)
    return finish(ax, label)
