"""Plots of the conditional congruence error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import InputsLike
from fastmcmd._base.checks import as_array, as_float, as_rows, check_instance, check_same_length
from fastmcmd.plots.inputs import Inputs
from fastmcmd.plots.projection import Projection, line
from fastmcmd.plots.style import COLOURS, axes, finish
from fastmcmd.plots.values import bins_of, histogram, over_inputs, over_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.downsampling import DownsampledResult

__all__ = ["cce_histogram", "cce_over_inputs", "cce_projection", "downsampled_cce", "witness"]


def cce_over_inputs(
    x: InputsLike | Inputs,
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    points: int = 20_000,
    supported: ArrayLike | None = None,
) -> Axes:
    """Plot the CCE over one input: points, and the median with the middle 80 % in bins of equal count.

    Parameters
    ----------
    x, ax, label, colour, points, supported
        As in `over_inputs`; a natural choice of ``supported`` is ``result.effective_rows >= 5``.
    values : array_like (n,) or Result
        CCE at the inputs.

    Returns
    -------
    matplotlib axes
    """
    return over_inputs(x, values, ax, label, colour, points, "CCE", supported)


def cce_projection(
    x: InputsLike | Inputs,
    values: ArrayLike,
    ax: Axes | None = None,
    projection: Projection = "pca",
    supported: ArrayLike | None = None,
) -> Axes:
    """Plot the mean CCE over a plane of the inputs, in hexagons.

    Parameters
    ----------
    x, ax, projection, supported
        As in `over_plane`; inputs of two columns are not projected.
    values : array_like (n,) or Result
        CCE at the inputs.

    Returns
    -------
    matplotlib axes
    """
    return over_plane(x, values, ax, projection, "CCE", supported=supported)


def cce_histogram(
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    supported: ArrayLike | None = None,
) -> Axes:
    """Plot the distribution of CCE values, with a line at their mean.

    Parameters
    ----------
    values : array_like (n,) or Result
        CCE at n points.
    ax, label, colour, supported
        As in `histogram`.

    Returns
    -------
    matplotlib axes
    """
    return histogram(values, ax, label, colour, "CCE", supported)


def witness(
    y: ArrayLike,
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    outcome: float | None = None,
) -> Axes:
    """Plot the witness h(x, y) at one input over outputs.

    Parameters
    ----------
    y : array_like (g,)
        Outputs.
    values : array_like (g,)
        ``ConditionalCongruence.witness`` at one input.
    ax, label, colour
        As in `histogram`.
    outcome : float, optional
        The outcome at this input, shown as a mark on the line at 0.

    Returns
    -------
    matplotlib axes
    """
    outputs = as_rows(y, "y", columns=1)[:, 0]
    h = as_rows(as_array(values, "values").ravel(), "values")[:, 0]
    outcome = None if outcome is None else as_float(outcome, "outcome")
    check_same_length(y=outputs, values=h)
    ax = axes(ax)
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.plot(outputs, h, color=colour, linewidth=1.8, label=label)
    if outcome is not None:
        ax.plot([outcome], [0], "D", color="0.4", markersize=6, zorder=2)
    ax.set(xlabel="y", ylabel="witness h(x, y)")
    ax.margins(y=0.16)  # space for the meaning of the signs
    if not ax.texts:
        style: dict[str, Any] = {"ha": "right", "fontsize": "small", "color": "0.4"}
        style["transform"] = ax.transAxes
        ax.text(0.98, 0.98, "above 0: the model puts too little mass", va="top", **style)
        ax.text(0.98, 0.02, "below 0: too much", va="bottom", **style)
    return finish(ax, label)


def downsampled_cce(
    result: DownsampledResult,
    x: InputsLike | None = None,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot the CCE of subsamples, with a band of one standard deviation over repeats on either side.

    Parameters
    ----------
    result : DownsampledResult
        The result to plot. A single repeat has no band.
    x : array_like (q,) or (q, d), optional
        The evaluated inputs. Values and band are medians in 15 bins of equal count; for several columns,
        over the first principal component. Default: points in order of their CCE.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
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
