"""Pictures of the conditional congruence error."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.checks import as_rows, check_same_length
from fastmcmd.plots.style import COLOURS, axes, tidy

__all__ = ["cce_histogram", "cce_over_inputs", "cce_projection", "principal", "witness"]

_BINS = 15
_CELLS = 40  # hexagons across


def cce_over_inputs(
    x: Any,
    values: Any,
    ax: Any = None,
    label: str | None = None,
    colour: str = COLOURS[0],
    points: int = 20_000,
) -> Any:
    """Draw CCE over one input: points, and the median with the middle 80 % in bins of equal count.

    Parameters
    ----------
    x : array_like (n,) or (n, d)
        Inputs; of several columns the first principal component is drawn.
    values : array_like (n,) or Result
        CCE at the inputs.
    ax : matplotlib axes, optional
        Where to draw.
    label : str, optional
        Name in the legend.
    colour : str
        Colour of points, line and band.
    points : int
        Points drawn at most; of more, some are taken evenly.

    Returns
    -------
    matplotlib axes
    """
    rows = as_rows(x, "x").astype(np.float64)
    cce = as_rows(values, "values", columns=1)[:, 0]
    check_same_length(x=rows, values=cce)
    ax = axes(ax)
    if rows.shape[1] == 1:
        position, name = rows[:, 0], "x"
    else:
        position, name = principal(rows, 1)[:, 0], "first principal component of x"
    shown = np.linspace(0, len(cce) - 1, min(len(cce), points)).astype(int)
    ax.plot(position[shown], cce[shown], ".", color=colour, alpha=0.15, markersize=3, zorder=1)
    centres, low, middle, high = _binned(position, cce)
    ax.fill_between(centres, low, high, color=colour, alpha=0.2, linewidth=0, zorder=2)
    ax.plot(centres, middle, "-o", color=colour, markersize=3.5, label=label, zorder=3)
    ax.set(xlabel=name, ylabel="CCE")
    ax.set_ylim(bottom=0, auto=None)
    if label:
        ax.legend(frameon=False)
    tidy(ax)
    return ax


def _binned(position: Any, cce: Any) -> tuple[Any, Any, Any, Any]:
    """Return centres and 10, 50, 90 % quantiles in bins of about equal count."""
    edges = np.unique(np.quantile(position, np.linspace(0, 1, _BINS + 1)))
    which = np.clip(np.searchsorted(edges, position, side="right") - 1, 0, max(0, len(edges) - 2))
    found = []
    for index in range(max(1, len(edges) - 1)):
        inside = which == index
        if inside.any():
            quantiles = np.quantile(cce[inside], [0.1, 0.5, 0.9])
            found.append((np.median(position[inside]), *quantiles))
    centres, low, middle, high = np.array(found).T
    return centres, low, middle, high


def principal(rows: Any, count: int) -> Any:
    """Return the first principal components (n, count) of rows (n, d)."""
    centred = rows - rows.mean(axis=0)
    return centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]


def cce_projection(x: Any, values: Any, ax: Any = None) -> Any:
    """Draw the mean CCE over the first two principal components of the inputs, in hexagons.

    Parameters
    ----------
    x : array_like (n, d)
        Inputs of at least two columns; with two columns these themselves are drawn. A projection of your
        own, such as t-SNE or UMAP, is an (n, 2) array.
    values : array_like (n,) or Result
        CCE at the inputs.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes
    """
    rows = as_rows(x, "x").astype(np.float64)
    cce = as_rows(values, "values", columns=1)[:, 0]
    check_same_length(x=rows, values=cce)
    if rows.shape[1] < 2:
        raise ValueError("x has 1 column; at least two are needed: use cce_over_inputs")
    own = rows.shape[1] == 2
    place = rows if own else principal(rows, 2)
    ax = axes(ax)
    cells = ax.hexbin(*place.T, C=cce, gridsize=_CELLS, cmap="cividis", mincnt=1, linewidths=0.1)
    ax.figure.colorbar(cells, ax=ax, label="mean CCE")
    names = ("x, column 1", "x, column 2") if own else ("first principal component", "second")
    ax.set(xlabel=names[0], ylabel=names[1])
    tidy(ax)
    return ax


def cce_histogram(
    values: Any, ax: Any = None, label: str | None = None, colour: str = COLOURS[0]
) -> Any:
    """Draw the distribution of CCE values (n,), with a line at their mean; returns the axes."""
    cce = as_rows(values, "values", columns=1)[:, 0]
    ax = axes(ax)
    ax.hist(cce, bins="auto" if len(cce) < 5000 else 60, color=colour, alpha=0.35, label=label)
    ax.axvline(cce.mean(), color=colour, linewidth=1.5)
    ax.set(xlabel="CCE", ylabel="points")
    ax.set_xlim(left=0, auto=None)
    if label:
        ax.legend(frameon=False)
    tidy(ax)
    return ax


def witness(
    y: Any, values: Any, ax: Any = None, label: str | None = None, colour: str = COLOURS[0]
) -> Any:
    """Draw the witness h(x, y) at one input over outputs.

    Parameters
    ----------
    y : array_like (g,)
        Outputs.
    values : array_like (g,)
        ``ConditionalCongruence.witness`` at one input.
    ax, label, colour
        As in `cce_over_inputs`.

    Returns
    -------
    matplotlib axes
    """
    outputs = as_rows(y, "y", columns=1)[:, 0]
    h = as_rows(np.ravel(np.asarray(values)), "values")[:, 0]
    check_same_length(y=outputs, values=h)
    ax = axes(ax)
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.plot(outputs, h, color=colour, linewidth=1.8, label=label)
    ax.set(xlabel="y", ylabel="witness h(x, y)")
    ax.margins(y=0.16)  # room for what the signs mean
    if not ax.texts:
        style: dict[str, Any] = {"ha": "right", "fontsize": "small", "color": "0.4"}
        style["transform"] = ax.transAxes
        ax.text(0.98, 0.98, "above 0: the model puts too little mass", va="top", **style)
        ax.text(0.98, 0.02, "below 0: too much", va="bottom", **style)
    if label:
        ax.legend(frameon=False)
    tidy(ax)
    return ax
