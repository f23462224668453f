"""Plot of the difference of two models' losses over the inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.checks import as_rows, check_instance, check_same_length
from fastmcmd.plots.projection import line
from fastmcmd.plots.style import COLOURS, axes, mark_bottom, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.inference.difference_map import DifferenceMap

__all__ = ["difference_map"]


def difference_map(
    difference: DifferenceMap, x: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the difference of two models' losses with its band, to show where each model is better.

    For one input it is a line; for several inputs, points along the first principal component. Colours mark
    inputs where one model is better beyond chance, by a band for all inputs simultaneously.

    Parameters
    ----------
    difference : DifferenceMap
        Result of `Comparison.map`.
    x : array_like (q,) or (q, d), optional
        Inputs for the horizontal axis. Default: the inputs of the map.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> import fastmcmd as fm
    >>> x = np.linspace(-1, 1, 200)
    >>> y = x + np.random.default_rng(0).normal(size=200)
    >>> models = {"line": fm.Gaussian(x, 1.0), "flat": fm.Gaussian(0 * x, 1.0)}
    >>> difference = fm.compare(models, y, x).map()
    >>> fm.plots.difference_map(difference).get_xlabel()
    'x'
    """
    from fastmcmd.inference.difference_map import DifferenceMap

    check_instance(difference, "difference", DifferenceMap, "what Comparison.map returns")
    rows = difference.x if x is None else as_rows(x, "x")
    check_same_length(x=rows, difference_map=difference)
    place, name = line(rows)
    ax = axes(ax)
    ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    has_support = difference.supported
    low, high = difference.band.T
    groups = ((0, "0.7"), (-1, COLOURS[0]), (1, COLOURS[1]))
    first, second = plain(difference.first), plain(difference.second)
    labels = {-1: f"{first} is better", 1: f"{second} is better", 0: None}
    if rows.shape[1] == 1:
        order = np.argsort(place, kind="stable")
        middle = np.where(has_support, difference.difference, np.nan)[order]
        for sign, colour in groups:
            where = has_support & (difference.better == sign)
            if where.any():
                ax.fill_between(place[order], low[order], high[order], where=where[order],
                                color=colour, alpha=0.35, linewidth=0, label=labels[sign])  # fmt: skip
                alone = np.flatnonzero(where)[_alone(place, where)]
                ax.vlines(
                    place[alone], low[alone], high[alone], color=colour, alpha=0.6, linewidth=2
                )
        ax.plot(place[order], middle, color="0.2", linewidth=1.5)
    else:
        for sign, colour in groups:
            where = has_support & (difference.better == sign)
            if where.any():
                ax.vlines(place[where], low[where], high[where], color=colour, linewidth=0.6)
                ax.plot(place[where], difference.difference[where], ".", color=colour, markersize=4,
                        label=labels[sign])  # fmt: skip
    if (~has_support).any():
        mark_bottom(ax, place[~has_support])
    has_name = rows.shape[1] == 1 and len(difference.column_names) == 1
    ax.set(
        xlabel=plain(difference.column_names[0]) if has_name and x is None else name,
        ylabel=f"{difference.measure}: {first}\nless {second}",
    )
    ax.set_title(
        f"p = {difference.p_value:.3g}, {difference.level:.0%} band for all inputs together",
        fontsize="medium",
    )
    if (difference.better != 0).any():
        ax.legend(frameon=False)
    tidy(ax)
    return ax


def _alone(place: Array, where: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return which of the marked inputs, one for each place, have unmarked inputs on both sides.

    An area between two inputs cannot show them.
    """
    places, of_input = np.unique(place, return_inverse=True)
    marked = np.zeros(len(places) + 2, dtype=bool)
    marked[1 + of_input[where]] = True
    alone = np.flatnonzero(marked[1:-1] & ~marked[:-2] & ~marked[2:])
    numbers, first = np.unique(of_input[where], return_index=True)
    return first[np.isin(numbers, alone)]
