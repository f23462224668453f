"""Pictures of the conditional congruence error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from fastmcmd._base.annotations import InputsLike
from fastmcmd._base.checks import as_array, as_float, as_rows, check_same_length
from fastmcmd.plots.inputs import Inputs
from fastmcmd.plots.projection import Projection
from fastmcmd.plots.style import COLOURS, axes, finish
from fastmcmd.plots.values import histogram, over_inputs, over_plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cce_histogram", "cce_over_inputs", "cce_projection", "witness"]


def cce_over_inputs(
    x: InputsLike | Inputs,
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    points: int = 20_000,
) -> Axes:
    """Draw CCE over one input: points, and the median with the middle 80 % in bins of equal count.

    Parameters
    ----------
    x, ax, label, colour, points
        As in `over_inputs`.
    values : array_like (n,) or Result
        CCE at the inputs.

    Returns
    -------
    matplotlib axes
    """
    return over_inputs(x, values, ax, label, colour, points, "CCE")


def cce_projection(
    x: InputsLike | Inputs,
    values: ArrayLike,
    ax: Axes | None = None,
    projection: Projection = "pca",
) -> Axes:
    """Draw the mean CCE over a plane of the inputs, in hexagons.

    Parameters
    ----------
    x, ax, projection
        As in `over_plane`; two columns themselves are drawn.
    values : array_like (n,) or Result
        CCE at the inputs.

    Returns
    -------
    matplotlib axes
    """
    return over_plane(x, values, ax, projection, "CCE")


def cce_histogram(
    values: ArrayLike, ax: Axes | None = None, label: str | None = None, colour: str = COLOURS[0]
) -> Axes:
    """Draw the distribution of CCE values, with a line at their mean.

    Parameters
    ----------
    values : array_like (n,) or Result
        CCE at n points.
    ax, label, colour
        As in `histogram`.

    Returns
    -------
    matplotlib axes
    """
    return histogram(values, ax, label, colour, "CCE")


def witness(
    y: ArrayLike,
    values: ArrayLike,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    outcome: float | None = None,
) -> Axes:
    """Draw the witness h(x, y) at one input over outputs.

    Parameters
    ----------
    y : array_like (g,)
        Outputs.
    values : array_like (g,)
        ``ConditionalCongruence.witness`` at one input.
    ax, label, colour
        As in `histogram`.
    outcome : float, optional
        What came at this input: a mark on the line at 0.

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
