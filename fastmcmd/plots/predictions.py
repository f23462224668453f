"""Plots of predictions themselves: fans over time or an input, and intervals in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.checks import as_array, check_choice, check_count, quote
from fastmcmd.metrics.count_bands import check_level
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.quantile_scores import open_levels
from fastmcmd.plots.inputs import some
from fastmcmd.plots.style import COLOURS, axes, finish
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.base import PredictionLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["fan", "ordered_intervals"]

_WIDE = 20.0  # steps: a gap between inputs that is so much wider than usual is not bridged
_SHARE = 0.02  # of the range: nor is it narrower than this
_LINE = 2000  # inputs of a fan at most: several per pixel
_ALPHA = (0.42, 0.14)  # of the narrowest and the widest band
_INK = "0.2"


def fan(
    y: ArrayLike | None,
    prediction: PredictionLike,
    x: ArrayLike | None = None,
    ax: Axes | None = None,
    levels: ArrayLike = (0.5, 0.8, 0.95),
    label: str | None = None,
    colour: str = COLOURS[0],
    points: int = 2000,
) -> Axes:
    """Plot predicted medians and central intervals over time or one input, with the outcomes.

    Outcomes beyond the widest interval have another colour. Intervals are not drawn across gaps in x that
    are wide against the usual step.

    Parameters
    ----------
    y : array_like (n,) or None
        Observed outputs; None or NaN where there are none yet.
    prediction : Predictive, draws (n, m), (mean, std), scipy.stats or torch.distributions object
        Predicted distributions.
    x : array_like (n,), optional
        Times (``datetime64``) or values of an input, in any order. Default: the numbers of the rows.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    levels : float or array_like (j,)
        Probabilities of the central intervals.
    label : str, optional
        Label of the model. The legend always names the intervals and the outcomes.
    colour : str
        Colour of median and intervals.
    points : int
        Largest number of outcomes, drawn at random with a fixed seed.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> x = np.linspace(0, 6, 100)
    >>> ax = fm.plots.fan(np.sin(x), fm.Gaussian(np.sin(x), 0.1 + 0.1 * x), x)
    >>> [text.get_text() for text in ax.get_legend().get_texts()][:2]
    ['median', '50%']
    """
    points = check_count(points, "points", least=0)
    checked_levels = sorted(set(open_levels(levels, "levels").tolist()))
    place, name = _places(x)
    outcomes = None if y is None else as_array(y, "y").astype(np.float64)
    if outcomes is not None and outcomes.ndim != 1:
        raise ValueError(f"y has shape {outcomes.shape}; (n,) is needed")
    n = len(outcomes) if outcomes is not None else _rows(prediction, place)
    place = np.arange(n) if place is None else place
    predicted = as_predictive(prediction, n)
    for axis_name, values in (("x", place), ("y", outcomes)):
        if values is not None and values.shape != (n,):
            raise ValueError(f"{axis_name} has shape {values.shape}; ({n},) is needed")
    ax = axes(ax)
    order = np.argsort(place, kind="stable")
    rows = order[np.unique(np.linspace(0, n - 1, min(n, _LINE)).round().astype(np.intp))]
    sides = np.array([[(1 - one) / 2, (1 + one) / 2] for one in checked_levels])
    bands = predicted.take(rows).quantile(np.concatenate([[0.5], sides.ravel()]))
    at, bands = _with_gaps(place[rows], bands)
    ax.plot(at, bands[:, 0], color=colour, linewidth=1.6, label=label or "median", zorder=2)
    for alpha, one, pair in zip(
        np.linspace(*_ALPHA, len(checked_levels)), checked_levels,
        bands[:, 1:].reshape(len(bands), -1, 2).swapaxes(0, 1), strict=True,
    ):  # fmt: skip
        ax.fill_between(at, *pair.T, color=colour, alpha=alpha, linewidth=0, zorder=0.9 - one,
                        label=f"{100 * one:g}%")  # fmt: skip
    if outcomes is not None and points:
        finite_rows = np.flatnonzero(np.isfinite(outcomes))
        shown_rows = finite_rows[some(len(finite_rows), points)]
        ends = predicted.take(shown_rows).quantile(sides[-1])
        points_y = outcomes[shown_rows]
        inside = (ends[:, 0] <= points_y) & (points_y <= ends[:, 1])
        size = 4.5 if len(shown_rows) <= 300 else 2.5
        beyond = f"outcomes beyond {100 * checked_levels[-1]:g}%"
        for part, tint, legend_label in ((inside, _INK, "outcomes"), (~inside, COLOURS[1], beyond)):
            if part.any():
                ax.plot(place[shown_rows][part], points_y[part], ".", color=tint, label=legend_label,
                        markersize=size if tint == _INK else size + 3, zorder=3)  # fmt: skip
    ax.set(xlabel=name, ylabel="y")
    if np.asarray(place).dtype.kind == "M":
        from matplotlib import dates

        tools: Any = dates  # without annotations
        locator = tools.AutoDateLocator()
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(tools.ConciseDateFormatter(locator))
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize="small",
              borderaxespad=0.1, columnspacing=1.2)  # fmt: skip
    return finish(ax)


def _places(x: object) -> tuple[HostArray | None, str]:
    """Return checked positions (n,), numbers or times, and the name of the axis."""
    if x is None:
        return None, "row"
    try:
        times = np.asarray(getattr(x, "values", x))
    except (TypeError, ValueError):  # not an array: `as_array` reports why
        times = np.empty(0)
    if times.dtype.kind == "M":
        if times.ndim != 1 or np.isnat(times).any():
            raise ValueError(
                f"x has times of shape {times.shape}; times (n,) without NaT are needed"
            )
        return times, ""
    place = as_array(x, "x").astype(np.float64)
    if place.ndim == 2 and place.shape[1] == 1:
        place = place[:, 0]
    if place.ndim != 1 or not np.isfinite(place).all():
        raise ValueError(
            f"x has shape {place.shape}; finite values (n,) of one input are needed (for several inputs "
            "see plots.ordered_intervals)"
        )
    return place, "x"


def _rows(prediction: Any, place: HostArray | None) -> int:
    """Return the number of rows of a prediction without outcomes."""
    if place is not None:
        return len(place)
    if isinstance(prediction, Predictive):
        return len(prediction)
    if isinstance(prediction, tuple):
        return max(map(np.size, prediction))
    try:
        return len(prediction)
    except TypeError:
        raise TypeError(
            f"y and x are None and prediction is {quote(prediction)}, which has no length; x is needed"
        ) from None


def _with_gaps(place: HostArray, values: NDArray[np.float64]) -> tuple[Any, NDArray[np.float64]]:
    """Return positions (m,) and values (m, j) with a row of NaN inside each wide gap."""
    steps = np.diff(place)
    gaps = np.sort(steps[steps > 0 * steps])
    if not len(gaps):
        return place, values
    usual = gaps[len(gaps) // 2]
    wide = np.flatnonzero((steps > _WIDE * usual) & (steps > _SHARE * (place[-1] - place[0])))
    middles = place[wide] + steps[wide] / 2
    return np.insert(place, wide + 1, middles), np.insert(values, wide + 1, np.nan, axis=0)


def ordered_intervals(
    y: ArrayLike,
    prediction: PredictionLike,
    ax: Axes | None = None,
    level: float = 0.95,
    order: str = "outcome",
    points: int = 150,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot central intervals and outcomes side by side, in order; intervals that miss stand out.

    Parameters
    ----------
    y : array_like (n,)
        Observed outputs.
    prediction : Predictive, draws (n, m), (mean, std), scipy.stats or torch.distributions object
        Predicted distributions.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    level : float
        Probability of the intervals.
    order : {"outcome", "median", "width"}
        What rows are ordered by, from left to right.
    points : int
        Largest number of rows, drawn at random with a fixed seed. The title counts all rows.
    label : str, optional
        Label of the intervals.
    colour : str
        Colour of intervals that hold the outcome.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest, fastmcmd as fm
    >>> _ = pytest.importorskip("matplotlib")
    >>> y = np.linspace(-1.5, 1.5, 50)
    >>> fm.plots.ordered_intervals(y, (np.zeros(50), 1.0)).get_title()
    '100.0% of 50 outcomes in the central 95%'
    """
    level, points = check_level(level), check_count(points, "points")
    check_choice(order, "order", ("outcome", "median", "width"))
    rows = read(y, prediction)
    low, middle, high = rows.prediction.quantile([(1 - level) / 2, 0.5, (1 + level) / 2]).T
    inside = (low <= rows.y) & (rows.y <= high)
    key = {"outcome": rows.y, "median": middle, "width": high - low}[order]
    plotted_rows = some(len(key), points)
    plotted_rows = plotted_rows[np.argsort(key[plotted_rows], kind="stable")]
    ax = axes(ax)
    place = np.arange(len(plotted_rows))
    for part, tint, legend_label, alpha in (
        (inside[plotted_rows], colour, label or "interval holds the outcome", 0.4),
        (~inside[plotted_rows], COLOURS[1], "interval misses it", 0.9),
    ):
        if part.any():
            ax.vlines(place[part], low[plotted_rows][part], high[plotted_rows][part], color=tint,
                      alpha=alpha, linewidth=1.6, label=legend_label)  # fmt: skip
    ax.plot(place, rows.y[plotted_rows], ".", color=_INK, markersize=4, label="outcome", zorder=3)
    key_name = {"outcome": "outcome", "median": "predicted median", "width": "width"}[order]
    ax.set(xlabel=f"rows in order of {key_name}", ylabel="y", xticks=[])
    ax.set_title(f"{inside.mean():.1%} of {len(inside):,} outcomes in the central {100 * level:g}%",
                 fontsize="medium")  # fmt: skip
    return finish(ax, "intervals")
